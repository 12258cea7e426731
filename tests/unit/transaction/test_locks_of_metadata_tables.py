"""Single writers of a table with a metadata table: on object stores they take a lock, too."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import hoodie
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieLockException
from hoodie.metadata import metadata_table
from hoodie.transaction.transaction_manager import TransactionManager
from tests.support.object_store_servers import Bucket, FaultyProxy, Request
from tests.support.table_builder import init_table, local_client, read_rows, rows

ON = {"hoodie.metadata.enable": "true"}
NOT_PATIENT = {"hoodie.write.lock.wait_time_ms": 200, "hoodie.write.lock.client.num_retries": 0}
LOCK = ".hoodie/.locks/table_lock.json"
MOST_REQUESTS = 24
"""Of the lock for one commit: to take the instant's time, to complete it, and to look whether the table and its
metadata table are to be cleaned and archived."""


@pytest.fixture
def base_path(s3_bucket: Bucket) -> str:
    path = f"s3://{s3_bucket.name}/t"
    init_table(path, storage_options=s3_bucket.options())
    return path


def is_locked(bucket: Bucket) -> bool:
    found = [key for key in bucket.list_keys() if key.endswith(LOCK)]
    return bool(found) and not json.load(bucket.client.get_object(Bucket=bucket.name, Key=found[0])["Body"])["expired"]


def is_guarded(request: Request) -> bool:
    """Whether a request changes the metadata table, or completes an instant."""
    path = request.path.partition("?")[0]
    is_end = path.endswith((".commit", ".clean", ".rollback", ".restore", ".deltacommit"))
    return request.method == "PUT" and ("/.hoodie/metadata/" in path or (is_end and "/.hoodie/" in path))


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_whatever_changes_the_metadata_table_holds_the_lock(
    base_path: str, s3_bucket: Bucket, s3_proxy: FaultyProxy, table_version: int
) -> None:
    options = s3_bucket.options(s3_proxy.endpoint)
    unguarded: list[str] = []
    guarded: list[str] = []

    def look(request: Request) -> Any:
        if is_guarded(request):
            (guarded if is_locked(s3_bucket) else unguarded).append(request.path)

    s3_proxy.fault = look
    retained = {"hoodie.cleaner.commits.retained": 1}
    with local_client(base_path, {**ON, **retained}, storage_options=options) as client:
        first = client.upsert(rows(("a", "x", 1)))
        for ts in (2, 3, 4):
            last = client.upsert(rows(("a", "x", ts)))
        client.rollback(last.instant_time)
    with local_client(base_path, storage_options=options, hoodie__auto__commit="false") as client:
        failed = client.start_commit()
        client.upsert(rows(("a", "x", 9)), failed)
    with local_client(base_path, retained, storage_options=options) as client:
        client.upsert(rows(("a", "x", 5)))
        client.clean()
    assert first.is_committed and not unguarded
    for end in (".commit", ".clean", ".rollback"):
        assert any(path.endswith(end) for path in guarded), end
    assert not is_locked(s3_bucket)
    assert read_rows(base_path, storage_options=s3_bucket.options()) == [("a", "x", 5)]
    assert hoodie.metadata.validate(base_path, storage_options=s3_bucket.options()).is_right


def test_a_writer_waits_for_the_lock_and_commits_nothing_without_it(base_path: str, s3_bucket: Bucket) -> None:
    options = s3_bucket.options()
    with local_client(base_path, ON, storage_options=options) as client:
        client.upsert(rows(("a", "x", 1)))
    config = HoodieWriteConfig.from_properties(base_path, {}, options)
    other = TransactionManager(config)
    snapshot = TableSnapshot.load(base_path, options)
    assert other.takes_lock(snapshot) and not other.is_lock_required
    with local_client(base_path, NOT_PATIENT, storage_options=options) as client:
        with other.transaction(snapshot, "a test"):
            with pytest.raises(HoodieLockException, match=r"table_lock.json could not be taken"):
                client.upsert(rows(("b", "x", 1)))
            assert read_rows(base_path, storage_options=options) == [("a", "x", 1)]
        client.upsert(rows(("b", "x", 1)))
    other.close()
    assert read_rows(base_path, storage_options=options) == [("a", "x", 1), ("b", "x", 1)]
    assert hoodie.metadata.validate(base_path, storage_options=options).is_right


@pytest.mark.parametrize("given", [{}, {**ON, "hoodie.write.lock.single.writer.enable": "false"}])
def test_no_lock_is_taken_without_need(base_path: str, s3_bucket: Bucket, given: dict[str, str]) -> None:
    with local_client(base_path, given, storage_options=s3_bucket.options()) as client:
        assert client.upsert(rows(("a", "x", 1))).is_committed
    assert not [key for key in s3_bucket.list_keys() if key.endswith(LOCK)]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, marks=[pytest.mark.metadata_table, pytest.mark.table_version(9)], id="new_table"),
        pytest.param({"hoodie.metadata.record.index.enable": "true"}, id="record_index"),
    ],
)
def test_who_builds_one_without_being_told_in_so_many_words_takes_the_lock(
    base_path: str, s3_bucket: Bucket, s3_proxy: FaultyProxy, given: dict[str, str]
) -> None:
    unguarded: list[str] = []

    def look(request: Request) -> Any:
        if is_guarded(request) and not is_locked(s3_bucket):
            unguarded.append(request.path)

    s3_proxy.fault = look
    with local_client(base_path, given, storage_options=s3_bucket.options(s3_proxy.endpoint)) as client:
        assert client.upsert(rows(("a", "x", 1))).is_committed
    assert any("/.hoodie/metadata/files/" in f"/{key}" for key in s3_bucket.list_keys())
    assert not unguarded


def test_the_lock_costs_few_requests(base_path: str, s3_bucket: Bucket, s3_proxy: FaultyProxy) -> None:
    with local_client(base_path, ON, storage_options=s3_bucket.options(s3_proxy.endpoint)) as client:
        client.upsert(rows(("a", "x", 1)))
        s3_proxy.requests.clear()
        client.upsert(rows(("a", "x", 2)))
    of_lock = [request.method for request in s3_proxy.requests if LOCK in request.path]
    print(f"{len(of_lock)} of {len(s3_proxy.requests)} requests are the lock's: {of_lock}")
    assert 0 < len(of_lock) <= MOST_REQUESTS


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_two_clients_at_once_leave_a_right_metadata_table(
    base_path: str, s3_bucket: Bucket, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two processes: without what keeps the threads of one process apart."""
    monkeypatch.setattr(metadata_table, "_mutexes", _NoMutexes())
    options = s3_bucket.options()
    with local_client(base_path, ON, storage_options=options) as client:
        client.upsert(rows(("a", "x", 1)))
    done: list[str] = []

    def write(name: str) -> None:
        with local_client(base_path, storage_options=options) as client:
            for number in range(3):
                try:
                    client.insert(rows((f"{name}{number}", name, 1)))
                except hoodie.exception.HoodieException as error:
                    # Single writers beside each other commit nothing, or say that both did.
                    print(name, number, error)
                else:
                    done.append(f"{name}{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("y", "z")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with local_client(base_path, storage_options=options) as client:
        client.upsert(rows(("last", "x", 1)))
    assert done
    assert {row[0] for row in read_rows(base_path, storage_options=options)} >= {"a", "last", *done}
    assert TableSnapshot.load(base_path, options).table_config.metadata_partitions == ("files",)
    found = hoodie.metadata.validate(base_path, storage_options=options)
    assert found.is_right, str(found)


class _NoMutexes(dict[str, Any]):
    def setdefault(self, key: str, default: Any = None) -> Any:
        return threading.RLock()
