from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.bloom import key_blocks
from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.exception import HoodieKeyException, HoodieSchemaException

MASK = 0xFFFFFFFF
KEYS = ["a", "", "abcd", "ключ", "uuid-0000-1111", "😀x", "abc", "ab", "é", "x" * 70]


def murmur_of_one_key(data: bytes, seed: int) -> int:
    """The hash by its definition, one key at a time."""
    m = 0x5BD1E995
    length = len(data)
    h = (seed ^ length) & MASK
    for start in range(0, length - length % 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & MASK
        k ^= k >> 24
        h = (h * m & MASK) ^ (k * m & MASK)
    left = length % 4
    if left:
        for distance in range(left):
            byte = data[length - 1 - distance]
            h ^= ((byte - 256 if byte > 127 else byte) << (8 * distance)) & MASK
        h = h * m & MASK
    h ^= h >> 13
    h = h * m & MASK
    return h ^ (h >> 15)


def expected(keys: list[str], seed: int = 0) -> list[int]:
    return [murmur_of_one_key(key.encode(), seed) for key in keys]


@given(
    st.lists(st.text(max_size=50).filter(lambda key: not any("\ud800" <= c <= "\udfff" for c in key))),
    st.integers(0, MASK),
)
def test_hashes_follow_the_definition_for_any_text_and_seed(keys: list[str], seed: int) -> None:
    assert hash_keys(pa.array(keys, pa.string()), seed).tolist() == expected(keys, seed)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["dropped", *KEYS, "dropped"]).slice(1, len(KEYS)),
        pa.array(KEYS, pa.large_string()),
        pa.array(KEYS, pa.string_view()),
        pa.chunked_array([KEYS[:3], [], KEYS[3:]], pa.string()),
        pa.chunked_array([KEYS[:3], KEYS[3:]], pa.large_string()),
        pa.array(KEYS).dictionary_encode(),
        pa.array(["dropped", *KEYS]).dictionary_encode().slice(1),
        pa.chunked_array([pa.array(KEYS[:3]).dictionary_encode(), pa.array(KEYS[3:]).dictionary_encode()]),
    ],
    ids=[
        "sliced",
        "large",
        "view",
        "chunked",
        "chunked large",
        "dictionary",
        "sliced dictionary",
        "chunked dictionary",
    ],
)
def test_every_form_of_a_string_array_hashes_the_same(keys: pa.Array) -> None:
    assert hash_keys(keys).tolist() == expected(KEYS)


def test_keys_of_several_blocks_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_blocks, "BLOCK_KEYS", 7)
    mixed = [f"{number}" * (number % 5 + 1) for number in range(100)]
    equal = [f"{number:05d}" for number in range(100)]
    assert hash_keys(pa.array(mixed)).tolist() == expected(mixed)
    assert hash_keys(pa.array(equal)).tolist() == expected(equal)


def test_no_keys_have_no_hashes() -> None:
    for empty in (pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        hashes = hash_keys(empty)
        assert hashes.dtype == np.uint32 and len(hashes) == 0


def test_null_keys_are_refused_with_their_row() -> None:
    with pytest.raises(HoodieKeyException, match="first at row 1"):
        hash_keys(pa.array(["a", None]))
    with pytest.raises(HoodieKeyException):
        hash_keys(pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), ["a"]))


def test_keys_that_are_not_strings_are_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="int64"):
        hash_keys(pa.array([1]))
