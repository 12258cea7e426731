"""Data blocks: rows to blocks and back, in both formats, and in the columns and types of a query."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.common.config.storage_config import HoodieStorageConfig, ParquetCompression
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    SchemaCompatibilityException,
)
from hoodie.io.log.data_block import DataBlockReader, LogBlockFormat, encode_data_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_log_block, encode_rollback_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.record_positions import decode_positions
from tests.support.log_files import log_files_in

PATH = "/t/p/.f-0_001.log.1_0-1-0"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("number", pa.int32()),
        ("price", pa.float32()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *COLUMNS])
AVRO = to_avro(COLUMNS, "r", "ns", with_meta_columns=True)
BOTH = pytest.mark.parametrize("block_format", list(LogBlockFormat))


def rows(count: int) -> pa.RecordBatch:
    meta = [pa.array([f"{name}-{row}" for row in range(count)]) for name in META_COLUMNS]
    columns = [
        pa.array([f"key{row}" for row in range(count)]),
        pa.array([None if row % 3 == 0 else row for row in range(count)], pa.int32()),
        pa.array([row / 10 for row in range(count)], pa.float32()),
        pa.array([[str(row)] * (row % 4) for row in range(count)], pa.list_(pa.string())),
        pa.array(range(count), pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays([*meta, *columns], schema=SCHEMA)


def blocks(batch: pa.RecordBatch | pa.Table, block_format: LogBlockFormat, **options: Any) -> list[HoodieLogBlock]:
    parts = encode_data_blocks(batch, AVRO, "001", block_format, **options)
    return [block for part in parts for block in read_log_blocks(part, PATH)]


def read(found: list[HoodieLogBlock], schema: pa.Schema = SCHEMA, columns: list[str] | None = None) -> pa.Table:
    reader = DataBlockReader(schema, columns)
    batches = [batch for block in found for batch in reader.read(block)]
    return pa.Table.from_batches(batches)


# --- as real Hudi writes them -----------------------------------------------------------------------------------------


def test_every_block_of_real_tables_is_read_and_avro_blocks_get_the_same_bytes_again(
    shared_tables: Path, later_tables: Path
) -> None:
    found: Counter[str] = Counter()
    for folder in (shared_tables, later_tables):
        for path in log_files_in(folder):
            data = path.read_bytes()
            parts = list(read_log_blocks(data, str(path)))
            assert b"".join(encode_log_block(b.block_type, b.headers, b.content) for b in parts) == data
            for block in parts:
                if block.block_type is HoodieLogBlockType.AVRO_DATA:
                    assert block.schema is not None
                    (batch,) = DataBlockReader(to_arrow(block.schema, with_meta_columns=True)).read(block)
                    (again,) = encode_data_blocks(batch, block.schema, "001")
                    assert next(read_log_blocks(again, PATH)).content == block.content
                    found["avro"] += batch.num_rows
                elif block.block_type is HoodieLogBlockType.PARQUET_DATA:
                    assert block.schema is not None
                    schema = to_arrow(block.schema, with_meta_columns=True)
                    table = read([block], schema)
                    parts_again = encode_data_blocks(table, block.schema, "001", LogBlockFormat.PARQUET)
                    (again_block,) = read_log_blocks(next(parts_again), PATH)
                    assert read([again_block], schema).equals(table)
                    found["parquet"] += table.num_rows
    assert found["avro"] > 1000 and found["parquet"] > 10


def test_a_rollback_block_has_the_bytes_of_hudi() -> None:
    data = encode_rollback_block("20240102030405678", "20240102030405001")
    assert len(data) == 105
    (block,) = read_log_blocks(data, PATH)
    assert block.block_type is HoodieLogBlockType.COMMAND and block.content == b""
    assert block.headers == {
        HeaderMetadataType.COMMAND_BLOCK_TYPE: "0",
        HeaderMetadataType.INSTANT_TIME: "20240102030405678",
        HeaderMetadataType.TARGET_INSTANT_TIME: "20240102030405001",
    }


# --- rows to blocks and back ------------------------------------------------------------------------------------------


@BOTH
def test_rows_come_back(block_format: LogBlockFormat) -> None:
    batch = rows(1000)
    (block,) = blocks(batch, block_format)
    assert block.headers == {HeaderMetadataType.INSTANT_TIME: "001", HeaderMetadataType.SCHEMA: AVRO}
    assert read([block]).equals(pa.Table.from_batches([batch]))


@BOTH
def test_columns_are_taken_by_name_from_tables_of_chunks(block_format: LogBlockFormat) -> None:
    batch = rows(10)
    mixed = pa.concat_tables([pa.table(batch.slice(0, 4)), pa.table(batch.slice(4))]).select(SCHEMA.names[::-1])
    assert read(blocks(mixed, block_format)).equals(pa.table(batch))
    assert read(blocks(mixed.slice(2, 5), block_format)).equals(pa.table(batch).slice(2, 5))


@BOTH
def test_dictionaries_are_stored_as_their_values(block_format: LogBlockFormat) -> None:
    batch = rows(10)
    encoded = batch.set_column(0, META_COLUMNS[0], batch.column(0).dictionary_encode())
    assert read(blocks(encoded, block_format)).equals(pa.table(batch))


@BOTH
def test_no_rows_make_no_block(block_format: LogBlockFormat) -> None:
    assert blocks(rows(0), block_format) == []


@BOTH
def test_a_block_is_no_larger_than_asked(block_format: LogBlockFormat) -> None:
    batch = rows(3000)
    limit = 60_000 if block_format is LogBlockFormat.AVRO else 30_000
    found = blocks(batch, block_format, max_block_bytes=limit)
    assert len(found) > 2
    assert max(len(block.content) for block in found) <= limit
    assert read(found).equals(pa.table(batch))
    assert len(blocks(rows(3), block_format, max_block_bytes=1)) == 3


@BOTH
def test_rows_are_stored_in_the_order_of_their_positions(block_format: LogBlockFormat) -> None:
    batch, positions = rows(200), np.random.default_rng(1).permutation(1000)[:200]
    found = blocks(batch, block_format, max_block_bytes=15_000, positions=positions, positions_of="000")
    assert len(found) > 1
    assert read(found).equals(pa.table(batch.take(pa.array(np.argsort(positions)))))
    headers = [block.headers[HeaderMetadataType.RECORD_POSITIONS] for block in found]
    counts = [read([block]).num_rows for block in found]
    stored = [decode_positions(header, count) for header, count in zip(headers, counts, strict=True)]
    assert np.concatenate(stored).tolist() == sorted(positions.tolist())


@BOTH
def test_positions_that_two_rows_share_are_left_out(block_format: LogBlockFormat) -> None:
    (block,) = blocks(rows(3), block_format, positions=np.array([5, 1, 5]), positions_of="000")
    assert HeaderMetadataType.RECORD_POSITIONS not in block.headers
    assert read([block]).equals(pa.table(rows(3)))


@BOTH
def test_rows_that_do_not_fit_the_schema_are_refused(block_format: LogBlockFormat) -> None:
    batch = rows(3)
    with pytest.raises(HoodieSchemaException, match="number"):
        blocks(batch.drop_columns(["number"]), block_format)
    nulls = batch.set_column(5, pa.field("id", pa.string()), pa.array(["a", None, "c"]))
    with pytest.raises(HoodieSchemaException, match="id"):
        blocks(nulls, block_format)
    texts = batch.set_column(6, "number", pa.array(["a", "b", "c"]))
    with pytest.raises(HoodieSchemaException, match="number"):
        blocks(texts, block_format)


def test_parquet_blocks_have_the_codec_of_the_configuration() -> None:
    batch = rows(2000)
    sizes = [
        len(
            blocks(batch, LogBlockFormat.PARQUET, config=HoodieStorageConfig(parquet_compression_codec=codec))[
                0
            ].content
        )
        for codec in (ParquetCompression.GZIP, ParquetCompression.SNAPPY)
    ]
    assert sizes[0] < sizes[1]


# --- other columns and types ------------------------------------------------------------------------------------------


@BOTH
def test_only_the_columns_wanted_come_in_their_order_and_missing_ones_are_null(block_format: LogBlockFormat) -> None:
    found = blocks(rows(3), block_format)
    wanted = pa.schema([*SCHEMA, ("later", pa.int64())])
    table = read(found, wanted, ["later", "id"])
    assert table.to_pydict() == {"later": [None] * 3, "id": ["key0", "key1", "key2"]}
    assert read(found, wanted, ["later"]).to_pydict() == {"later": [None] * 3}


@BOTH
def test_columns_are_widened_as_those_of_base_files(block_format: LogBlockFormat) -> None:
    found = blocks(rows(3), block_format)
    wanted = pa.schema([("number", pa.int64()), ("price", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))])
    table = read(found, wanted)
    assert table.schema == wanted
    # The same digits, not the same bits.
    assert table["price"].to_pylist() == [0.0, 0.1, 0.2]
    assert read(found, pa.schema([("number", pa.string())]))["number"].to_pylist() == [None, "1", "2"]


@BOTH
def test_a_type_that_does_not_fit_is_refused_with_column_and_block(block_format: LogBlockFormat) -> None:
    (block,) = blocks(rows(3), block_format)
    with pytest.raises(SchemaCompatibilityException, match=r"block at byte 0 of .*column id is string"):
        read([block], pa.schema([("id", pa.int32())]))


# --- damaged ----------------------------------------------------------------------------------------------------------


@BOTH
def test_content_that_ends_anywhere_is_refused_by_place(block_format: LogBlockFormat) -> None:
    (block,) = blocks(rows(3), block_format)
    for length in range(len(block.content)):
        torn = HoodieLogBlock(block.block_type, block.headers, PATH, 17, block.content[:length])
        with pytest.raises(HoodieCorruptedDataException, match=f"the block at byte 17 of {PATH}"):
            read([torn])


@BOTH
def test_any_changed_byte_is_read_or_refused_and_never_another_error(block_format: LogBlockFormat) -> None:
    (block,) = blocks(rows(5), block_format)
    rng = np.random.default_rng(7)
    for place in rng.integers(0, len(block.content), 400).tolist():
        changed = block.content[:place] + bytes([rng.integers(256)]) + block.content[place + 1 :]
        try:
            read([HoodieLogBlock(block.block_type, block.headers, PATH, 17, changed)])
        except HoodieException as error:
            assert PATH in str(error)


def test_a_block_without_a_schema_or_with_a_bad_one_is_refused() -> None:
    (block,) = blocks(rows(3), LogBlockFormat.AVRO)
    with pytest.raises(HoodieCorruptedDataException, match="no schema"):
        read([HoodieLogBlock(block.block_type, {0: "001"}, PATH, 17, block.content)])
    for schema in ("", "{}", '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "no"}]}'):
        with pytest.raises(HoodieSchemaException, match="the block at byte 17"):
            read([HoodieLogBlock(block.block_type, {0: "001", 2: schema}, PATH, 17, block.content)])


def test_old_avro_blocks_are_refused() -> None:
    (block,) = blocks(rows(3), LogBlockFormat.AVRO)
    for version in (1, 2, 4):
        content = version.to_bytes(4, "big") + block.content[4:]
        with pytest.raises(HoodieNotSupportedException, match=f"version {version}"):
            read([HoodieLogBlock(block.block_type, block.headers, PATH, 17, content)])
