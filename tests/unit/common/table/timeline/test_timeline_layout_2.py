"""Timelines of layout 2: names, contents, and instants that several files stand for."""

from __future__ import annotations

import io
import json
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import avro.datafile
import avro.io
import pytest

from hoodie.avro.service_metadata import HoodieRestorePlan
from hoodie.avro.timeline_metadata import HoodieInstantInfo, schema_of
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat, RuntimeStats
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import TimelineLayoutV2, timeline_layout
from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.local_storage import LocalStorage
from tests.support.later_version import STAT_FIELDS, avro_commit, commit_schema

R, C = "20250126040823628", "20250126040825104"
LAYOUT = timeline_layout(2)
REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED
STAT: dict[str, Any] = {
    **dict.fromkeys(STAT_FIELDS),
    "fileId": "f", "path": "p/f_0-0-0_1.parquet", "prevCommit": "null", "numWrites": 3, "fileSizeInBytes": 7,
    "partitionPath": "p",
}  # fmt: skip
COMMIT: dict[str, Any] = {
    "partitionToWriteStats": {"p": [STAT]},
    "compacted": None,
    "extraMetadata": {"schema": "s"},
    "operationType": "UPSERT",
}


def load(path: Path, layout: TimelineLayoutV2 | None = None) -> HoodieActiveTimeline:
    return HoodieActiveTimeline.load(LocalStorage(str(path)), str(path), layout or LAYOUT)


def touch(path: Path, *names: str, content: bytes = b"") -> None:
    (path / "timeline").mkdir(exist_ok=True)
    for name in names:
        (path / "timeline" / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        (f"{R}.commit.requested", Action.COMMIT, REQUESTED),
        (f"{R}.inflight", Action.COMMIT, INFLIGHT),
        (f"{R}_{C}.commit", Action.COMMIT, COMPLETED),
        (f"{R}.deltacommit.requested", Action.DELTA_COMMIT, REQUESTED),
        (f"{R}.deltacommit.inflight", Action.DELTA_COMMIT, INFLIGHT),
        (f"{R}_{C}.deltacommit", Action.DELTA_COMMIT, COMPLETED),
        (f"{R}.replacecommit.requested", Action.REPLACE_COMMIT, REQUESTED),
        (f"{R}.replacecommit.inflight", Action.REPLACE_COMMIT, INFLIGHT),
        (f"{R}_{C}.replacecommit", Action.REPLACE_COMMIT, COMPLETED),
        (f"{R}.clustering.requested", Action.CLUSTERING, REQUESTED),
        (f"{R}.clustering.inflight", Action.CLUSTERING, INFLIGHT),
        (f"{R}.compaction.requested", Action.COMPACTION, REQUESTED),
        (f"{R}.compaction.inflight", Action.COMPACTION, INFLIGHT),
        (f"{R}.logcompaction.requested", Action.LOG_COMPACTION, REQUESTED),
        (f"{R}.logcompaction.inflight", Action.LOG_COMPACTION, INFLIGHT),
        (f"{R}.clean.requested", Action.CLEAN, REQUESTED),
        (f"{R}.clean.inflight", Action.CLEAN, INFLIGHT),
        (f"{R}_{C}.clean", Action.CLEAN, COMPLETED),
        (f"{R}.rollback.inflight", Action.ROLLBACK, INFLIGHT),
        (f"{R}_{C}.rollback", Action.ROLLBACK, COMPLETED),
        (f"{R}.restore.requested", Action.RESTORE, REQUESTED),
        (f"{R}_{C}.restore", Action.RESTORE, COMPLETED),
        (f"{R}.savepoint.inflight", Action.SAVEPOINT, INFLIGHT),
        (f"{R}_{C}.savepoint", Action.SAVEPOINT, COMPLETED),
        (f"{R}.indexing.requested", Action.INDEXING, REQUESTED),
        (f"{R}_{C}.indexing", Action.INDEXING, COMPLETED),
    ],
)
def test_file_names_and_instants_stand_for_each_other(name: str, action: Action, state: State) -> None:
    instant = HoodieInstant(R, action, state, C if state is COMPLETED else None)
    assert LAYOUT.parse_file_name(name) == instant
    assert LAYOUT.name_of(instant) == name


@pytest.mark.parametrize(
    "name",
    [
        "history", "hoodie.properties", R, f"{R}_{C}", f"{R}.", f"{R}_.commit", f"_{C}.commit", f"{R}_{C}.clustering",
        f"{R}_{C}.compaction", f"{R}_{C}.commit.requested", f"{R}_{C}.inflight", f"{R}_{C}_{C}.commit",
        f"{R}.savepoint.requested", f"{R}.commit.inflight", f".{R}_{C}.commit.crc", f"x{R}_{C}.commit",
        f"{R}_{C}.commit.bak",
    ],
)  # fmt: skip
def test_other_names_are_no_instants(name: str) -> None:
    assert LAYOUT.parse_file_name(name) is None


