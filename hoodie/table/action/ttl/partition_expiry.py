"""Plan which partitions expire, and tell what was planned or done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.common.util.shown_value import shown_value
from hoodie.config.ttl_config import HoodieTTLConfig
from hoodie.exception import HoodieConfigException
from hoodie.table.action.ttl.partition_times import KnownLastWrites, PartitionTimes
from hoodie.table.action.ttl.partition_ttl_strategy import PartitionTTLStrategy, partition_ttl_strategy
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.transaction.concurrent_operation import ConcurrentOperation

_DAYS_KEY = "hoodie.partition.ttl.strategy.days.retain"
_SERVICES = {
    WriteOperationType.COMPACT: "compaction",
    WriteOperationType.LOG_COMPACT: "log compaction",
    WriteOperationType.CLUSTER: "clustering",
}


@attrs.frozen
class ExpiredPartition:
    """A partition that is too old.

    Attributes:
        partition_path: The partition.
        aged_since: The instant time that makes it too old: its last write, or its creation; None if the strategy, one
            of the user's, names none.
        rows: The number of its rows; None if they could not be counted, because a file is missing or damaged.
        size_bytes: The size of its newest files.
        file_groups: The number of its file groups.
        kept_because: Why it stays for another run; None for one that is deleted.
    """

    partition_path: str
    aged_since: str | None
    rows: int | None
    size_bytes: int
    file_groups: int
    kept_because: str | None = None

    def __str__(self) -> str:
        rows = "rows that could not be counted" if self.rows is None else plural(self.rows, "row")
        since = "" if self.aged_since is None else f", old since {self.aged_since}"
        return f"'{self.partition_path}' ({rows}, {format_bytes(self.size_bytes)}{since})"


@attrs.frozen(repr=False)
class PartitionExpiry(RepairResult):
    """The partitions that expired, or would expire; prints as one line with a table below it.

    Attributes:
        base_path: The table's folder.
        instant_time: The ``replacecommit`` that deleted the partitions; None for a dry run, and where there was nothing
            to delete.
        partitions: The partitions that are deleted, the oldest first.
        kept: Partitions that are too old as well, and stay for another run, with the reasons.
        reference_time: The instant time to which ages were counted; None where the table has no instant.
        strategy: The name of the strategy's class.
        refusal: Why nothing may be deleted, and the way out; None if it may.
        note: Why there is nothing to delete, where that may surprise; None where it does not.
        is_dry_run: Whether nothing was deleted.
        service_errors: Errors after the commit, as in `HoodieWriteResult`.
    """

    base_path: str
    instant_time: str | None = None
    partitions: tuple[ExpiredPartition, ...] = ()
    kept: tuple[ExpiredPartition, ...] = ()
    reference_time: str | None = None
    strategy: str = ""
    refusal: str | None = None
    note: str | None = None
    is_dry_run: bool = False
    service_errors: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows in the partitions that are deleted, without those that could not be counted."""
        return sum(partition.rows or 0 for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        """The size of the newest files of the partitions that are deleted."""
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        instant = f" {self.instant_time}" if self.instant_time else ""
        kept = f"; {plural(len(self.kept), 'partition')} kept for another run" if self.kept else ""
        if self.refusal is not None:
            return f"expire: refused: {self.refusal}"
        if not self.partitions:
            return f"expire: no partition is too old{f': {self.note}' if self.note else ''}{kept}"
        verb = "would delete" if self.is_dry_run else "deleted"
        size = f"{plural(self.rows, 'row')}, {format_bytes(self.size_bytes)}"
        return f"expire{instant}: {verb} {plural(len(self.partitions), 'partition')} ({size}){kept}"

    @property
    def table(self) -> SummaryTable[ExpiredPartition]:
        """The partitions, deleted ones first."""
        return SummaryTable(ExpiredPartition, (*self.partitions, *self.kept))

    @property
    def partition_paths(self) -> list[str]:
        """The paths of the partitions that are deleted."""
        return [partition.partition_path for partition in self.partitions]


def plan_expiry(
    snapshot: TableSnapshot, config: HoodieTTLConfig, known: KnownLastWrites, *, own_instant: str | None, beside: bool
) -> PartitionExpiry:
    """Find the partitions that expire; their rows are not counted.

    Args:
        snapshot: The table.
        config: The options of the TTL.
        known: Last writes that earlier runs found in the archive; this one adds to it.
        own_instant: The pending instant of this run; None before it has one.
        beside: Whether pending writes may be those of other writers, which are at work.

    Raises:
        HoodieConfigException: The strategy is not known, or chose what it may not.
        HoodieException: Metadata of a commit, or a plan of a table service, is damaged; or storage failed.
    """
    strategy = partition_ttl_strategy(config)
    plan = PartitionExpiry(snapshot.base_path, strategy=type(strategy).__name__, is_dry_run=own_instant is None)
    if not snapshot.table_config.partition_fields:
        return attrs.evolve(plan, note="the table has no partitions")
    if config.days_retain <= 0 and config.strategy_class is None:
        return attrs.evolve(plan, note=f"{_DAYS_KEY} is {config.days_retain}: give the days that a partition stays")
    view = snapshot.view()
    listed = {path: view.latest_file_slices(path) for path in view.load_all_partitions()}
    slices: dict[str, Sequence[FileSlice]] = {path: found for path, found in listed.items() if found}
    selected = config.partition_selected
    times = PartitionTimes(snapshot, tuple(path for path in slices if path in selected or not selected), slices, known)
    chosen = _checked(strategy, times, config)
    expired = [
        ExpiredPartition(
            path,
            since,
            None,
            sum(file_slice.size_bytes for file_slice in slices[path]),
            len(slices[path]),
        )
        for path, since in sorted(chosen.items(), key=lambda one: (-_age(times, one[1]), one[0]))
    ]
    busy = _busy_partitions(snapshot, own_instant, beside)
    free = [one for one in expired if one.partition_path not in busy]
    kept = [attrs.evolve(one, kept_because=busy[one.partition_path]) for one in expired if one.partition_path in busy]
    limit = f"hoodie.partition.ttl.strategy.max.delete.partitions is {config.max_delete_partitions}"
    kept += [attrs.evolve(one, kept_because=limit) for one in free[config.max_delete_partitions :]]
    return attrs.evolve(
        plan,
        partitions=tuple(free[: config.max_delete_partitions]),
        kept=tuple(kept),
        reference_time=times.reference_time,
        refusal=_reason_against(chosen, times),
    )


def _checked(
    strategy: PartitionTTLStrategy, times: PartitionTimes, config: HoodieTTLConfig
) -> Mapping[str, str | None]:
    """The choice of a strategy, which may be the user's."""
    chosen: Any = strategy.expired_partitions(times)
    given = f"hoodie.partition.ttl.strategy.class = {config.strategy_class}"
    if not isinstance(chosen, Mapping):
        raise HoodieConfigException(
            f"{given}: expired_partitions() returned {shown_value(chosen)}: return partition path -> instant time, or "
            "None; nothing was deleted"
        )
    others = [path for path in chosen if path not in times.partition_paths]
    if others:
        raise HoodieConfigException(
            f"{given}: expired_partitions() returned {shown_value(others[0])}, which is not among the partitions that "
            "may expire (times.partition_paths); nothing was deleted"
        )
    return dict(chosen)


def _age(times: PartitionTimes, instant_time: str | None) -> timedelta:
    return times.age(instant_time) or timedelta()


def _reason_against(chosen: Mapping[str, str | None], times: PartitionTimes) -> str | None:
    """Why none of the chosen partitions may be deleted."""
    if not chosen:
        return None
    way_out = (
        f"Give a larger {_DAYS_KEY}, or name the partitions that may expire in "
        "hoodie.partition.ttl.strategy.partition.selected; delete_partitions deletes any partition; nothing was deleted"
    )
    base_path = times.snapshot.base_path
    if len(chosen) == len(times.slices):
        return f"all {plural(len(chosen), 'partition')} of {base_path} are too old by the partition TTL. {way_out}"
    written_last = [path for path in chosen if path in times.written_last]
    if written_last:
        return f"partition '{written_last[0]}' of {base_path} is too old, but it was written last. {way_out}"
    return None


def _busy_partitions(snapshot: TableSnapshot, own_instant: str | None, beside: bool) -> dict[str, str]:
    """The partitions that pending instants are about to change -> why they stay."""
    timeline = snapshot.active_timeline
    found: dict[str, str] = {}
    for instant in timeline.commits_timeline().filter_pending():
        if instant.requested_time == own_instant:
            continue
        operation = ConcurrentOperation.load(timeline, instant)
        what = _SERVICES.get(operation.operation_type)
        if what is None and not beside:
            # A write that failed; the next write rolls it back.
            continue
        for path, _ in operation.file_groups:
            found.setdefault(path, f"{what or 'write'} {instant.requested_time} is pending")
    return found
