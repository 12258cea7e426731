"""Values of every type come out of merged file slices as out of base files, whatever the session's time zone is."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import hoodie.spark
from tests.support.table_builder import init_table, local_client
from tests.unit.test_tables_of_real_hudi import in_order

pytestmark = pytest.mark.spark

UTC = datetime.UTC
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "single": (pa.float32(), [1.5, float("-inf"), None]),
    "double": (pa.float64(), [1e300, -0.0, None]),
    "flag": (pa.bool_(), [True, False, None]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", None]),
    "price": (pa.decimal128(10, 2), [Decimal("12345678.90"), Decimal("-0.01"), None]),
    "wide": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10"), None]),
    "day": (pa.date32(), [datetime.date(1500, 3, 1), datetime.date(9999, 12, 31), None]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1500, 3, 1, 1, 2, 3, 4, UTC),
            datetime.datetime(2026, 3, 8, 7, 30, tzinfo=UTC),
            None,
        ],
    ),
    "millis": (
        pa.timestamp("ms", "UTC"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), datetime.datetime(2026, 11, 1, 6, tzinfo=UTC), None],
    ),
    "local": (
        pa.timestamp("us"),
        [datetime.datetime(2026, 3, 8, 2, 30), datetime.datetime(1899, 1, 1, 0, 0, 0, 1), None],
    ),
    "pair": (pa.struct([("a", pa.int32()), ("B", pa.timestamp("us", "UTC"))]),
             [{"a": 1, "B": datetime.datetime(2026, 3, 8, 7, 30, tzinfo=UTC)}, {"a": None, "B": None}, None]),
    "list": (pa.list_(pa.decimal128(5, 1)), [[Decimal("1.5"), None], [], None]),
    "map": (pa.map_(pa.string(), pa.date32()), [[("a", datetime.date(2026, 1, 1))], [], None]),
}  # fmt: skip
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def rows_of(partition: str, shift: int) -> pa.Table:
    """Three rows with the values of each type, in another order for another shift."""
    columns = {
        "id": pa.array([f"{partition}{number}" for number in range(3)]),
        "region": pa.array([partition] * 3),
        "ts": pa.array([shift] * 3, pa.int64()),
    }
    for name, (kind, values) in VALUES.items():
        columns[name] = pa.array(values[shift:] + values[:shift], kind)
    return pa.table(columns)


@pytest.mark.parametrize(
    ("table_version", "block_format"),
    [
        (9, "avro"),
        (6, "parquet"),
        pytest.param(9, "parquet", marks=pytest.mark.slow),
        pytest.param(6, "avro", marks=pytest.mark.slow),
    ],
    indirect=["table_version"],
)
def test_values_of_every_type_are_those_of_base_files(
    spark: SparkSession, tmp_path: Path, table_version: int, block_format: str
) -> None:
    """First some slices are merged in Python, and Spark scans the others; then all are compacted."""
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    properties = {**NO_SERVICES, "hoodie.logfile.data.block.format": block_format}
    with local_client(path, properties) as client:
        client.upsert(pa.concat_tables([rows_of(partition, 0) for partition in "xyz"]))
        client.upsert(rows_of("x", 1).slice(0, 2))
        client.upsert(rows_of("z", 2))
        zone = spark.conf.get("spark.sql.session.timeZone")
        try:
            spark.conf.set("spark.sql.session.timeZone", "America/New_York")
            shown = [show(spark, path)]
            here = hoodie.read_table(path).drop_columns(["_hoodie_file_name"])
            client.compact()
            shown.append(show(spark, path))
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
    assert shown[0] == shown[1]
    assert not hoodie.plan_read(path).log_files
    assert in_order(here.to_pylist()) == in_order(
        hoodie.read_table(path).drop_columns(["_hoodie_file_name"]).to_pylist()
    )


def show(spark: SparkSession, path: str) -> list[Any]:
    """The types, the rows as Spark shows them, and what filters pass."""
    frame = hoodie.spark.read(spark, path, {"hoodie.spark.read.driver.max.bytes": "0"}).drop("_hoodie_file_name")
    plain = [name for name in frame.columns if name not in ("map", "bytes")]
    found: list[Any] = [
        [(field.name, field.dataType) for field in frame.schema],
        sorted(row.j for row in frame.select(sf.to_json(sf.struct(*plain)).alias("j")).collect()),
        in_order([row.asDict(recursive=True) for row in frame.collect()]),
    ]
    for condition in (
        "moment >= timestamp'2026-03-08 03:30:00'",
        "millis < timestamp'1970-01-01'",
        "local = timestamp_ntz'2026-03-08 02:30:00'",
        "day > date'2000-01-01'",
        "price < 0",
        "whole is null and region = 'x'",
        "pair.a = 1",
        "double = 0",
        "ID = 'x1'",
    ):
        found.append((condition, sorted(row.id for row in frame.where(condition).select("id").collect())))
    return found
