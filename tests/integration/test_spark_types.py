"""Types and their evolution on Spark: what Spark writes, what it reads of files of older schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
import hoodie.data.spark_types
import hoodie.spark
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import SchemaCompatibilityException

pytestmark = pytest.mark.spark

Rows = dict[str, Any]


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="part", ordering_fields="ts"
    )
    return path


def upsert_locally(base_path: str, table: pa.Table) -> None:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path)) as client:
        client.upsert(table)


def upsert_with_spark(base_path: str, frame: DataFrame) -> None:
    with SparkRDDWriteClient(frame.sparkSession, HoodieWriteConfig.from_properties(base_path)) as client:
        client.upsert(frame)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return [plain(item) for item in value] if isinstance(value, list) else value


NUMBERS = {
    "int_long": (pa.int32(), 7, pa.int64(), 2**40, 7),
    "int_float": (pa.int32(), 2**24 + 1, pa.float32(), 0.5, 2.0**24),
    "int_double": (pa.int32(), 2**31 - 1, pa.float64(), 0.5, 2.0**31 - 1),
    "long_float": (pa.int64(), 2**40 + 1, pa.float32(), 0.5, 2.0**40),
    "long_double": (pa.int64(), 2**53 + 1, pa.float64(), 0.5, 2.0**53),
    "float_double": (pa.float32(), 0.1, pa.float64(), 0.2, 0.1),
}
"""Column: old type, value of it, new type, value of it, the old value in the new type."""


def nested(data_type: pa.DataType, *more: pa.Field) -> pa.DataType:
    return pa.list_(pa.struct([("x", data_type), *more]))


def test_files_of_older_schemas_are_read_and_merged_in_the_new_one(spark: SparkSession, base_path: str) -> None:
    def table(ids: str, part: str, ts: int, side: int) -> pa.Table:
        columns: dict[str, Any] = {"id": list(ids), "part": [part] * len(ids), "ts": [ts] * len(ids)}
        for name, pair in NUMBERS.items():
            data_type, value = pair[2 * side : 2 * side + 2]
            columns[name] = pa.array([value] * len(ids), data_type)
            columns[f"{name}_nested"] = pa.array([[{"x": value}, None]] * len(ids), nested(data_type))
        inner: dict[str, Any] = {"x": 1} if side == 0 else {"new": "n", "x": 2}
        fields = [("x", pa.int64())] if side == 0 else [("new", pa.string()), ("x", pa.int64())]
        columns["grown"] = pa.array([[("k", inner)]] * len(ids), pa.map_(pa.string(), pa.struct(fields)))
        if side == 1:
            columns["added"] = ["a"] * len(ids)
        return pa.table(columns)

    upsert_locally(base_path, table("ab", "merged", 1, side=0))
    upsert_locally(base_path, table("z", "left", 1, side=0))
    # Through Spark, which writes in the middle of the evolution, too.
    newer = table("bc", "merged", 2, side=1)
    wide = hoodie.data.spark_types.spark_schema(newer.schema)
    upsert_with_spark(base_path, spark.createDataFrame([tuple(row.values()) for row in _rows(newer)], wide))

    old = {name: pair[4] for name, pair in NUMBERS.items()}
    new = {name: pair[3] for name, pair in NUMBERS.items()}
    expected = [
        (key, part, ts, *(item for name in NUMBERS for item in (side[name], [(side[name],), None])), grown, added)
        for key, part, ts, side, grown, added in (
            ("a", "merged", 1, old, {"k": (1, None)}, None),
            ("b", "merged", 2, new, {"k": (2, "n")}, "a"),
            ("c", "merged", 2, new, {"k": (2, "n")}, "a"),
            ("z", "left", 1, old, {"k": (1, None)}, None),
        )
    ]
    frame = hoodie.spark.read(spark, base_path).orderBy("id")
    found = [plain(tuple(row)[5:]) for row in frame.collect()]
    assert found == expected
    local = hoodie.read_table(base_path).sort_by("id").to_pylist()
    for name in NUMBERS:
        assert [row[name] for row in local] == [row[3 + 2 * list(NUMBERS).index(name)] for row in expected], name
    assert frame.where("int_long < 100 and float_double < 0.15").count() == 2


def _rows(table: pa.Table) -> list[Rows]:
    """Rows as `createDataFrame` takes them: maps as dicts."""
    return [row | {"grown": dict(row["grown"])} for row in table.to_pylist()]


def test_an_input_of_spark_matches_names_as_spark_does(spark: SparkSession, base_path: str) -> None:
    upsert_locally(base_path, pa.table({"id": ["a"], "part": ["p"], "ts": [1], "c": pa.array([{"x": 1}]), "d": [1]}))
    schema = "ID string, PART string, Ts bigint, C struct<X: int>, d int, New date"
    upsert_with_spark(base_path, spark.createDataFrame([("a", "p", 2, (5,), 2, None)], schema))
    frame = hoodie.spark.read(spark, base_path)
    assert frame.columns[5:] == ["id", "part", "ts", "c", "d", "New"]
    assert [tuple(row)[5:] for row in frame.collect()] == [("a", "p", 2, (5,), 2, None)]


def test_an_input_that_does_not_fit_is_refused_with_both_types(spark: SparkSession, base_path: str) -> None:
    upsert_locally(base_path, pa.table({"id": ["a"], "part": ["p"], "ts": [1], "c": pa.array([{"x": 1}])}))
    frame = spark.createDataFrame([("a", "p", 2, ("5",))], "id string, part string, ts bigint, c struct<x: string>")
    with pytest.raises(SchemaCompatibilityException, match=r"c\.x: the table has int64, the input string"):
        upsert_with_spark(base_path, frame)
