"""The memory of Spark's Python workers does not grow with the input, where its keys are too many for the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks of memory are read from /proc"),
]
PROGRAM = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.table.action.commit import incoming_keys

folder = sys.argv[1]
incoming_keys.KEY_BYTES = -1
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()

def status(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.strip()}

def peak():
    # Workers are children of a daemon, which is a child of the JVM.
    found = {int(entry.name): status(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    jvm = spark.sparkContext._gateway.proc.pid
    daemons = {pid for pid, one in found.items() if int(one.get("PPid", 0)) == jvm}
    return max(int(one["VmHWM"]) for one in found.values() if int(one.get("PPid", 0)) in daemons)

text = "concat(" + ", ".join(f"sha2(concat(id, '{number}'), 256)" for number in range(16)) + ")"
peaks = []
# The first write loads what is loaded once.
for number, count in enumerate((100_000, 100_000, 500_000)):
    rows = spark.range(count).selectExpr("concat('k', id) id", "concat('p', id % 2) region", "1L ts", text + " text")
    rows.write.parquet(f"{folder}/{number}.rows")
    path = f"{folder}/{number}.table"
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="region", ordering_fields="ts"
    )
    # Rows of 1 KB that compress to half of it: 4 MB of files are 8,000 rows.
    properties = {"hoodie.parquet.max.file.size": str(4 << 20), "hoodie.copyonwrite.record.size.estimate": "520"}
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path, properties)) as client:
        for _ in range(2):
            result = client.upsert(spark.read.parquet(f"{folder}/{number}.rows"))
    assert result.updated_count == count
    peaks.append([peak(), len(result.statuses)])
print(json.dumps(peaks))
"""


def test_five_times_the_input_needs_no_more_memory_of_a_worker(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
    environment["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    _, (once, few_files), (large, many_files) = json.loads(done.stdout.splitlines()[-1])
    # The inputs are 110 and 550 MB, which two workers share.
    assert many_files >= 4 * few_files, (few_files, many_files)
    assert large <= 1.15 * once, (once, large)
