"""Bytes of which few are not zero, and their Base64 text, in time and memory of those that are not."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt

_UNIT_BYTES, _UNIT_DIGITS = 24, 32
"""Base64 is made and read in units of whole words on both sides."""
_PIECE_UNITS = 2048
"""Units of a piece of text: 64 KiB, which allocators keep. More memory is asked of the system, page by page."""
_ZEROS = np.frombuffer(b"AAAAAAAA", dtype=np.uint64)[0]
_FEW_UNITS = 1 / 8
"""The largest share of units that are not zero in what `decoded` takes."""

Places = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class SparseBytes:
    """Bytes of which few are not zero.

    Attributes:
        length: The number of bytes.
        places: Ascending places in them; all others are zero.
        values: The bytes at these places.
    """

    length: int
    places: Places
    values: npt.NDArray[np.uint8]

    @classmethod
    def joined(cls, parts: Sequence[SparseBytes | bytes]) -> SparseBytes:
        """Some bytes, one part behind the other.

        Args:
            parts: The parts.
        """
        length = 0
        places, values = [], []
        for part in parts:
            if isinstance(part, bytes):
                part = cls(len(part), np.arange(len(part)), np.frombuffer(part, dtype=np.uint8))
            places.append(part.places + length)
            values.append(part.values)
            length += part.length
        return cls(length, np.concatenate(places), np.concatenate(values))

    @classmethod
    def decoded(cls, text: bytes) -> SparseBytes | None:
        """The bytes of a Base64 text; None if many are not zero.

        Args:
            text: The text.

        Raises:
            ValueError: It is not Base64.
        """
        # The last digits may be padding.
        count = max(0, len(text) - 4) // _UNIT_DIGITS
        end = count * _UNIT_DIGITS
        words = np.frombuffer(text, dtype=np.uint64, count=end // 8)
        units = _distinct(np.flatnonzero(words != _ZEROS) // (_UNIT_DIGITS // 8))
        if len(units) > _FEW_UNITS * count:
            return None
        digits = np.frombuffer(text, dtype=np.uint8, count=end).reshape(-1, _UNIT_DIGITS)[units]
        found = base64.b64decode(digits.tobytes(), validate=True)
        if len(found) != len(units) * _UNIT_BYTES:
            raise ValueError("there is padding within the text")
        rest = base64.b64decode(text[end:], validate=True)
        values = np.frombuffer(found + rest, dtype=np.uint8)
        places = (units[:, None] * _UNIT_BYTES + np.arange(_UNIT_BYTES)).ravel()
        places = np.concatenate([places, count * _UNIT_BYTES + np.arange(len(rest))])
        present = np.flatnonzero(values)
        return cls(count * _UNIT_BYTES + len(rest), places[present], values[present])

    def __len__(self) -> int:
        """The number of bytes."""
        return self.length

    def part(self, start: int, length: int) -> SparseBytes:
        """Some of the bytes.

        Args:
            start: The place of the first.
            length: Their number.
        """
        low, high = np.searchsorted(self.places, (start, start + length))
        return SparseBytes(length, self.places[low:high] - start, self.values[low:high])

    def to_bytes(self) -> bytes:
        """All of the bytes."""
        data = np.zeros(self.length, dtype=np.uint8)
        data[self.places] = self.values
        return data.tobytes()

    def base64_pieces(self) -> Iterator[bytes]:
        """The Base64 text in pieces."""
        count = self.length // _UNIT_BYTES
        whole = int(np.searchsorted(self.places, count * _UNIT_BYTES))
        places = self.places[:whole]
        is_first = np.diff(places // _UNIT_BYTES, prepend=-1) > 0
        units = places[is_first] // _UNIT_BYTES
        content = np.zeros((len(units), _UNIT_BYTES), dtype=np.uint8)
        content[np.cumsum(is_first) - 1, places % _UNIT_BYTES] = self.values[:whole]
        digits = np.frombuffer(base64.b64encode(content.tobytes()), dtype=np.uint8).reshape(-1, _UNIT_DIGITS)
        starts = range(0, count, _PIECE_UNITS)
        bounds = np.searchsorted(units, [*starts, count]).tolist()
        for start, low, high in zip(starts, bounds, bounds[1:], strict=False):
            piece = np.full((min(_PIECE_UNITS, count - start), _UNIT_DIGITS), ord("A"), dtype=np.uint8)
            piece[units[low:high] - start] = digits[low:high]
            yield piece.tobytes()
        yield base64.b64encode(self.part(count * _UNIT_BYTES, self.length % _UNIT_BYTES).to_bytes())


def _distinct(numbers: Places) -> Places:
    """Ascending numbers without repetitions."""
    return numbers[np.diff(numbers, prepend=-1) > 0]
