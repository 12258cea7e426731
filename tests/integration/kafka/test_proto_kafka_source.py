"""Protobuf messages of a real broker."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.class_names import SOURCES, find_class
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.source import Source, SourceContext, read_all
from tests.support.kafka_broker import KafkaBroker

pytest.importorskip("google.protobuf", reason="pip install 'hoodie[protobuf]'")

from tests.support.proto_files import descriptor_set, field, message_class, trip_file

pytestmark = pytest.mark.kafka

KAFKA = "hoodie.streamer.source.kafka."


def source(broker: KafkaBroker, topic: str, **more: str) -> Source:
    given = {
        "bootstrap.servers": broker.address(),
        "auto.offset.reset": "earliest",
        "default.api.timeout.ms": "20000",
        f"{KAFKA}topic": topic,
    } | more
    found = find_class("org.apache.hudi.utilities.sources.ProtoKafkaSource", SOURCES, "--source-class", Source)
    return found(SourceContext(StreamerProperties(given)))


def test_messages_are_rows_and_the_file_may_grow(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = broker.topic()
    path = tmp_path / "trips.desc"
    path.write_bytes(descriptor_set(trip_file()))
    trip = message_class(path.read_bytes(), "trips.Trip")
    broker.produce(topic, [trip(a_string="a").SerializeToString(), b"\xff", trip(a_string="b").SerializeToString()])
    reading = source(
        broker,
        topic,
        **{
            f"{KAFKA}proto.descriptor.file": f"file://{path}",
            f"{KAFKA}proto.message.name": "trips.Trip",
            f"{KAFKA}append.offsets": "true",
        },
    )
    first = reading.fetch(None, None)
    rows, errors = read_all(pickle.loads(pickle.dumps(first)))
    assert rows["a_string"].to_pylist() == ["a", "b"]
    assert rows["_hoodie_kafka_source_offset"].to_pylist() == [0, 2]
    assert [error["offset"] for batch in errors for error in batch.to_pylist()] == [1]
    longer = trip_file()
    field(longer.message_type[1], "city", "string", 40)
    path.write_bytes(descriptor_set(longer))
    longer_trip = message_class(path.read_bytes(), "trips.Trip")
    broker.produce(topic, [longer_trip(a_string="c", city="x").SerializeToString()])
    rows, _ = read_all(reading.fetch(first.checkpoint, None))
    assert rows.select(["a_string", "city"]).to_pylist() == [{"a_string": "c", "city": "x"}]
    reading.close()


def test_the_file_and_the_name_are_asked_for(broker: KafkaBroker, tmp_path: Path) -> None:
    java = {"hoodie.deltastreamer.schemaprovider.proto.class.name": "com.example.Trip"}
    with pytest.raises(
        HoodieConfigException, match=r"proto.descriptor.file.*protoc.*com.example.Trip is a class of Java"
    ):
        source(broker, "nothing", **java)
    topic = broker.topic()
    broker.produce(topic, [b""])
    reading = source(
        broker, topic, **{f"{KAFKA}proto.descriptor.file": f"{tmp_path}/no.desc", f"{KAFKA}proto.message.name": "a.B"}
    )
    with pytest.raises(HoodieSchemaProviderException, match=r"There is no descriptor set .*no.desc"):
        reading.fetch(None, None)
    reading.close()
