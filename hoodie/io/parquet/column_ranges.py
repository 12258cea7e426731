"""The smallest and largest values of the columns of a base file, from its footer.

Hudi: org.apache.hudi.common.util.ParquetUtils.readColumnStatsFromMetadata. Differs: a column without a range in the
footer gets the widest one, so that no reader skips the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import attrs
import pyarrow.parquet as pq

from hoodie.common.model.column_range import HoodieColumnRange, RangeValue, ValueType, widest_range
from hoodie.io.parquet.footer_tail import missing_base_file, read_short_metadata
from hoodie.io.parquet.key_search import known_range
from hoodie.io.parquet.parquet_reader import translated_errors
from hoodie.storage.storage import HoodieStorage

_PHYSICAL = {
    "BOOLEAN": ValueType.BOOLEAN,
    "INT32": ValueType.INT,
    "INT64": ValueType.LONG,
    "FLOAT": ValueType.FLOAT,
    "DOUBLE": ValueType.DOUBLE,
    "BYTE_ARRAY": ValueType.BYTES,
    "FIXED_LEN_BYTE_ARRAY": ValueType.FIXED,
}
_LOGICAL = {"STRING": ValueType.STRING, "DATE": ValueType.DATE, "DECIMAL": ValueType.DECIMAL}
_TIME = {"milliseconds": ValueType.TIME_MILLIS, "microseconds": ValueType.TIME_MICROS}
_TIMESTAMP = {
    (True, "milliseconds"): ValueType.TIMESTAMP_MILLIS,
    (True, "microseconds"): ValueType.TIMESTAMP_MICROS,
    (True, "nanoseconds"): ValueType.TIMESTAMP_NANOS,
    (False, "milliseconds"): ValueType.LOCAL_TIMESTAMP_MILLIS,
    (False, "microseconds"): ValueType.LOCAL_TIMESTAMP_MICROS,
    (False, "nanoseconds"): ValueType.LOCAL_TIMESTAMP_NANOS,
}


def load_metadata(storage: HoodieStorage, path: str) -> pq.FileMetaData:
    """The metadata of a stored base file, without its bloom filter.

    One or two reads of 32 KiB each; the whole footer is read if the filter cannot be cut out of it.

    Args:
        storage: Its storage.
        path: Its path.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    with translated_errors(path):
        try:
            found = read_short_metadata(storage, path)
            if found is not None:
                return found
            with storage.open_input_file(path) as stream:
                return pq.read_metadata(stream)
        except FileNotFoundError as error:
            raise missing_base_file(storage, path) from error


def read_column_ranges(metadata: pq.FileMetaData, columns: Collection[str] | None = None) -> list[HoodieColumnRange]:
    """The ranges of columns of a file, in their order.

    Strings are compared by their bytes, as Parquet does.

    Args:
        metadata: The file's metadata.
        columns: The columns, nested ones as Parquet's path with dots; None for all. Columns that the file lacks, and
            columns of types without an order, are left out.

    Returns:
        A range for each column; empty for a file without row groups.
    """
    if not metadata.num_row_groups:
        return []
    ranges = []
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if columns is not None and column.path not in columns:
            continue
        value_type = _value_type(column)
        if value_type is not None:
            ranges.append(_range_of(metadata, number, column, value_type))
    return ranges


def _value_type(column: Any) -> ValueType | None:
    logical = column.logical_type.type
    if logical in ("TIME", "TIMESTAMP"):
        details = json.loads(column.logical_type.to_json())
        unit = details["timeUnit"]
        return _TIME.get(unit) if logical == "TIME" else _TIMESTAMP[bool(details["isAdjustedToUTC"]), unit]
    return _LOGICAL.get(logical, _PHYSICAL.get(column.physical_type))


def _range_of(metadata: pq.FileMetaData, number: int, column: Any, value_type: ValueType) -> HoodieColumnRange:
    is_decimal = value_type is ValueType.DECIMAL
    precision, scale = (column.precision, column.scale) if is_decimal else (0, 0)
    found = HoodieColumnRange(column.path, value_type, None, None, 0, 0, precision=precision, scale=scale)
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(number)
        nulls = _null_count(chunk, column)
        ends: tuple[Any, Any] = known_range(chunk, column.physical_type)
        low, high = (_value(end, value_type) for end in ends)
        if low is None and nulls < chunk.num_values:
            low, high = widest_range(value_type, precision)
        found = attrs.evolve(
            found,
            min_value=smaller(found.min_value, low),
            max_value=larger(found.max_value, high),
            value_count=found.value_count + chunk.num_values,
            null_count=found.null_count + nulls,
            total_size=found.total_size + chunk.total_compressed_size,
            total_uncompressed_size=found.total_uncompressed_size + chunk.total_uncompressed_size,
        )
    return found


def _null_count(chunk: Any, column: Any) -> int:
    # pyarrow ends the process when it is asked for the statistics of a chunk of another type.
    statistics = chunk.statistics if chunk.physical_type == column.physical_type else None
    if statistics is not None and statistics.has_null_count:
        return int(statistics.null_count)
    # Unknown: with this count, readers exclude neither nulls nor values.
    return max(int(chunk.num_values) - 1, 0)


def _value(raw: Any, value_type: ValueType) -> RangeValue | None:
    if isinstance(raw, bytes) and value_type is ValueType.DECIMAL:
        return int.from_bytes(raw, "big", signed=True)
    if isinstance(raw, bool):
        return int(raw)
    found: RangeValue | None = raw
    return found


def smaller(one: Any, other: Any) -> Any:
    """The smaller of two ends of ranges of one type; None is ignored."""
    if one is None or other is None:
        return other if one is None else one
    # NaN is the largest number in Java.
    return other if other < one or one != one else one


def larger(one: Any, other: Any) -> Any:
    """The larger of two ends of ranges of one type; None is ignored."""
    if one is None or other is None:
        return other if one is None else one
    return other if other > one or other != other else one
