"""The options of CSV files: those of Spark that Hudi passes on."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, choice, decimal, integer, property_field, text

PREFIX: Final = "hoodie.streamer.csv."
_ESCAPES: Final = {
    "\\t": "\t", "\\s": " ", "\\u0020": " ", "\\u0000": "\0", "\\0": "\0", "\\\\": "\\", "\\'": "'", '\\"': '"',
    "\\u0001": "\x01",
}  # fmt: skip
_TIME_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_TRANSFORM: Final = "in a transformer, such as --transformer-class SqlQueryBasedTransformer"


class CsvMode(StrEnum):
    """The fate of lines that are no rows of the columns."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


def _character(*, may_be_none: bool) -> Parser[str]:
    allowed = "one character of ASCII; \\t for a tab, \\s for a blank" + (", or \\0 for none" if may_be_none else "")

    def parse(value: str) -> str:
        found = _ESCAPES.get(value, value)
        if found == "\0" and may_be_none:
            return ""
        if len(found) != 1 or not found.isascii() or found in "\0\r\n":
            raise ValueError
        return found

    return Parser(parse, allowed)


def _encoding(value: str) -> None:
    try:
        codecs.getincrementaldecoder(value)()
    except LookupError:
        raise ValueError from None


def _only(default: str, advice: str) -> Parser[str]:
    """A parser of the one value that is supported."""

    def parse(value: str) -> str:
        if value != default:
            raise ValueError(f"only {default or 'an empty text'} is supported; {advice}")
        return value

    return Parser(parse, default or "empty")


def _only_false(advice: str) -> Parser[bool]:
    def parse(value: str) -> bool:
        if value.lower() not in ("true", "false"):
            raise ValueError
        if value.lower() == "true":
            raise ValueError(f"not supported: {advice}")
        return False

    return Parser(parse, "false")


def _refused(advice: str) -> Callable[[str], None]:
    def refuse(value: str) -> None:
        raise ValueError(f"not supported: {advice}")

    return refuse


def time_format(pattern: str) -> str:
    """Java's pattern of dates as the functions of C know it.

    Args:
        pattern: Such as ``dd.MM.yyyy HH:mm:ss``.

    Raises:
        ValueError: It has letters without a twin.

        >>> time_format("dd.MM.yyyy")
        '%d.%m.%Y'
    """
    found, place, quoted = "", 0, False
    while place < len(pattern):
        letter = pattern[place]
        end = place + 1
        if letter == "'":
            quoted = not quoted
        elif letter.isascii() and letter.isalpha() and not quoted:
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            run = pattern[place:end]
            if run not in _TIME_LETTERS:
                raise ValueError(
                    f"'{run}' is not supported: only {', '.join(_TIME_LETTERS)} are. Times as 2026-07-05 10:15:30.123 "
                    f"need no format; read others as text, and convert them {_TRANSFORM}"
                )
            found += _TIME_LETTERS[run]
        else:
            found += "%%" if letter == "%" else letter
        place = end
    return found


def _check_format(value: str) -> None:
    time_format(value)


