"""The overlap of sort columns that an explanation of a clustering tells: as it is, and estimated for afterwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hoodie import stats
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.range_overlap import ColumnRanges, Overlap, SliceRange
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.table.action.cluster.clustering_explanation import estimated_overlap
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput
from tests.support.clustered_table import MANY_FILES, latest_slices
from tests.support.table_builder import content, init_table, local_client, rows

PLAN = "hoodie.clustering.plan.strategy."
SORTED = {f"{PLAN}sort.columns": "ts,fare"}
ZORDER = {"hoodie.layout.optimize.strategy": "ZORDER"}
WITH_STATISTICS = {"hoodie.metadata.index.column.stats.enable": "true"}


def ranges(*given: tuple[int, int], path: str = "x") -> ColumnRanges:
    return ColumnRanges(tuple(SliceRange(path, f"f{n}", low, high) for n, (low, high) in enumerate(given)), "footers")


def group(*numbers: int, files: int, path: str = "x") -> ClusteringInput:
    return ClusteringInput(path, tuple(FileSlice(path, f"f{number}", "1") for number in numbers), files)


def estimated(known: ColumnRanges, *groups: ClusteringInput, column: str = "a", layout: str = "LINEAR") -> Overlap:
    return estimated_overlap(column, known, groups, RowOrder(["a", "b"], LayoutOptimizationStrategy(layout)))


def test_files_of_a_group_follow_each_other_and_groups_overlap_as_their_ranges_do() -> None:
    # Group 1 covers 0 to 20 with two files, group 2 covers 15 to 40 with one: 1 1 1, 2 2, 1.
    found = estimated(ranges((0, 10), (5, 20), (15, 40)), group(0, 1, files=2), group(2, files=1))
    assert (found.file_count, found.max_depth, found.mean_depth) == (3, 2, 8 / 6)
    assert found.source == "estimated from footers"
    assert estimated(ranges((0, 20), (0, 20)), group(0, 1, files=5)).mean_depth == 1.0


def test_further_columns_and_curves_are_covered_by_more_files() -> None:
    known, one = ranges((0, 10), (5, 20)), group(0, 1, files=4)
    # At the ends of four files that end near each other: 1 2 3 4, 4 3 2 1; of two parts with two each: 1 2 2 1 twice.
    whole = estimated(known, one, column="b")
    assert (whole.mean_depth, whole.max_depth) == (2.5, 4)
    for column in "ab":
        for layout in ("ZORDER", "HILBERT"):
            parts = estimated(known, one, column=column, layout=layout)
            assert (parts.mean_depth, parts.max_depth, parts.file_count) == (1.5, 2, 4)
    # Where files end at the same value, the new ones do.
    assert estimated(ranges((0, 20), (0, 20)), one, column="b").mean_depth == 4.0


def test_files_that_stay_and_equal_values_count() -> None:
    # The file from 8 to 12 stays: at 0 5 8 12 20 there is one file of the group.
    found = estimated(ranges((0, 10), (5, 20), (8, 12)), group(0, 1, files=1))
    assert (found.file_count, found.mean_depth) == (2, 6 / 4)
    assert estimated(ranges((7, 7), (7, 7)), group(0, 1, files=3)).mean_depth == 3.0
    # Another partition has a file of the same file group.
    elsewhere = ColumnRanges((*ranges((0, 9)).ranges, *ranges((0, 9), path="y").ranges), "footers")
    assert estimated(elsewhere, group(0, files=2)).file_count == 3
    assert estimated(ColumnRanges((), "footers")).mean_depth is None


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Six files of x, one of y, with random values."""
    path = init_table(tmp_path / "t")
    rng = random.Random(1)
    values = rng.sample(range(1000), 120)
    with local_client(path, {**MANY_FILES, **WITH_STATISTICS}) as client:
        for number in range(6):
            part = values[number * 20 : number * 20 + 20]
            client.insert(rows(*((f"k{value}", "x", value, rng.random()) for value in part)))
        client.insert(rows(("a", "y", 1, 1.0), ("b", "y", 2, 2.0)))
    return Path(path)


@pytest.mark.parametrize("options", [{}, ZORDER], ids=["linear", "zorder"])
def test_the_estimate_is_near_what_comes(filled: Path, options: dict[str, Any]) -> None:
    # The largest file of a part of the rows, so that there are about four files.
    size = sum(part.size_bytes for part in latest_slices(filled) if part.partition_path == "x") // 4
    given = {**MANY_FILES, **WITH_STATISTICS, **SORTED, **options, f"{PLAN}target.file.max.bytes": size}
    before = content(filled)
    with local_client(filled, given) as client:
        found = client.explain_clustering()
    assert content(filled) == before
    assert list(found.overlap_before) == list(stats.overlap(str(filled), ["ts", "fare"]))
    assert [one.column for one in found.overlap_after] == ["ts", "fare"]
    assert {one.source for one in found.overlap_after} == {"estimated from column statistics"}
    first, second = (one.mean_depth for one in found.overlap_before)
    assert first is not None and second is not None and min(first, second) > 2.5
    told = [one.mean_depth or 0 for one in found.overlap_after]
    assert f"; a value of ts lies in {first:.1f} files, then in about {told[0]:.1f}; a value of fare" in str(found)
    if not options:
        assert told[0] == 1.0 < 2 < told[1]
    else:
        assert 1 < max(told) < 2


def test_an_order_that_is_carried_out_has_the_estimated_overlap(filled: Path) -> None:
    given = {**MANY_FILES, **SORTED}
    with local_client(filled, given) as client:
        found = client.explain_clustering()
        client.cluster()
    now = stats.overlap(str(filled), ["ts", "fare"])
    assert [one.mean_depth for one in now] == [one.mean_depth for one in found.overlap_after] == [1.0, 1.0]
    assert [one.file_count for one in now] == [one.file_count for one in found.overlap_after] == [2, 2]


def test_without_sort_columns_nothing_is_told_of_overlaps(filled: Path) -> None:
    with local_client(filled, MANY_FILES) as client:
        found = client.explain_clustering()
    assert (found.files_before, found.overlap_before, found.overlap_after) == (7, (), ())
    assert "lies in" not in str(found)
