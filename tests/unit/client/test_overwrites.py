"""Mode overwrite: one commit where the table stays what it is, else a new table that takes the place of the old one."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieReadClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.client.mode_write import FrameOfColumns, ModeWrite, SaveMode
from hoodie.client.table_replacement import TableReplacement
from hoodie.common.fs.pending_overwrite import OverwritePhase, PendingOverwrite
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieIOException,
    HoodieKeyException,
    HoodiePendingOverwriteException,
    HoodieWriteConflictException,
    InvalidTableException,
    TableExistsException,
)
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.io.parquet.column_ranges import load_metadata
from hoodie.io.parquet.footer_tail import read_key_range
from hoodie.io.parquet.parquet_fragments import ParquetFragment
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.query.planner import plan_of
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import TableQuery
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.missing_files import check_files
from hoodie.table.repair.table_properties import rebuild_table_properties
from hoodie.table.table_overwrite import TableOverwrite, read_pending
from tests.support.hookable_storage import Call, Faults, FaultyStorage, faults_of, hooked, use_for_local_files
from tests.support.object_store_servers import Bucket, FaultyProxy
from tests.support.pairs import each_pair
from tests.support.table_builder import instants, read_rows, rows, sorted_rows
from tests.unit.client.test_object_store_tables import ONCE, Ends, contents

pytestmark = pytest.mark.metadata_table

TABLE: dict[str, Any] = {"record_key_fields": "id", "partition_fields": "region", "ordering_fields": "ts"}
OLD = [("a", "x", 1), ("b", "x", 2), ("c", "y", 3)]
NEW = [("b", "x", 2), ("c", "y", 3)]
KEYS_CHANGE = {"record_key_fields": "id,region"}
PARTITIONS_CHANGE = {"hoodie.datasource.write.partitionpath.field": ""}


def make(path: str | Path, table_type: str = "COPY_ON_WRITE", **arguments: Any) -> str:
    """A table with the rows `OLD`; of a merge-on-read table one row is in a log file."""
    properties = {"hoodie.datasource.write.table.type": table_type, "hoodie.index.bloom.num_entries": 100}
    given = {**TABLE, "properties": properties, **arguments}
    hoodie.write_table(rows(("a", "x", 0), *OLD[1:]), str(path), **given)
    hoodie.write_table(rows(OLD[0]), str(path), **given)
    return str(path)


def overwrite(path: str, data: Any, **arguments: Any) -> Any:
    properties = {"hoodie.index.bloom.num_entries": 100, **arguments.pop("properties", {})}
    return hoodie.write_table(data, path, mode="overwrite", properties=properties, **arguments)


def operations(path: str) -> list[str | None]:
    return [row.operation for row in HoodieTableMetaClient.load(path).history() if row.operation is not None]


def read_by_hudi_rs(path: str) -> list[tuple[Any, ...]]:
    batches = HudiTableBuilder.from_base_uri(path).build().read()
    return sorted_rows(pa.Table.from_batches(batches).select(["id", "region", "ts"]))


def lazy_scan(path: str) -> Any:
    return hoodie.scan_table(path, filters=[("ts", ">", 1)])


def dataset(path: str) -> Any:
    return hoodie.dataset(path).filter(pa.compute.field("ts") > 1)


def generator(path: str) -> Any:
    return (batch for batch in hoodie.scan_table(path, filters=[("ts", ">", 1)]))


class OtherStream:
    """An object of another library that gives a C stream; errors cross it as texts."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return lazy_scan(self._path).__arrow_c_stream__(requested_schema)


# --- the first way ----------------------------------------------------------------------------------------------------


@each_pair(table_type=["COPY_ON_WRITE", "MERGE_ON_READ"], read=[lazy_scan, dataset, generator])
def test_a_table_is_overwritten_by_what_is_read_from_it(
    tmp_path: Path, table_type: str, read: Callable[[str], Any]
) -> None:
    path = make(tmp_path / "t", table_type)
    earlier = HoodieTableMetaClient.load(path).history()[-1].instant_time
    result = overwrite(path, read(path))
    assert (result.operation.value, result.is_committed) == ("INSERT_OVERWRITE_TABLE", True)
    assert read_rows(path) == NEW
    assert operations(path) == ["UPSERT", "UPSERT", "INSERT_OVERWRITE_TABLE"], "the history stays"
    assert sorted_rows(hoodie.read_table(path, as_of=earlier, columns=["id", "region", "ts"])) == OLD
    assert hoodie.metadata.validate(path).is_right


@pytest.mark.parametrize("operation", ["insert_overwrite_table", "insert_overwrite"])
def test_operations_that_replace_rows_may_read_them(tmp_path: Path, operation: str) -> None:
    path = make(tmp_path / "t")
    hoodie.write_table(lazy_scan(path), path, operation=operation)
    assert read_rows(path) == NEW


def test_old_rows_are_read_until_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    seen = []

    def look(name: str, where: str) -> None:
        if name in ("create", "start", "finish"):
            seen.append(read_rows(path))

    with hooked(monkeypatch, look):
        overwrite(path, rows(*NEW))
    assert seen[0] == OLD
    assert all(found in (OLD, NEW) for found in seen)


