"""What each index reads, and its cost of finding keys, for growing and for random keys.

    python -m benchmarks.indexes [--rows 1000000] [--json FILE]

A table of one partition with 32 file groups gets an upsert of 1% of its rows, half of them new. The updates are of the
newest of the growing keys, or of any of the random keys. `explain_upsert` counts the work of the index, which does not
depend on the machine; CPU seconds include all threads. Each index has its own client, which did an upsert before, so
that its caches are filled.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import copy, describe_load, describe_machine
from benchmarks.scaling import make_table, rows
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext

FILES = 32
DATABASE = "hoodie.index.external.database_index.HoodieDatabaseIndex"
INDEXES: dict[str, dict[str, Any]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "SQLite": {"hoodie.index.class": DATABASE},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": FILES},
}


def shuffled(table: pa.Table) -> pa.Table:
    """The same rows with keys in no order: each growing key is replaced by a random one."""
    numbers = table["uuid"].cast(pa.int64()).to_numpy().astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return table.set_column(0, "uuid", pa.array([f"{number:016x}" for number in mixed.tolist()]))


def client(path: str, properties: dict[str, Any], parallelism: int | None = None) -> HoodieLocalWriteClient:
    """A client with an index; it does not fill small files."""
    config = HoodieWriteConfig.from_properties(path, {"hoodie.parquet.small.file.limit": 0, **properties})
    return HoodieLocalWriteClient(config, LocalEngineContext(parallelism))


def measure(path: str, properties: dict[str, Any], warm: pa.Table, incoming: pa.Table) -> dict[str, Any]:
    """Plan and run an upsert; an upsert before it fills the client's caches."""
    with client(path, properties) as writer:
        writer.upsert(warm)
        plan = writer.explain_upsert(incoming)
        started = time.process_time()
        writer.explain_upsert(incoming)
        planning = time.process_time() - started
        started = time.process_time()
        writer.upsert(incoming)
        whole = time.process_time() - started
    report = plan.index_report
    return {
        "judged": len(report.file_groups), "footers": report.footers_read, "filters": report.filters_read,
        "files": report.files_read, "rewritten": len(plan.rewritten), "rewritten_mb": plan.bytes_to_rewrite / 1e6,
        "planning_cpu": planning, "upsert_cpu": whole,
    }  # fmt: skip


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    count, some = arguments.rows, arguments.rows // 200
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    figures: dict[str, Any] = {"machine": machine, "rows": count}
    rng = np.random.default_rng(1)
    for shape in ("growing", "random"):
        stored = rows(0, count, seed=1)
        new = rows(count, 2 * some, seed=2, ordering_value=10**6)
        old = (
            stored.slice(count - some) if shape == "growing" else stored.take(pa.array(rng.choice(count, some, False)))
        )
        tables = [stored, pa.concat_tables([old, new.slice(0, some)]), pa.concat_tables([old, new.slice(some)])]
        if shape == "random":
            tables = [shuffled(table) for table in tables]
        print(f"{shape} keys: upsert of {2 * some:,} rows (half new) into {count:,} rows in {FILES} file groups")
        with tempfile.TemporaryDirectory() as folder:
            loaded: dict[str, str] = {}
            for name, properties in INDEXES.items():
                kind = name if name in ("BUCKET", "SQLite") else "files"
                if kind not in loaded:
                    path = loaded[kind] = f"{folder}/{kind}"
                    make_table(path)
                    sort = {} if kind == "BUCKET" else {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
                    if shape == "random" and kind != "BUCKET":
                        sort = {}
                    with client(path, {**properties, **sort}, FILES) as writer:
                        writer.bulk_insert(tables[0])
                run = copy(loaded[kind], f"{folder}/run")
                figure = measure(run, properties, tables[1], tables[2])
                figures[f"{shape} {name}"] = figure
                print(
                    f"  {name:<14} judged {figure['judged']:>3}, footers {figure['footers']:>3}, "
                    f"filters {figure['filters']:>3}, files read {figure['files']:>3}, "
                    f"rewritten {figure['rewritten']:>3} ({figure['rewritten_mb']:.0f} MB), "
                    f"CPU of the plan {figure['planning_cpu']:.2f} s, of the upsert {figure['upsert_cpu']:.2f} s",
                    flush=True,
                )
                shutil.rmtree(run)
    print(describe_load())
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
