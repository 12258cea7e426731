"""Records of one key become one, beside a plain loop over them and beside compactions of real Hudi."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.records.record_merging import merge_records
from tests.support.metadata_table_files import StoredRecords

KEYS = st.sampled_from(["a", "b", "é", "\U0001f600", "z"])
FILES = st.dictionaries(st.sampled_from(["f", "g", "h"]), st.none() | st.integers(1, 9), max_size=3)
COUNTS = st.integers(0, 5)
RANGES = st.one_of(
    st.none(),
    st.tuples(st.just(3), st.integers(-5, 5), st.integers(-5, 5)),
    st.tuples(
        st.just(5), st.sampled_from([-math.inf, -1.5, 0.5, 2.0, math.nan]), st.sampled_from([-1.5, 2.0, math.nan])
    ),
)
STATS = st.tuples(st.sampled_from(["deleted", "tight", "loose", "loose"]), RANGES, COUNTS)


def merged(
    payload: MetadataPayload, keys: list[str], rows: list[dict[str, Any]], gone: Iterable[bool], *, drop: bool
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    batch = pa.RecordBatch.from_pylist(rows, schema=payload.schema)
    found = merge_records(
        payload, pa.array(keys, pa.string()), batch, np.array(list(gone), np.bool_), drop_tombstones=drop
    )
    names = found.keys.to_pylist()
    assert names == sorted(names, key=str.encode)
    assert found.rows.schema == payload.schema
    assert len(set(names)) == len(names)
    return dict(zip(names, found.rows.to_pylist(), strict=True)), set(found.deleted_keys.to_pylist())


# --- files ------------------------------------------------------------------------------------------------------------


def folded_files(older: dict[str, int | None] | None, newer: dict[str, int | None]) -> dict[str, int | None]:
    """The files of both, None for a deleted one."""
    found = dict(older or {})
    for name, size in newer.items():
        if size is None:
            if found.get(name) is None:
                found[name] = None
            else:
                del found[name]
        else:
            found[name] = max(size, found.get(name) or 0)
    return found


def info(size: int | None) -> dict[str, Any]:
    return {"size_bytes": size or 0, "is_deleted": size is None}


@given(st.lists(st.tuples(KEYS, st.none() | FILES), max_size=25), st.booleans())
def test_files_are_listed_until_they_are_deleted(steps: list[tuple[str, Any]], drop: bool) -> None:
    expected: dict[str, dict[str, int | None]] = {}
    last_gone: dict[str, bool] = {}
    for key, files in steps:
        last_gone[key] = files is None
        if files is None:
            expected.pop(key, None)
        else:
            expected[key] = folded_files(expected.get(key), files)
    if drop:
        expected = {key: {n: s for n, s in files.items() if s is not None} for key, files in expected.items()}
    rows = [{"type": 2, "files": [(name, info(size)) for name, size in (files or {}).items()]} for _, files in steps]
    found, deleted = merged(
        MetadataPayload.FILES, [key for key, _ in steps], rows, [files is None for _, files in steps], drop=drop
    )
    listed = {
        key: {name: None if entry["is_deleted"] else entry["size_bytes"] for name, entry in row["files"]}
        for key, row in found.items()
    }
    assert listed == expected
    assert deleted == (set() if drop else {key for key, gone in last_gone.items() if gone})


# --- column statistics ------------------------------------------------------------------------------------------------


def larger(one: Any, other: Any) -> Any:
    return one if other is None or (one is not None and (math.isnan(one) or one >= other)) else other


def smaller(one: Any, other: Any) -> Any:
    return one if other is None or (one is not None and (math.isnan(other) or one <= other)) else other


def folded_stats(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    if older["deleted"] or newer["deleted"] or newer["tight"]:
        return newer
    kinds = [row["kind"] for row in (older, newer) if row["kind"] is not None]
    return {
        **newer,
        "kind": max(kinds, default=None),
        "low": smaller(older["low"], newer["low"]),
        "high": larger(older["high"], newer["high"]),
        "count": older["count"] + newer["count"],
    }


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row, with NaN equal to itself."""
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in row.values())


