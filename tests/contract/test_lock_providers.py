from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieLockException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.transaction.lock.dynamo_db_based_lock_provider import DynamoDBBasedLockProvider
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from hoodie.transaction.lock.in_process_lock_provider import InProcessLockProvider
from hoodie.transaction.lock.lock_manager import lock_provider_class
from hoodie.transaction.lock.lock_provider import LockProvider
from hoodie.transaction.lock.storage_based_lock_provider import StorageBasedLockProvider
from hoodie.transaction.lock.zookeeper_based_lock_provider import ZookeeperBasedLockProvider
from tests.contract.lock_contract import LeaseContract, LockContract, lock_configuration
from tests.support.object_store_servers import ACCESS_KEY, SECRET_KEY, Bucket, FaultyProxy, Request, S3Server

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


class TestStorageBasedLockProviderInMemory(LockContract):
    @pytest.fixture(autouse=True)
    def _base_path(self) -> None:
        self.base_path = f"memory://{uuid.uuid4().hex}"

    def make(self) -> LockProvider:
        return StorageBasedLockProvider(lock_configuration(self.base_path, FAST))


class TestStorageBasedLockProviderOfLocalFiles(TestStorageBasedLockProviderInMemory):
    @pytest.fixture(autouse=True)
    def _base_path(self, tmp_path: Path) -> None:
        self.base_path = str(tmp_path)


class TestStorageBasedLockProviderOfS3(LockContract):
    @pytest.fixture(autouse=True)
    def _base_path(self, s3_bucket: Bucket) -> None:
        self.base_path = f"s3://{s3_bucket.name}/table"
        self.options = s3_bucket.options()

    def make(self) -> LockProvider:
        return StorageBasedLockProvider(lock_configuration(self.base_path, FAST, storage_options=self.options))


class TestStorageBasedLockProviderThatExpires(LeaseContract):
    lease_ms = 300_000

    @pytest.fixture(autouse=True)
    def _base_path(self, tmp_path: Path) -> None:
        self.base_path = str(tmp_path)
        self.options: dict[str, Any] | None = None

    def make(self) -> LockProvider:
        return StorageBasedLockProvider(lock_configuration(self.base_path, {}, self.clock, self.options))


class TestStorageBasedLockProviderOfS3ThatExpires(TestStorageBasedLockProviderThatExpires):
    @pytest.fixture(autouse=True)
    def _base_path(self, s3_bucket: Bucket) -> None:
        self.base_path = f"s3://{s3_bucket.name}/table"
        self.options = s3_bucket.options()


def dynamo_db(endpoint: str, table: str, **more: Any) -> dict[str, Any]:
    return {
        "hoodie.write.lock.dynamodb.endpoint_url": endpoint,
        "hoodie.write.lock.dynamodb.table": table,
        "hoodie.aws.access.key": ACCESS_KEY,
        "hoodie.aws.secret.key": SECRET_KEY,
        **more,
    }


class TestDynamoDBBasedLockProvider(LockContract):
    @pytest.fixture(autouse=True)
    def _table(self, s3_server: S3Server) -> None:
        self.properties = dynamo_db(s3_server.endpoint, f"locks-{uuid.uuid4().hex}", **FAST)

    def make(self) -> LockProvider:
        return DynamoDBBasedLockProvider(lock_configuration("/t", self.properties))


class TestDynamoDBBasedLockProviderThatExpires(LeaseContract):
    lease_ms = 60_000

    @pytest.fixture(autouse=True)
    def _table(self, s3_server: S3Server) -> None:
        self.properties = dynamo_db(s3_server.endpoint, f"locks-{uuid.uuid4().hex}")

    def make(self) -> LockProvider:
        return DynamoDBBasedLockProvider(lock_configuration("/t", self.properties, self.clock))


