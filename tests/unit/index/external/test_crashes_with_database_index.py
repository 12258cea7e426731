"""Writers with keys in a database that die at any call to it, or at a change of the table; and what is found after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.index.external.sqlite_location_store import SqliteLocationStore
from tests.support.hookable_storage import Faults, FaultyStorage, run_with_faults
from tests.support.model import TableModel, model
from tests.support.table_builder import read_trips, rows
from tests.unit.client.test_crashes import (
    FIRST,
    INIT,
    check_files,
    completed_commits,
)
from tests.unit.client.test_crashes import new_client as client_of_any_index

INDEX = {
    "hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex",
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.type": "SIMPLE",
}
CALLS = ["groups", "add_groups", "find", "add_keys", "know", "forget_files", "remove_keys", "drop_groups"]
READS = ("groups", "find")
MOVES = (("a", "y", 2, 10.0), ("c", "z", 2, 30.0), ("d", "x", 1, 4.0))
Operation = Callable[[HoodieLocalWriteClient], Any]
OPERATIONS: dict[str, tuple[Operation, TableModel]] = {
    "upsert that moves keys": (lambda c: c.upsert(rows(*MOVES)), model(FIRST[1], *MOVES)),
    "delete": (lambda c: c.delete([HoodieKey("a", "x"), HoodieKey("c", "y")]), model(FIRST[1])),
    "upsert after a delete": (lambda c: c.upsert(rows(*MOVES)), model(FIRST[1], *MOVES)),
}


def new_client(base_path: Path) -> HoodieLocalWriteClient:
    return client_of_any_index(base_path, **INDEX)


@pytest.fixture(autouse=True)
def faulty_database(faulty_storage: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call to the database is one that may fail."""
    for name in CALLS:
        call = getattr(SqliteLocationStore, name)

        def step(self: Any, *arguments: Any, name: str = name, call: Any = call) -> Any:
            return FaultyStorage.faults.step(name, partial(call, self, *arguments), changes=name not in READS)

        monkeypatch.setattr(SqliteLocationStore, name, step)
    yield


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_key_lives_twice_or_is_lost_wherever_the_writer_dies(name: str, tmp_path: Path) -> None:
    run, after = OPERATIONS[name]
    healthy = tmp_path / "healthy"
    HoodieTableMetaClient.init_table(str(healthy), **INIT)
    with new_client(healthy) as client:
        client.upsert(rows(*FIRST))
        if name == "upsert after a delete":
            client.delete([HoodieKey("c", "y")])
    before = model(*FIRST[: 2 if name == "upsert after a delete" else 3])
    shutil.copytree(healthy, tmp_path / "counted")
    counted = Faults()
    assert run_with_faults(counted, lambda: run(new_client(tmp_path / "counted"))) is None
    assert read_trips(tmp_path / "counted") == sorted(after.values())
    # Every call to the database; of the changes to the table every fourth: the general test of crashes knows more.
    chosen = [
        (number, how)
        for number, (called, changes, _) in enumerate(counted.calls, 1)
        if called in CALLS or (changes and number % 4 == 0)
        for how in ("before", "after")[: 1 + changes]
    ]
    for number, how in chosen:
        base_path = tmp_path / f"{number}-{how}"
        shutil.copytree(healthy, base_path)
        commits = completed_commits(base_path)
        run_with_faults(Faults(number, how), lambda base_path=base_path: run(new_client(base_path)))
        expected = after if completed_commits(base_path) != commits else before
        with new_client(base_path) as client:
            client.upsert(rows(("b", "y", 9, 90.0), ("d", "y", 9, 9.0)))
        changed = {**expected, **model(("b", "y", 9, 90.0), ("d", "y", 9, 9.0))}
        assert read_trips(base_path) == sorted(changed.values()), (number, how, counted.calls[number - 1])
        # And each key is where the index says.
        with new_client(base_path) as client:
            result = client.upsert(rows(*((key, "w", 10, 1.0) for key in "abcd")))
            assert (result.inserted_count, result.deleted_count) == (4, len(changed)), (number, how)
        check_files(base_path)
        shutil.rmtree(base_path)
