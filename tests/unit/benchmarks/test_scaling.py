"""The tables that `benchmarks.scaling` makes are what its figures say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from benchmarks.indexes import shuffled
from benchmarks.measure import exponent
from benchmarks.scaling import (
    AXES,
    AXIS_CALLS,
    FILES_OF_UNIT,
    client,
    grow,
    make_many_files,
    make_table,
    middle,
    rows,
    run_axis,
)
from hoodie import HoodieTableMetaClient
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.storage.storage_factory import open_storage


def test_a_unit_is_four_files_whose_key_ranges_do_not_meet(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make_table(path)
    grow(path, 0, 4_000)
    grow(path, 4_000, 4_000)
    footers = [read_footer(open_storage(path), str(file)) for file in (tmp_path / "t").rglob("*.parquet")]
    ranges = sorted((str(footer.min_record_key), str(footer.max_record_key)) for footer in footers)
    assert len(ranges) == 2 * FILES_OF_UNIT
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    assert hoodie.read_table(path, columns=["uuid"]).num_rows == 8_000


def test_many_files_are_the_latest_of_as_many_file_groups_and_each_is_judged(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make_many_files(path, partitions=2, files=3)
    assert len(HoodieTableMetaClient.load(path).files()) == 6
    incoming = rows(10**9, 2, seed=1).set_column(1, "partitionpath", pa.array(["day=00000", "day=00001"]))
    with client(path, "BLOOM") as planner:
        plan = planner.explain_upsert(incoming)
    assert plan.index_report.decided == {"range": 6}
    assert plan.index_report.footers_read == 6


def test_random_keys_are_as_many_as_growing_ones() -> None:
    growing = rows(0, 1000, seed=1)
    random = shuffled(growing)["uuid"].to_pylist()
    assert len(set(random)) == 1000
    assert random != sorted(random)


def test_a_figure_is_the_middle_of_its_runs() -> None:
    runs = [{"seconds": [s, 0.0], "cpu": [s, 0.0], "peak": s * (1 << 20)} for s in (3, 1, 2)]
    figure = middle(runs)
    assert (figure["seconds"], figure["spread"], figure["peak_mb"]) == (2, [1, 3], 2)


def test_axes_grow_as_their_factors_say() -> None:
    for factor in (1, 4):
        wide, many, large = (make(factor) for _, make in AXES.values())
        assert (wide.num_columns, wide.num_rows) == (3 + 32 * factor, 1000)
        assert len(many["partitionpath"].unique()) == 16 * factor
        assert {len(value) for value in large["payload"].to_pylist()} == {160_000 * factor}


@pytest.mark.parametrize("axis", AXES)
def test_each_call_of_an_axis_is_timed(tmp_path: Path, axis: str) -> None:
    figures = run_axis(str(tmp_path / "t"), axis, "1")
    assert len(figures["seconds"]) == len(figures["cpu"]) == len(AXIS_CALLS)
    found = hoodie.read_table(str(tmp_path / "t"), columns=["uuid"])
    assert found.num_rows == AXES[axis][1](1).num_rows
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_the_exponent_is_the_slope_of_logarithms() -> None:
    assert exponent([1, 4, 16], [2.0, 8.0, 32.0]) == pytest.approx(1)
    assert exponent([1, 4, 16], [1.0, 16.0, 256.0]) == pytest.approx(2)
    assert exponent([1, 4, 16], [3.0, 3.0, 3.0]) == pytest.approx(0)


@pytest.mark.parametrize(("given", "made"), [("6", 6), (None, 9)])
def test_an_axis_is_measured_on_tables_of_the_given_version(tmp_path: Path, given: str | None, made: int) -> None:
    path = str(tmp_path / "t")
    run_axis(path, "partitions", "1", given)
    assert HoodieTableMetaClient.load(path).table_config.table_version == made
