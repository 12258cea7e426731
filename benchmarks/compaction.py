"""Time and peak memory of a compaction of tables of 1 and 4 times a size, in-process.

    python -m benchmarks.compaction [--rows 1000000] [--factors 1,4] [--share 0.1] [--runs 3] [--format avro]

A table holds ``rows * factor`` trips in file groups of one size; a share of them is updated in each of two delta
commits. Each compaction runs on a copy of its table, in a process of its own. The targets: n times the rows take n
times the time, and the peak of memory does not grow with the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import Timing, copy, describe_load, describe_machine, trip_updates, trips, write_json
from benchmarks.memory import peak_bytes
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig

ALLOWED_GROWTH = 1.1
DELTA_COMMITS = 2
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def make_table(path: str, rows: int, file_bytes: int, share: float, block_format: str) -> None:
    """A merge-on-read table whose file groups have log files."""
    HoodieTableMetaClient.init_table(
        path, table_name="trips", record_key_fields=["uuid"], partition_fields=["partitionpath"],
        ordering_fields=["ts"], table_type="MERGE_ON_READ",
    )  # fmt: skip
    properties = {
        **OFF,
        "hoodie.parquet.max.file.size": file_bytes,
        "hoodie.parquet.small.file.limit": 0,
        "hoodie.logfile.data.block.format": block_format,
    }
    table = trips(rows).combine_chunks()
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties)) as client:
        client.bulk_insert(table)
        for seed in range(DELTA_COMMITS):
            client.upsert(trip_updates(table, int(rows * share), seed))


def compact(path: str) -> None:
    """The measured process: compact, and print what it took."""
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, OFF)) as client:
        before = peak_bytes("self")
        started, cpu_started = time.perf_counter(), time.process_time()
        result = client.compact()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    assert result is not None
    found = {
        "seconds": seconds, "cpu": cpu, "before": before, "peak": peak_bytes("self"), "files": len(result),
        "rows": result.commit_metadata.total_records_written,
    }  # fmt: skip
    print(json.dumps(found), flush=True)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--factors", default="1,4")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--file-mb", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", default="avro", choices=["avro", "parquet"])
    parser.add_argument("--json")
    parser.add_argument("--compact", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compact:
        compact(arguments.compact)
        return
    factors = [int(factor) for factor in arguments.factors.split(",")]
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    timings, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        for factor in factors:
            path = f"{folder}/table_{factor}"
            make_table(path, arguments.rows * factor, arguments.file_mb << 20, arguments.share, arguments.format)
            runs = []
            for number in range(arguments.runs):
                target = copy(path, f"{folder}/run_{factor}_{number}")
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.compaction", "--compact", target],
                    check=True, stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                runs.append(json.loads(done.stdout.splitlines()[-1]))
            timing = Timing(
                f"{runs[0]['rows']} rows, {runs[0]['files']} file groups",
                [run["seconds"] for run in runs], cpu=[run["cpu"] for run in runs],
            )  # fmt: skip
            timings.append(timing)
            peaks.append(statistics.median(run["peak"] for run in runs))
            print(timing.line(timings[0]), f"  peak {peaks[-1] / 2**20:.0f} MiB")
    for factor, timing, peak in zip(factors, timings, peaks, strict=True):
        print(
            f"{factor / factors[0]:.0f} times the rows: {timing.median / timings[0].median:.2f} times the time, "
            f"{peak / peaks[0]:.2f} times the peak (target: at most {ALLOWED_GROWTH})"
        )
    print(describe_load())
    if arguments.json:
        sizes = {"rows": arguments.rows, "factors": arguments.factors, "share": arguments.share}
        write_json(arguments.json, machine, sizes, timings)


if __name__ == "__main__":
    main()
