"""Streams of the changes of merge-on-read tables go on over the delta commits and compactions of both writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiProcess
from tests.interop.test_delta_commits import Table, made
from tests.interop.test_merge_on_read_services import client_of, compact

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

Change = tuple[str, int]
"""Key and ordering value."""


class Readers:
    """Two streams of one table: Hudi's, and ranges that a caller of hoodie continues."""

    def __init__(self, table: Table, hudi: HudiProcess, folder: Path) -> None:
        self._table = table
        self._hudi = hudi
        self._checkpoint = folder / "hudi"
        self._reached = "earliest"

    def expect(self, *changes: Change) -> None:
        """Each of them gets these rows now, and no others."""
        expected = sorted(changes)
        assert changes_of(self._hudi.read_stream(self._table.base_path, self._checkpoint)) == expected, "Hudi"
        writes = HoodieTableMetaClient.load(str(self._table.base_path)).active_timeline.completed_writes()
        newest = max(instant.completion_time or instant.requested_time for instant in writes)
        path, begin = str(self._table.base_path), self._reached
        found = hoodie.read_table(path, query_type="incremental", begin=begin, end=newest)
        assert changes_of(found) == expected, "hoodie"
        self._reached = newest


def changes_of(found: pa.Table) -> list[Change]:
    return sorted(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


def changes(numbers: range, ts: int) -> list[Change]:
    return [(f"k{number:03d}", ts) for number in numbers]


def test_each_change_comes_once_over_commits_and_compactions_of_both(tmp_path: Path, hudi: HudiProcess) -> None:
    table = Table(tmp_path / "t", {"hoodie.parquet.small.file.limit": "0"}, "avro")
    readers = Readers(table, hudi, tmp_path)

    def compact_by_hoodie() -> None:
        with client_of(table) as client:
            assert client.schedule_compaction() is not None
            assert client.compact() is not None

    table.by_hoodie("insert", made(range(9), 100))
    readers.expect(*changes(range(9), 100))
    by_hoodie: Callable[[], None] = compact_by_hoodie
    for turn, compaction in enumerate([by_hoodie, lambda: compact(table, hudi)]):
        ts = 1000 * (turn + 1)
        table.by_hoodie("upsert", made(range(3), ts, 1))
        readers.expect(*changes(range(3), ts))
        table.by(hudi, "upsert", made(range(2, 5), ts + 1, 2))
        # Two commits at once, the second of which deletes.
        table.by_hoodie("upsert", [*made(range(4, 6), ts + 2, 3), *made(range(20 + turn, 21 + turn), ts + 2)])
        table.by_hoodie("delete", made(range(20 + turn, 21 + turn), 0))
        readers.expect(*changes(range(2, 4), ts + 1), *changes(range(4, 6), ts + 2))
        compaction()
        readers.expect()
        table.by(hudi, "upsert", made(range(1, 3), ts + 3, 4))
        table.by_hoodie("upsert", made(range(2, 4), ts + 4, 5))
        compaction()
        table.by_hoodie("upsert", made(range(6, 8), ts + 5, 6))
        readers.expect(("k001", ts + 3), *changes(range(2, 4), ts + 4), *changes(range(6, 8), ts + 5))
    table.check(hudi)
    timeline = HoodieTableMetaClient.load(str(table.base_path)).active_timeline
    assert len(timeline.filter_actions(Action.COMMIT)) == 4
