"""Rows of 10 MB: they are right, and the memory of writes, reads and compactions is bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from tests.support.table_builder import init_table

ROWS, ROW_BYTES = 16, 10_000_000
INPUT = ROWS * ROW_BYTES
MOST = {
    "COPY_ON_WRITE": {"write": 4.5, "upsert of one row": 3.2, "upsert of all": 5.8, "read": 2.5},
    "MERGE_ON_READ": {"write": 4.5, "upsert of one row": 1.5, "upsert of all": 5.8, "read": 6, "compact": 6},
}
"""What a step may take its input included, as a multiple of all rows; a log file is read and decoded as a whole."""
PROGRAM = """
import sys
import pyarrow as pa
import hoodie
from tests.support.table_builder import local_client

def resident(name):
    with open("/proc/self/status") as lines:
        return int(next(line.split()[1] for line in lines if line.startswith(name))) * 1024

path, step, name = sys.argv[1:]
rows = pa.ipc.open_file(pa.memory_map(name)).read_all() if name else None
with local_client(path, parquet_small_file_limit="0") as client:
    # Reset the peak.
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = resident("VmRSS")
    steps = {"upsert": lambda: client.upsert(rows), "compact": client.compact, "read": lambda: hoodie.read_table(path)}
    found = steps[step]()
    print(resident("VmHWM") - before)
"""


def peak(path: Path, step: str, name: Path | None = None) -> int:
    """The memory of one step in a process of its own, its input included."""
    command = [sys.executable, "-c", PROGRAM, str(path), step, str(name or "")]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def long_rows(path: Path, numbers: range, ts: int) -> pa.Table:
    """Rows that do not compress, in an Arrow file."""
    rng = np.random.default_rng(ts)
    values = pa.array([rng.bytes(ROW_BYTES) for _ in numbers], pa.binary())
    keys = [f"key {number:02}" for number in numbers]
    rows = pa.table({"id": keys, "region": ["x"] * len(keys), "ts": pa.array([ts] * len(keys)), "payload": values})
    with pa.OSFile(str(path), "w") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    return rows


def stored(path: Path) -> pa.Table:
    return hoodie.read_table(str(path), columns=["id", "region", "ts", "payload"]).sort_by("id")


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(),
    reason="peaks of memory are reset by /proc/self/clear_refs, which is not here",
)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_ten_megabytes_take_a_bounded_multiple_of_their_size(tmp_path: Path, table_type: str) -> None:
    path = tmp_path / "t"
    init_table(path, table_type=table_type)
    first, one, last = (tmp_path / name for name in ("first.arrow", "one.arrow", "last.arrow"))
    rows = long_rows(first, range(ROWS), 1)
    peaks = {"write": peak(path, "upsert", first)}
    assert stored(path).equals(rows)
    changed = long_rows(one, range(5, 6), 2)
    peaks["upsert of one row"] = peak(path, "upsert", one)
    expected = pa.concat_tables([rows.slice(0, 5), changed, rows.slice(6)])
    assert stored(path).equals(expected)
    expected = long_rows(last, range(ROWS), 3)
    peaks["upsert of all"] = peak(path, "upsert", last)
    peaks["read"] = peak(path, "read")
    assert stored(path).equals(expected)
    if table_type == "MERGE_ON_READ":
        peaks["compact"] = peak(path, "compact")
        assert stored(path).equals(expected)
    too_much = {step: size / INPUT for step, size in peaks.items() if size > MOST[table_type][step] * INPUT}
    assert not too_much
