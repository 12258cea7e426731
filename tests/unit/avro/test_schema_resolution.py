"""Records that were written with one schema and are read as another one, beside fastavro."""

from __future__ import annotations

import copy
import datetime as dt
import io
import json
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.avro.columnar_decoder import DecodedRecords, decode_resolved
from hoodie.avro.schema_resolution import resolved_columns
from hoodie.exception import HoodieSchemaException
from tests.support.avro_values import encoded, number, python_rows, record_of, records

Json = dict[str, Any]
PROMOTED = {"int": ["int", "long", "double"], "long": ["long", "double"], "float": ["float", "double"]}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ADDED: list[tuple[Any, Any]] = [
    ("int", 7),
    ("long", -(1 << 40)),
    ("string", "é"),
    ("boolean", True),
    ("double", 2),
    (["null", "string"], None),
    (["string", "null"], "x"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    (record_of(("x", "int"), ("y", ["null", "string"]), name="Added"), {"x": 1, "y": None}),
    ({"type": "enum", "name": "AddedEnum", "symbols": ["A", "B"]}, "B"),
]


def decode(written: Json, wanted: Json, datums: list[bytes]) -> DecodedRecords:
    ends = np.cumsum([len(datum) for datum in datums], dtype=np.int64)
    starts = np.concatenate([[0], ends])[: len(datums)]
    found = decode_resolved(json.dumps(written), json.dumps(wanted), b"".join(datums), starts, ends)
    assert found.rows.schema.equals(resolved_columns(json.dumps(wanted)))
    found.rows.validate(full=True)
    return found


def good(written: Json, wanted: Json, values: list[Json]) -> list[Json]:
    return merged(python_rows(decode(written, wanted, encoded(written, values)).require_good("a test")))


def merged(value: Any) -> Any:
    """A value with the one member that it has, in place of a struct of members."""
    if isinstance(value, list):
        return [merged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value and all(name.startswith("member") for name in value):
        given = [item for item in value.values() if item is not None]
        assert len(given) == 1
        return merged(given[0])
    return {name: merged(item) for name, item in value.items()}


def by_fastavro(written: Json, wanted: Json, datums: list[bytes]) -> list[Any]:
    writer: Any = fastavro.parse_schema(copy.deepcopy(written))
    reader: Any = fastavro.parse_schema(copy.deepcopy(wanted))
    return [fastavro.schemaless_reader(io.BytesIO(datum), writer, reader) for datum in datums]


@st.composite
def evolved(draw: st.DrawFn, avro: Any, names: count[int], in_union: bool = False) -> Any:
    """A schema that values of another one can be read as."""
    if isinstance(avro, list):
        return [branch if branch == "null" else draw(evolved(branch, names, True)) for branch in avro]
    if isinstance(avro, dict) and avro["type"] == "record":
        return avro | {"fields": draw(evolved_fields(avro["fields"], names))}
    if isinstance(avro, dict) and avro["type"] == "array":
        return avro | {"items": draw(evolved(avro["items"], names))}
    if isinstance(avro, dict) and avro["type"] == "map":
        return avro | {"values": draw(evolved(avro["values"], names))}
    if isinstance(avro, dict):
        return avro
    found = draw(st.sampled_from(PROMOTED.get(avro, [avro])))
    if in_union:
        return found
    return draw(
        st.sampled_from([
            found,
            found,
            ["null", found],
            [found, {"type": "enum", "name": f"Other{next(names)}", "symbols": ["S"]}, "null"],
            [{"type": "array", "items": "int"}, found],
        ])
    )  # fmt: skip


@st.composite
def evolved_fields(draw: st.DrawFn, fields: list[Json], names: count[int]) -> list[Json]:
    found = []
    for field in fields:
        if draw(st.integers(0, 5)) == 0:
            continue
        changed = field | {"type": draw(evolved(field["type"], names))}
        if draw(st.integers(0, 3)) == 0:
            changed |= {"name": f"new_{field['name']}", "aliases": ["nobody", field["name"]]}
        found.append(changed)
    if not found or draw(st.booleans()):
        kind, default = draw(st.sampled_from(ADDED))
        kind = kind | {"name": f"Added{next(names)}"} if isinstance(kind, dict) and "name" in kind else kind
        found.append({"name": f"added{next(names)}", "type": kind, "default": default})
    return draw(st.permutations(found))


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), records(), st.sampled_from([1, 1, 9, 40]))
@pytest.mark.one_in(4)
def test_rows_are_those_of_fastavro(data: st.DataObject, record: tuple[Json, Any], times: int) -> None:
    written, values = record
    wanted = data.draw(evolved(written, count()))
    datums = encoded(written, data.draw(st.lists(values, max_size=6)) * times)
    rows = decode(written, wanted, datums).require_good("a test")
    assert merged(python_rows(rows)) == by_fastavro(written, wanted, datums)


