from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, TableNotFoundException
from hoodie.spark.spark_types import arrow_schema

Write = Callable[..., None]

pytestmark = pytest.mark.spark


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    return str(tmp_path / "trips")


@pytest.fixture
def write(base_path: str) -> Write:
    """Upsert rows into a table that is made by the first call."""

    def upsert(rows: list[dict[str, Any]], schema: pa.Schema | None = None, **definition: Any) -> None:
        if not Path(base_path, ".hoodie").exists():
            settings = {"table_name": "trips", "record_key_fields": "id", "partition_fields": "part"}
            HoodieTableMetaClient.init_table(base_path, **{**settings, **definition})
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path)) as client:
            client.upsert(pa.Table.from_pylist(rows, schema=schema))

    return upsert


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row)[len(META_COLUMNS) :] for row in frame.collect())


def test_the_newest_rows_are_read(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x", "value": 1}, {"id": "b", "part": "y", "value": 2}])
    write([{"id": "a", "part": "x", "value": 10}, {"id": "c", "part": "x", "value": 3}])
    frame = hoodie.spark.read(spark, base_path)
    assert frame.columns == [*META_COLUMNS, "id", "part", "value"]
    assert rows_of(frame) == [("a", "x", 10), ("b", "y", 2), ("c", "x", 3)]
    assert sorted(row._hoodie_record_key for row in frame.collect()) == ["a", "b", "c"]
    assert rows_of(hoodie.spark.read(spark, f"file://{base_path}/", {"hoodie.datasource.query.type": "snapshot"})) == [
        ("a", "x", 10),
        ("b", "y", 2),
        ("c", "x", 3),
    ]


def test_a_frame_keeps_to_the_files_of_its_time(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x", "value": 1}])
    frame = hoodie.spark.read(spark, base_path)
    write([{"id": "a", "part": "x", "value": 2}])
    assert rows_of(frame) == [("a", "x", 1)]


@pytest.mark.parametrize("hive_style", [False, True])
def test_characters_of_globs_in_paths_are_taken_at_their_word(
    spark: SparkSession, base_path: str, write: Write, hive_style: bool
) -> None:
    parts = ["p*q", "pxq", "a[b]", "ab", "a{b", "a b", "ä", "50%25", "x=1"]
    write([{"id": part, "part": part} for part in parts], hive_style_partitioning=hive_style)
    assert rows_of(hoodie.spark.read(spark, base_path)) == sorted((part, part) for part in parts)


def test_folders_of_hive_style_neither_add_nor_change_columns(
    spark: SparkSession, base_path: str, write: Write
) -> None:
    write([{"id": "a", "part": "2024-01-01"}, {"id": "b", "part": "007"}], hive_style_partitioning=True)
    frame = hoodie.spark.read(spark, base_path)
    assert frame.columns == [*META_COLUMNS, "id", "part"]
    assert rows_of(frame) == [("a", "2024-01-01"), ("b", "007")]


def test_partitions_and_columns_are_pruned_by_spark(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x", "value": 1}])
    frame = hoodie.spark.read(spark, base_path).where("value > 0").select("id")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(value), GreaterThan(value,0)]" in plan
    assert "ReadSchema: struct<id:string,value:bigint>" in plan


def test_a_table_without_rows_has_its_columns(spark: SparkSession, base_path: str) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    HoodieTableMetaClient.init_table(base_path, table_name="trips", record_key_fields="id", schema=schema)
    frame = hoodie.spark.read(spark, base_path)
    assert arrow_schema(frame.schema).names == [*META_COLUMNS, "id", "at"]
    assert frame.count() == 0


def test_columns_added_later_are_null_in_older_files(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x"}])
    write([{"id": "b", "part": "y", "extra": 1.5}])
    assert rows_of(hoodie.spark.read(spark, base_path)) == [("a", "x", None), ("b", "y", 1.5)]


@pytest.mark.parametrize("told_by", ["commit", "footer"])
def test_files_with_narrower_numbers_are_widened(
    spark: SparkSession, base_path: str, write: Write, told_by: str
) -> None:
    wide = pa.schema(
        [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("m", pa.int64())]
    )
    wide = wide.append(pa.field("s", pa.struct([("n", pa.int64()), ("t", pa.string())])))
    write([{"id": "a", "part": "x", "n": 1, "x": 0.5, "m": 5, "s": {"n": 7, "t": "t"}}], wide)
    write([{"id": "b", "part": "y", "n": 2**40, "x": 0.1, "m": 6, "s": {"n": 8, "t": None}}], wide)
    make_narrow(Path(base_path), "x", told_by)
    frame = hoodie.spark.read(spark, base_path)
    assert arrow_schema(frame.schema).field("s").type.field("n").type == pa.int64()
    assert rows_of(frame) == [("a", "x", 1, 0.5, 5, (7, "t")), ("b", "y", 2**40, 0.1, 6, (8, None))]


def make_narrow(base: Path, partition: str, told_by: str) -> None:
    """Turn a partition into one that was written before its columns were widened."""
    (file,) = (base / partition).glob("*.parquet")
    narrow = {"n": pa.int32(), "x": pa.float32(), "s": pa.struct([("n", pa.int32()), ("t", pa.string())])}
    table = pq.read_table(file, partitioning=None)
    columns = [table[name].cast(narrow[name]) if name in narrow else table[name] for name in table.column_names]
    pq.write_table(pa.table(dict(zip(table.column_names, columns, strict=True))), file, store_schema=False)
    instant_time = file.name.split("_")[2].split(".")[0]
    commit = base / ".hoodie" / f"{instant_time}.commit"
    metadata = json.loads(commit.read_text())
    if told_by == "footer":
        del metadata["extraMetadata"]["schema"]
    else:
        schema = json.loads(metadata["extraMetadata"]["schema"])
        for field in schema["fields"]:
            if field["name"] == "n":
                field["type"] = ["null", "int"]
            if field["name"] == "x":
                field["type"] = ["null", "float"]
            if field["name"] == "s":
                field["type"][1]["fields"][0]["type"] = ["null", "int"]
        metadata["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(metadata))


def test_bad_options_are_refused_by_name(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x"}])
    with pytest.raises(HoodieConfigException, match=r"did you mean hoodie\.datasource.query.type"):
        hoodie.spark.read(spark, base_path, {"hoodie.datasource.query.typ": "snapshot"})
    with pytest.raises(HoodieConfigException, match="incremental"):
        hoodie.spark.read(spark, base_path, {"hoodie.datasource.query.type": "incremental"})
    with pytest.raises(HoodieNotSupportedException, match=r"as\.of\.instant"):
        hoodie.spark.read(spark, base_path, {"as.of.instant": "20240101000000000"})


def test_a_folder_that_is_no_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException):
        hoodie.spark.read(spark, str(tmp_path / "nothing"))


def test_a_storage_without_connector_says_so(spark: SparkSession) -> None:
    base_path = "memory://spark-read/trips"
    HoodieTableMetaClient.init_table(base_path, table_name="trips", record_key_fields="id")
    with pytest.raises(HoodieNotSupportedException, match="memory"):
        hoodie.spark.read(spark, base_path)


COW_TABLES = [
    "sample_table-cow-v6_complexkeygen_hivestyle",
    "sample_table-cow-v6_empty",
    "sample_table-cow-v6_nonpartitioned",
    "sample_table-cow-v6_simplekeygen_hivestyle_no_metafields",
    "sample_table-cow-v6_simplekeygen_nonhivestyle",
    "trips_logical_types_json_cow_write",
]


@pytest.mark.parametrize("name", COW_TABLES)
def test_tables_of_real_hudi_have_the_rows_that_another_reader_sees(
    spark: SparkSession, shared_tables: Path, name: str
) -> None:
    hudi = pytest.importorskip("hudi")
    properties = [path for path in (shared_tables / name).rglob("hoodie.properties") if "metadata" not in path.parts]
    folder = str(properties[0].parents[1])
    batches = hudi.HudiTableBuilder.from_base_uri(folder).build().read()
    frame = hoodie.spark.read(spark, folder)
    assert frame.count() == sum(batch.num_rows for batch in batches)
    if not batches:
        return
    expected = pa.Table.from_batches(batches)
    columns = [column for column in expected.column_names if column in frame.columns]
    assert set(frame.columns) - set(columns) <= set(META_COLUMNS)
    for column in columns:
        kind = expected.schema.field(column).type
        if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = [row[0] for row in frame.select(column).collect()]
            assert sorted(values, key=repr) == sorted(expected[column].to_pylist(), key=repr), column
