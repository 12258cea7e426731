"""Record indexes after every action, held against storage and against a model of the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.exception import HoodieNotSupportedException
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer import record_index_indexer
from hoodie.metadata.writer.slice_keys import FileGroupChange, SliceKeys
from tests.support.model import TableModel
from tests.support.table_builder import init_table, instants, local_client, read_rows, rows

PARTITIONS = ("x", "y", "z/1", "a_b-c")
KEYS = [f"k{number:02d}" for number in range(40)]
BOTH_TYPES = pytest.mark.parametrize("table_type", list(HoodieTableType))
WAYS = pytest.mark.parametrize("way", ["on the driver", "in tasks"])
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
BY_PARTITION = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
}


@pytest.fixture
def in_tasks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "in tasks":
        monkeypatch.setattr(record_index_indexer, "_FEW_ROWS", -1)


def entries(path: str) -> dict[Any, tuple[str, str]]:
    """Key, and partition of an index by partitions, to partition and file id."""
    found = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot).read_record_index()
    return {row["record_key"]: (row["partition_path"], row["file_id"]) for row in found.to_pylist()}


def check(path: str) -> None:
    result = hoodie.metadata.validate(path, ["files", "record_index"])
    assert result.is_right, result
    assert result.not_validated == {}


def check_rows(path: str, model: TableModel) -> None:
    check(path)
    assert read_rows(path, ["id", "region", "ts"]) == sorted(model.values())


class Steps:
    """Random actions on a table and on its model.

    Args:
        path: The table.
        client: Writes it.
        seed: Of the choices.
        is_global: Whether keys are unique in the table.
    """

    def __init__(self, path: str, client: HoodieLocalWriteClient, seed: int, *, is_global: bool = True) -> None:
        self.path, self.client, self.random = path, client, random.Random(seed)
        self.model = TableModel(is_global=is_global)
        self.time = 0

    def some_rows(self, most: int = 12) -> list[tuple[str, str, int]]:
        self.time += 1
        keys = self.random.sample(KEYS, self.random.randint(1, most))
        return [(key, self.random.choice(PARTITIONS), self.time) for key in keys]

    def upsert(self) -> None:
        given = self.some_rows()
        self.client.upsert(rows(*given))
        self.model = self.model.upsert(given)

    def delete(self) -> None:
        gone = self.random.sample(sorted(self.model.values()), min(len(self.model), 5))
        if gone:
            self.client.delete([HoodieKey(key, region) for key, region, _ in gone])
            self.model = self.model.delete(row[:2] for row in gone)

    def insert(self) -> None:
        """New keys, by an operation that does not look."""
        free = sorted(set(KEYS) - {row[0] for row in self.model.values()})
        self.time += 1
        given = [(key, self.random.choice(PARTITIONS), self.time) for key in free[:4]]
        if given:
            operation = self.random.choice([self.client.insert, self.client.bulk_insert])
            operation(rows(*given))
            self.model = self.model.upsert(given)

    def insert_overwrite(self) -> None:
        region = self.random.choice(PARTITIONS)
        given = [(key, region, time) for key, _, time in self.some_rows(6)]
        left = self.model.delete_partitions([region])
        if self.model.is_global:
            given = [row for row in given if row[0] not in {one[0] for one in left.values()}]
        if given:
            self.client.insert_overwrite(rows(*given))
            self.model = self.model.insert_overwrite(given)

    def delete_partition(self) -> None:
        region = self.random.choice(PARTITIONS)
        self.client.delete_partitions([region])
        self.model = self.model.delete_partitions([region])

    def compact(self) -> None:
        if HoodieTableMetaClient.load(self.path).table_config.table_type is HoodieTableType.MERGE_ON_READ:
            instant = self.client.schedule_compaction()
            if instant is not None:
                self.client.compact(instant)

    def clean(self) -> None:
        self.client.clean()

    def take(self, count: int) -> None:
        kinds = [self.upsert, self.upsert, self.upsert, self.delete, self.insert, self.insert_overwrite]
        kinds += [self.delete_partition, self.compact, self.clean]
        for number in range(count):
            step = self.upsert if not number else self.random.choice(kinds)
            step()
            try:
                check_rows(self.path, self.model)
            except AssertionError as error:
                raise AssertionError(f"after {step.__name__}, step {number}: {error}") from error


@contextmanager
def steps(
    tmp_path: Path, version: int, table_type: HoodieTableType, seed: int, properties: dict[str, Any] = INDEXED
) -> Iterator[Steps]:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    is_global = properties["hoodie.index.type"] != "RECORD_LEVEL_INDEX"
    small = {"hoodie.parquet.small.file.limit": seed % 2 * 100_000_000}
    with local_client(path, {**properties, **small, "hoodie.clean.automatic": "false"}) as client:
        yield Steps(path, client, seed, is_global=is_global)


@BOTH_TYPES
@WAYS
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.slow
@pytest.mark.usefixtures("in_tasks")
def test_the_index_is_that_of_the_rows_after_each_of_some_actions(
    tmp_path: Path, version: int, table_type: HoodieTableType, way: str
) -> None:
    with steps(tmp_path, version, table_type, version + (way == "in tasks")) as table:
        table.take(12)


@BOTH_TYPES
@WAYS
@pytest.mark.slow
@pytest.mark.usefixtures("in_tasks")
def test_the_index_by_partitions_is_that_of_the_rows_after_each_of_some_actions(
    tmp_path: Path, table_type: HoodieTableType, way: str
) -> None:
    with steps(tmp_path, 9, table_type, 3 + (way == "in tasks"), BY_PARTITION) as table:
        table.take(12)
        parts = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(table.path).snapshot).files
        assert set(parts.file_groups("record_index")) <= {"x", "y", "z%2F1", "a%5Fb%2Dc"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t")


def located(path: str) -> dict[Any, tuple[str, str]]:
    """Key to partition and file id, by the files of a copy-on-write table."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    found = hoodie.read_table(path, columns=names).to_pylist()
    return {row[names[0]]: (row[names[1]], row[names[2]].partition("_")[0]) for row in found}


