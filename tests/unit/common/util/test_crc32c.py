"""CRC-32C of many chunks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.util.crc32c import crc32c, crc32c_of_chunks
from tests.support.plain_hfile import crc32c_bit_by_bit


def test_the_check_value_and_examples_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    # RFC 3720, B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@pytest.mark.parametrize("length", [1, 3, 4, 5, 31, 32, 33, 127, 128, 129, 4095, 4096, 4097, 16384, 16385, 40_000])
def test_every_length_has_the_crc_that_is_computed_byte_by_byte(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == crc32c_bit_by_bit(data)


@given(st.binary(max_size=300), st.integers(1, 70))
def test_each_chunk_has_its_own_crc(data: bytes, chunk_bytes: int) -> None:
    expected = [crc32c_bit_by_bit(data[first : first + chunk_bytes]) for first in range(0, len(data), chunk_bytes)]
    assert crc32c_of_chunks(memoryview(data), chunk_bytes).tolist() == expected
