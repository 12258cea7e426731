"""Bloom filters as Hudi stores them in base files.

A filter answers "certainly not" or "maybe" for a record key. ``SIMPLE`` is one bit vector; ``DYNAMIC_V0`` is a list of
vectors of the same size, the rows, that grows with the keys up to a limit. Numbers are big-endian on storage; bit i of
a vector is bit ``i & 7`` (the lowest first) of byte ``i >> 3``::

    header  = int32 -1, int32 hash_count, int8 hash_type (1 murmur, 0 jenkins), int32 bit_count
    vector  = header, ceil(bit_count / 8) bytes
    SIMPLE     = vector
    DYNAMIC_V0 = header, int32 row_capacity, int32 keys in the last row, int32 number of rows, vectors

A header of an old table has no version: its first number is the hash count, and the hash is jenkins.

Hudi: org.apache.hudi.common.bloom.{SimpleBloomFilter, HoodieDynamicBoundedBloomFilter, InternalDynamicBloomFilter}.
Differs: works on many keys at a time. The bits are the same.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.bloom.jenkins_hash import JenkinsBlock
from hoodie.common.bloom.key_blocks import (
    BoolArray,
    IndexArray,
    KeyBlock,
    Keys,
    UInt32Array,
    iter_key_blocks,
    plain_keys,
    utf8_bytes,
)
from hoodie.common.bloom.murmur_hash import MurmurBlock
from hoodie.common.bloom.sparse_bytes import SparseBytes
from hoodie.common.util.arrow_buffers import numbers_of
from hoodie.exception import HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException

DEFAULT_MAX_ENTRIES = 100_000
"""The default of ``hoodie.bloom.index.filter.dynamic.max.entries``, which filters do not store."""
_VERSION = -1
_LARGEST_BIT_COUNT = 2**31 - 1
_MOST_HASHES = 10_000
_WHOLE_BLOCK_PASSES = 2
_FREE_BITS = 0.0001
"""With at most this share of free bits, a vector of 30 positions a key finds 99.7% of all keys: hashing is given up."""
_FEW_BITS = 1 / 64
"""If keys have at most this share of the bits, the others are left alone: small files have large filters, too."""


class _HashType(IntEnum):
    JENKINS = 0
    MURMUR = 1


class _Hasher(Protocol):
    def hash_in_place(self, hashes: UInt32Array) -> None: ...


_HASHERS: dict[_HashType, Callable[[KeyBlock], _Hasher]] = {
    _HashType.JENKINS: JenkinsBlock,
    _HashType.MURMUR: MurmurBlock,
}


class BloomFilter(ABC):
    """A set of record keys. It may answer "maybe" for a key that is not in it, but never "no" for a key that is."""

    type_code: ClassVar[str]
    """Hudi's name of this kind: the value of ``hoodie_bloom_filter_type_code`` in a footer."""
    _text: bytes | None = None
    """The text that the filter was decoded from, until keys are added."""

    @abstractmethod
    def add(self, keys: Keys) -> None:
        """Add keys.

        Args:
            keys: Strings, plain or dictionary-encoded, array or chunked array. Keys that were added before do no harm,
                but count again.

        Raises:
            HoodieKeyException: A key is null or empty; no key was added.
            HoodieSchemaException: Keys are not strings.
        """

    @abstractmethod
    def might_contain(self, keys: Keys) -> BoolArray:
        """Test which keys may have been added.

        Args:
            keys: See `add`.

        Returns:
            For each key, False if it was certainly not added.

        Raises:
            HoodieKeyException: A key is null or empty.
            HoodieSchemaException: Keys are not strings.
        """

    @property
    @abstractmethod
    def stored_bytes(self) -> int:
        """The length of `to_bytes`, computed without creating them."""

    def stored_bytes_with(self, more_keys: int) -> int:
        """The value of `stored_bytes` after the given number of keys is added.

        Args:
            more_keys: The number of keys.
        """
        return self.stored_bytes

    @abstractmethod
    def _parts(self) -> list[bytes | _BitVector]:
        """Headers and the bits of vectors, in the order in which they are stored."""

    def to_bytes(self) -> bytes:
        """The filter as stored, before Base64."""
        return b"".join(part.bits() if isinstance(part, _BitVector) else part for part in self._parts())

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes | memoryview | SparseBytes) -> Self:
        """Decode a stored filter.

        Raises:
            HoodieCorruptedDataException: The bytes are not a filter of this kind.
        """

    def to_base64(self) -> str:
        """The filter as the text in a footer."""
        return self.to_base64_bytes().decode("ascii")

    def to_base64_bytes(self) -> bytes:
        """The bytes of `to_base64`."""
        pieces = [*self.base64_pieces()]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def base64_length(self) -> int:
        """The length of `to_base64_bytes`, computed without creating them."""
        return -(-self.stored_bytes // 3) * 4

    def base64_pieces(self) -> Iterator[bytes]:
        """The bytes of `to_base64` in pieces: a filter of few keys is never held as a whole."""
        # A header of an old table gets longer.
        if self._text is not None and len(self._text) == self.base64_length:
            yield self._text
            return
        parts = [part.few_bits() if isinstance(part, _BitVector) else part for part in self._parts()]
        if None in parts:
            yield base64.b64encode(self.to_bytes())
        else:
            yield from SparseBytes.joined([part for part in parts if part is not None]).base64_pieces()

    @classmethod
    def from_base64(cls, text: str | bytes) -> Self:
        """Decode a filter from a footer.

        Raises:
            HoodieCorruptedDataException: The text is not a filter of this kind.
        """
        try:
            encoded = text.encode("ascii") if isinstance(text, str) else text
            data = SparseBytes.decoded(encoded) or base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise HoodieCorruptedDataException(f"a {cls.type_code} bloom filter is not Base64: {error}") from error
        made = cls.from_bytes(data)
        made._text = encoded
        return made


class SimpleBloomFilter(BloomFilter):
    """One bit vector, which does not grow.

    Args:
        vector: The bits; see `create`.

    Hudi: org.apache.hudi.common.bloom.SimpleBloomFilter.
    """

    type_code = "SIMPLE"

    def __init__(self, vector: _BitVector) -> None:
        self._vector = vector

    @classmethod
    def create(cls, num_entries: int, fpp: float) -> SimpleBloomFilter:
        """An empty filter.

        Args:
            num_entries: The number of keys that it is sized for.
            fpp: The share of false positives when it holds that many keys.
        """
        return cls(_BitVector.empty(num_entries, fpp))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview | SparseBytes) -> SimpleBloomFilter:
        """Decode a stored filter; see `BloomFilter.from_bytes`."""
        reader = _Reader(data, cls.type_code)
        vector = reader.vector()
        reader.expect_end()
        return cls(vector)

    def add(self, keys: Keys) -> None:
        """Add keys; see `BloomFilter.add`."""
        plain = checked_keys(keys)
        self._text = None
        self._vector.add(plain)

    def might_contain(self, keys: Keys) -> BoolArray:
        """See `BloomFilter.might_contain`."""
        return self._vector.might_contain(checked_keys(keys))

    @property
    def stored_bytes(self) -> int:
        """The length of `to_bytes`."""
        return self._vector.stored_bytes

    def _parts(self) -> list[bytes | _BitVector]:
        return [self._vector.header(), self._vector]


