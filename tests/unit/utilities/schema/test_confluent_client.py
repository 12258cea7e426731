"""The stub of the schema registry, and messages, beside Confluent's own client, serializer and deserializer.

Its client needs packages that hoodie does not: pip install 'confluent-kafka[schemaregistry,avro]'.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.schema.schema_registry_client import SchemaRegistryClient, parse_hosts
from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
from tests.support.avro_messages import TRIP, datum, framed, messages_of
from tests.support.schema_registry import StubRegistry, schema_registry

ROW = {"uuid": "a", "fare": 2.5, "tags": ["x", "y"]}


def confluent() -> Any:
    """Confluent's modules."""
    pytest.importorskip("httpx2", reason="pip install 'confluent-kafka[schemaregistry,avro]'")
    pytest.importorskip("authlib", reason="pip install 'confluent-kafka[schemaregistry,avro]'")
    pytest.importorskip("confluent_kafka.schema_registry.avro")
    import confluent_kafka.schema_registry
    import confluent_kafka.serialization

    return confluent_kafka


def client(registry: StubRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(parse_hosts(registry.url, "schema.registry.url"), SchemaRegistryClientConfig())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_messages_of_confluents_serializer_are_read_as_its_deserializer_reads_them() -> None:
    kafka = confluent()
    with schema_registry(user_info="me:secret") as registry:
        theirs = kafka.schema_registry.SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "me:secret"})
        serializer = kafka.schema_registry.avro.AvroSerializer(theirs, json.dumps(TRIP))
        context = kafka.serialization.SerializationContext("trips", kafka.serialization.MessageField.VALUE)
        message = serializer(ROW, context)
        assert kafka.schema_registry.avro.AvroDeserializer(theirs)(message, context) == ROW
        registry.user_info = None
        assert AvroDecoder(json.dumps(TRIP), client(registry)).decode(messages_of([message])).rows.to_pylist() == [ROW]
        # So the messages of other tests are those of the serializer.
        assert message == framed(1, datum(TRIP, ROW))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_stub_answers_confluents_client() -> None:
    kafka = confluent()
    with schema_registry() as registry:
        theirs = kafka.schema_registry.SchemaRegistryClient({"url": registry.url})
        schema_id = theirs.register_schema("trips-value", kafka.schema_registry.Schema(json.dumps(TRIP), "AVRO"))
        ours = client(registry)
        assert json.loads(ours.load_schema(schema_id).schema) == json.loads(theirs.get_schema(schema_id).schema_str)
        newest = theirs.get_latest_version("trips-value")
        assert (newest.schema_id, newest.version) == (schema_id, 1)
        assert json.loads(ours.load_version("trips-value").schema) == TRIP
        with pytest.raises(kafka.schema_registry.error.SchemaRegistryError, match="404"):
            theirs.get_schema(99)
