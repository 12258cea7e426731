"""What a metadata table costs each local commit, in turn with and without one.

Beside the time it prints the CPU time of the process, which says more on a busy machine, and how often a file or folder
is flushed to the disk.

python -m benchmarks.metadata_commits --commits 30 --version 9
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig

PARTITIONS = {
    "none": {"hoodie.metadata.enable": "false"},
    "files": {"hoodie.metadata.enable": "true"},
    "files and column_stats": {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"},
}


def main() -> None:
    """Print the median time of a commit of one row for each kind of metadata table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=30, help="measured ones, after as many others")
    parser.add_argument("--version", type=int, default=9, choices=(6, 8, 9))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clients = {}
        for name, options in PARTITIONS.items():
            path = str(Path(folder, name.replace(" ", "_")))
            HoodieTableMetaClient.init_table(
                path, table_name="t", record_key_fields="id", partition_fields="day", ordering_fields="ts",
                table_version=arguments.version,
            )  # fmt: skip
            clients[name] = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, options))
        flushed, flush = [0], os.fsync

        def counted_flush(descriptor: int) -> None:
            flushed[0] += 1
            flush(descriptor)

        os.fsync = counted_flush
        taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in clients}
        for number in range(2 * arguments.commits):
            row = pa.table({"id": [f"k{number % 7}"], "day": ["a"], "ts": [number], "v": [number * 1.5]})
            for name, client in clients.items():
                started = time.perf_counter(), time.process_time(), flushed[0]
                client.upsert(row)
                ended = time.perf_counter(), time.process_time(), flushed[0]
                if number >= arguments.commits:
                    taken[name].append(
                        ((ended[0] - started[0]) * 1000, (ended[1] - started[1]) * 1000, ended[2] - started[2])
                    )
        base = [statistics.median(column) for column in zip(*taken["none"], strict=True)]
        for name, rows in taken.items():
            time_ms, cpu_ms, count = (statistics.median(column) for column in zip(*rows, strict=True))
            print(
                f"{name:24} {time_ms:6.1f} ms a commit, {time_ms - base[0]:+6.1f} ms; "
                f"CPU {cpu_ms:6.1f} ms, {cpu_ms - base[1]:+6.1f} ms; {count:.0f} flushes"
            )
        for client in clients.values():
            client.close()


if __name__ == "__main__":
    main()
