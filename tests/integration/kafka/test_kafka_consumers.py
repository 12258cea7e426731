"""Consumers that are kept: between rounds, and not by processes that were forked."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Sequence
from multiprocessing.connection import Connection

import pytest

from hoodie.utilities.sources.helpers import kafka_consumers
from hoodie.utilities.sources.source import SourceRead
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_sources import TopicReader, trips

pytestmark = pytest.mark.kafka


def numbers_of(read: SourceRead) -> Sequence[int]:
    return [n for one in read.batches() for n in one.rows.column("n").to_pylist()]


def test_a_consumer_serves_round_after_round(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    begin = kafka_consumers.KafkaConsumer.__init__

    def opening(self: kafka_consumers.KafkaConsumer, settings: object) -> None:
        opened.append(self)
        begin(self, settings)  # type: ignore[arg-type]

    monkeypatch.setattr(kafka_consumers.KafkaConsumer, "__init__", opening)
    topic = broker.topic(2)
    reader = TopicReader(broker, topic)
    for number in range(4):
        broker.produce(topic, trips(number, 1), partition=number % 2)
        assert reader.numbers() == [number]
    assert len(opened) == 1
    reader.source.close()
    broker.produce(topic, trips(9, 1))
    assert reader.numbers() == [9]
    assert len(opened) == 2


def test_a_consumer_that_was_left_in_the_middle_is_not_used_again(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 50_000))
    reader = TopicReader(broker, topic)
    (read,) = reader.fetch().reads
    left = read.batches()
    next(left)
    left.close()
    assert numbers_of(read) == [*range(50_000)]


def in_child(pickled: bytes, answer: Connection) -> None:
    answer.send(numbers_of(pickle.loads(pickled)))


@pytest.mark.parametrize("kind", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_other_processes_open_consumers_of_their_own(broker: KafkaBroker, kind: str) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 100))
    reader = TopicReader(broker, topic)
    (read,) = reader.fetch().reads
    assert numbers_of(read) == [*range(100)]
    context = multiprocessing.get_context(kind)
    here, there = context.Pipe()
    child = context.Process(target=in_child, args=(pickle.dumps(read), there))
    child.start()
    assert here.poll(60), "the other process does not answer"
    assert here.recv() == [*range(100)]
    child.join(30)
    assert child.exitcode == 0
    assert numbers_of(read) == [*range(100)]
