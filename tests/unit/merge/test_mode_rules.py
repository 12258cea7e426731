"""Which row wins by a merge mode: all cases of the tables that real Hudi 1.2.0 and hudi-rs read alike."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.merge.merge_modes import TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import MergeEntries, hard_deletes, later_log_entry_wins, later_row_wins, rules_of_mode
from hoodie.merge.payload_rules import MergeMode, PayloadRules
from hoodie.storage.local_storage import LocalStorage

EVENT = rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), True)
COMMIT = rules_of_mode(TableMerging(MergeMode.COMMIT_TIME_ORDERING), True)
CASES = 260


@attrs.frozen
class Entry:
    """What a log file says of a key: a row, or a delete with its ordering value (None: it has none)."""

    ordering: int | None
    is_delete: bool
    row: tuple[Any, ...] | None = None


# --- the content of log blocks ----------------------------------------------------------------------------------------


def decoded(block: HoodieLogBlock) -> Iterator[tuple[str, Entry]]:
    version, number = struct.unpack_from(">ii", block.content)
    assert version == 3
    if block.block_type is HoodieLogBlockType.DELETE:
        assert number == len(block.content) - 8
        yield from deletes_in(block.content[8:])
        return
    assert block.block_type is HoodieLogBlockType.AVRO_DATA
    schema = fastavro.parse_schema(json.loads(block.headers[HeaderMetadataType.SCHEMA]))
    position = 8
    for _ in range(number):
        (length,) = struct.unpack_from(">i", block.content, position)
        record = avro(block.content[position + 4 : position + 4 + length], schema)
        position += 4 + length
        yield record["id"], Entry(record["ts"], bool(record["_hoodie_is_deleted"]), (record["ts"], record["fare"]))


def deletes_in(content: bytes) -> Iterator[tuple[str, Entry]]:
    wrappers = [
        {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": kind}]}
        for name, kind in (("Boolean", "boolean"), ("Int", "int"), ("Long", "long"))
    ]
    text = ["null", "string"]
    record = {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "fields": [
            {"name": "recordKey", "type": text},
            {"name": "partitionPath", "type": text},
            {"name": "orderingVal", "type": ["null", *wrappers]},
        ],
    }
    items = {"type": "array", "items": record}
    schema = {"type": "record", "name": "L", "fields": [{"name": "deleteRecordList", "type": items}]}
    for found in avro(content, fastavro.parse_schema(schema), return_record_name=True)["deleteRecordList"]:
        kind, value = found["orderingVal"]
        is_none = kind == "IntWrapper" and value["value"] == 0
        yield found["recordKey"], Entry(None if is_none else value["value"], True)


def avro(content: bytes, schema: Any, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = fastavro.schemaless_reader(io.BytesIO(content), schema, **options)
    return found


# --- merging ----------------------------------------------------------------------------------------------------------


def entries(*groups: list[Entry]) -> list[MergeEntries]:
    return MergeEntries.of(
        [pa.array([entry.ordering for entry in group], pa.int64()) for group in groups],
        [np.array([entry.is_delete for entry in group], dtype=np.bool_) for group in groups],
    )


def apply_block(rules: PayloadRules, found: dict[str, Entry], block: HoodieLogBlock) -> None:
    """Merge the entries of a block with those before it."""
    new = dict(decoded(block))
    pairs = [(key, found[key], entry) for key, entry in new.items() if key in found]
    found |= {key: entry for key, entry in new.items() if key not in found}
    if pairs:
        older, newer = entries([pair[1] for pair in pairs], [pair[2] for pair in pairs])
        in_delete_block = np.full(len(pairs), block.block_type is HoodieLogBlockType.DELETE)
        wins = later_log_entry_wins(rules, older, newer, in_delete_block)
        found |= {key: entry for (key, _, entry), is_newer in zip(pairs, wins, strict=True) if is_newer}


@pytest.mark.parametrize("mode", ["EVENT", "COMMIT"])
def test_all_sequences_of_rows_and_deletes_end_as_in_real_hudi(later_tables: Path, mode: str) -> None:
    (meta,) = (later_tables / f"hcase_{mode}").rglob(".hoodie")
    table = meta.parent
    spec = MergeSpec.from_table_config(HoodieTableConfig.load(LocalStorage(str(table)), str(table)))
    assert spec.rules.by_mode and spec.rules.mode is MergeMode(f"{mode}_TIME_ORDERING")
    first = min((table / "p0").glob("*.parquet"), key=lambda path: path.stem.rpartition("_")[2])
    base = {row["id"]: Entry(row["ts"], False, (row["ts"], row["fare"])) for row in pq.read_table(first).to_pylist()}
    found: dict[str, Entry] = {}
    for file in sorted((table / "p0").glob(".*.log.*"), key=lambda path: path.name.partition(".log.")[0][-17:]):
        for block in read_log_blocks(file.read_bytes(), file.name):
            apply_block(spec.rules, found, block)
    keys = sorted(base)
    assert len(keys) == CASES and set(found) <= set(keys)
    older, newer = entries([base[key] for key in found], [found[key] for key in found])
    wins = dict(zip(found, later_row_wins(spec.rules, older, newer), strict=True))
    mine = {key: found[key] if wins.get(key) else base[key] for key in keys}
    expected = pq.read_table(later_tables / "rows" / f"hcase_{mode}.parquet").to_pylist()
    assert {key: entry.row for key, entry in mine.items() if not entry.is_delete} == {
        row["id"]: (row["ts"], row["fare"]) for row in expected
    }
    assert 50 < len(expected) < CASES - 50


# --- rules that these tables do not show ------------------------------------------------------------------------------

ROW, DELETE, HARD = (lambda value: Entry(value, False)), (lambda value: Entry(value, True)), Entry(None, True)


@pytest.mark.parametrize(
    ("older", "newer", "in_a_row", "in_a_delete_block", "over_a_base_row"),
    [
        (ROW(10), ROW(9), False, None, False),
        (ROW(10), ROW(10), True, None, True),
        (ROW(10), DELETE(9), False, False, False),
        (ROW(10), DELETE(10), True, True, True),
        (ROW(10), HARD, True, True, True),
        (HARD, ROW(1), True, None, True),
        # The later of two deletes in a delete block does not replace a hard one.
        (HARD, DELETE(1), True, False, True),
        (HARD, HARD, True, False, True),
        (ROW(10), ROW(None), False, None, False),
        (ROW(None), ROW(-5), True, None, True),
    ],
)
def test_one_case(
    older: Entry, newer: Entry, in_a_row: bool, in_a_delete_block: bool | None, over_a_base_row: bool
) -> None:
    old, new = entries([older], [newer])
    assert later_log_entry_wins(EVENT, old, new, np.array([False])).tolist() == [in_a_row]
    if in_a_delete_block is not None:
        assert later_log_entry_wins(EVENT, old, new, np.array([True])).tolist() == [in_a_delete_block]
    assert later_row_wins(EVENT, old, new).tolist() == [over_a_base_row]
    for block in (False, True):
        assert later_log_entry_wins(COMMIT, old, new, np.array([block])).tolist() == [True]
    assert later_row_wins(COMMIT, old, new).tolist() == [True]


def test_a_row_with_the_int_0_that_asks_for_a_delete_is_a_hard_delete() -> None:
    values = [0, 1, None]
    for data_type, expected in ((pa.int32(), [True, False, False]), (pa.int64(), [False] * 3)):
        rows = pa.record_batch({"ts": pa.array(values, data_type), "b": pa.array(values, data_type)})
        assert hard_deletes(rows, ["ts"]).tolist() == expected
        assert hard_deletes(rows, ["ts", "b"]).tolist() == [False] * 3
        assert hard_deletes(rows, []).tolist() == [False] * 3


def test_event_time_without_an_ordering_field_goes_by_commit_time() -> None:
    rules = rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), False)
    old, new = entries([ROW(10)], [ROW(1)])
    assert later_row_wins(rules, old, new).tolist() == [True]
