"""What every handle keeps to: the marker goes before the file, and no file is left that nobody looks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record_columns import (
    CURRENT_ROW_POSITION,
    META_COLUMNS,
    OPERATION,
    RECORD_KEY,
    RECORD_KEY_META,
    reserved_field,
)
from hoodie.common.model.write_operation_type import IOType, RecordOperation
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.model.write_status import RecordError, WriteStatus
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException, HoodieException, HoodieIOException
from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.merge_handle import HoodieConcatHandle, HoodieMergeHandle
from hoodie.io.rewrite_handle import HoodieRewriteHandle
from hoodie.io.write_context import WriteContext
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.table import HoodieTable

pytestmark = pytest.mark.usefixtures("splices_small_files")

TASK = TaskIdentity(7, 8, 9)
SCHEMA = pa.schema([("id", pa.string()), ("fare", pa.int64())])


@attrs.frozen(kw_only=True)
class Pending:
    """A table of the records a, b and c, and a write of it that goes on."""

    client: HoodieLocalWriteClient
    base_path: Path
    context: WriteContext

    @property
    def older(self) -> Path:
        """The one base file of the table."""
        (slices,) = HoodieTableMetaClient.load(str(self.base_path)).view().latest_file_slices("p")
        assert slices.base_file is not None
        return Path(slices.base_file.path)

    def markers(self, handle: HoodieBaseFileHandle) -> list[str]:
        """Names of the markers of a handle's file."""
        return [path.name for path in self.base_path.rglob(f"{handle.file_name}.marker.*")]


@pytest.fixture
def pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pending:
    contexts: list[WriteContext] = []
    make = HoodieTable.write_context

    def keep(table: HoodieTable, *arguments: Any) -> WriteContext:
        contexts.append(make(table, *arguments))
        return contexts[-1]

    monkeypatch.setattr(HoodieTable, "write_context", keep)
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, {"hoodie.auto.commit": "false"})
    client = HoodieLocalWriteClient(config)
    for fares in ({"a": 1, "b": 2, "c": 3}, {"z": 0}):
        instant_time = client.start_commit()
        rows = [{"id": key, "fare": fare, "part": "p" if len(fares) > 1 else "q"} for key, fare in fares.items()]
        result = client.upsert(rows, instant_time)
        if len(fares) > 1:
            client.commit(instant_time, result)
    return Pending(client=client, base_path=tmp_path / "t", context=contexts[-1])


def incoming(context: WriteContext, *rows: tuple[str, int | None, int | None], delete: bool = False) -> pa.Table:
    """Rows of (key, fare, position)."""
    keys, fares, positions = ([row[place] for row in rows] for place in range(3))
    values = {"id": pa.array(keys), "fare": pa.array(fares, pa.int64()), "part": pa.array(["p"] * len(rows))}
    operation = RecordOperation.DELETE if delete else RecordOperation.UPSERT
    return pa.table(
        {name: values[name] for name in context.records.schema.names}
        | {
            RECORD_KEY: pa.array(keys),
            OPERATION: pa.array([int(operation)] * len(rows), reserved_field(OPERATION).type),
            CURRENT_ROW_POSITION: pa.array(positions, pa.int64()),
        }
    )


def create(pending: Pending) -> HoodieBaseFileHandle:
    return HoodieCreateHandle(pending.context, "p", "new-0", TASK)


def merge(pending: Pending, kind: type[HoodieMergeHandle] = HoodieMergeHandle) -> HoodieBaseFileHandle:
    (file_slice,) = HoodieTableMetaClient.load(str(pending.base_path)).view().latest_file_slices("p")
    return kind(pending.context, file_slice, TASK)


def concat(pending: Pending) -> HoodieBaseFileHandle:
    return merge(pending, HoodieConcatHandle)


def rewrite(pending: Pending) -> HoodieBaseFileHandle:
    return HoodieRewriteHandle(pending.context, "p", "new-0", TASK)


