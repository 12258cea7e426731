"""The stream read of ``format("hoodie")``: an incremental query as a source.

Spark asks in this order, in one process while the query runs; after a restart a new process continues from the offsets
of the checkpoint::

    initialOffset()          of a query without a checkpoint, or one that stopped in its first batch
    latestOffset(start)      the end of the next batch; PySpark 4.0 and 4.1 do not give the start
    partitions(start, end)   the slices of the batch
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import oldest
from hoodie.config.read_config import HollowCommitHandling, HoodieReadConfig, QueryType
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieSchemaException,
)
from hoodie.metadata.reader.metadata_listing import MetadataListingChoice
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_planner import changes_of
from hoodie.query.commit_range import first_pending
from hoodie.query.commit_stream import (
    check_commit_is_there,
    check_no_late_commits,
    end_of_batch,
    newest_readable,
)
from hoodie.query.planner import plan_of
from hoodie.query.read_plan import ReadPlan
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import EARLIEST, TableQuery
from hoodie.spark.data_source_options import DataSourceOptions
from hoodie.spark.data_source_reader import HoodiePartition, partitions_of, schema_of, stream_query
from hoodie.spark.stream_offset import OffsetKind, StreamOffset

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 read all available commits in one batch.
    ReadAllAvailable = ReadLimit = ReadMaxFiles = None
    SupportsTriggerAvailableNow = object

_QUERY_TYPES = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")
_OF_BATCH_READS = (
    "as.of.instant",
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.end.instanttime",
    "pushdown",
)
_MAX_FILES = "hoodie.datasource.streaming.maxFilesPerTrigger"
_HOLES = ("hoodie.read.timeline.holes.resolution.policy", "hoodie.datasource.read.handle.hollow.commit")


class HoodieDataSourceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the rows that commits wrote after each other.

    Args:
        options: The user's.
        schema: The schema that Spark has of the source.
    """

    def __init__(self, options: DataSourceOptions, schema: st.StructType) -> None:
        self._options = options
        self._schema = schema
        config = HoodieReadConfig.from_options(options.read_options)
        self._start, self._max_files = config.start_offset, config.max_files_per_trigger
        if self._max_files is not None and ReadMaxFiles is None:
            raise HoodieNotSupportedException(
                f"{_MAX_FILES} = {self._max_files}: this version of PySpark has no limits of batches; PySpark 4.2 and "
                "newer do. Leave it out"
            )
        self._last: StreamOffset | None = None
        self._known: frozenset[str] = frozenset()
        self._available: StreamOffset | None = None

    def initialOffset(self) -> dict[str, str]:
        return StreamOffset.start(self._start, self._load().active_timeline.timezone).to_json()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, str]:
        """The end of the next batch; the start itself if there are no new commits."""
        snapshot = self._load()
        timeline = snapshot.active_timeline
        if start is not None:
            reached = StreamOffset.of(start)
        else:
            reached = self._last or StreamOffset.start(self._start, timeline.timezone)
        _check_last(snapshot, reached)
        if self._last is not None and self._last.commit is not None:
            check_no_late_commits(timeline, self._last.commit, self._known)
        found = newest_readable(snapshot)
        if found is not None and self._available is not None:
            found = oldest([found, self._available.at])
        most = limit.max_files if ReadMaxFiles is not None and isinstance(limit, ReadMaxFiles) else None
        kind = _kind_of(snapshot)
        is_behind = not reached.begins_at_latest and not reached.is_after(StreamOffset.after(found, kind))
        if found is not None and most is not None and is_behind:
            found = end_of_batch(snapshot, reached.time, found, most)
        latest = StreamOffset.after(found, kind)
        if reached.is_after(latest):
            latest = reached
        self._last, self._known = latest, timeline.completed_writes().times
        return latest.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit in the options; Spark passes it to `latestOffset`, unless the trigger wants all."""
        return ReadAllAvailable() if self._max_files is None else ReadMaxFiles(self._max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        snapshot = self._load()
        self._available = StreamOffset.after(newest_readable(snapshot), _kind_of(snapshot))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[HoodiePartition]:
        first, last = StreamOffset.of(start), StreamOffset.of(end)
        if first.begins_at_latest or first == last:
            return []
        if first.is_after(last):
            _check_last(self._load(), first)
            raise HoodieException(
                f"the stream of {self._options.path} stands after {first.at}, and the newest commit that it may read "
                f"is {last.at}: a start offset must not lie in the future, and no commit before that of an offset may "
                "be pending. Start it with another start offset, or when that commit is completed or rolled back"
            )
        if last.commit is None:
            return []
        plan = plan_until_complete(self._load, lambda snapshot: self._plan(snapshot, first, last))
        return partitions_of(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return partition.batches(self._schema) if isinstance(partition, HoodiePartition) else iter(())

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing to do: the checkpoint is Spark's."""

    def stop(self) -> None:
        """Nothing to do: no file is open."""

    def _load(self) -> TableSnapshot:
        choice = MetadataListingChoice(HoodieReadConfig.from_options(self._options.read_options).metadata_enable)
        snapshot = TableSnapshot.load(self._options.path, self._options.storage_options, listing_choice=choice)
        snapshot.table_config.check_readable()
        return snapshot

    def _plan(self, snapshot: TableSnapshot, first: StreamOffset, last: StreamOffset) -> ReadPlan | ChangePlan:
        """The plan of a batch, in the columns that the query began with."""
        _check_last(snapshot, first)
        _check_kind(snapshot, last)
        timeline = snapshot.active_timeline
        hole = None if timeline.layout.has_completion_times else first_pending(timeline, first.time, last.at)
        if hole is not None:
            raise HoodieException(
                f"{hole} of {snapshot.base_path} is pending, and the batch of the stream ends at {last.at}: what it "
                "writes would be missing in the stream, because its writer took an instant before one that was "
                "completed. Start the query again when it is completed or rolled back"
            )
        query = stream_query(self._options, first.time or EARLIEST, last.at)
        if query.changes is not None:
            plan: ReadPlan | ChangePlan = changes_of(snapshot, self._with_columns(query))
        else:
            plan = plan_of(snapshot, attrs.evolve(query, columns=tuple(self._schema.names)))
        for field, found in zip(self._schema.fields, schema_of(plan.result_schema).fields, strict=True):
            if field.dataType != found.dataType:
                raise HoodieSchemaException(
                    f"column {field.name} of {snapshot.base_path} is {found.dataType.simpleString()} now, and the "
                    f"stream began with {field.dataType.simpleString()}: start the query again, with the same "
                    "checkpoint folder"
                )
        return plan

    def _with_columns(self, query: TableQuery) -> TableQuery:
        """The query of changes with the columns of rows that the stream began with, if their types tell."""
        images = self._schema["after"].dataType
        if not isinstance(images, st.StructType):
            return query
        return attrs.evolve(query, columns=tuple(images.names))


