"""The one border: whatever comes in leaves with types that Hudi stores, on every engine the same.

==========================================  ==================  ===============================================
input                                       becomes             refused
==========================================  ==================  ===============================================
string, large_string, string_view           string
binary, large, view, fixed size             binary
int8, int16, int32, uint8, uint16           int32 (Avro has no smaller integer)
int64, uint32                               int64               uint64: cast it to int64 or decimal
half float, float                           float
double, bool                                the same
decimal32/64/128/256                        decimal128          a precision beyond 38
date32, date64                              date32              a date64 with a time of day
timestamp of any unit, with a time zone     timestamp(us, UTC)  a remainder below microseconds
timestamp of any unit, without one          timestamp(us, UTC)  the same
list, large, view, fixed size               list of "element"
struct, map with string keys                the same            maps with other keys
dictionary, run-end encoded, extension      their values
null, time, duration, interval, union                           always
==========================================  ==================  ===============================================

The same holds inside lists, maps and structs. A timestamp without a time zone is taken as UTC: Hudi 0.x turns a
stored local timestamp into a plain number when it next writes the file. Only a table that has such a column already
(`timestamp(us)` in the target schema) gets local timestamps.

Values never change silently: what would lose something is refused with the column and the first such value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodie.common.model.record import HoodieRecord
from hoodie.common.model.record_columns import (
    META_COLUMN_SET,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    RESERVED_COLUMNS,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import (
    HoodieException,
    HoodieSchemaException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)

__all__ = [
    "RecordSource",
    "check_schema",
    "normalise_batch",
    "normalise_schema",
    "normalise_table",
    "record_batches",
]

_RESERVED_PREFIX = "__hoodie_"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_FRAME_MODULES = ("pandas", "polars")
_MILLIS_PER_DAY = 86_400_000
_MAX_DECIMAL_PRECISION = 38
_UTC_MICROS = pa.timestamp("us", tz="UTC")
_LOCAL_MICROS = pa.timestamp("us")
_INTEGER_WIDTHS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_PROMOTIONS = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
"""What Avro reads as a wider type. Integers become floats only where no value is lost, which is checked by value."""


# ---------------------------------------------------------------------------------------------------------- schemas


def normalise_schema(schema: pa.Schema, known_schema: pa.Schema | None = None) -> pa.Schema:
    """The columns of an input with the types in which they are stored.

    Hudi's meta columns and the index columns that pandas makes up are left out. Nullability is kept; metadata is not.

    Args:
        schema: Any schema; hoodie's reserved columns keep their names and types.
        known_schema: The table's schema: it gives a type to what is null only, and says which timestamps without a
            time zone are local ones.

    Raises:
        HoodieSchemaException: A type cannot be stored, two columns have one name (upper and lower case are one to
            Spark), or a name begins with ``__hoodie_``; the message names the columns.
    """
    fields = [field for field in schema if not _is_dropped(field.name)]
    _check_names([field.name for field in fields])
    known = {} if known_schema is None else {field.name: field.type for field in known_schema}
    return pa.schema([_normal_field(field, field.name, known.get(field.name)) for field in fields])


def _is_dropped(name: str) -> bool:
    return name in META_COLUMN_SET or _PANDAS_INDEX.fullmatch(name) is not None


def _check_names(names: Sequence[str]) -> None:
    reserved = [name for name in names if name.startswith(_RESERVED_PREFIX) and name not in RESERVED_COLUMNS]
    if reserved:
        raise HoodieSchemaException(
            f"columns {', '.join(reserved)}: names beginning with '{_RESERVED_PREFIX}' are hoodie's own; rename them"
        )
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise HoodieSchemaException(
                f"the input has the columns '{seen[name.lower()]}' and '{name}', which Spark cannot tell apart: names "
                "must differ in more than upper and lower case; rename one of them"
            )
        seen[name.lower()] = name


def _normal_field(field: pa.Field, path: str, known: pa.DataType | None) -> pa.Field:
    reserved = RESERVED_COLUMNS.get(path)
    if reserved is not None and field.type == reserved:
        return pa.field(field.name, reserved, field.nullable)
    return pa.field(field.name, _normal_type(field.type, path, known), field.nullable)


def _normal_type(data_type: pa.DataType, path: str, known: pa.DataType | None = None) -> pa.DataType:
    """The type in which values are stored; ``known`` is the table's, where it has the column."""
    for is_type, normal in _SCALAR_TYPES:
        if is_type(data_type):
            return normal
    if pa.types.is_null(data_type) and known is not None:
        return known
    if pa.types.is_decimal(data_type):
        if data_type.precision > _MAX_DECIMAL_PRECISION:
            raise _refused(path, data_type, f"decimals have at most {_MAX_DECIMAL_PRECISION} digits; round it")
        return pa.decimal128(data_type.precision, data_type.scale)
    if pa.types.is_timestamp(data_type):
        return _LOCAL_MICROS if data_type.tz is None and known == _LOCAL_MICROS else _UTC_MICROS
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return _normal_type(data_type.value_type, path, known)
    if isinstance(data_type, pa.BaseExtensionType):
        return _normal_type(data_type.storage_type, path, known)
    if _is_nested(data_type):
        return _normal_nested(data_type, path, known if known and _nesting(known) == _nesting(data_type) else None)
    raise _refused(path, data_type, _WAYS_OUT.get(data_type.id, "there is no such type in Avro; cast the column"))


