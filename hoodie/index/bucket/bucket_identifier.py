"""The bucket of a record key, and the file ids of buckets.

A bucket is a number below the number of buckets; each partition has one file group for each bucket that has records.
The number is made of the values of the hash fields in the record key::

    region=north, key "trip-7"           hash of ["trip-7"]
    key "day:2024-01-02,id:7", all fields  hash of ["2024-01-02", "7"]
    the same, hash field id                hash of ["7"]

Hudi's releases take a few keys apart in different ways; see `BucketKeyRule`.

Hudi: org.apache.hudi.index.bucket.BucketIdentifier, and KeyGenUtils.extractRecordKeysByFields.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Sequence
from itertools import count

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.java_hash import Utf8Chunk, contain_ascii, hash_strings, utf8_chunks
from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieKeyException

NULL_VALUE = "__null__"
EMPTY_VALUE = "__empty__"
HASH_MASK = 0x7FFFFFFF
DIGITS = 8
"""Digits of a bucket's number at the start of a file id."""
FEW_BUCKETS = 10_000
MANY_BUCKETS = 1_000_000
SHOWN_KEY = 60
_SHARED_ID = re.compile(rf"[0-9]{{{DIGITS}}}-0000-0000-0000-[0-9]{{12}}-0")


@attrs.frozen
class BucketIdentifier:
    """Computes buckets; a frozen value that crosses to tasks.

    Attributes:
        num_buckets: The number of buckets of a partition.
        key_fields: The table's record key fields, in their order.
        hash_fields: The record key fields that are hashed; their order does not matter.
        rule: The treatment of keys for which Hudi's releases have different buckets.

    Hudi: org.apache.hudi.index.bucket.BucketIdentifier.
    """

    num_buckets: int
    key_fields: tuple[str, ...]
    hash_fields: tuple[str, ...]
    rule: BucketKeyRule = BucketKeyRule.REFUSE

    def bucket_ids(self, record_keys: pa.Array) -> np.ndarray:
        """The bucket of each key, int32.

        Args:
            record_keys: Strings without nulls.

        Raises:
            HoodieKeyException: Releases of Hudi have different buckets for a key, and the rule is to refuse it.
        """
        return (self.hashes(record_keys) % np.uint32(self.num_buckets)).astype(np.int32)

    def hashes(self, record_keys: pa.Array) -> np.ndarray:
        """The hash of each key, uint32 below 2**31, whose remainder is the bucket; see `bucket_ids`."""
        hashes = np.uint32(31) + hash_strings(record_keys)
        has_colon = _contains(record_keys, ":")
        if has_colon is not None:
            rows = np.flatnonzero(has_colon)
            keys = record_keys if len(rows) == len(record_keys) else record_keys.take(pa.array(rows))
            hashes[rows] = self._hash_composite(keys, hashes[rows])
        masked: np.ndarray = hashes & np.uint32(HASH_MASK)
        return masked

    def _hash_composite(self, keys: pa.Array, whole: np.ndarray) -> np.ndarray:
        """The hashes of keys that all have a colon; ``whole`` are the hashes of the unchanged keys."""
        has_comma = _contains(keys, ",")
        if has_comma is None:
            return self._settle(keys, self._hash_single(keys), whole)
        hashes = np.empty(len(keys), dtype=np.uint32)
        single = np.flatnonzero(~has_comma)
        if len(single):
            some = keys.take(pa.array(single))
            hashes[single] = self._settle(some, self._hash_single(some), whole[single])
        rows = np.flatnonzero(has_comma)
        keys = keys.take(pa.array(rows)) if len(single) else keys
        hashes[rows] = self._hash_regular(keys)
        return hashes

    def _hash_single(self, keys: pa.Array) -> np.ndarray:
        """The hashes of keys without a comma in Hudi 0.15: of the value of a hash field, or of an empty list."""
        hashes = np.ones(len(keys), dtype=np.uint32)
        for field in self.hash_fields:
            rows = np.flatnonzero(_starts_with(keys, f"{field}:"))
            if len(rows):
                hashes[rows] = np.uint32(31) + _hash_values(keys.take(pa.array(rows)), len(field) + 1)
        return hashes

    def _hash_regular(self, keys: pa.Array) -> np.ndarray:
        """The hashes of keys with commas and colons: ``field:value`` for each of the key fields, or another form."""
        hashes = np.ones(len(keys), dtype=np.uint32)
        is_odd = np.ones(len(keys), dtype=np.bool_)
        if len(self.key_fields) > 1:
            for chunk in utf8_chunks(keys):
                rows, found = self._hash_spelled_out(chunk)
                hashes[chunk.first + rows] = found
                is_odd[chunk.first + rows] = False
        odd = np.flatnonzero(is_odd)
        if len(odd):
            some = keys.take(pa.array(odd))
            old = _hash_lists([values_of_hudi_0(key, self.hash_fields) for key in some.to_pylist()])
            new = [values_of_hudi_1(key, self.hash_fields) for key in some.to_pylist()]
            unknown = np.array([values is None for values in new])
            hashes[odd] = self._settle(some, old, _hash_lists([values or [] for values in new]), unknown)
        return hashes

    def _hash_spelled_out(self, chunk: Utf8Chunk) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a chunk whose keys are ``field:value`` of all key fields, separated by commas; their hashes."""
        commas = np.flatnonzero(chunk.data == ord(","))
        owners = np.searchsorted(chunk.bounds, commas, side="right") - 1
        has_all = np.bincount(owners, minlength=len(chunk.bounds) - 1) == len(self.key_fields) - 1
        rows = np.flatnonzero(has_all)
        cuts = commas[has_all[owners]].reshape(len(rows), len(self.key_fields) - 1)
        hashes = np.ones(len(rows), dtype=np.uint32)
        is_named = np.ones(len(rows), dtype=np.bool_)
        for place, field in enumerate(self.key_fields):
            starts = cuts[:, place - 1] + 1 if place else chunk.bounds[rows]
            ends = cuts[:, place] if place < cuts.shape[1] else chunk.bounds[rows + 1]
            name = f"{field}:".encode()
            is_named &= _begin_with(chunk.data, starts, ends, name)
            if field in self.hash_fields:
                starts = np.minimum(starts + len(name), ends)
                values = chunk.hash_slices(starts, ends)
                for spelled_out in (NULL_VALUE, EMPTY_VALUE):
                    likely = np.flatnonzero(ends - starts == len(spelled_out))
                    if len(likely):
                        found = _begin_with(chunk.data, starts[likely], ends[likely], spelled_out.encode())
                        values[likely[found]] = 0
                hashes = hashes * np.uint32(31) + values
        return rows[is_named], hashes[is_named]

    def _settle(
        self, keys: pa.Array, old: np.ndarray, new: np.ndarray, unknown: np.ndarray | None = None
    ) -> np.ndarray:
        """Hashes by the rule; ``unknown``: keys that Hudi 1.x cannot take apart."""
        differ = (old & HASH_MASK) != (new & HASH_MASK)
        if unknown is not None:
            differ |= unknown
        if self.rule is BucketKeyRule.HUDI_0_15 or not differ.any():
            return old
        refused = differ if self.rule is BucketKeyRule.REFUSE or unknown is None else unknown
        if self.rule is BucketKeyRule.HUDI_1_X and not (unknown is not None and unknown.any()):
            return new
        first = keys[int(np.flatnonzero(refused)[0])].as_py()
        shown = first if len(first) <= SHOWN_KEY else f"{first[:SHOWN_KEY]}..."
        raise HoodieKeyException(
            f"{int(refused.sum())} record keys, such as '{shown}', go to one bucket in Hudi 0.15 and to another in "
            "Hudi 1.x: writers of both releases would store them twice. Set "
            "hoodie.bucket.index.key.rule=0.15 or 1.x, the release that writes this table; writers of the other "
            "release must not write to it"
        )


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket whose file group has this id; None for an id that is of no bucket."""
    digits = file_id[:DIGITS]
    return int(digits) if len(digits) == DIGITS and digits.isascii() and digits.isdigit() else None


