"""Decode many Avro records of one schema into Arrow, a column at a time."""

from __future__ import annotations

import functools

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.columnar_cursors import Content, Cursors, Longs
from hoodie.avro.columnar_readers import RecordReader
from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.schema_resolution import resolving_reader
from hoodie.common.util.arrow_buffers import structs_of
from hoodie.exception import HoodieCorruptedDataException

_CHUNK_RECORDS = 8192
_CHUNK_BYTES = 1 << 20
"""Chunks fit the caches of a processor, and bound the memory of a step beside the columns."""
_MAX_RECORD_BYTES = (1 << 31) - 1 - _CHUNK_BYTES
"""Offsets within a chunk have 32 bits."""


@attrs.frozen(eq=False)
class _Part:
    columns: list[pa.Array]
    count: int


@attrs.frozen(eq=False)
class DecodedRecords:
    """The result of `decode_records`.

    Attributes:
        rows: The good records, in their order.
        reason_of: int32, one for each record: -1 for a good one, otherwise the place of its reason in `reasons`.
        reasons: The reasons why records are bad; each text names the field.
    """

    rows: pa.RecordBatch
    reason_of: npt.NDArray[np.int32]
    reasons: tuple[str, ...]

    @property
    def bad(self) -> npt.NDArray[np.int64]:
        """The numbers of the bad records, ascending; the first record is number 0."""
        return np.flatnonzero(self.reason_of >= 0)

    def reason(self, number: int) -> str | None:
        """Why a record is bad; None for a good one."""
        place = int(self.reason_of[number])
        return None if place < 0 else self.reasons[place]

    def require_good(self, source: str) -> pa.RecordBatch:
        """The rows, if every record is good.

        Args:
            source: The origin of the records, for the message.

        Raises:
            HoodieCorruptedDataException: A record is bad; the message gives the number of the first one and its reason.
        """
        bad = self.bad
        if not len(bad):
            return self.rows
        more = f"; {len(bad)} records of {len(self.reason_of)} are damaged" if len(bad) > 1 else ""
        raise HoodieCorruptedDataException(
            f"Cannot read record {bad[0]} (counted from 0) of {source}: {self.reason(int(bad[0]))}{more}"
        )


def decode_records(
    avro_schema: str,
    content: bytes | memoryview | pa.Buffer,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    wanted: pa.Schema | None = None,
    *,
    has_variants: bool = False,
) -> DecodedRecords:
    """Decode bare Avro records in one buffer.

    A record is bad if its bytes are not a value of the schema, or if it does not end exactly at its end. A bad record
    does not change the others, and a length in it never makes this read or reserve more than the content has.

    Args:
        avro_schema: JSON of the record that they were written with. Types are converted as by
            `hoodie.avro.schema_converters.to_arrow`.
        content: The buffer.
        starts: The offset of each record. Records are in ascending order and do not overlap.
        ends: The end of each record (exclusive).
        wanted: The columns to return, and their types; None for all columns as written. Columns are found by name. One
            that the writer lacks is null. Types may be wider, as Avro allows: int, long, float, double, in this order;
            string and bytes in both directions; the same in lists, maps and structs. A float becomes the double of the
            same value, while tables widen it by its digits: their readers take columns as written and convert them.
        has_variants: Whether unions of several types are read as `hoodie.avro.schema_reader.VARIANT`; otherwise they
            are refused.

    Raises:
        HoodieSchemaException: The schema has no Arrow schema, or a wanted type does not fit the one written.
        ValueError: Records overlap or lie outside of the content.
    """
    # Old releases of pyarrow cannot hash metadata.
    reader = _reader(avro_schema, None if wanted is None else wanted.remove_metadata(), has_variants)
    return _decode(reader, wanted, content, starts, ends)


def decode_resolved(
    written_schema: str,
    wanted_schema: str,
    content: bytes | memoryview | pa.Buffer,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    *,
    chunk_bytes: int = _CHUNK_BYTES,
) -> DecodedRecords:
    """Decode bare Avro records as records of another schema, by the rules of `hoodie.avro.schema_resolution`.

    Bad records are those of `decode_records`, and those with a value that has no place in the other schema.

    Args:
        written_schema: JSON of the record that they were written with.
        wanted_schema: JSON of the record to read them as; it gives the columns, see
            `hoodie.avro.schema_resolution.resolved_columns`.
        content: As for `decode_records`.
        starts: As for `decode_records`.
        ends: As for `decode_records`.
        chunk_bytes: The bytes that are decoded at once; a record with more is decoded alone.

    Raises:
        HoodieSchemaException: A schema has no Arrow schema, or no record of the one can be read as the other.
        ValueError: Records overlap or lie outside of the content.
    """
    return _decode(resolving_reader(written_schema, wanted_schema), None, content, starts, ends, chunk_bytes)


