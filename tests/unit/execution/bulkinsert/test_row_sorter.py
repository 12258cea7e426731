"""Rows of any number in an order, within a limit of memory."""

from __future__ import annotations

import errno
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy, SpatialCurveCompositionStrategyType
from hoodie.exception import HoodieIOException
from hoodie.execution.bulkinsert import row_sorter
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.execution.bulkinsert.row_sorter import RowSorter
from hoodie.io import spill_file

LINEAR, ZORDER, HILBERT = LayoutOptimizationStrategy
SAMPLE = SpatialCurveCompositionStrategyType.SAMPLE
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("n", pa.int64()),
    ]
)
COLUMNS = ["f", "s", "i"]


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of several batches even where the limit is small."""
    monkeypatch.setattr(row_sorter, "_LEAST_BYTES", 500)


def batch_of(source: random.Random, first: int, length: int) -> pa.RecordBatch:
    def some(*values: Any) -> list[Any]:
        return source.choices(values, k=length)

    columns = {
        "i": some(None, 1, 2, -3),
        "s": [source.choice((None, "", "a", "é", "b" * source.randrange(60))) for _ in range(length)],
        "f": some(None, 0.0, -0.0, math.nan, 1.5, -1.5, math.inf),
        "tags": [[f"t{number}"] * (number % 3) for number in range(length)],
        "n": list(range(first, first + length)),
    }
    return pa.RecordBatch.from_pydict(columns, SCHEMA)


def batches_of(seed: int, counts: Iterable[int]) -> list[pa.RecordBatch]:
    source, found, first = random.Random(seed), [], 0
    for length in counts:
        found.append(batch_of(source, first, length))
        first += length
    return found


def expected_order(batches: list[pa.RecordBatch], order: RowOrder) -> list[int]:
    """The numbers of the rows, sorted in one go; of equal rows those that came first stand first."""
    rows = pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()
    if not rows:
        return []
    keys = [[(value is not None, value) for value in key.to_pylist()] for key in order.sort_keys(rows[0])]
    return sorted(range(rows[0].num_rows), key=lambda number: [key[number] for key in keys])


def check_sorted(batches: list[pa.RecordBatch], order: RowOrder, max_bytes: int, folder: Path) -> list[pa.RecordBatch]:
    with RowSorter(order, max_bytes, str(folder)) as sorter:
        found = list(sorter.sorted(iter(batches)))
    assert list(folder.iterdir()) == []
    whole, given = pa.Table.from_batches(found, SCHEMA), pa.Table.from_batches(batches, SCHEMA)
    assert whole.schema == SCHEMA
    order_found = whole["n"].to_pylist()
    if order.needs_sample:
        assert sorted(order_found) == list(range(given.num_rows))
    else:
        assert order_found == expected_order(batches, order)
    assert repr(whole.to_pylist()) == repr(given.take(pa.array(order_found, pa.int64())).to_pylist())
    return found


class FailingFile:
    """A file whose n-th write finds the disk full."""

    def __init__(self, file: Any, failing: int, calls: list[int]) -> None:
        self._file, self._failing, self._calls = file, failing, calls
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        self._calls.append(len(data))
        if len(self._calls) == self._failing:
            self.is_full = True
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))


def spilled_files(monkeypatch: pytest.MonkeyPatch, failing: int = 0) -> list[FailingFile]:
    """The files that are made from now on; the write of that number finds the disk full."""
    made: list[FailingFile] = []
    calls: list[int] = []

    def opened(folder: str) -> FailingFile:
        # One more holds the rows that are not sorted yet.
        assert sum(not file.closed for file in made) <= row_sorter._MOST_RUNS + 1
        made.append(FailingFile(tempfile.TemporaryFile(dir=folder), failing, calls))  # noqa: SIM115
        return made[-1]

    # Only this module's: pytest makes such files too.
    of_module = SimpleNamespace(TemporaryFile=lambda dir: opened(dir), gettempdir=tempfile.gettempdir)
    monkeypatch.setattr(spill_file, "tempfile", of_module)
    return made


@pytest.mark.parametrize("order", [RowOrder(COLUMNS), RowOrder(["s"]), RowOrder(COLUMNS, ZORDER),
                                   RowOrder(COLUMNS, HILBERT), RowOrder(COLUMNS, ZORDER, SAMPLE, sample_size=7)],
                         ids=["linear", "one", "zorder", "hilbert", "sample"])  # fmt: skip
@pytest.mark.parametrize(
    ("max_bytes", "most_runs", "files"), [(1 << 30, 64, 0), (40_000, 64, 2), (8_000, 64, 10), (8_000, 3, 12)]
)
def test_rows_are_those_of_a_sort_in_one_go(
    order: RowOrder, max_bytes: int, most_runs: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sorter, "_MOST_RUNS", most_runs)
    made = spilled_files(monkeypatch)
    source = random.Random(max_bytes)
    check_sorted(
        batches_of(max_bytes, (source.randrange(60) for _ in range(30))), order.checked(SCHEMA), max_bytes, tmp_path
    )
    assert len(made) >= files and (files or not made)
    assert all(file.closed for file in made)


@pytest.mark.parametrize("order", [RowOrder(COLUMNS), RowOrder(COLUMNS, HILBERT, SAMPLE)], ids=["linear", "sample"])
@pytest.mark.parametrize("counts", [[], [0], [1], [0, 1, 0], [2000]])
@pytest.mark.parametrize("max_bytes", [1, 1 << 30])
def test_no_rows_one_row_and_one_batch(order: RowOrder, counts: list[int], max_bytes: int, tmp_path: Path) -> None:
    if max_bytes == 1 and counts == [2000]:
        counts = [200]
    check_sorted(batches_of(1, counts), order.checked(SCHEMA), max_bytes, tmp_path)


def test_rows_that_exceed_the_limit_alone_are_sorted(tmp_path: Path) -> None:
    (rows,) = batches_of(2, [20])
    rows = rows.set_column(1, "s", pa.array([f"{number % 7}" * 5000 for number in range(20)]))
    check_sorted([rows.slice(0, 11), rows.slice(11)], RowOrder(["s", "i"]).checked(SCHEMA), 2_000, tmp_path)


def test_sorted_and_reversed_inputs_are_merged(tmp_path: Path) -> None:
    for numbers in (range(3000), range(3000, 0, -1), [5] * 3000):
        (rows,) = batches_of(3, [3000])
        rows = rows.set_column(0, SCHEMA.field("i"), pa.array(list(numbers), pa.int32()))
        batches = [rows.slice(low, 100) for low in range(0, 3000, 100)]
        check_sorted(batches, RowOrder(["i"]), 20_000, tmp_path)


def test_batches_of_the_result_are_small(tmp_path: Path) -> None:
    batches = batches_of(4, [400] * 20)
    for max_bytes in (50_000, 10_000_000):
        found = check_sorted(batches, RowOrder(COLUMNS).checked(SCHEMA), max_bytes, tmp_path)
        assert max(batch.nbytes for batch in found) < 2 * max_bytes // 16


def test_columns_that_one_array_cannot_hold_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses to join more than 2 GiB of text."""
    original = pa.concat_arrays

    def refusing(arrays: list[pa.Array], *given: Any) -> pa.Array:
        if arrays[0].type == pa.string() and sum(map(len, arrays)) > 1000:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return original(arrays, *given)

    monkeypatch.setattr(row_sorter.pa, "concat_arrays", refusing)
    batches = batches_of(5, [300] * 5)
    for order in (RowOrder(COLUMNS), RowOrder(COLUMNS, ZORDER)):
        check_sorted(batches, order.checked(SCHEMA), 1 << 30, tmp_path)


