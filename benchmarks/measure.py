"""What all benchmark programs share: data of a fixed seed, repeated timing, figures on one line."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pyarrow as pa

__all__ = ["Timing", "describe_machine", "timed", "trip_updates", "trips"]

CITIES = np.array(["americas/brazil/sao_paulo", "americas/united_states/san_francisco", "asia/india/chennai"])


class Timing:
    """Seconds of several runs."""

    def __init__(self, name: str, seconds: list[float]) -> None:
        self.name = name
        self.seconds = seconds

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    def line(self, other: Timing | None = None) -> str:
        """Median, spread, and the ratio to another timing of the same run."""
        ratio = f"   {self.median / other.median:5.2f} x {other.name}" if other is not None else ""
        return f"{self.name:<34} {self.median:7.2f} s   ({min(self.seconds):.2f} - {max(self.seconds):.2f}){ratio}"


def timed(name: str, runs: int, prepare: Callable[[], object], run: Callable[[], object]) -> Timing:
    """Time ``run`` several times, each after ``prepare``, which is not timed."""
    seconds = []
    for _ in range(runs):
        prepare()
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return Timing(name, seconds)


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
    """Updates of keys drawn at random from a table, with larger ordering values, and new rows."""
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
    """A fresh copy of a folder; hard links, as nothing changes a file in place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    return target


def describe_machine(*packages: str) -> str:
    """Cores, Python and versions, the project's revision."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} absent")
    here = Path(__file__).parent
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, Python {platform.python_version()}, hoodie {revision}, {', '.join(found)}"
