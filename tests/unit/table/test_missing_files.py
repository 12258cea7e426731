"""Base files that somebody deleted by hand: a read says so, and never where hoodie or Hudi took them away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient
from hoodie.exception import HoodieIOException
from tests.support.table_builder import local_client


def client_of(path: Path, **properties: object) -> HoodieLocalWriteClient:
    defaults = {"hoodie.archive.automatic": "false", "hoodie.clean.automatic": "false"}
    return local_client(path, defaults | {key.replace("_", "."): v for key, v in properties.items()})


def rows(*partitions: str, value: int = 1) -> pa.Table:
    return pa.table({"k": [f"{name}1" for name in partitions], "p": list(partitions), "v": [value] * len(partitions)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    hoodie.write_table(rows("x", "y"), str(path), record_key_fields="k", partition_fields="p")
    return path


def delete_files(folder: Path) -> str:
    files = sorted(folder.glob("*.parquet"))
    for file in files:
        file.unlink()
    return files[-1].name


def found(path: Path) -> dict[str, int]:
    table = hoodie.read_table(str(path), columns=["k", "v"])
    return dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def test_files_that_the_newest_commit_names_must_be_there(path: Path) -> None:
    name = delete_files(path / "x")
    with pytest.raises(HoodieIOException, match=rf"x/{name} of commit \d+ is not there, one of 1 files"):
        hoodie.read_table(str(path))
    with client_of(path) as client, pytest.raises(HoodieIOException, match=name):
        client.delete(where=[("v", "==", 1)])
    assert hoodie.read_table(str(path), columns=["k"], filters=[("p", "==", "y")])["k"].to_pylist() == ["y1"]
    with pytest.raises(HoodieIOException, match=name):
        hoodie.read_table(str(path), filters=[("p", "==", "x")])


def test_a_folder_that_is_gone_is_noticed_too(path: Path) -> None:
    shutil.rmtree(path / "x")
    with pytest.raises(HoodieIOException, match=r"/x/.* is not there"):
        hoodie.read_table(str(path))


def test_an_older_version_does_not_stand_in_for_the_newest_one(path: Path) -> None:
    with client_of(path) as client:
        client.upsert(rows("x", value=2))
    newest = max((path / "x").glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    newest.unlink()
    with pytest.raises(HoodieIOException, match=newest.name):
        hoodie.read_table(str(path))


def test_files_of_older_commits_are_noticed_where_a_partition_has_none_left(path: Path) -> None:
    with client_of(path) as client:
        client.upsert(rows("y", value=2))
        client.upsert(rows("y", value=3))
    assert found(path) == {"x1": 1, "y1": 3}
    name = delete_files(path / "x")
    with pytest.raises(HoodieIOException, match=name):
        hoodie.read_table(str(path))


@pytest.mark.parametrize("gone", ["files", "folder"])
@pytest.mark.parametrize("way", ["delete_partitions", "insert_overwrite", "restore", "rollback"])
def test_there_is_a_way_on_where_rows_are_lost_for_good(path: Path, gone: str, way: str) -> None:
    with client_of(path) as client:
        first = client.upsert(rows("y", value=2)).instant_time
        lost = client.upsert(rows("z", value=2)).instant_time
        delete_files(path / "z")
        if gone == "folder":
            shutil.rmtree(path / "z")
        with pytest.raises(HoodieIOException, match="is not there"):
            hoodie.read_table(str(path))
        if way == "delete_partitions":
            client.delete_partitions(["z"])
        elif way == "insert_overwrite":
            client.insert_overwrite(rows("z", value=3))
        elif way == "restore":
            client.restore_to_instant(first)
        else:
            client.rollback(lost)
        assert found(path) == {"x1": 1, "y1": 2} | ({"z1": 3} if way == "insert_overwrite" else {})


def test_what_replaces_cleans_rollbacks_and_restores_take_away_raises_nothing(path: Path) -> None:
    with client_of(path, hoodie_cleaner_commits_retained=1) as client:
        first = client.upsert(rows("x", "z", value=2)).instant_time
        client.savepoint(first)
        client.delete_partitions(["x"])
        assert found(path) == {"y1": 1, "z1": 2}
        client.upsert(rows("w", value=3))
        client.restore_to_savepoint(first)
        assert found(path) == {"x1": 2, "y1": 1, "z1": 2}
        client.delete_savepoint(first)
        client.delete_partitions(["x"])
        client.delete(where=[("k", "==", "z1")])
        assert found(path) == {"y1": 1}
        for value in (4, 5, 6):
            client.upsert(rows("y", value=value))
            client.clean()
            assert found(path) == {"y1": value}


def test_a_partition_that_was_deleted_and_archived_raises_nothing(path: Path) -> None:
    properties = {
        "hoodie_archive_automatic": "true", "hoodie_clean_automatic": "true", "hoodie_keep_min_commits": 2,
        "hoodie_keep_max_commits": 3, "hoodie_cleaner_commits_retained": 1,
    }  # fmt: skip
    with client_of(path, **properties) as client:
        client.delete_partitions(["x"])
        for value in range(8):
            client.upsert(rows("y", value=value))
            (path / "x").mkdir(exist_ok=True)
            (path / "x" / ".hoodie_partition_metadata").write_bytes(
                (path / "y" / ".hoodie_partition_metadata").read_bytes()
            )
            assert found(path) == {"y1": value}


def test_an_archived_savepointed_commit_whose_files_are_cleaned_raises_nothing(path: Path) -> None:
    """The commit of a savepoint stays active while later ones are archived, the replace of its partition too."""
    properties = {
        "hoodie_archive_automatic": "true", "hoodie_clean_automatic": "true", "hoodie_keep_min_commits": 2,
        "hoodie_keep_max_commits": 3, "hoodie_cleaner_commits_retained": 1, "hoodie_archive_beyond_savepoint": "true",
    }  # fmt: skip
    with client_of(path, **properties) as client:
        first = client.upsert(rows("x", value=2)).instant_time
        client.savepoint(first)
        client.delete_partitions(["x"])
        for value in range(8):
            client.upsert(rows("y", value=value))
            assert found(path) == {"y1": value}
        client.delete_savepoint(first)
        for value in range(8, 12):
            client.upsert(rows("y", value=value))
            assert found(path) == {"y1": value}
