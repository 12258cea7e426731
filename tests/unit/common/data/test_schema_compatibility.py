"""The schema that an input and a table make together."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from hoodie.common.data.normalise import normalise_batch, normalise_table
from hoodie.common.data.schema_compatibility import check_schema
from hoodie.common.data.stored_types import normalise_schema
from hoodie.common.model.record_columns import OPERATION
from hoodie.exception import (
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)

UTC_MICROS = pa.timestamp("us", tz="UTC")
LOCAL_MICROS = pa.timestamp("us")
LOCAL = datetime.datetime(2026, 11, 21, 10, 0)


TABLE = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("fare", pa.float64()), ("tip", pa.struct([("amount", pa.float64())]))]
)
INPUT = pa.schema(
    [
        ("tip", pa.struct([("amount", pa.float32())])),
        ("fare", pa.float32()),
        ("id", pa.int32()),
        ("name", pa.large_string()),
    ]
)


def test_a_narrower_input_is_written_in_the_tables_types_and_order() -> None:
    assert check_schema(TABLE, INPUT) == TABLE


def test_a_new_table_takes_the_inputs_types() -> None:
    assert check_schema(None, INPUT) == normalise_schema(INPUT)
    assert check_schema(pa.schema([]), INPUT.append(pa.field(OPERATION, pa.int8()))) == normalise_schema(INPUT)


def test_new_columns_come_last_and_allow_nulls_in_structs_too() -> None:
    tip = pa.struct([("amount", pa.float64()), ("currency", pa.string())])
    incoming = TABLE.set(3, pa.field("tip", tip)).insert(0, pa.field("new", pa.int16(), nullable=False))
    merged = check_schema(TABLE, incoming)
    assert merged.names == ["id", "name", "fare", "tip", "new"]
    assert merged.field("new") == pa.field("new", pa.int32())
    assert merged.field("tip").type == tip


def test_all_columns_that_do_not_fit_are_named_with_both_types() -> None:
    incoming = INPUT.set(1, pa.field("fare", pa.string())).set(3, pa.field("name", pa.list_(pa.string())))
    with pytest.raises(SchemaCompatibilityException) as caught:
        check_schema(TABLE, incoming)
    assert "fare: the table has double, the input string" in str(caught.value)
    assert "name: the table has string, the input list" in str(caught.value)


def test_a_wider_input_is_refused_for_now() -> None:
    with pytest.raises(SchemaCompatibilityException, match=r"id: the table has int32, the input int64 .*wider"):
        check_schema(pa.schema([("id", pa.int32())]), pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaCompatibilityException, match=r"tip\.amount: the table has float, the input double"):
        check_schema(pa.schema([("tip", INPUT.field("tip").type)]), pa.schema([("tip", TABLE.field("tip").type)]))


def test_a_decimal_fits_where_neither_side_of_the_point_is_cut() -> None:
    table = pa.schema([("d", pa.decimal128(10, 2))])
    assert check_schema(table, pa.schema([("d", pa.decimal128(9, 1))])) == table
    for narrow in (pa.decimal128(10, 3), pa.decimal128(10, 1)):
        with pytest.raises(SchemaCompatibilityException):
            check_schema(table, pa.schema([("d", narrow)]))


def test_missing_columns_are_all_named_unless_they_may_be_null() -> None:
    incoming = pa.schema([("id", pa.int64()), ("tip", pa.struct([("x", pa.int32())]))])
    with pytest.raises(MissingSchemaFieldException, match=r"name, fare, tip\.amount"):
        check_schema(TABLE, incoming)
    assert check_schema(TABLE, incoming, set_null_for_missing=True).names == TABLE.names


def test_a_missing_column_that_allows_no_nulls_is_always_refused() -> None:
    table = TABLE.append(pa.field("must", pa.int32(), nullable=False))
    with pytest.raises(MissingSchemaFieldException, match="must: the table's schema allows no nulls"):
        check_schema(table, TABLE, set_null_for_missing=True)


def test_a_new_column_that_differs_from_the_tables_in_case_only_is_refused() -> None:
    with pytest.raises(SchemaCompatibilityException, match="Name: the table has name"):
        check_schema(TABLE, INPUT.append(pa.field("Name2", pa.string())).set(3, pa.field("Name", pa.string())), True)


def test_local_timestamps_stay_local_only_in_a_table_that_has_them() -> None:
    incoming = pa.schema([("t", pa.timestamp("ms"))])
    assert check_schema(None, incoming).field("t").type == UTC_MICROS
    table = pa.schema([("t", LOCAL_MICROS)])
    assert check_schema(table, incoming).field("t").type == LOCAL_MICROS
    batch = pa.RecordBatch.from_arrays([pa.array([LOCAL], pa.timestamp("ms"))], schema=incoming)
    assert normalise_batch(batch, table).column(0).to_pylist() == [LOCAL]
    with pytest.raises(SchemaCompatibilityException, match="t: the table has"):
        check_schema(table, pa.schema([("t", UTC_MICROS)]))


def test_a_column_of_nulls_takes_the_type_of_the_table() -> None:
    table = pa.table({"a": [1, 2], "b": [None, None], "s": [{"x": None}, None]})
    known = pa.schema([("a", pa.int64()), ("b", pa.date32()), ("s", pa.struct([("x", pa.int32())]))])
    assert check_schema(known, table.schema) == known
    assert normalise_table(table, known).to_pylist() == table.to_pylist()
