"""Damaged records are told one by one, and change nothing of the records beside them."""

from __future__ import annotations

import json
import math
import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.avro.columnar_cursors import Cursors
from hoodie.avro.columnar_decoder import DecodedRecords, decode_records
from hoodie.avro.columnar_encoder import encode_records
from hoodie.avro.columnar_readers import reader_of
from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.columnar_values import BadValueError
from hoodie.exception import HoodieCorruptedDataException, HoodieSchemaException
from tests.support.avro_values import LEAVES, NAMED, decoded, encoded, number, python_rows, record_of, records

Json = dict[str, Any]
HUGE = [number(value) for value in (1 << 20, (1 << 31) - 1, 1 << 31, 1 << 62, (1 << 63) - 1)]
NEGATIVE = [number(value) for value in (-1, -100, -(1 << 31), -(1 << 63))]
ENDLESS = [b"\xff" * count for count in (1, 9, 10, 11, 100)] + [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01"]
EVERY_TYPE = record_of(
    *((f"f{place}", kind) for place, (kind, _) in enumerate(LEAVES)),
    *((f"n{place}", ["null", kind | {"name": f"N{place}"}]) for place, (kind, _) in enumerate(NAMED)),
    ("a", {"type": "array", "items": ["string", "null"]}),
    ("d", {"type": "array", "items": "double"}),
    ("m", {"type": "map", "values": {"type": "array", "items": "int"}}),
    ("r", ["null", record_of(("x", "int"), name="In")]),
)


def decode(schema: Json, datums: list[bytes], wanted: pa.Schema | None = None) -> DecodedRecords:
    ends = np.cumsum([len(datum) for datum in datums], dtype=np.int64)
    starts = np.concatenate([[0], ends])[: len(datums)]
    found = decode_records(json.dumps(schema), b"".join(datums), starts, ends, wanted)
    found.rows.validate(full=True)
    return found


def reason_of(avro_type: Any, datum: bytes, beside: int = 0) -> str | None:
    """Why a record of one field is bad; it stands between good ones, as few or as many as asked for."""
    schema = record_of(("f", avro_type))
    good = encoded(schema, [{"f": GOOD_VALUES[json.dumps(avro_type)]}])[0] if beside else b""
    found = decode(schema, [good] * beside + [datum] + [good] * beside)
    assert found.bad.tolist() in ([], [beside])
    assert found.rows.num_rows == 2 * beside + 1 - len(found.bad)
    return found.reason(beside)


ARRAY = {"type": "array", "items": "string"}
DOUBLES = {"type": "array", "items": "double"}
NESTED = {"type": "array", "items": ARRAY}
MAP = {"type": "map", "values": "long"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 3}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
WIDE_DECIMAL = {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0}
TIME = {"type": "int", "logicalType": "time-millis"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
GOOD_VALUES = {
    json.dumps(kind): value
    for kind, value in (
        ("string", "a"),
        ("bytes", b"a"),
        ("boolean", True),
        ("int", 1),
        ("long", 1),
        ("double", 0.5),
        (["null", "string"], "a"),
        (["string", "null"], None),
        (ARRAY, ["a", "b"]),
        (DOUBLES, [0.5]),
        (NESTED, [["a"], ["b"]]),
        (MAP, {"k": 1}),
        (ENUM, "A"),
        (FIXED, b"abc"),
        (DECIMAL, Decimal(1)),
        (WIDE_DECIMAL, Decimal(1)),
        (TIME, 1),
        (MILLIS, 1),
    )
}
BAD: list[tuple[Any, list[bytes], str]] = [
    ("string", [*HUGE, *NEGATIVE, number(2) + b"a"], "length"),
    ("bytes", [*HUGE, *NEGATIVE], "length"),
    ("string", ENDLESS[2:], "64 bits"),
    ("long", ENDLESS[2:], "64 bits"),
    ("string", [number(2) + b"\xc3\x28", number(1) + b"\x80", number(3) + b"\xed\xa0\x80"], "UTF-8"),
    ("string", [b"", b"\x80", number(1) + b"ab", number(0) + b"\0"], "cut short|follow"),
    ("int", [number(1 << 31), number(-(1 << 31) - 1), number(1 << 62)], "32 bits"),
    ("boolean", [b"\x02", b"\xff"], "boolean"),
    ("double", [b"", b"1234567", b"123456789"], "cut short|follow"),
    (["null", "string"], [number(2), number(-1), *HUGE, *NEGATIVE], "branch"),
    (["string", "null"], [number(2), number(-1), *HUGE, *NEGATIVE], "branch"),
    (["null", "string"], ENDLESS[2:], "64 bits"),
    (["null", "string"], [number(1) + length for length in HUGE + NEGATIVE], "length"),
    (ARRAY, HUGE, "more items"),
    (ARRAY, [number(-(1 << 63)) + number(1) + b"abc"], "more items"),
    (ARRAY, [number(-1) + size + number(1) + b"a\0" for size in HUGE + NEGATIVE], "length"),
    (ARRAY, [number(-1) + number(size) + number(1) + b"a\0" for size in (0, 1, 3)], "does not have the size"),
    (ARRAY, [number(3) + number(1) + b"a\0", number(1) + number(1) + b"a", number(1)], "length|cut|more items|64 bits"),
    (DOUBLES, [*HUGE, number(2) + b"12345678\0", number(1) + b"1234567"], "more items"),
    (NESTED, [number(1) + inner for inner in HUGE], "more items"),
    (MAP, HUGE, "more items"),
    (MAP, [number(1) + key + b"ab" for key in HUGE + NEGATIVE], "length"),
    (ENUM, [number(2), number(-1), *HUGE, *NEGATIVE], "symbol"),
    (FIXED, [b"", b"ab", b"abcd"], "cut short|follow"),
    (
        DECIMAL,
        [b"\0", number(2) + b"\x03\xe8", number(20) + b"\x01" * 20, number(17) + b"\0\x80" + b"\0" * 15],
        "decimal",
    ),
    (DECIMAL, [number(17) + b"\xff\x7f" + b"\0" * 15, number(16) + b"\x80" + b"\0" * 15], "decimal"),
    (WIDE_DECIMAL, [b"\x01" + b"\0" * 19, b"\0\0\0\0" + b"\x7f" * 16], "decimal"),
    (TIME, [number(-1), number(86_400_000)], "within a day"),
    (MILLIS, [number((1 << 63) // 1000 + 1), number(-(1 << 62))], "microseconds"),
]


@pytest.mark.parametrize("beside", [0, 1, 40])
@pytest.mark.parametrize(("avro_type", "datums", "reason"), BAD, ids=lambda value: str(value)[:40])
def test_bytes_that_are_no_value_are_told_with_the_reason(
    avro_type: Any, datums: list[bytes], reason: str, beside: int
) -> None:
    for datum in datums:
        told = reason_of(avro_type, datum, beside)
        assert told is not None, datum
        assert any(part in told for part in reason.split("|")), (datum, told)


@pytest.mark.parametrize("beside", [0, 40])
@pytest.mark.parametrize(
    ("avro_type", "datums"), [(kind, datums) for kind, datums, _ in BAD], ids=lambda value: str(value)[:40]
)
def test_bytes_that_are_no_value_are_told_in_arrays_and_maps(avro_type: Any, datums: list[bytes], beside: int) -> None:
    for schema, begin in (
        (record_of(("f", {"type": "array", "items": avro_type})), number(1)),
        (record_of(("f", {"type": "map", "values": ["null", avro_type]})), number(1) + b"\2k\2"),
        (record_of(("f", {"type": "array", "items": record_of(("x", avro_type), name="In")})), number(1)),
    ):
        if isinstance(avro_type, list) and begin != number(1):
            continue
        good = b"\0"
        for datum in datums:
            found = decode(schema, [good] * beside + [begin + datum + b"\0"] + [good] * beside)
            assert found.bad.tolist() == [beside], datum
            many = decode(schema, [begin + datum + b"\0"] * 40 + [good])
            assert many.bad.tolist() == list(range(40)), datum


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("avro_type", [ARRAY, DOUBLES, NESTED, MAP, "string", FIXED], ids=str)
def test_many_bad_records_are_all_told(avro_type: Any, count: int) -> None:
    schema = record_of(("f", avro_type))
    good = encoded(schema, [{"f": GOOD_VALUES[json.dumps(avro_type)]}])
    bad = [datum for kind, datums, _ in BAD if kind == avro_type for datum in datums]
    found = decode(schema, (good + bad) * count)
    period = len(bad) + 1
    assert found.bad.tolist() == [place for place in range(period * count) if place % period]
    assert found.rows["f"].equals(decode(schema, good * count).rows["f"])


@pytest.mark.parametrize("beside", [0, 40])
def test_a_record_that_is_cut_anywhere_is_told(beside: int) -> None:
    values = {f"f{place}": value for place, value in enumerate(CUT_VALUES[: len(LEAVES)])}
    values |= {f"n{place}": value for place, value in enumerate(CUT_VALUES[len(LEAVES) :])}
    values |= {"a": ["é", None, "x" * 70], "d": [0.5, 1.5], "m": {"k": [1, 1 << 20], "l": []}, "r": {"x": 5}}
    datum = encoded(EVERY_TYPE, [values])[0]
    whole = decode(EVERY_TYPE, [datum]).require_good("a test")
    for place in range(len(datum)):
        cut = [datum] * beside + [datum[:place]] + [datum] * beside
        found = decode(EVERY_TYPE, cut)
        assert found.bad.tolist() == [beside], place
        assert all(found.rows.slice(row, 1).equals(whole) for row in (0, found.rows.num_rows - 1) if beside)
        assert found.reason(beside) is not None
        if not beside:
            assert decode(EVERY_TYPE, [datum[:place], datum[place:]]).bad.tolist()[:1] == [0], place
    assert decode(EVERY_TYPE, [datum + b"\0", datum]).bad.tolist() == [0]


CUT_VALUES = [
    True,
    1 << 30,
    1 << 60,
    0.5,
    0.1,
    b"\x80abc",
    "héllo",
    18_000,
    80_000_000,
    80_000_000_000,
    1_700_000_000_000,
    1_700_000_000_000_000,
    1_700_000_000_000,
    1_700_000_000_000_000,
    b"\x01\x02\x03",
    "xyz",
    b"abc",
    b"\0\0\0\0\x05",
    b"\0" * 19 + b"\x05",
    "BLUE",
]
"""One for each of `LEAVES` and `NAMED`; numbers for logical types, which fastavro takes as well."""


def strict_end(schema: Json, content: bytes, start: int, end: int) -> int | None:
    """Where a record ends that is read alone, a value after the other; None if it is damaged."""
    tree = type_tree(json.dumps(schema))
    try:
        return reader_of(tree, tree.arrow_type).step(memoryview(content), start, end)
    except (BadValueError, IndexError):
        return None


@st.composite
def damaged(draw: st.DrawFn, datum: bytes) -> bytes:
    place, data = draw(st.integers(0, len(datum))), bytearray(datum)
    match draw(st.sampled_from(["cut", "change", "insert", "drop", "noise"])):
        case "cut":
            return datum[:place]
        case "change":
            data[place : place + 1] = draw(st.sampled_from([b"\0", b"\1", b"\2", b"\3", b"\x7f", b"\x80", b"\xff"]))
        case "insert":
            data[place:place] = draw(st.binary(min_size=1, max_size=11) | st.sampled_from(ENDLESS + HUGE + NEGATIVE))
        case "drop":
            del data[place : place + 1]
        case _:
            return draw(st.binary(max_size=40))
    return bytes(data)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), records(), st.sampled_from([1, 1, 9, 40]))
@pytest.mark.one_in(4)
def test_a_damaged_record_is_told_or_has_the_values_that_fastavro_reads(
    data: st.DataObject, record: tuple[Json, st.SearchStrategy[Any]], times: int
) -> None:
    schema, values = record
    datums = encoded(schema, data.draw(st.lists(values, min_size=1, max_size=6))) * times
    whole = decode(schema, datums).rows
    changed = set(data.draw(st.lists(st.integers(0, len(datums) - 1), min_size=1, max_size=3)))
    for place in changed:
        datums[place] = data.draw(damaged(datums[place]))
    found = decode(schema, datums)
    content, start = b"".join(datums), 0
    good = []
    for place, datum in enumerate(datums):
        reason, end = found.reason(place), start + len(datum)
        is_sound = strict_end(schema, content, start, end) == end
        assert is_sound if reason is None else not is_sound or "UTF-8" in reason or "decimal" in reason
        start = end
        if reason is None:
            good.append(place)
    assert set(range(len(datums))) - set(good) <= changed
    kept = [row for row, place in enumerate(good) if place not in changed]
    same = [place for place in good if place not in changed]
    assert found.rows.take(pa.array(kept, pa.int32())).equals(whole.take(pa.array(same, pa.int32()))) or has_nan(whole)
    try:
        ours, theirs = python_rows(found.rows), decoded(schema, [datums[place] for place in good])
    except (OverflowError, ValueError):
        # Python has no dates beyond the year 9999, and no times of negative years.
        return
    shown = repr(ours).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")
    # What pyarrow 17 gives where pytz is installed.
    assert shown.replace("<UTC>", "datetime.timezone.utc") == repr(theirs)


def has_nan(rows: pa.RecordBatch) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for row in rows.to_pylist() for value in row.values())


def test_the_first_bad_record_is_raised_with_its_number() -> None:
    found = decode(record_of(("a", "int"), ("b", ["null", "string"])), [b"\2\0", b"\2\4", b"\2\2\4ab", b"\2"])
    assert found.bad.tolist() == [1, 3]
    assert found.reason(0) is None
    assert found.rows.to_pylist() == [{"a": 1, "b": None}, {"a": 1, "b": "ab"}]
    with pytest.raises(
        HoodieCorruptedDataException, match=r"record 1 .* of a file: field 'b': .*branch.*2 records of 4"
    ):
        found.require_good("a file")


def test_bad_text_in_several_columns_is_told_of_each_record() -> None:
    schema = record_of(*((name, "string") for name in "abcdefgh"))
    datums = [b"\2x" * place + b"\2\xff" + b"\2x" * (7 - place) for place in range(8)]
    found = decode(schema, [*datums, b"\2x" * 8])
    assert found.bad.tolist() == list(range(8))
    assert [found.reason(place) for place in range(8)] == [
        f"field {name!r}: a string is not UTF-8" for name in "abcdefgh"
    ]
    assert found.rows.num_rows == 1


def test_bad_text_is_told_where_bytes_are_wanted_and_not_where_the_column_is_left_out() -> None:
    schema = record_of(("a", "string"), ("b", "int"))
    assert decode(schema, [b"\2\xff\2"], pa.schema([pa.field("a", pa.binary())])).bad.tolist() == [0]
    assert decode(schema, [b"\2\xff\2"], pa.schema([pa.field("b", pa.int32())])).bad.tolist() == []


@pytest.mark.parametrize("avro_type", ["string", ["null", "bytes"], ARRAY, DOUBLES, NESTED, MAP, DECIMAL], ids=str)
def test_lengths_that_claim_the_whole_content_take_no_memory(avro_type: Any) -> None:
    """Each of 20,000 records says that it holds what all of them take together."""
    branch = number(1) if isinstance(avro_type, list) else b""
    datum = branch + number(1 << 17)
    datums = [datum + b"\0" * (24 - len(datum))] * 20_000
    decode(record_of(("f", avro_type)), datums[:1])
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = decode(record_of(("f", avro_type)), datums)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.bad) == 20_000
    assert peak < 40 * len(datums[0]) * len(datums)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize(
    ("item", "value"), [("int", b"\2"), (["null", "long"], b"\0"), (DECIMAL, b"\2\5"), (ARRAY, b"\0")], ids=str
)
def test_many_items_of_one_record_take_memory_by_their_number(item: Any, value: bytes) -> None:
    datum = number(150_000) + value * 150_000 + b"\0"
    decode(record_of(("f", {"type": "array", "items": item})), [number(1) + value + b"\0"])
    tracemalloc.start()
    found = decode(record_of(("f", {"type": "array", "items": item})), [datum])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.rows["f"][0]) == 150_000
    assert peak < 150 * 150_000


