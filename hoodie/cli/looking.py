"""Commands that look at a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from hoodie.cli.command import TableCall, dry_run_option, pairs_option, table_command
from hoodie.cli.output import MAX_ROWS, hidden_secrets, visible_lines

if TYPE_CHECKING:
    from hoodie.common.table.table_summary import SummaryTable

LOOK: list[click.Command] = []
WATCH_SECONDS = 2.0
"""The time between two looks of ``history --watch``."""
limit_option = click.option("--limit", type=click.IntRange(0), help="The most rows; text shows 20 without it.")
all_option = click.option("--all", "show_all", is_flag=True, help="Show all rows as text.")


def show_summary(
    call: TableCall, summary: SummaryTable[Any], limit: int | None, show_all: bool, *, newest_first: bool = False
) -> None:
    """Print a summary table.

    Args:
        call: The call.
        summary: The rows.
        limit: ``--limit``.
        show_all: ``--all``.
        newest_first: Whether the rows, which are the oldest first, are turned round.
    """
    names = summary.column_names
    rows = [[getattr(row, name) for name in names] for row in (reversed(summary) if newest_first else summary)]
    call.output.show_table(names, rows, len(rows) if show_all else limit, call.timezone)


@table_command(LOOK, "describe")
def describe(call: TableCall) -> None:
    """Show the table at one look: keys, columns, rows, sizes, pending instants, services."""
    call.show(call.table.describe())


@table_command(LOOK, "history", csv=True)
@click.argument("instant", required=False)
@click.option("--action", help="The action of INSTANT, where several have that time.")
@click.option("--files", "by_file", is_flag=True, help="Show each file of INSTANT, instead of each partition.")
@click.option("--archived", is_flag=True, help="Show archived instants too.")
@click.option("--pending", is_flag=True, help="Show only instants that are not completed.")
@click.option("--watch", is_flag=True, help="Go on, and show each instant that is new or in another state.")
@limit_option
@all_option
def history(
    call: TableCall,
    instant: str | None,
    action: str | None,
    by_file: bool,
    archived: bool,
    pending: bool,
    watch: bool,
    limit: int | None,
    show_all: bool,
) -> None:
    """Show the instants, the newest first, and what each wrote; or all about one INSTANT."""
    if instant is not None:
        if archived or pending or watch:
            raise click.UsageError("--archived, --pending and --watch show no single instant")
        found = call.table.instant(instant, action)
        if call.output.form == "text":
            click.echo(visible_lines(found.text(by_file)))
        elif call.output.form == "csv":
            show_summary(call, found.written_files if by_file else found.partitions, limit, show_all)
        else:
            call.show(found)
        return
    if action is not None or by_file:
        raise click.UsageError("--action and --files are of one INSTANT")
    if watch:
        _watch(call, archived, pending, limit)
    show_summary(call, call.table.history(archived=archived, pending=pending), limit, show_all)


def _watch(call: TableCall, archived: bool, pending: bool, limit: int | None) -> NoReturn:
    """Print the instants that a look shows and the one before did not, the oldest first, until an interrupt."""
    known: set[tuple[str, str, str]] = set()
    while True:
        found = call.table.history(MAX_ROWS if limit is None else limit, archived=archived, pending=pending)
        for row in reversed(found):
            key = (row.instant_time, row.action, row.state)
            if key not in known:
                call.output.show_row(found.column_names, row, call.timezone, is_first=not known)
            known.add(key)
        sys.stdout.flush()
        time.sleep(WATCH_SECONDS)


@table_command(LOOK, "diff", csv=True)
@click.argument("since")
@click.argument("until")
@limit_option
@all_option
def diff(call: TableCall, since: str, until: str, limit: int | None, show_all: bool) -> None:
    """Show the file groups that the commits after instant SINCE, up to UNTIL, wrote or replaced."""
    found = call.table.diff(since, until)
    if call.output.form == "json":
        call.show(found)
        return
    if call.output.form == "text":
        click.echo(found.headline)
    show_summary(call, found.table, limit, show_all)


@table_command(LOOK, "export")
@click.argument("folder", type=click.Path())
@click.option("--archived", is_flag=True, help="Write archived instants too.")
def export(call: TableCall, folder: str, archived: bool) -> None:
    """Write each instant as a JSON file into FOLDER."""
    call.show(call.table.export(folder, archived=archived))


@table_command(LOOK, "files", csv=True)
@limit_option
@all_option
def files(call: TableCall, limit: int | None, show_all: bool) -> None:
    """Show the newest slice of each file group, by partition."""
    show_summary(call, call.table.files(), limit, show_all)


@table_command(LOOK, "partitions", csv=True)
@limit_option
@all_option
def partitions(call: TableCall, limit: int | None, show_all: bool) -> None:
    """Show the partitions with the number and size of their files."""
    show_summary(call, call.table.partitions(), limit, show_all)


@table_command(LOOK, "schema", csv=True)
@click.option("--arrow", is_flag=True, help="Print Arrow's text.")
@click.option("--avro", is_flag=True, help="Print Avro's JSON, as the table stores it.")
def schema(call: TableCall, arrow: bool, avro: bool) -> None:
    """Show the columns of the newest commit."""
    if arrow and avro:
        raise click.UsageError("give --arrow or --avro")
    if avro:
        from hoodie.common.table.table_meta_client import HoodieTableMetaClient

        table = HoodieTableMetaClient.load(call.path, call.storage_options)
        click.echo(table.load_avro_schema() or "null")
        return
    found = call.table.schema()
    if arrow:
        click.echo(found.to_string(show_field_metadata=False, show_schema_metadata=False))
        return
    rows: Sequence[Sequence[Any]] = [(field.name, str(field.type), field.nullable) for field in found]
    if call.output.form == "text":
        rows = [(name, kind, "" if nullable else "not null") for name, kind, nullable in rows]
    call.output.show_table(("name", "type", "is_nullable"), rows, len(rows), call.timezone)


@table_command(LOOK, "properties", asks=True, csv=True)
@pairs_option("--set", "updates", help="Set a property.")
@click.option("--unset", "removals", multiple=True, metavar="KEY", help="Remove a property.")
@dry_run_option
def properties(call: TableCall, updates: list[tuple[str, str]], removals: tuple[str, ...], dry_run: bool) -> None:
    """Show the table's properties, or change some; secrets are shown as ***."""
    if updates or removals:
        planned = call.table.set_properties(dict(updates), unset=removals, dry_run=True)
        if planned.properties and not dry_run:
            call.ask(str(planned))
            planned = call.table.set_properties(dict(updates), unset=removals)
        call.show(planned)
        return
    found = hidden_secrets(call.table.properties())
    if call.output.form == "json":
        call.show(found)
        return
    rows = list(found.items())
    call.output.show_table(("property", "value"), rows, len(rows), call.timezone)


@table_command(LOOK, "indexes", csv=True)
def indexes(call: TableCall) -> None:
    """Show the indexes and statistics of the metadata table."""
    show_summary(call, call.table.indexes(), None, show_all=True)


@table_command(LOOK, "savepoints", csv=True)
def savepoints(call: TableCall) -> None:
    """Show the savepoints, the oldest first."""
    found = call.table.savepoints()
    names = ("instant_time", "user", "comment", "created_ms", "num_files")
    rows = [[getattr(savepoint, name) for name in names] for savepoint in found]
    call.output.show_table(names, rows, len(rows), call.timezone)
