"""Change data: the ``.cdc`` files that writes leave beside base files, held against models."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE, HoodieCDCSupplementalLoggingMode
from hoodie.exception import HoodieCommitException, HoodieConfigException
from hoodie.table.repair import find_orphan_files
from tests.support.change_data import (
    MODES,
    Change,
    as_stored,
    changes_between,
    changes_of_files,
    check_stored_changes,
    init_cdc_table,
    new_rows,
    stored_changes,
    with_change_data,
)
from tests.support.metadata_table_checks import check_equals_a_new_one
from tests.support.model import TableModel
from tests.support.pairs import each_pair
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_trips, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import read_commit

VERSIONS = (6, 8, 9)
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
every_table = each_pair(["table_version"], table_version=VERSIONS, table_type=TYPES, mode=MODES)
FIRST = (("a", "x", 10, 1.0), ("b", "x", 10, 2.0), ("c", "y", 10, 3.0))


def new_client(path: Path, **given: Any) -> HoodieLocalWriteClient:
    return local_client(path, SMALL_FILTERS, parallelism=1, **given)


# --- operations -------------------------------------------------------------------------------------------------------

A, B, C = FIRST
A2, D, E, E_IN_Z = ("a", "x", 20, 5.0), ("d", "x", 1, 4.0), ("e", "y", 1, 5.0), ("e", "z", 1, 5.0)
Operation = Callable[[HoodieLocalWriteClient, Path], HoodieWriteResult]


def rows_of(path: Path, key: str) -> pa.Table:
    return hoodie.read_table(str(path), filters=[("id", "=", key)])


def write_back(client: HoodieLocalWriteClient, path: Path) -> HoodieWriteResult:
    stored = rows_of(path, "a")
    return client.upsert_prepped_records(stored.set_column(stored.column_names.index("fare"), "fare", [[7.0]]))


OPERATIONS: dict[str, tuple[Operation, list[Change], list[Change]]] = {
    # Each with the changes of a copy-on-write table, and with those of a merge-on-read table that has rewritten a file.
    "upsert": (
        lambda c, _: c.upsert(rows(A2, ("b", "x", 5, 9.0), D)),
        [("i", "d", None, D), ("u", "a", A, A2)],
        [("i", "d", None, D), ("u", "a", A, A2)],
    ),
    "upsert of equal rows": (lambda c, _: c.upsert(rows(A, C)), [("u", "a", A, A), ("u", "c", C, C)], []),
    "upsert of losing rows": (lambda c, _: c.upsert(rows(("a", "x", 1, 9.0))), [], []),
    "upsert of new keys": (
        lambda c, _: c.upsert(rows(D, E)),
        [("i", "d", None, D), ("i", "e", None, E)],
        [("i", "d", None, D), ("i", "e", None, E)],
    ),
    "insert": (lambda c, _: c.insert(rows(D, E_IN_Z)), [("i", "d", None, D)], [("i", "d", None, D)]),
    "bulk_insert": (lambda c, _: c.bulk_insert(rows(D, E)), [], []),
    "delete": (lambda c, _: c.delete([HoodieKey("a", "x"), HoodieKey("nobody", "x")]), [("d", "a", A, None)], []),
    "delete of all rows of a file": (lambda c, _: c.delete([HoodieKey("c", "y")]), [("d", "c", C, None)], []),
    "upsert_prepped": (write_back, [("u", "a", A, ("a", "x", 10, 7.0))], []),
    "delete by a condition": (lambda c, _: c.delete(where=[("id", "=", "b")]), [("d", "b", B, None)], []),
    "insert_prepped": (lambda c, _: c.insert_prepped_records(rows(E)), [("i", "e", None, E)], [("i", "e", None, E)]),
    "insert_overwrite": (lambda c, _: c.insert_overwrite(rows(D)), [], []),
    "insert_overwrite_table": (lambda c, _: c.insert_overwrite_table(rows(A2)), [], []),
    "delete_partitions": (lambda c, _: c.delete_partitions(["x"]), [], []),
}


@pytest.mark.parametrize("name", OPERATIONS)
@every_table
def test_an_operation_stores_the_changes_of_the_files_that_it_rewrites(
    tmp_path: Path, table_version: int, table_type: str, mode: HoodieCDCSupplementalLoggingMode, name: str
) -> None:
    path = init_cdc_table(tmp_path / "t", mode, table_type=table_type)
    run, of_copy_on_write, of_merge_on_read = OPERATIONS[name]
    with new_client(path) as client:
        first = client.upsert(rows(*FIRST)).instant_time
        assert stored_changes(path, first) == []
        instant_time = run(client, path).instant_time
    expected = of_copy_on_write if table_type == "COPY_ON_WRITE" else of_merge_on_read
    assert stored_changes(path, instant_time) == as_stored(expected, mode)
    check_stored_changes(path, instant_time)
    check_table(path)
    check_equals_a_new_one(path, may_be_absent=True)


# --- histories --------------------------------------------------------------------------------------------------------

HISTORY = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": 4,
    "hoodie.keep.min.commits": 6,
    "hoodie.keep.max.commits": 8,
    "hoodie.parquet.small.file.limit": 1 << 20,
    "hoodie.compact.inline.max.delta.commits": 2,
}
STEPS = {
    "upsert": 8, "insert": 3, "delete": 3, "insert_overwrite": 1, "delete_partitions": 0.5, "compact": 2,
    "log_compact": 1, "cluster": 1, "rollback": 1.5, "clean": 1, "archive": 1, "restore": 1,
}  # fmt: skip


class History:
    """Random steps on a table, and what it and the changes of each commit must be."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.model = TableModel(is_global=False)
        self.is_merge_on_read = False
        self.saved: tuple[str, TableModel] | None = None
        self.time = 0

    def step(self, client: HoodieLocalWriteClient, name: str) -> None:
        before, written, found = self.model, set[Any](), None
        if name in ("upsert", "rollback"):
            given = self._rows(self.random.sample(range(14), 5))
            found = client.upsert(rows(*given)).instant_time
            winning = [row for row in given if row[2] >= before.get((row[1], row[0]), row)[2]]
            self.model, written = before.upsert(winning), {(row[1], row[0]) for row in winning}
            if name == "rollback":
                client.rollback(found)
                self.model, found = before, None
        elif name == "insert":
            free = [number for number in range(40) if not any(key[1] == f"k{number}" for key in before)]
            given = self._rows(self.random.sample(free, 2))
            found = client.insert(rows(*given)).instant_time
            self.model = before.upsert(given)
        elif name == "delete":
            gone = self.random.sample(sorted(before), min(2, len(before)))
            found = client.delete([HoodieKey(key, part) for part, key in [*gone, ("x", "nobody")]]).instant_time
            self.model = before.delete((key, part) for part, key in gone)
        elif name == "insert_overwrite":
            given = self._rows(self.random.sample(range(14), 3))
            found = client.insert_overwrite(rows(*given)).instant_time
            self.model = before.insert_overwrite(given)
        elif name == "delete_partitions":
            found = client.delete_partitions(["y"]).instant_time
            self.model = before.delete_partitions(["y"])
        elif name in ("compact", "log_compact", "cluster"):
            self._serve(client, name)
        elif name == "restore":
            self._restore(client)
        else:
            getattr(client, name)()
        if found is not None:
            self._check(found, before, written)

    def _rows(self, numbers: list[int]) -> list[tuple[Any, ...]]:
        self.time += 1
        late = self.random.choice([0, 0, 5])
        return [(f"k{n}", "xy"[n % 2], max(self.time - late, 0), self.random.random()) for n in numbers]

    def _serve(self, client: HoodieLocalWriteClient, name: str) -> None:
        if name != "cluster" and not self.is_merge_on_read:
            return
        planned = {
            "compact": client.schedule_compaction,
            "log_compact": client.schedule_log_compaction,
            "cluster": client.schedule_clustering,
        }[name]()
        run = {"compact": client.compact, "log_compact": client.log_compact, "cluster": client.cluster}[name]
        if planned is not None and run(planned) is not None:
            assert stored_changes(self.path, planned) == []

    def _restore(self, client: HoodieLocalWriteClient) -> None:
        if self.saved is None:
            self.saved = client.savepoint().instant_time, self.model
        else:
            client.restore_to_savepoint(self.saved[0])
            self.model = self.saved[1]
            client.delete_savepoint(self.saved[0])
            self.saved = None

    def _check(self, instant_time: str, before: TableModel, written: set[Any]) -> None:
        expected = changes_of_files(self.path, instant_time)
        check_stored_changes(self.path, instant_time)
        is_replacing = bool(getattr(read_commit(self.path, instant_time), "replaced_file_groups", ()))
        if not self.is_merge_on_read and not is_replacing:
            found = sorted([*expected, *new_rows(self.path, instant_time)], key=repr)
            told = [(op, key[1], old, new) for op, key, old, new in changes_between(before, self.model, written)]
            assert found == sorted(told, key=repr)


