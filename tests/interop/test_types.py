"""All types and the evolution of columns, with real Hudi writing in turn: one schema, and the values of the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.contract.border_contract import COLUMNS, ROWS
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, assert_all_agree

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
OPTIONS = {**SIMPLE.hudi_options("typed"), "hoodie.datasource.write.payload.class": DEFAULT_PAYLOAD}
KEYS = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
LEFT_OUT = {"lists", "nested", "deep", "local", "day", "at"}
"""Nulls in lists, and days before 1582: real Hudi and Spark 3.5 refuse them by default. Added again below.

Nor can 0.15.0 update a table, its own included, in which two nested decimals of one name differ in precision.
"""
MODERN = {
    "days": (pa.list_(pa.date32()), lambda n: [COLUMNS["day"].values[3]] * n),
    "day": (pa.date32(), lambda n: COLUMNS["day"].values[2]),
    "at": (pa.timestamp("us", "UTC"), lambda n: COLUMNS["at"].values[1 + n % 4]),
    "deep": (
        pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int32()), ("e", pa.decimal128(9, 3))]))))]),
        lambda n: {"m": [(f"k{n}", [{"x": n, "e": None}])]},
    ),
}
TYPED = pa.schema(
    [
        *KEYS,
        *((name, column.stored) for name, column in COLUMNS.items() if name not in LEFT_OUT),
        *((name, data_type) for name, (data_type, _) in MODERN.items()),
    ]
)


def typed_rows(numbers: range, ts: int) -> list[Row]:
    """Rows of every type; with each ``ts`` a row holds the values of another line."""
    rows = []
    for number in numbers:
        line = (number + ts) % ROWS
        row = {"id": f"k{number}", "region": SIMPLE.regions[number % 3], "ts": ts}
        row |= {name: column.values[line] for name, column in COLUMNS.items() if name not in LEFT_OUT}
        rows.append(row | {name: None if line == 0 else value(line) for name, (_, value) in MODERN.items()})
    return rows


class Table:
    """A table and its model; every method writes to both."""

    def __init__(self, base_path: Path, schema: pa.Schema) -> None:
        self.base_path = base_path
        self.model = TableModel(SIMPLE, schema, event_time=True)

    def create(self) -> None:
        arguments = SIMPLE.init_arguments()
        HoodieTableMetaClient.init_table(str(self.base_path), table_name="typed", **arguments)

    def by_hoodie(self, rows: list[Row]) -> None:
        self.model.upsert(rows)
        # As real Hudi, which widens integers to floats unasked.
        properties = {"hoodie.write.schema.widen.lossy": "true"}
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(self.base_path), properties)) as client:
            client.upsert(self.model.table(rows))

    def by(self, hudi: HudiProcess, rows: list[Row], operation: str = "upsert") -> None:
        self.model.upsert(rows)
        hudi.write(self.base_path, self.model.table(rows), OPTIONS, operation=operation)

    @property
    def avro_schema(self) -> Any:
        text = HoodieTableMetaClient.load(str(self.base_path)).load_avro_schema()
        return json.loads(text or "null")

    def set_type(self, name: str, data_type: pa.DataType) -> None:
        number = self.model.schema.get_field_index(name)
        self.model.schema = self.model.schema.set(number, pa.field(name, data_type))


@pytest.mark.interop_smoke
def test_a_table_of_every_type_has_one_schema_whoever_writes(tmp_path: Path, hudis: Sequence[HudiProcess]) -> None:
    ours = Table(tmp_path / "ours", TYPED)
    ours.create()
    ours.by_hoodie(typed_rows(range(12), 1))
    schema = ours.avro_schema
    ours.by(hudis[0], typed_rows(range(6, 15), 2))
    assert ours.avro_schema == schema
    ours.by_hoodie(typed_rows(range(3, 18), 3))
    assert ours.avro_schema == schema
    assert_all_agree(ours.base_path, ours.model, *hudis)
    ours.by(hudis[-1], typed_rows(range(0, 9), 4))
    assert ours.avro_schema == schema
    ours.by_hoodie(typed_rows(range(0, 18, 2), 5))
    assert_all_agree(ours.base_path, ours.model, *hudis)


def test_a_table_of_every_type_that_hudi_made_has_the_schema_of_ours(tmp_path: Path, hudi: HudiProcess) -> None:
    theirs = Table(tmp_path / "theirs", TYPED)
    theirs.by(hudi, typed_rows(range(12), 1), "insert")
    ours = Table(tmp_path / "ours", TYPED)
    ours.create()
    ours.by_hoodie(typed_rows(range(12), 1))
    schema = theirs.avro_schema
    assert ours.avro_schema == schema
    theirs.by_hoodie(typed_rows(range(6, 15), 2))
    assert theirs.avro_schema == schema
    theirs.by(hudi, typed_rows(range(3, 18), 3))
    theirs.by_hoodie(typed_rows(range(0, 18, 2), 4))
    assert theirs.avro_schema == schema
    assert_all_agree(theirs.base_path, theirs.model, hudi)


INNER = pa.struct([("x", pa.int32())])
WIDER_INNER = pa.struct([("x", pa.int64()), ("more", pa.string())])
STEPS: list[dict[str, pa.DataType]] = [
    {"a": pa.int64(), "s": WIDER_INNER},
    {"a": pa.float64(), "b": pa.float32(), "l": pa.list_(WIDER_INNER)},
    {"b": pa.float64(), "c": pa.float64(), "m": pa.map_(pa.string(), WIDER_INNER), "added": pa.decimal128(9, 2)},
]
START: dict[str, pa.DataType] = {
    "a": pa.int32(),
    "b": pa.int64(),
    "c": pa.float32(),
    "s": INNER,
    "l": pa.list_(INNER),
    "m": pa.map_(pa.string(), INNER),
}


def evolving_rows(numbers: range, ts: int) -> list[Row]:
    """Values that every type of their column holds exactly.

    Hudi reads a float of 0.1 as a double in one way from a file that it has not rewritten yet, in another afterwards.
    """
    rows = []
    for number in numbers:
        inner = {"x": number + ts}
        values = {"a": number, "b": -number, "c": ts / 8, "s": inner, "l": [inner], "m": [("k", inner)]}
        rows.append({"id": f"k{number}", "region": SIMPLE.regions[number % 3], "ts": ts, **values})
    return rows


@pytest.fixture
def row_readers(hudis: Sequence[HudiProcess]) -> Iterator[None]:
    """Spark's other Parquet reader: Hudi cannot read nested types that changed with the vectorised one, and says so."""
    for hudi in hudis:
        hudi.sql("set spark.sql.parquet.enableVectorizedReader=false")
    yield
    for hudi in hudis:
        hudi.sql("set spark.sql.parquet.enableVectorizedReader=true")


