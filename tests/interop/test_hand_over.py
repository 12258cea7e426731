"""Tables that hoodie and real Hudi write in turn: after each step all readers see the rows of the model."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import (
    COMPLEX_HIVE,
    NON_PARTITIONED,
    SIMPLE,
    Layout,
    Row,
    TableModel,
    assert_all_agree,
)

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("is_open", pa.bool_()),
        ("small", pa.int32()),
        ("ratio", pa.float32()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(30, 12)),
        ("day", pa.date32()),
        ("seen_at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("place", pa.struct([("name", pa.string()), ("lat", pa.float64())])),
        ("tags", pa.list_(pa.string())),
        ("stops", pa.list_(pa.struct([("name", pa.string()), ("minute", pa.int32())]))),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
UTC = datetime.UTC
DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


def make_row(layout: Layout, number: int, ts: int, generation: int = 0, **more: Any) -> Row:
    """Row ``number`` as of ``ts``; the generation changes every value, and every fourth row holds nulls only."""
    place = number % len(layout.regions)
    row: Row = {"id": f"k{number:03d}", "kind": f"kind{place % 2}", "region": layout.regions[place], "ts": ts}
    if (number + generation) % 4 == 3:
        return row | dict.fromkeys(SCHEMA.names[4:]) | more
    seed = number + 1000 * generation
    values = {
        "is_open": seed % 3 == 0,
        "small": -seed,
        "ratio": seed / 4,
        "fare": seed + 0.1,
        "price": Decimal(seed).scaleb(-2) - 5,
        "wide": -Decimal(seed) * Decimal("123456789012.000000000001"),
        "day": datetime.date(1969, 12, 20) + datetime.timedelta(days=seed),
        "seen_at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC) + datetime.timedelta(seconds=seed),
        "raw": bytes([seed % 256, 0, 255]),
        "place": {"name": f"näme {seed}", "lat": None if seed % 5 == 0 else seed / 8},
        "tags": [] if seed % 6 == 0 else ["t", f"t{seed}"],
        "stops": [{"name": "s", "minute": seed}, {"name": None, "minute": None}],
        "counts": [(f"c{seed}", seed), ("none", None)],
    }
    return row | values | more


def change(model: TableModel, numbers: range, generation: int, **more: Any) -> list[Row]:
    """New versions of rows: in turn later than what is stored, of the same time, and too late."""
    stored = {row["id"]: row["ts"] for row in model.rows}
    return [
        make_row(model.layout, number, stored.get(f"k{number:03d}", 100) + (1 - number % 3), generation, **more)
        for number in numbers
    ]


class Table:
    """A table and its model; every method writes to both.

    Args:
        base_path: Where hoodie creates the table.
        layout: Keys and folders.
        payload: The payload class that is stored, or None for what hoodie chooses.
    """

    def __init__(self, base_path: Path, layout: Layout, payload: str) -> None:
        self.base_path = base_path
        self.model = TableModel(layout, SCHEMA, event_time=payload == DEFAULT_PAYLOAD)
        self.layout = layout
        arguments = layout.init_arguments()
        arguments["properties"] = {**arguments["properties"], "hoodie.compaction.payload.class": payload}
        HoodieTableMetaClient.init_table(str(base_path), table_name="handed_over", **arguments)

    def rows(self, numbers: range, ts: int) -> list[Row]:
        return [make_row(self.layout, number, ts) for number in numbers]

    def by_hoodie(self, operation: str, rows: list[Row], **properties: Any) -> None:
        self._note(operation, rows)
        config = HoodieWriteConfig.from_properties(str(self.base_path), properties)
        with HoodieLocalWriteClient(config) as client:
            getattr(client, operation)(self.model.table(rows))

    def by_spark(self, spark: SparkSession, operation: str, rows: list[Row], **options: str) -> None:
        self._note(operation, rows)
        config = HoodieWriteConfig.from_properties(str(self.base_path), options)
        frame = spark.createDataFrame(self.model.table(rows))
        with SparkRDDWriteClient(spark, config) as client:
            getattr(client, operation)(frame)

    def by(self, hudi: HudiProcess, operation: str, rows: list[Row], **options: str) -> None:
        self._note(operation, rows)
        given = {**self.layout.hudi_options("handed_over"), **options}
        hudi.write(self.base_path, self.model.table(rows), given, operation=operation)

    def _note(self, operation: str, rows: list[Row]) -> None:
        {"upsert": self.model.upsert, "delete": self.model.delete}.get(operation, self.model.insert)(rows)


NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}


@pytest.mark.interop_smoke(9)
@pytest.mark.parametrize(
    "layout", [pytest.param(layout, id=layout.name) for layout in (SIMPLE, COMPLEX_HIVE, NON_PARTITIONED)]
)
def test_every_operation_and_type_of_hoodie_is_read_by_real_hudi(
    tmp_path: Path, hudis: Sequence[HudiProcess], layout: Layout
) -> None:
    table = Table(tmp_path / "t", layout, DEFAULT_PAYLOAD)
    table.by_hoodie("bulk_insert", table.rows(range(40), ts=100))
    table.by_hoodie("upsert", change(table.model, range(20, 60), 1), **NEW_FILES)
    table.by_hoodie("insert", table.rows(range(60, 70), ts=100))
    table.by_hoodie("delete", table.rows(range(0, 70, 7), ts=0))
    table.by_hoodie("upsert", [*change(table.model, range(0, 20), 2), *change(table.model, range(0, 20), 3)])
    assert_all_agree(table.base_path, table.model, *hudis)


@pytest.mark.parametrize(
    ("layout", "payload"),
    [
        pytest.param(SIMPLE, DEFAULT_PAYLOAD, id="simple-event_time", marks=pytest.mark.interop_smoke),
        pytest.param(SIMPLE, LATEST_PAYLOAD, id="simple-latest"),
        pytest.param(COMPLEX_HIVE, DEFAULT_PAYLOAD, id="complex-event_time"),
        pytest.param(COMPLEX_HIVE, LATEST_PAYLOAD, id="complex-latest"),
        pytest.param(NON_PARTITIONED, DEFAULT_PAYLOAD, id="non_partitioned-event_time"),
        pytest.param(NON_PARTITIONED, LATEST_PAYLOAD, id="non_partitioned-latest"),
    ],
)
def test_hoodie_and_all_releases_write_one_table_in_turn(
    tmp_path: Path, hudis: Sequence[HudiProcess], layout: Layout, payload: str
) -> None:
    table = Table(tmp_path / "t", layout, payload)
    older, newer = hudis[0], hudis[-1]

    def check() -> None:
        assert_all_agree(table.base_path, table.model, *hudis)

    table.by_hoodie("bulk_insert", table.rows(range(30), ts=100))
    check()
    table.by(older, "upsert", change(table.model, range(20, 40), 1), **NEW_FILES)
    check()
    table.by_hoodie("upsert", change(table.model, range(10, 50), 2), **NEW_FILES)
    check()
    table.by(newer, "upsert", change(table.model, range(30, 60), 3))
    check()
    table.by(older, "delete", table.rows(range(0, 60, 9), ts=1000))
    check()
    table.by_hoodie("upsert", change(table.model, range(0, 20), 4))
    check()
    table.by(newer, "delete", table.rows(range(0, 60, 8), ts=1000))
    table.by_hoodie("delete", table.rows(range(0, 60, 7), ts=0))
    table.by_hoodie("insert", table.rows(range(60, 65), ts=100))
    check()


@pytest.mark.interop_smoke(9)
def test_the_spark_client_and_hudi_write_one_table_in_turn(
    tmp_path: Path, hudis: Sequence[HudiProcess], spark: SparkSession
) -> None:
    table = Table(tmp_path / "t", COMPLEX_HIVE, DEFAULT_PAYLOAD)
    table.by_spark(
        spark, "bulk_insert", table.rows(range(30), ts=100), **{"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    )
    table.by(hudis[0], "upsert", change(table.model, range(20, 40), 1))
    table.by_spark(spark, "upsert", change(table.model, range(10, 50), 2), **NEW_FILES)
    table.by(hudis[0], "delete", table.rows(range(0, 60, 9), ts=1000))
    table.by_spark(spark, "delete", table.rows(range(0, 60, 7), ts=0))
    table.by_spark(spark, "insert", table.rows(range(60, 65), ts=100))
    assert_all_agree(table.base_path, table.model, hudis[0])


def test_a_column_that_either_side_adds_is_there_for_all(tmp_path: Path, hudis: Sequence[HudiProcess]) -> None:
    table = Table(tmp_path / "t", SIMPLE, DEFAULT_PAYLOAD)
    table.by_hoodie("bulk_insert", table.rows(range(20), ts=100))
    table.model.add_column(pa.field("tip", pa.decimal128(8, 3)))
    table.by_hoodie("upsert", change(table.model, range(10, 25), 1, tip=Decimal("1.125")))
    assert_all_agree(table.base_path, table.model, *hudis)
    table.by(hudis[0], "upsert", change(table.model, range(5, 15), 2, tip=Decimal("2.5")))
    assert_all_agree(table.base_path, table.model, *hudis)
    for hudi, name in zip(hudis, ("first", "second"), strict=False):
        table.model.add_column(pa.field(name, pa.string()))
        table.by(hudi, "upsert", change(table.model, range(0, 10), 3, **{name: "new"}))
        assert_all_agree(table.base_path, table.model, *hudis)
        table.by_hoodie("upsert", change(table.model, range(5, 28), 4, **{name: "newer"}))
        assert_all_agree(table.base_path, table.model, *hudis)


OLD_LISTS = "parquet.avro.write-old-list-structure"


def test_null_elements_of_lists_pass_through_versions_that_are_told_to_write_them(
    tmp_path: Path, hudis: Sequence[HudiProcess]
) -> None:
    """By default real Hudi writes lists without a place for a null element, and fails at such a row."""
    table = Table(tmp_path / "t", SIMPLE, DEFAULT_PAYLOAD)
    holed = {"tags": [None, "t", None], "stops": [None, {"name": "s", "minute": None}]}
    table.by_hoodie("bulk_insert", [row | holed for row in table.rows(range(12), ts=100)])
    assert_all_agree(table.base_path, table.model, *hudis)
    for hudi in hudis:
        hudi.set_hadoop_property(OLD_LISTS, "false")
        try:
            table.by(hudi, "upsert", change(table.model, range(6, 15), 1, **holed))
        finally:
            # To say what is the default is not the same: Hudi then takes it for the lists that it reads, too.
            hudi.set_hadoop_property(OLD_LISTS, None)
        assert_all_agree(table.base_path, table.model, *hudis)
        table.by_hoodie("upsert", change(table.model, range(0, 18), 2, **holed))
        assert_all_agree(table.base_path, table.model, *hudis)
