"""The profile of a benchmark: medians by step, shares, and what is in no step."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from benchmarks.measure import Timing, steps_of, timed, write_json
from hoodie.metrics.metrics import StepDuration


def steps(*entries: tuple[str, int, float]) -> list[dict[str, object]]:
    return steps_of(
        SimpleNamespace(steps=[StepDuration(name, seconds, depth=depth) for name, depth, seconds in entries])
    )


def test_a_profile_has_each_steps_median_and_share_in_the_order_of_the_walk() -> None:
    runs = [
        steps(("read", 0, 1.0), ("commit", 0, 0.5), ("delete markers", 1, 0.1)),
        steps(("read", 0, 3.0), ("combine", 0, 1.0), ("commit", 0, 0.5), ("delete markers", 1, 0.3)),
        steps(("read", 0, 2.0), ("combine", 0, 3.0), ("commit", 0, 0.5), ("delete markers", 1, 0.2)),
    ]
    profile = Timing("upsert", [4.0, 6.0, 5.0], runs).profile
    assert [(e["step"], e["depth"], e["seconds"], e["share"]) for e in profile] == [
        ("read", 0, 2.0, 0.4),
        ("combine", 0, 1.0, 0.2),
        ("commit", 0, 0.5, 0.1),
        ("delete markers", 1, 0.2, 0.04),
        ("", 0, 1.5, 0.3),
    ]


def test_what_has_no_steps_has_no_profile() -> None:
    timing = timed("nothing", 2, lambda: None, lambda: None)
    assert timing.profile == []
    assert timing.profile_lines() == []
    assert len(timing.seconds) == 2


def test_the_figures_are_written_with_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_json(str(path), "a machine", {"rows": 3}, [Timing("upsert", [2.0], [steps(("read", 0, 1.0))])])
    figures = json.loads(path.read_text())
    assert figures["sizes"] == {"rows": 3}
    assert figures["timings"][0]["median_seconds"] == 2.0
    assert [entry["title"] for entry in figures["timings"][0]["profile"]] == ["read", "outside of steps"]
