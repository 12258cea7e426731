"""`write_table` on a path without a table: what it checks before it makes one, and what it makes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import hoodie
from hoodie import HoodieKey, HoodieRecord, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.schema_converters import to_avro
from hoodie.client import open_or_create
from hoodie.common.table.table_folder import NewTable
from hoodie.common.table.timeline.instant import State
from hoodie.exception import (
    HoodieConfigException,
    HoodieDuplicateKeyException,
    HoodieException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    TableNotFoundException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.repair.table_properties import rebuild_table_properties
from tests.support.timeline_files import archive_folder, make_state

DATA = pa.table({"k": ["a", "b"], "region": ["x:y", "z"], "ts": [1, 2]})


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"hoodie.parquet.max.file.sise": "1"}, HoodieConfigException),
        ({"hoodie.parquet.small.file.limit": "2000", "hoodie.parquet.max.file.size": "1000"}, HoodieConfigException),
        ({"hoodie.datasource.write.recordkey.field": "region"}, HoodieConfigException),
        ({"hoodie.table.name": "others"}, HoodieConfigException),
        ({"hoodie.datasource.write.keygenerator.class": "com.example.Mine"}, HoodieConfigException),
        ({"hoodie.datasource.write.payload.class": "com.example.Mine"}, HoodieNotSupportedException),
        ({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}, HoodieConfigException),
    ],
)
def test_wrong_properties_leave_no_table(
    tmp_path: Path, properties: dict[str, str], error: type[HoodieException]
) -> None:
    path = tmp_path / "trips"
    with pytest.raises(error):
        hoodie.write_table(DATA, str(path), table_name="trips", record_key_fields="k", properties=properties)
    assert not path.exists()


@pytest.mark.parametrize(
    "make_data",
    [
        lambda: DATA,
        DATA.to_pylist,
        DATA.to_batches,
        DATA.to_reader,
        lambda: iter(DATA.to_batches()),
        lambda: pd.DataFrame({"k": ["a"], "region": ["x"], "ts": [1]}),
    ],
    ids=["table", "dicts", "batches", "reader", "iterator", "pandas"],
)
@pytest.mark.parametrize("argument", ["record_key_fields", "partition_fields", "ordering_fields"])
def test_a_field_that_is_not_a_column_leaves_no_table(
    tmp_path: Path, make_data: Callable[[], Any], argument: str
) -> None:
    path = tmp_path / "trips"
    with pytest.raises(HoodieKeyException, match="'missing' is not a column of the data; its columns are: k, region"):
        hoodie.write_table(make_data(), str(path), **{"record_key_fields": "k", argument: "missing"})
    assert not path.exists()


def test_an_iterator_of_batches_is_written_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(iter([*DATA[:1].to_batches(), *DATA[1:].to_batches()]), path, record_key_fields="k")
    assert sorted(hoodie.read_table(path)["k"].to_pylist()) == ["a", "b"]


def test_a_named_index_of_pandas_may_be_the_key(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(pd.DataFrame({"ts": [1]}, index=pd.Index(["a"], name="k")), path, record_key_fields="k")
    assert hoodie.read_table(path, columns=["k"])["k"].to_pylist() == ["a"]


def test_properties_of_the_table_are_those_of_the_new_one(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    properties = {
        "hoodie.table.name": "rides",
        "hoodie.database.name": "city",
        "hoodie.datasource.write.recordkey.field": "k,region",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.payload.class": "OverwriteWithLatestAvroPayload",
    }
    for _ in range(2):
        hoodie.write_table(DATA, path, partition_fields="region", ordering_fields="ts", properties=properties)
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_name, config.database_name) == ("rides", "city")
    assert config.record_key_fields == ("k", "region")
    assert config.hive_style_partitioning
    assert config.url_encode_partitioning
    assert str(config.key_generator_class).endswith("ComplexKeyGenerator")
    assert str(config.payload_class or config.legacy_payload_class).endswith("OverwriteWithLatestAvroPayload")
    assert HoodieTableMetaClient.load(path).view().list_partitions() == ["region=x%3Ay", "region=z"]
    assert hoodie.read_table(path).num_rows == 2


def test_the_operation_may_be_a_property(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    data = pa.table({"id": ["a", "a"], "fare": [1.0, 2.0]})
    given = {"hoodie.datasource.write.operation": "insert"}
    result = hoodie.write_table(data, base_path, record_key_fields="id", properties=given)
    assert result.commit_metadata.operation_type == "INSERT"
    assert hoodie.read_table(base_path).num_rows == 2
    assert hoodie.write_table(data, base_path, operation="INSERT", properties=given).inserted_count == 2


def test_an_operation_that_differs_from_the_property_is_refused(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    given = {"hoodie.datasource.write.operation": "bulk_insert"}
    with pytest.raises(HoodieConfigException, match="operation = 'bulk_insert', and the argument says 'insert': give"):
        hoodie.write_table(DATA, base_path, operation="insert", record_key_fields="k", properties=given)
    assert not Path(base_path).exists()


def test_write_table_refuses_not_to_commit(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    with pytest.raises(HoodieConfigException, match=r"without a client always commits: leave it out"):
        hoodie.write_table(DATA, base_path, record_key_fields="k", properties={"hoodie.auto.commit": "false"})
    assert not Path(base_path).exists()
    hoodie.write_table(DATA, base_path, record_key_fields="k", properties={"hoodie.auto.commit": "true"})


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, True),
        ({"hoodie.datasource.insert.dup.policy": "drop", "hoodie.datasource.write.operation": "upsert"}, True),
        ({"hoodie.datasource.insert.dup.policy": "drop", "hoodie.datasource.write.operation": "insert"}, False),
    ],
)
def test_options_of_inserts_make_an_insert_of_an_upsert_that_the_call_does_not_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str], warns: bool
) -> None:
    base_path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": ["a"], "ts": [1]}), base_path, record_key_fields="k")
    with caplog.at_level(logging.WARNING, logger="hoodie"):
        result = hoodie.write_table(pa.table({"k": ["a", "b"], "ts": [2, 2]}), base_path, properties=options)
    assert result.commit_metadata.operation_type == "INSERT"
    assert hoodie.read_table(base_path, columns=["k", "ts"]).sort_by("k").to_pylist() == [
        {"k": "a", "ts": 1},
        {"k": "b", "ts": 2},
    ]
    assert ("concerns inserts: an insert is done instead of an upsert" in caplog.text) == warns


def test_a_named_upsert_with_options_of_inserts_is_refused(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    given = {"hoodie.datasource.insert.dup.policy": "fail"}
    with pytest.raises(HoodieConfigException, match=r"insert\.dup\.policy = fail says what inserts do with them"):
        hoodie.write_table(DATA, base_path, operation="upsert", record_key_fields="k", properties=given)
    assert not Path(base_path).exists()
    hoodie.write_table(DATA, base_path, record_key_fields="k", properties=given)
    with pytest.raises(HoodieDuplicateKeyException):
        hoodie.write_table(DATA, base_path, properties=given)


@pytest.mark.parametrize(("given", "stored", "other"), [("local", "LOCAL", "UTC"), ("UTC", "UTC", "LOCAL")])
def test_a_new_table_has_the_timeline_timezone_that_is_asked_for(
    tmp_path: Path, given: str, stored: str, other: str
) -> None:
    base_path = str(tmp_path / "t")
    key = "hoodie.table.timeline.timezone"
    for _ in range(2):
        hoodie.write_table(DATA, base_path, record_key_fields="k", properties={key: given})
    assert HoodieTableMetaClient.load(base_path).table_config.timeline_timezone == stored
    with pytest.raises(HoodieConfigException, match=f"{key} = '{other}': the table has '{stored}'"):
        hoodie.write_table(DATA, base_path, properties={key: other})
    with pytest.raises(HoodieConfigException, match="must be UTC or LOCAL"):
        hoodie.write_table(DATA, base_path, properties={key: "CET"})


def test_the_archive_of_a_new_table_has_the_usual_folder(tmp_path: Path, table_version: int) -> None:
    base_path = str(tmp_path / "t")
    key = "hoodie.archivelog.folder"
    usual = "archived" if table_version == 6 else "history"
    with pytest.raises(HoodieConfigException, match=f"keeps its archived timeline in '{usual}'; leave it out"):
        hoodie.write_table(DATA, base_path, record_key_fields="k", properties={key: "elsewhere"})
    assert not Path(base_path).exists()
    hoodie.write_table(DATA, base_path, record_key_fields="k", properties={key: "archived"})
    if table_version > 6:
        # Later versions have the property, and do not use it.
        assert archive_folder(base_path) == Path(base_path, ".hoodie", "timeline", "history")
        assert hoodie.write_table(DATA, base_path, properties={key: "elsewhere"}).is_committed
        return
    with pytest.raises(HoodieConfigException, match=f"{key} = 'elsewhere': the table has 'archived'"):
        hoodie.write_table(DATA, base_path, properties={key: "elsewhere"})


def test_an_on_progress_that_cannot_be_called_is_refused_before_a_table_is_made(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    with pytest.raises(HoodieConfigException, match="on_progress is 'text', a str: give a function"):
        hoodie.write_table(DATA, base_path, record_key_fields="k", on_progress="text")  # type: ignore[arg-type]
    assert not Path(base_path).exists()
    config = hoodie.HoodieWriteConfig.from_properties(base_path)
    with pytest.raises(HoodieConfigException, match="on_progress is 'text'"):
        hoodie.HoodieLocalWriteClient(config, on_progress="text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make_data", "message"),
    [
        (lambda: DATA.append_column("t", pa.array([time(1), time(2)])), "column 't' .*time of day"),
        (lambda: DATA.append_column("t", pa.array([time(1), time(2)])).to_reader(), "column 't' .*time of day"),
        (lambda: iter(DATA.append_column("t", pa.array([time(1), time(2)])).to_batches()), "column 't' .*time of day"),
        (lambda: [{"k": "a", "region": "x", "ts": 1, "t": time(1)}], "column 't' .*time of day"),
        (lambda: pd.DataFrame({"k": ["a"], "region": ["x"], "ts": [1], "t": [time(1)]}), "column 't' .*time of day"),
        (lambda: [HoodieRecord(HoodieKey("a", "x"), {"k": "a", "t": time(1)})], "column 't' .*time of day"),
        (lambda: [{"k": "a", "region": "x", "ts": 1, "t": {}}], "column 't' .*without fields"),
        (lambda: [{"k": "a", "region": "x", "ts": 1, "t": [{}]}], "column 't.element' .*without fields"),
        (lambda: DATA.append_column("a b", pa.array([1, 2])), "Column 'a b' cannot be stored"),
        (lambda: DATA.append_column("TS", pa.array([1, 2])), "'ts' and 'TS'"),
        (lambda: [], "its columns are unknown"),
        (lambda: 5, "which is not supported"),
    ],
    ids=[
        "table",
        "reader",
        "iterator",
        "dicts",
        "pandas",
        "records",
        "struct",
        "list",
        "name",
        "twins",
        "none",
        "other",
    ],
)
def test_data_that_a_table_cannot_hold_leaves_no_table(
    tmp_path: Path, make_data: Callable[[], Any], message: str
) -> None:
    path = tmp_path / "trips"
    with pytest.raises(HoodieSchemaException, match=message):
        hoodie.write_table(make_data(), str(path), record_key_fields="k")
    assert not path.exists()


def test_a_key_that_is_null_in_all_records_leaves_no_table(tmp_path: Path) -> None:
    with pytest.raises(HoodieKeyException, match="column 'k', a record key field, is null in all records"):
        hoodie.write_table([{"k": None, "ts": 1}], str(tmp_path / "trips"), record_key_fields="k")
    assert not (tmp_path / "trips").exists()


@pytest.mark.parametrize(
    "make_data",
    [
        lambda: DATA,
        DATA.to_pylist,
        DATA.to_batches,
        DATA.to_reader,
        lambda: iter(DATA.to_batches(max_chunksize=1)),
        lambda: ds.dataset(DATA),
        DATA.to_pandas,
        lambda: [HoodieRecord(HoodieKey(row["k"], ""), row) for row in DATA.to_pylist()],
    ],
    ids=["table", "dicts", "batches", "reader", "iterator", "dataset", "pandas", "records"],
)
def test_data_of_any_kind_makes_a_table_and_is_written_whole(tmp_path: Path, make_data: Callable[[], Any]) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(make_data(), path, record_key_fields="k")
    assert hoodie.read_table(path, columns=DATA.column_names).sort_by("k").to_pylist() == DATA.to_pylist()


def test_an_empty_stream_makes_a_table_with_its_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(DATA.schema.empty_table().to_reader(), path, record_key_fields="k")
    assert hoodie.read_table(path, columns=["k", "ts"]).num_rows == 0


def test_a_value_of_a_stream_that_cannot_be_stored_is_refused_by_its_column(tmp_path: Path) -> None:
    times = pa.table({"k": ["a"], "at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(HoodieSchemaException, match="column 'at'"):
        hoodie.write_table(times.to_reader(), str(tmp_path / "trips"), record_key_fields="k")


@pytest.mark.parametrize("argument", ["record_key_fields", "partition_fields", "ordering_fields"])
def test_a_field_in_another_spelling_is_refused_with_the_one_that_is_there(tmp_path: Path, argument: str) -> None:
    with pytest.raises(HoodieKeyException, match=r"field 'TS' is not a column of the data \(did you mean 'ts'\?\)"):
        hoodie.write_table(DATA, str(tmp_path / "trips"), **{"record_key_fields": "k", argument: "TS"})


def test_columns_and_filters_in_another_spelling_are_refused_with_the_one_that_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(DATA, path, record_key_fields="k")
    with pytest.raises(HoodieSchemaException, match=r"no column TS \(did you mean 'ts'\?\)"):
        hoodie.read_table(path, columns=["k", "TS"])
    with pytest.raises(HoodieSchemaException, match=r"no column TS \(did you mean 'ts'\?\)"):
        hoodie.read_table(path, filters=[("TS", ">", 1)])


def test_a_table_below_the_home_folder_is_found_wherever_a_base_path_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    hoodie.write_table(
        DATA, "~/trips", record_key_fields="k", properties={"hoodie.base.path": f"{tmp_path}/home/trips"}
    )
    assert os.listdir(tmp_path) == ["home"]
    config = hoodie.HoodieWriteConfig.from_properties("~/trips", {"hoodie.metadata.enable": "false"})
    with hoodie.HoodieLocalWriteClient(config) as client:
        client.upsert(DATA)
    assert hoodie.read_table("~/trips").num_rows == hoodie.scan_table("~/trips").read_all().num_rows == 2
    assert HoodieTableMetaClient.load("~/trips").table_config.table_name == "trips"
    HoodieTableMetaClient.init_table("~/others", table_name="others", record_key_fields="k")
    assert (tmp_path / "home" / "others" / ".hoodie").is_dir()
    (tmp_path / "home" / "trips" / ".hoodie" / "hoodie.properties").unlink()
    with pytest.raises(HoodieConfigException, match=f"{tmp_path}/home/trips"):
        rebuild_table_properties("~/trips")
    assert sorted(os.listdir(tmp_path / "home")) == ["others", "trips"]
    assert os.listdir(tmp_path) == ["home"]


def test_a_table_made_in_the_home_folder_itself_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    hoodie.write_table(DATA, "~", record_key_fields="k")
    assert HoodieTableMetaClient.load(str(tmp_path / "ann")).table_config.table_name == "ann"


@pytest.mark.parametrize(
    "given", [{"operation": "delete"}, {"properties": {"hoodie.datasource.write.operation": "delete"}}]
)
@pytest.mark.parametrize("fields", [{}, {"record_key_fields": "k"}])
def test_a_delete_on_a_path_without_a_table_makes_none(
    tmp_path: Path, given: dict[str, Any], fields: dict[str, Any]
) -> None:
    path = tmp_path / "trisp"
    with pytest.raises(TableNotFoundException, match=f"there is no table at {path} to delete from"):
        hoodie.write_table(DATA.select(["k"]), str(path), **given, **fields)
    assert not path.exists()


@pytest.mark.parametrize(
    "delete",
    [
        lambda client: client.delete(DATA),
        lambda client: client.delete(where=[("ts", "=", 1)]),
        lambda client: client.delete_partitions(["x"]),
    ],
    ids=["keys", "filter", "partitions"],
)
def test_deletes_of_a_client_make_no_table(tmp_path: Path, delete: Callable[[Any], Any]) -> None:
    config = hoodie.HoodieWriteConfig.from_properties(
        str(tmp_path / "trisp"), {"hoodie.datasource.write.recordkey.field": "k"}
    )
    with hoodie.HoodieLocalWriteClient(config) as client, pytest.raises(TableNotFoundException, match=r"/trisp "):
        delete(client)
    assert not (tmp_path / "trisp").exists()


# --- first writes that fail -------------------------------------------------------------------------------------------

GOOD_ROWS = pa.table({"k": ["a", "b"], "region": ["x", "y"], "ts": [1, 2]})
BAD_ROWS = pa.table({"k": ["a", None], "region": ["x", "y"], "ts": [1, 2]})


@pytest.mark.parametrize("operation", ["upsert", "insert", "insert_overwrite", "insert_overwrite_table", "bulk_insert"])
@pytest.mark.parametrize("folder", ["new", "empty", "hidden files"])
def test_a_first_write_that_never_began_leaves_no_table(tmp_path: Path, operation: str, folder: str) -> None:
    path = tmp_path / "trips"
    if folder != "new":
        path.mkdir()
    if folder == "hidden files":
        (path / "_notes").write_text("x")
    with pytest.raises(HoodieKeyException, match="1 of the records to .* have no usable key"):
        hoodie.write_table(BAD_ROWS, str(path), operation=operation, record_key_fields="k", partition_fields="region")
    assert path.exists() == (folder != "new")
    assert not (path / ".hoodie").exists()
    assert (path / "_notes").exists() == (folder == "hidden files")
    hoodie.write_table(GOOD_ROWS, str(path), operation=operation, record_key_fields="k", partition_fields="region")
    assert hoodie.read_table(str(path)).num_rows == 2


def test_a_first_write_that_never_began_leaves_no_table_in_memory() -> None:
    path = "memory://never_began/trips"
    with pytest.raises(HoodieKeyException):
        hoodie.write_table(BAD_ROWS, path, record_key_fields="k")
    with pytest.raises(TableNotFoundException):
        HoodieTableMetaClient.load(path)


def test_a_new_table_that_another_writer_uses_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one starts right before the properties are deleted, so that only the second look finds it."""
    path = tmp_path / "trips"
    delete_file = LocalStorage.delete_file
    other = "20991231235959999"

    def beside_another_writer(storage: LocalStorage, file: str) -> bool:
        if file.endswith("hoodie.properties"):
            make_state(path, other, "commit", State.REQUESTED)
        return delete_file(storage, file)

    monkeypatch.setattr(LocalStorage, "delete_file", beside_another_writer)
    with pytest.raises(HoodieKeyException) as raised:
        hoodie.write_table(BAD_ROWS, str(path), record_key_fields="k")
    assert f"the table {path}, which this call created, stays" in raised.value.__notes__[0]
    pending = HoodieTableMetaClient.load(str(path)).active_timeline.filter_pending()
    assert [instant.requested_time for instant in pending] == [other]


