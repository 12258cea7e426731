from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import pytest
from botocore.stub import ANY, Stubber

from hoodie import HoodieWriteConfig
from hoodie.exception import CatalogEntryChangedException, CatalogEntryExistsException, HoodieSyncException
from hoodie.sync import glue_client
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.glue_client import GlueCatalogClient
from tests.support.object_store_servers import ACCESS_KEY, SECRET_KEY, S3Server

GLUE = "hoodie.datasource.meta.sync.glue."
INPUT_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ODD_VALUES = [
    ("it's", "1"),
    ('say "hi"', "2"),
    ("two words", "3"),
    ("100%", "4"),
    ("a%2Fb", "5"),
    ("straße", "6"),
    ("東京", "7"),
    ("a=b", "8"),
    ("a/b", "9"),
    ("\\", "10"),
]


def client_of(endpoint: str | None, **properties: Any) -> GlueCatalogClient:
    given = {
        "hoodie.aws.access.key": ACCESS_KEY,
        "hoodie.aws.secret.key": SECRET_KEY,
        "hoodie.aws.glue.region": "eu-west-1",
        **({"hoodie.aws.glue.endpoint": endpoint} if endpoint else {}),
        **{GLUE + key: value for key, value in properties.items()},
    }
    config = HoodieWriteConfig.from_properties("/t", given)
    return GlueCatalogClient(config.glue_sync, config.aws)


@pytest.fixture
def glue(s3_server: S3Server) -> Iterator[GlueCatalogClient]:
    """Glue of moto's server, which has all of Amazon's services."""
    with client_of(s3_server.endpoint) as client:
        yield client


@pytest.fixture
def database(glue: GlueCatalogClient) -> str:
    """An empty database."""
    name = f"db_{uuid.uuid4().hex}"
    glue.create_database(name)
    return name


