"""A table that a write created is taken back if the write fails and nobody else uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.open_or_create import open_or_create
from hoodie.common.table.table_folder import NewTable
from hoodie.exception import HoodieIOException, TableNotFoundException
from tests.support.hookable_storage import hooked
from tests.support.other_process import start_program
from tests.support.table_builder import read_rows, rows

HOLDER = """
import sys
from hoodie import HoodieWriteConfig
from hoodie.transaction.transaction_manager import TransactionManager

with TransactionManager(HoodieWriteConfig.from_properties(sys.argv[1], {})).alone():
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_elsewhere(path: str) -> Iterator[None]:
    """Another process holds the table's lock."""
    process = start_program(HOLDER, path)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate("\n")


def config_of(path: Path) -> HoodieWriteConfig:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    return HoodieWriteConfig.from_properties(str(path), options)


def error_of_first_write(path: Path, meanwhile: Callable[[], object] = lambda: None) -> RuntimeError:
    """The error of a write that fails after it has created its table, and after something else has happened."""
    config, error = config_of(path), RuntimeError("the source is gone")
    with pytest.raises(RuntimeError), open_or_create(config, HoodieLocalWriteClient) as table:
        table.create()
        assert HoodieTableMetaClient.load(str(path)).table_config.table_name == "t"
        meanwhile()
        raise error
    return error


def test_a_table_goes_with_the_write_that_it_was_made_for(tmp_path: Path) -> None:
    error = error_of_first_write(tmp_path / "t")
    assert not (tmp_path / "t").exists()
    assert not hasattr(error, "__notes__")


@pytest.mark.one_in(4)
def test_it_stays_while_a_writer_in_another_process_has_its_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with ExitStack() as holding:
        error = error_of_first_write(tmp_path / "t", lambda: holding.enter_context(held_elsewhere(path)))
    assert f"the table {path}, which this call created, stays: {path} is being written by" in error.__notes__[0]
    assert HoodieTableMetaClient.load(path).table_config.table_name == "t"
    hoodie.write_table(rows(("a", "x", 1)), path)
    assert read_rows(path) == [("a", "x", 1)]


def test_it_stays_if_another_writer_has_committed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    error = error_of_first_write(tmp_path / "t", lambda: hoodie.write_table(rows(("a", "x", 1)), path))
    assert "stays: another writer uses it" in error.__notes__[0]
    assert read_rows(path) == [("a", "x", 1)]


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.parametrize("error", [HoodieIOException, KeyboardInterrupt])
@pytest.mark.parametrize("folder", ["new", "there"])
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite"])
def test_a_first_write_leaves_the_folder_as_it_was_whichever_call_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], folder: str, operation: str
) -> None:
    """Each call to the storage fails once, before it is made; those of the removal work."""
    options = {"record_key_fields": "id", "partition_fields": "region", "ordering_fields": "ts"}
    calls, failing, failures = 0, 0, 0

    def fail(name: str, where: str) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise error(f"{name} of {where}")

    with hooked(monkeypatch, fail):
        hoodie.write_table(rows(("a", "x", 1)), str(tmp_path / "t"), operation=operation, **options)
    for failing in range(1, calls + 1):
        path, calls = tmp_path / str(failing) / "t", 0
        (path if folder == "there" else path.parent).mkdir(parents=True)
        before = everything_in(path.parent)
        try:
            with hooked(monkeypatch, fail):
                hoodie.write_table(rows(("a", "x", 1)), str(path), operation=operation, **options)
        except error as raised:
            if has_commits(path):
                # The rows are in the table: what failed came after the commit.
                assert read_rows(str(path)) == [("a", "x", 1)]
                continue
            assert everything_in(path.parent) == before, raised
            failures += 1
    assert failures > 30


def has_commits(path: Path) -> bool:
    try:
        return bool(HoodieTableMetaClient.load(str(path)).active_timeline.completed_writes().times)
    except TableNotFoundException:
        return False


def test_it_is_known_as_soon_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path / "t")
    create = NewTable.create
    is_down = False

    def then_down(table: NewTable) -> None:
        nonlocal is_down
        create(table)
        is_down = True

    def fail(name: str, where: str) -> None:
        nonlocal is_down
        if is_down:
            is_down = False
            raise HoodieIOException("the network is gone")

    with monkeypatch.context() as patch, hooked(patch, fail), pytest.raises(RuntimeError):
        patch.setattr(NewTable, "create", then_down)
        with open_or_create(config, HoodieLocalWriteClient) as table:
            table.create()
            is_down = False
            raise RuntimeError("the source is gone")
    assert not (tmp_path / "t").exists()
