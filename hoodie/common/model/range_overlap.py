"""The overlap of ranges of a column in files: the quality of a clustering, and of a key order for BLOOM.

The depth at a value is the number of files of a partition whose range, smallest to largest value, covers it. A look-up
of the value opens so many files::

    file 1   |--------|
    file 2        |--------|
    depth    1    2   1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.common.model.column_range import RangeValue
from hoodie.common.util.quantile import quantile

_Numbers = npt.NDArray[np.int64]


@attrs.frozen
class Overlap:
    """The depths of a column: at each end of each range, the number of files of the partition that cover it.

    Attributes:
        column: The column.
        file_count: Files with a range of the column.
        left_out: Base files whose footers were not read, because there are more than 1,000.
        mean_depth: The mean; 1 is the best.
        p95_depth: At a twentieth of the ends the depth is larger.
        max_depth: The largest.
        source: The origin of the ranges: ``column statistics`` of the metadata table, which count log files to their
            slice, or ``footers`` of base files; ``estimated from`` one of them, of files that do not exist yet.
    """

    column: str
    file_count: int
    left_out: int
    mean_depth: float | None
    p95_depth: float | None
    max_depth: int | None
    source: str


@attrs.frozen
class SliceRange:
    """The range of one column in one file slice.

    Attributes:
        partition_path: The partition.
        file_id: The file group.
        low: The smallest value, as Parquet stores it.
        high: The largest value.
    """

    partition_path: str
    file_id: str
    low: RangeValue
    high: RangeValue


@attrs.frozen
class ColumnRanges:
    """The ranges of one column in the file slices of a table.

    Attributes:
        ranges: One range for each slice of which it is known; a slice of nulls alone has none.
        source: See `Overlap`.
        left_out: See `Overlap`.
    """

    ranges: tuple[SliceRange, ...]
    source: str
    left_out: int = 0

    def by_partition(self) -> dict[str, list[SliceRange]]:
        """The ranges of each partition that has some."""
        found: dict[str, list[SliceRange]] = {}
        for one in self.ranges:
            found.setdefault(one.partition_path, []).append(one)
        return found

    def overlap(self, column: str) -> Overlap:
        """The overlap of the column.

        Args:
            column: Its name.
        """
        depths = [RangeDepths.of([(one.low, one.high) for one in found]) for found in self.by_partition().values()]
        return overlap_of(column, depths, source=self.source, left_out=self.left_out)


@attrs.frozen(eq=False)
class RangeDepths:
    """The ranges of one column in the files of one partition, by the places of their ends among all ends.

    Attributes:
        starts: The place of the smallest value of each range, from 0.
        ends: The place of the largest value.
        at_ends: The depths at all starts and ends, in the order of values.
    """

    starts: _Numbers
    ends: _Numbers
    at_ends: _Numbers

    @classmethod
    def of(cls, ranges: Sequence[tuple[RangeValue, RangeValue]]) -> RangeDepths:
        """The depths of ranges.

        Args:
            ranges: The smallest and the largest value of each file, all of one type; NaN is the largest number.
        """
        values = [(_ordered(low), _ordered(high)) for low, high in ranges]
        place_of = {value: place for place, value in enumerate(sorted({end for pair in values for end in pair}))}
        starts, ends = (np.array([place_of[pair[side]] for pair in values], np.int64) for side in (0, 1))
        points = np.sort(np.concatenate([starts, ends]))
        return cls(starts, ends, _covering(points, points, starts, ends))

    def of_ranges(self) -> _Numbers:
        """For each range, the number of ranges that overlap it, itself too."""
        return _covering(self.ends, self.starts, self.starts, self.ends)


def overlap_of(column: str, partitions: Iterable[RangeDepths], *, source: str = "", left_out: int = 0) -> Overlap:
    """The overlap of a column in a table, or in the files that a clustering would leave.

    Args:
        column: The column.
        partitions: The ranges of the files of each partition.
        source: See `Overlap`.
        left_out: See `Overlap`.
    """
    known = list(partitions)
    depths = np.sort(np.concatenate([np.zeros(0, np.int64), *(found.at_ends for found in known)]))
    count = sum(len(found.starts) for found in known)
    if not len(depths):
        return Overlap(column, count, left_out, None, None, None, source)
    p95 = quantile(depths.tolist(), 0.95)
    return Overlap(column, count, left_out, float(depths.mean()), p95, int(depths[-1]), source)


def _ordered(value: RangeValue) -> RangeValue:
    # NaN is the largest number.
    return math.inf if value != value else value


def _covering(upper: _Numbers, lower: _Numbers, starts: _Numbers, ends: _Numbers) -> _Numbers:
    """The number of ranges that begin at or before an upper value and end at or after a lower value."""
    begun = np.searchsorted(np.sort(starts), upper, side="right")
    ended = np.searchsorted(np.sort(ends), lower, side="left")
    return np.asarray(begun - ended, np.int64)
