"""Merges that copy most pages of a base file hold the same rows as merges that decode all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.exception import HoodieException
from hoodie.io import merge_source
from hoodie.io.parquet import parquet_writer
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.parquet_writer import copied_form
from hoodie.io.parquet.splicing import RowGroupEdit
from hoodie.io.parquet.splicing.row_groups import StoredColumn
from hoodie.storage.storage_factory import open_storage
from tests.support.hookable_storage import Faults, FaultyStorage, run_with_faults, use_for_local_files
from tests.support.table_builder import local_client

pytestmark = pytest.mark.usefixtures("splices_small_files")

PAGE_ROWS = 64
ROWS = 2_000
SMALL_PAGES = {"parquet_page_size": "512"}
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
META_OF_FILES = {"_hoodie_file_name", "_hoodie_commit_time", "_hoodie_commit_seqno"}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of some dozens of rows, so that files of few rows have many of them."""
    whole = parquet_writer.writer_options
    monkeypatch.setattr(
        parquet_writer, "writer_options", lambda *given: whole(*given) | {"write_batch_size": PAGE_ROWS}
    )
    monkeypatch.setattr(merge_source, "writer_options", parquet_writer.writer_options)
    monkeypatch.setattr(merge_source, "_ROWS_OF_PAGE", PAGE_ROWS)


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each row group that was written with changes, and not decoded."""
    found: list[int] = []
    write = RowGroupEdit.write

    def counted(edit: RowGroupEdit, *given: Any) -> Any:
        found.append(edit.rows)
        return write(edit, *given)

    monkeypatch.setattr(RowGroupEdit, "write", counted)
    return found


def rows(numbers: np.ndarray, seed: int) -> pa.Table:
    """Rows with columns of many types and forms: plain and in dictionaries, with and without nulls, nested."""
    rng = np.random.default_rng(seed)
    count = len(numbers)
    nulls = rng.random(count) < 0.1

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array([None if null else value for value, null in zip(values, nulls, strict=True)], kind)

    numbers_ = rng.integers(-(2**40), 2**40, count)
    floats = np.where(rng.random(count) < 0.1, np.nan, rng.normal(size=count)) * rng.integers(-1, 2, count)
    texts = [f"{number:x}" * int(length) for number, length in zip(numbers_, rng.integers(0, 9, count), strict=True)]
    return pa.table(
        {
            "id": pa.array([f"key-{number:06}" for number in numbers.tolist()]),
            "ts": pa.array([seed] * count, pa.int64()),
            "number": pa.array(numbers_, pa.int64()),
            "small": some(rng.integers(-9, 9, count).tolist(), pa.int32()),
            "float": pa.array(floats, pa.float64()),
            "text": some(texts, pa.string()),
            "word": some([f"word {number}" for number in rng.integers(0, 12, count)], pa.string()),
            "bytes": some([text.encode() for text in texts], pa.binary()),
            "price": some([Decimal(int(number)).scaleb(-2) for number in numbers_], pa.decimal128(20, 2)),
            "when": some(numbers_.tolist(), pa.timestamp("us", "UTC")),
            "day": some((numbers_ % 20_000).tolist(), pa.date32()),
            "flag": some((numbers_ % 2 == 0).tolist(), pa.bool_()),
            "list": some([[int(number), None] for number in numbers_], pa.list_(pa.int64())),
            "pair": some([{"a": int(number), "b": "x"} for number in numbers_], PAIR),
            "blob": some([b"blob %d" % number for number in rng.integers(0, 9, count)], pa.binary()),
            "words": some([{"a": 1, "b": f"word {number}"} for number in rng.integers(0, 5, count)], PAIR),
        }
    )  # fmt: skip


def new_table(path: Path, **properties: str) -> Path:
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path, bulkinsert_shuffle_parallelism="1", **properties) as client:
        client.bulk_insert(rows(np.arange(ROWS), 1).to_batches(max_chunksize=50))
    return path


def newest(path: Path) -> Path:
    return max(path.glob("*.parquet"), key=lambda file: file.name.rsplit("_", 1)[1])


def content(path: Path) -> list[str]:
    """The rows of the newest file, as text, which compares NaN too; without what differs from commit to commit."""
    table = pq.read_table(newest(path))
    return [str(row) for row in table.drop_columns(list(META_OF_FILES)).to_pylist()]


def statistics(metadata: pq.FileMetaData) -> list[list[Any]]:
    """The statistics of each column in each row group."""
    found: list[list[Any]] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        told = [(group.column(place), group.column(place).statistics) for place in range(metadata.num_columns)]
        ends = [(one.min_raw, one.max_raw) if one is not None and one.has_min_max else None for _, one in told]
        found.append(
            [
                (column.path_in_schema, column.num_values, one.null_count, repr(end))
                for (column, one), end in zip(told, ends, strict=True)
            ]
        )
    return found


def check_statistics(path: Path) -> None:
    """Compare the statistics of the newest file with those of the same row groups written by pyarrow alone."""
    file = pq.ParquetFile(newest(path))
    sink = pa.BufferOutputStream()
    options = parquet_writer.writer_options(HoodieStorageConfig(), ())
    with pq.ParquetWriter(sink, file.schema_arrow, **options) as writer:
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)
            writer.write_table(group, row_group_size=group.num_rows)
    assert statistics(file.metadata) == statistics(pq.read_metadata(pa.BufferReader(sink.getvalue())))


def changes(seed: int) -> Iterator[tuple[str, Any]]:
    """Some commits: upserts and deletes of few rows, at random places and at the ends of pages, and new rows."""
    rng = np.random.default_rng(seed)
    next_key = ROWS
    for number in range(6):
        kind = rng.choice(["some", "edges", "new", "both", "delete", "page"])
        some = rng.choice(ROWS, rng.integers(1, 4), replace=False)
        if kind == "edges":
            page = int(rng.integers(1, ROWS // PAGE_ROWS))
            some = np.array([page * PAGE_ROWS - 1, page * PAGE_ROWS])
        if kind in ("new", "both"):
            count = int(rng.integers(1, 100))
            fresh = np.arange(next_key, next_key + count)
            next_key += count
            some = fresh if kind == "new" else np.concatenate([some, fresh])
        if kind == "page":
            first = int(rng.integers(0, ROWS // PAGE_ROWS)) * PAGE_ROWS
            some = np.arange(first, first + PAGE_ROWS + int(rng.integers(0, 2)))
        records = rows(np.sort(some), number + 2)
        yield ("delete" if kind in ("delete", "page") else "upsert"), records


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("block_bytes", ["120000000", "150000"])
def test_rows_and_statistics_are_those_of_a_merge_that_decodes_all_pages(
    tmp_path: Path, seed: int, block_bytes: str, monkeypatch: pytest.MonkeyPatch, edited: list[int]
) -> None:
    properties = {"parquet_block_size": block_bytes, **SMALL_PAGES}
    one = new_table(tmp_path / "one", **properties)
    other = Path(shutil.copytree(one, tmp_path / "other"))
    for method, records in changes(seed):
        for path, share in ((one, 1.0), (other, -1.0)):
            with monkeypatch.context() as patch, local_client(path, **properties) as client:
                patch.setattr(merge_source, "MOST_EDITED", share)
                before = len(edited)
                getattr(client, method)(records)
                assert (len(edited) > before) == (path == one)
        assert content(one) == content(other)
        check_statistics(one)
    ids = hoodie.read_table(str(one), columns=["id"])["id"].to_pylist()
    assert sorted(ids) == sorted(hoodie.read_table(str(other), columns=["id"])["id"].to_pylist())


def test_files_do_not_grow_with_the_number_of_commits(tmp_path: Path, edited: list[int]) -> None:
    path = new_table(tmp_path / "t", **SMALL_PAGES)
    before = newest(path)
    pages, size = page_count(before), before.stat().st_size
    with local_client(path, **SMALL_PAGES) as client:
        for number in range(20):
            client.upsert(rows(np.array([number * 37, ROWS + number]), number + 2))
    assert len(edited) == 20
    # A page for each commit and column would be twice as many.
    assert page_count(newest(path)) <= 1.1 * pages
    assert newest(path).stat().st_size <= 1.05 * size


def test_a_column_whose_dictionary_is_full_stays_one(tmp_path: Path, edited: list[int]) -> None:
    def coded(numbers: np.ndarray, seed: int) -> pa.Table:
        codes = pa.array([f"{number // 20:0100}" for number in numbers.tolist()])
        return rows(numbers, seed).append_column("code", codes)

    HoodieTableMetaClient.init_table(
        str(tmp_path / "t"), table_name="t", record_key_fields=["id"], ordering_fields=["ts"]
    )
    with local_client(tmp_path / "t", bulkinsert_shuffle_parallelism="1", **SMALL_PAGES) as client:
        client.bulk_insert(coded(np.arange(ROWS), 1).to_batches(max_chunksize=50))
        before = stored_column(newest(tmp_path / "t"), "code")
        assert not before.is_plain
        assert not before.is_dictionary
        client.upsert(coded(np.array([ROWS // 2]), 2).drop_columns("code").append_column("code", pa.array(["another"])))
    after = stored_column(newest(tmp_path / "t"), "code")
    assert len(edited) == 1
    assert not after.is_plain
    assert after.chunk.plain_bytes <= 1.01 * before.chunk.plain_bytes


def test_row_groups_that_would_take_much_memory_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: list[int]
) -> None:
    path = new_table(tmp_path / "t", **SMALL_PAGES)
    group = stored_column(newest(path), "word")
    assert group.is_dictionary
    with open(newest(path), "rb") as file:

        def read_at(count: int, offset: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        assert group.decoded_bytes(read_at, "t") == ROWS * (len("word 11") + 4)
    for limit, count in ((100_000, 0), (10_000_000, 1)):
        monkeypatch.setattr(merge_source, "_MOST_DECODED_BYTES", limit)
        with local_client(path, **SMALL_PAGES) as client:
            client.upsert(rows(np.array([5]), 2))
        assert len(edited) == count
        assert len(content(path)) == ROWS


def stored_columns(path: Path) -> list[StoredColumn]:
    """The columns of all row groups of a file."""
    with HoodieParquetReader(open_storage(str(path.parent)), str(path)) as reader:
        form = copied_form(reader.file_schema, HoodieStorageConfig(), 1)
        return [column for group in reader.row_groups_to_copy(form).values() for column in group.columns]


def stored_column(path: Path, name: str) -> StoredColumn:
    """A column of a file with one row group."""
    (found,) = (column for column in stored_columns(path) if column.path == (name,))
    return found


def page_count(path: Path) -> int:
    """The pages of all columns of a file."""
    return sum(column.page_count for column in stored_columns(path))


def test_a_client_that_keeps_keys_in_memory_finds_them_after_deletes(tmp_path: Path, edited: list[int]) -> None:
    path = new_table(tmp_path / "t", **SMALL_PAGES)
    expected = {f"key-{number:06}": 1 for number in range(ROWS)}
    with local_client(path, index_type="INMEMORY", **SMALL_PAGES) as client:
        for ts, (gone, changed) in enumerate((([3, 64], [65, 1999]), ([0, 1000, 65], [1, 1001])), 2):
            client.delete(rows(np.array(gone), ts))
            client.upsert(rows(np.array([*changed, ROWS + ts]), ts))
            expected |= {f"key-{number:06}": ts for number in [*changed, ROWS + ts]}
            for number in gone:
                expected.pop(f"key-{number:06}", None)
    assert len(edited) == 4
    found = hoodie.read_table(str(path), columns=["id", "ts"])
    assert dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)) == expected
    assert found.num_rows == len(expected)


def test_a_damaged_page_that_would_be_copied_fails_the_write(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t", **SMALL_PAGES)
    file = newest(path)
    metadata = pq.read_metadata(file)
    columns = [metadata.row_group(0).column(place) for place in range(metadata.num_columns)]
    (column,) = (one for one in columns if one.path_in_schema == "number")
    content = bytearray(file.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file.write_bytes(bytes(content))
    with (
        local_client(path, **SMALL_PAGES) as client,
        pytest.raises(HoodieException, match="number: a page has another"),
    ):
        client.upsert(rows(np.array([5]), 2))
    assert newest(path) == file


@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_process_that_dies_at_any_storage_call_leaves_the_old_rows_or_the_new_ones(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch, edited: list[int]
) -> None:
    # One row group has a change of one row; of another one each row has an incoming one.
    properties = {"parquet_block_size": "150000", **SMALL_PAGES}
    first = new_table(tmp_path / "first", **properties)
    group = pq.ParquetFile(newest(first)).metadata.row_group(0).num_rows
    assert group < ROWS
    old = {number: 1 for number in range(ROWS)}
    changed = [*range(group), ROWS - 1, ROWS]
    new = old | dict.fromkeys(changed, 2)

    def found(path: Path) -> dict[int, int]:
        rows_found = hoodie.read_table(str(path), columns=["id", "ts"])
        assert rows_found.num_rows == len(set(rows_found["id"].to_pylist()))
        return {
            int(key[4:]): ts for key, ts in zip(rows_found["id"].to_pylist(), rows_found["ts"].to_pylist(), strict=True)
        }

    def upsert(path: Path) -> None:
        with local_client(path, **properties) as client:
            client.upsert(rows(np.array(changed), 2))

    counted = Path(shutil.copytree(first, tmp_path / "counted"))
    faults = Faults()
    with monkeypatch.context() as patch:
        use_for_local_files(patch, FaultyStorage)
        assert run_with_faults(faults, lambda: upsert(counted)) is None
    assert found(counted) == new
    assert edited
    data_calls = [number for number, (name, *_) in enumerate(faults.calls, 1) if ".parquet" in name]
    for fail_at in data_calls:
        path = Path(shutil.copytree(first, tmp_path / f"{fail_at}"))
        with monkeypatch.context() as patch:
            use_for_local_files(patch, FaultyStorage)
            error = run_with_faults(Faults(fail_at, how), lambda path=path: upsert(path))
        assert error is not None
        assert found(path) == old
        upsert(path)
        assert found(path) == new
        shutil.rmtree(path)
