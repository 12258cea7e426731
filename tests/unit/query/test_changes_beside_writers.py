"""A consumer of changes beside two writers: whenever it looks, it gets each change exactly once."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.exception import HoodieWriteConflictException
from tests.support.change_histories import changes_of, replayed, rows_by_place
from tests.support.interleaved_compactions import new_client
from tests.support.interleaving import Process, Task, World, virtual

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("v", pa.int64())])
WRITES = {"create", "put", "replace", "finish", "delete", "unlink"}
"""Calls to the storage after which a reader may find something else."""


@pytest.fixture(autouse=True)
def _virtual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with virtual(monkeypatch):
        yield


class Consumer:
    """Reads the changes since it looked last, after each call to the storage that may change something."""

    def __init__(self, base_path: str) -> None:
        self.base_path = base_path
        self.begin: str | None = None
        self.rows: dict[Any, Mapping[str, Any]] = {}
        self.looks = 0
        self.batches = 0

    def look(self) -> None:
        changes, self.begin = changes_of(self.base_path, self.begin)
        self.looks += 1
        self.batches += changes.num_rows > 0
        # A change that comes again, or not at all, does not fit the rows.
        self.rows = replayed(self.rows, changes)

    def on_applied(self, task: Task, name: str, path: str, result: Any) -> None:
        if name in WRITES and "/metadata/" not in path:
            self.look()


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("stores_changes", [False, True])
@pytest.mark.parametrize(("table_type", "version"), [("COPY_ON_WRITE", 6), ("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 9)])
def test_each_change_comes_exactly_once(
    tmp_path: Path, table_type: str, version: int, stores_changes: bool, seed: int
) -> None:
    base_path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        base_path, table_name="t", record_key_fields=["id"], partition_fields=["region"], table_type=table_type,
        table_version=version, properties={"hoodie.table.cdc.enabled": str(stores_changes).lower()},
    )  # fmt: skip
    committed: list[str] = []

    def writer(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        places = [(f"w{number}-{key}", region) for region in ("x", f"only{number}") for key in range(4)]
        with new_client(base_path) as client:
            for step in range(4):
                chosen = rng.sample(places, 4)
                rows = [{"id": key, "region": region, "v": step} for key, region in chosen]
                try:
                    if step and rng.random() < 0.3:
                        committed.append(client.delete([HoodieKey(*place) for place in chosen]).instant_time)
                    else:
                        committed.append(client.upsert(pa.Table.from_pylist(rows, SCHEMA)).instant_time)
                except HoodieWriteConflictException:
                    continue

    world = World(seed, base_path, switching=0.3)
    consumer = Consumer(base_path)
    world.on_applied = consumer.on_applied
    world.run({Process(f"writer{number}"): lambda number=number: writer(number) for number in range(2)})
    consumer.look()
    assert consumer.rows == rows_by_place(hoodie.read_table(base_path, columns=SCHEMA.names).to_pylist())
    assert len(committed) > 3
    assert consumer.batches > 3
    assert consumer.looks > 50
