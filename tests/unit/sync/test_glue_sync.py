"""Whole syncs of tables with Glue, on moto's server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.sync import glue_client
from hoodie.sync.catalog_entry import CatalogTable
from hoodie.sync.glue_client import GlueCatalogClient
from tests.support.object_store_servers import ACCESS_KEY, SECRET_KEY, Bucket, S3Server
from tests.support.table_builder import init_table, local_client, rows

Sent = list[tuple[str, dict[str, Any]]]


class Glue:
    """A database of Glue, and what syncs sent to it."""

    def __init__(self, endpoint: str, sent: Sent) -> None:
        self.database = f"db_{uuid.uuid4().hex}"
        self.sent = sent
        self.properties = {
            "hoodie.datasource.hive_sync.mode": "glue",
            "hoodie.datasource.hive_sync.database": self.database,
            "hoodie.aws.access.key": ACCESS_KEY,
            "hoodie.aws.secret.key": SECRET_KEY,
            "hoodie.aws.glue.region": "eu-west-1",
            "hoodie.aws.glue.endpoint": endpoint,
        }

    def sync(self, table: str, **options: Any) -> list[str]:
        """Sync, and give the names of the calls."""
        del self.sent[:]
        hoodie.sync_table(table, properties=self.properties, **options)
        return [name for name, _ in self.sent]

    def client(self) -> GlueCatalogClient:
        config = hoodie.HoodieWriteConfig.from_properties("/t", self.properties)
        return GlueCatalogClient(config.glue_sync, config.aws)

    def entry(self, name: str = "t") -> CatalogTable:
        with self.client() as client:
            found = client.table(self.database, name)
        assert found is not None
        return found

    def partitions(self, name: str = "t") -> dict[tuple[str, ...], str]:
        with self.client() as client:
            return {p.values: p.location for p in client.partitions(self.entry(name))}


@pytest.fixture
def glue(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    """Glue of moto's server."""
    sent: Sent = []
    make = glue_client.aws_client

    def noting(*arguments: Any, **named: Any) -> Any:
        client = make(*arguments, **named)
        client.meta.events.register(
            "before-parameter-build.glue", lambda params, model, **_: sent.append((model.name, params))
        )
        return client

    monkeypatch.setattr(glue_client, "aws_client", noting)
    return Glue(s3_server.endpoint, sent)


def test_a_sync_without_a_new_commit_is_one_call(tmp_path: Path, glue: Glue) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y y%", 1)))
    first = glue.sync(table)
    assert [name for name in first if "Get" not in name] == [
        "CreateDatabase", "CreateTable", "BatchCreatePartition", "UpdateTable",
    ]  # fmt: skip
    assert glue.sync(table) == ["GetTable"]
    assert glue.partitions() == {("x",): f"{table}/x", ("y y%",): f"{table}/y y%"}

    with local_client(table) as client:
        client.upsert(rows(("c", "z", 1)))
        client.delete_partitions(["x"])
    changes = [name for name in glue.sync(table) if "Get" not in name]
    assert changes == ["UpdateTable", "BatchCreatePartition", "BatchDeletePartition", "UpdateTable"]
    assert set(glue.partitions()) == {("y y%",), ("z",)}


def test_a_widened_column_reaches_the_partitions(tmp_path: Path, glue: Glue) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")

    def write(key: str, number: pa.DataType, **more: Any) -> None:
        columns = {"id": [key], "region": ["x"], "ts": [1], "n": pa.array([1], number), **more}
        with local_client(table) as client:
            client.upsert(pa.table(columns))

    write("a", pa.int32())
    glue.sync(table)
    write("b", pa.int32(), new=["text"])
    assert "BatchUpdatePartition" not in glue.sync(table)
    write("c", pa.int64(), new=["text"])
    assert "BatchUpdatePartition" in glue.sync(table)
    assert {column.name: column.type for column in glue.entry().columns}["n"] == "bigint"
    assert glue.sync(table, full=True).count("UpdateTable") == 0


