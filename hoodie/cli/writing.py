"""Commands that write rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from hoodie.cli.command import TableCall, dry_run_option, table_command
from hoodie.cli.reading import in_partition_option, keys_of, split_names, where_option
from hoodie.common.model.key_generator_type import GENERATED_KEYS
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.exception import HoodieConfigException

if TYPE_CHECKING:
    import pyarrow as pa

WRITE: list[click.Command] = []
TYPES = {
    "cow": "COPY_ON_WRITE",
    "mor": "MERGE_ON_READ",
    "copy_on_write": "COPY_ON_WRITE",
    "merge_on_read": "MERGE_ON_READ",
}
COLUMN_TYPES = (
    "string", "int32", "int64", "float32", "float64", "bool", "date32", "timestamp[us]", "timestamp[us, UTC]", "binary",
)  # fmt: skip
files_argument = click.argument("files", nargs=-1, required=True, type=click.Path())
format_option = click.option(
    "--format", "form", type=click.Choice(["csv", "jsonl", "parquet", "arrow"]), help="By default the suffix tells."
)


def _input(call: TableCall, files: tuple[str, ...], form: str | None, *, is_new: bool = False) -> Any:
    from hoodie.cli.input_files import load_rows

    return load_rows(files, (lambda: None) if is_new else call.table.schema, form)


@table_command(WRITE, "create")
@files_argument
@click.option(
    "--key", required=True, metavar="A,B", help=f"The columns that identify a row; {GENERATED_KEYS}: none does."
)
@click.option("--partition", metavar="A,B", help="The columns whose values name the folders of the data.")
@click.option("--ordering", metavar="A,B", help="The columns whose larger value wins of two rows with one key.")
@click.option("--type", "table_type", type=click.Choice(list(TYPES), case_sensitive=False), help="By default cow.")
@click.option("--version", "table_version", type=click.Choice(["6", "8", "9"]), help="By default 9.")
@click.option("--name", help="By default the folder's name.")
@format_option
def create(
    call: TableCall,
    files: tuple[str, ...],
    key: str,
    partition: str | None,
    ordering: str | None,
    table_type: str | None,
    table_version: str | None,
    name: str | None,
    form: str | None,
) -> None:
    """Make a table of the rows of files (CSV, JSON lines, Parquet or Arrow)."""
    from hoodie.interface.table import Table

    made = Table.create(
        call.path,
        _input(call, files, form, is_new=True),
        record_key_fields=GENERATED_KEYS if key.strip() == GENERATED_KEYS else split_names(key) or (),
        partition_fields=split_names(partition) or (),
        ordering_fields=split_names(ordering) or (),
        table_name=name,
        table_type=None if table_type is None else TYPES[table_type.lower()],
        table_version=None if table_version is None else int(table_version),
        properties=call.properties,
        storage_options=call.storage_options,
    )
    call.show(made.describe())


@table_command(WRITE, "write")
@files_argument
@click.option(
    "--operation", type=click.Choice(["upsert", "insert", "bulk_insert"]), default="upsert", show_default=True,
    help="insert and bulk_insert look no keys up.",
)  # fmt: skip
@format_option
@dry_run_option
def write(call: TableCall, files: tuple[str, ...], operation: str, form: str | None, dry_run: bool) -> None:
    """Write the rows of files (CSV, JSON lines, Parquet or Arrow) in one commit."""
    if dry_run and operation != "upsert":
        raise click.UsageError("--dry-run tells the plan of an upsert only")
    data = _input(call, files, form)
    if dry_run:
        call.show(call.table.explain_upsert(data))
        return
    calls = {"upsert": call.table.upsert, "insert": call.table.insert, "bulk_insert": call.table.bulk_insert}
    call.show(calls[operation](data))


@table_command(WRITE, "overwrite", asks=True)
@files_argument
@click.option(
    "--scope", type=click.Choice(["table", "partitions"]), default="table", show_default=True,
    help="Replace all rows, or those of the partitions that the new rows go to.",
)  # fmt: skip
@format_option
def overwrite(call: TableCall, files: tuple[str, ...], scope: str, form: str | None) -> None:
    """Replace rows by those of files, in one commit."""
    data = _input(call, files, form)
    found = list(call.table.partitions())
    held = _held(sum(entry.file_group_count for entry in found), sum(entry.size_bytes for entry in found))
    part = "all rows" if scope == "table" else "the rows of the partitions that the files have rows for"
    call.ask(f"overwrite {call.path} by {', '.join(files)}: replaces {part}; the table holds {held}")
    call.show(call.table.overwrite(data, scope=scope))


@table_command(WRITE, "update", asks=True)
@where_option
@click.option("--all-rows", is_flag=True, help="Instead of a condition.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="A new value, as text that the column's type can read.",
)
@click.option("--set-null", "nulls", multiple=True, metavar="COLUMN", help="A column that becomes null.")
@dry_run_option
def update(
    call: TableCall,
    where: str | None,
    all_rows: bool,
    values: tuple[str, ...],
    nulls: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Set columns of the rows that a condition matches, in one commit."""
    if (where is None) != all_rows:
        raise click.UsageError("give --where CONDITION or --all-rows")
    pairs = [value.partition("=") for value in values]
    names = [name for name, _, _ in pairs] + list(nulls)
    if not names or any(not equals for _, equals, _ in pairs):
        raise click.UsageError("give --set COLUMN=VALUE or --set-null COLUMN")
    if len(set(names)) < len(names):
        raise click.UsageError("a column is set twice")
    schema = call.table.schema()
    assigned = {name: _typed(schema, name, text) for name, _, text in pairs} | dict.fromkeys(nulls)
    if dry_run:
        _tell_rows(call, call.table.count(where))
        return
    call.ask(f"update {call.path}: sets {', '.join(names)} of {plural(call.table.count(where), 'row')}")
    call.show(call.table.update(where, assigned))


