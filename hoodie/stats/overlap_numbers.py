"""The overlap of the ranges of a column in files."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hoodie.common.model.column_range import RangeValue
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.range_overlap import ColumnRanges, Overlap, RangeDepths
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.query.slice_ranges import ranges_of_slices


@attrs.frozen(eq=False)
class FileRange:
    """The range of a column in one file, and how many files of its partition overlap it.

    Attributes:
        file_id: The file group.
        start: The place of its smallest value among the ends of all ranges of the partition, from 0 to 1.
        end: The place of its largest value.
        depth: The number of files that overlap it, itself too.
        label: The smallest and the largest value as text.
    """

    file_id: str
    start: float
    end: float
    depth: int
    label: str


@attrs.frozen(eq=False)
class ColumnOverlap:
    """The overlap of one column.

    Attributes:
        summary: Its numbers.
        depths: The depths at all ends, partition by partition, in the order of values.
        partition_path: The partition with the most files.
        ranges: The ranges of its files, in the order of their smallest values.
        curve: The depths at the ends of these ranges, in the order of values.
    """

    summary: Overlap
    depths: Sequence[int]
    partition_path: str
    ranges: Sequence[FileRange]
    curve: Sequence[int]


def column_overlaps(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> list[ColumnOverlap]:
    """The overlap of columns in the newest slices.

    Args:
        snapshot: The table.
        slices: The newest slices.
        columns: See `ranges_of_slices`.
    """
    found = ranges_of_slices(snapshot, slices, columns)
    return [_overlap(column, found[column]) for column in columns]


def _overlap(column: str, known: ColumnRanges) -> ColumnOverlap:
    partitions = known.by_partition()
    largest = max(partitions, key=lambda path: len(partitions[path]), default="")
    depths_of = {path: RangeDepths.of([(one.low, one.high) for one in found]) for path, found in partitions.items()}
    ranges: list[FileRange] = []
    if partitions:
        depths = depths_of[largest]
        last = max(1, int(depths.ends.max()))
        places = zip(
            partitions[largest], depths.starts.tolist(), depths.ends.tolist(), depths.of_ranges().tolist(), strict=True
        )
        ranges = [
            FileRange(one.file_id, start / last, end / last, depth, f"{_text(one.low)} to {_text(one.high)}")
            for one, start, end, depth in sorted(places, key=lambda entry: (entry[1], entry[2], entry[0].file_id))
        ]
    return ColumnOverlap(
        known.overlap(column),
        [depth for depths in depths_of.values() for depth in depths.at_ends.tolist()],
        largest,
        ranges,
        depths_of[largest].at_ends.tolist() if partitions else [],
    )


def _text(value: RangeValue | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
