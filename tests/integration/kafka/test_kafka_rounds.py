"""Rounds over topics of a real broker: positions, limits, partitions, what is gone."""

from __future__ import annotations

import pickle
import time

import attrs
import pytest

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.kafka_offset_gen import TOPIC_ID_KEY
from hoodie.utilities.sources.source import read_all
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_sources import TopicReader, trips

pytestmark = pytest.mark.kafka

KAFKA = "hoodie.streamer.source.kafka."
MAY_LOSE = {f"{KAFKA}enable.failOnDataLoss": "false"}


def test_rounds_read_each_message_once_and_record_positions_as_hudi_does(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 5))
    broker.produce(topic, trips(10, 3), partition=1)
    reader = TopicReader(broker, topic)
    assert sorted(reader.numbers()) == [0, 1, 2, 3, 4, 10, 11, 12]
    assert reader.position == f"{topic},0:5,1:3"
    assert reader.checkpoint is not None
    assert reader.checkpoint.own == {TOPIC_ID_KEY: broker.topic_id(topic)}
    assert reader.numbers() == []
    assert reader.position == f"{topic},0:5,1:3"
    broker.produce(topic, trips(20, 1), partition=1)
    assert reader.numbers() == [20]
    assert reader.position == f"{topic},0:5,1:4"


def test_messages_of_a_partition_stay_in_order(broker: KafkaBroker) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.produce(topic, trips(100_000 * partition, 45_000), partition=partition)
    reader = TopicReader(broker, topic, properties={f"{KAFKA}minPartitions": "7"})
    batch = reader.fetch()
    decoded = [one for read in batch.reads for one in pickle.loads(pickle.dumps(read)).batches()]
    assert max(one.rows.num_rows for one in decoded) < 60_000
    for partition in range(3):
        own = [one for one in decoded if one.origin is not None and one.origin.partition == partition]
        assert [n for one in own for n in one.rows.column("n").to_pylist()] == [
            *range(100_000 * partition, 100_000 * partition + 45_000)
        ]
        assert [n for one in own for n in one.origin.numbers.tolist()] == [*range(45_000)]  # type: ignore[union-attr]


def test_ranges_of_spark_are_read_apart_from_each_other(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 90))
    broker.produce(topic, trips(100, 10), partition=1)
    reader = TopicReader(broker, topic, properties={f"{KAFKA}minPartitions": "4"})
    reader.source.context = attrs.evolve(reader.source.context, spark=object())  # type: ignore[arg-type]
    batch = reader.fetch()
    read = [[n for one in part.batches() for n in one.rows.column("n").to_pylist()] for part in batch.reads]
    assert read == [[*range(25)], [*range(25, 50)], [*range(50, 75)], [*range(75, 90)], [*range(100, 110)]]


def test_the_limit_and_max_events_bound_a_round(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 10))
    broker.produce(topic, trips(100, 1), partition=1)
    reader = TopicReader(broker, topic, properties={"hoodie.streamer.kafka.source.maxEvents": "4"})
    assert len(reader.numbers(limit=6)) == 6
    assert reader.batch is not None
    assert (reader.batch.rows, reader.batch.backlog) == (6, 5)
    assert reader.batch.details == {"kafkaDelayCount": 11, "kafkaMessageInCount": 6, "sourceParallelism": 0}
    assert len(reader.numbers()) == 4
    assert reader.numbers() == [9]
    assert reader.batch.details["kafkaDelayCount"] == 1
    assert reader.numbers() == []
    assert reader.batch.details["kafkaDelayCount"] == 0


def test_a_limit_by_bytes_is_kept_about(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, [one[:-1] + b', "pad": "' + b"x" * 960 + b'"}' for one in trips(0, 500)])
    reader = TopicReader(broker, topic, properties={f"{KAFKA}max.batch.bytes": "100000"})
    assert 95 <= len(reader.numbers()) <= 102
    broker.produce(topic, [b'{"id": "' + b"x" * 500_000 + b'"}'])
    tiny = TopicReader(broker, topic, properties={f"{KAFKA}max.batch.bytes": "10"})
    assert len(tiny.numbers()) == 1


