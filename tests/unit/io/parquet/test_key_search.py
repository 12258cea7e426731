from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.exception import HoodieCorruptedDataException, MissingSchemaFieldException
from hoodie.io.parquet import key_search, plain_pages
from hoodie.io.parquet.compact_protocol import (
    I32,
    I64,
    STRUCT,
    Field,
    Struct,
    read_struct,
    read_struct_at,
    write_struct,
)
from hoodie.io.parquet.key_search import KeyMatcher, find_keys, known_range
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.plain_pages import OtherPageForm, iter_plain_pages, stored_bytes, take_strings
from hoodie.storage.storage_factory import open_storage

CODECS = ("none", "snappy", "gzip", "zstd")
LENGTHS = (0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 36, 255, 256, 257)
Pair = tuple[str | None, int]


def write(path: Path, stored: Sequence[str | None] | pa.Array, nullable: bool = True, **options: object) -> None:
    """A file with a column of record keys behind another one; plain pages of Snappy unless told otherwise."""
    keys = stored if isinstance(stored, pa.Array) else pa.array(stored, pa.string())
    schema = pa.schema([pa.field("before", pa.int64()), pa.field(RECORD_KEY_META, keys.type, nullable)])
    table = pa.table([pa.array(np.arange(len(keys))), keys], schema=schema)
    chosen = {"use_dictionary": False, "compression": "snappy", "store_schema": False} | options
    pq.write_table(table, path, **chosen)


def reader_of(path: Path) -> HoodieParquetReader:
    return HoodieParquetReader(open_storage(str(path.parent)), str(path))


def found_pairs(path: Path, keys: pa.Array, row_groups: Sequence[int] | None = None) -> list[Pair]:
    with reader_of(path) as reader:
        entries, rows = reader.find_record_keys(keys, row_groups)
    assert (entries.dtype, rows.dtype) == (np.int32, np.int64)
    return list(zip(keys.take(pa.array(entries)).to_pylist(), rows.tolist(), strict=True))


def decoded_pairs(path: Path, keys: pa.Array) -> list[Pair]:
    """The same by way of all keys of the file."""
    with reader_of(path) as reader:
        entries, rows = find_keys(reader.read_record_keys(), keys)
    return list(zip(keys.take(pa.array(entries)).to_pylist(), rows.tolist(), strict=True))


def expected_pairs(stored: Sequence[str | None], keys: Sequence[str | None]) -> list[Pair]:
    wanted = set(keys)
    return [(key, row) for row, key in enumerate(stored) if key in wanted]


@pytest.fixture(autouse=True, scope="module")
def searches_small_row_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "_FEW_ROWS", 0)
        yield


@pytest.fixture
def refuses_to_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: HoodieParquetReader, row_groups: object = None) -> pa.ChunkedArray:
        raise AssertionError(f"the keys of {self.path} were decoded")

    monkeypatch.setattr(HoodieParquetReader, "read_record_keys", refuse)


