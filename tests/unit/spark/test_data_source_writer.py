"""Writes of a data source as PySpark's processes run them: each gets what the one before pickled. No session runs."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieWriteConflictException,
    TableNotFoundException,
)
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.table_builder import init_table, instants, local_client, read_rows, rows

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")

from pyspark.sql import datasource
from pyspark.sql import types as st
from pyspark.sql.datasource import CaseInsensitiveDict

from hoodie.client import stream_writer
from hoodie.client.streaming_checkpoint import QUERY_ID_KEY
from hoodie.spark import data_source_writer
from pyspark_hoodie import DefaultSource
from tests.support.streams import batches, keys, state

OPERATION = "hoodie.datasource.write.operation"
LIMIT = "hoodie.datasource.write.staged.max.bytes"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
NEW_TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
SCHEMA = st.StructType(
    [
        st.StructField("id", st.StringType()),
        st.StructField("region", st.StringType()),
        st.StructField("ts", st.LongType()),
    ]
)


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def source_of(path: str | Path, options: dict[str, Any]) -> DefaultSource:
    return DefaultSource(
        CaseInsensitiveDict({"path": str(path), **{key: str(value) for key, value in options.items()}})
    )


class Write:
    """A write of a DataFrame: the planning process has run."""

    def __init__(self, path: str | Path, overwrite: bool = False, **options: Any) -> None:
        self.writer = sent(source_of(path, options).writer(SCHEMA, overwrite))
        self.messages: list[Any] = []

    def task(self, *entries: tuple[Any, ...], counts: bool = True) -> None:
        """One attempt of a task; Spark hears of it if it counts."""
        some = [row for row in rows(*entries).to_batches()]
        message = sent(sent(self.writer).write(iter(some)))
        if counts:
            self.messages.append(message)

    def commit(self) -> None:
        sent(self.writer).commit(sent(self.messages))

    def abort(self) -> None:
        sent(self.writer).abort([*sent(self.messages), None])


def write(path: str | Path, *tasks: list[tuple[Any, ...]], overwrite: bool = False, **options: Any) -> None:
    running = Write(path, overwrite, **options)
    for entries in tasks:
        running.task(*entries)
    running.commit()


def write_batch(
    path: str | Path,
    number: int,
    *entries: tuple[Any, ...],
    overwrite: bool = False,
    query: str | None = "q",
    **options: Any,
) -> None:
    """One batch of a stream."""
    source = source_of(path, options)
    message = sent(source.streamWriter(SCHEMA, overwrite)).write(iter(rows(*entries).to_batches()))
    message.query_id = query
    sent(source).streamWriter(SCHEMA, overwrite).commit(sent([message]), number)


def staged(path: str | Path) -> list[str]:
    """Files that wait for the commit of a write."""
    return [str(file) for file in Path(path).rglob("*.arrow")] + [
        str(folder) for folder in Path(path).rglob("staged-*")
    ]


@pytest.fixture
def path(tmp_path: Path) -> str:
    base_path = init_table(tmp_path / "t")
    with local_client(base_path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    return base_path


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_rows_of_all_tasks_are_one_commit(path: str, operation: str) -> None:
    before = len(instants(path))
    write(path, [("c", "x", 2)], [], [("d", "z", 2), ("e", "x", 2)], **{OPERATION: operation})
    assert keys(path) == ["a", "b", "c", "d", "e"]
    assert len({instant for instant, *_ in instants(path)[before:]}) == 1
    assert staged(path) == []


def test_upsert_is_the_default_and_deletes_take_keys(path: str) -> None:
    write(path, [("a", "x", 2), ("c", "x", 1)])
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 1), ("c", "x", 1)]
    write(path, [("b", "y", 9), ("nobody", "x", 9)], **{OPERATION: "delete"})
    assert keys(path) == ["a", "c"]
    write(path, [("any", "x", 9)], **{OPERATION: "delete_partition"})
    assert keys(path) == []


def test_the_first_write_creates_the_table(tmp_path: Path) -> None:
    path = tmp_path / "new"
    write(path, [("a", "x", 1), ("a", "x", 2)], [("b", "y", 1)], **NEW_TABLE)
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 1)]
    assert sorted(child.name for child in path.iterdir()) == [".hoodie", "x", "y"]


def test_options_are_taken_in_any_case(tmp_path: Path) -> None:
    write(tmp_path / "new", [("a", "x", 1)], **{key.upper(): value for key, value in NEW_TABLE.items()})
    assert keys(str(tmp_path / "new")) == ["a"]


def test_extra_metadata_is_found_by_a_prefix_in_any_case(path: str) -> None:
    # Spark hands over the names in lower case.
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": "_Source"}
    write(path, [("c", "x", 1)], **prefix, **{"_sourceoffset": "Seven"})
    timeline = TableSnapshot.load(path).active_timeline
    newest = timeline.completed_writes().last_instant
    assert newest is not None
    assert timeline.read_commit_metadata(newest).extra_metadata["_sourceoffset"] == "Seven"


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite_table"])
def test_overwrite_replaces_all_rows_and_keeps_the_history(path: str, operation: str) -> None:
    first = instants(path)
    running = Write(path, True, **{OPERATION: operation})
    running.task(("c", "x", 1), ("c", "x", 2))
    assert keys(path) == ["a", "b"]
    running.commit()
    combined = [("c", "x", 2)]
    assert read_rows(path) == (combined if operation == "upsert" else [("c", "x", 1), *combined])
    assert instants(path)[: len(first)] == first


@pytest.mark.parametrize(
    ("options", "overwrite", "message"),
    [
        ({OPERATION: "delete"}, True, "mode 'overwrite' with a delete: use mode 'append'"),
        ({OPERATION: "insert_overwrite"}, True, "replaces all rows of the table, and .* those of some partitions"),
        ({OPERATION: "upsort"}, False, "hoodie.datasource.write.operation = 'upsort'"),
        ({"hoodie.table.nam": "t"}, False, "nearest: hoodie.table.name"),
        ({"hoodie.table.name": "other"}, False, "hoodie.table.name"),
        ({"filter": "ts > 1"}, False, "the option filter is for reads"),
        ({"columns": "id"}, False, "the option columns is for reads"),
        ({"hoodie.auto.commit": "false"}, False, "hoodie.auto.commit"),
        ({"path": ""}, False, "the table's folder is missing: give it to save"),
        (
            {
                "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
                "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
            },
            False,
            "has a process of its own; give a provider that works between processes",
        ),
    ],
)
def test_wrong_options_are_refused_before_a_task_runs(
    path: str, options: dict[str, str], overwrite: bool, message: str
) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        source_of(path, options).writer(SCHEMA, overwrite)


def test_what_makes_no_table_is_refused_before_a_task_runs(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match=r"needs hoodie.table.name: give it in the options; where no"):
        Write(tmp_path / "new")
    with pytest.raises(TableNotFoundException, match="no table at .* to delete from"):
        Write(tmp_path / "new", **NEW_TABLE, **{OPERATION: "delete"})
    variant = st.StructType([*SCHEMA.fields, st.StructField("gap", st.DayTimeIntervalType())])
    with pytest.raises(HoodieSchemaException, match="column 'gap'"):
        source_of(tmp_path / "new", NEW_TABLE).writer(variant, False)
    assert not (tmp_path / "new").exists()


def test_only_attempts_that_spark_counts_are_written(path: str) -> None:
    running = Write(path, **{OPERATION: "insert"})
    running.task(("c", "x", 1), counts=False)
    running.task(("c", "x", 1))
    running.task(("d", "x", 1), counts=False)
    running.commit()
    assert keys(path) == ["a", "b", "c"]
    assert staged(path) == []


def test_a_task_that_fails_leaves_no_file(path: str) -> None:
    running = Write(path)

    def some() -> Any:
        yield from rows(("c", "x", 1)).to_batches()
        raise RuntimeError("the task dies")

    with pytest.raises(RuntimeError, match="the task dies"):
        running.writer.write(some())
    running.task(("d", "x", 1))
    running.abort()
    assert keys(path) == ["a", "b"] and staged(path) == []


def test_a_new_table_that_was_not_written_leaves_nothing(tmp_path: Path) -> None:
    running = Write(tmp_path / "new", **NEW_TABLE)
    running.task(("a", "x", 1))
    assert len(staged(tmp_path / "new")) == 2
    running.abort()
    assert not (tmp_path / "new").exists()
    running = Write(tmp_path / "new", **NEW_TABLE)
    running.task((None, "x", 1))
    with pytest.raises(HoodieException, match="null"):
        running.commit()
    running.abort()
    assert not (tmp_path / "new").exists()


def test_an_abort_after_a_commit_takes_nothing_back(path: str) -> None:
    running = Write(path)
    running.task(("c", "x", 1))
    running.commit()
    running.abort()
    assert keys(path) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("operation", "overwrite"), [("upsert", True), ("insert_overwrite", False), ("delete_partition", False)]
)
def test_rows_that_others_committed_while_tasks_ran_are_not_replaced(
    path: str, operation: str, overwrite: bool
) -> None:
    running = Write(path, overwrite, **{OPERATION: operation})
    running.task(("c", "x", 1))
    write(path, [("d", "x", 1)])
    with pytest.raises(HoodieWriteConflictException, match="nothing was committed.*write again: that is safe"):
        running.commit()
    assert keys(path) == ["a", "b", "d"] and staged(path) == []


def test_a_table_that_others_created_while_tasks_ran_is_not_replaced(tmp_path: Path) -> None:
    running = Write(tmp_path / "new", overwrite=True, **NEW_TABLE)
    running.task(("c", "x", 1))
    write(tmp_path / "new", [("d", "x", 1)], **NEW_TABLE)
    with pytest.raises(HoodieWriteConflictException, match="nothing was committed.*write again: that is safe"):
        running.commit()
    assert keys(str(tmp_path / "new")) == ["d"] and staged(tmp_path / "new") == []


def test_rows_that_others_committed_while_tasks_ran_stay_beside_an_upsert(path: str) -> None:
    running = Write(path)
    running.task(("a", "x", 3))
    write(path, [("a", "x", 2), ("d", "x", 1)])
    running.commit()
    assert read_rows(path) == [("a", "x", 3), ("b", "y", 1), ("d", "x", 1)]


def test_a_commit_without_the_message_of_a_task_is_refused(path: str) -> None:
    running = Write(path)
    running.task(("c", "x", 1))
    running.messages.append(None)
    with pytest.raises(HoodieException, match="a task did not say where its rows are"):
        running.commit()
    running.abort()
    assert keys(path) == ["a", "b"] and staged(path) == []


# --- the limit --------------------------------------------------------------------------------------------------------


def test_too_many_rows_of_one_task_are_refused_with_the_call_that_takes_them(path: str) -> None:
    running = Write(path, **{LIMIT: 100, OPERATION: "insert", "storage.endpoint": "somewhere"})
    entries = [(f"k{number}", "x", 1) for number in range(100)]
    with pytest.raises(HoodieNotSupportedException) as error:
        running.task(*entries)
    call = f"hoodie.spark.write(df, '{path}', {{'{OPERATION}': 'insert'}}, storage_options={{...}}, mode='append')"
    assert str(error.value).endswith(call)
    assert staged(path) == []


def test_too_many_rows_of_all_tasks_are_refused(path: str) -> None:
    running = Write(path, True, **{LIMIT: 100})
    for number in range(20):
        running.task((f"k{number}", "x", 1))
    with pytest.raises(HoodieNotSupportedException) as error:
        running.commit()
    assert str(error.value).endswith(
        f"hoodie.spark.write(df, '{path}', {{'{OPERATION}': 'insert_overwrite_table'}}, mode='overwrite')"
    )
    assert keys(path) == ["a", "b"] and staged(path) == []
    with pytest.raises(HoodieNotSupportedException) as error:
        write_batch(path, 0, *((f"k{number}", "x", 1) for number in range(9)), **{LIMIT: 100})
    assert str(error.value).endswith(f"df.writeStream.foreachBatch(hoodie.spark.foreach_batch_writer('{path}', {{}}))")


@pytest.mark.parametrize(
    ("options", "overwrite", "limit"),
    [
        ({OPERATION: "upsert"}, False, 256 << 20),
        ({OPERATION: "bulk_insert"}, False, None),
        ({OPERATION: "bulk_insert", LIMIT: 5}, False, 5),
        ({OPERATION: "bulk_insert"}, True, 256 << 20),
        ({OPERATION: "bulk_insert", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}, False, 256 << 20),
        ({OPERATION: "bulk_insert", "hoodie.combine.before.insert": "true"}, False, 256 << 20),
        ({OPERATION: "bulk_insert", "hoodie.datasource.insert.dup.policy": "drop"}, False, 256 << 20),
        ({OPERATION: "bulk_insert", "hoodie.write.lock.wait.retry": "true"}, False, 256 << 20),
        ({OPERATION: "bulk_insert", "hoodie.index.type": "BUCKET"}, False, 256 << 20),
    ],
)
def test_only_rows_that_are_read_as_a_stream_have_no_limit(
    tmp_path: Path, options: dict[str, Any], overwrite: bool, limit: int | None
) -> None:
    write = data_source_writer.StagedWrite.of(
        {"path": str(tmp_path / "new"), **NEW_TABLE, **options}, SCHEMA, replaces=overwrite
    )
    assert write.limit == limit


def test_secrets_are_not_shown_in_the_call(path: str) -> None:
    options = {LIMIT: 1, "hoodie.write.commit.callback.http.api.key": "very-secret"}
    with pytest.raises(HoodieNotSupportedException) as error:
        Write(path, **options).task(("c", "x", 1))
    assert "very-secret" not in str(error.value)


# --- crashes and damage -----------------------------------------------------------------------------------------------


def without_rows(file: Path) -> None:
    with pa.ipc.open_stream(file.read_bytes()) as reader:
        schema = reader.schema
    with pa.ipc.new_stream(file, schema):
        pass


def test_staged_files_that_are_gone_or_cut_short_commit_nothing(path: str) -> None:
    for damage, error in (
        (lambda file: file.unlink(), HoodieIOException),
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), HoodieCorruptedDataException),
        (lambda file: file.write_bytes(b""), HoodieCorruptedDataException),
        (without_rows, HoodieCorruptedDataException),
    ):
        running = Write(path)
        running.task(("c", "x", 1))
        running.task(("d", "x", 1))
        damage(Path(running.messages[1].file.path))
        with pytest.raises(error, match="staged .* nothing was committed"):
            running.commit()
        assert keys(path) == ["a", "b"] and staged(path) == []


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of the storage have one order."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})


def deaths(tmp_path: Path, work: Callable[[str], None]) -> Iterator[tuple[str, bool]]:
    """Tables in which a writer died at each call to the storage that changes something; whether an error came of it."""
    first = init_table(tmp_path / "first")
    with local_client(first) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    counted = Faults()
    shutil.copytree(first, tmp_path / "counted")
    assert run_with_faults(counted, lambda: work(str(tmp_path / "counted"))) is None
    places = list(faults_of(counted.calls, dies=True))
    assert len(places) > 10
    for number, how in places:
        path = str(tmp_path / f"{number}-{how}")
        shutil.copytree(first, path)
        error = run_with_faults(Faults(number, how), partial(work, path))
        yield path, error is not None
        shutil.rmtree(path)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("insert", ["a", "b", "c", "d"]),
        pytest.param("upsert", ["a", "b", "c", "d"], marks=pytest.mark.slow),
        pytest.param("insert_overwrite_table", ["c", "d"], marks=pytest.mark.slow),
    ],
)
@pytest.mark.one_in(4)
def test_a_write_whose_process_dies_at_any_call_writes_all_rows_or_none(
    tmp_path: Path, faulty_storage: None, one_core: None, operation: str, expected: list[str]
) -> None:
    for path, failed in deaths(
        tmp_path, lambda path: write(path, [("c", "x", 1)], [("d", "y", 1)], **{OPERATION: operation})
    ):
        found = keys(path)
        assert found == expected or (failed and found == ["a", "b"])
        with local_client(path) as client:
            client.upsert(rows(("e", "x", 1)))
        assert keys(path) == [*found, "e"]


@pytest.mark.one_in(4)
def test_a_batch_whose_process_dies_at_any_call_is_written_once_by_the_next_run(
    tmp_path: Path, faulty_storage: None, one_core: None
) -> None:
    options = {OPERATION: "insert", "hoodie.datasource.write.streaming.retry.count": 1}
    for path, _ in deaths(tmp_path, lambda path: write_batch(path, 0, ("c", "x", 1), **options)):
        write_batch(path, 0, ("c", "x", 1), **options)
        write_batch(path, 1, ("d", "x", 1), **options)
        assert keys(path) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_first_write_leaves_no_folder_whichever_call_of_its_commit_fails(
    tmp_path: Path, faulty_storage: None, one_core: None, is_stream: bool
) -> None:
    options = {**NEW_TABLE, "hoodie.datasource.write.streaming.retry.count": 1}
    folder = tmp_path / "tables"
    folder.mkdir()

    def commit(number: int, faults: Faults) -> BaseException | None:
        source = source_of(folder / str(number), options)
        writer = source.streamWriter(SCHEMA, False) if is_stream else source.writer(SCHEMA, False)
        message = writer.write(iter(rows(("a", "x", 1)).to_batches()))
        arguments = ([message], 0) if is_stream else ([message],)
        return run_with_faults(faults, lambda: writer.commit(*arguments))

    counted = Faults()
    assert commit(0, counted) is None
    failures = 0
    for number in range(1, len(counted.calls) + 1):
        if commit(number, Faults(number, dies=False)) is None:
            assert keys(str(folder / str(number))) == ["a"]
        else:
            failures += 1
            assert not (folder / str(number)).exists(), counted.calls[number - 1]
    assert failures > 30


def test_what_killed_writes_left_is_deleted_a_day_later(path: str, tmp_path: Path) -> None:
    old, young = Write(path), Write(path)
    for running in (old, young):
        running.task(("c", "x", 1))
    day_ago = time.time() - 25 * 3600
    os.utime(old.messages[0].file.path, (day_ago, day_ago))
    write(path, [("d", "x", 1)])
    assert not Path(old.messages[0].file.path).parent.exists()
    young.commit()
    assert keys(path) == ["a", "b", "c", "d"]
    with pytest.raises(HoodieIOException, match="gone"):
        old.commit()


@pytest.mark.parametrize("name", ["staged-1", f"staged-{'0a' * 16}"])
def test_a_partition_with_the_path_of_staged_rows_is_not_deleted(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new"
    write(path, [("a", f".hoodie_staged/{name}", 1)], **NEW_TABLE)
    for file in path.rglob("*"):
        os.utime(file, (1, 1))
    write(path, [("b", "x", 1)])
    assert keys(str(path)) == ["a", "b"]


def test_another_writers_rollbacks_cleans_and_archiving_leave_staged_rows(path: str) -> None:
    running = Write(path, **{OPERATION: "insert"})
    running.task(("c", "x", 1))
    services = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.cleaner.commits.retained": 1,
    }
    for number in range(6):
        with local_client(path, services) as client:
            client.upsert(rows(("a", "x", number)))
            client.start_commit()
    running.commit()
    assert keys(path) == ["a", "b", "c"]


# --- streams ----------------------------------------------------------------------------------------------------------


def test_each_batch_of_a_stream_is_written_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {**NEW_TABLE, OPERATION: "insert", IDENTIFIER: "files"}
    for number in (0, 0, 1, 1):
        write_batch(path, number, (f"k{number}", "x", 1), **options)
    assert keys(path) == ["k0", "k1"]
    assert batches(path) == ['{"files":"0"}', '{"files":"1"}']
    newest = state(path, "files")
    assert newest is not None and newest.query_id == "q"
    assert staged(path) == []


def test_a_batch_is_found_behind_other_writers_and_archived_commits(path: str) -> None:
    options = {OPERATION: "insert"}
    write_batch(path, 0, ("c", "x", 1), **options)
    services = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(path, services) as client:
        for number in range(6):
            client.upsert(rows(("a", "x", number)))
    assert '{"default_single_writer":"0"}' not in batches(path)
    write_batch(path, 0, ("c", "x", 1), **options)
    write_batch(path, 1, ("d", "x", 1), **options)
    assert keys(path) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("number", "query", "options", "message"),
    [
        (1, "other", {}, "another checkpoint folder"),
        (0, "q", {}, "repeats its newest batch only"),
        (5, "other", {IDENTIFIER: "mine"}, None),
        (0, "q", {"_hudi_streaming_sink_checkpoint": "{}"}, "is set for each batch"),
        (
            0,
            "q",
            {
                "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
                "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
            },
            "needs a name that no other query",
        ),
    ],
)
def test_batches_of_other_queries_need_names(
    path: str, number: int, query: str, options: dict[str, str], message: str | None
) -> None:
    for batch in (0, 1):
        write_batch(path, batch, (f"k{batch}", "x", 1))
    if message is None:
        write_batch(path, number, ("n", "x", 1), query=query, **options)
        assert keys(path) == ["a", "b", "k0", "k1", "n"]
        return
    with pytest.raises(HoodieConfigException, match=message):
        write_batch(path, number, ("n", "x", 1), query=query, **options)
    assert keys(path) == ["a", "b", "k0", "k1"] and staged(path) == []


def test_a_second_query_without_a_name_is_refused(path: str) -> None:
    write_batch(path, 0, ("c", "x", 1), **{IDENTIFIER: "first"})
    with pytest.raises(HoodieConfigException, match="is written by the stream 'first' already"):
        write_batch(path, 0, ("d", "x", 1), query="other")
    assert keys(path) == ["a", "b", "c"]


def test_without_the_id_of_the_query_numbers_are_still_checked(path: str) -> None:
    write_batch(path, 0, ("c", "x", 1), query=None)
    assert QUERY_ID_KEY not in str(state(path))
    write_batch(path, 0, ("c", "x", 1), query="q")
    assert keys(path) == ["a", "b", "c"]


def test_complete_mode_replaces_all_rows_with_each_batch(path: str) -> None:
    write_batch(path, 0, ("c", "x", 1), ("d", "y", 1), overwrite=True)
    write_batch(path, 1, ("c", "x", 2), overwrite=True)
    write_batch(path, 1, ("c", "x", 2), overwrite=True)
    assert read_rows(path) == [("c", "x", 2)]
    assert [batch for batch in batches(path) if batch] == [
        '{"default_single_writer":"0"}',
        '{"default_single_writer":"1"}',
    ]
    with pytest.raises(HoodieConfigException, match="outputMode 'complete' replaces all rows"):
        write_batch(path, 2, ("c", "x", 2), overwrite=True, **{OPERATION: "insert_overwrite"})


class Failing:
    """Lets the write of a batch fail some times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, is_late: bool = False) -> None:
        self._real: Callable[..., Any] = data_source_writer.StagedWrite.run
        self._times, self._is_late, self.calls = times, is_late, 0
        monkeypatch.setattr(data_source_writer.StagedWrite, "run", lambda *arguments: self(*arguments))
        self.pauses: list[float] = []
        monkeypatch.setattr(stream_writer.time, "sleep", self._pause)

    def _pause(self, seconds: float) -> None:
        if seconds >= 1:  # Clocks pass in less.
            self.pauses.append(seconds)

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls > self._times:
            return self._real(*arguments)
        if self._is_late:
            self._real(*arguments)
        raise HoodieIOException("no route")


