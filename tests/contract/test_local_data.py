from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Barrier

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.engine import local_data
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_data import LocalData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from tests.contract.data_contract import DataContract


def in_one_batch(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = list(batches)
    if rows:
        yield from pa.Table.from_batches(rows).combine_chunks().to_batches()


def in_rows(table: pa.Table, rows: pa.Array) -> pa.RecordBatch:
    """The rows of a table whose column ``row`` has these values."""
    (batch,) = table.take(pc.index_in(rows, value_set=table["row"].combine_chunks())).combine_chunks().to_batches()
    return batch


class TestLocalData(DataContract):
    @pytest.fixture
    def context(self) -> HoodieEngineContext:
        return LocalEngineContext(parallelism=2)

    def data(self, context: HoodieEngineContext, table: pa.Table) -> HoodieData:
        return context.to_data(table)

    def test_chunks_that_do_not_fit_one_array_are_routed_and_joined(self, context: LocalEngineContext) -> None:
        # Lists of nulls count elements without holding memory.
        many = pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), pa.nulls(2**31 - 1))
        few = pa.ListArray.from_arrays(pa.array([0, 1, 5], pa.int32()), pa.nulls(5))
        table = pa.table({"key": ["a", "b", "c"], "number": pa.array([1, 0, 1], pa.int32())})
        table = table.append_column("list", pa.chunked_array([many, few]))
        with pytest.raises(pa.ArrowInvalid, match="overflow"):
            table.take([2, 0, 1])
        data = LocalData.from_table(context, table)
        other = LocalData.from_table(context, pa.table({"key": ["c", "b"], "value": [3, 2]}))
        for result in (data.route("number", 2), data.sort_by(["key"], 3), data.join(other, ["key"], "left")):
            rows = result.select(["key", "number"]).collect()
            assert rows is not None
            assert sorted(rows["key"].to_pylist()) == ["a", "b", "c"]
        joined = other.join(data, ["key"], "left").collect()
        assert joined is not None
        assert joined.sort_by("key").to_pylist() == [
            {"key": "b", "value": 2, "number": 0, "list": [None]},
            {"key": "c", "value": 3, "number": 1, "list": [None] * 4},
        ]

    def test_columns_of_dictionaries_and_of_nulls_go_through_every_operation(
        self, context: HoodieEngineContext
    ) -> None:
        first = pa.table({"key": pa.array(["b", "a"]).dictionary_encode(), "none": pa.nulls(2), "value": [1, 2]})
        second = pa.table(
            {"key": pa.array(["c", None, "b"]).dictionary_encode(), "none": pa.nulls(3), "value": [3, 4, 5]}
        )
        data = LocalData.from_table(context, pa.concat_tables([first, second]))
        other = LocalData.from_table(context, pa.table({"key": ["b", "c"], "more": [10, 30]}))
        joined = data.join(other, ["key"], "left").select(["value", "more"]).collect()
        assert joined is not None
        assert joined["more"].to_pylist() == [10, None, 30, None, 10]
        for result in (
            data.sort_by(["key", "none"], 1),
            data.repartition_by(["key", "none"], 2),
            data.combine_by_key(["none", "key"], lambda rows: rows),
        ):
            rows = result.collect()
            assert rows is not None
            assert sorted(zip(rows["value"].to_pylist(), rows["key"].to_pylist(), strict=True)) == [
                (1, "b"), (2, "a"), (3, "c"), (4, None), (5, "b"),
            ]  # fmt: skip
        assert data.count_by(["key", "none"]).num_rows == 4

    @pytest.mark.parametrize("batch_rows", [1, 30_000])
    def test_rows_of_many_batches_are_routed_in_their_order(self, context: LocalEngineContext, batch_rows: int) -> None:
        count = 60_000 if batch_rows > 1 else 300
        numbers = pa.array([number * 7 % 5 for number in range(count)], pa.int32())
        table = pa.table({"number": numbers, "row": range(count)})
        batches = table.to_batches(max_chunksize=batch_rows)
        routed = context.to_data(pa.Table.from_batches(batches)).route("number", 6)

        def rows_of(task: TaskIdentity, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = pa.Table.from_batches(given, table.schema)
            yield pa.RecordBatch.from_pydict({"row": rows["row"].combine_chunks()})

        found = routed.map_partitions_with_index(rows_of, pa.schema([("row", pa.int64())])).collect()
        assert found is not None
        expected = [row for bucket in range(6) for row in range(count) if row * 7 % 5 == bucket]
        assert found["row"].to_pylist() == expected

    @pytest.mark.parametrize("columns", [["name"], ["name", "value"], ["value", "name"], ["value"]])
    @pytest.mark.parametrize("batch_rows", [7, 500, 20_000])
    def test_rows_of_equal_values_keep_their_order_when_sorted(
        self, context: LocalEngineContext, columns: list[str], batch_rows: int
    ) -> None:
        names = ["", "b", None, "\u00e4", "a" * 90, "\U0001f600", "\uff21"]
        count = min(60_000, 60 * batch_rows)
        generator = np.random.default_rng(batch_rows)
        table = pa.table(
            {
                "name": pa.array([names[place] for place in generator.integers(0, len(names), count)], pa.string()),
                "value": pa.array([f"{number:07d}" for number in generator.integers(0, 2 * count, count)]),
                "number": pa.array(generator.integers(0, 3, count), pa.int32()),
                "row": range(count),
            }
        )
        given = pa.Table.from_batches(table.to_batches(max_chunksize=batch_rows)).slice(3)
        for data in (context.to_data(given).route("number", 4), context.to_data(given).repartition_by(["number"], 3)):
            found = data.sort_within(columns).map_partitions_with_index(in_one_batch, table.schema)
            rows = found.collect()
            assert rows is not None
            assert rows.num_rows == given.num_rows
            for part in filter(len, rows.to_batches()):
                part.validate(full=True)
                values = [[(value is None, value) for value in part.column(name).to_pylist()] for name in columns]
                keys = list(zip(*values, part.column("row").to_pylist(), strict=True))
                assert keys == sorted(keys)
                assert part.equals(in_rows(given, part.column("row")))

    def test_rows_of_a_few_file_groups_are_sorted_without_a_copy_between(
        self, context: LocalEngineContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = pa.table({"number": pa.array([0, 1] * 30_000, pa.int32()), "group": ["a", "b", "b", "a"] * 15_000})
        routed = context.to_data(table).route("number", 2)
        monkeypatch.setattr(local_data, "_taken", None)
        rows = routed.sort_within(["group"]).collect()
        assert rows is not None
        assert rows["group"].to_pylist() == (["a"] * 15_000 + ["b"] * 15_000) * 2

    @pytest.mark.parametrize("values", [2, 60_000])
    def test_routed_rows_are_sorted_once(
        self, context: LocalEngineContext, monkeypatch: pytest.MonkeyPatch, values: int
    ) -> None:
        sorted_rows = []
        order = local_data._order

        def noted(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
            sorted_rows.append(table.num_rows)
            return order(table, columns)

        monkeypatch.setattr(local_data, "_order", noted)
        text = pa.array([f"{row * 7919 % values:05d}" for row in range(60_000)])
        table = pa.table({"number": pa.array([0, 2] * 30_000, pa.int32()), "text": text})
        rows = context.to_data(table).route("number", 3).sort_within(["text"]).collect()
        assert rows is not None
        assert rows["text"].to_pylist() == sorted(text[::2].to_pylist()) + sorted(text[1::2].to_pylist())
        assert [count for count in sorted_rows if count] == [30_000, 30_000]

    @pytest.mark.parametrize("tasks", [1, 2])
    def test_rows_of_a_stream_are_numbered_in_the_order_of_the_input(
        self, context: LocalEngineContext, tasks: int
    ) -> None:
        table = pa.table({"row": range(12)})
        together = Barrier(2)

        def in_turns(batch: pa.RecordBatch) -> pa.RecordBatch:
            # Of each two batches that follow each other, each task gets one.
            if tasks == 2:
                together.wait(timeout=60)
            return batch

        data = context.to_data(iter(table.to_batches(max_chunksize=2))).map_batches(in_turns, table.schema)
        numbered = data.coalesce(tasks).number_rows("number").persist().collect()
        assert numbered is not None
        assert numbered.sort_by("number")["row"].to_pylist() == list(range(12))
        assert len(numbered["number"].unique()) == 12
