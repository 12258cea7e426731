"""Record keys of tombstones, as texts and as a schema registry's serializer writes them."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieSourceTimeoutException
from hoodie.utilities.config.kafka_source_config import KafkaSourceConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers.message_decoder import Messages
from hoodie.utilities.sources.helpers.tombstone_keys import FoundKeys, TombstoneKeys, tombstone_keys_of
from tests.support.schema_registry import StubRegistry, schema_registry

COLUMNS = pa.schema([("v", pa.float64()), ("id", pa.string()), ("n", pa.int64())])
PREFIX = "hoodie.streamer.source.kafka.tombstones"
RECORD = {
    "type": "record",
    "name": "k",
    "fields": [
        {"name": "more", "type": "int"},
        {"name": "n", "type": "int"},
        {"name": "id", "type": ["null", "string"]},
    ],
}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as running:
        yield running


def keys_of(registry: StubRegistry | None, *fields: str, **more: str) -> TombstoneKeys:
    form = {} if registry is None else {f"{PREFIX}.keys": "registry", "schema.registry.url": registry.url}
    properties = StreamerProperties({PREFIX: "delete", **form, **more})
    found = tombstone_keys_of(properties.read(KafkaSourceConfig), fields, properties)
    assert found is not None
    return found


def messages(keys: Sequence[bytes | None], first: int = 100) -> Messages:
    """Tombstones with these keys, behind a message that has a value."""
    count = len(keys) + 1
    offsets = np.arange(first, first + count, dtype=np.int64)
    return Messages("t", 0, offsets, [b"{}", *[None] * len(keys)], [b"x", *keys], np.zeros(count, np.int64))


def framed(schema_id: int, content: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + content


def avro(schema: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def rows_of(found: FoundKeys) -> dict[int, dict[str, Any]]:
    """The rows by the numbers of their messages."""
    return dict(zip(found.places.tolist(), found.rows.to_pylist(), strict=True))


def test_keys_of_avro_records_are_found_by_their_names(registry: StubRegistry) -> None:
    first = registry.register("t-key", json.dumps(RECORD))
    narrow = RECORD | {"fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}]}
    second = registry.register("t-key", json.dumps(narrow))
    reader = pickle.loads(pickle.dumps(keys_of(registry, "id", "n")))
    found = reader.read(
        messages(
            [
                framed(second, avro(narrow, {"id": "b", "n": 2**40})),
                framed(first, avro(RECORD, {"more": 1, "n": 7, "id": "a"})),
                framed(first, avro(RECORD, {"more": 1, "n": 7, "id": None})),
                framed(second, avro(narrow, {"id": "c", "n": 3})),
            ]
        ),
        COLUMNS,
    )
    assert rows_of(found) == {1: {"id": "b", "n": 2**40}, 2: {"id": "a", "n": 7}, 4: {"id": "c", "n": 3}}
    assert found.rows.schema == pa.schema([("id", pa.string()), ("n", pa.int64())])
    assert list(found.failures) == [3]
    assert f"schema {first}" in found.failures[3]


@pytest.mark.parametrize(
    ("schema", "value", "column"),
    [
        ("string", "a", pa.string()),
        ({"type": "string"}, "a", pa.string()),
        ("int", 5, pa.int64()),
        (["null", "long"], 5, pa.int64()),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
            pa.timestamp("us", "UTC"),
        ),
    ],
)
def test_a_key_of_one_value_is_the_one_field_of_the_record_key(
    registry: StubRegistry, schema: Any, value: Any, column: pa.DataType
) -> None:
    number = registry.register("t-key", json.dumps(schema))
    found = keys_of(registry, "key").read(messages([framed(number, avro(schema, value))]), pa.schema([("key", column)]))
    assert rows_of(found) == {1: {"key": value}}
    assert found.failures == {}


def test_keys_of_a_json_schema_are_texts_behind_a_frame(registry: StubRegistry) -> None:
    of_json = registry.register("t-key", '{"type": "object"}', "JSON")
    of_avro = registry.register("t-key", '"string"')
    found = keys_of(registry, "id").read(
        messages([framed(of_avro, avro("string", "x")), framed(of_json, b'{"id": "y"}'), framed(of_json, b'"z"')]),
        COLUMNS,
    )
    assert rows_of(found) == {1: {"id": "x"}, 2: {"id": "y"}, 3: {"id": "z"}}


def test_keys_that_are_not_what_they_should_be_are_told_one_by_one(registry: StubRegistry) -> None:
    number = registry.register("t-key", '"string"')
    proto = registry.register("t-key", "message m {}", "PROTOBUF")
    other = registry.register("t-key", json.dumps({"type": "record", "name": "o", "fields": []}))
    good = framed(number, avro("string", "a"))
    bad = [
        (b"plain", "no zero with a schema id"),
        (b"\0\0\0", "it has 3 bytes"),
        (None, "it has none"),
        (framed(99, b"\x02a"), "schema 99"),
        (framed(proto, b""), "one of PROTOBUF"),
        (good + b"\x01", f"schema {number}"),
        (good[:-1], f"schema {number}"),
        (framed(number, b"\x02\xff"), f"schema {number}"),
        (framed(other, b""), f"schema {other}: it cannot be read as"),
    ]
    found = keys_of(registry, "id").read(messages([*(key for key, _ in bad), good]), COLUMNS)
    assert rows_of(found) == {len(bad) + 1: {"id": "a"}}
    assert sorted(found.failures) == list(range(1, len(bad) + 1))
    for place, (_, text) in enumerate(bad, 1):
        assert text in found.failures[place]


def test_several_fields_of_a_record_key_need_a_record(registry: StubRegistry) -> None:
    number = registry.register("t-key", '"string"')
    found = keys_of(registry, "id", "n").read(messages([framed(number, avro("string", "a"))]), COLUMNS)
    assert list(found.failures) == [1]
    assert len(found.rows) == 0


def test_keys_in_frames_are_not_read_unless_that_is_asked_for(registry: StubRegistry) -> None:
    number = registry.register("t-key", '"string"')
    reader = keys_of(None, "id", **{"schema.registry.url": registry.url})
    found = reader.read(messages([framed(number, avro("string", "a")), (7 << 24).to_bytes(8), b"b"]), COLUMNS)
    assert rows_of(found) == {3: {"id": "b"}}
    assert all("begins with a zero" in reason for reason in found.failures.values())
    assert all(f"{PREFIX}.keys = registry" in reason for reason in found.failures.values())
    assert registry.requests == []


def test_a_registry_needs_a_url_and_has_to_answer(registry: StubRegistry) -> None:
    properties = StreamerProperties({PREFIX: "delete", f"{PREFIX}.keys": "registry"})
    with pytest.raises(HoodieConfigException, match=r"tombstones\.keys = registry needs schema\.registry\.url"):
        tombstone_keys_of(properties.read(KafkaSourceConfig), ("id",), properties)
    registry.status = 503
    reader = keys_of(registry, "id", **{"hoodie.streamer.schemaprovider.registry.attempts": "1"})
    with pytest.raises(HoodieSourceTimeoutException, match="does not answer"):
        reader.read(messages([framed(1, b"\x02a")]), COLUMNS)