@table_command(WRITE, "delete", asks=True)
@click.argument("keys", nargs=-1)
@where_option
@in_partition_option
@dry_run_option
def delete(call: TableCall, keys: tuple[str, ...], where: str | None, in_partition: str | None, dry_run: bool) -> None:
    """Delete the rows with the given record keys, or those that a condition matches."""
    if bool(keys) == (where is not None):
        raise click.UsageError("give keys or --where CONDITION")
    wanted = keys_of(keys, in_partition) if keys else None
    if dry_run:
        found = call.table.count(where) if wanted is None else call.table.lookup(wanted).num_rows
        _tell_rows(call, found)
        return
    if wanted is None:
        call.ask(f"delete from {call.path}: {plural(call.table.count(where), 'row')}")
    else:
        call.ask(f"delete from {call.path}: the rows of {plural(len(keys), 'key')}")
    call.show(call.table.delete(wanted, where=where))


@table_command(WRITE, "delete-partitions", asks=True)
@click.argument("partitions", nargs=-1, required=True)
@dry_run_option
def delete_partitions(call: TableCall, partitions: tuple[str, ...], dry_run: bool) -> None:
    """Delete whole partitions."""
    there = {entry.partition_path: entry for entry in call.table.partitions()}
    found = [there[path] for path in dict.fromkeys(partitions) if path in there]
    if dry_run and call.output.form == "json":
        call.show(found)
        return
    lines = [f"  {entry.partition_path!r}: {_held(entry.file_group_count, entry.size_bytes)}" for entry in found]
    lines += [f"  {path!r}: not in the table" for path in partitions if path not in there]
    plan = "\n".join([f"delete {plural(len(found), 'partition')} of {call.path}:", *lines])
    if dry_run:
        click.echo(plan)
        return
    call.ask(plan)
    call.show(call.table.delete_partitions(list(partitions)))


@table_command(WRITE, "follow", asks=True)
@click.argument("source", metavar="SOURCE")
@click.option("--identity", metavar="NAME", help="The name of the source in the copy's commits; by default its folder.")
@click.option("--from-scratch", is_flag=True, help="Copy all rows anew, whatever the copy holds.")
def follow(call: TableCall, source: str, identity: str | None, from_scratch: bool) -> None:
    """Bring a copy of the table SOURCE up to date, deletes included; the first call makes it."""
    if from_scratch:
        call.ask(f"follow: replaces all rows of {call.path} by those of {source}")
    call.show(call.table.follow(source, identity=identity, from_scratch=from_scratch))


@table_command(WRITE, "add-column")
@click.argument("columns", nargs=-1, required=True, metavar="NAME:TYPE...")
def add_column(call: TableCall, columns: tuple[str, ...]) -> None:
    """Add columns, which are null in the rows that are there.

    Types are Arrow's: string, int64, float64, bool, date32, timestamp[us], decimal(10,2), ...
    """
    made = {}
    for column in columns:
        name, colon, kind = column.rpartition(":")
        if not colon or not name or name in made:
            raise click.UsageError("give NAME:TYPE, each name once")
        made[name] = _type_named(kind)
    found = call.table.add_columns(made)
    rows = [(field.name, str(field.type), field.nullable) for field in found]
    call.output.show_table(("name", "type", "is_nullable"), rows, len(rows), call.timezone)


def _held(groups: int, size_bytes: int) -> str:
    return f"{plural(groups, 'file group')}, {format_bytes(size_bytes)}"


def _tell_rows(call: TableCall, count: int) -> None:
    call.show({"row_count": count} if call.output.form == "json" else f"{plural(count, 'row')} would change")


def _typed(schema: pa.Schema, name: str, text: str) -> Any:
    """The value that a text has in the type of a column; the text where there is no such column."""
    import pyarrow as pa

    places = [number for number, known in enumerate(schema.names) if known.lower() == name.lower()]
    if len(places) != 1:
        return text
    kind = schema.field(places[0]).type
    try:
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise HoodieConfigException(f"--set {name}: the column is {kind}, and {text!r} is none such value") from error


def _type_named(text: str) -> pa.DataType:
    import pyarrow as pa

    if found := re.fullmatch(r"decimal\((\d{1,2}),\s*(\d{1,2})\)", text):
        precision, scale = int(found[1]), int(found[2])
        if 0 < precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    elif text == "timestamp[us, UTC]":
        return pa.timestamp("us", "UTC")
    elif text in COLUMN_TYPES:
        return pa.type_for_alias(text)
    raise click.UsageError(f"{text!r} is no type: give one of {', '.join(COLUMN_TYPES)}, decimal(10,2)")
