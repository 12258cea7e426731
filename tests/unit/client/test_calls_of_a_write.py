"""How often a small write asks its storage: on an object store each call is a request that others wait for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

import hoodie
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.exception import HoodieIOException
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver
from tests.support.hookable_storage import Call, HookableStorage, use_for_local_files
from tests.support.table_builder import init_table, local_client, read_rows, rows

pytestmark = pytest.mark.table_version(9)

NOTHING_DUE = {
    "hoodie.cleaner.commits.retained": 100,
    "hoodie.keep.min.commits": 200,
    "hoodie.keep.max.commits": 210,
    "hoodie.compact.inline.max.delta.commits": 100,
}
TIMELINE, PROPERTIES = ".hoodie/timeline", ".hoodie/hoodie.properties"
OF_METADATA = (".hoodie/metadata/.hoodie/timeline", ".hoodie/metadata/.hoodie/hoodie.properties")


class CountedStorage(HookableStorage):
    """Notes each call with its path below the table."""

    __slots__ = ()
    calls: ClassVar[list[tuple[str, str]]] = []

    def around(self, call: Call) -> Any:
        if not call.is_bare:
            self.calls.append((call.name, call.path.rpartition("/table/")[2]))
        return call.apply()


class RemoteStorage(CountedStorage):
    """Files that count as those of a store behind a network, so that calls are made side by side."""

    __slots__ = ()

    @property
    def is_remote(self) -> bool:
        return True


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    use_for_local_files(monkeypatch, CountedStorage)
    return str(tmp_path / "table")


def calls_of_a_write(path: str, number: int, table_type: str, **properties: object) -> Counter[tuple[str, str]]:
    """The calls of one upsert of a row."""
    CountedStorage.calls.clear()
    given = {**NOTHING_DUE, **properties, "hoodie.datasource.write.table.type": table_type}
    hoodie.write_table(
        rows(("a", "x", number)), path, record_key_fields="id", partition_fields="region", properties=given
    )
    return Counter(CountedStorage.calls)


@pytest.mark.parametrize(
    ("table_type", "timelines", "properties", "calls"), [("COPY_ON_WRITE", 10, 6, 55), ("MERGE_ON_READ", 10, 6, 56)]
)
def test_an_upsert_into_a_default_table_makes_few_calls(
    path: str, table_type: str, timelines: int, properties: int, calls: int
) -> None:
    for number in range(4):
        found = calls_of_a_write(path, number, table_type)
    assert found["list", TIMELINE] <= timelines
    assert found["read", PROPERTIES] <= properties
    assert found["list", OF_METADATA[0]] <= 4
    assert found["read", OF_METADATA[1]] <= 4
    assert found.total() <= calls


def test_the_calls_of_an_upsert_do_not_grow_with_the_commits(path: str) -> None:
    totals = [calls_of_a_write(path, number, "COPY_ON_WRITE").total() for number in range(28)]
    # Every tenth commit compacts the metadata table.
    assert max(totals[12:17]) == min(totals[12:17]) == min(totals[22:27])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_client_that_lives_reads_no_commit_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    use_for_local_files(monkeypatch, RemoteStorage)
    init_table(str(tmp_path / "table"), table_type=table_type)
    without_services = {"hoodie.metadata.enable": True, "hoodie.table.services.enabled": False}
    with local_client(tmp_path / "table", without_services) as client:
        for number in range(4):
            client.upsert(rows(("a", "x", number)))
        CountedStorage.calls.clear()
        client.upsert(rows(("a", "x", 5)))
    read = [path for name, path in CountedStorage.calls if name == "read" and "/timeline/" in path]
    assert read == []
    assert CountedStorage.calls.count(("read", OF_METADATA[1])) == 0
    assert read_rows(str(tmp_path / "table")) == [("a", "x", 5)]


def test_a_table_that_is_not_there_is_looked_for_once(path: str) -> None:
    found = calls_of_a_write(path, 0, "COPY_ON_WRITE", **{"hoodie.metadata.enable": False})
    before = CountedStorage.calls.index(("create", PROPERTIES))
    assert CountedStorage.calls[:before].count(("read", PROPERTIES)) == 1
    assert found["create", PROPERTIES] == 1


def test_a_look_for_old_instants_that_fails_is_taken_again_under_the_lock(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, failures = HoodieTimelineArchiver.instants_to_archive, []

    def fail_once(self: HoodieTimelineArchiver) -> list[HoodieInstant]:
        if not failures:
            failures.append(HoodieIOException("somebody changed it meanwhile"))
            raise failures[0]
        return look(self)

    monkeypatch.setattr(HoodieTimelineArchiver, "instants_to_archive", fail_once)
    with local_client(init_table(path), {"hoodie.metadata.enable": False}) as client:
        result = client.upsert(rows(("a", "x", 1)))
    assert failures
    assert result.service_errors == ()
