"""Tables by their names in a catalog: found, read, written, made and dropped."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import (
    HoodieConfigException,
    HoodieHeartbeatException,
    HoodieSyncException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.sync import catalog_sync
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.sync_settings import SyncSettings
from tests.support.memory_catalog import MemoryCatalog

URI = "thrift://nowhere:9083"
SYNC = {
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.metastore.uris": URI,
    "hoodie.datasource.hive_sync.database": "rides",
}
MOR: dict[str, Any] = {"table_type": "MERGE_ON_READ", "properties": {"hoodie.compact.inline": False}}
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, bool]]] = {
    "all": ({}, {"trips": False, "trips_ro": True, "trips_rt": False}),
    "without snapshot": (
        {"hoodie.meta.sync.sync_snapshot_with_table_name": False},
        {"trips_ro": True, "trips_rt": False},
    ),
    "without suffix": ({"hoodie.datasource.hive_sync.skip_ro_suffix": True}, {"trips": True, "trips_rt": False}),
    "RO": ({"hoodie.datasource.hive_sync.table.strategy": "RO"}, {"trips": True}),
    "RT": ({"hoodie.datasource.hive_sync.table.strategy": "RT"}, {"trips": False}),
    "RO of a name like a view": (
        {"hoodie.datasource.hive_sync.table.strategy": "RO", "hoodie.datasource.hive_sync.table": "old_ro"},
        {"old_ro": True},
    ),
    "RT of a name like a view": (
        {"hoodie.datasource.hive_sync.table.strategy": "RT", "hoodie.datasource.hive_sync.table": "old_rt"},
        {"old_rt": False},
    ),
}
"""Options of a sync of a merge-on-read table -> its names, and whether each reads base files only."""


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryCatalog]:
    made = MemoryCatalog()

    def open_catalog(settings: SyncSettings, _: object) -> MemoryCatalog:
        assert (settings.catalog, settings.uris) in (("hms", URI), ("glue", ""))
        return made

    monkeypatch.setattr(catalog_sync, "open_catalog", open_catalog)
    yield made


def rows(*days: str, ts: int = 1) -> pa.Table:
    return pa.table({"id": list(days), "day": list(days), "ts": pa.array([ts] * len(days), pa.int64())})


def create(path: Path, **arguments: Any) -> hoodie.Table:
    return hoodie.Table.create(
        path, rows("a"), record_key_fields="id", partition_fields="day", ordering_fields="ts", table_name="trips",
        **arguments,
    )  # fmt: skip


def told(catalog: MemoryCatalog, name: str, database: str = "rides") -> str:
    return catalog.entry(name, database).parameters["last_commit_time_sync"]


def synced(path: Path, options: dict[str, Any] | None = None, **arguments: Any) -> hoodie.Table:
    table = create(path, **arguments)
    table.sync(properties={**SYNC, **(options or {})})
    return table


# --- reading --------------------------------------------------------------------------------------------------------


def test_every_function_reads_by_name(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path)
    for given in (URI, hoodie.catalog(URI)):
        assert hoodie.read_table("rides.trips", catalog=given, columns="id")["id"].to_pylist() == ["a"]
        with hoodie.scan_table("rides.trips", catalog=given, filters="id = 'b'") as reader:
            assert reader.read_all().num_rows == 0
        assert hoodie.dataset("rides.trips", catalog=given).count_rows() == 1
        assert hoodie.plan_read("rides.trips", catalog=given).base_path == str(tmp_path)
        assert hoodie.Table("rides.trips", catalog=given).count() == 1
    assert hoodie.read_table(str(tmp_path), columns="id")["id"].to_pylist() == ["a"]


def test_a_name_without_a_database_is_in_default(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, {"hoodie.datasource.hive_sync.database": "default"})
    assert hoodie.Table("trips", catalog=URI).path == str(tmp_path)


def test_a_name_without_a_catalog_is_a_path(catalog: MemoryCatalog) -> None:
    with pytest.raises(TableNotFoundException):
        hoodie.read_table("rides.trips")
    assert catalog.calls == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_name_of_a_read_optimized_view_reads_base_files(tmp_path: Path, catalog: MemoryCatalog, layout: str) -> None:
    options, names = LAYOUTS[layout]
    table = synced(tmp_path, options, **MOR)
    table.upsert(rows("a", ts=2))
    assert catalog.known["rides"].keys() == names.keys()
    for name, is_read_optimized in names.items():
        expected = [1] if is_read_optimized else [2]
        assert hoodie.read_table(f"rides.{name}", catalog=URI, columns="ts")["ts"].to_pylist() == expected
        assert hoodie.Table(f"rides.{name}", catalog=URI).read("ts")["ts"].to_pylist() == expected


def test_another_query_of_a_read_optimized_view_is_refused(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, **MOR)
    for arguments in (
        {"query_type": "snapshot"},
        {"query_type": "incremental", "begin": "earliest"},
        {"options": {"hoodie.datasource.query.type": "snapshot"}},
    ):
        with pytest.raises(HoodieConfigException, match=r"rides\.trips_ro reads base files only"):
            hoodie.read_table("rides.trips_ro", catalog=URI, **arguments)
    found = hoodie.read_table("rides.trips", catalog=URI, query_type="incremental", begin="earliest")
    assert found.num_rows == 1


def test_options_of_reads_of_the_catalog_count(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, **MOR).upsert(rows("a", ts=2))
    opened = hoodie.catalog(URI, properties={"hoodie.datasource.query.type": "read_optimized"})
    assert hoodie.read_table("rides.trips", catalog=opened, columns="ts")["ts"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "the name of the table is None: give database.table"),
        (5, "the name of the table is 5 of type int"),
        ("", "'' is no name of a table in a catalog"),
        (".trips", "'.trips' is no name"),
        ("rides.", "'rides.' is no name"),
        ("/data/trips", "or leave catalog out for a path"),
        ("s3://ann:secret@lake/trips", "'s3://lake/trips' is no name"),
    ],
)
def test_what_is_no_name_is_refused(catalog: MemoryCatalog, name: Any, message: str) -> None:
    opened = hoodie.catalog(URI)
    for call in (
        opened.table,
        opened.path,
        opened.drop,
        lambda given: hoodie.read_table(given, catalog=opened),
        lambda given: hoodie.write_table(rows("a"), given, catalog=opened),
        lambda given: hoodie.write_table(rows("a"), given, catalog=opened, location="/nowhere"),
    ):
        with pytest.raises(HoodieConfigException) as caught:
            call(name)
        assert message in str(caught.value)
    assert catalog.calls == []


def test_what_is_no_catalog_is_refused(catalog: MemoryCatalog) -> None:
    for given in (5, b"hms", {"hms": 1}, hoodie.Table):
        with pytest.raises(HoodieConfigException, match=r"catalog is .*give a hoodie.Catalog"):
            hoodie.read_table("rides.trips", catalog=given)  # type: ignore[arg-type]
    with pytest.raises(HoodieConfigException, match="database is None"):
        hoodie.catalog(URI).tables(None)  # type: ignore[arg-type]
    with pytest.raises(HoodieConfigException, match="there is no catalog 'thrifts://h:1'"):
        hoodie.catalog("thrifts://ann:secret@h:1")


def test_an_entry_that_is_missing_or_foreign_is_no_table(tmp_path: Path, catalog: MemoryCatalog) -> None:
    with pytest.raises(TableNotFoundException, match=r"no table rides\.trips: see hoodie\.catalog"):
        hoodie.Table("rides.trips", catalog=URI)
    catalog.known["rides"] = {"csv": foreign(tmp_path)}
    for call in (hoodie.catalog(URI).table, hoodie.catalog(URI).drop):
        with pytest.raises(TableNotFoundException, match=r"rides\.csv is none of a Hudi table"):
            call("rides.csv")
    assert "csv" in catalog.known["rides"]


def foreign(location: Path, name: str = "csv") -> CatalogTable:
    return CatalogTable(
        "rides", name, (), (), str(location), "org.apache.hadoop.mapred.TextInputFormat", "", "", {}, {}
    )


# --- writing --------------------------------------------------------------------------------------------------------


def test_writes_by_name_are_told_to_the_entry(tmp_path: Path, catalog: MemoryCatalog) -> None:
    """The entry's name is neither that of the table nor the default one."""
    synced(tmp_path, {"hoodie.datasource.hive_sync.table": "journeys"})
    done = hoodie.write_table(rows("b"), "rides.journeys", catalog=URI)
    assert done is not None
    assert done.service_errors == ()
    assert told(catalog, "journeys") == done.instant_time
    done = hoodie.Table("rides.journeys", catalog=URI).upsert(rows("c"))
    assert told(catalog, "journeys") == done.instant_time
    done = hoodie.catalog(URI).table("rides.journeys").upsert(rows("d"))
    assert told(catalog, "journeys") == done.instant_time
    assert catalog.values("journeys", "rides") == [("a",), ("b",), ("c",), ("d",)]
    assert {database: set(names) for database, names in catalog.known.items()} == {
        "default": set(),
        "rides": {"journeys"},
    }
    assert hoodie.Table(tmp_path).count() == 4


