"""Long keys among short ones: hashed as every key alone, at a cost that grows with the bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from hoodie.common.bloom.bloom_filter import DynamicBloomFilter, SimpleBloomFilter
from hoodie.common.bloom.jenkins_hash import JenkinsBlock
from hoodie.common.bloom.key_blocks import FEW_KEYS, LONG_KEY, iter_key_blocks, plain_keys, quick_hashes
from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.common.util.java_hash import hash_strings
from tests.unit.common.bloom.test_murmur_hash import expected

MASK = 0xFFFFFFFF
LENGTHS = {
    "one long": [*range(1, 40), 5_001],
    "a few long": [*range(1, 40), 4_096, 5_003, 70_002, 300, 257, 256, 255],
    "a few long, of one length": [4_097] * (FEW_KEYS - 1),
    "many long, of one length": [1_001] * (2 * FEW_KEYS),
    "many long": [*range(1, 40), *range(200, 2_400, 7)],
    "long ones of all kinds": [*range(1, 300), *(2_000 + number % 5 for number in range(40)), 9_999, 30_000, 30_001],
}


def keys_of(lengths: Sequence[int]) -> list[str]:
    """Keys of so many bytes, in any order, with letters of one to four bytes."""
    chosen = random.Random(7)
    keys = []
    for length in lengths:
        text = "".join(chosen.choice("abc019:,-é漢😀") for _ in range(length))
        while len(text.encode()) > length:
            text = text[: max(0, len(text) - max(1, (len(text.encode()) - length) // 4))]
        keys.append(text + "z" * (length - len(text.encode())))
    chosen.shuffle(keys)
    return keys


def jenkins_of_one_key(data: bytes, seed: int) -> int:
    """lookup3's hashlittle by its definition."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & MASK

    a = b = c = (0xDEADBEEF + len(data) + seed) & MASK
    while len(data) > 12:
        a = (a + int.from_bytes(data[:4], "little")) & MASK
        b = (b + int.from_bytes(data[4:8], "little")) & MASK
        c = (c + int.from_bytes(data[8:12], "little")) & MASK
        a = (a - c & MASK) ^ rotated(c, 4)
        c = c + b & MASK
        b = (b - a & MASK) ^ rotated(a, 6)
        a = a + c & MASK
        c = (c - b & MASK) ^ rotated(b, 8)
        b = b + a & MASK
        a = (a - c & MASK) ^ rotated(c, 16)
        c = c + b & MASK
        b = (b - a & MASK) ^ rotated(a, 19)
        a = a + c & MASK
        c = (c - b & MASK) ^ rotated(b, 4)
        b = b + a & MASK
        data = data[12:]
    data = data.ljust(12, b"\0")
    a = (a + int.from_bytes(data[:4], "little")) & MASK
    b = (b + int.from_bytes(data[4:8], "little")) & MASK
    c = (c + int.from_bytes(data[8:12], "little")) & MASK
    c = (c ^ b) - rotated(b, 14) & MASK
    a = (a ^ c) - rotated(c, 11) & MASK
    b = (b ^ a) - rotated(a, 25) & MASK
    c = (c ^ b) - rotated(b, 16) & MASK
    a = (a ^ c) - rotated(c, 4) & MASK
    b = (b ^ a) - rotated(a, 14) & MASK
    return (c ^ b) - rotated(b, 24) & MASK


def java_hash_of_one_key(key: str) -> int:
    units = np.frombuffer(key.encode("utf-16-le"), dtype="<u2").tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) & MASK
    return value


@pytest.mark.parametrize("seed", [0, 0x9747B28C])
@pytest.mark.parametrize("kind", LENGTHS)
def test_murmur_hashes_are_those_of_each_key_alone(kind: str, seed: int) -> None:
    keys = keys_of(LENGTHS[kind])
    assert hash_keys(pa.array(keys), seed).tolist() == expected(keys, seed)


@pytest.mark.parametrize("seed", [0, 0x9747B28C])
@pytest.mark.parametrize("kind", LENGTHS)
def test_jenkins_hashes_are_those_of_each_key_alone(kind: str, seed: int) -> None:
    keys = keys_of(LENGTHS[kind])
    hashes = np.full(len(keys), seed, dtype=np.uint32)
    for block in iter_key_blocks(plain_keys(pa.array(keys))):
        part = hashes[block.selector]
        JenkinsBlock(block).hash_in_place(part)
        hashes[block.selector] = part
    assert hashes.tolist() == [jenkins_of_one_key(key.encode(), seed) for key in keys]


@pytest.mark.parametrize("kind", LENGTHS)
def test_hashes_for_comparisons_do_not_depend_on_the_other_keys(kind: str) -> None:
    keys = keys_of(LENGTHS[kind])
    alone = [int(quick_hashes(pa.array([key]))[0]) for key in keys]
    assert quick_hashes(pa.array(keys)).tolist() == alone
    assert quick_hashes(pa.array([key for key in keys for _ in range(FEW_KEYS)])).tolist()[::FEW_KEYS] == alone


@pytest.mark.parametrize("kind", LENGTHS)
def test_javas_hashes_are_those_of_each_key_alone(kind: str) -> None:
    keys = keys_of(LENGTHS[kind])
    assert hash_strings(pa.array(keys)).tolist() == [java_hash_of_one_key(key) for key in keys]


@pytest.mark.parametrize("kind", LENGTHS)
def test_filters_do_not_depend_on_the_order_or_on_the_other_keys(kind: str) -> None:
    keys = keys_of(LENGTHS[kind])
    together, alone = SimpleBloomFilter.create(500, 1e-9), SimpleBloomFilter.create(500, 1e-9)
    together.add(pa.array(keys))
    for key in keys:
        alone.add(pa.array([key]))
    assert together.to_bytes() == alone.to_bytes()
    assert together.might_contain(pa.array(keys)).all()
    others = [f"{key[:-1]}!" for key in keys if len(key) > 10]
    assert not together.might_contain(pa.array([*keys, *others]))[len(keys) :].any()


def test_long_keys_grow_a_dynamic_filter_like_others() -> None:
    keys = keys_of(LENGTHS["long ones of all kinds"])
    together, alone = DynamicBloomFilter.create(50, 1e-9, 200), DynamicBloomFilter.create(50, 1e-9, 200)
    together.add(pa.array(keys))
    for key in keys:
        alone.add(pa.array([key]))
    assert together.to_bytes() == alone.to_bytes()
    assert together.might_contain(pa.array(keys)).all()


@pytest.mark.parametrize("kind", LENGTHS)
def test_blocks_hold_no_more_than_a_few_times_the_bytes_of_their_keys(kind: str) -> None:
    keys = keys_of(LENGTHS[kind]) + ["k" * LONG_KEY] * 100 + ["s"] * 10_000
    arrays = 0
    for block in iter_key_blocks(pa.array(keys)):
        arrays += len(block.words) + len(block.whole_keys or ())
        assert (
            sum(word.nbytes for word in [*block.words, *(block.whole_keys or ())])
            <= 4 * len(block) + block.lengths.sum()
        )
        if block.lengths[0] > LONG_KEY:
            assert 2 * block.lengths[-1] >= block.lengths[0] - 1
    # An operation of numpy for each: of at least as many bytes as so many keys have words.
    assert arrays <= 2 * LONG_KEY + sum(map(len, map(str.encode, keys))) / FEW_KEYS
