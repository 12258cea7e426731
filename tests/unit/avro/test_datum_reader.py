"""Avro data that anybody may have written is read as the reference library reads it, or refused by an error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from avro.io import BinaryDecoder, BinaryEncoder, DatumReader, DatumWriter
from avro.schema import parse
from hypothesis import given
from hypothesis import strategies as st

from hoodie.avro.datum_reader import read_datums, read_fields
from hoodie.avro.timeline_metadata import HoodieRollbackPlan, decode, decode_datums, decode_heads, encode, schema_of
from hoodie.exception import HoodieCorruptedDataException

EMPTY = {"type": "record", "name": "E", "fields": []}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "some", "type": ["null", "boolean"]}]}
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
ENTRIES = {"type": "array", "items": ["null", COLOURS]}
TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    ("float", st.just(1.5)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=200)),
    ("bytes", st.binary(max_size=200)),
    ({"type": "string", "avro.java.string": "String"}, st.text(max_size=3)),
    ({"type": "fixed", "name": "Three", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, st.sampled_from(["RED", "BLUE"])),
    ({"type": "array", "items": ["null", "string", "long"]}, st.lists(st.none() | st.text(max_size=3), max_size=5)),
    ({"type": "map", "values": "string"}, st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3)),
]
NAMES = ["first", "last", "none"]


def record_of(types: list[Any]) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    first = {"name": "first", "type": ["null", "string"]}
    last = {"name": "last", "type": {"type": "string", "avro.java.string": "String"}}
    behind = {"name": "behind", "type": "long"}
    return {"type": "record", "name": "Entry", "fields": [first, *fields, last, behind]}


def encode_with_avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    DatumWriter(parse(json.dumps(schema))).write(value, BinaryEncoder(out))
    return out.getvalue()


@given(st.data(), st.lists(st.sampled_from(range(len(TYPES))), unique=True), st.none() | st.text(), st.text())
def test_fields_are_those_that_the_library_reads(
    data: st.DataObject, chosen: list[int], first: str | None, last: str
) -> None:
    schema = record_of([TYPES[number][0] for number in chosen])
    value = {"first": first, "last": last, "behind": 7}
    value |= {f"f{place}": data.draw(TYPES[number][1]) for place, number in enumerate(chosen)}
    datum = encode_with_avro(schema, value)
    read = DatumReader(parse(json.dumps(schema))).read(BinaryDecoder(io.BytesIO(datum)))
    assert isinstance(read, dict)
    text = json.dumps(schema)
    assert read_datums(text, [datum]) == [read]
    assert read_fields(text, [datum], NAMES) == [{"first": read["first"], "last": read["last"], "none": None}]


def test_blocks_that_say_their_bytes_are_stepped_over() -> None:
    schema = record_of([{"type": "array", "items": "long"}])
    datum = b"\x00" + b"\x05\x06\x02\x04\x06" + b"\x02\x08" + b"\x00" + b"\x02z" + b"\x00"
    assert read_fields(json.dumps(schema), [datum], NAMES)[0]["last"] == "z"
    assert read_datums(json.dumps(schema), [datum])[0]["f0"] == [1, 2, 3, 4]


@given(st.binary(max_size=300))
def test_what_is_no_record_is_an_error_or_texts(data: bytes) -> None:
    schema = json.dumps(schema_of("HoodieArchivedMetaEntry"))
    try:
        [found] = decode_heads(schema, [data], ["commitTime", "actionType", "actionState"])
    except HoodieCorruptedDataException:
        with pytest.raises(HoodieCorruptedDataException):
            decode_datums(schema, [data])
        return
    assert all(value is None or isinstance(value, str) for value in found.values())


@pytest.mark.parametrize("cut", [2, 3, 10, 15])
def test_a_record_that_is_cut_short_is_named(cut: int) -> None:
    schema = record_of(["bytes"])
    datum = encode_with_avro(schema, {"first": "a", "f0": b"12345678", "last": "b", "behind": 1})
    with pytest.raises(HoodieCorruptedDataException, match="Cannot read Avro records of the file"):
        decode_heads(json.dumps(schema), [datum[:-cut]], ["last"], "the file")


@pytest.mark.parametrize("decode", [decode_datums, lambda schema, datums: decode_heads(schema, datums, ["last"])])
@pytest.mark.parametrize(
    ("schema", "datum", "message"),
    [
        (record_of([{"type": "array", "items": "null"}]), b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "no bytes"),
        (record_of(["string"]), b"\x00" + b"\x01", "EOFError"),
        (record_of([["null", "long"]]), b"\x00" + b"\x06", "index 3"),
        (record_of([["null", "long"]]), b"\x00" + b"\x01\x02" + b"\x02z" + b"\x02", "index -"),
        (record_of([ENTRIES, "Colour"]), b"\x00" + b"\x02\x03" + b"\x00" + b"\x00" + b"\x02z" + b"\x02", "index -"),
        (record_of([PAIR, ["null", "Pair"]]), b"\x00" + b"\x00" + b"\x02\x03" + b"\x02z" + b"\x02", "index -"),
        ([record_of([])], b"\x01" + b"\x00" + b"\x02z" + b"\x02", "no record"),
        (record_of([]), b"\x00" + b"\xff" * 20, "Cannot read"),
        (record_of([{"type": "array", "items": {"type": "fixed", "name": "F", "size": -1}}]), b"", "size"),
        (record_of([{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}]), b"", "no bytes"),
        (record_of([{"type": "array", "items": EMPTY}, {"type": "array", "items": "E"}]), b"", "no bytes"),
        (record_of([{"type": "map", "values": {"type": "array", "items": EMPTY}}]), b"", "no bytes"),
        (record_of([NODE]), b"\x00" + b"\x02" * 1_000_000 + b"\x00", "Node holds itself"),
        (record_of([{"type": "array", "items": NODE}]), b"\x00" + b"\x02" * 1_000_000, "Node holds itself"),
    ],
)  # fmt: skip
def test_hostile_bytes_and_schemas_are_refused(
    decode: Callable[[str, list[bytes]], Any], schema: dict[str, Any], datum: bytes, message: str
) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=message):
        decode(json.dumps(schema), [datum])


@pytest.mark.parametrize("kind", ["boolean", "float", "double", {"type": "fixed", "name": "F", "size": 9}])
def test_a_count_of_elements_without_a_length_is_not_stepped_over(kind: Any) -> None:
    schema = json.dumps(record_of([{"type": "array", "items": kind}]))
    with pytest.raises(HoodieCorruptedDataException, match="no bytes"):
        decode_heads(schema, [b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"], ["last"])
    with pytest.raises(HoodieCorruptedDataException, match="EOFError|IndexError"):
        decode_datums(schema, [b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"])


def test_a_negative_symbol_number_is_refused() -> None:
    with pytest.raises(HoodieCorruptedDataException, match="index -"):
        decode_datums(json.dumps(record_of([COLOURS])), [b"\x00" + b"\x01" + b"\x02z" + b"\x02"])


def test_a_negative_branch_number_in_a_timeline_file_is_refused() -> None:
    plan = HoodieRollbackPlan(instant_to_rollback=None, version=None)
    data = encode(plan)
    null_branches = b"\x00\x02\x00\x02"
    assert data.count(null_branches) == 1
    with pytest.raises(HoodieCorruptedDataException, match="index -"):
        decode(data.replace(null_branches, b"\x03\x02\x00\x02"), HoodieRollbackPlan)
    assert decode(data, HoodieRollbackPlan) == plan


def test_a_timeline_file_of_several_blocks_holds_several_records() -> None:
    data = encode(HoodieRollbackPlan(instant_to_rollback=None))
    header, sync = data.index(data[-16:]) + 16, data[-16:]
    with pytest.raises(HoodieCorruptedDataException, match="holds 2 records"):
        decode(data + data[header:], HoodieRollbackPlan)
    with pytest.raises(HoodieCorruptedDataException, match="holds no records"):
        decode(data[:header] + b"\x00\x00" + sync, HoodieRollbackPlan)
    with pytest.raises(HoodieCorruptedDataException, match="holds no records"):
        decode(data[:header], HoodieRollbackPlan)
    assert decode(data[:header] + b"\x00\x00" + sync + data[header:], HoodieRollbackPlan).version == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "Entry", "fields": [{"name": "last", "type": "long"}]},
        {"type": "map", "values": "long"},
    ],
)
def test_fields_of_another_type_and_no_records_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(HoodieCorruptedDataException):
        decode_heads(json.dumps(schema), [b"\x00"], ["last"])


@pytest.mark.parametrize("wraps", [100, 100_000])
def test_a_schema_that_is_nested_too_deep_is_refused(wraps: int) -> None:
    kind = '{"type": "array", "items": ' * wraps + '"long"' + "}" * wraps
    schema = json.dumps(record_of(["kind"])).replace('"kind"', kind)
    with pytest.raises(HoodieCorruptedDataException, match="nested more than 64|[Rr]ecursion"):
        decode_heads(schema, [b"\x00"], ["last"])


def test_two_types_of_one_name_are_not_mixed_up() -> None:
    twice = [{"type": "fixed", "name": f"{place}.F", "size": size} for place, size in (("a", 1), ("b", 2))]
    schema = record_of([*twice, "a.F", "b.F"])
    datum = encode_with_avro(
        schema, {"first": "x", "f0": b"1", "f1": b"22", "f2": b"3", "f3": b"44", "last": "z", "behind": 1}
    )
    assert read_fields(json.dumps(schema), [datum], ["last"]) == [{"last": "z"}]
    assert read_datums(json.dumps(schema), [datum])[0]["f3"] == b"44"


def test_records_within_records_do_not_hold_themselves() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "long"}]}
    schema = record_of([inner, "Inner", ["null", "Inner"], {"type": "array", "items": "Inner"}])
    value = {"first": "x", "f0": {"a": 1}, "f1": {"a": 2}, "f2": {"a": 3}, "f3": [{"a": 4}], "last": "z", "behind": 1}
    assert read_datums(json.dumps(schema), [encode_with_avro(schema, value)]) == [value]
