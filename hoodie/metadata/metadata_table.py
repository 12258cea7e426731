"""The metadata table of a table: the only door through which actions, services and locks come to it.

Readers that trust a metadata table miss what was committed without it. In tables of versions 8 and 9 all readers do. So
each action takes these steps, under the table's lock:

1. Before it begins, `MetadataTable.adapt` or `switch_off` deletes what the writer does not want, and a metadata table
   that hoodie cannot keep up to date is refused (`hoodie.table.table_preparation`).
2. Right before it is completed, `record` adds it to the metadata table that is listed at that moment.
3. A rollback takes back what was recorded of its instant (`forget`) before that instant leaves the timeline.
4. A write sets a metadata table aside, before it begins, whose times are no moments of the table
   (`set_aside_if_misplaced`), and builds what its writer wants (`build`).
5. A restore sets the metadata table aside (`set_aside`), and builds it anew.

A savepoint takes none of them: it changes no file, and a metadata table records nothing of it. Indexes that users make,
or build beside writers, have a door of their own: `hoodie.metadata.metadata_indexes`.

Hudi: org.apache.hudi.metadata.{HoodieTableMetadataWriter, HoodieTableMetadataUtil}.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata
from hoodie.common.model.column_range import WrittenColumnRanges
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.index_plans import pending_index_plans
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieIndexException,
    HoodieMetadataException,
    HoodieNotSupportedException,
)
from hoodie.merge.record_merger import HoodieRecordMerger, named_merger
from hoodie.metadata.reader.log_file_ranges import LogFileRanges
from hoodie.metadata.reader.metadata_table_files import metadata_folder
from hoodie.metadata.records.key_look_up import KeyLookUp
from hoodie.metadata.writer.dropped_indexes import indexes_to_drop
from hoodie.metadata.writer.due_partitions import DuePartitions, due_partitions
from hoodie.metadata.writer.file_statistics import merges_whole_rows
from hoodie.metadata.writer.indexers import is_maintained
from hoodie.metadata.writer.misplaced_metadata_table import misplaced_time_of, set_aside_misplaced_metadata_table
from hoodie.metadata.writer.new_metadata_table import metadata_table_properties
from hoodie.metadata.writer.partition_indexer import CommittedChange
from hoodie.metadata.writer.set_aside import is_metadata_table_gone, set_aside_metadata_table
from hoodie.metadata.writer.switched_off import has_files, switch_off_metadata_table
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from hoodie.storage.storage_path import METAFOLDER_NAME, file_name, join

logger = logging.getLogger(__name__)

_FILES = frozenset({"files"})
_BUILT_FROM_FILES = frozenset({"files", "column_stats", "partition_stats"})
"""Hudi's writers build these by default, from the table's files alone."""
_WITH_RANGES = frozenset({"column_stats", "partition_stats"})
MOST_TOLD_COLUMNS = 64
"""Tasks tell no ranges of more columns: the driver would keep 100 kB of each file of a table with 800 columns."""
_NOT_RECORDED = frozenset({Action.SAVEPOINT, Action.INDEXING})
_mutexes: dict[str, threading.RLock] = {}
_mutexes_guard = threading.Lock()


@contextmanager
def one_at_a_time(table: TableSnapshot) -> Iterator[None]:
    """Keep the threads of this process apart, which the lock of a single writer does not.

    Args:
        table: The table.
    """
    with _mutexes_guard:
        mutex = _mutexes.setdefault(table.base_path, threading.RLock())
    with mutex:
        yield


@attrs.frozen
class MetadataTableUpkeep:
    """The settings by which a writer keeps the metadata table up to date.

    Attributes:
        config: Its partitions and services.
        engine: Runs tasks, for work that grows with the number of files or rows.
        key_look_up: The writer's knowledge of the keys that the action adds.
        merger: The record merger that it names, in a table that merges by one.
        index_config: Its options of bloom filters.
        column_ranges: The ranges of columns of log files, by partition path and name, that its tasks told.
    """

    config: HoodieMetadataConfig = attrs.field(factory=HoodieMetadataConfig)
    engine: HoodieEngineContext = attrs.field(factory=LocalEngineContext)
    key_look_up: KeyLookUp = attrs.field(factory=KeyLookUp)
    merger: HoodieRecordMerger | None = None
    index_config: HoodieIndexConfig = attrs.field(factory=HoodieIndexConfig)
    column_ranges: Mapping[tuple[str, str], WrittenColumnRanges] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        config: HoodieWriteConfig,
        engine: HoodieEngineContext,
        key_look_up: KeyLookUp | None = None,
        statuses: Iterable[WriteStatus] = (),
    ) -> MetadataTableUpkeep:
        """The upkeep by a writer.

        Args:
            config: Its properties.
            engine: See the attributes.
            key_look_up: See the attributes; None of an action that adds no keys.
            statuses: The statuses of the files that the action wrote.

        Raises:
            HoodieConfigException: The record merger that it names cannot be loaded.
        """
        merger = named_merger(config.payload.merger_class)
        ranges = {
            (status.partition_path, file_name(status.stat.path)): status.column_ranges
            for status in statuses
            if status.column_ranges is not None and status.stat.path
        }
        return cls(config.metadata, engine, key_look_up or KeyLookUp(), merger, config.index, ranges)


@attrs.frozen
class RecordedAction:
    """The record of an action in the metadata table.

    Attributes:
        is_compaction_due: Whether the metadata table is to be compacted once the action is completed.
        table: The table as it is then.
    """

    is_compaction_due: bool
    table: TableSnapshot


@attrs.frozen(eq=False)
class MetadataTable:
    """The metadata table of one table, for one writer.

    It takes no lock of the table. Methods that change something say so: call them under the lock.

    Attributes:
        table: The table.
        upkeep: The partitions that the writer wants; by default, the existing ones.
    """

    table: TableSnapshot
    upkeep: MetadataTableUpkeep = attrs.field(factory=MetadataTableUpkeep)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that the properties of the table list, ready ones and those that are being built."""
        return self.table.table_config.listed_metadata_partitions

    @property
    def writer(self) -> HoodieBackedTableMetadataWriter:
        """The writer of its files; for this package."""
        upkeep = self.upkeep
        return HoodieBackedTableMetadataWriter(
            self.table, upkeep.config, upkeep.engine, upkeep.merger, upkeep.index_config
        )

    # --- what there is, and what the writer wants -------------------------------------------------------------------

    def is_wanted(self) -> bool:
        """Whether the table has a metadata table, or its writer is going to build one.

        Raises:
            HoodieException: See `is_build_due`.
        """
        return bool(self.partitions) or bool(self.upkeep.config.enable) or bool(self._due().missing)

    def is_build_due(self) -> bool:
        """Whether there are partitions to build or to drop, by the properties that were loaded.

        Raises:
            HoodieNotSupportedException: The table cannot have a record index, or none of that kind.
            HoodieCorruptedDataException: The definitions of its indexes are damaged.
            HoodieIOException: Storage failed.
        """
        due = self._due()
        return bool(due.missing or due.unwanted)

    def _due(self) -> DuePartitions:
        return due_partitions(self.table, self.upkeep.config, self.upkeep.engine)

    def is_there(self) -> bool:
        """Whether there is something to switch off: a listed metadata table, or files of one that is listed no more.

        Raises:
            HoodieIOException: Storage failed.
        """
        return bool(self.partitions) or has_files(self.table)

    def folders(self) -> tuple[str, ...]:
        """The folders of a listed metadata table in which writers that died may have left temporary files."""
        if not self.partitions:
            return ()
        folder = metadata_folder(self.table)
        meta = join(folder, METAFOLDER_NAME)
        active = self.table.active_timeline.layout.active_path(meta)
        archive = join(meta, HoodieTableConfig(metadata_table_properties(self.table.table_config)).archive_folder)
        return (
            meta,
            active,
            archive,
            join(meta, TEMP_FOLDER_NAME),
            *(join(folder, partition) for partition in self.partitions),
        )

    # --- refusals ---------------------------------------------------------------------------------------------------

    def refuse_unknown_partitions(self) -> None:
        """Refuse to write a table whose metadata table hoodie cannot keep up to date.

        Raises:
            HoodieNotSupportedException: It lists such partitions.
        """
        version = self.table.table_config.table_version
        unknown = [path for path in self.partitions if not is_maintained(path, version)]
        if unknown:
            raise HoodieNotSupportedException(
                f"{self.table.base_path} has a metadata table with the partitions {', '.join(unknown)}, which hoodie "
                f"does not keep up to date. Set hoodie.metadata.index.drop={','.join(unknown)} to delete them, or "
                "hoodie.metadata.enable=false to delete the whole metadata table, or drop them with Hudi"
            )

    def refuse_unwritable(self) -> None:
        """Refuse to write a table whose metadata table hoodie cannot keep up to date, or not now.

        While Hudi builds partitions beside writers, it expects that these record their actions there as well. What
        hoodie builds beside writers is not listed as being built.

        Raises:
            HoodieNotSupportedException: See `refuse_unknown_partitions`.
            HoodieMetadataException: Hudi builds partitions.
        """
        self.refuse_unknown_partitions()
        inflight = set(self.table.table_config.metadata_partitions_inflight)
        if not inflight:
            return
        for instant, plan in pending_index_plans(self.table.active_timeline):
            building = sorted(inflight & set(plan.partition_paths))
            if building and not instant.is_requested:
                raise HoodieMetadataException(
                    f"Hudi builds the partitions {', '.join(building)} of the metadata table of "
                    f"{self.table.base_path} (indexing {instant.requested_time}), which would lack what is written "
                    "meanwhile. Let it end; if its process is dead, call "
                    f"client.index('{instant.requested_time}'), or take it back with "
                    f"client.rollback('{instant.requested_time}')"
                )

    def refuse_loss_of_indexes(self) -> None:
        """Refuse to drop what users rely on. A definition of an index that is not listed is that of a dropped one.

        Raises:
            HoodieNotSupportedException: There are indexes among the partitions.
        """
        dropped = _BUILT_FROM_FILES if self.table.active_timeline.layout.has_completion_times else _FILES
        indexes = [partition for partition in self.partitions if partition not in dropped]
        if indexes:
            raise HoodieNotSupportedException(
                f"{self.table.base_path} has a metadata table with "
                f"hoodie.table.metadata.partitions={','.join(self.partitions)}, which is deleted when the version of "
                f"the table changes. That would drop {', '.join(indexes)}: set hoodie.metadata.enable=false to do so, "
                "and build them again by a write with hoodie.metadata.enable=true and their options"
            )

    def refuse_misplaced_times(self, what: str) -> None:
        """Refuse to build on a metadata table whose times are no moments of the table.

        Args:
            what: A name of what would be built.

        Raises:
            HoodieIndexException: It is such a metadata table.
        """
        misplaced = misplaced_time_of(self.table)
        if misplaced is not None:
            raise HoodieIndexException(
                f"{what} cannot be built on the metadata table of {self.table.base_path}, which may hide rows: "
                f"{misplaced}. The next write of hoodie builds it anew; then call again"
            )

    # --- before an action -------------------------------------------------------------------------------------------

    def is_to_be_adapted(self) -> bool:
        """Whether it has to be changed before anything is written; see `adapt`.

        Raises:
            HoodieConfigException: ``hoodie.metadata.index.drop`` names a partition that other options drop.
            HoodieIOException: Storage failed.
        """
        return bool(indexes_to_drop(self.table, self.upkeep.config)) or is_metadata_table_gone(self.table)

    def adapt(self) -> TableSnapshot:
        """Delete the indexes that ``hoodie.metadata.index.drop`` names, and set a metadata table aside that is gone.

        Call it under the lock; the properties and the timeline are read again. The order of the steps is that of
        `HoodieBackedTableMetadataWriter.drop`.

        Returns:
            The table as it is then.

        Raises:
            HoodieConfigException: The option names a partition that other options drop.
            HoodieCommitException: An indexing is pending, which may build what is to be dropped.
            HoodieNotSupportedException: There are other partitions that hoodie does not know; nothing was set aside.
            HoodieIOException: Storage failed; call again.
        """
        now = self.now()
        named = indexes_to_drop(now.table, self.upkeep.config)
        if named:
            for instant in now.table.active_timeline.filter_pending().filter_actions(Action.INDEXING):
                raise HoodieCommitException(
                    f"{', '.join(named)} cannot be dropped from the metadata table of {now.table.base_path} while "
                    f"indexing {instant.requested_time} is pending: let it end, or take it back, with the writer that "
                    "began it"
                )
            logger.warning("dropping %s from the metadata table of %s", ", ".join(named), now.table.base_path)
            with one_at_a_time(now.table):
                now = now.at(now.writer.drop(named))
        now.refuse_unwritable()
        return now.set_aside() if is_metadata_table_gone(now.table) else now.table

    def switch_off(
        self,
        *,
        is_asked_for: bool,
        is_dead: Callable[[TableSnapshot, HoodieInstant], bool] = lambda snapshot, instant: False,
    ) -> TableSnapshot:
        """Delete it; see `switch_off_metadata_table` for the arguments, the order of steps and the errors."""
        return switch_off_metadata_table(self.table, is_asked_for=is_asked_for, is_dead=is_dead)

    def is_misplaced(self) -> bool:
        """Whether its times are no moments of the table; see `hoodie.metadata.reader.misplaced_times`."""
        return misplaced_time_of(self.table) is not None

    def set_aside_if_misplaced(self) -> TableSnapshot:
        """Set it aside if its times are no moments of the table; see `set_aside_misplaced_metadata_table`."""
        return set_aside_misplaced_metadata_table(self.table, self.upkeep.config)

    def set_aside(self, *, is_usual: bool = False) -> TableSnapshot:
        """Delete it, and list its partitions as those that `build` makes; see `set_aside_metadata_table`."""
        return set_aside_metadata_table(self.table, is_usual=is_usual)

    def build(self) -> TableSnapshot:
        """Build the partitions that the configuration asks for, and those that were set aside; drop what it refuses.

        Call it under the lock; the properties and the timeline are read again. Nothing is built while an instant is
        pending, since its files are neither committed nor gone.

        Returns:
            The table with its new properties.

        Raises:
            HoodieException: A file of the table cannot be read, or storage failed; call again.
        """
        now = self.now()
        due = now._due()
        if not due.missing and not due.unwanted:
            return now.table
        pending = [
            instant for instant in now.table.active_timeline.filter_pending() if instant.action is not Action.INDEXING
        ]
        if pending:
            logger.info(
                "the metadata table of %s is not changed while %s %s is pending",
                now.table.base_path, pending[0].action, pending[0].requested_time,
            )  # fmt: skip
            return now.table
        with one_at_a_time(now.table):
            if due.unwanted:
                now = now.at(now.writer.drop(due.unwanted))
            if due.missing:
                now = now.at(now.writer.initialise(due.missing))
        return now.table

    def at(self, table: TableSnapshot) -> MetadataTable:
        """The same of another state of the table.

        Args:
            table: The table.
        """
        return attrs.evolve(self, table=table)

    def now(self) -> MetadataTable:
        """The same of the table as it is now: its properties and timeline are read again.

        Raises:
            HoodieIOException: Storage failed.
        """
        return self.at(self.table.with_properties_reloaded().refreshed())

    def log_file_ranges(self, avro_schema: str) -> LogFileRanges | None:
        """Finds the ranges of columns of log files that an action is about to write.

        Their tasks have the rows at hand, and `record` need not read the files. If the indexed columns are others by
        then, it reads them.

        Args:
            avro_schema: The schema of the rows.

        Returns:
            None if no statistics of log files are kept, or those of very many columns.

        Raises:
            HoodieException: A schema or the definitions of indexes cannot be read.
        """
        if not _WITH_RANGES & set(self.table.table_config.metadata_partitions) or not merges_whole_rows(self.table):
            return None
        ranges = self.writer.log_file_ranges(avro_schema)
        # The driver keeps those of all files until the commit: 10 kB a file for 32 columns.
        return ranges if ranges is None or len(ranges.columns) <= MOST_TOLD_COLUMNS else None

    # --- with an action ---------------------------------------------------------------------------------------------

    def record(
        self, instant_time: str, action: Action, metadata: attrs.AttrsInstance, check: Callable[[], None]
    ) -> RecordedAction | None:
        """Add an action to the metadata table that is listed now, right before the action is completed.

        Call it under the lock, with the table as it is then.

        Args:
            instant_time: The action's instant, inflight.
            action: The action.
            metadata: The metadata of the action.
            check: Raises where the lock was lost.

        Returns:
            What was recorded; None where no metadata table records such actions.

        Raises:
            HoodieNotSupportedException: See `refuse_unwritable`; nothing was recorded.
            HoodieMetadataException: Likewise.
            HoodieException: It could not be recorded: the action must not be completed.
        """
        listed = self.table.table_config.metadata_partitions
        if action in _NOT_RECORDED or not listed:
            return None
        self.refuse_unwritable()
        change = None
        if isinstance(metadata, HoodieCommitMetadata):
            upkeep = self.upkeep
            change = CommittedChange(instant_time, action, metadata, upkeep.key_look_up, upkeep.column_ranges)
        now = self.at(self.writer.without_lost_indexes(change, check))
        if change is not None:
            is_due = now.writer.update_commit(change, check)
        elif isinstance(metadata, HoodieCleanMetadata):
            is_due = now.writer.update_clean(instant_time, metadata, check)
        elif isinstance(metadata, HoodieRollbackMetadata):
            is_due = now.writer.update_rollback(instant_time, metadata, check)
        else:
            raise HoodieCommitException(
                f"{action} {instant_time} of {self.table.base_path} was not completed: a metadata table came meanwhile "
                f"({','.join(listed)}), and would be wrong. Call it again"
            )
        return RecordedAction(is_due, now.table)

    def forget(self, instant_time: str) -> None:
        """Take back what was recorded of an instant that is being rolled back.

        Call it under the lock; the properties are read again. Where a compaction of the metadata table has merged it,
        the metadata table is set aside, and the next write builds it anew.

        Args:
            instant_time: The instant, which is pending, or a rollback of it is.

        Raises:
            HoodieException: The metadata table is damaged, or storage failed.
        """
        now = self.at(self.table.with_properties_reloaded())
        if not now.table.table_config.metadata_partitions:
            return
        with one_at_a_time(now.table):
            if not now.writer.withdraw(instant_time):
                now.set_aside()

    def compact_if_due(self, instant_time: str, check: Callable[[], None]) -> None:
        """Compact it after an action was completed, if that is due.

        Call it under the lock; the timeline is read again.

        Args:
            instant_time: The action, which is completed in the table.
            check: Raises where the lock was lost.

        Raises:
            HoodieException: The compaction failed, or the lock was lost; the next writer goes on with it.
        """
        with one_at_a_time(self.table):
            self.at(self.table.refreshed()).writer.compact_if_due(instant_time, check)