@WAYS
@pytest.mark.usefixtures("in_tasks")
def test_a_key_that_moves_is_an_entry_of_its_new_file_group(path: str, way: str) -> None:
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.upsert(rows(("a", "y", 2), ("b", "z", 2)))
        assert read_rows(path) == [("a", "y", 2), ("b", "z", 2), ("c", "y", 1)]
        assert entries(path) == located(path)
        client.delete([HoodieKey("a", "x")])
        assert sorted(entries(path)) == ["b", "c"]
    check(path)


def test_rows_that_are_only_updated_keep_their_entries(path: str) -> None:
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        before = raw_entries(path)
        client.upsert(rows(("a", "x", 2), ("c", "x", 2)))
    after = raw_entries(path)
    assert after.pop("c")["instant_time"] > before["a"]["instant_time"]
    assert after == before


def raw_entries(path: str) -> dict[str, dict[str, Any]]:
    found = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot).read_record_index()
    return {row["record_key"]: row for row in found.to_pylist()}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("plain", [False, True])
def test_a_delete_counts_only_if_it_wins(tmp_path: Path, version: int, plain: bool) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", table_version=version)
    flagged = pa.table({"id": ["a", "b"], "region": ["x", "x"], "ts": [1, 9], "_hoodie_is_deleted": [True, True]})
    schema = pa.schema([*rows(("a", "x", 1)).schema, pa.field("_hoodie_is_deleted", pa.bool_())])
    given = pa.table({"id": ["a", "b", "c"], "region": ["x"] * 3, "ts": [5, 5, 5], "_hoodie_is_deleted": [False] * 3})
    with local_client(path, {**INDEXED, **({"hoodie.index.type": "SIMPLE"} if plain else {})}) as client:
        client.upsert(given.cast(schema))
        client.upsert(flagged.cast(schema))
        left = [key for key, *_ in read_rows(path, ["id"])]
        assert left == ["a", "c"]
        assert sorted(entries(path)) == left
        # The row comes back to the file group that deleted it, or to another one.
        client.upsert(given.slice(1, 1).set_column(2, "ts", pa.array([20])).cast(schema))
        assert sorted(entries(path)) == ["a", "b", "c"]
        check(path)