@pytest.mark.metadata_table
@pytest.mark.parametrize("folder", ["new", "there"])
@pytest.mark.parametrize("partition_fields", [(), "region"])
def test_a_first_write_that_had_begun_and_fails_leaves_no_table(
    tmp_path: Path, folder: str, partition_fields: Any
) -> None:
    path = tmp_path / "trips"
    if folder == "there":
        path.mkdir()

    def refuse(commit: Any) -> bool:
        return False

    def write(**arguments: Any) -> None:
        data = DATA.set_column(1, "region", pa.array(["x", "y"]))
        hoodie.write_table(data, str(path), record_key_fields="k", partition_fields=partition_fields, **arguments)

    with pytest.raises(hoodie.HoodieValidationException) as raised:
        write(validators=[refuse])
    assert not getattr(raised.value, "__notes__", None)
    assert path.exists() == (folder == "there")
    assert not [*path.rglob("*")]
    write()
    assert [row.action for row in HoodieTableMetaClient.load(str(path)).history()] == ["commit"]
    assert hoodie.read_table(str(path)).num_rows == 2


@pytest.mark.metadata_table
def test_a_refused_first_write_does_not_refuse_what_its_message_suggests(tmp_path: Path) -> None:
    def twice(name: str, first: tuple[Any, dict[str, Any]], second: tuple[Any, dict[str, Any]]) -> None:
        path = str(tmp_path / name)
        with pytest.raises(HoodieException):
            hoodie.write_table(first[0], path, **first[1])
        hoodie.write_table(second[0], path, **second[1])
        assert hoodie.read_table(path).num_rows == 1

    colon, keys = [{"id": "a", "p": "a:b"}], {"record_key_fields": "id", "partition_fields": "p"}
    encoded = {"properties": {"hoodie.datasource.write.partitionpath.urlencode": "true"}}
    twice("colon", (colon, keys), (colon, {**keys, **encoded}))
    lists = pa.table({"tags": [[1]], "k": ["a"]})
    twice("key", (lists, {"record_key_fields": "tags"}), (lists, {"record_key_fields": "k"}))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    "values", [[[1]], [{"a": 1}], [b"x"], pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))],
    ids=["list", "struct", "binary", "map"],
)  # fmt: skip
def test_an_ordering_field_without_an_order_is_refused_at_the_first_write(
    tmp_path: Path, values: Any, table_type: str
) -> None:
    path, data = str(tmp_path / "t"), pa.table({"k": ["a"], "o": values})
    properties = {"hoodie.datasource.write.table.type": table_type}
    with pytest.raises(HoodieSchemaException, match=r"ordering field 'o' is of type .*have no order: name a column"):
        hoodie.write_table(data, path, record_key_fields="k", ordering_fields="o", properties=properties)
    assert not os.path.exists(path)
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="k", ordering_fields="o", table_type=table_type
    )
    with pytest.raises(HoodieSchemaException, match="ordering field 'o'"):
        hoodie.write_table(data, path)
    # As another writer may have declared it.
    schema = to_avro(data.schema, "t_record", "hoodie.t").replace(":", r"\:")
    with open(f"{path}/.hoodie/hoodie.properties", "a") as properties_file:
        properties_file.write(f"hoodie.table.create.schema={schema}\n")
    assert HoodieTableMetaClient.load(path).table_config.create_schema is not None
    with pytest.raises(HoodieSchemaException, match=r"ordering field 'o' is of type .*have no order: name a column"):
        hoodie.write_table(data, path)


