"""The streamer on Spark: tasks read the parts of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig, SyncResult
from hoodie.utilities.transform.transformer import Transformer
from tests.support.streamer_runs import LIST_SOURCE, SCHEMA, ListSource, list_source

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def run(spark: SparkSession, path: Path, properties: dict[str, str], **flags: Any) -> SyncResult:
    config = StreamerConfig(target_base_path=str(path), **{"source_class": LIST_SOURCE, **flags})
    result = HoodieStreamer(config, spark, properties).sync()
    assert result is not None
    return result


def read(path: Path) -> list[tuple[Any, ...]]:
    table = hoodie.read_table(str(path), columns=SCHEMA.names)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_rounds_on_spark_go_on_where_rounds_in_this_process_stopped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "y", 1), ("a", "x", 2))
    first = run(spark, path, properties, source_limit=1)
    assert (first.rows, first.position_after) == (1, "1")
    config = StreamerConfig(target_base_path=str(path), source_class=LIST_SOURCE, source_limit=1)
    HoodieStreamer(config, properties=properties).sync()
    last = run(spark, path, properties)
    assert (last.rows, last.position_before, last.position_after) == (1, "2", "3")
    assert not run(spark, path, properties).is_committed
    assert read(path) == [("a", "x", 2), ("b", "y", 1)]


def test_a_bad_message_fails_the_round_and_names_its_place(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(HoodieReadFromSourceException, match="topic list, partition 0, offset 1: it is no row"):
        run(spark, path, list_source("l", ("a", "x", 1), "not a row"))
    assert not path.exists()


def test_errors_are_kept_and_good_rows_land(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), "not a row", (None, "x", 1), ("b", "x", 1))
    ListSource.SCHEMAS["l"] = pa.schema([SCHEMA.field(0), SCHEMA.field(1), pa.field("ts", pa.int64(), nullable=False)])
    result = run(spark, path, properties | {"hoodie.errortable.enable": "true"})
    assert (result.rows, result.error_count) == (2, 2)
    assert read(path) == [("a", "x", 1), ("b", "x", 1)]
    errors = hoodie.read_table(f"{path}_errors").to_pylist()
    assert sorted((row["offset"], row["reason"]) for row in errors) == [
        (1, "JSON_ROW_DESERIALIZATION_FAILURE"), (2, "RECORD_CREATION"),
    ]  # fmt: skip
    # What may not be null stays so, though errors travel as rows of nulls.
    assert not hoodie.HoodieTableMetaClient.load(str(path)).load_schema().field("ts").nullable


def test_columns_may_be_null_if_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    ListSource.SCHEMAS["l"] = pa.schema([field.with_nullable(False) for field in SCHEMA])
    properties = list_source("l", ("a", "x", 1))
    run(spark, tmp_path / "strict", properties)
    run(spark, tmp_path / "t", properties | {"hoodie.streamer.schema.make.columns.nullable": "true"})
    found = [hoodie.HoodieTableMetaClient.load(str(tmp_path / name)).load_schema() for name in ("strict", "t")]
    assert [{field.nullable for field in schema} for schema in found] == [{False}, {True}]
    assert read(tmp_path / "t") == [("a", "x", 1)]


class Doubled(Transformer):
    """Doubles a column."""

    def apply(self, table: pa.Table, properties: Any) -> pa.Table:
        """See `Transformer.apply`."""
        import pyarrow.compute as pc

        return table.set_column(2, "ts", pc.multiply(table["ts"], 2))


def late(frame: DataFrame, properties: Any) -> DataFrame:
    """The rows after a time."""
    return frame.where("ts > 2")


def test_transformers_change_frames_and_batches(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    here = "tests.integration.test_spark_streamer"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 5), (None, "x", 9))
    properties["hoodie.errortable.enable"] = "true"
    result = run(spark, path, properties, transformer_classes=(f"{here}:Doubled", f"{here}:late"))
    assert read(path) == [("b", "x", 10)]
    assert result.error_count == 1


def test_an_overwrite_without_rows_does_not_empty_the_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), "bad")
    run(spark, path, properties, source_limit=1)
    result = run(spark, path, properties | {"hoodie.errortable.enable": "true"}, op="INSERT_OVERWRITE_TABLE")
    assert (result.rows, result.error_count, result.position_after) == (0, 1, "2")
    assert read(path) == [("a", "x", 1)]


def test_continuous_rounds_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(4)))
    run(
        spark,
        path,
        properties | {"max.rounds.without.new.data.to.shutdown": "1"},
        source_limit=2,
        continuous=True,
        table_type="MERGE_ON_READ",
        termination_strategy_class="NoNewDataTerminationStrategy",
    )
    assert [row[0] for row in read(path)] == ["k0", "k1", "k2", "k3"]


def test_files_are_read_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": "k{number}", "region": "x", "ts": {number}}}\n')
    properties = list_source("unused") | {"hoodie.streamer.source.dfs.root": str(tmp_path / "in")}
    assert run(spark, path, properties, source_class="JsonDFSSource").rows == 3
    assert read(path) == [("k0", "x", 0), ("k1", "x", 1), ("k2", "x", 2)]


def test_a_large_file_is_read_by_several_tasks_and_bad_lines_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path, source = tmp_path / "t", tmp_path / "in" / "1.json"
    source.parent.mkdir()
    lines = [json.dumps({"id": f"k{number}", "region": "x", "ts": number}) for number in range(300)]
    lines[200] = "bad"
    lines[250] = '{"region": "x", "ts": 1}'
    source.write_text("\n".join(lines))
    properties = list_source("unused") | {
        "hoodie.streamer.source.dfs.root": str(source.parent),
        "hoodie.streamer.source.dfs.split.bytes": "3000",
        "hoodie.errortable.enable": "true",
    }
    result = run(spark, path, properties, source_class="JsonDFSSource")
    assert (result.rows, result.error_count, result.details["sourceParallelism"]) == (298, 2, 5)
    assert sorted(row[2] for row in read(path)) == [number for number in range(300) if number not in (200, 250)]
    errors = hoodie.read_table(f"{path}_errors", columns=["file", "line"]).sort_by("line").to_pylist()
    assert errors == [{"file": str(source), "line": 201}, {"file": str(source), "line": 251}]


def test_a_local_engine_with_a_master_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="leave one of them out"):
        StreamerConfig(target_base_path=str(tmp_path), engine="local", spark_master="local[2]")
