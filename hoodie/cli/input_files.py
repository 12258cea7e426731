"""Rows of files that a person gives: CSV, JSON lines, Parquet, Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from hoodie.common.data.file_rows import FORMATS, format_of, rows_of_files
from hoodie.exception import HoodieConfigException


def load_rows(paths: Sequence[str], stored: Callable[[], pa.Schema | None], form: str | None = None) -> Any:
    """The rows of files, as `hoodie.Table` takes them; see `rows_of_files`.

    Args:
        paths: Files of one format with the same columns.
        stored: Gives the columns of the table; None if there is no table. It is asked for files of text only.
        form: ``csv``, ``jsonl``, ``parquet`` or ``arrow``; None for what the suffixes tell.

    Returns:
        A dataset, or a table.

    Raises:
        HoodieConfigException: A file is missing, or has another format than the others.
        HoodieSchemaException: A file cannot be read so, has other columns, or a value does not fit its column.
    """
    forms = {path: form or _form_of(path) for path in paths}
    if len(set(forms.values())) > 1:
        raise HoodieConfigException(f"files of several formats ({', '.join(sorted(set(forms.values())))}): give one")
    if missing := [path for path in paths if not os.path.isfile(path)]:
        raise HoodieConfigException(f"there is no file {missing[0]}")
    form = next(iter(forms.values()))
    return rows_of_files(paths, form, stored() if form in ("csv", "jsonl") else None)


def _form_of(path: str) -> str:
    found = format_of(path)
    if found is None:
        raise HoodieConfigException(
            f"the suffix of {path} tells no format: it is one of {', '.join(FORMATS)}, or give --format"
        )
    return found