@pytest.mark.parametrize("seed", range(6))
@every_table
@pytest.mark.one_in(3)
def test_each_commit_of_a_history_stores_its_changes(
    tmp_path: Path, table_version: int, table_type: str, mode: HoodieCDCSupplementalLoggingMode, seed: int
) -> None:
    path = init_cdc_table(tmp_path / "t", mode, table_type=table_type)
    history = History(path, seed)
    history.is_merge_on_read = table_type == "MERGE_ON_READ"
    steps: list[str] = []
    with new_client(path, **HISTORY) as client:
        for name in ["upsert", *history.random.choices(list(STEPS), list(STEPS.values()), k=22)]:
            steps.append(name)
            try:
                history.step(client, name)
                assert sorted(read_trips(path)) == sorted(history.model.values())
            except BaseException:
                print(f"seed {seed}: {steps}")
                raise
    check_table(path, was_cleaned=True)
    assert not find_orphan_files(str(path)).files
    assert hoodie.Table(str(path)).validate().is_right


# --- tables that begin and cease to store change data -----------------------------------------------------------------


def cdc_properties_of(path: Path) -> dict[str, str]:
    return {key: value for key, value in hoodie.Table(str(path)).properties().items() if ".cdc." in key}


@pytest.mark.parametrize("table_type", TYPES)
def test_a_table_begins_to_store_change_data_and_ceases(tmp_path: Path, table_type: str) -> None:
    path = Path(init_table(tmp_path / "t", table_type=table_type))
    table = hoodie.Table(str(path))
    with new_client(path) as client:
        client.upsert(rows(*FIRST))
        newest = client.upsert(rows(A2, D)).instant_time
        planned = table.set_properties({CDC_ENABLED: True}, dry_run=True)
        assert planned.changes_after == newest
        assert cdc_properties_of(path).get(CDC_ENABLED, "false") == "false"
        begun = table.set_properties({CDC_ENABLED: True, LOGGING_MODE: "data_before"})
        assert begun.changes_after == newest and f"queries of changes can begin at {newest}" in str(begun)
        assert cdc_properties_of(path) == {CDC_ENABLED: "true", LOGGING_MODE: "DATA_BEFORE"}
        stored = client.upsert(rows(("a", "x", 30, 6.0), ("e", "x", 1, 5.0))).instant_time
        assert stored_changes(path, stored) == [("i", "e", None, None), ("u", "a", A2, None)]
        assert table.set_properties({LOGGING_MODE: "OP_KEY_ONLY"}).changes_after == stored
        ceased = table.set_properties({CDC_ENABLED: False})
        assert ceased.changes_after is None and "queries" not in str(ceased)
        assert cdc_properties_of(path) == {CDC_ENABLED: "false"}
        left = client.upsert(rows(("a", "x", 40, 7.0), ("f", "x", 1, 5.0))).instant_time
        assert not any(stat.cdc_stats for stat in read_commit(path, left).write_stats)
    check_table(path)


