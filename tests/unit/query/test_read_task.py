"""The tasks of a plan."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.query import read_task
from hoodie.query.arrow_reader import plan_read
from hoodie.query.read_plan import ReadPlan
from hoodie.query.read_task import tasks_of
from tests.support.table_builder import init_table, local_client, rows


@pytest.fixture
def path(tmp_path: Path) -> str:
    base_path = init_table(tmp_path / "t")
    with local_client(base_path) as client:
        client.upsert(rows(*((f"k{n}", f"r{n % 7}", n) for n in range(70))))
    return base_path


def read(plan: ReadPlan) -> pa.Table:
    tasks = [pickle.loads(pickle.dumps(task)) for task in tasks_of(plan)]
    return pa.Table.from_batches([batch for task in tasks for batch in task.batches()], plan.result_schema)


@pytest.mark.parametrize(
    "query", [{}, {"columns": ["ts"]}, {"filters": [("ts", ">", 40), ("region", "!=", "r3")], "columns": ["id"]}]
)
def test_tasks_read_together_what_the_plan_says(path: str, query: dict[str, Any]) -> None:
    assert read(plan_read(path, **query)).equals(hoodie.read_table(path, **query))


def test_small_slices_share_a_task_and_large_ones_do_not(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_read(path)
    assert len(plan.slices) == 7
    assert [len(task.slices) for task in tasks_of(plan)] == [7]
    size = plan.base_files[0].size_bytes
    monkeypatch.setattr(read_task, "_OPEN_BYTES", size // 100)
    monkeypatch.setattr(read_task, "TASK_BYTES", 3 * size + size // 2)
    assert [len(task.slices) for task in tasks_of(plan)] == [3, 3, 1]
    monkeypatch.setattr(read_task, "TASK_BYTES", size // 2)
    tasks = tasks_of(plan)
    assert [len(task.slices) for task in tasks] == [1] * 7
    assert [planned for task in tasks for planned in task.slices] == list(plan.slices)


def test_base_files_that_are_only_searched_count_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(path) as client:
        client.upsert(rows(*((f"k{n}", f"r{n % 7}", n) for n in range(70))))
        client.upsert(rows(*((f"k{n}", f"r{n}", 100) for n in range(6))))
    plan = plan_read(path)
    searching = attrs.evolve(plan, context=attrs.evolve(plan.context, log_rows_only=True))
    base, log = max(file.size_bytes for file in plan.base_files), max(file.size_bytes for file in plan.log_files)
    monkeypatch.setattr(read_task, "_OPEN_BYTES", 0)
    monkeypatch.setattr(read_task, "TASK_BYTES", 2 * (base + log))
    assert [len(task.slices) for task in tasks_of(plan)] == [2, 2, 2, 1]
    # The last slice has no log file, so that its rows are read.
    assert [len(task.slices) for task in tasks_of(searching)] == [6, 1]


def test_a_plan_of_nothing_has_no_tasks(path: str) -> None:
    assert tasks_of(attrs.evolve(plan_read(path), slices=())) == []
