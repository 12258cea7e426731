"""Ranges of columns from statistics of the metadata table, in the types of the table's columns.

Statistics serve one purpose: to leave out files that cannot hold a row of a filter. A range that is too narrow would
lose rows. So a range counts only where its type, unit and order are those of the column. Any other range is unknown::

    column              what counts
    boolean, integers   numbers
    floats              ranges that do not hold 0: Java's Parquet readers give 0 for both ends of a file with NaN,
                        and unite that with the ends of other row groups; wider where a file may have been written
                        before the column became one of doubles
    strings             ends of characters below U+D000: Java orders those above otherwise than bytes
    date                days
    timestamp           numbers whose unit the statistics tell (version 9), and numbers that are too large to be
                        milliseconds of a year up to 9999
    decimal             digits with a scale that the statistics tell, or that of `DecimalWrapper`
    other types         nothing
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_reader import VARIANT_COLUMNS
from hoodie.common.data.exact_numbers import integer_limits
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.column_range import ValueType
from hoodie.metadata.records.column_values import BYTES_WRAPPER, DECIMAL_WRAPPER, decimal_digits
from hoodie.metadata.records.metadata_partition_type import MetadataRecordType
from hoodie.metadata.records.metadata_record_schema import WRAPPERS

Flags = npt.NDArray[np.bool_]
_INTEGERS = ("IntWrapper", "LongWrapper")
_FIRST_ODD_BYTE = 0xED
"""Bytes from here on begin characters from U+D000 on in UTF-8."""
_FLOAT_STEP, _SMALLEST_FLOAT = 2.0**-23, 2.0**-149
"""Neighbouring floats differ by at most the first as a share of their value, or by the second."""
_LAST_MILLI = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_WRAPPER_SCALE = 15
_MICROS_PER_MILLI = 1000
_UNTYPED = int(ValueType.V1)
_DIGITS = Context(prec=100)


@attrs.frozen(eq=False)
class ColumnBounds:
    """Ranges of one column, one for each file or group of files.

    Attributes:
        low: No value is smaller (of the column's type); null where nothing is known.
        high: No value is larger; null at the same places.
        is_void: True where all values are null; low and high are null there, too.
    """

    low: pa.Array
    high: pa.Array
    is_void: Flags

    @classmethod
    def of_statistics(cls, rows: pa.Table, data_type: pa.DataType) -> ColumnBounds:
        """The ranges that statistics give for one column.

        Args:
            rows: Statistics of one column, of the columns of `MetadataPayload.COLUMN_STATS`.
            data_type: The type of the column in the table.
        """
        low, high = (_ends(rows, name, data_type, is_low=name == "min_value") for name in ("min_value", "max_value"))
        known = pc.and_(low.is_valid(), high.is_valid())
        # A range with its ends in the wrong order tells nothing.
        known = pc.and_(known, pc.fill_null(pc.less_equal(low, high), False))
        nothing = pa.nulls(len(low), low.type)
        return cls(pc.if_else(known, low, nothing), pc.if_else(known, high, nothing), _void(rows))

    def take(self, places: pa.Array) -> ColumnBounds:
        """The ranges at the given places.

        Args:
            places: Numbers from 0; null gives an unknown range.
        """
        is_void = pc.fill_null(pa.array(self.is_void).take(places), False).to_numpy(zero_copy_only=False)
        return ColumnBounds(self.low.take(places), self.high.take(places), is_void)

    def united(self, starts: npt.NDArray[np.int64]) -> ColumnBounds:
        """One range for each run. It holds all ranges of the run, and is unknown if one of them is.

        Args:
            starts: The place at which each run begins; ascending, from 0, none empty.
        """
        count = len(self.is_void)
        if len(starts) == count:
            return self
        run_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
        is_known = self.low.is_valid().to_numpy(zero_copy_only=False) | self.is_void
        all_known = np.logical_and.reduceat(is_known, starts)
        is_void = np.logical_and.reduceat(self.is_void, starts)
        low, high = (
            _first_of_runs(values, run_of, starts, order)
            for values, order in ((self.low, "ascending"), (self.high, "descending"))
        )
        nothing, known = pa.nulls(len(starts), low.type), pa.array(all_known)
        return ColumnBounds(pc.if_else(known, low, nothing), pc.if_else(known, high, nothing), is_void)

    def unknown_at(self, flags: Flags) -> ColumnBounds:
        """The ranges, made unknown at the given places.

        Args:
            flags: True where the range becomes unknown.
        """
        nothing, known = pa.nulls(len(flags), self.low.type), pa.array(~flags)
        low, high = pc.if_else(known, self.low, nothing), pc.if_else(known, self.high, nothing)
        return ColumnBounds(low, high, self.is_void & ~flags)


def _first_of_runs(values: pa.Array, run_of: npt.NDArray[np.int64], starts: Any, order: str) -> pa.Array:
    table = pa.table({"run": run_of, "value": values})
    # Nulls come last.
    places = pc.sort_indices(table, sort_keys=[("run", "ascending"), ("value", order)]).to_numpy()
    return values.take(pa.array(places[starts]))


def _void(rows: pa.Table) -> Flags:
    """True where all values are null: the counts say so, or the file is a log file that holds only deletes."""
    counts, nulls = (rows.column(name).combine_chunks() for name in ("value_count", "null_count"))
    has_ends = pc.or_(rows.column("min_value").combine_chunks().is_valid(), rows.column("max_value").is_valid())
    is_null = pc.and_(pc.fill_null(pc.equal(counts, nulls), False), pc.fill_null(pc.greater(counts, 0), False))
    names = rows.column("file_name").to_pylist()
    is_empty = pc.and_(pc.fill_null(pc.equal(counts, 0), False), pc.fill_null(pc.equal(nulls, 0), False))
    is_void: Flags = is_null.to_numpy(zero_copy_only=False)
    if pc.any(is_empty).as_py():
        is_log = [name is not None and parse_log_file_name(name) is not None for name in names]
        is_void = is_void | (is_empty.to_numpy(zero_copy_only=False) & np.array(is_log, np.bool_))
    has_no_ends: Flags = ~_flags(has_ends)
    return is_void & has_no_ends


def _flags(values: pa.Array | pa.ChunkedArray) -> Flags:
    flags: Flags = (
        pc.fill_null(values, False).to_numpy(zero_copy_only=False)
        if isinstance(values, pa.Array)
        else (pc.fill_null(values, False).to_numpy())
    )
    return flags


def _ends(rows: pa.Table, name: str, data_type: pa.DataType, *, is_low: bool) -> pa.Array:
    """The smallest or largest values in the type of a column; null where nothing is known."""
    variant = rows.column(name).combine_chunks()
    parts = dict(zip(VARIANT_COLUMNS, variant.flatten(), strict=True))
    types = pc.fill_null(rows.column("value_type").combine_chunks(), _UNTYPED)
    if pa.types.is_boolean(data_type):
        return _masked(parts, ("BooleanWrapper",), types, (ValueType.BOOLEAN,), "integer").cast(pa.bool_(), safe=False)
    if pa.types.is_integer(data_type):
        return _within(_masked(parts, _INTEGERS, types, (ValueType.INT, ValueType.LONG), "integer"), data_type)
    if pa.types.is_date32(data_type):
        wrappers = ("DateWrapper", "LocalDateWrapper", "IntWrapper")
        return _within(_masked(parts, wrappers, types, (ValueType.DATE,), "integer"), pa.int32()).cast(data_type)
    if pa.types.is_floating(data_type):
        return _floats(rows, parts, types, data_type, is_low=is_low)
    if pa.types.is_string(data_type):
        return _texts(_masked(parts, ("StringWrapper",), types, (ValueType.STRING,), "binary"))
    if pa.types.is_timestamp(data_type) and data_type.unit == "us":
        return _timestamps(parts, types, data_type, is_low=is_low)
    if pa.types.is_decimal(data_type):
        return _decimals(rows, parts, types, data_type, is_low=is_low)
    return pa.nulls(rows.num_rows, data_type)


def _masked(
    parts: dict[str, pa.Array], wrappers: tuple[str, ...], types: pa.Array, allowed: tuple[ValueType, ...], part: str
) -> pa.Array:
    """The values in the given wrappers whose type is one of those allowed, or is not stored; else null."""
    branches = pa.array([WRAPPERS.index(name) for name in wrappers], parts["branch"].type)
    is_type = pc.is_in(types, value_set=pa.array([_UNTYPED, *map(int, allowed)], types.type))
    is_one = pc.and_(pc.is_in(parts["branch"], value_set=branches), is_type)
    return pc.if_else(is_one, parts[part], pa.nulls(len(types), parts[part].type))


def _within(numbers: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Numbers as a type of integers; null where the type cannot hold the number."""
    limits = integer_limits(data_type)
    fits = pc.and_(pc.greater_equal(numbers, int(limits.min)), pc.less_equal(numbers, int(limits.max)))
    return pc.if_else(pc.fill_null(fits, False), numbers, pa.nulls(len(numbers), numbers.type)).cast(data_type)


def _floats(
    rows: pa.Table, parts: dict[str, pa.Array], types: pa.Array, data_type: pa.DataType, *, is_low: bool
) -> pa.Array:
    is_wide = pa.types.is_float64(data_type)
    if not is_wide and not pa.types.is_float32(data_type):
        return pa.nulls(len(types), data_type)
    wrappers = ("FloatWrapper", "DoubleWrapper") if is_wide else ("FloatWrapper",)
    found = _masked(parts, wrappers, types, (ValueType.FLOAT, ValueType.DOUBLE), "floating")
    other = rows.column("max_value" if is_low else "min_value").combine_chunks()
    others = dict(zip(VARIANT_COLUMNS, other.flatten(), strict=True))["floating"]
    low, high = (found, others) if is_low else (others, found)
    is_sure = pc.or_kleene(pc.greater(low, 0.0), pc.less(high, 0.0))
    # For Java, NaN is the largest number, so nothing is known of the values below it.
    if not is_low:
        found = pc.if_else(pc.is_nan(found), float("inf"), found)
    is_sure = pc.and_(pc.fill_null(is_sure, False), pc.fill_null(pc.invert(pc.is_nan(found)), False))
    found = pc.if_else(is_sure, found, pa.nulls(len(found), found.type))
    return _widened(rows, parts, found, is_low=is_low) if is_wide else found.cast(data_type)


def _widened(rows: pa.Table, parts: dict[str, pa.Array], found: pa.Array, *, is_low: bool) -> pa.Array:
    """Ends of a column of doubles, widened to hold values of files written when the column was one of floats.

    Such a file has the float next to 0.1, and readers give the double 0.1. The range of a partition may come from files
    of both types.
    """
    is_float = pc.equal(parts["branch"], pa.scalar(WRAPPERS.index("FloatWrapper"), parts["branch"].type))
    is_partition = pc.equal(rows.column("type").combine_chunks(), int(MetadataRecordType.PARTITION_STATS))
    may_be_float = pc.or_(pc.fill_null(is_float, False), pc.fill_null(is_partition, False))
    step = pc.add(pc.multiply(pc.abs(found), _FLOAT_STEP), _SMALLEST_FLOAT)
    wider = pc.subtract(found, step) if is_low else pc.add(found, step)
    return pc.if_else(may_be_float, wider, found)


def _texts(stored: pa.Array) -> pa.Array:
    texts = stored.cast(pa.string())
    if not pc.all(pc.fill_null(pc.string_is_ascii(texts), True)).as_py():
        is_odd = [value is not None and max(value, default=0) >= _FIRST_ODD_BYTE for value in stored.to_pylist()]
        texts = pc.if_else(pa.array(is_odd, pa.bool_()), pa.nulls(len(texts), pa.string()), texts)
    return texts


def _timestamps(parts: dict[str, pa.Array], types: pa.Array, data_type: pa.DataType, *, is_low: bool) -> pa.Array:
    has_zone = data_type.tz is not None
    micros = ValueType.TIMESTAMP_MICROS if has_zone else ValueType.LOCAL_TIMESTAMP_MICROS
    millis = ValueType.TIMESTAMP_MILLIS if has_zone else ValueType.LOCAL_TIMESTAMP_MILLIS
    numbers = _masked(parts, ("LongWrapper", "TimestampMicrosWrapper"), types, (micros, millis), "integer")
    is_large = pc.greater(numbers, _LAST_MILLI)
    is_micros = pc.or_(pc.equal(types, int(micros)), pc.and_(pc.equal(types, _UNTYPED), pc.fill_null(is_large, False)))
    # A number of milliseconds that is out of range becomes unknown.
    is_milli = pc.and_(pc.equal(types, int(millis)), pc.fill_null(pc.less_equal(pc.abs(numbers), _LAST_MILLI), False))
    scaled = pc.if_else(is_milli, pc.multiply(pc.if_else(is_milli, numbers, 0), _MICROS_PER_MILLI), 0)
    if not is_low:
        scaled = pc.add(scaled, _MICROS_PER_MILLI - 1)
    nothing = pa.nulls(len(types), pa.int64())
    found = pc.if_else(is_micros, numbers, pc.if_else(is_milli, scaled, nothing))
    return found.cast(data_type)


def _decimals(
    rows: pa.Table, parts: dict[str, pa.Array], types: pa.Array, data_type: pa.DataType, *, is_low: bool
) -> pa.Array:
    infos = rows.column("value_type_info").to_pylist()
    found: list[Decimal | None] = []
    step = Decimal(1).scaleb(-data_type.scale)
    for branch, stored, value_type, info in zip(
        parts["branch"].to_pylist(), parts["binary"].to_pylist(), types.to_pylist(), infos, strict=True
    ):
        scale = None
        if branch == DECIMAL_WRAPPER and value_type in (_UNTYPED, ValueType.DECIMAL):
            scale = _WRAPPER_SCALE
        elif branch == BYTES_WRAPPER and value_type == ValueType.DECIMAL and info is not None:
            scale = _scale_of(info)
        if scale is None or not stored:
            found.append(None)
            continue
        number = Decimal(decimal_digits(stored)).scaleb(-scale, _DIGITS)
        rounding = "ROUND_FLOOR" if is_low else "ROUND_CEILING"
        rounded = number.quantize(step, rounding=rounding, context=_DIGITS)
        fits = abs(rounded) < Decimal(10) ** (data_type.precision - data_type.scale)
        found.append(rounded if fits else None)
    return pa.array(found, data_type)


def _scale_of(info: str) -> int | None:
    """The scale in a decimal's precision and scale, such as ``10,2``; None if there is none."""
    _, _, scale = info.partition(",")
    return int(scale) if scale.strip().isdigit() else None