def test_an_overwrite_takes_what_append_takes(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    wider = rows(*NEW).append_column("fare", pa.array([1.0, 2.0]))
    assert overwrite(path, wider, table_name="t", **TABLE).operation.value == "INSERT_OVERWRITE_TABLE"
    assert hoodie.read_table(path)["fare"].to_pylist() == [1.0, 2.0]
    # A column that is missing becomes null only if the options say so, as in mode append.
    nulls = {"hoodie.write.set.null.for.missing.columns": "true"}
    overwrite(path, rows(*NEW), properties=nulls)
    assert hoodie.read_table(path)["fare"].to_pylist() == [None, None]
    # Marks of deletes are never demanded.
    marked = wider.append_column("_hoodie_is_deleted", pa.array([False, False]))
    overwrite(path, marked)
    overwrite(path, wider)
    assert operations(path)[2:] == ["INSERT_OVERWRITE_TABLE"] * 4


@pytest.mark.parametrize(("operation", "expected"), [("upsert", 1), ("insert", 2), ("bulk_insert", 2)])
def test_rows_of_one_key_are_combined_as_in_a_new_table(tmp_path: Path, operation: str, expected: int) -> None:
    path = make(tmp_path / "t")
    overwrite(path, rows(("a", "x", 5), ("a", "x", 6)), operation=operation)
    assert [row[2] for row in read_rows(path)] == [6] if expected == 1 else [5, 6]


def test_modes_say_what_happens_to_a_table_that_is_there(tmp_path: Path) -> None:
    for mode in ("errorifexists", "IGNORE", "error", "overwrite"):
        assert hoodie.write_table(rows(*NEW), str(tmp_path / mode), mode=mode, **TABLE) is not None
    path = make(tmp_path / "t")
    with pytest.raises(TableExistsException, match="give mode 'append'"):
        hoodie.write_table(rows(*NEW), path, mode="error")
    assert hoodie.write_table(rows(*NEW), path, mode="ignore") is None
    with pytest.raises(HoodieConfigException, match="mode 'upsert' is unknown"):
        hoodie.write_table(rows(*NEW), path, mode="upsert")
    with pytest.raises(HoodieConfigException, match="use mode 'append' for a delete"):
        hoodie.write_table(rows(*NEW), path, mode="overwrite", operation="delete")
    assert (read_rows(path), len(instants(path))) == (OLD, 2)


# --- the second way ---------------------------------------------------------------------------------------------------


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "keys": ({"record_key_fields": "id,region"}, {"record_key_fields": ("id", "region"), "table_name": "t"}),
    "partitions": ({"properties": PARTITIONS_CHANGE}, {"record_key_fields": ("id",), "partition_fields": ()}),
    "name": ({"table_name": "other"}, {"partition_fields": ("region",), "ordering_fields": ("ts",)}),
    "version": ({}, {}),
}
"""What the arguments change, and what the new table says of itself."""


