"""Ranges of keys from the end of a file, beside what the whole footer says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieMissingFileException
from hoodie.io.parquet.footer_tail import TAIL_BYTES, read_key_range
from hoodie.io.parquet.parquet_reader import read_footer
from hoodie.storage.storage_factory import open_storage
from tests.support.table_builder import local_client


def entries_file(path: Path, entries: dict[str, str]) -> str:
    """A Parquet file with entries in its footer."""
    with pq.ParquetWriter(path, pa.schema([("a", pa.int64())]), store_schema=False) as writer:
        writer.write_table(pa.table({"a": [1]}))
        for name, value in entries.items():
            writer.add_key_value_metadata({name: value})
    return str(path)


def test_files_of_real_hudi_tell_the_same_as_their_whole_footers(shared_tables: Path) -> None:
    storage = open_storage(str(shared_tables))
    told = 0
    for file in shared_tables.rglob("*.parquet"):
        if ".hoodie" in file.parts or not file.stat().st_size:
            continue
        footer = read_footer(storage, str(file))
        found = read_key_range(storage, str(file))
        if footer.min_record_key is None or footer.max_record_key is None:
            assert found is None
        else:
            told += 1
            assert found == (footer.min_record_key.encode(), footer.max_record_key.encode())
    assert told > 10


@pytest.mark.parametrize("keys", [["a"], ["é", "日本", "🦊"], ["x" * 200, "y" * 1000], [" ", "0"]])
def test_files_of_hoodie_tell_their_range(tmp_path: Path, keys: list[str]) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k")
    with local_client(path) as client:
        client.upsert([{"k": key} for key in keys])
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert read_key_range(open_storage(path), str(file)) == (min(keys).encode(), max(keys).encode())


def test_keys_that_do_not_fit_into_the_end_are_left_to_the_whole_footer(tmp_path: Path) -> None:
    entries = {"hoodie_min_record_key": "a" * TAIL_BYTES, "hoodie_max_record_key": "b"}
    assert read_key_range(open_storage(str(tmp_path)), entries_file(tmp_path / "f.parquet", entries)) is None


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"hoodie_min_record_key": "a"},
        {"hoodie_min_record_key": "a", "hoodie_max_record_key": "z\x18\x15hoodie_min_record_key\x18\x01b"},
        {"x": "\x18\x15hoodie_min_record_key\x18\x01b\x00", "hoodie_max_record_key": "z", "hoodie_min_record_key": "a"},
        {"hoodie_min_record_key": "hoodie_max_record_key", "hoodie_max_record_key": "z"},
    ],
)
def test_what_is_not_sure_is_left_to_the_whole_footer(tmp_path: Path, entries: dict[str, str]) -> None:
    assert read_key_range(open_storage(str(tmp_path)), entries_file(tmp_path / "f.parquet", entries)) is None


def test_rows_that_look_like_a_range_are_none(tmp_path: Path) -> None:
    looks = b"\x18\x15hoodie_min_record_key\x18\x01b\x00\x18\x15hoodie_max_record_key\x18\x01c\x00".decode()
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": [looks]}), file, compression="none", use_dictionary=False, write_statistics=False)
    assert looks.encode() in file.read_bytes()
    assert read_key_range(open_storage(str(tmp_path)), str(file)) is None


def test_other_peoples_files_and_missing_ones(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    for content in (b"", b"PAR1", b"no parquet at all"):
        (tmp_path / "f.parquet").write_bytes(content)
        assert read_key_range(storage, str(tmp_path / "f.parquet")) is None
    with pytest.raises(HoodieMissingFileException, match="is missing"):
        read_key_range(storage, str(tmp_path / "gone.parquet"))
