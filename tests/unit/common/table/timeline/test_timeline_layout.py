from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hoodie.avro.service_metadata import HoodieRestoreMetadata, HoodieRestorePlan
from hoodie.avro.timeline_metadata import HoodieInstantInfo, HoodieRollbackMetadata, HoodieRollbackPlan
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline import timeline_layout as timeline_layout_module
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException

TIME = "20250126040823628"
LAYOUT = timeline_layout(1)
REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED


@pytest.mark.parametrize(
    ("suffix", "action", "state"),
    [
        ("commit.requested", Action.COMMIT, REQUESTED),
        ("inflight", Action.COMMIT, INFLIGHT),
        ("commit", Action.COMMIT, COMPLETED),
        ("deltacommit.requested", Action.DELTA_COMMIT, REQUESTED),
        ("deltacommit.inflight", Action.DELTA_COMMIT, INFLIGHT),
        ("deltacommit", Action.DELTA_COMMIT, COMPLETED),
        ("replacecommit.requested", Action.REPLACE_COMMIT, REQUESTED),
        ("replacecommit.inflight", Action.REPLACE_COMMIT, INFLIGHT),
        ("replacecommit", Action.REPLACE_COMMIT, COMPLETED),
        ("compaction.requested", Action.COMPACTION, REQUESTED),
        ("compaction.inflight", Action.COMPACTION, INFLIGHT),
        ("logcompaction.requested", Action.LOG_COMPACTION, REQUESTED),
        ("logcompaction.inflight", Action.LOG_COMPACTION, INFLIGHT),
        ("clean.requested", Action.CLEAN, REQUESTED),
        ("clean.inflight", Action.CLEAN, INFLIGHT),
        ("clean", Action.CLEAN, COMPLETED),
        ("rollback.requested", Action.ROLLBACK, REQUESTED),
        ("rollback.inflight", Action.ROLLBACK, INFLIGHT),
        ("rollback", Action.ROLLBACK, COMPLETED),
        ("savepoint.inflight", Action.SAVEPOINT, INFLIGHT),
        ("savepoint", Action.SAVEPOINT, COMPLETED),
        ("restore.requested", Action.RESTORE, REQUESTED),
        ("restore.inflight", Action.RESTORE, INFLIGHT),
        ("restore", Action.RESTORE, COMPLETED),
        ("indexing.requested", Action.INDEXING, REQUESTED),
        ("indexing.inflight", Action.INDEXING, INFLIGHT),
        ("indexing", Action.INDEXING, COMPLETED),
        ("schemacommit", Action.SCHEMA_COMMIT, COMPLETED),
    ],
)
def test_file_names_and_instants_stand_for_each_other(suffix: str, action: Action, state: State) -> None:
    assert LAYOUT.parse_file_name(f"{TIME}.{suffix}") == HoodieInstant(TIME, action, state)
    assert LAYOUT.file_name(TIME, action, state) == f"{TIME}.{suffix}"


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "archived",
        ".temp",
        f".{TIME}.commit.crc",
        f"{TIME}",
        f"{TIME}.",
        f"{TIME}.commit.completed",
        f"{TIME}.compaction",
        f"{TIME}.logcompaction",
        f"{TIME}.savepoint.requested",
        f"{TIME}.clustering.requested",
        f"{TIME}.requested",
        f"{TIME}.commit.inflight",
        f"{TIME}.commit.requested.bak",
        f"{TIME}.commit.7d1c",
        f"{TIME}_20250126040823999.commit",
        f"x{TIME}.commit",
        "\u0662\u0660.commit",
        "",
    ],
)
def test_other_names_are_no_instants(name: str) -> None:
    assert LAYOUT.parse_file_name(name) is None


def test_old_and_special_instant_times_are_instants() -> None:
    for time in ("20200101123456", "00000000000001", f"{TIME}001"):
        assert LAYOUT.parse_file_name(f"{time}.commit") == HoodieInstant(time, Action.COMMIT, COMPLETED)


