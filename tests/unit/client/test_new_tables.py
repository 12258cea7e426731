"""A table that a write created is taken back if the write fails and nobody else uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client import new_table
from hoodie.client.open_or_create import open_or_create
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieIOException
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


def test_it_is_known_as_soon_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path / "t")
    make = new_table.create_table_folder
    is_down = False

    def then_down(*arguments: Any) -> HoodieTableConfig:
        nonlocal is_down
        made = make(*arguments)
        is_down = True
        return made

    def fail(name: str, where: str) -> None:
        nonlocal is_down
        if is_down:
            is_down = False
            raise HoodieIOException("the network is gone")

    with monkeypatch.context() as patch, hooked(patch, fail), pytest.raises(RuntimeError):
        patch.setattr(new_table, "create_table_folder", then_down)
        with open_or_create(config, HoodieLocalWriteClient) as table:
            table.create()
            is_down = False
            raise RuntimeError("the source is gone")
    assert not (tmp_path / "t").exists()
