"""What every `HoodieEngineContext` and its `HoodieData` promise; a module subclasses `DataContract` once per engine."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.engine.bucket_routing import BucketRouting, InsertRouting, KeyColumns, WeightedBuckets
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieKeyException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier

SCHEMA = pa.schema([("key", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("bucket", pa.int32())])
TASKS = pa.schema([("index", pa.int32()), ("stage", pa.int64()), ("attempt", pa.int64()), ("rows", pa.int64())])


def rows_of(data: HoodieData) -> list[tuple[Any, ...]]:
    """The rows of some data, sorted."""
    table = data.collect()
    assert table is not None
    assert table.schema == data.schema
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def table_of(rows: list[tuple[str | None, str | None, int, int | None]]) -> pa.Table:
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)}, schema=SCHEMA)


def nested_table(prefix: str, keys: list[str | None]) -> pa.Table:
    """Keys with a list, a struct and a map, some of them null."""
    numbers = range(len(keys))
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            f"{prefix}_list": pa.array(
                [[i, None] if i % 4 != 3 else None for i in numbers], pa.list_(pa.field("element", pa.int64()))
            ),
            f"{prefix}_struct": pa.array(
                [{"a": i, "b": [str(i)]} if i % 4 != 2 else None for i in numbers],
                pa.struct([("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string())))]),
            ),
            f"{prefix}_map": pa.array(
                [[(f"m{i}", i)] if i % 5 != 4 else None for i in numbers], pa.map_(pa.string(), pa.int64())
            ),
        }
    )


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    assert batch.num_rows > 0
    value = pc.multiply(batch.column("value"), 2)
    return batch.set_column(2, SCHEMA.field("value"), value)


def thirds_of_even(batch: pa.RecordBatch) -> pa.Array:
    """The value modulo 3, of values that are multiples of 4."""
    assert batch.schema.names == ["value"]
    values = batch.column("value").to_pylist()
    return pa.array([value % 3 if value % 4 == 0 else None for value in values], pa.int32())


def thirds_of_task(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    thirds = {third for batch in batches for third in batch.column("third").to_pylist()}
    yield pa.RecordBatch.from_pydict(
        {
            "index": pa.array([task.partition_index], pa.int32()),
            "buckets": pa.array([sorted(thirds)], pa.list_(pa.int32())),
        }
    )


def described_task(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = sum(batch.num_rows for batch in batches)
    columns = [[task.partition_index], [task.stage_id], [task.attempt_id], [count]]
    yield pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, TASKS, strict=True)], schema=TASKS)


def buckets_of_task(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    buckets = {bucket for batch in batches for bucket in batch.column("bucket").to_pylist()}
    yield pa.RecordBatch.from_pydict(
        {
            "index": pa.array([task.partition_index], pa.int32()),
            "buckets": pa.array([sorted(buckets)], pa.list_(pa.int32())),
        }
    )


def fifths(batch: pa.RecordBatch) -> pa.Array:
    """The value modulo 5."""
    return pa.array([value % 5 for value in batch.column("value").to_pylist()], pa.int32())


def numbers_in_order(
    column: str,
) -> Callable[[TaskIdentity, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that tells the numbers of its rows."""

    def run(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(column).to_pylist()]
        columns = {
            "index": pa.array([task.partition_index], pa.int32()),
            "buckets": pa.array([numbers], pa.list_(pa.int32())),
        }
        yield pa.RecordBatch.from_pydict(columns)

    return run


