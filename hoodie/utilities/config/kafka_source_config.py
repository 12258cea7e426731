"""Properties of sources that read Kafka."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, column_names, integer, property_field, text

TOPIC: Final = "hoodie.streamer.source.kafka.topic"
AUTO_OFFSET_RESET: Final = "auto.offset.reset"
CHECKPOINT_TYPE: Final = "hoodie.streamer.source.kafka.checkpoint.type"
FAIL_ON_DATA_LOSS: Final = "hoodie.streamer.source.kafka.enable.failOnDataLoss"
TOMBSTONES: Final = "hoodie.streamer.source.kafka.tombstones"
TOMBSTONE_KEYS: Final = "hoodie.streamer.source.kafka.tombstones.keys"
OAUTH_CALLBACK: Final = "hoodie.streamer.source.kafka.oauth.callback"
IGNORED_PREFIXES: Final = "hoodie.streamer.source.kafka.ignore.prefix.config.list"
MAX_BATCH_BYTES: Final = "hoodie.streamer.source.kafka.max.batch.bytes"
POST_PROCESSOR: Final = "hoodie.streamer.source.json.kafka.processor.class"
JSON_DESERIALIZER: Final = "hoodie.streamer.source.kafka.json.value.deserializer.class"
_KAFKA: Final = "hoodie.streamer.source.kafka."


class KafkaCheckpointType(StrEnum):
    """The forms that a position of ``--checkpoint`` may have."""

    STRING = "string"
    TIMESTAMP = "timestamp"
    SINGLE_OFFSET = "single_offset"


class KafkaResetOffsetStrategies(StrEnum):
    """The places that a topic is read from without a position."""

    LATEST = "latest"
    EARLIEST = "earliest"
    GROUP = "group"


class JsonDeserializer(StrEnum):
    """The classes of Java that name a form of JSON messages."""

    BARE = "org.apache.kafka.common.serialization.StringDeserializer"
    REGISTRY = "io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer"


class Tombstones(StrEnum):
    """The fates of messages that have a key and no value."""

    DROP = "drop"
    DELETE = "delete"


class TombstoneKeyForm(StrEnum):
    """The forms of the keys of messages that have no value."""

    TEXT = "text"
    REGISTRY = "registry"


@attrs.frozen(kw_only=True, repr=False)
class KafkaSourceConfig(PropertyGroup):
    """Properties of sources that read Kafka.

    Hudi: org.apache.hudi.utilities.config.KafkaSourceConfig.
    """

    topic: str | None = property_field(TOPIC, text("a topic"), None)
    """The topic."""
    auto_offset_reset: KafkaResetOffsetStrategies = property_field(
        AUTO_OFFSET_RESET,
        choice(KafkaResetOffsetStrategies, unsupported={"NONE": "a table without a position needs a place to begin"}),
        KafkaResetOffsetStrategies.LATEST,
    )
    """The place to begin at for a table without a position: the end of the topic, its earliest messages, or the offsets
    that the group of ``group.id`` has committed."""
    checkpoint_type: KafkaCheckpointType = property_field(
        CHECKPOINT_TYPE, choice(KafkaCheckpointType), KafkaCheckpointType.STRING
    )
    """The form of a position of ``--checkpoint``: ``topic,0:12,1:34``; a time in milliseconds (13 digits; 10 digits are
    taken as milliseconds too, as in Hudi); or one offset, for a topic with one partition. It counts for a position that
    was given, not for those of commits."""
    max_events: int = property_field("hoodie.streamer.kafka.source.maxEvents", integer(minimum=1), 5_000_000)
    """The most messages of a round, unless ``--source-limit`` says another number."""
    max_batch_bytes: int | None = property_field(MAX_BATCH_BYTES, integer(minimum=1), None, is_ours=True)
    """The most bytes of messages of a round, about: it is turned into a number of messages by the size of a few of the
    next ones. At least one message of a partition is read."""
    min_partitions: int = property_field(f"{_KAFKA}minPartitions", integer(minimum=0), 0)
    """The number of tasks of Spark that read a round, about. Above the number of partitions, large partitions are read
    in several parts, and of rows with the same key and the same ordering value, one or the other part's may win."""
    enable_fail_on_data_loss: bool = property_field(FAIL_ON_DATA_LOSS, boolean(), True)
    """Whether a round fails when messages after the position are gone: they expired, the topic was made again, it lost
    a partition, or the position is one of another topic. With false, such a partition is read from its earliest message
    on, with a line in the log."""
    enable_commit_offset: bool = property_field(f"{_KAFKA}enable.commit.offset", boolean(), False)
    """Whether the position is also committed to Kafka, for the group of ``group.id``, so that monitors see it. It is
    never read from there, but for a table without a position and ``auto.offset.reset=group``."""
    offset_skip_buffer_minutes: int = property_field(f"{_KAFKA}offset.skip.buffer.minutes", integer(), -1)
    """Where reading begins at the earliest message, so many minutes of the messages that retention removes next are
    left out; -1 for none."""
    append_offsets: bool = property_field(f"{_KAFKA}append.offsets", boolean(), False)
    """Whether rows get the columns ``_hoodie_kafka_source_offset``, ``_hoodie_kafka_source_partition``,
    ``_hoodie_kafka_source_timestamp`` and ``_hoodie_kafka_source_key``."""
    key_column: str | None = property_field(f"{_KAFKA}key.column", text("a column name"), None, is_ours=True)
    """A column for the key of each message, as text; bytes that are not UTF-8 become ``\\xNN``."""
    headers_column: str | None = property_field(f"{_KAFKA}headers.column", text("a column name"), None, is_ours=True)
    """A column for the headers of each message: a map of texts; of a name that is there twice, the last one counts."""
    tombstones: Tombstones = property_field(TOMBSTONES, choice(Tombstones), Tombstones.DROP, is_ours=True)
    """The fate of messages without a value: no row, as in Hudi; or a row with ``_hoodie_is_deleted``, which deletes the
    record of the message's key. A key that is a JSON object has the record key fields; any other key is the one field
    of the record key, a JSON text without its quotes. A key in binary is an error. The table needs a global index if it
    is partitioned, and no ordering field."""
    tombstone_keys: TombstoneKeyForm = property_field(
        TOMBSTONE_KEYS, choice(TombstoneKeyForm), TombstoneKeyForm.TEXT, is_ours=True
    )
    """The form of the keys of such messages: texts, or those of a schema registry's serializer, of Avro or JSON, with
    the id of their schema. A schema of one value tells the one field of the record key; the fields of a record are
    found by their names."""
    oauth_callback: str | None = property_field(OAUTH_CALLBACK, text("module:function"), None, is_ours=True)
    """A function of yours that gives a token for OAUTHBEARER: it takes the text of ``sasl.oauthbearer.config`` and
    returns the token, and the time in seconds since the epoch at which it ends."""
    ignore_prefixes: tuple[str, ...] = property_field(IGNORED_PREFIXES, column_names("prefixes"), ())
    """Properties with one of these prefixes are not for Kafka's client."""
    initial_retry_interval_ms: int = property_field(f"{_KAFKA}retry.initial_interval_ms", integer(minimum=0), 100)
    """Milliseconds before a question to the cluster is asked again for the first time; doubled each time."""
    max_retry_interval_ms: int = property_field(f"{_KAFKA}retry.max_interval_ms", integer(minimum=0), 2000)
    """The most milliseconds between two questions."""
    max_retry_count: int = property_field(f"{_KAFKA}retry.max_count", integer(minimum=0), 4)
    """The number of times that a question is asked again."""


@attrs.frozen(kw_only=True, repr=False)
class JsonKafkaSourceConfig(PropertyGroup):
    """Properties of the decoding of JSON messages.

    Hudi: org.apache.hudi.utilities.sources.JsonKafkaSource.Config.
    """

    deserializer_class: JsonDeserializer = property_field(
        JSON_DESERIALIZER,
        choice(JsonDeserializer, aliases={one.value.rpartition(".")[2].upper(): one for one in JsonDeserializer}),
        JsonDeserializer.BARE,
        since="1.1.0",
    )
    """The form of the messages. StringDeserializer: JSON alone. KafkaJsonSchemaDeserializer: each one begins with the
    five bytes of a schema registry, which are left out; the columns are told as for other messages."""


@attrs.frozen(kw_only=True, repr=False)
class JsonKafkaPostProcessorConfig(PropertyGroup):
    """Properties of what follows the reading of JSON messages.

    Hudi: org.apache.hudi.utilities.config.JsonKafkaPostProcessorConfig.
    """

    processor_class: str | None = property_field(POST_PROCESSOR, text("a class"), None)
    """A class that changes messages before they are decoded. hoodie has none: a transformer changes rows."""