def _decode(
    reader: RecordReader,
    wanted: pa.Schema | None,
    content: bytes | memoryview | pa.Buffer,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    chunk_bytes: int = _CHUNK_BYTES,
) -> DecodedRecords:
    data = np.frombuffer(content, np.uint8)
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    _check_places(starts, ends, len(data))
    reasons: dict[str, int] = {}
    reason_of = np.full(len(starts), -1, np.int32)
    parts: list[_Part] = []
    first = 0
    # Without records, an empty chunk gives the columns their types.
    while first < len(starts) or not parts:
        until = _chunk_end(starts, ends, first, chunk_bytes) if len(starts) else 0
        chunk = slice(first, until)
        parts.append(_decode_chunk(reader, data, starts[chunk], ends[chunk], reason_of[chunk], reasons))
        first = until
    return DecodedRecords(_joined(reader, wanted, parts), reason_of, tuple(reasons))


@functools.lru_cache(maxsize=64)
def _reader(avro_schema: str, wanted: pa.Schema | None, has_variants: bool) -> RecordReader:
    tree = type_tree(avro_schema, has_variants)
    return RecordReader(tree, tree.arrow_type if wanted is None else pa.struct(list(wanted)))


def _check_places(starts: Longs, ends: Longs, size: int) -> None:
    if len(starts) != len(ends):
        raise ValueError(f"{len(starts)} records begin and {len(ends)} end")
    if not len(starts):
        return
    if starts[0] < 0 or ends[-1] > size or (starts > ends).any() or (starts[1:] < ends[:-1]).any():
        raise ValueError(f"records overlap, or lie outside of a content of {size} bytes")
    longest = int((ends - starts).max())
    if longest > _MAX_RECORD_BYTES:
        raise ValueError(f"a record takes {longest} bytes; the maximum is {_MAX_RECORD_BYTES}")


def _chunk_end(starts: Longs, ends: Longs, first: int, chunk_bytes: int) -> int:
    """The number of the record after a chunk, which holds at least one record."""
    some = ends[first : first + _CHUNK_RECORDS]
    fitting = int(np.searchsorted(some, starts[first] + chunk_bytes, side="right"))
    return first + max(fitting, 1)


def _decode_chunk(
    reader: RecordReader,
    data: npt.NDArray[np.uint8],
    starts: Longs,
    ends: Longs,
    reason_of: npt.NDArray[np.int32],
    reasons: dict[str, int],
) -> _Part:
    """The good records of a chunk; the reasons for the bad ones are put in ``reason_of`` and ``reasons``.

    The first run finds torn records, and makes no columns if there is one. The second run may find bad texts and
    decimals in the other records. The third run finds nothing new.
    """
    places = np.arange(len(starts))
    while True:
        begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        content = Content(data[begin:end], len(places))
        cursors = Cursors(content, starts[places] - begin, ends[places] - begin, np.arange(len(places)))
        columns = reader.columns(cursors, True)
        _check_ends(content, cursors)
        bad = content.reason_of >= 0
        if not bad.any():
            return _Part(columns or [], len(places))
        numbers = np.array([reasons.setdefault(text, len(reasons)) for text in content.reasons], np.int32)
        reason_of[places[bad]] = numbers[content.reason_of[bad]]
        places = places[~bad]


def _check_ends(content: Content, cursors: Cursors) -> None:
    for is_bad, reason in (
        (cursors.positions > cursors.ends, "the record is cut short"),
        (cursors.positions < cursors.ends, "bytes follow the last field of the record"),
    ):
        # The cursor of a record that was flagged before is at the end of the content, far after the record's end.
        content.flag(cursors.records[is_bad], reason)


def _joined(reader: RecordReader, wanted: pa.Schema | None, parts: list[_Part]) -> pa.RecordBatch:
    schema = pa.schema(list(reader.wanted)) if wanted is None else wanted
    count = sum(part.count for part in parts)
    if not len(schema):
        return pa.RecordBatch.from_struct_array(structs_of([], pa.struct([]), count))
    columns = parts[0].columns
    if len(parts) > 1:
        columns = [pa.concat_arrays([part.columns[place] for part in parts]) for place in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
