"""CRC-32C (Castagnoli) of many chunks at once.

A CRC is linear over GF(2). A chunk is cut into lanes, numpy advances all lanes of all chunks by four bytes at a time,
and neighbouring lanes are folded: the left one is advanced by the length of the right one, and both are added.

    crc32c(b"123456789") = 0xE3069283
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

UInt32s = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
"""The polynomial with its bits reversed."""
_ONES = 0xFFFFFFFF
_SHORT_BYTES = 4096
_SHORT_LANE_BYTES = 32
_LANE_BYTES = 128


def crc32c(data: bytes | memoryview) -> int:
    """The CRC-32C of bytes.

    Args:
        data: The bytes.
    """
    return int(crc32c_of_chunks(data, max(len(data), 1))[0]) if len(data) else 0


def crc32c_of_chunks(data: bytes | memoryview, chunk_bytes: int) -> UInt32s:
    """The CRC-32C of each chunk of bytes.

    Args:
        data: The bytes.
        chunk_bytes: The length of every chunk but the last one, which may be shorter; at least 1.
    """
    content = np.frombuffer(data, dtype=np.uint8)
    whole = len(content) // chunk_bytes
    found = [_crcs(content[: whole * chunk_bytes].reshape(whole, chunk_bytes))] if whole else []
    if whole * chunk_bytes < len(content):
        found.append(_crcs(content[whole * chunk_bytes :].reshape(1, -1)))
    return np.concatenate(found) if found else np.empty(0, dtype=np.uint32)


def _crcs(chunks: npt.NDArray[np.uint8]) -> UInt32s:
    """The CRC of each row of a matrix."""
    count, length = chunks.shape
    # Zeros in front do not change a register that begins with 0. The effect of the real first value is added at the
    # end.
    padded_length = max(1 << (length - 1).bit_length(), _SHORT_LANE_BYTES)
    if padded_length != length:
        padded = np.zeros((count, padded_length), dtype=np.uint8)
        padded[:, padded_length - length :] = chunks
        chunks = padded
    lane_bytes = _SHORT_LANE_BYTES if padded_length < _SHORT_BYTES else _LANE_BYTES
    words = np.ascontiguousarray(chunks).view("<u4").reshape(-1, lane_bytes // 4)
    low, high = _word_tables()
    registers = np.zeros(len(words), dtype=np.uint32)
    for column in np.ascontiguousarray(words.T):
        registers ^= column
        registers = low[registers & 0xFFFF] ^ high[registers >> 16]
    while lane_bytes < padded_length:
        pairs = registers.reshape(-1, 2)
        registers = _advanced(pairs[:, 0], lane_bytes) ^ pairs[:, 1]
        lane_bytes *= 2
    return registers ^ np.uint32(_first_value_after(length) ^ _ONES)


@lru_cache(maxsize=64)
def _first_value_after(length: int) -> int:
    """The value of the register after the given number of zeros, starting from its first value."""
    value = np.array([_ONES], dtype=np.uint32)
    step = 1
    while step <= length:
        if length & step:
            value = _advanced(value, step)
        step *= 2
    return int(value[0])


def _advanced(registers: UInt32s, zeros: int) -> UInt32s:
    """Registers after the given number of zero bytes, a power of two."""
    tables = _zeros_tables(zeros.bit_length() - 1)
    advanced: UInt32s = (
        tables[0][registers & 0xFF]
        ^ tables[1][(registers >> 8) & 0xFF]
        ^ tables[2][(registers >> 16) & 0xFF]
        ^ tables[3][registers >> 24]
    )
    return advanced


@lru_cache(maxsize=64)
def _zeros_tables(power: int) -> UInt32s:
    """For each byte of a register and each of its values, the register after ``2**power`` bytes of zeros."""
    if power:
        columns = _advanced(_advanced(_unit_registers(), 1 << (power - 1)), 1 << (power - 1))
    else:
        columns = _unit_registers()
        for _ in range(8):
            columns = (columns >> np.uint32(1)) ^ np.where(columns & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return _sums_of(columns.reshape(4, 8))


@lru_cache(maxsize=1)
def _word_tables() -> tuple[UInt32s, UInt32s]:
    """The register after four bytes of zeros, for all values of its low and of its high half."""
    columns = _advanced(_unit_registers(), 4)
    low, high = _sums_of(columns.reshape(2, 16))
    return low, high


def _unit_registers() -> UInt32s:
    return np.uint32(1) << np.arange(32, dtype=np.uint32)


def _sums_of(columns: UInt32s) -> UInt32s:
    """For each row of a matrix, the sums of all subsets of its values."""
    sums = np.zeros((len(columns), 1), dtype=np.uint32)
    for bit in range(columns.shape[1]):
        sums = np.concatenate([sums, sums ^ columns[:, bit : bit + 1]], axis=1)
    return sums
