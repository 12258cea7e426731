"""The streamer from topics into tables, beside a model of what was produced."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

import hoodie
from hoodie.cli.main import command
from hoodie.client.open_or_create import find_writable_table
from hoodie.utilities.streamer import HoodieStreamer, SyncResult
from hoodie.utilities.streamer.arguments import parse_arguments
from tests.support.kafka_broker import KafkaBroker
from tests.support.schema_registry import schema_registry
from tests.support.table_builder import write_config

pytestmark = pytest.mark.kafka

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "city", "type": "string"},
            {"name": "ts", "type": "long"},
            {"name": "fare", "type": ["null", "double"], "default": None},
            {"name": "_hoodie_is_deleted", "type": ["null", "boolean"], "default": None},
        ],
    }
)
WALK_THROUGH = """spark-submit --class org.apache.hudi.utilities.deltastreamer.HoodieDeltaStreamer packaging/hudi-utilities-bundle/target/hudi-utilities-bundle_2.11-0.5.2-incubating.jar
  --props file://${PWD}/hudi-utilities/src/test/resources/delta-streamer-config/kafka-source.properties
  --schemaprovider-class org.apache.hudi.utilities.schema.SchemaRegistryProvider --source-class org.apache.hudi.utilities.sources.AvroKafkaSource
  --source-ordering-field impresssiontime --target-base-path file://${PWD}/hudi-deltastreamer-op --target-table uber.impressions --table-type COPY_ON_WRITE --op BULK_INSERT