def test_the_default_mode_is_stored_and_an_empty_table_tells_all_its_changes(tmp_path: Path) -> None:
    path = Path(init_table(tmp_path / "t"))
    begun = hoodie.Table(str(path)).set_properties({CDC_ENABLED: "TRUE"})
    assert begun.changes_after == "000"
    assert cdc_properties_of(path) == {CDC_ENABLED: "TRUE", LOGGING_MODE: "DATA_BEFORE_AFTER"}
    with new_client(path) as client:
        client.upsert(rows(*FIRST))
        assert stored_changes(path, client.upsert(rows(A2)).instant_time) == [("u", None, A, A2)]


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("commits_elsewhere", [False, True])
def test_a_write_that_began_before_the_change_data_is_refused(
    tmp_path: Path, table_type: str, commits_elsewhere: bool
) -> None:
    path = Path(init_table(tmp_path / "t", table_type=table_type))
    with new_client(path) as client:
        client.upsert(rows(*FIRST))
    with new_client(path, **{"hoodie.auto.commit": "false"}) as client, new_client(path) as other:
        instant_time = client.start_commit()
        result = client.upsert(rows(A2, D), instant_time)
        hoodie.Table(str(path)).set_properties({CDC_ENABLED: True})
        with pytest.raises(HoodieCommitException, match="began to store change data"):
            (other if commits_elsewhere else client).commit(instant_time, result)
        client.rollback(instant_time)
    assert read_trips(path) == sorted(FIRST)