def test_an_empty_frame_decides_no_types(tmp_path: Path) -> None:
    for number, (empty, first) in enumerate(
        [
            (pd.DataFrame({"id": [], "v": []}), pd.DataFrame({"id": ["a"], "v": ["x"]})),
            (pa.table({"id": pa.array([], pa.int64())}), [{"id": "a"}]),
            (pa.table({"id": pa.array([], pa.string()), "gone": pa.array([], pa.int64())}), pa.table({"id": ["a"]})),
        ]
    ):
        path = str(tmp_path / str(number))
        hoodie.write_table(empty, path, record_key_fields="id")
        hoodie.write_table(empty, path)
        hoodie.write_table(first, path)
        assert hoodie.read_table(path, columns=["id"])["id"].to_pylist() == ["a"]
        # Rows do.
        with pytest.raises(HoodieSchemaException):
            hoodie.write_table(pa.table({"id": [1.5]}), path)
    declared = str(tmp_path / "declared")
    HoodieTableMetaClient.init_table(
        declared, table_name="t", record_key_fields="id", schema=pa.schema([("id", pa.int64())])
    )
    with pytest.raises(HoodieSchemaException):
        hoodie.write_table(pa.table({"id": ["a"]}), declared)


def test_a_table_that_was_there_is_not_taken_back(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields="k")
    with pytest.raises(HoodieKeyException):
        hoodie.write_table(BAD_ROWS, path)
    assert len(HoodieTableMetaClient.load(path).active_timeline) == 0