def test_a_field_is_found_by_its_name_before_its_aliases() -> None:
    wanted = record_of(("b", "int"), ("c", "int"))
    wanted["fields"][0]["aliases"] = ["a"]
    wanted["fields"][1]["aliases"] = ["b", "a"]
    written = record_of(("a", "int"), ("b", "int"))
    assert good(written, wanted, [{"a": 1, "b": 2}]) == [{"b": 2, "c": 1}]


def test_a_field_may_take_the_name_that_another_one_had() -> None:
    wanted = record_of(("b", "string"))
    wanted["fields"][0]["aliases"] = ["a"]
    written = record_of(("b", "string"), ("a", "string"))
    assert good(written, wanted, [{"a": "1", "b": "2"}]) == [{"b": "2"}]


@pytest.mark.parametrize(
    ("avro_type", "default", "value"),
    [
        ({"type": "int", "logicalType": "date"}, 19_000, dt.date(2022, 1, 8)),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
        ({"type": "int", "logicalType": "time-millis"}, 1500, dt.time(0, 0, 1, 500_000)),
        ({"type": "long", "logicalType": "time-micros"}, 1500, dt.time(0, 0, 0, 1500)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "\u00ff\u0085", Decimal("-1.23")),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}, "\x00\x07", Decimal(7)),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ffa", b"\xffa"),
        ("bytes", "\u00ff", b"\xff"),
        (["int", "string"], "x", {"member0": None, "member1": "x"}),
        (["int", "string"], 5, {"member0": 5, "member1": None}),
        (["null", "int", "string"], None, None),
        (["null", "string"], "not the first type", "not the first type"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
        (record_of(("a", {"type": "map", "values": "long"}), name="R"), {"a": {"x": 1}}, {"a": [("x", 1)]}),
    ],
)
def test_a_field_that_is_not_written_has_its_default(avro_type: Any, default: Any, value: Any) -> None:
    wanted = record_of(("f", avro_type), ("k", "int"))
    wanted["fields"][0]["default"] = default
    written = record_of(("k", "int"))
    rows = decode(written, wanted, encoded(written, [{"k": k} for k in range(3)])).rows.to_pylist()
    assert rows == [{"f": value, "k": k} for k in range(3)]


@pytest.mark.parametrize(
    ("avro_type", "default"),
    [
        ("int", "5"), ("int", True), ("int", 1.5), ("int", 1 << 40), ("boolean", 0), ("string", 5), ("double", "x"),
        ("double", True), ("bytes", "€"), ("bytes", 5), ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "a"), ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, []), (["int", "string"], []), (record_of(("a", "int"), name="R"), {}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "\u00ff\u0000\u0000"),
    ],
)  # fmt: skip
def test_a_default_that_is_no_value_is_refused(avro_type: Any, default: Any) -> None:
    wanted = record_of(("f", avro_type))
    wanted["fields"][0]["default"] = default
    with pytest.raises(HoodieSchemaException, match="Field 'f' has a default that is no value"):
        decode(record_of(("k", "int")), wanted, [number(1)])
    # It does not matter where the field is written.
    assert decode(wanted, wanted, []).rows.num_rows == 0


