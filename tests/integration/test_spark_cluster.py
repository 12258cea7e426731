"""Retries, speculation and lost executors, on a cluster of two hosts.

Whatever happens to attempts: the rows are those of a model, every file on storage is one that a commit names, each
file group has one file of the instant, and no marker is left.
"""

from __future__ import annotations

import inspect
import os
import random
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.metadata
from benchmarks.measure import trips
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, HoodieWriteResult, SparkRDDWriteClient
from hoodie.common.fs.file_names import is_data_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.exception import HoodieException, HoodieWriteException
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.table.action.commit import incoming_keys
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.table import HoodieTable
from tests.integration.faulty_storage import Fault, FaultyContext, FaultyStorage, Moment
from tests.integration.spark_cluster import HOSTS, StandaloneCluster, standalone_cluster
from tests.support.change_data import check_stored_changes, stored_changes, with_change_data
from tests.support.folders import files_below
from tests.support.table_builder import TRIPS, init_table, local_client, rows, write_config
from tests.support.table_invariants import check_table
from tests.support.timeline_files import archive_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROWS = 400
PARTITIONS = 6
WAIT_SECONDS = 120
COLUMNS = ("id", "region", "ts", "fare")
INPUT_FILES = 4

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


class Table:
    """A table, its model, and a client whose tasks have one fault."""

    def __init__(
        self, cluster: StandaloneCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, **arguments: Any
    ) -> None:
        self.cluster = cluster
        self.path = folder / "t"
        self.signals = folder / "signals"
        self.signals.mkdir()
        self.model: dict[str, tuple[str, str, int, float]] = {}
        self._monkeypatch = monkeypatch
        init_table(self.path, **arguments)

    def client(self, **properties: Any) -> SparkRDDWriteClient:
        given = {"hoodie." + key.replace("_", "."): value for key, value in properties.items()}
        return SparkRDDWriteClient(self.cluster.session, HoodieWriteConfig.from_properties(str(self.path), given))

    def rows(self, first: int, last: int, ts: int) -> DataFrame:
        """Rows for the table; the model takes them as if they were written."""
        for number in range(first, last):
            row = (f"k{number}", f"p{number % PARTITIONS}", ts, float(number * ts))
            self.model[row[0]] = row
        return self.cluster.session.range(first, last, 1, 4).selectExpr(
            "concat('k', id) id", f"concat('p', id % {PARTITIONS}) region", f"{ts}L ts", f"double(id * {ts}) fare"
        )

    def in_files(self, given: Sequence[Row], schema: pa.Schema = TRIPS) -> DataFrame:
        """Rows of Parquet files, which a write reads twice instead of keeping them."""
        folder = Path(tempfile.mkdtemp(dir=self.signals.parent))
        for number in range(INPUT_FILES):
            part = [row[: len(schema)] for row in given[number::INPUT_FILES]]
            pq.write_table(rows(*part, schema=schema), folder / f"{number}.parquet")
        return self.cluster.session.read.parquet(str(folder))

    def go_wrong(self, fault: Fault, moment: Moment) -> None:
        """The next write has this fault, in one of its tasks."""
        faulty = FaultyStorage(
            base_path=str(self.path), fault=fault, moment=moment, signals=str(self.signals),
            shuffle_files=self.cluster.local_folders,
        )  # fmt: skip
        make = HoodieTable.write_context

        def make_faulty(table: HoodieTable, *arguments: Any) -> Any:
            return FaultyContext.of(make(table, *arguments), faulty)

        self._monkeypatch.setattr(HoodieTable, "write_context", make_faulty)

    @property
    def has_struck(self) -> bool:
        return (self.signals / "struck").exists()

    def files(self) -> list[str]:
        found = files_below(self.path)
        names = [str(file.relative_to(self.path)) for file in found if ".hoodie" not in file.parts]
        return sorted(name for name in names if is_data_file_name(Path(name).name))

    def commits(self) -> dict[str, HoodieCommitMetadata]:
        timeline = HoodieTableMetaClient.load(str(self.path)).active_timeline
        return {
            instant.requested_time: timeline.read_commit_metadata(instant)
            for instant in timeline.filter_completed_instants()
            if instant.action in COMMIT_ACTIONS
        }

    def check(self) -> None:
        """Everything that the module promises."""
        names = ["id", "region", "ts", "fare"]
        found = sorted(tuple(row.values()) for row in hoodie.read_table(str(self.path), columns=names).to_pylist())
        assert found == sorted(self.model.values())
        self.check_files()

    def check_files(self) -> None:
        commits = self.commits()
        stats = [stat for metadata in commits.values() for stat in metadata.write_stats]
        named = [path for stat in stats for path in (stat.path, *(stat.cdc_stats or ()))]
        assert self.files() == sorted(map(str, named))
        for metadata in commits.values():
            groups = [(stat.partition_path, stat.file_id) for stat in metadata.write_stats]
            assert len(groups) == len(set(groups))
        assert not list(files_below(self.path / ".hoodie" / ".temp"))