def test_tables_without_a_position_begin_where_the_option_says(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 3))
    latest = TopicReader(broker, topic, properties={"auto.offset.reset": ""})
    assert latest.numbers() == []
    assert latest.position == f"{topic},0:3,1:0"
    assert "only messages from now on are read" in latest.lines[-1]
    broker.produce(topic, trips(3, 2))
    assert latest.numbers() == [3, 4]
    group = {"auto.offset.reset": "group", "group.id": "of-this-test"}
    without = TopicReader(broker, topic, properties=group)
    assert without.numbers() == []
    assert "group of-this-test has no offset for partitions 0, 1" in without.lines[-1]
    committing = TopicReader(
        broker, topic, properties={"group.id": "of-this-test", f"{KAFKA}enable.commit.offset": "true"}
    )
    committing.source.on_commit(Checkpoint(f"{topic},0:4,1:0"))
    assert broker.group_offsets("of-this-test", topic) == {0: 4, 1: 0}
    assert TopicReader(broker, topic, properties=group).numbers() == [4]
    with pytest.raises(HoodieConfigException, match=r"auto\.offset\.reset = group needs group\.id"):
        TopicReader(broker, topic, properties={"auto.offset.reset": "group"}).fetch()


def test_a_position_that_cannot_be_committed_is_a_warning(
    broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.topic(1)
    reader = TopicReader(broker, topic, properties={f"{KAFKA}enable.commit.offset": "true"})
    reader.source.on_commit(Checkpoint(f"{topic},0:4"))
    assert f"The position {topic},0:4 is not committed to Kafka: " in caplog.text
    assert "needs group.id" in caplog.text


def test_positions_that_are_given_may_be_times_or_one_offset(broker: KafkaBroker) -> None:
    topic = broker.topic(2, retention_ms=-1)
    day = 1_700_000_000_000
    broker.produce(topic, trips(0, 4), timestamps=[day, day + 10, day + 20, day + 30])
    broker.produce(topic, trips(10, 2), partition=1, timestamps=[day - 20, day - 10])
    timed = TopicReader(broker, topic, properties={f"{KAFKA}checkpoint.type": "timestamp"})
    timed.checkpoint = Checkpoint(str(day + 15), is_given=True)
    assert sorted(timed.numbers()) == [2, 3, 10, 11]
    assert f"no message at or after {day + 15} ms in partitions 1" in timed.lines[-1]
    assert timed.numbers() == []
    timed.checkpoint = Checkpoint(str(day))
    with pytest.raises(HoodieConfigException, match="is no position of topic"):
        timed.fetch()
    one = {f"{KAFKA}checkpoint.type": "single_offset"}
    with pytest.raises(HoodieConfigException, match="has 2 partitions"):
        several = TopicReader(broker, topic, properties=one)
        several.checkpoint = Checkpoint("3", is_given=True)
        several.fetch()
    narrow = broker.topic(1)
    broker.produce(narrow, trips(0, 4))
    single = TopicReader(broker, narrow, properties=one)
    single.checkpoint = Checkpoint("3", is_given=True)
    assert single.numbers() == [3]
    assert single.position == f"{narrow},0:4"


def test_partitions_that_are_added_are_read_from_their_earliest_message(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 2))
    reader = TopicReader(broker, topic)
    reader.round()
    broker.add_partitions(topic, 3)
    broker.produce(topic, trips(10, 4), partition=2)
    broker.delete_records(topic, {2: 1})
    assert reader.numbers() == [11, 12, 13]
    assert reader.position == f"{topic},0:2,1:0,2:4"
    assert "partitions 1, 2 are new" in reader.lines[-1]


