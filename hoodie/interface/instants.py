"""Single instants of a table: what one did, what lies between two, and all of them as JSON files."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.model.commit_metadata import SCHEMA_KEY
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, is_before, is_instant_time, newest
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException
from hoodie.interface.description import DescribedColumn
from hoodie.storage.storage_path import file_name
from hoodie.table.repair.repaired_table import RepairResult

InstantStates = Mapping[tuple[str, Action], Mapping[State, HoodieInstant]]
"""Key of an instant -> state -> the instant in that state, for each file of the timeline."""
_SHOWN_TEXT = 400


@attrs.frozen
class WrittenFile:
    """One file that an instant wrote, or plans to write.

    Attributes:
        partition_path: Its partition, "" in a table without partitions.
        file_id: Its file group.
        file_name: Its name; None in the plan of a pending instant.
        previous_instant: The instant of the version before; None for a new file group.
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        rows_written: All rows of the file.
        size_bytes: The size of the file.
        errors: Rows that could not be written.
    """

    partition_path: str
    file_id: str
    file_name: str | None
    previous_instant: str | None
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_written: int
    size_bytes: int
    errors: int


@attrs.frozen
class WrittenPartition:
    """The files that an instant wrote in one partition.

    Attributes:
        partition_path: The partition.
        files_added: Files that begin a file group.
        files_updated: New versions of file groups.
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        bytes_written: The size of the files.
        errors: Rows that could not be written.
    """

    partition_path: str
    files_added: int
    files_updated: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    bytes_written: int
    errors: int


@attrs.frozen(kw_only=True, repr=False)
class InstantDetails:
    """All that the timeline holds of one instant; prints as its partitions with what else is stored.

    Attributes:
        instant_time: The time of its request.
        action: commit, clean, rollback, ...
        state: REQUESTED, INFLIGHT or COMPLETED.
        completion_time: The time of its completion; None if it is not completed, and in tables of version 6.
        is_archived: Whether it was read from the archive, which does not keep everything.
        operation: UPSERT, INSERT, ...; None if it is no write.
        files: The files that it wrote.
        replaced_file_groups: Partition and file id of the file groups that it replaced.
        columns: The columns of the writer; empty if the instant stores none.
        extra_metadata: Further text that its writer stored with it, without the schema.
        contents: State -> what is stored for it, by Hudi's names: the plan of a service is that of REQUESTED.
    """

    instant_time: str
    action: str
    state: str
    completion_time: str | None
    is_archived: bool
    operation: str | None = None
    files: tuple[WrittenFile, ...] = ()
    replaced_file_groups: tuple[tuple[str, str], ...] = ()
    columns: tuple[DescribedColumn, ...] = ()
    extra_metadata: Mapping[str, str] = attrs.field(factory=dict)
    contents: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def partitions(self) -> SummaryTable[WrittenPartition]:
        """The files by partition."""
        found: dict[str, list[WrittenFile]] = defaultdict(list)
        for file in self.files:
            found[file.partition_path].append(file)
        return SummaryTable(WrittenPartition, [_partition(path, found[path]) for path in sorted(found)])

    @property
    def written_files(self) -> SummaryTable[WrittenFile]:
        """The files as a table."""
        return SummaryTable(WrittenFile, self.files)

    def __repr__(self) -> str:
        return f"<InstantDetails: {self._headline}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, by_file: bool = False) -> str:
        """The instant as text.

        Args:
            by_file: Whether to show each file, instead of each partition.
        """
        parts = [self._headline]
        if self.files:
            rows: SummaryTable[Any] = self.written_files if by_file else self.partitions
            parts.append(repr(rows))
        if self.replaced_file_groups:
            groups = ", ".join(f"{file_id} of {path!r}" for path, file_id in self.replaced_file_groups)
            parts.append(f"replaced: {_cut(groups)}")
        if self.columns:
            parts.append("columns: " + ", ".join(f"{column.name} {column.type}" for column in self.columns))
        parts += [f"{key}: {_cut(value)}" for key, value in self.extra_metadata.items()]
        for state, content in self.contents.items():
            if content and state in self._told_states:
                parts.append(f"{state}: {json.dumps(content, indent=2, ensure_ascii=False, default=_text)}")
        return "\n\n".join(parts)

    @property
    def _told_states(self) -> tuple[str, ...]:
        """The states whose content text shows: the plan, and the newest one, unless its files say the same."""
        newest_one = () if self.operation is not None else (self.state,)
        return (State.REQUESTED.name, *newest_one)

    @property
    def _headline(self) -> str:
        text = f"{self.action} {self.instant_time}, {self.state}"
        if self.completion_time is not None:
            text += f" at {self.completion_time}"
        if self.operation is not None:
            size = sum(file.size_bytes for file in self.files)
            text += f": {self.operation}, {plural(len(self.files), 'file')}, {format_bytes(size)}"
        return text + (", archived" if self.is_archived else "")


@attrs.frozen
class FileGroupDifference:
    """A file group that was changed between two instants.

    Attributes:
        partition_path: Its partition.
        file_id: The file group.
        change: ``added``, ``changed``, ``removed`` (replaced by a later commit), or ``passed`` (added and removed).
        before: The instant of its version at the first instant; None if it was not there.
        after: The instant of its version at the second one; None if it is not there.
        file_name: The newest file that was written.
        commits: The number of commits that wrote it.
        rows_inserted: New rows of all of them.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        bytes_written: The size of all files that were written.
    """

    partition_path: str
    file_id: str
    change: str
    before: str | None
    after: str | None
    file_name: str | None
    commits: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    bytes_written: int


@attrs.frozen(repr=False)
class TableDifference(RepairResult):
    """The file groups that the commits between two instants wrote or replaced.

    Attributes:
        base_path: The table.
        since: The first instant; its own files are not part of the difference.
        until: The second instant.
        commits: The instants in between, with the second one.
        file_groups: The file groups, by partition.
    """

    base_path: str
    since: str
    until: str
    commits: tuple[str, ...]
    file_groups: tuple[FileGroupDifference, ...]

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        counted = f"{plural(len(self.commits), 'commit')}, {plural(len(self.file_groups), 'file group')}"
        return f"{self.base_path} from {self.since} to {self.until}: {counted}"

    @property
    def table(self) -> SummaryTable[FileGroupDifference]:
        """See `RepairResult`."""
        return SummaryTable(FileGroupDifference, self.file_groups)


@attrs.frozen
class ExportedInstants:
    """The instants that were written as JSON files.

    Attributes:
        folder: The folder.
        count: The number of files.
    """

    folder: str
    count: int

    def __str__(self) -> str:
        return f"{plural(self.count, 'instant')} written to {self.folder}"


def read_instant(table: TableSnapshot, instant_time: str, action: str | None = None) -> InstantDetails:
    """All that the timeline, or else the archive, holds of one instant.

    Args:
        table: The table.
        instant_time: The time of its request.
        action: Its action, where several instants have that time: a savepoint has that of its commit.

    Raises:
        HoodieConfigException: There is no such instant.
        HoodieCorruptedDataException: A file of it is damaged.
    """
    wanted = _action_of(action)
    for timeline in (lambda: table.active_timeline, lambda: table.archived_timeline):
        instant = timeline().find(instant_time, wanted)
        if instant is not None:
            return _details(table, instant, table.active_timeline.stored_states())
    named = "instant" if action is None else action
    raise HoodieConfigException(
        f"{table.base_path} has no {named} {shown_value(instant_time)}: history() lists the instants, and "
        "history(archived=True) those of the archive too"
    )


def compare(table: TableSnapshot, since: str, until: str) -> TableDifference:
    """The file groups that the commits between two instants wrote or replaced, by the metadata of these commits.

    Args:
        table: The table.
        since: An instant time; commits up to it do not count.
        until: A later one, which counts.

    Raises:
        HoodieConfigException: They are no instant times, or not in this order.
        HoodieCorruptedDataException: Metadata of a commit is damaged.
    """
    if not (is_instant_time(since) and is_instant_time(until)) or is_after(since, until):
        raise HoodieConfigException(
            f"since is {shown_value(since)} and until {shown_value(until)}: give two instants of history(), the older "
            "one first"
        )
    found: dict[tuple[str, str], list[tuple[str, HoodieWriteStat]]] = defaultdict(list)
    replaced: dict[tuple[str, str], str] = {}
    times = []
    for instant in _writes(table, since):
        if is_after(instant.requested_time, until):
            continue
        metadata = table.read_commit_metadata(instant)
        times.append(instant.requested_time)
        replaced |= dict.fromkeys(metadata.replaced_file_groups, instant.requested_time)
        for path, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                found[path, stat.file_id].append((instant.requested_time, stat))
    groups = [_difference(group, found[group], group in replaced) for group in sorted({*found, *replaced})]
    return TableDifference(table.base_path, since, until, tuple(times), tuple(groups))


def export(table: TableSnapshot, folder: str | os.PathLike[str], *, archived: bool = False) -> ExportedInstants:
    """Write each instant as a JSON file into a local folder: ``<instant time>.<action>.json``.

    A file that is there is replaced.

    Args:
        table: The table.
        folder: The folder; it is made if it is missing.
        archived: Whether archived instants are written too.

    Raises:
        HoodieCorruptedDataException: A file of the timeline is damaged.
        OSError: The folder cannot be written.
    """
    place = os.fspath(folder)
    os.makedirs(place, exist_ok=True)
    count, states = 0, table.active_timeline.stored_states()
    for instant in table.instants(archived=archived):
        details = _details(table, instant, states)
        head = {
            "instant_time": details.instant_time,
            "action": details.action,
            "state": details.state,
            "completion_time": details.completion_time,
            "is_archived": details.is_archived,
            "contents": details.contents,
        }
        with open(os.path.join(place, f"{instant.requested_time}.{instant.action}.json"), "w", encoding="utf-8") as out:
            json.dump(head, out, indent=2, ensure_ascii=False, default=_text)
            out.write("\n")
        count += 1
    return ExportedInstants(place, count)


def _writes(table: TableSnapshot, since: str) -> Iterator[HoodieInstant]:
    """The completed writes after an instant; the archive is read only if it may hold some of them."""
    first = table.active_timeline.first_instant
    reaches_archive = first is None or is_before(since, first.requested_time)
    for instant in table.instants(archived=reaches_archive):
        is_write = instant.is_completed and instant.action.completed_action in COMMIT_ACTIONS
        if is_write and is_after(instant.requested_time, since):
            yield instant


def _details(table: TableSnapshot, instant: HoodieInstant, states: InstantStates) -> InstantDetails:
    is_archived = table.is_archived(instant)
    details = InstantDetails(
        instant_time=instant.requested_time,
        action=instant.action.value,
        state=State(instant.state).name,
        completion_time=instant.completion_time,
        is_archived=is_archived,
        contents=_archived_contents(table, instant) if is_archived else _contents(table, states[instant.key]),
    )
    if instant.action.completed_action not in COMMIT_ACTIONS or instant.is_requested:
        return details
    metadata = table.read_commit_metadata(instant)
    replaced = metadata.replaced_file_groups
    return attrs.evolve(
        details,
        operation=metadata.operation_type.value if instant.is_completed else None,
        files=tuple(
            _written(path, stat) for path, stats in metadata.partition_to_write_stats.items() for stat in stats
        ),
        replaced_file_groups=replaced,
        columns=_columns(metadata.schema),
        extra_metadata={key: value for key, value in metadata.extra_metadata.items() if key != SCHEMA_KEY},
    )


def _archived_contents(table: TableSnapshot, instant: HoodieInstant) -> dict[str, Any]:
    entry = table.archived_timeline.read_entry(instant)
    return {State(instant.state).name: {key: value for key, value in entry.items() if isinstance(value, Mapping)}}


def _contents(table: TableSnapshot, states: Mapping[State, HoodieInstant]) -> dict[str, Any]:
    return {state.name: table.active_timeline.read_fields(states[state]) for state in sorted(states)}


def _written(path: str, stat: HoodieWriteStat) -> WrittenFile:
    return WrittenFile(
        partition_path=path,
        file_id=stat.file_id,
        file_name=None if stat.path is None else file_name(stat.path),
        previous_instant=None if stat.prev_commit == NULL_COMMIT else stat.prev_commit,
        rows_inserted=stat.num_inserts,
        rows_updated=stat.num_update_writes,
        rows_deleted=stat.num_deletes,
        rows_written=stat.num_writes,
        size_bytes=stat.file_size_bytes or stat.total_write_bytes,
        errors=stat.total_write_errors,
    )


def _partition(path: str, files: Iterable[WrittenFile]) -> WrittenPartition:
    rows = list(files)
    added = sum(file.previous_instant is None for file in rows)
    return WrittenPartition(
        path,
        files_added=added,
        files_updated=len(rows) - added,
        rows_inserted=sum(file.rows_inserted for file in rows),
        rows_updated=sum(file.rows_updated for file in rows),
        rows_deleted=sum(file.rows_deleted for file in rows),
        bytes_written=sum(file.size_bytes for file in rows),
        errors=sum(file.errors for file in rows),
    )


def _difference(
    group: tuple[str, str], written: list[tuple[str, HoodieWriteStat]], is_replaced: bool
) -> FileGroupDifference:
    stats = [stat for _, stat in written]
    before = written[0][1].prev_commit if written else None
    is_new = bool(written) and before == NULL_COMMIT
    names = [file_name(stat.path) for stat in stats if stat.path is not None]
    change = "passed" if is_new and is_replaced else "added" if is_new else "removed" if is_replaced else "changed"
    return FileGroupDifference(
        *group,
        change=change,
        before=None if is_new else before,
        after=None if is_replaced else newest(time for time, _ in written),
        file_name=names[-1] if names else None,
        commits=len({time for time, _ in written}),
        rows_inserted=sum(stat.num_inserts for stat in stats),
        rows_updated=sum(stat.num_update_writes for stat in stats),
        rows_deleted=sum(stat.num_deletes for stat in stats),
        bytes_written=sum(stat.file_size_bytes or stat.total_write_bytes for stat in stats),
    )


def _columns(schema: str | None) -> tuple[DescribedColumn, ...]:
    if schema is None:
        return ()
    return tuple(DescribedColumn(field.name, str(field.type), field.nullable) for field in to_arrow(schema))


def _action_of(action: str | None) -> Action | None:
    if action is None:
        return None
    try:
        return Action(action)
    except ValueError as error:
        names = ", ".join(known.value for known in Action)
        raise HoodieConfigException(f"action is {shown_value(action)}: give one of {names}") from error


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]} ... ({len(text):,} characters)"


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
