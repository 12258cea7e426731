"""Partitions that expire: which ones, what is told of them, and what is never deleted."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.client.partition_ttl import PartitionTTL
from hoodie.common.table.clustering_plans import requested_replacement
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import newest
from hoodie.exception import HoodieConfigException, HoodieDeleteException, HoodieWriteConflictException
from hoodie.table.action.ttl.partition_times import ArchivedWrites, PartitionTimes
from hoodie.table.action.ttl.partition_ttl_strategy import PartitionTTLStrategy
from tests.support.moved_clock import days_ago, now_is
from tests.support.pending_clustering import schedule_clustering
from tests.support.table_builder import init_table, instants, local_client, read_rows, rows
from tests.support.timeline_files import archive_folder, archived_entries
from tests.support.zones import in_zone

RETAIN = "hoodie.partition.ttl.strategy.days.retain"
INLINE = "hoodie.partition.ttl.inline"
TYPE = "hoodie.partition.ttl.management.strategy.type"
CLASS = "hoodie.partition.ttl.strategy.class"
SELECTED = "hoodie.partition.ttl.strategy.partition.selected"
MOST = "hoodie.partition.ttl.strategy.max.delete.partitions"
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
ARCHIVED_SOON = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.commits.archival.batch": 1,
}
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
VERSIONS = (6, 8, 9)
both_types = pytest.mark.parametrize("table_type", TYPES)
all_versions = pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
two_layouts = pytest.mark.parametrize("table_version", (6, 9), indirect=True)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., str]:
    """Makes an empty table."""
    return lambda **arguments: init_table(tmp_path / "t", **arguments)


def write(path: str, days: float, *entries: tuple[Any, ...], **properties: Any) -> str:
    """One commit, so many days ago."""
    with days_ago(days), local_client(path, properties) as client:
        result = client.upsert(rows(*entries))
    assert result.service_errors == ()
    return result.instant_time


def expire(path: str, retain: int = 30, *, dry_run: bool = False, **properties: Any) -> Any:
    with local_client(path, {RETAIN: retain, **properties}) as client:
        return client.expire_partitions(dry_run)


def paths_of(path: str, retain: int = 30, **properties: Any) -> list[str]:
    """The partitions that are too old."""
    return list(expire(path, retain, dry_run=True, **properties).partition_paths)


def newest_time_of(timeline: Iterable[HoodieInstant], requested_time: str) -> str:
    """The completion time of a write, where the timeline has it, otherwise its requested time."""
    return newest(one.newest_time for one in timeline if one.requested_time == requested_time) or ""


# --- what expires -----------------------------------------------------------------------------------------------------


@both_types
@all_versions
def test_partitions_that_nobody_wrote_to_for_long_are_deleted(made: Callable[..., str], table_type: str) -> None:
    path = made(table_type=table_type)
    old = write(path, 40, ("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    write(path, 3, ("c", "y", 2))
    write(path, 0, ("d", "z", 1))
    before = instants(path)
    planned = expire(path, dry_run=True)
    assert instants(path) == before
    done = expire(path)
    assert planned == attrs.evolve(done, instant_time=None, is_dry_run=True)
    (gone,) = done.partitions
    timeline = HoodieTableMetaClient.load(path).active_timeline
    written = timeline.find(old)
    assert written is not None
    assert (gone.partition_path, gone.rows, gone.file_groups, gone.aged_since) == ("x", 2, 1, written.newest_time)
    assert gone.size_bytes > 0
    assert instants(path) == [*before, (done.instant_time, "replacecommit", "COMPLETED")]
    assert read_rows(path) == [("c", "y", 2), ("d", "z", 1)]
    assert timeline.read_commit_metadata(timeline.instants[-1]).operation_type == "DELETE_PARTITION"
    assert str(planned).startswith("expire: would delete 1 partition (2 rows, ")
    assert str(done).startswith(f"expire {done.instant_time}: deleted 1 partition (2 rows, ")
    # A partition that is written again is a new one.
    write(path, 0, ("a", "x", 7))
    assert read_rows(path) == [("a", "x", 7), ("c", "y", 2), ("d", "z", 1)]


@pytest.mark.parametrize(("days", "younger", "older"), [(25, 24.9, 25.1), (50, 49.9, 50.1), (100, 99.9, 100.1)])
def test_days_do_not_overflow(made: Callable[..., str], days: int, younger: float, older: float) -> None:
    """Of Hudi 1.2.0, 25 days keep everything, 50 are seven hours and 100 are fourteen."""
    path = made()
    write(path, older, ("a", "w", 1))
    write(path, younger, ("b", "x", 1))
    write(path, 12, ("c", "y", 1))
    write(path, 0, ("d", "z", 1))
    assert paths_of(path, days) == ["w"]


@two_layouts
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_log_files_renew_a_partition(made: Callable[..., str], index: str) -> None:
    """Hudi 1.2.0 counts from the base file, and deletes what was updated a second ago."""
    path = made(table_type="MERGE_ON_READ")
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 1}
    write(path, 12, ("a", "x", 1), ("b", "y", 1), **options)
    write(path, 1, ("a", "x", 2), **options)
    write(path, 0, ("c", "z", 1), **options)
    assert paths_of(path, 10, **options) == ["y"]
    assert paths_of(path, 13, **options) == []


@both_types
@two_layouts
def test_nothing_is_left_where_nothing_is_too_old(made: Callable[..., str], table_type: str) -> None:
    """Hudi 1.2.0 leaves a requested instant after each inline run."""
    path = made(table_type=table_type)
    write(path, 12, ("a", "x", 1))
    last = write(path, 0, ("b", "y", 1), **{RETAIN: 30, INLINE: True})
    before = instants(path)
    assert [time for time, _, _ in before][-1] == last
    assert expire(path).instant_time is None
    assert instants(path) == before


@two_layouts
def test_a_compaction_does_not_renew_a_partition(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 20, ("a", "x", 1), ("b", "y", 1))
    written = write(path, 12, ("a", "x", 2))
    with days_ago(5), local_client(path) as client:
        assert client.compact() is not None
    write(path, 0, ("c", "z", 1))
    assert paths_of(path, 15) == ["y"]
    old = {one.partition_path: one.aged_since for one in expire(path, 10, dry_run=True).partitions}
    assert set(old) == {"x", "y"}
    assert old["x"] == newest_time_of(HoodieTableMetaClient.load(path).active_timeline.instants, written)


@two_layouts
def test_the_archive_tells_what_a_compaction_rewrote(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 20, ("a", "x", 1), ("b", "y", 1))
    written = write(path, 12, ("a", "x", 2))
    with days_ago(8), local_client(path) as client:
        compacted = client.compact()
        assert compacted is not None
    for day in range(7, -1, -1):
        write(path, day, ("c", "z", 8 - day), **ARCHIVED_SOON)
    archived = {entry.requested_time for entry in archived_entries(path)}
    assert {written, compacted.instant_time} <= archived
    assert paths_of(path, 15) == ["y"]
    old = {one.partition_path: one.aged_since for one in expire(path, 10, dry_run=True).partitions}
    assert old["x"] == newest_time_of(archived_entries(path), written)
    # Without the archive, nobody can tell that the base file of eight days ago holds older rows.
    shutil.rmtree(archive_folder(path))
    archive_folder(path).mkdir()
    assert paths_of(path, 10) == ["y"]
    assert sorted(paths_of(path, 7)) == ["x", "y"]


@two_layouts
def test_log_files_of_archived_commits_have_their_time(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 20, ("a", "x", 1), ("b", "y", 1))
    written = write(path, 12, ("a", "x", 2))
    for day in range(7, -1, -1):
        write(path, day, ("c", "z", 8 - day), **ARCHIVED_SOON)
    assert written in {entry.requested_time for entry in archived_entries(path)}
    assert paths_of(path, 15) == ["y"]
    assert sorted(paths_of(path, 10)) == ["x", "y"]


@pytest.mark.table_version(6)
def test_log_files_without_a_known_time_are_as_old_as_the_timeline(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 20, ("a", "x", 1), ("b", "y", 1))
    write(path, 12, ("a", "x", 2))
    for day in range(7, -1, -1):
        write(path, day, ("c", "z", 8 - day), **ARCHIVED_SOON)
    shutil.rmtree(archive_folder(path))
    # The oldest instant of the timeline is some days old: the log file is at least as old as that.
    assert paths_of(path, 5) == ["y"]


def test_a_run_that_reads_the_archive_again_reads_what_changed(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 20, ("a", "x", 1), ("b", "y", 1))
    for day in range(9, -1, -1):
        write(path, day, ("c", "z", 10 - day), **ARCHIVED_SOON)
    with local_client(path, {RETAIN: 10, **ARCHIVED_SOON}) as client:
        first = client.expire_partitions(dry_run=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ArchivedWrites, "last_writes", lambda *arguments: pytest.fail("read again"))
            assert client.expire_partitions(dry_run=True) == first
        renewed = client.upsert(rows(("a", "x", 2))).instant_time
        for ts in range(15):
            client.upsert(rows(("c", "z", 20 + ts)))
        assert renewed in {entry.requested_time for entry in archived_entries(path)}
        assert client.expire_partitions(dry_run=True).partition_paths == ["y"]
    assert first.partition_paths == ["x", "y"]


class History:
    """A random history of a table, and what it means for the ages of its partitions."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.now = datetime.now(UTC) - timedelta(days=400)
        self.newest = self.now
        """The time of the newest completed instant."""
        self.last: dict[str, datetime] = {}
        """Partition -> the time of the last write."""
        self.keys: dict[str, set[str]] = {}
        self.ts = 0
        self.archived = 0
        self.refused = 0
        self.expired = 0

    def step(self) -> None:
        self.now += timedelta(days=self.random.uniform(0.2, 4))
        with now_is(self.now), local_client(self.path, ARCHIVED_SOON) as client:
            kinds = [self.upsert, self.upsert, self.upsert, self.delete, self.compact, self.drop]
            self.random.choice(kinds)(client)
        self.archived = max(self.archived, len(archived_entries(self.path)))

    def written(self, *paths: str) -> None:
        self.newest = self.now
        self.last |= dict.fromkeys(paths, self.now)

    def upsert(self, client: HoodieLocalWriteClient) -> None:
        self.ts += 1
        # Few partitions are written to often, others seldom.
        paths = {"abcdefg"[min(int(self.random.expovariate(0.7)), 6)] for _ in range(2)}
        entries = [(f"{path}{self.random.randrange(3)}", path, self.ts) for path in sorted(paths)]
        assert client.upsert(rows(*entries)).service_errors == ()
        for key, path, _ in entries:
            self.keys.setdefault(path, set()).add(key)
        self.written(*paths)

    def delete(self, client: HoodieLocalWriteClient) -> None:
        path = self.random.choice(sorted(self.keys) or [""])
        if self.keys.get(path):
            client.delete([HoodieKey(self.keys[path].pop(), path)])
            self.written(path)

    def compact(self, client: HoodieLocalWriteClient) -> None:
        if client.compact() is not None:
            self.newest = self.now

    def drop(self, client: HoodieLocalWriteClient) -> None:
        if len(self.last) > 2:
            path = self.random.choice(sorted(self.last))
            client.delete_partitions([path])
            self.gone([path])

    def gone(self, paths: Iterable[str]) -> None:
        for path in paths:
            del self.last[path], self.keys[path]
        self.newest = self.now

    def check(self, retain: int) -> None:
        """What is told, and what is deleted, is what the history says."""
        old = {path for path, moment in self.last.items() if self.newest - moment > timedelta(days=retain)}
        is_refused = bool(old) and (len(old) == len(self.last) or max(self.last, key=self.last.__getitem__) in old)
        with now_is(self.now):
            planned = expire(self.path, retain, dry_run=True)
        assert {*planned.partition_paths} == old
        assert (planned.refusal is not None) is is_refused
        order = [self.last[path] for path in planned.partition_paths]
        assert order == sorted(order)
        if old and self.random.random() < 0.3:
            with now_is(self.now):
                if is_refused:
                    self.refused += 1
                    with pytest.raises(HoodieDeleteException):
                        expire(self.path, retain)
                    return
                assert expire(self.path, retain).partition_paths == planned.partition_paths
            self.expired += 1
            self.gone(old)
        assert {row[1] for row in read_rows(self.path)} == {path for path, keys in self.keys.items() if keys}


