"""The streamer: its start, empty rounds, continuous upserts, many rounds, memory, and Spark beside Spark's own source.

    .ci/fetch_kafka
    python -m benchmarks.streamer [--parts start,empty,continuous,rounds,memory,spark] [--rows 1000000] [--runs 3]

start       the command, in a process of its own, from its start to the commit of one row of a file
empty       rounds that find nothing new
continuous  20 rounds of upserts from a topic; beside the same upserts by one client with all rows in memory
rounds      520 rounds of 20 rows: the last 20 beside those from the 60th on (cleaning and archiving begin before) and
            those from the 10th on
memory      a backlog, and one of ten times as many messages, with rounds of at most so many bytes; each in a process of
            its own, whose peak (``VmHWM``) is shown
spark       Kafka, JSON and Arrow in Spark's tasks, beside Spark's own source with from_json; both end in ``noop``. It
            needs PySpark 3.5 and the jars of ``spark-sql-kafka-0-10`` in the local Maven repository

`benchmarks.kafka_source` compares a load from a topic with one bare Parquet file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.kafka_source import SCHEMA, batch_of, fill, source_of
from benchmarks.measure import Timing, describe_load, describe_machine, timed, write_json
from benchmarks.memory import peak_bytes
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.utilities.sources.source import InputBatch
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig
from tests.support.kafka_broker import KafkaBroker, running_kafka

PARTS = ("start", "empty", "continuous", "rounds", "memory", "spark")
ROUNDS = 20
_KEYS = {
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "max.rounds.without.new.data.to.shutdown": "1",
}
_JARS = (
    ("org/apache/spark", "spark-sql-kafka-0-10_2.12", "3.5.1"),
    ("org/apache/spark", "spark-token-provider-kafka-0-10_2.12", "3.5.1"),
    ("org/apache/kafka", "kafka-clients", "3.9.1"),
    ("org/apache/commons", "commons-pool2", "2.12.0"),
)


class Numbers:
    """A source of a few rows for each round, without an end."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._last = int(properties["rows"])

    def fetch(self, position: str | None, limit: int | None) -> tuple[pa.Table | None, str]:
        """The next rows."""
        first = int(position or 0)
        numbers = range(first, min(self._last, first + (limit or 20)))
        if not numbers:
            return None, str(first)
        return pa.table({"uuid": [f"k{n % 1000}" for n in numbers], "ts": list(numbers)}), str(numbers.stop)


def properties_of(broker: KafkaBroker, topic: str, schema: Path) -> dict[str, str]:
    """The properties of a run from a topic."""
    schema.write_text(SCHEMA)
    return {
        **_KEYS,
        "bootstrap.servers": broker.address(),
        "auto.offset.reset": "earliest",
        "hoodie.streamer.source.kafka.topic": topic,
        "hoodie.streamer.schemaprovider.source.schema.file": str(schema),
    }


def flags(path: Path, **more: Any) -> StreamerConfig:
    """The flags of a continuous run from a topic that ends when there is nothing new."""
    return StreamerConfig(
        target_base_path=str(path),
        continuous=True,
        termination_strategy_class="NoNewDataTerminationStrategy",
        **{"source_class": "JsonKafkaSource", "schema_provider_class": "FilebasedSchemaProvider", **more},
    )


def start(folder: Path, runs: int) -> Timing:
    """The command from its start to the commit of one row."""
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text('{"uuid": "a", "ts": 1}\n')
    numbers = iter(range(1000))

    def run() -> None:
        path = str(folder / f"t{next(numbers)}")
        call = [
            sys.executable,
            "-m",
            "hoodie",
            "streamer",
            path,
            "--from",
            f"{folder}/in/*.json",
            "--record-key",
            "uuid",
        ]
        subprocess.run(call, check=True, capture_output=True)

    return timed("start to first commit", runs, lambda: None, run)


def rounds(folder: Path, count: int) -> list[Timing]:
    """Rounds of 20 rows, the first ones, later ones and the last ones; and rounds without news."""
    properties = {**_KEYS, "rows": str(count * 20)}
    config = StreamerConfig(
        target_base_path=str(folder / "rounds"), source_class="benchmarks.streamer:Numbers", source_limit=20
    )
    streamer = HoodieStreamer(config, properties=properties)
    sync = streamer._sync
    seconds = [sync.sync_once().seconds["total"] for _ in range(count)]
    empty = [sync.sync_once().seconds["total"] for _ in range(50)]
    streamer.close()
    return [
        Timing("rounds 10 to 30", seconds[10:30]),
        Timing("rounds 60 to 80", seconds[60:80]),
        Timing(f"rounds {count - 20} to {count}", seconds[-20:]),
        Timing("empty rounds", empty),
    ]


def continuous(broker: KafkaBroker, folder: Path, rows: int, runs: int) -> tuple[Timing, Timing]:
    """Upserts from a topic round by round, and the same with all rows in memory."""
    topic, _ = fill(broker, rows)
    limit = rows // ROUNDS
    from_memory, from_topic = Timing("upserts from memory", []), Timing("upserts from the topic", [])
    for number in range(runs):
        streamer = HoodieStreamer(
            flags(folder / f"a{number}", source_limit=limit), properties=properties_of(broker, topic, folder / "s.avsc")
        )
        begun, begun_cpu = time.perf_counter(), time.process_time()
        last = streamer.sync()
        assert last is not None
        # The last round finds nothing new.
        from_topic.seconds.append(time.perf_counter() - begun - last.seconds["total"])
        from_topic.cpu.append(time.process_time() - begun_cpu)
        path = folder / f"b{number}"
        HoodieTableMetaClient.init_table(str(path), table_name="b", record_key_fields=["uuid"], ordering_fields=["ts"])
        tables = list(tables_of(broker, topic, rows, limit))
        begun, begun_cpu = time.perf_counter(), time.process_time()
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {})) as client:
            for table in tables:
                client.upsert(table)
        from_memory.seconds.append(time.perf_counter() - begun)
        from_memory.cpu.append(time.process_time() - begun_cpu)
    return from_memory, from_topic


