"""What a plan reads, what it leaves out, and what it says of that."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieRecord, HoodieTableMetaClient
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieMissingFileException
from hoodie.io import file_group_reader
from hoodie.query.planner import plan_of
from hoodie.query.pruning import key_field
from hoodie.query.read_plan import ReadPlan
from hoodie.query.table_query import QueryArguments, TableQuery
from tests.support.hookable_storage import hooked
from tests.support.table_builder import SCHEMA, init_table, local_client, read_rows, rows

SMALL_GROUPS = {
    "hoodie.parquet.block.size": 16 * 1024,
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.bulkinsert.shuffle.parallelism": 1,
}


def pruned(plan: ReadPlan) -> dict[str, int]:
    return {found.by.removeprefix("pruned by "): found.files for found in plan.pruned if found.files}


@pytest.fixture
def trips(tmp_path: Path) -> str:
    """Three files in two partitions, of several row groups each, whose keys overlap."""
    path = str(tmp_path / "t")
    chance = np.random.default_rng(1)
    for part, fares in (("x", 0), ("y", 1000), ("z", 2000)):
        keys = [f"{part}{number:05}" for number in chance.permutation(9000)]
        table = pa.table({"id": keys, "p": [part] * 9000, "fare": np.arange(fares, fares + 9000) / 9.0})
        table = pa.Table.from_batches(table.to_batches(max_chunksize=1000))
        hoodie.write_table(
            table, path, operation="bulk_insert", record_key_fields="id", partition_fields="p", properties=SMALL_GROUPS
        )
    return path


def test_a_lookup_by_key_reads_one_row_group_of_one_file(trips: str) -> None:
    whole = hoodie.plan_read(trips)
    assert len(whole.slices) == 3
    for filters in ([("id", "=", "y00042")], [("_hoodie_record_key", "in", ["y00042"])]):
        plan = hoodie.plan_read(trips, filters=filters)
        (planned,) = plan.slices
        assert planned.row_group_count > 2
        assert planned.row_groups is not None
        assert len(planned.row_groups) == 1
        assert sum(pruned(plan).values()) == 2
        assert hoodie.read_table(trips, filters=filters, columns=["id"]).to_pylist() == [{"id": "y00042"}]


def test_keys_that_are_nowhere_are_pruned_by_bloom_filters(trips: str) -> None:
    nowhere = ["x00042x", "y00042y", "z00042z"]
    plan = hoodie.plan_read(trips, filters=[("_hoodie_record_key", "in", nowhere)])
    assert plan.slices == ()
    assert pruned(plan)["bloom filter"] >= 2
    plan = hoodie.plan_read(trips, filters=[("id", "in", nowhere)])
    assert plan.slices == ()
    assert pruned(plan) == {"values of the key field": 3}
    either = hoodie.plan_read(trips, filters=[[("id", "=", "x00001")], [("id", "=", "z00001")]])
    assert [planned.file_slice.partition_path for planned in either.slices] == ["x", "z"]
    both = pc.field("id").isin(["x00001", "x00002"]) & (pc.field("fare") >= 0)
    assert len(hoodie.plan_read(trips, filters=both).slices) == 1
    assert hoodie.read_table(trips, filters=both).num_rows == 2
    no_key = (pc.field("id") == "x00001") | (pc.field("fare") > 0)
    assert len(hoodie.plan_read(trips, filters=no_key).slices) == 3


def test_partitions_and_statistics_exclude_files_and_row_groups(trips: str) -> None:
    plan = hoodie.plan_read(trips, filters=[("p", "in", ["x", "y"]), ("fare", ">", 1050.0)])
    assert plan.pruned_partitions == ("z",)
    assert pruned(plan) == {"statistics": 1}
    (planned,) = plan.slices
    assert planned.row_groups is not None
    assert len(planned.row_groups) < planned.row_group_count
    shown = plan.explain()
    assert "pruned by partition, 1 of them" in shown
    assert "pruned by statistics" in shown
    assert "row groups read: " in shown
    assert "partitions not read: 1" in repr(plan)
    assert "<table" in plan._repr_html_()
    expected = hoodie.read_table(trips, filters=[("p", "in", ["x", "y"])]).filter(pc.field("fare") > 1050.0)
    found = hoodie.read_table(trips, filters=[("p", "in", ["x", "y"]), ("fare", ">", 1050.0)])
    assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())


def test_the_values_of_an_only_key_field_of_strings_are_searched() -> None:
    one = HoodieTableConfig({"hoodie.table.recordkey.fields": "id"})
    assert key_field(one, SCHEMA) == "id"
    assert key_field(one, pa.schema([("id", pa.int64())])) is None
    assert key_field(HoodieTableConfig({"hoodie.table.recordkey.fields": "id,region"}), SCHEMA) is None
    assert key_field(HoodieTableConfig({}), SCHEMA) is None


def test_files_whose_keys_are_not_the_texts_of_the_key_field_are_not_pruned_by_keys(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        # The caller's own keys, as clients of Hudi may give them.
        client.upsert(
            [HoodieRecord(HoodieKey(f"own-{key}", "x"), {"id": key, "region": "x", "ts": 1}) for key in ("a", "b")]
        )
        client.upsert(rows(("a", "y", 1), ("b", "y", 1)))
    found = hoodie.read_table(path, columns=["_hoodie_record_key"], filters=[("id", "=", "a")])
    assert sorted(found["_hoodie_record_key"].to_pylist()) == ["a", "own-a"]
    plan = hoodie.plan_read(path, filters=[("id", "=", "aa")])
    assert pruned(plan) == {"values of the key field": 2}
    plan = hoodie.plan_read(path, filters=[("_hoodie_record_key", "=", "own-aa")])
    assert not plan.slices


def test_keys_of_the_callers_own_do_not_hide_rows_between_others(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    # The smallest and the largest of both columns are the same.
    own = {"a": "a", "m": "b", "z": "z"}
    with local_client(path) as client:
        client.upsert(
            [HoodieRecord(HoodieKey(key, "x"), {"id": text, "region": "x", "ts": 1}) for key, text in own.items()]
        )
        assert read_rows(path, filters=[("id", "=", "b")]) == [("b", "x", 1)]
        assert read_rows(path, filters=[("id", "in", ["b", "c"])]) == [("b", "x", 1)]
        assert read_rows(path, filters=[("id", "=", "m")]) == []
        assert read_rows(path, filters=[("_hoodie_record_key", "=", "m")]) == [("b", "x", 1)]
        assert read_rows(path, filters=[("_hoodie_record_key", "=", "b")]) == []
        client.delete(where=[("id", "=", "b")])
    assert read_rows(path) == [("a", "x", 1), ("z", "x", 1)]


def test_bloom_filters_that_hold_nothing_exclude_nothing(tmp_path: Path) -> None:
    virtual = init_table(tmp_path / "v", properties={"hoodie.populate.meta.fields": "false"})
    with local_client(virtual) as client:
        client.bulk_insert(rows(("a", "x", 1)))
    assert hoodie.read_table(virtual, filters=[("id", "=", "a")]).num_rows == 1


def test_a_plan_opens_only_footers_until_it_is_read(trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def note(name: str, path: str) -> None:
        if path.endswith(".parquet"):
            opened.append(path)

    with hooked(monkeypatch, note):
        hoodie.plan_read(trips)
        assert opened == []
        hoodie.plan_read(trips, filters=[("p", "=", "x"), ("fare", "<", 0.0)])
    assert {Path(path).parent.name for path in opened} == {"x"}


def test_a_file_that_is_cleaned_after_the_plan_is_named(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, {"hoodie.cleaner.commits.retained": 1, "hoodie.clean.automatic": "false"}) as client:
        client.upsert(rows(("a", "x", 1)))
        reader = hoodie.scan_table(path)
        for ts in (2, 3, 4):
            client.upsert(rows(("a", "x", ts)))
        client.clean()
        with pytest.raises(HoodieMissingFileException, match=r"base file .*/x/.*hoodie\.cleaner\.commits\.retained"):
            reader.read_all()


def test_delete_where_uses_the_plan(trips: str) -> None:
    asked: list[Any] = []
    with local_client(trips) as client, pytest.MonkeyPatch.context() as patch:
        import hoodie.client.write_input as write_input

        def noted(*arguments: Any, **named: Any) -> ReadPlan:
            plan = plan_of(*arguments, **named)
            asked.append(plan)
            return plan

        patch.setattr(write_input, "plan_of", noted)
        client.delete(where=[("id", "=", "x00007")])
    (plan,) = asked
    assert len(plan.slices) == 1
    assert hoodie.read_table(trips, filters=[("id", "=", "x00007")]).num_rows == 0
    assert hoodie.dataset(trips).count_rows() == 3 * 9000 - 1


def test_a_query_is_a_value_that_tells_what_was_asked() -> None:
    query = TableQuery.of(columns="id", query_type="INCREMENTAL", begin="000", end="2026")
    assert (query.columns, query.query_type, query.times.begin_time("UTC"), query.times.end_time("UTC")) == (
        ("id",), "incremental", None, "2026",
    )  # fmt: skip


def test_rows_of_a_key_are_found_by_the_column_that_the_filter_names(tmp_path: Path) -> None:
    """The range of the keys is that of the column, but rows have each other's keys."""
    path = init_table(tmp_path / "t")
    ids = ["a", "b", "c", "d"]
    keys = ["a", "c", "b", "d"]
    records = [
        HoodieRecord(HoodieKey(key, "x"), {"id": name, "region": "x", "ts": 1})
        for key, name in zip(keys, ids, strict=True)
    ]
    with local_client(path) as client:
        client.upsert(records)
    for name in ids:
        found = hoodie.read_table(path, columns=["id"], filters=[("id", "=", name)])
        assert found["id"].to_pylist() == [name]
    by_key = hoodie.read_table(path, columns=["id"], filters=[("_hoodie_record_key", "=", "b")])
    assert by_key["id"].to_pylist() == ["c"]
    either = (pc.field("id") == "b") | (pc.field("_hoodie_record_key") == "d")
    assert hoodie.read_table(path, columns=["id"], filters=either)["id"].to_pylist() == ["b", "d"]
    both = (pc.field("id") == "b") & (pc.field("_hoodie_record_key") == "c")
    assert hoodie.read_table(path, columns=["id"], filters=both)["id"].to_pylist() == ["b"]


