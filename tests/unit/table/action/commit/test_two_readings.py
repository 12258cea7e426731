"""Reading an input twice: which columns decide, and how other rows are found out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import STATUS_SCHEMA, RowsSeen, TaskFailure, WithoutEffect, pack, unpack
from hoodie.engine.data import NarrowableFunction
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieIndexException
from hoodie.keygen.built_in_key_generators import ComplexKeyGenerator, NonpartitionedKeyGenerator, SimpleKeyGenerator
from hoodie.table.action.commit.incoming_keys import rows_seen
from hoodie.table.action.commit.record_preparer import RecordPreparer, WriterSchema
from hoodie.table.action.commit.two_readings import CountRows, InputReadOtherwise, check_rows_seen, usable_rows
from hoodie.table.action.commit.upsert_partitioner import BucketAssigner

TASK = TaskIdentity(0, 0, 0)
INPUT = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("Region", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("_hoodie_is_deleted", pa.bool_()),
        ("payload", pa.binary()),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"id": "a", "n": 1, "Region": "x", "ts": 5, "s": {"a": 1, "b": "u"}, "payload": b"1"},
        {"id": None, "n": 2, "Region": "x", "ts": 6, "s": None, "payload": b"2"},
        {"id": "ä", "n": 3, "Region": None, "ts": None, "s": {"a": None, "b": ""}, "_hoodie_is_deleted": True},
        {"id": "", "n": None, "Region": "", "ts": 8, "s": {"a": 4, "b": "x"}, "_hoodie_is_deleted": False},
    ],
    INPUT,
)
TABLE = pa.schema([field.with_name(field.name.lower()) for field in INPUT])


@pytest.mark.parametrize(
    ("generator", "ordering", "read"),
    [
        (SimpleKeyGenerator(("id",), ("region",)), "ts", ["id", "Region", "ts", "_hoodie_is_deleted"]),
        (SimpleKeyGenerator(("n",), ("s.b",)), None, ["n", "s", "_hoodie_is_deleted"]),
        (ComplexKeyGenerator(("id", "n"), ("region", "s.a")), "n", ["id", "n", "Region", "s", "_hoodie_is_deleted"]),
        (NonpartitionedKeyGenerator(("s.a",)), "s.b", ["s", "_hoodie_is_deleted"]),
    ],
)
def test_a_narrowed_preparer_makes_the_same_deciding_columns(generator, ordering, read) -> None:
    preparer = RecordPreparer(WriterSchema(TABLE), generator, (ordering,) if ordering else ())
    assert isinstance(preparer, NarrowableFunction)
    columns = [RECORD_KEY, PARTITION_PATH, OPERATION, *([ORDERING_VALUE] if ordering else [])]
    narrowed = preparer.narrowed_to(columns, INPUT)
    assert narrowed is not None
    function, schema, needed = narrowed
    assert list(needed) == read
    made = function(ROWS.select(needed))
    assert made.schema == schema
    assert made.select(columns) == preparer(ROWS).select(columns)


def test_a_delete_reads_the_key_columns_that_it_has() -> None:
    preparer = RecordPreparer(
        WriterSchema(), SimpleKeyGenerator(("id",), ("Region",)), operation=RecordOperation.DELETE
    )
    given = ROWS.select(["id", "Region"])
    narrowed = preparer.narrowed_to([RECORD_KEY], given.schema)
    assert narrowed is not None
    function, schema, needed = narrowed
    assert list(needed) == given.schema.names
    assert function(given) == preparer(given)
    assert function(given).schema == schema


def test_a_preparer_that_needs_all_columns_says_so() -> None:
    generator = SimpleKeyGenerator(("id",), ("region",))
    assert RecordPreparer(WriterSchema(TABLE), None).narrowed_to([RECORD_KEY], INPUT) is None
    assert RecordPreparer(WriterSchema(TABLE), generator, is_tagged=True).narrowed_to([RECORD_KEY], INPUT) is None


def batch(*keys: str | None, partition: str | None = "x", operation: int = RecordOperation.UPSERT) -> pa.RecordBatch:
    count = len(keys)
    return pa.record_batch(
        {
            RECORD_KEY: pa.array(keys, pa.string()),
            PARTITION_PATH: pa.array([partition] * count, pa.string()),
            OPERATION: pa.array(np.full(count, operation, np.int8)),
        }
    )


def test_rows_are_the_same_in_any_order_and_any_batches() -> None:
    whole = rows_seen(batch("a", "b", "c"))
    assert whole == rows_seen(batch("c")) + rows_seen(batch("b", "a")) + RowsSeen()
    others = [
        batch("a", "b"),
        batch("a", "b", "d"),
        batch("a", "b", "b"),
        batch("a", "b", "c", "c"),
        batch("a", "b", "c", partition="y"),
        batch("a", "b", "c", operation=RecordOperation.DELETE),
    ]
    assert all(rows_seen(other) != whole for other in others)


def test_tasks_note_the_rows_that_come_to_them() -> None:
    def write(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pack([WithoutEffect(kept=sum(one.num_rows for one in batches))])

    written = list(CountRows(write)(TASK, iter([batch("a", "b"), batch("c")])))
    results = unpack(pa.Table.from_batches(written, STATUS_SCHEMA))
    assert results == [WithoutEffect(kept=3), rows_seen(batch("a", "b", "c"))]


def test_other_rows_than_expected_are_found_out() -> None:
    expected = rows_seen(batch("a", "b"))
    parts = [rows_seen(batch("b")), rows_seen(batch("a"))]
    check_rows_seen(parts, expected)
    check_rows_seen([], None)
    for found in (parts[:1], [*parts, rows_seen(batch("c"))], [], [rows_seen(batch("a", "c"))]):
        with pytest.raises(InputReadOtherwise, match="2 rows to write"):
            check_rows_seen(found, expected)


def test_failures_that_keeping_the_input_may_prevent_are_tried_again() -> None:
    expected = rows_seen(batch("a"))
    with pytest.raises(InputReadOtherwise, match="rows cannot be written .*: too long a key"):
        check_rows_seen([TaskFailure("HoodieKeyException", "too long a key"), expected], expected)
    # Another writer is at the file group: the failure itself is the answer.
    check_rows_seen([TaskFailure("HoodieEarlyConflictDetectionException", "rival")], expected)


def test_rows_that_could_not_be_prepared_are_left_out() -> None:
    good = batch("a", "b")
    assert usable_rows(good) is good
    mixed = pa.Table.from_batches([good, batch("why", partition=None)]).combine_chunks().to_batches()[0]
    assert usable_rows(mixed) == good


def test_rows_that_the_profile_did_not_count_are_dropped_if_asked() -> None:
    rows = pa.record_batch(
        {
            RECORD_KEY: ["a", "b", "c"],
            PARTITION_PATH: ["x", "x", "y"],
            CURRENT_FILE_ID: pa.array(["f1", "f2", None], pa.string()),
        }
    )
    strict = BucketAssigner({("x", "f1"): 3}, {})
    with pytest.raises(HoodieIndexException, match="f2"):
        strict(rows)
    dealt = BucketAssigner({("x", "f1"): 3}, {}, drops_unknown=True)(rows)
    assert (dealt.column(RECORD_KEY).to_pylist(), dealt.column(BUCKET).to_pylist()) == (["a"], [3])