def test_messages_that_expired_are_refused_or_left_out_by_their_partition_alone(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 10))
    broker.produce(topic, trips(100, 10), partition=1)
    broker.delete_records(topic, {0: 6})
    position = Checkpoint(f"{topic},0:2,1:8")
    reader = TopicReader(broker, topic)
    reader.checkpoint = position
    with pytest.raises(HoodieReadFromSourceException) as refused:
        reader.fetch()
    for part in (topic, "partition 0: the position is offset 2, the earliest one is 6 (4 are gone)",
                 "enable.failOnDataLoss=false"):  # fmt: skip
        assert part in str(refused.value)
    assert "partition 1" not in str(refused.value)
    losing = TopicReader(broker, topic, properties=MAY_LOSE)
    losing.checkpoint = position
    assert sorted(losing.numbers()) == [6, 7, 8, 9, 108, 109]
    assert "partition 0: the position is offset 2" in losing.lines[-1]


def test_a_position_ahead_of_the_end_is_refused(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, trips(0, 3))
    reader = TopicReader(broker, topic)
    reader.checkpoint = Checkpoint(f"{topic},0:7,1:0")
    with pytest.raises(HoodieReadFromSourceException, match="partition 0: the position is offset 7, the end is 3"):
        reader.fetch()
    losing = TopicReader(broker, topic, properties=MAY_LOSE)
    losing.checkpoint = reader.checkpoint
    assert losing.numbers() == [0, 1, 2]


def test_a_topic_that_was_made_again_is_refused_also_if_it_is_longer_now(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    reader = TopicReader(broker, topic)
    reader.round()
    old_id = broker.topic_id(topic)
    broker.delete_topic(topic)
    broker.topic(1, topic)
    broker.produce(topic, trips(50, 5))
    with pytest.raises(HoodieReadFromSourceException) as refused:
        reader.fetch()
    for part in (f"topic {topic} was deleted and made again", old_id, broker.topic_id(topic), f"{topic},0:3",
                 "partition 0: 0 to 5", "--checkpoint", "enable.failOnDataLoss=false"):  # fmt: skip
        assert part in str(refused.value)
    losing = TopicReader(broker, topic, properties=MAY_LOSE)
    losing.checkpoint = reader.checkpoint
    assert losing.numbers() == [50, 51, 52, 53, 54]
    assert losing.checkpoint is not None
    assert losing.checkpoint.own == {TOPIC_ID_KEY: broker.topic_id(topic)}
    given = TopicReader(broker, topic)
    assert reader.checkpoint is not None
    given.checkpoint = attrs.evolve(reader.checkpoint, is_given=True)
    assert given.numbers() == [53, 54]


def test_the_position_of_a_topic_that_was_renamed_is_refused(broker: KafkaBroker) -> None:
    old, new = broker.topic(1), broker.topic(1)
    broker.produce(new, trips(0, 4))
    reader = TopicReader(broker, new)
    reader.checkpoint = Checkpoint(f"{old},0:2")
    with pytest.raises(HoodieReadFromSourceException, match=rf"one of topic {old} \({old},0:2\).* reads topic {new}"):
        reader.fetch()
    losing = TopicReader(broker, new, properties=MAY_LOSE)
    losing.checkpoint = reader.checkpoint
    assert losing.numbers() == [0, 1, 2, 3]


def test_a_position_with_a_partition_that_vanished_is_refused(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 4))
    reader = TopicReader(broker, topic)
    reader.checkpoint = Checkpoint(f"{topic},0:2,1:9")
    with pytest.raises(HoodieReadFromSourceException, match="has partitions 0, .* partition 1 at offset 9 besides"):
        reader.fetch()
    losing = TopicReader(broker, topic, properties=MAY_LOSE)
    losing.checkpoint = reader.checkpoint
    assert losing.numbers() == [2, 3]
    assert losing.position == f"{topic},0:4"


