from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.exception import HoodieConfigException, HoodieSchemaException, HoodieSchemaProviderException
from hoodie.utilities.sources.helpers import proto_decoder
from hoodie.utilities.sources.helpers.proto_columns import ProtoOptions
from hoodie.utilities.sources.helpers.proto_decoder import ProtoDecoder
from hoodie.utilities.sources.source import DecodedBatch
from tests.support.avro_messages import messages_of

pytest.importorskip("google.protobuf", reason="pip install 'hoodie[protobuf]'")

from tests.support.proto_files import descriptor_set, field, message_class, trip_file

SET = descriptor_set(trip_file())
TRIP = message_class(SET, "trips.Trip")
DECODER = ProtoDecoder(SET, "trips.Trip", ProtoOptions(max_recursion_depth=2))
EMPTY: dict[str, Any] = {
    "a_double": 0.0, "a_float": 0.0, "a_int64": 0, "a_uint64": Decimal(0), "a_int32": 0, "a_fixed64": 0, "a_fixed32": 0,
    "a_bool": False, "a_string": "", "a_bytes": b"", "a_uint32": 0, "a_sfixed32": 0, "a_sfixed64": 0, "a_sint32": 0,
    "a_sint64": 0, "color": "RED", "at": None, "count": None, "tags": [], "point": None, "points": [], "fares": [],
    "left": None, "right": None, "maybe": None, "next": None, "instants": [],
}  # fmt: skip


def errors_of(batch: DecodedBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [] if batch.errors is None else batch.errors.to_pylist()
    return found


def rows_of(*messages: Any, decoder: ProtoDecoder = DECODER) -> list[dict[str, Any]]:
    found = decoder.decode(messages_of([one.SerializeToString() for one in messages]))
    found.rows.validate(full=True)
    assert errors_of(found) == []
    rows: list[dict[str, Any]] = found.rows.to_pylist()
    return rows


def test_columns_are_those_that_hudi_gives() -> None:
    types = {one.name: str(one.type) for one in DECODER.schema}
    assert {name: types[name] for name in ("a_uint32", "a_uint64", "a_fixed32", "color", "at", "count", "tags")} == {
        "a_uint32": "int64", "a_uint64": "decimal128(20, 0)", "a_fixed32": "int32", "color": "string",
        "at": "timestamp[us, tz=UTC]", "count": "int64", "tags": "list<element: string not null>",
    }  # fmt: skip
    nullable = [one.name for one in DECODER.schema if one.nullable]
    assert nullable == ["at", "count", "point", "left", "right", "maybe", "next"]


def test_a_message_without_values_has_the_defaults() -> None:
    assert rows_of(TRIP()) == [EMPTY]


def test_values_of_each_kind_are_read() -> None:
    trip = TRIP(
        a_double=1.5, a_float=0.5, a_int64=-(1 << 63), a_uint64=(1 << 64) - 1, a_int32=-5, a_fixed64=(1 << 64) - 2,
        a_fixed32=(1 << 32) - 3, a_bool=True, a_string="é", a_bytes=b"\xff", a_uint32=(1 << 32) - 1, a_sfixed32=-1,
        a_sfixed64=-2, a_sint32=-3, a_sint64=-4, color=1, tags=["a", ""], left=0, maybe=0,
    )  # fmt: skip
    trip.at.seconds, trip.at.nanos = -1, 999_999_999
    trip.count.value = 7
    trip.point.x = 2.5
    trip.points.add(x=1, color=1)
    trip.fares["b"].x = 4
    trip.fares["a"].x = 3
    trip.instants.add(seconds=1)
    [row] = rows_of(trip)
    assert row == EMPTY | {
        "a_double": 1.5, "a_float": 0.5, "a_int64": -(1 << 63), "a_uint64": Decimal((1 << 64) - 1), "a_int32": -5,
        "a_fixed64": -2, "a_fixed32": -3, "a_bool": True, "a_string": "é", "a_bytes": b"\xff",
        "a_uint32": (1 << 32) - 1, "a_sfixed32": -1, "a_sfixed64": -2, "a_sint32": -3, "a_sint64": -4, "color": "GREEN",
        "tags": ["a", ""], "left": 0, "maybe": 0, "count": 7, "point": {"x": 2.5, "color": "RED"},
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC), "points": [{"x": 1.0, "color": "GREEN"}],
        "fares": [
            {"key": "a", "value": {"x": 3.0, "color": "RED"}}, {"key": "b", "value": {"x": 4.0, "color": "RED"}},
        ],
        "instants": [dt.datetime(1970, 1, 1, 0, 0, 1, 0, dt.UTC)],
    }  # fmt: skip


def test_a_type_within_itself_is_unfolded_and_then_kept_as_bytes() -> None:
    trip = TRIP(a_int32=1)
    trip.next.a_int32 = 2
    trip.next.next.a_int32 = 3
    [row] = rows_of(trip)
    assert (row["a_int32"], row["next"]["a_int32"]) == (1, 2)
    deepest = row["next"]["next"]
    assert deepest["descriptor_full_name"] == "trips.Trip"
    assert TRIP.FromString(deepest["proto_bytes"]).a_int32 == 3
    assert rows_of(TRIP(a_int32=1), trip)[0]["next"] is None


