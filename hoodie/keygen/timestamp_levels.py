"""Column values that follow from folder names of times: `hoodie.keygen.timestamp_paths` in reverse.

Only conditions are given that hold for every writer that keeps to the table's properties. Writers may read timestamp
columns in two ways, which tables do not store; they may have other versions of the database of time zones; and nulls
are in the folder of 1970.
"""

from __future__ import annotations

import math
import operator
from datetime import UTC, timezone, tzinfo
from functools import reduce
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.time_zones import offsets_at
from hoodie.config.timestamp_key_generator_config import TimeUnit
from hoodie.keygen.timestamp_paths import NANOS_OF_UNITS, TimestampPaths, is_number

_MAX_VALUES = 10_000
"""More values than this are not looked up."""
_ZONE_DOUBT_MS = 2 * 3_600_000
"""The assumed difference between two versions of the database of time zones."""
_LONGEST_OFFSET_MS = 16 * 3_600_000
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_LARGEST_MS = 1 << 50
_NANOS_PER_MS = 10**6
_UTC_MICROS = pa.timestamp("us", tz="UTC")


@attrs.frozen
class TimestampLevels:
    """The folder names of one partition field that holds times.

    Attributes:
        paths: The rule by which folders are named.
        data_type: The field's type.
        readings: The ways in which writers may have read its values.
    """

    paths: TimestampPaths
    data_type: pa.DataType
    readings: tuple[TimestampPaths, ...]

    @classmethod
    def of(cls, paths: TimestampPaths, data_type: pa.DataType) -> Self | None:
        """The names of a field; None if the table's properties do not determine them.

        Args:
            paths: The folder names by the table's own properties.
            data_type: The field's type.
        """
        if not paths.output.is_readable or paths.output.writes_offset:
            return None
        is_timestamp = pa.types.is_timestamp(data_type)
        if paths.unit is not None or is_timestamp:
            if paths.output_zone is None or (is_timestamp and data_type != _UTC_MICROS):
                # The zone is that of each writer's JVM.
                return None
            is_readable = is_timestamp or pa.types.is_date32(data_type) or is_number(data_type)
            readings = [paths]
            if is_timestamp and paths.unit is not None:
                readings.append(attrs.evolve(paths, consistent_timestamps=True))
            return cls(paths, data_type, tuple(readings)) if is_readable else None
        says_zone = all(pattern.writes_offset for pattern in paths.inputs)
        if paths.output_zone is not None and paths.input_zone is None and not says_zone:
            return None
        if not pa.types.is_string(data_type) or any(pattern.has_short_year for pattern in paths.inputs):
            return None
        return cls(paths, data_type, (paths,))

    def is_name(self, text: str) -> bool:
        """Whether a text is a folder name that the pattern makes, in English.

        Args:
            text: The text.
        """
        try:
            parsed = self.paths.output.read(text)
        except ValueError:
            return False
        return parsed is not None and self.paths.output.write(parsed.local_ms) == text

    def condition(self, field: str, text: str) -> pc.Expression | None:
        """The condition that the values of all rows in a folder meet; None if there is none.

        Args:
            field: The field's name.
            text: The folder's name.
        """
        times = self.paths.output.times_of(text)
        is_one_reading = len(self.readings) == 1 or self.paths.unit is TimeUnit.MICROSECONDS
        if times is None or not is_one_reading or pa.types.is_string(self.data_type):
            return None
        first, after = self._moments(*times)
        unit = TimeUnit.MICROSECONDS if pa.types.is_timestamp(self.data_type) else self.paths.unit
        low, high = _numbers(first, after, NANOS_OF_UNITS[unit or TimeUnit.MICROSECONDS])
        column = pc.field(field)
        bounds = [bound | column.is_null() for bound in _bounds(column, self.data_type, low, high)]
        return reduce(operator.and_, bounds) if bounds else None

    def names_of(self, values: pa.Array) -> frozenset[str] | None:
        """The possible folder names of rows with one of the values; None for any name.

        Args:
            values: Values of the field's type, without nulls.
        """
        if len(values) > _MAX_VALUES or values.type != self.data_type:
            return None
        names: set[str] = set()
        for reading in self.readings:
            if pa.types.is_string(values.type):
                found = _names_of_texts(reading, values)
                if found is None:
                    return None
                names |= found
                continue
            millis = reading.milliseconds(values)
            names.update(reading.of_moments(_with_doubt(millis, reading.output_zone)).to_pylist())
        return frozenset(names)

    def _moments(self, first: int | None, after: int) -> tuple[int | None, int]:
        """The first and the last but one of the moments at which clocks show a time, in milliseconds of UTC."""
        zone = self.paths.output_zone or UTC
        doubt = _doubt(zone)
        # The clocks may be set in between, so that a time occurs twice or never.
        latest = after - int(_offsets_around(zone, after).min()) + doubt
        return (None if first is None else first - int(_offsets_around(zone, first).max()) - doubt), latest


