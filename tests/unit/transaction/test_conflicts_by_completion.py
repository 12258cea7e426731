"""Which commits a write is compared with: all that were completed since it looked, whatever time they were requested.

Timelines of both layouts are made by hand; times are numbers. Clients do the same at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.avro.timeline_metadata import encode_record
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.clustering_plans import file_groups_in_pending_clustering, is_clustering
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieWriteConflictException
from hoodie.storage.storage_factory import open_storage
from hoodie.transaction.concurrent_operation import ConcurrentOperation, WriteStart
from hoodie.transaction.conflict_resolution_strategy import (
    PreferWriterConflictResolutionStrategy,
    SimpleConcurrentFileWritesConflictResolutionStrategy,
)
from tests.support.table_builder import init_table, local_client, read_rows, rows

SIMPLE, PREFER_WRITER = SimpleConcurrentFileWritesConflictResolutionStrategy, PreferWriterConflictResolutionStrategy


def at(number: int) -> str:
    return f"202611211015{number:05}"


class Timeline:
    """A timeline's folder."""

    def __init__(self, base_path: Path, version: int) -> None:
        self.layout = timeline_layout(version)
        self.storage = open_storage(str(base_path))
        self.meta_path = str(base_path / ".hoodie")
        self.folder = Path(self.layout.active_path(self.meta_path))
        self.folder.mkdir(parents=True)

    def pending(self, time: int, action: str = "commit", plan: bytes = b"") -> None:
        (self.folder / f"{at(time)}.{action}.requested").write_bytes(plan)
        inflight = "inflight" if action == "commit" else f"{action}.inflight"
        (self.folder / f"{at(time)}.{inflight}").write_bytes(b"")

    def completed(self, time: int, end: int, *file_ids: str, operation: str = "UPSERT", action: str = "commit") -> None:
        self.pending(time, action)
        stats = tuple(HoodieWriteStat(file_id=name, partition_path="p", path=f"p/{name}") for name in file_ids)
        metadata = HoodieCommitMetadata({"p": stats}, operation_type=WriteOperationType(operation))
        name = f"{at(time)}.{action}" if self.layout.version == 1 else f"{at(time)}_{at(end)}.{action}"
        (self.folder / name).write_bytes(self.layout.encode(metadata))

    def load(self) -> HoodieActiveTimeline:
        return HoodieActiveTimeline.load(self.storage, self.meta_path, self.layout)


@pytest.fixture(params=[1, 2])
def timeline(request: pytest.FixtureRequest, tmp_path: Path) -> Timeline:
    return Timeline(tmp_path, request.param)


@pytest.fixture
def layout_2(tmp_path: Path) -> Timeline:
    return Timeline(tmp_path, 2)


def candidates(made: Timeline, time: int, start: WriteStart, strategy: type[SIMPLE] = SIMPLE) -> list[int]:
    found = strategy().candidates(made.load(), at(time), start)
    return [int(instant.requested_time[-5:]) for instant in found]


def conflicts(made: Timeline, time: int, start: WriteStart, *file_ids: str) -> list[int]:
    """The instants that forbid a write of some file groups to complete."""
    loaded, strategy = made.load(), SIMPLE()
    own = loaded.find(at(time))
    assert own is not None
    stats = tuple(HoodieWriteStat(file_id=name, partition_path="p", path=f"p/{name}") for name in file_ids)
    this = ConcurrentOperation.of_commit(own, HoodieCommitMetadata({"p": stats}))
    found = strategy.candidates(loaded, at(time), start)
    return [
        int(i.requested_time[-5:]) for i in found if strategy.conflicting(this, ConcurrentOperation.load(loaded, i))
    ]


def compaction_plan(*file_ids: str) -> bytes:
    operations = [
        {
            "baseInstantTime": at(1), "deltaFilePaths": [], "dataFilePath": None, "fileId": file_id,
            "partitionPath": "p", "metrics": None, "bootstrapFilePath": None,
        }
        for file_id in file_ids
    ]  # fmt: skip
    value = {
        "operations": operations, "extraMetadata": None, "version": 2, "strategy": None, "preserveHoodieMetadata": None,
    }  # fmt: skip
    return encode_record("HoodieCompactionPlan", value)


def clustering_plan(*file_ids: str) -> bytes:
    slices = [
        {
            "dataFilePath": f"/t/p/{file_id}", "deltaFilePaths": [], "fileId": file_id, "partitionPath": "p",
            "bootstrapFilePath": None, "version": 1,
        }
        for file_id in file_ids
    ]  # fmt: skip
    group = {"slices": slices, "metrics": None, "numOutputFileGroups": 1, "extraMetadata": None, "version": 1}
    plan = {
        "inputGroups": [group], "strategy": None, "extraMetadata": None, "version": 1, "preserveHoodieMetadata": True,
        "missingSchedulePartitions": None,
    }  # fmt: skip
    value = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": None, "version": 1}
    return encode_record("HoodieRequestedReplaceMetadata", value)


