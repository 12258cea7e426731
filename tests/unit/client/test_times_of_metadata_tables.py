"""Times of metadata tables are moments of their tables, in whatever zone the writers are.

Before 0.1.0 a new metadata table got the wall clock of its process. Such tables are told from healthy ones, are not
read, and are built anew by the next write.
"""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import attrs
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.exception import HoodieIndexException
from hoodie.metadata import MetadataDifferenceKind, validate
from hoodie.metadata.reader.metadata_listing import MetadataListing, MetadataListingChoice
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.reader.misplaced_times import first_misplaced_time
from tests.support.folders import files_below
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.pairs import each_pair
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.zones import in_zone, mending_nothing, times_of_the_process, trusting_its_clock

pytestmark = [pytest.mark.metadata_table, pytest.mark.table_version(9)]

EAST, WEST = "Asia/Shanghai", "America/Los_Angeles"
ON = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.min.filegroup.count": 1}
INDEXED = {**ON, "hoodie.metadata.global.record.level.index.enable": True, "hoodie.index.type": "RECORD_INDEX"}
OFF = {"hoodie.metadata.enable": False}
SKEW = timedelta(seconds=2)


def upsert(base_path: str, number: int, **properties: object) -> None:
    """One row, in one of two partitions."""
    with local_client(base_path, ON | properties) as client:
        client.upsert(rows((f"k{number}", "xy"[number % 2], number)))


def expected(count: int) -> list[tuple[str, str, int]]:
    return sorted((f"k{number}", "xy"[number % 2], number) for number in range(count))


def read_by_hudi_rs(base_path: str) -> list[tuple[str, str, int]]:
    batches = HudiTableBuilder.from_base_uri(base_path).build().read()
    found = [row for batch in batches for row in batch.to_pylist()]
    return sorted((row["id"], row["region"], row["ts"]) for row in found)


def loaded(base_path: str) -> MetadataTableFiles:
    return MetadataTableFiles.load(TableSnapshot.load(base_path))


def newest_write(base_path: str) -> str:
    last = TableSnapshot.load(base_path).active_timeline.completed_writes().last_instant
    assert last is not None
    return last.requested_time


def is_read(base_path: str) -> bool:
    """Whether readers use the metadata table."""
    snapshot = TableSnapshot.load(base_path, listing_choice=MetadataListingChoice())
    return isinstance(snapshot.committed_files, MetadataListing)


def warnings_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.message for record in caplog.records if text in record.message]


def make_old(base_path: str, **properties: object) -> None:
    """A table of hoodie before 0.1.0, made in the east: its metadata table was compacted in the future."""
    with in_zone(EAST), times_of_the_process(), mending_nothing():
        init_table(base_path)
        for number in range(12):
            upsert(base_path, number, **properties)


def write_as_hudi(base_path: str, numbers: range, **properties: object) -> None:
    """Commits of one who trusts the clock and looks at no times of others."""
    with trusting_its_clock(), mending_nothing():
        for number in numbers:
            upsert(base_path, number, **properties)


@pytest.fixture(scope="module")
def old_table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """See `make_old`; somebody else has written to it since. Copy it first."""
    base_path = str(tmp_path_factory.mktemp("old") / "t")
    make_old(base_path)
    write_as_hudi(base_path, range(12, 15))
    return base_path


@pytest.fixture
def copy(old_table: str, tmp_path: Path) -> str:
    return shutil.copytree(old_table, str(tmp_path / "t"))


# --- right times ------------------------------------------------------------------------------------------------------


@each_pair(zone=(EAST, WEST), table_version=(9, 8, 6), indirect=["table_version"])
def test_times_are_those_of_the_table_in_any_zone(
    tmp_path: Path, zone: str, table_version: int, caplog: pytest.LogCaptureFixture
) -> None:
    base_path = str(tmp_path / "t")
    began = datetime.now(UTC) - SKEW
    with in_zone(zone):
        init_table(base_path)
        for number in range(12):
            upsert(base_path, number)
    ended = datetime.now(UTC) + SKEW
    names = [Path(path).name for path in files_below(tmp_path / "t/.hoodie")]
    times = {time for name in names for time in re.findall(r"(?<!\d)(2\d{16})", name)}
    assert len(times) >= 12
    assert [time for time in times if not began <= parse_instant_time(time) <= ended] == []
    assert warnings_of(caplog, "clock") == []
    assert is_read(base_path)
    assert read_rows(base_path) == expected(12)


