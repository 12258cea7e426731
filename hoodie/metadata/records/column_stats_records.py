"""Records with statistics of columns, for files and for partitions.

Hudi: HoodieTableMetadataUtil.{convertMetadataToColumnStatsRecords, convertMetadataToPartitionStatsRecords}.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.column_range import HoodieColumnRange, RangeValue, ValueType, widest_range
from hoodie.common.model.record_columns import COMMIT_TIME_META, META_COLUMN_SET, PARTITION_PATH_META, RECORD_KEY_META
from hoodie.metadata.records.column_values import is_storable, stores_value_types, value_type_info, wrapped_values
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import column_stats_keys, partition_stats_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, MetadataRecordType
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.range_union import union_of_ranges

logger = logging.getLogger(__name__)

MAX_INDEXED_COLUMNS = 32
"""``hoodie.metadata.index.column.stats.max.columns.to.index``."""
_LATER_VERSION = 8
_PAYLOAD = MetadataPayload.COLUMN_STATS
_UNKNOWN = -1
_MAX_WRAPPED_SCALE, _MAX_WRAPPED_DIGITS = 15, 15
_ALWAYS_INDEXED = (COMMIT_TIME_META, PARTITION_PATH_META, RECORD_KEY_META)
_MICROS_PER_MILLI = 1000
_TYPES = {
    pa.bool_(): ValueType.BOOLEAN,
    pa.int8(): ValueType.INT,
    pa.int16(): ValueType.INT,
    pa.int32(): ValueType.INT,
    pa.int64(): ValueType.LONG,
    pa.float32(): ValueType.FLOAT,
    pa.float64(): ValueType.DOUBLE,
    pa.string(): ValueType.STRING,
    pa.binary(): ValueType.BYTES,
    pa.date32(): ValueType.DATE,
    pa.time32("ms"): ValueType.TIME_MILLIS,
    pa.time64("us"): ValueType.TIME_MICROS,
    pa.timestamp("us"): ValueType.LOCAL_TIMESTAMP_MICROS,
}
_IN_MILLIS = {
    ValueType.TIMESTAMP_MICROS: ValueType.TIMESTAMP_MILLIS,
    ValueType.LOCAL_TIMESTAMP_MICROS: ValueType.LOCAL_TIMESTAMP_MILLIS,
}
_STORED_AS = {ValueType.DATE: pa.int32(), ValueType.TIME_MILLIS: pa.int32(), ValueType.BOOLEAN: pa.uint8()}


@attrs.frozen
class FileColumnRanges:
    """The ranges of columns of one file.

    Attributes:
        partition_path: Its partition; "" in a table without partitions.
        file_name: Its name.
        ranges: From `hoodie.io.parquet.column_ranges.read_column_ranges`; of a log file from `column_ranges_of_rows`,
            or `empty_column_ranges`.
    """

    partition_path: str
    file_name: str
    ranges: tuple[HoodieColumnRange, ...]


def indexed_columns(
    schema: pa.Schema,
    table_version: int,
    columns: Sequence[str] | None = None,
    max_columns: int = MAX_INDEXED_COLUMNS,
) -> list[str]:
    """The columns that have statistics, in a table whose index definitions do not name them.

    Versions 8 and 9 take three meta columns, then the first columns of the table. Version 6 takes all columns and meta
    columns. Columns of lists, maps and structs have no statistics, nor have decimals that do not fit in versions 6
    and 8.

    Args:
        schema: The table's columns, meta columns included if it has them.
        table_version: 6, 8 or 9.
        columns: ``hoodie.metadata.index.column.stats.column.list``, nested ones as a path with dots; None if it is not
            set. The three meta columns are added to it in all versions.
        max_columns: ``hoodie.metadata.index.column.stats.max.columns.to.index``.
    """
    always = [name for name in _ALWAYS_INDEXED if name in schema.names]
    if columns is not None:
        requested = [
            name for name in dict.fromkeys(columns) if column_value_type(schema, name, table_version) is not None
        ]
        return [*always, *(name for name in requested if name not in always)]
    supported = [field.name for field in schema if _value_type(field.type, table_version) is not None]
    if table_version < _LATER_VERSION:
        return supported
    return [*always, *[name for name in supported if name not in META_COLUMN_SET][:max_columns]]


def column_value_type(schema: pa.Schema, name: str, table_version: int) -> ValueType | None:
    """The type of the statistics of a column.

    Args:
        schema: The table's columns.
        name: The column; a nested one as a path with dots.
        table_version: 6, 8 or 9.

    Returns:
        The type; None for a column that the table lacks, or that has no statistics.
    """
    data_type = column_type(schema, name)
    return None if data_type is None else _value_type(data_type, table_version)


def column_stats_entries(files: Iterable[FileColumnRanges], table_version: int) -> MetadataEntries:
    """The records of the given files.

    A file with a decimal that versions 6 and 8 cannot store gets no records at all. Readers take a file without records
    for one that may hold anything. They take a column without a record, in a file that has others, for all null.

    Args:
        files: The files, each once.
        table_version: 6, 8 or 9.
    """
    stored = [file for file in files if has_storable_ranges(file, table_version)]
    ranges = [column_range for file in stored for column_range in file.ranges]
    counts = [len(file.ranges) for file in stored]
    names = pa.array([file.file_name for file in stored], pa.string()).take(_repeated(counts))
    paths = pa.array([file.partition_path for file in stored], pa.string()).take(_repeated(counts))
    rows = _rows(ranges, names, MetadataRecordType.COLUMN_STATS, table_version)
    keys = column_stats_keys(rows.column("column_name"), paths, names)
    return MetadataEntries(MetadataPartitionType.COLUMN_STATS.partition_path, _PAYLOAD, keys, rows)


def deleted_column_stats_entries(
    files: Sequence[tuple[str, str]], columns: Sequence[str], table_version: int
) -> MetadataEntries:
    """The records that remove the statistics of deleted base files.

    Args:
        files: Partition path and name of each file, each once.
        columns: The columns that may have statistics.
        table_version: 6, 8 or 9: version 6 marks deletes in records, later versions have delete blocks.
    """
    count = len(files) * len(columns)
    paths = pa.array([path for path, _ in files], pa.string()).take(_repeated([len(columns)] * len(files)))
    names = pa.array([name for _, name in files], pa.string()).take(_repeated([len(columns)] * len(files)))
    column_names = pa.array(list(columns) * len(files), pa.string())
    keys = column_stats_keys(column_names, paths, names)
    path = MetadataPartitionType.COLUMN_STATS.partition_path
    if table_version >= _LATER_VERSION:
        return MetadataEntries.deletes(path, _PAYLOAD, keys)
    given = {
        "type": pa.repeat(pa.scalar(int(MetadataRecordType.COLUMN_STATS), pa.int32()), count),
        "file_name": names,
        "column_name": column_names,
        "is_deleted": pa.repeat(True, count),
        **{
            name: pa.repeat(pa.scalar(_UNKNOWN, pa.int64()), count)
            for name in ("value_count", "null_count", "total_size", "total_uncompressed_size")
        },
    }
    rows = [given.get(field.name, pa.nulls(count, field.type)) for field in _PAYLOAD.schema]
    return MetadataEntries(path, _PAYLOAD, keys, pa.RecordBatch.from_arrays(rows, schema=_PAYLOAD.schema))


def partition_stats_entries(
    partition_paths: pa.Array, stats: pa.RecordBatch, *, is_tight: bool, of_expression: bool = False
) -> MetadataEntries:
    """The records of partitions, made from those of their files.

    Args:
        partition_paths: The partition of each row (string).
        stats: Statistics of columns of files, of the schema of `MetadataPayload.COLUMN_STATS`.
        is_tight: Whether the files are all latest files of their partitions. Then the records replace older ones;
            otherwise they widen them.
        of_expression: Whether the records are for the partition of an expression index.
    """
    count = stats.num_rows
    table = pa.table({"p": partition_paths, "c": stats.column("column_name"), "n": pa.array(np.arange(count))})
    table = table.sort_by([("p", "ascending"), ("c", "ascending"), ("n", "ascending")])
    stats = stats.take(table.column("n").combine_chunks())
    paths, columns = table.column("p").combine_chunks(), stats.column("column_name")
    is_new = pc.or_(pc.not_equal(paths[1:], paths[:-1]), pc.not_equal(columns[1:], columns[:-1]))
    starts = np.flatnonzero(np.append(True, is_new.to_numpy(zero_copy_only=False))) if count else np.empty(0, np.int64)
    united = union_of_ranges(stats, starts)
    given = dict(zip(united.schema.names, united.columns, strict=True))
    given["file_name"] = paths.take(pa.array(starts))
    given["type"] = pa.repeat(pa.scalar(int(MetadataRecordType.PARTITION_STATS), pa.int32()), len(starts))
    given["is_tight_bound"] = pa.repeat(is_tight, len(starts))
    keys = partition_stats_keys(given["column_name"], given["file_name"], of_expression=of_expression)
    rows = pa.RecordBatch.from_arrays(list(given.values()), schema=_PAYLOAD.schema)
    return MetadataEntries(MetadataPartitionType.PARTITION_STATS.partition_path, _PAYLOAD, keys, rows)


def has_storable_ranges(file: FileColumnRanges, table_version: int) -> bool:
    """Whether records can hold the ranges of a file; a warning names the column that does not fit.

    Args:
        file: The file.
        table_version: 6, 8 or 9.
    """
    bad = [column_range for column_range in file.ranges if not is_storable(column_range, table_version)]
    if bad:
        logger.warning(
            "the metadata table keeps no statistics of %s/%s: column %s has decimals of more than %s digits before or "
            "behind the point", file.partition_path, file.file_name, bad[0].column_name, _MAX_WRAPPED_DIGITS,
        )  # fmt: skip
    return not bad


def _rows(
    ranges: Sequence[HoodieColumnRange], file_names: pa.Array, record_type: MetadataRecordType, table_version: int
) -> pa.RecordBatch:
    count, has_types = len(ranges), stores_value_types(table_version)
    is_later = table_version >= _LATER_VERSION
    given = {
        "type": pa.repeat(pa.scalar(int(record_type), pa.int32()), count),
        "file_name": file_names,
        "column_name": pa.array([found.column_name for found in ranges], pa.string()),
        "min_value": wrapped_values(ranges, [found.min_value for found in ranges], table_version),
        "max_value": wrapped_values(ranges, [found.max_value for found in ranges], table_version),
        "value_count": pa.array([found.value_count for found in ranges], pa.int64()),
        "null_count": pa.array([found.null_count for found in ranges], pa.int64()),
        "total_size": pa.array([found.total_size for found in ranges], pa.int64()),
        "total_uncompressed_size": pa.array([found.total_uncompressed_size for found in ranges], pa.int64()),
        "is_deleted": pa.repeat(False, count),
        "is_tight_bound": pa.repeat(False, count) if is_later else pa.nulls(count, pa.bool_()),
        "value_type": pa.array([int(found.value_type) if has_types else None for found in ranges], pa.int32()),
        "value_type_info": pa.array([value_type_info(found) if has_types else None for found in ranges], pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(given.values()), schema=_PAYLOAD.schema)


def _repeated(counts: Sequence[int]) -> pa.Array:
    return pa.array(np.repeat(np.arange(len(counts)), counts))


# --- rows of log files ------------------------------------------------------------------------------------------------


def column_ranges_of_rows(
    rows: pa.Table, columns: Collection[str], table_version: int, in_millis: Collection[str] = ()
) -> list[HoodieColumnRange]:
    """The ranges of columns of a log file. They have no sizes.

    Args:
        rows: Its rows.
        columns: The columns to look at, nested ones as a path with dots; columns that the rows lack are left out.
        table_version: 6, 8 or 9.
        in_millis: The columns of timestamps that the table stores in milliseconds.
    """
    ranges = []
    for name in columns:
        value_type = column_value_type(rows.schema, name, table_version)
        if value_type is not None:
            values = _values_of(rows, name)
            in_the_unit = _IN_MILLIS[value_type] if name in in_millis else value_type
            ranges.append(_range_of_values(name, values, in_the_unit))
    return ranges


def empty_column_ranges(columns: Iterable[str]) -> list[HoodieColumnRange]:
    """The ranges of columns of a log file that holds only deletes."""
    return [HoodieColumnRange(name, ValueType.NULL, None, None, 0, 0) for name in columns]


def range_of_any_values(
    schema: pa.Schema, name: str, table_version: int, in_millis: Collection[str] = ()
) -> HoodieColumnRange:
    """The range of a column of a file whose values are not known: it excludes neither nulls nor values.

    Args:
        schema: The table's columns.
        name: The column, which has statistics.
        table_version: 6, 8 or 9.
        in_millis: The columns of timestamps that the table stores in milliseconds.

    Raises:
        ValueError: The column has no statistics.
    """
    data_type = column_type(schema, name)
    value_type = None if data_type is None else _value_type(data_type, table_version)
    if data_type is None or value_type is None:
        raise ValueError(f"there are no statistics of {name!r}")
    value_type = _IN_MILLIS[value_type] if name in in_millis else value_type
    precision, scale = (data_type.precision, data_type.scale) if value_type is ValueType.DECIMAL else (0, 0)
    low, high = widest_range(value_type, precision)
    return HoodieColumnRange(name, value_type, low, high, 2, 1, precision=precision, scale=scale)


def leaf_columns(schema: pa.Schema) -> list[str]:
    """All columns; fields of structs as a path with dots.

    Args:
        schema: The table's columns.
    """
    return [name for field in schema for name in _leaves(field, "")]


def _leaves(field: pa.Field, parent: str) -> list[str]:
    if pa.types.is_struct(field.type):
        return [name for part in field.type for name in _leaves(part, f"{parent}{field.name}.")]
    return [f"{parent}{field.name}"]


def column_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column; None if it does not exist, or lies in a list or map.

    Args:
        schema: The table's columns.
        name: The column; a nested one as a path with dots.
    """
    fields: pa.Schema | pa.StructType = schema
    *parents, last = name.split(".")
    # `schema.names` would build a list of all names for each column.
    for parent in parents:
        number = fields.get_field_index(parent)
        if number < 0 or not pa.types.is_struct(fields.field(number).type):
            return None
        fields = fields.field(number).type
    number = fields.get_field_index(last)
    return fields.field(number).type if number >= 0 else None


