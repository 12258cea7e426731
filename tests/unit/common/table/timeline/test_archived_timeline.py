"""Archived timelines: those of real tables, and what is made of damaged files."""

from __future__ import annotations

import io
import json
import logging
import shutil
import struct
from pathlib import Path

import pytest
from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.storage.storage_factory import open_storage

ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": name, "type": ["null", "string"]} for name in ("commitTime", "actionType", "actionState", "more")
    ],
}
FIRST, SECOND = ".commits_.archive.1_1-0-1", ".commits_.archive.2_1-0-1"


@pytest.fixture
def table(shared_tables: Path, tmp_path: Path) -> Path:
    """The only real table of version 6 with an archive, to be changed."""
    shutil.copytree(shared_tables / "hudi-v6-table-mor" / "hudi-v6-table-mor" / ".hoodie", tmp_path / "t" / ".hoodie")
    return tmp_path / "t"


def load(table: Path) -> HoodieArchivedTimeline:
    return HoodieArchivedTimeline.load(open_storage(str(table)), f"{table}/.hoodie", "archived", timeline_layout(1))


def archive(table: Path, name: str, *entries: tuple[str | None, str | None, str | None], more: str = "") -> None:
    """Write an archive file with one block per entry (time, action, state)."""
    blocks = []
    for entry in entries:
        buffer = io.BytesIO()
        record = dict(zip(("commitTime", "actionType", "actionState", "more"), (*entry, more), strict=True))
        DatumWriter(parse(json.dumps(ENTRY))).write(record, BinaryEncoder(buffer))
        datum = buffer.getvalue()
        schema = json.dumps(ENTRY).encode()
        content = struct.pack(">iii", 3, 1, len(datum)) + datum
        body = struct.pack(">iiiii", 1, 3, 1, 2, len(schema)) + schema
        body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
        size = len(body) + 8
        blocks.append(b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6))
    folder = table / ".hoodie" / "archived"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(blocks))


def test_the_archive_of_a_real_table_has_each_instant_once_in_its_highest_state(table: Path) -> None:
    timeline = load(table)
    assert list(timeline) == [
        HoodieInstant("20250922132126575", Action.DELTA_COMMIT, State.COMPLETED),
        HoodieInstant("20250922132143658", Action.DELTA_COMMIT, State.COMPLETED),
        HoodieInstant("20250922132146183", Action.DELTA_COMMIT, State.COMPLETED),
        HoodieInstant("20250922132149538", Action.COMMIT, State.COMPLETED),
        HoodieInstant("20250922132151286", Action.REPLACE_COMMIT, State.COMPLETED),
    ]
    assert len(timeline.filter_completed_instants()) == 5


def test_what_archived_instants_wrote_can_be_read(table: Path) -> None:
    timeline = load(table)
    insert, _, _, compaction, clustering = (timeline.read_commit_metadata(instant) for instant in timeline)
    assert insert.operation_type is WriteOperationType.INSERT
    assert insert.total_records_written == 5
    assert not insert.compacted
    assert list(insert.extra_metadata) == ["schema"]
    assert insert.schema is not None and json.loads(insert.schema)["type"] == "record"
    assert {stat.partition_path for stat in insert.write_stats} == set(insert.partition_to_write_stats)
    assert compaction.operation_type is WriteOperationType.COMPACT
    assert compaction.compacted
    assert isinstance(clustering, HoodieReplaceCommitMetadata)
    assert clustering.operation_type is WriteOperationType.CLUSTER
    assert clustering.partition_to_replace_file_ids
    assert all(
        path.startswith(f"{stat.partition_path}/") and stat.file_id in path
        for stat in clustering.write_stats
        if (path := stat.path) is not None
    )


def test_the_whole_entry_can_be_read(table: Path) -> None:
    timeline = load(table)
    entry = timeline.read_entry(timeline.instants[0])
    assert entry["commitTime"] == "20250922132126575"
    assert entry["actionState"] == "COMPLETED"
    assert entry["stateTransitionTime"] > entry["commitTime"]


def test_a_table_that_was_never_archived_has_an_empty_archive(tmp_path: Path) -> None:
    assert len(load(tmp_path)) == 0


