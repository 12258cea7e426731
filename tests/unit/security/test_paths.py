"""Whatever the files of a table name, nothing outside of its folder is made, changed, deleted or read by it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import hoodie
from hoodie.avro.service_metadata import (
    HoodieCleanerPlan,
    HoodieCleanFileInfo,
    HoodieCleanMetadata,
    HoodieCleanPartitionMetadata,
)
from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
    encode,
    encode_record,
)
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieKeyException,
    InvalidTableException,
)
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage_path import check_inside, resolve_inside
from tests.support.services_table import ServicesTable
from tests.support.timeline_files import read_commit, write_commit

HOSTILE = ["../x.parquet", "/etc/x.parquet", "a/../../x.parquet", "s3://other/x.parquet", "x\0.parquet"]
HOSTILE += [".hoodie/hoodie.properties", ".hoodie/x.parquet"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the table that looks like a partition of it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leaves_the_data_is_refused_by_the_name_of_who_says_it(path: str) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"^the plan 1\.clean names the path"):
        resolve_inside("/data/t", path, "the plan 1.clean")


@pytest.mark.parametrize(
    "path", ["", "x/f.parquet", "a=..b/f", "..a/f", "a../f", ".hoodie_partition_metadata", "a\\..\\f"]
)
def test_other_paths_stay_what_they_are(path: str) -> None:
    assert check_inside(path) == path


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("place", ["path", "partitionPath", "partition", "replaced"])
def test_commit_metadata_that_names_other_places_is_refused(path: str, place: str) -> None:
    stat = {"fileId": "f-0", "path": "x/f.parquet", "partitionPath": "x"}
    value: dict[str, object] = {"partitionToWriteStats": {"x": [{**stat, place: path}]}}
    if place == "partition":
        value = {"partitionToWriteStats": {path: [stat]}}
    if place == "replaced":
        value = {"partitionToReplaceFileIds": {path: ["f-0"]}}
    with pytest.raises(HoodieCorruptedDataException, match=r"1\.replacecommit .*only data files are allowed"):
        HoodieReplaceCommitMetadata.from_json(json.dumps(value).encode(), "1.replacecommit")


@pytest.mark.parametrize("operation", ["read", "upsert", "clean"])
def test_a_commit_that_names_another_place_stops_who_needs_it_and_is_named(
    table: ServicesTable, operation: str
) -> None:
    time = table.upsert("a")
    metadata = read_commit(table.base_path, time)
    ((stat,),) = metadata.partition_to_write_stats.values()
    evil = attrs.evolve(stat, path="../outside/" + Path(str(stat.path)).name)
    write_commit(
        table.base_path, time, attrs.evolve(metadata, partition_to_write_stats={"x": (evil,)}, extra_metadata={})
    )
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: hoodie.read_table(str(table.base_path)),
        "upsert": lambda: table.upsert("a"),
        "clean": lambda: table.client().rollback(time),
    }
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}(_\d+)?\.commit"):
        calls[operation]()


@pytest.mark.parametrize("folder", ["../outside", "a/../../..", "/outside"])
def test_an_archive_outside_of_the_table_is_refused(table: ServicesTable, folder: str, table_version: int) -> None:
    table.upsert("a")
    file = table.base_path / ".hoodie" / "hoodie.properties"
    key, usual = ("hoodie.archivelog.folder", "archived") if table_version < 8 else ("hoodie.timeline.path", "timeline")
    file.write_text(file.read_text().replace(f"{key}={usual}", f"{key}={folder}"))
    with pytest.raises(InvalidTableException, match=key):
        table.upsert("a")


# --- plans -----------------------------------------------------------------------------------------------------------


def request(table: ServicesTable, action: Action, content: bytes) -> str:
    return table.load().active_timeline.create_new_instant_time(action, content)


def rollback_plan(instant_time: str, *paths: str, action: str = "commit") -> bytes:
    requests = (HoodieRollbackRequest("x", "", "", paths),) if paths else ()
    return encode(HoodieRollbackPlan(HoodieInstantInfo(instant_time, action), requests))


@pytest.mark.parametrize(
    "evil",
    ["{base}/../outside/{name}", "/outside/{name}", "{base}/.hoodie/{name}", "{base}/x/kept.txt", "s3://b/{name}"],
)
def test_a_rollback_plan_that_names_other_files_deletes_nothing(table: ServicesTable, outside: Path, evil: str) -> None:
    table.upsert("a")
    pending = table.leave_pending("b")
    [file] = [path for path in table.base_path.rglob("*.parquet") if pending in path.name]
    (outside / file.name).write_text("x")
    before = everything(outside)
    plan = rollback_plan(pending, str(file), evil.format(base=table.base_path, name=file.name))
    time = request(table, Action.ROLLBACK, plan)
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}\.rollback\.requested"):
        table.upsert("c")
    assert file.exists()
    assert everything(outside) == before


@pytest.mark.parametrize("instant_time", ["", ".", "../../outside", "../archived", "x", "20250101"])
def test_a_rollback_plan_of_no_instant_deletes_nothing(table: ServicesTable, outside: Path, instant_time: str) -> None:
    table.upsert("a")
    marker = table.base_path / ".hoodie" / ".temp" / "20260101000000000" / "kept"
    marker.parent.mkdir(parents=True)
    marker.write_text("x")
    time = request(table, Action.ROLLBACK, rollback_plan(instant_time))
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}\.rollback\.requested"):
        table.upsert("c")
    assert everything(outside) == {"kept.txt": b"kept"}


@pytest.mark.parametrize("restored_to", ["", "0", "../../outside", "20200101000000000"])
def test_a_restore_plan_to_no_commit_deletes_nothing(table: ServicesTable, restored_to: str) -> None:
    times = [table.upsert("a"), table.upsert("a")]
    value = {"instantsToRollback": [], "version": 2, "savepointToRestoreTimestamp": restored_to}
    time = request(table, Action.RESTORE, encode_record("HoodieRestorePlan", value))
    with pytest.raises(HoodieException, match=rf"{time}\.restore\.requested"):
        table.client().restore_to_instant(times[0])
    assert table.files() == {"x": set(times)}


@pytest.mark.parametrize("undone", [("", "commit"), ("../../outside", "commit"), ("20300101000000000", "nonsense")])
def test_a_restore_plan_that_undoes_no_instants_deletes_nothing(table: ServicesTable, undone: tuple[str, str]) -> None:
    times = [table.upsert("a"), table.upsert("a")]
    value = {
        "instantsToRollback": [{"commitTime": undone[0], "action": undone[1]}],
        "version": 2,
        "savepointToRestoreTimestamp": times[0],
    }
    time = request(table, Action.RESTORE, encode_record("HoodieRestorePlan", value))
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}\.restore\.requested"):
        table.client().restore_to_instant(times[0])
    assert table.files() == {"x": set(times)}


@pytest.mark.parametrize("partition_path", ["../outside", "/outside", "x/../../outside", ".hoodie"])
def test_a_clean_plan_that_names_other_partitions_deletes_nothing(
    table: ServicesTable, outside: Path, partition_path: str
) -> None:
    times = [table.upsert("a"), table.upsert("a")]
    [file] = [path for path in table.base_path.rglob("*.parquet") if times[0] in path.name]
    plan = HoodieCleanerPlan(None, "", "KEEP_LATEST_COMMITS", partitions_to_be_deleted=(partition_path,))
    named = {"x": (HoodieCleanFileInfo(str(file)),)}
    time = table.request_clean(attrs.evolve(plan, file_paths_to_be_deleted_per_partition=named))
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}\.clean\.requested"):
        table.client().clean()
    assert table.files() == {"x": set(times)}
    assert everything(outside) == {"kept.txt": b"kept"}


@pytest.mark.parametrize("partition_path", ["../outside", "/outside", ".hoodie"])
def test_the_report_of_a_clean_that_names_other_partitions_is_taken_for_damaged(
    table: ServicesTable, outside: Path, partition_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    times = [table.upsert("a") for _ in range(3)]
    time = table.request_clean(HoodieCleanerPlan(None, "", "KEEP_LATEST_COMMITS"))
    timeline = table.load().active_timeline
    timeline.transition_requested_to_inflight(time, Action.CLEAN)
    failed = HoodieCleanPartitionMetadata(partition_path, "KEEP_LATEST_COMMITS", (), (), ("kept.txt",))
    report = HoodieCleanMetadata(time, 1, 0, times[0], times[-1], {partition_path: failed})
    timeline.save_as_complete(time, Action.CLEAN, encode(report))
    table.upsert("a")
    metadata = table.client(hoodie__cleaner__commits__retained=1).clean()
    assert metadata is not None
    assert metadata.total_files_deleted == 2
    assert re.search(rf"{time}(_\d+)?\.clean names the path", caplog.text)
    assert everything(outside) == {"kept.txt": b"kept"}


def test_the_file_of_an_index_is_not_written_through_a_link(table: ServicesTable, outside: Path) -> None:
    name = {"hoodie__index__class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
    with table.client(**name) as client:
        table.upsert("a", client=client)
    [file] = [path for path in (table.base_path / ".hoodie").rglob("*.sqlite") if path.is_file()]
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    file.symlink_to(outside / "kept.txt")
    with table.client(**name) as client, pytest.raises(HoodieException, match="symbolic link"):
        table.upsert("a", client=client)
    assert everything(outside) == {"kept.txt": b"kept"}


def test_a_savepoint_that_names_other_partitions_keeps_and_deletes_nothing_there(
    table: ServicesTable, outside: Path
) -> None:
    times = [table.upsert("a") for _ in range(3)]
    kept = {"../outside": {"partitionPath": "../outside", "savepointDataFile": ["kept.txt", "../../outside/kept.txt"]}}
    value = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": kept, "version": 1}
    timeline = table.load().active_timeline
    timeline.transition_requested_to_inflight(times[0], Action.SAVEPOINT)
    timeline.save_as_complete(times[0], Action.SAVEPOINT, encode_record("HoodieSavepointMetadata", value))
    with table.client(hoodie__cleaner__commits__retained=1) as client:
        client.clean()
        client.delete_savepoint(times[0])
    assert everything(outside) == {"kept.txt": b"kept"}
    assert table.read() == [("a", "x", 3)]


# --- symbolic links --------------------------------------------------------------------------------------------------


def link_partition(table: ServicesTable, outside: Path) -> None:
    """Move partition x out of the table and put a link in its place."""
    for path in (table.base_path / "x").iterdir():
        path.rename(outside / path.name)
    (table.base_path / "x").rmdir()
    (table.base_path / "x").symlink_to(outside)


def test_a_clean_does_not_delete_through_a_link_out_of_the_table(table: ServicesTable, outside: Path) -> None:
    times = [table.upsert("a"), table.upsert("a")]
    [file] = [path for path in table.base_path.rglob("*.parquet") if times[0] in path.name]
    plan = HoodieCleanerPlan(None, "", "KEEP_LATEST_COMMITS")
    named = {"x": (HoodieCleanFileInfo(str(file)),)}
    table.request_clean(attrs.evolve(plan, file_paths_to_be_deleted_per_partition=named))
    link_partition(table, outside)
    before = everything(outside)
    metadata = table.client().clean()
    assert metadata is not None
    assert metadata.partition_metadata["x"].failed_delete_files == (file.name,)
    assert everything(outside) == before


def test_a_rollback_does_not_delete_through_a_link_out_of_the_table(table: ServicesTable, outside: Path) -> None:
    table.upsert("a")
    pending = table.leave_pending("b")
    link_partition(table, outside)
    before = everything(outside)
    with pytest.raises(HoodieIOException, match="symbolic link"):
        table.client().rollback(pending)
    assert everything(outside) == before


def test_markers_are_not_deleted_through_a_link_out_of_the_table(table: ServicesTable, outside: Path) -> None:
    time = table.upsert("a")
    (outside / time / "x").mkdir(parents=True)
    (outside / time / "x" / "kept.marker.CREATE").write_text("")
    (table.base_path / ".hoodie" / ".temp").rmdir()
    (table.base_path / ".hoodie" / ".temp").symlink_to(outside)
    before = everything(outside)
    with pytest.raises(HoodieIOException, match="symbolic link"):
        table.upsert("b")
    assert everything(outside) == before


@pytest.mark.parametrize("call", ["create", "replace", "write", "touch", "delete", "delete_directory", "mkdir"])
def test_nothing_is_changed_through_a_link_out_of_the_base_path(tmp_path: Path, outside: Path, call: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "p").symlink_to(outside)
    storage = LocalStorage(str(tmp_path / "t"))
    path = str(tmp_path / "t" / "p" / "kept.txt")
    new = str(tmp_path / "t" / "p" / "sub" / "new")
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create_if_absent(new, b"x"),
        "replace": lambda: storage.replace(path, b"x"),
        "write": lambda: storage.open_output_stream(path),
        "touch": lambda: storage.touch(path),
        "delete": lambda: storage.delete_file(path),
        "delete_directory": lambda: storage.delete_directory(str(tmp_path / "t" / "p" / "sub")),
        "mkdir": lambda: storage.create_directory(new),
    }
    with pytest.raises(HoodieIOException, match="symbolic link"):
        calls[call]()
    assert everything(outside) == {"kept.txt": b"kept"}
    assert [path.name for path in outside.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("way", ["y/z/p/new", "y/z/p/missing/new", "y/../../outside/new", "y/./z/p/new", "y//z/p/new"])
def test_nothing_is_made_by_any_way_out_of_the_base_path(tmp_path: Path, outside: Path, way: str) -> None:
    (tmp_path / "t" / "y" / "z").mkdir(parents=True)
    (tmp_path / "t" / "y" / "z" / "p").symlink_to(outside)
    storage = LocalStorage(str(tmp_path / "t"))
    with pytest.raises(HoodieIOException, match="symbolic link"):
        storage.create_if_absent(f"{tmp_path}/t/{way}", b"x")
    assert everything(outside) == {"kept.txt": b"kept"}
    assert storage.create_if_absent(f"{tmp_path}/t/y/z/../new", b"x")


def test_a_link_itself_can_be_deleted_and_its_target_stays(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "link").symlink_to(outside / "kept.txt")
    assert LocalStorage(str(tmp_path / "t")).delete_file(str(tmp_path / "t" / "link")) is True
    assert everything(outside) == {"kept.txt": b"kept"}


def test_a_table_behind_a_link_is_written_as_any_other(tmp_path: Path, table: ServicesTable) -> None:
    (tmp_path / "link").symlink_to(table.base_path)
    other = ServicesTable.__new__(ServicesTable)
    other.base_path, other._ts = tmp_path / "link", 0
    other.upsert("a")
    assert table.read() == [("a", "x", 1)]


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", ["..", "a/../..", "../outside", "/etc", "x\0y", ".hoodie", ".", "a//b"])
def test_rows_do_not_choose_folders_outside_of_the_table(table: ServicesTable, tmp_path: Path, region: str) -> None:
    table.upsert("a")
    before = {path for path in tmp_path.rglob("*") if ".hoodie" not in path.parts}
    with pytest.raises(HoodieKeyException, match="region"):
        table.upsert("b", region=region)
    assert {path for path in tmp_path.rglob("*") if ".hoodie" not in path.parts} == before


def test_a_backslash_in_a_partition_value_is_a_character(table: ServicesTable) -> None:
    table.upsert("a", region="..\\..\\x")
    assert (table.base_path / "..\\..\\x").is_dir()
    assert table.read() == [("a", "..\\..\\x", 1)]


def test_partitions_to_delete_are_below_the_table(table: ServicesTable, outside: Path) -> None:
    table.upsert("a")
    with pytest.raises(HoodieException, match=r"\.\./outside"):
        table.client().delete_partitions(["../outside"])
    assert everything(outside) == {"kept.txt": b"kept"}


def test_an_archived_entry_that_names_another_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="the record of 1 in the archive"):
        HoodieCommitMetadata.from_value(
            {"partitionToWriteStats": {"..": [{"fileId": "f"}]}}, "the record of 1 in the archive"
        )


def test_markers_of_a_hostile_instant_stop_its_rollback(table: ServicesTable, outside: Path) -> None:
    table.upsert("a")
    pending = table.leave_pending("b")
    folder = table.base_path / ".hoodie" / ".temp" / pending
    name = f"f-0_0-0-0_{pending}.parquet"
    (outside / name).write_text("kept")
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text(f"../outside/{name}.marker.CREATE\n")
    with pytest.raises(HoodieCorruptedDataException, match="MARKERS0"):
        table.upsert("c")
    assert (outside / name).exists()
