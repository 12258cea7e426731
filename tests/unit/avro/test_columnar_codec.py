"""Many Avro records become the rows that fastavro reads, and rows become the bytes that it writes."""

from __future__ import annotations

import decimal
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.avro.columnar_decoder import DecodedRecords, decode_records
from hoodie.avro.columnar_encoder import encode_records
from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.exception import HoodieSchemaException
from tests.support.avro_values import LEAVES, NAMED, decoded, encoded, number, python_rows, record_of, records

TEXTS = pa.array(["a", None, "", "hello", "é" * 100, "x"])
Json = dict[str, Any]


def decode(schema: Json, datums: list[bytes], wanted: pa.Schema | None = None) -> DecodedRecords:
    ends = np.cumsum([len(datum) for datum in datums], dtype=np.int64)
    starts = np.concatenate([[0], ends])[: len(datums)]
    return decode_records(json.dumps(schema), b"".join(datums), starts, ends, wanted)


def decode_good(schema: Json, datums: list[bytes], wanted: pa.Schema | None = None) -> pa.RecordBatch:
    rows = decode(schema, datums, wanted).require_good("a test")
    rows.validate(full=True)
    return rows


def encode(schema: Json, rows: pa.RecordBatch) -> list[bytes]:
    records = encode_records(rows, json.dumps(schema))
    ends = np.cumsum(records.lengths)
    assert (ends[-1] if len(ends) else 0) == len(records.data)
    return [records.data[end - length : end] for end, length in zip(ends, records.lengths, strict=True)]


def one_field(avro_type: Any) -> Json:
    return record_of(("f", avro_type))


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), records(), st.sampled_from([1, 1, 9, 40]))
@pytest.mark.one_in(4)
def test_rows_are_those_of_fastavro_both_ways(
    data: st.DataObject, record: tuple[Json, st.SearchStrategy[Any]], times: int
) -> None:
    schema, values = record
    datums = encoded(schema, data.draw(st.lists(values, max_size=6)) * times)
    rows = decode_good(schema, datums)
    assert python_rows(rows) == decoded(schema, datums)
    assert encode(schema, rows) == datums


@pytest.mark.parametrize(
    "avro_type", [kind for kind, _ in LEAVES] + [kind | {"name": "N"} for kind, _ in NAMED], ids=str
)
@settings(max_examples=20)
@given(data=st.data())
def test_every_type_is_read_and_written_as_fastavro_does(data: st.DataObject, avro_type: Any) -> None:
    unnamed = avro_type if isinstance(avro_type, str) else {key: avro_type[key] for key in avro_type if key != "name"}
    values = next(values for kind, values in [*LEAVES, *NAMED] if kind == unnamed)
    schema = record_of(("f", avro_type), ("n", ["null", avro_type if isinstance(avro_type, str) else unnamed]))
    if "name" in avro_type:
        schema = record_of(("f", avro_type), ("n", ["null", "N"]))
    found = data.draw(st.lists(st.fixed_dictionaries({"f": values, "n": st.none() | values}), max_size=40))
    datums = encoded(schema, found)
    rows = decode_good(schema, datums)
    assert rows.schema.equals(to_arrow(json.dumps(schema)))
    assert python_rows(rows) == decoded(schema, datums) == found
    assert encode(schema, rows) == datums


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_numbers_take_the_bytes_that_they_need(values: list[int]) -> None:
    values += [sign * (1 << bit) - less for bit in range(63) for sign in (1, -1) for less in (0, 1)] + [-(1 << 63)]
    datums = encoded(one_field("long"), [{"f": value} for value in values])
    assert decode_good(one_field("long"), datums)["f"].to_pylist() == values
    assert encode(one_field("long"), batch(f=pa.array(values))) == datums


def test_nan_and_zeros_keep_their_bits() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000001, 1 << 63, 0, 0x7FF0000000000000], np.uint64)
    datums = [value.tobytes() for value in bits]
    rows = decode_good(one_field("double"), datums)
    assert rows["f"].to_numpy().view(np.uint64).tolist() == bits.tolist()
    assert encode(one_field("double"), rows) == datums


