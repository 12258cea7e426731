"""Processes that all take themselves for the only writer of a table: one writes, the others wait."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client import base_write_client, open_or_create
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException, HoodieKeyException, HoodieLockException, TableNotFoundException
from hoodie.storage import process_lock
from hoodie.table.action.rollback import rollback_service
from hoodie.table.repair.orphan_files import remove_orphan_files
from hoodie.transaction.lock import lock_waiting
from tests.support.object_store_servers import Bucket
from tests.support.other_process import start_program as start
from tests.support.table_builder import local_client, write_action
from tests.support.table_invariants import check_table

WRITER = """
import json, sys
import pyarrow as pa
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

path, key, properties = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
try:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties)) as client:
        for number in range(3):
            assert client.upsert(pa.table({"id": [key], "ts": [number]})).is_committed
    print("ok")
except Exception as error:
    print(type(error).__name__, error)
"""
HOLDER = """
import json, sys
import pyarrow as pa
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

options = json.loads(sys.argv[2]) if sys.argv[2:] else None
config = HoodieWriteConfig.from_properties(sys.argv[1], {"hoodie.auto.commit": "false"}, options)
client = HoodieLocalWriteClient(config)
instant_time = client.start_commit()
result = client.upsert(pa.table({"id": ["holder"], "ts": [1]}), instant_time)
print(instant_time, flush=True)
for line in sys.stdin:
    match line.strip():
        case "commit":
            try:
                client.commit(instant_time, result)
            except Exception as error:
                print(error, flush=True)
                continue
        case "close":
            client.close()
        case "rollback":
            client.rollback(instant_time)
        case "forget":
            import gc
            del client
            gc.collect()
        case "fork":
            import os, time
            child = os.fork()
            if not child:
                time.sleep(600)
            print(child, flush=True)
            continue
    print("done", flush=True)
"""
STARTER = """
import os, sys
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

