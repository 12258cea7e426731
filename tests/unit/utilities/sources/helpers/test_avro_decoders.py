from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException, HoodieSourceTimeoutException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_providers import make_schema_provider
from hoodie.utilities.sources.helpers.avro_decoders import AvroDecoders
from hoodie.utilities.sources.source import SourceContext
from tests.support.avro_messages import TRIP, datum, framed, messages_of
from tests.support.schema_registry import StubRegistry, schema_registry

KAFKA = "hoodie.streamer.source.kafka."
PROVIDER = "hoodie.streamer.schemaprovider."
LONGER = TRIP | {"fields": [*TRIP["fields"], {"name": "city", "type": "string", "default": "nowhere"}]}
ROW = {"uuid": "a", "fare": None, "tags": []}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as found:
        yield found


def decoders(registry: StubRegistry | None, provider: str | None = None, **properties: str) -> AvroDecoders:
    given = {} if registry is None else {"schema.registry.url": registry.url}
    given |= {f"{PROVIDER}registry.attempts": "1"} | properties
    found = StreamerProperties(given)
    return AvroDecoders(SourceContext(found, make_schema_provider(provider, found)), "trips")


def rows(made: AvroDecoders, *values: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made.decoder().decode(messages_of(values)).rows.to_pylist()
    return found


def test_the_provider_of_a_registry_tells_the_columns_of_each_round(registry: StubRegistry) -> None:
    registry.register("trips-value", json.dumps(TRIP))
    properties = StreamerProperties(
        {
            "schema.registry.url": registry.url,
            f"{PROVIDER}registry.url": f"{registry.url}/subjects/trips-value/versions/latest",
        }
    )
    provider = make_schema_provider("SchemaRegistryProvider", properties)
    assert provider is not None
    made = AvroDecoders(SourceContext(properties, provider), "trips")
    old = framed(1, datum(TRIP, ROW))
    assert rows(made, old) == [ROW]
    registry.register("trips-value", json.dumps(LONGER))
    new = framed(2, datum(LONGER, ROW | {"city": "x"}))
    # Within a round, the schema stays.
    assert rows(made, old, new) == [ROW, ROW]
    provider.refresh()
    assert rows(made, old, new) == [ROW | {"city": "nowhere"}, ROW | {"city": "x"}]
    # The schemas of messages are asked for once in a run, and the newest one once in a round.
    assert sorted(registry.requests) == [
        "/schemas/ids/1", "/schemas/ids/2", *["/subjects/trips-value/versions/latest"] * 2,
    ]  # fmt: skip


def test_the_subject_of_the_topic_tells_the_columns_without_a_provider(registry: StubRegistry) -> None:
    registry.register("trips-value", json.dumps(TRIP))
    registry.register("trips-value", json.dumps(LONGER))
    assert rows(decoders(registry), framed(1, datum(TRIP, ROW))) == [ROW | {"city": "nowhere"}]
    registry.subjects.clear()
    with pytest.raises(HoodieSchemaProviderException, match="has no /subjects/trips-value/versions/latest"):
        decoders(registry).decoder()
    registry.register("trips-value", '{"type": "object"}', "JSON")
    with pytest.raises(HoodieSchemaProviderException, match="subject trips-value there is no Avro record"):
        decoders(registry).decoder()


def test_a_property_tells_the_schema_without_a_provider(registry: StubRegistry) -> None:
    registry.register("trips-value", json.dumps(TRIP))
    for prefix in ("hoodie.streamer.", "hoodie.deltastreamer."):
        made = decoders(
            registry,
            **{
                f"{prefix}source.kafka.value.deserializer.class": "org.apache.hudi.utilities.deser."
                "KafkaAvroSchemaDeserializer",
                f"{prefix}source.kafka.value.deserializer.schema": json.dumps(LONGER),
            },
        )
        assert rows(made, framed(1, datum(TRIP, ROW))) == [ROW | {"city": "nowhere"}]


def test_bare_messages_are_written_with_the_schema_before_post_processors(tmp_path: Path) -> None:
    schema = tmp_path / "trip.avsc"
    schema.write_text(json.dumps(TRIP))
    given = {
        f"{KAFKA}value.deserializer.class": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        f"{PROVIDER}source.schema.file": str(schema),
    }
    message = datum(TRIP, ROW)
    assert rows(decoders(None, "FilebasedSchemaProvider", **given), message) == [ROW]
    processor = f"{PROVIDER}schema_post_processor"
    given |= {
        processor: "DeleteSupportSchemaPostProcessor,DropColumnSchemaPostProcessor",
        f"{processor}.delete.columns": "fare",
    }
    assert rows(decoders(None, "FilebasedSchemaProvider", **given), message) == [
        {"uuid": "a", "tags": [], "_hoodie_is_deleted": False}
    ]


def test_what_is_missing_is_told_at_the_start() -> None:
    with pytest.raises(HoodieConfigException, match="need schema.registry.url.*ByteArrayDeserializer"):
        decoders(None)
    with pytest.raises(HoodieConfigException, match="ByteArrayDeserializer needs a schema"):
        decoders(None, **{f"{KAFKA}value.deserializer.class": "ByteArrayDeserializer"}).decoder()
    with pytest.raises(HoodieConfigException, match="KafkaAvroSchemaDeserializer or .*ByteArrayDeserializer"):
        decoders(None, **{f"{KAFKA}value.deserializer.class": "com.example.MyDeserializer"})


def test_a_registry_that_is_down_is_a_timeout() -> None:
    with schema_registry() as registry:
        made = decoders(registry)
    with pytest.raises(HoodieSourceTimeoutException, match="connection refused"):
        made.decoder()
