"""Rows of JSON messages, by block and one by one."""

from __future__ import annotations

import json
import pickle
import random
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest

from hoodie.utilities.sources.helpers import json_decoder
from hoodie.utilities.sources.helpers.json_decoder import DecodedObjects, JsonDecoder, odd_ones
from hoodie.utilities.sources.helpers.json_values import MAX_DEPTH
from hoodie.utilities.sources.helpers.message_decoder import Messages

ROOT = Path(__file__).parents[5]


def nullable(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


def record(*fields: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


SCHEMA = json.dumps(
    record(
        {"name": "id", "type": "string"},
        nullable("flag", "boolean"),
        nullable("small", "int"),
        nullable("large", "long"),
        nullable("single", "float"),
        nullable("double", "double"),
        nullable("raw", "bytes"),
        nullable("colour", {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}),
        nullable("price", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}),
        nullable("day", {"type": "int", "logicalType": "date"}),
        nullable("at", {"type": "long", "logicalType": "timestamp-micros"}),
        nullable("at_ms", {"type": "long", "logicalType": "timestamp-millis"}),
        nullable("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        nullable("tags", {"type": "array", "items": "string"}),
        nullable("place", record({"name": "city", "type": "string"}, nullable("zip", "int"), name="place")),
        nullable(
            "visits",
            {"type": "array", "items": record(nullable("at", {"type": "long", "logicalType": "timestamp-millis"}),
                                              nullable("to", {"type": "enum", "name": "to", "symbols": ["A", "B"]}),
                                              name="visit")},
        ),
    )
)  # fmt: skip
DECODER = JsonDecoder(SCHEMA)
EXACT = attrs.evolve(DECODER, is_exact=True)


def kafka(*values: bytes | None) -> Messages:
    count = len(values)
    return Messages("trips", 3, np.arange(100, 100 + count), values, [None] * count, np.zeros(count, np.int64))


def good(number: int = 0) -> bytes:
    return json.dumps({"id": f"k{number}", "large": number}).encode()


def rows_of(decoded: DecodedObjects) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decoded.rows.to_pylist()
    return found


def one(field: str, value: str) -> Any:
    decoded = DECODER.decode_objects([f'{{"id": "a", "{field}": {value}}}'.encode()])
    assert not decoded.failures, decoded.failures
    return decoded.rows.column(field)[0].as_py()


def failure(text: bytes) -> str:
    decoded = DECODER.decode_objects([good(0), text, good(1)])
    assert [row["id"] for row in rows_of(decoded)] == ["k0", "k1"]
    assert decoded.positions.tolist() == [0, 2]
    ((position, reason),) = decoded.failures
    assert position == 1
    return reason


BAD = {
    "null": (b"null", "not a JSON object but null"),
    "a list": (b"[1]", r"not a JSON object but \[1\]"),
    "two objects": (b'{"id":"x"}{"id":"y"}', "Extra data"),
    "two objects with a line between": (b'{"id":"x"}\n{"id":"y"}', "Extra data"),
    "blanks": (b"  ", "Expecting value"),
    "not UTF-8": (b'{"id":"a\xff"}', "byte 8 is 0xff"),
    "not UTF-8 in a field that is not taken": (b'{"id":"a","z":"\xc3"}', "byte 15 is 0xc3"),
    "deep": (b'{"id":"x","z":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "more than 200 levels"),
    "deep and cut off": (b'{"id":"x","z":' + b"[" * 10_000_000 + b"}", "more than 200 levels"),
    "cut off": (b'{"id":"x"', "Expecting ',' delimiter"),
    "an open brace": (b"{", "Expecting property name"),
    "a text that does not end": (b'{"id":"x}', "Unterminated string"),
    "no number": (b'{"id":"x","double":NaN}', "NaN"),
    "infinite": (b'{"id":"x","z":-Infinity}', "Infinity"),
    "a missing key": (b'{"large":1}', "field id is missing"),
    "an empty object": (b"{}", "field id is missing"),
    "a key that is null": (b'{"id":null}', "field id is null"),
    "an inner field that is missing": (b'{"id":"x","place":{"zip":1}}', "field place.city is missing"),
    "a wrong inner value": (b'{"id":"x","place":{"city":"a","zip":"b"}}', 'field place.zip: "b" is no value'),
    "no object": (b'{"id":"x","place":1}', "field place: 1 is not an object"),
    "no list": (b'{"id":"x","tags":"a"}', 'field tags: "a" is not a list'),
    "a null in a list": (b'{"id":"x","tags":["a",null]}', "field tags.element is null"),
    "no symbol": (b'{"id":"x","colour":"GREEN"}', 'field colour: "GREEN" is none of its symbols'),
    "no inner symbol": (b'{"id":"x","visits":[{"to":"C"}]}', 'field visits.element.to: "C" is none'),
    "half a character": (b'{"id":"\\ud800"}', "half of a surrogate pair"),
    "a text for a boolean": (b'{"id":"x","flag":"true"}', 'field flag: "true" is no value of type boolean'),
    "a text that is no number": (b'{"id":"x","large":"1.5"}', 'field large: "1.5" is no value of type long'),
    "a text out of range": (b'{"id":"x","small":"2147483648"}', "field small"),
    "a number of many digits": (b'{"id":"x","large":' + b"9" * 5000 + b"}", "5000 characters is too long"),
    "a number with a large exponent": (b'{"id":"x","large":1e999999999}', "1E.999999999 is too large"),
    "a decimal to be rounded": (b'{"id":"x","price":1.005}', "field price: 1.005 is no value"),
    "a decimal that is too large": (b'{"id":"x","price":1234567}', "field price: 1234567 is no value"),
    "a decimal that is no number": (b'{"id":"x","price":"NaN!"}', "field price"),
    "no date": (b'{"id":"x","day":"2023-02-29"}', "field day"),
    "no time": (b'{"id":"x","at":"2024-01-01T24:00:00Z"}', "field at"),
    "milliseconds out of range": (b'{"id":"x","at_ms":9223372036854775807}', "field at_ms: .* is out of range"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_is_named_and_its_neighbours_are_rows(name: str) -> None:
    text, expected = BAD[name]
    reason = failure(text)
    assert re.search(expected, reason), reason


@pytest.mark.parametrize("text", ["null", "null\n", "[1]", "", "1", '"a"', "{}"])
def test_a_message_alone_does_not_kill_the_process(text: str) -> None:
    program = (
        "import sys\n"
        "from hoodie.utilities.sources.helpers.json_decoder import JsonDecoder\n"
        "decoded = JsonDecoder(sys.argv[1]).decode_objects([sys.argv[2].encode()])\n"
        "print(decoded.rows.num_rows, len(decoded.failures))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, SCHEMA, text], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0 1\n"), done.stderr[-500:]


def test_messages_of_20_mb_are_rows_or_errors() -> None:
    text = b"x" * 20_000_000
    decoded = DECODER.decode_objects([b'{"id":"' + text + b'"}', b'{"id":"a","z":"' + text + b'"', good()])
    assert [len(row["id"]) for row in rows_of(decoded)] == [20_000_000, 2]
    assert [position for position, _ in decoded.failures] == [1]


def test_many_quotes_and_brackets_are_looked_through_in_no_time() -> None:
    assert "Unterminated" in failure(b'{"id":"' + b'\\"' * 1_000_000 + b"[" * 300 + b"}")


def test_empty_messages_and_tombstones_give_nothing() -> None:
    decoded = DECODER.decode(kafka(good(0), None, b"", good(1)))
    assert decoded.rows.column("id").to_pylist() == ["k0", "k1"]
    assert decoded.errors is None


def test_errors_say_where_the_message_is() -> None:
    errors = DECODER.decode(kafka(None, good(0), b"[1]\xff")).errors
    assert errors is not None
    (error,) = errors.to_pylist()
    assert error["error_id"] == "trips/3/102"
    assert (error["topic"], error["partition"], error["offset"]) == ("trips", 3, 102)
    assert error["reason"] == "JSON_AVRO_DESERIALIZATION_FAILURE"
    assert error["payload"] == "[1]\\xff"


def test_lines_of_a_file_are_rows_and_errors_with_their_numbers() -> None:
    decoded = DECODER.decode_lines("/in/a.json", 11, [good(0) + b"\r\n", b"\n", b"null\n", good(1)])
    assert decoded.rows.column("id").to_pylist() == ["k0", "k1"]
    assert decoded.errors is not None
    (error,) = decoded.errors.to_pylist()
    assert (error["error_id"], error["file"], error["line"]) == ("/in/a.json:13", "/in/a.json", 13)


CONVERTED = [
    ("small", '"5"', 5), ("small", "5.9", 5), ("small", "-5.9", -5), ("small", "1099511627781", 5),
    ("small", "1e3", 1000), ("small", "2147483648", -2147483648), ("large", "9223372036854775808", -(2**63)),
    ("large", "1e-400", 0), ("large", '"-12"', -12), ("large", "1.9", 1),
    ("double", "1", 1.0), ("double", '" 1.5d "', 1.5), ("double", '"-Infinity"', float("-inf")),
    ("double", "1e400", float("inf")),
    ("single", "0.1", float(np.float32(0.1))), ("single", '"2.5"', 2.5), ("single", "16777217", 16777216.0),
    ("id", "5", "5"), ("id", "5.10", "5.10"), ("id", "1e3", "1E+3"), ("id", "true", "true"),
    ("id", '{"b": [1, 2.50, null, "é\\n"], "a": {}}', '{"b":[1,2.50,null,"é\\n"],"a":{}}'),
    ("raw", '"é"', "é".encode()), ("raw", "12", b"12"),
    ("price", "1.5", Decimal("1.50")), ("price", '"1.500"', Decimal("1.50")), ("price", '"12"', Decimal("12.00")),
    ("price", '"AMg="', Decimal("2.00")), ("price", "1e2", Decimal("100.00")),
    ("day", "19000", date(2022, 1, 8)), ("day", '"2024-02-29"', date(2024, 2, 29)),
    ("day", '"19000"', date(2022, 1, 8)), ("day", '"1969-12-31"', date(1969, 12, 31)),
    ("at", '"2024-07-13T11:36:01.951+01:00"', datetime(2024, 7, 13, 10, 36, 1, 951000, UTC)),
    ("at", '"2024-07-13 11:36"', datetime(2024, 7, 13, 11, 36, tzinfo=UTC)),
    ("at", "1720870561951000", datetime(2024, 7, 13, 11, 36, 1, 951000, UTC)),
    ("at_ms", "1720870561951", datetime(2024, 7, 13, 11, 36, 1, 951000, UTC)),
    ("at_ms", '"1720870561951"', datetime(2024, 7, 13, 11, 36, 1, 951000, UTC)),
    ("at_ms", '"2024-07-13T11:36:01.951999Z"', datetime(2024, 7, 13, 11, 36, 1, 951000, UTC)),
    ("local", '"2024-07-13T11:36:01"', datetime(2024, 7, 13, 11, 36, 1)),
    ("tags", "[1, {}]", ["1", "{}"]), ("place", '{"city": "a"}', {"city": "a", "zip": None}),
    ("visits", '[{"at": "1970-01-01T00:00:01Z", "to": "A"}]',
     [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "to": "A"}]),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "expected"), CONVERTED)
def test_values_are_converted_as_hudi_does(field: str, value: str, expected: Any) -> None:
    assert one(field, value) == expected


def test_of_a_name_that_is_there_twice_the_last_value_counts() -> None:
    decoded = DECODER.decode_objects([b'{"id":"a","large":1,"large":2}'])
    assert rows_of(decoded)[0]["large"] == 2


def test_maps_fixed_and_decimals_in_fixed_are_read() -> None:
    decimal = {"type": "fixed", "name": "d", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2}
    decoder = JsonDecoder(
        json.dumps(
            record(
                {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
                {"name": "hash", "type": {"type": "fixed", "name": "f", "size": 2}},
                {"name": "price", "type": decimal},
            )
        )
    )
    decoded = decoder.decode_objects(
        [b'{"counts":{"a":1,"b":null},"hash":[1,255],"price":[0,1,0]}', b'{"counts":1,"hash":[],"price":0}']
    )
    assert rows_of(decoded) == [{"counts": [("a", 1), ("b", None)], "hash": b"\x01\xff", "price": Decimal("2.56")}]
    assert decoded.failures == [(1, "field counts: 1 is not an object")]


WORDS = ["", "a", "Info", "x, NaN", 'quote " and \\', "größe", "名字", "tab\t", "\u0000", "😀"]


def random_value(rng: random.Random, field: str) -> Any:
    if rng.random() < 0.1:
        return None
    match field:
        case "id" | "raw":
            return rng.choice(WORDS) + str(rng.randrange(1000))
        case "flag":
            return rng.random() < 0.5
        case "small" | "day":
            return rng.randrange(-40_000, 40_000)
        case "large" | "at" | "at_ms" | "local":
            return rng.randrange(-(10**14), 10**14)
        case "single" | "double":
            return rng.choice([rng.random() * 1000, rng.randrange(100), -0.0, 1e300])
        case "colour":
            return rng.choice(["RED", "BLUE"])
        case "price":
            return rng.choice([rng.randrange(1000), f"{rng.randrange(100000) / 100:.2f}", 12.5])
        case "tags":
            return [rng.choice(WORDS) for _ in range(rng.randrange(3))]
        case "place":
            return {"city": rng.choice(WORDS), "zip": rng.choice([None, 5, 99999])}
    return [{"at": rng.randrange(10**12), "to": rng.choice(["A", "B", None])} for _ in range(rng.randrange(3))]


def random_message(rng: random.Random, odd_share: float) -> bytes:
    fields = [field for field in DECODER.schema.names if field == "id" or rng.random() < 0.8]
    found = {field: random_value(rng, field) for field in fields}
    found["id"] = found["id"] or "none"
    found |= {"more": rng.choice([1, "x", [1, {"a": [None]}], None])}
    text = json.dumps(found, ensure_ascii=rng.random() < 0.5)
    if rng.random() < odd_share:
        field = rng.choice(DECODER.schema.names)
        value = rng.choice(
            ["5", '"5"', "5.5", "1e3", "true", '"2024-01-01"', '"2024-01-01T00:00:00Z"', "[]", "{}", "NaN", '"RED"',
             "99999999999999999999", '[{"at": 5}]', '"\\ud83d"', "null", '{"city": 1}', "[null]", "01",
             "1e999", '"1.5"']
        )  # fmt: skip
        text = text[:-1] + f', "{field}": {value}}}'
    if rng.random() < odd_share / 4:
        text = rng.choice(["null", "[1]", text + text, text[:-1], " " + text, text + "\n", text + "x", "{}"])
    encoded = text.encode()
    return encoded[:-3] + b"\xff" + encoded[-2:] if rng.random() < odd_share / 20 else encoded


@pytest.mark.parametrize("decoder", [DECODER, EXACT], ids=["casts", "exact"])
@pytest.mark.parametrize("odd_share", [0.0, 0.001, 0.02, 0.5])
def test_both_ways_give_the_same_rows_and_errors(odd_share: float, decoder: JsonDecoder) -> None:
    rng = random.Random(f"json {odd_share}")
    messages = [random_message(rng, odd_share) for _ in range(10_000 if odd_share == 0.02 else 3_000)]
    by_block = decoder.decode_objects(messages)
    singly = decoder.decode_singly(messages, range(len(messages)))
    assert by_block.rows.equals(singly.rows)
    by_block.rows.validate(full=True)
    assert by_block.positions.tolist() == singly.positions.tolist()
    assert list(by_block.failures) == list(singly.failures)
    assert by_block.rows.num_rows + len(by_block.failures) == len(messages)
    # Some texts of random messages are numbers beyond a float.
    assert bool(by_block.failures) == bool(odd_share or decoder.is_exact)


def test_good_messages_are_never_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random("good")
    messages = [message for message in (random_message(rng, 0.0) for _ in range(1_000)) if b"x, NaN" not in message]
    monkeypatch.setattr(json_decoder, "parse_object", None)
    assert DECODER.decode_objects(messages).rows.num_rows == len(messages) > 200


TIMES = ["2024-02-29T23:59:59Z", "1969-12-31 00:00:00.5+01:00", "2024-02-29T23:59:59.999999", "2024-02-29 11:36",
         "2024-02-29T23:59:59.9999999Z", "2023-02-29T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T23:59:60Z",
         "1720870561951000", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.123-17:59", "2024-01-01T00:00:00+18:01",
         "2024-01-01", "2024-01-01T00:00:00.Z", "2024-01-01t00:00:00z", ""]  # fmt: skip
DATES = ["2024-02-29", "1969-12-31", "2023-02-29", "0000-01-01", "9999-12-31", "2024-1-1", "19000", "2024-01-01Z"]


def message_of_texts(number: int, day: str, at: str, at_ms: str, local: str) -> bytes:
    return json.dumps({"id": f"k{number}", "day": day, "at": at, "at_ms": at_ms, "local": local}).encode()


@pytest.mark.parametrize("field", ["day", "at", "at_ms", "local"])
def test_texts_of_times_are_the_same_both_ways(field: str) -> None:
    usual = {"day": "2024-07-13", "at": "2024-07-13T11:36:01.951+01:00", "at_ms": "2024-07-13 11:36:01.951",
             "local": "2024-07-13T11:36:01"}  # fmt: skip
    for odd in [*TIMES, *DATES]:
        messages = [message_of_texts(number, **usual) for number in range(100)]
        messages += [message_of_texts(number, **{**usual, field: odd}) for number in range(100)]
        by_block = DECODER.decode_objects(messages)
        singly = DECODER.decode_singly(messages, range(len(messages)))
        assert by_block.rows.equals(singly.rows), odd
        assert list(by_block.failures) == list(singly.failures), odd


def test_usual_texts_of_times_are_never_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    parse = json_decoder.parse_object
    monkeypatch.setattr(json_decoder, "parse_object", lambda text: looked_at.append(text) or parse(text))
    usual = ("2024-07-13", "2024-07-13T11:36:01.951123Z", "2024-07-13T11:36:01+02:00", "2024-07-13 11:36:01")
    messages = [message_of_texts(number, *usual) for number in range(1_000)]
    for _ in range(3):
        row = DECODER.decode_objects(messages).rows.slice(7, 1).to_pylist()[0]
    assert (row["day"], row["local"]) == (date(2024, 7, 13), datetime(2024, 7, 13, 11, 36, 1))
    assert row["at"] == datetime(2024, 7, 13, 11, 36, 1, 951123, UTC)
    assert row["at_ms"] == datetime(2024, 7, 13, 9, 36, 1, tzinfo=UTC)
    # One message told that they are texts.
    assert len(looked_at) <= 1
    numbers = [json.dumps({"id": "a", "at": number}).encode() for number in range(100)]
    assert DECODER.decode_objects(numbers).rows.num_rows == 100
    assert len(looked_at) <= 2


def test_a_bad_message_makes_few_others_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    parse = json_decoder.parse_object
    monkeypatch.setattr(json_decoder, "parse_object", lambda text: looked_at.append(text) or parse(text))
    messages = [good(number) for number in range(20_000)]
    messages[7_777] = b'{"id":"a","large":"5"}'
    decoded = DECODER.decode_objects(messages)
    assert decoded.rows.column("large").to_pylist() == [*range(7_777), 5, *range(7_778, 20_000)]
    assert len(looked_at) <= 64


def test_large_blocks_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_decoder, "_MAX_BLOCK_BYTES", 1_000)
    messages = [good(number) for number in range(200)]
    messages[50] = b"null"
    decoded = DECODER.decode_objects(messages)
    assert decoded.rows.column("id").to_pylist() == [f"k{number}" for number in range(200) if number != 50]
    assert [position for position, _ in decoded.failures] == [50]
    assert decoded.positions.tolist() == [number for number in range(200) if number != 50]


def test_nothing_gives_no_rows_with_all_columns() -> None:
    assert DECODER.decode_objects([]).rows.schema == DECODER.schema
    assert DECODER.decode(kafka(None)).rows.schema == DECODER.schema


def test_lines_that_are_arrays_or_parts_of_objects_say_what_to_do() -> None:
    def reason(line: bytes) -> str:
        errors = DECODER.decode_lines("a.json", 1, [line]).errors
        assert errors is not None
        return errors["message"][0].as_py()

    for line in (b"[", b' [{"id":"a"}]', b"[1]"):
        assert reason(line) == "an array: give one object a line"
    for line in (b"{", b'{"id": "a",', b'{"id": [ ', b'\t{"sub":'):
        assert reason(line) == "an object over several lines: give one object a line"
    for line in (b'{"id"', b"1", b'"id": 1,', b'{"id":"a"} x'):
        assert "it is not" in reason(line)


def test_messages_with_a_zero_in_front_suggest_avro() -> None:
    text = b"\0\0\0\0\1" + good()

    def errors(decoder: JsonDecoder) -> list[str]:
        found = decoder.decode(kafka(text, b"x")).errors
        assert found is not None
        return found["message"].to_pylist()

    first, second = errors(DECODER)
    assert "--source-class AvroKafkaSource" in first
    assert "Avro" not in second
    (framed,) = errors(attrs.evolve(DECODER, is_framed=True))
    assert "does not begin with the zero" in framed


@pytest.mark.parametrize(
    ("field", "value", "cast", "reason"),
    [
        ("small", "1.9", 1, "1.9 is not a whole number"),
        ("large", "-1.9", -1, "-1.9 is not a whole number"),
        ("large", "1e-400", 0, "1E-400 is not a whole number"),
        ("small", "2147483648", -(2**31), "2147483648 does not fit a whole number of 32 bits"),
        ("large", "18446744073709551617", 1, "18446744073709551617 does not fit a whole number of 64 bits"),
        ("day", "0.5", date(1970, 1, 1), "0.5 is not a whole number"),
        ("double", "-1e400", -float("inf"), "-1E.400 is too large for its type"),
        ("single", "1e39", float("inf"), "1E.39 is too large for its type"),
        ("place", '{"city": "x", "zip": 1.5}', {"city": "x", "zip": 1}, "1.5 is not a whole number"),
    ],
)
def test_numbers_that_do_not_fit_are_errors_where_nobody_told_the_types(
    field: str, value: str, cast: Any, reason: str
) -> None:
    assert one(field, value) == cast
    messages = [good(number) for number in range(200)]
    messages[100] = f'{{"id": "a", "{field}": {value}}}'.encode()
    for decoded in (EXACT.decode_objects(messages), EXACT.decode_singly(messages, range(200))):
        ((position, told),) = decoded.failures
        assert position == 100
        assert re.match(rf"field \S*{field}\S*: {reason}: give a schema, or widen the column$", told), told
        assert len(decoded.rows) == 199


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [("large", "1.0", 1), ("large", "1e3", 1000), ("small", '"7"', 7), ("double", '"Infinity"', float("inf"))],
)
def test_numbers_that_fit_are_taken_where_nobody_told_the_types(field: str, value: str, expected: Any) -> None:
    decoded = EXACT.decode_objects([f'{{"id": "a", "{field}": {value}}}'.encode()])
    assert decoded.rows.column(field).to_pylist() == [expected]


def test_columns_without_an_avro_schema_are_taken() -> None:
    columns = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])
    decoder = JsonDecoder.of_columns(columns)
    assert decoder.schema == columns
    assert decoder.is_exact
    assert decoder.decode_objects([b'{"id":"a","at":5}']).rows.num_rows == 1


def test_a_decoder_crosses_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(DECODER)).decode_objects([good()]).rows.num_rows == 1


def nested(levels: int) -> bytes:
    return b'{"z":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize("distance", range(-3, 4))
@pytest.mark.parametrize("odd", [nested(MAX_DEPTH + 1), b'{"double":NaN}', b'{"double":-Inf}', b'{"id":"\xff"}'])
def test_odd_messages_are_found_at_the_edges_of_the_parts_of_a_block(odd: bytes, distance: int) -> None:
    usual = b'{"id":"' + b"x" * 89 + b'"}'
    place = next((odd.index(mark) for mark in (b"N", b"I", b"]") if mark in odd), 7)
    # This byte of the message stands beside the edge.
    count, padding = divmod(json_decoder._CACHED_BYTES + distance - place, len(usual) + 1)
    before = [usual[:-1] + b" " * padding + b"}", *[usual] * (count - 1)]
    texts = [*before, odd, nested(MAX_DEPTH), *before, b"{}", odd]
    block, found = odd_ones(texts)
    assert block.index(odd) + place == json_decoder._CACHED_BYTES + distance
    assert np.flatnonzero(found).tolist() == [count, len(texts) - 1]
