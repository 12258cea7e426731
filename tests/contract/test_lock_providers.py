from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from hoodie.client.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from hoodie.client.transaction.lock.in_process_lock_provider import InProcessLockProvider
from hoodie.client.transaction.lock.lock_provider import LockProvider
from hoodie.exception import HoodieConfigException
from hoodie.storage.fsspec_storage import LocalStorage
from tests.contract.lock_contract import LeaseContract, LockContract, lock_configuration

FAST = {"hoodie.write.lock.wait_time_ms_between_retry": 2, "hoodie.write.lock.max_wait_time_ms_between_retry": 20}


class TestInProcessLockProvider(LockContract):
    @pytest.fixture(autouse=True)
    def _base_path(self) -> None:
        self.base_path = f"memory://{uuid.uuid4().hex}"

    def make(self) -> LockProvider:
        return InProcessLockProvider(lock_configuration(self.base_path, {}))


class TestFileSystemBasedLockProvider(LockContract):
    @pytest.fixture(autouse=True)
    def _base_path(self, tmp_path: Path) -> None:
        self.base_path = str(tmp_path)

    def make(self) -> LockProvider:
        fast = {
            "hoodie.write.lock.wait_time_ms_between_retry": 2,
            "hoodie.write.lock.max_wait_time_ms_between_retry": 20,
        }
        return FileSystemBasedLockProvider(lock_configuration(self.base_path, fast))


class TestFileSystemBasedLockProviderThatExpires(LeaseContract):
    lease_ms = 60_000

    @pytest.fixture(autouse=True)
    def _base_path(self, tmp_path: Path) -> None:
        self.base_path = str(tmp_path)

    def make(self) -> LockProvider:
        properties = {"hoodie.write.lock.filesystem.expire": 1}
        return FileSystemBasedLockProvider(lock_configuration(self.base_path, properties, self.clock))

    def pass_time(self, duration_ms: int) -> None:
        """The disk's clock is not the test's: files grow older instead."""
        for path in Path(self.base_path, ".hoodie").glob("lock*"):
            modified = path.stat().st_mtime - duration_ms / 1000
            os.utime(path, (modified, modified))
        # What is touched from now on must be young: wall time stands, spans of time go on.
        self.clock.pass_span_ms(duration_ms)


COUNTING = """
import sys
from hoodie.client.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from tests.contract.lock_contract import lock_configuration

provider = FileSystemBasedLockProvider(lock_configuration(sys.argv[1], {
    "hoodie.write.lock.wait_time_ms_between_retry": 2, "hoodie.write.lock.max_wait_time_ms_between_retry": 20}))
for _ in range(20):
    assert provider.try_lock(60_000)
    with open(sys.argv[2]) as file:
        count = int(file.read())
    with open(sys.argv[2], "w") as file:
        file.write(str(count + 1))
    assert provider.is_held()
    provider.unlock()
"""


def test_processes_never_hold_a_file_system_lock_at_once(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    arguments = [sys.executable, "-c", COUNTING, str(tmp_path / "table"), str(counter)]
    root = str(Path(__file__).parents[2])
    processes = [subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": root}) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert counter.read_text() == "40"


def test_a_lock_of_hudi_is_respected_and_broken_when_it_is_old(tmp_path: Path) -> None:
    def make(**properties: object) -> FileSystemBasedLockProvider:
        return FileSystemBasedLockProvider(lock_configuration(str(tmp_path), dict(properties)))

    lock = tmp_path / ".hoodie" / "lock"
    lock.parent.mkdir()
    lock.touch()  # Hudi leaves it empty
    patient, breaking = make(), make(**{"hoodie.write.lock.filesystem.expire": 1})
    assert not breaking.try_lock(0)
    assert "a writer that is not hoodie" in breaking.owner_information()
    assert str(lock) in patient.way_out()
    os.utime(lock, (0, 0))
    assert not patient.try_lock(0)
    assert breaking.try_lock(0)
    assert sorted(path.name for path in lock.parent.iterdir()) == ["lock"]
    breaking.unlock()
    assert not list(lock.parent.iterdir())


def test_a_lock_that_hudi_deletes_is_lost(tmp_path: Path) -> None:
    provider = FileSystemBasedLockProvider(lock_configuration(str(tmp_path), {}))
    assert provider.try_lock(0)
    (tmp_path / ".hoodie" / "lock").unlink()
    assert not provider.is_held()
    (tmp_path / ".hoodie" / "lock").touch()
    assert not provider.is_held()
    provider.unlock()
    assert (tmp_path / ".hoodie" / "lock").exists()


def test_who_died_while_breaking_a_lock_does_not_stop_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> FileSystemBasedLockProvider:
        properties = {"hoodie.write.lock.filesystem.expire": 1}
        return FileSystemBasedLockProvider(lock_configuration(str(tmp_path), properties))

    first = make()
    assert first.try_lock(0)
    first._stop_renewing()
    folder = tmp_path / ".hoodie"
    os.utime(folder / "lock", (1, 1))
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr(LocalStorage, "delete_file", None)
        make().try_lock(0)
    assert len(list(folder.iterdir())) == 2
    third = make()
    assert not third.try_lock(0)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    assert third.try_lock(0)
    assert third.is_held()


def test_object_stores_are_refused() -> None:
    with pytest.raises(HoodieConfigException, match="StorageBasedLockProvider, or a folder of a file system"):
        FileSystemBasedLockProvider(lock_configuration("s3://bucket/table", {}))