@pytest.mark.parametrize(("unscaled", "stored"), [(-128, b"\x80"), (128, b"\0\x80"), (0, b"\0"), (-1, b"\xff")])
def test_decimals_in_bytes_are_as_short_as_java_writes_them(unscaled: int, stored: bytes) -> None:
    schema = one_field({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1})
    value = decimal.Decimal(unscaled).scaleb(-1)
    rows = batch(f=pa.array([value], pa.decimal128(5, 1)))
    assert encode(schema, rows) == [number(len(stored)) + stored]
    assert decode_good(schema, [number(len(stored)) + stored])["f"].to_pylist() == [value]
    padded = stored.rjust(30, b"\xff" if unscaled < 0 else b"\0")
    assert decode_good(schema, [number(30) + padded])["f"].to_pylist() == [value]


@settings(max_examples=40)
@given(st.lists(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=4), min_size=1, max_size=80), st.data())
def test_items_in_several_blocks_are_one_list(arrays: list[list[list[str]]], data: st.DataObject) -> None:
    """The outer lists are rows, the middle ones blocks."""
    schema, as_map = one_field({"type": "array", "items": "string"}), one_field({"type": "map", "values": "string"})
    with_size = data.draw(st.lists(st.booleans(), min_size=len(arrays), max_size=len(arrays)))

    def block(items: list[str], keys: bool, sized: bool) -> bytes:
        texts = [text.encode() for item in items for text in ([item, item] if keys else [item])]
        body = b"".join(number(len(text)) + text for text in texts)
        return (number(-len(items)) + number(len(body)) if sized else number(len(items))) + body

    for kind, keys in ((schema, False), (as_map, True)):
        datums = [
            b"".join(block(items, keys, sized) for items in blocks if items) + b"\0"
            for blocks, sized in zip(arrays, with_size, strict=True)
        ]
        found = decode_good(kind, datums)["f"].to_pylist()
        expected = [[item for items in blocks for item in items] for blocks in arrays]
        assert found == ([[(item, item) for item in items] for items in expected] if keys else expected)


def test_long_lists_beside_short_ones() -> None:
    schema = record_of(
        ("doubles", {"type": "array", "items": "double"}),
        ("longs", {"type": "array", "items": ["null", "long"]}),
        ("last", "string"),
    )
    values = [
        {"doubles": [float(i)] * (i % 7), "longs": [i, None] * (3000 if i in (3, 50) else i % 3), "last": f"row {i}"}
        for i in range(100)
    ]
    datums = encoded(schema, values)
    rows = decode_good(schema, datums)
    assert rows.to_pylist() == values
    assert encode(schema, rows) == datums


def test_more_rows_than_a_chunk_and_rows_larger_than_a_chunk() -> None:
    schema = record_of(("k", "string"), ("v", ["null", "bytes"]))
    values = [{"k": str(i), "v": bytes(i % 5) if i % 3 else None} for i in range(20_000)]
    values[9000]["v"] = b"x" * (5 << 20)
    values[9001]["v"] = b"y" * (5 << 20)
    datums = encoded(schema, values)
    rows = decode_good(schema, datums)
    assert rows.to_pylist() == values
    assert encode(schema, rows) == datums


def test_no_rows() -> None:
    schema = record_of(
        *((f"f{place}", kind) for place, (kind, _) in enumerate(LEAVES)),
        *((f"n{place}", kind | {"name": f"N{place}"}) for place, (kind, _) in enumerate(NAMED)),
        ("a", {"type": "array", "items": ["null", "string"]}),
        ("m", {"type": "map", "values": "long"}),
        ("r", ["null", one_field("int")]),
    )
    rows = decode_good(schema, [])
    assert rows.num_rows == 0
    assert rows.schema.equals(to_arrow(json.dumps(schema)))
    assert encode(schema, rows) == []


def test_meta_columns_are_columns_like_others() -> None:
    avro = to_avro(pa.schema([pa.field("a", pa.int64())]), "r", "n", with_meta_columns=True)
    rows = pa.RecordBatch.from_pylist(
        [dict.fromkeys(to_arrow(avro, True).names, None) | {"a": 1}], to_arrow(avro, True)
    )
    assert encode(json.loads(avro), rows) == [b"\0\0\0\0\0\2\2"]
    assert decode_good(json.loads(avro), [b"\0\0\0\0\0\2\2"]).equals(rows)


