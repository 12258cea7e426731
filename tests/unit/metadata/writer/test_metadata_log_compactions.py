"""Log compactions of metadata tables: when they are due, what they make, who reads it, and how it is taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieKey
from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.fs.file_names import make_log_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.compaction_plans import LOG_COMPACTION_STRATEGY, completed_log_compactions
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieException
from hoodie.io.log import log_block_scanner
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.metadata import HoodieBackedTableMetadata, validate
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.metadata.reader.metadata_record_reader import MetadataSliceReader
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.writer import metadata_log_compaction
from hoodie.metadata.writer.compaction_planning import log_compaction_held_back_by
from hoodie.metadata.writer.metadata_log_compaction import MetadataLogCompactor
from hoodie.metadata.writer.metadata_table_services import MetadataTableCompactor
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.metadata.writer.taken_back import withdraw_delta_commit
from tests.support.metadata_table_checks import check_equals_a_new_one
from tests.support.metadata_table_records import Records, opened, records_of, uncomplete_last_commit
from tests.support.services_table import ServicesTable
from tests.support.table_builder import read_rows

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.metadata.compact.max.delta.commits": 50,
}
THREE = {
    **ON,
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": 3,
}
pytestmark = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
BESIDE = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
MERGED = {"files", "bloom_filters", "record_index"}
"""The partitions whose log files are merged."""


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    return ServicesTable(tmp_path / "t")


def write(table: ServicesTable, *keys: str, **properties: Any) -> str:
    with table.client(**{**THREE, **properties}) as client:
        time: str = table.upsert(*keys, client=client)
    return time


def delete(table: ServicesTable, *keys: str) -> None:
    with table.client(**THREE) as client:
        result = client.delete([HoodieKey(key, "x") for key in keys])
    assert result.service_errors == ()


def log_compactions(table: ServicesTable) -> list[HoodieInstant]:
    return list(completed_log_compactions(opened(table.base_path).files.snapshot.active_timeline))


def pending(table: ServicesTable) -> list[str]:
    timeline = opened(table.base_path).files.snapshot.active_timeline
    return sorted(timeline.filter_actions(Action.LOG_COMPACTION).filter_pending().times)


def slices_of(table: ServicesTable, partition: str) -> list[FileSlice]:
    return [part for parts in opened(table.base_path).files.file_groups(partition).values() for part in parts]


def log_compacted(table: ServicesTable) -> HoodieInstant:
    """Three delta commits, of which the last one is followed by a log compaction."""
    write(table, "a", "b", "c", "d")
    delete(table, "b")
    assert log_compactions(table) == []
    write(table, "a", "e")
    (done,) = log_compactions(table)
    return done


def merged_by_hudi(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> Records:
    """What readers find that merge all blocks, as Hudi does by default."""
    with monkeypatch.context() as patch:
        patch.setattr(log_block_scanner, "compacted_instants", lambda blocks: [])
        patch.setattr(MetadataTableFiles, "log_compactions", frozenset())
        DECODED_FILES.clear()
        found = records_of(opened(table.base_path))
    DECODED_FILES.clear()
    return found


# --- what it makes ----------------------------------------------------------------------------------------------------


def test_it_is_due_after_some_delta_commits(table: ServicesTable) -> None:
    done = []
    for number in range(9):
        write(table, f"k{number}", "shared")
        done.append(len(log_compactions(table)))
        assert validate(str(table.base_path)).is_right
    assert done == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert len(read_rows(table.base_path)) == 10
    check_equals_a_new_one(table.base_path)


def test_there_is_none_without_the_option(table: ServicesTable) -> None:
    for number in range(5):
        write(table, f"k{number}", hoodie__metadata__log__compaction__enable="false")
    assert log_compactions(table) == []


def test_it_has_the_files_of_one_of_hudi(table: ServicesTable, table_version: int) -> None:
    write(table, "a", "b", "c", "d")
    delete(table, "b")
    before = {path: slices_of(table, path) for path in MERGED}
    last = write(table, "a", "e")
    (done,) = log_compactions(table)
    time, metadata = done.requested_time, opened(table.base_path)
    timeline = metadata.files.snapshot.active_timeline
    assert time == f"{last}005" if table_version == 6 else len(time) == 17 and time > last
    folder = Path(timeline.layout.active_path(str(table.base_path / ".hoodie/metadata/.hoodie")))
    assert (folder / f"{time}.logcompaction.inflight").read_bytes() == b""
    requested = HoodieInstant(time, Action.LOG_COMPACTION, State.REQUESTED)
    plan = timeline.read_as(requested, HoodieCompactionPlan)
    assert (plan.version, plan.preserve_hoodie_metadata) == (2, True)
    assert plan.strategy == LOG_COMPACTION_STRATEGY
    assert {operation.partition_path for operation in plan.operations} == MERGED
    commit = timeline.read_commit_metadata(done)
    assert (commit.compacted, commit.operation_type) == (True, WriteOperationType.LOG_COMPACT)
    assert SCHEMA_KEY in commit.extra_metadata
    groups = {part.file_id: part for path in MERGED for part in before[path]}
    for stat in commit.write_stats:
        group = groups[stat.file_id]
        assert stat.prev_commit == group.base_instant_time
        assert stat.total_log_files_compacted == 3
        path = table.base_path / ".hoodie/metadata" / str(stat.path)
        assert stat.file_size_bytes == path.stat().st_size
        old = len(group.log_files) + 1
        version = old + 1 if table_version == 6 else 1
        named = group.base_instant_time if table_version == 6 else time
        assert path.name.startswith(f".{stat.file_id}_{named}.log.{version}_")
        assert path.name == (stat.log_files or ())[-1]
        assert len(stat.log_files or ()) == version
        with open_log_file(metadata.files.snapshot.storage, str(path)) as file:
            headers = [block.headers for block in file.stored_blocks()]
        assert len(headers) == (2 if stat.partition_path == "record_index" else 1)
        for one in headers:
            assert one[HeaderMetadataType.INSTANT_TIME] == time
            assert one[HeaderMetadataType.SCHEMA] == with_meta_columns(commit.extra_metadata[SCHEMA_KEY])
            instants = one[HeaderMetadataType.COMPACTED_BLOCK_TIMES].split(",")
            assert (instants[-1], len(instants), instants) == (last, 3, sorted(instants))
    assert not list((table.base_path / ".hoodie/metadata/.hoodie").glob(".temp/*"))


def config_of(table: ServicesTable, **properties: Any) -> HoodieMetadataConfig:
    with table.client(**{**THREE, **properties}) as client:
        return client.config.metadata


def test_no_reader_finds_another_record(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    with table.client(**ON, hoodie__metadata__compact__max__delta__commits=2) as client:
        table.upsert("a", "b", "c", "d", client=client)
        table.upsert("a", client=client)
    with table.client(**ON, hoodie__cleaner__commits__retained=1) as client:
        client.delete([HoodieKey("b", "x"), HoodieKey("c", "x")])
        table.upsert("a", "e", client=client)
        # A file that the base file lists, and one that log files list.
        (clean,) = [client.clean()]
        table.upsert("b", client=client)
        client.clean()
    assert clean is not None
    (part,) = slices_of(table, "files")
    assert part.base_file is not None
    metadata = opened(table.base_path)
    before, old = records_of(metadata), scanned(table, "files")
    assert MetadataLogCompactor(metadata, config_of(table)).compact_if_due()
    assert records_of(HoodieBackedTableMetadata.open(metadata.table)) == before
    # In versions 8 and 9 readers take it as soon as a later instant begins.
    table.leave_pending("z")
    assert records_of(opened(table.base_path)) == before
    assert merged_by_hudi(table, monkeypatch) == before
    assert len(old) >= 4
    assert scanned(table, "files") == [log_compactions(table)[-1].requested_time]
    assert "record_index" in {
        operation.partition_path for operation in plan_of(table, log_compactions(table)[-1]).operations
    }


def scanned(table: ServicesTable, partition: str) -> list[str]:
    """The instants of the log blocks of the first file group that count."""
    metadata = opened(table.base_path)
    reader = MetadataLogCompactor(metadata, None)._reader(partition)  # type: ignore[arg-type]
    (part,) = slices_of(table, partition)
    return [
        str(block.instant_time)
        for block in reader.log_scanner(reader.without_unneeded_log_files(part)).counted_blocks()
    ]


def test_the_next_one_takes_the_log_file_of_the_last_one(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    first = log_compacted(table)
    for number in range(3):
        write(table, f"k{number}")
    assert len(log_compactions(table)) == 2
    second = log_compactions(table)[-1]
    write(table, "z")
    blocks = scanned(table, "files")
    assert blocks[-2] == second.requested_time
    assert first.requested_time not in blocks
    assert len(blocks) <= 3
    assert merged_by_hudi(table, monkeypatch) == records_of(opened(table.base_path))
    check_equals_a_new_one(table.base_path)


def test_ranges_of_columns_are_left_to_compactions(table: ServicesTable) -> None:
    """Readers of Hudi that merge all blocks would add up their counts."""
    done = log_compacted(table)
    others = {*opened(table.base_path).partitions} - MERGED
    assert "column_stats" in others
    assert all(len(part.log_files) >= 3 for path in others for part in slices_of(table, path))
    assert not others & {operation.partition_path for operation in plan_of(table, done).operations}


def test_listings_with_deletes_of_keys_are_left_to_compactions(table: ServicesTable) -> None:
    """A record after such a delete would be united with that of the base file."""
    write(table, "a")
    write(table, "b", hoodie__metadata__log__compaction__enable="false")
    metadata = opened(table.base_path)
    (part,) = slices_of(table, "files")
    schema = with_meta_columns(newest_record_schema(metadata.files.snapshot))
    time = table.leave_pending("c")
    content = b"".join(encode_delete_blocks(pa.array(["gone"]), pa.array(["files"]), None, schema, time))
    add_delta_commit(table, time, part, content)
    write(table, "d")
    assert log_compactions(table)
    plan = plan_of(table, log_compactions(table)[-1])
    assert {operation.partition_path for operation in plan.operations} == MERGED - {"files"}


def plan_of(table: ServicesTable, instant: HoodieInstant) -> HoodieCompactionPlan:
    timeline = opened(table.base_path).files.snapshot.active_timeline
    requested = HoodieInstant(instant.requested_time, Action.LOG_COMPACTION, State.REQUESTED)
    return timeline.read_as(requested, HoodieCompactionPlan)


def add_delta_commit(table: ServicesTable, time: str, part: FileSlice, content: bytes) -> None:
    """Complete a pending commit that adds a log file to a file group of the metadata table."""
    timeline = opened(table.base_path).files.snapshot.active_timeline
    named = time if timeline.layout.has_completion_times else part.base_instant_time
    version = 1 if named == time else 1 + max((log.version for log in part.log_files), default=0)
    name = make_log_file_name(part.file_id, named, version, "0-0-0")
    (table.base_path / ".hoodie/metadata" / part.partition_path / name).write_bytes(content)
    assert timeline.create_requested(time, Action.DELTA_COMMIT)
    assert timeline.transition_requested_to_inflight(time, Action.DELTA_COMMIT)
    extra = {SCHEMA_KEY: newest_record_schema(opened(table.base_path).files.snapshot)}
    metadata = HoodieCommitMetadata({}, extra, WriteOperationType.UPSERT_PREPPED)
    assert timeline.save_as_complete(time, Action.DELTA_COMMIT, metadata)
    data = table.load().active_timeline
    assert data.save_as_complete(time, Action.COMMIT, HoodieCommitMetadata({}, {}, WriteOperationType.UPSERT))


def test_large_log_files_are_left_to_compactions(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log_compaction, "_MOST_BYTES", 1000)
    for number in range(4):
        write(table, f"k{number}")
    assert log_compactions(table) == []


# --- what holds it back -----------------------------------------------------------------------------------------------


def test_records_of_a_commit_that_may_fail_get_into_no_log_compaction(table: ServicesTable) -> None:
    for number in range(3):
        write(table, f"k{number}", hoodie__metadata__log__compaction__enable="false")
    time, path, content = uncomplete_last_commit(table.base_path)
    metadata = opened(table.base_path)
    config = config_of(table)
    assert [instant.requested_time for instant in log_compaction_held_back_by(metadata.files)] == [time]
    assert not MetadataLogCompactor(metadata, config).compact_if_due()
    path.write_bytes(content)
    assert MetadataLogCompactor(opened(table.base_path), config).compact_if_due()


def test_one_that_holds_a_pending_commit_does_not_count(table: ServicesTable) -> None:
    """Hudi makes such ones. They go with the commit."""
    write(table, "a", "b")
    delete(table, "b")
    before = records_of(opened(table.base_path))
    write(table, "c")
    (done,) = log_compactions(table)
    timeline = table.load().active_timeline
    # Readers take log compactions of versions 8 and 9 once a later instant begins.
    assert timeline.create_requested(f"{int(done.newest_time[:17]) + 1}", Action.COMMIT)
    assert scanned(table, "files") == [done.requested_time]
    time, path, content = uncomplete_last_commit(table.base_path)
    assert done.requested_time not in scanned(table, "files")
    assert records_of(opened(table.base_path)) == before
    path.write_bytes(content)
    assert records_of(opened(table.base_path)) != before
    path.unlink()
    assert withdraw_delta_commit(opened(table.base_path).files, time)
    assert log_compactions(table) == []
    assert records_of(opened(table.base_path)) == before


def test_a_pending_write_holds_it_back(table: ServicesTable) -> None:
    """Its log files would be merged before that of the log compaction, though they are newer."""
    write(table, "a")
    with table.client(**{**THREE, **BESIDE}) as late:
        time = late.start_commit()
        write(table, "b", **BESIDE)
        write(table, "c", **BESIDE)
        assert log_compactions(table) == []
        late.upsert(rows_of_one("p", "y"), time)
        assert len(log_compactions(table)) == 1
    write(table, "d")
    check_equals_a_new_one(table.base_path)


def test_log_files_are_merged_in_their_order_beside_log_compactions_of_hudi(
    table: ServicesTable, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi makes one though an older instant is pending; in versions 8 and 9 that one's log file comes before it."""
    write(table, "a")
    write(table, "b")
    with monkeypatch.context() as patch, table.client(**{**THREE, **BESIDE}) as early:
        patch.setattr("hoodie.metadata.writer.compaction_planning._pending", lambda files: [])
        patch.setattr("hoodie.metadata.writer.compaction_planning.held_back_by", lambda files: [])
        first = early.start_commit()
        with table.client(**{**THREE, **BESIDE}) as late:
            second = late.start_commit()
            early.upsert(rows_of_one("c"), first)
            (done,) = log_compactions(table)
            late.upsert(rows_of_one("d", "y"), second)
    assert scanned(table, "record_index")[-2:] == [done.requested_time, second]
    if table_version > 6:
        assert first < second < done.requested_time
        (part,) = slices_of(table, "record_index")
        reader = MetadataSliceReader.of(opened(table.base_path).files, MetadataPayload.RECORD_INDEX)
        assert len(reader.without_unneeded_log_files(part).log_files) == len(part.log_files) - 1
    check_equals_a_new_one(table.base_path)