def _normal_nested(data_type: pa.DataType, path: str, known: pa.DataType | None) -> pa.DataType:
    if pa.types.is_struct(data_type):
        _check_names([field.name for field in data_type])
        types = {} if known is None else {field.name: field.type for field in known}
        return pa.struct([_normal_field(field, f"{path}.{field.name}", types.get(field.name)) for field in data_type])
    if _is_list(data_type):
        element, element_known = data_type.value_field, None if known is None else known.value_type
        element_type = _normal_type(element.type, f"{path}.element", element_known)
        return pa.list_(pa.field("element", element_type, element.nullable))
    key_type = _normal_type(data_type.key_type, f"{path}.key")
    if not pa.types.is_string(key_type):
        raise _refused(path, data_type, "the keys of a map must be strings; cast them, or store a list of structs")
    item, item_known = data_type.item_field, None if known is None else known.item_type
    item_type = _normal_type(item.type, f"{path}.value", item_known)
    return pa.map_(pa.string(), pa.field("value", item_type, item.nullable))


def _is_nested(data_type: pa.DataType) -> bool:
    return _nesting(data_type) != ""


def _nesting(data_type: pa.DataType) -> str:
    if pa.types.is_struct(data_type):
        return "struct"
    if _is_list(data_type):
        return "list"
    return "map" if pa.types.is_map(data_type) else ""


def _is_list(data_type: pa.DataType) -> bool:
    return any(is_type(data_type) for is_type in _LIST_TESTS)


_LIST_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_SCALAR_TYPES: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), pa.string()),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (lambda t: t in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), pa.int32()),
    (lambda t: t in (pa.int64(), pa.uint32()), pa.int64()),
    (lambda t: pa.types.is_float16(t) or pa.types.is_float32(t), pa.float32()),
    (pa.types.is_float64, pa.float64()),
    (pa.types.is_boolean, pa.bool_()),
    (pa.types.is_date, pa.date32()),
)
_WAYS_OUT = {
    pa.uint64().id: "Avro has no unsigned integers; cast it to int64 where the values fit, or to decimal128(20, 0)",
    pa.null().id: "it holds nulls only, so its type is unknown; give it a type, or leave it out",
    pa.time32("s").id: "Hudi cannot store a time of day; cast it to int64 or string",
    pa.time64("us").id: "Hudi cannot store a time of day; cast it to int64 or string",
    pa.duration("us").id: "Hudi cannot store a duration; cast it to int64",
    pa.month_day_nano_interval().id: "Hudi cannot store an interval; cast it to int64 or string",
}


