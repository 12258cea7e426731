"""What actions do about the metadata table of their table: keep it right, delete it, set it aside, build it anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieException,
    HoodieHeartbeatException,
    HoodieNotSupportedException,
)
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.writer.index_definition_writer import save_index_definition
from hoodie.table.repair import remove_orphan_files
from tests.support.hookable_storage import Faults, faults_of, hooked, run_with_faults
from tests.support.later_version import change_properties
from tests.support.metadata_table_checks import check_equals_a_new_one
from tests.support.services_table import ServicesTable
from tests.support.table_builder import content
from tests.support.table_builder import rows as to_write
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order, read_by_hudi_rs, user_rows

pytestmark = pytest.mark.without_metadata_table("it would be there before the one that a test makes")

LISTED = "hoodie.table.metadata.partitions"
INFLIGHT = f"{LISTED}.inflight"
BUILT_FROM_FILES = ["v8_cow_mdt", "v9_cow_mdt", "hand_cow", "trap_stale"]
ON = {"hoodie.metadata.enable": "true"}
OFF = {"hoodie.metadata.enable": "false"}
FAKE = "files-0000-0_0-0-0_00000000000000000.hfile"
CRASHED = "hmdt_crash"
"""Its newest commit is in the metadata table and pending in the table."""


@pytest.fixture
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a table of real Hudi with a metadata table."""
    shutil.copytree(request.getfixturevalue("later_tables") / request.param, tmp_path / request.param)
    (folder,) = folders_of_tables(tmp_path / request.param)
    return folder


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ServicesTable:
    made = ServicesTable(tmp_path / "t", table_version=request.param)
    for _ in range(4):
        made.upsert("a")
    return made


def switch_off(
    base_path: Path,
    is_asked_for: bool = False,
    is_dead: Callable[[TableSnapshot, HoodieInstant], bool] = lambda snapshot, instant: False,
) -> TableSnapshot:
    snapshot = TableSnapshot.load(str(base_path))
    return MetadataTable(snapshot).switch_off(is_asked_for=is_asked_for, is_dead=is_dead)


def listed(base_path: Path) -> tuple[str, ...]:
    config = TableSnapshot.load(str(base_path)).table_config
    return config.metadata_partitions + config.metadata_partitions_inflight