@pytest.mark.spark
class TestZookeeperBasedLockProvider(LockContract):
    """A server of the jars that PySpark brings."""

    @pytest.fixture(autouse=True)
    def _path(self, zookeeper: str) -> None:
        self.properties = {
            "hoodie.write.lock.zookeeper.url": zookeeper,
            "hoodie.write.lock.zookeeper.base_path": f"/hudi/{uuid.uuid4().hex}",
            "hoodie.write.lock.zookeeper.session_timeout_ms": 6000,
        }

    def make(self) -> ZookeeperBasedLockProvider:
        return ZookeeperBasedLockProvider(lock_configuration("/t", self.properties))

    def test_a_writer_whose_session_ends_loses_it(self, providers: list[LockProvider]) -> None:
        first, second = self.make(), self.new(providers)
        assert first.try_lock(1000)
        assert not second.try_lock(0)
        first._client.stop()  # as ZooKeeper sees a process that dies
        assert not first.is_held()
        assert second.try_lock(60_000)
        first.close()
        assert second.is_held()

    def test_a_lock_whose_node_is_gone_is_lost(self, providers: list[LockProvider]) -> None:
        first, second = self.make(), self.new(providers)
        assert first.try_lock(1000)
        first._client.delete(f"{first._path}/{first._node}")
        assert not first.is_held()
        assert second.try_lock(1000)
        first.close()
        assert second.is_held()

    def test_it_queues_behind_a_node_of_curator(self, providers: list[LockProvider]) -> None:
        other, waiting = self.make(), self.new(providers)
        client = other._connected()
        client.ensure_path(other._path)
        node = client.create(f"{other._path}/_c_{uuid.uuid4()}-lock-", b"10.0.0.1", ephemeral=True, sequence=True)
        assert not waiting.try_lock(0)
        assert waiting.owner_information() == "10.0.0.1"
        client.delete(node)
        assert waiting.try_lock(1000)
        # Curator sorts by what follows its name of a lock.
        (mine,) = client.get_children(other._path)
        assert re.fullmatch(r"_c_[0-9a-f-]{36}-lock-[0-9]{10}", mine)
        other.close()

    def test_a_server_that_does_not_answer_is_named(self) -> None:
        nowhere = {
            "hoodie.write.lock.zookeeper.url": "127.0.0.1:1",
            "hoodie.write.lock.zookeeper.base_path": "/hudi",
            "hoodie.write.lock.zookeeper.connection_timeout_ms": 200,
        }
        provider = ZookeeperBasedLockProvider(lock_configuration("/t", nowhere))
        with pytest.raises(HoodieLockException, match="Connecting to .*127.0.0.1:1 failed"):
            provider.try_lock(0)


def test_a_lock_on_storage_is_as_hudi_writes_it(tmp_path: Path) -> None:
    provider = StorageBasedLockProvider(lock_configuration(str(tmp_path), {}))
    file = tmp_path / ".hoodie" / ".locks" / "table_lock.json"
    assert provider.try_lock(0)
    held = json.loads(file.read_text())
    assert list(held) == ["expired", "validUntil", "owner"]
    assert held["expired"] is False
    assert 290_000 < held["validUntil"] - time.time() * 1000 <= 300_000
    provider.unlock()
    assert json.loads(file.read_text())["expired"] is True
    later = int(time.time() * 1000) + 60_000
    file.write_text(f'{{"expired":false,"validUntil":{later},"owner":"another","more":1}}')
    assert not provider.try_lock(0)
    assert "another, for" in provider.owner_information()
    file.write_text(f'{{"expired":true,"validUntil":{later},"owner":"another"}}')
    assert provider.try_lock(0)
    provider.unlock()
    file.write_text('{"expired":')
    with pytest.raises(HoodieCorruptedDataException, match=r"table_lock.json cannot be read .*if no writer is alive"):
        provider.try_lock(0)
    assert "cannot be read" in provider.owner_information()


@pytest.mark.parametrize("end", ["drop", "lose"])
def test_a_lock_whose_release_failed_is_taken_again_at_once_by_its_holder(
    s3_bucket: Bucket, s3_proxy: FaultyProxy, end: str
) -> None:
    base_path, failing = f"s3://{s3_bucket.name}/table", [False]
    s3_proxy.fault = lambda request: end if failing[0] else None
    once = {"hoodie.filesystem.operation.retry.enable": "false"}
    options = s3_bucket.options(s3_proxy.endpoint)
    provider = StorageBasedLockProvider(lock_configuration(base_path, once, storage_options=options))
    other = StorageBasedLockProvider(lock_configuration(base_path, {}, storage_options=s3_bucket.options()))
    assert provider.try_lock(0)
    failing[0] = True
    with pytest.raises(HoodieIOException):
        provider.unlock()
    failing[0] = False
    assert provider.try_lock(0)
    assert provider.is_held()
    assert not other.try_lock(0)
    assert provider.unlock()
    assert other.try_lock(0)
    other.unlock()


