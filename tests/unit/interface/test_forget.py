"""`Table.forget`: no byte of a person is left below the table's folder, whatever dies on the way."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    HoodieSavepointException,
    HoodieWriteConflictException,
)
from hoodie.interface.erasure import TableErasure
from hoodie.io import merge_handle
from tests.support.hookable_storage import Faults, FaultyStorage, faults_of, run_with_faults, use_for_local_files
from tests.support.stored_files import files_with

PERSON = "zoe.schmidt"
CONDITIONS: dict[str, Any] = {
    "key": f"id = '{PERSON}'",
    "partition": f"city = '{PERSON}'",
    "column": f"name = '{PERSON}'",
    "nested field": pc.field("home", "street") == PERSON,
}
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
OTHERS = 5


def row(number: int, ts: int = 1) -> dict[str, Any]:
    street = f"street {number}"
    return {"id": f"k{number}", "city": "oslo", "name": f"n{number}", "home": {"street": street}, "ts": ts}


def person(place: str, ts: int = 1) -> dict[str, Any]:
    changed = {"key": {"id": PERSON}, "partition": {"city": PERSON}, "column": {"name": PERSON}}
    return {**row(9, ts), **changed.get(place, {"home": {"street": PERSON}})}


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> HoodieTableType:
    """Both types of tables."""
    made: HoodieTableType = request.param
    return made


def make(path: Path, place: str, table_type: str, table_version: int, commits: int = 3, **properties: Any) -> Table:
    """A table in which a person is in several versions of files, in log files, and in the metadata table."""
    table = Table.create(
        path, [*map(row, range(OTHERS)), person(place)],
        record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=table_type, table_version=table_version, properties={**INDEXES, **properties},
    )  # fmt: skip
    if table_version > 6:
        table.create_index("name")
    for ts in range(2, commits + 1):
        table.upsert([row(1, ts), person(place, ts)])
    return table


@pytest.mark.parametrize("place", CONDITIONS)
def test_no_byte_of_a_person_is_left(
    tmp_path: Path, place: str, table_type: HoodieTableType, table_version: int
) -> None:
    table = make(tmp_path / "t", place, table_type, table_version)
    held = files_with(PERSON, tmp_path)
    assert any(name.endswith(".parquet") for name in held)
    # The metadata table has no statistics of nested fields.
    assert any("/metadata/" in name for name in held) == (place != "nested field")
    kept = sorted(r["id"] for r in table.read().to_pylist() if r != person(place, 3))
    done = table.forget(CONDITIONS[place], yes=True)
    assert files_with(PERSON, tmp_path) == set()
    assert (done.rows, done.is_dry_run, done.erased_partitions) == (
        1, False, (PERSON,) if place == "partition" else ()
    )  # fmt: skip
    assert sorted(table.read("id")["id"].to_pylist()) == kept and len(kept) == OTHERS
    wanted = {"files", "record_index", "column_stats"} | ({"secondary_index_name"} if table_version > 6 else set())
    assert wanted <= {index.name for index in table.indexes()}
    assert table.validate().is_right
    assert table.read(where="id = 'k1'")["ts"].to_pylist() == [3]
    table.upsert([row(1, 9), row(7)])
    assert table.count() == OTHERS + 1


def test_a_plan_changes_nothing_and_tells_what_stops_working(tmp_path: Path, table_type: HoodieTableType) -> None:
    table = make(tmp_path / "t", "column", table_type, 9)
    first = table.history()[-1].instant_time
    saved = table.savepoint().instant_time
    (tmp_path / "t" / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    plan = table.forget(CONDITIONS["column"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    [partition] = plan.partitions
    assert (partition.partition_path, partition.rows, partition.file_groups) == ("oslo", 1, 1)
    assert (plan.savepoints, plan.given_up, plan.others, plan.earliest_commit) == ((saved,), (), ("notes.txt",), first)
    assert f"give_up_savepoints=['{saved}']" in str(plan)
    with pytest.raises(HoodieSavepointException, match="nothing was changed: savepoint"):
        table.forget(CONDITIONS["column"], yes=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    table.forget(CONDITIONS["column"], yes=True, give_up_savepoints=[saved])
    assert files_with(PERSON, tmp_path) == set() and table.savepoints() == []
    with pytest.raises(HoodieIOException):
        table.as_of(first).read()


def test_old_deletes_are_erased_too(tmp_path: Path, table_type: HoodieTableType) -> None:
    table = make(tmp_path / "t", "key", table_type, 9)
    table.upsert([{**person("key", 5), "_hoodie_is_deleted": True}])
    assert table.count() == OTHERS and files_with(PERSON, tmp_path)
    done = table.forget(CONDITIONS["key"], yes=True)
    assert (done.rows, done.instant_time) == (0, None)
    assert files_with(PERSON, tmp_path) == set() and table.count() == OTHERS


@pytest.mark.table_version(9)
def test_footers_of_earlier_releases_are_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", "key", "COPY_ON_WRITE", 9, commits=1)
    with monkeypatch.context() as patch:
        # So a delete was before: it continued the range of the older file.
        patch.setattr(merge_handle.HoodieMergeHandle, "_renews_range", False)
        table.delete(where=CONDITIONS["key"])
    newest = max((tmp_path / "t" / "oslo").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    assert PERSON.encode() in newest.read_bytes()
    before = sorted(table.read().to_pylist(), key=lambda each: str(each["id"]))
    assert table.forget(CONDITIONS["key"], yes=True).rows == 0
    assert files_with(PERSON, tmp_path) == set()
    assert sorted(table.read().to_pylist(), key=lambda each: str(each["id"])) == before


def test_keys_whose_order_is_another_in_java_are_erased(tmp_path: Path) -> None:
    rows = [{"id": key, "ts": 1} for key in ("a", "\uffee", PERSON, "\U0001f600")]
    table = Table.create(tmp_path / "t", rows, record_key_fields="id", ordering_fields="ts")
    for key in (PERSON, "a", "\U0001f600"):
        table.forget(f"id = '{key}'", yes=True)
    assert table.read("id").to_pylist() == [{"id": "\uffee"}]
    assert files_with(PERSON, tmp_path) | files_with("\U0001f600", tmp_path) == set()


@pytest.mark.parametrize("look", ["_partitions_without_rows", "_rows_of_stale_footers"])
def test_rows_that_another_writer_commits_beside_it_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    table = Table.create(
        tmp_path / "t", [{**person("key"), "city": "rome"}, person("key"), row(1)],
        record_key_fields="id", partition_fields="city", ordering_fields="ts",
    )  # fmt: skip
    table.upsert([{**person("key"), "_hoodie_is_deleted": True}])
    new = [{**row(1), "name": "new"}, {**row(2), "city": "rome"}]
    looking, is_first = getattr(TableErasure, look), True

    def beside(erasure: TableErasure, *given: Any) -> Any:
        nonlocal is_first
        found = looking(erasure, *given)
        if is_first:
            is_first = False
            table.upsert(new)
        return found

    monkeypatch.setattr(TableErasure, look, beside)
    # Another object stands for another process: the calls of one wait for each other.
    Table(table.path, properties={"hoodie.write.lock.wait_time_ms": "60000"}).forget(CONDITIONS["key"], yes=True)
    assert not is_first
    found = {(one["id"], one["city"]): one["name"] for one in table.read().to_pylist()}
    assert found == {("k1", "oslo"): "new", ("k2", "rome"): "n2"}
    is_first, new[:] = True, [person("key")]
    with pytest.raises(HoodieConfigException, match="no savepoint 123"):
        table.forget(CONDITIONS["key"], yes=True, give_up_savepoints=["123"])
    with pytest.raises(HoodieWriteConflictException, match="stored 1 row that the condition matches"):
        Table(table.path).forget(CONDITIONS["key"], yes=True)
    table.forget(CONDITIONS["key"], yes=True)
    assert files_with(PERSON, tmp_path) == set()


def test_what_prevents_an_erasure_is_told_first(tmp_path: Path, table_type: HoodieTableType) -> None:
    table = make(tmp_path / "t", "column", table_type, 9)
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.auto.commit": "false"}
    config = HoodieWriteConfig.from_properties(table.path, lazy)
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert([person("column", 7)], left)
        with pytest.raises(HoodieWriteConflictException, match="a writer is at work on"):
            table.forget(CONDITIONS["column"], yes=True)
        client.rollback(left)
    parquet = next((tmp_path / "t" / "oslo").glob("*.parquet"))
    orphan = parquet.with_name(re.sub(r"\d{17}", "20200101010101010", parquet.name))
    shutil.copy(parquet, orphan)
    with pytest.raises(HoodieWriteConflictException, match="that no commit explains"):
        table.forget(CONDITIONS["column"], yes=True)
    orphan.unlink()
    damaged = tmp_path / "t" / ".hoodie" / ".damaged" / "oslo" / "file"
    damaged.parent.mkdir(parents=True)
    damaged.write_text(PERSON)
    with pytest.raises(HoodieWriteConflictException, match=".damaged holds copies of rows"):
        table.forget(CONDITIONS["column"], yes=True)
    shutil.rmtree(damaged.parents[1])
    table.forget(CONDITIONS["column"], yes=True)
    assert files_with(PERSON, tmp_path) == set()


def test_pending_compactions_are_carried_out_first(tmp_path: Path, table_version: int) -> None:
    table = make(tmp_path / "t", "column", "MERGE_ON_READ", table_version)
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table.path, {})) as client:
        planned = client.schedule_compaction()
    assert planned is not None
    table.forget(CONDITIONS["column"], yes=True)
    assert files_with(PERSON, tmp_path) == set() and table.count() == OTHERS


@pytest.mark.table_version(9)
def test_conditions_are_needed(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "column", "COPY_ON_WRITE", 9)
    for where in (None, []):
        with pytest.raises(HoodieConfigException, match="give a condition"):
            table.forget(where)
    with pytest.raises(HoodieConfigException, match="give a list of instants"):
        table.forget("id = 'a'", give_up_savepoints="20260101010101010")
    virtual = Table.create(
        tmp_path / "v",
        pa.schema([("id", pa.string())]),
        record_key_fields="id",
        properties={"hoodie.populate.meta.fields": "false"},
    )
    with pytest.raises(HoodieNotSupportedException, match="has no meta columns"):
        virtual.forget("id = 'a'")


SMALL_TIMELINE = {
    "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1,
    "hoodie.timeline.compaction.batch.size": 3,
}  # fmt: skip


def test_partitions_are_taken_out_of_the_archive(
    tmp_path: Path, table_type: HoodieTableType, table_version: int
) -> None:
    table = make(tmp_path / "t", "partition", table_type, table_version, commits=12, **SMALL_TIMELINE)
    table.rollback(table.upsert([person("partition", 20)]).instant_time)
    folder = "archived" if table_version == 6 else "timeline/history"
    assert any(folder in name for name in files_with(PERSON, tmp_path)), sorted(files_with(PERSON, tmp_path))
    before = HoodieTableMetaClient.load(table.path).archived_timeline.completed_writes().times
    table.forget(CONDITIONS["partition"], yes=True)
    assert files_with(PERSON, tmp_path) == set()
    archive = HoodieTableMetaClient.load(table.path).archived_timeline
    assert archive.completed_writes().times == before
    partitions = [set(archive.read_commit_metadata(i).partition_to_write_stats) for i in archive.completed_writes()]
    assert {"oslo"} in partitions and all(each <= {"oslo"} for each in partitions)
    for ts in range(30, 38):
        table.upsert([row(1, ts)])
    assert table.count() == OTHERS
    # The same again: files of the archive take the names that are free now.
    table.upsert([person("partition", 50)])
    for ts in range(60, 68):
        table.upsert([row(1, ts), person("partition", ts)])
    table.forget(CONDITIONS["partition"], yes=True)
    assert files_with(PERSON, tmp_path) == set() and table.count() == OTHERS


PARTS = 16


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("place", ["key", "partition"])
@pytest.mark.one_in(4)
def test_a_death_at_any_call_leaves_the_table_whole_and_a_second_call_finishes(
    tmp_path: Path,
    place: str,
    table_type: HoodieTableType,
    table_version: int,
    part: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The moments are shared out to the parts."""
    use_for_local_files(monkeypatch, FaultyStorage)
    archived = SMALL_TIMELINE if place == "partition" else {}
    make(tmp_path / "template", place, table_type, table_version, 8 if archived else 2, **archived)
    kept = sorted(row(number)["id"] for number in range(OTHERS))

    def attempt(name: str, faults: Faults) -> tuple[Table, BaseException | None]:
        path = tmp_path / name
        shutil.copytree(tmp_path / "template", path)
        table = Table(path)
        return table, run_with_faults(faults, lambda: table.forget(CONDITIONS[place], yes=True))

    healthy = Faults()
    table, error = attempt("healthy", healthy)
    assert error is None and files_with(PERSON, tmp_path / "healthy") == set()
    moments = list(faults_of(healthy.calls, dies=True))
    for number, how in moments[part::PARTS]:
        faults = Faults(number, how)
        table, error = attempt(f"{number}_{how}", faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        try:
            assert faults.fired and error is not None
            for heartbeat in Path(table.path).glob(".hoodie/.heartbeat/*"):
                # A process that is dead signals no life any more.
                os.utime(heartbeat, (0, 0))
            assert sorted(set(table.read("id")["id"].to_pylist()) - {PERSON, "k9"}) == kept
            table.forget(CONDITIONS[place], yes=True)
            assert files_with(PERSON, Path(table.path)) == set()
            assert sorted(table.read("id")["id"].to_pylist()) == kept
        except (AssertionError, HoodieException) as problem:
            problem.add_note(what)
            raise
        shutil.rmtree(table.path)
    assert moments[part::PARTS]
