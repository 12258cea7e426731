"""Payload classes, mergers and partial updates on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hoodie
from hoodie import (
    HoodieKey,
    HoodieRecord,
    HoodieRecordMerger,
    HoodieTableMetaClient,
    HoodieWriteConfig,
    MergeOutcome,
    SparkRDDWriteClient,
)
from hoodie.exception import HoodieKeyException, HoodieSchemaException, SchemaCompatibilityException
from hoodie.table.action.commit import incoming_keys
from tests.support import merge_mode_cases
from tests.support.payload_cases import GOLDEN, TABLES, commits_of, outcome, steps_of

pytestmark = pytest.mark.spark
MERGER = "hoodie.write.record.merge.custom.implementation.classes"
PARTIAL = {"hoodie.write.partial.update": True}


class SumOfFares(HoodieRecordMerger):
    """Adds fares; a negative one fails."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        if pc.any(pc.less(newer["fare"], 0.0)).as_py():
            raise ValueError("no fare is negative")
        fares = pc.add(older["fare"], newer["fare"])
        columns = [fares if name == "fare" else newer[name] for name in newer.schema.names]
        return MergeOutcome.write(pa.RecordBatch.from_arrays(columns, schema=newer.schema))


def upsert(spark: SparkSession, base_path: str, rows: Any, **properties: Any) -> Any:
    given = properties.pop("properties", {})
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, given)) as client:
        return client.upsert(rows)


@pytest.mark.table_version(6)
@pytest.mark.parametrize("keys_fit", [True, False])
@pytest.mark.parametrize("name", ["partial_update", "postgres"])
def test_a_table_holds_what_hudi_made_of_the_same_rows(
    name: str, keys_fit: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keys_fit:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 100)
    table, base_path = TABLES[name], str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        base_path,
        table_name=name,
        record_key_fields="id",
        ordering_fields=table.ordering_field,
        properties={"hoodie.compaction.payload.class": table.payload},
    )
    golden = pq.read_table(GOLDEN)
    for step, rows in enumerate(steps_of(table)[:2]):
        pq.write_table(rows, tmp_path / f"{step}.parquet")
        upsert(spark, base_path, spark.read.parquet(str(tmp_path / f"{step}.parquet")))
        mine = outcome(hoodie.read_table(base_path), commits_of(base_path))
        wanted = pc.and_(pc.equal(golden["table"], name), pc.equal(golden["step"], step))
        assert mine.num_rows > 50
        assert mine.to_pylist() == golden.filter(wanted).select(mine.column_names).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("keys_fit", [True, False])
@pytest.mark.parametrize("name", ["event_time_by_two", "partial_update"])
def test_a_table_of_version_9_holds_what_hudi_made_of_the_same_rows(
    name: str, keys_fit: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keys_fit:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 100)
    table, base_path = merge_mode_cases.TABLES[name], str(tmp_path / "t")
    merge_mode_cases.create(base_path, table)
    golden = pq.read_table(merge_mode_cases.GOLDEN)
    for number, step in enumerate(merge_mode_cases.steps_of()[:2]):
        pq.write_table(step.rows, tmp_path / f"{number}.parquet")
        upsert(spark, base_path, spark.read.parquet(str(tmp_path / f"{number}.parquet")))
        mine = merge_mode_cases.outcome(hoodie.read_table(base_path), merge_mode_cases.commits_of(base_path))
        wanted = pc.and_(pc.equal(golden["table"], name), pc.equal(golden["step"], number))
        assert mine.num_rows > 50
        assert mine.to_pylist() == golden.filter(wanted).select(mine.column_names).to_pylist()


def test_a_merger_runs_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    properties = {MERGER: SumOfFares, "hoodie.write.commit.on.errors": True}
    hoodie.write_table(
        [{"id": f"k{i}", "fare": 1.0} for i in range(20)], base_path, record_key_fields="id", properties=properties
    )
    changes = [(f"k{i}", 2.0 ** (i % 3)) for i in range(30)] + [(f"k{i}", 100.0) for i in range(5)] + [("k7", -1.0)]
    frame = spark.createDataFrame(changes, "id string, fare double").repartition(4)
    result = upsert(spark, base_path, frame, properties=properties)
    assert [(error.record_key, error.reason) for error in result.errors] == [
        ("k7", "SumOfFares failed: ValueError: no fare is negative")
    ]
    stored = {row["id"]: row["fare"] for row in hoodie.read_table(base_path, columns=["id", "fare"]).to_pylist()}
    expected = {f"k{i}": 2.0 ** (i % 3) + (1.0 if i < 20 else 0.0) + (100.0 if i < 5 else 0.0) for i in range(30)}
    assert stored == {**expected, "k7": 1.0}


def test_two_columns_of_some_keys_are_changed(spark: SparkSession, tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    stored = [{"id": f"k{i}", "region": "xy"[i % 2], "ts": 5, "fare": float(i), "tip": 1.0} for i in range(10)]
    hoodie.write_table(stored, base_path, record_key_fields="id", partition_fields="region", ordering_fields="ts")
    changes = spark.createDataFrame([("k1", "y", None), ("k2", "x", 9.0)], "id string, region string, fare double")
    result = upsert(spark, base_path, changes, properties=PARTIAL)
    assert result.updated_count == 2
    rows = {row["id"]: row for row in hoodie.read_table(base_path, columns=list(stored[0])).to_pylist()}
    assert rows == {
        row["id"]: row | ({"fare": None} if row["id"] == "k1" else {"fare": 9.0} if row["id"] == "k2" else {})
        for row in stored
    }
    misspelt = changes.withColumnRenamed("fare", "fair")
    with pytest.raises(SchemaCompatibilityException, match=r"'fair' \(nearest: 'fare'\)"):
        upsert(spark, base_path, misspelt, properties=PARTIAL)
    missing = changes.union(spark.createDataFrame([("new", "x", 1.0)], changes.schema))
    with pytest.raises(HoodieKeyException, match="1 of the keys of this partial update .* 'new'"):
        upsert(spark, base_path, missing, properties=PARTIAL)
    inserting = {**PARTIAL, "hoodie.write.partial.update.missing.keys": "INSERT"}
    assert upsert(spark, base_path, missing, properties=inserting).inserted_count == 1


def test_records_of_an_rdd_do_not_say_which_columns_are_absent(spark: SparkSession, tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    hoodie.write_table([{"id": "a", "fare": 1.0, "tip": 1.0}], base_path, record_key_fields="id")
    records = spark.sparkContext.parallelize([HoodieRecord(HoodieKey("a", ""), {"id": "a", "fare": 2.0})])
    with pytest.raises(HoodieSchemaException, match="give a DataFrame"):
        upsert(spark, base_path, records, properties=PARTIAL)
