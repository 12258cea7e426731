"""What a metadata table costs each local commit, in turn with and without one.

python -m benchmarks.metadata_commits --commits 30 --version 9
"""

from __future__ import annotations

import argparse
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
        taken: dict[str, list[float]] = {name: [] for name in clients}
        for number in range(2 * arguments.commits):
            row = pa.table({"id": [f"k{number % 7}"], "day": ["a"], "ts": [number], "v": [number * 1.5]})
            for name, client in clients.items():
                started = time.perf_counter()
                client.upsert(row)
                if number >= arguments.commits:
                    taken[name].append((time.perf_counter() - started) * 1000)
        base = statistics.median(taken["none"])
        for name, times in taken.items():
            median = statistics.median(times)
            print(f"{name:24} {median:6.1f} ms a commit, {median - base:+6.1f} ms")
        for client in clients.values():
            client.close()


if __name__ == "__main__":
    main()
