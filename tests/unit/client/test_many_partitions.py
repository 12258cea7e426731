"""Writes to many partitions: what they ask of the storage grows with the number of partitions, and no faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieKey
from tests.support.hookable_storage import hooked
from tests.support.table_builder import init_table, local_client, rows

FEW, MANY = 50, 200
MOST = {"insert": 12, "upsert": 9, "upsert of one partition": 0, "delete": 9}
"""The calls to a storage for one more partition of the table."""
FILES = {"COPY_ON_WRITE": 1, "MERGE_ON_READ": 3}
"""The files of a partition that a read opens: a base file, and the log files of an upsert and a delete."""


@pytest.mark.table_version(9)
@pytest.mark.parametrize("table_type", sorted(FILES))
def test_calls_for_a_partition_are_no_more_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    few, many = (
        calls_of_steps(init_table(tmp_path / str(number), table_type=table_type), number, monkeypatch)
        for number in (FEW, MANY)
    )
    most = {**MOST, "read": FILES[table_type]}
    more = {step: (many[step].total() - few[step].total()) / (MANY - FEW) for step in most}
    assert {step: calls for step, calls in more.items() if calls > most[step]} == {}, (few, many)


def calls_of_steps(path: str, partitions: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Counter[str]]:
    """The calls of each step in a table with that many partitions, by their names."""
    stored = [(f"k{i}", f"p{i}", 1) for i in range(partitions)]
    calls: dict[str, Counter[str]] = {}
    with local_client(path) as client:
        steps: dict[str, Callable[[], Any]] = {
            "insert": lambda: client.insert(rows(*stored)),
            "upsert": lambda: client.upsert(rows(*[(*row[:2], 2) for row in stored])),
            "upsert of one partition": lambda: client.upsert(rows(("k1", "p1", 3))),
            "delete": lambda: client.delete([HoodieKey(*row[:2]) for row in stored[2:]]),
            "read": lambda: hoodie.read_table(path),
        }
        for name, step in steps.items():
            counter = calls[name] = Counter[str]()
            with hooked(monkeypatch, lambda call, _, counter=counter: counter.update([call])):  # type: ignore[misc]
                step()
    assert hoodie.read_table(path).num_rows == 2
    return calls