@pytest.fixture
def stubbed() -> Iterator[tuple[GlueCatalogClient, Stubber]]:
    """A client that answers what the test says."""
    client = client_of(None)
    with Stubber(client._client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


class Requests(list[tuple[str, dict[str, Any]]]):
    """What a client sends: names of operations and their arguments."""

    def __init__(self, client: GlueCatalogClient) -> None:
        super().__init__()
        client._client.meta.events.register("before-parameter-build.glue", self._note)

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.append((model.name, params))

    def of(self, operation: str) -> list[dict[str, Any]]:
        return [params for name, params in self if name == operation]


def entry(database: str, name: str = "trips", **changes: Any) -> CatalogTable:
    given = CatalogTable(
        database=database,
        name=name,
        columns=(CatalogColumn("_hoodie_commit_time", "string"), CatalogColumn("id", "int", "the key")),
        partition_keys=(CatalogColumn("city", "string"), CatalogColumn("n", "string")),
        location="s3a://bucket/trips",
        input_format=INPUT_FORMAT,
        output_format=OUTPUT_FORMAT,
        serde=SERDE,
        serde_parameters={"path": "s3a://bucket/trips", "hoodie.query.as.ro.table": "false"},
        parameters={"last_commit_time_sync": "20260101000000000", "spark.sql.sources.provider": "hudi"},
    )
    return attrs.evolve(given, **changes)


def made(glue: GlueCatalogClient, table: CatalogTable) -> CatalogTable:
    glue.create_table(table)
    return read(glue, table)


def read(glue: GlueCatalogClient, table: CatalogTable) -> CatalogTable:
    found = glue.table(table.database, table.name)
    assert found is not None
    return found


def partitions_of(count: int) -> list[CatalogPartition]:
    return [CatalogPartition((f"c{n}", str(n)), f"s3a://bucket/trips/c{n}/{n}") for n in range(count)]


def test_databases_are_created_once_and_listed(glue: GlueCatalogClient, database: str) -> None:
    assert glue.has_database(database)
    assert not glue.has_database(f"{database}_other")
    glue.create_database(database)
    assert database in glue.databases()


def test_a_new_database_has_the_tags_of_the_option(s3_server: S3Server) -> None:
    with client_of(s3_server.endpoint, resource_tags="team: data,when:a:b") as client:
        requests = Requests(client)
        client.create_database(f"db_{uuid.uuid4().hex}")
    assert requests.of("CreateDatabase")[0]["Tags"] == {"team": "data", "when": "a:b"}


def test_an_entry_comes_back_as_it_was_given(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    assert found == entry(
        database,
        location="s3://bucket/trips",
        serde_parameters={
            "path": "s3a://bucket/trips",
            "hoodie.query.as.ro.table": "false",
            "serialization.format": "1",
        },
        parameters={
            "last_commit_time_sync": "20260101000000000",
            "spark.sql.sources.provider": "hudi",
            "EXTERNAL": "TRUE",
            "hudi.metadata-listing-enabled": "FALSE",
        },
    )
    assert glue.tables(database) == ["trips"]


def test_a_table_is_created_by_the_request_of_hudis_tool(glue: GlueCatalogClient, database: str) -> None:
    """Source: AWSGlueCatalogSyncClient.createTable."""
    requests = Requests(glue)
    before = datetime.now(UTC)
    glue.create_table(entry(database))
    [request] = requests.of("CreateTable")
    table = request["TableInput"]
    assert before <= table.pop("LastAccessTime") <= table.pop("LastAnalyzedTime") <= datetime.now(UTC)
    assert request == {
        "DatabaseName": database,
        "TableInput": {
            "Name": "trips",
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {
                "EXTERNAL": "TRUE",
                "hudi.metadata-listing-enabled": "FALSE",
                "last_commit_time_sync": "20260101000000000",
                "spark.sql.sources.provider": "hudi",
            },
            "PartitionKeys": [
                {"Name": "city", "Type": "string", "Comment": ""},
                {"Name": "n", "Type": "string", "Comment": ""},
            ],
            "StorageDescriptor": {
                "Columns": [
                    {"Name": "_hoodie_commit_time", "Type": "string", "Comment": ""},
                    {"Name": "id", "Type": "int", "Comment": "the key"},
                ],
                "Location": "s3://bucket/trips",
                "InputFormat": INPUT_FORMAT,
                "OutputFormat": OUTPUT_FORMAT,
                "SerdeInfo": {
                    "SerializationLibrary": SERDE,
                    "Parameters": {
                        "path": "s3a://bucket/trips",
                        "hoodie.query.as.ro.table": "false",
                        "serialization.format": "1",
                    },
                },
            },
        },
    }
    assert [name for name, _ in requests] == ["CreateTable"]


def test_a_managed_table_lacks_the_parameter_external_only(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database, kind="MANAGED_TABLE"))
    assert "EXTERNAL" not in found.parameters
    assert found.kind == "EXTERNAL_TABLE"


def test_names_are_sent_in_lower_case(glue: GlueCatalogClient, database: str) -> None:
    table = entry(database.upper(), "Trips", partition_keys=(CatalogColumn("City", "string"),))
    glue.create_table(table)
    assert glue.has_database(database.upper())
    found = glue.table(database, "TRIPS")
    assert found is not None
    assert (found.database, found.name, found.partition_keys[0].name) == (database, "trips", "city")
    glue.add_partitions(table, [CatalogPartition(("X",), "s3://b/X")])
    assert glue.partition_values(table) == [("X",)]


def test_what_is_not_there_is_none(glue: GlueCatalogClient, database: str) -> None:
    assert glue.table(database, "trips") is None
    assert glue.table(f"{database}_other", "trips") is None
    glue.drop_table(database, "trips")


def test_a_taken_name_is_told(glue: GlueCatalogClient, database: str) -> None:
    glue.create_table(entry(database))
    with pytest.raises(
        CatalogEntryExistsException, match=r"^AWS Glue http://.*: the table .*trips could not be created: "
    ):
        glue.create_table(entry(database, location="s3://elsewhere/trips"))


def test_an_entry_that_a_lost_call_made_is_no_error(glue: GlueCatalogClient, database: str) -> None:
    glue.create_table(entry(database))
    glue.create_table(entry(database))
    assert glue.tables(database) == ["trips"]


def test_a_replaced_entry_keeps_what_hoodie_does_not_know(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    given = glue._as_input("TableInput", "Table", found.stored)
    given |= {"Description": "by hand", "Owner": "anna", "Retention": 7}
    given["StorageDescriptor"] |= {"NumberOfBuckets": 3, "SortColumns": []}
    given["StorageDescriptor"]["Columns"][1]["Parameters"] = {"pii": "no"}
    given["StorageDescriptor"]["SerdeInfo"]["Name"] = "by hand"
    glue._client.update_table(DatabaseName=database, TableInput=given)

    found = read(glue, found)
    columns = (*found.columns, CatalogColumn("fare", "double"))
    requests = Requests(glue)
    glue.replace_table(attrs.evolve(found, columns=columns, parameters={**found.parameters, "x": "1"}))

    changed = read(glue, found)
    assert (changed.stored["Description"], changed.stored["Owner"], changed.stored["Retention"]) == (
        "by hand",
        "anna",
        7,
    )
    assert changed.stored["StorageDescriptor"]["NumberOfBuckets"] == 3
    assert changed.stored["StorageDescriptor"]["SerdeInfo"]["Name"] == "by hand"
    assert changed.stored["StorageDescriptor"]["Columns"][1]["Parameters"] == {"pii": "no"}
    assert changed.columns == columns
    assert changed.parameters == {**found.parameters, "x": "1"}
    [request] = requests.of("UpdateTable")
    assert request["SkipArchive"] is True
    assert request["VersionId"] == found.stored["VersionId"]
    assert set(request["TableInput"]) == {
        "Name", "Description", "Owner", "Retention", "TableType", "Parameters", "PartitionKeys", "StorageDescriptor",
        "LastAccessTime", "LastAnalyzedTime",
    }  # fmt: skip


def test_old_versions_are_kept_by_option(s3_server: S3Server, database: str) -> None:
    with client_of(s3_server.endpoint, skip_table_archive=False) as client:
        found = made(client, entry(database))
        requests = Requests(client)
        client.replace_table(attrs.evolve(found, location="s3a://bucket/moved"))
    [request] = requests.of("UpdateTable")
    assert request["SkipArchive"] is False
    assert request["TableInput"]["StorageDescriptor"]["Location"] == "s3://bucket/moved"


@pytest.mark.parametrize("code", ["ConcurrentModificationException", "EntityNotFoundException"])
def test_an_entry_that_changed_meanwhile_is_told(stubbed: tuple[GlueCatalogClient, Stubber], code: str) -> None:
    client, stubber = stubbed
    found = answered(client, stubber)
    stubber.add_client_error("update_table", code, "version 1 is not 2")
    stubber.add_response("get_table", {"Table": {**stored_entry(), "VersionId": "9"}})
    with pytest.raises(CatalogEntryChangedException, match=f"{code}: version 1 is not 2. .*sync again"):
        client.replace_table(attrs.evolve(found, location="s3://bucket/moved"))


def test_a_change_that_a_lost_call_made_is_no_error(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    found = answered(client, stubber)
    stubber.add_client_error("update_table", "ConcurrentModificationException", "no")
    parameters = {**found.parameters, "x": "1", "hudi.metadata-listing-enabled": "FALSE"}
    stubber.add_response("get_table", {"Table": {**stored_entry(), "VersionId": "2", "Parameters": parameters}})
    client.replace_table(attrs.evolve(found, parameters={**found.parameters, "x": "1"}))


def stored_entry() -> dict[str, Any]:
    return {
        "Name": "trips",
        "DatabaseName": "db",
        "VersionId": "1",
        "CatalogId": "123",
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"a": "b"},
        "PartitionKeys": [{"Name": "city", "Type": "string", "Comment": ""}],
        "StorageDescriptor": {
            "Columns": [{"Name": "id", "Type": "int", "Comment": ""}],
            "Location": "s3://bucket/trips",
            "InputFormat": INPUT_FORMAT,
            "OutputFormat": OUTPUT_FORMAT,
            "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": {}},
        },
    }


def answered(client: GlueCatalogClient, stubber: Stubber, more: dict[str, Any] | None = None) -> CatalogTable:
    stubber.add_response("get_table", {"Table": {**stored_entry(), **(more or {})}})
    found = client.table("db", "trips")
    assert found is not None
    return found


def test_a_recreated_table_has_no_partitions(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    glue.add_partitions(found, partitions_of(3))
    found.stored["StorageDescriptor"]["NumberOfBuckets"] = 3
    requests = Requests(glue)
    glue.recreate_table(attrs.evolve(found, location="s3a://bucket/other"))
    changed = read(glue, found)
    assert changed.location == "s3://bucket/other"
    assert "NumberOfBuckets" not in changed.stored["StorageDescriptor"]
    assert glue.partition_values(changed) == []
    assert glue.tables(database) == ["trips"]
    # Source: AWSGlueCatalogSyncClient.createOrReplaceTable: first under another name.
    sent = [(name, params.get("Name") or params["TableInput"]["Name"]) for name, params in requests[:4]]
    trial = sent[0][1]
    assert trial.startswith("trips_temp")
    assert sent == [
        ("CreateTable", trial), ("DeleteTable", trial), ("DeleteTable", "trips"), ("CreateTable", "trips"),
    ]  # fmt: skip


def test_a_table_that_glue_refuses_to_recreate_stays(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    found = answered(client, stubber)
    stubber.add_client_error("create_table", "InvalidInputException", "no such type")
    with pytest.raises(HoodieSyncException, match="no such type"):
        client.recreate_table(found)


def test_a_table_that_is_gone_after_an_error_is_told(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    found = answered(client, stubber)
    stubber.add_response("create_table", {})
    stubber.add_response("delete_table", {})
    stubber.add_response("delete_table", {})
    stubber.add_client_error("create_table", "InternalServiceException", "oh")
    with pytest.raises(HoodieSyncException, match="The old entry of db.trips is gone: the next sync makes the new one"):
        client.recreate_table(found)


@pytest.mark.parametrize("threads", [1, 4])
def test_partitions_are_added_changed_and_removed_in_batches(s3_server: S3Server, database: str, threads: int) -> None:
    parallel = {
        "partition_change_parallelism": threads,
        "changed_partitions_read_parallelism": threads,
        "all_partitions_read_parallelism": threads,
    }
    with client_of(s3_server.endpoint, **parallel) as client:
        found = made(client, entry(database))
        requests = Requests(client)
        client.add_partitions(found, iter(partitions_of(250)))
        values = [partition.values for partition in partitions_of(250)]
        assert sorted(client.partition_values(found)) == sorted(values)
        there = client.partitions(found, values)
        assert {p.values: p.location for p in there} == {
            (f"c{n}", str(n)): f"s3://bucket/trips/c{n}/{n}" for n in range(250)
        }

        moved = [attrs.evolve(p, location=f"s3a://bucket/moved/{p.values[1]}") for p in there]
        client.set_locations(found, moved)
        assert {p.location for p in client.partitions(found)} == {f"s3://bucket/moved/{n}" for n in range(250)}
        client.touch_partitions(found, client.partitions(found))
        client.drop_partitions(found, values[:60])
        assert len(client.partitions(found)) == 190

    assert sorted(len(r["PartitionInputList"]) for r in requests.of("BatchCreatePartition")) == [50, 100, 100]
    assert sorted(len(r["Entries"]) for r in requests.of("BatchUpdatePartition")) == [50, 50, 100, 100, 100, 100]
    assert sorted(len(r["PartitionsToDelete"]) for r in requests.of("BatchDeletePartition")) == [10, 25, 25]
    assert [len(r["PartitionsToGet"]) for r in requests.of("BatchGetPartition")] == [250]
    segments = [r["Segment"] for r in requests.of("GetPartitions")]
    assert len(segments) == 4 * threads
    assert all(r["ExcludeColumnSchema"] for r in requests.of("GetPartitions"))
    assert {(s["SegmentNumber"], s["TotalSegments"]) for s in segments} == {(n, threads) for n in range(threads)}


def test_partitions_are_changed_by_the_requests_of_hudis_tool(glue: GlueCatalogClient, database: str) -> None:
    """Source: AWSGlueCatalogSyncClient, addPartitionsToTableInternal and those below it."""
    found = made(glue, entry(database))
    requests = Requests(glue)
    glue.add_partitions(found, partitions_of(1))
    [partition] = glue.partitions(found, [("c0", "0")])
    glue.set_locations(found, [attrs.evolve(partition, location="s3a://bucket/x")])
    glue.drop_partitions(found, [("c0", "0")])

    of = {"DatabaseName": database, "TableName": "trips"}
    descriptor = found.stored["StorageDescriptor"]
    at = {**descriptor, "Location": "s3://bucket/trips/c0/0"}
    moved = {"Values": ["c0", "0"], "StorageDescriptor": {**descriptor, "Location": "s3://bucket/x"}}
    assert list(requests) == [
        ("BatchCreatePartition", {**of, "PartitionInputList": [{"Values": ["c0", "0"], "StorageDescriptor": at}]}),
        ("BatchGetPartition", {**of, "PartitionsToGet": [{"Values": ["c0", "0"]}]}),
        ("BatchUpdatePartition", {**of, "Entries": [{"PartitionValueList": ["c0", "0"], "PartitionInput": moved}]}),
        ("BatchDeletePartition", {**of, "PartitionsToDelete": [{"Values": ["c0", "0"]}]}),
    ]


def test_partitions_keep_their_parameters(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    given = {"Values": ["a", "1"], "Parameters": {"by": "hand"}, "StorageDescriptor": {"Location": "s3://bucket/a"}}
    glue._client.create_partition(DatabaseName=database, TableName="trips", PartitionInput=given)
    glue.touch_partitions(found, glue.partitions(found))
    [partition] = glue.partitions(found)
    assert partition.stored["Parameters"] == {"by": "hand"}
    assert partition.stored["StorageDescriptor"]["InputFormat"] == INPUT_FORMAT
    assert partition.location == "s3://bucket/a"


def test_odd_values_come_back_as_they_are(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    given = [CatalogPartition(values, f"s3://bucket/trips/{values[0]}") for values in ODD_VALUES]
    glue.add_partitions(found, given)
    assert sorted(glue.partition_values(found)) == sorted(ODD_VALUES)
    assert glue.partitions(found, ODD_VALUES) == given
    glue.drop_partitions(found, ODD_VALUES)
    assert glue.partitions(found) == []


def test_partitions_that_are_there_or_gone_are_no_errors(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    glue.add_partitions(found, partitions_of(2))
    again = [attrs.evolve(p, location="s3://elsewhere") for p in partitions_of(3)]
    glue.add_partitions(found, again)
    assert {p.values[1]: p.location for p in glue.partitions(found)} == {
        "0": "s3://bucket/trips/c0/0", "1": "s3://bucket/trips/c1/1", "2": "s3://elsewhere",
    }  # fmt: skip
    glue.drop_partitions(found, [("c0", "0"), ("no", "no")])
    glue.drop_partitions(found, [("c0", "0")])
    assert len(glue.partitions(found)) == 2
    assert glue.partitions(found, [("c0", "0"), ("c1", "1")]) == [partition_at("c1", "1", "s3://bucket/trips/c1/1")]
    assert glue.partitions(found, []) == []


def partition_at(city: str, n: str, location: str) -> CatalogPartition:
    return CatalogPartition((city, n), location)


def test_errors_of_single_partitions_are_told_together(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    found = answered(client, stubber)

    def error(value: str, code: str, message: str) -> dict[str, Any]:
        return {"PartitionValues": [value], "ErrorDetail": {"ErrorCode": code, "ErrorMessage": message}}

    stubber.add_response("batch_create_partition", {"Errors": [error("a", "AlreadyExistsException", "there")]})
    stubber.add_response(
        "batch_create_partition",
        {"Errors": [error("b", "AccessDeniedException", "you may not."), error("c", "InternalServiceException", "oh")]},
    )
    given = [CatalogPartition((str(n),), f"s3://b/{n}") for n in range(150)]
    with pytest.raises(HoodieSyncException) as caught:
        client.add_partitions(found, given)
    assert str(caught.value) == (
        "AWS Glue eu-west-1: 2 of 150 partitions of db.trips could not be added: ['b']: AccessDeniedException: you may "
        "not; ['c']: InternalServiceException: oh. Allow glue:BatchCreatePartition to this user or role, for the "
        "catalog, the database and the table; where Lake Formation manages them, grant it there, too."
    )


def test_partitions_that_are_gone_cannot_be_moved(glue: GlueCatalogClient, database: str) -> None:
    found = made(glue, entry(database))
    with pytest.raises(HoodieSyncException, match=r"1 of 1 partitions .* could not be changed: \['c0', '0'\]: Entity"):
        glue.set_locations(found, partitions_of(1))


def test_keys_that_glue_left_are_asked_for_again(
    stubbed: tuple[GlueCatalogClient, Stubber], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("hoodie.sync.glue_client.time.sleep", pauses.append)
    client, stubber = stubbed
    found = answered(client, stubber)

    def answer(asked: list[str], given: list[str], left: list[str]) -> None:
        stubber.add_response(
            "batch_get_partition",
            {
                "Partitions": [{"Values": [v], "StorageDescriptor": {"Location": f"s3://b/{v}"}} for v in given],
                "UnprocessedKeys": [{"Values": [v]} for v in left],
            },
            {"DatabaseName": "db", "TableName": "trips", "PartitionsToGet": [{"Values": [v]} for v in asked]},
        )

    answer(["a", "b", "c"], ["a"], ["b", "c"])
    answer(["b", "c"], [], ["b", "c"])
    answer(["b", "c"], ["c"], ["b"])
    answer(["b"], ["b"], [])
    assert [p.values for p in client.partitions(found, [("a",), ("b",), ("c",)])] == [("a",), ("c",), ("b",)]
    assert len(pauses) == 1

    for _ in range(len(glue_client._PAUSES_S) + 1):
        answer(["a"], [], ["a"])
    with pytest.raises(HoodieSyncException, match="Glue left 1 of them unanswered. Sync again later"):
        client.partitions(found, [("a",)])


def test_listings_go_on_to_the_last_page(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("get_databases", {"DatabaseList": [{"Name": "b"}], "NextToken": "x"}, {})
    stubber.add_response("get_databases", {"DatabaseList": [{"Name": "a"}]}, {"NextToken": "x"})
    assert client.databases() == ["a", "b"]
    stubber.add_response("get_tables", {"TableList": [], "NextToken": "y"}, {"DatabaseName": "d"})
    stubber.add_response("get_tables", {"TableList": [{"Name": "t"}]}, {"DatabaseName": "d", "NextToken": "y"})
    assert client.tables("d") == ["t"]


def test_the_catalog_of_another_account_is_asked(s3_server: S3Server, database: str) -> None:
    with client_of(s3_server.endpoint, catalogId="123456789012") as client:
        requests = Requests(client)
        found = made(client, entry(database))
        client.add_partitions(found, partitions_of(1))
        client.replace_table(found)
        client.partitions(found)
        client.partitions(found, [("c0", "0")])
        client.drop_partitions(found, [("c0", "0")])
        client.tables(database)
        client.drop_table(database, "trips")
        assert client.title.endswith("(catalog 123456789012)")
    assert len(requests) == 9
    assert {params.get("CatalogId") for _, params in requests} == {"123456789012"}


def test_columns_of_partitions_follow_where_readers_need_it(glue: GlueCatalogClient, database: str) -> None:
    columns = (CatalogColumn("id", "int"), CatalogColumn("s", "struct<a:int>"))
    found = made(glue, entry(database, columns=columns))
    glue.add_partitions(found, partitions_of(120))
    requests = Requests(glue)

    added = (*columns[:1], CatalogColumn("s", "struct<a:int,b:int>"), CatalogColumn("new", "string"))
    glue.replace_table(attrs.evolve(found, columns=added), cascades=True)
    glue.replace_table(attrs.evolve(read(glue, found), columns=added[:2]), cascades=True)
    assert [name for name, _ in requests] == ["UpdateTable", "GetTable", "UpdateTable"]

    widened = (CatalogColumn("id", "bigint"), added[1])
    del requests[:]
    glue.replace_table(attrs.evolve(read(glue, found), columns=widened))
    assert [name for name, _ in requests] == ["GetTable", "UpdateTable"]

    glue.replace_table(attrs.evolve(read(glue, found), columns=added[:2]))
    del requests[:]
    later = read(glue, found)
    glue.replace_table(attrs.evolve(later, columns=widened), cascades=True)
    # The partitions first: a sync that dies between finds the table's old columns, and does it again.
    assert [name for name, _ in requests] == [
        "GetTable", "GetPartitions", "BatchUpdatePartition", "BatchUpdatePartition", "UpdateTable",
    ]  # fmt: skip
    stored = glue._client.get_partitions(DatabaseName=database, TableName="trips")["Partitions"]
    assert len(stored) == 120
    assert all(
        [(c["Name"], c["Type"]) for c in p["StorageDescriptor"]["Columns"]]
        == [("id", "bigint"), ("s", "struct<a:int,b:int>")]
        for p in stored
    )
    assert {p["StorageDescriptor"]["Location"] for p in stored} == {f"s3://bucket/trips/c{n}/{n}" for n in range(120)}

    del requests[:]
    glue.replace_table(attrs.evolve(later, columns=widened), cascades=True)
    assert "BatchUpdatePartition" not in [name for name, _ in requests]


@pytest.mark.parametrize(
    ("given", "stored", "expected"),
    [(None, None, "FALSE"), (True, None, "TRUE"), (None, "TRUE", "TRUE"), (False, "TRUE", "FALSE")],
)
def test_athena_lists_by_the_metadata_table_by_option(
    s3_server: S3Server, database: str, given: bool | None, stored: str | None, expected: str
) -> None:
    key = "hudi.metadata-listing-enabled"
    options = {} if given is None else {"metadata_file_listing": given}
    with client_of(s3_server.endpoint, **options) as client:
        found = made(client, entry(database))
        if stored is None:
            assert found.parameters[key] == expected
        else:
            client.replace_table(attrs.evolve(found, parameters={key: stored}))
            assert read(client, found).parameters[key] == expected


def test_partition_indexes_are_made_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(None, **{"partition_index_fields.enable": True, "partition_index_fields": "Year;month,day"})
    table = attrs.evolve(
        entry("db"), partition_keys=tuple(CatalogColumn(name, "string") for name in ("year", "month", "day"))
    )
    of = {"DatabaseName": "db", "TableName": "trips"}
    with Stubber(client._client) as stubber:
        stubber.add_response("create_table", {})
        stubber.add_response(
            "get_partition_indexes",
            {
                "PartitionIndexDescriptorList": [
                    {
                        "IndexName": "hudi_managed_[day]",
                        "Keys": [{"Name": "day", "Type": "string"}],
                        "IndexStatus": "ACTIVE",
                    },
                    {
                        "IndexName": "hudi_managed_[month]",
                        "Keys": [{"Name": "month", "Type": "string"}],
                        "IndexStatus": "ACTIVE",
                    },
                    {"IndexName": "by hand", "Keys": [{"Name": "month", "Type": "string"}], "IndexStatus": "ACTIVE"},
                ]
            },
            of,
        )
        stubber.add_response("delete_partition_index", {}, {**of, "IndexName": "hudi_managed_[month]"})
        new = {"Keys": ["year", "month"], "IndexName": "hudi_managed_[year, month]"}
        stubber.add_response("create_partition_index", {}, {**of, "PartitionIndex": new})
        requests = Requests(client)
        client.create_table(table)
        stubber.assert_no_pending_responses()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [name for name, _ in requests] == [
        "CreateTable", "GetPartitionIndexes", "DeletePartitionIndex", "CreatePartitionIndex",
    ]  # fmt: skip
    assert requests.of("CreateTable")[0]["TableInput"]["Parameters"]["partition_filtering.enabled"] == "true"


def test_each_partition_field_has_an_index_by_default_up_to_three(caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(None, **{"partition_index_fields.enable": True})
    keys = tuple(CatalogColumn(name, "string") for name in "abcd")
    with Stubber(client._client) as stubber:
        stubber.add_response("create_table", {})
        stubber.add_response("get_partition_indexes", {"PartitionIndexDescriptorList": []})
        for name in "abc":
            new = {"Keys": [name], "IndexName": f"hudi_managed_[{name}]"}
            stubber.add_response(
                "create_partition_index", {}, {"DatabaseName": "db", "TableName": "trips", "PartitionIndex": new}
            )
        requests = Requests(client)
        client.create_table(entry("db", partition_keys=keys))
        stubber.assert_no_pending_responses()
    assert len(requests.of("CreatePartitionIndex")) == 3
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "at most 3 indexes" in record.getMessage()


def test_indexes_of_others_stay_when_they_are_turned_off() -> None:
    client = client_of(None, **{"partition_index_fields.enable": False})
    with Stubber(client._client) as stubber:
        found = answered(client, stubber)
        stubber.add_response("update_table", {})
        index = {"Keys": [{"Name": "city", "Type": "string"}], "IndexStatus": "ACTIVE"}
        listed = [{**index, "IndexName": "hudi_managed_[city]"}, {**index, "IndexName": "by hand"}]
        stubber.add_response("get_partition_indexes", {"PartitionIndexDescriptorList": listed})
        stubber.add_response(
            "delete_partition_index",
            {},
            {"DatabaseName": "db", "TableName": "trips", "IndexName": "hudi_managed_[city]"},
        )
        requests = Requests(client)
        client.replace_table(attrs.evolve(found, parameters={"partition_filtering.enabled": "true"}))
        stubber.assert_no_pending_responses()
    assert len(requests.of("DeletePartitionIndex")) == 1
    assert requests.of("UpdateTable")[0]["TableInput"]["Parameters"]["partition_filtering.enabled"] == "false"


def test_an_index_that_glue_refuses_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(None, **{"partition_index_fields.enable": True})
    with Stubber(client._client) as stubber:
        stubber.add_response("create_table", {})
        stubber.add_client_error("get_partition_indexes", "AccessDeniedException", "no")
        client.create_table(entry("db"))
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Allow glue:GetPartitionIndexes" in record.getMessage()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDeniedException", "Allow glue:GetTable to this user or role"),
        ("UnrecognizedClientException", "Check the credentials"),
        ("ExpiredTokenException", "they may be expired"),
        ("ThrottlingException", "Sync again later"),
        ("GlueEncryptionException", "KMS"),
        ("ResourceNumberLimitExceededException", "Raise the quota"),
        ("SomethingElse", "Check the names and the options"),
    ],
)
def test_errors_say_what_to_do(stubbed: tuple[GlueCatalogClient, Stubber], code: str, advice: str) -> None:
    client, stubber = stubbed
    stubber.add_client_error("get_table", code, "because.")
    with pytest.raises(HoodieSyncException) as caught:
        client.table("db", "trips")
    assert str(caught.value).startswith(f"AWS Glue eu-west-1: the table db.trips could not be read: {code}: because. ")
    assert advice in str(caught.value)
    assert SECRET_KEY not in str(caught.value)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials and region."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("nobody")
def test_a_missing_region_is_told() -> None:
    config = HoodieWriteConfig.from_properties(
        "/t", {"hoodie.aws.access.key": "a", "hoodie.aws.secret.key": SECRET_KEY}
    )
    with pytest.raises(HoodieSyncException, match=r"^AWS Glue: .*region.* Give hoodie.aws.glue.region"):
        GlueCatalogClient(config.glue_sync, config.aws)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("role", [{}, {"hoodie.aws.role.arn": "arn:aws:iam::123456789012:role/sync"}])
def test_missing_credentials_are_told(s3_server: S3Server, role: dict[str, str]) -> None:
    given = {"hoodie.aws.glue.region": "eu-west-1", "hoodie.aws.glue.endpoint": s3_server.endpoint, **role}
    config = HoodieWriteConfig.from_properties("/t", given)
    with pytest.raises(
        HoodieSyncException, match=r"credentials\. Give hoodie.aws.access.key and hoodie.aws.secret.key"
    ):
        GlueCatalogClient(config.glue_sync, config.aws).databases()


def test_a_server_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with (
        client_of("http://127.0.0.1:9") as client,
        pytest.raises(HoodieSyncException, match=r"^AWS Glue http://127.0.0.1:9: .* Check hoodie.aws.glue.region"),
    ):
        client.databases()


def test_a_wrong_endpoint_is_told() -> None:
    with pytest.raises(HoodieSyncException, match="the client could not be made: .*no url"):
        client_of("no url")


def test_missing_boto3_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue_client, "boto3", None)
    with pytest.raises(HoodieSyncException, match=r"needs boto3, which is not installed: pip install 'hoodie\[glue\]'"):
        client_of(None)


def with_role(endpoint: str) -> GlueCatalogClient:
    given = {
        "hoodie.aws.access.key": ACCESS_KEY,
        "hoodie.aws.secret.key": SECRET_KEY,
        "hoodie.aws.glue.region": "eu-west-1",
        "hoodie.aws.glue.endpoint": endpoint,
        "hoodie.aws.role.arn": "arn:aws:iam::123456789012:role/sync",
        "hoodie.aws.role.external.id": "42",
    }
    config = HoodieWriteConfig.from_properties("/t", given)
    return GlueCatalogClient(config.glue_sync, config.aws)


def test_a_role_is_assumed(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    with with_role(s3_server.endpoint) as client, caplog.at_level(logging.DEBUG, "botocore.endpoint"):
        signed: list[str] = []
        client._client.meta.events.register(
            "before-send.glue", lambda request, **_: signed.append(str(request.headers["Authorization"]))
        )
        client.databases()
    assert signed
    assert ACCESS_KEY not in signed[0]
    [asked] = [record.getMessage() for record in caplog.records if "AssumeRole" in record.getMessage()]
    assert "'RoleSessionName': 'hoodie'" in asked
    assert "'ExternalId': '42'" in asked


def test_a_role_that_may_not_be_assumed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", str(len(refusal)))
            self.end_headers()
            self.wfile.write(refusal)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    try:
        with (
            with_role(endpoint) as client,
            pytest.raises(HoodieSyncException, match="Allow sts:AssumeRole to this user"),
        ):
            client.databases()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_secrets_are_not_printed() -> None:
    given = {"access.key": "AKIAX", "secret.key": "very-secret", "session.token": "a-token", "glue.region": "eu-west-1"}
    config = HoodieWriteConfig.from_properties("/t", {f"hoodie.aws.{key}": value for key, value in given.items()})
    for shown in (repr(config), repr(config.aws), GlueCatalogClient(config.glue_sync, config.aws).title):
        assert not any(secret in shown for secret in ("AKIAX", "very-secret", "a-token"))
    assert "eu-west-1" in repr(config.aws)


def test_fields_that_cannot_be_sent_back_are_left_out(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    found = answered(client, stubber, {"ViewDefinition": {"IsProtected": True}, "Description": "by hand"})
    stubber.add_response("update_table", {})
    requests = Requests(client)
    client.replace_table(found)
    assert "ViewDefinition" not in requests.of("UpdateTable")[0]["TableInput"]
    assert requests.of("UpdateTable")[0]["TableInput"]["Description"] == "by hand"


def test_options_of_glue_are_checked() -> None:
    with pytest.raises(ValueError, match="key:value"):
        client_of(None, resource_tags="team")
    with pytest.raises(ValueError, match="from 1 to 10"):
        client_of(None, all_partitions_read_parallelism=11)


def test_views_have_no_columns(stubbed: tuple[GlueCatalogClient, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response(
        "get_table",
        {"Table": {"Name": "v", "DatabaseName": "db", "TableType": "VIRTUAL_VIEW"}},
        {"Name": "v", "DatabaseName": ANY},
    )
    found = client.table("db", "v")
    assert found is not None
    assert (found.kind, found.columns, found.location) == ("VIRTUAL_VIEW", (), "")
