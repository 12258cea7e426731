"""Statistics after a change: those of the remaining values, or not known."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.io.parquet.parquet_writer import copied_form, writer_options
from hoodie.io.parquet.splicing.changed_statistics import UnknownStatisticsError, changed_statistics, ends_of
from hoodie.io.parquet.splicing.column_chunks import STATISTICS, ColumnChunk, Leaf, encoded_column, leaves_of

SETTINGS = HoodieStorageConfig()
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.integers(-3, 3),
    pa.float32(): st.sampled_from([-1.0, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
    pa.float64(): st.sampled_from([-1.0, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "b", "é", "z" * 5000]),
    pa.binary(): st.sampled_from([b"", b"a", b"\x80", b"\xff"]),
    pa.binary(2): st.sampled_from([b"ab", b"\xffa"]),
    pa.decimal128(20, 2): st.integers(-2, 2).map(lambda number: Decimal(number).scaleb(-2)),
    pa.date32(): st.integers(-2, 2),
    pa.timestamp("us", "UTC"): st.integers(-2, 2),
}


def chunk_of(values: list[Any], kind: pa.DataType) -> ColumnChunk | None:
    if not values:
        return None
    options = writer_options(SETTINGS, ()) | {"use_dictionary": False}
    return encoded_column(pa.chunked_array([pa.array(values, kind)]), pa.field("c", kind), **options)


def leaf_of(kind: pa.DataType) -> Leaf:
    return next(leaves_of(copied_form(pa.schema([pa.field("c", kind)]), SETTINGS, 1).elements))


def told(chunk: ColumnChunk) -> dict[int, Any]:
    return {number: field.value for number, field in chunk.metadata[STATISTICS].value.items()}


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_known_statistics_are_those_of_all_values_that_are_left(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(VALUES)))
    some = st.lists(st.none() | VALUES[kind], max_size=4)
    kept, removed, added = data.draw(some), data.draw(some), data.draw(some)
    if not kept + removed or not kept + added:
        return
    stored = chunk_of(kept + removed, kind)
    expected = chunk_of(kept + added, kind)
    assert stored is not None and expected is not None
    try:
        found = changed_statistics(leaf_of(kind), stored, chunk_of(removed, kind), chunk_of(added, kind))
    except UnknownStatisticsError:
        return
    assert {number: field.value for number, field in found.value.items()} == told(expected)


def test_an_end_that_goes_is_not_known_unless_one_beyond_it_comes() -> None:
    def after(removed: list[int], added: list[int]) -> tuple[bytes, bytes] | None:
        kind = pa.int32()
        stored = chunk_of([3, 5, 9], kind)
        assert stored is not None
        field = changed_statistics(leaf_of(kind), stored, chunk_of(removed, kind), chunk_of(added, kind))
        return field.value[6].value[0], field.value[5].value[0]

    assert after([5], [1]) == (1, 9)
    assert after([5], []) == (3, 9)
    assert after([3], [2]) == (2, 9)
    assert after([9], [9]) == (3, 9)
    for removed, added in (([3], [5]), ([9], []), ([3, 9], [1])):
        with pytest.raises(UnknownStatisticsError):
            after(removed, added)


def test_ends_that_are_too_long_are_not_told() -> None:
    short, long = chunk_of(["b", "a"], pa.string()), chunk_of(["a", "z" * 5000], pa.string())
    assert short is not None and long is not None
    assert ends_of(short) == (b"a", b"b")
    assert ends_of(long) is None