def test_named_types_are_found_by_their_namespaces() -> None:
    inner = {"type": "record", "name": "In", "namespace": "b", "fields": [{"name": "x", "type": "Same"}]}
    schema = record_of(
        ("s", {"type": "fixed", "name": "Same", "size": 2}),
        ("t", {"type": "enum", "name": "b.Same", "symbols": ["A", "B"]}),
        ("i", inner),
        ("u", ["null", "Same"]),
        ("v", "b.Same"),
    )
    rows = [{"s": b"ab", "t": "B", "i": {"x": "A"}, "u": b"cd", "v": "B"}]
    datums = encoded(schema, rows)
    assert decode_good(schema, datums).to_pylist() == rows
    assert encode(schema, decode_good(schema, datums)) == datums


def test_a_union_of_numbers_is_read_as_the_wider_one() -> None:
    schema = record_of(("i", ["int", "null", "long"]), ("d", ["float", "double"]))
    values = [{"i": None, "d": 0.1}, {"i": 5, "d": 0.5}, {"i": 1 << 40, "d": 2.0}]
    written = [b"\2" + b"\2" + np.float64(0.1).tobytes(), b"\0\x0a" + b"\0" + np.float32(0.5).tobytes()]
    datums = [*written, b"\4" + number(1 << 40) + b"\2" + np.float64(2).tobytes()]
    assert decode_good(schema, datums).to_pylist() == values
    assert decode_good(schema, encode(schema, decode_good(schema, datums))).to_pylist() == values


@pytest.mark.parametrize(
    ("union", "datum", "value"),
    [
        (["string"], b"\0\2a", "a"),
        (["null", {"type": "null"}, "string"], b"\4\2a", "a"),
        ([{"type": "null"}, "string"], b"\0", None),
    ],
    ids=str,
)
def test_unions_of_one_branch_and_of_several_nulls(union: Any, datum: bytes, value: str | None) -> None:
    rows = decode_good(one_field(union), [datum] * 3)
    assert rows["f"].to_pylist() == [value] * 3
    assert encode(one_field(union), rows) == [datum] * 3


def test_the_type_null_takes_no_bytes() -> None:
    schema = record_of(("a", "null"), ("b", "int"))
    rows = decode_good(schema, [b"\2", b"\4"])
    assert rows.to_pylist() == [{"a": None, "b": 1}, {"a": None, "b": 2}]
    assert encode(schema, rows) == [b"\2", b"\4"]
    with pytest.raises(HoodieSchemaException, match="'a' of row 1 .* only nulls"):
        encode(schema, batch(a=pa.array([None, 1]), b=pa.array([1, 2], pa.int32())))


@pytest.mark.parametrize(
    ("avro_type", "reason"),
    [
        (["null", "string", "long"], "union of one type and null"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "take no bytes"),
        ({"type": "array", "items": "null"}, "one type"),
        ({"type": "enum", "name": "E", "symbols": []}, "no list of symbols"),
        ({"type": "fixed", "name": "F", "size": -1, "logicalType": "decimal", "precision": 3}, "size"),
        ("r", "holds itself"),
    ],
)
def test_other_types_are_refused_by_field(avro_type: Any, reason: str) -> None:
    with pytest.raises(HoodieSchemaException, match="'f.*" + reason):
        decode(one_field(avro_type), [])


WIDENED = [
    ("int", pa.int64(), [1, -(1 << 31)], [1, -(1 << 31)]),
    ("int", pa.float32(), [16777217, 1], [16777216.0, 1.0]),
    ("int", pa.float64(), [16777217, 1], [16777217.0, 1.0]),
    ("long", pa.float32(), [16777217, 1], [16777216.0, 1.0]),
    ("long", pa.float64(), [(1 << 53) + 1, 1], [float(1 << 53), 1.0]),
    ("float", pa.float64(), [0.5, 2.0], [0.5, 2.0]),
    ("string", pa.binary(), ["é", ""], ["é".encode(), b""]),
    ("bytes", pa.string(), ["é".encode(), b""], ["é", ""]),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
        pa.decimal128(8, 1),
        [decimal.Decimal("1.5")],
        [decimal.Decimal("1.5")],
    ),
]