@pytest.fixture(autouse=True, params=["own tasks", "shared tasks"])
def shares_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the buckets of a write share two tasks."""
    if request.param == "shared tasks":
        monkeypatch.setattr(HoodieSparkEngineContext, "least_write_tasks", 2)
        return True
    return False


@pytest.fixture
def table(cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    table = Table(cluster, tmp_path, monkeypatch)
    yield table
    (table.signals / "release").touch()


@pytest.fixture
def logs(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_version: int
) -> Iterator[Table]:
    """A merge-on-read table."""
    table = Table(cluster, tmp_path, monkeypatch, table_type="MERGE_ON_READ")
    yield table
    (table.signals / "release").touch()


def wait_until(done: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def write(client: SparkRDDWriteClient, operation: str, frame: DataFrame) -> Any:
    with client:
        return getattr(client, operation)(frame)


@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
def test_a_task_that_dies_after_writing_its_file_is_tried_again(table: Table, operation: str) -> None:
    if operation == "upsert":
        write(table.client(parquet_small_file_limit=0), "bulk_insert", table.rows(0, ROWS, 1))
    table.go_wrong(Fault.TASK_DIES, Moment.FILE_WRITTEN)
    write(table.client(parquet_small_file_limit=0), operation, table.rows(ROWS // 2, 2 * ROWS, 2))
    assert table.has_struck
    table.check()


@pytest.mark.parametrize("fault", [Fault.TASK_DIES, Fault.EXECUTOR_DIES])
def test_a_task_that_is_tried_again_leaves_its_change_data_once(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    table = Table(cluster, tmp_path, monkeypatch, properties=with_change_data())
    write(table.client(), "insert", table.rows(0, ROWS, 1))
    table.go_wrong(fault, Moment.FILE_WRITTEN)
    result = write(table.client(), "upsert", table.rows(ROWS // 2, 2 * ROWS, 2))
    assert table.has_struck
    table.check()
    check_stored_changes(table.path, result.instant_time)
    assert len(stored_changes(table.path, result.instant_time)) == ROWS * 3 // 2


@pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="PySpark 3.5 has no data sources in Python")
def test_rows_of_a_task_of_the_format_that_is_tried_again_are_written_once(table: Table) -> None:
    struck = table.signals / "struck"

    def dies_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        with suppress(FileExistsError):
            struck.touch(exist_ok=False)
            raise RuntimeError("the task dies after its last row")

    frame = table.rows(0, ROWS, 1)
    frame = frame.mapInArrow(dies_once, frame.schema)
    options = {"hoodie.datasource.write.operation": "insert"}
    frame.write.format("hoodie").options(**options).mode("append").save(str(table.path))
    assert table.has_struck
    table.check()


@pytest.mark.parametrize(
    ("fault", "moment"),
    [(Fault.TASK_DIES, Moment.FILE_WRITTEN), (Fault.SHUFFLE_FILES_VANISH, Moment.BEFORE_THE_FILE)],
)
def test_a_first_bulk_insert_with_buckets_brings_each_row_once(table: Table, fault: Fault, moment: Moment) -> None:
    table.go_wrong(fault, moment)
    write(table.client(index_type="BUCKET"), "bulk_insert", table.rows(0, 2 * ROWS, 1))
    assert table.has_struck
    table.check()
    write(table.client(index_type="BUCKET"), "upsert", table.rows(ROWS // 2, 2 * ROWS, 2))
    table.check()


@pytest.mark.parametrize("fault", [Fault.EXECUTOR_DIES, Fault.SHUFFLE_FILES_VANISH])
def test_shuffle_files_lost_while_buckets_are_written_are_made_again(table: Table, fault: Fault) -> None:
    write(table.client(), "insert", table.rows(0, ROWS, 1))
    table.go_wrong(fault, Moment.BEFORE_THE_FILE)
    write(table.client(), "upsert", table.rows(ROWS // 2, 2 * ROWS, 2))
    assert table.has_struck
    table.check()


def test_an_executor_lost_between_tagging_and_writing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    write(table.client(), "insert", table.rows(0, ROWS, 1))
    kill_before_writing(table, monkeypatch)
    write(table.client(), "upsert", table.rows(ROWS // 2, 2 * ROWS, 2))
    table.check()


@pytest.mark.parametrize(
    ("operation", "step", "in_tasks"),
    [
        ("insert", "_write_buckets", False),
        ("upsert", "_write_buckets", False),
        ("upsert", "_indexed", True),
        ("upsert", "_write_by_keys", True),
    ],
)
def test_keys_made_anew_after_an_executor_was_lost_are_refused(
    table: Table, monkeypatch: pytest.MonkeyPatch, operation: str, step: str, in_tasks: bool
) -> None:
    write(table.client(), "insert", table.rows(0, ROWS, 1))
    random_key = sf.udf(new_key, "string").asNondeterministic()
    frame = table.rows(0, ROWS, 1).withColumn("id", random_key())
    if in_tasks:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    kill_before(table, monkeypatch, step)
    with pytest.raises(HoodieWriteException, match=r"not deterministic.*checkpoint"):
        write(table.client(), operation, frame)
    table.check()
    monkeypatch.undo()
    write(table.client(), operation, frame)
    table.check_files()
    keys = hoodie.read_table(str(table.path), columns=["id", "_hoodie_record_key"])
    assert keys["id"].to_pylist() == keys["_hoodie_record_key"].to_pylist()
    assert len(set(keys["id"].to_pylist())) == keys.num_rows == 2 * ROWS


@pytest.mark.parametrize("repeats", [False, True])
def test_rows_that_come_in_another_order_after_an_executor_was_lost(
    table: Table, monkeypatch: pytest.MonkeyPatch, repeats: bool
) -> None:
    older = table.rows(0, ROWS, 1)
    frame = table.rows(0, ROWS, 2)
    frame = frame.union(older) if repeats else frame
    frame = frame.coalesce(2).mapInArrow(in_another_order, frame.schema)
    kill_before_writing(table, monkeypatch)
    if repeats:
        with pytest.raises(HoodieWriteException, match="another order"):
            write(table.client(), "upsert", frame)
        monkeypatch.undo()
    write(table.client(), "upsert", frame)
    table.check()


@pytest.fixture
def keyless(cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A table whose keys are generated."""
    table = Table(cluster, tmp_path, monkeypatch, record_key_fields="generated", ordering_fields=())
    yield table
    (table.signals / "release").touch()


