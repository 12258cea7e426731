"""Properties of the decoding of Protobuf messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field, text

DESCRIPTOR_FILE: Final = "hoodie.streamer.source.kafka.proto.descriptor.file"
MESSAGE_NAME: Final = "hoodie.streamer.source.kafka.proto.message.name"
PROTO_DESERIALIZER_CLASS: Final = "hoodie.streamer.source.kafka.proto.value.deserializer.class"
CLASS_NAME: Final = "hoodie.streamer.schemaprovider.proto.class.name"
_PROTO: Final = "hoodie.streamer.schemaprovider.proto."


class ProtoDeserializer(StrEnum):
    """The classes of Java that name a form of Protobuf messages."""

    BARE = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    REGISTRY = "io.confluent.kafka.serializers.protobuf.KafkaProtobufDeserializer"


@attrs.frozen(kw_only=True, repr=False)
class ProtoKafkaSourceConfig(PropertyGroup):
    """Properties of the decoding of Protobuf messages.

    Hudi: org.apache.hudi.utilities.config.ProtoClassBasedSchemaProviderConfig. Differs: a file and a name describe the
        messages, not a class of Java.
    """

    descriptor_file: str | None = property_field(DESCRIPTOR_FILE, text("a path"), None, is_ours=True)
    """The file that describes the messages, on any storage: ``protoc --include_imports --descriptor_set_out=FILE
    trips.proto`` makes it. It is read again in every round."""
    message_name: str | None = property_field(MESSAGE_NAME, text("a name such as trips.Trip"), None, is_ours=True)
    """The full name of the messages' type: its package and its name."""
    deserializer_class: ProtoDeserializer = property_field(
        PROTO_DESERIALIZER_CLASS,
        choice(ProtoDeserializer, aliases={one.value.rpartition(".")[2].upper(): one for one in ProtoDeserializer}),
        ProtoDeserializer.BARE,
    )
    """The form of the messages. ByteArrayDeserializer: bare messages. KafkaProtobufDeserializer: each one begins with
    the id of its schema in a registry and the place of its type in it; the file describes the messages all the same."""
    class_name: str | None = property_field(CLASS_NAME, text("a class of Java"), None)
    """A class of Java, which hoodie cannot load: see the file and the name above."""
    wrappers_as_records: bool = property_field(f"{_PROTO}flatten.wrappers", boolean(), False)
    """Whether a wrapper such as Int64Value is a struct with the field ``value``, and not a number that may be null."""
    timestamps_as_records: bool = property_field(f"{_PROTO}timestamps.as.records", boolean(), False)
    """Whether a Timestamp is a struct of seconds and nanos, and not a timestamp in microseconds."""
    max_recursion_depth: int = property_field(f"{_PROTO}max.recursion.depth", integer(minimum=1, maximum=20), 5)
    """The levels of a type within itself that become columns; deeper ones are kept as bytes."""