def test_files_are_read_in_the_order_of_their_numbers_and_strangers_left_alone(tmp_path: Path) -> None:
    archive(tmp_path, ".commits_.archive.10_1-0-1", ("1", "commit", "COMPLETED"), ("2", "compaction", "INFLIGHT"))
    archive(tmp_path, ".commits_.archive.9_1-0-1", ("1", "commit", "REQUESTED"), ("2", "compaction", "REQUESTED"))
    archive(tmp_path, "..commits_.archive.9_1-0-1.crc", ("3", "commit", "REQUESTED"))
    (tmp_path / ".hoodie" / "archived" / "mergeArchivePlan").write_bytes(b"x")
    assert list(load(tmp_path)) == [
        HoodieInstant("1", Action.COMMIT, State.COMPLETED),
        HoodieInstant("2", Action.COMPACTION, State.INFLIGHT),
    ]


def test_of_two_entries_for_one_state_that_of_the_later_file_counts(tmp_path: Path) -> None:
    archive(tmp_path, ".commits_.archive.10_1-0-1", ("1", "commit", "COMPLETED"), more="ten")
    archive(tmp_path, ".commits_.archive.9_1-0-1", ("1", "commit", "COMPLETED"), more="nine")
    timeline = load(tmp_path)
    assert timeline.read_entry(timeline.instants[0])["more"] == "ten"


def test_a_compaction_is_the_commit_that_completed_it(tmp_path: Path) -> None:
    archive(tmp_path, FIRST, ("2", "compaction", "REQUESTED"), ("2", "commit", "COMPLETED"), ("2", "clean", None))
    assert list(load(tmp_path)) == [
        HoodieInstant("2", Action.CLEAN, State.COMPLETED),
        HoodieInstant("2", Action.COMMIT, State.COMPLETED),
    ]


def test_an_instant_without_commit_metadata_says_so(tmp_path: Path) -> None:
    archive(tmp_path, FIRST, ("1", "clean", "COMPLETED"), ("2", "commit", "REQUESTED"))
    timeline = load(tmp_path)
    with pytest.raises(HoodieException, match="an action clean has none"):
        timeline.read_commit_metadata(timeline.instants[0])
    assert timeline.read_commit_metadata(timeline.instants[1]) == HoodieCommitMetadata()
    with pytest.raises(HoodieIOException, match="not in the archive"):
        timeline.read_commit_metadata(HoodieInstant("3", Action.COMMIT, State.COMPLETED))


def test_an_action_of_a_newer_hudi_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive(tmp_path, FIRST, ("1", "teleport", "COMPLETED"), ("2", "commit", "COMPLETED"))
    with caplog.at_level(logging.WARNING):
        assert [instant.requested_time for instant in load(tmp_path)] == ["2"]
    assert "teleport" in caplog.text and FIRST in caplog.text


def test_a_torn_file_keeps_its_whole_blocks_and_is_named(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = table / ".hoodie" / "archived" / SECOND
    path.write_bytes(path.read_bytes()[:-30])
    with caplog.at_level(logging.WARNING):
        timeline = load(table)
    assert str(path) in caplog.text
    assert [instant.requested_time for instant in timeline][:4] == [
        "20250922132126575",
        "20250922132143658",
        "20250922132146183",
        "20250922132149538",
    ]


def test_an_empty_file_holds_nothing(table: Path) -> None:
    (table / ".hoodie" / "archived" / SECOND).write_bytes(b"")
    assert 0 < len(load(table)) < 5


@pytest.mark.parametrize("entry", [(None, "commit", "COMPLETED"), ("1", None, "COMPLETED")])
def test_an_entry_that_names_no_instant_is_refused_by_file(tmp_path: Path, entry: tuple[str | None, ...]) -> None:
    archive(tmp_path, FIRST, (entry[0], entry[1], entry[2]))
    with pytest.raises(HoodieCorruptedDataException, match=r"\.commits_\.archive\.1_1-0-1"):
        load(tmp_path)


def test_a_file_that_is_no_archive_and_damaged_records_are_refused_by_name(table: Path) -> None:
    path = table / ".hoodie" / "archived" / FIRST
    data = path.read_bytes()
    path.write_bytes(b"rubbish" * 10)
    with pytest.raises(HoodieCorruptedDataException, match=r"archived/\.commits_\.archive\.1_1-0-1"):
        load(table)
    position = data.index(b'"type"')
    path.write_bytes(data[:position] + b'"tope"' + data[position + 6 :])
    with pytest.raises(HoodieCorruptedDataException, match=r"archived/\.commits_\.archive\.1_1-0-1"):
        load(table)
