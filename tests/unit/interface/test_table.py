"""`hoodie.Table`: what a person does with a table by one object."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIOException,
    HoodieKeyException,
    HoodieRollbackException,
    HoodieSchemaException,
    HoodieWriteConflictException,
    MissingSchemaFieldException,
    TableExistsException,
    TableNotFoundException,
)

ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "city": ["oslo", "rome", "oslo", "rome"],
        "ts": [1, 1, 1, 1],
        "fare": [1.5, 2.5, None, 4.5],
        "day": [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3), None],
    }
)
MakeTable = Callable[..., Table]


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> HoodieTableType:
    """Both types of tables."""
    made: HoodieTableType = request.param
    return made


@pytest.fixture
def make(tmp_path: Path, table_type: HoodieTableType, table_version: int) -> MakeTable:
    """Makes the table of `ROWS`."""

    def table(data: Any = ROWS, **arguments: Any) -> Table:
        given = {"partition_fields": "city", "ordering_fields": "ts", **arguments}
        return Table.create(
            tmp_path / "trips",
            data,
            record_key_fields="id",
            table_type=table_type,
            table_version=table_version,
            **given,
        )

    return table


def leave_a_write(table: Table) -> str:
    """The instant of a write that is never completed."""
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert(ROWS, left)
    return left


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows by their id."""
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def fares(table: Table) -> Mapping[str, float | None]:
    """Id -> fare."""
    return {row["id"]: row["fare"] for row in rows_of(table.read())}


# --- creating -------------------------------------------------------------------------------------------------------


def test_a_table_is_created_with_the_rows_of_data(make: MakeTable, table_type: str, table_version: int) -> None:
    table = make()
    assert rows_of(table.read()) == ROWS.to_pylist()
    stored = table.properties()
    assert stored["hoodie.table.type"] == table_type
    assert stored["hoodie.table.version"] == str(table_version)
    assert stored["hoodie.table.name"] == "trips"
    assert [entry.state for entry in table.history()] == ["COMPLETED"]


def test_a_table_is_created_with_the_columns_of_a_schema(make: MakeTable) -> None:
    table = make(ROWS.schema)
    assert table.count() == 0
    assert table.schema() == ROWS.schema
    with pytest.raises(TableExistsException):
        make(ROWS.schema)
    with pytest.raises(MissingSchemaFieldException, match="fare"):
        table.upsert([{"id": "a", "city": "oslo", "ts": 1, "day": "2026-01-01"}])
    table.upsert(ROWS)
    assert rows_of(table.read()) == ROWS.to_pylist()


def test_of_several_rows_of_a_key_one_is_created(make: MakeTable) -> None:
    later = ROWS.slice(0, 1).set_column(2, "ts", pa.array([5])).set_column(3, "fare", pa.array([9.5]))
    table = make(pa.concat_tables([later, ROWS]))
    assert table.count() == 4
    assert fares(table)["a"] == 9.5


def test_a_second_creation_is_refused_and_writes_nothing(make: MakeTable) -> None:
    table = make()
    with pytest.raises(TableExistsException):
        make()
    assert len(table.history()) == 1


def test_a_creation_that_fails_leaves_no_folder(make: MakeTable, tmp_path: Path) -> None:
    with pytest.raises(HoodieKeyException, match="no usable key"):
        make(ROWS.set_column(0, "id", pa.nulls(4, pa.string())))
    assert not (tmp_path / "trips").exists()


