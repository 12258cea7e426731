"""Compactions that copy the columns of record keys as the base file stores them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.io.merging_reader import MergingReader
from tests.support.table_builder import local_client

pytestmark = pytest.mark.usefixtures("splices_small_files")

KEYS = [f"key-{number:04}" for number in range(1000)]
IN_LOGS = {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"}
client = partial(local_client, parallelism=1)
every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


def rows(keys: Sequence[str], ts: int, twins: Sequence[str] | None = None, **more: Any) -> pa.Table:
    """Rows whose column ``twin`` equals the key, if no other values are given."""
    count = len(keys)
    columns = {"id": list(keys), "ts": pa.array([ts] * count, pa.int64()), "twin": list(twins or keys)}
    return pa.table(columns | {name: [value] * count for name, value in more.items()})


def make_table(path: Path, *changes: pa.Table, settings: dict[str, str] | None = None) -> Path:
    """A table of `KEYS` in one file group, with a log file for each change."""
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"], table_type="MERGE_ON_READ"
    )
    with client(path, IN_LOGS | (settings or {})) as writer:
        writer.bulk_insert(rows(KEYS, 1).to_batches(max_chunksize=50))
        for change in changes:
            writer.upsert(change)
    return path


def base_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"), key=lambda file: file.name.rsplit("_", 1)[1])


def compacted(
    path: Path, settings: dict[str, str] | None = None
) -> tuple[pa.Table, dict[bytes, bytes], HoodieCommitMetadata]:
    """The rows of the file that a compaction writes, in their order, its footer's entries, and the commit."""
    with client(path, IN_LOGS | (settings or {})) as writer:
        result = writer.compact()
    assert result is not None
    assert result.commit_metadata is not None
    newest = base_files(path)[-1]
    # The file alone: hoodie's own reader might be wrong in the same way.
    return pq.read_table(newest, partitioning=None), pq.read_metadata(newest).metadata, result.commit_metadata


