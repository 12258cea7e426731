"""Rows of files that a person gives: CSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.dataset as ds
import pyarrow.json as pa_json

from hoodie.exception import HoodieConfigException, HoodieSchemaException

SUFFIXES = {
    ".csv": "csv", ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow",
}  # fmt: skip
"""The suffix of a file -> its format; ``.gz`` may follow those of text."""


def load_rows(paths: Sequence[str], stored: Callable[[], pa.Schema | None], form: str | None = None) -> Any:
    """The rows of files, as `hoodie.Table` takes them.

    Files of text name no types. Where the table has a column, its type counts: text is read as that type. Else types
    are guessed. In CSV an empty field is a null, and ``""`` is empty text.

    Args:
        paths: Files of one format with the same columns.
        stored: Gives the columns of the table; None if there is no table. It is asked for files of text only.
        form: ``csv``, ``jsonl``, ``parquet`` or ``arrow``; None for what the suffixes tell.

    Returns:
        A dataset, or a stream of its rows.

    Raises:
        HoodieConfigException: A file is missing, or has another format or other columns than the others.
        HoodieSchemaException: A file cannot be read so, or a value does not fit the type of its column.
    """
    forms = {path: form or _form_of(path) for path in paths}
    if len(set(forms.values())) > 1:
        raise HoodieConfigException(f"files of several formats ({', '.join(sorted(set(forms.values())))}): give one")
    if missing := [path for path in paths if not os.path.isfile(path)]:
        raise HoodieConfigException(f"there is no file {missing[0]}")
    form = next(iter(forms.values()))
    try:
        if form == "jsonl":
            return _rows_of_json(paths, stored())
        given = ds.CsvFileFormat(convert_options=_csv_options({})) if form == "csv" else form
        schema = _common_schema({path: ds.dataset(path, format=given).schema for path in paths})
        types = _types_of(stored(), schema) if form == "csv" else {}
        if not types:
            return ds.dataset(list(paths), format=given, schema=schema)
        schema = pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema])
        return ds.dataset(list(paths), format=ds.CsvFileFormat(convert_options=_csv_options(types)), schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise HoodieSchemaException(f"{', '.join(paths)}: {error}; nothing was written") from error


def _form_of(path: str) -> str:
    root, suffix = os.path.splitext(path)
    if suffix.lower() == ".gz":
        suffix = os.path.splitext(root)[1]
    found = SUFFIXES.get(suffix.lower())
    if found is None:
        raise HoodieConfigException(
            f"the suffix of {path} tells no format: it is one of {', '.join(SUFFIXES)}, or give --format"
        )
    return found


def _csv_options(types: dict[str, pa.DataType]) -> pc_csv.ConvertOptions:
    return pc_csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _common_schema(schemas: dict[str, pa.Schema]) -> pa.Schema:
    """The columns of files, which must have the same names; numbers and nulls widen."""
    (first, expected), *others = schemas.items()
    for path, schema in others:
        if set(schema.names) != set(expected.names):
            differing = sorted(set(schema.names) ^ set(expected.names))
            raise HoodieConfigException(f"{first} and {path} differ in the columns {', '.join(differing)}")
    return pa.unify_schemas(list(schemas.values()), promote_options="permissive")


def _types_of(stored: pa.Schema | None, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the table for those columns that text can hold."""
    if stored is None:
        return {}
    types = {name: stored.field(name).type for name in schema.names if stored.get_field_index(name) >= 0}
    return {name: kind for name, kind in types.items() if not pa.types.is_nested(kind)}


def _rows_of_json(paths: Sequence[str], stored: pa.Schema | None) -> pa.Table:
    guessed = {path: pa_json.read_json(path) for path in paths}
    schema = _common_schema({path: table.schema for path, table in guessed.items()})
    types = _types_of(stored, schema)
    tables = []
    for path, table in guessed.items():
        # A text that looks like a time is guessed to be one: it is read again as it stands.
        times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if times and stored is not None:
            explicit = pa.schema([(name, pa.string()) for name in times if name in types])
            table = pa_json.read_json(path, parse_options=pa_json.ParseOptions(explicit_schema=explicit))
        tables.append(table.select(schema.names))
    fitting = [_cast(table, types) for table in tables]
    return pa.concat_tables(fitting, promote_options="permissive")


def _cast(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    for number, field in enumerate(table.schema):
        wanted = types.get(field.name)
        if wanted is not None and field.type != wanted and pa.types.is_string(field.type):
            table = table.set_column(number, pa.field(field.name, wanted), table[field.name].cast(wanted))
    return table
