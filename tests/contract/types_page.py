"""``docs/types.md`` as data: the tables that say what becomes of every type."""

from __future__ import annotations

import ast
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["REFUSED", "Row", "array_of", "evaluated", "field_of", "rows_below", "stored_type"]

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
REFUSED = "refused"
VALUES = {
    "UTC": UTC,
    "UUID": UUID,
    "Decimal": Decimal,
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
}


@attrs.frozen
class Row:
    """A line of a table: its cells without backticks."""

    cells: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the third cell says so."""
        return self.cells[2] == REFUSED

    def __str__(self) -> str:
        return " ".join(self.cells[:2])


def rows_below(heading: str) -> list[Row]:
    """The rows of the first table below a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}")[2]
    table = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None, heading
    return [
        Row(tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))) for line in table[1].splitlines()
    ]


def evaluated(text: str) -> Any:
    """A value of the page, or a type by the name of its factory in pyarrow."""
    names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    return eval(text, {"__builtins__": {}}, {name: VALUES.get(name) or getattr(pa, name) for name in names})


def stored_type(text: str) -> pa.DataType:
    """A type as a table has it: elements of lists are called so."""
    return _named(evaluated(text))


def _named(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", _named(data_type.value_type)))
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_named(field.type)) for field in data_type])
    return data_type


def array_of(values: list[Any], type_text: str) -> pa.Array:
    """Values of a type of the page, whatever it takes to make an array of them."""
    if type_text == "arrow.parquet.variant":
        return pa.array([{"metadata": b"", "value": b""}] * len(values))
    data_type = evaluated(type_text)
    if pa.types.is_run_end_encoded(data_type):
        return pc.run_end_encode(pa.array(values, data_type.value_type), run_end_type=data_type.run_end_type)
    if pa.types.is_union(data_type):
        codes, child = pa.array([0] * len(values), pa.int8()), pa.nulls(len(values), pa.int64())
        if data_type.mode == "sparse":
            return pa.UnionArray.from_sparse(codes, [child], ["a"])
        return pa.UnionArray.from_dense(codes, pa.array(range(len(values)), pa.int32()), [child], ["a"])
    if isinstance(data_type, pa.OpaqueType):
        return pa.ExtensionArray.from_storage(data_type, pa.array(values, data_type.storage_type))
    return pa.array(values, data_type)


def field_of(name: str, type_text: str) -> pa.Field | None:
    """The field of a type that pyarrow has no class for; None for others."""
    if type_text != "arrow.parquet.variant":
        return None
    storage = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    return pa.field(name, storage, metadata={"ARROW:extension:name": type_text})