def test_a_table_by_name_syncs_without_options(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = synced(tmp_path, {"hoodie.datasource.hive_sync.table": "journeys"})
    done = table.upsert(rows("b"))
    (result,) = hoodie.Table("rides.journeys", catalog=URI).sync()
    assert [entry.name for entry in result.entries] == ["rides.journeys"]
    assert told(catalog, "journeys") == done.instant_time


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes_are_told_to_the_names_that_there_are(tmp_path: Path, catalog: MemoryCatalog, layout: str) -> None:
    options, names = LAYOUTS[layout]
    synced(tmp_path, options, **MOR)
    kinds = {name: catalog.entry(name, "rides").input_format for name in names}
    for name in names:
        done = hoodie.Table(f"rides.{name}", catalog=URI).upsert(rows(f"{name}!"))
        assert done.service_errors == ()
        assert catalog.known["rides"].keys() == names.keys()
        assert {told(catalog, each) for each in names} == {done.instant_time}
    assert {name: catalog.entry(name, "rides").input_format for name in names} == kinds


def test_entries_of_views_that_do_not_say_so_are_known_by_their_formats(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, {"hoodie.datasource.hive_sync.sync_as_datasource": False}, **MOR).upsert(rows("a", ts=2))
    opened = hoodie.Table("rides.trips_ro", catalog=URI)
    assert opened.read("ts")["ts"].to_pylist() == [1]
    opened.upsert(rows("b"))
    assert catalog.known["rides"].keys() == {"trips", "trips_ro", "trips_rt"}


def test_a_copy_on_write_table_is_not_taken_for_a_view(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path / "one", {"hoodie.datasource.hive_sync.table": "trips_ro"})
    synced(tmp_path / "other", {"hoodie.datasource.hive_sync.table": "trips_rt"}, **MOR)
    hoodie.Table("rides.trips_ro", catalog=URI).upsert(rows("b"))
    assert catalog.values("trips_ro", "rides") == [("a",), ("b",)]
    assert set(catalog.known["rides"]) == {"trips_ro", "trips_rt_ro", "trips_rt_rt", "trips_rt"}


@pytest.mark.parametrize("key", ["hoodie.datasource.hive_sync.enable", "hoodie.datasource.meta.sync.enable"])
def test_an_option_leaves_the_entry_as_it_is(tmp_path: Path, catalog: MemoryCatalog, key: str) -> None:
    synced(tmp_path)
    before = told(catalog, "trips")
    hoodie.write_table(rows("b"), "rides.trips", catalog=URI, properties={key: False})
    assert told(catalog, "trips") == before


def test_the_name_goes_before_options_of_another_one(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path)
    other = {
        "hoodie.datasource.hive_sync.database": "elsewhere",
        "Hoodie.Datasource.Hive_Sync.Table".lower(): "other",
        "hoodie.datasource.hive_sync.mode": "glue",
        "hoodie.datasource.hive_sync.metastore.uris": "thrift://elsewhere:1",
        "hoodie.datasource.meta.sync.glue.database_name": "lake",
        "hoodie.datasource.meta.sync.glue.table_name": "rides",
    }
    done = hoodie.write_table(rows("b"), "rides.trips", catalog=URI, properties=other)
    assert done is not None
    assert done.service_errors == ()
    assert told(catalog, "trips") == done.instant_time
    assert set(catalog.known) == {"default", "rides"}


def test_a_manifest_is_written_beside(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path)
    tools = {"hoodie.meta.sync.client.tool.class": "org.apache.hudi.hive.HiveSyncTool,ManifestFileWriter"}
    done = hoodie.write_table(rows("b"), "rides.trips", catalog=URI, properties=tools)
    assert done is not None
    assert told(catalog, "trips") == done.instant_time
    assert (tmp_path / ".hoodie/absolute-path-manifest/latest-snapshot.csv").exists()


def test_glue_is_told_of_writes_by_name(tmp_path: Path, catalog: MemoryCatalog) -> None:
    create(tmp_path).sync(properties={**SYNC, "hoodie.datasource.hive_sync.mode": "glue"})
    done = hoodie.write_table(rows("b"), "rides.trips", catalog="glue")
    assert done is not None
    assert done.service_errors == ()
    assert told(catalog, "trips") == done.instant_time


def test_an_error_of_the_catalog_does_not_fail_a_write_by_name(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path)
    table = hoodie.Table("rides.trips", catalog=URI)

    def refuse(call: str) -> None:
        raise HoodieSyncException("the metastore is down.")

    catalog.before = refuse
    done = table.upsert(rows("b"))
    assert done.is_committed
    assert "the metastore is down" in done.service_errors[0]


def test_a_table_by_name_can_be_sent_to_other_processes(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, {"hoodie.datasource.hive_sync.table": "journeys"})
    table = pickle.loads(pickle.dumps(hoodie.Table("rides.journeys", catalog=URI)))
    assert repr(table) == f"hoodie.Table('rides.journeys', catalog='{URI}')"
    done = table.upsert(rows("b"))
    assert told(catalog, "journeys") == done.instant_time
    table.drop()
    assert catalog.known["rides"] == {}


def test_no_password_is_shown(tmp_path: Path, catalog: MemoryCatalog, caplog: pytest.LogCaptureFixture) -> None:
    secret = "thrift://ann:PASSW@ORD@nowhere:9083"
    synced(tmp_path)
    opened = hoodie.catalog(secret)
    table = opened.table("rides.trips")
    shown = [repr(opened), repr(table), repr(table._named), repr(table._config({})), str(table._properties)]
    with pytest.raises(TableNotFoundException) as missing:
        opened.table("rides.none")
    by_option = {"hoodie.datasource.hive_sync.metastore.uris": secret}
    config = hoodie.HoodieWriteConfig.from_properties("/data", by_option)
    shown += [str(missing.value), repr(hoodie.catalog("hms", properties=by_option)), repr(config), caplog.text]
    endpoint = {"hoodie.aws.glue.endpoint": "http://ann:PASSW@ORD@nowhere:1"}
    glue = hoodie.HoodieWriteConfig.from_properties("/data", endpoint)
    shown += [repr(glue)]
    assert glue.aws.glue_endpoint == "http://nowhere:1"
    assert not [text for text in shown if "ORD" in text or "PASSW" in text]
    assert table.upsert(rows("b")).service_errors == ()


# --- making and dropping --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_a_table_and_its_entry_are_made_together(
    tmp_path: Path, catalog: MemoryCatalog, arguments: dict[str, Any]
) -> None:
    place = tmp_path / "trips"
    done = hoodie.write_table(
        rows("a"), "rides.journeys", catalog=URI, location=place, record_key_fields="id", partition_fields="day",
        **arguments,
    )  # fmt: skip
    assert done is not None
    names = {"journeys"} if not arguments else {"journeys", "journeys_ro", "journeys_rt"}
    assert catalog.known["rides"].keys() == names
    assert told(catalog, "journeys") == done.instant_time
    assert catalog.entry("journeys", "rides").location == f"file:{place}"
    properties = hoodie.Table(place).properties()
    assert (properties["hoodie.table.name"], properties["hoodie.database.name"]) == ("journeys", "rides")
    assert hoodie.read_table("rides.journeys", catalog=URI).num_rows == 1
    # The table knows its name, so a sync by its path finds the entry.
    again = hoodie.Table(place).upsert(rows("b"), properties={"hoodie.datasource.hive_sync.enable": False})
    hoodie.sync_table(str(place), "hms", properties={"hoodie.datasource.hive_sync.metastore.uris": URI})
    assert told(catalog, "journeys") == again.instant_time


