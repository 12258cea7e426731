"""Blocks of change data: those of real Hudi byte for byte, and rows of other schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode, logging_mode_of
from hoodie.common.table.cdc.cdc_schemas import cdc_schema
from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException
from hoodie.io.log.cdc_block import change_schema, decode_cdc_block, encode_cdc_blocks
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks

ROWS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int32())])
AVRO = to_avro(ROWS, "t_record", "hoodie.t")
INSTANT = "20260102030405678"
MODES = tuple(HoodieCDCSupplementalLoggingMode)


def changes() -> pa.RecordBatch:
    """An insert, an update and a delete."""
    return pa.RecordBatch.from_pylist(
        [
            {"op": "i", "record_key": "a", "before": None, "after": {"id": "a", "n": 1}},
            {"op": "u", "record_key": "b", "before": {"id": "b", "n": 2}, "after": {"id": "b", "n": None}},
            {"op": "d", "record_key": "c", "before": {"id": "c", "n": 3}, "after": None},
        ],
        schema=change_schema(ROWS),
    )


def blocks_of(mode: HoodieCDCSupplementalLoggingMode, max_block_bytes: int = 1 << 20) -> list[HoodieLogBlock]:
    """The blocks of `changes`."""
    content = b"".join(encode_cdc_blocks(changes(), AVRO, INSTANT, mode, max_block_bytes))
    return list(read_log_blocks(content, "f.cdc"))


def test_blocks_of_hudi_are_read_and_written_byte_for_byte(serviced_tables: Path) -> None:
    seen = set()
    for path in serviced_tables.rglob(".*.cdc"):
        table = serviced_tables / path.relative_to(serviced_tables).parts[0]
        properties = next(one for one in table.rglob("hoodie.properties") if "metadata" not in one.parts)
        lines = properties.read_text().splitlines()
        mode = logging_mode_of(dict(line.split("=", 1) for line in lines if "=" in line))
        assert mode is not None
        (block,) = read_log_blocks(path.read_bytes(), path.name)
        assert block.schema is not None
        record = json.loads(block.schema)
        avro_schema = AVRO
        for field in record["fields"]:
            if field["name"] == "before":
                avro_schema = json.dumps({**field["type"][1], "namespace": record["namespace"]})
        found = decode_cdc_block(block, to_arrow(avro_schema))
        (again,) = read_log_blocks(
            b"".join(encode_cdc_blocks(found, avro_schema, str(block.instant_time), mode)), "again"
        )
        assert found.num_rows and again.content == block.content
        # Hudi 0.15 leaves out the empty text about the record.
        assert json.loads(str(again.schema)) == {**record, **({"doc": ""} if record["name"] == "CDC" else {})}
        seen.add((mode, table.name[:2]))
    assert {mode for mode, _ in seen} == set(MODES) and {version for _, version in seen} == {"v6", "v8", "v9"}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_keeps_what_it_stores(mode: HoodieCDCSupplementalLoggingMode) -> None:
    (block,) = blocks_of(mode)
    assert block.block_type is HoodieLogBlockType.CDC_DATA and block.instant_time == INSTANT
    assert block.schema == cdc_schema(mode, AVRO)
    expected = changes().to_pylist()
    for row in expected:
        if mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER:
            row["record_key"] = None
        else:
            row["after"] = None
        if mode is HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY:
            row["before"] = None
    assert decode_cdc_block(block, ROWS).to_pylist() == expected


def test_large_changes_take_several_blocks() -> None:
    blocks = blocks_of(HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER, max_block_bytes=1)
    assert len(blocks) == 3
    assert [row for block in blocks for row in decode_cdc_block(block, ROWS)["op"].to_pylist()] == ["i", "u", "d"]
    assert not list(encode_cdc_blocks(changes().slice(0, 0), AVRO, INSTANT, MODES[0]))


def test_changes_are_read_in_the_columns_that_the_table_has_now() -> None:
    (block,) = blocks_of(HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER)
    now = pa.schema([("n", pa.int64()), ("more", pa.string())])
    found = decode_cdc_block(block, now)
    assert found.schema == change_schema(now)
    assert found["before"].to_pylist() == [None, {"n": 2, "more": None}, {"n": 3, "more": None}]


def test_meta_columns_are_no_part_of_the_schema_of_changes() -> None:
    with_meta = to_avro(ROWS, "t_record", "hoodie.t", with_meta_columns=True)
    for mode in MODES:
        assert cdc_schema(mode, with_meta) == cdc_schema(mode, AVRO)


def test_other_blocks_are_refused() -> None:
    (block,) = blocks_of(HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY)
    other = HoodieLogBlock(HoodieLogBlockType.AVRO_DATA, block.headers, "f", 0, block.content)
    with pytest.raises(HoodieCorruptedDataException, match="Cannot read changes of the block at byte 0 of f"):
        decode_cdc_block(other, ROWS)


def test_the_mode_of_a_table_is_read_in_any_case() -> None:
    enabled = {"hoodie.table.cdc.enabled": "TRUE"}
    mode = "hoodie.table.cdc.supplemental.logging.mode"
    assert logging_mode_of({}) is None
    assert logging_mode_of({mode: "data_before"}) is None
    assert logging_mode_of(enabled) is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER
    assert logging_mode_of({**enabled, mode: "op_key_only"}) is HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY
    with pytest.raises(HoodieConfigException, match=r"logging.mode=MUCH is no mode of change data"):
        logging_mode_of({**enabled, mode: "much"})
