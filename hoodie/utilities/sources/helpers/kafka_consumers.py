"""Consumers of a process, kept between rounds: connecting takes longer than reading a few messages.

A consumer belongs to the process that opened it. A process that was forked opens its own: the threads of its parent's
consumers are not there, so those are neither used nor closed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from hoodie.exception import HoodieConfigException
from hoodie.utilities.sources.helpers.kafka_cluster import QuietLogger, require_confluent_kafka
from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings

_MOST_IDLE = 4

_Key = tuple[frozenset[tuple[str, str]], str | None]


class KafkaConsumer:
    """A consumer, and the last problem that it told of.

    Args:
        settings: Its settings.

    Raises:
        HoodieConfigException: confluent-kafka is missing, or a setting is wrong.
    """

    def __init__(self, settings: KafkaClientSettings) -> None:
        library = require_confluent_kafka()
        self.settings = settings
        self.problem: Any = None
        """The last error that is not of a message: of a connection, or of a login."""
        try:
            self.client = library.Consumer({**settings.for_consumer(), "error_cb": self._hear}, logger=QuietLogger())
        except library.KafkaException as error:
            raise HoodieConfigException(f"Kafka's client refuses its properties: {error.args[0].str()}") from error

    def _hear(self, error: Any) -> None:
        self.problem = error

    def close(self) -> None:
        """End its connections."""
        with contextlib.suppress(RuntimeError):
            self.client.close()


class _Pool:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: dict[_Key, list[KafkaConsumer]] = {}

    def take(self, settings: KafkaClientSettings) -> KafkaConsumer:
        with self.lock:
            waiting = self.idle.get(_key(settings))
            if waiting:
                return waiting.pop()
        return KafkaConsumer(settings)

    def give_back(self, consumer: KafkaConsumer) -> None:
        with self.lock:
            waiting = self.idle.setdefault(_key(consumer.settings), [])
            if len(waiting) < _MOST_IDLE:
                waiting.append(consumer)
                return
        consumer.close()

    def close(self, settings: KafkaClientSettings | None = None) -> None:
        with self.lock:
            keys = list(self.idle) if settings is None else [_key(settings)]
            closing = [consumer for key in keys for consumer in self.idle.pop(key, [])]
        for consumer in closing:
            consumer.close()


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
def borrowed_consumer(settings: KafkaClientSettings) -> Iterator[KafkaConsumer]:
    """A consumer without an assignment. It is kept for others afterwards, unless an error came.

    Args:
        settings: Its settings.

    Raises:
        HoodieConfigException: confluent-kafka is missing, or a setting is wrong.
    """
    pool = _pool
    consumer = pool.take(settings)
    consumer.problem = None
    try:
        yield consumer
        consumer.client.unassign()
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