def rewrite_of_group(pending: Pending) -> HoodieBaseFileHandle:
    stat = HoodieWriteStat("old-0", "p", prev_commit="20240101000000000", num_inserts=5, num_update_writes=6)
    return HoodieRewriteHandle(pending.context, "p", "old-0", TASK, WriteStatus("old-0", "p", stat))


def write(handle: HoodieBaseFileHandle) -> None:
    """A row that is new, or two that a file had."""
    if isinstance(handle, HoodieRewriteHandle):
        columns = [pa.array(["x", "y"])] * len(META_COLUMNS)
        values = {"id": pa.array(["x", "y"]), "fare": pa.array([1, 2]), "part": pa.array(["p", "p"])}
        columns += [values[name] for name in handle.context.records.schema.names]
        handle.write(pa.RecordBatch.from_arrays(columns, names=handle.context.schema_with_meta.names))
    elif isinstance(handle, HoodieCreateHandle):
        handle.write(incoming(handle.context, ("x", 1, None)).combine_chunks().to_batches()[0])
    else:
        handle.write(incoming(handle.context, ("x", 1, None)))


every_handle = pytest.mark.parametrize("make", [create, merge, concat, rewrite, rewrite_of_group])
Make = Callable[[Pending], HoodieBaseFileHandle]


@every_handle
def test_a_finished_file_has_its_marker_and_a_status(pending: Pending, make: Make) -> None:
    handle = make(pending)
    with handle:
        write(handle)
        status = handle.close()
    table = pq.read_table(handle.path)
    assert status.stat.path == f"p/{handle.file_name}"
    assert (status.stat.num_writes, status.stat.file_size_bytes) == (table.num_rows, Path(handle.path).stat().st_size)
    assert set(table["_hoodie_file_name"].to_pylist()) == {handle.file_name}
    assert pending.markers(handle) == [f"{handle.file_name}.marker.{handle.io_type}"]