@pytest.mark.parametrize("content", ["rows", "schema"])
def test_a_created_table_has_an_entry(tmp_path: Path, catalog: MemoryCatalog, content: str) -> None:
    given = rows("a") if content == "rows" else rows("a").schema
    table = hoodie.Table.create(
        "rides.trips", given, record_key_fields="id", partition_fields="day", table_name="other", catalog=URI,
        location=tmp_path / "t",
    )  # fmt: skip
    assert repr(table) == f"hoodie.Table('rides.trips', catalog='{URI}')"
    assert table.properties()["hoodie.table.name"] == "other"
    assert [column.name for column in catalog.entry("trips", "rides").columns][-2:] == ["id", "ts"]
    done = table.upsert(rows("b"))
    assert told(catalog, "trips") == done.instant_time


@pytest.mark.parametrize("taken", ["trips", "trips_rt"])
def test_a_name_that_is_taken_is_refused_before_anything_is_written(
    tmp_path: Path, catalog: MemoryCatalog, taken: str
) -> None:
    catalog.known["rides"] = {taken: foreign(tmp_path / "elsewhere", taken)}
    with pytest.raises(TableExistsException, match=rf"has rides\.{taken} already, at .*nothing was written"):
        hoodie.write_table(
            rows("a"), "rides.trips", catalog=URI, location=tmp_path / "t", record_key_fields="id", **MOR
        )
    assert not (tmp_path / "t").exists()
    assert catalog.changes == []


