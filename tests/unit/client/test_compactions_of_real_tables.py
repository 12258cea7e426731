"""Compactions of merge-on-read tables that real Hudi wrote, and of one that it planned and left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException
from hoodie.io.file_group_reader import scan_file_groups
from tests.unit.io.test_merging_real_tables import HIDDEN_FROM_HUDI, NOT_READ_BY_HUDI_RS, readers_of
from tests.unit.test_merge_on_read_tables import is_merge_on_read
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order

OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.type": "SIMPLE",
}


def new_client(folder: Path) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(folder, OPTIONS))


def rows_of(folder: Path) -> list[str]:
    """All rows with all columns but the file name."""
    batches = list(scan_file_groups(readers_of(folder)))
    return in_order([row for batch in batches for row in batch.drop_columns([FILE_NAME_META]).to_pylist()])


def rows_by_hudi_rs(folder: Path) -> list[str]:
    batches = HudiTableBuilder.from_base_uri(str(folder)).build().read()
    table = pa.Table.from_batches(batches).drop_columns([FILE_NAME_META]) if batches else pa.table({})
    return in_order(table.to_pylist())


def log_files_of(folder: Path) -> int:
    return sum(file.log_file_count for file in HoodieTableMetaClient.load(str(folder)).files())


@pytest.mark.one_in(4)
def test_each_table_has_the_same_rows_after_its_compaction(
    later_tables: Path, shared_tables: Path, tmp_path: Path
) -> None:
    compacted, refused = 0, dict[str, str]()
    for number, original in enumerate([*folders_of_tables(later_tables), *folders_of_tables(shared_tables)]):
        if not is_merge_on_read(original) or not log_files_of(original):
            continue
        folder = tmp_path / str(number) / original.name
        shutil.copytree(original, folder)
        before = rows_of(folder)
        try:
            with new_client(folder) as client:
                while client.compact() is not None:
                    assert rows_of(folder) == before, folder.name
        except HoodieException as error:
            refused[folder.name] = str(error)
            continue
        assert rows_of(folder) == before, folder.name
        assert log_files_of(folder) == 0, folder.name
        if folder.name not in NOT_READ_BY_HUDI_RS:
            assert rows_by_hudi_rs(folder) == before, folder.name
        compacted += 1
    assert refused.keys() == {"v9_sql"}
    assert "indexing 20261122072356710 is pending" in refused["v9_sql"]
    assert compacted >= 20, compacted


def test_a_plan_of_hudi_is_carried_out(later_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(later_tables / "v9_mor_compact", tmp_path / "t")
    (folder,) = folders_of_tables(tmp_path / "t")

    def pending() -> list[str]:
        timeline = HoodieTableMetaClient.load(str(folder)).active_timeline
        return sorted(timeline.filter_actions(Action.COMPACTION).filter_pending().times)

    assert pending() == ["20261122070050092"]
    before = rows_of(folder)
    with new_client(folder) as client:
        result = client.compact()
    assert result is not None
    assert result.instant_time == "20261122070050092"
    assert sorted(status.partition_path for status in result) == ["p0", "p1"]
    assert pending() == []
    assert rows_of(folder) == before == rows_by_hudi_rs(folder)
    expected: list[dict[str, Any]] = pq.read_table(later_tables / "rows" / "v9_mor_compact.parquet").to_pylist()
    assert len(expected) == len(before)
    assert "v9_mor_compact" not in HIDDEN_FROM_HUDI
