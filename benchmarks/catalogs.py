"""The time of catalog syncs of a table with many partitions: the first, one without a change, one after a commit.

    python -m benchmarks.catalogs [--partitions 10000] [--real-partitions 1000] [--touched 10] [--runs 3]
                                  [--catalogs fake,glue,hive] [--json FILE]

``fake`` is `tests.support.fake_metastore`, ``glue`` is moto's server: both run in this process, whose time they share,
so their figures say how much hoodie does beside a catalog that is at hand. ``hive`` is a real Hive Metastore on Derby,
with ``--real-partitions``, and beside hoodie the ``HiveSyncTool`` of Hudi 1.2.0, which syncs the same table in the same
run; it needs what ``make interop`` brings. Both are warm: one sync of a small table comes first.

Each run has an entry of its own. The commit touches ``--touched`` partitions, half of them new.
"""

from __future__ import annotations

import argparse
import gc
import logging
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from benchmarks.measure import Timing, describe_load, describe_machine, timing, write_json

_SYNC = "hoodie.datasource.hive_sync."
_WRITE = {
    # 10,000 files need no filter of 434 kB each.
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
    "hoodie.index.type": "SIMPLE",
}
_STEPS = ("first sync", "without a change", "after a commit")


def _rows(numbers: Sequence[int], ordering_value: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"key-{number:06}" for number in numbers],
            "part": [f"p{number:06}" for number in numbers],
            "ts": pa.array([ordering_value] * len(numbers), pa.int64()),
            "fare": pa.array([1.0] * len(numbers), pa.float64()),
        }
    )


def make_table(path: str, partitions: int) -> hoodie.Table:
    """A table with one row in each partition."""
    hoodie.Table.create(
        path, _rows(range(partitions), 1), table_name="trips", record_key_fields="id", partition_fields="part",
        ordering_fields="ts", properties=_WRITE,
    )  # fmt: skip
    return hoodie.Table(path, properties=_WRITE)