def test_a_table_that_is_there_is_not_given_another_name(tmp_path: Path, catalog: MemoryCatalog) -> None:
    create(tmp_path / "t")
    with pytest.raises(TableExistsException, match=r"there is a table at .*call hoodie\.sync_table\(") as caught:
        hoodie.write_table(rows("b"), "rides.trips", catalog=URI, location=tmp_path / "t", record_key_fields="id")
    assert hoodie.Table(tmp_path / "t").count() == 1
    assert catalog.changes == []
    exec(str(caught.value).split("call ")[1].split(", then")[0], {"hoodie": hoodie})
    assert hoodie.read_table("rides.trips", catalog=URI).num_rows == 1


def test_a_table_stays_if_its_entry_cannot_be_made(tmp_path: Path, catalog: MemoryCatalog) -> None:
    def refuse(call: str) -> None:
        if call == "create_table":
            raise HoodieSyncException("the disk of the metastore is full.")

    catalog.before = refuse
    with pytest.raises(HoodieSyncException, match="disk of the metastore is full. The table stays") as caught:
        hoodie.write_table(rows("a"), "rides.trips", catalog=URI, location=tmp_path / "t", record_key_fields="id")
    assert hoodie.Table(tmp_path / "t").count() == 1
    catalog.before = lambda call: None
    exec(str(caught.value).split("call ")[1], {"hoodie": hoodie})
    assert hoodie.read_table("rides.trips", catalog=URI).num_rows == 1