def with_index(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        index = pa.array([task.partition_index] * batch.num_rows, pa.int32())
        yield batch.set_column(3, SCHEMA.field("bucket"), index)


NUMBERED = pa.schema([("index", pa.int32()), ("part", pa.string()), ("to", pa.int32())])


def partition_numbers(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        index = pa.array([task.partition_index] * batch.num_rows, pa.int32())
        yield pa.RecordBatch.from_arrays([index, batch.column("part"), batch.column("to")], schema=NUMBERED)


def partitions_of(data: HoodieData) -> list[list[tuple[Any, ...]]]:
    """(key, part, value) of the rows of each partition that has one, in order."""
    table = data.map_partitions_with_index(with_index, SCHEMA).collect()
    assert table is not None
    partitions: dict[int, list[tuple[Any, ...]]] = {}
    for row in table.to_pylist():
        partitions.setdefault(row["bucket"], []).append((row["key"], row["part"], row["value"]))
    return [partitions[index] for index in sorted(partitions)]


def nothing(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def newest(table: pa.Table) -> pa.Table:
    """For each key the row of the highest value; refuses rows that are alone."""
    best: dict[Any, dict[str, Any]] = {}
    counts: Counter[Any] = Counter()
    for row in table.to_pylist():
        key = (row["key"], row["part"])
        counts[key] += 1
        if key not in best or row["value"] > best[key]["value"]:
            best[key] = row
    assert min(counts.values()) > 1
    return pa.Table.from_pylist(list(best.values()), schema=table.schema)


def unwanted(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise HoodieKeyException("column key: 3 rows have none")


def square(task: TaskIdentity, item: int) -> int:
    return item * item


def refuse_odd(task: TaskIdentity, item: int) -> int:
    if item % 2:
        raise HoodieKeyException(f"{item} is odd")
    return item


def refuse_text(task: TaskIdentity, item: int) -> int:
    return int(f"{item}x")


def identity_of(task: TaskIdentity, item: int) -> TaskIdentity:
    return task


def made(task: TaskIdentity, item: tuple[str, int]) -> Iterator[pa.RecordBatch]:
    name, count = item
    columns = {"name": pa.array([name] * count, pa.string()), "number": pa.array(range(count), pa.int64())}
    yield pa.RecordBatch.from_pydict(columns)


@attrs.frozen
class Lookup:
    """A task that reads a shared value."""

    shared: Shared

    def __call__(self, task: TaskIdentity, item: str) -> int:
        value: int = self.shared.value[item]
        return value


class DataContract:
    """The suite; a subclass gives ``context`` and turns a table into data."""

    routes_by_bucket = False
    """Whether the engine finds file groups without the functions that were mapped."""

    @pytest.fixture
    def context(self) -> HoodieEngineContext:
        raise NotImplementedError

    def data(self, context: HoodieEngineContext, table: pa.Table) -> HoodieData:
        raise NotImplementedError

    @pytest.fixture
    def rows(self) -> list[tuple[str | None, str | None, int, int | None]]:
        return [(f"k{i}", f"p{i % 3}", i, i % 5) for i in range(100)]

    @pytest.fixture
    def records(self, context: HoodieEngineContext, rows: Any) -> HoodieData:
        return self.data(context, table_of(rows))

    def test_collected_rows_are_the_rows_given(self, records: HoodieData, rows: Any) -> None:
        assert records.schema == SCHEMA
        assert rows_of(records) == sorted(rows, key=repr)

    def test_no_rows_are_collected_as_an_empty_table(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([]))
        assert rows_of(data) == []
        assert data.count() == 0
        assert rows_of(data.map_batches(doubled, SCHEMA).route("bucket", 3)) == []

    def test_more_than_the_bytes_allowed_are_not_collected(self, records: HoodieData) -> None:
        assert records.collect(max_bytes=10) is None
        assert records.collect(max_bytes=1 << 20) is not None

    def test_nested_columns_count_towards_the_bytes_allowed(self, context: HoodieEngineContext) -> None:
        data = self.data(context, pa.table({"list": pa.array([[1] * 100] * 100, pa.list_(pa.int64()))}))
        assert data.collect(max_bytes=70_000) is None
        assert data.collect(max_bytes=90_000) is not None

    def test_selected_columns_come_in_the_order_asked_for(self, records: HoodieData, rows: Any) -> None:
        selected = records.select(["value", "key"])
        assert selected.schema.names == ["value", "key"]
        assert rows_of(selected) == sorted([(row[2], row[0]) for row in rows], key=repr)

    def test_column_names_may_hold_any_character(self, context: HoodieEngineContext) -> None:
        names = ["a.b", "`c`", "d e", "ä"]
        data = self.data(context, pa.table({name: ["x", "y"] for name in names}))
        assert rows_of(data.select(list(reversed(names)))) == [("x",) * 4, ("y",) * 4]
        assert data.count_by(["a.b"]).num_rows == 2
        assert data.combine_by_key(["`c`"], lambda table: table).count() == 2

    def test_every_batch_is_mapped(self, records: HoodieData, rows: Any) -> None:
        mapped = records.map_batches(doubled, SCHEMA).map_batches(doubled, SCHEMA)
        assert rows_of(mapped) == sorted([(k, p, v * 4, b) for k, p, v, b in rows], key=repr)

    def test_every_partition_is_mapped_once(self, records: HoodieData) -> None:
        tasks = rows_of(records.map_partitions_with_index(described_task, TASKS))
        assert sum(task[3] for task in tasks) == 100
        assert [task[0] for task in tasks] == list(range(records.num_partitions))
        assert len({task[2] for task in tasks}) == len(tasks)

    def test_attempt_ids_are_never_used_again(self, records: HoodieData) -> None:
        described = records.map_partitions_with_index(described_task, TASKS)
        attempts = [task[2] for _ in range(2) for task in rows_of(described)]
        assert len(set(attempts)) == len(attempts)

    def test_a_partition_function_may_give_nothing(self, records: HoodieData) -> None:
        assert rows_of(records.map_partitions_with_index(nothing, TASKS)) == []

    def test_row_numbers_are_unique_and_grow(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([(f"k{i}", "", i, 0) for i in range(5000)])).number_rows("number")
        assert data.schema.field("number").type == pa.int64()
        table = data.collect()
        assert table is not None
        by_value = table.sort_by("value")["number"].to_pylist()
        assert len(set(by_value)) == 5000
        assert by_value == sorted(by_value)

    def test_rows_keep_their_identity_when_they_are_computed_again(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([(f"k{i}", "", i, 0) for i in range(5000)]))
        for is_unique in (False, True):
            identified = data.identify_rows("identity", is_unique)
            assert identified.schema == pa.schema([*SCHEMA, pa.field("identity", pa.string())])
            first, second = identified.collect(), identified.collect()
            assert first is not None
            assert second is not None
            assert len(set(first["identity"].to_pylist())) == 5000
            assert sorted(map(str, first.to_pylist())) == sorted(map(str, second.to_pylist()))

    def test_equal_rows_have_identities_of_their_own_if_these_are_to_be_unique(
        self, context: HoodieEngineContext
    ) -> None:
        table = self.data(context, table_of([("k", "p", 1, 0)] * 500)).identify_rows("identity", True).collect()
        assert table is not None
        assert len(set(table["identity"].to_pylist())) == 500

    def test_rows_of_keys_that_repeat_are_combined(self, context: HoodieEngineContext, rows: Any) -> None:
        repeated = [("k1", "p1", 1000, 7), ("k1", "p1", 500, 7), ("k2", "other", 3, 0), (None, "p", 1, 0)]
        repeated += [(None, "p", 2, 0), ("k9", None, 1, 0), ("k9", None, 2, 0), (None, None, 5, 0)]
        data = self.data(context, table_of([*rows, *repeated]))
        combined = data.combine_by_key(["key", "part"], newest)
        expected = [row for row in rows if row[0] != "k1"] + [("k1", "p1", 1000, 7), ("k2", "other", 3, 0)]
        expected += [(None, "p", 2, 0), ("k9", None, 2, 0), (None, None, 5, 0)]
        assert combined.schema == SCHEMA
        assert rows_of(combined) == sorted(expected, key=repr)

    def test_keys_that_never_repeat_are_not_handed_to_the_function(self, records: HoodieData, rows: Any) -> None:
        assert rows_of(records.combine_by_key(["key", "part"], newest)) == sorted(rows, key=repr)

    def test_data_whose_keys_all_repeat_is_combined(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([(f"k{i % 50}", "", i, 0) for i in range(100)]))
        assert [
            row[2] for row in rows_of(data.combine_by_key(["key", "part"], newest).select(["key", "part", "value"]))
        ] == [row[2] for row in sorted([(f"k{i % 50}", "", i) for i in range(50, 100)], key=repr)]

    def test_rows_are_counted_by_value(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([("a", "x", 1, 0), ("b", "x", 1, 0), ("a", None, 1, 0), ("a", "x", 2, 0)]))
        counts = data.count_by(["key", "part"])
        assert counts.schema == pa.schema([("key", pa.string()), ("part", pa.string()), ("count", pa.int64())])
        found = {(row["key"], row["part"]): row["count"] for row in counts.to_pylist()}
        assert found == {("a", "x"): 2, ("b", "x"): 1, ("a", None): 1}
        assert data.count_by([]).to_pylist() == [{"count": 4}]
        assert data.count() == 4

    def test_an_inner_join_keeps_rows_with_a_match(self, context: HoodieEngineContext) -> None:
        left = self.data(context, table_of([("a", "x", 1, 0), ("b", "x", 2, 0), (None, "x", 3, 0)]))
        right = self.data(context, pa.table({"file": ["f1", "f2", "f3"], "part": ["x"] * 3, "key": ["a", "a", None]}))
        joined = left.join(right, ["key", "part"], "inner")
        assert joined.schema.names == ["key", "part", "value", "bucket", "file"]
        assert rows_of(joined) == [("a", "x", 1, 0, "f1"), ("a", "x", 1, 0, "f2")]

    def test_a_left_join_keeps_all_rows(self, context: HoodieEngineContext) -> None:
        left = self.data(context, table_of([("a", "x", 1, 0), ("b", "x", 2, 0), (None, "x", 3, 0)]))
        right = self.data(context, pa.table({"key": ["a", None], "file": ["f1", "f2"]}))
        assert rows_of(left.join(right, ["key"], "left")) == [
            ("a", "x", 1, 0, "f1"),
            ("b", "x", 2, 0, None),
            (None, "x", 3, 0, None),
        ]

    @pytest.mark.parametrize("how", ["inner", "left"])
    def test_nested_columns_on_both_sides_of_a_join_keep_their_values(
        self, context: HoodieEngineContext, how: str
    ) -> None:
        left = self.data(context, nested_table("left", ["a", "b", "c", None]))
        right = self.data(context, nested_table("right", ["b", "a", "b", None]))
        joined = left.join(right, ["key"], how)
        assert [field.type for field in joined.schema] == [
            *(field.type for field in left.schema),
            *(field.type for field in list(right.schema)[1:]),
        ]
        pairs = [(0, 1), (1, 0), (1, 2)] + ([(2, None), (3, None)] if how == "left" else [])
        lefts = nested_table("left", ["a", "b", "c", None]).to_pylist()
        rights = nested_table("right", ["b", "a", "b", None]).to_pylist()
        nothing_there = dict.fromkeys(rights[0])
        expected = [
            tuple(
                (nothing_there | (rights[j] if j is not None else {}) | lefts[i])[name] for name in joined.schema.names
            )
            for i, j in pairs
        ]
        assert rows_of(joined) == sorted(expected, key=repr)

    def test_nested_columns_join_with_no_rows(self, context: HoodieEngineContext) -> None:
        left = self.data(context, nested_table("left", ["a"]))
        none = self.data(context, nested_table("right", []))
        assert [row[-3:] for row in rows_of(left.join(none, ["key"], "left"))] == [(None, None, None)]
        assert rows_of(left.join(none, ["key"], "inner")) == []
        assert rows_of(none.join(left, ["key"], "left")) == []

    def test_a_column_on_both_sides_of_a_join_is_refused(self, records: HoodieData) -> None:
        with pytest.raises(HoodieException, match="value are on both sides"):
            records.join(records.select(["key", "value"]), ["key"], "left")

    def test_nested_columns_go_through_every_operation(self, context: HoodieEngineContext) -> None:
        table = nested_table("n", [f"k{i % 40}" for i in range(60)])
        numbers = pa.array([i % 3 for i in range(60)], pa.int32())
        table = table.append_column("bucket", numbers)
        data = self.data(context, table).union(self.data(context, table))
        expected = sorted((tuple(row.values()) for row in [*table.to_pylist(), *table.to_pylist()]), key=repr)
        assert rows_of(data.route("bucket", 3)) == expected
        assert rows_of(data.repartition_by(["key"], 2)) == expected
        assert rows_of(data.sort_by(["key", "bucket"], 2)) == expected
        assert rows_of(data.route("bucket", 3).sort_within(["key"])) == expected
        assert rows_of(data.coalesce(1)) == expected
        assert rows_of(data.combine_by_key(["key"], lambda rows: rows)) == expected

    def test_data_joins_with_data_made_from_it(self, records: HoodieData) -> None:
        joined = records.select(["key", "value"]).join(records.select(["key", "part"]), ["key"], "inner")
        assert joined.schema.names == ["key", "value", "part"]
        assert joined.count() == 100

    def test_an_unknown_kind_of_join_is_refused(self, records: HoodieData) -> None:
        with pytest.raises(HoodieException, match="outer"):
            records.join(records.select(["key"]), ["key"], "outer")

    def test_a_union_has_the_rows_of_both(self, records: HoodieData, rows: Any) -> None:
        assert rows_of(records.union(records.map_batches(doubled, SCHEMA))) == sorted(
            [*rows, *((k, p, v * 2, b) for k, p, v, b in rows)], key=repr
        )

    @pytest.mark.parametrize("row_numbers", [None, "row"])
    def test_rows_are_moved_by_a_function_of_some_columns(
        self, records: HoodieData, rows: Any, row_numbers: str | None
    ) -> None:
        moved = records.map_batches(doubled, SCHEMA).route_by(["value"], thirds_of_even, "third", 3, row_numbers)
        added = [] if row_numbers is None else [pa.field(row_numbers, pa.int64())]
        assert moved.schema == pa.schema([*SCHEMA, *added, ("third", pa.int32())])
        assert moved.num_partitions == 3
        table = moved.collect()
        assert table is not None
        found = sorted(
            ((r["key"], r["part"], r["value"], r["bucket"], r["third"]) for r in table.to_pylist()), key=repr
        )
        assert found == sorted(((k, p, 2 * v, b, 2 * v % 3) for k, p, v, b in rows if 2 * v % 4 == 0), key=repr)
        if row_numbers is not None:
            assert len(set(table[row_numbers].to_pylist())) == table.num_rows
        schema = pa.schema([("index", pa.int32()), ("buckets", pa.list_(pa.int32()))])
        tasks = rows_of(moved.map_partitions_with_index(thirds_of_task, schema))
        assert sorted(thirds for _, thirds in tasks) == [[0], [1], [2]]

    def test_rows_without_mapped_functions_are_moved_by_a_function(self, records: HoodieData, rows: Any) -> None:
        moved = records.route_by(["value"], thirds_of_even, "third", 3)
        assert rows_of(moved.select(["value", "third"])) == sorted(
            ((v, v % 3) for _, _, v, _ in rows if v % 4 == 0), key=repr
        )

    @pytest.mark.parametrize("num_partitions", [5, 6, 13])
    def test_each_number_gets_a_partition_of_its_own(self, records: HoodieData, num_partitions: int) -> None:
        routed = records.route("bucket", num_partitions)
        assert routed.num_partitions == num_partitions
        assert routed.schema == SCHEMA
        schema = pa.schema([("index", pa.int32()), ("buckets", pa.list_(pa.int32()))])
        tasks = rows_of(routed.map_partitions_with_index(buckets_of_task, schema))
        assert [index for index, _ in tasks] == sorted(range(num_partitions), key=lambda i: repr((i,)))
        assert sorted(buckets for _, buckets in tasks) == sorted([[i] for i in range(5)] + [[]] * (num_partitions - 5))

    @pytest.mark.parametrize("by_function", [False, True])
    def test_numbers_that_share_a_partition_come_in_order(
        self, records: HoodieData, rows: Any, by_function: bool
    ) -> None:
        partition_of = [2, 0, 2, 0, 2]
        if by_function:
            routed = records.map_batches(doubled, SCHEMA).route_by(
                ["value"], fifths, "bucket_of_value", 3, None, partition_of
            )
            column = "bucket_of_value"
        else:
            routed, column = records.route("bucket", 3, partition_of), "bucket"
        assert routed.num_partitions == 3
        schema = pa.schema([("index", pa.int32()), ("buckets", pa.list_(pa.int32()))])
        tasks = rows_of(routed.map_partitions_with_index(numbers_in_order(column), schema))
        assert sorted(sorted(set(numbers)) for _, numbers in tasks) == [[], [0, 2, 4], [1, 3]]
        assert all(numbers == sorted(numbers) for _, numbers in tasks)
        assert sum(len(numbers) for _, numbers in tasks) == len(rows)

    def test_a_number_without_a_partition_is_refused(self, records: HoodieData) -> None:
        with pytest.raises(HoodieException, match=r"bucket must be in \[0, 4\)"):
            records.route("bucket", 2, [0, 1, 0, 1]).collect()

    @pytest.mark.parametrize("by_key", [False, True])
    def test_rows_of_a_file_group_come_together_before_they_are_mapped(
        self, context: HoodieEngineContext, by_key: bool
    ) -> None:
        rows = [(f"k{i * 7919 % 200:03}", f"p{i % 3}", i, 0) for i in range(200)]
        mapped = self.data(context, table_of(rows)).map_batches(doubled, SCHEMA)
        routing = BucketRouting(KeyColumns(("key",), False, ("part",), False), ("key",), 4)
        routed = mapped.route_by_bucket(routing, 5, by_key)
        if not self.routes_by_bucket:
            assert routed is None
            return
        assert routed is not None
        assert (routed.num_partitions, routed.schema) == (5, SCHEMA)
        assert rows_of(routed) == sorted(((k, p, 2 * v, b) for k, p, v, b in rows), key=repr)
        identifier = BucketIdentifier(4, ("key",), ("key",))
        runs = []
        for partition in partitions_of(routed):
            buckets = identifier.bucket_ids(pa.array([key for key, _, _ in partition], pa.string())).tolist()
            places = [(part, bucket) for (_, part, _), bucket in zip(partition, buckets, strict=True)]
            for place, run in groupby(zip(places, partition, strict=True), key=itemgetter(0)):
                runs.append(place)
                keys = [key for _, (key, _, _) in run]
                assert keys == sorted(keys) or not by_key
        assert len(runs) == len(set(runs)) == 12
        # A task that runs again gets the same rows.
        assert [sorted(rows) for rows in partitions_of(routed)] == [sorted(rows) for rows in partitions_of(routed)]

    @pytest.mark.parametrize("row_numbers", [None, "number"])
    def test_new_keys_come_to_the_partition_of_their_bucket_before_they_are_mapped(
        self, context: HoodieEngineContext, row_numbers: str | None
    ) -> None:
        rows = [(f"k{i * 7919 % 200:03}", f"p{i % 2}", i, 0) for i in range(200)]
        mapped = self.data(context, table_of(rows)).map_batches(doubled, SCHEMA)
        dealt = {
            "p0": WeightedBuckets(np.array([2, 0]), np.array([0.5, 1])),
            "p1": WeightedBuckets(np.array([1]), np.ones(1)),
        }
        routing = InsertRouting(KeyColumns(("key",), False, ("part",), False), dealt)
        routed = mapped.route_in_engine(routing, "to", 3, row_numbers)
        if not self.routes_by_bucket:
            assert routed is None
            return
        assert routed is not None
        assert routed.num_partitions == 3
        assert routed.schema.names == [*SCHEMA.names, *([row_numbers] if row_numbers else []), "to"]
        assert rows_of(routed.select(SCHEMA.names)) == sorted(((k, p, 2 * v, b) for k, p, v, b in rows), key=repr)
        if row_numbers is not None:
            assert len(set(rows_of(routed.select([row_numbers])))) == len(rows)
        counted = routed.map_partitions_with_index(partition_numbers, NUMBERED)
        parts = {(row["index"], row["part"], row["to"]) for row in counted.count_by(NUMBERED.names).to_pylist()}
        assert sorted((part, to) for _, part, to in parts) == [("p0", 0), ("p0", 2), ("p1", 1)]
        assert len({index for index, _, _ in parts}) == 3

    @pytest.mark.parametrize("number", [None, -1, 5])
    def test_a_row_without_a_usable_number_fails_the_job_by_name(
        self, context: HoodieEngineContext, number: Any
    ) -> None:
        data = self.data(context, table_of([("a", "x", 1, 0), ("b", "x", 2, number)]))
        with pytest.raises(HoodieException, match="bucket") as caught:
            data.route("bucket", 5).map_partitions_with_index(described_task, TASKS).collect()
        assert type(caught.value) is HoodieException

    def test_joined_partitions_hold_all_rows_in_fewer_tasks(self, records: HoodieData, rows: Any) -> None:
        joined = records.coalesce(1)
        assert joined.num_partitions == 1
        assert len(partitions_of(joined)) == 1
        assert rows_of(joined) == rows_of(records)
        assert rows_of(records.coalesce(1000)) == rows_of(records)

    def test_rows_of_equal_values_come_together(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([(f"k{i}", f"p{i % 5}" if i % 7 else None, i, 0) for i in range(200)]))
        moved = data.repartition_by(["part"], 3)
        assert moved.num_partitions == 3
        partitions = partitions_of(moved)
        parts = [{part for _, part, _ in rows} for rows in partitions]
        assert sum(len(part) for part in parts) == len(set().union(*parts)) == 6
        assert sum(len(rows) for rows in partitions) == 200

    def test_sorted_rows_ascend_within_and_between_partitions(self, context: HoodieEngineContext) -> None:
        rows = [(f"k{i * 7919 % 1000:04d}", f"p{i * 31 % 3}", i, 0) for i in range(1000)]
        partitions = partitions_of(self.data(context, table_of(rows)).sort_by(["part", "key"], 3))
        assert 2 <= len(partitions) <= 3
        flat = [(part, key) for partition in partitions for key, part, _ in partition]
        assert flat == sorted((part, key) for key, part, _, _ in rows)

    def test_rows_sorted_within_partitions_stay_there(self, context: HoodieEngineContext) -> None:
        data = self.data(context, table_of([(f"k{i * 37 % 100:03d}", None, i, i % 4) for i in range(100)]))
        routed = data.route("bucket", 4)
        before = partitions_of(routed)
        after = partitions_of(routed.sort_within(["key"]))
        assert after == [sorted(rows) for rows in before]
        assert len(after) == 4

    def test_persisted_rows_are_computed_once(self, context: HoodieEngineContext, records: HoodieData) -> None:
        numbered = records.map_partitions_with_index(described_task, TASKS).persist()
        try:
            assert rows_of(numbered) == rows_of(numbered)
            assert rows_of(numbered.select(["attempt"])) == sorted([(row[2],) for row in rows_of(numbered)], key=repr)
        finally:
            numbered.unpersist()
            numbered.unpersist()

    def test_data_that_was_never_persisted_may_be_released(self, records: HoodieData) -> None:
        records.unpersist()
        assert records.count() == 100

    def test_an_error_of_a_task_keeps_its_class_and_message(self, records: HoodieData) -> None:
        with pytest.raises(HoodieKeyException, match=r"^column key: 3 rows have none$"):
            records.map_batches(unwanted, SCHEMA).collect()

    def test_data_refuses_to_be_pickled(self, records: HoodieData) -> None:
        with pytest.raises(TypeError, match="driver"):
            pickle.dumps(records)

    def test_tasks_answer_in_the_order_of_their_items(self, context: HoodieEngineContext) -> None:
        assert context.run_tasks(list(range(30)), square) == [i * i for i in range(30)]
        assert context.run_tasks([7], square) == [49]
        assert context.run_tasks([], square) == []

    def test_an_error_of_an_item_is_raised_as_it_is(self, context: HoodieEngineContext) -> None:
        with pytest.raises(HoodieKeyException, match="is odd"):
            context.run_tasks([2, 3, 4], refuse_odd)
        with pytest.raises(ValueError, match="invalid literal"):
            context.run_tasks([2, 3, 4], refuse_text)

    def test_tasks_know_who_they_are(self, context: HoodieEngineContext) -> None:
        identities = context.run_tasks([1, 2], identity_of)
        assert len({task.write_token for task in identities}) == 2

    def test_tasks_read_shared_values(self, context: HoodieEngineContext) -> None:
        shared = context.share({"a": 1, "b": 2})
        assert shared.value == {"a": 1, "b": 2}
        assert context.run_tasks(["a", "b", "a"], Lookup(shared)) == [1, 2, 1]
        shared.release()

    def test_generated_data_has_a_partition_for_each_item(self, context: HoodieEngineContext) -> None:
        schema = pa.schema([("name", pa.string()), ("number", pa.int64())])
        data = context.generate([("a", 2), ("b", 0), ("c", 1)], made, schema)
        assert data.num_partitions == 3
        assert rows_of(data) == [("a", 0), ("a", 1), ("c", 0)]
        assert rows_of(context.generate([], made, schema)) == []

    def test_jobs_may_be_described(self, context: HoodieEngineContext, records: HoodieData) -> None:
        with context.job("count the records"):
            assert records.count() == 100

    def test_there_is_at_least_one_core(self, context: HoodieEngineContext) -> None:
        assert context.default_parallelism >= 1
