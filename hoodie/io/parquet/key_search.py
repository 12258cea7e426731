"""Look-up of keys in stored columns of strings, by the bytes of their pages where that is possible.

Few stored keys are among the wanted ones. A short hash of its bytes gives each key a place in a table of booleans. A
stored key whose place no wanted key has is not among them. The other stored keys, the candidates, are compared as
strings. So most of the time goes into decompression, and most stored keys never become strings.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.common.bloom.key_blocks import quick_hashes, utf8_bytes
from hoodie.common.util.arrow_buffers import (
    booleans_of,
    flags_in,
    indices_of,
    numbers_in,
    numbers_of,
    rows_of,
    scalar_of,
)
from hoodie.io.parquet.plain_pages import LENGTH_BYTES, OtherPageForm, StoredValues, iter_plain_pages

FoundRows: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Pairs, in the order of the rows: index into the keys that were looked up, and row. A key may have several rows."""

_LENGTHS = range(4, 257)
"""The lengths in bytes of keys that are searched in pages. With its length, such a key has one word at least."""
_MANY_KEYS = 1 << 12
"""So many keys of one length are found by comparing bytes; for fewer, Arrow is as fast."""
_FEW_ROWS = 1000
"""A row group with fewer rows is not searched in pages, since pyarrow is faster at many small ones."""
_WORD_BYTES = 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_PLACES_PER_KEY = 16
_PLACE_BITS = range(12, 25)
_SEVERAL = -1
"""Stands for the number of a key at a place that several keys have."""
_MAX_STATISTICS_BYTES = 4096
"""Statistics hold no longer values."""


def find_keys(stored: pa.Array | pa.ChunkedArray, keys: pa.Array) -> FoundRows:
    """The rows whose key is among the given keys.

    Args:
        stored: The keys of the rows (string).
        keys: Distinct keys (string).
    """
    if len(keys) >= _MANY_KEYS and len(stored) >= _MANY_KEYS:
        chunks = [part for part in (stored.chunks if isinstance(stored, pa.ChunkedArray) else [stored]) if len(part)]
        length = _length_of_all(keys)
        if length is not None and all(_length_of_all(part) == length for part in chunks):
            return _find_by_bytes(chunks, keys, length)
    return _found_by_arrow(stored, keys)


def _found_by_arrow(stored: pa.Array | pa.ChunkedArray, keys: pa.Array) -> FoundRows:
    found = pc.index_in(stored, value_set=keys)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    rows = np.flatnonzero(flags_in(found.is_valid()))
    return numbers_in(found.drop_null(), np.int32), rows.astype(np.int64)


def _find_by_bytes(stored: list[pa.Array], keys: pa.Array, length: int) -> FoundRows:
    """See `find_keys`; all keys have one length in bytes."""
    bits = _bits_for(len(keys))
    places_of_keys = _places(utf8_bytes(keys)[0].reshape(-1, length), bits)
    by_place = _KeysByPlace(keys, places_of_keys, bits)
    is_taken = np.zeros(1 << bits, dtype=np.bool_)
    is_taken[places_of_keys] = True
    found, first_row = [], 0
    for part in stored:
        values = utf8_bytes(part)[0].reshape(-1, length)
        places = _places(values, bits)
        rows = np.flatnonzero(is_taken.take(places))
        if len(rows) < len(values):
            values, places = values[rows], places[rows]
        entries, is_equal = by_place.match(values, places)
        found.append((entries[is_equal], rows[is_equal] + first_row))
        first_row += len(part)
    return np.concatenate([entries for entries, _ in found]), np.concatenate([rows for _, rows in found])


