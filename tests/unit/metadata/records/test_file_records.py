"""Records of the partition files, as real Hudi made them of the same actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.avro.service_metadata import HoodieCleanMetadata, HoodieCleanPartitionMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata, HoodieRollbackPartitionMetadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException
from hoodie.metadata.records.file_listing import FILE_LISTING, listing_of, partitions_of
from hoodie.metadata.records.file_records import (
    bootstrap_files_entries,
    clean_files_entries,
    commit_files_entries,
    rollback_files_entries,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_record_schema import metadata_record_schema, with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from tests.support.metadata_table_files import StoredRecords

Files = dict[str, tuple[int, dict[str, tuple[int, bool]]]]
COMMITS = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)


def shown(keys: pa.Array, rows: pa.RecordBatch) -> Files:
    """Key -> type, and name -> size and whether it is deleted."""
    return {
        key: (row["type"], {name: (info["size_bytes"], info["is_deleted"]) for name, info in row["files"]})
        for key, row in zip(keys.to_pylist(), rows.to_pylist(), strict=True)
    }


def made(entries: MetadataEntries) -> Files:
    """The records, through their bytes."""
    schema = with_meta_columns(metadata_record_schema(6))
    keys, values = entries.encoded(schema)
    assert keys.to_pylist() == sorted(keys.to_pylist(), key=str.encode)
    assert len(set(keys.to_pylist())) == len(keys)
    return shown(keys, decode_values(values, schema, MetadataPayload.FILES))


def listing(**partitions: dict[str, int]) -> pa.Table:
    rows = [
        {"partition_path": path.replace("root", ""), "file_name": name, "size_bytes": size, "is_deleted": False}
        for path, files in partitions.items()
        for name, size in files.items()
    ]
    return pa.Table.from_pylist(rows, schema=FILE_LISTING)


def stat(path: str, size: int, **more: Any) -> HoodieWriteStat:
    return HoodieWriteStat("f", path.rpartition("/")[0], path, file_size_bytes=size, **more)


def test_records_of_actions_are_those_that_real_hudi_wrote(real_records: list[StoredRecords]) -> None:
    snapshots: dict[Path, TableSnapshot] = {}
    counts: dict[tuple[int, Action], int] = {}
    for records in real_records:
        if records.partition != "files" or records.instant_time is None:
            continue
        if records.table not in snapshots:
            snapshots[records.table] = TableSnapshot.load(str(records.table))
        timeline = snapshots[records.table].active_timeline
        done = [i for i in timeline.instants if i.requested_time == records.instant_time and i.is_completed]
        if not done:
            continue
        action = done[0].action.completed_action
        if action in COMMITS:
            entries = commit_files_entries(timeline.read_commit_metadata(done[0]))
        elif action is Action.CLEAN:
            entries = clean_files_entries(timeline.read_as(done[0], HoodieCleanMetadata))
        else:
            raise AssertionError(done[0])
        rows = decode_values(records.values, records.schema, MetadataPayload.FILES)
        assert made(entries) == shown(records.keys, rows), done[0]
        counts[records.table_version, action] = counts.get((records.table_version, action), 0) + 1
    assert sum(counts.values()) > 80
    assert {action for _, action in counts} == {*COMMITS, Action.CLEAN}
    assert {version for version, _ in counts} == {6, 8, 9}


def test_a_commit_lists_partitions_and_files_with_change_data() -> None:
    metadata = HoodieCommitMetadata(
        {
            "a": (
                HoodieWriteStat("g", "a"),
                stat("a/x.parquet", 5, cdc_stats={"a/.y.log.1_0-0-0.cdc": 9}),
                stat("a/.z.log.1_0-0-0", 3),
                stat("a/.z.log.1_0-0-0", 7),
            ),
            "b": (),
        }
    )
    assert made(commit_files_entries(metadata)) == {
        "__all_partitions__": (1, {"a": (0, False), "b": (0, False)}),
        "a": (2, {"x.parquet": (5, False), ".y.log.1_0-0-0.cdc": (9, False), ".z.log.1_0-0-0": (7, False)}),
    }


def test_a_table_without_partitions_has_a_name_for_its_folder() -> None:
    found = made(commit_files_entries(HoodieCommitMetadata({"": (stat("x.parquet", 5),)})))
    assert found == {"__all_partitions__": (1, {".": (0, False)}), ".": (2, {"x.parquet": (5, False)})}


def test_a_commit_that_wrote_nothing_has_an_empty_record() -> None:
    assert made(commit_files_entries(HoodieCommitMetadata())) == {"__all_partitions__": (1, {})}


def test_a_file_without_a_size_is_refused() -> None:
    metadata = HoodieCommitMetadata({"a": (stat("a/x.parquet", 0),)})
    with pytest.raises(HoodieCommitException, match=r"record a/x\.parquet .* its size is said to be 0 bytes"):
        commit_files_entries(metadata)
    with pytest.raises(HoodieCommitException, match=r"record x\.parquet .* its size is said to be -1 bytes"):
        bootstrap_files_entries(listing(root={"y.parquet": 3, "x.parquet": -1}), [""])


def test_a_clean_lists_what_it_deleted() -> None:
    def cleaned(path: str, *, gone: bool) -> HoodieCleanPartitionMetadata:
        return HoodieCleanPartitionMetadata(
            path, "KEEP_LATEST_COMMITS", ("x", "y"), ("x",), ("y",), is_partition_deleted=gone
        )

    metadata = HoodieCleanMetadata("5", 1, 2, "", "", {"a": cleaned("a", gone=False)})
    assert made(clean_files_entries(metadata)) == {"a": (2, {"x": (0, True)})}
    metadata = HoodieCleanMetadata("5", 1, 2, "", "", {"": cleaned("", gone=True)})
    assert made(clean_files_entries(metadata)) == {
        "__all_partitions__": (1, {".": (0, True)}),
        ".": (2, {"x": (0, True)}),
    }
    assert clean_files_entries(HoodieCleanMetadata("5", 1, 0, "", "")).is_empty


def test_a_rollback_lists_log_files_that_it_wrote_and_appended_to() -> None:
    changed = HoodieRollbackPartitionMetadata(
        "a", ("/t/a/x.parquet",), (), {"file:/t/a/.f_1.log.2_1-0-1": 105}, {"file:/t/a/.f_1.log.1_1-0-1": 900}
    )
    untouched = HoodieRollbackPartitionMetadata("b", ("/t/b/x.parquet",), (), {}, {"file:/t/b/.f_1.log.1_1-0-1": 900})
    metadata = HoodieRollbackMetadata("5", 1, 1, ("4",), {"a": changed, "b": untouched})
    assert made(rollback_files_entries(metadata)) == {
        "a": (2, {".f_1.log.2_1-0-1": (105, False), ".f_1.log.1_1-0-1": (900, False)})
    }


def test_a_new_metadata_table_lists_everything() -> None:
    stored = listing(a={"x": 1, "y": 2}, root={"z": 3}, b={"x": 4})
    entries = bootstrap_files_entries(stored, ["a", "", "b", "empty"])
    assert made(entries) == {
        "__all_partitions__": (1, {name: (0, False) for name in ("a", ".", "b", "empty")}),
        "a": (2, {"x": (1, False), "y": (2, False)}), ".": (2, {"z": (3, False)}), "b": (2, {"x": (4, False)}),
    }  # fmt: skip
    found = listing_of(entries.keys, entries.rows)
    assert sorted(found.to_pylist(), key=str) == sorted(stored.to_pylist(), key=str)
    assert partitions_of(entries.keys, entries.rows) == ["a", "", "b", "empty"]
    assert partitions_of(entries.keys.slice(1), entries.rows.slice(1)) == []
