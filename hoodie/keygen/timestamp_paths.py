"""Read values of a partition field as times, and name folders by them with a pattern.

Hudi: org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator and org.apache.hudi.keygen.parser.HoodieDateTimeParser.
"""

from __future__ import annotations

import logging
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.util.date_pattern import DatePattern
from hoodie.common.util.time_zones import offset_from_local, offsets_at, time_zone
from hoodie.config.timestamp_key_generator_config import (
    HoodieTimestampKeyGeneratorConfig,
    TimestampType,
    TimeUnit,
)
from hoodie.exception import HoodieConfigException, HoodieKeyException

logger = logging.getLogger(__name__)

_PREFIX = "hoodie.keygen.timebased."
_UNITS = {
    TimestampType.UNIX_TIMESTAMP: TimeUnit.SECONDS,
    TimestampType.EPOCHMILLISECONDS: TimeUnit.MILLISECONDS,
    TimestampType.EPOCHMICROSECONDS: TimeUnit.MICROSECONDS,
}
NANOS_OF_UNITS = {
    TimeUnit.NANOSECONDS: 1,
    TimeUnit.MICROSECONDS: 10**3,
    TimeUnit.MILLISECONDS: 10**6,
    TimeUnit.SECONDS: 10**9,
    TimeUnit.MINUTES: 60 * 10**9,
    TimeUnit.HOURS: 3600 * 10**9,
    TimeUnit.DAYS: 86_400 * 10**9,
}
_LARGEST = 2**63 - 1
_VALUE_OF_NULL = 1


