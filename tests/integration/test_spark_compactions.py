"""Compactions with the Spark client: in Spark's tasks, of tables that both engines write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.timeline.instant import Action
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import init_table, local_client, rows, spark_rows

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


@pytest.mark.slow
def test_writes_of_a_frame_compact_after_five_delta_commits(spark: SparkSession, base_path: Path) -> None:
    for number in range(5):
        assert compactions(base_path) == []
        hoodie.spark.write(spark_rows(spark, ("a", "x", number), ("b", "y", number)), str(base_path), mode="append")
    assert len(compactions(base_path)) == 1
    assert read_by_hudi_rs(base_path) == [("a", "x", 4), ("b", "y", 4)]
