"""Bring a copy of a table up to date with its source, deletes included.

A copy holds the rows of its source as they were at a time: its position. Rows and position appear in one commit of the
copy, so a call that died is simply repeated. The first call copies all rows. Each later one reads the changes that the
source has had since the position, and writes the last change of each key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.new_table import config_of_new_table, table_to_create
from hoodie.client.write_input import MadeOfTable
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.data.equal_rows import equal_rows
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.record_columns import COMMIT_TIME_META, META_COLUMN_SET, OPERATION, reserved_field
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.table.cdc.cdc_operation import HoodieCDCOperation
from hoodie.common.table.cdc.cdc_schemas import AFTER, BEFORE, OP
from hoodie.common.table.commit_marks import MarkedCommit, marked_commits
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import is_after
from hoodie.common.util.shown_table import plural
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
)
from hoodie.index.bucket.table_layout import TableLayout, config_of_table
from hoodie.index.index_factory import create_index
from hoodie.keygen.key_generator import key_generator_kind
from hoodie.merge.payload_rules import MergeMode
from hoodie.query.arrow_reader import scan
from hoodie.query.change_plan import ChangePlan
from hoodie.query.commit_stream import check_commit_is_there, newest_readable
from hoodie.query.planner import narrowed, plan_of
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import TableQuery
from hoodie.storage.storage_path import normalise_path
from hoodie.table.open_table import find_table

POSITION_KEY: Final = "hoodie.follow.position"
"""The extra metadata of a copy's commits that holds the position: JSON of ``source``, ``until`` and ``by``."""
_REQUEST, _COMPLETION = "request", "completion"
_LATEST = "OverwriteWithLatestAvroPayload"
_FROM_SCRATCH = "follow(..., from_scratch=True) copies all rows anew, in one commit"


@attrs.frozen
class FollowResult:
    """The outcome of bringing a copy up to date.

    Attributes:
        instant_time: The commit of the copy; None if the source had nothing new.
        since: The copy held the source up to this time of the source; None if all rows were copied.
        until: The copy holds the source up to this time now; None if the source has no commit yet.
        inserted_count: The rows that are new in the copy.
        updated_count: The rows that were changed.
        deleted_count: The rows that were deleted; 0 where all rows were copied anew.
        service_errors: Errors of table services after the commit, which stands.
    """

    instant_time: str | None
    since: str | None
    until: str | None
    inserted_count: int = 0
    updated_count: int = 0
    deleted_count: int = 0
    service_errors: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.until is None:
            return "follow: the source has no commit yet"
        if self.instant_time is None:
            return f"follow: nothing new; the copy holds the source up to {self.until}"
        written = f"{plural(self.inserted_count, 'row')} inserted, {self.updated_count} updated, "
        return f"follow {self.instant_time}: {written}{self.deleted_count} deleted, up to {self.until} of the source"


@attrs.frozen
class FollowPosition:
    """The place up to which a copy holds its source.

    Attributes:
        source: The name of the source.
        until: The time of the source.
        is_completion: Whether it is a time of completion, as in versions 8 and 9; else of a request, as in version 6.
        instant_time: The commit of the copy that holds the position.
    """

    source: str
    until: str
    is_completion: bool
    instant_time: str = ""

    def to_metadata(self) -> dict[str, str]:
        """The extra metadata of a commit that takes the copy to this position."""
        by = _COMPLETION if self.is_completion else _REQUEST
        return {POSITION_KEY: json.dumps({"source": self.source, "until": self.until, "by": by})}

    @classmethod
    def of(cls, commit: MarkedCommit, base_path: str) -> Self:
        """The position that a commit holds.

        Args:
            commit: The commit.
            base_path: The folder of the copy, for messages.

        Raises:
            HoodieCorruptedDataException: It is no position of hoodie.
        """
        text = commit.extra_metadata[POSITION_KEY]
        try:
            value = json.loads(text)
            by = (_REQUEST, _COMPLETION).index(value["by"])
            return cls(str(value["source"]), str(value["until"]), bool(by), commit.instant.requested_time)
        except (ValueError, KeyError, TypeError) as error:
            raise HoodieCorruptedDataException(
                f"{commit.source} of {base_path} has {POSITION_KEY} = {text!r}, which is no position of hoodie; "
                f"{_FROM_SCRATCH}"
            ) from error