class KeySearch:
    """A search for keys in the pages of row groups.

    Memory: the keys, and those stored keys that may be among them.

    Args:
        keys: Distinct keys (string).
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._by_length: dict[int, _KeysOfLength] = {}

    def read(self, stream: pa.NativeFile, chunk: pq.ColumnChunkMetaData, is_nullable: bool, first_row: int) -> bool:
        """Search the column chunk of a row group.

        Args:
            stream: The file.
            chunk: The column chunk, of strings.
            is_nullable: Whether the column may hold nulls.
            first_row: The number of the row group's first row.

        Returns:
            False if its pages have another form. Then `found` has no rows of this row group.

        Raises:
            OSError: Storage failed.
        """
        length = only_length(chunk)
        if length not in _LENGTHS or chunk.num_values < _FEW_ROWS or self._keys.type != pa.string():
            return False
        wanted = self._by_length.get(length)
        if wanted is None:
            wanted = self._by_length[length] = _KeysOfLength(self._keys, length)
        candidates = []
        try:
            for values in iter_plain_pages(stream, chunk, length, is_nullable):
                candidates.append(wanted.candidates(values, first_row))
                first_row += len(values)
        except OtherPageForm:
            return False
        wanted.add(candidates)
        return True

    def found(self) -> FoundRows:
        """The rows with one of the keys, in all row groups that were searched."""
        return merged_rows([wanted.found() for wanted in self._by_length.values()])


def merged_rows(parts: list[FoundRows]) -> FoundRows:
    """The pairs of all parts, in the order of the rows.

    Args:
        parts: Each in the order of the rows.
    """
    if len(parts) == 1:
        return parts[0]
    entries = np.concatenate([np.zeros(0, dtype=np.int32), *(entries for entries, _ in parts)])
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(rows for _, rows in parts)])
    order = np.argsort(rows, kind="stable")
    return entries[order], rows[order]


class KeyMatcher:
    """A search for keys in stored keys that come in batches. The work for a batch depends only on the size of
    the batch.

    Memory: the keys, and up to 16 bytes for each.

    Args:
        keys: Distinct keys (string).
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._bits = _bits_for(len(keys))
        self._by_length: dict[int | None, tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]] = {}

    def find(self, stored: pa.Array) -> FoundRows:
        """The rows of a batch whose key is among the keys.

        Args:
            stored: The keys of the rows (string).
        """
        if not len(stored) or not len(self._keys) or stored.null_count or stored.type != pa.string():
            return find_keys(stored, self._keys)
        length = _length_of_all(stored)
        if length not in self._by_length:
            of_keys = _places_of(self._keys, length, self._bits)
            is_taken = np.zeros(1 << self._bits, dtype=np.bool_)
            is_taken[of_keys[of_keys >= 0]] = True
            self._by_length[length] = of_keys, is_taken
        of_keys, is_taken = self._by_length[length]
        places = _places_of(stored, length, self._bits)
        rows = np.flatnonzero(is_taken.take(places))
        if not len(rows):
            return np.zeros(0, dtype=np.int32), rows
        is_met = np.zeros(1 << self._bits, dtype=np.bool_)
        is_met[places[rows]] = True
        chosen_keys = np.flatnonzero((of_keys >= 0) & is_met.take(of_keys))
        entries, found = find_keys(stored.take(indices_of(rows)), self._keys.take(indices_of(chosen_keys)))
        return chosen_keys[entries].astype(np.int32), rows[found]


def _length_of_all(keys: pa.Array) -> int | None:
    """The length of all keys in bytes; None if there are several, or nulls, or it is too short or too long."""
    if keys.null_count or keys.type != pa.string():
        return None
    _, offsets = utf8_bytes(keys)
    lengths = np.diff(offsets)
    is_one = lengths[0] in _LENGTHS and lengths[0] >= _WORD_BYTES and bool((lengths == lengths[0]).all())
    return int(lengths[0]) if is_one else None


def _places_of(keys: pa.Array, length: int | None, bits: int) -> npt.NDArray[np.int64]:
    """A hash of each key with the given number of bits; -1 for keys of another length, if a length is given."""
    if length is None:
        # The last bytes of a key change only the low bits of its hash.
        return ((quick_hashes(keys) * _FACTOR) >> np.uint64(64 - bits)).view(np.int64)
    data, offsets = utf8_bytes(keys)
    is_so_long = np.diff(offsets) == length
    if is_so_long.all():
        return _places(data.reshape(len(keys), length), bits)
    places = np.full(len(keys), -1, dtype=np.int64)
    if is_so_long.any():
        data, _ = utf8_bytes(keys.filter(booleans_of(is_so_long)))
        places[is_so_long] = _places(data.reshape(-1, length), bits)
    return places


