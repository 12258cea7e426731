"""The programs of docs/write-clients.md and docs/streaming.md that write a stream, as they are printed."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import hoodie

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def program_of(page: str) -> str:
    """The page's program that writes a stream."""
    text = (ROOT / page).read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    found = next(program for program in programs if "writeStream" in program)
    assert "foreach_batch_writer" in found
    return str(found)


def test_the_program_of_the_write_clients_writes_each_batch_of_a_stream_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema, source, table = "uuid string, ts bigint, fare double", str(tmp_path / "source"), str(tmp_path / "rides")
    program = program_of("docs/write-clients.md").replace("/tmp/rides", table)
    assert "/tmp/" not in program.replace(str(tmp_path), "")

    def run_on(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(source)
        names: dict[str, Any] = {"stream": spark.readStream.schema(schema).parquet(source)}
        exec(compile(program, "write-clients.md", "exec"), names)
        stored = hoodie.read_table(table, columns=["uuid", "ts", "fare"]).to_pylist()
        return sorted(tuple(row.values()) for row in stored)

    assert run_on([("a", 1, 1.0), ("b", 1, 2.0)]) == [("a", 1, 1.0), ("b", 1, 2.0)]
    assert run_on([("b", 2, 3.0), ("c", 1, 4.0)]) == [("a", 1, 1.0), ("b", 2, 3.0), ("c", 1, 4.0)]
    # The query dies after its batch was written, and before Spark knows.
    for file in Path(f"{table}_checkpoint", "commits").glob("*1*"):
        file.unlink()
    assert run_on([("d", 1, 5.0)]) == [("a", 1, 1.0), ("b", 2, 3.0), ("c", 1, 4.0), ("d", 1, 5.0)]
    timeline = hoodie.HoodieTableMetaClient.load(table).active_timeline
    assert len(timeline.commits_timeline()) == 3


def test_the_program_of_the_page_on_streams_writes_what_comes_in(spark: SparkSession, tmp_path: Path) -> None:
    program = program_of("docs/streaming.md").replace("/data/", f"{tmp_path}/").replace("1 minute", "0 seconds")
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "1.json").write_text('{"uuid": "a", "city": "rome", "ts": 1, "fare": 2.5}')
    names: dict[str, Any] = {"spark": spark}
    exec(compile(program, "streaming.md", "exec"), names)
    try:
        names["query"].processAllAvailable()
        (incoming / "2.json").write_text('{"uuid": "a", "city": "rome", "ts": 2, "fare": 3.5}')
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    stored = hoodie.read_table(str(tmp_path / "rides"), columns=["uuid", "city", "ts", "fare"]).to_pylist()
    assert stored == [{"uuid": "a", "city": "rome", "ts": 2, "fare": 3.5}]


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python")
def test_the_pipeline_of_the_page_prints_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    text = (ROOT / "docs/streaming.md").read_text(encoding="utf-8")
    section = text.partition("## From files to a reader of changes\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"spark": spark}
    for program, said in steps:
        out = StringIO()
        with redirect_stdout(out):
            exec(compile(program.replace("/tmp/rides", str(tmp_path)), "streaming.md", "exec"), names)
        assert out.getvalue().strip() == said.strip()
    assert len(steps) == 2
