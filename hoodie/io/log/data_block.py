"""Data blocks: rows as Avro records or as a Parquet file.

Hudi: org.apache.hudi.common.table.log.block.{HoodieAvroDataBlock, HoodieParquetDataBlock}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import StrEnum

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.columnar_block import decode_avro_block, decode_records_with, encode_avro_blocks
from hoodie.avro.schema_converters import to_arrow
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.util.arrow_buffers import indices_of
from hoodie.exception import HoodieCorruptedDataException, HoodieSchemaException
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import data_headers, encode_log_block
from hoodie.io.parquet.column_adaptation import adapt_batch, chosen_schema
from hoodie.io.parquet.parquet_bytes import encode_parquet, read_parquet, read_parquet_rows_with

MAX_BLOCK_BYTES = 256 << 20
"""The default of ``hoodie.logfile.data.block.max.size``."""
_COUNT = struct.Struct(">i")
_DEFAULT_CONFIG = HoodieStorageConfig()
_MOST_TEXTS = 8
"""The most texts that are looked for in the bytes of a block, one after the other."""


class LogBlockFormat(StrEnum):
    """Values of ``hoodie.logfile.data.block.format``."""

    AVRO = "avro"
    PARQUET = "parquet"


def encode_data_blocks(
    rows: pa.RecordBatch | pa.Table,
    avro_schema: str,
    instant_time: str,
    block_format: LogBlockFormat = LogBlockFormat.AVRO,
    max_block_bytes: int = MAX_BLOCK_BYTES,
    *,
    positions: npt.NDArray[np.int64] | None = None,
    positions_of: str | None = None,
    config: HoodieStorageConfig = _DEFAULT_CONFIG,
    compacted_instants: Sequence[str] = (),
) -> Iterator[bytes]:
    """Encode rows as data blocks; a log file is a sequence of blocks.

    Memory: the rows, and one block.

    Args:
        rows: The rows, with all columns of the schema, matched by name.
        avro_schema: Their schema as JSON, meta columns included, in the form that the table stores.
        instant_time: The delta commit that writes them.
        block_format: The format of the rows.
        max_block_bytes: The most bytes of a block's content; one row may take more.
        positions: For each row, its position in the base file; None to leave positions out. Rows are stored in the
            order of their positions. If two rows have one position, the blocks have none.
        positions_of: The instant of that base file; None only without positions.
        config: The encoding of Parquet.
        compacted_instants: See `data_headers`.

    Yields:
        Whole blocks; none without rows.

    Raises:
        HoodieSchemaException: A column is missing, has a type that differs from the schema, or is not nullable and has
            a null.
    """
    places = distinct_positions(positions)
    batch = _one_batch(rows)
    if places is not None:
        order = np.argsort(places, kind="stable")
        batch, places = take_rows(batch, indices_of(order)), places[order]
    first = 0
    for count, content in _contents(batch, avro_schema, block_format, max_block_bytes, config):
        some = places[first : first + count] if places is not None else None
        first += count
        headers = data_headers(instant_time, avro_schema, some, positions_of, compacted_instants)
        kind = HoodieLogBlockType.AVRO_DATA if block_format is LogBlockFormat.AVRO else HoodieLogBlockType.PARQUET_DATA
        yield encode_log_block(kind, headers, content)


def distinct_positions(positions: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64] | None:
    """Positions of records; None if two records have the same one, which a block cannot store."""
    if positions is None or len(np.unique(positions)) < len(positions):
        return None
    return positions


@attrs.frozen(eq=False)
class SomeRows:
    """Some rows of a data block.

    Attributes:
        rows: The rows.
        numbers: The number of each row in the block, ascending (int64).
        count: The number of all rows of the block.
    """

    rows: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    count: int


class DataBlockReader:
    """Reader of the rows of data blocks, in the columns and types of a query.

    Args:
        schema: The types to read columns in, meta columns included.
        columns: The columns of the rows, in this order; None for all of the schema.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> None:
        self._wanted = chosen_schema(schema, columns)
        self._written: dict[str, pa.Schema] = {}

    def written_schema(self, block: HoodieLogBlock) -> pa.Schema:
        """The columns of a block, in their stored types.

        Raises:
            HoodieCorruptedDataException: The block has no schema.
            HoodieSchemaException: The schema cannot be read.
        """
        if block.schema is None:
            raise HoodieCorruptedDataException(f"Cannot read records of {block.source}: it has no schema")
        if block.schema not in self._written:
            try:
                self._written[block.schema] = to_arrow(block.schema, with_meta_columns=True)
            except HoodieSchemaException as error:
                raise HoodieSchemaException(f"Cannot read records of {block.source}: {error}") from error
        return self._written[block.schema]

    def read(self, block: HoodieLogBlock) -> Iterator[pa.RecordBatch]:
        """The rows of a block, in the wanted columns. Columns that the block lacks are null.

        Args:
            block: A data block of Avro or Parquet.

        Raises:
            HoodieCorruptedDataException: The block is damaged.
            HoodieNotSupportedException: It has an old format of Hudi.
            HoodieSchemaException: A column cannot be read in the wanted type.
        """
        if block.block_type is HoodieLogBlockType.PARQUET_DATA:
            yield from read_parquet(block.content, block.source, self._wanted)
            return
        rows = decode_avro_block(block.content, str(block.schema), self._present(block), block.source)
        yield adapt_batch(rows, self._wanted, block.source)

    def read_rows_with(self, block: HoodieLogBlock, searched: ColumnValues) -> SomeRows:
        """The rows of a block that have one of some values as their record key or in another column, and perhaps
        others.

        Args:
            block: See `read`.
            searched: The values, and the other column.

        Raises:
            HoodieException: See `read`; other rows may be damaged.
        """
        if block.block_type is HoodieLogBlockType.PARQUET_DATA:
            columns = list(dict.fromkeys([RECORD_KEY_META, searched.column]))
            found, numbers, count = read_parquet_rows_with(
                block.content, block.source, self._wanted, searched.values, columns
            )
            return SomeRows(_one_batch(pa.Table.from_batches(found, self._wanted)), numbers, count)
        texts = [value.encode() for value in searched.values.to_pylist()]
        present = self._present(block)
        if len(texts) > _MOST_TEXTS or not all(texts):
            rows = decode_avro_block(block.content, str(block.schema), present, block.source)
            numbers, count = np.arange(rows.num_rows, dtype=np.int64), rows.num_rows
        else:
            rows, numbers, count = decode_records_with(block.content, texts, str(block.schema), present, block.source)
        return SomeRows(adapt_batch(rows, self._wanted, block.source), numbers, count)

    def _present(self, block: HoodieLogBlock) -> pa.Schema:
        """The wanted columns that an Avro block has, in its types; one column if it has none of them."""
        written = self.written_schema(block)
        wanted = set(self._wanted.names)
        return pa.schema([field for field in written if field.name in wanted] or list(written)[:1])


