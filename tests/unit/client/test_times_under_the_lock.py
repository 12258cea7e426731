"""In tables of versions 8 and 9 all times are given out while the table's lock is held."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from hoodie.client.committer import Committer
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.metadata.metadata_table import MetadataTable
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from hoodie.transaction.lock.in_process_lock_provider import InProcessLockProvider
from tests.support.table_builder import init_table, local_client, read_rows, rows, write_action
from tests.support.timeline_files import is_in_metadata_table

SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": f"{__name__}.Lock",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.commits.retained": 1,
    "hoodie.clean.automatic": "false",
}


class Lock(InProcessLockProvider):
    """A lock that tells whether it is held."""

    held = 0

    def try_lock(self, timeout_ms: int) -> bool:
        """Count it."""
        taken = super().try_lock(timeout_ms)
        Lock.held += taken
        return taken

    def unlock(self) -> None:
        """Count it."""
        Lock.held -= self.is_held()
        super().unlock()


@pytest.fixture
def given_out(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, bool]]:
    """Each time that is taken in the timeline of a table: the step, the action, and whether the lock is held."""
    taken: list[tuple[str, str, bool]] = []
    for step in ("_claim", "save_as_complete"):
        original = getattr(HoodieActiveTimeline, step)

        def record(
            self: Any, time: str, action: Any, *rest: Any, step: str = step, original: Any = original, **options: Any
        ) -> Any:
            if not is_in_metadata_table(self.meta_path):
                taken.append((step, str(action), Lock.held > 0))
            return original(self, time, action, *rest, **options)

        monkeypatch.setattr(HoodieActiveTimeline, step, record)
    return taken


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [8, 9])
def test_every_time_of_every_action(
    tmp_path: Path, version: int, table_type: str, given_out: list[tuple[str, str, bool]]
) -> None:
    path = init_table(tmp_path / "t", table_version=version, table_type=table_type)
    with local_client(path, **SEVERAL) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        first = client.upsert(rows(("a", "x", 2), ("b", "y", 2))).instant_time
        client.savepoint(first)
        client.upsert(rows(("a", "x", 3)))
        assert (client.compact() is not None) == (table_type == "MERGE_ON_READ")
        client.insert_overwrite(rows(("c", "x", 4)))
        client.upsert(rows(("b", "y", 5)))
        assert client.clean() is not None
        client.rollback(client.upsert(rows(("c", "x", 6))).instant_time)
        client.restore_to_savepoint(first)
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 2)]
    assert [taken for taken in given_out if not taken[2]] == []
    writes = {"commit"} if table_type == "COPY_ON_WRITE" else {"deltacommit", "compaction"}
    assert {action for step, action, _ in given_out if step == "save_as_complete"} == {
        *writes, "savepoint", "replacecommit", "clean", "rollback", "restore",
    }  # fmt: skip


def test_version_6_takes_no_lock_to_start_a_commit(tmp_path: Path, given_out: list[tuple[str, str, bool]]) -> None:
    with local_client(init_table(tmp_path / "t", table_version=6), **SEVERAL) as client:
        client.upsert(rows(("a", "x", 1)))
    action = str(write_action())
    assert given_out == [("_claim", action, False), ("save_as_complete", action, True)]


def test_a_single_writer_locks_a_metadata_table_that_was_made_while_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    path, off = f"memory://{uuid.uuid4().hex}/t", {"hoodie.metadata.enable": "false"}
    init_table(path)
    with local_client(path, off) as client:
        client.upsert(rows(("a", "x", 1)))
    # Another process has looked at the table, and is going to build its metadata table.
    before = TableSnapshot.load(path)
    update_commit, held = HoodieBackedTableMetadataWriter.update_commit, list[bool]()
    check_again = Committer._check_again

    def after_the_build(self: Committer, *arguments: Any) -> TableSnapshot:
        if not before.with_properties_reloaded().table_config.metadata_partitions:
            MetadataTable(before).writer.initialise(["files"])
        return check_again(self, *arguments)

    def noted(self: HoodieBackedTableMetadataWriter, *arguments: Any) -> bool:
        lock = before.storage.read(f"{path}/.hoodie/.locks/table_lock.json")
        held.append(not json.loads(lock)["expired"])
        return update_commit(self, *arguments)

    monkeypatch.setattr(Committer, "_check_again", after_the_build)
    monkeypatch.setattr(HoodieBackedTableMetadataWriter, "update_commit", noted)
    with local_client(path, {**off, "hoodie.clean.automatic": "false"}) as client:
        assert client.upsert(rows(("a", "x", 2), ("b", "x", 1))).is_committed
    assert held == [True]
    assert read_rows(path) == [("a", "x", 2), ("b", "x", 1)]