@attrs.frozen
class TimestampPaths:
    """Makes folder names from times. Picklable.

    Attributes:
        timestamp_type: The form of the values.
        unit: The unit of numbers; None for texts.
        output: The pattern of folder names.
        inputs: The patterns of texts, of which the first that matches is used; () for numbers.
        input_zone: The zone of texts that name none; None: UTC.
        output_zone: The zone of folder names; None: the zone in the text, or the input zone, or UTC.
        consistent_timestamps: Whether timestamp columns are read as times in any case, and not as numbers.
    """

    timestamp_type: TimestampType
    unit: TimeUnit | None
    output: DatePattern
    inputs: tuple[DatePattern, ...] = ()
    input_zone: tzinfo | None = None
    output_zone: tzinfo | None = None
    consistent_timestamps: bool = False

    @classmethod
    def from_config(
        cls, config: HoodieTimestampKeyGeneratorConfig, one_timezone: bool, table_name: str
    ) -> TimestampPaths:
        """Read the properties of a table and its writer.

        Args:
            config: The properties in effect.
            one_timezone: Whether the property ``timezone`` decides for both zones.
            table_name: The table's name, for messages.

        Raises:
            HoodieConfigException: Properties are missing, or contain unknown patterns; the message names all of them.
        """
        problems = config.problems()
        if problems or config.timestamp_type is None or config.output_date_format is None:
            raise HoodieConfigException(
                f"The times in the partition paths of the table '{table_name}' cannot be made: {'; '.join(problems)}"
            )
        zones = (config.timezone, config.timezone) if one_timezone else (config.input_timezone, config.output_timezone)
        input_zone, output_zone = (time_zone(name) if name else None for name in zones)
        inputs = tuple(DatePattern.of(text) for text in config.input_patterns) if config.reads_texts else ()
        unit = _UNITS.get(config.timestamp_type)
        if config.timestamp_type is TimestampType.SCALAR:
            unit = config.time_unit or TimeUnit.SECONDS
        return cls(
            config.timestamp_type,
            unit,
            DatePattern.of(config.output_date_format),
            inputs,
            input_zone,
            output_zone,
            bool(config.consistent_logical_timestamp_enabled),
        )

    def check_type(self, field: str, data_type: pa.DataType) -> None:
        """Refuse a column that does not fit the timestamp type.

        Raises:
            HoodieKeyException: The message names the field, its type and what to do.
        """
        if pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        if pa.types.is_timestamp(data_type) and self.consistent_timestamps:
            return
        form = (
            f"the partition field '{field}' has type {data_type}, and {_PREFIX}timestamp.type is {self.timestamp_type}"
        )
        if self.unit is None:
            if not pa.types.is_string(data_type):
                raise HoodieKeyException(
                    f"{form}, which reads texts: convert it to text, or name a type for numbers "
                    f"({TimestampType.UNIX_TIMESTAMP}, {TimestampType.EPOCHMILLISECONDS} or {TimestampType.SCALAR})"
                )
            return
        if not (is_number(data_type) or pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type)):
            raise HoodieKeyException(
                f"{form}, which takes numbers, dates and timestamps: convert it to one of these"
                + (f", or name {TimestampType.DATE_STRING}" if pa.types.is_string(data_type) else "")
            )
        kept = TimeUnit.DAYS if pa.types.is_date32(data_type) else TimeUnit.MICROSECONDS
        if not is_number(data_type) and self.unit is not kept:
            logger.warning(
                "%s: its values are numbers (%s since 1970) but read as %s, as Hudi does, which gives other "
                "dates. For new tables set timestamp.type=SCALAR and timestamp.scalar.time.unit=%s",
                form, kept.lower(), self.unit.lower(), kept,
            )  # fmt: skip

    def strings(self, values: pa.Array) -> pa.StringArray:
        """The folder names of values; null for texts that no pattern matches. A null counts as the beginning of 1970.

        Args:
            values: Values of a type that `check_type` accepts.
        """
        if self.unit is None and not pa.types.is_timestamp(values.type):
            of_null = self._of_text(self._text_of_null())
            texts = [of_null if text is None else self._of_text(text) for text in values.to_pylist()]
            return pa.array(texts, pa.string())
        return self.of_moments(self.milliseconds(values))

    def of_moments(self, millis: npt.NDArray[np.int64]) -> pa.StringArray:
        """The folder names of moments.

        Args:
            millis: Milliseconds since 1970.
        """
        zone = self.output_zone or UTC
        offsets = np.zeros(len(millis), np.int64) if zone is UTC else offsets_at(zone, millis)
        local = _saturated(millis.astype(object) + offsets) if _may_overflow(millis) else millis + offsets
        step = self.output.step_ms
        if self.output.writes_offset:
            moments = np.stack([local // step, offsets])
            distinct, places = np.unique(moments, axis=1, return_inverse=True)
            written = [self.output.write(int(moment) * step, int(offset)) for moment, offset in distinct.T]
        else:
            distinct, places = np.unique(local // step, return_inverse=True)
            written = [self.output.write(int(moment) * step) for moment in distinct]
        return pa.array(written, pa.string()).take(pa.array(places.reshape(-1)))

    def reason_against(self, text: str) -> str:
        """Why a text gives no folder name, as the end of a sentence."""
        formats = " or ".join(pattern.text for pattern in self.inputs)
        try:
            self.moment(text)
        except ValueError as error:
            return f"is not a time ({error}) of {_PREFIX}input.dateformat = {formats}"
        return f"is not of the form {_PREFIX}input.dateformat = {formats}"

    def milliseconds(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """Milliseconds since 1970, converted as Java's TimeUnit does: rounded toward zero, saturating on overflow.

        Args:
            values: No texts.
        """
        data_type = values.type
        nanos = NANOS_OF_UNITS[self.unit or TimeUnit.MICROSECONDS]
        of_null = _VALUE_OF_NULL
        if pa.types.is_timestamp(data_type):
            values = values.view(pa.int64())
            if self.consistent_timestamps:
                # A java.sql.Timestamp has whole milliseconds, rounded toward zero. Nulls become numbers here as well.
                null_ms = int(_converted(np.array([of_null], np.int64), nanos)[0]) if self.unit else of_null
                numbers = _converted(values.fill_null(0).to_numpy(zero_copy_only=False), 1000)
                valid = values.is_valid().to_numpy(zero_copy_only=False)
                return np.where(valid, numbers, null_ms)
        elif pa.types.is_date32(data_type):
            values = values.view(pa.int32()).cast(pa.int64())
        if pa.types.is_decimal(data_type):
            numbers = np.array([_low_bits(value, of_null) for value in values.to_pylist()], np.int64)
        elif pa.types.is_floating(data_type):
            numbers = _whole(values.cast(pa.float64()).fill_null(float(of_null)).to_numpy(zero_copy_only=False))
        else:
            numbers = values.cast(pa.int64()).fill_null(of_null).to_numpy(zero_copy_only=False)
        return _converted(numbers, nanos)

    def _text_of_null(self) -> str:
        """The beginning of 1970, formatted by the first pattern."""
        zone = self.input_zone or self.output_zone or UTC
        moment = np.array([_VALUE_OF_NULL], np.int64)
        offset = int(offsets_at(zone, moment)[0])
        return self.inputs[0].write(_VALUE_OF_NULL + offset, offset)

    def _of_text(self, text: str) -> str | None:
        try:
            moment = self.moment(text)
        except ValueError:
            return None
        if moment is None:
            return None
        utc_ms, said_zone = moment
        zone = self.output_zone or self.input_zone or said_zone or UTC
        offset = int(offsets_at(zone, np.array([utc_ms], np.int64))[0])
        return self.output.write(utc_ms + offset, offset)

    def moment(self, text: str) -> tuple[int, tzinfo | None] | None:
        """(milliseconds since 1970, the zone in the text) of a text; None if no pattern matches.

        Args:
            text: A value of the partition field.

        Raises:
            ValueError: There is no such time.
        """
        for pattern in self.inputs:
            parsed = pattern.read(text)
            if parsed is None:
                continue
            if parsed.offset_ms is not None:
                said_zone = timezone(timedelta(milliseconds=parsed.offset_ms))
                return parsed.local_ms - parsed.offset_ms, said_zone
            offset = offset_from_local(self.input_zone or UTC, parsed.local_ms)
            if offset is None:
                raise ValueError("the clocks were put forward over it")
            return parsed.local_ms - offset, None
        return None


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type are read as numbers."""
    return bool(
        pa.types.is_signed_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    )


def _low_bits(value: object, of_null: int) -> int:
    """BigDecimal.longValue: drop the fraction, and keep the lowest 64 bits."""
    if value is None:
        return of_null
    bits = int(value) & (2**64 - 1)  # type: ignore[call-overload]
    return int(bits - 2**64 if bits > _LARGEST else bits)


def _whole(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Java's cast of a double to long: rounds toward zero, NaN is 0, saturates on overflow."""
    kept = np.where(np.isnan(numbers) | (np.abs(numbers) >= 2.0**63), 0.0, numbers)
    whole = np.trunc(kept).astype(np.int64)
    whole = np.where(numbers >= 2.0**63, _LARGEST, whole)
    return np.where(numbers <= -(2.0**63), -_LARGEST - 1, whole)


def _converted(numbers: npt.NDArray[np.int64], nanos: int) -> npt.NDArray[np.int64]:
    """Convert numbers of a unit to milliseconds."""
    if nanos < 10**6:
        divisor = 10**6 // nanos
        quotients = np.abs(numbers) // divisor
        smallest = numbers == -_LARGEST - 1
        if smallest.any():
            quotients = np.where(smallest, 2**63 // divisor, quotients)
        return np.where(numbers < 0, -quotients, quotients)
    factor = nanos // 10**6
    limit = _LARGEST // factor
    millis = np.clip(numbers, -limit, limit) * factor
    return np.where(numbers > limit, _LARGEST, np.where(numbers < -limit, -_LARGEST - 1, millis))


def _may_overflow(millis: npt.NDArray[np.int64]) -> bool:
    return bool(len(millis)) and (
        int(millis.max()) > _LARGEST - 2 * 86_400_000 or int(millis.min()) < 2 * 86_400_000 - _LARGEST
    )


def _saturated(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.array([max(-_LARGEST - 1, min(_LARGEST, int(number))) for number in numbers], np.int64)