def test_positions_of_other_sources_are_refused(broker: KafkaBroker) -> None:
    reader = TopicReader(broker, broker.topic(1))
    reader.checkpoint = Checkpoint("1700000000000")
    with pytest.raises(HoodieConfigException, match="'1700000000000' is no position of topic"):
        reader.fetch()


def test_a_topic_that_does_not_exist_is_named(broker: KafkaBroker) -> None:
    with pytest.raises(HoodieReadFromSourceException, match="of topic no-such-topic, and refuses"):
        TopicReader(broker, "no-such-topic").fetch()


def test_messages_that_expire_while_they_are_read_are_refused_with_offsets(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 10))
    batch = TopicReader(broker, topic).fetch()
    losing = TopicReader(broker, topic, properties=MAY_LOSE).fetch()
    broker.delete_records(topic, {0: 6})
    with pytest.raises(HoodieReadFromSourceException) as refused:
        read_all(batch)
    for part in (topic, "partition 0", "messages 0 to 10", "has 6 to 10", "at offset 0", "enable.failOnDataLoss=false"):
        assert part in str(refused.value)
    assert read_all(losing)[0].column("n").to_pylist() == [6, 7, 8, 9]


def test_all_messages_of_a_range_may_expire_where_losing_them_is_allowed(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 10))
    losing = TopicReader(broker, topic, properties=MAY_LOSE).fetch(limit=5)
    broker.delete_records(topic, {0: 8})
    assert read_all(losing)[0].num_rows == 0


def test_retention_and_its_buffer_leave_out_what_expires_next(broker: KafkaBroker) -> None:
    now = int(time.time() * 1000)
    topic = broker.topic(1, retention_ms=10 * 60_000)
    broker.produce(topic, trips(0, 3), timestamps=[now - 9 * 60_000, now - 60_000, now])
    reader = TopicReader(broker, topic, properties={f"{KAFKA}offset.skip.buffer.minutes": "5"})
    assert reader.numbers() == [1, 2]
    assert "expire within 5 minutes are left out: 1 of partition 0" in reader.lines[-1]


def test_a_broker_that_is_away_ends_the_round_and_not_the_source(
    broker: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.utilities.unanswered._FIRST_LINE_S", 1.0)
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    reader = TopicReader(broker, topic, properties={"default.api.timeout.ms": "3000"})
    reader.round()
    broker.produce(topic, trips(3, 2))
    batch = reader.fetch()
    broker.stop()
    try:
        began = time.monotonic()
        with pytest.raises(HoodieSourceTimeoutException, match=f"{broker.address()} was asked for .* of topic {topic}"):
            reader.fetch()
        assert f"Kafka at {broker.address()} has not answered for 1 s" in caplog.messages[-1]
        caplog.clear()
        with pytest.raises(HoodieSourceTimeoutException, match="nothing came within 3 s .partition 0 at offset 3 of 5"):
            read_all(batch)
        assert f"it was asked for messages of topic {topic}, and it is tried for 2 s more" in caplog.messages[-1]
        assert time.monotonic() - began < 30
    finally:
        broker.start()
    assert read_all(batch)[0].column("n").to_pylist() == [3, 4]
    assert reader.numbers() == [3, 4]
    assert reader.position == f"{topic},0:5"


def test_an_address_without_a_broker_is_named_in_time(
    broker: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.utilities.unanswered._FIRST_LINE_S", 0.5)
    properties = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "1000"}
    began = time.monotonic()
    with pytest.raises(HoodieSourceTimeoutException, match=r"Kafka at 127\.0\.0\.1:1 was asked"):
        TopicReader(broker, "trips", properties=properties).fetch()
    assert time.monotonic() - began < 10
    (line,) = [text for text in caplog.messages if "has not answered" in text]
    assert line.startswith("Kafka at 127.0.0.1:1 has not answered for 1 s (")
    assert "refused" in line.lower()
