"""Log files are merged with their base file as Hudi 1.2.0 and hudi-rs do."""

from __future__ import annotations

import itertools
import pickle
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.avro.schema_converters import to_avro
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.io import file_group_reader, log_row_store, merging_reader
from hoodie.io.file_group_reader import HoodieFileGroupReader, count_rows, scan_file_groups
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import LogScanCounts
from hoodie.io.log.log_records import LogEntries, LogRows
from hoodie.io.merging_reader import LogMerging, MergingReader
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.built_in_key_generators import SimpleKeyGenerator
from hoodie.merge.merge_modes import TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import rules_of_mode
from hoodie.merge.payload_rules import MergeMode
from hoodie.merge.record_merger import HoodieRecordMerger, MergeOutcome
from hoodie.storage.storage_factory import open_storage
from tests.support.log_files import write_log_file
from tests.support.log_slices import (
    BASE_INSTANT,
    SCHEMA,
    USER,
    Step,
    base_rows,
    entries_of,
    expected,
    instant,
    joined,
    left,
    random_cases,
    row,
    slice_of,
    spec_of,
    steps,
)

EVENT = MergeSpec("ts", rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), True))
COMMIT = MergeSpec((), rules_of_mode(TableMerging(MergeMode.COMMIT_TIME_ORDERING), True))
DEFAULT, LATEST = spec_of("DefaultHoodieRecordPayload"), spec_of("OverwriteWithLatestAvroPayload")
LATEST_ALONE = spec_of("OverwriteWithLatestAvroPayload", None)

WHO_WINS = [
    # The table of the format's description: Default, OverwriteWithLatest with an ordering field, and without one.
    ("b100 u50", "b100", "u50"),
    ("b100 u100", "u100", "u100"),
    ("b100 u150", "u150", "u150"),
    ("b100 u50 u70", "b100", "u70"),
    ("u200 u100", "u200", "u100"),
    ("b10 u200 u100", "u200", "u100"),
    ("u100 u100", "u100", "u100"),
    ("b100 D", "-", "-"),
    ("u100 D", "-", "-"),
    ("b100 u200 D", "-", "-"),
    ("b100 d50", "b100", "-"),
    ("b100 d0", "b100", "-"),
    ("b100 d100", "-", "-"),
    ("b100 d150", "-", "-"),
    ("b100 f50", "b100", "-"),
    ("b100 f100", "-", "-"),
    ("b100 f150", "-", "-"),
    ("u200 d100", "u200", "-"),
    ("u200 f100", "u200", "-"),
    ("u200 d200", "-", "-"),
    ("u200 d300", "-", "-"),
    ("u200 f300", "-", "-"),
    ("b10 d200 u100", "-", "u100"),
    ("b10 f200 u100", "-", "u100"),
    ("b10 d200 u200", "u200", "u200"),
    ("b10 d200 u300", "u300", "u300"),
    ("b10 f200 u200", "u200", "u200"),
    ("b10 f200 u300", "u300", "u300"),
    ("b100 d50 u70", "b100", "u70"),
    ("b100 d150 u120", "-", "u120"),
    ("b10 D u50", "u50", "u50"),
    ("b10 D u5", "b10", "u5"),
    ("bnull u5", "u5", "u5"),
]
"""Steps; what is left by event time, and by commit time."""


@pytest.fixture
def merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HoodieFileGroupReader]:
    """Makes a reader of a base file and log entries."""

    def reader(
        stored: Sequence[dict[str, Any]] | None, entries: Sequence[LogEntries], spec: MergeSpec,
        schema: pa.Schema = SCHEMA, merging: dict[str, Any] | None = None, places: dict[str, Any] | None = None,
        **wanted: Any,
    ) -> HoodieFileGroupReader:  # fmt: skip
        class Scanner:
            def __init__(
                self,
                storage: Any,
                files: Any,
                schema: Any,
                columns: Sequence[str],
                *others: Any,
            ) -> None:
                self.columns, self.counts = list(columns), LogScanCounts()

            def blocks(self) -> list[Any]:
                return []

            def scan(self, blocks: Any) -> Iterator[LogEntries]:
                for entry in entries:
                    yield (
                        attrs.evolve(entry, rows=entry.rows.select(self.columns))
                        if isinstance(entry, LogRows)
                        else entry
                    )

        monkeypatch.setattr(merging_reader, "HoodieLogRecordScanner", Scanner)
        log_merging = LogMerging(spec, **(merging or {}))
        context = HoodieReaderContext(open_storage(str(tmp_path)), schema, log_merging=log_merging, **wanted)
        return HoodieFileGroupReader(context, slice_of(tmp_path, stored, schema), **(places or {}))

    return reader