@pytest.mark.parametrize(("avro_type", "wanted", "values", "expected"), WIDENED, ids=str)
def test_a_wider_type_is_read(avro_type: Any, wanted: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    datums = encoded(one_field(avro_type), [{"f": value} for value in values])
    found = decode_good(one_field(avro_type), datums, pa.schema([pa.field("f", wanted)]))
    assert found.schema.field("f").type == wanted
    assert found["f"].to_pylist() == expected


@pytest.mark.parametrize(
    ("avro_type", "wanted"),
    [
        ("long", pa.int32()),
        ("double", pa.float32()),
        ("int", pa.string()),
        ("string", pa.int64()),
        ({"type": "int", "logicalType": "date"}, pa.int64()),
        ({"type": "array", "items": "long"}, pa.list_(pa.int32())),
        ({"type": "array", "items": "long"}, pa.int64()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, pa.decimal128(8, 2)),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(3)),
    ],
    ids=str,
)
def test_a_type_that_is_not_wider_is_refused(avro_type: Any, wanted: pa.DataType) -> None:
    with pytest.raises(HoodieSchemaException, match="'f.*cannot be read as"):
        decode(one_field(["null", avro_type]), [], pa.schema([pa.field("f", wanted)]))


def test_wanted_columns_come_in_their_order_and_missing_ones_are_null() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}
    schema = record_of(
        ("a", "string"),
        ("s", ["null", inner]),
        ("l", {"type": "array", "items": "In"}),
        ("m", {"type": "map", "values": "int"}),
    )
    values = [
        {"a": "1", "s": None, "l": [{"x": 1, "y": "p"}], "m": {"k": 1}},
        {"a": "2", "s": {"x": 7, "y": "q"}, "l": [], "m": {}},
    ] * 40
    wanted_inner = pa.struct([pa.field("z", pa.date32()), pa.field("x", pa.int64())])
    wanted = pa.schema(
        [
            pa.field("new", pa.list_(pa.string())),
            pa.field("m", pa.map_(pa.string(), pa.float64())),
            pa.field("l", pa.list_(pa.field("item", wanted_inner))),
            pa.field("s", wanted_inner),
        ],
        {b"kept": b"metadata"},
    )
    found = decode_good(schema, encoded(schema, values), wanted)
    assert found.schema.equals(wanted, check_metadata=True)
    assert found.to_pylist()[:2] == [
        {"new": None, "m": [("k", 1.0)], "l": [{"z": None, "x": 1}], "s": None},
        {"new": None, "m": [], "l": [], "s": {"z": None, "x": 7}},
    ]


def test_without_wanted_columns_records_are_counted_and_checked() -> None:
    found = decode(one_field("string"), [b"\2a", b"\4b", b"\2c"], pa.schema([]))
    assert (found.rows.num_rows, found.rows.num_columns, found.bad.tolist()) == (2, 0, [1])


@given(st.integers(0, 6), st.integers(0, 6))
def test_slices_and_nested_slices_are_written_as_their_values(start: int, length: int) -> None:
    items = pa.array([[1, 2], None, [], [3, None], [4], [5]], pa.list_(pa.int64()))
    maps = pa.array([[("a", 1)], [], None, [("b", 2), ("c", None)], [], [("d", 4)]], pa.map_(pa.string(), pa.int64()))
    structs = pa.StructArray.from_arrays(
        [TEXTS, items], ["t", "i"], mask=pa.array([False, True, False, False, True, False])
    )
    rows = batch(
        t=TEXTS,
        i=items,
        m=maps,
        s=structs,
        b=pa.array([True, None, False, True, False, None]),
        x=pa.array([b"ab", None, b"cd", b"ef", None, b"gh"], pa.binary(2)),
        d=pa.array([decimal.Decimal(value) if value else None for value in range(6)], pa.decimal128(5, 0)),
        ls=pa.array([[{"t": "x"}], [None], None, [], [{"t": None}], [{"t": "y"}] * 3]),
    )
    schema = json.loads(to_avro(rows.schema, "r", "n"))
    part = rows.slice(start, length)
    copied = pa.RecordBatch.from_pylist(part.to_pylist(), schema=rows.schema)
    datums = encoded(schema, python_rows(copied))
    assert encode(schema, part) == datums
    assert encode(schema, pa.RecordBatch.from_struct_array(rows.to_struct_array().slice(start, length))) == datums
    assert decode_good(schema, datums).to_pylist() == part.to_pylist()


def test_values_under_nulls_are_not_written() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array(["a", "b", "c"]), mask=pa.array([True, False]))
    structs = pa.StructArray.from_arrays([pa.array(["a", "b"]), lists], ["t", "l"], mask=pa.array([True, False]))
    rows = batch(l=lists, s=structs)
    schema = json.loads(to_avro(rows.schema, "r", "n"))
    assert encode(schema, rows) == encoded(schema, rows.to_pylist())


