"""Commands that show a table in numbers and pictures."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hoodie.cli.command import TableCall, table_command
from hoodie.cli.looking import all_option, limit_option, show_summary
from hoodie.cli.reading import split_names

PICTURE: list[click.Command] = []
NAMES = ("timeline", "growth", "amplification", "sizes", "partitions", "slices", "overlap", "versions")
"""The pictures; those of `hoodie.picture`, which the help cannot import, as it takes no Arrow."""
_NEWEST_FIRST = frozenset({"timeline", "growth", "amplification"})
picture_argument = click.argument("picture", type=click.Choice(NAMES))


@table_command(PICTURE, "stats", csv=True)
@picture_argument
@click.option("--by-commit", is_flag=True, help="sizes: the spread of file sizes in each commit.")
@click.option("--by-partition", is_flag=True, help="sizes: the spread of file sizes in each partition.")
@click.option(
    "--columns", "-c", metavar="A,B", callback=lambda _, __, text: split_names(text), help="overlap: the columns."
)
@limit_option
@all_option
def stats(
    call: TableCall,
    picture: str,
    by_commit: bool,
    by_partition: bool,
    columns: Sequence[str] | None,
    limit: int | None,
    show_all: bool,
) -> None:
    """Show the numbers of a picture; instants the newest first."""
    if by_commit and by_partition:
        raise click.UsageError("give --by-commit or --by-partition")
    by = "commit" if by_commit else "partition" if by_partition else None
    found = call.table.stats(picture, by=by, columns=columns or ())
    show_summary(call, found, limit, show_all, newest_first=picture in _NEWEST_FIRST)


@table_command(PICTURE, "plot")
@picture_argument
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="The SVG file; standard output without it.")
def plot(call: TableCall, picture: str, out: str | None) -> None:
    """Draw a picture as SVG."""
    if out is None and call.output.form == "json":
        raise click.UsageError("--json needs --out: it tells of the file")
    drawn = call.table.plot(picture)
    if out is None:
        click.echo(drawn.svg)
        return
    drawn.save(out)
    told = f"{out}: {drawn.summary}"
    call.show({"path": out, "summary": drawn.summary} if call.output.form == "json" else told)


@table_command(PICTURE, "report")
@click.option("--out", "-o", type=click.Path(dir_okay=False), required=True, help="The HTML file.")
def report(call: TableCall, out: str) -> None:
    """Write a page with findings, facts and all pictures; it needs no network."""
    call.show(call.table.report(out))