@both_types
@two_layouts
@pytest.mark.parametrize("seed", range(3))
def test_ages_are_those_of_any_history(made: Callable[..., str], table_type: str, seed: int) -> None:
    history = History(made(table_type=table_type), seed)
    for number in range(40):
        history.step()
        if history.last:
            history.check((3, 10, 25)[number % 3])
    assert history.archived > 10
    assert history.expired > 0


# --- the strategies ---------------------------------------------------------------------------------------------------


@both_types
@two_layouts
def test_by_creation_time_writes_do_not_renew_a_partition(made: Callable[..., str], table_type: str) -> None:
    path = made(table_type=table_type)
    created = write(path, 12, ("a", "w", 1), ("b", "x", 1))
    write(path, 5, ("c", "y", 1))
    write(path, 1, ("a", "w", 2))
    write(path, 0, ("c", "y", 2))
    planned = expire(path, 10, dry_run=True, **{TYPE: "KEEP_BY_CREATION_TIME"})
    assert [(one.partition_path, one.aged_since) for one in planned.partitions] == [("w", created), ("x", created)]
    assert planned.strategy == "KeepByCreationTimeStrategy"


@pytest.mark.parametrize("damage", [None, "commitTime=soon\npartitionDepth=1\n", ""])
def test_a_partition_whose_creation_is_not_known_stays(
    made: Callable[..., str], damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = made()
    write(path, 12, ("a", "w", 1), ("b", "x", 1))
    write(path, 0, ("c", "y", 1))
    metafile = Path(path, "x/.hoodie_partition_metadata")
    if damage is None:
        metafile.unlink()
    else:
        metafile.write_text(damage)
    assert paths_of(path, 10, **{TYPE: "KEEP_BY_CREATION_TIME"}) == ["w"]
    assert "when partition 'x'" in caplog.text


class EveryOther(PartitionTTLStrategy):
    """A user's strategy."""

    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        return dict.fromkeys(times.partition_paths[::2])


class Others(PartitionTTLStrategy):
    def expired_partitions(self, times: PartitionTimes) -> Mapping[str, str | None]:
        return {"nowhere": None}


class NoMapping(PartitionTTLStrategy):
    def expired_partitions(self, times: PartitionTimes) -> Any:
        return ["x"]


@pytest.mark.parametrize("name", ["KeepByTimeStrategy", "KeepByCreationTimeStrategy"])
@pytest.mark.parametrize("package", ["", "org.apache.hudi.table.action.ttl.strategy."])
def test_strategies_have_the_names_of_hudi(made: Callable[..., str], name: str, package: str) -> None:
    path = made()
    write(path, 12, ("a", "w", 1), ("b", "x", 1))
    write(path, 1, ("a", "w", 2))
    write(path, 0, ("c", "y", 1))
    # The class counts before the type.
    found = paths_of(path, 10, **{CLASS: package + name, TYPE: "KEEP_BY_TIME"})
    assert found == (["x"] if name == "KeepByTimeStrategy" else ["w", "x"])


def test_a_strategy_may_be_the_users(made: Callable[..., str]) -> None:
    path = made()
    write(path, 0, *((region, region, 1) for region in "wxyz"))
    write(path, 0, ("z", "z", 2))
    done = expire(path, -1, **{CLASS: f"{__name__}.EveryOther"})
    assert [(one.partition_path, one.aged_since) for one in done.partitions] == [("w", None), ("y", None)]
    assert [row[0] for row in read_rows(path)] == ["x", "z"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org.apache.hudi.table.action.ttl.strategy.KeepForEver", "supported are KeepByCreationTimeStrategy, KeepBy"),
        ("KeepForEver", "supported are"),
        ("com.corp.Ours", "looks like a class of Java"),
        (f"{__name__}.Others", "not among the partitions that may expire"),
        (f"{__name__}.NoMapping", "return partition path -> instant time"),
    ],
)
def test_what_is_no_strategy_is_refused(made: Callable[..., str], name: str, message: str) -> None:
    path = made()
    write(path, 0, ("a", "x", 1), ("b", "y", 1))
    before = instants(path)
    with pytest.raises(HoodieConfigException, match=message):
        expire(path, 10, **{CLASS: name})
    assert instants(path) == before


