"""Writes that began before others and are completed after them: the metadata table hides nothing of what they wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.common.model.column_range import HoodieColumnRange, ValueType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieWriteConflictException
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.records.column_stats_records import FileColumnRanges
from hoodie.metadata.writer import partition_stats_indexer
from hoodie.metadata.writer.indexed_columns import IndexedColumns
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_trips, rows

ALL = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    **SMALL_FILTERS,
}
MERGING = {
    "": {},
    "compacted": {"hoodie.metadata.compact.max.delta.commits": 1},
    "log_compacted": {
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": 2,
    },
}
KEY = pc.field("_hoodie_record_key")
KINDS = [
    pytest.param(version, kind, marks=[] if (version, kind) == (9, "COPY_ON_WRITE") else [pytest.mark.slow])
    for version in (6, 8, 9)
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


@pytest.fixture
def table(tmp_path: Path, table_version: int, kind: str) -> str:
    path = init_table(tmp_path / "t", table_type=kind)
    with local_client(path, ALL) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
        if table_version >= 8:
            client.create_index("idx_region", "region")
    return path


def late_writer(path: str) -> tuple[HoodieLocalWriteClient, str]:
    """A writer that has begun."""
    client = local_client(path, {**ALL, "hoodie.auto.commit": "false"})
    return client, client.start_commit()


def check(path: str) -> None:
    assert hoodie.metadata.validate(path).is_right, hoodie.metadata.validate(path)
    for condition in (KEY == "a", KEY == "n", pc.field("region") == "x", pc.field("region") == "y"):
        found, expected = (
            sorted(hoodie.read_table(path, filters=condition, options=options)["id"].to_pylist())
            for options in (None, {"hoodie.metadata.enable": False})
        )
        assert found == expected, condition


@pytest.mark.parametrize(("table_version", "kind"), KINDS, indirect=["table_version"])
@pytest.mark.parametrize("merged", ["", "compacted", "log_compacted"])
@pytest.mark.one_in(4)
def test_a_key_that_was_deleted_after_its_writer_began_is_found_again(
    table: str, table_version: int, merged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, instant_time = late_writer(table)
    more = MERGING[merged]
    with local_client(table, {**ALL, **more}) as client, monkeypatch.context() as patch:
        # Hudi makes log compactions beside pending writes.
        patch.setattr("hoodie.metadata.writer.compaction_planning._pending", lambda files: [])
        client.delete([HoodieKey("a", "x")])
        client.upsert(rows(("c", "x", 1, 1.0)))
    made = list(Path(table).rglob("*.logcompaction.requested"))
    assert len(made) == (merged == "log_compacted")
    with late:
        late.commit(instant_time, late.upsert(rows(("a", "y", 5, 99.0)), instant_time))
    check(table)
    with local_client(table, ALL) as client:
        client.upsert(rows(("a", "y", 7, 3.0)))
    assert read_trips(table) == [("a", "y", 7, 3.0), ("b", "y", 1, 2.0), ("c", "x", 1, 1.0)]
    check(table)


@pytest.mark.parametrize(("table_version", "kind"), [(9, "COPY_ON_WRITE")], indirect=["table_version"])
def test_a_write_of_other_keys_compacts_nothing(table: str) -> None:
    late, instant_time = late_writer(table)
    with local_client(table, ALL) as client:
        client.delete([HoodieKey("a", "x")])
    with late:
        late.commit(instant_time, late.upsert(rows(("n", "y", 5, 99.0)), instant_time))
    check(table)
    inner = HoodieBackedTableMetadata.open(TableSnapshot.load(table)).files.snapshot.active_timeline
    assert not len(inner.filter_actions(Action.COMMIT))


@pytest.mark.parametrize(("table_version", "kind"), [(9, "COPY_ON_WRITE")], indirect=["table_version"])
@pytest.mark.one_in(4)
def test_it_is_not_completed_where_nothing_may_be_compacted(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late, instant_time = late_writer(table)
    with local_client(table, ALL) as client:
        client.delete([HoodieKey("a", "x")])
        deleted = client.upsert(rows(("c", "x", 1, 1.0))).instant_time
    timeline = TableSnapshot.load(table).active_timeline
    held = [timeline.find(deleted)]
    services = "hoodie.metadata.writer.metadata_table_services"
    with late:
        result = late.upsert(rows(("a", "y", 5, 99.0)), instant_time)
        with monkeypatch.context() as patch:
            patch.setattr(f"{services}.held_back_by", lambda files: held)
            with pytest.raises(HoodieWriteConflictException, match="began later, was completed before"):
                late.commit(instant_time, result)
    assert read_trips(table) == [("b", "y", 1, 2.0), ("c", "x", 1, 1.0)]
    check(table)
    with local_client(table, ALL) as client:
        client.upsert(rows(("a", "y", 5, 99.0)))
    check(table)


@pytest.mark.parametrize(("table_version", "kind"), KINDS, indirect=["table_version"])
@pytest.mark.parametrize(
    "replace",
    [
        pytest.param(lambda client: client.delete_partitions(["x"]), id="delete_partitions"),
        pytest.param(lambda client: client.insert_overwrite_table(rows(("c", "y", 1, 1.0))), id="overwrite"),
    ],
)
def test_a_partition_that_was_replaced_after_its_writer_began_is_not_left_out(
    table: str, replace: Callable[[HoodieLocalWriteClient], Any]
) -> None:
    """Readers of versions 8 and 9 skip a partition of which there are no statistics."""
    late, instant_time = late_writer(table)
    with late:
        result = late.insert(rows(("n", "x", 1, 99.0)), instant_time)
        with local_client(table, ALL) as client:
            replace(client)
        late.commit(instant_time, result)
    check(table)
    assert hoodie.read_table(table, filters=pc.field("fare") == 99.0).num_rows == 1


def test_the_nulls_of_files_without_a_column_are_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass for each file would take hours for a partition of 10,000 files that got a new column."""
    ranges = tuple(HoodieColumnRange(f"c{number}", ValueType.LONG, 0, 5, 10, 0) for number in range(3))
    files = [FileColumnRanges("x", f"f{number}-0_0-0-0_20260101000000000.parquet", ranges) for number in range(50)]
    passes = 0
    of_files = partition_stats_indexer._Rows.of_files

    def counted(self: Any, wanted: Any) -> Any:
        nonlocal passes
        passes += 1
        return of_files(self, wanted)

    monkeypatch.setattr(partition_stats_indexer._Rows, "of_files", counted)
    stored = partition_stats_indexer._Rows.of(files, 9)
    names = [(file.partition_path, file.file_name) for file in files]
    columns = IndexedColumns(pa.schema([]), frozenset(), 9, ("c0", "c1", "c2", "new"), ())
    partitions = partition_stats_indexer._Partitions(None, columns, {"x": names})  # type: ignore[arg-type]
    found = partitions._nulls(names, dict.fromkeys(names, 10), stored)
    assert set(found.stats.column("column_name").to_pylist()) == {"new"}
    assert found.stats.column("null_count").to_pylist() == [10] * 50
    assert passes == 1