def _kind_of(snapshot: TableSnapshot) -> OffsetKind:
    """The kind of the offsets after commits of a table."""
    by_completion = snapshot.active_timeline.layout.has_completion_times
    return OffsetKind.COMPLETED if by_completion else OffsetKind.REQUESTED


def _check_kind(snapshot: TableSnapshot, offset: StreamOffset) -> None:
    """Refuse the offset of a commit of a table whose commits came in another order.

    Raises:
        HoodieException: It is one.
    """
    if offset.commit is not None and offset.kind is not _kind_of(snapshot):
        raise HoodieException(
            f"{snapshot.base_path} is of version {snapshot.table_config.table_version}, and the stream stands after "
            f"{offset.to_json()}: the table was upgraded or downgraded since. Start the query with a new checkpoint "
            "folder; hoodie.datasource.streaming.startOffset says where it begins"
        )


def _check_last(snapshot: TableSnapshot, offset: StreamOffset) -> None:
    """Refuse to go on after an offset that is not one of the table any more.

    Raises:
        HoodieException: It is not.
    """
    _check_kind(snapshot, offset)
    if offset.commit is not None:
        check_commit_is_there(snapshot, offset.commit)


def stream_reader_of(options: Mapping[str, str], schema: st.StructType) -> HoodieDataSourceStreamReader:
    """The reader of a stream. Tasks make one too, so it does not look at the table.

    Args:
        options: The user's.
        schema: The schema that Spark has of the source.

    Raises:
        HoodieConfigException: The options are wrong, or make sense for batch reads only.
    """
    given = {name.lower(): value for name, value in options.items() if name.lower() not in _QUERY_TYPES}
    if wrong := [name for name in _OF_BATCH_READS if name in given]:
        raise HoodieConfigException(
            f"{', '.join(wrong)}: a stream reads one range of commits after the other; leave it out, and say where it "
            "begins with hoodie.datasource.streaming.startOffset"
        )
    for name in _HOLES:
        if given.get(name, HollowCommitHandling.BLOCK).upper() != HollowCommitHandling.BLOCK:
            raise HoodieConfigException(
                f"{name} = {given[name]!r}: a stream waits for pending commits (BLOCK); leave it out"
            )
    # Offsets wait. A batch that ended before a commit that came later would leave rows out: it fails instead.
    of_batches = {name: value for name, value in given.items() if name not in _HOLES}
    parsed = DataSourceOptions.of({**of_batches, _QUERY_TYPES[0]: QueryType.INCREMENTAL.value})
    reader = HoodieDataSourceStreamReader(parsed, schema)
    StreamOffset.start(HoodieReadConfig.from_options(given).start_offset, "UTC")
    return reader
