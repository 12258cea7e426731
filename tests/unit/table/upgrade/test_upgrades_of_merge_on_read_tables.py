"""Merge-on-read tables that change their version."""

from __future__ import annotations

import os
import re
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieCommitException,
    HoodieNotSupportedException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieSavepointException,
)
from hoodie.table.upgrade import TableVersionChange
from tests.support.hookable_storage import Faults, faults_of, hooked, run_with_faults
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import content, rows
from tests.support.table_history import TableHistory, history_of
from tests.support.timeline_files import timeline_folder

CHANGES = [(6, 8), (6, 9), (8, 9), (9, 8), (8, 6), (9, 6)]
OTHER_LAYOUT = [(6, 9), (9, 6)]
every_change = pytest.mark.parametrize(("table_version", "to_version"), CHANGES, indirect=["table_version"])
every_other_layout = pytest.mark.parametrize(("table_version", "to_version"), OTHER_LAYOUT, indirect=["table_version"])
ONE_VERSION = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


class BucketTable(MergeOnReadTable):
    """Inserts go to log files, also those that begin a file group."""

    def client(self, **properties: Any) -> Any:
        return super().client(**BUCKETS, **properties)


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> MergeOnReadTable:
    """Two base files, and a log file on each."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    return table


def bring(table: MergeOnReadTable, to_version: int, **arguments: Any) -> TableVersionChange:
    before = table.load().table_config.table_version
    change = HoodieTableMetaClient.upgrade if to_version > before else HoodieTableMetaClient.downgrade
    result = change(str(table.base_path), to_version, **arguments)
    if not arguments:
        assert table.load().table_config.table_version == to_version
    return result


def is_another_layout(table_version: int, to_version: int) -> bool:
    return 6 in (table_version, to_version)


def past_of(table: MergeOnReadTable, before: TableHistory | None = None) -> TableHistory:
    """`history_of` without names of files, which a compaction changes, and without instants since another one."""

    def bare(told: Any) -> Any:
        return told if isinstance(told, str) else sorted(re.sub(r"'_hoodie_file_name': '[^']*', ", "", r) for r in told)

    found = history_of(table.base_path)
    known = None if before is None else before.instants
    instants = [one for one in found.instants if known is None or one in known]
    times = {instant[0] for instant in instants}
    return TableHistory(
        rows=bare(found.rows),
        instants=instants,
        archived=found.archived,
        as_of={key: bare(told) for key, told in found.as_of.items() if key in times},
        since={key: bare(told) for key, told in found.since.items() if key in times},
    )


def fill(table: MergeOnReadTable) -> None:
    """Log files on old and new slices, deletes, failed writes, a compaction, and a replaced file group."""
    table.upsert("a", "b", "c")
    table.upsert("r", region="z")
    table.upsert("a")
    table.upsert("r", region="z")
    for _ in range(2):
        failed = table.leave_pending("b", "new")
        with table.client() as client:
            client.rollback(failed)
            client.delete(rows(("c", "x", 99)))
        table.upsert("b")
        with table.client() as client:
            client.compact()
        table.upsert("a", "d")
        with table.client() as client:
            client.insert_overwrite(rows(("s", "z", 50)))
        table.upsert("s", region="z")


@every_change
@pytest.mark.parametrize("kind", [MergeOnReadTable, pytest.param(BucketTable, marks=pytest.mark.slow)])
def test_log_files_are_compacted_before_the_layout_changes(
    tmp_path: Path, table_version: int, to_version: int, kind: type[MergeOnReadTable]
) -> None:
    table = kind(tmp_path / "t")
    fill(table)
    past, before = past_of(table), content(table.base_path)
    assert len(past.rows) == 4
    planned = bring(table, to_version, dry_run=True)
    assert content(table.base_path) == before
    done = bring(table, to_version)
    assert past_of(table, past) == past
    if is_another_layout(table_version, to_version):
        assert planned.compacted_file_groups == done.compacted_file_groups >= 2
        assert f"{done.compacted_file_groups} file groups would be compacted first" in str(planned)
        assert planned.compactions == () and len(done.compactions) == 1 and done.compactions[0] in str(done)
        assert done.instants == planned.instants + 1
        assert any("time travel of Hudi 0.15" in note for note in done.notes) == (to_version == 6)
        view = table.load().view()
        assert all(part.is_base_file_alone for path in view.list_partitions() for part in view.latest_file_slices(path))
    else:
        assert planned.compacted_file_groups == done.compacted_file_groups == 0 and done.compactions == ()
    assert len(table.read()) == 4
    table.upsert("a", "e")
    assert ("a", "x", table._ts) in table.read() and len(table.read()) == 5


@every_change
def test_a_compacted_table_keeps_its_rows_and_is_written_on(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    failed = table.leave_pending("a", "new")
    with table.client() as client:
        client.rollback(failed)
    table.compact()
    rows = table.read()
    # As in a copy: all files were changed after the compaction was requested.
    for path in timeline_folder(table.base_path).iterdir():
        os.utime(path, (time.time(), time.time()))
    assert bring(table, to_version).compactions == ()
    assert table.read() == rows
    slices = table.load().view().latest_file_slices("x")
    assert [part.log_files for part in slices] == [()], "log files of older slices stay there"
    table.upsert("a", "b")
    with table.client() as client:
        client.delete_partitions(["y"])
    now = table._ts
    assert table.read() == [("a", "x", now), ("b", "x", now)]
    undone = table.upsert("b")
    with table.client() as client:
        client.rollback(undone)
    assert table.read() == [("a", "x", now), ("b", "x", now)]
    assert len(table.instants(Action.ROLLBACK).filter_pending()) == 0


@every_change
def test_a_savepoint_of_log_files_is_refused_before_anything_is_compacted(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    with table.client() as client:
        saved = client.savepoint().instant_time
    if is_another_layout(table_version, to_version):
        before = content(table.base_path)
        for arguments in ({"dry_run": True}, {}):
            with pytest.raises(HoodieNotSupportedException, match=f"delete_savepoint\\('{saved}'\\)"):
                bring(table, to_version, **arguments)
        assert content(table.base_path) == before
        with table.client() as client:
            client.delete_savepoint(saved)
    bring(table, to_version)


@every_other_layout
def test_what_else_stands_against_a_change_is_refused_before_anything_is_compacted(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    table.leave_pending("b")
    before = content(table.base_path)
    with pytest.raises(HoodieCommitException, match="rollback_failed_writes"):
        bring(table, to_version)
    assert content(table.base_path) == before


@every_other_layout
def test_pending_compactions_are_carried_out_first(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    planned = table.schedule_compaction()
    table.upsert("a")
    table.upsert("new", region="z")
    table.upsert("new", region="z")
    past = past_of(table)
    assert bring(table, to_version, dry_run=True).compactions == (planned,)
    done = bring(table, to_version)
    assert done.compactions[0] == planned and len(done.compactions) == 2
    assert past_of(table, past).rows == past.rows
    assert past_of(table, past).as_of.items() >= past.as_of.items()


@pytest.mark.table_version(8)
def test_pending_compactions_are_refused_where_nothing_is_compacted(
    table: MergeOnReadTable, table_version: int
) -> None:
    planned = table.schedule_compaction()
    with pytest.raises(HoodieCommitException, match=f"compaction {planned} \\(compact\\(\\) of a write client"):
        bring(table, 9)


@every_other_layout
def test_writes_beside_the_compaction_are_compacted_too(
    table: MergeOnReadTable, table_version: int, to_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def hook(call: str, path: str) -> None:
        # The compaction is completed, and the version not yet changed.
        if call == "create" and path.endswith(".commit") and ".inflight" not in path and not written:
            written.append(path)
            after.append(None)
        elif after and call == "list":
            after.clear()
            table.upsert("a")

    after: list[None] = []
    with hooked(monkeypatch, hook):
        done = bring(table, to_version)
    assert len(done.compactions) == 2
    assert ("a", "x", table._ts) in table.read()


@pytest.mark.table_version(6)
def test_a_writer_that_upgrades_by_itself_compacts_first(table: MergeOnReadTable, table_version: int) -> None:
    rows_before = table.read()
    given = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
    with table.client(**given) as client:
        table.upsert("a", client=client)
        table.upsert("b", client=client)
    assert table.load().table_config.table_version == 9
    now = table._ts
    assert table.read() == [("a", "x", now - 1), ("b", "x", now), rows_before[2]]
    assert [i.operation for i in table.load().history()].count("COMPACT") == 1


@pytest.mark.table_version(6)
def test_a_configuration_that_names_the_new_version_is_taken(table: MergeOnReadTable, table_version: int) -> None:
    config = HoodieWriteConfig.from_properties(str(table.base_path), {"hoodie.write.table.version": "9"})
    assert len(HoodieTableMetaClient.upgrade(config).compactions) == 1


@every_other_layout
def test_the_table_cannot_go_back_to_log_files_of_the_other_version(
    table: MergeOnReadTable, table_version: int, to_version: int
) -> None:
    first = table.upsert("a")
    table.upsert("a")
    last_ts = table._ts
    compaction = bring(table, to_version).compactions[0]
    table.upsert("b")
    past, before = past_of(table), content(table.base_path)
    with table.client() as client:
        with pytest.raises(HoodieRestoreException, match=f"as of {first}.*insert_overwrite_table"):
            client.restore_to_instant(first)
        with pytest.raises(HoodieSavepointException, match=f"as of {first}.*insert_overwrite_table"):
            client.savepoint(first)
        kept = {path for path in content(table.base_path).items() ^ before.items() if ".locks" not in path[0]}
        assert not kept
        client.restore_to_instant(compaction)
    assert ("a", "x", last_ts) in table.read()
    if to_version == 6:
        with table.client() as client, pytest.raises(HoodieRollbackException, match="insert_overwrite_table"):
            client.rollback(compaction)
    # The way out that the messages name.
    old = hoodie.read_table(str(table.base_path), as_of=first)
    with table.client() as client:
        client.insert_overwrite_table(old.select(["id", "region", "ts"]))
    assert ("a", "x", last_ts - 1) in table.read()
    assert past.as_of[first] == past_of(table).as_of[first]


@pytest.mark.table_version(6)
def test_the_table_goes_back_where_old_log_files_are_read_alike(table: MergeOnReadTable, table_version: int) -> None:
    last = table.upsert("a")
    before = table.read()
    bring(table, 9)
    table.upsert("a", "b")
    with table.client() as client:
        client.restore_to_instant(last)
    assert table.read() == before


@every_other_layout
@pytest.mark.parametrize("kind", [MergeOnReadTable, BucketTable])
def test_cleans_delete_all_log_files_of_before(
    tmp_path: Path, table_version: int, to_version: int, kind: type[MergeOnReadTable]
) -> None:
    table = kind(tmp_path / "t")
    fill(table)
    bring(table, to_version)
    assert table.log_files()
    found = table.read()
    with table.client(**ONE_VERSION) as client:
        client.clean()
    assert table.log_files() == [] and table.read() == found


@every_other_layout
def test_cleans_keep_and_delete_slices_as_a_whole(table: MergeOnReadTable, table_version: int, to_version: int) -> None:
    last = table.upsert("a")
    past = past_of(table)
    bring(table, to_version)
    with table.client(**{"hoodie.cleaner.commits.retained": "1"}) as client:
        client.clean()
    assert past_of(table, past).as_of[last] == past.as_of[last]
    # The slice of before the change, and what the compaction made of it.
    names = [path for path in table.data_files() if path.startswith("x/")]
    assert len(names) == 4
    sizes = []
    for _ in range(4):
        table.upsert("a", "b")
        with table.client(**{"hoodie.cleaner.commits.retained": "2"}) as client:
            client.compact()
            client.clean()
        sizes.append(len([path for path in names if path in table.data_files()]))
    assert sizes == [1, 0, 0, 0], "the slice goes as a whole, then what the compaction made"


@pytest.mark.table_version(6)
def test_log_files_of_lost_instants_are_not_merged_again(tmp_path: Path, table_version: int) -> None:
    """Somebody deleted the archive: nothing tells which slice the log files of archived instants belong to."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a")
    table.upsert("a")
    table.compact()
    given = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
             "hoodie.cleaner.commits.retained": "1"}  # fmt: skip
    with table.client(**given) as client:
        for _ in range(5):
            table.upsert("a", client=client)
    assert table.load().archived_timeline.completed_writes()
    shutil.rmtree(table.base_path / ".hoodie/archived")
    found = table.read()
    with pytest.raises(HoodieNotSupportedException, match="merged twice.*KEEP_LATEST_FILE_VERSIONS"):
        bring(table, 9)
    assert table.load().table_config.table_version == 6 and table.read() == found
    with table.client(**ONE_VERSION) as client:
        client.clean()
    bring(table, 9)
    assert table.read() == found


