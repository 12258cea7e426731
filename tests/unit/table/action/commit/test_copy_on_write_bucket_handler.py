"""What a task does with the rows of its bucket: rows in, statuses out."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import new_file_id_prefix
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.model.write_status import TaskFailure, WithoutEffect, WriteStatus, unpack
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieIndexException
from hoodie.index.bucket.misplaced_keys import MisplacedKeyCheck
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle, KeyMatches
from hoodie.io.record_placement import RecordPlacement
from hoodie.io.write_context import WriteContext
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.action.commit.copy_on_write_bucket_handler import CopyOnWriteBucketHandler
from hoodie.table.open_table import load_table
from hoodie.table.table import HoodieTable

INSTANT = "99990101000000000"
TASK = TaskIdentity(0, 1, 2)
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


@attrs.frozen
class Written:
    """A file group with the keys a, b and c, and a write that goes on from it."""

    context: WriteContext
    file_slice: FileSlice

    def run(self, batches: Sequence[pa.RecordBatch], **changes: Any) -> list[WriteStatus | TaskFailure | WithoutEffect]:
        """What a task gives back; bucket 0 is the file group, bucket 1 a new one."""
        buckets = (
            BucketInfo(BucketType.UPDATE, self.file_slice.file_id, "", self.file_slice),
            BucketInfo(BucketType.INSERT, new_file_id_prefix(), ""),
        )
        handler = CopyOnWriteBucketHandler(attrs.evolve(self.context, **changes), buckets)
        handler = pickle.loads(pickle.dumps(handler))
        tables = [pa.Table.from_batches([batch]) for batch in handler(TASK, iter(batches))]
        return unpack(pa.concat_tables(tables)) if tables else []

    def rows_of(self, status: Any) -> dict[str, int]:
        """The rows of the file that a status is about."""
        table = pq.read_table(f"{self.context.base_path}/{status.stat.path}", columns=["k", "v"])
        return dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k")
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {})) as client:
        client.bulk_insert([{"k": key, "v": 1} for key in "abc"])
        table = HoodieTable(
            client._session.context, client.config, load_table(client.config), client._session.index, client.metrics
        )
        avro = table.snapshot.load_avro_schema()
        context = table.write_context(INSTANT, WriteOperationType.UPSERT, SCHEMA, str(avro))
        WriteMarkers(context.storage, f"{path}/.hoodie", INSTANT).open()
        (file_slice,) = table.latest_file_slices([""])[""]
        yield Written(context, file_slice)


def batch(bucket: int, *rows: tuple[str, int | None], deletes: bool = False, v: int = 2) -> pa.RecordBatch:
    """Rows of (key, position in the file group or None)."""
    count, keys = len(rows), pa.array([key for key, _ in rows], pa.string())
    operation = RecordOperation.DELETE if deletes else RecordOperation.UPSERT
    columns = {
        RECORD_KEY: keys,
        PARTITION_PATH: pa.array([""] * count, pa.string()),
        OPERATION: pa.array([int(operation)] * count, pa.int8()),
        ROW_NUMBER: pa.array(range(count), pa.int64()),
        CURRENT_FILE_ID: pa.array([None if place is None else "f" for _, place in rows], pa.string()),
        CURRENT_ROW_POSITION: pa.array([place for _, place in rows], pa.int64()),
        BUCKET: pa.array([bucket] * count, pa.int32()),
    }
    schema = pa.schema([*SCHEMA, *map(reserved_field, columns)])
    return pa.RecordBatch.from_arrays([keys, pa.array([v] * count, pa.int64()), *columns.values()], schema=schema)


def test_rows_of_a_file_group_make_its_next_version(written: Written) -> None:
    (status,) = written.run([batch(0, ("b", 1), ("d", None)), batch(0, ("c", 2), deletes=True)])
    assert isinstance(status, WriteStatus)
    assert (status.file_id, status.stat.prev_commit) == (
        written.file_slice.file_id,
        written.file_slice.base_instant_time,
    )
    assert (status.stat.num_update_writes, status.stat.num_inserts, status.stat.num_deletes) == (1, 1, 1)
    assert written.rows_of(status) == {"a": 1, "b": 2, "d": 2}


def test_rows_of_a_new_file_group_are_written_without_deletes(written: Written) -> None:
    (status,) = written.run([batch(1, ("x", None)), batch(1, ("y", None), deletes=True)])
    assert isinstance(status, WriteStatus)
    assert status.file_id != written.file_slice.file_id
    assert written.rows_of(status) == {"x": 2}


def test_a_task_without_rows_writes_nothing(written: Written) -> None:
    assert written.run([]) == written.run([batch(0)]) == []


def test_rows_of_two_buckets_in_one_task_are_an_error(written: Written) -> None:
    with pytest.raises(HoodieException, match="rows of other buckets than 0 came to one task"):
        written.run([batch(0, ("a", 0)), batch(1, ("x", None))])


def test_positions_are_found_where_the_index_does_not_know_them(written: Written) -> None:
    rows = [batch(0, ("c", None), ("d", None))]
    (status,) = written.run(rows, placement=RecordPlacement(names_file_groups=True, knows_positions=False))
    assert written.rows_of(status) == {"a": 1, "b": 1, "c": 2, "d": 2}
    # An index that knows positions is believed: a row without one is new.
    (status,) = written.run(rows)
    assert isinstance(status, WriteStatus)
    assert (status.stat.num_update_writes, status.stat.num_inserts) == (0, 2)


@pytest.mark.parametrize("place", [0, 7, -1])
def test_positions_of_an_index_of_the_users_are_compared_with_the_keys(written: Written, place: int) -> None:
    placement = RecordPlacement(verifies_positions=True)
    (failure,) = written.run([batch(0, ("b", place))], placement=placement)
    assert isinstance(failure, TaskFailure)
    assert (failure.error_class, failure.count) == ("HoodieIndexException", 1)
    assert "names wrong places: the key 'b' is not in row" in failure.message
    (status,) = written.run([batch(0, ("b", 1))], placement=placement)
    assert written.rows_of(status) == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("places", "looks_up"),
    [
        ({"c": 2, "d": None, "a": 0}, False),
        ({"d": None}, False),
        ({"c": 1, "d": None, "a": 0}, True),
        ({"c": 2, "d": 1, "a": 0}, True),
        ({"c": 7, "d": None, "a": 0}, True),
        ({"c": -1, "d": None, "a": 0}, True),
    ],
    ids=["right", "new", "of another key", "of a new key", "beyond the file", "not known"],
)
def test_guessed_positions_are_compared_with_the_keys_and_looked_up_if_one_is_wrong(
    written: Written, monkeypatch: pytest.MonkeyPatch, places: dict[str, int | None], looks_up: bool
) -> None:
    looked_up = []
    lookup = HoodieKeyLookupHandle.lookup

    def watched(self: HoodieKeyLookupHandle, *arguments: Any) -> KeyMatches:
        looked_up.append(self)
        return lookup(self, *arguments)

    monkeypatch.setattr(HoodieKeyLookupHandle, "lookup", watched)
    rows = batch(0, *places.items()).drop_columns([CURRENT_FILE_ID])
    placement = RecordPlacement(knows_positions=False, guesses_positions=True)

    (status,) = written.run([rows.slice(0, 2), rows.slice(2)], placement=placement)

    assert written.rows_of(status) == {"a": 1, "b": 1, "c": 1} | dict.fromkeys(places, 2)
    assert bool(looked_up) == looks_up


@attrs.frozen
class RefuseKey:
    """A check of a file's keys."""

    key: str

    def __call__(self, stored: pa.Array | pa.ChunkedArray, path: str, file_id: str) -> int:
        if self.key in stored.to_pylist():
            raise HoodieIndexException(f"{self.key} is in {path} of {file_id}")
        return len(stored)


