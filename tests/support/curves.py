"""Values on space-filling curves, one row at a time: what the vectorised ones are compared with."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

MAX_LONG = (1 << 63) - 1
_MASK = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = {8: 127, 16: 32767, 32: (1 << 31) - 1, 64: MAX_LONG}
_FLOAT_MAX, _DOUBLE_MAX = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0], struct.unpack(">d", b"\x7f\xef" + b"\xff" * 6)[0]


def z_bytes(value: Any, kind: pa.DataType) -> bytes:
    """The 8 bytes of a value for the Z-order, as BinaryUtil makes them."""
    if pa.types.is_boolean(kind):
        return _int_bytes(int(bool(value)))
    if pa.types.is_floating(kind):
        return _double_bytes((_FLOAT_MAX if kind == pa.float32() else _DOUBLE_MAX) if value is None else value)
    if _is_text(kind):
        return _padded(b"" if value is None else value.encode() if isinstance(value, str) else value)
    if pa.types.is_integer(kind):
        value = _LARGEST[kind.bit_width] if value is None else value
        if kind == pa.int8():
            return bytes(7) + (value & 0xFF).to_bytes(1, "big")
        return _long_bytes(value) if kind == pa.int64() else _int_bytes(value)
    return _long_bytes(MAX_LONG if value is None else whole_of(value))


def hilbert_long(value: Any, kind: pa.DataType) -> int:
    """The number of a value for the Hilbert curve."""
    if pa.types.is_boolean(kind):
        return MAX_LONG if value else 0
    if value is None:
        return MAX_LONG
    if pa.types.is_floating(kind):
        return _signed(struct.pack(">d", math.nan if value != value else value))
    if _is_text(kind):
        return _signed(_padded(value.encode() if isinstance(value, str) else value))
    if pa.types.is_integer(kind):
        return value & 0xFF if kind == pa.int8() else value
    return whole_of(value)


def whole_of(value: Any) -> int:
    """The milliseconds of a time, at midnight in UTC of a date, or the integer part of a decimal in 64 bits."""
    if isinstance(value, Decimal):
        return _signed((int(value) & _MASK).to_bytes(8, "big"))
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    assert isinstance(value, date)
    return (value.toordinal() - date(1970, 1, 1).toordinal()) * 86_400_000


def z_value(columns: Sequence[bytes]) -> bytes:
    """The value of a row on the Z-order curve: the bits of the columns in turn."""
    numbers, found = [int.from_bytes(column, "big") for column in columns], 0
    for bit in range(63, -1, -1):
        for number in numbers:
            found = (found << 1) | ((number >> bit) & 1)
    return found.to_bytes(8 * len(columns), "big")


def hilbert_index(point: Sequence[int], bits: int = 63) -> int:
    """The place of a point on the Hilbert curve."""
    x = [number & ((1 << bits) - 1) for number in point]
    count, q = len(x), 1 << (bits - 1)
    while q > 1:
        for i in range(count):
            if x[i] & q:
                x[0] ^= q - 1
            else:
                t = (x[0] ^ x[i]) & (q - 1)
                x[0] ^= t
                x[i] ^= t
        q >>= 1
    for i in range(1, count):
        x[i] ^= x[i - 1]
    t, q = 0, 1 << (bits - 1)
    while q > 1:
        if x[-1] & q:
            t ^= q - 1
        q >>= 1
    found = 0
    for bit in range(bits - 1, -1, -1):
        for number in x:
            found = (found << 1) | (((number ^ t) >> bit) & 1)
    return found


def hilbert_bytes(index: int) -> bytes:
    """The index as Hudi compares it: two's complement, padded or cut to 63 bytes."""
    stored = index.to_bytes(index.bit_length() // 8 + 1, "big")
    return stored.rjust(63, b"\0")[:63]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))


def _padded(text: bytes) -> bytes:
    return text[:8].rjust(8, b"\0")


def _long_bytes(value: int) -> bytes:
    return ((value & _MASK) ^ (1 << 63)).to_bytes(8, "big")


def _int_bytes(value: int) -> bytes:
    return ((value & 0xFFFFFFFF) ^ (1 << 31)).to_bytes(8, "big")


def _double_bytes(value: float) -> bytes:
    stored = struct.pack(">d", value)
    if value > 0:
        return bytes([stored[0] ^ 0x80]) + stored[1:]
    return bytes(byte ^ 0xFF for byte in stored) if value < 0 else stored


def _signed(stored: bytes) -> int:
    return int.from_bytes(stored, "big", signed=True)
