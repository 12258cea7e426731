"""Commands that look into a catalog."""

from __future__ import annotations

import click

from hoodie.cli.command import CatalogCall, catalog_command
from hoodie.cli.looking import all_option, limit_option
from hoodie.cli.output import visible_lines


@click.group("catalog")
def catalog() -> None:
    """Look into a catalog: its databases, tables and entries."""


CATALOG: list[click.Command] = [catalog]


@catalog_command(catalog, "list", csv=True)
@click.argument("database", required=False)
@limit_option
@all_option
def list_names(call: CatalogCall, database: str | None, limit: int | None, show_all: bool) -> None:
    """List the tables of a DATABASE, also those that are none of Hudi's; without one, the databases."""
    names = call.catalog.databases() if database is None else call.catalog.tables(database)
    header = ["database"] if database is None else ["database", "table"]
    rows = [[name] if database is None else [database, name] for name in names]
    call.output.show_table(header, rows, len(rows) if show_all else limit, lambda: "UTC")


@catalog_command(catalog, "show")
@click.argument("table", metavar="DATABASE.TABLE")
def show(call: CatalogCall, table: str) -> None:
    """Show the entry of a table, field by field, with the number of its partitions."""
    found = call.catalog.describe(table)
    if call.output.form == "text":
        click.echo(visible_lines(str(found)))
    else:
        call.output.show(found, lambda: "UTC")
