"""Large inputs of many kinds on Spark, each beside a plain upsert: which kinds of table, input or option cost more.

    python -m benchmarks.kinds_spark [--rows 1000000] [--runs 2] [--kinds joined,GLOBAL_SIMPLE] [--json FILE]

Each kind writes as many rows as its table has, into a copy of that table. Its keys count as too many for the driver,
whatever the number of rows. Each line is compared with the first one, which with all kinds is an upsert of all rows
with SIMPLE from Parquet files. CPU seconds are those of the process's session, JVM and workers included: run the
program in a session of its own (``setsid``) if others run in yours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pyarrow.parquet as pq

from benchmarks.measure import (
    copy,
    cpu_seconds,
    describe_load,
    describe_machine,
    fresh,
    timed,
    trip_updates,
    trips,
    write_json,
)
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.table.action.commit import incoming_keys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
WARM_UPS = 3
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
RECORD_LEVEL_INDEX = {
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
}
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}


def same(frame: Any) -> Any:
    """The input as it is."""
    return frame


def joined(frame: Any) -> Any:
    """An input that costs much to compute again: its rows are kept."""
    from pyspark.sql import functions as sf  # needs PySpark, which is not installed everywhere

    names = frame.select("uuid").withColumn("one", sf.lit(1))
    return frame.join(names, "uuid").drop("one")


def repeated(frame: Any) -> Any:
    """Each row twice, the second with a newer ordering value."""
    from pyspark.sql import functions as sf  # as above

    return frame.union(frame.withColumn("ts", (sf.col("ts") + 1).cast(frame.schema["ts"].dataType)))


def keys_of(frame: Any) -> Any:
    """Record keys and partitions."""
    return frame.select("uuid", "partitionpath")


@attrs.frozen
class Kind:
    """A kind of write.

    Attributes:
        operation: The operation.
        options: The options of the writer.
        change: Makes the input of the frame.
        data: ``stored`` or ``new``: whether the keys are those of the table; ``half``: half of them are.
        table: Further arguments of the table.
    """

    operation: str = "upsert"
    options: Mapping[str, str] = attrs.field(factory=dict)
    change: Callable[[Any], Any] = same
    data: str = "stored"
    table: Mapping[str, Any] = attrs.field(factory=dict)


KINDS = {
    "upsert": Kind(),
    "joined": Kind(change=joined),
    "joined, read twice": Kind(options={"hoodie.write.input.persist": "NEVER"}, change=joined),
    "repeated": Kind(change=repeated),
    "GLOBAL_SIMPLE": Kind(options={"hoodie.index.type": "GLOBAL_SIMPLE"}),
    "composite key": Kind(table={"record_key_fields": ["uuid", "partitionpath"]}),
    "partial update": Kind(table={"payload_class": "PartialUpdateAvroPayload"}),
    "insert": Kind("insert", data="new"),
    "insert, joined": Kind("insert", change=joined, data="new"),
    "insert, combined": Kind("insert", {"hoodie.combine.before.insert": "true"}, data="new"),
    "insert, known keys dropped": Kind("insert", DROP, data="new"),
    "insert, all keys known and dropped": Kind("insert", DROP),
    "insert, half of the keys dropped": Kind("insert", DROP, data="half"),
    "insert, known keys refused": Kind("insert", {"hoodie.datasource.insert.dup.policy": "fail"}, data="new"),
    "RECORD_INDEX": Kind(options=RECORD_INDEX),
    "RECORD_INDEX, upsert of new keys": Kind(options=RECORD_INDEX, data="new"),
    "RECORD_INDEX, half of the keys dropped": Kind("insert", {**RECORD_INDEX, **DROP}, data="half"),
    "RECORD_LEVEL_INDEX": Kind(options=RECORD_LEVEL_INDEX),
    "insert_overwrite": Kind("insert_overwrite"),
    "bulk_insert": Kind("bulk_insert", data="new"),
    "bulk_insert, half of the keys dropped": Kind("bulk_insert", DROP, data="half"),
    "delete": Kind("delete", change=keys_of),
    "BUCKET, upsert": Kind(options=BUCKETS),
    "BUCKET, joined": Kind(options=BUCKETS, change=joined),
    "BUCKET, insert": Kind("insert", BUCKETS, data="new"),
    "BUCKET, insert, joined": Kind("insert", BUCKETS, joined, "new"),
    "BUCKET, insert, combined": Kind("insert", {**BUCKETS, "hoodie.combine.before.insert": "true"}, data="new"),
    "BUCKET, insert, half of the keys dropped": Kind("insert", {**BUCKETS, **DROP}, data="half"),
    "BUCKET, bulk_insert": Kind("bulk_insert", BUCKETS, data="new"),
    "merge-on-read": Kind(table={"table_type": "MERGE_ON_READ"}),
    "merge-on-read, insert": Kind("insert", data="new", table={"table_type": "MERGE_ON_READ"}),
    "merge-on-read, BUCKET": Kind(options=BUCKETS, table={"table_type": "MERGE_ON_READ"}),
}


def make_table(path: str, kind: Kind) -> str:
    """An empty table of a kind."""
    HoodieTableMetaClient.init_table(
        fresh(path),
        table_name="trips",
        partition_fields=["partitionpath"],
        ordering_fields=["ts"],
        **{"record_key_fields": ["uuid"], **kind.table},
    )
    return path


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--kinds", default=";".join(KINDS), help="separated by semicolons")
    parser.add_argument("--json", default=None)
    arguments = parser.parse_args()
    from pyspark.sql import SparkSession  # as above

    from hoodie import SparkRDDWriteClient  # needs PySpark, which is not installed everywhere

    incoming_keys.KEY_BYTES = -1
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )  # fmt: skip
    machine = describe_machine("pyspark", "pyarrow")
    print(machine, flush=True)

    def write(operation: str, path: str, frame: Any, options: Mapping[str, str]) -> None:
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path, options)) as client:
            getattr(client, operation)(frame)

    table = trips(arguments.rows).combine_chunks()
    inputs = {
        "stored": trip_updates(table, arguments.rows, 0),
        "new": trip_updates(table, 0, arguments.rows),
        "half": trip_updates(table, arguments.rows // 2, arguments.rows - arguments.rows // 2),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in {"base": table, **inputs}.items():
            os.mkdir(f"{folder}/{name}")
            for part in range(4):
                low, high = rows.num_rows * part // 4, rows.num_rows * (part + 1) // 4
                pq.write_table(rows.slice(low, high - low), f"{folder}/{name}/{part}.parquet")
        for name in arguments.kinds.split(";"):
            kind = KINDS[name]
            base = make_table(f"{folder}/{name} base", kind)
            write("bulk_insert", base, spark.read.parquet(f"{folder}/base"), kind.options)
            frame = kind.change(spark.read.parquet(f"{folder}/{kind.data}"))
            path = f"{folder}/{name}"
            if not found:
                # Java code is compiled by the time that counts.
                for _ in range(WARM_UPS):
                    copy(base, path)
                    write(kind.operation, path, frame, kind.options)
            timing = timed(
                name,
                arguments.runs,
                lambda base=base, path=path: copy(base, path),
                lambda kind=kind, path=path, frame=frame: write(kind.operation, path, frame, kind.options),
                cpu_seconds,
            )
            found.append(timing)
            times = statistics.median(timing.cpu) / statistics.median(found[0].cpu)
            print(f"{timing.line(found[0])}   {times:5.2f} x its CPU", flush=True)
            fresh(base)
            fresh(path)
    print(describe_load(), flush=True)
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "runs": arguments.runs}, found)


if __name__ == "__main__":
    main()
