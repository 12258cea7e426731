"""Messages of ranges of offsets, in blocks of one partition.

A range is finished by position: by a message at its end or after it, or by the event that says that the reader is at
the end of the partition. Offsets may hold no message: markers of transactions, messages of transactions that were
aborted, and those that compaction removed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import methodcaller
from typing import Any

import attrs
import numpy as np

from hoodie.exception import HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.config.kafka_source_config import FAIL_ON_DATA_LOSS
from hoodie.utilities.sources.helpers.kafka_cluster import require_confluent_kafka
from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings
from hoodie.utilities.sources.helpers.kafka_consumers import KafkaConsumer, borrowed_consumer
from hoodie.utilities.sources.helpers.kafka_offset_ranges import OffsetRange
from hoodie.utilities.sources.helpers.message_decoder import Messages
from hoodie.utilities.unanswered import Unanswered

BLOCK_MESSAGES = 20_000
_BLOCK_BYTES = 16 * 1024 * 1024
_WAIT_S = 0.1
_error, _offset, _partition = methodcaller("error"), methodcaller("offset"), methodcaller("partition")
_value, _key, _headers = methodcaller("value"), methodcaller("key"), methodcaller("headers")


@attrs.frozen
class MessageParts:
    """The parts of messages that are wanted besides their values.

    Attributes:
        keys: Whether keys are.
        timestamps: Whether timestamps are.
        headers: Whether headers are.
    """

    keys: bool = False
    timestamps: bool = False
    headers: bool = False


@attrs.frozen
class KafkaRanges:
    """Ranges of a topic that are read by one consumer. Picklable.

    Attributes:
        settings: The settings of the consumer.
        topic: The topic.
        ranges: One range for each partition.
        parts: The parts of messages that are wanted.
        fail_on_data_loss: Whether messages that expire meanwhile are an error.
        max_messages: The most messages of each partition; None for all of the range.
    """

    settings: KafkaClientSettings
    topic: str
    ranges: Sequence[OffsetRange]
    parts: MessageParts = MessageParts()
    fail_on_data_loss: bool = True
    max_messages: int | None = None

    def blocks(self) -> Iterator[Messages]:
        """Read the messages: those of a partition in their order, in blocks of about 20,000 messages or 16 MB.

        Raises:
            HoodieReadFromSourceException: Messages are gone, or the cluster refuses to give them.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        ranges = [one for one in self.ranges if one.count]
        if ranges:
            with borrowed_consumer(self.settings) as consumer:
                yield from _Reading(self, consumer, ranges).blocks()


class _Block:
    """Messages of a partition that wait until there are enough for a block."""

    def __init__(self, end: int, position: int) -> None:
        self.end = end
        self.position = position
        self.messages: list[Any] = []
        self.bytes = 0
        self.taken = 0

    @property
    def is_finished(self) -> bool:
        return self.position >= self.end

    def add(self, messages: list[Any], most: int | None) -> None:
        """Take messages, without those after the end."""
        last = messages[-1].offset()
        self.position = max(self.position, last + 1)
        if last >= self.end:
            messages = messages[: bisect_left(messages, self.end, key=_offset)]
        if most is not None:
            messages = messages[: most - self.taken]
        self.messages += messages
        self.taken += len(messages)
        self.bytes += sum(map(len, messages))
        if most is not None and self.taken >= most:
            self.position = self.end