@attrs.frozen
class Following:
    """One call that brings a copy up to date.

    Attributes:
        config: The configuration of the copy's writer.
        load_source: Opens the source as it is now.
        changes: Plans to read the changes of the source after a time, in the typed form.
        identity: The name of the source in the position; None for its folder.
        from_scratch: Whether to copy all rows, whatever the copy holds.
    """

    config: HoodieWriteConfig
    load_source: Callable[[], TableSnapshot]
    changes: Callable[[str], ChangePlan]
    identity: str | None = None
    from_scratch: bool = False

    def run(self) -> FollowResult:
        """Bring the copy up to date, in one commit at most.

        Raises:
            HoodieException: See `hoodie.Table.follow`.
        """
        if self.config.payload.partial_update:
            raise HoodieConfigException(
                f"hoodie.write.partial.update = true, and a copy takes whole rows: leave it out for "
                f"{self.config.base_path}"
            )
        source = self.load_source()
        name = self.identity or normalise_path(source.base_path)
        if normalise_path(source.base_path) == normalise_path(self.config.base_path):
            raise HoodieConfigException(f"{source.base_path} is the copy itself: give its source")
        _refuse_source(source.table_config, source.base_path)
        copy = find_table(self.config)
        marked = None if copy is None else newest_marked(copy)
        if copy is not None:
            _check_same_rows(source.table_config, copy.table_config, self.config.base_path, source.base_path)
            _refuse_index_over_partitions(config_of_table(self.config, TableLayout(copy)), copy.table_config)
        if copy is None or self.from_scratch:
            return self._copy_all(name, copy, marked)
        position = None if marked is None else FollowPosition.of(marked, copy.base_path)
        _check_begin(copy, position, name)
        if position is None:
            return self._copy_all(name, copy, marked)
        return self._copy_changes(source, position)

    # --- all rows -----------------------------------------------------------------------------------------------

    def _copy_all(self, name: str, copy: TableSnapshot | None, marked: MarkedCommit | None) -> FollowResult:
        query = TableQuery.of()
        seen: list[TableSnapshot] = []

        def planned(snapshot: TableSnapshot) -> Any:
            until = newest_readable(snapshot)
            seen.append(snapshot)
            if until is None:
                return None, None
            if snapshot.active_timeline.layout.has_completion_times:
                return plan_of(snapshot, query), until
            # Commits after a pending one belong to the next range.
            return plan_of(snapshot, TableQuery.of(as_of=until)), until

        plan, until = plan_until_complete(self.load_source, planned)
        if plan is None:
            return FollowResult(None, None, None)
        source = seen[-1]
        users = [column for column in plan.columns if column not in META_COLUMN_SET]
        if copy is None:
            described = self._described(source.table_config)
            new = config_of_new_table(described)
            _check_same_rows(source.table_config, new, described.base_path, source.base_path)
            _refuse_index_over_partitions(described, new)
            table_to_create(described, source.load_schema()).create()
        with scan(narrowed(plan, users, None)) as reader:
            replaces = copy is not None and bool(copy.active_timeline.completed_writes())
            operation = "insert_overwrite_table" if replaces else "bulk_insert"
            known = None if marked is None else marked.instant.requested_time
            result = self._write(operation, reader, FollowPosition(name, until, has_completion_times(source)), known)
        return FollowResult(
            result.instant_time, None, until, result.inserted_count, service_errors=result.service_errors
        )

    def _described(self, source: HoodieTableConfig) -> HoodieWriteConfig:
        """The configuration of a new copy: its keys and folders are those of the source, the rest is the user's."""
        own = {
            "hoodie.datasource.write.recordkey.field": ",".join(source.record_key_fields),
            "hoodie.datasource.write.partitionpath.field": source.properties.get("hoodie.table.partition.fields", ""),
            "hoodie.datasource.write.hive_style_partitioning": str(source.hive_style_partitioning).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(source.url_encode_partitioning).lower(),
            **HoodieTimestampKeyGeneratorConfig.stored_properties(source.properties),
        }
        if source.key_generator_class:
            own["hoodie.datasource.write.keygenerator.class"] = source.key_generator_class
        given = {key: value for key, value in own.items() if value}
        return HoodieWriteConfig.from_properties(
            self.config.base_path, given | dict(self.config.properties), storage_options=self.config.storage_options
        )

    # --- changes ------------------------------------------------------------------------------------------------

    def _copy_changes(self, source: TableSnapshot, position: FollowPosition) -> FollowResult:
        try:
            _check_position(source, position)
            plan = self.changes(position.until)
        except HoodieException as error:
            error.add_note(
                f"the copy {self.config.base_path} holds {position.source} up to {position.until}; {_FROM_SCRATCH}"
            )
            raise
        until = plan.next_begin
        if until is None or until == position.until:
            return FollowResult(None, position.until, position.until)
        images = pa.schema(list(plan.schema.field(AFTER).type))
        fields = source.table_config.partition_fields
        partition_columns = {top_level_name(images, field) for field in fields} & set(images.names)
        rows = rows_of_changes(plan.batches(), plan.schema, partition_columns, is_compared=plan.is_compared)
        to = FollowPosition(position.source, until, has_completion_times(source))
        result = self._write("upsert", MadeOfTable(lambda _: rows), to, position.instant_time)
        return FollowResult(
            result.instant_time,
            position.until,
            until,
            result.inserted_count,
            result.updated_count,
            result.deleted_count,
            result.service_errors,
        )

    # --- both ---------------------------------------------------------------------------------------------------

    def _write(self, operation: str, rows: Any, to: FollowPosition, known: str | None) -> HoodieWriteResult:
        # Of several changes of a key the last one counts, whatever the user combines.
        write = attrs.evolve(self.config.write, auto_commit=False, combine_before_upsert=True)
        with HoodieLocalWriteClient(attrs.evolve(self.config, write=write)) as client:
            client.check_before_completion(partial(_refuse_moved_position, known=known))
            result: HoodieWriteResult = getattr(client, operation)(rows)
            client.commit(result.instant_time, result, extra_metadata=to.to_metadata())
            return result


