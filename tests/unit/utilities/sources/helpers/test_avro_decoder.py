from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.exception import (
    HoodieReadFromSourceException,
    HoodieSchemaException,
    HoodieSchemaProviderException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.ingestion.error_event import ERROR_SCHEMA
from hoodie.utilities.schema.schema_registry_client import SchemaRegistryClient, parse_hosts
from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
from hoodie.utilities.sources.source import DecodedBatch
from tests.support.avro_messages import TRIP, datum, framed, messages_of
from tests.support.avro_values import number, record_of
from tests.support.schema_registry import StubRegistry, schema_registry

WANTED = json.dumps(TRIP)
LONGER = TRIP | {"fields": [*TRIP["fields"], {"name": "city", "type": "string", "default": "nowhere"}]}
RENAMED = record_of(("id", "string"), ("fare", "float"), ("old", {"type": "map", "values": "long"}), name="trip")


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as found:
        yield found


def client(registry: StubRegistry, attempts: int = 1) -> SchemaRegistryClient:
    config = SchemaRegistryClientConfig(timeout_ms=500, attempts=attempts)
    return SchemaRegistryClient(parse_hosts(registry.url, "schema.registry.url"), config)


def trip(uuid: str, fare: float | None = 1.5) -> dict[str, Any]:
    return {"uuid": uuid, "fare": fare, "tags": ["a", uuid]}


def errors_of(batch: DecodedBatch) -> list[dict[str, Any]]:
    if batch.errors is None:
        return []
    assert batch.errors.schema.equals(ERROR_SCHEMA)
    found: list[dict[str, Any]] = batch.errors.to_pylist()
    return found


def test_messages_become_rows_that_know_their_offsets(registry: StubRegistry) -> None:
    schema_id = registry.register("trips-value", WANTED)
    rows = [trip(f"u{number}", None if number % 3 else 2.5) for number in range(50)]
    decoder = AvroDecoder(WANTED, client(registry))
    found = decoder.decode(messages_of([framed(schema_id, datum(TRIP, row)) for row in rows]))
    assert found.rows.to_pylist() == rows
    assert found.rows.schema.equals(decoder.schema)
    assert found.errors is None
    assert found.origin is not None
    assert (found.origin.topic, found.origin.partition) == ("trips", 3)
    assert found.origin.numbers.tolist() == list(range(100, 200, 2))
    assert registry.requests == [f"/schemas/ids/{schema_id}"]


def test_tombstones_give_no_row(registry: StubRegistry) -> None:
    schema_id = registry.register("trips-value", WANTED)
    message = framed(schema_id, datum(TRIP, trip("a")))
    found = AvroDecoder(WANTED, client(registry)).decode(messages_of([None, message, None]))
    assert found.rows.to_pylist() == [trip("a")]
    assert found.origin is not None
    assert found.origin.numbers.tolist() == [102]
    assert AvroDecoder(WANTED, client(registry)).decode(messages_of([None])).rows.num_rows == 0
    assert AvroDecoder(WANTED, client(registry)).decode(messages_of([])).rows.schema.names == ["uuid", "fare", "tags"]


def test_messages_of_several_schemas_keep_their_order(registry: StubRegistry) -> None:
    wanted = json.loads(json.dumps(LONGER))
    wanted["fields"][0]["aliases"] = ["id"]
    ids = [registry.register("trips-value", json.dumps(schema)) for schema in (TRIP, LONGER, RENAMED)]
    values, rows = [], []
    for place in range(90):
        uuid = f"u{place}"
        if place % 3 == 0:
            values.append(framed(ids[0], datum(TRIP, trip(uuid))))
            rows.append(trip(uuid) | {"city": "nowhere"})
        elif place % 3 == 1:
            values.append(framed(ids[1], datum(LONGER, trip(uuid) | {"city": uuid})))
            rows.append(trip(uuid) | {"city": uuid})
        else:
            values.append(framed(ids[2], datum(RENAMED, {"id": uuid, "fare": 0.5, "old": {"x": 1}})))
            rows.append({"uuid": uuid, "fare": 0.5, "tags": [], "city": "nowhere"})
    found = AvroDecoder(json.dumps(wanted), client(registry)).decode(messages_of(values))
    assert found.errors is None
    assert found.rows.to_pylist() == rows
    assert found.origin is not None
    assert found.origin.numbers.tolist() == list(range(100, 280, 2))


def test_bad_messages_become_errors_and_the_others_rows(registry: StubRegistry) -> None:
    schema_id = registry.register("trips-value", WANTED)
    other = registry.register("other-value", json.dumps(record_of(("uuid", "boolean"))))
    protobuf = registry.register("proto-value", 'syntax = "proto3";', "PROTOBUF")
    good = framed(schema_id, datum(TRIP, trip("a")))
    plain = datum(TRIP, trip("a"))
    begin = number(1) + b"a" + number(0)
    bad = {
        b"": "it has 0 bytes",
        b"\0\0\0": "it has 3 bytes",
        b"\1" + good[1:]: "begins with the byte 0x01",
        b'{"uuid": "a"}': "begins with the byte 0x7b",
        framed(77, plain): "schema 77: .*has no /schemas/ids/77",
        framed((1 << 32) - 1, plain): "schema -1: ",
        framed(other, b"\1"): f"schema {other}: it cannot be read as the schema of the source: Field 'uuid'",
        framed(protobuf, plain): f"schema {protobuf} is one of PROTOBUF",
        good[:-1]: "cut short|greater than what is left",
        good + b"\0": "bytes follow the last field",
        framed(schema_id, number(1 << 40) + b"a"): "field 'uuid': a length is negative, or greater",
        framed(schema_id, number(-5) + b"a"): "field 'uuid': a length is negative",
        framed(schema_id, begin + number(1 << 40)): "more items announced",
        framed(schema_id, begin + number(-(1 << 40)) + number(1 << 40)): "a length is negative, or greater",
        framed(schema_id, number(1) + b"\xff" + number(0) + number(0)): "field 'uuid': a string is not UTF-8",
        framed(schema_id, number(1) + b"a" + number(7)): "field 'fare': there is no branch",
        framed(schema_id, b"\xff" * 40): "takes more than 64 bits",
        framed(schema_id, b""): "cut short",
    }
    values: list[bytes | None] = [good]
    for message in bad:
        values += [message, good]
    found = AvroDecoder(WANTED, client(registry)).decode(messages_of(values))
    assert found.rows.to_pylist() == [trip("a")] * (len(bad) + 1)
    errors = errors_of(found)
    assert [error["offset"] for error in errors] == [102 + 4 * place for place in range(len(bad))]
    for error, reason in zip(errors, bad.values(), strict=True):
        assert error["reason"] == "AVRO_DESERIALIZATION_FAILURE"
        assert (error["topic"], error["partition"]) == ("trips", 3)
        assert error["error_id"] == f"trips/3/{error['offset']}"
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(error["message"])


def test_an_error_has_the_json_of_its_message_where_avro_can_read_it(registry: StubRegistry) -> None:
    stored = record_of(
        ("uuid", ["null", "string"]), ("raw", "bytes"), ("day", {"type": "int", "logicalType": "date"}), name="trip"
    )
    schema_id = registry.register("trips-value", json.dumps(stored))
    row = {"uuid": None, "raw": b"\xffa", "day": 5}
    wanted = record_of(("uuid", "string"))
    values = [framed(schema_id, datum(stored, row)), framed(schema_id, datum(stored, row)[:1])]
    errors = errors_of(AvroDecoder(json.dumps(wanted), client(registry)).decode(messages_of(values)))
    assert json.loads(errors[0]["payload"]) == {"uuid": None, "raw": "\\xffa", "day": "1970-01-06"}
    assert "null, where the schema to read it as wants a value" in errors[0]["message"]
    assert errors[1]["payload"] == "\0\0\0\0\1\0"


def test_a_large_bad_message_does_not_fill_the_error_table(registry: StubRegistry) -> None:
    registry.register("trips-value", WANTED)
    huge = framed(1, b"\xff" * (3 << 20))
    [error] = errors_of(AvroDecoder(WANTED, client(registry)).decode(messages_of([huge])))
    assert error["payload"].endswith(f"... ({len(huge)} bytes)")
    assert len(error["payload"]) < 5 << 20


def test_a_registry_that_is_down_stops_the_round() -> None:
    with schema_registry() as registry:
        registry.register("trips-value", WANTED)
        decoder = AvroDecoder(WANTED, client(registry))
        message = framed(1, datum(TRIP, trip("a")))
        registry.status = 500
        with pytest.raises(HoodieSourceTimeoutException, match="status 500"):
            decoder.decode(messages_of([message]))
        registry.status = 403
        with pytest.raises(HoodieSchemaProviderException, match="status 403"):
            decoder.decode(messages_of([message]))
        registry.status = None
        assert decoder.decode(messages_of([message])).rows.num_rows == 1
    # Schemas that are known need no registry.
    assert decoder.decode(messages_of([message])).rows.num_rows == 1
    with pytest.raises(HoodieSourceTimeoutException, match="connection refused"):
        decoder.decode(messages_of([framed(2, b"")]))


def test_messages_of_another_registry_stop_the_round(registry: StubRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.utilities.sources.helpers.avro_decoder._MAX_UNKNOWN", 20)
    registry.register("trips-value", WANTED)
    good = framed(1, datum(TRIP, trip("a")))
    strange = [framed(number, b"x") for number in range(100, 130)]
    decoder = AvroDecoder(WANTED, client(registry))
    with pytest.raises(HoodieReadFromSourceException, match="lacks all of 21 schema ids .*topic trips, partition 3"):
        decoder.decode(messages_of(strange))
    assert len(registry.requests) == 21
    found = decoder.decode(messages_of([*strange, good, good]))
    assert found.rows.num_rows == 2
    assert len(errors_of(found)) == 30


def test_a_schema_that_is_registered_later_is_found_later(registry: StubRegistry) -> None:
    decoder = AvroDecoder(WANTED, client(registry))
    message = framed(1, datum(TRIP, trip("a")))
    assert len(errors_of(decoder.decode(messages_of([message])))) == 1
    registry.register("trips-value", WANTED)
    assert errors_of(decoder.decode(messages_of([message]))) == []


def test_a_decoder_can_be_pickled(registry: StubRegistry) -> None:
    registry.register("trips-value", WANTED)
    message = framed(1, datum(TRIP, trip("a")))
    decoder: AvroDecoder = pickle.loads(pickle.dumps(AvroDecoder(WANTED, client(registry))))
    assert decoder.decode(messages_of([message])).rows.to_pylist() == [trip("a")]


def test_bare_messages_are_read_with_the_schema_given() -> None:
    rows = [trip("a"), trip("b", None)]
    values = [datum(TRIP, row) for row in rows]
    assert AvroDecoder(WANTED).decode(messages_of(values)).rows.to_pylist() == rows
    decoder = AvroDecoder(json.dumps(LONGER), written_schema=WANTED)
    found = decoder.decode(messages_of([*values, b"", values[0] + b"x"]))
    assert found.rows.to_pylist() == [row | {"city": "nowhere"} for row in rows]
    assert [error["offset"] for error in errors_of(found)] == [104, 106]


def test_unions_of_several_types_are_structs_of_members() -> None:
    schema = record_of(("u", ["null", "string", "long"]))
    values = [datum(schema, {"u": value}) for value in ("x", 5, None)]
    decoder = AvroDecoder(json.dumps(schema))
    assert decoder.schema.field("u").type == pa.struct({"member0": pa.string(), "member1": pa.int64()})
    assert decoder.decode(messages_of(values)).rows["u"].to_pylist() == [
        {"member0": "x", "member1": None}, {"member0": None, "member1": 5}, None,
    ]  # fmt: skip


def test_meta_columns_of_a_table_are_not_columns_of_messages() -> None:
    meta = {"name": "_hoodie_commit_time", "type": ["null", "string"], "default": None}
    decoder = AvroDecoder(json.dumps(TRIP | {"fields": [meta, *TRIP["fields"]]}), written_schema=WANTED)
    assert decoder.schema.names == ["uuid", "fare", "tags"]
    assert decoder.decode(messages_of([datum(TRIP, trip("a"))])).rows.to_pylist() == [trip("a")]


def test_a_schema_without_columns_for_its_types_is_refused_at_once() -> None:
    with pytest.raises(HoodieSchemaException, match="a record that holds itself"):
        AvroDecoder(json.dumps(record_of(("next", ["null", "r"]))))


def test_many_messages_are_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.utilities.sources.helpers.avro_decoder._PIECE_BYTES", 100)
    rows = [trip("x" * (place % 7)) for place in range(300)]
    values: list[bytes | None] = [datum(TRIP, row) for row in rows]
    values[10] = None
    values[20] = b"\xff" * 300
    found = AvroDecoder(WANTED).decode(messages_of(values))
    assert found.rows.to_pylist() == [row for place, row in enumerate(rows) if place not in (10, 20)]
    assert [error["offset"] for error in errors_of(found)] == [140]
    assert found.origin is not None
    assert found.origin.numbers.tolist() == [100 + 2 * place for place in range(300) if place not in (10, 20)]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.one_in(4)
def test_whatever_bytes_come_every_message_is_a_row_or_an_error(registry: StubRegistry, data: st.DataObject) -> None:
    ids = [registry.register("trips-value", json.dumps(schema)) for schema in (TRIP, LONGER, RENAMED)]
    good = framed(ids[0], datum(TRIP, trip("a")))

    def damaged(place: int, byte: int) -> bytes:
        return good[:place] + bytes([byte]) + good[place + 1 :]

    one = st.one_of(
        st.just(good),
        st.binary(max_size=30),
        st.builds(framed, st.sampled_from([*ids, 9]), st.binary(max_size=30)),
        st.builds(damaged, st.integers(0, len(good)), st.integers(0, 255)),
    )
    values = data.draw(st.lists(one, max_size=60))
    found = AvroDecoder(WANTED, client(registry)).decode(messages_of(values))
    found.rows.validate(full=True)
    assert found.origin is not None
    offsets = found.origin.numbers.tolist() + [error["offset"] for error in errors_of(found)]
    assert sorted(offsets) == [100 + 2 * place for place in range(len(values))]
    kept = dict(zip(found.origin.numbers.tolist(), found.rows.to_pylist(), strict=True))
    assert all(kept[100 + 2 * place] == trip("a") for place, value in enumerate(values) if value == good)


def test_hostile_messages_take_little_memory(tmp_path: Path) -> None:
    """A process that may take 2 GB of addresses more than it has decodes messages that announce more."""
    nulls = record_of(("a", "string"), ("b", {"type": "array", "items": record_of(("n", ["null", "int"]), name="i")}))
    program = f"""
        import json, resource
        from pathlib import Path
        from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
        from tests.support.avro_messages import messages_of
        from tests.support.avro_values import number
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (2 << 30),) * 2)
        begin = number(1) + b"a"
        good = begin + number(0)
        hostile = [
            begin + number(1 << 40), begin + number(1 << 62), begin + number(-1) + number(1 << 62),
            number(1 << 40), begin + number(1 << 31) + b"\\0" * 1000, b"\\0" * (20 << 20),
            begin + number(10 << 20) + b"\\0" * (10 << 20) + number(0),
        ]
        found = AvroDecoder({json.dumps(nulls)!r}).decode(messages_of([good, *hostile, good]))
        print(found.rows.num_rows, len(found.errors))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=100
    )
    assert found.stdout.split() == ["3", "6"], found.stderr[-2000:]


def test_an_array_of_nothing_is_refused_as_a_schema() -> None:
    schema = json.dumps(record_of(("a", {"type": "array", "items": record_of(("n", "null"), name="nothing")})))
    with pytest.raises(HoodieSchemaException, match="its items take no bytes"):
        AvroDecoder(schema)


def test_messages_with_an_array_of_nothing_are_errors(registry: StubRegistry) -> None:
    nothing = record_of(("n", "null"), name="nothing")
    written = record_of(("uuid", "string"), ("n", {"type": "array", "items": nothing}), name="trip")
    schema_id = registry.register("trips-value", json.dumps(written))
    bomb = framed(schema_id, number(1) + b"a" + number(1 << 60) + number(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    [error] = errors_of(
        AvroDecoder(json.dumps(record_of(("uuid", "string"))), client(registry)).decode(messages_of([bomb]))
    )
    assert "its items take no bytes" in error["message"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 30


def test_offsets_may_be_any_numbers() -> None:
    messages = messages_of([datum(TRIP, trip("a"))], first_offset=(1 << 62) + 1)
    found = AvroDecoder(WANTED).decode(messages)
    assert found.origin is not None
    assert found.origin.numbers.dtype == np.int64
    assert found.origin.numbers.tolist() == [(1 << 62) + 1]