def test_a_field_without_default_is_null_if_it_may_be_and_else_refused() -> None:
    written = record_of(("k", "int"))
    assert good(written, record_of(("k", "int"), ("f", ["int", "null"])), [{"k": 1}]) == [{"k": 1, "f": None}]
    with pytest.raises(HoodieSchemaException, match="Field 'f' is not written, and has neither a default nor null"):
        decode(written, record_of(("f", "int")), [number(1)])


def test_a_record_whose_value_has_no_place_is_bad_and_the_others_are_not() -> None:
    written = record_of(("a", ["null", "long", "string", "boolean"]))
    wanted = record_of(("a", ["string", "long"]))
    values = [{"a": 1}, {"a": None}, {"a": "x"}, {"a": True}, {"a": 2}]
    found = decode(written, wanted, encoded(written, values))
    assert found.bad.tolist() == [1, 3]
    assert found.rows.to_pylist() == [
        {"a": {"member0": None, "member1": 1}},
        {"a": {"member0": "x", "member1": None}},
        {"a": {"member0": None, "member1": 2}},
    ]
    assert "null, where the schema to read it as wants a value" in str(found.reason(1))
    assert "written as boolean, which none of string, long takes" in str(found.reason(3))


def test_all_records_may_be_without_a_place() -> None:
    written, wanted = record_of(("a", ["null", "long"]), ("b", "int")), record_of(("b", "int"), ("a", "long"))
    found = decode(written, wanted, encoded(written, [{"a": None, "b": 1}] * 3))
    assert found.bad.tolist() == [0, 1, 2]
    assert found.rows.num_rows == 0


def test_a_null_without_a_place_in_a_list_is_bad() -> None:
    written = record_of(("a", {"type": "array", "items": ["null", "long"]}))
    wanted = record_of(("a", {"type": "array", "items": "long"}))
    values = [{"a": [1, 2]}, {"a": [1, None]}, {"a": []}] * 30
    found = decode(written, wanted, encoded(written, values))
    assert found.bad.tolist() == list(range(1, 90, 3))
    assert found.rows["a"].to_pylist() == [[1, 2], []] * 30


def test_the_symbols_of_an_enum_are_those_of_the_wanted_one() -> None:
    written = record_of(("a", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}))
    values = [{"a": symbol} for symbol in "ABCAB"]
    fewer = record_of(("a", {"type": "enum", "name": "Other", "symbols": ["X", "C", "A"]}))
    found = decode(written, fewer, encoded(written, values))
    assert found.rows["a"].to_pylist() == ["A", "C", "A"]
    assert found.bad.tolist() == [1, 4]
    assert "lacks the symbol" in str(found.reason(1))
    fewer["fields"][0]["type"]["default"] = "X"
    assert good(written, fewer, values) == [{"a": symbol} for symbol in ["A", "X", "C", "A", "X"]]
    assert good(written, record_of(("a", "string")), values) == values


@pytest.mark.parametrize(
    ("written", "wanted", "value", "read"),
    [
        ("long", {"type": "long", "logicalType": "timestamp-micros"}, 5, EPOCH + dt.timedelta(microseconds=5)),
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, 5, EPOCH + dt.timedelta(milliseconds=5)),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", 5, 5),
        ({"type": "int", "logicalType": "date"}, "long", 5, 5),
        ("int", {"type": "int", "logicalType": "date"}, 5, dt.date(1970, 1, 6)),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", ["null", "string"], b"x", "x"),
        (["null", "int"], ["null", "long"], 5, 5),
        (["int", "long"], "double", 1 << 40, float(1 << 40)),
        ("int", ["null", "int", "long"], 5, 5),
        ("int", ["string", "double"], 5, {"member0": None, "member1": 5.0}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "long"]}, [1], [1]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"a": 1}, [("a", 1.0)]),
    ],
)  # fmt: skip
def test_a_type_is_read_as_another_one(written: Any, wanted: Any, value: Any, read: Any) -> None:
    schema = record_of(("f", written))
    found = decode(schema, record_of(("f", wanted)), encoded(schema, [{"f": value}] * 3)).require_good("a test")
    assert found["f"].to_pylist() == [read] * 3


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("long", "int"), ("double", "long"), ("string", "int"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}),
        ("int", {"type": "array", "items": "int"}), (record_of(("a", "int"), name="A"), "int"), ("null", "int"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}), ("boolean", "int"),
        (["null", "string"], "long"), ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
    ],
)  # fmt: skip
def test_a_type_that_cannot_be_read_as_the_wanted_one_is_refused(written: Any, wanted: Any) -> None:
    with pytest.raises(HoodieSchemaException, match="Field 'f'"):
        decode(record_of(("f", written)), record_of(("f", wanted)), [])


