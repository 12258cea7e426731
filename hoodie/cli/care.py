"""Commands that take care of a table, and those that undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import click

from hoodie.cli.command import FOUND, REFUSED, TableCall, dry_run_option, pairs_option, say, table_command
from hoodie.cli.looking import all_option, limit_option, show_summary
from hoodie.common.config.property import is_sensitive
from hoodie.exception import HoodieLockException, HoodieRollbackException

CARE: list[click.Command] = []
UNDO: list[click.Command] = []


@table_command(CARE, "compact")
def compact(call: TableCall) -> None:
    """Make base files of the log files of a merge-on-read table."""
    done = call.table.compact()
    call.show("compact: nothing to compact" if done is None and call.output.form == "text" else done)


@table_command(CARE, "log-compact")
def log_compact(call: TableCall) -> None:
    """Make one log file of many; base files stay as they are."""
    done = call.table.log_compact()
    call.show("log-compact: nothing to compact" if done is None and call.output.form == "text" else done)


@table_command(CARE, "optimize")
@click.option("--sort-by", metavar="COLUMNS", help="Columns to order rows by, separated by commas.")
@click.option("--layout", type=click.Choice(["linear", "zorder", "hilbert"]), default="linear", show_default=True)
@click.option("--partition", "partitions", multiple=True, help="A partition to look at; may be repeated.")
@dry_run_option
def optimize(call: TableCall, sort_by: str | None, layout: str, partitions: tuple[str, ...], dry_run: bool) -> None:
    """Put small files together, and order rows by columns."""
    columns = [name.strip() for name in (sort_by or "").split(",") if name.strip()]
    call.show(call.table.optimize(columns, layout=layout, partitions=partitions or None, dry_run=dry_run))


@table_command(CARE, "clean", asks=True)
@dry_run_option
def clean(call: TableCall, dry_run: bool) -> None:
    """Delete old file versions that hoodie.clean.* does not keep."""
    planned = call.table.clean(dry_run=True)
    if dry_run:
        call.show(planned)
        return
    if planned.partitions:
        call.ask(str(planned))
    # Without a plan there is nothing to ask: the call finishes what an earlier clean began.
    call.show(call.table.clean())


@table_command(CARE, "expire", asks=True)
@dry_run_option
def expire(call: TableCall, dry_run: bool) -> None:
    """Delete the partitions that are too old by hoodie.partition.ttl.*."""
    planned = call.table.expire_partitions(dry_run=True)
    if dry_run or not (planned.partitions or planned.refusal):
        call.show(planned)
        return
    if planned.refusal is None:
        call.ask(str(planned))
    call.show(call.table.expire_partitions())


@table_command(CARE, "archive", asks=True)
def archive(call: TableCall) -> None:
    """Move old instants from the timeline to the archive."""
    call.ask(f"archive {call.path}: moves instants beyond hoodie.keep.max.commits; no restore reaches them then")
    call.show(call.table.archive())


@table_command(CARE, "validate")
def validate(call: TableCall) -> None:
    """Compare the metadata table with the table's files; exit code 3 if they differ."""
    found = call.table.validate()
    call.show(found)
    if not found.is_right:
        click.get_current_context().exit(FOUND)


@table_command(CARE, "doctor")
@click.option("--deep", is_flag=True, help="Look at all files too; takes time with their number.")
def doctor(call: TableCall, deep: bool) -> None:
    """Look for what is wrong, or will be, and what repairs it; exit code 3 if there is something."""
    found = call.table.doctor(deep=deep)
    call.show(found)
    if not found.is_healthy:
        click.get_current_context().exit(FOUND)


@table_command(CARE, "repair", asks=True)
@click.argument("what", type=click.Choice(["duplicates", "orphans", "partitions", "properties"]))
@click.option("--backup", "backup_folder", type=click.Path(), metavar="FOLDER", help="Orphans are moved there.")
@click.option("--delete", is_flag=True, help="Orphans are deleted.")
@click.option("--include-visible", is_flag=True, help="Remove orphans too whose rows readers show.")
@click.option("--across-partitions", is_flag=True, help="A key may live in one partition only.")
@pairs_option("--set", "properties", help="A property that no file tells.")
@dry_run_option
def repair(call: TableCall, what: str, dry_run: bool, properties: list[tuple[str, str]], **flags: Any) -> None:
    """Repair duplicate keys, orphan files, metadata files of partitions, or lost properties."""
    options = {name: value for name, value in flags.items() if value}
    if properties:
        options["properties"] = dict(properties)
    planned = call.table.repair(what, dry_run=True, **options)
    if what == "orphans" and not dry_run and not ({"backup_folder", "delete"} & options.keys()):
        raise click.UsageError("give --backup FOLDER, --delete, or --dry-run")
    # Without findings there is nothing to ask, and nothing to do.
    if not dry_run and len(planned.table) and not planned.headline.endswith("nothing to do"):
        call.ask(str(_without_secrets(planned)))
        planned = call.table.repair(what, **options)
    call.show(_without_secrets(planned))


