"""Keys that live at several places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import (
    HoodieConfigException,
    HoodieDeleteException,
    HoodieKeyException,
    HoodieNotSupportedException,
)
from hoodie.table.repair import drop_duplicates, find_duplicates
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA
from tests.support.table_invariants import check_table

ONE_FILE = {"hoodie__merge__allow__duplicate__on__inserts": "true", "hoodie__combine__before__insert": "false"}
NEW_FILES = {"hoodie__parquet__small__file__limit": "0", **ONE_FILE}


def insert(table: ServicesTable, *rows: tuple[str, int], region: str = "x", **properties: Any) -> str:
    """Rows of a key and an ordering value, added whatever is there."""
    made = [{"id": key, "region": region, "ts": ts} for key, ts in rows]
    with table.client(**{**NEW_FILES, **properties}) as client:
        return client.insert(pa.Table.from_pylist(made, SCHEMA)).instant_time


def model(**rows: int) -> dict[str, dict[str, int]]:
    return {key: {"ts": ts} for key, ts in rows.items()}


def test_a_table_that_is_well_has_none(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 2))
    insert(table, ("a", 1), region="y")
    found = find_duplicates(str(table.base_path))
    assert found.rows == ()
    assert repr(found) == f"0 keys of {table.base_path} live more than once"
    assert drop_duplicates(table.client()).instant_time is None


def test_of_a_key_in_several_files_the_row_with_the_largest_ordering_value_stays(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 9), ("c", 1))
    insert(table, ("a", 5), ("b", 2), ("d", 1))
    insert(table, ("a", 3))
    with pytest.raises(AssertionError, match="live more than once"):
        check_table(table.base_path)
    would = drop_duplicates(table.client(), dry_run=True)
    assert would.key_count == 2
    assert "3 rows would be deleted" in repr(would)
    assert [(row.record_key, row.ordering_value) for row in would.rows if row.is_kept] == [("a", 5), ("b", 9)]
    done = drop_duplicates(table.client())
    assert done.rows == would.rows
    assert f"3 rows deleted by commit {done.instant_time}" in done.headline
    check_table(table.base_path, model(a=5, b=9, c=1, d=1))
    assert find_duplicates(str(table.base_path)).rows == ()


def test_a_client_that_leaves_commits_to_its_caller_drops_nothing(table: ServicesTable) -> None:
    insert(table, ("a", 1))
    insert(table, ("a", 5))
    before = table.load().history()
    with table.client(hoodie__auto__commit="false") as client:
        assert drop_duplicates(client, dry_run=True).key_count == 1
        with pytest.raises(HoodieConfigException, match="give a client that commits by itself"):
            drop_duplicates(client)
    assert list(table.load().history()) == list(before)


def test_the_path_of_a_table_is_no_client(table: ServicesTable) -> None:
    with pytest.raises(HoodieConfigException, match="writes a commit: give it a client"):
        drop_duplicates(str(table.base_path))  # type: ignore[arg-type]


def test_of_equal_ordering_values_the_later_commit_stays(table: ServicesTable) -> None:
    insert(table, ("a", 1))
    later = insert(table, ("a", 1))
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=1))
    assert hoodie.read_table(str(table.base_path))["_hoodie_commit_time"].to_pylist() == [later]


def test_a_key_twice_in_one_file_keeps_one_row(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 1), ("a", 7), ("a", 3), ("c", 1), **ONE_FILE)
    assert len(table.files()["x"]) == 1
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=7, b=1, c=1))


def test_rows_of_one_commit_are_told_apart_by_their_place(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("a", 1), ("a", 1))
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=1))


def test_a_key_in_one_file_and_in_others_keeps_one_row(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("a", 2), ("b", 1))
    insert(table, ("a", 9), ("a", 8), ("b", 0))
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=9, b=1))


def test_a_file_of_losers_only_stays_readable(table: ServicesTable) -> None:
    insert(table, ("a", 1))
    insert(table, ("a", 2))
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=2))
    table._ts = 5
    table.upsert("a")
    check_table(table.base_path, model(a=6))


def test_a_null_ordering_value_loses(table: ServicesTable) -> None:
    rows = [{"id": "a", "region": "x", "ts": ts} for ts in (None, -5)]
    with table.client(**NEW_FILES) as client:
        client.insert(pa.Table.from_pylist(rows, SCHEMA))
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=-5))


def test_other_commits_can_follow_and_the_repair_can_be_undone(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 1))
    insert(table, ("a", 2))
    done = drop_duplicates(table.client())
    assert done.instant_time is not None
    history = {row.instant_time: row for row in table.load().history()}
    assert history[done.instant_time].operation == "DELETE_PREPPED"
    assert history[done.instant_time].rows_deleted == 1
    with table.client() as client:
        assert client.rollback(done.instant_time)
    assert len(find_duplicates(str(table.base_path)).rows) == 2
    drop_duplicates(table.client())
    check_table(table.base_path, model(a=2, b=1))


def test_only_partitions_that_are_named_are_looked_at(table: ServicesTable) -> None:
    for region in "xy":
        insert(table, ("a", 1), region=region)
        insert(table, ("a", 2), region=region)
    found = find_duplicates(str(table.base_path), partitions=["y"])
    assert {row.partition_path for row in found.rows} == {"y"}
    drop_duplicates(table.client(), partitions=["y"])
    assert {row.partition_path for row in find_duplicates(str(table.base_path)).rows} == {"x"}


def test_across_partitions_a_key_lives_once(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 1))
    insert(table, ("a", 2), region="y")
    assert find_duplicates(str(table.base_path)).rows == ()
    done = drop_duplicates(table.client(hoodie__index__type="GLOBAL_SIMPLE"), across_partitions=True)
    assert [(row.partition_path, row.is_kept) for row in done.rows] == [("y", True), ("x", False)]
    check_table(table.base_path, model(a=2, b=1))


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "INMEMORY", "database"])
def test_every_index_finds_the_row_that_stayed(table: ServicesTable, index: str) -> None:
    name = {"hoodie__index__type": index}
    if index == "database":
        name = {"hoodie__index__class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
    insert(table, ("a", 1), ("b", 1), **name)
    insert(table, ("a", 0), **name)
    with table.client(**name) as client:
        drop_duplicates(client)
        result = client.upsert(pa.Table.from_pylist([{"id": "a", "region": "x", "ts": 7}], SCHEMA))
    assert result.commit_metadata.total_updates == 1
    check_table(table.base_path, model(a=7, b=1))


def test_a_bucket_index_does_not_let_a_key_change_its_bucket(table: ServicesTable) -> None:
    insert(table, ("a", 1))
    insert(table, ("a", 2))
    bucket = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": 1}
    with pytest.raises(HoodieNotSupportedException, match="bucket index"):
        drop_duplicates(table.client(**bucket), dry_run=True)


@pytest.mark.parametrize("changed", ["loser", "kept"])
def test_a_table_that_was_changed_since_loses_nothing(
    table: ServicesTable, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    insert(table, ("a", 1), ("b", 1))
    insert(table, ("a", 2), ("c", 1))
    client = table.client()
    write = client.delete_prepped_records

    def late(rows: Any) -> Any:
        table.upsert("b" if changed == "loser" else "c")
        return write(rows)

    monkeypatch.setattr(client, "delete_prepped_records", late)
    with pytest.raises(HoodieDeleteException, match="changed since"):
        drop_duplicates(client)
    assert len(find_duplicates(str(table.base_path)).rows) == 2
    drop_duplicates(table.client())
    assert find_duplicates(str(table.base_path)).rows == ()
    assert {key for key, _, _ in table.read()} == {"a", "b", "c"}


def test_a_table_without_stored_keys_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "v")
    virtual = {"hoodie.populate.meta.fields": "false"}
    HoodieTableMetaClient.init_table(path, table_name="v", record_key_fields="id", properties=virtual)
    with pytest.raises(HoodieNotSupportedException, match="no record keys"):
        find_duplicates(path)


# --- delete_prepped_records -------------------------------------------------------------------------------------------


def places(table: ServicesTable, *rows: tuple[str, int]) -> pa.Table:
    [file] = table.load().files()
    return pa.table(
        {
            "_hoodie_record_key": [key for key, _ in rows],
            "_hoodie_partition_path": ["x"] * len(rows),
            "_hoodie_file_name": [file.file_name] * len(rows),
            "_hoodie_row_position": [position for _, position in rows],
        }
    )


def test_rows_are_deleted_by_their_places(table: ServicesTable) -> None:
    insert(table, ("a", 1), ("b", 2), ("c", 3))
    with table.client() as client:
        client.delete_prepped_records(places(table, ("b", 1)))
    check_table(table.base_path, model(a=1, c=3))


@pytest.mark.parametrize("row", [("a", 1), ("a", 3), ("a", -1), ("z", 0)])
def test_a_row_that_is_not_there_is_refused(table: ServicesTable, row: tuple[str, int]) -> None:
    insert(table, ("a", 1), ("b", 2), ("c", 3))
    with table.client() as client, pytest.raises(HoodieDeleteException, match="not where they were"):
        client.delete_prepped_records(places(table, row))
    check_table(table.base_path, model(a=1, b=2, c=3))


def test_rows_without_a_place_are_refused(table: ServicesTable) -> None:
    insert(table, ("a", 1))
    good = places(table, ("a", 0))
    nulls = good.set_column(3, "_hoodie_row_position", pa.array([None], pa.int64()))
    other = good.set_column(2, "_hoodie_file_name", pa.array(["x.txt"]))
    bad = (
        (good.drop_columns(["_hoodie_file_name"]), "is missing"),
        (nulls, "nulls"),
        (other, "no name of a base file"),
    )
    for rows, message in bad:
        with table.client() as client, pytest.raises(HoodieKeyException, match=message):
            client.delete_prepped_records(rows)
    check_table(table.base_path, model(a=1))
