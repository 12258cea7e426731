from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.bloom import key_blocks
from hoodie.common.bloom.key_blocks import (
    are_surely_distinct,
    distinct_keys,
    iter_key_blocks,
    plain_keys,
    quick_hashes,
)
from hoodie.exception import HoodieKeyException

KEYS = st.lists(st.text(max_size=12), max_size=50)


@given(KEYS)
def test_repeated_keys_are_never_taken_for_distinct_ones(keys: list[str]) -> None:
    if are_surely_distinct(pa.array(keys, pa.string())):
        assert len(set(keys)) == len(keys)


def test_distinct_keys_are_told() -> None:
    keys = [f"{number:x}" * (number % 3 + 1) for number in range(1, 20_000)]
    keys = sorted(set(keys))
    assert are_surely_distinct(pa.array(keys))
    assert are_surely_distinct(pa.chunked_array([keys[:100], keys[100:]]))
    assert not are_surely_distinct(pa.array([*keys, keys[7]]))
    assert are_surely_distinct(pa.array([], pa.string()))


@pytest.mark.parametrize("length", [*range(1, 26), 36])
def test_every_byte_of_a_key_counts_whatever_the_lengths_of_the_others(length: int) -> None:
    keys = ["k" * length, *("k" * place + "l" + "k" * (length - place - 1) for place in range(length))]
    hashes = quick_hashes(pa.array(["skipped", *keys])[1:]).tolist()
    assert len(set(hashes)) == len(keys)
    mixed = pa.array(["a", *keys, "much longer than all the others, whose lengths are equal"])
    assert quick_hashes(mixed).tolist()[1:-1] == hashes
    assert [quick_hashes(pa.array([key])).item() for key in keys] == hashes


def test_more_keys_than_are_hashed_at_once_have_the_hashes_of_each_alone() -> None:
    keys = pa.array([f"key_{number:07}" for number in range(40_000)])
    hashes = quick_hashes(keys)
    assert len(set(hashes.tolist())) == len(keys)
    for place in (0, 16_383, 16_384, 39_999):
        assert quick_hashes(keys[place : place + 1]).item() == hashes[place]


@given(st.lists(st.none() | st.text(max_size=3), max_size=20))
def test_keys_that_repeat_are_kept_once(keys: list[str | None]) -> None:
    assert distinct_keys(pa.array(keys, pa.string())).to_pylist() == list(dict.fromkeys(keys))


def test_null_keys_are_refused() -> None:
    with pytest.raises(HoodieKeyException):
        are_surely_distinct(pa.array(["a", None]))


@pytest.mark.parametrize("lengths", [[40] * 10, list(range(1, 41))])
def test_blocks_of_long_keys_have_fewer_of_them(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_blocks, "BLOCK_BYTES", 100)
    blocks = list(iter_key_blocks(pa.array(["x" * length for length in lengths])))
    assert sum(map(len, blocks)) == len(lengths)
    assert len(blocks[0]) == 2
    assert all(len(block) * int(block.lengths[0]) <= 100 for block in blocks)


@pytest.mark.parametrize("limit", [0, 1 << 31])
@pytest.mark.parametrize("key_type", [pa.string(), pa.large_string(), pa.string_view()])
@given(chunks=st.lists(KEYS, max_size=4))
def test_chunks_of_keys_become_one_array(chunks: list[list[str]], key_type: pa.DataType, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_blocks, "_MOST_BYTES_OF_STRINGS", limit)
        sliced = [pa.array(["left out", *chunk], key_type).slice(1) for chunk in chunks]
        keys = pa.chunked_array(sliced, key_type)
        expected = [key for chunk in chunks for key in chunk]
        assert plain_keys(keys).to_pylist() == expected
        if not pa.types.is_string_view(key_type):
            assert plain_keys(keys.dictionary_encode()).to_pylist() == expected
