"""Avro messages of a real broker: schemas of a registry, bare messages, bad ones, a schema that grows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import HoodieConfigException, HoodieSourceTimeoutException
from hoodie.utilities.class_names import SOURCES, find_class
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_providers import make_schema_provider
from hoodie.utilities.sources.avro_kafka_source import AvroKafkaSource
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import Source, SourceContext, read_all
from tests.support.avro_messages import TRIP, datum, framed
from tests.support.kafka_broker import KafkaBroker
from tests.support.schema_registry import StubRegistry, schema_registry

pytestmark = pytest.mark.kafka

KAFKA = "hoodie.streamer.source.kafka."
PROVIDER = "hoodie.streamer.schemaprovider."
LONGER = TRIP | {"fields": [*TRIP["fields"], {"name": "city", "type": "string", "default": "nowhere"}]}


def trip(uuid: str, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "fare": 2.5, "tags": ["x"]} | more


class Rounds:
    """Rounds of a topic, one after the other."""

    def __init__(
        self, broker: KafkaBroker, topic: str, registry: StubRegistry | None, provider: str | None = None, **more: str
    ) -> None:
        given = {
            "bootstrap.servers": broker.address(),
            "auto.offset.reset": "earliest",
            "default.api.timeout.ms": "20000",
            f"{KAFKA}topic": topic,
            f"{PROVIDER}registry.attempts": "1",
        } | more
        if registry is not None:
            given["schema.registry.url"] = registry.url
            given[f"{PROVIDER}registry.url"] = f"{registry.url}/subjects/{topic}-value/versions/latest"
        properties = StreamerProperties(given)
        self.provider: SchemaProvider | None = make_schema_provider(provider, properties)
        named = find_class("org.apache.hudi.utilities.sources.AvroKafkaSource", SOURCES, "--source-class", Source)
        assert named is AvroKafkaSource
        self.source = AvroKafkaSource(SourceContext(properties, self.provider))
        self.checkpoint: Checkpoint | None = None

    def run(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows and errors of a round; the position moves, and the provider is refreshed."""
        batch = self.source.fetch(self.checkpoint, None)
        rows, errors = read_all(pickle.loads(pickle.dumps(batch)))
        self.checkpoint = batch.checkpoint
        if self.provider is not None:
            self.provider.refresh()
        return rows.to_pylist(), [error for some in errors for error in some.to_pylist()]


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as found:
        yield found


def test_a_new_column_appears_without_a_restart(broker: KafkaBroker, registry: StubRegistry) -> None:
    topic = broker.topic()
    registry.register(f"{topic}-value", json.dumps(TRIP))
    rounds = Rounds(broker, topic, registry, "org.apache.hudi.utilities.schema.SchemaRegistryProvider")
    broker.produce(topic, [framed(1, datum(TRIP, trip("a")))])
    assert rounds.run() == ([trip("a")], [])
    registry.register(f"{topic}-value", json.dumps(LONGER))
    broker.produce(topic, [framed(1, datum(TRIP, trip("b"))), framed(2, datum(LONGER, trip("c", city="x")))])
    assert rounds.run() == ([trip("b", city="nowhere"), trip("c", city="x")], [])
    rounds.source.close()


def test_bad_messages_do_not_stop_the_others(broker: KafkaBroker, registry: StubRegistry) -> None:
    topic = broker.topic()
    schema_id = registry.register(f"{topic}-value", json.dumps(TRIP))
    good = framed(schema_id, datum(TRIP, trip("a")))
    bad = [b"{}", framed(9, b"x"), good[:-1], good + b"\0", framed(schema_id, b"\xff" * 20), b""]
    broker.produce(topic, [good, *bad, None, good])
    rounds = Rounds(broker, topic, registry)
    rows, errors = rounds.run()
    assert rows == [trip("a"), trip("a")]
    assert [error["error_id"] for error in errors] == [f"{topic}/0/{offset}" for offset in range(1, len(bad) + 1)]
    assert {error["reason"] for error in errors} == {"AVRO_DESERIALIZATION_FAILURE"}
    assert rounds.checkpoint is not None
    assert rounds.checkpoint.position == f"{topic},0:{len(bad) + 3}"
    rounds.source.close()


def test_a_registry_that_is_down_stops_the_round_and_the_next_one_resumes(broker: KafkaBroker) -> None:
    topic = broker.topic()
    with schema_registry() as registry:
        registry.register(f"{topic}-value", json.dumps(TRIP))
        broker.produce(topic, [framed(1, datum(TRIP, trip("a")))])
        rounds = Rounds(broker, topic, registry)
        registry.status = 503
        with pytest.raises(HoodieSourceTimeoutException, match="schema registry does not answer"):
            rounds.run()
        registry.status = None
        assert rounds.run() == ([trip("a")], [])
    rounds.source.close()


def test_bare_messages_with_columns_of_the_message(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = broker.topic()
    (tmp_path / "trip.avsc").write_text(json.dumps(TRIP))
    broker.produce(topic, [datum(TRIP, trip("a")), None, b"\0", datum(TRIP, trip("b"))])
    rounds = Rounds(
        broker,
        topic,
        None,
        "FilebasedSchemaProvider",
        **{
            f"{PROVIDER}source.schema.file": f"file://{tmp_path}/trip.avsc",
            f"{KAFKA}value.deserializer.class": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
            f"{KAFKA}append.offsets": "true",
        },
    )
    rows, errors = rounds.run()
    assert [(row["uuid"], row["_hoodie_kafka_source_offset"]) for row in rows] == [("a", 0), ("b", 3)]
    assert [error["offset"] for error in errors] == [2]
    rounds.source.close()


def test_the_url_of_the_registry_is_asked_for_at_the_start(broker: KafkaBroker) -> None:
    with pytest.raises(HoodieConfigException, match="need schema.registry.url"):
        Rounds(broker, "nothing", None)
