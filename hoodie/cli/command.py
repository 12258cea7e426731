"""The commands of a table: the options that all of them have, their errors and exit codes."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hoodie.cli.output import Output, visible_lines
from hoodie.cli.pager import paged
from hoodie.common.config.java_properties import parse_properties
from hoodie.common.config.property import is_sensitive
from hoodie.common.util.shown_table import visible
from hoodie.exception import (
    HoodieClusteringUpdateException,
    HoodieConfigException,
    HoodieHeartbeatException,
    HoodieLockException,
    HoodiePendingOverwriteException,
    HoodieRestoreException,
    HoodieRollbackException,
    HoodieWriteConflictException,
)
from hoodie.storage.storage_options import redact, secrets_of

if TYPE_CHECKING:
    from hoodie.interface.catalog import Catalog
    from hoodie.interface.table import Table

FAILED, USAGE, FOUND, REFUSED, INTERRUPTED = 1, 2, 3, 4, 130
"""Exit codes: an error; a wrong call, or no answer to a question; findings; another writer or a newer commit is in the
way; Ctrl-C.
"""
STORAGE_VARIABLE = "HOODIE_STORAGE_"
"""The beginning of environment variables that are storage options: ``HOODIE_STORAGE_REGION``."""
_REFUSALS = (
    HoodieLockException,
    HoodieWriteConflictException,
    HoodieHeartbeatException,
    HoodieClusteringUpdateException,
    HoodiePendingOverwriteException,
    HoodieRollbackException,
    HoodieRestoreException,
)
_SECRETS, _DEBUG = "hoodie.secrets", "hoodie.debug"
dry_run_option = click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would be changed.")


class TableCall:
    """One call of a command: the table that it names, where its result goes, and what may be asked.

    Args:
        path: The table's folder.
        properties: Hudi's properties.
        storage_options: Options of the storage.
        output: The result goes here.
        yes: Whether questions are answered with yes; None where the command asks nothing.
    """

    def __init__(
        self, path: str, properties: dict[str, str], storage_options: dict[str, str], output: Output, yes: bool | None
    ) -> None:
        self.path = path
        self.properties = properties
        self.storage_options = storage_options
        self.output = output
        self._yes = yes

    @functools.cached_property
    def table(self) -> Table:
        """The table; nothing is read yet."""
        from hoodie.interface.table import Table

        return Table(self.path, properties=self.properties, storage_options=self.storage_options)

    def show(self, result: Any) -> None:
        """Print a result.

        Args:
            result: A result of `hoodie.Table`.
        """
        self.output.show(result, self.timezone)

    def timezone(self) -> str:
        """The zone of the table's instants: ``UTC`` or ``LOCAL``."""
        return self.table.properties().get("hoodie.table.timeline.timezone", "LOCAL")

    def ask(self, plan: str) -> None:
        """Show a plan, and go on only if the user agrees.

        Args:
            plan: The changes, in words.

        Raises:
            click.UsageError: There is no terminal to ask at, and no ``--yes``.
            click.exceptions.Exit: The user does not agree.
        """
        try:
            say(plan)
        except BrokenPipeError:
            if not self._yes:
                raise click.exceptions.Exit(USAGE) from None
        if self._yes:
            return
        if not is_terminal():
            raise click.UsageError("nobody is there to ask: --yes does it. Nothing was changed.")
        if not click.confirm("Do it?", default=False, err=True):
            say("Nothing was changed.")
            raise click.exceptions.Exit(USAGE)


class CatalogCall:
    """One call of a command: the catalog that it names, and where its result goes.

    Args:
        name: The catalog, as `hoodie.catalog` takes it.
        properties: Hudi's properties.
        storage_options: Options of the storage.
        output: The result goes here.
    """

    def __init__(
        self, name: str, properties: dict[str, str], storage_options: dict[str, str], output: Output, _: object = None
    ) -> None:
        self._name = name
        self._properties = properties
        self._storage_options = storage_options
        self.output = output

    @functools.cached_property
    def catalog(self) -> Catalog:
        """The catalog; nothing is asked yet."""
        from hoodie.interface.catalog import Catalog

        return Catalog(self._name, properties=self._properties, storage_options=self._storage_options)


def say(text: str) -> None:
    """Print words for a person on standard error."""
    click.echo(visible_lines(text), err=True)


