"""Tables without record key fields, whose keys are generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieRecord, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieKeyException
from tests.support.table_builder import instants, local_client

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX"]
KEY, PATH = "_hoodie_record_key", "_hoodie_partition_path"
Rows = list[tuple[str, int]]


@pytest.fixture(params=TYPES)
def table_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[6, 8, 9])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, table_type: str, version: int) -> str:
    path = str(tmp_path / "t")
    kinds: dict[str, Any] = {"table_type": table_type, "table_version": version}
    hoodie.write_table(
        rows(("x", 1), ("y", 2), ("x", 1)), path, record_key_fields="generated", partition_fields="p", **kinds
    )
    return path


def rows(*values: tuple[str, int]) -> pa.Table:
    return pa.table(
        {"p": pa.array([p for p, _ in values], pa.string()), "v": pa.array([v for _, v in values], pa.int64())}
    )


def content(path: str) -> Rows:
    return sorted((row["p"], row["v"]) for row in hoodie.read_table(path).to_pylist())


def keys(path: str) -> dict[str, tuple[str, int]]:
    return {row[KEY]: (row["p"], row["v"]) for row in hoodie.read_table(path).to_pylist()}


def properties_of(path: str) -> HoodieTableConfig:
    return HoodieTableMetaClient.load(path).table_config


def test_a_table_has_no_key_fields_and_a_generator_of_its_partition_path(path: str, version: int) -> None:
    config = properties_of(path)
    assert config.is_keyless
    stored = config.properties
    assert "hoodie.table.recordkey.fields" not in stored
    assert not any("precombine" in name or "ordering" in name for name in stored)
    assert stored.get("hoodie.populate.meta.fields", "true") == "true"
    if version == 6:
        assert stored["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
        assert stored["hoodie.compaction.payload.class"].endswith(".OverwriteWithLatestAvroPayload")
    else:
        assert stored["hoodie.table.keygenerator.type"] == "SIMPLE"
        assert stored["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"


@pytest.mark.table_version(9)
@pytest.mark.parametrize(
    ("partition_fields", "kind"), [([], "NON_PARTITION"), (["p"], "SIMPLE"), (["p", "v"], "COMPLEX")]
)
def test_the_generator_is_that_of_the_partition_fields(tmp_path: Path, partition_fields: list[str], kind: str) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated", partition_fields=partition_fields)
    assert properties_of(path).properties["hoodie.table.keygenerator.type"] == kind
    hoodie.write_table(rows(("x", 1)), path)
    assert content(path) == [("x", 1), ("x", 1)]


def test_every_insert_adds_its_rows_with_keys_of_their_own(path: str) -> None:
    given = rows(("x", 1), ("y", 2))
    for operation in ("insert", "bulk_insert", None):
        hoodie.write_table(given, path, operation=operation)
    assert content(path) == [("x", 1)] * 5 + [("y", 2)] * 4
    stored = hoodie.read_table(path)[KEY].to_pylist()
    assert len(set(stored)) == 9
    written = {instant[0] for instant in instants(path)}
    assert {key.split("_")[0] for key in stored} <= written
    assert all(part.isdigit() for key in stored for part in key.split("_"))
    by_hudi_rs = pa.Table.from_batches(HudiTableBuilder.from_base_uri(path).build().read())
    assert sorted(by_hudi_rs[KEY].to_pylist()) == sorted(stored)


def test_keys_of_many_tasks_and_files_are_unique(tmp_path: Path) -> None:
    path, count = str(tmp_path / "t"), 20_000
    given = pa.table({"v": pa.array(range(count)), "p": [str(number % 3) for number in range(count)]})
    small = {"hoodie.parquet.max.file.size": "50000", "hoodie.parquet.small.file.limit": "20000"}
    for operation in ("insert", "bulk_insert", "insert"):
        hoodie.write_table(
            given, path, operation=operation, record_key_fields="generated", partition_fields="p", properties=small
        )
    found = hoodie.read_table(path)
    assert len(set(found[KEY].to_pylist())) == found.num_rows == 3 * count
    assert sorted(found["v"].to_pylist()) == sorted([*range(count)] * 3)


def test_footers_name_the_generated_keys(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1), ("x", 2)), path, record_key_fields="generated")
    (file,) = Path(path).glob("*.parquet")
    footer = pq.ParquetFile(file).metadata.metadata
    stored = pq.read_table(file)[KEY].to_pylist()
    assert footer[b"hoodie_min_record_key"].decode() == min(stored)
    assert footer[b"hoodie_max_record_key"].decode() == max(stored)


def test_rows_read_from_the_table_are_changed_and_deleted_by_their_keys(path: str) -> None:
    before = keys(path)
    read = hoodie.read_table(path, filters="v = 1")
    changed = read.set_column(read.schema.get_field_index("v"), "v", pa.array([10] * read.num_rows, pa.int64()))
    result = hoodie.write_table(changed, path)
    assert result is not None
    assert result.operation == "UPSERT"
    assert keys(path) == {key: (p, 10 if v == 1 else v) for key, (p, v) in before.items()}
    hoodie.write_table(hoodie.read_table(path, filters="v = 2"), path, operation="delete")
    assert content(path) == [("x", 10), ("x", 10)]
    assert set(keys(path)) < set(before)


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_finds_the_rows(tmp_path: Path, table_type: str, index: str) -> None:
    path, properties = str(tmp_path / "t"), {"hoodie.index.type": index}
    if index == "RECORD_INDEX":
        properties |= {"hoodie.metadata.record.index.enable": "true"}
    kinds: dict[str, Any] = {"record_key_fields": "generated", "partition_fields": "p", "table_type": table_type}
    hoodie.write_table(rows(("x", 1), ("y", 2)), path, properties=properties, **kinds)
    hoodie.write_table(rows(("x", 3)), path, properties=properties)
    before = keys(path)
    read = hoodie.read_table(path, filters="v < 3")
    changed = read.set_column(read.schema.get_field_index("v"), "v", pc_times(read["v"], 100))
    hoodie.write_table(changed, path, properties=properties)
    assert content(path) == [("x", 3), ("x", 100), ("y", 200)]
    assert set(keys(path)) == set(before)
    hoodie.write_table(hoodie.read_table(path, filters="v = 3"), path, operation="delete", properties=properties)
    assert content(path) == [("x", 100), ("y", 200)]
    validated = hoodie.metadata.validate(path)
    assert validated.is_right, str(validated)


def pc_times(values: pa.ChunkedArray, factor: int) -> pa.Array:
    return pa.array([value * factor for value in values.to_pylist()], pa.int64())


@pytest.mark.parametrize("form", ["table", "frame", "dicts", "batches"])
def test_rows_with_their_keys_come_in_any_form(tmp_path: Path, form: str) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1), ("y", 2)), path, record_key_fields="generated", partition_fields="p")
    read = hoodie.read_table(path, filters="v = 1")
    changed = read.set_column(read.schema.get_field_index("v"), "v", pa.array([10], pa.int64()))
    given: Any = {
        "table": changed,
        "frame": changed.to_pandas(),
        "dicts": changed.to_pylist(),
        "batches": iter(changed.to_batches()),
    }[form]
    hoodie.write_table(given, path, operation="upsert")
    assert content(path) == [("x", 10), ("y", 2)]
    again = hoodie.read_table(path, filters="v = 10")
    given = {
        "table": again,
        "frame": again.to_pandas(),
        "dicts": again.to_pylist(),
        "batches": iter(again.to_batches()),
    }[form]
    hoodie.write_table(given, path, operation="delete")
    assert content(path) == [("y", 2)]


def test_rows_without_their_keys_are_refused_with_the_ways_out(path: str) -> None:
    before = keys(path)
    given = rows(("x", 1))
    with pytest.raises(HoodieKeyException, match=r"insert adds them.*hoodie.write.keyless.upsert=INSERT"):
        hoodie.write_table(given, path, operation="upsert")
    with pytest.raises(HoodieKeyException, match=r"delete\(where="):
        hoodie.write_table(given, path, operation="delete")
    with pytest.raises(HoodieKeyException, match="give HoodieKeys"):
        hoodie.Table(path).delete([1])
    only_key = hoodie.read_table(path).drop([PATH])
    with pytest.raises(HoodieKeyException, match=PATH):
        hoodie.write_table(only_key, path, operation="upsert")
    assert keys(path) == before


def test_an_upsert_without_keys_inserts_where_an_option_says_so(path: str) -> None:
    properties = {"hoodie.write.keyless.upsert": "insert"}
    result = hoodie.write_table(rows(("x", 1)), path, operation="upsert", properties=properties)
    assert result is not None
    assert result.operation == "INSERT"
    assert content(path) == [("x", 1), ("x", 1), ("x", 1), ("y", 2)]
    read = hoodie.read_table(path, filters="v = 2")
    changed = read.set_column(read.schema.get_field_index("v"), "v", pa.array([20], pa.int64()))
    hoodie.write_table(changed, path, operation="upsert", properties=properties)
    assert content(path) == [("x", 1), ("x", 1), ("x", 1), ("y", 20)]


@pytest.mark.parametrize("column", [KEY, PATH])
def test_keys_that_are_no_text_are_refused(path: str, column: str) -> None:
    read = hoodie.read_table(path)
    wrong = read.set_column(read.schema.get_field_index(column), column, pa.array(range(read.num_rows)))
    with pytest.raises(HoodieKeyException, match=f"{column} is int64, and it names stored rows"):
        hoodie.write_table(wrong, path, operation="upsert")
    assert hoodie.read_table(path) == read


def test_rows_that_were_deleted_meanwhile_are_not_brought_back(path: str) -> None:
    read = hoodie.read_table(path)
    hoodie.Table(path).delete(where="v = 2")
    with pytest.raises(HoodieKeyException, match="1 of the rows carry keys that are not in the table"):
        hoodie.write_table(read, path)
    assert content(path) == [("x", 1), ("x", 1)]


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("operation", [None, "upsert"])
def test_a_row_does_not_leave_its_partition(path: str, index: str, operation: str | None) -> None:
    read = hoodie.read_table(path, filters="v = 2")
    moved = read.set_column(read.schema.get_field_index("p"), "p", pa.array(["x"]))
    with pytest.raises(HoodieException, match=PATH):
        hoodie.write_table(moved, path, operation=operation, properties={"hoodie.index.type": index})
    assert content(path) == [("x", 1), ("x", 1), ("y", 2)]


def test_keys_and_records_delete_rows(path: str) -> None:
    with local_client(path) as client:
        (key,) = [key for key, row in keys(path).items() if row == ("y", 2)]
        client.delete([HoodieKey(key, "y")])
    assert content(path) == [("x", 1), ("x", 1)]


def test_records_with_keys_of_a_user_are_not_inserted(path: str) -> None:
    before = keys(path)
    with local_client(path) as client, pytest.raises(HoodieKeyException, match="keys of their own"):
        client.insert([HoodieRecord(HoodieKey("k", "x"), {"p": "x", "v": 1})])
    assert keys(path) == before


def test_a_condition_deletes_and_changes_rows(path: str) -> None:
    before = keys(path)
    table = hoodie.Table(path)
    table.update(where="p = 'x'", set={"v": hoodie.col("v") + 5})
    assert keys(path) == {key: (p, v + 5 if p == "x" else v) for key, (p, v) in before.items()}
    table.delete(where="v = 6")
    assert content(path) == [("y", 2)]


def test_partitions_and_rows_are_replaced(path: str) -> None:
    hoodie.write_table(rows(("x", 7)), path, operation="insert_overwrite")
    assert content(path) == [("x", 7), ("y", 2)]
    hoodie.Table(path).delete_partitions(["y"])
    assert content(path) == [("x", 7)]
    hoodie.write_table(rows(("z", 8), ("z", 8)), path, mode="overwrite")
    assert content(path) == [("z", 8), ("z", 8)]
    hoodie.write_table(rows(("z", 9)), path, operation="insert_overwrite_table")
    assert content(path) == [("z", 9)]
    assert properties_of(path).is_keyless


def test_services_and_time_travel_keep_rows_and_keys(path: str) -> None:
    first = hoodie.read_table(path)
    (instant,) = {row["_hoodie_commit_time"] for row in first.to_pylist()}
    hoodie.Table(path).update(where="v = 1", set={"v": 5})
    hoodie.write_table(rows(("y", 3)), path)
    before = keys(path)
    config = HoodieWriteConfig.from_properties(path, {"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"})
    with HoodieLocalWriteClient(config) as client:
        if properties_of(path).table_type == "MERGE_ON_READ":
            assert client.schedule_compaction() is not None
            client.compact()
            assert keys(path) == before
        assert client.schedule_clustering() is not None
        client.cluster()
        client.clean()
    assert keys(path) == before
    travelled = hoodie.read_table(path, as_of=instant)
    assert sorted(travelled[KEY].to_pylist()) == sorted(first[KEY].to_pylist())
    assert sorted(travelled["v"].to_pylist()) == [1, 1, 2]
    hoodie.Table(path).update(where="v = 5", set={"v": 6})
    assert keys(path) == {key: (p, 6 if v == 5 else v) for key, (p, v) in before.items()}
    validated = hoodie.metadata.validate(path)
    assert validated.is_right, str(validated)


def test_change_data_tells_each_change_of_a_row(tmp_path: Path, table_type: str, version: int) -> None:
    table = hoodie.Table.create(
        tmp_path / "t", rows(("a", 1), ("b", 2), ("c", 3)), record_key_fields="generated", table_type=table_type,
        table_version=version, properties={"hoodie.table.cdc.enabled": "true"},
    )  # fmt: skip
    since = table.changes(deletes=True).until
    table.insert(rows(("a", 1)))
    table.update(where="p = 'b'", set={"v": 20})
    table.update(where="p = 'b'", set={"v": 21})
    table.delete(where="p = 'c'")
    found = table.changes(since=since, deletes=True).rows.to_pylist()
    images = [(c["op"], *((c[side] or {}).get("v") for side in ("before", "after"))) for c in found]
    assert sorted(images, key=str) == [("d", 3, None), ("i", None, 1), ("u", 2, 20), ("u", 20, 21)]


def test_an_incremental_query_gives_the_changes(path: str) -> None:
    table = hoodie.Table(path)
    known = table.changes().until
    table.update(where="v = 2", set={"v": 3})
    assert table.changes(since=known).rows.to_pylist() == [{"p": "y", "v": 3}]


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, "insert.drop.duplicates"),
        ({"hoodie.datasource.insert.dup.policy": "fail"}, "dup.policy"),
        ({"hoodie.combine.before.insert": "true"}, "combine.before.insert"),
        ({"hoodie.populate.meta.fields": "false"}, "populate.meta.fields"),
        ({"hoodie.index.type": "BUCKET"}, "BLOOM, SIMPLE or RECORD_INDEX"),
        ({"hoodie.write.partial.update": "true"}, r"update\(\) or merge\(\)"),
        ({"hoodie.datasource.write.keygenerator.class": "com.example.Keys"}, "com.example.Keys"),
    ],
)
def test_options_that_such_a_table_cannot_have_are_refused(
    tmp_path: Path, properties: dict[str, str], says: str
) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(HoodieException, match=says):
        hoodie.write_table(
            rows(("x", 1)), path, operation="insert" if "dup" not in says else None, record_key_fields="generated",
            properties=properties,
        )  # fmt: skip
    assert not Path(path).exists()
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated")
    if "example" not in says:
        with pytest.raises(HoodieException, match=says):
            hoodie.write_table(rows(("x", 1)), path, properties=properties)
    assert content(path) == [("x", 1)]


def test_key_fields_of_a_writer_contradict_the_table_and_the_other_way_round(tmp_path: Path) -> None:
    path, keyed = str(tmp_path / "t"), str(tmp_path / "keyed")
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated")
    with pytest.raises(HoodieConfigException, match="the table has no record key fields"):
        hoodie.write_table(rows(("x", 1)), path, record_key_fields="v")
    hoodie.write_table(rows(("x", 1)), keyed, record_key_fields="v")
    with pytest.raises(HoodieConfigException, match=r"hoodie.write.keyless = true: the table has record key fields"):
        hoodie.write_table(rows(("x", 1)), keyed, record_key_fields="generated")
    assert content(path) == content(keyed) == [("x", 1)]


@pytest.mark.parametrize("fields", [None, "", []])
def test_no_name_of_a_field_makes_no_table(tmp_path: Path, fields: Any) -> None:
    with pytest.raises(HoodieConfigException, match="record_key_fields='generated'"):
        hoodie.write_table(rows(("x", 1)), str(tmp_path / "t"), record_key_fields=fields)
    assert not (tmp_path / "t").exists()


def test_a_column_may_be_named_generated(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    given = pa.table({"generated": ["a"]})
    hoodie.write_table(given, path, record_key_fields=["generated"])
    assert hoodie.read_table(path)[KEY].to_pylist() == ["a"]


def test_an_ordering_field_is_not_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated", ordering_fields="v")
    assert "ordering_fields = v" in caplog.text
    assert properties_of(path).ordering_fields == ()
    hoodie.write_table(rows(("x", 1)), path, ordering_fields="v")
    assert content(path) == [("x", 1), ("x", 1)]


def test_mode_overwrite_gives_a_table_key_fields_and_takes_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated")
    hoodie.write_table(rows(("x", 1)), path, mode="overwrite", record_key_fields="v")
    assert properties_of(path).record_key_fields == ("v",)
    hoodie.write_table(rows(("x", 1), ("x", 1)), path, mode="overwrite", record_key_fields="generated")
    assert properties_of(path).is_keyless
    assert content(path) == [("x", 1), ("x", 1)]


def test_a_table_is_created_with_rows_or_with_columns_alone(tmp_path: Path) -> None:
    full = hoodie.Table.create(str(tmp_path / "full"), rows(("x", 1), ("x", 1)), record_key_fields="generated")
    assert full.read().num_rows == 2
    empty = hoodie.Table.create(str(tmp_path / "empty"), rows().schema, record_key_fields="generated")
    empty.insert(rows(("x", 1), ("x", 1)))
    assert empty.read().num_rows == 2
    with pytest.raises(HoodieKeyException, match="insert adds them"):
        empty.upsert(rows(("x", 1)))
    assert empty.read().num_rows == 2


def test_a_merge_finds_rows_by_any_columns_and_keeps_their_keys(path: str) -> None:
    before = keys(path)
    source = pa.table({"v": [1, 2, 9], "p": ["x", "y", "z"], "add": [10, 20, 30]})
    (
        hoodie.Table(path)
        .merge(source, on="t.v = s.v")
        .when_matched("s.v = 2").delete()
        .when_matched().update({"v": hoodie.col("t.v") + hoodie.col("s.add")})
        .when_not_matched().insert(["v", "p"])
        .run()
    )  # fmt: skip
    assert content(path) == [("x", 11), ("x", 11), ("z", 9)]
    after = keys(path)
    (new,) = set(after) - set(before)
    assert after[new] == ("z", 9)
    assert len(new.split("_")) == 3
    assert "new" not in new


def test_a_merge_refuses_several_rows_for_one_stored_row_and_a_missing_condition(path: str) -> None:
    before = keys(path)
    table = hoodie.Table(path)
    with pytest.raises(HoodieKeyException, match="several rows of the source apply to each of 1 stored rows"):
        table.merge(rows(("y", 2), ("y", 2)), on=["v"]).when_matched().delete().run()
    with pytest.raises(HoodieConfigException, match="must tell which columns"):
        table.merge(rows(("y", 2))).when_matched().delete().run()
    with pytest.raises(HoodieConfigException, match="compares w, which is no column"):
        table.merge(rows(("y", 2)), on="t.w = s.v").when_matched().delete().run()
    with pytest.raises(HoodieException, match=PATH):
        table.merge(rows(("y", 2)), on=["v"]).when_matched().update({"p": "x"}).run()
    assert keys(path) == before


def test_a_merge_inserts_rows_whose_values_are_null(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1)), path, record_key_fields="generated")
    source = pa.table({"p": ["a", "b", "b"], "v": pa.array([1, None, None], pa.int64())})
    hoodie.Table(path).merge(source, on=["v"]).when_matched().update_all().when_not_matched().insert_all().run()
    found = hoodie.read_table(path)
    assert sorted(found["p"].to_pylist()) == ["a", "b", "b"]
    assert len(set(found[KEY].to_pylist())) == 3


def test_rows_without_keys_beside_rows_that_carry_them_are_new_rows_by_default_and_else_refused(path: str) -> None:
    read = hoodie.read_table(path, filters="v = 2")
    new = pa.table({"p": ["z"], "v": [5], KEY: pa.array([None], pa.string()), PATH: pa.array([None], pa.string())})
    both = pa.concat_tables([read.select(["p", "v", KEY, PATH]), new])
    with pytest.raises(HoodieKeyException, match="1 of the records to upsert have no usable key"):
        hoodie.write_table(both, path, operation="upsert")
    hoodie.write_table(both, path)
    assert content(path) == [("x", 1), ("x", 1), ("y", 2), ("z", 5)]
    assert len(keys(path)) == 4


def test_columns_are_added_and_filled(path: str) -> None:
    before, table = keys(path), hoodie.Table(path)
    table.add_columns({"w": pa.int64()})
    table.update(where="v = 2", set={"w": 7})
    assert keys(path) == before
    assert sorted(table.read(["w"])["w"].to_pylist(), key=str) == [7, None, None]


def test_rows_are_forgotten(path: str) -> None:
    hoodie.Table(path).forget("v = 2", yes=True)
    assert content(path) == [("x", 1), ("x", 1)]


def test_rows_without_keys_have_no_plan_of_an_upsert(path: str) -> None:
    with pytest.raises(HoodieKeyException, match="insert adds them"):
        hoodie.Table(path).explain_upsert(rows(("x", 1)))
    read = hoodie.read_table(path, filters="v = 2")
    assert hoodie.Table(path).explain_upsert(read).updates == 1


@pytest.mark.table_version(9)
def test_a_secondary_index_finds_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(("x", 1), ("y", 2)), path, record_key_fields="generated", partition_fields="p")
    table = hoodie.Table(path)
    assert table.create_index("v")
    table.insert(rows(("z", 2)))
    table.update(where="p = 'x'", set={"v": 3})
    assert sorted(table.read(where="v = 2")["p"].to_pylist()) == ["y", "z"]
    assert table.read(where="v = 3")["p"].to_pylist() == ["x"]
    validated = table.validate()
    assert validated.is_right, str(validated)
