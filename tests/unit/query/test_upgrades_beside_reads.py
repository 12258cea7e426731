"""Reads of a table that real Hudi upgrades meanwhile: the rows of the table, or an error, but never fewer rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table import table_snapshot
from hoodie.common.table.timeline.timeline_listing import TimelineMovedException
from tests.support.hookable_storage import hooked
from tests.support.later_version import change_properties, to_version
from tests.support.table_builder import init_table, local_client, read_rows, rows

pytestmark = pytest.mark.table_version(6)

ROWS = [(f"k{number}", "x", number) for number in range(3)]
VERSION_6 = {
    "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1", "hoodie.archivelog.folder": "archived",
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(table_snapshot, "_SECONDS_BETWEEN_LOADS", 0.01)
    path = Path(init_table(tmp_path / "t"))
    with local_client(path) as client:
        for row in ROWS:
            client.upsert(rows(row))
    return path


def test_a_table_whose_files_are_moved_and_whose_properties_are_not_is_an_error(table: Path) -> None:
    to_version(table, 9)
    change_properties(table, VERSION_6)
    with pytest.raises(TimelineMovedException, match="is being upgraded"):
        hoodie.read_table(str(table))
    with local_client(table) as client, pytest.raises(TimelineMovedException, match="is being upgraded"):
        client.upsert(rows(("k9", "x", 1)))


def test_a_part_of_the_files_is_moved(table: Path) -> None:
    moved = table.parent / "moved"
    shutil.copytree(table, moved)
    to_version(moved, 9)
    (file,) = (moved / ".hoodie/timeline").glob(f"{times(table)[0]}_*.commit")
    (table / ".hoodie/timeline").mkdir()
    shutil.copy(file, table / ".hoodie/timeline")
    with pytest.raises(TimelineMovedException, match=file.name):
        hoodie.read_table(str(table))


def times(table: Path) -> list[str]:
    return [i.requested_time for i in HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes()]


def test_a_table_that_was_downgraded_again_is_read(table: Path) -> None:
    (table / ".hoodie/timeline/history").mkdir(parents=True)
    assert read_rows(table) == ROWS


def read_with(table: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[..., None]) -> None:
    with hooked(monkeypatch, before):
        assert read_rows(table) == ROWS


@pytest.mark.parametrize("calls_between", [0, 1, 2, 5])
def test_an_upgrade_at_any_call_of_a_read_changes_nothing(
    table: Path, monkeypatch: pytest.MonkeyPatch, calls_between: int
) -> None:
    seen: list[Any] = []
    read_with(table, monkeypatch, lambda *call: seen.append(call))
    assert len(seen) > 5
    for number in range(len(seen)):
        copy = table.parent / f"upgraded at {number}"
        shutil.copytree(table, copy)
        count = iter(range(10_000))

        def upgrade(*call: Any, copy: Path = copy, number: int = number, count: Any = count) -> None:
            """Move the files before one call, and change the properties before a later one."""
            at = next(count)
            if at == number:
                to_version(copy, 9)
                later = (copy / ".hoodie/hoodie.properties").read_bytes()
                (copy.parent / "later").write_bytes(later)
                change_properties(copy, VERSION_6)
            if at == number + calls_between:
                shutil.copy(copy.parent / "later", copy / ".hoodie/hoodie.properties")

        read_with(copy, monkeypatch, upgrade)
