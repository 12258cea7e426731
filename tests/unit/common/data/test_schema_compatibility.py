"""The schema that an input and a table make together."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.data.normalise import normalise_batch, normalise_table
from hoodie.common.data.schema_compatibility import merge_schemas
from hoodie.common.data.stored_types import normalise_schema
from hoodie.common.model.record_columns import OPERATION
from hoodie.exception import (
    HoodieSchemaException,
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


def merged_columns(*arguments: Any, **options: Any) -> pa.Schema:
    return merge_schemas(*arguments, **options).columns


def test_a_narrower_input_is_written_in_the_tables_types_and_order() -> None:
    assert merged_columns(TABLE, INPUT) == TABLE


def test_a_new_table_takes_the_inputs_types() -> None:
    assert merged_columns(None, INPUT) == normalise_schema(INPUT)
    assert merged_columns(pa.schema([]), INPUT.append(pa.field(OPERATION, pa.int8()))) == normalise_schema(INPUT)


def test_new_columns_come_last_and_allow_nulls_in_structs_too() -> None:
    tip = pa.struct([("amount", pa.float64()), ("currency", pa.string())])
    incoming = TABLE.set(3, pa.field("tip", tip)).insert(0, pa.field("new", pa.int16(), nullable=False))
    merged = merged_columns(TABLE, incoming)
    assert merged.names == ["id", "name", "fare", "tip", "new"]
    assert merged.field("new") == pa.field("new", pa.int32())
    assert merged.field("tip").type == tip


def test_all_columns_that_do_not_fit_are_named_with_both_types() -> None:
    incoming = INPUT.set(1, pa.field("fare", pa.string())).set(3, pa.field("name", pa.list_(pa.string())))
    with pytest.raises(SchemaCompatibilityException) as caught:
        merged_columns(TABLE, incoming)
    assert "fare: the table has double, the input string" in str(caught.value)
    assert "name: the table has string, the input list" in str(caught.value)


WIDENING = [pa.int32(), pa.int64(), pa.float32(), pa.float64()]
OTHERS = [pa.string(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.bool_(), pa.decimal128(10, 2), pa.binary()]


def nest(data_type: pa.DataType) -> pa.DataType:
    """The type inside a struct in a list in a map."""
    struct = pa.struct([("x", data_type)])
    return pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", struct))))


EXACT = {(pa.int32(), pa.int64()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64())}
"""Of the wider type every value of the narrower one."""


@pytest.mark.parametrize("widens_lossy", [False, True], ids=["exact", "lossy"])
@pytest.mark.parametrize("stored", [*WIDENING, *OTHERS], ids=str)
@pytest.mark.parametrize("incoming", [*WIDENING, *OTHERS], ids=str)
def test_a_column_becomes_wider_along_the_numbers_and_nowhere_else(
    stored: pa.DataType, incoming: pa.DataType, widens_lossy: bool
) -> None:
    texts = (pa.string(), pa.binary())
    if stored in WIDENING and incoming in WIDENING:
        is_wider = WIDENING.index(incoming) > WIDENING.index(stored)
        expected = incoming if is_wider and (widens_lossy or (stored, incoming) in EXACT) else stored
    elif stored == incoming or (stored in texts and incoming in texts):
        expected = stored
    else:
        expected = None
    for wrap in (lambda data_type: data_type, nest):
        table, given = (pa.schema([("c", wrap(data_type))]) for data_type in (stored, incoming))
        if expected is not None:
            merged = merged_columns(table, given, widens_lossy=widens_lossy)
            assert merged == pa.schema([("c", wrap(expected))])
            continue
        with pytest.raises(SchemaCompatibilityException) as caught:
            merged_columns(table, given, widens_lossy=widens_lossy)
        assert f": the table has {stored}, the input {incoming}" in str(caught.value)


@pytest.mark.parametrize("widens_lossy", [False, True], ids=["exact", "lossy"])
def test_integers_that_make_keys_do_not_become_floats(widens_lossy: bool) -> None:
    keys = {"id", "k.a"}
    table = pa.schema([("id", pa.int32()), ("k", pa.struct([("a", pa.int64())])), ("n", pa.int32())])
    given = pa.schema([("id", pa.float64()), ("k", pa.struct([("a", pa.float32())])), ("n", pa.float64())])
    merged = merge_schemas(table, given, key_fields=keys, widens_lossy=widens_lossy)
    assert merged.columns == table.set(2, pa.field("n", pa.float64()))
    assert not any(change.is_rounded for change in merged.changes)
    longer = pa.schema([("id", pa.int64()), table.field("k"), table.field("n")])
    assert merged_columns(table, longer, key_fields=keys) == longer


def test_floats_that_make_keys_take_no_rounded_integers() -> None:
    table, given = (pa.schema([("id", kind), ("n", kind)]) for kind in (pa.float64(), pa.int64()))
    changes = merge_schemas(table, given, key_fields={"id"}, widens_lossy=True).changes
    assert [(change.column, change.is_rounded) for change in changes] == [("id", False), ("n", True)]


def test_changes_say_what_each_column_becomes_and_what_that_costs() -> None:
    table = pa.schema(
        [
            ("a", pa.int32()),
            ("b", pa.int64()),
            ("s", nest(pa.int64())),
            ("d", pa.decimal128(9, 2)),
            ("same", pa.int64()),
        ]
    )
    wide = pa.map_(pa.string(), pa.field("value", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.date32())]))))
    given = pa.schema(
        [("a", pa.float64()), ("b", pa.float32()), ("s", wide), ("d", pa.decimal128(9, 3)), ("same", pa.int64())]
    )
    assert [str(change) for change in merge_schemas(table, given).changes] == [
        "a becomes double, from int32",
        "b stays int64, the input has float: a value that would lose something fails",
        "s.value.element.x stays int64, the input has int32",
        "s.value.element.y is new, date32[day]",
        "d stays decimal128(9, 2), the input has decimal128(9, 3): a value that would lose something fails",
    ]
    lossy = merge_schemas(table, given, widens_lossy=True)
    assert lossy.columns.field("b").type == pa.float32()
    cost = "integers of the table and of the input beyond 2^24 are rounded for good"
    assert [str(change) for change in lossy.changes if change.is_rounded] == [f"b becomes float, from int64: {cost}"]
    assert merge_schemas(None, given).changes == merge_schemas(given, given).changes == ()


def test_fields_may_be_added_in_the_middle_of_structs_of_lists_and_maps() -> None:
    table = pa.schema([("c", nest(pa.int32())), ("d", pa.string())])
    wider = pa.struct([("new", pa.date32()), ("x", pa.int64())])
    given_type = pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", wider))))
    given = pa.schema([("added", pa.bool_()), ("c", given_type), ("d", pa.string())])
    merged = merged_columns(table, given)
    assert merged.names == ["c", "d", "added"]
    assert merged.field("c").type.item_type.value_type == pa.struct([("x", pa.int64()), ("new", pa.date32())])


def test_what_allows_no_nulls_begins_to_allow_them_on_every_level_and_never_goes_back() -> None:
    strict = pa.schema([pa.field("a", pa.struct([pa.field("x", pa.int32(), nullable=False)]), nullable=False)])
    relaxed = pa.schema([("a", pa.struct([("x", pa.int64())]))])
    half = pa.schema([pa.field("a", pa.struct([("x", pa.int32())]), nullable=False)])
    assert merged_columns(strict, relaxed).equals(relaxed)
    assert merged_columns(strict, half).equals(half)
    assert merged_columns(relaxed, strict).equals(relaxed)
    assert merged_columns(strict, strict).equals(strict)


@pytest.mark.parametrize("keys", [{"a.x"}, {"a.x", "b"}])
def test_keys_the_structs_around_them_and_declared_columns_stay_as_they_are(keys: set[str]) -> None:
    key = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32(), nullable=False)])
    strict = pa.schema([pa.field("a", key, nullable=False), pa.field("b", pa.int32(), nullable=False)])
    relaxed = pa.schema([("a", pa.struct([("x", pa.int32()), ("y", pa.int32())])), ("b", pa.int32())])
    expected = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.int32())])
    wanted = pa.schema([pa.field("a", expected, nullable=False), pa.field("b", pa.int32(), nullable="b" not in keys)])
    assert merged_columns(strict, relaxed, key_fields=keys).equals(wanted)
    assert merged_columns(strict, relaxed, declared=strict).equals(strict)


def test_a_decimal_column_keeps_its_digits_whatever_decimals_come_in() -> None:
    table = pa.schema([("d", pa.decimal128(10, 2))])
    for given in (pa.decimal128(9, 1), pa.decimal128(10, 3), pa.decimal128(10, 1), pa.decimal128(38, 18)):
        assert merged_columns(table, pa.schema([("d", given)])) == table


def test_missing_columns_are_all_named_unless_they_may_be_null() -> None:
    incoming = pa.schema([("id", pa.int64()), ("tip", pa.struct([("x", pa.int32())]))])
    with pytest.raises(MissingSchemaFieldException, match=r"name, fare, tip\.amount"):
        merged_columns(TABLE, incoming)
    assert merged_columns(TABLE, incoming, set_null_for_missing=True).names == TABLE.names


def test_a_missing_column_that_allows_no_nulls_is_refused_where_it_never_will() -> None:
    table = TABLE.append(pa.field("must", pa.int32(), nullable=False))
    assert merged_columns(table, TABLE, set_null_for_missing=True).field("must").nullable
    for reason in ({"key_fields": ["must"]}, {"declared": table}):
        with pytest.raises(MissingSchemaFieldException, match="must: the table's schema allows no nulls"):
            merged_columns(table, TABLE, set_null_for_missing=True, **reason)


def test_a_column_that_differs_from_the_tables_in_case_only_is_that_column() -> None:
    given = INPUT.set(3, pa.field("NAME", pa.string())).set(0, pa.field("Tip", pa.struct([("AMOUNT", pa.float32())])))
    assert merged_columns(TABLE, given) == TABLE
    with pytest.raises(HoodieSchemaException, match="column 'tip' has the fields 'a' and 'A'"):
        merged_columns(TABLE, pa.schema([("tip", pa.struct([("a", pa.int32()), ("A", pa.int32())]))]))


def test_local_timestamps_stay_local_only_in_a_table_that_has_them() -> None:
    incoming = pa.schema([("t", pa.timestamp("ms"))])
    assert merged_columns(None, incoming).field("t").type == UTC_MICROS
    table = pa.schema([("t", LOCAL_MICROS)])
    assert merged_columns(table, incoming).field("t").type == LOCAL_MICROS
    batch = pa.RecordBatch.from_arrays([pa.array([LOCAL], pa.timestamp("ms"))], schema=incoming)
    assert normalise_batch(batch, table).column(0).to_pylist() == [LOCAL]
    with pytest.raises(SchemaCompatibilityException, match="t: the table has"):
        merged_columns(table, pa.schema([("t", UTC_MICROS)]))


def test_a_column_of_nulls_takes_the_type_of_the_table() -> None:
    table = pa.table({"a": [1, 2], "b": [None, None], "s": [{"x": None}, None]})
    known = pa.schema([("a", pa.int64()), ("b", pa.date32()), ("s", pa.struct([("x", pa.int32())]))])
    assert merged_columns(known, table.schema) == known
    assert normalise_table(table, known).to_pylist() == table.to_pylist()