class DynamicBloomFilter(BloomFilter):
    """Bit vectors that fill up one after the other.

    Keys go to the last row until it holds ``row_capacity`` of them. Then a new row is added, unless the rows together
    are sized for ``max_entries`` keys or more. From then on keys go to the rows in turn, and false positives grow::

        row_capacity 2, max_entries 4:   1 2 -> row 0;  3 4 -> row 1;  5 -> row 0;  6 -> row 0;  7 -> row 1;  8 -> row 0

    Args:
        rows: At least one vector; see `create`.
        row_capacity: The number of keys that a row is sized for.
        last_row_keys: The number of keys in the last row, including all that were added after the filter was full.
        max_entries: The limit. It is not stored, so it must be given again for a decoded filter.

    Hudi: org.apache.hudi.common.bloom.HoodieDynamicBoundedBloomFilter. Differs: a decoded filter can grow further.
    """

    type_code = "DYNAMIC_V0"

    def __init__(
        self, rows: list[_BitVector], row_capacity: int, last_row_keys: int = 0, max_entries: int = DEFAULT_MAX_ENTRIES
    ) -> None:
        self._rows = rows
        self._row_capacity = row_capacity
        self._last_row_keys = last_row_keys
        self._max_entries = max_entries
        self._next_turn: int | None = None

    @classmethod
    def create(cls, num_entries: int, fpp: float, max_entries: int = DEFAULT_MAX_ENTRIES) -> DynamicBloomFilter:
        """An empty filter.

        Args:
            num_entries: The number of keys that one row is sized for.
            fpp: The share of false positives of a full row.
            max_entries: The number of keys at which the filter stops growing.
        """
        return cls([_BitVector.empty(num_entries, fpp)], num_entries, max_entries=max_entries)

    @classmethod
    def from_bytes(
        cls, data: bytes | memoryview | SparseBytes, max_entries: int = DEFAULT_MAX_ENTRIES
    ) -> DynamicBloomFilter:
        """Decode a stored filter; see `BloomFilter.from_bytes`.

        Args:
            data: The stored bytes.
            max_entries: The number of keys at which the filter stops growing.
        """
        reader = _Reader(data, cls.type_code)
        reader.header()
        row_capacity, last_row_keys, row_count = reader.integer(), reader.integer(), reader.integer()
        reader.check(row_capacity > 0, f"its rows are made for {row_capacity} keys")
        reader.check(last_row_keys >= 0, f"it holds {last_row_keys} keys")
        reader.check(0 < row_count <= len(data), f"it has {row_count} rows")
        rows = [reader.vector() for _ in range(row_count)]
        reader.expect_end()
        return cls(rows, row_capacity, last_row_keys, max_entries)

    @property
    def row_count(self) -> int:
        """The number of vectors."""
        return len(self._rows)

    def add(self, keys: Keys) -> None:
        """Add keys; see `BloomFilter.add`."""
        plain = checked_keys(keys)
        self._text = None
        while len(plain) and self._next_turn is None:
            if self._last_row_keys < self._row_capacity:
                plain = self._add_to_row(-1, plain, self._row_capacity - self._last_row_keys)
            elif len(self._rows) * self._row_capacity < self._max_entries:
                self._rows.append(self._rows[0].empty_like())
                self._last_row_keys = 0
            else:
                plain = self._add_to_row(0, plain, 1)
                self._next_turn = 0
        if len(plain):
            self._add_in_turn(plain)

    def _add_to_row(self, row: int, keys: pa.Array, count: int) -> pa.Array:
        """Add the first keys to a row and return the others."""
        part = keys.slice(0, count)
        self._rows[row].add(part)
        self._last_row_keys += len(part)
        return keys.slice(len(part))

    def _add_in_turn(self, keys: pa.Array) -> None:
        assert self._next_turn is not None
        row_count = len(self._rows)
        for distance in range(min(row_count, len(keys))):
            row = self._rows[(self._next_turn + distance) % row_count]
            if row.is_useless():
                continue
            row.add(keys.take(pa.array(np.arange(distance, len(keys), row_count))) if row_count > 1 else keys)
        self._next_turn += len(keys)
        self._last_row_keys += len(keys)

    def might_contain(self, keys: Keys) -> BoolArray:
        """See `BloomFilter.might_contain`."""
        plain = checked_keys(keys)
        found = self._rows[0].might_contain(plain)
        for row in self._rows[1:]:
            open_keys = np.flatnonzero(~found)
            if not len(open_keys):
                break
            found[open_keys] = row.might_contain(plain.take(numbers_of(open_keys, pa.int64())))
        return found

    @property
    def stored_bytes(self) -> int:
        """The length of `to_bytes`."""
        return len(self._rows[0].header()) + 12 + sum(row.stored_bytes for row in self._rows)

    def stored_bytes_with(self, more_keys: int) -> int:
        """See `BloomFilter.stored_bytes_with`; includes the rows that would be added."""
        unplaced = max(0, more_keys - max(0, self._row_capacity - self._last_row_keys))
        most = max(0, -(-self._max_entries // self._row_capacity) - len(self._rows))
        return self.stored_bytes + min(-(-unplaced // self._row_capacity), most) * self._rows[0].stored_bytes

    def _parts(self) -> list[bytes | _BitVector]:
        counts = struct.pack(">iii", self._row_capacity, self._last_row_keys, len(self._rows))
        rows = (part for row in self._rows for part in (row.header(), row))
        return [self._rows[0].header() + counts, *rows]


def create_bloom_filter(
    filter_type: str, num_entries: int, fpp: float, max_entries: int = DEFAULT_MAX_ENTRIES
) -> BloomFilter:
    """Create an empty filter.

    Args:
        filter_type: ``SIMPLE`` or ``DYNAMIC_V0``.
        num_entries: The number of keys that it, or one of its rows, is sized for.
        fpp: The share of false positives when it holds that many keys.
        max_entries: The number of keys at which a ``DYNAMIC_V0`` filter stops growing.

    Raises:
        HoodieNotSupportedException: The type is another one.
    """
    if filter_type == SimpleBloomFilter.type_code:
        return SimpleBloomFilter.create(num_entries, fpp)
    if filter_type == DynamicBloomFilter.type_code:
        return DynamicBloomFilter.create(num_entries, fpp, max_entries)
    raise _unknown_type(filter_type)


def decode_bloom_filter(filter_type: str | None, text: str | bytes) -> BloomFilter:
    """Decode a filter from a footer.

    Args:
        filter_type: Its type code; None (old tables do not store it) means ``SIMPLE``.
        text: The Base64 text.

    Raises:
        HoodieCorruptedDataException: The filter is damaged.
        HoodieNotSupportedException: The type is another one.
    """
    if filter_type is None or filter_type == SimpleBloomFilter.type_code:
        return SimpleBloomFilter.from_base64(text)
    if filter_type == DynamicBloomFilter.type_code:
        return DynamicBloomFilter.from_base64(text)
    raise _unknown_type(filter_type)


def _unknown_type(filter_type: str) -> HoodieNotSupportedException:
    return HoodieNotSupportedException(
        f"bloom filters of type {filter_type} are not supported; SIMPLE and DYNAMIC_V0 are"
    )


def checked_keys(keys: Keys) -> pa.Array:
    """Keys as one array, in the form that filters take.

    Args:
        keys: Strings, plain or dictionary-encoded, array or chunked array.

    Raises:
        HoodieKeyException: A key is null or empty.
        HoodieSchemaException: Keys are not strings.
    """
    plain = plain_keys(keys)
    if len(plain) and not np.diff(utf8_bytes(plain)[1]).all():
        raise HoodieKeyException("an empty record key cannot be in a bloom filter; leave such rows out or refuse them")
    return plain


class _BitVector:
    """Bits that are set at positions from a chain of hashes: the seed of each hash is the hash before it.

    While few bits are set, only their positions are held: the system would have to find memory for the others, which
    costs more than the few. While many keys are added, or looked up, each bit is a byte: numpy sets bytes much faster
    than bits.

    Args:
        bit_count: The number of bits.
        hash_count: The number of positions of a key.
        hash_type: The hash function.
        bits: The bits as stored; None if none is set.
    """

    def __init__(
        self, bit_count: int, hash_count: int, hash_type: _HashType, bits: memoryview | SparseBytes | None = None
    ) -> None:
        self._bit_count = bit_count
        self._hash_count = hash_count
        self._hash_type = hash_type
        self._few: IndexArray | None = None
        """The positions of all set bits, ascending; None if the bits are in one of the other forms."""
        self._packed: npt.NDArray[np.uint8] | None = None
        self._flags: npt.NDArray[np.uint8] | None = None
        if bits is None:
            self._few = np.empty(0, dtype=np.int64)
        elif isinstance(bits, SparseBytes):
            set_bits = np.unpackbits(bits.values[:, None], axis=1, bitorder="little")
            rows, numbers = np.nonzero(set_bits)
            self._few = (bits.places[rows] << 3) + numbers
        else:
            self._packed = np.frombuffer(bits, dtype=np.uint8)

    @classmethod
    def empty(cls, num_entries: int, fpp: float) -> _BitVector:
        """A vector sized for ``fpp`` false positives with ``num_entries`` keys."""
        bit_count = min(math.ceil(num_entries * (-math.log(fpp) / (math.log(2) * math.log(2)))), _LARGEST_BIT_COUNT)
        return cls(bit_count, math.ceil(math.log(2) * bit_count / num_entries), _HashType.MURMUR)

    def empty_like(self) -> _BitVector:
        """A vector with the same size and hashes, and no keys."""
        return _BitVector(self._bit_count, self._hash_count, self._hash_type)

    @property
    def stored_bytes(self) -> int:
        """The length of the header and the bits."""
        return len(self.header()) + self._byte_count

    def header(self) -> bytes:
        """The stored bytes before the bits."""
        return struct.pack(">iibi", _VERSION, self._hash_count, self._hash_type, self._bit_count)

    def bits(self) -> memoryview:
        """The bits as stored."""
        if self._packed is None:
            self._packed = self._packed_few() if self._flags is None else np.packbits(self._flags, bitorder="little")
        return self._packed.data

    def few_bits(self) -> SparseBytes | None:
        """The bits as stored; None if many are set."""
        return None if self._few is None else SparseBytes(self._byte_count, *_in_bytes(self._few))

    def is_useless(self) -> bool:
        """Whether nearly all keys are found: it has many more of them than it is made for. All bits are set then."""
        if self._flags is None:
            return False
        free = self._bit_count - int(np.count_nonzero(self._flags))
        if free > _FREE_BITS * self._bit_count:
            return False
        if free:
            self._packed = None
            self._flags[:] = 1
        return True

    def add(self, keys: pa.Array) -> None:
        """Set the bits of keys."""
        if self.is_useless():
            return
        if self._are_few(keys):
            self._add_few(keys)
            return
        flags = self._unpacked()
        self._packed = None
        for block in iter_key_blocks(keys):
            for positions in _Positions(block, self._hash_type, self._bit_count).passes(self._hash_count):
                flags[positions] = 1

    def _add_few(self, keys: pa.Array) -> None:
        """The same, without looking at all other bits."""
        for block in iter_key_blocks(keys):
            places = _Positions(block, self._hash_type, self._bit_count).of_passes(self._hash_count)
            if self._few is not None and len(self._few) + len(places) <= _FEW_BITS * self._bit_count:
                self._packed = None
                self._few = np.concatenate([self._few, places])
                self._few.sort()
                self._few = self._few[np.diff(self._few, prepend=-1) > 0]
                continue
            packed = self._packed_few() if self._packed is None else self._packed
            self._packed, self._few = packed if packed.flags.writeable else packed.copy(), None
            places.sort()
            in_bytes, values = _in_bytes(places)
            self._packed[in_bytes] |= values

    def _packed_few(self) -> npt.NDArray[np.uint8]:
        """The bits as stored, of which few are set."""
        assert self._few is not None
        packed = np.zeros(self._byte_count, dtype=np.uint8)
        in_bytes, values = _in_bytes(self._few)
        packed[in_bytes] = values
        return packed

    def might_contain(self, keys: pa.Array) -> BoolArray:
        """The keys whose bits are all set."""
        flags = None if self._are_few(keys) else self._unpacked().view(np.bool_)
        found = np.zeros(len(keys), dtype=np.bool_)
        for block in iter_key_blocks(keys):
            found[block.selector] = self._contains_block(flags, block)
        return found

    def _contains_block(self, flags: BoolArray | None, block: KeyBlock) -> BoolArray:
        """Look up one block; most absent keys fail within two passes, so only the others are hashed further.

        Args:
            flags: The bits as bytes; None to look at the others.
            block: The keys.
        """

        def are_set(bits: IndexArray) -> BoolArray:
            if flags is not None:
                return flags[bits]
            if self._packed is None:
                assert self._few is not None
                return _among(bits, self._few)
            last_bits = self._packed[bits >> 3] >> (bits & 7).astype(np.uint8) & 1
            are_ones: BoolArray = last_bits.view(np.bool_)
            return are_ones

        positions = _Positions(block, self._hash_type, self._bit_count)
        first = min(_WHOLE_BLOCK_PASSES, self._hash_count)
        found = np.ones(len(block), dtype=np.bool_)
        for bits in positions.passes(first):
            found &= are_set(bits)
        rest = np.flatnonzero(found)
        if len(rest) and first < self._hash_count:
            remaining, count = positions.select(rest), self._hash_count - first
            if flags is None:
                found[rest] = are_set(remaining.of_passes(count)).reshape(count, -1).all(axis=0)
                return found
            still = np.ones(len(rest), dtype=np.bool_)
            for bits in remaining.passes(count):
                still &= are_set(bits)
            found[rest] = still
        return found

    def _are_few(self, keys: pa.Array) -> bool:
        """Whether it is cheaper to look at the bits of the keys alone than to make all bits bytes."""
        return self._flags is None and len(keys) * self._hash_count <= _FEW_BITS * self._bit_count

    @property
    def _byte_count(self) -> int:
        return (self._bit_count + 7) // 8

    def _unpacked(self) -> npt.NDArray[np.uint8]:
        if self._flags is None:
            if self._packed is None:
                self._flags = np.zeros(self._bit_count, dtype=np.uint8)
                self._flags[self._few] = 1
            else:
                self._flags = np.unpackbits(self._packed, count=self._bit_count, bitorder="little")
            self._few = None
        return self._flags


def _in_bytes(bits: IndexArray) -> tuple[IndexArray, npt.NDArray[np.uint8]]:
    """The places and values of the bytes that hold bits.

    Args:
        bits: The positions of bits, ascending.
    """
    in_bytes = bits >> 3
    firsts = np.flatnonzero(np.diff(in_bytes, prepend=-1))
    if not len(firsts):
        return in_bytes, np.empty(0, dtype=np.uint8)
    return in_bytes[firsts], np.bitwise_or.reduceat((1 << (bits & 7)).astype(np.uint8), firsts)


def _among(numbers: IndexArray, others: IndexArray) -> BoolArray:
    """Whether numbers are among others, which are ascending."""
    if not len(others):
        return np.zeros(len(numbers), dtype=np.bool_)
    found: BoolArray = others.take(np.searchsorted(others, numbers), mode="clip") == numbers
    return found


class _Positions:
    """The bit positions of a block of keys, one pass of the hash at a time."""

    def __init__(
        self, block: KeyBlock, hash_type: _HashType, bit_count: int, hashes: UInt32Array | None = None
    ) -> None:
        self._block = block
        self._hash_type = hash_type
        self._bit_count = bit_count
        self._hashes = np.zeros(len(block), dtype=np.uint32) if hashes is None else hashes

    def select(self, chosen: IndexArray) -> _Positions:
        """The positions of the chosen keys, continuing after the passes so far."""
        return _Positions(self._block.select(chosen), self._hash_type, self._bit_count, self._hashes[chosen])

    def passes(self, count: int) -> Iterator[IndexArray]:
        """Yield ``count`` times an int64 array (reused) with one position per key."""
        hasher = _HASHERS[self._hash_type](self._block)
        hashes, bit_count = self._hashes, np.uint32(self._bit_count)
        remainder, quotient = np.empty_like(hashes), np.empty_like(hashes)
        positions = np.empty(len(hashes), dtype=np.int64)
        for _ in range(count):
            hasher.hash_in_place(hashes)
            # Java's abs(hash % bit_count) of a signed hash is the remainder of its absolute value; that of -2**31 fits,
            # because the array is read as unsigned again.
            np.absolute(hashes.view(np.int32), out=remainder.view(np.int32))
            np.floor_divide(remainder, bit_count, out=quotient)
            np.multiply(quotient, bit_count, out=quotient)
            np.subtract(remainder, quotient, out=positions, casting="unsafe")
            yield positions

    def of_passes(self, count: int) -> IndexArray:
        """The positions of so many passes together: fewer calls, for few keys."""
        hasher = _HASHERS[self._hash_type](self._block)
        hashes = np.empty((count, len(self._hashes)), dtype=np.uint32)
        for row in hashes:
            hasher.hash_in_place(self._hashes)
            row[:] = self._hashes
        absolute = np.absolute(hashes.view(np.int32)).view(np.uint32).ravel()
        return (absolute % np.uint32(self._bit_count)).astype(np.int64)


class _Reader:
    """Decodes stored vectors; every problem is a HoodieCorruptedDataException."""

    def __init__(self, data: bytes | memoryview | SparseBytes, type_code: str) -> None:
        self._data = data if isinstance(data, SparseBytes) else memoryview(data)
        self._offset = 0
        self._type_code = type_code

    def check(self, condition: bool, problem: str) -> None:
        if not condition:
            raise HoodieCorruptedDataException(
                f"a {self._type_code} bloom filter of {len(self._data)} bytes is damaged: {problem}"
            )

    def bytes(self, count: int) -> memoryview | SparseBytes:
        self.check(count <= len(self._data) - self._offset, "it ends too early")
        start, self._offset = self._offset, self._offset + count
        if isinstance(self._data, SparseBytes):
            return self._data.part(start, count)
        return self._data[start : self._offset]

    def integer(self, length: int = 4) -> int:
        found = self.bytes(length)
        content = found.to_bytes() if isinstance(found, SparseBytes) else found
        return int.from_bytes(content, "big", signed=True)

    def header(self) -> tuple[int, int, _HashType]:
        """Bit count, hash count, hash."""
        version = self.integer()
        hash_type = int(_HashType.JENKINS)
        hash_count = version
        if version <= 0:
            self.check(version == _VERSION, f"version {version} is unknown")
            hash_count = self.integer()
            hash_type = self.integer(1)
        bit_count = self.integer()
        self.check(0 < hash_count <= _MOST_HASHES, f"it has {hash_count} hashes per key")
        self.check(hash_type in set(_HashType), f"hash type {hash_type} is unknown")
        self.check(bit_count > 0, f"a row has {bit_count} bits")
        return bit_count, hash_count, _HashType(hash_type)

    def vector(self) -> _BitVector:
        bit_count, hash_count, hash_type = self.header()
        return _BitVector(bit_count, hash_count, hash_type, self.bytes((bit_count + 7) // 8))

    def expect_end(self) -> None:
        self.check(self._offset == len(self._data), f"{len(self._data) - self._offset} bytes follow its end")
