"""What footers may lack or get wrong, and what is read of files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import HoodieWriteConfig
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index.bloom.bloom_index import HoodieBloomIndex
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.bloom.index_file_filter import candidates, count_keys
from hoodie.index.bloom.key_exchange import deal_files
from hoodie.index.bloom.key_ranges import BloomIndexFileInfo, KeyRangeCache
from hoodie.index.bloom.sorted_keys import SortedKeys
from hoodie.index.index import IndexedTable
from hoodie.index.index_report import Decision, FileGroupLook, IndexReport
from hoodie.io.parquet.parquet_reader import RowGroupKeys
from hoodie.storage.local_storage import LocalStorage
from tests.unit.index.bloom.base_files import StoredFile, write_slice

CONTEXT = LocalEngineContext(2)
EMOJI, FULL_WIDTH = "😀", "｡"
"""Java's strings have the emoji before the full-width stop, UTF-8 bytes after it."""


def look(
    folder: Path, file: StoredFile, keys: list[str], **options: Any
) -> tuple[set[str], FileGroupLook, IndexReport]:
    """The keys that a file is found to hold, and how the index came to that."""
    table = IndexedTable(LocalStorage(str(folder)), {"p": [write_slice(folder, "p", "f", file)]})
    config = HoodieWriteConfig.from_properties("/t", {f"hoodie.bloom.index.{k}": v for k, v in options.items()})
    incoming = pa.table({RECORD_KEY: pa.array(keys, pa.string()), PARTITION_PATH: pa.array(["p"] * len(keys))})
    found = HoodieBloomIndex(config).find_locations(incoming, CONTEXT, table)
    report = table.work.report()
    return set(found.tables["p"]["key"].to_pylist() if found.tables else ()), report.file_groups[0], report


def test_a_file_is_passed_over_by_its_range_without_its_filter(tmp_path: Path) -> None:
    found, group, report = look(tmp_path, StoredFile(["b", "c", "d"]), ["a", "e", "ca1"])
    assert (found, group.decided_by, group.keys, report.filters_read) == (set(), Decision.FILTER, 1, 1)
    found, group, report = look(tmp_path, StoredFile(["b", "c", "d"]), ["a", "e"])
    assert (found, group.decided_by, group.keys, report.filters_read) == (set(), Decision.RANGE, 2, 0)
    assert report.footers_read == 1


def test_only_row_groups_that_can_hold_keys_are_read(tmp_path: Path) -> None:
    stored = StoredFile([f"k{number:03d}" for number in range(100)], row_group_rows=10)
    found, group, _ = look(tmp_path, stored, ["k015", "k013", "k095", "k0155"])
    assert found == {"k015", "k013", "k095"}
    assert (group.decided_by, group.row_groups, group.row_groups_read, group.found) == (Decision.KEY_CHECK, 10, 2, 3)


def test_keys_between_row_groups_need_no_filter(tmp_path: Path) -> None:
    stored = StoredFile(["a", "b", "y", "z"], row_group_rows=2, filter_type=None)
    assert look(tmp_path, stored, ["m", "n"])[1].decided_by == Decision.RANGE


def test_without_pruning_no_footer_is_read_for_ranges(tmp_path: Path) -> None:
    stored = StoredFile(["a", "b"], filter_type=None)
    found, group, report = look(tmp_path, stored, ["z"], **{"prune.by.ranges": False})
    assert (found, group.decided_by, report.footers_read) == (set(), Decision.RANGE, 0)
    assert look(tmp_path, stored, ["a"], **{"prune.by.ranges": False})[0] == {"a"}


@pytest.mark.parametrize(
    "entries",
    [
        {"org.apache.hudi.bloomfilter": "not base64!"},
        {"org.apache.hudi.bloomfilter": "AAAA"},
        {"hoodie_bloom_filter_type_code": "SIMPLE_V9"},
    ],
)
def test_a_damaged_filter_loses_no_key_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entries: dict[str, str]
) -> None:
    stored = write_slice(tmp_path, "p", "f", StoredFile(["a", "b", "c"], entries=entries))
    index = HoodieBloomIndex(HoodieWriteConfig.from_properties("/t", {}))
    incoming = pa.table({RECORD_KEY: ["b", "bb"], PARTITION_PATH: ["p", "p"]})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            table = IndexedTable(LocalStorage(str(tmp_path)), {"p": [stored]})
            assert index.find_locations(incoming, CONTEXT, table).tables["p"]["position"].to_pylist() == [1]
            assert table.work.report().filters_read == 0
    assert len([record for record in caplog.records if "without the filter" in record.message]) == 1


