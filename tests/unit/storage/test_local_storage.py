from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import stat
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.storage import local_files, memory_storage
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.memory_storage import MemoryStorage
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.storage_factory import open_storage
from tests.support.hookable_storage import losing_answers
from tests.support.timeline_files import archive_folder, timeline_folder


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


def _create(path: str, number: int, start: threading.Event, answers: multiprocessing.Queue[tuple[int, bool]]) -> None:
    storage = LocalStorage(os.path.dirname(path))
    start.wait()
    answers.put((number, storage.create_if_absent(path, b"%d" % number * 100_000)))


def test_of_several_processes_exactly_one_creates_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    path = str(tmp_path / "file")
    processes = [context.Process(target=_create, args=(path, number, start, answers)) for number in range(4)]
    for process in processes:
        process.start()
    start.set()
    results = dict(answers.get(timeout=300) for _ in processes)
    for process in processes:
        process.join()
    winners = [number for number, won in results.items() if won]
    assert len(winners) == 1
    assert Path(path).read_bytes() == b"%d" % winners[0] * 100_000
    assert os.listdir(tmp_path) == ["file"]


def test_a_put_that_was_applied_before_its_answer_was_lost_counts(tmp_path: Path) -> None:
    storage = losing_answers(tmp_path, is_applied=True)
    assert storage.create_if_absent(str(tmp_path / "file"), b"mine") is True
    assert storage.read(str(tmp_path / "file")) == b"mine"


def test_a_put_that_lost_its_answer_and_the_race_lost_the_race(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"theirs")
    storage = losing_answers(tmp_path, is_applied=True)
    assert storage.create_if_absent(str(tmp_path / "file"), b"mine") is False


def test_a_put_that_was_never_applied_is_an_error_naming_the_path(tmp_path: Path) -> None:
    storage = losing_answers(tmp_path, is_applied=False)
    with pytest.raises(HoodieIOException, match=r"Creating .*/file failed: the answer was lost") as raised:
        storage.create_if_absent(str(tmp_path / "file"), b"mine")
    assert isinstance(raised.value.__cause__, TimeoutError)


def test_whose_an_empty_file_is_cannot_be_read_back(tmp_path: Path) -> None:
    storage = losing_answers(tmp_path, is_applied=True)
    with pytest.raises(HoodieIOException, match="unknown"):
        storage.create_if_absent(str(tmp_path / "file"), b"")


