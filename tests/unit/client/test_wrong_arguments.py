"""Arguments of the wrong kind at the public calls: an error of hoodie that names the argument, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieRecord, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieCommitException, HoodieConfigException, HoodieException, HoodieSchemaException
from hoodie.table import repair

DATA = pa.table({"id": ["a"], "region": ["x"], "ts": [1]})
INSTANT = "20990101000000000"
Call = Callable[[str], Any]


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table that all tests share: none of their calls may change it."""
    path = str(tmp_path_factory.mktemp("wrong") / "trips")
    hoodie.write_table(DATA, path, record_key_fields="id", partition_fields="region", ordering_fields="ts")
    return path


@pytest.fixture
def unchanged(base_path: str) -> Iterator[None]:
    """Fails the test when the table's rows or commits have changed."""
    before = hoodie.read_table(base_path)
    yield
    assert hoodie.read_table(base_path).equals(before)
    timeline = HoodieTableMetaClient.load(base_path).active_timeline
    assert len(timeline.commits_timeline()) == 1
    assert not any(instant.action == "savepoint" for instant in timeline)


def client(base_path: str, properties: dict[str, Any] | None = None, **options: Any) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, properties), **options)


def written_by_hand(call: Callable[[HoodieLocalWriteClient, str, Any], Any]) -> Call:
    """A call on a client that has written an instant and not committed it, which is rolled back in the end."""

    def run(base_path: str) -> None:
        with client(base_path, {"hoodie.auto.commit": False}) as writer:
            instant_time = writer.start_commit()
            result = writer.upsert(DATA, instant_time)
            call(writer, instant_time, result)

    return run


def on_client(call: Callable[[HoodieLocalWriteClient], Any]) -> Call:
    def run(base_path: str) -> None:
        with client(base_path) as writer:
            call(writer)

    return run


def doubled() -> pd.DataFrame:
    return pd.DataFrame([["a", "x", 1, 2]], columns=["id", "region", "ts", "ts"])


def mixed() -> pd.DataFrame:
    return pd.DataFrame({"id": ["a", "b"], "region": ["x", "y"], "ts": [1, "soon"]})


FRAMES = {
    "doubled": (doubled, "several columns of the name 'ts': rename them, or drop all but one"),
    "mixed": (mixed, r"column 'ts' holds values of several types: int \(1\) and str \('soon'\)"),
    "lists": (
        lambda: pd.DataFrame({"id": ["a"], "ts": [[1, "b"]]}),
        r"column 'ts\.element' holds values of several types: int \(1\) and str \('b'\)",
    ),
    "object": (
        lambda: pd.DataFrame({"id": ["a"], "ts": [object()]}),
        "column 'ts' holds <object object at .* no column can",
    ),
    "complex": (lambda: pd.DataFrame({"id": ["a"], "ts": [1j]}), "column 'ts' of the DataFrame .*complex"),
    "sparse": (
        lambda: pd.DataFrame({"id": ["a"], "ts": pd.Series([1.0]).astype("Sparse[float]")}),
        r"column 'ts' of the DataFrame \(dtype Sparse.*\) cannot be stored: Sparse pandas data",
    ),
    "series": (lambda: pd.Series([1]), "of type pandas.*Series, .*; give a pyarrow Table"),
    "chunks": (lambda: pa.chunked_array([[1]]), "ChunkedArray, whose Arrow stream has no columns"),
    "numpy": (lambda: np.array([1]), "records are of type numpy.ndarray, which is not supported"),
    "dict": (lambda: {"id": "a"}, "records are a dict, whose column 'id' is 'a' of type str"),
    "none": (lambda: None, "records are None, which is not supported"),
    "names": (lambda: [{"id": "a", 5: 1}], "the key 5 of a dict is not a column name"),
    "key": (lambda: [HoodieRecord("a", {"id": "a"})], "record 0 is a HoodieRecord whose key is 'a' of type str"),  # type: ignore[arg-type]
    "data": (
        lambda: [HoodieRecord(HoodieKey("a", "x"), [("id", "a")])],  # type: ignore[arg-type]
        "record 0 is a HoodieRecord whose data is of type list",
    ),
    "location": (
        lambda: [HoodieRecord(HoodieKey("a", "x"), {"id": "a"}, current_location="f")],  # type: ignore[arg-type]
        "whose current_location is 'f' of type str",
    ),
    "numbers": (
        lambda: [HoodieRecord(HoodieKey(5, "x"), {"id": "a"})],  # type: ignore[arg-type]
        "the key HoodieKey.record_key=5.* cannot be stored: record_key and partition_path must be text",
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("call", ["upsert", "insert", "bulk_insert", "upsert_prepped_records", "insert_overwrite"])
@pytest.mark.usefixtures("unchanged")
def test_records_that_are_none(base_path: str, call: str, kind: str) -> None:
    make, message = FRAMES[kind]
    with client(base_path) as writer, pytest.raises(HoodieException, match=message):
        getattr(writer, call)(make())


@pytest.mark.parametrize("kind", sorted(set(FRAMES) - {"numbers", "location", "key", "data"}))
def test_records_that_are_none_make_no_table(tmp_path: Path, kind: str) -> None:
    make, message = FRAMES[kind]
    with pytest.raises(HoodieSchemaException, match=message):
        hoodie.write_table(make(), str(tmp_path / "new"), record_key_fields="id")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", [None, b"/data/trips", 5, ["/data/trips"], "/data/tr\0ips"], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        hoodie.read_table,
        hoodie.scan_table,
        HoodieTableMetaClient.load,
        lambda path: HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields="id"),
        lambda path: hoodie.write_table(DATA, path, record_key_fields="id"),
        repair.find_duplicates,
        repair.find_orphan_files,
        repair.repair_partition_metadata,
        repair.rebuild_table_properties,
    ],
    ids=["read", "scan", "load", "init", "write", "duplicates", "orphans", "metadata", "properties"],
)
def test_a_path_that_is_none(call: Callable[[Any], Any], path: Any) -> None:
    with pytest.raises(HoodieConfigException, match="path"):
        call(path)


