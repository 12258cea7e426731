"""The page of `hoodie.Table`: its programs run, and its table of methods is that of the class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hoodie import Table
from tests.support.page_programs import programs_of, read_page

PAGE = read_page("table.md")
pytestmark = pytest.mark.table_version(9)


def test_the_programs_of_the_page_do_what_they_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    programs = programs_of("table.md", ["python"])
    assert len(programs) == PAGE.count("<!-- tab: python -->") == 8
    for program in programs:
        exec(compile(program.replace("/tmp/", f"{tmp_path}/"), "docs/table.md", "exec"), names)
    printed = capsys.readouterr().out
    summaries = ("1 inserted, 1 updated", "1 inserted, 1 updated, 1 deleted")
    for text in (
        *summaries,
        "read, of 1 partition",
        "4 rows, ",
        "record key",
        "0 findings",
        "would erase 1 row in 1 file group",
    ):
        assert text in printed, text


def test_the_page_names_every_method_once() -> None:
    section = PAGE.split("\n## All methods\n")[1]
    named = re.findall(r"`(\w+)`", "\n".join(line for line in section.splitlines() if line.startswith("| ")))
    public = [name for name in dir(Table) if not name.startswith("_")]
    assert sorted(named) == public
