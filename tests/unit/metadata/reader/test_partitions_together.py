"""Readers list all partitions of a metadata table of few files by one request."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from tests.support.hookable_storage import hooked
from tests.support.table_builder import init_table, local_client, read_rows, rows

STATISTICS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
FILTERS = [("ts", ">", 1)]


@pytest.mark.parametrize(
    ("given", "version", "walked", "listed"),
    [
        ({}, 9, 1, set()),
        ({}, 6, 1, set()),
        (RECORD_INDEX, 9, 0, {"files", "column_stats", "partition_stats"}),
    ],
)
def test_partitions_are_listed_together_if_their_files_are_few(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    version: int,
    walked: int,
    listed: set[str],
) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    with local_client(path, {**STATISTICS, **given}) as client:
        for ts in (1, 2, 3):
            client.upsert(rows(("a", "x", ts), ("b", "y", 1)))
    folder = f"{path}/.hoodie/metadata"
    calls: list[tuple[str, str]] = []
    with hooked(monkeypatch, lambda name, where: calls.append((name, where))):
        plan = hoodie.plan_read(path, filters=FILTERS)
    assert [one.partition_path for one in plan.file_slices] == ["x"]
    assert calls.count(("walk", folder)) == walked
    lists = [where for name, where in calls if name == "list" and where.startswith(f"{folder}/")]
    assert {where.rpartition("/")[2] for where in lists} - {".hoodie", "timeline"} == listed
    assert read_rows(path, filters=FILTERS) == [("a", "x", 3)]