def test_wrappers_and_timestamps_are_records_on_request() -> None:
    decoder = ProtoDecoder(SET, "trips.Trip", ProtoOptions(True, True, 1))
    trip = TRIP()
    trip.count.value = 7
    trip.at.seconds, trip.at.nanos = 5, 6
    [row] = rows_of(trip, decoder=decoder)
    assert (row["count"], row["at"]) == ({"value": 7}, {"seconds": 5, "nanos": 6})


def test_tombstones_give_no_row_and_rows_know_their_offsets() -> None:
    found = DECODER.decode(messages_of([None, b"", None, TRIP(a_int32=1).SerializeToString()]))
    assert found.rows["a_int32"].to_pylist() == [0, 1]
    assert found.origin is not None
    assert found.origin.numbers.tolist() == [102, 106]
    assert DECODER.decode(messages_of([None])).rows.schema.equals(DECODER.schema)


def test_bad_messages_become_errors_and_the_others_rows() -> None:
    late = TRIP()
    late.at.seconds = 1 << 60
    good = TRIP(a_int32=1).SerializeToString()
    bad = [
        good[:-1], b"\xff" * 10, TRIP(color=9).SerializeToString(), late.SerializeToString(),
        TRIP(points=[{"color": 5}]).SerializeToString(), b"\x4a\x01\xff",
    ]  # fmt: skip
    values: list[bytes | None] = [good]
    for one in bad:
        values += [one, good]
    found = DECODER.decode(messages_of(values))
    assert found.rows["a_int32"].to_pylist() == [1] * (len(bad) + 1)
    errors = errors_of(found)
    assert [error["offset"] for error in errors] == [102 + 4 * place for place in range(len(bad))]
    assert "the enum trips.Color has no value 9" in errors[2]["message"]
    assert "no microseconds of 64 bits" in errors[3]["message"]
    assert "the enum trips.Color has no value 5" in errors[4]["message"]
    assert {error["reason"] for error in errors} == {"AVRO_DESERIALIZATION_FAILURE"}


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=40), max_size=20))
@pytest.mark.one_in(4)
def test_whatever_bytes_come_every_message_is_a_row_or_an_error(values: list[bytes]) -> None:
    found = DECODER.decode(messages_of(values))
    found.rows.validate(full=True)
    assert found.origin is not None
    offsets = found.origin.numbers.tolist() + [error["offset"] for error in errors_of(found)]
    assert sorted(offsets) == [100 + 2 * place for place in range(len(values))]


def test_a_registrys_frame_is_taken_off_if_it_names_the_type() -> None:
    framed = ProtoDecoder(SET, "trips.Trip", ProtoOptions(), is_framed=True)
    content = TRIP(a_int32=5).SerializeToString()
    begin = b"\0" + struct.pack(">i", 7)
    # Trip is number 1 of its file, Point is number 0 within it.
    values = [
        begin + b"\x02\x02" + content,
        content,
        begin + b"\0" + content,
        begin + b"\x04\x02\x00" + content,
        begin + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        begin + b"\x7f",
    ]
    found = framed.decode(messages_of(values))
    assert found.rows["a_int32"].to_pylist() == [5]
    messages = [error["message"] for error in errors_of(found)]
    assert "without the registry's serializer" in messages[0]
    assert "another type than trips.Trip in its file: number [0]" in messages[1]
    assert "number [1, 0]" in messages[2]
    assert all("is damaged" in message for message in messages[3:])
    other = ProtoDecoder(SET, "trips.Trip.Point", ProtoOptions(), is_framed=True)
    assert other.decode(messages_of([begin + b"\x04\x02\x00"])).rows.to_pylist() == [{"x": 0.0, "color": "RED"}]


def test_a_decoder_can_be_pickled() -> None:
    copy: ProtoDecoder = pickle.loads(pickle.dumps(DECODER))
    assert rows_of(TRIP(a_int32=3), decoder=copy)[0]["a_int32"] == 3


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"\xff\xff", "trips.Trip", "is no descriptor set"),
        (descriptor_set(trip_file(), with_imports=False), "trips.Trip", "lacks files that its files import"),
        (SET, "trips.Nobody", "has no message trips.Nobody: it has .*trips.Trip"),
        (b"", "trips.Trip", "it has none"),
    ],
)
def test_a_file_without_the_message_is_refused(content: bytes, name: str, said: str) -> None:
    with pytest.raises(HoodieSchemaProviderException, match=said):
        assert ProtoDecoder(content, name).schema


def test_a_message_without_fields_or_with_too_many_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match=r"trips.Other has no fields"):
        assert ProtoDecoder(SET, "trips.Other").schema
    file = trip_file()
    for number in range(6):
        field(file.message_type[1], f"again{number}", ".trips.Trip", 100 + number)
    with pytest.raises(HoodieSchemaException, match=r"max.recursion.depth"):
        assert ProtoDecoder(descriptor_set(file), "trips.Trip", ProtoOptions(max_recursion_depth=9)).schema


def test_the_runtime_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_decoder, "descriptor_pb2", None)
    with pytest.raises(HoodieConfigException, match=r"pip install 'hoodie\[protobuf\]'"):
        assert ProtoDecoder(b"other", "trips.Trip").schema


def test_structs_that_are_null_have_no_values() -> None:
    trip = TRIP()
    trip.point.x = 1
    found = DECODER.decode(messages_of([TRIP().SerializeToString(), trip.SerializeToString()])).rows
    assert found["point"].to_pylist() == [None, {"x": 1.0, "color": "RED"}]
    assert found["point"].null_count == 1
    assert pa.types.is_struct(found["point"].type)
