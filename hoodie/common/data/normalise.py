"""Convert columns of any type to exactly the types that are stored; see `stored_types` for these.

Values never change silently: a conversion that would lose something is refused, naming the column and the first value.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.batch_pieces import MAX_BYTES, batch_pieces
from hoodie.common.data.exact_numbers import float_values, integer_values
from hoodie.common.data.stored_types import (
    BOOL8_EXTENSION,
    UUID_EXTENSION,
    find_field,
    fits,
    is_list,
    normalise_schema,
    stored_type,
)
from hoodie.common.data.widening import widened_floats
from hoodie.common.model.record_columns import OPERATION
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.arrow_buffers import pieces_of, rows_of, without_views
from hoodie.common.util.shown_value import short_repr, short_text
from hoodie.exception import HoodieSchemaException, MissingSchemaFieldException, SchemaCompatibilityException

_MILLIS_PER_DAY = 86_400_000
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def normalise_table(table: pa.Table, target_schema: pa.Schema | None = None, fill_missing: bool = False) -> pa.Table:
    """A table's columns, converted by `normalise_batch`; batches too large for the stored types are cut into several.

    Args:
        table: Any table.
        target_schema: The wanted schema; None for the result of `normalise_schema`.
        fill_missing: See `normalise_batch`.

    Raises:
        HoodieSchemaException: See `normalise_batch`.
    """
    schema = normalise_schema(table.schema) if target_schema is None else target_schema
    pieces = (piece for batch in table.to_batches() for piece in batch_pieces(batch))
    batches = [normalise_batch(piece, schema, fill_missing) for piece in pieces]
    return pa.Table.from_batches(batches, schema)


def normalise_batch(
    batch: pa.RecordBatch,
    target_schema: pa.Schema,
    fill_missing: bool = False,
    rounded: Collection[str] | None = None,
) -> pa.RecordBatch:
    """The columns of a target schema, found by name, in the order and with the types of that schema.

    Columns that are right already are not copied. Columns that the target lacks are left out. Names match as in Spark:
    a name that differs only in upper and lower case is used if there is no exact match.

    Args:
        batch: Columns of any type.
        target_schema: Stored types, from `normalise_schema` or a table's schema.
        fill_missing: Whether nullable columns that the batch lacks become null.
        rounded: Columns whose integers become the nearest floats if their type cannot hold them, as
            ``hoodie.write.schema.widen.lossy`` allows; None if that option does not apply (messages do not mention it).

    Raises:
        MissingSchemaFieldException: The batch lacks a column.
        SchemaCompatibilityException: A number or a type does not fit.
        HoodieSchemaException: A value does not fit (the message names the column and the first such value), or there
            is a null where the target allows none. Rows that are plain deletes carry no data and may have nulls.
    """
    if batch.schema.equals(target_schema) and all(map(_is_exact, batch.schema.types, target_schema.types)):
        _check_nulls(batch)
        return batch
    columns = []
    for field in target_schema:
        index = _column_index(batch.schema, field.name)
        if index < 0:
            columns.append(_missing_column(batch, field, fill_missing))
        else:
            columns.append(_converted(batch.column(index), field.type, field.name, rounded))
    result = pa.RecordBatch.from_arrays(columns, schema=target_schema)
    _check_nulls(result)
    return result


def check_text(batch: pa.RecordBatch) -> None:
    """Refuse strings that are no UTF-8: readers of the table would fail at them, some at all rows.

    Arrow does not look at strings that another library, or a cast without checks, gives it.

    Args:
        batch: Columns of stored types.

    Raises:
        HoodieSchemaException: The first such value, with its column.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if _has_text(field.type) and not _is_ascii(column):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                _refuse_no_text(column, field.name)
                raise HoodieSchemaException(
                    f"column '{field.name}' is no valid Arrow array: {short_text(error)}"
                ) from error


def _is_ascii(values: pa.Array) -> bool:
    """Whether a column of strings has no byte beyond ASCII, which is quicker to see than whether it is UTF-8."""
    if not pa.types.is_string(values.type) or not len(values):
        return False
    _, offsets, data = values.buffers()
    if offsets is None or data is None:
        return True
    start, end = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
    return bool(end == start or np.frombuffer(data, np.int8)[start:end].min() >= 0)


def _has_text(data_type: pa.DataType) -> bool:
    if not data_type.num_fields:
        return bool(pa.types.is_string(data_type))
    return bool(pa.types.is_map(data_type)) or any(_has_text(field.type) for field in _inner_fields(data_type))


