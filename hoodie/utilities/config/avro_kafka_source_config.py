"""Properties of the decoding of Avro messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, choice, property_field, text

DESERIALIZER_CLASS: Final = "hoodie.streamer.source.kafka.value.deserializer.class"
DESERIALIZER_SCHEMA: Final = "hoodie.streamer.source.kafka.value.deserializer.schema"


class AvroDeserializer(StrEnum):
    """The classes of Java that name a form of Avro messages."""

    REGISTRY = "io.confluent.kafka.serializers.KafkaAvroDeserializer"
    REGISTRY_AND_SCHEMA = "org.apache.hudi.utilities.deser.KafkaAvroSchemaDeserializer"
    BARE = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@attrs.frozen(kw_only=True, repr=False)
class AvroKafkaSourceConfig(PropertyGroup):
    """Properties of the decoding of Avro messages.

    Hudi: org.apache.hudi.utilities.config.KafkaSourceConfig, of which these are a part.
    """

    deserializer_class: AvroDeserializer = property_field(
        DESERIALIZER_CLASS,
        choice(AvroDeserializer, aliases={one.value.rpartition(".")[2].upper(): one for one in AvroDeserializer}),
        AvroDeserializer.REGISTRY,
    )
    """The form of the messages. KafkaAvroDeserializer, and KafkaAvroSchemaDeserializer: each one begins with the id of
    its schema, which the registry of ``schema.registry.url`` has. ByteArrayDeserializer: a bare Avro record, written
    with the schema of the schema provider."""
    deserializer_schema: str | None = property_field(DESERIALIZER_SCHEMA, text("JSON of an Avro record"), None)
    """The schema to read messages as, for KafkaAvroSchemaDeserializer without a schema provider."""