@pytest.mark.usefixtures("row_readers")
@pytest.mark.parametrize("shift", range(3), ids=["hoodie", "older", "newer"])
def test_columns_that_each_side_widens_are_read_and_merged_by_all(
    tmp_path: Path, hudis: Sequence[HudiProcess], shift: int
) -> None:
    schema = pa.schema([*KEYS, *START.items()])
    table = Table(tmp_path / "t", schema)
    table.create()
    writers: list[Callable[[list[Row]], None]] = [
        table.by_hoodie,
        lambda rows: table.by(hudis[0], rows),
        lambda rows: table.by(hudis[-1], rows),
    ]
    table.by_hoodie(evolving_rows(range(18), 1))
    for number, step in enumerate(STEPS):
        for name, data_type in step.items():
            if name in table.model.schema.names:
                table.set_type(name, data_type)
            else:
                table.model.add_column(pa.field(name, data_type))
        # Rows of one region only: the files of the others stay as they were written.
        rows = [row for row in evolving_rows(range(24), number + 2) if row["region"] == SIMPLE.regions[number]]
        writers[(number + shift) % 3](rows)
        found = HoodieTableMetaClient.load(str(table.base_path)).load_schema()
        assert {field.name: field.type for field in found} == {field.name: field.type for field in table.model.schema}
        assert_all_agree(table.base_path, table.model, *hudis, hudi_rs=False)
    writers[shift](evolving_rows(range(0, 24, 2), 9))
    table.by_hoodie(evolving_rows(range(0, 24, 3), 10))
    assert_all_agree(table.base_path, table.model, *hudis, hudi_rs=False)
