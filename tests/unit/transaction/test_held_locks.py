"""The lock of a block that changes a metadata table: the table's lock first, then the mutex of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException, HoodieIndexException
from hoodie.table.action.completion import complete_instant
from hoodie.transaction import transaction_manager
from hoodie.transaction.transaction_manager import TransactionManager
from tests.support.table_builder import init_table, local_client, read_rows, rows, write_config

SEVERAL = {
    "hoodie__write__concurrency__mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie__write__lock__provider": "InProcessLockProvider",
    "hoodie__cleaner__policy__failed__writes": "LAZY",
}


@pytest.mark.parametrize("properties", [{}, SEVERAL], ids=["single writer", "several writers"])
def test_the_blocks_of_two_threads_do_not_overlap(tmp_path: Path, properties: dict[str, str]) -> None:
    """A single writer's lock keeps processes apart; the mutex does so with its threads."""
    init_table(tmp_path)
    config = write_config(tmp_path, **properties)
    inside: list[int] = []
    most = []

    def change() -> None:
        snapshot = TableSnapshot.load(str(tmp_path))
        with closing(TransactionManager(config)) as transactions:
            for _ in range(3):
                with transactions.held(snapshot, "test"):
                    inside.append(1)
                    most.append(len(inside))
                    time.sleep(0.01)
                    inside.pop()

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 6


def test_the_lock_is_held_before_the_mutex_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init_table(tmp_path)
    snapshot, events = TableSnapshot.load(str(tmp_path)), []
    mutex: Callable[[TableSnapshot], AbstractContextManager[None]] = transaction_manager.one_at_a_time

    @contextmanager
    def told(table: TableSnapshot) -> Iterator[None]:
        events.append(("mutex", manager.is_locked))
        with mutex(table):
            yield
        events.append(("free", manager.is_locked))

    class Manager:
        is_locked = False

        def __init__(self, *arguments: Any) -> None:
            self.provider = self
            self.name = "a lock"

        def lock(self, is_patient: bool) -> None:
            Manager.is_locked = True

        def unlock(self) -> bool:
            Manager.is_locked = False
            return True

        def close(self) -> None:
            pass

    manager = Manager
    monkeypatch.setattr(transaction_manager, "one_at_a_time", told)
    monkeypatch.setattr(transaction_manager, "LockManager", Manager)
    with closing(TransactionManager(write_config(tmp_path, **SEVERAL))) as transactions:
        with transactions.held(snapshot, "test"):
            events.append(("block", manager.is_locked))
        with pytest.raises(ValueError, match="x"), transactions.held(snapshot, "test"):
            raise ValueError("x")
    assert events[:3] == [("mutex", True), ("block", True), ("free", True)]
    assert not manager.is_locked


@pytest.mark.table_version(9)
def test_an_index_is_made_while_services_run_in_threads(tmp_path: Path) -> None:
    """Cleans in a thread complete instants; the index is built and dropped meanwhile: nobody waits for ever."""
    init_table(tmp_path)
    on = {"hoodie.metadata.enable": "true", "hoodie.clean.async": "true", "hoodie.cleaner.commits.retained": "1"}
    done: list[int] = []

    def work() -> None:
        with local_client(tmp_path, on) as client:
            for number in range(6):
                client.upsert(rows(("a", "x", number + 1)))
                with suppress(HoodieIndexException):
                    # It is refused where a clean is pending just then.
                    client.create_index("by_region", "region")
                    client.drop_index("by_region")
        done.append(1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(120)
    assert done
    assert read_rows(tmp_path) == [("a", "x", 6)]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_write_is_not_rolled_back_while_another_thread_commits_it(
    tmp_path: Path, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of one process take each other's pending writes for failed: a commit must not meet their rollback."""
    path = str(tmp_path / "t")

    def write(key: str) -> None:
        hoodie.write_table(pa.table({"id": [key]}), path, record_key_fields="id", table_type=table_type)

    write("first")
    rollbacks_meanwhile: list[int] = []
    told: list[str] = ["first", "a"]

    def other() -> None:
        with suppress(HoodieException):
            write("b")
            told.append("b")

    thread = threading.Thread(target=other)

    def while_another_begins(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        thread.start()
        thread.join(1)
        timeline = TableSnapshot.load(path).active_timeline
        rollbacks_meanwhile.append(len(timeline.filter_actions(Action.ROLLBACK)))
        return complete_instant(*arguments, **named)

    monkeypatch.setattr("hoodie.client.committer.complete_instant", while_another_begins)
    write("a")
    thread.join(60)
    assert rollbacks_meanwhile == [0]
    assert sorted(hoodie.read_table(path, columns="id")["id"].to_pylist()) == sorted(told)
