"""Arguments of the wrong kind, as messages name them."""

from __future__ import annotations

import reprlib

__all__ = ["shown_value"]

_PLAIN_TYPES = (bool, int, float, complex, str, bytes)


def shown_value(value: object) -> str:
    """What a caller gave instead of what was expected: ``None``, ``5 of type int``, ``of type pandas.DataFrame``.

    It completes "... is". The contents of anything but a number or a text are left out: they may be long, or secret.

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