def test_only_selected_partitions_expire(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, *((region, region, 1) for region in "vwxy"))
    write(path, 0, ("z", "z", 1))
    assert paths_of(path, **{SELECTED: "x, w, nowhere"}) == ["w", "x"]


def test_the_oldest_of_too_many_partitions_are_deleted(made: Callable[..., str]) -> None:
    path = made()
    for days, region in ((40, "w"), (45, "x"), (50, "v")):
        write(path, days, (region, region, 1)) if days == 50 else None
    write(path, 45, ("x", "x", 1))
    write(path, 40, ("w", "w", 1))
    write(path, 0, ("z", "z", 1))
    done = expire(path, **{MOST: 2})
    assert done.partition_paths == ["v", "x"]
    assert [(one.partition_path, one.kept_because) for one in done.kept] == [("w", f"{MOST} is 2")]
    assert [row[0] for row in read_rows(path)] == ["w", "z"]
    assert expire(path, **{MOST: 2}).partition_paths == ["w"]


@pytest.mark.parametrize("days", [0, -1])
def test_without_days_nothing_expires(made: Callable[..., str], days: int) -> None:
    path = made()
    write(path, 4000, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))
    done = expire(path, days)
    assert done.partitions == ()
    assert RETAIN in str(done)


def test_a_table_without_partitions_does_not_expire(made: Callable[..., str]) -> None:
    path = made(partition_fields=[])
    with days_ago(40), local_client(path) as client:
        client.upsert(rows(("a", "x", 1)))
    write(path, 0, ("b", "y", 1))
    assert "has no partitions" in str(expire(path))
    assert len(read_rows(path)) == 2


