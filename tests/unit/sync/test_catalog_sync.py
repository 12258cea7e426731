"""Syncs by hand, and after the actions of clients, with a catalog in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieConfigException, HoodieSyncException, HoodieWriteConflictException
from hoodie.sync import catalog_sync
from tests.support.memory_catalog import MemoryCatalog

SYNCED = {
    "hoodie.datasource.hive_sync.enable": True,
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.metastore.uris": "thrift://nowhere:9083",
}


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryCatalog]:
    made = MemoryCatalog()
    monkeypatch.setattr(catalog_sync, "open_catalog", lambda settings, config: made)
    yield made


def rows(*days: str, ordering: int = 1) -> pa.Table:
    return pa.table(
        {"id": [f"{day}!" for day in days], "day": list(days), "ts": pa.array([ordering] * len(days), pa.int64())}
    )


def create(path: Path, data: pa.Table, properties: dict[str, Any] | None = None, **arguments: Any) -> hoodie.Table:
    return hoodie.Table.create(
        path, data, record_key_fields="id", partition_fields="day", ordering_fields="ts", table_name="trips",
        properties={**SYNCED, **(properties or {})}, **arguments,
    )  # fmt: skip


def told(catalog: MemoryCatalog, name: str = "trips") -> str:
    return catalog.entry(name).parameters["last_commit_time_sync"]


def files_of(table: hoodie.Table) -> list[str]:
    return [f"{table.path}/{file.partition_path}/{file.file_name}" for file in table.files()]


def newest(table: hoodie.Table) -> str:
    return table.history()[0].instant_time


@pytest.mark.parametrize("key", ["hoodie.datasource.meta.sync.enable", "hoodie.meta.sync.enable"])
def test_each_option_turns_syncs_on(tmp_path: Path, catalog: MemoryCatalog, key: str) -> None:
    create(tmp_path, rows("a"), {"hoodie.datasource.hive_sync.enable": False, key: True})
    assert catalog.values("trips") == [("a",)]


def test_nothing_is_told_without_an_option(tmp_path: Path, catalog: MemoryCatalog) -> None:
    create(tmp_path, rows("a"), {"hoodie.datasource.hive_sync.enable": False})
    assert catalog.calls == []


WRITES: dict[str, Callable[[hoodie.Table], Any]] = {
    "upsert": lambda table: table.upsert(rows("b")),
    "insert": lambda table: table.insert(rows("b")),
    "bulk_insert": lambda table: table.bulk_insert(rows("b")),
    "overwrite": lambda table: table.overwrite(rows("b")),
    "delete": lambda table: table.delete(where="day = 'a'"),
    "delete_partitions": lambda table: table.delete_partitions(["a"]),
    "update": lambda table: table.update("day = 'a'", {"ts": 9}),
    "optimize": lambda table: table.optimize(),
}


@pytest.mark.parametrize("write", WRITES)
def test_each_action_is_told(tmp_path: Path, catalog: MemoryCatalog, write: str) -> None:
    table = create(tmp_path, rows("a", "c"))
    table.upsert(rows("a", ordering=2))
    WRITES[write](table)
    assert told(catalog) == newest(table)
    assert catalog.values("trips") == sorted({(file.partition_path,) for file in table.files()})


def test_a_compaction_is_told(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.compact.inline": False}, table_type="MERGE_ON_READ")
    table.upsert(rows("a", ordering=2))
    done = table.compact()
    assert done is not None
    assert told(catalog) == done.instant_time


def test_a_restore_and_a_rollback_are_told(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"))
    first = newest(table)
    table.savepoint()
    table.upsert(rows("b"))
    third = table.upsert(rows("c")).instant_time
    table.rollback(third)
    assert catalog.values("trips") == [("a",), ("b",)]
    table.restore(first)
    assert catalog.values("trips") == [("a",)]
    assert told(catalog) == first


def test_a_new_table_in_the_place_of_another_is_told_once_it_is_there(tmp_path: Path, catalog: MemoryCatalog) -> None:
    path = tmp_path / "trips"
    create(path, rows("a"))
    hoodie.write_table(
        rows("b").rename_columns(["key", "day", "ts"]), path, mode="overwrite", record_key_fields="key",
        partition_fields="day", ordering_fields="ts", properties=SYNCED,
    )  # fmt: skip
    assert catalog.entry("trips").location == f"file:{path}"
    assert catalog.values("trips") == [("b",)]
    assert "key" in [column.name for column in catalog.entry("trips").columns]


def test_a_failure_does_not_fail_the_write(
    tmp_path: Path, catalog: MemoryCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(call: str) -> None:
        raise HoodieSyncException("the metastore is down.")

    catalog.before = refuse
    table = create(tmp_path, rows("a"))
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="hoodie"):
        result = table.upsert(rows("b"))
    assert result.is_committed
    (error,) = result.service_errors
    assert "the metastore is down" in error
    assert "next sync makes up for it" in error
    assert len([record for record in caplog.records if "metastore is down" in record.message]) == 1
    catalog.before = lambda call: None
    assert table.upsert(rows("c")).service_errors == ()
    assert catalog.values("trips") == [("a",), ("b",), ("c",)]


def test_missing_options_do_not_fail_the_write(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.datasource.hive_sync.mode": "jdbc"})
    (error,) = table.upsert(rows("b")).service_errors
    assert "hoodie.datasource.hive_sync.mode = hms" in error
    assert table.count() == 2


def test_a_failure_is_raised_on_demand_and_the_commit_stands(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.datasource.hive_sync.ignore_exceptions": False})

    def refuse(call: str) -> None:
        raise HoodieSyncException("the metastore is down.")

    catalog.before = refuse
    with pytest.raises(HoodieSyncException, match="table is not affected"):
        table.upsert(rows("b"))
    assert table.count() == 2


def test_the_lock_is_free_during_a_sync(tmp_path: Path, catalog: MemoryCatalog) -> None:
    """Another client writes while the catalog is slow."""
    table = create(tmp_path, rows("a"))
    other = hoodie.HoodieWriteConfig.from_properties(str(tmp_path), {"hoodie.write.lock.wait_time_ms": 1})
    written = []

    def write(call: str) -> None:
        catalog.before = lambda call: None
        with hoodie.HoodieLocalWriteClient(other) as client:
            written.append(client.upsert(rows("other")).is_committed)

    catalog.before = write
    with hoodie.HoodieLocalWriteClient(hoodie.HoodieWriteConfig.from_properties(str(tmp_path), SYNCED)) as client:
        assert client.upsert(rows("b")).service_errors == ()
    assert written == [True]
    assert table.count() == 3


def test_a_failed_write_is_not_told(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"))
    catalog.calls.clear()
    with pytest.raises(hoodie.HoodieException):
        table.upsert(pa.table({"id": [None], "day": ["a"], "ts": [1]}))
    assert catalog.changes == []


def test_a_commit_by_hand_is_told_at_its_commit(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"))
    config = hoodie.HoodieWriteConfig.from_properties(str(tmp_path), {**SYNCED, "hoodie.auto.commit": False})
    with hoodie.HoodieLocalWriteClient(config) as client:
        instant = client.start_commit()
        catalog.calls.clear()
        result = client.upsert(rows("b"), instant)
        assert catalog.calls == []
        client.commit(instant, result)
    assert told(catalog) == instant == newest(table)


def test_by_hand(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.datasource.hive_sync.enable": False})
    (result,) = hoodie.sync_table(tmp_path, "hms", properties=SYNCED)
    assert str(result).startswith("the catalog in memory: default.trips: created, 1 partition added (commit ")
    (again,) = table.sync()
    assert str(again).startswith("the catalog in memory: default.trips: up to date")
    (checked,) = table.sync(check=True)
    assert str(checked) == f"the catalog in memory: no difference between 1 name and {tmp_path}"
    with pytest.raises(HoodieConfigException, match="catalog = 'hive'"):
        table.sync("hive")


def test_a_catalog_opens_tables_by_name(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.compact.inline": False}, table_type="MERGE_ON_READ")
    table.upsert(rows("a", ordering=2))
    opened = hoodie.catalog("thrift://nowhere:9083")
    assert repr(opened) == "hoodie.catalog('thrift://nowhere:9083')"
    assert opened.databases() == ["default"]
    assert opened.tables() == ["trips", "trips_ro", "trips_rt"]
    assert opened.path("default.trips") == str(tmp_path)
    assert opened.table("trips").read("ts")["ts"].to_pylist() == [2]
    assert opened.table("trips_ro").read("ts")["ts"].to_pylist() == [1]
    assert opened.table("trips").upsert(rows("b")).is_committed
    with pytest.raises(hoodie.TableNotFoundException, match="no table rides.trips"):
        opened.table("rides.trips")
    with pytest.raises(HoodieConfigException, match="no catalog 'unity'"):
        hoodie.catalog("unity")


def test_conflicts_of_writers_are_raised_as_before(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = create(tmp_path, rows("a"))
    several = {
        **SYNCED,
        "hoodie.auto.commit": False,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    config = hoodie.HoodieWriteConfig.from_properties(str(tmp_path), several)
    with hoodie.HoodieLocalWriteClient(config) as client:
        instant = client.start_commit()
        result = client.upsert(rows("a", ordering=5), instant)
        table.upsert(rows("a", ordering=6), properties={**several, "hoodie.auto.commit": True})
        catalog.calls.clear()
        with pytest.raises(HoodieWriteConflictException):
            client.commit(instant, result)
        assert catalog.changes == []


def test_a_manifest_is_a_catalog(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"), {"hoodie.meta.sync.client.tool.class": "ManifestFileWriter"})
    manifest = tmp_path / ".hoodie/absolute-path-manifest/latest-snapshot.csv"
    assert manifest.read_text().splitlines() == files_of(table)
    (checked,) = table.sync(check=True)
    assert not checked.has_differences
    manifest.write_text("/elsewhere\n")
    (checked,) = table.sync("manifest", check=True)
    assert checked.entries[0].differences[1] == "the line /elsewhere is stale"
    (repaired,) = table.sync("manifest")
    assert repaired.entries[0].is_changed
    assert manifest.read_text().splitlines() == files_of(table)


def test_the_names_of_glue_are_options_of_their_own(tmp_path: Path, catalog: MemoryCatalog) -> None:
    create(
        tmp_path, rows("a"),
        {
            "hoodie.datasource.hive_sync.mode": "glue",
            "hoodie.datasource.meta.sync.glue.database_name": "lake",
            "hoodie.datasource.meta.sync.glue.table_name": "rides",
        },
    )  # fmt: skip
    assert catalog.values("rides", "lake") == [("a",)]


def test_a_slow_catalog_keeps_no_thread_waiting(tmp_path: Path, catalog: MemoryCatalog) -> None:
    """Calls of `hoodie.Table` come one after the other; another thread writes while the catalog is slow."""
    table = create(tmp_path, rows("a"), {"hoodie.write.lock.wait_time_ms": 2000})
    written = []

    def write(call: str) -> None:
        catalog.before = lambda call: None
        other = threading.Thread(target=lambda: written.append(table.upsert(rows("other")).is_committed))
        other.start()
        other.join()

    catalog.before = write
    assert table.upsert(rows("b")).service_errors == ()
    assert written == [True]
    assert catalog.values("trips") == [("a",), ("b",), ("other",)]
