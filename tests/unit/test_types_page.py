"""Every row of the tables of ``docs/types.md``, run by the in-process client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.data.schema_compatibility import merge_schemas
from hoodie.exception import HoodieSchemaException, SchemaCompatibilityException
from tests.contract.types_page import Row, array_of, evaluated, field_of, rows_below, stored_type
from tests.support.table_builder import local_client

ARROW = rows_below("Arrow")
TAKEN = [row for row in ARROW if not row.is_refused]
REFUSED = [row for row in ARROW if row.is_refused]
CHANGES = rows_below("How columns change")


def write(base_path: Path, table: pa.Table) -> pa.Table:
    HoodieTableMetaClient.init_table(str(base_path), table_name="t", record_key_fields="id")
    with local_client(base_path) as client:
        client.upsert(table)
        client.upsert(table.slice(1))  # the first row goes through a merge as it is stored
    return hoodie.read_table(str(base_path)).sort_by("id")


def as_struct(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], names=["x"])


def as_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)


def as_map(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(range(len(values) + 1), pa.array(["k"] * len(values), pa.string()), values)


NESTINGS: dict[str, tuple[Callable[[pa.Array], pa.Array], Callable[[Any], Any]]] = {
    "column": (lambda values: values, lambda value: value),
    "struct": (as_struct, lambda value: {"x": value}),
    "list": (as_list, lambda value: [value]),
    "map": (as_map, lambda value: [("k", value)]),
}


@pytest.mark.parametrize("nesting", NESTINGS)
def test_every_type_of_the_page_is_stored_and_read_as_it_says(tmp_path: Path, nesting: str) -> None:
    wrap, expected = NESTINGS[nesting]
    arrays = [array_of([evaluated(row.cells[1]), None], row.cells[0]) for row in TAKEN]
    columns = {f"c{number}": wrap(values) for number, values in enumerate(arrays)}
    found = write(tmp_path / "t", pa.table({"id": ["a", "b"], **columns}))
    for number, row in enumerate(TAKEN):
        column = found.column(f"c{number}")
        assert column.type == wrap(pa.nulls(0, stored_type(row.cells[2]))).type, str(row)
        assert column.to_pylist() == [expected(evaluated(row.cells[3])), expected(None)], str(row)


@pytest.mark.parametrize("row", REFUSED, ids=str)
def test_every_refused_type_of_the_page_says_why_nested_too(tmp_path: Path, row: Row) -> None:
    values = array_of([evaluated(row.cells[1])], row.cells[0])
    field = field_of("c", row.cells[0]) or pa.field("c", values.type)
    nested = pa.field("s", pa.list_(pa.struct([field])))
    for column, path in ((field, "c"), (nested, r"s\.element\.c")):
        schema = pa.schema([pa.field("id", pa.string()), column])
        table = pa.Table.from_arrays(
            [pa.array(["a"]), values if path == "c" else pa.nulls(1, nested.type)], schema=schema
        )
        with pytest.raises(HoodieSchemaException, match=f"column '{path}' of type .* cannot be stored") as caught:
            write(tmp_path / path[0], table)
        assert row.cells[3] in str(caught.value)


@pytest.mark.parametrize("row", CHANGES, ids=str)
def test_every_change_of_a_column_of_the_page_is_made_or_refused(row: Row) -> None:
    table, given = (pa.schema([("c", stored_type(cell))]) for cell in row.cells[:2])
    if row.is_refused:
        with pytest.raises(SchemaCompatibilityException, match=r"c: the table has .*, the input "):
            merge_schemas(table, given)
    else:
        assert merge_schemas(table, given).columns == pa.schema([("c", stored_type(row.cells[2]))])


def test_a_timestamp_that_would_lose_nanoseconds_is_refused_on_every_level(tmp_path: Path) -> None:
    moments = pa.array([1_000, 1_001], pa.timestamp("ns"))
    for name, (wrap, _) in NESTINGS.items():
        with pytest.raises(HoodieSchemaException, match="without losing something, first value: 1001 ns since 1970"):
            write(tmp_path / name, pa.table({"id": ["a", "b"], "c": wrap(moments)}))


def test_a_table_that_has_local_timestamps_keeps_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.string()), ("c", pa.timestamp("us"))])
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", schema=schema)
    local = datetime(2026, 11, 21, 10)
    with local_client(path) as client:
        client.upsert(pa.table({"id": ["a"], "c": pa.array([local], pa.timestamp("ns"))}))
        with pytest.raises(SchemaCompatibilityException, match=r"c: the table has timestamp\[us\], the input"):
            client.upsert(pa.table({"id": ["a"], "c": pa.array([local.replace(tzinfo=UTC)])}))
    assert hoodie.read_table(path, columns=["c"]).to_pylist() == [{"c": local}]
