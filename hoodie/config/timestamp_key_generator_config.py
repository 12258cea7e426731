"""Properties of the timestamp key generators: how partition folders are named by times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import attrs

from hoodie.common.config.property import (
    Parser,
    PropertyGroup,
    boolean,
    choice,
    properties_of,
    property_field,
    read_group,
)
from hoodie.common.util.date_pattern import DatePattern
from hoodie.common.util.time_zones import time_zone
from hoodie.exception import HoodieConfigException

_PREFIX = "hoodie.keygen.timebased."
_OLD_PREFIX = "hoodie.deltastreamer.keygen.timebased."
_ZONES = (f"{_PREFIX}input.timezone", f"{_PREFIX}output.timezone")
_PARSER = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"


class TimestampType(StrEnum):
    """The meaning of the values of a partition field."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"


class TimeUnit(StrEnum):
    """The unit of the numbers, for `TimestampType.SCALAR`."""

    NANOSECONDS = "NANOSECONDS"
    MICROSECONDS = "MICROSECONDS"
    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"


def _text(allowed: str, check: Callable[[str], object] | None = None) -> Parser[str | None]:
    """A parser of text that may be empty; ``check`` raises ValueError for other text that is not allowed."""

    def parse(value: str) -> str | None:
        if value and check is not None:
            check(value)
        return value or None

    return Parser(parse, allowed)


def _zone() -> Parser[str | None]:
    return _text("a time zone: a name of the tz database, or an offset such as GMT+08:00", time_zone)


def _check_regular_expression(value: str) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from error


def _date_time_parser() -> Parser[str]:
    def parse(value: str) -> str:
        if value and value != _PARSER:
            raise ValueError(f"hoodie reads dates as Hudi's {_PARSER} does: leave it out")
        return _PARSER

    return Parser(parse, _PARSER)


def _option(name: str, parser: Parser[Any]) -> Any:
    """A property under both of its names, without a default."""
    return property_field(f"{_PREFIX}{name}", parser, None, alternatives=[f"{_OLD_PREFIX}{name}"])


