"""In-process reads of a Hudi table beside bare pyarrow on the same files, and hudi-rs where it is installed.

    python -m benchmarks.local_read [--rows 1000000] [--runs 5] [--json FILE]

The table is bulk-inserted and then upserted once, so that file groups have two versions. The floor reads the latest
files, by their names, with pyarrow's dataset and the same columns and filter: it lists nothing and knows no timeline.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import hoodie
from benchmarks.local_upsert import client, make_table
from benchmarks.measure import Timing, describe_machine, trip_updates, trips, write_json


@attrs.frozen
class Read:
    """What is read.

    Attributes:
        name: In the figures.
        columns: Of the user; all by default.
        filters: Column, operator, value.
    """

    name: str
    columns: list[str]
    filters: list[tuple[str, str, object]] | None = None

    @property
    def expression(self) -> pc.Expression | None:
        """The filter for pyarrow; it compares by equality only."""
        return None if self.filters is None else pc.field(self.filters[0][0]) == self.filters[0][2]


def measured(name: str, runs: int, read: Callable[[], pa.Table], row_count: int) -> Timing:
    """Wall clock and CPU of a read, which must give the rows that are there."""
    seconds, cpu = [], []
    for _ in range(runs):
        started, used = time.perf_counter(), time.process_time()
        found = read().num_rows
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
        if found != row_count:
            raise ValueError(f"{name} read {found} rows, {row_count} are there")
    return Timing(name, seconds, cpu=cpu)


def hudi_rs(base_path: str) -> pa.Table:
    """The whole table by hudi-rs, with Hudi's columns."""
    from hudi import HudiTableBuilder  # a peer, not a dependency

    return pa.Table.from_batches(HudiTableBuilder.from_base_uri(base_path).build().read())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    table = trips(arguments.rows).combine_chunks()
    partition, key = table["partitionpath"][0].as_py(), table["uuid"][0].as_py()
    reads = [
        Read("all columns", table.column_names),
        Read("two columns", ["uuid", "fare"]),
        Read("one partition", table.column_names, [("partitionpath", "==", partition)]),
        Read("one key", table.column_names, [("uuid", "==", key)]),
    ]
    machine = describe_machine("pyarrow", "hudi")
    print(machine)
    timings: list[Timing] = []

    def show(timing: Timing, other: Timing | None = None) -> None:
        timings.append(timing)
        print(timing.line(other), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        base_path = make_table(f"{folder}/trips")
        with client(base_path) as writer:
            writer.bulk_insert(table)
            writer.upsert(trip_updates(table, arguments.rows // 20, 0))
        files = hoodie.HoodieTableMetaClient.load(base_path).files()
        latest = ds.dataset([f"{base_path}/{file.partition_path}/{file.file_name}" for file in files])
        for read in reads:
            rows = latest.count_rows(filter=read.expression)
            floor = measured(
                f"pyarrow {read.name} (floor)",
                arguments.runs,
                lambda read=read: latest.to_table(columns=read.columns, filter=read.expression),
                rows,
            )
            show(floor)
            ours = measured(
                f"hoodie {read.name}",
                arguments.runs,
                lambda read=read: hoodie.read_table(base_path, columns=read.columns, filters=read.filters),
                rows,
            )
            show(ours, floor)
        if find_spec("hudi") is not None:
            show(
                measured("hudi-rs all columns", arguments.runs, lambda: hudi_rs(base_path), arguments.rows), timings[0]
            )
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "runs": arguments.runs}, timings)


if __name__ == "__main__":
    main()
