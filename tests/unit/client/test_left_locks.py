"""Locks that somebody left behind: who takes them, and what those who wait are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.util.process_identity import describe_process, is_gone
from hoodie.exception import HoodieLockException
from hoodie.transaction.lock import lock_waiting
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from tests.contract.lock_contract import SteppedClock, lock_configuration
from tests.support.other_process import start_program
from tests.support.table_builder import instants, local_client, write_action, write_config

OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    # Of one host: in versions 8 and 9 each time that is taken lasts that long.
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
TAKE_AND_DIE = """
import os, sys
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from tests.contract.lock_contract import lock_configuration

assert FileSystemBasedLockProvider(lock_configuration(sys.argv[1], {})).try_lock(0)
os._exit(0)
"""
WAITER = """
import json, sys
from pathlib import Path
import pyarrow as pa
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

path, properties, lock = sys.argv[1:]

def tell(event):
    print(event.step, event.state, flush=True)
    if (event.step, event.state) == ("write buckets", "started"):
        # From version 8 on a commit cannot be started without the lock.
        Path(path, ".hoodie", "lock").write_text(lock)

config = HoodieWriteConfig.from_properties(path, json.loads(properties))
with HoodieLocalWriteClient(config, on_progress=tell) as client:
    client.upsert(pa.table({"id": ["waiter"], "ts": [1]}))
"""
OF_JAVA = {"lockCreateTime": 1700000000000, "lockThreadName": "main", "lockStacksInfo": "\tjava.lang.Thread.run"}


def run(program: str, *arguments: str) -> subprocess.Popen[str]:
    return start_program(program, *arguments, stderr=subprocess.PIPE)


def provider(base_path: object, **properties: object) -> FileSystemBasedLockProvider:
    return FileSystemBasedLockProvider(lock_configuration(str(base_path), dict(properties)))


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The lock of a process that has ended."""
    taker = run(TAKE_AND_DIE, str(tmp_path))
    assert taker.communicate(timeout=300) == ("", "")
    return tmp_path / ".hoodie" / "lock"


def change(lock: Path, **fields: object) -> None:
    lock.write_text(json.dumps({**json.loads(lock.read_text()), **fields}))


@pytest.mark.one_in(4)
def test_a_lock_of_a_process_of_this_machine_that_has_ended_is_taken(
    tmp_path: Path, left: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_hudis_fields = json.loads(left.read_text())
    assert isinstance(with_hudis_fields["lockCreateTime"], int)
    mine = provider(tmp_path)
    assert "which is not running any more" in mine.owner_information()
    assert mine.try_lock(0)
    assert mine.is_held()
    assert "its holder died" in caplog.text
    mine.unlock()
    assert os.listdir(left.parent) == []


@pytest.mark.one_in(4)
def test_it_is_taken_although_another_process_died_over_taking_it(tmp_path: Path, left: Path) -> None:
    dead = json.loads(left.read_text())
    breaking = FileSystemBasedLockProvider._claim_breaking
    claimed: list[str] = []

    def die(self: FileSystemBasedLockProvider, stem: str) -> str | None:
        claimed.append(stem)
        Path(f"{stem}-0").write_text(json.dumps(dead))
        return breaking(self, stem)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FileSystemBasedLockProvider, "_claim_breaking", die)
        assert provider(tmp_path).try_lock(0)
    assert claimed
    assert os.listdir(left.parent) == ["lock"]


@pytest.mark.parametrize(
    "other",
    [
        {"bootId": "another"},
        {"bootId": None},
        {"pidNamespace": "pid:[1]"},
        {"pidNamespace": None},
        {"timeNamespace": "time:[1]"},
        {"processStart": None},
        {"process": "no number"},
        {"process": None},
    ],
    ids=str,
)
def test_a_lock_is_not_taken_where_it_is_not_certain_that_its_holder_has_ended(
    tmp_path: Path, left: Path, other: dict[str, Any]
) -> None:
    change(left, **other)
    content = left.read_text()
    assert not provider(tmp_path).try_lock(0)
    assert left.read_text() == content


@pytest.mark.one_in(4)
def test_a_lock_of_a_living_process_is_not_taken(tmp_path: Path, left: Path) -> None:
    change(left, **describe_process())
    assert not provider(tmp_path).try_lock(0)


@pytest.mark.parametrize("content", [json.dumps(OF_JAVA), "", "[]", "null", "{", '{"process": "1"}'])
def test_a_lock_of_java_or_of_nobody_is_not_taken(tmp_path: Path, content: str) -> None:
    lock = tmp_path / ".hoodie" / "lock"
    lock.parent.mkdir()
    lock.write_text(content)
    assert not provider(tmp_path).try_lock(0)
    assert lock.read_text() == content


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    mine = describe_process()
    assert not is_gone(mine)
    assert is_gone({**mine, "processStart": "1"})
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    told = {**mine, "process": str(child.pid), "processStart": start_of(child.pid)}
    assert not is_gone(told)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    # It has ended, and its parent has not asked yet.
    assert is_gone(told)
    child.communicate()
    assert is_gone(told)