def _without_secrets(repaired: Any) -> Any:
    """The result of a repair; values of properties that are secrets are ``***``."""
    properties = getattr(repaired, "properties", None)
    if properties is None:
        return repaired
    shown = [attrs.evolve(entry, value="***") if is_sensitive(entry.key) else entry for entry in properties]
    return attrs.evolve(repaired, properties=tuple(shown))


@table_command(CARE, "sync")
@click.option(
    "--catalog", type=click.Choice(["hms", "glue", "manifest"]), help="The catalog; by default what Hudi's options say."
)
@click.option("--check", is_flag=True, help="Change nothing, and tell all differences; exit code 3 if there are some.")
@click.option("--full", is_flag=True, help="Compare everything, and repair all differences.")
def sync(call: TableCall, catalog: str | None, check: bool, full: bool) -> None:
    """Tell a catalog (Hive Metastore, AWS Glue) of the table, so that others find it by name."""
    results = call.table.sync(catalog, check=check, full=full)
    if call.output.form == "json":
        call.show(results)
    else:
        for result in results:
            call.show(result)
    if any(result.has_differences for result in results):
        click.get_current_context().exit(FOUND)


@table_command(CARE, "locks", asks=True, csv=True)
@click.option("--break", "is_to_break", is_flag=True, help="Take the locks from holders that are dead.")
def locks(call: TableCall, is_to_break: bool) -> None:
    """Show the locks that keep writers apart, with their holders; or break them."""
    found = call.table.locks()
    if not is_to_break:
        show_summary(call, found, None, show_all=True)
        return
    held = [lock for lock in found if lock.version]
    stuck = next((lock for lock in found if lock.holder is not None and not lock.version), None)
    if not held and stuck is not None:
        raise HoodieLockException(f"{stuck.name} is held by {stuck.holder}, and cannot be broken. {stuck.way_out}")
    if held:
        lines = [f"  {lock.name}: {lock.holder} ({lock.state})" for lock in held]
        call.ask("\n".join(["break, which must not be done while a Java writer works:", *lines]))
    broken = [lock.name for lock in held if call.table.break_lock(lock)]
    if len(broken) < len(held):
        raise HoodieLockException("a lock was released, renewed or taken by another writer meanwhile; look again")
    call.show(
        {"broken": broken} if call.output.form == "json" else f"locks broken: {', '.join(broken) or 'none is held'}"
    )


@table_command(CARE, "markers", csv=True)
@click.argument("instant")
@limit_option
@all_option
def markers(call: TableCall, instant: str, limit: int | None, show_all: bool) -> None:
    """Show the files that a pending INSTANT announced before it wrote them."""
    show_summary(call, call.table.markers(instant), limit, show_all)


@table_command(CARE, "create-index")
@click.argument("column")
@click.option("--name", help="By default the column's.")
def create_index(call: TableCall, column: str, name: str | None) -> None:
    """Build a secondary index on a column."""
    made = call.table.create_index(column, name)
    told = f"index {name or column}: {'built' if made else 'is there already'}"
    call.show({"created": made} if call.output.form == "json" else told)


@table_command(CARE, "drop-index", asks=True)
@click.argument("name")
def drop_index(call: TableCall, name: str) -> None:
    """Delete a secondary index."""
    call.ask(f"drop the index {name} of {call.path}")
    dropped = call.table.drop_index(name)
    told = f"index {name}: {'dropped' if dropped else 'there is none'}"
    call.show({"dropped": dropped} if call.output.form == "json" else told)


@table_command(CARE, "forget", asks=True)
@click.option("--where", required=True, metavar="CONDITION", help="The rows: \"customer = 'ana'\".")
@click.option(
    "--give-up-savepoint", "given_up", multiple=True, metavar="INSTANT", help="A savepoint that may be deleted."
)
@dry_run_option
def forget(call: TableCall, where: str, given_up: tuple[str, ...], dry_run: bool) -> None:
    """Erase rows from all files: old versions, log files, indexes, partitions in the timeline."""
    planned = call.table.forget(where, give_up_savepoints=given_up)
    if dry_run:
        call.show(planned)
        return
    if planned.obstacles:
        say(str(planned))
        click.get_current_context().exit(REFUSED)
    call.ask(str(planned))
    call.show(call.table.forget(where, yes=True, give_up_savepoints=given_up))


