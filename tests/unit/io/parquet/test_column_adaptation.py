from __future__ import annotations

import pyarrow as pa
import pytest

from hoodie.io.parquet.column_adaptation import adapt_column

OLD = pa.struct([("gone", pa.int32()), ("x", pa.int32())])
NEW = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([[1, 2], [3], None, [4, 5, 6], [], [7]], pa.list_(pa.int32()), pa.list_(pa.int64())),
        ([[1, 2], [3], None, [4, 5, 6], [], [7]], pa.large_list(pa.int32()), pa.list_(pa.int64())),
        (
            [[("a", 1)], None, [("b", 2), ("c", None)], [], [("d", 4)]],
            pa.map_("string", "int32"),
            pa.map_("string", "int64"),
        ),
        ([1, 2, None, 4, 5], pa.dictionary(pa.int8(), pa.int32()), pa.int64()),
        (["a", None, "c", "d", "e"], pa.string_view(), pa.string()),
    ],
    ids=["list", "large list", "map", "dictionary", "view"],
)
def test_slices_keep_their_values(values: list, source: pa.DataType, target: pa.DataType) -> None:
    for start in range(len(values) + 1):
        for count in range(len(values) + 1 - start):
            adapted = adapt_column(pa.array(values, source).slice(start, count), target)
            adapted.validate(full=True)
            assert adapted.type == target
            assert adapted.to_pylist() == values[start : start + count]


def test_slices_of_structs_keep_their_values() -> None:
    values = [{"gone": 1, "x": 2}, None, {"gone": 3, "x": None}, {"gone": 4, "x": 5}]
    for start in range(4):
        adapted = adapt_column(pa.array(values, OLD).slice(start), NEW)
        assert adapted.to_pylist() == [None if row is None else {"x": row["x"]} for row in values[start:]]


def test_lists_of_lists_of_parquet_avro_lose_the_struct_that_old_releases_of_arrow_see() -> None:
    seen = pa.list_(pa.struct([("array", pa.list_(pa.int32()))]))
    values = pa.array([[{"array": [1]}, {"array": [2, 3]}], None, [], [{"array": []}]], seen)
    wanted = pa.list_(pa.list_(pa.int64()))
    assert adapt_column(values.slice(0, 2), wanted).to_pylist() == [[[1], [2, 3]], None]
    assert adapt_column(values.slice(1), wanted).to_pylist() == [None, [], [[]]]


def test_values_under_a_null_list_are_left_out() -> None:
    covering = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5], pa.int32()))
    covering = pa.ListArray.from_buffers(
        covering.type, 3, [pa.py_buffer(bytes([0b101])), covering.buffers()[1]], children=[covering.values]
    )
    assert covering.to_pylist() == [[1, 2], None, [5]]
    assert adapt_column(covering, pa.list_(pa.int64())).to_pylist() == [[1, 2], None, [5]]


def test_a_struct_of_which_nothing_is_wanted_keeps_its_nulls() -> None:
    assert adapt_column(pa.array([{"gone": 1, "x": 1}, None], OLD), pa.struct([])).to_pylist() == [{}, None]
