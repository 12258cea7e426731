"""A name in Spark's catalog for a table: what Spark gives, and what it gets."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import hoodie
from hoodie.exception import HoodieConfigException, TableNotFoundException
from tests.support.table_builder import instants

pytest.importorskip("pyspark.sql.datasource")

from hoodie.spark import catalog_table
from hoodie.spark.data_source import HoodieDataSource
from hoodie.spark.data_source_reader import HoodieDataSourceReader

OF_SPARK = {"owner": "me", "provider": "hoodie", "is_managed_location": "false"}
COLUMNS = ["uuid", "city", "fare"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    rows = pa.table({"uuid": ["a", "b"], "city": ["x", "y"], "fare": [1.0, 2.0]})
    hoodie.write_table(rows, path, record_key_fields="uuid", partition_fields="city", table_name="t")
    return path


def created(path: str, **options: str) -> st.StructType:
    schema: st.StructType = HoodieDataSource({**OF_SPARK, "location": path, **options}).schema()
    return schema


def read(reader: HoodieDataSourceReader) -> list[dict[str, object]]:
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(pa.Table.from_batches(batches).to_pylist(), key=str)


def test_a_created_name_has_the_columns_of_the_table_and_finds_its_folder_again(path: str) -> None:
    schema = created(path)
    assert [field.name for field in schema.fields] == COLUMNS
    # The catalog stores the columns as JSON, and gives a query nothing else.
    stored = st.StructType.fromJson(json.loads(schema.json()))
    assert read(HoodieDataSource({}).reader(stored)) == [
        {"uuid": "a", "city": "x", "fare": 1.0}, {"uuid": "b", "city": "y", "fare": 2.0}
    ]  # fmt: skip
    more = pa.table({"uuid": ["c"], "city": ["x"], "fare": [3.0], "tip": [1.0]})
    hoodie.write_table(more, path)
    # Each query sees the newest rows; columns that the name does not have are left out.
    assert read(HoodieDataSource({}).reader(stored))[2] == {"uuid": "c", "city": "x", "fare": 3.0}
    assert len(read(HoodieDataSource({"path": path}).reader(HoodieDataSource({"path": path}).schema()))) == 3


def test_read_options_of_a_name_are_kept(path: str) -> None:
    (first, *_), *_ = instants(path)
    hoodie.write_table(pa.table({"uuid": ["c"], "city": ["x"], "fare": [3.0]}), path)
    given = {"as.of.instant": first}
    with pytest.raises(HoodieConfigException, match=r"unknown property as\.of\.instant"):
        created(path, **given)
    given = {"hoodie.datasource.query.type": "read_optimized"}
    schema = created(path, **given, **{f"option.{name}": value for name, value in given.items()})
    assert json.loads(schema.fields[0].metadata["hoodie.table"]) == {**given, "path": path}
    assert len(read(HoodieDataSource({}).reader(schema))) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "CREATE TABLE ... USING hoodie names a table that exists: give its folder"),
        ({"location": "/wh/t", "is_managed_location": "true"}, "names a table that exists"),
        ({"location": "{path}", "primarykey": "uuid"}, "unknown property primarykey"),
    ],
)
def test_what_cannot_work_is_refused_when_the_name_is_created(path: str, options: dict[str, str], text: str) -> None:
    given = {name: value.format(path=path) for name, value in options.items()}
    with pytest.raises(HoodieConfigException, match=text):
        HoodieDataSource({**OF_SPARK, **given}).schema()


def test_a_location_without_a_table_is_told_with_the_line_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match=r"CREATE TABLE makes none: .*hoodie\.spark\.write\(df, '.*none'"):
        created(str(tmp_path / "none"))


def test_a_name_without_its_folder_is_told_with_the_line_that_helps(path: str) -> None:
    declared = catalog_table.without_marks(created(path))
    with pytest.raises(HoodieConfigException, match=r"DROP TABLE it, and CREATE TABLE name USING hoodie LOCATION"):
        HoodieDataSource({}).reader(declared)
    # The columns of a query keep their metadata, so they do not say where rows go.
    for schema, line in ((created(path), f"INSERT INTO name WITH .path '{path}'"), (declared, "INSERT INTO name WITH")):
        with pytest.raises(HoodieConfigException, match=line):
            HoodieDataSource({}).writer(schema, overwrite=False)
    assert hoodie.read_table(path).num_rows == 2


def test_columns_of_two_tables_name_no_folder(path: str, tmp_path: Path) -> None:
    one, other = created(path), created(path, **{"storage.endpoint": "http://localhost"})
    mixed = st.StructType([one.fields[0], *other.fields[1:]])
    with pytest.raises(HoodieConfigException, match="the table's folder is missing"):
        HoodieDataSource({}).reader(mixed)
