"""Rows a second from a topic of JSON messages into a table, beside one bare Parquet file.

    .ci/fetch_kafka
    python -m benchmarks.kafka_source [--rows 1000000] [--runs 3] [--json FILE]

A Kafka broker of its own, with a topic of 4 partitions; messages of 280 bytes with 10 fields. The peer consumes with
confluent-kafka, decodes each block with Arrow's JSON reader and writes one Parquet file: no table, no keys, no look at
bad messages. hoodie reads with `JsonKafkaSource` and writes with ``bulk_insert``, without a partition column. All of it
runs in this process. The three take turns, so other work on the machine slows all of them down.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.measure import Timing, describe_load, describe_machine, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.schema_converters import to_arrow
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.json_kafka_source import JsonKafkaSource
from hoodie.utilities.sources.source import InputBatch, SourceContext
from hoodie.utilities.streamer.local_engine import DecodingThread
from tests.support.kafka_broker import KafkaBroker, running_kafka
from tests.support.kafka_sources import GivenSchema

PARTITIONS = 4
_FIELDS = {
    "uuid": "string", "ts": "long", "rider": "string", "driver": "string", "begin_lat": "double", "begin_lon": "double",
    "end_lat": "double", "end_lon": "double", "fare": "double", "city": "string",
}  # fmt: skip
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in _FIELDS.items()],
    }
)
CITIES = ("americas/brazil/sao_paulo", "americas/united_states/san_francisco", "asia/india/chennai")


def messages(count: int) -> Iterator[bytes]:
    """Trips as JSON."""
    rng = np.random.default_rng(5)
    for first in range(0, count, 10_000):
        numbers = rng.random((10_000, 5)).tolist()
        for number, values in enumerate(numbers[: count - first], first):
            lat, lon, end_lat, end_lon, fare = values
            yield json.dumps(
                {
                    "uuid": f"{number:032x}", "ts": 1_700_000_000_000 + number, "rider": f"rider-{number % 1000:06d}",
                    "driver": f"driver-{number % 777:06d}", "begin_lat": lat, "begin_lon": lon, "end_lat": end_lat,
                    "end_lon": end_lon, "fare": round(fare * 100, 2), "city": CITIES[number % 3],
                },
                separators=(",", ":"),
            ).encode()  # fmt: skip


def fill(broker: KafkaBroker, count: int) -> tuple[str, float]:
    """A topic with trips, and the bytes of a message."""
    topic, total = broker.topic(PARTITIONS), 0
    producer = broker.producer(batch_num_messages=10_000)
    for number, value in enumerate(messages(count)):
        total += len(value)
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 10_000 == 9_999:
            producer.poll(0)
    producer.flush()
    return topic, total / count


def bare(broker: KafkaBroker, topic: str, count: int, path: Path) -> None:
    """Consume all messages, decode them, and write one Parquet file."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address(), "group.id": "bare", "enable.auto.commit": False,
            "fetch.wait.max.ms": 10, "queued.max.messages.kbytes": 65536, "fetch.queue.backoff.ms": 10,
        }
    )  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    schema, left = to_arrow(SCHEMA), count
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while left:
            found = consumer.consume(min(20_000, left), 0.2)
            values = [message.value() for message in found]
            if not values:
                continue
            block = b"\n".join(values)
            table = pyarrow.json.read_json(
                pa.BufferReader(block),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=options,
            )
            writer.write_table(table)
            left -= len(values)
    consumer.close()


def source_of(broker: KafkaBroker, topic: str) -> JsonKafkaSource:
    """A source of all messages."""
    properties = {
        "bootstrap.servers": broker.address(), "auto.offset.reset": "earliest",
        "hoodie.streamer.source.kafka.topic": topic,
    }  # fmt: skip
    return JsonKafkaSource(SourceContext(StreamerProperties(properties), GivenSchema(SCHEMA)))


def batch_of(source: JsonKafkaSource, count: int) -> InputBatch:
    """All messages as one round."""
    batch = source.fetch(None, count)
    assert batch.rows == count
    return batch


def decode(broker: KafkaBroker, topic: str, count: int) -> None:
    """Read and decode all messages, and write nothing."""
    source = source_of(broker, topic)
    rows = sum(one.rows.num_rows for read in batch_of(source, count).reads for one in read.batches())
    assert rows == count
    source.close()


def load(broker: KafkaBroker, topic: str, count: int, base_path: Path) -> Any:
    """Load all messages into a new table, as the streamer does in this process."""
    source = source_of(broker, topic)
    batch = batch_of(source, count)
    begun = DecodingThread(batch, 64 * 1024 * 1024)
    rows = pa.RecordBatchReader.from_batches(batch.schema, (one.rows for one in begun))
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path), {})) as client:
        result = client.bulk_insert(rows)
    begun.close()
    source.close()
    return result


def make_table(base_path: Path) -> None:
    """An empty table, without partitions."""
    shutil.rmtree(base_path, ignore_errors=True)
    HoodieTableMetaClient.init_table(
        str(base_path), table_name="trips", record_key_fields=["uuid"], ordering_fields=["ts"]
    )


def in_turns(steps: Sequence[tuple[str, Callable[[], object], Callable[[], object]]], runs: int) -> Sequence[Timing]:
    """The timings of steps that take turns, so that other work on the machine slows all of them down alike.

    The processor time is that of this process, without the broker's.

    Args:
        steps: The name of each, what prepares it, and what is timed.
        runs: The number of turns.
    """
    found = [Timing(name, []) for name, _, _ in steps]
    for _ in range(runs):
        for timing, (_, prepare, run) in zip(found, steps, strict=True):
            prepare()
            begun, begun_cpu = time.perf_counter(), time.process_time()
            run()
            timing.seconds.append(time.perf_counter() - begun)
            timing.cpu.append(time.process_time() - begun_cpu)
    return found


def main() -> None:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    with running_kafka() as broker, tempfile.TemporaryDirectory() as folder:
        topic, size = fill(broker, arguments.rows)
        machine = describe_machine("confluent-kafka", "pyarrow")
        print(machine)
        print(f"{arguments.rows} messages of {size:.0f} bytes in {PARTITIONS} partitions")
        path, base = Path(folder) / "bare.parquet", Path(folder) / "trips"
        steps: Sequence[tuple[str, Callable[[], object], Callable[[], object]]] = (
            (
                "one bare Parquet file",
                lambda: path.unlink(missing_ok=True),
                lambda: bare(broker, topic, arguments.rows, path),
            ),
            ("read and decode", lambda: None, lambda: decode(broker, topic, arguments.rows)),
            ("bulk_insert", lambda: make_table(base), lambda: load(broker, topic, arguments.rows, base)),
        )
        timings = in_turns(steps, arguments.runs)
        for timing in timings:
            floor = None if timing is timings[0] else timings[0]
            print(f"{timing.line(floor)}   {arguments.rows / timing.median:,.0f} messages a second", flush=True)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "message_bytes": round(size)}, timings)


if __name__ == "__main__":
    main()
