"""Steps on Spark Connect: tags instead of descriptions, and tasks as the server tells them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import json, sys, time
from pyspark.sql import SparkSession
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient

def slowly(batches):
    time.sleep(1)
    yield from batches

spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.addTag("mine")
HoodieTableMetaClient.init_table(sys.argv[1], table_name="trips", record_key_fields=["id"], ordering_fields=["ts"])
events, tags = [], set()

def listen(event):
    events.append((event.step, event.state, event.done, event.total))
    tags.update(spark.getTags())

frame = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) as id", "id as ts")
with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(sys.argv[1]), on_progress=listen) as client:
    count = client.bulk_insert(frame.mapInArrow(slowly, frame.schema)).inserted_count
print("ANSWER" + json.dumps({"count": count, "events": events, "tags": sorted(tags), "after": sorted(spark.getTags())}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="Spark Connect without a server of its own needs PySpark 4"
)
def test_a_write_on_spark_connect_is_tagged_and_followed(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer = json.loads(ran.stdout.split("ANSWER")[1])
    assert answer["count"] == 100
    assert answer["after"] == ["mine"]
    assert {"mine", "hoodie: bulk_insert", "hoodie: write files", "hoodie: commit"} <= set(answer["tags"])
    writing = [event for event in answer["events"] if event[0] == "write files"]
    assert [writing[0][1], writing[-1][1]] == ["started", "finished"]
    assert writing[-1][2] > 0
    assert all(0 <= done <= total for _, _, done, total in writing)
