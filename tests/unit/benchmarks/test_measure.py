"""The profile of a benchmark: medians by step, shares, and what is in no step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import measure
from benchmarks.measure import Timing, describe_machine, steps_of, timed, write_json
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


def test_the_load_is_told_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 0.5, 9.0))
    machine = describe_machine("pyarrow")
    assert machine.endswith(", load 1.2 (0.5 over 5 minutes)")
    monkeypatch.setattr(os, "getloadavg", lambda: (7.0, 3.0, 9.0))
    path = tmp_path / "figures.json"
    write_json(str(path), machine, {}, [], peak_mb={"create": 3.0})
    figures = json.loads(path.read_text())
    assert (figures["machine"], figures["load_after"]) == (machine, "load 7.0 (3.0 over 5 minutes)")
    assert figures["peak_mb"] == {"create": 3.0}


def test_programs_that_print_the_machine_print_its_load_at_the_end() -> None:
    programs = {path.name: path.read_text() for path in Path(measure.__file__).parent.glob("*.py")}
    describing = {name for name, text in programs.items() if "describe_machine(" in text and name != "measure.py"}
    assert {"spark_upsert.py", "local_upsert.py", "upsert_floor.py", "scaling.py", "memory.py"} < describing
    assert {name for name in describing if "describe_load()" not in programs[name]} == set()


def test_processor_time_is_that_of_the_given_clock() -> None:
    ticks = iter([1.0, 4.0, 10.0, 12.0])
    assert timed("work", 2, lambda: None, lambda: None, lambda: next(ticks)).cpu == [3.0, 2.0]


def test_processor_time_is_told_by_kind_of_process(tmp_path: Path) -> None:
    # A session of its own: a process with the name of the JVM, and one with the command line of a worker.
    java = tmp_path / "java"
    java.symlink_to(sys.executable)
    program = '''
import json, subprocess, sys, time
from benchmarks.measure import cpu_by_kind, cpu_seconds
burn = """import time
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
print(1, flush=True)
time.sleep(60)"""
jvm = subprocess.Popen([sys.argv[1], "-c", burn], stdout=subprocess.PIPE)
worker = subprocess.Popen([sys.executable, "-c", burn, "pyspark" + ".daemon"], stdout=subprocess.PIPE)
for child in (jvm, worker):
    child.stdout.readline()
print(json.dumps([cpu_by_kind(), cpu_seconds()]))
jvm.kill(), worker.kill()
'''
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
    call = [sys.executable, "-c", program, str(java)]
    done = subprocess.run(call, capture_output=True, text=True, check=True, start_new_session=True, env=environment)
    kinds, whole = json.loads(done.stdout)
    assert set(kinds) == {"JVM", "workers", "Python"}
    assert min(kinds["JVM"], kinds["workers"]) >= 0.15
    assert whole >= sum(kinds.values())


def test_a_timing_keeps_the_kinds_of_processor_time() -> None:
    timing = Timing("upsert", [])
    for cpu in ({"JVM": 1.0, "workers": 2.0}, {"JVM": 3.0}, {"JVM": 5.0, "workers": 4.0}):
        timing.add(1.0, cpu, [])
    assert timing.cpu == [3.0, 3.0, 9.0]
    assert timing.median_kinds == {"JVM": 3.0, "workers": 2.0}
    assert timing.to_json()["cpu_kinds"] == {"JVM": 3.0, "workers": 2.0}
    assert "cpu_kinds" not in Timing("upsert", [1.0]).to_json()
