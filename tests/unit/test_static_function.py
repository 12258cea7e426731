"""A static function gives each hash its number, and stores no hash."""

from __future__ import annotations

import numpy as np
import pytest

from hoodie.common.util.static_function import StaticFunction
from hoodie.exception import HoodieException


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1_000, 100_000])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_each_hash_has_its_number(count, kind):
    random = np.random.default_rng(count)
    hashes = np.unique(random.integers(0, 1 << 64, count, dtype=np.uint64))
    values = random.integers(0, np.iinfo(kind).max, len(hashes), endpoint=True).astype(kind)

    function = StaticFunction.of(hashes, values)

    assert function(hashes).dtype == kind
    assert (function(hashes) == values).all()
    assert (function(hashes[::-1]) == values[::-1]).all()


def test_hashes_in_sequence_have_their_numbers():
    hashes = np.arange(50_000, dtype=np.uint64)

    assert (StaticFunction.of(hashes, hashes.astype(np.uint16))(hashes) == hashes.astype(np.uint16)).all()


def test_a_hash_takes_little_more_than_its_number():
    hashes = np.random.default_rng(0).integers(0, 1 << 64, 100_000, dtype=np.uint64)

    assert StaticFunction.of(hashes, np.zeros(100_000, dtype=np.uint8)).numbers.nbytes < 1.31 * 100_000


def test_any_hash_may_be_asked_for():
    function = StaticFunction.of(np.array([1, 2], dtype=np.uint64), np.array([7, 8], dtype=np.uint8))

    assert function(np.array([3, 1], dtype=np.uint64))[1] == 7


def test_equal_hashes_are_refused():
    with pytest.raises(HoodieException, match="equal"):
        StaticFunction.of(np.array([1, 1], dtype=np.uint64), np.array([1, 2], dtype=np.uint8))
