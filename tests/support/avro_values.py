"""Random Avro schemas with random values, for tests against other implementations."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Context, Decimal
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

_EPOCH = dt.datetime(1970, 1, 1)
_MAX_MICROS = 250_000_000_000_000_000
"""Some 7,900 years: Python knows the dates."""
Values = st.SearchStrategy[Any]


def _instants(step: int, zone: dt.tzinfo | None) -> Values:
    def instant(number: int) -> dt.datetime:
        return (_EPOCH + dt.timedelta(microseconds=number * step)).replace(tzinfo=zone)

    return st.integers(-50_000_000_000_000_000 // step, _MAX_MICROS // step).map(instant)


def _times(step: int) -> Values:
    def time(number: int) -> dt.time:
        return (_EPOCH + dt.timedelta(microseconds=number * step)).time()

    return st.integers(0, 86_400_000_000 // step - 1).map(time)


def _decimals(precision: int, scale: int) -> Values:
    largest = 10**precision - 1
    # fastavro writes a byte more than Java for -128, -32768 and the like.
    numbers = st.integers(-largest, largest).filter(lambda number: number >= 0 or -number & (-number - 1))
    return numbers.map(lambda number: Decimal(number).scaleb(-scale, Context(prec=60)))


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


LEAVES: list[tuple[Any, Values]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-70, 70)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70) | st.integers(-(1 << 56), 1 << 56)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=200)),
    ("string", st.text(max_size=100)),
    (_logical("int", "date"), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    (_logical("int", "time-millis"), _times(1000)),
    (_logical("long", "time-micros"), _times(1)),
    (_logical("long", "timestamp-millis"), _instants(1000, dt.UTC)),
    (_logical("long", "timestamp-micros"), _instants(1, dt.UTC)),
    (_logical("long", "local-timestamp-millis"), _instants(1000, None)),
    (_logical("long", "local-timestamp-micros"), _instants(1, None)),
    (_logical("bytes", "decimal", precision=38, scale=10), _decimals(38, 10)),
    ({"type": "string", "avro.java.string": "String"}, st.text(max_size=3)),
]
"""Types without a name, with values as both Arrow and fastavro give them."""
NAMED: list[tuple[dict[str, Any], Values]] = [
    ({"type": "fixed", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}, _decimals(10, 2)),
    ({"type": "fixed", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0}, _decimals(38, 0)),
    ({"type": "enum", "symbols": ["RED", "BLUE", "GREEN"]}, st.sampled_from(["RED", "BLUE", "GREEN"])),
]
"""Types that need a name."""


@st.composite
def typed_values(draw: st.DrawFn, numbers: count[int], depth: int = 3) -> tuple[Any, Values]:
    """A type, and its values."""
    kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "named", "union", "union", "array", "map", "record"]))
    if kind == "named" or (depth == 0 and kind == "record"):
        schema, values = draw(st.sampled_from(NAMED))
        return schema | {"name": f"N{next(numbers)}"}, values
    if kind == "leaf" or depth == 0:
        return draw(st.sampled_from(LEAVES))
    if kind == "record":
        return draw(records(numbers, depth - 1))
    schema, values = draw(typed_values(numbers, depth - 1))
    if kind == "union":
        if isinstance(schema, list):
            return schema, values
        return draw(st.sampled_from([["null", schema], [schema, "null"]])), st.none() | values
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=4)
    return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=3), values, max_size=3)


@st.composite
def records(draw: st.DrawFn, numbers: count[int] | None = None, depth: int = 3) -> tuple[dict[str, Any], Values]:
    """The schema of a record, and its values."""
    numbers = count() if numbers is None else numbers
    fields = draw(st.lists(typed_values(numbers, depth), min_size=1, max_size=5))
    schema = {
        "type": "record",
        "name": f"R{next(numbers)}",
        "fields": [{"name": f"f{place}", "type": kind} for place, (kind, _) in enumerate(fields)],
    }
    return schema, st.fixed_dictionaries({f"f{place}": values for place, (_, values) in enumerate(fields)})


def encoded(schema: dict[str, Any], values: list[dict[str, Any]]) -> list[bytes]:
    """Each value as fastavro writes it."""
    parsed, datums = fastavro.parse_schema(schema), []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        datums.append(out.getvalue())
    return datums


def decoded(schema: dict[str, Any], datums: list[bytes]) -> list[dict[str, Any]]:
    """The values that fastavro reads."""
    parsed: Any = fastavro.parse_schema(schema)
    return [fastavro.schemaless_reader(io.BytesIO(datum), parsed) for datum in datums]  # type: ignore[misc]


def python_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch as fastavro gives them: maps are dicts."""
    return [
        {name: _plain(value, rows.schema.field(name).type) for name, value in row.items()} for row in rows.to_pylist()
    ]


def _plain(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return {key: _plain(item, data_type.item_type) for key, item in value}
    if pa.types.is_list(data_type):
        return [_plain(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        return {name: _plain(item, data_type.field(name).type) for name, item in value.items()}
    return value


def number(value: int) -> bytes:
    """An integer as Avro encodes it."""
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def record_of(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    """The schema of a record with fields of these names and types."""
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}