@pytest.mark.parametrize("order", [RowOrder(COLUMNS), RowOrder(COLUMNS, ZORDER, SAMPLE)], ids=["linear", "sample"])
def test_a_full_disk_at_any_write_is_a_clear_error_and_leaves_no_file(
    order: RowOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sorter, "_MOST_RUNS", 2)
    monkeypatch.setattr(row_sorter, "_LEAST_BYTES", 4_000)
    batches = batches_of(6, [80] * 3)
    for failing in count(1):
        files = spilled_files(monkeypatch, failing)
        sorter = RowSorter(order.checked(SCHEMA), 15_000, str(tmp_path))
        try:
            assert sum(batch.num_rows for batch in sorter.sorted(iter(batches))) == 240
        except HoodieIOException as error:
            assert "rows of more than 15000 bytes (hoodie.memory.clustering.max.size) go to a file in" in str(error)
            assert "No space left on device" in str(error) and "more room" in str(error)
            assert files[-1].is_full
        assert files and all(file.closed for file in files) and list(tmp_path.iterdir()) == []
        if not any(file.is_full for file in files):
            break
    assert failing > 20


def test_files_are_removed_when_the_input_fails_and_when_the_caller_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spilled_files(monkeypatch)
    batches = batches_of(7, [100] * 20)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("the input")

    with pytest.raises(ValueError, match="the input"):
        list(RowSorter(RowOrder(COLUMNS), 10_000, str(tmp_path)).sorted(failing()))
    assert made and all(file.closed for file in made)
    made.clear()
    with RowSorter(RowOrder(COLUMNS), 10_000, str(tmp_path)) as sorter:
        rows = sorter.sorted(iter(batches))
        next(rows)
        assert not all(file.closed for file in made)
    assert made and all(file.closed for file in made)
    made.clear()
    rows = RowSorter(RowOrder(COLUMNS), 10_000, str(tmp_path)).sorted(iter(batches))
    next(rows)
    del rows
    gc.collect()
    assert made and all(file.closed for file in made)


