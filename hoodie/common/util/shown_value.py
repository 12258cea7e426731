"""Texts for arguments of a wrong kind, for messages."""

from __future__ import annotations

import reprlib

_PLAIN_TYPES = (bool, int, float, complex, str, bytes)


def shown_value(value: object) -> str:
    """A wrong argument as text: ``None``, ``5 of type int``, ``of type pandas.DataFrame``.

    The text completes "... is". It shows the content of numbers and texts only: others may be long, or secret.

    Args:
        value: The argument.
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{reprlib.repr(value)} of type {name}" if kind in _PLAIN_TYPES else f"of type {name}"