def test_a_compaction_completes_as_a_commit() -> None:
    assert LAYOUT.file_name(TIME, Action.COMPACTION, COMPLETED) == f"{TIME}.commit"
    assert LAYOUT.file_name(TIME, Action.LOG_COMPACTION, COMPLETED) == f"{TIME}.deltacommit"


def test_a_savepoint_is_never_requested_and_layout_1_has_no_clustering() -> None:
    with pytest.raises(ValueError, match="savepoint"):
        LAYOUT.file_name(TIME, Action.SAVEPOINT, REQUESTED)
    with pytest.raises(ValueError, match="clustering"):
        LAYOUT.file_name(TIME, Action.CLUSTERING, INFLIGHT)


def test_all_timeline_files_of_real_tables_are_known(shared_tables: Path) -> None:
    count = 0
    for properties in shared_tables.rglob(".hoodie/hoodie.properties"):
        if b"hoodie.table.version=6" in properties.read_bytes():
            for file in properties.parent.iterdir():
                if file.name[0].isdigit():
                    assert LAYOUT.parse_file_name(file.name) is not None, file
                    count += 1
    assert count > 50


def test_commit_metadata_is_json() -> None:
    data = LAYOUT.encode(HoodieReplaceCommitMetadata(partition_to_replace_file_ids={"p": ("f",)}))
    assert data.startswith(b"{")
    replaced = LAYOUT.decode(data, HoodieReplaceCommitMetadata, "a commit")
    assert replaced.partition_to_replace_file_ids == {"p": ("f",)}
    assert type(LAYOUT.decode(data, HoodieCommitMetadata, "a commit")) is HoodieCommitMetadata
    with pytest.raises(HoodieCorruptedDataException, match="a commit"):
        LAYOUT.decode(data[:-5], HoodieCommitMetadata, "a commit")


def test_plans_and_metadata_of_other_actions_are_avro() -> None:
    info = HoodieInstantInfo("20250126040823628", "commit")
    plan = HoodieRestorePlan((info,), "20250126040823000")
    data = LAYOUT.encode(plan)
    assert data.startswith(b"Obj\x01") and LAYOUT.decode(data, HoodieRestorePlan, "a plan") == plan
    rollback = HoodieRollbackMetadata("20250126040824000", 0, 1, (info.commit_time,), {}, instants_rollback=(info,))
    restored = HoodieRestoreMetadata(
        "20250126040825000", 7, (info.commit_time,), {info.commit_time: (rollback,)}, (info,)
    )
    assert LAYOUT.decode(LAYOUT.encode(restored), HoodieRestoreMetadata, "a restore") == restored
    with pytest.raises(HoodieCorruptedDataException, match="a plan"):
        LAYOUT.decode(data, HoodieRollbackPlan, "a plan")


def test_files_of_the_archive_are_told_by_their_numbers() -> None:
    name = LAYOUT.archive_file_name(12)
    assert name == ".commits_.archive.12_1-0-1" and LAYOUT.archive_file_number(name) == 12
    assert LAYOUT.archive_file_number(".commits_.archive.3") == 3
    assert [LAYOUT.archive_file_number(other) for other in (f"{name}.crc", "mergeArchivePlan", "x" + name)] == [
        None
    ] * 3


def test_an_unknown_layout_is_refused_by_property() -> None:
    with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.timeline\.layout\.version=3"):
        timeline_layout(3)


def test_nobody_else_writes_or_reads_the_contents_of_a_timeline() -> None:
    sources = Path(timeline_layout_module.__file__).parents[3]
    found = set()
    for path in sources.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "hoodie.avro.timeline_metadata":
                names = {alias.name for alias in node.names} & {"encode", "decode", "encode_record", "decode_record"}
                found |= {path.relative_to(sources).as_posix()} if names else set()
    # Entries of the archive hold what the files held.
    assert found == {"common/table/timeline/archived_entry.py"}
