"""BLOOM and GLOBAL_BLOOM on Spark: with the keys at hand, and with keys that stay in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hoodie import HoodieWriteConfig, SparkRDDWriteClient
from tests.support.table_builder import SCHEMA, init_table, read_rows, spark_rows

pytestmark = pytest.mark.spark
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
FEW_KEYS = 10
"""Bytes of keys from which on they stay in tasks, where a test asks for that."""


def client(spark: SparkSession, path: Path, index: str) -> SparkRDDWriteClient:
    init_table(path)
    properties = {
        "hoodie.index.type": index,
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.bloom.index.keys.per.bucket": "7",
        "hoodie.bloom.index.parallelism": "3",
    }
    return SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(str(path), properties))


@pytest.fixture(params=["shared keys", "exchange", "join"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[str]:
    """How keys meet files; rows come to tasks in small batches."""
    name: str = request.param
    if name != "shared keys":
        monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", FEW_KEYS)
        monkeypatch.setattr("hoodie.index.simple.global_simple_index.SHARED_KEY_BYTES", FEW_KEYS)
        monkeypatch.setattr("hoodie.index.simple.simple_index.SHARED_KEY_BYTES", FEW_KEYS)
        monkeypatch.setattr("hoodie.index.bloom.bloom_index.MOST_COMPARISONS", 1000 if name == "exchange" else 0)
    spark.conf.set(BATCH_ROWS, "3")
    yield name
    spark.conf.unset(BATCH_ROWS)


def test_keys_are_found_in_their_partition(spark: SparkSession, tmp_path: Path, way: str) -> None:
    names = [*(f"k{number:03d}" for number in range(60)), "😀", "｡", "漢字"]
    stored = {(name, "xyz"[number % 3]): 1 for number, name in enumerate(names)}
    with client(spark, tmp_path / "t", "BLOOM") as c:
        c.insert(spark_rows(spark, *((*key, ts) for key, ts in list(stored.items())[:40])))
        c.insert(spark_rows(spark, *((*key, ts) for key, ts in list(stored.items())[40:])))
        c.insert(spark_rows(spark, ("k001", "y", 1)))
        changed = {(name, "xyz"[number % 3]): 2 for number, name in enumerate(names) if number % 2} | {("k001", "x"): 2}
        result = c.upsert(spark_rows(spark, *((*key, ts) for key, ts in changed.items())))
        assert (result.updated_count, result.inserted_count) == (len(changed), 1)
    expected = [(*key, ts, key[1]) for key, ts in (stored | changed).items()]
    assert read_rows(tmp_path / "t", [*SCHEMA.names, "_hoodie_partition_path"]) == sorted(
        [*expected, ("k001", "y", 2, "y")]
    )


def test_keys_move_to_their_new_partition(spark: SparkSession, tmp_path: Path, way: str) -> None:
    if way == "exchange":
        pytest.skip("the global index joins")
    with client(spark, tmp_path / "t", "GLOBAL_BLOOM") as c:
        c.insert(spark_rows(spark, *((f"k{number}", "xyz"[number % 3], 5) for number in range(30))))
        c.upsert(spark_rows(spark, ("k0", "y", 6), ("k1", "z", 4), ("k3", "x", 6), ("new", "x", 1)))
    found = read_rows(tmp_path / "t", [*SCHEMA.names, "_hoodie_partition_path"])
    assert len(found) == 31
    assert {("k0", "y", 6, "y"), ("k1", "y", 5, "y"), ("k3", "x", 6, "x"), ("new", "x", 1, "x")} <= set(found)