def start_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


# --- waiting ----------------------------------------------------------------------------------------------------------


client = partial(local_client, **OCC)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table whose lock a writer of Java is going to leave behind: see `leave_lock`."""
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with client(path) as c:
        c.upsert(pa.table({"id": ["base"], "ts": [1]}))
    return path


def leave_lock(path: str) -> None:
    Path(path, ".hoodie", "lock").write_text(json.dumps(OF_JAVA))


def test_lines_come_at_growing_intervals_for_as_long_as_a_lock_is_waited_for(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    waiting = lock_waiting.LockWaiting(clock=clock)
    began, told = clock.monotonic_ms(), []
    with waiting.wait("the lock"):
        for _ in range(2000):
            before = len(caplog.records)
            waiting.tell(lambda: "somebody", lambda: "Do something.")
            if len(caplog.records) > before:
                told.append(round((clock.monotonic_ms() - began) / 1000))
            clock.pass_ms(1000)
    assert told[:4] == [5, 15, 35, 75]
    assert max(after - before for before, after in pairwise(told)) <= 601
    assert caplog.records[0].getMessage() == "waiting for the lock for 5 s; held by somebody. Do something."


@pytest.mark.one_in(4)
def test_a_writer_that_waits_for_a_left_lock_tells_it_and_ctrl_c_ends_it_at_once(path: str) -> None:
    """The rollback is left to others, for it would wait for the same lock."""
    program = "from hoodie.transaction.lock import lock_waiting\nlock_waiting.FIRST_LINE_MS = 10\n" + WAITER
    waiter = run(program, path, json.dumps(OCC), json.dumps(OF_JAVA))
    assert waiter.stdout is not None
    is_left = False
    for line in waiter.stdout:
        is_left = is_left or line.strip() == "write buckets started"
        if is_left and line.strip() == "wait for the lock started":
            break
    waiter.send_signal(signal.SIGINT)
    # Less than one attempt to take the lock lasts.
    _, error = waiter.communicate(timeout=50)
    assert waiter.returncode not in (0, None)
    assert "KeyboardInterrupt" in error
    assert "waiting for the lock" in error
    for named in (
        f"{path}/.hoodie/lock",
        "a writer that is not hoodie",
        " s old",
        "hoodie.write.lock.filesystem.expire",
    ):
        assert named in error
    assert "could not be rolled back (it was interrupted" in error
    timeline = HoodieTableMetaClient.load(path).active_timeline
    assert len(timeline.filter_actions(write_action()).filter_pending()) == 1
    os.unlink(f"{path}/.hoodie/lock")
    expire_heartbeats(path)
    with client(path) as c:
        assert len(c.rollback_failed_writes()) == 1
    assert hoodie.read_table(path)["id"].to_pylist() == ["base"]


def expire_heartbeats(path: str) -> None:
    old = time.time() - 100_000
    for file in Path(path, ".hoodie", ".heartbeat").iterdir():
        os.utime(file, (old, old))


def test_who_could_not_have_the_lock_does_not_wait_for_it_again_to_roll_back(path: str) -> None:
    waits: list[int] = []
    try_lock = FileSystemBasedLockProvider.try_lock

    def note(self: FileSystemBasedLockProvider, timeout_ms: int) -> bool:
        waits.append(timeout_ms)
        return try_lock(self, timeout_ms)

    few = {"hoodie.write.lock.wait_time_ms": 50, "hoodie.write.lock.client.num_retries": 0}

    def leave_it(event: hoodie.ProgressEvent) -> None:
        if (event.step, event.state) == ("write buckets", "started"):
            leave_lock(path)
            waits.clear()

    with pytest.MonkeyPatch.context() as patched, pytest.raises(HoodieLockException) as raised:
        patched.setattr(FileSystemBasedLockProvider, "try_lock", note)
        with HoodieLocalWriteClient(write_config(path, **OCC, **few), on_progress=leave_it) as c:
            c.upsert(pa.table({"id": ["late"], "ts": [1]}))
    assert waits[0] == 50
    assert set(waits[1:]) == {0}
    assert any("could not be rolled back" in text for text in raised.value.__notes__)


def test_who_cannot_have_the_lock_to_start_a_commit_leaves_nothing_in_the_timeline(
    path: str, table_version: int
) -> None:
    if table_version == 6:
        pytest.skip("a commit of version 6 is started without the lock")
    before = instants(path)
    leave_lock(path)
    few = {"hoodie.write.lock.wait_time_ms": 50, "hoodie.write.lock.client.num_retries": 0}
    with client(path, **few) as c, pytest.raises(HoodieLockException, match="could not be taken"):
        c.upsert(pa.table({"id": ["late"], "ts": [1]}))
    assert instants(path) == before
