"""The header RECORD_POSITIONS: the positions of a block's records in the base file.

It is the Base64 text of a Roaring bitmap of 64 bits in its portable form (little endian): the number of buckets, and
for each bucket the upper 32 bits of its positions and a bitmap of 32 bits. Such a bitmap holds containers of positions
with the same upper 16 bits: an array, a bitmap of 65536 bits, or runs, whichever is the smallest.

A bitmap is a set. So records with positions are sorted by them, and no two have the same one.

Hudi: org.apache.hudi.common.table.log.LogReaderUtils. Differs: refuses more positions than there are records.
"""

from __future__ import annotations

import base64
import struct

import numpy as np
import numpy.typing as npt

_BUCKETS = struct.Struct("<Q")
_NUMBER = struct.Struct("<I")
_COOKIE = 12346
"""The beginning of a bitmap without runs; the number of containers follows."""
_COOKIE_WITH_RUNS = 12347
"""In the lower 16 bits. The upper bits hold the number of containers less one."""
_NO_OFFSETS_BELOW = 4
"""A bitmap with runs and fewer containers than this has no offsets."""
_MOST_IN_ARRAY = 4096
_BITMAP_BYTES = 8192
_CONTAINER_BITS = 16


def encode_positions(positions: npt.NDArray[np.int64]) -> str:
    """The text of a header, byte for byte as Hudi writes it.

    Args:
        positions: Ascending, without duplicates.
    """
    parts = [b""]
    buckets = _groups(positions, 32)
    for bucket in buckets:
        parts += [_NUMBER.pack(int(bucket[0]) >> 32), _encode_bucket(bucket & 0xFFFFFFFF)]
    parts[0] = _BUCKETS.pack(len(buckets))
    return base64.b64encode(b"".join(parts)).decode("ascii")


def decode_positions(text: str, count: int) -> npt.NDArray[np.int64]:
    """The positions in a header, ascending.

    Args:
        text: The header.
        count: The number of records of the block.

    Raises:
        ValueError: The header is damaged, or has another number of positions.
    """
    reader = _Bytes(base64.b64decode(text, validate=True))
    found: list[npt.NDArray[np.int64]] = []
    previous = -1
    for _ in range(reader.number(_BUCKETS)):
        high = reader.number(_NUMBER)
        if not previous < high < 1 << 31:
            raise ValueError("the buckets of positions are not in order")
        previous = high
        count -= _decode_bucket(reader, high << 32, count, found)
    if count or reader.rest:
        raise ValueError("there are more or fewer positions than records")
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _groups(values: npt.NDArray[np.int64], bits: int) -> list[npt.NDArray[np.int64]]:
    """Ascending values, split where their upper bits, those above the given ones, differ."""
    places = np.flatnonzero(np.diff(values >> bits)) + 1
    return np.split(values, places) if len(values) else []


def _encode_bucket(values: npt.NDArray[np.int64]) -> bytes:
    groups = _groups(values, _CONTAINER_BITS)
    containers, has_runs = [], []
    for group in groups:
        low = (group & 0xFFFF).astype("<u2")
        runs = _runs(low)
        plain_bytes = 2 * len(low) if len(low) <= _MOST_IN_ARRAY else _BITMAP_BYTES
        has_runs.append(2 + runs.nbytes < plain_bytes)
        if has_runs[-1]:
            containers.append(struct.pack("<H", len(runs)) + runs.tobytes())
        elif len(low) <= _MOST_IN_ARRAY:
            containers.append(low.tobytes())
        else:
            bits = np.zeros(8 * _BITMAP_BYTES, dtype=np.uint8)
            bits[low] = 1
            containers.append(np.packbits(bits, bitorder="little").tobytes())
    if any(has_runs):
        head = _NUMBER.pack(_COOKIE_WITH_RUNS | (len(groups) - 1) << 16)
        head += np.packbits(has_runs, bitorder="little").tobytes()
    else:
        head = _NUMBER.pack(_COOKIE) + _NUMBER.pack(len(groups))
    head += b"".join(struct.pack("<HH", int(group[0]) >> _CONTAINER_BITS, len(group) - 1) for group in groups)
    if not any(has_runs) or len(groups) >= _NO_OFFSETS_BELOW:
        starts = np.cumsum([len(head) + _NUMBER.size * len(groups), *map(len, containers)])[:-1]
        head += starts.astype("<u4").tobytes()
    return head + b"".join(containers)


def _runs(low: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """The runs of ascending numbers: the first number of each, and the count of those that follow."""
    breaks = np.flatnonzero(np.diff(low.astype(np.int64)) != 1) + 1
    starts = np.concatenate([[0], breaks])
    ends = np.concatenate([breaks, [len(low)]])
    return np.stack([low[starts].astype("<u2"), (ends - starts - 1).astype("<u2")], axis=1)


class _Bytes:
    """Reader of bytes from front to back, never beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._position

    def take(self, count: int) -> bytes:
        if count > self.rest:
            raise ValueError("the positions end too early")
        self._position += count
        return self._data[self._position - count : self._position]

    def number(self, form: struct.Struct) -> int:
        return int(form.unpack(self.take(form.size))[0])

    def shorts(self, count: int) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.take(2 * count), dtype="<u2").astype(np.int64)


def _decode_bucket(reader: _Bytes, high: int, limit: int, found: list[npt.NDArray[np.int64]]) -> int:
    """Append the positions of one bucket, and return their number, which is at most the limit."""
    cookie = reader.number(_NUMBER)
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        containers = (cookie >> 16) + 1
        flags = np.frombuffer(reader.take((containers + 7) // 8), dtype=np.uint8)
        has_runs = np.unpackbits(flags, bitorder="little")[:containers].astype(np.bool_)
    elif cookie == _COOKIE:
        containers = reader.number(_NUMBER)
        if containers > 1 << _CONTAINER_BITS:
            raise ValueError(f"a bucket of {containers} containers")
        has_runs = np.zeros(containers, dtype=np.bool_)
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    heads = reader.shorts(2 * containers).reshape(containers, 2)
    keys, sizes = heads[:, 0], heads[:, 1] + 1
    total = int(sizes.sum())
    if total > limit or bool((np.diff(keys) <= 0).any()):
        raise ValueError("there are more positions than records, or they are not in order")
    if cookie == _COOKIE or containers >= _NO_OFFSETS_BELOW:
        reader.take(_NUMBER.size * containers)
    for key, size, is_runs in zip(keys.tolist(), sizes.tolist(), has_runs.tolist(), strict=True):
        found.append(high + (key << _CONTAINER_BITS) + _decode_container(reader, size, is_runs))
    return total


def _decode_container(reader: _Bytes, size: int, is_runs: bool) -> npt.NDArray[np.int64]:
    if is_runs:
        runs = reader.shorts(2 * int(reader.shorts(1)[0])).reshape(-1, 2)
        starts, lengths = runs[:, 0], runs[:, 1] + 1
        ends = np.cumsum(lengths)
        if (int(ends[-1]) if len(ends) else 0) != size or bool((runs[:-1].sum(axis=1) >= runs[1:, 0]).any()):
            raise ValueError("the runs of positions contradict each other")
        values: npt.NDArray[np.int64] = np.arange(size) + np.repeat(starts - (ends - lengths), lengths)
    elif size <= _MOST_IN_ARRAY:
        values = reader.shorts(size)
    else:
        bits = np.frombuffer(reader.take(_BITMAP_BYTES), dtype=np.uint8)
        values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    if len(values) != size or bool((np.diff(values) <= 0).any()) or (size and int(values[-1]) > 0xFFFF):
        raise ValueError("the positions of a container are not in order")
    return values
