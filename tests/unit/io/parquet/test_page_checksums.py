"""Pages of our base files have checksums, however they came into the file, and every reader looks at them."""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieReadClient
from hoodie.exception import HoodieCorruptedDataException, HoodieException
from hoodie.io.parquet.compact_protocol import read_struct_at

pytestmark = pytest.mark.usefixtures("splices_small_files")

_STORED_BYTES, _CHECKSUM = 3, 4
KEYS = [f"k{number:06}" for number in range(3000)]


def rows(keys: list[str], value: int) -> pa.Table:
    texts = [f"{'x' * (number % 9)}{number}" for number in range(len(keys))]
    return pa.table({"id": keys, "region": ["r"] * len(keys), "v": [value] * len(keys), "text": texts})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that a merge made: keys are copied and followed by those of new rows."""
    path = tmp_path / "t"
    hoodie.write_table(rows(KEYS, 1), str(path), record_key_fields="id")
    hoodie.write_table(rows([*KEYS[::3], "new"], 2), str(path))
    return path


def newest_file(path: Path) -> Path:
    return max(path.glob("*.parquet"), key=lambda file: file.stem.rpartition("_")[2])


def pages(file: Path) -> Iterator[tuple[str, int, bytes, Any]]:
    """Column, first byte, stored bytes and header of each page."""
    for column, _, start, stored, header in pages_with_headers(file):
        yield column, start, stored, header


def pages_with_headers(file: Path) -> Iterator[tuple[str, int, int, bytes, Any]]:
    """Column, first byte of the header and of the page, stored bytes and header of each page."""
    data, metadata = file.read_bytes(), pq.read_metadata(file)
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            at = chunk.dictionary_page_offset or chunk.data_page_offset
            end = at + chunk.total_compressed_size
            while at < end:
                first = at
                header, start = read_struct_at(data, first)
                at = start + header[_STORED_BYTES].value
                yield chunk.path_in_schema, first, start, data[start:at], header


def test_all_pages_have_the_checksum_of_their_bytes(path: Path) -> None:
    found = list(pages(newest_file(path)))
    assert {column for column, *_ in found} >= {"_hoodie_record_key", "id", "v", "text"}
    assert len([column for column, *_ in found if column == "_hoodie_record_key"]) == 2
    for column, _, stored, header in found:
        assert header[_CHECKSUM].value & 0xFFFFFFFF == zlib.crc32(stored), column


def test_a_flipped_bit_is_told_or_changes_no_row(path: Path) -> None:
    wanted = hoodie.read_table(str(path)).sort_by("id")
    one = wanted.slice(7, 1)
    file = newest_file(path)
    data, dice = file.read_bytes(), random.Random(1)
    told = 0

    def look_up() -> pa.Table:
        with HoodieReadClient(str(path)) as client:
            found: pa.Table = client.read(KEYS[7:8])
            return found

    reads: list[tuple[Callable[[], pa.Table], pa.Table]] = [
        (lambda: hoodie.read_table(str(path)).sort_by("id"), wanted),
        (lambda: hoodie.read_table(str(path), filters=[("id", "=", KEYS[7])]), one),
        (lambda: hoodie.dataset(str(path)).to_table().sort_by("id"), wanted),
        (look_up, one),
    ]
    for _, start, stored, _ in pages(file):
        place = start + dice.randrange(len(stored))
        file.write_bytes(data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :])
        for read, right in reads:
            try:
                assert read().equals(right)
            except (HoodieCorruptedDataException, OSError) as error:
                assert "CRC" in str(error)
                told += 1
    assert told
    file.write_bytes(data)


# Checksums leave headers out. With a damaged one pyarrow ends a column without an error: all its rows were gone.
@pytest.mark.one_in(4)
def test_a_flipped_bit_of_a_page_header_is_told_or_changes_no_row(path: Path, tmp_path: Path) -> None:
    file = newest_file(path)
    data, dice = file.read_bytes(), random.Random(2)

    def look_up() -> pa.Table:
        with HoodieReadClient(str(path)) as client:
            found: pa.Table = client.read(KEYS[7:8])
            return found

    def rows_after_an_upsert() -> list[Any]:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        hoodie.write_table(rows(["new"], 3), str(copy))
        return hoodie.read_table(str(copy), columns=["id", "v"]).sort_by("id").to_pylist()

    reads: list[Callable[[], Any]] = [
        lambda: hoodie.read_table(str(path)).sort_by("id").to_pylist(),
        lambda: hoodie.read_table(str(path), columns=["v"])["v"].to_pylist(),
        lambda: hoodie.read_table(str(path), columns=["v"], filters=[("v", "=", 2)]).num_rows,
        lambda: hoodie.read_table(str(path), columns=["text"], filters=[("text", ">", "x")]).num_rows,
        lambda: hoodie.dataset(str(path)).count_rows(filter=[("v", ">", 0)]),
        lambda: hoodie.read_table(str(path), columns=["id"], filters=[("id", "=", KEYS[7])]).num_rows,
        lambda: look_up().to_pylist(),
        rows_after_an_upsert,
    ]
    right = [read() for read in reads]
    told = [0] * len(reads)
    for column, first, start, *_ in pages_with_headers(file):
        bits = range(8 * first, 8 * start)
        for bit in dice.sample(bits, {"v": 40, "id": 15}.get(column, 2)):
            place = bit // 8
            file.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit % 8)]) + data[place + 1 :])
            for number, (read, wanted) in enumerate(zip(reads, right, strict=True)):
                if read is rows_after_an_upsert and dice.random() < 0.9:
                    continue
                try:
                    assert read() == wanted, (column, place - first, bit % 8, number)
                except (HoodieException, OSError):
                    told[number] += 1
    assert all(told)
