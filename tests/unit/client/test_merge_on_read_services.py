"""Savepoints, restores, cleaning and archiving of tables with log files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hoodie import stats
from hoodie.avro.service_metadata import HoodieRestoreMetadata
from hoodie.avro.timeline_metadata import decode_record
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieRollbackException, HoodieSavepointException
from tests.support.merge_on_read_table import Block, MergeOnReadTable
from tests.support.timeline_files import archive_files, archived_entries

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
RETAINED = {"hoodie.cleaner.commits.retained": "1"}
KEEP = {**RETAINED, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> MergeOnReadTable:
    """Two base files, and a log file on each."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    return table


def is_of_version_6(table: MergeOnReadTable) -> bool:
    return not table.layout.has_completion_times


def savepointed(table: MergeOnReadTable, **properties: Any) -> list[str]:
    """Paths of the files that a savepoint of the newest commit keeps, in its order."""
    with table.client(**properties) as client:
        found = client.savepoint()
    return [f"{path}/{name}" for path, names in found.files.items() for name in names]


# --- savepoint and restore --------------------------------------------------------------------------------------------


@every_version
def test_a_savepoint_names_base_files_and_log_files_the_newest_first(table: MergeOnReadTable) -> None:
    table.upsert("a")
    files = table.data_files()
    names = savepointed(table)
    assert sorted(names) == files
    x = [name for name in names if name.startswith("x/")]
    assert x[0].endswith(".parquet")
    versions = [name.partition(".log.")[2].partition("_")[0] for name in x[1:]]
    times = [Path(name).name.split("_")[1].split(".")[0] for name in x[1:]]
    assert versions == ["2", "1"] if is_of_version_6(table) else times == sorted(times, reverse=True)
    assert len(x) == 3


@every_version
@pytest.mark.parametrize("compaction", ["none", "pending", "completed"])
def test_a_restore_undoes_delta_commits_and_compactions(table: MergeOnReadTable, compaction: str) -> None:
    rows, files = table.read(), table.data_files()
    names = savepointed(table)
    assert sorted(names) == files
    restored_to = table.load().active_timeline.completed_writes().instants[-1].requested_time
    first = table.upsert("a", "b")
    plan = table.schedule_compaction() if compaction != "none" else None
    if compaction == "completed" and plan is not None:
        table.run_compaction(plan)
    second = table.upsert("a", "c", "new")
    failed = table.leave_pending("b")
    assert table.read() != rows
    with table.client() as client:
        undone = client.restore_to_savepoint(restored_to)
    assert undone == tuple(time for time in (failed, second, plan, first) if time is not None)
    assert table.read() == rows
    left = [i.requested_time for i in table.load().active_timeline.commits_timeline()]
    assert left[-1] == restored_to
    (restore,) = table.instants(Action.RESTORE)
    if is_of_version_6(table):
        commands = table.command_blocks()
        assert {block.target for _, block in commands} >= {first}
        assert {block.instant_time for _, block in commands} == {restore.requested_time}
        assert set(files) <= set(table.data_files())
        assert not [path for path in table.data_files() if path.endswith(".parquet") and path not in files]
        metadata = table.load().active_timeline.read_as(restore, HoodieRestoreMetadata)
        noted = metadata.rollbacks[first][0].partition_metadata["x"].rollback_log_files
        ((path, block),) = [(path, block) for path, block in commands if block.target == first]
        assert noted == {f"file:{table.base_path / path}": (table.base_path / path).stat().st_size}
        assert block == Block("COMMAND", restore.requested_time, first)
    else:
        assert table.data_files() == files and table.command_blocks() == []
    table.upsert("a", "c")
    now = {key: ts for key, _, ts in table.read()}
    assert now["a"] == table._ts and now["b"] == dict((key, ts) for key, _, ts in rows)["b"]


@every_version
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_blocks_of_a_restored_instant_stay_hidden_when_the_timeline_is_archived_past_it(
    table: MergeOnReadTable,
) -> None:
    restored_to = table.load().active_timeline.completed_writes().instants[-1].requested_time
    undone = table.upsert("a", "new")
    with table.client() as client:
        client.restore_to_instant(restored_to)
    for _ in range(6):
        table.upsert("b")
    rows = table.read()
    with table.client(**KEEP) as client:
        client.archive()
    assert undone < table.load().active_timeline.commits_timeline().instants[0].requested_time
    assert table.read() == rows
    assert {key: ts for key, _, ts in rows}["a"] == 3


