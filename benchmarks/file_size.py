"""The effect of ``hoodie.parquet.max.file.size``: an upsert into a table of few large or many small files.

    python -m benchmarks.file_size [--rows 1000000] [--sizes 8,16,32,64,120,250] [--runs 5] [--json FILE]

For each size (MB), ``insert`` writes an unpartitioned table. Then a tenth of its rows are upserted, half of them new,
in-process with all cores. One task merges one file: one large file keeps one core busy, several files keep all of them.
Two kinds of upserts are timed: keys from all over the table, which touch every file whatever its size, and keys of one
file only (the largest), which rewrite less if files are small.
"""

from __future__ import annotations

import argparse
import glob
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measure import (
    Timing,
    copy,
    describe_load,
    describe_machine,
    fresh,
    timed,
    trip_updates,
    trips,
    write_json,
)
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.write_result import HoodieWriteResult


def configuration(path: str, megabytes: int) -> HoodieWriteConfig:
    """Files of that size; files below five sixths of it are small, as with Hudi's defaults."""
    maximum = megabytes << 20
    return HoodieWriteConfig.from_properties(
        path,
        {"hoodie.parquet.max.file.size": maximum, "hoodie.parquet.small.file.limit": maximum * 5 // 6},
    )


def make_table(path: str) -> str:
    """An empty table of trips without partitions."""
    HoodieTableMetaClient.init_table(
        fresh(path), table_name="trips", record_key_fields=["uuid"], ordering_fields=["ts"], partition_fields=[]
    )
    return path


def work_of(result: HoodieWriteResult) -> str:
    """Describe what a write rewrote, regardless of the machine's load: files are its units of parallel work."""
    sizes = [status.stat.file_size_bytes for status in result]
    return f"{len(sizes)} files, {sum(sizes) / (1 << 20):.1f} MB, the largest {max(sizes) / sum(sizes):.0%}"


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sizes", default="8,16,32,64,120,250")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    rows, runs = arguments.rows, arguments.runs
    table = trips(rows, partitions=False).combine_chunks()
    incoming = trip_updates(table, rows // 20, rows // 20)
    machine = describe_machine("pyarrow", "numpy")
    print(machine)
    print(
        f"{rows:,} rows, upserts of {incoming.num_rows:,} (half new) and of 1,000 keys of one file, medians of {runs}"
    )
    timings: list[Timing] = []
    newest: list[HoodieWriteResult] = []
    with tempfile.TemporaryDirectory() as folder:
        base, path = f"{folder}/base", f"{folder}/t"
        for megabytes in map(int, arguments.sizes.split(",")):

            def write(operation: str, records: pa.Table, where: str, size: int = megabytes) -> HoodieWriteResult:
                with HoodieLocalWriteClient(configuration(where, size)) as client:
                    result: HoodieWriteResult = getattr(client, operation)(records)
                    newest[:] = [result]
                    return result

            insert = timed(
                f"insert, {megabytes} MB", runs, lambda: make_table(base), lambda: write("insert", table, base)
            )
            files = sorted(glob.glob(f"{base}/*.parquet"), key=os.path.getsize)
            keys = pq.read_table(files[-1], columns=["uuid"])["uuid"]
            of_one_file = table.filter(pc.is_in(table["uuid"], value_set=keys.combine_chunks()))
            few = trip_updates(of_one_file, min(1000, of_one_file.num_rows), 0)
            upsert = timed(
                f"upsert everywhere, {megabytes} MB",
                runs,
                lambda: copy(base, path),
                lambda: write("upsert", incoming, path),
            )
            everywhere = work_of(newest[0])
            local = timed(
                f"upsert of one file, {megabytes} MB",
                runs,
                lambda: copy(base, path),
                lambda few=few: write("upsert", few, path),
            )
            sizes = np.array(list(map(os.path.getsize, files))) / (1 << 20)
            print(f"{megabytes:>4} MB: {len(files)} files of {sizes.min():.1f} to {sizes.max():.1f} MB")
            print(f"    upsert everywhere: {everywhere}; of one file: {work_of(newest[0])}")
            for timing in (insert, upsert, local):
                timings.append(timing)
                print(f"    {timing.line()}", flush=True)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": rows, "upsert_rows": incoming.num_rows, "runs": runs}, timings)


if __name__ == "__main__":
    main()