@pytest.mark.parametrize("version", [6, 9])
@BOTH_TYPES
def test_a_write_that_is_rolled_back_leaves_no_entry(tmp_path: Path, version: int, table_type: HoodieTableType) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        before = raw_entries(path)
        instant = client.upsert(rows(("a", "y", 2), ("c", "x", 2))).instant_time
        assert sorted(raw_entries(path)) == ["a", "b", "c"]
        client.rollback(instant)
        assert raw_entries(path) == before
        assert read_rows(path) == [("a", "x", 1), ("b", "y", 1)]
        check(path)
        client.upsert(rows(("a", "y", 3)))
    check_rows(path, TableModel([("a", "y", 3), ("b", "y", 1)]))


@BOTH_TYPES
@pytest.mark.parametrize("properties", [INDEXED, BY_PARTITION], ids=["of all", "by partitions"])
def test_an_index_of_a_living_table_is_built_dropped_and_built_again(
    tmp_path: Path, table_type: HoodieTableType, properties: dict[str, str]
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        client.upsert(rows(("a", "x", 2), ("c", "y", 2)))
        client.delete([HoodieKey("b", "y")])
    with local_client(path, properties) as client:
        client.upsert(rows(("d", "z", 1)))
        assert sorted(entries(path)) == ["a", "c", "d"]
        check(path)
    key = next(name for name in properties if name.endswith("level.index.enable"))
    with local_client(path, {key: "false"}) as client:
        client.upsert(rows(("e", "z", 1)))
    assert "record_index" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions
    with local_client(path, properties) as client:
        client.upsert(rows(("e", "z", 2)))
    assert sorted(entries(path)) == ["a", "c", "d", "e"]
    check(path)


def test_an_index_by_partitions_is_refused_in_older_tables(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=8)
    with (
        local_client(path, BY_PARTITION) as client,
        pytest.raises(HoodieNotSupportedException, match="for tables of version 9"),
    ):
        client.upsert(rows(("a", "x", 1)))
    assert instants(path) == []


def test_new_rows_go_to_log_files_if_that_is_asked_for(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(path, {**INDEXED, "hoodie.record.index.insert.into.logs": "true"}) as client:
        client.upsert(rows(("a", "x", 1)))
        result = client.upsert(rows(("b", "x", 1)))
        assert [status.stat.is_log_file for status in result.statuses] == [True]
        assert entries(path)["a"] == entries(path)["b"]
        client.upsert(rows(("b", "x", 2)))
    check_rows(path, TableModel([("a", "x", 1), ("b", "x", 2)]))


def test_what_a_base_file_gained_is_read_as_a_whole_if_it_does_not_stand_last(path: str) -> None:
    with local_client(path, {**INDEXED, "hoodie.metadata.global.record.level.index.enable": "false"}) as client:
        client.upsert(rows(("b", "x", 1), ("d", "x", 1)))
        before = latest(path)
        client.upsert(rows(("a", "x", 1), ("c", "x", 1)))
    after, snapshot = latest(path), HoodieTableMetaClient.load(path).snapshot
    change = FileGroupChange("x", before.file_id, before, after, row_count=2, deletes=False)
    keys = SliceKeys.of(snapshot, [change])
    assert sorted(keys.changed(change)[0].to_pylist()) == ["a", "c"]
    with pq_rows(after.sole_base_file.path) as reordered:
        reordered.reverse()
    assert keys._appended(before, after, 2) is None
    assert sorted(keys.changed(change)[0].to_pylist()) == ["a", "c"]


def latest(path: str) -> FileSlice:
    (found,) = HoodieTableMetaClient.load(path).snapshot.view().latest_file_slices("x")
    return found


@contextmanager
def pq_rows(path: str) -> Iterator[list[dict[str, Any]]]:
    """The rows of a Parquet file, which is written again as they are left."""
    table = pq.read_table(path)
    found = table.to_pylist()
    yield found
    pq.write_table(pa.Table.from_pylist(found, table.schema), path)
