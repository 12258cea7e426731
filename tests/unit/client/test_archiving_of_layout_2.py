"""Archiving of tables of version 9, where it differs from version 6; `test_archiving` has what both share."""

from __future__ import annotations

import copy
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieIOException
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.archive import timeline_archiver
from tests.support.hookable_storage import Faults, faults_of, hooked, run_with_faults
from tests.support.services_table import ServicesTable
from tests.support.table_builder import local_client
from tests.unit.test_tables_of_real_hudi import in_order, read_by_hudi_rs

pytestmark = [
    pytest.mark.table_version(9),
    pytest.mark.without_metadata_table("archiving would wait for its compaction, of ten commits"),
]

KEEP = {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 5, "hoodie.cleaner.commits.retained": 1}
LEVELS = {"hoodie.timeline.compaction.batch.size": 2, "hoodie.timeline.manifest.retained.versions": 1}


def archive(table: ServicesTable, **properties: Any) -> int:
    with table.client(**{**KEEP, **properties}) as client:
        return client.archive()


def active(table: ServicesTable, *actions: Action) -> list[str]:
    timeline = table.load().active_timeline
    return [i.requested_time for i in (timeline.filter_actions(*actions) if actions else timeline)]


def history(table: ServicesTable) -> Path:
    return table.base_path / ".hoodie/timeline/history"


def data_files(table: ServicesTable) -> list[str]:
    return sorted(path.name for path in history(table).glob("*.parquet"))


def listed(table: ServicesTable) -> list[str]:
    number = (history(table) / "_version_").read_text()
    return sorted(file["fileName"] for file in json.loads((history(table) / f"manifest_{number}").read_text())["files"])


# --- what is archived -------------------------------------------------------------------------------------------------