def _values_of(rows: pa.Table, name: str) -> pa.ChunkedArray:
    first, *path = name.split(".")
    return pc.struct_field(rows.column(first), path) if path else rows.column(first)


def _value_type(arrow_type: pa.DataType, table_version: int) -> ValueType | None:
    if pa.types.is_decimal(arrow_type):
        digits = arrow_type.precision - arrow_type.scale
        fits = digits <= _MAX_WRAPPED_DIGITS and arrow_type.scale <= _MAX_WRAPPED_SCALE
        return ValueType.DECIMAL if fits or stores_value_types(table_version) else None
    if pa.types.is_fixed_size_binary(arrow_type):
        return ValueType.FIXED
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "us" and arrow_type.tz is not None:
        return ValueType.TIMESTAMP_MICROS
    return _TYPES.get(arrow_type)


def _range_of_values(name: str, values: pa.ChunkedArray, value_type: ValueType) -> HoodieColumnRange:
    is_decimal = value_type is ValueType.DECIMAL
    stored = values.cast(_stored_type(value_type, values.type))
    low, high = (_end(stored, end, value_type) for end in ("min", "max"))
    return HoodieColumnRange(
        name, value_type, low, high, len(values), values.null_count,
        precision=values.type.precision if is_decimal else 0, scale=values.type.scale if is_decimal else 0,
    )  # fmt: skip