HoodieLocalWriteClient(HoodieWriteConfig.from_properties(sys.argv[1], {})).start_commit()
print("started", flush=True)
os._exit(0)
"""
NOT_PATIENT = {"hoodie.write.lock.wait_time_ms": 200}


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path) as c:
        c.upsert(row("base"))
    return path


def row(key: str) -> pa.Table:
    return pa.table({"id": [key], "ts": [1]})


def keys(path: str) -> set[str]:
    return set(hoodie.read_table(path, columns=["id"])["id"].to_pylist())


class Holder:
    """Another process, with an instant that it has written and not committed."""

    def __init__(self, path: str, *options: str) -> None:
        self.process = start(HOLDER, path, *options)
        assert self.process.stdout is not None
        self.instant_time = self.process.stdout.readline().strip()
        assert self.instant_time

    def tell(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def holder(path: str) -> Iterator[Holder]:
    holder = Holder(path)
    yield holder
    holder.kill()


def test_eight_processes_that_upsert_with_defaults_lose_nothing(path: str) -> None:
    names = [f"k{number}" for number in range(8)]
    writers = [start(WRITER, path, name, "{}") for name in names]
    for writer in writers:
        # All have imported what they need before the first one goes on.
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [writer.communicate(timeout=300)[0] for writer in writers]
    assert told == ["ok\n"] * len(names)
    expected = {"base": {"id": "base", "ts": 1}, **{name: {"id": name, "ts": 2} for name in names}}
    check_table(path, expected, was_cleaned=True)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    assert not len(timeline.filter_pending())
    assert not len(timeline.filter_actions(Action.ROLLBACK))


@pytest.mark.parametrize("end", ["commit", "rollback", "close", "forget", "kill"])
def test_others_wait_until_an_instant_has_ended_or_its_client_or_process(path: str, holder: Holder, end: str) -> None:
    with local_client(path, **NOT_PATIENT) as c, pytest.raises(HoodieLockException):
        c.upsert(row("early"))
    assert HoodieTableMetaClient.load(path).active_timeline.find(holder.instant_time, write_action())
    if end == "kill":
        holder.kill()
    else:
        assert holder.tell(end) == "done"
    with local_client(path, **NOT_PATIENT) as c:
        assert c.upsert(row("late")).is_committed
    assert keys(path) == {"base", "late", *(["holder"] if end == "commit" else [])}


def test_a_child_that_was_forked_does_not_keep_the_lock(path: str, holder: Holder) -> None:
    child = int(holder.tell("fork"))
    try:
        holder.kill()
        with local_client(path, **NOT_PATIENT) as c:
            assert c.upsert(row("late")).is_committed
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_what_a_process_leaves_that_dies_while_its_table_is_waited_for_is_rolled_back(
    path: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_operation = open_or_create.run_operation

    def after_another_writer(client: HoodieLocalWriteClient, *arguments: Any) -> Any:
        # The table was found; the lock was not taken yet.
        starter = start(STARTER, path)
        assert starter.communicate(timeout=300)[0] == "started\n"
        return run_operation(client, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(open_or_create, "run_operation", after_another_writer)
        hoodie.write_table(row("a"), path, mode=mode)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    assert [instant.action for instant in timeline.filter_pending()] == []
    hoodie.write_table(row("b"), path)
    assert keys(path) == ({"base", "a", "b"} if mode == "append" else {"a", "b"})


def test_who_waits_in_vain_is_told_of_the_holder_and_of_the_way_out(path: str, holder: Holder) -> None:
    with local_client(path, **NOT_PATIENT) as c, pytest.raises(HoodieLockException) as raised:
        c.upsert(row("early"))
    text = str(raised.value)
    assert f"process {holder.process.pid} on {socket.gethostname()}" in text
    for named in (
        "hoodie.write.lock.wait_time_ms",
        "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider",
        "hoodie.write.lock.single.writer.enable=false",
        "Nothing was changed",
    ):
        assert named in text
    assert holder.tell("commit") == "done"
    assert keys(path) == {"base", "holder"}


SERVICES: dict[str, Callable[[HoodieLocalWriteClient, str], object]] = {
    "clean": lambda c, instant_time: c.clean(),
    "archive": lambda c, instant_time: c.archive(),
    "savepoint": lambda c, instant_time: c.savepoint(),
    "rollback": lambda c, instant_time: c.rollback(instant_time),
    "rollback_failed_writes": lambda c, instant_time: c.rollback_failed_writes(),
    "restore_to_instant": lambda c, instant_time: c.restore_to_instant(instant_time),
    "start_commit": lambda c, instant_time: c.start_commit(),
}


@pytest.mark.parametrize("service", SERVICES)
def test_services_wait_for_the_writer_in_another_process(path: str, holder: Holder, service: str) -> None:
    before = sorted(os.listdir(f"{path}/.hoodie"))
    with local_client(path, **NOT_PATIENT) as c, pytest.raises(HoodieLockException, match="table services in another"):
        SERVICES[service](c, holder.instant_time)
    assert sorted(os.listdir(f"{path}/.hoodie")) == before
    assert holder.tell("commit") == "done"


def test_a_repair_waits_for_the_writer_in_another_process(path: str, holder: Holder) -> None:
    config = HoodieWriteConfig.from_properties(path, NOT_PATIENT)
    with pytest.raises(HoodieLockException):
        remove_orphan_files(config, delete=True)


def test_the_option_does_without_the_lock(path: str, holder: Holder) -> None:
    with local_client(path, **{"hoodie.write.lock.single.writer.enable": "false"}) as c:
        assert c.upsert(row("mine")).is_committed
    assert keys(path) == {"base", "mine"}
    assert "rolled back" in holder.tell("commit")


def test_clients_and_threads_of_one_process_share_it(path: str) -> None:
    """As without locks: the later one rolls the earlier one's instant back, and neither waits."""
    first, second = local_client(path, **{"hoodie.auto.commit": "false"}), local_client(path, **NOT_PATIENT)
    instant_time = first.start_commit()
    second.upsert(row("second"))
    third: list[bool] = []
    thread = threading.Thread(target=lambda: third.append(local_client(path).upsert(row("third")).is_committed))
    thread.start()
    thread.join()
    assert third == [True]
    # The first one has its share still.
    other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
    assert "HoodieLockException" in other.communicate("go\n", timeout=120)[0]
    first.close()
    other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
    assert other.communicate("go\n", timeout=120)[0] == "ready\nok\n"
    assert not HoodieTableMetaClient.load(path).active_timeline.find(instant_time, Action.COMMIT)


def test_nothing_is_held_after_a_write(path: str) -> None:
    """Also when the client stays open, and after one that failed."""
    with local_client(path) as c:
        c.upsert(row("mine"))
        with pytest.raises(HoodieKeyException):
            c.upsert(pa.table({"ts": [1]}))
        c.clean()
        other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
        assert other.communicate("go\n", timeout=120)[0] == "ready\nok\n"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.EINVAL])
