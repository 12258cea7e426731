"""Services on merge-on-read tables as real Hudi wrote them: readers see the same rows before and after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException, HoodieRollbackException
from hoodie.table.repair import find_orphan_files
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import local_client
from tests.unit.test_merge_on_read_tables import is_merge_on_read
from tests.unit.test_tables_of_real_hudi import folders_of_tables

SERVICES = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline.max.delta.commits": "1",
}
HAS_LATER_COMMITS = {"trap_base", "trap_orphan"}
"""A pending instant with completed ones after it, which only a user may roll back."""
HAS_PENDING_INDEXING = {"v9_sql"}
NOT_READ = {"v9_two_ordering", "hudi-v9-table-mor", "hudi_comprehensive_types_v6_mor"}
"""By hudi-rs: several ordering fields, a metadata table, types of an Avro map that it reconciles with no others."""
ORPHANS = {"trap_orphan_after": ["no instant of its time"]}
"""A base file that a writer left without a marker."""


def rows_of(folder: Path) -> list[str]:
    batches = HudiTableBuilder.from_base_uri(str(folder)).build().read()
    if not batches:
        return []
    rows = pa.Table.from_batches(batches)
    columns = [name for name in rows.column_names if name != "_hoodie_file_name"]
    return sorted(map(repr, rows.select(columns).to_pylist()))


def copies(later_tables: Path, shared_tables: Path, tmp_path: Path, names: tuple[str, ...] = ()) -> list[Path]:
    """Copies of the merge-on-read tables of some names, or of all."""
    found = []
    for source in sorted(path for root in (later_tables, shared_tables) for path in root.iterdir() if path.is_dir()):
        if source.name != "rows" and (not names or source.name in names):
            shutil.copytree(source, tmp_path / source.name)
            found += [folder for folder in folders_of_tables(tmp_path / source.name) if is_merge_on_read(folder)]
    return found


def test_rollback_clean_and_archive_leave_the_rows(later_tables: Path, shared_tables: Path, tmp_path: Path) -> None:
    tables = copies(later_tables, shared_tables, tmp_path)
    assert len(tables) >= 40
    cleaned = archived = 0
    for folder in tables:
        name = folder.name
        orphans = [str(file.reason) for file in find_orphan_files(str(folder)).files]
        assert orphans == ORPHANS.get(name, []), name
        is_readable = name not in NOT_READ
        before = rows_of(folder) if is_readable else []
        with local_client(folder, SERVICES) as client:
            if name in HAS_LATER_COMMITS | HAS_PENDING_INDEXING:
                with pytest.raises((HoodieRollbackException, HoodieCommitException)):
                    client.rollback_failed_writes()
                continue
            client.rollback_failed_writes()
            assert not is_readable or rows_of(folder) == before, name
            done = client.clean()
            cleaned += done is not None and done.total_files_deleted > 0
            assert not is_readable or rows_of(folder) == before, name
            archived += client.archive() > 0
            assert not is_readable or rows_of(folder) == before, name
    assert cleaned >= 15 and archived >= 15, (cleaned, archived)


@pytest.mark.parametrize("name", sorted(HAS_LATER_COMMITS))
def test_a_base_file_that_hides_log_files_from_hudi_goes_with_its_instant(
    later_tables: Path, shared_tables: Path, tmp_path: Path, name: str
) -> None:
    (folder,) = copies(later_tables, shared_tables, tmp_path, (name,))
    table = MergeOnReadTable.__new__(MergeOnReadTable)
    table.base_path = folder
    rows = rows_of(folder)
    (failed,) = table.load().active_timeline.commits_timeline().filter_pending()
    assert any(failed.requested_time in path for path in table.data_files())
    with local_client(folder, SERVICES) as client:
        assert client.rollback(failed.requested_time)
    assert not any(failed.requested_time in path for path in table.data_files())
    assert len(table.instants(Action.ROLLBACK).filter_completed_instants()) == 1
    assert rows_of(folder) == rows
