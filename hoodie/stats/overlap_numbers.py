"""The overlap of ranges of a column in base files: the quality of a clustering, and of a key order for BLOOM.

The depth at a value is the number of files of a partition whose range, smallest to largest value, covers it. A look-up
of the value opens so many files::

    file 1   |--------|
    file 2        |--------|
    depth    1    2   1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.common.model.column_range import HoodieColumnRange, RangeValue
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.io.parquet.column_ranges import load_metadata, read_column_ranges
from hoodie.stats.file_numbers import quantile
from hoodie.storage.storage import HoodieStorage

MAX_FOOTERS = 1000
"""Footers of so many base files are read; the largest partitions count."""
_Numbers = npt.NDArray[np.int64]


@attrs.frozen
class Overlap:
    """The depths of a column: at each end of each range, the number of files of the partition that cover it.

    Attributes:
        column: The column.
        file_count: Base files with a range of the column.
        left_out: Base files whose footers were not read, because there are more than 1,000.
        mean_depth: The mean; 1 is the best.
        p95_depth: At a twentieth of the ends the depth is larger.
        max_depth: The largest.
    """

    column: str
    file_count: int
    left_out: int
    mean_depth: float | None
    p95_depth: float | None
    max_depth: int | None


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


def column_overlaps(storage: HoodieStorage, slices: Iterable[FileSlice], columns: Sequence[str]) -> list[ColumnOverlap]:
    """The overlap of columns, by the footers of base files.

    Args:
        storage: The table's storage.
        slices: The newest slices.
        columns: The columns, nested ones as a path with dots.
    """
    chosen, left_out = _chosen(slices)
    files = [(path, file) for path, found in chosen.items() for file in found]

    def read(entry: tuple[str, HoodieBaseFile]) -> dict[str, HoodieColumnRange]:
        return {
            found.column_name: found for found in read_column_ranges(load_metadata(storage, entry[1].path), columns)
        }

    by_file = list(map_concurrently(read, files))
    return [_overlap(column, files, by_file, left_out) for column in columns]


def _chosen(slices: Iterable[FileSlice]) -> tuple[dict[str, list[HoodieBaseFile]], int]:
    """The base files of the partitions with the most files, and how many others there are."""
    partitions: dict[str, list[HoodieBaseFile]] = {}
    for part in slices:
        if part.base_file is not None:
            partitions.setdefault(part.partition_path, []).append(part.base_file)
    chosen: dict[str, list[HoodieBaseFile]] = {}
    left, left_out = MAX_FOOTERS, 0
    for path, found in sorted(partitions.items(), key=lambda item: (-len(item[1]), item[0])):
        chosen[path] = found[:left]
        left_out += len(found[left:])
        left -= len(chosen[path])
    return {path: found for path, found in chosen.items() if found}, left_out


def _overlap(
    column: str,
    files: Sequence[tuple[str, HoodieBaseFile]],
    by_file: Sequence[Mapping[str, HoodieColumnRange]],
    left_out: int,
) -> ColumnOverlap:
    partitions: dict[str, list[tuple[HoodieBaseFile, HoodieColumnRange]]] = {}
    for (path, file), found in zip(files, by_file, strict=True):
        known = found.get(column)
        if known is not None and known.min_value is not None and known.max_value is not None:
            partitions.setdefault(path, []).append((file, known))
    largest, depths = max(partitions, key=lambda path: len(partitions[path]), default=""), []
    ranges: list[FileRange] = []
    curve: list[int] = []
    for path, entries in partitions.items():
        starts, ends = _places([known for _, known in entries])
        points = np.sort(np.concatenate([starts, ends]))
        found_depths = _covering(points, points, starts, ends)
        depths += found_depths.tolist()
        if path == largest:
            curve = found_depths.tolist()
            overlapping = _covering(ends, starts, starts, ends)
            last = max(1, int(points[-1]))
            ranges = [
                FileRange(
                    file.file_id,
                    start / last,
                    end / last,
                    depth,
                    f"{_text(known.min_value)} to {_text(known.max_value)}",
                )
                for (file, known), start, end, depth in sorted(
                    zip(entries, starts.tolist(), ends.tolist(), overlapping.tolist(), strict=True),
                    key=lambda entry: (entry[1], entry[2], entry[0][0].file_id),
                )
            ]
    count = sum(map(len, partitions.values()))
    ordered = sorted(depths)
    summary = Overlap(
        column,
        count,
        left_out,
        sum(depths) / len(depths) if depths else None,
        quantile(ordered, 0.95) if depths else None,
        ordered[-1] if depths else None,
    )
    return ColumnOverlap(summary, depths, largest, ranges, curve)


def _places(ranges: Sequence[HoodieColumnRange]) -> tuple[_Numbers, _Numbers]:
    """The smallest and largest values as numbers in the same order."""
    values = [(_ordered(known.min_value), _ordered(known.max_value)) for known in ranges]
    place_of = {value: place for place, value in enumerate(sorted({value for pair in values for value in pair}))}
    starts, ends = (np.array([place_of[pair[side]] for pair in values], np.int64) for side in (0, 1))
    return starts, ends


def _ordered(value: RangeValue | None) -> RangeValue:
    # NaN is the largest number.
    return math.inf if value is None or value != value else value


def _covering(upper: _Numbers, lower: _Numbers, starts: _Numbers, ends: _Numbers) -> _Numbers:
    """The number of ranges that begin at or before an upper value and end at or after a lower value."""
    begun = np.searchsorted(np.sort(starts), upper, side="right")
    ended = np.searchsorted(np.sort(ends), lower, side="left")
    return np.asarray(begun - ended, np.int64)


def _text(value: RangeValue | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