def test_the_table_type_of_arguments_and_properties_must_agree(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="the argument says 'MERGE_ON_READ'"):
        Table.create(
            tmp_path, ROWS, record_key_fields="id", table_type="MERGE_ON_READ",
            properties={"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
        )  # fmt: skip


# --- the object -----------------------------------------------------------------------------------------------------


def test_making_one_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    table = Table(path)
    assert repr(table) == f"hoodie.Table({str(path)!r})"
    assert table.path == str(path)
    assert not path.exists()
    for call in (table.read, table.count, table.schema, table.history, lambda: table.upsert(ROWS), table.clean):
        with pytest.raises(TableNotFoundException, match="nothing"):
            call()
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": 7}, "path is 7"),
        ({"path": "t", "properties": {"hoodie.index.typ": "BLOOM"}}, "hoodie.index.type"),
        ({"path": "t", "storage_options": 7}, "storage_options"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        Table(**arguments)


def test_a_pickle_reads_the_same_table(make: MakeTable) -> None:
    table = pickle.loads(pickle.dumps(make()))
    assert table.count() == 4


def _credentials() -> Mapping[str, str]:
    return {"access_key_id": "AKIA-not-shown", "secret_access_key": "s3cr3t-not-shown"}


def test_a_pickle_of_a_moment_reads_that_moment(make: MakeTable) -> None:
    table = make()
    before = table.count()
    moment = pickle.loads(pickle.dumps(table.as_of(table.history()[0].instant_time)))
    table.delete(where="id = 'a'")
    assert (moment.count(), table.count()) == (before, before - 1)


def test_a_pickle_carries_credentials_as_a_function_alone() -> None:
    with pytest.raises(HoodieConfigException, match="as a function"):
        pickle.dumps(Table("s3://lake/t", storage_options=_credentials()))
    data = pickle.dumps(Table("s3://lake/t", storage_options=_credentials))
    assert b"not-shown" not in data
    assert repr(pickle.loads(data)) == "hoodie.Table('s3://lake/t')"
    pickle.dumps(Table("s3://lake/t", storage_options={"region": "eu-central-1"}))
    with pytest.raises(HoodieConfigException, match="hoodie.write.commit.callback.http.api.key"):
        pickle.dumps(Table("t", properties={"hoodie.write.commit.callback.http.api.key": "not-shown"}))


def test_threads_share_a_table(make: MakeTable) -> None:
    table = make()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(3):
                assert table.count() >= 4
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    table.upsert([{"id": "e", "city": "bern", "ts": 1, "fare": 1.0, "day": None}])
    for thread in threads:
        thread.join()
    assert not failed
    assert table.count() == 5


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("fare > 2 and city = 'rome'", "bd"),
        ("fare is null", "c"),
        ("day < date '2026-01-03'", "ab"),
        ([("fare", ">", 2), ("city", "=", "rome")], "bd"),
        (pc.field("fare") > 2, "bd"),
        (None, "abcd"),
        ([], "abcd"),
    ],
)
def test_a_condition_has_the_same_forms_everywhere(make: MakeTable, where: Any, ids: str) -> None:
    table = make()
    expected = set(ids)
    assert set(table.read("id", where)["id"].to_pylist()) == expected
    assert table.count(where) == len(expected)
    assert set(table.dataset("id", where).to_table()["id"].to_pylist()) == expected
    assert set(hoodie.read_table(table.path, filters=where)["id"].to_pylist()) == expected
    if isinstance(where, list) and not where:
        return
    assert table.update(where, {"fare": 8.0}).updated_count == len(expected)
    assert {key for key, fare in fares(table).items() if fare == 8.0} == expected


def test_results_have_the_columns_of_the_user(make: MakeTable) -> None:
    table = make()
    assert table.read().column_names == ROWS.column_names
    assert table.read(["fare", "_hoodie_record_key"]).column_names == ["fare", "_hoodie_record_key"]
    assert table.read("id").column_names == ["id"]
    assert table.read(meta_columns=True).column_names[:2] == ["_hoodie_commit_time", "_hoodie_commit_seqno"]
    assert table.scan().schema == ROWS.schema
    assert table.dataset().schema == ROWS.schema
    assert table.lookup([HoodieKey("a", "oslo")]).column_names == ROWS.column_names
    assert table.changes().rows.column_names == ROWS.column_names


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 9])
def test_a_limit_is_the_most_rows(make: MakeTable, limit: int) -> None:
    table = make()
    assert table.read(limit=limit).num_rows == min(limit, 4)
    assert table.to_pandas(limit=limit).shape == (min(limit, 4), 5)
    assert table.sql("select * from t", limit=limit).num_rows == min(limit, 4)
    assert len(table.partitions(limit=limit)) == min(limit, 2)


