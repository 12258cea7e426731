"""Change events of Debezium in topics of a real broker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

import hoodie
from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import Source, SourceContext, read_all
from hoodie.utilities.sources.sources import make_source
from tests.support.kafka_broker import KafkaBroker
from tests.support.schema_registry import StubRegistry, schema_registry
from tests.support.streamer_runs import run_once

pytestmark = pytest.mark.kafka

POSTGRES = "org.apache.hudi.utilities.sources.debezium.PostgresDebeziumSource"
MYSQL = "MysqlDebeziumSource"
KAFKA = "hoodie.streamer.source.kafka."
JSON = {f"{KAFKA}value.deserializer.class": "org.apache.kafka.common.serialization.StringDeserializer"}
SOURCE = {"name": "server", "schema": "public", "ts_ms": 4, "txId": 5, "lsn": 7, "xmin": None, "connector": "p"}
ENVELOPE = json.dumps(
    {
        "type": "record", "name": "Envelope", "namespace": "server.public.trips", "fields": [
            {"name": "before", "default": None, "type": ["null", {
                "type": "record", "name": "Value", "fields": [
                    {"name": "id", "type": "long"},
                    {"name": "city", "type": ["null", "string"], "default": None},
                ],
            }]},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {
                "type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql", "fields": [
                    {"name": "name", "type": "string"},
                    {"name": "schema", "type": "string"},
                    {"name": "ts_ms", "type": "long"},
                    {"name": "txId", "type": ["null", "long"], "default": None},
                    {"name": "lsn", "type": ["null", "long"], "default": None},
                    {"name": "xmin", "type": ["null", "long"], "default": None},
                ],
            }},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }
)  # fmt: skip


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as running:
        yield running


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "ts_ms": 6, "before": before, "after": after, "source": SOURCE}


EVENTS = [
    event("c", None, {"id": 1, "city": "oslo"}),
    event("u", {"id": 1, "city": "oslo"}, {"id": 1, "city": "rome"}),
    event("d", {"id": 1, "city": "rome"}, None),
]


def framed(schema_id: int, value: dict[str, Any]) -> bytes:
    """An event as the serializer of a schema registry writes it."""
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(json.loads(ENVELOPE)), value)
    return b"\0" + schema_id.to_bytes(4, "big") + written.getvalue()


def source_of(
    broker: KafkaBroker, topic: str, name: str = POSTGRES, table: pa.Schema | None = None, **given: str
) -> Source:
    properties = {
        "bootstrap.servers": broker.address(), "auto.offset.reset": "earliest", f"{KAFKA}topic": topic, **given,
    }  # fmt: skip
    return make_source(name, SourceContext(StreamerProperties(properties), load_table_schema=lambda: table))


def read(source: Source, checkpoint: Checkpoint | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    batch = source.fetch(checkpoint, None)
    source.close()
    rows, errors = read_all(batch)
    return rows.to_pylist(), [row for one in errors for row in one.to_pylist()]


def test_json_events_need_no_schema(broker: KafkaBroker) -> None:
    topic = broker.topic()
    broker.produce(topic, [json.dumps(one).encode() for one in EVENTS] + [None])

    rows, errors = read(source_of(broker, topic, **JSON))

    assert errors == []
    assert [(row["_change_operation_type"], row["id"], row["city"], row["_hoodie_is_deleted"]) for row in rows] == [
        ("c", 1, "oslo", False), ("u", 1, "rome", False), ("d", 1, "rome", True),
    ]  # fmt: skip
    assert rows[0]["_event_lsn"] == 7


def test_deletes_are_marked_in_new_tables_and_types_of_the_table_count(broker: KafkaBroker) -> None:
    topic = broker.topic()
    wrapped = {"schema": {"type": "struct"}, "payload": EVENTS[0]}
    broker.produce(topic, [json.dumps(wrapped).encode()])
    table = pa.schema([("_event_lsn", pa.int64()), ("id", pa.int32()), ("city", pa.string()), ("later", pa.string())])
    source = source_of(broker, topic, **JSON, **{"hoodie.streamer.source.debezium.mark.deletes": "false"})
    known = source_of(broker, topic, table=table, **JSON)

    assert "_hoodie_is_deleted" not in source.fetch(None, None).schema.names  # type: ignore[union-attr]
    schema = known.fetch(None, None).schema
    assert schema is not None
    assert schema.field("id").type == pa.int32()
    assert "later" in schema.names
    assert "_hoodie_is_deleted" not in schema.names
    source.close()
    assert read(known)[0][0]["city"] == "oslo"


def test_avro_events_have_the_schema_of_the_registry(broker: KafkaBroker, registry: StubRegistry) -> None:
    topic = broker.topic()
    number = registry.register(f"{topic}-value", ENVELOPE)
    broker.produce(topic, [framed(number, one) for one in EVENTS] + [None, b"no event"])

    for given in (
        {},
        {"hoodie.deltastreamer.schemaprovider.registry.url": f"{registry.url}/subjects/{topic}-value/versions/latest"},
    ):
        rows, errors = read(source_of(broker, topic, **{"schema.registry.url": registry.url, **given}))

        assert [(row["_change_operation_type"], row["id"], row["city"]) for row in rows] == [
            ("c", 1, "oslo"), ("u", 1, "rome"), ("d", 1, "rome"),
        ]  # fmt: skip
        assert [error["offset"] for error in errors] == [4]


def test_events_of_mysql(broker: KafkaBroker) -> None:
    topic = broker.topic()
    source = {"name": "server", "ts_ms": 4, "file": "mysql-bin.000012", "pos": 345, "row": 0}
    broker.produce(topic, [json.dumps(event("c", None, {"id": 1}) | {"source": source}).encode()])

    rows, _ = read(source_of(broker, topic, MYSQL, **JSON))

    assert rows[0]["_event_seq"] == "000012.345"


def test_the_position_can_be_overridden(broker: KafkaBroker) -> None:
    topic = broker.topic()
    broker.produce(topic, [json.dumps(EVENTS[0]).encode()])
    source = source_of(broker, topic, **JSON, **{"hoodie.debezium.override.initial.checkpoint.key": f"{topic},0:0"})

    assert source.fetch(None, None).checkpoint == Checkpoint(f"{topic},0:0")
    source.close()


def test_what_is_missing_is_named(broker: KafkaBroker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"{}"])
    with pytest.raises(HoodieConfigException, match="give schema.registry.url; for events in JSON give"):
        source_of(broker, topic)
    source = source_of(broker, topic, **JSON)
    with pytest.raises(HoodieSchemaProviderException, match="none of its first events has a row"):
        source.fetch(None, None)
    source.close()


@pytest.mark.parametrize("has_payload", [True, False])
def test_a_table_follows_the_changes_of_a_database(broker: KafkaBroker, tmp_path: Path, has_payload: bool) -> None:
    topic = broker.topic()
    properties = JSON | {
        "bootstrap.servers": broker.address(), "auto.offset.reset": "earliest", f"{KAFKA}topic": topic,
        "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "city",
    }  # fmt: skip
    flags: dict[str, Any] = {"source_class": POSTGRES, "source_ordering_fields": "_event_lsn"}
    if has_payload:
        flags["payload_class"] = "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload"
    rounds = [
        [("c", None, row, number) for number, row in enumerate([1, 2, 3], 1)],
        [("u", 1, 1, 9), ("d", 2, None, 10)],
        [("u", 1, 1, 8), ("d", 3, None, 12), ("c", None, 4, 13)],
    ]
    for events in rounds:
        values = []
        for op, before, after, lsn in events:
            rows = [None if key is None else {"id": key, "city": "oslo", "lsn": lsn} for key in (before, after)]
            values.append(json.dumps(event(op, *rows) | {"source": SOURCE | {"lsn": lsn}}).encode())
        broker.produce(topic, values)
        run_once(tmp_path / "t", properties, **flags)

    found = hoodie.read_table(str(tmp_path / "t"), columns=["id", "lsn"]).to_pylist()
    assert sorted((row["id"], row["lsn"]) for row in found) == [(1, 9), (4, 13)]
