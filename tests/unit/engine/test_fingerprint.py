"""Whether rows are the same rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.engine.fingerprint import fingerprint

ROWS = st.lists(st.tuples(st.none() | st.text(max_size=9), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=20)


def batch(rows: list[tuple[Any, Any]]) -> pa.RecordBatch:
    columns = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=["a", "b"])


@given(rows=ROWS, others=ROWS, seed=st.randoms())
def test_it_is_the_same_for_the_same_rows_in_any_order_and_any_batches(rows: Any, others: Any, seed: Any) -> None:
    together = rows + others
    shuffled = list(together)
    seed.shuffle(shuffled)
    whole = fingerprint(batch(together), ["a", "b"])
    assert fingerprint(batch(shuffled), ["a", "b"]) == whole
    assert (fingerprint(batch(rows), ["a", "b"]) + fingerprint(batch(others), ["a", "b"])) % 2**64 == whole


def test_keys_of_one_murmur_hash_are_other_keys() -> None:
    one, other = "cc0b9527ba869fbb", "d32269b812ac9794"
    assert hash_keys(pa.array([one])) == hash_keys(pa.array([other]))
    assert fingerprint(batch([(one, 1)]), ["a", "b"]) != fingerprint(batch([(other, 1)]), ["a", "b"])


@given(rows=ROWS, others=ROWS)
def test_it_differs_for_other_rows(rows: Any, others: Any) -> None:
    key = lambda row: (row[0] is None, row[0] or "", row[1] is None, row[1] or 0)  # noqa: E731
    if sorted(rows, key=key) != sorted(others, key=key):
        assert fingerprint(batch(rows), ["a", "b"]) != fingerprint(batch(others), ["a", "b"])


@pytest.mark.parametrize(
    "values",
    [
        [1.5, 2.5], [True, False], [b"a", b"b"], [Decimal("1.10"), Decimal("1.20")], [[1], [2]], [{"x": 1}, {"x": 2}],
        [dt.date(2026, 1, 1), dt.date(2026, 1, 2)], [dt.time(1), dt.time(2)],
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)],
    ],
)  # fmt: skip
def test_it_knows_values_of_all_types(values: list[Any]) -> None:
    numbers = {fingerprint(pa.RecordBatch.from_pydict({"v": pa.array([value])}), ["v"]) for value in [*values, None]}
    assert len(numbers) == 3
    typed = pa.array([None, values[1]])
    assert fingerprint(pa.RecordBatch.from_pydict({"v": typed.slice(1)}), ["v"]) in numbers
