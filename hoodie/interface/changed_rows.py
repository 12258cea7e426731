"""The rows that a range of commits wrote, or their changes, with the time at which the next range begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.interface.results import TableChanges
from hoodie.query.arrow_reader import scan
from hoodie.query.change_planner import plan_changes
from hoodie.query.commit_stream import newest_readable
from hoodie.query.planner import narrowed, plan_of
from hoodie.query.read_plan import ReadPlan
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import EARLIEST, Filters, QueryTime, TableQuery
from hoodie.storage.storage_options import StorageOptions


def changed_rows(
    base_path: str,
    since: QueryTime | None,
    until: QueryTime | None,
    columns: str | Sequence[str] | None,
    where: Filters,
    options: Mapping[str, Any],
    storage_options: StorageOptions | None,
    *,
    meta_columns: bool = False,
) -> TableChanges:
    """Read what was written in a range of times.

    Without an end, the range ends before the first pending write in tables of version 6, whose commits count in the
    order of their instants: no later range misses its rows.

    Args:
        base_path: The table's folder.
        since: The range begins after this time; None for the beginning.
        until: It ends at this time; None for the newest commit that may be read.
        columns: Names; None for all.
        where: A condition on rows.
        options: Hudi's read options.
        storage_options: Options of the storage.
        meta_columns: Whether a result without ``columns`` has Hudi's columns.

    Raises:
        HoodieException: See `hoodie.read_table`.
    """
    begin = EARLIEST if since is None else since
    # Checks the arguments before the table is opened.
    query = TableQuery.of(
        columns=columns, filters=where, query_type="incremental", begin=begin, end=until, options=options
    )

    def planned(snapshot: TableSnapshot) -> tuple[ReadPlan, str | None, str | None]:
        zone = snapshot.active_timeline.timezone
        end = query.times.end_time(zone) or newest_readable(snapshot)
        first = query.times.begin_time(zone)
        if end is None or (until is None and first is not None and is_after(first, end)):
            # A commit that was undone, or is still to come: the plan without an end tells.
            return plan_of(snapshot, query), first, None
        ranged = TableQuery.of(
            columns=columns, filters=where, query_type="incremental", begin=begin, end=end, options=options
        )
        return plan_of(snapshot, ranged), first, end

    plan, first, last = plan_until_complete(
        lambda: TableSnapshot.load(base_path, storage_options, listing_choice=query.listing_choice), planned
    )
    if columns is None and not meta_columns:
        plan = narrowed(plan, [name for name in plan.columns if name not in META_COLUMN_SET], None)
    with scan(plan) as reader:
        rows: pa.Table = reader.read_all()
    return TableChanges(rows, first, last if last is not None else first)


def row_changes(
    base_path: str,
    since: QueryTime | None,
    until: QueryTime | None,
    columns: str | Sequence[str] | None,
    where: Filters,
    options: Mapping[str, Any],
    storage_options: StorageOptions | None,
) -> TableChanges:
    """Read the changes of a range of times, deletes included; see `plan_changes`.

    Args:
        base_path: The table's folder.
        since: See `changed_rows`.
        until: See `changed_rows`.
        columns: Names of the user's columns that the rows before and after have; None for all.
        where: A condition on the row before or after.
        options: Hudi's read options.
        storage_options: Options of the storage.

    Raises:
        HoodieException: See `plan_changes`.
    """
    query = TableQuery.of(
        columns=columns,
        filters=where,
        query_type="incremental",
        query_format="cdc",
        begin=EARLIEST if since is None else since,
        end=until,
        options=options,
    )
    plan = plan_changes(base_path, query, storage_options)
    with scan(plan) as reader:
        rows: pa.Table = reader.read_all()
    begin = query.times.begin_time(plan.snapshot.active_timeline.timezone)
    return TableChanges(rows, begin, plan.next_begin, has_deletes=True)