@pytest.mark.parametrize("table_type", TYPES)
def test_a_write_that_stores_change_data_is_committed_after_the_table_ceased(tmp_path: Path, table_type: str) -> None:
    path = init_cdc_table(tmp_path / "t", table_type=table_type)
    with new_client(path, **{"hoodie.auto.commit": "false"}) as client:
        first = client.start_commit()
        client.commit(first, client.upsert(rows(*FIRST), first))
        instant_time = client.start_commit()
        result = client.upsert(rows(A2, D), instant_time)
        hoodie.Table(str(path)).set_properties({CDC_ENABLED: False})
        assert client.commit(instant_time, result)
    assert stored_changes(path, instant_time) == [("i", None, None, D), ("u", None, A, A2)]
    check_table(path)


@pytest.mark.parametrize(
    ("stored", "given", "key"),
    [
        ({}, {CDC_ENABLED: "true"}, CDC_ENABLED),
        (with_change_data(), {CDC_ENABLED: "false"}, CDC_ENABLED),
        (with_change_data(), {CDC_ENABLED: "true", LOGGING_MODE: "op_key_only"}, LOGGING_MODE),
        (with_change_data("DATA_BEFORE"), {LOGGING_MODE: "data_before_after"}, LOGGING_MODE),
    ],
)
def test_options_that_contradict_the_table_are_refused(
    tmp_path: Path, stored: dict[str, str], given: dict[str, str], key: str
) -> None:
    path = Path(init_table(tmp_path / "t", properties=stored))
    with pytest.raises(HoodieConfigException, match=f"{key} = .*set_properties"), new_client(path, **given) as client:
        client.upsert(rows(*FIRST))


def test_options_make_a_table_that_stores_change_data_and_agree_with_it(tmp_path: Path) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        CDC_ENABLED: "true",
        LOGGING_MODE: "op_key_only",
    }
    path = tmp_path / "t"
    hoodie.write_table(rows(*FIRST), str(path), properties=options)
    assert cdc_properties_of(path) == {CDC_ENABLED: "true", LOGGING_MODE: "OP_KEY_ONLY"}
    hoodie.write_table(rows(A2), str(path), properties=options)
    with new_client(path, **{CDC_ENABLED: "True"}) as client:
        assert stored_changes(path, client.upsert(rows(D)).instant_time) == [("i", "d", None, None)]
    other = hoodie.Table.create(
        tmp_path / "u", rows(*FIRST), record_key_fields="id", partition_fields="region", properties={CDC_ENABLED: True}
    )
    assert other.properties()[LOGGING_MODE] == "DATA_BEFORE_AFTER"


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(("before", "after"), [(6, 8), (6, 9), (8, 9), (9, 8), (9, 6), (8, 6)])
def test_a_change_of_version_keeps_the_change_data(
    tmp_path: Path, before: int, after: int, table_type: str, mode: HoodieCDCSupplementalLoggingMode
) -> None:
    path = init_cdc_table(tmp_path / "t", mode, table_type=table_type, table_version=before)
    with new_client(path) as client:
        client.upsert(rows(*FIRST))
        client.upsert(rows(A2, D))
        older = client.upsert(rows(("b", "x", 20, 1.0), ("e", "x", 1, 1.0))).instant_time
    table = hoodie.Table(str(path))
    (table.upgrade if after > before else table.downgrade)(after)
    assert cdc_properties_of(path) == with_change_data(mode)
    check_stored_changes(path, older)
    with new_client(path) as client:
        newer = client.upsert(rows(("b", "x", 30, 2.0), ("f", "x", 1, 1.0))).instant_time
        assert len(stored_changes(path, newer)) == 2
        client.delete([HoodieKey("a", "x")])
    check_stored_changes(path, newer)
    assert {row[0] for row in read_trips(path)} == {"b", "c", "d", "e", "f"}
    check_table(path, was_cleaned=True)
