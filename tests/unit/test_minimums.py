"""The environment of minimums has what setup.cfg declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def minimums(folder: Path) -> list[str]:
    program = [sys.executable, str(folder / ".ci" / "minimums")]
    return subprocess.run(program, capture_output=True, text=True, check=False).stdout.splitlines()


def copied(folder: Path, old: str, new: str) -> Path:
    """The files that are compared, with a change in setup.cfg."""
    (folder / ".ci").mkdir()
    for name in (".ci/minimums", ".ci/constraints-minimums.txt", "setup.cfg"):
        (folder / name).write_text((REPOSITORY / name).read_text())
    text = (folder / "setup.cfg").read_text()
    assert old in text
    (folder / "setup.cfg").write_text(text.replace(old, new))
    return folder


def test_each_pin_is_a_declared_minimum() -> None:
    assert minimums(REPOSITORY) == ["constraints-minimums.txt holds the declared minimums"]


def test_a_minimum_that_is_raised_is_told(tmp_path: Path) -> None:
    folder = copied(tmp_path, "pyarrow>=17", "pyarrow>=18")
    expected = "pyarrow: setup.cfg declares 18.0.0 as the minimum, constraints-minimums.txt has 17.0.0"
    assert minimums(folder) == [expected]


def test_a_dependency_without_a_pin_is_told(tmp_path: Path) -> None:
    folder = copied(tmp_path, "    attrs>=23.2\n", "    attrs>=23.2\n    orjson>=3\n")
    expected = "orjson: setup.cfg declares 3.0.0 as the minimum, constraints-minimums.txt has None"
    assert minimums(folder) == [expected]
