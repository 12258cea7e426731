"""Compare `hoodie.Table.merge` with an upsert of the same rows: 100k rows, half of them new, into 1M.

    python -m benchmarks.local_merge [--rows 1000000] [--runs 5] [--peers deltalake]

Upsert and merges start from copies of one table, and take turns. CPU seconds count: elapsed times depend on what else
the machine does. `update_all` is the work of the upsert: the merge looks which keys are stored, and reads no stored
values. The other merges need stored values: they read the stored rows of the source's keys before they write.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec

import pyarrow as pa

import hoodie
from benchmarks.local_upsert import make_table
from benchmarks.measure import copy, describe_load, describe_machine, fresh, trip_updates, trips

Merge = Callable[[hoodie.Table, pa.Table], object]
MERGES: dict[str, Merge] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "merge: update_all, insert_all": lambda table, rows: (
        table.merge(rows).when_matched().update_all().when_not_matched().insert_all().run()
    ),
    "merge: update one column, insert_all": lambda table, rows: (
        table.merge(rows).when_matched().update(["fare"]).when_not_matched().insert_all().run()
    ),
    "merge: a condition on both sides, delete, insert": lambda table, rows: (
        table.merge(rows)
        .when_matched("s.fare < 0.1").delete()
        .when_matched("s.ts > t.ts").update_all()
        .when_not_matched().insert_all()
        .run()
    ),
}  # fmt: skip


def delta_merge(path: str, rows: pa.Table) -> None:
    """deltalake: the same as `update_all, insert_all`, without an ordering field."""
    from deltalake import DeltaTable  # a peer, not a dependency

    merger = DeltaTable(path).merge(
        rows, "s.uuid = t.uuid and s.partitionpath = t.partitionpath", source_alias="s", target_alias="t"
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def main() -> None:
    """Print medians, and their ratios to the upsert."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", default="deltalake")
    arguments = parser.parse_args()
    print(describe_machine())
    table = trips(arguments.rows)
    incoming = trip_updates(table, arguments.rows // 20, arguments.rows // 20)
    with tempfile.TemporaryDirectory() as folder:
        base = make_table(f"{folder}/base")
        hoodie.Table(base).bulk_insert(table)
        calls: dict[str, tuple[str, Callable[[str], object]]] = {
            name: (base, lambda path, merge=merge: merge(hoodie.Table(path), incoming))  # type: ignore[misc]
            for name, merge in MERGES.items()
        }
        if "deltalake" in arguments.peers.split(",") and find_spec("deltalake") is not None:
            from deltalake import write_deltalake  # a peer, not a dependency

            write_deltalake(f"{folder}/delta", table, partition_by=["partitionpath"])
            calls["deltalake: update_all, insert_all"] = f"{folder}/delta", lambda path: delta_merge(path, incoming)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for run in range(arguments.runs + 1):
            for name, (start, call) in calls.items():
                path = f"{folder}/copy"
                fresh(path)
                copy(start, path)
                cpu, clock = time.process_time(), time.perf_counter()
                call(path)
                if run:
                    taken[name].append((time.process_time() - cpu, time.perf_counter() - clock))
    upsert = statistics.median(cpu for cpu, _ in taken["upsert"])
    print(f"{'':50}{'CPU s':>8}{'s':>8}{'of the upsert':>16}")
    for name, times in taken.items():
        cpu, clock = (statistics.median(values) for values in zip(*times, strict=True))
        print(f"{name:50}{cpu:8.2f}{clock:8.2f}{cpu / upsert:16.2f}")
    print(describe_load())


if __name__ == "__main__":
    main()
