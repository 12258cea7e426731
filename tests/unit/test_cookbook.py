"""The recipes of the cookbook, run as they are printed, twice; and the programs of two processes at the same time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.object_store_servers import Bucket
from tests.support.page_programs import needed_by, programs_of, read_page, run_tabs

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    f"cookbook/{path.name}" for path in (ROOT / "docs" / "cookbook").glob("*.md") if path.name != "README.md"
)
WITH_PROCESSES = ["cookbook/scheduler.md", "cookbook/two-writers.md"]
ON_A_STORE = "cookbook/s3.md"
HERE = [page for page in PAGES if page not in WITH_PROCESSES and page != ON_A_STORE]
OTHER_READERS = [
    ("cookbook/read-from-others.md", "hudi_rs", "hudi"),
    ("cookbook/read-from-others.md", "daft", "daft"),
    ("cookbook/from-delta-or-parquet.md", "delta", "deltalake"),
]
pytestmark = pytest.mark.table_version(9)


@pytest.mark.parametrize("page", HERE)
def test_a_recipe_prints_what_its_page_says_each_time(page: str, tmp_path: Path) -> None:
    for package in needed_by(page):
        pytest.importorskip(package, reason=f"the recipe needs {package}")
    first, second = (run_tabs(page, ["python"], tmp_path, {}) for _ in range(2))
    assert first == second >= 1


@pytest.mark.parametrize(("page", "tab", "package"), OTHER_READERS)
def test_a_recipe_for_another_library_prints_what_its_page_says(
    page: str, tab: str, package: str, tmp_path: Path
) -> None:
    if find_spec(package) is None:
        pytest.skip(f"no {package} is installed; daft asks for another pyarrow than the tests have")
    assert programs_of(page, [tab])
    assert run_tabs(page, ["python", tab], tmp_path, {}) >= 2


def test_the_recipe_for_a_store_prints_what_its_page_says(s3_bucket: Bucket, tmp_path: Path) -> None:
    replaced = {"http://localhost:9000": s3_bucket.endpoint, "s3://lake": f"s3://{s3_bucket.name}"}
    for _ in range(2):
        assert run_tabs(ON_A_STORE, ["python"], tmp_path, {}, replaced) == 2
    assert any(key.startswith("trips/.hoodie/") for key in s3_bucket.list_keys())


def run_at_once(program: Path, arguments: Sequence[Sequence[str]]) -> list[str]:
    """What processes of a program print that run at the same time; each must end well."""
    started = [
        subprocess.Popen(
            [sys.executable, str(program), *given],
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for given in arguments
    ]
    ended = [(process.communicate(timeout=120), process.returncode) for process in started]
    assert [status for _, status in ended] == [0] * len(ended), ended
    return [out for (out, _), _ in ended]


@pytest.mark.one_in(2)
def test_two_cron_jobs_lose_nothing(tmp_path: Path) -> None:
    page = "cookbook/two-writers.md"
    (job,) = programs_of(page, ["job"])
    (tmp_path / "load.py").write_text(job)
    lines = re.findall(r"python load.py (\S+) (\d+)", read_page(page))
    assert len(lines) == 2
    path = str(tmp_path / "numbers")
    assert run_at_once(tmp_path / "load.py", [(path, first) for _, first in lines]) == ["done\n"] * 2
    assert run_tabs(page, ["result"], tmp_path, {}) == 1


@pytest.mark.one_in(2)
def test_a_task_that_runs_twice_at_once_and_again_loads_its_day_once(tmp_path: Path) -> None:
    page = "cookbook/scheduler.md"
    (job,) = programs_of(page, ["job"])
    (tmp_path / "tasks.py").write_text(job)
    assert run_tabs(page, ["setup"], tmp_path, {}) == 1
    given = (str(tmp_path / "loads"), "2026-01-01")
    run_at_once(tmp_path / "tasks.py", [given, given])
    run_at_once(tmp_path / "tasks.py", [given])
    assert run_tabs(page, ["result"], tmp_path, {}) == 1


def test_the_cookbook_lists_each_recipe_once() -> None:
    listed = re.findall(r"^\|.*\]\(([\w-]+\.md)\) \|$", read_page("cookbook/README.md"), re.MULTILINE)
    assert sorted(f"cookbook/{name}" for name in listed) == PAGES