def _refused(path: str, data_type: pa.DataType, way_out: str) -> HoodieSchemaException:
    return HoodieSchemaException(f"column '{path}' of type {data_type} cannot be stored: {way_out}")


# ----------------------------------------------------------------------------------------- the table and the input


def check_schema(
    table_schema: pa.Schema | None, input_schema: pa.Schema, set_null_for_missing: bool = False
) -> pa.Schema:
    """The schema in which an input is written to a table.

    It has the table's columns with the table's types, then the columns that only the input has, nullable. Columns
    match by name. A column of the input may be narrower than the table's (int32 for int64, float for double): it is
    widened. The same holds for the fields of structs.

    Args:
        table_schema: The table's user columns; None for a table without any yet.
        input_schema: The input's columns, of any type; reserved and meta columns are left out.
        set_null_for_missing: Whether a column of the table that the input lacks is written as null
            (``hoodie.write.set.null.for.missing.columns``).

    Raises:
        MissingSchemaFieldException: The input lacks columns of the table; all are named.
        SchemaCompatibilityException: Columns have types that do not fit; all are named with both types.
        HoodieSchemaException: As `normalise_schema`.
    """
    normal = normalise_schema(input_schema, table_schema)
    incoming = [field for field in normal if field.name not in RESERVED_COLUMNS]
    if table_schema is None or len(table_schema) == 0:
        return pa.schema(incoming)
    stored = [field for field in table_schema if field.name not in META_COLUMN_SET]
    merger = _SchemaMerger(set_null_for_missing)
    merged = merger.merge_fields(stored, incoming, "")
    merger.raise_problems()
    return pa.schema(merged)


