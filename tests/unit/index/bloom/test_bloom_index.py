"""BLOOM and GLOBAL_BLOOM find the keys that files hold, whatever their footers say, and read no more than they must."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import HoodieWriteConfig
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.engine.local_data import LocalData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index.bloom import bloom_index
from hoodie.index.bloom.bloom_index import HoodieBloomIndex
from hoodie.index.bloom.global_bloom_index import HoodieGlobalBloomIndex
from hoodie.index.index import HoodieIndex, IndexedTable, TagRequest
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.storage.local_storage import LocalStorage
from tests.unit.index.bloom.base_files import StoredFile, write_slice

Table = Mapping[str, Sequence[StoredFile]]
Place = tuple[str, str, str | None, int | None]
"""Partition path and key of an incoming row, file id and row position that it was tagged with."""

CONTEXT = LocalEngineContext(2)
PIECES = st.sampled_from(
    ["a", "b", "z", "0", "10", "9", "é", "漢", "｡", "\ue000", "😀", "𐀀", "\U0010ffff", "x" * 300, "\0"]
)
KEYS = st.lists(PIECES, min_size=1, max_size=3).map("".join)
FILES = st.builds(
    StoredFile,
    keys=st.lists(KEYS, max_size=12),
    row_group_rows=st.sampled_from([1, 3, 100]),
    has_range=st.booleans(),
    filter_type=st.sampled_from(["DYNAMIC_V0", "SIMPLE", None]),
    has_statistics=st.booleans(),
)
TABLES = st.dictionaries(st.sampled_from(["", "p", "q=1/r=é"]), st.lists(FILES, max_size=3), max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "hoodie.bloom.index.prune.by.ranges": st.booleans(),
        "hoodie.bloom.index.use.treebased.filter": st.booleans(),
        "hoodie.bloom.index.use.caching": st.booleans(),
        "hoodie.bloom.index.bucketized.checking": st.booleans(),
        "hoodie.bloom.index.keys.per.bucket": st.sampled_from([1, 3, 10_000_000]),
        "hoodie.bloom.index.parallelism": st.sampled_from([0, 1, 3]),
    }
)


def indexed(folder: Path, table: Table, **further: Any) -> IndexedTable:
    """The table's files, written."""
    written = {
        path: [write_slice(folder, path, f"f{position}-{number}", file) for number, file in enumerate(files)]
        for position, (path, files) in enumerate(table.items())
    }
    return IndexedTable(LocalStorage(str(folder)), written, request=TagRequest(**further))


def make_index(is_global: bool = False, **options: Any) -> HoodieIndex:
    given_options = {name if "." in name else f"hoodie.bloom.index.{name}": value for name, value in options.items()}
    config = HoodieWriteConfig.from_properties("/t", given_options)
    return HoodieGlobalBloomIndex(config) if is_global else HoodieBloomIndex(config)


def incoming(rows: Sequence[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {
            RECORD_KEY: pa.array([key for _, key in rows], pa.string()),
            PARTITION_PATH: pa.array([path for path, _ in rows], pa.string()),
            OPERATION: pa.array([int(RecordOperation.UPSERT)] * len(rows), pa.int8()),
            ROW_NUMBER: pa.array(range(len(rows)), pa.int64()),
        }
    )


def tag(index: HoodieIndex, table: IndexedTable, rows: Sequence[tuple[str, str]], by_exchange: bool) -> list[Place]:
    """The rows as the index tags them: by the keys at hand, or with keys that stay in tasks."""
    keys = incoming(rows)
    if by_exchange:
        tagged = index.tag_location(LocalData.from_table(CONTEXT, keys, 3), CONTEXT, table).collect()
        assert tagged is not None
    else:
        locations = index.find_locations(keys, CONTEXT, table)
        batch = pa.RecordBatch.from_arrays([column.combine_chunks() for column in keys.columns], schema=keys.schema)
        tagged = pa.Table.from_batches([locations.tag(batch)])
    columns = [PARTITION_PATH, RECORD_KEY, CURRENT_FILE_ID, CURRENT_ROW_POSITION]
    return sorted(zip(*(tagged[name].to_pylist() for name in columns), strict=True), key=repr)


def expected_places(table: Table, rows: Sequence[tuple[str, str]]) -> list[Place]:
    places: list[Place] = []
    for path, key in rows:
        found = [
            (path, key, f"f{list(table).index(path)}-{number}", row)
            for number, file in enumerate(table.get(path, []))
            for row, stored in enumerate(file.keys)
            if stored == key
        ]
        places += found or [(path, key, None, None)]
    return sorted(places, key=repr)


@given(TABLES, st.lists(st.tuples(st.sampled_from(["", "p", "q=1/r=é", "new"]), KEYS), max_size=15), OPTIONS)
@settings(max_examples=12, deadline=None)
def test_keys_are_found_at_every_row_that_holds_them(
    table: Table, strangers: list[tuple[str, str]], options: dict[str, Any]
) -> None:
    known = [(path, key) for path, files in table.items() for file in files for key in file.keys[::2]]
    rows = list(dict.fromkeys([*known, *strangers]))
    with tempfile.TemporaryDirectory() as folder:
        files = indexed(Path(folder), table)
        assert tag(make_index(**options), files, rows, by_exchange=False) == expected_places(table, rows)


@given(
    TABLES,
    st.lists(st.tuples(st.sampled_from(["", "p", "q=1/r=é", "new"]), KEYS), max_size=15),
    OPTIONS,
    st.sampled_from([0, 1000]),
)
@settings(max_examples=8, deadline=None)
def test_keys_that_stay_in_tasks_are_found_as_well(
    table: Table, strangers: list[tuple[str, str]], options: dict[str, Any], most_comparisons: int
) -> None:
    known = [(path, key) for path, files in table.items() for file in files for key in file.keys[::2]]
    rows = list(dict.fromkeys([*known, *strangers]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(simple_index, "SHARED_KEY_BYTES", 0)
        patch.setattr(bloom_index, "MOST_COMPARISONS", most_comparisons)
        files = indexed(Path(folder), table)
        assert tag(make_index(**options), files, rows, by_exchange=True) == expected_places(table, rows)


@given(TABLES, st.lists(st.tuples(st.sampled_from(["", "p", "new"]), KEYS), max_size=15), OPTIONS, st.booleans())
@settings(max_examples=8, deadline=None)
def test_the_global_index_finds_keys_in_all_partitions(
    table: Table, strangers: list[tuple[str, str]], options: dict[str, Any], by_exchange: bool
) -> None:
    keys = {key: path for path, files in table.items() for file in files for key in file.keys}
    rows = [(path, key) for key, path in {**{key: path for path, key in strangers}, **keys}.items()]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if by_exchange:
            patch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
        files = indexed(Path(folder), table, stays=True)
        found = tag(make_index(is_global=True, **options), files, rows, by_exchange)
    places = {
        (key, f"f{position}-{number}", row)
        for position, stored in enumerate(table.values())
        for number, file in enumerate(stored)
        for row, key in enumerate(file.keys)
    }
    assert {(key, file, row) for _, key, file, row in found if file is not None} == places
    assert {key for _, key, file, _ in found if file is None} == {key for _, key in strangers} - set(keys)
