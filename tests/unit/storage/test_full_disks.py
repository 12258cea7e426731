"""A full disk and a process without threads are told by errors of hoodie: by every writer of files."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieException, HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.client.staged_rows import StagingFolder
from hoodie.exception import HoodieIOException
from hoodie.metrics.progress import Ticker
from hoodie.storage import local_files, local_storage
from hoodie.storage.local_storage import LocalStorage
from hoodie.threads import ThreadPool, start_thread

FULL = "No space left on device"


class FullDisk:
    """Lets some files be written, and fails at one write of another kind of file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.suffix = ""
        self.failed: list[str] = []
        disk = self

        class Full(local_storage._DurableFile):
            def write(self, data: Any) -> Any:
                disk.refuse(self._path)
                return super().write(data)

            def close(self) -> None:
                # Arrow's own writers do not call `write`.
                disk.refuse(self._path)
                super().close()

        monkeypatch.setattr(local_storage, "_DurableFile", Full)
        put = local_files._write_temporary

        def write_temporary(path: str, data: bytes) -> str:
            self.refuse(path)
            return put(path, data)

        monkeypatch.setattr(local_files, "_write_temporary", write_temporary)

    def refuse(self, path: str) -> None:
        if self.suffix and (path.endswith(self.suffix) or f"{self.suffix}." in path):
            self.failed.append(path)
            raise OSError(errno.ENOSPC, FULL)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


@pytest.mark.parametrize("suffix", [".parquet", ".log", ".hfile", ".requested"])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, disk: FullDisk, suffix: str) -> None:
    properties = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.metadata.compact.max.delta.commits": 2,
        "hoodie.compact.inline.max.delta.commits": 2,
    }
    path, told = str(tmp_path / "t"), []

    def write(number: int) -> None:
        hoodie.write_table(pa.table({"id": ["a"], "v": [number]}), path, record_key_fields="id", properties=properties)

    write(0)
    for number in range(1, 4):
        disk.suffix = suffix
        try:
            write(number)
        except HoodieException as error:
            told.append(str(error))
        disk.suffix = ""
        write(number)
    assert disk.failed
    for message in told:
        assert FULL in message
        assert any(failed in message for failed in disk.failed)
    assert hoodie.read_table(path).column("v").to_pylist() == [3]


def test_staged_rows_name_their_file(tmp_path: Path, disk: FullDisk) -> None:
    hoodie.write_table(pa.table({"id": ["a"]}), str(tmp_path), record_key_fields="id")
    staging = StagingFolder.new(LocalStorage(str(tmp_path)), str(tmp_path), is_table=True)
    batch = pa.record_batch({"n": pa.array([1])})
    disk.suffix = ".arrow"
    with pytest.raises(HoodieIOException, match=FULL) as error:
        staging.write([batch], batch.schema)
    assert [path for path in disk.failed if path in str(error.value)]


def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_a_process_without_threads_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    # Small files are merged without a thread.
    ids = [f"k{number:06}" for number in range(20_000)]
    hoodie.write_table(pa.table({"id": ids, "v": range(20_000)}), path, record_key_fields="id")
    config = HoodieWriteConfig.from_properties(path, {})

    def write() -> None:
        with HoodieLocalWriteClient(config) as client:
            client.upsert(pa.table({"id": ids[:1], "v": [3]}))

    calls: list[Callable[[], Any]] = [
        write,
        lambda: ThreadPool(2, "hoodie-test").submit(print),
        lambda: start_thread(threading.Thread(name="hoodie-test")),
    ]
    with monkeypatch.context() as patch:
        without_threads(patch)
        for call in calls:
            with pytest.raises(HoodieException, match="could not be started: can't start new thread"):
                call()
        Ticker(lambda: None).stop()
    assert hoodie.read_table(path).sort_by("id").column("v").to_pylist() == list(range(20_000))
    write()
    assert hoodie.read_table(path).sort_by("id").column("v").to_pylist() == [3, *range(1, 20_000)]
