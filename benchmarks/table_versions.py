"""What a commit costs on tables of version 6 and 9: the same upserts, in turn.

    python -m benchmarks.table_versions [--rows 10000] [--updated 100] [--runs 60] [--json FILE]

Each upsert changes ``--updated`` of ``--rows`` rows in 4 partitions, in-process. Cleaning and archiving run after each
commit, with their defaults, so that the timelines are as long as in use: 20 to 30 commits.

upsert        From the call to its return, services included.
start         Of it: taking the instant time, with failed writes rolled back before.
complete      Of it: completing the instant.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import Timing, describe_load, describe_machine, write_json
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig

VERSIONS = (6, 9)
STEPS = {"start": "create the instant", "complete": "complete the instant"}
WARM_UP = 35
"""Commits that are not measured: then the timeline has been archived, and its length stays."""


def rows(first: int, count: int, ts: int) -> pa.Table:
    """Some rows, spread over 4 partitions."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{number:08}" for number in numbers],
            "region": [f"r{number % 4}" for number in numbers],
            "ts": pa.array([ts] * count, pa.int64()),
            "fare": [number / 7 for number in numbers],
        }
    )


def open_client(folder: str, version: int) -> HoodieLocalWriteClient:
    """A client of a new table."""
    path = str(Path(folder, f"v{version}"))
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="region", ordering_fields="ts",
        table_version=version,
    )  # fmt: skip
    # Tables of version 9 are made with a metadata table, whose cost `benchmarks.metadata_commits` tells.
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {"hoodie.metadata.enable": "false"}))


def measure(row_count: int, updated: int, runs: int) -> dict[str, dict[int, list[float]]]:
    """Seconds of each measured part, by version."""
    taken: dict[str, dict[int, list[float]]] = {part: {6: [], 9: []} for part in ("upsert", *STEPS)}
    with tempfile.TemporaryDirectory() as folder:
        clients = {version: open_client(folder, version) for version in VERSIONS}
        for client in clients.values():
            client.upsert(rows(0, row_count, 0))
        for run in range(WARM_UP + runs):
            batch = rows(run * updated % (row_count - updated), updated, run + 1)
            for version in VERSIONS if run % 2 else VERSIONS[::-1]:
                started = time.perf_counter()
                result = clients[version].upsert(batch)
                elapsed = time.perf_counter() - started
                assert result.service_errors == ()
                if run < WARM_UP:
                    continue
                taken["upsert"][version].append(elapsed)
                for part, name in STEPS.items():
                    taken[part][version].append(sum(step.seconds for step in result.steps if step.name == name))
        for client in clients.values():
            client.close()
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--updated", type=int, default=100)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--json", help="write the figures to this file")
    arguments = parser.parse_args()
    machine = describe_machine("pyarrow")
    print(machine)
    taken = measure(arguments.rows, arguments.updated, arguments.runs)
    print(f"medians of {arguments.runs} upserts of {arguments.updated} of {arguments.rows:,} rows")
    print(f"{'part':<10} {'version 6':>12} {'version 9':>12} {'ratio':>7}")
    timings = []
    for part, by in taken.items():
        before, now = (Timing(f"version {version}: {part}", by[version]) for version in VERSIONS)
        ratio = now.median / before.median
        print(f"{part:<10} {before.median * 1000:>9.1f} ms {now.median * 1000:>9.1f} ms {ratio:>7.2f}")
        timings += [before, now]
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "updated": arguments.updated}, timings)


if __name__ == "__main__":
    main()
