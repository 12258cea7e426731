"""Messages that were received and not read yet: what is in the range, what is after it, and what came twice."""

from __future__ import annotations

import pytest

from hoodie.utilities.sources.helpers.kafka_received import MessageParts, ReceivedMessages

pytest.importorskip("confluent_kafka")

from tests.support.kafka_messages import given, use_given_messages


@pytest.fixture(autouse=True)
def messages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_given_messages(monkeypatch)


def test_messages_after_the_range_wait_for_the_next_one() -> None:
    received = ReceivedMessages(10, 13, MessageParts(keys=True, timestamps=True))
    assert received.add(given(range(10, 12)))
    assert not received.is_finished
    received.add(given(range(12, 16)))
    assert received.is_finished
    first = received.take("t", 3, 2)
    assert first is not None
    assert first.offsets.tolist() == [10, 11]
    second = received.take("t", 3, 2)
    assert second is not None
    assert (second.topic, second.partition) == ("t", 3)
    assert (second.offsets.tolist(), list(second.values), list(second.keys)) == ([12], [b"v12"], [b"k12"])
    assert second.timestamps_ms.tolist() == [12]
    assert received.take("t", 3, 2) is None
    assert received.start == 13
    received.end = 20
    assert not received.is_finished
    third = received.take("t", 3, 100)
    assert third is not None
    assert third.offsets.tolist() == [13, 14, 15]
    assert received.bytes == 0


def test_the_start_moves_to_the_end_of_a_range_whose_last_offsets_hold_no_message() -> None:
    received = ReceivedMessages(0, 5, MessageParts())
    received.add(given([0, 1, 8]))
    found = received.take("t", 3, 100)
    assert found is not None
    assert found.offsets.tolist() == [0, 1]
    assert list(found.keys) == [None, None]
    assert (received.start, received.position, len(received)) == (5, 9, 1)


def test_messages_that_came_already_are_not_taken_again() -> None:
    received = ReceivedMessages(0, 100, MessageParts(headers=True))
    assert received.add(given(range(5)))
    assert received.add(given(range(3, 7)))
    assert not received.add(given(range(2, 7)))
    found = received.read("t", 3, 100)
    assert found is not None
    assert found.offsets.tolist() == [*range(7)]
    assert found.headers is not None
    assert len(found.headers) == 7


def test_messages_that_are_looked_at_stay() -> None:
    received = ReceivedMessages(0, 100, MessageParts())
    received.add(given(range(5)))
    before = received.bytes
    for _ in range(2):
        found = received.read("t", 3, 2)
        assert found is not None
        assert list(found.values) == [b"v0", b"v1"]
    assert (len(received), received.start, received.bytes) == (5, 0, before)
    assert before > 5 * 2
