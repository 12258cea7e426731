"""A table of few rows whose services are tested, with the states that services meet made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.timeline_metadata import encode, encode_record
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, init_table, local_client, read_rows, rows, sorted_rows
from tests.support.timeline_files import delete_instant, state_file, timeline_folder

__all__ = ["ServicesTable"]

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", **SMALL_FILTERS}


class ServicesTable:
    """Partitions ``x`` and ``y``; commits of one row each, named by number."""

    def __init__(self, base_path: Path, **arguments: Any) -> None:
        self.base_path = base_path
        init_table(base_path, **{"table_name": "trips", **arguments})
        self._ts = 0

    def client(self, **properties: Any) -> HoodieLocalWriteClient:
        return local_client(self.base_path, OFF, parallelism=1, **properties)

    def upsert(self, *keys: str, region: str = "x", client: HoodieLocalWriteClient | None = None) -> str:
        """One commit; keys of a region that are there are updated."""
        self._ts += 1
        result = (client or self.client()).upsert(rows(*((key, region, self._ts) for key in keys)))
        assert result.service_errors == ()
        return result.instant_time

    def leave_pending(self, *keys: str, region: str = "x") -> str:
        """A write that was not committed."""
        client = self.client(hoodie__auto__commit="false")
        return self.upsert(*keys, region=region, client=client)

    def replace(self, regions: Iterable[str]) -> str:
        """What a delete of partitions commits."""
        meta_client = self.load()
        view = meta_client.view()
        timeline = meta_client.active_timeline
        replaced = {region: tuple(f.file_id for f in view.latest_base_files(region)) for region in regions}
        time = timeline.create_new_instant_time(Action.REPLACE_COMMIT)
        timeline.transition_requested_to_inflight(time, Action.REPLACE_COMMIT)
        metadata = HoodieReplaceCommitMetadata(
            operation_type=WriteOperationType.DELETE_PARTITION, partition_to_replace_file_ids=replaced
        )
        timeline.save_as_complete(time, Action.REPLACE_COMMIT, metadata)
        return time

    def savepoint(self, instant_time: str) -> None:
        """What Hudi writes for a savepoint."""
        meta_client = self.load()
        view = meta_client.view()
        partitions = {
            region: {
                "partitionPath": region,
                "savepointDataFile": [
                    file.file_name for file in view.latest_base_files_before_or_on(region, instant_time)
                ],
            }
            for region in view.list_partitions()
        }
        content = encode_record(
            "HoodieSavepointMetadata",
            {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": partitions, "version": 1},
        )
        timeline = meta_client.active_timeline
        timeline.transition_requested_to_inflight(instant_time, Action.SAVEPOINT)
        timeline.save_as_complete(instant_time, Action.SAVEPOINT, content)

    def delete_savepoint(self, instant_time: str) -> None:
        delete_instant(self.base_path, instant_time, "savepoint")

    def request_clean(self, plan: Any) -> str:
        """A clean that somebody planned and did not carry out."""
        return self.load().active_timeline.create_new_instant_time(Action.CLEAN, encode(plan))

    @property
    def layout(self) -> TimelineLayout:
        return self.load().active_timeline.layout

    @property
    def timeline_path(self) -> Path:
        """The folder of the active timeline."""
        return timeline_folder(self.base_path)

    def completed_file(self, instant_time: str) -> Path:
        """The completed file of a commit."""
        return state_file(self.base_path, instant_time)

    def load(self) -> HoodieTableMetaClient:
        return HoodieTableMetaClient.load(str(self.base_path))

    def instants(self, action: Action) -> HoodieTimeline:
        return self.load().active_timeline.filter_actions(action)

    def files(self) -> dict[str, set[str]]:
        """Region -> instant times of its base files."""
        found: dict[str, set[str]] = {}
        for path in self.base_path.glob("[!.]*/**/*.parquet"):
            found.setdefault(path.parent.name, set()).add(path.stem.rsplit("_", 1)[1])
        return found

    def read(self) -> list[tuple[str, str, int]]:
        return read_rows(self.base_path)

    def read_at(self, instant_time: str) -> list[tuple[str, str, int]]:
        """What a reader sees who pinned an instant; files are opened."""
        view = self.load().view()
        tables = [
            pq.ParquetFile(file.path).read(columns=SCHEMA.names)
            for region in view.list_partitions()
            for file in view.latest_base_files_before_or_on(region, instant_time)
        ]
        return sorted_rows(pa.concat_tables(tables)) if tables else []

    def details(self, instant: HoodieInstant) -> bytes:
        return self.load().active_timeline.read_details(instant)
