"""The placement of log files in the slices of their file group.

In timeline layout 1 the name of a log file names its slice; see `place_log_files_by_name`. In layout 2 it names its own
delta commit::

    base files         10                20 (compaction)
    log files             12       16         23            delta commits by their requested time
    completed                14          21       24
    slices             10: 12            20: 16, 23

A compaction takes the log files that were completed before its request, so the completion time decides.

Hudi: org.apache.hudi.common.model.HoodieFileGroup (getBaseInstantTime). Differs: base files of instants that are not
completed are ignored; Hudi gives log files to their slices, which readers do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.timeline.instant_time import is_after, is_before, newest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.visible_instants import VisibleInstants

CompletionTime = Callable[[str], str | None]
"""Takes the requested time of a completed instant; returns its completion time, None if it is not stored any more."""


class CompletionTimes:
    """The completion times of a table's instants, as a `CompletionTime`. The archive is read when it is first needed.

    Args:
        instants: The instants of the active timeline.
        archived: Reads the archived instants.
    """

    def __init__(self, instants: VisibleInstants, archived: Callable[[], HoodieTimeline]) -> None:
        self._instants = instants
        self._archived = archived
        self._archived_ends: Mapping[str, str | None] | None = None

    def __call__(self, instant_time: str) -> str | None:
        known = self._instants.completion_times.get(instant_time)
        return known if known is not None else self.archived_ends.get(instant_time)

    @property
    def archived_ends(self) -> Mapping[str, str | None]:
        """Requested to completion time of the archived instants."""
        if self._archived_ends is None:
            self._archived_ends = {i.requested_time: i.completion_time for i in self._archived().completed_writes()}
        return self._archived_ends


def log_file_order(log_file: HoodieLogFile) -> tuple[str, int, str, bool]:
    """A sort key: the order in which the log files of a slice are merged, that of the requests of their instants."""
    return log_file.instant_time, log_file.version, log_file.write_token or "", log_file.is_cdc


def place_log_files(
    base_instants: Iterable[str], log_files: Iterable[HoodieLogFile], completion_time: CompletionTime
) -> dict[str, tuple[HoodieLogFile, ...]]:
    """The slices of a file group: each base instant with the log files of its slice, in order.

    A log file belongs to the slice with the largest base instant that is not after its completion. Without such a
    slice, its own instant is a base instant, also for the log files that follow.

    Args:
        base_instants: The instants of its committed base files, and of pending compactions that include it.
        log_files: Its log files of completed instants.
        completion_time: Gives the completion times of these.
    """
    slices: dict[str, list[HoodieLogFile]] = {time: [] for time in base_instants}
    for log_file in sorted(log_files, key=log_file_order):
        slices.setdefault(_slice_of(log_file, slices, completion_time), []).append(log_file)
    return {time: tuple(logs) for time, logs in slices.items()}


def place_log_files_by_name(
    base_instants: Iterable[str], log_files: Iterable[HoodieLogFile], compactions: Collection[str]
) -> dict[str, tuple[HoodieLogFile, ...]]:
    """Timeline layout 1: the slices of a file group, each base instant with the log files of its slice, in order.

    A log file has the base instant of its slice in its name. After a downgrade, older slices have log files that layout
    2 named by their delta commits. Such a log file belongs to the newest slice before it: writers of layout 1 begin no
    slice on top of another one but by a base file, or for a compaction.

    Args:
        base_instants: The instants of its committed base files.
        log_files: Its log files.
        compactions: The instants of pending compactions.
    """
    slices: dict[str, list[HoodieLogFile]] = {time: [] for time in base_instants}
    for log_file in sorted(log_files, key=log_file_order):
        own = log_file.instant_time
        if own not in slices and own not in compactions:
            own = newest(time for time in slices if is_before(time, own)) or own
        slices.setdefault(own, []).append(log_file)
    return {time: tuple(logs) for time, logs in slices.items()}


def _slice_of(log_file: HoodieLogFile, base_instants: Iterable[str], completion_time: CompletionTime) -> str:
    own, known = log_file.instant_time, set(base_instants)
    if log_file.is_cdc and own in known:
        # Change data lies beside the base file of its commit.
        return own
    last = newest(known)
    if last is None or not is_after(last, own):
        # An instant is completed after it is requested: no need to find out when.
        return own if last is None else last
    completed = completion_time(own)
    if completed is None:
        return last
    return newest(time for time in known if not is_after(time, completed)) or own