"""  # noqa: E501
IMPRESSIONS = {
    "type": "record",
    "name": "Impression",
    "fields": [
        {"name": "impresssiontime", "type": "long"},
        {"name": "impressionid", "type": "string"},
        {"name": "userid", "type": "string"},
        {"name": "adid", "type": "string"},
    ],
}


def avro(schema_id: int, row: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(IMPRESSIONS)), dict(row))
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def newest(path: Path) -> dict[str, str]:
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    timeline = snapshot.active_timeline
    # Commits of compactions hold no position.
    found = (
        timeline.read_commit_metadata(one).extra_metadata for one in reversed(timeline.completed_writes().instants)
    )
    return next((dict(extra) for extra in found if "deltastreamer.checkpoint.key" in extra), {})


def test_the_walk_through_of_hudi_verbatim(broker: KafkaBroker, tmp_path: Path, monkeypatch: Any) -> None:
    topic = broker.topic(2, "impressions")
    rows = [
        {"impresssiontime": 1000 + n, "impressionid": f"i{n}", "userid": f"u{n % 3}", "adid": f"a{n % 5}"}
        for n in range(40)
    ]
    with schema_registry() as registry:
        schema_id = registry.register("impressions-value", json.dumps(IMPRESSIONS))
        for partition in (0, 1):
            broker.produce(topic, [avro(schema_id, row) for row in rows[partition::2]], partition=partition)
        folder = tmp_path / "hudi-utilities/src/test/resources/delta-streamer-config"
        folder.mkdir(parents=True)
        (folder / "base.properties").write_text(
            "# Common properties\nhoodie.upsert.shuffle.parallelism=2\nhoodie.insert.shuffle.parallelism=2\n"
            "hoodie.bulkinsert.shuffle.parallelism=2\nhoodie.embed.timeline.server=true\n"
            "hoodie.filesystem.view.type=EMBEDDED_KV_STORE\n"
        )
        (folder / "kafka-source.properties").write_text(
            "include=base.properties\n# Key fields, for kafka example\n"
            "hoodie.datasource.write.recordkey.field=impressionid\n"
            "hoodie.datasource.write.partitionpath.field=userid\n# schema provider configs\n"
            f"hoodie.deltastreamer.schemaprovider.registry.url={registry.url}/subjects/impressions-value/versions/latest\n"
            "# Kafka Source\nhoodie.deltastreamer.source.kafka.topic=impressions\n#Kafka props\n"
            f"bootstrap.servers={broker.address()}\nauto.offset.reset=earliest\nschema.registry.url={registry.url}\n"
        )
        words = shlex.split(WALK_THROUGH.replace("${PWD}", str(tmp_path)))
        path = tmp_path / "hudi-deltastreamer-op"
        for call in (words, words[3:], words):
            result = CliRunner().invoke(command, ["streamer", *call])
            assert result.exit_code == 0, result.output
            assert newest(path)["deltastreamer.checkpoint.key"] == "impressions,0:20,1:20"
    table = hoodie.read_table(str(path), columns=[field["name"] for field in IMPRESSIONS["fields"]])
    assert sorted(table.to_pylist(), key=lambda row: row["impresssiontime"]) == rows
    assert hoodie.Table(str(path)).properties()["hoodie.table.name"] == "uber.impressions"
    assert len(hoodie.Table(str(path)).history()) == 1


def test_a_schema_with_a_union_of_several_types(broker: KafkaBroker, tmp_path: Path) -> None:
    union = {"name": "value", "type": ["null", "long", "string"], "default": None}
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, union]}
    topic = broker.topic()
    with schema_registry() as registry:
        schema_id = registry.register(f"{topic}-value", json.dumps(schema))
        messages = []
        for row in ({"id": "a", "value": 7}, {"id": "b", "value": "seven"}, {"id": "c", "value": None}):
            out = BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), row)
            messages.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
        broker.produce(topic, messages)
        words = [
            str(tmp_path / "t"), "--from", f"kafka://{broker.address()}/{topic}", "--source-class", "AvroKafkaSource",
            "--schemaprovider-class", "SchemaRegistryProvider", "--record-key", "id",
            "--hoodie-conf", f"schema.registry.url={registry.url}",
            "--hoodie-conf", "hoodie.streamer.schemaprovider.registry.url="
            f"{registry.url}/subjects/{topic}-value/versions/latest",
        ]  # fmt: skip
        run(words)
    rows = hoodie.read_table(str(tmp_path / "t"), columns=["id", "value"]).to_pylist()
    assert sorted((row["id"], row["value"]) for row in rows) == [
        ("a", {"member0": 7, "member1": None}), ("b", {"member0": None, "member1": "seven"}), ("c", None),
    ]  # fmt: skip


class Model:
    """What was produced: the newest row of each key; deletes take keys away."""

    def __init__(self, broker: KafkaBroker, partitions: int) -> None:
        self.broker = broker
        self.partitions = partitions
        self.topic = broker.topic(partitions)
        self.rows: dict[str, tuple[int, float | None]] = {}
        self._next = 0

    def produce(self, count: int) -> None:
        """Produce updates of a few keys, and deletes of some."""
        values: dict[int, list[bytes]] = {number: [] for number in range(self.partitions)}
        for number in range(self._next, self._next + count):
            key = f"k{number * 7 % 23}"
            row: dict[str, Any] = {"id": key, "city": "x", "ts": number, "fare": number / 2}
            if number % 11 == 5:
                row |= {"fare": None, "_hoodie_is_deleted": True}
                self.rows.pop(key, None)
            else:
                self.rows[key] = (number, number / 2)
            values[number * 7 % 23 % self.partitions].append(json.dumps(row).encode())
        self._next += count
        for partition, messages in values.items():
            self.broker.produce(self.topic, messages, partition=partition)

    def check(self, path: Path) -> None:
        """Compare a table with the model: every key once, the newest row, deleted keys gone."""
        table = hoodie.read_table(str(path), columns=["id", "ts", "fare"]).to_pylist()
        assert sorted((row["id"], row["ts"], row["fare"]) for row in table) == sorted(
            (key, *row) for key, row in self.rows.items()
        )

    def words(self, path: Path, schema: Path, *more: str) -> list[str]:
        """The command line of a run."""
        schema.write_text(SCHEMA)
        source = f"kafka://{self.broker.address()}/{self.topic}"
        return [
            str(path), "--from", source, "--record-key", "id", "--partition", "city", "--ordering", "ts", "--schema",
            str(schema), *more,
        ]  # fmt: skip


def run(words: list[str], spark: SparkSession | None = None) -> SyncResult | None:
    return HoodieStreamer(parse_arguments(words), spark).sync()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_rounds_follow_what_was_produced(
    broker: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest, engine: str, table_type: str
) -> None:
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    model = Model(broker, 3)
    path = tmp_path / "t"
    words = model.words(path, tmp_path / "s.avsc", "--table-type", table_type)
    for count in (60, 0, 30, 10):
        model.produce(count)
        run([*words, "--source-limit", "40"], spark)
    run(words, spark)
    model.check(path)


def test_continuous_rounds_follow_a_producer_while_partitions_are_added(broker: KafkaBroker, tmp_path: Path) -> None:
    model = Model(broker, 2)
    model.produce(20)
    path = tmp_path / "t"
    streamer = HoodieStreamer(
        parse_arguments([*model.words(path, tmp_path / "s.avsc"), "--continuous", "--table-type", "MERGE_ON_READ"])
    )
    thread = threading.Thread(target=streamer.sync)
    thread.start()
    try:
        for _ in range(4):
            model.produce(15)
            time.sleep(0.3)
        broker.add_partitions(model.topic, 3)
        broker.produce(model.topic, [b'{"id": "added", "city": "x", "ts": 1, "fare": 1.0}'], partition=2)
        model.rows["added"] = (1, 1.0)
        ends = ",".join(f"{p}:{end}" for p, (_, end) in sorted(broker.ends(model.topic).items()))
        for _ in range(600):
            if path.exists() and newest(path).get("deltastreamer.checkpoint.key") == f"{model.topic},{ends}":
                break
            assert thread.is_alive()
            time.sleep(0.05)
    finally:
        streamer.shutdown_gracefully()
        thread.join(60)
    model.check(path)


def test_bad_messages_are_kept_with_their_places_and_good_ones_land(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = broker.topic()
    good = b'{"id": "a", "city": "x", "ts": 1}'
    bad = [
        b"null", b"[1]", good + good, b"", b"\xff\xfe{", b'{"a":' * 100_000, good + b" trailing",
        b'{"city": "x", "ts": 1}', b'{"id": "", "city": "x", "ts": 1}', b'{"id": "b", "city": "x", "ts": "soon"}',
    ]  # fmt: skip
    broker.produce(topic, [good, *bad, b'{"id": "c", "city": "x", "ts": 1}'])
    (tmp_path / "s.avsc").write_text(SCHEMA)
    path = tmp_path / "t"
    words = [
        str(path), "--from", f"kafka://{broker.address()}/{topic}", "--record-key", "id", "--schema",
        str(tmp_path / "s.avsc"),
    ]  # fmt: skip
    with pytest.raises(hoodie.exception.HoodieReadFromSourceException, match=f"topic {topic}, partition 0, offset 1"):
        run(words)
    assert not path.exists()
    for more in ([], ["--checkpoint", f"{topic},0:0"]):
        result = run([*words, "--hoodie-conf", "hoodie.errortable.enable=true", *more])
        assert result is not None
        assert result.position_after == f"{topic},0:12"
    ids = sorted(hoodie.read_table(str(path), columns=["id"])["id"].to_pylist())
    assert ids == ["a", "c"]
    errors = hoodie.read_table(f"{path}_errors").to_pylist()
    # An empty text is no message, as in Hudi.
    assert sorted(row["offset"] for row in errors) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert {row["topic"] for row in errors} == {topic}


def test_commits_are_told_to_a_topic(broker: KafkaBroker, tmp_path: Path) -> None:
    model = Model(broker, 1)
    model.produce(3)
    told = broker.topic()
    prefix = "hoodie.write.commit.callback."
    conf = {
        f"{prefix}on": "true",
        f"{prefix}class": "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback",
        f"{prefix}kafka.bootstrap.servers": broker.address(),
        f"{prefix}kafka.topic": told,
    }
    words = model.words(tmp_path / "t", tmp_path / "s.avsc", "--target-table", "trips")
    for key, value in conf.items():
        words += ["--hoodie-conf", f"{key}={value}"]
    result = run(words)
    assert result is not None
    assert result.service_errors == ()
    consumer = Consumer({"bootstrap.servers": broker.address(), "group.id": "t", "auto.offset.reset": "earliest"})
    consumer.subscribe([told])
    (message,) = consumer.consume(1, 30)
    consumer.close()
    assert message.key() == b"trips"
    assert json.loads(message.value())["commitTime"] == result.instant_time


def test_secrets_of_the_source_are_shown_nowhere(broker: KafkaBroker, tmp_path: Path) -> None:
    model = Model(broker, 1)
    model.produce(3)
    path = tmp_path / "t"
    words = model.words(path, tmp_path / "s.avsc", "--hoodie-conf", "sasl.password=hidden-one")
    words += ["--hoodie-conf", "basic.auth.user.info=me:hidden-two"]
    shown = CliRunner().invoke(command, ["streamer", *words, "--dry-run"])
    assert shown.exit_code == 0, shown.output
    ran = CliRunner().invoke(command, ["streamer", *words])
    assert ran.exit_code == 0, ran.output
    failed = CliRunner().invoke(command, ["streamer", *words, "--checkpoint", f"{model.topic},0:99"])
    assert failed.exit_code == 1
    everything = shown.output + ran.output + failed.output + json.dumps(newest(path)) + repr(ran.exc_info)
    assert "hidden" not in everything
