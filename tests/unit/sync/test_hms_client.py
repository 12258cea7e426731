"""The client of the Hive Metastore, against one in memory (`tests.support.fake_metastore`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from hoodie.exception import (
    CatalogEntryChangedException,
    CatalogEntryExistsException,
    HoodieConfigException,
    HoodieSyncException,
)
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.hms_client import (
    HiveMetastoreClient,
    escape_partition_value,
    hive_metastore_interface,
    unescape_partition_value,
)
from tests.support.fake_metastore import FakeMetastore

hms = hive_metastore_interface()
ODD_VALUES = ("a:b", "it's", 'a "b" c', "100%", "%3A", "a/b=c", "Größe", "日本", "x\ty", "[1]{2}^", "", "a b")


@pytest.fixture
def metastore() -> Iterator[FakeMetastore]:
    """A metastore with the database ``default``."""
    with FakeMetastore() as started:
        yield started


@pytest.fixture
def client(metastore: FakeMetastore) -> Iterator[HiveMetastoreClient]:
    """A client of it, which sends two partitions in a request."""
    with HiveMetastoreClient(metastore.uri, batch_num=2, answer_timeout_s=5, retry_delay_s=0) as opened:
        yield opened


@pytest.fixture
def table(tmp_path: Path) -> CatalogTable:
    """An entry that is partitioned by ``p``."""
    return CatalogTable(
        database="default", name="trips", columns=(CatalogColumn("id", "int"), CatalogColumn("x", "string")),
        partition_keys=(CatalogColumn("p", "string"),), location=str(tmp_path / "trips"), input_format="in",
        output_format="out", serde="serde", serde_parameters={"path": "/t", "serialization.format": "1"},
        parameters={"EXTERNAL": "TRUE", "last_commit_time_sync": "1"},
    )  # fmt: skip


def _created(client: HiveMetastoreClient, table: CatalogTable) -> CatalogTable:
    client.create_table(table)
    found = client.table("default", "trips")
    assert found is not None
    return found


def _partitions(table: CatalogTable, *values: str) -> list[CatalogPartition]:
    return [CatalogPartition((value,), f"{table.location}/{number}") for number, value in enumerate(values)]


def test_a_created_table_comes_back_as_it_was_given(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    found = _created(client, table)
    assert found.location == f"file:{table.location}"
    assert found.parameters.keys() - table.parameters.keys() == {"transient_lastDdlTime"}
    assert attrs.evolve(found, location=table.location, parameters=table.parameters) == table
    assert metastore.entry("trips").owner == "anna"
    assert metastore.users == ["anna"]


def test_what_is_not_there_is_none(client: HiveMetastoreClient) -> None:
    assert client.table("default", "trips") is None
    assert client.table("nowhere", "trips") is None
    assert not client.has_database("nowhere")


def test_databases_are_created_once_and_listed(client: HiveMetastoreClient, metastore: FakeMetastore) -> None:
    client.create_database("db")
    client.create_database("db")
    assert client.has_database("db")
    assert client.databases() == ["db", "default"]
    assert metastore.databases["db"].description == "automatically created by hoodie"


def test_tables_are_listed_and_dropped(client: HiveMetastoreClient, table: CatalogTable) -> None:
    client.create_table(attrs.evolve(table, name="zones"))
    client.create_table(table)
    assert client.tables("default") == ["trips", "zones"]
    client.drop_table("default", "zones")
    client.drop_table("default", "zones")
    assert client.tables("default") == ["trips"]


def test_a_taken_name_is_told(client: HiveMetastoreClient, table: CatalogTable) -> None:
    client.create_table(table)
    with pytest.raises(CatalogEntryExistsException, match=r"default\.trips could not be created: Table trips already"):
        client.create_table(table)


def test_a_replaced_entry_keeps_what_hoodie_does_not_name(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable
) -> None:
    _created(client, table)
    stored = metastore.entry("trips")
    stored.retention, stored.owner, stored.sd.parameters = 7, "someone", {"theirs": "1"}
    stored.sd.cols[0].comment = "theirs"
    found = client.table("default", "trips")
    assert found is not None
    columns = (*found.columns, CatalogColumn("y", "double", "new"))
    keys = (CatalogColumn("p", "string", "the partition"),)
    client.replace_table(
        attrs.evolve(found, columns=columns, partition_keys=keys, parameters={"a": "b"}, serde_parameters={"c": "d"})
    )
    now = metastore.entry("trips")
    assert (now.retention, now.owner, now.sd.parameters) == (7, "someone", {"theirs": "1"})
    assert [(field.name, field.comment) for field in now.sd.cols] == [("id", "theirs"), ("x", ""), ("y", "new")]
    assert now.partitionKeys[0].comment == "the partition"
    assert now.parameters.keys() == {"a", "transient_lastDdlTime"}
    assert now.sd.serdeInfo.parameters == {"c": "d"}
    assert now.sd.location == found.location
    assert found.stored.sd.cols[-1].name == "x"


@pytest.mark.parametrize("cascades", [False, True])
def test_columns_of_partitions_follow_on_demand(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, cascades: bool
) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1"))
    wider = attrs.evolve(found, columns=(CatalogColumn("id", "bigint"), *found.columns[1:]))
    client.replace_table(wider, cascades=cascades)
    part = metastore.parts["default", "trips"]["1",]
    assert part.sd.cols[0].type == ("bigint" if cascades else "int")


def test_a_refused_type_names_the_option(client: HiveMetastoreClient, table: CatalogTable) -> None:
    found = _created(client, attrs.evolve(table, columns=(CatalogColumn("id", "bigint"),)))
    with pytest.raises(HoodieSyncException, match=r"incompatible .* id\. Set hoodie.*recreate_table_on_error = true"):
        client.replace_table(attrs.evolve(found, columns=(CatalogColumn("id", "int"),)))


def test_an_entry_dropped_meanwhile_has_an_error_of_its_own(client: HiveMetastoreClient, table: CatalogTable) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1"))
    parts = client.partitions(found)
    client.drop_table("default", "trips")
    for call in (client.add_partitions, client.set_locations, client.touch_partitions):
        with pytest.raises(CatalogEntryChangedException, match="sync again"):
            call(found, parts)
    with pytest.raises(CatalogEntryChangedException, match="sync again"):
        client.replace_table(found)
    with pytest.raises(CatalogEntryChangedException, match="sync again"):
        client.partitions(found, [("1",)])


@pytest.mark.parametrize("kind", ["EXTERNAL_TABLE", "MANAGED_TABLE"])
def test_a_recreated_entry_has_no_partitions(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, kind: str
) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1"))
    client.recreate_table(attrs.evolve(table, parameters={"new": "1"}, kind=kind))
    assert client.tables("default") == ["trips"]
    assert "new" in metastore.entry("trips").parameters
    assert client.partition_values(found) == []
    # The rename of a managed table would move its folder.
    assert metastore.count("alter_table_with_environment_context") == (kind == "EXTERNAL_TABLE")


@pytest.mark.parametrize(
    ("method", "on_call", "left"),
    [("create_table", 1, ["trips"]), ("drop_table", 1, ["trips"]), ("alter_table_with_environment_context", 1, [])],
)
def test_a_failed_recreation_leaves_no_second_entry(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, method: str, on_call: int,
    left: list[str],
) -> None:  # fmt: skip
    client.create_table(table)
    metastore.on(method, on_call, fails="no room")
    with pytest.raises(HoodieSyncException, match="no room"):
        client.recreate_table(table)
    assert client.tables("default") == left


def test_partitions_with_odd_values_are_found_by_their_values(client: HiveMetastoreClient, table: CatalogTable) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, *filter(None, ODD_VALUES)))
    values = [(value,) for value in ODD_VALUES if value]
    assert sorted(client.partition_values(found)) == sorted(values)
    for value in values:
        assert [one.values for one in client.partitions(found, [value])] == [value]
    client.drop_partitions(found, values)
    assert client.partition_values(found) == []


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("a:b", "a%3Ab"), ("it's", "it%27s"), ('"', "%22"), ("100%", "100%25"), ("a/b=c", "a%2Fb%3Dc"),
        ("日本", "日本"),
        ("a b", "a b"), ("\t", "%09"), ("a\\b", "a%5Cb"), ("[1]{2}^", "%5B1%5D%7B2}%5E"), ("#*?", "%23%2A%3F"),
        ("", "__HIVE_DEFAULT_PARTITION__"), ("\x7f", "%7F"), ("+-,.;<>|&$!~@()", "+-,.;<>|&$!~@()"),
    ],
)  # fmt: skip
def test_values_are_escaped_as_hive_does(value: str, name: str) -> None:
    assert escape_partition_value(value) == name
    assert unescape_partition_value(name) == (value or name)


def test_a_percent_sign_before_no_number_stays() -> None:
    assert unescape_partition_value("100%, 5%zz, %4") == "100%, 5%zz, %4"


def test_a_table_can_have_several_partition_columns(client: HiveMetastoreClient, table: CatalogTable) -> None:
    keys = (CatalogColumn("a", "string"), CatalogColumn("b", "int"))
    found = _created(client, attrs.evolve(table, partition_keys=keys))
    client.add_partitions(found, [CatalogPartition(("x/y", "1"), f"{table.location}/1")])
    assert client.partition_values(found) == [("x/y", "1")]
    assert [one.location for one in client.partitions(found)] == [f"file:{table.location}/1"]


def test_partitions_are_sent_in_batches_and_those_that_exist_stay(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable
) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1", "2", "3", "4", "5"))
    client.add_partitions(found, [CatalogPartition(("1",), f"{table.location}/elsewhere")])
    assert metastore.count("add_partitions_req") == 4
    assert [one.location for one in client.partitions(found, [("1",), ("none",)])] == [f"file:{table.location}/0"]
    assert len(client.partitions(found)) == 5
    part = metastore.parts["default", "trips"]["1",]
    assert (part.sd.inputFormat, [field.name for field in part.sd.cols]) == ("in", ["id", "x"])


def test_partitions_get_another_location(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable
) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1"))
    metastore.parts["default", "trips"]["1",].parameters["theirs"] = "1"
    known = client.partitions(found)
    client.set_locations(found, [attrs.evolve(known[0], location=f"{table.location}/moved")])
    assert [one.location for one in client.partitions(found)] == [f"{table.location}/moved"]
    assert metastore.parts["default", "trips"]["1",].parameters["theirs"] == "1"


def test_touched_partitions_have_a_new_time(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable
) -> None:
    found = _created(client, table)
    client.add_partitions(found, _partitions(table, "1"))
    metastore.parts["default", "trips"]["1",].parameters["transient_lastDdlTime"] = "1"
    client.touch_partitions(found, client.partitions(found))
    assert int(metastore.parts["default", "trips"]["1",].parameters["transient_lastDdlTime"]) > 1


def test_the_wrong_number_of_values_is_told(client: HiveMetastoreClient, table: CatalogTable) -> None:
    found = _created(client, table)
    with pytest.raises(HoodieSyncException, match="could not be added: Invalid partition key & values"):
        client.add_partitions(found, [CatalogPartition(("1", "2"), f"{table.location}/1")])


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_can_be_repeated_is_repeated(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, when: str
) -> None:
    found = _created(client, table)
    for method in ("add_partitions_req", "get_partition_names", "drop_partition", "drop_table"):
        metastore.on(method, dies=when)
    client.add_partitions(found, _partitions(table, "1"))
    assert client.partition_values(found) == [("1",)]
    client.drop_partitions(found, [("1",)])
    assert metastore.parts["default", "trips"] == {}
    client.drop_table("default", "trips")
    assert metastore.connection_count == 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_change_is_not_repeated(
    client: HiveMetastoreClient, metastore: FakeMetastore, table: CatalogTable, when: str
) -> None:
    metastore.on("create_table", dies=when)
    with pytest.raises(HoodieSyncException, match="may have been carried out: sync again"):
        client.create_table(table)
    assert client.tables("default") == (["trips"] if when == "after" else [])
    assert metastore.count("create_table") == 1


def test_a_late_answer_is_not_taken_for_that_of_the_next_call(metastore: FakeMetastore) -> None:
    metastore.on("get_all_databases", delay_s=2)
    with HiveMetastoreClient(metastore.uri, answer_timeout_s=0.3) as client:
        with pytest.raises(HoodieSyncException, match=r"No answer came within 0\.3 s"):
            client.databases()
        assert client.tables("default") == []
        assert metastore.count("get_all_databases") == 1


def test_the_next_uri_is_taken_where_one_is_dead(metastore: FakeMetastore) -> None:
    with HiveMetastoreClient(f"thrift://127.0.0.1:{_free_port()} , {metastore.uri}") as client:
        assert client.databases() == ["default"]


def test_a_metastore_that_is_not_there_is_told() -> None:
    port = _free_port()
    with (
        HiveMetastoreClient(f"thrift://127.0.0.1:{port}", retry_delay_s=0) as client,
        pytest.raises(
            HoodieSyncException, match=rf"^the Hive metastore thrift://127\.0\.0\.1:{port}: the databases"
        ) as told,
    ):
        client.databases()
    assert "gives no answer" in str(told.value)
    assert "hoodie.datasource.hive_sync.metastore.uris" in str(told.value)


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x03\x00\x02\x02\x28", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_speaks_something_else_is_told(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        with (
            HiveMetastoreClient(uri, connect_timeout_s=5, retry_delay_s=0) as client,
            pytest.raises(HoodieSyncException, match="Kerberos or TLS"),
        ):
            client.databases()
        thread.join(10)


def test_a_metastore_without_users_is_served_too(metastore: FakeMetastore) -> None:
    metastore.on("set_ugi", fails="not supported")
    with HiveMetastoreClient(metastore.uri) as client:
        assert client.databases() == ["default"]


def test_the_reason_of_the_metastore_is_told(client: HiveMetastoreClient, metastore: FakeMetastore) -> None:
    metastore.on("get_all_databases", fails="the database\nis full.")
    with pytest.raises(HoodieSyncException) as told:
        client.databases()
    assert str(told.value) == (
        f"the Hive metastore {metastore.uri}: the databases could not be listed: the database is full. "
        "See the metastore's log"
    )


@pytest.mark.parametrize(
    "uris", ["", " , ", "host:9083", "http://host:9083", "thrift://host", "thrift://host:x", "thrift://:9083"]
)
def test_a_wrong_uri_is_told_before_the_first_call(uris: str) -> None:
    with pytest.raises(HoodieConfigException, match=r"metastore\.uris.*give thrift://host:9083"):
        HiveMetastoreClient(uris)


def test_passwords_in_a_uri_are_not_told() -> None:
    with pytest.raises(HoodieConfigException) as told:
        HiveMetastoreClient("http://anna:secret@host:9083")
    assert "secret" not in str(told.value)
    assert "secret" not in HiveMetastoreClient("thrift://anna:secret@host:9083").title


def test_a_closed_client_can_be_closed_again(client: HiveMetastoreClient) -> None:
    client.databases()
    client.close()
    client.close()
    assert client.databases() == ["default"]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