def test_a_table_without_rows_does_not_expire(made: Callable[..., str]) -> None:
    path = made()
    assert str(expire(path)) == "expire: no partition is too old"
    assert instants(path) == []


# --- what a run refuses -----------------------------------------------------------------------------------------------


@two_layouts
def test_a_run_that_would_delete_all_partitions_is_refused(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1), ("b", "y", 1))
    with local_client(path) as client:
        # A newer instant, which wrote nothing.
        client.delete_partitions(["nowhere"])
    before = instants(path)
    planned = expire(path, 10, dry_run=True)
    assert planned.refusal is not None and planned.partition_paths == ["x", "y"]
    with pytest.raises(HoodieDeleteException, match=f"all 2 partitions of .* {RETAIN}.*partition.selected"):
        expire(path, 10)
    # Limits do not help: the next runs would delete the rest.
    with pytest.raises(HoodieDeleteException, match="all 2 partitions"):
        expire(path, 10, **{MOST: 1})
    assert instants(path) == before


def test_a_run_that_would_delete_what_was_written_last_is_refused(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1), ("b", "y", 1))
    write(path, 20, ("c", "z", 1))
    write(path, 0, ("a", "x", 2))
    by_creation = {TYPE: "KEEP_BY_CREATION_TIME"}
    with pytest.raises(HoodieDeleteException, match=f"partition 'x' of .* was written last.*{RETAIN}"):
        expire(path, 30, **by_creation)
    assert expire(path, 30, **by_creation, **{SELECTED: "y,z"}).partition_paths == ["y"]