def test_arguments_of_new_tables_belong_together(tmp_path: Path, catalog: MemoryCatalog) -> None:
    place = tmp_path / "t"
    with pytest.raises(HoodieConfigException, match="location is the folder of a new table"):
        hoodie.write_table(rows("a"), "trips", location=place, record_key_fields="id")
    for given in ({"catalog": URI}, {"location": place}):
        with pytest.raises(HoodieConfigException, match="catalog and location belong together"):
            hoodie.Table.create("rides.trips", rows("a"), record_key_fields="id", **given)
    for mode in ("overwrite", "ignore"):
        with pytest.raises(HoodieConfigException, match=f"mode = '{mode}' with location"):
            hoodie.write_table(rows("a"), "rides.trips", catalog=URI, location=place, record_key_fields="id", mode=mode)
    with pytest.raises(HoodieConfigException, match="location is 5"):
        hoodie.write_table(rows("a"), "rides.trips", catalog=URI, location=5, record_key_fields="id")  # type: ignore[arg-type]
    assert not place.exists()
    assert catalog.calls == []


@pytest.mark.parametrize("layout", ["all", "without suffix", "RO"])
def test_a_drop_takes_all_names_away_before_the_table(tmp_path: Path, catalog: MemoryCatalog, layout: str) -> None:
    options, names = LAYOUTS[layout]
    place = tmp_path / "t"
    synced(place, options, **MOR)
    catalog.known["rides"]["csv"] = foreign(tmp_path)
    seen = []
    catalog.before = lambda call: seen.append((place / ".hoodie/hoodie.properties").exists())
    table = hoodie.Table(f"rides.{next(iter(names))}", catalog=URI)
    plan = table.drop(dry_run=True)
    assert catalog.changes[-1] != "drop_table"
    assert plan.is_dry_run
    table.drop()
    assert set(catalog.known["rides"]) == {"csv"}
    assert all(seen)
    assert not place.exists()


