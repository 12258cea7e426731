"""The golden keys of ``tests/data/hudi_keys.json``: values, and what real Hudi makes of them.

Values are stored as JSON that loses nothing: dates as days, timestamps as microseconds, floating-point numbers in
hexadecimal, bytes in hexadecimal, decimals as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

__all__ = ["GOLDEN_KEYS", "GoldenCase", "encode_column", "load_golden_keys"]

GOLDEN_KEYS = Path(__file__).parents[1] / "data" / "hudi_keys.json"
_TYPES = {
    str(data_type): data_type
    for data_type in (
        pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.binary(),
    )
}  # fmt: skip


@attrs.frozen
class GoldenCase:
    """One table of real Hudi.

    Attributes:
        name: Of the case.
        options: What Hudi was told.
        table_properties: What it stored about keys.
        rows: The values.
        record_keys: What it made of them; None where it refused the row.
        partition_paths: Likewise.
        errors: Row -> the reason of the refusal.
    """

    name: str
    options: Mapping[str, str]
    table_properties: Mapping[str, str]
    rows: pa.RecordBatch
    record_keys: list[str | None]
    partition_paths: list[str | None]
    errors: Mapping[int, str]


def load_golden_keys(path: Path = GOLDEN_KEYS) -> list[GoldenCase]:
    """All cases of the file."""
    return [
        GoldenCase(
            case["name"],
            case["options"],
            case["table_properties"],
            pa.RecordBatch.from_pydict({name: decode_column(column) for name, column in case["columns"].items()}),
            case["record_keys"],
            case["partition_paths"],
            {int(row): text for row, text in case["errors"].items()},
        )
        for case in json.loads(path.read_text(encoding="utf-8"))
    ]


def encode_column(values: pa.Array) -> dict[str, Any]:
    """A column as JSON."""
    data_type = values.type
    if pa.types.is_struct(data_type):
        children = {data_type.field(i).name: encode_column(values.field(i)) for i in range(data_type.num_fields)}
        return {"type": "struct", "valid": values.is_valid().to_pylist(), "children": children}
    encoded = values
    if pa.types.is_date32(data_type):
        encoded = values.view(pa.int32())
    elif pa.types.is_timestamp(data_type):
        encoded = values.view(pa.int64())
    return {"type": str(data_type), "values": [_encode(value) for value in encoded.to_pylist()]}


def decode_column(column: dict[str, Any]) -> pa.Array:
    """A column of JSON that `encode_column` made."""
    name = column["type"]
    if name == "struct":
        children = {child: decode_column(values) for child, values in column["children"].items()}
        mask = pa.array([not valid for valid in column["valid"]])
        return pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=mask)
    values = column["values"]
    if name.startswith("decimal128"):
        precision, scale = (int(part) for part in name.removeprefix("decimal128(").removesuffix(")").split(","))
        decimals = [None if value is None else Decimal(value) for value in values]
        return pa.array(decimals, pa.decimal128(precision, scale))
    data_type = _TYPES[name]
    if pa.types.is_floating(data_type):
        return pa.array([None if value is None else float.fromhex(value) for value in values], data_type)
    if pa.types.is_binary(data_type):
        return pa.array([None if value is None else bytes.fromhex(value) for value in values], data_type)
    if pa.types.is_date32(data_type):
        return pa.array(values, pa.int32()).view(data_type)
    if pa.types.is_timestamp(data_type):
        return pa.array(values, pa.int64()).view(data_type)
    return pa.array(values, data_type)


def _encode(value: Any) -> Any:
    match value:
        case float():
            return value.hex()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
    return value
