"""Smallest and largest values as records of the metadata table store them: each in a wrapper for its type.

==========  ======================================  ==========================================
type        versions 6 and 8                        version 9
==========  ======================================  ==========================================
boolean     BooleanWrapper                          the same
int, times  IntWrapper, LongWrapper                 the same
timestamps  LongWrapper                             the same
date        DateWrapper                             IntWrapper
decimal     DecimalWrapper: 15 digits behind the    BytesWrapper: unscaled digits; precision and
            point, 15 before it                     scale are stored beside it
string      StringWrapper                           the same
bytes       BytesWrapper                            the same
==========  ======================================  ==========================================

Version 9 stores the type of the column beside the values.

Hudi: org.apache.hudi.util.HoodieAvroWrapperUtils, org.apache.hudi.metadata.stats.ValueMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.avro.schema_reader import VARIANT
from hoodie.common.model.column_range import HoodieColumnRange, RangeValue, ValueType
from hoodie.metadata.records.metadata_record_schema import WRAPPERS

BYTES_WRAPPER = WRAPPERS.index("BytesWrapper")
DECIMAL_WRAPPER = WRAPPERS.index("DecimalWrapper")
_VERSION_WITH_TYPES = 9
_WRAPPER_SCALE = 15
_WRAPPER_PRECISION = 30
_INT = WRAPPERS.index("IntWrapper")
_LONG = WRAPPERS.index("LongWrapper")
_STRING = WRAPPERS.index("StringWrapper")
_WRAPPER_OF = {
    ValueType.BOOLEAN: WRAPPERS.index("BooleanWrapper"),
    ValueType.INT: _INT,
    ValueType.TIME_MILLIS: _INT,
    ValueType.FLOAT: WRAPPERS.index("FloatWrapper"),
    ValueType.DOUBLE: WRAPPERS.index("DoubleWrapper"),
    ValueType.STRING: _STRING,
    ValueType.UUID: _STRING,
    ValueType.BYTES: BYTES_WRAPPER,
    ValueType.FIXED: BYTES_WRAPPER,
}
"""All other types but dates and decimals are longs."""


def stores_value_types(table_version: int) -> bool:
    """Whether statistics in tables of a version store the type of the column."""
    return table_version >= _VERSION_WITH_TYPES


def wrapper_of(value_type: ValueType, table_version: int) -> int:
    """The wrapper for values of a type: its place in `WRAPPERS`."""
    if value_type is ValueType.DATE:
        return _INT if stores_value_types(table_version) else WRAPPERS.index("DateWrapper")
    if value_type is ValueType.DECIMAL:
        return BYTES_WRAPPER if stores_value_types(table_version) else DECIMAL_WRAPPER
    return _WRAPPER_OF.get(value_type, _LONG)


def value_type_info(column_range: HoodieColumnRange) -> str | None:
    """The details that are stored beside the type of a column: precision and scale of a decimal, such as
    ``10,2``.
    """
    if column_range.value_type is ValueType.DECIMAL:
        return f"{column_range.precision},{column_range.scale}"
    return None


def is_storable(column_range: HoodieColumnRange, table_version: int) -> bool:
    """Whether the wrappers of a version can hold the values of a column: all but large decimals in versions 6
    and 8.
    """
    if column_range.value_type is not ValueType.DECIMAL or stores_value_types(table_version):
        return True
    if column_range.scale > _WRAPPER_SCALE:
        return False
    digits = 10 ** (_WRAPPER_PRECISION - _WRAPPER_SCALE + column_range.scale)
    return all(
        end is None or (isinstance(end, int) and abs(end) < digits)
        for end in (column_range.min_value, column_range.max_value)
    )


def wrapped_values(
    ranges: Sequence[HoodieColumnRange], ends: Sequence[RangeValue | None], table_version: int
) -> pa.Array:
    """The smallest or largest values of columns as a column of `VARIANT`.

    Args:
        ranges: The columns, see `is_storable`.
        ends: The value of each column; None for a column without values.
        table_version: 6, 8 or 9.
    """
    count = len(ranges)
    branches: list[int | None] = [None] * count
    integers: list[int | None] = [None] * count
    floats: list[float | None] = [None] * count
    binaries: list[bytes | None] = [None] * count
    for place, (column_range, end) in enumerate(zip(ranges, ends, strict=True)):
        if end is None:
            continue
        branches[place] = wrapper_of(column_range.value_type, table_version)
        if isinstance(end, bytes):
            binaries[place] = end
        elif isinstance(end, float):
            floats[place] = end
        elif column_range.value_type is ValueType.DECIMAL:
            missing_digits = 0 if stores_value_types(table_version) else _WRAPPER_SCALE - column_range.scale
            binaries[place] = decimal_bytes(end * 10**missing_digits)
        else:
            integers[place] = end
    columns = (branches, integers, floats, binaries)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, VARIANT, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(VARIANT), mask=arrays[0].is_null())


def decimal_bytes(unscaled: int) -> bytes:
    """The unscaled digits of a decimal as the fewest bytes of a signed number, big endian."""
    return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)


def decimal_digits(stored: bytes) -> int:
    """The unscaled digits of a decimal; see `decimal_bytes`."""
    return int.from_bytes(stored, "big", signed=True)