def build(base_path: Path, partitions: str = "files", inflight: str = "") -> None:
    """What Hudi leaves when it builds a metadata table, as far as hoodie looks at it."""
    folder = base_path / ".hoodie/metadata"
    (folder / ".hoodie").mkdir(parents=True, exist_ok=True)
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / FAKE).write_bytes(b"x")
    HoodieTableConfig.create(
        TableSnapshot.load(str(base_path)).storage,
        str(folder),
        {"hoodie.table.name": "t_metadata", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"},
    )
    change_properties(base_path, {LISTED: partitions, INFLIGHT: inflight})


def enable(table: ServicesTable) -> None:
    """Another commit, which builds a metadata table."""
    with table.client(**ON) as client:
        table.upsert("a", client=client)
    assert listed(table.base_path) == ("files",)


def has_folder(base_path: Path) -> bool:
    return (base_path / ".hoodie/metadata").exists()


# --- tables of real Hudi ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", BUILT_FROM_FILES, indirect=True)
def test_it_is_deleted_with_a_warning(real: Path, later_tables: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = content(real)
    rows = in_order(hoodie.read_table(str(real)).to_pylist())
    snapshot = switch_off(real)
    assert "deleting the metadata table" in caplog.text
    assert snapshot.table_config.properties[LISTED] == "" == snapshot.table_config.properties.get(INFLIGHT, "")
    assert listed(real) == () and not has_folder(real)
    after = content(real)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path for path in changed if not path.startswith(".hoodie/metadata/")} <= {
        ".hoodie/hoodie.properties", ".hoodie/.hoodie.properties.crc",
    }  # fmt: skip
    assert any(path.startswith(".hoodie/.index_defs/") for path in after)
    assert in_order(hoodie.read_table(str(real)).to_pylist()) == rows
    # hudi-rs trusts a metadata table: that of trap_stale misses ten rows.
    assert in_order(read_by_hudi_rs(real)) == in_order(user_rows(hoodie.read_table(str(real))))


@pytest.mark.parametrize("real", ["v9_sql"], indirect=True)
def test_pending_indexings_are_waited_for(real: Path) -> None:
    before = content(real)
    with pytest.raises(HoodieCommitException, match="indexing 20261122072356710 is pending"):
        switch_off(real, is_asked_for=True, is_dead=lambda _, instant: instant.action is Action.DELTA_COMMIT)
    assert content(real) == before


@pytest.mark.parametrize("real", [CRASHED], indirect=True)
@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_pending_write_is_waited_for_unless_its_writer_is_dead(real: Path, is_asked_for: bool) -> None:
    before = content(real)
    with pytest.raises(HoodieCommitException, match="commit 20261122073535008 is pending.*finish it first, or roll"):
        switch_off(real, is_asked_for)
    assert content(real) == before
    rows = in_order(read_by_hudi_rs(real))
    switch_off(real, is_asked_for, lambda _, instant: instant.requested_time == "20261122073535008")
    assert listed(real) == () and not has_folder(real)
    assert in_order(read_by_hudi_rs(real)) == rows == in_order(user_rows(hoodie.read_table(str(real))))


@pytest.mark.parametrize("real", ["v9_cow_mdt"], indirect=True)
def test_what_is_pending_in_the_metadata_table_alone_is_waited_for(real: Path) -> None:
    pending = real / ".hoodie/metadata/.hoodie/timeline/20261231000000000.compaction.requested"
    pending.write_bytes(b"")
    before = content(real)
    with pytest.raises(HoodieCommitException, match="compaction 20261231000000000 is pending in it"):
        switch_off(real)
    assert content(real) == before
    switch_off(real, is_asked_for=True)
    assert listed(real) == () and not has_folder(real)


@pytest.mark.parametrize("real", ["v9_cow_mdt"], indirect=True)
@pytest.mark.usefixtures("faulty_storage")
def test_a_run_that_died_at_any_call_is_finished_by_the_next(real: Path, tmp_path: Path) -> None:
    rows = in_order(hoodie.read_table(str(real)).to_pylist())
    kept = tmp_path / "kept"
    shutil.copytree(real, kept)
    whole = {path for path in content(kept) if path.startswith(".hoodie/metadata/")}
    counted = Faults()
    run_with_faults(counted, lambda: switch_off(real))
    assert len(counted.calls) > 5
    left_over = 0
    for number, how in faults_of(counted.calls, dies=True):
        shutil.rmtree(real)
        shutil.copytree(kept, real)
        run_with_faults(Faults(number, how), lambda: switch_off(real))
        left = {path for path in content(real) if path.startswith(".hoodie/metadata/")}
        # Whoever trusts the properties finds a whole metadata table, or none.
        assert left == whole if listed(real) else True, (number, how)
        left_over += bool(left) and not listed(real)
        assert in_order(hoodie.read_table(str(real)).to_pylist()) == rows
        switch_off(real)
        assert listed(real) == () and not has_folder(real), (number, how)
        assert in_order(hoodie.read_table(str(real)).to_pylist()) == rows
    assert left_over


# --- before each change -----------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[ServicesTable, HoodieLocalWriteClient], object]] = {
    "upsert": lambda table, client: table.upsert("a", client=client),
    "start_commit": lambda table, client: client.start_commit(),
    "clean": lambda table, client: client.clean(),
    "archive": lambda table, client: client.archive(),
    "rollback": lambda table, client: client.rollback(newest(table)),
    "restore": lambda table, client: client.restore_to_instant(newest(table, 2)),
}


