"""Transformers and other classes that a user of the streamer could have written, named as module:Class in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.transform.transformer import Transformer

NOT_A_FUNCTION = 7


def double_fares(table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
    """The fares, times the factor of the user's own property."""
    factor = float(properties.get("my.factor", "2"))
    index = table.column_names.index("fare")
    return table.set_column(index, "fare", pc.multiply(table["fare"], factor))


def return_nothing(table: pa.Table, properties: Mapping[str, str]) -> None:
    """Forgets to return the rows."""


def divide_by_zero(table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
    """Fails."""
    raise ZeroDivisionError("of the user's")


class FirstRow:
    """A plain class with apply."""

    def apply(self, table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
        return table.slice(0, 1)


class AddsColumn(Transformer):
    """A subclass of Transformer, which runs in Spark's tasks too."""

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        return table.append_column("added", pa.array([1] * len(table), pa.int64()))


class NeedsArguments(Transformer):
    """A class that cannot be made without arguments."""

    def __init__(self, needed: Any) -> None:
        self.needed = needed

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        return table