def test_each_run_writes_one_file_and_names_its_instants(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    ends = {i.requested_time: i.completion_time for i in table.load().active_timeline}
    contents = [table.completed_file(time).read_bytes() for time in times[:3]]
    assert archive(table) == 3
    assert data_files(table) == listed(table) == [f"{times[0]}_{times[2]}_0.parquet"]
    timeline = table.load().archived_timeline
    assert [(i.requested_time, i.completion_time) for i in timeline] == [(time, ends[time]) for time in times[:3]]
    assert [timeline.read_entry(i) for i in timeline] == [{"metadata": c, "plan": None} for c in contents]
    assert archive(table) == 0
    assert (history(table) / "_version_").read_text() == "1"


def test_cleans_and_rollbacks_go_along_with_the_commits_that_are_younger(table: ServicesTable) -> None:
    with table.client(**KEEP, **{"hoodie.clean.automatic": "true"}) as client:
        for _ in range(6):
            table.upsert("a", client=client)
    with table.client() as client:
        client.rollback(table.leave_pending("b"))
    with table.client(**KEEP, **{"hoodie.clean.automatic": "true"}) as client:
        for _ in range(4):
            table.upsert("a", client=client)
    active_before = table.load().active_timeline
    plans = {i.requested_time: active_before.read_details(i.in_state(i.state.REQUESTED)) for i in active_before}
    last = active(table, Action.COMMIT)[6]
    of_services = active(table, Action.CLEAN, Action.ROLLBACK)
    assert archive(table) == 7 + sum(time < last for time in of_services)
    assert active(table, Action.CLEAN, Action.ROLLBACK) == [time for time in of_services if time > last]
    timeline = table.load().archived_timeline
    assert {i.action for i in timeline} == {Action.COMMIT, Action.CLEAN, Action.ROLLBACK}
    for instant in timeline:
        entry = timeline.read_entry(instant)
        assert entry["metadata"].startswith(b"Obj\x01")
        assert entry["plan"] == (plans[instant.requested_time] if instant.action is Action.CLEAN else None)
    # Without its last clean in the active timeline, the next one looks at all partitions.
    table.upsert("a")
    with table.client(**KEEP) as client:
        assert client.clean() is not None


def test_services_stay_while_commits_stay(table: ServicesTable) -> None:
    table.upsert("a")
    for _ in range(7):
        with table.client() as client:
            client.rollback(table.leave_pending("b"))
    assert archive(table) == 0


def test_the_plan_of_a_replacement_is_kept(table: ServicesTable) -> None:
    table.upsert("c", region="y")
    replaced = table.replace(["y"])
    (table.timeline_path / f"{replaced}.replacecommit.requested").write_bytes(b"requested")
    for _ in range(6):
        table.upsert("a")
    with table.client(**KEEP) as client:
        client.clean()
    archive(table)
    timeline = table.load().archived_timeline
    instant = timeline.find(replaced)
    assert instant is not None and timeline.read_entry(instant)["plan"] == b"requested"


def test_a_clean_that_was_completed_twice_is_one_instant(table: ServicesTable) -> None:
    for _ in range(3):
        table.upsert("a")
    with table.client(**KEEP) as client:
        client.clean()
    (clean,) = table.load().active_timeline.filter_actions(Action.CLEAN)
    later = f"{int(clean.completion_time or 0) + 1}"
    content = table.details(clean)
    (table.timeline_path / f"{clean.requested_time}_{later}.clean").write_bytes(content)
    for _ in range(5):
        table.upsert("a")
    archive(table)
    assert not list(table.timeline_path.glob(f"{clean.requested_time}*"))
    (found,) = (i for i in table.load().archived_timeline if i.action is Action.CLEAN)
    assert found.completion_time == later


def test_commits_that_were_completed_after_a_pending_one_began_stay(table: ServicesTable) -> None:
    """Their requested times are older: a write is compared with those that were completed since it began."""
    times = [table.upsert("a") for _ in range(8)]
    with table.client(**{"hoodie.cleaner.policy.failed.writes": "LAZY"}) as client:
        pending = client.start_commit()
        late = table.completed_file(times[2])
        late.rename(late.with_name(f"{times[2]}_{int(pending) + 1:017}.commit"))
        for _ in range(4):
            table.upsert("a", client=client)
        with table.client(**KEEP, **{"hoodie.cleaner.policy.failed.writes": "LAZY"}) as other:
            assert other.archive() == 2
    assert active(table, Action.COMMIT)[0] == times[2]


def test_json_of_an_early_release_is_archived_as_it_is(table: ServicesTable) -> None:
    times = [table.upsert("a") for _ in range(6)]
    file = table.completed_file(times[0])
    content = b'{"partitionToWriteStats": {}, "extraMetadata": {"k": "v"}, "operationType": "UPSERT"}'
    file.unlink()
    (table.timeline_path / f"{times[0]}.commit").write_bytes(content)
    (ended,) = (i.completion_time for i in table.load().active_timeline if i.requested_time == times[0])
    assert archive(table) == 3
    timeline = table.load().archived_timeline
    assert timeline.instants[0].completion_time == ended
    assert timeline.read_commit_metadata(timeline.instants[0]).extra_metadata == {"k": "v"}
    assert not list(table.timeline_path.glob(f"{times[0]}*"))


def test_a_long_timeline_is_archived_in_parts(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [table.upsert("a") for _ in range(10)]
    size = table.completed_file(times[0]).stat().st_size
    monkeypatch.setattr(timeline_archiver, "_MOVED_AT_ONCE_BYTES", size * 2 - 100)
    assert archive(table) == 7
    assert len(data_files(table)) == 4
    assert [i.requested_time for i in table.load().archived_timeline] == times[:7]


def test_levels_are_compacted_and_old_files_deleted(table: ServicesTable) -> None:
    times = []
    for _ in range(4):
        times += [table.upsert("a") for _ in range(6)]
        archive(table, **LEVELS)
    archived = [i.requested_time for i in table.load().archived_timeline]
    assert archived == times[: len(archived)] and len(archived) == 21
    assert [name.rsplit("_", 1)[1] for name in listed(table)] == ["2.parquet"]
    before = data_files(table)
    assert archive(table, **LEVELS) == 0
    assert data_files(table) == before


def copy_of(table: ServicesTable, path: Path) -> ServicesTable:
    shutil.copytree(table.base_path, path)
    other = copy.copy(table)
    other.base_path = path
    return other


@pytest.mark.parametrize("name", ["hudi_trips_v8", "hudi_trips_v9"])
def test_the_archive_of_real_hudi_is_extended(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(Path(__file__).parents[2] / "data" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    base_path = tmp_path / name
    before = HoodieTableMetaClient.load(str(base_path))
    old = {i: before.archived_timeline.read_entry(i) for i in before.archived_timeline}
    instants = {*before.active_timeline.times, *before.archived_timeline.times}
    with local_client(base_path, {**KEEP, **LEVELS, "hoodie.archive.automatic": "true"}) as client:
        for ts in range(100, 107):
            new = pa.Table.from_pylist([{"id": "k00", "region": "east", "ts": ts, "fare": 1.0}])
            result = client.upsert(new)
            assert result.service_errors == ()
            instants.add(result.instant_time)
    after = HoodieTableMetaClient.load(str(base_path))
    archived = after.archived_timeline
    assert len(archived) > len(old)
    assert {i: archived.read_entry(i) for i in archived if i in old} == old
    assert instants <= {*after.active_timeline.times, *archived.times}
    user_rows = hoodie.read_table(str(base_path)).select(["id", "region", "ts", "fare"])
    assert in_order(user_rows.to_pylist()) == in_order(read_by_hudi_rs(base_path))
    assert {"id": "k00", "region": "east", "ts": 106, "fare": 1.0} in user_rows.to_pylist()


# --- crashes ----------------------------------------------------------------------------------------------------------


def test_what_was_archived_and_not_deleted_is_not_archived_twice(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(6)]

    def dies(self: HoodieActiveTimeline, deleted: Any) -> None:
        raise OSError("the process is dead")

    with monkeypatch.context() as patched:
        patched.setattr(HoodieActiveTimeline, "delete_archived", dies)
        for _ in range(2):
            with pytest.raises(OSError, match="dead"):
                archive(table)
    assert active(table) == times
    assert data_files(table) == [f"{times[0]}_{times[2]}_0.parquet"]
    times.append(table.upsert("a"))
    assert archive(table) == 4
    assert active(table) == times[4:]
    assert data_files(table) == [f"{times[0]}_{times[2]}_0.parquet", f"{times[3]}_{times[3]}_0.parquet"]


def test_an_archiver_may_die_at_any_call(table: ServicesTable, tmp_path: Path, faulty_storage: None) -> None:
    """All instants are in one timeline or in both, readers see the same rows, and the next run ends as the first."""
    times = []
    for _ in range(2):
        times += [table.upsert("a") for _ in range(6)]
        archive(table, **LEVELS)
    times += [table.upsert("a") for _ in range(3)]
    rows, left = table.read(), times[-3:]
    faults, whole = Faults(), copy_of(table, tmp_path / "whole")
    assert run_with_faults(faults, lambda: archive(whole, **LEVELS)) is None
    contents = {i: whole.load().archived_timeline.read_entry(i) for i in whole.load().archived_timeline}
    assert [i.requested_time for i in contents] == times[:-3] and active(whole) == left
    moments = list(faults_of(faults.calls, dies=True))
    assert len(moments) > 10
    for number, how in moments:
        other = copy_of(table, tmp_path / f"{number}-{how}")
        run_with_faults(Faults(number, how), lambda: archive(other, **LEVELS))  # noqa: B023
        meta_client = other.load()
        found = {*meta_client.active_timeline.times, *meta_client.archived_timeline.times}
        assert found == set(times) and other.read() == rows, (number, how)
        archive(other, **LEVELS)
        # Where few are left after a death, they stay until there are too many again.
        assert set(left) <= set(active(other)) and len(active(other)) <= 5, (number, how)
        meta_client = other.load()
        timeline = meta_client.archived_timeline
        assert {i: timeline.read_entry(i) for i in timeline} == contents, (number, how)
        assert set(listed(other)) <= set(data_files(other))


def test_readers_see_all_instants_while_they_are_archived(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [table.upsert("a") for _ in range(6)]
    rows = table.read()
    seen = 0

    def hook(name: str, path: str) -> None:
        nonlocal seen
        if name in ("create", "replace", "delete"):
            meta_client = HoodieTableMetaClient.load(str(table.base_path))
            # The archive is read last: an instant is there before it leaves the active timeline.
            assert {*meta_client.active_timeline.times, *meta_client.archived_timeline.times} == set(times)
            assert table.read() == rows
            seen += 1

    with hooked(monkeypatch, hook):
        archive(table)
    assert seen > 10
    assert active(table) == times[3:]


# --- the newest time --------------------------------------------------------------------------------------------------


def test_new_times_are_later_than_the_completion_of_archived_instants(table: ServicesTable) -> None:
    """The first commit was completed after all that are active were."""
    times = [table.upsert("a") for _ in range(6)]
    far = "29990101000000000"
    late = table.completed_file(times[0])
    late.rename(late.with_name(f"{times[0]}_{far}.commit"))
    assert archive(table) == 3
    assert table.load().active_timeline.newest_archived_time() == far
    assert table.upsert("a") > far


def test_the_newest_archived_time_is_read_again_only_when_the_archive_has_changed(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = table.load().active_timeline
    assert timeline.newest_archived_time() is None
    for _ in range(6):
        table.upsert("a")
    archive(table)
    newest = max(i.newest_time for i in table.load().archived_timeline)
    assert timeline.newest_archived_time() == newest
    read: list[str] = []
    original = LocalStorage.open_input_file

    def open_input_file(self: LocalStorage, path: str) -> Any:
        read.append(path)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "open_input_file", open_input_file)
    assert timeline.reload().newest_archived_time() == newest and read == []
    for _ in range(3):
        table.upsert("a")
    archive(table)
    read.clear()
    assert (timeline.newest_archived_time() or "") > newest
    assert [Path(path).name for path in read] == data_files(table)[1:]
    (history(table) / "_version_").unlink()
    assert (timeline.newest_archived_time() or "") > newest


def test_a_lost_file_of_the_archive_is_an_error(table: ServicesTable) -> None:
    for _ in range(6):
        table.upsert("a")
    archive(table)
    (history(table) / data_files(table)[0]).unlink()
    with pytest.raises(HoodieIOException, match="vanish"):
        table.load().active_timeline.newest_archived_time()


def test_files_without_statistics_tell_their_times(table: ServicesTable) -> None:
    for _ in range(6):
        table.upsert("a")
    archive(table)
    newest = table.load().active_timeline.newest_archived_time()
    path = history(table) / data_files(table)[0]
    pq.write_table(pq.read_table(path), path, write_statistics=False)
    assert table.load().active_timeline.newest_archived_time() == newest
