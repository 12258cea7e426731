"""The README: its programs run as they are printed, one after the other, and can be run again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.page_programs import programs_of, read_page
from tests.support.table_builder import read_rows

README = "../README.md"
PAGE = read_page(README)
COLUMNS = ["uuid", "city", "ts", "fare"]
pytestmark = pytest.mark.table_version(9)


def test_the_programs_of_the_readme_do_what_they_say_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    base_path = tmp_path / "trips"
    programs = programs_of(README, ["python"])
    assert len(programs) == PAGE.count("```python") == 2
    for _ in range(2):
        names: dict[str, Any] = {}
        for program in programs:
            exec(compile(program.replace("/tmp/trips", str(base_path)), "README.md", "exec"), names)
        printed = capsys.readouterr().out
        for text in ("1 inserted, 1 updated", "uuid: string", "3 rows, ", "UPSERT_PREPPED", "0 findings"):
            assert text in printed, text
        assert printed.splitlines().count("3") == 2
        assert read_rows(base_path, COLUMNS) == [
            ("b", "sf", 2, 28.0),
            ("c", "rome", 1, 33.9),
            ("d", "rome", 2, 9.5),
        ]
    assert caplog.text == "", "a program warns"


def test_what_is_not_there_is_said_and_found_from_the_top() -> None:
    top = PAGE.split("\n## ")[0]
    assert "(docs/coming-from-hudi.md)" in top and "(#not-supported-yet)" in top
    section = PAGE.split("\n## Not supported yet\n")[1].split("\n## ")[0]
    for word in ("expression indexes", 'format("hudi")', "Hive", "metadata table", "Clustering"):
        assert word in section, word
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert len(rows) > 10 and all(len(row) == 2 and row[1].strip() for row in rows), "nothing stands instead"


def test_no_program_changes_what_later_ones_use() -> None:
    for program in programs_of(README, ["python"])[1:]:
        assert not re.search(r"^(base_path|trips|morning) = ", program, re.MULTILINE)


def test_each_page_of_docs_is_found_from_the_readme() -> None:
    docs = Path(__file__).parents[2] / "docs"
    linked = {target for target in re.findall(r"\]\(docs/([\w/-]+\.md)", PAGE)}
    assert linked >= {page.name for page in docs.glob("*.md")}