@two_layouts
def test_what_was_written_last_is_told_beside_a_savepoint_that_is_older(made: Callable[..., str]) -> None:
    """The savepoint keeps its commit active while the newest write is archived."""
    path = made()
    write(path, 41, ("a", "w", 1))
    write(path, 40, ("b", "x", 1))
    saving = {**ARCHIVED_SOON, "hoodie.archive.beyond.savepoint": True, "hoodie.clean.automatic": False}
    with days_ago(39), local_client(path, saving) as client:
        client.savepoint()
        client.upsert(rows(("c", "y", 1)))
    for day in range(6):
        with days_ago(6 - day), local_client(path, saving) as client:
            assert client.cluster() is not None
            client.archive()
    active = {time for time, action, _ in instants(path) if action in ("commit", "deltacommit")}
    assert len(active) == 1
    assert paths_of(path, 30, **{SELECTED: "x"}) == ["x"]
    with pytest.raises(HoodieDeleteException, match="'y' .* was written last"):
        expire(path, 30, **{SELECTED: "y"})


def test_the_clock_alone_makes_nothing_old(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 35, ("b", "y", 1))
    assert paths_of(path, 10) == []
    with days_ago(-400):
        assert paths_of(path, 10) == []


def test_ages_are_not_counted_beyond_the_clock(made: Callable[..., str]) -> None:
    path = made()
    write(path, 0, ("a", "x", 1))
    # By a machine whose clock is wrong.
    write(path, -400, ("b", "y", 1))
    assert paths_of(path, 10) == []


# --- after a commit ---------------------------------------------------------------------------------------------------


@both_types
@two_layouts
@pytest.mark.parametrize("auto_commit", [True, False])
def test_partitions_expire_after_a_commit(
    made: Callable[..., str], table_type: str, auto_commit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = made(table_type=table_type)
    write(path, 40, ("a", "x", 1))
    write(path, 35, ("b", "y", 1))
    options = {RETAIN: 30, INLINE: True, "hoodie.auto.commit": auto_commit, MOST: 1}
    with local_client(path, options) as client:
        result = client.upsert(rows(("c", "z", 1)))
        if not auto_commit:
            client.commit(result.instant_time, result)
        names = [step.name for step in result.steps or client.metrics.steps]
        assert "combine duplicates" in names or "find the places of keys" in names or len(names) > 3
        assert read_rows(path) == [("b", "y", 1), ("c", "z", 1)]
        assert (result.is_committed, result.service_errors) == (True, ())
        (told,) = [record for record in caplog.records if "partition TTL deletes" in record.getMessage()]
        assert told.levelno == logging.WARNING
        assert "'x' (1 row, " in told.getMessage()
        second = client.upsert(rows(("c", "z", 2)))
        if not auto_commit:
            client.commit(second.instant_time, second)
    assert read_rows(path) == [("c", "z", 2)]
    actions = [action for _, action, state in instants(path) if state == "COMPLETED"]
    assert actions.count("replacecommit") == 2


def test_a_run_by_hand_is_not_followed_by_an_inline_one(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 35, ("b", "y", 1))
    write(path, 0, ("c", "z", 1))
    done = expire(path, 30, **{INLINE: True, MOST: 1})
    assert done.partition_paths == ["x"]
    assert read_rows(path) == [("b", "y", 1), ("c", "z", 1)]


def test_an_inline_run_that_is_refused_does_not_fail_the_write(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 10, ("b", "y", 1))
    options = {RETAIN: 30, INLINE: True, TYPE: "KEEP_BY_CREATION_TIME"}
    with local_client(path, options) as client:
        result = client.upsert(rows(("a", "x", 2)))
    assert result.is_committed
    (error,) = result.service_errors
    assert "HoodieDeleteException" in error and "written last" in error
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 1)]


