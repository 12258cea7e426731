"""The locks of a table as `hoodie.Table.locks` shows and breaks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from hoodie import HoodieWriteConfig, Table
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.process_identity import describe_process
from hoodie.exception import HoodieLockException
from hoodie.interface.locks import TableLock
from hoodie.transaction.transaction_manager import TransactionManager

ROWS = pa.table({"id": ["a"], "ts": [1]})
SEVERAL = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
FILE_SYSTEM = {**SEVERAL, "hoodie.write.lock.provider": "FileSystemBasedLockProvider"}
STORAGE = {**SEVERAL, "hoodie.write.lock.provider": "StorageBasedLockProvider"}


@pytest.fixture
def table(tmp_path: Path, table_version: int) -> Table:
    """A table of one row."""
    return Table.create(tmp_path / "trips", ROWS, record_key_fields="id", table_version=table_version)


def lock_of(table: Table, kind: str, **properties: str) -> TableLock:
    """The lock of one kind."""
    (found,) = (lock for lock in Table(table.path, properties=properties).locks() if lock.kind == kind)
    return found


def test_a_table_that_nobody_writes_has_a_free_lock(table: Table) -> None:
    before = {path for path in Path(table.path).rglob("*")}
    (lock,) = table.locks()
    assert (lock.kind, lock.state, lock.holder) == ("single writer", "free", None)
    assert Table(table.path, properties={"hoodie.write.lock.single.writer.enable": "false"}).locks()[:] == ()
    assert {path for path in Path(table.path).rglob("*")} == before


def test_a_single_writer_of_another_process_is_named_and_cannot_be_broken(table: Table) -> None:
    program = f"""
import sys
from hoodie import HoodieWriteConfig
from hoodie.transaction.transaction_manager import TransactionManager
with TransactionManager(HoodieWriteConfig.from_properties({table.path!r}, {{}})).alone():
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        (lock,) = table.locks()
        assert lock.state == "held"
        assert f"process {process.pid} on " in str(lock.holder)
        with pytest.raises(HoodieLockException, match="Let that process finish"):
            table.break_lock(lock)
        assert table.locks()[0].state == "held"
        process.communicate()
    assert table.locks()[0].state == "free"


@pytest.mark.parametrize("options", [FILE_SYSTEM, STORAGE], ids=["file system", "storage"])
def test_a_lock_that_is_broken_lets_others_in_and_its_holder_notices(table: Table, options: dict[str, str]) -> None:
    kind = options["hoodie.write.lock.provider"]
    config = HoodieWriteConfig.from_properties(table.path, options)
    manager = TransactionManager(config)
    snapshot = TableSnapshot.load(table.path, None)
    with manager.transaction(snapshot, "a test") as transaction:
        seen = lock_of(table, kind, **options)
        assert (seen.state, f"process {os.getpid()}" in str(seen.holder)) == ("held", True)
        # Who reads no configuration sees it too.
        assert lock_of(table, kind) == seen or seen.age_seconds is not None
        assert not table.break_lock(attrs.evolve(seen, version="another"))
        assert transaction.is_held()
        assert Table(table.path, properties=options).break_lock(seen)
        assert not transaction.is_held()
        with pytest.raises(HoodieLockException):
            transaction.check_held()
        Table(table.path, properties=options).upsert(ROWS)
    manager.close()
    assert not table.break_lock(seen)
    assert lock_of(table, kind, **options).state == "free"


def test_a_lock_whose_process_ended_is_abandoned(table: Table) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    path = Path(table.path, ".hoodie", "lock")
    path.write_text(json.dumps({**describe_process(), "process": str(process.pid), "thread": "MainThread"}))
    lock = lock_of(table, "FileSystemBasedLockProvider")
    assert (lock.state, lock.age_seconds) == ("abandoned", 0)
    assert "not running any more" in str(lock.holder)
    path.write_text("of Java")
    # It was taken by another writer meanwhile, and stays.
    assert not table.break_lock(lock)
    lock = lock_of(table, "FileSystemBasedLockProvider")
    assert (lock.state, lock.holder) == ("held", "a writer that is not hoodie")
    assert table.break_lock(lock) and not path.exists()
    assert len(table.locks()) == 1


def test_one_of_several_that_break_a_lock_at_once_does_it(table: Table) -> None:
    path = Path(table.path, ".hoodie", "lock")
    for _ in range(20):
        path.write_text("of Java")
        lock = lock_of(table, "FileSystemBasedLockProvider")
        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(table.break_lock, [lock] * 4)) == 1
        assert [entry for entry in os.listdir(path.parent) if entry.startswith("lock")] == []


def test_a_lease_that_is_over_is_abandoned(table: Table) -> None:
    path = Path(table.path, ".hoodie", ".locks", "table_lock.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"expired":false,"validUntil":1000,"owner":"of Java"}')
    lock = lock_of(table, "StorageBasedLockProvider")
    assert (lock.state, lock.holder) == ("abandoned", "of Java")
    assert table.break_lock(lock)
    assert json.loads(path.read_text())["expired"] is True
    path.write_text("{}")
    assert lock_of(table, "StorageBasedLockProvider").state == "unknown"