def test_an_instant_that_was_requested_earlier_and_completed_later_is_compared(timeline: Timeline) -> None:
    """Hudi compares with what was requested after the last completed instant that the write knew: 15, and not 10."""
    timeline.pending(10)
    timeline.completed(15, 16, "other")
    timeline.pending(20)
    start = WriteStart.of(timeline.load())
    assert start.completed == {at(15)} and start.pending == {at(10), at(20)}
    timeline.completed(10, 25, "f")
    assert candidates(timeline, 20, start) == [10]
    assert candidates(timeline, 20, start, PREFER_WRITER) == [10]
    assert conflicts(timeline, 20, start, "f") == [10]
    assert conflicts(timeline, 20, start, "g") == []


def test_an_instant_that_no_listing_had_shown_is_compared(timeline: Timeline) -> None:
    """Its writer chose its time first and made its file last."""
    timeline.pending(20)
    start = WriteStart.of(timeline.load())
    timeline.completed(10, 25, "f", "g")
    assert conflicts(timeline, 20, start, "f") == [10]


def test_what_was_completed_before_the_write_looked_is_no_conflict(timeline: Timeline) -> None:
    timeline.completed(10, 15, "f")
    timeline.pending(20)
    start = WriteStart.of(timeline.load())
    assert candidates(timeline, 20, start) == []


def test_a_later_instant_is_compared_though_the_write_has_seen_it(timeline: Timeline) -> None:
    """Readers take the version of the later request, which was not computed from this write's."""
    timeline.pending(20)
    timeline.completed(30, 31, "f")
    start = WriteStart.of(timeline.load())
    assert conflicts(timeline, 20, start, "f") == [30]


def test_a_pending_compaction_is_a_conflict_in_layout_1_only(timeline: Timeline) -> None:
    timeline.pending(20)
    start = WriteStart.of(timeline.load())
    timeline.pending(30, "compaction", compaction_plan("f"))
    expected = [30] if timeline.layout.version == 1 else []
    assert candidates(timeline, 20, start) == expected == conflicts(timeline, 20, start, "f")
    assert candidates(timeline, 20, start, PREFER_WRITER) == []


@pytest.mark.parametrize("clustered_at", [10, 30])
def test_a_pending_clustering_is_a_conflict_whatever_its_time(layout_2: Timeline, clustered_at: int) -> None:
    layout_2.pending(clustered_at, "clustering", clustering_plan("f", "g"))
    layout_2.pending(20)
    start = WriteStart.of(layout_2.load())
    assert conflicts(layout_2, 20, start, "f") == [clustered_at]
    assert conflicts(layout_2, 20, start, "h") == []
    assert candidates(layout_2, 20, start, PREFER_WRITER) == []
    expected = {("p", name): at(clustered_at) for name in ("f", "g")}
    assert file_groups_in_pending_clustering(layout_2.load()) == expected
    layout_2.completed(clustered_at, 40, "new", operation="CLUSTER", action="replacecommit")
    assert candidates(layout_2, 20, start) == [clustered_at]
    assert file_groups_in_pending_clustering(layout_2.load()) == {}


def test_a_pending_replacecommit_is_a_clustering_in_layout_1_only(timeline: Timeline) -> None:
    timeline.pending(10, "replacecommit", clustering_plan("f"))
    loaded = timeline.load()
    (instant,) = loaded
    is_layout_1 = timeline.layout.version == 1
    assert is_clustering(loaded, instant) == is_layout_1
    assert file_groups_in_pending_clustering(loaded) == ({("p", "f"): at(10)} if is_layout_1 else {})


# --- by clients -------------------------------------------------------------------------------------------------------

OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "hoodie.transaction.lock.storage_based_lock_provider.StorageBasedLockProvider",
    "hoodie.auto.commit": "false",
}


@pytest.fixture(params=[6, 8, 9])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = init_table(tmp_path / "t", table_version=request.param)
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    return path


def writer(path: str) -> HoodieLocalWriteClient:
    return local_client(path, OCC, parallelism=1)


@pytest.mark.parametrize("is_first_to_commit", [True, False], ids=["earlier_commits_first", "later_commits_first"])
def test_of_two_writes_of_a_file_group_the_second_to_complete_loses(path: str, is_first_to_commit: bool) -> None:
    with writer(path) as earlier, writer(path) as later:
        times = [earlier.start_commit(), later.start_commit()]
        assert times == sorted(times)
        results = [
            client.upsert(rows(("a", "x", ts)), time)
            for client, time, ts in zip((earlier, later), times, (2, 3), strict=True)
        ]
        pairs = list(zip((earlier, later), times, results, strict=True))
        (first, first_time, first_result), (second, second_time, second_result) = (
            pairs if is_first_to_commit else pairs[::-1]
        )
        assert first.commit(first_time, first_result)
        with pytest.raises(HoodieWriteConflictException) as caught:
            second.commit(second_time, second_result)
        assert list(caught.value.other_instants) == [first_time]
    assert read_rows(path) == [("a", "x", 2 if is_first_to_commit else 3), ("b", "y", 1)]


def test_writes_of_other_file_groups_complete_in_any_order(path: str) -> None:
    with writer(path) as earlier, writer(path) as later:
        times = [earlier.start_commit(), later.start_commit()]
        written = [earlier.upsert(rows(("a", "x", 2)), times[0]), later.upsert(rows(("b", "y", 3)), times[1])]
        assert later.commit(times[1], written[1]) and earlier.commit(times[0], written[0])
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 3)]