def test_a_filter_that_is_no_text_costs_the_range_as_well(tmp_path: Path) -> None:
    entries: dict[Any, Any] = {"org.apache.hudi.bloomfilter": b"\xff\xfe"}
    assert look(tmp_path, StoredFile(["a", "b"], entries=entries), ["a", "c"])[0] == {"a"}


def test_the_ends_of_a_range_may_be_in_java_s_order_or_in_that_of_bytes(tmp_path: Path) -> None:
    keys = [EMOJI, FULL_WIDTH, FULL_WIDTH + "z", EMOJI + "z", "a"]
    for low, high in [
        (EMOJI, FULL_WIDTH + "z"),
        (FULL_WIDTH, EMOJI + "z"),
        ("a", FULL_WIDTH + "z"),
        ("a", EMOJI + "z"),
    ]:
        entries = {"hoodie_min_record_key": low, "hoodie_max_record_key": high}
        for has_statistics in (True, False):
            stored = StoredFile(keys, entries=entries, has_statistics=has_statistics)
            assert look(tmp_path, stored, [*keys, "zz"])[0] == set(keys)


def test_keys_of_ten_thousand_characters_are_found_without_statistics(tmp_path: Path) -> None:
    keys = [letter * 10_000 for letter in "abc"]
    found, group, _ = look(tmp_path, StoredFile(keys, row_group_rows=1), [keys[1], keys[1] + "x", "b"])
    assert found == {keys[1]}
    assert group.row_groups_read == 3, "Parquet keeps no statistics of such values"


def test_a_filter_that_knows_most_keys_is_not_asked_about_all(tmp_path: Path) -> None:
    keys = [f"k{number:05d}" for number in range(10_000)]
    found, group, _ = look(tmp_path, StoredFile(keys), [*keys, "k00000x"])
    assert (len(found), group.keys) == (10_000, 10_001)
    _, group, _ = look(tmp_path, StoredFile(keys), [key + "x" for key in keys])
    assert group.decided_by == Decision.FILTER


TEXTS = st.text(st.sampled_from(["a", "b", "é", "漢", FULL_WIDTH, EMOJI, "\0"]), max_size=3)


@given(st.lists(TEXTS, max_size=30), st.lists(TEXTS, min_size=1, max_size=3), st.integers(0, 40))
@settings(max_examples=100)
def test_bounds_are_searched_as_bytes_compare(texts: list[str], bounds: list[str], offset: int) -> None:
    padded = pa.array(["?"] * offset + texts, pa.string()).slice(offset)
    keys = SortedKeys.of(padded)
    encoded = sorted({text.encode() for text in texts})
    assert [key.encode() for key in keys.keys.to_pylist()] == encoded
    searched = [bound.encode() for bound in bounds]
    for few in (searched, searched * 20):
        assert keys.before(few, with_equal=False).tolist() == [sum(k < bound for k in encoded) for bound in few]
        assert keys.before(few, with_equal=True).tolist() == [sum(k <= bound for k in encoded) for bound in few]


def java_order(text: str) -> bytes:
    return text.encode("utf-16-be")


@given(st.lists(TEXTS, max_size=12), TEXTS)
@settings(max_examples=150)
def test_where_the_order_is_certain_java_compares_as_bytes_do(texts: list[str], bound: str) -> None:
    if SortedKeys.of(pa.array(texts, pa.string())).order_is_certain(bound.encode()):
        for text in texts:
            assert (java_order(text) <= java_order(bound)) == (text.encode() <= bound.encode())


BYTES = st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"d", b"e"]))
GROUPS = st.builds(RowGroupKeys, st.integers(0, 3), BYTES, BYTES)
INFOS = st.builds(BloomIndexFileInfo, BYTES, BYTES, st.lists(GROUPS, max_size=4).map(tuple))