# --- around it --------------------------------------------------------------------------------------------------------


def mark(table: ServicesTable) -> Path:
    """A file that is gone when the metadata table is built anew."""
    path = table.base_path / ".hoodie/metadata/.hoodie/mark"
    path.touch()
    return path


def test_a_rollback_of_a_commit_takes_the_log_compaction_back_that_merged_it(table: ServicesTable) -> None:
    done, marked = log_compacted(table), mark(table)
    newest = table.load().active_timeline.completed_writes().instants[-1].requested_time
    with table.client(**THREE) as client:
        client.rollback(newest)
    assert marked.exists()
    assert log_compactions(table) == []
    assert pending(table) == []
    assert not [path for path in (table.base_path / ".hoodie").rglob("*") if done.requested_time in path.name]
    assert validate(str(table.base_path)).is_right
    assert sorted(row[0] for row in read_rows(table.base_path)) == ["a", "c", "d"]
    for number in range(3):
        write(table, f"k{number}")
    assert log_compactions(table)
    check_equals_a_new_one(table.base_path)


def test_a_restore_takes_log_compactions_back(table: ServicesTable) -> None:
    write(table, "a")
    time = write(table, "b")
    for number in range(6):
        write(table, f"k{number}", "a")
    assert len(log_compactions(table)) == 2
    with table.client(**THREE) as client:
        client.restore_to_instant(time)
    assert sorted(row[0] for row in read_rows(table.base_path)) == ["a", "b"]
    for number in range(4):
        write(table, f"m{number}", "b")
        assert validate(str(table.base_path)).is_right
    check_equals_a_new_one(table.base_path)


