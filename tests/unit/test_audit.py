""".ci/audit tells what is wrong with the environment, without a network."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "audit"

pytest.importorskip("packaging")


def audit(constraints: Path) -> list[str]:
    done = subprocess.run([sys.executable, str(AUDIT), str(constraints)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("line", ["pyarrow", "pyarrow>=17", "pyarrow==17; python_version > '3'", "pyarrow==*"])
def test_a_constraint_that_pins_nothing_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "constraints.txt").write_text(f"{line}\n")
    assert f"{tmp_path / 'constraints.txt'}: '{line}' is no pin: name==version" in audit(tmp_path / "constraints.txt")


def test_a_release_that_is_not_the_pinned_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("pyarrow==1.0.*\n")
    version = metadata.version("pyarrow")
    expected = f"pyarrow {version} is installed, and {tmp_path / 'constraints.txt'} says pyarrow==1.0.*"
    assert expected in audit(tmp_path / "constraints.txt")


@pytest.mark.parametrize("name", ["constraints-spark4.txt", "constraints-spark35.txt"])
def test_the_constraints_of_this_repository_are_pins(name: str) -> None:
    assert not [line for line in audit(AUDIT.parent / name) if "is no pin" in line]


def test_no_known_bad_release_is_needed_by_hoodie() -> None:
    bad = [line for line in audit(AUDIT.parent / "constraints-spark4.txt") if "CVE" in line]
    assert not [line for line in bad if line.split()[0] in ("pyarrow", "avro", "pyspark")]
