"""Rows of files on this machine: CSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from hoodie.common.data.iso_times import is_time_of_text
from hoodie.exception import HoodieSchemaException

FORMATS: Mapping[str, str] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""Suffix of a file -> its format."""
_CODE = r"^\s*[-+]?0[0-9]"
_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError)


def format_of(path: str) -> str | None:
    """The format that the suffix of a file tells; None if it tells none.

    Args:
        path: The file.
    """
    lower = path.lower()
    return next((name for suffix, name in FORMATS.items() if lower.endswith(suffix)), None)


def rows_of_files(paths: Sequence[str], form: str, known: pa.Schema | None) -> Any:
    """The rows of files with the same columns.

    Files of text name no types. Where the table has a column, its type counts: ``007`` stays a text. Else types are
    guessed by the first megabyte; a column of CSV whose numbers begin with a zero there, as in ``007``, is text. In CSV
    an empty field is a null, and ``""`` is empty text. JSON lines are read into memory, as a column may begin on any
    line.

    Args:
        paths: Files of one format.
        form: ``csv``, ``jsonl``, ``parquet`` or ``arrow``.
        known: The columns of the table; None if there is none.

    Returns:
        A dataset of pyarrow, which can be read again; of JSON lines a table.

    Raises:
        HoodieSchemaException: A file cannot be read so, or has other columns than the others.
    """
    # Imported here because it imports pandas, which takes longer than the rest of hoodie.
    import pyarrow.dataset as ds

    try:
        if form == "jsonl":
            return _rows_of_json(paths, known)
        given = ds.CsvFileFormat(convert_options=csv_options({})) if form == "csv" else form
        schema = _common_schema({path: ds.dataset(path, format=given).schema for path in paths})
        if form == "csv":
            types = _codes_in(paths, schema) | _types_of(known, schema)
            given = ds.CsvFileFormat(convert_options=csv_options(types))
            schema = pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema])
        return ds.dataset(list(paths), format=given, schema=schema)
    except _ARROW_ERRORS as error:
        raise _unreadable(paths, error) from error


def batches_of_files(dataset: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a dataset of `rows_of_files`.

    Args:
        dataset: The dataset.

    Raises:
        HoodieSchemaException: A file cannot be read, or a value has another type than its column.
    """
    try:
        yield from dataset.to_batches()
    except _ARROW_ERRORS as error:
        raise _unreadable(dataset.files, error) from error


def _unreadable(paths: Sequence[str], error: Exception) -> HoodieSchemaException:
    names = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return HoodieSchemaException(
        f"{names}: {error}; nothing was written. Correct the file, or read it by pyarrow with options of your own"
    )


def csv_options(
    types: Mapping[str, pa.DataType],
    columns: Sequence[str] | None = None,
    null_values: Sequence[str] = ("",),
    time_formats: Sequence[Any] = (),
) -> csv.ConvertOptions:
    """The rules for values of CSV: an empty field is a null, and ``""`` is empty text.

    Args:
        types: The types of columns that are known; others are guessed.
        columns: The columns to read, null where a file lacks them; None for all.
        null_values: The texts of nulls.
        time_formats: The forms of dates and times, for the functions of C.
    """
    return csv.ConvertOptions(
        column_types=dict(types),
        null_values=list(null_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        include_columns=columns,
        include_missing_columns=columns is not None,
        timestamp_parsers=[*time_formats, csv.ISO8601],
    )


def _common_schema(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of files, which must have the same names; numbers and nulls widen."""
    (first, expected), *others = schemas.items()
    for path, schema in others:
        if set(schema.names) != set(expected.names):
            differing = sorted(set(schema.names) ^ set(expected.names))
            raise HoodieSchemaException(
                f"{first} and {path} differ in the columns {', '.join(differing)}; nothing was written. Write them one "
                "after the other"
            )
    return pa.unify_schemas(list(schemas.values()), promote_options="permissive")


def _types_of(known: pa.Schema | None, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the table for the columns that text can hold; `iso_times` parses the text of times."""
    if known is None:
        return {}
    types = {name: known.field(name).type for name in schema.names if known.get_field_index(name) >= 0}
    return {
        name: pa.string() if is_time_of_text(pa.string(), kind) else kind
        for name, kind in types.items()
        if not pa.types.is_nested(kind)
    }


def _codes_in(paths: Sequence[str], schema: pa.Schema) -> dict[str, pa.DataType]:
    """The type of text for columns that look like integers and are codes: as numbers they would lose their zeros."""
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    if not integers:
        return {}
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(integers, pa.string()), include_columns=integers)
    codes: set[str] = set()
    for path in paths:
        with csv.open_csv(path, convert_options=as_text) as reader:
            first = next(iter(reader), None)
        if first is not None:
            codes |= {name for name in integers if holds_codes(first[name])}
    return dict.fromkeys(codes, pa.string())


def holds_codes(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Whether texts that look like integers are codes: some begin with a zero, as in ``007``.

    Args:
        texts: The texts.
    """
    return bool(pc.any(pc.match_substring_regex(texts, _CODE)).as_py())


def _rows_of_json(paths: Sequence[str], known: pa.Schema | None) -> pa.Table:
    # Imported here because few writes read JSON.
    import pyarrow.json as json

    texts = [Path(path).read_bytes() + b"\n" for path in paths]
    tables = [json.read_json(BytesIO(text)) for text in texts]
    schema = _common_schema(dict(zip(paths, (table.schema for table in tables), strict=True)))
    types = _types_of(known, schema)
    # A text that looks like a time is guessed to be one. It is read again as it stands.
    times = [name for name in types if any(pa.types.is_timestamp(table.schema.field(name).type) for table in tables)]
    if times:
        as_text = json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in times]))
        tables = [json.read_json(BytesIO(text), parse_options=as_text) for text in texts]
    exact = [_with_decimals(table.select(schema.names), types) for table in tables]
    return pa.concat_tables(exact, promote_options="permissive")


def _with_decimals(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """JSON has no exact decimals: they come as text."""
    for number, field in enumerate(table.schema):
        wanted = types.get(field.name)
        if wanted is not None and pa.types.is_decimal(wanted) and pa.types.is_string(field.type):
            table = table.set_column(number, pa.field(field.name, wanted), table[field.name].cast(wanted))
    return table
