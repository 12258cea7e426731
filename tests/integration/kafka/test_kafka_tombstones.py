"""Tombstones that delete the records of their keys: the tables where they do, and the others, which are refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import hoodie
from hoodie.cli.main import command
from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException, HoodieTransformException
from hoodie.utilities.streamer import HoodieStreamer
from hoodie.utilities.streamer.arguments import parse_arguments
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_sources import TopicReader
from tests.support.schema_registry import schema_registry

pytestmark = pytest.mark.kafka

TOMBSTONES = "hoodie.streamer.source.kafka.tombstones"
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "city", "type": "string"},
            {"name": "ts", "type": "long"},
        ],
    }
)
GLOBAL_INDEXES = ["GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX"]


def trip(key: str, city: str = "x", ts: int = 1) -> bytes:
    return json.dumps({"id": key, "city": city, "ts": ts}).encode()


class Run:
    """A topic and a table.

    Args:
        broker: The broker.
        path: A folder for the table and the schema.
        more: Further words of the command line.
    """

    def __init__(self, broker: KafkaBroker, path: Path, *more: str) -> None:
        self.broker = broker
        self.topic = broker.topic()
        self.path = path / "t"
        self.schema = path / "s.avsc"
        self.schema.write_text(SCHEMA)
        self.more = more

    def words(self, *more: str, key: str | None = "id") -> list[str]:
        """The command line of a round whose tombstones delete."""
        source = f"kafka://{self.broker.address()}/{self.topic}"
        keys = [] if key is None else ["--record-key", key]
        return [
            str(self.path), "--from", source, *keys, "--schema", str(self.schema), "--hoodie-conf",
            f"{TOMBSTONES}=delete", *self.more, *more,
        ]  # fmt: skip

    def round(self, *more: str, key: str | None = "id") -> None:
        """Run a round."""
        HoodieStreamer(parse_arguments(self.words(*more, key=key))).sync()

    @property
    def ids(self) -> list[str]:
        """The keys of the table."""
        return sorted(hoodie.read_table(str(self.path), columns=["id"])["id"].to_pylist())


def conf(**properties: str) -> list[str]:
    return [
        word for key, value in properties.items() for word in ("--hoodie-conf", f"{key.replace('__', '.')}={value}")
    ]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tombstones_delete_from_a_table_without_partitions(
    broker: KafkaBroker, tmp_path: Path, table_type: str
) -> None:
    run = Run(broker, tmp_path, "--table-type", table_type)
    broker.produce(run.topic, [trip("a"), trip("b"), trip("c"), trip("d"), None], keys=["a", "b", "c", "d", "d"])
    run.round()
    assert run.ids == ["a", "b", "c"]
    broker.produce(run.topic, [None, None, None, trip("e")], keys=["a", '"b"', '{"id": "none"}', "e"])
    run.round()
    assert run.ids == ["c", "e"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", GLOBAL_INDEXES)
def test_tombstones_delete_from_partitions_with_a_global_index(
    broker: KafkaBroker, tmp_path: Path, index: str, table_type: str
) -> None:
    run = Run(broker, tmp_path, "--partition", "city", "--table-type", table_type, *conf(hoodie__index__type=index))
    broker.produce(run.topic, [trip("a", "x"), trip("b", "y"), trip("c", "z")], keys=["a", "b", "c"])
    run.round()
    broker.produce(run.topic, [None, None, trip("d", "x")], keys=["a", '{"id": "b"}', "d"])
    run.round()
    assert run.ids == ["c", "d"]
    run.round()
    assert run.ids == ["c", "d"]


def test_tombstones_delete_with_spark(broker: KafkaBroker, tmp_path: Path, spark: SparkSession) -> None:
    run = Run(broker, tmp_path, "--partition", "city", *conf(hoodie__index__type="GLOBAL_SIMPLE"))
    for values, keys in (([trip("a", "x"), trip("b", "y")], ["a", "b"]), ([None, trip("c")], ['"b"', "c"])):
        broker.produce(run.topic, values, keys=keys)
        HoodieStreamer(parse_arguments(run.words()), spark).sync()
    assert run.ids == ["a", "c"]


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BUCKET"])
def test_partitions_without_a_global_index_are_refused_before_the_source_is_read(
    broker: KafkaBroker, tmp_path: Path, index: str
) -> None:
    partitioned = ["--partition", "city", *conf(hoodie__index__type=index)]
    run = Run(broker, tmp_path)
    words = run.words(*partitioned)
    words[2] = f"kafka://127.0.0.1:1/{run.topic}"
    with pytest.raises(HoodieConfigException) as error:
        HoodieStreamer(parse_arguments(words))
    assert "partitioned by city, which a tombstone does not tell" in str(error.value)
    assert f"hoodie.index.type = {index}" in str(error.value)
    assert "GLOBAL_SIMPLE" in str(error.value)
    assert "_hoodie_is_deleted" in str(error.value)
    assert not run.path.exists()


def test_what_an_existing_table_says_of_itself_counts(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path)
    broker.produce(run.topic, [trip("a")], keys=["a"])
    dropping = ["--hoodie-conf", f"{TOMBSTONES}=drop"]
    run.round("--partition", "city", "--ordering", "ts", *dropping)
    broker.produce(run.topic, [None], keys=["a"])
    shown = CliRunner().invoke(command, ["streamer", *run.words()])
    assert shown.exit_code == 2
    assert "partitioned by city" in shown.output
    assert "ordering field ts, and tombstones have no ordering value" in shown.output
    assert "Traceback" not in shown.output
    run.round(*dropping)
    assert run.ids == ["a"]


def test_ordering_fields_are_refused_but_for_those_of_the_message(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path)
    broker.produce(run.topic, [trip("a"), trip("b"), None], keys=["a", "b", "a"])
    with pytest.raises(HoodieConfigException, match="ordering field ts, and tombstones have no ordering value"):
        run.round("--ordering", "ts")
    assert not run.path.exists()
    run.round(
        "--ordering", "_hoodie_kafka_source_offset", *conf(hoodie__streamer__source__kafka__append__offsets="true")
    )
    assert run.ids == ["b"]


def test_partition_fields_of_the_key_are_told_by_tombstones(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path, "--partition", "city")
    broker.produce(run.topic, [trip("a", "x"), trip("a", "y"), None], keys=[None, None, '{"id": "a", "city": "x"}'])
    run.round(key="id,city")
    rows = hoodie.read_table(str(run.path), columns=["id", "city"]).to_pylist()
    assert rows == [{"id": "a", "city": "y"}]


@pytest.mark.parametrize("has_schema", [True, False])
def test_a_table_without_a_column_of_deletes_gets_one(broker: KafkaBroker, tmp_path: Path, has_schema: bool) -> None:
    run = Run(broker, tmp_path)
    broker.produce(run.topic, [trip("a"), trip("b")], keys=["a", "b"])
    run.round("--hoodie-conf", f"{TOMBSTONES}=drop")
    assert "_hoodie_is_deleted" not in hoodie.read_table(str(run.path)).column_names
    broker.produce(run.topic, [None, trip("c")], keys=["a", "c"])
    words = run.words()
    if not has_schema:
        del words[words.index("--schema") : words.index("--schema") + 2]
    HoodieStreamer(parse_arguments(words)).sync()
    assert run.ids == ["b", "c"]


def test_columns_of_messages_are_kept_beside_a_schema(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path, "--hoodie-conf", f"{TOMBSTONES}=drop")
    broker.produce(run.topic, [trip("a")], keys=["the key"], headers=[[("h", b"1"), ("h", b"2")]])
    kafka = "hoodie__streamer__source__kafka__"
    columns = {f"{kafka}append__offsets": "true", f"{kafka}key__column": "key", f"{kafka}headers__column": "headers"}
    run.round(*conf(**columns))
    (row,) = hoodie.read_table(str(run.path)).to_pylist()
    assert (row["_hoodie_kafka_source_offset"], row["_hoodie_kafka_source_key"], row["key"]) == (
        0,
        "the key",
        "the key",
    )
    assert row["headers"] == [("h", "2")]


@pytest.mark.parametrize("operation", ["INSERT", "BULK_INSERT"])
def test_operations_that_delete_nothing_are_refused(broker: KafkaBroker, tmp_path: Path, operation: str) -> None:
    run = Run(broker, tmp_path)
    with pytest.raises(HoodieConfigException, match=f"--op {operation} deletes no records: give --op UPSERT"):
        run.round("--op", operation)


def test_the_record_key_comes_from_the_table_where_the_options_do_not_name_it(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    run = Run(broker, tmp_path)
    with pytest.raises(HoodieConfigException, match=r"tombstones = delete needs hoodie\.datasource\.write\.recordkey"):
        run.round(key=None)
    broker.produce(run.topic, [trip("a"), trip("b")], keys=["a", "b"])
    run.round()
    broker.produce(run.topic, [None], keys=["a"])
    run.round(key=None)
    assert run.ids == ["b"]


def test_a_transformer_has_to_fill_the_columns(
    broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(broker, tmp_path, "--partition", "city", "--ordering", "ts")
    query = "SELECT id, 'x' AS city, coalesce(ts, 9) AS ts, _hoodie_is_deleted FROM <SRC>"
    words = ["--transformer-class", "SqlQueryBasedTransformer", *conf(hoodie__streamer__transformer__sql=query)]
    broker.produce(run.topic, [trip("a"), trip("b"), None], keys=["a", "b", "a"])
    with caplog.at_level(logging.WARNING):
        run.round(*words)
    assert run.ids == ["b"]
    (line,) = [one.message for one in caplog.records if "the transformer has to keep" in one.message]
    assert "keep the rows of tombstones and the column _hoodie_is_deleted" in line
    assert "to fill city, which is null" in line
    assert "to fill ts, which is null" in line


QUERIES = {
    "keeps all": ("SELECT id, upper(city) AS city, ts, _hoodie_is_deleted FROM <SRC>", None),
    "drops the column": ("SELECT id, city, ts FROM <SRC>", "no column _hoodie_is_deleted, so that tombstones"),
}


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("case", QUERIES)
def test_tombstones_behind_a_transformer_delete_or_fail_the_round(
    broker: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest, case: str, engine: str
) -> None:
    query, failure = QUERIES[case]
    run = Run(broker, tmp_path, "--table-type", "MERGE_ON_READ")
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    words = run.words(
        "--transformer-class", "SqlQueryBasedTransformer", *conf(hoodie__streamer__transformer__sql=query)
    )
    broker.produce(run.topic, [trip("a"), trip("b"), trip("c")], keys=["a", "b", "c"])
    run.round("--hoodie-conf", f"{TOMBSTONES}=drop")
    broker.produce(run.topic, [None, trip("d"), None, trip("b", "z")], keys=["a", "d", "b", "b"])
    if failure is None:
        HoodieStreamer(parse_arguments(words), spark).sync()
        rows = hoodie.read_table(str(run.path), columns=["id", "city"]).sort_by("id").to_pylist()
        assert rows == [{"id": "b", "city": "Z"}, {"id": "c", "city": "x"}, {"id": "d", "city": "X"}]
        return
    with pytest.raises(HoodieTransformException, match=failure):
        HoodieStreamer(parse_arguments(words), spark).sync()
    assert run.ids == ["a", "b", "c"]


def test_a_tombstone_whose_partition_no_transformer_fills_is_an_error(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path, "--partition", "city")
    query = "SELECT id, ts, _hoodie_is_deleted, lower(city) AS city FROM <SRC>"
    words = ["--transformer-class", "SqlQueryBasedTransformer", *conf(hoodie__streamer__transformer__sql=query)]
    broker.produce(run.topic, [trip("a"), trip("b")], keys=["a", "b"])
    run.round(*words)
    broker.produce(run.topic, [None, trip("c")], keys=["a", "c"])
    with pytest.raises(HoodieReadFromSourceException, match="deletes and has no value in the partition field city"):
        run.round(*words)
    assert run.ids == ["a", "b"]
    run.round(*words, *conf(hoodie__errortable__enable="true"))
    assert run.ids == ["a", "b", "c"]
    (error,) = hoodie.read_table(f"{run.path}_errors").to_pylist()
    assert json.loads(error["payload"])["id"] == "a"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_keys_of_a_schema_registry_delete(
    broker: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    run = Run(broker, tmp_path)
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    with schema_registry() as registry:
        text = registry.register("keys", '"string"')
        field = {"name": "id", "type": "string"}
        record = registry.register("keys", json.dumps({"type": "record", "name": "k", "fields": [field]}))
        keys = {name: bytes([0, 0, 0, 0, text, 2]) + name.encode() for name in "abc"}
        keys["b"] = bytes([0, 0, 0, 0, record, 2]) + b"b"
        words = conf(**{"hoodie__streamer__source__kafka__tombstones__keys": "registry"})
        words += ["--hoodie-conf", f"schema.registry.url={registry.url}"]
        broker.produce(run.topic, [trip(name) for name in "abc"], keys=[keys[name] for name in "abc"])
        HoodieStreamer(parse_arguments(run.words(*words)), spark).sync()
        assert run.ids == ["a", "b", "c"]
        broker.produce(run.topic, [None, None, trip("d")], keys=[keys["a"], keys["b"], None])
        HoodieStreamer(parse_arguments(run.words(*words)), spark).sync()
    assert run.ids == ["c", "d"]


BAD_KEYS: list[tuple[Any, str]] = [
    (b"\0\0\0\0\7\2b", "begins with a zero"),
    (b"\0\0\0\0\0\0\0\7", "begins with a zero"),
    ('{"id":' * 100_000, "nested too deeply"),
    ("{", "Expecting property name"),
    (b"\xff", "can't decode byte 0xff"),
    ('"\\ud800"', "surrogates not allowed"),
    ('{"id": null}', "has no id"),
    (None, "it has none"),
]


def test_keys_that_cannot_be_read_are_errors_with_their_places(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path)
    keys = [key for key, _ in BAD_KEYS]
    broker.produce(run.topic, [trip("a"), trip("b"), *[None] * len(keys), None], keys=["a", "b", *keys, '"b"'])
    with pytest.raises(HoodieReadFromSourceException, match=f"topic {run.topic}, partition 0, offset 2"):
        run.round()
    assert not run.path.exists()
    run.round(*conf(hoodie__errortable__enable="true"))
    assert run.ids == ["a"]
    errors = sorted(hoodie.read_table(f"{run.path}_errors").to_pylist(), key=lambda row: row["offset"])
    assert [(row["topic"], row["partition"], row["offset"]) for row in errors] == [
        (run.topic, 0, number + 2) for number in range(len(keys))
    ]
    assert {row["reason"] for row in errors} == {"RECORD_CREATION"}
    for row, (_, text) in zip(errors, BAD_KEYS, strict=True):
        assert text in row["message"]


def test_numbers_in_keys_are_not_cut(broker: KafkaBroker) -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    properties = {TOMBSTONES: "delete", "hoodie.datasource.write.recordkey.field": "a,b"}
    topic = broker.topic()
    keys = ['{"a": 1.0, "b": 1.5}', '{"a": 1.5, "b": "x"}', '{"a": 1180591620717411303424, "b": "x"}']
    broker.produce(topic, [None] * 3, keys=keys)
    reader = TopicReader(broker, topic, schema, properties=properties)
    assert reader.round() == [{"a": 1, "b": "1.5", "_hoodie_is_deleted": True}]
    assert [error["offset"] for error in reader.errors] == [1, 2]
    assert "1.5 in a is no whole number" in reader.errors[0]["message"]


def test_a_position_names_each_partition_once(broker: KafkaBroker, tmp_path: Path) -> None:
    run = Run(broker, tmp_path)
    broker.produce(run.topic, [trip(key) for key in "abcdef"], keys=list("abcdef"))
    for position in (f"{run.topic},0:1,0:5", f"{run.topic},0:1,00:1", f"{run.topic},0:{'9' * 5000}"):
        with pytest.raises(HoodieConfigException, match="with each partition once and its next offset"):
            run.round("--checkpoint", position)
    run.round("--checkpoint", f"{run.topic},0:5")
    assert run.ids == ["f"]