@pytest.mark.parametrize("limit", [-1, "3", True, 1.5])
def test_another_limit_is_refused(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(HoodieConfigException, match="limit is"):
        Table(tmp_path).read(limit=limit)


def test_other_libraries_get_the_same_rows(make: MakeTable) -> None:
    polars = pytest.importorskip("polars")
    table = make()
    assert rows_of(table.to_polars().filter(polars.col("fare") > 2).collect().to_arrow()) == rows_of(
        table.read(where="fare > 2")
    )
    assert sorted(table.to_pandas()["id"]) == list("abcd")
    assert table.sql("select city, count(*) as n from t group by city order by city").to_pylist() == [
        {"city": "oslo", "n": 2},
        {"city": "rome", "n": 2},
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [("select nothing from t", "DuckDB refuses"), ("selekt", "DuckDB refuses"), (7, "query is 7")],
)
def test_a_query_that_is_none_is_refused(make: MakeTable, query: Any, message: str) -> None:
    with pytest.raises(HoodieException, match=message):
        make().sql(query)


def test_a_query_sees_no_variables_of_the_program(make: MakeTable) -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows
    with pytest.raises(HoodieException, match="secret"):
        make().sql("select * from secret")


def test_keys_are_looked_up(make: MakeTable) -> None:
    table = make()
    assert rows_of(table.lookup([HoodieKey("a", "oslo"), HoodieKey("x", "oslo")])) == ROWS.slice(0, 1).to_pylist()
    assert table.lookup([HoodieKey("d", "rome")], "fare").to_pylist() == [{"fare": 4.5}]


def test_as_of_is_the_table_of_that_time(make: MakeTable) -> None:
    table = make()
    first = table.history()[0].instant_time
    table.add_columns({"tip": pa.int64()})
    table.delete(where="city = 'oslo'")
    before = table.as_of(first)
    assert (before.count(), table.count()) == (4, 2)
    assert before.schema() == ROWS.schema
    assert before.read("id", "fare > 2").num_rows == 2
    assert first in repr(before)
    with pytest.raises(HoodieConfigException, match="no time"):
        table.as_of("yesterday")


def test_a_snapshot_stays_what_it_was(make: MakeTable) -> None:
    table = make()
    with table.snapshot() as before:
        table.delete(where="city = 'oslo'")
        table.upsert([{"id": "e", "city": "bern", "ts": 1, "fare": 1.0, "day": None}])
        assert before.count() == 4
        assert rows_of(before.read()) == ROWS.to_pylist()
        assert before.sql("select count(*) as n from t").to_pylist() == [{"n": 4}]
    assert table.count() == 3


def test_changes_continue_where_the_last_ones_ended(make: MakeTable) -> None:
    table = make()
    first = table.changes()
    assert len(first) == 4
    assert table.changes(first.until).rows.num_rows == 0
    assert table.changes(first.until).until == first.until
    table.update("id = 'a'", {"fare": 7.0})
    table.upsert([{"id": "e", "city": "bern", "ts": 1, "fare": 1.0, "day": None}])
    second = table.changes(first.until)
    assert set(second.rows["id"].to_pylist()) == {"a", "e"}
    assert table.changes(first.until, where="id = 'e'", columns="fare").rows.to_pylist() == [{"fare": 1.0}]
    assert table.changes(second.until).rows.num_rows == 0
    assert "2 rows written after" in repr(second)


def test_changes_with_deletes_continue_where_the_last_ones_ended(make: MakeTable) -> None:
    table = make()
    first = table.changes(deletes=True)
    assert set(first.rows["op"].to_pylist()) == {"i"}
    assert len(first) == 4
    table.update("id = 'a'", {"fare": 7.0})
    table.delete(where="id = 'b'")
    second = table.changes(first.until, deletes=True, columns=["id", "fare"])
    assert sorted((row["op"], (row["before"] or {})["id"], row["after"]) for row in second.rows.to_pylist()) == [
        ("d", "b", None), ("u", "a", {"id": "a", "fare": 7.0}),
    ]  # fmt: skip
    assert second.until == table.changes(first.until).until
    assert len(table.changes(first.until, where="id = 'b'", deletes=True)) == 1
    assert len(table.changes(second.until, deletes=True)) == 0
    assert "2 changes made after" in repr(second)
    with pytest.raises(HoodieConfigException, match="meta columns"):
        table.changes(deletes=True, meta_columns=True)


def test_changes_after_a_commit_that_was_undone_say_so(make: MakeTable) -> None:
    table = make()
    undone = table.update("id = 'a'", {"fare": 7.0})
    last = table.changes().until
    table.rollback(undone.instant_time)
    with pytest.raises(HoodieException, match="undone") as raised:
        table.changes(since=last)
    assert "exchange" not in str(raised.value)


def test_changes_of_a_table_without_commits(tmp_path: Path) -> None:
    HoodieTableMetaClient.init_table(
        str(tmp_path), table_name="t", record_key_fields="id", ordering_fields="ts", schema=ROWS.schema
    )
    found = Table(tmp_path).changes()
    assert (len(found), found.until, found.rows.schema.names) == (0, None, ROWS.schema.names)


def test_properties_are_options_of_reads_and_writes(make: MakeTable) -> None:
    table = make()
    same = Table(table.path, properties={"hoodie.metadata.enable": "false", "hoodie.write.commit.on.errors": "true"})
    assert same.count() == 4
    with pytest.raises(HoodieConfigException):
        Table(table.path, properties={"hoodie.datasource.write.recordkey.field": "fare"}).upsert(ROWS)


# --- writing --------------------------------------------------------------------------------------------------------


def test_each_write_is_one_commit_that_prints(make: MakeTable) -> None:
    table = make()
    new = ROWS.slice(0, 1).set_column(0, "id", pa.array(["n"]))
    for write, count in (
        (table.insert, 5),
        (table.upsert, 5),
        (table.bulk_insert, 6),
    ):
        result = write(new)
        assert result.is_committed
        assert result.instant_time in str(result)
        assert table.count() == count


def test_overwrites_replace_all_or_some_partitions(make: MakeTable) -> None:
    table = make()
    new = pa.table({"id": ["z"], "city": ["oslo"], "ts": [1], "fare": [0.5], "day": [date(2026, 2, 1)]})
    table.overwrite(new, scope="partitions")
    assert set(fares(table)) == {"b", "d", "z"}
    table.overwrite(new)
    assert set(fares(table)) == {"z"}
    with pytest.raises(HoodieConfigException, match="scope"):
        table.overwrite(new, scope="all")


def test_rows_are_deleted_by_key_condition_and_partition(make: MakeTable) -> None:
    table = make()
    assert table.delete([HoodieKey("a", "oslo")]).deleted_count == 1
    assert table.delete(where="fare > 4").deleted_count == 1
    assert set(fares(table)) == {"b", "c"}
    table.delete_partitions(["rome"])
    assert set(fares(table)) == {"c"}
    with pytest.raises(HoodieConfigException, match="either keys or where"):
        table.delete()


def test_an_update_sets_columns_of_matching_rows(make: MakeTable) -> None:
    table = make()
    result = table.update("city = 'rome'", {"fare": pc.field("fare") * 2, "day": date(2026, 3, 1)})
    assert (result.updated_count, result.inserted_count) == (2, 0)
    expected = ROWS.to_pylist()
    for row in expected:
        if row["city"] == "rome":
            row.update(fare=row["fare"] * 2, day=date(2026, 3, 1))
    assert rows_of(table.read()) == expected
    assert table.update(set={"fare": None}).updated_count == 4
    assert set(fares(table).values()) == {None}
    assert table.update("id = 'nobody'", {"fare": 1}).updated_count == 0


def test_an_update_changes_only_the_rows_that_match_of_a_key_that_is_stored_twice(make: MakeTable) -> None:
    table = make()
    table.insert(ROWS.slice(0, 1).set_column(3, "fare", pa.array([70.0])), properties={
        "hoodie.parquet.small.file.limit": "0"
    })  # fmt: skip
    assert table.update("fare = 70", {"fare": 71.0}).updated_count == 1
    assert sorted(row["fare"] for row in table.read(where="id = 'a'").to_pylist()) == [1.5, 71.0]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"id": "x"}, HoodieKeyException, "record key or the partition path"),
        ({"city": "x"}, HoodieKeyException, "record key or the partition path"),
        ({"nobody": 1}, HoodieSchemaException, "its columns are id, city, ts, fare, day"),
        ({"_hoodie_file_name": "x"}, HoodieSchemaException, "no column of"),
        ({"fare": "much"}, HoodieSchemaException, "'fare', which is double"),
        ({"ts": pc.field("city")}, HoodieSchemaException, "'ts', which is int64"),
        ({"fare": pc.field("fares")}, HoodieSchemaException, "cannot be computed"),
        ({}, HoodieConfigException, "an empty dict: give a dict"),
        (None, HoodieConfigException, "give a dict"),
        ({7: 1}, HoodieConfigException, "names of columns"),
    ],
)
def test_an_update_that_cannot_be_is_refused_and_changes_nothing(
    make: MakeTable, values: Any, error: type[HoodieException], message: str
) -> None:
    table = make()
    with pytest.raises(error, match=message):
        table.update(None, values)
    assert rows_of(table.read()) == ROWS.to_pylist()
    assert {entry.state for entry in table.history()} == {"COMPLETED"}


