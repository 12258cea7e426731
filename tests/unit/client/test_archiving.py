from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from hoodie import HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieMergeArchiveFilePlan
from hoodie.avro.timeline_metadata import encode
from hoodie.common.table import table_definition
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline, read_archive_file
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException, HoodieSavepointException
from hoodie.io.log.avro_block import avro_records
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.archive import timeline_archiver
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA

pytestmark = pytest.mark.without_metadata_table("archiving would wait for its compaction, of ten commits")

KEEP = {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 5, "hoodie.cleaner.commits.retained": 1}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for both layouts of the timeline, unless it names the version of its tables."""
    marker = metafunc.definition.get_closest_marker("table_version")
    metafunc.parametrize("table_version", marker.args if marker is not None else (6, 9), indirect=True)


@pytest.fixture(autouse=True)
def table_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of the tables of a test."""
    version: int = request.param
    monkeypatch.setattr(table_definition, "DEFAULT_TABLE_VERSION", version)
    return version


def archive(table: ServicesTable, **properties: Any) -> int:
    with table.client(**{**KEEP, **properties}) as client:
        return client.archive()


def active(table: ServicesTable, *actions: Action) -> list[str]:
    timeline = table.load().active_timeline
    return [i.requested_time for i in (timeline.filter_actions(*actions) if actions else timeline)]


def archived(table: ServicesTable) -> list[str]:
    return [instant.requested_time for instant in table.load().archived_timeline]


def archive_files(table: ServicesTable) -> list[Path]:
    """The data files of the archive."""
    if table.layout.version == 2:
        return sorted((table.base_path / ".hoodie/timeline/history").glob("*.parquet"))
    return sorted((table.base_path / ".hoodie" / "archived").glob(".commits_.archive.*"))


def states(table: ServicesTable) -> list[HoodieInstant]:
    """What the files of an archive of layout 1 hold."""
    storage = table.load().storage
    return [state for path in archive_files(table) for state, _ in read_archive_file(storage, str(path))]


# --- what is archived -------------------------------------------------------------------------------------------------


def test_more_commits_than_the_maximum_are_archived_down_to_the_minimum(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(5)]
    assert archive(table) == 0
    times.append(table.upsert("a"))
    rows = table.read()
    before = {i: table.load().active_timeline.read_commit_metadata(i) for i in table.load().active_timeline}
    assert archive(table) == 3
    assert active(table) == times[3:]
    assert archived(table) == times[:3]
    assert table.read() == rows
    for instant in table.load().archived_timeline:
        assert instant.state is State.COMPLETED
        read = table.load().archived_timeline.read_commit_metadata(instant)
        stats = list(before[instant].write_stats)
        if table.layout.version == 1:
            stats = [attrs.evolve(stat, runtime_stats=None) for stat in stats]
        assert list(read.write_stats) == stats
        assert read.extra_metadata == before[instant].extra_metadata
        assert read.operation_type is before[instant].operation_type