def are_bucket_ids(file_ids: Sequence[str]) -> bool:
    """Whether file ids look like those of buckets. Random ids look so once in a million cases.

    Args:
        file_ids: Some or all file ids of one table.
    """
    buckets = [bucket_of_file_id(file_id) for file_id in file_ids]
    largest = max((-1 if bucket is None else bucket for bucket in buckets), default=-1)
    if not buckets or None in buckets:
        return False
    return largest < (FEW_BUCKETS if len(set(buckets)) == 1 else MANY_BUCKETS)


def new_bucket_file_ids(buckets: np.ndarray, seed: str, partition_path: str) -> list[str]:
    """File ids for the first file groups of buckets; computed again, they are the same.

    Args:
        buckets: The numbers of the buckets.
        seed: A random text that belongs to the write.
        partition_path: The partition.
    """
    digest = hashlib.md5(f"{seed}{partition_path}".encode(), usedforsecurity=False).digest()
    tail = str(uuid.UUID(bytes=digest, version=4))[DIGITS:]
    return [f"{bucket:0{DIGITS}d}{tail}-0" for bucket in buckets]


def shared_bucket_file_id(bucket: int, replaced: Collection[str] = ()) -> str:
    """The file id that all writers give the first file group of a bucket, if they write it without blocking each other.

    Args:
        bucket: The number of the bucket.
        replaced: Ids of file groups that were replaced: what is written to these is never read. Then the next number
            follows: ``00000007-0000-0000-0000-000000000001-0``.

    Source: BucketIdentifier.newBucketFileIdForNBCC. Differs: Hudi writes to the file group that was replaced.
    """
    ids = (f"{bucket:0{DIGITS}d}-0000-0000-0000-{number:012d}-0" for number in count())
    return next(file_id for file_id in ids if file_id not in replaced)


