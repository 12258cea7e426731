"""The checksum of zlib, whichever library computes it."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest

from hoodie.common.util.crc32 import crc32


@pytest.mark.parametrize("data", [b"", b"a", b"123456789", bytes(range(256)) * 999])
def test_the_checksum_is_that_of_zlib(data: bytes) -> None:
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)) == zlib.crc32(data)
    assert crc32(pa.py_buffer(data)) == zlib.crc32(data)


def test_the_known_checksum_is_computed() -> None:
    assert crc32(b"123456789") == 0xCBF43926