@pytest.mark.table_version(6)
def test_entries_have_the_form_of_hudi(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    archive(table, **{"hoodie.commits.archival.batch": 4})
    [path] = archive_files(table)
    assert path.name == ".commits_.archive.1_1-0-1"
    blocks = list(read_log_blocks(path.read_bytes(), str(path)))
    records = [avro_records(block) for block in blocks]
    assert [len(batch) for batch in records] == [4, 4, 1]
    assert [block.instant_time for block in blocks] == [None] * 3
    entries = [entry for batch in records for entry in batch]
    assert [(e["commitTime"], e["actionType"], e["actionState"]) for e in entries] == [
        (time, "commit", state) for time in times[:3] for state in ("REQUESTED", "INFLIGHT", "COMPLETED")
    ]
    requested, inflight, completed = (entry["hoodieCommitMetadata"] for entry in entries[:3])
    assert requested == {
        "partitionToWriteStats": {},
        "extraMetadata": {"ROLLING_STAT": ""},
        "version": None,
        "operationType": "UNKNOWN",
    }
    assert inflight["operationType"] == completed["operationType"] == "UPSERT"
    assert inflight["partitionToWriteStats"]["x"][0]["path"] is None
    assert completed["partitionToWriteStats"]["x"][0]["path"].endswith(f"{times[0]}.parquet")
    for entry in entries:
        assert entry["version"] == 1
        assert times[0][:8] <= entry["stateTransitionTime"][:8]
        assert len(entry["stateTransitionTime"]) == 17


@pytest.mark.table_version(6)
def test_each_run_writes_the_next_file(table: ServicesTable) -> None:
    for _ in range(3):
        for _ in range(6):
            table.upsert("a")
        archive(table)
    assert [path.name for path in archive_files(table)] == [f".commits_.archive.{n}_1-0-1" for n in (1, 2, 3)]
    assert len(archived(table)) == 15


def test_the_minimum_is_raised_to_what_the_cleaner_looks_at(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(10)]
    assert archive(table, **{"hoodie.cleaner.commits.retained": 6}) == 3
    assert active(table) == times[3:]


@pytest.mark.table_version(6)
def test_a_long_timeline_is_archived_in_parts(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [table.upsert("a") for _ in range(10)]
    monkeypatch.setattr(timeline_archiver, "_MOVED_AT_ONCE_BYTES", 2_000)
    assert archive(table) == 7
    assert len(archive_files(table)) > 2
    assert archived(table) == times[:7]
    assert len(states(table)) == len(set(states(table))) == 21
    assert active(table) == times[7:]


def test_a_table_is_cleaned_though_fewer_commits_are_to_be_kept_than_are_retained(table: ServicesTable) -> None:
    automatic = {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
    with table.client(**{**KEEP, **automatic, "hoodie.cleaner.commits.retained": 6}) as client:
        times = [table.upsert("a", client=client) for _ in range(12)]
    # The six newest, and the version that readers of the oldest of them began with.
    assert table.files() == {"x": set(times[-7:])}
    assert set(times[-7:]) <= set(active(table))


def test_hours_that_stay_readable_stay_active(table: ServicesTable) -> None:
    for _ in range(8):
        table.upsert("a")
    properties = {key: value for key, value in KEEP.items() if "cleaner" not in key}
    with table.client(**properties, **{"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS"}) as client:
        assert client.archive() == 0


@pytest.mark.parametrize("beyond", [False, True])
def test_archiving_stops_before_the_oldest_savepoint_or_leaves_it_out(table: ServicesTable, beyond: bool) -> None:
    times = [table.upsert("a") for _ in range(2)]
    table.savepoint(times[1])
    times += [table.upsert("a") for _ in range(5)]
    rows = table.read()
    archive(table, **{"hoodie.archive.beyond.savepoint": str(beyond).lower()})
    left = [times[1], *times[4:]] if beyond else times[1:]
    assert active(table, Action.COMMIT) == left
    assert active(table, Action.SAVEPOINT) == [times[1]]
    assert table.read() == rows
    assert table.upsert("a") in active(table)


def test_a_commit_without_savepoint_stays_where_archiving_goes_beyond_them(table: ServicesTable) -> None:
    beyond = {"hoodie.archive.beyond.savepoint": "true", "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2}
    times = [table.upsert(key, region=key) for key in "abcdef"]
    table.savepoint(times[1])
    table.savepoint(times[5])
    rows = table.read()
    assert archive(table, **beyond) == 3
    assert active(table, Action.COMMIT) == [times[1], times[4], times[5]]
    assert table.read() == rows


def test_rows_of_commits_that_were_archived_past_a_savepoint_stay_when_it_is_deleted(table: ServicesTable) -> None:
    beyond = {"hoodie.archive.beyond.savepoint": "true"}
    times = [table.upsert(key, region=key) for key in "ab"]
    table.savepoint(times[1])
    times += [table.upsert(key, region=key) for key in "cdefg"]
    rows = table.read()
    assert archive(table, **beyond) == 3
    with table.client(**beyond) as client:
        assert client.delete_savepoint(times[1])
    assert table.read() == rows
    assert active(table, Action.COMMIT, Action.SAVEPOINT) == times[4:]
    assert times[1] in archived(table)


def test_a_savepoint_of_a_replacement_stays_until_its_commit_can_be_archived(table: ServicesTable) -> None:
    beyond = {"hoodie.archive.beyond.savepoint": "true"}
    table.upsert("a")
    replaced = table.replace(["x"])
    table.savepoint(replaced)
    for key in "cdefgh":
        table.upsert(key, region=key)
    rows = table.read()
    with table.client(**KEEP, **beyond) as client:
        # The file of the first commit is the savepoint's before, and nobody's after.
        assert client.archive()
        with pytest.raises(HoodieSavepointException, match="cannot be deleted yet"):
            client.delete_savepoint(replaced)
        assert table.read() == rows
        client.clean()
        assert client.delete_savepoint(replaced)
    assert table.read() == rows


@pytest.mark.parametrize("later", ["insert_overwrite_table", "delete_partitions"])
def test_a_savepoint_is_gone_back_to_past_archived_commits_whose_file_groups_were_replaced(
    table: ServicesTable, later: str
) -> None:
    beyond = {"hoodie.archive.beyond.savepoint": "true"}
    saved = table.upsert("a")
    table.savepoint(saved)
    rows = table.read()
    for key in "bcdefgh":
        table.upsert(key, region=key)
    assert archive(table, **beyond)
    with table.client(**KEEP, **beyond) as client:
        if later == "insert_overwrite_table":
            client.insert_overwrite_table(pa.Table.from_pylist([{"id": "n", "region": "n", "ts": 99}], SCHEMA))
        else:
            client.delete_partitions(["b", "c", "h"])
        for _ in range(3):
            table.upsert("z", region="z")
        client.clean()
        client.restore_to_savepoint(saved)
    assert table.read() == rows


def test_archiving_stops_before_the_oldest_pending_instant(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(3)]
    timeline = table.load().active_timeline
    timeline.create_new_instant_time(Action.CLEAN, b"plan")
    times += [table.upsert("a") for _ in range(4)]
    assert archive(table) == 2
    assert active(table, Action.COMMIT) == times[2:]


def test_a_replace_commit_stays_until_the_files_that_it_hides_are_gone(table: ServicesTable) -> None:
    first = table.upsert("c", region="y")
    replaced = table.replace(["y"])
    times = [table.upsert("a") for _ in range(6)]
    rows = table.read()
    assert archive(table) == 1
    assert archived(table) == [first]
    assert active(table)[0] == replaced
    with table.client(**KEEP) as client:
        client.clean()
    assert archive(table) == 4
    assert active(table, Action.COMMIT, Action.REPLACE_COMMIT) == times[3:]
    assert table.read() == rows
    entry = table.load().archived_timeline.find(replaced)
    assert entry is not None
    metadata = table.load().archived_timeline.read_commit_metadata(entry)
    assert set(metadata.partition_to_replace_file_ids) == {"y"}  # type: ignore[attr-defined]


def test_a_reader_goes_on_when_what_it_listed_is_archived(table: ServicesTable) -> None:
    kept = table.upsert("a", region="z")
    table.upsert("b", region="y")
    replaced = table.replace(["y"])
    reader = table.load()
    instant = reader.active_timeline.find(replaced)
    assert instant is not None
    metadata = reader.active_timeline.read_commit_metadata(instant)
    for _ in range(6):
        table.upsert("a")
    with table.client(**KEEP) as client:
        client.clean()
    archive(table)
    assert replaced not in active(table)
    assert reader.active_timeline.read_commit_metadata(instant) == metadata
    assert [file.instant_time for file in reader.view().latest_base_files("z")] == [kept]
    assert reader.view().latest_base_files("y") == []
    pending = HoodieInstant(replaced, Action.REPLACE_COMMIT, State.INFLIGHT)
    with pytest.raises(HoodieIOException, match="was archived or rolled back"):
        reader.active_timeline.read_commit_metadata(pending)
    with pytest.raises(HoodieIOException, match="was archived or rolled back"):
        reader.active_timeline.read_commit_metadata(attrs.evolve(instant, requested_time="20200101000000000"))


@pytest.mark.table_version(6)
def test_cleans_and_rollbacks_are_counted_apart(table: ServicesTable) -> None:
    with table.client(**KEEP, **{"hoodie.clean.automatic": "true"}) as client:
        for _ in range(9):
            table.upsert("a", client=client)
    for _ in range(7):
        with table.client() as client:
            client.rollback(table.leave_pending("b"))
    cleans, rollbacks = active(table, Action.CLEAN), active(table, Action.ROLLBACK)
    assert (len(cleans), len(rollbacks)) == (7, 7)
    archive(table)
    assert active(table, Action.CLEAN) == cleans[-3:]
    assert active(table, Action.ROLLBACK) == rollbacks[-3:]
    timeline = table.load().archived_timeline
    for time in (*cleans[:-3], *rollbacks[:-3]):
        instant = timeline.find(time)
        assert instant is not None
        entry = timeline.read_entry(instant)
        assert entry["hoodieCleanMetadata" if time in cleans else "hoodieRollbackMetadata"] is not None
    # The next clean goes on from the newest one, which is always active.
    table.upsert("a")
    with table.client(**KEEP) as client:
        metadata = client.clean()
    assert metadata is not None


def test_commits_that_the_last_clean_kept_readable_stay_when_that_is_asked_for(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(4)]
    with table.client(**{**KEEP, "hoodie.cleaner.commits.retained": 2}) as client:
        client.clean()
    times += [table.upsert("a") for _ in range(4)]
    archive(table, **{"hoodie.archive.block.on.latest.clean.ectr": "true"})
    assert active(table, Action.COMMIT) == times[2:]


def test_a_damaged_commit_is_never_left_out_of_the_archive(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    times = [table.upsert("a") for _ in range(7)]
    path = table.completed_file(times[1])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert archive(table) == 1
    assert archived(table) == times[:1]
    assert f"stops before {times[1]}" in caplog.text
    with pytest.raises(HoodieCorruptedDataException, match=f"Cannot archive {times[1]} commit"):
        archive(table)
    path.write_bytes(content)
    assert archive(table) == 3


def test_a_damaged_profile_of_a_completed_commit_does_not_stop_archiving(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    (table.timeline_path / f"{times[0]}.inflight").write_bytes(b"{")
    assert archive(table) == 3
    assert archived(table) == times[:3]


def test_markers_that_a_writer_left_behind_go_with_its_instant(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    for time in (times[0], times[5]):
        (table.base_path / ".hoodie" / ".temp" / time / "x").mkdir(parents=True)
    archive(table)
    assert [path.name for path in (table.base_path / ".hoodie" / ".temp").iterdir()] == [times[5]]


# --- crashes, and readers meanwhile -----------------------------------------------------------------------------------


@pytest.mark.table_version(6)
def test_what_was_archived_and_not_deleted_is_not_archived_twice(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(6)]

    def dies(self: HoodieActiveTimeline, deleted: Any) -> None:
        raise OSError("the process is dead")

    with monkeypatch.context() as patched:
        patched.setattr(HoodieActiveTimeline, "delete_archived", dies)
        for _ in range(2):
            with pytest.raises(OSError, match="dead"):
                archive(table)
    assert active(table) == times
    assert len(archive_files(table)) == 1
    times.append(table.upsert("a"))
    assert archive(table) == 4
    assert active(table) == times[4:]
    assert len(states(table)) == len(set(states(table))) == 12


def test_a_listing_made_while_instants_are_deleted_is_made_again(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(8)]
    original = LocalStorage.list_names
    storage = table.load().storage
    completed = {time: table.completed_file(time).name for time in times}
    folder, looks = str(table.timeline_path), list[int]()

    def half_way(self: LocalStorage, path: str) -> list[str]:
        """The entries in an order of the file system's own, with an archiver that is faster."""
        found = original(self, path)
        if path != folder or looks:
            return found
        looks.append(1)
        kept = [
            name
            for name in found
            if name in (f"{times[0]}.commit.requested", f"{times[0]}.inflight")
            or not any(name.startswith(time) for time in (times[0], times[1], times[3]))
        ]
        for time in times[:4]:
            for name in (f"{time}.commit.requested", f"{time}.inflight", completed[time]):
                storage.delete_file(f"{path}/{name}")
        return kept

    monkeypatch.setattr(LocalStorage, "list_names", half_way)
    timeline = HoodieTableMetaClient.load(str(table.base_path)).active_timeline
    assert [(i.requested_time, i.state) for i in timeline] == [(time, State.COMPLETED) for time in times[4:]]


def test_pending_states_go_first_and_completed_ones_oldest_first(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(6)]
    completed = [table.completed_file(time).name for time in times[:3]]
    original = LocalStorage.delete_file
    deleted: list[str] = []
    archived_first: list[int] = []

    def delete_file(self: LocalStorage, path: str) -> bool:
        name = path.rsplit("/", 1)[1]
        if name[:17] in times and path.startswith(f"{table.timeline_path}/{name[:17]}"):
            deleted.append(name)
            archived_first.append(len(archive_files(table)))
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "delete_file", delete_file)
    archive(table)
    assert set(archived_first) == {1}
    assert sorted(deleted[:6]) == sorted(
        f"{t}.{suffix}" for t in times[:3] for suffix in ("commit.requested", "inflight")
    )
    assert deleted[6:] == completed


def test_new_instants_are_later_than_archived_ones_though_the_clock_is_behind(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    archive(table)
    for path in table.timeline_path.glob("2*"):
        path.unlink()
    timeline = attrs.evolve(table.load().active_timeline, clock=lambda: datetime(2020, 1, 1, tzinfo=UTC))
    assert len(timeline) == 0
    newest = max(i.newest_time for i in table.load().archived_timeline)
    assert timeline.create_new_instant_time(Action.COMMIT) > newest >= times[2]


def test_hudi_rs_reads_a_table_whose_beginning_is_archived(table: ServicesTable) -> None:
    for n in range(6):
        table.upsert("a", f"k{n}")
    archive(table)
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table.base_path)).build().read())
    assert sorted(tuple(row.values()) for row in read.select(SCHEMA.names).to_pylist()) == table.read()


# --- merging of archive files -----------------------------------------------------------------------------------------

MERGE = {"hoodie.archive.merge.enable": "true", "hoodie.archive.merge.files.batch.size": 3}
NO_MERGE = {**MERGE, "hoodie.archive.merge.files.batch.size": 9}


def make_files(table: ServicesTable, count: int) -> list[str]:
    times = []
    while len(archive_files(table)) < count:
        times.append(table.upsert("a"))
        archive(table)
    return times


@pytest.mark.table_version(6)
def test_small_files_of_the_archive_are_merged_into_the_newest(table: ServicesTable) -> None:
    make_files(table, 2)
    before = archived(table)
    assert archive(table, **MERGE) == 0
    assert len(archive_files(table)) == 2
    make_files(table, 3)
    before = archived(table)
    archive(table, **MERGE)
    assert [path.name for path in archive_files(table)] == [".commits_.archive.4_1-0-1"]
    assert archived(table) == before
    assert len(states(table)) == 3 * len(before)
    assert not (table.base_path / ".hoodie" / "archived" / "mergeArchivePlan").exists()


@pytest.mark.table_version(6)
def test_files_that_are_not_small_end_the_merge(table: ServicesTable) -> None:
    make_files(table, 4)
    largest = max(archive_files(table), key=lambda path: path.stat().st_size)
    assert archive(table, **MERGE, **{"hoodie.archive.merge.small.file.limit.bytes": largest.stat().st_size - 1}) == 0
    assert largest in archive_files(table)


def plan_merge(table: ServicesTable, merged: str) -> list[Path]:
    files = archive_files(table)
    plan = HoodieMergeArchiveFilePlan(tuple(f"/moved/t/.hoodie/archived/{path.name}" for path in files), merged)
    (table.base_path / ".hoodie" / "archived" / "mergeArchivePlan").write_bytes(encode(plan))
    return files


def nothing(files: list[Path], merged: Path) -> None:
    pass


def torn(files: list[Path], merged: Path) -> None:
    content = files[0].read_bytes()
    merged.write_bytes(content[: len(content) // 2])


def whole(files: list[Path], merged: Path) -> None:
    merged.write_bytes(b"".join(path.read_bytes() for path in files))


def some_deleted(files: list[Path], merged: Path) -> None:
    whole(files, merged)
    files[1].unlink()


@pytest.mark.table_version(6)
@pytest.mark.parametrize("state", [nothing, torn, whole, some_deleted])
def test_a_merge_that_died_is_finished_or_taken_back(
    table: ServicesTable, state: Callable[[list[Path], Path], None]
) -> None:
    make_files(table, 3)
    before = archived(table)
    merged = table.base_path / ".hoodie" / "archived" / ".commits_.archive.4_1-0-1"
    files = plan_merge(table, merged.name)
    state(files, merged)
    assert archived(table) == before
    archive(table, **NO_MERGE)
    assert archive_files(table) == ([merged] if state is some_deleted else files)
    assert archived(table) == before
    assert not (merged.parent / "mergeArchivePlan").exists()


@pytest.mark.table_version(6)
def test_a_plan_that_was_not_finished_is_dropped(table: ServicesTable) -> None:
    make_files(table, 2)
    plan = table.base_path / ".hoodie" / "archived" / "mergeArchivePlan"
    for content in (b"", b"Obj\x01", encode(HoodieMergeArchiveFilePlan(("../../x",), "hoodie.properties"))):
        plan.write_bytes(content)
        archive(table, **MERGE)
        assert not plan.exists()
    assert (table.base_path / ".hoodie" / "hoodie.properties").exists()


@pytest.mark.table_version(6)
def test_a_file_that_took_the_name_of_a_merged_one_is_not_deleted(table: ServicesTable) -> None:
    make_files(table, 3)
    newest = archive_files(table)[2]
    plan_merge(table, newest.name)
    plan = HoodieMergeArchiveFilePlan(tuple(str(path) for path in archive_files(table)[:2]), newest.name)
    (newest.parent / "mergeArchivePlan").write_bytes(encode(plan))
    before = archived(table)
    archive(table, **NO_MERGE)
    assert archived(table) == before


@pytest.mark.table_version(6)
def test_files_that_are_merged_while_they_are_read_are_listed_again(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(table, 3)
    before = archived(table)
    original = LocalStorage.read
    merged: list[int] = []

    def read(self: LocalStorage, path: str) -> bytes:
        if path.endswith(".archive.2_1-0-1") and not merged:
            merged.append(1)
            archive(table, **MERGE)
        return original(self, path)

    meta_client = table.load()
    monkeypatch.setattr(LocalStorage, "read", read)
    timeline = HoodieArchivedTimeline.load(meta_client.storage, meta_client.meta_path, "archived", timeline_layout(1))
    assert [instant.requested_time for instant in timeline] == before


# --- after commits ----------------------------------------------------------------------------------------------------


def test_a_commit_is_followed_by_cleaning_and_then_archiving(
    table: ServicesTable, caplog: pytest.LogCaptureFixture
) -> None:
    on = {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
    client = table.client(**KEEP, **on)
    with caplog.at_level(logging.WARNING):
        times = [table.upsert("a", client=client) for _ in range(9)]
    assert caplog.text == ""
    steps = [step.name for step in client.metrics.steps]
    assert steps.index("clean") < steps.index("archive")
    commits = active(table, Action.COMMIT)
    assert commits == times[-len(commits) :]
    assert 3 <= len(commits) <= 5
    assert table.files() == {"x": set(times[-2:])}


def test_an_asynchronous_archive_runs_in_the_thread_of_the_services(table: ServicesTable) -> None:
    on = {"hoodie.archive.automatic": "true", "hoodie.archive.async": "true"}
    with table.client(**KEEP, **on) as client:
        times = [table.upsert("a", client=client) for _ in range(5)]
        client._services.wait()
        times.append(table.upsert("a", client=client))
    assert active(table) == times[3:]