def newest(table: ServicesTable, number: int = 1) -> str:
    return table.load().active_timeline.completed_writes().instants[-number].requested_time


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("inflight", [False, True])
def test_each_change_deletes_one_that_is_not_wanted_before_any_file_is_touched(
    table: ServicesTable, change: str, inflight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(table.base_path, *("", "files") if inflight else ("files",))
    behind: list[str] = []

    def look(name: str, path: str) -> None:
        is_data = path.endswith(".parquet") and name in ("delete", "start")
        is_end = name == "create" and path.endswith((".commit", ".clean", ".rollback", ".restore"))
        if (is_data or is_end) and listed(table.base_path):
            behind.append(f"{name} {path}")

    with table.client(**{"hoodie.cleaner.commits.retained": 1, **OFF}) as client, hooked(monkeypatch, look):
        CHANGES[change](table, client)
    assert not behind
    assert listed(table.base_path) == () and not has_folder(table.base_path)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_keeps_it_right_unless_told_otherwise(table: ServicesTable, change: str) -> None:
    enable(table)
    with table.client(**{"hoodie.cleaner.commits.retained": 1}) as client:
        CHANGES[change](table, client)
    if change == "rollback":
        table.upsert("b")
    assert listed(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_refused_where_it_holds_what_hoodie_does_not_know(table: ServicesTable, change: str) -> None:
    build(table.base_path, "files,vector_index_x")
    before = content(table.base_path)
    with table.client() as client, pytest.raises(HoodieNotSupportedException, match="vector_index_x.*not keep up to"):
        CHANGES[change](table, client)
    assert content(table.base_path) == before
    with table.client(**OFF) as client:
        CHANGES[change](table, client)
    assert listed(table.base_path) == () and not has_folder(table.base_path)


# --- indexes that hoodie does not know --------------------------------------------------------------------------------

UNKNOWN = "vector_index_x"
DROP = {"hoodie.metadata.index.drop": f"{UNKNOWN}, secondary_index_gone"}


def add_unknown_index(table: ServicesTable, state: str = LISTED) -> None:
    """An index that hoodie does not know beside a right metadata table, as Hudi lists and defines it."""
    enable(table)
    before = TableSnapshot.load(str(table.base_path)).table_config.properties.get(state, "")
    change_properties(table.base_path, {state: ",".join(filter(None, (UNKNOWN, before)))})
    folder = table.base_path / ".hoodie/metadata" / UNKNOWN
    folder.mkdir()
    (folder / FAKE).write_bytes(b"x")
    definition = HoodieIndexDefinition(UNKNOWN, "column_stats", ("ts",))
    save_index_definition(TableSnapshot.load(str(table.base_path)), definition)


def definitions(table: ServicesTable) -> set[str]:
    snapshot = TableSnapshot.load(str(table.base_path))
    return set(load_index_definitions(snapshot.storage, snapshot.meta_path))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("state", [LISTED, INFLIGHT])
def test_an_index_that_hoodie_does_not_know_is_dropped_when_it_is_named(
    table: ServicesTable, change: str, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    add_unknown_index(table, state)
    before = content(table.base_path)
    message = f"{UNKNOWN}, which hoodie does not keep up to date. Set hoodie.metadata.index.drop={UNKNOWN} to delete"
    with table.client() as client, pytest.raises(HoodieNotSupportedException, match=message):
        CHANGES[change](table, client)
    assert content(table.base_path) == before and not caplog.messages
    with table.client(**DROP) as client:
        CHANGES[change](table, client)
    assert f"dropping {UNKNOWN} from the metadata table of {table.base_path}" in caplog.messages
    if change == "rollback":
        table.upsert("b")
    assert listed(table.base_path) == ("files",) and not definitions(table)
    assert not (table.base_path / ".hoodie/metadata" / UNKNOWN).exists()
    check_equals_a_new_one(table.base_path)


@pytest.mark.usefixtures("faulty_storage")
def test_a_drop_of_an_index_that_died_at_any_call_is_finished_by_the_next(table: ServicesTable, tmp_path: Path) -> None:
    add_unknown_index(table)
    kept = tmp_path / "kept"
    shutil.copytree(table.base_path, kept)
    config = HoodieWriteConfig.from_properties("/t", DROP).metadata

    def drop() -> None:
        MetadataTable(TableSnapshot.load(str(table.base_path)), MetadataTableUpkeep(config)).adapt()

    counted = Faults()
    assert run_with_faults(counted, drop) is None
    assert len(counted.calls) > 5
    for number, how in faults_of(counted.calls, dies=True):
        shutil.rmtree(table.base_path)
        shutil.copytree(kept, table.base_path)
        run_with_faults(Faults(number, how), drop)
        was_listed = UNKNOWN in listed(table.base_path)
        # Readers of Hudi go by what is defined, and its writers by what is listed: both find the index as it was.
        if definitions(table):
            assert was_listed
        if was_listed:
            assert (table.base_path / ".hoodie/metadata" / UNKNOWN / FAKE).exists()
        drop()
        assert listed(table.base_path) == ("files",) and not definitions(table), (number, how)
        # A folder that is neither defined nor listed harms nobody.
        assert not was_listed or not (table.base_path / ".hoodie/metadata" / UNKNOWN).exists(), (number, how)
        assert hoodie.metadata.validate(str(table.base_path)).is_right


@pytest.mark.parametrize("name", ["files", "column_stats", "partition_stats", "bloom_filters", "record_index"])
def test_partitions_with_options_of_their_own_are_not_dropped_as_indexes(table: ServicesTable, name: str) -> None:
    add_unknown_index(table)
    before = content(table.base_path)
    given = {"hoodie.metadata.index.drop": f"{UNKNOWN},{name}"}
    with table.client(**given) as client, pytest.raises(HoodieConfigException, match=rf"{name} is.*=false deletes it"):
        table.upsert("a", client=client)
    assert content(table.base_path) == before


def test_an_index_is_not_dropped_while_an_indexing_is_pending(table: ServicesTable) -> None:
    add_unknown_index(table)
    timeline = table.load().active_timeline
    time = timeline.create_new_instant_time(Action.INDEXING)
    before = content(table.base_path)
    with table.client(**DROP) as client, pytest.raises(HoodieCommitException, match=f"while indexing {time} is pend"):
        table.upsert("a", client=client)
    assert content(table.base_path) == before


# --- beside other actions ---------------------------------------------------------------------------------------------


def test_a_savepoint_leaves_it_as_it_is(table: ServicesTable) -> None:
    build(table.base_path, "files,vector_index_x")
    with table.client() as client:
        client.savepoint()
        assert client.delete_savepoint(newest(table))
    assert set(listed(table.base_path)) == {"vector_index_x", "files"} and has_folder(table.base_path)


def test_a_failed_write_is_rolled_back_once_it_is_off(table: ServicesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = table.leave_pending("a", "b")
    build(table.base_path)
    order: list[str] = []

    def look(name: str, path: str) -> None:
        if name == "rmdir" and path.endswith(".hoodie/metadata"):
            order.append("switched off")
        if path.endswith((".rollback.requested", f"{failed}.parquet")) and name in ("create", "delete"):
            order.append(name)

    with table.client(**OFF) as client, hooked(monkeypatch, look):
        assert client.rollback_failed_writes() == [failed]
    assert order[:3] == ["switched off", "create", "delete"]
    assert table.read() == [("a", "x", 4)]


@pytest.mark.usefixtures("faulty_storage")
def test_a_write_that_died_at_any_call_leaves_nothing_behind_a_listed_one(table: ServicesTable, tmp_path: Path) -> None:
    """A failed write is rolled back on the way, and its files stay as long as the metadata table is listed."""
    failed = table.leave_pending("a", "b")
    build(table.base_path)
    kept = tmp_path / "kept"
    shutil.copytree(table.base_path, kept)
    counted = Faults()
    run_with_faults(counted, lambda: table.client(**OFF).start_commit())
    assert listed(table.base_path) == () and failed not in table.files()["x"] and len(counted.calls) > 30
    whole = {path for path in content(kept) if path.startswith(".hoodie/metadata/")}
    switched_off = 0
    for number, how in faults_of(counted.calls, dies=True):
        shutil.rmtree(table.base_path)
        shutil.copytree(kept, table.base_path)
        run_with_faults(Faults(number, how), lambda: table.client(**OFF).start_commit())
        if listed(table.base_path):
            assert whole <= content(table.base_path).keys() and failed in table.files()["x"], (number, how)
            assert not table.instants(Action.ROLLBACK), (number, how)
        switched_off += not listed(table.base_path)
        table.client(**OFF).start_commit()
        assert listed(table.base_path) == () and not has_folder(table.base_path), (number, how)
        assert failed not in table.files()["x"] and table.read() == [("a", "x", 4)], (number, how)
    assert switched_off


def test_a_living_writer_is_not_cut_off(table: ServicesTable) -> None:
    other = table.leave_pending("a")
    build(table.base_path)
    heartbeat = table.base_path / ".hoodie/.heartbeat" / other
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(b"")
    before = content(table.base_path)
    with table.client(**OFF) as client, pytest.raises(HoodieHeartbeatException, match="is being written"):
        client.start_commit()
    assert content(table.base_path) == before
    several = {
        **OFF,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "hoodie.transaction.lock.storage_based_lock_provider.StorageBasedLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    with table.client(**several) as client, pytest.raises(HoodieCommitException, match=f"commit {other} is pending"):
        client.start_commit()
    assert listed(table.base_path) == ("files",) and has_folder(table.base_path)
    heartbeat.unlink()
    with table.client(**several) as client:
        client.start_commit()
    assert listed(table.base_path) == () and not has_folder(table.base_path)


@pytest.mark.parametrize("given", ["true", "false"])
def test_a_folder_that_is_listed_no_more_is_deleted_or_replaced(table: ServicesTable, given: str) -> None:
    build(table.base_path, "")
    assert has_folder(table.base_path)
    with table.client(hoodie__metadata__enable=given) as client:
        table.upsert("a", client=client)
    assert has_folder(table.base_path) == (given == "true")
    fake = table.base_path / ".hoodie/metadata/files" / FAKE
    assert not fake.exists() or fake.read_bytes() != b"x"


@pytest.mark.parametrize("given", ["", "true", "false"])
@pytest.mark.parametrize("real", ["v8_cow_mdt", "v9_cow_mdt"], indirect=True)
def test_hudi_rs_reads_what_is_written_on_top(real: Path, given: str) -> None:
    before = listed(real)
    stored = hoodie.read_table(str(real))
    changed = user_rows(stored.slice(0, 3))
    properties = {"hoodie.metadata.enable": given} if given else {}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(real), properties)) as client:
        client.delete(stored.slice(0, 3))
    expected = [row for row in user_rows(stored) if row not in changed]
    assert len(expected) == stored.num_rows - 3
    # It trusts a metadata table.
    assert in_order(read_by_hudi_rs(real)) == in_order(expected) == in_order(user_rows(hoodie.read_table(str(real))))
    assert listed(real) == (() if given == "false" else before)
    assert has_folder(real) == (given != "false")


@pytest.mark.parametrize("real", ["trap_stale"], indirect=True)
def test_one_that_was_wrong_before_is_told_by_the_validation_and_right_when_built_anew(real: Path) -> None:
    stored = hoodie.read_table(str(real))
    assert not hoodie.metadata.validate(str(real)).is_right
    for given in ("false", "true"):
        properties = {"hoodie.metadata.enable": given}
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(real), properties)) as client:
            client.delete(stored.slice(0, 1))
    assert hoodie.metadata.validate(str(real)).is_right
    assert len(read_by_hudi_rs(real)) == stored.num_rows - 1


def test_visible_orphan_files_set_it_aside(table: ServicesTable) -> None:
    orphan = table.base_path / "x/orphan-0_0-0-0_20200101000000000.parquet"
    shutil.copy(next(table.base_path.glob("x/*.parquet")), orphan)
    upkeep = MetadataTableUpkeep(HoodieWriteConfig.from_properties("/t", ON).metadata)
    MetadataTable(TableSnapshot.load(str(table.base_path)), upkeep).build()
    assert listed(table.base_path) == ("files",)
    found = remove_orphan_files(str(table.base_path), delete=True, include_visible=True)
    assert not orphan.exists() and found.removed
    config = TableSnapshot.load(str(table.base_path)).table_config
    assert (config.metadata_partitions, config.metadata_partitions_inflight) == ((), ("files",))
    assert not has_folder(table.base_path)
    table.upsert("a")
    check_equals_a_new_one(table.base_path)


# --- what comes in between --------------------------------------------------------------------------------------------


def test_nothing_is_built_while_an_instant_is_pending(table: ServicesTable) -> None:
    upkeep = MetadataTableUpkeep(HoodieWriteConfig.from_properties("/t", ON).metadata)
    with table.client(hoodie__auto__commit="false") as client:
        instant_time = client.start_commit()
        written = client.upsert(to_write(("a", "x", 9)), instant_time)
        MetadataTable(TableSnapshot.load(str(table.base_path)), upkeep).build()
        assert listed(table.base_path) == () and not has_folder(table.base_path)
        client.commit(instant_time, written)
    MetadataTable(TableSnapshot.load(str(table.base_path)), upkeep).build()
    assert listed(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)


def test_the_properties_are_read_again_when_an_action_is_completed(table: ServicesTable) -> None:
    enable(table)
    with table.client(hoodie__auto__commit="false") as client:
        instant_time = client.start_commit()
        written = client.upsert(to_write(("a", "x", 9)), instant_time)
        MetadataTable(TableSnapshot.load(str(table.base_path))).set_aside()
        client.commit(instant_time, written)
    assert not has_folder(table.base_path)
    table.upsert("b")
    check_equals_a_new_one(table.base_path)


def test_what_cannot_be_recorded_is_not_completed(table: ServicesTable) -> None:
    enable(table)
    rows = table.read()
    for file in (table.base_path / ".hoodie/metadata/files").glob("*.hfile"):
        file.unlink()
    with table.client() as client, pytest.raises(HoodieException):
        client.upsert(to_write(("a", "x", 99)))
    assert table.read() == rows
    with table.client(**OFF) as client:
        table.upsert("b", client=client)
    enable(table)
    check_equals_a_new_one(table.base_path)


def test_what_it_was_built_with_is_undone_by_building_it_anew(table: ServicesTable) -> None:
    before = newest(table)
    enable(table)
    with table.client() as client:
        client.rollback(newest(table))
        assert listed(table.base_path) == ("files",)
        check_equals_a_new_one(table.base_path)
        client.rollback(before)
        assert not has_folder(table.base_path)
        table.upsert("b", client=client)
    assert listed(table.base_path) == ("files",)
    check_equals_a_new_one(table.base_path)


def test_an_instant_that_was_never_recorded_is_forgotten_without_a_change(table: ServicesTable) -> None:
    enable(table)
    before = content(table.base_path)
    MetadataTable(TableSnapshot.load(str(table.base_path))).forget("20991231235959999")
    assert content(table.base_path) == before
