"""Workers whose Python lacks what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
    import sys
    from pyspark.sql import SparkSession
    from hoodie import HoodieException, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.executor.pyspark.memory", sys.argv[2]).getOrCreate()
    path = sys.argv[1]
    meta_client = HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"])
    try:
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
            client.upsert(spark.createDataFrame([("a", 1)], "id string, v int"))
    except HoodieException as error:
        print(error)
    print(len(meta_client.reload_active_timeline().commits_timeline()), "instants")
"""


def test_a_python_of_workers_without_hoodie_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYSPARK_PYTHON"] = str(tmp_path / "bare" / "bin" / "python")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "t"), "4g"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told, instants = done.stdout.splitlines(), "0 instants"
    # Not after the tracebacks of all attempts of a task.
    assert len(done.stderr.splitlines()) < 40, done.stderr[:3000]
    assert told[-1:] == [instants], done.stderr[-2000:]
    assert (
        "the Python of Spark's workers has no module 'hoodie': install hoodie there as well, or set PYSPARK_PYTHON"
        in told[0]
    )


def test_workers_with_too_little_memory_are_refused_with_the_least_that_works(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "t"), "512m"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = done.stdout.splitlines()
    assert told[-1:] == ["0 instants"], done.stderr[-2000:]
    assert "spark.executor.pyspark.memory leaves each Python worker 512 MiB" in told[0]
    assert "at least 640 MiB" in told[0]
