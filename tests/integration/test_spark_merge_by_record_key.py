"""`hoodie.spark.merge_into` with a condition on the record key alone, and with nulls in keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieIndex
from hoodie.exception import HoodieConfigException, HoodieKeyException
from tests.support.table_builder import init_table, instants, local_client, read_placed_trips, rows, spark_rows

pytestmark = [pytest.mark.spark, pytest.mark.metadata_table]

BY_KEY = "t.id = s.id"
STORED = (("a", "x", 5, 1.0), ("b", "x", 5, 2.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0))
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


class UsersIndex(HoodieIndex):
    """An index of a user's that looks for a key in its own partition."""

    is_global = False
    find_locations = tag_location = update_location = rollback_commit = None  # type: ignore[assignment]


def stored_table(path: Path, options: Mapping[str, str]) -> str:
    base_path = init_table(path)
    with local_client(base_path, options) as client:
        client.upsert(rows(*STORED))
    return base_path


@pytest.mark.parametrize(
    ("table", "options", "moves"),
    [
        ({}, {}, True),
        ({}, {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.update.partition.path": "false"}, False),
        (RECORD_INDEX, {"hoodie.index.type": "SIMPLE"}, False),
        (RECORD_INDEX, {"hoodie.simple.index.update.partition.path": "true"}, True),
    ],
)
def test_a_key_is_matched_in_whatever_partition_it_is_stored(
    spark: SparkSession, tmp_path: Path, table: Mapping[str, str], options: Mapping[str, str], moves: bool
) -> None:
    base_path = stored_table(tmp_path / "t", table)
    source = spark_rows(
        spark, ("a", "x", 6, 10.0), ("b", "y", 6, 20.0), ("c", "z", 6, 30.0), ("n", "x", 6, 1.0), ("o", "w", 6, 1.0)
    )
    writer = hoodie.spark.merge_into(base_path, source, BY_KEY, options).whenMatched("s.id = 'c'").delete()
    result = writer.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    # A row that moves is deleted there and inserted here, in one commit.
    assert (result.updated_count, result.inserted_count, result.deleted_count) == ((1, 3, 2) if moves else (2, 2, 1))
    assert read_placed_trips(base_path) == [
        ("a", "x", 6, 10.0, "x"), ("b", "y", 6, 20.0, "y" if moves else "x"), ("d", "y", 5, 4.0, "y"),
        ("n", "x", 6, 1.0, "x"), ("o", "w", 6, 1.0, "w"),
    ]  # fmt: skip
    assert [action for _, action, _ in instants(base_path)] == ["commit", "commit"]
    again = hoodie.spark.merge_into(base_path, source.where("id <> 'c'"), ["id"], options)
    assert again.whenMatched().updateAll().whenNotMatched().insertAll().merge().inserted_count == 0


@pytest.mark.parametrize("options", [BUCKETS, {}], ids=["said", "unsaid"])
def test_buckets_keep_the_partition_of_a_matched_row(
    spark: SparkSession, tmp_path: Path, options: Mapping[str, str]
) -> None:
    base_path = stored_table(tmp_path / "t", BUCKETS)
    source = spark_rows(spark, ("a", "y", 6, 10.0), ("c", "x", 6, 30.0), ("n", "x", 6, 1.0))
    merge = hoodie.spark.merge_into(base_path, source, BY_KEY, options)
    with pytest.raises(HoodieKeyException, match="1 rows would move to another partition, such as id = 'a', .*BUCKET"):
        merge.whenMatched("s.id = 'c'").delete().whenMatched().updateAll().merge()
    writer = merge.whenMatched("s.id = 'c'").delete().whenMatched().update({"fare": "s.fare", "ts": "s.ts"})
    writer.whenNotMatched().insertAll().merge()
    assert read_placed_trips(base_path) == [
        ("a", "x", 6, 10.0, "x"), ("b", "x", 5, 2.0, "x"), ("d", "y", 5, 4.0, "y"), ("n", "x", 6, 1.0, "x")
    ]  # fmt: skip


def test_a_key_in_several_partitions_is_an_error_that_names_them(spark: SparkSession, tmp_path: Path) -> None:
    base_path = stored_table(tmp_path / "t", {})
    with local_client(base_path, {}) as client:
        client.upsert(rows(("a", "y", 5, 7.0)))
    source = spark_rows(spark, ("a", "x", 6, 9.0), ("b", "x", 6, 9.0))
    merge = hoodie.spark.merge_into(base_path, source, BY_KEY)
    text = "1 keys .* stored in several partitions, such as id = 'a' in x and y, .* Compare the partition fields too"
    # A clause that applies to one of them would change both.
    for writer in (merge.whenMatched().updateAll(), merge.whenMatched("t.region = 'y'").delete()):
        with pytest.raises(HoodieKeyException, match=text):
            writer.merge()
    merge.whenMatched("t.id = 'b'").updateAll().merge()
    both = hoodie.spark.merge_into(base_path, source, f"{BY_KEY} AND t.region = s.region")
    both.whenMatched("t.id = 'a'").updateAll().merge()
    assert read_placed_trips(base_path)[:3] == [
        ("a", "x", 6, 9.0, "x"), ("a", "y", 5, 7.0, "y"), ("b", "x", 6, 9.0, "x")
    ]  # fmt: skip


def test_two_new_rows_of_one_key_are_refused_whatever_their_partitions(spark: SparkSession, tmp_path: Path) -> None:
    base_path = stored_table(tmp_path / "t", {})
    source = spark_rows(spark, ("n", "x", 6, 9.0), ("n", "z", 6, 9.0))
    with pytest.raises(HoodieKeyException, match="several rows of the source apply to each of 1 keys .* id = 'n'"):
        hoodie.spark.merge_into(base_path, source, BY_KEY).whenNotMatched().insertAll().merge()
    with pytest.raises(HoodieConfigException, match="does not assign region, which is a partition field"):
        hoodie.spark.merge_into(base_path, source, BY_KEY).whenNotMatched().insert({"id": "s.id"}).merge()


def test_an_index_that_cannot_look_everywhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    base_path, source = stored_table(tmp_path / "t", {}), spark_rows(spark, ("a", "x", 6, 9.0))
    rules = {
        "hoodie.simple.index.update.partition.path": "true",
        "hoodie.record.index.update.partition.path": "false",
    }
    for options, text in (
        ({"hoodie.index.class": f"{__name__}.UsersIndex"}, "finds a key in its own partition only"),
        (rules, "update.partition.path = true.*; give one of them"),
    ):
        with pytest.raises(HoodieConfigException, match=text):
            hoodie.spark.merge_into(base_path, source, BY_KEY, options).whenMatched().delete().merge()
    assert len(instants(base_path)) == 1


@pytest.mark.parametrize("key_fields", ["id,part", "id"])
def test_nulls_in_keys_equal_each_other(spark: SparkSession, tmp_path: Path, key_fields: str) -> None:
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": key_fields,
        "hoodie.datasource.write.precombine.field": "ts",
    }
    if key_fields == "id":
        # A null partition is one of its own.
        options["hoodie.datasource.write.partitionpath.field"] = "part"
    frame = spark.createDataFrame([("a", None, 1), ("a", "p", 2), ("b", None, 3)], "id string, part string, ts long")
    hoodie.spark.write(frame, path, options)
    newer = frame.withColumn("ts", frame.ts + 10).union(spark.sql("SELECT 'n', CAST(NULL AS STRING), 4L"))
    for _ in range(2):
        merge = hoodie.spark.merge_into(path, newer, "t.id = s.id AND t.part = s.part")
        merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    found = hoodie.read_table(path, columns=["id", "part", "ts"])
    wanted = pa.table({"id": ["a", "a", "b", "n"], "part": [None, "p", None, None], "ts": [11, 12, 13, 4]})
    assert found.sort_by([("id", "ascending"), ("ts", "ascending")]).to_pylist() == wanted.to_pylist()
    twice = newer.union(newer.where("id = 'b'"))
    with pytest.raises(HoodieKeyException, match="several rows of the source apply to each of 1 keys .* part = None"):
        hoodie.spark.merge_into(path, twice, ["id", "part"]).whenMatched().updateAll().merge()
