"""In-process reads of Hudi tables beside hudi-rs 0.6 on the same tables, and bare pyarrow on the same files.

    python -m benchmarks.local_read [--rows 1000000] [--runs 5] [--later 3] [--table-types COPY_ON_WRITE,MERGE_ON_READ]
        [--reads "all columns,one key"] [--engines hoodie,hudi-rs,pyarrow] [--options KEY=VALUE ...] [--json FILE]

A tenth of the rows is updated after the bulk insert: file groups have two versions, or log files. Each run is a new
process, the engines in turn. Its first call includes the imports, from byte code, as an installed package has it;
``--later`` calls follow. Peak memory is that of the first call above a process that has imported pyarrow. The floor
reads the latest base files, by their names, with pyarrow's dataset: it lists nothing and knows no timeline, so it is
left out for merge-on-read tables.

hudi-rs is the module ``hudi_rs06``; it is left out where it cannot be imported. Lines of hoodie have the ratios to
hudi-rs, of the first call and of later ones, and that of its peak to the result, each with the goal: at most hudi-rs's
time, 1.2 times the result, and for a key 0.06 s in later calls.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ENGINES = {"hoodie": "hoodie", "hudi-rs": "hudi_rs06", "pyarrow": "pyarrow"}
MEGABYTE = 1 << 20
MOST_OF_HUDI_RS, MOST_OF_RESULT, MOST_OF_KEY_SECONDS = 1.0, 1.2, 0.06
LARGE_RESULT = 10
"""Megabytes. The peak of a smaller result is that of the process."""
KEY_READS = ("one key", "one record key", "read client")


def reader(
    engine: str, base_path: str, files: list[str], columns: list[str] | None, where: list[str]
) -> Callable[[], Any]:
    """Import an engine and return its read as a function that gives an Arrow table.

    Args:
        engine: Its name.
        base_path: The table.
        files: The newest base files of the table.
        columns: Names; None for all, with Hudi's.
        where: A column and the value that it must have; empty for all rows.
    """
    # Imported here, because the first call of a process includes the imports of its engine, and of no other one.
    if engine == "hudi-rs":
        import hudi_rs06
        import pyarrow as pa

        filters = [(where[0], "=", where[1])] if where else []
        return lambda: pa.Table.from_batches(hudi_rs06.open(base_path).read(columns, filters))
    if engine == "pyarrow":
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        condition = pc.field(where[0]) == where[1] if where else None
        return lambda: ds.dataset(files).to_table(columns=columns, filter=condition)
    import hoodie

    if where[:1] == ["key"]:
        client = hoodie.HoodieReadClient(base_path)
        return lambda: client.read([hoodie.HoodieKey(*where[1:])])
    return lambda: hoodie.read_table(base_path, columns=columns, filters=[(where[0], "=", where[1])] if where else None)


def run_child(later: int, arguments: list[Any]) -> None:
    """Time the first call and later ones in this process; prints the figures as JSON."""
    seconds, cpu = [], []
    started, used = time.perf_counter(), time.process_time()
    importlib.import_module("pyarrow")
    empty = resident("VmRSS")
    read = reader(*arguments)
    for number in range(later + 1):
        if number:
            started, used = time.perf_counter(), time.process_time()
        found = read()
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
        if not number:
            peak = resident("VmHWM") - empty
            result = found.nbytes
        rows = found.num_rows
        # The next call must not be beside this one in memory.
        del found
    json.dump({"rows": rows, "seconds": seconds, "cpu": cpu, "peak": peak, "result": result}, sys.stdout)


def resident(entry: str) -> int:
    """Resident memory of this process, in bytes (Linux): ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path("/proc/self/status").read_text().split(f"{entry}:")[1]
    return int(status.split()[0]) << 10


