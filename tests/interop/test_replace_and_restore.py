"""Replace commits, savepoints and restores: what one writer did is read, undone and gone on from by the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, read_with_hudi_rs
from tests.support.table_builder import TRIPS, local_client, rows

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8, pytest.mark.with_merge_on_read]

Rows = list[tuple[Any, ...]]
FIRST = [("a", "north", 1, 1.0), ("b", "north", 1, 1.0), ("c", "south", 1, 1.0), ("d", "east", 1, 1.0)]


def both(hudi: HudiProcess, base_path: Path) -> Rows:
    """Rows as real Hudi and hudi-rs read them, which agree."""
    names = TRIPS.names
    found = sorted(tuple(row[name] for name in names) for row in hudi.read(base_path).to_pylist())
    assert sorted(tuple(row[name] for name in names) for row in read_with_hudi_rs(base_path).to_pylist()) == found
    return found


def call(hudi: HudiProcess, procedure: str) -> None:
    """Call a procedure of Spark SQL that answers whether it did what it should; the table stays at its version."""
    for name, value in hudi.standing_options().items():
        hudi.sql(f"SET {name}={value}")
    assert hudi.sql(f"CALL {procedure}") == [["True"]]


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    path = tmp_path / "trips"
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **SIMPLE.init_arguments())
    return path


def test_each_reads_and_goes_on_from_what_the_other_replaced(hudi: HudiProcess, base_path: Path) -> None:
    options = SIMPLE.hudi_options("trips")
    local_client(base_path).upsert(rows(*FIRST))
    local_client(base_path).insert_overwrite(rows(("e", "north", 2, 2.0)))
    assert both(hudi, base_path) == sorted([("e", "north", 2, 2.0), *FIRST[2:]])
    hudi.write(base_path, rows(("e", "north", 3, 3.0), ("f", "north", 3, 3.0)), options)
    assert both(hudi, base_path) == sorted([("e", "north", 3, 3.0), ("f", "north", 3, 3.0), *FIRST[2:]])
    hudi.write(base_path, rows(("g", "south", 4, 4.0)), options, operation="insert_overwrite")
    local_client(base_path).upsert(rows(("g", "south", 5, 5.0), ("h", "south", 5, 5.0)))
    local_client(base_path).delete_partitions(["east"])
    expected = [("e", "north", 3, 3.0), ("f", "north", 3, 3.0), ("g", "south", 5, 5.0), ("h", "south", 5, 5.0)]
    assert both(hudi, base_path) == expected
    hudi.write(base_path, rows(("d", "east", 6, 6.0)), options)
    assert both(hudi, base_path) == sorted([*expected, ("d", "east", 6, 6.0)])
    local_client(base_path).insert_overwrite_table(rows(("z", "west", 7, 7.0)))
    assert both(hudi, base_path) == [("z", "west", 7, 7.0)]


def test_real_hudi_lists_our_savepoint_and_restores_to_it(hudi: HudiProcess, base_path: Path) -> None:
    local_client(base_path).upsert(rows(*FIRST))
    kept = local_client(base_path).upsert(rows(("a", "north", 2, 2.0))).instant_time
    local_client(base_path).savepoint(kept, user="ann", comment="before the overwrite")
    expected = both(hudi, base_path)
    local_client(base_path).insert_overwrite(rows(("x", "north", 3, 3.0)))
    hudi.write(base_path, rows(("y", "south", 4, 4.0)), SIMPLE.hudi_options("trips"))
    assert [row[0] for row in hudi.sql(f"CALL show_savepoints(path => '{base_path}')")] == [kept]
    call(hudi, f"rollback_to_savepoint(path => '{base_path}', instant_time => '{kept}')")
    assert both(hudi, base_path) == expected
    local_client(base_path).upsert(rows(("a", "north", 9, 9.0)))
    assert both(hudi, base_path) == sorted([("a", "north", 9, 9.0), *expected[1:]])
    call(hudi, f"delete_savepoint(path => '{base_path}', instant_time => '{kept}')")
    assert savepoints(HoodieTableMetaClient.load(str(base_path)).active_timeline) == []


def test_we_restore_to_a_savepoint_of_real_hudi_and_it_goes_on(
    hudi: HudiProcess, base_path: Path, table_type: str
) -> None:
    options = SIMPLE.hudi_options("trips")
    hudi.write(base_path, rows(*FIRST), options)
    hudi.write(base_path, rows(("a", "north", 2, 2.0)), options)
    newest = HoodieTableMetaClient.load(str(base_path)).active_timeline.commits_timeline().last_instant
    assert newest is not None
    call(hudi, f"create_savepoint(path => '{base_path}', commit_time => '{newest.requested_time}')")
    expected = both(hudi, base_path)
    with_log = 2 if table_type == "MERGE_ON_READ" else 1
    (found,) = savepoints(HoodieTableMetaClient.load(str(base_path)).active_timeline)
    assert {path: len(names) for path, names in found.files.items()} == {"north": with_log, "south": 1, "east": 1}
    hudi.write(base_path, rows(("y", "south", 4, 4.0)), options, operation="insert_overwrite")
    local_client(base_path).upsert(rows(("d", "east", 5, 5.0)))
    local_client(base_path).restore_to_savepoint(newest.requested_time)
    assert both(hudi, base_path) == expected
    hudi.write(base_path, rows(("c", "south", 6, 6.0), ("new", "south", 6, 6.0)), options)
    changed = {**{row[0]: row for row in expected}, "c": ("c", "south", 6, 6.0), "new": ("new", "south", 6, 6.0)}
    assert both(hudi, base_path) == sorted(changed.values())


def test_real_hudi_rolls_back_our_replacecommit(hudi: HudiProcess, base_path: Path) -> None:
    local_client(base_path).upsert(rows(*FIRST))
    replaced = local_client(base_path).insert_overwrite(rows(("x", "north", 3, 3.0))).instant_time
    assert hudi.rollback(base_path, replaced)
    assert both(hudi, base_path) == sorted(FIRST)
