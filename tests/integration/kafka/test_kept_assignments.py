"""Consumers that stay assigned between rounds: what they were given beyond a range is read in the next one."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import attrs
import pytest

from hoodie.exception import HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers import kafka_cluster, kafka_consumers, kafka_reader, kafka_received
from hoodie.utilities.sources.helpers.kafka_consumers import KafkaConsumer
from hoodie.utilities.sources.source import read_all
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_sources import TRIP, TopicReader, trips

pytestmark = pytest.mark.kafka

NO_FAILURE = {"hoodie.streamer.source.kafka.enable.failOnDataLoss": "false"}


@attrs.frozen
class Assigned:
    """The places that consumers were assigned to, in the order of that."""

    starts: list[int]


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> Assigned:
    found = Assigned([])

    class Counted(kafka_received.ReceivedMessages):
        def __init__(self, start: int, end: int, parts: kafka_received.MessageParts) -> None:
            found.starts.append(start)
            super().__init__(start, end, parts)

    monkeypatch.setattr(kafka_reader, "ReceivedMessages", Counted)
    return found


def kept_consumers() -> list[KafkaConsumer]:
    return [one for waiting in kafka_consumers._pool.idle.values() for one in waiting if one.topic is not None]


def all_numbers(reader: TopicReader, limit: int) -> list[Sequence[int]]:
    found = []
    while numbers := reader.numbers(limit):
        found.append(numbers)
    return found


def test_rounds_go_on_where_the_last_one_ended(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.produce(topic, trips(10_000 * partition, 10_000), partition=partition)
    reader = TopicReader(broker, topic)
    rounds = all_numbers(reader, 2_000)
    assert [len(numbers) for numbers in rounds] == [2_000] * 10
    for number, numbers in enumerate(rounds):
        first = 1_000 * number
        assert sorted(numbers) == [*range(first, first + 1_000), *range(10_000 + first, 11_000 + first)]
    # Near the end of the topic, less waits than was read.
    assert assigned.starts == [0, 0]
    assert kept_consumers() == []
    broker.produce(topic, trips(50_000, 3))
    assert reader.numbers() == [50_000, 50_001, 50_002]
    assert assigned.starts == [0, 0, 10_000]
    reader.source.close()


def test_a_round_may_go_back_or_forward(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 10_000))
    reader = TopicReader(broker, topic)
    assert reader.numbers(100) == [*range(100)]
    begin = reader.checkpoint
    assert reader.numbers(100) == [*range(100, 200)]
    reader.checkpoint = begin
    assert reader.numbers(150) == [*range(100, 250)]
    reader.checkpoint = Checkpoint(f"{topic},0:700")
    assert reader.numbers(150) == [*range(700, 850)]
    assert reader.numbers(150) == [*range(850, 1000)]
    assert assigned.starts == [0, 100, 700]
    assert len(kept_consumers()) == 1
    reader.source.close()
    assert kept_consumers() == []


def test_messages_that_are_looked_at_first_are_read_once(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(4)
    for partition in range(4):
        broker.produce(topic, trips(10_000 * partition, 3_000), partition=partition)
    # Columns and sizes are taken from the first messages of each round, sizes of three partitions.
    reader = TopicReader(broker, topic, None, properties={"hoodie.streamer.source.kafka.max.batch.bytes": "60000"})
    rounds = all_numbers(reader, 100_000)
    assert len(rounds) > 5
    assert sorted(n for numbers in rounds for n in numbers) == [10_000 * p + n for p in range(4) for n in range(3_000)]
    assert assigned.starts.count(0) == 4
    reader.source.close()


def test_a_range_without_messages_whose_end_was_told_before_ends(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 50))
    producer = broker.producer(transactional_id=f"of-{topic}")
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        for value in trips(100, 40):
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        producer.abort_transaction(30)
    reader = TopicReader(broker, topic)
    # The end of the partition is told of once: with the last message.
    assert reader.numbers(50) == [*range(50)]
    assert reader.numbers(60) == []
    assert reader.position == f"{topic},0:110"
    assert reader.numbers(60) == []
    assert reader.position == f"{topic},0:132"
    assert assigned.starts == [0, 110]
    broker.produce(topic, trips(200, 2))
    assert reader.numbers() == [200, 201]
    reader.source.close()


@pytest.mark.parametrize("is_given", [False, True])
def test_a_topic_that_is_made_again_gives_its_own_messages(broker: KafkaBroker, is_given: bool) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 1_000))
    reader = TopicReader(broker, topic, properties=NO_FAILURE)
    assert reader.numbers(100) == [*range(100)]
    assert len(kept_consumers()) == 1
    broker.delete_topic(topic)
    broker.topic(1, name=topic)
    broker.produce(topic, trips(5_000, 1_000))
    if is_given:
        # A position without the id of its topic fits the new one.
        reader.checkpoint = Checkpoint(f"{topic},0:100")
        assert reader.numbers(100) == [*range(5_100, 5_200)]
        assert reader.numbers(100) == [*range(5_200, 5_300)]
    else:
        assert reader.numbers(100) == [*range(5_000, 5_100)]
    reader.source.close()


def test_messages_that_expire_between_rounds_are_told(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 1_000))
    reader = TopicReader(broker, topic)
    assert reader.numbers(100) == [*range(100)]
    broker.delete_records(topic, {0: 300})
    with pytest.raises(HoodieReadFromSourceException, match=r"200 are gone"):
        reader.numbers(100)
    skipping = TopicReader(broker, topic, properties=NO_FAILURE)
    skipping.checkpoint = reader.checkpoint
    assert skipping.numbers(100) == [*range(300, 400)]
    reader.source.close()


def test_partitions_that_are_ahead_of_others_are_left_when_they_fill_the_memory(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, assigned: Assigned
) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 40_000), partition=0)
    broker.produce(topic, trips(100_000, 40_000), partition=1)
    monkeypatch.setattr(kafka_reader, "_BLOCK_BYTES", 200_000)
    reader = TopicReader(broker, topic)
    reader.checkpoint = Checkpoint(f"{topic},0:0,1:35000")
    numbers = reader.numbers(10_000)
    assert sorted(numbers) == [*range(5_000), *range(135_000, 140_000)]
    (consumer,) = kept_consumers() or [None]
    held = 0 if consumer is None else sum(one.bytes for one in consumer.received.values())
    assert held <= 200_000
    rest = [n for numbers in all_numbers(reader, 9_000) for n in numbers]
    assert rest == [*range(5_000, 40_000)]
    reader.source.close()


@pytest.mark.parametrize("is_one_topic", [False, True])
def test_two_sources_at_once_read_their_own(broker: KafkaBroker, is_one_topic: bool) -> None:
    topics = [broker.topic(2), broker.topic(2)]
    for number, topic in enumerate(topics):
        for partition in range(2):
            broker.produce(topic, trips(100_000 * number + 10_000 * partition, 5_000), partition=partition)
    if is_one_topic:
        topics[1] = topics[0]
    readers = [TopicReader(broker, topic) for topic in topics]
    found: list[list[int]] = [[], []]

    def run(number: int) -> None:
        for numbers in all_numbers(readers[number], 700):
            found[number] += numbers

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, topic in enumerate(topics):
        first = 0 if topic == topics[0] else 100_000
        assert sorted(found[number]) == [first + 10_000 * p + n for p in range(2) for n in range(5_000)]
    readers[0].source.close()


def test_few_consumers_stay_assigned(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 5_000))
    readers = [TopicReader(broker, topic, TRIP, properties={"client.id": f"c{number}"}) for number in range(6)]
    for reader in readers:
        assert reader.numbers(500) == [*range(500)]
    assert len(kept_consumers()) == 4
    for reader in readers:
        assert reader.numbers(500) == [*range(500, 1_000)]
    for reader in readers:
        reader.source.close()
    assert kept_consumers() == []


def test_rounds_of_a_topic_with_transactions_skip_aborted_ones_and_end_by_position(
    broker: KafkaBroker, assigned: Assigned
) -> None:
    topic = broker.topic(2)
    producer = broker.producer(transactional_id=f"of-{topic}")
    producer.init_transactions(30)
    committed = []
    for number in range(60):
        producer.begin_transaction()
        for place, value in enumerate(trips(100 * number, 30)):
            producer.produce(topic, value, partition=place % 2)
        producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += [100 * number + n for n in range(30)]
    reader = TopicReader(broker, topic)
    # Each has 60 transactions of 15 messages and a marker. Rounds end in them, after them, and at their markers.
    found = [n for _ in range(960 // 17 + 1) for n in reader.numbers(34)]
    assert reader.position == f"{topic},0:960,1:960"
    assert sorted(found) == committed
    # Less than a round is left then.
    assert assigned.starts == [0, 0, 952, 952]
    reader.source.close()


def test_rounds_of_a_compacted_topic_step_over_gaps(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(
        1, cleanup_policy="compact", min_cleanable_dirty_ratio=0.001, segment_ms=100, max_compaction_lag_ms=200,
        delete_retention_ms=100, segment_bytes=1048576,
    )  # fmt: skip
    # Every other message has a key of its own, which stays.
    for number in range(5):
        keys = [f"key{key}" if key % 2 else f"key{number}-{key}" for key in range(200)]
        broker.produce(topic, trips(200 * number, 200), keys=keys)
    deadline = time.monotonic() + 60
    while len(TopicReader(broker, topic).numbers()) > 700:
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.3)
        broker.produce(topic, trips(1_000, 1), keys=["key1"])
    assigned.starts.clear()
    reader = TopicReader(broker, topic)
    reader.checkpoint = Checkpoint(f"{topic},0:0")
    found = [n for _ in range(20) for n in reader.numbers(50)]
    assert reader.position == f"{topic},0:1000"
    assert found == sorted(found)
    assert set(range(0, 1_000, 2)) < set(found) < set(range(1_000))
    assert len(found) < 750
    assert assigned.starts[0] == 0
    assert len(assigned.starts) < 5
    reader.source.close()


def test_a_partition_that_is_new_begins_beside_those_that_go_on(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 1_000))
    reader = TopicReader(broker, topic)
    assert reader.numbers(100) == [*range(100)]
    broker.add_partitions(topic, 2)
    broker.produce(topic, trips(5_000, 100), partition=1)
    assert sorted(reader.numbers(200)) == [*range(100, 200), *range(5_000, 5_100)]
    assert reader.numbers(100) == [*range(200, 300)]
    assert assigned.starts == [0, 0]
    reader.source.close()


def test_messages_that_wait_outlive_a_broker_that_is_away(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 60_000))
    reader = TopicReader(broker, topic, properties={"default.api.timeout.ms": "3000"})
    assert reader.numbers(100) == [*range(100)]
    next_batch = reader.fetch(20_000)
    broker.stop()
    try:
        with pytest.raises(HoodieSourceTimeoutException):
            reader.fetch(100)
    finally:
        broker.start()
    broker.produce(topic, trips(60_000, 1_000))
    rows, _ = read_all(next_batch)
    assert rows["n"].to_pylist() == [*range(100, 20_100)]
    reader.checkpoint = next_batch.checkpoint
    assert reader.numbers() == [*range(20_100, 61_000)]
    # The end of the topic may be unknown for a while.
    assert assigned.starts in ([0], [0, 20_100])
    reader.source.close()


def test_a_topic_without_an_id_is_assigned_anew(
    broker: KafkaBroker, assigned: Assigned, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 1_000))
    # As old brokers answer.
    monkeypatch.setattr(kafka_cluster, "_NO_ID", (broker.topic_id(topic),))
    reader = TopicReader(broker, topic)
    assert reader.numbers(100) == [*range(100)]
    assert kept_consumers() == []
    assert reader.numbers(100) == [*range(100, 200)]
    assert assigned.starts == [0, 100]
    reader.source.close()


def test_a_round_that_fails_leaves_nothing_to_the_next_one(broker: KafkaBroker, assigned: Assigned) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 60_000))
    reader = TopicReader(broker, topic)
    assert reader.numbers(100) == [*range(100)]
    (read,) = reader.fetch(50_000).reads
    left = read.batches()
    next(left)
    left.close()
    assert kept_consumers() == []
    assert reader.numbers(50_000) == [*range(100, 50_100)]
    # A round that was read, and not committed.
    read_all(reader.fetch(1_000))
    assert reader.numbers(1_000) == [*range(50_100, 51_100)]
    assert assigned.starts == [0, 100, 50_100, 50_100]
    reader.source.close()


def test_many_rounds_that_jump_read_what_they_ask_for(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 100_000))
    reader = TopicReader(broker, topic)
    position = 0
    for number in range(60):
        reader.checkpoint = Checkpoint(f"{topic},0:{position}")
        assert reader.numbers(300) == [*range(position, position + 300)]
        position = position + 300 if number % 3 else (position * 7 + 12_345) % 90_000
    reader.source.close()