@pytest.mark.parametrize("zone", [EAST, WEST])
def test_a_healthy_metadata_table_is_read_and_kept(tmp_path: Path, zone: str, caplog: pytest.LogCaptureFixture) -> None:
    base_path = str(tmp_path / "t")
    archiving = {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4, "hoodie.cleaner.commits.retained": 2}
    with in_zone(zone):
        init_table(base_path)
        for number in range(3):
            upsert(base_path, number, **OFF)
        for number in range(3, 24):
            upsert(base_path, number, **INDEXED, **archiving)
        with local_client(base_path, INDEXED) as client:
            client.rollback(newest_write(base_path))
            client.savepoint(newest_write(base_path))
        upsert(base_path, 23, **INDEXED, **archiving)
    assert first_misplaced_time(loaded(base_path)) is None
    assert is_read(base_path)
    assert validate(base_path).is_right
    assert warnings_of(caplog, "built anew") == []


def test_a_writer_whose_clock_is_ahead_is_none_of_another_zone(tmp_path: Path) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=2)

    base_path = init_table(tmp_path / "t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hoodie.common.table.timeline.active_timeline.datetime", Ahead)
        for number in range(12):
            upsert(base_path, number)
    assert first_misplaced_time(loaded(base_path)) is None
    assert validate(base_path).is_right
    upsert(base_path, 12)
    assert first_misplaced_time(loaded(base_path)) is None
    assert is_read(base_path)


# --- times of another zone --------------------------------------------------------------------------------------------


def test_a_metadata_table_of_another_zone_hides_rows_and_is_not_read(copy: str) -> None:
    assert read_by_hudi_rs(copy) == expected(12)
    assert not is_read(copy)
    assert read_rows(copy) == expected(15)


def test_the_next_write_builds_it_anew(copy: str, caplog: pytest.LogCaptureFixture) -> None:
    upsert(copy, 15)
    (line,) = warnings_of(caplog, "built anew:")
    assert "(files)" in line
    assert is_read(copy)
    assert read_rows(copy) == read_by_hudi_rs(copy) == expected(16)
    assert validate(copy).is_right
    check_equals_a_new_one(copy)
    caplog.clear()
    upsert(copy, 16)
    assert warnings_of(caplog, "metadata table") == []


def test_validate_names_the_times(copy: str) -> None:
    before = {path: Path(copy, path).read_bytes() for path in files_below(copy)}
    result = validate(copy, "files")
    assert {path: Path(copy, path).read_bytes() for path in files_below(copy)} == before
    found = [one for one in result.differences if one.partition == "timeline"]
    assert not result.is_right
    assert {one.kind for one in found} == {MetadataDifferenceKind.DIFFERENT}
    assert len(found) == result.difference_counts["timeline"] >= 14
    assert "deltacommit 00000000000000000" in {one.name for one in found}


def test_it_is_told_once_all_its_commits_are_archived(copy: str) -> None:
    files = loaded(copy)
    timelines = [files.table.active_timeline, files.snapshot.active_timeline]
    first = max(one.requested_time for one in timelines[0])
    later = timelines[0].clock() + timedelta(hours=9)
    snapshots = []
    for snapshot, timeline in zip((files.table, files.snapshot), timelines, strict=True):
        kept = timeline.filter(lambda one: one.requested_time >= first)
        kept = attrs.evolve(timeline, instants=list(kept), clock=lambda: later)
        snapshots.append(attrs.evolve(snapshot, active_timeline=kept))
    assert [one.action for one in snapshots[1].active_timeline.filter_completed_instants()] == ["deltacommit", "commit"]
    found = first_misplaced_time(attrs.evolve(files, table=snapshots[0], snapshot=snapshots[1]))
    assert found is not None
    assert "last changed" in str(found)