def test_a_union_of_records_is_read_by_their_names() -> None:
    one, other = record_of(("a", "int"), name="One"), record_of(("a", "int"), name="Other")
    written, wanted = record_of(("f", [one, other])), record_of(("f", ["null", other, one]))
    values = [{"f": ("One", {"a": 1})}, {"f": ("Other", {"a": 2})}]
    rows = decode(written, wanted, encoded(written, values)).require_good("a test").to_pylist()
    assert rows == [
        {"f": {"member0": None, "member1": {"a": 1}}},
        {"f": {"member0": {"a": 2}, "member1": None}},
    ]


def test_a_record_that_holds_itself_is_refused() -> None:
    schema = record_of(("next", ["null", "r"]))
    with pytest.raises(HoodieSchemaException, match="a record that holds itself"):
        decode(schema, schema, [])


@pytest.mark.parametrize("written_is_union", [True, False])
def test_hostile_records_do_not_change_the_others(written_is_union: bool) -> None:
    written = record_of(
        ("a", ["null", "string", "long"] if written_is_union else "string"), ("b", {"type": "array", "items": "string"})
    )
    wanted = record_of(("b", {"type": "array", "items": "string"}), ("a", ["null", "long", "string"]))
    datum = encoded(written, [{"a": "ab", "b": ["x"]}])[0]
    begin = number(1) if written_is_union else b""
    hostile = [
        datum[:-1], datum + b"\0", b"", begin + number(1 << 40), begin + number(2) + b"ab" + number(1 << 40),
        begin + number(2) + b"ab" + number(-1) + number(1 << 40), begin + number(-1), begin + number(1) + b"\xff\0",
        b"\xff" * 30,
    ]  # fmt: skip
    found = decode(written, wanted, [datum, *hostile, datum])
    assert found.bad.tolist() == list(range(1, len(hostile) + 1))
    assert found.rows.to_pylist() == [{"b": ["x"], "a": {"member0": None, "member1": "ab"}}] * 2


@pytest.mark.parametrize(
    ("avro_type", "value", "arrow_type"),
    [
        ({"type": "string", "logicalType": "varchar"}, "x", pa.string()),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 5, pa.int64()),
        ({"type": "int", "logicalType": ["odd"]}, 5, pa.int32()),
        ({"type": "bytes", "logicalType": "big-decimal"}, b"x", pa.binary()),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, b"x" * 12, pa.binary(12)),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, b"x" * 16, pa.binary(16)),
    ],
)
def test_a_logical_type_that_is_not_known_does_not_matter(avro_type: Any, value: Any, arrow_type: pa.DataType) -> None:
    schema = record_of(("f", avro_type), ("n", ["null", avro_type.get("name", avro_type)]))
    plain = record_of(("f", {key: avro_type[key] for key in avro_type if key != "logicalType"}), ("n", ["null", "int"]))
    found = decode(schema, schema, encoded(plain, [{"f": value, "n": None}])).require_good("a test")
    assert found.schema.field("f").type == arrow_type
    assert found.to_pylist() == [{"f": value, "n": None}]


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="there twice"):
        decode(record_of(("a", "int")), record_of(("a", "int"), ("a", "int")), [])


def test_records_without_a_common_field_have_their_defaults_alone() -> None:
    wanted = record_of(("b", "int"))
    wanted["fields"][0]["default"] = 3
    written = record_of(("a", "long"))
    assert good(written, wanted, [{"a": 1}, {"a": 2}]) == [{"b": 3}, {"b": 3}]
    assert pa.types.is_int32(resolved_columns(json.dumps(wanted)).field("b").type)