@every_version
@pytest.mark.parametrize("is_completed", [False, True])
def test_what_a_compaction_follows_is_undone_by_a_restore(table: MergeOnReadTable, is_completed: bool) -> None:
    before = table.load().active_timeline.completed_writes().instants[-1].requested_time
    rows = table.read()
    undone = table.upsert("a", "b")
    plan = table.schedule_compaction()
    if is_completed:
        table.run_compaction(plan)
    with table.client() as client:
        with pytest.raises(HoodieRollbackException, match=r"compactions are among them, so call restore_to_instant"):
            client.rollback(undone)
        assert client.restore_to_instant(before) == (plan, undone)
    assert table.read() == rows
    assert len(table.instants(Action.COMPACTION)) == 0


@every_version
def test_summaries_count_log_files(table: MergeOnReadTable) -> None:
    files = table.load().files()
    assert [(file.partition_path, file.log_file_count) for file in files] == [("x", 1), ("y", 1)]
    sizes = {path: (table.base_path / path).stat().st_size for path in table.data_files()}
    assert sum(file.size_bytes for file in files) == sum(sizes.values())
    written = [(row["operation"], row["rows_inserted"], row["rows_updated"], row["files_written"])
               for row in stats.commits(str(table.base_path)).to_pylist()]  # fmt: skip
    assert written == [("UPSERT", 2, 0, 1), ("UPSERT", 1, 0, 1), ("UPSERT", 0, 1, 1), ("UPSERT", 0, 1, 1)]
    assert [partition.file_group_count for partition in table.load().partitions()] == [1, 1]


# --- clean ------------------------------------------------------------------------------------------------------------


@every_version
def test_a_slice_goes_with_its_log_files_once_it_was_compacted(table: MergeOnReadTable) -> None:
    old = table.data_files()
    compaction = table.compact()
    table.upsert("a")
    table.upsert("a", "b")
    rows, files = table.read(), table.data_files()
    with table.client(**RETAINED) as client:
        metadata = client.clean()
    assert metadata is not None
    assert sorted(set(files) - set(table.data_files())) == old
    assert {f"{p}/{name}" for p, m in metadata.partition_metadata.items() for name in m.success_delete_files} == {*old}
    assert table.read() == rows
    assert all(compaction in path for path in table.data_files() if path.endswith(".parquet"))


@every_version
def test_a_slice_that_a_pending_compaction_needs_stays(table: MergeOnReadTable) -> None:
    table.compact()
    table.upsert("a")
    plan = table.schedule_compaction()
    for _ in range(3):
        table.upsert("a")
    with table.client(**RETAINED) as client:
        client.clean()
    left = {path for path in table.data_files() if path.startswith("x/")}
    # The first slice went; base file and log file of the planned one are there, and three later log files.
    assert len(left) == 5
    table.run_compaction(plan)
    # hudi-rs does not read the new log files of version 6 before.
    assert table.read() == [("a", "x", table._ts), ("b", "x", 1), ("c", "y", 4)]


@every_version
def test_log_files_without_a_compaction_are_never_cleaned(table: MergeOnReadTable) -> None:
    for _ in range(4):
        table.upsert("a")
    files = table.data_files()
    with table.client(**RETAINED) as client:
        client.clean()
    assert table.data_files() == files


@every_version
def test_savepointed_log_files_stay(table: MergeOnReadTable) -> None:
    rows = table.read()
    names = savepointed(table)
    restored_to = table.load().active_timeline.completed_writes().instants[-1].requested_time
    table.compact()
    for _ in range(3):
        table.upsert("a")
    with table.client(**RETAINED) as client:
        client.clean()
        assert set(names) <= set(table.data_files())
        client.restore_to_savepoint(restored_to)
    assert table.read() == rows


@every_version
def test_a_version_whose_base_file_was_cleaned_is_neither_savepointed_nor_gone_back_to(
    table: MergeOnReadTable,
) -> None:
    before = table.load().active_timeline.completed_writes().instants[-1].requested_time
    compaction = table.compact()
    with table.client(**RETAINED) as client:
        table.upsert("a")
        client.clean()
        with pytest.raises(HoodieSavepointException, match="cleaned"):
            client.savepoint(before)
    table.upsert("b")
    with table.client() as client, pytest.raises(HoodieRollbackException, match="later ones exist"):
        client.rollback(compaction)