CALLS: dict[str, tuple[Call, str]] = {
    "from_properties, list": (
        lambda path: HoodieWriteConfig.from_properties(path, ["a"]),  # type: ignore[arg-type]
        "^properties is of type list: give a dict of property names and values",
    ),
    "from_properties, text": (
        lambda path: HoodieWriteConfig.from_properties(path, "hoodie.table.name=t"),  # type: ignore[arg-type]
        "^properties is of type str",
    ),
    "from_properties, storage options": (
        lambda path: HoodieWriteConfig.from_properties(path, {}, "key"),  # type: ignore[arg-type]
        "storage_options are a str",
    ),
    "write_table, properties": (
        lambda path: hoodie.write_table(DATA, path, properties=["a"]),  # type: ignore[arg-type]
        "^properties is of type list",
    ),
    "write_table, keys": (
        lambda path: hoodie.write_table(DATA, path, record_key_fields=5),  # type: ignore[arg-type]
        "^record_key_fields is 5 of type int: give a column's name",
    ),
    "write_table, key of a list": (
        lambda path: hoodie.write_table(DATA, path, partition_fields=[None]),  # type: ignore[list-item]
        "^partition_fields has a name that is None",
    ),
    "write_table, name": (
        lambda path: hoodie.write_table(DATA, path, table_name=7),  # type: ignore[arg-type]
        "^table_name is 7 of type int",
    ),
    "write_table, operation": (
        lambda path: hoodie.write_table(DATA, path, operation=7),  # type: ignore[arg-type]
        "operation 7 is not one of",
    ),
    "write_table, on_progress": (
        lambda path: hoodie.write_table(DATA, path, on_progress=True),  # type: ignore[arg-type]
        "on_progress is True",
    ),
    "write_table, validators": (
        lambda path: hoodie.write_table(DATA, path, validators=5),  # type: ignore[arg-type]
        "validators is 5",
    ),
    "read_table, columns": (
        lambda path: hoodie.read_table(path, columns=5),  # type: ignore[arg-type]
        "^columns is 5 of type int",
    ),
    "read_table, column of a list": (
        lambda path: hoodie.read_table(path, columns=[5]),  # type: ignore[list-item]
        "^columns has a name that is 5 of type int",
    ),
    "read_table, column as text": (lambda path: hoodie.read_table(path, columns="a"), "has no column a"),
    "read_table, filters dict": (
        lambda path: hoodie.read_table(path, filters={"id": "a"}),
        "filters are of type dict: give an expression, or tuples",
    ),
    "read_table, filters": (
        lambda path: hoodie.read_table(path, filters="x"),
        "the filter 'x' is not understood at the end",
    ),
    "read_table, query type": (
        lambda path: hoodie.read_table(path, query_type=5),  # type: ignore[arg-type]
        "query_type 5",
    ),
    "init_table, properties": (
        lambda path: HoodieTableMetaClient.init_table(
            path + "2",
            table_name="t",
            record_key_fields="id",
            properties=["a"],  # type: ignore[arg-type]
        ),
        "^properties is of type list",
    ),
    "init_table, name of a property": (
        lambda path: HoodieTableMetaClient.init_table(
            path + "2",
            table_name="t",
            record_key_fields="id",
            properties={5: "a"},  # type: ignore[dict-item]
        ),
        "5: a property's name must be text",
    ),
    "init_table, schema": (
        lambda path: HoodieTableMetaClient.init_table(
            path + "2",
            table_name="t",
            record_key_fields="id",
            schema={"id": "string"},  # type: ignore[arg-type]
        ),
        "schema is of type dict: give a pyarrow Schema",
    ),
    "init_table, text for a flag": (
        lambda path: HoodieTableMetaClient.init_table(
            path + "2",
            table_name="t",
            record_key_fields="id",
            hive_style_partitioning="false",  # type: ignore[arg-type]
        ),
        "hive_style_partitioning is 'false' of type str: give True or False",
    ),
    "client, number": (
        lambda path: HoodieLocalWriteClient(5),  # type: ignore[arg-type]
        "^the config of HoodieLocalWriteClient is 5 of type int: give a HoodieWriteConfig",
    ),
    "client, dict": (
        lambda path: HoodieLocalWriteClient({"hoodie.base.path": path}),  # type: ignore[arg-type]
        "^the config of HoodieLocalWriteClient is of type dict",
    ),
    "client, context": (
        lambda path: HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path), 5),  # type: ignore[arg-type]
        "^the context of HoodieLocalWriteClient is 5 of type int",
    ),
    "upsert, time": (
        on_client(lambda writer: writer.upsert("20990101000000000", DATA)),  # type: ignore[arg-type]
        "^the instant time is of type pyarrow.lib.Table: give it as text",
    ),
    "upsert, no text": (
        on_client(lambda writer: writer.upsert(DATA, [INSTANT])),  # type: ignore[arg-type]
        "^the instant time is of type list",
    ),
    "start_commit_with_time": (
        on_client(lambda writer: writer.start_commit_with_time(20990101000000000)),  # type: ignore[arg-type]
        "^the instant time is 20990101000000000 of type int",
    ),
    "commit, None": (
        written_by_hand(lambda writer, instant_time, result: writer.commit(instant_time, None)),  # type: ignore[arg-type]
        "^the result to commit as instant [0-9]+ is None: give what the write returned",
    ),
    "commit, statuses": (
        written_by_hand(lambda writer, instant_time, result: writer.commit(instant_time, list(result))),  # type: ignore[arg-type]
        "^the result to commit as instant [0-9]+ is of type list",
    ),
    "commit, swapped": (
        written_by_hand(lambda writer, instant_time, result: writer.commit(result, instant_time)),
        "^the arguments of commit are swapped",
    ),
    "commit, no time": (
        written_by_hand(lambda writer, instant_time, result: writer.commit(None, result)),  # type: ignore[arg-type]
        "^the instant time is None",
    ),
    "commit, extra metadata": (
        written_by_hand(
            lambda writer, instant_time, result: writer.commit(instant_time, result, extra_metadata=["a"])  # type: ignore[arg-type]
        ),
        "^extra_metadata is of type list",
    ),
    "savepoint, user": (
        on_client(lambda writer: writer.savepoint(user=5)),  # type: ignore[arg-type]
        "^user is 5 of type int",
    ),
    "savepoint, comment": (
        on_client(lambda writer: writer.savepoint(comment=None)),  # type: ignore[arg-type]
        "^comment is None",
    ),
    "delete, key": (
        on_client(lambda writer: writer.delete([HoodieKey("a", 5)])),  # type: ignore[arg-type]
        "partition_path=5.* cannot be stored: record_key and partition_path must be text",
    ),
    "delete_prepped_records": (
        on_client(lambda writer: writer.delete_prepped_records(DATA.to_pandas())),
        "^rows to delete are of type pandas.*DataFrame: give a pyarrow Table",
    ),
    "delete_partitions, None": (
        on_client(lambda writer: writer.delete_partitions(None)),  # type: ignore[arg-type]
        "^partitions is None: give a list of partition paths",
    ),
    "delete_partitions, dict": (
        on_client(lambda writer: writer.delete_partitions({"x": "region"})),
        "^partitions is of type dict",
    ),
    "delete_partitions, frame": (
        on_client(lambda writer: writer.delete_partitions(pd.DataFrame({"x": [1]}))),  # type: ignore[arg-type]
        "^partitions is of type pandas.*DataFrame",
    ),
    "find_duplicates, text": (
        lambda path: repair.find_duplicates(path, partitions="x"),
        r"partitions is a list of partition paths, not one text: give \['x'\]",
    ),
    "find_duplicates, number": (
        lambda path: repair.find_duplicates(path, partitions=[5]),  # type: ignore[list-item]
        "5 is no partition path",
    ),
    "find_duplicates, flag": (
        lambda path: repair.find_duplicates(path, across_partitions="no"),  # type: ignore[arg-type]
        "^across_partitions is 'no' of type str: give True or False",
    ),
    "drop_duplicates, flag": (
        on_client(lambda writer: repair.drop_duplicates(writer, dry_run="yes")),  # type: ignore[arg-type]
        "^dry_run is 'yes' of type str",
    ),
    "remove_orphan_files, flag": (
        lambda path: repair.remove_orphan_files(path, delete="false"),  # type: ignore[arg-type]
        "^delete is 'false' of type str: give True or False; nothing was changed",
    ),
    "remove_orphan_files, folder": (
        lambda path: repair.remove_orphan_files(path, backup_folder=5),  # type: ignore[arg-type]
        "^A path is of type int",
    ),
    "repair_partition_metadata, flag": (
        lambda path: repair.repair_partition_metadata(path, dry_run=1),  # type: ignore[arg-type]
        "^dry_run is 1 of type int",
    ),
    "rebuild_table_properties, flag": (
        lambda path: repair.rebuild_table_properties(path, dry_run=None),  # type: ignore[arg-type]
        "^dry_run is None",
    ),
    "rebuild_table_properties, properties": (
        lambda path: repair.rebuild_table_properties(path, properties=["a"]),  # type: ignore[arg-type]
        "^properties is of type list",
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("unchanged")
def test_a_wrong_argument_is_named(base_path: str, name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(HoodieException, match=message):
        call(base_path)
    assert not Path(base_path + "2").exists()


def test_what_cannot_be_committed_is_an_error_of_the_commit(base_path: str) -> None:
    with pytest.raises(HoodieCommitException):
        CALLS["commit, None"][0](base_path)


def test_fields_of_none_are_none(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(DATA, path, record_key_fields="id", partition_fields=None, ordering_fields=None)  # type: ignore[arg-type]
    assert HoodieTableMetaClient.load(path).table_config.partition_fields == ()


def test_a_message_does_not_show_what_a_wrong_argument_holds(base_path: str) -> None:
    secret = [("hoodie.write.lock.dynamodb.secret", "hunter2")]
    with pytest.raises(HoodieConfigException) as raised:
        HoodieWriteConfig.from_properties(base_path, secret)  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("suffix", ["/*", "/*/*"])
@pytest.mark.parametrize(
    "call",
    [
        lambda path: hoodie.write_table(DATA, path),
        lambda path: client(path).upsert(DATA),
        lambda path: client(path).delete([HoodieKey("a", "x")]),
        lambda path: client(path).clean(),
        lambda path: client(path).rollback_failed_writes(),
        lambda path: repair.drop_duplicates(client(path)),
    ],
)
def test_globs_are_for_readers_only(base_path: str, unchanged: None, call: Call, suffix: str) -> None:
    before = sorted(str(file) for file in Path(base_path).rglob("*"))
    with pytest.raises(HoodieConfigException, match=f"names the table at {base_path} by globs.*nothing was written"):
        call(base_path + suffix)
    assert sorted(str(file) for file in Path(base_path).rglob("*")) == before
    assert hoodie.read_table(base_path + suffix).num_rows == 1