def touch(table: hoodie.Table, partitions: int, touched: int) -> None:
    """Write to some partitions, half of them new."""
    begin = partitions - (touched - touched // 2)
    table.upsert(_rows(range(begin, begin + touched), 2))


@contextmanager
def fake() -> Iterator[tuple[dict[str, Any], Callable[[], int]]]:
    """The options of the metastore in memory, and the number of its calls."""
    from tests.support.fake_metastore import FakeMetastore

    with FakeMetastore(makes_folders=False) as metastore:
        yield (
            {f"{_SYNC}mode": "hms", f"{_SYNC}metastore.uris": metastore.uri},
            lambda: len(metastore.calls),
        )


@contextmanager
def glue() -> Iterator[tuple[dict[str, Any], Callable[[], int]]]:
    """The options of moto's Glue, and the number of its calls, which is not known."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield (
            {
                f"{_SYNC}mode": "glue",
                "hoodie.aws.glue.endpoint": f"http://{host}:{port}",
                "hoodie.aws.glue.region": "eu-west-1",
                "hoodie.aws.access.key": "any",
                "hoodie.aws.secret.key": "any",
            },
            lambda: 0,
        )
    finally:
        server.stop()


def measure_sides(
    sides: dict[str, Callable[[str], object]], runs: int, commit: Callable[[], None], calls: Callable[[], int]
) -> list[list[Timing]]:
    """The three steps of each side, one after the other, on the same table."""
    seconds: dict[tuple[str, str], list[float]] = {(title, step): [] for title in sides for step in _STEPS}

    def step(number: int, name: str) -> None:
        for title, sync in sides.items():
            gc.collect()
            before = calls()
            one = timing(name, 1, lambda sync=sync: sync(f"trips{number}"))  # type: ignore[misc]
            seconds[title, name] += one.seconds
            if number == 0 and calls() != before:
                print(f"{title}, {name}: {calls() - before} calls", flush=True)

    for number in range(runs):
        step(number, _STEPS[0])
        step(number, _STEPS[1])
    commit()
    for number in range(runs):
        step(number, _STEPS[2])
    return [[Timing(f"{title}: {name}", seconds[title, name]) for name in _STEPS] for title in sides]


def measure_fake(
    title: str,
    open_catalog: Callable[[], Any],
    folder: str,
    partitions: int,
    touched: int,
    runs: int,
) -> list[list[Timing]]:
    """A catalog in this process."""
    path = f"{folder}/{title.replace(' ', '_')}"
    table = make_table(path, partitions)
    with open_catalog() as (properties, calls):

        def sync(name: str) -> object:
            return hoodie.sync_table(path, properties={**properties, f"{_SYNC}table": name})

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = measure_sides({title: sync}, runs, lambda: touch(table, partitions, touched), calls)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{title}: {(after - before) / 1024:.0f} MB more at the peak, the catalog's own memory with it", flush=True
        )
    shutil.rmtree(path)
    return found


def measure_hive(folder: str, partitions: int, touched: int, runs: int) -> list[list[Timing]]:
    """A real Hive Metastore: hoodie beside HiveSyncTool; nothing where that is not there."""
    from tests.interop.hive_metastore import HiveMetastore
    from tests.interop.hudi_process import HudiNotFoundError, HudiProcess

    path, small = f"{folder}/hive", f"{folder}/small"
    work = Path(folder, "work")
    for name in ("metastore", "hudi"):
        (work / name).mkdir(parents=True)
    try:
        hudi = HudiProcess("1.2.0", work / "hudi")
        metastore = HiveMetastore(work / "metastore")
    except HudiNotFoundError as error:
        print(f"no real metastore: {error}")
        return []
    table = make_table(path, partitions)
    make_table(small, 2)
    try:
        with metastore:
            given = {
                f"{_SYNC}partition_fields": "part",
                f"{_SYNC}partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
            }

            def ours(name: str, of: str = path) -> object:
                properties = {**given, f"{_SYNC}metastore.uris": metastore.uri}
                properties |= {f"{_SYNC}database": "ours", f"{_SYNC}table": name}
                return hoodie.sync_table(of, "hms", properties=properties)

            def theirs(name: str, of: str = path) -> object:
                hudi.hive_sync(of, metastore.uri, {**given, f"{_SYNC}database": "theirs", f"{_SYNC}table": name})
                return None

            # Both make their databases and load their classes.
            ours("small", small)
            theirs("small", small)
            sides: dict[str, Callable[[str], object]] = {"hoodie": ours, "HiveSyncTool": theirs}
            return measure_sides(sides, runs, lambda: touch(table, partitions, touched), lambda: 0)
    finally:
        hudi.stop()


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--real-partitions", type=int, default=1000)
    parser.add_argument("--touched", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--catalogs", default="fake,glue,hive")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    machine = describe_machine("thriftpy2", "boto3", "moto")
    print(machine, flush=True)
    catalogs = arguments.catalogs.split(",")
    found: list[list[Timing]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, title, open_catalog in (("fake", "in memory", fake), ("glue", "Glue of moto", glue)):
            if name in catalogs:
                found += measure_fake(
                    title, open_catalog, folder, arguments.partitions, arguments.touched, arguments.runs
                )
        if "hive" in catalogs:
            found += measure_hive(folder, arguments.real_partitions, arguments.touched, arguments.runs)
    print(describe_load())
    print(
        f"{arguments.partitions} partitions ({arguments.real_partitions} in the real metastore), {arguments.touched} "
        "touched by the commit"
    )
    for timings in found:
        for number, one in enumerate(timings):
            is_beside = timings is not found[-1] or "HiveSyncTool" not in one.name
            print(one.line(None if is_beside else found[-2][number]))
    if arguments.json:
        sizes = {
            "partitions": arguments.partitions,
            "real_partitions": arguments.real_partitions,
            "touched": arguments.touched,
        }
        write_json(arguments.json, machine, sizes, [one for timings in found for one in timings])


if __name__ == "__main__":
    main()
