"""BLOOM and GLOBAL_BLOOM: hoodie and real Hudi find each other's keys by the footers that the other one wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.io.parquet.parquet_reader import read_footer
from tests.interop.hudi_process import HudiProcess
from tests.interop.test_operations import (
    DEFAULT_PAYLOAD,
    Rows,
    Write,
    assert_same_outcome,
    init,
    rows_of,
    write_with_hoodie,
    write_with_hudi,
)

pytestmark = pytest.mark.interop

NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
EMOJI, FULL_WIDTH = "😀", "｡"
"""Java compares the first as the smaller one, UTF-8 bytes the other way round."""
KEYS = ["a", "b0", "näme", "漢字", EMOJI, "𐀀z", "k:1,2", "x" * 3000, *(f"id{number:04d}" for number in range(40))]


def entries(keys: list[str], ts: int, shift: int = 0) -> Rows:
    regions = ["north", "south"]
    return [(key, regions[(KEYS.index(key) + shift) % 2], ts, float(ts)) for key in keys]


@pytest.mark.interop_smoke
def test_keys_are_found_in_files_of_the_other_writer(hudi: HudiProcess, tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BLOOM", **NEW_FILES}
    simple = {**options, "hoodie.bloom.index.filter.type": "SIMPLE", "hoodie.bloom.index.use.treebased.filter": "false"}
    writes: list[Write] = [
        ("insert", options, entries(KEYS[::2], 1)),
        ("upsert", simple, entries(KEYS[::3], 2)),
        ("upsert", options, entries(KEYS[1::2], 3) + entries(KEYS[:4], 4)),
        ("upsert", {**options, "hoodie.bloom.index.prune.by.ranges": "false"}, entries(KEYS, 5)),
    ]
    found = assert_same_outcome(hudi, tmp_path, DEFAULT_PAYLOAD, writes)
    assert sorted(row[0] for row in found) == sorted(KEYS)
    assert {row[2] for row in found} == {5}


@pytest.mark.parametrize("moves", [True, False])
def test_a_global_bloom_index_moves_keys_as_hudi_does(hudi: HudiProcess, tmp_path: Path, moves: bool) -> None:
    options = {
        "hoodie.index.type": "GLOBAL_BLOOM",
        "hoodie.bloom.index.update.partition.path": str(moves).lower(),
        **NEW_FILES,
    }
    writes: list[Write] = [
        ("insert", options, entries(KEYS[:20], 5)),
        ("upsert", options, entries(KEYS[:6], 6, shift=1) + entries(KEYS[6:9], 4, shift=1) + entries(KEYS[20:24], 1)),
        ("upsert", options, entries(KEYS[:3], 7) + entries(KEYS[18:30], 7, shift=1)),
    ]
    found = assert_same_outcome(hudi, tmp_path, DEFAULT_PAYLOAD, writes)
    assert sorted(row[0] for row in found) == sorted(KEYS[:30])


def test_ranges_in_the_order_of_bytes_lose_no_key(hudi: HudiProcess, tmp_path: Path) -> None:
    """Hudi's row writer finds the ends of a file's keys in the order of bytes, its other writers in Java's."""
    init(tmp_path, DEFAULT_PAYLOAD)
    keys = [FULL_WIDTH, EMOJI, FULL_WIDTH + "z", EMOJI + "z", "\ue000"]
    first: Rows = [(key, "north", 1, 1.0) for key in keys]
    write_with_hudi(hudi, tmp_path, ("bulk_insert", {}, first), DEFAULT_PAYLOAD)
    meta_client = HoodieTableMetaClient.load(str(tmp_path))
    footers = [read_footer(meta_client.storage, file.path) for file in meta_client.view().latest_base_files("north")]
    assert [(footer.min_record_key, footer.max_record_key) for footer in footers] == [("\ue000", EMOJI + "z")]
    # A key that is not found would be filled into a small file, where merging finds it after all.
    write: Write = ("upsert", {"hoodie.index.type": "BLOOM", **NEW_FILES}, [(key, "north", 2, 2.0) for key in keys])
    write_with_hoodie(tmp_path, write, DEFAULT_PAYLOAD)
    assert rows_of(hudi.read(tmp_path)) == sorted((key, "north", 2, 2.0, "north") for key in keys)


def test_real_hudi_itself_misses_keys_in_ranges_of_its_row_writer(hudi: HudiProcess, tmp_path: Path) -> None:
    """What the documentation says of it."""
    init(tmp_path, DEFAULT_PAYLOAD)
    keys = [FULL_WIDTH, EMOJI, "\ue000"]
    write_with_hudi(hudi, tmp_path, ("bulk_insert", {}, [(key, "north", 1, 1.0) for key in keys]), DEFAULT_PAYLOAD)
    options = {"hoodie.index.type": "BLOOM", **NEW_FILES}
    write_with_hudi(hudi, tmp_path, ("upsert", options, [(FULL_WIDTH, "north", 2, 2.0)]), DEFAULT_PAYLOAD)
    assert hudi.read(tmp_path)["id"].to_pylist().count(FULL_WIDTH) == 2


def test_real_hudi_finds_keys_within_the_ranges_that_hoodie_writes(hudi: HudiProcess, tmp_path: Path) -> None:
    init(tmp_path, DEFAULT_PAYLOAD)
    keys = [FULL_WIDTH, EMOJI, FULL_WIDTH + "z", EMOJI + "z", "\ue000"]
    options = {"hoodie.index.type": "BLOOM", **NEW_FILES}
    write_with_hoodie(tmp_path, ("insert", options, [(key, "north", 1, 1.0) for key in keys]), DEFAULT_PAYLOAD)
    for ts, key in enumerate(keys, 2):
        write_with_hudi(hudi, tmp_path, ("upsert", options, [(key, "north", ts, 2.0)]), DEFAULT_PAYLOAD)
    assert sorted(hudi.read(tmp_path)["id"].to_pylist()) == sorted(keys)
