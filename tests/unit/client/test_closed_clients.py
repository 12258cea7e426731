"""A closed client does nothing, and what it says of instants that it leaves behind is so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, ProgressEvent
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException, HoodieIOException
from hoodie.table.action.rollback.rollback_service import RollbackService

ROWS = pa.table({"id": ["a"], "ts": [1]})


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", ordering_fields="ts")
    return path


def client_of(base_path: str, **properties: Any) -> HoodieLocalWriteClient:
    given = {"hoodie." + key.replace("_", "."): value for key, value in properties.items()}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, given))


CALLS: dict[str, Callable[[HoodieLocalWriteClient, str, Any], object]] = {
    "upsert": lambda c, instant, result: c.upsert(ROWS),
    "insert": lambda c, instant, result: c.insert(ROWS),
    "bulk_insert": lambda c, instant, result: c.bulk_insert(ROWS),
    "upsert_prepped_records": lambda c, instant, result: c.upsert_prepped_records(ROWS),
    "insert_prepped_records": lambda c, instant, result: c.insert_prepped_records(ROWS),
    "bulk_insert_prepped_records": lambda c, instant, result: c.bulk_insert_prepped_records(ROWS),
    "delete": lambda c, instant, result: c.delete(ROWS),
    "delete_prepped_records": lambda c, instant, result: c.delete_prepped_records(ROWS),
    "insert_overwrite": lambda c, instant, result: c.insert_overwrite(ROWS),
    "insert_overwrite_table": lambda c, instant, result: c.insert_overwrite_table(ROWS),
    "delete_partitions": lambda c, instant, result: c.delete_partitions([""]),
    "explain_upsert": lambda c, instant, result: c.explain_upsert(ROWS),
    "start_commit": lambda c, instant, result: c.start_commit(),
    "start_commit_with_time": lambda c, instant, result: c.start_commit_with_time("20991231000000000"),
    "commit": lambda c, instant, result: c.commit(instant, result),
    "rollback": lambda c, instant, result: c.rollback(instant),
    "rollback_failed_writes": lambda c, instant, result: c.rollback_failed_writes(),
    "clean": lambda c, instant, result: c.clean(),
    "archive": lambda c, instant, result: c.archive(),
    "sync_catalogs": lambda c, instant, result: c.sync_catalogs(),
    "compact": lambda c, instant, result: c.compact(),
    "schedule_log_compaction": lambda c, instant, result: c.schedule_log_compaction(),
    "log_compact": lambda c, instant, result: c.log_compact(),
    "schedule_clustering": lambda c, instant, result: c.schedule_clustering(),
    "cluster": lambda c, instant, result: c.cluster(),
    "explain_clustering": lambda c, instant, result: c.explain_clustering(),
    "pending_clusterings": lambda c, instant, result: c.pending_clusterings(),
    "expire_partitions": lambda c, instant, result: c.expire_partitions(),
    "compact_by_default": lambda c, instant, result: c.compact_by_default(),
    "refuse_writes_beyond": lambda c, instant, result: c.refuse_writes_beyond(None),
    "check_before_completion": lambda c, instant, result: c.check_before_completion(None),
    "go_on_from": lambda c, instant, result: c.go_on_from(TableSnapshot.load(c.config.base_path)),
    "salvage_log_file": lambda c, instant, result: c.salvage_log_file(".f-0_1.log.1_0-0-0"),
    "schedule_compaction": lambda c, instant, result: c.schedule_compaction(),
    "post_commit": lambda c, instant, result: c.post_commit(instant),
    "savepoint": lambda c, instant, result: c.savepoint(),
    "delete_savepoint": lambda c, instant, result: c.delete_savepoint(instant),
    "restore_to_savepoint": lambda c, instant, result: c.restore_to_savepoint(instant),
    "restore_to_instant": lambda c, instant, result: c.restore_to_instant(instant),
    "create_index": lambda c, instant, result: c.create_index("by_ts", "ts"),
    "drop_index": lambda c, instant, result: c.drop_index("by_ts"),
    "schedule_indexing": lambda c, instant, result: c.schedule_indexing(["record_index"]),
    "index": lambda c, instant, result: c.index("20991231000000000"),
    "__enter__": lambda c, instant, result: c.__enter__(),
}


def test_every_public_call_is_tried() -> None:
    public = {name for name in dir(HoodieLocalWriteClient) if not name.startswith("_")}
    methods = {name for name in public if callable(getattr(HoodieLocalWriteClient, name))}
    assert methods == CALLS.keys() - {"__enter__"} | {"close"}
    properties = {"config", "engine_context", "metrics", "service_errors", "sql_validators", "supported_indexes"}
    assert public - methods == properties


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_client_refuses_every_call(base_path: str, name: str) -> None:
    hoodie.write_table(ROWS, base_path)
    client = client_of(base_path, auto_commit=False)
    instant_time = client.start_commit()
    result = client.upsert(pa.table({"id": ["a"], "ts": [2]}), instant_time)
    client.close()
    before = HoodieTableMetaClient.load(base_path).active_timeline.instants
    with pytest.raises(HoodieException, match="is closed, by close.*Make a new HoodieLocalWriteClient"):
        CALLS[name](client, instant_time, result)
    assert HoodieTableMetaClient.load(base_path).active_timeline.instants == before
    assert hoodie.read_table(base_path)["ts"].to_pylist() == [1]


def test_a_closed_client_can_be_closed_again_and_be_asked_what_it_did(
    base_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(base_path, auto_commit=False) as client:
        client.upsert(ROWS)
    assert caplog.text.count("is closed, and") == 1
    client.close()
    assert caplog.text.count("is closed, and") == 1
    assert client.config.base_path == base_path
    assert "write buckets" in [step.name for step in client.metrics.steps]
    assert client.service_errors == ()


def test_a_commit_stands_though_a_callback_closes_its_client(base_path: str) -> None:
    def close(event: ProgressEvent) -> None:
        if event.step == "delete markers":
            client.close()

    client = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, {}), on_progress=close)
    result = client.upsert(ROWS)
    assert result.is_committed
    assert result.service_errors == ("no table service ran: the client was closed while it wrote",)


# --- the warning --------------------------------------------------------------------------------------------------


def test_closing_names_no_instant_that_this_client_has_rolled_back(
    base_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(base_path, auto_commit=False) as client:
        client.start_commit()
        last = client.start_commit()
        client.commit(last, client.upsert(ROWS, last))
    assert "is closed" not in caplog.text


@pytest.mark.parametrize("way", ["rolled back", "restored over"])
def test_closing_names_no_instant_that_somebody_else_has_undone(
    base_path: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = hoodie.write_table(ROWS, base_path).instant_time
    with client_of(base_path, auto_commit=False) as client:
        instant_time = client.upsert(ROWS).instant_time
        with client_of(base_path) as other:
            assert other.rollback(instant_time) if way == "rolled back" else other.restore_to_instant(first)
    assert "is closed" not in caplog.text


def test_closing_says_of_an_instant_without_rows_that_it_was_never_written(
    base_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(base_path) as client:
        instant_time = client.start_commit()
    assert f"{instant_time} was started and never written" in caplog.text
    assert "the next start_commit() rolls it back" in caplog.text
    assert "client.commit" not in caplog.text


@pytest.mark.parametrize("auto_commit", [True, False])
def test_closing_advises_no_commit_of_a_write_that_failed(
    base_path: str, auto_commit: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise HoodieIOException("the disk is full")

    client = client_of(base_path, auto_commit=auto_commit)
    monkeypatch.setattr(RollbackService, "give_up", fails)
    monkeypatch.setattr("hoodie.table.action.commit.base_commit_action_executor.unpack", fails)
    with pytest.raises(HoodieIOException, match="the disk is full"):
        client.upsert(ROWS)
    monkeypatch.undo()
    caplog.clear()
    client.close()
    assert (
        "failed and is not rolled back: readers do not see its rows; the next start_commit() rolls it back"
        in caplog.text
    )
    assert "client.commit" not in caplog.text


def test_closing_says_so_where_the_table_cannot_be_looked_at(
    base_path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise HoodieIOException("no route to host")

    client = client_of(base_path, auto_commit=False)
    instant_time = client.upsert(ROWS).instant_time
    monkeypatch.setattr("hoodie.table.table_session.load_table", fails)
    client.close()
    assert f"whether {instant_time} is still pending could not be found out (no route to host)" in caplog.text


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_closing_leaves_no_heartbeat(base_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(
        base_path,
        write_concurrency_mode="OPTIMISTIC_CONCURRENCY_CONTROL",
        write_lock_provider="InProcessLockProvider",
        cleaner_policy_failed_writes="LAZY",
    )
    instant_time = client.start_commit()
    [heart] = [thread for thread in threading.enumerate() if instant_time in thread.name]
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(client._services, "wait", interrupt)
        client.close()
    heart.join(60)
    assert not heart.is_alive()
    client.close()


@pytest.mark.parametrize("interrupted", ["closing", "rollback"])
def test_an_interrupted_end_gives_the_lock_of_a_single_writer_back(
    base_path: str, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    client = client_of(base_path, auto_commit=False)
    client.start_commit()
    assert client._transactions.keeps_processes_apart
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        if interrupted == "closing":
            patched.setattr(client._services, "wait", interrupt)
            client.close()
        else:
            patched.setattr(client, "_try_rollback", interrupt)
            with client:
                raise ValueError
    assert not client._transactions.keeps_processes_apart
    client.close()


def test_an_interrupted_closing_leaves_the_lock_to_a_service_at_work(
    base_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(base_path, auto_commit=False)
    client.start_commit()
    with client._transactions.alone():
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(client._services, "wait", interrupt)
            client.close()
        assert client._transactions.keeps_processes_apart
    assert not client._transactions.keeps_processes_apart
    client.close()