def check_keyless(table: Table, count: int) -> None:
    """Each row of the model is there, that many times, and has a key of its own."""
    found = hoodie.read_table(str(table.path))
    rows = sorted(tuple(row[name] for name in COLUMNS) for row in found.to_pylist())
    assert rows == sorted([*table.model.values()] * count)
    assert len(set(found["_hoodie_record_key"].to_pylist())) == found.num_rows
    table.check_files()


@pytest.mark.parametrize(
    ("operation", "fault", "moment"),
    [
        ("insert", Fault.TASK_DIES, Moment.FILE_WRITTEN),
        ("bulk_insert", Fault.TASK_DIES, Moment.FILE_WRITTEN),
        ("insert", Fault.SHUFFLE_FILES_VANISH, Moment.BEFORE_THE_FILE),
    ],
)
def test_rows_without_keys_are_written_once(keyless: Table, operation: str, fault: Fault, moment: Moment) -> None:
    keyless.go_wrong(fault, moment)
    write(keyless.client(), operation, keyless.rows(0, ROWS, 1))
    assert keyless.has_struck
    check_keyless(keyless, 1)


@pytest.mark.parametrize("equal_rows", [1, 3])
def test_rows_without_keys_that_come_in_another_order_are_written_once(
    keyless: Table, monkeypatch: pytest.MonkeyPatch, equal_rows: int
) -> None:
    one = keyless.rows(0, ROWS, 1)
    frame = one
    for _ in range(equal_rows - 1):
        frame = frame.union(one)
    frame = frame.coalesce(2).mapInArrow(in_another_order, frame.schema)
    kill_before_writing(keyless, monkeypatch)
    write(keyless.client(), "insert", frame)
    check_keyless(keyless, equal_rows)


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_many_keys_are_moved_once_with_their_rows(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """A table that is upserted whole: at most 1.2 times the bytes that Spark moves when it deals the rows anew."""
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    pq.write_table(trips(50_000), tmp_path / "rows.parquet", row_group_size=5_000)
    rows = cluster.session.read.parquet(str(tmp_path / "rows.parquet"))
    path = init_table(tmp_path / "t", record_key_fields=["uuid"], partition_fields=["partitionpath"])
    client = SparkRDDWriteClient(
        cluster.session, write_config(path, index_type=index, bucket_index_num_buckets=2, parquet_max_file_size=1 << 20)
    )
    with client:
        client.bulk_insert(rows)
        moved, written = shuffled_bytes(cluster.session, lambda: client.upsert(rows))
        assert written.updated_count == 50_000
    floor, _ = shuffled_bytes(
        cluster.session, lambda: rows.repartition(6, "uuid").write.format("noop").mode("overwrite").save()
    )
    assert floor > 50_000 * 80
    assert moved <= 1.2 * floor
    assert sum(step.spilled_bytes for step in written.steps if step.name == "write buckets") > 0
    found = hoodie.read_table(path, columns=["uuid"])
    assert sorted(found["uuid"].to_pylist()) == sorted(trips(50_000)["uuid"].to_pylist())


def shuffled_bytes(spark: SparkSession, action: Callable[[], Any]) -> tuple[int, Any]:
    """The bytes that the jobs of an action wrote for other tasks, and its result."""
    context = spark.sparkContext
    group = str(uuid.uuid4())
    context.setJobGroup(group, "")
    try:
        result = action()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}
    started = [stage for stage in stages if tracker.getStageInfo(stage) is not None]
    return sum(store.lastStageAttempt(stage).shuffleWriteBytes() for stage in started), result