def _bits_for(count: int) -> int:
    """The number of bits that mostly tell this many keys apart."""
    bits = (_PLACES_PER_KEY * count - 1).bit_length() if count else 0
    return min(max(bits, _PLACE_BITS.start), _PLACE_BITS.stop - 1)


class _Candidates:
    """The stored keys of a page that may be among the wanted ones.

    Args:
        rows: Their rows.
        places: Their places.
        values: Their bytes, one row each.
    """

    def __init__(self, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], values: StoredValues) -> None:
        self.rows = rows
        self.places = places
        self.values = values


class _KeysOfLength:
    """The wanted keys of one length in bytes, and the candidates for them.

    Args:
        keys: Distinct keys (string), of any length.
        length: The length.
    """

    def __init__(self, keys: pa.Array, length: int) -> None:
        is_so_long = flags_in(pc.equal(pc.binary_length(keys), scalar_of(length).cast(pa.int32())))
        self._entries = np.flatnonzero(is_so_long).astype(np.int32)
        self._keys = keys if len(self._entries) == len(keys) else keys.take(numbers_of(self._entries, pa.int32()))
        count = len(self._keys)
        self._bits = _bits_for(count)
        self._is_taken = np.zeros(1 << self._bits, dtype=np.bool_)
        self._candidates: list[_Candidates] = []
        stored = np.empty((count, LENGTH_BYTES + length), dtype=np.uint8)
        stored[:, :LENGTH_BYTES] = np.frombuffer(length.to_bytes(LENGTH_BYTES, "little"), dtype=np.uint8)
        if count:
            stored[:, LENGTH_BYTES:] = utf8_bytes(self._keys)[0].reshape(count, length)
        self._places = _places(stored, self._bits)
        self._is_taken[self._places] = True
        # One key is compared, which takes less than hashes of all values.
        self._only = stored if count == 1 else None

    def candidates(self, values: StoredValues, first_row: int) -> _Candidates:
        """The values of a page that may be among the keys.

        Args:
            values: Values of this length.
            first_row: The row of the first value.
        """
        if self._only is not None:
            rows = _equal_rows(values, self._only)
            places = np.full(len(rows), self._places[0])
        else:
            hashes = _places(values, self._bits)
            rows = np.flatnonzero(self._is_taken.take(hashes))
            places = hashes[rows]
        return _Candidates(rows + first_row, places, np.ascontiguousarray(values[rows, LENGTH_BYTES:]))

    def add(self, candidates: list[_Candidates]) -> None:
        """Add candidates, in the order of the rows."""
        self._candidates += [part for part in candidates if len(part.rows)]

    def found(self) -> FoundRows:
        """Compare the candidates with the keys of their places."""
        found = [(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64))]
        if self._candidates:
            by_place = _KeysByPlace(self._keys, self._places, self._bits)
            for part in self._candidates:
                entries, is_equal = by_place.match(part.values, part.places)
                found.append((self._entries[entries[is_equal]], part.rows[is_equal]))
        return np.concatenate([numbers for numbers, _ in found]), np.concatenate([rows for _, rows in found])


