"""The services of the metadata tables that hoodie keeps: compaction, cleaning, archiving."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.client.metadata_table_cleaning import is_clean_due, metadata_clean_config
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.compaction_plans import delta_commits_to_compact
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.clean_config import HoodieCleanConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieLockException, HoodieMetadataException
from hoodie.metadata import validate
from hoodie.transaction.transaction_manager import Transaction
from tests.support.hookable_storage import (
    Faults,
    FaultyStorage,
    faults_of,
    hooked,
    run_with_faults,
    use_for_local_files,
)
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.metadata_table_records import opened, records_of
from tests.support.table_builder import local_client, read_trips, rows

METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
SERVICES = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}

OFF_SHORT = {"clean_automatic": "false", "archive_automatic": "false"}
SERVICES_SHORT = {"cleaner_commits_retained": "2", "keep_min_commits": "4", "keep_max_commits": "5"}

pytestmark = pytest.mark.parametrize("table_version", [6, 9], indirect=True)


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> Path:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="trips", record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]
    )
    return path


def write(table: Path, first: int, count: int, **options: str) -> None:
    given = METADATA | {f"hoodie.{key.replace('_', '.')}": value for key, value in options.items()}
    with local_client(table, given, parallelism=1) as client:
        for number in range(first, first + count):
            client.upsert(rows(("a", "x", number, float(number)), (f"k{number % 7}", "y", number, 1.0)))


def instants(table: Path, *actions: Action) -> list[str]:
    timeline = opened(table).files.snapshot.active_timeline
    return [one.requested_time for one in timeline.filter_actions(*actions).filter_completed_instants()]


def base_files(table: Path) -> Counter[str]:
    found = (parse_base_file_name(path.name) for path in (table / ".hoodie/metadata").rglob("*.hfile"))
    return Counter(name.file_id for name in found if name is not None)


@pytest.mark.slow
def test_its_files_and_instants_stay_few(table: Path) -> None:
    for first in range(0, 28, 7):
        write(table, first, 7, **SERVICES_SHORT)
        result = validate(str(table))
        assert result.is_right, result
    metadata = opened(table)
    timeline = metadata.files.snapshot.active_timeline
    # Three delta commits to a compaction, three commits that are retained.
    assert max(base_files(table).values()) <= 4
    assert len(list((table / ".hoodie/metadata/files").glob(".files*.log.*"))) <= 14
    assert 5 <= len(timeline.completed_writes()) <= 14
    assert len(metadata.files.snapshot.archived_timeline.completed_writes()) > 10
    assert instants(table, Action.CLEAN)
    data = metadata.table.active_timeline
    assert len(data.completed_writes()) <= 10
    last = timeline.filter_actions(Action.COMMIT).last_instant
    assert last is not None
    archived = metadata.table.archived_timeline.completed_writes()
    assert all(one.newest_time < last.requested_time for one in archived)
    assert len(archived) > 10
    assert len(read_trips(table)) == 8


@pytest.mark.one_in(4)
def test_times_of_compactions_and_cleans(table: Path, table_version: int) -> None:
    write(table, 0, 14, cleaner_commits_retained="1", archive_automatic="false")
    delta_commits = instants(table, Action.DELTA_COMMIT)
    compactions, cleans = instants(table, Action.COMMIT), instants(table, Action.CLEAN)
    own = set(TableSnapshot.load(str(table)).active_timeline.filter_actions(Action.CLEAN).times)
    assert len(compactions) >= 3
    assert cleans
    if table_version == 6:
        assert all(time.endswith("001") and time[:-3] in delta_commits for time in compactions)
        assert all(time.endswith("002") and time[:-3] in delta_commits for time in cleans)
    else:
        assert all(len(time) == 17 for time in compactions + cleans)
        assert not {*compactions, *cleans} & {*delta_commits, *own}


@pytest.mark.parametrize("limit", [1, 2, 4, 5])
@pytest.mark.one_in(4)
def test_metadata_tables_with_small_limits_are_cleaned_and_archived(table: Path, limit: int) -> None:
    """Each write is a commit and a clean, so with even limits a compaction is always the last of both."""
    services = {**SERVICES_SHORT, "cleaner_commits_retained": "1", "metadata_compact_max_delta_commits": str(limit)}
    readers: list[tuple[int, set[str]]] = []
    gone = 0
    for number in range(16):
        write(table, number, 1, **services)
        files = opened(table).files
        there = {path.name for path in (table / ".hoodie/metadata").rglob("*.hfile")}
        partitions = files.table.table_config.metadata_partitions
        slices = [one for path in partitions for group in files.file_groups(path).values() for one in group]
        read = {one.base_file.file_name for one in slices if one.base_file is not None}
        # Slices that were replaced stay until three delta commits, which are more than one write, have followed.
        for known, names in readers:
            gone += bool(names - there) and number - known > 1
            assert names <= there or number - known > 1
        readers = [(known, names) for known, names in readers if names <= there] + [(number, read)]
    assert gone
    assert instants(table, Action.CLEAN)
    assert max(base_files(table).values()) <= 6
    assert len(opened(table).files.snapshot.archived_timeline.completed_writes()) > 8
    assert len(TableSnapshot.load(str(table)).active_timeline.completed_writes()) <= 7
    assert validate(str(table)).is_right
    assert len(read_trips(table)) == 8


@pytest.mark.one_in(4)
def test_a_compaction_follows_the_action_that_makes_it_due(table: Path, table_version: int) -> None:
    for number in range(9):
        write(table, number, 1, **SERVICES_SHORT)
        assert len(delta_commits_to_compact(opened(table).files.snapshot.active_timeline)) < 3
    metadata = opened(table)
    compactions = instants(table, Action.COMMIT)
    assert len(compactions) >= 3
    if table_version == 6:
        return
    done = metadata.table.active_timeline.filter_completed_instants()
    straddling = [(one, time) for one in done for time in compactions if one.requested_time < time < one.newest_time]
    assert not straddling


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("an engine's error")])
@pytest.mark.one_in(4)
def test_a_compaction_that_fails_does_not_fail_the_commit_before_it(
    table: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write(table, 0, 1, **OFF_SHORT, metadata_compact_max_delta_commits="100")

    def fail(name: str, path: str) -> None:
        if "/metadata/" in path and ".hfile" in path:
            raise error

    with local_client(table, METADATA | OFF, parallelism=1) as client:
        with hooked(monkeypatch, fail):
            result = client.upsert(rows(("f", "x", 9, 9.0)))
        assert result.is_committed
        assert len(result.service_errors) == 1
        assert str(error.args[-1]) in result.service_errors[0]
        assert result.instant_time in result.service_errors[0]
        timeline = opened(table).files.snapshot.active_timeline
        assert len(timeline.filter_actions(Action.COMPACTION).filter_pending()) == 1
        assert validate(str(table)).is_right
        # The disk is still full: nothing may be written before the compaction is finished.
        with hooked(monkeypatch, fail), pytest.raises(Exception, match=str(error.args[-1])):
            client.upsert(rows(("g", "x", 9, 9.0)))
        result = client.upsert(rows(("h", "x", 9, 9.0)))
        assert result.is_committed
        assert result.service_errors == ()
    assert len(instants(table, Action.COMMIT)) == 1
    assert validate(str(table)).is_right
    assert {row[0] for row in read_trips(table)} == {"a", "k0", "f", "h"}


@pytest.mark.parametrize("share", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.one_in(4)
def test_a_commit_that_died_anywhere_in_its_compaction_stands(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    use_for_local_files(monkeypatch, FaultyStorage)
    write(table, 0, 1, **OFF_SHORT, metadata_compact_max_delta_commits="100")
    before = len(TableSnapshot.load(str(table)).active_timeline.completed_writes())

    def commit(path: Path) -> None:
        with local_client(path, METADATA | OFF, parallelism=1) as client:
            client.upsert(rows(("new", "x", 9, 9.0)))

    counted = Faults()
    run_with_faults(counted, lambda: commit(Path(shutil.copytree(table, tmp_path / "counted"))))
    assert len(instants(tmp_path / "counted", Action.COMMIT)) == 1
    left: Counter[str] = Counter()
    for number, how in list(faults_of(counted.calls, dies=True))[::share]:
        path = Path(shutil.copytree(table, tmp_path / f"{number}{how}"))
        faulty = Faults(number, how)
        run_with_faults(faulty, lambda path=path: commit(path))  # type: ignore[misc]
        assert faulty.fired
        is_committed = len(TableSnapshot.load(str(path)).active_timeline.completed_writes()) > before
        assert validate(str(path)).is_right
        assert ("new" in {row[0] for row in read_trips(path)}) == is_committed
        is_compacted = bool(instants(path, Action.COMMIT))
        pending = opened(path).files.snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending()
        assert is_committed or not (is_compacted or len(pending)), counted.calls[number - 1]
        left["compacted" if is_compacted else "pending" if len(pending) else "due"] += is_committed
        write(path, 1, 1, **OFF_SHORT)
        assert len(instants(path, Action.COMMIT)) == 1, counted.calls[number - 1]
        assert validate(str(path)).is_right, counted.calls[number - 1]
        assert {row[0] for row in read_trips(path)} == {"a", "k0", "k1"} | ({"new"} if is_committed else set())
        shutil.rmtree(path)
    assert left["pending"]
    assert left["due"] or share > 1


@pytest.mark.one_in(4)
def test_a_lock_that_is_lost_in_the_compaction_does_not_deny_the_commit(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(table, 0, 1, **OFF_SHORT, metadata_compact_max_delta_commits="100")
    before = len(TableSnapshot.load(str(table)).active_timeline.completed_writes())

    def check_held(transaction: Transaction) -> None:
        if len(TableSnapshot.load(str(table)).active_timeline.completed_writes()) > before:
            raise HoodieLockException("the lock was lost. Nothing was committed; write again", was_lost=True)

    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    with local_client(table, METADATA | OFF | several, parallelism=1) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "check_held", check_held)
            result = client.upsert(rows(("f", "x", 9, 9.0)))
        assert result.is_committed
        assert "the lock was lost" in result.service_errors[0]
        assert "write again" not in result.service_errors[0]
        assert not instants(table, Action.COMMIT)
        client.upsert(rows(("g", "x", 9, 9.0)))
    assert len(instants(table, Action.COMMIT)) == 1
    assert validate(str(table)).is_right


def test_a_commit_that_was_compacted_can_be_rolled_back(table: Path) -> None:
    write(table, 0, 2, **OFF_SHORT)
    with local_client(table, METADATA | OFF | {"hoodie.metadata.compact.max.delta.commits": "1"}) as client:
        undone = client.upsert(rows(("new", "x", 9, 9.0)))
        assert instants(table, Action.COMMIT)
        assert client.rollback(undone.instant_time)
        # The next write builds the metadata table anew.
        assert not TableSnapshot.load(str(table)).table_config.metadata_partitions
        client.upsert(rows(("b", "x", 1, 1.0)))
    assert validate(str(table)).is_right
    assert {row[0] for row in read_trips(table)} == {"a", "k0", "k1", "b"}


@pytest.mark.one_in(4)
def test_the_table_is_not_archived_before_its_metadata_table_is_compacted(table: Path) -> None:
    write(table, 0, 12, **{**SERVICES_SHORT, "metadata_compact_max_delta_commits": "100"})
    snapshot = TableSnapshot.load(str(table))
    assert not instants(table, Action.COMMIT)
    assert len(snapshot.active_timeline.completed_writes()) == 12
    assert len(snapshot.active_timeline.filter_actions(Action.CLEAN)) > 5
    write(table, 12, 1, **SERVICES_SHORT)
    assert instants(table, Action.COMMIT)
    write(table, 13, 1, **SERVICES_SHORT)
    assert len(TableSnapshot.load(str(table)).active_timeline.completed_writes()) < 8
    assert validate(str(table)).is_right


@pytest.mark.one_in(4)
def test_readers_without_archives_find_what_no_compaction_has_taken(table: Path, table_version: int) -> None:
    """A commit straddles a compaction: its delta commit is older than that, and completed after it."""
    keep = {**SERVICES_SHORT, "cleaner_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3"}
    once = {"metadata_index_column_stats_enable": "false", "metadata_compact_max_delta_commits": "8"}
    several = {
        "write_concurrency_mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "write_lock_provider": "InProcessLockProvider",
        "cleaner_policy_failed_writes": "LAZY",
    }
    waiting = local_client(table, METADATA | {"hoodie.auto.commit": "false"}, **once, **OFF_SHORT, **several)
    older = 0
    for number in range(16):
        write(table, number, 1, **keep, **once, **several)
        if number == 1:
            pending = waiting.start_commit()
            result = waiting.upsert(rows(("w", "z", 1, 1.0)), pending)
        if number == 9:
            assert table_version == 6 or len(instants(table, Action.COMMIT)) == 1
            waiting.commit(pending, result)
            waiting.close()
        files = opened(table).files
        timeline = files.snapshot.active_timeline
        slices = [one for group in files.file_groups("files").values() for one in group]
        named = {log_file.instant_time for one in slices for log_file in one.log_files}
        if table_version != 6:
            assert named <= timeline.filter_completed_instants().times
            older += any(one.base_instant_time > time for one in slices for time in named)
        assert len(read_by_hudi_rs(table)) == len(read_trips(table))
    assert older or table_version == 6


@pytest.mark.slow
def test_a_partition_that_is_built_again_stays_readable_when_instants_are_archived(table: Path) -> None:
    """The instant that builds it has the earliest time of all in versions 8 and 9."""
    keep = {**SERVICES_SHORT, "cleaner_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3"}
    write(table, 0, 12, **keep, metadata_index_partition_stats_enable="true")
    assert instants(table, Action.COMMIT)
    later = {**keep, "metadata_compact_max_delta_commits": "100"}
    with local_client(table, METADATA | OFF | {"hoodie.metadata.index.column.stats.enable": "false"}) as client:
        client.upsert(rows(("a", "x", 50, 1.0)))
    for number in range(60, 66):
        write(table, number, 1, **later)
        with local_client(table, METADATA | {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}) as client:
            client.archive()
        assert validate(str(table)).is_right, validate(str(table))
    assert len(read_trips(table)) == 8


@pytest.mark.one_in(4)
def test_a_writer_stops_where_a_pending_instant_holds_compactions_back(table: Path, table_version: int) -> None:
    """In version 6 alone: in 8 and 9 an instant holds them back only if its writer died while it completed it."""
    write(table, 0, 2, **OFF_SHORT)
    before = instants(table, Action.COMMIT)
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.metadata.max.deltacommits.when_pending": "6"}
    given = METADATA | OFF | lazy
    with local_client(table, given | {"hoodie.auto.commit": "false"}, parallelism=1) as waiting:
        pending = waiting.start_commit()
        waiting.upsert(rows(("w", "z", 1, 1.0)), pending)
        with local_client(table, given, parallelism=1) as client:
            if table_version == 6:
                with pytest.raises(HoodieMetadataException, match=rf"commit {pending} is pending"):
                    for number in range(10):
                        client.upsert(rows(("a", "x", 10 + number, 1.0)))
                assert instants(table, Action.COMMIT) == before
            else:
                for number in range(10):
                    client.upsert(rows(("a", "x", 10 + number, 1.0)))
                assert len(instants(table, Action.COMMIT)) >= len(before) + 2
    with local_client(table, given, parallelism=1) as client:
        # Nothing stands in the way of what is to be done about it.
        assert client.rollback(pending)
        client.upsert(rows(("b", "x", 1, 1.0)))
    assert len(instants(table, Action.COMMIT)) > len(before)
    assert validate(str(table)).is_right


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_clean_that_died_anywhere_is_finished_by_the_next(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    use_for_local_files(monkeypatch, FaultyStorage)
    policy = metadata_clean_config(
        HoodieCleanConfig(commits_retained=1), HoodieMetadataConfig(compact_max_delta_commits=3)
    )
    number = 9
    write(table, 0, number, **OFF_SHORT)
    while not is_clean_due(opened(table).files.snapshot, policy):
        write(table, number, 1, **OFF_SHORT)
        number += 1
    before = records_of(opened(table))

    def clean(path: Path) -> None:
        with local_client(path, METADATA | OFF | {"hoodie.cleaner.commits.retained": "1"}, parallelism=1) as client:
            client._services._metadata_table.clean(TableSnapshot.load(str(path)))

    counted = Faults()
    run_with_faults(counted, lambda: clean(Path(shutil.copytree(table, tmp_path / "counted"))))
    assert sum(base_files(tmp_path / "counted").values()) < sum(base_files(table).values())
    left = 0
    calls = [number for number, way in faults_of(counted.calls) if way == how and counted.calls[number - 1][1]]
    for number in calls:
        path = Path(shutil.copytree(table, tmp_path / str(number)))
        faulty = Faults(number, how)
        run_with_faults(faulty, lambda path=path: clean(path))  # type: ignore[misc]
        assert faulty.fired
        assert records_of(opened(path)) == before, counted.calls[number - 1]
        timeline = opened(path).files.snapshot.active_timeline
        left += len(timeline.filter_actions(Action.CLEAN).filter_pending())
        clean(path)
        timeline = opened(path).files.snapshot.active_timeline
        assert len(timeline.filter_actions(Action.CLEAN).filter_completed_instants()) == 1
        assert not len(timeline.filter_actions(Action.CLEAN).filter_pending())
        assert base_files(path) == base_files(tmp_path / "counted")
        assert records_of(opened(path)) == before, counted.calls[number - 1]
        assert validate(str(path)).is_right
        shutil.rmtree(path)
    assert left >= 2


@pytest.mark.one_in(4)
def test_file_groups_without_records_stay_when_their_beginning_is_archived(table: Path, table_version: int) -> None:
    """They consist of the log file that a build began them with, and another build comes later."""
    keep = {**SERVICES_SHORT, "cleaner_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3"}
    index = {"hoodie.metadata.global.record.level.index.enable": "true"}
    groups = {"hoodie.metadata.global.record.level.index.min.filegroup.count": "40"}
    with local_client(table, METADATA | OFF | index | groups) as client:
        client.upsert(rows(("a", "x", 0, 0.0)))
    write(table, 1, 11, **keep)
    before = opened(table).files
    archived = before.snapshot.archived_timeline.times
    slices = [one for group in before.file_groups("record_index").values() for one in group]
    assert len(slices) == 40
    assert any(one.base_file is None for one in slices)
    # An option of the client that wrote the last rows drops and builds.
    for enabled in ("false", "true"):
        with local_client(table, METADATA | OFF | {"hoodie.metadata.index.column.stats.enable": enabled}) as client:
            client.upsert(rows(("a", "x", 100, 1.0)))
    after = opened(table).files
    assert len([one for group in after.file_groups("record_index").values() for one in group]) == 40
    built = after.snapshot.active_timeline.filter_actions(Action.DELTA_COMMIT).instants[0].requested_time
    if table_version == 9:
        assert {"00000000000000000", "00000000000000001"} <= archived
        assert built not in archived and built > max(time for time in archived if time < "00000000000001")
    result = validate(str(table))
    assert result.is_right, result