@attrs.frozen(kw_only=True, repr=False)
class HoodieTimestampKeyGeneratorConfig(PropertyGroup):
    """Names of folders made of times, by TimestampBasedKeyGenerator and ``field:TIMESTAMP``.

    A table stores these properties when it is created, and its own take precedence; None where nothing is given.

    Hudi: org.apache.hudi.common.config.TimestampKeyGeneratorConfig. Differs: the default time zone is UTC; Hudi takes
    the JVM's.
    """

    timestamp_type: TimestampType | None = _option("timestamp.type", choice(TimestampType))
    """What the partition field holds: seconds, milliseconds or microseconds since 1970, numbers of another unit
    (SCALAR), or text. MIXED is the same as DATE_STRING, as in Hudi. EPOCHMICROSECONDS is from Hudi 1.x."""
    time_unit: TimeUnit | None = _option("timestamp.scalar.time.unit", choice(TimeUnit))
    """The unit of the numbers, for the type SCALAR; default: SECONDS. Date columns count DAYS, timestamp columns
    MICROSECONDS."""
    input_date_format: str | None = _option("input.dateformat", _text("date patterns of Joda"))
    """Joda patterns of the texts (`yyyy-MM-dd'T'HH:mm:ssZ`), for the types DATE_STRING and MIXED; the first pattern
    that matches a text is used."""
    input_date_format_delimiter: str | None = _option(
        "input.dateformat.list.delimiter.regex", _text("a regular expression", _check_regular_expression)
    )
    """The separator between the patterns of input.dateformat, as a regular expression; default: a comma."""
    input_timezone: str | None = _option("input.timezone", _zone())
    """The time zone of texts that name none."""
    output_date_format: str | None = _option("output.dateformat", _text("a date pattern of Joda", DatePattern.of))
    """The pattern of the folder names, such as `yyyy/MM/dd`."""
    output_timezone: str | None = _option("output.timezone", _zone())
    """The time zone of the folder names. If it is not given, texts that name a zone keep it."""
    timezone: str | None = _option("timezone", _zone())
    """The time zone for both, instead of input.timezone and output.timezone."""
    date_time_parser: str | None = property_field(
        "hoodie.keygen.datetime.parser.class",
        _date_time_parser(),
        None,
        alternatives=("hoodie.deltastreamer.keygen.datetime.parser.class",),
    )
    """The parser of texts: Hudi's own."""
    consistent_logical_timestamp_enabled: bool | None = property_field(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", boolean(), None
    )
    """Write timestamps in keys and partition paths as `2026-11-21 10:30:00.0` (UTC), not as numbers. A table does not
    store this: give it to every writer; one that makes other keys than the stored ones is refused."""

    @classmethod
    def stored_properties(cls, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties of ``properties`` that a table stores, under their present names."""
        return {
            prop.key: properties[key]
            for name, prop in properties_of(cls).items()
            if name != "consistent_logical_timestamp_enabled"
            for key in reversed(prop.keys)
            if key in properties
        }

    @classmethod
    def of_table(cls, table_name: str, table: Mapping[str, str], write: Mapping[str, str]) -> tuple[
        HoodieTimestampKeyGeneratorConfig, bool
    ]:  # fmt: skip
        """Combine a table's own properties with the writer's; the table's take precedence.

        Args:
            table_name: The table's name, for messages.
            table: Properties of the table.
            write: Properties of the writer.

        Returns:
            The typed properties, and whether the property ``timezone`` is given at all: if so, it decides for both
            zones, even when it is empty.

        Raises:
            HoodieConfigException: Values do not parse; the message names all of them.
        """
        known = {key: prop.key for prop in properties_of(cls).values() for key in reversed(prop.keys)}
        merged: dict[str, str] = {}
        for properties in (write, table):
            for key, name in known.items():
                if key in properties:
                    merged[name] = properties[key]
        stored = {name for key, name in known.items() if key in table}
        if f"{_PREFIX}timezone" not in stored and not stored.isdisjoint(_ZONES):
            # The table's own zones take precedence: the writer's ``timezone`` only sets a zone that the table does not
            # have.
            zone = merged.pop(f"{_PREFIX}timezone", None)
            for name in _ZONES:
                if zone and name not in stored:
                    merged[name] = zone
        problems: list[str] = []
        config = read_group(cls, merged, problems)
        if problems:
            raise HoodieConfigException(
                f"The key generator of the table '{table_name}' cannot be created: {'; '.join(problems)}"
            )
        return config, f"{_PREFIX}timezone" in merged

    @property
    def input_patterns(self) -> tuple[str, ...]:
        """The patterns of ``input.dateformat`` as a tuple, split as Java's String.split does."""
        parts = re.split(self.input_date_format_delimiter or ",", self.input_date_format or "")
        while parts and not parts[-1].strip():
            parts.pop()
        return tuple(part.strip() for part in parts)

    @property
    def reads_texts(self) -> bool:
        """Whether the partition field holds texts."""
        return self.timestamp_type in (TimestampType.DATE_STRING, TimestampType.MIXED)

    def problems(self) -> list[str]:
        """Settings for naming folders by times that are missing or not possible; one sentence for each."""
        found = []
        if self.timestamp_type is None:
            found.append(
                f"{_PREFIX}timestamp.type is given neither by the table (Hudi does not always store it) nor by the "
                f"writer: add it, one of {', '.join(TimestampType)}"
            )
        if self.output_date_format is None:
            found.append(
                f"{_PREFIX}output.dateformat is missing, the pattern of the folder names: add it, such as yyyy/MM/dd"
            )
        if self.reads_texts and not self.input_patterns:
            found.append(
                f"{_PREFIX}input.dateformat is missing, the pattern of the texts of {self.timestamp_type}: add it, "
                "such as yyyy-MM-dd"
            )
        for pattern in self.input_patterns if self.reads_texts else ():
            try:
                DatePattern.of(pattern).check_readable()
            except ValueError as error:
                found.append(f"{_PREFIX}input.dateformat: {error}")
        return found

    def contradictions(self, table: Mapping[str, str]) -> list[str]:
        """Compare these properties with those that a table stores.

        Args:
            table: The table's properties.

        Returns:
            One sentence for each difference.
        """
        found = self.zone_problems()
        own = self._of_stored(table)
        for name, prop in properties_of(type(self)).items():
            given = getattr(self, name)
            stored = next((table[key].strip() for key in prop.keys if key in table), None)
            if given is None:
                continue
            if stored is None:
                effect = own._effect_against(name, given, self.timestamp_type) if own is not None else None
                if effect is not None:
                    found.append(
                        f"{prop.key} = '{given}': in the table it is {effect}; leave it out, or write to a table made "
                        "with it"
                    )
                continue
            actual: object = stored
            with suppress(ValueError):
                actual = prop.parser.parse(stored)
            is_same = _same_zones(given, str(actual)) if name.endswith("timezone") else given == actual
            if not is_same:
                found.append(
                    f"{prop.key} = '{given}': the table has '{stored}'; leave it out, or write to a table made with it"
                )
        return found

    def zone_problems(self) -> list[str]:
        """Zones that are given together and differ, one sentence for each."""
        if self.timezone is None:
            return []
        return [
            f"{_PREFIX}{kind}.timezone = '{zone}' and {_PREFIX}timezone = '{self.timezone}' differ, and the second "
            "counts for both directions: give one of them"
            for kind, zone in (("input", self.input_timezone), ("output", self.output_timezone))
            if zone is not None and not _same_zones(zone, self.timezone)
        ]

    def default_properties(self, one_timezone: bool) -> dict[str, str]:
        """Defaults that a new table stores in addition, so that later writers cannot read its properties differently.

        In Hudi the default zone is the JVM's, so folder names would depend on the writer. If the texts name their own
        zone, no stored default can replace it.

        Args:
            one_timezone: Whether the property ``timezone`` is given.
        """
        added = {}
        if self.timestamp_type is TimestampType.SCALAR and self.time_unit is None:
            added[f"{_PREFIX}timestamp.scalar.time.unit"] = TimeUnit.SECONDS.value
        if one_timezone:
            return added
        if not self.reads_texts:
            if self.output_timezone is None:
                added[f"{_PREFIX}output.timezone"] = "UTC"
        elif self.input_timezone is None and (self.output_timezone is not None or not self._texts_say_zones):
            added[f"{_PREFIX}input.timezone"] = "UTC"
        return added

    @property
    def _texts_say_zones(self) -> bool:
        """Whether texts may name their time zone."""
        with suppress(ValueError):
            return any(DatePattern.of(pattern).writes_offset for pattern in self.input_patterns)
        return False

    @classmethod
    def _of_stored(cls, table: Mapping[str, str]) -> HoodieTimestampKeyGeneratorConfig | None:
        """The properties that a table stores; None if they do not parse, which is reported where keys are made."""
        try:
            return cls.of_table("", table, {})[0]
        except HoodieConfigException:
            return None

    def _effect_against(self, name: str, given: object, written_type: TimestampType | None) -> str | None:
        """The value in effect in this table, which does not store the property, if a writer gives another value.

        None if Hudi itself leaves the value to each writer.

        Args:
            name: The field of the property.
            given: The writer's value.
            written_type: The writer's type, if the table stores none.
        """
        kind = self.timestamp_type or written_type
        is_text = kind in (TimestampType.DATE_STRING, TimestampType.MIXED)
        if name == "time_unit" and kind is TimestampType.SCALAR and self.timestamp_type is not None:
            return None if given is TimeUnit.SECONDS else f"'{TimeUnit.SECONDS}', the default"
        if name == "input_date_format_delimiter" and is_text and self.input_date_format is not None:
            other = attrs.evolve(self, input_date_format_delimiter=str(given))
            return None if other.input_patterns == self.input_patterns else "',', the default"
        if not name.endswith("timezone"):
            return None
        input_zone = self.timezone or self.input_timezone
        output_zone = self.timezone or self.output_timezone or (input_zone if is_text else None)
        wanted = str(given)
        if name != "input_timezone" and output_zone is not None and not _same_zones(wanted, output_zone):
            return f"'{output_zone}', by {self._zone_key('output', is_text)}"
        reads_zone = is_text and name != "output_timezone"
        if reads_zone and input_zone is not None and not _same_zones(wanted, input_zone):
            return f"'{input_zone}', by {self._zone_key('input', is_text)}"
        if is_text and output_zone is None and self.input_date_format is not None and self._texts_say_zones:
            return f"the one that texts say, by {_PREFIX}input.dateformat = {self.input_date_format}"
        return None

    def _zone_key(self, kind: str, is_text: bool) -> str:
        """The stored property that decides on a zone."""
        if self.timezone is not None:
            return f"{_PREFIX}timezone"
        if kind == "output" and is_text and self.output_timezone is None:
            kind = "input"
        return f"{_PREFIX}{kind}.timezone"


def _same_zones(one: str, other: str) -> bool:
    try:
        return one == other or time_zone(one) == time_zone(other)
    except ValueError:
        return False