@every_handle
def test_the_marker_is_there_before_the_file_and_stays_where_that_fails(
    pending: Pending, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def refuse(storage: LocalStorage, path: str) -> pa.NativeFile:
        seen.append((path, pending.markers(handle)))
        raise HoodieIOException("the disk is full")

    handle = make(pending)
    monkeypatch.setattr(LocalStorage, "open_output_stream", refuse)
    with pytest.raises(HoodieIOException, match="disk is full"), handle:
        pass
    marker = f"{handle.file_name}.marker.{handle.io_type}"
    assert seen == [(handle.path, [marker])]
    assert pending.markers(handle) == [marker]


@every_handle
def test_without_a_marker_no_file_is_begun(pending: Pending, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(storage: LocalStorage, path: str, content: bytes) -> bool:
        assert ".marker." in path
        raise HoodieIOException("no markers today")

    handle = make(pending)
    monkeypatch.setattr(LocalStorage, "create_if_absent", refuse)
    with pytest.raises(HoodieIOException, match="no markers today"), handle:
        pass
    assert not Path(handle.path).exists()
    with pytest.raises(HoodieException, match="is not open"):
        _ = handle.writer


@every_handle
def test_a_handle_that_is_left_by_an_error_leaves_the_marker_by_which_a_rollback_finds_the_file(
    pending: Pending, make: Make
) -> None:
    handle = make(pending)
    with pytest.raises(EOFError), handle:
        write(handle)
        raise EOFError
    # Unfinished: on object stores there is no file then.
    assert not Path(handle.path).exists() or Path(handle.path).read_bytes()[-4:] != b"PAR1"
    assert len(pending.markers(handle)) == 1
    pending.client.rollback(pending.context.instant_time)
    assert not Path(handle.path).exists()


@every_handle
def test_a_file_that_is_finished_after_the_rollback_is_deleted(pending: Pending, make: Make) -> None:
    handle = make(pending)
    with handle:
        write(handle)
        pending.client.rollback(pending.context.instant_time)
        # On an object store the file is there from its end on.
        Path(handle.path).touch()
        with pytest.raises(HoodieCommitException, match="came too late.*nothing of it counts"):
            handle.close()
    assert not Path(handle.path).exists()
    assert pending.markers(handle) == []


@every_handle
def test_after_the_rollback_none_is_begun(pending: Pending, make: Make) -> None:
    handle = make(pending)
    pending.client.rollback(pending.context.instant_time)
    with pytest.raises(HoodieCommitException, match="was not written"), handle:
        pass
    assert not Path(handle.path).exists()
    assert pending.markers(handle) == []


def test_a_merge_replaces_deletes_keeps_and_appends(pending: Pending) -> None:
    older = pending.older
    handle = merge(pending)
    rows = incoming(pending.context, ("a", 9, 0), ("b", 2, 1), ("x", 4, None))
    gone = incoming(pending.context, ("c", None, 2), ("never there", None, None), delete=True)
    with handle:
        assert handle.write(pa.concat_tables([rows, gone])).num_rows == 0
        status = handle.close()
    table = pq.read_table(handle.path)
    assert dict(zip(table["id"].to_pylist(), table["fare"].to_pylist(), strict=True)) == {"a": 9, "b": 2, "x": 4}
    stat = status.stat
    assert (stat.num_writes, stat.num_update_writes, stat.num_deletes, stat.num_inserts) == (3, 2, 1, 1)
    assert (status.without_effect.unchanged, status.without_effect.unmatched_deletes) == (1, 1)
    assert older.name.endswith(f"_{stat.prev_commit}.parquet")
    assert handle.io_type is IOType.MERGE
    assert older.exists()


def test_a_concatenation_keeps_every_record_of_the_old_file(pending: Pending) -> None:
    handle = concat(pending)
    with handle:
        handle.write(incoming(pending.context, ("a", 9, None)))
        status = handle.close()
    assert sorted(pq.read_table(handle.path)["fare"].to_pylist()) == [1, 2, 3, 9]
    assert (status.stat.num_inserts, status.stat.num_update_writes) == (1, 0)


def test_a_position_behind_the_old_file_is_refused(pending: Pending) -> None:
    handle = merge(pending)
    with pytest.raises(HoodieException, match="has 3 rows, but the index found a key at row 3"), handle:
        handle.write(incoming(pending.context, ("d", 9, 3)))


@pytest.mark.parametrize("make", [create, merge])
def test_a_null_where_the_table_has_none_is_reported_and_the_stored_record_stays(pending: Pending, make: Make) -> None:
    schema = pa.schema([field.with_nullable(field.name != "fare") for field in pending.context.records.schema])
    records = attrs.evolve(pending.context.records, schema=schema)
    handle = make(attrs.evolve(pending, context=attrs.evolve(pending.context, records=records)))
    rows = incoming(pending.context, ("a", None, 0), ("x", 1, None))
    with handle:
        handle.write(rows if isinstance(handle, HoodieMergeHandle) else rows.combine_chunks().to_batches()[0])
        status = handle.close()
    assert status.errors == (RecordError("a", "p", "column fare is null, but the table says it never is"),)
    assert (status.error_count, status.stat.total_write_errors) == (1, 1)
    stored = pq.read_table(handle.path)
    fares = dict(zip(stored[RECORD_KEY_META].to_pylist(), stored["fare"].to_pylist(), strict=True))
    assert fares == ({"a": 1, "b": 2, "c": 3, "x": 1} if make is merge else {"x": 1})


def test_a_rewritten_file_stands_for_what_was_written_before(pending: Pending) -> None:
    handle = rewrite_of_group(pending)
    with handle:
        write(handle)
        stat = handle.close().stat
    assert (stat.prev_commit, stat.num_inserts, stat.num_update_writes) == ("20240101000000000", 7, 6)
    first = rewrite(pending)
    with first:
        write(first)
        assert first.close().stat.prev_commit == NULL_COMMIT
