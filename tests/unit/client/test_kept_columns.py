"""Merges that copy the columns of record keys as they are stored."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.io import merge_source
from tests.support.table_builder import local_client, rows_of_keys

pytestmark = pytest.mark.usefixtures("splices_small_files")

KEYS = [f"key-{number:04}" for number in range(2000)]


rows = partial(rows_of_keys, fare=1.0)
client = partial(local_client, bulkinsert_shuffle_parallelism="1")


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    path = tmp_path / "trips"
    HoodieTableMetaClient.init_table(str(path), table_name="trips", record_key_fields=["id"], ordering_fields=["ts"])
    return path


def newest(base_path: Path) -> Path:
    return max(base_path.glob("*.parquet"), key=lambda path: path.name.rsplit("_", 1)[1])


def pages(path: Path, name: str, group: int = 0) -> bytes:
    row_group = pq.read_metadata(path).row_group(group)
    columns = [row_group.column(number) for number in range(row_group.num_columns)]
    (column,) = (column for column in columns if column.path_in_schema == name)
    return path.read_bytes()[column.data_page_offset :][: column.total_compressed_size]


def stored(base_path: Path) -> dict[str, tuple[int, float]]:
    table = hoodie.read_table(str(base_path), columns=["_hoodie_record_key", "id", "ts", "fare"])
    assert table["_hoodie_record_key"].to_pylist() == table["id"].to_pylist()
    assert len(set(table["id"].to_pylist())) == table.num_rows
    return {row["id"]: (row["ts"], row["fare"]) for row in table.to_pylist()}


def test_an_upsert_copies_the_pages_of_keys_and_adds_those_of_new_rows(base_path: Path) -> None:
    with client(base_path) as c:
        c.bulk_insert(rows(KEYS, 1))
        before = newest(base_path)
        c.upsert(rows(["key-0007", "key-1999", "new"], 2, fare=5.0))
    after = newest(base_path)
    assert before.name.split("_")[0] == after.name.split("_")[0]
    assert before != after
    for name in ("_hoodie_record_key", "id"):
        old, new = pages(before, name), pages(after, name)
        assert new.startswith(old)
        assert len(new) > len(old)
    expected = dict.fromkeys(KEYS, (1, 1.0)) | dict.fromkeys(["key-0007", "key-1999", "new"], (2, 5.0))
    assert stored(base_path) == expected


def test_a_delete_writes_keys_anew(base_path: Path) -> None:
    with client(base_path) as c:
        c.bulk_insert(rows(KEYS, 1))
        c.upsert(rows(["key-0000"], 2, _hoodie_is_deleted=True))
        c.upsert(rows(["key-0001"], 2, _hoodie_is_deleted=False))
        c.delete([hoodie.HoodieKey("key-0002", "")])
    assert stored(base_path) == dict.fromkeys(KEYS[3:], (1, 1.0)) | {"key-0001": (2, 1.0)}


def test_a_column_that_only_the_old_rows_share_with_the_key_is_merged(tmp_path: Path) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with client(path) as c:
        c.bulk_insert(rows(["a", "b"], 1).append_column("alias", [["a", "b"]]))
        c.upsert(rows(["b"], 2).append_column("alias", [["other"]]))
        c.upsert(rows(["c"], 2).append_column("alias", [["c"]]))
    table = hoodie.read_table(str(path), columns=["id", "alias"])
    assert sorted(table.to_pylist(), key=lambda row: row["id"]) == [
        {"id": "a", "alias": "a"}, {"id": "b", "alias": "other"}, {"id": "c", "alias": "c"},
    ]  # fmt: skip


def test_keys_that_are_null_in_a_column_or_made_of_several_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["a", "b"], ordering_fields=["ts"])

    def batch(count: int, ts: int) -> pa.Table:
        names = [str(number) for number in range(count)]
        return pa.table({"a": names, "b": names, "ts": pa.array([ts] * count, pa.int64())})

    with client(path) as c:
        c.bulk_insert(batch(10, 1))
        c.upsert(batch(5, 2))
    table = hoodie.read_table(str(path), columns=["_hoodie_record_key", "a", "b", "ts"]).sort_by("a")
    assert table["_hoodie_record_key"].to_pylist() == [f"a:{number},b:{number}" for number in range(10)]
    assert table["a"].to_pylist() == table["b"].to_pylist() == [str(number) for number in range(10)]
    assert table["ts"].to_pylist() == [2] * 5 + [1] * 5


@pytest.mark.parametrize("codec", ["snappy", "gzip"])
@pytest.mark.parametrize("block_size", ["20000", "1000000"])
@pytest.mark.one_in(4)
def test_files_of_several_row_groups_and_another_codec_hold_the_right_rows(
    base_path: Path, codec: str, block_size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_source, "MERGE_BATCH_ROWS", 100)
    expected = dict.fromkeys(KEYS, (1, 1.0))
    with client(base_path, parquet_block_size=block_size) as c:
        c.bulk_insert(rows(KEYS, 1).to_batches(max_chunksize=50))
    with client(base_path, parquet_block_size=block_size, parquet_compression_codec=codec) as c:
        for ts in range(2, 6):
            changed = KEYS[ts::97] + [f"new-{ts}-{number}" for number in range(ts * 20)]
            c.upsert(rows(changed, ts, fare=float(ts)))
            expected |= dict.fromkeys(changed, (ts, float(ts)))
            assert stored(base_path) == expected
        groups = pq.read_metadata(newest(base_path)).num_row_groups
    assert (groups > 1) == (block_size == "20000")


@pytest.mark.one_in(4)
def test_many_small_upserts_do_not_leave_many_small_pages(base_path: Path) -> None:
    with client(base_path) as c:
        c.bulk_insert(rows(["first"], 1))
        for number in range(70):
            c.upsert(rows([f"key-{number}"], 1))
    assert len(stored(base_path)) == 71
    row_group = pq.read_metadata(newest(base_path)).row_group(0)
    names = [row_group.column(number).path_in_schema for number in range(row_group.num_columns)]
    assert row_group.column(names.index("_hoodie_record_key")).total_uncompressed_size < 5000


def test_keys_are_copied_where_absent_columns_keep_their_values(base_path: Path) -> None:
    with client(base_path) as c:
        c.bulk_insert(rows(KEYS, 1, fare=3.0))
    before = newest(base_path)
    with client(base_path, write_partial_update="true") as c:
        c.upsert(rows(["key-0003"], 2).drop_columns(["fare"]))
    assert pages(newest(base_path), "_hoodie_record_key") == pages(before, "_hoodie_record_key")
    assert stored(base_path) == dict.fromkeys(KEYS, (1, 3.0)) | {"key-0003": (2, 3.0)}


def test_other_readers_take_files_with_copied_columns(base_path: Path) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    with client(base_path) as c:
        c.bulk_insert(rows(KEYS, 1))
        c.upsert(rows(["key-0007", "new"], 2, fare=5.0))
    path = str(newest(base_path))
    expected = pq.read_table(path, columns=["id", "_hoodie_record_key", "ts"]).to_pylist()
    assert polars.read_parquet(path, columns=["id", "_hoodie_record_key", "ts"]).to_dicts() == expected
    found = duckdb.sql(f"select id, _hoodie_record_key, ts from '{path}' where id >= 'key-1998'").fetchall()
    assert sorted(found) == [("key-1998", "key-1998", 1), ("key-1999", "key-1999", 1), ("new", "new", 2)]
