"""Metadata tables that real Hudi 1.x makes by default on tables of versions 8 and 9: hoodie keeps them up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import assert_all_agree
from tests.interop.table_with_metadata import TableWithMetadata
from tests.interop.test_failed_writes import FAILING_VALIDATOR

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(8, 9)]

EMBEDDED = {"hoodie.embed.timeline.server": "true"}
"""Without it, tasks of Hudi fail with a null pointer where they list a partition by a metadata table."""


@pytest.fixture
def table(tmp_path: Path, hudi: HudiProcess) -> TableWithMetadata:
    return TableWithMetadata(tmp_path / "t", hudi)


def test_hoodie_makes_none_and_keeps_one_that_real_hudi_made(table: TableWithMetadata) -> None:
    table.by_hoodie(*range(9))
    assert table.load().table_config.metadata_partitions == ()
    table.by_hudi(*range(4, 12))
    table.mark()
    table.check()
    table.by_hoodie(*range(8, 15))
    table.check()
    table.by_hudi(0, 3, 30, operation="insert_overwrite", **EMBEDDED)
    table.check()
    table.by_hoodie(0, 30, operation="delete")
    table.check()
    # Hudi deletes the partition of this row.
    table.by_hudi(2, operation="delete_partition", **EMBEDDED)
    table.check()
    table.by_hoodie(1, 31, operation="insert_overwrite")
    table.check()
    table.by_hudi(31, 5, operation="delete")
    table.by_hudi(1, 2)
    assert table.is_marked()
    table.check()
    table.by_hoodie(*range(20), metadata_enable="false")
    assert table.load().table_config.metadata_partitions == ()
    assert not (table.base_path / ".hoodie/metadata").exists()
    table.check_by_hudi()


def test_rollbacks_savepoints_restores_and_cleans_keep_it(table: TableWithMetadata) -> None:
    table.by_hudi(*range(9))
    table.mark()
    kept = table.by_hudi(*range(3, 12))
    with table.client() as client:
        client.savepoint(kept)
        table.check()
        state = list(table.model.rows)
        undone = table.by_hudi(*range(12))
        assert client.rollback(undone)
        table.model.rows = list(state)
        assert table.is_marked()
        table.check()
        table.by_hudi(*range(6, 15))
        table.by_hoodie(2)
        table.by_hudi(0, 1, 2, operation="insert_overwrite", **EMBEDDED)
        table.check()
        client.restore_to_savepoint(kept)
        table.model.rows = list(state)
        table.check()
        client.delete_savepoint(kept)
    for _ in range(3):
        table.by_hudi(*range(6))
    table.check()
    table.mark()
    with table.client(cleaner_commits_retained="1") as client:
        assert client.clean() is not None
    table.check()
    table.by_hudi(*range(3, 9))
    assert table.is_marked()
    table.check()
    table.validate_by_hudi()


def test_real_hudi_undoes_commits_of_hoodie_with_it(table: TableWithMetadata) -> None:
    table.by_hudi(*range(9))
    kept = table.by_hoodie(*range(3, 12))
    state = list(table.model.rows)
    assert table.call(f"create_savepoint(path => '{table.base_path}', commit_time => '{kept}')") == [["True"]]
    table.by_hudi(*range(12))
    table.by_hoodie(*range(6))
    table.by_hudi(*range(9))
    table.check()
    assert table.call(f"rollback_to_savepoint(path => '{table.base_path}', instant_time => '{kept}')") == [["True"]]
    table.model.rows = list(state)
    table.check()
    table.by_hoodie(*range(10))
    table.check()
    table.by_hudi(*range(4, 13))
    table.check()
    table.validate_by_hudi()


def test_a_write_of_real_hudi_that_failed_before_it_reached_it_is_rolled_back(table: TableWithMetadata) -> None:
    table.by_hoodie(*range(9))
    table.by_hudi(*range(3, 12))
    table.mark()
    state = list(table.model.rows)
    with pytest.raises(HudiError, match="(?i)validat"):
        table.by_hudi(*range(12), **FAILING_VALIDATOR)
    table.model.rows = state
    (dead,) = table.pending()
    assert len(list(table.base_path.rglob(f"*_{dead}.parquet"))) == 3
    table.by_hoodie(*range(6, 15))
    assert table.pending() == [] and not list(table.base_path.rglob(f"*_{dead}.parquet"))
    table.check()
    table.by_hudi(*range(9, 18))
    assert table.is_marked()
    table.check()


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_a_write_of_hoodie_that_died_before_it_reached_it_is_rolled_back(table: TableWithMetadata, state: str) -> None:
    table.by_hudi(*range(9))
    table.mark()
    client = table.client(auto_commit="false")
    dead = client.start_commit()
    if state == "inflight":
        client.upsert(table.model.table(table.rows(*range(12))), dead)
        assert len(list(table.base_path.rglob(f"*_{dead}.parquet"))) == 3
    assert_all_agree(table.base_path, table.model, table.hudi)
    table.by_hudi(*range(3, 12))
    assert table.pending() == [] and not list(table.base_path.rglob(f"*_{dead}.parquet"))
    table.check()
    table.by_hoodie(*range(2))
    assert table.is_marked()
    table.check()


def test_real_hudi_reads_by_what_hoodie_kept(tmp_path: Path, table: TableWithMetadata) -> None:
    table.by_hudi(*range(9))
    table.by_hoodie(*range(3), parquet_small_file_limit="0")
    table.check_that_hudi_reads_by_it(tmp_path / "lie")
