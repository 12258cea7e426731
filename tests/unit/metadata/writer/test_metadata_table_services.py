"""Compactions of metadata tables that real Hudi wrote."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import pyarrow as pa
import pytest

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.fs.file_names import make_log_file_name, parse_base_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.common.table.compaction_plans import delta_commits_to_compact
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, State
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieMetadataException,
    HoodieMissingFileException,
)
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.hfile_block_writer import encode_hfile_block
from hoodie.metadata import HoodieBackedTableMetadata, validate
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values, encode_values
from hoodie.metadata.writer import metadata_table_services
from hoodie.metadata.writer.compaction_planning import held_back_by
from hoodie.metadata.writer.metadata_table_services import MetadataTableCompactor
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.metadata.writer.taken_back import withdraw_delta_commit
from tests.support.hookable_storage import Faults, FaultyStorage, faults_of, run_with_faults, use_for_local_files
from tests.support.metadata_table_records import opened, records_of, uncomplete_last_commit
from tests.support.metadata_tampering import copied, tables_with_metadata

T, R = TypeVar("T"), TypeVar("R")
AT_ONCE = HoodieMetadataConfig(compact_max_delta_commits=1)
SMALL = ("metadata_6", "v8_cow_mdt", "v9_cow_mdt")
"""Tables of versions 6, 8 and 9."""


def compact(table: Path, config: HoodieMetadataConfig = AT_ONCE) -> bool:
    return MetadataTableCompactor(opened(table), config).compact_if_due()


@pytest.fixture(params=SMALL)
def table(request: pytest.FixtureRequest, later_tables: Path, tmp_path: Path) -> Path:
    name = str(request.param)
    return copied(later_tables / name / name, tmp_path)


def let_readers_see_it(table: Path) -> None:
    """In versions 8 and 9 readers take a compaction as soon as anything in the table is later: a commit begins."""
    snapshot = opened(table).files.snapshot
    newest = max(instant.newest_time for instant in snapshot.active_timeline)
    begin(table, f"{int(newest[:17]) + 1}")


def pending_compactions(table: Path) -> list[str]:
    timeline = opened(table).files.snapshot.active_timeline
    return [instant.requested_time for instant in timeline.filter_actions(Action.COMPACTION).filter_pending()]


# --- what a compaction makes ------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
def test_compacted_metadata_tables_of_real_hudi_say_what_they_said(
    shared_tables: Path, later_tables: Path, tmp_path: Path
) -> None:
    compacted: Counter[int] = Counter()
    held: set[str] = set()
    for number, source in enumerate(tables_with_metadata(shared_tables, later_tables)):
        table = copied(source, tmp_path / str(number))
        metadata = opened(table)
        before, differences = records_of(metadata), validate(str(table)).differences
        if held_back_by(metadata.files):
            held.add(table.name)
            assert not compact(table)
            continue
        has_news = bool(delta_commits_to_compact(metadata.files.snapshot.active_timeline))
        assert compact(table) == has_news, table
        assert records_of(opened(table)) == before, table
        # One who loaded the table before the compaction.
        assert records_of(HoodieBackedTableMetadata.open(metadata.table)) == before, table
        let_readers_see_it(table)
        assert records_of(opened(table)) == before, table
        assert validate(str(table)).differences == differences, table
        assert not compact(table)
        slices = [part for path in before for parts in opened(table).files.file_groups(path).values() for part in parts]
        assert not has_news or not any(part.log_files for part in slices if part.base_file is not None), table
        compacted[metadata.table.table_config.table_version] += has_news
    assert compacted[6] >= 7
    assert compacted[8] >= 3
    assert compacted[9] >= 9
    assert held == {"dn_v6_mor_mdt_6", "hmdt_crash", "v9_mor_rollback_pending"}


def test_a_compaction_has_the_files_of_one_of_hudi(table: Path) -> None:
    metadata = opened(table)
    files, version = metadata.files, metadata.table.table_config.table_version
    last = delta_commits_to_compact(files.snapshot.active_timeline)[-1]
    assert compact(table)
    timeline = opened(table).files.snapshot.active_timeline
    done = timeline.filter_actions(Action.COMMIT).filter_completed_instants().last_instant
    assert done is not None
    time = done.requested_time
    if version == 6:
        assert time == f"{last.requested_time}001"
    else:
        known = [instant.newest_time for one in (files.snapshot, metadata.table) for instant in one.active_timeline]
        assert len(time) == 17
        assert time > max(known)
    folder = Path(timeline.layout.active_path(str(table / ".hoodie/metadata/.hoodie")))
    assert (folder / f"{time}.compaction.requested").exists()
    assert (folder / f"{time}.compaction.inflight").read_bytes() == b""
    requested = done.in_state(State.REQUESTED)
    requested = attrs.evolve(requested, action=Action.COMPACTION, completion_time=None)
    plan = timeline.read_as(requested, HoodieCompactionPlan)
    assert plan.version == 2
    assert all("TOTAL_LOG_FILES_SIZE" in (operation.metrics or {}) for operation in plan.operations)
    assert len(plan.operations) == sum(
        len(part.log_files) > 0 for path in metadata.partitions for part in files.file_groups(path)[None]
    )
    commit = timeline.read_commit_metadata(done)
    assert commit.compacted
    assert commit.operation_type is WriteOperationType.COMPACT
    assert commit.extra_metadata == {SCHEMA_KEY: timeline.read_commit_metadata(last).extra_metadata[SCHEMA_KEY]}
    old = {part.file_id: part for path in metadata.partitions for part in files.file_groups(path)[None]}
    for stat in commit.write_stats:
        path = table / ".hoodie/metadata" / str(stat.path)
        reader = HFileReader.of_bytes(path.read_bytes(), str(path))
        assert stat.file_size_bytes == stat.total_write_bytes == path.stat().st_size
        assert stat.num_writes == reader.entry_count
        base = old[stat.file_id].base_file
        assert stat.prev_commit == (NULL_COMMIT if base is None else old[stat.file_id].base_instant_time)
        entries = reader.read_all().combine_chunks()
        schema = str(reader.avro_schema)
        assert schema == with_meta_columns(commit.extra_metadata[SCHEMA_KEY])
        # Hudi fills the name of the base file into its records.
        payload = metadata.payload_of(stat.partition_path)
        rows = decode_values(entries["value"].chunk(0), schema, payload)
        assert entries["value"].chunk(0) == encode_values(rows, schema, payload, path.name)
    # Groups without any record stay without a base file, as with Hudi.
    with_base = {stat.file_id for stat in commit.write_stats}
    assert {part.file_id for part in old.values() if part.base_file is not None and part.log_files} <= with_base
    assert not list((table / ".hoodie/metadata/.hoodie").glob(".temp/*"))


def test_it_is_due_after_some_delta_commits(table: Path) -> None:
    count = len(delta_commits_to_compact(opened(table).files.snapshot.active_timeline))
    assert count > 2
    assert not compact(table, HoodieMetadataConfig(compact_max_delta_commits=count + 1))
    assert compact(table, HoodieMetadataConfig(compact_max_delta_commits=count))
    assert HoodieMetadataConfig().compact_max_delta_commits == 10


def test_groups_without_any_record_get_no_base_file(shared_tables: Path, tmp_path: Path) -> None:
    """As with Hudi: a record index has such groups."""
    source = next(table for table in tables_with_metadata(shared_tables) if "record_index" in opened(table).partitions)
    table = copied(source, tmp_path)
    before = opened(table).files.file_groups("record_index")[None]
    assert compact(table)
    after = opened(table).files.file_groups("record_index")[None]
    assert [part.base_instant_time for part in after] == [part.base_instant_time for part in before]
    assert 0 < sum(part.base_file is not None for part in after) < len(after)


def test_a_group_that_loses_all_records_gets_an_empty_base_file(table: Path) -> None:
    metadata = opened(table)
    part = metadata.files.file_groups("files")[None][0]
    keys = pa.array(list(records_of(metadata)["files"]))
    schema = with_meta_columns(newest_record_schema(metadata.files.snapshot))
    time = f"{int(metadata.files.snapshot.active_timeline.completed_writes().instants[-1].newest_time) + 7}"
    blocks = encode_delete_blocks(keys, pa.repeat("files", len(keys)), None, schema, time)
    begin(table, time)
    add_delta_commit(table, time, part, b"".join(blocks))
    assert compact(table)
    let_readers_see_it(table)
    metadata = opened(table)
    part = metadata.files.file_groups("files")[None][0]
    assert part.base_file is not None
    assert HFileReader.of_bytes(Path(part.base_file.path).read_bytes(), "").entry_count == 0
    assert records_of(metadata)["files"] == {}


class EachTaskTwice(LocalEngineContext):
    """Runs a second attempt of each task, whose result counts."""

    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        super().run_tasks(items, function)
        return super().run_tasks(items, function)


def test_large_slices_are_compacted_by_tasks(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = records_of(opened(table))
    monkeypatch.setattr(metadata_table_services, "DRIVER_BYTES", 1)
    assert MetadataTableCompactor(opened(table), AT_ONCE, EachTaskTwice()).compact_if_due()
    assert not left_base_files(table)
    let_readers_see_it(table)
    assert records_of(opened(table)) == before


# --- what holds it back -----------------------------------------------------------------------------------------------


def test_records_of_a_commit_that_may_fail_get_into_no_base_file(table: Path) -> None:
    whole = records_of(opened(table))
    time, path, content = uncomplete_last_commit(table)
    metadata = opened(table)
    without = records_of(metadata)
    assert without != whole
    assert [instant.requested_time for instant in held_back_by(metadata.files)] == [time]
    assert not compact(table)
    assert records_of(opened(table)) == without
    # The writer goes on.
    path.write_bytes(content)
    assert compact(table)
    assert records_of(opened(table)) == whole


def test_an_error_names_the_instant_that_holds_it_back_for_too_long(table: Path) -> None:
    time, _, _ = uncomplete_last_commit(table)
    count = len(delta_commits_to_compact(opened(table).files.snapshot.active_timeline))
    assert not compact(
        table, HoodieMetadataConfig(compact_max_delta_commits=1, max_delta_commits_when_pending=count + 1)
    )
    with pytest.raises(
        HoodieMetadataException, match=rf"{count} delta commits, since \w+ {time} is pending .*rollback"
    ):
        compact(table, HoodieMetadataConfig(compact_max_delta_commits=1, max_delta_commits_when_pending=count))
    assert not pending_compactions(table)


def begin(table: Path, time: str) -> None:
    timeline = TableSnapshot.load(str(table)).active_timeline
    assert timeline.create_requested(time, Action.COMMIT)
    assert timeline.transition_requested_to_inflight(time, Action.COMMIT)


def add_delta_commit(table: Path, time: str, part: FileSlice, content: bytes) -> None:
    """Complete a commit that has begun with a log file in a file group: in the metadata table, then in the table."""
    timeline = opened(table).files.snapshot.active_timeline
    by_commit = timeline.layout.has_completion_times
    version = 1 + max((log.version for log in part.log_files), default=0)
    name = make_log_file_name(part.file_id, time if by_commit else part.base_instant_time, version, "0-0-0")
    (table / ".hoodie/metadata" / part.partition_path / name).write_bytes(content)
    assert timeline.create_requested(time, Action.DELTA_COMMIT)
    assert timeline.transition_requested_to_inflight(time, Action.DELTA_COMMIT)
    extra = {SCHEMA_KEY: newest_record_schema(opened(table).files.snapshot)}
    delta_commit = HoodieCommitMetadata({}, extra, WriteOperationType.UPSERT_PREPPED)
    assert timeline.save_as_complete(time, Action.DELTA_COMMIT, delta_commit)
    data = TableSnapshot.load(str(table)).active_timeline
    assert data.save_as_complete(time, Action.COMMIT, HoodieCommitMetadata({}, {}, WriteOperationType.UPSERT))


def complete_with_file(table: Path, time: str) -> str:
    """Complete a commit that has begun, and that adds one file to the listing of the table; the file."""
    metadata = opened(table)
    partition, name = metadata.list_partitions()[0], f"late_0-0-0_{time}.parquet"
    schema = with_meta_columns(newest_record_schema(metadata.files.snapshot))
    row = {"type": 2, "files": [(name, {"size_bytes": 5, "is_deleted": False})]}
    rows = pa.RecordBatch.from_pylist([row], schema=MetadataPayload.FILES.schema)
    values = encode_values(rows, schema, MetadataPayload.FILES)
    part = metadata.files.file_groups("files")[None][0]
    add_delta_commit(table, time, part, encode_hfile_block(pa.array([partition]), values, schema, time))
    return f"{partition}/{name}"


def listed(table: Path) -> set[str]:
    metadata = opened(table)
    found = metadata.list_files_of(metadata.list_partitions())
    return {f"{path}/{file.name}" for path, files in found.items() for file in files}


def middle_time(table: Path) -> str:
    """A time between the last two commits that the metadata table has not compacted, which no instant has."""
    first, second = delta_commits_to_compact(opened(table).files.snapshot.active_timeline)[-2:]
    return str((int(first.requested_time) + int(second.requested_time)) // 2)


def test_a_commit_that_began_before_a_compaction_and_ends_after_it_is_not_lost(table: Path) -> None:
    is_version_6 = opened(table).table.table_config.table_version == 6
    time = middle_time(table)
    begin(table, time)
    before = records_of(opened(table))
    assert compact(table) != is_version_6
    assert records_of(opened(table)) == before
    file = complete_with_file(table, time)
    assert file in listed(table)
    assert compact(table)
    assert file in listed(table)


def test_a_commit_that_began_after_the_newest_delta_commit_holds_nothing_back(table: Path) -> None:
    time = f"{int(delta_commits_to_compact(opened(table).files.snapshot.active_timeline)[-1].newest_time) + 5}"
    begin(table, time)
    assert compact(table)
    file = complete_with_file(table, time)
    assert file in listed(table)
    assert compact(table)
    assert file in listed(table)


def test_what_is_later_than_all_of_the_table_waits(later_tables: Path, tmp_path: Path) -> None:
    """A downgrade leaves such a delta commit, and a restore in table version 6: readers do not take it yet."""
    table = copied(later_tables / "dn_v6_mor_mdt_6/dn_v6_mor_mdt_6", tmp_path)
    assert not compact(table)
    begin(table, "20261122080000000")
    file = complete_with_file(table, "20261122080000000")
    assert compact(table)
    assert file in listed(table)


# --- what is broken ---------------------------------------------------------------------------------------------------


def test_a_missing_base_file_stops_it(table: Path) -> None:
    for path in (table / ".hoodie/metadata/files").glob("*.hfile"):
        path.unlink()
    with pytest.raises(HoodieMissingFileException, match="partition files"):
        compact(table)
    assert not pending_compactions(table)


def test_a_torn_block_of_a_commit_stops_it_before_it_counts(table: Path) -> None:
    metadata = opened(table)
    part = next(part for part in metadata.files.file_groups("files")[None] if part.log_files)
    path = Path(part.log_files[-1].path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HoodieCorruptedDataException, match="it is damaged"):
        compact(table)
    assert len(pending_compactions(table)) == 1


def plan_and_die(table: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Leave a planned compaction behind; its instant time."""

    def die(*_: object, **__: object) -> None:
        raise HoodieException("dead")

    with monkeypatch.context() as patch:
        patch.setattr(MetadataTableCompactor, "_carry_out", die)
        with pytest.raises(HoodieException, match="dead"):
            compact(table)
    (planned,) = pending_compactions(table)
    return planned