def test_a_drop_leaves_the_table_if_the_catalog_refuses(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path / "t", **MOR)
    table = hoodie.Table("rides.trips", catalog=URI)

    def refuse(call: str) -> None:
        if call == "drop_table" and catalog.calls.count("drop_table") == 2:
            raise HoodieSyncException("no.")

    catalog.before = refuse
    with pytest.raises(HoodieSyncException, match="no"):
        table.drop()
    assert table.count() == 1
    assert "trips" in catalog.known["rides"]
    table.drop()
    assert catalog.known["rides"] == {}


def test_a_drop_that_is_refused_leaves_the_entry(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path)
    table = hoodie.Table("rides.trips", catalog=URI)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(HoodieConfigException, match=r"notes\.txt"):
        table.drop()
    (tmp_path / "notes.txt").unlink()
    config = hoodie.HoodieWriteConfig.from_properties(tmp_path, {"hoodie.clean.failed.writes.policy": "LAZY"})
    with hoodie.HoodieLocalWriteClient(config) as client:
        client.start_commit()
        with pytest.raises(HoodieHeartbeatException):
            table.drop()
    assert "trips" in catalog.known["rides"]


def test_a_drop_leaves_a_name_that_is_another_tables_now(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path / "t")
    table = hoodie.Table("rides.trips", catalog=URI)
    other = attrs.evolve(catalog.entry("trips", "rides"), location=f"file:{tmp_path}/other")
    catalog.known["rides"]["trips"] = other
    table.drop()
    assert catalog.known["rides"] == {"trips": other}


