"""Events of the client, and the time that it is silent, between and within rounds of one consumer."""

from __future__ import annotations

import time

import pytest

from hoodie.exception import HoodieReadFromSourceException, HoodieSourceTimeoutException

confluent_kafka = pytest.importorskip("confluent_kafka")

from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings  # noqa: E402
from hoodie.utilities.sources.helpers.kafka_offset_ranges import OffsetRange  # noqa: E402
from hoodie.utilities.sources.helpers.kafka_reader import BLOCK_MESSAGES, KafkaRanges  # noqa: E402
from tests.support.kafka_messages import GivenClient, consumer_of, event, given  # noqa: E402

CODES = confluent_kafka.KafkaError


def ranges(*wanted: tuple[int, int, int], timeout_s: float = 0.5) -> KafkaRanges:
    settings = KafkaClientSettings({"bootstrap.servers": "kafka:9092"}, timeout_s=timeout_s)
    return KafkaRanges(settings, "trips", [OffsetRange(*one) for one in wanted], topic_id="1")


def offsets(wanted: KafkaRanges) -> list[int]:
    return [n for block in wanted.blocks() for n in block.offsets.tolist()]


def test_the_end_of_a_partition_that_waits_counts_in_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [given(range(10)), event(CODES._PARTITION_EOF, 20), given(range(5), 1)]
    client = GivenClient(answers)
    consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10), (1, 0, 5))) == [*range(10), *range(5)]
    # All of these were of transactions that were aborted.
    assert offsets(ranges((0, 10, 20))) == []
    assert client.calls == [("assign", [(0, 0), (1, 0)]), ("incremental_unassign", [(1, -1001)])]


def test_an_event_that_may_be_older_than_the_round_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GivenClient([given(range(10)), event(CODES.UNKNOWN_TOPIC_OR_PART), given(range(10, 20))])
    consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10))) == [*range(10)]
    assert offsets(ranges((0, 10, 20))) == [*range(10, 20)]
    assert client.calls == [
        ("assign", [(0, 0)]),
        ("incremental_unassign", [(0, 10)]),
        ("incremental_assign", [(0, 10)]),
    ]
    client.answers = [event(CODES.UNKNOWN_TOPIC_OR_PART)] * 2
    with pytest.raises(
        HoodieReadFromSourceException, match="partition 0 of Kafka at kafka:9092 cannot be read at offset 20"
    ):
        offsets(ranges((0, 20, 30)))


def test_messages_that_expire_within_a_round_that_goes_on_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GivenClient([given(range(10)), event(CODES._AUTO_OFFSET_RESET), event(CODES._AUTO_OFFSET_RESET)])
    consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10))) == [*range(10)]
    client.ends[0] = (15, 40)
    with pytest.raises(HoodieReadFromSourceException, match="now the topic has 15 to 40: they expired"):
        offsets(ranges((0, 10, 20)))


@pytest.mark.parametrize("code", [CODES._AUTO_OFFSET_RESET, CODES.UNKNOWN_TOPIC_OR_PART])
def test_a_partition_that_fails_while_it_waits_is_assigned_anew(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    client = GivenClient([given(range(12)), event(code), given(range(5), 1), given(range(10, 20))])
    consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10), (1, 0, 5))) == [*range(10), *range(5)]
    assert offsets(ranges((0, 10, 20))) == [*range(10, 20)]
    assert client.calls[1] == ("incremental_unassign", [(0, -1001)])
    assert ("incremental_assign", [(0, 10)]) in client.calls


def test_the_time_of_a_slow_reader_is_no_silence_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [given(range(BLOCK_MESSAGES)), [], [], given(range(BLOCK_MESSAGES, BLOCK_MESSAGES + 10))]
    client = GivenClient(answers)
    consumer_of(client, monkeypatch)
    blocks = ranges((0, 0, BLOCK_MESSAGES + 10)).blocks()
    assert len(next(blocks)) == BLOCK_MESSAGES
    time.sleep(0.6)
    assert len(next(blocks)) == 10
    assert list(blocks) == []


def test_a_cluster_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GivenClient([given(range(5)), given(range(50, 60), 7)])
    consumer_of(client, monkeypatch)
    with pytest.raises(
        HoodieSourceTimeoutException, match=r"nothing came within 0\.5 s \(partition 0 at offset 5 of 10"
    ):
        offsets(ranges((0, 0, 10)))


def test_messages_of_partitions_that_nobody_asked_for_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GivenClient([given(range(5), 3), given(range(3)), given(range(3, 12))])
    consumer = consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10))) == [*range(10)]
    assert sorted(consumer.received) == [0]
    assert (consumer.received[0].start, consumer.received[0].position) == (10, 12)


def test_a_position_elsewhere_takes_nothing_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GivenClient([given(range(15)), given(range(4, 20))])
    consumer_of(client, monkeypatch)
    assert offsets(ranges((0, 0, 10))) == [*range(10)]
    assert offsets(ranges((0, 4, 8))) == [*range(4, 8)]
    assert offsets(ranges((0, 8, 12))) == [*range(8, 12)]
    # Nothing was asked for in the last round.
    moves = [("incremental_unassign", [(0, -1001)]), ("incremental_assign", [(0, 4)])]
    assert client.calls == [("assign", [(0, 0)]), *moves]