class _SchemaMerger:
    """Collects everything that is wrong, so that one error names it all."""

    def __init__(self, set_null_for_missing: bool) -> None:
        self._set_null = set_null_for_missing
        self._missing: list[str] = []
        self._required: list[str] = []
        self._conflicts: list[str] = []

    def merge_fields(self, stored: Sequence[pa.Field], incoming: Sequence[pa.Field], prefix: str) -> list[pa.Field]:
        by_name = {field.name: field for field in incoming}
        merged = []
        for field in stored:
            path = prefix + field.name
            if field.name in by_name:
                self._check_type(field.type, by_name[field.name].type, path)
                merged.append(
                    pa.field(field.name, self._merged_type(field.type, by_name[field.name].type, path), field.nullable)
                )
            else:
                merged.append(field)
                self._missing_field(field, path)
        lower = {field.name.lower(): field.name for field in stored}
        known = {field.name for field in stored}
        for field in incoming:
            if field.name in known:
                continue
            twin = lower.get(field.name.lower())
            if twin is not None:
                self._conflicts.append(
                    f"{prefix}{field.name}: the table has {prefix}{twin}, which differs in case only"
                )
            merged.append(field.with_nullable(True))
        return merged

    def raise_problems(self) -> None:
        if self._conflicts:
            raise SchemaCompatibilityException(
                "the input does not fit the table's schema: " + "; ".join(self._conflicts) + ". Cast these columns of "
                "the input to the table's types"
            )
        if self._required:
            raise MissingSchemaFieldException(
                f"the input lacks {', '.join(self._required)}: the table's schema allows no nulls there"
            )
        if self._missing:
            raise MissingSchemaFieldException(
                f"the input lacks columns of the table: {', '.join(self._missing)}. Add them, or set "
                "hoodie.write.set.null.for.missing.columns=true to write nulls there"
            )

    def _missing_field(self, field: pa.Field, path: str) -> None:
        if not field.nullable:
            self._required.append(path)
        elif not self._set_null:
            self._missing.append(path)

    def _check_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> None:
        if _is_nested(stored) or _is_nested(incoming):
            if _nesting(stored) != _nesting(incoming):
                self._conflict(path, stored, incoming)
        elif not _fits(incoming, stored):
            self._conflict(path, stored, incoming)

    def _conflict(self, path: str, stored: pa.DataType, incoming: pa.DataType) -> None:
        hint = " (wider than the table's; a column's type cannot be widened yet)" if _fits(stored, incoming) else ""
        self._conflicts.append(f"{path}: the table has {stored}, the input {incoming}{hint}")

    def _merged_type(self, stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        """The table's type, with the fields that structs of the input add."""
        if _nesting(stored) != _nesting(incoming):
            return stored
        if pa.types.is_struct(stored):
            return pa.struct(self.merge_fields(list(stored), list(incoming), f"{path}."))
        if pa.types.is_list(stored):
            element = self._merged_item(stored.value_field, incoming.value_field, f"{path}.element")
            return pa.list_(element)
        if pa.types.is_map(stored):
            return pa.map_(stored.key_type, self._merged_item(stored.item_field, incoming.item_field, f"{path}.value"))
        return stored

    def _merged_item(self, stored: pa.Field, incoming: pa.Field, path: str) -> pa.Field:
        self._check_type(stored.type, incoming.type, path)
        return stored.with_type(self._merged_type(stored.type, incoming.type, path))


def _fits(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether values of one stored type can be written to a column of the other."""
    if narrow == wide:
        return True
    if narrow in _INTEGER_WIDTHS and wide in _INTEGER_WIDTHS:
        # Tables declare int8 or int16 only in Spark's own schema; they are an int on storage.
        return _INTEGER_WIDTHS[narrow] <= max(_INTEGER_WIDTHS[wide], 32)
    if wide in _PROMOTIONS.get(narrow, ()):
        return True
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)
    return bool(pa.types.is_binary(narrow) and pa.types.is_fixed_size_binary(wide))


# ---------------------------------------------------------------------------------------------------------- batches


def normalise_table(table: pa.Table, target_schema: pa.Schema | None = None, fill_missing: bool = False) -> pa.Table:
    """A table's columns as `normalise_batch` makes them.

    Args:
        table: Any table.
        target_schema: The schema wanted; None for what `normalise_schema` gives.
        fill_missing: As of `normalise_batch`.

    Raises:
        HoodieSchemaException: As `normalise_batch`.
    """
    schema = normalise_schema(table.schema) if target_schema is None else target_schema
    batches = [normalise_batch(batch, schema, fill_missing) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)


def normalise_batch(batch: pa.RecordBatch, target_schema: pa.Schema, fill_missing: bool = False) -> pa.RecordBatch:
    """The columns of a target schema, found by name, in its order and types.

    Nothing is copied where a column is right already. Columns that the target lacks are left out.

    Args:
        batch: Columns of any type.
        target_schema: Stored types, as `normalise_schema` or a table's schema has them.
        fill_missing: Whether nullable columns that the batch lacks become null.

    Raises:
        MissingSchemaFieldException: The batch lacks a column.
        HoodieSchemaException: A value does not fit (the message names the column and the first such value), or there
            is a null where the target allows none. Rows that are plain deletes carry no data and may have nulls.
    """
    if batch.schema.equals(target_schema) and all(map(_is_exact, batch.schema.types, target_schema.types)):
        _check_nulls(batch)
        return batch
    columns = []
    for field in target_schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            columns.append(_missing_column(batch, field, fill_missing))
        else:
            columns.append(_converted(batch.column(index), field.type, field.name))
    result = pa.RecordBatch.from_arrays(columns, schema=target_schema)
    _check_nulls(result)
    return result


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
        if _has_required(field.type):
            _check_nested_nulls(column if has_data is None else column.filter(has_data), field.name)


def _has_required(data_type: pa.DataType) -> bool:
    """Whether something inside a nested type allows no nulls."""
    return any(not field.nullable or _has_required(field.type) for field in _inner_fields(data_type))


def _inner_fields(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(data_type):
        return list(data_type)
    if pa.types.is_map(data_type):
        return [data_type.item_field]
    return [data_type.value_field] if _is_list(data_type) else []


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
    """Equal types, the names of list elements included (Arrow's own equality leaves those out)."""
    if data_type != target:
        return False
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


def _converted(values: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """The values in a stored type.

    Raises:
        HoodieSchemaException: A value would lose something, or the type does not fit.
    """
    if _is_exact(values.type, target):
        return values
    if isinstance(values.type, pa.BaseExtensionType):
        return _converted(values.storage, target, path)
    if pa.types.is_dictionary(values.type):
        return _converted(_dictionary_decoded(values), target, path)
    if pa.types.is_run_end_encoded(values.type):
        return _converted(pc.run_end_decode(values), target, path)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if pa.types.is_struct(target) and pa.types.is_struct(values.type):
        return _converted_struct(values, target, path)
    if pa.types.is_list(target) and _is_list(values.type):
        return _converted_list(values, target, path)
    if pa.types.is_map(target) and pa.types.is_map(values.type):
        return _converted_map(values, target, path)
    normal = _normal_type(values.type, path, target)
    if values.type != target and not _fits(normal, target):
        raise SchemaCompatibilityException(
            f"column '{path}': the table has {target}, the input {values.type}; cast the input to the table's type"
        )
    if pa.types.is_timestamp(target):
        return _converted_timestamp(values, target, path)
    if pa.types.is_date64(values.type):
        _check_whole_days(values, path)
    return _safe_cast(values, target, path)


def _dictionary_decoded(values: pa.DictionaryArray) -> pa.Array:
    if pa.types.is_string_view(values.type.value_type) or pa.types.is_binary_view(values.type.value_type):
        # Arrow cannot take from views.
        plain = pa.string() if pa.types.is_string_view(values.type.value_type) else pa.binary()
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(plain))
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
        return values.cast(target, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        first = _first_that_fails(values, target)
        raise HoodieSchemaException(
            f"column '{path}' of type {values.type} cannot be stored as {target} without losing something, first "
            f"value: {first}; round or cast the column"
        ) from error


def _first_that_fails(values: pa.Array, target: pa.DataType) -> str:
    """The first value that a safe cast refuses, found by halving."""
    low, count = 0, len(values)
    while count > 1:
        half = count // 2
        try:
            values.slice(low, half).cast(target, safe=True)
            low, count = low + half, count - half
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            count = half
    value = values.slice(low, 1)
    if pa.types.is_timestamp(value.type):
        return f"{value.view(pa.int64())[0].as_py()} {value.type.unit} since 1970"
    return repr(value[0].as_py())


def _converted_struct(values: pa.StructArray, target: pa.StructType, path: str) -> pa.Array:
    children = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
    columns = []
    for field in target:
        where = f"{path}.{field.name}"
        if field.name in children:
            column = _converted(children[field.name], field.type, where)
        elif field.nullable:
            column = pa.nulls(len(values), field.type)
        else:
            raise MissingSchemaFieldException(f"the input lacks '{where}': the table's schema allows no nulls there")
        if not field.nullable and column.null_count > values.null_count:
            raise HoodieSchemaException(f"column '{where}' allows no nulls, but has some in the input")
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=_null_mask(values))


def _converted_list(values: pa.Array, target: pa.ListType, path: str) -> pa.Array:
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        offsets, children = _list_view_content(values)
    else:
        if not pa.types.is_list(values.type):
            values = values.cast(pa.list_(values.type.value_field))
        offsets, start, length = _rebased_offsets(values)
        children = values.values.slice(start, length)
    elements = _converted(children, target.value_type, f"{path}.element")
    if not target.value_field.nullable and elements.null_count:
        raise HoodieSchemaException(f"column '{path}.element' allows no nulls, but has some in the input")
    return pa.ListArray.from_arrays(offsets, elements, type=target, mask=_null_mask(values))


def _list_view_content(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets and children of a list view as those of a list (Arrow's own cast loses the last list)."""
    sizes = values.sizes.to_numpy(zero_copy_only=False) * values.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), values.flatten()


def _converted_map(values: pa.MapArray, target: pa.MapType, path: str) -> pa.Array:
    offsets, start, length = _rebased_offsets(values)
    keys = _converted(values.keys.slice(start, length), target.key_type, f"{path}.key")
    items = _converted(values.items.slice(start, length), target.item_type, f"{path}.value")
    if not target.item_field.nullable and items.null_count:
        raise HoodieSchemaException(f"column '{path}.value' allows no nulls, but has some in the input")
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=_null_mask(values))


def _rebased_offsets(values: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that begin at 0, and the range of children they speak of: an array may be a slice of a longer one."""
    offsets = values.offsets.to_numpy(zero_copy_only=False)
    start = int(offsets[0]) if len(offsets) else 0
    end = int(offsets[-1]) if len(offsets) else 0
    return pa.array(offsets - start, pa.int32()), start, end - start


def _null_mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


# ----------------------------------------------------------------------------------------------------------- inputs


@attrs.define
class RecordSource:
    """An input with its rows as batches of stored types.

    Attributes:
        schema: Schema of every batch.
        table: All rows, when the input holds them in memory; else None.
        is_one_shot: Whether the batches can be had only once, because the input is an iterator or a stream.
    """

    schema: pa.Schema
    table: pa.Table | None
    is_one_shot: bool
    _open: Callable[[], Iterator[pa.RecordBatch]]
    _is_consumed: bool = attrs.field(default=False, init=False)

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the first one; each access starts again, where that is possible.

        Raises:
            HoodieException: They were handed out before, and can be had only once.
        """
        if self.is_one_shot and self._is_consumed:
            raise HoodieException("the input is a stream that can be read only once, and it was read before")
        self._is_consumed = True
        return self._open()


def record_batches(records: Any, schema: pa.Schema | None = None) -> RecordSource:
    """Records in any form that the in-process engine takes, as batches of stored types.

    ======================================================  ==========  ========================================
    input                                                   in memory   types
    ======================================================  ==========  ========================================
    pyarrow Table, RecordBatch; pandas, polars DataFrame    yes         its own
    list of dicts, list of HoodieRecord                     yes         of ``schema``, else inferred
    pyarrow.dataset.Dataset                                 no          its own; can be read again
    RecordBatchReader, other ``__arrow_c_stream__`` (a      no          its own; can be read once
    DuckDB relation), an iterator of batches or tables
    ======================================================  ==========  ========================================

    A list of `HoodieRecord` brings its keys: besides the columns of the data there are ``RECORD_KEY``,
    ``PARTITION_PATH`` and ``OPERATION``, and ``ORDERING_VALUE`` when a record has one (null where one has none).
    Columns of the data are nullable then, because a delete has no data.

    Args:
        records: The input.
        schema: The table's schema, or that of ``hoodie.avro.schema``. It gives types to dicts and `HoodieRecord`s, and
            to columns of Arrow input that hold nulls only.

    Raises:
        HoodieSchemaException: The input is of another kind, a type cannot be stored, or values of a column of dicts
            have no common type.
    """
    if isinstance(records, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([records]), schema)
    if isinstance(records, pa.Table):
        return _from_table(records, schema)
    if isinstance(records, ds.Dataset):
        return _from_stream(records.schema, records.to_batches, schema, is_one_shot=False)
    if hasattr(records, "__arrow_c_stream__"):
        if type(records).__module__.partition(".")[0] in _FRAME_MODULES:
            return _from_table(pa.table(records), schema)
        reader = pa.RecordBatchReader.from_stream(records)
        return _from_stream(reader.schema, partial(iter, reader), schema, is_one_shot=True)
    if isinstance(records, list | tuple):
        return _from_list(records, schema)
    if isinstance(records, Iterator):
        return _from_iterator(records, schema)
    raise HoodieSchemaException(
        f"records of type {type(records).__module__}.{type(records).__qualname__} are not taken; give a pyarrow Table, "
        "a pandas or polars DataFrame, a pyarrow Dataset, an iterator of record batches, a list of dicts or a list of "
        "HoodieRecord"
    )


def _from_table(table: pa.Table, schema: pa.Schema | None) -> RecordSource:
    table = normalise_table(table, normalise_schema(table.schema, schema))
    return RecordSource(table.schema, table, False, lambda: iter(table.to_batches()))


def _from_stream(
    stream_schema: pa.Schema,
    open_batches: Callable[[], Iterator[pa.RecordBatch]],
    schema: pa.Schema | None,
    is_one_shot: bool,
) -> RecordSource:
    target = normalise_schema(stream_schema, schema)
    return RecordSource(target, None, is_one_shot, lambda: (normalise_batch(batch, target) for batch in open_batches()))


def _from_iterator(iterator: Iterator[Any], schema: pa.Schema | None) -> RecordSource:
    first = next(iterator, None)
    if first is None:
        if schema is None:
            raise HoodieSchemaException("the iterator of record batches is empty, so its columns are unknown")
        return _from_table(schema.empty_table(), schema)
    _check_item(first, 0)

    def batches() -> Iterator[pa.RecordBatch]:
        for number, item in enumerate(chain([first], iterator)):
            _check_item(item, number)
            yield from item.to_batches() if isinstance(item, pa.Table) else [item]

    return _from_stream(first.schema, batches, schema, is_one_shot=True)


def _check_item(item: Any, number: int) -> None:
    if not isinstance(item, pa.RecordBatch | pa.Table):
        raise HoodieSchemaException(
            f"item {number} of the iterator is a {type(item).__qualname__}, not a pyarrow RecordBatch; for dicts or "
            "HoodieRecords give a list"
        )


def _from_list(records: Sequence[Any], schema: pa.Schema | None) -> RecordSource:
    if not records:
        if schema is None:
            raise HoodieSchemaException("the list of records is empty, so its columns are unknown")
        return _from_table(schema.empty_table(), schema)
    if all(isinstance(record, HoodieRecord) for record in records):
        return _from_table(_hoodie_records_table(records, schema), schema)
    if all(isinstance(record, dict) for record in records):
        return _from_table(_dicts_table(records, schema), schema)
    if all(isinstance(record, pa.RecordBatch | pa.Table) for record in records):
        return _from_iterator(iter(records), schema)
    kinds = sorted({type(record).__qualname__ for record in records})
    raise HoodieSchemaException(
        f"a list of records holds {', '.join(kinds)}; give only dicts, or only HoodieRecords, or only record batches"
    )


def _hoodie_records_table(records: Sequence[HoodieRecord], schema: pa.Schema | None) -> pa.Table:
    data = _dicts_table([{} if record.data is None else record.data for record in records], schema, all_nullable=True)
    table = data.append_column(
        pa.field(RECORD_KEY, pa.string()), pa.array([record.key.record_key or None for record in records], pa.string())
    )
    table = table.append_column(
        pa.field(PARTITION_PATH, pa.string()), pa.array([record.key.partition_path for record in records], pa.string())
    )
    ordering = [record.ordering_value for record in records]
    if any(value is not None for value in ordering):
        table = table.append_column(ORDERING_VALUE, _python_values(ordering, None, "ordering_value"))
    operations = pa.array([int(record.operation) for record in records], pa.int8())
    return table.append_column(pa.field(OPERATION, pa.int8()), operations)


def _dicts_table(dicts: Sequence[Any], schema: pa.Schema | None, all_nullable: bool = False) -> pa.Table:
    names = dict.fromkeys(name for item in dicts for name in item if not _is_dropped(name))
    for name in names:
        if not isinstance(name, str):
            raise HoodieSchemaException(f"the key {name!r} of a dict is no column name: it must be a string")
        if name.startswith(_RESERVED_PREFIX):
            raise HoodieSchemaException(f"column '{name}': names beginning with '{_RESERVED_PREFIX}' are hoodie's own")
    known = {} if schema is None else {field.name: field for field in schema}
    fields, columns = [], []
    for name in [*(name for name in known if name in names), *(name for name in names if name not in known)]:
        values = [item.get(name) for item in dicts]
        column = _python_values(values, known[name].type if name in known else None, name)
        nullable = all_nullable or name not in known or known[name].nullable
        fields.append(pa.field(name, column.type, nullable))
        columns.append(column)
    if not columns:
        # Deletes only, without data: no columns, but as many rows.
        return pa.table({"": pa.nulls(len(dicts))}).select([])
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _python_values(values: list[Any], data_type: pa.DataType | None, name: str) -> pa.Array:
    try:
        result = pa.array(values, data_type)
        if _is_converted_exactly(values, result.type):
            return result
        stored = result.to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wanted = "values of one type" if data_type is None else f"values of the type {data_type}"
        raise HoodieSchemaException(f"column '{name}' does not hold {wanted} only: {error}") from error
    for one, other in zip(values, stored, strict=True):
        if not _is_same_value(one, other, result.type):
            raise HoodieSchemaException(
                f"column '{name}' cannot be stored as {result.type} without losing something, first value: {one!r}; "
                "round or cast it"
            )
    return result


def _is_converted_exactly(values: list[Any], target: pa.DataType) -> bool:
    """Whether Arrow itself refuses what does not fit, so that no value needs a second look."""
    try:
        inferred = pa.infer_type(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return inferred in _EXACT_PYTHON_TYPES or (inferred == target and pa.types.is_float64(target))


_EXACT_PYTHON_TYPES = (pa.null(), pa.int64(), pa.bool_(), pa.string(), pa.binary())


def _is_same_value(given: Any, stored: Any, data_type: pa.DataType) -> bool:
    """Whether a Python value came back from Arrow as it was given."""
    if isinstance(given, pa.Scalar):
        given = given.as_py()
    if stored is None or given is stored:
        return True  # Arrow makes a null only of what stands for one: None, NaT, NA.
    if pa.types.is_struct(data_type):
        fields = dict(given)
        names = {field.name for field in data_type}
        return all(_is_same_value(fields.get(field.name), stored[field.name], field.type) for field in data_type) and (
            all(value is None for name, value in fields.items() if name not in names)
        )
    if pa.types.is_map(data_type):
        entries = list(given.items() if isinstance(given, Mapping) else given)
        return len(entries) == len(stored) and all(
            _is_same_value(one[0], other[0], data_type.key_type)
            and _is_same_value(one[1], other[1], data_type.item_type)
            for one, other in zip(entries, stored, strict=True)
        )
    if _is_list(data_type):
        elements = list(given)
        return len(elements) == len(stored) and all(
            _is_same_value(one, other, data_type.value_type) for one, other in zip(elements, stored, strict=True)
        )
    return _is_same_scalar(given, stored)


def _is_same_scalar(given: Any, stored: Any) -> bool:
    if isinstance(given, np.datetime64):
        naive = stored.replace(tzinfo=None) if isinstance(stored, datetime) else stored
        return bool(np.datetime64(naive) == given)
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(stored, float):
        return _is_same_float(given, stored)
    if isinstance(stored, date):
        return _is_same_moment(given, stored)
    if isinstance(stored, str) and isinstance(given, bytes):
        return given == stored.encode()
    if isinstance(stored, bytes):
        return (given.encode() if isinstance(given, str) else bytes(getattr(given, "bytes", given))) == stored
    return bool(given == stored)


def _is_same_float(given: Any, stored: float) -> bool:
    """A float may be rounded to single precision, but neither overflow nor vanish; other numbers are exact."""
    if isinstance(given, float):
        return given == stored or given != given or (math.isfinite(stored) and stored != 0)
    if isinstance(given, Decimal):
        return given == Decimal(repr(stored)) or given.is_nan()
    return bool(given == stored)


def _is_same_moment(given: Any, stored: date) -> bool:
    if isinstance(given, int):
        return True  # The number that Arrow stores, of days or of microseconds.
    if not isinstance(stored, datetime):
        if isinstance(given, datetime):
            return given.date() == stored and given.time() == time.min and not getattr(given, "nanosecond", 0)
        return bool(given == stored)
    if not isinstance(given, datetime):
        return bool(given == stored.date()) and stored.time() == time.min
    if given.tzinfo is None:
        return bool(given == stored.replace(tzinfo=None))
    # Both in UTC: Python calls an hour that the clocks repeat unequal to any time of another zone.
    return bool(
        given.astimezone(UTC) == (stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC))
    )
