"""Comparison of statistics and bloom filters of a metadata table with the files of its table.

Hudi: org.apache.hudi.utilities.HoodieMetadataTableValidator (validateAllColumnStats, validatePartitionStats,
validateBloomFilters).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.column_range import HoodieColumnRange, StoredColumnRanges
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.util.shown_value import short_repr
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieException
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.metadata.reader.backed_table_metadata import COLUMN_STATS, HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords
from hoodie.metadata.reader.stored_column_ranges import load_stored_column_ranges
from hoodie.metadata.records.column_stats_records import (
    FileColumnRanges,
    column_stats_entries,
    empty_column_ranges,
    partition_stats_entries,
    range_of_any_values,
)
from hoodie.metadata.records.metadata_keys import bloom_filter_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_record_schema import WRAPPERS
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.range_union import union_of_ranges
from hoodie.metadata.writer.file_statistics import DataFile, FileStatisticsReader, has_statistics
from hoodie.metadata.writer.indexed_columns import indexed_columns_of_table
from hoodie.metadata.writer.partition_indexer import IndexingContext
from hoodie.storage.storage_path import join
from hoodie.validation.metadata_validation import Findings, MetadataDifferenceKind

_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS.partition_path
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
_COUNTS = ("value_count", "null_count")
_SIZES = ("total_size", "total_uncompressed_size")
_ENDS = ("min_value", "max_value")
_ZEROS = (0, 0.0, None)
_COMPACTED_AS = {
    WRAPPERS.index("DateWrapper"): WRAPPERS.index("IntWrapper"),
    WRAPPERS.index("DecimalWrapper"): WRAPPERS.index("BytesWrapper"),
}
"""The wrappers that a compaction of Hudi 0.x puts in place of two others."""
_Row = dict[str, Any]


@attrs.frozen
class StoredFile:
    """A file of the table.

    Attributes:
        partition_path: Its partition.
        file_name: Its name.
    """

    partition_path: str
    file_name: str

    @property
    def shown(self) -> str:
        """The file as differences name it."""
        return f"{self.partition_path}/{self.file_name}".lstrip("/")

    @property
    def is_base_file(self) -> bool:
        """Whether it is a base file with a footer."""
        return self.file_name.endswith(".parquet")


# --- statistics of files ----------------------------------------------------------------------------------------------


def validate_column_stats(
    metadata: HoodieBackedTableMetadata,
    records: MetadataRecords,
    files: Collection[StoredFile],
    latest: Collection[StoredFile],
    findings: Findings,
) -> None:
    """Compare statistics of columns with the footers of base files and the rows of log files.

    Each file that has statistics is compared, and base files of the latest slices must have statistics. Statistics of
    deleted files do no harm, and are passed over.

    Args:
        metadata: The metadata table.
        records: Its records of column statistics.
        files: The files of the table.
        latest: The files of the latest file slices.
        findings: Gets the differences.
    """
    table = metadata.with_partitions(records, sorted({file.partition_path for file in files}))
    by_file: dict[StoredFile, dict[str, _Row]] = {}
    for row in table.to_pylist():
        path = row.pop("partition_path")
        place = StoredFile(path, row["file_name"])
        by_file.setdefault(place, {})[row["column_name"]] = row
    definition = metadata.definitions.get(_COLUMN_STATS)
    names = {name for rows in by_file.values() for name in rows}
    indexed = set(definition.source_fields) if definition is not None and definition.source_fields else names
    chosen = [file for file in files if file in by_file or (file in latest and file.is_base_file)]
    storage, base_path = metadata.table.storage, metadata.table.base_path

    def ranges_of(file: StoredFile) -> StoredColumnRanges | HoodieException | None:
        version = min((_version_of(row) for row in by_file.get(file, {}).values()), default=0)
        try:
            return load_stored_column_ranges(
                storage, join(base_path, file.partition_path, file.file_name), version or 9
            )
        except HoodieException as error:
            return error

    for file, ranges in zip(chosen, map_concurrently(ranges_of, chosen), strict=True):
        if isinstance(ranges, HoodieException):
            findings.add(_COLUMN_STATS, MetadataDifferenceKind.UNREADABLE, file.shown, "a file", ranges)
            continue
        # The values of a log file with partial rows are not known.
        if ranges is not None:
            _compare_file(file, ranges.ranges, by_file.get(file, {}), indexed, metadata, findings)


def _compare_file(
    file: StoredFile,
    ranges: Sequence[HoodieColumnRange],
    rows: Mapping[str, _Row],
    indexed: Collection[str],
    metadata: HoodieBackedTableMetadata,
    findings: Findings,
) -> None:
    known = {found.column_name: found for found in ranges}
    for name, row in rows.items():
        if name in known:
            column_range = known[name]
        elif file.is_base_file and known:
            findings.add(_COLUMN_STATS, MetadataDifferenceKind.UNEXPECTED, f"{file.shown} {name}", "", shown_stats(row))
            continue
        elif known:
            # 0.x has records without values for columns of lists, maps and structs in log files.
            continue
        else:
            (column_range,) = empty_column_ranges([name])
        expected = _stored_as(file, column_range, _version_of(row))
        if expected is not None and not _are_equal(expected, row):
            what = f"{file.shown} {name}"
            findings.add(_COLUMN_STATS, MetadataDifferenceKind.DIFFERENT, what, shown_stats(expected), shown_stats(row))
        elif expected is not None and any(expected[size] != row[size] for size in _SIZES):
            findings.note_other_sizes(_COLUMN_STATS)
    if not file.is_base_file or not known:
        return
    version = metadata.table.table_config.table_version
    if rows:
        version = _version_of(next(iter(rows.values())))
    elif any(_stored_as(file, found, version) is None for found in ranges):
        # It has a decimal that no wrapper can hold.
        return
    for name, column_range in known.items():
        expected = _stored_as(file, column_range, version) if name in indexed and name not in rows else None
        if expected is not None:
            findings.add(_COLUMN_STATS, MetadataDifferenceKind.MISSING, f"{file.shown} {name}", shown_stats(expected))


def _version_of(row: _Row) -> int:
    """The table version whose form a record has. Upgraded tables keep records of the older version."""
    if row["value_type"] is not None:
        return 9
    return 8 if row["is_tight_bound"] is not None else 6


def _stored_as(file: StoredFile, column_range: HoodieColumnRange, version: int) -> _Row | None:
    """The record of a column in that version; None if none can hold the range."""
    ranges = FileColumnRanges(file.partition_path, file.file_name, (column_range,))
    rows = column_stats_entries([ranges], version).rows.to_pylist()
    return rows[0] if rows else None


def _are_equal(expected: _Row, row: _Row) -> bool:
    if any(expected[name] != row[name] for name in _COUNTS):
        return False
    return all(_ends_are_equal(expected[name], row[name], expected) for name in _ENDS)


def _ends_are_equal(expected: _Row | None, found: _Row | None, record: _Row) -> bool:
    if expected is None:
        # For a column of nulls Hudi 0.x stores the zero of the type. Any range of such a column prunes correctly.
        is_zero = found is not None and found["integer"] in _ZEROS and found["floating"] in _ZEROS
        return found is None or (is_zero and record["null_count"] == record["value_count"])
    if found is None:
        return False
    branches = (expected["branch"], _COMPACTED_AS.get(expected["branch"]))
    same = all(expected[name] == found[name] or _are_nan(expected[name], found[name]) for name in _VALUES)
    return found["branch"] in branches and same


_VALUES = ("integer", "floating", "binary")


def _are_nan(one: object, other: object) -> bool:
    return one != one and other != other


def shown_stats(row: Mapping[str, Any]) -> str:
    """Statistics of a column as text.

    Args:
        row: A row of `MetadataPayload.COLUMN_STATS`.
    """
    low, high = (_shown_end(row[name]) for name in _ENDS)
    counts = f"{row['value_count']} values, {row['null_count']} nulls"
    return f"{low} to {high}, {counts}, {row['total_size']} bytes ({row['total_uncompressed_size']} uncompressed)"


def _shown_end(end: Mapping[str, Any] | None) -> str:
    if end is None:
        return "null"
    value = next((end[name] for name in _VALUES if end[name] is not None), None)
    kind = (WRAPPERS[end["branch"]] or "null").removesuffix("Wrapper").lower()
    if kind == "string" and isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return f"{kind} {short_repr(value)}"


# --- statistics of partitions -----------------------------------------------------------------------------------------


def validate_partition_stats(
    metadata: HoodieBackedTableMetadata,
    records: MetadataRecords,
    column_stats: MetadataRecords,
    latest: Mapping[str, Sequence[FileSlice]],
    findings: Findings,
) -> None:
    """Compare statistics of partitions with those of the files of their latest slices.

    Their ranges must hold those of the files, and their counts must be at least as large. They may be wider: Hudi
    counts the files that a compaction replaces, and unites the ranges of a commit with older ones. A file without
    statistics is read. If its values cannot be known, as those of a log file in a table that merges rows field by
    field, the partition may have any value.

    Args:
        metadata: The metadata table.
        records: Its records of partition statistics.
        column_stats: Its records of column statistics.
        latest: The latest slices by partition.
        findings: Gets the differences.
    """
    stats = metadata.with_partitions(column_stats, sorted(latest))
    files = {
        (path, file.file_name)
        for path, slices in latest.items()
        for file_slice in slices
        for file in file_slice.record_files
        if has_statistics((path, file.file_name))
    }
    places = list(zip(stats.column("partition_path").to_pylist(), stats.column("file_name").to_pylist(), strict=True))
    chosen = [number for number, place in enumerate(places) if place in files]
    names = set(records.rows.column("column_name").to_pylist())
    unlisted = _unlisted_stats(metadata, sorted(files - set(places)), names)
    stats = pa.concat_tables([stats.take(pa.array(chosen, pa.int64())), *unlisted])
    if not stats.num_rows:
        return
    batch = stats.combine_chunks().to_batches()[0]
    rows = pa.RecordBatch.from_arrays(batch.columns[1:], schema=MetadataPayload.COLUMN_STATS.schema)
    entries = partition_stats_entries(batch.column(0), rows, is_tight=True)
    stored = dict(zip(records.keys.to_pylist(), range(len(records.keys)), strict=True))
    for number, key in enumerate(entries.keys.to_pylist()):
        (expected,) = entries.rows.slice(number, 1).to_pylist()
        what = f"{expected['file_name']} {expected['column_name']}"
        if key not in stored:
            findings.add(_PARTITION_STATS, MetadataDifferenceKind.MISSING, what, shown_stats(expected))
            continue
        own = records.rows.slice(stored[key], 1)
        (row,) = own.to_pylist()
        if not _holds(own, entries.rows.slice(number, 1)):
            findings.add(
                _PARTITION_STATS, MetadataDifferenceKind.DIFFERENT, what, shown_stats(expected), shown_stats(row)
            )


def _unlisted_stats(
    metadata: HoodieBackedTableMetadata, files: Sequence[DataFile], names: Collection[str]
) -> Iterator[pa.Table]:
    """The statistics of files that have none in the metadata table, as `COLUMN_STATS`.

    Args:
        metadata: The metadata table.
        files: The files.
        names: The columns for which partitions have statistics.
    """
    if not files:
        return
    table = metadata.table
    context = IndexingContext(table, LocalEngineContext(), HoodieMetadataConfig(), metadata.definitions, metadata)
    columns = indexed_columns_of_table(context)
    wanted, version = tuple(name for name in columns.written if name in names), columns.stats_version

    def is_empty(file: DataFile) -> bool:
        """Whether a log file holds deletes and no rows."""
        found = load_stored_column_ranges(table.storage, join(table.base_path, *file), version, ())
        return found is not None and not found.row_count

    read = FileStatisticsReader.of(table, wanted, version).read_batch(files)
    yield pa.Table.from_arrays([read.partition_paths, *read.entries.rows.columns], schema=COLUMN_STATS)
    unknown = [file for file in files if file not in read.row_counts]
    ranges = tuple(range_of_any_values(columns.schema, name, version, columns.in_millis) for name in wanted)
    any_values = [
        FileColumnRanges(*file, ranges)
        for file, is_without_rows in zip(unknown, map_concurrently(is_empty, unknown), strict=True)
        if not is_without_rows
    ]
    paths = pa.array([file.partition_path for file in any_values for _ in ranges], pa.string())
    rows = column_stats_entries(any_values, version).rows
    yield pa.Table.from_arrays([paths, *rows.columns], schema=COLUMN_STATS)


def _holds(outer: pa.RecordBatch, inner: pa.RecordBatch) -> bool:
    """Whether the range of one row holds that of another, with at least as many values and nulls."""
    both = pa.Table.from_batches([inner, outer], MetadataPayload.COLUMN_STATS.schema).combine_chunks().to_batches()[0]
    (united,), (row,), (part,) = (
        rows.to_pylist() for rows in (union_of_ranges(both, np.zeros(1, np.int64)), outer, inner)
    )
    if any(united[name] is not None and not _ends_are_equal(united[name], row[name], row) for name in _ENDS):
        return False
    values, least = (one["value_count"] - one["null_count"] for one in (row, part))
    return bool(values >= least and row["null_count"] >= part["null_count"])


# --- bloom filters ----------------------------------------------------------------------------------------------------


def validate_bloom_filters(
    metadata: HoodieBackedTableMetadata, records: MetadataRecords, files: Collection[StoredFile], findings: Findings
) -> None:
    """Compare bloom filters with those in the footers of base files.

    Args:
        metadata: The metadata table.
        records: Its records of bloom filters.
        files: The files of the table.
        findings: Gets the differences.
    """
    bases = [file for file in files if file.is_base_file]
    if not bases:
        return
    paths, names = (pa.array(part, pa.string()) for part in zip(*map(attrs.astuple, bases), strict=True))
    keys = bloom_filter_keys(paths, names).to_pylist()
    places = {key: number for number, key in enumerate(records.keys.to_pylist())}
    filters, types = records.rows.column("bloom_filter"), records.rows.column("bloom_type")
    storage, base_path = metadata.table.storage, metadata.table.base_path

    def footer_of(file: StoredFile) -> tuple[str, str] | HoodieException:
        try:
            footer = read_footer(storage, join(base_path, file.partition_path, file.file_name))
        except HoodieException as error:
            return error
        return footer.bloom_filter_text or "", footer.bloom_filter_type or "SIMPLE"

    for file, key, found in zip(bases, keys, map_concurrently(footer_of, bases), strict=True):
        place = places.get(key)
        if isinstance(found, HoodieException):
            findings.add(_BLOOM_FILTERS, MetadataDifferenceKind.UNREADABLE, file.shown, "a file", found)
            continue
        text, kind = found
        if place is None:
            if text:
                findings.add(
                    _BLOOM_FILTERS, MetadataDifferenceKind.MISSING, file.shown, _shown_filter(text.encode(), kind)
                )
            continue
        own, own_kind = filters[place].as_py(), types[place].as_py()
        if own != text.encode() or own_kind != kind:
            findings.add(
                _BLOOM_FILTERS, MetadataDifferenceKind.DIFFERENT, file.shown,
                _shown_filter(text.encode(), kind), _shown_filter(own, own_kind),
            )  # fmt: skip


def _shown_filter(text: bytes, kind: str) -> str:
    return f"{kind} of {len(text)} characters" if text else "no filter"
