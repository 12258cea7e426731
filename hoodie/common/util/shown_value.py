"""Texts for values in messages: short, whatever the value is."""

from __future__ import annotations

import reprlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

_PLAIN_TYPES = (bool, int, float, complex, Decimal, str, bytes, date, datetime, time, timedelta, UUID)

SHOWN_CHARACTERS = 100
"""Characters of one value that a message shows."""


class _ShortRepr(reprlib.Repr):
    """Cuts long texts, numbers and containers in the middle; never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = self.maxother = SHOWN_CHARACTERS
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python prints no integers of more than some thousand digits.
            return f"<int of {x.bit_length()} bits>"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return self.repr_instance(x[: self.maxother], level)

    def repr_bytearray(self, x: bytearray, level: int) -> str:
        return self.repr_instance(x[: self.maxother], level)


_SHORT = _ShortRepr()


def short_repr(value: object) -> str:
    """A value of data for a message, as ``repr`` shows it, with the middle left out if it is long.

    Every message that shows a value from data uses it: keys, columns, partition paths, filter values.

    Args:
        value: Any value.
    """
    text = _SHORT.repr(value)
    return text if len(text) <= 3 * SHOWN_CHARACTERS else short_text(text, 3 * SHOWN_CHARACTERS)


def short_text(text: object, characters: int = 3 * SHOWN_CHARACTERS) -> str:
    """A text for a message, with its middle left out if it is long: another library's message may hold a whole value.

    Args:
        text: A text, or an error.
        characters: The most characters of the result.
    """
    found = str(text)
    if len(found) <= characters:
        return found
    half = max(1, (characters - 3) // 2)
    return f"{found[:half]}...{found[-half:]}"


def shown_value(value: object) -> str:
    """A wrong argument as text: ``None``, ``5 of type int``, ``of type pandas.DataFrame``.

    The text completes "... is". It shows the content of numbers, texts, times and UUIDs only: others may be
    long, or secret.

    Args:
        value: The argument.
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return typed_repr(value) if type(value) in _PLAIN_TYPES else f"of type {type_name(value)}"


def typed_repr(value: object) -> str:
    """A value of data with its type, for a message: ``5 of type int``, ``range(0, 3) of type range``.

    Args:
        value: Any value; see `short_repr`.
    """
    return f"{short_repr(value)} of type {type_name(value)}"


def type_name(value: object) -> str:
    """The name of a value's type for messages: ``int``, ``decimal.Decimal``.

    Args:
        value: Any value.
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