def test_a_write_that_never_began_leaves_nothing_in_the_history(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(DATA, path, record_key_fields="k", ordering_fields="ts")
    (before,) = HoodieTableMetaClient.load(path).active_timeline
    for bad, error in (
        (BAD_ROWS, HoodieKeyException),
        (DATA.drop_columns(["region"]), hoodie.MissingSchemaFieldException),
        (DATA.drop_columns(["k"]), HoodieKeyException),
        (DATA.set_column(2, "ts", pa.array(["x", "y"])), hoodie.SchemaCompatibilityException),
    ):
        with pytest.raises(error):
            hoodie.write_table(bad, path)
        with pytest.raises(error):
            hoodie.write_table(bad, path, operation="bulk_insert")
    for given in (BAD_ROWS.to_pandas(), BAD_ROWS.to_pylist(), BAD_ROWS.to_batches()[0]):
        with pytest.raises(HoodieKeyException, match="1 of the records to bulk_insert have no usable key"):
            hoodie.write_table(given, path, operation="bulk_insert")
    assert list(HoodieTableMetaClient.load(path).active_timeline) == [before]
    assert not os.listdir(tmp_path / "trips" / ".hoodie" / ".temp")


def test_an_instant_that_a_pending_rollback_may_name_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    hoodie.write_table(DATA, str(path), record_key_fields="k")
    config = hoodie.HoodieWriteConfig.from_properties(str(path), {"hoodie.cleaner.policy.failed.writes": "LAZY"})
    with pytest.raises(HoodieKeyException), hoodie.HoodieLocalWriteClient(config) as client:
        client.start_commit()
        make_state(path, "20991231235959999", "restore", State.REQUESTED)
        raise HoodieKeyException("x")
    actions = [instant.action for instant in HoodieTableMetaClient.load(str(path)).active_timeline]
    assert actions == ["commit", "restore", "rollback"]


def test_an_instant_that_has_markers_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    hoodie.write_table(DATA, str(path), record_key_fields="k")
    config = hoodie.HoodieWriteConfig.from_properties(str(path))
    with pytest.raises(HoodieKeyException), hoodie.HoodieLocalWriteClient(config) as client:
        (path / ".hoodie" / ".temp" / client.start_commit()).mkdir()
        raise HoodieKeyException("x")
    actions = [instant.action for instant in HoodieTableMetaClient.load(str(path)).active_timeline]
    assert actions == ["commit", "rollback"]


def test_another_name_than_the_table_has_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(DATA, path, record_key_fields="k", table_name="trips")
    hoodie.write_table(DATA, path, table_name="trips")
    for given in ({"table_name": "others"}, {"properties": {"hoodie.table.name": "others"}}):
        with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.name = 'others': the table has 'trips'"):
            hoodie.write_table(DATA, path, **given)  # type: ignore[arg-type]
    with pytest.raises(HoodieConfigException, match="= 'a', and the argument says 'b': give one of them"):
        hoodie.write_table(DATA, path, table_name="b", properties={"hoodie.table.name": "a"})
    assert len(HoodieTableMetaClient.load(path).active_timeline) == 2


# --- options first ----------------------------------------------------------------------------------------------------

OPTIONS_THAT_ARE_WRONG = [
    {"hoodie.parquet.max.file.sise": "1"},
    {"hoodie.index.class": "no.such.Index"},
    {"hoodie.write.record.merge.custom.implementation.classes": "no.such.Merger"},
    {"hoodie.datasource.write.keygenerator.class": "no.such.KeyGenerator"},
    {"hoodie.precommit.validators": "no.such.Validator"},
    {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.class": "no.such.Callback"},
    {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "NOWHERE"},
    {"hoodie.bulkinsert.user.defined.partitioner.class": "no.such.Partitioner"},
    {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "no.such.LockProvider",
    },
]


def _touched(*arguments: Any) -> Any:
    raise AssertionError(f"touched before the options were checked: {arguments}")


class Untouchable:
    """Input that nobody may look at."""

    __iter__ = __len__ = __arrow_c_stream__ = __next__ = _touched


@pytest.mark.parametrize("options", OPTIONS_THAT_ARE_WRONG, ids=lambda options: next(reversed(options)))
@pytest.mark.parametrize("exists", [False, True])
def test_options_are_checked_before_a_table_is_opened_or_input_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], exists: bool
) -> None:
    path = tmp_path / "trips"
    if exists:
        hoodie.write_table(DATA, str(path), record_key_fields="k")
    reads = ("read", "file_status", "list_directory", "list_names", "list_files")
    for name in (*reads, "create_if_absent", "create_directory"):
        monkeypatch.setattr(LocalStorage, name, _touched)
    with pytest.raises(HoodieConfigException):
        hoodie.write_table(Untouchable(), str(path), record_key_fields="k", properties=options)
    config_options = {**options, "hoodie.datasource.write.operation": "bulk_insert"}
    with pytest.raises(HoodieConfigException):
        config = hoodie.HoodieWriteConfig.from_properties(str(path), config_options)
        hoodie.HoodieLocalWriteClient(config)
    assert path.exists() == exists