def read(reader: HoodieFileGroupReader, cases: dict[str, list[Step]]) -> dict[str, str]:
    """What is left, by all ways to read."""
    found = left(reader.iter_batches(3), cases)
    assert left(reader.scan(), cases) == found
    assert left(in_two_parts(reader), cases) == found
    return found


def in_two_parts(reader: HoodieFileGroupReader) -> Iterator[pa.RecordBatch]:
    """The base rows that log files leave as they are, and the rows of log files."""
    context, file_slice = reader._context, reader._file_slice
    changed = reader.changed_positions()
    assert changed.tolist() == sorted(set(changed.tolist()))
    if file_slice.base_file is not None:
        alone = HoodieFileGroupReader(context, attrs.evolve(file_slice, log_files=()))
        rows = pa.Table.from_batches(alone.iter_batches())
        yield from rows.take(np.setdiff1d(np.arange(rows.num_rows), changed)).to_batches()
    yield from log_rows(reader)


def log_rows(reader: HoodieFileGroupReader) -> Iterator[pa.RecordBatch]:
    """The rows of log files alone."""
    context = attrs.evolve(reader._context, log_rows_only=True)
    return HoodieFileGroupReader(context, reader._file_slice).iter_batches(3)


@pytest.mark.parametrize(
    ("spec", "by_event_time"),
    [(DEFAULT, True), (LATEST, False), (LATEST_ALONE, False), (EVENT, True), (COMMIT, False)],
    ids=["Default", "OverwriteWithLatest", "OverwriteWithLatest-alone", "EVENT_TIME", "COMMIT_TIME"],
)
def test_which_row_wins(merged: Any, spec: MergeSpec, by_event_time: bool) -> None:
    cases = {f"k{number:02d}": steps(case[0]) for number, case in enumerate(WHO_WINS)}
    found = read(merged(base_rows(cases), entries_of(cases), spec), cases)
    expected = {key: case[1 if by_event_time else 2] for key, case in zip(cases, WHO_WINS, strict=True)}
    assert found == expected


