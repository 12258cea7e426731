"""Clusterings that one of hoodie and real Hudi plans and the other carries out, with a metadata table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_with_metadata import TableWithMetadata
from tests.support.clustered_table import clusterings, commit_of, latest_slices, pending, plan_of
from tests.support.timeline_files import begin_after

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8, pytest.mark.with_merge_on_read]

PLAN = "hoodie.clustering.plan.strategy."
NEW_FILES = {"hoodie.parquet.small.file.limit": "0", f"{PLAN}sort.columns": "fare"}
INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.global.record.level.index.enable": "true",
}


def new_table(tmp_path: Path, hudi: HudiProcess) -> TableWithMetadata:
    """Three partitions of two file groups."""
    table = TableWithMetadata(tmp_path / "t", hudi, **NEW_FILES, **INDEXES)
    if hudi.version == "0.15.0":
        table.options.pop("hoodie.metadata.global.record.level.index.enable")
    for numbers in (range(6), range(6, 12)):
        table.by_hoodie(*numbers, operation="insert")
    assert "record_index" in table.load().table_config.metadata_partitions
    return table


def by_hudi(table: TableWithMetadata, step: str, **options: str) -> None:
    """Plan a clustering (``schedule``), or carry out what is planned (``execute``)."""
    given = "".join(f", options => '{name}={value}'" for name, value in options.items())
    table.call(f"run_clustering(path => '{table.base_path}', op => '{step}'{given})")


def changes_by_hudi(table: TableWithMetadata, begin: str) -> list[str]:
    """The keys of what was written since, as Hudi reads it."""
    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
    return sorted(table.hudi.read(table.base_path, options)["id"].to_pylist())


def changes(table: TableWithMetadata, begin: str) -> list[str]:
    """As `changes_by_hudi`, by hoodie."""
    found = hoodie.read_table(str(table.base_path), query_type="incremental", begin=begin)
    return sorted(found["id"].to_pylist())


@pytest.mark.interop_smoke(9)
def test_each_carries_out_what_the_other_planned(tmp_path: Path, hudi: HudiProcess) -> None:
    table = new_table(tmp_path, hudi)
    table.by_hoodie(1, 7)
    table.by_hoodie(5, operation="delete")
    last = table.by_hudi(2, 8)
    begin = begin_after(table.base_path, last)
    # Hudi 1.0.2 finds the commit at the begin too.
    before = changes_by_hudi(table, begin)
    with table.client() as client:
        planned = client.schedule_clustering()
    assert planned is not None
    by_hudi(table, "execute")
    assert (pending(table.base_path), clusterings(table.base_path)) == ([], [planned])
    assert len(latest_slices(table.base_path)) == 3
    table.check()
    assert (changes(table, begin), changes_by_hudi(table, begin)) == ([], before)
    table.by_hudi(1, 3, 12)
    table.by_hoodie(2, 4, 13)
    newer = ["k1", "k12", "k13", "k2", "k3", "k4"]
    assert (changes(table, begin), changes_by_hudi(table, begin)) == (newer, sorted({*newer, *before}))
    by_hudi(table, "schedule")
    (second,) = pending(table.base_path)
    plan = plan_of(table.base_path, second).clustering_plan
    assert plan is not None
    assert {part.partition_path for group in plan.input_groups for part in group.slices} == set(
        part.partition_path for part in latest_slices(table.base_path)
    )
    with table.client() as client:
        assert client.cluster() is not None
    assert (pending(table.base_path), clusterings(table.base_path)) == ([], [planned, second])
    table.check()
    table.by_hudi(1, 13, 14)
    table.by_hoodie(4, operation="delete")
    table.by_hoodie(2, 15)
    table.check()


def test_each_goes_on_after_a_clustering_of_hoodie(tmp_path: Path, hudi: HudiProcess) -> None:
    table = new_table(tmp_path, hudi)
    with table.client() as client:
        result = client.cluster()
    assert result is not None
    table.check()
    table.by_hudi(0, 1, 20)
    table.by_hudi(2, operation="delete")
    by_hudi(table, "schedule")
    assert len(pending(table.base_path)) == 1
    by_hudi(table, "execute")
    assert pending(table.base_path) == []
    table.check()
    with table.client() as client:
        assert client.cluster() is not None
    table.by_hudi(3, 4, operation="delete")
    table.check()


@pytest.mark.table_versions(8, 9)
def test_hudi_looks_at_partitions_that_a_plan_of_hoodie_left_out(tmp_path: Path, hudi: HudiProcess) -> None:
    table = new_table(tmp_path, hudi)
    with table.client(**{"clustering_plan_strategy_max_num_groups": "1"}) as client:
        result = client.cluster()
    assert result is not None
    (done,) = commit_of(table.base_path, result.instant_time).partition_to_write_stats
    by_hudi(table, "schedule")
    (second,) = pending(table.base_path)
    plan = plan_of(table.base_path, second).clustering_plan
    assert plan is not None
    found = {part.partition_path for group in plan.input_groups for part in group.slices}
    rest = {part.partition_path for part in latest_slices(table.base_path)} - {done}
    assert rest <= found
    by_hudi(table, "execute")
    table.check()


@pytest.mark.table_versions(6, 9)
def test_row_groups_of_both_are_copied(tmp_path: Path, hudi: HudiProcess) -> None:
    options = {"hoodie.parquet.small.file.limit": "0", "hoodie.parquet.compression.codec": "snappy"}
    table = TableWithMetadata(tmp_path / "t", hudi, **options, **INDEXES)
    if hudi.version == "0.15.0":
        table.options.pop("hoodie.metadata.global.record.level.index.enable")
    table.by_hoodie(*range(6), operation="insert")
    table.by_hudi(*range(6, 12), operation="insert")
    table.by_hudi(*range(12, 18), operation="bulk_insert")
    writers = {pq.read_metadata(part.sole_base_file.path).created_by[:10] for part in latest_slices(table.base_path)}
    assert writers == {"parquet-cp", "parquet-mr"}
    with table.client(clustering_binary_copy_row_group_min_bytes="1") as client:
        assert client.cluster() is not None
    made = latest_slices(table.base_path)
    assert [pq.read_metadata(part.sole_base_file.path).num_row_groups for part in made] == [3, 3, 3]
    table.check()
    table.by_hudi(1, 7, 13, 20)
    table.by_hoodie(2, 8, 14, operation="delete")
    table.by_hudi(3, 9, 15, operation="delete")
    table.check()
    by_hudi(table, "schedule")
    by_hudi(table, "execute")
    assert pending(table.base_path) == []
    table.check()
