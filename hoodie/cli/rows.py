"""The rows of a read, on standard output or in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

from hoodie.cli.output import MAX_ROWS, as_json, csv_line, fitted, plain, print_line
from hoodie.common.util.whole_file import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {
    ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow",
}  # fmt: skip
"""The suffix of a file -> its format."""
FORMATS = ("text", "json", "jsonl", "csv", "parquet", "arrow")
_BINARY = ("parquet", "arrow")


def form_of_rows(path: str | None, given: str | None, as_json: bool, as_csv: bool) -> str:
    """The format of rows: as options say, by the suffix of the file, else text on a terminal and JSON lines elsewhere.

    Args:
        path: The file; None for standard output.
        given: ``--format``.
        as_json: ``--json``.
        as_csv: ``--csv``.

    Raises:
        click.UsageError: The options contradict each other, or the suffix tells no format.
    """
    wanted = {name for name, is_given in (("json", as_json), ("csv", as_csv), (given, given is not None)) if is_given}
    if len(wanted) > 1:
        raise click.UsageError("give one of --json, --csv and --format")
    form = next(iter(wanted), None)
    if path is None:
        form = form or ("text" if sys.stdout.isatty() else "jsonl")
        if form in _BINARY:
            raise click.UsageError(f"{form} is written to a file: -o FILE")
        return form
    form = form or SUFFIXES.get(os.path.splitext(path)[1].lower())
    if form is None:
        raise click.UsageError(f"the suffix of {path} tells no format: give one of {', '.join(SUFFIXES)}, or --format")
    return form


def write_rows(reader: pa.RecordBatchReader, path: str | None, form: str, limit: int | None = None) -> None:
    """Write rows as they come. A file has its name once it is whole.

    Args:
        reader: The rows.
        path: The file; None for standard output.
        form: One of `FORMATS`.
        limit: The most rows, which text shows all; without one it shows the first 20.
    """
    if path is None:
        _write_text(reader, form, None, limit)
        return
    with whole_file(path) as part:
        if form in _BINARY:
            _write_binary(reader, part, form)
        else:
            with open(part, "w", encoding="utf-8", newline="") as file:
                _write_text(reader, form, file, limit)


def _write_text(reader: pa.RecordBatchReader, form: str, file: TextIO | None, limit: int | None) -> None:
    def line(text: str) -> None:
        if file is None:
            print_line(text)
        else:
            file.write(text + "\n")

    names = reader.schema.names
    if form == "text":
        first, has_more = _first_rows(reader, MAX_ROWS if limit is None else limit)
        rows = [[None if value is None else _cell(value) for value in row] for row in first]
        text = fitted(names, rows, len(rows))
        # The cells are free of control characters, unlike lines of data.
        click.echo(f"{text}\n... and more rows: --limit N" if has_more else text, file=file)
    elif form == "json":
        line(as_json([dict(zip(names, map(plain, row), strict=True)) for row in _rows(reader)]))
    elif form == "csv":
        line(csv_line(names))
        for row in _rows(reader):
            line(csv_line(row))
    else:
        for row in _rows(reader):
            line(json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=True))


def _write_binary(reader: pa.RecordBatchReader, path: str, form: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, reader.schema) if form == "parquet" else pa.ipc.new_file(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows


def _first_rows(reader: pa.RecordBatchReader, count: int) -> tuple[list[tuple[Any, ...]], bool]:
    found: list[tuple[Any, ...]] = []
    for row in _rows(reader):
        if len(found) == count:
            return found, True
        found.append(row)
    return found, False


def _cell(value: Any) -> str:
    shown = plain(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
