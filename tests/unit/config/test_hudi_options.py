"""The page of all of Hudi's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.common.config.property import all_keys
from hoodie.config.hudi_keys import KeyClass, load_hudi_keys
from hoodie.config.write_config import GROUPS
from tests.support.hudi_options_page import load_hudi_defaults, render

PAGE = Path(__file__).parents[3] / "docs" / "hudi-options.md"


def rows(section: str) -> dict[str, list[str]]:
    text = render().split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]
    return {entry[0].strip("`"): entry[1:] for entry in cells}


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run: python -m tests.support.hudi_options_page > docs/hudi-options.md"
    )


def test_every_option_stands_in_the_table_of_its_class() -> None:
    for kind in KeyClass:
        expected = {key for key, entry in load_hudi_keys().items() if entry.key_class is kind}
        assert set(rows(str(kind))) == expected
    assert set(rows("Options that only hoodie has")) == {
        key for key, prop in all_keys(GROUPS.values()).items() if prop.is_ours
    }


def test_defaults_are_of_options_that_hudi_has() -> None:
    assert set(load_hudi_defaults()) <= set(load_hudi_keys())


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        ("hoodie.parquet.max.file.size", ["0.15, 1.x", "`125829120`", "`125829120`", "`125829120`", ""]),
        ("hoodie.datasource.write.precombine.field", ["0.15, 1.x", "`ts`", "", "the table's"]),
        ("hoodie.auto.commit", ["0.15", "`true`", "", "`true`", ""]),
        ("hoodie.parquet.compression.codec", ["0.15, 1.x", "`gzip`", "`gzip`", "**`snappy`**"]),
        ("hoodie.index.bloom.fpp", ["0.15, 1.x", "`0.000000001`", "`0.000000001`", "`1e-09`"]),
    ],
)
def test_a_used_option_shows_the_defaults_of_both_sides(key: str, cells: list[str]) -> None:
    assert rows("used")[key][: len(cells)] == cells


@pytest.mark.parametrize("section", ["refused", "ignored"])
def test_a_refused_or_ignored_option_says_why(section: str) -> None:
    assert all(len(cells) >= 5 and cells[-1] for cells in rows(section).values())


def test_each_refused_option_has_its_own_way_out() -> None:
    ways_out = [cells[-1] for cells in rows("refused").values()]
    assert len(set(ways_out)) == len(ways_out)
