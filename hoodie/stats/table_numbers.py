"""The numbers of one table at one moment; listings and commits are read once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.range_overlap import Overlap
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieConfigException
from hoodie.metadata.reader.metadata_listing import MetadataListingChoice
from hoodie.query.slice_ranges import check_range_columns
from hoodie.stats.commit_numbers import (
    Amplification,
    CommitNumbers,
    Growth,
    PartitionWrite,
    TimelineSpan,
    amplification,
    growth,
    read_commits,
    spans,
)
from hoodie.stats.file_numbers import (
    HeldBytes,
    PartitionSize,
    SizeBin,
    SizeSpread,
    SliceSize,
    held_bytes,
    partition_sizes,
    size_bins,
    sizes_by_commit,
    sizes_by_partition,
    slice_sizes,
    spreads,
)
from hoodie.stats.overlap_numbers import ColumnOverlap, column_overlaps
from hoodie.table.action.clean.clean_planner import CleanPlanner
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints

_OVERLAP_COLUMNS = 4


class TableNumbers:
    """The numbers of a table, one method a picture.

    Args:
        snapshot: The table.
        config: A writer's configuration, for the limits of file sizes and for what a clean would delete.
    """

    def __init__(self, snapshot: TableSnapshot, config: HoodieWriteConfig) -> None:
        self.snapshot = snapshot
        self.config = config
        self._read: list[CommitNumbers] = []
        self._has_read_archive = False

    def timeline(self) -> SummaryTable[TimelineSpan]:
        """See `hoodie.stats.timeline`."""
        return SummaryTable(TimelineSpan, spans(self.snapshot, self._commits(archived=False)))

    def growth(self) -> SummaryTable[Growth]:
        """See `hoodie.stats.growth`."""
        return SummaryTable(Growth, growth(self._commits(archived=True)))

    def amplification(self) -> SummaryTable[Amplification]:
        """See `hoodie.stats.amplification`."""
        return SummaryTable(Amplification, amplification(self._commits(archived=False)))

    def sizes(self) -> SummaryTable[SizeBin]:
        """See `hoodie.stats.sizes`."""
        return SummaryTable(SizeBin, size_bins(self.slices))

    def sizes_by(self, group: str) -> SummaryTable[SizeSpread]:
        """See `hoodie.stats.sizes_by`."""
        if group == "commit":
            return SummaryTable(SizeSpread, spreads(sizes_by_commit(self.all_slices)))
        if group == "partition":
            return SummaryTable(SizeSpread, spreads(sizes_by_partition(self.slices)))
        raise HoodieConfigException(f"sizes are grouped by {shown_value(group)}: give 'commit' or 'partition'")

    def partitions(self) -> SummaryTable[PartitionSize]:
        """See `hoodie.stats.partitions`."""
        return SummaryTable(PartitionSize, partition_sizes(self._view.list_partitions(), self.slices, self.writes))

    def slices_by_size(self) -> SummaryTable[SliceSize]:
        """See `hoodie.stats.slices`."""
        timeline = self.snapshot.active_timeline
        return SummaryTable(SliceSize, slice_sizes(self.slices, lambda time: len(timeline.completed_after(time))))

    def overlap(self, columns: Sequence[str] = ()) -> SummaryTable[Overlap]:
        """See `hoodie.stats.overlap`."""
        return self.summary_of(self.column_overlaps(columns))

    def summary_of(self, overlaps: Sequence[ColumnOverlap]) -> SummaryTable[Overlap]:
        """The numbers of some columns.

        Args:
            overlaps: See `column_overlaps`.
        """
        return SummaryTable(Overlap, [found.summary for found in overlaps])

    def versions(self) -> SummaryTable[HeldBytes]:
        """See `hoodie.stats.versions`."""
        snapshot = self.snapshot
        held = {found.instant_time: found.files for found in savepoints(snapshot.active_timeline)}
        planner = CleanPlanner(LocalEngineContext(), self.config.clean, snapshot)
        plan = planner.make_plan(None, may_delete_partitions=False)
        cleaned = [file.file_path for files in plan.file_paths_to_be_deleted_per_partition.values() for file in files]
        return SummaryTable(HeldBytes, held_bytes(self.slices, self.all_slices, held, cleaned))

    def of(self, picture: str, by: str | None = None, columns: Sequence[str] = ()) -> SummaryTable[Any]:
        """The numbers of a picture.

        Args:
            picture: One of `PICTURES`.
            by: ``commit`` or ``partition``, for ``sizes``.
            columns: Columns, for ``overlap``.

        Raises:
            HoodieConfigException: There is no such picture, or it has no groups or columns.
        """
        if picture not in PICTURES:
            raise HoodieConfigException(
                f"there is no picture {shown_value(picture)}: give one of {', '.join(PICTURES)}"
            )
        if by is not None:
            if picture != "sizes":
                raise HoodieConfigException(f"{picture} has no groups: by= is for sizes")
            return self.sizes_by(by)
        if columns:
            if picture != "overlap":
                raise HoodieConfigException(f"{picture} has no columns: columns= is for overlap")
            return self.overlap(columns)
        return PICTURES[picture](self)

    # --- what several of them need --------------------------------------------------------------------------------

    @cached_property
    def slices(self) -> list[FileSlice]:
        """The newest slices."""
        view = self._view
        return [part for path in view.load_all_partitions() for part in view.latest_file_slices(path)]

    @cached_property
    def all_slices(self) -> list[FileSlice]:
        """All committed slices, replaced ones too."""
        view = self._view
        return [
            part for path in view.load_all_partitions() for group in view.all_file_groups(path) for part in group.slices
        ]

    @cached_property
    def writes(self) -> list[PartitionWrite]:
        """The writes of the active timeline by partition."""
        return [write for commit in self._commits(archived=False) for write in commit.partitions]

    def column_overlaps(self, columns: Sequence[str] = ()) -> list[ColumnOverlap]:
        """The overlap of columns.

        Args:
            columns: The columns; none of them: the record key, the columns of the key and those of the ordering.

        Raises:
            HoodieSchemaException: The table lacks one of them.
        """
        check_range_columns(self.snapshot, columns)
        stored = self.snapshot.table_config
        keys = stored.record_key_fields
        whole_key = [] if len(keys) == 1 else [RECORD_KEY_META]
        wanted = columns or list(dict.fromkeys([*whole_key, *keys, *stored.ordering_fields]))[:_OVERLAP_COLUMNS]
        choice = MetadataListingChoice(is_enabled=self.config.metadata.enable is not False)
        return column_overlaps(attrs.evolve(self.snapshot, listing_choice=choice), self.slices, wanted)

    def _commits(self, *, archived: bool) -> list[CommitNumbers]:
        has_archive = archived and self.snapshot.active_timeline.has_archive
        if not self._read or (has_archive and not self._has_read_archive):
            self._read = read_commits(self.snapshot, archived=has_archive)
            self._has_read_archive = has_archive
        return self._read if archived else [commit for commit in self._read if not commit.is_archived]

    @cached_property
    def _view(self) -> Any:
        return self.snapshot.view(tells_sizes=False)


PICTURES: dict[str, Callable[[TableNumbers], SummaryTable[Any]]] = {
    "timeline": TableNumbers.timeline,
    "growth": TableNumbers.growth,
    "amplification": TableNumbers.amplification,
    "sizes": TableNumbers.sizes,
    "partitions": TableNumbers.partitions,
    "slices": TableNumbers.slices_by_size,
    "overlap": TableNumbers.overlap,
    "versions": TableNumbers.versions,
}
"""Name of a picture -> its numbers."""
