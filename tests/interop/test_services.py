"""Cleaning and archiving by hoodie and real Hudi in turn on one table: each goes on where the other one stopped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import decode
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import (
    SIMPLE,
    Row,
    TableModel,
    archive_files,
    assert_all_agree,
    completed_file,
    timeline_folder,
)

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
SERVICES = {
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}


class Table:
    """A table of hoodie, and its model; every write changes rows of all partitions."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = base_path
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        self._ts = 0
        HoodieTableMetaClient.init_table(str(base_path), table_name="served", **SIMPLE.init_arguments())

    def _rows(self) -> list[Row]:
        self._ts += 1
        rows = [
            {"id": f"k{n}", "region": SIMPLE.regions[n % 3], "ts": self._ts, "fare": n + self._ts / 4} for n in range(6)
        ]
        self.model.upsert(rows)
        return rows

    def by_hoodie(self, count: int, **options: str) -> None:
        config = HoodieWriteConfig.from_properties(str(self.base_path), {**SERVICES, **options})
        with HoodieLocalWriteClient(config) as client:
            for _ in range(count):
                result = client.upsert(self.model.table(self._rows()))
                assert result.service_errors == ()

    def by(self, hudi: HudiProcess, count: int, **options: str) -> None:
        for _ in range(count):
            rows = self.model.table(self._rows())
            hudi.write(self.base_path, rows, {**SIMPLE.hudi_options("served"), **SERVICES, **options})

    def load(self) -> HoodieTableMetaClient:
        return HoodieTableMetaClient.load(str(self.base_path))

    def cleans(self) -> list[HoodieCleanMetadata]:
        timeline = self.load().active_timeline
        cleans = timeline.filter_actions(Action.CLEAN).filter_completed_instants()
        return [decode(timeline.read_details(instant), HoodieCleanMetadata) for instant in cleans]

    def commits(self, archived: bool = False) -> list[str]:
        meta_client = self.load()
        timeline = meta_client.archived_timeline if archived else meta_client.active_timeline
        return [instant.requested_time for instant in timeline.filter_actions(Action.COMMIT)]

    def uncomplete(self, instant: HoodieInstant) -> None:
        Path(self.load().active_timeline.path_of(instant)).unlink()

    def archive(self) -> set[str]:
        return archive_files(self.base_path)

    def check(self, hudi: HudiProcess) -> None:
        """All read the rows; every commit is in one of the timelines; the files are those of the retained ones."""
        assert_all_agree(self.base_path, self.model, hudi)
        assert len({*self.commits(), *self.commits(archived=True)}) == self._ts
        assert sorted(self.commits()) == sorted({*self.commits(), *self.commits(True)})[-len(self.commits()) :]
        folders = [self.base_path / region for region in SIMPLE.regions]
        assert sum(len(list(folder.glob("*.parquet"))) for folder in folders) == 3 * 3


def test_each_goes_on_with_cleaning_and_archiving_where_the_other_one_stopped(
    tmp_path: Path, hudi: HudiProcess
) -> None:
    table = Table(tmp_path / "t")
    table.by_hoodie(9)
    assert table.archive()
    table.check(hudi)
    ours = table.commits(archived=True)
    assert hudi.archived_commits(table.base_path) == [(time, "UPSERT") for time in ours]
    kept, archive = table.cleans()[-1].earliest_commit_to_retain, table.archive()

    table.by(hudi, 4)
    assert table.cleans()[-1].earliest_commit_to_retain > kept
    assert table.archive() - archive
    assert table.commits(archived=True)[: len(ours)] == ours
    table.check(hudi)

    kept, archive = table.cleans()[-1].earliest_commit_to_retain, table.archive()
    table.by_hoodie(4)
    assert table.cleans()[-1].earliest_commit_to_retain > kept
    assert table.archive() - archive
    table.check(hudi)
    every = table.commits(archived=True)
    assert hudi.archived_commits(table.base_path) == [(time, "UPSERT") for time in every]

    # A clean that Hudi left pending, and the archive in one file.
    table.by(hudi, 1)
    newest = table.load().active_timeline.filter_actions(Action.CLEAN).instants[-1]
    table.uncomplete(newest)
    table.by_hoodie(1, **{"hoodie.archive.merge.enable": "true", "hoodie.archive.merge.files.batch.size": "2"})
    finished = table.load().active_timeline.find(newest.requested_time, Action.CLEAN)
    assert finished is not None
    assert finished.state is State.COMPLETED
    assert len(table.archive()) == 1 or hudi.table_version != 6
    table.check(hudi)
    table.by(hudi, 3)
    table.check(hudi)
    every = table.commits(archived=True)
    assert hudi.archived_commits(table.base_path) == [(time, "UPSERT") for time in every]


def test_real_hudi_finishes_a_clean_that_hoodie_left_pending(tmp_path: Path, hudi: HudiProcess) -> None:
    table = Table(tmp_path / "t")
    table.by_hoodie(4)
    newest = table.load().active_timeline.filter_actions(Action.CLEAN).instants[-1]
    table.uncomplete(newest)
    (timeline_folder(table.base_path) / f"{newest.requested_time}.clean.inflight").unlink()
    table.by(hudi, 2)
    assert completed_file(table.base_path, newest.requested_time, Action.CLEAN) is not None
    table.check(hudi)
