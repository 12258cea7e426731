"""The command ``hoodie``: the methods of `hoodie.Table` in a shell; ``docs/command.md`` is its page."""

from __future__ import annotations

import contextlib
import io
import sys

import click

import hoodie
from hoodie.cli.care import CARE, UNDO
from hoodie.cli.catalogs import CATALOG
from hoodie.cli.command import HoodieGroup
from hoodie.cli.looking import LOOK
from hoodie.cli.pictures import PICTURE
from hoodie.cli.reading import READ
from hoodie.cli.streaming import STREAM
from hoodie.cli.writing import WRITE

SECTIONS = {
    "Look": LOOK, "Draw": PICTURE, "Read": READ, "Write": WRITE, "Stream": STREAM, "Take care": CARE, "Undo": UNDO,
    "Catalogs": CATALOG,
}  # fmt: skip
"""The title of a section of the help -> its commands."""


_HELP = """Apache Hudi tables, without Spark and without Java.

\b
hoodie create /data/trips monday.csv --key id --partition city
hoodie write /data/trips tuesday.csv
hoodie read /data/trips --where "fare > 50"
hoodie history /data/trips

The path of the table comes first. Commands that delete or undo show their plan and ask; --yes answers.
"""


@click.group(cls=HoodieGroup, sections=SECTIONS, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hoodie.__version__, prog_name="hoodie")
def command() -> None:
    """The command; its subcommands are those of `SECTIONS`."""


def main() -> None:
    """Run the command line of this process, and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        command(prog_name="hoodie", standalone_mode=True)
    finally:
        # A reader that closed the pipe is no error, nor at the end of the process.
        with contextlib.suppress(BrokenPipeError, ValueError):
            sys.stdout.flush()