class _KeysByPlace:
    """Keys of one length, to be compared with values of the same places.

    Most places have one key, so that one comparison of bytes decides. Values of other places are looked up as strings.

    Args:
        keys: Distinct keys (string).
        places: Their places.
        bits: The bits of a place.
    """

    def __init__(self, keys: pa.Array, places: npt.NDArray[np.int64], bits: int) -> None:
        self._bytes = utf8_bytes(keys)[0].reshape(len(keys), -1)
        numbers = np.arange(len(keys), dtype=np.int32)
        self._key_at = np.empty(1 << bits, dtype=np.int32)
        self._key_at[places] = numbers
        self._key_at[places[self._key_at.take(places) != numbers]] = _SEVERAL
        self._rivals = np.flatnonzero(self._key_at.take(places) == _SEVERAL)
        self._rival_keys = keys.take(numbers_of(self._rivals, pa.int64()))

    def match(
        self, values: StoredValues, places: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """The number of a key for each value, and whether they are equal; the number has no meaning otherwise.

        Args:
            values: Their bytes, one row each.
            places: Their places, each of which a key has.
        """
        entries = self._key_at.take(places)
        is_equal = _are_equal(values, self._bytes, entries)
        unclear = np.flatnonzero(entries == _SEVERAL)
        if len(unclear):
            chosen, found = _found_by_arrow(rows_of(values[unclear], pa.string()), self._rival_keys)
            is_equal[unclear] = False
            is_equal[unclear[found]] = True
            entries[unclear[found]] = self._rivals[chosen]
        return entries, is_equal


def _are_equal(values: StoredValues, keys: StoredValues, entries: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Whether each value equals the key with the number that it is given."""
    if values.shape[1] < _WORD_BYTES:
        same: npt.NDArray[np.bool_] = (values == keys[entries]).all(axis=1)
        return same
    first, *others = _word_starts(values.shape[1])
    same = _words(values, first) == _words(keys, first)[entries]
    for start in others:
        same &= _words(values, start) == _words(keys, start)[entries]
    return same


def _equal_rows(values: StoredValues, wanted: StoredValues) -> npt.NDArray[np.int64]:
    """The rows that are equal to the one that is wanted. Ends of keys differ most, so they are compared first."""
    *others, last = _word_starts(values.shape[1])
    rows = np.flatnonzero(_words(values, last) == _words(wanted, last)[0])
    for start in others:
        rows = rows[_words(values[rows], start) == _words(wanted, start)[0]]
    return rows


def _word_starts(width: int) -> tuple[int, ...]:
    return (*range(0, width - _WORD_BYTES, _WORD_BYTES), width - _WORD_BYTES)


def _words(values: StoredValues, start: int) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = values[:, start : start + _WORD_BYTES].view("<u8")[:, 0]
    return words


def _places(values: StoredValues, bits: int) -> npt.NDArray[np.int64]:
    """A hash of each value with the given number of bits: a polynomial of its words, the last of which may overlap."""
    hashes = np.zeros(len(values), dtype=np.uint64)
    for start in _word_starts(values.shape[1]):
        hashes += _words(values, start)
        hashes *= _FACTOR
    hashes >>= np.uint64(64 - bits)
    return hashes.view(np.int64)


def known_range(chunk: pq.ColumnChunkMetaData, column_type: str) -> tuple[bytes, bytes] | tuple[None, None]:
    """The smallest and the largest value of a column chunk, from its statistics.

    The type is compared first: if a damaged footer gives a chunk another type than its column, pyarrow ends the process
    when it is asked for the statistics.

    Args:
        chunk: The column chunk.
        column_type: Parquet's physical type of the column.
    """
    statistics = chunk.statistics if chunk.physical_type == column_type else None
    if statistics is None or not statistics.has_min_max:
        return None, None
    low, high = statistics.min_raw, statistics.max_raw
    if high == b"" and chunk.total_uncompressed_size > _MAX_STATISTICS_BYTES:
        # Writers leave out values that are too long, and old releases of pyarrow read that as an empty value.
        return None, None
    return low, high


def is_searchable(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether `KeySearch.read` searches a column chunk of strings, as far as metadata tells.

    Args:
        chunk: The column chunk.
    """
    return not chunk.has_dictionary_page and chunk.num_values >= _FEW_ROWS and only_length(chunk) in _LENGTHS


def only_length(chunk: pq.ColumnChunkMetaData) -> int:
    """The length of all values in bytes, if the statistics show one; -1 if they are missing or show two lengths."""
    low, high = known_range(chunk, "BYTE_ARRAY")
    return len(low) if low is not None and high is not None and len(low) == len(high) else -1