def new_key() -> str:
    return str(uuid.uuid4())


def in_another_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    yield from rows.take(np.random.default_rng().permutation(rows.num_rows)).combine_chunks().to_batches()


def kill_before_writing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both executors die after all decisions, before the first file is written."""
    kill_before(table, monkeypatch, "_write_buckets")


def kill_before(table: Table, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Both executors die once, before a method of the next write is called."""
    original = getattr(BaseCommitActionExecutor, step)

    def killing(*arguments: Any, **named: Any) -> Any:
        if not table.has_struck:
            (table.signals / "struck").touch()
            for host in HOSTS:
                table.cluster.kill_executor(host)
        return original(*arguments, **named)

    monkeypatch.setattr(BaseCommitActionExecutor, step, killing)


@pytest.mark.parametrize(
    ("operation", "moment"),
    [
        ("bulk_insert", Moment.FILE_WRITTEN),
        ("bulk_insert", Moment.BEFORE_THE_MARKER),
        ("upsert", Moment.FILE_WRITTEN),
        ("upsert", Moment.BEFORE_THE_FILE),
    ],
)
def test_of_two_attempts_alive_one_counts_and_the_other_deletes_its_file(
    table: Table, operation: str, moment: Moment
) -> None:
    if operation == "upsert":
        write(table.client(parquet_small_file_limit=0), "bulk_insert", table.rows(0, ROWS, 1))
    table.go_wrong(Fault.TASK_WAITS, moment)
    seen: set[str] = set()
    ended = threading.Event()
    watcher = threading.Thread(target=watch_markers, args=(table.path, seen, ended))
    watcher.start()
    try:
        write(table.client(parquet_small_file_limit=0), operation, table.rows(ROWS // 2, 2 * ROWS, 2))
    finally:
        ended.set()
        watcher.join()
    slow = token_of(Path((table.signals / "struck").read_text()).name)
    attempts = {token for token in map(token_of, seen) if token[:2] == slow[:2]}
    if moment is Moment.BEFORE_THE_MARKER:
        # It announced nothing so far; the one that was faster did.
        assert attempts and slow not in attempts
    else:
        assert slow in attempts and len(attempts) >= 2
    table.check()
    # The job is done and committed, and the slow attempt goes on.
    (table.signals / "release").touch()
    if moment is not Moment.FILE_WRITTEN:
        wait_until((table.signals / "deleted").exists)
    time.sleep(1)
    table.check()


def token_of(name: str) -> tuple[str, ...]:
    """Partition, stage and attempt of the task that makes a data file or its marker."""
    name = name.partition(".marker")[0]
    parsed = parse_base_file_name(name) or parse_log_file_name(name)
    assert parsed is not None
    return tuple(parsed.write_token.split("-"))


def watch_markers(path: Path, seen: set[str], ended: threading.Event) -> None:
    """Gather the names of all data files that markers announce."""
    while not ended.is_set():
        seen.update(file.name for file in files_below(path / ".hoodie" / ".temp") if ".marker." in file.name)
        time.sleep(0.02)


# --- log files, and their compaction ----------------------------------------------------------------------------------

BUCKETS = {"index_type": "BUCKET", "bucket_index_num_buckets": 1}
"""Each task appends one log file for each partition, new rows included."""
STRIKES = [
    (Fault.TASK_DIES, Moment.FILE_WRITTEN),
    (Fault.EXECUTOR_DIES, Moment.BEFORE_THE_FILE),
    (Fault.TASK_WAITS, Moment.FILE_WRITTEN),
]
every_strike = pytest.mark.parametrize(("fault", "moment"), STRIKES, ids=[fault.value for fault, _ in STRIKES])


def read_by_hudi_rs(table: Table) -> list[tuple[Any, ...]]:
    rows = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table.path)).build().read())
    return sorted(tuple(row.values()) for row in rows.select(COLUMNS).to_pylist())


