"""Unions of several types, as columns, beside what fastavro says."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.avro.columnar_decoder import DecodedRecords, decode_records
from hoodie.avro.columnar_encoder import encode_records
from hoodie.avro.schema_reader import VARIANT
from hoodie.exception import HoodieSchemaException

BRANCHES: list[Any] = [
    "null",
    {"type": "record", "name": "B", "fields": [{"name": "value", "type": "boolean"}]},
    {"type": "record", "name": "I", "fields": [{"name": "value", "type": {"type": "int", "logicalType": "date"}}]},
    "long",
    {"type": "record", "name": "F", "fields": [{"name": "value", "type": "float"}]},
    "double",
    {"type": "record", "name": "S", "fields": [{"name": "value", "type": "string"}]},
    "bytes",
    {"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]},
]
FIELDS = [
    {"name": "low", "type": BRANCHES},
    {"name": "high", "type": ["long", "null", "I", "S"]},
    {"name": "after", "type": "int"},
]
SCHEMA = json.dumps({"type": "record", "name": "r", "fields": FIELDS})
PARSED = fastavro.parse_schema(json.loads(SCHEMA))

LONGS, INTS = st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
LOWS = st.one_of(
    st.none(),
    st.tuples(st.just("B"), st.booleans()),
    st.tuples(st.just("I"), INTS),
    st.tuples(st.just("long"), LONGS),
    st.tuples(st.just("F"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("S"), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    st.tuples(st.just("bytes"), st.binary(max_size=5)),
    st.tuples(st.just("P"), st.tuples(INTS, st.just("xy"))),
)
HIGHS = st.one_of(st.none(), st.tuples(st.just("long"), LONGS), st.tuples(st.just("I"), INTS))


def datum(value: Any) -> Any:
    """A value as fastavro takes it."""
    if value is None or value[0] in ("long", "double", "bytes"):
        return value
    name, inner = value
    if name == "P":
        return name, {"a": inner[0], "b": inner[1]}
    return name, {"value": inner}


def encoded(rows: list[tuple[Any, Any]]) -> list[bytes]:
    found = []
    for low, high in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, PARSED, {"low": datum(low), "high": datum(high), "after": 7})
        found.append(out.getvalue())
    return found


def decoded(values: list[bytes]) -> DecodedRecords:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.append(0, ends[:-1])[: len(values)]
    return decode_records(SCHEMA, b"".join(values), starts, ends, has_variants=True)


def variant(value: Any, names: list[str]) -> dict[str, Any] | None:
    """What a value becomes."""
    if value is None:
        return None
    name, inner = value
    found: dict[str, Any] = {"branch": names.index(name), "integer": None, "floating": None, "binary": None}
    if name in ("F", "double"):
        found["floating"] = inner
    elif name == "P":
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(BRANCHES[8]), {"a": inner[0], "b": inner[1]})
        found["binary"] = out.getvalue()
    elif name in ("S", "bytes"):
        found["binary"] = inner.encode() if isinstance(inner, str) else inner
    else:
        found["integer"] = int(inner)
    return found


@given(st.lists(st.tuples(LOWS, HIGHS), max_size=30))
def test_values_of_all_branches_are_read_and_written_again(rows: list[tuple[Any, Any]]) -> None:
    values = encoded(rows)
    found = decoded(values).require_good("a test")
    found.validate(full=True)
    assert found.schema.types == [VARIANT, VARIANT, pa.int32()]
    low_names = ["null", "B", "I", "long", "F", "double", "S", "bytes", "P"]
    assert found.column("low").to_pylist() == [variant(low, low_names) for low, _ in rows]
    assert found.column("high").to_pylist() == [variant(high, ["long", "null", "I", "S"]) for _, high in rows]
    assert found.column("after").to_pylist() == [7] * len(rows)
    assert encode_records(found, SCHEMA, has_variants=True).data == b"".join(values)


def test_unions_in_lists_and_many_records_are_read() -> None:
    schema = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "l", "type": {"type": "array", "items": BRANCHES}}]}
    )
    parsed = fastavro.parse_schema(json.loads(schema))
    values = []
    for number in range(20_000):
        out = io.BytesIO()
        items = [("long", number), None, ("S", {"value": str(number)})][: number % 4]
        fastavro.schemaless_writer(out, parsed, {"l": items})
        values.append(out.getvalue())
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    found = decode_records(schema, b"".join(values), np.append(0, ends[:-1]), ends, has_variants=True)
    lists = found.require_good("a test").column("l")
    assert lists[19_999].as_py() == [
        {"branch": 3, "integer": 19_999, "floating": None, "binary": None}, None,
        {"branch": 6, "integer": None, "floating": None, "binary": b"19999"},
    ]  # fmt: skip
    assert encode_records(found.rows, schema, has_variants=True).data == b"".join(values)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x14", "there is no branch of that number"),
        (b"\x06", "the record is cut short"),
        (b"\x0c\x10ab", "a length is negative, or greater than what is left of the record"),
        (b"\x10\x02\x7e", "a length is negative, or greater"),
        (b"\x00\x02\x0e\x00", "bytes follow the last field"),
    ],
)
def test_damaged_values_are_flagged_and_others_read(value: bytes, reason: str) -> None:
    good = encoded([(("S", "x"), None)])[0]
    found = decoded([good, value, good])
    assert found.bad.tolist() == [1]
    assert reason in str(found.reason(1))
    assert found.rows.column("low").to_pylist() == [variant(("S", "x"), [""] * 6 + ["S"])] * 2


@pytest.mark.parametrize(
    ("low", "message"),
    [
        ({"branch": 9, "integer": 1}, "'low' of row 0 .* there is no such branch"),
        ({"branch": 3, "floating": 1.0}, "'low' of row 0 .* its column integer is null"),
        ({"branch": 2, "integer": 1 << 40}, "'low' cannot be stored: .* not in range"),
    ],
)
def test_values_that_do_not_fit_their_branch_are_refused(low: dict[str, Any], message: str) -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array([low], VARIANT), pa.nulls(1, VARIANT), pa.array([1], pa.int32())], names=["low", "high", "after"]
    )
    with pytest.raises(HoodieSchemaException, match=message):
        encode_records(rows, SCHEMA, has_variants=True)


def test_unions_of_several_types_are_refused_unless_asked_for() -> None:
    with pytest.raises(HoodieSchemaException, match="union of one type and null"):
        decode_records(SCHEMA, b"", np.empty(0, np.int64), np.empty(0, np.int64))