def test_an_update_conflicts_with_a_write_that_it_did_not_see(make: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are read when the write begins: rows that come later must not be overwritten by older values."""
    table = make()
    optimistic = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    updated = Table(table.path, properties=optimistic)
    begun = HoodieLocalWriteClient._begun_table

    def other_writes_first(self: HoodieLocalWriteClient, instant_time: str) -> Any:
        monkeypatch.undo()
        found = begun(self, instant_time)
        Table(table.path, properties=optimistic).update("id = 'a'", {"fare": 50.0})
        return found

    monkeypatch.setattr(HoodieLocalWriteClient, "_begun_table", other_writes_first)
    with pytest.raises(HoodieWriteConflictException):
        updated.update("id = 'a'", {"fare": pc.field("fare") + 1})
    assert fares(table)["a"] == 50.0


@pytest.mark.parametrize(
    "value",
    [5.5, True, "7", Decimal("5.5"), pc.field("city"), pc.equal(pc.field("ts"), 1), pc.field("ts") + 2**40],
    ids=str,
)
def test_an_update_stores_no_other_value_than_the_given_one(tmp_path: Path, value: Any) -> None:
    table = Table.create(tmp_path, ROWS.append_column("i", pa.array([1, 2, 3, 4], pa.int32())), record_key_fields="id")
    with pytest.raises(HoodieSchemaException, match="'i', which is int32"):
        table.update(set={"i": value})
    assert sorted(table.read("i")["i"].to_pylist()) == [1, 2, 3, 4]


def test_an_update_takes_what_a_write_takes(make: MakeTable) -> None:
    table = make()
    table.update("id = 'a'", {"day": "2026-05-01", "fare": 3, "ts": pc.field("ts") * 2})
    (row,) = table.read(["day", "fare", "ts"], "id = 'a'").to_pylist()
    assert row == {"day": date(2026, 5, 1), "fare": 3.0, "ts": 2}
    nested = Table.create(
        f"{table.path}-nested", [{"id": "a", "at": {"x": 1, "y": 2}, "n": [1]}], record_key_fields="id"
    )
    nested.update(set={"at": {"X": 5}, "n": [2, 3]})
    assert nested.read(["at", "n"]).to_pylist() == [{"at": {"x": 5, "y": None}, "n": [2, 3]}]
    for wrong in ({"at": {"x": 1, "zz": 2}}, {"n": [1.5]}, {"at": {"x": 1.5}}):
        with pytest.raises(HoodieSchemaException):
            nested.update(set=wrong)


@pytest.mark.parametrize("where", [[], ()])
def test_an_empty_list_of_conditions_changes_nothing(make: MakeTable, where: Any) -> None:
    table = make()
    with pytest.raises(HoodieConfigException, match="an empty list"):
        table.delete(where=where)
    with pytest.raises(HoodieConfigException, match="an empty list"):
        table.update(where, {"fare": 1.0})
    assert rows_of(table.read()) == ROWS.to_pylist()


def test_an_iterator_that_is_used_up_overwrites_nothing(make: MakeTable) -> None:
    table = make()
    batches = iter(ROWS.slice(0, 1).to_batches())
    table.overwrite(batches)
    assert table.count() == 1
    with pytest.raises(HoodieConfigException, match="without any item"):
        table.overwrite(batches)
    assert table.count() == 1
    table.overwrite(ROWS.slice(0, 0))
    assert table.count() == 0


def test_writes_of_threads_that_share_a_table_queue(make: MakeTable) -> None:
    table = make()
    barrier = threading.Barrier(3)
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            barrier.wait(60)
            for turn in range(3):
                table.upsert([{"id": f"{number}-{turn}", "city": "oslo", "ts": 1, "fare": 1.0, "day": None}])
                table.update("id = 'a'", {"ts": pc.field("ts") + 1})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert table.count() == 4 + 9
    assert table.read("ts", "id = 'a'").to_pylist() == [{"ts": 10}]


def test_columns_are_added(make: MakeTable) -> None:
    table = make()
    assert table.add_columns({"tip": pa.float64(), "note": pa.string()}).names == [*ROWS.schema.names, "tip", "note"]
    assert table.read("tip", "id = 'a'").to_pylist() == [{"tip": None}]
    table.update("id = 'a'", {"tip": 1.5})
    assert table.read("tip", "id = 'a'").to_pylist() == [{"tip": 1.5}]
    wrongs: tuple[Any, ...] = ({"Tip": pa.int64()}, {}, 7)
    for wrong in wrongs:
        with pytest.raises(HoodieConfigException):
            table.add_columns(wrong)
    assert table.schema().names == [*ROWS.schema.names, "tip", "note"]


def test_the_plan_of_an_upsert_writes_nothing(make: MakeTable) -> None:
    table = make()
    plan = table.explain_upsert(ROWS.slice(0, 1))
    assert "oslo" in str(plan)
    assert len(table.history()) == 1


def test_a_client_takes_the_folder_alone(make: MakeTable) -> None:
    table = make()
    with HoodieLocalWriteClient(table.path) as client:
        client.delete(where="city = 'oslo'")
    with HoodieLocalWriteClient(Path(table.path)) as client:
        assert client.config.base_path == table.path
    assert table.count() == 2


# --- looking and care -----------------------------------------------------------------------------------------------


def test_history_files_and_partitions(make: MakeTable) -> None:
    table = make()
    second = table.update("id = 'a'", {"fare": 1.0})
    history = table.history()
    assert history[0].instant_time == second.instant_time
    assert len(table.history(limit=1)) == 1
    assert {file.partition_path for file in table.files()} == {"oslo", "rome"}
    assert [partition.partition_path for partition in table.partitions()] == ["oslo", "rome"]


def test_a_description_tells_what_a_table_holds(make: MakeTable, table_type: str, table_version: int) -> None:
    table = make()
    before = table.describe()
    assert (before.table_type, before.table_version, before.name) == (table_type, table_version, "trips")
    assert (before.record_key_fields, before.partition_fields, before.ordering_fields) == (("id",), ("city",), ("ts",))
    assert [column.name for column in before.columns] == ROWS.schema.names
    assert (before.row_count, before.partition_count, before.file_group_count, before.old_bytes) == (4, 2, 2, 0)
    files = {path: path.stat().st_size for path in Path(table.path).glob("*/*.parquet")}
    assert before.live_bytes == sum(files.values())
    saved = table.savepoint()
    second = table.update("city = 'oslo'", {"fare": 1.0})
    after = table.describe()
    assert (after.newest_commit, after.savepoints) == (second.instant_time, (saved.instant_time,))
    if table_type == HoodieTableType.COPY_ON_WRITE:
        assert (after.row_count, after.log_file_count) == (4, 0)
        (old,) = (size for path, size in files.items() if path.parent.name == "oslo")
        assert after.old_bytes == old
    else:
        assert (after.row_count, after.log_file_count, after.old_bytes) == (None, 1, 0)
        table.compact()
        assert table.describe().row_count == 4
        assert table.describe().newest_services["compaction"] > second.instant_time
    shown = str(after)
    for text in ("trips", "city", saved.instant_time, "2 file groups of 2 partitions"):
        assert text in shown
    assert "<table" in after._repr_html_()


def test_a_description_names_what_is_pending_and_small(make: MakeTable) -> None:
    table = make()
    left = leave_a_write(table)
    found = table.describe()
    assert [text.rpartition(" ")[2] for text in found.pending] == [left]
    assert found.small_file_count == found.base_file_count == 2
    assert Table(table.path, properties={"hoodie.parquet.small.file.limit": "0"}).describe().small_file_count == 0


def test_a_description_of_a_table_that_was_never_written(tmp_path: Path) -> None:
    HoodieTableMetaClient.init_table(str(tmp_path), table_name="t", record_key_fields="id")
    found = Table(tmp_path).describe()
    assert (found.columns, found.row_count, found.newest_commit, found.file_group_count) == ((), 0, None, 0)
    assert "rows" in repr(found)


@pytest.mark.table_version(9)
def test_indexes_are_created_listed_and_dropped(make: MakeTable) -> None:
    table = make()
    assert [index.name for index in table.indexes()] == ["files"]
    assert table.create_index("city")
    assert not table.create_index("city")
    found = {index.kind: index for index in table.indexes()}
    assert (found["secondary_index"].columns, found["secondary_index"].state) == ("city", "ready")
    assert "record_index" in found
    assert table.drop_index("city")
    assert not table.drop_index("city")
    assert "secondary_index" not in {index.kind for index in table.indexes()}


def test_a_dry_run_of_a_clean_tells_what_the_clean_deletes(make: MakeTable) -> None:
    keeps_one = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.automatic": "false"}
    table = Table(make().path, properties=keeps_one)
    for number in range(4):
        table.upsert(
            ROWS.set_column(2, "ts", pa.array([number + 2] * 4)), properties={"hoodie.compact.inline": "false"}
        )
        table.compact()
    planned = table.clean(dry_run=True)
    files = {path for path in Path(table.path).rglob("*.parquet") if ".hoodie" not in path.parts}
    assert planned.files > 0
    assert planned.is_dry_run
    assert "would delete" in repr(planned)
    assert {path for path in Path(table.path).rglob("*.parquet") if ".hoodie" not in path.parts} == files
    done = table.clean()
    assert (done.files, done.partitions) == (planned.files, planned.partitions)
    assert done.instant_time is not None
    assert "deleted" in repr(done)
    with pytest.raises(HoodieIOException):
        table.as_of(table.history()[-1].instant_time).read()
    assert repr(table.clean()) == "clean: nothing to delete"


def test_a_savepoint_is_restored(make: MakeTable) -> None:
    table = make()
    made = table.savepoint(user="ann", comment="before the load")
    assert [(found.instant_time, found.user) for found in table.savepoints()] == [(made.instant_time, "ann")]
    second = table.delete(where="city = 'oslo'")
    undone = table.restore(made.instant_time)
    assert second.instant_time in undone.instant_times
    assert "undone" in str(undone)
    assert rows_of(table.read()) == ROWS.to_pylist()
    assert table.delete_savepoint(made.instant_time)
    assert not table.delete_savepoint(made.instant_time)
    assert table.savepoints() == []


def test_the_newest_commit_is_rolled_back(make: MakeTable) -> None:
    table = make()
    first = table.history()[0].instant_time
    second = table.upsert([{"id": "e", "city": "bern", "ts": 1, "fare": 1.0, "day": None}])
    with pytest.raises(HoodieRollbackException):
        table.rollback(first)
    assert table.rollback(second.instant_time).instant_times == (second.instant_time,)
    assert table.count() == 4
    assert str(table.rollback(second.instant_time)) == "rollback: nothing to undo"


def test_writes_that_failed_are_rolled_back(make: MakeTable) -> None:
    table = make()
    left = leave_a_write(table)
    assert table.rollback().instant_times == (left,)
    assert str(table.rollback()) == "rollback: nothing to undo"


def test_compactions_and_archiving(make: MakeTable, table_type: HoodieTableType) -> None:
    table = Table(make().path, properties={"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
                                           "hoodie.cleaner.commits.retained": "1",
                                           "hoodie.archive.automatic": "false"})  # fmt: skip
    for number in range(5):
        table.update(set={"ts": number + 2})
    result = table.compact()
    assert (result is not None) == (table_type is HoodieTableType.MERGE_ON_READ)
    assert table.compact() is None
    for number in range(5):
        table.update(set={"ts": number + 7})
    table.clean()
    archived = table.archive()
    assert archived.count > 0
    assert str(archived) == f"archive: {archived.count} instants archived"
    assert str(table.archive()) == "archive: nothing to archive"
    assert {row["ts"] for row in table.read().to_pylist()} == {11}


@pytest.mark.table_version(9)
def test_the_metadata_table_is_validated(make: MakeTable) -> None:
    table = make()
    table.update(set={"ts": 3})
    assert table.validate().is_right


@pytest.mark.table_version(8)
def test_the_version_is_changed(make: MakeTable) -> None:
    table = make()
    table.upgrade(dry_run=True)
    assert table.properties()["hoodie.table.version"] == "8"
    table.upgrade()
    assert table.properties()["hoodie.table.version"] == "9"
    table.downgrade(8)
    assert table.properties()["hoodie.table.version"] == "8"
    assert rows_of(table.read()) == ROWS.to_pylist()
