"""Which default values a field's value can be equal to."""

from __future__ import annotations

import json

from hoodie.avro.field_defaults import default_values


def test_defaults_are_found_and_those_that_no_value_equals_are_told() -> None:
    fields = [
        {"name": "a", "type": ["null", "int"], "default": None},
        {"name": "b", "type": "int", "default": 3},
        {"name": "c", "type": ["double", "null"], "default": 0.5},
        {"name": "d", "type": "string", "default": "x"},
        {"name": "e", "type": ["string", "null"], "default": "x"},
        {"name": "f", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "g", "type": {"type": "int", "logicalType": "date"}, "default": 0},
        {"name": "h", "type": "boolean"},
    ]
    avro = json.dumps({"type": "record", "name": "r", "fields": fields})
    assert default_values(avro) == {"b": 3, "c": 0.5, "d": "x", "e": None, "f": None, "g": None}
