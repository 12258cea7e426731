"""Consumers of a process, kept between rounds: connecting takes longer than reading a few messages.

A consumer whose partitions have more messages stays assigned to them, so that the client fetches the next ones already.
Then it has up to ``queued.max.messages.kbytes`` in memory, so few consumers may be so at the same time.

A consumer belongs to the process that opened it. A process that was forked opens its own: the threads of its parent's
consumers are not there, so those are neither used nor closed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from hoodie.exception import HoodieConfigException
from hoodie.utilities.sources.helpers.kafka_cluster import QuietLogger, require_confluent_kafka
from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings
from hoodie.utilities.sources.helpers.kafka_offset_ranges import OffsetRange
from hoodie.utilities.sources.helpers.kafka_received import KeptTopic, ReceivedMessages

_MOST_IDLE = 4
_MOST_ASSIGNED = 4
"""The most consumers of this process that are assigned while nobody uses them."""

_Key = tuple[frozenset[tuple[str, str]], str | None]


class KafkaConsumer:
    """A consumer, the last problem that it told of, and what it was given beyond what was read.

    Args:
        settings: Its settings.

    Attributes:
        topic: The topic that it stays assigned to; None for none.
        received: Partition -> its messages, for each partition that it is assigned to.
        topic_ids: Topic -> its id, for each one that it may have stayed assigned to.

    Raises:
        HoodieConfigException: confluent-kafka is missing, or a setting is wrong.
    """

    def __init__(self, settings: KafkaClientSettings) -> None:
        library = require_confluent_kafka()
        self.settings = settings
        self.last_use = 0.0
        self.topic: KeptTopic | None = None
        self.received: dict[int, ReceivedMessages] = {}
        self.topic_ids: dict[str, str] = {}
        self.problem: Any = None
        """The last error that is not of a message: of a connection, or of a login."""
        try:
            self.client = library.Consumer({**settings.for_consumer(), "error_cb": self._hear}, logger=QuietLogger())
        except library.KafkaException as error:
            raise HoodieConfigException(f"Kafka's client refuses its properties: {error.args[0].str()}") from error

    def _hear(self, error: Any) -> None:
        self.problem = error

    def goes_on(self, topic: KeptTopic | None, ranges: Sequence[OffsetRange]) -> bool:
        """Whether some ranges begin where this consumer is.

        Args:
            topic: The topic of the ranges; None for one that nothing is kept of.
            ranges: The ranges.
        """
        if topic is None or topic != self.topic:
            return False
        starts = {partition: received.start for partition, received in self.received.items()}
        return any(starts.get(one.partition) == one.start for one in ranges)

    def knows_another(self, topic: KeptTopic) -> bool:
        """Whether it has read a topic of the same name with another id: such a client may wait for the old one.

        Args:
            topic: The topic that it is to read next.
        """
        return self.topic_ids.get(topic.name, topic.topic_id) != topic.topic_id

    def forget(self) -> None:
        """Leave all partitions, and their messages."""
        if self.topic is not None or self.received:
            self.client.unassign()
        self.topic = None
        self.received.clear()

    def close(self) -> None:
        """End its connections."""
        with contextlib.suppress(RuntimeError):
            self.client.close()


class _Pool:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: dict[_Key, list[KafkaConsumer]] = {}

    def take(
        self, settings: KafkaClientSettings, topic: KeptTopic | None, ranges: Sequence[OffsetRange]
    ) -> KafkaConsumer:
        consumer = self._find(settings, topic, ranges) or KafkaConsumer(settings)
        if topic is not None:
            consumer.topic_ids[topic.name] = topic.topic_id
        return consumer

    def _find(
        self, settings: KafkaClientSettings, topic: KeptTopic | None, ranges: Sequence[OffsetRange]
    ) -> KafkaConsumer | None:
        with self.lock:
            waiting = self.idle.get(_key(settings), [])
            for one in [one for one in waiting if topic is not None and one.knows_another(topic)]:
                waiting.remove(one)
                one.close()
            found = [one for one in waiting if one.goes_on(topic, ranges)]
            found = found or [one for one in waiting if one.topic is None]
            found = found or [one for one in waiting if topic is not None and one.topic == topic]
            if not found and len(waiting) == _MOST_IDLE:
                found = waiting[:1]
            if found:
                waiting.remove(found[-1])
            return found[-1] if found else None

    def give_back(self, consumer: KafkaConsumer) -> None:
        with self.lock:
            if consumer.topic is not None:
                assigned = [one for waiting in self.idle.values() for one in waiting if one.topic is not None]
                for one in sorted(assigned, key=_last_use)[: max(0, len(assigned) + 1 - _MOST_ASSIGNED)]:
                    one.forget()
            waiting = self.idle.setdefault(_key(consumer.settings), [])
            if len(waiting) < _MOST_IDLE:
                consumer.last_use = time.monotonic()
                waiting.append(consumer)
                return
        consumer.close()

    def close(self, settings: KafkaClientSettings | None = None) -> None:
        with self.lock:
            keys = list(self.idle) if settings is None else [_key(settings)]
            closing = [consumer for key in keys for consumer in self.idle.pop(key, [])]
        for consumer in closing:
            consumer.close()


def _last_use(consumer: KafkaConsumer) -> float:
    return consumer.last_use


def _key(settings: KafkaClientSettings) -> _Key:
    return frozenset(settings.settings.items()), settings.oauth_callback


_pool = _Pool()
_of_other_processes: list[_Pool] = []


def _begin_anew() -> None:
    global _pool
    # Held, so that nothing closes what the parent uses.
    _of_other_processes.append(_pool)
    _pool = _Pool()


os.register_at_fork(after_in_child=_begin_anew)


@contextlib.contextmanager
def borrowed_consumer(
    settings: KafkaClientSettings, topic: KeptTopic | None = None, ranges: Sequence[OffsetRange] = ()
) -> Iterator[KafkaConsumer]:
    """A consumer; if there is one, that which is where ranges begin. It is kept for others, unless an error came.

    Args:
        settings: Its settings.
        topic: The topic of the ranges, if it is to stay assigned to it; None if it is not.
        ranges: The ranges.

    Raises:
        HoodieConfigException: confluent-kafka is missing, or a setting is wrong.
    """
    pool = _pool
    consumer = pool.take(settings, topic, ranges)
    consumer.problem = None
    try:
        yield consumer
        if consumer.topic is None or not consumer.received:
            consumer.forget()
    except BaseException:
        if pool is _pool:
            consumer.close()
        raise
    pool.give_back(consumer)


def close_consumers(settings: KafkaClientSettings) -> None:
    """Close the consumers of this process that nobody uses.

    Args:
        settings: Their settings.
    """
    _pool.close(settings)


@atexit.register
def _close_all() -> None:
    _pool.close()
