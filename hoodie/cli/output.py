"""The results of commands as text, JSON or CSV."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

import attrs
import click

from hoodie.common.config.property import is_sensitive
from hoodie.common.util.shown_table import ShownTable, visible

MAX_ROWS = 20
"""The rows of a table that text shows without ``--limit``."""
_WIDTHS = (48, 32, 24, 16, 12)
_UNCUT = 1 << 30
_INSTANT = re.compile(
    r"(instant_time|completion_time|reference_time|newest_commit|earliest_commit|^aged_since|^since|^until)$"
)
"""Names of attributes that hold an instant time."""
_SHOWN_ATTRIBUTES = {
    "HoodieWriteResult": (
        "instant_time", "operation", "is_committed", "completion_time", "inserted_count", "updated_count",
        "appended_count", "deleted_count", "unchanged_count", "ignored_count", "kept_count", "unmatched_delete_count",
        "combined_count", "error_count", "errors", "written_bytes", "service_errors", "statuses",
    ),
    "WriteStatus": ("partition_path", "file_id", "error_count", "stat"),
    "HoodieWriteStat": ("path", "num_inserts", "num_update_writes", "num_deletes", "num_writes", "file_size_bytes"),
    "HoodieSavepoint": ("instant_time", "user", "comment", "created_ms", "num_files"),
    "OptimizeResult": (
        "instant_time", "files_before", "files_after", "partitions", "sort_columns", "layout", "is_dry_run",
        "overlap_before", "overlap_after",
    ),
    "CleanResult": ("instant_time", "files", "partitions", "earliest_commit", "is_dry_run"),
    "PartitionExpiry": (
        "base_path", "instant_time", "rows", "size_bytes", "partitions", "kept", "reference_time", "strategy",
        "refusal", "note", "is_dry_run", "service_errors",
    ),
    "Erasure": (
        "base_path", "rows", "partitions", "savepoints", "given_up", "earliest_commit", "obstacles", "others",
        "erased_partitions", "instant_time", "is_dry_run",
    ),
    "TableRemoval": ("base_path", "files", "folders", "others", "is_dry_run"),
    "UpsertPlan": (
        "base_path", "index", "records", "updates", "deletes", "inserts", "updates_or_inserts", "bytes_to_rewrite",
        "bytes_to_add", "record_size", "file_groups",
    ),
    "ReadPlan": (
        "base_path", "read_at", "columns", "size_bytes", "base_files", "log_files", "pruned", "pruned_partitions",
        "partitions_without_rows",
    ),
    "HoodieBaseFile": ("path", "file_id", "instant_time", "size_bytes"),
    "HoodieLogFile": ("path", "size_bytes"),
    "Diagnosis": ("base_path", "is_healthy", "findings", "is_deep"),
    "MetadataTableValidation": (
        "base_path", "is_right", "entry_counts", "difference_counts", "differences", "not_validated", "advice",
        "size_counts",
    ),
}  # fmt: skip
"""Name of a class -> its attributes in JSON. Other classes show those that they are made of."""


class Output:
    """Prints results in one form.

    Args:
        form: ``text``, ``json`` or ``csv``.
    """

    def __init__(self, form: str) -> None:
        self.form = form

    def show(self, result: Any, timezone: Callable[[], str]) -> None:
        """Print a result.

        Args:
            result: A result of `hoodie.Table`, or what JSON can hold.
            timezone: Gives the zone of the table's instants.
        """
        if self.form == "json":
            click.echo(as_json(plain(result, timezone)))
        else:
            click.echo(str(result))

    def show_table(
        self, header: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None, timezone: Callable[[], str]
    ) -> None:
        """Print a table; without a limit, text shows its first rows, and the other forms all.

        Args:
            header: Names of the columns.
            rows: The values.
            limit: The most rows; None for the form's own limit.
            timezone: See `show`.
        """
        if self.form == "json":
            records = [dict(zip(header, row, strict=True)) for row in rows[:limit]]
            click.echo(as_json(plain(records, timezone)))
        elif self.form == "csv":
            for row in (header, *rows[:limit]):
                print_line(csv_line(row))
        else:
            shown = rows[: MAX_ROWS if limit is None else limit]
            click.echo(fitted(header, shown, len(rows)))

    def show_row(self, header: Sequence[str], row: Any, timezone: Callable[[], str], *, is_first: bool) -> None:
        """Print one row of a table that grows: a line of JSON, of CSV, or of text with names.

        Args:
            header: Names of the columns, which are the row's attributes.
            row: The row.
            timezone: See `show`.
            is_first: Whether it is the first row, before which CSV has the header.
        """
        values = [getattr(row, name) for name in header]
        if self.form == "json":
            print_line(json.dumps(plain(dict(zip(header, values, strict=True)), timezone), ensure_ascii=True))
        elif self.form == "csv":
            if is_first:
                print_line(csv_line(header))
            print_line(csv_line(values))
        else:
            pairs = zip(header, values, strict=True)
            print_line("  ".join(f"{name}={value}" for name, value in pairs if value is not None))


def plain(value: Any, timezone: Callable[[], str] | None = None) -> Any:
    """A value as JSON holds it: objects by their attributes, times in ISO 8601, bytes in base 64.

    Besides an attribute that holds an instant time stands the same time in ISO 8601, in UTC: ``instant_time_iso``.
    Numbers that JSON lacks are text: ``"NaN"``.

    Args:
        value: A result, or a value of a row.
        timezone: Gives the zone of instant times; None leaves them as they are.
    """
    match value:
        case Enum():
            return plain(value.value, timezone)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value).replace("nan", "NaN").replace("inf", "Infinity")
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return _with_times({str(key): item for key, item in value.items()}, timezone)
        case list() | tuple() | set() | frozenset():
            return [plain(item, timezone) for item in value]
    names = _SHOWN_ATTRIBUTES.get(type(value).__name__)
    if names is None and attrs.has(type(value)):
        names = tuple(field.name for field in attrs.fields(type(value)) if not field.name.startswith("_"))
    if names is not None:
        return _with_times({name: getattr(value, name) for name in names}, timezone)
    return [plain(item, timezone) for item in value] if isinstance(value, Sequence) else str(value)


def as_json(value: Any) -> str:
    """A plain value as text.

    Args:
        value: See `plain`.
    """
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # What a terminal could take for a command, or an encoding lacks, is escaped.
    is_safe = text.replace("\n", "").isprintable() and (sys.stdout.encoding or "").lower() in ("utf-8", "utf8")
    return text if is_safe else json.dumps(value, indent=indent)


def fitted(header: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> str:
    """A table as text; on a terminal, its cells are cut to the width of the terminal.

    Args:
        header: Names of the columns.
        rows: The shown rows.
        count: The number of all rows.
    """
    columns = shutil.get_terminal_size().columns
    text = ""
    for width in _WIDTHS if sys.stdout.isatty() else (_UNCUT,):
        shown = ShownTable(tuple(map(visible, header)), rows, count, max_rows=len(rows), max_cell_width=width)
        text = shown.to_text()
        if max(map(len, text.splitlines()), default=0) <= columns:
            break
    return text


def csv_line(values: Sequence[Any]) -> str:
    """A line of CSV. A null is an empty field, an empty text is ``""``.

    Args:
        values: The fields.
    """
    return ",".join(map(_csv_field, values))


def print_line(text: str) -> None:
    """Print a line of data as it is; on a terminal, with escapes for characters that would be commands there.

    Args:
        text: The line.
    """
    click.echo(visible(text) if sys.stdout.isatty() else text)


def visible_lines(text: str) -> str:
    """Lines of text, with escapes for characters that would be commands to a terminal.

    Args:
        text: The lines.
    """
    return "\n".join(map(visible, text.splitlines()))


def hidden_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties, sorted, with ``***`` in place of secrets.

    Args:
        properties: The properties.
    """
    return {key: "***" if is_sensitive(key) else value for key, value in sorted(properties.items())}


def _with_times(fields: Mapping[str, Any], timezone: Callable[[], str] | None) -> dict[str, Any]:
    if timezone is None:
        return {name: plain(value) for name, value in fields.items()}
    from hoodie.common.table.timeline.instant_time import is_instant_time, parse_instant_time

    shown: dict[str, Any] = {}
    for name, value in fields.items():
        shown[name] = plain(value, timezone)
        if isinstance(value, str) and _INSTANT.search(name) and is_instant_time(value):
            moment = parse_instant_time(value, timezone())
            shown[f"{name}_iso"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return shown


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    value = plain(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not text or re.search(r'[",\r\n]', text) else text
