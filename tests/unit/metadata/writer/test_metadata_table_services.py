"""Compactions of metadata tables that real Hudi wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata import validate
from hoodie.metadata.reader.metadata_record_reader import SliceQuery, read_records
from hoodie.metadata.writer.metadata_table_services import MetadataTableCompactor
from tests.support.metadata_tampering import copied, tables_with_metadata

AT_ONCE = HoodieMetadataConfig(compact_max_delta_commits=1)
Records = dict[str, dict[str, Any]]


def opened(table: Path) -> HoodieBackedTableMetadata:
    return HoodieBackedTableMetadata.open(TableSnapshot.load(str(table)))


def records_of(metadata: HoodieBackedTableMetadata) -> Records:
    """All live records: partition to key to row."""
    found: Records = {}
    for partition in metadata.partitions:
        payload = metadata.payload_of(partition)
        slices = [part for parts in metadata.files.file_groups(partition).values() for part in parts]
        found[partition] = {}
        for records in read_records(metadata.files, payload, list(map(SliceQuery, slices))):
            found[partition].update(zip(records.keys.to_pylist(), records.rows.to_pylist(), strict=True))
    return found


def test_compacted(shared_tables: Path, later_tables: Path, tmp_path: Path) -> None:
    for number, source in enumerate(tables_with_metadata(shared_tables, later_tables)):
        table = copied(source, tmp_path / str(number))
        metadata = opened(table)
        before = records_of(metadata)
        from hoodie.metadata.writer.compaction_planning import held_back_by, delta_commits_to_compact
        tl = metadata.files.snapshot.active_timeline
        print(table.name, metadata.table.table_config.table_version, len(delta_commits_to_compact(metadata.files)), held_back_by(metadata.files), tl.filter_actions(Action.COMPACTION).filter_pending().instants)
        old = validate(str(table))
        done = MetadataTableCompactor(metadata, AT_ONCE).compact_if_due()
        after = records_of(opened(table))
        assert after == before, table
        assert records_of(HoodieBackedTableMetadata.open(metadata.table)) == before
        new = validate(str(table))
        print("    ", done, old.is_right, new.is_right, sum(map(len,before.values())))
        assert [str(d) for d in new.differences] == [str(d) for d in old.differences]
        assert not MetadataTableCompactor(opened(table), AT_ONCE).compact_if_due()
