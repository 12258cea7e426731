"""Hudi's validators of SQL, and functions that read DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieValidationException
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.spark.sql_query_validators import SparkPendingCommit

pytestmark = pytest.mark.spark

KEY = "hoodie.precommit.validators"
PACKAGE = "org.apache.hudi.client.validator."


def client(spark: SparkSession, base_path: str, **queries: str) -> SparkRDDWriteClient:
    names = {"equality": "Equality", "inequality": "Inequality", "single": "SingleResult"}
    properties = {KEY: ",".join(f"{PACKAGE}SqlQuery{names[kind]}PreCommitValidator" for kind in queries)}
    for kind, query in queries.items():
        properties[f"{KEY}.{'single.value' if kind == 'single' else kind}.sql.queries"] = query
    return SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, properties))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.slow)])
def test_queries_decide_whether_a_commit_counts(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id"], partition_fields=["region"], table_type=table_type
    )
    first = spark.createDataFrame([("a", "x", 1), ("b", "y", 1)], "id string, region string, fare int")
    second = spark.createDataFrame([("a", "x", 7)], "id string, region string, fare int")
    seen = []

    def look(commit: SparkPendingCommit) -> None:
        seen.append((commit.dataframe_before().count(), commit.dataframe_after(only_touched=True).count()))

    config = HoodieWriteConfig.from_properties(path, {})
    with SparkRDDWriteClient(spark, config, validators=[look]) as writer:
        writer.upsert(first)
    assert seen == [(0, 2)]

    total = "select sum(fare) from <TABLE_NAME>"
    for queries, reason in (
        ({"equality": f"select count(*) from <TABLE_NAME>; {total}"}, "only before: .*1.*only after: .*7"),
        ({"inequality": f"{total}; select id from <TABLE_NAME>"}, "the same rows"),
        ({"single": f"{total}#1"}, "returns '7'"),
        ({"single": "select id, fare from <TABLE_NAME>#7"}, "one column, not 2"),
        (
            {"single": "select nothing from <TABLE_NAME>#7"},
            "'select nothing from <TABLE_NAME>' cannot be run: .*nothing",
        ),
        ({"equality": "selct 1 from <TABLE_NAME>"}, "'selct 1 from <TABLE_NAME>' cannot be run: .*PARSE_SYNTAX_ERROR"),
    ):
        with client(spark, path, **queries) as writer, pytest.raises(HoodieValidationException, match=reason):
            writer.upsert(second)
    assert sorted(row.fare for row in hoodie.spark.read(spark, path).collect()) == [1, 1]
    # Only the partition x is looked at: its one row counts.
    agreed = {"equality": "select count(*) from <TABLE_NAME>", "inequality": total, "single": f"{total}#7"}
    with client(spark, path, **agreed) as writer:
        assert writer.upsert(second).is_committed
    assert sorted(row.fare for row in hoodie.spark.read(spark, path).collect()) == [1, 7]
    assert [table.name for table in spark.catalog.listTables() if table.name.startswith("hoodie_staged")] == []
    for wrong in ({"equality": "select 1"}, {"single": "select 1 from <TABLE_NAME>"}):
        with pytest.raises(HoodieConfigException):
            client(spark, path, **wrong)