@st.composite
def keys_of_one_length(draw: st.DrawFn) -> list[str]:
    """Keys with the same number of UTF-8 bytes, of ASCII or of other characters, often equal in most bytes."""
    length = draw(st.sampled_from(LENGTHS))
    character = draw(st.sampled_from([c for c in "a0é€😀" if length % len(c.encode()) == 0]))
    whole = character * (length // len(character.encode()))
    keys = [whole]
    for _ in range(draw(st.integers(0, 30))):
        place = draw(st.integers(0, max(0, len(whole) - 1)))
        other = {"a": "bcdz", "0": "123\x00", "é": "ñüß", "€": "文字", "😀": "🎈𝄞"}[character]
        keys.append(whole[:place] + draw(st.sampled_from(other)) + whole[place + 1 :] if whole else whole)
    return keys


ANY_TEXT = st.text(max_size=12)
STORED = st.one_of(keys_of_one_length(), st.lists(st.one_of(ANY_TEXT, st.none()), max_size=30))


@settings(max_examples=250)
@given(
    stored=st.lists(STORED, min_size=1, max_size=3).map(lambda parts: [key for part in parts for key in part]),
    others=STORED,
    chosen=st.lists(st.integers(0, 1000), max_size=20),
    sliced=st.booleans(),
    row_group_rows=st.sampled_from([1, 2, 7, 40, 1000]),
    options=st.fixed_dictionaries(
        {
            "compression": st.sampled_from(CODECS),
            "use_dictionary": st.booleans(),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "data_page_size": st.sampled_from([1, 100, 1 << 20]),
            "write_batch_size": st.sampled_from([1, 5, 1024]),
            "write_statistics": st.booleans(),
            "store_schema": st.booleans(),
        }
    ),
)
@pytest.mark.one_in(4)
def test_the_same_rows_are_found_as_by_comparing_every_key(
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[str | None],
    others: list[str | None],
    chosen: list[int],
    sliced: bool,
    row_group_rows: int,
    options: dict[str, object],
) -> None:
    path = tmp_path_factory.mktemp("keys") / "f.parquet"
    write(path, stored, None in stored or len(stored) % 2 == 0, row_group_size=row_group_rows, **options)
    wanted = list(dict.fromkeys([stored[place % len(stored)] for place in chosen if stored] + others))
    keys = pa.array(wanted, pa.string())
    if sliced:
        keys = pa.array(["before", *wanted, "behind"], pa.string()).slice(1, len(wanted))
    assert found_pairs(path, keys) == expected_pairs(stored, wanted) == decoded_pairs(path, keys)


@settings(max_examples=100)
@given(stored=keys_of_one_length(), wanted=keys_of_one_length(), chosen=st.integers(0, 30))
def test_keys_that_share_a_place_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], wanted: list[str], chosen: int
) -> None:
    path = tmp_path_factory.mktemp("keys") / "f.parquet"
    write(path, stored)
    keys = pa.array(dict.fromkeys([*stored[:chosen], *wanted]), pa.string())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "_places", lambda values, bits: np.zeros(len(values), dtype=np.int64))
        assert found_pairs(path, keys) == expected_pairs(stored, keys.to_pylist())


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.usefixtures("refuses_to_decode")
def test_keys_of_one_length_are_found_without_decoding_them(tmp_path: Path, compression: str, nullable: bool) -> None:
    stored = [f"key-{number:08}" for number in range(50_000)]
    stored[40_000] = stored[7]
    write(tmp_path / "f", stored, nullable, compression=compression, row_group_size=30_000, data_page_size=100_000)
    wanted = ["key-00000007", "absent", "key-99999999", "key-00029999", "key-00030000"]
    assert found_pairs(tmp_path / "f", pa.array(wanted)) == [
        ("key-00000007", 7), ("key-00029999", 29_999), ("key-00030000", 30_000), ("key-00000007", 40_000),
    ]  # fmt: skip


def test_small_row_groups_are_left_to_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    find = key_search._KeysOfLength.found
    monkeypatch.setattr(key_search, "_FEW_ROWS", 1000)
    monkeypatch.setattr(
        key_search._KeysOfLength, "found", lambda self: searched.append(len(self._candidates)) or find(self)
    )
    stored = [f"key-{number:04}" for number in range(2500)]
    write(tmp_path / "f", stored, row_group_size=1000)
    assert found_pairs(tmp_path / "f", pa.array(stored[::100])) == expected_pairs(stored, stored[::100])
    assert searched == [2]


def test_row_groups_of_two_forms_give_rows_in_order(tmp_path: Path) -> None:
    groups = [["aaaa", "bbbb"], ["a", "cc"], ["cccc", "aaaa"], [], [None, "cc"], ["dddd", "bbbb"]]
    schema = pa.schema([(RECORD_KEY_META, pa.string())])
    with pq.ParquetWriter(tmp_path / "f", schema, use_dictionary=False, compression="snappy") as file:
        for group in groups:
            file.write_table(pa.table([pa.array(group, pa.string())], schema=schema))
    stored = [key for group in groups for key in group]
    wanted = ["bbbb", "cc", "aaaa", None]
    keys = pa.array(wanted, pa.string())
    assert found_pairs(tmp_path / "f", keys) == expected_pairs(stored, wanted)
    with reader_of(tmp_path / "f") as reader:
        kept = [number for number in range(reader.num_row_groups) if number != 0]
    assert found_pairs(tmp_path / "f", keys, kept) == expected_pairs(stored, wanted)[2:]
    assert found_pairs(tmp_path / "f", keys, []) == []
    assert found_pairs(tmp_path / "f", keys.slice(0, 0)) == []


