"""Record indexes after every action, held against storage and against a model of the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer import record_index_indexer
from tests.support.model import TableModel
from tests.support.table_builder import init_table, local_client, read_rows, rows

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

    def roll_back(self) -> None:
        """A write whose files are there, and which is taken back."""
        before = self.model
        instant = self.client.start_commit()
        result = self.client.upsert(rows(*self.some_rows()), instant_time=instant)
        del result
        self.client.rollback(instant)
        self.model = before

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
@pytest.mark.usefixtures("in_tasks")
def test_the_index_is_that_of_the_rows_after_each_of_some_actions(
    tmp_path: Path, version: int, table_type: HoodieTableType, way: str
) -> None:
    with steps(tmp_path, version, table_type, version + (way == "in tasks")) as table:
        table.take(12)


@BOTH_TYPES
@WAYS
@pytest.mark.usefixtures("in_tasks")
def test_the_index_by_partitions_is_that_of_the_rows_after_each_of_some_actions(
    tmp_path: Path, table_type: HoodieTableType, way: str
) -> None:
    with steps(tmp_path, 9, table_type, 3 + (way == "in tasks"), BY_PARTITION) as table:
        table.take(12)
        parts = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(table.path).snapshot).files
        assert set(parts.file_groups("record_index")) <= {"x", "y", "z%2F1", "a%5Fb%2Dc"}