@pytest.mark.parametrize(
    ("action", "completed"),
    [(Action.COMPACTION, "commit"), (Action.LOG_COMPACTION, "deltacommit"), (Action.CLUSTERING, "replacecommit")],
)
def test_services_complete_as_other_actions(action: Action, completed: str) -> None:
    assert LAYOUT.file_name(R, action, COMPLETED, C) == f"{R}_{C}.{completed}"


def test_nobody_makes_up_a_completion_time() -> None:
    with pytest.raises(ValueError, match="needs a completion time"):
        LAYOUT.file_name(R, Action.COMMIT, COMPLETED)


def test_the_timeline_is_in_a_folder_that_the_table_names(tmp_path: Path) -> None:
    assert LAYOUT.active_path("/t/.hoodie") == "/t/.hoodie/timeline"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / f"{R}_{C}.commit").write_bytes(b"{}")
    (tmp_path / f"{R}.commit").write_bytes(b"{}")
    assert [i.completion_time for i in load(tmp_path, TimelineLayoutV2("other"))] == [C]


def test_a_completed_file_of_an_early_release_counts_as_completed_when_it_was_changed(tmp_path: Path) -> None:
    touch(tmp_path, f"{R}.commit", content=json.dumps(COMMIT).encode())
    os.utime(tmp_path / "timeline" / f"{R}.commit", (1_737_864_600, 1_737_864_600))
    (instant,) = load(tmp_path)
    assert instant == HoodieInstant(R, Action.COMMIT, COMPLETED, "20250126041000000", True)
    timeline = load(tmp_path)
    assert timeline.path_of(instant) == str(tmp_path / "timeline" / f"{R}.commit")
    assert [stat.file_id for stat in timeline.read_commit_metadata(instant).write_stats] == ["f"]


def test_an_instant_that_was_completed_twice_has_the_later_time(tmp_path: Path) -> None:
    later = "20250126040826000"
    touch(tmp_path, f"{R}.clean.requested", f"{R}_{C}.clean", f"{R}_{later}.clean", f"{R}.clean.inflight")
    assert list(load(tmp_path)) == [HoodieInstant(R, Action.CLEAN, COMPLETED, later)]


def test_a_savepoint_is_beside_the_commit_that_it_saves(tmp_path: Path) -> None:
    touch(tmp_path, f"{R}.commit.requested", f"{R}.inflight", f"{R}_{C}.commit", f"{R}_{C}9.savepoint")
    timeline = load(tmp_path)
    assert [(i.action, i.completion_time) for i in timeline] == [(Action.COMMIT, C), (Action.SAVEPOINT, f"{C}9")]
    assert timeline.savepoint_times == {R}


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.CLUSTERING, Action.COMPACTION])
def test_an_inflight_file_may_be_empty(tmp_path: Path, action: Action, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(seconds: float) -> None:
        raise AssertionError("it is whole")

    monkeypatch.setattr(time, "sleep", wait)
    touch(tmp_path, f"{R}.{action}.requested", f"{R}.{action}.inflight", f".{R}.{action}.inflight.crc")
    timeline = load(tmp_path)
    (instant,) = timeline
    assert timeline.read_details(instant) == b""


# --- which files count ------------------------------------------------------------------------------------------------


def test_nothing_after_a_pending_instant_was_archived(tmp_path: Path) -> None:
    """What is older than the first completed commit, and newer than a pending one, was rolled back, not archived."""
    times = [f"{number:017d}" for number in range(10, 60, 10)]
    touch(tmp_path, f"{times[1]}.commit.requested", f"{times[3]}_{times[4]}.commit")
    visible = load(tmp_path).visible_instants
    assert [visible.is_committed(time) for time in times] == [True, False, False, True, False]


def test_a_pending_clustering_hides_its_files(tmp_path: Path) -> None:
    times = [f"{number:017d}" for number in (10, 20, 30)]
    touch(
        tmp_path, f"{times[0]}_{times[0]}1.commit", f"{times[1]}.clustering.requested", f"{times[2]}_{times[2]}1.commit"
    )
    visible = load(tmp_path).visible_instants
    assert [visible.is_committed(time) for time in times] == [True, False, True]


# --- contents -----------------------------------------------------------------------------------------------------


def test_commit_metadata_is_avro_in_any_schema_of_its_writer() -> None:
    whole = LAYOUT.decode(avro_commit(COMMIT), HoodieCommitMetadata, "a commit")
    (stat,) = whole.write_stats
    assert (stat.file_id, stat.partition_path, stat.num_writes, stat.file_size_bytes) == ("f", "p", 3, 7)
    assert (whole.operation_type, whole.schema, whole.compacted) == (WriteOperationType.UPSERT, "s", False)
    reduced = commit_schema(False, {"fileId": "string", "path": "string", "aNewField": "long"})
    written = {**COMMIT, "partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/x", "aNewField": 5}]}}
    (stat,) = LAYOUT.decode(avro_commit(written, schema=reduced), HoodieCommitMetadata, "a commit").write_stats
    assert (stat.file_id, stat.path, stat.partition_path, stat.num_writes) == ("f", "p/x", "p", 0)
    less = {**commit_schema(False), "fields": commit_schema(False)["fields"][:1]}
    less["fields"].append({"name": "version", "type": ["int", "null"], "default": 1})
    assert LAYOUT.decode(avro_commit(COMMIT, schema=less), HoodieCommitMetadata, "x").extra_metadata == {}


