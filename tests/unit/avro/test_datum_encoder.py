from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from avro.io import BinaryDecoder, BinaryEncoder, DatumReader, DatumWriter
from avro.schema import parse
from hypothesis import given
from hypothesis import strategies as st

from hoodie.avro.datum_encoder import datum_encoder
from hoodie.avro.timeline_metadata import encode_datums, schema_of
from hoodie.exception import HoodieException

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "double"}]}
SCHEMA = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "number", "type": ["int", "null"], "default": 1},
        {"name": "text", "type": ["null", {"type": "string", "avro.java.string": "String"}]},
        {"name": "points", "type": {"type": "array", "items": POINT}},
        {"name": "named", "type": {"type": "map", "values": ["null", "Point"]}},
    ],
}
POINTS = st.fixed_dictionaries(
    {"x": st.integers(-(2**63), 2**63 - 1), "y": st.floats(allow_nan=False, allow_infinity=True)}
)
VALUES = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "number": st.none() | st.integers(-(2**31), 2**31 - 1),
        "text": st.none() | st.text(),
        "points": st.lists(POINTS, max_size=4),
        "named": st.dictionaries(st.text(max_size=5), st.none() | POINTS, max_size=4),
    }
)


@given(VALUES)
def test_values_are_encoded_as_the_library_does(value: dict[str, Any]) -> None:
    encoded = bytearray()
    datum_encoder(SCHEMA)(encoded, value)
    schema = parse(json.dumps(SCHEMA))
    expected = io.BytesIO()
    DatumWriter(schema).write(value, BinaryEncoder(expected))
    assert DatumReader(schema).read(BinaryDecoder(io.BytesIO(bytes(encoded)))) == value
    assert bytes(encoded) == expected.getvalue()


def test_every_record_of_timelines_has_an_encoder() -> None:
    for name in ("HoodieArchivedMetaEntry", "HoodieCleanMetadata", "HoodieRestoreMetadata", "HoodieClusteringPlan"):
        assert callable(datum_encoder(schema_of(name)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", "1"), ("version", 1 << 63), ("version", True), ("commitTime", 7), ("hoodieCleanMetadata", {})],
)
def test_a_value_that_does_not_fit_is_an_error(field: str, value: Any) -> None:
    entry: dict[str, Any] = dict.fromkeys(f["name"] for f in schema_of("HoodieArchivedMetaEntry")["fields"])
    assert encode_datums("HoodieArchivedMetaEntry", [entry])
    with pytest.raises(HoodieException, match="Cannot write a HoodieArchivedMetaEntry"):
        encode_datums("HoodieArchivedMetaEntry", [{**entry, field: value}])


@pytest.mark.parametrize("schema", ["bytes", ["int", "string"], {"type": "fixed", "name": "F", "size": 2}])
def test_types_that_timelines_do_not_have_are_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="not"):
        datum_encoder(schema)


def test_a_double_is_not_rounded() -> None:
    out = bytearray()
    datum_encoder("double")(out, math.pi)
    assert bytes(out) == bytes.fromhex("182d4454fb210940")
