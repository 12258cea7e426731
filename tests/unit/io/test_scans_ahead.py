"""Slices of many kinds that are scanned together, some ahead, give what each gives alone; and nothing is left behind.

Whatever stops a scan, no thread, log record or open file of it stays: a consumer that stops early, or storage that
fails at any of its calls.
"""

from __future__ import annotations

import gc
import io
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hoodie.avro.schema_converters import to_avro
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieException, HoodieIOException
from hoodie.io import file_group_reader
from hoodie.io.file_group_reader import HoodieFileGroupReader, count_rows, scan_file_groups
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_block_writer import encode_log_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.log_records import LogRows
from hoodie.io.log_row_store import LogRowStore
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_fragments import ParquetFragment
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.built_in_key_generators import SimpleKeyGenerator
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from tests.support.hookable_storage import Call, storage_with
from tests.support.log_files import write_log_file
from tests.support.log_slices import (
    BASE_INSTANT,
    SCHEMA,
    SPECS,
    USER,
    as_table,
    base_rows,
    entries_of,
    instant,
    joined,
    random_cases,
    slice_of,
    steps,
)  # fmt: skip

LATER = SCHEMA.append(pa.field("more", pa.string()))
"""The table's columns: those of the files, and one that came later, which most files lack."""
FILTER = pc.field("n").is_null() & (pc.field("ts") >= 2)
COLUMNS = [None, ["id", "val"], ["val"], ["n", "_hoodie_commit_time"], ["more", "_hoodie_record_key"], []]
SEEDS, SOAK_SEEDS = 2, 150


class CountedFile(io.RawIOBase):
    """An input file; its reads are calls too. It is closed at the latest when it is dropped."""

    def __init__(self, path: str, step: Callable[[str], None], open_files: dict[int, str]) -> None:
        self._file = io.FileIO(path)
        self._path, self._step, self._open_files = path, step, open_files
        open_files[id(self)] = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        self._step(self._path)
        return self._file.readinto(buffer) or 0

    def read(self, size: int = -1) -> bytes:
        self._step(self._path)
        return self._file.read(size) or b""

    def close(self) -> None:
        self._open_files.pop(id(self), None)
        self._file.close()
        super().close()


class Storage:
    """A storage whose calls and reads are counted; the one with the number ``fail_at`` fails, 0 is none."""

    def __init__(self, folder: Path, fail_at: int = 0) -> None:
        self.calls, self.failed, self._lock = 0, "", threading.Lock()
        self.open_files: dict[int, str] = {}
        self._fail_at = fail_at
        self.storage = storage_with(folder, self._around)

    @property
    def left_open(self) -> list[str]:
        """The open files but the one that failed: Arrow keeps a Python file that failed in a scan."""
        return [path for path in self.open_files.values() if path != self.failed or ".log." in path]

    def _around(self, call: Call) -> Any:
        if call.name not in ("open", "read"):
            return call.apply()
        self._step(call.path, HoodieIOException)
        if call.name == "read":
            return call.apply()
        return pa.PythonFile(CountedFile(call.path, self._step, self.open_files), mode="r")

    def _step(self, path: str, error: type[Exception] = OSError) -> None:
        with self._lock:
            self.calls += 1
            fails = self.calls == self._fail_at
        if fails:
            self.failed = path
            raise error("failed by the test")


def as_partial(block: bytes) -> bytes:
    """The same block, as one of a partial update."""
    (found,) = read_log_blocks(block, "a block")
    headers = {**found.headers, HeaderMetadataType.IS_PARTIAL: "true"}
    return encode_log_block(found.block_type, headers, bytes(found.content))


