"""Inputs that people have, in the forms that `record_source` takes: files, columns by name, objects, lazy frames."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.data.file_rows import FORMATS, format_of, rows_of_files
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.util.shown_value import short_repr, shown_value
from hoodie.exception import HoodieSchemaException

_SUFFIXES = ", ".join(FORMATS)


def is_file_input(records: Any) -> bool:
    """Whether records are a path, or a list of paths with the suffixes of files of rows.

    Args:
        records: The caller's argument.
    """
    if isinstance(records, list | tuple):
        return bool(records) and all(_is_path(item) and format_of(os.fspath(item)) for item in records)
    return _is_path(records)


def opened_files(records: Any, schema: pa.Schema | None) -> Any:
    """The rows of files; see `rows_of_files`.

    Args:
        records: A path, a glob, or a list of both: CSV with a line of names, JSON lines, Parquet, or Arrow files.
        schema: The table's schema.

    Returns:
        A `pyarrow.dataset.Dataset`, or a table of JSON lines.

    Raises:
        HoodieSchemaException: A file is missing, has another suffix or is elsewhere, files are of several formats, or
            differ in their columns.
    """
    given = [os.fspath(item) for item in (records if isinstance(records, list | tuple) else [records])]
    paths = [path for pattern in given for path in _found(pattern)]
    formats = {format_of(path) for path in paths}
    if len(formats) > 1 or None in formats:
        raise HoodieSchemaException(
            f"records are files of several formats, or of one that is not known ({short_repr(given)}): give files of "
            f"one of {_SUFFIXES}"
        )
    return rows_of_files(paths, str(formats.pop()), schema)


def _is_path(records: Any) -> bool:
    return isinstance(records, str | os.PathLike) and isinstance(os.fspath(records), str)


def _found(pattern: str) -> list[str]:
    if "://" in pattern:
        raise HoodieSchemaException(
            f"records are {pattern!r}: a path is one of this machine. Give "
            "pyarrow.dataset.dataset(path, filesystem=...) for files elsewhere"
        )
    if has_magic(pattern) and not Path(pattern).exists():
        found = sorted(glob(pattern, recursive=True))
        if not found:
            raise HoodieSchemaException(f"records are {pattern!r}, and no file has such a name")
        return found
    if not Path(pattern).is_file():
        raise HoodieSchemaException(
            f"records are {pattern!r}: a text is the path of a file of rows ({_SUFFIXES}), and there is no such file"
        )
    if format_of(pattern) is None:
        raise HoodieSchemaException(f"records are {pattern!r}, a file of no known format: give one of {_SUFFIXES}")
    return [pattern]


def columns_by_name(records: Mapping[Any, Any]) -> list[dict[str, Any]] | pa.Table:
    """The rows of a dict of columns.

    Args:
        records: Name -> list of values, or array of numpy or Arrow; all of one length.

    Returns:
        Rows as dicts, if some columns are lists, whose values have the types of the table; otherwise a table.

    Raises:
        HoodieSchemaException: A column is something else, or columns differ in length.
    """
    columns = dict(records)
    for name, values in columns.items():
        is_column = isinstance(values, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray)
        if not isinstance(name, str) or not is_column:
            raise HoodieSchemaException(
                f"records are a dict, whose column {short_repr(name)} is {shown_value(values)}: give a list of values "
                "by each name, {'id': [1, 2], 'city': ['oslo', 'rome']}, or a list of dicts, one for each row"
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise HoodieSchemaException(
            f"records are a dict of columns of several lengths, {', '.join(f'{n} {c}' for n, c in lengths.items())}: "
            "give each row a value in each column, None where it has none"
        )
    if not columns:
        raise HoodieSchemaException("records are an empty dict, so their columns are unknown")
    if all(isinstance(values, np.ndarray | pa.Array | pa.ChunkedArray) for values in columns.values()):
        try:
            return pa.table(columns)
        except (pa.ArrowException, ValueError) as error:
            raise HoodieSchemaException(f"records are a dict of arrays that make no table: {error}") from error
    listed = [_listed(values) for values in columns.values()]
    if not listed[0]:
        return pa.table({name: pa.nulls(0) for name in columns})
    return [dict(zip(columns, row, strict=True)) for row in zip(*listed, strict=True)]


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return list(values.to_pylist())
    return list(values)


def as_dict(record: Any) -> dict[str, Any] | None:
    """The fields of an object that stands for a row; None for an object of another kind.

    Args:
        record: A dict; an instance of a dataclass, of an attrs class or of a pydantic model; or a named tuple.
    """
    if isinstance(record, dict):
        return record
    if isinstance(record, HoodieRecord | HoodieKey | type):
        return None
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.asdict(record)
    if attrs.has(type(record)):
        return attrs.asdict(record)
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return dict(record._asdict())
    dump = getattr(record, "model_dump", None)
    if callable(dump) and hasattr(type(record), "model_fields"):
        return dict(dump())
    return None


def is_lazy_frame(records: Any) -> bool:
    """Whether records are a LazyFrame of polars, which is not imported for that.

    Args:
        records: The caller's argument.
    """
    kind = type(records)
    return kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "LazyFrame"


def collected(lazy_frame: Any) -> Any:
    """The rows of a LazyFrame of polars, computed by its streaming engine.

    Args:
        lazy_frame: The frame.
    """
    try:
        return lazy_frame.collect(engine="streaming")
    except TypeError:
        # The argument's name before polars 1.22.
        return lazy_frame.collect(streaming=True)
