"""The page of the quickstart, run as it is printed: the tab without Spark."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.page_programs import read_page, run_tabs

PAGE = read_page("quickstart.md")


def test_the_python_tab_prints_what_the_page_says(tmp_path: Path) -> None:
    assert run_tabs("quickstart.md", ["python"], tmp_path, {}) == PAGE.count("<!-- tab: python -->") == 9


def test_each_step_is_shown_in_each_tab() -> None:
    for section in PAGE.split("\n## ")[1:-1]:
        assert re.findall(r"^\*\*(\w+)\*\*$", section, re.MULTILINE) == ["Python", "Spark"], section
