"""What the indexers of statistics make of the commits of real Hudi equals what Hudi recorded of them."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieMissingFileException
from hoodie.io.log.delete_block import decode_delete_block
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.index_definitions import load_index_definitions
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.writer.indexers import indexer_of
from hoodie.metadata.writer.partition_indexer import CommittedChange, EntriesOnDriver, IndexingContext
from tests.support.metadata_table_files import StoredRecords

PAYLOADS = {
    "column_stats": MetadataPayload.COLUMN_STATS,
    "partition_stats": MetadataPayload.COLUMN_STATS,
    "bloom_filters": MetadataPayload.BLOOM_FILTER,
}
ENDS = ("min_value", "max_value")
PARTIAL = ("v9_sql", "20261122072306318")
"""A commit whose log files hold parts of rows: hoodie takes it for one that may hold anything."""
Rows = dict[str, dict[str, Any]]


def context_of(table: TableSnapshot, metadata: HoodieBackedTableMetadata | None = None) -> IndexingContext:
    definitions = load_index_definitions(table.storage, table.meta_path)
    return IndexingContext(table, LocalEngineContext(2), HoodieMetadataConfig(), definitions, metadata)


def entries_of(context: IndexingContext, partition: str, change: CommittedChange) -> MetadataEntries:
    records = indexer_of(partition, context.table.table_config.table_version).of_commit(context, change)
    assert isinstance(records, EntriesOnDriver)
    return records.entries


def changes_of(table: TableSnapshot) -> dict[str, CommittedChange]:
    timeline = table.active_timeline
    return {
        instant.requested_time: CommittedChange(
            instant.requested_time, instant.action, timeline.read_commit_metadata(instant)
        )
        for instant in timeline.completed_writes()
    }


def recorded(records: list[StoredRecords], partition: str) -> dict[Path, dict[str, Rows]]:
    """What the log blocks of a partition say: by table and instant, the row of each key."""
    found: dict[Path, dict[str, Rows]] = defaultdict(lambda: defaultdict(dict))
    for one in records:
        if one.partition == partition and one.instant_time is not None:
            rows = decode_values(one.values, one.schema, PAYLOADS[partition]).to_pylist()
            found[one.table][one.instant_time].update(zip(one.keys.to_pylist(), rows, strict=True))
    return found


def made_rows(entries: MetadataEntries) -> Rows:
    return dict(zip(entries.keys.to_pylist(), entries.rows.to_pylist(), strict=True))


def as_hudi_writes(made: dict[str, Any], row: dict[str, Any], version: int) -> dict[str, Any]:
    """A record of version 6 with what its writers do in another way: both mean the same to every reader."""
    if version != 6:
        return made
    # Hudi 1.x writes the field into tables of version 6, too.
    made = {**made, "is_tight_bound": row["is_tight_bound"]}
    for end in ENDS:
        if made[end] is None and row[end] is not None:
            # Hudi 0.x has zeros for a column of nulls.
            assert made["null_count"] == made["value_count"]
            assert {row[end]["integer"], row[end]["floating"]} <= {0, None}
            made[end] = row[end]
    return made


@pytest.mark.one_in(4)
def test_statistics_of_columns_of_each_commit_are_those_of_hudi(real_records: list[StoredRecords]) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    for path, by_instant in recorded(real_records, "column_stats").items():
        table = TableSnapshot.load(str(path))
        version, changes = table.table_config.table_version, changes_of(table)
        for time, theirs in by_instant.items():
            if time not in changes:
                continue
            try:
                mine = made_rows(entries_of(context_of(table), "column_stats", changes[time]))
            except HoodieMissingFileException:
                counts[version, "cleaned"] += 1
                continue
            missing = [row for key, row in theirs.items() if key not in mine]
            if (path.name, time) == PARTIAL:
                assert not mine
                continue
            # Hudi 0.x has records of lists, maps and structs of log files, without values.
            assert all(version == 6 and row["min_value"] is None for row in missing), (path, time)
            more = {row["column_name"] for key, row in mine.items() if key not in theirs}
            # Hudi 1.x keeps three meta columns of tables of version 6, and 0.x all five.
            assert more <= ({"_hoodie_commit_seqno", "_hoodie_file_name"} if version == 6 else set()), (path, time)
            for key, row in theirs.items():
                if key in mine:
                    assert as_hudi_writes(mine[key], row, version) == row, (path, time)
                    counts[version, "equal"] += 1
    assert all(counts[version, "equal"] > 100 for version in (6, 8, 9)), counts


def test_bloom_filters_of_each_commit_are_those_of_hudi(real_records: list[StoredRecords]) -> None:
    count = 0
    for path, by_instant in recorded(real_records, "bloom_filters").items():
        table = TableSnapshot.load(str(path))
        changes = changes_of(table)
        for time in by_instant.keys() & changes.keys():
            assert made_rows(entries_of(context_of(table), "bloom_filters", changes[time])) == by_instant[time]
            count += len(by_instant[time])
    assert count >= 9


def before(table: Path, time: str) -> None:
    """Takes an instant off a table's timeline, and leaves its files."""
    for path in (table / ".hoodie").rglob(f"{time}*"):
        if "metadata" not in path.relative_to(table).parts and path.is_file():
            path.unlink()


