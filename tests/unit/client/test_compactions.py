"""Compactions: what is planned, what is written, and that rows stay as they are."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieCompactionOperation, HoodieCompactionPlan
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCompactionException, HoodieConfigException, HoodieException, HoodieIndexException
from hoodie.table.action.compact.compaction_strategy import CompactionStrategy
from hoodie.table.action.compact.run_compaction_action_executor import CompactSlice
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows
from tests.support.timeline_files import read_commit

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", **SMALL_FILTERS}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
FIRST = (("a", "x", 10), ("b", "x", 10), ("c", "y", 10))


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**NO_SERVICES, **properties})


def upsert(base_path: Path, *entries: tuple[Any, ...], **properties: Any) -> str:
    with new_client(base_path, **properties) as client:
        return client.upsert(rows(*entries)).instant_time


def stored_rows(base_path: Path) -> list[dict[str, Any]]:
    """The rows as hudi-rs reads them, with the columns of Hudi but for the file name, in order."""
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    found = pa.Table.from_batches(batches).drop_columns([FILE_NAME_META]).to_pylist() if batches else []
    return sorted(found, key=lambda row: (row["_hoodie_record_key"], row["_hoodie_partition_path"]))


def pending(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return sorted(timeline.filter_actions(Action.COMPACTION).filter_pending().times)


def compactions(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return sorted(timeline.filter_actions(Action.COMMIT).filter_completed_instants().times)


def plan_of(base_path: Path, instant_time: str) -> HoodieCompactionPlan:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return timeline.read_as(HoodieInstant(instant_time, Action.COMPACTION, State.REQUESTED), HoodieCompactionPlan)


def names(base_path: Path, pattern: str) -> list[str]:
    return sorted(file.name for file in base_path.rglob(pattern) if ".hoodie" not in file.parts)


# --- plans and what they make -----------------------------------------------------------------------------------------


@every_version
def test_a_plan_names_the_slices_with_log_files_as_hudi_does(base_path: Path, table_version: int) -> None:
    first = upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    upsert(base_path, ("b", "x", 20))
    with new_client(base_path) as client:
        instant_time = client.schedule_compaction()
    assert instant_time is not None
    assert pending(base_path) == [instant_time]
    (operation,) = (plan := plan_of(base_path, instant_time)).operations
    (base_file,) = [name for name in names(base_path, "*.parquet") if name.startswith(operation.file_id)]
    logs = names(base_path, "*.log.*")
    assert operation == HoodieCompactionOperation(
        partition_path="x",
        file_id=operation.file_id,
        base_instant_time=first,
        delta_file_paths=tuple(logs),
        data_file_path=base_file,
        metrics={
            "TOTAL_LOG_FILES": 2.0,
            "TOTAL_IO_MB": 0.0,
            "TOTAL_IO_READ_MB": 0.0,
            "TOTAL_LOG_FILES_SIZE": float(sum((base_path / "x" / name).stat().st_size for name in logs)),
            "TOTAL_IO_WRITE_MB": 0.0,
        },
    )
    assert (plan.version, plan.strategy, plan.preserve_hoodie_metadata, plan.extra_metadata) == (2, None, False, {})


@every_version
def test_a_compaction_makes_base_files_and_rows_keep_their_commits(base_path: Path) -> None:
    first = upsert(base_path, *FIRST)
    second = upsert(base_path, ("a", "x", 20), ("b", "x", 5))
    third = upsert(base_path, ("c", "y", 20))
    with new_client(base_path) as client:
        client.delete([HoodieKey("b", "x")])
        before = stored_rows(base_path)
        result = client.compact()
        assert client.compact() is None
    assert result is not None
    assert result.is_committed
    assert result.operation is WriteOperationType.COMPACT
    assert [(row["id"], row["ts"], row["_hoodie_commit_time"]) for row in before] == [
        ("a", 20, second), ("c", 20, third)
    ]  # fmt: skip
    assert stored_rows(base_path) == before
    instant_time = result.instant_time
    new_files = [name for name in names(base_path, "*.parquet") if name.endswith(f"_{instant_time}.parquet")]
    assert len(new_files) == 2
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    assert sorted(set(pa.Table.from_batches(batches)[FILE_NAME_META].to_pylist())) == new_files
    metadata = read_commit(base_path, instant_time)
    assert metadata.compacted
    assert metadata.operation_type is WriteOperationType.COMPACT
    assert metadata.schema is not None
    (x,) = metadata.partition_to_write_stats["x"]
    old = next(name for name in names(base_path, "*.parquet") if name.startswith(x.file_id) and first in name)
    assert (x.prev_commit, x.num_writes, x.num_update_writes, x.num_deletes, x.num_inserts) == (first, 1, 1, 1, 0)
    assert (x.total_log_records, x.total_updated_records_compacted) == (3, 2)
    assert (x.total_log_files_compacted, x.total_log_blocks) == (2, 2)
    logs = [file for file in (base_path / "x").iterdir() if ".log." in file.name]
    assert x.total_log_size_compacted == sum(file.stat().st_size for file in logs)
    assert x.prev_base_file in (None, old)
    assert not list((base_path / ".hoodie/.temp").iterdir())
    assert not list((base_path / ".hoodie/.heartbeat").iterdir())


@every_version
def test_files_are_announced_as_versions_of_base_files(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    announced = []
    create = WriteMarkers.create
    monkeypatch.setattr(WriteMarkers, "create", lambda self, *marker: announced.append(marker) or create(self, *marker))
    with new_client(base_path) as client:
        result = client.compact()
    assert result is not None
    assert [(partition, str(kind)) for partition, name, kind in announced] == [("x", "MERGE")]
    assert announced[0][1].endswith(f"_{result.instant_time}.parquet")


@every_version
@pytest.mark.parametrize("properties, block_format", [({}, "avro"), (BUCKET, "parquet")], ids=["SIMPLE", "BUCKET"])
def test_random_tables_have_the_same_rows_before_and_after(
    base_path: Path, properties: dict[str, str], block_format: str
) -> None:
    rng = random.Random(block_format)
    keys = [f"k{number}" for number in range(12)]
    options = {**properties, "hoodie.logfile.data.block.format": block_format}
    with new_client(base_path, **options) as client:
        for _ in range(3):
            for _ in range(rng.randint(1, 4)):
                some = rng.sample(keys, rng.randint(1, 6))
                if rng.random() < 0.25:
                    client.delete([HoodieKey(key, rng.choice("xy")) for key in some])
                else:
                    client.upsert(rows(*((key, "xy"[int(key[1:]) % 2], rng.randint(1, 9)) for key in some)))
            before = stored_rows(base_path)
            if rng.random() < 0.5:
                scheduled = client.schedule_compaction()
                assert stored_rows(base_path) == before
                client.compact(scheduled)
            else:
                client.compact()
            assert stored_rows(base_path) == before
            view = HoodieTableMetaClient.load(str(base_path)).view()
            assert not [part for path in view.list_partitions() for part in view.latest_file_slices(path)
                        if part.log_files]  # fmt: skip


@every_version
def test_a_file_group_whose_rows_are_all_deleted_becomes_an_empty_file(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    with new_client(base_path) as client:
        client.delete([HoodieKey("c", "y")])
        result = client.compact()
        assert result is not None
        assert [status.stat.num_writes for status in result] == [0]
        assert [row["id"] for row in stored_rows(base_path)] == ["a", "b"]
        client.upsert(rows(("c", "y", 30)))
    assert [row["id"] for row in stored_rows(base_path)] == ["a", "b", "c"]


@every_version
def test_log_files_behind_a_plan_belong_to_the_slice_that_the_compaction_makes(
    base_path: Path, table_version: int
) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    with new_client(base_path) as client:
        scheduled = client.schedule_compaction()
        assert scheduled is not None
        client.upsert(rows(("a", "x", 30), ("c", "y", 30)))
        client.upsert(rows(("b", "x", 40)))
        named = [name for name in names(base_path, "*.log.*") if f"_{scheduled}.log." in name]
        assert len(named) == (2 if table_version == 6 else 0)
        result = client.compact(scheduled)
        assert result is not None
        assert [status.partition_path for status in result] == ["x"]
        assert [(row["id"], row["ts"]) for row in stored_rows(base_path)] == [("a", 30), ("b", 40), ("c", 30)]
        client.compact()
        assert [(row["id"], row["ts"]) for row in stored_rows(base_path)] == [("a", 30), ("b", 40), ("c", 30)]


@every_version
def test_another_process_carries_out_what_was_planned(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    with new_client(base_path) as client:
        scheduled = client.schedule_compaction()
    with new_client(base_path) as other:
        assert other.schedule_compaction() is None, "its file group is taken"
        assert other.compact().instant_time == scheduled  # type: ignore[union-attr]
        assert other.compact(scheduled) is None
    assert compactions(base_path) == [scheduled]


def test_a_compaction_that_was_never_planned_is_an_error(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    with new_client(base_path) as client:
        with pytest.raises(HoodieCompactionException, match="there is no compaction 20200101000000000"):
            client.compact("20200101000000000")
        with pytest.raises(HoodieConfigException, match="instant time"):
            client.compact(7)  # type: ignore[arg-type]


def test_a_copy_on_write_table_has_nothing_to_compact(tmp_path: Path) -> None:
    path = Path(init_table(tmp_path / "cow"))
    with new_client(path) as client:
        client.upsert(rows(*FIRST))
        assert client.schedule_compaction() is None
        assert client.compact() is None


@pytest.mark.parametrize("table_version", [6], indirect=True)
def test_nothing_is_planned_over_a_pending_write_in_version_6(
    base_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    with new_client(base_path) as client:
        started = client.start_commit()
        with caplog.at_level(logging.WARNING):
            assert client.schedule_compaction() is None
        assert started in caplog.text
        assert "is pending, and its log files would be lost" in caplog.text
        client.upsert(rows(("b", "x", 20)), started)
        assert client.schedule_compaction() is not None


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_a_pending_write_goes_on_behind_a_plan_in_later_versions(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    with new_client(base_path, **{"hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("b", "x", 20)), started)
        scheduled = client.schedule_compaction()
        assert scheduled is not None
        assert client.commit(started, result)
        assert all(started not in name for name in plan_of(base_path, scheduled).operations[0].delta_file_paths)
        client.compact(scheduled)
    assert [(row["id"], row["ts"]) for row in stored_rows(base_path)] == [("a", 20), ("b", 20), ("c", 10)]


@every_version
def test_file_groups_that_were_replaced_since_the_plan_are_left_out(tmp_path: Path, table_version: int) -> None:
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a", "b")
    table.upsert("c", region="y")
    table.upsert("a")
    table.upsert("c", region="y")
    with table.client() as client:
        scheduled = client.schedule_compaction()
        table.replace(["x"])
        result = client.compact(scheduled)
    assert result is not None
    assert [status.partition_path for status in result] == ["y"]
    view = table.load().view()
    assert view.latest_file_slices("x") == []
    assert [part.base_instant_time for part in view.latest_file_slices("y")] == [scheduled]


@every_version
def test_buckets_are_those_of_the_last_write_after_a_compaction(base_path: Path) -> None:
    upsert(base_path, *FIRST, **BUCKET)
    upsert(base_path, *FIRST, **BUCKET)
    with new_client(base_path, **BUCKET, **{"hoodie.cleaner.commits.retained": "1"}) as client:
        assert client.compact() is not None
        with pytest.raises(HoodieIndexException, match=r"num\.buckets is 2 there and 3 here"):
            upsert(base_path, *FIRST, **{**BUCKET, "hoodie.bucket.index.num.buckets": "3"})
        # The files of the compaction are replaced and cleaned.
        client.delete_partitions(["x"])
        client.delete_partitions(["y"])
        assert client.clean() is not None
        client.upsert(rows(("a", "x", 20)))
    assert [(row["id"], row["ts"]) for row in stored_rows(base_path)] == [("a", 20)]


# --- failed attempts, and several processes ---------------------------------------------------------------------------


@every_version
def test_a_failed_attempt_is_rolled_back_and_run_again_under_its_instant(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20), ("c", "y", 20))
    before = stored_rows(base_path)
    write = CompactSlice.__call__

    def fail_at_second(self: CompactSlice, task: Any, part: Any) -> Any:
        if part.partition_path == "y":
            raise OSError("the disk is full")
        return write(self, task, part)

    with new_client(base_path) as client:
        scheduled = client.schedule_compaction()
        with monkeypatch.context() as patched:
            patched.setattr(CompactSlice, "__call__", fail_at_second)
            with pytest.raises(OSError, match="disk is full"):
                client.compact(scheduled)
        assert pending(base_path) == [scheduled]
        assert not [name for name in names(base_path, "*.parquet") if name.endswith(f"_{scheduled}.parquet")]
        assert stored_rows(base_path) == before
        result = client.compact()
        assert result is not None
        assert result.instant_time == scheduled
    assert stored_rows(base_path) == before


@every_version
def test_of_two_processes_that_compact_at_once_one_does_it(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    }
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    before = stored_rows(base_path)
    write = CompactSlice.__call__
    errors = []

    def meet(self: CompactSlice, task: Any, part: Any) -> Any:
        with new_client(base_path, **several) as other:
            try:
                other.compact(scheduled)
            except HoodieCompactionException as error:
                errors.append(str(error))
        return write(self, task, part)

    with new_client(base_path, **several) as client:
        scheduled = client.schedule_compaction()
        monkeypatch.setattr(CompactSlice, "__call__", meet)
        result = client.compact(scheduled)
    assert result is not None
    assert len(errors) == 1
    assert "is being carried out: its heartbeat" in errors[0]
    assert compactions(base_path) == [scheduled]
    assert stored_rows(base_path) == before


# --- after commits ----------------------------------------------------------------------------------------------------


def commit_often(base_path: Path, count: int, **properties: Any) -> list[Sequence[str]]:
    with new_client(base_path, **properties) as client:
        return [client.upsert(rows(("a", "x", number))).service_errors for number in range(count)]


@every_version
@pytest.mark.one_in(4)
def test_a_client_compacts_inline_if_it_is_told_to(base_path: Path) -> None:
    commit_often(base_path, 7)
    assert compactions(base_path) == []
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    assert commit_often(base_path, 1, **inline) == [()]
    assert len(compactions(base_path)) == 1
    assert commit_often(base_path, 2, **inline) == [(), ()]
    assert len(compactions(base_path)) == 1
    assert commit_often(base_path, 1, **inline) == [()]
    assert len(compactions(base_path)) == 2
    assert [row["ts"] for row in stored_rows(base_path)] == [6]


def test_write_table_compacts_after_five_delta_commits(tmp_path: Path) -> None:
    def write(path: Path, count: int, **properties: Any) -> None:
        for number in range(count):
            hoodie.write_table(
                rows(("a", "x", number)), str(path), record_key_fields="id", partition_fields="region",
                ordering_fields="ts",
                properties={**SMALL_FILTERS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", **properties},
            )  # fmt: skip

    write(tmp_path / "t", 4)
    assert compactions(tmp_path / "t") == []
    write(tmp_path / "t", 1)
    assert len(compactions(tmp_path / "t")) == 1
    write(tmp_path / "off", 6, **{"hoodie.compact.inline": "false"})
    assert compactions(tmp_path / "off") == []


@every_version
def test_a_client_only_plans_if_it_is_told_to(base_path: Path) -> None:
    planning = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    assert commit_often(base_path, 4, **planning) == [()] * 4
    assert len(pending(base_path)) == 1
    assert compactions(base_path) == []
    with new_client(base_path) as other:
        assert other.compact() is not None
    assert [row["ts"] for row in stored_rows(base_path)] == [3]


@every_version
def test_a_client_compacts_in_a_thread_beside_its_next_write(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = {
        "hoodie.datasource.compaction.async.enable": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.parquet.small.file.limit": "0",
    }
    write = CompactSlice.__call__
    may_go_on, threads = threading.Event(), []

    def wait(self: CompactSlice, task: Any, part: Any) -> Any:
        threads.append(threading.current_thread().name)
        assert may_go_on.wait(60)
        return write(self, task, part)

    monkeypatch.setattr(CompactSlice, "__call__", wait)
    with new_client(base_path, **beside) as client:
        for number in range(3):
            assert client.upsert(rows(("a", "x", number), (f"n{number}", "x", 1))).service_errors == ()
        assert len(pending(base_path)) == 1
        may_go_on.set()
    assert threads != [threading.current_thread().name]
    assert pending(base_path) == []
    assert len(compactions(base_path)) == 1
    assert [(row["id"], row["ts"]) for row in stored_rows(base_path)] == [("a", 2), ("n0", 1), ("n1", 1), ("n2", 1)]


def test_a_compaction_that_fails_does_not_fail_the_write(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: CompactSlice, task: Any, part: Any) -> Any:
        raise HoodieException("it cannot")

    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    with monkeypatch.context() as patched:
        patched.setattr(CompactSlice, "__call__", fail)
        errors = commit_often(base_path, 2, **inline)
    assert errors[0] == ()
    assert "it cannot" in errors[1][0]
    assert len(pending(base_path)) == 1
    assert [row["ts"] for row in stored_rows(base_path)] == [1]
    commit_often(base_path, 1, **inline)
    assert pending(base_path) == []
    assert len(compactions(base_path)) == 1


class FewestLogs(CompactionStrategy):
    """Takes the file group with the fewest log files."""

    def order_and_filter(self, operations: Sequence[HoodieCompactionOperation]) -> Sequence[HoodieCompactionOperation]:
        return sorted(operations, key=lambda operation: len(operation.delta_file_paths))[:1]


def test_a_strategy_of_the_users_chooses(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20), ("c", "y", 20))
    upsert(base_path, ("a", "x", 30))
    with new_client(base_path, **{"hoodie.compaction.strategy": f"{__name__}.FewestLogs"}) as client:
        scheduled = client.schedule_compaction()
    assert scheduled is not None
    assert [operation.partition_path for operation in plan_of(base_path, scheduled).operations] == ["y"]


@every_version
def test_an_empty_plan_of_a_process_that_died_is_removed(base_path: Path) -> None:
    upsert(base_path, *FIRST)
    upsert(base_path, ("a", "x", 20))
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    dead = timeline.create_new_instant_time(Action.COMPACTION)
    with new_client(base_path) as client:
        result = client.compact()
    assert result is not None
    assert result.instant_time != dead
    assert pending(base_path) == []
    assert [row["ts"] for row in stored_rows(base_path)] == [20, 10, 10]
