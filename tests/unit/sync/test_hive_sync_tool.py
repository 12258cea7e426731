"""The plan of a sync and its execution, on a catalog in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import CatalogEntryChangedException, HoodieSyncException
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.hive_sync_tool import HiveSyncTool
from hoodie.sync.sync_result import SyncResult
from hoodie.sync.sync_settings import sync_settings
from tests.support.memory_catalog import MemoryCatalog

_EXTRACTOR = "hoodie.datasource.hive_sync.partition_extractor_class"


def rows(*days: str, ordering: int = 1) -> pa.Table:
    count = len(days)
    return pa.table(
        {
            "id": [f"{day}-{number}" for number, day in enumerate(days)],
            "day": list(days),
            "ts": pa.array([ordering] * count, pa.int64()),
            "at": pa.array([0] * count, pa.timestamp("us", "UTC")),
        }
    )


def create(path: Path, data: pa.Table, **arguments: Any) -> hoodie.Table:
    given = {"record_key_fields": "id", "partition_fields": "day", "ordering_fields": "ts", "table_name": "trips"}
    return hoodie.Table.create(path, data, **{**given, **arguments})


def sync(
    table: hoodie.Table, catalog: MemoryCatalog, properties: dict[str, Any] | None = None, **arguments: bool
) -> SyncResult:
    config = HoodieWriteConfig.from_properties(table.path, properties or {})
    snapshot = TableSnapshot.load(table.path)
    (settings,) = sync_settings(config, snapshot.table_config, catalog="glue", environment={})
    catalog.calls.clear()
    return HiveSyncTool(snapshot, settings, catalog).sync(**arguments)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_new_entry_has_all_that_readers_need(tmp_path: Path, version: int) -> None:
    table = create(tmp_path, rows("a", "b"), table_version=version)
    catalog = MemoryCatalog()
    result = sync(table, catalog)
    assert [entry.name for entry in result.entries] == ["default.trips"]
    assert result.entries[0].is_created
    assert result.entries[0].added == ("a", "b")
    entry = catalog.entry("trips")
    assert entry.location == f"file:{tmp_path}"
    assert entry.partition_keys == (CatalogColumn("day", "string"),)
    assert [column.name for column in entry.columns][-3:] == ["id", "ts", "at"]
    assert {column.name: column.type for column in entry.columns}["at"] == "timestamp"
    assert entry.input_format == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert entry.serde_parameters == {
        "serialization.format": "1", "path": str(tmp_path), "hoodie.query.as.ro.table": "false",
    }  # fmt: skip
    newest = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1]
    assert entry.parameters["last_commit_time_sync"] == newest.requested_time
    if version >= 8:
        assert entry.parameters["last_commit_completion_time_sync"] == newest.completion_time
    assert (entry.kind, entry.parameters["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    assert entry.parameters["spark.sql.sources.provider"] == "hudi"
    assert {key: entry.parameters[key] for key in ("primaryKey", "preCombineField", "type")} == {
        "primaryKey": "id", "preCombineField": "ts", "type": "cow",
    }  # fmt: skip
    assert catalog.parts["default.trips"][("a",)].location == f"{tmp_path}/a"


def test_managed_tables_are_made_on_demand_only(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog, {"hoodie.datasource.hive_sync.create_managed_table": True})
    assert catalog.entry("trips").kind == "MANAGED_TABLE"
    assert "EXTERNAL" not in catalog.entry("trips").parameters


def test_a_second_sync_without_a_commit_is_one_call(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    result = sync(table, catalog)
    assert catalog.calls == ["table"]
    assert not result.entries[0].is_changed


def test_only_touched_partitions_are_looked_at(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a", "b"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.upsert(rows("b", "c", ordering=2))
    table.delete_partitions(["a"])
    result = sync(table, catalog)
    assert result.entries[0].added == ("c",)
    assert result.entries[0].dropped == (("a",),)
    assert catalog.values("trips") == [("b",), ("c",)]
    assert catalog.changes == ["replace_table", "add_partitions", "drop_partitions", "replace_table"]
    assert "partition_values" not in catalog.calls


def test_a_foreign_partition_stays_until_all_are_compared(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    catalog.parts["default.trips"][("zz",)] = CatalogPartition(("zz",), "s3://elsewhere/zz")
    table.upsert(rows("b"))
    sync(table, catalog)
    assert catalog.values("trips") == [("a",), ("b",), ("zz",)]
    assert sync(table, catalog, check=True).entries[0].differences == ("the partition (zz) is not in the table",)
    sync(table, catalog, full=True)
    assert catalog.values("trips") == [("a",), ("b",)]


def test_partitions_without_committed_files_are_not_registered(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.auto.commit": False})
    client = hoodie.HoodieLocalWriteClient(config)
    instant = client.start_commit()
    client.upsert(rows("pending"), instant)
    assert (tmp_path / "pending").exists()
    catalog = MemoryCatalog()
    sync(table, catalog)
    assert catalog.values("trips") == [("a",)]


def test_a_commit_that_completed_late_is_not_missed(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    several = {
        "hoodie.auto.commit": False,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    late = hoodie.HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table.path, several))
    instant = late.start_commit()
    result = late.insert(rows("late"), instant)
    table.upsert(rows("b"), properties={**several, "hoodie.auto.commit": True})
    catalog = MemoryCatalog()
    sync(table, catalog)
    assert catalog.values("trips") == [("a",), ("b",)]
    late.commit(instant, result)
    late.close()
    newest = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1]
    assert newest.requested_time != instant
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == newest.requested_time
    sync(table, catalog)
    assert catalog.values("trips") == [("a",), ("b",), ("late",)]
    assert "partition_values" not in catalog.calls


def test_all_partitions_are_compared_after_the_told_commit_was_undone(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    table.savepoint()
    first = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1]
    table.upsert(rows("b"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.restore(first.requested_time)
    sync(table, catalog)
    assert catalog.values("trips") == [("a",)]
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == first.requested_time


def test_all_partitions_are_compared_after_the_told_commit_was_archived(tmp_path: Path) -> None:
    few = {
        "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1,
        "hoodie.metadata.enable": False,
    }  # fmt: skip
    table = create(tmp_path, rows("a"), properties=few)
    catalog = MemoryCatalog()
    sync(table, catalog)
    for number in range(6):
        table.upsert(rows(f"d{number}"), properties=few)
    sync(table, catalog)
    assert catalog.values("trips") == [("a",), *((f"d{number}",) for number in range(6))]
    assert "partition_values" in catalog.calls


def test_a_merge_on_read_table_has_three_names(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"), table_type="MERGE_ON_READ")
    catalog = MemoryCatalog()
    sync(table, catalog)
    assert list(catalog.known["default"]) == ["trips_ro", "trips_rt", "trips"]
    flags = {
        name: (entry.input_format.rpartition(".")[2], entry.serde_parameters["hoodie.query.as.ro.table"])
        for name, entry in catalog.known["default"].items()
    }
    assert flags == {
        "trips_ro": ("HoodieParquetInputFormat", "true"),
        "trips_rt": ("HoodieParquetRealtimeInputFormat", "false"),
        "trips": ("HoodieParquetRealtimeInputFormat", "false"),
    }


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"table.strategy": "RO"}, {"trips": ("", "true")}),
        ({"table.strategy": "RT"}, {"trips": ("Realtime", "false")}),
        ({"skip_ro_suffix": True}, {"trips": ("", "true"), "trips_rt": ("Realtime", "false")}),
    ],
)
def test_names_of_a_merge_on_read_table_follow_options(
    tmp_path: Path, options: dict[str, Any], names: dict[str, tuple[str, str]]
) -> None:
    table = create(tmp_path, rows("a"), table_type="MERGE_ON_READ")
    catalog = MemoryCatalog()
    sync(table, catalog, {f"hoodie.datasource.hive_sync.{key}": value for key, value in options.items()})
    assert {
        name: (
            "Realtime" if "Realtime" in entry.input_format else "",
            entry.serde_parameters["hoodie.query.as.ro.table"],
        )
        for name, entry in catalog.known["default"].items()
    } == names


def test_what_others_wrote_into_an_entry_stays(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    entry = catalog.entry("trips")
    commented = tuple(attrs.evolve(c, comment="mine") if c.name == "ts" else c for c in entry.columns)
    catalog.known["default"]["trips"] = attrs.evolve(
        entry,
        columns=commented,
        parameters={**entry.parameters, "owner.team": "rides"},
        serde_parameters={**entry.serde_parameters, "foreign": "1"},
    )
    table.add_columns({"fare": pa.float64()})
    table.upsert(rows("b").append_column("fare", pa.array([1.0])))
    result = sync(table, catalog)
    assert result.entries[0].columns == ("the column fare (double) is missing",)
    entry = catalog.entry("trips")
    assert entry.parameters["owner.team"] == "rides"
    assert entry.serde_parameters["foreign"] == "1"
    assert {column.name: column.comment for column in entry.columns}["ts"] == "mine"
    assert [column.name for column in entry.columns][-1] == "fare"


def test_an_entry_with_numbers_for_timestamps_keeps_them(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog, {"hoodie.datasource.hive_sync.support_timestamp": False})
    assert {c.name: c.type for c in catalog.entry("trips").columns}["at"] == "bigint"
    table.upsert(rows("b"))
    sync(table, catalog)
    assert {c.name: c.type for c in catalog.entry("trips").columns}["at"] == "bigint"
    sync(table, catalog, {"hoodie.datasource.hive_sync.support_timestamp": True}, full=True)
    assert {c.name: c.type for c in catalog.entry("trips").columns}["at"] == "timestamp"


def test_the_wrong_number_of_values_is_told_before_any_change(tmp_path: Path) -> None:
    table = create(tmp_path, rows("2026/11/14"))
    catalog = MemoryCatalog()
    with pytest.raises(HoodieSyncException, match=r"'2026/11/14' gives 3 values.*1 partition column \(day\)"):
        sync(table, catalog, {_EXTRACTOR: "org.apache.hudi.hive.MultiPartKeysValueExtractor"})
    assert catalog.changes == []


def test_partitions_with_the_same_values_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path, rows("2026/11", "2026-11"))
    catalog = MemoryCatalog()
    with pytest.raises(HoodieSyncException, match="give the same values"):
        sync(table, catalog)
    assert catalog.changes == []


def test_views_and_tables_of_others_are_not_touched(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    foreign = CatalogTable("default", "trips", (), (), "s3://b/csv", "TextInputFormat", "o", "s", {}, {})
    for taken, message in ((attrs.evolve(foreign, kind="VIRTUAL_VIEW"), "is a view"), (foreign, "none of Hudi's")):
        catalog.known["default"]["trips"] = taken
        with pytest.raises(HoodieSyncException, match=message):
            sync(table, catalog, full=True)
        assert catalog.changes == []
        assert catalog.entry("trips") == taken


def test_a_table_that_moved_gets_its_entry_anew(tmp_path: Path) -> None:
    catalog = MemoryCatalog()
    sync(create(tmp_path / "old", rows("a")), catalog)
    result = sync(create(tmp_path / "new", rows("b")), catalog)
    assert result.entries[0].is_recreated
    assert catalog.values("trips") == [("b",)]
    assert catalog.entry("trips").location == f"file:{tmp_path}/new"


def test_a_refused_change_of_a_type_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog(refuses_types=True)
    sync(table, catalog)
    entry = catalog.entry("trips")
    catalog.known["default"]["trips"] = attrs.evolve(
        entry, columns=tuple(attrs.evolve(c, type="int") if c.name == "ts" else c for c in entry.columns)
    )
    with pytest.raises(
        HoodieSyncException, match=r"column ts is int, and bigint in the table.*recreate_table_on_error"
    ):
        sync(table, catalog, full=True)
    result = sync(table, catalog, {"hoodie.datasource.hive_sync.recreate_table_on_error": True}, full=True)
    assert result.entries[0].is_recreated


def test_a_missing_database_is_made_or_told(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    given = {"hoodie.datasource.hive_sync.database": "rides"}
    with pytest.raises(HoodieSyncException, match="no database 'rides'"):
        sync(table, catalog, {**given, "hoodie.datasource.hive_sync.auto_create_database": False})
    assert catalog.changes == []
    sync(table, catalog, given)
    assert catalog.changes[0] == "create_database"
    assert catalog.values("trips", "rides") == [("a",)]


CALLS = ("create_database", "create_table", "add_partitions", "replace_table")


@pytest.mark.parametrize("call", CALLS)
def test_the_next_sync_makes_up_for_one_that_died(tmp_path: Path, call: str) -> None:
    table = create(tmp_path, rows("a", "b"))
    given = {"hoodie.datasource.hive_sync.database": "rides"}
    catalog = MemoryCatalog()
    whole = MemoryCatalog()
    sync(table, whole, given)

    def die(name: str) -> None:
        if name == call:
            raise HoodieSyncException("the connection is lost")

    catalog.before = die
    with pytest.raises(HoodieSyncException, match="lost"):
        sync(table, catalog, given)
    catalog.before = lambda name: None
    sync(table, catalog, given)
    assert catalog.known == whole.known
    assert catalog.parts == whole.parts


def test_two_first_syncs_at_once(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    other = MemoryCatalog(catalog.known, catalog.parts)

    def meanwhile(name: str) -> None:
        if name == "create_table":
            catalog.before = lambda call: None
            sync(table, other)

    catalog.before = meanwhile
    result = sync(table, catalog)
    assert not result.entries[0].is_created
    assert catalog.values("trips") == [("a",)]


def test_a_newer_sync_wins(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.upsert(rows("b"))
    old = TableSnapshot.load(table.path)
    table.upsert(rows("c"))
    other = MemoryCatalog(catalog.known, catalog.parts)

    def meanwhile(name: str) -> None:
        if name == "add_partitions":
            catalog.before = lambda call: None
            sync(table, other)

    catalog.before = meanwhile
    (settings,) = sync_settings(
        HoodieWriteConfig.from_properties(table.path, {}), old.table_config, catalog="glue", environment={}
    )
    HiveSyncTool(old, settings, catalog).sync()
    newest = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1]
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == newest.requested_time
    assert catalog.values("trips") == [("a",), ("b",), ("c",)]


def test_an_older_sync_on_top_is_written_over(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    old = catalog.entry("trips")
    table.upsert(rows("b"))
    seen = []

    def meanwhile(name: str) -> None:
        if seen and seen[-1] == "replace_table":
            catalog.known["default"]["trips"] = attrs.evolve(old, stored=object())
            catalog.before = lambda call: None
        seen.append(name)

    catalog.before = meanwhile
    sync(table, catalog)
    newest = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1]
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == newest.requested_time


def test_a_table_that_is_dropped_meanwhile_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()

    def drop(name: str) -> None:
        if name == "add_partitions":
            catalog.known["default"].clear()

    catalog.before = drop
    with pytest.raises(CatalogEntryChangedException, match="dropped during the sync"):
        sync(table, catalog)


def test_a_check_tells_all_and_changes_nothing(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a", "b"))
    catalog = MemoryCatalog()
    assert sync(table, catalog, check=True).entries[0].differences == ("there is no entry",)
    sync(table, catalog)
    assert not sync(table, catalog, check=True).has_differences
    entry = catalog.entry("trips")
    parameters = dict(entry.parameters)
    del parameters["spark.sql.sources.provider"]
    catalog.known["default"]["trips"] = attrs.evolve(entry, parameters=parameters, columns=entry.columns[:-1])
    moved = catalog.parts["default.trips"]
    moved[("b",)] = attrs.evolve(moved[("b",)], location="/elsewhere")
    del moved[("a",)]
    result = sync(table, catalog, check=True)
    assert result.entries[0].differences == (
        "the column at (timestamp) is missing",
        "the parameter spark.sql.sources.provider is missing",
        "the partition a is missing",
        "the partition b is at /elsewhere",
    )
    assert catalog.changes == []
    sync(table, catalog, full=True)
    assert not sync(table, catalog, check=True).has_differences


def test_a_wrong_partition_order_cannot_be_changed(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    catalog.known["default"]["trips"] = attrs.evolve(
        catalog.entry("trips"), partition_keys=(CatalogColumn("month", "string"),)
    )
    with pytest.raises(HoodieSyncException, match=r"partition columns \(month\).*force.recreate"):
        sync(table, catalog, full=True)
    assert catalog.changes == []
    sync(table, catalog, {"hoodie.meta.sync.force.recreate.table": True})
    assert catalog.entry("trips").partition_keys == (CatalogColumn("day", "string"),)


def test_conditional_syncs_store_the_commit_only_with_a_change(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    conditional = {"hoodie.datasource.meta_sync.condition.sync": True}
    catalog = MemoryCatalog()
    for number in range(3):
        table.upsert(rows("a", ordering=2 + number))
    sync(table, catalog, conditional)
    table.upsert(rows("a", ordering=9))
    first = catalog.entry("trips").parameters["last_commit_time_sync"]
    sync(table, catalog, conditional)
    assert catalog.entry("trips").parameters["last_commit_time_sync"] == first
    assert catalog.changes == []
    for number in range(4):
        table.upsert(rows("a", ordering=10 + number))
    sync(table, catalog, conditional)
    behind_the_middle = catalog.entry("trips").parameters["last_commit_time_sync"]
    assert behind_the_middle != first
    table.upsert(rows("b", ordering=2))
    sync(table, catalog, conditional)
    assert catalog.entry("trips").parameters["last_commit_time_sync"] != behind_the_middle


def test_touched_partitions_are_written_anew(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a", "b"))
    catalog = MemoryCatalog()
    touching = {"hoodie.meta.sync.touch.partitions.enabled": True}
    sync(table, catalog, touching)
    table.upsert(rows("b", ordering=2))
    assert sync(table, catalog, touching).entries[0].touched == ("b",)


def test_a_table_without_a_commit_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a").schema)
    with pytest.raises(HoodieSyncException, match="no completed commit"):
        sync(table, MemoryCatalog())


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_archive_does_not_hide_a_commit_that_completed_late(tmp_path: Path, version: int) -> None:
    """The late commit is archived by the time of the next sync, and the commit that the entry names is not."""
    few = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "hoodie.clean.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3,
        "hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.metadata.enable": False,
    }  # fmt: skip
    table = create(tmp_path, rows("a"), table_version=version, properties=few)
    late = hoodie.HoodieLocalWriteClient(
        HoodieWriteConfig.from_properties(table.path, {**few, "hoodie.auto.commit": False})
    )
    instant = late.start_commit()
    result = late.insert(rows("late"), instant)
    for day in ("b", "c"):
        table.upsert(rows(day), properties=few)
    catalog = MemoryCatalog()
    sync(table, catalog)
    late.commit(instant, result)
    late.close()
    for number in range(2):
        table.upsert(rows(f"d{number}"), properties=few)
        sync(table, catalog)
        assert not sync(table, catalog, check=True).has_differences
    assert ("late",) in catalog.values("trips")


def other_sync(table: hoodie.Table, catalog: MemoryCatalog, snapshot: TableSnapshot | None = None) -> HiveSyncTool:
    """A sync of another process with the same catalog, at a state of the table."""
    snapshot = snapshot or TableSnapshot.load(table.path)
    config = HoodieWriteConfig.from_properties(table.path, {})
    (settings,) = sync_settings(config, snapshot.table_config, catalog="glue", environment={})
    return HiveSyncTool(snapshot, settings, MemoryCatalog(catalog.known, catalog.parts))


def run_before(catalog: MemoryCatalog, call: str, work: Callable[[], object], number: int = 1) -> None:
    """Run something right before a call of a catalog, once."""
    left = [number]

    def before(name: str) -> None:
        left[0] -= name == call
        if not left[0] and name == call:
            work()

    catalog.before = before


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_a_sync_that_died_is_made_up_for_after_an_undo(tmp_path: Path, undo: str) -> None:
    """The entry names the commit to which the table goes back, and has the partitions of one that is gone."""
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    first = table.savepoint().instant_time
    second = table.upsert(rows("c")).instant_time

    def die() -> None:
        raise HoodieSyncException("died")

    run_before(catalog, "replace_table", die, number=2)
    with pytest.raises(HoodieSyncException, match="died"):
        sync(table, catalog)
    assert catalog.values("trips") == [("a",), ("c",)]
    catalog.before = lambda name: None
    if undo == "rollback":
        table.rollback(second)
    else:
        table.restore(first)
    sync(table, catalog)
    assert catalog.values("trips") == [("a",)]
    assert not sync(table, catalog, check=True).has_differences


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("partitions", 1), ("table", 2), ("replace_table", 1), ("table", 3), ("add_partitions", 1),
        ("drop_partitions", 1), ("table", 4), ("replace_table", 2), ("table", 5),
    ],
)  # fmt: skip
def test_two_syncs_of_different_states_end_with_the_newer_one(tmp_path: Path, call: str, number: int) -> None:
    """A slow sync of an old state goes on after a whole sync of a newer one."""
    table = create(tmp_path, rows("a", "b"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.delete_partitions(["a"])
    table.upsert(rows("c"))
    old = TableSnapshot.load(table.path)
    table.delete_partitions(["c"])
    table.upsert(rows("a", ordering=5))
    table.add_columns({"fare": pa.float64()})
    slow = other_sync(table, catalog, old)
    run_before(slow._client, call, lambda: other_sync(table, catalog).sync(), number)  # type: ignore[arg-type]
    slow.sync()
    newest = TableSnapshot.load(table.path).active_timeline.completed_writes().instants[-1].requested_time
    if sync(table, catalog, check=True).has_differences:
        # Nothing stands between the last look and a change; the next sync mends what came in there.
        assert call == "replace_table"
        assert catalog.entry("trips").parameters["last_commit_time_sync"] != newest
        sync(table, catalog)
    assert catalog.values("trips") == [("a",), ("b",)]
    assert not sync(table, catalog, check=True).has_differences


def test_an_old_sync_within_a_newer_one(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a", "b"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.upsert(rows("c"))
    old = TableSnapshot.load(table.path)
    table.add_columns({"fare": pa.float64()})
    table.upsert(rows("d").append_column("fare", pa.array([1.0])))
    run_before(catalog, "add_partitions", lambda: other_sync(table, catalog, old).sync())
    sync(table, catalog)
    assert not sync(table, catalog, check=True).has_differences


def test_equal_values_are_refused_in_an_incremental_sync(tmp_path: Path) -> None:
    table = create(tmp_path, rows("2026/11/14"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.upsert(rows("2026-11-14"))
    with pytest.raises(HoodieSyncException, match="give the same values"):
        sync(table, catalog)
    assert catalog.parts["default.trips"][("2026-11-14",)].location == f"{tmp_path}/2026/11/14"


def test_a_lost_connection_does_not_make_an_entry_anew(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    table.upsert(rows("b"))

    def lose() -> None:
        raise HoodieSyncException("the connection was lost")

    run_before(catalog, "add_partitions", lose)
    with pytest.raises(HoodieSyncException, match="connection"):
        sync(table, catalog, {"hoodie.datasource.hive_sync.recreate_table_on_error": True})
    assert "recreate_table" not in catalog.calls


def test_names_of_a_merge_on_read_table_that_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    create(path, rows("a"), table_type="MERGE_ON_READ")
    catalog = MemoryCatalog()
    sync(hoodie.Table(path), catalog)
    hoodie.write_table(
        rows("b"), path, mode="overwrite", record_key_fields="id", partition_fields="day", ordering_fields="ts",
        table_type="COPY_ON_WRITE",
    )  # fmt: skip
    table = hoodie.Table(path)
    sync(table, catalog)
    checked = sync(table, catalog, check=True)
    assert [entry.name for entry in checked.entries if entry.differences] == ["default.trips_ro", "default.trips_rt"]
    sync(table, catalog, full=True)
    assert list(catalog.known["default"]) == ["trips"]


def test_partition_fields_in_lower_case(tmp_path: Path) -> None:
    data = rows("a").rename_columns(["id", "Day", "ts", "at"])
    table = create(tmp_path, data, partition_fields="Day")
    catalog = MemoryCatalog()
    sync(table, catalog, {"hoodie.datasource.hive_sync.partition_fields": "day"})
    entry = catalog.entry("trips")
    assert "day" not in [column.name for column in entry.columns]
    assert [key.name for key in entry.partition_keys] == ["day"]
    assert entry.parameters["spark.sql.sources.schema.partCol.0"] == "Day"


def test_a_partition_column_of_another_type_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, rows("a"))
    catalog = MemoryCatalog()
    sync(table, catalog)
    catalog.known["default"]["trips"] = attrs.evolve(
        catalog.entry("trips"), partition_keys=(CatalogColumn("day", "int"),), kind="MANAGED_TABLE"
    )
    (entry,) = sync(table, catalog, check=True).entries
    assert entry.differences == (
        "the partition column day is int, and string in the table, which only hoodie.meta.sync.force.recreate.table = "
        "true changes",
        "the entry is a MANAGED_TABLE: dropping a managed table deletes its files",
    )