def last_before(by_instant: dict[str, Rows], time: str, key: str) -> dict[str, Any] | None:
    """The record of a key that an earlier instant left."""
    earlier = [one for one in sorted(by_instant) if one < time and key in by_instant[one]]
    return by_instant[earlier[-1]][key] if earlier else None


@pytest.mark.one_in(4)
def test_statistics_of_partitions_of_each_commit_are_those_of_hudi(
    real_records: list[StoredRecords], tmp_path: Path
) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    for number, (path, by_instant) in enumerate(recorded(real_records, "partition_stats").items()):
        table = Path(shutil.copytree(path, tmp_path / str(number)))
        snapshot = TableSnapshot.load(str(table))
        version, changes = snapshot.table_config.table_version, changes_of(snapshot)
        kinds = {time: one.metadata.operation_type for time, one in changes.items()}
        clusterings = [time for time, kind in kinds.items() if kind is WriteOperationType.CLUSTER]
        for time in sorted({instant.requested_time for instant in snapshot.active_timeline}, reverse=True):
            before(table, time)
            now = TableSnapshot.load(str(table))
            # With no completed write left, nothing says which of its files are committed.
            if time not in changes or time not in by_instant or not now.active_timeline.completed_writes():
                continue
            entries = entries_of(context_of(now, HoodieBackedTableMetadata.open(now)), "partition_stats", changes[time])
            mine, theirs = made_rows(entries), by_instant[time]
            assert mine.keys() == theirs.keys()
            assert not len(entries.deleted_keys)
            for key, row in theirs.items():
                if mine[key] == row:
                    counts[version, "equal"] += 1
                    continue
                # Hudi counts the files of groups that a clustering has replaced. Where the ranges go on from such a
                # record of Hudi, they count them too, and Hudi's next record does not.
                is_wider = any(time >= one for one in clusterings) and (
                    mine[key]["value_count"] < row["value_count"] or mine[key] == last_before(by_instant, time, key)
                )
                assert is_wider or (path.name, time) == PARTIAL, (path, time)
                counts[version, "wider"] += 1
    assert counts[8, "equal"] > 50
    assert counts[9, "equal"] > 150
    assert counts[9, "wider"] + counts[8, "wider"] < 100


@pytest.mark.parametrize("name", ["hudi-v8-table-mor", "hudi-v8-table-maintenance", "hudi-v9-table-mor"])
def test_a_clean_deletes_the_statistics_that_hudi_deletes(shared_tables: Path, name: str) -> None:
    (folder,) = shared_tables.glob(f"*/{name}/.hoodie")
    table = TableSnapshot.load(str(folder.parent))
    timeline = table.active_timeline
    (instant,) = timeline.filter_actions(Action.CLEAN).filter_completed_instants()
    clean = timeline.read_as(instant, HoodieCleanMetadata)
    context = context_of(table)
    records = indexer_of("column_stats", table.table_config.table_version).of_clean(
        context, clean, instant.requested_time
    )
    assert isinstance(records, EntriesOnDriver)
    theirs = set()
    for path in (Path(table.meta_path) / "metadata/column_stats").glob(f".col-stats-*_{instant.requested_time}.log.*"):
        for block in read_log_blocks(path.read_bytes(), str(path)):
            if block.block_type is HoodieLogBlockType.DELETE:
                theirs |= {key for part in decode_delete_block(block) for key in part.record_keys.to_pylist()}
    assert theirs
    assert set(records.entries.deleted_keys.to_pylist()) == theirs
    assert not len(records.entries.keys)
