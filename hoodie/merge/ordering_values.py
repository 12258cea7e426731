"""Turn ordering values into numbers that compare as Hudi compares the values.

Several ordering fields make one value: a struct with one field for each, which compares from left to right. It is null
if one of them is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import column_at, type_at
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.arrow_buffers import flags_in, numbers_in
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieSchemaException


def ordering_type(schema: pa.Schema, fields: Sequence[str]) -> pa.DataType | None:
    """The type of the ordering value; None if there are no ordering fields, or one is not in the schema.

    Args:
        schema: The table's columns.
        fields: The ordering fields, dotted paths into structs.
    """
    types = [type_at(schema, field) for field in fields]
    if not types or any(data_type is None for data_type in types):
        return None
    return types[0] if len(types) == 1 else pa.struct([(str(index), kind) for index, kind in enumerate(types)])


def check_ordering_types(schema: pa.Schema, fields: Sequence[str]) -> None:
    """Refuse ordering fields whose values have no order, before a table is made with them.

    Args:
        schema: The columns.
        fields: The ordering fields, dotted paths into structs; those that are not in the schema are left out.

    Raises:
        HoodieSchemaException: There is one; the message names it.
    """
    for field in fields:
        data_type = type_at(schema, field)
        if data_type is not None and _kind(data_type) == "":
            raise HoodieSchemaException(
                f"the ordering field '{field}' is of type {data_type}, whose values have no order: name a column of "
                "numbers, strings, booleans, dates or timestamps, or none; nothing was written"
            )


def ordering_column(rows: pa.RecordBatch | pa.Table, fields: Sequence[str]) -> pa.Array | None:
    """The ordering values of rows; None if there are no ordering fields, or one is not among the columns.

    Args:
        rows: Rows with the ordering fields.
        fields: The ordering fields, dotted paths into structs.
    """
    columns = [column_at(rows, field) for field in fields]
    found = [one_array(column) for column in columns if column is not None]
    if not columns or len(found) < len(columns):
        return None
    if len(found) == 1:
        return found[0]
    unknown = found[0].is_null()
    for column in found[1:]:
        unknown = pc.or_(unknown, column.is_null())
    return pa.StructArray.from_arrays(found, names=[str(index) for index in range(len(found))], mask=unknown)


def sortable(columns: list[pa.Array | pa.ChunkedArray]) -> list[npt.NDArray[np.int64]]:
    """Numbers that compare as Java's compareTo compares the values, across all columns; null is the smallest.

    Args:
        columns: Values of types that compare with each other.

    Returns:
        Int64 arrays of the same lengths.

    Raises:
        HoodieSchemaException: The type has no order, or the types are of different kinds.
    """
    arrays = [one_array(column) for column in columns]
    if any(_is_of_several_fields(array.type) for array in arrays):
        return _sortable_structs(arrays)
    wanted = _common_type([array.type for array in arrays])
    arrays = [array if array.type == wanted else array.cast(wanted) for array in arrays]
    values = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    numbers = _numbers(values)
    if values.null_count:
        valid = flags_in(values.is_valid())
        if bool((numbers[valid] == np.iinfo(np.int64).min).any()):
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
        numbers = np.where(valid, numbers, np.iinfo(np.int64).min)
    bounds = np.cumsum([len(array) for array in arrays])[:-1]
    return [piece for piece in np.split(numbers, bounds)]


def _is_of_several_fields(data_type: pa.DataType) -> bool:
    """Whether it is a struct of `ordering_type`; a user's column of structs has no order."""
    return bool(pa.types.is_struct(data_type)) and data_type.num_fields > 1 and data_type.field(0).name == "0"