@given(st.lists(INFOS, max_size=5), st.lists(st.sampled_from("aabcdefbx"), max_size=8))
@settings(max_examples=150)
def test_both_filters_give_the_keys_within_the_ranges(infos: list[BloomIndexFileInfo], texts: list[str]) -> None:
    keys = SortedKeys.of(pa.array(texts, pa.string()))
    groups = ["p"] * len(infos)
    found = candidates({"p": keys}, groups, infos)
    assert found == candidates({"p": keys}, groups, infos, is_tree_based=False)
    for info, slices in zip(infos, found, strict=True):
        chosen = [key for start, end in slices for key in keys.keys.to_pylist()[start:end]]
        assert len(chosen) == len(set(chosen)) == count_keys(slices)
        assert chosen == [key for key in keys.keys.to_pylist() if can_hold(info, key.encode())]


def can_hold(info: BloomIndexFileInfo, key: bytes) -> bool:
    low, high = info.min_key, info.max_key
    if low is not None and high is not None and low <= high and not low <= key <= high:
        return False
    return any(
        group.rows and (group.min_key is None or group.max_key is None or group.min_key <= key <= group.max_key)
        for group in info.row_groups
    )


def test_a_cache_forgets_what_was_asked_for_longest_ago() -> None:
    info = BloomIndexFileInfo(b"a" * 100, b"z" * 100, ())
    cache = KeyRangeCache(max_bytes=3 * (info.nbytes + 1))
    for name in "abc":
        cache.put(name, info)
    assert cache.get("a") == info
    cache.put("d", info)
    cache.put("d", info)
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]
    assert cache.nbytes == 3 * (info.nbytes + 1)
    cache.put("huge", attrs.evolve(info, min_key=b"x" * 10_000))
    assert (len(cache), cache.nbytes) == (0, 0)


@pytest.mark.parametrize("caches", [True, False])
def test_footers_are_read_once_where_they_are_kept(tmp_path: Path, caches: bool) -> None:
    stored = write_slice(tmp_path, "p", "f", StoredFile(["a", "b"]))
    index = HoodieBloomIndex(HoodieWriteConfig.from_properties("/t", {"hoodie.bloom.index.use.caching": caches}))
    incoming = pa.table({RECORD_KEY: ["b"], PARTITION_PATH: ["p"]})
    read = []
    for _ in range(2):
        table = IndexedTable(LocalStorage(str(tmp_path)), {"p": [stored]})
        index.find_locations(incoming, CONTEXT, table)
        read.append(table.work.report().footers_read)
    assert read == [1, 0 if caches else 1]


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=20),
    st.one_of(st.none(), st.integers(1, 50)),
    st.integers(1, 6),
)
@settings(max_examples=100)
def test_comparisons_are_dealt_evenly(counts: list[int], keys_per_task: int | None, num_tasks: int) -> None:
    dealt = deal_files(np.array(counts), keys_per_task, num_tasks, file_cost=3)
    assert sorted(dealt) == [number for number, count in enumerate(counts) if count]
    loads = [0.0] * num_tasks
    for number, tasks in dealt.items():
        assert len(tasks) == (1 if keys_per_task is None else -(-counts[number] // keys_per_task))
        for task in tasks:
            loads[task] += 3 + counts[number] // len(tasks)
    largest = max((3 + counts[number] // len(tasks) for number, tasks in dealt.items()), default=0)
    assert max(loads) - min(loads) <= largest


def test_keys_of_a_file_are_cut_into_parts() -> None:
    config = HoodieIndexConfig(bloom_keys_per_bucket=4)
    helper = BloomIndexHelper(config)
    assert helper._parts(((0, 3), (5, 14))) == [((0, 3),), ((5, 9),), ((9, 13),), ((13, 14),)]
    assert helper._parts(((0, 2), (3, 5))) == [((0, 2), (3, 5))]
    whole = BloomIndexHelper(attrs.evolve(config, bloom_bucketized_checking=False))
    assert whole._parts(((0, 30),)) == [((0, 30),)]
