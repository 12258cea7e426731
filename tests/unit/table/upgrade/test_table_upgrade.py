"""Tables that are brought to another version and back: rows, history, time travel and increments stay."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.client.table_version import downgrade_table, upgrade_table
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.common.table.timeline.timeline_listing import UPGRADE_FILE_NAME
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieLockException,
    HoodieNotSupportedException,
    TableNotFoundException,
)
from hoodie.table.upgrade import TableVersionChange
from tests.support.later_version import change_properties
from tests.support.object_store_servers import Bucket
from tests.support.table_builder import SMALL_FILTERS, content, init_table, local_client, rows, write_config
from tests.support.table_history import files_of_timelines, history_of
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order, read_by_hudi_rs, user_rows

VERSIONS = (6, 8, 9)
DIRECTIONS = [(a, b) for a in VERSIONS for b in VERSIONS if a != b]
DATA = Path(__file__).parents[3] / "data"
ARCHIVING = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.cleaner.commits.retained": "2"}


def version_of(base_path: str | Path) -> int:
    return HoodieTableMetaClient.load(str(base_path)).table_config.table_version


def bring(base_path: str | Path, version: int, **arguments: bool) -> TableVersionChange:
    """Upgrade or downgrade."""
    up = version >= version_of(base_path)
    change = HoodieTableMetaClient.upgrade if up else HoodieTableMetaClient.downgrade
    return change(str(base_path), version, **arguments)


def make_busy(base_path: Path, version: int = 6) -> Path:
    """A table with commits, an overwrite, cleans, an archive, a rollback, a restore, a savepoint and a delete."""
    path = init_table(base_path, table_version=version)
    with local_client(path, {**ARCHIVING, **SMALL_FILTERS}) as client:
        for number in range(7):
            client.upsert(rows((f"k{number % 3}", "x", number), (f"m{number}", "y", number)))
        kept = client.upsert(rows(("before", "x", 20))).instant_time
        client.savepoint(kept)
        client.upsert(rows(("undone", "x", 21)))
        client.restore_to_savepoint(kept)
        client.delete_savepoint(kept)
        client.insert_overwrite(rows(("new", "y", 30)))
    leave_pending(path)
    with local_client(path, {**SMALL_FILTERS, "hoodie.archive.automatic": "false"}) as client:
        client.rollback_failed_writes()
        saved = client.upsert(rows(("saved", "x", 31))).instant_time
        client.savepoint(saved)
        client.delete(rows(("k0", "x", 40)))
    actions = {str(instant.action) for instant in HoodieTableMetaClient.load(path).active_timeline}
    assert actions >= {"commit", "replacecommit", "clean", "rollback", "savepoint"}, actions
    assert len(HoodieTableMetaClient.load(path).archived_timeline) > 3
    return base_path


def leave_pending(path: str | Path) -> str:
    client = local_client(path, {**SMALL_FILTERS, "hoodie.auto.commit": "false"})
    result = client.upsert(rows(("pending", "x", 99)))
    client.close()
    return result.instant_time


@pytest.fixture(scope="module")
def busy_tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """One table of each version; to be copied."""
    made: dict[int, Path] = {}

    def make(version: int) -> Path:
        if version not in made:
            made[version] = make_busy(tmp_path_factory.mktemp("busy") / "t", version)
        return made[version]

    return make


@pytest.fixture
def busy(request: pytest.FixtureRequest, tmp_path: Path, busy_tables: Callable[[int], Path]) -> Path:
    """A copy of the busy table, of the version that the test names."""
    version = getattr(request, "param", 6)
    # With the times of the files.
    return Path(shutil.copytree(busy_tables(version), tmp_path / "t"))


def assert_clean(base_path: Path) -> None:
    """There are files of one timeline only."""
    layout = HoodieTableMetaClient.load(str(base_path)).table_config.timeline_layout_version
    names = files_of_timelines(base_path)
    in_folder = [name for name in names if name.startswith("timeline/")]
    beside = [name for name in names if "/" not in name]
    assert not any(UPGRADE_FILE_NAME in name for name in names)
    if layout == 1:
        assert beside and not in_folder and not (base_path / ".hoodie/timeline").exists()
    else:
        assert in_folder and not beside


# --- every direction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("busy", "version"), DIRECTIONS, indirect=["busy"])
def test_readers_find_what_was_there_before(busy: Path, version: int) -> None:
    before, by_hudi_rs = history_of(busy), in_order(read_by_hudi_rs(busy))
    data_files = {path: data for path, data in content(busy).items() if not path.startswith(".hoodie/")}
    change = bring(busy, version)
    assert version_of(busy) == version == change.to_version
    assert history_of(busy) == before
    assert in_order(read_by_hudi_rs(busy)) == by_hudi_rs == in_order(user_rows(hoodie.read_table(str(busy))))
    assert {path: data for path, data in content(busy).items() if not path.startswith(".hoodie/")} == data_files
    assert_clean(busy)


@pytest.mark.parametrize(("busy", "version"), DIRECTIONS, indirect=["busy"])
def test_writers_go_on_and_the_way_back_is_open(busy: Path, version: int) -> None:
    first = version_of(busy)
    bring(busy, version)
    with local_client(busy, {**ARCHIVING, **SMALL_FILTERS}) as client:
        for number in range(6):
            client.upsert(rows((f"k{number % 3}", "x", 100 + number), (f"after{number}", "y", 100)))
        assert client.service_errors == ()
    before = history_of(busy)
    assert len(before.rows) > 6
    bring(busy, first)
    assert history_of(busy) == before
    assert in_order(read_by_hudi_rs(busy)) == in_order(user_rows(hoodie.read_table(str(busy))))
    with local_client(busy, SMALL_FILTERS) as client:
        client.upsert(rows(("last", "x", 200)))
    assert any("'last'" in row for row in history_of(busy).rows)


def test_many_changes_leave_history_and_properties_as_they_were(busy: Path) -> None:
    before, properties = history_of(busy), HoodieTableMetaClient.load(str(busy)).table_config.properties
    timeline = {name for name in files_of_timelines(busy) if not name.startswith("archived/")}
    for version in (8, 9, 8, 6, 9, 6, 8, 6):
        bring(busy, version)
        assert history_of(busy) == before, version
    after = dict(HoodieTableMetaClient.load(str(busy)).table_config.properties)
    assert after == {**properties, **{key: after[key] for key in after if key not in properties}}
    assert after.keys() - properties.keys() == set()
    assert {name for name in files_of_timelines(busy) if not name.startswith("archived/")} == timeline


@pytest.mark.parametrize("name", ["hudi_flights_v6", "hudi_trips_v8", "hudi_trips_v9"])
def test_tables_of_real_hudi_in_every_version(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    table = next(path.parent for path in sorted(tmp_path.rglob(".hoodie")) if path.is_dir())
    before, first = history_of(table), version_of(table)
    assert before.rows
    for version in (*(v for v in VERSIONS if v != first), *VERSIONS, first):
        bring(table, version)
        assert version_of(table) == version
        found = history_of(table)
        assert found.rows == before.rows and found.instants == before.instants
        assert found.as_of == before.as_of and found.since == before.since
        assert [one[:2] for one in found.archived] == [one[:2] for one in before.archived]
        assert in_order(read_by_hudi_rs(table)) == in_order(user_rows(hoodie.read_table(str(table))))


SHARED = [
    "dn_replaced_6", "dn_replaced_8", "hand_cow", "hdn_cow", "hup_metadata", "hup_replaced", "metadata_6", "replaced_6",
    "up_replaced_8", "up_replaced_9", "v6_cow", "v8_cow", "v8_cow_mdt", "v9_commit_mode", "v9_cow", "v9_cow_mdt",
    "v9_mdt_off",
]  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_shared_tables_in_every_version(tmp_path: Path, later_tables: Path, name: str) -> None:
    shutil.copytree(later_tables / name, tmp_path / name)
    (table,) = folders_of_tables(tmp_path / name)
    rows_before, first = in_order(hoodie.read_table(str(table)).to_pylist()), version_of(table)
    for version in (*(v for v in VERSIONS if v != first), *VERSIONS):
        change = upgrade_table if version >= version_of(table) else downgrade_table
        change(write_config(table, **{"hoodie.metadata.enable": "false"}), version)
        assert version_of(table) == version
        assert in_order(hoodie.read_table(str(table)).to_pylist()) == rows_before
        assert in_order(read_by_hudi_rs(table)) == in_order(user_rows(hoodie.read_table(str(table))))
        assert HoodieTableMetaClient.load(str(table)).table_config.metadata_partitions == ()
        assert not (table / ".hoodie/metadata").exists()


# --- what is written --------------------------------------------------------------------------------------------------


def test_completion_times_differ_and_follow_the_requested_times(busy: Path) -> None:
    # As in a table that was copied: the times of the files say nothing.
    for path in (busy / ".hoodie").iterdir():
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    bring(busy, 9)
    client = HoodieTableMetaClient.load(str(busy))
    instants = [*client.archived_timeline, *client.active_timeline]
    times = [instant.completion_time for instant in instants]
    assert None not in times and len(set(times)) == len(times)
    assert all((instant.completion_time or "") > instant.requested_time for instant in instants)
    commits = sorted((i for i in instants if i.action in COMMIT_ACTIONS), key=lambda i: i.requested_time)
    ends = [instant.completion_time or "" for instant in commits]
    assert ends == sorted(ends)


def test_times_of_completion_come_back_after_a_downgrade(busy: Path) -> None:
    def times() -> dict[tuple[str, Action], str | None]:
        client = HoodieTableMetaClient.load(str(busy))
        return {i.key: i.completion_time for i in (*client.archived_timeline, *client.active_timeline)}

    bring(busy, 9)
    before = times()
    time.sleep(0.01)
    bring(busy, 6)
    bring(busy, 9)
    assert times() == before


@pytest.mark.parametrize("busy", [9], indirect=True)
def test_the_later_of_two_completed_files_of_a_clean_counts(busy: Path) -> None:
    folder = busy / ".hoodie/timeline"
    clean = max(folder.glob("*.clean"))
    requested, end = clean.name.removesuffix(".clean").split("_")
    shutil.copy(clean, folder / f"{requested}_{int(end) - 1}.clean")
    (folder / f"{requested}_{int(end) - 1}.clean").write_bytes(clean.read_bytes()[:-1] + b"?")
    before, content_of_clean = history_of(busy), clean.read_bytes()
    bring(busy, 6)
    assert history_of(busy) == before
    (written,) = (busy / ".hoodie").glob(f"{requested}.clean")
    assert written.read_bytes() == content_of_clean
    assert_clean(busy)


def test_an_archive_that_does_not_fit_in_memory_is_written_in_parts(
    busy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.table.upgrade.archive_copy._HELD_BYTES", 1)
    before = history_of(busy)
    bring(busy, 9)
    assert len(list((busy / ".hoodie/timeline/history").glob("*.parquet"))) == len(before.archived) > 3
    assert history_of(busy) == before
    shutil.rmtree(busy / ".hoodie/archived")
    bring(busy, 6)
    assert len(list((busy / ".hoodie/archived").glob(".commits_.archive.*"))) == len(before.archived)
    assert history_of(busy) == before


@pytest.mark.parametrize("version", [8, 9])
def test_a_clustering_has_an_action_of_its_own_while_it_is_pending(busy: Path, version: int) -> None:
    with local_client(busy, SMALL_FILTERS) as client:
        overwrite = client.insert_overwrite(rows(("again", "y", 50))).instant_time
        clustering = client.insert_overwrite(rows(("again", "y", 50))).instant_time
    file = busy / f".hoodie/{clustering}.replacecommit"
    file.write_text(file.read_text().replace('"INSERT_OVERWRITE"', '"CLUSTER"'))
    names = {path.name for path in (busy / ".hoodie").glob("2*")}
    bring(busy, version)
    of_later = {path.name for path in (busy / ".hoodie/timeline").glob("2*")}
    assert {f"{clustering}.clustering.requested", f"{clustering}.clustering.inflight"} < of_later
    assert {f"{overwrite}.replacecommit.requested", f"{overwrite}.replacecommit.inflight"} < of_later
    assert f"{clustering}.replacecommit.requested" not in of_later
    bring(busy, 6)
    assert {path.name for path in (busy / ".hoodie").glob("2*")} == names


def test_a_plan_of_a_clean_is_in_both_of_its_pending_files_of_version_6(busy: Path) -> None:
    bring(busy, 9)
    for path in (busy / ".hoodie/timeline").glob("*.clean.inflight"):
        path.write_bytes(b"")
    bring(busy, 6)
    cleans = list((busy / ".hoodie").glob("*.clean.inflight"))
    assert cleans
    for path in cleans:
        assert path.read_bytes() == path.with_name(path.name.replace("inflight", "requested")).read_bytes() != b""


def test_statistics_and_extra_metadata_of_commits_survive(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=6)
    with local_client(path, {"hoodie.auto.commit": "false", **SMALL_FILTERS}) as client:
        time_ = client.start_commit()
        result = client.upsert(rows(("a", "x", 1)), time_)
        client.commit(time_, result, extra_metadata={"offset": "süd ☃ 7"})

    def metadata() -> object:
        timeline = HoodieTableMetaClient.load(path).active_timeline
        return timeline.read_commit_metadata(timeline.completed_writes().instants[0])

    before = metadata()
    assert before.extra_metadata["offset"] == "süd ☃ 7"  # type: ignore[attr-defined]
    for version in (8, 9, 6):
        bring(path, version)
        assert metadata() == before


def test_an_instant_that_is_active_and_archived_is_not_written_to_the_archive(busy: Path) -> None:
    """An archiver died before it deleted the instant's files."""
    client = HoodieTableMetaClient.load(str(busy))
    meta = busy / ".hoodie"
    first = client.active_timeline.completed_writes().instants[0]
    kept = {path.name: path.read_bytes() for path in meta.glob(f"{first.requested_time}.*")}
    with local_client(
        busy,
        {
            "hoodie.keep.min.commits": "1",
            "hoodie.keep.max.commits": "2",
            "hoodie.cleaner.commits.retained": "1",
            "hoodie.archive.beyond.savepoint": "true",
        },
    ) as c:
        c.clean()
        c.archive()
    if (meta / f"{first.requested_time}.{first.action}").exists():
        pytest.skip("the first commit stays")
    for name, data in kept.items():
        (meta / name).write_bytes(data)
    before = history_of(busy)
    bring(busy, 9)
    after = HoodieTableMetaClient.load(str(busy))
    assert after.active_timeline.contains(first.requested_time)
    assert not after.archived_timeline.contains(first.requested_time)
    assert history_of(busy).rows == before.rows