@attrs.frozen
class Slices:
    """Random slices of one table, and how they are read.

    Attributes:
        slices: Most have log files; some no base file.
        arguments: Of the readers.
    """

    slices: list[FileSlice]
    arguments: dict[str, Any]

    @classmethod
    def make(cls, folder: Path, source: random.Random) -> Slices:
        """Slices, and a way to read them."""
        choice = source.choice
        spec, with_meta = choice(sorted(SPECS)), source.random() < 0.75
        columns, instants, row_filter = choice(COLUMNS), None, None
        if source.random() < 0.3:
            row_filter = RowFilter.of(FILTER, LATER, str(folder))
        if with_meta and source.random() < 0.3:
            instants = InstantRange(after=choice([BASE_INSTANT, "2", instant(1)]))
        slices = [
            _random_slice(folder / str(number), source, number, with_meta, spec != "payload")
            for number in range(choice([2, 5, 12, 20]))
        ]
        merging = LogMerging(
            SPECS[spec],
            key_generator=None if with_meta else SimpleKeyGenerator(("id",)),
            config=HoodieLogMergeConfig(merge_max_size=choice([0, 1 << 20])),
        )
        arguments = {
            "log_merging": merging, "columns": columns, "row_filter": row_filter, "instant_range": instants,
        }  # fmt: skip
        return cls(slices, arguments)

    def readers(self, storage: HoodieStorage) -> list[HoodieFileGroupReader]:
        """A reader for each slice."""
        context = HoodieReaderContext(storage, LATER, **self.arguments)
        return [HoodieFileGroupReader(context, part) for part in self.slices]

    def one_by_one(self, storage: HoodieStorage) -> list[Any]:
        """What `rows_of` gives if each slice is read alone, on this thread."""
        columns = self.arguments["columns"]
        found: list[Any] = [0]
        for reader in self.readers(storage):
            # Batches without columns do not tell their rows.
            count, *rows = rows_of(
                reader.with_columns(["id"] if columns == [] else columns or LATER.names).iter_batches()
            )
            found[0] += count
            found += [{} for _ in rows] if columns == [] else rows
        return found


def _random_slice(folder: Path, source: random.Random, number: int, with_meta: bool, with_parts: bool) -> FileSlice:
    folder.mkdir(parents=True)
    count = source.choice([1, 5, 20, 150])
    cases = {f"{number:02d}{key}": of_key for key, of_key in random_cases(source, count).items()}
    rows, entries = base_rows(cases), joined(entries_of(cases), source)
    has_logs, has_base = bool(entries) and source.random() < 0.85, source.random() < 0.8
    file_slice = slice_of(folder, rows if has_base or not has_logs else None)
    if file_slice.base_file is not None:
        table = as_table(rows, SCHEMA)
        if source.random() < 0.3:
            table = table.drop_columns(["n"])
        table = table if with_meta else _without_meta(table)
        path = Path(file_slice.base_file.path)
        pq.write_table(table, path, row_group_size=100)
        base_file = attrs.evolve(file_slice.base_file, size_bytes=path.stat().st_size)
        file_slice = attrs.evolve(file_slice, base_file=base_file)
    files: list[HoodieLogFile] = []
    for place, entry in enumerate(entries if has_logs else ()):
        if isinstance(entry, LogRows):
            names = ["id", "ts", "n"] if with_parts and source.random() < 0.3 else USER.names
            avro = to_avro(pa.schema([USER.field(name) for name in names]), "r", "n", True)
            rows_of = pa.Table.from_batches([entry.rows]).select([*META_COLUMNS, *names])
            blocks = encode_data_blocks(
                rows_of if with_meta else _without_meta(rows_of), avro, entry.instant_time,
                source.choice(list(LogBlockFormat)), source.choice([2_000, 1 << 20]),
            )  # fmt: skip
            made = [block if len(names) == len(USER) else as_partial(block) for block in blocks]
        else:
            paths, avro = pa.array([""] * len(entry.record_keys)), to_avro(USER, "r", "n", True)
            made = list(encode_delete_blocks(entry.record_keys, paths, entry.ordering, avro, entry.instant_time))
        files.append(write_log_file(folder, *made, instant_time=instant(place)))
    return attrs.evolve(file_slice, log_files=tuple(files))


def _without_meta(table: pa.Table) -> pa.Table:
    for name in META_COLUMNS:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.nulls(len(table), pa.string()))
    return table


class Left:
    """What scans leave behind: log records that nobody closed, threads, files of the operating system.

    Args:
        monkeypatch: Watches the stores of log records.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stores: dict[int, LogRowStore] = {}
        init, close = LogRowStore.__init__, LogRowStore.close

        def beginning(store: LogRowStore, *given: Any) -> None:
            self._stores[id(store)] = store
            init(store, *given)

        def closing(store: LogRowStore) -> None:
            self._stores.pop(id(store), None)
            close(store)

        monkeypatch.setattr(LogRowStore, "__init__", beginning)
        monkeypatch.setattr(LogRowStore, "close", closing)

    def check(self, storage: Storage) -> None:
        """Nothing is left."""
        assert not self._stores
        assert not [t.name for t in threading.enumerate() if t.name.startswith("hoodie-log-reader")]
        gc.collect()
        # Threads of Arrow may still read what they began to read ahead.
        deadline = time.monotonic() + 60
        while storage.left_open and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not storage.left_open


def within_a_minute(work: Callable[[], Any]) -> Any:
    """What it returns or raises; fails if it hangs."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "the scan hangs"
    value, error = found.pop()
    if error is not None:
        raise error
    return value


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Any]:
    """All rows, in order, and how many there are, as some results have no columns."""
    found, count = [], 0
    for batch in batches:
        found += batch.to_pylist()
        count += batch.num_rows
    return [count, *found]