def test_a_file_system_without_locks_is_told_of_once(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def no_lock(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_lock)
    for key in ("a", "b"):
        with local_client(path) as c:
            assert c.upsert(row(key)).is_committed
    assert keys(path) == {"base", "a", "b"}
    (record,) = [found for found in caplog.records if "cannot be locked" in found.getMessage()]
    assert os.strerror(number) in record.getMessage()
    assert "hoodie.write.lock.provider" in record.getMessage()


def test_an_operating_system_without_locks_is_told_of_once(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_lock, "fcntl", None)
    with local_client(path) as c:
        assert c.upsert(row("a")).is_committed
        assert c.upsert(row("b")).is_committed
    assert [found.getMessage() for found in caplog.records if "has no locks of files" in found.getMessage()][1:] == []


def test_a_copy_of_the_table_does_not_end_the_lock(path: str, tmp_path: Path) -> None:
    """What opens and closes the lock's file in the process that holds it."""
    with local_client(path, **{"hoodie.auto.commit": "false"}) as c:
        instant_time = c.start_commit()
        shutil.copytree(path, tmp_path / "copy")
        other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
        assert "HoodieLockException" in other.communicate("go\n", timeout=120)[0]
        assert c.commit(instant_time, c.upsert(row("mine"), instant_time))
    assert keys(path) == {"base", "mine"}


def test_a_table_that_was_deleted_and_made_again_is_locked_again(path: str, tmp_path: Path) -> None:
    first = local_client(path, **{"hoodie.auto.commit": "false"})
    first.start_commit()
    shutil.rmtree(path)
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path, **{"hoodie.auto.commit": "false"}) as second:
        instant_time = second.start_commit()
        other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
        assert "HoodieLockException" in other.communicate("go\n", timeout=120)[0]
        first.close()
        other = start(WRITER, path, "other", json.dumps(NOT_PATIENT))
        assert "HoodieLockException" in other.communicate("go\n", timeout=120)[0]
        assert second.commit(instant_time, second.upsert(row("mine"), instant_time))


def test_the_lock_makes_nothing_where_there_is_no_table(tmp_path: Path) -> None:
    with local_client(str(tmp_path / "none")) as c, pytest.raises(TableNotFoundException):
        c.upsert(row("a"))
    assert not list(tmp_path.iterdir())


def test_waiting_is_told_at_growing_intervals_and_on_progress(
    path: str, holder: Holder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lock_waiting, "FIRST_LINE_MS", 20)
    events: list[hoodie.ProgressEvent] = []
    config = HoodieWriteConfig.from_properties(path, {"hoodie.write.lock.wait_time_ms": 1000})
    with HoodieLocalWriteClient(config, on_progress=events.append) as c, pytest.raises(HoodieLockException):
        c.upsert(row("early"))
    lines = [found.getMessage() for found in caplog.records if "waiting for" in found.getMessage()]
    assert 2 <= len(lines) <= 7
    for named in (f"process {holder.process.pid}", path, "single_writer.lock", "hoodie.write.lock.provider"):
        assert named in lines[0]
    waits = [event for event in events if event.step == "wait for the lock"]
    assert [event.state for event in waits] == ["started", *["advanced"] * (len(lines) - 1), "finished"]
    assert f"process {holder.process.pid}" in waits[0].detail


def test_ctrl_c_ends_the_wait(path: str, holder: Holder) -> None:
    waiting = start(WRITER, path, "other", "{}")
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    waiting.stdin.write("go\n")
    waiting.stdin.flush()
    queue = f"{path}/.hoodie/.locks/single_writer.lock.queue"
    deadline = time.monotonic() + 60
    while is_free(queue) and time.monotonic() < deadline:
        time.sleep(0.02)
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=30)
    assert waiting.returncode not in (0, None)
    assert holder.tell("commit") == "done"