def test_few_rows_of_a_commit_or_key_are_taken_and_many_are_scanned(
    trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[int] = []
    scan_fragments = file_group_reader.scan_fragments

    def noted(fragments: Any, *arguments: Any, **options: Any) -> Any:
        scanned.append(len(fragments))
        return scan_fragments(fragments, *arguments, **options)

    monkeypatch.setattr(file_group_reader, "scan_fragments", noted)
    begun = hoodie.read_table(trips, columns=["_hoodie_commit_time"]).column(0).unique().to_pylist()[-1]
    (commit,) = [row for row in HoodieTableMetaClient.load(trips).history() if row.instant_time == begun]
    begin = commit.completion_time or begun
    few = [f"x{number:05}" for number in range(0, 9000, 1800)]
    many = [f"z{number:05}" for number in range(4000)]
    with local_client(trips) as client:
        client.upsert(pa.table({"id": [*few, *many], "p": [key[0] for key in few + many], "fare": [0.5] * 4005}))
    scanned.clear()
    found = hoodie.read_table(trips, query_type="incremental", begin=begin)
    assert scanned == [1]
    assert found == hoodie.read_table(trips, filters=pc.field("_hoodie_commit_time") > begun)
    assert sorted(found["id"].to_pylist()) == few + many
    scanned.clear()
    assert hoodie.read_table(trips, columns=["fare"], filters=[("id", "=", few[1])])["fare"].to_pylist() == [0.5]
    filters = [("id", "in", [few[0], "y00001"])]
    assert len(hoodie.read_table(trips, filters=filters)) == 2
    assert hoodie.dataset(trips, filters=filters).count_rows() == 2
    assert scanned == []
    plan = hoodie.plan_read(trips, filters=filters)
    assert [len(planned.rows) for planned in plan.slices if planned.rows is not None] == [1, 1]


@pytest.mark.parametrize("function", [hoodie.read_table, hoodie.scan_table, hoodie.plan_read, hoodie.dataset])
def test_help_names_the_arguments_of_a_read(function: Callable[..., Any], tmp_path: Path) -> None:
    shown = inspect.signature(function).parameters
    assert [*shown] == ["base_path", *QueryArguments.__annotations__, "options", "catalog", "storage_options"]
    assert [name for name, each in shown.items() if each.default is inspect.Parameter.empty] == ["base_path"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colums'"):
        function(str(tmp_path), colums=["id"])
