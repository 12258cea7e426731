"""Keys in a database: look up and add 100k keys in an index of 1M, in SQLite and in PostgreSQL.

    python -m benchmarks.database_index [--rows 1000000] [--keys 100000] [--runs 3]

PostgreSQL is started in a temporary folder if it is installed. Keys are random (UUIDs), the worst case for a tree. CPU
seconds are those of this process, without those of PostgreSQL.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow as pa

from benchmarks.measure import describe_load, describe_machine
from hoodie import HoodieWriteConfig
from hoodie.index.external.database_index import HoodieDatabaseIndex
from hoodie.index.external.location_store import LocationStore, claimed_keys
from tests.support.postgres_server import find_postgres, running_postgres

GROUPS = 8
INDEX = "hoodie.index.external.database_index.HoodieDatabaseIndex"


def timed(name: str, work: Callable[[], object]) -> None:
    """Print the time of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(f"  {name:<45} {time.perf_counter() - wall:6.2f} s  {time.process_time() - cpu:6.2f} s CPU here")


def some_keys(count: int) -> pa.Array:
    """Random keys."""
    return pa.array([str(uuid.uuid4()) for _ in range(count)])


def measure(store: LocationStore, rows: int, count: int, runs: int) -> None:
    """Fill a store, look up keys, and add keys."""
    store.create()
    groups = [g.number for g in store.add_groups([("p", f"f{n}") for n in range(GROUPS)], "1").values()]
    stored = some_keys(rows)
    parts = [stored.slice(n * rows // GROUPS, rows // GROUPS) for n in range(GROUPS)]

    def fill() -> None:
        for number, part in zip(groups, parts, strict=True):
            store.add_keys(number, claimed_keys(part))

    timed(f"fill with {rows:,} keys", fill)
    for _ in range(runs):
        known = stored.take(pa.array(range(0, rows, rows // count))[:count])
        unknown = some_keys(count)
        timed(f"look {count:,} up that are there", lambda keys=known: store.find(claimed_keys(keys)))
        timed(f"look {count:,} up that are not there", lambda keys=unknown: store.find(claimed_keys(keys)))
        timed(f"add {count:,} new ones", lambda keys=unknown: store.add_keys(groups[0], claimed_keys(keys)))
        timed(f"add {count:,} that are there", lambda keys=unknown: store.add_keys(groups[0], claimed_keys(keys)))
    timed("drop a group of all keys", lambda: store.drop_groups(groups[:1]))


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(describe_machine())
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"SQLite": f"sqlite://{folder}/keys.sqlite"}
        programs = find_postgres()
        if programs is not None:
            urls["PostgreSQL"] = stack.enter_context(running_postgres(programs))
        for name, url in urls.items():
            properties = {"hoodie.index.class": INDEX, "hoodie.index.database.url": url}
            index = HoodieDatabaseIndex(HoodieWriteConfig.from_properties(folder, properties))
            print(name)
            with index.store_factory().open() as store:
                measure(store, arguments.rows, arguments.keys, arguments.runs)
    print(describe_load())


if __name__ == "__main__":
    main()