def test_the_names_of_a_merge_on_read_table_are_its_views(tmp_path: Path, glue: Glue) -> None:
    table = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1)))
    glue.sync(table)
    found = {name: glue.entry(name) for name in ("t", "t_ro", "t_rt")}
    assert {name: entry.serde_parameters["hoodie.query.as.ro.table"] for name, entry in found.items()} == {
        "t": "false", "t_ro": "true", "t_rt": "false",
    }  # fmt: skip
    assert all(entry.parameters["EXTERNAL"] == "TRUE" for entry in found.values())
    assert glue.sync(table) == ["GetTable"] * 3


def test_a_locations_scheme_is_no_difference(s3_bucket: Bucket, glue: Glue) -> None:
    table, options = f"s3://{s3_bucket.name}/trips", s3_bucket.options()
    hoodie.write_table(
        rows(("a", "x", 1)), table, table_name="t", record_key_fields="id", partition_fields="region",
        ordering_fields="ts", storage_options=options,
    )  # fmt: skip
    by_another_name = table.replace("s3://", "s3a://")
    assert "CreateTable" in glue.sync(by_another_name, storage_options=options)
    assert glue.entry().location == table
    assert glue.partitions() == {("x",): f"{table}/x"}
    assert glue.sync(table, storage_options=options) == ["GetTable"]
    assert glue.sync(by_another_name, storage_options=options) == ["GetTable"]
    assert "UpdateTable" not in glue.sync(by_another_name, storage_options=options, full=True)


def test_an_entry_that_another_process_changes_meanwhile_is_read_again(
    tmp_path: Path, glue: Glue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto does not look at VersionId, as Glue does; so the test does."""
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1)))
        glue.sync(table)
        client.upsert(rows(("b", "x", 1)))
    call: Callable[..., Any] = GlueCatalogClient._call
    others: list[str] = []

    def checked(self: GlueCatalogClient, what: str, method: str, **arguments: Any) -> Any:
        if method == "update_table":
            if not others:
                others.append("changed")
                found = self._client.get_table(DatabaseName=glue.database, Name="t")["Table"]
                given = self._as_input("TableInput", "Table", found)
                given["Parameters"]["by"] = "hand"
                self._client.update_table(DatabaseName=glue.database, TableInput=given)
            version = self._client.get_table(DatabaseName=glue.database, Name="t")["Table"]["VersionId"]
            if arguments["VersionId"] != version:
                error = {"Error": {"Code": "ConcurrentModificationException", "Message": "changed"}}
                raise glue_client.glue_failure(what, self._client.exceptions.ClientError(error, "UpdateTable"))
        return call(self, what, method, **arguments)

    monkeypatch.setattr(GlueCatalogClient, "_call", checked)
    before = glue.entry().parameters["last_commit_time_sync"]
    glue.sync(table)
    assert others
    assert glue.entry().parameters["by"] == "hand"
    assert glue.entry().parameters["last_commit_time_sync"] > before


def test_a_table_of_glue_is_made_read_written_and_dropped_by_name(tmp_path: Path, glue: Glue) -> None:
    lake = hoodie.catalog("glue", properties=glue.properties)
    name = f"{glue.database}.t"

    def day(text: str) -> pa.Table:
        return pa.table({"id": [text], "day": [text]})

    hoodie.write_table(
        day("mon"), name, catalog=lake, location=tmp_path / "t", record_key_fields="id", partition_fields="day",
        table_type="MERGE_ON_READ",
    )  # fmt: skip
    assert lake.tables(glue.database) == ["t", "t_ro", "t_rt"]
    done = lake.table(name).upsert(day("tue"))
    assert done.service_errors == ()
    assert {glue.entry(each).parameters["last_commit_time_sync"] for each in ("t", "t_ro", "t_rt")} == {
        done.instant_time
    }
    assert hoodie.read_table(name, catalog=lake, columns="id").num_rows == 2
    assert lake.describe(name).partition_count == 2
    lake.table(f"{name}_ro").drop()
    assert lake.tables(glue.database) == []
    assert not (tmp_path / "t").exists()