def test_an_inline_run_that_fails_does_not_fail_the_write(
    made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    with local_client(path, {RETAIN: 30, INLINE: True}) as client:
        monkeypatch.setattr(PartitionTTL, "plan", lambda *arguments: 1 / 0)
        result = client.upsert(rows(("b", "y", 2)))
    assert result.is_committed
    assert result.service_errors == ("ZeroDivisionError: division by zero",)


def test_the_commit_of_an_expiry_has_no_metadata_of_the_writer(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    options = {
        RETAIN: 30, INLINE: True, "hoodie.datasource.write.commitmeta.key.prefix": "batch", "batch.id": "7",
    }  # fmt: skip
    write(path, 0, ("b", "y", 1), **options)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    written, expired = map(timeline.read_commit_metadata, timeline.completed_writes().instants[-2:])
    assert written.extra_metadata["batch.id"] == "7"
    assert "batch.id" not in expired.extra_metadata
    assert expired.schema == written.schema


def test_services_run_once_after_a_write_whose_partitions_expire(
    made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    with local_client(path, {RETAIN: 30, INLINE: True}) as client:
        calls: list[object] = []
        clean = client._services._clean_if_due
        monkeypatch.setattr(client._services, "_clean_if_due", lambda found: (calls.append(found), clean(found)))
        client.upsert(rows(("b", "y", 1)))
        assert len(calls) == 1
        client.upsert(rows(("b", "y", 2)))
        assert len(calls) == 2


# --- beside others ----------------------------------------------------------------------------------------------------


@two_layouts
def test_partitions_with_a_pending_compaction_stay(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 40, ("a", "w", 1), ("b", "x", 1))
    write(path, 40, ("a", "w", 2))
    with days_ago(39), local_client(path) as client:
        planned = client.schedule_compaction()
    write(path, 0, ("c", "z", 1))
    done = expire(path)
    assert done.partition_paths == ["x"]
    assert [(one.partition_path, one.kept_because) for one in done.kept] == [("w", f"compaction {planned} is pending")]
    assert "1 partition kept for another run" in str(done)
    assert read_rows(path) == [("a", "w", 2), ("c", "z", 1)]
    with local_client(path) as client:
        client.compact()
    assert expire(path).partition_paths == ["w"]


@two_layouts
def test_partitions_with_a_pending_clustering_stay(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "w", 1), ("b", "x", 1))
    write(path, 0, ("c", "z", 1))
    planned = schedule_clustering(path, "w")
    done = expire(path)
    assert done.partition_paths == ["x"]
    assert [(one.partition_path, one.kept_because) for one in done.kept] == [("w", f"clustering {planned} is pending")]


@two_layouts
def test_partitions_with_a_pending_log_compaction_stay(made: Callable[..., str]) -> None:
    path = made(table_type="MERGE_ON_READ")
    write(path, 40, ("a", "w", 1), ("b", "x", 1))
    write(path, 40, ("a", "w", 2))
    write(path, 0, ("c", "z", 1))
    with local_client(path) as client:
        compaction = client.schedule_compaction()
    assert compaction is not None
    timeline = HoodieTableMetaClient.load(path).active_timeline
    plan = timeline.read_as(timeline.find(compaction), HoodieCompactionPlan)
    timeline.withdraw_requested(compaction, Action.COMPACTION)
    planned = timeline.reload().create_new_instant_time(Action.LOG_COMPACTION, plan)
    found = expire(path, dry_run=True)
    assert found.partition_paths == ["x"]
    assert [one.kept_because for one in found.kept] == [f"log compaction {planned} is pending"]


def test_partitions_with_a_pending_write_of_another_writer_stay(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "w", 1), ("b", "x", 1))
    write(path, 0, ("c", "z", 1))
    with local_client(path, {**SEVERAL, "hoodie.auto.commit": False}) as other:
        pending = other.upsert(rows(("a", "w", 2)))
        done = expire(path, **SEVERAL)
        assert done.partition_paths == ["x"]
        assert [one.kept_because for one in done.kept] == [f"write {pending.instant_time} is pending"]
        assert other.commit(pending.instant_time, pending)
    assert read_rows(path) == [("a", "w", 2), ("c", "z", 1)]


def test_a_failed_write_keeps_no_partition(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "w", 1))
    write(path, 0, ("c", "z", 1))
    other = local_client(path, {"hoodie.auto.commit": False})
    other.upsert(rows(("a", "w", 2)))
    other.close()
    assert expire(path).partition_paths == ["w"]
    assert read_rows(path) == [("c", "z", 1)]


