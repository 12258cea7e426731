"""Indexes of merge-on-read tables whose records a class of the user's merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieRecord, HoodieSingleRecordMerger, HoodieTableMetaClient
from hoodie.exception import HoodieAmbiguousKeyException
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer import record_index_indexer
from tests.support.table_builder import init_table, local_client, rows

MERGER = "hoodie.write.record.merge.custom.implementation.classes"
ENABLE = "hoodie.metadata.global.record.level.index.enable"
GONE = 100.0


class Sum(HoodieSingleRecordMerger):
    """Adds fares; a record whose fares come to more than a hundred goes."""

    def merge_records(self, older: HoodieRecord, newer: HoodieRecord) -> HoodieRecord | None:
        """See `HoodieSingleRecordMerger.merge_records`."""
        fare = older.data["fare"] + newer.data["fare"]
        return None if fare > GONE else HoodieRecord(newer.key, {**newer.data, "fare": fare})


NAMED = {MERGER: f"{__name__}.Sum"}
PROPERTIES = {
    **NAMED,
    "hoodie.metadata.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.automatic": "false",
    ENABLE: "true",
}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
WAYS = pytest.mark.parametrize("way", ["on the driver", "in tasks"])


@pytest.fixture
def in_tasks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "in tasks":
        monkeypatch.setattr(record_index_indexer, "_FEW_ROWS", -1)


def summed(path: Path, version: int) -> str:
    return init_table(path, table_type="MERGE_ON_READ", table_version=version, payload_class=Sum)


def fares(path: str) -> dict[str, float]:
    return {row["id"]: row["fare"] for row in hoodie.read_table(path, options=NAMED).to_pylist()}


def indexed_keys(path: str) -> list[str]:
    """The keys of the record index, which is right."""
    result = hoodie.metadata.validate(path, merger=Sum())
    assert result.is_right, result
    assert result.not_validated == {}
    metadata = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot)
    return sorted(metadata.read_record_index()["record_key"].to_pylist())


def write(path: str, *entries: tuple[Any, ...], operation: str = "upsert", **properties: str) -> None:
    with local_client(path, {**PROPERTIES, **properties}) as client:
        getattr(client, operation)(rows(*entries))


def first_and_log_files(path: str) -> None:
    """A base file, and a log file that changes a record, deletes one by merging it, and adds one."""
    write(path, ("a", "x", 1, 10.0), ("b", "x", 1, 60.0), ("c", "y", 1, 1.0))
    write(path, ("a", "x", 2, 10.0), ("b", "x", 2, 60.0), **{"hoodie.metadata.compact.max.delta.commits": "1"})


@VERSIONS
@WAYS
@pytest.mark.usefixtures("in_tasks")
def test_a_record_index_follows_the_merger(tmp_path: Path, version: int, way: str) -> None:
    path = summed(tmp_path / "t", version)
    first_and_log_files(path)
    assert fares(path) == {"a": 20.0, "c": 1.0}
    assert indexed_keys(path) == ["a", "c"]
    write(path, ("b", "y", 3, 5.0), ("a", "x", 3, 5.0))
    assert fares(path) == {"a": 25.0, "b": 5.0, "c": 1.0}
    assert indexed_keys(path) == ["a", "b", "c"]


@VERSIONS
def test_a_record_index_is_built_with_the_merger(tmp_path: Path, version: int) -> None:
    path = summed(tmp_path / "t", version)
    write(path, ("a", "x", 1, 10.0), ("b", "x", 1, 60.0))
    plain = {"hoodie.index.type": "SIMPLE"}
    write(path, ("a", "x", 2, 10.0), ("b", "x", 2, 60.0), **plain, **{ENABLE: "false"})
    assert "record_index" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions
    with local_client(path, {**PROPERTIES, **plain}) as client:
        client.index(client.schedule_indexing(["record_index"]))
    assert indexed_keys(path) == ["a"]
    write(path, ("a", "x", 3, 10.0), **plain, **{ENABLE: "false"})
    write(path, ("c", "x", 3, 10.0), **plain)
    assert indexed_keys(path) == ["a", "c"]
    assert fares(path) == {"a": 30.0, "c": 10.0}


@VERSIONS
def test_a_key_of_a_merged_file_group_is_refused_elsewhere(tmp_path: Path, version: int) -> None:
    path = summed(tmp_path / "t", version)
    first_and_log_files(path)
    with pytest.raises(HoodieAmbiguousKeyException, match="'a' in partition 'x'"):
        write(path, ("a", "y", 3, 1.0), operation="insert", **{"hoodie.index.type": "SIMPLE"})
    write(path, ("b", "y", 3, 1.0), operation="insert", **{"hoodie.index.type": "SIMPLE"})
    assert indexed_keys(path) == ["a", "b", "c"]


@VERSIONS
def test_a_validation_asks_for_the_merger(tmp_path: Path, version: int) -> None:
    path = summed(tmp_path / "t", version)
    first_and_log_files(path)
    result = hoodie.metadata.validate(path)
    assert set(result.not_validated) == {"record_index"}
    assert f"by the Python class {__name__}.Sum" in result.not_validated["record_index"]
    assert "merger=" in result.not_validated["record_index"]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.one_in(4)
def test_a_secondary_index_follows_the_merger(tmp_path: Path, version: int) -> None:
    path = summed(tmp_path / "t", version)
    first_and_log_files(path)
    with local_client(path, PROPERTIES) as client:
        client.create_index("idx_region", "region")
    write(path, ("a", "x", 3, 90.0), ("d", "x", 3, 1.0))
    metadata = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot)
    assert metadata.read_secondary_index("idx_region", ["x"])["record_key"].to_pylist() == ["d"]
    assert indexed_keys(path) == ["c", "d"]


@VERSIONS
def test_a_compaction_and_a_restore_keep_the_index(tmp_path: Path, version: int) -> None:
    path = summed(tmp_path / "t", version)
    with local_client(path, PROPERTIES) as client:
        client.upsert(rows(("a", "x", 1, 10.0), ("b", "x", 1, 60.0)))
        kept = client.upsert(rows(("a", "x", 2, 10.0), ("b", "x", 2, 60.0))).instant_time
        client.savepoint(kept, user="u", comment="c")
        client.upsert(rows(("c", "x", 3, 10.0)))
        client.restore_to_savepoint(kept)
        assert indexed_keys(path) == ["a"]
        compaction = client.schedule_compaction()
        assert compaction is not None
        client.compact(compaction)
    assert indexed_keys(path) == ["a"]
    assert fares(path) == {"a": 20.0}
