"""Log files in a change of the table's version between 6 and the later ones.

Layout 1 names a log file by its slice, layout 2 by the delta commit that wrote it. A latest slice must have no log
file, so the table is compacted first. Log files of older slices stay, and must belong to the same slices afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroup
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.common.table.view.log_placement import place_log_files, place_log_files_by_name
from hoodie.exception import HoodieNotSupportedException
from hoodie.storage.storage_path import file_name
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints


class LogFilesLeftException(HoodieNotSupportedException):
    """Slices of the present have log files, or compactions are pending: compact them, and change the version then.

    Args:
        message: The remaining log files and compactions, and the way out.
        finished_earlier_run: Whether files of an earlier run that had died were deleted first.
    """

    def __init__(self, message: str, finished_earlier_run: bool = False) -> None:
        super().__init__(message)
        self.finished_earlier_run = finished_earlier_run


@attrs.frozen
class UncompactedTable:
    """The parts of a table to compact before its version changes.

    Attributes:
        slices: The latest slices with log files.
        pending: Instant times of pending compactions.
    """

    slices: tuple[FileSlice, ...] = ()
    pending: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.slices or self.pending)

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> UncompactedTable:
        """Look at all partitions of a table.

        Args:
            snapshot: The table.

        Raises:
            HoodieIOException: Storage failed.
        """
        view = snapshot.view()
        pending = snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending()
        return cls(
            tuple(
                part
                for path in view.load_all_partitions()
                for part in view.latest_file_slices(path)
                if not part.is_base_file_alone
            ),
            tuple(instant.requested_time for instant in pending),
        )

    @property
    def told(self) -> str:
        """The file groups and compactions, as the text of a message."""
        found = []
        if self.slices:
            part = self.slices[0]
            found.append(
                f"{len(self.slices)} file groups have log files, which have other names there, such as {part.file_id} "
                f"of partition '{part.partition_path}'"
            )
        if self.pending:
            found.append(f"compactions are pending: {', '.join(self.pending)}")
        return ", and ".join(found)


def savepoint_with_log_files(snapshot: TableSnapshot) -> str | None:
    """Why a savepoint stands against another layout; None if none keeps log files.

    Args:
        snapshot: The table.
    """
    for savepoint in savepoints(snapshot.active_timeline):
        names = [name for kept in savepoint.files.values() for name in kept]
        log_file = next((name for name in names if _is_of_records(name)), None)
        if log_file is not None:
            return (
                f"savepoint {savepoint.instant_time} keeps the log file {log_file}, which has another name there, so "
                f"the table could not be restored to it (delete_savepoint({savepoint.instant_time!r}) first)"
            )
    return None


def misplaced_log_file(snapshot: TableSnapshot, times: Mapping[tuple[str, Action], str]) -> str | None:
    """Why the log files of older slices stand against another layout; None if all belong to the same slices there.

    Otherwise time travel would show other rows, or old rows would be merged into a slice of the present: if instants
    are missing in the archive, or were requested in the same moment (layout 1); if a write was completed after a
    compaction that was requested after it (layout 2).

    Args:
        snapshot: The table, completely compacted.
        times: Completion times of all its completed instants.
    """
    has_times = snapshot.active_timeline.layout.has_completion_times
    ends = {time: end for (time, action), end in times.items() if action in COMMIT_ACTIONS}
    view = snapshot.view()
    for partition_path in view.load_all_partitions():
        for group in view.all_file_groups(partition_path):
            before = _slices_of_log_files(group)
            if not before:
                continue
            bases = [part.base_instant_time for part in group.slices if part.base_file is not None]
            logs = [log_file for part in group.slices for log_file in part.record_log_files]
            placed = place_log_files_by_name(bases, logs, ()) if has_times else place_log_files(bases, logs, ends.get)
            after = {log_file.path: time for time, found in placed.items() for log_file in found}
            wrong = next((path for path, time in before.items() if after[path] != time), None)
            if wrong is not None:
                return (
                    f"the log file {file_name(wrong)} of partition '{partition_path}' would belong to the file slice "
                    f"{after[wrong]} instead of {before[wrong]}, and rows would be merged twice, or too late. Delete "
                    "old file slices: clean() of a write client with hoodie.cleaner.policy=KEEP_LATEST_FILE_VERSIONS "
                    "and hoodie.cleaner.fileversions.retained=1"
                )
    return None


def _is_of_records(name: str) -> bool:
    """Whether a file is a log file of records; those of change data have the same names in all versions."""
    log_file = parse_log_file_name(name)
    return log_file is not None and not log_file.is_cdc


def _slices_of_log_files(group: HoodieFileGroup) -> dict[str, str]:
    """Paths of log files, each with the base instant of its slice."""
    return {log_file.path: part.base_instant_time for part in group.slices for log_file in part.record_log_files}