def is_free(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


# --- nothing is held for longer than a write is under way -----------------------------------------------------------


def is_lock_free(path: str) -> bool:
    return is_free(f"{path}/.hoodie/.locks/single_writer.lock")


def interrupt(*arguments: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_what_another_client_of_the_process_rolled_back_is_held_no_longer_than_its_commit(path: str) -> None:
    with local_client(path, **{"hoodie.auto.commit": "false"}) as c:
        instant_time = c.start_commit()
        result = c.upsert(row("mine"), instant_time)
        with local_client(path) as other:
            other.upsert(row("other"))
        assert not is_lock_free(path)
        with pytest.raises(HoodieCommitException, match="rolled back"):
            c.commit(instant_time, result)
        assert is_lock_free(path)


def test_what_another_client_of_the_process_rolled_back_is_held_no_longer_than_its_write(path: str) -> None:
    with local_client(path, **{"hoodie.auto.commit": "false"}) as c:
        instant_time = c.start_commit()
        with local_client(path) as other:
            assert other.rollback(instant_time)
        with pytest.raises(HoodieCommitException, match="rolled back"):
            c.upsert(row("mine"), instant_time)
        assert is_lock_free(path)


def test_the_next_start_forgets_what_another_client_of_the_process_rolled_back(path: str) -> None:
    with local_client(path, **{"hoodie.auto.commit": "false"}) as c:
        c.start_commit()
        with local_client(path) as other:
            other.upsert(row("other"))
        instant_time = c.start_commit()
        assert c.commit(instant_time, c.upsert(row("mine"), instant_time))
        assert is_lock_free(path)


def test_ctrl_c_while_an_interrupted_write_is_rolled_back_gives_the_lock_back(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = local_client(path)
    with monkeypatch.context() as patched:
        patched.setattr(base_write_client.WriteInput, "prepare", interrupt)
        patched.setattr(rollback_service.RollbackService, "give_up", interrupt)
        with pytest.raises(KeyboardInterrupt):
            c.upsert(row("mine"))
    assert is_lock_free(path)
    assert c.upsert(row("mine")).is_committed
    c.close()


def test_ctrl_c_at_the_end_of_a_with_block_gives_the_lock_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c = local_client(path, **{"hoodie.auto.commit": "false"})
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), c:
        first, second = c.start_commit(), c.start_commit()
        assert first < second
        patched.setattr(rollback_service.RollbackService, "give_up", interrupt)
        raise ValueError
    assert is_lock_free(path)


def test_ctrl_c_while_a_client_closes_gives_the_lock_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c = local_client(path, **{"hoodie.auto.commit": "false"})
    c.start_commit()
    with monkeypatch.context() as patched:
        patched.setattr(c._services, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            c.close()
    assert is_lock_free(path)


def test_a_client_that_goes_on_locks_a_table_that_was_made_again(path: str) -> None:
    c = local_client(path, **{"hoodie.auto.commit": "false"})
    c.start_commit()
    shutil.rmtree(path)
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    instant_time = c.start_commit()
    assert not is_lock_free(path)
    assert c.commit(instant_time, c.upsert(row("mine"), instant_time))
    assert is_lock_free(path)
    c.close()


# --- where there are no such locks ------------------------------------------------------------------------------------


@pytest.fixture
def far_holder(s3_bucket: Bucket) -> Iterator[Holder]:
    options = s3_bucket.options()
    far = f"s3://{s3_bucket.name}/t"
    HoodieTableMetaClient.init_table(
        far, table_name="t", record_key_fields=["id"], ordering_fields=["ts"], storage_options=options
    )
    holder = Holder(far, json.dumps(options))
    yield holder
    holder.kill()


def far_upsert(bucket: Bucket) -> set[str]:
    """The keys after one more upsert."""
    far, options = f"s3://{bucket.name}/t", bucket.options()
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(far, {}, options)) as c:
        assert c.upsert(row("mine")).is_committed
    return set(hoodie.read_table(far, columns=["id"], storage_options=options)["id"].to_pylist())


def test_what_another_process_began_just_now_on_an_object_store_is_waited_for(
    far_holder: Holder, s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback_service, "JUST_NOW_MS", 120_000)
    told: list[str] = []
    sleep_ms = lock_waiting.LockClock.sleep_ms

    def commit_meanwhile(self: lock_waiting.LockClock, duration_ms: float) -> None:
        if not told:
            told.append(far_holder.tell("commit"))
        sleep_ms(self, duration_ms)

    monkeypatch.setattr(lock_waiting.LockClock, "sleep_ms", commit_meanwhile)
    assert far_upsert(s3_bucket) == {"holder", "mine"}
    assert told == ["done"]


def test_after_a_crash_on_an_object_store_a_writer_starts_again(
    far_holder: Holder, s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rollback_service, "JUST_NOW_MS", 120_000)
    waited: list[float] = []

    def pass_the_time(self: lock_waiting.LockClock, duration_ms: float) -> None:
        waited.append(duration_ms)

    monkeypatch.setattr(lock_waiting.LockClock, "sleep_ms", pass_the_time)
    monkeypatch.setattr(lock_waiting.LockClock, "monotonic_ms", lambda self: int(sum(waited)))
    far_holder.kill()
    assert far_upsert(s3_bucket) == {"mine"}
    assert 0 < sum(waited) <= 121_000
    assert "another process began just now" in caplog.text


def test_on_an_object_store_clients_of_one_process_do_not_wait_for_each_other(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_waiting.LockClock, "sleep_ms", lambda self, duration_ms: pytest.fail("waits"))
    far, options = f"s3://{s3_bucket.name}/t", s3_bucket.options()
    HoodieTableMetaClient.init_table(
        far, table_name="t", record_key_fields=["id"], ordering_fields=["ts"], storage_options=options
    )
    first = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(far, {"hoodie.auto.commit": "false"}, options))
    first.start_commit()
    assert far_upsert(s3_bucket) == {"mine"}
    first.close()