def _sortable_structs(arrays: list[pa.Array]) -> list[npt.NDArray[np.int64]]:
    """Numbers that compare as structs from left to right; a null struct is the smallest."""
    count = {array.type.num_fields if _is_of_several_fields(array.type) else 0 for array in arrays}
    if len(count) > 1:
        raise HoodieSchemaException("ordering values of one field and of several do not compare")
    fields = [np.concatenate(sortable([array.field(index) for array in arrays])) for index in range(count.pop())]
    order = np.lexsort(fields[::-1])
    steps = np.zeros(len(order), dtype=np.int64)
    for field in fields:
        steps[1:] |= field[order][1:] != field[order][:-1]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(steps)
    valid = np.concatenate([flags_in(array.is_valid()) for array in arrays])
    numbers[~valid] = np.iinfo(np.int64).min
    return list(np.split(numbers, np.cumsum([len(array) for array in arrays])[:-1]))


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    data_type = values.type
    if pa.types.is_floating(data_type):
        return _float_numbers(values)
    if pa.types.is_string(data_type):
        # Ordered by the bytes of UTF-8, like Avro's strings and unlike Java's.
        return _ranks(values)
    if pa.types.is_decimal(data_type):
        return _ranks(values)
    if pa.types.is_boolean(data_type):
        values = values.cast(pa.int8())
    elif pa.types.is_date32(data_type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(data_type):
        values = values.view(pa.int64())
    numbers: npt.NDArray[np.int64] = numbers_in(values.cast(pa.int64()), np.int64)
    return numbers


def _float_numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Order as Double.compareTo: -0.0 before 0.0; NaN after everything and equal to NaN."""
    doubles = numbers_in(values.cast(pa.float64()), np.float64).copy()
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    numbers: npt.NDArray[np.int64] = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return numbers


def _ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return numbers_in(ranks, np.uint64).astype(np.int64)


def _common_type(types: list[pa.DataType]) -> pa.DataType:
    first = types[0]
    if all(data_type == first for data_type in types):
        return _checked_type(first)
    kinds = {_kind(_checked_type(data_type)) for data_type in types}
    if kinds == {"integer"}:
        return pa.int64()
    if kinds <= {"integer", "float"}:
        return pa.float64()
    if kinds == {"timestamp"}:
        return pa.timestamp("us", tz="UTC")
    if kinds == {"decimal"}:
        scale = max(data_type.scale for data_type in types)
        return pa.decimal256(max(data_type.precision - data_type.scale for data_type in types) + scale, scale)
    raise HoodieSchemaException(
        f"ordering values of types {' and '.join(str(data_type) for data_type in types)} do not compare: "
        "cast the ordering column of the input to the table's type"
    )


def _checked_type(data_type: pa.DataType) -> pa.DataType:
    if _kind(data_type) == "":
        raise HoodieSchemaException(
            f"ordering values of type {data_type} have no order; use a number, string, boolean, date or timestamp"
        )
    return data_type


def _kind(data_type: pa.DataType) -> str:
    tests = {
        "integer": pa.types.is_signed_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "string": pa.types.is_string,
        "boolean": pa.types.is_boolean,
        "date": pa.types.is_date32,
        "timestamp": pa.types.is_timestamp,
    }
    return next((kind for kind, test in tests.items() if test(data_type)), "")


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array, with dictionaries decoded."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def null_ordering_count(
    ordering: pa.Array | pa.ChunkedArray, operations: pa.Array | pa.ChunkedArray | npt.NDArray[np.int8] | None = None
) -> int:
    """The number of rows that need an ordering value and have none: an upsert of such rows fails, as in Hudi 0.15.0.

    Hudi refuses them where it combines records (upsert; insert when combining is on), with "Ordering value is null for
    record". Its insert and bulk_insert without combining store them.

    Args:
        ordering: The ordering values.
        operations: `RecordOperation` of each row; plain deletes need no value. None: there are no plain deletes.
    """
    if ordering.null_count == 0:
        return 0
    if operations is None:
        return int(ordering.null_count)
    needed = np.asarray(operations) != RecordOperation.DELETE
    return int((needed & flags_in(ordering.is_null())).sum())


def ordering_key(ordering_fields: Sequence[str]) -> str:
    """The property that names the ordering fields, for messages."""
    return "hoodie.table.precombine.field" if len(ordering_fields) == 1 else "hoodie.table.ordering.fields"


def null_ordering_message(ordering_fields: Sequence[str], count: int, keys: Sequence[str | None] = ()) -> str:
    """The error message for rows that `null_ordering_count` found.

    Args:
        ordering_fields: The ordering fields.
        count: The number of these rows.
        keys: The record keys of some of these rows.
    """
    fields = f"field{'s'[: len(ordering_fields) - 1]} '{', '.join(ordering_fields)}'"
    shown = f", among them {', '.join(map(short_repr, keys))}" if keys else ""
    return (
        f"{count} records have a null in the ordering {fields} ({ordering_key(ordering_fields)}){shown}, so it is "
        "unknown which record of a key is newer; fill the column, or leave these records out"
    )
