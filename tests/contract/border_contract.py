"""Every type through a write and back, whatever the time zone; a module subclasses `BorderContract` once per engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient

__all__ = ["ZONES", "BorderContract"]

ZONES = ["UTC", "Asia/Tokyo", "America/New_York"]
INSTANTS = [
    datetime(1, 1, 1, 0, 0, 0, 1, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2026, 3, 8, 7, 0, tzinfo=UTC),  # New York's clocks go forward
    datetime(2026, 11, 1, 5, 30, tzinfo=UTC),  # ... and back: 1:30 is there twice
    datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
]
ROWS = len(INSTANTS)
UTC_MICROS = pa.timestamp("us", "UTC")


@attrs.frozen
class Column:
    """A type that comes in, the one that is stored, and a value for each row."""

    given: pa.DataType
    stored: pa.DataType
    values: list[Any]


def same(data_type: pa.DataType, *values: Any) -> Column:
    """A type that is stored as it is; the values are repeated, with a null at the end."""
    return Column(data_type, data_type, [*(values[n % len(values)] for n in range(ROWS - 1)), None])


def element(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


STRUCT = pa.struct([("x", pa.int32()), ("d", pa.decimal128(20, 3)), ("t", UTC_MICROS)])
STRUCTS = [{"x": 1, "d": Decimal("-1.125"), "t": INSTANTS[1]}, {"x": None, "d": None, "t": INSTANTS[3]}]
COLUMNS: dict[str, Column] = {
    "int8": Column(pa.int8(), pa.int32(), [-128, 127, 0, 1, 2, None]),
    "int16": Column(pa.int16(), pa.int32(), [-32768, 32767, 0, 1, 2, None]),
    "int32": same(pa.int32(), -(2**31), 2**31 - 1),
    "int64": same(pa.int64(), -(2**63), 2**63 - 1),
    "float": same(pa.float32(), 0.5, -0.0, float("inf")),
    "double": same(pa.float64(), 0.1, -1e300, float("-inf")),
    "flag": same(pa.bool_(), True, False),
    "text": same(pa.string(), "", "äöü 𝄞", "x" * 1000),
    "bytes": same(pa.binary(), b"", b"\x00\xff"),
    "day": same(pa.date32(), date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(9999, 12, 31)),
    "at": Column(UTC_MICROS, UTC_MICROS, INSTANTS),
    "local": Column(pa.timestamp("us"), UTC_MICROS, [None, *INSTANTS[1:]]),
    "structs": same(STRUCT, *STRUCTS),
    "lists": same(element(UTC_MICROS), [INSTANTS[2], None], []),
    "nested": same(element(element(STRUCT)), [[STRUCTS[0], None], None, []]),
    "maps": same(pa.map_(pa.string(), STRUCT), [("k", STRUCTS[1]), ("null", None)], []),
    "deep": same(pa.struct([("m", pa.map_(pa.string(), element(pa.date32())))]), {"m": [("k", [date(1, 1, 1), None])]}),
}
for precision, scale in ((1, 0), (4, 4), (9, 2), (10, 2), (18, 9), (19, 0), (27, 3), (38, 18)):
    COLUMNS[f"decimal{precision}"] = same(
        pa.decimal128(precision, scale), Decimal((0, (9,) * precision, -scale)), Decimal((1, (1,), -scale))
    )
EXPECTED = pa.table(
    {"id": [str(n) for n in range(ROWS)], **{name: pa.array(c.values, c.stored) for name, c in COLUMNS.items()}}
)


def given() -> pa.Table:
    """The input: local timestamps are those of UTC, without saying so."""
    columns = {
        name: pa.array([v.replace(tzinfo=None) if v and name == "local" else v for v in column.values], column.given)
        for name, column in COLUMNS.items()
    }
    return pa.table({"id": EXPECTED["id"], **columns})


class BorderContract(ABC):
    """Values come back as they went in, in every time zone of the process or session."""

    @abstractmethod
    def upsert(self, base_path: str, table: pa.Table) -> None:
        """Write an input by the engine."""

    @abstractmethod
    def read(self, base_path: str) -> pa.Table:
        """All rows by the engine's reader, timestamps in UTC."""

    @abstractmethod
    def micros(self, base_path: str) -> dict[str, int]:
        """The column ``at`` in microseconds since 1970, by ``id``, without a conversion of timestamps to Python's."""

    @pytest.fixture(params=ZONES)
    @abstractmethod
    def zone(self, request: pytest.FixtureRequest) -> Any:
        """The time zone of the session, or of the process."""

    def test_every_type_comes_back_as_it_went_in(self, tmp_path: Path, zone: str) -> None:
        base_path = str(tmp_path / "t")
        HoodieTableMetaClient.init_table(base_path, table_name="t", record_key_fields="id")
        self.upsert(base_path, given())
        self.upsert(base_path, given().slice(0, ROWS // 2))  # the others are carried over by the merge
        assert HoodieTableMetaClient.load(base_path).load_schema() == EXPECTED.schema
        for found in (hoodie.read_table(base_path), self.read(base_path)):
            rows = found.select(EXPECTED.column_names).sort_by("id")
            for name in EXPECTED.column_names:
                assert rows.column(name).to_pylist() == EXPECTED.column(name).to_pylist(), name
        expected = EXPECTED["at"].cast(pa.int64()).to_pylist()
        assert self.micros(base_path) == dict(zip(EXPECTED["id"].to_pylist(), expected, strict=True))
