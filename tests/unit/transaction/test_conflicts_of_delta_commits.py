"""Delta commits beside delta commits and compactions: which may both be completed.

version 6       a compaction that was requested later than a delta commit takes a slice that its log file is in
versions 8, 9   the log file is completed after the request, and belongs to the new slice
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.common.model.commit_metadata import READS_ROWS_KEY, HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieWriteConflictException
from hoodie.transaction.concurrent_operation import ConcurrentOperation, WriteStart
from hoodie.transaction.conflict_resolution_strategy import (
    BucketIndexConcurrentFileWritesConflictResolutionStrategy,
    NonBlockingConflictResolutionStrategy,
    SimpleConcurrentFileWritesConflictResolutionStrategy,
)
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import rows
from tests.unit.transaction.test_conflicts_by_completion import Timeline, at, compaction_plan

SIMPLE = SimpleConcurrentFileWritesConflictResolutionStrategy
BUCKET = BucketIndexConcurrentFileWritesConflictResolutionStrategy
SEVERAL_WRITERS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


@pytest.fixture(params=[1, 2])
def timeline(request: pytest.FixtureRequest, tmp_path: Path) -> Timeline:
    return Timeline(tmp_path, request.param)


def log_stat(file_id: str) -> HoodieWriteStat:
    return HoodieWriteStat(file_id=file_id, partition_path="p", path=f"p/.{file_id}_1.log.1_0-0-0", log_version=1)


def base_stat(file_id: str) -> HoodieWriteStat:
    return HoodieWriteStat(file_id=file_id, partition_path="p", path=f"p/{file_id}_0-0-0_1.parquet")


def conflicts(
    made: Timeline, time: int, start: WriteStart, *stats: HoodieWriteStat, strategy: type[SIMPLE] = SIMPLE
) -> list[int]:
    """The instants that forbid a write of some files to complete."""
    loaded, rule = made.load(), strategy()
    own = loaded.find(at(time))
    assert own is not None
    this = ConcurrentOperation.of_commit(own, HoodieCommitMetadata({"p": stats}))
    found = rule.candidates(loaded, at(time), start)
    return [int(i.requested_time[-5:]) for i in found if rule.conflicting(this, ConcurrentOperation.load(loaded, i))]


@pytest.mark.parametrize("strategy", [SIMPLE, BUCKET])
def test_two_delta_commits_of_one_file_group_conflict(timeline: Timeline, strategy: type[SIMPLE]) -> None:
    timeline.pending(20, "deltacommit")
    start = WriteStart.of(timeline.load())
    timeline.completed(21, 30, "f", action="deltacommit")
    assert conflicts(timeline, 20, start, log_stat("f"), strategy=strategy) == [21]
    assert conflicts(timeline, 20, start, log_stat("g"), strategy=strategy) == []


@pytest.mark.parametrize("strategy", [SIMPLE, BUCKET])
@pytest.mark.parametrize("state", ["pending", "completed"])
def test_a_later_compaction_takes_log_files_of_version_6_alone(
    timeline: Timeline, state: str, strategy: type[SIMPLE]
) -> None:
    timeline.pending(20, "deltacommit")
    start = WriteStart.of(timeline.load())
    (timeline.folder / f"{at(25)}.compaction.requested").write_bytes(compaction_plan("f"))
    if state == "completed":
        timeline.completed(25, 30, "f", operation="COMPACT")
    taken = [25] if timeline.layout.version == 1 else []
    assert conflicts(timeline, 20, start, log_stat("f"), strategy=strategy) == taken
    assert conflicts(timeline, 20, start, log_stat("g"), strategy=strategy) == []


def test_a_base_file_is_hidden_by_a_later_compaction_in_every_version(timeline: Timeline) -> None:
    timeline.pending(20, "deltacommit")
    start = WriteStart.of(timeline.load())
    timeline.completed(25, 30, "f", operation="COMPACT")
    assert conflicts(timeline, 20, start, base_stat("f")) == [25]
    assert conflicts(timeline, 20, start, log_stat("f"), base_stat("f")) == [25]


@pytest.mark.parametrize("action", ["deltacommit", "commit"])
def test_an_earlier_compaction_is_no_conflict(timeline: Timeline, action: str) -> None:
    timeline.pending(20, "deltacommit")
    start = WriteStart.of(timeline.load())
    timeline.completed(15, 30, "f", operation="COMPACT")
    assert conflicts(timeline, 20, start, log_stat("f")) == []


# --- writers that do not block each other -----------------------------------------------------------------------------

GROUP = "00000001-0000-0000-0000-000000000000-0"
OTHER = "00000001-5555-4555-8555-555555555555-0"


def operation(time: int, *stats: HoodieWriteStat, **more: Any) -> ConcurrentOperation:
    """A delta commit; with ``replaced`` of file groups a replacecommit."""
    replaced = more.pop("replaced", ())
    fields = {"operation_type": WriteOperationType.UPSERT, **more}
    metadata = HoodieCommitMetadata({"p": stats}, **fields)
    if replaced:
        metadata = HoodieReplaceCommitMetadata({"p": stats}, partition_to_replace_file_ids={"p": replaced}, **fields)
    action = Action.REPLACE_COMMIT if replaced else Action.DELTA_COMMIT
    return ConcurrentOperation.of_commit(HoodieInstant(at(time), action, State.COMPLETED, at(time + 20)), metadata)


READS = {"extra_metadata": {READS_ROWS_KEY: "true"}}


@pytest.mark.parametrize(
    ("other", "is_conflict"),
    [
        (operation(21, log_stat(GROUP)), False),
        (operation(19, log_stat(GROUP)), False),
        (operation(21, log_stat(GROUP), **READS), True),
        (operation(19, log_stat(GROUP), **READS), False),
        (operation(21, base_stat(GROUP)), True),
        (operation(21, base_stat(GROUP), log_stat(GROUP)), True),
        (operation(21, log_stat(OTHER)), True),
        (operation(21, base_stat(OTHER)), True),
        (operation(21, log_stat(GROUP), log_stat(OTHER)), True),
        (operation(21, replaced=[GROUP]), True),
        (operation(21, replaced=[OTHER]), True),
        (operation(21, log_stat("00000002-0000-0000-0000-000000000000-0"), **READS), False),
        (operation(21, base_stat(GROUP), operation_type=WriteOperationType.COMPACT), False),
        (operation(21, log_stat(GROUP), operation_type=WriteOperationType.LOG_COMPACT), True),
    ],
    ids=[
        "appended_later", "appended_earlier", "read_later", "read_earlier", "base_file", "base_and_log",
        "log_of_another", "base_of_another", "log_of_both", "replaced", "replaced_another", "another_bucket",
        "compacted", "logs_compacted",
    ],
)  # fmt: skip
def test_log_files_stand_beside_log_files_of_the_same_file_group_alone(
    other: ConcurrentOperation, is_conflict: bool
) -> None:
    strategy = NonBlockingConflictResolutionStrategy()
    met = strategy.conflicting(operation(20, log_stat(GROUP)), other)
    assert met == ({("p", GROUP)} if is_conflict else set())


def test_a_base_file_stands_beside_nothing() -> None:
    strategy = NonBlockingConflictResolutionStrategy()
    assert strategy.conflicting(operation(20, base_stat(GROUP)), operation(21, log_stat(GROUP))) == {("p", GROUP)}


# --- clients ----------------------------------------------------------------------------------------------------------


@every_version
def test_of_two_writers_of_one_file_group_the_second_loses_and_leaves_nothing(
    tmp_path: Path, table_version: int
) -> None:
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    with (
        table.client(**SEVERAL_WRITERS, hoodie__auto__commit="false") as slow,
        table.client(**SEVERAL_WRITERS) as fast,
    ):
        result = slow.upsert(rows(("a", "x", 90)))
        table.upsert("b", client=fast)
        table.upsert("c", region="y", client=fast)
        with pytest.raises(HoodieWriteConflictException, match="changed"):
            slow.commit(result.instant_time, result)
        slow.rollback(result.instant_time)
        assert table.read() == [("a", "x", 1), ("b", "x", 3), ("c", "y", 4)]
        again = slow.upsert(rows(("a", "x", 91)))
        assert slow.commit(again.instant_time, again)
    assert table.read() == [("a", "x", 91), ("b", "x", 3), ("c", "y", 4)]


@every_version
@pytest.mark.parametrize("properties", [SEVERAL_WRITERS, {}], ids=["several_writers", "single_writer"])
def test_a_delta_commit_beside_a_compaction_that_was_planned_meanwhile(
    tmp_path: Path, table_version: int, properties: dict[str, str]
) -> None:
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("a")
    with table.client(**properties, hoodie__auto__commit="false") as writer:
        result = writer.upsert(rows(("b", "x", 90)))
        # As another program plans it: in version 6 hoodie waits for the write.
        plan = table.load().active_timeline.create_new_instant_time(Action.COMPACTION, table.compaction_plan())
        if table.layout.has_completion_times:
            assert writer.commit(result.instant_time, result)
            expected = ("b", "x", 90)
        else:
            with pytest.raises(HoodieWriteConflictException):
                writer.commit(result.instant_time, result)
            writer.rollback(result.instant_time)
            expected = ("b", "x", 1)
    table.run_compaction(plan)
    assert table.read() == [("a", "x", 2), expected]
    assert [i.requested_time for i in table.instants(Action.COMMIT)] == [plan]
