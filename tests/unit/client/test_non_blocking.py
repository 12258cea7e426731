"""Writers with NON_BLOCKING_CONCURRENCY_CONTROL: delta commits of one file group that are written at the same time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import READS_ROWS_KEY
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieConfigException, HoodieWriteConflictException
from hoodie.index.bucket.bucket_identifier import shared_bucket_file_id
from tests.support.hookable_storage import Faults, faults_of, hooked, run_with_faults
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import (
    SMALL_FILTERS,
    TRIPS,
    init_table,
    local_client,
    read_rows,
    read_trips,
    rows,
)
from tests.support.timeline_files import is_in_metadata_table, read_commit, timeline_folder

pytestmark = pytest.mark.parametrize("table_version", [8, 9], indirect=True)

APPENDING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": 0,
    "hoodie.write.lock.client.num_retries": 0,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": 1,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
    **SMALL_FILTERS,
}
BLOCKING = {**APPENDING, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
FIRST = shared_bucket_file_id(0)


@pytest.fixture
def path(tmp_path: Path, table_version: int) -> Path:
    """An empty table; the ordering values decide."""
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


@pytest.fixture
def unordered(tmp_path: Path, table_version: int) -> Path:
    """An empty table; the later row wins."""
    return Path(init_table(tmp_path / "u", table_type="MERGE_ON_READ", ordering_fields=[]))


def client_of(path: Path, mode: dict[str, Any] = APPENDING, **more: Any) -> HoodieLocalWriteClient:
    return local_client(path, {**mode, **more}, parallelism=1)


class Slow:
    """A writer that began, and has not committed yet.

    Args:
        path: The table.
        entries: The rows that it upserts.
        more: Properties.
    """

    def __init__(self, path: Path, *entries: tuple[Any, ...], **more: Any) -> None:
        self.client = client_of(path, **{"hoodie.auto.commit": "false", **more})
        self.result: HoodieWriteResult = self.client.upsert(rows(*entries))

    def commit(self) -> None:
        assert self.client.commit(self.result.instant_time, self.result)
        self.client.close()

    def lose(self, match: str) -> HoodieWriteConflictException:
        """Commit in vain, and roll back."""
        with pytest.raises(HoodieWriteConflictException, match=match) as info:
            self.client.commit(self.result.instant_time, self.result)
        assert info.value.is_retry_safe
        self.client.rollback(self.result.instant_time)
        self.client.close()
        return info.value


def upsert(path: Path, *entries: tuple[Any, ...], mode: dict[str, Any] = APPENDING, **more: Any) -> HoodieWriteResult:
    with client_of(path, mode, **more) as client:
        return client.upsert(rows(*entries))


def read(path: Path) -> list[tuple[Any, ...]]:
    found = read_rows(path)
    assert read_by_hudi_rs(path, by_metadata_table=False) == found
    return found


def read_after_compaction(path: Path) -> list[tuple[Any, ...]]:
    """What is read before and after all slices are compacted."""
    before = read(path)
    with client_of(path) as client:
        while client.compact() is not None:
            pass
    assert read(path) == before
    return before


def file_ids(path: Path, region: str = "x") -> list[str]:
    view = HoodieTableMetaClient.load(str(path)).view()
    return [group.file_group_id.file_id for group in view.file_groups(region)]


def files(path: Path) -> set[str]:
    found = [*path.glob("?/.*.log.*"), *path.glob("?/*.parquet")]
    return {file.name for file in found if file.suffix != ".crc"}


# --- both stand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [True, False], ids=["new_bucket", "known_bucket"])
def test_two_writers_of_one_file_group_are_both_committed(path: Path, is_new: bool) -> None:
    if not is_new:
        upsert(path, ("a", "x", 1))
    slow = Slow(path, ("a", "x", 3), ("b", "x", 3))
    upsert(path, ("a", "x", 2), ("c", "x", 2))
    slow.commit()
    assert file_ids(path) == [FIRST] == ["00000000-0000-0000-0000-000000000000-0"]
    assert read_after_compaction(path) == [("a", "x", 3), ("b", "x", 3), ("c", "x", 2)]
    assert file_ids(path) == [FIRST]


def test_the_larger_ordering_value_wins_whoever_commits_last(path: Path) -> None:
    slow = Slow(path, ("a", "x", 1), ("b", "x", 9))
    upsert(path, ("a", "x", 5), ("b", "x", 5))
    slow.commit()
    assert read_after_compaction(path) == [("a", "x", 5), ("b", "x", 9)]


def test_without_ordering_values_the_write_that_began_later_wins(unordered: Path) -> None:
    slow = Slow(unordered, ("a", "x", 1), ("b", "x", 1))
    upsert(unordered, ("a", "x", 2))
    slow.commit()
    assert read_after_compaction(unordered) == [("a", "x", 2), ("b", "x", 1)]


def test_inserts_and_deletes_do_not_block_either(unordered: Path) -> None:
    upsert(unordered, ("a", "x", 1), ("b", "x", 1))
    slow = Slow(unordered, ("a", "x", 2))
    with client_of(unordered) as other:
        other.insert(rows(("c", "x", 3)))
        other.delete([HoodieKey("b", "x")])
    slow.commit()
    assert read_after_compaction(unordered) == [("a", "x", 2), ("c", "x", 3)]


def test_a_write_that_is_completed_after_a_compaction_was_planned_belongs_to_its_slice(path: Path) -> None:
    upsert(path, ("a", "x", 1))
    slow = Slow(path, ("a", "x", 7), ("b", "x", 7))
    upsert(path, ("a", "x", 3))
    with client_of(path) as client:
        planned = client.schedule_compaction()
        slow.commit()
        assert client.compact(planned) is not None
    assert read_after_compaction(path) == [("a", "x", 7), ("b", "x", 7)]


def test_a_completion_time_before_a_plan_is_moved_behind_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upsert(path, ("a", "x", 1))
    planned: list[str] = []

    def others(name: str, where: str) -> None:
        if not planned and name == "create" and where.endswith(".deltacommit") and not is_in_metadata_table(where):
            planned.append("")
            os.unlink(path / ".hoodie/lock")
            upsert(path, ("a", "x", 2), ("c", "x", 2))
            with client_of(path) as other:
                planned[0] = str(other.schedule_compaction())
                other.compact(planned[0])

    with client_of(path) as client, hooked(monkeypatch, others):
        result = client.upsert(rows(("a", "x", 5), ("b", "x", 5)))
    assert result.completion_time is not None and result.completion_time > planned[0] > result.instant_time
    assert read_after_compaction(path) == [("a", "x", 5), ("b", "x", 5), ("c", "x", 2)]


def test_readers_that_go_on_see_a_commit_that_came_late(path: Path) -> None:
    slow = Slow(path, ("a", "x", 1))
    fast = upsert(path, ("b", "x", 2))
    assert fast.completion_time is not None
    slow.commit()
    assert read_rows(path, query_type="incremental", begin=fast.completion_time) == [("a", "x", 1)]


# --- what a compaction took in ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["planned", "completed"])
def test_rows_do_not_pass_later_ones_because_a_compaction_came_in_between(unordered: Path, state: str) -> None:
    upsert(unordered, ("a", "x", 1))
    slow = Slow(unordered, ("a", "x", 2), ("b", "x", 2))
    fast = upsert(unordered, ("a", "x", 3))
    with client_of(unordered) as client:
        planned = client.schedule_compaction()
        if state == "completed":
            client.compact(planned)
    lost = slow.lose("began later than")
    assert lost.other_instants == (fast.instant_time,)
    assert [file_id for _, file_id in lost.file_groups] == [FIRST]
    upsert(unordered, ("a", "x", 2), ("b", "x", 2))
    assert read_after_compaction(unordered) == [("a", "x", 2), ("b", "x", 2)]


def test_another_file_group_or_a_compaction_before_both_is_no_obstacle(unordered: Path) -> None:
    upsert(unordered, ("a", "x", 1), ("a", "y", 1))
    slow = Slow(unordered, ("a", "x", 2))
    upsert(unordered, ("a", "y", 3))
    with client_of(unordered) as client:
        client.compact()
    upsert(unordered, ("a", "x", 4))
    slow.commit()
    assert read_after_compaction(unordered) == [("a", "x", 4), ("a", "y", 3)]


def test_ordering_values_decide_beside_a_compaction_too(path: Path) -> None:
    slow = Slow(path, ("a", "x", 2), ("b", "x", 4))
    upsert(path, ("a", "x", 3), ("b", "x", 3))
    with client_of(path) as client:
        client.compact()
    slow.commit()
    assert read_after_compaction(path) == [("a", "x", 3), ("b", "x", 4)]


@pytest.mark.parametrize("deletes", ["slow", "fast"])
def test_deletes_have_no_ordering_value_behind_a_compaction(path: Path, deletes: str) -> None:
    upsert(path, ("a", "x", 1), ("b", "x", 1))
    with client_of(path, **{"hoodie.auto.commit": "false"}) as slow, client_of(path) as fast:
        given = [HoodieKey("a", "x")]
        result = slow.delete(given) if deletes == "slow" else slow.upsert(rows(("a", "x", 5)))
        other = fast.delete(given) if deletes == "fast" else fast.upsert(rows(("a", "x", 5)))
        fast.compact()
        with pytest.raises(HoodieWriteConflictException, match="began later than") as info:
            slow.commit(result.instant_time, result)
        assert info.value.other_instants == (other.instant_time,)
        slow.rollback(result.instant_time)
    left = [] if deletes == "fast" else [("a", "x", 5)]
    assert read_after_compaction(path) == [*left, ("b", "x", 1)]


def test_a_write_does_not_hide_behind_rows_that_were_there_when_it_began(unordered: Path) -> None:
    with client_of(unordered) as client:
        instant_time = client.start_commit()
        fast = upsert(unordered, ("a", "x", 2))
        with pytest.raises(HoodieWriteConflictException, match="began later than") as info:
            client.upsert(rows(("a", "x", 3)), instant_time)
        assert info.value.other_instants == (fast.instant_time,)
        client.upsert(rows(("a", "x", 3)))
    assert read(unordered) == [("a", "x", 3)]


# --- one file group for a bucket -------------------------------------------------------------------------------------


def test_a_bucket_gets_no_second_file_group_beside_a_writer_with_random_ids(path: Path) -> None:
    slow = Slow(path, ("a", "x", 1))
    upsert(path, ("b", "x", 1), mode=BLOCKING)
    (other,) = file_ids(path)
    assert other != FIRST
    slow.lose("changed as well")
    upsert(path, ("a", "x", 1))
    assert file_ids(path) == [other]
    assert read_after_compaction(path) == [("a", "x", 1), ("b", "x", 1)]


def test_a_writer_with_random_ids_loses_against_one_that_does_not_block(path: Path) -> None:
    slow = Slow(path, ("a", "x", 1), **BLOCKING)
    upsert(path, ("b", "x", 1))
    slow.lose("changed as well")
    upsert(path, ("a", "x", 1), mode=BLOCKING)
    assert file_ids(path) == [FIRST]
    assert read_after_compaction(path) == [("a", "x", 1), ("b", "x", 1)]


def test_a_conflicting_write_is_repeated_if_that_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def others(name: str, where: str) -> None:
        if (
            not done
            and name == "create"
            and where.endswith(".deltacommit.inflight")
            and not is_in_metadata_table(where)
        ):
            done.append(where)
            upsert(path, ("b", "x", 1), mode=BLOCKING)

    with client_of(path, **{"hoodie.write.lock.wait.retry": "true"}) as client, hooked(monkeypatch, others):
        client.upsert(rows(("a", "x", 1)))
    assert len(file_ids(path)) == 1
    assert read(path) == [("a", "x", 1), ("b", "x", 1)]


@pytest.mark.parametrize("operation", ["delete_partitions", "insert_overwrite"])
def test_what_was_replaced_is_not_written_to(path: Path, operation: str) -> None:
    upsert(path, ("a", "x", 1), ("a", "y", 1))
    slow = Slow(path, ("b", "x", 1))
    with client_of(path) as other:
        if operation == "delete_partitions":
            other.delete_partitions(["x"])
        else:
            other.insert_overwrite(rows(("c", "x", 1)))
    assert FIRST not in file_ids(path)
    slow.lose("changed as well")
    late = Slow(path, ("d", "x", 2))
    upsert(path, ("b", "x", 2))
    late.commit()
    kept = [("c", "x", 1)] if operation == "insert_overwrite" else []
    assert read_after_compaction(path) == [("a", "y", 1), ("b", "x", 2), *kept, ("d", "x", 2)]
    if operation == "delete_partitions":
        assert file_ids(path) == [shared_bucket_file_id(0, {FIRST})] == ["00000000-0000-0000-0000-000000000001-0"]


@pytest.mark.parametrize("operation", ["delete_partitions", "insert_overwrite"])
def test_operations_that_replace_file_groups_lose_against_writes_to_them(path: Path, operation: str) -> None:
    upsert(path, ("a", "x", 1))
    with client_of(path, **{"hoodie.auto.commit": "false"}) as slow:
        if operation == "delete_partitions":
            result = slow.delete_partitions(["x"])
        else:
            result = slow.insert_overwrite(rows(("c", "x", 1)))
        upsert(path, ("b", "x", 1))
        with pytest.raises(HoodieWriteConflictException, match="changed as well"):
            slow.commit(result.instant_time, result)
        slow.rollback(result.instant_time)
    assert read_after_compaction(path) == [("a", "x", 1), ("b", "x", 1)]


def test_a_bulk_insert_makes_the_base_file_of_the_same_file_group(path: Path) -> None:
    slow = Slow(path, ("a", "x", 2))
    with client_of(path) as other:
        other.bulk_insert(rows(("a", "x", 1), ("b", "x", 1)))
        assert file_ids(path) == [FIRST]
        slow.lose("changed as well")
        other.upsert(rows(("a", "x", 2)))
    assert read_after_compaction(path) == [("a", "x", 2), ("b", "x", 1)]


# --- what is computed from stored rows -------------------------------------------------------------------------------

PARTIAL = {"hoodie.write.partial.update": "true"}


@pytest.fixture
def trips(tmp_path: Path, table_version: int) -> Path:
    """One row with a fare; the later row wins."""
    path = Path(init_table(tmp_path / "f", table_type="MERGE_ON_READ", ordering_fields=[]))
    upsert(path, ("a", "x", 1, 1.0))
    return path


def part(**values: Any) -> pa.Table:
    """The row with some columns."""
    return pa.table({"id": ["a"], "region": ["x"], **{name: [value] for name, value in values.items()}})


@pytest.mark.parametrize("mode", [APPENDING, BLOCKING], ids=["non_blocking", "optimistic"])
def test_a_partial_update_conflicts_with_every_write_of_its_rows(trips: Path, mode: dict[str, Any]) -> None:
    with client_of(trips, mode, **PARTIAL, **{"hoodie.auto.commit": "false"}) as slow:
        result = slow.upsert(part(ts=2))
        assert result.commit_metadata.extra_metadata[READS_ROWS_KEY] == "true"
        upsert(trips, ("a", "x", 1, 5.0))
        with pytest.raises(HoodieWriteConflictException, match="changed as well"):
            slow.commit(result.instant_time, result)
        slow.rollback(result.instant_time)
        again = slow.upsert(part(ts=2))
        assert slow.commit(again.instant_time, again)
    assert read_trips(trips) == [("a", "x", 2, 5.0)]


@pytest.mark.parametrize("mode", [APPENDING, BLOCKING], ids=["non_blocking", "optimistic"])
def test_a_row_is_not_put_below_a_partial_update_that_did_not_see_it(trips: Path, mode: dict[str, Any]) -> None:
    slow = Slow(trips, ("a", "x", 1, 5.0))
    with client_of(trips, mode, **PARTIAL) as other:
        other.upsert(part(ts=2))
    slow.lose("changed as well")
    assert read_trips(trips) == [("a", "x", 2, 1.0)]


def test_a_row_that_was_written_after_a_partial_update_began_replaces_it(trips: Path) -> None:
    with client_of(trips, **PARTIAL, **{"hoodie.auto.commit": "false"}) as first:
        partial = first.upsert(part(ts=2))
        later = Slow(trips, ("a", "x", 1, 5.0))
        assert first.commit(partial.instant_time, partial)
        later.commit()
    assert read_trips(trips) == [("a", "x", 1, 5.0)]


@pytest.mark.parametrize(
    ("write", "properties"),
    [
        (lambda client: client.delete(where=[("ts", "=", 1)]), {}),
        (lambda client: client.insert(rows(("b", "x", 1, 1.0))), {"hoodie.datasource.insert.dup.policy": "drop"}),
        (lambda client: client.upsert_prepped_records(stored(client)), {}),
    ],
    ids=["delete_where", "insert_new_keys_only", "prepped"],
)
def test_other_writes_that_look_at_stored_rows_conflict_too(
    trips: Path, write: Callable[[HoodieLocalWriteClient], HoodieWriteResult], properties: dict[str, str]
) -> None:
    with client_of(trips, **properties, **{"hoodie.auto.commit": "false"}) as slow:
        result = write(slow)
        assert result.commit_metadata.extra_metadata[READS_ROWS_KEY] == "true"
        upsert(trips, ("a", "x", 5, 5.0))
        with pytest.raises(HoodieWriteConflictException, match="changed as well"):
            slow.commit(result.instant_time, result)
        slow.rollback(result.instant_time)
    assert read_trips(trips) == [("a", "x", 5, 5.0)]


def stored(client: HoodieLocalWriteClient) -> pa.Table:
    return hoodie.read_table(client.config.base_path, columns=["_hoodie_record_key", "_hoodie_partition_path",
                                                               "_hoodie_file_name", *TRIPS.names])  # fmt: skip


def test_plain_writes_say_nothing_of_stored_rows(trips: Path) -> None:
    with client_of(trips) as client:
        results = [client.upsert(rows(("a", "x", 2, 2.0))), client.insert(rows(("b", "x", 2, 2.0)))]
        results.append(client.delete([HoodieKey("b", "x")]))
    assert all(READS_ROWS_KEY not in result.commit_metadata.extra_metadata for result in results)


# --- services --------------------------------------------------------------------------------------------------------


def test_a_rollback_deletes_the_files_of_its_own_instant_only(path: Path) -> None:
    slow = Slow(path, ("a", "x", 9))
    of_slow = files(path)
    upsert(path, ("b", "x", 2))
    of_fast = files(path) - of_slow
    assert len(of_slow) == len(of_fast) == 1
    assert slow.client.rollback(slow.result.instant_time)
    slow.client.close()
    assert files(path) == of_fast
    assert read_after_compaction(path) == [("b", "x", 2)]


def test_a_dead_writer_is_rolled_back_and_the_others_go_on(path: Path) -> None:
    dead = Slow(path, ("a", "x", 9), **{"hoodie.client.heartbeat.interval_in_ms": 1})
    dead.client.close()
    upsert(path, ("b", "x", 2))
    with client_of(path, **{"hoodie.client.heartbeat.interval_in_ms": 1}) as client:
        assert client.rollback_failed_writes() == [dead.result.instant_time]
    assert read_after_compaction(path) == [("b", "x", 2)]


def test_restore_and_clean_of_writes_that_overlapped(path: Path) -> None:
    slow = Slow(path, ("a", "x", 1))
    fast = upsert(path, ("b", "x", 2))
    slow.commit()
    with client_of(path) as client:
        client.savepoint(fast.instant_time)
        upsert(path, ("c", "x", 3))
        client.compact()
        client.restore_to_savepoint(fast.instant_time)
    assert read(path) == [("a", "x", 1), ("b", "x", 2)]
    with client_of(path) as client:
        client.delete_savepoint(fast.instant_time)
        for number in range(3):
            client.upsert(rows(("c", "x", number)))
            client.compact()
        client.clean()
        assert HoodieTableMetaClient.load(str(path)).active_timeline.filter_actions(Action.CLEAN).instants
    assert read(path) == [("a", "x", 1), ("b", "x", 2), ("c", "x", 2)]


def test_the_plan_of_an_upsert_counts_a_file_group_that_begins_with_a_log_file_once(path: Path) -> None:
    with client_of(path) as client:
        plan = client.explain_upsert(rows(("a", "x", 1)))
        assert (len(plan.new), len(plan.appended), len(plan.rewritten)) == (1, 0, 0)
        result = client.upsert(rows(("a", "x", 1)))
        assert (result.inserted_count, result.updated_count) == (1, 0)
        plan = client.explain_upsert(rows(("a", "x", 1)))
        assert (len(plan.new), len(plan.appended), len(plan.rewritten)) == (0, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [True, False], ids=["process_dies", "one_call_fails"])
def test_a_write_that_fails_at_any_call_stands_whole_or_not_at_all_beside_another_one(
    path: Path, tmp_path: Path, faulty_storage: None, dies: bool
) -> None:
    mode = {**APPENDING, "hoodie.write.lock.provider": "InProcessLockProvider"}
    upsert(path, ("c", "y", 1), mode=mode)

    def run(base_path: Path) -> HoodieWriteResult:
        # A bucket with a file group, and one without.
        return upsert(base_path, ("a", "x", 5), ("c", "y", 5), mode=mode)

    first = tmp_path / "healthy"
    shutil.copytree(path, first)
    healthy = Faults()
    assert run_with_faults(healthy, lambda: run(first)) is None
    outcomes = set()
    for number, how in faults_of(healthy.calls, dies):
        base_path = tmp_path / f"{number}_{how}"
        shutil.copytree(path, base_path)
        faults = Faults(number, how, dies)
        error = run_with_faults(faults, lambda folder=base_path: run(folder))
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        # What is left is still pending, and stands in nobody's way.
        upsert(base_path, ("a", "x", 2), ("b", "x", 2), ("c", "y", 2), mode=mode)
        with client_of(base_path, mode, **{"hoodie.client.heartbeat.interval_in_ms": 1}) as client:
            client.rollback_failed_writes()
        ts = 5 if read_rows(base_path)[0] == ("a", "x", 5) else 2
        assert ts == 5 or error is not None, what
        outcomes.add((ts, error is None))
        assert read(base_path) == [("a", "x", ts), ("b", "x", 2), ("c", "y", ts)], what
        assert file_ids(base_path) == file_ids(base_path, "y") == [FIRST], what
        assert not list(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending()), what
        committed = {str(stat.path) for file in timeline_folder(base_path).glob("*_*.deltacommit")
                     for stat in read_commit(base_path, file.name[:17]).write_stats}  # fmt: skip
        assert files(base_path) == {name.rpartition("/")[2] for name in committed}, what
        shutil.rmtree(base_path)
    assert {(2, False), (5, True)} <= outcomes


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"hoodie.index.type": "SIMPLE"}, r"hoodie.index.type is SIMPLE: give hoodie.index.type = BUCKET"),
        ({"hoodie.index.class": "my.package.Index"}, "hoodie.index.class is Index"),
        ({"hoodie.write.concurrency.early.conflict.detection.enable": "true"}, "leave one of them out"),
        (
            {"hoodie.write.lock.conflict.resolution.strategy": "PreferWriterConflictResolutionStrategy"},
            "PreferWriterConflictResolutionStrategy: .* compared by buckets.*leave it out",
        ),
    ],
    ids=["index", "class", "early_detection", "strategy"],
)
def test_a_configuration_that_cannot_work_is_refused(
    tmp_path: Path, table_version: int, properties: dict[str, str], match: str
) -> None:
    with pytest.raises(HoodieConfigException, match=match):
        HoodieWriteConfig.from_properties(str(tmp_path / "t"), {**APPENDING, **properties})


def test_the_strategy_that_is_used_may_be_named(path: Path) -> None:
    name = "org.apache.hudi.client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy"
    upsert(path, ("a", "x", 1), **{"hoodie.write.lock.conflict.resolution.strategy": name})
    assert read(path) == [("a", "x", 1)]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"table_type": "COPY_ON_WRITE"}, "type COPY_ON_WRITE, .* give OPTIMISTIC_CONCURRENCY_CONTROL"),
        ({"table_type": "MERGE_ON_READ", "table_version": 6}, "version 6, .* upgrade the table to version 8 or 9"),
    ],
    ids=["type", "version"],
)
def test_tables_without_log_files_of_their_own_commits_are_refused(
    tmp_path: Path, table_version: int, arguments: dict[str, Any], match: str
) -> None:
    path = Path(init_table(tmp_path / "t", **arguments))
    with client_of(path) as client, pytest.raises(HoodieConfigException, match=match):
        client.upsert(rows(("a", "x", 1)))
    assert not list(timeline_folder(path).glob("*commit*"))


@pytest.mark.parametrize(
    ("properties", "match"),
    [({}, "type COPY_ON_WRITE"), ({"hoodie.datasource.write.table.type": "MERGE_ON_READ"}, "version 6")],
)
def test_no_table_is_created_that_could_not_be_written(
    tmp_path: Path, table_version: int, properties: dict[str, str], match: str
) -> None:
    given = {**APPENDING, **properties}
    if properties:
        given["hoodie.write.table.version"] = "6"
    with pytest.raises(HoodieConfigException, match=f"no table was created at .*{match}"):
        hoodie.write_table(rows(("a", "x", 1)), str(tmp_path / "t"), record_key_fields=["id"], properties=given)
    assert not (tmp_path / "t").exists()


def test_an_upgrade_that_is_asked_for_comes_first(tmp_path: Path, table_version: int) -> None:
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", table_version=6))
    wanted = {"hoodie.write.auto.upgrade": "true", "hoodie.write.table.version": str(table_version)}
    upsert(path, ("a", "x", 1), **wanted)
    assert file_ids(path) == [FIRST]
    assert read(path) == [("a", "x", 1)]