@table_command(CARE, "drop", asks=True)
@dry_run_option
def drop(call: TableCall, dry_run: bool) -> None:
    """Delete the table: its folder, if that holds nothing else."""
    planned = call.table.drop(dry_run=True)
    if dry_run:
        call.show(planned)
        return
    if not planned.others:
        call.ask(str(planned))
    call.show(call.table.drop())


@table_command(CARE, "upgrade", asks=True)
@click.option("--to", "to_version", type=click.Choice(["8", "9"]), default="9", show_default=True)
@dry_run_option
def upgrade(call: TableCall, to_version: str, dry_run: bool) -> None:
    """Upgrade the table to version 8 or 9."""
    _change_version(call, call.table.upgrade, int(to_version), dry_run)


@table_command(CARE, "downgrade", asks=True)
@click.option("--to", "to_version", type=click.Choice(["6", "8"]), default="6", show_default=True)
@dry_run_option
def downgrade(call: TableCall, to_version: str, dry_run: bool) -> None:
    """Downgrade the table to version 8 or 6."""
    _change_version(call, call.table.downgrade, int(to_version), dry_run)


def _change_version(call: TableCall, change: Callable[..., Any], to_version: int, dry_run: bool) -> None:
    planned = change(to_version, dry_run=True)
    if not dry_run:
        call.ask(str(planned))
    call.show(planned if dry_run else change(to_version))


@table_command(UNDO, "savepoint")
@click.argument("instant", required=False)
@click.option("--user", default="", help="The name of the person who asks for it.")
@click.option("--comment", default="", help="The reason.")
def savepoint(call: TableCall, instant: str | None, user: str, comment: str) -> None:
    """Keep the files of a commit, by default the newest one, from being cleaned."""
    made = call.table.savepoint(instant, user=user, comment=comment)
    call.show(f"savepoint {made.instant_time}: keeps {made.num_files} files" if call.output.form == "text" else made)


@table_command(UNDO, "delete-savepoint", asks=True)
@click.argument("instant")
def delete_savepoint(call: TableCall, instant: str) -> None:
    """Delete a savepoint; a clean may delete its files then."""
    call.ask(f"delete the savepoint {instant} of {call.path}: a clean may delete its files then")
    deleted = call.table.delete_savepoint(instant)
    told = f"savepoint {instant}: {'deleted' if deleted else 'there is none'}"
    call.show({"deleted": deleted} if call.output.form == "json" else told)


@table_command(UNDO, "restore", asks=True)
@click.argument("instant")
def restore(call: TableCall, instant: str) -> None:
    """Make a commit the newest one again: undo and delete everything that is newer."""
    newer = []
    for entry in call.table.history():
        if entry.instant_time == instant:
            break
        newer.append(f"  {entry.instant_time} {entry.action} {entry.state} {entry.operation or ''}".rstrip())
    else:
        newer = [f"  {instant} is no instant of the active timeline"]
    call.ask("\n".join([f"restore {call.path} to {instant}: undoes and deletes what is newer", *newer]))
    call.show(call.table.restore(instant))


@table_command(UNDO, "recover", asks=True)
def recover(call: TableCall) -> None:
    """Undo all writes that failed."""
    _roll_back(call, None)


@table_command(UNDO, "rollback", asks=True)
@click.argument("instant", required=False)
def rollback(call: TableCall, instant: str | None) -> None:
    """Undo the newest commit, a pending one, or (without INSTANT) all writes that failed."""
    _roll_back(call, instant)


def _roll_back(call: TableCall, instant: str | None) -> None:
    pending = [f"  {entry.instant_time} {entry.action} {entry.state}" for entry in call.table.history()
               if (entry.state != "COMPLETED" if instant is None else entry.instant_time == instant)]  # fmt: skip
    if instant is None:
        plan = f"roll back the writes of {call.path} that failed; pending are"
    elif not pending:
        raise HoodieRollbackException(
            f"{call.path} has no instant {instant} that could be rolled back: hoodie history {call.path} shows them; "
            "nothing was changed"
        )
    else:
        plan = f"roll back {instant} of {call.path}"
    call.ask("\n".join([plan, *(pending or ["  nothing of the active timeline"])]))
    call.show(call.table.rollback(instant))
