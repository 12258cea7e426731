"""`hoodie.spark.write`: options and save modes as of Hudi's data source."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieKeyException,
    HoodieLockException,
    HoodieSchemaException,
    TableExistsException,
    TableNotFoundException,
)
from tests.support.table_builder import instants, read_trips, spark_rows

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
OPERATION = "hoodie.datasource.write.operation"
Rows = list[tuple[Any, ...]]


def commits(base_path: Path) -> int:
    return len(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_completed_instants())


def test_the_options_make_the_table_and_say_what_is_done(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "trips table"
    seen = []
    result = hoodie.spark.write(
        spark_rows(spark, ("a", "x", 5, 1.0), ("b", "y", 5, 1.0), ("a", "x", 6, 2.0)), str(path), OPTIONS,
        on_progress=seen.append,
    )  # fmt: skip
    assert result is not None and result.is_committed and seen
    assert (result.operation.value, result.inserted_count) == ("UPSERT", 2)
    config = HoodieTableMetaClient.load(str(path)).table_config
    assert (config.table_name, config.record_key_fields, config.partition_fields, config.ordering_fields) == (
        "trips", ("id",), ("region",), ("ts",)
    )  # fmt: skip
    assert (path / "region=x").is_dir()
    # The table knows the rest by now.
    hoodie.spark.write(spark_rows(spark, ("a", "x", 4, 9.0), ("b", "y", 6, 3.0)), str(path))
    hoodie.spark.write(spark_rows(spark, ("c", "x", 1, 4.0)), str(path), {**OPTIONS, OPERATION: "insert"}, "Append")
    hoodie.spark.write(spark_rows(spark, ("d", "x", 1, 4.0)), str(path), {OPERATION: "bulk_insert"})
    assert read_trips(path) == [("a", "x", 6, 2.0), ("b", "y", 6, 3.0), ("c", "x", 1, 4.0), ("d", "x", 1, 4.0)]
    gone = hoodie.spark.read(spark, str(path)).where("fare = 4")
    hoodie.spark.write(gone, str(path), {OPERATION: "delete"})
    assert read_trips(path) == [("a", "x", 6, 2.0), ("b", "y", 6, 3.0)]


def test_modes_say_what_happens_to_a_table_that_is_there(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for mode in ("errorifexists", "IGNORE", "error", "overwrite"):
        assert (
            hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(tmp_path / mode), OPTIONS, mode) is not None
        )
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS)
    stray = path / "region=z" / "stray.parquet"
    stray.parent.mkdir()
    stray.touch()
    other = spark_rows(spark, ("b", "y", 1, 2.0))
    with pytest.raises(TableExistsException, match="give mode 'append'"):
        hoodie.spark.write(other, str(path), OPTIONS, "error")
    assert hoodie.spark.write(other, str(path), OPTIONS, "ignore") is None
    assert (read_trips(path), commits(path)) == ([("a", "x", 1, 1.0)], 1)
    # What makes no table deletes none.
    with pytest.raises(HoodieKeyException, match="'uuid' is not a column"):
        hoodie.spark.write(
            other, str(path), {**OPTIONS, "hoodie.datasource.write.recordkey.field": "uuid"}, "overwrite"
        )
    assert read_trips(path) == [("a", "x", 1, 1.0)]
    renamed = {**OPTIONS, "hoodie.table.name": "others", "hoodie.datasource.write.hive_style_partitioning": "false"}
    hoodie.spark.write(other, str(path), renamed, "overwrite")
    assert (read_trips(path), commits(path)) == ([("b", "y", 1, 2.0)], 1), "another table"
    assert HoodieTableMetaClient.load(str(path)).table_config.table_name == "others"
    # The folder is no partition: nobody reads the file as data.
    assert sorted(child.name for child in path.iterdir()) == [".hoodie", "region=z", "y"]
    hoodie.spark.write(
        spark_rows(spark, ("c", "z", 1, 3.0)), str(path), {**renamed, OPERATION: "insert_overwrite_table"}, "overwrite"
    )
    assert (read_trips(path), commits(path)) == ([("c", "z", 1, 3.0)], 2), "the history stays"


def test_a_path_with_globs_is_not_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = spark_rows(spark, ("a", "x", 1, 1.0))
    hoodie.spark.write(frame, str(path), OPTIONS)
    with pytest.raises(HoodieConfigException, match=f"{path}/\\*/\\* names the table at {path} by globs"):
        hoodie.spark.write(frame, f"{path}/*/*", OPTIONS, "overwrite")
    assert sorted(file.name for file in path.iterdir()) == [".hoodie", "region=x"]
    assert read_trips(path) == [("a", "x", 1, 1.0)]


@pytest.mark.parametrize(
    ("options", "mode", "error", "text"),
    [
        ({}, "append", HoodieConfigException, r"needs hoodie\.table\.name and hoodie\.datasource\.write\.recordkey"),
        (OPTIONS, "upsert", HoodieConfigException, "mode 'upsert' is unknown"),
        ({**OPTIONS, OPERATION: "delete"}, "append", TableNotFoundException, "to delete from"),
        ({**OPTIONS, OPERATION: "delete"}, "overwrite", HoodieConfigException, "use mode 'append' for a delete"),
        ({**OPTIONS, "hoodie.auto.commit": "false"}, "append", HoodieConfigException, "always commits"),
        ({**OPTIONS, "hoodie.tabel.name": "t"}, "append", HoodieConfigException, r"hoodie\.table\.name"),
        (
            {**OPTIONS, "hoodie.datasource.write.precombine.field": "when"},
            "append",
            HoodieKeyException,
            "ordering field 'when' is not a column",
        ),
    ],
)
def test_what_makes_no_write_makes_no_table(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], mode: str, error: type[HoodieException], text: str
) -> None:
    with pytest.raises(error, match=text):
        hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(tmp_path / "t"), options, mode)
    assert not (tmp_path / "t").exists()


def test_types_that_cannot_be_stored_make_no_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark_rows(spark, ("a", "x", 1, 1.0)).selectExpr("*", "make_dt_interval(1) length")
    with pytest.raises(HoodieSchemaException, match="length"):
        hoodie.spark.write(frame, str(tmp_path / "t"), OPTIONS)
    assert not (tmp_path / "t").exists()


def test_options_that_contradict_the_table_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(tmp_path / "t"), OPTIONS)
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.name"):
        hoodie.spark.write(
            spark_rows(spark, ("b", "x", 1, 1.0)), str(tmp_path / "t"), {**OPTIONS, "hoodie.table.name": "others"}
        )
    assert read_trips(tmp_path / "t") == [("a", "x", 1, 1.0)]


@pytest.mark.parametrize("mode", ["append", "overwrite", "errorifexists", "ignore"])
def test_no_mode_makes_a_table_in_a_folder_that_holds_something_else(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "t"
    spark.range(3).write.parquet(str(path))
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    before = sorted(path.rglob("*"))
    with pytest.raises(HoodieConfigException, match=r"because the folder holds a Delta table \(_delta_log\)"):
        hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS, mode)
    assert sorted(path.rglob("*")) == before
    allowed = {**OPTIONS, "hoodie.table.create.allow.other.files": "true"}
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), allowed, mode)
    assert read_trips(path) == [("a", "x", 1, 1.0)]


def test_a_table_with_other_files_beside_it_is_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS)
    (path / "README.md").write_text("x")
    hoodie.spark.write(spark_rows(spark, ("b", "x", 1, 1.0)), str(path), OPTIONS, "overwrite")
    assert read_trips(path) == [("b", "x", 1, 1.0)]


def test_a_first_write_that_never_began_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    bad = spark_rows(spark, ("a", "x", 1, 1.0), (None, "x", 1, 1.0))
    with pytest.raises(HoodieKeyException, match="have no usable key"):
        hoodie.spark.write(bad, str(path), OPTIONS)
    assert not path.exists()
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS)
    with pytest.raises(HoodieKeyException, match="have no usable key"):
        hoodie.spark.write(bad, str(path), OPTIONS)
    assert [row.action for row in HoodieTableMetaClient.load(str(path)).history()] == ["commit"]
    for name in ("trips", "others"):
        with pytest.raises(HoodieKeyException, match="have no usable key"):
            hoodie.spark.write(bad, str(path), {**OPTIONS, "hoodie.table.name": name}, "overwrite")
        assert (read_trips(path), commits(path)) == ([("a", "x", 1, 1.0)], 1)


def test_a_table_that_another_process_writes_is_not_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS)
    other, options = spark_rows(spark, ("b", "x", 1, 1.0)), {**OPTIONS, "hoodie.write.lock.wait_time_ms": "100"}
    # Another descriptor of the lock's file is as another process to the kernel.
    with open(path / ".hoodie" / ".locks" / "single_writer.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(HoodieLockException, match="Nothing was changed") as raised:
            hoodie.spark.write(other, str(path), options, "overwrite")
    assert not getattr(raised.value, "__notes__", None)
    assert (read_trips(path), commits(path)) == ([("a", "x", 1, 1.0)], 1)
    hoodie.spark.write(other, str(path), options, "overwrite")
    hoodie.spark.write(spark_rows(spark, ("c", "x", 1, 1.0)), str(path), options)
    assert (read_trips(path), commits(path)) == ([("b", "x", 1, 1.0), ("c", "x", 1, 1.0)], 3)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.parquet.max.file.sise": "1"},
        {"hoodie.index.class": "no.such.Index"},
        {"hoodie.write.record.merge.custom.implementation.classes": "no.such.Merger"},
        {"hoodie.bulkinsert.user.defined.partitioner.class": "no.such.Partitioner"},
    ],
)
def test_options_are_checked_before_a_table_is_opened_or_a_job_is_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    def touched(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("touched before the options were checked")

    frame = spark_rows(spark, ("a", "x", 1, 1.0))
    for owner, name in (
        (TableSnapshot, "load"),
        (DataFrame, "mapInArrow"),
        (DataFrame, "select"),
        (DataFrame, "persist"),
    ):
        monkeypatch.setattr(owner, name, touched)
    with pytest.raises(HoodieConfigException):
        hoodie.spark.write(frame, str(tmp_path / "t"), {**OPTIONS, **options})
    assert not (tmp_path / "t").exists()


HOLDER = """
import sys
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

client = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(sys.argv[1], {"hoodie.auto.commit": "false"}))
print(client.start_commit(), flush=True)
sys.stdin.readline()
"""


def test_an_overwrite_waits_for_the_writer_in_another_process(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.spark.write(spark_rows(spark, ("a", "x", 1, 1.0)), str(path), OPTIONS)
    other, options = spark_rows(spark, ("b", "y", 1, 2.0)), {**OPTIONS, "hoodie.write.lock.wait_time_ms": 200}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline().strip()
        with pytest.raises(HoodieLockException, match="Nothing was changed"):
            hoodie.spark.write(other, str(path), options, "overwrite")
        assert read_trips(path) == [("a", "x", 1, 1.0)]
        holder.communicate("end\n", timeout=60)
    hoodie.spark.write(other, str(path), options, "overwrite")
    assert read_trips(path) == [("b", "y", 1, 2.0)]
    assert [action for _, action, _ in instants(path)] == ["commit", "rollback", "replacecommit"]
