"""Messages that a consumer was given and nobody has read yet, partition by partition.

The parts of messages are kept, and not the client's objects: those are several times as large, and a few thousand of
them do not fit in the cache of a processor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import attrs
import numpy as np

from hoodie.utilities.sources.helpers.kafka_cluster import require_confluent_kafka
from hoodie.utilities.sources.helpers.message_decoder import Messages

_OBJECT_BYTES = 100
"""The memory of a message beside its value and its key."""
_milliseconds = itemgetter(1)


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
class KeptTopic:
    """The topic that a consumer stays assigned to between rounds.

    Attributes:
        name: The topic.
        topic_id: Its id: a topic of the same name that is made later has another one.
        parts: The parts of messages that are kept.
    """

    name: str
    topic_id: str
    parts: MessageParts


class ReceivedMessages:
    """Messages of a partition, in the order of their offsets.

    Args:
        start: The offset that they begin at.
        end: The end of the range that is read.
        parts: The parts that are wanted.

    Attributes:
        start: The offset that the next messages to be read begin at.
        position: The offset before which all messages were received.
        end: The end of the range that is read. Messages after it wait for the next one.
        bytes: The memory of the messages.
    """

    def __init__(self, start: int, end: int, parts: MessageParts) -> None:
        self.start = start
        self.position = start
        self.end = end
        self.bytes = 0
        self._parts = parts
        self._offsets: list[int] = []
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._headers: list[Any] = []

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_finished(self) -> bool:
        """Whether all messages of the range were received."""
        return self.position >= self.end

    def add(self, messages: Sequence[Any]) -> bool:
        """Take messages of the client.

        Args:
            messages: The messages: at least one, and no event.

        Returns:
            Whether there was a new one among them.
        """
        kind, parts = require_confluent_kafka().Message, self._parts
        offsets = list(map(kind.offset, messages))
        if offsets[0] < self.position:
            known = bisect_left(offsets, self.position)
            messages, offsets = messages[known:], offsets[known:]
            if not offsets:
                return False
        values = list(map(kind.value, messages))
        self._offsets += offsets
        self._values += values
        self.bytes += _size(values)
        if parts.keys:
            keys = list(map(kind.key, messages))
            self._keys += keys
            self.bytes += _size(keys)
        if parts.timestamps:
            self._timestamps += map(_milliseconds, map(kind.timestamp, messages))
        if parts.headers:
            self._headers += map(kind.headers, messages)
        self.position = offsets[-1] + 1
        return True

    def read(self, topic: str, partition: int, most: int) -> Messages | None:
        """The first messages of the range, which stay here.

        Args:
            topic: The topic.
            partition: The partition.
            most: The most messages.

        Returns:
            The messages; None if there is none.
        """
        count = min(most, self._count_in_range)
        if not count:
            return None
        return Messages(
            topic,
            partition,
            np.fromiter(self._offsets[:count], np.int64, count),
            self._values[:count],
            self._keys[:count] if self._parts.keys else [None] * count,
            np.fromiter(self._timestamps[:count], np.int64, count)
            if self._parts.timestamps
            else np.full(count, -1, np.int64),
            self._headers[:count] if self._parts.headers else None,
        )

    def take(self, topic: str, partition: int, most: int) -> Messages | None:
        """The first messages of the range, which are gone from here then.

        Args:
            topic: The topic.
            partition: The partition.
            most: The most messages.

        Returns:
            The messages; None if there is none.
        """
        found = self.read(topic, partition, most)
        if found is not None:
            count = len(found)
            for part in (self._offsets, self._values, self._keys, self._timestamps, self._headers):
                del part[:count]
            self.start = int(found.offsets[-1]) + 1
            self.bytes = _size(self._values) + _size(self._keys) if self._offsets else 0
        if self.is_finished and not self._count_in_range:
            self.start = self.end
        return found

    @property
    def _count_in_range(self) -> int:
        if self.position <= self.end:
            return len(self._offsets)
        return bisect_left(self._offsets, self.end)


def _size(texts: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, texts))) + _OBJECT_BYTES * len(texts)