@pytest.mark.table_version(9)
def test_commits_that_a_compaction_overtook_stand_against_a_downgrade(tmp_path: Path, table_version: int) -> None:
    """Completed after a compaction that was requested later: in version 6 its log file is of the slice before."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("a")
    slow = table.client(hoodie__auto__commit="false", **SEVERAL)
    instant_time = slow.start_commit()
    result = slow.upsert(rows(("b", "x", 70)), instant_time)
    with table.client(**SEVERAL) as client:
        client.compact()
    slow.commit(instant_time, result)
    slow.close()
    found = table.read()
    assert ("b", "x", 70) in found
    with pytest.raises(HoodieNotSupportedException, match="too late.*KEEP_LATEST_FILE_VERSIONS"):
        bring(table, 6)
    assert table.load().table_config.table_version == 9 and table.read() == found
    with table.client(**ONE_VERSION) as client:
        client.clean()
    bring(table, 6)
    assert table.read() == found


def test_readers_of_archived_log_files_after_a_change(tmp_path: Path, table_version: int) -> None:
    """Instants of old slices are in the archive."""
    to_version = 9 if table_version == 6 else 6
    table = MergeOnReadTable(tmp_path / "t")
    fill(table)
    given = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.cleaner.commits.retained": "1"}
    table.upsert("a")
    with table.client(**given) as client:
        assert client.archive()
    past = past_of(table)
    bring(table, to_version)
    assert past_of(table, past) == past
    bring(table, table_version)
    assert past_of(table, past).rows == past.rows


@pytest.mark.slow
@every_other_layout
def test_a_run_that_dies_while_it_compacts_or_changes_the_version(
    tmp_path: Path, faulty_storage: None, table_version: int, to_version: int
) -> None:
    made = MergeOnReadTable(tmp_path / "made")
    made.upsert("a", "b")
    made.upsert("a")
    made.upsert("b")
    past = past_of(made)

    def copy(name: str) -> MergeOnReadTable:
        copied = object.__new__(MergeOnReadTable)
        copied.base_path = Path(shutil.copytree(made.base_path, tmp_path / name))
        return copied

    counting = Faults()
    assert run_with_faults(counting, partial(bring, copy("count"), to_version)) is None
    states = set()
    for number, how in faults_of(counting.calls, dies=True):
        where = (number, how, counting.calls[number - 1][0])
        table = copy(f"{number}{how}")
        error = run_with_faults(Faults(number, how), partial(bring, table, to_version))
        compactions = table.load().active_timeline.filter_actions(Action.COMPACTION, Action.COMMIT)
        states.add((table.load().table_config.table_version, len(compactions), error is not None))
        assert past_of(table, past) == past, where
        if number % 2 and table.load().table_config.table_version == to_version:
            bring(table, table_version)
        bring(table, to_version)
        assert past_of(table, past) == past, where
        assert len(table.instants(Action.COMPACTION).filter_pending()) == 0, where
        shutil.rmtree(table.base_path)
    assert {(table_version, 0, True), (table_version, 1, True), (to_version, 1, True)} <= states
