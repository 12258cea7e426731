"""The limit for the nesting of a table's columns.

Parquet's schema is a tree of groups. A struct is one group; a list and a map are two, one of them for their elements::

    column                          groups
    struct<a: int>                  1
    list<element: int>              2
    list<element: struct<a: int>>   3

Arrow's reader refuses files with more than `MAX_LEVELS` groups above a column of values; its writer does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from hoodie.exception import HoodieSchemaException

MAX_LEVELS = 98
"""Groups above a column of values. Arrow counts the root and the values too, and allows 100."""

_FLAT_IDS = frozenset(
    kind.id for kind in (pa.string(), pa.binary(), pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
)
"""Numbers of the usual types without levels; tables have up to thousands of such columns."""
_SEQUENCES = (list, tuple, set, np.ndarray)

_Type = TypeVar("_Type")


def check_levels(schema: pa.Schema) -> None:
    """Refuse columns that could be written but not read again.

    This function does not recurse. Other code may recurse after this check.

    Args:
        schema: Columns of any types.

    Raises:
        HoodieSchemaException: A column is nested too deeply; the message names the first one, with its levels.
    """
    columns = ((field.name, field.type) for field in schema if field.type.id not in _FLAT_IDS)
    for name, levels in deep_columns(columns, _children, MAX_LEVELS):
        raise _too_deep(name, f"it has {levels} levels")


def deep_columns(
    columns: Iterable[tuple[str, _Type]], children: Callable[[_Type], Iterable[tuple[_Type, int]]], most: int
) -> Iterator[tuple[str, int]]:
    """The columns with more levels than allowed, and their levels; works with the types of any engine.

    Args:
        columns: Names and types.
        children: Returns the types inside a type, each with the number of levels between them.
        most: The number of allowed levels.
    """
    for name, data_type in columns:
        deepest, open_types = 0, [(data_type, 0)]
        while open_types:
            current, levels = open_types.pop()
            deepest = max(deepest, levels)
            open_types += [(child, levels + between) for child, between in children(current)]
        if deepest > most:
            yield name, deepest


def check_value_levels(name: str, values: Iterable[Any]) -> None:
    """Refuse Python values that are nested too deeply, before their type is known: other code recurses into them too.

    Values that pass may still be too deep for `check_levels`, because a list of pairs may be a map.

    Args:
        name: The column.
        values: Its values.

    Raises:
        HoodieSchemaException: Dicts or lists are nested more than `MAX_LEVELS` deep.
    """
    level = _containers(list(values))
    for _ in range(MAX_LEVELS):
        items = [item for value in level for item in (value if isinstance(value, _SEQUENCES) else value.values())]
        # By identity: a list that holds itself is one value on each level.
        level = list({id(item): item for item in _containers(items)}.values())
        if not level:
            return
    raise _too_deep(name, f"its values have more than {MAX_LEVELS} levels")


def _containers(values: list[Any]) -> list[Any]:
    """The dicts and lists among values. The values are examined one by one only if their types include dict or
    list.
    """
    kinds = {kind for kind in set(map(type, values)) if issubclass(kind, (*_SEQUENCES, Mapping))}
    if not kinds:
        return []
    found = [value for value in values if type(value) in kinds]
    if any(issubclass(kind, np.ndarray) for kind in kinds):
        return [value for value in found if not _holds_plain_numbers(value)]
    return found


def _holds_plain_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype != np.object_ or value.ndim == 0)


def _too_deep(name: str, found: str) -> HoodieSchemaException:
    return HoodieSchemaException(
        f"column '{name}' is nested too deeply to be read again: {found} in Parquet, where a struct is one and a list "
        f"or map two, and at most {MAX_LEVELS} can be read; nothing was written. Store its inner part as a string of "
        "JSON, or in columns of its own"
    )


def _children(data_type: pa.DataType) -> list[tuple[pa.DataType, int]]:
    if isinstance(data_type, pa.BaseExtensionType):
        return [(data_type.storage_type, 0)]
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return [(data_type.value_type, 0)]
    if pa.types.is_struct(data_type):
        return [(field.type, 1) for field in data_type]
    if pa.types.is_map(data_type):
        return [(data_type.key_type, 2), (data_type.item_type, 2)]
    if pa.types.is_nested(data_type) and not pa.types.is_union(data_type):
        return [(data_type.value_type, 2)]
    return []
