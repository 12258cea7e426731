"""Commands that read rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hoodie.cli.command import TableCall, say, table_command
from hoodie.cli.output import plain
from hoodie.cli.rows import FORMATS, form_of_rows, write_rows

if TYPE_CHECKING:
    from hoodie.interface.table_reads import TableReads

READ: list[click.Command] = []
columns_option = click.option(
    "--columns", "-c", metavar="A,B", callback=lambda _, __, text: split_names(text), help="The columns of the result."
)
where_option = click.option(
    "--where", metavar="CONDITION", help="A condition on rows: \"fare > 50 and city = 'oslo'\"."
)
as_of_option = click.option("--as-of", metavar="TIME", help="The table as it was then: an instant, a date, a time.")
limit_option = click.option("--limit", type=click.IntRange(0), help="The most rows.")
file_option = click.option("--output", "-o", "file", type=click.Path(), metavar="FILE", help="Write into a file.")
format_option = click.option("--format", "form", type=click.Choice(FORMATS), help="By default the file's suffix tells.")
meta_option = click.option("--meta-columns", is_flag=True, help="Show Hudi's columns too.")
in_partition_option = click.option(
    "--in-partition", metavar="PARTITION", help="The partition of the keys, where the index needs it."
)


def split_names(text: str | None) -> list[str] | None:
    """Names of columns that are separated by commas.

    Args:
        text: The option's value; None if it was not given.
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def keys_of(keys: Sequence[str], partition: str | None) -> list[Any]:
    """Record keys as `hoodie.Table` takes them.

    Args:
        keys: The keys, as they are stored.
        partition: Their partition; None where the index finds it.
    """
    if partition is None:
        return list(keys)
    from hoodie.common.model.record import HoodieKey

    return [HoodieKey(key, partition) for key in keys]


def source(call: TableCall, as_of: str | None) -> TableReads:
    """The table, as it is or as it was.

    Args:
        call: The call.
        as_of: A time; None for now.
    """
    return call.table if as_of is None else call.table.as_of(as_of)


def _form(call: TableCall, file: str | None, form: str | None) -> str:
    return form_of_rows(file, form, call.output.form == "json", call.output.form == "csv")


@table_command(READ, "read", csv=True)
@columns_option
@where_option
@as_of_option
@limit_option
@file_option
@format_option
@meta_option
def read(
    call: TableCall,
    columns: list[str] | None,
    where: str | None,
    as_of: str | None,
    limit: int | None,
    file: str | None,
    form: str | None,
    meta_columns: bool,
) -> None:
    """Print rows: text on a terminal, else JSON lines; or write them into a file."""
    form = _form(call, file, form)
    with source(call, as_of).scan(columns, where, limit=limit, meta_columns=meta_columns) as reader:
        write_rows(reader, file, form, limit)


@table_command(READ, "count")
@where_option
@as_of_option
def count(call: TableCall, where: str | None, as_of: str | None) -> None:
    """Count the rows."""
    found = source(call, as_of).count(where)
    if call.output.form == "json":
        call.show({"count": found})
    else:
        click.echo(found)


@table_command(READ, "changes", csv=True)
@click.option("--since", metavar="TIME", help="The range begins after this time; by default at the beginning.")
@click.option("--until", metavar="TIME", help="The range ends at this time; by default at the newest commit.")
@click.option("--deletes", is_flag=True, help="Print each change with the row before and after it, deletes included.")
@columns_option
@where_option
@file_option
@format_option
@meta_option
def changes(
    call: TableCall,
    since: str | None,
    until: str | None,
    deletes: bool,
    columns: list[str] | None,
    where: str | None,
    file: str | None,
    form: str | None,
    meta_columns: bool,
) -> None:
    """Print the rows that were written since a time, and the time to give as --since next."""
    form = _form(call, file, form)
    found = call.table.changes(since, until, columns=columns, where=where, meta_columns=meta_columns, deletes=deletes)
    if form == "json" and file is None:
        rows = [plain(row) for row in found.rows.to_pylist()]
        call.output.show({"since": found.since, "until": found.until, "rows": rows}, call.timezone)
        return
    write_rows(found.rows.to_reader(), file, form)
    if found.until is not None:
        # The rows come first: whoever keeps this time has them.
        sys.stdout.flush()
        say(f"next: --since {found.until}")


@table_command(READ, "lookup", csv=True)
@click.argument("keys", nargs=-1, required=True)
@in_partition_option
@columns_option
@file_option
@format_option
@meta_option
def lookup(
    call: TableCall,
    keys: tuple[str, ...],
    in_partition: str | None,
    columns: list[str] | None,
    file: str | None,
    form: str | None,
    meta_columns: bool,
) -> None:
    """Print the rows with the given record keys, by the table's index."""
    form = _form(call, file, form)
    found = call.table.lookup(keys_of(keys, in_partition), columns, meta_columns=meta_columns)
    write_rows(found.to_reader(), file, form)


@table_command(READ, "sql", csv=True)
@click.argument("query")
@limit_option
@file_option
@format_option
@meta_option
def sql(call: TableCall, query: str, limit: int | None, file: str | None, form: str | None, meta_columns: bool) -> None:
    """Print the result of a query in SQL over the table, whose name is t; needs DuckDB."""
    form = _form(call, file, form)
    found = call.table.sql(query, limit=limit, meta_columns=meta_columns)
    write_rows(found.to_reader(), file, form, limit)


@table_command(READ, "explain")
@columns_option
@where_option
@as_of_option
def explain(call: TableCall, columns: list[str] | None, where: str | None, as_of: str | None) -> None:
    """Show the files that a read would read, and those that it leaves out and why."""
    call.show(source(call, as_of).explain(columns, where))
