"""Tables written over Spark Connect, and real Hudi. Sessions of Connect want a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_spark_connect import HAS_CONNECT
from tests.interop.hudi_process import REPOSITORY, HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.model import table_of
from tests.support.table_builder import TRIPS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not HAS_CONNECT, reason="needs PySpark 4 with the packages of its extra 'connect'"),
]

PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
PROGRAM = """
    import json, sys, warnings
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession
    import hoodie.spark

    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    step, paths, options = sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3])

    def rows(first, last, ts):
        return spark.range(first, last).selectExpr(
            "concat('k', id) id", "concat('r', id % 3) region", f"{ts}L ts", f"double(id * {ts}) fare"
        )

    def write(path, frame, operation):
        hoodie.spark.write(frame, path, {**options, "hoodie.datasource.write.operation": operation})

    found = []
    for path in paths:
        if step == "make":
            write(path, rows(0, 60, 5), "bulk_insert")
            write(path, rows(0, 10, 6).union(rows(10, 20, 4)).union(rows(60, 70, 6)), "upsert")
            write(path, rows(1, 3, 0), "delete")
        else:
            write(path, rows(30, 50, 8).union(rows(80, 85, 8)), "upsert")
        found.append(sorted(map(tuple, hoodie.spark.read(spark, path).select("id", "region", "ts", "fare").collect())))
    print(json.dumps(found))
"""
Model = dict[str, tuple[Any, ...]]


def run(step: str, paths: list[Path], table_version: int) -> list[list[tuple[Any, ...]]]:
    """The rows of each table after a step."""
    options = {
        **SIMPLE.hudi_options("trips"),
        "hoodie.datasource.write.payload.class": PAYLOAD,
        "hoodie.write.table.version": str(table_version),
    }
    arguments = [step, ",".join(map(str, paths)), json.dumps(options)]
    foreign = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    environment = {key: value for key, value in os.environ.items() if key not in foreign}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
    environment["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments],
        capture_output=True, text=True, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [[tuple(row) for row in rows] for rows in json.loads(done.stdout.splitlines()[-1])]


def trips(first: int, last: int, ts: int) -> Model:
    return {f"k{n}": (f"k{n}", f"r{n % 3}", ts, float(n * ts)) for n in range(first, last)}


def test_hudi_reads_and_extends_what_was_written_over_connect_and_back(
    hudis: Sequence[HudiProcess], table_version: int, tmp_path: Path
) -> None:
    tables = {tmp_path / hudi.version: hudi for hudi in hudis}
    model = {**trips(0, 60, 5), **trips(0, 10, 6), **trips(60, 70, 6)}
    del model["k1"], model["k2"]
    assert run("make", list(tables), table_version) == [sorted(model.values())] * len(tables)
    options = {**SIMPLE.hudi_options("trips"), "hoodie.datasource.write.payload.class": PAYLOAD}
    for path, hudi in tables.items():
        assert sorted(tuple(row.values()) for row in hudi.read(path).select(TRIPS.names).to_pylist()) == sorted(
            model.values()
        )
        hudi.write(path, table_of({**trips(20, 40, 7), **trips(70, 80, 7)}), options)
    model |= {**trips(20, 40, 7), **trips(70, 80, 7), **trips(30, 50, 8), **trips(80, 85, 8)}
    assert run("go on", list(tables), table_version) == [sorted(model.values())] * len(tables)
    for path, hudi in tables.items():
        assert sorted(tuple(row.values()) for row in hudi.read(path).select(TRIPS.names).to_pylist()) == sorted(
            model.values()
        )
