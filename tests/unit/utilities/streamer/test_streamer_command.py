"""The command in processes of its own: exit codes, signals, deaths."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import hoodie
from hoodie.client.open_or_create import find_writable_table
from tests.support.table_builder import write_config

REPOSITORY = Path(__file__).parents[4]
SOURCE = '''
import pyarrow as pa

class Rows:
    """Rows that never end: the position is the number of the next one."""

    def __init__(self, properties):
        self.last = int(properties.get("last", 10**9))

    def fetch(self, position, limit):
        first = int(position or 0)
        count = max(0, min(limit or 3, self.last - first))
        numbers = list(range(first, first + count))
        rows = pa.table({"id": [str(n % 50) for n in numbers], "region": ["x"] * count, "ts": numbers})
        return (rows if count else None), str(first + count)
'''
POSITION = "deltastreamer.checkpoint.key"
FLAGS = [
    "--source-class", "my_rows:Rows", "--record-key", "id", "--partition", "region", "--ordering", "ts",
]  # fmt: skip


def start(folder: Path, words: Sequence[str], module: str = "hoodie.cli.main") -> subprocess.Popen[str]:
    (folder / "my_rows.py").write_text(SOURCE)
    path = os.pathsep.join([str(folder), str(REPOSITORY)])
    code = "from hoodie.cli.main import main; main()" if module == "hoodie.cli.main" else None
    call = [sys.executable, "-c", code, "streamer"] if code else [sys.executable, "-m", module]
    return subprocess.Popen(
        [*call, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def newest(path: Path) -> dict[str, str]:
    snapshot = find_writable_table(write_config(str(path)))
    if snapshot is None:
        return {}
    timeline = snapshot.active_timeline
    # Commits of compactions hold no position.
    found = (
        timeline.read_commit_metadata(one).extra_metadata for one in reversed(timeline.completed_writes().instants)
    )
    return next((dict(extra) for extra in found if POSITION in extra), {})


def wait_for_commits(path: Path, process: subprocess.Popen[str], position: int) -> None:
    for _ in range(2400):
        if process.poll() is not None or int(newest(path).get("deltastreamer.checkpoint.key", 0)) >= position:
            return
        time.sleep(0.025)
    raise AssertionError("no commit in a minute")


def expected(position: int) -> list[tuple[str, int]]:
    """The rows of a table whose source was read up to a position."""
    newest_of = {str(number % 50): number for number in range(position)}
    return sorted(newest_of.items())


def rows(path: Path) -> list[tuple[str, int]]:
    table = hoodie.read_table(str(path), columns=["id", "ts"]).to_pylist()
    return sorted((row["id"], row["ts"]) for row in table)


def check(path: Path) -> None:
    """Every row up to the position once, and none after it."""
    assert rows(path) == expected(int(newest(path)["deltastreamer.checkpoint.key"]))


def test_the_command_writes_and_tells_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "t"
    process = start(tmp_path, [str(path), *FLAGS])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.startswith("committed ")
    assert "3 rows; position '3'" in out
    check(path)


def test_the_module_is_the_same_command(tmp_path: Path) -> None:
    path = tmp_path / "t"
    process = start(tmp_path, [str(path), *FLAGS, "--hoodie-conf", "last=0"], "hoodie.utilities.streamer")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "nothing was committed" in out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--help"], 0, "--target-base-path"),
        ([], 0, "hoodie streamer PATH"),
        (["/t", "--no-such-flag"], 2, "nearest: "),
        (["/t", "--source-class", "NoSuchSource"], 2, "there is no such class"),
        (["/t", "--source-class", "PulsarSource"], 2, "Pulsar is not read"),
    ],
)
def test_exit_codes_of_calls_that_write_nothing(tmp_path: Path, words: list[str], code: int, told: str) -> None:
    for module in ("hoodie.cli.main", "hoodie.utilities.streamer"):
        process = start(tmp_path, words, module)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        assert told in out + err
        assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_round_and_leaves_0(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "t"
    process = start(tmp_path, [str(path), *FLAGS, "--continuous"])
    wait_for_commits(path, process, 6)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    assert len(snapshot.active_timeline.filter_pending()) == 0
    check(path)


def kill_and_go_on(folder: Path, seed: int, table_type: str, kills: int) -> None:
    """Kill runs at random moments; the last one, which lives, leaves every row once."""
    path = folder / "t"
    chosen = random.Random(seed)
    services = [
        "--hoodie-conf", "hoodie.keep.min.commits=4", "--hoodie-conf", "hoodie.keep.max.commits=6",
        "--hoodie-conf", "hoodie.cleaner.commits.retained=2",
        "--hoodie-conf", "hoodie.compact.inline.max.delta.commits=3",
    ]  # fmt: skip
    words = [str(path), *FLAGS, "--table-type", table_type, "--continuous", *services]
    for _ in range(kills):
        process = start(folder, words)
        wait_for_commits(path, process, int(newest(path).get("deltastreamer.checkpoint.key", 0)) + 3)
        time.sleep(chosen.random() * 0.4)
        process.kill()
        process.communicate()
    last = int(newest(path)["deltastreamer.checkpoint.key"]) + 7
    end = ["--hoodie-conf", f"last={last}", "--post-write-termination-strategy-class", "NoNewDataTerminationStrategy"]
    process = start(folder, [*words, *end])
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert newest(path)["deltastreamer.checkpoint.key"] == str(last)
    check(path)


def test_runs_that_are_killed_lose_and_double_no_row(tmp_path: Path) -> None:
    kill_and_go_on(tmp_path, 1, "COPY_ON_WRITE", kills=5)


def test_runs_on_a_merge_on_read_table_that_are_killed_lose_and_double_no_row(tmp_path: Path) -> None:
    kill_and_go_on(tmp_path, 2, "MERGE_ON_READ", kills=5)


@pytest.mark.soak
def test_many_runs_that_are_killed_lose_and_double_no_row(tmp_path: Path) -> None:
    for seed in range(70):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kill_and_go_on(folder, 1000 + seed, ["COPY_ON_WRITE", "MERGE_ON_READ"][seed % 2], kills=3)


@pytest.mark.soak
def test_many_signals_always_finish_the_round(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "t"
        process = start(folder, [str(path), *FLAGS, "--continuous"])
        wait_for_commits(path, process, 3)
        time.sleep(number * 0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        check(path)
