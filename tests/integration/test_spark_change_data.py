"""Change data that tasks of Spark write: the same as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieKey, SparkRDDWriteClient
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE
from tests.support.change_data import Change, check_stored_changes, init_cdc_table, stored_changes
from tests.support.pairs import each_pair
from tests.support.table_builder import local_client, rows, spark_rows, write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark

FIRST = [(f"k{number}", "xy"[number % 2], 1, 0.5) for number in range(20)]
CHANGED = [("k1", "y", 2, 1.5), ("k2", "x", 0, 1.5), ("n1", "x", 1, 1.5), ("n2", "y", 1, 1.5)]
NEW = [("m1", "x", 1, 2.5), ("m2", "y", 1, 2.5)]
GONE = [HoodieKey("k1", "y"), HoodieKey("k4", "x"), HoodieKey("nobody", "x")]


@each_pair(mode=["DATA_BEFORE_AFTER", "OP_KEY_ONLY"], table_type=["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_engines_write_the_same_changes(tmp_path: Path, spark: SparkSession, mode: str, table_type: str) -> None:
    found: list[list[list[Change]]] = []
    for name in ("local", "spark"):
        path = init_cdc_table(tmp_path / name, mode, table_type=table_type)
        client = local_client(path) if name == "local" else SparkRDDWriteClient(spark, write_config(path))
        frames = [
            rows(*given) if name == "local" else spark_rows(spark, *given).repartition(3)
            for given in (FIRST, CHANGED, NEW)
        ]
        with client:
            results = [client.insert(frames[0]), client.upsert(frames[1]), client.insert(frames[2])]  # type: ignore[attr-defined]
            results.append(client.delete(GONE))  # type: ignore[attr-defined]
        for result in results:
            check_stored_changes(path, result.instant_time)
        check_table(path)
        found.append([stored_changes(path, result.instant_time) for result in results])
    assert found[0] == found[1]
    counts = [len(changes) for changes in found[0]]
    assert counts == ([0, 3, 2, 2] if table_type == "COPY_ON_WRITE" else [0, 3, 2, 0])


def test_options_make_a_table_that_stores_change_data(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        CDC_ENABLED: "true",
        LOGGING_MODE: "data_before",
    }
    for given in (FIRST, CHANGED):
        result = hoodie.spark.write(spark_rows(spark, *given), str(path), options)
    assert result is not None
    changes = stored_changes(path, result.instant_time)
    assert [(op, key) for op, key, _, _ in changes] == [("i", "n1"), ("i", "n2"), ("u", "k1")]
