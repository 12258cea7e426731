"""The 64-bit hash XXH64 of short texts.

It is written out here, because the names that the metadata table hashes are few and short, and a library would be one
more dependency.

Hudi: org.apache.hudi.common.util.hash.HashID.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_PRIME_1 = 0x9E3779B185EBCA87
_PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5
_STRIPE = struct.Struct("<4Q")
_LONG = struct.Struct("<Q")
_INT = struct.Struct("<I")


def xxh64(data: bytes, seed: int = 0) -> int:
    """The XXH64 of bytes.

    Args:
        data: The bytes; eight bytes take about a microsecond.
        seed: 64 bits without sign.

    Returns:
        64 bits without sign.
    """
    size, position = len(data), 0
    if size >= _STRIPE.size:
        lanes = [(seed + _PRIME_1 + _PRIME_2) & _MASK, (seed + _PRIME_2) & _MASK, seed, (seed - _PRIME_1) & _MASK]
        while position + _STRIPE.size <= size:
            words = _STRIPE.unpack_from(data, position)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            position += _STRIPE.size
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _PRIME_1 + _PRIME_4) & _MASK
    else:
        found = (seed + _PRIME_5) & _MASK
    return _finished(data, position, (found + size) & _MASK)


def _finished(data: bytes, position: int, found: int) -> int:
    """The hash with the last bytes, fewer than a stripe."""
    size = len(data)
    while position + _LONG.size <= size:
        found ^= _round(0, _LONG.unpack_from(data, position)[0])
        found = (_rotated(found, 27) * _PRIME_1 + _PRIME_4) & _MASK
        position += _LONG.size
    if position + _INT.size <= size:
        found ^= (_INT.unpack_from(data, position)[0] * _PRIME_1) & _MASK
        found = (_rotated(found, 23) * _PRIME_2 + _PRIME_3) & _MASK
        position += _INT.size
    for byte in data[position:]:
        found ^= (byte * _PRIME_5) & _MASK
        found = (_rotated(found, 11) * _PRIME_1) & _MASK
    for shift, prime in ((33, _PRIME_2), (29, _PRIME_3)):
        found = ((found ^ found >> shift) * prime) & _MASK
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return (_rotated((lane + word * _PRIME_2) & _MASK, 31) * _PRIME_1) & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
