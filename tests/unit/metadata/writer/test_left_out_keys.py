"""Keys that a new version of a file lacks are found without a table of all keys."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from hoodie.metadata.writer import left_out_keys
from hoodie.metadata.writer.left_out_keys import left_out


def keys_of(keys: list[str]) -> pa.Array:
    return pa.array(keys, pa.string())


@pytest.mark.parametrize("seed", range(4))
def test_left_out_keys_are_those_of_sets(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        before = [
            f"key{source.randrange(10**6):0{source.choice([1, 6])}}" for _ in range(source.choice([0, 1, 50, 2000]))
        ]
        left = {n for n in range(len(before)) if source.random() < source.choice([0.01, 0.5])}
        after = [key for n, key in enumerate(before) if n not in left]
        lost = dict.fromkeys(key for n, key in enumerate(before) if n in left)
        found = left_out(keys_of(before), keys_of(after))
        if lost.keys() & set(after):
            assert found is None
        else:
            assert found is not None and found.to_pylist() == list(lost)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a", "b", "c"], ["b", "a"]),
        (["a", "b"], ["a", "b", "c"]),
        (["a", "b", "c"], ["a", "x"]),
        (["a", "b"], ["x", "y"]),
        (["a", "b", "a"], ["a", "b"]),
        (["a", None, "b"], ["a", "b"]),
    ],
)
def test_other_changes_are_not_left_out_keys(before: list[str], after: list[str]) -> None:
    assert left_out(keys_of(before), keys_of(after)) is None


def test_many_keys_are_compared_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out_keys, "_MOST", 2)
    before = keys_of(["a", "b", "c", "d"])
    assert left_out(before, before[2:]).to_pylist() == ["a", "b"]
    assert left_out(before, before[3:]) is None


def test_equal_hashes_lose_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out_keys, "quick_hashes", lambda keys: np.zeros(len(keys), np.uint64))
    before = keys_of(["a", "b", "c"])
    assert left_out(before, keys_of(["b", "c"])) is None
    assert left_out(before, keys_of(["a", "b"])).to_pylist() == ["c"]
    # A new key in the place of another one.
    assert left_out(before, keys_of(["x", "b"])) is None
