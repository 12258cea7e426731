"""Files whose filter or range other writers left odd, or that were damaged, are rewritten with sound ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.io.parquet.parquet_footer import KeyRange
from tests.support.table_builder import local_client, rows_of_keys

pytestmark = [
    pytest.mark.without_metadata_table("base files are replaced by others, of other sizes"),
    pytest.mark.usefixtures("splices_small_files"),
]

FILTER, FILTER_TYPE = "org.apache.hudi.bloomfilter", "hoodie_bloom_filter_type_code"
LOW, HIGH = "hoodie_min_record_key", "hoodie_max_record_key"
SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 200}
client = partial(local_client, index_type="BLOOM", **SMALL)


def table_with_footer(folder: Path, keys: list[str], entries: dict[str, Any]) -> str:
    """A table of one base file, of whose footer some entries are replaced."""
    HoodieTableMetaClient.init_table(str(folder), table_name="t", record_key_fields="id", ordering_fields="ts")
    with client(str(folder)) as c:
        c.bulk_insert(rows_of_keys(keys, 1))
    (file,) = folder.glob("*.parquet")
    table = pq.read_table(file)
    given = {name.encode(): value for name, value in entries.items()}
    table = table.replace_schema_metadata({**pq.read_metadata(file).metadata, **given})
    pq.write_table(table, file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return str(folder)


def stored(path: str) -> dict[str, int]:
    found = hoodie.read_table(path, columns=["id", "ts"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["ts"] for row in found}


@pytest.mark.parametrize(
    "entries",
    [{FILTER: "not base64!"}, {FILTER: ""}, {FILTER_TYPE: "SIMPLE_V9"}, {FILTER: b"\xff\xfe"}, {LOW: b"\xff\xfe"}],
)
def test_a_file_with_a_damaged_filter_takes_updates_and_gets_a_sound_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entries: dict[str, Any]
) -> None:
    path = table_with_footer(tmp_path, ["a", "b", "c"], entries)
    with client(path) as c:
        c.upsert(rows_of_keys(["b", "x"], 2))
    assert "with a new bloom filter of all its keys" in caplog.text
    caplog.clear()
    assert stored(path) == {"a": 1, "b": 2, "c": 1, "x": 2}
    with client(path) as c:
        plan = c.explain_upsert(rows_of_keys(["a", "c", "bb"], 3))
        assert (plan.updates, plan.inserts, plan.index_report.filters_read) == (2, 1, 1)
        c.upsert(rows_of_keys(["a", "c"], 3))
    assert stored(path) == {"a": 3, "b": 2, "c": 3, "x": 2}
    assert caplog.text == ""


FULL_WIDTH, FIRST_ABOVE, MOUSE, RAT = "｡", "\U00010000", "🐁", "🐀"


@pytest.mark.parametrize(("low", "high"), [(FULL_WIDTH, MOUSE), (MOUSE, FULL_WIDTH)])
def test_a_range_in_the_order_of_bytes_is_not_joined_with_keys_in_that_of_java(
    tmp_path: Path, low: str, high: str
) -> None:
    """Otherwise the new range would begin at the rat, behind a key that is there."""
    path = table_with_footer(tmp_path, [FULL_WIDTH, FIRST_ABOVE, MOUSE], {LOW: low, HIGH: high})
    with client(path) as c:
        c.upsert(rows_of_keys([RAT], 2))
        c.upsert(rows_of_keys([FIRST_ABOVE], 3))
    assert stored(path) == {FULL_WIDTH: 1, FIRST_ABOVE: 3, MOUSE: 1, RAT: 2}


def test_ends_of_a_range_that_stand_the_wrong_way_round_are_not_believed_after_a_merge(tmp_path: Path) -> None:
    path = table_with_footer(tmp_path, ["a", "m", "z"], {LOW: "z", HIGH: "a"})
    with client(path) as c:
        c.upsert(rows_of_keys(["n"], 2))
        c.upsert(rows_of_keys(["a", "z"], 3))
    assert stored(path) == {"a": 3, "m": 1, "n": 2, "z": 3}


def range_of(path: str) -> tuple[str, str]:
    """The range in the footer of the newest base file."""
    newest = max(Path(path).glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    entries = pq.read_metadata(newest).metadata
    return entries[LOW.encode()].decode(), entries[HIGH.encode()].decode()


@pytest.mark.copy_on_write
def test_a_delete_leaves_no_deleted_key_in_the_footer(tmp_path: Path) -> None:
    path = table_with_footer(tmp_path, ["a", "b", "y", "z"], {})
    with client(path) as c:
        c.delete(["a"])
        assert range_of(path) == ("b", "z")
        c.delete(where="id = 'z'")
        assert range_of(path) == ("b", "y")
    assert stored(path) == {"b": 1, "y": 1}


@pytest.mark.copy_on_write
def test_a_merge_does_not_continue_a_range_that_names_a_deleted_key(tmp_path: Path) -> None:
    path = table_with_footer(tmp_path, ["b", "y"], {LOW: "a", HIGH: "z"})
    with client(path) as c:
        c.upsert(rows_of_keys(["c"], 2))
        assert range_of(path) == ("b", "y")
        c.upsert(rows_of_keys(["b", "y", "c"], 3))
    assert stored(path) == {"b": 3, "y": 3, "c": 3}


def test_only_the_last_characters_make_the_order_of_a_range_uncertain() -> None:
    assert KeyRange("", "é漢한").is_of_any_order
    assert not KeyRange("b", "a").is_of_any_order
    assert not KeyRange("a", "z" + FULL_WIDTH).is_of_any_order
    assert not KeyRange(MOUSE, MOUSE).is_of_any_order
