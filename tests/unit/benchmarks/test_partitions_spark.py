"""The inputs of `benchmarks.partitions_spark`, and its goals."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from benchmarks.measure import Timing
from benchmarks.partitions_spark import MANY, ONE, PARQUET, in_turns, rows_of, updates_of, verdict_on


def test_updates_are_newer_rows_of_all_partitions() -> None:
    rows = rows_of(60, 20)
    updates = updates_of(rows, 20)
    assert updates["id"].to_pylist() == list(range(20))
    assert len(updates["p"].unique()) == len(rows["p"].unique()) == 20
    assert updates["p"].to_pylist() == rows["p"].slice(0, 20).to_pylist()
    assert pc.min(updates["ts"]).as_py() > pc.max(rows["ts"]).as_py()
    assert updates.schema == rows.schema


def test_calls_take_turns_and_a_first_round_does_not_count() -> None:
    done: list[str] = []
    calls = [
        (name, lambda name=name: done.append(f"prepare {name}"), lambda name=name: done.append(name)) for name in "ab"
    ]
    found = in_turns(calls, 2)
    assert done == ["prepare a", "a", "prepare b", "b"] * 3
    assert {name: (len(timing.seconds), len(timing.cpu)) for name, timing in found.items()} == {
        "a": (2, 2),
        "b": (2, 2),
    }


@pytest.mark.parametrize(
    ("part", "many", "verdict"),
    [
        ("write", 20.0, "2.00 times one partition; 5.0 ms for each partition above 1.5 times; goal: {}: met"),
        ("write", 20.1, "2.01 times one partition; 5.1 ms for each partition above 1.5 times; goal: {}: missed"),
        ("upsert", 20.0, "2.00 times one partition; 5.0 ms for each partition above 1.5 times"),
        ("count", 16.0, "2.00 times plain Parquet; goal 2: met"),
        ("count", 17.0, "2.12 times plain Parquet; goal 2: missed"),
    ],
)
def test_a_part_is_compared_with_one_partition_or_with_parquet(part: str, many: float, verdict: str) -> None:
    found = {MANY: Timing(MANY, [many]), ONE: Timing(ONE, [10.0]), PARQUET: Timing(PARQUET, [8.0])}
    assert verdict_on(part, found, 1000) == verdict.format("1.5 times one partition and 5 ms for each")
