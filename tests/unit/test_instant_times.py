""".ci/instant_times finds comparisons of instant times outside of the timeline's package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / ".ci" / "instant_times"


def found(*paths: Path) -> list[str]:
    done = subprocess.run([sys.executable, str(CHECK), *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.stderr == "" and done.returncode == bool(done.stdout)
    return [line.rsplit(": ", 2)[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        "instant.requested_time < other",
        "'' < plan.earliest.timestamp",
        "start <= name.instant_time <= end",
        "max(instant.requested_time for instant in instants)",
        "min(completed - timeline.savepoint_times, default='')",
        "sorted(found, key=lambda instant: (instant.is_pending, instant.requested_time))",
        "bisect.bisect_left(instant_times, wanted)",
        "[time for time in sorted(others)]",
        "timeline.newest_archived_time() > start",
        "(stat.prev_commit or '') > start",
    ],
)
def test_a_comparison_of_instant_times_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(f"x = 1\n{line}\n")
    assert found(tmp_path / "module.py") == [f"{tmp_path / 'module.py'}:2"]


def test_a_name_that_a_function_gives_to_an_instant_time_counts(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("def f(i, x):\n    first = i.requested_time\n    return x < first\n")
    assert found(tmp_path / "module.py") == [f"{tmp_path / 'module.py'}:3"]


@pytest.mark.parametrize(
    "line",
    [
        "instant.requested_time == other",
        "instant.requested_time in completed",
        "time.time() > deadline",
        "len(instant_time) >= 17",
        "status.modification_time_ms > limit_ms",
        "is_before(instant.requested_time, start)",
    ],
)
def test_other_comparisons_are_left_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(f"{line}\n")
    assert found(tmp_path / "module.py") == []


def test_hoodie_compares_instant_times_in_one_package() -> None:
    assert found() == []
