"""Look-ups by key with Spark's executors, held against those in this process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
from hoodie import HoodieKey, HoodieReadClient, HoodieRecord, HoodieSparkEngineContext, SparkRDDWriteClient
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
)
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.spark.spark_rdd_read_client import SparkRDDReadClient
from hoodie.table.action.commit import incoming_keys
from tests.support.hookable_storage import hooked
from tests.support.table_builder import init_table, local_client, rows, spark_rows, write_config

pytestmark = pytest.mark.spark

OPTIONS: dict[str, dict[str, Any]] = {
    "BLOOM": {},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3},
}
ASKED = (("a", "x", 5), ("e", "y", 5), ("none", "x", 5), ("c", "nowhere", 5), ("a", "x", 5), ("twice", "z", 5))
KEYS = [HoodieKey(key, path) for key, path, _ in ASKED]
CALLS: dict[str, Callable[[HoodieReadClient, Any], Any]] = {
    "read": lambda client, given: client.read(given),
    "read keys": lambda client, given: client.read(KEYS, ["ts", "id", "_hoodie_partition_path"]),
    "read no columns": lambda client, given: client.read(given, []),
    "check_exists": lambda client, given: client.check_exists(given),
    "filter_exists": lambda client, given: client.filter_exists(given),
    "tag_location": lambda client, given: client.tag_location(given),
}


def written(path: Path, options: dict[str, Any]) -> str:
    table = init_table(path)
    with local_client(table, options) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1), ("twice", "z", 1)))
        client.upsert(rows(("b", "x", 2), ("e", "y", 2)))
        if not options:
            client.bulk_insert(rows(("twice", "z", 2)))
    return table


def tuples(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, "keys in memory") for name in OPTIONS),
        *(pytest.param(name, "keys joined", marks=pytest.mark.slow) for name in ("BLOOM", "GLOBAL_SIMPLE")),
    ],
)
def test_executors_give_what_this_process_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: str
) -> None:
    options = OPTIONS[name]
    path = written(tmp_path / "t", options)
    with HoodieReadClient(path, options=options) as client:
        wanted = {call: look(client, rows(*ASKED)) for call, look in CALLS.items()}
    if size == "keys joined":
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
        for module in (simple_index, global_simple_index):
            monkeypatch.setattr(module, "SHARED_KEY_BYTES", -1)
    given = spark_rows(spark, *ASKED)
    with HoodieReadClient(spark, path, options=options) as client:
        assert isinstance(client, SparkRDDReadClient)
        found: dict[str, DataFrame] = {call: look(client, given) for call, look in CALLS.items()}
    # Results live on when their client is closed.
    for call, frame in found.items():
        assert frame.columns == wanted[call].schema.names
        collected = [tuple(row) for row in frame.collect()]
        assert tuples(collected) == tuples([row.values() for row in wanted[call].to_pylist()]), call
        if size == "keys in memory" and not call.startswith("read"):
            in_order = [tuple(row.values()) for row in wanted[call].to_pylist()]
            assert call == "read keys" or collected == in_order
    assert found["read"].where("id = 'e'").select("ts").collect() == [(2,)]


def test_a_table_without_stored_keys_and_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    virtual = init_table(tmp_path / "v", properties={"hoodie.populate.meta.fields": "false"}, ordering_fields=())
    with local_client(virtual) as client:
        client.bulk_insert(rows(("a", "x", 1), ("b", "y", 1)))
    given = spark_rows(spark, ("a", "x", 5), ("b", "x", 5))
    with HoodieReadClient(HoodieSparkEngineContext(spark), virtual) as client:
        assert [tuple(row) for row in client.read(given, ["id", "ts"]).collect()] == [("a", 1)]
        assert [row.exists for row in client.check_exists(given).collect()] == [True, False]
        assert [row.id for row in client.filter_exists(given).collect()] == ["b"]
    empty = init_table(tmp_path / "e")
    with HoodieReadClient(spark, empty) as client:
        assert client.read(given).columns == hoodie.read_table(empty).schema.names
        assert client.read(given, ["id", "ts"]).collect() == []
        assert client.check_exists(KEYS[:2]).select("exists").collect() == [(False,), (False,)]
        assert client.filter_exists(given).count() == 2


def test_records_of_an_rdd_and_results_that_are_written(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    records = [HoodieRecord(HoodieKey(key, "x"), {"id": key, "region": "x", "ts": 9}) for key in ("a", "n", "m")]
    rdd = spark.sparkContext.parallelize(records, 2)
    with HoodieReadClient(spark, path) as reads, SparkRDDWriteClient(spark, write_config(path)) as client:
        client.insert(reads.filter_exists(rdd))
        assert client.upsert_prepped_records(reads.tag_location(spark_rows(spark, ("n", "x", 11)))).updated_count == 1
        found = reads.read([HoodieKey("a", "x"), HoodieKey("n", "x"), HoodieKey("m", "x")], ["id", "ts"])
        assert tuples(found.collect()) == [("a", 1), ("m", 9), ("n", 11)]


def test_an_input_that_is_other_rows_the_second_time_fails(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    random_key = sf.udf(lambda: str(uuid.uuid4())).asNondeterministic()
    given = spark.range(20).select(random_key().alias("id"), sf.lit("x").alias("region"))
    with HoodieReadClient(spark, path) as client:
        new = client.filter_exists(given)
        with pytest.raises(Exception, match=r"read twice.*call checkpoint\(\) or cache\(\)"):
            new.collect()


def test_a_clean_beside_a_lookup(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t", {})
    done: list[str] = []

    def clean() -> None:
        with local_client(path, {"hoodie.cleaner.commits.retained": 1}) as client:
            for ts in (len(done) * 10 + 1, len(done) * 10 + 2):
                client.upsert(rows(("a", "x", ts), ("b", "x", ts)))

    def hook(name: str, listed: str) -> None:
        if name in ("list", "walk") and Path(listed).name == "x" and not done:
            done.append(name)
            clean()

    with HoodieReadClient(spark, path) as client:
        with hooked(monkeypatch, hook):
            found = client.read([HoodieKey("a", "x")], ["ts"])
        assert done
        assert [row.ts for row in found.collect()] == [12]
        # The files of a result are fixed; when they are deleted before an action, it fails.
        clean()
        with pytest.raises(Exception, match=r"HoodieMissingFileException|does not exist|not there"):
            found.collect()
        assert [row.ts for row in client.read([HoodieKey("a", "x")], ["ts"]).collect()] == [12]


def test_wrong_arguments_and_calls_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    with pytest.raises(HoodieConfigException, match=r"hoodie\.index\.type=INMEMORY is not for SparkRDDReadClient"):
        HoodieReadClient(spark, path, options={"hoodie.index.type": "INMEMORY"})
    with pytest.raises(HoodieNotSupportedException, match=r"use HoodieReadClient\(base_path\)"):
        HoodieReadClient(spark, "memory://t")
    with pytest.raises(HoodieConfigException, match="base_path of SparkRDDReadClient is None"):
        HoodieReadClient(spark)
    client = HoodieReadClient(spark, path)
    with pytest.raises(HoodieSchemaException, match="Spark writes its own DataFrames"):
        client.filter_exists(rows(("a", "x", 1)))
    with pytest.raises(HoodieKeyException, match="column 'id' is null or empty in 1 record"):
        client.check_exists(spark_rows(spark, (None, "x", 1), ("a", "x", 1)))
    with pytest.raises(HoodieSchemaException, match="has no column fare"):
        client.read(KEYS, "fare")
    client.close()
    with pytest.raises(HoodieException, match="Make a new SparkRDDReadClient"):
        client.read(KEYS)
