"""What must hold of a metadata table that writers maintain: at any moment, and once all that failed was cleared."""

from __future__ import annotations

import contextlib
from pathlib import Path

import attrs

import hoodie
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieIOException, HoodieMissingFileException
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer.latest_files import committed_files
from hoodie.table.action.clean.pending_cleans import files_being_cleaned
from tests.support.folders import files_below

__all__ = ["MetadataReader", "check_equals_a_new_one", "listed_partitions"]

Sizes = dict[tuple[str, str], int]
"""Partition path and name of files, and their sizes."""
_LATER_VERSION = 8


def listed_partitions(base_path: Path | str) -> tuple[str, ...]:
    """The partitions of the metadata table that are ready."""
    return TableSnapshot.load(str(base_path)).table_config.metadata_partitions


@attrs.frozen(eq=False)
class MetadataReader:
    """A reader that has opened a table and its metadata table, and reads them now or later.

    Attributes:
        table: The table.
        metadata: Its metadata table; None where none is listed.
        stored: The files that were in the table's folders just before or after it was opened.
        going: The files that cleans were deleting then.
    """

    table: TableSnapshot
    metadata: HoodieBackedTableMetadata | None
    stored: Sizes
    going: frozenset[tuple[str, str]]

    @classmethod
    def open(cls, base_path: Path | str) -> MetadataReader:
        """Open a table and, if the table lists one, its metadata table."""
        # A clean that starts while the table is opened deletes files that it lists.
        before = _stored_files(TableSnapshot.load(str(base_path)))
        table, going = _with_files_being_cleaned(str(base_path))
        is_listed = bool(table.table_config.metadata_partitions)
        metadata = HoodieBackedTableMetadata.open(table) if is_listed else None
        return cls(table, metadata, {**before, **_stored_files(table)}, going)

    def check(self) -> None:
        """The metadata table lists each file of each completed write, with its size, and no file of any other write.

        A reader of writes that were undone since is told to load the table again.
        """
        if self.metadata is None or self._is_outdated():
            return
        try:
            listed = _listing(self.metadata)
        except HoodieMissingFileException:
            # In version 6 the log files of a dead writer have the name of the slice, and are gone with it.
            assert self._has_leftovers()
            return
        committed = self._committed()
        stored = self.stored.keys() & _stored_files(self.table).keys()
        missing = sorted((committed & stored) - listed.keys())
        assert not missing, f"committed files are not listed: {missing}"
        wrong = {file: size for file, size in listed.items() if self.stored.get(file, size) != size}
        assert not wrong, f"sizes are wrong: {wrong}"
        others = listed.keys() - committed
        if self.table.table_config.table_version < _LATER_VERSION:
            # A rollback notes the log files that it leaves and writes.
            others = {file for file in others if ".log." not in file[1]}
        archived = self.table.archived_timeline.completed_writes().times if others else ()
        others = {file for file in others if _instant_of(file[1]) not in archived}
        assert not others, f"files of writes that are not completed are listed: {sorted(others)}"
        gone = listed.keys() - self.stored.keys() - self.going
        assert not gone, f"files are listed that are not there: {sorted(gone)}"

    def _is_outdated(self) -> bool:
        now = TableSnapshot.load(self.table.base_path)
        times = {one.requested_time for one in self.table.active_timeline.completed_writes()}
        left = now.active_timeline.completed_writes().times | now.archived_timeline.completed_writes().times
        is_restored = any(one.is_pending for one in now.active_timeline.filter_actions(Action.RESTORE))
        return is_restored or not times <= left

    def _has_leftovers(self) -> bool:
        """Whether a write to the metadata table of version 6 was pending when it was opened."""
        assert self.metadata is not None
        inner = self.metadata.files.snapshot.active_timeline
        pending = inner.filter_actions(Action.DELTA_COMMIT).filter_pending()
        return len(pending) > 0 and self.table.table_config.table_version < _LATER_VERSION

    def _committed(self) -> set[tuple[str, str]]:
        timeline = self.table.active_timeline
        return {
            (stat.partition_path, path.rpartition("/")[2])
            for instant in timeline.completed_writes()
            for stat in timeline.read_commit_metadata(instant).write_stats
            for path in (stat.path, *(stat.cdc_stats or {}))
            if path
        }


def check_equals_a_new_one(base_path: Path | str, *, may_be_absent: bool = False) -> None:
    """The metadata table of a table without pending instants holds what one holds that is built of its files now.

    Args:
        base_path: The table.
        may_be_absent: Whether there may be none.
    """
    table = TableSnapshot.load(str(base_path))
    if may_be_absent and not table.table_config.metadata_partitions:
        return
    assert "files" in table.table_config.metadata_partitions, "there is no metadata table"
    metadata = HoodieBackedTableMetadata.open(table)
    built = {
        (path, file.path.rpartition("/")[2]): file.size_bytes
        for path, files in committed_files(table).items()
        for file in files
    }
    listed = _listing(metadata)
    assert listed == built, f"listed, not built: {listed.items() - built.items()}; {built.items() - listed.items()}"
    paths = {path for path, _ in built}
    known = set(metadata.list_partitions())
    assert paths <= known <= set(table.view().list_partitions()), known
    found = hoodie.metadata.validate(str(base_path))
    assert found.is_right, str(found)
    pending = {instant.requested_time for instant in table.active_timeline.filter_pending()}
    inner = metadata.files.snapshot.active_timeline
    left = [str(one) for one in inner.filter_pending() if one.requested_time not in pending]
    completed = {one.requested_time for one in table.active_timeline.filter_completed_instants()}
    ahead = [
        str(one)
        for one in inner.filter_actions(Action.DELTA_COMMIT).filter_completed_instants()
        if one.requested_time in pending - completed
    ]
    assert not ahead, f"the metadata table is ahead: {ahead}"
    assert len(left) <= 1, f"leftovers of dead writers: {left}"


def _with_files_being_cleaned(base_path: str) -> tuple[TableSnapshot, frozenset[tuple[str, str]]]:
    """A table, and the files that its pending cleans delete.

    A service beside may complete a clean and archive it before its plan is read. Then the table is loaded again.
    """
    while True:
        table = TableSnapshot.load(base_path)
        try:
            going = frozenset(files_being_cleaned(table.active_timeline))
        except HoodieIOException as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            continue
        cleans = table.active_timeline.filter_actions(Action.CLEAN).filter_pending()
        now = table.refreshed().active_timeline
        if all(now.contains(clean.requested_time) for clean in cleans):
            return table, going


def _instant_of(name: str) -> str | None:
    parsed = parse_base_file_name(name) or parse_log_file_name(name)
    return None if parsed is None else parsed.instant_time


def _listing(metadata: HoodieBackedTableMetadata) -> Sizes:
    rows = metadata.read_listing().to_pylist()
    return {("" if r["partition_path"] == "." else r["partition_path"], r["file_name"]): r["size_bytes"] for r in rows}


def _stored_files(table: TableSnapshot) -> Sizes:
    sizes: Sizes = {}
    root = Path(table.base_path)
    for file in files_below(root):
        if _instant_of(file.name) is not None and ".hoodie" not in file.parts:
            # A clean may be at work.
            with contextlib.suppress(FileNotFoundError):
                sizes[file.parent.relative_to(root).as_posix().removeprefix("."), file.name] = file.stat().st_size
    return sizes