def is_terminal() -> bool:
    """Whether a person can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class TableCommand(click.Command):
    """A command of a table. Its errors become one line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command.invoke`."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            # Whatever reads the output has enough; what is still buffered goes nowhere.
            _close_stdout()
            ctx.exit(0)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            secrets = ctx.meta.get(_SECRETS, frozenset())
            if ctx.meta.get(_DEBUG):
                click.echo(redact(traceback.format_exc(), secrets), err=True)
            click.echo(f"hoodie: {_one_line(redact(_message(error), secrets))}", err=True)
            ctx.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """The exit code of an error.

    Args:
        error: The error.
    """
    if isinstance(error, _REFUSALS):
        return REFUSED
    return USAGE if isinstance(error, HoodieConfigException) else FAILED


class HoodieGroup(click.Group):
    """A group whose help has its commands by sections.

    Args:
        sections: Title -> commands.
        arguments: See `click.Group`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[click.Command]], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._sections = sections
        for made in sections.values():
            for entry in made:
                self.add_command(entry)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group.format_commands`."""
        for title, made in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name or "", entry.get_short_help_str(120)) for entry in made])


def table_command(
    section: list[click.Command], name: str, *, asks: bool = False, csv: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that takes a `TableCall` and the command's own options.

    Args:
        section: The command is added here.
        name: The command's name.
        asks: Whether it asks before it does something, and so has ``--yes``.
        csv: Whether its result is a table, and so has ``--csv``.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        argument = click.argument("path", type=click.Path())
        made = _made(function, name, TableCall, "path", argument, _common_options(asks, csv))
        section.append(made)
        return made

    return decorate


def catalog_command(
    group: click.Group, name: str, *, csv: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that takes a `CatalogCall` and the command's own options.

    Args:
        group: The command is added here.
        name: The command's name.
        csv: See `table_command`.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        option = click.option(
            "--catalog", required=True, metavar="NAME", help="thrift://host:9083, hms, glue, or a class of yours."
        )
        made = _made(function, name, CatalogCall, "catalog", option, _common_options(False, csv))
        group.add_command(made)
        return made

    return decorate


def _made(
    function: Callable[..., None],
    name: str,
    make_call: Callable[..., Any],
    subject_name: str,
    subject: Callable[..., Any],
    options: Sequence[Callable[..., Any]],
) -> click.Command:
    """A command whose function takes a call.

    Args:
        function: The function, with options of its own.
        name: The name.
        make_call: Makes the call of the subject, properties, options of the storage, output and answer.
        subject_name: The name of the parameter that says what the command is about.
        subject: That parameter.
        options: The common options.
    """
    own = list(function.__dict__.pop("__click_params__", ()))

    @functools.wraps(function)
    def run(
        storage: Sequence[tuple[str, str]],
        given: Sequence[tuple[str, str]],
        props: str | None,
        as_json: bool,
        debug: bool,
        pager: bool,
        as_csv: bool = False,
        yes: bool | None = None,
        **others: Any,
    ) -> None:
        meta = click.get_current_context().meta
        meta[_DEBUG] = debug
        options = {**_storage_options_of_environment(), **dict(storage)}
        meta[_SECRETS] = secrets_of(options)
        properties = {**(_properties_of(props) if props else {}), **dict(given)}
        meta[_SECRETS] |= {value for key, value in properties.items() if is_sensitive(key) and value}
        if as_json and as_csv:
            raise click.UsageError("give --json or --csv")
        output = Output("json" if as_json else "csv" if as_csv else "text")
        with paged(pager):
            function(make_call(others.pop(subject_name), properties, options, output, yes), **others)

    run.__dict__["__click_params__"] = list(own)
    decorated: Callable[..., None] = run
    for option in reversed(options):
        decorated = option(decorated)
    made = click.command(name, cls=TableCommand)(subject(decorated))
    # The options that all commands have come last in the help.
    made.params.sort(key=lambda param: (param.name != "path", param not in own and param.name != subject_name))
    return made


def _common_options(asks: bool, csv: bool) -> list[Callable[..., Any]]:
    options = [click.option("--json", "as_json", is_flag=True, help="Print JSON.")]
    if csv:
        options.append(click.option("--csv", "as_csv", is_flag=True, help="Print CSV."))
    if asks:
        options.append(click.option("--yes", "-y", is_flag=True, help="Do not ask."))
    return [
        *options,
        pairs_option("--storage", "-s", help="An option of the storage. Also HOODIE_STORAGE_KEY in the environment."),
        pairs_option("--property", "-p", "given", help="A property of Hudi."),
        click.option(
            "--props", type=click.Path(), envvar="HOODIE_PROPS", metavar="FILE", help="A file of Hudi's properties."
        ),
        click.option("--pager", is_flag=True, help="Show the output by HOODIE_PAGER, PAGER or less, on a terminal."),
        click.option("--debug", is_flag=True, help="Show where an error comes from."),
    ]  # fmt: skip


def pairs_option(*names: str, help: str) -> Callable[..., Any]:
    """An option ``KEY=VALUE``, which may be repeated.

    Args:
        names: Its names.
        help: Its help.
    """
    return click.option(*names, multiple=True, metavar="KEY=VALUE", callback=_pairs, help=help)


def _pairs(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            # The text may be a secret, so it is not shown.
            raise click.BadParameter("give KEY=VALUE")
        pairs.append((key, text))
    return pairs


def _storage_options_of_environment() -> dict[str, str]:
    return {
        name.removeprefix(STORAGE_VARIABLE).lower(): value
        for name, value in os.environ.items()
        if name.startswith(STORAGE_VARIABLE) and value
    }


def _properties_of(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise click.UsageError(f"--props {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"--props {path}: {error}") from error


def _message(error: Exception) -> str:
    text = str(error)
    # Errors that hoodie raises on purpose say what was done and what to do; of others the type tells more.
    return text if type(error).__module__ == "hoodie.exception" and text else f"{type(error).__name__}: {text}"


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts = [line.removeprefix("- ") for line in lines[1:]]
    # A list of problems begins with a line that ends in a colon.
    first = [f"{lines[0]} {parts.pop(0)}" if lines[0].endswith(":") and parts else lines[0]] if lines else []
    return visible("; ".join([*first, *parts]))


def _close_stdout() -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        return
    finally:
        os.close(devnull)
