"""The page of the write clients: its programs without Spark run as they are printed, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.page_programs import programs_of
from tests.support.table_builder import read_rows

PAGE = "write-clients.md"
PROGRAMS = programs_of(PAGE, ["python"])
COLUMNS = ["uuid", "city", "ts", "fare"]


def test_the_programs_of_the_page_do_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    base_path = tmp_path / "trips"
    first, second, third = PROGRAMS
    assert 'base_path = "/tmp/trips"' in first
    names: dict[str, Any] = {}
    exec(compile(first.replace("/tmp/trips", str(base_path)), PAGE, "exec"), names)
    assert "1 inserted, 1 updated" in capsys.readouterr().out
    assert read_rows(base_path, COLUMNS) == [
        ("a", "sf", 1, 19.1),
        ("b", "sf", 2, 28.0),
        ("c", "rome", 1, 33.9),
        ("d", "rome", 2, 9.5),
    ]
    exec(compile(second, PAGE, "exec"), names)
    assert read_rows(base_path, COLUMNS) == [
        ("a", "sf", 1, 19.1),
        ("b", "sf", 2, 28.5),
        ("c", "rome", 1, 33.9),
        ("d", "rome", 2, None),
    ]
    exec(compile(third, PAGE, "exec"), names)
    moved = [("a", "sf", 1, 19.1), ("b", "sf", 2, 28.5), ("c", "rome", 1, 1.0), ("d", "sf", 3, 11.0)]
    assert read_rows(base_path, COLUMNS) == moved
    assert "would rewrite" in capsys.readouterr().out
    assert caplog.text == "", "a program warns"


def test_no_program_changes_what_later_ones_use() -> None:
    for program in PROGRAMS[1:]:
        assert not re.search(r"^(base_path|morning|config) = ", program, re.MULTILINE)
