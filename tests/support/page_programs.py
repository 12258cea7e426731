"""The programs of a page of docs, with what they print."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

_STEP = re.compile(
    r"^<!-- tab: (?P<tab>\w+) -->\n```python\n(?P<program>.*?)^```\n(?:```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


def read_page(name: str) -> str:
    """The text of a page of docs."""
    return (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")


def run_tabs(page: str, tabs: Collection[str], folder: Path, names: Mapping[str, Any]) -> int:
    """Run the programs of some tabs in the order of the page, and compare what they print with it.

    Args:
        page: The name of the page.
        tabs: The names of the tabs on the page.
        folder: Takes the place of ``/tmp``.
        names: What the first program finds.

    Returns:
        The number of programs.
    """
    known = dict(names)
    steps = [found for found in _STEP.finditer(read_page(page)) if found["tab"] in tabs]
    for step in steps:
        out = StringIO()
        program = step["program"].replace("/tmp/", f"{folder}/")
        with redirect_stdout(out):
            exec(compile(program, f"docs/{page}", "exec"), known)
        printed = "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())
        assert printed == (step["output"] or "").strip(), program
    return len(steps)


def programs_of(page: str, tabs: Collection[str]) -> list[str]:
    """The programs of some tabs of a page, in its order.

    Args:
        page: The name of the page.
        tabs: The names of the tabs.
    """
    return [found["program"] for found in _STEP.finditer(read_page(page)) if found["tab"] in tabs]