def stress(folder: Path, seed: int, left: Left, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Scan random slices, to the end, not to the end, and with failures; the counts of calls, failures and early ends.

    Args:
        folder: Where the slices are made.
        seed: Decides everything.
        left: Sees what is left behind.
        monkeypatch: Makes batches small.
    """
    source = random.Random(seed)
    batch_rows = source.choice([32, 1 << 16])
    monkeypatch.setattr(file_group_reader, "READ_BATCH_ROWS", batch_rows)
    monkeypatch.setattr(file_group_reader, "_KEPT_BATCH_ROWS", batch_rows)
    monkeypatch.setattr(file_group_reader, "_LOG_BYTES_AHEAD", source.choice([1, 20_000, 32 << 20]))
    slices = Slices.make(folder, source)
    expected = slices.one_by_one(open_storage(str(folder)))
    for keeps_all in (True, False):
        storage = Storage(folder)
        readers = slices.readers(storage.storage)
        assert within_a_minute(partial(begin_to_scan, readers, None, keeps_all=keeps_all, closes=False)) == expected
    assert within_a_minute(lambda: count_rows(readers)) == expected[0]
    left.check(storage)
    calls, failed, ended = storage.calls, 0, 0
    for number in range(8):
        most = None if number < 4 else source.randint(0, 6)
        storage = Storage(folder, source.randint(1, max(calls // 2, 1)) if most is None or source.random() < 0.3 else 0)
        keeps_all, closes = source.random() < 0.5, source.random() < 0.5
        readers = slices.readers(storage.storage)
        scan = partial(begin_to_scan, readers, most, keeps_all=keeps_all, closes=closes)
        try:
            found = within_a_minute(scan)
            assert most is not None or found == expected
            ended += most is not None
        except HoodieException as error:
            assert isinstance(error, HoodieIOException), error
            failed += 1
        left.check(storage)
    return [calls, failed, ended]


def begin_to_scan(
    readers: list[HoodieFileGroupReader], most: int | None, *, keeps_all: bool, closes: bool
) -> list[Any]:
    """The rows of some batches, of all for None; then the scan is closed, or dropped."""
    batches = scan_file_groups(readers, keeps_all=keeps_all)
    found = rows_of(islice(batches, most))
    if closes:
        batches.close()  # type: ignore[attr-defined]
    return found


def test_footers_are_read_once_and_dropped_with_their_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b1")}
    readers, storage = [], Storage(tmp_path).storage
    context = HoodieReaderContext(storage, SCHEMA, log_merging=LogMerging(SPECS["event time"]))
    for number in range(9):
        (tmp_path / str(number)).mkdir()
        part = slice_of(tmp_path / str(number), base_rows(cases))
        (entry,) = entries_of(cases)
        assert isinstance(entry, LogRows)
        blocks = encode_data_blocks(entry.rows, to_avro(USER, "r", "n", True), instant(0))
        part = attrs.evolve(part, log_files=(write_log_file(tmp_path / str(number), *blocks),))
        readers.append(HoodieFileGroupReader(context, part))
    opened: list[weakref.ref[ParquetFragment]] = []
    open_fragment, held = ParquetFragment.open, []

    def slowly(storage: HoodieStorage, path: str, size_bytes: int | None = None) -> ParquetFragment:
        time.sleep(0.02)
        fragment = open_fragment(storage, path, size_bytes)
        opened.append(weakref.ref(fragment))
        return fragment

    monkeypatch.setattr(ParquetFragment, "open", slowly)
    monkeypatch.setattr(file_group_reader, "_LOG_BYTES_AHEAD", 1)
    for _ in scan_file_groups(readers):
        held.append(sum(fragment() is not None for fragment in opened))
    assert len(opened) == len(readers)
    # That of this slice, and of the next one.
    assert max(held) <= 3


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.one_in(4)
def test_what_is_scanned_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    calls, failed, ended = stress(tmp_path, seed, Left(monkeypatch), monkeypatch)
    assert calls and failed and ended


@pytest.mark.soak
def test_what_is_scanned_ahead_in_many_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, failures = Left(monkeypatch), 0
    for seed in range(SEEDS, SEEDS + SOAK_SEEDS):
        try:
            failures += stress(tmp_path / str(seed), seed, left, monkeypatch)[1]
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert failures > SOAK_SEEDS
