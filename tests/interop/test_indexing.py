"""Partitions built beside writers: by hoodie (`index`), and by real Hudi (``CREATE INDEX``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.common.table.timeline.instant import Action
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.writer.index_definition_writer import save_index_definition
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_with_metadata import TableWithMetadata

pytestmark = [pytest.mark.interop, pytest.mark.with_merge_on_read]

KINDS = {
    "column_stats": {"hoodie.metadata.index.column.stats.enable": "true"},
    "bloom_filters": {"hoodie.metadata.index.bloom.filter.enable": "true"},
    "record_index": {
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
LOCK = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def new_table(tmp_path: Path, hudi: HudiProcess) -> TableWithMetadata:
    options = {key: value for one in KINDS.values() for key, value in one.items()}
    table = TableWithMetadata(tmp_path / "t", hudi)
    table.by_hoodie(*range(12), metadata_enable="true")
    assert table.load().table_config.metadata_partitions == ("files",)
    table.options = options
    return table


@pytest.mark.table_versions(6, 8, 9)
@pytest.mark.interop_smoke
def test_real_hudi_writes_before_while_and_after_hoodie_builds(
    tmp_path: Path, hudi: HudiProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, hudi)
    kinds = [*KINDS, *(["partition_stats"] if table.load().table_config.table_version > 6 else [])]
    # A writer of Hudi whose options ask for a partition builds it itself, before it writes.
    asking, table.options = table.options, {"hoodie.metadata.index.column.stats.enable": "false"}
    build = HoodieBackedTableMetadataWriter.build

    def beside(self: HoodieBackedTableMetadataWriter, *given: Any) -> Any:
        built = build(self, *given)
        table.by_hudi(*range(8, 16))
        table.by_hudi(0, 1, operation="delete")
        return built

    monkeypatch.setattr(HoodieBackedTableMetadataWriter, "build", beside)
    with table.client(metadata_enable="true", metadata_index_column_stats_enable="true") as client:
        planned = client.schedule_indexing(kinds)
        table.by_hudi(2, 3, 20)
        assert client.index(planned) is not None
    table.options = asking
    assert set(table.load().table_config.metadata_partitions) == {"files", *kinds}
    table.mark()
    table.check()
    for turn in range(2):
        # Hudi 0.15 records no key in its index that a log file had deleted, and that comes back.
        table.by_hudi(*range(turn + 2, 18))
        table.check()
        table.by_hoodie(*range(turn + 3, 9), parquet_small_file_limit="0")
        table.check()
    assert table.is_marked()
    assert set(table.load().table_config.metadata_partitions) == {"files", *kinds}


@pytest.mark.table_versions(8, 9)
@pytest.mark.parametrize("before", [[], ["column_stats", "partition_stats"]], ids=["alone", "after_hoodie"])
def test_hoodie_goes_on_after_an_index_that_real_hudi_built(
    tmp_path: Path, hudi: HudiProcess, before: list[str]
) -> None:
    """With one partition to build: of several, Hudi 1.2.0 rolls back all but the last, and lists them all."""
    if hudi.version != "1.2.0":
        pytest.skip("CREATE INDEX is tried with Hudi 1.2.0 only")
    table = new_table(tmp_path, hudi)
    has_stats = "true" if before else "false"
    table.options = {**KINDS["record_index"], "hoodie.metadata.index.column.stats.enable": has_stats}
    if before:
        with table.client() as client:
            client.index(client.schedule_indexing(before))
    create_index(table)
    indexings = table.load().active_timeline.filter_actions(Action.INDEXING)
    assert [one.is_completed for one in indexings] == [True] * (2 if before else 1)
    assert set(table.load().table_config.metadata_partitions) == {"files", "record_index", *before}
    table.check()
    table.by_hoodie(*range(4, 15))
    table.check()
    with table.client() as client:
        state = list(table.model.rows)
        undone = table.write_with(client, table.rows(0, 40))
        table.model.rows = state
        assert client.rollback(undone)
        table.check()
    table.by_hudi(*range(3, 9))
    table.check()


@pytest.mark.table_versions(8, 9)
def test_secondary_indexes_that_hoodie_planned(
    tmp_path: Path, hudi: HudiProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real Hudi writes before and while hoodie builds one; and carries out a plan whose definition is stored."""
    if hudi.version != "1.2.0":
        pytest.skip("secondary indexes are tried with Hudi 1.2.0 only")
    table = new_table(tmp_path, hudi)
    table.options = {**KINDS["record_index"], "hoodie.metadata.index.column.stats.enable": "false"}
    build = HoodieBackedTableMetadataWriter.build

    def beside(self: HoodieBackedTableMetadataWriter, *given: Any) -> Any:
        built = build(self, *given)
        table.by_hudi(*range(8, 16))
        return built

    with table.client() as client:
        client.index(client.schedule_indexing(["record_index"]))
        planned = client.schedule_indexing(secondary_indexes={"ts": "ts"})
        table.by_hudi(0, 1, 14)
        assert "secondary_index_ts" not in table.load().table_config.metadata_partitions
        with monkeypatch.context() as patch:
            patch.setattr(HoodieBackedTableMetadataWriter, "build", beside)
            assert client.index(planned) is not None
        table.check()
        definition = HoodieIndexDefinition(
            "secondary_index_region", "secondary_index", ("region",),
            is_hashed_by_value=table.load().table_config.table_version > 8,
        )  # fmt: skip
        save_index_definition(table.load().snapshot, definition)
        planned = client.schedule_indexing([definition.name])
        assert table.hudi.index(table.base_path, planned, {"hoodie.metadata.enable": "true", **table.options, **LOCK})
    indexes = {"secondary_index_ts", "secondary_index_region"}
    assert set(table.load().table_config.metadata_partitions) == {"files", "record_index", *indexes}
    table.check()
    table.by_hoodie(*range(4, 15))
    table.check()
    table.by_hudi(*range(3, 9))
    table.check()


def create_index(table: TableWithMetadata) -> None:
    """Real Hudi builds a record index beside writers."""
    table.hudi.sql("DROP TABLE IF EXISTS listed")
    table.hudi.sql(f"CREATE TABLE listed USING hudi LOCATION '{table.base_path}'")
    options = {**table.hudi.standing_options(), "hoodie.metadata.enable": "true", **table.options, **LOCK}
    try:
        for name, value in options.items():
            table.hudi.sql(f"SET {name}={value}")
        table.hudi.sql("CREATE INDEX record_index ON listed (id)")
    finally:
        for name in options:
            table.hudi.sql(f"RESET {name}")
        table.hudi.sql("DROP TABLE listed")