def _refuse_index_over_partitions(config: HoodieWriteConfig, copy: HoodieTableConfig) -> None:
    """Refuse an index that finds keys in all partitions: in the source a key may be in several."""
    if copy.partition_fields and create_index(config).is_global:
        raise HoodieNotSupportedException(
            f"{config.index.index_type} finds a key in all partitions, and a copy keeps the rows of each partition of "
            f"its source: give another hoodie.index.type for {config.base_path}, such as SIMPLE or RECORD_LEVEL_INDEX"
        )


def rows_of_changes(
    changes: Iterable[pa.RecordBatch], schema: pa.Schema, partition_columns: Iterable[str], *, is_compared: bool
) -> pa.Table:
    """The rows to upsert, of which the last one of a key is the key's last change.

    Args:
        changes: Changes in the order of their commits, in the typed form: ``op`` (string), ``_hoodie_commit_time``
            (string), ``before`` and ``after`` (structs of the table's columns).
        schema: Their schema.
        partition_columns: The columns that name folders. An update that changes them deletes the row before too: an
            index over all partitions may leave rows in a folder that their columns do not name, and a copy does not.
        is_compared: Whether they are the differences of two states, which have no order.

    Returns:
        The images after the changes, of deleted rows those before, with the operation of each row (``OPERATION``,
        int8).
    """
    table = pa.Table.from_batches(changes, schema).combine_chunks()
    places: dict[str, int] = {}
    times = table.column(COMMIT_TIME_META).combine_chunks().dictionary_encode()
    of_times = [0 if is_compared else places.setdefault(time, len(places)) for time in times.dictionary.to_pylist()]
    of_rows = np.array(of_times, dtype=np.int64)[times.indices.to_numpy()]
    is_delete = np.asarray(pc.equal(table.column(OP), HoodieCDCOperation.DELETE.value))
    is_gone = is_delete | _has_moved(table, partition_columns)
    parts, order = [], []
    # Within a commit a row may be deleted with a file group that is replaced, and be inserted into another one.
    for rank, image, chosen, operation in (
        (0, BEFORE, is_gone, RecordOperation.DELETE),
        (1, AFTER, ~is_delete, RecordOperation.UPSERT),
    ):
        images = table.column(image).filter(pa.array(chosen)).combine_chunks()
        rows = pa.Table.from_arrays(images.flatten(), schema=pa.schema(list(images.type)))
        operations = pa.array(np.full(len(images), int(operation), dtype=np.int8))
        parts.append(rows.append_column(reserved_field(OPERATION), operations))
        order.append(of_rows[chosen] * 2 + rank)
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))