# --- running it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("busy", "version"), DIRECTIONS, indirect=["busy"])
def test_a_dry_run_changes_nothing_and_tells_what_the_run_does(busy: Path, version: int) -> None:
    before = content(busy)
    told = bring(busy, version, dry_run=True)
    assert content(busy) == before
    done = bring(busy, version)
    assert told.is_dry_run and not done.is_dry_run
    for name in ("from_version", "to_version", "instants", "archived_instants", "properties", "notes"):
        assert getattr(told, name) == getattr(done, name), name
    assert "would be" in repr(told) and "would" not in repr(done).splitlines()[0]
    assert "hoodie.table.version" in repr(done)


def test_an_upgrade_tells_where_incremental_readers_begin(busy: Path) -> None:
    last = HoodieTableMetaClient.load(str(busy)).active_timeline.completed_writes().instants[-1].requested_time
    assert hoodie.read_table(str(busy), query_type="incremental", begin=last).num_rows == 0
    assert "begin at its time of completion, which history() tells" in str(bring(busy, 9, dry_run=True))
    bring(busy, 9)
    told = HoodieTableMetaClient.load(str(busy)).history()[-1]
    assert told.instant_time == last
    assert hoodie.read_table(str(busy), query_type="incremental", begin=told.completion_time).num_rows == 0


