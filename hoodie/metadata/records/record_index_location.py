"""File ids as entries of a record index store them: a UUID as two numbers of 64 bits, and the number after it.

File ids of another form are stored as text.

    7d4c0e1a-...-9f2b-3    high and low bits, 3, "", encoding 0
    7d4c0e1a-...-9f2b      high and low bits, -1, "", encoding 0
    bucket-5               -1, -1, -1, "bucket-5", encoding 1

Hudi: HoodieMetadataPayload.createRecordIndexUpdate, HoodieTableMetadataUtil.getLocationFromRecordIndexInfo.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.table.timeline.instant_time import format_instant_time, parse_instant_time
from hoodie.common.util.arrow_buffers import rows_of

RECORD_INDEX_FIELDS = ("fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")
"""The fields of an entry that hold the file id."""
_UUID_FORM = r"\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-(?:0|[1-9][0-9]{0,8}))?\z"
_UUID_LENGTH = 36
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_PLACES = np.array([place for place in range(_UUID_LENGTH) if place not in (8, 13, 18, 23)])
_AS_UUID, _AS_TEXT = 0, 1
_NO_INDEX = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def file_ids_of(
    high_bits: pa.Array, low_bits: pa.Array, indexes: pa.Array, texts: pa.Array, encodings: pa.Array
) -> pa.Array:
    """The file ids of entries.

    Args:
        high_bits: int64.
        low_bits: int64.
        indexes: int32; -1 for a file id without a number.
        texts: string; file ids that are not UUIDs.
        encodings: int32; null for no entry.

    Returns:
        string; null where there is no entry.
    """
    count = len(encodings)
    if not count:
        return pa.array([], pa.string())
    words = np.empty((count, 2), ">i8")
    words[:, 0] = high_bits.fill_null(0).to_numpy(zero_copy_only=False)
    words[:, 1] = low_bits.fill_null(0).to_numpy(zero_copy_only=False)
    found = words.view(np.uint8).reshape(count, 16)
    digits = np.stack([_HEX[found >> 4], _HEX[found & 15]], axis=2).reshape(count, 32)
    uuids = np.full((count, _UUID_LENGTH), ord("-"), np.uint8)
    uuids[:, _HEX_PLACES] = digits
    prefixes = rows_of(uuids, pa.string())
    numbered = pc.binary_join_element_wise(prefixes, indexes.cast(pa.string()), "-")
    as_uuid = pc.if_else(pc.equal(indexes, _NO_INDEX), prefixes, numbered)
    return pc.if_else(pc.equal(encodings, _AS_UUID), as_uuid, texts)


def stored_file_ids(file_ids: pa.Array) -> list[pa.Array]:
    """The stored fields of file ids, in the order of `RECORD_INDEX_FIELDS`.

    Args:
        file_ids: string, without nulls.
    """
    coded = file_ids.dictionary_encode()
    distinct, count = coded.dictionary, len(coded.dictionary)
    is_uuid = pc.match_substring_regex(distinct, _UUID_FORM)
    prefixes = pc.if_else(is_uuid, pc.utf8_slice_codeunits(distinct, 0, _UUID_LENGTH), "0" * _UUID_LENGTH)
    text = "".join(prefixes.to_pylist()).encode()
    digits = np.frombuffer(text, np.uint8).reshape(count, _UUID_LENGTH)
    if count:
        digits = digits[:, _HEX_PLACES]
        values = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0"))
        packed = np.ascontiguousarray(values[:, 0::2] << 4 | values[:, 1::2])
        words = packed.view(">i8").astype(np.int64)
    else:
        words = np.empty((0, 2), np.int64)
    suffixes = pc.utf8_slice_codeunits(distinct, _UUID_LENGTH + 1, None)
    has_index = pc.and_(is_uuid, pc.not_equal(suffixes, ""))
    indexes = pc.if_else(has_index, suffixes, str(_NO_INDEX)).cast(pa.int32())
    stored = [
        pc.if_else(is_uuid, pa.array(words[:, 0]), -1),
        pc.if_else(is_uuid, pa.array(words[:, 1]), -1),
        indexes,
        pc.if_else(is_uuid, "", distinct),
        pc.if_else(is_uuid, pa.scalar(_AS_UUID, pa.int32()), pa.scalar(_AS_TEXT, pa.int32())),
    ]
    return [values.take(coded.indices) for values in stored]


def instant_millis(instant_time: str, timezone: str) -> int:
    """The instant time of a file as entries store it: milliseconds since 1970.

    Args:
        instant_time: 17 or 14 digits.
        timezone: ``hoodie.table.timeline.timezone`` of the table.

    Raises:
        ValueError: The text is not an instant time.
    """
    return (parse_instant_time(instant_time, timezone) - _EPOCH) // timedelta(milliseconds=1)


def instant_time_of_millis(millis: int, timezone: str) -> str:
    """The instant time, of 17 digits, of the milliseconds in an entry; see `instant_millis`.

    Times of 14 digits, and times in the hour that daylight saving repeats, may come back as others.
    """
    return format_instant_time(_EPOCH + timedelta(milliseconds=millis), timezone)
