"""Arrow arrays around existing bytes. No other module makes arrays from buffers.

Arrow does not check buffers, and releases of Arrow differ in what they require of the parts of an array. So arrays are
made from buffers here, of types without others inside, and tests make each with every supported release. Lists, maps
and structs are made by Arrow's `from_arrays`, which checks its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.exception import HoodieException

Longs = npt.NDArray[np.int64]

_BINARY = pa.binary()
_MAX_BYTES = (1 << 31) - 1


def numbers_of(values: npt.NDArray[np.generic], data_type: pa.DataType) -> pa.Array:
    """Values of a fixed size, none of them null.

    Args:
        values: The values as the type has them in memory, contiguous: an element or a row for each.
        data_type: Numbers, dates, times, decimals or fixed bytes.
    """
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(values)])


def indices_of(places: npt.NDArray[np.integer]) -> pa.Int64Array:
    """Numbers of rows, for `take`. Unlike `pyarrow.array`, it does not import pandas.

    Args:
        places: The numbers, of any integer type.
    """
    return numbers_of(np.ascontiguousarray(places, np.int64), pa.int64())


def booleans_of(values: npt.NDArray[np.uint8] | npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Booleans from those of numpy or from bytes that are 0 or 1, none of them null."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def flags_in(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Booleans as numpy has them; null gives false. Unlike `to_numpy`, it does not import pandas.

    Args:
        values: A slice perhaps.
    """
    start, end = values.offset, values.offset + len(values)

    def bits(buffer: pa.Buffer) -> npt.NDArray[np.uint8]:
        return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[start:]

    validity, data = values.buffers()
    found = bits(data) if len(values) else np.empty(0, np.uint8)
    return (found & bits(validity) if validity is not None and len(values) else found).view(np.bool_)


def numbers_in(values: pa.Array, data_type: type[np.generic]) -> npt.NDArray[Any]:
    """Numbers as numpy has them; null gives any number. Unlike `to_numpy`, it does not import pandas.

    Args:
        values: A slice perhaps.
        data_type: The type of numpy that has their form in memory.
    """
    buffer = values.buffers()[1]
    if buffer is None:
        return np.empty(0, data_type)
    return np.frombuffer(buffer, data_type)[values.offset : values.offset + len(values)]


def texts_of(values: Sequence[str]) -> pa.StringArray:
    """Texts, none of them null. Unlike `pyarrow.array`, it does not import pandas, which takes a quarter of a second.

    Args:
        values: Below 2 GB of UTF-8 together.
    """
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pieces_of(b"".join(encoded), offsets, pa.string())


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """The array that `pyarrow.array` makes; texts and numbers without nulls without its import of pandas.

    Args:
        values: Values of Python.
        data_type: Their type.

    Raises:
        pa.ArrowException: A value does not fit the type.
    """
    kinds = {type(value) for value in values}
    if kinds == {str} and data_type == pa.string():
        return texts_of(values)
    if kinds == {int} and data_type == pa.int64():
        return numbers_of(np.array(values, np.int64), data_type)
    if kinds == {float} and data_type == pa.float64():
        return numbers_of(np.array(values, np.float64), data_type)
    return pa.array(values, data_type)


def scalar_of(value: Any, data_type: pa.DataType | None = None) -> pa.Scalar:
    """The scalar that `pyarrow.scalar` makes; texts, numbers and nulls of a type without its import of pandas.

    Args:
        value: A value of Python.
        data_type: Its type; None for the one that Arrow takes by itself.

    Raises:
        pa.ArrowException: The value does not fit the type, or has none.
    """
    if value is None and data_type is not None:
        return pa.nulls(1, data_type)[0]
    own_types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    own = own_types.get(type(value))
    if own is None or data_type not in (None, own) or (type(value) is int and not -(1 << 63) <= value < 1 << 63):
        return pa.scalar(value, data_type)
    return array_of([value], own)[0]


def pieces_of(
    data: pa.Buffer | bytes | memoryview | npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    data_type: pa.DataType = _BINARY,
    validity: pa.Buffer | None = None,
) -> pa.Array:
    """Bytes cut into pieces, of which each begins where the one before ends.

    Args:
        data: Contiguous; its shape does not matter. Of a string, valid UTF-8.
        offsets: int32, where each piece begins, and where the last one ends.
        data_type: string or binary.
        validity: A bit for each piece, 0 for null; None if none is null.
    """
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.Array.from_buffers(data_type, len(offsets) - 1, [validity, pa.py_buffer(offsets), buffer])


