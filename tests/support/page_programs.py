"""The programs of a page of docs, with what they print.

``python tests/support/page_programs.py PAGE...`` runs the programs of pages with what is installed. It imports nothing
of the tests, so that hoodie is the installed one; a page whose packages are absent is left out.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

_STEP = re.compile(
    r"^<!-- tab: (?P<tab>\w+) -->\n```python\n(?P<program>.*?)^```\n(?:```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_NEEDS = re.compile(r"^<!-- needs: (.*) -->$", re.MULTILINE)


def read_page(name: str) -> str:
    """The text of a page of docs."""
    return (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")


def run_tabs(
    page: str,
    tabs: Collection[str],
    folder: Path,
    names: Mapping[str, Any],
    replaced: Mapping[str, str] | None = None,
    *,
    shows_all: bool = True,
) -> int:
    """Run the programs of some tabs in the order of the page, and compare what they print with it.

    Args:
        page: The name of the page.
        tabs: The names of the tabs on the page.
        folder: Takes the place of ``/tmp``.
        names: What the first program finds.
        replaced: Other texts of the programs -> what takes their place.
        shows_all: Whether the page shows what a program prints; else only that it runs counts.

    Returns:
        The number of programs.
    """
    known = dict(names)
    steps = [found for found in _STEP.finditer(read_page(page)) if found["tab"] in tabs]
    for step in steps:
        out = StringIO()
        program = step["program"]
        for text, other in {"/tmp/": f"{folder}/", **(replaced or {})}.items():
            program = program.replace(text, other)
        with redirect_stdout(out):
            exec(compile(program, f"docs/{page}", "exec"), known)
        printed = "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())
        assert not shows_all or printed == (step["output"] or "").strip(), f"{program}\nprints:\n{printed}"
    return len(steps)


def programs_of(page: str, tabs: Collection[str]) -> list[str]:
    """The programs of some tabs of a page, in its order.

    Args:
        page: The name of the page.
        tabs: The names of the tabs.
    """
    return [found["program"] for found in _STEP.finditer(read_page(page)) if found["tab"] in tabs]


def needed_by(page: str) -> list[str]:
    """The packages that the programs of a page need besides hoodie's own, as its line ``<!-- needs: ... -->`` says."""
    return [name for line in _NEEDS.findall(read_page(page)) for name in line.split(", ")]


def main() -> int:
    """Run the Python tabs of pages twice: a program can be run again; 1 if there is none to run."""
    count = 0
    for page in sys.argv[1:]:
        absent = [name for name in needed_by(page) if find_spec(name) is None]
        if absent or not programs_of(page, ["python"]):
            print(f"{page}: left out, needs {', '.join(absent) or 'several processes'}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            # The programs of the README print tables of files, which it does not show.
            runs = [run_tabs(page, ["python"], Path(folder), {}, shows_all="README" not in page) for _ in range(2)]
        print(f"{page}: ran twice ({runs[0]})")
        count += runs[0]
    return not count


if __name__ == "__main__":
    sys.exit(main())
