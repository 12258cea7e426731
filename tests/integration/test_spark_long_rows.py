"""Rows of 10 MB on Spark: they are right, within the 1 GB that a driver and its tasks have by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark
from hoodie import SparkRDDWriteClient
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import init_table, write_config

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROW_BYTES = 10_000_000


def long_rows(numbers: range, ts: int) -> pa.Table:
    """Rows that do not compress."""
    rng = np.random.default_rng(ts)
    return pa.table(
        {
            "id": [f"key {number:02}" for number in numbers],
            "region": ["x"] * len(numbers),
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "payload": pa.array([rng.bytes(ROW_BYTES) for _ in numbers], pa.binary()),
        }
    )


@pytest.mark.metadata_table
@pytest.mark.parametrize("in_tasks", [False, True], ids=["keys at hand", "keys in tasks"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_ten_megabytes_are_written_and_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str, in_tasks: bool
) -> None:
    if in_tasks:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    path = init_table(tmp_path / "t", table_type=table_type)
    first, second = long_rows(range(6), 1), long_rows(range(4, 8), 2)
    for name, given in (("first", first), ("second", second)):
        pq.write_table(given, tmp_path / f"{name}.parquet", row_group_size=2)
    with SparkRDDWriteClient(spark, write_config(path)) as client:
        assert client.upsert(spark.read.parquet(str(tmp_path / "first.parquet"))).inserted_count == 6
        result = client.upsert(spark.read.parquet(str(tmp_path / "second.parquet")))
    assert (result.inserted_count, result.updated_count) == (2, 2)
    expected = pa.concat_tables([first.slice(0, 4), second])
    assert hoodie.read_table(path, columns=expected.column_names).sort_by("id").equals(expected)
    digests = hoodie.spark.read(spark, path).select("id", sf.sha2("payload", 256).alias("digest")).orderBy("id")
    of_input = spark.read.parquet(str(tmp_path / "first.parquet")).where("id < 'key 04'")
    of_input = of_input.union(spark.read.parquet(str(tmp_path / "second.parquet")))
    assert digests.collect() == of_input.select("id", sf.sha2("payload", 256).alias("digest")).orderBy("id").collect()