@pytest.mark.parametrize(
    "key_type", [pa.large_string(), pa.binary(), pa.binary(4), pa.dictionary(pa.int32(), pa.string())]
)
def test_columns_that_are_no_plain_strings_are_searched_too(tmp_path: Path, key_type: pa.DataType) -> None:
    keys = pa.array(["cccc", "aaaa"])
    stored = pa.array(["aaaa", "bbbb", "cccc"])
    stored = (
        stored.cast(pa.binary()).cast(key_type) if pa.types.is_fixed_size_binary(key_type) else stored.cast(key_type)
    )
    write(tmp_path / "f", stored, store_schema=True)
    assert found_pairs(tmp_path / "f", keys) == [("aaaa", 0), ("cccc", 2)]


def test_a_file_without_record_keys_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f")
    with reader_of(tmp_path / "f") as reader, pytest.raises(MissingSchemaFieldException, match="_hoodie_record_key"):
        reader.find_record_keys(pa.array(["a"]))


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_changed_byte_gives_no_rows_that_decoding_does_not_give(tmp_path: Path, compression: str) -> None:
    """Damage is an error here too, unless it is in a part of a page header that says nothing about the values."""
    path = tmp_path / "f"
    stored = [f"{number * 7919 % 32:04}" for number in range(32)]
    write(path, stored, compression=compression, data_page_size=100, write_batch_size=16)
    whole = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(0).column(1)
    keys, raised = pa.array(stored[::3]), 0
    undamaged = found_pairs(path, keys)
    for place in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size):
        for change in (0x01, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
            try:
                expected = decoded_pairs(path, keys)
            except HoodieCorruptedDataException:
                expected = undamaged
            try:
                assert found_pairs(path, keys) == expected, place
            except HoodieCorruptedDataException:
                raised += 1
    assert raised > 10


def change_footer(path: Path, change: Callable[[Struct], None]) -> None:
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    footer = read_struct(whole[-8 - size : -8])
    change(footer)
    changed = write_struct(footer)
    path.write_bytes(whole[: -8 - size] + changed + len(changed).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("kind", [1, 7, 99])
def test_a_chunk_of_another_type_than_its_column_does_not_end_the_process(tmp_path: Path, kind: int) -> None:
    """pyarrow aborts when it is asked for the statistics of such a chunk."""
    path = tmp_path / "f"
    write(path, ["aaaa", "bbbb"])

    def change(footer: Struct) -> None:
        footer[4].value.items[0][1].value.items[1][3].value[1] = Field(I32, kind)

    change_footer(path, change)
    with reader_of(path) as reader:
        try:
            entries, rows = reader.find_record_keys(pa.array(["bbbb"]))
        except HoodieCorruptedDataException:
            pass
        else:
            assert (entries.tolist(), rows.tolist()) == ([0], [1])
        assert [group.min_key for group in reader.row_group_keys()] == [None]


@pytest.mark.parametrize("rows", [-1, 0, 1, 3])
def test_row_groups_of_wrong_sizes_give_no_rows(tmp_path: Path, rows: int) -> None:
    """Rows of the next row group would have the numbers of other keys."""
    path = tmp_path / "f"
    write(path, ["aaaa", "bbbb", "cccc"], row_group_size=2)

    def change(footer: Struct) -> None:
        footer[4].value.items[0][3] = Field(I64, rows)

    change_footer(path, change)
    with pytest.raises(HoodieCorruptedDataException, match=r"its row groups have -?\d rows, but its footer says 3"):
        found_pairs(path, pa.array(["cccc"]))


@attrs.define
class Chunk:
    """What `iter_plain_pages` asks a column chunk of pyarrow."""

    num_values: int
    total_compressed_size: int
    compression: str = "SNAPPY"
    data_page_offset: int = 3
    has_dictionary_page: bool = False
    file_path: str = ""


def page(values: bytes, count: int, plain_bytes: int | None = None, codec: str | None = "snappy", **more: int) -> bytes:
    """A data page."""
    stored = values if codec is None else pa.Codec(codec).compress(values, asbytes=True)
    form: Struct = {
        number: Field(I32, value) for number, value in ((1, count), (2, more.get("encoding", 0)), (3, 3), (4, 3))
    }
    sizes = {1: more.get("kind", 0), 2: len(values) if plain_bytes is None else plain_bytes, 3: len(stored)}
    return (
        write_struct({number: Field(I32, size) for number, size in sizes.items()} | {5: Field(STRUCT, form)}) + stored
    )


def values_of(data: bytes, count: int, is_nullable: bool = False, **more: object) -> list[bytes]:
    chunk = attrs.evolve(Chunk(count, len(data)), **more)
    pages = iter_plain_pages(pa.BufferReader(b"..." + data), chunk, 4, is_nullable)
    return [row[4:].tobytes() for values in pages for row in values]


PLAIN = b"\4\0\0\0abcd\4\0\0\0efgh"
ONES = b"\2\0\0\0\4\1"


def test_pages_of_the_known_form_are_read() -> None:
    assert values_of(page(PLAIN, 2) + page(PLAIN, 2), 4) == [b"abcd", b"efgh"] * 2
    assert values_of(page(ONES + PLAIN, 2), 2, is_nullable=True) == [b"abcd", b"efgh"]
    assert values_of(page(PLAIN, 2, codec=None), 2, compression="UNCOMPRESSED") == [b"abcd", b"efgh"]
    assert values_of(b"", 0) == []


@pytest.mark.parametrize(
    ("data", "count", "more"),
    [
        (page(PLAIN, 2), 3, {}),
        (page(PLAIN, 2), 1, {}),
        (page(PLAIN, 2) + b"\0", 2, {}),
        (page(PLAIN, 2)[:-1], 2, {}),
        (page(PLAIN[:-1] + b"\4\0\0\0", 2), 2, {}),
        (page(b"\5\0\0\0abcde\3\0\0\0fgh", 2), 2, {}),
        (page(PLAIN[:8], 2, plain_bytes=16), 2, {}),
        (page(PLAIN, 2, encoding=8), 2, {}),
        (page(PLAIN, 2, kind=3), 2, {}),
        (page(PLAIN, -2), 2, {}),
        (page(PLAIN, 2, codec=None), 2, {}),
        (page(PLAIN, 2), 2, {"compression": "UNCOMPRESSED"}),
        (page(PLAIN, 2), 2, {"compression": "LZ4"}),
        (page(PLAIN, 2), 2, {"has_dictionary_page": True}),
        (page(PLAIN, 2), 2, {"file_path": "elsewhere"}),
        (page(PLAIN, 2), 2, {"total_compressed_size": 1 << 60}),
        (page(PLAIN, 2), 2, {"total_compressed_size": -1}),
        (page(PLAIN, 2), 2, {"data_page_offset": -1}),
        (page(b"\2\0\0\0\4\0" + PLAIN, 2), 2, {"is_nullable": True}),
        (page(b"\2\0\0\0\3\3" + PLAIN, 2), 2, {"is_nullable": True}),
        (page(PLAIN, 2), 2, {"is_nullable": True}),
        (write_struct({1: Field(I32, 0)}), 2, {}),
        (write_struct({5: Field(I32, 0)}), 2, {}),
    ],
)
def test_pages_of_other_forms_are_left_to_pyarrow(data: bytes, count: int, more: dict[str, object]) -> None:
    with pytest.raises(OtherPageForm):
        values_of(data, count, **more)


def test_a_page_with_fewer_bytes_than_announced_is_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """pa.Codec fills the rest with bytes of old pages, which may look like keys."""

    class CodecThatLeavesOldBytes:
        name = "snappy"

        def __init__(self, name: str) -> None:
            assert name == "snappy"

        def decompress(self, stored: pa.Buffer, size: int) -> pa.Buffer:
            return pa.py_buffer(PLAIN[:size])

    whole, short = page(PLAIN, 2), page(PLAIN[:8], 2, plain_bytes=16)
    monkeypatch.setattr(pa, "Codec", CodecThatLeavesOldBytes)
    assert values_of(whole, 2) == [b"abcd", b"efgh"]
    with pytest.raises(OtherPageForm):
        values_of(short, 2)


def page_of_numbers(count: int, plain_bytes: int) -> bytes:
    """A page of Zstandard whose header holds numbers of any size."""
    stored = pa.Codec("zstd").compress(b"abc", asbytes=True)
    form: Struct = {1: Field(I64, count), 2: Field(I32, 0), 3: Field(I32, 3), 4: Field(I32, 3)}
    header: Struct = {1: Field(I32, 0), 2: Field(I64, plain_bytes), 3: Field(I32, len(stored)), 5: Field(STRUCT, form)}
    data = write_struct({**header, 2: Field(I64, 0)})
    number = bytearray()
    rest = plain_bytes << 1
    while rest > 127:
        number.append(rest & 127 | 128)
        rest >>= 7
    number.append(rest)
    # The protocol's writer has at most 64 bits; a reader meets more.
    return data.replace(b"\x16\0", b"\x16" + bytes(number), 1) + stored


@pytest.mark.parametrize("count", [1 << 28, 1 << 31, 1 << 40, 1 << 61])
def test_no_memory_is_asked_for_pages_that_parquet_cannot_have(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    class CodecThatIsNotAsked:
        def __init__(self, name: str) -> None:
            self.name = name

        def decompress(self, stored: pa.Buffer, size: int) -> pa.Buffer:
            raise AssertionError(f"{size} bytes were asked for")

    data = page_of_numbers(count, count * 8)
    monkeypatch.setattr(pa, "Codec", CodecThatIsNotAsked)
    with pytest.raises(OtherPageForm):
        values_of(data, count, compression="ZSTD")


def test_a_damaged_header_is_not_read_to_the_end_of_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(data: memoryview, start: int) -> tuple[Struct, int]:
        read.append(len(data) - start)
        return read_struct_at(data, start)

    monkeypatch.setattr(plain_pages, "read_struct_at", noted)
    booleans = b"\x19\xf1\x80\x80\x80\x01" + b"\1" * (1 << 21)
    with pytest.raises(OtherPageForm):
        values_of(booleans, 4)
    assert len(read) == 1
    assert read[0] <= 1 << 16


class CountedBytes(io.BytesIO):
    """Counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    "first",
    [page(PLAIN, 2, kind=3), page(PLAIN, 2, encoding=8), page(b"\5\0\0\0abcde\3\0\0\0fgh", 2)],
    ids=["second version", "another encoding", "two lengths"],
)
def test_a_chunk_of_another_form_is_not_fetched_whole(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(plain_pages, "_FIRST_BYTES", 100)
    monkeypatch.setattr(plain_pages, "_HEADER_BYTES", 25)
    data = first + page(PLAIN, 2) * 1000
    source = CountedBytes(data)
    with pytest.raises(OtherPageForm):
        list(iter_plain_pages(pa.PythonFile(source, "r"), Chunk(2002, len(data), data_page_offset=0), 4, False))
    assert source.count == 100


class WithoutPosition:
    """A file that is only read at offsets, because other threads may move its position."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, count: int, offset: int) -> bytes:
        return self._data[offset : offset + count]


def test_the_position_of_the_file_is_not_used() -> None:
    data = page(PLAIN, 2) * 10
    stream: Any = WithoutPosition(b"before" + data)
    chunk: Any = Chunk(20, len(data), data_page_offset=6)
    pages = list(iter_plain_pages(stream, chunk, 4, False))
    assert [row[4:].tobytes() for values in pages for row in values] == [b"abcd", b"efgh"] * 10
    stored = stored_bytes(stream, chunk)
    assert stored is not None
    assert stored.to_pybytes() == data
    taken = take_strings(stream, chunk, 4, False, np.array([3, 8]), stored)
    assert [row[4:].tobytes() for row in taken] == [b"efgh", b"abcd"]


@pytest.mark.parametrize("first_bytes", [1, 30, 50, 90, 1 << 20])
def test_a_chunk_is_fetched_in_two_steps(monkeypatch: pytest.MonkeyPatch, first_bytes: int) -> None:
    monkeypatch.setattr(plain_pages, "_FIRST_BYTES", first_bytes)
    monkeypatch.setattr(plain_pages, "_HEADER_BYTES", 25)
    data = page(PLAIN, 2) * 10
    source = CountedBytes(data)
    pages = list(iter_plain_pages(pa.PythonFile(source, "r"), Chunk(20, len(data), data_page_offset=0), 4, False))
    assert [row[4:].tobytes() for values in pages for row in values] == [b"abcd", b"efgh"] * 10
    assert source.count <= len(data) + min(first_bytes, 50)


class CountedFile(pa.OSFile):  # type: ignore[misc]
    """A local file that counts the bytes that are read at offsets."""

    count = 0

    def read_at(self, nbytes: int, offset: int) -> bytes:
        data: bytes = super().read_at(nbytes, offset)
        self.count += len(data)
        return data


@pytest.mark.parametrize("first_bytes", [1, 30, 50, 90, 1 << 20])
def test_few_values_of_a_local_file_are_read_where_their_pages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_bytes: int
) -> None:
    monkeypatch.setattr(plain_pages, "_FIRST_BYTES", first_bytes)
    monkeypatch.setattr(plain_pages, "_HEADER_BYTES", 25)
    data = page(PLAIN, 2, codec=None) * 10
    path = tmp_path / "pages"
    path.write_bytes(data)
    chunk: Any = Chunk(20, len(data), "UNCOMPRESSED", 0)
    with CountedFile(str(path), "r") as stream:
        taken = take_strings(stream, chunk, 4, False, np.array([3, 18]))
        # The begin of each page, and two pages.
        assert stream.count <= 10 * 25 + 2 * len(data) // 10
    with CountedFile(str(path), "r") as stream:
        pages = list(iter_plain_pages(stream, chunk, 4, False))
        assert stream.count <= 3 * len(data)
    assert [row[4:].tobytes() for row in taken] == [b"efgh", b"abcd"]
    assert [row[4:].tobytes() for values in pages for row in values] == [b"abcd", b"efgh"] * 10


def test_a_file_that_has_become_shorter_is_left_to_pyarrow() -> None:
    class Shortened(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size)[:40]

    data = page(PLAIN, 2) * 10
    with pytest.raises(OtherPageForm):
        list(iter_plain_pages(pa.PythonFile(Shortened(data), "r"), Chunk(20, len(data), data_page_offset=0), 4, False))


def test_many_small_pages_are_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = page(PLAIN, 2) * 20
    with pytest.raises(OtherPageForm):
        values_of(data, 40)
    monkeypatch.setattr(plain_pages, "_ROWS_OF_PAGE", 2)
    assert len(values_of(data, 40)) == 40


# --- batches of decoded keys ------------------------------------------------------------------------------------------


def texts(source: random.Random, kind: str, count: int) -> list[str]:
    if kind == "uuid":
        return [f"{source.getrandbits(128):032x}-key" for _ in range(count)]
    if kind == "short":
        return [f"{source.randrange(3 * count):05d}" for _ in range(count)]
    if kind == "long":
        return [f"{source.randrange(3 * count):0300d}" for _ in range(count)]
    return [("ü" if source.random() < 0.1 else "k") + str(source.randrange(3 * count)) for _ in range(count)]


@pytest.mark.parametrize("kind", ["uuid", "short", "long", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_a_matcher_finds_in_batches_what_a_search_in_all_keys_finds(kind: str, seed: int) -> None:
    source = random.Random(seed)
    stored = texts(source, kind, 3000)
    stored[100:200] = stored[:100]
    wanted = [*dict.fromkeys(source.sample(stored, 500) + texts(source, kind, 100) + ["", "another length"])]
    source.shuffle(wanted)
    keys = pa.array(wanted)
    matcher = KeyMatcher(keys)
    # An offset in the buffers, and batches of one length behind each other.
    column = pa.array(["x" * 40, *stored]).slice(1)
    for start in (0, 700, 1400, 2999):
        batch = column.slice(start, 700)
        entries, rows = matcher.find(batch)
        expected = find_keys(batch, keys)
        assert entries.tolist() == expected[0].tolist() and rows.tolist() == expected[1].tolist()
        assert start or len(rows) > 50


@pytest.mark.parametrize(
    "batch", [pa.array([], pa.string()), pa.array(["a", None, "b"]), pa.array(["a", ""]), pa.array(["b"] * 9)]
)
@pytest.mark.parametrize("keys", [[], ["a"], ["a", "b", ""]])
def test_a_matcher_takes_odd_batches_and_few_keys(batch: pa.Array, keys: list[str]) -> None:
    wanted = pa.array(keys, pa.string())
    entries, rows = KeyMatcher(wanted).find(batch)
    assert (entries.tolist(), rows.tolist()) == tuple(part.tolist() for part in find_keys(batch, wanted))


@pytest.mark.parametrize(
    ("low", "high", "size", "expected"),
    [
        (b"a", b"", 5000, (None, None)),
        (b"", b"", 5000, (None, None)),
        (b"", b"", 40, (b"", b"")),
        (b"", b"y", 5000, (b"", b"y")),
    ],
)
def test_a_largest_value_that_is_missing_is_no_empty_one(
    low: bytes, high: bytes, size: int, expected: tuple[bytes | None, bytes | None]
) -> None:
    """pyarrow 17 gives an empty value for one that was too long to be stored."""
    statistics = SimpleNamespace(has_min_max=True, min_raw=low, max_raw=high)
    chunk = SimpleNamespace(statistics=statistics, physical_type="BYTE_ARRAY", total_uncompressed_size=size)
    assert known_range(chunk, "BYTE_ARRAY") == expected


@pytest.mark.parametrize("places", [range(1, 3), range(12, 25)], ids=["few places", "many places"])
@pytest.mark.parametrize("length", [8, 9, 36])
def test_keys_that_share_places_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, places: range
) -> None:
    monkeypatch.setattr(key_search, "_PLACE_BITS", places)
    rng = random.Random(length)
    stored = [f"{rng.randrange(60):0{length}}" for _ in range(200)]
    keys = [f"{number:0{length}}" for number in range(20, 90)]
    write(tmp_path / "f.parquet", stored)
    assert found_pairs(tmp_path / "f.parquet", pa.array(keys)) == expected_pairs(stored, keys)


@pytest.mark.parametrize("places", [range(1, 3), range(12, 25)], ids=["few places", "many places"])
@given(data=st.data())
def test_many_keys_of_one_length_are_found_by_their_bytes(places: range, data: st.DataObject) -> None:
    length = data.draw(st.sampled_from([7, 8, 12, 13]))
    numbers = st.integers(0, 60)
    stored = [f"{number:0{length}}" for number in data.draw(st.lists(numbers, min_size=1, max_size=40))]
    keys = [f"{number:0{length}}" for number in data.draw(st.lists(numbers, min_size=1, max_size=40, unique=True))]
    if data.draw(st.booleans()):
        stored[0] = data.draw(st.sampled_from(["", "longer than all others"]))
    cut = data.draw(st.integers(0, len(stored)))
    chunks = pa.chunked_array([pa.array(["x", *stored[:cut]]).slice(1), pa.array(stored[cut:], pa.string())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "_PLACE_BITS", places)
        patch.setattr(key_search, "_MANY_KEYS", 1)
        entries, rows = find_keys(chunks, pa.array(keys))
    assert (entries.dtype, rows.dtype) == (np.int32, np.int64)
    assert list(zip([keys[entry] for entry in entries], rows.tolist(), strict=True)) == expected_pairs(stored, keys)
