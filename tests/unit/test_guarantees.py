"""The tests that ``docs/guarantees.md`` names are there, and no accident of Hudi's history is without one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
SCENARIOS = "tests/unit/client/test_scenarios_of_history.py"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))))


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the test functions of a module, in classes too."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_the_page_names_exists(file: str) -> None:
    assert {name for other, name in NAMED if other == file} <= functions_of(file)


def test_every_promise_names_a_test() -> None:
    promises = PAGE.read_text(encoding="utf-8").split("## Promises")[1].split("## On which storage")[0]
    blocks = re.split(r"^\*\*", promises, flags=re.MULTILINE)[1:]
    assert len(blocks) >= 9
    for block in blocks:
        assert "`tests/" in block or "](security.md)" in block, block[:80]


def test_every_scenario_of_history_stands_on_the_page() -> None:
    assert functions_of(SCENARIOS) == {name for file, name in NAMED if file == SCENARIOS}


def test_every_row_of_the_accidents_names_a_test() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Accidents")[1].split("\n## ")[0]
    accidents = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(accidents) >= 15
    assert all("`tests/" in line for line in accidents)
