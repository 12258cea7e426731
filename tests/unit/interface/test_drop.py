"""`Table.drop`: a folder that is a table and nothing else goes, as a whole, whatever dies on the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodiePendingOverwriteException,
    TableNotFoundException,
)
from hoodie.storage.storage_factory import open_storage
from tests.support.hookable_storage import Faults, FaultyStorage, faults_of, run_with_faults, use_for_local_files

ROWS = [{"id": f"k{number}", "city": city, "ts": 1} for number, city in enumerate(["oslo", "rome", "a/west"])]


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> HoodieTableType:
    """Both types of tables."""
    made: HoodieTableType = request.param
    return made


def make(path: Path | str, table_type: str, table_version: int, **arguments: object) -> Table:
    table = Table.create(
        path, ROWS, record_key_fields="id", partition_fields="city", table_type=table_type, table_version=table_version,
        **arguments,  # type: ignore[arg-type]
    )  # fmt: skip
    table.upsert(ROWS[:1])
    return table


def files_below(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_a_table_is_listed_and_deleted(tmp_path: Path, table_type: HoodieTableType, table_version: int) -> None:
    (tmp_path / "beside.txt").write_text("mine")
    table = make(tmp_path / "t", table_type, table_version)
    before = files_below(tmp_path)
    plan = table.drop(dry_run=True)
    assert files_below(tmp_path) == before
    assert [folder.folder for folder in plan.folders] == [".hoodie", "a/west", "oslo", "rome"]
    assert plan.files == len(before) - 1
    assert "would delete" in str(plan)
    done = table.drop()
    assert (done.files, done.is_dry_run) == (plan.files, False)
    assert [path.name for path in tmp_path.iterdir()] == ["beside.txt"]
    with pytest.raises(TableNotFoundException):
        table.drop()
    make(tmp_path / "t", table_type, table_version)


@pytest.mark.parametrize(
    "other", ["notes.txt", "oslo/notes.txt", "deep/down/_SUCCESS", "oslo/inner/.hoodie/hoodie.properties"]
)
def test_files_of_others_are_named_and_nothing_is_deleted(tmp_path: Path, other: str) -> None:
    table = make(tmp_path / "t", "COPY_ON_WRITE", 9)
    path = tmp_path / "t" / other
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    before = files_below(tmp_path)
    assert table.drop(dry_run=True).others == (other,)
    with pytest.raises(HoodieConfigException, match=f"nothing was deleted, because .* {other}"):
        table.drop()
    assert files_below(tmp_path) == before


def test_no_link_is_followed(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "COPY_ON_WRITE", 9)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    (tmp_path / "t" / "oslo" / "out").symlink_to(elsewhere)
    before = files_below(tmp_path)
    with pytest.raises(HoodieConfigException, match="is a link, and nothing was deleted: name the folder itself"):
        Table(tmp_path / "link").drop()
    with pytest.raises(HoodieIOException, match="link"):
        table.drop()
    assert files_below(tmp_path) == before
    os.unlink(tmp_path / "t" / "oslo" / "out")
    table.drop()
    assert files_below(tmp_path) == {elsewhere / "notes.txt": b"mine"}


@pytest.mark.table_version(9)
def test_a_metadata_table_is_not_dropped_alone(tmp_path: Path) -> None:
    make(tmp_path / "t", "COPY_ON_WRITE", 9)
    before = files_below(tmp_path)
    with pytest.raises(HoodieConfigException, match="is in the folder of the table"):
        Table(tmp_path / "t" / ".hoodie" / "metadata").drop()
    assert files_below(tmp_path) == before


def test_a_table_of_a_living_writer_stays(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "COPY_ON_WRITE", 9)
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.auto.commit": "false"}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table.path, lazy)) as client:
        left = client.start_commit()
        client.upsert(ROWS, left)
        with pytest.raises(HoodieHeartbeatException, match=f"nothing was deleted, because .* {left}"):
            table.drop()
        client.rollback(left)
    assert table.count() == len(ROWS)
    table.drop()


@pytest.mark.parametrize("part", range(4))
@pytest.mark.one_in(4)
def test_a_death_at_any_call_leaves_a_table_that_is_refused_and_a_second_call_ends_it(
    tmp_path: Path, table_type: HoodieTableType, table_version: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments are shared out to the parts."""
    use_for_local_files(monkeypatch, FaultyStorage)
    make(tmp_path / "template", table_type, table_version)

    def attempt(name: str, faults: Faults) -> tuple[Path, BaseException | None]:
        path = tmp_path / name
        shutil.copytree(tmp_path / "template", path)
        return path, run_with_faults(faults, lambda: Table(path).drop())

    healthy = Faults()
    path, error = attempt("healthy", healthy)
    assert error is None and not path.exists()
    moments = list(faults_of(healthy.calls, dies=True))[part::4]
    assert moments
    for number, how in moments:
        faults = Faults(number, how)
        path, error = attempt(f"{number}_{how}", faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        try:
            assert faults.fired
            if not (path / ".hoodie" / "hoodie.properties").exists():
                # The last file is gone: at most empty folders are left.
                assert not files_below(path)
                continue
            try:
                whole = Table(path).count() == len(ROWS)
            except HoodiePendingOverwriteException as refusal:
                assert ".drop() ends it" in str(refusal)
                for call in (HoodieTableMetaClient.finish_overwrite, HoodieTableMetaClient.undo_overwrite):
                    with pytest.raises(HoodiePendingOverwriteException):
                        call(str(path))
            else:
                assert whole
            assert Table(path).drop(dry_run=True).files == len(files_below(path))
            Table(path).drop()
            assert not path.exists()
        except (AssertionError, HoodieException) as problem:
            problem.add_note(what)
            raise


def test_a_table_on_a_store_without_folders_is_deleted(table_type: HoodieTableType, table_version: int) -> None:
    base_path = f"memory://drop/{table_type}-{table_version}"
    storage = open_storage(base_path)
    table = make(base_path, table_type, table_version)
    storage.replace(f"{base_path}/notes.txt", b"mine")
    with pytest.raises(HoodieConfigException, match="notes.txt"):
        table.drop()
    storage.delete_file(f"{base_path}/notes.txt")
    assert table.count() == len(ROWS)
    table.drop()
    assert storage.list_files(base_path) == []