def test_times_of_the_future_do_not_move_the_commits_to_come(busy: Path) -> None:
    """A clock that was wrong, or a copy that changed the times."""
    for path in (busy / ".hoodie").glob("2*"):
        os.utime(path, (4_000_000_000, 4_000_000_000))
    bring(busy, 9)
    with local_client(busy, SMALL_FILTERS) as client:
        assert client.upsert(rows(("a", "x", 1000))).instant_time < "2090"


def test_a_second_call_does_nothing(busy: Path) -> None:
    bring(busy, 9)
    before = content(busy)
    again = HoodieTableMetaClient.upgrade(str(busy))
    assert content(busy) == before and "nothing to do" in repr(again)


def test_an_empty_table(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=6)
    bring(path, 9)
    with local_client(path, SMALL_FILTERS) as client:
        client.upsert(rows(("a", "x", 1)))
    bring(path, 6)
    assert len(history_of(path).rows) == 1


def test_the_wrong_direction_is_refused_with_the_right_one(busy: Path) -> None:
    bring(busy, 8)
    with pytest.raises(HoodieConfigException, match=r"of version 8.*use HoodieTableMetaClient.downgrade"):
        HoodieTableMetaClient.upgrade(str(busy), 6)
    with pytest.raises(HoodieConfigException, match=r"of version 8.*use HoodieTableMetaClient.upgrade"):
        HoodieTableMetaClient.downgrade(str(busy), 9)