@attrs.frozen(kw_only=True, repr=False)
class CsvDFSSourceConfig(PropertyGroup):
    """CSV files of folders: the options of Spark's CSV reader, by its names.

    Of options that change values, only those of pyarrow's reader are taken, and others are refused.
    """

    separator: str = property_field(f"{PREFIX}sep", _character(may_be_none=False), ",")
    """The character between two values; `\\t` for a tab."""
    encoding: str = property_field(f"{PREFIX}encoding", text("an encoding such as UTF-8", _encoding), "UTF-8")
    """The encoding of the files."""
    quote: str = property_field(f"{PREFIX}quote", _character(may_be_none=True), '"')
    """The character around values that hold a separator; `\\0` for none."""
    escape: str | None = property_field(f"{PREFIX}escape", _character(may_be_none=True), None)
    """The character before a quote within quotes. By default quotes are doubled, and a line with `\\"` is an error;
    `\\` says that a backslash escapes a quote (Spark's default), `"` that it does not."""
    escape_of_escape: str | None = property_field(
        f"{PREFIX}charToEscapeQuoteEscaping",
        text("nothing", _refused("a backslash is escaped by another one; leave the option out")),
        None,
    )
    """Not supported."""
    comment: str = property_field(f"{PREFIX}comment", _character(may_be_none=True), "")
    """The character that lines to pass over begin with; none by default."""
    has_header: bool = property_field(f"{PREFIX}header", boolean(), False)
    """Whether the first line of each file names the columns. Otherwise they are those of the schema provider, in their
    order, or `_c0`, `_c1` and so on."""
    enforces_schema: bool | None = property_field(f"{PREFIX}enforceSchema", boolean(), None)
    """Whether the names of the schema provider count in their order, whatever the header says. By default columns with
    a header are found by name, where Spark takes them by order."""
    infers_schema: bool = property_field(f"{PREFIX}inferSchema", boolean(), True)
    """Whether types are guessed where neither the schema provider nor the table tells them. If false they are texts."""
    sampling_ratio: float = property_field(f"{PREFIX}samplingRatio", decimal(above=0, at_most=1), 1.0)
    """No effect: types are guessed by all rows of a round."""
    trims_left: bool = property_field(
        f"{PREFIX}ignoreLeadingWhiteSpace", _only_false(f"use ltrim(column) {_TRANSFORM}"), False
    )
    """Only false. Blanks around numbers do not matter."""
    trims_right: bool = property_field(
        f"{PREFIX}ignoreTrailingWhiteSpace", _only_false(f"use rtrim(column) {_TRANSFORM}"), False
    )
    """Only false. Blanks around numbers do not matter."""
    null_value: str = property_field(f"{PREFIX}nullValue", Parser(str, "a text"), "")
    """The text of nulls, besides an empty field. A field in quotes is never null."""
    empty_value: str = property_field(
        f"{PREFIX}emptyValue", _only("", f'`""` is empty text; use replace(column, ...) {_TRANSFORM}'), ""
    )
    """Only empty: `""` is empty text."""
    nan_value: str = property_field(f"{PREFIX}nanValue", _only("NaN", f"use replace(column, ...) {_TRANSFORM}"), "NaN")
    """Only `NaN`."""
    positive_infinity: str = property_field(
        f"{PREFIX}positiveInf", _only("Inf", f"use replace(column, ...) {_TRANSFORM}"), "Inf"
    )
    """Only `Inf`."""
    negative_infinity: str = property_field(
        f"{PREFIX}negativeInf", _only("-Inf", f"use replace(column, ...) {_TRANSFORM}"), "-Inf"
    )
    """Only `-Inf`."""
    date_format: str | None = property_field(f"{PREFIX}dateFormat", text("a pattern", _check_format), None)
    """The form of dates, by Java's letters yyyy, MM, dd; by default 2026-07-05."""
    timestamp_format: str | None = property_field(f"{PREFIX}timestampFormat", text("a pattern", _check_format), None)
    """The form of times, by Java's letters yyyy, MM, dd, HH, mm, ss, in UTC; by default those of ISO 8601."""
    most_columns: int = property_field(f"{PREFIX}maxColumns", integer(minimum=1), 20480)
    """No effect."""
    most_characters: int = property_field(f"{PREFIX}maxCharsPerColumn", integer(minimum=-1), -1)
    """No effect."""
    mode: CsvMode | None = property_field(f"{PREFIX}mode", choice(CsvMode), None)
    """The fate of lines that do not fit the columns: DROPMALFORMED passes them over, and the log tells their number.
    FAILFAST fails the round. By default, and with PERMISSIVE, they go to the error table; without one they fail the
    round. Rows with nulls in place of wrong values, as Spark makes them, are never made."""
    corrupt_column: str | None = property_field(
        f"{PREFIX}columnNameOfCorruptRecord",
        text("nothing", _refused("lines that do not fit go to the error table: hoodie.errortable.enable=true")),
        None,
    )
    """Not supported: see the error table."""
    is_multi_line: bool = property_field(f"{PREFIX}multiLine", boolean(), False)
    """Whether values in quotes may hold ends of lines."""