def test_a_batch_that_fails_is_tried_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, times=2)
    write_batch(path, 0, ("c", "x", 1), **{OPERATION: "insert"})
    assert (failing.calls, failing.pauses) == (3, [2.0, 4.0])
    assert keys(path) == ["a", "b", "c"]


def test_a_batch_whose_answer_was_lost_is_not_written_twice(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, times=1, is_late=True)
    write_batch(path, 0, ("c", "x", 1), **{OPERATION: "insert"})
    assert failing.calls == 1
    assert keys(path) == ["a", "b", "c"]


def test_a_batch_that_keeps_failing_ends_the_query_or_is_given_up(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {OPERATION: "insert", "hoodie.datasource.write.streaming.retry.count": 2}
    failing = Failing(monkeypatch, times=4)
    with pytest.raises(HoodieIOException, match="no route"):
        write_batch(path, 0, ("c", "x", 1), **options)
    assert failing.calls == 2 and staged(path) == []
    write_batch(path, 0, ("c", "x", 1), **options, **{"hoodie.datasource.write.streaming.ignore.failed.batch": "true"})
    assert failing.calls == 4 and keys(path) == ["a", "b"]


def test_a_batch_that_another_process_wrote_meanwhile_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_batch(path, 0, ("c", "x", 1), **{OPERATION: "insert"})
    # As if this process had looked before that commit.
    monkeypatch.setattr(stream_writer.StreamWriter, "_is_committed", lambda *arguments: False)
    with pytest.raises(HoodieWriteConflictException, match="was written to .* by another process"):
        write_batch(path, 0, ("c", "x", 1), **{OPERATION: "insert"})
    assert keys(path) == ["a", "b", "c"]


def test_a_stream_is_written_from_batches(tmp_path: Path) -> None:
    # PySpark 4.0 makes rows with local times of the batches for any other class.
    arrow = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceArrowWriter)
    assert isinstance(source_of(tmp_path / "new", NEW_TABLE).streamWriter(SCHEMA, False), arrow)