def build(base_path: str, table_type: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    """Write a table; returns its newest base files, and values to look for."""
    # Imported here for the same reason as in `reader`.
    import hoodie
    from benchmarks.local_upsert import make_table
    from benchmarks.measure import trip_updates, trips

    table = trips(rows).combine_chunks()
    make_table(base_path, table_type)
    with hoodie.HoodieLocalWriteClient(hoodie.HoodieWriteConfig.from_properties(base_path, options)) as writer:
        writer.bulk_insert(table)
        writer.upsert(trip_updates(table, rows // 10, 0))
    files = hoodie.HoodieTableMetaClient.load(base_path).files()
    return {
        "files": [f"{base_path}/{file.partition_path}/{file.file_name}" for file in files],
        "key": table["uuid"][rows // 2].as_py(),
        "partition": table["partitionpath"][rows // 2].as_py(),
        "rider": table["rider"][rows // 2].as_py(),
        "columns": table.column_names,
    }


def reads_of(table: dict[str, Any]) -> dict[str, tuple[list[str] | None, list[str]]]:
    """Columns and filter of each line."""
    return {
        "all columns": (None, []),
        "the user's columns": (table["columns"], []),
        "two columns": (["uuid", "fare"], []),
        "filter on a string": (None, ["rider", table["rider"]]),
        "one key": (None, ["uuid", table["key"]]),
        "one record key": (None, ["_hoodie_record_key", table["key"]]),
        "read client": (None, ["key", table["key"], table["partition"]]),
    }


def run_engine(specification: list[Any], later: int, byte_code: str) -> dict[str, Any]:
    """Run `run_child` in a new process; returns its figures.

    Args:
        specification: The arguments of `reader`.
        later: The number of later calls.
        byte_code: The folder of Python's byte code.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": byte_code}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    call = [sys.executable, "-m", __spec__.name, f"--later={later}", "--child", json.dumps(specification)]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(engine: str, runs: list[dict[str, Any]]) -> dict[str, float]:
    """The medians of an engine's runs, seconds and megabytes."""
    later = [(second, used) for run in runs for second, used in zip(run["seconds"][1:], run["cpu"][1:], strict=True)]
    return {
        "first": statistics.median(run["seconds"][0] for run in runs),
        "first CPU": statistics.median(run["cpu"][0] for run in runs),
        "later": statistics.median(second for second, _ in later),
        "later CPU": statistics.median(used for _, used in later),
        "fastest": min(second for second, _ in later),
        "peak": statistics.median(run["peak"] for run in runs) / MEGABYTE,
        "result": statistics.median(run["result"] for run in runs) / MEGABYTE,
    }


def compared(
    name: str, line: dict[str, float], peer: dict[str, float] | None, floor: dict[str, float] | None = None
) -> list[str]:
    """The ratios and goals of a line of hoodie, as text.

    Args:
        name: The read.
        line: The figures of hoodie.
        peer: Those of hudi-rs, if it was measured.
        floor: Those of bare pyarrow, if it was measured.
    """
    # Imported here for the same reason as in `reader`.
    from benchmarks.goals import ratio_and_goal

    parts = []
    for call in ("first", "later") if peer is not None else ():
        ratio = line[call] / peer[call]
        parts.append(f"{call} {ratio:.2f} x hudi-rs, {ratio_and_goal(ratio, MOST_OF_HUDI_RS)}")
    if floor is not None:
        parts.append(f"later {line['later'] / floor['later']:.2f} x pyarrow (floor)")
    if name in KEY_READS:
        parts.append(f"later {line['later']:.3f} s, {ratio_and_goal(line['later'], MOST_OF_KEY_SECONDS)}")
    elif line["result"] >= LARGE_RESULT:
        ratio = line["peak"] / line["result"]
        parts.append(f"peak {ratio:.2f} x the result, {ratio_and_goal(ratio, MOST_OF_RESULT)}")
    return parts


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--later", type=int, default=3)
    parser.add_argument("--table-types", default="COPY_ON_WRITE,MERGE_ON_READ")
    parser.add_argument("--reads", help="names of lines; all by default")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE", help="of the writer of the tables")
    parser.add_argument("--folder", help="for the tables; a temporary one by default")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.later, json.loads(arguments.child))
        return
    # Imported here for the same reason as in `reader`.
    from benchmarks.measure import describe_load, describe_machine

    engines = [name for name in arguments.engines.split(",") if find_spec(ENGINES[name]) is not None]
    machine = describe_machine("pyarrow")
    print(machine, flush=True)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    options = dict(option.split("=", 1) for option in arguments.options)
    for table_type in arguments.table_types.split(","):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            base_path = f"{folder}/trips"
            table = build(base_path, table_type, arguments.rows, options)
            byte_code = f"{folder}/byte_code"
            for columns, where in reads_of(table).values():
                # Not measured: it writes the byte code.
                run_engine(["hoodie", base_path, table["files"], columns, where], 0, byte_code)
            print(f"\n{table_type}, seconds (CPU): first call of a process, later calls; MB: peak, result")
            for name, (columns, where) in reads_of(table).items():
                if arguments.reads and name not in arguments.reads.split(","):
                    continue
                runs: dict[str, list[dict[str, Any]]] = {}
                for _ in range(arguments.runs):
                    for engine in engines:
                        if where[:1] == ["key"] and engine != "hoodie":
                            continue
                        if table_type == "MERGE_ON_READ" and engine == "pyarrow":
                            continue
                        specification = [engine, base_path, table["files"], columns, where]
                        runs.setdefault(engine, []).append(run_engine(specification, arguments.later, byte_code))
                if len({run["rows"] for found in runs.values() for run in found}) > 1:
                    raise SystemExit(f"{name}: the engines find different numbers of rows")
                for engine, found in runs.items():
                    line = measured(engine, found)
                    figures.setdefault(f"{table_type}, {name}", {})[engine] = line
                    print(
                        f"{name:<20} {engine:<8} {line['first']:7.3f} ({line['first CPU']:.2f})  "
                        f"{line['later']:7.3f} ({line['later CPU']:.2f}), fastest {line['fastest']:.3f}  "
                        f"{line['peak']:6.0f} {line['result']:6.0f}",
                        flush=True,
                    )
                lines = figures[f"{table_type}, {name}"]
                if "hoodie" in lines:
                    for text in compared(name, lines["hoodie"], lines.get("hudi-rs"), lines.get("pyarrow")):
                        print(f"{'':<30}{text}", flush=True)
    print(describe_load())
    if arguments.json:
        content = {
            "machine": machine,
            "load_after": describe_load(),
            "rows": arguments.rows,
            "runs": arguments.runs,
            "reads": figures,
        }
        Path(arguments.json).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