def test_a_catalog_drops_one_entry_and_no_data(tmp_path: Path, catalog: MemoryCatalog) -> None:
    synced(tmp_path, **MOR)
    opened = hoodie.catalog(URI)
    opened.drop("rides.trips_rt")
    assert catalog.known["rides"].keys() == {"trips", "trips_ro"}
    with pytest.raises(TableNotFoundException):
        opened.drop("rides.trips_rt")
    assert hoodie.Table(tmp_path).count() == 1


# --- catalogs of users ----------------------------------------------------------------------------------------------


class OwnCatalog(MemoryCatalog):
    """A catalog as a user writes one: made with the configuration, kept in the process."""

    kept: ClassVar[dict[str, MemoryCatalog]] = {}

    def __init__(self, config: hoodie.HoodieWriteConfig) -> None:
        super().__init__()
        kept = self.kept.setdefault(config.properties["own.name"], self)
        self.known, self.parts = kept.known, kept.parts


OWN = f"{__name__}.OwnCatalog"


def test_a_catalog_of_the_user_is_told_and_opens_tables(tmp_path: Path) -> None:
    options = {"own.name": str(tmp_path), "hoodie.datasource.hive_sync.database": "rides"}
    table = create(tmp_path, properties={**options, "hoodie.meta.sync.client.tool.class": OWN})
    (result,) = table.sync()
    assert [entry.is_created for entry in result.entries] == [True]
    (again,) = hoodie.sync_table(str(tmp_path), OWN, properties=options)
    assert not again.entries[0].is_changed
    opened = hoodie.catalog(OWN, properties=options)
    assert repr(opened) == f"hoodie.catalog('{OWN}')"
    done = opened.table("rides.trips").upsert(rows("b"))
    assert done.service_errors == ()
    own = OwnCatalog.kept[str(tmp_path)]
    assert told(own, "trips") == done.instant_time
    assert own.values("trips", "rides") == [("a",), ("b",)]
    hoodie.write_table(
        rows("a"), "rides.more", catalog=opened, location=tmp_path / "more", record_key_fields="id",
        properties={"hoodie.meta.sync.client.tool.class": f"{OWN},ManifestFileWriter"},
    )  # fmt: skip
    assert set(own.known["rides"]) == {"trips", "more"}
    assert (tmp_path / "more/.hoodie/absolute-path-manifest/latest-snapshot.csv").exists()


def test_a_class_that_is_no_catalog_is_refused(tmp_path: Path) -> None:
    for name, words in (
        ("json.JSONDecoder", "is not a subclass of hoodie.HoodieCatalogClient"),
        ("nowhere.at.All", "cannot be imported"),
        (OWN, "cannot be created (KeyError"),
    ):
        with pytest.raises(HoodieConfigException) as caught:
            hoodie.catalog(name).databases()
        assert words in str(caught.value)
    with pytest.raises(HoodieConfigException, match="Unity Catalog takes no tables of Hudi"):
        hoodie.catalog("Unity")


def test_what_a_client_need_not_define() -> None:
    class Least(MemoryCatalog):
        has_database = hoodie.HoodieCatalogClient.has_database
        recreate_table = hoodie.HoodieCatalogClient.recreate_table
        partition_values = hoodie.HoodieCatalogClient.partition_values
        touch_partitions = hoodie.HoodieCatalogClient.touch_partitions
        close = hoodie.HoodieCatalogClient.close

    with Least() as client:
        assert client.has_database("default")
        assert not client.has_database("rides")
        table = attrs.evolve(foreign(Path("/t")), database="default", partition_keys=(CatalogColumn("day", "string"),))
        client.create_table(table)
        client.add_partitions(table, [CatalogPartition(("a",), "/t/a")])
        assert client.partition_values(table) == [("a",)]
        client.touch_partitions(table, [CatalogPartition(("a",), "/t/a")])
        assert client.changes[-1] == "set_locations"
        client.recreate_table(table)
        assert client.partition_values(table) == []
