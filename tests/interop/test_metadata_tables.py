"""Metadata tables that real Hudi 1.x keeps by default on tables of versions 8 and 9.

hoodie switches them off before it writes, and Hudi builds them again at its next write. After each step all readers
see the same rows, with and without the metadata table.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, assert_all_agree, rows_of
from tests.interop.test_failed_writes import FAILING_VALIDATOR
from tests.interop.test_replace_and_restore import call

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(8, 9)]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
WITH, WITHOUT = {"hoodie.metadata.enable": "true"}, {"hoodie.metadata.enable": "false"}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


class Table:
    """A table of both, and its model; Hudi writes with its metadata table."""

    def __init__(self, base_path: Path, hudi: HudiProcess) -> None:
        self.base_path = base_path
        self.hudi = hudi
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        self._ts = 0
        HoodieTableMetaClient.init_table(str(base_path), table_name="listed", **SIMPLE.init_arguments())

    def rows(self, *numbers: int) -> list[Row]:
        self._ts += 1
        return [
            {"id": f"k{n}", "region": SIMPLE.regions[n % 3], "ts": self._ts, "fare": n + self._ts / 4} for n in numbers
        ]

    def client(self, **properties: str) -> HoodieLocalWriteClient:
        given = {"hoodie." + key.replace("_", "."): value for key, value in properties.items()}
        return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(self.base_path), OFF | given))

    def by_hoodie(self, *numbers: int, operation: str = "upsert") -> str:
        rows = self.rows(*numbers)
        with self.client() as client:
            time: str = getattr(client, operation)(self.model.table(rows)).instant_time
        self._note(operation, rows)
        return time

    def by_hudi(self, *numbers: int, operation: str = "upsert", **options: str) -> str:
        rows = self.rows(*numbers)
        given = {**SIMPLE.hudi_options("listed"), **OFF, **WITH, **options}
        self.hudi.write(self.base_path, self.model.table(rows), given, operation=operation)
        self._note(operation, rows)
        newest = self.load().active_timeline.commits_timeline().last_instant
        assert newest is not None
        return newest.requested_time

    def _note(self, operation: str, rows: list[Row]) -> None:
        if operation in ("insert_overwrite", "delete_partition"):
            regions = {row["region"] for row in rows}
            self.model.rows = [row for row in self.model.rows if row["region"] not in regions]
        if operation != "delete_partition":
            (self.model.delete if operation == "delete" else self.model.upsert)(rows)

    def load(self) -> HoodieTableMetaClient:
        return HoodieTableMetaClient.load(str(self.base_path))

    def pending(self) -> list[str]:
        return [instant.requested_time for instant in self.load().active_timeline.filter_pending()]

    def check(self, has_metadata_table: bool) -> None:
        """All read the rows of the model; the metadata table is there, or nothing of it is."""
        partitions = self.load().table_config.metadata_partitions
        assert ("files" in partitions) is has_metadata_table, partitions
        assert (self.base_path / ".hoodie/metadata").exists() is has_metadata_table
        assert_all_agree(self.base_path, self.model)
        for options in (WITH, WITHOUT):
            assert rows_of(self.hudi.read(self.base_path, options), SCHEMA) == self.model.expected(), options


@pytest.fixture
def table(tmp_path: Path, hudi: HudiProcess) -> Table:
    return Table(tmp_path / "t", hudi)


@pytest.mark.interop_smoke(9)
def test_it_is_switched_off_and_built_again_in_turn(table: Table) -> None:
    table.by_hoodie(*range(9))
    table.check(False)
    table.by_hudi(*range(4, 12))
    table.check(True)
    table.by_hoodie(*range(8, 15))
    table.check(False)
    table.by_hudi(0, 3, 30, operation="insert_overwrite")
    table.check(True)
    table.by_hoodie(0, 4, operation="delete")
    table.check(False)
    # Hudi deletes the partition of this row.
    table.by_hudi(2, operation="delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "süd ost"})
    table.check(True)
    table.by_hoodie(1, 31, operation="insert_overwrite")
    table.check(False)
    table.by_hudi(31, 5, operation="delete")
    table.by_hudi(1, 2)
    table.check(True)
    table.by_hoodie(*range(20))
    table.check(False)


def test_rollbacks_savepoints_restores_and_cleans_switch_it_off(table: Table) -> None:
    table.by_hudi(*range(9))
    kept = table.by_hudi(*range(3, 12))
    with table.client() as client:
        client.savepoint(kept)
        table.check(True)
        state = list(table.model.rows)
        undone = table.by_hudi(*range(12))
        assert client.rollback(undone)
        table.model.rows = list(state)
        table.check(False)
        table.by_hudi(*range(6, 15))
        table.by_hoodie(2)
        table.by_hudi(0, 1, 2, operation="insert_overwrite")
        table.check(True)
        client.restore_to_savepoint(kept)
        table.model.rows = list(state)
        table.check(False)
        client.delete_savepoint(kept)
    for _ in range(3):
        table.by_hudi(*range(6))
    table.check(True)
    with table.client(cleaner_commits_retained="1") as client:
        assert client.clean() is not None
    table.check(False)
    table.by_hudi(*range(3, 9))
    table.check(True)


def test_real_hudi_undoes_commits_of_hoodie_with_it(table: Table) -> None:
    table.by_hudi(*range(9))
    kept = table.by_hoodie(*range(3, 12))
    state = list(table.model.rows)
    call(table.hudi, f"create_savepoint(path => '{table.base_path}', commit_time => '{kept}')")
    table.by_hudi(*range(12))
    table.by_hoodie(*range(6))
    table.by_hudi(*range(9))
    table.hudi.sql("SET hoodie.metadata.enable=true")
    try:
        call(table.hudi, f"rollback_to_savepoint(path => '{table.base_path}', instant_time => '{kept}')")
    finally:
        table.hudi.sql("SET hoodie.metadata.enable=false")
    table.model.rows = list(state)
    assert_all_agree(table.base_path, table.model, table.hudi)
    table.by_hoodie(*range(10))
    table.check(False)


def test_a_write_of_real_hudi_that_died_with_it_is_rolled_back(table: Table) -> None:
    table.by_hoodie(*range(9))
    table.by_hudi(*range(3, 12))
    state = list(table.model.rows)
    with pytest.raises(HudiError, match="(?i)validat"):
        table.by_hudi(*range(12), **FAILING_VALIDATOR)
    table.model.rows = state
    (dead,) = table.pending()
    assert len(list(table.base_path.rglob(f"*_{dead}.parquet"))) == 3
    table.by_hoodie(*range(6, 15))
    assert table.pending() == [] and not list(table.base_path.rglob(f"*_{dead}.parquet"))
    table.check(False)
    table.by_hudi(*range(9, 18))
    table.check(True)


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_a_write_of_hoodie_that_died_is_rolled_back_and_the_metadata_table_built(table: Table, state: str) -> None:
    table.by_hudi(*range(9))
    client = table.client(auto_commit="false")
    dead = client.start_commit()
    if state == "inflight":
        client.upsert(table.model.table(table.rows(*range(12))), dead)
        assert len(list(table.base_path.rglob(f"*_{dead}.parquet"))) == 3
    assert_all_agree(table.base_path, table.model, table.hudi)
    table.by_hudi(*range(3, 12))
    assert table.pending() == [] and not list(table.base_path.rglob(f"*_{dead}.parquet"))
    table.check(True)
    table.by_hoodie(*range(2))
    table.check(False)


def test_a_write_of_real_hudi_that_died_between_both_commits_is_rolled_back(table: Table) -> None:
    """The metadata table has the commit already, the table has not."""
    table.by_hoodie(*range(9))
    table.by_hudi(*range(3, 12))
    state = list(table.model.rows)
    dead = table.by_hudi(*range(12))
    timeline = table.load().active_timeline
    instant: Any = timeline.find(dead, Action.COMMIT)
    markers = table.base_path / ".hoodie/.temp" / dead
    metadata = timeline.read_commit_metadata(instant)
    Path(timeline.path_of(instant)).unlink()
    shutil.rmtree(markers, ignore_errors=True)
    for stat in metadata.write_stats:
        path = markers / f"{stat.path}.marker.MERGE"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    table.model.rows = state
    assert_all_agree(table.base_path, table.model, table.hudi)
    table.by_hoodie(*range(6, 15))
    assert table.pending() == [] and not list(table.base_path.rglob(f"*_{dead}.parquet"))
    table.check(False)
    table.by_hudi(*range(9, 18))
    table.check(True)