@both_types
@two_layouts
@pytest.mark.parametrize("is_new", [True, False], ids=["new key", "update"])
def test_rows_that_come_before_the_commit_keep_their_partition(
    made: Callable[..., str], table_type: str, is_new: bool
) -> None:
    path = made(table_type=table_type)
    write(path, 40, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))

    def another(commit: Any) -> None:
        # A new file group, which shares no file group with the expiry.
        key = "new" if is_new else "a"
        with local_client(path, {**SEVERAL, "hoodie.parquet.small.file.limit": 0}) as other:
            other.upsert(rows((key, "x", 2)))

    config = local_client(path, {**SEVERAL, RETAIN: 30}).config
    with HoodieLocalWriteClient(config, validators=[another]) as client:
        with pytest.raises(HoodieWriteConflictException) as raised:
            client.expire_partitions()
        assert raised.value.is_retry_safe
        expected = [("a", "x", 1), ("b", "y", 1), ("new", "x", 2)] if is_new else [("a", "x", 2), ("b", "y", 1)]
        assert read_rows(path) == expected
    assert paths_of(path) == []


def test_a_conflict_is_tried_again_where_the_writer_asks_for_it(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "w", 1), ("b", "x", 1))
    write(path, 0, ("c", "z", 1))
    begun: list[object] = []

    def another(commit: Any) -> None:
        begun.append(commit)
        if len(begun) == 1:
            with local_client(path, {**SEVERAL, "hoodie.parquet.small.file.limit": 0}) as other:
                other.upsert(rows(("new", "x", 2)))

    config = local_client(path, {**SEVERAL, RETAIN: 30, "hoodie.write.lock.wait.retry": True}).config
    with HoodieLocalWriteClient(config, validators=[another]) as client:
        assert client.expire_partitions().partition_paths == ["w"]
    assert read_rows(path) == [("b", "x", 1), ("c", "z", 1), ("new", "x", 2)]


def test_a_write_to_another_partition_is_no_conflict(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))

    def another(commit: Any) -> None:
        with local_client(path, SEVERAL) as other:
            other.upsert(rows(("b", "y", 2)))

    config = local_client(path, {**SEVERAL, RETAIN: 30}).config
    with HoodieLocalWriteClient(config, validators=[another]) as client:
        assert client.expire_partitions().partition_paths == ["x"]
    assert read_rows(path) == [("b", "y", 2)]


@pytest.mark.parametrize("mode", [{}, SEVERAL], ids=["single", "several"])
def test_rows_that_come_before_the_instant_keep_their_partition(
    made: Callable[..., str], mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))
    with local_client(path, {RETAIN: 30, **mode}) as client:
        start = client.start_commit

        def late(operation: Any) -> str:
            if mode:
                with local_client(path, mode) as other:
                    other.upsert(rows(("a", "x", 2)))
            else:
                client.upsert(rows(("a", "x", 2)), start())
            return start(operation)

        monkeypatch.setattr(client, "start_commit", late)
        done = client.expire_partitions()
    assert (done.instant_time, done.partitions) == (None, ())
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 1)]
    assert all(action != "replacecommit" for _, action, _ in instants(path))


# --- times ------------------------------------------------------------------------------------------------------------

NEW_YORK = ZoneInfo("America/New_York")


@two_layouts
@pytest.mark.parametrize("zone", ["UTC", "LOCAL"])
@pytest.mark.parametrize(
    ("written", "seen", "expires"),
    [
        # The day of 25 hours, by the clock 24 hours and a minute, and 23 hours and 59 minutes.
        ("2026-10-31 12:00", "2026-11-01 12:01", True),
        ("2026-10-31 12:00", "2026-11-01 11:59", True),
        ("2026-10-31 12:00", "2026-11-01 10:59", False),
        # The day of 23 hours.
        ("2027-03-13 12:00", "2027-03-14 12:01", False),
        ("2027-03-13 12:00", "2027-03-14 13:01", True),
        # Half past one comes twice. Where the times are local, nobody can tell which one it was.
        ("2026-11-01 01:30", "2026-11-02 00:45", None),
        ("2026-11-01 01:30", "2026-11-02 01:31", True),
    ],
)
def test_days_have_24_hours_where_clocks_change(
    made: Callable[..., str], zone: str, written: str, seen: str, expires: bool | None
) -> None:
    first, last = (datetime.fromisoformat(text).replace(tzinfo=NEW_YORK).astimezone(UTC) for text in (written, seen))
    assert (last - first > timedelta(days=1)) is (expires is not False)
    with in_zone("America/New_York"):
        path = made(properties={"hoodie.table.timeline.timezone": zone})
        for moment, row in ((first, ("a", "x", 1)), (last, ("b", "y", 1))):
            with now_is(moment), local_client(path) as client:
                client.upsert(rows(row))
        with now_is(last + timedelta(minutes=1)):
            wanted = zone == "UTC" if expires is None else expires
            assert paths_of(path, 1) == (["x"] if wanted else [])


