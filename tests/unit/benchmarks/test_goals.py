"""Goals stand beside the figures of the same run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from benchmarks import upsert_floor
from benchmarks.goals import Goal, goal_lines
from benchmarks.local_read import compared
from benchmarks.local_upsert import CHANGES, SAME_AS_HUDI_RS, UPSERTS, goals_of
from benchmarks.measure import Timing
from benchmarks.upsert_floor import spark_line

TIMINGS = [Timing("ours", [1.0, 2.0, 4.0]), Timing("floor", [1.0]), Timing("peer", [7.0])]


def line_of(goal: Goal) -> str:
    (line,) = goal_lines([goal], TIMINGS)
    return " ".join(line.split())


@pytest.mark.parametrize(
    ("goal", "line"),
    [
        (Goal("ours", 2.0, "floor"), "ours 2.000 s 2.00 x floor goal 2: met"),
        (Goal("ours", 1.9, "floor"), "ours 2.000 s 2.00 x floor goal 1.9: missed"),
        (Goal("ours", 3, "peer", is_speedup=True), "ours 2.000 s 3.50 x faster peer goal 3: met"),
        (Goal("ours", 4, "peer", is_speedup=True), "ours 2.000 s 3.50 x faster peer goal 4: missed"),
        (Goal("ours", 2.5), "ours 2.000 s seconds goal 2.5: met"),
        (Goal("ours", 1.5), "ours 2.000 s seconds goal 1.5: missed"),
    ],
)
def test_a_goal_has_its_ratio_and_whether_it_is_met(goal: Goal, line: str) -> None:
    assert line_of(goal) == line


def test_goals_without_their_timings_are_left_out() -> None:
    assert list(goal_lines([Goal("ours", 2.0, "absent"), Goal("absent", 1.0)], TIMINGS)) == []


def test_every_write_beside_hudi_rs_has_a_goal() -> None:
    goals = {goal.name: (goal.limit, goal.beside) for goal in goals_of(1000) if goal.is_speedup}
    for name in UPSERTS:
        assert goals[f"hoodie {name} ({SAME_AS_HUDI_RS})"] == (3, f"hudi-rs {name}")
    for name in CHANGES:
        assert goals[f"hoodie {name} ({SAME_AS_HUDI_RS})"] == (2, f"hudi-rs {name}")
    for work in ("create", "upsert", "upsert of one row", "compaction"):
        name = f"hudi-rs merge-on-read {work}"
        assert goals[f"hoodie merge-on-read {work} ({SAME_AS_HUDI_RS})"] == (3, name)


def test_a_read_is_compared_with_hudi_rs_and_its_memory_with_the_result() -> None:
    line = {"first": 0.6, "later": 0.2, "peak": 300.0, "result": 200.0}
    assert compared("all columns", line, {"first": 0.5, "later": 0.25}) == [
        "first 1.20 x hudi-rs, goal 1: missed",
        "later 0.80 x hudi-rs, goal 1: met",
        "peak 1.50 x the result, goal 1.2: missed",
    ]
    assert compared("two columns", line | {"result": 1.0}, None, {"later": 0.1}) == ["later 2.00 x pyarrow (floor)"]
    assert compared("one key", line | {"result": 0.0}, None) == ["later 0.200 s, goal 0.06: missed"]
    assert compared("two columns", line | {"result": 1.0}, None) == []


def test_spark_is_compared_with_the_floor_and_with_the_process_of_its_run() -> None:
    floor, ours, spark = Timing("floor", [1.0]), Timing("hoodie", [2.0]), Timing("spark", [3.0])
    assert spark_line(0.1, floor, ours, spark).endswith("1.50 x hoodie   goal: at most 2.5 x pyarrow: missed")
    assert spark_line(1.0, floor, ours, spark).endswith("1.50 x hoodie   goal: at most 2.5 x hoodie: met")
    assert spark_line(0.5, floor, ours, spark).endswith("3.00 x floor    1.50 x hoodie")


def test_timings_of_spark_are_found_by_their_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = [
        (f"upsert {fraction} (SIMPLE)", seconds, {"JVM": seconds, "workers": 1.0}, [])
        for seconds in (2.0, 4.0)
        for fraction in ("0.1", "1")
    ]
    monkeypatch.setattr(upsert_floor, "run_child", lambda *arguments: iter(printed))
    found = upsert_floor.time_spark("folder", 2)
    assert {fraction: (timing.seconds, timing.cpu) for fraction, timing in found.items()} == {
        "0.1": ([2.0, 4.0], [3.0, 5.0]), "1": ([2.0, 4.0], [3.0, 5.0]),
    }  # fmt: skip
