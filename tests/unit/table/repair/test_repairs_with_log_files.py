"""Repairs of merge-on-read tables: orphan log files, duplicate keys in log files, partitions of log files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieKey
from hoodie.common.fs.file_names import make_log_file_name, parse_log_file_name
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.table.missing_files import check_files, known_partitions
from hoodie.table.repair import (
    drop_duplicates,
    find_duplicates,
    find_orphan_files,
    remove_orphan_files,
    repair_partition_metadata,
)
from hoodie.table.repair.orphan_files import OrphanReason
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import rows

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> MergeOnReadTable:
    """Two base files, and a log file on each."""
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    return table


def orphans(table: MergeOnReadTable) -> list[tuple[str, str, bool]]:
    return [(file.path, str(file.reason), file.is_visible) for file in find_orphan_files(str(table.base_path)).files]


# --- orphan files -----------------------------------------------------------------------------------------------------


@every_version
def test_a_table_without_orphans_has_none_whatever_was_done_to_it(table: MergeOnReadTable) -> None:
    table.compact()
    table.upsert("a", "new")
    failed = table.leave_pending("a")
    assert orphans(table) == []
    with table.client() as client:
        client.rollback(failed)
        assert orphans(table) == []
        client.delete_partitions(["y"])
    for _ in range(5):
        table.upsert("a")
    assert orphans(table) == []
    with table.client(hoodie__keep__min__commits="2", hoodie__keep__max__commits="3",
                      hoodie__compact__inline__max__delta__commits="1",
                      hoodie__cleaner__commits__retained="1") as client:  # fmt: skip
        client.clean()
        assert client.archive()
    assert orphans(table) == []


@every_version
def test_a_log_file_of_an_instant_that_never_was_is_an_orphan(table: MergeOnReadTable) -> None:
    rows_before, files = table.read(), table.data_files()
    failed = table.leave_pending("a")
    (log,) = set(table.data_files()) - set(files)
    saved = (table.base_path / log).read_bytes()
    with table.client() as client:
        client.rollback(failed)
    for path, block in table.command_blocks():
        assert block.target == failed
        (table.base_path / path).unlink()
    (table.base_path / log).write_bytes(saved)
    assert orphans(table) == [(log, OrphanReason.UNKNOWN_INSTANT, False)]
    removed = remove_orphan_files(str(table.base_path), delete=True)
    assert [file.instant_time for file in removed.removed] == [failed]
    assert table.data_files() == files and table.read() == rows_before


@every_version
def test_of_two_attempts_in_one_commit_the_one_that_it_does_not_name_is_visible(table: MergeOnReadTable) -> None:
    logs = table.log_files()
    other = table.append_unannounced(logs[0], "")
    assert orphans(table) == [(other, OrphanReason.NOT_IN_COMMIT, True)]
    kept = remove_orphan_files(str(table.base_path), delete=True)
    assert kept.removed == () and other in table.log_files()
    remove_orphan_files(str(table.base_path), delete=True, include_visible=True)
    assert table.log_files() == logs


@every_version
def test_a_file_group_of_log_files_alone_is_no_orphan(table: MergeOnReadTable, later_tables: Path) -> None:
    # Log files without a base file, as a bucket index of Hudi makes them.
    folder = later_tables / "v9_bucket_mor"
    found = next(path for path in folder.rglob(".hoodie") if path.is_dir()).parent
    assert find_orphan_files(str(found)).files == ()


@pytest.mark.parametrize("table_version", [6], indirect=True)
def test_a_late_file_behind_a_command_block_is_an_orphan(table: MergeOnReadTable) -> None:
    files = table.data_files()
    failed = table.leave_pending("a")
    (log,) = set(table.data_files()) - set(files)
    with table.client() as client:
        client.rollback(failed)
    ((path, _),) = table.command_blocks()
    assert orphans(table) == []
    name = parse_log_file_name(Path(path).name)
    assert name is not None
    late = f"x/{make_log_file_name(name.file_id, name.instant_time, name.version + 1, '3-3-3')}"
    (table.base_path / late).write_bytes((table.base_path / log).read_bytes())
    assert orphans(table) == [(late, OrphanReason.UNKNOWN_INSTANT, False)]


# --- duplicate keys ---------------------------------------------------------------------------------------------------


@every_version
def test_duplicate_keys_are_those_of_the_merged_rows(table: MergeOnReadTable) -> None:
    with table.client(hoodie__parquet__small__file__limit="0") as client:
        client.insert(rows(("b", "x", 9), ("n", "x", 9)))
    found = find_duplicates(str(table.base_path))
    assert [(row.record_key, row.ordering_value, row.is_kept) for row in found.rows] == [
        ("b", 9, True),
        ("b", 1, False),
    ]
    # A change of the second row decides otherwise; the first one is in a file group with a log file.
    with table.client() as client, pytest.raises(HoodieNotSupportedException, match="compact the table"):
        drop_duplicates(client)
    table.compact()
    with table.client() as client:
        drop_duplicates(client)
    assert table.read() == [("a", "x", 3), ("b", "x", 9), ("c", "y", 4), ("n", "x", 9)]


@every_version
def test_a_key_that_a_log_file_deletes_is_no_duplicate(table: MergeOnReadTable) -> None:
    with table.client(hoodie__parquet__small__file__limit="0") as client:
        client.delete([HoodieKey("b", "x")])
        client.insert(rows(("b", "x", 9)))
    assert find_duplicates(str(table.base_path)).rows == ()


# --- partition metadata -----------------------------------------------------------------------------------------------


@every_version
def test_a_partition_of_log_files_alone_gets_its_metadata(table: MergeOnReadTable) -> None:
    for path in table.data_files("*"):
        if path.startswith("y/") and path.endswith(".parquet"):
            (table.base_path / path).unlink()
    (table.base_path / "y/.hoodie_partition_metadata").unlink()
    if not table.layout.has_completion_times:
        # The name of the log file tells the slice.
        assert table.log_files()[-1].startswith("y/")
    found = repair_partition_metadata(str(table.base_path))
    assert [partition.partition_path for partition in found.partitions] == ["y"]
    assert (table.base_path / "y/.hoodie_partition_metadata").exists()


# --- missing files ----------------------------------------------------------------------------------------------------


def check(table: MergeOnReadTable) -> None:
    snapshot = TableSnapshot.load(str(table.base_path))
    snapshot.load_schema()
    view = snapshot.view()
    check_files(snapshot, view, known_partitions(snapshot, view))


@every_version
def test_a_log_file_that_is_not_there_is_an_error(table: MergeOnReadTable) -> None:
    check(table)
    last = [path for path in table.log_files() if path.startswith("y/")][-1]
    content = (table.base_path / last).read_bytes()
    (table.base_path / last).unlink()
    with pytest.raises(HoodieIOException, match="is not there"):
        check(table)
    (table.base_path / last).write_bytes(content)
    check(table)


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_a_log_file_that_was_completed_after_a_compaction_was_requested_is_missed(table: MergeOnReadTable) -> None:
    with table.client(hoodie__auto__commit="false") as client:
        result = client.upsert(rows(("b", "x", 50)))
        plan = table.schedule_compaction()
        assert client.commit(result.instant_time, result)
    table.run_compaction(plan)
    check(table)
    (log,) = [path for path in table.log_files() if result.instant_time in path]
    (table.base_path / log).unlink()
    with pytest.raises(HoodieIOException, match="is not there"):
        check(table)
