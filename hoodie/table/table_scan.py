"""Read a table as Arrow, in this process.

Hudi: the snapshot query of its engines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieCleanerPlan
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, oldest
from hoodie.common.util.shown_value import shown_value
from hoodie.config.clean_config import CleaningPolicy
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    HoodieSchemaException,
)
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.parquet import parquet_reader
from hoodie.keygen.partition_values import partition_expression
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.missing_files import check_base_files, known_partitions

T = TypeVar("T")
logger = logging.getLogger(__name__)
Filters: TypeAlias = pc.Expression | Sequence[Any] | None
_QUERY_TYPES = ("snapshot", "read_optimized")
_DELETING_ACTIONS = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_POLICIES_OF_COMMITS = (CleaningPolicy.KEEP_LATEST_COMMITS, CleaningPolicy.KEEP_LATEST_BY_HOURS)
_MAX_PLANS = 10


def read_table(
    base_path: str,
    *,
    columns: str | Sequence[str] | None = None,
    filters: Filters = None,
    query_type: str = "snapshot",
    as_of: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    storage_options: StorageOptions | None = None,
) -> pa.Table:
    """The table's newest committed rows.

    Args:
        base_path: The table's folder.
        columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first.
        filters: Which rows: an expression, or lists of tuples as `pyarrow.parquet.read_table` takes them; None or
            an empty list for all. Partitions and row groups that cannot hold such rows are not read.
        query_type: ``snapshot`` or ``read_optimized``; of a copy-on-write table both give the same rows.
        as_of: Not supported yet.
        begin: Not supported yet.
        end: Not supported yet.
        storage_options: Options of the storage.

    Returns:
        The rows in memory; see `scan_table` for tables that do not fit.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieConfigException: ``query_type`` is unknown, or the columns or the filters are of another form.
        HoodieSchemaException: A column is not in the table, or a filter compares one with a value of another type.
        HoodieNotSupportedException: The table has a feature that hoodie does not read, or older rows were asked for.

        >>> import hoodie
        >>> hoodie.read_table("/data/trips", columns=["rider", "fare"], filters=[("fare", ">", 50)])  # doctest: +SKIP
    """
    with scan_table(
        base_path,
        columns=columns,
        filters=filters,
        query_type=query_type,
        as_of=as_of,
        begin=begin,
        end=end,
        storage_options=storage_options,
    ) as reader:
        return reader.read_all()


def scan_table(
    base_path: str,
    *,
    columns: str | Sequence[str] | None = None,
    filters: Filters = None,
    query_type: str = "snapshot",
    as_of: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    storage_options: StorageOptions | None = None,
) -> pa.RecordBatchReader:
    """The table's newest committed rows as a stream; memory does not grow with the table.

    Arguments and errors are those of `read_table`. The set of files is fixed when the call returns.
    """
    check_query(query_type, {"as_of": as_of, "begin": begin, "end": end})
    columns = checked_columns(columns)
    return plan_read(
        lambda: TableSnapshot.load(base_path, storage_options),
        lambda snapshot: _scan(snapshot, columns, filters),
    )


def plan_read(load: Callable[[], TableSnapshot], plan: Callable[[TableSnapshot], T]) -> T:
    """Plan a read, and plan it again where files that it needs were deleted meanwhile.

    Partitions are listed some time after the timeline. When a clean has deleted the slices of that timeline in between,
    those file groups look as if they were not there yet, and their rows would silently be missing. So the timeline is
    listed once more, once for each read. A clean that retains what readers of older commits need is no reason to plan
    again.

    Hudi has no such check.

    Args:
        load: Opens the table.
        plan: Lists what is to be read; called again with the table opened anew when files that it needs may have been
            deleted meanwhile.

    Raises:
        HoodieIOException: Files may have been deleted each time.
        HoodieException: Opening or planning failed.
    """
    for _ in range(_MAX_PLANS):
        snapshot = load()
        before = snapshot.active_timeline
        try:
            result = plan(snapshot)
        except HoodieIOException:
            if not _has_changed(before) and not _may_lack_files(before):
                raise
        else:
            if not _may_lack_files(before):
                return result
        logger.info("files of %s were deleted while it was listed; listing it again", snapshot.base_path)
    raise HoodieIOException(
        f"reading {snapshot.base_path}: files were cleaned or rolled back each of the {_MAX_PLANS} times it was "
        "listed, so rows would be missing. Read it again, and let cleans retain more (hoodie.cleaner.commits.retained)"
    )


def _may_lack_files(before: HoodieActiveTimeline) -> bool:
    """Whether what was listed since may lack files that readers of a timeline need.

    With cleans after each commit this must be rare, or a table that takes long to list could never be read. The files
    that a clean retains are enough for readers that know all commits older than the first one it retains.
    """
    after = before.reload()
    known = before.completed_writes().times
    if after.undone_since(known):
        # This is so before the first file of such a commit is deleted.
        return True
    # A clean that was planned before the timeline was listed leaves all that the timeline needs.
    begun = _deletions(after) - _deletions(before)
    cleans = [time for time, action in begun if action is Action.CLEAN]
    if len(cleans) < len(begun):
        return bool(cleans) or any(action is Action.RESTORE for _, action in begun)
    new = oldest(after.completed_writes().times - known)
    return new is not None and not all(_retains(after, time, new) for time in cleans)


def _has_changed(before: HoodieActiveTimeline) -> bool:
    """Whether instants that delete files came, went on or were archived."""
    after = before.reload()
    actions = (before.filter_actions(*_DELETING_ACTIONS), after.filter_actions(*_DELETING_ACTIONS))
    return actions[0].instants != actions[1].instants or before.first_instant != after.first_instant


def _deletions(timeline: HoodieActiveTimeline) -> set[tuple[str, Action]]:
    """Times and actions of instants that delete files; a clean that is requested only has not begun to."""
    found = timeline.filter_actions(*_DELETING_ACTIONS)
    return {
        (i.requested_time, i.action) for i in found if i.action is not Action.CLEAN or i.state is not State.REQUESTED
    }


def _retains(timeline: HoodieActiveTimeline, clean_time: str, instant_time: str) -> bool:
    """Whether a clean keeps what readers need who know of no write from an instant on."""
    requested = HoodieInstant(clean_time, Action.CLEAN, State.REQUESTED)
    try:
        plan = timeline.read_as(requested, HoodieCleanerPlan)
    except HoodieException as error:
        logger.info("what a clean retains is not known: %s", error)
        return False
    earliest = plan.earliest_instant_to_retain
    return (
        plan.policy in _POLICIES_OF_COMMITS
        and earliest is not None
        and earliest.timestamp != ""
        and not is_after(earliest.timestamp, instant_time)
    )


def _scan(snapshot: TableSnapshot, columns: Sequence[str] | None, filters: Filters) -> pa.RecordBatchReader:
    snapshot.table_config.check_readable()
    if snapshot.load_avro_schema() is None:
        # Nothing was ever written: no rows, and no types to give them.
        names = columns if columns is not None else META_COLUMNS
        return (
            pa.schema([(name, pa.string() if name in META_COLUMNS else pa.null()) for name in names])
            .empty_table()
            .to_reader()
        )
    return scan_slices(
        snapshot,
        snapshot.load_schema(),
        columns,
        filters,
        lambda schema, row_filter: file_slices(snapshot, schema, row_filter),
    )


def scan_slices(
    snapshot: TableSnapshot,
    user_schema: pa.Schema,
    columns: str | Sequence[str] | None,
    filters: Filters,
    slices_of: Callable[[pa.Schema, RowFilter | None], Sequence[FileSlice]],
) -> pa.RecordBatchReader:
    """The rows of some slices as a stream.

    Args:
        snapshot: The table.
        user_schema: The user's columns.
        columns: See `scan_table`.
        filters: See `scan_table`.
        slices_of: Gives the slices for all columns and a filter, which is applied to their rows here.

    Raises:
        HoodieException: See `scan_table`.
    """
    if isinstance(columns, str):
        columns = [columns]
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *user_schema])
    wanted = list(columns) if columns is not None else schema.names
    check_columns(snapshot.base_path, schema, wanted)
    row_filter = to_row_filter(filters, schema, snapshot.base_path)
    slices = slices_of(schema, row_filter)
    result_schema = pa.schema([schema.field(name) for name in wanted])

    def batches() -> Iterator[pa.RecordBatch]:
        for file_slice in slices:
            reader = HoodieFileGroupReader(snapshot.storage, file_slice, schema, columns=wanted, row_filter=row_filter)
            for batch in reader.scan():
                yield batch.cast(result_schema) if batch.schema != result_schema else batch

    return pa.RecordBatchReader.from_batches(result_schema, batches())


def check_columns(base_path: str, schema: pa.Schema, wanted: Sequence[str]) -> None:
    """Refuse columns that a table does not have.

    Args:
        base_path: The table's folder.
        schema: All of its columns.
        wanted: Names.

    Raises:
        HoodieSchemaException: There are no such columns.
    """
    unknown = [name for name in wanted if name not in schema.names]
    if unknown:
        raise HoodieSchemaException(
            f"{base_path} has no column {', '.join(unknown)}{spelled_otherwise(schema.names, unknown)}; "
            f"it has {', '.join(schema.names)}"
        )


def to_expression(filters: Filters) -> pc.Expression | None:
    """Filters in either form as an expression; None for all rows.

    Raises:
        HoodieConfigException: They are of another form.
    """
    if filters is None or isinstance(filters, pc.Expression):
        return filters
    if isinstance(filters, list | tuple) and not filters:
        return None
    try:
        return parquet_reader.to_expression(filters)
    except (LookupError, ValueError, TypeError, pa.ArrowException) as error:
        raise HoodieConfigException(
            f"filters {filters!r} are not understood ({error}): give an expression, or tuples such as ('fare', '>', 50)"
        ) from error


def to_row_filter(filters: Filters, schema: pa.Schema, base_path: str) -> RowFilter | None:
    """Filters in either form, as what fits the table; None for all rows.

    Args:
        filters: See `scan_table`.
        schema: The table's columns, meta columns too.
        base_path: The table, for messages.

    Raises:
        HoodieConfigException: They are of another form.
        HoodieSchemaException: They name unknown columns, or compare columns with values of other types.
    """
    expression = to_expression(filters)
    return None if expression is None else RowFilter.of(expression, schema, base_path)


def file_slices(snapshot: TableSnapshot, schema: pa.Schema, row_filter: RowFilter | None) -> list[FileSlice]:
    """Latest slices of the partitions that can hold rows of the filter.

    Raises:
        HoodieIOException: A base file that commits name is not there; see `check_base_files`.
    """
    view = snapshot.view()
    wanted = known_partitions(snapshot, view)
    if row_filter is not None:
        wanted = prune_partitions(wanted, snapshot, schema, row_filter)
    partitions = sorted(set(view.list_partitions()).intersection(wanted))
    view.load_partitions(partitions)
    check_base_files(snapshot, view, wanted)
    return [file_slice for partition in partitions for file_slice in view.latest_file_slices(partition)]


def prune_partitions(
    partitions: list[str], snapshot: TableSnapshot, schema: pa.Schema, row_filter: RowFilter
) -> list[str]:
    """The partitions that can hold rows of a filter, as their paths tell."""
    if row_filter.pushed is None:
        return partitions
    # Loaded when something is read: it loads pandas, which takes longer than all of hoodie.
    import pyarrow.dataset as ds
    from pyarrow import fs

    guarantees = [partition_expression(partition, snapshot.table_config, schema) for partition in partitions]
    # A dataset of names only: pyarrow decides by the guarantees which of them the filter can meet.
    names = [str(number) for number in range(len(partitions))]
    dataset = ds.FileSystemDataset.from_paths(
        names, schema, ds.ParquetFileFormat(), fs.LocalFileSystem(), partitions=guarantees
    )
    return [partitions[int(fragment.path)] for fragment in dataset.get_fragments(row_filter.pushed)]


def checked_columns(columns: str | Sequence[str] | None) -> Sequence[str] | None:
    """Columns that a caller names, as a list; None for all.

    Raises:
        HoodieConfigException: They are no names.
    """
    if columns is None or isinstance(columns, str):
        return columns if columns is None else [columns]
    if isinstance(columns, bytes) or not isinstance(columns, Iterable):
        raise HoodieConfigException(f"columns is {shown_value(columns)}: give a column's name, or a list of names")
    names = list(columns)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise HoodieConfigException(f"columns has a name that is {shown_value(wrong[0])}: give names of columns")
    return names


def check_query(query_type: str, instants: Mapping[str, str | None]) -> None:
    """Refuse queries that cannot be run.

    Args:
        query_type: See `read_table`.
        instants: Its arguments that name instants.

    Raises:
        HoodieNotSupportedException: Older rows are asked for.
        HoodieConfigException: There is no such query type.
    """
    given = [name for name, value in instants.items() if value is not None]
    if query_type == "incremental":
        given.insert(0, "query_type='incremental'")
    if given:
        raise HoodieNotSupportedException(f"{', '.join(given)}: hoodie reads the newest rows only; leave it out")
    if query_type not in _QUERY_TYPES:
        raise HoodieConfigException(f"query_type {query_type!r}: hoodie has {', '.join(_QUERY_TYPES)}")
