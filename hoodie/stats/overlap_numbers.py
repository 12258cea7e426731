"""The overlap of the ranges of a column in files, by statistics of the metadata table or by footers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context

import attrs
import pyarrow as pa

from hoodie.common.model.column_range import HoodieColumnRange, RangeValue
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.range_overlap import Overlap, RangeDepths, overlap_of
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.parquet.column_ranges import load_metadata, read_column_ranges
from hoodie.query.range_pruning import bounds_of_slices
from hoodie.query.read_plan import all_columns

MAX_FOOTERS = 1000
"""Footers of so many base files are read; the largest partitions count."""
COLUMN_STATISTICS, FOOTERS = "column statistics", "footers"
_DIGITS = Context(prec=100)
_STORED = (
    (pa.types.is_string, pa.binary()),
    (pa.types.is_boolean, pa.int8()),
    (pa.types.is_date32, pa.int32()),
    (pa.types.is_timestamp, pa.int64()),
)


@attrs.frozen
class _Range:
    partition_path: str
    file_id: str
    low: RangeValue
    high: RangeValue


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

    The ranges are those of the column statistics in the metadata table, which hold those of log files, if it knows the
    range of every slice; else those in the footers of base files.

    Args:
        snapshot: The table; its `listing_choice` says whether the metadata table is read.
        slices: The newest slices.
        columns: The columns, nested ones as a path with dots.
    """
    by_statistics = _ranges_by_statistics(snapshot, slices, columns)
    others = [column for column in columns if column not in by_statistics]
    by_footers, left_out = _ranges_by_footers(snapshot, slices, others) if others else ({}, 0)
    return [
        _overlap(column, by_statistics[column], COLUMN_STATISTICS, 0)
        if column in by_statistics
        else _overlap(column, by_footers[column], FOOTERS, left_out)
        for column in columns
    ]


def _ranges_by_statistics(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> dict[str, list[_Range]]:
    """The ranges of those columns of which statistics tell the range of every slice."""
    if snapshot.load_avro_schema() is None:
        return {}
    schema = all_columns(snapshot.load_schema())
    known = list(dict.fromkeys(column for column in columns if column in schema.names))
    found: dict[str, list[_Range]] = {}
    for column, bounds in (bounds_of_slices(snapshot, slices, schema, known) or {}).items():
        ends = list(zip(_stored(bounds.low), _stored(bounds.high), strict=True))
        if all(low is not None or is_void for (low, _), is_void in zip(ends, bounds.is_void.tolist(), strict=True)):
            found[column] = [
                _Range(part.partition_path, part.file_id, low, high)
                for part, (low, high) in zip(slices, ends, strict=True)
                if low is not None and high is not None
            ]
    return found


def _ranges_by_footers(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> tuple[dict[str, list[_Range]], int]:
    chosen, left_out = _chosen(slices)
    files = [(path, file) for path, found in chosen.items() for file in found]

    def read(entry: tuple[str, HoodieBaseFile]) -> dict[str, HoodieColumnRange]:
        metadata = load_metadata(snapshot.storage, entry[1].path)
        return {found.column_name: found for found in read_column_ranges(metadata, columns)}

    ranges: dict[str, list[_Range]] = {column: [] for column in columns}
    for (path, file), found in zip(files, map_concurrently(read, files), strict=True):
        for column, known in found.items():
            if known.min_value is not None and known.max_value is not None:
                ranges[column].append(_Range(path, file.file_id, known.min_value, known.max_value))
    return ranges, left_out


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


def _overlap(column: str, known: Sequence[_Range], source: str, left_out: int) -> ColumnOverlap:
    partitions: dict[str, list[_Range]] = {}
    for one in known:
        partitions.setdefault(one.partition_path, []).append(one)
    largest = max(partitions, key=lambda path: len(partitions[path]), default="")
    depths_of = {path: RangeDepths.of([(one.low, one.high) for one in found]) for path, found in partitions.items()}
    ranges: list[FileRange] = []
    if known:
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
        overlap_of(column, depths_of.values(), source=source, left_out=left_out),
        [depth for depths in depths_of.values() for depth in depths.at_ends.tolist()],
        largest,
        ranges,
        depths_of[largest].at_ends.tolist() if known else [],
    )


def _stored(values: pa.Array) -> list[RangeValue | None]:
    """Ends of ranges as footers store them."""
    kind = values.type
    if pa.types.is_decimal(kind):
        digits = (None if value is None else value.scaleb(kind.scale, _DIGITS) for value in values.to_pylist())
        return [None if value is None else int(value) for value in digits]
    stored = next((whole for is_kind, whole in _STORED if is_kind(kind)), None)
    found: list[RangeValue | None] = (values if stored is None else values.cast(stored)).to_pylist()
    return found


def _text(value: RangeValue | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