class _Reading:
    def __init__(self, wanted: KafkaRanges, consumer: KafkaConsumer, ranges: Sequence[OffsetRange]) -> None:
        self._library = require_confluent_kafka()
        self._wanted = wanted
        self._consumer = consumer
        self._open = {one.partition: _Block(one.end, one.start) for one in ranges}
        self._ranges = {one.partition: one for one in ranges}
        self._silence = Unanswered(
            f"Kafka at {wanted.settings.servers}", f"messages of topic {wanted.topic}", wanted.settings.timeout_s
        )
        self._eof = self._library.KafkaError._PARTITION_EOF

    def blocks(self) -> Iterator[Messages]:
        client, places = self._consumer.client, self._library.TopicPartition
        client.assign([places(self._wanted.topic, p, block.position) for p, block in self._open.items()])
        last_news = time.monotonic()
        while self._open:
            found = client.consume(BLOCK_MESSAGES, 0)
            if not found:
                one = client.poll(_WAIT_S)
                found = [] if one is None else [one]
            if found and self._take(found):
                last_news = time.monotonic()
                self._silence.begin()
            self._check(last_news)
            yield from self._full_blocks()
            yield from self._finished_blocks()

    def _take(self, found: list[Any]) -> bool:
        """Sort messages into blocks; false for nothing new."""
        errors = list(filter(_error, found))
        if errors:
            found = [message for message in found if message.error() is None]
        is_new = False
        for partition, messages in _by_partition(found).items():
            block = self._open.get(partition)
            if block is not None and not block.is_finished and messages[-1].offset() >= block.position:
                block.add(messages, self._wanted.max_messages)
                is_new = True
        for message in errors:
            is_new |= self._take_event(message, message.error())
        return is_new

    def _take_event(self, message: Any, error: Any) -> bool:
        partition, codes = message.partition(), self._library.KafkaError
        block = self._open.get(partition)
        if block is None:
            return False
        if error.code() == self._eof:
            moved = message.offset() > block.position
            block.position = max(block.position, message.offset())
            return bool(moved)
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            self._begin_later(partition, block)
            return True
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION) or (
            error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes._AUTHENTICATION)
        ):
            raise HoodieReadFromSourceException(
                f"topic {self._wanted.topic}, partition {partition} of Kafka at {self._wanted.settings.servers} cannot "
                f"be read at offset {block.position}: {error.str()}"
            )
        self._consumer.problem = error
        return False

    def _begin_later(self, partition: int, block: _Block) -> None:
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

    def _check(self, last_news: float) -> None:
        problem, codes = self._consumer.problem, self._library.KafkaError
        if problem is not None and problem.code() in (codes._AUTHENTICATION, codes._SSL):
            raise HoodieReadFromSourceException(
                f"Kafka at {self._wanted.settings.servers} refuses the login: {problem.str()}"
            )
        if time.monotonic() - last_news > self._wanted.settings.timeout_s:
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
        for partition, block in self._open.items():
            if len(block.messages) >= BLOCK_MESSAGES:
                yield self._block(partition, block)
        while sum(block.bytes for block in self._open.values()) >= _BLOCK_BYTES:
            yield self._block(*max(self._open.items(), key=lambda item: item[1].bytes))

    def _finished_blocks(self) -> Iterator[Messages]:
        finished = [partition for partition, block in self._open.items() if block.is_finished]
        if not finished:
            return
        places = [self._library.TopicPartition(self._wanted.topic, partition) for partition in finished]
        self._consumer.client.incremental_unassign(places)
        for partition in finished:
            block = self._open.pop(partition)
            if block.messages:
                yield self._block(partition, block)

    def _block(self, partition: int, block: _Block) -> Messages:
        messages, parts, count = block.messages, self._wanted.parts, len(block.messages)
        block.messages, block.bytes = [], 0
        return Messages(
            self._wanted.topic,
            partition,
            np.fromiter(map(_offset, messages), np.int64, count),
            list(map(_value, messages)),
            list(map(_key, messages)) if parts.keys else [None] * count,
            np.fromiter((message.timestamp()[1] for message in messages), np.int64, count)
            if parts.timestamps
            else np.full(count, -1, np.int64),
            list(map(_headers, messages)) if parts.headers else None,
        )


def _by_partition(messages: list[Any]) -> Mapping[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    # They come in runs.
    for partition, run in groupby(messages, _partition):
        found.setdefault(partition, []).extend(run)
    return found