def test_a_put_of_a_lock_whose_answer_is_lost_is_found_out(s3_bucket: Bucket, s3_proxy: FaultyProxy) -> None:
    base_path = f"s3://{s3_bucket.name}/table"
    lost: list[str] = []

    def lose_first(request: Request) -> str | None:
        if request.method == "PUT" and not lost:
            lost.append(request.path)
            return "lose"
        return None

    provider = StorageBasedLockProvider(
        lock_configuration(base_path, {}, storage_options=s3_bucket.options(s3_proxy.endpoint))
    )
    for step in (lambda: provider.try_lock(0), provider.renew):
        lost.clear()
        s3_proxy.fault = lose_first
        assert step()
        assert lost
        assert provider.is_held()
    other = StorageBasedLockProvider(lock_configuration(base_path, {}, storage_options=s3_bucket.options()))
    assert not other.try_lock(0)
    lost.clear()
    provider.unlock()
    assert lost
    assert other.try_lock(0)
    other.close()


def test_the_item_in_dynamo_db_is_as_amazons_lock_client_lays_it_out(s3_server: S3Server) -> None:
    table = f"locks-{uuid.uuid4().hex}"
    provider = DynamoDBBasedLockProvider(
        lock_configuration("/t", dynamo_db(s3_server.endpoint, table, **{"hoodie.write.lock.wait_time_ms": 7000}))
    )
    assert provider.try_lock(0)
    (item,) = provider._client.scan(TableName=table)["Items"]
    assert item["key"] == {"S": "trips"}
    assert item["leaseDuration"] == {"S": "7000"}
    assert set(item) == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
    provider.unlock()
    assert provider._client.scan(TableName=table)["Items"] == []
    released = {**item, "isReleased": {"S": "1"}}
    provider._client.put_item(TableName=table, Item=released)
    assert provider.owner_information() == "nobody"
    assert provider.try_lock(0)
    provider.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "needs a lock: give hoodie.write.lock.provider"),
        ("Typo", "is not known: give one of FileSystemBasedLockProvider"),
        ("org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider", "is not supported"),
        ("com.example.Mine", "looks like a class of Java"),
        ("builtins.dict", "is not a subclass of hoodie.transaction.lock.lock_provider.LockProvider"),
        ("nowhere.Mine", "cannot be imported"),
    ],
)
def test_providers_that_are_not_there_are_refused(name: str | None, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        lock_provider_class(name)


def test_providers_are_known_by_hudis_names() -> None:
    of_hudi = {
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider": FileSystemBasedLockProvider,
        "org.apache.hudi.client.transaction.lock.InProcessLockProvider": InProcessLockProvider,
        "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider": StorageBasedLockProvider,
        "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider": ZookeeperBasedLockProvider,
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider": DynamoDBBasedLockProvider,
    }
    assert {name: lock_provider_class(name) for name in of_hudi} == of_hudi
    own = "hoodie.transaction.lock.in_process_lock_provider.InProcessLockProvider"
    assert lock_provider_class(own) is InProcessLockProvider


def test_zookeeper_needs_a_place() -> None:
    with pytest.raises(HoodieConfigException, match="needs hoodie.write.lock.zookeeper.url"):
        ZookeeperBasedLockProvider(lock_configuration("/t", {}))


COUNTING = """
import sys
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
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
    assert [path.name for path in folder.iterdir()] == ["lock"], "the claim of the dead is of no use any more"


def test_object_stores_are_refused() -> None:
    with pytest.raises(HoodieConfigException, match="StorageBasedLockProvider, or set .* to a folder of a file system"):
        FileSystemBasedLockProvider(lock_configuration("s3://bucket/table", {}))