def test_a_sample_is_spread_over_all_rows() -> None:
    for counts in ([1000], [7] * 300, [1, 500, 0, 3, 900]):
        sample = row_sorter._Sample(RowOrder(["n", "i"], ZORDER, SAMPLE, sample_size=20))
        batches = batches_of(8, counts)
        assert all(sample.looked_at(batch) is batch for batch in batches)
        kept = [number for rows in sample.rows for number in rows.column("n").to_pylist()]
        assert 20 <= len(kept) <= 40 and kept[0] == 0
        assert len(set(np.diff(kept))) == 1 and sum(counts) - kept[-1] <= kept[1]


MEASURED = """
import json, sys
import numpy as np, pyarrow as pa
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.execution.bulkinsert.row_sorter import RowSorter

limit, factor, folder, strategy = 128 << 20, float(sys.argv[1]), sys.argv[2], sys.argv[3]
source = np.random.default_rng(1)
texts = pa.array([f"{number:040x}" for number in source.integers(0, 1 << 60, 1 << 16).tolist()])
columns = {f"c{number}": source.random(1 << 16) for number in range(8)}
template = pa.record_batch({"text": texts, **columns})
order = RowOrder(["c0", "text"], LayoutOptimizationStrategy(strategy)).checked(template.schema)

def resident(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1]) << 10

def rows():
    for _ in range(int(factor * limit / template.nbytes)):
        yield template.take(pa.array(source.permutation(1 << 16)))

# What sorting loads beside rows.
with RowSorter(order, limit, folder) as sorter:
    assert sum(1 for _ in sorter.sorted([template.slice(0, 10)]))
before = resident("VmRSS")
with RowSorter(order, limit, folder) as sorter:
    count = sum(batch.num_rows for batch in sorter.sorted(rows()))
print(json.dumps({"rows": count, "peak": (resident("VmHWM") - before) / limit}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("factor", [0.2, 2, 10])
@pytest.mark.parametrize("strategy", [LINEAR, ZORDER])
def test_memory_stays_within_the_limit(factor: float, strategy: LayoutOptimizationStrategy, tmp_path: Path) -> None:
    call = [sys.executable, "-c", MEASURED, str(factor), str(tmp_path), strategy.value]
    found = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    assert found["rows"] > 0 and found["peak"] <= 1.3
