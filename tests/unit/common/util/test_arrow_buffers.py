"""Arrays around bytes that are there already; `make test-pyarrow` runs this with other releases of Arrow."""

from __future__ import annotations

import datetime
import decimal
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie.common.util.arrow_buffers as arrow_buffers
from hoodie.common.util.arrow_buffers import (
    booleans_of,
    lists_like,
    maps_like,
    numbers_of,
    pieces_of,
    rows_of,
    spans_of,
    structs_of,
    without_views,
)
from hoodie.exception import HoodieException

PACKAGE = Path(__file__).parents[4] / "hoodie"


def whole(array: pa.Array) -> list[Any]:
    """The values, after Arrow has checked all of the array, and has copied it in several ways."""
    array.validate(full=True)
    places = pa.array(np.arange(len(array)))
    for copied in (array.take(places), pa.concat_arrays([array, array])[len(array) :], array.filter(places.is_valid())):
        copied.validate(full=True)
        assert copied.to_pylist() == array.to_pylist()
    assert array.slice(1).to_pylist() == array.to_pylist()[1:]
    return array.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("values", "data_type", "expected"),
    [
        (np.array([1, -2], np.int32), pa.int32(), [1, -2]),
        (np.array([1.5, -2.0]), pa.float64(), [1.5, -2.0]),
        (np.array([1, 0], np.int32), pa.date32(), [datetime.date(1970, 1, 2), datetime.date(1970, 1, 1)]),
        (np.array([[7, 0], [0, 1]], np.uint64), pa.decimal128(38, 0), [decimal.Decimal(7), decimal.Decimal(2**64)]),
        (np.array([[97, 98], [99, 100]], np.uint8), pa.binary(2), [b"ab", b"cd"]),
        (np.empty((2, 0), np.uint8), pa.binary(0), [b"", b""]),
        (np.empty(0, np.int64), pa.int64(), []),
    ],
)
def test_numbers_are_taken_as_they_are_in_memory(
    values: np.ndarray, data_type: pa.DataType, expected: list[Any]
) -> None:
    made = numbers_of(values, data_type)
    assert (made.type, whole(made)) == (data_type, expected)


@pytest.mark.parametrize("count", [0, 1, 8, 11])
def test_booleans_are_taken_from_bytes(count: int) -> None:
    found = np.arange(count, dtype=np.uint8) % 3 % 2
    assert whole(booleans_of(found)) == (found == 1).tolist()


@pytest.mark.parametrize(
    "data", [b"abcdef", pa.py_buffer(b"abcdef"), memoryview(b"abcdef"), np.array(list(b"abcdef"), np.uint8)]
)
def test_bytes_are_cut_into_pieces(data: Any) -> None:
    offsets = np.array([1, 3, 3, 6], np.int32)
    text = bytes(data).decode()
    assert whole(pieces_of(data, offsets)) == [text[1:3].encode(), b"", text[3:].encode()]
    assert whole(pieces_of(data, offsets, pa.string())) == [text[1:3], "", text[3:]]
    assert whole(pieces_of(data, offsets[:1])) == []
    is_there = pa.array([1, None, 3]).buffers()[0]
    assert whole(pieces_of(data, offsets, pa.string(), is_there)) == [text[1:3], None, text[3:]]


def test_rows_of_bytes_become_values_of_one_length() -> None:
    matrix = np.array([list(b"abcd"), list(b"efgh")], np.uint8)
    assert whole(rows_of(matrix)) == [b"abcd", b"efgh"]
    assert whole(rows_of(matrix[:, 1:3], pa.string())) == ["bc", "fg"]
    assert whole(rows_of(np.array([(1, 2)], np.dtype([("a", ">i2"), ("b", "u1")])))) == [b"\x00\x01\x02"]
    assert whole(rows_of(matrix[:0])) == []
    assert whole(rows_of(matrix[:, :0])) == [b"", b""]


def test_rows_that_one_array_has_no_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_buffers, "_MAX_BYTES", 7)
    with pytest.raises(HoodieException, match="8 bytes"):
        rows_of(np.zeros((2, 4), np.uint8))