def test_a_build_in_the_west_that_is_older_than_commits_it_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base_path = init_table(tmp_path / "t")
    for number in range(3):
        upsert(base_path, number, **OFF)
    with in_zone(WEST), times_of_the_process(), mending_nothing():
        upsert(base_path, 3)
    assert "which it holds" in str(first_misplaced_time(loaded(base_path)))
    assert not is_read(base_path)
    upsert(base_path, 4)
    assert len(warnings_of(caplog, "built anew:")) == 1
    assert is_read(base_path)
    check_equals_a_new_one(base_path)
    assert validate(base_path).is_right


def test_it_stays_while_a_writer_is_at_work(copy: str, caplog: pytest.LogCaptureFixture) -> None:
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.auto.commit": False,
    }
    with local_client(copy, ON | several) as other:
        with mending_nothing():
            result = other.upsert(rows(("k20", "x", 20)))
        upsert(copy, 15, **several | {"hoodie.auto.commit": True})
        assert result.instant_time in warnings_of(caplog, "at work")[0]
        assert not is_read(copy)
        assert read_rows(copy) == expected(16)
        other.commit(result.instant_time, result)
    upsert(copy, 16)
    assert is_read(copy)
    assert read_rows(copy) == read_by_hudi_rs(copy) == sorted([*expected(17), ("k20", "x", 20)])


# --- indexes of keys --------------------------------------------------------------------------------------------------


def test_indexes_of_keys_are_left_to_an_indexing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base_path = str(tmp_path / "t")
    make_old(base_path, **INDEXED)
    with in_zone(EAST), mending_nothing(), local_client(base_path, INDEXED) as client:
        client.create_index("idx_ts", "ts")
    write_as_hudi(base_path, range(12, 15), **INDEXED)
    with local_client(base_path, INDEXED) as client, pytest.raises(HoodieIndexException, match="may hide rows"):
        client.schedule_indexing(["column_stats"])
    # Keys that the index hides are updated, not inserted again.
    upsert(base_path, 14, **INDEXED)
    assert read_rows(base_path) == expected(15)
    assert listed_partitions(base_path) == ("files",)
    (line,) = warnings_of(caplog, "built anew:")
    (call,) = re.findall(r"client\.index\('(\d{17})'\)", line)
    assert "record_index, secondary_index_idx_ts is missing" in line
    caplog.clear()
    upsert(base_path, 13, **INDEXED)
    assert call in warnings_of(caplog, "no record index")[0]
    assert listed_partitions(base_path) == ("files",)
    with local_client(base_path, INDEXED) as client:
        client.index(call)
    assert listed_partitions(base_path) == ("files", "record_index", "secondary_index_idx_ts")
    upsert(base_path, 15, **INDEXED)
    assert read_rows(base_path) == read_by_hudi_rs(base_path) == expected(16)
    assert validate(base_path).is_right
    assert hoodie.read_table(base_path, filters=[("ts", "=", 14)]).num_rows == 1


# --- a death at any moment --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("faulty_storage")
@pytest.mark.parametrize("dies", [True, False])
def test_a_write_that_fails_at_any_call_while_it_builds_anew(tmp_path: Path, dies: bool) -> None:
    template = str(tmp_path / "template")
    make_old(template, **INDEXED)
    write_as_hudi(template, range(12, 14), **INDEXED)
    base_path = str(tmp_path / "t")

    def attempt(faults: Faults) -> None:
        shutil.rmtree(base_path, ignore_errors=True)
        shutil.copytree(template, base_path)
        error = run_with_faults(faults, lambda: upsert(base_path, 14, **INDEXED))
        assert faults.fired or error is None, error
        done = expected(15 if error is None else 14)
        found = read_rows(base_path)
        assert found in (done, expected(15)), faults
        upsert(base_path, 14, **INDEXED)
        assert read_rows(base_path) == read_by_hudi_rs(base_path) == expected(15)
        assert is_read(base_path)
        for instant in TableSnapshot.load(base_path).active_timeline.filter_actions(Action.INDEXING).filter_pending():
            with local_client(base_path, INDEXED) as client:
                client.index(instant.requested_time)
        assert validate(base_path).is_right
        assert listed_partitions(base_path) == ("files", "record_index")

    recorded = Faults()
    attempt(recorded)
    for number, how in list(faults_of(recorded.calls, dies))[::7]:
        attempt(Faults(number, how, dies))
