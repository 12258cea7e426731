"""Log files that no active commit names: what was taken back, and what was archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.table.new_keys_in_logs import groups_with_new_keys
from tests.support.table_builder import init_table, local_client, read_rows, rows

DATABASE = {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
IN_LOGS = {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"}
every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def found(base_path: Path) -> int:
    """How many file groups of partition x may have new keys in log files."""
    snapshot = TableSnapshot.load(str(base_path))
    view = snapshot.view()
    view.load_partitions(["x"])
    return len(groups_with_new_keys(snapshot, view.latest_file_slices("x")))


@every_version
def test_what_was_rolled_back_holds_no_keys(base_path: Path) -> None:
    with local_client(base_path, DATABASE) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        client.upsert(rows(("a", "x", 2)))
        client.rollback(client.upsert(rows(("b", "x", 2))).instant_time)
        assert found(base_path) == 0
        client.upsert(rows(("a", "x", 3), ("c", "x", 3)))
    assert read_rows(base_path) == [("a", "x", 3), ("b", "x", 1), ("c", "x", 3)]


@pytest.mark.without_metadata_table("archiving would wait for its compaction")
@every_version
@pytest.mark.parametrize("in_logs", [False, True])
def test_archived_commits_tell_whether_their_log_files_have_new_keys(
    base_path: Path, in_logs: bool, table_version: int
) -> None:
    properties = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.automatic": "false",
        "hoodie.cleaner.commits.retained": "1", "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.archive.automatic": "false"}  # fmt: skip
    with local_client(base_path, {**properties, **IN_LOGS}) as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("b", "x", 1) if in_logs else ("a", "x", 2)))
    with local_client(base_path, properties) as client:
        for number in range(4):
            client.upsert(rows(("z", "z", number)))
        assert client.archive()
    instants = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()
    assert len(instants) < 6
    # The archive of version 6 does not say whether there was a base file.
    assert found(base_path) == (in_logs or table_version == 6)


@every_version
def test_a_database_of_keys_finds_what_a_pending_compaction_left_in_log_files(base_path: Path) -> None:
    with local_client(base_path, {**DATABASE, "hoodie.compact.inline.max.delta.commits": "1"}) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        client.delete([HoodieKey("b", "x")])
        compaction = client.schedule_compaction()
        # Its key is in the old base file alone, and not in the one that the compaction makes.
        client.upsert(rows(("b", "x", 2)))
        client.compact(compaction)
        client.upsert(rows(("b", "x", 3), ("a", "x", 3)))
        assert read_rows(base_path) == [("a", "x", 3), ("b", "x", 3)]
        client.compact()
        client.upsert(rows(("b", "x", 4)))
    assert read_rows(base_path) == [("a", "x", 3), ("b", "x", 4)]


@every_version
def test_a_database_of_keys_learns_what_a_compaction_takes_from_log_files(base_path: Path) -> None:
    with local_client(base_path, DATABASE) as client:
        client.upsert(rows(("a", "x", 1)))
    with local_client(base_path, IN_LOGS) as client:
        client.upsert(rows(("n", "x", 1)))
    with local_client(base_path, {**DATABASE, "hoodie.compact.inline.max.delta.commits": "1"}) as client:
        client.compact()
        client.upsert(rows(("n", "x", 2)))
    assert read_rows(base_path) == [("a", "x", 1), ("n", "x", 2)]
