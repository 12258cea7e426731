"""The range of a column in a data file: the smallest and the largest value, and counts.

Hudi: org.apache.hudi.common.model.HoodieColumnRangeMetadata, org.apache.hudi.metadata.stats.ValueType.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import attrs

RangeValue = int | float | bytes
"""A stored value: a boolean as 0 or 1, dates and times as numbers, a decimal as its digits without the point, a string
as UTF-8."""


class ValueType(IntEnum):
    """The type of a column; the value is that of statistics in tables of version 9.

    V1 is the type of all columns in tables of versions 6 and 8.
    """

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


@attrs.frozen
class HoodieColumnRange:
    """The values of one column in one file.

    Attributes:
        column_name: The column; nested ones as a path with dots.
        value_type: Its type.
        min_value: No value is smaller; None if all values are null.
        max_value: No value is larger, NaN being the largest number; None likewise.
        value_count: Rows, nulls included.
        null_count: Nulls.
        total_size: The bytes that it takes in the file; 0 in a log file.
        total_uncompressed_size: The same before compression.
        precision: The digits of a decimal.
        scale: The digits of a decimal behind the point.
    """

    column_name: str
    value_type: ValueType
    min_value: RangeValue | None
    max_value: RangeValue | None
    value_count: int
    null_count: int
    total_size: int = 0
    total_uncompressed_size: int = 0
    precision: int = 0
    scale: int = 0


_MOST_TEXT = 16 << 10


@attrs.frozen
class StoredColumnRanges:
    """The ranges of columns of a data file.

    Attributes:
        row_count: The number of its rows; for a log file, the rows of all blocks. A log file with only deletes has 0.
        ranges: The ranges of the columns in the file. A column that is not in the file is null in all of its rows.
    """

    row_count: int
    ranges: tuple[HoodieColumnRange, ...]


@attrs.frozen
class WrittenColumnRanges:
    """The ranges of columns of a log file, as the task knows them that wrote it.

    Attributes:
        columns: The columns that it looked at; nested ones as a path with dots.
        table_version: 6, 8 or 9: the table version whose form the ranges have.
        found: The ranges.
    """

    columns: tuple[str, ...]
    table_version: int
    found: StoredColumnRanges

    @property
    def is_small(self) -> bool:
        """Whether they may travel to the driver with the status of the file; values of 10 MB may not."""
        values = (value for one in self.found.ranges for value in (one.min_value, one.max_value))
        return sum(len(value) for value in values if isinstance(value, str | bytes)) <= _MOST_TEXT

    def of_columns(self, columns: Sequence[str], table_version: int) -> StoredColumnRanges | None:
        """The ranges of some columns, in their order; None if the task did not look at all of them.

        Args:
            columns: The columns.
            table_version: The form that is wanted.
        """
        if table_version != self.table_version or not set(columns) <= set(self.columns):
            return None
        ranges = {found.column_name: found for found in self.found.ranges}
        return StoredColumnRanges(self.found.row_count, tuple(ranges[name] for name in columns if name in ranges))


_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, between which every reader's dates are."""
_LARGEST_TEXT = "\U0010ffff" * 8
_UNITS_A_DAY = {
    ValueType.DATE: 1,
    ValueType.TIMESTAMP_MILLIS: _DAY_MICROS // 1000,
    ValueType.LOCAL_TIMESTAMP_MILLIS: _DAY_MICROS // 1000,
    ValueType.TIMESTAMP_MICROS: _DAY_MICROS,
    ValueType.LOCAL_TIMESTAMP_MICROS: _DAY_MICROS,
}
_WIDEST: dict[ValueType, tuple[RangeValue, RangeValue]] = {
    ValueType.BOOLEAN: (0, 1),
    ValueType.INT: (-(1 << 31), (1 << 31) - 1),
    ValueType.FLOAT: (float("-inf"), float("nan")),
    ValueType.DOUBLE: (float("-inf"), float("nan")),
    ValueType.STRING: (b"", _LARGEST_TEXT.encode()),
    ValueType.BYTES: (b"", b"\xff" * 32),
    ValueType.FIXED: (b"", b"\xff" * 32),
    ValueType.TIME_MILLIS: (0, _DAY_MICROS // 1000 - 1),
    ValueType.TIME_MICROS: (0, _DAY_MICROS - 1),
}


def widest_range(value_type: ValueType, precision: int = 0) -> tuple[RangeValue, RangeValue]:
    """A range that holds every value of a type, for a column of which nothing is known.

    Readers take a file without a smallest and largest value of a column for one with nulls only, and skip it.

    Args:
        value_type: The type.
        precision: The digits of a decimal.
    """
    if value_type is ValueType.DECIMAL:
        return 1 - 10**precision, 10**precision - 1
    if value_type in _UNITS_A_DAY:
        units = _UNITS_A_DAY[value_type]
        return _FIRST_DAY * units, (_LAST_DAY + 1) * units - 1
    return _WIDEST.get(value_type, (-(1 << 63), (1 << 63) - 1))
