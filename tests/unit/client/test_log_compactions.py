"""Log compactions: what is planned, what is written, and that every query gives the same rows before and after."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCompactionException, HoodieNotSupportedException, HoodieWriteConflictException
from hoodie.io.append_handle import HoodieAppendHandle
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.table.action.compact.run_log_compaction_action_executor import LogCompactSlice
from hoodie.table.action.compact.schedule_log_compaction_action_executor import ScheduleLogCompactionActionExecutor
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, init_table, local_client, rows
from tests.support.timeline_files import read_commit

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", **SMALL_FILTERS}
THREE = {"hoodie.log.compaction.blocks.threshold": "3"}
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**NO_SERVICES, **THREE, **properties})


def upsert(base_path: Path, *entries: tuple[Any, ...], **properties: Any) -> str:
    with new_client(base_path, **properties) as client:
        result = client.upsert(rows(*entries))
    assert result.service_errors == ()
    return result.instant_time


def delete(base_path: Path, *keys: str) -> str:
    with new_client(base_path) as client:
        return client.delete([HoodieKey(key, "x") for key in keys]).instant_time


def history(base_path: Path) -> list[str]:
    """A base file of a to e in x, and one of f in y; then log files of x: two upserts, a delete, an upsert."""
    return [
        upsert(base_path, *((key, "x", 10) for key in "abcde"), ("f", "y", 10)),
        upsert(base_path, ("a", "x", 20), ("b", "x", 20)),
        upsert(base_path, ("b", "x", 30), ("c", "x", 30)),
        delete(base_path, "d", "b"),
        upsert(base_path, ("a", "x", 15), ("c", "x", 40), ("f", "y", 20)),
    ]


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    table = table.drop_columns([name for name in ("_hoodie_file_name",) if name in table.column_names])
    return sorted(table.to_pylist(), key=lambda row: (row["_hoodie_record_key"], row["_hoodie_commit_time"]))


def read(base_path: Path, **options: Any) -> list[dict[str, Any]]:
    return in_order(hoodie.read_table(str(base_path), **options))


def by_hudi_rs(base_path: Path) -> list[dict[str, Any]]:
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    return in_order(pa.Table.from_batches(batches)) if batches else []


def everything(base_path: Path, times: list[str]) -> dict[str, list[dict[str, Any]]]:
    """What every query gives, as of every commit and from every commit on."""
    found = {"now": read(base_path), "hudi-rs": by_hudi_rs(base_path)}
    for time in times:
        found[f"as of {time}"] = read(base_path, as_of=time)
        found[f"since {time}"] = in_order(hoodie.read_table(str(base_path), query_type="incremental", begin=time))
    return found


def timeline_of(base_path: Path) -> Any:
    return HoodieTableMetaClient.load(str(base_path)).active_timeline


def plan_of(base_path: Path, instant_time: str) -> HoodieCompactionPlan:
    requested = HoodieInstant(instant_time, Action.LOG_COMPACTION, State.REQUESTED)
    return timeline_of(base_path).read_as(requested, HoodieCompactionPlan)


def logs(base_path: Path, partition: str = "x") -> list[str]:
    return sorted(file.name for file in (base_path / partition).iterdir() if ".log." in file.name)


def log_compact(base_path: Path, **properties: Any) -> Any:
    with new_client(base_path, **properties) as client:
        return client.log_compact()


@every_version
def test_every_query_gives_the_same_rows_before_and_after(base_path: Path) -> None:
    times = history(base_path)
    before = everything(base_path, times)
    assert [(row["id"], row["ts"]) for row in before["now"]] == [("a", 20), ("c", 40), ("e", 10), ("f", 20)]
    result = log_compact(base_path)
    assert result.operation is WriteOperationType.LOG_COMPACT
    assert everything(base_path, times) == before
    # Its own commit gives no changes.
    assert read(base_path, query_type="incremental", begin=result.instant_time) == []
    assert everything(base_path, [result.instant_time])[f"as of {result.instant_time}"] == before["now"]
    after = [upsert(base_path, ("e", "x", 50)), delete(base_path, "a")]
    assert [(row["id"], row["ts"]) for row in read(base_path)] == [("c", 40), ("e", 50), ("f", 20)]
    assert by_hudi_rs(base_path) == read(base_path)
    for time in times:
        assert read(base_path, as_of=time) == before[f"as of {time}"]
    with new_client(base_path) as client:
        rows_now = read(base_path)
        assert client.compact() is not None
        assert read(base_path) == rows_now == by_hudi_rs(base_path)
        assert not list(timeline_of(base_path).filter_pending())
    assert after
    assert hoodie.Table(str(base_path)).validate().is_right


@every_version
def test_the_files_are_those_of_hudi(base_path: Path, table_version: int) -> None:
    times = history(base_path)
    before = logs(base_path)
    with new_client(base_path) as client:
        instant_time = client.schedule_log_compaction()
        assert instant_time is not None
        assert client.schedule_log_compaction() is None
        plan = plan_of(base_path, instant_time)
        assert client.log_compact(instant_time) is not None
        assert client.log_compact(instant_time) is None
    (operation,) = plan.operations
    assert (operation.partition_path, operation.base_instant_time) == ("x", times[0])
    assert list(operation.delta_file_paths) == before
    assert plan.preserve_hoodie_metadata
    assert plan.version == 2
    assert plan.strategy == {
        "compactorClassName": "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper",
        "strategyParams": {},
        "version": 1,
    }
    (own,) = set(logs(base_path)) - set(before)
    named = times[0] if table_version == 6 else instant_time
    version = 5 if table_version == 6 else 1
    assert own.startswith(f".{operation.file_id}_{named}.log.{version}_")
    blocks = list(read_log_blocks((base_path / "x" / own).read_bytes(), own))
    assert [block.block_type for block in blocks] == [HoodieLogBlockType.AVRO_DATA, HoodieLogBlockType.DELETE]
    for block in blocks:
        assert block.instant_time == instant_time
        assert block.headers[HeaderMetadataType.COMPACTED_BLOCK_TIMES] == ",".join(times[1:])
        assert HeaderMetadataType.RECORD_POSITIONS not in block.headers
        assert block.schema is not None
    metadata = read_commit(base_path, instant_time)
    assert (metadata.operation_type, metadata.compacted) == (WriteOperationType.LOG_COMPACT, True)
    (stat,) = metadata.write_stats
    assert (stat.prev_commit, stat.num_writes, stat.num_update_writes, stat.num_deletes) == (times[0], 2, 2, 2)
    assert (stat.total_log_files_compacted, stat.total_log_blocks) == (4, 4)
    assert (stat.total_log_records, stat.total_updated_records_compacted) == (8, 4)
    assert (stat.log_version, stat.log_offset) == (version, 0)
    if table_version == 6:
        assert stat.log_files == (*reversed(before), own)
        assert stat.base_file == operation.data_file_path
    else:
        assert stat.log_files == (own,)
        assert stat.base_file == ""
    # The log files of v8 and later are whole files of their instants.
    assert sorted(set(before)) == sorted(set(logs(base_path)) - {own})


@every_version
def test_slices_with_few_blocks_and_those_compacted_already_are_left_alone(base_path: Path) -> None:
    history(base_path)
    assert log_compact(base_path) is not None
    assert log_compact(base_path) is None
    upsert(base_path, ("a", "x", 60))
    # Two blocks of the log compaction, and one of the upsert.
    second = log_compact(base_path)
    assert second is not None
    assert [(row["id"], row["ts"]) for row in read(base_path)] == [("a", 60), ("c", 40), ("e", 10), ("f", 20)]
    assert by_hudi_rs(base_path) == read(base_path)


@every_version
def test_inline_log_compactions_follow_enough_commits(base_path: Path) -> None:
    inline = {"hoodie.log.compaction.inline": "true"}
    operations = []
    for number in range(8):
        upsert(base_path, ("a", "x", number), ("b", "x", number), **inline)
        timeline = timeline_of(base_path)
        operations = [timeline.read_commit_metadata(one).operation_type.value for one in timeline.completed_writes()]
        assert [(row["id"], row["ts"]) for row in read(base_path)] == [("a", number), ("b", number)]
    assert operations == [
        "UPSERT", "UPSERT", "UPSERT", "UPSERT", "LOG_COMPACT", "UPSERT", "UPSERT", "UPSERT", "LOG_COMPACT", "UPSERT",
    ]  # fmt: skip
    assert by_hudi_rs(base_path) == read(base_path)


@every_version
def test_nothing_is_planned_beside_a_pending_write(base_path: Path) -> None:
    history(base_path)
    with new_client(base_path, **{"hoodie.auto.commit": "false"}) as client:
        client.upsert(rows(("a", "x", 90)))
    with new_client(base_path, **{"hoodie.clean.failed.writes.policy": "NEVER"}) as client:
        assert client.schedule_log_compaction() is None
        client.rollback_failed_writes()
    with new_client(base_path) as client:
        client.rollback_failed_writes()
        assert client.schedule_log_compaction() is not None


@every_version
def test_a_plan_waits_for_writes_whose_log_files_may_come_between(
    base_path: Path, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = history(base_path)
    with new_client(base_path, **{"hoodie.auto.commit": "false"}) as client:
        client.upsert(rows(("a", "x", 90)))
    with new_client(base_path) as client:
        # Hudi plans in versions 8 and 9 beside pending writes.
        monkeypatch.setattr(ScheduleLogCompactionActionExecutor, "_pending_writes", lambda self: [])
        planned = client.schedule_log_compaction()
        with pytest.raises(HoodieCompactionException, match="is not carried out while .* is pending"):
            client.log_compact(planned)
        before = everything(base_path, times)
        client.rollback_failed_writes()
        assert client.log_compact(planned).statuses != ()
        assert everything(base_path, times) == before


@every_version
def test_deletes_keep_their_ordering_values(base_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with new_client(base_path) as client:
        client.upsert(rows(("a", "x", 10, False), ("b", "x", 10, False), schema=schema))
        client.upsert(rows(("a", "x", 20, False), schema=schema))
        client.upsert(rows(("a", "x", 30, True), schema=schema))
        client.upsert(rows(("b", "x", 20, False), schema=schema))
        assert client.log_compact() is not None
        assert [row["id"] for row in read(base_path)] == ["b"] == [row["id"] for row in by_hudi_rs(base_path)]
        client.upsert(rows(("a", "x", 25, False), schema=schema))
        assert [row["id"] for row in read(base_path)] == ["b"]
        client.upsert(rows(("a", "x", 35, False), schema=schema))
        assert [(row["id"], row["ts"]) for row in read(base_path)] == [("a", 35), ("b", 20)]


@every_version
def test_a_later_write_that_ends_before_keeps_its_rows(base_path: Path, table_version: int) -> None:
    times = history(base_path)
    with new_client(base_path) as client:
        planned = client.schedule_log_compaction()
    times.append(upsert(base_path, ("a", "x", 99), ("c", "x", 1)))
    before = everything(base_path, times)
    with new_client(base_path) as client:
        result = client.log_compact(planned)
    # In version 6 the log file would come after that of the upsert.
    assert len(result.statuses) == (0 if table_version == 6 else 1)
    assert everything(base_path, times) == before


@every_version
def test_a_write_that_ends_meanwhile_is_seen(
    base_path: Path, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = history(base_path)
    run = LogCompactSlice.__call__

    def beside(self: LogCompactSlice, *arguments: Any) -> Any:
        monkeypatch.setattr(LogCompactSlice, "__call__", run)
        times.append(upsert(base_path, ("a", "x", 99), ("c", "x", 1)))
        return run(self, *arguments)

    with new_client(base_path) as client:
        monkeypatch.setattr(LogCompactSlice, "__call__", beside)
        if table_version == 6:
            with pytest.raises(HoodieWriteConflictException, match="run it again|Run it again"):
                client.log_compact()
        else:
            assert client.log_compact() is not None
        before = [(row["id"], row["ts"]) for row in read(base_path)]
        assert before == [("a", 99), ("c", 40), ("e", 10), ("f", 20)]
        client.log_compact()
        assert [(row["id"], row["ts"]) for row in read(base_path)] == before
    assert by_hudi_rs(base_path) == read(base_path)


@every_version
def test_a_slice_that_was_compacted_or_replaced_since_is_left_out(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(base_path)
    with new_client(base_path) as client:
        planned = client.schedule_log_compaction()
        assert planned is not None
        # Hudi plans compactions of file groups that a pending log compaction has.
        monkeypatch.setattr(
            "hoodie.table.action.compact.compaction_planner.file_groups_of_pending_services", lambda timeline: set()
        )
        compaction = client.schedule_compaction()
        before = read(base_path)
        result = client.log_compact(planned)
        assert result.statuses == ()
        assert read(base_path) == before
        assert client.compact(compaction) is not None
        assert read(base_path) == before == by_hudi_rs(base_path)


@every_version
def test_a_compaction_leaves_out_what_a_log_compaction_has(base_path: Path) -> None:
    history(base_path)
    with new_client(base_path) as client:
        planned = client.schedule_log_compaction()
        done = client.compact()
        assert done is not None
        assert [status.partition_path for status in done.statuses] == ["y"]
        assert client.log_compact(planned).statuses != ()


@every_version
def test_what_was_merged_cannot_be_rolled_back_before_the_log_compaction(base_path: Path) -> None:
    times = history(base_path)
    result = log_compact(base_path)
    before = everything(base_path, times)
    with new_client(base_path) as client:
        with pytest.raises(hoodie.exception.HoodieRollbackException, match="later ones exist"):
            client.rollback(times[-1])
        assert client.rollback(result.instant_time)
        assert everything(base_path, times) == before
        assert not [one for one in timeline_of(base_path) if one.requested_time == result.instant_time]
        assert client.rollback(times[-1])
        assert [(row["id"], row["ts"]) for row in read(base_path)] == [("a", 20), ("c", 30), ("e", 10), ("f", 10)]
        assert by_hudi_rs(base_path) == read(base_path)


@every_version
def test_a_restore_takes_log_compactions_back(base_path: Path) -> None:
    times = history(base_path)
    expected = read(base_path, as_of=times[2])
    result = log_compact(base_path)
    upsert(base_path, ("e", "x", 70))
    with new_client(base_path) as client:
        client.restore_to_instant(times[2])
    assert read(base_path) == expected == by_hudi_rs(base_path)
    assert not [one for one in timeline_of(base_path) if one.requested_time == result.instant_time]
    assert hoodie.Table(str(base_path)).validate().is_right


@every_version
def test_a_failed_attempt_is_rolled_back_and_run_again(
    base_path: Path, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = history(base_path)
    before = everything(base_path, times)
    before_logs = logs(base_path)
    run = LogCompactSlice.__call__

    def failing(self: LogCompactSlice, *arguments: Any) -> Any:
        run(self, *arguments)
        raise RuntimeError("no more")

    with new_client(base_path) as client:
        planned = client.schedule_log_compaction()
        monkeypatch.setattr(LogCompactSlice, "__call__", failing)
        with pytest.raises(RuntimeError, match="no more"):
            client.log_compact(planned)
        monkeypatch.setattr(LogCompactSlice, "__call__", run)
        assert everything(base_path, times) == before
        found = timeline_of(base_path).find(planned, Action.LOG_COMPACTION)
        assert found.is_requested
        result = client.log_compact()
        assert result.instant_time == planned
        assert everything(base_path, times) == before
    # In version 6 a command block takes the blocks of the first attempt back.
    assert len(logs(base_path)) == len(before_logs) + (3 if table_version == 6 else 1)


def test_rows_that_are_merged_by_columns_are_refused(tmp_path: Path) -> None:
    path = Path(
        init_table(
            tmp_path / "p", table_type="MERGE_ON_READ",
            payload_class="org.apache.hudi.common.model.PartialUpdateAvroPayload",
        )
    )  # fmt: skip
    for number in range(4):
        upsert(path, ("a", "x", number), **{"hoodie.log.compaction.inline": "true"})
    with new_client(path) as client, pytest.raises(HoodieNotSupportedException, match="Compact it instead"):
        client.schedule_log_compaction()


@every_version
@pytest.mark.parametrize("ordering_fields", [[], ["ts"]], ids=["commit_time", "event_time"])
@pytest.mark.parametrize("seed", range(3))
def test_every_query_at_every_time_equals_the_model(
    tmp_path: Path, table_version: int, ordering_fields: list[str], seed: int
) -> None:
    rng = random.Random(f"{seed} {table_version} {ordering_fields}")
    path = Path(init_table(tmp_path / "m", table_type="MERGE_ON_READ", ordering_fields=ordering_fields))
    keys = [(f"k{number}", "xy"[number % 2]) for number in range(8)]
    now: dict[str, tuple[int, str]] = {}
    states: dict[str, dict[str, tuple[int, str]]] = {}
    operations = []
    deleted: set[str] = set()
    with new_client(path, **{"hoodie.log.compaction.blocks.threshold": "2"}) as client:
        for step in range(26):
            kind = rng.choice(["upsert", "upsert", "upsert", "delete", "log_compact", "log_compact", "compact"])
            kind = {0: "upsert", 5: "upsert", 6: "upsert", 7: "log_compact"}.get(step, kind)
            some = keys if step in (0, 5, 6) else rng.sample(keys, rng.choice([1, 2, 4]))
            if kind == "upsert":
                # Behind a delete of it in the log files, a row of the base file would win against a smaller one.
                values = {key: rng.randrange(100) + 100 * step * (key in deleted) for key, _ in some}
                time = client.upsert(rows(*((key, region, values[key]) for key, region in some))).instant_time
                for key, value in values.items():
                    if not ordering_fields or key not in now or value >= now[key][0]:
                        now[key] = (value, time)
            elif kind == "delete":
                time = client.delete([HoodieKey(key, region) for key, region in some]).instant_time
                deleted.update(key for key, _ in some)
                for key, _ in some:
                    now.pop(key, None)
            else:
                done = getattr(client, kind)()
                if done is None or not done.statuses:
                    continue
                time = done.instant_time
            operations.append(kind)
            states[time] = dict(now)
            assert model_of(read(path)) == now, (step, kind)
    assert "log_compact" in operations
    assert model_of(by_hudi_rs(path)) == now
    timeline = timeline_of(path)
    ends = {one.requested_time: one.newest_time for one in timeline.completed_writes()}
    for time, state in states.items():
        assert model_of(read(path, as_of=time)) == state, time
        changed = {key: row for key, row in now.items() if row[1] > time}
        assert model_of(read(path, query_type="incremental", begin=ends[time])) == changed, time
    assert hoodie.Table(str(path)).validate().is_right


def model_of(found: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    """Key to value and commit time."""
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["ts"], row["_hoodie_commit_time"]) for row in found}


@every_version
def test_statistics_of_partitions_count_the_log_file_of_an_older_plan(base_path: Path, table_version: int) -> None:
    """The metadata table merges by the times of requests: the record of the upsert would hide that of the plan."""
    indexed = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    for ts in range(4):
        upsert(base_path, ("a", "x", ts), **indexed)
    with new_client(base_path, **indexed) as client:
        planned = client.schedule_log_compaction()
        assert planned is not None
        client.upsert(rows(("a", "x", 9)))
        done = client.log_compact(planned)
        assert done is not None
        # In version 6, a slice with a later log file is left out.
        assert len(done.statuses) == (0 if table_version == 6 else 1)
        for _ in range(2):
            result = hoodie.metadata.validate(str(base_path))
            assert result.is_right, str(result)
            client.upsert(rows(("a", "x", 10)))


@pytest.mark.parametrize("name", ["v6_logcompact", "v9_logcompact"])
def test_tables_of_real_hudi_are_log_compacted_again_and_compacted(
    serviced_tables: Path, tmp_path: Path, name: str
) -> None:
    (source,) = [
        folder.parent for folder in (serviced_tables / name).rglob(".hoodie") if folder.parent.name != ".hoodie"
    ]
    path = tmp_path / "t"
    shutil.copytree(source, path)
    before = read(path)
    with local_client(path, {**NO_SERVICES, "hoodie.log.compaction.blocks.threshold": "2"}) as client:
        done = client.log_compact()
        assert done is not None
        assert len(done.statuses) == 2
        assert read(path) == before == by_hudi_rs(path)
        changed = pa.Table.from_pylist([row for row in before[:1]]).drop_columns(
            [name for name in before[0] if name.startswith("_hoodie_")]
        )
        client.upsert(changed)
        client.log_compact()
        values = [[row[field] for field in row if not field.startswith("_hoodie_")] for row in before]
        assert [[row[field] for field in row if not field.startswith("_hoodie_")] for row in read(path)] == values
        assert client.compact() is not None
        assert [[row[field] for field in row if not field.startswith("_hoodie_")] for row in read(path)] == values
    assert read(path) == by_hudi_rs(path)


@every_version
def test_several_writers_do_not_conflict_with_a_log_compaction(
    base_path: Path, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    history(base_path)
    with new_client(base_path, **several) as writer, new_client(base_path, **several) as compactor:
        planned = compactor.schedule_log_compaction()
        append, done = HoodieAppendHandle.write, []

        def beside(self: HoodieAppendHandle, *arguments: Any) -> Any:
            if not done:
                done.append(True)
                if table_version == 6:
                    # The version of the writer's log file is chosen already.
                    with pytest.raises(HoodieCompactionException, match="is pending"):
                        compactor.log_compact(planned)
                else:
                    assert compactor.log_compact(planned).statuses != ()
            return append(self, *arguments)

        monkeypatch.setattr(HoodieAppendHandle, "write", beside)
        assert writer.upsert(rows(("a", "x", 99), ("e", "x", 99))).is_committed
        assert done
    found = [(row["id"], row["ts"]) for row in read(base_path)]
    assert found == [("a", 99), ("c", 40), ("e", 99), ("f", 20)]
    assert by_hudi_rs(base_path) == read(base_path)
