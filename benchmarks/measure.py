"""Shared code of the benchmark programs: data with a fixed seed, repeated timing, figures on one line."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = [
    "Timing",
    "cpu_by_kind",
    "cpu_seconds",
    "describe_load",
    "describe_machine",
    "exponent",
    "steps_of",
    "timed",
    "trip_updates",
    "trips",
    "write_json",
]

CITIES = np.array(["americas/brazil/sao_paulo", "americas/united_states/san_francisco", "asia/india/chennai"])


class Timing:
    """The seconds of several runs, and of their steps if the run has them.

    Args:
        name: What was timed.
        seconds: The seconds of each run.
        steps: The steps of each run, as `steps_of` returns them.
        cpu: For each run the CPU seconds of all its processes, if measured. Other work on the machine changes these
            little.

    Attributes:
        cpu_kinds: For each run the CPU seconds by kind of process, as `cpu_by_kind` names them, if measured.
    """

    def __init__(
        self,
        name: str,
        seconds: list[float],
        steps: list[list[dict[str, Any]]] | None = None,
        cpu: list[float] | None = None,
    ) -> None:
        self.name = name
        self.seconds = seconds
        self.steps = steps if steps is not None else []
        self.cpu = cpu if cpu is not None else []
        self.cpu_kinds: list[dict[str, float]] = []

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.seconds)

    def line(self, other: Timing | None = None) -> str:
        """Median, spread, and the ratio to another timing of the same run."""
        ratio = f"   {self.median / other.median:5.2f} x {other.name}" if other is not None else ""
        cpu = f"   {statistics.median(self.cpu):7.1f} CPU s" if self.cpu else ""
        return f"{self.name:<34} {self.median:7.2f} s   ({min(self.seconds):.2f} - {max(self.seconds):.2f}){cpu}{ratio}"

    @property
    def profile(self) -> list[dict[str, Any]]:
        """Each step's median over the runs, and its share of the median run; at the end the time outside of steps.

        A step counts as 0 in runs that do not have it. Parts (depth 1 and more) are within the step before them.
        """
        found: dict[tuple[str, ...], tuple[dict[str, Any], list[float]]] = {}
        for number, steps in enumerate(self.steps):
            path: list[str] = []
            for step in steps:
                path = [*path[: step["depth"]], step["name"]]
                _, values = found.setdefault(tuple(path), (step, [0.0] * len(self.steps)))
                values[number] += step["seconds"]
        median = statistics.median(self.seconds)
        profile = []
        for path, (step, values) in sorted(found.items(), key=lambda item: _first_place(self.steps, item[0])):
            middle = statistics.median(values)
            entry = {"step": path[-1], "title": step["title"], "depth": len(path) - 1}
            profile.append(entry | {"seconds": round(middle, 4), "share": round(middle / median, 4)})
        if profile:
            outside = [
                whole - sum(step["seconds"] for step in steps if not step["depth"])
                for whole, steps in zip(self.seconds, self.steps, strict=True)
            ]
            rest = statistics.median(outside)
            entry = {"step": "", "title": "outside of steps", "depth": 0}
            profile.append(entry | {"seconds": round(rest, 4), "share": round(rest / median, 4)})
        return profile

    def profile_lines(self) -> list[str]:
        """The profile as text; steps below a thousandth are left out."""
        return [
            f"    {entry['seconds']:8.3f} s  {entry['share']:6.1%}  {'  ' * entry['depth']}{entry['title']}"
            for entry in self.profile
            if entry["share"] >= 0.001
        ]

    def add(self, seconds: float, cpu: dict[str, float], steps: list[dict[str, Any]]) -> None:
        """Add a run.

        Args:
            seconds: By the clock.
            cpu: CPU seconds by kind of process.
            steps: As `steps_of` returns them.
        """
        self.seconds.append(seconds)
        self.cpu.append(sum(cpu.values()))
        self.cpu_kinds.append(cpu)
        self.steps.append(steps)

    @property
    def median_kinds(self) -> dict[str, float]:
        """The median CPU seconds of each kind of process."""
        names = list(dict.fromkeys(name for kinds in self.cpu_kinds for name in kinds))
        return {name: statistics.median(kinds.get(name, 0.0) for kinds in self.cpu_kinds) for name in names}

    def to_json(self) -> dict[str, Any]:
        """All figures, for `write_json`."""
        kinds = {"cpu_kinds": {name: round(value, 2) for name, value in self.median_kinds.items()}}
        return {
            "name": self.name,
            "median_seconds": round(self.median, 4),
            "seconds": [round(value, 4) for value in self.seconds],
            "cpu_seconds": [round(value, 2) for value in self.cpu],
            "profile": self.profile,
            **(kinds if self.cpu_kinds else {}),
        }


def _first_place(runs: list[list[dict[str, Any]]], path: tuple[str, ...]) -> tuple[int, int]:
    """The position of a step in the longest run that has it."""
    for number, steps in enumerate(sorted(runs, key=len, reverse=True)):
        here: list[str] = []
        for place, step in enumerate(steps):
            here = [*here[: step["depth"]], step["name"]]
            if tuple(here) == path:
                return place, number
    return 0, 0


def steps_of(result: object) -> list[dict[str, Any]]:
    """The steps of a `HoodieWriteResult` as values for JSON; empty for anything else."""
    return [
        {"name": step.name, "title": step.title, "depth": step.depth, "seconds": step.seconds}
        for step in getattr(result, "steps", ())
    ]


def cpu_seconds() -> float:
    """CPU seconds of this process's session: its JVM and workers, including those that have ended (Linux)."""
    return sum(cpu_by_kind().values())


