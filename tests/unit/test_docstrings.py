"""The wording of docstrings: the first sentence names its subject."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodie

ROOT = Path(hoodie.__file__).parent
PACKAGES = tuple(sorted(path.parent.name for path in ROOT.glob("*/__init__.py")))
HEADLESS = re.compile(r"(What|Those|That of|How|Which|Where|Who|When|Of|As|None of)\b")
"""Words that begin a docstring in place of a noun or verb."""
PARAMETER = re.compile(r"\s+\w+: (What|Those|That of|How|Which|Where|Who|When|Of)\b")
"""Likewise the description of a parameter, an attribute or an error."""


def modules_of(package: str) -> list[Path]:
    """The modules of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a module, of its classes and of its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_begins_without_its_subject(package: str) -> None:
    """It is "The properties of a table", not "What a table says of itself"."""
    paths = modules_of(package)
    assert paths
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in paths
        for line, text in docstrings(path)
        if HEADLESS.match(text)
    ]
    assert not found, "name the thing first:\n" + "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_description_of_a_parameter_begins_without_its_subject(package: str) -> None:
    """It is "storage: The storage of the table", not "storage: Where the table is"."""
    found = [
        f"{path.relative_to(ROOT)}:{line + number}: {part.strip()}"
        for path in modules_of(package)
        for line, text in docstrings(path)
        for number, part in enumerate(text.splitlines())
        if PARAMETER.match(part)
    ]
    assert not found, "name the thing first:\n" + "\n".join(found)
