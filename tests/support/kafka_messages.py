"""A client of Kafka that gives messages and events of a test's choice, without a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import attrs
import confluent_kafka
import pytest

from hoodie.utilities.sources.helpers import kafka_reader, kafka_received
from hoodie.utilities.sources.helpers.kafka_consumers import KafkaConsumer


@attrs.frozen
class GivenMessage:
    """A message, or an event, as the client gives them; older clients let nobody make theirs.

    Attributes:
        number: The offset.
        place: The partition.
        code: The code of an event.
    """

    number: int
    place: int = 0
    code: int | None = None

    def offset(self) -> int:
        """The offset."""
        return self.number

    def partition(self) -> int:
        """The partition."""
        return self.place

    def error(self) -> Any:
        """The error of an event."""
        return None if self.code is None else confluent_kafka.KafkaError(self.code)

    def value(self) -> bytes:
        """The value."""
        return b"v%d" % self.number

    def key(self) -> bytes:
        """The key."""
        return b"k%d" % self.number

    def timestamp(self) -> tuple[int, int]:
        """The kind of the time, and milliseconds."""
        return 1, self.number

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers."""
        return [("h", b"%d" % self.number)]


def given(offsets: Iterable[int], partition: int = 0) -> list[GivenMessage]:
    """Messages with these offsets."""
    return [GivenMessage(number, partition) for number in offsets]


def event(code: int, offset: int = -1, partition: int = 0) -> list[GivenMessage]:
    """An event of a partition."""
    return [GivenMessage(offset, partition, code)]


class GivenClient:
    """A client that gives answers in turn, one for each time that it is asked; after them nothing comes.

    Args:
        answers: Messages and events.

    Attributes:
        calls: The assignments: the method, and partition and offset of each.
        ends: Partition -> the earliest offset and the end.
    """

    def __init__(self, answers: Sequence[Sequence[GivenMessage]]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []
        self.ends: dict[int, tuple[int, int]] = {}

    def consume(self, most: int, timeout: float) -> Sequence[GivenMessage]:
        """The next answer."""
        del most, timeout
        return self.answers.pop(0) if self.answers else []

    def poll(self, timeout: float) -> None:
        """Nothing."""
        time.sleep(min(timeout, 0.05))

    def get_watermark_offsets(self, place: Any, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        """The earliest offset and the end of a partition."""
        del timeout, cached
        return self.ends.get(place.partition, (0, 1_000_000))

    def unassign(self) -> None:
        """Leave all partitions."""
        self.calls.append(("unassign", []))

    def __getattr__(self, name: str) -> Callable[[Sequence[Any]], None]:
        if name not in ("assign", "incremental_assign", "incremental_unassign"):
            raise AttributeError(name)
        return lambda places: self.calls.append((name, [(one.partition, one.offset) for one in places]))


def use_given_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let modules take messages of this one for those of the client."""
    library = SimpleNamespace(
        Message=GivenMessage,
        KafkaError=confluent_kafka.KafkaError,
        KafkaException=confluent_kafka.KafkaException,
        TopicPartition=confluent_kafka.TopicPartition,
    )
    for module in (kafka_reader, kafka_received):
        monkeypatch.setattr(module, "require_confluent_kafka", lambda: library)


def consumer_of(client: GivenClient, monkeypatch: pytest.MonkeyPatch) -> KafkaConsumer:
    """A consumer with a client, which all rounds use."""
    use_given_messages(monkeypatch)
    consumer = KafkaConsumer.__new__(KafkaConsumer)
    consumer.client, consumer.topic, consumer.received, consumer.problem = client, None, {}, None

    @contextmanager
    def borrowed(*_: object) -> Iterator[KafkaConsumer]:
        yield consumer

    monkeypatch.setattr(kafka_reader, "borrowed_consumer", borrowed)
    return consumer
