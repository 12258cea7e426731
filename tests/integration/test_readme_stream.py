"""The README's program that writes a stream, as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hoodie

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
(PROGRAM,) = (
    program
    for program in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    if "writeStream" in program
)


def test_the_program_of_the_readme_writes_each_batch_of_a_stream_once(spark: SparkSession, tmp_path: Path) -> None:
    schema, source, table = "uuid string, ts bigint, fare double", str(tmp_path / "source"), str(tmp_path / "rides")
    program = PROGRAM.replace("/tmp/rides", table)
    assert "/tmp/" not in program.replace(str(tmp_path), "")

    def run_on(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(source)
        names: dict[str, Any] = {"stream": spark.readStream.schema(schema).parquet(source)}
        exec(compile(program, "README.md", "exec"), names)
        stored = hoodie.read_table(table, columns=["uuid", "ts", "fare"]).to_pylist()
        return sorted(tuple(row.values()) for row in stored)

    assert run_on([("a", 1, 1.0), ("b", 1, 2.0)]) == [("a", 1, 1.0), ("b", 1, 2.0)]
    assert run_on([("b", 2, 3.0), ("c", 1, 4.0)]) == [("a", 1, 1.0), ("b", 2, 3.0), ("c", 1, 4.0)]
    timeline = hoodie.HoodieTableMetaClient.load(table).active_timeline
    assert len(timeline.commits_timeline()) == 2