def tables_of(broker: KafkaBroker, topic: str, rows: int, limit: int) -> Iterator[pa.Table]:
    """The rows of a topic in the batches of rounds."""
    source = source_of(broker, topic)
    checkpoint = None
    for _ in range(rows // limit):
        batch: InputBatch = source.fetch(checkpoint, limit)
        checkpoint = batch.checkpoint
        yield pa.Table.from_batches([one.rows for read in batch.reads for one in read.batches()], batch.schema)
    source.close()


def memory(broker: KafkaBroker, folder: Path, rows: int) -> list[tuple[int, int]]:
    """The peaks of runs with a backlog, and with one of ten times as many messages."""
    found = []
    for count in (rows // 10, rows):
        topic, _ = fill(broker, count)
        properties = properties_of(broker, topic, folder / "s.avsc")
        properties["hoodie.streamer.source.kafka.max.batch.bytes"] = str(8 << 20)
        call = [sys.executable, "-m", "benchmarks.streamer", "--child", json.dumps(properties), str(folder / topic)]
        done = subprocess.run(call, check=True, stdout=subprocess.PIPE)
        found.append((count, int(done.stdout.split()[-1])))
    return found


def spark_parts(broker: KafkaBroker, folder: Path, rows: int, runs: int) -> tuple[Timing, Timing]:
    """Spark's own source with from_json, and the tasks of the streamer; both into nothing."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    from hoodie.avro.schema_converters import to_arrow
    from hoodie.spark.spark_types import spark_schema
    from hoodie.utilities.config.streamer_properties import StreamerProperties
    from hoodie.utilities.streamer.row_check import RowCheck
    from hoodie.utilities.streamer.spark_engine import SparkStreamerEngine
    from hoodie.utilities.streamer.streamer_engine import RowPlan

    home = Path.home() / ".m2" / "repository"
    jars = [home / group / name / version / f"{name}-{version}.jar" for group, name, version in _JARS]
    if missing := [jar.name for jar in jars if not jar.exists()]:
        raise SystemExit(f"part spark needs {', '.join(missing)} in the local Maven repository")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    topic, _ = fill(broker, rows)
    schema = spark_schema(to_arrow(SCHEMA))
    engine = SparkStreamerEngine(spark, StreamerConfig(target_base_path=str(folder)))

    def theirs() -> None:
        frame = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", broker.address())
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        parsed = frame.select(sf.from_json(sf.col("value").cast("string"), schema).alias("row")).select("row.*")
        parsed.write.format("noop").mode("overwrite").save()

    def ours() -> None:
        source = source_of(broker, topic)
        begun = engine.begin(batch_of(source, rows), 1)
        made = engine.rows_of(begun, RowPlan(RowCheck(), StreamerProperties()))
        made.data.write.format("noop").mode("overwrite").save()
        source.close()

    theirs()
    ours()
    return (
        timed("Spark's source and from_json", runs, lambda: None, theirs),
        timed("tasks of the streamer", runs, lambda: None, ours),
    )


def main() -> None:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="start,empty,continuous,rounds,memory")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        properties, path = arguments.child
        HoodieStreamer(flags(Path(path), op="BULK_INSERT"), properties=json.loads(properties)).sync()
        print(peak_bytes("self"))
        return
    parts = set(arguments.parts.split(","))
    if unknown := parts - set(PARTS):
        raise SystemExit(f"unknown parts {', '.join(sorted(unknown))}: give some of {', '.join(PARTS)}")
    machine = describe_machine("confluent-kafka", "pyarrow")
    print(machine)
    timings: list[Timing] = []

    def show(timing: Timing, other: Timing | None = None) -> None:
        timings.append(timing)
        print(timing.line(other), flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "start" in parts:
            show(start(folder, arguments.runs))
        if parts & {"empty", "rounds"}:
            first, later, last, empty = rounds(folder, 520 if "rounds" in parts else 80)
            if "rounds" in parts:
                show(first)
                show(later, first)
                show(last, later)
            print(f"empty rounds: {statistics.median(empty.seconds) * 1000:.1f} ms")
            timings.append(empty)
        if not parts & {"continuous", "memory", "spark"}:
            print(describe_load())
            return
        with running_kafka() as broker:
            if "continuous" in parts:
                in_memory, from_topic = continuous(broker, folder, arguments.rows, arguments.runs)
                show(in_memory)
                show(from_topic, in_memory)
            if "memory" in parts:
                (few, small), (many, large) = memory(broker, folder, arguments.rows)
                peaks = f"{small / 2**20:.0f} MB for {few} messages, {large / 2**20:.0f} MB for {many}"
                print(f"peak memory: {peaks}: {large / small:.2f} times")
            if "spark" in parts:
                theirs, ours = spark_parts(broker, folder, arguments.rows, arguments.runs)
                show(theirs)
                show(ours, theirs)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows}, timings)


if __name__ == "__main__":
    main()