def _refuse_no_text(values: pa.Array, path: str) -> None:
    """Raise an error for the first string that is no UTF-8, if there is one."""
    if pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            _refuse_no_text(child, f"{path}.{field.name}")
    elif pa.types.is_map(values.type):
        values = _without_hidden(values)
        _, start, length = _rebased_offsets(values)
        _refuse_no_text(values.keys.slice(start, length), f"{path}.key")
        _refuse_no_text(values.items.slice(start, length), f"{path}.value")
    elif is_list(values.type):
        _refuse_no_text(values.flatten(), f"{path}.element")
    elif pa.types.is_string(values.type):
        for value in values:
            content = value.as_buffer().to_pybytes() if value.is_valid else b""
            try:
                content.decode()
            except UnicodeDecodeError as error:
                raise HoodieSchemaException(
                    f"column '{path}' is text, and holds {short_repr(content)}, which is no UTF-8; decode it, or give "
                    "the column as binary"
                ) from error


def _column_index(schema: pa.Schema, name: str) -> int:
    index = int(schema.get_field_index(name))
    if index < 0:
        twin = find_field(schema, name)
        index = int(schema.get_field_index(twin.name)) if twin is not None else -1
    return index


def _missing_column(batch: pa.RecordBatch, field: pa.Field, fill_missing: bool) -> pa.Array:
    if batch.schema.get_all_field_indices(field.name):
        raise HoodieSchemaException(f"the input has several columns of the name '{field.name}'; rename them")
    if not (fill_missing and field.nullable):
        raise MissingSchemaFieldException(
            f"the input lacks the column '{field.name}'; its columns are: {', '.join(batch.schema.names)}"
        )
    return pa.nulls(batch.num_rows, field.type)


def _check_nulls(batch: pa.RecordBatch) -> None:
    has_data = None
    if OPERATION in batch.schema.names:
        has_data = pc.not_equal(batch.column(OPERATION), pa.scalar(int(RecordOperation.DELETE), pa.int8()))
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            nulls = column.is_null() if has_data is None else pc.and_(column.is_null(), has_data)
            count = pc.sum(nulls).as_py() or 0
            if count:
                raise HoodieSchemaException(
                    f"column '{field.name}' allows no nulls, but has {count} in one batch of input"
                )
        if pa.types.is_nested(field.type) and _has_required(field.type):
            _check_nested_nulls(column if has_data is None else column.filter(has_data), field.name)


def _has_required(data_type: pa.DataType) -> bool:
    """Whether something inside a nested type is not nullable."""
    return any(not field.nullable or _has_required(field.type) for field in _inner_fields(data_type))