def rows_of(matrix: npt.NDArray[np.generic], data_type: pa.DataType = _BINARY) -> pa.Array:
    """Bytes of one length each.

    Args:
        matrix: One row of bytes, or one element of several bytes, for each value.
        data_type: string or binary.

    Raises:
        HoodieException: They take 2 GB or more.
    """
    contiguous = np.ascontiguousarray(matrix)
    if contiguous.nbytes > _MAX_BYTES:
        raise HoodieException(
            f"{contiguous.nbytes} bytes have no room in one array of Arrow: take fewer rows at a time"
        )
    width = contiguous.nbytes // len(contiguous) if len(contiguous) else 0
    return pieces_of(contiguous, np.arange(len(contiguous) + 1, dtype=np.int32) * width, data_type)


def spans_of(data: pa.Buffer | npt.NDArray[np.uint8], starts: Longs, ends: Longs) -> pa.BinaryArray:
    """Parts of some bytes; the bytes are copied.

    Args:
        data: Contiguous, below 2 GB; its shape does not matter.
        starts: The first byte of each part, ascending.
        ends: The end of each part (exclusive); parts do not overlap.
    """
    count = len(starts)
    if not count:
        return pieces_of(b"", np.zeros(1, np.int32))
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    return pieces_of(data, offsets).take(numbers_of(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32()))


def without_views(values: pa.Array, is_large: bool = False) -> pa.Array:
    """Views of text or bytes as plain arrays; arrays of other types as they are.

    Text that is no UTF-8 stays so.

    Args:
        values: A slice perhaps. Views that become arrays with offsets of 32 bits have below 2 GB of bytes.
        is_large: Whether they become large_string or large_binary, instead of string or binary.
    """
    is_text = pa.types.is_string_view(values.type)
    if not is_text and not pa.types.is_binary_view(values.type):
        return values
    text, data = (pa.large_string(), pa.large_binary()) if is_large else (pa.string(), _BINARY)
    try:
        return values.view(pa.binary_view()).cast(data).view(text if is_text else data)
    except pa.ArrowNotImplementedError:
        # Arrow has this cast since 18.
        found = pa.array(values.view(pa.binary_view()).to_numpy(zero_copy_only=False), data)
        return found.view(text) if is_text else found


def structs_of(columns: list[pa.Array], data_type: pa.StructType, count: int) -> pa.StructArray:
    """Structs, none of them null.

    Args:
        columns: Their fields, in the order of the type.
        data_type: Their type; it may have no fields.
        count: The number of structs.
    """
    if not columns:
        return pa.Array.from_buffers(data_type, count, [None])
    return pa.StructArray.from_arrays(columns, fields=list(data_type))


def lists_like(lists: pa.Array, elements: pa.Array) -> pa.ListArray:
    """Lists with the lengths and nulls of other lists, and other elements.

    Args:
        lists: Lists or maps, which may be a slice.
        elements: An element for each child of these, also for children outside the slice.
    """
    return pa.ListArray.from_arrays(_offsets_of(lists), elements, mask=_nulls_of(lists))


def maps_like(maps: pa.MapArray, items: pa.Array, data_type: pa.MapType) -> pa.MapArray:
    """Maps with the keys of other maps, and other values.

    Args:
        maps: The other maps, which may be a slice.
        items: A value for each key of these, also for keys outside the slice.
        data_type: The type of the maps to make.
    """
    return pa.MapArray.from_arrays(_offsets_of(maps), maps.keys, items, type=data_type, mask=_nulls_of(maps))


def _offsets_of(lists: pa.Array) -> pa.Array:
    # Arrow takes no mask beside a slice of offsets, so they are an array of their own.
    if not len(lists):
        return pa.array([0], pa.int32())
    found = np.frombuffer(lists.buffers()[1], np.int32)[lists.offset : lists.offset + len(lists) + 1]
    return numbers_of(found, pa.int32())


def _nulls_of(lists: pa.Array) -> pa.Array | None:
    return lists.is_null() if lists.null_count else None
