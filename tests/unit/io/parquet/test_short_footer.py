"""Footers read without their bloom filter."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.bloom.bloom_filter import create_bloom_filter
from hoodie.io.parquet.footer_tail import read_short_metadata, write_with_value
from hoodie.io.parquet.parquet_reader import row_group_keys
from hoodie.storage.local_storage import LocalStorage
from tests.unit.index.bloom.base_files import StoredFile, write_base_file

FILTER = "org.apache.hudi.bloomfilter"


def large_filter(num_entries: int = 60_000) -> dict[str, str]:
    return {FILTER: create_bloom_filter("DYNAMIC_V0", num_entries, 1e-9).to_base64()}


@pytest.mark.parametrize("num_entries", [10, 5_000, 60_000])
@pytest.mark.parametrize("row_group_rows", [1, 100])
def test_all_but_the_filter_is_told(tmp_path: Path, num_entries: int, row_group_rows: int) -> None:
    stored = StoredFile(["b", "a", "é" * 100], row_group_rows=row_group_rows, entries=large_filter(num_entries))
    path = write_base_file(tmp_path, "f", stored).path
    short, whole = read_short_metadata(LocalStorage(str(tmp_path)), path), pq.read_metadata(path)
    assert short is not None
    assert short.metadata == {**whole.metadata, FILTER.encode(): b""}
    assert row_group_keys(path, short) == row_group_keys(path, whole)
    assert short.schema.equals(whole.schema)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000, 431_380])
def test_a_value_that_is_added_later_gives_the_bytes_that_pyarrow_writes(length: int) -> None:
    def written(value: str) -> pa.Buffer:
        sink, rows = pa.BufferOutputStream(), pa.table({"a": [1, 2], "b": ["x", FILTER]})
        with pq.ParquetWriter(sink, rows.schema) as file:
            file.write_table(rows)
            file.add_key_value_metadata({"first": "1", FILTER: value, "last": FILTER})
        return sink.getvalue()

    placeholder, sink = "0123456789abcdef" * 2, pa.BufferOutputStream()
    write_with_value(
        sink, written(placeholder), placeholder, [b"A" * (length // 3), b"A" * (length - length // 3)], length
    )
    assert sink.getvalue().equals(written("A" * length))


def test_the_filter_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_base_file(tmp_path, "f", StoredFile(["a"], entries=large_filter())).path
    read = []
    original = LocalStorage.open_input_file

    class Counting:
        def __init__(self, file: object) -> None:
            self.file = file

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def read(self, count: int) -> bytes:
            read.append(count)
            return self.file.read(count)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(LocalStorage, "open_input_file", lambda storage, path: Counting(original(storage, path)))
    assert read_short_metadata(LocalStorage(str(tmp_path)), path) is not None
    assert len(read) == 2
    assert sum(read) < 100_000 < Path(path).stat().st_size


def test_a_footer_without_filter_is_left_to_the_reader(tmp_path: Path) -> None:
    path = write_base_file(tmp_path, "f", StoredFile(["a"], filter_type=None)).path
    assert read_short_metadata(LocalStorage(str(tmp_path)), path) is None


def test_a_name_that_is_data_is_not_taken_for_the_filter(tmp_path: Path) -> None:
    keys = ["a", "\x18\x1b" + FILTER + "\x18\x01x", "z"]
    for has_filter in ("DYNAMIC_V0", None):
        path = write_base_file(tmp_path, f"f{has_filter}", StoredFile(keys[1:2], filter_type=has_filter)).path
        short = read_short_metadata(LocalStorage(str(tmp_path)), path)
        assert short is None or row_group_keys(path, short) == row_group_keys(path, pq.read_metadata(path))


@given(st.integers(0, 2000), st.integers(0, 255), st.integers(0, 2000))
@settings(max_examples=60, deadline=None)
def test_damaged_files_give_nothing_or_what_the_reader_gives(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = Path(write_base_file(folder, "f", StoredFile(["a", "b"])).path)
    content = bytearray(path.read_bytes())
    content[-1 - place % len(content)] = byte
    path.write_bytes(content[: len(content) - cut])
    read_short_metadata(LocalStorage(str(folder)), str(path))