def test_what_a_replacecommit_replaced_is_read_and_must_be_there() -> None:
    data = avro_commit({**COMMIT, "partitionToReplaceFileIds": {"p": ["g"]}}, replaces=True)
    assert LAYOUT.decode(data, HoodieReplaceCommitMetadata, "x").replaced_file_groups == (("p", "g"),)
    assert LAYOUT.decode(data, HoodieCommitMetadata, "x").replaced_file_groups == ()
    with pytest.raises(
        HoodieCorruptedDataException, match="it holds a org.apache.hudi.avro.model.HoodieCommitMetadata"
    ):
        LAYOUT.decode(avro_commit(COMMIT), HoodieReplaceCommitMetadata, "a replacecommit")


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: data[:40]])
def test_damaged_metadata_is_refused_with_its_name(damage: Any) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="a commit"):
        LAYOUT.decode(damage(avro_commit(COMMIT)), HoodieCommitMetadata, "a commit")


def test_a_path_outside_of_the_table_is_refused() -> None:
    evil = {**COMMIT, "partitionToWriteStats": {"p": [{**STAT, "path": "../x"}]}}
    with pytest.raises(HoodieCorruptedDataException, match=r"\.\./x"):
        LAYOUT.decode(avro_commit(evil), HoodieCommitMetadata, "a commit")


def test_the_profile_of_a_pending_replacecommit_is_that_of_any_commit(tmp_path: Path) -> None:
    touch(tmp_path, f"{R}.replacecommit.requested")
    touch(tmp_path, f"{R}.replacecommit.inflight", content=avro_commit(COMMIT))
    timeline = load(tmp_path)
    assert [stat.file_id for stat in timeline.read_commit_metadata(timeline.instants[0]).write_stats] == ["f"]


def test_plans_are_those_of_layout_1() -> None:
    plan = HoodieRestorePlan((HoodieInstantInfo(R, "commit"),), R)
    assert LAYOUT.decode(LAYOUT.encode(plan), HoodieRestorePlan, "a plan") == plan


def test_commit_metadata_is_read_as_it_was_written() -> None:
    stat = HoodieWriteStat(
        "f", "p", "p/f_1-0-1_2.parquet", "1", 5, 1, 2, 3, 400, 1, file_size_bytes=400, prev_base_file="f_1.parquet",
        min_event_time=-1, max_event_time=2**40, runtime_stats=RuntimeStats(1, 2, 3),
    )  # fmt: skip
    commit = HoodieCommitMetadata({"p": (stat,), "": ()}, {"schema": "{}", "é": "ü"}, WriteOperationType.UPSERT, True)
    assert LAYOUT.decode(LAYOUT.encode(commit), HoodieCommitMetadata, "a commit") == commit
    replace = HoodieReplaceCommitMetadata({"p": (stat,)}, partition_to_replace_file_ids={"p": ("g", "h")})
    assert LAYOUT.decode(LAYOUT.encode(replace), HoodieReplaceCommitMetadata, "a commit") == replace


@pytest.mark.parametrize("version", [8, 9])
def test_commit_metadata_has_the_schema_of_real_hudi(version: int) -> None:
    with zipfile.ZipFile(f"tests/data/hudi_trips_v{version}.zip") as table:
        names = [name for name in table.namelist() if re.search(r"/timeline/\d+_\d+\.(commit|replacecommit)$", name)]
        for name in names:
            with avro.datafile.DataFileReader(io.BytesIO(table.read(name)), avro.io.DatumReader()) as theirs:
                written = json.loads(theirs.get_meta("avro.schema") or "")
                (record,) = theirs
            # Hudi's schemas say "default" inside of maps and arrays too, where it means nothing.
            assert _without_notes(written) == _without_notes(schema_of(written["name"], layout=2))
            is_replace = name.endswith(".replacecommit")
            decoded = LAYOUT.decode(
                table.read(name), HoodieReplaceCommitMetadata if is_replace else HoodieCommitMetadata, name
            )
            assert decoded.to_avro_value() == record
    assert names


def _without_notes(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_notes(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"doc"} | ({"default"} if schema.get("type") in ("map", "array") else set())
    return {key: _without_notes(value) for key, value in schema.items() if key not in left_out}


# --- tables of others ---------------------------------------------------------------------------------------------


def test_all_timeline_files_of_real_tables_are_known_and_read(later_tables: Path) -> None:
    count = 0
    for folder in sorted(later_tables.rglob(".hoodie/timeline")):
        if not any(file.is_file() for file in folder.iterdir()):
            # Of a table that was downgraded.
            continue
        timeline = load(folder.parent)
        for file in folder.iterdir():
            assert file.name == "history" or LAYOUT.parse_file_name(file.name) is not None, file
        for instant in timeline.completed_writes():
            assert instant.completion_time is not None and instant.completion_time > instant.requested_time
            timeline.read_commit_metadata(instant)
            count += 1
    assert count > 200
