"""The border: every type that comes in, and every form of input."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.data.normalise import (
    check_schema,
    normalise_batch,
    normalise_schema,
    normalise_table,
    record_batches,
)
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.model.record_columns import OPERATION, ORDERING_VALUE, PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import (
    HoodieException,
    HoodieSchemaException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)

UTC_MICROS = pa.timestamp("us", tz="UTC")
LOCAL_MICROS = pa.timestamp("us")


def normal(values: pa.Array) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    return normalise_batch(batch, normalise_schema(batch.schema)).column(0)


def element_list(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


# ------------------------------------------------------------------------------------------------------------- types

DAY = datetime.date(2026, 11, 21)
MOMENT = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.UTC)
LOCAL = datetime.datetime(2026, 11, 21, 10, 0)


@pytest.mark.parametrize(
    ("values", "expected_type", "expected"),
    [
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array(["a", None], pa.string_view()), pa.string(), ["a", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string(), ["a", None, "a"]),
        (pa.array([b"a"], pa.large_binary()), pa.binary(), [b"a"]),
        (pa.array([b"a"], pa.binary_view()), pa.binary(), [b"a"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (pa.array([1, None], pa.int8()), pa.int32(), [1, None]),
        (pa.array([1], pa.int16()), pa.int32(), [1]),
        (pa.array([2**16 - 1], pa.uint16()), pa.int32(), [2**16 - 1]),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
        (pa.array([2**40]), pa.int64(), [2**40]),
        (pa.array(np.array([1.5], np.float16)), pa.float32(), [1.5]),
        (pa.array([DAY], pa.date64()), pa.date32(), [DAY]),
        (pa.array([MOMENT], pa.timestamp("s", tz="Asia/Tokyo")), UTC_MICROS, [MOMENT]),
        (pa.array([MOMENT], pa.timestamp("ns", tz="America/New_York")), UTC_MICROS, [MOMENT]),
        (pa.array([LOCAL], pa.timestamp("ms")), UTC_MICROS, [MOMENT]),
        (pa.array([Decimal("1.5")], pa.decimal256(38, 2)), pa.decimal128(38, 2), [Decimal("1.50")]),
        (pa.array([Decimal("1.5")], pa.decimal32(5, 2)), pa.decimal128(5, 2), [Decimal("1.50")]),
        (pa.array([[1], None, []], pa.large_list(pa.int8())), element_list(pa.int32()), [[1], None, []]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), element_list(pa.int64()), [[1, 2], None]),
        (
            pa.array([["a"], None, [], ["b", None]], pa.list_view(pa.large_string())),
            element_list(pa.string()),
            [["a"], None, [], ["b", None]],
        ),
        (pa.array([[1], None, [2]], pa.large_list_view(pa.int64())), element_list(pa.int64()), [[1], None, [2]]),
        (
            pa.array([[("k", 1)], None, []], pa.map_(pa.large_string(), pa.int16())),
            pa.map_(pa.string(), pa.int32()),
            [[("k", 1)], None, []],
        ),
        (
            pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int8())])),
            pa.struct([("a", pa.int32())]),
            [{"a": 1}, None, {"a": None}],
        ),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["x", None]), pa.string(), ["x", "x", None]),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), pa.binary(), [b"0" * 16]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_type_becomes_one_that_hudi_stores(values: pa.Array, expected_type: pa.DataType, expected: list[Any]) -> None:
    result = normal(values)
    result.validate(full=True)
    assert str(result.type) == str(expected_type)
    assert result.to_pylist() == expected


@pytest.mark.parametrize(
    ("data_type", "reason"),
    [
        (pa.uint64(), "int64 where the values fit"),
        (pa.null(), "nulls only"),
        (pa.time64("us"), "time of day"),
        (pa.time32("ms"), "time of day"),
        (pa.duration("s"), "duration"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.decimal256(39, 0), "38 digits"),
        (pa.map_(pa.int32(), pa.string()), "keys of a map must be strings"),
        (pa.dense_union([pa.field("a", pa.int32())]), "no such type"),
    ],
    ids=str,
)
def test_a_type_that_hudi_has_not_is_refused_by_name_nested_too(data_type: pa.DataType, reason: str) -> None:
    with pytest.raises(HoodieSchemaException, match=rf"column 'c' of type .*{reason}"):
        normalise_schema(pa.schema([("c", data_type)]))
    with pytest.raises(HoodieSchemaException, match=rf"column 'c\.f\.element' .*{reason}"):
        normalise_schema(pa.schema([("c", pa.struct([("f", pa.list_(data_type))]))]))


def test_nanoseconds_that_would_be_lost_are_refused_with_the_first_value() -> None:
    with pytest.raises(HoodieSchemaException, match=r"column 'c' .* first value: 2001 ns since 1970"):
        normal(pa.array([1000, None, 2001, 3001], pa.timestamp("ns")))
    with pytest.raises(HoodieSchemaException, match=r"column 'c\.element'"):
        normal(pa.array([[1000], [2001]], pa.list_(pa.timestamp("ns"))))


def test_a_time_of_day_in_a_date_is_refused() -> None:
    values = pa.array([0, None, 86_400_001], pa.int64()).view(pa.date64())
    with pytest.raises(HoodieSchemaException, match="first value: 86400001"):
        normal(values)


def test_list_elements_are_called_element() -> None:
    result = normal(pa.array([[1]], pa.list_(pa.field("item", pa.int32()))))
    assert result.type.value_field.name == "element"


def test_what_is_right_already_is_not_copied() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x"], "b": pa.array([1], pa.int8())})
    assert normalise_batch(batch.select(["a"]), pa.schema([("a", pa.string())])) is not None
    result = normalise_batch(batch, normalise_schema(batch.schema))
    assert result.column("a").buffers()[2].address == batch.column("a").buffers()[2].address


@given(
    rows=st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-128, 127),
                "v": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
                "l": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
                "m": st.none() | st.dictionaries(st.text(max_size=2), st.none() | st.integers(0, 9), max_size=3),
            }
        ),
        max_size=12,
    ),
    start=st.integers(0, 4),
    length=st.integers(0, 8),
)
def test_slices_of_nested_columns_keep_their_values(rows: list[Any], start: int, length: int) -> None:
    rows = [None if row is None else {**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    source = pa.struct(
        [
            ("n", pa.int8()),
            ("v", pa.list_view(pa.int16())),
            ("l", pa.large_list(pa.large_string())),
            ("m", pa.map_(pa.large_string(), pa.uint8())),
        ]
    )
    values = pa.array(rows, source).slice(min(start, len(rows)), length)
    result = normal(values)
    result.validate(full=True)
    assert result.to_pylist() == values.to_pylist()


# ------------------------------------------------------------------------------------------------------------- names


def test_meta_columns_and_pandas_index_columns_are_dropped() -> None:
    schema = pa.schema([("_hoodie_commit_time", pa.string()), ("a", pa.int64()), ("__index_level_0__", pa.int64())])
    assert normalise_schema(schema).names == ["a"]


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "A"]])
def test_names_that_spark_cannot_tell_apart_are_refused(names: list[str]) -> None:
    with pytest.raises(HoodieSchemaException, match=f"'{names[0]}' and '{names[-1]}'"):
        normalise_schema(pa.schema([(name, pa.int64()) for name in names]))


def test_names_of_hoodies_own_columns_are_refused_and_reserved_ones_keep_their_type() -> None:
    with pytest.raises(HoodieSchemaException, match="__hoodie_mine"):
        normalise_schema(pa.schema([("__hoodie_mine", pa.int64())]))
    assert normalise_schema(pa.schema([(OPERATION, pa.int8())])).types == [pa.int8()]


# -------------------------------------------------------------------------------------------------- table and input

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


# ----------------------------------------------------------------------------------------------------------- batches


def test_columns_are_found_by_name_and_widened() -> None:
    batch = pa.RecordBatch.from_pydict({"b": pa.array([1], pa.int32()), "x": [0], "a": ["v"]})
    target = pa.schema([("a", pa.string()), ("b", pa.float64())])
    assert normalise_batch(batch, target).to_pylist() == [{"a": "v", "b": 1.0}]


def test_an_integer_that_a_double_cannot_hold_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"b": [1, 2**53 + 1]})
    with pytest.raises(HoodieSchemaException, match=str(2**53 + 1)):
        normalise_batch(batch, pa.schema([("b", pa.float64())]))


def test_missing_columns_are_filled_only_when_asked() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    target = pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(MissingSchemaFieldException, match="'b'; its columns are: a"):
        normalise_batch(batch, target)
    assert normalise_batch(batch, target, fill_missing=True).to_pylist() == [{"a": 1, "b": None}]


def test_nulls_where_none_are_allowed_are_refused_but_for_plain_deletes() -> None:
    target = pa.schema([pa.field("a", pa.int64(), nullable=False), (OPERATION, pa.int8())])
    operations = pa.array([RecordOperation.UPSERT, RecordOperation.DELETE], pa.int8())
    good = pa.RecordBatch.from_arrays([pa.array([1, None]), operations], names=["a", OPERATION])
    assert normalise_batch(good, target).num_rows == 2
    bad = pa.RecordBatch.from_arrays([pa.array([None, 1]), operations], names=["a", OPERATION])
    with pytest.raises(HoodieSchemaException, match="'a' allows no nulls, but has 1"):
        normalise_batch(bad, target)


def test_nulls_in_fields_of_structs_and_elements_are_checked() -> None:
    struct = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    values = pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))
    batch = pa.RecordBatch.from_arrays([values], names=["s"])
    assert normalise_batch(batch, pa.schema([("s", struct)])).to_pylist() == [{"s": {"x": 1}}, {"s": None}]
    bad = pa.RecordBatch.from_arrays([pa.array([{"x": None}], pa.struct([("x", pa.int64())]))], names=["s"])
    with pytest.raises(HoodieSchemaException, match=r"s\.x"):
        normalise_batch(bad, pa.schema([("s", struct)]))
    elements = pa.RecordBatch.from_arrays([pa.array([[None]], pa.list_(pa.int64()))], names=["l"])
    with pytest.raises(HoodieSchemaException, match=r"l\.element"):
        normalise_batch(elements, pa.schema([("l", pa.list_(pa.field("element", pa.int64(), nullable=False)))]))


# ------------------------------------------------------------------------------------------------------------ inputs

ROWS = [{"id": 1, "name": "a", "at": LOCAL}, {"id": 2, "name": None, "at": LOCAL}, {"id": 3, "name": "c", "at": None}]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", UTC_MICROS)])


def _dataset() -> ds.Dataset:
    return ds.dataset(pa.Table.from_pylist(ROWS))


@pytest.mark.parametrize(
    ("make", "in_memory", "one_shot"),
    [
        (lambda: pa.Table.from_pylist(ROWS), True, False),
        (lambda: pa.RecordBatch.from_pylist(ROWS), True, False),
        (lambda: pd.DataFrame(ROWS), True, False),
        (lambda: pl.DataFrame(ROWS), True, False),
        (lambda: ROWS, True, False),
        (_dataset, False, False),
        (lambda: pa.Table.from_pylist(ROWS).to_reader(), False, True),
        (lambda: iter(pa.Table.from_pylist(ROWS).to_batches(max_chunksize=2)), False, True),
        (lambda: iter([pa.Table.from_pylist(ROWS)]), False, True),
        (lambda: pa.Table.from_pylist(ROWS).to_batches(max_chunksize=2), False, True),
    ],
    ids=["table", "batch", "pandas", "polars", "dicts", "dataset", "reader", "iterator", "tables", "list of batches"],
)
def test_every_form_of_input_gives_the_same_rows(make: Any, in_memory: bool, one_shot: bool) -> None:
    source = record_batches(make())
    assert source.schema == SCHEMA
    assert (source.table is not None) == in_memory
    assert source.is_one_shot == one_shot
    rows = pa.Table.from_batches(source.batches, SCHEMA).to_pylist()
    expected = [{**row, "at": MOMENT if row["at"] else None} for row in ROWS]
    assert rows == expected
    if one_shot:
        with pytest.raises(HoodieException, match="only once"):
            list(source.batches)
    else:
        assert pa.Table.from_batches(source.batches, SCHEMA).to_pylist() == expected


def test_a_filtered_pandas_frame_does_not_bring_its_index() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3]})
    assert record_batches(frame[frame.id > 1]).schema.names == ["id"]


def test_dicts_take_the_given_types_and_what_they_add_is_inferred() -> None:
    known = pa.schema([("id", pa.int32()), ("name", pa.string()), ("day", pa.date32())])
    source = record_batches([{"extra": 1.5, "id": 1}, {"name": "x"}], known)
    assert source.schema == pa.schema([("id", pa.int32()), ("name", pa.string()), ("extra", pa.float64())])
    assert source.table is not None
    assert source.table.to_pylist() == [{"id": 1, "name": None, "extra": 1.5}, {"id": None, "name": "x", "extra": None}]


def test_dicts_with_values_of_several_types_are_refused_by_column() -> None:
    with pytest.raises(HoodieSchemaException, match="column 'a'"):
        record_batches([{"a": 1}, {"a": "x"}])
    with pytest.raises(HoodieSchemaException, match=r"column 'a' .*int32"):
        record_batches([{"a": "x"}], pa.schema([("a", pa.int32())]))


def test_columns_of_nulls_only_are_refused_unless_their_type_is_known() -> None:
    with pytest.raises(HoodieSchemaException, match=r"'b' .*nulls only"):
        record_batches([{"a": 1, "b": None}])
    known = pa.schema([("b", pa.date32())])
    assert record_batches([{"a": 1, "b": None}], known).schema.field("b").type == pa.date32()
    assert record_batches(pa.table({"b": pa.nulls(1)}), known).schema == known


def test_hoodie_records_bring_their_keys() -> None:
    source = record_batches(
        [
            HoodieRecord(HoodieKey("a", "p"), {"id": 1}, ordering_value=5),
            HoodieRecord(HoodieKey("b", "q"), operation=RecordOperation.DELETE),
            HoodieRecord(HoodieKey("", "q"), {"id": 2}),
        ],
        pa.schema([pa.field("id", pa.int32(), nullable=False)]),
    )
    assert source.table is not None
    assert source.table.schema == pa.schema(
        [
            ("id", pa.int32()),
            (RECORD_KEY, pa.string()),
            (PARTITION_PATH, pa.string()),
            (ORDERING_VALUE, pa.int64()),
            (OPERATION, pa.int8()),
        ]
    )
    assert [tuple(row.values()) for row in source.table.to_pylist()] == [
        (1, "a", "p", 5, 0),
        (None, "b", "q", None, 2),
        (2, None, "q", None, 0),
    ]


def test_hoodie_records_without_data_have_keys_only() -> None:
    source = record_batches([HoodieRecord(HoodieKey("a"), operation=RecordOperation.DELETE)])
    assert source.table is not None
    assert source.table.to_pylist() == [{RECORD_KEY: "a", PARTITION_PATH: "", OPERATION: 2}]


def test_empty_inputs_need_a_schema() -> None:
    for empty in ([], iter([])):
        with pytest.raises(HoodieSchemaException, match="empty"):
            record_batches(empty)
    source = record_batches([], SCHEMA)
    assert source.schema == SCHEMA
    assert source.table is not None
    assert source.table.num_rows == 0


@pytest.mark.parametrize("records", [5, "abc", {"a": [1]}, [1], [{"a": 1}, HoodieRecord(HoodieKey("a"))]])
def test_other_inputs_are_refused(records: Any) -> None:
    with pytest.raises(HoodieSchemaException):
        record_batches(records)


def test_an_iterator_of_dicts_is_refused_with_the_way_out() -> None:
    with pytest.raises(HoodieSchemaException, match="give a list"):
        record_batches(iter([{"a": 1}]))


def test_an_iterator_is_not_read_ahead() -> None:
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            taken.append(number)
            yield pa.RecordBatch.from_pydict({"id": [number]})

    stream = record_batches(batches()).batches
    assert taken == [0]
    assert [next(stream).column(0)[0].as_py() for _ in range(2)] == [0, 1]
    assert taken == [0, 1]


# -------------------------------------------------------------------------------------------- Python values and types


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (2.5, pa.int64()),
        (Decimal("2.5"), pa.int64()),
        (datetime.datetime(2020, 1, 1, 12, 30), pa.date32()),
        (pd.Timestamp("2020-01-01 00:00:00.000000001"), UTC_MICROS),
        (np.datetime64("2020-01-01T00:00:00.000000001"), LOCAL_MICROS),
        (1e300, pa.float32()),
        (1e-300, pa.float32()),
        ({"a": 1, "b": 2}, pa.struct([("a", pa.int64())])),
        ({"a": 1.5}, pa.struct([("a", pa.int64())])),
        ([1, 2.5], element_list(pa.int64())),
        ({"k": 2.5}, pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
@pytest.mark.parametrize("as_record", [False, True], ids=["dict", "record"])
def test_a_python_value_that_would_change_is_refused(value: Any, data_type: pa.DataType, as_record: bool) -> None:
    rows: list[Any] = [{"c": None}, {"c": value}]
    if as_record:
        rows = [HoodieRecord(HoodieKey(str(number)), row) for number, row in enumerate(rows)]
    with pytest.raises(HoodieSchemaException, match="column 'c' "):
        record_batches(rows, pa.schema([("c", data_type)]))


def test_the_first_python_value_that_would_change_is_named() -> None:
    with pytest.raises(HoodieSchemaException, match=r"column 'c' .* as int64 .* first value: 2\.5;"):
        record_batches([{"c": 1.0}, {"c": 2.5}, {"c": 3.5}], pa.schema([("c", pa.int64())]))


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (2.0, pa.int64(), 2),
        (np.int64(3), pa.int32(), 3),
        (3, pa.float32(), 3.0),
        (0.1, pa.float32(), float(np.float32(0.1))),
        (float("inf"), pa.float32(), float("inf")),
        (Decimal("0.1"), pa.decimal128(5, 2), Decimal("0.10")),
        (DAY, pa.date32(), DAY),
        (datetime.datetime(2026, 11, 21), pa.date32(), DAY),
        (LOCAL, UTC_MICROS, MOMENT),
        (LOCAL, LOCAL_MICROS, LOCAL),
        (pd.Timestamp(MOMENT), UTC_MICROS, MOMENT),
        (
            datetime.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            UTC_MICROS,
            datetime.datetime(2020, 10, 25, 1, 30, tzinfo=datetime.UTC),
        ),
        (np.datetime64("2026-11-21T10:00:00", "us"), LOCAL_MICROS, LOCAL),
        (5, UTC_MICROS, datetime.datetime(1970, 1, 1, 0, 0, 0, 5, datetime.UTC)),
        ("a", pa.binary(), b"a"),
        (UUID(int=1), pa.binary(16), UUID(int=1).bytes),
        (b"a", pa.string(), "a"),
        ({"a": 1, "b": None}, pa.struct([("a", pa.float64()), ("x", pa.int32())]), {"a": 1.0, "x": None}),
        ((1, None), element_list(pa.int32()), [1, None]),
        (np.array([1.0, 2.0]), element_list(pa.int64()), [1, 2]),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), [("k", 1)]),
        ({"k": LOCAL}, pa.map_(pa.string(), UTC_MICROS), [("k", MOMENT)]),
    ],
    ids=str,
)
def test_a_python_value_that_fits_is_stored(value: Any, data_type: pa.DataType, expected: Any) -> None:
    source = record_batches([{"c": None}, {"c": value}], pa.schema([("c", data_type)]))
    assert source.table is not None
    assert source.table.column("c").to_pylist() == [None, expected]


def test_inference_does_not_change_values_either() -> None:
    with pytest.raises(HoodieSchemaException, match="column 'c' .*12, 30"):
        record_batches([{"c": DAY}, {"c": datetime.datetime(2020, 1, 1, 12, 30)}])


def test_nan_is_a_value_like_others() -> None:
    for data_type in (pa.float32(), pa.float64(), element_list(pa.float64())):
        value = [float("nan")] if pa.types.is_list(data_type) else float("nan")
        source = record_batches([{"c": value}], pa.schema([("c", data_type)]))
        assert source.table is not None
        assert "nan" in str(source.table.column("c").to_pylist())


def test_a_polars_categorical_becomes_strings() -> None:
    frame = pl.DataFrame({"c": pl.Series(["a", None, "b", "a"], dtype=pl.Categorical)})
    source = record_batches(frame)
    assert source.table is not None
    assert source.table.schema == pa.schema([("c", pa.string())])
    assert source.table.column("c").to_pylist() == ["a", None, "b", "a"]


@pytest.mark.parametrize(
    ("value", "data_type", "path"),
    [
        ({"x": None}, pa.struct([pa.field("x", pa.int64(), nullable=False)]), r"c\.x"),
        ([1, None], pa.list_(pa.field("element", pa.int64(), nullable=False)), r"c\.element"),
        ([("k", None)], pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), r"c\.value"),
        (
            [{"x": None}],
            element_list(pa.struct([pa.field("x", pa.int64(), nullable=False)])),
            r"c\.element\.x",
        ),
    ],
    ids=str,
)
def test_a_null_inside_dicts_where_none_is_allowed_is_refused(value: Any, data_type: pa.DataType, path: str) -> None:
    schema = pa.schema([("c", data_type)])
    assert record_batches([{"c": None}], schema).schema == schema
    with pytest.raises(HoodieSchemaException, match=path):
        record_batches([{"c": None}, {"c": value}], schema)


def test_a_hoodie_record_with_none_for_data_has_no_data() -> None:
    data: Any = None
    source = record_batches([HoodieRecord(HoodieKey("a"), data, operation=RecordOperation.DELETE)])
    assert source.table is not None
    assert source.table.to_pylist() == [{RECORD_KEY: "a", PARTITION_PATH: "", OPERATION: 2}]
