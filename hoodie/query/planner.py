"""The one planner of all readers: it plans the files of a query.

::

    query type       slices                                          rows
    snapshot         the latest of each file group, or the latest    all
    read optimized   as of an instant
    incremental      slices of commits of the range, or all slices   of commits of the range
                     as of its end

Then partitions, statistics and bloom filters exclude files without rows of the filter: first by the metadata table, for
all files, then by the footers of base files. A base file below log files is never excluded by its footer: the log files
may hold a row of the filter, or delete one.

Hudi: org.apache.hudi.{HoodieFileIndex, IncrementalRelation, HoodieBaseRelation}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.read_config import QueryType
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.query.index_pruning import slices_by_key_fields, slices_by_record_index, slices_by_secondary_index
from hoodie.query.latest_slices import Prune, latest_slices
from hoodie.query.pruning import (
    BY_COLUMN_STATISTICS,
    BY_RECORD_INDEX,
    BY_SECONDARY_INDEX,
    prune_by_footers,
    prune_partitions,
    searched_values,
)
from hoodie.query.range_pruning import partitions_by_statistics, slices_by_statistics
from hoodie.query.read_plan import DataSkipping, PlannedSlice, Pruned, ReadPlan, all_columns, check_columns
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import Filters, TableQuery, checked_columns, to_expression
from hoodie.storage.storage_options import StorageOptions

SlicesOf = Callable[[Prune], Sequence[FileSlice]]
"""Takes a function that selects the partitions that may hold rows; returns the slices."""


def plan_query(base_path: str, query: TableQuery, storage_options: StorageOptions | None = None) -> ReadPlan:
    """Plan a query of a table's newest state. It is planned again if files were deleted meanwhile.

    Args:
        base_path: The table's folder.
        query: The query.
        storage_options: Options of the storage.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieConfigException: The query does not fit the table.
        HoodieSchemaException: A column is not in the table, or a filter does not fit it.
        HoodieNotSupportedException: The table has a feature that hoodie does not read.
        HoodieIOException: Files of the query were cleaned, or are missing; or storage failed.
    """
    return plan_until_complete(
        lambda: TableSnapshot.load(base_path, storage_options, listing_choice=query.listing_choice),
        lambda snapshot: plan_of(snapshot, query),
    )


def plan_of(snapshot: TableSnapshot, query: TableQuery, *, reads_footers: bool = True) -> ReadPlan:
    """Plan a query of a snapshot, for callers that make sure that the table does not change.

    Args:
        snapshot: The table.
        query: The query.
        reads_footers: Whether files may be pruned by their footers. Otherwise footers are read only for a filter that
            names record keys. If the metadata table has ranges, filters on other columns read no footers.

    Raises:
        HoodieException: See `plan_query`.
    """
    refuse_changes(query)
    snapshot.table_config.check_readable()
    query.times.check_range(snapshot.active_timeline.timezone)
    if snapshot.load_avro_schema() is None:
        return _plan_of_nothing(snapshot, query)
    as_of = query.times.as_of_time(snapshot.active_timeline.timezone)
    schema = all_columns(snapshot.load_schema() if as_of is None else snapshot.load_schema_as_of(as_of))
    if query.query_type is QueryType.INCREMENTAL:
        return _plan_of_range(snapshot, query, schema, reads_footers)
    is_optimized = query.query_type is QueryType.READ_OPTIMIZED
    if as_of is None:
        return plan_of_slices(
            snapshot,
            query,
            schema,
            lambda prune: latest_slices(snapshot, prune, optimized=is_optimized),
            LogBlockFilter.of(snapshot.active_timeline.visible_instants),
            reads_footers=reads_footers,
            is_newest=not is_optimized,
        )
    # Imported here: most reads are of the newest state, and start earlier without.
    from hoodie.query.earlier_slices import slices_as_of
    from hoodie.query.overtaken_commits import warn_of_overtaken_commits

    warn_of_overtaken_commits(snapshot.active_timeline, snapshot.base_path, as_of)
    plan = plan_of_slices(
        snapshot,
        query,
        schema,
        lambda prune: slices_as_of(snapshot, as_of, prune, tells_of_pending=True, optimized=is_optimized),
        LogBlockFilter.of(snapshot.active_timeline.visible_instants, as_of),
        reads_footers=reads_footers,
    )
    return attrs.evolve(plan, read_at=f"as of {as_of}")


def _plan_of_range(snapshot: TableSnapshot, query: TableQuery, schema: pa.Schema, reads_footers: bool) -> ReadPlan:
    """The plan of an incremental query."""
    # Imported here: most reads are of the newest state, and start earlier without.
    from hoodie.query.commit_range import commit_range
    from hoodie.query.commit_slices import instants_at_end, only_matching
    from hoodie.query.earlier_slices import slices_of_range
    from hoodie.query.overtaken_commits import warn_of_overtaken_commits

    commits = commit_range(snapshot, query)
    if commits.end is not None and not commits.is_named:
        # The result of a range is defined by the state at its end.
        warn_of_overtaken_commits(snapshot.active_timeline, snapshot.base_path, commits.end)
    range_query = query
    if commits.condition is not None:
        filters = commits.condition if query.filters is None else commits.condition & query.filters
        range_query = attrs.evolve(query, filters=filters)
    plan = plan_of_slices(
        snapshot,
        range_query,
        schema,
        lambda prune: only_matching(slices_of_range(snapshot, commits, query, prune), query.config.path_glob),
        LogBlockFilter(instants_at_end(snapshot, commits)) if commits.unseen else None,
        reads_footers=reads_footers,
    )
    context = attrs.evolve(plan.context, instant_range=commits.instant_range)
    return attrs.evolve(plan, query=query, read_at=str(commits), context=context)


def refuse_changes(query: TableQuery) -> None:
    """Refuse a query of changes, for readers of rows.

    Args:
        query: The query.

    Raises:
        HoodieNotSupportedException: It asks for changes.
    """
    if query.changes is not None:
        raise HoodieNotSupportedException(
            "query_format='cdc' (hoodie.datasource.query.incremental.format=cdc) asks for changes, and here rows are "
            "read: leave it out, or call hoodie.read_table(..., query_type='incremental', query_format='cdc')"
        )


def plan_of_slices(
    snapshot: TableSnapshot,
    query: TableQuery,
    schema: pa.Schema,
    slices_of: SlicesOf,
    block_filter: LogBlockFilter | None = None,
    *,
    reads_footers: bool = True,
    is_newest: bool = False,
) -> ReadPlan:
    """Plan a query of the given slices.

    Args:
        snapshot: The table.
        query: Its columns and filters.
        schema: All columns, Hudi's meta columns first.
        slices_of: Returns the slices.
        block_filter: The rule which blocks of log files count; None for the rule of today's readers.
        reads_footers: See `plan_of`.
        is_newest: Whether they are the newest slices with their log files. Indexes and statistics of partitions apply
            only to these.

    Raises:
        HoodieException: See `plan_query`.
    """
    columns = tuple(schema.names) if query.columns is None else query.columns
    table = snapshot.base_path if query.times.as_of is None else f"{snapshot.base_path} as of {query.times.as_of}"
    check_columns(table, schema, columns)
    row_filter = None if query.filters is None else RowFilter.of(query.filters, schema, table)
    excluded: list[str] = []
    without_rows: list[str] = []
    skips = query.config.data_skipping

    def prune(partitions: Sequence[str]) -> list[str]:
        possible_partitions = prune_partitions(partitions, snapshot.table_config, schema, row_filter)
        excluded.extend(set(partitions).difference(possible_partitions))
        if not is_newest or not skips or row_filter is None:
            return possible_partitions
        by_statistics = partitions_by_statistics(snapshot, possible_partitions, schema, row_filter)
        without_rows.extend(set(possible_partitions).difference(by_statistics))
        return by_statistics

    slices = list(slices_of(prune))
    log_merging = None
    if not all(file_slice.is_base_file_alone for file_slice in slices):
        # Imported here: a read of base files alone needs nothing of it, and starts earlier without.
        from hoodie.io.merging_reader import LogMerging
        from hoodie.merge.record_merger import named_merger

        merger = named_merger(query.merger_class)
        merging = LogMerging.of_table(snapshot, schema, query.log_merge, merger=merger)
        log_merging = merging if block_filter is None else attrs.evolve(merging, block_filter=block_filter)
    pruned: list[Pruned] = []
    planned: list[PlannedSlice] | None = None
    searched = None
    if row_filter is not None:
        searched = searched_values(row_filter, snapshot.table_config, schema)
        is_key = searched is not None and searched.column == RECORD_KEY_META
        if skips and is_newest and is_key and searched is not None:
            holds = slices_by_record_index(snapshot, slices, searched.values)
            slices = _flagged(slices, holds, BY_RECORD_INDEX, pruned)
        elif skips and is_newest:
            trusts = query.config.trusts_key_fields
            by, holds = BY_RECORD_INDEX, slices_by_key_fields(snapshot, slices, row_filter, schema) if trusts else None
            if holds is None:
                by, holds = BY_SECONDARY_INDEX, slices_by_secondary_index(snapshot, slices, row_filter, schema)
            slices = _flagged(slices, holds, by, pruned)
        may_hold = slices_by_statistics(snapshot, slices, schema, row_filter) if skips else None
        slices = _flagged(slices, may_hold, BY_COLUMN_STATISTICS, pruned)
        # The ranges are those of footers. Scans of the remaining files skip row groups without a plan.
        has_ranges = may_hold is not None and searched is None
        if is_key or (reads_footers and row_filter.pushed is not None and not has_ranges):
            planned, by_footers = prune_by_footers(snapshot.storage, slices, schema, row_filter, searched)
            pruned += by_footers
    if planned is None:
        planned = [PlannedSlice(file_slice) for file_slice in slices]
    seeks_few = searched is not None or query.query_type is QueryType.INCREMENTAL
    return ReadPlan(
        snapshot,
        query,
        HoodieReaderContext(
            snapshot.storage, schema, columns, log_merging, row_filter, seeks_few=seeks_few, searched=searched
        ),
        tuple(planned),
        DataSkipping(tuple(pruned), tuple(sorted(excluded)), tuple(sorted(without_rows))),
    )


def _flagged(
    slices: Sequence[FileSlice], flags: npt.NDArray[np.bool_] | None, by: str, pruned: list[Pruned]
) -> list[FileSlice]:
    """The slices with a flag; the files of the others are noted as pruned. Without flags, all slices."""
    if flags is None:
        return list(slices)
    excluded_slices = [file_slice for file_slice, is_kept in zip(slices, flags.tolist(), strict=True) if not is_kept]
    pruned.append(Pruned.of(by, [file for file_slice in excluded_slices for file in file_slice.record_files]))
    return [file_slice for file_slice, is_kept in zip(slices, flags.tolist(), strict=True) if is_kept]


def narrowed(plan: ReadPlan, columns: Sequence[str] | None, filters: Filters) -> ReadPlan:
    """A plan with fewer columns, and with a condition on top of its own filter.

    Args:
        plan: The plan; its files are fixed.
        columns: Names; None for the columns of the plan.
        filters: The condition; None for no condition.

    Raises:
        HoodieConfigException: A column is named twice, or the condition has another form.
        HoodieSchemaException: A column is not in the table, or the condition does not fit it.
    """
    chosen, condition = checked_columns(columns), to_expression(filters)
    names = plan.columns if chosen is None else chosen
    if condition is None and names == plan.columns:
        return plan
    check_columns(plan.base_path, plan.schema, names)
    if condition is None:
        return attrs.evolve(plan, context=attrs.evolve(plan.context, columns=names))
    own = plan.row_filter
    both = condition if own is None else own.expression & condition
    query = attrs.evolve(plan.query, columns=names, filters=both)

    def slices_of(prune: Prune) -> list[FileSlice]:
        possible_partitions = set(prune(sorted({file_slice.partition_path for file_slice in plan.file_slices})))
        return [file_slice for file_slice in plan.file_slices if file_slice.partition_path in possible_partitions]

    block_filter = None if plan.log_merging is None else plan.log_merging.block_filter
    found = plan_of_slices(plan.snapshot, query, plan.schema, slices_of, block_filter)
    context = attrs.evolve(found.context, instant_range=plan.context.instant_range)
    return attrs.evolve(found, read_at=plan.read_at, context=context)


def pruned_by_footers(plan: ReadPlan) -> ReadPlan:
    """Prune a plan by the footers of its files, if it was made without them.

    Args:
        plan: The plan; its files are fixed.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    if plan.row_filter is None or any(planned.row_groups is not None for planned in plan.slices):
        return plan
    slices, pruned = prune_by_footers(
        plan.snapshot.storage, plan.file_slices, plan.schema, plan.row_filter, plan.searched
    )
    skipped = attrs.evolve(plan.skipped, files=(*plan.pruned, *pruned))
    return attrs.evolve(plan, slices=tuple(slices), skipped=skipped)


def _plan_of_nothing(snapshot: TableSnapshot, query: TableQuery) -> ReadPlan:
    """The plan for a table that was never written: no rows, and no types for the queried columns."""
    names = query.columns if query.columns is not None else META_COLUMNS
    fields = {name: pa.field(name, pa.string() if name in META_COLUMNS else pa.null()) for name in names}
    context = HoodieReaderContext(snapshot.storage, pa.schema(list(fields.values())), tuple(names))
    return ReadPlan(snapshot, query, context, (), read_at="never written")
