"""Cut batches so that no column of a piece has more text, or more elements of lists, than Arrow's 32-bit offsets count.

The types that hoodie stores count with 32 bits, so one array holds 2 GiB of text. Inputs may hold more in one array:
``large_string``, views (polars) and dictionaries, whose text becomes longer when it is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hoodie.common.data.stored_types import is_list
from hoodie.exception import HoodieSchemaException

MAX_BYTES = np.iinfo(np.int32).max
"""The most bytes of text, or elements, of one array."""
PIECE_BYTES = 1 << 28
"""The most bytes of a column in the pieces of a batch: so few that some pieces may be joined later."""
_TEXT_OF_UUID = 36


def batch_pieces(
    batch: pa.RecordBatch, max_bytes: int = MAX_BYTES, piece_bytes: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, in order: the batch itself if each of its columns fits one array of a stored type.

    Args:
        batch: Columns of any types.
        max_bytes: The most that a column may have as text, or as elements of lists.
        piece_bytes: The most bytes of a column of a piece, unless it has one row.

    Raises:
        HoodieSchemaException: One value has more; the message names its column.
    """
    wide = [number for number, data_type in enumerate(batch.schema.types) if _may_grow(data_type)]
    if all(_size(batch.column(number)) <= max_bytes for number in wide):
        yield batch
        return
    yield from _halves(batch, wide, max_bytes, piece_bytes)


def _halves(batch: pa.RecordBatch, wide: list[int], max_bytes: int, piece_bytes: int) -> Iterator[pa.RecordBatch]:
    sizes = {number: _size(batch.column(number)) for number in wide}
    if max(sizes.values()) <= piece_bytes:
        yield batch
    elif batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _halves(batch.slice(0, half), wide, max_bytes, piece_bytes)
        yield from _halves(batch.slice(half), wide, max_bytes, piece_bytes)
    else:
        number, size = max(sizes.items(), key=lambda item: item[1])
        if size > max_bytes:
            raise HoodieSchemaException(
                f"column '{batch.schema.names[number]}' has a value of {size} bytes or elements: a value has at most "
                f"{max_bytes}; store it in parts"
            )
        yield batch


def _may_grow(data_type: pa.DataType) -> bool:
    """Whether one array may hold more than a stored type's array."""
    types = pa.types
    if types.is_primitive(data_type) or types.is_string(data_type) or types.is_binary(data_type):
        return False
    if isinstance(data_type, pa.BaseExtensionType):
        return True
    if types.is_struct(data_type):
        return any(_may_grow(field.type) for field in data_type)
    if types.is_map(data_type):
        return _may_grow(data_type.item_type) or _may_grow(data_type.key_type)
    if types.is_list(data_type):
        return _may_grow(data_type.value_type)
    return True


def _size(values: pa.Array) -> int:
    """Bytes of text, or elements, in the largest array that the values need; at least that for run-end encoded ones."""
    data_type, types = values.type, pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return max(_size(values.storage), _TEXT_OF_UUID * len(values))
    if types.is_dictionary(data_type):
        lengths = _lengths(values.dictionary)
        if lengths is None or not len(lengths):
            return len(values)
        indices = values.indices.drop_null().to_numpy(zero_copy_only=False)
        return int(lengths[indices].sum())
    if types.is_run_end_encoded(data_type):
        lengths = _lengths(values.values)
        return len(values) if lengths is None or not len(lengths) else len(values) * int(lengths.max())
    if types.is_struct(data_type):
        return max((_size(child) for child in values.flatten() if _may_grow(child.type)), default=0)
    if types.is_map(data_type):
        start, end = int(values.offsets[0].as_py()), int(values.offsets[-1].as_py())
        children = (values.keys.slice(start, end - start), values.items.slice(start, end - start))
        return max(end - start, *(_size(child) for child in children))
    if is_list(data_type):
        elements = values.flatten()
        return max(len(elements), _size(elements) if _may_grow(elements.type) else 0)
    lengths = _lengths(values)
    return 0 if lengths is None else int(lengths.sum())


def _lengths(values: pa.Array) -> np.ndarray | None:
    """The bytes of each text; None for other values."""
    data_type, types = values.type, pa.types
    if types.is_fixed_size_binary(data_type):
        return np.full(len(values), data_type.byte_width, np.int64)
    if types.is_large_string(data_type) or types.is_large_binary(data_type):
        return _offset_lengths(values, np.int64)
    if types.is_string(data_type) or types.is_binary(data_type):
        return _offset_lengths(values, np.int32)
    if not (types.is_string_view(data_type) or types.is_binary_view(data_type)):
        return None
    if not len(values):
        return np.zeros(0, np.int64)
    # A view is 16 bytes, of which the first 4 are the length.
    views = np.frombuffer(values.buffers()[1], np.int32)[::4][values.offset : values.offset + len(values)]
    lengths = views.astype(np.int64)
    return lengths if not values.null_count else lengths * values.is_valid().to_numpy(zero_copy_only=False)


def _offset_lengths(values: pa.Array, kind: type) -> np.ndarray:
    offsets = values.buffers()[1]
    if not len(values) or offsets is None:
        return np.zeros(len(values), np.int64)
    found: np.ndarray = np.frombuffer(offsets, kind)[values.offset : values.offset + len(values) + 1]
    return np.diff(found).astype(np.int64)
