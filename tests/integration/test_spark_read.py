from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    TableNotFoundException,
)
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.spark.spark_scan import LISTING_TASKS, LISTING_TASKS_OF_CORE
from hoodie.spark.spark_types import arrow_schema
from tests.support.metadata_tampering import Entry, copied, tamper
from tests.support.table_builder import local_client
from tests.support.timeline_files import read_commit, write_commit

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
        with local_client(base_path) as client:
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


def test_folders_of_times_that_no_row_can_be_in_are_not_scanned(spark: SparkSession, base_path: str) -> None:
    noon, day = 1_699_963_200, 86_400
    properties = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    trips = pa.table({"id": ["a", "b", "c"], "ts": [noon, noon + day, noon + 2 * day]})
    hoodie.write_table(trips, base_path, record_key_fields="id", partition_fields="ts", properties=properties)
    frame = hoodie.spark.read(spark, base_path, filters=[("ts", ">", noon + 3 * day // 2)])
    (scanned,) = frame.inputFiles()
    assert "/2023/11/16/" in scanned
    assert rows_of(frame) == [("c", noon + 2 * day)]


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
    metadata = read_commit(base, instant_time)
    extra = dict(metadata.extra_metadata)
    if told_by == "footer":
        del extra["schema"]
    else:
        schema = json.loads(extra["schema"])
        for field in schema["fields"]:
            if field["name"] == "n":
                field["type"] = ["null", "int"]
            if field["name"] == "x":
                field["type"] = ["null", "float"]
            if field["name"] == "s":
                field["type"][1]["fields"][0]["type"] = ["null", "int"]
        extra["schema"] = json.dumps(schema)
    write_commit(base, instant_time, attrs.evolve(metadata, extra_metadata=extra))


FILTERS: list[Any] = [
    None,
    [],
    [("value", ">", 1)],
    [("part", "=", "x"), ("value", "in", [1, 3])],
    [[("part", "=", "y")], [("value", "=", 3.0)]],
    pc.field("value") > 1.5,
    ~(pc.field("value") < 2),
    pc.field("value").is_null(),
    pc.field("value").is_null(nan_is_null=True),
    pc.field("value") != 3,
    ~pc.field("value").isin([1.0, float("nan")]),
    pc.field("nested", "deep") == "d",
    pc.field("_hoodie_partition_path") == "y",
    (pc.field("at") > datetime(2026, 1, 1, tzinfo=UTC)) & (pc.field("id") != "b"),
]


@pytest.mark.parametrize("columns", [None, ["value", "id"], "id"])
def test_filters_and_columns_mean_the_same_as_in_process(
    spark: SparkSession, base_path: str, write: Write, columns: list[str] | str | None
) -> None:
    values = [1.0, 3.0, float("nan"), None, -0.0, 0.0, float("inf")]
    rows = [
        {"id": f"{part}{number}", "part": part, "value": value, "nested": {"deep": "d" if number % 2 else None},
         "at": datetime(2025 + number % 3, 1, 1, tzinfo=UTC)}
        for part in ("x", "y") for number, value in enumerate(values)
    ]  # fmt: skip
    write(rows)
    for filters in FILTERS:
        expected = hoodie.read_table(base_path, columns=columns, filters=filters)
        frame = hoodie.spark.read(spark, base_path, columns=columns, filters=filters)
        assert frame.columns == expected.schema.names
        found = [tuple(row) for row in frame.select("id").collect()]
        assert sorted(found) == sorted((row["id"],) for row in expected.to_pylist()), filters


def test_rows_are_counted_where_neither_result_nor_filter_has_a_column(
    spark: SparkSession, base_path: str, write: Write
) -> None:
    write([{"id": "a", "part": "x"}, {"id": "b", "part": "y"}])
    assert hoodie.spark.read(spark, base_path, columns=[], filters=pc.scalar(True)).count() == 2
    assert hoodie.spark.read(spark, base_path, columns=[], filters=pc.scalar(False)).count() == 0


def test_filters_that_cannot_be_sent_to_executors_are_refused(
    spark: SparkSession, base_path: str, write: Write
) -> None:
    write([{"id": "a", "part": "x"}])
    with pytest.raises(HoodieNotSupportedException, match="by its name"):
        hoodie.spark.read(spark, base_path, filters=pc.field(5) == "a")


def test_only_columns_that_are_needed_are_scanned(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x", "value": 1, "other": 1}, {"id": "b", "part": "y", "value": 2, "other": 2}])
    frame = hoodie.spark.read(spark, base_path, columns="id", filters=[("value", ">", 1), ("part", "=", "y")])
    plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert "ReadSchema: struct<id:string,part:string,value:" in plan
    assert "other" not in plan
    assert len(frame.inputFiles()) == 1
    assert [row.id for row in frame.collect()] == ["b"]


def test_columns_and_filters_that_the_table_does_not_have_are_refused(
    spark: SparkSession, base_path: str, write: Write
) -> None:
    write([{"id": "a", "part": "x"}])
    with pytest.raises(HoodieSchemaException, match="has no column vlaue"):
        hoodie.spark.read(spark, base_path, columns=["id", "vlaue"])
    with pytest.raises(HoodieSchemaException, match="has no column vlaue"):
        hoodie.spark.read(spark, base_path, filters=[("vlaue", ">", 1)])


def test_queries_and_options_that_contradict_or_are_not_there_are_refused_unread(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("the table was opened before the options were checked")

    monkeypatch.setattr(TableSnapshot, "load", touched)
    for given in ({"as_of": "yesterday"}, {"begin": "0"}, {"end": "0"}, {"query_type": "incremental"}):
        with pytest.raises(HoodieConfigException, match="no time|give query_type='incremental'|needs begin"):
            hoodie.spark.read(spark, "/t", **given)  # type: ignore[arg-type]
    snapshot = {"hoodie.datasource.query.type": "snapshot"}
    with pytest.raises(HoodieConfigException, match="and the argument says 'read_optimized': give one of them"):
        hoodie.spark.read(spark, "/t", snapshot, query_type="read_optimized")
    with pytest.raises(HoodieConfigException, match="hoodie has snapshot, incremental, read_optimized"):
        hoodie.spark.read(spark, "/t", query_type="snapshto")
    with pytest.raises(HoodieConfigException, match="the operator is one of"):
        hoodie.spark.read(spark, "/t", filters=[("a", "~", 1)])
    with pytest.raises(HoodieConfigException, match="unknown read option"):
        hoodie.spark.read(spark, "/t", {"hoodie.datasource.query.tpye": "snapshot"})


def test_columns_of_a_table_that_was_never_written_have_no_type(spark: SparkSession, base_path: str) -> None:
    HoodieTableMetaClient.init_table(base_path, table_name="trips", record_key_fields="id")
    frame = hoodie.spark.read(spark, base_path, columns=["_hoodie_record_key", "id"], filters=[("id", "=", "a")])
    assert [field.dataType.typeName() for field in frame.schema] == ["string", "void"]
    assert frame.collect() == []


def test_bad_options_are_refused_by_name(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": "a", "part": "x"}])
    with pytest.raises(HoodieConfigException, match=r"did you mean hoodie\.datasource.query.type"):
        hoodie.spark.read(spark, base_path, {"hoodie.datasource.query.typ": "snapshot"})
    with pytest.raises(HoodieConfigException, match=r"needs begin .hoodie\.datasource\.read\.begin\.instanttime"):
        hoodie.spark.read(spark, base_path, {"hoodie.datasource.query.type": "incremental"})
    with pytest.raises(HoodieConfigException, match=r"as\.of\.instant. is 'yesterday'"):
        hoodie.spark.read(spark, base_path, {"as.of.instant": "yesterday"})
    with pytest.raises(HoodieConfigException, match="query_type='incremental'"):
        hoodie.spark.read(spark, base_path, {"hoodie.datasource.query.incremental.format": "cdc"})


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


# --- filters --------------------------------------------------------------------------------------------------------


CONDITIONS = [
    "{v} > 5", "{v} != 1.0", "NOT ({v} < 5)", "{v} NOT IN (1.0, 2.0)", "{v} = double('NaN')", "{v} >= double('NaN')",
    "{v} <=> double('NaN')", "isnan({v})", "{v} < 5", "{v} = 0.0", "{v} = double('-0.0')", "{v} IN (0.0, 7.0)",
    "{v} <= double('-0.0')", "{v} IS NULL", "{v} IS NOT NULL AND id != 'a'", "{v} > 5 OR id = 'b'",
]  # fmt: skip


@pytest.mark.parametrize("data_type", [pa.float64(), pytest.param(pa.float32(), marks=pytest.mark.slow)], ids=str)
def test_filters_find_the_rows_that_they_find_in_memory(
    spark: SparkSession, base_path: str, write: Write, data_type: pa.DataType
) -> None:
    nan, minus_zero, infinity = float("nan"), -0.0, float("inf")
    partitions = [[1.0, nan, 1.0], [nan], [minus_zero] * 3, [0.0] * 3, [1.0, None], [infinity, nan, -infinity], [5.5]]
    inner = pa.struct([("deep", pa.struct([("v", data_type)]))])
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", data_type), ("s", inner)])
    rows = [
        {"id": f"{part}{row}", "part": str(part), "v": value, "s": None if value is None else {"deep": {"v": value}}}
        for part, values in enumerate(partitions)
        for row, value in enumerate(values)
    ]
    write(rows, schema)
    frame = hoodie.spark.read(spark, base_path)
    stored = spark.createDataFrame(frame.collect(), frame.schema)
    for condition in (text.format(v=column) for column in ("v", "s.deep.v") for text in CONDITIONS):
        found, expected = (
            sorted(row.id for row in rows.where(condition).select("id").collect()) for rows in (frame, stored)
        )
        assert found == expected, condition


def test_columns_other_than_floats_are_still_pruned_by_statistics(
    spark: SparkSession, base_path: str, write: Write
) -> None:
    write([{"id": "a", "part": "x", "n": 1, "v": 0.5, "s": {"v": 0.5, "text": "t"}}])
    frame = hoodie.spark.read(spark, base_path)
    plan = frame.where("id = 'a' AND n > 0 AND v > 0")._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(id,a)" in plan
    assert "GreaterThan(n,0)" in plan
    assert "GreaterThan(v" not in plan
    # Of a struct with floats only the fields that are asked for are read.
    plan = frame.select("s.text")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<s:struct<text:string>>" in plan


def test_the_metadata_table_is_used(spark: SparkSession, later_tables: Path, tmp_path: Path) -> None:
    """Its statistics lie: they say that a column has nulls alone."""
    table = copied(later_tables / "v9_mor_mdt/v9_mor_mdt", tmp_path)
    condition = pc.field("id") > ""
    before = hoodie.spark.read(spark, str(table), filters=condition).count()
    assert before == 75

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if row["column_name"] == "id":
            row |= {"min_value": None, "max_value": None, "null_count": 7, "value_count": 7}
        yield key, row

    assert tamper(table, "column_stats", MetadataPayload.COLUMN_STATS, change) > 0
    assert hoodie.spark.read(spark, str(table), filters=condition).count() < before
    for options in ({"hoodie.metadata.enable": "false"}, {"hoodie.enable.data.skipping": "false"}):
        assert hoodie.spark.read(spark, str(table), options, filters=condition).count() == before


def test_many_files_are_looked_at_in_few_tasks(spark: SparkSession, base_path: str, write: Write) -> None:
    write([{"id": str(number), "part": f"p{number}"} for number in range(40)])
    given = spark.conf.get(LISTING_TASKS)
    context = spark.sparkContext
    context.setJobGroup(base_path, "a read of many files")
    try:
        frame = hoodie.spark.read(spark, base_path)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert len(frame.inputFiles()) == 40
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(base_path)]
    tasks = [tracker.getStageInfo(stage).numTasks for job in jobs if job is not None for stage in job.stageIds]
    assert tasks == [LISTING_TASKS_OF_CORE * context.defaultParallelism]
    assert spark.conf.get(LISTING_TASKS) == given
    assert frame.count() == 40
