"""Partitions of the metadata table that are built beside writers: `schedule_indexing` and `index`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

import hoodie.metadata
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieIndexCommitMetadata, HoodieIndexPlan
from hoodie.avro.timeline_metadata import decode
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import (
    HoodieConfigException,
    HoodieIndexException,
    HoodieMetadataException,
    HoodieNotSupportedException,
    HoodieRollbackException,
)
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.services_table import ServicesTable

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.cleaner.commits.retained": 1,
}
PLAIN = {"hoodie.metadata.index.column.stats.enable": "false"}
KINDS = ("column_stats", "bloom_filters", "record_index")


def kinds_of(version: int) -> tuple[str, ...]:
    return KINDS if version == 6 else (*KINDS, "partition_stats")


def new_table(path: Path, table_type: str) -> ServicesTable:
    """A table with ``files`` alone, and some history."""
    table = (MergeOnReadTable if table_type == "MERGE_ON_READ" else ServicesTable)(path)
    with table.client(**ON, **PLAIN) as client:
        table.upsert("a", "b", client=client)
        table.upsert("c", region="y", client=client)
        table.upsert("a", client=client)
    assert listed_partitions(table.base_path) == ("files",)
    return table


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_writers_before_and_while_partitions_are_built(
    tmp_path: Path, table_type: str, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, kinds = new_table(tmp_path / "t", table_type), kinds_of(table_version)
    with table.client(**ON) as client:
        instant_time = client.schedule_indexing([kind.upper() for kind in kinds])
        assert listed_partitions(table.base_path) == ("files",)
        table.upsert("b", "d", client=client)

        def write_meanwhile() -> None:
            with table.client(**ON) as other:
                table.upsert("a", "e", client=other)
                table.upsert("f", region="z", client=other)
                other.delete_partitions(["y"])
                if table_type == "MERGE_ON_READ":
                    other.compact()
                other.rollback(table.upsert("b", client=other))
                other.clean()

        beside_build(monkeypatch, write_meanwhile)
        done = client.index(instant_time)
    assert done is not None
    assert [info.metadata_partition_path for info in done.index_partition_infos] == list(kinds)
    assert set(listed_partitions(table.base_path)) == {"files", *kinds}
    check_equals_a_new_one(table.base_path)
    with table.client(**ON) as client:
        assert client.index(instant_time) is None
        table.upsert("a", "g", client=client)
        client.delete_partitions(["z"])
    check_equals_a_new_one(table.base_path)


def beside_build(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any], *, before: bool = False) -> None:
    """Let somebody work while `index` has no lock: right before or right after it reads the table."""
    build = HoodieBackedTableMetadataWriter.build
    begun: list[bool] = []

    def beside(self: HoodieBackedTableMetadataWriter, *given: Any) -> Any:
        is_first = not begun
        begun.append(True)
        if before and is_first:
            work()
        built = build(self, *given)
        if not before and is_first:
            work()
        return built

    monkeypatch.setattr(HoodieBackedTableMetadataWriter, "build", beside)
