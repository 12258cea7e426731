"""JSON texts of Arrow values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.data.json_texts import json_texts

ROW = pa.struct(
    [
        ("text", pa.string()), ("i", pa.int32()), ("f", pa.float32()), ("d", pa.float64()),
        ("price", pa.decimal128(10, 3)), ("raw", pa.binary()), ("fixed", pa.binary(2)), ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")), ("millis", pa.timestamp("ms")), ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.struct([("x", pa.bool_()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])),
    ]
)  # fmt: skip
FULL = {
    "text": 'a"\\\n\x01é', "i": -1, "f": 0.6666667, "d": 3.0, "price": Decimal("2.500"), "raw": b"\x01\x02",
    "fixed": b"ab", "day": datetime.date(2020, 1, 3), "at": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "millis": datetime.datetime(2020, 1, 1), "tags": ["a", None, ""], "counts": [("a", 1), ("b", None)],
    "deep": {"x": True, "y": [{"z": 1}, None]},
}  # fmt: skip
FULL_TEXT = (
    '{"text":"a\\"\\\\\\n\\u0001é","i":-1,"f":0.6666667,"d":3.0,"price":"2.500","raw":"AQI=","fixed":"YWI=",'
    '"day":18264,"at":1577836800000000,"millis":1577836800000,"tags":["a",null,""],"counts":{"a":1,"b":null},'
    '"deep":{"x":true,"y":[{"z":1},null]}}'
)
SPARSE = {"f": float("nan"), "d": float("-inf"), "tags": [], "counts": [], "deep": {"x": None, "y": None}}
SPARSE_TEXT = (
    '{"text":null,"i":null,"f":"NaN","d":"-Infinity","price":null,"raw":null,"fixed":null,"day":null,"at":null,'
    '"millis":null,"tags":[],"counts":{},"deep":{"x":null,"y":null}}'
)


def test_each_type_has_one_text() -> None:
    assert json_texts(pa.array([FULL, None, SPARSE], ROW)).to_pylist() == [FULL_TEXT, "null", SPARSE_TEXT]


def test_texts_of_a_part_of_an_array_are_those_of_its_values() -> None:
    values = pa.array([SPARSE, FULL, None, FULL, SPARSE], ROW)
    assert json_texts(values.slice(1, 3)).to_pylist() == [FULL_TEXT, "null", FULL_TEXT]
    assert json_texts(values.slice(4)).to_pylist() == [SPARSE_TEXT]
    assert json_texts(values.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("values", "data_type", "texts"),
    [
        ([[(1, 2)], None, [(3, None)]], pa.map_(pa.int32(), pa.int32()), ['{"1":2}', "null", '{"3":null}']),
        ([1e300, 0.1, -0.0, 100.0], pa.float64(), ["1e+300", "0.1", "-0.0", "100.0"]),
        ([2**62, None], pa.int64(), [str(2**62), "null"]),
        ([{}], pa.struct([]), ["{}"]),
        ([None], pa.null(), ["null"]),
        (["a", "b", "a"], pa.dictionary(pa.int32(), pa.string()), ['"a"', '"b"', '"a"']),
    ],
)
def test_values_have_texts(values: list[Any], data_type: pa.DataType, texts: list[str]) -> None:
    assert json_texts(pa.array(values, data_type)).to_pylist() == texts