def newest_log_file(table: Path) -> Path:
    logs = opened(table).files.file_groups("files")[None][0].log_files
    return Path(logs[-1].path)


def test_a_plan_outlives_the_rollback_of_a_commit_that_it_holds(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, log_file = plan_and_die(table, monkeypatch), newest_log_file(table)
    time, _, _ = uncomplete_last_commit(table)
    metadata = opened(table)
    without = records_of(metadata)
    assert withdraw_delta_commit(metadata.files, time)
    assert not log_file.exists()
    compact(table)
    done = opened(table).files.snapshot.active_timeline.find(planned)
    assert done is not None
    assert done.is_completed
    assert records_of(opened(table)) == without


@pytest.mark.parametrize("table", SMALL[1:], indirect=True)
def test_a_lost_log_file_of_a_plan_stops_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 6 the name of a log file does not tell its write, which may have been rolled back."""
    planned, log_file = plan_and_die(table, monkeypatch), newest_log_file(table)
    log_file.unlink()
    with pytest.raises(HoodieMissingFileException, match=rf"{planned} .* planned with {log_file.name} .*'files'"):
        compact(table)
    assert pending_compactions(table) == [planned]


# --- deaths -----------------------------------------------------------------------------------------------------------


def left_base_files(table: Path) -> set[str]:
    """Base files of the newest compaction that its commit does not name."""
    timeline = opened(table).files.snapshot.active_timeline
    done = timeline.filter_actions(Action.COMMIT).filter_completed_instants().last_instant
    assert done is not None
    named = {str(stat.path).rpartition("/")[2] for stat in timeline.read_commit_metadata(done).write_stats}
    stored = {
        path.name
        for path in (table / ".hoodie/metadata").rglob("*.hfile")
        if (parsed := parse_base_file_name(path.name)) and parsed.instant_time == done.requested_time
    }
    return stored - named


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "torn"])
@pytest.mark.parametrize("name", ["hup_metadata", "dn_v6_mor_mdt_6"])
def test_a_compaction_that_died_anywhere_is_finished_by_the_next_writer(
    later_tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    use_for_local_files(monkeypatch, FaultyStorage)
    # The calls come in one order.
    monkeypatch.setattr(metadata_table_services, "_DRIVER_THREADS", 1)
    source = copied(later_tables / name / name, tmp_path)
    if name == "dn_v6_mor_mdt_6":
        begin(source, "20261122080000000")
        complete_with_file(source, "20261122080000000")
    before = records_of(opened(source))
    counted = Faults()
    run_with_faults(counted, lambda: compact(copied(source, tmp_path / "counted")))
    left: Counter[int] = Counter()
    for number in [number for number, way in faults_of(counted.calls) if way == how]:
        table = copied(source, tmp_path / str(number))
        old, faulty = opened(table), Faults(number, how)
        run_with_faults(faulty, lambda table=table: compact(table))  # type: ignore[misc]
        assert faulty.fired
        assert records_of(opened(table)) == before, counted.calls[number - 1]
        left[len(pending_compactions(table))] += 1
        compact(table)
        assert not pending_compactions(table)
        assert not delta_commits_to_compact(opened(table).files.snapshot.active_timeline), counted.calls[number - 1]
        assert not left_base_files(table), counted.calls[number - 1]
        let_readers_see_it(table)
        assert records_of(opened(table)) == before, counted.calls[number - 1]
        assert records_of(HoodieBackedTableMetadata.open(old.table)) == before, counted.calls[number - 1]
        shutil.rmtree(table)
    assert left[1] >= (1 if how == "torn" else 5)
    assert left[0] >= 1 or how == "torn"
