"""Cursors that move through many encoded Avro values at once.

Hostile bytes are flagged, and never stop the other records. A cursor whose value is damaged moves to zeros behind the
content, which are a value of every type: no length, no item, the first branch. So code that reads needs no second path
for damaged records. Every access is bounded by the content.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.util.arrow_buffers import spans_of

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

_PADDING = 24
_FAR_END = 1 << 62
_STOP_BITS = np.uint64(0x8080808080808080)
_DIGIT_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_BYTE_PLACES = np.uint64(0x0001020304050607)
"""Multiplied by 2 to the power of 8k, its highest byte is k."""
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Each step joins pairs of groups of 7, 14 and 28 bits."""
_ONE, _SEVEN, _56, _63 = np.uint64(1), np.uint64(7), np.uint64(56), np.uint64(63)


class Content:
    """The bytes of records, followed by zeros, and the flags of bad records.

    Args:
        data: The bytes.
        count: The number of records.
    """

    def __init__(self, data: Bytes, count: int) -> None:
        self.size = len(data)
        self.bytes: Bytes = np.empty(self.size + _PADDING, np.uint8)
        self.bytes[: self.size] = data
        self.bytes[self.size :] = 0
        self.words: npt.NDArray[np.uint64] = np.ndarray(
            (self.size + _PADDING - 7,), np.dtype("<u8"), self.bytes.data, strides=(1,)
        )
        self.last_word = len(self.words) - 1
        self.buffer = pa.py_buffer(self.bytes)
        self.reasons: dict[str, int] = {}
        self.reason_of = np.full(count, -1, np.int32)
        self.is_torn = False
        """Whether a cursor left its record: later values are checked, but make no column."""

    def flag(self, records: Longs, reason: str) -> None:
        """Call records bad, unless they are already."""
        new = records[self.reason_of[records] < 0]
        if len(new):
            self.reason_of[new] = self.reasons.setdefault(reason, len(self.reasons))


class Cursors:
    """Places in a content, one for each value; they ascend.

    Args:
        content: The bytes.
        positions: The next byte of each value; becomes the cursors' own.
        ends: The end of the record that holds the value; becomes the cursors' own.
        records: The number of that record.
    """

    __slots__ = ("content", "ends", "positions", "records")

    def __init__(self, content: Content, positions: Longs, ends: Longs, records: Longs) -> None:
        self.content = content
        self.positions = positions
        self.ends = ends
        self.records = records

    def __len__(self) -> int:
        return len(self.positions)

    def fail(self, bad: Flags, path: str, reason: str) -> None:
        """Mark the records of bad values, and move their cursors to the end of the content."""
        over = bad & (self.positions > self.ends)
        self.content.flag(self.records[over], f"field {path!r}: the record is cut short")
        self.content.flag(self.records[bad], f"field {path!r}: {reason}")
        self.positions[bad] = self.content.size
        self.ends[bad] = _FAR_END
        self.content.is_torn = True

    def at(self, places: Longs) -> Cursors:
        """Copies of the cursors at the given places, which move independently."""
        return Cursors(self.content, self.positions.take(places), self.ends.take(places), self.records.take(places))

    def put(self, places: Longs, moved: Cursors) -> None:
        """Take over the positions of moved copies of cursors."""
        self.positions[places] = moved.positions
        self.ends[places] = moved.ends

    def byte(self) -> Bytes:
        """The next byte of each value; steps over it."""
        found = self.content.bytes.take(self.positions, mode="clip")
        self.positions = self.positions + 1
        return found

    def word(self, size: int) -> npt.NDArray[np.uint64]:
        """The next eight bytes of each value, little endian; steps over as many as asked for."""
        found = self.content.words[np.minimum(self.positions, self.content.last_word)]
        self.positions = self.positions + size
        return found

    def number(self, path: str) -> Longs:
        """The next integer of each value."""
        first = self.content.bytes.take(self.positions, mode="clip")
        if (first > 0x7F).any():
            raw = self._long_number(path)
            return (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64)
        self.positions = self.positions + 1
        small = first.astype(np.int64)
        return (small >> 1) ^ -(small & 1)

    def _long_number(self, path: str) -> npt.NDArray[np.uint64]:
        start = self.positions
        raw = self.word(0)
        stops = ~raw & _STOP_BITS
        last = stops & (~stops + _ONE)
        lengths = ((((last >> _SEVEN) * _BYTE_PLACES) >> _56) + _ONE).view(np.int64)
        raw &= ((last << _ONE) - _ONE) & _DIGIT_BITS
        for low, high, shift in _FOLDS:
            raw = (raw & low) | ((raw & high) >> shift)
        bad = None
        if not last.all():
            places = np.flatnonzero(last == 0)
            ninth, tenth = (
                self.content.bytes.take(start[places] + more, mode="clip").astype(np.uint64) for more in (8, 9)
            )
            has_tenth = ninth > 0x7F
            raw[places] |= ((ninth & np.uint64(0x7F)) << _56) | np.where(has_tenth, tenth, np.uint64(0)) << _63
            lengths[places] = 9 + has_tenth
            bad = places[has_tenth & (tenth > 1)]
        self.positions = start + lengths
        if bad is not None and len(bad):
            raw[bad] = 0
            self.fail(self._flags(bad), path, "a number takes more than 64 bits")
        return raw

    def _flags(self, places: Longs) -> Flags:
        flags = np.zeros(len(self), np.bool_)
        flags[places] = True
        return flags

    def choice(self, count: int, path: str, what: str) -> npt.NDArray[np.integer]:
        """The next number of a branch or symbol of each value.

        Args:
            count: The number of choices.
            path: The field, for messages.
            what: The kind of choice, for messages.
        """
        first = self.content.bytes.take(self.positions, mode="clip")
        if (first > 0x7F).any():
            found = self.number(path)
        else:
            self.positions = self.positions + 1
            if count == 2 and not (first & 0xFD).any():
                return first >> 1
            small = first.astype(np.int64)
            found = (small >> 1) ^ -(small & 1)
        bad = (found < 0) | (found >= count)
        if bad.any():
            self.fail(bad, path, f"there is no {what} of that number")
            found[bad] = 0
        return found

    def lengths(self, path: str) -> Longs:
        """The next integer of each value as the length of the bytes after it, which are within the record."""
        found = self.number(path)
        bad = (found < 0) | (found > self.ends - self.positions)
        if bad.any():
            self.fail(bad, path, "a length is negative, or greater than what is left of the record")
            found[bad] = 0
        return found

    def spans(self, lengths: Longs, is_wanted: bool) -> pa.BinaryArray | None:
        """The next bytes of each value; the cursors move past them.

        Args:
            lengths: The number of bytes of each value; they are within the records.
            is_wanted: Whether to return them.
        """
        start = self.positions
        self.positions = start + lengths
        if not is_wanted or self.content.is_torn:
            return None
        return spans_of(self.content.buffer, start, self.positions)
