"""The command that brings Kafka, folders and other sources into a table."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hoodie.cli.command import TableCommand, say

STREAM: list[click.Command] = []


@click.command(
    "streamer",
    cls=TableCommand,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def streamer(arguments: Sequence[str]) -> None:
    """Fill a table from Kafka, folders or other sources; with --continuous, until it is stopped."""
    # Imported here: no other command needs it.
    from hoodie.utilities.streamer.command import run_command

    run_command(arguments, say, click.echo)


STREAM.append(streamer)
