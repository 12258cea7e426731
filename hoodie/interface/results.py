"""The results of a table's care: what an action did, as one line with a table below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

import attrs
import pyarrow as pa

from hoodie.avro.service_metadata import HoodieCleanerPlan, HoodieCleanMetadata
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.range_overlap import Overlap
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_table import plural
from hoodie.table.action.cluster.clustering_explanation import ClusteringExplanation, told_overlaps
from hoodie.table.repair.repaired_table import RepairResult


@attrs.frozen
class CleanedPartition:
    """The files that a clean deletes in one partition.

    Attributes:
        partition_path: The partition, "" in a table without partitions.
        files: The number of files.
        failed: The number of those that could not be deleted; the next clean tries again.
    """

    partition_path: str
    files: int
    failed: int = 0


@attrs.frozen(repr=False)
class CleanResult(RepairResult):
    """The old file versions that a clean deleted, or would delete.

    Attributes:
        instant_time: The instant of the clean; None for a plan, and where there was nothing to delete.
        partitions: The partitions with such files.
        earliest_commit: The oldest commit whose files all stay, so that the table can be read as of it; None where
            nothing tells it.
        is_dry_run: Whether nothing was deleted.
    """

    instant_time: str | None
    partitions: tuple[CleanedPartition, ...]
    earliest_commit: str | None = None
    is_dry_run: bool = False

    @classmethod
    def done(cls, metadata: HoodieCleanMetadata | None) -> Self:
        """The result of a clean.

        Args:
            metadata: The clean's record; None if there was nothing to delete.
        """
        if metadata is None:
            return cls(None, ())
        found = [
            CleanedPartition(path, len(stat.success_delete_files), len(stat.failed_delete_files))
            for path, stat in sorted(metadata.partition_metadata.items())
        ]
        return cls(metadata.start_clean_time, tuple(found), metadata.earliest_commit_to_retain or None)

    @classmethod
    def planned(cls, plan: HoodieCleanerPlan) -> Self:
        """The result of a dry run.

        Args:
            plan: The plan.
        """
        files = sorted(plan.file_paths_to_be_deleted_per_partition.items())
        earliest = plan.earliest_instant_to_retain
        found = tuple(CleanedPartition(path, len(paths)) for path, paths in files)
        return cls(None, found, None if earliest is None else earliest.timestamp, is_dry_run=True)

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(partition.files for partition in self.partitions)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        if not self.partitions:
            return "clean: nothing to delete"
        verb = "would delete" if self.is_dry_run else "deleted"
        text = f"clean{f' {self.instant_time}' if self.instant_time else ''}: {verb} {plural(self.files, 'file')}"
        text += f" in {plural(len(self.partitions), 'partition')}"
        failed = sum(partition.failed for partition in self.partitions)
        text += f"; {plural(failed, 'file')} could not be deleted, call clean() again" if failed else ""
        return text + (f"; as_of reads the table from {self.earliest_commit} on" if self.earliest_commit else "")

    @property
    def table(self) -> SummaryTable[CleanedPartition]:
        """The partitions."""
        return SummaryTable(CleanedPartition, self.partitions)


@attrs.frozen
class OptimizedPartition:
    """The files of one partition before and after they were put together.

    Attributes:
        partition_path: The partition, "" in a table without partitions.
        files_before: The number of file slices that are replaced.
        files_after: The number of new files; of a dry run the expected one.
        size_bytes: The size of the files that would be read, log files included; afterwards that of the new files.
    """

    partition_path: str
    files_before: int
    files_after: int
    size_bytes: int


@attrs.frozen(repr=False)
class OptimizeResult(RepairResult):
    """The files that were put together and ordered, or would be.

    Attributes:
        instant_time: The instant of the clustering; None for a plan, and where there was nothing to do.
        partitions: The partitions with such files.
        sort_columns: The columns by which rows are ordered.
        layout: The kind of the order: LINEAR, ZORDER or HILBERT.
        is_dry_run: Whether nothing was written.
        overlap_before: For each sort column the overlap of the ranges of the table's files before, as
            `hoodie.stats.overlap` tells it: the fewer files cover a value, the fewer are read for it.
        overlap_after: The same afterwards; of a dry run an estimate, see `estimated_overlap`.
        pending: The instant times of clusterings that were pending before; their file groups are left alone.
    """

    instant_time: str | None
    partitions: tuple[OptimizedPartition, ...]
    sort_columns: tuple[str, ...] = ()
    layout: str = "LINEAR"
    is_dry_run: bool = False
    overlap_before: tuple[Overlap, ...] = ()
    overlap_after: tuple[Overlap, ...] = ()
    pending: tuple[str, ...] = ()

    @classmethod
    def planned(cls, explained: ClusteringExplanation, pending: Sequence[str] = ()) -> Self:
        """The result of a dry run.

        Args:
            explained: The work that would be done.
            pending: See the attributes.
        """
        found: dict[str, OptimizedPartition] = {}
        for group in explained.groups:
            path = group.partition_path
            old = found.get(path, OptimizedPartition(path, 0, 0, 0))
            found[path] = OptimizedPartition(
                path,
                old.files_before + group.files,
                old.files_after + group.output_files,
                old.size_bytes + group.bytes,
            )
        return cls(
            None,
            tuple(found.values()),
            explained.sort_columns,
            explained.layout,
            True,
            explained.overlap_before,
            explained.overlap_after,
            tuple(pending),
        )

    def done(self, result: HoodieWriteResult | None) -> Self:
        """The result of the clustering that the plan became.

        Args:
            result: The result of the clustering; None if there was nothing to do.
        """
        if result is None:
            return attrs.evolve(self, partitions=(), is_dry_run=False)
        before = Counter(path for path, _ in result.commit_metadata.replaced_file_groups)
        written = result.commit_metadata.partition_to_write_stats
        found = tuple(
            OptimizedPartition(
                path,
                before[path],
                len(written.get(path, ())),
                sum(stat.file_size_bytes for stat in written.get(path, ())),
            )
            for path in sorted(before)
        )
        return attrs.evolve(self, instant_time=result.instant_time, partitions=found, is_dry_run=False)

    @property
    def files_before(self) -> int:
        """The number of file slices that are replaced."""
        return sum(partition.files_before for partition in self.partitions)

    @property
    def files_after(self) -> int:
        """The number of new files."""
        return sum(partition.files_after for partition in self.partitions)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        waiting = f"; clustering {', '.join(self.pending)} is pending: client.cluster() carries it out"
        waiting = waiting if self.pending else ""
        if not self.partitions:
            return "optimize: nothing to put together" + waiting
        verb = "would become about" if self.is_dry_run else "became"
        text = f"optimize{f' {self.instant_time}' if self.instant_time else ''}: {plural(self.files_before, 'file')} "
        text += f"in {plural(len(self.partitions), 'partition')} {verb} {self.files_after}"
        text += f", ordered by {', '.join(self.sort_columns)} ({self.layout})" if self.sort_columns else ""
        text += told_overlaps(self.overlap_before, self.overlap_after, "then in about" if self.is_dry_run else "now in")
        return text + waiting

    @property
    def table(self) -> SummaryTable[OptimizedPartition]:
        """The partitions."""
        return SummaryTable(OptimizedPartition, self.partitions)


@attrs.frozen
class ArchiveResult:
    """The instants that were moved from the active timeline to the archive.

    Attributes:
        count: Their number.
    """

    count: int

    def __str__(self) -> str:
        return f"archive: {plural(self.count, 'instant')} archived" if self.count else "archive: nothing to archive"


@attrs.frozen
class UndoResult:
    """The instants that a rollback or a restore undid.

    Attributes:
        action: ``rollback`` or ``restore``.
        instant_times: The instants that were undone, the newest first; empty if there was nothing to undo.
    """

    action: str
    instant_times: tuple[str, ...]

    def __str__(self) -> str:
        if not self.instant_times:
            return f"{self.action}: nothing to undo"
        return f"{self.action}: {plural(len(self.instant_times), 'instant')} undone: {', '.join(self.instant_times)}"


@attrs.frozen(eq=False)
class TableChanges:
    """The rows that a range of commits wrote, or their changes.

    Attributes:
        rows: Each row once, with its latest value in the range. With deletes, the changes: ``op`` (``i``, ``u`` or
            ``d``), ``_hoodie_commit_time``, and the rows ``before`` and ``after``.
        since: The range begins after this time; None for the beginning of the table.
        until: The range ends at this time; pass it as ``since`` of the next call. Equal to ``since`` if there is
            nothing newer; None if the table has no commit.
        has_deletes: Whether `rows` are changes, deletes included.
    """

    rows: pa.Table
    since: str | None
    until: str | None
    has_deletes: bool = False

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __repr__(self) -> str:
        begin = "the beginning" if self.since is None else self.since
        what = f"{plural(len(self), 'change')} made" if self.has_deletes else f"{plural(len(self), 'row')} written"
        return f"<TableChanges: {what} after {begin}, up to {self.until or 'now'}>"


@attrs.frozen
class TableIndex:
    """An index of a table, or statistics that queries prune files by.

    Attributes:
        name: Its name: a partition of the metadata table.
        kind: ``files``, ``column_stats``, ``partition_stats``, ``bloom_filters``, ``record_index``,
            ``secondary_index`` or ``expr_index``.
        columns: The columns that it is of, separated by commas; None where it is of no single ones, or of all.
        state: ``ready``, or ``building``.
    """

    name: str
    kind: str
    columns: str | None
    state: str