def check_logs(table: Table) -> None:
    """Every reader finds the rows, and no file of an attempt that lost."""
    assert table.has_struck
    table.check()
    assert read_by_hudi_rs(table) == sorted(table.model.values())


@every_strike
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_log_files_of_attempts_that_lost_are_never_read(
    logs: Table, table_version: int, fault: Fault, moment: Moment
) -> None:
    write(logs.client(**BUCKETS), "upsert", logs.rows(0, ROWS, 1))
    logs.go_wrong(fault, moment)
    write(logs.client(**BUCKETS), "upsert", logs.rows(ROWS // 2, 2 * ROWS, 2))
    check_logs(logs)
    # Of two attempts alive the slow one goes on after the commit.
    (logs.signals / "release").touch()
    time.sleep(1 if fault is Fault.TASK_WAITS else 0)
    check_logs(logs)


@every_strike
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_compaction_outlives_what_is_killed_under_it(
    logs: Table, table_version: int, fault: Fault, moment: Moment
) -> None:
    write(logs.client(parquet_small_file_limit=0), "insert", logs.rows(0, ROWS, 1))
    write(logs.client(parquet_small_file_limit=0), "upsert", logs.rows(0, ROWS, 2))
    logs.go_wrong(fault, moment)
    with logs.client() as client:
        assert client.compact() is not None
        check_logs(logs)
        (logs.signals / "release").touch()
        time.sleep(1 if fault is Fault.TASK_WAITS else 0)
        check_logs(logs)
        assert client.compact() is None
    assert len([file for file in logs.files() if file.endswith(".parquet")]) == 2 * PARTITIONS


@every_strike
@pytest.mark.parametrize("options", [{"plan_strategy_sort_columns": "fare"}, {"binary_copy_row_group_min_bytes": 1}])
def test_a_clustering_outlives_what_is_killed_under_it(
    table: Table, options: dict[str, Any], fault: Fault, moment: Moment
) -> None:
    for first in (0, ROWS):
        write(table.client(parquet_small_file_limit=0), "bulk_insert", table.rows(first, first + ROWS, 1))
    table.go_wrong(fault, moment)
    with table.client(**{f"clustering_{name}": value for name, value in options.items()}) as client:
        result = client.cluster()
        assert result is not None
        check_logs(table)
        (table.signals / "release").touch()
        time.sleep(1 if fault is Fault.TASK_WAITS else 0)
        check_logs(table)
    assert len(list(table.commits()[result.instant_time].write_stats)) == PARTITIONS


# --- keys above the limit: tasks find out where rows go, and inputs of files are read twice ---------------------------


class LargeInputs:
    """Writes whose keys are too many for the driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[bool] = []
        """Of each write of rows that tasks send by their keys: whether the rows are kept."""
        write_by_keys = BaseCommitActionExecutor._write_by_keys

        def watched(*arguments: Any, **named: Any) -> Any:
            given = inspect.signature(write_by_keys).bind(*arguments, **named).arguments
            self.kept.append(given.get("is_kept", False))
            return write_by_keys(*arguments, **named)

        monkeypatch.setattr(BaseCommitActionExecutor, "_write_by_keys", watched)
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)


@pytest.fixture
def large_inputs(monkeypatch: pytest.MonkeyPatch) -> LargeInputs:
    return LargeInputs(monkeypatch)


class Loss(Enum):
    """What is lost, and when."""

    HASHES = "executors, after keys were read and before they are looked up"
    PLACES = "executors, after keys were looked up and before rows are written"
    SHUFFLE = "shuffle files, while rows are written"
    WRITER = "the executor of a task that writes"
    ATTEMPT = "a first attempt that is slower than the second"

    def arrange(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let it happen to the next write."""
        if self is Loss.HASHES:
            kill_before(table, monkeypatch, "_indexed")
        elif self is Loss.PLACES:
            kill_before(table, monkeypatch, "_write_by_keys")
        elif self is Loss.SHUFFLE:
            table.go_wrong(Fault.SHUFFLE_FILES_VANISH, Moment.BEFORE_THE_FILE)
        elif self is Loss.WRITER:
            table.go_wrong(Fault.EXECUTOR_DIES, Moment.BEFORE_THE_FILE)
        else:
            table.go_wrong(Fault.TASK_WAITS, Moment.FILE_WRITTEN)

    def check(self, table: Table) -> None:
        """It happened, and did no harm."""
        assert table.has_struck
        table.check()
        if self is Loss.ATTEMPT:
            # It goes on after the commit.
            (table.signals / "release").touch()
            time.sleep(1)
            table.check()
        assert hoodie.metadata.validate(str(table.path)).is_right


every_loss = pytest.mark.parametrize("loss", Loss, ids=lambda loss: loss.name)
LOSSES_OF_INSERTS = [loss for loss in Loss if loss is not Loss.HASHES]
"""Inserts look no keys up."""
FLAGGED = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))


