"""Decide which files of a partition are no longer needed: the policies' rules, as a function of a listing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import attrs

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.file_slice import HoodieFileGroupId, HoodieLogFile
from hoodie.common.table.timeline.instant_time import in_order, is_before, oldest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.log_placement import CompletionTime, place_log_files, place_log_files_by_name
from hoodie.storage.storage import FileStatus


def _unknown(instant_time: str) -> None:
    """Know no completion time of any instant."""


@attrs.frozen
class PartitionCleaning:
    """The files that go from one partition.

    Attributes:
        partition_path: The partition.
        paths: Full paths of the files that go, sorted.
        is_left_empty: Whether no data file is left, committed or not.
    """

    partition_path: str
    paths: tuple[str, ...]
    is_left_empty: bool


@attrs.frozen
class PendingInstants:
    """The files that pending instants need.

    Attributes:
        earliest: The oldest pending write; None without one.
        compacted: File groups in a pending compaction, and the base instant of the slice that it compacts.
        compactions: Timeline layout 2: file groups in pending compactions, each with the instants of these.
    """

    earliest: str | None = None
    compacted: Mapping[HoodieFileGroupId, str] = attrs.field(factory=dict)
    compactions: Mapping[HoodieFileGroupId, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class FileRetention:
    """Decides about the files of a partition. Picklable: partitions are looked at by tasks.

    Of each file group, the newest slice stays. Beyond it, with an earliest instant E to retain (policies that keep
    commits or hours), the slices from E on stay, and the newest one before E: that is what a reader at E sees::

        slices of a group   10   20   30   40        E = 35: 40 and 30 stay, 10 and 20 go
                                      ^ read at 35

    Without E (the policy that counts versions), the newest `versions` slices stay. A file group that was replaced goes
    as a whole, once the instant that replaced it is before E.

    Whatever the policy, these stay: slices with a file that a savepoint or a pending clustering names; slices that a
    pending compaction needs; the slice that was the newest when the earliest pending write began, and later slices;
    files that are not committed.

    A slice is its base file with its log files, as readers find them: see `hoodie.common.table.view.log_placement`.

    Attributes:
        instants: Tells which instants are committed.
        earliest: Instant time E; None to count versions.
        versions: Slices of each group that stay; only without E.
        pending: The needs of pending writes and compactions.
        replaced: File groups that were replaced, each with the instant that replaced it.
        held: Names of files that savepoints and pending clusterings hold.
        completion_time: Timeline layout 2: when an instant was completed.
    """

    instants: VisibleInstants
    earliest: str | None
    versions: int = 1
    pending: PendingInstants = PendingInstants()
    replaced: Mapping[HoodieFileGroupId, str] = attrs.field(factory=dict)
    held: frozenset[str] = frozenset()
    completion_time: CompletionTime = attrs.field(default=_unknown, repr=False)

    def clean(self, partition_path: str, files: Iterable[FileStatus]) -> PartitionCleaning:
        """The files of a partition that go.

        Args:
            partition_path: The partition.
            files: Its base and log files, whatever their instants.
        """
        groups, kept_count = self._committed_slices(partition_path, files)
        doomed: list[str] = []
        for file_id, slices in groups.items():
            going = set(self._slices_that_go(HoodieFileGroupId(partition_path, file_id), slices))
            for instant_time, paths in slices.items():
                if instant_time in going and not self._is_held(paths):
                    doomed.extend(paths)
                else:
                    kept_count += len(paths)
        return PartitionCleaning(partition_path, tuple(sorted(doomed)), kept_count == 0)

    def _committed_slices(
        self, partition_path: str, files: Iterable[FileStatus]
    ) -> tuple[dict[str, dict[str, list[str]]], int]:
        """File id to base instant to paths; and how many files are not committed, or are no data files."""
        groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        base_is_committed: dict[str, bool] = {}
        logs: dict[str, list[HoodieLogFile]] = defaultdict(list)
        others = 0
        for status in files:
            base = parse_base_file_name(status.name)
            if base is not None:
                is_committed = base_is_committed.get(base.instant_time)
                if is_committed is None:
                    is_committed = self.instants.is_committed(base.instant_time)
                    base_is_committed[base.instant_time] = is_committed
                if is_committed:
                    groups[base.file_id][base.instant_time].append(status.path)
                    continue
            else:
                log = parse_log_file_name(status.name)
                if log is not None and not log.is_archive and self.instants.has_visible_log_files(log.instant_time):
                    logs[log.file_id].append(HoodieLogFile.of(log, status))
                    continue
            others += 1
        for file_id, log_files in logs.items():
            slices = groups[file_id]
            if self.instants.has_completion_times:
                compactions = self.pending.compactions.get(HoodieFileGroupId(partition_path, file_id), ())
                placed = place_log_files({*slices, *compactions}, log_files, self.completion_time)
            else:
                placed = place_log_files_by_name(slices, log_files, self.instants.pending_compactions)
            for instant_time, found in placed.items():
                slices[instant_time] += [log_file.path for log_file in found]
        return groups, others

    def _slices_that_go(self, group: HoodieFileGroupId, slices: Mapping[str, list[str]]) -> list[str]:
        bound = oldest([self.earliest, self.pending.earliest])
        replaced_at = self.replaced.get(group)
        if replaced_at is not None:
            return list(slices) if bound is None or is_before(replaced_at, bound) else []
        compacted = self.pending.compacted.get(group)
        newest_first = in_order(slices)[::-1]

        def from_on(start: str) -> int:
            return sum(not is_before(time, start) for time in newest_first)

        kept = 1 if bound is None else from_on(bound) + 1
        if self.earliest is None:
            # The slices that a pending compaction needs count as one version.
            kept = max(kept, self.versions if compacted is None else from_on(compacted) + self.versions - 1)
        return [time for time in newest_first[kept:] if compacted is None or is_before(time, compacted)]

    def _is_held(self, paths: list[str]) -> bool:
        return bool(self.held) and any(path.rsplit("/", 1)[-1] in self.held for path in paths)
