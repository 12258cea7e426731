"""The planner of queries of changes.

Of a table that stores changes, each commit of the range has tasks, by the statistics of its files::

    statistics of a file                         changes
    change data                                  as stored; images that the mode leaves out are looked up
    base file with new rows only                 inserts
    base file without rows                       deletes of the rows before it
    base file beside older rows, no change data  the rows of an insert; otherwise the file is compared with the one
                                                 before it. Hudi forgets change data at inserts, and fails
    log file                                     the rows with it are compared with those without it
    replaced file group                          deletes of its rows

Of any other table, the states at the begin and at the end of the range are compared: of the file groups that commits of
the range wrote or replaced, with those that replaced each other compared together.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCExtractor. Differs: what was cleaned or archived is always an error;
commits without stored changes are recovered; every operation that changes rows counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import pyarrow as pa

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.record_columns import COMMIT_TIME_META, META_COLUMN_SET
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode, logging_mode_of
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.cdc.cdc_inference_case import HoodieCDCInferenceCase as Case
from hoodie.common.table.cdc.cdc_schemas import OP
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order, is_after, is_before, newest, oldest
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.config.read_config import ChangeForm
from hoodie.exception import HoodieMissingChangesException, HoodieNotSupportedException
from hoodie.io.merged_log_records import LogMergeRules
from hoodie.io.merging_reader import LogMerging
from hoodie.merge.record_merger import named_merger
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_range import ChangeRange, change_range
from hoodie.query.change_task import HUDI_COLUMNS, ChangeContext, ChangePart, ChangeTask, SliceState
from hoodie.query.commit_range import completion_of, last_archived
from hoodie.query.commit_slices import read_metadata
from hoodie.query.pruning import prune_partitions
from hoodie.query.read_plan import all_columns, check_columns
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import EARLIEST, TableQuery
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import file_name, join
from hoodie.table.table_state import LOG_FILES, last_versions, missing_at

_Written = Mapping[HoodieInstant, HoodieCommitMetadata]
_KEEP_MORE = (
    "Cleans and archiving keep more with hoodie.cleaner.commits.retained and hoodie.keep.min.commits, and a savepoint "
    "keeps the files of a commit"
)


def plan_changes(base_path: str, query: TableQuery, storage_options: StorageOptions | None = None) -> ChangePlan:
    """Plan a query of a table's changes. It is planned again if files were deleted meanwhile.

    ``plan.batches()`` (or `hoodie.query.arrow_reader.scan`) gives the changes of ``TableQuery.of(query_type=
    "incremental", query_format="cdc", begin=...)`` in the typed form; ``plan.next_begin`` is the begin of the query
    that goes on from here.

    Args:
        base_path: The table's folder.
        query: The query, whose `TableQuery.changes` is given.
        storage_options: Options of the storage.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieConfigException: The query does not fit the table.
        HoodieSchemaException: A column is not in the table, or a filter does not fit it.
        HoodieNotSupportedException: The table has a feature that hoodie does not read, or no meta columns.
        HoodieMissingChangesException: Changes of the range were cleaned or archived; the message names the earliest
            time at which a range can begin.
        HoodieIOException: Storage failed.
        HoodieException: A limit of the range was rolled back; or a commit is pending, and the query does not choose how
            to handle it.
    """
    return plan_until_complete(
        lambda: TableSnapshot.load(base_path, storage_options, listing_choice=query.listing_choice),
        lambda snapshot: changes_of(snapshot, query),
    )


def changes_of(snapshot: TableSnapshot, query: TableQuery) -> ChangePlan:
    """Plan a query of the changes up to a snapshot, for callers that make sure that the table does not change.

    Args:
        snapshot: The table.
        query: The query.

    Raises:
        HoodieException: See `plan_changes`.
    """
    snapshot.table_config.check_readable()
    query.times.check_range(snapshot.active_timeline.timezone)
    form = ChangeForm.TYPED if query.changes is None else query.changes.form
    stores_changes = logging_mode_of(snapshot.table_config.properties) is not None
    if snapshot.load_avro_schema() is None:
        nothing = ChangeContext(snapshot.storage, all_columns(pa.schema([])), ())
        begin = query.times.begin_time(snapshot.active_timeline.timezone)
        return ChangePlan(snapshot, query, nothing, (), begin, not stores_changes, "never written", form)
    chosen = change_range(snapshot, query)
    context = _context_of(snapshot, query)
    planner = _Planner(snapshot, chosen, context)
    tasks = planner.of_commits() if stores_changes else planner.of_states()
    return ChangePlan(
        snapshot,
        query,
        context,
        tuple(tasks),
        chosen.until,
        not stores_changes,
        str(chosen.commits),
        form,
        partial(earliest_begin, snapshot),
    )


def earliest_begin(snapshot: TableSnapshot) -> str | None:
    """The earliest time at which a range of changes can begin, of those after which commits are not archived.

    Args:
        snapshot: The table.

    Returns:
        The time; None if the table has no commit, or tells no changes.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: The metadata of a commit is damaged.
    """
    timeline = snapshot.active_timeline
    writes = timeline.completed_writes()
    times = map(completion_of, writes) if timeline.layout.has_completion_times else (i.requested_time for i in writes)
    first = oldest(times)
    if first is None or not snapshot.table_config.populate_meta_fields:
        return None
    is_whole = timeline.newest_archived_time() is None and logging_mode_of(snapshot.table_config.properties) is not None
    for begin in [EARLIEST, first] if is_whole else [first]:
        query = TableQuery.of(query_type="incremental", query_format="cdc", begin=begin)
        try:
            changes_of(snapshot, query)
        except HoodieMissingChangesException as error:
            if error.earliest is not None:
                return error.earliest
        except HoodieNotSupportedException:
            return None
        else:
            return begin
    return None


def change_schema(snapshot: TableSnapshot, query: TableQuery) -> pa.Schema:
    """The columns of a query of changes, without a plan.

    Args:
        snapshot: The table.
        query: The query.

    Raises:
        HoodieSchemaException: A column is not in the table, or nothing was written to it.
    """
    form = ChangeForm.TYPED if query.changes is None else query.changes.form
    return HUDI_COLUMNS if form is ChangeForm.HUDI else _context_of(snapshot, query).result_schema


def _context_of(snapshot: TableSnapshot, query: TableQuery) -> ChangeContext:
    schema = all_columns(snapshot.load_schema())
    user_schema = pa.schema([field for field in schema if field.name not in META_COLUMN_SET])
    columns = tuple(user_schema.names) if query.columns is None else query.columns
    check_columns(snapshot.base_path, user_schema, columns)
    row_filter = None
    if query.filters is not None:
        of_changes = [name for name in (OP, COMMIT_TIME_META) if name not in user_schema.names]
        known = pa.schema([*user_schema, *(pa.field(name, pa.string()) for name in of_changes)])
        row_filter = RowFilter.of(query.filters, known, snapshot.base_path)
    merging = None
    if snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ:
        merging = LogMerging.of_table(snapshot, schema, query.log_merge, merger=named_merger(query.merger_class))
    return ChangeContext(snapshot.storage, schema, columns, merging, row_filter)


def _is_told_by_rows(context: ChangeContext) -> bool:
    """Whether rows that a commit changed have its commit time. A payload or a merger may keep that of the old row."""
    merging = context.log_merging
    return merging is None or LogMergeRules(merging.merge_spec, context.schema).takes_whole_rows


@attrs.frozen(eq=False)
class _Missing:
    """A file that changes need, and that is not stored any more.

    Attributes:
        instant: The commit of the changes.
        what: The file, or file group.
    """

    instant: HoodieInstant
    what: str


class _States:
    """The slices of file groups in states of the table; partitions are listed when they are needed."""

    def __init__(self, snapshot: TableSnapshot, instants: VisibleInstants) -> None:
        self._view: HoodieTableFileSystemView = snapshot.view(instants)
        self._instants = instants
        self._slices: dict[str, dict[str, FileSlice]] = {}

    def load(self, partitions: Iterable[str]) -> None:
        """List partitions at once."""
        self._view.load_partitions(sorted(set(partitions).intersection(self._view.list_partitions())))

    def slice_of(self, group: HoodieFileGroupId) -> SliceState | None:
        """The slice of a file group; None if it has none."""
        found = self._slices_of(group.partition_path).get(group.file_id)
        return None if found is None else SliceState(found, self._instants)

    def slices_of(self, partition_path: str) -> list[SliceState]:
        """The slices of a partition."""
        return [SliceState(found, self._instants) for found in self._slices_of(partition_path).values()]

    def _slices_of(self, partition_path: str) -> dict[str, FileSlice]:
        if partition_path not in self._slices:
            exists = partition_path in self._view.list_partitions()
            found = self._view.latest_file_slices(partition_path) if exists else []
            self._slices[partition_path] = {part.file_id: part for part in found}
        return self._slices[partition_path]


class _Planner:
    """Makes the tasks of a range."""

    def __init__(self, snapshot: TableSnapshot, chosen: ChangeRange, context: ChangeContext) -> None:
        self._snapshot = snapshot
        self._range = chosen
        self._context = context
        self._are_told_by_rows = _is_told_by_rows(context)
        self._mode = logging_mode_of(snapshot.table_config.properties)
        self._missing: list[_Missing] = []
        self._checked: list[tuple[HoodieInstant, str]] = []

    # --- stored changes -------------------------------------------------------------------------------------------

    def of_commits(self) -> list[ChangeTask]:
        """The tasks of each commit, in the order of their changes.

        Raises:
            HoodieException: See `plan_changes`.
        """
        self._refuse_archived()
        written = read_metadata(self._snapshot, self._range.instants)
        tasks: list[ChangeTask] = []
        for instant in self._range.instants:
            metadata = written[instant]
            if not metadata.only_rewrites:
                tasks += self._of_commit(instant, metadata)
        exist = map_concurrently(self._snapshot.storage.exists, [path for _, path in self._checked])
        for (instant, path), exists in zip(self._checked, exist, strict=True):
            if not exists:
                self._missing.append(_Missing(instant, path))
        self._refuse_cleaned()
        return tasks

    def _of_commit(self, instant: HoodieInstant, metadata: HoodieCommitMetadata) -> Iterator[ChangeTask]:
        replaced = [HoodieFileGroupId(*group) for group in metadata.replaced_file_groups]
        stats: dict[HoodieFileGroupId, list[HoodieWriteStat]] = defaultdict(list)
        for stat in metadata.write_stats:
            if stat.path:
                stats[HoodieFileGroupId(stat.partition_path, stat.file_id)].append(stat)
        possible = self._possible([group.partition_path for group in (*replaced, *stats)])
        states = _CommitStates(self._snapshot, self._range, instant, possible)
        last = self._last_versions(instant, [group for group in replaced if group.partition_path in possible])
        for group in sorted(replaced):
            if group.partition_path not in possible:
                continue
            before = states.before(group)
            if before is None or is_before(before.file_slice.base_instant_time, last.get(group, "")):
                self._missing.append(_Missing(instant, f"{group.partition_path}/{group.file_id}".lstrip("/")))
            else:
                yield ChangeTask(Case.REPLACE_COMMIT, instant.requested_time, group.partition_path, (before,))
        for group, of_group in sorted(stats.items(), key=lambda item: item[0]):
            if group.partition_path in possible:
                task = self._of_group(instant, group, of_group, states)
                if task is not None:
                    yield task

    def _last_versions(
        self, instant: HoodieInstant, groups: Sequence[HoodieFileGroupId]
    ) -> dict[HoodieFileGroupId, str]:
        """The instants of the last base files of file groups before a commit; of those that savepoints may hold.

        A clean deletes all versions of a replaced file group, except those of savepoints, which may be older ones.
        """
        if not groups or not self._snapshot.active_timeline.savepoint_times:
            return {}
        names = {(group.partition_path, group.file_id) for group in groups}
        found = last_versions(self._snapshot, names, instant.requested_time)
        return {HoodieFileGroupId(*name): time for name, time in found.items() if time != LOG_FILES}

    def _of_group(
        self, instant: HoodieInstant, group: HoodieFileGroupId, stats: Sequence[HoodieWriteStat], states: _CommitStates
    ) -> ChangeTask | None:
        """The task of the files that a commit wrote to a file group; None if it changed no row, or one is missing."""
        time = instant.requested_time
        wrote = frozenset([time]) if self._are_told_by_rows else None
        task = ChangeTask(Case.LOG_FILE, time, group.partition_path, wrote=wrote)
        if any(stat.is_log_file for stat in stats):
            return self._compared(instant, group, task, states, stats)
        stat = stats[-1]
        path = join(self._snapshot.base_path, stat.path or "")
        base = FileSlice.of_base_file(group.partition_path, path, stat.file_size_bytes)
        after = (SliceState(base, states.instants_after),)
        if stat.cdc_stats:
            return self._as_stored(instant, group, stat, states, attrs.evolve(task, case=Case.AS_IS, after=after))
        if stat.num_update_writes == 0 and stat.num_deletes == 0 and stat.num_writes == stat.num_inserts:
            self._checked.append((instant, path))
            return attrs.evolve(task, case=Case.BASE_FILE_INSERT, after=after, wrote=None)
        if stat.num_update_writes == 0 and stat.num_deletes == 0:
            self._checked.append((instant, path))
            return attrs.evolve(task, case=Case.ROWS_OF_COMMIT, after=after, wrote=frozenset([time]))
        before = self._before(instant, group, stat, states)
        if before is None:
            return None
        if stat.num_writes == 0:
            return attrs.evolve(task, case=Case.BASE_FILE_DELETE, before=(before,))
        self._checked.append((instant, path))
        return attrs.evolve(
            task, case=Case.BASE_FILE_COMPARE, before=(before,), after=after, rows_return=self._may_return([before])
        )

    def _as_stored(
        self,
        instant: HoodieInstant,
        group: HoodieFileGroupId,
        stat: HoodieWriteStat,
        states: _CommitStates,
        task: ChangeTask,
    ) -> ChangeTask | None:
        """The task of stored changes, with the slices in which images are looked up."""
        change_files = tuple(
            (join(self._snapshot.base_path, name), size) for name, size in (stat.cdc_stats or {}).items()
        )
        self._checked += [(instant, path) for path, _ in change_files]
        task = attrs.evolve(
            task,
            change_files=change_files,
            previous=(group.file_id, stat.prev_commit),
            begin_after=self._range.time_of(instant),
        )
        if self._mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER:
            return attrs.evolve(task, stores_images=True)
        if stat.num_inserts or stat.num_update_writes:
            self._checked.append((instant, join(self._snapshot.base_path, stat.path or "")))
        has_before = stat.num_update_writes > 0 or stat.num_deletes > 0
        if self._mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE or not has_before:
            return task
        before = self._before(instant, group, stat, states)
        return None if before is None else attrs.evolve(task, before=(before,))

    def _before(
        self, instant: HoodieInstant, group: HoodieFileGroupId, stat: HoodieWriteStat, states: _CommitStates
    ) -> SliceState | None:
        """The slice on which a base file was written; None, and noted as missing, if it was cleaned."""
        before = states.before(group)
        if before is None or is_before(before.file_slice.base_instant_time, stat.prev_commit):
            self._missing.append(_Missing(instant, f"the version {stat.prev_commit} of file group {group.file_id}"))
            return None
        return before

    def _compared(
        self,
        instant: HoodieInstant,
        group: HoodieFileGroupId,
        task: ChangeTask,
        states: _CommitStates,
        stats: Sequence[HoodieWriteStat],
    ) -> ChangeTask | None:
        """The task that compares the slices before and after log files; None, and noted, if a file is missing."""
        before, after = states.before(group), states.after(group)
        names = set() if after is None else {file.file_name for file in after.file_slice.record_files}
        own = {file_name(stat.path or "") for stat in stats}
        needed = set(own)
        for stat in stats:
            if after is not None and is_after(after.file_slice.base_instant_time, stat.prev_commit):
                # A compaction was completed before the commit, so its log file belongs to the compaction's slice.
                continue
            needed.update(name for name in (stat.base_file, *(stat.log_files or ())) if name and not _is_cdc(name))
        lacking = sorted(needed - names)
        if after is None or lacking:
            if any(stat.file_size_bytes for stat in stats):
                self._missing.append(_Missing(instant, lacking[0] if lacking else group.file_id))
            return None
        task = attrs.evolve(task, before=() if before is None else (before,), after=(after,))
        if all(stat.is_log_file for stat in stats):
            written = tuple(file for file in after.file_slice.record_log_files if file.file_name in own)
            return attrs.evolve(task, log_files=written)
        return attrs.evolve(task, rows_return=self._may_return([after]))

    def _may_return(self, states: Iterable[SliceState]) -> bool:
        """Whether rows of older commits can be visible again after these slices or in them; see `ChangeTask`."""
        merging = self._context.log_merging
        if merging is None or not merging.merge_spec.ordering_fields:
            return False
        return any(state.file_slice.log_files for state in states)

    # --- states that are compared ---------------------------------------------------------------------------------

    def of_states(self) -> list[ChangeTask]:
        """The tasks that compare the states at the begin and at the end of the range.

        Raises:
            HoodieException: See `plan_changes`.
        """
        begin = self._range.commits.begin
        if begin is None:
            return self._of_end()
        self._refuse_archived()
        written = read_metadata(self._snapshot, self._range.instants)
        units = _units(written)
        possible = self._possible(group.partition_path for group in units)
        members: dict[HoodieFileGroupId, list[HoodieFileGroupId]] = defaultdict(list)
        for group, unit in sorted(units.items()):
            if group.partition_path in possible:
                members[unit].append(group)
        if not members:
            return []
        before, after = self._states_at(begin, possible), self._states_at(self._range.commits.end, possible)
        self._refuse_incomplete(written, [group for groups in members.values() for group in groups], before)
        times: dict[HoodieFileGroupId, str] = {}
        for instant, metadata in written.items():
            for group in _touched(metadata):
                # A delete may have been in any commit. The first one is before all inserts of its key elsewhere.
                times.setdefault(units[group], instant.requested_time)
        wrote = frozenset(i.requested_time for i in written) if self._are_told_by_rows else None
        tasks = []
        for unit, groups in members.items():
            old, new = (
                tuple(found for group in groups if (found := states.slice_of(group)) is not None)
                for states in (before, after)
            )
            may_return = self._may_return([*old, *new])
            tasks.append(ChangeTask(Case.STATE_COMPARE, times[unit], unit.partition_path, old, new, wrote, may_return))
        # A key that was deleted in one file group and inserted in another one: the delete comes first.
        may_delete = _units_with_deletes(written, units)
        deletes = [
            attrs.evolve(task, part=ChangePart.DELETES)
            for unit, task in zip(members, tasks, strict=True)
            if task.before and unit in may_delete
        ]
        return deletes + [attrs.evolve(task, part=ChangePart.WRITES) for task in tasks if task.after]

    def _of_end(self) -> list[ChangeTask]:
        """The tasks of a range from the beginning of the table: all rows at its end are inserts."""
        end = self._range.commits.end
        if self._range.until is None:
            if end is not None:
                self._refuse_archived()
            return []
        view = self._snapshot.view(self._range.state_at(end))
        partitions = self._possible(view.list_partitions())
        states = self._states_at(end, partitions)
        self._refuse_missing(end, None)
        return [
            ChangeTask(Case.STATE_COMPARE, end or "", partition, after=(found,))
            for partition in partitions
            for found in states.slices_of(partition)
        ]

    def _states_at(self, time: str | None, partitions: Iterable[str]) -> _States:
        instants = self._range.state_at(time)
        states = _States(
            self._snapshot, self._snapshot.active_timeline.visible_instants if instants is None else instants
        )
        states.load(partitions)
        return states

    # --- what is not stored any more ------------------------------------------------------------------------------

    def _possible(self, partitions: Iterable[str]) -> list[str]:
        """The partitions that may hold rows of the filter."""
        distinct = sorted(set(partitions))
        context = self._context
        return prune_partitions(distinct, self._snapshot.table_config, context.schema, context.row_filter)

    def _refuse_archived(self) -> None:
        """Raise the error for commits of the range that are archived, if their statistics are not at hand.

        Raises:
            HoodieMissingChangesException: They are.
        """
        if self._snapshot.active_timeline.layout.has_completion_times:
            return
        archived = last_archived(self._snapshot, self._range.commits.begin or "0")
        if archived is not None:
            # Files of later commits may have been cleaned.
            earliest = earliest_begin(self._snapshot) or archived
            raise HoodieMissingChangesException(
                f"changes of {self._snapshot.base_path} {self._range.commits}: commits of the range are archived. "
                f"Begin at {earliest} or later. {_KEEP_MORE}",
                earliest,
            )

    def _refuse_cleaned(self) -> None:
        """Raise the error for files of commits that were cleaned.

        Raises:
            HoodieMissingChangesException: Some were.
        """
        if self._missing:
            earliest = newest(self._range.time_of(missing.instant) for missing in self._missing)
            raise self._cleaned(len(self._missing), self._missing[0].what, earliest)

    def _cleaned(self, count: int, first: str, earliest: str | None) -> HoodieMissingChangesException:
        return HoodieMissingChangesException(
            f"changes of {self._snapshot.base_path} {self._range.commits}: {count} files that they need were cleaned, "
            f"{first} the first, so changes would be missing. Begin at {earliest} or later. {_KEEP_MORE}",
            earliest,
        )

    def _refuse_incomplete(self, written: _Written, groups: Sequence[HoodieFileGroupId], before: _States) -> None:
        """Raise the error for states at the begin or at the end of the range whose files were cleaned.

        Raises:
            HoodieMissingChangesException: Some were.
        """
        begin, end = self._range.commits.begin, self._range.commits.end
        self._refuse_missing(begin, groups)
        self._refuse_missing(end, groups)
        # Commits that were requested earlier than others, and completed later.
        seen: set[HoodieFileGroupId] = set()
        for instant, metadata in written.items():
            for stat in metadata.write_stats:
                group = HoodieFileGroupId(stat.partition_path, stat.file_id)
                if group in seen or not stat.path:
                    continue
                seen.add(group)
                if stat.is_log_file or stat.is_first_of_group or metadata.compacted or group not in set(groups):
                    continue
                found = before.slice_of(group)
                if found is None or is_before(found.file_slice.base_instant_time, stat.prev_commit):
                    raise self._cleaned(
                        1, f"{group.partition_path}/{group.file_id}".lstrip("/"), self._range.time_of(instant)
                    )

    def _refuse_missing(self, time: str | None, groups: Sequence[HoodieFileGroupId] | None) -> None:
        """Raise the error for a state of the table whose files were cleaned.

        Args:
            time: Its time in the range; None for the newest one.
            groups: The file groups that are needed; None for all.

        Raises:
            HoodieMissingChangesException: Some were.
        """
        at = self._newest_seen(time)
        last = self._snapshot.active_timeline.completed_writes().last_instant
        if at is None or last is None or not is_after(last.requested_time, at):
            return
        names = None if groups is None else {f"{g.partition_path}/{g.file_id}".lstrip("/") for g in groups}
        missing = [name for name in missing_at(self._snapshot, at) if names is None or name in names]
        if missing:
            raise self._cleaned(len(missing), missing[0], self._earliest_complete(time, names))

    def _newest_seen(self, time: str | None) -> str | None:
        """The newest requested time of the commits that readers of a time of the range saw."""
        if time is None:
            return newest(self._range.times)
        seen = newest(requested for requested, own in self._range.times.items() if not is_after(own, time))
        return seen if self._snapshot.active_timeline.layout.has_completion_times else newest([seen, time])

    def _earliest_complete(self, after: str | None, names: set[str] | None) -> str | None:
        """The first time of a commit after a time whose state has all files."""
        times = in_order({time for time in self._range.times.values() if after is None or is_after(time, after)})
        low, high = 0, len(times) - 1
        while low < high:
            middle = (low + high) // 2
            at = self._newest_seen(times[middle])
            is_complete = at is None or not [
                name for name in missing_at(self._snapshot, at) if names is None or name in names
            ]
            low, high = (low, middle) if is_complete else (middle + 1, high)
        return times[low] if times else after


class _CommitStates:
    """The slices before and after a commit, found when they are needed.

    Args:
        snapshot: The table.
        chosen: The range.
        instant: The commit.
        partitions: The partitions that the commit wrote to.
    """

    def __init__(
        self, snapshot: TableSnapshot, chosen: ChangeRange, instant: HoodieInstant, partitions: Sequence[str]
    ) -> None:
        self._snapshot = snapshot
        self._chosen = chosen
        self._instant = instant
        self._partitions = partitions
        self._found: dict[str, _States] = {}

    @property
    def instants_after(self) -> VisibleInstants:
        """The instants that readers see after the commit."""
        return self._chosen.states.after(self._instant)

    def before(self, group: HoodieFileGroupId) -> SliceState | None:
        """The slice of a file group before the commit; None if there is none."""
        return self._of("before", group)

    def after(self, group: HoodieFileGroupId) -> SliceState | None:
        """The slice of a file group after the commit; None if there is none."""
        return self._of("after", group)

    def _of(self, when: str, group: HoodieFileGroupId) -> SliceState | None:
        if when not in self._found:
            states = self._chosen.states
            instants = states.before(self._instant) if when == "before" else states.after(self._instant)
            self._found[when] = _States(self._snapshot, instants)
            self._found[when].load(self._partitions)
        return self._found[when].slice_of(group)


def _is_cdc(name: str) -> bool:
    found = parse_log_file_name(name)
    return found is not None and found.is_cdc


def _touched(metadata: HoodieCommitMetadata) -> Iterator[HoodieFileGroupId]:
    """The file groups that a commit wrote or replaced."""
    if metadata.compacted:
        return
    for stat in metadata.write_stats:
        if stat.path:
            yield HoodieFileGroupId(stat.partition_path, stat.file_id)
    for group in metadata.replaced_file_groups:
        yield HoodieFileGroupId(*group)


def _units_with_deletes(
    written: _Written, units: Mapping[HoodieFileGroupId, HoodieFileGroupId]
) -> set[HoodieFileGroupId]:
    """The file groups of `_units` in which commits may have deleted rows. Statistics of log files do not tell."""
    found = set()
    for metadata in written.values():
        for partition_path, file_id in metadata.replaced_file_groups:
            found.add(units[HoodieFileGroupId(partition_path, file_id)])
        for stat in () if metadata.compacted else metadata.write_stats:
            if stat.path and (stat.is_log_file or stat.num_deletes):
                found.add(units[HoodieFileGroupId(stat.partition_path, stat.file_id)])
    return found


def _units(written: _Written) -> dict[HoodieFileGroupId, HoodieFileGroupId]:
    """The file groups that commits wrote or replaced, each with one that stands for those that are compared together.

    Those of a partition that one commit replaced and wrote are, because rows may have moved between them.
    """
    parents: dict[HoodieFileGroupId, HoodieFileGroupId] = {}

    def root(group: HoodieFileGroupId) -> HoodieFileGroupId:
        while parents.setdefault(group, group) != group:
            parents[group] = parents[parents[group]]
            group = parents[group]
        return group

    for metadata in written.values():
        of_partition: dict[str, HoodieFileGroupId] = {}
        for group in _touched(metadata):
            own = root(group)
            if metadata.replaced_file_groups:
                parents[own] = root(of_partition.setdefault(group.partition_path, own))
    return {group: root(group) for group in list(parents)}
