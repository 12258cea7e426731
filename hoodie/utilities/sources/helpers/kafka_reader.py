"""Messages of ranges of offsets, in blocks of one partition.

A range is finished by position: by a message at its end or after it, or by the event that says that the reader is at
the end of the partition. Offsets may hold no message: markers of transactions, messages of transactions that were
aborted, and those that compaction removed.

A round often begins where the last one ended. So a consumer stays assigned to partitions that have more messages, and
keeps the few that it was given beyond the end of their ranges; the client goes on fetching meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import attrs

from hoodie.exception import HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.config.kafka_source_config import FAIL_ON_DATA_LOSS
from hoodie.utilities.sources.helpers.kafka_cluster import require_confluent_kafka
from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings
from hoodie.utilities.sources.helpers.kafka_consumers import KafkaConsumer, borrowed_consumer
from hoodie.utilities.sources.helpers.kafka_offset_ranges import OffsetRange
from hoodie.utilities.sources.helpers.kafka_received import KeptTopic, MessageParts, ReceivedMessages
from hoodie.utilities.sources.helpers.message_decoder import Messages
from hoodie.utilities.unanswered import Unanswered

BLOCK_MESSAGES = 20_000
_BLOCK_BYTES = 16 * 1024 * 1024
_TAKEN_AT_ONCE = 500
"""Messages that are asked for at once: few, so that all of them are in the processor's cache while they are sorted."""
_WAIT_S = 0.1