def test_a_table_that_another_writer_makes_at_that_moment_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    describe = open_or_create.table_to_create

    def late(config: HoodieWriteConfig, schema: pa.Schema | None = None) -> NewTable:
        monkeypatch.setattr(open_or_create, "table_to_create", describe)
        hoodie.write_table([{"id": 1}], path, record_key_fields="id")
        return describe(config, schema)

    monkeypatch.setattr(open_or_create, "table_to_create", late)
    hoodie.write_table([{"id": 2}], path, record_key_fields="id")
    assert sorted(hoodie.read_table(path, columns=["id"])["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(("table_type", "version"), [("MERGE_ON_READ", 8), ("merge_on_read", 6), ("COPY_ON_WRITE", 9)])
def test_type_and_version_of_a_new_table_are_arguments(tmp_path: Path, table_type: str, version: int) -> None:
    data = pa.table({"id": ["a"], "v": [1]})
    arguments: dict[str, Any] = {"record_key_fields": "id", "table_type": table_type, "table_version": version}
    for _ in range(2):
        hoodie.write_table(data, str(tmp_path), **arguments)
    stored = HoodieTableMetaClient.load(str(tmp_path)).table_config
    assert (stored.table_type, stored.table_version) == (table_type.upper(), version)
    other = "COPY_ON_WRITE" if table_type.upper() == "MERGE_ON_READ" else "MERGE_ON_READ"
    for key, value in (("table_type", other), ("table_version", 6 if version != 6 else 8), ("table_type", "COW")):
        with pytest.raises(HoodieConfigException):
            hoodie.write_table(data, str(tmp_path), **{**arguments, key: value})
    with pytest.raises(HoodieConfigException, match="give one of them"):
        hoodie.write_table(data, str(tmp_path), properties={"hoodie.datasource.write.table.type": other}, **arguments)
    assert len(HoodieTableMetaClient.load(str(tmp_path)).active_timeline.completed_writes()) == 2
