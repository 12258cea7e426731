"""Entries of log files: which one is left of each key, at once or pair by pair."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.model.record_columns import OPERATION_META
from hoodie.exception import HoodieException, HoodieSchemaException
from hoodie.merge.log_merge import (
    LogEntryColumns,
    delete_columns,
    last_entries,
    ordering_of_deletes,
    ordering_of_rows,
    requested_deletes,
    rules_of_logs,
    spec_of_logs,
)
from hoodie.merge.log_pair_merge import MergingByMode, MergingByPayload, PairEntries, PairMerging
from hoodie.merge.merge_modes import PartialUpdateMode, TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import MergeEntries, later_log_entry_wins, rules_of_mode
from hoodie.merge.payload_rules import FieldRule, MergeMode, StoredRule
from hoodie.merge.record_merger import (
    DELETE_STORED,
    KEEP_STORED,
    TAKE_INCOMING,
    HoodieRecordMerger,
    MergeOutcome,
)
from tests.support.log_slices import spec_of

EVENT = rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), True)
COMMIT = rules_of_mode(TableMerging(MergeMode.COMMIT_TIME_ORDERING), True)


def fail(number: int) -> NoReturn:
    raise AssertionError(f"entry {number} does not compare")


# --- whole rows -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Entry:
    key: int
    ordering: int | None
    is_delete: bool
    in_block: bool


ENTRIES = st.lists(
    st.builds(
        lambda key, value, kind: Entry(key, None if kind in ("D", "F") else value, kind in "dDfF", kind in "dD"),
        st.integers(0, 3),
        st.integers(-2, 2),
        st.sampled_from("uuudDfF"),
    ),
    max_size=40,
)


def columns_of(entries: list[Entry]) -> LogEntryColumns:
    keys = {key: number for number, key in enumerate(dict.fromkeys(entry.key for entry in entries))}
    return LogEntryColumns(
        np.array([keys[entry.key] for entry in entries], dtype=np.int64),
        pa.array([entry.ordering for entry in entries], pa.int64()),
        np.array([entry.is_delete for entry in entries], dtype=np.bool_),
        np.array([entry.in_block for entry in entries], dtype=np.bool_),
    )


def folded(entries: list[Entry]) -> list[Entry]:
    """What is left of each key, by one call of the rule for each pair."""
    left: dict[int, Entry] = {}
    for entry in entries:
        older = left.get(entry.key)
        if older is None:
            left[entry.key] = entry
            continue
        pair = MergeEntries.of(
            [pa.array([e.ordering], pa.int64()) for e in (older, entry)],
            [np.array([e.is_delete]) for e in (older, entry)],
        )
        if later_log_entry_wins(EVENT, *pair, np.array([entry.in_block]))[0]:
            left[entry.key] = entry
    return [left[key] for key in sorted(left)]


@settings(max_examples=400)
@given(ENTRIES)
@pytest.mark.one_in(4)
def test_all_entries_at_once_leave_what_a_fold_by_the_rule_leaves(entries: list[Entry]) -> None:
    numbers = last_entries(columns_of(entries), fail)
    assert np.all(np.diff(numbers) > 0)
    left = [attrs.evolve(entries[number], in_block=False) for number in numbers]
    # Of several hard deletes it does not matter which one is left.
    expected = [attrs.evolve(entry, in_block=False) for entry in folded(entries)]
    assert sorted(left, key=lambda entry: entry.key) == expected


def test_a_key_of_many_entries_is_decided_at_once() -> None:
    count = 1_000_000
    ordering = pa.array(np.arange(count) % 1000)
    nothing = np.zeros(count, dtype=np.bool_)
    entries = LogEntryColumns(np.zeros(count, dtype=np.int64), ordering, nothing, nothing)
    assert last_entries(entries, fail).tolist() == [count - 1]
    assert last_entries(attrs.evolve(entries, ordering=None), fail).tolist() == [count - 1]


@pytest.mark.parametrize(
    ("payload", "ordering", "mode"),
    [
        ("DefaultHoodieRecordPayload", "ts", MergeMode.EVENT_TIME_ORDERING),
        ("OverwriteWithLatestAvroPayload", "ts", MergeMode.COMMIT_TIME_ORDERING),
        ("OverwriteWithLatestAvroPayload", None, MergeMode.COMMIT_TIME_ORDERING),
        ("EventTimeAvroPayload", "ts", None),
        ("PartialUpdateAvroPayload", "ts", None),
    ],
)
def test_payload_classes_of_version_6_that_stand_for_a_mode(payload: str, ordering: str | None, mode: Any) -> None:
    rules = rules_of_logs(spec_of(payload, ordering))
    assert (rules.mode if rules is not None else None) == mode
    if mode is MergeMode.EVENT_TIME_ORDERING:
        assert rules is not None and rules.stored_rule is StoredRule.LARGER


def test_default_without_an_ordering_field_goes_by_commit_time() -> None:
    rules = rules_of_logs(spec_of("DefaultHoodieRecordPayload", None))
    assert rules is not None and rules.stored_rule is StoredRule.NEVER


def test_merge_on_read_tables_without_a_payload_class_go_by_the_ordering_field() -> None:
    @attrs.frozen
    class Config:
        table_name = "t"
        table_version = 6
        ordering_fields = ("ts",)
        payload_class = None
        properties: dict[str, str]

    for kind, stored_rule in (("MERGE_ON_READ", StoredRule.LARGER), ("COPY_ON_WRITE", StoredRule.NEVER)):
        spec = MergeSpec.from_table_config(Config({"hoodie.table.type": kind}))
        rules = rules_of_logs(spec)
        assert spec.rules.stored_rule is stored_rule and rules is not None and rules.stored_rule is stored_rule


def test_rows_ask_for_deletes_by_flag_marker_or_operation() -> None:
    rows = pa.record_batch(
        {
            "_hoodie_is_deleted": [True, None, False, False],
            "Op": ["I", "D", None, "I"],
            OPERATION_META: ["I", None, "-U", "D"],
        }
    )
    spec = MergeSpec("ts", EVENT, "Op", "D")
    assert requested_deletes(spec, rows).tolist() == [True, True, True, True]
    assert requested_deletes(spec, rows.select(["Op"])).tolist() == [False, True, False, False]
    assert delete_columns(spec, rows.schema) == set(rows.schema.names)
    assert delete_columns(spec_of("DefaultHoodieRecordPayload"), rows.schema) == {"_hoodie_is_deleted", OPERATION_META}


def test_a_delete_field_that_the_table_lacks_marks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    spec = MergeSpec("ts", EVENT, "Op", "D")
    schema = pa.schema([("ts", pa.int64())])
    assert spec_of_logs(spec, schema, {}).delete_field is None
    spec.for_input(schema, frozenset(), {})
    assert "hoodie.payload.delete.field = Op names a column that neither the input nor the table has" in caplog.text


def test_payload_classes_know_no_hard_deletes_in_rows() -> None:
    rows = pa.record_batch({"ts": pa.array([0, 1], pa.int32())})
    found = ordering_of_rows(spec_of("PartialUpdateAvroPayload"), rows, rows["ts"], np.array([True, True]))
    assert found.to_pylist() == [0, 1]


def test_a_flagged_row_with_the_int_0_is_a_hard_delete() -> None:
    spec = MergeSpec("ts", EVENT)
    for kind, expected in ((pa.int32(), [None, 1, 0]), (pa.int64(), [0, 1, 0])):
        rows = pa.record_batch({"ts": pa.array([0, 1, 0], kind)})
        found = ordering_of_rows(spec, rows, rows["ts"], np.array([True, True, False]))
        assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (pa.nulls(2), pa.int64(), [None, None]),
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
        (pa.array([1, None]), pa.float64(), [1.0, None]),
        (pa.array([1_000_000, None]), pa.timestamp("us", "UTC"), [1_000_000, None]),
        (pa.array([1, None], pa.int32()), pa.date32(), [1, None]),
        (pa.array([1, 2], pa.date32()), pa.date32(), [1, 2]),
        (pa.array([None, "x"]), pa.string(), [None, "x"]),
    ],
)
def test_ordering_values_of_delete_blocks_get_the_type_of_the_column(
    values: pa.Array, wanted: pa.DataType, expected: list[Any]
) -> None:
    found = ordering_of_deletes(values, wanted)
    assert found.type == wanted
    plain = {pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32()}.get(wanted, wanted)
    assert found.view(plain).to_pylist() == expected


def test_ordering_values_of_several_fields() -> None:
    values = pa.array([{"0": 1, "1": 2}, None], pa.struct([("0", pa.int32()), ("1", pa.int64())]))
    wanted = pa.struct([("0", pa.int64()), ("1", pa.timestamp("us"))])
    found = ordering_of_deletes(values, wanted)
    assert found.type == wanted and found.is_valid().to_pylist() == [True, False]
    assert found.field(0).to_pylist()[0] == 1


def test_plain_numbers_of_times_in_milliseconds() -> None:
    kind = pa.timestamp("us", "UTC")
    assert ordering_of_deletes(pa.array([7, None]), kind, [True]).view(pa.int64()).to_pylist() == [7000, None]
    assert ordering_of_deletes(pa.array([7], kind), kind, [True]).view(pa.int64()).to_pylist() == [7]
    values = pa.array([{"0": 1, "1": 2}], pa.struct([("0", pa.int64()), ("1", pa.int64())]))
    found = ordering_of_deletes(values, pa.struct([("0", kind), ("1", kind)]), [False, True])
    assert [found.field(index).view(pa.int64()).to_pylist() for index in range(2)] == [[1], [2000]]
    with pytest.raises(HoodieSchemaException, match="do not compare"):
        ordering_of_deletes(pa.array([1 << 62]), kind, [True])


@pytest.mark.parametrize("values", [pa.array(["x"]), pa.array([1 << 40])])
def test_ordering_values_of_another_kind_are_refused(values: pa.Array) -> None:
    with pytest.raises(HoodieSchemaException, match="do not compare with those of the table, which are int32"):
        ordering_of_deletes(values, pa.int32())


# --- pair by pair -----------------------------------------------------------------------------------------------------

COLUMNS = pa.schema(
    [
        ("_hoodie_commit_time", pa.string()),
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)


def pairs(
    rows: list[dict[str, Any] | None],
    ordering: list[int | None] | None = None,
    deletes: list[int] | None = None,
    known: list[set[str] | None] | None = None,
    keys: list[str] | None = None,
) -> PairEntries:
    """Entries; None for a record of a delete block."""
    has_row = np.array([r is not None for r in rows])
    if ordering is None:
        ordering = [None if r is None else r.get("ts") for r in rows]
    matrix: npt.NDArray[np.bool_] | None = None
    if known is not None:
        matrix = np.array([[part is None or name in part for name in COLUMNS.names] for part in known])
    is_delete = ~has_row
    is_delete[deletes or []] = True
    return PairEntries(
        pa.RecordBatch.from_pylist([r or {} for r in rows], COLUMNS),
        pa.array(keys or [f"k{number}" for number in range(len(rows))]),
        pa.array(ordering, pa.int64()),
        is_delete,
        has_row,
        matrix,
    )


def shown(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [(r["ts"], r["a"], r["b"]) for r in rows.to_pylist()]


def test_a_partial_row_overwrites_what_it_knows_if_it_wins() -> None:
    merging = MergingByMode(MergeSpec("ts", EVENT), EVENT)
    part = {"_hoodie_commit_time", "ts", "a"}
    older = pairs([{"ts": 5, "a": 1, "b": "x"}] * 3 + [None])
    newer = pairs(
        [{"ts": 5, "a": 2}, {"ts": 4, "a": 2}, None, {"ts": 7, "a": 2}],
        ordering=[5, 4, 9, 7],
        known=[part, part, None, part],
    )
    found = merging.merge(older, newer)
    assert shown(found.rows)[:2] == [(5, 2, "x"), (5, 1, "x")]
    assert found.is_delete.tolist() == [False, False, True, False]
    assert found.known is not None
    # What is behind a delete does not know the rest.
    assert found.known.all(axis=1).tolist() == [True, True, True, False]
    stored = pa.RecordBatch.from_pylist([{"ts": 6, "a": 0, "b": "s"}] * 4, COLUMNS)
    outcome = merging.merge_with_stored(stored, found)
    assert outcome.codes.tolist() == [KEEP_STORED, KEEP_STORED, DELETE_STORED, TAKE_INCOMING]
    assert outcome.rows is not None and shown(outcome.rows)[3] == (7, 2, "s")


def test_a_partial_row_gives_what_it_knows_to_nothing_older_that_it_loses_against() -> None:
    """Of two partial rows, the winner lacks a column that the loser has."""
    merging = MergingByMode(MergeSpec("ts", EVENT), EVENT)
    older = pairs([{"ts": 9, "a": 1}], known=[{"_hoodie_commit_time", "ts", "a"}])
    newer = pairs([{"ts": 5, "a": 2, "b": "y"}], known=[{"_hoodie_commit_time", "ts", "a", "b"}])
    found = merging.merge(older, newer)
    assert shown(found.rows) == [(9, 1, "y")]
    assert found.known is not None and found.known[0].tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("by_event_time", [True, False])
def test_empty_fields_of_the_winner_take_the_values_of_the_loser(by_event_time: bool) -> None:
    mode = MergeMode.EVENT_TIME_ORDERING if by_event_time else MergeMode.COMMIT_TIME_ORDERING
    rules = rules_of_mode(TableMerging(mode, partial_update_mode=PartialUpdateMode.IGNORE_DEFAULTS), True)
    assert rules.field_rule is FieldRule.DEFAULTS
    merging = MergingByMode(MergeSpec("ts", rules, default_values={"a": 0}), rules)
    older = pairs([{"ts": 5, "a": 1, "b": None}, {"ts": 5, "a": 0, "b": "x"}, {"ts": 1, "a": 7, "b": "x"}])
    newer = pairs([{"ts": 3, "a": 2, "b": "y"}, {"ts": 3, "a": 4, "b": None}, {"ts": 2, "a": 0, "b": None}])
    found = shown(merging.merge(older, newer).rows)
    if by_event_time:
        assert found == [(5, 1, "y"), (5, 4, "x"), (2, 7, "x")]
    else:
        assert found == [(3, 2, "y"), (3, 4, "x"), (2, 7, "x")]
    outcome = merging.merge_with_stored(older.rows, newer)
    assert outcome.rows is not None and shown(outcome.rows) == found
    assert outcome.codes.tolist() == [TAKE_INCOMING] * 3


@attrs.frozen
class FieldEntry:
    key: int
    kind: str
    ordering: int
    a: int | None
    b: str | None
    knows: tuple[bool, bool]


FIELD_ENTRIES = st.lists(
    st.builds(
        FieldEntry,
        st.integers(0, 2),
        st.sampled_from("uuuuudDfF"),
        st.integers(0, 3),
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from([None, "x", "y"]),
        st.tuples(st.booleans(), st.booleans()),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=400)
@given(FIELD_ENTRIES, st.sampled_from(list(MergeMode)[:2]), st.sampled_from([None, *PartialUpdateMode]), st.booleans())
@pytest.mark.one_in(4)
def test_a_fold_of_all_entries_leaves_what_one_pair_after_the_other_leaves(
    given_entries: list[FieldEntry], mode: MergeMode, partial: PartialUpdateMode | None, has_parts: bool
) -> None:
    entries = sorted(given_entries, key=lambda entry: entry.key)
    rules = rules_of_mode(TableMerging(mode, partial_update_mode=partial), True)
    merging = MergingByMode(MergeSpec("ts", rules, default_values={"a": 0}, unavailable_value="y"), rules)
    folded = pairs(
        [
            None
            if entry.kind in "dD"
            else {"_hoodie_commit_time": str(n), "id": str(entry.key), "ts": entry.ordering, "a": entry.a, "b": entry.b}
            for n, entry in enumerate(entries)
        ],
        ordering=[None if entry.kind in "DF" else entry.ordering for entry in entries],
        deletes=[n for n, entry in enumerate(entries) if entry.kind != "u"],
        known=[
            {
                "_hoodie_commit_time",
                "id",
                "ts",
                *(name for name, is_known in zip("ab", entry.knows, strict=True) if is_known),
            }
            for entry in entries
        ]
        if has_parts
        else None,
        keys=[str(entry.key) for entry in entries],
    )
    starts = np.flatnonzero([n == 0 or entry.key != entries[n - 1].key for n, entry in enumerate(entries)])
    left, expected = merging.fold(folded, starts), PairMerging.fold(merging, folded, starts)
    assert left.keys.equals(expected.keys)
    assert left.is_delete.tolist() == expected.is_delete.tolist()
    assert left.ordering == expected.ordering
    rows = np.flatnonzero(~left.is_delete)
    assert left.has_row[rows].all()
    places = pa.array(rows)
    if left.known is None:
        assert left.rows.take(places).to_pylist() == expected.rows.take(places).to_pylist()
        return
    assert expected.known is not None
    assert left.known[rows].tolist() == expected.known[rows].tolist()
    for found, wanted, known in zip(
        left.rows.take(places).to_pylist(), expected.rows.take(places).to_pylist(), left.known[rows], strict=True
    ):
        names = [name for name, is_known in zip(COLUMNS.names, known, strict=True) if is_known]
        assert [found[name] for name in names] == [wanted[name] for name in names]


def test_a_key_of_many_entries_is_merged_field_by_field_at_once() -> None:
    rules = rules_of_mode(
        TableMerging(MergeMode.EVENT_TIME_ORDERING, partial_update_mode=PartialUpdateMode.IGNORE_DEFAULTS), True
    )

    class Refusing(MergingByMode):
        def merge(self, older: PairEntries, newer: PairEntries) -> PairEntries:
            raise AssertionError("one pair after the other")

    merging = Refusing(MergeSpec("ts", rules), rules)
    count = 20_000
    rows = [{"id": "k", "ts": n, "a": n if n < 5 else None, "b": "x"} for n in range(count)]
    left = merging.fold(pairs(rows, keys=["k"] * count), np.array([0]))
    assert shown(left.rows) == [(count - 1, 4, "x")]


def test_rounds_touch_only_the_keys_that_still_have_entries() -> None:
    class Noting(MergingByPayload):
        sizes: ClassVar[list[int]] = []

        def merge(self, older: PairEntries, newer: PairEntries) -> PairEntries:
            self.sizes.append(len(newer))
            return super().merge(older, newer)

    counts = [1, 3, 200, 1, 2]
    rows = [{"id": str(key), "ts": n} for key, count in enumerate(counts) for n in range(count)]
    merging = Noting(spec_of("PartialUpdateAvroPayload"))
    starts = np.cumsum([0, *counts[:-1]])
    found = merging.fold(pairs(rows, keys=[r["id"] for r in rows]), starts)
    assert found.keys.to_pylist() == ["0", "1", "2", "3", "4"]
    assert found.rows["id"].to_pylist() == found.keys.to_pylist()
    assert found.rows["ts"].to_pylist() == [count - 1 for count in counts]
    assert merging.sizes == [3, 2] + [1] * 197


def test_payload_classes_merge_field_by_field() -> None:
    merging = MergingByPayload(spec_of("PartialUpdateAvroPayload"))
    older = pairs([{"ts": 5, "a": 1, "b": None}, {"ts": 5, "a": 1, "b": "x"}, {"ts": 5, "a": 1}, None])
    newer = pairs([{"ts": 3, "a": 2, "b": "y"}, {"ts": 6, "a": None, "b": None}, None, {"ts": 1, "a": 3}])
    found = merging.merge(older, newer)
    assert found.is_delete.tolist() == [False, False, True, False]
    assert [shown(found.rows)[n] for n in (0, 1, 3)] == [(5, 1, "y"), (6, 1, "x"), (1, 3, None)]
    # A late row gives some values to the older one, and leaves it its ordering value.
    assert found.ordering is not None and found.ordering.to_pylist()[:2] == [5, 6]
    stored = pa.RecordBatch.from_pylist([{"ts": 4, "a": 0, "b": "s"}], COLUMNS)
    outcome = merging.merge_with_stored(stored, found.take(np.array([0])))
    assert outcome.rows is not None and shown(outcome.rows) == [(5, 1, "y")]


def test_the_first_value_stays() -> None:
    merging = MergingByPayload(spec_of("FirstValueAvroPayload"))
    older = pairs([{"ts": 5, "a": 1}] * 4)
    newer = pairs([{"ts": 5, "a": 2}, {"ts": 6, "a": 2}, None, None], ordering=[5, 6, 4, None])
    found = merging.merge(older, newer)
    assert [r[1] for r in shown(found.rows)][:2] == [1, 2]
    assert found.is_delete.tolist() == [False, False, False, True]
    outcome = merging.merge_with_stored(older.rows, newer)
    assert outcome.codes.tolist() == [KEEP_STORED, TAKE_INCOMING, KEEP_STORED, DELETE_STORED]


class Sum(HoodieRecordMerger):
    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        total = pa.compute.add(older["a"], newer["a"])
        if pa.compute.any(pa.compute.equal(total, 13)).as_py():
            raise ValueError("unlucky")
        columns = [total if name == "a" else newer[name] for name in newer.schema.names]
        return MergeOutcome.write(pa.RecordBatch.from_arrays(columns, schema=newer.schema))


def test_a_users_merger_sees_the_entries_of_a_key_in_their_order() -> None:
    merging = MergingByPayload(MergeSpec((), merger=Sum()))
    rows: list[dict[str, Any] | None] = [
        {"id": "x", "a": 1},
        {"id": "x", "a": 2},
        {"id": "x", "a": 4},
        {"id": "y", "a": 8},
    ]
    left = merging.fold(pairs(rows, keys=["x", "x", "x", "y"]), np.array([0, 3]))
    assert left.rows["a"].to_pylist() == [7, 8]
    stored = pa.RecordBatch.from_pylist([{"a": 100}, {"a": 200}], COLUMNS)
    outcome = merging.merge_with_stored(stored, left)
    assert outcome.rows is not None and outcome.rows["a"].to_pylist() == [107, 208]
    assert rows_after_delete(merging) == [False]
    with pytest.raises(HoodieException, match=r"log records of key 'y' failed: Sum failed: ValueError: unlucky"):
        merging.merge_with_stored(pa.RecordBatch.from_pylist([{"a": 1}, {"a": 5}], COLUMNS), left)


def rows_after_delete(merging: MergingByPayload) -> list[bool]:
    """A row behind a delete is a new one."""
    left = merging.fold(pairs([{"a": 1}, None, {"a": 2}], keys=["x"] * 3), np.array([0]))
    assert left.rows["a"].to_pylist() == [2]
    return list(left.is_delete.tolist())
