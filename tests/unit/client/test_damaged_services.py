"""Every file of the timeline, of every action, missing, empty, or cut in half: refused by name, or no matter.

What was done while a file was damaged counts once the file is back; nothing is lost meanwhile. Commits have more tests
in `test_damaged_timelines`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action, State
from hoodie.exception import HoodieException, HoodieRollbackException
from tests.support.model import model, read_model
from tests.support.pairs import with_each_pair
from tests.support.table_builder import init_table, local_client, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import (
    archive_files,
    archive_folder,
    instant_of_path,
    name_of_lost,
    state_file,
    state_files,
)

Row = tuple[str, str, int]
NAMES = ("id", "region", "ts")
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KEEP = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    # Archiving waits for compactions of the metadata table.
    "hoodie.metadata.compact.max.delta.commits": 1,
}
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
HOW = ["missing", "empty", "half"]
STATES = ("requested", "inflight", "completed")
ROLES = {
    "oldest_commit": "commit",
    "savepointed_commit": "commit",
    "newest_commit": "commit",
    "overwrite": "replacecommit",
    "deleted_partition": "replacecommit",
    "clean": "clean",
    "rollback": "rollback",
    "savepoint": "savepoint",
    "restore": "restore",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.common.table.table_config._SECONDS_BETWEEN_ATTEMPTS", 0)


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**OFF, **KEEP}, parallelism=1, **properties)


def check(base_path: Path, expected: Mapping[str, Row]) -> None:
    check_table(base_path, model(*expected.values()).as_dicts(), was_cleaned=True)


def file_of(base_path: Path, action: str, state: str, instant_time: str) -> Path:
    """The file that puts an instant into a state."""
    return state_file(base_path, instant_time, action, State[state.upper()])


def damage(file: Path, how: str) -> bytes:
    """Damage a file, and give back what it held."""
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if how == "empty" else content[: len(content) // 2])
    return content


def put_back(file: Path, content: bytes) -> None:
    """Undo the damage, unless the instant of the file was archived meanwhile."""
    if file.parent.name == "archived" and file.exists():
        # Its name was taken meanwhile.
        file = file.with_name(file.name.replace("archive.1_", "archive.99_"))
    elif file.name == "_version_" and file.exists() and file.read_bytes():
        # An archiver has written it since: it names a later list.
        return
    elif instant_of_path(file) is not None and not list(file.parent.glob(f"{file.name[:17]}[._]*")):
        return
    file.write_bytes(content)


def attempt(work: Callable[[], Any], *names: str) -> Any:
    """What comes of it; a refusal, which names the file or the instant, gives None."""
    try:
        return work() or True
    except HoodieException as error:
        text = str(error)
        assert any(name in text for name in names), text
        return None


# --- what is completed ------------------------------------------------------------------------------------------------

STORED = model(("a", "x", 9), ("b", "x", 11), ("e", "y", 7), ("n", "z", 9))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that lived through every action, and the times of its instants by their roles."""
    folder = tmp_path_factory.mktemp("damaged")
    base_path = folder / "t"
    init_table(base_path)
    times: dict[str, str] = {}
    with new_client(base_path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.insert_overwrite(rows(("d", "y", 2)))
        for ts in range(3, 7):
            client.upsert(rows(("a", "x", ts)))
        client.clean()
        assert client.archive() == 3
        times["overwrite"] = client.insert_overwrite(rows(("e", "y", 7))).instant_time
        client.upsert(rows(("p", "gone", 7)))
        times["deleted_partition"] = client.delete_partitions(["gone"]).instant_time
        failed = new_client(base_path, **{"hoodie.auto.commit": "false"}).upsert(rows(("q", "x", 8)))
        client.rollback(failed.instant_time)
        times["savepointed_commit"] = client.upsert(rows(("a", "x", 9), ("n", "z", 9))).instant_time
        client.clean()
        times["savepoint"] = client.savepoint().instant_time
        client.upsert(rows(("a", "x", 10)))
        client.restore_to_savepoint(times["savepoint"])
        times["newest_commit"] = client.upsert(rows(("b", "x", 11))).instant_time
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    times["oldest_commit"] = timeline.commits_timeline().instants[0].requested_time
    for action in (Action.CLEAN, Action.ROLLBACK, Action.RESTORE):
        times[str(action)] = timeline.filter_actions(action).instants[-1].requested_time
    assert read_model(base_path) == STORED
    (folder / "times.json").write_text(json.dumps(times))
    return folder


@pytest.fixture
def base_path(template: Path, tmp_path: Path) -> Path:
    # Plans hold full paths.
    kept = template.with_name(template.name + "_kept")
    if not kept.exists():
        (template / "t").rename(kept)
    shutil.rmtree(template / "t", ignore_errors=True)
    shutil.copytree(kept, template / "t")
    return template / "t"


@pytest.fixture
def times(template: Path) -> dict[str, str]:
    return dict(json.loads((template / "times.json").read_text()))


def live_on(base_path: Path, file: Path, how: str, *names: str, hides: bool = False) -> None:
    """Read, write and serve a table that has a damaged file; then put it back.

    Args:
        base_path: The table.
        file: The file.
        how: Its damage.
        names: By one of which a refusal must name it.
        hides: Whether readers may miss the instant, as the file is what makes it one.
    """
    content = damage(file, how)
    expected = dict(STORED)

    def look() -> None:
        found = attempt(lambda: read_model(base_path), *names)
        if found is not None and not hides:
            assert found == expected

    look()
    later = (("b", "x", 20), ("new", "z", 20))
    with new_client(base_path) as client:
        if attempt(lambda: client.upsert(rows(*later)), *names):
            expected.update(model(*later))
        look()
        attempt(client.clean, *names)
        look()
        attempt(client.archive, *names)
        look()
        made = attempt(client.savepoint, *names, "it is already")
        if made:
            attempt(lambda: client.delete_savepoint(made.instant_time), *names)
        overwrite = attempt(lambda: client.insert_overwrite(rows(("o", "z", 30))), *names)
        if overwrite and not attempt(lambda: client.rollback(overwrite.instant_time), *names):
            expected = {key: entry for key, entry in expected.items() if entry[1] != "z"} | model(("o", "z", 30))
        look()
    put_back(file, content)
    check(base_path, expected)
    with new_client(base_path) as client:
        client.clean()
        client.archive()
        result = client.upsert(rows(("a", "x", 40), ("last", "z", 40)))
    assert result.service_errors == ()
    check(base_path, {**expected, **model(("a", "x", 40), ("last", "z", 40))})


CASES = [
    (role, state, how)
    for role in ROLES
    for state in STATES
    for how in HOW
    # Never requested; and empty when they are whole.
    if not (role == "savepoint" and state == "requested")
    and not (how != "missing" and state == "inflight" and role in ("savepoint", "rollback", "restore"))
    and not (how != "missing" and state == "requested" and ROLES[role] == "commit")
]


QUICK = [case for case in CASES if case[1] == "completed"] + with_each_pair(
    [case for case in CASES if case[1] != "completed"]
)
"""Completed files in every way; of the others each two of role, state and damage."""


@pytest.mark.parametrize(
    ("role", "state", "how"),
    [pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.soak], id="-".join(case)) for case in CASES],
)
def test_a_damaged_file_of_a_completed_action_is_refused_by_name_or_no_matter(
    base_path: Path, times: dict[str, str], role: str, state: str, how: str
) -> None:
    file = file_of(base_path, ROLES[role], state, times[role])
    hides = how == "missing" and state == "completed" and ROLES[role] in ("commit", "replacecommit")
    live_on(base_path, file, how, file.name, times[role], hides=hides)


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_file_of_the_archive_hides_no_row(base_path: Path, how: str) -> None:
    (file,) = archive_files(base_path)
    live_on(base_path, file, how, file.name)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["_version_", "manifest_1"])
