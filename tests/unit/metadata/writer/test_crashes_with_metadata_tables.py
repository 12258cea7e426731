"""Writers that maintain a metadata table die, or meet one failure of the store, at every call to the storage.

The sweeps of `tests.unit.client.test_crashes` and of the services, with ``hoodie.metadata.enable=true``. After each
failure readers see no file of a write that is not completed, and miss none of one that is; once another writer has gone
on, the metadata table equals one that is built anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.exception import HoodieException
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.metadata_table_checks import MetadataReader, check_equals_a_new_one, listed_partitions
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SMALL_FILTERS, local_client, read_trips, rows
from tests.unit.client import test_crashes as writes
from tests.unit.client.test_crashes import DELTA_COMMITS, FIRST, OPERATIONS, Operation

pytestmark = pytest.mark.usefixtures("faulty_storage")

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
}
"""All partitions, in few files."""
LATER = (("b", "x", 9, 90.0), ("new", "z", 1, 9.0))
QUICK = {
    ("metadata log compaction", 9),
    ("rollback of a commit", 9),
    ("upsert into log files", 6),
    ("clean", 8),
    ("create_index", 9),
}
"""Of these some failures are looked at in quick runs; all of them in slow ones."""
SHARE = 8
"""In quick runs one failure of so many is looked at."""
SLOW = ("upsert", "insert_overwrite", "rollback of a failed write", "rollback of a commit", "upsert into log files",
        "upsert and compaction", "clean", "enable", "restore")  # fmt: skip


def cases(name: str, version: int) -> list[tuple[bool, int, list[pytest.MarkDecorator]]]:
    """Whether the process dies, the share of failures, and the marks."""
    found = [
        (True, 1, [pytest.mark.slow if name in SLOW and version == 9 else pytest.mark.soak]),
        (False, 1, [pytest.mark.soak]),
    ]
    return [(True, SHARE, []), *found] if (name, version) in QUICK else found


def id_of(name: str, dies: bool, share: int, *more: object) -> str:
    words = (name.replace(" ", "_"), "dies" if dies else "one_call_fails", *more)
    return "-".join(map(str, (*words, "some") if share > 1 else words))


@pytest.mark.parametrize(
    ("operation", "dies", "share", "table_version"),
    [
        pytest.param(operation, dies, share, version, marks=marks, id=id_of(operation.name, dies, share, version))
        for operation in (*OPERATIONS, *DELTA_COMMITS)
        for version in (6, 8, 9)
        for dies, share, marks in cases(operation.name, version)
    ],
    indirect=["table_version"],
)
@pytest.mark.one_in(4)
def test_a_write_that_fails_at_any_call_leaves_a_right_metadata_table(
    tmp_path: Path, operation: Operation, dies: bool, share: int, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = attrs.evolve(operation, properties={**operation.properties, **ON})
    plain = writes.new_client
    # Preparations as well.
    monkeypatch.setattr(writes, "new_client", lambda base_path, **given: plain(base_path, **{**ON, **given}))
    template = tmp_path / "template"
    table_type = {} if operation.table_type is None else {"table_type": operation.table_type}
    HoodieTableMetaClient.init_table(str(template), **writes.INIT, **table_type)
    with plain(template, **operation.properties) as client:
        client.upsert(rows(*FIRST))
    target = operation.prepare(template)
    assert {"files", "column_stats", "bloom_filters", "record_index"} <= set(listed_partitions(template))
    committed_before = writes.completed_commits(template)

    def attempt(name: str, faults: Faults) -> Path:
        base_path = tmp_path / name
        shutil.copytree(template, base_path)
        error = run_with_faults(faults, lambda: operation.run(plain(base_path, **operation.properties), target))
        assert faults.fired or error is None, error
        return base_path

    healthy = Faults()
    recover_and_check(attempt("healthy", healthy), operation, is_done=True)
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in list(faults_of(healthy.calls, dies))[::share]:
        faults = Faults(number, how, dies)
        base_path = attempt(f"{number}_{how}", faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        state = (writes.shape_of(base_path), how == "torn")
        if state not in seen:
            seen.add(state)
            try:
                recover_and_check(base_path, operation, is_done=operation.is_done(base_path, committed_before))
            except (AssertionError, HoodieException) as problem:
                problem.add_note(what)
                raise
        shutil.rmtree(base_path)
    print(f"{operation.name}: {len(healthy.calls)} calls, {len(seen)} states on storage")


def recover_and_check(base_path: Path, operation: Operation, *, is_done: bool) -> None:
    reader = MetadataReader.open(base_path)
    reader.check()
    with writes.new_client(base_path, **operation.properties) as client:
        client.upsert(rows(*LATER))
        # What began before the recovery still sees what it saw.
        reader.check()
        MetadataReader.open(base_path).check()
        while client.schedule_compaction() is not None:
            client.compact()
            MetadataReader.open(base_path).check()
    reader.check()
    expected = operation.after if is_done else operation.before
    assert read_trips(base_path) == sorted({**expected, **writes.model(*LATER)}.values())
    check_equals_a_new_one(base_path)


# --- services ---------------------------------------------------------------------------------------------------------


RETAINED = {"hoodie.cleaner.commits.retained": 1}


@attrs.frozen
class Service:
    """What fails on a table of some commits, and what another process does to finish it."""

    name: str
    run: Callable[[HoodieLocalWriteClient, Any], Any]
    prepare: Callable[[ServicesTable], Any] = lambda table: None
    finish: Callable[[HoodieLocalWriteClient, Any], Any] = lambda client, given: None
    leaves: str = "hoodie.properties"
    """The name of a file that it leaves if nothing fails."""


def second_newest(table: ServicesTable) -> str:
    return table.load().active_timeline.completed_writes().instants[-2].requested_time


def save_second_newest(table: ServicesTable) -> str:
    time = second_newest(table)
    with table.client(**ON) as client:
        client.savepoint(time)
    return time


def turn_off(table: ServicesTable) -> None:
    with table.client(hoodie__metadata__enable="false") as client:
        table.upsert("a", client=client)


def enable(client: HoodieLocalWriteClient, given: Any) -> Any:
    return client.upsert(rows(("a", "x", 1000), ("new", "z", 1000)))


def upsert_with(**properties: Any) -> Callable[[HoodieLocalWriteClient, Any], Any]:
    """An upsert by a client with more properties."""

    def run(client: HoodieLocalWriteClient, given: Any) -> Any:
        path = client.config.base_path
        with local_client(path, {**SMALL_FILTERS, **ON, **properties}, parallelism=1) as other:
            return other.upsert(rows(("a", "x", 1000), ("new", "z", 1000)))

    return run


def create_index(client: HoodieLocalWriteClient, given: Any) -> Any:
    return client.create_index("idx_id", "id")


def drop_index(client: HoodieLocalWriteClient, given: Any) -> Any:
    return client.drop_index("idx_id")


def with_index(table: ServicesTable) -> None:
    with table.client(**ON) as client:
        create_index(client, None)


def indexed_second_newest(table: ServicesTable) -> str:
    with_index(table)
    return second_newest(table)


def clean(client: HoodieLocalWriteClient, given: Any) -> Any:
    return client.clean()


LOG_COMPACTED = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": 3,
    "hoodie.metadata.compact.max.delta.commits": 100,
}


def two_more_commits(table: ServicesTable) -> None:
    """With the next one there are enough delta commits since the last compaction."""
    with table.client(**{**ON, "hoodie.metadata.compact.max.delta.commits": 100}) as client:
        table.upsert("a", client=client)
        table.upsert("c", region="y", client=client)


def log_compacted_second_newest(table: ServicesTable) -> str:
    two_more_commits(table)
    with table.client(**{**ON, **LOG_COMPACTED}) as client:
        table.upsert("a", client=client)
    return second_newest(table)


SERVICES = [
    Service("clean", clean, finish=clean),
    Service("enable", enable, turn_off),
    Service("restore", lambda c, t: c.restore_to_instant(t), second_newest, lambda c, t: c.restore_to_instant(t)),
    Service(
        "restore to a savepoint",
        lambda c, t: c.restore_to_savepoint(t), save_second_newest, lambda c, t: c.restore_to_savepoint(t),
    ),
    Service("savepoint", lambda c, t: c.savepoint(t), second_newest),
    Service("archive", lambda c, t: c.archive()),
    Service("metadata compaction", upsert_with(**{"hoodie.metadata.compact.max.delta.commits": 1})),
    Service(
        "metadata log compaction",
        upsert_with(**LOG_COMPACTED), two_more_commits, leaves="*.logcompaction.requested",
    ),
    Service(
        "restore over a metadata log compaction",
        lambda c, t: c.restore_to_instant(t), log_compacted_second_newest, lambda c, t: c.restore_to_instant(t),
    ),
    Service("drop of partitions", upsert_with(**{"hoodie.metadata.index.column.stats.enable": "false"})),
    Service("create_index", create_index, finish=create_index),
    Service("drop_index", drop_index, with_index, drop_index),
    Service("upsert beside an index", enable, with_index),
    Service("clean beside an index", clean, with_index, clean),
    Service("delete_partitions beside an index", lambda c, t: c.delete_partitions(["x"]), with_index),
    Service(
        "restore beside an index",
        lambda c, t: c.restore_to_instant(t), indexed_second_newest, lambda c, t: c.restore_to_instant(t),
    ),
]  # fmt: skip


def at(table: ServicesTable, base_path: Path) -> ServicesTable:
    copy = type(table).__new__(type(table))
    copy.base_path, copy._ts = base_path, 1000
    return copy


@pytest.mark.parametrize(
    ("service", "dies", "share", "is_merge_on_read", "table_version"),
    [
        pytest.param(
            service, dies, share, is_mor, version, marks=marks if share > 1 or not is_mor else [pytest.mark.soak],
            id=id_of(service.name, dies, share, "mor" if is_mor else "cow", version),
        )
        for service in SERVICES
        for is_mor in (False, True)
        for version in ((8, 9) if "index" in service.name else (6, 8, 9))
        for dies, share, marks in cases(service.name, version)
    ],
    indirect=["table_version"],
)  # fmt: skip
@pytest.mark.one_in(4)
def test_a_service_that_fails_at_any_call_leaves_a_right_metadata_table(
    tmp_path: Path, service: Service, dies: bool, share: int, is_merge_on_read: bool, table_version: int
) -> None:
    table = (MergeOnReadTable if is_merge_on_read else ServicesTable)(tmp_path / "t")
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3} if service.name == "archive" else {}
    properties = {**RETAINED, **keep, **ON}
    with table.client(**ON) as client:
        table.upsert("a", "b", client=client)
        table.upsert("c", region="y", client=client)
        table.upsert("a", client=client)
        if is_merge_on_read:
            client.compact()
        table.upsert("c", "d", region="y", client=client)
        client.delete_partitions(["y"])
        table.upsert("a", client=client)
        if is_merge_on_read:
            client.schedule_compaction()
            client.compact()
    given = service.prepare(table)
    assert "over a metadata log" not in service.name or list(table.base_path.rglob("*.logcompaction.requested"))
    table.base_path.rename(tmp_path / "template")

    def attempt(faults: Faults) -> ServicesTable:
        shutil.rmtree(table.base_path, ignore_errors=True)
        shutil.copytree(tmp_path / "template", table.base_path)
        copy = at(table, table.base_path)
        with copy.client(**properties) as client:
            error = run_with_faults(faults, lambda: service.run(client, given))
        assert faults.fired or error is None, error
        return copy

    healthy = Faults()
    found = attempt(healthy)
    assert list(found.base_path.rglob(service.leaves))
    finish_and_check(found, service, given, properties)
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in list(faults_of(healthy.calls, dies))[::share]:
        faults = Faults(number, how, dies)
        found = attempt(faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        state = (writes.shape_of(found.base_path), how == "torn")
        if state in seen:
            continue
        seen.add(state)
        try:
            finish_and_check(found, service, given, properties)
        except Exception as problem:
            problem.add_note(what)
            raise
    print(f"{service.name}: {len(healthy.calls)} calls, {len(seen)} states on storage")


def finish_and_check(table: ServicesTable, service: Service, given: Any, properties: dict[str, Any]) -> None:
    reader = MetadataReader.open(table.base_path)
    if "restore" not in service.name:
        reader.check()
    with table.client(**properties) as client:
        service.finish(client, given)
        MetadataReader.open(table.base_path).check()
        table.upsert("b", client=client)
    MetadataReader.open(table.base_path).check()
    if "restore" not in service.name:
        reader.check()
    check_equals_a_new_one(table.base_path)
