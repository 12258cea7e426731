"""Merge-on-read tables that change their version."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieNotSupportedException
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import content
from tests.support.timeline_files import timeline_folder

CHANGES = [(6, 8), (6, 9), (8, 9), (9, 8), (8, 6), (9, 6)]
every_change = pytest.mark.parametrize(("table_version", "to_version"), CHANGES, indirect=["table_version"])


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> MergeOnReadTable:
    """Two base files, and a log file on each."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    return table


def bring(table: MergeOnReadTable, to_version: int) -> None:
    before = table.load().table_config.table_version
    change = HoodieTableMetaClient.upgrade if to_version > before else HoodieTableMetaClient.downgrade
    change(str(table.base_path), to_version)
    assert table.load().table_config.table_version == to_version


def is_another_layout(table_version: int, to_version: int) -> bool:
    return 6 in (table_version, to_version)


@every_change
def test_log_files_stay_between_versions_8_and_9_and_are_refused_otherwise(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    rows = table.read()
    if is_another_layout(table_version, to_version):
        before = content(table.base_path)
        with pytest.raises(HoodieNotSupportedException, match=r"log files.*such as .*compact\(\)"):
            bring(table, to_version)
        assert content(table.base_path) == before
        return
    bring(table, to_version)
    assert table.read() == rows
    table.upsert("a")
    assert ("a", "x", table._ts) in table.read()


@every_change
def test_a_compacted_table_keeps_its_rows_and_is_written_on(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    failed = table.leave_pending("a", "new")
    with table.client() as client:
        client.rollback(failed)
    table.compact()
    rows = table.read()
    # As in a copy: all files were changed after the compaction was requested.
    for path in timeline_folder(table.base_path).iterdir():
        os.utime(path, (time.time(), time.time()))
    bring(table, to_version)
    assert table.read() == rows
    slices = table.load().view().latest_file_slices("x")
    assert [part.log_files for part in slices] == [()], "log files of older slices stay there"
    table.upsert("a", "b")
    with table.client() as client:
        client.delete_partitions(["y"])
    now = table._ts
    assert table.read() == [("a", "x", now), ("b", "x", now)]
    undone = table.upsert("b")
    with table.client() as client:
        client.rollback(undone)
    assert table.read() == [("a", "x", now), ("b", "x", now)]
    assert len(table.instants(Action.ROLLBACK).filter_pending()) == 0


@every_change
def test_a_savepoint_of_log_files_is_refused(table: MergeOnReadTable, table_version: int, to_version: int) -> None:
    with table.client() as client:
        saved = client.savepoint().instant_time
    table.compact()
    if is_another_layout(table_version, to_version):
        with pytest.raises(HoodieNotSupportedException, match=f"delete_savepoint\\('{saved}'\\)"):
            bring(table, to_version)
        with table.client() as client:
            client.delete_savepoint(saved)
    bring(table, to_version)