@given(st.lists(st.tuples(KEYS, st.none() | STATS), max_size=25), st.booleans())
def test_ranges_of_columns_are_united_unless_they_are_replaced(steps: list[tuple[str, Any]], drop: bool) -> None:
    expected: dict[str, dict[str, Any]] = {}
    last_gone: dict[str, bool] = {}
    rows = []
    for key, step in steps:
        last_gone[key] = step is None
        if step is None:
            expected.pop(key, None)
            rows.append({"type": 3})
            continue
        state, ends, count = step
        branch, low, high = ends or (None, None, None)
        row = {
            "deleted": state == "deleted",
            "tight": state == "tight",
            "kind": branch,
            "low": low,
            "high": high,
            "count": count,
        }
        expected[key] = folded_stats(expected[key], row) if key in expected else row
        column = "integer" if branch == 3 else "floating"
        rows.append({
            "type": 3, "file_name": "f", "column_name": "c",
            "is_deleted": row["deleted"], "is_tight_bound": row["tight"],
            "min_value": None if ends is None else {"branch": branch, column: low},
            "max_value": None if ends is None else {"branch": branch, column: high},
            "value_count": count, "null_count": 1, "total_size": 0, "total_uncompressed_size": 0,
        })  # fmt: skip
    gone = [step is None for _, step in steps]
    found, deleted = merged(MetadataPayload.COLUMN_STATS, [key for key, _ in steps], rows, gone, drop=drop)
    if drop:
        expected = {key: row for key, row in expected.items() if not row["deleted"]}
    made = {}
    for key, row in found.items():
        ends = [row["min_value"], row["max_value"]]
        low, high = (None if end is None else end["integer"] if end["branch"] == 3 else end["floating"] for end in ends)
        assert len({None if end is None else end["branch"] for end in ends}) == 1
        kind = None if ends[0] is None else ends[0]["branch"]
        made[key] = {
            "deleted": row["is_deleted"],
            "tight": row["is_tight_bound"],
            "kind": kind,
            "low": low,
            "high": high,
            "count": row["value_count"],
        }
    assert {key: shown(row) for key, row in made.items()} == {key: shown(row) for key, row in expected.items()}
    assert deleted == (set() if drop else {key for key, gone in last_gone.items() if gone})


# --- the newest -------------------------------------------------------------------------------------------------------


def stats_row(step: Any) -> dict[str, Any]:
    """A record of column statistics, of `STATS`; None for a deleted key."""
    if step is None:
        return {"type": 3}
    state, ends, count = step
    column = "integer" if ends is not None and ends[0] == 3 else "floating"
    low, high = (None if ends is None else {"branch": ends[0], column: end} for end in (ends or (0, 0, 0))[1:])
    return {
        "type": 3, "file_name": "f", "column_name": "c",
        "is_deleted": state == "deleted", "is_tight_bound": state == "tight",
        "min_value": low, "max_value": high,
        "value_count": count, "null_count": 1, "total_size": 0, "total_uncompressed_size": 0,
    }  # fmt: skip


@given(st.data(), st.sampled_from([MetadataPayload.FILES, MetadataPayload.COLUMN_STATS]))
def test_newer_records_merge_alike_with_older_ones_and_with_what_these_were_merged_to(
    data: st.DataObject, payload: MetadataPayload
) -> None:
    steps = data.draw(
        st.lists(st.tuples(KEYS, st.none() | (FILES if payload is MetadataPayload.FILES else STATS)), max_size=25)
    )
    split = data.draw(st.integers(0, len(steps)))
    if payload is MetadataPayload.FILES:
        rows = [{"type": 2, "files": [(name, info(size)) for name, size in (one or {}).items()]} for _, one in steps]
    else:
        rows = [stats_row(one) for _, one in steps]
    keys, gone = [key for key, _ in steps], [one is None for _, one in steps]
    whole, _ = merged(payload, keys, rows, gone, drop=True)
    older, _ = merged(payload, keys[:split], rows[:split], gone[:split], drop=True)
    later, _ = merged(
        payload, [*older, *keys[split:]], [*older.values(), *rows[split:]],
        [*(False for _ in older), *gone[split:]], drop=True,
    )  # fmt: skip
    assert {key: repr(row) for key, row in later.items()} == {key: repr(row) for key, row in whole.items()}