def pages(path: Path, name: str) -> bytes:
    """The stored bytes of a column, over all row groups."""
    found, content, metadata = b"", path.read_bytes(), pq.read_metadata(path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        (column,) = (
            group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema.split(".")[0] == name
        )
        found += content[column.data_page_offset :][: column.total_compressed_size]
    return found


@every_version
@pytest.mark.parametrize(("block_size", "filter_type"), [("20000", "SIMPLE"), ("1000000", "DYNAMIC_V0")])
def test_a_file_with_copied_keys_equals_one_that_was_written_anew(
    tmp_path: Path, table_version: int, block_size: str, filter_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_keys = [f"new-{number}" for number in range(50)]
    settings = {
        "hoodie.parquet.block.size": block_size,
        "hoodie.bloom.index.filter.type": filter_type,
        "hoodie.index.bloom.num_entries": "300",
        "hoodie.bloom.index.filter.dynamic.max.entries": "1200",
    }
    changes = [rows([*KEYS[5::7], *new_keys], 2), rows([*KEYS[::31], *new_keys[:9], "a-first", "z-last"], 3)]
    path = make_table(tmp_path / "copied", *changes, settings=settings)
    shutil.copytree(path, tmp_path / "anew")
    copied, entries, commit = compacted(path, settings)
    monkeypatch.setattr(MergingReader, "only_replaces", False)
    anew, other_entries, other_commit = compacted(tmp_path / "anew", settings)
    groups = [pq.read_metadata(file).num_row_groups for file in base_files(path)]
    assert (groups[0] > 1) == (block_size == "20000")
    assert pages(base_files(path)[1], "id").startswith(pages(base_files(path)[0], "id"))
    stamped = [FILE_NAME_META, "_hoodie_commit_time", "_hoodie_commit_seqno"]
    assert copied.drop_columns(stamped).equals(anew.drop_columns(stamped))
    assert copied["id"].to_pylist() == copied["_hoodie_record_key"].to_pylist() == copied["twin"].to_pylist()
    assert copied["id"].to_pylist()[:1000] == KEYS
    expected = dict.fromkeys(KEYS, 1) | {key: 2 for key in [*KEYS[5::7], *new_keys]}
    expected |= dict.fromkeys([*KEYS[::31], *new_keys[:9], "a-first", "z-last"], 3)
    assert dict(zip(copied["id"].to_pylist(), copied["ts"].to_pylist(), strict=True)) == expected
    assert copied.num_rows == len(expected)
    assert set(copied[FILE_NAME_META].to_pylist()) == {base_files(path)[-1].name}
    assert entries == other_entries
    assert (entries[b"hoodie_min_record_key"], entries[b"hoodie_max_record_key"]) == (b"a-first", b"z-last")
    counted = ("num_writes", "num_update_writes", "num_inserts", "num_deletes", "total_log_records")
    (stat,), (other,) = commit.write_stats, other_commit.write_stats
    assert [getattr(stat, name) for name in counted] == [getattr(other, name) for name in counted]
    assert stat.num_writes == copied.num_rows


@every_version
def test_a_column_that_a_log_file_changes_is_not_copied(tmp_path: Path, table_version: int) -> None:
    path = make_table(tmp_path / "t", rows(KEYS[:2], 2), rows([KEYS[7]], 2, ["another"]))
    copied, _, _ = compacted(path)
    twins = dict(zip(copied["id"].to_pylist(), copied["twin"].to_pylist(), strict=True))
    assert twins == dict(zip(KEYS, KEYS, strict=True)) | {KEYS[7]: "another"}
    old, new = base_files(path)
    assert pages(new, "id") == pages(old, "id")
    assert pages(new, "twin") != pages(old, "twin")


@every_version
def test_keys_that_a_log_file_deletes_leave_the_file_and_its_filter(tmp_path: Path, table_version: int) -> None:
    path = make_table(tmp_path / "t", rows(KEYS[5:8], 2))
    with client(path, IN_LOGS) as writer:
        writer.delete([KEYS[0], KEYS[999]])
    copied, entries, _ = compacted(path)
    assert copied["id"].to_pylist() == copied["_hoodie_record_key"].to_pylist() == KEYS[1:999]
    assert (entries[b"hoodie_min_record_key"].decode(), entries[b"hoodie_max_record_key"].decode()) == (
        KEYS[1], KEYS[998],
    )  # fmt: skip


def test_a_base_file_without_a_valid_filter_gets_one_of_all_keys(tmp_path: Path) -> None:
    changes = [rows(KEYS[:10], 2), rows(["new"], 2)]
    path = make_table(tmp_path / "t", *changes)
    _, entries, _ = compacted(make_table(tmp_path / "whole", *changes))
    (base,) = base_files(path)
    table, metadata = pq.read_table(base, partitioning=None), pq.read_metadata(base).metadata
    kept = {key: value for key, value in metadata.items() if b"bloom" not in key and not key.startswith(b"ARROW")}
    pq.write_table(table.replace_schema_metadata(kept), base, store_schema=False)
    copied, found, _ = compacted(path)
    assert copied["id"].to_pylist() == [*KEYS, "new"]
    assert found == entries


def test_a_client_that_keeps_keys_in_memory_finds_those_of_its_compaction(tmp_path: Path) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"], table_type="MERGE_ON_READ"
    )
    with client(path, IN_LOGS) as writer:
        writer.bulk_insert(rows(KEYS, 1))
        writer.upsert(rows([*KEYS[:5], "new"], 2))
        writer.compact()
        # The index knows the keys of the new file from its writer, and does not read them.
        writer.upsert(rows([KEYS[0], KEYS[999], "new"], 3))
    table = hoodie.read_table(str(path), columns=["id", "ts"])
    assert sorted(table["id"].to_pylist()) == [*KEYS, "new"]
    assert sorted(table["ts"].to_pylist())[-8:] == [1, 2, 2, 2, 2, 3, 3, 3]
