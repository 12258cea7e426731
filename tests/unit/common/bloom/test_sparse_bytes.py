from __future__ import annotations

import base64

import numpy as np
import pytest

from hoodie.common.bloom.bloom_filter import BloomFilter, create_bloom_filter, decode_bloom_filter
from hoodie.common.bloom.sparse_bytes import SparseBytes
from tests.unit.common.bloom.test_bloom_filter import random_keys

LENGTHS = [0, 1, 2, 23, 24, 25, 47, 48, 500, 24 * 2048 - 1, 24 * 2048, 24 * 2048 + 7, 323_503]


def some_bytes(length: int, count: int) -> bytes:
    rng = np.random.default_rng(length)
    data = np.zeros(length, dtype=np.uint8)
    data[rng.integers(0, length, count if length else 0)] = rng.integers(1, 256, count if length else 0)
    return data.tobytes()


def sparse(data: bytes) -> SparseBytes:
    values = np.frombuffer(data, dtype=np.uint8)
    places = np.flatnonzero(values)
    return SparseBytes(len(data), places, values[places])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("count", [0, 1, 5, 600])
def test_the_text_is_that_of_base64(length: int, count: int) -> None:
    data = some_bytes(length, count)
    assert b"".join(sparse(data).base64_pieces()) == base64.b64encode(data)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("count", [0, 1, 5, 600])
def test_a_text_gives_its_bytes_unless_they_are_many(length: int, count: int) -> None:
    data = some_bytes(length, count)
    found = SparseBytes.decoded(base64.b64encode(data))
    if found is None:
        assert length < 50 * count * 24
        return
    assert found.to_bytes() == data
    assert found.part(length // 3, length // 2).to_bytes() == data[length // 3 :][: length // 2]


def test_most_of_a_large_text_is_not_looked_at_if_few_bytes_are_not_zero() -> None:
    assert SparseBytes.decoded(base64.b64encode(some_bytes(323_503, 600))) is not None
    assert SparseBytes.decoded(base64.b64encode(some_bytes(323_503, 60_000))) is None


def test_bytes_are_joined() -> None:
    parts = [b"\1\0\2", sparse(bytes(50) + b"\3"), b"", sparse(bytes(7))]
    assert SparseBytes.joined(parts).to_bytes() == b"\1\0\2" + bytes(50) + b"\3" + bytes(7)


@pytest.mark.parametrize("wrong", [b"AA==", b"A*AA", b"=AAA", b"AAA\n"])
@pytest.mark.parametrize("place", [0, 28, 32, 96])
def test_what_is_not_base64_is_refused(wrong: bytes, place: int) -> None:
    text = bytearray(b"A" * 1024)
    text[place : place + 4] = wrong
    with pytest.raises(ValueError, match=r"(?i)base64|padding"):
        SparseBytes.decoded(bytes(text))


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
@pytest.mark.parametrize("counts", [(1,), (20, 1), (60, 60, 60, 600), (5_000, 3)])
def test_a_filter_of_few_keys_has_the_bits_of_one_that_holds_all_bits(
    kind: str, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps() -> list[BloomFilter]:
        found = [create_bloom_filter(kind, 4_000, 1e-9, 10_000)]
        for seed, count in enumerate(counts):
            found[-1].add(random_keys(count, seed))
            found.append(decode_bloom_filter(kind, found[-1].to_base64()))
        return found

    few = steps()
    monkeypatch.setattr("hoodie.common.bloom.bloom_filter._FEW_BITS", 0)
    monkeypatch.setattr("hoodie.common.bloom.sparse_bytes._FEW_UNITS", -1)
    many = steps()
    for mine, other in zip(few, many, strict=True):
        assert mine.to_base64() == other.to_base64()
        assert mine.to_bytes() == other.to_bytes()
        assert len(mine.to_base64_bytes()) == mine.base64_length
    monkeypatch.undo()
    for step in few[1:]:
        assert step.might_contain(random_keys(counts[0], 0)).all()
    assert not few[1].might_contain(random_keys(100, 99)).any()
