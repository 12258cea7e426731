from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from hoodie.common.data import numbered_rows
from hoodie.engine import local_data
from hoodie.engine.data import HoodieData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity

PARTITIONS = 300


def rows() -> pa.Table:
    """2,000 rows in three batches; a third goes to partition 7, few to others, and none to some."""
    rng = np.random.default_rng(5)
    places = np.where(rng.random(2_000) < 0.33, 7, rng.integers(0, PARTITIONS - 20, 2_000))
    texts = [f"text {number}" for number in range(2_000)]
    table = pa.table({"place": places, "text": texts, "same": texts, "list": [[number] for number in range(2_000)]})
    return pa.concat_tables([table.slice(0, 900), table.slice(900, 100), table.slice(1_000)])


def seen(routed: HoodieData) -> pa.Table:
    """All rows with the partition that they came in."""

    def tell(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.num_rows
            yield batch.append_column("partition", pa.array([task.partition_index] * batch.num_rows, pa.int64()))

    schema = routed.schema.append(pa.field("partition", pa.int64()))
    found = routed.map_partitions_with_index(tell, schema).collect()
    assert found is not None
    return found


def expected(table: pa.Table) -> pa.Table:
    order = np.argsort(table["place"].to_numpy(), kind="stable")
    taken = table.combine_chunks().take(pa.array(order))
    return taken.append_column("partition", taken["place"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("small_bytes", [0, 1 << 16])
def test_rows_come_to_their_partition_in_their_order_each_time(
    threads: int, small_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_data, "_SMALL_PART_BYTES", small_bytes)
    table = rows()
    routed = LocalEngineContext(threads).to_data(table).route("place", PARTITIONS)
    for _ in range(2):
        assert seen(routed).combine_chunks().equals(expected(table).combine_chunks())


def test_rows_of_small_partitions_are_copied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []

    def counted(batch: pa.RecordBatch, numbers: pa.Array) -> pa.RecordBatch:
        copies.append(len(numbers))
        return original(batch, numbers)

    original = numbered_rows.take_rows
    monkeypatch.setattr(numbered_rows, "take_rows", counted)
    monkeypatch.setattr(local_data, "_SMALL_PART_BYTES", 2_000)
    routed = LocalEngineContext(1).to_data(rows()).route("place", PARTITIONS)
    seen(routed)
    # Five groups of 64 partitions and the large one, of two or three batches each.
    assert sum(copies) <= 2_000
    assert len(copies) <= 18


def test_columns_that_share_their_bytes_share_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows()
    table = table.set_column(2, "same", table["text"])
    shared = []

    def look(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            first, second = batch.column("text").buffers(), batch.column("same").buffers()
            shared.append(first[2].address == second[2].address)
            yield batch

    routed = LocalEngineContext(1).to_data(table).route("place", PARTITIONS)
    routed.map_partitions_with_index(look, routed.schema).collect()
    assert shared
    assert all(shared)
