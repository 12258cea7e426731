"""Sort modes of bulk_insert, parallelism, and inserts of keys that are in the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.engine.data import HoodieData
from hoodie.exception import (
    HoodieConfigException,
    HoodieDuplicateKeyException,
    HoodieException,
    HoodieKeyException,
)
from hoodie.execution import insert_handler
from hoodie.execution.bulkinsert.bulk_insert_partitioner import BulkInsertPartitioner, CustomColumnsSortPartitioner
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.storage.storage_factory import open_storage
from tests.support.table_builder import local_client, read_trips, rows

MakeClient = Callable[..., HoodieLocalWriteClient]
COUNT = 6000


def mixed() -> pa.Table:
    """Rows of three partitions in no order."""
    return rows(*((f"k{i * 7919 % COUNT:05d}", "abc"[i * 31 % 3], i, float(i % 50)) for i in range(COUNT)))


@pytest.fixture
def client(base_path: Path) -> MakeClient:
    return partial(local_client, base_path, parallelism=4)


def keys_in_order(base_path: Path) -> list[tuple[str, list[str]]]:
    """(partition, record keys as stored) of each file."""
    return sorted(
        (path.parent.name, pq.read_table(path, columns=["_hoodie_record_key"])[0].to_pylist())
        for path in base_path.rglob("*.parquet")
    )


@pytest.mark.parametrize(
    ("mode", "files"),
    [
        ("NONE", 12),
        ("PARTITION_SORT", 12),
        ("PARTITION_PATH_REPARTITION", 3),
        ("PARTITION_PATH_REPARTITION_AND_SORT", 3),
    ],
)
def test_every_sort_mode_writes_all_rows_to_as_many_files_as_it_says(
    base_path: Path, client: MakeClient, mode: str, files: int
) -> None:
    with client({"hoodie.bulkinsert.sort.mode": mode}) as c:
        result = c.bulk_insert(mixed())
    assert len(result.statuses) == files
    assert read_trips(base_path) == sorted(tuple(row.values()) for row in mixed().to_pylist())


def test_a_global_sort_gives_files_whose_key_ranges_do_not_overlap(base_path: Path, client: MakeClient) -> None:
    with client({"hoodie.bulkinsert.sort.mode": "global_sort"}) as c:
        result = c.bulk_insert(mixed())
    assert len(result.statuses) <= 6
    files = keys_in_order(base_path)
    for _, keys in files:
        assert keys == sorted(keys)
    for (part, keys), (next_part, next_keys) in pairwise(files):
        assert part != next_part or keys[-1] < next_keys[0]
    storage = open_storage(str(base_path))
    ranges = [read_footer(storage, str(path)) for path in base_path.rglob("*.parquet")]
    assert {(footer.min_record_key, footer.max_record_key) for footer in ranges} == {
        (keys[0], keys[-1]) for _, keys in files
    }


def test_a_sort_within_tasks_sorts_each_file(base_path: Path, client: MakeClient) -> None:
    with client({"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}) as c:
        c.bulk_insert(mixed())
    assert all(keys == sorted(keys) for _, keys in keys_in_order(base_path))


def test_unsorted_rows_stay_in_their_order(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.bulk_insert(mixed())
    assert not all(keys == sorted(keys) for _, keys in keys_in_order(base_path))


class ByFare(BulkInsertPartitioner):
    """Rows of one fare together."""

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.repartition_by(["region"], 2)


class LosesColumns(BulkInsertPartitioner):
    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.select(["id"])


def test_a_partitioner_of_ones_own_takes_a_stream(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.bulk_insert(iter(mixed().to_batches()), partitioner=ByFare())
    assert len(read_trips(base_path)) == COUNT


@pytest.mark.parametrize("given", [ByFare(), f"{__name__}.ByFare"])
def test_a_partitioner_of_ones_own_is_an_argument_or_named_by_a_property(
    base_path: Path, client: MakeClient, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(given, str):
        monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(ByFare=ByFare))
        with client({"hoodie.bulkinsert.user.defined.partitioner.class": given}) as c:
            result = c.bulk_insert(mixed())
    else:
        with client() as c:
            result = c.bulk_insert(mixed(), partitioner=given)
    assert len(result.statuses) == 3
    assert len(read_trips(base_path)) == COUNT


def test_a_sort_by_columns_goes_by_the_class_name_that_hudi_has(base_path: Path, client: MakeClient) -> None:
    properties = {
        "hoodie.bulkinsert.user.defined.partitioner.class": "org.apache.hudi.execution.bulkinsert."
        "RDDCustomColumnsSortPartitioner",
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns": "fare, ts",
    }
    with client(properties) as c:
        c.bulk_insert(mixed())
    for path in base_path.rglob("*.parquet"):
        fares = pq.read_table(path, columns=["fare"])[0].to_pylist()
        assert fares == sorted(fares)


class LosesRows(BulkInsertPartitioner):
    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.map_batches(lambda batch: batch.slice(1), records.schema)


class ReturnsNothing(BulkInsertPartitioner):
    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return None  # type: ignore[return-value]


class ByAnUnknownColumn(BulkInsertPartitioner):
    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.sort_by(["speed"], output_partitions)


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (LosesRows(), "LosesRows gave 59.. records back of 6000"),
        (ReturnsNothing(), "ReturnsNothing.repartition_records returned NoneType"),
        (ByAnUnknownColumn(), "the records have no column speed"),
    ],
)
def test_a_partitioner_that_goes_wrong_fails_the_write_by_name(
    base_path: Path, client: MakeClient, partitioner: BulkInsertPartitioner, message: str
) -> None:
    with client() as c, pytest.raises(HoodieException, match=message):
        c.bulk_insert(mixed(), partitioner=partitioner)
    assert read_trips(base_path) == []
    assert not list(base_path.rglob("*.parquet"))


def test_a_sort_makes_no_more_tasks_than_the_input_has(base_path: Path, client: MakeClient) -> None:
    given = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT", "hoodie.bulkinsert.shuffle.parallelism": 40}
    with client(given) as c:
        result = c.bulk_insert(mixed().filter(pa.compute.equal(mixed()["region"], "a")))
    assert len(result.statuses) <= 4


@pytest.mark.one_in(4)
def test_partitioners_that_cannot_be_used_are_refused_by_name(base_path: Path, client: MakeClient) -> None:
    def fails(properties: dict[str, Any], **options: Any) -> str:
        with pytest.raises((HoodieConfigException, HoodieKeyException)) as caught, client(properties) as c:
            c.bulk_insert(mixed(), **options)
        return str(caught.value)

    name = "hoodie.bulkinsert.user.defined.partitioner.class"
    assert "looks like a class of Java" in fails({name: "com.example.Mine"})
    assert "cannot be imported" in fails({name: "nowhere.Mine"})
    assert "has no attribute 'Mine'" in fails({name: "hoodie.quickstart.Mine"})
    assert "is not a partitioner" in fails({}, partitioner="GLOBAL_SORT")
    assert "lost the columns region" in fails({}, partitioner=LosesColumns())
    assert "no such column" in fails({}, partitioner=CustomColumnsSortPartitioner(columns=["speed"]))
    assert "name at least one column" in fails(
        {name: f"{BulkInsertPartitioner.__module__}.CustomColumnsSortPartitioner"}
    )
    assert read_trips(base_path) == []


@pytest.mark.parametrize(("parallelism", "tasks"), [(0, 4), (2, 2), (1, 1), (100, 4)])
def test_parallelism_is_the_inputs_or_less(base_path: Path, client: MakeClient, parallelism: int, tasks: int) -> None:
    data = mixed().filter(pa.compute.equal(mixed()["region"], "a"))
    with client({"hoodie.bulkinsert.shuffle.parallelism": parallelism}) as c:
        result = c.bulk_insert(pa.concat_tables([data] * 3))
    assert len(result.statuses) == tasks


@pytest.mark.parametrize("operation", ["insert", "upsert", "delete"])
def test_other_operations_take_a_parallelism_too(base_path: Path, client: MakeClient, operation: str) -> None:
    with client({f"hoodie.{operation}.shuffle.parallelism": 1}) as c:
        c.upsert(mixed())
        result = getattr(c, operation)(mixed())
    assert result.is_committed
    assert len(read_trips(base_path)) == {"insert": 2 * COUNT, "upsert": COUNT, "delete": 0}[operation]


def test_many_partitions_do_not_need_a_file_each_at_once(
    base_path: Path, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insert_handler, "MAX_OPEN_FILES", 5)
    data = rows(*((f"k{i:04d}", f"p{i % 20:02d}", i, 1.0) for i in range(400)))
    with client() as c:
        result = c.bulk_insert(data)
    assert len(result.statuses) >= 20
    assert read_trips(base_path) == sorted(tuple(row.values()) for row in data.to_pylist())


@pytest.mark.parametrize("open_files", [3, 256])
@pytest.mark.parametrize("buffered_bytes", [0, 60_000, 1 << 28])
def test_rows_of_a_stream_are_stored_and_numbered_in_their_order(
    base_path: Path, monkeypatch: pytest.MonkeyPatch, buffered_bytes: int, open_files: int
) -> None:
    monkeypatch.setattr(insert_handler, "MAX_BUFFERED_BYTES", buffered_bytes)
    monkeypatch.setattr(insert_handler, "MAX_OPEN_FILES", open_files)
    table = rows(*((f"k{i:05d}", f"p{i % 100 // 9 * 7 % 8 if i < 2000 else 3}", i, 1.0) for i in range(3000)))
    batches = table.to_batches(max_chunksize=130)

    with local_client(base_path, parallelism=1) as c:
        c.bulk_insert(pa.RecordBatchReader.from_batches(table.schema, batches))

    # Within a batch, rows get their numbers partition by partition.
    expected = []
    for batch in batches:
        paths = list(dict.fromkeys(batch.column("region").to_pylist()))
        expected += sorted(batch.column("id").to_pylist(), key=lambda key: paths.index(region_of(table, key)))
    numbers = {key: number for number, key in enumerate(expected)}
    stored = [
        pq.ParquetFile(path).read(columns=["_hoodie_record_key", "_hoodie_commit_seqno"])
        for path in base_path.rglob("*.parquet")
    ]
    assert sorted(key for file in stored for key in file["_hoodie_record_key"].to_pylist()) == sorted(expected)
    for file in stored:
        found = [int(number.rpartition("_")[2]) for number in file["_hoodie_commit_seqno"].to_pylist()]
        assert found == [numbers[key] for key in file["_hoodie_record_key"].to_pylist()] == sorted(found)


@pytest.mark.one_in(4)
def test_rows_that_wait_for_many_partitions_are_counted_with_what_holds_them(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffered_bytes, waiting = 200_000, [0]
    add = insert_handler.CopyOnWriteInsertHandler._add

    def noted(handler: insert_handler.CopyOnWriteInsertHandler, batch: pa.RecordBatch) -> None:
        add(handler, batch)
        held = sum(sys.getsizeof(rows) + sys.getsizeof(rows.rows) + rows.rows.nbytes for rows in handler._waiting)
        waiting.append(held + sum({id(rows.batch): rows.batch.nbytes for rows in handler._waiting}.values()))

    monkeypatch.setattr(insert_handler, "MAX_BUFFERED_BYTES", buffered_bytes)
    monkeypatch.setattr(insert_handler.CopyOnWriteInsertHandler, "_add", noted)
    table = rows(*((f"k{i:05d}", f"p{i % 50}", i, 1.0) for i in range(2000)))

    with local_client(base_path, parallelism=1) as c:
        c.bulk_insert(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=50)))

    assert 0 < max(waiting) <= buffered_bytes
    assert len(read_trips(base_path)) == 2000


def region_of(table: pa.Table, key: str) -> str:
    region: str = table["region"][int(key[1:])].as_py()
    return region


STORED = (("a", "a", 1, 1.0), ("b", "b", 1, 1.0))
INCOMING = (("a", "a", 2, 2.0), ("c", "a", 3, 3.0), ("c", "a", 4, 4.0), ("b", "c", 5, 5.0))


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.datasource.write.insert.drop.duplicates": "true"},
        {"hoodie.datasource.insert.dup.policy": "drop"},
    ],
)
def test_records_whose_key_is_in_the_table_are_dropped(
    base_path: Path, client: MakeClient, operation: str, properties: dict[str, str]
) -> None:
    with client(properties) as c:
        c.insert(rows(*STORED))
        result = getattr(c, operation)(rows(*INCOMING))
    assert read_trips(base_path) == [*STORED, ("b", "c", 5, 5.0), ("c", "a", 4, 4.0)]
    assert result.inserted_count == 2


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_records_whose_key_is_in_the_table_are_refused(base_path: Path, client: MakeClient, operation: str) -> None:
    with client({"hoodie.datasource.insert.dup.policy": "fail"}) as c:
        c.insert(rows(*STORED))
        with pytest.raises(HoodieDuplicateKeyException, match="keys of 1 of the records to .* are in the table"):
            getattr(c, operation)(rows(*INCOMING))
        assert read_trips(base_path) == list(STORED)
        getattr(c, operation)(rows(("c", "a", 3, 3.0)))
    assert len(read_trips(base_path)) == 3


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_a_global_index_drops_keys_of_every_partition(base_path: Path, client: MakeClient, operation: str) -> None:
    properties = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.datasource.write.insert.drop.duplicates": "true"}
    with client(properties) as c:
        c.insert(rows(*STORED))
        getattr(c, operation)(rows(*INCOMING))
    assert read_trips(base_path) == [*STORED, ("c", "a", 4, 4.0)]


def test_an_insert_into_a_file_that_has_the_key_replaces_or_adds(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.insert(rows(*STORED))
        c.insert(rows(("a", "a", 9, 9.0)))
    assert [row[3] for row in read_trips(base_path)] == [1.0, 9.0, 1.0]
    with client({"hoodie.merge.allow.duplicate.on.inserts": "false"}) as c:
        c.insert(rows(("a", "a", 10, 10.0)))
    assert [row[3] for row in read_trips(base_path)] == [10.0, 10.0, 1.0]


REPEATED = (("c", "a", 3, 3.0), ("c", "a", 2, 2.0), ("a", "a", 5, 5.0), ("a", "a", 4, 4.0))


@pytest.mark.parametrize(
    ("operation", "properties", "found"),
    [
        ("insert", {}, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ("insert", {"hoodie.merge.allow.duplicate.on.inserts": "false"}, [2.0, 4.0]),
        (
            "insert",
            {"hoodie.merge.allow.duplicate.on.inserts": "false", "hoodie.combine.before.insert": "true"},
            [3.0, 5.0],
        ),
        ("upsert", {"hoodie.combine.before.upsert": "false"}, [2.0, 4.0]),
        ("upsert", {}, [3.0, 5.0]),
    ],
)
def test_of_new_records_of_one_key_that_meet_an_existing_file_the_last_counts(
    base_path: Path, client: MakeClient, operation: str, properties: dict[str, str], found: list[float]
) -> None:
    with client() as c:
        c.insert(rows(STORED[0]))
    with client(properties) as c:
        result = getattr(c, operation)(rows(*REPEATED))
    assert sorted(row[3] for row in read_trips(base_path)) == found
    assert len(result.statuses) == 1


def test_of_new_records_of_one_key_in_a_new_file_all_are_stored(base_path: Path, client: MakeClient) -> None:
    with client({"hoodie.merge.allow.duplicate.on.inserts": "false"}) as c:
        c.insert(rows(*REPEATED))
    assert sorted(row[3] for row in read_trips(base_path)) == [2.0, 3.0, 4.0, 5.0]