@pytest.mark.parametrize("records_of_one", [1, 100])
@pytest.mark.parametrize("item", ["long", ["null", "string"], "double", ARRAY], ids=str)
def test_work_grows_with_the_bytes_of_an_array_not_with_its_items_times_records(
    item: Any, records_of_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One array of many items, alone or beside many short ones, takes no call of numpy for each of its items."""
    values = {"long": 5, "double": 0.5, json.dumps(["null", "string"]): "a", json.dumps(ARRAY): ["a"]}
    value = values[item if isinstance(item, str) else json.dumps(item)]
    schema = record_of(("f", {"type": "array", "items": item}))
    datums = encoded(schema, [{"f": [value] * 5000}] + [{"f": [value]}] * (records_of_one - 1))
    calls = 0
    original = Cursors.number

    def counted(cursors: Cursors, path: str) -> Any:
        nonlocal calls
        calls += 1
        return original(cursors, path)

    monkeypatch.setattr(Cursors, "number", counted)
    found = decode(schema, datums).require_good("a test")
    assert found["f"].to_pylist()[0] == [value] * 5000
    assert calls < 40


def test_many_blocks_of_one_item_in_a_torn_array_are_walked_once() -> None:
    blocks = number(1) + number(1) + b"a"
    found = decode(record_of(("f", ARRAY)), [blocks * 50_000, blocks * 3 + b"\0", blocks * 50_000 + b"\0"])
    assert found.bad.tolist() == [0]
    assert found.rows["f"].to_pylist() == [["a"] * 3, ["a"] * 50_000]


def test_arrays_that_run_over_their_ends_do_not_read_the_records_behind_them() -> None:
    """Each record announces as many items as it has bytes; items take two bytes, so it ends in the next record."""
    schema = record_of(("f", {"type": "array", "items": ["null", "long"]}))
    datum = number(20) + b"\2\2" * 10
    found = decode(schema, [datum] * 100)
    assert found.bad.tolist() == list(range(100))
    assert set(found.reasons) <= {f"field {field!r}: the record is cut short" for field in ("f", "f.element")}


@pytest.mark.parametrize(
    ("wrap", "begin", "end"),
    [
        (lambda inner, name: {"type": "array", "items": ["null", inner]}, b"\2\2", b"\0"),
        (lambda inner, name: {"type": "map", "values": ["null", inner]}, b"\2\2k\2", b"\0"),
        (lambda inner, name: ["null", record_of(("x", inner), name=name)], b"\2", b""),
    ],
    ids=["array", "map", "record"],
)
def test_nesting_is_read_up_to_a_depth_and_refused_beyond(wrap: Any, begin: bytes, end: bytes) -> None:
    def nested(depth: int) -> Json:
        avro: Any = "int"
        for level in range(depth):
            avro = wrap(avro, f"R{level}")
        return record_of(("f", avro))

    datum = begin * 64 + b"\2" + end * 64
    for beside in (0, 40):
        found = decode(nested(64), [datum] * beside + [datum[:-1]] + [datum] * beside)
        assert found.bad.tolist() == [beside]
        assert encode_records(found.rows, json.dumps(nested(64))).data == datum * 2 * beside
    with pytest.raises(HoodieSchemaException, match="'f' is nested too deeply, in more than 64 levels"):
        decode(nested(65), [])


@pytest.mark.parametrize("wanted", [["after"], ["list", "after"]])
def test_damaged_items_are_told_of_columns_that_nobody_wants(wanted: list[str]) -> None:
    fields = [{"name": "list", "type": {"type": "array", "items": "boolean"}}, {"name": "after", "type": "int"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    records = [b"\x04\x00\x01\x00\x06", b"\x04\x00\x02\x00\x06", b"\x00\x06"]
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    types = {"list": pa.list_(pa.field("element", pa.bool_(), nullable=False)), "after": pa.int32()}
    found = decode_records(
        schema, b"".join(records), np.append(0, ends[:-1]), ends, pa.schema([(name, types[name]) for name in wanted])
    )
    assert found.bad.tolist() == [1]
    assert "a boolean is neither 0 nor 1" in str(found.reason(1))
    assert found.rows.column("after").to_pylist() == [3, 3]