@pytest.mark.parametrize(
    ("column", "plain"),
    [
        (TEXTS.dictionary_encode(), TEXTS),
        (TEXTS.cast(pa.large_string()), TEXTS),
        (pa.array([1, None, 255], pa.uint8()), pa.array([1, None, 255], pa.int32())),
        (pa.array([[1], None, []], pa.large_list(pa.int32())), pa.array([[1], None, []], pa.list_(pa.int32()))),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.array([[1, 2], None], pa.list_(pa.int32()))),
        (
            pa.array([["a", "b"], None, ["a"]], pa.list_(pa.string())).cast(
                pa.list_(pa.dictionary(pa.int32(), pa.string()))
            ),
            pa.array([["a", "b"], None, ["a"]], pa.list_(pa.string())),
        ),
        (pa.array([1, None], pa.timestamp("us", "Europe/Berlin")), pa.array([1, None], pa.timestamp("us", "UTC"))),
        (pa.nulls(2), pa.nulls(2, pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_other_forms_of_a_type_are_written_as_that_type(column: pa.Array, plain: pa.Array) -> None:
    schema = json.loads(to_avro(batch(f=plain).schema, "r", "n"))
    assert encode(schema, batch(f=column)) == encode(schema, batch(f=plain))


@pytest.mark.parametrize(
    ("avro_type", "column", "reason"),
    [
        ("string", pa.array(["a", "b", None]), "'f' of row 2 .*null"),
        ({"type": "array", "items": "long"}, pa.array([[1], [], [2, None]]), "'f.element' of row 2 .*null"),
        (
            {"type": "map", "values": "long"},
            pa.array([[], [("a", None)]], pa.map_(pa.string(), pa.int64())),
            "row 1 .*null",
        ),
        (["null", record_of(("x", "int"), name="In")], pa.array([None, {"x": None}]), "'f.x' of row 1 .*null"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["A", "B"]), "'f' of row 1 .*no symbol"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.array([1000, 1001], pa.timestamp("us", "UTC")),
            "'f' of row 1 .*milliseconds",
        ),
        (
            {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 3, "scale": 0},
            pa.array([127, 128], pa.decimal128(3, 0)),
            "'f' of row 1 .*1 bytes",
        ),
        ("int", pa.array([1]), "'f' of type int64 cannot be stored as Avro int"),
        ("string", pa.array([b"a"]), "'f' of type binary"),
        ({"type": "array", "items": "int"}, pa.array([1]), "'f' of type int64"),
        ({"type": "map", "values": "int"}, pa.array([[1]]), "'f' of type list"),
        (record_of(("x", "int"), name="In"), pa.array([1]), "'f' of type int64"),
        (record_of(("x", "int"), name="In"), pa.array([{"y": 1}]), "'f.x' .*missing"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_column_and_row(avro_type: Any, column: pa.Array, reason: str) -> None:
    if pa.types.is_struct(column.type) and "x" in [field.name for field in column.type]:
        column = column.cast(pa.struct([pa.field("x", pa.int32())]))
    with pytest.raises(HoodieSchemaException, match=reason):
        encode(one_field(avro_type), batch(f=column))


def test_the_row_in_a_message_counts_over_chunks() -> None:
    column = pa.array([1] * 30_000 + [None])
    with pytest.raises(HoodieSchemaException, match="'f' of row 30000 "):
        encode(one_field("long"), batch(f=column))


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="'f' .*missing"):
        encode(one_field("long"), batch(g=pa.array([1])))


def test_records_that_overlap_or_leave_the_content_are_refused() -> None:
    schema = json.dumps(one_field("int"))
    for starts, ends in (([0, 0], [1, 1]), ([0], [3]), ([-1], [1]), ([1], [0]), ([0, 1], [1])):
        with pytest.raises(ValueError, match="record"):
            decode_records(schema, b"\2\4", np.array(starts), np.array(ends))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, pa.py_buffer], ids=lambda wrap: wrap.__name__)
def test_records_may_have_gaps_and_stand_in_any_buffer(wrap: Any) -> None:
    content = wrap(b"???\2??\4\6")
    found = decode_records(json.dumps(one_field("int")), content, np.array([3, 6, 7]), np.array([4, 7, 8]))
    assert found.rows["f"].to_pylist() == [1, 2, 3]
