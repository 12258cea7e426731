"""Small files of a store far away, fetched side by side."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from hoodie.exception import HoodieSourceTimeoutException
from hoodie.storage.memory_storage import MemoryStorage
from hoodie.storage.storage import FileStatus
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers import files_ahead as module
from hoodie.utilities.sources.helpers.files_ahead import files_ahead
from hoodie.utilities.sources.json_dfs_source import JsonDFSSource
from hoodie.utilities.sources.source import SourceContext, read_all


class FarStorage(MemoryStorage):
    """Memory that answers late, and counts the calls that wait at once."""

    waiting = 0
    most = 0
    reads = 0
    lock = threading.Lock()

    @property
    def is_remote(self) -> bool:
        return True

    def read(self, path: str) -> bytes:
        cls = FarStorage
        with cls.lock:
            cls.waiting += 1
            cls.reads += 1
            cls.most = max(cls.most, cls.waiting)
        time.sleep(0.005)
        with cls.lock:
            cls.waiting -= 1
        return super().read(path)


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> FarStorage:
    FarStorage.waiting = FarStorage.most = FarStorage.reads = 0
    return FarStorage(f"memory://{request.node.name}")


def put(storage: FarStorage, count: int) -> list[FileStatus]:
    """Files of one row each."""
    for number in range(count):
        storage.replace(f"{storage.base_path}/{number:03d}.json", json.dumps({"k": number}).encode())
    return storage.list_files(storage.base_path)


def test_some_files_are_fetched_before_they_are_read(storage: FarStorage) -> None:
    files = put(storage, 50)
    with files_ahead(storage, files) as ahead:
        for number, file in enumerate(files):
            with ahead.open_input_file(file.path) as content:
                assert json.loads(content.read()) == {"k": number}
            assert FarStorage.reads <= number + 1 + 16
            assert ahead.file_status(file.path) == file
    assert (FarStorage.reads, 4 <= FarStorage.most <= 16) == (50, True)


def test_large_files_are_opened_as_they_are_read(storage: FarStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL_BYTES", 3)
    files = put(storage, 3)
    with files_ahead(storage, files) as ahead:
        assert FarStorage.reads == 0
        assert ahead.read(files[0].path) == b'{"k": 0}'


def test_files_that_are_not_read_are_not_fetched_in_the_end(storage: FarStorage) -> None:
    files = put(storage, 100)
    with files_ahead(storage, files):
        pass
    assert FarStorage.reads <= 16


def test_a_source_reads_files_ahead_and_sees_one_that_is_gone(
    storage: FarStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(storage, 40)
    source = JsonDFSSource(SourceContext(StreamerProperties({"hoodie.streamer.source.dfs.root": storage.base_path})))
    monkeypatch.setattr(source.selector, "storage", storage)
    batch: Any = source.fetch(None, None)
    rows, _ = read_all(batch)
    assert rows["k"].to_pylist() == list(range(40))
    assert FarStorage.most >= 4
    storage.delete_file(f"{storage.base_path}/020.json")
    with pytest.raises(HoodieSourceTimeoutException, match=r"020\.json was deleted"):
        read_all(batch)