@attrs.frozen
class KafkaRanges:
    """Ranges of a topic that are read by one consumer. Picklable.

    Attributes:
        settings: The settings of the consumer.
        topic: The topic.
        ranges: One range for each partition.
        parts: The parts of messages that are wanted.
        fail_on_data_loss: Whether messages that expire meanwhile are an error.
        max_messages: The most messages of each partition, which are only looked at: the ranges are read later. None for
            all of the range.
        topic_id: The id of the topic, if this process reads the ranges after these too, so that the consumer stays
            assigned for them; None to keep nothing.
    """

    settings: KafkaClientSettings
    topic: str
    ranges: Sequence[OffsetRange]
    parts: MessageParts = attrs.field(factory=MessageParts)
    fail_on_data_loss: bool = True
    max_messages: int | None = None
    topic_id: str | None = None

    @property
    def kept_topic(self) -> KeptTopic | None:
        """The topic that the consumer stays assigned to; None for none."""
        return None if self.topic_id is None else KeptTopic(self.topic, self.topic_id, self.parts)

    def blocks(self) -> Iterator[Messages]:
        """Read the messages: those of a partition in their order, in blocks of about 20,000 messages or 16 MB.

        Raises:
            HoodieReadFromSourceException: Messages are gone, or the cluster refuses to give them.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        ranges = [one for one in self.ranges if one.count]
        if ranges:
            with borrowed_consumer(self.settings, self.kept_topic, ranges) as consumer:
                yield from _Reading(self, consumer, ranges).blocks()


class _Reading:
    def __init__(self, wanted: KafkaRanges, consumer: KafkaConsumer, ranges: Sequence[OffsetRange]) -> None:
        self._library = require_confluent_kafka()
        self._wanted = wanted
        self._consumer = consumer
        self._ranges = {one.partition: one for one in ranges}
        self._silence = Unanswered(
            f"Kafka at {wanted.settings.servers}", f"messages of topic {wanted.topic}", wanted.settings.timeout_s
        )
        self._last_news = time.monotonic()
        self._eof = self._library.KafkaError._PARTITION_EOF
        self._continued: set[int] = set()
        """The partitions that the consumer was assigned to before, and that no event has come of."""
        self._open = self._assign()

    def _assign(self) -> dict[int, ReceivedMessages]:
        """Assign the consumer to all ranges, where it is not yet."""
        consumer, wanted, places = self._consumer, self._wanted, self._library.TopicPartition
        if consumer.topic is None or consumer.topic != wanted.kept_topic:
            consumer.forget()
        received = consumer.received
        was_assigned = bool(received)
        for partition, one in list(received.items()):
            found = self._ranges.get(partition)
            if found is not None and found.start == one.start:
                one.end = found.end
                self._continued.add(partition)
            elif found is not None or wanted.max_messages is None:
                self._drop([partition])
        added = [wished for partition, wished in self._ranges.items() if partition not in received]
        for wished in added:
            received[wished.partition] = ReceivedMessages(wished.start, wished.end, wanted.parts)
        new = [places(wanted.topic, wished.partition, wished.start) for wished in added]
        if not was_assigned:
            consumer.client.assign(new)
        elif new:
            consumer.client.incremental_assign(new)
        consumer.topic = wanted.kept_topic
        return {partition: received[partition] for partition in self._ranges}

    def blocks(self) -> Iterator[Messages]:
        client = self._consumer.client
        yield from self._finished_blocks()
        self._hear_news()
        while self._open:
            found = client.consume(_TAKEN_AT_ONCE, 0)
            if not found:
                one = client.poll(_WAIT_S)
                found = [] if one is None else [one]
            if found and self._take(found):
                self._hear_news()
            del found
            self._check()
            for block in chain(self._finished_blocks(), self._full_blocks()):
                yield block
                # The one who takes blocks may be slow, and that is no silence of the cluster.
                self._hear_news()

    def _hear_news(self) -> None:
        self._last_news = time.monotonic()
        self._silence.begin()

    def _take(self, found: list[Any]) -> bool:
        """Sort messages by partition; false for nothing new."""
        kind, received = self._library.Message, self._consumer.received
        errors = []
        if any(map(kind.error, found)):
            errors = list(filter(kind.error, found))
            found = [message for message in found if message.error() is None]
        is_new = False
        # They come in runs.
        for partition, messages in groupby(found, kind.partition):
            if partition in received and received[partition].add(list(messages)):
                is_new |= partition in self._open
        for message in errors:
            is_new |= self._take_event(message, message.error())
        if len(received) > len(self._open):
            self._limit_waiting()
        return is_new

    def _limit_waiting(self) -> None:
        """Leave partitions whose messages fill the memory, while those of others are read."""
        waiting = {number: one for number, one in self._consumer.received.items() if number not in self._open}
        while sum(one.bytes for one in waiting.values()) > _BLOCK_BYTES:
            largest = max(waiting, key=lambda partition: waiting[partition].bytes)
            del waiting[largest]
            self._drop([largest])

    def _take_event(self, message: Any, error: Any) -> bool:
        partition, codes = message.partition(), self._library.KafkaError
        received = self._consumer.received.get(partition)
        if received is None:
            return False
        if error.code() == self._eof:
            moved = message.offset() > received.position
            received.position = max(received.position, message.offset())
            return bool(moved) and partition in self._open
        is_gone = error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION)
        is_refused = error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes._AUTHENTICATION)
        is_lost = error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE)
        if not (is_gone or is_refused or is_lost):
            self._consumer.problem = error
            return False
        if partition not in self._open:
            # It is for the next round to tell.
            self._drop([partition])
            return False
        if partition in self._continued and not is_refused:
            # The event may be older than this round, which has looked at the topic since.
            self._continued.discard(partition)
            self._go_on_at(partition, received.position)
            return True
        if is_lost:
            self._begin_later(partition, received)
            return True
        raise HoodieReadFromSourceException(
            f"topic {self._wanted.topic}, partition {partition} of Kafka at {self._wanted.settings.servers} cannot "
            f"be read at offset {received.position}: {error.str()}"
        )

    def _begin_later(self, partition: int, block: ReceivedMessages) -> None:
        place = self._library.TopicPartition(self._wanted.topic, partition)
        try:
            earliest, end = self._consumer.client.get_watermark_offsets(place, self._wanted.settings.timeout_s)
        except self._library.KafkaException as error:
            raise self._no_answer(error.args[0].str()) from error
        wanted = self._ranges[partition]
        if earliest <= block.position <= end:
            # Somebody else answered, such as a replica that was behind.
            self._go_on_at(partition, block.position)
            return
        if self._wanted.fail_on_data_loss:
            raise HoodieReadFromSourceException(
                f"topic {self._wanted.topic}, partition {partition}: messages {wanted.start} to {wanted.end} were "
                f"there when the round began, and now the topic has {earliest} to {end}: they expired while they were "
                f"read (at offset {block.position}), or the topic was made again. Let messages live longer "
                f"(retention.ms), or give {FAIL_ON_DATA_LOSS}=false to leave out what is gone"
            )
        block.position = max(block.position, min(earliest, block.end))
        if not block.is_finished:
            self._go_on_at(partition, block.position)

    def _go_on_at(self, partition: int, offset: int) -> None:
        place = self._library.TopicPartition(self._wanted.topic, partition, offset)
        # A partition that failed cannot be sought in.
        self._consumer.client.incremental_unassign([place])
        self._consumer.client.incremental_assign([place])

    def _check(self) -> None:
        problem, codes = self._consumer.problem, self._library.KafkaError
        if problem is not None and problem.code() in (codes._AUTHENTICATION, codes._SSL):
            raise HoodieReadFromSourceException(
                f"Kafka at {self._wanted.settings.servers} refuses the login: {problem.str()}"
            )
        if time.monotonic() - self._last_news > self._wanted.settings.timeout_s:
            raise self._no_answer("no answer" if problem is None else problem.str())
        self._silence.look(None if problem is None else problem.str())

    def _no_answer(self, detail: str) -> HoodieSourceTimeoutException:
        places = ", ".join(
            f"partition {partition} at offset {block.position} of {block.end}"
            for partition, block in sorted(self._open.items())
        )
        return HoodieSourceTimeoutException(
            f"topic {self._wanted.topic} of Kafka at {self._wanted.settings.servers}: nothing came within "
            f"{self._wanted.settings.timeout_s:g} s ({places}): {detail}"
        )

    def _full_blocks(self) -> Iterator[Messages]:
        if self._wanted.max_messages is not None:
            return
        for partition, received in self._open.items():
            if len(received) >= BLOCK_MESSAGES:
                yield from self._taken(partition, received)
        while sum(received.bytes for received in self._open.values()) >= _BLOCK_BYTES:
            yield from self._taken(*max(self._open.items(), key=lambda item: item[1].bytes))

    def _finished_blocks(self) -> Iterator[Messages]:
        most = self._wanted.max_messages
        finished = {
            partition: received
            for partition, received in self._open.items()
            if received.is_finished or (most is not None and len(received) >= most)
        }
        if not finished:
            return
        for partition in finished:
            del self._open[partition]
        self._drop([partition for partition in finished if not self._is_kept(partition)])
        for partition, received in finished.items():
            if most is not None:
                found = received.read(self._wanted.topic, partition, most)
                yield from () if found is None else (found,)
                continue
            yield from self._taken(partition, received)

    def _taken(self, partition: int, received: ReceivedMessages) -> Iterator[Messages]:
        while (found := received.take(self._wanted.topic, partition, BLOCK_MESSAGES)) is not None:
            yield found

    def _drop(self, partitions: Sequence[int]) -> None:
        if partitions:
            places = [self._library.TopicPartition(self._wanted.topic, partition) for partition in partitions]
            self._consumer.client.incremental_unassign(places)
            for partition in partitions:
                del self._consumer.received[partition]

    def _is_kept(self, partition: int) -> bool:
        """Whether the next range is about to begin here: as many messages as this one had wait."""
        if self._wanted.topic_id is None:
            return False
        if self._wanted.max_messages is not None:
            return True
        place = self._library.TopicPartition(self._wanted.topic, partition)
        _, last = self._consumer.client.get_watermark_offsets(place, cached=True)
        found = self._ranges[partition]
        # A client that waits for messages asks for them again and again.
        return bool(last - found.end >= found.count)