@pytest.mark.parametrize("by_event_time", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_random_slices_are_merged_as_one_entry_after_the_other_is(merged: Any, seed: int, by_event_time: bool) -> None:
    source = random.Random(seed)
    cases = random_cases(source, 2000)
    entries = joined(entries_of(cases), source)
    rows = base_rows(cases)
    source.shuffle(rows)
    reader = merged(rows, entries, EVENT if by_event_time else COMMIT)
    assert read(reader, cases) == {key: expected(of_key, by_event_time) for key, of_key in cases.items()}
    in_order = [r["id"] for batch in reader.iter_batches(100) for r in batch.to_pylist()]
    kept = [r["id"] for r in rows if r["id"] in set(in_order)]
    assert in_order[: len(kept)] == kept, "base rows keep their order"
    assert len(in_order) == len(set(in_order))
    merging = reader.merged_rows()
    assert sum(batch.num_rows for batch in merging.batches(100)) == len(in_order)
    counts, base = merging.counts, {r["id"] for r in rows}
    assert counts.rows == len(in_order) == len(base) - counts.deletes + counts.inserts
    assert counts.inserts == len(set(in_order) - base) > 0 and counts.deletes == len(base - set(in_order)) > 0
    logs = [step for of_key in cases.values() for step in of_key if step.kind != "b"]
    assert (counts.log_records, counts.log_deletes) == (len(logs), sum(step.kind in "fdD" for step in logs))
    assert counts.updates + counts.ignored + counts.deletes == sum(
        len(of_key) > 1 for of_key in cases.values() if of_key and of_key[0].kind == "b"
    )


@pytest.mark.parametrize(
    "kind",
    [pa.int32(), pa.float64(), pa.timestamp("us", "UTC"), pa.date32(), pa.decimal128(21, 2), pa.string()],
    ids=str,
)
def test_ordering_values_of_all_types(merged: Any, kind: pa.DataType) -> None:
    cases = random_cases(random.Random(11), 800)
    schema = SCHEMA.set(SCHEMA.get_field_index("ts"), pa.field("ts", kind))
    # Dates and times are plain numbers in delete blocks.
    in_block = {pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32()}.get(kind, kind)
    entries = [
        entry
        if isinstance(entry, LogRows) or entry.ordering.type == pa.null()
        else attrs.evolve(entry, ordering=entry.ordering.cast(in_block))
        for entry in entries_of(cases, schema)
    ]
    reader = merged(base_rows(cases), entries, EVENT, schema)
    assert read(reader, cases) == {key: expected(of_key, True) for key, of_key in cases.items()}


@pytest.mark.parametrize(
    ("spec", "history", "reads"),
    [
        (EVENT, "u5", False),
        (EVENT, "d5", False),
        (EVENT, "D", False),
        (EVENT, "u4", True),
        (EVENT, "u6 u4", False),
        (COMMIT, "u1", False),
        (LATEST, "u1", False),
        (DEFAULT, "u5", False),
        (DEFAULT, "u4", True),
    ],
)
def test_log_records_that_win_anyway_need_no_column_of_the_base_file_but_its_keys(
    merged: Any, monkeypatch: pytest.MonkeyPatch, spec: MergeSpec, history: str, reads: bool
) -> None:
    cases = {
        "a": steps(f"b5 {history}"),
        "b": steps("b5"),
        "c": steps("b1 u9"),
        "d": steps("u9"),
        "e": steps("bnull u9"),
    }
    reader = merged(base_rows(cases), entries_of(cases), spec)
    read(reader, cases)
    calls = []
    iter_batches = HoodieParquetReader.iter_batches

    def noted(self: HoodieParquetReader, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        calls.append(arguments)
        return iter_batches(self, *arguments, **named)

    monkeypatch.setattr(HoodieParquetReader, "iter_batches", noted)
    assert len(reader.changed_positions()) == (2 if history == "u4" else 3)
    assert len({r["id"] for batch in log_rows(reader) for r in batch.to_pylist()} - {"a"}) == 3
    assert bool(calls) == reads


@pytest.mark.parametrize(("kind", "left_over"), [(pa.int32(), "bnull"), (pa.int64(), "u-1")], ids=str)
def test_a_stored_row_without_ordering_value(merged: Any, kind: pa.DataType, left_over: str) -> None:
    """It counts as 0 among 32-bit integers, and else is smaller than all."""
    schema = SCHEMA.set(SCHEMA.get_field_index("ts"), pa.field("ts", kind))
    cases = {"a": steps("bnull u-1"), "b": steps("b-9 u-1")}
    found = read(merged(base_rows(cases), entries_of(cases, schema), EVENT, schema), cases)
    assert found == {"a": left_over, "b": "u-1"}


def test_a_slice_without_a_base_file_has_the_rows_of_its_log_files(merged: Any) -> None:
    cases = {"a": steps("u1"), "b": steps("u1 D"), "c": steps("u2 u1"), "d": steps("d5"), "e": steps("D u1")}
    reader = merged(None, entries_of(cases), EVENT)
    assert read(reader, cases) == {"a": "u1", "b": "-", "c": "u2", "d": "-", "e": "u1"}
    assert count_rows([reader]) == 3


def test_rows_keep_the_commit_that_wrote_them_and_a_range_of_commits_is_of_the_result(merged: Any) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b5 u2"), "c": steps("b1"), "d": steps("b1 u2 u3"), "e": steps("u1")}
    rows, entries = base_rows(cases), entries_of(cases)
    everything = pa.Table.from_batches(merged(rows, entries, EVENT).iter_batches()).to_pylist()
    commits = {"a": instant(0), "b": BASE_INSTANT, "c": BASE_INSTANT, "d": instant(1), "e": instant(0)}
    assert {r["id"]: r["_hoodie_commit_time"] for r in everything} == commits
    assert all(r["_hoodie_commit_seqno"] == f"{r['_hoodie_commit_time']}_{r['id']}" for r in everything)
    ranged = merged(rows, entries, EVENT, columns=["id"], instant_range=InstantRange(after=BASE_INSTANT))
    # b's log row lost against the base row.
    assert [batch.schema.names for batch in ranged.iter_batches()] == [["id"]] * 2
    assert [r["id"] for batch in ranged.scan() for r in batch.to_pylist()] == ["a", "d", "e"]


def test_a_filter_is_applied_to_the_result(merged: Any) -> None:
    cases = {"a": steps("b5 u3"), "b": steps("b1 u3"), "c": steps("b3 u1"), "d": steps("b3 u5"), "e": steps("u3")}
    row_filter = RowFilter.of(pc.field("ts") == 3, SCHEMA, "t")
    reader = merged(
        base_rows(cases), entries_of(cases), EVENT, columns=["val", "id"], row_filter=row_filter, seeks_few=True,
        places={"row_groups": [], "rows": np.zeros(0, dtype=np.int64)},
    )  # fmt: skip
    found = pa.Table.from_batches(reader.scan()).to_pylist()
    assert found == [{"val": "u3", "id": "b"}, {"val": "b3", "id": "c"}, {"val": "u3", "id": "e"}]
    assert count_rows([reader]) == 3
    assert reader.few_rows() is None
    with pytest.raises(HoodieException, match="not taken by positions"):
        list(reader.take(np.arange(1)))


def test_only_needed_columns_are_read(merged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b5 u2")}
    asked = []
    read_batches = HoodieParquetReader.iter_batches

    def noting(reader: HoodieParquetReader, columns: list[str], *rest: Any, **more: Any) -> Any:
        asked.append(columns)
        return read_batches(reader, columns, *rest, **more)

    monkeypatch.setattr(HoodieParquetReader, "iter_batches", noting)
    for spec, columns in ((EVENT, ["ts", "val"]), (COMMIT, ["val"])):
        asked.clear()
        list(merged(base_rows(cases), entries_of(cases), spec, columns=["val"]).iter_batches())
        assert asked == [columns]


@pytest.mark.parametrize("text", ["b1 unull", "bnull unull", "u1 unull", "unull u1", "b1 unull d3", "b1 u5 D unull u1"])
def test_a_log_row_without_ordering_value_is_refused_where_it_would_have_to_compare(merged: Any, text: str) -> None:
    cases = {"good": steps("b1 u2"), "bad": steps(text)}
    reader = merged(base_rows(cases), entries_of(cases), EVENT)
    with pytest.raises(HoodieException, match=r"file group f-0 .*key 'bad' has a null in the ordering field 'ts'"):
        list(reader.iter_batches())
    assert read(merged(base_rows(cases), entries_of(cases), COMMIT), cases)["bad"] == expected(cases["bad"], False)


def test_a_log_row_without_ordering_value_is_read_where_nothing_compares(merged: Any) -> None:
    cases = {"alone": steps("unull"), "deleted": steps("b1 unull D"), "again": steps("b1 unull D u5")}
    found = read(merged(base_rows(cases), entries_of(cases), EVENT), cases)
    assert found == {"alone": "unull", "deleted": "-", "again": "u5"}


# --- where rows are ---------------------------------------------------------------------------------------------------


def with_positions(entries: Sequence[LogEntries], rows: list[dict[str, Any]], of: str) -> list[LogEntries]:
    place = {r["id"]: number for number, r in enumerate(rows)}
    found = []
    for entry in entries:
        keys = entry.rows["id"] if isinstance(entry, LogRows) else entry.record_keys
        positions = np.array([place[key] for key in keys.to_pylist()], dtype=np.int64)
        found.append(attrs.evolve(entry, positions=positions, positions_of=of))
    return found


def test_positions_are_used_if_all_blocks_have_those_of_the_base_file(
    merged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {k: of_key for k, of_key in random_cases(random.Random(7), 500).items() if of_key and of_key[0].kind == "b"}
    rows = base_rows(cases)
    random.Random(1).shuffle(rows)
    entries = with_positions(entries_of(cases), rows, BASE_INSTANT)
    right = {key: expected(of_key, True) for key, of_key in cases.items()}
    looked_up = []
    find = HoodieKeyLookupHandle.lookup
    monkeypatch.setattr(
        HoodieKeyLookupHandle, "lookup", lambda *given, **more: looked_up.append(1) or find(*given, **more)
    )
    assert read(merged(rows, entries, EVENT, columns=["id", "val"]), cases) == right
    assert not looked_up
    for others in (
        with_positions(entries_of(cases), rows[::-1], instant(0)),
        [*with_positions(entries_of(cases), rows[::-1], BASE_INSTANT)[:-1], entries[-1].__class__(**{
            **attrs.asdict(entries[-1], recurse=False), "positions": None, "positions_of": None
        })],
    ):  # fmt: skip
        looked_up.clear()
        assert read(merged(rows, others, EVENT, columns=["id", "val"]), cases) == right
        assert looked_up
    reader = merged(
        rows,
        with_positions(entries_of(cases), rows[::-1], BASE_INSTANT),
        EVENT,
        columns=["id", "val"],
        merging={"config": HoodieLogMergeConfig(use_record_positions=False)},
    )
    assert read(reader, cases) == right


def test_positions_are_those_of_the_base_file_below_a_pending_compaction(merged: Any) -> None:
    """The slice has the compaction's instant, and its base file an earlier one."""
    cases = {"a": steps("b1 u2"), "b": steps("b1"), "c": steps("b3 u1")}
    rows = base_rows(cases)
    for of, are_used in ((BASE_INSTANT, True), (instant(50), False)):
        # Each position is that of the wrong row, which shows whether it is used.
        reader = merged(rows, with_positions(entries_of(cases), rows[::-1], of), COMMIT, columns=["id", "val"])
        reader._file_slice = attrs.evolve(reader._file_slice, base_instant_time=instant(50))
        found = [r["val"] for batch in reader.iter_batches() for r in batch.to_pylist()]
        assert found == (["u1", "b1", "u2"] if are_used else ["u2", "b1", "u1"])


def test_a_position_behind_the_base_file_is_an_error(merged: Any) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b1")}
    (entry,) = with_positions(entries_of(cases), base_rows(cases), BASE_INSTANT)
    entry = attrs.evolve(entry, positions=np.array([2]))
    with pytest.raises(HoodieCorruptedDataException, match=r"has 2 rows, but log files name its row 2"):
        list(merged(base_rows(cases), [entry], EVENT).iter_batches())


def test_both_rows_of_a_key_that_is_stored_twice_are_replaced(merged: Any) -> None:
    cases = {"a": steps("b1 b1 u2"), "b": steps("b1 b9 u5"), "c": steps("b1 b1 D")}
    found = [
        r["id"] + r["val"] for b in merged(base_rows(cases), entries_of(cases), EVENT).scan() for r in b.to_pylist()
    ]
    assert found == ["au2", "au2", "bu5", "bb9"]


def test_keys_are_made_of_columns_in_a_table_that_stores_none(merged: Any) -> None:
    cases = random_cases(random.Random(3), 300)
    entries = []
    for entry in entries_of(cases):
        if isinstance(entry, LogRows):
            nulls = {name: pa.nulls(entry.rows.num_rows, pa.string()) for name in META_COLUMNS}
            columns = [nulls.get(name, entry.rows[name]) for name in SCHEMA.names]
            entry = attrs.evolve(entry, rows=pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        entries.append(entry)
    rows = [{**r, **dict.fromkeys(META_COLUMNS)} for r in base_rows(cases)]
    reader = merged(rows, entries, EVENT, merging={"key_generator": SimpleKeyGenerator(("id",))})
    assert read(reader, cases) == {key: expected(of_key, True) for key, of_key in cases.items()}
    with pytest.raises(HoodieCorruptedDataException, match="rows without a record key"):
        list(merged(rows, entries, EVENT).iter_batches())


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [EVENT, spec_of("PartialUpdateAvroPayload")], ids=["by mode", "pair by pair"])
def test_rows_above_the_limit_go_to_a_file_of_which_nothing_is_left(
    merged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: MergeSpec
) -> None:
    monkeypatch.setattr(log_row_store, "_PART_BYTES", 10_000)
    folder = tmp_path / "spilled"
    folder.mkdir()
    spilled = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **given: spilled.append(given) or made(**given))
    cases = random_cases(random.Random(5), 2000)
    rows, entries = base_rows(cases), entries_of(cases)
    in_memory = pa.Table.from_batches(merged(rows, entries, spec).iter_batches())
    assert not spilled
    config = HoodieLogMergeConfig(merge_max_size=20_000, spillable_map_path=str(folder))
    reader = merged(rows, entries, spec, merging={"config": config})
    assert pa.Table.from_batches(reader.iter_batches()).equals(in_memory)
    assert spilled[0] == {"dir": str(folder)}
    assert list(folder.iterdir()) == []
    stopped = reader.iter_batches()
    next(stopped)
    assert list(folder.iterdir()) == []
    stopped.close()

    def torn() -> Iterator[LogEntries]:
        yield from entries
        raise HoodieCorruptedDataException("a block")

    with pytest.raises(HoodieCorruptedDataException, match="a block"):
        list(merged(rows, torn(), spec, merging={"config": config}).iter_batches())
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(merged: Any, tmp_path: Path) -> None:
    cases = random_cases(random.Random(5), 20)
    config = HoodieLogMergeConfig(merge_max_size=0, spillable_map_path=str(tmp_path / "missing"))
    reader = merged(base_rows(cases), entries_of(cases), EVENT, merging={"config": config})
    with pytest.raises(HoodieIOException, match=r"missing \(hoodie\.memory\.spillable\.map\.path\)"):
        list(reader.iter_batches())


def test_memory_is_bounded_by_the_limit_and_not_by_the_log_files(
    merged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_row_store, "_PART_BYTES", 1 << 20)
    blocks, of_block = 40, 1000
    stored = [row(f"k{number:05d}", Step("b", 1), BASE_INSTANT) for number in range(blocks * of_block // 2)]
    peaks = []

    def entries() -> Iterator[LogEntries]:
        for block in range(blocks):
            rows = [
                row(f"k{number:05d}", Step("u", 2), instant(block), val="x" * 1000)
                for number in range(block * of_block, (block + 1) * of_block)
            ]
            yield LogRows(instant(block), pa.RecordBatch.from_pylist(rows, SCHEMA))
            peaks.append(pa.total_allocated_bytes())

    def most_memory(limit: int) -> tuple[int, int]:
        peaks.clear()
        config = HoodieLogMergeConfig(merge_max_size=limit, spillable_map_path=str(tmp_path))
        before = pa.total_allocated_bytes()
        count = 0
        for batch in merged(stored, entries(), EVENT, merging={"config": config}).iter_batches(500):
            count += batch.num_rows
            peaks.append(pa.total_allocated_bytes())
        return max(peaks) - before, count

    bounded, count = most_memory(4 << 20)
    assert count == blocks * of_block
    unbounded, _ = most_memory(1 << 30)
    assert unbounded > 40 << 20
    assert bounded < 20 << 20


# --- fields of several entries ----------------------------------------------------------------------------------------


def part(commit: str, columns: set[str], **rows: dict[str, Any]) -> LogRows:
    """A block of a partial update."""
    known = frozenset({*META_COLUMNS, *columns})
    batch = [
        {name: value for name, value in row(key, Step("u", values["ts"]), commit, **values).items() if name in known}
        for key, values in rows.items()
    ]
    return LogRows(commit, pa.RecordBatch.from_pylist(batch, SCHEMA), known)


def shown(batches: Iterator[pa.RecordBatch]) -> dict[str, tuple[Any, ...]]:
    rows = [r for batch in batches for r in batch.to_pylist()]
    return {r["_hoodie_record_key"]: tuple(r[name] for name in ("_hoodie_commit_time", "ts", "val", "n")) for r in rows}


def test_blocks_of_partial_updates_overwrite_their_columns_alone(merged: Any) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b5"), "c": steps("b5"), "d": steps("u2"), "e": steps("b1")}
    rows = [attrs_of | {"n": 7} for attrs_of in base_rows(cases)]
    entries = [
        *entries_of(cases),
        part(
            instant(5), {"ts", "n"}, a={"ts": 3, "n": 1}, b={"ts": 4, "n": 1}, c={"ts": 6, "n": 1}, d={"ts": 3, "n": 1}
        ),
        part(instant(6), {"ts", "val"}, a={"ts": 3, "val": "new"}, c={"ts": 9, "val": "new"}, f={"ts": 1, "val": "f"}),
    ]
    assert shown(merged(rows, entries, EVENT).scan()) == {
        "a": (instant(6), 3, "new", 1),
        "b": (BASE_INSTANT, 5, "b5", 7),
        "c": (instant(6), 9, "new", 1),
        "d": (instant(5), 3, "u2", 1),
        "e": (BASE_INSTANT, 1, "b1", 7),
        "f": (instant(6), 1, "f", None),
    }
    by_commit = shown(merged(rows, entries, COMMIT).scan())
    assert by_commit["b"] == (instant(5), 4, "b5", 1)
    # Columns that are not asked for do not matter.
    reader = merged(rows, entries, EVENT, columns=["n"])
    assert sorted(r["n"] or 0 for b in reader.iter_batches() for r in b.to_pylist()) == [0, 1, 1, 1, 7, 7]


@pytest.mark.parametrize("columns", [["_hoodie_record_key", "_hoodie_commit_time", "ts", "val", "n"], None])
def test_a_payload_class_merges_field_by_field_whatever_is_asked_for(merged: Any, columns: list[str] | None) -> None:
    stored = [row("a", Step("b", 1), BASE_INSTANT, n=1), row("b", Step("b", 9), BASE_INSTANT, n=None)]
    rows = [
        row("a", Step("u", 2), instant(0), val=None),
        row("b", Step("u", 2), instant(0), n=5),
        row("c", Step("u", 2), instant(0), n=5),
        row("c", Step("u", 3), instant(0), val=None),
    ]
    reader = merged(
        stored, [LogRows(instant(0), pa.RecordBatch.from_pylist(rows, SCHEMA))], spec_of("PartialUpdateAvroPayload"),
        columns=columns,
    )  # fmt: skip
    assert shown(reader.scan()) == {
        "a": (instant(0), 2, "b1", 1),
        "b": (instant(0), 9, "b9", 5),
        "c": (instant(0), 3, "u2", 5),
    }


class Longest(HoodieRecordMerger):
    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        if pc.any(pc.equal(newer["val"], "fail")).as_py():
            raise ValueError("told to")
        return MergeOutcome.choose(pc.greater_equal(pc.binary_length(newer["val"]), pc.binary_length(older["val"])))


def test_a_users_merger_decides_and_its_errors_are_no_rows(merged: Any) -> None:
    stored = [row("a", Step("b"), BASE_INSTANT, val="xxx"), row("b", Step("b"), BASE_INSTANT, val="x")]
    texts = [("a", "yy"), ("b", "yy"), ("c", "yyy"), ("c", "y")]

    def blocks(*more: tuple[str, str]) -> list[LogEntries]:
        rows = [row(key, Step("u"), instant(0), val=val) for key, val in (*texts, *more)]
        return [LogRows(instant(0), pa.RecordBatch.from_pylist(rows, SCHEMA))]

    spec = MergeSpec((), merger=Longest())
    assert left(merged(stored, blocks(), spec, columns=["val", "id"]).scan(), "abc") == {
        "a": "xxx",
        "b": "yy",
        "c": "yyy",
    }
    with pytest.raises(HoodieException, match="merging the log records of key 'b' failed: Longest failed"):
        list(merged(stored, blocks(("b", "fail")), spec).scan())


# --- log files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_log_files_of_all_kinds_of_blocks(tmp_path: Path, seed: int) -> None:
    """The same random slices, through files."""
    source = random.Random(seed)
    cases = random_cases(source, 1500)
    avro_schema = to_avro(USER, "r", "n", True)
    files = []
    for number, entry in enumerate(joined(entries_of(cases), source)):
        if isinstance(entry, LogRows):
            kind = source.choice(list(LogBlockFormat))
            blocks = encode_data_blocks(
                entry.rows, avro_schema, entry.instant_time, kind, source.choice([5_000, 1 << 20])
            )
        else:
            paths = pa.array([""] * len(entry.record_keys))
            blocks = encode_delete_blocks(entry.record_keys, paths, entry.ordering, avro_schema, entry.instant_time)
        files.append(write_log_file(tmp_path, *blocks, instant_time=instant(number)))
    file_slice = attrs.evolve(slice_of(tmp_path, base_rows(cases)), log_files=tuple(files))
    for spec, by_event_time in ((DEFAULT, True), (COMMIT, False)):
        context = HoodieReaderContext(open_storage(str(tmp_path)), SCHEMA, ["id", "val"], LogMerging(spec))
        reader = HoodieFileGroupReader(context, file_slice)
        assert read(reader, cases) == {key: expected(of_key, by_event_time) for key, of_key in cases.items()}
        assert reader.stored_bytes() > sum(file.size_bytes for file in files)


# --- several file groups ----------------------------------------------------------------------------------------------


@pytest.fixture
def groups(tmp_path: Path) -> list[HoodieFileGroupReader]:
    """Readers of file groups with log files (1, 2, 4) and without."""
    avro_schema = to_avro(USER, "r", "n", True)
    readers = []
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        cases = {f"{number}a": steps("b1 u2"), f"{number}b": steps("b3"), f"{number}c": steps("u1")}
        file_slice = slice_of(folder, base_rows(cases))
        logs: tuple[HoodieLogFile, ...] = ()
        if number in (1, 2, 4):
            (entry,) = entries_of(cases)
            assert isinstance(entry, LogRows)
            logs = (write_log_file(folder, *encode_data_blocks(entry.rows, avro_schema, instant(0))),)
        readers.append(
            HoodieFileGroupReader(
                HoodieReaderContext(open_storage(str(tmp_path)), SCHEMA, ["id", "val"], LogMerging(EVENT)),
                attrs.evolve(file_slice, log_files=logs),
            )
        )
    return readers


def test_file_groups_are_read_in_their_order_with_log_files_and_without(groups: list[HoodieFileGroupReader]) -> None:
    assert [reader.has_log_files for reader in groups] == [False, True, True, False, True, False]
    found = [(r["id"], r["val"]) for batch in scan_file_groups(groups) for r in batch.to_pylist()]
    right = []
    for number, reader in enumerate(groups):
        alone = [(f"{number}a", "b1"), (f"{number}b", "b3")]
        merged = [(f"{number}a", "u2"), (f"{number}b", "b3"), (f"{number}c", "u1")]
        right += merged if reader.has_log_files else alone
    assert found == right
    assert count_rows(groups) == len(found) == 15
    none = [reader.with_columns([]) for reader in groups]
    assert {tuple(batch.schema.names) for batch in scan_file_groups(none)} == {()}


def test_what_was_read_ahead_is_dropped_if_the_consumer_stops_or_a_log_file_is_torn(
    groups: list[HoodieFileGroupReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, closed = [], []
    begin, close = log_row_store.LogRowStore.__init__, log_row_store.LogRowStore.close

    def beginning(store: log_row_store.LogRowStore, *given: Any) -> None:
        opened.append(store)
        begin(store, *given)

    def closing(store: log_row_store.LogRowStore) -> None:
        closed.append(store)
        close(store)

    monkeypatch.setattr(log_row_store.LogRowStore, "__init__", beginning)
    monkeypatch.setattr(log_row_store.LogRowStore, "close", closing)
    batches = scan_file_groups(groups[1:3])
    next(batches)
    batches.close()
    assert len(opened) <= 2 and {id(store) for store in opened} == {id(store) for store in closed}
    opened.clear()
    closed.clear()
    log_file = Path(groups[2]._file_slice.log_files[0].path)
    log_file.unlink()
    with pytest.raises(HoodieIOException, match=log_file.name):
        list(scan_file_groups(groups[1:3]))
    assert opened and {id(store) for store in opened} == {id(store) for store in closed}


def test_small_log_files_of_several_file_groups_are_read_at_the_same_time(
    groups: list[HoodieFileGroupReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = [reader for reader in groups for _ in range(4) if reader.has_log_files]
    together = threading.Barrier(8)
    prepare, number = MergingReader._prepare, itertools.count()

    def waiting(reader: MergingReader, turn: Any) -> Any:
        if next(number) < 8:
            together.wait(timeout=60)
        return prepare(reader, turn)

    monkeypatch.setattr(MergingReader, "_prepare", waiting)
    found = [r["id"] for batch in scan_file_groups(readers) for r in batch.to_pylist()]
    assert found == [f"{n}{key}" for n in (1, 2, 4) for _ in range(4) for key in "abc"]
    # Large ones are not, but for the next one.
    monkeypatch.setattr(MergingReader, "_prepare", prepare)
    monkeypatch.setattr(file_group_reader, "_LOG_BYTES_AHEAD", 1)
    assert [r["id"] for batch in scan_file_groups(readers) for r in batch.to_pylist()] == found


def test_the_rules_of_a_merge_go_to_other_processes() -> None:
    merging = LogMerging(EVENT, LogBlockFilter(), SimpleKeyGenerator(("id",)), HoodieLogMergeConfig(merge_max_size=7))
    again = pickle.loads(pickle.dumps(merging))
    assert again.merge_spec == EVENT and again.config == merging.config and again.key_generator == merging.key_generator