def cpu_by_kind() -> dict[str, float]:
    """The seconds of `cpu_seconds` by kind of process: ``JVM``, ``workers`` of Spark, and ``Python`` for the rest.

    A kind without a process is left out. Work of Arrow and of storage counts for the process that does it.
    """
    session, each, found = os.getsid(0), os.sysconf("SC_CLK_TCK"), dict[str, float]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text().rpartition(")")
            values = rest.split()
            if int(values[3]) != session:
                continue
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        kind = "JVM" if name.endswith("(java") else "workers" if b"pyspark.daemon" in command else "Python"
        found[kind] = found.get(kind, 0.0) + sum(map(int, values[11:15])) / each
    return found


def timed(
    name: str,
    runs: int,
    prepare: Callable[[], object],
    run: Callable[[], object],
    cpu_clock: Callable[[], float] = time.process_time,
) -> Timing:
    """Time ``run`` several times, each after ``prepare``, which is not timed; takes the steps from its results.

    Args:
        name: What is timed.
        runs: The number of runs.
        prepare: Called before each run.
        run: The work.
        cpu_clock: The CPU seconds so far: those of this process, or with `cpu_seconds` of its session.
    """
    seconds, cpu, steps = [], [], []
    for _ in range(runs):
        prepare()
        started, used = time.perf_counter(), cpu_clock()
        result = run()
        seconds.append(time.perf_counter() - started)
        cpu.append(cpu_clock() - used)
        steps.append(steps_of(result))
    return Timing(name, seconds, steps, cpu=cpu)


def timing(name: str, runs: int, run: Callable[[], object]) -> Timing:
    """Time ``run`` several times."""
    return timed(name, runs, lambda: None, run)