def a_row(number: int, ts: int, is_deleted: bool = False) -> Row:
    return (f"k{number}", f"p{number % PARTITIONS}", ts, float(number * ts), is_deleted)


def index_options(index: str) -> dict[str, Any]:
    buckets = {"bucket_index_num_buckets": 2} if index == "BUCKET" else {}
    stored: dict[str, str] = {}
    if index == "RECORD_INDEX":
        # The sample of a file group of the index has keys of all base files: then these are searched.
        stored = {
            f"metadata_global_record_level_index_{name}": "1" for name in ("min_filegroup_count", "max_filegroup_count")
        }
        stored["metadata_global_record_level_index_enable"] = "true"
    return {"index_type": index, **buckets, **stored}


def counts_of(result: HoodieWriteResult) -> dict[str, int]:
    return {name: getattr(result, name) for name in dir(result) if name.endswith("_count")}


def in_one_process(
    table: Table, options: Mapping[str, Any], stored: pa.Table, operation: str, given: pa.Table, **arguments: Any
) -> dict[str, int]:
    """Store rows in the table; and the counts of a write that is done in one process to another such table."""
    properties = {"hoodie." + key.replace("_", "."): value for key, value in options.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incoming_keys, "KEY_BYTES", 64 << 20)
        with local_client(table.path, **properties) as client:
            client.upsert(stored)
        with local_client(init_table(table.signals.parent / "twin", **arguments), **properties) as client:
            client.upsert(stored)
            return counts_of(getattr(client, operation)(given))


