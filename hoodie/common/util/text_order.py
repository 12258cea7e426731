"""The order of many texts by their bytes, found by numbers of eight bytes: quicker than comparing texts one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import numbers_in, numbers_of

Longs = npt.NDArray[np.int64]

_WORD_BYTES = 8
_FEW_TEXTS = 1 << 12
"""So many texts are sorted by Arrow: a few calls of numpy take longer."""
_MOST_TIED = 0.25
"""If a larger share of the texts have their eight bytes in common with another one, Arrow sorts them all."""


def sorted_places(texts: pa.Array) -> pa.Array | None:
    """The places of texts in the order of their bytes, equal ones in the order given; None if they are sorted.

    Texts are sorted by the eight bytes after their common beginning. Only texts that agree in these bytes are then
    compared as a whole.

    Args:
        texts: Strings or binary, without nulls.

    Returns:
        uint64.
    """
    if len(texts) < 2 or pc.all(pc.less_equal(texts[:-1], texts[1:])).as_py():
        return None
    has_short_offsets = pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)
    if len(texts) <= _FEW_TEXTS or not has_short_offsets:
        return pc.array_sort_indices(texts)
    least, most = (value.as_buffer() for value in pc.min_max(texts).values())
    words = _words_of(texts, shared_bytes(memoryview(least), memoryview(most)))
    order = np.argsort(words)
    ordered = words[order]
    is_same = ordered[1:] == ordered[:-1]
    if is_same.any():
        tied = np.flatnonzero(np.append(is_same, False) | np.append(False, is_same))
        if len(tied) > _MOST_TIED * len(texts):
            return pc.array_sort_indices(texts)
        # Words ascend, so the tied texts in their order fill their places run by run.
        places = np.sort(order[tied])
        among = pc.array_sort_indices(texts.take(numbers_of(places, pa.int64())))
        order[tied] = places[numbers_in(among, np.uint64)]
    return numbers_of(order, pa.uint64())


def shared_bytes(first: bytes | memoryview, last: bytes | memoryview) -> int:
    """The number of bytes with which two texts begin both; of the least and the last of many texts, all of them do.

    Args:
        first: A text.
        last: Another text.
    """
    least = min(len(first), len(last))
    return next((place for place in range(least) if first[place] != last[place]), least)


def words_behind(content: bytes | memoryview, begins: Longs, ends: Longs, shared: int) -> npt.NDArray[np.uint64]:
    """Eight bytes of each text, after its first bytes, as a number; short texts are padded with zeros.

    Args:
        content: The bytes with the texts.
        begins: The offset of each text.
        ends: The offset after each text.
        shared: The number of bytes of each text that are skipped.
    """
    places = begins + shared
    if len(content) >= _WORD_BYTES and not len(places):
        return np.empty(0, np.uint64)
    if len(content) >= _WORD_BYTES and int((ends - places).min()) >= _WORD_BYTES:
        return words_at(content)[places].astype(np.uint64)
    if len(content) < _WORD_BYTES:
        content = bytes(content) + bytes(_WORD_BYTES)
    start = np.minimum(places, len(content) - _WORD_BYTES)
    words: npt.NDArray[np.uint64] = words_at(content)[start].astype(np.uint64)
    # Shift out the bytes before the place, at the end of the content; then mask the bytes after the text.
    words <<= (8 * np.minimum(places - start, _WORD_BYTES - 1)).astype(np.uint64)
    padding_bytes = (_WORD_BYTES - np.clip(ends - places, 0, _WORD_BYTES)).astype(np.uint64)
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    return np.where(
        padding_bytes == _WORD_BYTES, np.uint64(0), words & (ones << (np.uint64(8) * (padding_bytes % np.uint64(8))))
    )


def words_at(content: bytes | memoryview) -> npt.NDArray[np.uint64]:
    """The big endian numbers of 64 bits that begin at each byte.

    Args:
        content: At least eight bytes.
    """
    return np.ndarray((len(content) - 7,), ">u8", content, strides=(1,))


def _words_of(texts: pa.Array, shared: int) -> npt.NDArray[np.uint64]:
    """See `words_behind`."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return words_behind(memoryview(data), bounds[:-1], bounds[1:], shared)