def test_a_file_with_keys_of_other_file_groups_is_refused(written: Written) -> None:
    for key, is_refused in (("a", True), ("z", False)):
        placement = RecordPlacement(True, knows_positions=False, key_check=RefuseKey(key))
        (result,) = written.run([batch(0, ("b", None))], placement=placement)
        assert isinstance(result, TaskFailure) is is_refused
        if isinstance(result, TaskFailure):
            place = f"{written.file_slice.sole_base_file.path} of {written.file_slice.file_id}"
            assert (result.error_class, result.message) == ("HoodieIndexException", f"a is in {place}")


def test_prepped_rows_that_are_not_where_they_say_are_refused(written: Written) -> None:
    rows = [batch(0, ("b", 0), ("gone", 1))]
    (failure,) = written.run(rows, operation=WriteOperationType.UPSERT_PREPPED)
    assert isinstance(failure, TaskFailure)
    assert (failure.error_class, failure.count) == ("HoodieUpsertException", 1)
    assert "such as 'gone'" in failure.message
    (failure,) = written.run([batch(0, ("b", 0), deletes=True)], operation=WriteOperationType.DELETE_PREPPED)
    assert isinstance(failure, TaskFailure)
    assert failure.error_class == "HoodieDeleteException"


def test_inserts_stand_beside_a_stored_row_of_their_key_unless_it_is_to_be_replaced(written: Written) -> None:
    rows = [batch(0, ("b", None))]
    (status,) = written.run(rows, operation=WriteOperationType.INSERT)
    assert isinstance(status, WriteStatus)
    assert status.stat.num_writes == 4
    write = attrs.evolve(written.context.config.write, merge_allow_duplicate_on_inserts=False)
    config = attrs.evolve(written.context.config, write=write)
    (status,) = written.run(rows, operation=WriteOperationType.INSERT, config=config)
    assert written.rows_of(status) == {"a": 1, "b": 2, "c": 1}
    assert isinstance(status, WriteStatus)
    assert status.stat.num_writes == 3


def test_the_bucket_index_gives_tasks_its_check(written: Written) -> None:
    context = written.context
    assert context.placement == RecordPlacement()
    properties = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 4}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(context.base_path, properties)) as client:
        placement = client._session.index.record_placement(["k"])
    assert pickle.loads(pickle.dumps(placement)) == placement
    assert (placement.names_file_groups, placement.knows_positions, placement.verifies_positions) == (
        True,
        False,
        False,
    )
    assert isinstance(placement.key_check, MisplacedKeyCheck)
    assert placement.key_check.identifier.num_buckets == 4