def _stored_type(value_type: ValueType, arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow_type) or pa.types.is_time64(arrow_type):
        return pa.int64()
    if pa.types.is_string(arrow_type) or pa.types.is_fixed_size_binary(arrow_type):
        return pa.binary()
    return _STORED_AS.get(value_type, arrow_type)


def _end(values: pa.ChunkedArray, which: str, value_type: ValueType) -> RangeValue | None:
    end: Any = pc.min_max(values)[which].as_py()
    if pa.types.is_floating(values.type):
        if which == "max" and pc.any(pc.is_nan(values)).as_py():
            return float("nan")
        if end == 0.0:
            # Java orders -0.0 before 0.0.
            has_negative = pc.any(pc.and_(pc.equal(values, 0.0), pc.less(pc.divide(1.0, values), 0.0))).as_py()
            has_positive = pc.any(pc.and_(pc.equal(values, 0.0), pc.greater(pc.divide(1.0, values), 0.0))).as_py()
            return -0.0 if (has_negative if which == "min" else not has_positive) else 0.0
    if isinstance(end, Decimal):
        sign, digits, _ = end.as_tuple()
        number = int("".join(map(str, digits)))
        return -number if sign else number
    if end is not None and value_type in _IN_MILLIS.values():
        return int(end) // _MICROS_PER_MILLI
    found: RangeValue | None = end
    return found
