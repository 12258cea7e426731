"""Types and their evolution on Spark: what Spark writes, what it reads of files of older schemas."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import HoodieSchemaException, SchemaCompatibilityException
from hoodie.spark.spark_compatibility import collect_arrow
from hoodie.spark.spark_types import arrow_schema, conform, spark_schema
from tests.contract.border_contract import ZONES, BorderContract
from tests.contract.number_contract import LOSSY, NumberContract
from tests.contract.types_page import Row, rows_below, stored_type
from tests.support.table_builder import local_client

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
    with local_client(base_path) as client:
        client.upsert(table)


def upsert_with_spark(base_path: str, frame: DataFrame, **properties: str) -> None:
    with SparkRDDWriteClient(frame.sparkSession, HoodieWriteConfig.from_properties(base_path, properties)) as client:
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
    wide = spark_schema(newer.schema)
    upsert_with_spark(base_path, spark.createDataFrame([tuple(row.values()) for row in _rows(newer)], wide), **LOSSY)

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


def test_strings_that_are_no_utf_8_are_refused_on_spark(spark: SparkSession, base_path: str) -> None:
    upsert_locally(base_path, pa.table({"id": ["a"], "part": ["p"], "ts": [1], "c": ["x"]}))
    frame = spark.sql("SELECT 'a' id, 'p' part, 2L ts, cast(X'FF' AS string) c")
    with pytest.raises(HoodieSchemaException, match=r"column 'c' is text, and holds b'\\xff', which is no UTF-8"):
        upsert_with_spark(base_path, frame)
    assert hoodie.read_table(base_path)["c"].to_pylist() == ["x"]


class TestSparkBorder(BorderContract):
    @pytest.fixture(autouse=True)
    def session(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.folder = tmp_path

    @pytest.fixture(params=ZONES)
    def zone(self, request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", request.param)
        yield request.param
        spark.conf.set("spark.sql.session.timeZone", before)

    def upsert(self, base_path: str, table: pa.Table) -> None:
        path = self.folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(table, path, store_schema=False)
        upsert_with_spark(base_path, self.spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(path)))

    def read(self, base_path: str) -> pa.Table:
        frame = hoodie.spark.read(self.spark, base_path)
        schema = arrow_schema(frame.schema)
        return pa.Table.from_batches([conform(batch, schema) for batch in collect_arrow(frame)], schema)

    def micros(self, base_path: str) -> dict[str, int]:
        frame = hoodie.spark.read(self.spark, base_path).selectExpr("id", "unix_micros(at) as micros")
        return {row.id: row.micros for row in frame.collect()}


class TestSparkNumbers(NumberContract):
    @pytest.fixture(autouse=True)
    def session(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark = spark
        self.folder = tmp_path

    def write(self, base_path: str, table: pa.Table, operation: str = "upsert", **properties: str) -> Any:
        path = self.folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(table, path, store_schema=False)
        config = HoodieWriteConfig.from_properties(base_path, properties)
        with SparkRDDWriteClient(self.spark, config) as client:
            return getattr(client, operation)(self.spark.read.parquet(str(path)))


SPARK_TYPES = [row for row in rows_below("Spark") if row.cells[0].startswith("a user") is False]
USER_DEFINED = next(row for row in rows_below("Spark") if row not in SPARK_TYPES)


def shown(data_type: pa.DataType) -> str:
    """A type without its nullability, which literals of Spark have not."""
    return str(spark_schema(pa.schema([("c", data_type)])).simpleString())


def test_every_type_of_the_page_is_stored_and_read_by_spark_as_it_says(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id")
    taken = [row for row in SPARK_TYPES if not row.is_refused]
    columns = [f"{row.cells[1]} as c{number}" for number, row in enumerate(taken)]
    columns += [f"array(named_struct('x', {row.cells[1]})) as n{number}" for number, row in enumerate(taken)]
    frame = spark.sql(f"select 'a' as id, {', '.join(columns)}")
    upsert_with_spark(path, frame)
    schema = HoodieTableMetaClient.load(path).load_schema()
    read = hoodie.spark.read(spark, path)
    types = dict(read.dtypes)
    for number, row in enumerate(taken):
        nested = schema.field(f"n{number}").type.value_type.field("x").type
        assert shown(schema.field(f"c{number}").type) == shown(nested) == shown(stored_type(row.cells[2])), str(row)
        assert types[f"c{number}"] == row.cells[3], str(row)
    text = [
        f"to_json(struct(c{number} as x, n{number}[0].x as y))"
        if row.cells[0] != "timestamp_ntz"
        else f"to_json(struct(to_timestamp_ntz(c{number}) as x, to_timestamp_ntz(n{number}[0].x) as y))"
        for number, row in enumerate(taken)
    ]
    assert read.selectExpr(*text).collect() == frame.selectExpr(*text).collect()


@pytest.mark.parametrize("row", [row for row in SPARK_TYPES if row.is_refused], ids=str)
def test_every_refused_type_of_the_page_says_why_on_spark(spark: SparkSession, base_path: str, row: Row) -> None:
    if row.cells[0] in ("variant", "interval") and spark.version.startswith("3."):
        pytest.skip("Spark 3 has no variant, and PySpark 3 cannot name the type of an interval")
    frame = spark.sql(f"select 'a' as id, 'p' as part, 1L as ts, array(named_struct('x', {row.cells[1]})) as c")
    with pytest.raises(HoodieSchemaException, match=r"column 'c\.element\.x' of type .* cannot be stored") as caught:
        upsert_with_spark(base_path, frame)
    assert row.cells[3] in str(caught.value)


def test_a_user_defined_type_is_refused_by_name(spark: SparkSession, base_path: str) -> None:
    schema = st.StructType([st.StructField("id", st.StringType()), st.StructField("c", VectorUDT())])
    frame = spark.createDataFrame([("a", Vectors.dense(1.0, 2.0))], schema)
    with pytest.raises(HoodieSchemaException, match="column 'c' of type .* cannot be stored") as caught:
        upsert_with_spark(base_path, frame)
    assert USER_DEFINED.cells[3] in str(caught.value)


def test_fixed_columns_of_other_writers_are_written_and_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.string()), ("code", pa.binary(3))])
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", schema=schema)
    upsert_with_spark(path, spark.sql("select 'a' as id, X'010203' as code union all select 'b', null"))
    upsert_with_spark(path, spark.sql("select 'b' as id, X'040506' as code"))
    rows = hoodie.spark.read(spark, path).orderBy("id").collect()
    assert [(row.id, bytes(row.code)) for row in rows] == [("a", b"\x01\x02\x03"), ("b", b"\x04\x05\x06")]
    with pytest.raises(HoodieSchemaException, match="column 'code'"):
        upsert_with_spark(path, spark.sql("select 'b' as id, X'0405' as code"))


@pytest.mark.parametrize("kind", ["struct", "map"])
def test_columns_that_are_nested_too_deeply_for_spark_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    column = "1L"
    for _ in range(63 if kind == "struct" else 32):
        column = f"named_struct('a', {column})" if kind == "struct" else f"map('k', {column})"
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id")
    with (
        SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client,
        pytest.raises(HoodieSchemaException, match="column 'c' is nested too deeply for Spark: it has 6[34] levels"),
    ):
        client.upsert(spark.sql(f"select 'a' id, {column} c"))
    assert not list(tmp_path.rglob("*.parquet"))