def _offsets_around(zone: tzinfo, local_ms: int) -> npt.NDArray[np.int64]:
    """The offsets that a zone can have when its clocks show a time."""
    return offsets_at(zone, np.array([local_ms - _LONGEST_OFFSET_MS, local_ms, local_ms + _LONGEST_OFFSET_MS]))


def _doubt(zone: tzinfo | None) -> int:
    return 0 if zone is None or isinstance(zone, timezone) else _ZONE_DOUBT_MS


def _with_doubt(millis: npt.NDArray[np.int64], zone: tzinfo | None) -> npt.NDArray[np.int64]:
    """Moments, with those that another writer may take them for."""
    doubt = _doubt(zone)
    # Fractions of a millisecond before 1970 are rounded up or down.
    near = [millis, millis[millis <= 0] - 1]
    if doubt:
        safe = millis[np.abs(millis) < _LARGEST_MS]
        near += [safe - doubt, safe + doubt]
    return np.unique(np.concatenate(near))


def _names_of_texts(paths: TimestampPaths, texts: pa.Array) -> set[str] | None:
    """The possible folder names of rows with one of the texts; None if a text is not a time here."""
    names: set[str] = set()
    for text in texts.to_pylist():
        try:
            moment = paths.moment(text)
        except ValueError:
            return None
        if moment is None:
            return None
        utc_ms, said_zone = moment
        zone = paths.output_zone or paths.input_zone or said_zone or UTC
        moments = np.array([utc_ms], np.int64)
        if said_zone is not None or zone != (paths.input_zone or UTC):
            moments = _with_doubt(_with_doubt(moments, zone), None if said_zone is not None else paths.input_zone)
        names.update(attrs.evolve(paths, output_zone=zone).of_moments(moments).to_pylist())
    return names


def _numbers(first: int | None, after: int, nanos: int) -> tuple[int | None, int]:
    """The smallest and the largest number of a unit between two moments in milliseconds, the second excluded."""
    if nanos < _NANOS_PER_MS:
        parts = _NANOS_PER_MS // nanos
        # Some writers round parts of a millisecond before 1970 toward zero, others down.
        low = None if first is None else first * parts if first > 0 else (first - 1) * parts + 1
        return low, after * parts - 1
    factor = nanos // _NANOS_PER_MS
    return (None if first is None else -(-first // factor)), (after - 1) // factor


def _bounds(column: pc.Expression, data_type: pa.DataType, low: int | None, high: int) -> list[pc.Expression]:
    """Conditions of values whose whole numbers are between two numbers."""
    if pa.types.is_decimal(data_type):
        # Java keeps the lowest 64 bits of a decimal.
        return []
    if pa.types.is_floating(data_type):
        # Java takes numbers beyond its integers for the last ones.
        if high < _SMALLEST or (low is not None and low > _LARGEST):
            return []
        bounds = []
        if low is not None and low > _SMALLEST:
            bounds.append(column >= _rounded(low if low > 0 else low - 1, data_type, -math.inf))
        if high < _LARGEST:
            highest = _rounded(high + 1 if high >= 0 else high, data_type, math.inf)
            bounds.append(column <= highest if high < 0 else column < highest)
        return bounds
    width = 32 if pa.types.is_date32(data_type) else 64 if pa.types.is_timestamp(data_type) else data_type.bit_width
    smallest, largest = -(1 << (width - 1)), (1 << (width - 1)) - 1
    if high < smallest or (low is not None and low > largest):
        return []
    stored = pa.int32() if pa.types.is_date32(data_type) else pa.int64()
    bounds = []
    if low is not None and low > smallest:
        bounds.append(column >= pa.scalar(low, stored).cast(data_type))
    if high < largest:
        bounds.append(column <= pa.scalar(high, stored).cast(data_type))
    return bounds


def _rounded(number: int, data_type: pa.DataType, to: float) -> pa.Scalar:
    """A number in a floating-point type, rounded toward one side."""
    kind = np.float32 if pa.types.is_float32(data_type) else np.float64
    near = kind(number)
    if int(near) != number:
        near = np.nextafter(near, kind(to))
    return pa.scalar(float(near), data_type)