def test_parts_of_bytes_leave_out_what_is_between() -> None:
    data = np.array(list(b"abcdef"), np.uint8)
    assert whole(spans_of(data, np.array([0, 2, 5]), np.array([1, 4, 6]))) == [b"a", b"cd", b"f"]
    assert whole(spans_of(data, np.array([], np.int64), np.array([], np.int64))) == []


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("values", [[], [None], ["out", "a", "", None, "ü" * 40, "more than twelve"]])
def test_views_become_plain_text_and_bytes(values: list[str | None], is_large: bool) -> None:
    wanted = values[1:]
    text = without_views(pa.array(values, pa.string_view()).slice(1), is_large)
    assert (text.type, whole(text)) == (pa.large_string() if is_large else pa.string(), wanted)
    encoded = [None if value is None else value.encode() for value in values]
    data = without_views(pa.array(encoded, pa.binary_view()).slice(1), is_large)
    assert (data.type, whole(data)) == (pa.large_binary() if is_large else pa.binary(), encoded[1:])
    assert without_views(text) is text


def test_text_of_views_that_is_no_utf_8_stays_so() -> None:
    views = pa.array([b"a", b"\xff"], pa.binary_view()).view(pa.string_view())
    assert without_views(views).view(pa.binary()).to_pylist() == [b"a", b"\xff"]


def test_structs_hold_their_columns() -> None:
    columns = [pa.array([1, None]), pa.array(["a", "b"])]
    wanted = pa.struct([pa.field("n", pa.int64()), pa.field("t", pa.string(), nullable=False)])
    made = structs_of(columns, wanted, 2)
    assert (made.type, whole(made)) == (wanted, [{"n": 1, "t": "a"}, {"n": None, "t": "b"}])
    assert whole(structs_of([], pa.struct([]), 3)) == [{}, {}, {}]


def keys_of_unknown_nulls(texts: list[bytes]) -> pa.Array:
    """Texts as readers make them: a cast of what a take has copied."""
    data = b"".join(texts)
    ends = np.cumsum([len(text) for text in texts])
    found = spans_of(np.frombuffer(data, np.uint8), ends - [len(text) for text in texts], ends)
    return found.cast(pa.string())


@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_maps_keep_their_keys_and_nulls_and_get_other_values(start: int) -> None:
    given = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64()))
    keys = keys_of_unknown_nulls([b"a", b"b", b"c"])
    maps = pa.MapArray.from_arrays(given.offsets, keys, given.items, mask=given.is_null()).slice(start)
    wanted = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    made = maps_like(maps, pa.array(["x", "y", "z"]), wanted)
    expected = [[("a", "x")], None, [("b", "y"), ("c", "z")], []]
    assert (made.type, whole(made)) == (wanted, expected[start:])


@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_lists_keep_lengths_and_nulls_and_get_other_elements(start: int) -> None:
    lists = pa.array([[1], None, [2, 3], []], pa.list_(pa.int64())).slice(start)
    assert whole(lists_like(lists, pa.array(["x", "y", "z"]))) == [["x"], None, ["y", "z"], []][start:]
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64())).slice(start)
    assert whole(lists_like(maps, pa.array([1, 2, 3]))) == [[1], None, [2, 3], []][start:]


def test_what_a_null_hides_stays_hidden() -> None:
    hidden = pa.MapArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.array(["a", "b", "c"]), pa.array([1, 2, 3]), mask=pa.array([False, True])
    )
    made = maps_like(hidden, pa.array([7, 8, 9]), hidden.type)
    assert whole(made) == [[("a", 7)], None]
    assert pc.list_value_length(lists_like(hidden, pa.array([7, 8, 9]))).to_pylist() == [1, None]


def test_no_other_module_makes_arrays_from_buffers_or_asks_arrow_for_types_of_pandas() -> None:
    calls = re.compile(r"\.(from_buffers|to_pandas_dtype)\(")
    found = {
        f"{path.relative_to(PACKAGE)}: {call}"
        for path in PACKAGE.rglob("*.py")
        for call in calls.findall(path.read_text())
    }
    assert found == {"common/util/arrow_buffers.py: from_buffers"}