@pytest.mark.parametrize("payload", [MetadataPayload.SECONDARY_INDEX, MetadataPayload.BLOOM_FILTER])
@given(st.lists(st.tuples(KEYS, st.sampled_from(["gone", "deleted", "live"])), max_size=20), st.booleans())
def test_the_newest_of_other_records_wins(payload: MetadataPayload, steps: list[tuple[str, str]], drop: bool) -> None:
    last = {key: (place, state) for place, (key, state) in enumerate(steps)}
    rows = [{"type": place, "is_deleted": state == "deleted"} for place, (_, state) in enumerate(steps)]
    found, deleted = merged(
        payload, [key for key, _ in steps], rows, [state == "gone" for _, state in steps], drop=drop
    )
    left = {"live"} if drop else {"live", "deleted"}
    assert {key: row["type"] for key, row in found.items()} == {k: p for k, (p, state) in last.items() if state in left}
    assert deleted == (set() if drop else {key for key, (_, state) in last.items() if state == "gone"})


def test_entries_of_a_record_index_have_no_tombstones_of_their_own() -> None:
    rows = [{"type": 5, "file_id": file_id} for file_id in ("f", "g", "h")]
    found, deleted = merged(MetadataPayload.RECORD_INDEX, ["a", "b", "a"], rows, [False, True, False], drop=True)
    assert ({key: row["file_id"] for key, row in found.items()}, deleted) == ({"a": "h"}, set())


# --- compactions of real Hudi -----------------------------------------------------------------------------------------


def comparable(payload: MetadataPayload, row: dict[str, Any]) -> dict[str, Any]:
    """A row without what the compactions of Hudi change: the order of files, and the wrappers of dates and decimals."""
    if payload is MetadataPayload.FILES:
        return {**row, "files": sorted(row["files"])}
    if payload is MetadataPayload.COLUMN_STATS:
        ends = {
            name: row[name] and {k: v for k, v in row[name].items() if k != "branch"}
            for name in ("min_value", "max_value")
        }
        return {**row, **ends}
    return row


def test_merging_log_blocks_gives_what_compactions_of_real_hudi_wrote(real_records: list[StoredRecords]) -> None:
    """In a table of version 6 the log files before a compaction are those whose names have an older base instant."""
    compared = dict.fromkeys(MetadataPayload, 0)
    groups: dict[tuple[str, str], list[StoredRecords]] = {}
    for records in real_records:
        if records.table_version == 6 and ".hoodie/metadata" in str(records.path):
            groups.setdefault((str(records.path.parent), records.file_id), []).append(records)
    for group in groups.values():
        bases = sorted((records for records in group if records.instant_time is None), key=base_instant)
        for base in bases:
            inputs = [records for records in group if is_before(records, base, bases)]
            payload = MetadataPayload.of(kind_of(base).record_types[-1])
            if not any(records.instant_time for records in inputs) or payload is MetadataPayload.RECORD_INDEX:
                continue
            inputs.sort(key=lambda records: (records.instant_time is not None, log_version(records)))
            batches = [decode_values(records.values, records.schema, payload) for records in inputs]
            rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
            keys = pa.concat_arrays([records.keys for records in inputs])
            found = merge_records(payload, keys, rows, drop_tombstones=False)
            expected = decode_values(base.values, base.schema, payload).to_pylist()
            made = dict(zip(found.keys.to_pylist(), found.rows.to_pylist(), strict=True))
            wanted = dict(zip(base.keys.to_pylist(), expected, strict=True))
            assert {k: comparable(payload, row) for k, row in made.items()} == {
                k: comparable(payload, row) for k, row in wanted.items()
            }, base.path
            compared[payload] += len(wanted)
    assert compared[MetadataPayload.FILES] > 10
    assert compared[MetadataPayload.COLUMN_STATS] > 50


def base_instant(records: StoredRecords) -> str:
    """The instant in the name of a base file, or of the slice of a log file."""
    name = records.path.name.split(".hfile")[0].split(".log.")[0]
    return name.rpartition("_")[2]


def log_version(records: StoredRecords) -> int:
    name = records.path.name
    return int(name.split(".log.")[1].split("_")[0]) if ".log." in name else 0


def kind_of(records: StoredRecords) -> MetadataPartitionType:
    kind = MetadataPartitionType.of_path(records.partition)
    assert kind is not None
    return kind


def is_before(records: StoredRecords, base: StoredRecords, bases: list[StoredRecords]) -> bool:
    """Whether records belong to the slice that a base file was compacted from."""
    older = [other for other in {base_instant(found) for found in bases} if other < base_instant(base)]
    slices = {base_instant(records)}
    previous = max(older, default=None)
    if previous is None:
        return base_instant(records) < base_instant(base) and records.instant_time is not None
    return slices == {previous}
