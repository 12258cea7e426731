"""Rows of a batch by value and by number: as the plain way gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.data.grouped_rows import joined_chunks, rows_by_value, take_rows

VALUES = ["", "a", "ä", "\U0001f600", "long " * 50, "a,b:c"]


class Named(pa.ExtensionType):
    """A type of another library, over any other type."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def named(column: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Named(column.type), column)


def columns_with_shared_bytes() -> dict[str, pa.Array]:
    """Columns of which some share all their bytes, and some share them but have other values."""
    numbers, texts = pa.array(range(12), pa.int64()), pa.array([*VALUES, None, *VALUES[:5]])
    codes = pa.array([0, 1] * 6, pa.int32())
    columns = {
        "numbers": numbers.slice(0, 10),
        "the same": numbers.slice(0, 10),
        "further on": numbers.slice(2, 10),
        "times": numbers.slice(0, 10).view(pa.timestamp("us")),
        "texts": texts.slice(1, 10),
        "texts again": texts.slice(1, 10),
        "letters": pa.DictionaryArray.from_arrays(codes.slice(0, 10), ["a", "b"]),
        "other letters": pa.DictionaryArray.from_arrays(codes.slice(0, 10), ["c", "d"]),
        "struct": pa.StructArray.from_arrays([numbers.slice(0, 10)], ["x"]),
        "shifted struct": pa.StructArray.from_arrays([numbers.slice(1, 10)], ["x"]),
        "list": pa.ListArray.from_arrays(pa.array(range(11), pa.int32()), numbers.slice(0, 10)),
        "shifted list": pa.ListArray.from_arrays(pa.array(range(11), pa.int32()), numbers.slice(2, 10)),
    }
    return columns | {f"{name} of a library": named(column) for name, column in columns.items()}


@given(rows=st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=20))
def test_taken_rows_are_those_of_each_column(rows: list[int | None]) -> None:
    columns = columns_with_shared_bytes()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    taken = take_rows(batch, pa.array(rows, pa.int64()))

    for column in taken.columns:
        # Arrow 17 ends the process when it looks at every string of an extension type.
        (column.storage if isinstance(column, pa.ExtensionArray) else column).validate(full=True)
    assert taken.schema.equals(batch.schema)
    for name, column in columns.items():
        assert taken.column(name).to_pylist() == [None if row is None else column[row].as_py() for row in rows], name


def test_columns_that_share_their_bytes_share_them_afterwards() -> None:
    columns = columns_with_shared_bytes()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    taken = take_rows(batch, pa.array([3, 1]))

    def address(name: str) -> Any:
        return taken.column(name).buffers()[-1].address

    assert address("the same") == address("numbers")
    assert address("texts again") == address("texts")
    assert address("further on") != address("numbers")


def test_joined_chunks_are_those_of_each_column() -> None:
    columns = columns_with_shared_bytes()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    table = pa.Table.from_batches([batch, batch.slice(4, 3), batch.slice(9)])

    joined = joined_chunks(table)

    assert joined.schema.equals(table.schema)
    for name in columns:
        assert joined[name].num_chunks == 1, name
        assert joined[name].to_pylist() == table[name].to_pylist(), name


def test_columns_that_share_their_bytes_in_all_chunks_are_joined_once() -> None:
    columns = columns_with_shared_bytes()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    other = batch.set_column(batch.schema.get_field_index("texts again"), "texts again", pa.array(["x"] * 10))
    joined, joined_others = (joined_chunks(pa.Table.from_batches([batch, last])) for last in (batch, other))

    def address(table: pa.Table, name: str) -> Any:
        return table[name].chunk(0).buffers()[-1].address

    assert address(joined, "the same") == address(joined, "numbers")
    assert address(joined, "texts again") == address(joined, "texts")
    assert address(joined, "further on") != address(joined, "numbers")
    assert joined_others["texts"].to_pylist() == batch.column("texts").to_pylist() * 2
    assert joined_others["texts again"].to_pylist() == [*batch.column("texts").to_pylist(), *["x"] * 10]


def test_columns_that_share_their_bytes_in_other_chunks_are_joined_apart() -> None:
    first, second = pa.array(range(6)), pa.array(range(10, 16))
    columns = [pa.chunked_array([first.slice(0, low), second.slice(0, 8 - low)]) for low in (5, 3)]

    joined = joined_chunks(pa.table(columns, ["five", "three"]))

    assert joined.to_pydict() == {"five": [0, 1, 2, 3, 4, 10, 11, 12], "three": [0, 1, 2, 10, 11, 12, 13, 14]}


def test_columns_without_chunks_keep_their_types() -> None:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])

    assert joined_chunks(schema.empty_table()).schema.equals(schema)
    assert joined_chunks(pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)).num_rows == 0


@pytest.mark.parametrize("values", [["a"], ["b", "a", "b", "", "a"], VALUES * 3])
def test_rows_by_value_hold_each_row_once(values: list[str]) -> None:
    found = dict(rows_by_value(pa.array(["x", *values]).slice(1)))

    assert list(found) == list(dict.fromkeys(values))
    for value, rows in found.items():
        assert rows.tolist() == np.flatnonzero(np.array(values) == value).tolist()
