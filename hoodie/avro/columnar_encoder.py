"""Encode Arrow rows as Avro records of one schema, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.avro_type import AvroType
from hoodie.avro.columnar_cursors import Bytes, Longs
from hoodie.avro.columnar_pieces import Pieces, TooLargeError
from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.columnar_writers import RowWriter
from hoodie.exception import HoodieSchemaException

_CHUNK_ROWS = 8192
_CHUNK_BYTES = 4 << 20
"""Chunks stay in the caches of a processor."""


@attrs.frozen(eq=False)
class EncodedRecords:
    """Bare Avro records, one after the other.

    Attributes:
        data: Their bytes.
        lengths: int64, the bytes of each record.
    """

    data: bytes = attrs.field(repr=False)
    lengths: npt.NDArray[np.int64]


def encode_records(rows: pa.RecordBatch, avro_schema: str, *, has_variants: bool = False) -> EncodedRecords:
    """Encode each row as a bare Avro record, byte for byte as Java's binary encoder does.

    Args:
        rows: Columns are found by name; columns that the schema lacks are left out. Types are those that
            `hoodie.avro.schema_converters.to_arrow` gives, narrower integers, or dictionaries, large types and views of
            them.
        avro_schema: JSON of the record.
        has_variants: Whether the columns of unions of several types are `hoodie.avro.schema_reader.VARIANT`; otherwise
            such unions are refused.

    Raises:
        HoodieSchemaException: A column is missing or has another type, or a value does not fit: a null in a field
            without null, a string that is no symbol of its enum. The message names row and column.
    """
    parts = list(encoded_chunks(rows, avro_schema, None, has_variants=has_variants))
    lengths = [np.empty(0, np.int64), *(np.diff(part.bounds) for part in parts)]
    return EncodedRecords(b"".join(part.data for part in parts), np.concatenate(lengths))


@attrs.frozen(eq=False)
class EncodedChunk:
    """Encoded records, one after the other.

    Attributes:
        data: Their bytes.
        bounds: int64, the offset of each record, and the end of the last one.
    """

    data: memoryview = attrs.field(repr=False)
    bounds: npt.NDArray[np.int64]


def encoded_chunks(
    rows: pa.RecordBatch,
    avro_schema: str,
    prefix: Callable[[Longs], Bytes] | None,
    *,
    has_variants: bool = False,
) -> Iterator[EncodedChunk]:
    """Encode rows a few thousand at a time.

    Args:
        rows: See `encode_records`.
        avro_schema: JSON of the record.
        prefix: Takes the length of each record and returns the bytes before it, rows x bytes; None for no bytes.
        has_variants: See `encode_records`.

    Raises:
        HoodieSchemaException: See `encode_records`.
    """
    tree = type_tree(avro_schema, has_variants)
    places = {name: place for place, name in enumerate(rows.schema.names)}
    columns = {name: rows.column(places[name]) for name in tree.names if name in places}
    first, count = 0, _chunk_rows(rows)
    while first < max(rows.num_rows, 1):
        size = min(count, rows.num_rows - first)
        try:
            yield _encoded(
                {name: column.slice(first, size) for name, column in columns.items()}, size, tree, first, prefix
            )
        except TooLargeError as error:
            if size == 1:
                raise HoodieSchemaException(
                    f"Row {first} (counted from 0) cannot be stored: it takes 2 GB or more as an Avro record"
                ) from error
            count = size // 2
            continue
        first += max(size, 1)


def _chunk_rows(rows: pa.RecordBatch) -> int:
    if not rows.num_rows:
        return 1
    bytes_per_row: int = max(rows.nbytes // rows.num_rows, 1)
    return max(min(_CHUNK_ROWS, _CHUNK_BYTES // bytes_per_row), 1)


def _encoded(
    columns: dict[str, pa.Array], count: int, tree: AvroType, first: int, prefix: Callable[[Longs], Bytes] | None
) -> EncodedChunk:
    pieces = Pieces(count)
    RowWriter(np.arange(first, first + count), pieces).write_fields(tree, columns, None)
    joined = pieces.joined(None if prefix is None else prefix(pieces.lengths))
    in_front = 0 if prefix is None else prefix(np.empty(0, np.int64)).shape[1]
    bounds = np.concatenate([[0], np.cumsum(pieces.lengths + in_front)])
    buffer = joined.buffers()[2]
    return EncodedChunk(memoryview(b"") if buffer is None else memoryview(buffer)[: bounds[-1]], bounds)