def test_a_damaged_list_of_the_files_of_the_archive_hides_no_row(
    base_path: Path, table_version: int, name: str, how: str
) -> None:
    if table_version == 6:
        pytest.skip("the archive of version 6 has no such file")
    live_on(base_path, archive_folder(base_path) / name, how, name)


@pytest.mark.parametrize("how", HOW)
def test_damaged_properties_stop_everybody(base_path: Path, how: str) -> None:
    live_on(base_path, base_path / ".hoodie" / "hoodie.properties", how, "hoodie.properties")


@pytest.mark.parametrize("role", ["newest_commit", "savepointed_commit", "overwrite"])
@pytest.mark.parametrize("several", [False, True], ids=["single_writer", "several_writers"])
def test_a_commit_that_lost_its_completed_file_is_not_rolled_back_unless_that_is_said(
    base_path: Path, times: dict[str, str], role: str, several: bool
) -> None:
    file = file_of(base_path, ROLES[role], "completed", times[role])
    content = damage(file, "missing")
    files = sorted(base_path.rglob("*.parquet"))
    with new_client(base_path, **(SEVERAL if several else {})) as client:
        for work in (client.rollback_failed_writes, client.clean if several else client.start_commit):
            with pytest.raises(HoodieRollbackException, match=rf"may have been lost.*{name_of_lost(file)}.*rollback\("):
                work()
        assert sorted(base_path.rglob("*.parquet")) == files
        file.write_bytes(content)
        assert client.rollback_failed_writes() == []
        check(base_path, STORED)
        damage(file, "missing")
        if role == "newest_commit":
            assert client.rollback(times[role])
            check(base_path, {**STORED, "b": ("b", "x", 1)})


