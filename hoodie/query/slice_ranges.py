"""The ranges of columns in file slices, by statistics of the metadata table or by footers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context

import pyarrow as pa

from hoodie.common.model.column_range import HoodieColumnRange, RangeValue
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.range_overlap import ColumnRanges, SliceRange
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.parquet.column_ranges import load_metadata, read_column_ranges
from hoodie.metadata.records.column_stats_records import column_type, leaf_columns
from hoodie.query.range_pruning import bounds_of_slices
from hoodie.query.read_plan import all_columns, check_columns

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


def check_range_columns(snapshot: TableSnapshot, columns: Sequence[str]) -> None:
    """Refuse columns that a table does not have; one without a schema has any.

    Args:
        snapshot: The table.
        columns: The columns, those in structs as a path with dots.

    Raises:
        HoodieSchemaException: The table lacks one of them.
    """
    if snapshot.load_avro_schema() is not None:
        check_columns(snapshot.base_path, range_columns(snapshot), columns)


def ranges_of_slices(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> dict[str, ColumnRanges]:
    """The ranges of columns in slices.

    They are those of the column statistics in the metadata table, which hold those of log files, if it knows the range
    of every slice; else those in the footers of base files.

    Args:
        snapshot: The table; its `listing_choice` says whether the metadata table is read.
        slices: The slices.
        columns: The columns, those in structs as a path with dots, as column statistics name them.

    Returns:
        Column -> its ranges.
    """
    found = _ranges_by_statistics(snapshot, slices, columns)
    others = [column for column in dict.fromkeys(columns) if column not in found]
    return found | (_ranges_by_footers(snapshot, slices, others) if others else {})


def range_columns(snapshot: TableSnapshot) -> pa.Schema:
    """The columns of a table that have ranges, then the fields of its structs by their paths with dots, as column
    statistics name them.

    Args:
        snapshot: The table, which has a schema.
    """
    schema = all_columns(snapshot.load_schema())
    known = set(schema.names)
    inner = [(name, column_type(schema, name)) for name in leaf_columns(schema) if name not in known]
    plain = [field for field in schema if not pa.types.is_nested(field.type)]
    return pa.schema([*plain, *(pa.field(name, data_type) for name, data_type in inner)])


def _ranges_by_statistics(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> dict[str, ColumnRanges]:
    """The ranges of those columns of which statistics tell the range of every slice."""
    if snapshot.load_avro_schema() is None:
        return {}
    schema = range_columns(snapshot)
    known = list(dict.fromkeys(column for column in columns if column in schema.names))
    found: dict[str, ColumnRanges] = {}
    for column, bounds in (bounds_of_slices(snapshot, slices, schema, known) or {}).items():
        ends = list(zip(_stored(bounds.low), _stored(bounds.high), strict=True))
        if all(low is not None or is_void for (low, _), is_void in zip(ends, bounds.is_void.tolist(), strict=True)):
            ranges = (
                SliceRange(part.partition_path, part.file_id, low, high)
                for part, (low, high) in zip(slices, ends, strict=True)
                if low is not None and high is not None
            )
            found[column] = ColumnRanges(tuple(ranges), COLUMN_STATISTICS)
    return found


def _ranges_by_footers(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> dict[str, ColumnRanges]:
    chosen, left_out = _chosen(slices)
    files = [(path, file) for path, found in chosen.items() for file in found]

    def read(entry: tuple[str, HoodieBaseFile]) -> dict[str, HoodieColumnRange]:
        metadata = load_metadata(snapshot.storage, entry[1].path)
        return {found.column_name: found for found in read_column_ranges(metadata, columns)}

    ranges: dict[str, list[SliceRange]] = {column: [] for column in columns}
    for (path, file), found in zip(files, map_concurrently(read, files), strict=True):
        for column, known in found.items():
            if known.min_value is not None and known.max_value is not None:
                ranges[column].append(SliceRange(path, file.file_id, known.min_value, known.max_value))
    return {column: ColumnRanges(tuple(found), FOOTERS, left_out) for column, found in ranges.items()}


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


def _stored(values: pa.Array) -> list[RangeValue | None]:
    """Ends of ranges as footers store them."""
    kind = values.type
    if pa.types.is_decimal(kind):
        digits = (None if value is None else value.scaleb(kind.scale, _DIGITS) for value in values.to_pylist())
        return [None if value is None else int(value) for value in digits]
    stored = next((whole for is_kind, whole in _STORED if is_kind(kind)), None)
    found: list[RangeValue | None] = (values if stored is None else values.cast(stored)).to_pylist()
    return found
