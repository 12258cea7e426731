"""Random histories of a table, with syncs at random moments that die, come late or meet each other."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import CatalogEntryChangedException, HoodieSyncException
from hoodie.sync.hive_sync_tool import HiveSyncTool
from hoodie.sync.sync_settings import sync_settings
from hoodie.sync.synced_commits import stored_partitions
from tests.support.memory_catalog import MemoryCatalog

DAYS = "abcdef"
FEW = {
    "hoodie.clean.commits.retained": 1, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 5,
    "hoodie.compact.inline.max.delta.commits": 3,
}  # fmt: skip


class _DiedError(HoodieSyncException):
    pass


class _History:
    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = MemoryCatalog()
        kind = self.random.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
        self.table = hoodie.Table.create(
            path, self.rows(), record_key_fields="id", partition_fields="day", ordering_fields="ts",
            table_name="trips", table_type=kind, table_version=self.random.choice([6, 8, 9]), properties=FEW,
        )  # fmt: skip
        self.snapshots: list[TableSnapshot] = []

    def rows(self) -> pa.Table:
        days = self.random.choices(DAYS, k=self.random.randint(1, 3))
        return pa.table({"id": [f"{day}-{n}" for n, day in enumerate(days)], "day": days, "ts": [1] * len(days)})

    def change(self) -> None:
        """One change of the table."""
        match self.random.randint(0, 6):
            case 0 | 1 | 2:
                self.table.upsert(self.rows())
            case 3:
                self.table.delete_partitions([self.random.choice(DAYS)])
            case 4:
                self.table.overwrite(self.rows(), scope=self.random.choice(["table", "partitions"]))
            case 5:
                newest = self.table.history()[0]
                if newest.action in ("commit", "deltacommit") and len(self.table.history()) > 1:
                    self.table.rollback(newest.instant_time)
            case 6:
                kept = self.table.savepoint().instant_time
                self.table.upsert(self.rows())
                self.interrupted_sync()
                self.table.restore(kept)
                self.table.delete_savepoint(kept)

    def tool(self, catalog: MemoryCatalog, snapshot: TableSnapshot | None = None) -> HiveSyncTool:
        snapshot = snapshot or TableSnapshot.load(self.table.path)
        config = HoodieWriteConfig.from_properties(self.table.path, {})
        (settings,) = sync_settings(config, snapshot.table_config, catalog="glue", environment={})
        return HiveSyncTool(snapshot, settings, catalog)

    def interrupted_sync(self) -> None:
        """A sync that dies before one of its calls."""
        left = self.random.randint(1, 8)

        def die(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise _DiedError("died")

        catalog = MemoryCatalog(self.catalog.known, self.catalog.parts, before=die)
        with suppress(_DiedError):
            self.tool(catalog).sync()

    def met_sync(self) -> None:
        """A sync of an older state, in whose middle another one runs."""
        left = self.random.randint(1, 8)

        def meet(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                days = self.random.choices(DAYS, k=2)
                self.table.delete_partitions(days[:1])
                self.table.upsert(pa.table({"id": [f"{days[1]}-9"], "day": days[1:], "ts": [1]}))
                self.tool(MemoryCatalog(self.catalog.known, self.catalog.parts)).sync()

        catalog = MemoryCatalog(self.catalog.known, self.catalog.parts, before=meet)
        with suppress(CatalogEntryChangedException):
            self.tool(catalog, TableSnapshot.load(self.table.path)).sync(full=self.random.random() < 0.2)

    def check(self) -> None:
        """A whole sync leaves nothing wrong."""
        self.tool(self.catalog).sync()
        checked = self.tool(self.catalog).sync(check=True)
        assert not checked.has_differences, str(checked)
        present = sorted((path,) for path in stored_partitions(TableSnapshot.load(self.table.path)))
        for entry in checked.entries:
            assert self.catalog.values(entry.name.rpartition(".")[2]) == present


@pytest.mark.parametrize("seed", range(8))
def test_a_sync_leaves_nothing_wrong_after_any_history(tmp_path: Path, seed: int) -> None:
    history = _History(tmp_path, seed)
    for _ in range(14):
        history.change()
        match history.random.randint(0, 4):
            case 0:
                history.check()
            case 1:
                history.interrupted_sync()
            case 2:
                history.met_sync()
    history.check()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_a_sync_leaves_nothing_wrong_after_many_histories(tmp_path: Path, seed: int) -> None:
    test_a_sync_leaves_nothing_wrong_after_any_history(tmp_path, seed)