def exponent(factors: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of a straight line through logarithms: 1 means that time grows as the factor does, 0 not at all."""
    return float(np.polyfit(np.log(factors), np.log(seconds), 1)[0])


def write_json(
    path: str, machine: str, sizes: dict[str, int], timings: Iterable[Timing], **more: dict[str, Any]
) -> None:
    """Write all figures of a program to a file, with the load of the machine after it.

    Args:
        path: The file.
        machine: The text of `describe_machine`, made before the first run: it has the load before.
        sizes: Numbers of rows and runs.
        timings: All timings.
        more: Further figures by name.
    """
    figures = {"machine": machine, "load_after": describe_load(), "sizes": sizes}
    figures |= {"timings": [timing.to_json() for timing in timings], **more}
    Path(path).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _uuids(count: int, seed: int) -> pa.Array:
    """Random keys of 36 characters, in the shape of a UUID."""
    text = np.random.default_rng(seed).integers(0, 16, (count, 32), dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[text]
    out = np.full((count, 36), ord("-"), dtype=np.uint8)
    start = 0
    for low, high in ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36)):
        out[:, low:high] = digits[:, start : start + high - low]
        start += high - low
    offsets = pa.py_buffer(np.arange(0, 36 * (count + 1), 36, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(out.tobytes())])


def trips(count: int, seed: int = 1, ordering_value: int = 1, partitions: bool = True) -> pa.Table:
    """Rows of ten columns: uuid, partitionpath, ts, rider, driver, four coordinates, fare."""
    rng = np.random.default_rng(seed)
    names = np.array([f"rider-{number:05d}" for number in range(10_000)])
    where = rng.integers(0, 3, count) if partitions else np.zeros(count, dtype=int)
    columns = {
        "uuid": _uuids(count, seed),
        "partitionpath": pa.array(CITIES[where]),
        "ts": pa.array(np.full(count, ordering_value, dtype=np.int64) + rng.integers(0, 1000, count)),
        "rider": pa.array(names[rng.integers(0, len(names), count)]),
        "driver": pa.array(names[rng.integers(0, len(names), count)]),
    }
    for name in ("begin_lat", "begin_lon", "end_lat", "end_lon", "fare"):
        columns[name] = pa.array(rng.random(count))
    return pa.table(columns)


def trip_updates(table: pa.Table, updates: int, inserts: int, seed: int = 2) -> pa.Table:
    """Updates of random keys of a table, with larger ordering values, and new rows."""
    rng = np.random.default_rng(seed)
    chosen = table.take(pa.array(np.sort(rng.choice(table.num_rows, updates, replace=False))))
    later = pa.array(np.full(updates, 1_000_000, dtype=np.int64))
    chosen = chosen.set_column(2, "ts", later).set_column(9, "fare", pa.array(rng.random(updates)))
    return pa.concat_tables([chosen, trips(inserts, seed + 1000, 1_000_000)]).combine_chunks()


def fresh(path: str) -> str:
    """A folder that does not exist."""
    shutil.rmtree(path, ignore_errors=True)
    return path


def copy(source: str, target: str) -> str:
    """A new copy of a folder, with hard links, because no writer changes a file in place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    return target


def describe_machine(*packages: str) -> str:
    """The cores, Python and package versions, the project's revision with its date, and the load of the machine now.

    Call this before the first run, and `describe_load` after the last one.
    """
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} absent")
    cores = len(os.sched_getaffinity(0))
    # Figures that another program has just saved are no change of what is measured.
    changed = git("diff", "--name-only", "HEAD", "--", ":/", ":(exclude,top)docs/benchmarks")
    revision = f"{git('describe', '--always')}{'-dirty' if changed else ''} of {git('show', '-s', '--format=%cs')}"
    return (
        f"{cores} cores, Python {platform.python_version()}, hoodie {revision}, {', '.join([*found, describe_load()])}"
    )


def describe_load() -> str:
    """The load of the machine: how many processes ran or waited, on average over the last one and five minutes.

    A load above the number of cores before a program means that other work disturbs it. After a program, its own work
    is part of it.
    """
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} ({five:.1f} over 5 minutes)"


def git(*arguments: str) -> str:
    """The output of a command of git in this repository; empty if it fails."""
    call = ["git", *arguments]
    here = Path(__file__).parent
    return subprocess.run(call, cwd=here, capture_output=True, text=True, check=False).stdout.strip()