@every_version
def test_of_a_completed_compaction_the_plan_stays_when_it_is_rolled_back(table: MergeOnReadTable) -> None:
    rows, files = table.read(), table.data_files()
    compaction = table.compact()
    assert table.data_files() != files
    with table.client() as client:
        assert client.rollback(compaction)
    assert table.data_files() == files and table.read() == rows
    (left,) = table.instants(Action.COMPACTION)
    assert left.requested_time == compaction and left.is_requested
    table.run_compaction(compaction)
    assert table.read() == rows


@every_version
def test_replaced_file_groups_go_with_their_log_files(table: MergeOnReadTable) -> None:
    with table.client() as client:
        client.delete_partitions(["y"])
    table.upsert("a")
    table.upsert("a")
    gone = [path for path in table.data_files() if path.startswith("y/")]
    assert any(".log." in path for path in gone)
    with table.client(**RETAINED) as client:
        client.clean()
    assert not set(gone) & set(table.data_files())


# --- archive ----------------------------------------------------------------------------------------------------------


@every_version
@pytest.mark.without_metadata_table("archiving would wait for its compaction")
def test_log_files_of_archived_delta_commits_are_placed_as_before(table: MergeOnReadTable) -> None:
    table.upsert("a")
    table.compact()
    for _ in range(6):
        table.upsert("a", "c")
    rows = table.read()
    slices = slices_of(table)
    with table.client(**KEEP, hoodie__compact__inline__max__delta__commits="2") as client:
        archived = client.archive()
        client.clean()
    assert archived > 3
    assert table.read() == rows
    assert slices_of(table)[-2:] == slices[-2:]
    actions = [(i.action, i.state.name) for i in table.load().archived_timeline if i.is_completed]
    assert (Action.DELTA_COMMIT, "COMPLETED") in actions
    assert (Action.COMMIT, "COMPLETED") in actions
    (compaction,) = (i for i in table.load().archived_timeline if i.action is Action.COMMIT and i.is_completed)
    metadata = table.load().archived_timeline.read_commit_metadata(compaction)
    assert metadata.operation_type is WriteOperationType.COMPACT
    if is_of_version_6(table):
        states = {(i.action, i.state.name) for i in archived_entries(table.base_path)}
        assert {(Action.COMPACTION, "REQUESTED"), (Action.COMPACTION, "INFLIGHT")} < states
    else:
        (file, *_) = archive_files(table.base_path)
        entries = pq.read_table(file).to_pylist()
        (entry,) = (entry for entry in entries if entry["instantTime"] == compaction.requested_time)
        assert entry["action"] == "commit"
        plan = decode_record(entry["plan"], "HoodieCompactionPlan")
        assert {operation["partitionPath"] for operation in plan["operations"]} == {"x", "y"}


@every_version
@pytest.mark.parametrize(("is_compacted", "strategy", "left"), [
    (False, "NUM_COMMITS", 4), (False, "NUM_OR_TIME", 4), (False, "TIME_ELAPSED", 2), (True, "NUM_COMMITS", 4),
])  # fmt: skip
@pytest.mark.one_in(4)
def test_delta_commits_that_make_a_compaction_due_stay(
    table: MergeOnReadTable, is_compacted: bool, strategy: str, left: int
) -> None:
    for _ in range(3):
        table.upsert("a")
    compaction = table.compact() if is_compacted else None
    last = [table.upsert("a") for _ in range(3)]
    rows = table.read()
    compact = {"hoodie__compact__inline__max__delta__commits": "4",
               "hoodie__compact__inline__trigger__strategy": strategy}  # fmt: skip
    with table.client(**KEEP, **compact) as client:
        client.archive()
    active = [i.requested_time for i in table.load().active_timeline.completed_writes()]
    assert len(active) == left
    if compaction is not None:
        # Three are too few: it takes one more, and by the compaction they are counted.
        assert active == [compaction, *last]
    assert table.read() == rows


def slices_of(table: MergeOnReadTable) -> list[Any]:
    view = table.load().view()
    return [
        (part.base_instant_time, tuple(log.file_name for log in part.log_files))
        for path in view.list_partitions()
        for part in view.latest_file_slices(path)
    ]