def _inner_fields(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(data_type):
        return list(data_type)
    if pa.types.is_map(data_type):
        return [data_type.item_field]
    return [data_type.value_field] if is_list(data_type) else []


def _check_nested_nulls(values: pa.Array, path: str) -> None:
    present = values.drop_null() if values.null_count else values
    if pa.types.is_struct(values.type):
        children, names = present.flatten(), [field.name for field in values.type]
    elif pa.types.is_map(values.type):
        _, start, length = _rebased_offsets(present)
        children, names = [present.items.slice(start, length)], ["value"]
    else:
        children, names = [present.flatten()], ["element"]
    for field, name, child in zip(_inner_fields(values.type), names, children, strict=True):
        if not field.nullable and child.null_count:
            raise HoodieSchemaException(f"column '{path}.{name}' allows no nulls, but has some in the input")
        if _has_required(field.type):
            _check_nested_nulls(child, f"{path}.{name}")


def _is_exact(data_type: pa.DataType, target: pa.DataType) -> bool:
    """Whether types are equal, including the names of list elements (Arrow's own comparison ignores these)."""
    if data_type != target:
        return False
    if not target.num_fields:
        return True
    if pa.types.is_list(target):
        return (
            data_type.value_field.name == target.value_field.name
            and data_type.value_field.nullable == target.value_field.nullable
            and _is_exact(data_type.value_type, target.value_type)
        )
    if pa.types.is_struct(target):
        return all(
            one.nullable == other.nullable and _is_exact(one.type, other.type)
            for one, other in zip(data_type, target, strict=True)
        )
    if pa.types.is_map(target):
        return data_type.item_field.nullable == target.item_field.nullable and _is_exact(
            data_type.item_type, target.item_type
        )
    return True


def _converted(values: pa.Array, target: pa.DataType, path: str, rounded: Collection[str] | None) -> pa.Array:
    """Convert values to a stored type.

    Raises:
        HoodieSchemaException: A value would lose something, or the type does not fit.
    """
    if _is_exact(values.type, target):
        return values
    if isinstance(values.type, pa.BaseExtensionType):
        return _converted_extension(values, target, path, rounded)
    if pa.types.is_dictionary(values.type):
        return _converted(_dictionary_decoded(values), target, path, rounded)
    if pa.types.is_run_end_encoded(values.type):
        return _converted(pc.run_end_decode(values), target, path, rounded)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if pa.types.is_struct(target) and pa.types.is_struct(values.type):
        return _converted_struct(values, target, path, rounded)
    if pa.types.is_list(target) and is_list(values.type):
        return _converted_list(values, target, path, rounded)
    if pa.types.is_map(target) and pa.types.is_map(values.type):
        return _converted_map(values, target, path, rounded)
    normal = stored_type(values.type, path, target)
    if values.type != target and not fits(normal, target):
        raise SchemaCompatibilityException(
            f"column '{path}': the table has {target}, the input {values.type}; cast the input to the table's type"
        )
    if pa.types.is_timestamp(target):
        return _converted_timestamp(values, target, path)
    if pa.types.is_float32(values.type) and pa.types.is_float64(target):
        return widened_floats(values)
    if pa.types.is_floating(values.type) and pa.types.is_integer(target):
        return integer_values(values, target, path, rounded is not None)
    if pa.types.is_integer(values.type) and pa.types.is_floating(target):
        return float_values(values, target, path, rounded is not None and path in rounded, rounded is not None)
    if pa.types.is_date64(values.type):
        _check_whole_days(values, path)
    return _safe_cast(values, target, path)


def _converted_extension(
    values: pa.ExtensionArray, target: pa.DataType, path: str, rounded: Collection[str] | None
) -> pa.Array:
    if values.type.extension_name == UUID_EXTENSION and pa.types.is_string(target):
        return _uuid_strings(values.storage)
    if values.type.extension_name == BOOL8_EXTENSION:
        return _converted(values.storage.cast(pa.bool_()), target, path, rounded)
    return _converted(values.storage, target, path, rounded)


def _uuid_strings(values: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Format 16 bytes each as 36 characters: ``01234567-89ab-cdef-0123-456789abcdef``."""
    present = values.drop_null()
    data = np.frombuffer(present.cast(pa.binary()).buffers()[2] or b"", np.uint8)
    data = data[16 * present.offset :][: 16 * len(present)].reshape(-1, 16)
    text = np.full((len(present), 36), ord("-"), np.uint8)
    places = np.setdiff1d(np.arange(36), [8, 13, 18, 23])
    text[:, places[0::2]] = _HEX_DIGITS[data >> 4]
    text[:, places[1::2]] = _HEX_DIGITS[data & 15]
    strings = rows_of(text, pa.string())
    if not values.null_count:
        return strings
    number = pc.cumulative_sum(values.is_valid().cast(pa.int32()))
    return strings.take(pc.if_else(values.is_valid(), pc.subtract(number, 1), None))


def _dictionary_decoded(values: pa.DictionaryArray) -> pa.Array:
    if pa.types.is_string_view(values.type.value_type) or pa.types.is_binary_view(values.type.value_type):
        # Arrow's take does not support view types.
        values = pa.DictionaryArray.from_arrays(values.indices, without_views(values.dictionary))
    return values.dictionary_decode()


def _converted_timestamp(values: pa.Array, target: pa.TimestampType, path: str) -> pa.Array:
    micros = _safe_cast(values, pa.timestamp("us", tz=values.type.tz), path)
    return micros if micros.type == target else micros.view(target)


def _check_whole_days(values: pa.Array, path: str) -> None:
    millis = values.view(pa.int64())
    rest = millis.fill_null(0).to_numpy(zero_copy_only=False) % _MILLIS_PER_DAY
    if rest.any():
        first = millis[int(np.flatnonzero(rest)[0])].as_py()
        raise HoodieSchemaException(
            f"column '{path}' of type date64 has a time of day in it (first value: {first} milliseconds since 1970); "
            "cast it to a timestamp or to date32"
        )


def _safe_cast(values: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    try:
        return _cast(values, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        first = _first_that_fails(values, target)
        is_scale = pa.types.is_decimal(values.type) and pa.types.is_decimal(target)
        raise (SchemaCompatibilityException if is_scale else HoodieSchemaException)(
            f"column '{path}' of type {values.type} cannot be stored as {target} without losing something, first "
            f"value: {first}; round or cast the column"
        ) from error


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type):
        values = _with_small_offsets(values)
    if pa.types.is_decimal(values.type) and pa.types.is_decimal(target) and target.scale > values.type.scale:
        # Arrow multiplies in the type's own bits and misses some overflows; 76 digits hold every product.
        values = values.cast(pa.decimal256(76, target.scale))
    return without_views(values).cast(target, safe=True)


def _with_small_offsets(values: pa.Array) -> pa.Array:
    """Large text with offsets of 32 bits, also for a slice beyond 2 GiB of a larger array, which Arrow's cast
    refuses.
    """
    start, end = values.offset, values.offset + len(values)
    buffers = values.buffers()
    if not len(values) or buffers[1] is None:
        return values
    offsets = np.frombuffer(buffers[1], np.int64)[start : end + 1]
    if offsets[-1] <= MAX_BYTES or offsets[-1] - offsets[0] > MAX_BYTES:
        return values
    valid = values.is_valid().buffers()[1] if values.null_count else None
    rebased = (offsets - offsets[0]).astype(np.int32)
    data = buffers[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    plain_type = pa.string() if pa.types.is_large_string(values.type) else pa.binary()
    return pieces_of(data, rebased, plain_type, valid)


def _first_that_fails(values: pa.Array, target: pa.DataType) -> str:
    """The first value that a safe cast refuses; bisects the values."""
    low, count = 0, len(values)
    while count > 1:
        half = count // 2
        try:
            _cast(values.slice(low, half), target)
            low, count = low + half, count - half
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            count = half
    value = values.slice(low, 1)
    if pa.types.is_timestamp(value.type):
        return f"{value.view(pa.int64())[0].as_py()} {value.type.unit} since 1970"
    return short_repr(value[0].as_py())


def _converted_struct(
    values: pa.StructArray, target: pa.StructType, path: str, rounded: Collection[str] | None
) -> pa.Array:
    children = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
    columns = []
    for field in target:
        where = f"{path}.{field.name}"
        source = find_field(values.type, field.name)
        if source is not None:
            column = _converted(children[source.name], field.type, where, rounded)
        elif field.nullable:
            column = pa.nulls(len(values), field.type)
        else:
            raise MissingSchemaFieldException(f"the input lacks '{where}': the table's schema allows no nulls there")
        if not field.nullable and column.null_count > values.null_count:
            raise HoodieSchemaException(f"column '{where}' allows no nulls, but has some in the input")
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=_null_mask(values))


def _converted_list(values: pa.Array, target: pa.ListType, path: str, rounded: Collection[str] | None) -> pa.Array:
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        offsets, children = _list_view_content(values)
    else:
        if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
            values = values.cast(pa.list_(values.type.value_field))
        values = _without_hidden(values)
        offsets, start, length = _rebased_offsets(values)
        children = values.values.slice(start, length)
    elements = _converted(children, target.value_type, f"{path}.element", rounded)
    if not target.value_field.nullable and elements.null_count:
        raise HoodieSchemaException(f"column '{path}.element' allows no nulls, but has some in the input")
    return pa.ListArray.from_arrays(offsets, elements, type=target, mask=_null_mask(values))


def _list_view_content(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets and children of a list view, in the form of a list (Arrow's own cast loses the last list)."""
    sizes = values.sizes.to_numpy(zero_copy_only=False) * values.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), values.flatten()


def _converted_map(values: pa.MapArray, target: pa.MapType, path: str, rounded: Collection[str] | None) -> pa.Array:
    values = _without_hidden(values)
    offsets, start, length = _rebased_offsets(values)
    keys = _converted(values.keys.slice(start, length), target.key_type, f"{path}.key", rounded)
    items = _converted(values.items.slice(start, length), target.item_type, f"{path}.value", rounded)
    if not target.item_field.nullable and items.null_count:
        raise HoodieSchemaException(f"column '{path}.value' allows no nulls, but has some in the input")
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=_null_mask(values))


def _without_hidden(values: pa.Array) -> pa.Array:
    """Lists or maps whose nulls have no elements: Arrow allows hidden elements there, which have no meaning."""
    if values.null_count:
        lengths = np.diff(values.offsets.to_numpy(zero_copy_only=False))
        if lengths[values.is_null().to_numpy(zero_copy_only=False)].any():
            return values.take(pa.array(np.arange(len(values))))
    return values


def _rebased_offsets(values: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that begin at 0, and the range of children that they refer to (an array may be a slice of another)."""
    offsets = values.offsets.to_numpy(zero_copy_only=False)
    start = int(offsets[0]) if len(offsets) else 0
    end = int(offsets[-1]) if len(offsets) else 0
    return pa.array(offsets - start, pa.int32()), start, end - start


def _null_mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None