def _one_batch(rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch):
        return rows
    columns = [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _contents(
    rows: pa.RecordBatch,
    avro_schema: str,
    block_format: LogBlockFormat,
    max_block_bytes: int,
    config: HoodieStorageConfig,
) -> Iterator[tuple[int, bytes]]:
    """The contents of blocks, each with its number of rows."""
    if not rows.num_rows:
        return
    if block_format is LogBlockFormat.AVRO:
        for content in encode_avro_blocks(rows, avro_schema, max_block_bytes):
            yield _COUNT.unpack_from(content, _COUNT.size)[0], content
        return
    schema = to_arrow(avro_schema, with_meta_columns=True)
    stored = _in_schema(rows, schema)
    first, most = 0, max(1, int(stored.num_rows * max_block_bytes / max(1, stored.nbytes)))
    while first < stored.num_rows:
        piece = stored.slice(first, most)
        content = encode_parquet(piece, schema, config, avro_schema)
        if len(content) > max_block_bytes and piece.num_rows > 1:
            most = piece.num_rows // 2
            continue
        first += piece.num_rows
        yield piece.num_rows, content


def _in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the form that a Parquet writer accepts: in the types of a schema, or as dictionaries of them."""
    known = set(rows.schema.names)
    missing = [name for name in schema.names if name not in known]
    if missing:
        raise HoodieSchemaException(f"Cannot write a data block: the rows have no column {', '.join(missing)}")
    encoded = [
        field.name for field in schema if rows.schema.field(field.name).type == pa.dictionary(pa.int32(), field.type)
    ]
    return adapt_batch(rows, schema, "the rows of a data block", encoded)
