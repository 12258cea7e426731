"""Columns turned into stored types: every type that comes in."""

from __future__ import annotations

import datetime
import re
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.data.normalise import normalise_batch
from hoodie.common.data.stored_types import normalise_schema
from hoodie.common.model.record_columns import OPERATION
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import (
    HoodieSchemaException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)

# Arrow has them since 18.
DECIMAL32 = getattr(pa, "decimal32", pa.decimal128)
DECIMAL64 = getattr(pa, "decimal64", pa.decimal128)

UTC_MICROS = pa.timestamp("us", tz="UTC")
LOCAL_MICROS = pa.timestamp("us")


def normal(values: pa.Array) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    return normalise_batch(batch, normalise_schema(batch.schema)).column(0)


def element_list(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


def of_newer_releases() -> list[tuple[pa.Array, pa.DataType, list[Any]]]:
    """Values of types that not every release of Arrow has: uuid and bool8 since 18, json since 19."""
    made: dict[str, tuple[pa.Array, pa.DataType, list[Any]]] = {
        "uuid": (
            pa.array([None, UUID(int=7).bytes, b"\xf0" * 16], pa.binary(16)),
            pa.string(),
            [None, str(UUID(int=7)), str(UUID(bytes=b"\xf0" * 16))],
        ),
        "bool8": (pa.array([0, 1, None, 5], pa.int8()), pa.bool_(), [False, True, None, True]),
        "json_": (pa.array(['{"a": 1}', None]), pa.string(), ['{"a": 1}', None]),
    }
    return [
        (pa.ExtensionArray.from_storage(getattr(pa, name)(), storage), expected_type, expected)
        for name, (storage, expected_type, expected) in made.items()
        if hasattr(pa, name)
    ]


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
        (pa.array([Decimal("1.5")], DECIMAL32(5, 2)), pa.decimal128(5, 2), [Decimal("1.50")]),
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
        *of_newer_releases(),
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


def test_columns_are_found_by_name_and_widened() -> None:
    batch = pa.RecordBatch.from_pydict({"b": pa.array([1], pa.int32()), "x": [0], "a": ["v"]})
    target = pa.schema([("a", pa.string()), ("b", pa.float64())])
    assert normalise_batch(batch, target).to_pylist() == [{"a": "v", "b": 1.0}]


def test_an_integer_that_a_double_cannot_hold_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"b": [1, 2**53 + 1]})
    with pytest.raises(HoodieSchemaException, match=str(2**53 + 1)):
        normalise_batch(batch, pa.schema([("b", pa.float64())]))


@pytest.mark.parametrize(
    ("value", "given_type", "target"),
    [
        ("99999999999999.9999", DECIMAL64(18, 4), pa.decimal128(38, 38)),
        ("-30647195400000000.000", pa.decimal128(30, 3), pa.decimal128(38, 23)),
        ("99999999999999.9999", pa.decimal128(38, 4), pa.decimal128(38, 38)),
    ],
    ids=str,
)
def test_a_decimal_whose_digits_overflow_128_bits_in_the_other_scale_is_refused(
    value: str, given_type: pa.DataType, target: pa.DataType
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([Decimal(0), None, Decimal(value)], given_type)], ["c"])
    with pytest.raises(
        SchemaCompatibilityException, match=rf"'c' of type {re.escape(str(given_type))} .*\('{value}'\)"
    ):
        normalise_batch(batch, pa.schema([("c", target)]))