def test_a_link_whose_answer_says_exists_though_it_was_made_counts(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_twice(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", link_twice)
    assert storage.create_if_absent(str(tmp_path / "file"), b"") is True


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_the_race_still_has_one_winner(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    assert storage.create_if_absent(str(tmp_path / "file"), b"first") is True
    assert storage.create_if_absent(str(tmp_path / "file"), b"second") is False
    assert storage.read(str(tmp_path / "file")) == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_system_with_no_atomic_step_is_refused(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(sys, "platform", "other")
    with pytest.raises(HoodieNotSupportedException, match=r"another file system"):
        storage.create_if_absent(str(tmp_path / "file"), b"x")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_neither_the_file_nor_a_temporary_one(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HoodieIOException, match="No space left"):
        storage.create_if_absent(str(tmp_path / "new"), b"x")
    with pytest.raises(HoodieIOException, match="No space left"):
        storage.replace(str(tmp_path / "old"), b"x")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_the_final_name_appears_only_with_the_flushed_content(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        steps.append("fsync")
        fsync(descriptor)

    def watched_link(source: str, target: str) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    storage.create_if_absent(str(tmp_path / "file"), b"x")
    assert steps == ["fsync", "link", "fsync"]
    steps.clear()
    storage.create_if_absent(str(tmp_path / "empty"), b"")
    assert steps == ["link", "fsync"]


def test_a_data_file_is_flushed_whether_or_not_arrow_gives_out_its_descriptor(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    stream = storage.open_output_stream(str(tmp_path / "file"))
    monkeypatch.setattr(type(stream), "fileno", lambda self: 1 / 0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    stream.write(b"x")
    stream.close()
    assert flushed == [os.stat(tmp_path / "file").st_ino, os.stat(tmp_path).st_ino]


def test_a_data_file_that_was_deleted_meanwhile_has_nothing_to_flush(storage: LocalStorage, tmp_path: Path) -> None:
    with storage.open_output_stream(str(tmp_path / "file")) as stream:
        stream.write(b"x")
        os.unlink(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_files_that_are_created_together_are_flushed_one_by_one_and_their_folders_once(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("flush folder" if is_folder else "flush file")
        fsync(descriptor)

    def watched_link(source: str, target: str) -> None:
        steps.append(os.path.basename(target))
        link(source, target)

    (tmp_path / "p").mkdir()
    (tmp_path / "taken").write_bytes(b"other")
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    files = [("empty", b""), ("p/file", b"x"), ("taken", b"y"), ("last", b"z")]
    made = storage.create_all_if_absent([(str(tmp_path / name), data) for name, data in files])
    assert made == [True, True, False, True]
    assert steps == ["empty", "flush file", "file", "flush file", "last", "flush folder", "flush folder"]
    assert [(tmp_path / name).read_bytes() for name, _ in files] == [b"", b"x", b"other", b"z"]


def test_a_stale_checksum_is_gone_before_a_new_file_has_its_name(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / ".file.crc").write_bytes(b"stale")
    assert storage.create_if_absent(str(tmp_path / "file"), b"x") is True
    assert os.listdir(tmp_path) == ["file"]


def test_the_checksum_of_a_file_that_wins_is_kept(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"java's")
    (tmp_path / ".file.crc").write_bytes(b"its checksum")
    assert storage.create_if_absent(str(tmp_path / "file"), b"x") is False
    assert (tmp_path / ".file.crc").exists()


@pytest.mark.parametrize("target", ["outside", "inside_directory", "itself"])
def test_links_out_of_the_table_and_to_directories_are_refused(tmp_path: Path, target: str) -> None:
    table = tmp_path / "table"
    (table / "p").mkdir(parents=True)
    (table / "real").mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    targets = {"outside": tmp_path / "outside", "inside_directory": table / "real", "itself": table}
    (table / "p" / "link").symlink_to(targets[target])
    storage = LocalStorage(str(table))
    with pytest.raises(HoodieIOException, match=r"symbolic link .*/p/link"):
        storage.list_directory(str(table / "p"))
    with pytest.raises(HoodieIOException, match=r"symbolic link .*/p/link"):
        storage.list_names(str(table / "p"))
    with pytest.raises(HoodieIOException, match=r"symbolic link .*/p/link"):
        storage.list_files(str(table))


def test_a_link_to_a_file_of_the_table_is_that_file_and_a_dangling_one_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "file").write_bytes(b"12345")
    (table / "link").symlink_to(table / "file")
    (table / ".#file").symlink_to("user@host.1234")
    listed = LocalStorage(str(table)).list_directory(str(table))
    assert [(entry.name, entry.size_bytes) for entry in listed] == [("file", 5), ("link", 5)]
    assert LocalStorage(str(table)).list_names(str(table)) == ["file", "link"]


def test_a_table_behind_a_link_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "disk" / "p").mkdir(parents=True)
    (tmp_path / "disk" / "p" / "file").write_bytes(b"x")
    (tmp_path / "disk" / "p" / "same").symlink_to(tmp_path / "disk" / "p" / "file")
    (tmp_path / "table").symlink_to(tmp_path / "disk")
    listed = LocalStorage(str(tmp_path / "table")).list_files(str(tmp_path / "table"))
    assert [entry.path for entry in listed] == [str(tmp_path / "table/p/file"), str(tmp_path / "table/p/same")]


def test_deleting_a_directory_does_not_follow_links(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"x")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path / "kept")
    assert storage.delete_directory(str(tmp_path / "d")) is True
    assert (tmp_path / "kept" / "file").exists()


def test_a_directory_is_deleted_though_others_write_into_it_meanwhile(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As writers that wait for a table do, whose lock is in there; somebody who never ends is an error."""
    folder = tmp_path / "d"
    folder.mkdir()
    rmdir, times = os.rmdir, 3

    def refill(path: str, *arguments: object, **named: object) -> None:
        nonlocal times
        times -= 1
        if times > 0:
            (folder / "file").touch()
        rmdir(path, *arguments, **named)

    monkeypatch.setattr(os, "rmdir", refill)
    assert storage.delete_directory(str(folder)) is True
    assert not folder.exists()
    folder.mkdir()
    times = 1000
    with pytest.raises(HoodieIOException, match="not empty"):
        storage.delete_directory(str(folder))


def test_a_file_that_is_open_for_reading_survives_its_truncation(storage: LocalStorage, tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    storage.replace(path, b"x" * 1_000_000)
    with storage.open_input_file(path) as file:
        os.truncate(path, 10)
        assert len(file.read_at(100, 500_000)) == 0


def test_storage_options_are_never_printed(tmp_path: Path) -> None:
    for storage in (
        open_storage(str(tmp_path), {"secret": "hunter2"}),
        open_storage("memory://t", {"secret": "hunter2"}),
    ):
        assert "hunter2" not in repr(storage)
        assert "hunter2" not in str(storage)


def test_storage_options_cross_to_tasks(tmp_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(open_storage(str(tmp_path), {"key": "value"})))
    assert copy.storage_options == {"key": "value"}


@pytest.mark.parametrize("base_path", ["hdfs://host/t", "oss://bucket/t", "sftp://host/t"])
def test_a_store_without_a_conditional_put_is_refused_by_name(base_path: str) -> None:
    scheme = base_path.partition(":")[0]
    with pytest.raises(HoodieNotSupportedException, match=rf"{scheme}:// are not .*conditional put.*gs://.*s3://"):
        open_storage(base_path)


@pytest.mark.parametrize("base_path", ["s3a://bucket/t", "gs://bucket/t", "abfs://c@a.dfs.core.windows.net/t"])
def test_object_stores_are_homes_of_tables(base_path: str) -> None:
    assert isinstance(open_storage(base_path), ObjectStorage)


def test_the_scheme_picks_the_storage(tmp_path: Path) -> None:
    assert isinstance(open_storage(f"file://{tmp_path}/"), LocalStorage)
    assert isinstance(open_storage("memory://t"), MemoryStorage)
    assert isinstance(open_storage(str(tmp_path)), LocalStorage)


def test_a_storage_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        LocalStorage(str(tmp_path)).base_path = "/other"  # type: ignore[misc]


def test_in_memory_nobody_comes_between_the_look_and_the_put(monkeypatch: pytest.MonkeyPatch) -> None:
    base = f"memory://{uuid.uuid4().hex}"
    storage = open_storage(base)
    looked = memory_storage._is_directory

    def slow_look(path: str) -> bool:
        found = looked(path)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(memory_storage, "_is_directory", slow_look)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: storage.create_if_absent(f"{base}/file", b"%d" % number), range(4)))
    assert answers.count(True) == 1


def test_memory_is_shared_by_all_storages_of_the_process() -> None:
    base = f"memory://{uuid.uuid4().hex}"
    open_storage(base).create_if_absent(f"{base}/file", b"x")
    assert open_storage(base).read(f"{base}/file") == b"x"


def test_old_temporary_files_of_killed_processes_are_deleted_and_nothing_else(
    storage: LocalStorage, tmp_path: Path
) -> None:
    names = [".hoodie_tmp_" + "0f" * 16, ".hoodie_tmp_" + "1e" * 16, ".hoodie_tmp_mine", "file", ".file.crc"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        if name != names[1]:
            os.utime(tmp_path / name, (1, 1))
    assert storage.delete_leftovers(str(tmp_path), 60_000) == 1
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])
    assert storage.delete_leftovers(str(tmp_path / "missing"), 60_000) == 0


def test_a_clock_that_is_ahead_takes_no_temporary_file_of_another_writer_for_an_old_one(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = 2 * 3600
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + ahead_s * 10**9)
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + ahead_s)
    living = tmp_path / (".hoodie_tmp_" + "0f" * 16)
    living.write_bytes(b"x")
    assert storage.delete_leftovers(str(tmp_path), 3_600_000) == 0
    assert [path.name for path in tmp_path.iterdir()] == [living.name]


@pytest.mark.parametrize("write", ["create_if_absent", "replace"])
def test_a_temporary_file_that_another_writer_deleted_is_told_with_the_clock(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    make = local_files._write_temporary

    def deleted_by_others(path: str, data: bytes) -> str:
        temporary = make(path, data)
        os.unlink(temporary)
        return temporary

    monkeypatch.setattr(local_files, "_write_temporary", deleted_by_others)
    with pytest.raises(HoodieIOException, match=r"deleted this temporary file .*compare the clocks .*\.hoodie_tmp_"):
        getattr(storage, write)(str(tmp_path / "file"), b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["", ".heartbeat", ".temp", ".index_defs", "the timeline", "its archive"])
def test_a_commit_deletes_what_killed_processes_left_in_the_timeline_folder(tmp_path: Path, folder: str) -> None:
    base_path = str(tmp_path / "t")
    rows = pa.table({"id": ["a"], "v": [1]})
    hoodie.write_table(rows, base_path, record_key_fields="id")
    folders = {"the timeline": timeline_folder(base_path), "its archive": archive_folder(base_path)}
    left = folders.get(folder, tmp_path / "t" / ".hoodie" / folder) / (".hoodie_tmp_" + "0f" * 16)
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half a comm")
    os.utime(left, (1, 1))
    hoodie.write_table(rows, base_path)
    assert not left.exists()