@pytest.mark.parametrize("version", [5, 7, 10, 9.0, "9", True, None])
def test_unknown_versions_are_refused(busy: Path, version: int) -> None:
    with pytest.raises(HoodieConfigException, match="give one of 6, 8, 9"):
        upgrade_table(str(busy), version)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException):
        HoodieTableMetaClient.upgrade(str(tmp_path / "none"))


@pytest.mark.parametrize("store", ["memory", "s3"])
def test_stores_without_folders(request: pytest.FixtureRequest, store: str) -> None:
    """They keep the times of writes, and have no folders that are empty."""
    path, options = f"memory://{uuid.uuid4().hex}/t", None
    if store == "s3":
        bucket: Bucket = request.getfixturevalue("s3_bucket")
        path, options = f"s3://{bucket.name}/t", bucket.options()
    init_table(path, table_version=6, storage_options=options)
    with local_client(path, {**ARCHIVING, **SMALL_FILTERS}, storage_options=options) as client:
        for number in range(6):
            client.upsert(rows((f"k{number % 2}", "x", number)))

    def told() -> tuple[list[str], list[tuple[str, str]], list[tuple[str, str]]]:
        client = HoodieTableMetaClient.load(path, options)
        timelines = (client.active_timeline, client.archived_timeline.filter_completed_instants())
        active, archived = ([(i.requested_time, str(i.action)) for i in timeline] for timeline in timelines)
        return sorted(map(repr, hoodie.read_table(path, storage_options=options).to_pylist())), active, archived

    before = told()
    assert before[2]
    for version in (9, 6, 8, 9, 6):
        up = version >= HoodieTableMetaClient.load(path, options).table_config.table_version
        change = HoodieTableMetaClient.upgrade if up else HoodieTableMetaClient.downgrade
        change(path, version, storage_options=options)
        assert told() == before
    client = HoodieTableMetaClient.load(path, options)
    assert not client.storage.list_directory(f"{client.meta_path}/timeline")


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(base_path: Path, error: type[Exception], match: str, version: int = 9) -> None:
    before = content(base_path)
    for dry_run in (True, False):
        with pytest.raises(error, match=match):
            bring(base_path, version, dry_run=dry_run)
    assert content(base_path) == before


