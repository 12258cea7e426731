"""Default values of the fields of an Avro record, for payload classes that compare with them."""

from __future__ import annotations

import json
from typing import Any

_COMPARABLE = ("int", "long", "float", "double", "boolean")


def default_values(avro_schema: str) -> dict[str, object]:
    """The top-level fields of a record with a default other than null.

    Hudi compares a field's value with its default in Java. Numbers, booleans, and strings that are not in a union can
    be equal. Values of other types never are, and strings in a union neither, because their class differs.

    Args:
        avro_schema: The JSON of a record.

    Returns:
        Name -> default value; None for a default that equals no value.
    """
    found: dict[str, object] = {}
    for field in json.loads(avro_schema)["fields"]:
        default = field.get("default")
        if default is not None:
            found[field["name"]] = default if _can_be_equal(field["type"]) else None
    return found


def _can_be_equal(avro_type: Any) -> bool:
    if isinstance(avro_type, list):
        return _name(avro_type[0]) in _COMPARABLE
    return _name(avro_type) in (*_COMPARABLE, "string")


def _name(avro_type: Any) -> Any:
    if isinstance(avro_type, dict):
        return None if "logicalType" in avro_type else avro_type.get("type")
    return avro_type