@all_versions
def test_the_time_of_a_write_is_that_of_its_completion(made: Callable[..., str], table_version: int) -> None:
    path = made()
    with local_client(path, {"hoodie.auto.commit": False}) as client:
        with days_ago(12):
            result = client.upsert(rows(("a", "x", 1)))
        with days_ago(9):
            client.commit(result.instant_time, result)
    write(path, 0, ("b", "y", 1))
    # Version 6 knows only when it was requested.
    assert paths_of(path, 10) == (["x"] if table_version == 6 else [])
    assert paths_of(path, 8) == ["x"]


# --- afterwards -------------------------------------------------------------------------------------------------------


@both_types
@two_layouts
def test_indexes_and_files_follow(made: Callable[..., str], table_type: str) -> None:
    path = made(table_type=table_type)
    options = {
        "hoodie.metadata.enable": True,
        "hoodie.metadata.global.record.level.index.enable": True,
        "hoodie.metadata.index.column.stats.enable": True,
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.cleaner.commits.retained": 1,
    }
    write(path, 40, ("a", "x", 1), ("b", "y", 1), **options)
    write(path, 0, ("b", "y", 2), **options)
    expire(path, **options)
    assert hoodie.Table(path).validate().is_right
    # The key is looked up, and is new.
    write(path, 0, ("a", "y", 3), **options)
    assert read_rows(path) == [("a", "y", 3), ("b", "y", 2)]
    for number in (3, 4, 5):
        write(path, 0, ("b", "y", number), **options)
    assert hoodie.Table(path).validate().is_right
    assert list(Path(path, "x").glob("*.parquet")) == []


@all_versions
def test_the_plan_names_the_operation_as_hudi_does(made: Callable[..., str], table_version: int) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))
    done = expire(path)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    instant = timeline.find(done.instant_time)
    assert instant is not None
    named = HoodieRequestedReplaceMetadata("DELETE_PARTITION", None, {}, 1)
    found = requested_replacement(timeline, instant)
    assert found == (HoodieRequestedReplaceMetadata() if table_version == 6 else named)
    metadata = timeline.read_commit_metadata(instant)
    assert metadata.partition_to_write_stats == {}
    assert [path for path, _ in metadata.replaced_file_groups] == ["x"]


def test_rows_that_cannot_be_counted_do_not_keep_a_partition(made: Callable[..., str]) -> None:
    path = made()
    write(path, 40, ("a", "x", 1))
    write(path, 0, ("b", "y", 1))
    (file,) = Path(path, "x").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    done = expire(path)
    assert [(one.partition_path, one.rows) for one in done.partitions] == [("x", None)]
    assert read_rows(path) == [("b", "y", 1)]


# --- the table of real Hudi -------------------------------------------------------------------------------------------


@pytest.fixture
def expired_by_hudi(serviced_tables: Path, tmp_path: Path) -> Iterator[Path]:
    """Of four partitions that are twelve days old, two were renewed, and the others deleted with ten days to retain."""
    yield Path(shutil.copytree(serviced_tables / "v9_ttl", tmp_path / "v9_ttl") / "ttl")


def test_what_expired_with_real_hudi_is_not_read(expired_by_hudi: Path, serviced_tables: Path) -> None:
    expected = pq.read_table(serviced_tables / "rows/v9_ttl.parquet")
    found = hoodie.read_table(str(expired_by_hudi)).select(expected.column_names)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert set(found["p"].to_pylist()) == {"p2", "p3"}
    assert paths_of(str(expired_by_hudi), 10) == []


def test_the_same_partitions_expire_as_with_real_hudi(expired_by_hudi: Path) -> None:
    (completed,) = (expired_by_hudi / ".hoodie/timeline").glob("*_*.replacecommit")
    for file in (expired_by_hudi / ".hoodie/timeline").glob(f"{completed.name[:17]}*"):
        file.unlink()
    path = str(expired_by_hudi)
    assert paths_of(path, 10) == ["p0", "p1"]
    assert paths_of(path, 13) == []
    done = expire(path, 10)
    assert {one.partition_path: one.rows for one in done.partitions} == {"p0": 1, "p1": 1} or done.rows > 0
    assert {row["p"] for row in hoodie.read_table(path).to_pylist()} == {"p2", "p3"}
