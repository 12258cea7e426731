"""What topics hold: transactions, compaction, tombstones, bad messages, keys and headers."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.sources.source import read_all
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_sources import TRIP, TopicReader, trips

pytestmark = pytest.mark.kafka

KAFKA = "hoodie.streamer.source.kafka."
DELETES = {f"{KAFKA}tombstones": "delete", "hoodie.datasource.write.recordkey.field": "id"}


def transaction(broker: KafkaBroker, topic: str, values: list[bytes], end: str) -> Any:
    producer = broker.producer(transactional_id=f"of-{topic}-{values[0].decode()}")
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)
    return producer


def test_ranges_of_transactional_topics_end_by_position(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    transaction(broker, topic, trips(0, 3), "commit")
    transaction(broker, topic, trips(10, 3), "abort")
    transaction(broker, topic, trips(20, 2), "commit")
    reader = TopicReader(broker, topic)
    began = time.monotonic()
    assert reader.numbers() == [0, 1, 2, 20, 21]
    assert time.monotonic() - began < 10
    # 8 messages and 3 markers.
    assert reader.position == f"{topic},0:11"
    assert reader.numbers() == []
    step = TopicReader(broker, topic)
    assert [step.numbers(limit=4) for _ in range(4)] == [[0, 1, 2], [], [20, 21], []]
    both = TopicReader(broker, topic, properties={"isolation.level": "read_uncommitted"})
    assert both.numbers() == [0, 1, 2, 10, 11, 12, 20, 21]


def test_messages_of_an_open_transaction_wait(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 2))
    opened = transaction(broker, topic, trips(10, 2), "")
    broker.produce(topic, trips(20, 1))
    reader = TopicReader(broker, topic)
    assert reader.numbers() == [0, 1]
    assert reader.position == f"{topic},0:2"
    assert reader.numbers() == []
    uncommitted = TopicReader(broker, topic, properties={"isolation.level": "read_uncommitted"})
    assert uncommitted.numbers() == [0, 1, 10, 11, 20]
    # Its position is beyond what may be read now, and not lost.
    reader.checkpoint, before = uncommitted.checkpoint, reader.checkpoint
    assert reader.numbers() == []
    assert reader.position == f"{topic},0:5"
    reader.checkpoint = before
    opened.commit_transaction(30)
    # The broker marks its end a little later.
    deadline = time.monotonic() + 30
    while broker.ends(topic, "read_committed")[0][1] < 6:
        assert time.monotonic() < deadline
    assert reader.numbers() == [10, 11, 20]


def test_gaps_of_compaction_are_stepped_over(broker: KafkaBroker) -> None:
    topic = broker.topic(
        1, cleanup_policy="compact", min_cleanable_dirty_ratio=0.001, segment_ms=100, max_compaction_lag_ms=200,
        delete_retention_ms=100, segment_bytes=1048576,
    )  # fmt: skip
    for number in range(5):
        broker.produce(topic, trips(100 * number, 50), keys=[f"key{key}" for key in range(50)])
    deadline = time.monotonic() + 60
    expected = [*range(400, 450)]
    while True:
        time.sleep(0.3)
        broker.produce(topic, trips(400, 50), keys=[f"key{key}" for key in range(50)])
        end = broker.ends(topic)[0][1]
        reader = TopicReader(broker, topic)
        found = reader.numbers()
        assert reader.position == f"{topic},0:{end}"
        assert found[-50:] == expected
        if len(found) < end - 100:
            break
        assert time.monotonic() < deadline, "nothing was compacted"
    # A range that compaction has emptied ends too.
    empty = TopicReader(broker, topic)
    assert empty.numbers(limit=20) == []
    assert empty.position == f"{topic},0:20"


def test_tombstones_are_dropped_or_delete_the_record_of_their_key(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(
        topic,
        [*trips(0, 2), None, None, *trips(2, 1), None, b""],
        keys=["k0", "k1", "k0", '{"id": "k1", "more": 1}', "k2", None, "k9"],
    )
    dropped = TopicReader(broker, topic)
    assert [row["id"] for row in dropped.round()] == ["k0", "k1", "k2"]
    assert dropped.errors == []
    deleting = TopicReader(broker, topic, properties=DELETES)
    assert deleting.round() == [
        {"id": "k0", "n": 0, "_hoodie_is_deleted": False},
        {"id": "k1", "n": 1, "_hoodie_is_deleted": False},
        {"id": "k0", "n": None, "_hoodie_is_deleted": True},
        {"id": "k1", "n": None, "_hoodie_is_deleted": True},
        {"id": "k2", "n": 2, "_hoodie_is_deleted": False},
    ]
    (error,) = deleting.errors
    assert error["error_id"] == f"{topic}/0/5"
    assert error["message"] == "a tombstone's key is not the record key: it has none"
    with pytest.raises(HoodieConfigException, match=r"tombstones = delete needs hoodie\.datasource\.write\.recordkey"):
        TopicReader(broker, topic, properties={f"{KAFKA}tombstones": "delete"})


def test_keys_of_tombstones_get_the_types_of_the_record_key(broker: KafkaBroker) -> None:
    schema = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"},
                                                   {"name": "v", "type": "double"}]}
    )  # fmt: skip
    topic = broker.topic(1)
    broker.produce(
        topic,
        [b'{"a":1,"b":"x","v":0.5}', None, None, None],
        keys=[None, '{"a":"7","b":5}', "plain", '{"a":1}'],
    )
    properties = {**DELETES, "hoodie.datasource.write.recordkey.field": "a,b"}
    reader = TopicReader(broker, topic, schema, properties=properties)
    assert reader.round() == [
        {"a": 1, "b": "x", "v": 0.5, "_hoodie_is_deleted": False},
        {"a": 7, "b": "5", "v": None, "_hoodie_is_deleted": True},
    ]
    assert [error["offset"] for error in reader.errors] == [2, 3]
    assert "'plain' is no JSON object with a, b" in reader.errors[0]["message"]
    assert "has no b" in reader.errors[1]["message"]


def test_columns_of_offsets_keys_and_headers_are_added_on_request(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    now = int(time.time() * 1000)
    broker.produce(
        topic, [*trips(0, 1), b"null", *trips(1, 1)], partition=1, keys=["a", "b", b"\xff"],
        headers=[[("h", b"1"), ("h", b"2"), ("x", None)], None, None], timestamps=[now, now, now + 1],
    )  # fmt: skip
    properties = {f"{KAFKA}append.offsets": "true", f"{KAFKA}key.column": "key", f"{KAFKA}headers.column": "headers"}
    reader = TopicReader(broker, topic, properties=properties)
    first, second = reader.round()
    assert first == {
        "id": "k0", "n": 0, "_hoodie_kafka_source_offset": 0, "_hoodie_kafka_source_partition": 1,
        "_hoodie_kafka_source_timestamp": now, "_hoodie_kafka_source_key": "a", "key": "a",
        "headers": [("h", "2"), ("x", None)],
    }  # fmt: skip
    assert second["_hoodie_kafka_source_offset"] == 2
    assert second["_hoodie_kafka_source_timestamp"] == now + 1
    assert (second["key"], second["headers"]) == ("\\xff", None)
    assert reader.batch is not None
    assert reader.batch.schema is not None
    assert reader.batch.schema.field("_hoodie_kafka_source_partition").type == pa.int32()
    assert [error["offset"] for error in reader.errors] == [1]
    with pytest.raises(HoodieConfigException, match="the column 'n' for keys or headers"):
        TopicReader(broker, topic, properties={f"{KAFKA}key.column": "n"}).round()


def test_bad_messages_are_errors_and_the_good_ones_are_rows(broker: KafkaBroker) -> None:
    topic = broker.topic(1, max_message_bytes=29_000_000)
    large = b'{"id": "' + b"x" * 20_000_000 + b'"}'
    bad = [b"null", b"[1]", b'{"id":"a"}{"id":"b"}', b" ", b'{"id":"\xff"}', b'{"n":1}', b"{", b'{"id":"a","n":NaN}',
           b'{"id":"a","z":' + b"[" * 100_000 + b"]" * 100_000 + b"}"]  # fmt: skip
    values: list[bytes | str | None] = [*trips(0, 1), *bad, *trips(1, 1), large, large[:-1], *trips(2, 1)]
    broker.produce(topic, values, message_max_bytes=29_000_000)
    reader = TopicReader(broker, topic)
    rows = reader.round()
    assert [len(row["id"]) for row in rows] == [2, 2, 20_000_000, 2]
    assert [error["offset"] for error in reader.errors] == [*range(1, 1 + len(bad)), len(bad) + 3]
    assert {error["reason"] for error in reader.errors} == {"JSON_AVRO_DESERIALIZATION_FAILURE"}
    assert reader.position == f"{topic},0:{len(values)}"


def test_columns_that_nobody_told_come_from_the_table_or_from_the_messages(broker: KafkaBroker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, [b'{"id":"a","price":1.5,"at":"2024-01-01"}', None, b"null"])
    broker.produce(topic, [b'{"id":"b","place":{"zip":5}}'], partition=1)
    inferred = TopicReader(broker, topic, schema=None)
    rows = {row["id"]: row for row in inferred.round()}
    assert rows == {
        "a": {"id": "a", "price": 1.5, "at": "2024-01-01", "place": None},
        "b": {"id": "b", "price": None, "at": None, "place": {"zip": 5}},
    }
    assert "columns are taken from the first 3 messages" in inferred.lines[-1]
    assert "price double" in inferred.lines[-1]
    table = pa.schema([pa.field("id", pa.string(), nullable=False), ("price", pa.float32())])
    of_table = TopicReader(broker, topic, schema=None, table=table)
    assert sorted(of_table.round(), key=lambda row: str(row["id"])) == [
        {"id": "a", "price": 1.5, "at": "2024-01-01", "place": None},
        {"id": "b", "price": None, "at": None, "place": {"zip": 5}},
    ]
    assert of_table.batch is not None and of_table.batch.schema is not None
    assert of_table.batch.schema.field("price").type == pa.float32()
    assert "columns are those of the table, and new ones of the first 3 messages: id string" in of_table.lines[-1]
    for number in (1, 2):
        broker.produce(topic, [b'{"id":"c"}', b'{"id":"c","price":1e99}'])
        assert of_table.round() == [{"id": "c", "price": None}]
        assert ["give a schema, or widen the column" in error["message"] for error in of_table.errors] == [True]
        assert len([line for line in of_table.lines if "those of the table" in line]) == 2, number


def test_frames_of_a_schema_registry_are_taken_off(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, [b"\0\0\0\0\7" + one for one in trips(0, 2)] + [b"\1\0\0\0\7{}", b"\0\0\0", *trips(2, 1)])
    name = "hoodie.deltastreamer.source.kafka.json.value.deserializer.class"
    framed = {name: "io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer"}
    for schema in (TRIP, None):
        reader = TopicReader(broker, topic, schema, properties=framed)
        assert reader.numbers() == [0, 1]
        assert [error["offset"] for error in reader.errors] == [2, 3, 4]
        assert reader.errors[0]["message"] == "it does not begin with the zero and the schema id of a schema registry"
        assert "not one JSON object" in reader.errors[1]["message"]
    with pytest.raises(HoodieConfigException, match="StringDeserializer or io.confluent"):
        TopicReader(broker, topic, properties={name: "com.example.MyDeserializer"})


def test_a_topic_without_any_object_needs_a_schema(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, [b"null", b"[1]", None])
    with pytest.raises(HoodieSchemaProviderException, match="none of the first 2 messages is a JSON object"):
        TopicReader(broker, topic, schema=None).fetch()
    broker.produce(topic, [b"\0\0\0\0\7\2a"])
    with pytest.raises(HoodieSchemaProviderException, match="if it is Avro, give --source-class AvroKafkaSource"):
        TopicReader(broker, topic, schema=None).fetch()


def test_post_processors_of_maxwell_are_refused_by_name(broker: KafkaBroker) -> None:
    name = "org.apache.hudi.utilities.sources.processor.maxwell.MaxwellJsonKafkaSourcePostProcessor"
    with pytest.raises(HoodieConfigException, match=f"{name}: messages of Maxwell are not read"):
        TopicReader(broker, "t", properties={"hoodie.deltastreamer.source.json.kafka.processor.class": name})


def test_batches_may_be_read_again_and_in_other_processes(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 1000))
    batch = TopicReader(broker, topic, TRIP).fetch()
    first, second = read_all(batch)[0], read_all(batch)[0]
    assert first.equals(second)
    assert first.num_rows == 1000