def test_a_write_that_died_when_it_was_requested_does_not_block_those_after_it(base_path: Path) -> None:
    """Where no lock keeps writers apart, another one may be committed beside it."""
    with new_client(base_path) as client:
        died = client.start_commit()
    (requested,) = state_files(base_path, died)
    content = damage(requested, "missing")
    with new_client(base_path) as client:
        client.upsert(rows(("p", "y", 5)))
        requested.write_bytes(content)
        client.upsert(rows(("q", "y", 6)))
    assert not state_files(base_path, died)
    check(base_path, {**STORED, "p": ("p", "y", 5), "q": ("q", "y", 6)})


def test_a_savepoint_that_lost_its_completed_file_holds_its_files(base_path: Path, times: dict[str, str]) -> None:
    file = file_of(base_path, "savepoint", "completed", times["savepoint"])
    content = damage(file, "missing")
    with new_client(base_path) as client:
        for ts in range(20, 26):
            client.upsert(rows(("a", "x", ts), ("e", "y", ts), ("n", "z", ts)))
            client.clean()
        client.archive()
        file.write_bytes(content)
        client.restore_to_savepoint(times["savepoint"])
    check(base_path, {**STORED, "b": ("b", "x", 1)})


def test_a_restore_that_lost_its_completed_file_is_finished_and_takes_nothing_younger(
    base_path: Path, times: dict[str, str]
) -> None:
    damage(file_of(base_path, "restore", "completed", times["restore"]), "missing")
    with new_client(base_path) as client:
        assert attempt(lambda: client.upsert(rows(("b", "x", 20))), f"restore {times['restore']}") is None
        client.restore_to_instant(times["savepointed_commit"])
        check(base_path, STORED)
        client.upsert(rows(("b", "x", 20)))
    check(base_path, {**STORED, "b": ("b", "x", 20)})


# --- what is pending --------------------------------------------------------------------------------------------------


def leave_overwrite(client: HoodieLocalWriteClient) -> str:
    base_path = Path(client.config.base_path)
    return new_client(base_path, **{"hoodie.auto.commit": "false"}).insert_overwrite(rows(("o", "x", 30))).instant_time


def uncomplete(base_path: Path, action: Action) -> str:
    """Take the last file of the newest instant of an action away, as if its writer had died before it."""
    instant = HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_actions(action).instants[-1]
    file_of(base_path, str(action), "completed", instant.requested_time).unlink()
    return instant.requested_time


def leave_clean(client: HoodieLocalWriteClient) -> str:
    client.upsert(rows(("b", "x", 11)))
    client.upsert(rows(("b", "x", 11)))
    assert client.clean() is not None
    return uncomplete(Path(client.config.base_path), Action.CLEAN)


def leave_rollback(client: HoodieLocalWriteClient) -> str:
    failed = new_client(Path(client.config.base_path), **{"hoodie.auto.commit": "false"}).upsert(rows(("q", "x", 8)))
    client.rollback(failed.instant_time)
    return uncomplete(Path(client.config.base_path), Action.ROLLBACK)


def leave_restore(client: HoodieLocalWriteClient) -> str:
    newest = client.upsert(rows(("b", "x", 11))).instant_time
    client.upsert(rows(("a", "x", 30)))
    client.restore_to_instant(newest)
    return uncomplete(Path(client.config.base_path), Action.RESTORE)


PENDING: dict[str, Callable[[HoodieLocalWriteClient], str]] = {
    "replacecommit": leave_overwrite,
    "clean": leave_clean,
    "rollback": leave_rollback,
    "restore": leave_restore,
}
PENDING_CASES = [
    (action, state, how)
    for action in PENDING
    for state in ("requested", "inflight")
    for how in HOW
    if not (how != "missing" and state == "inflight" and action in ("rollback", "restore"))
]


@pytest.mark.parametrize(("action", "state", "how"), PENDING_CASES, ids=["-".join(case) for case in PENDING_CASES])
def test_a_damaged_file_of_a_pending_action_is_refused_by_name_or_no_matter(
    base_path: Path, action: str, state: str, how: str
) -> None:
    with new_client(base_path) as client:
        instant_time = PENDING[action](client)
    file = file_of(base_path, action, state, instant_time)
    content = damage(file, how)
    expected = dict(STORED)
    assert read_model(base_path) == expected
    with new_client(base_path) as client:
        if attempt(lambda: client.upsert(rows(("b", "x", 20))), file.name, instant_time):
            expected["b"] = ("b", "x", 20)
        for work in (client.clean, client.archive, client.rollback_failed_writes):
            attempt(work, file.name, instant_time)
            assert read_model(base_path) == expected
    put_back(file, content)
    with new_client(base_path) as client:
        if action == "restore":
            commits = HoodieTableMetaClient.load(str(base_path)).active_timeline.commits_timeline()
            client.restore_to_instant(commits.filter_completed_instants().instants[-1].requested_time)
        client.clean()
        client.upsert(rows(("a", "x", 40)))
    check(base_path, {**expected, **model(("a", "x", 40))})
    assert not list(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending())