@pytest.mark.metadata_table
@every_loss
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BUCKET", "RECORD_INDEX"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_upsert_of_many_keys_outlives_what_is_lost_under_it(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs,
    index: str, table_type: str, loss: Loss,
) -> None:  # fmt: skip
    """Keys repeat within and across files; some rows are deletes, some of nothing."""
    table = Table(cluster, tmp_path, monkeypatch, table_type=table_type)
    stored = [a_row(number, 2) for number in range(ROWS)]
    newest = [a_row(number, 3, number % 10 == 0) for number in range(ROWS // 2, ROWS * 3 // 2)]
    oldest = [a_row(number, 1) for number in range(0, 2 * ROWS, 3)]
    others = [a_row(number, 2) for number in range(ROWS // 2, 2 * ROWS, 2)]
    given = [*newest, *oldest, *others]
    newest_of: dict[str, Row] = {}
    for row in sorted([*stored, *given], key=itemgetter(2)):
        newest_of[row[0]] = row
    table.model = {key: row[:4] for key, row in newest_of.items() if not row[4]}
    options = index_options(index)
    tables = [rows(*some, schema=FLAGGED) for some in (stored, given)]
    counts = in_one_process(table, options, tables[0], "upsert", tables[1], table_type=table_type)
    del large_inputs.kept[:]
    loss.arrange(table, monkeypatch)
    result = write(table.client(**options), "upsert", table.in_files(given, FLAGGED))
    loss.check(table)
    assert counts_of(result) == counts
    assert large_inputs.kept == [False]


@pytest.mark.metadata_table
@every_loss
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_a_delete_of_many_keys_outlives_what_is_lost_under_it(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs,
    index: str, loss: Loss,
) -> None:  # fmt: skip
    table = Table(cluster, tmp_path, monkeypatch)
    stored = [a_row(number, 2) for number in range(ROWS)]
    given = [a_row(number, 0)[:2] for number in (*range(0, 2 * ROWS, 3), *range(0, ROWS, 30))]
    table.model = {row[0]: row[:4] for row in stored if int(row[0][1:]) % 3}
    options, keys = index_options(index), pa.schema(list(TRIPS)[:2])
    counts = in_one_process(table, options, rows(*stored, schema=FLAGGED), "delete", rows(*given, schema=keys))
    del large_inputs.kept[:]
    loss.arrange(table, monkeypatch)
    result = write(table.client(**options), "delete", table.in_files(given, keys))
    loss.check(table)
    assert counts_of(result) == counts
    assert large_inputs.kept == [False]


@pytest.mark.metadata_table
@pytest.mark.parametrize("loss", LOSSES_OF_INSERTS, ids=lambda loss: loss.name)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_insert_that_is_read_twice_outlives_what_is_lost_under_it(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs,
    table_type: str, loss: Loss,
) -> None:  # fmt: skip
    """New rows go to files that have some; repeated keys stay, and deletes go nowhere."""
    table = Table(cluster, tmp_path, monkeypatch, table_type=table_type)
    stored = [a_row(number, 2) for number in range(ROWS)]
    new = [a_row(number, 3) for number in (*range(ROWS // 2, 2 * ROWS), *range(ROWS, 2 * ROWS, 7))]
    deletes = [a_row(number, 3, True) for number in range(0, 2 * ROWS, 11)]
    table.model = {str(number): row[:4] for number, row in enumerate([*stored, *new])}
    tables = [rows(*some, schema=FLAGGED) for some in (stored, [*new, *deletes])]
    counts = in_one_process(table, {}, tables[0], "insert", tables[1], table_type=table_type)
    del large_inputs.kept[:]
    loss.arrange(table, monkeypatch)
    result = write(table.client(), "insert", table.in_files([*new, *deletes], FLAGGED))
    loss.check(table)
    assert counts_of(result) == counts
    assert large_inputs.kept == [False]


@pytest.mark.parametrize("loss", LOSSES_OF_INSERTS, ids=lambda loss: loss.name)
def test_rows_without_keys_that_are_read_twice_are_written_once(
    keyless: Table, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs, loss: Loss
) -> None:
    """Of equal rows each one is written."""
    given = [a_row(number, 1)[:4] for number in range(ROWS)]
    keyless.model = {row[0]: row for row in given}
    loss.arrange(keyless, monkeypatch)
    write(keyless.client(), "insert", keyless.in_files([*given, *given]))
    assert keyless.has_struck
    check_keyless(keyless, 2)
    assert large_inputs.kept == [False]


@pytest.mark.parametrize(
    ("operation", "loss"),
    [*(("upsert", loss) for loss in Loss), *(("insert", loss) for loss in LOSSES_OF_INSERTS)],
    ids=lambda value: value.name if isinstance(value, Loss) else value,
)
def test_kept_rows_whose_keys_are_made_anew_are_written_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs, operation: str, loss: Loss
) -> None:
    """The caller keeps them, so that they are read twice; what was kept is lost, and made with other keys."""
    stored = [a_row(number, 1)[:4] for number in range(ROWS)]
    with local_client(table.path) as client:
        client.insert(rows(*stored))
    random_key = sf.udf(new_key, "string").asNondeterministic()
    frame = table.in_files(stored).withColumn("id", random_key()).cache()
    frame.count()
    loss.arrange(table, monkeypatch)
    try:
        result = write(table.client(), operation, frame)
    finally:
        frame.unpersist()
    assert table.has_struck
    assert result.inserted_count == ROWS
    (table.signals / "release").touch()
    time.sleep(1 if loss is Loss.ATTEMPT else 0)
    table.check_files()
    found = hoodie.read_table(str(table.path), columns=["id", "fare", "_hoodie_record_key"])
    assert found["id"].to_pylist() == found["_hoodie_record_key"].to_pylist()
    assert len(set(found["id"].to_pylist())) == found.num_rows
    assert sorted(found["fare"].to_pylist()) == sorted([row[3] for row in stored] * 2)


@pytest.mark.metadata_table
@every_loss
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_joined_rows_outlive_what_is_lost_under_them(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs,
    index: str, loss: Loss,
) -> None:  # fmt: skip
    """Their shuffles are done once, and again where they are lost."""
    table = Table(cluster, tmp_path, monkeypatch)
    stored = [a_row(number, 2) for number in range(ROWS)]
    given = [a_row(number, 3) for number in range(ROWS // 2, 2 * ROWS)]
    table.model = {row[0]: row[:4] for row in [*stored, *given]}
    options = index_options(index)
    counts = in_one_process(
        table, options, rows(*stored, schema=FLAGGED), "upsert", rows(*given, schema=FLAGGED)
    )  # fmt: skip
    del large_inputs.kept[:]
    loss.arrange(table, monkeypatch)
    frame = table.in_files(given, FLAGGED)
    result = write(table.client(**options), "upsert", frame.join(frame.select("id").hint("merge"), "id"))
    loss.check(table)
    assert counts_of(result) == counts
    assert large_inputs.kept == [False]


@every_loss
def test_shuffled_rows_whose_keys_are_made_anew_are_written_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, large_inputs: LargeInputs, loss: Loss
) -> None:
    """The caller wants them to be read twice; shuffles that are lost are done again with other keys, or by a new call
    where Spark sees that they differ and gives up.
    """
    given = [a_row(number, 1)[:4] for number in range(ROWS)]
    random_key = sf.udf(new_key, "string").asNondeterministic()
    frame = table.in_files(given).withColumn("id", random_key()).repartition(3, "fare")
    loss.arrange(table, monkeypatch)
    try:
        result = write(table.client(write_input_persist="NEVER"), "upsert", frame)
    except HoodieException as error:
        assert "a shuffle map stage with indeterminate output was failed and retried" in str(error).lower()
        assert not table.commits()
        result = write(table.client(write_input_persist="NEVER"), "upsert", frame)
    assert table.has_struck
    assert result.inserted_count == ROWS
    (table.signals / "release").touch()
    time.sleep(1 if loss is Loss.ATTEMPT else 0)
    table.check_files()
    found = hoodie.read_table(str(table.path), columns=["id", "fare", "_hoodie_record_key"])
    assert found["id"].to_pylist() == found["_hoodie_record_key"].to_pylist()
    assert len(set(found["id"].to_pylist())) == found.num_rows
    assert sorted(found["fare"].to_pylist()) == sorted(row[3] for row in given)


SERVICES = {
    "cleaner.commits.retained": 1, "keep.min.commits": 2, "keep.max.commits": 3, "commits.archival.batch": 2,
    "write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", "write.lock.provider": "FileSystemBasedLockProvider",
    "write.lock.wait.retry": "true",
}  # fmt: skip
SEED = 7
WRITES = 4
KILLS = 8


@pytest.mark.soak
@pytest.mark.parametrize(
    ("fault", "moment"),
    [(Fault.TASK_DIES, Moment.FILE_WRITTEN), (Fault.EXECUTOR_DIES, Moment.BEFORE_THE_FILE)],
)
def test_two_writers_with_services_outlive_what_is_killed_under_them(
    table: Table, fault: Fault, moment: Moment
) -> None:
    """They share a partition; a task dies in mid-write, and Python workers and an executor at random moments."""
    write(table.client(**SERVICES), "upsert", table.rows(0, PARTITIONS, 1))
    table.go_wrong(fault, moment)
    errors: list[BaseException] = []
    service_errors: list[str] = []

    def write_some(number: int) -> None:
        try:
            with table.client(**SERVICES) as client:
                for ts in range(2, 2 + WRITES):
                    # Of its own partitions the same keys again, of the shared one new ones: all go to one file.
                    own = table.rows(number, number + 1, ts).unionAll(table.rows(2 + number, 3 + number, ts))
                    new = 6000 * ts + PARTITIONS * (10 + number) + PARTITIONS - 1
                    result = client.upsert(own.unionAll(table.rows(new, new + 1, ts)))
                    service_errors.extend(result.service_errors)
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write_some, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    killed = kill_at_random(table.cluster, writers)
    assert errors == []
    assert service_errors == []
    assert table.has_struck
    found = hoodie.read_table(str(table.path), columns=["id", "region", "ts", "fare"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == sorted(table.model.values())
    # A last writer cleans up; then nothing is left of attempts that died.
    write(table.client(**SERVICES), "upsert", table.rows(0, 1, 99))
    check_table(table.path, {key: dict(zip(COLUMNS, row, strict=True)) for key, row in table.model.items()}, "id", True)
    assert not list(files_below(table.path / ".hoodie" / ".temp"))
    timeline = HoodieTableMetaClient.load(str(table.path)).active_timeline
    assert len(timeline.filter_pending()) == 0
    assert len(timeline.filter_actions(Action.CLEAN)) > 0
    assert archive_files(table.path)
    print(f"seed {SEED}: killed {killed}")


def kill_at_random(cluster: StandaloneCluster, writers: list[threading.Thread]) -> dict[str, int]:
    """Kill Python workers, and once an executor, while writers are at work; how many."""
    chosen = random.Random(SEED)
    killed = {"python workers": 0, "executors": 0}
    while any(writer.is_alive() for writer in writers):
        time.sleep(chosen.uniform(0.3, 2))
        host = chosen.choice(HOSTS)
        workers = cluster.python_workers(host)
        if sum(killed.values()) == KILLS // 2 and not killed["executors"]:
            cluster.kill_executor(host)
            killed["executors"] += 1
        elif workers and sum(killed.values()) < KILLS:
            with suppress(ProcessLookupError):
                os.kill(chosen.choice(workers), signal.SIGKILL)
                killed["python workers"] += 1
    return killed
