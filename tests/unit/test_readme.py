"""The programs of the README that need no Spark and no store run as they are printed, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.table_builder import read_rows

PAGE = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ELSEWHERE = ("import hoodie.spark", "s3://")
COLUMNS = ["uuid", "city", "ts", "fare"]


def test_the_programs_of_the_readme_do_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    base_path = tmp_path / "trips"
    first, by_client, second, third = (one for one in PROGRAMS if not any(word in one for word in ELSEWHERE))
    assert 'base_path = "/tmp/trips"' in first
    names: dict[str, Any] = {}
    exec(compile(first.replace("/tmp/trips", str(base_path)), "README.md", "exec"), names)
    printed = capsys.readouterr().out
    for text in ("1 inserted, 1 updated", "uuid: string", "\n3\n", "3 rows, ", "UPSERT_PREPPED"):
        assert text in printed, text
    assert read_rows(base_path, COLUMNS) == [
        ("b", "sf", 2, 28.0),
        ("c", "rome", 1, 33.9),
        ("d", "rome", 2, 9.5),
    ]
    exec(compile(by_client, "README.md", "exec"), names)
    assert names["result"].updated_count == 1
    exec(compile(second, "README.md", "exec"), names)
    assert read_rows(base_path, COLUMNS) == [
        ("b", "sf", 2, 28.5),
        ("c", "rome", 1, 33.9),
        ("d", "rome", 2, None),
    ]
    exec(compile(third, "README.md", "exec"), names)
    moved = [("b", "sf", 2, 28.5), ("c", "rome", 1, 1.0), ("d", "sf", 3, 11.0)]
    assert read_rows(base_path, COLUMNS) == moved
    assert "would rewrite" in capsys.readouterr().out
    assert caplog.text == "", "a program warns"


def test_what_is_not_there_is_said_and_found_from_the_top() -> None:
    top = PAGE.split("\n## ")[0]
    assert "(docs/coming-from-hudi.md)" in top and "(#not-supported-yet)" in top
    section = PAGE.split("\n## Not supported yet\n")[1].split("\n## ")[0]
    for word in ("Change data capture", 'format("hudi")', "Hive", "metadata table", "clustering", "compaction"):
        assert word in section, word


def test_no_program_of_the_readme_changes_what_later_ones_use() -> None:
    for program in PROGRAMS[1:]:
        assert not re.search(r"^(base_path|trips|morning) = ", program, re.MULTILINE)
    assert sum(bool(re.search(r"^config = ", program, re.MULTILINE)) for program in PROGRAMS) == 1