def _has_moved(changes: pa.Table, partition_columns: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Whether changes are updates that change one of some columns."""
    is_update = np.asarray(pc.equal(changes.column(OP), HoodieCDCOperation.UPDATE.value))
    has_moved = np.zeros(len(is_update), dtype=np.bool_)
    if is_update.any():
        before, after = (
            changes.column(image).filter(pa.array(is_update)).combine_chunks() for image in (BEFORE, AFTER)
        )
        for name in partition_columns:
            has_moved[is_update] |= ~equal_rows(pc.struct_field(before, name), pc.struct_field(after, name))
    return has_moved


def has_completion_times(source: TableSnapshot) -> bool:
    """Whether positions in a source are times of completion."""
    return source.active_timeline.layout.has_completion_times


def _check_position(source: TableSnapshot, position: FollowPosition) -> None:
    """Refuse a position that the source does not have, or not any more.

    After an upgrade to a version with times of completion, the time of a request stays a right begin: what was
    requested later was completed later, and what was requested earlier may come once more.

    Raises:
        HoodieException: It has not.
    """
    if position.is_completion == has_completion_times(source):
        check_commit_is_there(source, position.until)
        return
    timeline = source.active_timeline
    if position.is_completion:
        raise HoodieException(
            f"{source.base_path} was brought to version {source.table_config.table_version}, where commits have no "
            f"times of completion, so the changes after {position.until} cannot be told"
        )
    archived = timeline.newest_archived_time()
    if timeline.completed_writes().contains(position.until):
        return
    if archived is None or is_after(position.until, archived) or not source.archived_timeline.contains(position.until):
        raise HoodieException(
            f"{source.base_path} has no commit {position.until}: it was undone, or the table was made anew"
        )


def _refuse_source(source: HoodieTableConfig, path: str) -> None:
    if not source.record_key_fields:
        raise HoodieNotSupportedException(
            f"{path} has no record key fields, and a copy is brought up to date by keys: copy its rows with "
            "Table.overwrite"
        )
    if not source.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"{path} stores no meta columns (hoodie.populate.meta.fields=false), so its changes cannot be told: copy "
            "its rows with Table.overwrite"
        )


def _check_same_rows(theirs: HoodieTableConfig, ours: HoodieTableConfig, copy: str, source: str) -> None:
    """Refuse a copy that stores rows under other keys or in other folders, or chooses among rows itself."""
    problems = [
        f"its {what} is {_shown(got)}, and {_shown(wanted)} in the source"
        for what, got, wanted in (
            ("record key", ours.record_key_fields, theirs.record_key_fields),
            ("list of partition fields", ours.partition_fields, theirs.partition_fields),
            ("key generator", key_generator_kind(ours), key_generator_kind(theirs)),
        )
        if got != wanted
    ]
    payload = (ours.payload_class or _LATEST).rpartition(".")[2]
    is_latest = payload == _LATEST if ours.merge_mode is None else ours.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    if not ours.populate_meta_fields:
        problems.append("it stores no meta columns (hoodie.populate.meta.fields=false), by which rows are found")
    if ours.ordering_fields or not is_latest:
        problems.append(
            "it chooses among rows by an ordering field or a merge mode of its own, so a row of the source could lose: "
            "a copy has no ordering field, and COMMIT_TIME_ORDERING"
        )
    if problems:
        raise HoodieConfigException(
            f"{copy} cannot be a copy of {source}: {'; '.join(problems)}. Nothing was written; give a folder without a "
            "table, and the copy is made"
        )


def _shown(value: Iterable[str] | str) -> str:
    return value if isinstance(value, str) else ", ".join(value) or "none"


def _check_begin(copy: TableSnapshot, position: FollowPosition | None, name: str) -> None:
    if position is None:
        if copy.active_timeline.completed_writes():
            raise HoodieConfigException(
                f"{copy.base_path} has rows that no follow() wrote, and no position of a source: give a folder without "
                f"a table; or {_FROM_SCRATCH}, and these rows go"
            )
    elif position.source != name:
        raise HoodieConfigException(
            f"{copy.base_path} follows {position.source} (commit {position.instant_time}), not {name}: give that "
            f"source; if it was only moved, follow(..., identity={position.source!r}); or {_FROM_SCRATCH}"
        )


def _refuse_moved_position(now: TableSnapshot, instant_time: str, known: str | None) -> None:
    """Refuse a commit of a copy that another process has brought further meanwhile.

    Args:
        now: The copy.
        instant_time: The commit.
        known: The commit with the newest position when the call began; None if there was none.
    """
    marked = newest_marked(now)
    newest = None if marked is None else marked.instant.requested_time
    if newest == known:
        return
    what = "restored" if newest is None else f"brought up to date by another process, in commit {newest}"
    raise HoodieWriteConflictException(
        f"{now.base_path} was {what} meanwhile. Nothing of {instant_time} was committed. Call follow again",
        instant_time=instant_time,
        other_instants=[] if newest is None else [newest],
    )


def newest_marked(copy: TableSnapshot) -> MarkedCommit | None:
    """The newest commit of a copy, active or archived, that holds a position.

    Args:
        copy: The copy.

    Raises:
        HoodieCorruptedDataException: A commit is damaged.
        HoodieIOException: Storage failed.
    """
    return next(marked_commits(copy, (POSITION_KEY,)), None)
