"""The site of the pages (mkdocs.yml): its menu has every page, and the API reference every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hoodie
from hoodie import exception, spark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
MENU = re.findall(r"(?:^ +- |: )([\w/-]+\.md)$", CONFIG.split("\nnav:\n")[1], re.MULTILINE)
FROM_OUTSIDE = {"index.md", "changes.md", "results.md"}
SHOWN = [
    name for page in (DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
]


def test_the_menu_has_every_page_once() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    records = {page for page in pages if re.match(r"decisions/\d", page)}
    assert sorted(MENU) == sorted(FROM_OUTSIDE | (pages - records))


def test_the_pages_from_outside_are_those_that_the_hook_adds() -> None:
    hook = (ROOT / ".ci/site.py").read_text(encoding="utf-8")
    added = dict(re.findall(r'"([\w/]+\.md)": "(\w+\.md)"', hook))
    assert set(added.values()) == FROM_OUTSIDE
    assert all((ROOT / page).is_file() for page in added)


def test_the_api_reference_shows_every_public_name_once() -> None:
    assert "hoodie.exception" in SHOWN, "all errors stand in one module"
    of_package = {f"hoodie.{name}" for name in set(hoodie.__all__) - set(exception.__all__)}
    of_spark = {f"hoodie.spark.{name}" for name in spark.__all__}
    assert len(SHOWN) == len(set(SHOWN))
    assert of_package | of_spark <= set(SHOWN)


@pytest.mark.parametrize("name", ["hoodie.metadata", "hoodie.stats", "hoodie.plot", "hoodie.table.repair"])
def test_the_api_reference_shows_public_modules_whole(name: str) -> None:
    assert name in SHOWN
