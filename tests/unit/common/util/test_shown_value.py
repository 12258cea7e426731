"""Values in messages."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from hoodie.common.util.shown_value import SHOWN_CHARACTERS, short_repr, short_text, shown_value

MEGABYTE = 1 << 20


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    "value",
    ["x" * MEGABYTE, b"x" * MEGABYTE, bytearray(MEGABYTE), 10**5000, ["x" * MEGABYTE] * 100, {"k": "x" * MEGABYTE}],
    ids=lambda value: type(value).__name__,
)
def test_a_long_value_is_cut_in_every_text(value: Any) -> None:
    for text in (short_repr(value), shown_value(value), short_text("x" * MEGABYTE)):
        assert len(text) <= 4 * SHOWN_CHARACTERS


def test_short_values_are_shown_whole() -> None:
    assert short_repr("it's") == '"it\'s"'
    assert short_repr({"a": [1, None]}) == "{'a': [1, None]}"
    assert short_text("ab") == "ab"
    assert shown_value(5) == "5 of type int"
    assert shown_value(Decimal("1.5")) == "Decimal('1.5') of type decimal.Decimal"
    assert shown_value(date(2026, 1, 2)) == "datetime.date(2026, 1, 2) of type datetime.date"


def test_a_value_that_cannot_show_itself_is_named() -> None:
    assert "Broken" in short_repr(Broken())
