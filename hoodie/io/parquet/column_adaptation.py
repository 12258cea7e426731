"""Convert the columns of a file to the types of a schema.

Files of one table differ: columns were added, types were widened, other writers encode lists, decimals and timestamps
in their own ways. Numbers are widened as in Hudi: integers are rounded to the nearest float, and a float becomes the
double with the same decimal digits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.widening import widened_floats
from hoodie.common.util.arrow_buffers import without_views
from hoodie.exception import MissingSchemaFieldException, SchemaCompatibilityException

_ELEMENT_OF_AVRO = "array"


def chosen_schema(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The given columns of a schema.

    Args:
        schema: The schema.
        columns: Their names, in the order of the result; None for all.

    Raises:
        MissingSchemaFieldException: A column is not in the schema.
    """
    if columns is None:
        return schema.remove_metadata()
    known = set(schema.names)
    missing = [name for name in columns if name not in known]
    if missing:
        raise MissingSchemaFieldException(
            f"the schema has no column {', '.join(missing)}; it has {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in columns])


def adapt_batch(
    batch: pa.RecordBatch, wanted: pa.Schema, source: str, dictionaries: Collection[str] = ()
) -> pa.RecordBatch:
    """Rows in the columns and types of a schema; columns that they lack are null.

    Args:
        batch: Rows as they were read, with at least one column.
        wanted: The columns and types of the result.
        source: The file, for messages.
        dictionaries: Columns that stay dictionaries if they are dictionaries.

    Raises:
        SchemaCompatibilityException: A column cannot be converted to its type.
    """
    columns = []
    for field in wanted:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(index)
        if field.name in dictionaries and column.type == pa.dictionary(pa.int32(), field.type):
            columns.append(column)
            continue
        try:
            columns.append(adapt_column(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaCompatibilityException(
                f"reading {source}: column {field.name} is {column.type} in the file and cannot be read as "
                f"{field.type}: {error}; read it with the schema that the file was written with"
            ) from error
    if dictionaries:
        fields = [field.with_type(column.type) for field, column in zip(wanted, columns, strict=True)]
        wanted = pa.schema(fields)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def adapt_column(column: pa.Array, target: pa.DataType) -> pa.Array:
    """A column in another type.

    Struct fields are matched by name, also within lists and maps: a missing field becomes nulls, and a field that the
    target lacks is left out. The names of list elements and map entries do not matter. Dictionaries and views are
    expanded.

    Args:
        column: Values as read.
        target: The type to convert to.

    Raises:
        pa.ArrowInvalid: A value does not fit the type.
        pa.ArrowNotImplementedError: The one type cannot be converted to the other.
    """
    source = column.type
    if source == target and not pa.types.is_nested(target):
        return column
    if pa.types.is_dictionary(source):
        return adapt_column(column.dictionary_decode(), target)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _adapt_struct(column, target)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _adapt_map(column, target)
    if _is_list(source) and pa.types.is_list(target):
        return _adapt_list(column, target)
    if pa.types.is_list(target) and pa.types.is_struct(source) and [f.name for f in source] == [_ELEMENT_OF_AVRO]:
        # Old releases of Arrow read parquet-avro's list of lists with a struct around the inner list.
        return adapt_column(column.flatten()[0], target)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # Spark's INT96 timestamps are nanoseconds that hold microseconds.
        return pc.cast(column, target, safe=False) if source.unit == "ns" else pc.cast(column, target)
    if pa.types.is_float32(source) and pa.types.is_float64(target):
        return widened_floats(column)
    if pa.types.is_floating(source) and pa.types.is_string(target):
        raise pa.ArrowNotImplementedError("Java's digits of floating-point numbers are not made when a file is read")
    return pc.cast(
        without_views(column), target, safe=not (pa.types.is_integer(source) and pa.types.is_floating(target))
    )


def with_encoding(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly the types of a schema; only dictionary encoding may differ."""
    columns = [column_with_encoding(column, kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column_with_encoding(column: pa.Array, target: pa.DataType) -> pa.Array:
    """A column of exactly a type, from which only its dictionary encoding may differ.

    Args:
        column: The values.
        target: The type.
    """
    if column.type == target:
        return column
    return column.cast(target) if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _adapt_struct(column: pa.StructArray, target: pa.StructType) -> pa.Array:
    children = []
    for field in target:
        index = column.type.get_field_index(field.name)
        child = pa.nulls(len(column), field.type) if index < 0 else adapt_column(column.field(index), field.type)
        children.append(child)
    if not children:
        return pa.array([None if null else {} for null in column.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(column))


def _adapt_list(column: pa.Array, target: pa.ListType) -> pa.Array:
    # A slice's offsets and values may start anywhere, and a null list may span values: flatten and recount.
    values = adapt_column(column.flatten(), target.value_type)
    return pa.ListArray.from_arrays(_offsets(column), values, type=target, mask=_null_mask(column))


def _adapt_map(column: pa.MapArray, target: pa.MapType) -> pa.Array:
    as_list = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    entries = as_list.flatten()
    keys = adapt_column(entries.field(0), target.key_type)
    items = adapt_column(entries.field(1), target.item_type)
    return pa.MapArray.from_arrays(_offsets(as_list), keys, items, type=target, mask=_null_mask(as_list))


def _offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _null_mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
