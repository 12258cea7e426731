"""The page about merge-on-read tables, run as it is printed."""

from __future__ import annotations

from pathlib import Path

from tests.support.page_programs import run_tabs


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    assert run_tabs("merge-on-read.md", ["python"], tmp_path, {}) == 3
