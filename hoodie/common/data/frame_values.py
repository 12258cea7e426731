"""Turn DataFrames of pandas and polars into Arrow tables; columns of Python objects by the rules of `python_values`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hoodie.common.data.python_values import check_name, is_plain, python_values
from hoodie.common.data.stored_types import find_field
from hoodie.common.util.shown_value import short_text
from hoodie.exception import HoodieSchemaException

_EXACT_TYPES = (pa.null(), pa.bool_(), pa.int64(), pa.string())
_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def frame_table(frame: Any, schema: pa.Schema | None = None) -> pa.Table:
    """Convert a pandas or polars DataFrame to a table.

    Args:
        frame: The frame; column names are unique.
        schema: The table's columns.

    Raises:
        HoodieSchemaException: A column has values without a common type, values that cannot be stored exactly, or a
            type that Arrow lacks; the message names it.
    """
    if type(frame).__module__.partition(".")[0] == "pandas":
        return _pandas_table(frame, schema)
    return _polars_table(frame)


def _pandas_table(frame: Any, schema: pa.Schema | None) -> pa.Table:
    for name in (*frame.columns, *frame.index.names):
        if isinstance(name, str):
            check_name(name)
    frame = _with_plain_index(frame)
    objects = [name for name in frame.columns if _has_objects(frame[name])]
    # Lists and dicts are checked before Arrow gets them: one that contains itself would end the process.
    mixed = [name for name in objects if _is_mixed(frame[name])]
    checked = {name: _object_column(frame[name], schema) for name in mixed if not _is_plain(frame[name])}
    try:
        table = pa.table(frame.drop(columns=list(checked)) if checked else frame)
    except _ERRORS:
        table = None
    doubtful = [name for name in objects if table is None or not _is_exact(table.schema, str(name))]
    doubtful = [name for name in doubtful if name not in mixed and not _is_plain(frame[name])]
    checked |= {name: _object_column(frame[name], schema) for name in doubtful}
    if table is None:
        rest = frame.drop(columns=list(checked)) if checked else frame
        try:
            table = pa.table(rest)
        except _ERRORS as error:
            for name in objects:
                _object_column(frame[name], schema)
            raise HoodieSchemaException(_unusable_column(rest, error)) from error
    return _with_columns(table, list(frame.columns), checked) if checked else table


def _is_exact(schema: pa.Schema, name: str) -> bool:
    """Whether Arrow made a column of a type for which it takes exactly these values of Python, and refuses others."""
    number = schema.get_field_index(name)
    if number < 0:
        return False
    data_type = schema.types[number]
    return (data_type.value_type if pa.types.is_dictionary(data_type) else data_type) in _EXACT_TYPES


def _has_objects(column: Any) -> bool:
    """Whether the values of a pandas column, or its categories, are Python objects."""
    categories = getattr(column.dtype, "categories", None)
    return bool(column.dtype == object if categories is None else categories.dtype == object)


def _is_mixed(column: Any) -> bool:
    """Whether a column has values that are no texts, numbers or times, or several kinds of these."""
    infer_dtype = sys.modules["pandas"].api.types.infer_dtype
    return str(infer_dtype(_objects(column), skipna=True)) in ("mixed", "mixed-integer", "unknown-array")


def _is_plain(column: Any) -> bool:
    return is_plain(_objects(column).to_numpy().tolist())


def _objects(column: Any) -> Any:
    """The Python objects of a column: its values, or its categories."""
    return column if column.dtype == object else column.dtype.categories


def _object_column(column: Any, schema: pa.Schema | None) -> pa.Array:
    name = str(column.name)
    field = None if schema is None else find_field(schema, name)
    values = column.astype(object).to_numpy().tolist()
    return python_values(values, name, None if field is None else field.type, has_own_types=True)


def _with_plain_index(frame: Any) -> Any:
    """The frame; named levels of its index are columns if they hold objects that Arrow might change."""
    index = frame.index
    for number, name in enumerate(index.names):
        if name is None or name in frame.columns:
            continue
        level = index.get_level_values(number)
        if level.dtype == object and not _is_plain(level):
            return frame.reset_index(level=[found for found in index.names if found is not None])
    return frame


def _with_columns(table: pa.Table, names: list[Any], checked: dict[Any, pa.Array]) -> pa.Table:
    """The table with the columns that were converted separately, all in the order of the frame."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    fields = {field.name: field for field in table.schema}
    wanted = [str(name) for name in names]
    for name, values in checked.items():
        columns[str(name)] = pa.chunked_array([values])
        fields[str(name)] = pa.field(str(name), values.type)
    wanted += [name for name in table.column_names if name not in set(wanted)]
    return pa.Table.from_arrays([columns[name] for name in wanted], schema=pa.schema([fields[name] for name in wanted]))


def _polars_table(frame: Any) -> pa.Table:
    for name, data_type in zip(frame.columns, frame.dtypes, strict=True):
        if any(_is_object(inner) for inner in _polars_types(data_type)):
            raise HoodieSchemaException(
                f"column '{name}' of the DataFrame holds Python objects (polars {data_type}), of which Arrow gets the "
                "addresses only; give the column a type, such as by pl.Series(name, values, dtype=...), or give the "
                "rows as dicts"
            )
    try:
        return _arrow_table(frame)
    except _ERRORS as error:
        raise HoodieSchemaException(_unusable_column(frame, error)) from error


def _arrow_table(frame: Any) -> pa.Table:
    # Frames of polars are streams of Arrow since 1.3.
    return pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else frame.to_arrow()


def _is_object(data_type: Any) -> bool:
    """Whether a type of polars, given as a class or an instance, is that of Python objects."""
    kind = data_type if isinstance(data_type, type) else type(data_type)
    return kind.__name__ == "Object"


def _polars_types(data_type: Any) -> Iterator[Any]:
    """A type of polars and the types inside it."""
    yield data_type
    inner = getattr(data_type, "inner", None)
    if inner is not None:
        yield from _polars_types(inner)
    for field in getattr(data_type, "fields", None) or ():
        yield from _polars_types(field.dtype)


def _unusable_column(frame: Any, error: Exception) -> str:
    """Describe the first column of a DataFrame that Arrow does not accept."""
    for name in frame.columns:
        column = frame[name]
        try:
            _arrow_table(frame[[name]])
        except _ERRORS as problem:
            return (
                f"column '{name}' of the DataFrame (dtype {column.dtype}) cannot be stored: {short_text(problem)}. "
                "Cast it"
            )
    return f"the DataFrame cannot be converted to an Arrow table: {short_text(error)}"