def test_a_compaction_takes_the_log_file(table: ServicesTable, table_version: int) -> None:
    done = log_compacted(table)
    at_once = config_of(table, hoodie__metadata__compact__max__delta__commits=1)
    assert MetadataTableCompactor(opened(table.base_path), at_once).compact_if_due()
    timeline = opened(table.base_path).files.snapshot.active_timeline
    (compaction,) = timeline.filter_actions(Action.COMMIT).filter_completed_instants()
    if table_version == 6:
        # It is named by the delta commit, also where a log compaction followed that.
        assert compaction.requested_time == done.requested_time[:17] + "001"
    else:
        assert compaction.requested_time > done.requested_time
    table.leave_pending("p")
    assert all(not part.log_files for part in slices_of(table, "files"))
    assert validate(str(table.base_path)).is_right
    write(table, "k")
    check_equals_a_new_one(table.base_path)


def test_they_are_cleaned_and_archived(table: ServicesTable, table_version: int) -> None:
    few = {
        **THREE,
        "hoodie.metadata.compact.max.delta.commits": 5,
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
    }
    first: list[HoodieInstant] = []
    lengths: set[int] = set()
    with table.client(**few) as client:
        for number in range(24):
            table.upsert(f"k{number % 4}", client=client)
            first = first or log_compactions(table)
            client.clean()
            client.archive()
            assert validate(str(table.base_path)).is_right, number
            lengths |= {len(one.requested_time) for one in opened(table.base_path).files.snapshot.active_timeline}
    # In version 6 compactions and cleans are named by delta commits, though a log compaction may be the newest one.
    assert lengths == ({17, 20} if table_version == 6 else {17})
    timeline = opened(table.base_path).files.snapshot.active_timeline
    assert first
    assert timeline.find(first[0].requested_time) is None
    assert not [path for path in (table.base_path / ".hoodie/metadata").rglob(f"*{first[0].requested_time}*.log*")]
    assert len(slices_of(table, "files")[0].log_files) < 9
    check_equals_a_new_one(table.base_path)


@pytest.mark.parametrize("dies_at", ["begin", "complete"])
def test_what_a_dead_writer_left_is_taken_back_by_the_next_one(
    table: ServicesTable, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise HoodieException("dead")

    write(table, "a", "b")
    delete(table, "b")
    with monkeypatch.context() as patch:
        if dies_at == "begin":
            patch.setattr(metadata_log_compaction.PlannedCompaction, "begin", die)
        else:
            patch.setattr(metadata_log_compaction, "complete", die)
        with table.client(**THREE) as client:
            result = client.upsert(rows_of_one("c"))
    assert "dead" in result.service_errors[0]
    (left,) = pending(table)
    before = records_of(opened(table.base_path))
    assert validate(str(table.base_path)).is_right
    # Also by a writer that wants no log compactions.
    write(table, "d", hoodie__metadata__log__compaction__enable="false")
    assert pending(table) == []
    assert not [path for path in (table.base_path / ".hoodie").rglob("*") if left in path.name]
    assert records_of(opened(table.base_path)).keys() == before.keys()
    check_equals_a_new_one(table.base_path)


def rows_of_one(key: str, region: str = "x") -> pa.Table:
    return pa.table({"id": [key], "region": [region], "ts": pa.array([1000], pa.int64())})
