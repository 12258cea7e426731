"""Compactions and clusterings with the Spark client: in Spark's tasks, of tables that both engines write."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.timeline.instant import Action
from tests.support.clustered_table import rows_with_meta
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import init_table, local_client, rows, spark_rows
from tests.support.table_invariants import check_table

pytestmark = [pytest.mark.spark]

FIRST = [("a", "x", 1), ("b", "x", 1), ("c", "y", 1), ("d", "z", 1)]


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def compactions(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return sorted(timeline.filter_actions(Action.COMMIT).filter_completed_instants().times)


def test_a_compaction_runs_in_tasks_of_spark(spark: SparkSession, base_path: Path) -> None:
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, {})) as client:
        client.upsert(spark_rows(spark, *FIRST))
        client.upsert(spark_rows(spark, ("a", "x", 2), ("c", "y", 2), ("d", "z", 2)))
        with local_client(base_path) as local:
            local.upsert(rows(("b", "x", 3), ("a", "x", 0)))
            planned = local.schedule_compaction()
        result = client.compact(planned)
        assert result is not None
        assert sorted(status.partition_path for status in result) == ["x", "y", "z"]
        tasks = {parse_base_file_name(str(status.stat.path).rsplit("/", 1)[-1]) for status in result}
        assert len({name.write_token.split("-")[0] for name in tasks if name is not None}) > 1, "spread over tasks"
        assert client.compact() is None
        assert read_by_hudi_rs(base_path) == [("a", "x", 2), ("b", "x", 3), ("c", "y", 2), ("d", "z", 2)]
        client.upsert(spark_rows(spark, ("a", "x", 4)))
    assert compactions(base_path) == [planned]
    with local_client(base_path) as local:
        assert local.compact() is not None
    assert read_by_hudi_rs(base_path)[0] == ("a", "x", 4)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_clustering_runs_in_tasks_of_spark(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    base_path = Path(init_table(tmp_path / "t", table_type=table_type))
    options = {
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.clustering.plan.strategy.sort.columns": "ts,id",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
    }
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, options)) as client:
        client.insert(spark_rows(spark, *((f"a{n}", "xyz"[n % 3], 9 - n) for n in range(9))))
        client.insert(spark_rows(spark, *((f"b{n}", "xyz"[n % 3], n) for n in range(9))))
        client.upsert(spark_rows(spark, ("a3", "x", 20), ("b4", "y", 20)))
        before = rows_with_meta(base_path)
        with local_client(base_path, options) as local:
            planned = local.schedule_clustering()
        result = client.cluster(planned)
        assert result is not None
        assert sorted(status.partition_path for status in result) == ["x", "y", "z"]
        tasks = {parse_base_file_name(str(status.stat.path).rsplit("/", 1)[-1]) for status in result}
        assert len({name.write_token.split("-")[0] for name in tasks if name is not None}) > 1, "spread over tasks"
        assert rows_with_meta(base_path) == before
        for status in result:
            stored = (
                pq.read_table(base_path / str(status.stat.path), partitioning=None).select(["ts", "id"]).to_pylist()
            )
            assert stored == sorted(stored, key=lambda row: (row["ts"], row["id"]))
        assert client.cluster(planned) is None
        client.upsert(spark_rows(spark, ("a3", "x", 30)))
        check_table(base_path)
    with local_client(base_path, options) as local:
        assert local.cluster() is not None
    check_table(base_path)
    assert [row["ts"] for row in rows_with_meta(base_path) if row["id"] == "a3"] == [30]


@pytest.mark.slow
def test_writes_of_a_frame_compact_after_five_delta_commits(spark: SparkSession, base_path: Path) -> None:
    for number in range(5):
        assert compactions(base_path) == []
        hoodie.spark.write(spark_rows(spark, ("a", "x", number), ("b", "y", number)), str(base_path), mode="append")
    assert len(compactions(base_path)) == 1
    assert read_by_hudi_rs(base_path) == [("a", "x", 4), ("b", "y", 4)]
