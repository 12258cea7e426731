"""What every `HoodieStorage` promises; a test module subclasses `StorageContract` once per storage."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

ODD_NAMES = ["a b", "a[b]", "a{b", "p*q", "a?b", "ä€", "a%2Fb", "dt=2026-01-01", "#x", "a:b", "'q\"", "~"]


class StorageContract:
    """The suite; a subclass gives ``storage`` and ``base`` (an empty place below the storage's base path)."""

    replaces_versions = True

    @pytest.fixture
    def storage(self) -> HoodieStorage:
        raise NotImplementedError

    @pytest.fixture
    def base(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def unwritable(self, storage: HoodieStorage, base: str) -> str:
        """A place where no file can be made."""
        storage.create_if_absent(join(base, "file"), b"x")
        return join(base, "file")

    def test_a_created_file_holds_its_content(self, storage: HoodieStorage, base: str) -> None:
        assert storage.create_if_absent(join(base, "x/y/file"), b"content") is True
        assert storage.read(join(base, "x/y/file")) == b"content"

    def test_creating_a_file_whose_name_is_taken_changes_nothing(self, storage: HoodieStorage, base: str) -> None:
        assert storage.create_if_absent(join(base, "file"), b"first") is True
        assert storage.create_if_absent(join(base, "file"), b"second") is False
        assert storage.read(join(base, "file")) == b"first"

    def test_the_same_content_does_not_make_the_second_creator_a_winner(
        self, storage: HoodieStorage, base: str
    ) -> None:
        assert storage.create_if_absent(join(base, "file"), b"") is True
        assert storage.create_if_absent(join(base, "file"), b"") is False

    def test_of_many_threads_exactly_one_creates_the_file(self, storage: HoodieStorage, base: str) -> None:
        for round_number in range(20):
            path = join(base, f"file{round_number}")
            barrier = threading.Barrier(8)

            def create(number: int, path: str = path, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                return storage.create_if_absent(path, b"%d" % number * 1000)

            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(create, range(8)))
            assert answers.count(True) == 1
            assert storage.read(path) == b"%d" % answers.index(True) * 1000

    def test_a_sample_has_files_of_any_depth_and_no_more_than_asked_for(
        self, storage: HoodieStorage, base: str
    ) -> None:
        assert storage.sample_files(join(base, "missing"), 5) == []
        paths = {join(base, "d", *name.split("/")) for name in ("a", "b/c", "b/d/e", ".x", "_y/z")}
        for path in paths:
            storage.create_if_absent(path, b"x")
        storage.create_directory(join(base, "d/empty"))
        assert set(storage.sample_files(join(base, "d"), 100)) == paths
        some = storage.sample_files(join(base, "d"), 2)
        assert len(set(some)) == 2 and set(some) < paths

    def test_only_an_empty_directory_is_deleted_as_such(self, storage: HoodieStorage, base: str) -> None:
        folder = join(base, "d")
        assert storage.delete_empty_directory(folder) is False
        storage.create_directory(folder)
        is_there = storage.exists(folder)
        assert storage.delete_empty_directory(folder) is is_there
        assert not storage.exists(folder)
        storage.create_if_absent(join(folder, "file"), b"x")
        assert storage.delete_empty_directory(folder) is False
        assert storage.read(join(folder, "file")) == b"x"

    def test_readers_see_the_old_or_the_new_content_of_a_replaced_file(self, storage: HoodieStorage, base: str) -> None:
        path = join(base, "file")
        contents = {bytes([letter]) * 100_000 for letter in b"abcdef"}
        storage.replace(path, b"a" * 100_000)
        stop = threading.Event()
        seen: set[bytes] = set()

        def watch() -> None:
            while not stop.is_set():
                seen.add(storage.read(path))

        watcher = threading.Thread(target=watch)
        watcher.start()
        for _ in range(10):
            for content in sorted(contents):
                storage.replace(path, content)
        stop.set()
        watcher.join()
        assert seen <= contents

    def test_a_version_of_a_file_is_replaced_by_one_writer(self, storage: HoodieStorage, base: str) -> None:
        if not self.replaces_versions:
            pytest.skip("the double of this store does not know versions")
        path = join(base, "x/lock")
        with pytest.raises(FileNotFoundError):
            storage.read_versioned(path)
        first = storage.replace_version(path, b"1", None)
        assert first is not None
        assert storage.replace_version(path, b"another", None) is None
        assert storage.read_versioned(path) == (b"1", first)
        second = storage.replace_version(path, b"2", first)
        assert second not in (None, first)
        assert storage.replace_version(path, b"late", first) is None
        assert storage.read_versioned(path) == (b"2", second)
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda n: storage.replace_version(path, f"{n}".encode(), second), range(10, 14)))
        (won,) = [number for number, version in enumerate(made, 10) if version is not None]
        assert storage.read(path) == str(won).encode()
        storage.delete_file(path)
        assert storage.replace_version(path, b"gone", made[won - 10]) is None

    def test_a_modification_time_is_set_or_the_answer_is_false(self, storage: HoodieStorage, base: str) -> None:
        path = f"{base}/times/file"
        assert storage.set_modification_time(path, 1_700_000_000_123) is False
        storage.replace(path, b"content")
        before = storage.file_status(path)
        assert before is not None
        was_set = storage.set_modification_time(path, 1_700_000_000_123)
        after = storage.file_status(path)
        assert after is not None and storage.read(path) == b"content"
        assert after.modification_time_ms == (1_700_000_000_123 if was_set else before.modification_time_ms)
        assert [status.modification_time_ms for status in storage.list_directory(f"{base}/times")] == [
            after.modification_time_ms
        ]

    def test_touching_keeps_the_content(self, storage: HoodieStorage, base: str) -> None:
        path = join(base, "file")
        if isinstance(storage, ObjectStorage):
            with pytest.raises(HoodieNotSupportedException):
                storage.touch(path)
            return
        assert storage.touch(path) is False
        storage.create_if_absent(path, b"content")
        before = storage.file_status(path)
        assert storage.touch(path) is True
        after = storage.file_status(path)
        assert before is not None
        assert after is not None
        assert after.modification_time_ms >= before.modification_time_ms
        assert storage.read(path) == b"content"

    def test_replace_makes_a_missing_file_and_its_parents(self, storage: HoodieStorage, base: str) -> None:
        storage.replace(join(base, "p/q/file"), b"x")
        assert storage.read(join(base, "p/q/file")) == b"x"

    def test_replace_removes_a_stale_checksum(self, storage: HoodieStorage, base: str) -> None:
        storage.replace(join(base, "file"), b"old")
        storage.replace(join(base, ".file.crc"), b"stale")
        storage.replace(join(base, "file"), b"new")
        with pytest.raises(FileNotFoundError):
            storage.read(join(base, ".file.crc"))

    def test_reading_a_missing_file_is_file_not_found_naming_it(self, storage: HoodieStorage, base: str) -> None:
        with pytest.raises(FileNotFoundError, match="missing_one"):
            storage.read(join(base, "missing_one"))
        with pytest.raises(FileNotFoundError, match="missing_one"):
            storage.open_input_file(join(base, "missing_one"))
        with pytest.raises(FileNotFoundError, match="missing_one"):
            storage.open_input_stream(join(base, "missing_one"))

    def test_status_tells_files_directories_and_nothing_apart(self, storage: HoodieStorage, base: str) -> None:
        storage.create_if_absent(join(base, "d/file"), b"12345")
        file = storage.file_status(join(base, "d/file"))
        directory = storage.file_status(join(base, "d"))
        assert file is not None and directory is not None
        assert (file.path, file.name, file.size_bytes, file.is_directory) == (join(base, "d/file"), "file", 5, False)
        assert file.modification_time_ms > 1_600_000_000_000
        assert (directory.size_bytes, directory.is_directory) == (0, True)
        assert storage.file_status(join(base, "nothing")) is None
        assert storage.file_status(join(base, "d/file/below")) is None
        assert storage.exists(join(base, "d")) and not storage.exists(join(base, "nothing"))

    def test_a_listing_is_sorted_and_holds_direct_children_only(self, storage: HoodieStorage, base: str) -> None:
        for name in ("b", "a/1", "a/2/3", "c", ".hidden"):
            storage.create_if_absent(join(base, "l", name), b"x")
        listed = storage.list_directory(join(base, "l"))
        assert [(entry.name, entry.is_directory) for entry in listed] == [
            (".hidden", False),
            ("a", True),
            ("b", False),
            ("c", False),
        ]
        assert [entry.path for entry in listed] == [join(base, "l", entry.name) for entry in listed]
        assert storage.list_names(join(base, "l")) == [".hidden", "a/", "b", "c"]

    def test_files_are_listed_at_any_depth_sorted_by_path(self, storage: HoodieStorage, base: str) -> None:
        for name in ("b", "a/1", "a/2/3"):
            storage.create_if_absent(join(base, "l", name), b"x")
        listed = storage.list_files(join(base, "l"))
        assert [entry.path for entry in listed] == [join(base, "l", name) for name in ("a/1", "a/2/3", "b")]
        assert not any(entry.is_directory for entry in listed)

    def test_a_missing_directory_lists_as_empty(self, storage: HoodieStorage, base: str) -> None:
        assert storage.list_directory(join(base, "missing")) == []
        assert storage.list_names(join(base, "missing")) == []
        assert storage.list_files(join(base, "missing")) == []

    def test_listing_a_file_is_an_error(self, storage: HoodieStorage, base: str) -> None:
        storage.create_if_absent(join(base, "file"), b"x")
        with pytest.raises(HoodieIOException, match="file"):
            storage.list_directory(join(base, "file"))
        with pytest.raises(HoodieIOException, match="file"):
            storage.list_names(join(base, "file"))
        with pytest.raises(HoodieIOException, match="file"):
            storage.list_files(join(base, "file"))

    def test_checksums_and_temporary_files_are_not_listed(self, storage: HoodieStorage, base: str) -> None:
        names = ["file", ".file.crc", ".hoodie_tmp_" + "0f" * 16, ".f_1.log.1_0-1-1", ".hoodie_tmp_x"]
        for name in names:
            storage.replace(join(base, "l", name), b"x")
        expected = [".f_1.log.1_0-1-1", ".hoodie_tmp_x", "file"]
        assert [entry.name for entry in storage.list_directory(join(base, "l"))] == expected
        assert storage.list_names(join(base, "l")) == expected
        assert [entry.name for entry in storage.list_files(join(base, "l"))] == expected

    def test_a_listing_is_never_old(self, storage: HoodieStorage, base: str) -> None:
        for number in range(5):
            storage.create_if_absent(join(base, "l", str(number)), b"x")
            assert (
                len(storage.list_directory(join(base, "l"))) == len(storage.list_names(join(base, "l"))) == number + 1
            )
        storage.delete_file(join(base, "l/0"))
        assert len(storage.list_directory(join(base, "l"))) == 4

    def test_deleting_tells_whether_there_was_something(self, storage: HoodieStorage, base: str) -> None:
        storage.replace(join(base, "file"), b"x")
        storage.replace(join(base, ".file.crc"), b"x")
        assert storage.delete_file(join(base, "file")) is True
        assert storage.delete_file(join(base, "file")) is False
        assert storage.file_status(join(base, ".file.crc")) is None

    def test_a_file_that_is_moved_replaces_what_was_there(self, storage: HoodieStorage, base: str) -> None:
        content = b"x" * 100_000
        storage.replace(join(base, "old", "file"), content)
        storage.replace(join(base, "new", "deep", "file"), b"y")
        for target in (join(base, "new", "deep", "file"), join(base, "made", "file")):
            source = next(file.path for file in storage.list_files(base) if file.size_bytes == len(content))
            storage.move_file(source, target)
            assert storage.read(target) == content
            assert not storage.exists(source)
        with pytest.raises(FileNotFoundError):
            storage.move_file(join(base, "nothing"), join(base, "made", "file"))
        assert storage.read(join(base, "made", "file")) == content

    def test_deleting_a_directory_takes_all_below_it_and_nothing_beside_it(
        self, storage: HoodieStorage, base: str
    ) -> None:
        for name in ("d/1", "d/e/2", "dd/3", "d*/4"):
            storage.create_if_absent(join(base, name), b"x")
        assert storage.delete_directory(join(base, "d*")) is True
        assert storage.exists(join(base, "d/1"))
        assert storage.delete_directory(join(base, "d")) is True
        assert storage.delete_directory(join(base, "d")) is False
        assert [entry.path for entry in storage.list_files(base)] == [join(base, "dd/3")]

    @pytest.mark.parametrize("count", [0, 1, 2, 40])
    def test_many_files_are_deleted_whether_they_are_there_or_not(
        self, storage: HoodieStorage, base: str, count: int
    ) -> None:
        names = [f"d/{i:03d}" for i in range(count)]
        for name in [*names[::2], "d/other"]:
            storage.create_if_absent(join(base, name), b"x")
        storage.delete_files(join(base, name) for name in names)
        assert [status.name for status in storage.list_files(base)] == ["other"]

    def test_file_and_directory_are_not_deleted_for_each_other(self, storage: HoodieStorage, base: str) -> None:
        storage.create_if_absent(join(base, "d/file"), b"x")
        with pytest.raises(HoodieIOException):
            storage.delete_file(join(base, "d"))
        with pytest.raises(HoodieIOException):
            storage.delete_directory(join(base, "d/file"))
        assert storage.read(join(base, "d/file")) == b"x"

    def test_a_directory_can_be_made_twice(self, storage: HoodieStorage, base: str) -> None:
        storage.create_directory(join(base, "m/n"))
        storage.create_directory(join(base, "m/n"))
        assert storage.list_directory(join(base, "m/n")) == []

    def test_a_failure_names_the_path(self, storage: HoodieStorage, unwritable: str) -> None:
        def stream() -> None:
            with storage.open_output_stream(join(unwritable, "below")) as stream:
                stream.write(b"x")

        for attempt in (
            lambda: storage.create_if_absent(join(unwritable, "below"), b"x"),
            lambda: storage.replace(join(unwritable, "below"), b"x"),
            stream,
        ):
            with pytest.raises(HoodieIOException, match=f"{unwritable}/below"):
                attempt()

    def test_data_files_stream_out_and_are_read_at_random(self, storage: HoodieStorage, base: str) -> None:
        path = join(base, "p1/p2/data.parquet")
        with storage.open_output_stream(path) as stream:
            stream.write(b"0123456789")
            stream.write(pa.py_buffer(b"abc"))
        with storage.open_input_file(path) as file:
            assert file.size() == 13
            assert file.read_at(3, 9) == b"9ab"
            file.seek(2)
            assert file.read(2) == b"23"
        with storage.open_output_stream(path) as stream:
            stream.write(b"x")
        assert storage.read(path) == b"x"

    def test_two_readers_of_a_file_do_not_disturb_each_other(self, storage: HoodieStorage, base: str) -> None:
        storage.create_if_absent(join(base, "file"), b"0123456789")
        with storage.open_input_file(join(base, "file")) as one, storage.open_input_file(join(base, "file")) as two:
            assert one.read(5) == b"01234"
            assert two.read(5) == b"01234"
            assert one.read(5) == b"56789"

    def test_a_stream_has_one_position_whichever_thread_reads_on(self, storage: HoodieStorage, base: str) -> None:
        path = join(base, "file")
        batches = [pa.record_batch({"a": [number]}) for number in range(4)]
        with storage.open_output_stream(path) as out, pa.ipc.new_stream(out, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with storage.open_input_stream(path) as file, ThreadPoolExecutor(1) as other:
            first = file.read(3) + other.submit(file.read, 4).result() + file.read(5)
        assert first == storage.read(path)[:12]
        with storage.open_input_stream(path) as file, ThreadPoolExecutor(1) as other:
            reader = pa.ipc.open_stream(file)
            calls = [reader.read_next_batch, lambda: other.submit(reader.read_next_batch).result()] * 2
            assert [call() for call in calls] == batches

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_taken_literally(self, storage: HoodieStorage, base: str, name: str) -> None:
        path = join(base, name, "file")
        assert storage.create_if_absent(path, b"x") is True
        storage.replace(path, b"y")
        with storage.open_output_stream(join(base, name, "data")) as stream:
            stream.write(b"z")
        assert storage.read(path) == b"y"
        assert [entry.name for entry in storage.list_directory(base)] == [name]
        assert [entry.path for entry in storage.list_files(base)] == [join(base, name, "data"), path]
        assert storage.delete_file(path) and storage.delete_directory(join(base, name))
        assert storage.list_files(base) == []

    def test_a_storage_survives_pickling(self, storage: HoodieStorage, base: str) -> None:
        storage.create_if_absent(join(base, "file"), b"x")
        copy = pickle.loads(pickle.dumps(storage))
        assert copy.read(join(base, "file")) == b"x"
        assert copy.create_if_absent(join(base, "file"), b"y") is False