@st.composite
def decimal_columns(draw: st.DrawFn) -> tuple[Decimal, pa.DataType, pa.DataType]:
    precision, wanted = draw(st.integers(1, 38)), draw(st.integers(1, 38))
    scale, wanted_scale = draw(st.integers(0, precision)), draw(st.integers(0, wanted))
    digits = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    zeros = 10 ** draw(st.integers(0, precision))
    value = Decimal(digits // zeros * zeros % 10**precision).scaleb(-scale, Context(prec=80))
    make = draw(st.sampled_from([pa.decimal128, pa.decimal256]))
    return value, make(precision, scale), pa.decimal128(wanted, wanted_scale)


@given(decimal_columns())
def test_decimals_become_the_same_numbers_or_are_refused(case: tuple[Decimal, pa.DataType, pa.DataType]) -> None:
    value, given_type, target = case
    unscaled = value.scaleb(target.scale, Context(prec=80))
    batch = pa.RecordBatch.from_arrays([pa.array([value], given_type)], ["c"])
    # `abs` would round to the digits of the context.
    if unscaled == int(unscaled) and unscaled.copy_abs() < 10**target.precision:
        assert normalise_batch(batch, pa.schema([("c", target)])).to_pylist() == [{"c": value}]
    else:
        with pytest.raises(SchemaCompatibilityException, match="column 'c' of type decimal"):
            normalise_batch(batch, pa.schema([("c", target)]))


@pytest.mark.parametrize(
    "values",
    [
        pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([1.5, 2.0]), mask=pa.array([True, False])),
        pa.LargeListArray.from_arrays(
            pa.array([0, 1, 2], pa.int64()), pa.array([float("nan"), 2.0]), mask=pa.array([True, False])
        ),
        pa.FixedSizeListArray.from_arrays(pa.array([1.5, 2.0]), 1, mask=pa.array([True, False])),
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 3]), pa.array([9.5, 1.5, 2.0]), mask=pa.array([False, True, False])
        ).slice(1),
    ],
    ids=["list", "large list", "list of fixed size", "slice"],
)
def test_what_lies_below_a_null_list_is_no_value(values: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    result = normalise_batch(batch, pa.schema([("c", element_list(pa.int64()))]))
    result.validate(full=True)
    assert result.to_pylist() == [{"c": None}, {"c": [2]}]


def test_what_lies_below_a_null_map_is_no_value() -> None:
    offsets, keys, items = pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), pa.array([1.5, 2.0])
    values = pa.MapArray.from_arrays(offsets, keys, items, mask=pa.array([True, False]))
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    result = normalise_batch(batch, pa.schema([("c", pa.map_(pa.string(), pa.int64()))]))
    result.validate(full=True)
    assert result.to_pylist() == [{"c": None}, {"c": [("b", 2)]}]


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


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="Arrow has it since 18")
def test_slices_of_uuids_keep_their_values_and_bytes_stay_where_the_table_has_them() -> None:
    uuids = [UUID(int=number << 100 | number) for number in range(9)]
    values = pa.array([*uuids[:4], None, *uuids[4:]], pa.uuid())
    sliced = values.slice(2, 5)
    assert normal(sliced).to_pylist() == [None if value is None else str(value) for value in sliced.to_pylist()]
    batch = pa.RecordBatch.from_arrays([sliced], names=["c"])
    for data_type in (pa.binary(), pa.binary(16)):
        schema = normalise_schema(batch.schema, pa.schema([("c", data_type)]))
        assert schema.field("c").type == pa.binary()
        stored = normalise_batch(batch, pa.schema([("c", data_type)])).column(0)
        assert stored.to_pylist() == [None if value is None else value.bytes for value in sliced.to_pylist()]


def test_columns_and_fields_are_found_in_any_case_and_take_the_spelling_of_the_table() -> None:
    table = pa.schema([("fare", pa.float64()), ("place", pa.struct([("lat", pa.int64())]))])
    batch = pa.RecordBatch.from_pydict({"Place": [{"LAT": 1}], "FARE": [1.5]})
    schema = normalise_schema(batch.schema, table)
    assert schema == pa.schema([table.field("place"), table.field("fare")])
    assert normalise_batch(batch, schema).to_pylist() == [{"place": {"lat": 1}, "fare": 1.5}]


def test_a_column_of_the_same_name_goes_before_one_of_another_case() -> None:
    batch = pa.RecordBatch.from_pydict({"A": [1], "a": [2]})
    assert normalise_batch(batch, pa.schema([("a", pa.int64())])).to_pylist() == [{"a": 2}]


def test_floats_become_the_doubles_of_the_same_digits() -> None:
    values = pa.array([0.1, None, 1e10, float("inf"), 3.4e38, 1e-45], pa.float32())
    batch = pa.RecordBatch.from_arrays([values, pa.array([[0.1]] * 6, pa.list_(pa.float32()))], names=["a", "b"])
    wide = normalise_batch(batch, pa.schema([("a", pa.float64()), ("b", element_list(pa.float64()))]))
    assert wide.column(0).to_pylist() == [0.1, None, 1e10, float("inf"), 3.4e38, 1e-45]
    assert wide.column(1)[0].as_py() == [0.1]


def test_text_and_bytes_take_the_tables_form_and_bytes_that_are_no_text_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["ä"]), pa.array(["ä".encode()])], names=["a", "b"])
    swapped = pa.schema([("a", pa.binary()), ("b", pa.string())])
    assert normalise_batch(batch, swapped).to_pylist() == [{"a": "ä".encode(), "b": "ä"}]
    bad = pa.RecordBatch.from_arrays([pa.array([b"ok", b"\xff"])], names=["b"])
    with pytest.raises(HoodieSchemaException, match=r"column 'b' .*first value: b'\\xff'"):
        normalise_batch(bad, pa.schema([("b", pa.string())]))
