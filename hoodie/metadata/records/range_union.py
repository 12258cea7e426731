"""Union of several ranges of a column: those of one key in log blocks, or of the files of a partition.

Hudi: HoodieTableMetadataUtil.mergeColumnStatsRecords, FileFormatUtils.getColumnRangeInPartition. Differs: ranges of
types that have no common order become the widest range.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_reader import VARIANT, VARIANT_COLUMNS
from hoodie.common.model.column_range import RangeValue, ValueType, widest_range
from hoodie.metadata.records.column_values import DECIMAL_WRAPPER, decimal_bytes, decimal_digits
from hoodie.metadata.records.metadata_record_schema import WRAPPERS

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed_size")
"""The columns that are summed."""
_INTEGER, _FLOATING, _BINARY, _DECIMAL = 1, 2, 4, 8
"""Kinds of values, as bits."""
_DOUBLE = WRAPPERS.index("DoubleWrapper")
_WRAPPER_PRECISION, _WRAPPER_SCALE = 30, 15
_TYPES = {
    "BooleanWrapper": ValueType.BOOLEAN,
    "IntWrapper": ValueType.INT,
    "LongWrapper": ValueType.LONG,
    "FloatWrapper": ValueType.FLOAT,
    "DoubleWrapper": ValueType.DOUBLE,
    "BytesWrapper": ValueType.BYTES,
    "StringWrapper": ValueType.STRING,
    "DateWrapper": ValueType.DATE,
    "DecimalWrapper": ValueType.DECIMAL,
    "TimeMicrosWrapper": ValueType.TIME_MICROS,
    "TimestampMicrosWrapper": ValueType.TIMESTAMP_MICROS,
    "LocalDateWrapper": ValueType.DATE,
}
_KINDS = np.array([0, *(1, 1, 1, 2, 2, 4, 4, 1, 8, 1, 1, 1), 16])
"""The kind of each wrapper; arrays have a kind that cannot be united."""
_BRANCH_TYPES = [_TYPES.get(name, ValueType.NULL) for name in WRAPPERS]


def union_of_ranges(rows: pa.RecordBatch, starts: Longs) -> pa.RecordBatch:
    """One row for each run of rows: ranges united, counts and sizes summed, other columns from the last row.

    A range of integers and one of floats are united to a range of floats.

    Args:
        rows: Statistics of columns, of the schema of `MetadataPayload.COLUMN_STATS`; each run is of one column.
        starts: The first row of each run; ascending, from 0.

    Returns:
        Rows of the same schema.
    """
    ends = np.append(starts[1:], rows.num_rows)[: len(starts)]
    last = rows.take(pa.array(ends - 1))
    if len(starts) == rows.num_rows:
        return last
    columns = dict(zip(rows.schema.names, last.columns, strict=True))
    for name in COUNTS:
        counts = pc.fill_null(rows.column(name), 0).to_numpy(zero_copy_only=False)
        columns[name] = pa.array(np.add.reduceat(counts, starts))
    # A range without any value has the type NULL; the type of the other ranges counts.
    types = rows.column("value_type")
    typed = _last_places(_typed(types), starts, ends)
    columns["value_type"] = types.take(pa.array(typed))
    columns["value_type_info"] = rows.column("value_type_info").take(pa.array(typed))
    run_of = np.repeat(np.arange(len(starts)), ends - starts)
    for name, is_min in (("min_value", True), ("max_value", False)):
        union = _Union(rows, name, starts, ends, run_of, is_min=is_min)
        columns[name] = union.united(columns["value_type"], columns["value_type_info"])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)


def _typed(types: pa.Array) -> Flags:
    found: Flags = pc.fill_null(pc.not_equal(types, int(ValueType.NULL)), False).to_numpy(zero_copy_only=False)
    return found


def _last_places(flags: Flags, starts: Longs, ends: Longs) -> Longs:
    """The last flagged row of each run; the last row of a run without flags."""
    places: Longs = np.maximum.reduceat(np.where(flags, np.arange(len(flags)), -1), starts)
    return np.where(places < 0, ends - 1, places)


class _Union:
    """The smallest or the largest value of each run of rows."""

    def __init__(
        self, rows: pa.RecordBatch, name: str, starts: Longs, ends: Longs, run_of: Longs, *, is_min: bool
    ) -> None:
        self._is_min = is_min
        self._starts = starts
        self._ends = ends
        self._run_of = run_of
        values = rows.column(name)
        self._columns = dict(zip(VARIANT_COLUMNS, values.flatten(), strict=True))
        branches = pc.fill_null(self._columns["branch"], 0).to_numpy(zero_copy_only=False).astype(np.int64)
        types = pc.fill_null(rows.column("value_type"), 0).to_numpy(zero_copy_only=False)
        self._infos = rows.column("value_type_info")
        is_decimal = (types == ValueType.DECIMAL) & (branches > 0)
        self._kinds = np.where(is_decimal, _DECIMAL, _KINDS[branches])
        self._branches = branches
        self._run_kinds = np.bitwise_or.reduceat(self._kinds, starts)
        self._last_branches = branches[_last_places(branches > 0, starts, ends)]

    def united(self, types: pa.Array, infos: pa.Array) -> pa.Array:
        """The value of each run.

        Args:
            types: The type of the column of each run (int32).
            infos: Precision and scale of that type (string).
        """
        count, kinds = len(self._starts), self._run_kinds
        branches = self._last_branches.copy()
        is_float = (kinds == _FLOATING) | (kinds == _FLOATING + _INTEGER)
        is_mixed = is_float & (_KINDS[branches] == _INTEGER)
        branches[is_mixed] = _DOUBLE
        binaries: list[bytes | None] = [None] * count
        integers = self._integers()
        floats = self._floats()
        self._texts(binaries)
        is_integer = kinds == _INTEGER
        for run in np.flatnonzero((kinds != 0) & ~is_float & ~is_integer & (kinds != _BINARY)).tolist():
            precision, scale = _precision_and_scale(infos[run].as_py())
            if kinds[run] == _DECIMAL:
                binaries[run] = decimal_bytes(self._decimal(run, scale))
                continue
            ordinal = types[run].as_py()
            value_type = ValueType(ordinal) if ordinal else _BRANCH_TYPES[branches[run]]
            end: RangeValue = widest_range(value_type, precision)[0 if self._is_min else 1]
            if isinstance(end, bytes):
                binaries[run] = end
            elif isinstance(end, float):
                floats[run], is_float[run] = end, True
            elif value_type is ValueType.DECIMAL:
                binaries[run] = decimal_bytes(end)
            else:
                integers[run], is_integer[run] = end, True
        arrays = [
            pa.array(branches.astype(np.int8)),
            pa.array(integers, mask=~is_integer),
            pa.array(floats, mask=~is_float),
            pa.array(binaries, pa.binary()),
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(VARIANT), mask=pa.array(kinds == 0))

    def _integers(self) -> Longs:
        limits = np.iinfo(np.int64)
        rest = limits.max if self._is_min else limits.min
        values = np.where(self._kinds == _INTEGER, self._numpy("integer"), rest)
        found: Longs = (np.minimum if self._is_min else np.maximum).reduceat(values, self._starts)
        return found

    def _floats(self) -> npt.NDArray[np.float64]:
        values = np.where(self._kinds == _INTEGER, self._numpy("integer").astype(np.float64), self._numpy("floating"))
        is_number = (self._kinds == _INTEGER) | (self._kinds == _FLOATING)
        found: npt.NDArray[np.float64]
        if self._is_min:
            found = np.fmin.reduceat(np.where(is_number, values, np.nan), self._starts)
        else:
            # NaN is the largest number for Java.
            found = np.maximum.reduceat(np.where(is_number, values, -np.inf), self._starts)
        # Java orders -0.0 before 0.0; numpy takes the first of the two.
        is_end = is_number & (values == 0.0) & (np.signbit(values) == self._is_min)
        zero = -0.0 if self._is_min else 0.0
        found[(found == 0.0) & np.logical_or.reduceat(is_end, self._starts)] = zero
        return found

    def _texts(self, binaries: list[bytes | None]) -> None:
        rows = np.flatnonzero(self._run_kinds[self._run_of] == _BINARY)
        rows = rows[self._kinds[rows] == _BINARY]
        if not len(rows):
            return
        table = pa.table({"run": self._run_of[rows], "value": self._columns["binary"].take(pa.array(rows))})
        order = "ascending" if self._is_min else "descending"
        table = table.take(pc.sort_indices(table, sort_keys=[("run", "ascending"), ("value", order)]))
        runs = table.column("run").to_numpy()
        first = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
        values = table.column("value").take(pa.array(first)).to_pylist()
        for run, value in zip(runs[first].tolist(), values, strict=True):
            binaries[run] = value

    def _decimal(self, run: int, scale: int) -> int:
        ends = []
        first = self._starts[run]
        for row in (first + np.flatnonzero(self._kinds[first : self._ends[run]] == _DECIMAL)).tolist():
            digits = decimal_digits(self._columns["binary"][row].as_py())
            stored = self._scale_of(row)
            if stored <= scale:
                digits *= 10 ** (scale - stored)
            else:
                # Rounded outwards, so that the range still holds all values.
                step = 10 ** (stored - scale)
                digits = digits // step if self._is_min else -(-digits // step)
            ends.append(digits)
        end: int = min(ends) if self._is_min else max(ends)
        return end

    def _scale_of(self, row: int) -> int:
        if self._branches[row] == DECIMAL_WRAPPER:
            return _WRAPPER_SCALE
        return _precision_and_scale(self._infos[row].as_py())[1]

    def _numpy(self, name: str) -> npt.NDArray[np.generic]:
        found: npt.NDArray[np.generic] = pc.fill_null(self._columns[name], 0).to_numpy(zero_copy_only=False)
        return found


def _precision_and_scale(info: str | None) -> tuple[int, int]:
    """Precision and scale of a decimal, as statistics of version 9 store them; without them, those of the
    wrapper.
    """
    if info is None:
        return _WRAPPER_PRECISION, _WRAPPER_SCALE
    precision, _, scale = info.partition(",")
    return int(precision), int(scale)