def is_shared_bucket_file_id(file_id: str) -> bool:
    """Whether a file id is one of `shared_bucket_file_id`, which any writer may give a file group."""
    return _SHARED_ID.fullmatch(file_id) is not None


def values_of_hudi_0(record_key: str, hash_fields: Sequence[str]) -> list[str | None]:
    """The parts of a record key that Hudi 0.15 hashes.

    Args:
        record_key: The key.
        hash_fields: Names of the hash fields.
    """
    if ":" not in record_key:
        return [record_key]
    parts = record_key.split(",")
    while parts and not parts[-1]:
        parts.pop()
    values: list[str | None] = []
    for part in parts:
        field, colon, value = part.partition(":")
        if not colon:
            values.append(part)
        elif field in hash_fields:
            values.append(_value(value))
    return values


def values_of_hudi_1(record_key: str, hash_fields: Sequence[str]) -> list[str | None] | None:
    """The parts of a record key that Hudi 1.0.2 and later hash; None for a key that they cannot take apart.

    A value ends at the last comma before the next colon that has a comma behind the field's own colon.

    Args:
        record_key: The key.
        hash_fields: Names of the hash fields.
    """
    if "," not in record_key or ":" not in record_key:
        return [record_key]
    values: list[str | None] = []
    start = 0
    while start < len(record_key):
        own = record_key.find(":", start)
        if own < 0:
            return None
        end, searched = len(record_key), own
        colon = following = record_key.find(":", own + 1)
        while colon >= 0:
            comma = record_key.rfind(",", searched, colon)
            if comma >= 0:
                end = comma
                break
            searched, colon = colon, record_key.find(":", colon + 1)
        if record_key[start:own] in hash_fields:
            values.append(_value(record_key[own + 1 : end]))
        elif following >= 0 and colon < 0:
            return None
        start = end + 1
    return values or [record_key]


def _value(text: str) -> str | None:
    if text == NULL_VALUE:
        return None
    return "" if text == EMPTY_VALUE else text


def _hash_lists(lists: Sequence[Sequence[str | None]]) -> np.ndarray:
    """Java's ``List.hashCode`` of lists of strings."""
    offsets = np.cumsum([0, *map(len, lists)])
    hashes = hash_strings(pa.array([value for values in lists for value in values], pa.string()))
    result = np.ones(len(lists), dtype=np.uint32)
    for number in range(len(lists)):
        outcome = 1
        for place in range(offsets[number], offsets[number + 1]):
            outcome = (outcome * 31 + int(hashes[place])) & 0xFFFFFFFF
        result[number] = outcome
    return result


def _hash_values(named: pa.Array, start: int) -> np.ndarray:
    """The hashes of values after ``field:``. Null and empty values, which keys spell out, have 0."""
    values = pc.utf8_slice_codeunits(named, start)
    hashes = hash_strings(values)
    spelled_out = pc.is_in(values, value_set=pa.array([NULL_VALUE, EMPTY_VALUE])).to_numpy(zero_copy_only=False)
    hashes[spelled_out] = 0
    return hashes


def _contains(strings: pa.Array, character: str) -> np.ndarray | None:
    """True for strings with an ASCII character; None if no string has it."""
    if not contain_ascii(strings, character):
        return None
    found: np.ndarray = pc.match_substring(strings, character).to_numpy(zero_copy_only=False)
    return found


def _starts_with(strings: pa.Array, start: str) -> np.ndarray:
    found: np.ndarray = pc.starts_with(strings, start).to_numpy(zero_copy_only=False)
    return found


def _begin_with(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, text: bytes) -> np.ndarray:
    """True for pieces of the bytes that begin with a text."""
    found: np.ndarray = ends - starts >= len(text)
    last = max(0, len(data) - 1)
    for place, byte in enumerate(text):
        found &= data[np.minimum(starts + place, last)] == byte
    return found
