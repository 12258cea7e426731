"""BLOOM with key ranges and filters of the metadata table finds what it finds with footers, and opens fewer files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.index.bloom import metadata_look
from hoodie.index.index_report import Decision

BY_METADATA = {"hoodie.bloom.index.use.metadata": "true"}
OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


def rows(keys: list[str], ts: int = 1) -> pa.Table:
    return pa.table({"id": keys, "ts": [ts] * len(keys)})


def client(path: Path, index: str, **options: str) -> HoodieLocalWriteClient:
    given = {**OPTIONS, "hoodie.index.type": index, **options}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), given))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three files: of low keys, of high keys, and of keys over the whole range."""
    HoodieTableMetaClient.init_table(
        str(tmp_path / "t"), table_name="t", record_key_fields="id", ordering_fields="ts"
    )  # fmt: skip
    with client(tmp_path / "t", "BLOOM") as writer:
        for keys in (["a1", "a2"], ["z1", "z2"], ["a0", "m5", "z9"]):
            writer.bulk_insert(rows(keys))
    return tmp_path / "t"


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM"])
def test_files_that_the_metadata_table_excludes_are_not_opened(path: Path, index: str) -> None:
    wanted = rows(["a2", "b7"], 2)
    with client(path, index, **BY_METADATA) as writer:
        plan = writer.explain_upsert(wanted)
    assert plan.index_report.footers_read == 0
    decided = sorted(str(look.decided_by) for look in plan.index_report.file_groups)
    # That of high keys by its range; that of all by its filter; that of low keys holds one.
    assert decided == sorted([Decision.RANGE, Decision.FILTER, Decision.KEY_CHECK])
    assert plan.index_report.filters_read <= 1
    with client(path, index) as writer:
        before = writer.explain_upsert(wanted)
        assert before.index_report.footers_read == 3
    assert (plan.updates, plan.inserts) == (before.updates, before.inserts) == (1, 1)


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM"])
def test_upserts_by_it_update_what_is_stored(path: Path, index: str) -> None:
    with client(path, index, **BY_METADATA) as writer:
        for ts in range(2, 5):
            result = writer.upsert(rows(["a2", "m5", "z1", f"new{ts}"], ts))
            assert (result.updated_count, result.inserted_count) == (3, 1)
    found = hoodie.read_table(str(path)).select(["id", "ts"]).to_pylist()
    assert len(found) == 10
    assert {row["ts"] for row in found if row["id"] in ("a2", "m5", "z1")} == {4}


def test_files_of_which_it_says_nothing_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_look, "_COLUMN_STATS", "partition_stats")
    monkeypatch.setattr(metadata_look, "_BLOOM_FILTERS", "partition_stats")
    with client(path, "BLOOM", **BY_METADATA) as writer:
        plan = writer.explain_upsert(rows(["a2", "b7"]))
    assert plan.index_report.footers_read == 3
    assert (plan.updates, plan.inserts) == (1, 1)