def test_pending_instants_are_named_with_the_way_out(busy: Path) -> None:
    pending = leave_pending(busy)
    refused(busy, HoodieCommitException, rf"commit {pending} \(rollback_failed_writes\(\) of a write client")
    with local_client(busy, SMALL_FILTERS) as client:
        client.rollback_failed_writes()
    bring(busy, 9)
    pending = leave_pending(busy)
    refused(busy, HoodieCommitException, f"commit {pending}", version=6)


@pytest.mark.parametrize(
    ("action", "way_out"),
    [(Action.CLEAN, r"clean\(\)"), (Action.RESTORE, "restore_to_instant"), (Action.ROLLBACK, "rollback_failed_writes"),
     (Action.INDEXING, "Hudi")],
)  # fmt: skip
def test_each_pending_action_has_its_way_out(busy: Path, action: Action, way_out: str) -> None:
    name = f"20991123000000000.{action}.requested"
    (busy / ".hoodie" / name).write_bytes(b"x")
    refused(busy, HoodieCommitException, rf"{action} 20991123000000000 \(.*{way_out}")


@pytest.mark.parametrize(("first", "then"), [(6, 9), (9, 6)])
def test_plans_of_clusterings_are_withdrawn_and_those_of_hudi_named(tmp_path: Path, first: int, then: int) -> None:
    path = Path(init_table(tmp_path / "t", table_version=first))
    with local_client(path, {**SMALL_FILTERS, "hoodie.parquet.small.file.limit": "0"}) as client:
        for key in "ab":
            client.insert(rows((key, "x", 1)))
        client.schedule_clustering()
    bring(path, then, dry_run=True)
    assert len(HoodieTableMetaClient.load(str(path)).active_timeline.filter_pending()) == 1
    bring(path, then)
    assert not len(HoodieTableMetaClient.load(str(path)).active_timeline.filter_pending())
    with local_client(path, {**SMALL_FILTERS, "hoodie.clustering.updates.strategy": "SparkRejectUpdateStrategy"}) as c:
        planned = c.schedule_clustering()
    refused(path, HoodieCommitException, rf"client.cluster\('{planned}'\) carries it out", version=first)


