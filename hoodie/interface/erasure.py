"""Erase rows from every file of a table: `hoodie.Table.forget`.

A delete leaves the rows in older versions of files, in log files, in the metadata table, and, where a partition's path
is made of a value, in the timeline. An erasure takes these steps, each of which is an ordinary action of the table:

1. Roll back failed writes, carry out pending compactions, delete the savepoints that are given up.
2. Delete the rows, in one commit. Merge all log files into base files. Write a row again, as it is, of each file whose
   footer names the key of a row that was deleted earlier.
3. Delete partitions that have no rows any more.
4. Clean all versions of files but the newest.
5. Take these partitions out of the timeline and the archive.
6. Build the metadata table anew: its files, its log files and its timeline go as a whole.
7. Look whether any older file is left.

A process may die at any point: the table is whole, and a second call takes all steps again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial

import attrs
import pyarrow as pa

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.write_input import MadeOfTable
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.fs.file_names import is_data_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.fs.pending_overwrite import overwrite_folder
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import FILE_NAME_META, PARTITION_PATH_META
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.partition_metadata import PARTITION_METAFILE_PREFIX
from hoodie.common.table.table_folder import files_of_others
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.common.table.timeline.instant_time import in_order, newest
from hoodie.common.util.shown_table import plural
from hoodie.config.clean_config import CleaningPolicy
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieSavepointException,
    HoodieWriteConflictException,
)
from hoodie.io.parquet.parquet_fragments import ParquetFragment
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.query.arrow_reader import scan
from hoodie.query.planner import plan_of
from hoodie.query.pruning import prune_partitions
from hoodie.query.read_plan import all_columns
from hoodie.query.table_query import Filters, TableQuery
from hoodie.storage.storage_path import join
from hoodie.table.action.clean.clean_planner import read_last_clean
from hoodie.table.history_erasure import HistoryErasure
from hoodie.table.open_table import look_at_table
from hoodie.table.repair.damaged_log_file import KEPT_FOLDER
from hoodie.table.repair.orphan_files import find_orphan_files
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult
from hoodie.transaction.heartbeat_client import is_heartbeat_expired

_SHOWN = 3


@attrs.frozen
class ErasedPartition:
    """The rows of one partition that an erasure deletes.

    Attributes:
        partition_path: The partition, "" in a table without partitions.
        rows: Their number.
        file_groups: The number of file groups that hold them.
    """

    partition_path: str
    rows: int
    file_groups: int


@attrs.frozen(repr=False)
class Erasure(RepairResult):
    """The plan of an erasure, or what it did; prints as some lines with a table below them.

    Attributes:
        base_path: The table.
        partitions: The partitions with rows that the condition matches, before the erasure.
        savepoints: The savepoints, which hold old files.
        given_up: The savepoints that it deletes.
        earliest_commit: The oldest commit that the table can be read as of before the erasure; after it, only the
            newest one.
        obstacles: The reasons that prevent it, each with the way out.
        others: Files in the table's folder that are not the table's: they are not looked at. Relative paths.
        erased_partitions: Partitions without rows that were deleted and taken out of the history; empty for a plan.
        instant_time: The commit that deleted the rows; None for a plan, or if no row was there any more.
        is_dry_run: Whether it is a plan, and nothing was changed.
    """

    base_path: str
    partitions: tuple[ErasedPartition, ...]
    savepoints: tuple[str, ...]
    given_up: tuple[str, ...]
    earliest_commit: str | None
    obstacles: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    erased_partitions: tuple[str, ...] = ()
    instant_time: str | None = None
    is_dry_run: bool = True

    @property
    def rows(self) -> int:
        """The number of rows that the condition matched."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def headline(self) -> str:
        """The outcome in some lines."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        groups = sum(partition.file_groups for partition in self.partitions)
        done = "would erase" if self.is_dry_run else "erased"
        yield (
            f"forget: {done} {plural(self.rows, 'row')} in {plural(groups, 'file group')} of {self.base_path}, and all "
            "older versions of files"
        )
        if self.earliest_commit is not None:
            lost = (
                f"as_of, restore and changes {'reach' if self.is_dry_run else 'reached'} back to {self.earliest_commit}"
            )
            yield f"{lost}; after it, to the newest commit only"
        if self.given_up:
            yield f"savepoints that {'go' if self.is_dry_run else 'are gone'}: {', '.join(self.given_up)}"
        for path in self.erased_partitions:
            yield f"partition {path} is gone, from the history too"
        if self.others:
            names = ", ".join(self.others[:_SHOWN])
            more = f" and {len(self.others) - _SHOWN} more" if len(self.others) > _SHOWN else ""
            yield f"not looked at, because they are not the table's: {names}{more}"
        for obstacle in self.obstacles:
            yield f"prevented: {obstacle}"
        if self.is_dry_run and not self.obstacles:
            yield "nothing was changed yet"

    @property
    def table(self) -> SummaryTable[ErasedPartition]:
        """The partitions."""
        return SummaryTable(ErasedPartition, self.partitions)


@attrs.frozen
class TableErasure:
    """One erasure.

    Attributes:
        config: The writer's configuration.
        where: The condition.
        give_up_savepoints: Savepoints that may be deleted.
    """

    config: HoodieWriteConfig
    where: Filters
    give_up_savepoints: Collection[str] = ()

    # --- the plan ---------------------------------------------------------------------------------------------------

    def plan(self) -> Erasure:
        """Look; nothing is changed.

        Raises:
            HoodieConfigException: A savepoint that is given up is no instant of the table.
            HoodieNotSupportedException: The table has no meta columns, which tell the files of rows.
            HoodieException: The table cannot be read, or the condition does not fit it.
        """
        table = look_at_table(self.config)
        table.table_config.check_writable()
        if not table.table_config.populate_meta_fields:
            raise HoodieNotSupportedException(
                f"{table.base_path} has no meta columns (hoodie.populate.meta.fields=false): forget() cannot tell the "
                "files of its rows"
            )
        held = tuple(in_order(table.active_timeline.filter_actions(Action.SAVEPOINT).times))
        # A savepoint that a call before this one deleted may be given up again.
        if unknown := sorted(set(self.give_up_savepoints) - set(table.active_timeline.times)):
            raise HoodieConfigException(
                f"{table.base_path} has no savepoint {', '.join(unknown)}: its savepoints are "
                f"{', '.join(held) or 'none'}; nothing was changed"
            )
        return Erasure(
            table.base_path,
            tuple(self._matches(table)),
            held,
            tuple(time for time in held if time in self.give_up_savepoints),
            _oldest_state(table),
            tuple(self._obstacles(table, held)),
            tuple(files_of_others(table.storage, table.base_path)),
        )

    def _matches(self, table: TableSnapshot) -> Iterator[ErasedPartition]:
        rows: dict[str, int] = defaultdict(int)
        groups: dict[str, set[str]] = defaultdict(set)
        query = TableQuery.of(columns=[PARTITION_PATH_META, FILE_NAME_META], filters=self.where)
        with scan(plan_of(table, query)) as batches:
            for batch in batches:
                for path, name in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    rows[path] += 1
                    # Rows of log files have the id of their file group.
                    parsed = parse_base_file_name(name)
                    groups[path].add(name if parsed is None else parsed.file_id)
        for path in sorted(rows):
            yield ErasedPartition(path, rows[path], len(groups[path]))

    def _obstacles(self, table: TableSnapshot, savepoints: Sequence[str]) -> Iterator[str]:
        timeline, storage = table.active_timeline, table.storage
        for time in savepoints:
            if time not in self.give_up_savepoints:
                yield f"savepoint {time} holds old files: give_up_savepoints=[{time!r}] deletes it"
        for instant in timeline.filter_pending():
            time = instant.requested_time
            if instant.action in (Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT):
                continue
            if instant.action is Action.LOG_COMPACTION:
                yield f"logcompaction {time} is pending: carry it out by log_compact({time!r}) of a client"
            elif is_clustering(timeline, instant):
                yield f"{instant.action} {time} is pending: let Hudi finish it or roll it back"
            elif instant.action is Action.INDEXING:
                yield f"indexing {time} is pending: finish it by index({time!r}) of a client, or rollback({time!r})"
            elif instant.action is Action.RESTORE:
                yield f"restore {time} is pending: restore to the same commit again"
            elif not is_heartbeat_expired(table, time, self.config.write):
                yield f"a writer is at work on {instant.action} {time}: wait for it, or until its heartbeat expires"
            elif instant.action in COMMIT_ACTIONS and self.config.write.failed_writes is FailedWritesPolicy.NEVER:
                yield f"{instant.action} {time} is pending: rollback({time!r}), if no writer is at work on it"
        orphans = find_orphan_files(self.config).files
        if orphans:
            yield (
                f"{plural(len(orphans), 'file')} that no commit explains, such as {orphans[0].path}: "
                "hoodie.table.repair.remove_orphan_files(path, delete=True)"
            )
        for folder in (join(table.meta_path, KEPT_FOLDER), overwrite_folder(table.base_path)):
            if storage.sample_files(folder, 1):
                yield f"{folder} holds copies of rows: delete it, if nobody needs it"

    # --- the work ---------------------------------------------------------------------------------------------------

    def run(self) -> Erasure:
        """Erase the rows.

        Raises:
            HoodieSavepointException: A savepoint is not given up; nothing was changed.
            HoodieWriteConflictException: Another obstacle prevents it, such as a writer that is at work, and nothing
                was changed; or another writer worked beside the erasure, and older files are left: call again.
            HoodieException: Storage failed, or an action did: call again.
        """
        plan = self.plan()
        if plan.obstacles:
            held = plan.savepoints != plan.given_up
            error = HoodieSavepointException if held else HoodieWriteConflictException
            reason = "; ".join(plan.obstacles)
            raise error(f"nothing of {plan.base_path} is erased, and nothing was changed: {reason}")
        instant_time = self._delete(plan)
        erased = self._erase_history()
        self._check()
        return attrs.evolve(plan, instant_time=instant_time, erased_partitions=erased, is_dry_run=False)

    @property
    def _erasing(self) -> HoodieWriteConfig:
        """The configuration of services that leave nothing but the newest versions."""
        config = self.config
        clean = attrs.evolve(
            config.clean,
            automatic=False,
            policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS,
            file_versions_retained=1,
        )
        compaction = attrs.evolve(
            config.compaction,
            inline=False,
            schedule_inline=False,
            run_async=False,
            log_compaction_inline=False,
            strategy="UnBoundedCompactionStrategy",
        )
        archival = attrs.evolve(config.archival, automatic=False)
        return attrs.evolve(config, clean=clean, compaction=compaction, archival=archival)

    def _delete(self, plan: Erasure) -> str | None:
        """Steps 1 to 4; returns the commit that deleted the rows."""
        instant_time = None
        with HoodieLocalWriteClient(self._erasing) as client:
            client.rollback_failed_writes()
            for instant in (
                look_at_table(self.config).active_timeline.filter_actions(Action.COMPACTION).filter_pending()
            ):
                client.compact(instant.requested_time)
            for time in plan.given_up:
                client.delete_savepoint(time)
            if plan.rows:
                instant_time = client.delete(where=self.where).instant_time
            client.compact()
            # Looked at first, so that nothing is committed without need; and again inside of the write, so that it
            # conflicts with what others commit.
            if self._rows_of_stale_footers(look_at_table(self.config)).num_rows:
                client.upsert_prepped_records(MadeOfTable(lambda table: self._rows_of_stale_footers(table.snapshot)))
                client.compact()
            if self._partitions_without_rows(look_at_table(self.config)):
                client.delete_partitions(lambda table: self._partitions_without_rows(table.snapshot))
            client.clean()
        return instant_time

    def _partitions_without_rows(self, table: TableSnapshot) -> list[str]:
        view = table.view()
        found = []
        for path in self._may_match(table, [path for path in view.list_partitions() if path]):
            slices = view.latest_file_slices(path)
            if slices and not any(_has_rows(table, file_slice) for file_slice in slices):
                found.append(path)
        return found

    def _rows_of_stale_footers(self, table: TableSnapshot) -> pa.Table:
        """One row of each file whose footer names the key of a row that was deleted: writing it renews the footer."""
        if table.load_avro_schema() is None:
            return pa.table({})
        plan = plan_of(table, TableQuery.of())
        found = [plan.result_schema.empty_table()]
        are_stale = map_concurrently(partial(_names_deleted_key, table), [one.file_slice for one in plan.slices])
        for one, is_stale in zip(plan.slices, are_stale, strict=True):
            if is_stale:
                with scan(attrs.evolve(plan, slices=(one,))) as batches:
                    rows = next((batch.slice(0, 1) for batch in batches if batch.num_rows), None)
                found += [] if rows is None else [pa.Table.from_batches([rows])]
        return pa.concat_tables(found)

    def _may_match(self, table: TableSnapshot, partitions: Sequence[str]) -> list[str]:
        """The partitions that may hold, or may have held, rows of the condition."""
        if table.load_avro_schema() is None:
            return []
        schema = all_columns(table.load_schema())
        condition = TableQuery.of(filters=self.where).filters
        row_filter = None if condition is None else RowFilter.of(condition, schema, table.base_path)
        return prune_partitions(partitions, table.table_config, schema, row_filter)

    def _erase_history(self) -> tuple[str, ...]:
        """Steps 5 and 6; returns the partitions that are gone."""
        with RepairedTable.open(self.config).lock("the erasure of history") as (table, transaction):
            _refuse_pending(table)
            # Its listing goes: what storage lists counts.
            MetadataTable(table.with_properties_reloaded()).set_aside(is_usual=True)
            table = look_at_table(self.config)
            filled = self._drop_empty_folders(table)
            gone = HistoryErasure(table, transaction.check_held).erase(
                lambda named: self._may_match(table, sorted(set(named) - filled - {""}))
            )
            upkeep = MetadataTableUpkeep.of(self.config, LocalEngineContext())
            MetadataTable(look_at_table(self.config), upkeep).build()
            return gone

    def _drop_empty_folders(self, table: TableSnapshot) -> set[str]:
        """Delete the folders of partitions without files; returns the partitions with files."""
        filled = set(table.table_metadata.list_stored_files())
        empty = sorted(path for path in table.table_metadata.list_partitions() if path and path not in filled)
        for path in self._may_match(table, empty):
            folder = join(table.base_path, path)
            if all(file.name.startswith(PARTITION_METAFILE_PREFIX) for file in table.storage.list_files(folder)):
                table.storage.delete_directory(folder)
        return filled

    def _check(self) -> None:
        """Look whether files of older versions are left, or rows came meanwhile.

        Raises:
            HoodieWriteConflictException: There are some.
        """
        table = look_at_table(self.config)
        if came := sum(partition.rows for partition in self._matches(table)):
            raise HoodieWriteConflictException(
                f"another writer stored {plural(came, 'row')} that the condition matches in {table.base_path} "
                "meanwhile, and they stay. Call forget() again"
            )
        pending = table.active_timeline.filter_pending().times
        view = table.stored_view()
        for path, files in table.table_metadata.list_stored_files().items():
            newest = {file.file_name for one in view.latest_file_slices(path) for file in one.record_files}
            left = [file.name for file in files if is_data_file_name(file.name) and file.name not in newest]
            left = [name for name in left if _instant_of(name) not in pending]
            left += [
                file.base_file.file_name
                for file in view.latest_file_slices(path)
                if file.base_file is not None and _names_deleted_key(table, file)
            ]
            if left:
                raise HoodieWriteConflictException(
                    f"{table.base_path} still holds {plural(len(left), 'file')} with older rows or keys in {path!r}, "
                    f"such as {left[0]}: another writer may have been at work beside the erasure. Call forget() again"
                )


def _oldest_state(table: TableSnapshot) -> str | None:
    """The oldest commit that the table can be read as of, as far as the last clean and the timeline tell."""
    first = table.active_timeline.completed_writes().first_instant
    last_clean = read_last_clean(table.active_timeline)
    kept = None if last_clean is None else last_clean.earliest_commit_to_retain or None
    return newest([None if first is None else first.requested_time, kept])


def _has_rows(table: TableSnapshot, file_slice: FileSlice) -> bool:
    base_file = file_slice.base_file
    if base_file is None or file_slice.record_log_files:
        return True
    return any(ParquetFragment.open(table.storage, base_file.path, base_file.size_bytes).row_counts)


def _names_deleted_key(table: TableSnapshot, file_slice: FileSlice) -> bool:
    """Whether the footer of a base file names the key of a row that the file does not have."""
    base_file = file_slice.base_file
    if base_file is None:
        return False
    with HoodieParquetReader(table.storage, base_file.path, size_bytes=base_file.size_bytes) as reader:
        return not reader.names_only_its_keys()


def _refuse_pending(table: TableSnapshot) -> None:
    """Refuse to change the history while an instant is pending, which may name any partition.

    Raises:
        HoodieWriteConflictException: One is.
    """
    pending = table.active_timeline.filter_pending().first_instant
    if pending is not None:
        raise HoodieWriteConflictException(
            f"the rows are deleted, but the history of {table.base_path} and its metadata table are not erased yet: "
            f"{pending.action} {pending.requested_time} began meanwhile. Call forget() again when it has ended"
        )


def _instant_of(name: str) -> str | None:
    parsed = parse_base_file_name(name) or parse_log_file_name(name)
    return None if parsed is None else parsed.instant_time
