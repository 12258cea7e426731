"""Clusterings by real Hudi, done and pending, on tables that hoodie writes too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS
from hoodie.exception import HoodieClusteringUpdateException, HoodieNotSupportedException
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE
from tests.interop.test_replace_and_restore import both
from tests.support.table_builder import local_client, rows
from tests.support.table_invariants import check_table

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
INLINE = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
FIRST = [("a", "north", 1, 1.0), ("b", "north", 1, 1.0), ("c", "south", 1, 1.0)]
SECOND = [("d", "north", 2, 2.0), ("e", "south", 2, 2.0)]


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    """Two files in each of two partitions."""
    path = tmp_path / "trips"
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **SIMPLE.init_arguments())
    with local_client(path, OFF | NEW_FILES) as client:
        client.insert(rows(*FIRST))
        client.insert(rows(*SECOND))
    return path


def write(hudi: HudiProcess, base_path: Path, entry: tuple[str, str, int, float], **more: str) -> None:
    hudi.write(base_path, rows(entry), SIMPLE.hudi_options("trips") | OFF | NEW_FILES | more)


def cluster(hudi: HudiProcess, base_path: Path, step: str) -> None:
    """Plan a clustering (``schedule``), or carry out what is planned (``execute``)."""
    for name, value in hudi.standing_options().items():
        hudi.sql(f"SET {name}={value}")
    hudi.sql(f"CALL run_clustering(path => '{base_path}', op => '{step}')")


def pending(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert all(instant.action in CLUSTERING_ACTIONS for instant in timeline.filter_pending())
    return [instant.requested_time for instant in timeline.filter_pending()]


def newest(base_path: Path) -> str:
    last = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes().last_instant
    assert last is not None
    return last.requested_time


def test_what_was_clustered_is_read_changed_and_undone(hudi: HudiProcess, base_path: Path) -> None:
    write(hudi, base_path, ("f", "west", 3, 3.0), **INLINE)
    clustering, state = newest(base_path), sorted([*FIRST, *SECOND, ("f", "west", 3, 3.0)])
    assert pending(base_path) == [] and both(hudi, base_path) == state
    assert len(list((base_path / "north").glob("*.parquet"))) == 3
    with local_client(base_path, OFF) as client:
        client.upsert(rows(("a", "north", 4, 4.0), ("g", "south", 4, 4.0)))
        client.delete([HoodieKey("d", "north")])
        changed = [("a", "north", 4, 4.0), *FIRST[1:], SECOND[1], ("f", "west", 3, 3.0), ("g", "south", 4, 4.0)]
        assert both(hudi, base_path) == sorted(changed)
        check_table(base_path)
        client.restore_to_instant(clustering)
        assert both(hudi, base_path) == state
        assert client.rollback(clustering)
    assert both(hudi, base_path) == state and pending(base_path) == []
    write(hudi, base_path, ("a", "north", 5, 5.0))
    assert both(hudi, base_path) == sorted([("a", "north", 5, 5.0), *state[1:]])


@pytest.mark.interop_smoke(9)
def test_file_groups_that_a_pending_clustering_rewrites_stay_as_they_are(hudi: HudiProcess, base_path: Path) -> None:
    write(hudi, base_path, ("f", "west", 3, 3.0))
    cluster(hudi, base_path, "schedule")
    (clustering,) = pending(base_path)
    state = sorted([*FIRST, *SECOND, ("f", "west", 3, 3.0)])
    with local_client(base_path, OFF) as client:
        for change in (
            lambda: client.upsert(rows(("a", "north", 4, 4.0))),
            lambda: client.delete([HoodieKey("e", "south")]),
        ):
            with pytest.raises(HoodieClusteringUpdateException, match=clustering):
                change()
        with pytest.raises(HoodieNotSupportedException, match=clustering):
            client.insert_overwrite(rows(("x", "north", 4, 4.0)))
        assert both(hudi, base_path) == state
        # Other records are written beside it, and all of them are there when it is done.
        client.upsert(rows(("n", "north", 4, 4.0), ("o", "east", 4, 4.0)))
    state = sorted([*state, ("n", "north", 4, 4.0), ("o", "east", 4, 4.0)])
    assert both(hudi, base_path) == state and pending(base_path) == [clustering]
    cluster(hudi, base_path, "execute")
    assert pending(base_path) == [] and both(hudi, base_path) == state
    with local_client(base_path, OFF) as client:
        client.upsert(rows(("a", "north", 9, 9.0), ("e", "south", 9, 9.0), ("n", "north", 9, 9.0)))
    newer = {"a", "e", "n"}
    assert both(hudi, base_path) == sorted((*row[:2], 9, 9.0) if row[0] in newer else row for row in state)
    check_table(base_path)


def test_cleans_keep_what_a_pending_clustering_reads(hudi: HudiProcess, base_path: Path) -> None:
    write(hudi, base_path, ("f", "west", 3, 3.0))
    cluster(hudi, base_path, "schedule")
    assert len(pending(base_path)) == 1
    state = sorted([*FIRST, *SECOND, ("f", "west", 3, 3.0)])
    with local_client(base_path, OFF, cleaner_commits_retained="1") as client:
        for ts in range(4, 8):
            client.upsert(rows(("o", "east", ts, 4.0)))
        client.clean()
    state = sorted([*state, ("o", "east", 7, 4.0)])
    cluster(hudi, base_path, "execute")
    assert pending(base_path) == [] and both(hudi, base_path) == state


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_a_pending_clustering_is_given_up(hudi: HudiProcess, base_path: Path, undo: str) -> None:
    kept = newest(base_path)
    write(hudi, base_path, ("f", "west", 3, 3.0))
    cluster(hudi, base_path, "schedule")
    (clustering,) = pending(base_path)
    state = sorted([*FIRST, *SECOND])
    with local_client(base_path, OFF) as client:
        if undo == "rollback":
            assert client.rollback(clustering)
            state = sorted([*state, ("f", "west", 3, 3.0)])
        else:
            client.restore_to_instant(kept)
        assert pending(base_path) == [] and both(hudi, base_path) == state
        client.upsert(rows(("a", "north", 4, 4.0)))
    write(hudi, base_path, ("b", "north", 5, 5.0), **INLINE)
    assert both(hudi, base_path) == sorted([("a", "north", 4, 4.0), ("b", "north", 5, 5.0), *state[2:]])
