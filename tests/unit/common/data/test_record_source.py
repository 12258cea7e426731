"""Every form of input."""

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

from hoodie.common.data.record_source import record_batches
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.model.record_columns import OPERATION, ORDERING_VALUE, PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import (
    HoodieException,
    HoodieIOException,
    HoodieKeyException,
    HoodieSchemaException,
    NullColumnException,
)

UTC_MICROS = pa.timestamp("us", tz="UTC")
LOCAL_MICROS = pa.timestamp("us")
DAY = datetime.date(2026, 11, 21)
MOMENT = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.UTC)
LOCAL = datetime.datetime(2026, 11, 21, 10, 0)


def element_list(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


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


@pytest.mark.parametrize("records", [5, "abc", {"a": 1}, [1], [{"a": 1}, HoodieRecord(HoodieKey("a"))]])
def test_other_inputs_are_refused(records: Any) -> None:
    with pytest.raises(HoodieSchemaException):
        record_batches(records)


def test_an_iterator_of_dicts_is_refused_with_the_way_out() -> None:
    with pytest.raises(HoodieSchemaException, match="lists of dicts"):
        record_batches(iter([{"a": 1}]))


@pytest.mark.parametrize(
    ("late", "named"),
    [
        ({"id": [2], "place": [{"x": 1}], "fare": [9.5]}, "'fare'"),
        ({"id": [2], "place": [{"x": 1, "zone": "b"}]}, r"'place\.zone'"),
    ],
    ids=["column", "field"],
)
def test_columns_of_a_later_batch_that_the_first_lacks_are_refused_by_name(late: dict[str, Any], named: str) -> None:
    first = pa.RecordBatch.from_pydict({"id": [1], "place": [{"x": 1}]})
    stream = record_batches(iter([first, pa.RecordBatch.from_pydict(late)])).batches
    assert next(stream).num_rows == 1
    with pytest.raises(HoodieSchemaException, match=f"item 1 of the iterator has columns .*{named}"):
        next(stream)


def test_later_batches_may_have_other_types_and_hudis_columns() -> None:
    first = pa.RecordBatch.from_pydict({"id": [1], "n": [1]})
    late = pa.RecordBatch.from_pydict({"_hoodie_commit_time": ["1"], "N": [2.0], "id": [2]})
    rows = pa.Table.from_batches(record_batches([first, late]).batches)
    assert rows.to_pylist() == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]


@pytest.mark.parametrize(
    "empty",
    [pd.DataFrame({"id": [], "n": []}), pl.DataFrame({"id": []}), pa.table({"id": pa.array([], pa.float64())}), []],
    ids=["pandas", "polars", "arrow", "dicts"],
)
def test_an_item_without_rows_decides_no_types(empty: Any) -> None:
    rows = pd.DataFrame({"id": ["k"], "n": [1]})
    for items in ([empty, rows, rows], [rows, empty, rows], [[], empty, rows, rows]):
        source = record_batches(iter(items))
        assert source.schema == pa.schema([("id", pa.string()), ("n", pa.int64())])
        assert pa.Table.from_batches(source.batches).to_pylist() == [{"id": "k", "n": 1}] * 2
    with pytest.raises(HoodieSchemaException, match="item 2 of the iterator is 5"):
        record_batches(iter([empty, empty, 5]))


def test_an_iterator_of_items_without_rows_has_the_columns_of_the_first() -> None:
    empty = pa.table({"id": pa.array([], pa.int32())})
    source = record_batches(iter([[], empty, pa.table({"n": pa.array([], pa.string())})]))
    assert (source.schema, sum(batch.num_rows for batch in source.batches)) == (empty.schema, 0)


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
    with pytest.raises(HoodieSchemaException, match=r"column 'c(\.\w+)?' "):
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
        (np.int64(3), pa.decimal128(5, 2), Decimal("3.00")),
        (np.uint8(3), pa.decimal128(10, 1), Decimal("3.0")),
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
        ("a", pa.binary(), b"a"),
        (UUID(int=1), pa.binary(16), UUID(int=1).bytes),
        (b"a", pa.string(), "a"),
        ({"A": 1, "x": None}, pa.struct([("a", pa.float64()), ("x", pa.int32())]), {"a": 1.0, "x": None}),
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
    ("value", "data_type", "relaxed"),
    [
        ({"x": None}, pa.struct([pa.field("x", pa.int64(), nullable=False)]), pa.struct([("x", pa.int64())])),
        ([1, None], pa.list_(pa.field("element", pa.int64(), nullable=False)), pa.list_(pa.int64())),
        (
            [("k", None)],
            pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
            pa.map_(pa.string(), pa.int64()),
        ),
        (
            [{"x": None}],
            element_list(pa.struct([pa.field("x", pa.int64(), nullable=False)])),
            pa.list_(pa.struct([("x", pa.int64())])),
        ),
    ],
    ids=str,
)
def test_the_type_of_dicts_allows_nulls_where_there_are_some(
    value: Any, data_type: pa.DataType, relaxed: pa.DataType
) -> None:
    schema = pa.schema([("c", data_type)])
    assert record_batches([{"c": None}], schema).schema == schema
    found = record_batches([{"c": None}, {"c": value}], schema)
    assert found.table is not None
    assert found.table.to_pylist() == [{"c": None}, {"c": value}]
    assert found.schema == pa.schema([("c", relaxed)])


def test_a_hoodie_record_with_none_for_data_has_no_data() -> None:
    data: Any = None
    source = record_batches([HoodieRecord(HoodieKey("a"), data, operation=RecordOperation.DELETE)])
    assert source.table is not None
    assert source.table.to_pylist() == [{RECORD_KEY: "a", PARTITION_PATH: "", OPERATION: 2}]


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [(None, str(UUID(int=5))), (pa.string(), str(UUID(int=5))), (pa.binary(), UUID(int=5).bytes)],
    ids=str,
)
def test_uuids_of_dicts_are_text_unless_the_column_has_bytes(data_type: pa.DataType | None, expected: Any) -> None:
    schema = None if data_type is None else pa.schema([("u", data_type)])
    table = record_batches([{"u": UUID(int=5)}, {"u": None}], schema).table
    assert table is not None
    assert table["u"].to_pylist() == [expected, None]


class FailingStream:
    """A C stream whose second batch is an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"k": ["a"]})
            raise self.error

        schema = pa.schema([("k", pa.string())])
        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HoodieKeyException("two\nlines"), HoodieKeyException),
        (HoodieIOException("hoodie.exception.Other: is text"), HoodieIOException),
        (NullColumnException("column"), HoodieSchemaException),
    ],
    ids=["key", "io", "with arguments"],
)
def test_an_error_of_hoodie_behind_a_c_stream_keeps_class_and_message(
    error: HoodieException, kind: type[HoodieException]
) -> None:
    batches = record_batches(FailingStream(error)).batches
    assert next(batches).num_rows == 1
    with pytest.raises(HoodieException) as caught:
        next(batches)
    assert type(caught.value) is kind
    assert str(caught.value) == str(error)


def test_other_errors_behind_a_c_stream_are_those_of_arrow() -> None:
    with pytest.raises(OSError, match="gone") as caught:
        list(record_batches(FailingStream(FileNotFoundError("gone"))).batches)
    assert not isinstance(caught.value, HoodieException)