@each_pair(table_type=["COPY_ON_WRITE", "MERGE_ON_READ"], read=[lazy_scan, dataset, generator], kind=list(CHANGES))
def test_a_new_table_takes_the_place_of_the_one_that_it_is_read_from(
    tmp_path: Path,
    table_type: str,
    read: Callable[[str], Any],
    kind: str,
    table_version: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    change, described = CHANGES[kind]
    if kind == "version":
        other = 9 if table_version == 6 else 6
        change = {"properties": {"hoodie.write.table.version": str(other)}}
        described = {"table_version": other, "table_name": "t"}
    path = make(tmp_path / "t", table_type)
    with caplog.at_level(logging.WARNING, logger="hoodie.client.mode_write"):
        result = overwrite(path, read(path), **change)
    assert "the table is replaced by a new one, and its history goes" in caplog.text
    assert (result.operation.value, result.is_committed) == ("UPSERT", True)
    config = HoodieTableMetaClient.load(path).table_config
    assert {name: getattr(config, name) for name in described} == described
    assert config.table_type == table_type, "what the options leave out stays"
    assert (read_rows(path), operations(path)) == (NEW, ["UPSERT"])
    assert read_by_hudi_rs(path) == NEW
    hidden = {".aux", ".schema", ".temp", ".locks", ".index_defs", "archived", "metadata", "timeline"}
    names = [name for name in os.listdir(f"{path}/.hoodie") if not name.startswith(("hoodie.properties", "2"))]
    assert set(names) <= hidden
    assert not os.path.exists(f"{path}/.hoodie/hoodie.properties.guard")
    hoodie.write_table(rows(("d", "z", 9)), path)
    assert read_rows(path) == [*NEW, ("d", "z", 9)]
    if config.metadata_partitions:
        assert hoodie.metadata.validate(path).is_right


def test_columns_that_append_would_refuse_make_a_new_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    other = pa.table({"id": [1, 2], "region": ["x", "z"], "ts": ["p", "q"]})
    overwrite(path, other)
    assert hoodie.read_table(path, columns=["id", "region", "ts"]).sort_by("id").to_pylist() == other.to_pylist()
    assert HoodieTableMetaClient.load(path).table_config.partition_fields == ("region",)
    # insert_overwrite_table never makes a new one.
    with pytest.raises(HoodieException, match="does not fit the table's schema"):
        overwrite(path, rows(*NEW), operation="insert_overwrite_table")


def test_a_frame_without_the_key_column_changes_nothing(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with pytest.raises(
        HoodieException, match=f"^nothing was changed at {path}: the record key field 'id' is not a col"
    ):
        overwrite(path, pa.table({"x": [1]}))
    assert read_rows(path) == OLD


@pytest.mark.parametrize("read", [lazy_scan, dataset, generator, OtherStream])
def test_a_damaged_file_of_the_input_is_named_by_hoodies_own_error(tmp_path: Path, read: Callable[[str], Any]) -> None:
    path, other = tmp_path / "t", str(tmp_path / "u")
    hoodie.write_table(rows(*OLD), str(path), **TABLE)
    for file in path.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            content = file.read_bytes()
            file.write_bytes(content[:4] + b"\xff" * 60 + content[64:])
    for write in (partial(overwrite, path=str(path)), partial(hoodie.write_table, base_path=other, **TABLE)):
        with pytest.raises(HoodieCorruptedDataException, match="is cut short or damaged"):
            write(data=read(str(path)))


def test_nothing_changes_before_the_new_table_is_complete(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    before = sorted(file for file in Path(path).rglob("*") if ".locks" not in str(file))

    def bad() -> Any:
        yield from rows(*NEW).to_batches()
        raise RuntimeError("the source is gone")

    for data, error in ((rows((None, "x", 1)), HoodieKeyException), (bad(), RuntimeError)):
        with pytest.raises(error) as raised:
            overwrite(path, data, table_name="other")
        assert f"that should replace {path}, which is as it was" in raised.value.__notes__[-1]
    with pytest.raises(HoodieKeyException, match="'uuid' is not a column"):
        overwrite(path, rows(*NEW), record_key_fields="uuid")
    assert sorted(file for file in Path(path).rglob("*") if ".locks" not in str(file)) == before
    assert read_rows(path) == OLD


def test_what_is_not_the_tables_stays(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    checkpoint = Path(path, "_checkpoint", "offsets", "0")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("x")
    stray = Path(path, "x", "stray.parquet")
    stray.touch()
    overwrite(path, rows(*NEW), table_name="other")
    assert checkpoint.read_text() == "x"
    assert not stray.exists()
    assert sorted(os.listdir(path)) == [".hoodie", "_checkpoint", "x", "y"]


@pytest.mark.parametrize("partitioned", [True, False])
def test_files_of_somebody_else_stay_and_nothing_of_the_old_table_does(tmp_path: Path, partitioned: bool) -> None:
    path = make(tmp_path / "t", **({} if partitioned else {"partition_fields": None}))
    others = ["notes.txt", "docs/readme.md", "docs/deep/.hidden", "_logs/1.log", "mixed/notes.txt"]
    for name in others:
        Path(path, name).parent.mkdir(exist_ok=True, parents=True)
        Path(path, name).write_text(name)
    (base, *_) = (file for file in Path(path).rglob("*.parquet") if ".hoodie" not in file.parts)
    strays = ["mixed/2024/x", "docs", "_logs", "."]
    for folder in strays:
        Path(path, folder).mkdir(exist_ok=True, parents=True)
        shutil.copy(base, Path(path, folder, f"{'0' * 8}-{base.name[9:]}"))
    partition = Path(path, "mixed", "2024")
    (partition / ".hoodie_partition_metadata").touch()
    (partition / "x" / "stray.txt").touch()
    overwrite(path, rows(*NEW), table_name="other")
    assert read_rows(path) == read_by_hudi_rs(path) == NEW
    kept = {str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file()}
    kept = {name for name in kept if not name.startswith((".hoodie", "x/", "y/"))}
    assert {name for name in kept if "/" in name or not name.endswith(".parquet")} == {*others}
    assert not any("0" * 8 in name for name in kept)
    assert not partition.exists()


@pytest.mark.parametrize("folder", ["x/other", "other", "_other"])
def test_another_table_in_the_folder_is_not_deleted(tmp_path: Path, folder: str) -> None:
    path = make(tmp_path / "t")
    nested = make(Path(path, folder), partition_fields=None)
    with pytest.raises(HoodieConfigException, match="another table is in its folder") as raised:
        overwrite(path, rows(*NEW), table_name="other")
    assert nested in str(raised.value)
    assert read_pending(LocalStorage(path), path) is None
    assert not Path(path, ".hoodie", ".overwrite").exists()
    assert read_rows(nested) == OLD
    shutil.move(nested, tmp_path / "moved")
    assert read_rows(path) == OLD
    overwrite(path, rows(*NEW), table_name="other")
    assert (read_rows(path), read_rows(str(tmp_path / "moved"))) == (NEW, OLD)


def test_a_link_to_a_table_is_the_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    link = tmp_path / "link"
    link.symlink_to(path)
    overwrite(str(link), lazy_scan(path), **KEYS_CHANGE)
    overwrite(f"{path}/../t", lazy_scan(str(link)), table_name="again")
    assert read_rows(link) == read_rows(path) == NEW


def test_rows_that_others_commit_meanwhile_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    done = False

    def commit(name: str, where: str) -> None:
        nonlocal done
        # The last moment: the table is about to name its overwrite.
        if name == "swap" and not done:
            done = True
            unlocked = {"hoodie.write.lock.single.writer.enable": "false"}
            hoodie.write_table(rows(("n", "x", 1)), path, properties=unlocked)

    single = {"hoodie.write.lock.single.writer.enable": "false"}
    with hooked(monkeypatch, commit), pytest.raises(HoodieWriteConflictException, match="another writer changed"):
        overwrite(path, rows(*NEW), properties=single, **KEYS_CHANGE)
    assert done
    assert read_rows(path) == [*OLD, ("n", "x", 1)]
    assert not os.path.exists(f"{path}/.hoodie/.overwrite")


def test_a_write_that_is_under_way_is_not_completed(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    config = HoodieWriteConfig.from_properties(path, {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        instant_time = client.start_commit()
        result = client.upsert(rows(("n", "x", 1)), instant_time)
        overwrite(path, rows(*NEW), table_name="other")
        with pytest.raises(HoodieException):
            client.commit(instant_time, result)
    assert read_rows(path) == NEW
    assert read_by_hudi_rs(path) == NEW


def test_living_writers_are_waited_for(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    heartbeat = Path(path, ".hoodie", ".heartbeat", "20301231000000000")
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    with pytest.raises(HoodieHeartbeatException, match="living heartbeats"):
        overwrite(path, rows(*NEW), table_name="other")
    assert read_rows(path) == OLD
    assert not os.path.exists(f"{path}/.hoodie/.overwrite")


class ListeningCallback(HoodieWriteCommitCallback):
    """Keeps instant, table and folder of each commit."""

    commits: ClassVar[list[tuple[str, str, str]]] = []

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        self.commits.append((message.commit_time, message.table_name, message.base_path))


def test_the_callback_hears_of_the_new_table_in_its_place(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    properties = {
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.class": f"{__name__}.ListeningCallback",
    }
    ListeningCallback.commits.clear()
    result = overwrite(path, rows(*NEW), table_name="other", properties=properties)
    assert ListeningCallback.commits == [(result.instant_time, "other", path)]


# --- deaths -----------------------------------------------------------------------------------------------------------


class SweptStorage(FaultyStorage):
    """Every call may fail, also the steps of the properties file."""

    __slots__ = ()

    def around(self, call: Call) -> Any:
        if call.name == "swap":
            return self.faults.step(f"swap {call.path}", call.apply, changes=True)
        return super().around(call)


def run_with(faults: Faults, work: Callable[[], Any]) -> BaseException | None:
    FaultyStorage.faults = faults
    try:
        work()
    except HoodieException as error:
        return error
    finally:
        FaultyStorage.faults = Faults()
    return None


def check_whole(path: str, options: Any = None) -> str:
    """The old rows, the new ones, or a refusal whose calls give them."""

    def read() -> list[tuple[Any, ...]]:
        return read_rows(path, storage_options=options)

    try:
        found = read()
    except HoodiePendingOverwriteException as error:
        assert "HoodieTableMetaClient.finish_overwrite" in str(error)
        if "undo_overwrite" not in str(error):
            with pytest.raises(HoodiePendingOverwriteException):
                HoodieTableMetaClient.undo_overwrite(path, options)
            HoodieTableMetaClient.finish_overwrite(path, options)
            assert read() == NEW
            return "finished"
        if options is None:
            shutil.copytree(path, f"{path}-undone")
            HoodieTableMetaClient.undo_overwrite(f"{path}-undone")
            assert read_rows(f"{path}-undone") == OLD
            hoodie.write_table(rows(("n", "x", 1)), f"{path}-undone")
            assert read_rows(f"{path}-undone") == [*OLD, ("n", "x", 1)]
            shutil.rmtree(f"{path}-undone")
            HoodieTableMetaClient.finish_overwrite(path)
            assert read() == NEW
        else:
            HoodieTableMetaClient.undo_overwrite(path, options)
            assert read() == OLD
        return "either"
    assert found in (OLD, NEW)
    return "old" if found == OLD else "new"


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["dies", "fails"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.soak)])
def test_the_old_rows_or_the_new_ones_are_readable_after_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool, table_type: str
) -> None:
    stored = make(tmp_path / "stored", table_type)
    use_for_local_files(monkeypatch, SweptStorage)

    def work(path: str) -> Callable[[], Any]:
        return lambda: overwrite(path, lazy_scan(path), **KEYS_CHANGE)

    counted = Faults()
    path = str(tmp_path / "t0")
    shutil.copytree(stored, path)
    assert run_with(counted, work(path)) is None
    assert read_rows(path) == NEW
    seen = set()
    # While the new table is written, the old one is as it was: some calls tell.
    announced = next(number for number, (name, *_) in enumerate(counted.calls, 1) if name.startswith("swap"))
    for number, how in faults_of(counted.calls, dies=dies):
        if number < announced - 10 and number % 20:
            continue
        path = str(tmp_path / "t")
        shutil.copytree(stored, path)
        error = run_with(Faults(number, how, dies), work(path))
        outcome = check_whole(path)
        if error is None:
            assert outcome == "new", (number, how)
        seen.add(outcome)
        hoodie.write_table(rows(("n", "x", 1)), path)
        expected = OLD if outcome == "old" else NEW
        assert read_rows(path) == [*expected, ("n", "x", 1)], (number, how)
        if number % 7 == 0:
            assert hoodie.metadata.validate(path).is_right
            assert read_by_hudi_rs(path) == [*expected, ("n", "x", 1)]
        shutil.rmtree(path)
    assert seen == ({"old", "new", "finished", "either"} if dies else {"old", "new", "finished"})


def test_a_finish_that_dies_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = make(tmp_path / "stored")
    use_for_local_files(monkeypatch, SweptStorage)
    swaps = 0

    def stop(name: str, where: str) -> None:
        nonlocal swaps
        swaps += name == "swap"
        if swaps == 3:
            raise HoodieIOException("the process is gone")

    with hooked(monkeypatch, stop), pytest.raises(HoodieIOException):
        overwrite(stored, lazy_scan(stored), **KEYS_CHANGE)
    use_for_local_files(monkeypatch, SweptStorage)
    with pytest.raises(HoodiePendingOverwriteException):
        read_rows(stored)
    counted = Faults()
    shutil.copytree(stored, tmp_path / "t0")
    assert run_with(counted, lambda: HoodieTableMetaClient.finish_overwrite(str(tmp_path / "t0"))) is None
    for number, how in faults_of(counted.calls, dies=True):
        path = str(tmp_path / "t")
        shutil.copytree(stored, path)
        run_with(Faults(number, how), lambda path=path: HoodieTableMetaClient.finish_overwrite(path))
        assert check_whole(path) in ("finished", "new"), (number, how)
        assert read_rows(path) == NEW
        shutil.rmtree(path)


def test_a_pending_overwrite_is_refused_by_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    with HoodieReadClient(path) as earlier, hooked(monkeypatch, _die_at_swap(2)):
        with pytest.raises(HoodieIOException) as raised:
            overwrite(path, lazy_scan(path), **KEYS_CHANGE)
        assert "could not be undone" in raised.value.__notes__[-1]
    refused: list[Callable[[], Any]] = [
        lambda: hoodie.read_table(path),
        lambda: hoodie.dataset(path),
        lambda: HoodieTableMetaClient.load(path),
        lambda: hoodie.write_table(rows(*NEW), path),
        lambda: overwrite(path, rows(*NEW), **KEYS_CHANGE),
        lambda: hoodie.write_table(rows(*NEW), path, mode="errorifexists"),
        lambda: HoodieTableMetaClient.downgrade(path, 8),
        lambda: rebuild_table_properties(path),
        lambda: HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path)).clean(),
    ]
    for call in refused:
        with pytest.raises(HoodiePendingOverwriteException, match=r"finish_overwrite\('.*undo_overwrite\('"):
            call()
    with pytest.raises(TableExistsException):
        HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id")
    with pytest.raises(Exception, match="(?i)name|type|properties|config"):
        read_by_hudi_rs(path)
    assert HoodieTableMetaClient.undo_overwrite(path).base_path == path
    assert read_rows(path) == OLD
    for call in (HoodieTableMetaClient.undo_overwrite, HoodieTableMetaClient.finish_overwrite):
        with pytest.raises(HoodieConfigException, match="no overwrite of .* is pending"):
            call(path)
    del earlier


def _die_at_swap(number: int) -> Callable[[str, str], None]:
    swaps = 0
    dead = False

    def stop(name: str, where: str) -> None:
        nonlocal swaps, dead
        swaps += name == "swap"
        dead = dead or swaps == number
        if dead:
            raise HoodieIOException("the process is gone")

    return stop


def test_a_process_that_comes_late_deletes_nothing_of_the_new_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    late: list[tuple[TableOverwrite, PendingOverwrite, bytes]] = []

    def keep(self: TableOverwrite, pending: PendingOverwrite, content: bytes) -> None:
        pending = attrs.evolve(pending, phase=OverwritePhase.DELETING)
        late.append((self, pending, self._put(pending, content)))
        raise HoodieIOException("this process stands still")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(HoodieIOException):
        patch.setattr(TableOverwrite, "finish", keep)
        overwrite(path, lazy_scan(path), **KEYS_CHANGE)
    HoodieTableMetaClient.finish_overwrite(path)
    hoodie.write_table(rows(("n", "z", 1)), path)
    overwrite_of_it, pending, content = late[0]
    with pytest.raises(HoodieException):
        overwrite_of_it.finish(pending, content)
    with pytest.raises(HoodieWriteConflictException, match="nothing more is done here"):
        overwrite_of_it.delete_old(content)
    assert read_rows(path) == [*NEW, ("n", "z", 1)]


def test_new_tables_that_dead_processes_left_go_after_a_day(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    for name, age in (("20200101000000000", 25 * 3600), ("20200102000000000", 60)):
        file = Path(path, ".hoodie", ".overwrite", name, ".hoodie", "hoodie.properties")
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (file.stat().st_mtime - age,) * 2)
    TableOverwrite.begin(HoodieTableMetaClient.load(path).storage, path)
    assert os.listdir(f"{path}/.hoodie/.overwrite") == ["20200102000000000"]
    assert read_rows(path) == read_by_hudi_rs(path) == OLD


# --- object stores ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8))
def test_the_old_rows_or_the_new_ones_are_readable_after_deaths_on_s3(
    s3_bucket: Bucket, s3_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    options = s3_bucket.options()
    make(f"s3://{s3_bucket.name}/counted", storage_options=options)
    snapshot = contents(s3_bucket)

    def work(path: str) -> None:
        given = s3_bucket.options(s3_proxy.endpoint)
        scan = hoodie.scan_table(path, filters=[("ts", ">", 1)], storage_options=options)
        overwrite(path, scan, storage_options=given, properties=dict(ONCE), **KEYS_CHANGE)

    began: list[int] = []
    take_place = TableOverwrite.take_place

    def noted(self: TableOverwrite, *arguments: Any) -> None:
        began.append(len(s3_proxy.requests))
        take_place(self, *arguments)

    put, puts = TableOverwrite._put, dict[OverwritePhase, tuple[int, int]]()

    def noted_put(self: TableOverwrite, pending: PendingOverwrite, expected: bytes) -> bytes:
        before = len(s3_proxy.requests)
        content = put(self, pending, expected)
        puts[pending.phase] = before, len(s3_proxy.requests)
        return content

    with monkeypatch.context() as counting:
        counting.setattr(TableOverwrite, "take_place", noted)
        counting.setattr(TableOverwrite, "_put", noted_put)
        work(f"s3://{s3_bucket.name}/counted")
    requests = len(s3_proxy.requests)
    assert read_rows(f"s3://{s3_bucket.name}/counted", storage_options=options) == NEW
    seen = set()
    # Few deaths while the new table is written, and many after. The cases share them.
    numbers = {*[*range(1, began[0], 60), *range(began[0], requests + 1, 4)][first::8]}
    # Each case has one before the announcement, one of the few between it and the first deletion, and one at the end.
    undoable = range(puts[OverwritePhase.WRITTEN][1] + 1, puts[OverwritePhase.DELETING][0] + 1)
    numbers |= {began[0] + 1, undoable[first % len(undoable)], requests}
    for number in sorted(numbers):
        path = f"s3://{s3_bucket.name}/t{number}"
        for key, content in snapshot.items():
            s3_bucket.put_unasked(key.replace("counted/", f"t{number}/", 1), content)
        s3_proxy.fault = Ends(number, "drop" if number % 2 else "lose")
        with contextlib.suppress(HoodieException):
            work(path)
        # The lock of the dead process expires.
        for key in s3_bucket.list_keys():
            if key.startswith(f"t{number}/") and "/.locks/" in key:
                s3_bucket.client.delete_object(Bucket=s3_bucket.name, Key=key)
        outcome = check_whole(path, options)
        seen.add(outcome)
        hoodie.write_table(rows(("n", "x", 1)), path, storage_options=options)
        expected = OLD if outcome in ("old", "either") else NEW
        assert read_rows(path, storage_options=options) == [*expected, ("n", "x", 1)], number
    assert seen == {"old", "either", "finished", "new"}


def test_replacements_are_named_by_their_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    found = PendingOverwrite("20260101000000000", OverwritePhase.WRITTEN, {"hoodie.table.name": "t"})
    assert PendingOverwrite.in_file(found.to_bytes()) == found
    assert found.to_bytes() != found.to_bytes()
    assert PendingOverwrite.in_file(Path(path, ".hoodie", "hoodie.properties").read_bytes()) is None
    assert TableReplacement.__module__ == "hoodie.client.table_replacement"


OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}


def test_a_lock_that_is_a_file_of_the_table_is_not_deleted_while_it_is_held(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    overwrite(path, rows(*NEW), record_key_fields="id,region", properties=OCC)
    assert read_rows(path) == NEW
    assert not (tmp_path / "t/.hoodie/lock").exists()


def test_a_lock_among_the_data_is_refused_before_anything_is_deleted(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    inside = {**OCC, "hoodie.write.lock.filesystem.path": f"{path}/locks"}
    with pytest.raises(HoodieConfigException, match=r"lock.filesystem.path = .*/t/locks is in the folder"):
        overwrite(path, rows(*NEW), record_key_fields="id,region", properties=inside)
    assert read_rows(path) == OLD


def test_new_rows_stay_where_others_write_the_properties_while_old_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    old, delete = properties.read_bytes(), TableOverwrite.delete_old

    def overtaken(self: TableOverwrite, content: bytes) -> None:
        properties.write_bytes(old)
        delete(self, content)

    monkeypatch.setattr(TableOverwrite, "delete_old", overtaken)
    with pytest.raises(HoodieWriteConflictException) as caught:
        overwrite(path, rows(*NEW), record_key_fields="id,region")
    (folder,) = (tmp_path / "t/.hoodie/.overwrite").iterdir()
    assert f"the new table is kept in {folder}" in "".join(caught.value.__notes__)
    assert read_rows(str(folder)) == NEW


# --- readers and writers beside it ------------------------------------------------------------------------------------


def replace_keys(path: str) -> None:
    overwrite(path, rows(*NEW), **KEYS_CHANGE)


@each_pair(table_type=["COPY_ON_WRITE", "MERGE_ON_READ"], version=["6", "8", "9"], metadata=["true", "false"])
def test_a_reader_that_began_earlier_misses_no_row_while_old_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str, version: str, metadata: str
) -> None:
    """Partition x has two file groups, and no other commit tells what is in it."""
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": metadata}
    given = {**TABLE, "properties": {"hoodie.datasource.write.table.type": table_type, **options}}
    path = str(tmp_path / "t")
    for operation, row in (
        ("bulk_insert", ("a", "x", 0)),
        ("bulk_insert", OLD[1]),
        ("upsert", OLD[0]),
        ("bulk_insert", OLD[2]),
    ):
        hoodie.write_table(rows(row), path, operation=operation, **given)
    query = TableQuery()
    earlier = TableSnapshot.load(path, listing_choice=query.listing_choice)
    assert len(plan_of(earlier, query).slices) == 3
    seen = []

    def plan(name: str, where: str) -> None:
        is_of_new_table = f"{path}/.hoodie/.overwrite/" in where
        if name not in ("delete", "rmdir", "move", "swap") or (is_of_new_table and name != "move"):
            return
        known = [attrs.evolve(earlier)]
        load = partial(TableSnapshot.load, path, listing_choice=query.listing_choice)
        try:
            table, found = plan_until_complete(
                lambda: known.pop() if known else load(), lambda table: (table, plan_of(table, query))
            )
        except HoodiePendingOverwriteException:
            seen.append("pending")
        else:
            is_old = table.active_timeline.times == earlier.active_timeline.times
            assert len(found.slices) == (3 if is_old else 2), (name, where)
            seen.append("old" if is_old else "new")

    with hooked(monkeypatch, plan):
        overwrite(path, rows(*OLD), **KEYS_CHANGE, properties=options)
    assert set(seen) == {"old", "pending", "new"}


def test_a_reader_that_began_earlier_reads_the_new_table_after_it(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    known = [TableSnapshot.load(path)]
    replace_keys(path)
    table, slices = plan_until_complete(
        lambda: known.pop() if known else TableSnapshot.load(path),
        lambda table: (table, table.view().latest_file_slices("y")),
    )
    assert table.active_timeline.times == TableSnapshot.load(path).active_timeline.times
    assert len(slices) == 1


def test_an_error_of_a_plan_is_that_of_the_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    before = TableSnapshot.load(path)

    def plan(table: TableSnapshot) -> None:
        raise HoodieIOException("a file is not there")

    with pytest.raises(HoodieIOException, match="a file is not there"):
        plan_until_complete(lambda: before, plan)
    with hooked(monkeypatch, _die_at_swap(2)), pytest.raises(HoodieIOException):
        overwrite(path, lazy_scan(path), **KEYS_CHANGE)
    with pytest.raises(HoodiePendingOverwriteException) as raised:
        plan_until_complete(lambda: before, plan)
    assert str(raised.value.__cause__) == "a file is not there"


def test_a_read_of_files_that_were_deleted_tells_of_the_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t", "MERGE_ON_READ")
    before = TableSnapshot.load(path)
    before.load_avro_schema()
    (logs, *_), bases = sorted(Path(path).rglob(".*.log.*")), sorted(Path(path).rglob("*.parquet"))
    planned = hoodie.dataset(path)
    with hooked(monkeypatch, _die_at_swap(3)), pytest.raises(HoodieIOException):
        overwrite(path, lazy_scan(path), **KEYS_CHANGE)
    data = [file for file in bases if "/.hoodie/" not in str(file)]
    assert not any(file.exists() for file in (logs, *data))
    reads: list[Callable[[], Any]] = [
        planned.to_table,
        lambda: read_key_range(before.storage, str(data[0])),
        lambda: load_metadata(before.storage, str(data[0])),
        lambda: HoodieParquetReader(before.storage, str(data[0])).open(),
        lambda: ParquetFragment.open(before.storage, str(data[0])),
        lambda: open_log_file(before.storage, str(logs)).__enter__(),
        lambda: check_files(before, before.view(), ["x", "y"]),
    ]
    for read in reads:
        with pytest.raises(HoodiePendingOverwriteException, match="is being overwritten"):
            read()
    HoodieTableMetaClient.finish_overwrite(path)
    with pytest.raises(HoodieException) as raised:
        read_key_range(before.storage, str(data[0]))
    assert not isinstance(raised.value, HoodiePendingOverwriteException)


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite"])
def test_rows_that_come_after_the_first_look_are_not_replaced(tmp_path: Path, operation: str) -> None:
    path = make(tmp_path / "t")
    config = HoodieWriteConfig.from_properties(path, {})
    known = HoodieTableMetaClient.load(path).active_timeline.completed_writes().times
    mode = SaveMode.OVERWRITE if operation == "upsert" else SaveMode.APPEND

    class Late(HoodieLocalWriteClient):
        def start_commit(self, operation: Any = None) -> str:
            hoodie.write_table(rows(("n", "x", 1)), path)
            return super().start_commit(operation)

    data = rows(*NEW)
    writing = ModeWrite(config, mode, operation, Late, known)
    with pytest.raises(HoodieWriteConflictException, match="while the rows that replace others were computed"):
        writing.run(FrameOfColumns(lambda: data.schema, data))
    assert read_rows(path) == [*OLD, ("n", "x", 1)]


def test_what_only_rewrites_rows_may_come_meanwhile(tmp_path: Path) -> None:
    path = make(tmp_path / "t", "MERGE_ON_READ")
    config = HoodieWriteConfig.from_properties(path, {})
    known = HoodieTableMetaClient.load(path).active_timeline.completed_writes().times
    with HoodieLocalWriteClient(
        HoodieWriteConfig.from_properties(path, {"hoodie.compact.inline.max.delta.commits": "1"})
    ) as client:
        assert client.schedule_compaction() is not None
        assert client.compact() is not None
    assert HoodieTableMetaClient.load(path).active_timeline.completed_writes().times > known
    data = rows(*NEW)
    writing = ModeWrite(config, SaveMode.OVERWRITE, "upsert", HoodieLocalWriteClient, known)
    assert writing.run(FrameOfColumns(lambda: data.schema, data)) is not None
    assert read_rows(path) == NEW


def test_what_options_leave_out_is_that_of_the_table_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t")
    run = TableReplacement.run

    def late(self: TableReplacement, data: Any) -> Any:
        monkeypatch.setattr(TableReplacement, "run", run)
        overwrite(path, rows(*OLD), properties=PARTITIONS_CHANGE)
        return self.run(data)

    monkeypatch.setattr(TableReplacement, "run", late)
    overwrite(path, rows(*NEW), table_name="other")
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_name, config.partition_fields) == ("other", ())
    assert read_rows(path) == NEW


def test_a_new_table_that_lacks_a_file_takes_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    take_place = TableOverwrite.take_place

    def without_a_file(self: TableOverwrite, *arguments: Any) -> None:
        next(iter(Path(self.folder, "x").glob("*.parquet"))).unlink()
        take_place(self, *arguments)

    monkeypatch.setattr(TableOverwrite, "take_place", without_a_file)
    with pytest.raises(HoodieIOException, match=f"{path} is not replaced, because the new table is not whole"):
        replace_keys(path)
    assert read_rows(path) == OLD
    assert not os.path.exists(f"{path}/.hoodie/.overwrite")


def test_a_finish_without_the_new_table_names_the_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    with hooked(monkeypatch, _die_at_swap(2)), pytest.raises(HoodieIOException):
        overwrite(path, lazy_scan(path), **KEYS_CHANGE)
    shutil.rmtree(f"{path}/.hoodie/.overwrite")
    with pytest.raises(InvalidTableException, match=r"undo_overwrite\('.*'\) keeps the old one"):
        HoodieTableMetaClient.finish_overwrite(path)
    HoodieTableMetaClient.undo_overwrite(path)
    assert read_rows(path) == OLD


def test_a_process_notices_another_one_that_finishes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t")
    for number in range(600):
        Path(path, "x", f"stray-{number}.txt").touch()
    delete = LocalStorage.delete_file

    def stop(self: TableOverwrite, content: bytes) -> None:
        raise KeyboardInterrupt

    def beside_another_one(self: LocalStorage, file: str) -> bool:
        """At the first file of many, another process says that it goes on, and has done nothing yet."""
        if "stray" in file:
            monkeypatch.setattr(LocalStorage, "delete_file", delete)
            found = read_pending(self, path)
            assert found is not None
            assert found[0].phase is OverwritePhase.DELETING
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(TableOverwrite, "delete_old", stop)
                TableOverwrite(self, path, found[0].time).finish(*found)
        return delete(self, file)

    monkeypatch.setattr(LocalStorage, "delete_file", beside_another_one)
    with pytest.raises(HoodieWriteConflictException, match="another process finishes or undoes"):
        replace_keys(path)
    assert len(list(Path(path, "x").glob("stray*"))) > 300, "it looks again before the next files"
    HoodieTableMetaClient.finish_overwrite(path)
    assert read_rows(path) == NEW


def test_a_refusal_says_what_to_give_where_writers_have_a_lock_provider(tmp_path: Path) -> None:
    for phase in OverwritePhase:
        told = str(PendingOverwrite("20260101000000000", phase, {}).refusal(str(tmp_path)))
        given = (
            "it by properties" if phase is OverwritePhase.DROPPING else "their HoodieWriteConfig instead of the path"
        )
        assert told.endswith(f"(where writers have a lock provider, give {given})")