def test_living_heartbeats_are_refused(busy: Path) -> None:
    folder = busy / ".hoodie/.heartbeat"
    folder.mkdir(exist_ok=True)
    (folder / "20991123000000000").write_bytes(b"")
    refused(busy, HoodieHeartbeatException, "20991123000000000")
    os.utime(folder / "20991123000000000", (1, 1))
    bring(busy, 9)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.bootstrap.base.path", "/elsewhere"),
        ("hoodie.partition.metafile.use.base.format", "true"),
        ("hoodie.unheard.of", "1"),
    ],
)
def test_features_that_hoodie_does_not_have_are_refused(busy: Path, key: str, value: str) -> None:
    change_properties(busy, {key: value})
    refused(busy, HoodieNotSupportedException, key)


def test_version_10_is_refused(busy: Path) -> None:
    change_properties(busy, {"hoodie.table.version": "10"})
    with pytest.raises(HoodieNotSupportedException, match="hoodie.table.version=10"):
        HoodieTableMetaClient.upgrade(str(busy))


def test_keys_that_releases_of_hudi_write_in_two_ways_are_refused(busy: Path) -> None:
    change_properties(busy, {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"})
    refused(busy, HoodieNotSupportedException, "hoodie.write.complex.keygen.validation.enable=false")
    config = write_config(busy, **{"hoodie.write.complex.keygen.validation.enable": "false"})
    assert upgrade_table(config).to_version == 9


def test_indexes_of_the_metadata_table_are_dropped_only_where_the_writer_says_so(busy: Path) -> None:
    change_properties(busy, {"hoodie.table.metadata.partitions": "files,record_index"})
    (busy / ".hoodie/metadata").mkdir()
    refused(busy, HoodieNotSupportedException, "record_index")
    change = upgrade_table(write_config(busy, **{"hoodie.metadata.enable": "false"}))
    assert change.metadata_partitions == ("files", "record_index")
    assert not (busy / ".hoodie/metadata").exists()
    assert HoodieTableMetaClient.load(str(busy)).table_config.metadata_partitions == ()


def test_a_damaged_commit_is_named_and_nothing_is_switched(busy: Path) -> None:
    last = max((busy / ".hoodie").glob("*.commit"))
    whole = last.read_bytes()
    last.write_bytes(whole[:50] + b"}")
    with pytest.raises(HoodieCorruptedDataException, match=last.name):
        bring(busy, 9)
    assert version_of(busy) == 6
    last.write_bytes(whole)
    change = bring(busy, 9)
    assert change.finished_earlier_run
    assert_clean(busy)


def test_the_lock_of_several_writers_is_asked_for(busy: Path) -> None:
    options = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.num_retries": "1",
        "hoodie.write.lock.client.num_retries": "0",
        "hoodie.write.lock.wait_time_ms": "10",
        "hoodie.write.lock.wait_time_ms_between_retry": "1",
    }
    lock = busy / ".hoodie/lock"
    lock.write_bytes(b"")
    with pytest.raises(HoodieLockException):
        upgrade_table(write_config(busy, **options))
    assert version_of(busy) == 6
    lock.unlink()
    upgrade_table(write_config(busy, **options))
    assert version_of(busy) == 9 and not lock.exists()


def test_the_half_of_an_upgrade_of_hudi_is_not_taken_for_ours(busy: Path) -> None:
    bring(busy, 9)
    (busy / ".hoodie/20200101000000000.commit").write_bytes(b"{}")
    refused(busy, HoodieCommitException, "another program's upgrade or downgrade has not ended", version=6)


def test_a_change_of_the_timeline_during_the_copy_is_refused(busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hoodie.table.upgrade.timeline_copy import TimelineCopy

    write = TimelineCopy.write

    def write_beside_a_writer(copy: TimelineCopy) -> frozenset[str]:
        names = write(copy)
        (busy / ".hoodie/20991123000000000.commit.requested").write_bytes(b"")
        return names

    with monkeypatch.context() as patch:
        patch.setattr(TimelineCopy, "write", write_beside_a_writer)
        with pytest.raises(HoodieCommitException, match=r"changed while it was copied.*20991123000000000"):
            bring(busy, 9)
    assert version_of(busy) == 6
    (busy / ".hoodie/20991123000000000.commit.requested").unlink()
    bring(busy, 9)


# --- beside others ----------------------------------------------------------------------------------------------------


def test_a_client_that_has_begun_before_the_upgrade_does_not_write_to_the_old_timeline(busy: Path) -> None:
    with local_client(busy, SMALL_FILTERS) as client:
        client.upsert(rows(("one", "x", 1000)))
        bring(busy, 9)
        client.upsert(rows(("two", "x", 1001)))
        bring(busy, 6)
        client.upsert(rows(("three", "x", 1002)))
    found = {row["id"] for row in hoodie.read_table(str(busy)).to_pylist()}
    assert {"one", "two", "three"} <= found
    assert_clean(busy)


# --- by a write -------------------------------------------------------------------------------------------------------

NINE = {"hoodie.write.table.version": "9", **SMALL_FILTERS}


def test_a_write_that_asks_for_a_later_version_is_refused_with_both_ways_out(busy: Path) -> None:
    with (
        local_client(busy, NINE) as client,
        pytest.raises(
            HoodieConfigException, match=r"HoodieTableMetaClient\.upgrade, or .*hoodie.write.auto.upgrade=true"
        ),
    ):
        client.upsert(rows(("a", "x", 1)))
    bring(busy, 9)
    with (
        local_client(busy, {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "true"}) as client,
        pytest.raises(HoodieConfigException, match=r"downgrade the table by HoodieTableMetaClient\.downgrade"),
    ):
        client.upsert(rows(("a", "x", 1)))


def test_a_write_upgrades_where_it_is_told_to(busy: Path) -> None:
    leave_pending(busy)
    before = history_of(busy)
    with local_client(busy, {**NINE, "hoodie.write.auto.upgrade": "true"}) as client:
        assert version_of(busy) == 6
        written = client.upsert(rows(("by write", "x", 1000)))
        assert version_of(busy) == 9
        client.upsert(rows(("by write", "x", 1001)))
    after = history_of(busy)
    assert len(after.rows) == len(before.rows) + 1
    assert after.instants[-1][0] > written.instant_time
    assert [one for one in after.instants if one[0] < written.instant_time and one[1] != "rollback"] == [
        one for one in before.instants if one[2] == "COMPLETED" and one[1] != "rollback"
    ]
    assert_clean(busy)


def test_several_writers_upgrade_once(busy: Path) -> None:
    options = {
        **NINE,
        "hoodie.write.auto.upgrade": "true",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    problems: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with local_client(busy, options) as client:
                start.wait()
                client.insert(rows((f"by {number}", f"p{number}", 1000)))
        except BaseException as error:
            problems.append(error)

    # One of them may meet the pending write of the other, of the old version or of the new one.
    start = threading.Barrier(2)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert all(isinstance(error, HoodieException) for error in problems), problems
    assert len(problems) < 2 and version_of(busy) == 9
    found = {row["id"] for row in hoodie.read_table(str(busy)).to_pylist()}
    assert len(found & {"by 0", "by 1"}) == 2 - len(problems)
    assert_clean(busy)


def test_a_write_does_not_upgrade_by_itself(busy: Path) -> None:
    for options in (
        {"hoodie.write.auto.upgrade": "true"},
        {"hoodie.write.auto.upgrade": "true", **NINE, "hoodie.write.table.version": "6"},
        {},
    ):
        with local_client(busy, {**SMALL_FILTERS, **options}) as client:
            client.upsert(rows(("a", "x", 1000)))
        assert version_of(busy) == 6


def test_a_write_that_cannot_upgrade_fails_before_it_begins(busy: Path) -> None:
    (busy / ".hoodie/20991123000000000.indexing.requested").write_bytes(b"x")
    before = history_of(busy).rows
    with (
        local_client(busy, {**NINE, "hoodie.write.auto.upgrade": "true"}) as client,
        pytest.raises(HoodieCommitException, match="indexing 20991123000000000"),
    ):
        client.upsert(rows(("a", "x", 1)))
    assert version_of(busy) == 6 and history_of(busy).rows == before
