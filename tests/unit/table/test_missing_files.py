"""Files that somebody deleted by hand: a read says so, and never where hoodie or Hudi took them away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient
from hoodie.common.table.view import committed_log_files
from hoodie.exception import HoodieIOException
from hoodie.table import missing_files
from hoodie.table.action.compact import compaction_planner
from tests.support.hookable_storage import hooked
from tests.support.log_files import log_files_in
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


@pytest.mark.without_metadata_table("it names files that a listing misses")
def test_files_that_the_newest_commit_names_must_be_there(path: Path) -> None:
    name = delete_files(path / "x")
    with pytest.raises(HoodieIOException, match=rf"x/{name} of commit \d+ is not there, one of 1 files"):
        hoodie.read_table(str(path))
    with client_of(path) as client, pytest.raises(HoodieIOException, match=name):
        client.delete(where=[("v", "==", 1)])
    assert hoodie.read_table(str(path), columns=["k"], filters=[("p", "==", "y")])["k"].to_pylist() == ["y1"]
    with pytest.raises(HoodieIOException, match=name):
        hoodie.read_table(str(path), filters=[("p", "==", "x")])


@pytest.mark.without_metadata_table("it names files that a listing misses")
def test_a_folder_that_is_gone_is_noticed_too(path: Path) -> None:
    shutil.rmtree(path / "x")
    with pytest.raises(HoodieIOException, match=r"/x/.* is not there"):
        hoodie.read_table(str(path))


@pytest.mark.table_version(9)
@pytest.mark.parametrize("gone", ["files", "folder"])
def test_a_file_that_a_metadata_table_names_must_be_there(path: Path, gone: str) -> None:
    name = delete_files(path / "x")
    if gone == "folder":
        shutil.rmtree(path / "x")
    with pytest.raises(HoodieIOException, match=f"/x/{name} is missing"):
        hoodie.read_table(str(path))
    assert hoodie.read_table(str(path), columns=["k"], filters=[("p", "==", "y")])["k"].to_pylist() == ["y1"]
    with client_of(path) as client:
        client.delete_partitions(["x"])
    assert found(path) == {"y1": 1}


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


@pytest.mark.without_metadata_table("it names files that a listing misses")
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


WITH_LOGS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": False,
    "hoodie.compact.inline": False,
    "hoodie.clean.automatic": False,
}


def write_with_logs(path: Path, *changes: dict[str, int], **properties: object) -> None:
    """A merge-on-read table without a metadata table; each change is a commit."""
    given = WITH_LOGS | {key.replace("_", "."): value for key, value in properties.items()}
    for number, change in enumerate(changes):
        first = {} if path.exists() or number else {"record_key_fields": "k"}
        rows_of_change = pa.table({"k": list(change), "v": list(change.values())})
        hoodie.write_table(rows_of_change, str(path), properties=given, **first)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_no_log_file_of_an_older_commit_may_be_gone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    write_with_logs(path, {"a": 1, "b": 1}, {"a": 2}, {"b": 3}, {"a": 4}, hoodie_write_table_version=version)
    assert found(path) == {"a": 4, "b": 3}
    for log in log_files_in(path):
        data = log.read_bytes()
        log.unlink()
        with pytest.raises(HoodieIOException, match=rf"/{log.name} of deltacommit \d+ is not there, one of 1 files"):
            found(path)
        with pytest.raises(HoodieIOException, match=log.name), local_client(path, WITH_LOGS) as client:
            client.delete(where=[("v", "==", 3)])
        log.write_bytes(data)
    for log in log_files_in(path):
        log.unlink()
    with pytest.raises(HoodieIOException, match=r"one of [13] files"):
        found(path)


@pytest.mark.parametrize("with_metadata_table", [True, False])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_compaction_does_not_make_the_loss_of_a_file_final(
    tmp_path: Path, version: int, with_metadata_table: bool
) -> None:
    path = tmp_path / "t"
    given = {"hoodie_write_table_version": version, "hoodie_metadata_enable": with_metadata_table}
    write_with_logs(path, {"a": 1, "b": 1}, {"a": 2}, {"b": 3}, {"a": 4}, **given)
    properties = WITH_LOGS | {"hoodie.metadata.enable": with_metadata_table}
    for file in (*log_files_in(path), *path.glob("*.parquet")):
        data, before = file.read_bytes(), timeline_of(path)
        file.unlink()
        with local_client(path, properties) as client:
            for compact in (client.compact, client.schedule_compaction):
                with pytest.raises(HoodieIOException, match=rf"compacting {path}: .*/{file.name} of "):
                    compact()
        assert timeline_of(path) == before
        file.write_bytes(data)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_plan_that_was_made_when_a_file_was_gone_is_not_carried_out(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    write_with_logs(path, {"a": 1, "b": 1}, {"a": 2}, {"b": 3}, hoodie_write_table_version=version)
    lost, files = log_files_in(path)[0], list(path.glob("*.parquet"))
    data = lost.read_bytes()
    lost.unlink()
    with local_client(path, WITH_LOGS) as client, monkeypatch.context() as patch:
        patch.setattr(compaction_planner, "check_files", lambda *_, **__: None)
        assert client.schedule_compaction() is not None
    with local_client(path, WITH_LOGS) as client:
        with pytest.raises(HoodieIOException, match=rf"lacks {lost.name} of deltacommit .* nothing was compacted"):
            client.compact()
        assert list(path.glob("*.parquet")) == files
        lost.write_bytes(data)
        client.upsert(pa.table({"k": ["b"], "v": [5]}))
        # That one is of the slice that the compaction makes.
        log_files_in(path)[-1].unlink()
        assert [status.stat.num_writes for status in client.compact()] == [2]


def timeline_of(path: Path) -> list[str]:
    return sorted(str(file) for file in path.rglob("*commit*") if "metadata" not in file.parts)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_log_files_of_slices_that_nobody_reads_may_be_gone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    write_with_logs(path, {"a": 1, "b": 1}, {"a": 2}, {"b": 2}, {"a": 3}, hoodie_write_table_version=version)
    old = log_files_in(path)
    with local_client(path, WITH_LOGS) as client:
        client.compact()
    assert found(path) == {"a": 3, "b": 2}
    write_with_logs(path, {"b": 4}, {"b": 5}, {"b": 6})
    new = log_files_in(path)[len(old) :]
    assert len(new) == 3
    for log in old:
        log.unlink()
    assert found(path) == {"a": 3, "b": 6}
    new[0].unlink()
    with pytest.raises(HoodieIOException, match=rf"/{new[0].name} .* one of 1 files"):
        found(path)
    with local_client(path, WITH_LOGS) as client:
        client.insert_overwrite(pa.table({"k": ["c"], "v": [1]}))
    assert found(path) == {"c": 1}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_cleans_rollbacks_and_pending_compactions_of_log_files_raise_nothing(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    write_with_logs(path, {"a": 1, "b": 1}, {"a": 2}, {"b": 2}, {"a": 3}, hoodie_write_table_version=version)
    with local_client(path, WITH_LOGS | {"hoodie.cleaner.commits.retained": 1}) as client:
        client.schedule_compaction()
        assert found(path) == {"a": 3, "b": 2}
        last = client.upsert(pa.table({"k": ["b"], "v": [4]})).instant_time
        client.upsert(pa.table({"k": ["b"], "v": [5]}))
        assert found(path) == {"a": 3, "b": 5}
        client.compact()
        assert found(path) == {"a": 3, "b": 5}
        client.restore_to_instant(last)
        assert found(path) == {"a": 3, "b": 4}
        for value in range(6, 12):
            undone = client.upsert(pa.table({"k": ["a"], "v": [value]})).instant_time
            client.rollback(undone)
            client.upsert(pa.table({"k": ["b"], "v": [value]}))
            assert found(path) == {"a": 3, "b": value}
            if value % 2:
                client.compact()
                client.clean()
            assert found(path) == {"a": 3, "b": value}


@pytest.mark.parametrize("version", [6, 9])
def test_the_look_for_log_files_costs_no_request(tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write_with_logs(path, {"a": 1}, {"a": 2}, {"a": 3}, {"b": 3}, hoodie_write_table_version=version)

    def calls_of_a_read() -> list[str]:
        committed_log_files._READ_BEFORE.clear()
        calls: list[str] = []
        with hooked(monkeypatch, lambda name, file: calls.append(f"{name} {file}")):
            found(path)
        return sorted(calls)

    checked = calls_of_a_read()
    monkeypatch.setattr(missing_files, "_missing_older_logs", lambda *_: ())
    assert checked == calls_of_a_read() != []
