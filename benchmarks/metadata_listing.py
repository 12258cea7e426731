"""Plan queries of a table of many files: with its metadata table, and by folders and footers.

    python -m benchmarks.metadata_listing [--files 10000] [--partitions 100] [--version 9] [--latency-ms 30] ...

The files are small ones of a row each; a write of hoodie makes the metadata table, with statistics of columns. Each
plan is made from nothing: properties, timeline, listing, statistics. Queries:

all          all files
range        a range of a column, which one file in a hundred holds
partition    the same, and one partition

Calls are those of hoodie to the storage, the bytes of footers and HFiles by one call for each part that is read: on an
object store each is a request. Two times are measured: with local files, and with a wait for each call, which shows
how many of them wait for another one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hoodie
from benchmarks.measure import describe_load, describe_machine
from hoodie.metadata.reader.decoded_files import DECODED_FILES
from hoodie.storage import storage_factory
from hoodie.storage.local_storage import LocalStorage

ROWS_OF_A_VALUE = 100
QUERIES = {
    "all": None,
    "range": (pc.field("fare") >= 500.0) & (pc.field("fare") < 600.0),
    "partition": (pc.field("fare") >= 500.0) & (pc.field("fare") < 600.0) & (pc.field("city") == "city-0007"),
}
CALLS: Counter[str] = Counter()
LATENCY_SECONDS = [0.0]


def count(call: str) -> None:
    """Note a call, which takes as long as on an object store."""
    CALLS[call] += 1
    time.sleep(LATENCY_SECONDS[0])


class CountingStorage(LocalStorage):
    """Counts what would be requests of an object store."""

    __slots__ = ()

    def read(self, path: str) -> bytes:
        count("read")
        return super().read(path)

    def file_status(self, path: str) -> Any:
        count("status")
        return super().file_status(path)

    def list_directory(self, path: str) -> Any:
        count("list")
        return super().list_directory(path)

    def list_names(self, path: str) -> Any:
        count("list")
        return super().list_names(path)

    def list_files(self, path: str) -> Any:
        count("list")
        return super().list_files(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_CountingStream(super().open_input_file(path)), mode="r")


class _CountingStream:
    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        count("size of a file")

    def read(self, count: int = -1) -> bytes:
        count("range")
        return bytes(self._stream.read(count))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def build(path: str, files: int, partitions: int, version: int) -> None:
    """Write the files of one commit, and let hoodie make the metadata table."""
    given = pa.table({"id": ["first"], "city": ["city-0000"], "ts": [1], "fare": [0.5]})
    made = {"hoodie.write.table.version": version, "hoodie.metadata.enable": False}
    hoodie.write_table(
        given, path, record_key_fields="id", partition_fields="city", ordering_fields="ts", operation="bulk_insert",
        properties=made,
    )  # fmt: skip
    (first,) = Path(path).glob("city-0000/*.parquet")
    metafile = next(Path(path).glob("city-0000/.hoodie_partition_metadata"))
    instant = first.stem.rpartition("_")[2]
    stored = pq.read_table(first, partitioning=None)
    for number in range(files - 1):
        city = f"city-{number % partitions:04d}"
        folder = Path(path, city)
        if not folder.exists():
            folder.mkdir()
            (folder / metafile.name).write_bytes(metafile.read_bytes())
        name = f"{uuid.UUID(int=number)}-0_0-0-0_{instant}.parquet"
        row = {column: [value] for column, value in stored.slice(0, 1).to_pylist()[0].items()}
        row |= {"id": [f"id-{number}"], "_hoodie_record_key": [f"id-{number}"], "_hoodie_file_name": [name]}
        row |= {"city": [city], "_hoodie_partition_path": [city], "fare": [float(number // partitions * 100 + 1)]}
        pq.write_table(pa.table(row, schema=stored.schema), folder / name)
    more = {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True}
    more["hoodie.metadata.index.column.stats.column.list"] = "fare,id,ts"
    # The first write makes the metadata table, or leaves it to the next one.
    for _ in range(2):
        hoodie.write_table(given, path, operation="upsert", properties=more)


def measured(path: str, name: str, options: dict[str, Any], runs: int) -> dict[str, Any]:
    """The median seconds of a plan, and its calls to storage."""
    times = []
    for _ in range(runs):
        DECODED_FILES.clear()
        started = time.perf_counter()
        plan = hoodie.plan_read(path, filters=QUERIES[name], options=options)
        times.append(time.perf_counter() - started)
    with_counts = storage_factory._STORAGES["file"]
    storage_factory._STORAGES["file"] = CountingStorage
    CALLS.clear()
    DECODED_FILES.clear()
    try:
        started = time.perf_counter()
        plan = hoodie.plan_read(path, filters=QUERIES[name], options=options)
        waiting = time.perf_counter() - started
    finally:
        storage_factory._STORAGES["file"] = with_counts
    return {
        "seconds": statistics.median(times),
        "seconds with latency": waiting,
        "calls": dict(CALLS),
        "files read": len(plan.base_files),
    }


def main() -> int:
    """Build, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for option, default in (
        ("--files", 10_000),
        ("--partitions", 100),
        ("--runs", 5),
        ("--version", 9),
        ("--latency-ms", 30),
    ):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    LATENCY_SECONDS[0] = arguments.latency_ms / 1000
    results: dict[str, Any] = {"machine": describe_machine()}
    print(results["machine"])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trips"
        build(path, arguments.files, arguments.partitions, arguments.version)
        for name in QUERIES:
            for how, options in (("metadata table", {}), ("storage", {"hoodie.metadata.enable": False})):
                found = measured(path, name, options, arguments.runs)
                results[f"{name}, {how}"] = found
                calls = sum(found["calls"].values())
                seconds, waiting = found["seconds"], found["seconds with latency"]
                print(f"{name:10} {how:15} {seconds:7.3f} s {waiting:7.3f} s with latency {calls:6} calls", end=" ")
                print(f"{found['files read']:6} files read")
                print(f"{'':10} {found['calls']}")
    print(describe_load())
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
