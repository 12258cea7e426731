"""Rows of one key are combined in the task that writes them, and rows that were not looked up are seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodie.common.model.record_columns import BUCKET, OPERATION, RECORD_KEY
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen, WithoutEffect, pack, unpack
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieWriteException
from hoodie.table.action.commit import hashed_rows, located_in_tasks
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.action.commit.hashed_rows import CombineRows, with_strays
from tests.support.table_builder import init_table, local_client, read_rows, rows

TASK = TaskIdentity(0, 0, 0)
UPSERT, DELETE = int(RecordOperation.UPSERT), int(RecordOperation.DELETE)


def batch_of(keys: list[str], value: int, operation: int = UPSERT) -> pa.RecordBatch:
    return pa.record_batch(
        {
            RECORD_KEY: keys,
            "value": [value] * len(keys),
            OPERATION: pa.array([operation] * len(keys), pa.int8()),
            BUCKET: pa.array([0] * len(keys), pa.int32()),
        }
    )


def last_of_each(table: pa.Table) -> pa.Table:
    """The row of the largest value for each key."""
    best = {row[RECORD_KEY]: row for row in sorted(table.to_pylist(), key=lambda row: row["value"])}
    return pa.Table.from_pylist(list(best.values()), schema=table.schema)


class Sink:
    """Keeps the rows that it is to write."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.rows += [row for batch in batches for row in batch.to_pylist()]
        yield pack([])


def combine(
    batches: list[pa.RecordBatch], at_once: bool = False, kind: BucketType = BucketType.UPDATE
) -> tuple[list[tuple[object, object]], WithoutEffect]:
    sink = Sink()
    function = CombineRows(sink, last_of_each, at_once, (BucketInfo(kind, "f", "x"),))
    results = unpack(pa.Table.from_batches(list(function(TASK, iter(batches)))))
    (effect,) = (result for result in results if isinstance(result, WithoutEffect))
    return sorted((row[RECORD_KEY], row["value"]) for row in sink.rows), effect


@pytest.mark.parametrize("at_once", [True, False])
def test_one_row_of_each_key_is_written(at_once: bool) -> None:
    given = [batch_of(["a", "b"], 1), batch_of(["c", "a"], 2), batch_of(["a"], 0)]
    assert combine(given, at_once) == ([("a", 2), ("b", 1), ("c", 2)], WithoutEffect(combined=2))


def test_memory_grows_with_the_keys_not_with_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_rows, "HELD_ROWS", 100)
    most = 0

    def watched(table: pa.Table) -> pa.Table:
        nonlocal most
        most = max(most, table.num_rows)
        return last_of_each(table)

    sink = Sink()
    function = CombineRows(sink, watched, False, (BucketInfo(BucketType.UPDATE, "f", "x"),))
    keys = [f"k{i}" for i in range(60)]
    results = list(function(TASK, (batch_of(keys, value) for value in range(100))))
    assert {row["value"] for row in sink.rows} == {99}
    assert len(sink.rows) == 60
    assert most <= 240
    assert WithoutEffect(combined=99 * 60) in unpack(pa.Table.from_batches(results))


def test_a_new_key_whose_last_row_is_a_delete_is_not_written() -> None:
    given = [batch_of(["a", "b"], 1), batch_of(["a"], 2, DELETE)]
    assert combine(given, kind=BucketType.INSERT) == ([("b", 1)], WithoutEffect(combined=1, unmatched_deletes=1))


def test_rows_without_a_bucket_come_to_some_bucket_unless_they_are_deletes() -> None:
    batch = pa.record_batch({OPERATION: pa.array([UPSERT, UPSERT, DELETE], pa.int8())})
    assert with_strays(batch, np.array([3, -1, -1], dtype=np.int32)).to_pylist() == [3, 0, None]


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_hashes_of_other_rows_than_those_that_were_counted_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)
    path = init_table(tmp_path / "t")
    with local_client(path, index_type=index) as client:
        client.upsert(rows(("a", "x", 1)))
        monkeypatch.setattr(located_in_tasks, "rows_read", lambda notes: RowsSeen(1, 7))
        with pytest.raises(HoodieWriteException, match="then other ones"):
            client.upsert(rows(("a", "x", 2)))
    assert read_rows(path) == [("a", "x", 1)]
