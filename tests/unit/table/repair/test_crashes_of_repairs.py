"""Repairs that fail at every single call to the storage, and are called again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from hoodie.common.table import table_definition
from hoodie.exception import HoodieException
from hoodie.table.repair import (
    drop_duplicates,
    rebuild_table_properties,
    remove_orphan_files,
    repair_partition_metadata,
)
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA
from tests.support.table_invariants import check_table
from tests.unit.client.test_crashes import shape_of
from tests.unit.table.repair.test_table_properties import given_for

ORPHAN = "stray-0_9-9-9_20300101000000000.parquet"
MODEL = {"a": {"ts": 1}, "b": {"ts": 2}}


@attrs.frozen
class Repair:
    """One repair of a table of the rows of `MODEL`.

    Attributes:
        name: Its name.
        hurt: Does the damage.
        run: Repairs it.
        check: What holds whatever happened, given the table and whether the repair has ended.
    """

    name: str
    hurt: Callable[[ServicesTable], None]
    run: Callable[[ServicesTable], Any]
    check: Callable[[ServicesTable, bool], None]


def add_orphan(table: ServicesTable) -> None:
    some = next(iter((table.base_path / "x").glob("*.parquet")))
    shutil.copy(some, table.base_path / "x" / ORPHAN)


def backup_of(table: ServicesTable) -> Path:
    return table.base_path.parent / "backup"


def orphan_is_somewhere(table: ServicesTable, is_done: bool) -> None:
    whole = next(iter(set((table.base_path / "x").glob("*.parquet")) - {table.base_path / "x" / ORPHAN})).stat().st_size
    here, there = table.base_path / "x" / ORPHAN, backup_of(table) / "x" / ORPHAN
    assert any(path.exists() and path.stat().st_size == whole for path in ([there] if is_done else [here, there]))
    assert not (is_done and here.exists())
    assert sorted(row[0] for row in table.read()) == ["a", "b"]


def lose_metadata(table: ServicesTable) -> None:
    (table.base_path / "x" / ".hoodie_partition_metadata").unlink()
    (table.base_path / "y" / ".hoodie_partition_metadata").write_bytes(b"")


def rows_are_seen_at_the_end(table: ServicesTable, is_done: bool) -> None:
    assert not is_done or sorted(row[0] for row in table.read()) == ["a", "b"]


def cut_properties(table: ServicesTable) -> None:
    path = table.base_path / ".hoodie" / "hoodie.properties"
    path.write_bytes(path.read_bytes()[:200])


def double(table: ServicesTable) -> None:
    options = {"hoodie__merge__allow__duplicate__on__inserts": "true", "hoodie__parquet__small__file__limit": 0}
    for ts in (0, -1):
        rows = [{"id": "a", "region": "x", "ts": ts}]
        with table.client(**options) as client:
            client.insert(pa.Table.from_pylist([*rows, *rows], SCHEMA))


def every_key_has_its_row(table: ServicesTable, is_done: bool) -> None:
    rows = table.read()
    assert {("a", "x", 1), ("b", "y", 2)} <= set(rows)
    assert len(rows) == (2 if is_done else len(rows))


def drop(table: ServicesTable) -> None:
    with table.client() as client:
        drop_duplicates(client)


REPAIRS = [
    Repair(
        "orphan files",
        add_orphan,
        lambda table: remove_orphan_files(str(table.base_path), backup_folder=str(backup_of(table))),
        orphan_is_somewhere,
    ),
    Repair(
        "partition metadata",
        lose_metadata,
        lambda table: repair_partition_metadata(str(table.base_path)),
        rows_are_seen_at_the_end,
    ),
    Repair(
        "properties",
        cut_properties,
        lambda table: rebuild_table_properties(
            str(table.base_path), properties=given_for(table_definition.DEFAULT_TABLE_VERSION)
        ),
        rows_are_seen_at_the_end,
    ),
    Repair("duplicates", double, drop, every_key_has_its_row),
]


@pytest.mark.usefixtures("faulty_storage")
@pytest.mark.parametrize("repair", REPAIRS, ids=[repair.name.replace(" ", "_") for repair in REPAIRS])
def test_a_repair_that_fails_at_any_call_is_finished_by_the_next(tmp_path: Path, repair: Repair) -> None:
    table = ServicesTable(tmp_path / "t")
    table.upsert("a")
    table.upsert("b", region="y")
    repair.hurt(table)
    template = tmp_path / "template"
    table.base_path.rename(template)

    def attempt(faults: Faults) -> BaseException | None:
        shutil.rmtree(table.base_path, ignore_errors=True)
        shutil.rmtree(backup_of(table), ignore_errors=True)
        shutil.copytree(template, table.base_path)
        return run_with_faults(faults, lambda: repair.run(table))

    healthy = Faults()
    assert attempt(healthy) is None
    repair.check(table, True)
    count = 0
    seen = set()
    for dies in (True, False):
        for number, how in faults_of(healthy.calls, dies):
            faults = Faults(number, how, dies)
            attempt(faults)
            what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
            count += 1
            state = (shape_of(table.base_path), backup_of(table).exists(), how == "torn")
            if state in seen:
                continue
            seen.add(state)
            try:
                repair.check(table, False)
                repair.run(table)
                repair.check(table, True)
                check_table(table.base_path, MODEL)
            except (AssertionError, HoodieException) as problem:
                problem.add_note(what)
                raise
    print(f"{repair.name}: {len(healthy.calls)} calls, {count} failures, {len(seen)} states on storage")
