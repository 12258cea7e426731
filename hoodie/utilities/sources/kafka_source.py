"""Sources that read a topic of Kafka: the driver finds ranges of offsets, and tasks read them.

Hudi: org.apache.hudi.utilities.sources.KafkaSource. Differs: messages are decoded to Arrow where they are read; a range
is finished by position, so transactions and compaction do no harm.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.utilities.config.kafka_source_config import TOPIC, KafkaSourceConfig
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.kafka_cluster import KafkaCluster, TopicDescription, require_confluent_kafka
from hoodie.utilities.sources.helpers.kafka_consumer_properties import kafka_client_settings
from hoodie.utilities.sources.helpers.kafka_consumers import close_consumers
from hoodie.utilities.sources.helpers.kafka_offset_gen import KafkaOffsetGen, OffsetPlan
from hoodie.utilities.sources.helpers.kafka_offset_ranges import OffsetRange, merged_ranges
from hoodie.utilities.sources.helpers.kafka_reader import KafkaRanges
from hoodie.utilities.sources.helpers.kafka_rows import KafkaColumns, KafkaRows
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder
from hoodie.utilities.sources.helpers.tombstone_keys import tombstone_keys_of
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceContext, SourceRead

logger = logging.getLogger(__name__)

_SAMPLED = 1000
_SAMPLED_PARTITIONS = 3
_SAMPLED_OF_EACH = 100
KEY_FIELDS: Final = ("hoodie.datasource.write.recordkey.field", "hoodie.table.recordkey.fields")
"""The properties that name the fields of the record key."""

FirstMessages = Callable[[], Sequence[bytes]]
"""Reads the values of some of the first messages of a round, without tombstones."""


@attrs.frozen
class KafkaRead(SourceRead):
    """A part of a round: ranges of a topic, and what makes rows of their messages. Picklable.

    Attributes:
        ranges: The ranges.
        rows: Makes the rows.
    """

    ranges: KafkaRanges
    rows: KafkaRows

    def batches(self) -> Iterator[DecodedBatch]:
        """Read the part; see `SourceRead.batches`."""
        for messages in self.ranges.blocks():
            decoded = self.rows.decode(messages)
            if len(decoded.rows) or decoded.errors is not None:
                yield decoded


class KafkaSource(Source):
    """A topic of Kafka.

    Args:
        context: The properties, schemas and storage of the run.

    Raises:
        HoodieConfigException: Properties are missing or wrong; or confluent-kafka is missing.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        require_confluent_kafka()
        self.config = context.properties.read(KafkaSourceConfig)
        if self.config.topic is None:
            raise HoodieConfigException(f"{type(self).__name__} needs {TOPIC}: the topic to read")
        self.topic = self.config.topic
        self.settings = kafka_client_settings(context.properties)
        keys = tombstone_keys_of(self.config, _record_key_fields(context.properties), context.properties)
        self.columns = KafkaColumns.of(self.config, keys)
        self._cluster = KafkaCluster(self.settings, self.config, self.topic)
        self._offsets = KafkaOffsetGen(self.config, self.settings, self._cluster)
        for line in self.settings.lines:
            context.report(line)

    @abstractmethod
    def make_decoder(self, first_messages: FirstMessages) -> MessageDecoder:
        """The decoder of the messages of this round. Asked in every round that has messages: schemas may be new.

        Args:
            first_messages: Reads the values of some of the first messages of the round, without tombstones.

        Raises:
            HoodieSchemaProviderException: There is no schema for the messages.
        """

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """Find the next messages; see `Source.fetch`. The limit is a number of messages.

        Args:
            checkpoint: The position to read from.
            limit: The most messages.
        """
        max_bytes = self.config.max_batch_bytes
        plan = self._offsets.plan(
            checkpoint,
            limit,
            self.config.min_partitions,
            None if max_bytes is None else self._limit_of_bytes(max_bytes),
        )
        for line in plan.lines:
            self.context.report(line)
        details = {
            "kafkaDelayCount": plan.delay,
            "kafkaMessageInCount": plan.count,
            "sourceParallelism": self.config.min_partitions,
        }
        if not plan.count:
            return InputBatch(plan.checkpoint, rows=0, backlog=plan.backlog, details=details)
        rows = KafkaRows(self.make_decoder(lambda: self._first_messages(plan)), self.columns)
        return InputBatch(
            plan.checkpoint,
            [KafkaRead(ranges, rows) for ranges in self._parts(plan)],
            rows.schema,
            rows=plan.count,
            backlog=plan.backlog,
            details=details,
        )

    def target_columns(self, target: pa.Schema, is_own: bool) -> pa.Schema:
        """See `Source.target_columns`.

        Args:
            target: The columns.
            is_own: Whether they are those of the schema of the source.
        """
        return self.columns.target_columns(target, is_own)

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """Commit the position for the group, if that is asked for; a failure is a warning.

        Args:
            checkpoint: The position.
        """
        if not self.config.enable_commit_offset:
            return
        try:
            self._offsets.commit(checkpoint)
        except HoodieException as error:
            logger.warning("The position %s is not committed to Kafka: %s", checkpoint.position, error)

    def close(self) -> None:
        """Give back connections; may be called twice."""
        self._cluster.close()
        close_consumers(self.settings)

    def _parts(self, plan: OffsetPlan) -> list[KafkaRanges]:
        """The ranges that are read apart from each other: one of each task of Spark, or all of them in this process."""
        wanted = [one for one in plan.ranges if one.count]
        if self.context.spark is None:
            return [self._ranges(plan.topic, merged_ranges(wanted))]
        return [self._ranges(plan.topic, [one]) for one in wanted]

    def _ranges(
        self, topic: TopicDescription, ranges: Sequence[OffsetRange], max_messages: int | None = None
    ) -> KafkaRanges:
        return KafkaRanges(
            self.settings,
            self.topic,
            ranges,
            self.columns.parts,
            self.config.enable_fail_on_data_loss,
            max_messages,
            # Nobody knows which process of Spark reads the next ranges.
            topic.topic_id if self.context.spark is None else None,
        )

    def _first_messages(self, plan: OffsetPlan) -> Sequence[bytes]:
        ranges = merged_ranges(plan.ranges)
        read = self._ranges(plan.topic, ranges, max(_SAMPLED_OF_EACH, _SAMPLED // len(ranges)))
        return [value for messages in read.blocks() for value in messages.values if value]

    def _limit_of_bytes(
        self, max_bytes: int
    ) -> Callable[[TopicDescription, Mapping[int, int], Mapping[int, int]], int]:
        def limit_of(topic: TopicDescription, starts: Mapping[int, int], ends: Mapping[int, int]) -> int:
            largest = sorted(ends, key=lambda partition: starts[partition] - ends[partition])[:_SAMPLED_PARTITIONS]
            ranges = [OffsetRange(partition, starts[partition], ends[partition]) for partition in largest]
            blocks = list(self._ranges(topic, ranges, _SAMPLED_OF_EACH).blocks())
            sizes = [
                len(value or b"") + len(key or b"")
                for block in blocks
                for value, key in zip(block.values, block.keys, strict=True)
            ]
            # Offsets without a message count too: as much of the spans that were looked at holds messages.
            return max(1, int(max_bytes / (sum(sizes) / len(sizes)))) if sum(sizes) else sum(ends.values())

        return limit_of


def _record_key_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = next((properties[key] for key in KEY_FIELDS if key in properties), "")
    return tuple(name.strip() for name in text.split(",") if name.strip())
