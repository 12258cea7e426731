"""Partitions of the metadata table that are built beside writers: `schedule_indexing` and `index`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import pytest

from hoodie.avro.service_metadata import HoodieIndexCommitMetadata, HoodieIndexPlan
from hoodie.avro.timeline_metadata import decode
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIndexException,
    HoodieMetadataException,
    HoodieNotSupportedException,
    HoodieRollbackException,
)
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.services_table import ServicesTable
from tests.support.table_builder import rows

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.cleaner.commits.retained": 1,
}
PLAIN = {"hoodie.metadata.index.column.stats.enable": "false"}
KINDS = ("column_stats", "bloom_filters", "record_index")


SECONDARY = {"secondary_indexes": {"idx_ts": "ts", "idx_region": "region"}}


def kinds_of(version: int) -> tuple[str, ...]:
    return KINDS if version == 6 else (*KINDS, "partition_stats")


def all_of(version: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The partitions that tables of a version can have, and what is given to plan those that are secondary indexes."""
    if version == 6:
        return kinds_of(version), {}
    return (*kinds_of(version), *(f"secondary_index_{name}" for name in SECONDARY["secondary_indexes"])), SECONDARY


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
@pytest.mark.one_in(4)
def test_writers_before_and_while_partitions_are_built(
    tmp_path: Path, table_type: str, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, (kinds, secondary) = new_table(tmp_path / "t", table_type), all_of(table_version)
    # Rolling back a commit after which the metadata table was compacted builds it anew.
    options = {**ON, "hoodie.metadata.compact.max.delta.commits": 50}
    with table.client(**options) as client:
        instant_time = client.schedule_indexing([kind.upper() for kind in kinds_of(table_version)], **secondary)
        assert listed_partitions(table.base_path) == ("files",)
        table.upsert("b", "d", client=client)

        def write_meanwhile() -> None:
            with table.client(**options) as other:
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
    with table.client(**options) as client:
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


@pytest.mark.parametrize("ends", ["commit", "rollback", "commit_and_rollback"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_a_write_that_is_pending_all_the_time(tmp_path: Path, table_type: str, table_version: int, ends: str) -> None:
    table, (kinds, secondary) = new_table(tmp_path / "t", table_type), all_of(table_version)
    several = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    }
    with (
        table.client(**ON, **several, **{"hoodie.auto.commit": "false"}) as slow,
        table.client(**ON, **several) as client,
    ):
        pending = slow.start_commit()
        written = slow.upsert(rows(("p", "w", 50), ("q", "w", 50)), pending)
        planned = client.schedule_indexing(kinds_of(table_version), **secondary)
        # Only the newest commit can be rolled back.
        others = ("a", "b") if ends != "commit_and_rollback" else ()
        for key in others[:1]:
            table.upsert(key, client=client)
        client.index(planned)
        assert set(listed_partitions(table.base_path)) == {"files", *kinds}
        for key in others[1:]:
            table.upsert(key, client=client)
        if ends != "rollback":
            slow.commit(pending, written)
        if ends == "commit_and_rollback":
            check_equals_a_new_one(table.base_path)
        if ends != "commit":
            assert slow.rollback(pending)
        assert set(listed_partitions(table.base_path)) == {"files", *kinds}, "it was set aside"
    check_equals_a_new_one(table.base_path)


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_commit_that_a_partition_was_built_of_is_rolled_back(tmp_path: Path, table_version: int) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    with table.client(**ON) as client:
        last = table.upsert("a", "n", client=client)
        client.index(client.schedule_indexing(["record_index", "bloom_filters"]))
        client.rollback(last)
        check_after(table)
        assert set(listed_partitions(table.base_path)) >= {"files", "record_index", "bloom_filters"}


def check_after(table: ServicesTable) -> None:
    """The next write goes on with a right metadata table."""
    with table.client(**ON) as client:
        table.upsert("a", client=client)
    check_equals_a_new_one(table.base_path)


def test_another_attempt_begins_anew_where_files_were_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")

    def clean() -> None:
        with table.client(**ON) as other:
            for _ in range(3):
                table.upsert("a", client=other)
            assert other.clean() is not None

    beside_build(monkeypatch, clean, before=True)
    with table.client(**ON) as client:
        client.index(client.schedule_indexing(["column_stats", "record_index"]))
    assert {"column_stats", "record_index"} <= set(listed_partitions(table.base_path))
    check_equals_a_new_one(table.base_path)


def test_restores_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")

    def restore() -> None:
        with table.client(**ON) as other:
            kept = table.load().active_timeline.completed_writes().instants[-2].requested_time
            other.restore_to_instant(kept)

    beside_build(monkeypatch, restore)
    with table.client(**ON) as client:
        planned = client.schedule_indexing(["record_index"])
        with suppress(HoodieException):
            client.index(planned)
        table.upsert("h", client=client)
        client.index(planned)
    assert "record_index" in listed_partitions(table.base_path)
    check_equals_a_new_one(table.base_path)


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_files_are_those_of_hudi(tmp_path: Path, table_version: int, later_tables: Path) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    base = table.load().active_timeline.last_instant
    assert base is not None
    with table.client(**ON) as client:
        planned = client.schedule_indexing(["record_index"])
        client.index(planned)
    timeline = table.load().active_timeline
    done = timeline.find(planned, Action.INDEXING)
    assert done is not None
    info = {
        "version": 1, "metadataPartitionPath": "record_index", "indexUptoInstant": base.requested_time,
        "extraMetadata": {},
    }  # fmt: skip
    folder = later_tables / "v9_sql" / "v9_sql" / ".hoodie" / "timeline"
    for state, of_hudi, more in (
        (State.REQUESTED, folder / "20261122072321411.indexing.requested", {}),
        (State.COMPLETED, folder / "20261122072321411_20261122072327380.indexing", {"operationType": None}),
    ):
        path = timeline.path_of(done if state is State.COMPLETED else done.in_state(state))
        with open(path, "rb") as ours, open(of_hudi, "rb") as theirs:
            mine, real = fastavro.reader(ours), fastavro.reader(theirs)
            assert list(mine) == [{"version": 1, "indexPartitionInfos": [info], **more}]
            found = fastavro.schema.to_parsing_canonical_form
            assert found(mine.writer_schema) == found(real.writer_schema)
        plan = decode(of_hudi.read_bytes(), HoodieIndexPlan if state is State.REQUESTED else HoodieIndexCommitMetadata)
        assert plan.index_partition_infos[0].metadata_partition_path == "record_index"
    assert Path(timeline.path_of(done.in_state(State.INFLIGHT))).read_bytes() == b""


@pytest.mark.table_version(9)
def test_what_cannot_be_planned(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    with table.client(**ON) as client:
        for wrong in ([], ["files"], ["secondary_index_"], ["nothing"], [3]):
            with pytest.raises(HoodieConfigException, match="column_stats, partition_stats, bloom_filters"):
                client.schedule_indexing(wrong)  # type: ignore[arg-type]
        with pytest.raises(HoodieIndexException, match="needs column_stats"):
            client.schedule_indexing(["partition_stats"])
        planned = client.schedule_indexing(["record_index"])
        with pytest.raises(HoodieIndexException, match=planned):
            client.schedule_indexing(["bloom_filters", "record_index"])
        client.index(planned)
        with pytest.raises(HoodieIndexException, match="record_index already"):
            client.schedule_indexing(["record_index"])
        with pytest.raises(HoodieIndexException, match="no indexing 20200101000000000"):
            client.index("20200101000000000")
        with pytest.raises(HoodieRollbackException, match="is completed"):
            client.rollback(planned)
    with table.client(**ON, **PLAIN) as client, pytest.raises(HoodieConfigException, match="drop column_stats"):
        client.schedule_indexing(["column_stats"])
    plain = ServicesTable(tmp_path / "plain")
    plain.upsert("a", client=plain.client(hoodie__metadata__enable="false"))
    with plain.client() as client, pytest.raises(HoodieIndexException, match="no metadata table"):
        client.schedule_indexing(["record_index"])


@pytest.mark.table_version(6)
def test_version_6_has_no_partition_stats(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    with table.client(**ON) as client, pytest.raises(HoodieNotSupportedException, match="version 6"):
        client.schedule_indexing(["column_stats", "partition_stats"])


# --- pending ones -----------------------------------------------------------------------------------------------------


def test_writers_leave_planned_partitions_alone(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    enabled = {"hoodie.metadata.record.index.enable": "true"}
    with table.client(**ON, **enabled) as client:
        planned = client.schedule_indexing(["record_index"])
        table.upsert("b", client=client)
        assert "record_index" not in listed_partitions(table.base_path)
        assert client.rollback(planned)
        assert table.load().active_timeline.find(planned, Action.INDEXING) is None
        assert not client.rollback(planned)
        table.upsert("b", client=client)
        assert "record_index" in listed_partitions(table.base_path)
    check_equals_a_new_one(table.base_path)


def test_one_process_builds_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    refused: list[str] = []

    def try_it() -> None:
        with table.client(**ON) as other:
            for call in (other.index, other.rollback):
                with pytest.raises(HoodieIndexException, match="its heartbeat .* is fresh") as raised:
                    call(planned)
                refused.append(str(raised.value))

    beside_build(monkeypatch, try_it)
    with table.client(**ON) as client:
        planned = client.schedule_indexing(["record_index"])
        client.index(planned)
    assert len(refused) == 2
    check_equals_a_new_one(table.base_path)


def test_beside_an_indexing_of_hudi_nothing_is_written(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "COPY_ON_WRITE")
    with table.client(**ON) as client:
        planned = client.schedule_indexing(["record_index"])
        loaded = table.load().snapshot
        loaded.active_timeline.transition_requested_to_inflight(planned, Action.INDEXING)
        config = loaded.table_config
        config.update(loaded.storage, loaded.base_path, config.with_metadata_partitions(["files"], ["record_index"]))
        with pytest.raises(HoodieMetadataException, match=f"Hudi builds .*record_index.*{planned}"):
            table.upsert("b", client=client)
        with pytest.raises(HoodieIndexException, match="as with Hudi"):
            client.index(planned)
        for file in (table.base_path / ".hoodie").rglob(f"{planned}*"):
            os.utime(file, (1, 1))
        client.index(planned)
        assert table.load().table_config.metadata_partitions_inflight == ()
        table.upsert("b", client=client)
    check_equals_a_new_one(table.base_path)
