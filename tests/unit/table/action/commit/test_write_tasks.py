"""Buckets that share a task: how they are dealt, and that each is written as if its task were its own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.record_columns import BUCKET
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException
from hoodie.table.action.commit.write_tasks import BUCKET_BYTES, TASK_BYTES, EachBucket, WriteTasks

TASK = TaskIdentity(1, 5, 77)
SCHEMA = pa.schema([("value", pa.string()), (BUCKET, pa.int32())])
WRITTEN = pa.schema([("token", pa.string()), ("values", pa.list_(pa.string()))])


class TestDealing:
    def test_buckets_have_their_own_tasks_where_a_task_costs_little(self) -> None:
        assert WriteTasks.of([1] * 5000, None) == WriteTasks(5000)

    def test_few_buckets_have_their_own_tasks(self) -> None:
        assert WriteTasks.of([1] * 8, 8) == WriteTasks(8)

    def test_large_buckets_have_their_own_tasks(self) -> None:
        assert WriteTasks.of([TASK_BYTES] * 100, 8) == WriteTasks(100)

    def test_small_buckets_share_tasks_of_some_work(self) -> None:
        tasks = WriteTasks.of([0] * 3000, 8)
        assert tasks.count == 3000 * BUCKET_BYTES // TASK_BYTES + 1
        assert tasks.task_of is not None
        assert {tasks.task_of.count(task) for task in range(tasks.count)} == {31, 32}

    def test_no_task_waits_for_one_that_has_much_more_to_do(self) -> None:
        sizes = [10 * TASK_BYTES, 3 * TASK_BYTES, *[BUCKET_BYTES] * 1000]
        tasks = WriteTasks.of(sizes, 8)
        assert tasks.task_of is not None
        assert [tasks.task_of.count(task) for task in tasks.task_of[:2]] == [1, 1]

    @given(st.lists(st.integers(0, 4 * TASK_BYTES), max_size=300), st.integers(1, 40))
    def test_each_bucket_has_one_task_and_each_task_a_bucket(self, sizes: list[int], least: int) -> None:
        tasks = WriteTasks.of(sorted(sizes, reverse=True), least)
        assert tasks.count <= len(sizes)
        if tasks.task_of is not None:
            assert tasks.count >= least
            assert len(tasks.task_of) == len(sizes)
            assert set(tasks.task_of) == set(range(tasks.count))


def written(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tells which task wrote which values."""
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    yield pa.record_batch([[task.write_token], [values]], schema=WRITTEN)


def first_alone(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads one batch, and leaves the others."""
    yield from written(task, iter([next(batches)]))


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([[f"of {number}" for number in numbers], pa.array(numbers, pa.int32())], schema=SCHEMA)


def run(task: EachBucket, *batches: pa.RecordBatch) -> list[tuple[str, list[str]]]:
    return [tuple(row.values()) for batch in task(TASK, iter(batches)) for row in batch.to_pylist()]


class TestEachBucket:
    def test_a_bucket_is_written_as_by_its_own_task(self) -> None:
        found = run(EachBucket(written), rows(3, 3, 4), rows(), rows(4), rows(4, 9))
        assert found == [("3-5-77", ["of 3"] * 2), ("4-5-77", ["of 4"] * 3), ("9-5-77", ["of 9"])]

    def test_rows_that_a_bucket_leaves_are_not_those_of_the_next(self) -> None:
        found = run(EachBucket(first_alone), rows(3), rows(3, 4), rows(5))
        assert found == [("3-5-77", ["of 3"]), ("4-5-77", ["of 4"]), ("5-5-77", ["of 5"])]

    def test_a_task_without_rows_writes_nothing(self) -> None:
        assert run(EachBucket(written), rows()) == []

    def test_rows_of_a_bucket_that_came_apart_are_refused(self) -> None:
        with pytest.raises(HoodieException, match="the rows of bucket 3 came apart"):
            run(EachBucket(written), rows(3, 4), rows(3))

    def test_buckets_with_their_own_tasks_are_written_directly(self) -> None:
        assert WriteTasks(2).running(written) is written
        assert WriteTasks(2, (0, 1, 0)).running(written) == EachBucket(written)
