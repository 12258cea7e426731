"""The write client of every engine, and the one commit path.

Hudi: org.apache.hudi.client.BaseHoodieWriteClient.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from hoodie.callback.commit_callbacks import CommitCallbacks
from hoodie.client.base_table_service_client import BaseHoodieTableServiceClient
from hoodie.client.call_arguments import check_extra_metadata, check_named_classes, check_result, check_time
from hoodie.client.committer import Committer
from hoodie.client.held_input import hold_input
from hoodie.client.partition_ttl import ExpiredPartitions, NothingExpiredException, PartitionTTL, refuse
from hoodie.client.partitions_to_delete import Partitions, paths_to_delete
from hoodie.client.read_ahead import read_before_instant, read_properties_and_metadata_table
from hoodie.client.rows_read import reading_mark
from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, PreCommitValidators, Validator
from hoodie.client.write_input import MadeOfTable, Where, WriteInput
from hoodie.client.write_operations import (
    EXECUTORS,
    action_of,
    check_operation,
    make_result,
    refuse_errors,
    replaces_all,
    requested_content,
)
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.util.shown_table import plural
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieLockException,
    HoodieSchemaException,
    HoodieWriteConflictException,
)
from hoodie.execution.bulkinsert.bulk_insert_partitioner import BulkInsertPartitioner, check_partitioner
from hoodie.index.bucket.consistent_hashing import refuse_consistent_hashing
from hoodie.index.bucket.layout_check import check_layout
from hoodie.index.bucket.table_layout import TableLayout, config_of_table
from hoodie.metadata.reader.metadata_listing import folders_not_listed
from hoodie.metrics.progress import ProgressCallback
from hoodie.query.table_query import Filters
from hoodie.table.action.commit.delete_partition_commit_action_executor import DeletePartitionCommitActionExecutor
from hoodie.table.action.commit.delete_prepped_commit_action_executor import StoredRows
from hoodie.table.action.commit.upsert_commit_action_executor import UpsertCommitActionExecutor
from hoodie.table.action.commit.upsert_plan import UpsertPlan
from hoodie.table.action.listeners import CompletionListeners
from hoodie.table.action.ttl.partition_expiry import PartitionExpiry
from hoodie.table.repair.repaired_table import check_flags
from hoodie.table.table import HoodieTable

logger = logging.getLogger(__name__)

_COMMIT_ON_ERRORS = "hoodie.write.commit.on.errors=true commits the others"
_NO_INSTANT = "0" * 17
"""Stands for the instant of a write that is only planned, never made."""


class BaseHoodieWriteClient(BaseHoodieTableServiceClient):
    """Writes one table; a context manager.

    Leaving the ``with`` block by an error rolls back the instants that this client started and did not complete. A
    closed client refuses every call. Use a client from one thread only.

    Args:
        context: The engine.
        config: The writer's configuration.
        on_progress: Called with every `ProgressEvent` of this client's calls, one at a time: from the caller's thread
            or from one that follows the tasks. It should be quick; its errors are logged and do not fail the write.
        validators: Functions that receive a `PendingCommit` before an instant is completed. An error or a returned
            False prevents the commit. The validators of ``hoodie.precommit.validators`` are asked as well.

    Hudi: org.apache.hudi.client.BaseHoodieWriteClient. Differs: one commit path, here; executors never commit.
    """

    sql_validators: ClassVar[Mapping[str, type[HoodiePreCommitValidator]]] = {}

    def __init__(
        self,
        context: HoodieEngineContext,
        config: HoodieWriteConfig,
        on_progress: ProgressCallback | None = None,
        validators: Sequence[Validator | HoodiePreCommitValidator] = (),
    ) -> None:
        super().__init__(context, config, on_progress)
        self._given_config = config
        check_named_classes(config)
        self._listeners = CompletionListeners(
            self._metrics, (self._publisher, CommitCallbacks(config, self._metrics)), self._run_due_services
        )
        self._service_errors: tuple[str, ...] = ()
        self._found: TableSnapshot | None = None
        self._begun: tuple[str, TableSnapshot] | None = None
        self._last: TableSnapshot | None = None
        """The table as this client saw it last."""
        self._validators = PreCommitValidators(config, validators, self.sql_validators)
        validate = self._validate if self._validators else None
        self._committer = Committer(self._session, validate, self._listeners, self._rollbacks)
        self._ttl = PartitionTTL(config, self._metrics)
        self._is_expiring = False
        self._services.expire = self._expire_after_commit

    @property
    def service_errors(self) -> tuple[str, ...]:
        """Errors of table services and of the callback after this client's newest commit; the commit itself stands.

        The write's result holds the same errors.
        """
        return self._service_errors

    def refuse_writes_beyond(self, known: frozenset[str] | None) -> None:
        """Refuse writes to a table with other writes than these; called before a write that replaces rows.

        The table is looked at when the write begins. For a single writer, another write that is completed later is a
        conflict in any case.

        Args:
            known: The completed writes that the rows may take into account; None for all.
        """
        self._check_open("refuse_writes_beyond")
        self._committer.known = known

    def check_before_completion(self, check: Callable[[TableSnapshot, str], None] | None) -> None:
        """Have a function asked right before each instant is completed, while any lock is held.

        Args:
            check: Takes the table as it is then, and the instant; raises if the instant must not be completed, which is
                pending then. It should be quick. None asks nobody.
        """
        self._check_open("check_before_completion")
        self._committer.last_check = check

    def go_on_from(self, found: TableSnapshot) -> None:
        """Let the next write begin from a table that was just loaded, instead of loading it.

        Where a lock keeps other processes out while it writes, it loads the table under that lock all the same.

        Args:
            found: The result of `hoodie.table.open_table.find_table`.
        """
        self._check_open("go_on_from")
        self._found = found

    # --- starting -----------------------------------------------------------------------------------------------

    def start_commit(self, operation: WriteOperationType | str | None = None) -> str:
        """Start an instant: roll back what failed writers left, then take a time that no instant of the table has.

        Args:
            operation: The operation to come. It decides the instant's action; None starts a ``commit``, or a
                ``deltacommit`` of a merge-on-read table.

        Returns:
            The instant time, to be passed to `upsert` and the other write methods, and to `commit`.

        Raises:
            TableNotFoundException: There is no table at the base path.
            HoodieNotSupportedException: The table needs a feature that hoodie does not have.
            HoodieHeartbeatException: Another writer is alive (with hoodie.cleaner.policy.failed.writes=EAGER).
            HoodieCommitException: A restore is pending.
            HoodieLockException: A writer in another process held the table for the whole waiting time (SINGLE_WRITER).
        """
        return self._start(operation)

    def start_commit_with_time(self, instant_time: str, operation: WriteOperationType | str | None = None) -> None:
        """Start an instant at a given time; everything else is as in `start_commit`.

        Args:
            instant_time: ``yyyyMMddHHmmssSSS``, later than every instant of the table.
            operation: See `start_commit`.

        Raises:
            HoodieCommitException: The time is not later than every instant of the table, active or archived.
            HoodieConfigException: The time is not a string.
        """
        check_time(instant_time)
        self._start(operation, instant_time)

    def _start(self, operation: WriteOperationType | str | None, given_time: str | None = None) -> str:
        """Start an instant at a given time, or at a time that no instant has."""
        with self._call("start_commit"):
            self._measure(None)
            check_operation(operation)
            with self._metrics.step("start commit"), self._transactions.alone():
                snapshot = self._prepare_table(operation)
                action = action_of(operation, snapshot.table_config.table_type)
                with self._metrics.step("create the instant"), self._transactions.giving_a_time(snapshot):
                    instant_time, timeline = self._create_instant(snapshot, action, operation, given_time)
                self._transactions.keep(instant_time)
        self._begun = instant_time, snapshot.with_timeline(timeline)
        self._open_instants[instant_time] = action
        self._measured_instant = instant_time
        return instant_time

    def _create_instant(
        self,
        snapshot: TableSnapshot,
        action: Action,
        operation: WriteOperationType | str | None,
        given_time: str | None,
    ) -> tuple[str, HoodieActiveTimeline]:
        """Take an instant time. Its heartbeat starts before other writers can see it, so that none rolls it back.

        Returns:
            The instant time, and the timeline as it was listed after the instant was made.
        """
        timeline = snapshot.active_timeline
        content = requested_content(action, operation, timeline.layout)
        tried: list[str] = []

        def announce(instant_time: str) -> bool:
            tried.append(instant_time)
            return self._announce(snapshot, instant_time)

        created: str | None = None
        listed: HoodieActiveTimeline | None = None
        try:
            if given_time is None:
                created, listed = timeline.take_new_instant(action, content, announce)
            elif announce(given_time):
                listed = timeline.take_instant_at(given_time, action, content)
                created = None if listed is None else given_time
        finally:
            for instant_time in tried:
                if instant_time != created:
                    self._heartbeats.stop(instant_time)
                    self._transactions.drop(instant_time)
        if created is None or listed is None:
            raise HoodieCommitException(f"instant {given_time} of {snapshot.base_path} is taken; use start_commit()")
        return created, listed

    def _announce(self, snapshot: TableSnapshot, instant_time: str) -> bool:
        """Start the heartbeat of an instant time, if it needs one; False when another writer's heartbeat is there."""
        self._transactions.announce(instant_time)
        if self._session.config.write.failed_writes is not FailedWritesPolicy.LAZY:
            return True
        return self._heartbeats.start(snapshot, instant_time)

    def _take_index(self, snapshot: TableSnapshot, replaces_all_files: bool = False) -> None:
        """Take the index that the table's files were written with, where the writer says nothing; refuse another one.

        Raises:
            HoodieIndexException, HoodieConfigException: See `check_layout`.
        """
        layout = TableLayout(snapshot)
        config = config_of_table(self._given_config, layout)
        if config.index != self._session.config.index:
            self._session.use_index(config)
        keys = snapshot.table_config.record_key_fields or tuple(config.table.record_key_fields or ())
        check_layout(self._session.index, snapshot, keys, replaces_all_files, layout)

    def _prepare_table(self, operation: WriteOperationType | str | None = None) -> TableSnapshot:
        """Load and check the table, roll back its failed writes, build its metadata table, and upgrade it."""
        found, self._found = self._found, None
        if self._transactions.keeps_processes_apart:
            # Another process may have written, or died, before this one got the lock.
            found = None
        snapshot = self._session.now(found)
        if self._last is not None:
            snapshot = snapshot.after(self._last)
        if self._session.config.metadata.enable is not False:
            read_before_instant(snapshot)
        self._take_index(snapshot, replaces_all(operation))
        refuse_consistent_hashing(snapshot)
        self._transactions.check(snapshot)
        with self._metrics.step("roll back failed writes"):
            rolled_back, snapshot = self._rollbacks.clear_failed_writes(snapshot)
            snapshot = self._rollbacks.preparation.for_write(snapshot)
            for instant_time in rolled_back:
                self._forget(instant_time)
                self._session.index.rollback_commit(instant_time)
            self._forget_ended(snapshot.active_timeline)
        return self._upgraded(snapshot)

    def _begun_table(self, instant_time: str) -> TableSnapshot:
        """The table as it was listed right after this client made an instant; otherwise as it is now.

        Its properties are read again: before the instant could be seen, others may have upgraded the table, or built
        partitions of its metadata table.
        """
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == instant_time:
            snapshot = begun[1]
            if read_properties_and_metadata_table(snapshot).table_config == snapshot.table_config:
                return snapshot
        return self._session.now()

    # --- writing ------------------------------------------------------------------------------------------------

    def upsert(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Update the records whose key is in the table, insert the others.

        The input is held for the length of the call (Spark: persisted). Of several records with one key, the one with
        the largest ordering value is kept, among equal values the last one; see ``hoodie.combine.before.upsert``.

        Args:
            records: See the class for what the engine accepts.
            instant_time: As returned by `start_commit`; None starts an instant.

        Returns:
            The outcome. It is committed with ``hoodie.auto.commit`` (the default).

        Raises:
            HoodieKeyException: Some records have no usable key; nothing was written.
            SchemaCompatibilityException, MissingSchemaFieldException: The columns do not fit the table's.
            HoodieUpsertException: Some records failed; with auto-commit the instant was rolled back.
        """
        return self._write(WriteOperationType.UPSERT, records, instant_time)

    def insert(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records without looking their keys up; small files are filled first.

        A key that is already in the table is then stored twice; a table with a record index refuses a second file group
        for a key (`HoodieAmbiguousKeyException`). Otherwise like `upsert` (`HoodieInsertException`).
        """
        return self._write(WriteOperationType.INSERT, records, instant_time)

    def bulk_insert(
        self, records: Any, instant_time: str | None = None, *, partitioner: BulkInsertPartitioner | None = None
    ) -> HoodieWriteResult:
        """Insert records into new files, reading the input once as a stream: for first loads.

        Args:
            records: See `upsert`.
            instant_time: See `upsert`.
            partitioner: Spreads and sorts the rows, instead of ``hoodie.bulkinsert.sort.mode`` (default: rows are
                written as they come) or ``hoodie.bulkinsert.user.defined.partitioner.class``. The rows are held if they
                are sorted or if the partitioner is your own class.

        Everything else is as in `insert`.
        """
        return self._write(
            WriteOperationType.BULK_INSERT, records, instant_time, partitioner=check_partitioner(partitioner)
        )

    def upsert_prepped_records(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Write records that carry their location: no look-up, no combining.

        Pass rows as `hoodie.read_table` or `hoodie.spark.read` returned them, with some columns changed. Their meta
        columns say where they are written back to (``_hoodie_record_key``, ``_hoodie_partition_path``,
        ``_hoodie_file_name``; without a file name: a new record). `HoodieRecord`s say it with ``current_location``.

        Args:
            records: The rows. Of several rows for one stored record the last one counts. New records are neither looked
                up nor combined: each row without a file name is added. Of several rows with the same key that go into
                one existing file the last one counts, as in Hudi.
            instant_time: See `upsert`.

        Raises:
            HoodieKeyException: The rows do not carry their location, or a key was changed.
            HoodieUpsertException: A record is not where its row says: the table was changed since it was read.
        """
        return self._write(WriteOperationType.UPSERT_PREPPED, records, instant_time)

    def insert_prepped_records(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records as they are, whatever the configuration says about combining and about keys in the table.

        Keys are taken from ``_hoodie_record_key`` and ``_hoodie_partition_path`` where the rows have these columns.
        Everything else is as in `insert`.
        """
        return self._write(WriteOperationType.INSERT_PREPPED, records, instant_time)

    def bulk_insert_prepped_records(
        self, records: Any, instant_time: str | None = None, *, partitioner: BulkInsertPartitioner | None = None
    ) -> HoodieWriteResult:
        """Insert records as they are into new files; see `insert_prepped_records` and `bulk_insert`."""
        return self._write(
            WriteOperationType.BULK_INSERT_PREPPED, records, instant_time, partitioner=check_partitioner(partitioner)
        )

    def delete(self, keys: Any = None, instant_time: str | None = None, *, where: Filters = None) -> HoodieWriteResult:
        """Delete the records of given keys, or those that a filter matches; keys that are not in the table are ignored.

        Deletes are by key: if a key is stored twice (by two inserts), both records are deleted even if the filter
        matches only one.

        Args:
            keys: `HoodieKey`s; rows with the record key and partition columns, where other columns are ignored; or, if
                the table has no partitions or the index is global, record keys as strings, or values of the only key
                field (``[7, 8]``, a set, a Series, an array).
            instant_time: See `upsert`.
            where: Instead of keys: a filter, as in `hoodie.read_table`, for the rows to delete.

        Raises:
            HoodieKeyException: Keys are null or empty, key columns are missing, or strings do not name a record, or
                lack the ``field:value`` parts of the table's keys.
            HoodieConfigException: Neither keys nor a filter is given, or both.
        """
        if (keys is None) == (where is None):
            raise HoodieConfigException("delete takes either keys or where=filters")
        if where is not None:
            keys = Where(where)
        return self._write(WriteOperationType.DELETE, keys, instant_time)

    def delete_prepped_records(self, rows: pa.Table | StoredRows, instant_time: str | None = None) -> HoodieWriteResult:
        """Delete rows by their location, without a look-up; other rows with the same keys stay.

        Args:
            rows: The locations of the rows; see `StoredRows`.
            instant_time: See `upsert`.

        Raises:
            HoodieSchemaException: The rows are not a table.
            HoodieKeyException: The rows do not carry their location.
            HoodieDeleteException: A row is not at its location: the table was changed since it was read.
        """
        if not isinstance(rows, StoredRows | pa.Table):
            raise HoodieSchemaException(f"rows to delete are {shown_value(rows)}: give a pyarrow Table")
        stored = rows if isinstance(rows, StoredRows) else StoredRows(rows)
        return self._write(WriteOperationType.DELETE_PREPPED, stored, instant_time, unchanged=stored.unchanged)

    def insert_overwrite(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Replace everything in the partitions that the records go to; other partitions stay as they are.

        This is one ``replacecommit``: readers see either the old rows or the new ones. The old files stay until a clean
        deletes them, so that readers of older instants can go on. Keys are not looked up. All records with the same key
        are kept, unless ``hoodie.combine.before.insert`` is set. Records marked as deleted are not written, and a
        partition that only gets such records stays as it is.

        Args:
            records: See `upsert`.
            instant_time: As returned by ``start_commit("insert_overwrite")``; None starts an instant.

        Raises:
            HoodieNotSupportedException: A pending clustering plan includes files that would be replaced.
            HoodieInsertException: Some records failed, or go to a partition that
                ``hoodie.static.overwrite.partition.paths`` does not name.
        """
        return self._write(WriteOperationType.INSERT_OVERWRITE, records, instant_time)

    def insert_overwrite_table(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Replace everything in the table; everything else is as in `insert_overwrite`.

        Empty input leaves an empty table.
        """
        return self._write(WriteOperationType.INSERT_OVERWRITE_TABLE, records, instant_time)

    def delete_partitions(self, partitions: Partitions, instant_time: str | None = None) -> HoodieWriteResult:
        """Delete whole partitions, without reading them.

        Args:
            partitions: Partition paths, as `HoodieTableMetaClient.partitions` returns them. Paths that the table does
                not have are skipped with a warning. Or `MatchingPartitions`, or `PartitionsOfRows`.
            instant_time: As returned by ``start_commit("delete_partition")``; None starts an instant.

        Raises:
            HoodieConfigException: The argument is not a list, or an item is not a partition path.
            HoodieNotSupportedException: A pending clustering plan includes files that would be deleted.
        """
        return self._write(WriteOperationType.DELETE_PARTITION, partitions, instant_time)

    def expire_partitions(self, dry_run: bool = False) -> PartitionExpiry:
        """Delete the partitions that are too old, by the options ``hoodie.partition.ttl.*``.

        ``hoodie.partition.ttl.strategy.days.retain`` gives the days that a partition stays after its last write, or
        with the strategy KEEP_BY_CREATION_TIME after its creation. Ages are counted to the newest completed instant, or
        to the clock if that is earlier. The partitions are deleted as by `delete_partitions`, by one ``replacecommit``;
        without a partition that is too old there is no instant. It is committed with ``hoodie.auto.commit=false`` too.

        Partitions that a pending compaction, log compaction or clustering is going to rewrite, and with several writers
        those that a pending write is going to change, stay for another run. If another writer commits rows to one of
        the partitions meanwhile, nothing is deleted.

        Args:
            dry_run: Delete nothing, and tell what would be deleted.

        Returns:
            The partitions, with their rows and bytes, the time that makes them too old, and those that stay.

        Raises:
            HoodieDeleteException: All partitions of the table are too old, or one is that was written last; a dry run
                tells that in its result.
            HoodieConfigException: The strategy is not known, or ``dry_run`` is neither True nor False.
            HoodieWriteConflictException: Another writer wrote to one of the partitions meanwhile; call again.
            HoodieException: See `delete_partitions`.
        """
        check_flags(dry_run=dry_run)
        with self._call("expire_partitions") as call, nullcontext() if dry_run else self._alone():
            self._services.wait()
            found = self._ttl.plan(self._session.now())
            if not dry_run:
                refuse(found)
                found = self._expire(found)
            call.summary = found.headline
        return found

    def _expire(self, found: PartitionExpiry) -> PartitionExpiry:
        """Delete partitions that a first look found, if they are still too old once the write is announced."""
        if not found.partitions:
            return attrs.evolve(found, is_dry_run=False)
        expired = ExpiredPartitions(self._ttl, found)
        known, self._committer.known = self._committer.known, None
        self._is_expiring = True
        try:
            result = self._write_until_committed(WriteOperationType.DELETE_PARTITION, expired, None)
            if not result.is_committed:
                # hoodie.auto.commit=false, which is for writes whose result the caller wants to see first.
                self._commit_or_roll_back(result)
        except NothingExpiredException as error:
            logger.info("%s", error)
            return attrs.evolve(expired.plan, is_dry_run=False)
        finally:
            self._is_expiring, self._committer.known = False, known
        done = attrs.evolve(
            expired.plan, instant_time=result.instant_time, is_dry_run=False, service_errors=result.service_errors
        )
        logger.info("%s of %s", done.headline, done.base_path)
        return done

    def _commit_or_roll_back(self, result: HoodieWriteResult) -> None:
        try:
            is_committed = self._commit(result.instant_time, result, {})
        except BaseException as error:
            self._try_rollback(result.instant_time, error)
            raise
        self._follow_up(result, is_committed)

    def _expire_after_commit(self) -> Sequence[str]:
        """Delete the partitions that are too old, after a commit of this client.

        Returns:
            The errors after the commit that deleted them.
        """
        if self._is_expiring:
            return ()
        snapshot = self._session.now()
        # What this client has read stays read.
        found = self._ttl.plan(snapshot if self._last is None else snapshot.after(self._last))
        refuse(found)
        if not found.partitions:
            return ()
        count, names = plural(len(found.partitions), "partition"), ", ".join(map(str, found.partitions))
        logger.warning(
            "partition TTL deletes %s of %s, whose age is counted to %s: %s",
            count, found.base_path, found.reference_time, names,
        )  # fmt: skip
        measured, instant_time = self._measured_instant, self._metrics.instant_time
        try:
            return self._expire(found).service_errors
        finally:
            self._measured_instant, self._metrics.instant_time = measured, instant_time

    def explain_upsert(self, records: Any) -> UpsertPlan:
        """Show what an upsert of these records would touch; nothing is written, and no instant is started.

        This runs the planner of `upsert` on the table as it is now: it reads the input, combines and looks up the keys,
        and assigns the records to file groups. It costs what these steps of an upsert cost. Failed writes of other
        writers are ignored, not rolled back.

        Args:
            records: See `upsert`; an iterator is consumed.

        Returns:
            File groups and why they are touched, bytes to rewrite, new files, the index work; prints as a table.

        Raises:
            HoodieKeyException: See `upsert`.
            SchemaCompatibilityException, MissingSchemaFieldException: See `upsert`.
            HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        """
        with self._call("explain_upsert") as call:
            self._measure(None)
            with self._metrics.step("load the table"):
                snapshot = self._session.now()
                self._take_index(snapshot)
                table = HoodieTable(
                    self._session.context, self._session.config, snapshot, self._session.index, self._metrics
                )
            operation = WriteOperationType.UPSERT
            with self._metrics.step("prepare the input"):
                given = WriteInput(table).prepare(operation, records)
            schemas = given.schemas
            write_context = table.write_context(_NO_INSTANT, operation, schemas.columns, schemas.avro_with_meta)
            executor = UpsertCommitActionExecutor(table, write_context, given.key_generator)
            plan = attrs.evolve(executor.explain(given.records), column_changes=schemas.changes)
            saved = folders_not_listed(snapshot)
            plan = attrs.evolve(plan, steps=self._metrics.steps, folders_not_listed=saved)
            call.summary = plan.summary
        return plan

    def _write(
        self, operation: WriteOperationType, records: Any, instant_time: str | None, **options: Any
    ) -> HoodieWriteResult:
        if instant_time is not None:
            check_time(instant_time)
        with self._call(operation.value.lower()) as call:
            result = self._write_until_committed(operation, records, instant_time, **options)
            call.summary = result.summary
            return result

    def _write_until_committed(
        self, operation: WriteOperationType, records: Any, instant_time: str | None, **options: Any
    ) -> HoodieWriteResult:
        """Write; after a conflict with another writer, write again under a new instant up to the attempts allowed."""
        lock = self._session.config.lock
        attempts = lock.write_attempts if self._session.config.write.auto_commit else 1
        if attempts == 1:
            return self._write_and_commit(operation, records, instant_time, **options)
        records = hold_input(records)
        began = time.monotonic()
        for attempt in range(1, attempts + 1):
            try:
                return self._write_and_commit(operation, records, instant_time, **options)
            except (HoodieWriteConflictException, HoodieLockException) as error:
                is_safe = error.was_lost if isinstance(error, HoodieLockException) else error.is_retry_safe
                passed_ms = (time.monotonic() - began) * 1000
                if not is_safe or attempt == attempts or passed_ms > lock.wait_retry_max_time_ms:
                    error.add_note(f"attempt {attempt} of {attempts}, {passed_ms / 1000:.0f} s after the first began")
                    raise
                logger.info("writing %s again, attempt %d: %s", self._session.config.base_path, attempt + 1, error)
                instant_time = None
            # A random delay: two writers that conflicted would otherwise meet again.
            time.sleep(random.uniform(0, min(0.1 * 2 ** (attempt - 1), 5)))
        raise AssertionError("unreachable")

    def _write_and_commit(
        self, operation: WriteOperationType, records: Any, instant_time: str | None, **options: Any
    ) -> HoodieWriteResult:
        started_here = instant_time is None
        if instant_time is None:
            instant_time = self.start_commit(operation)
        self._metrics.instant_time = instant_time
        # Until the services that follow are done.
        with self._alone(instant_time):
            return self._write_alone(operation, records, instant_time, started_here, **options)

    def _write_alone(
        self, operation: WriteOperationType, records: Any, instant_time: str, started_here: bool, **options: Any
    ) -> HoodieWriteResult:
        table: HoodieTable | None = None
        try:
            with self._metrics.step("load the table"):
                snapshot = self._begun_table(instant_time) if started_here else self._session.now()
                self._last = snapshot
                self._services.table_type = snapshot.table_config.table_type
                reads_table, expires = isinstance(records, MadeOfTable), isinstance(records, ExpiredPartitions)
                action = action_of(operation, snapshot.table_config.table_type)
                self._committer.begin_write(snapshot, instant_time, action, reads_table, expires)
                if not started_here:
                    # A client with another index may have started the instant, or others may have committed since.
                    self._take_index(snapshot, replaces_all(operation))
                table = HoodieTable(
                    self._session.context, self._session.config, snapshot, self._session.index, self._metrics
                )
            if operation is WriteOperationType.DELETE_PARTITION:
                schemas = WriteInput(table).table_schemas()
                write_context = table.write_context(instant_time, operation, schemas.columns, schemas.avro_with_meta)
                deleting = DeletePartitionCommitActionExecutor(table, write_context, None)
                paths = records(table, instant_time) if expires else paths_to_delete(records, table)
                metadata = deleting.execute_partitions(paths)
            else:
                with self._metrics.step("prepare the input"):
                    given = WriteInput(table).prepare(operation, records)
                schemas, operation = given.schemas, given.operation
                write_context = table.write_context(instant_time, operation, schemas.columns, schemas.avro_with_meta)
                executor = EXECUTORS[operation](table, write_context, given.key_generator, **options)
                metadata = executor.execute(given.records)
        except BaseException as error:
            conflict = self._committer.conflict_of_missing_file(instant_time, error)
            # Roll back only what this call started: the instant may hold uncommitted files that an earlier call wrote.
            if started_here or (table is not None and table.has_begun):
                self._try_rollback(instant_time, error)
            else:
                self._look_for_ended()
            if conflict is not None:
                raise conflict from error
            raise
        layout = self._session.index.commit_metadata(table.record_key_fields)
        mark = reading_mark(operation, records, write_context)
        # What the caller gives with a commit, such as the batch of a stream, belongs to rows that the caller writes.
        given_metadata = {} if expires else self._session.config.extra_metadata
        stored = {"schema": schemas.avro, **layout, **mark, **given_metadata}
        result = make_result(instant_time, metadata, stored, self._metrics.steps)
        if not self._session.config.write.auto_commit:
            # Another client may have started the instant.
            self._transactions.keep(instant_time)
            return result
        try:
            if not self._session.config.write.commit_on_errors:
                refuse_errors(result, f"; the instant is rolled back. {_COMMIT_ON_ERRORS}")
            is_committed = self._commit(instant_time, result, {}, snapshot)
        except BaseException as error:
            self._try_rollback(instant_time, error)
            raise
        self._follow_up(result, is_committed)
        return attrs.evolve(result, steps=self._metrics.steps)

    def _follow_up(self, result: HoodieWriteResult, is_committed: bool) -> None:
        """Run what follows a commit; errors here do not fail the write."""
        self._service_errors = ()
        if is_committed:
            self._service_errors = self._listeners.follow_up(result.instant_time, self._committer.take_failures())
            self._note_completed(result.commit_state)
        result.commit_state.service_errors = self._service_errors

    def _catalogs_failed(self, failures: tuple[str, ...]) -> None:
        self._service_errors += failures

    def _run_due_services(self, instant_time: str) -> list[str]:
        if self._is_closed:
            return ["no table service ran: the client was closed while it wrote"]
        return self.post_commit(instant_time) or []

    # --- committing ---------------------------------------------------------------------------------------------

    def commit(
        self,
        instant_time: str,
        result: HoodieWriteResult,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        allow_errors: bool = False,
    ) -> bool:
        """Complete an instant that was written with ``hoodie.auto.commit=false``.

        Args:
            instant_time: The instant.
            result: The result of the write. Afterwards its ``is_committed`` is True.
            extra_metadata: Strings to store in the commit.
            allow_errors: Commit the good records even though others failed.

        Returns:
            True: the records can be read now. False: nothing was written, and ``hoodie.allow.empty.commit=false`` asks
            for no commit then, or a delete met a table that was never written; the instant is gone.

        Raises:
            HoodieCommitException: The instant was rolled back, completed, or never started; or the table has changed in
                a way that forbids completing it; or the result is not a write result, or belongs to another instant.
            HoodieWriteConflictException: Another writer committed meanwhile.
            HoodieValidationException: A validator rejects the commit; the instant stays pending, to be rolled back.
            HoodieUpsertException: (or its counterpart of the operation) Records failed and ``allow_errors`` is not set.
            HoodieConfigException: Extra metadata is not text, or is named ``schema`` or ``latest_schema``.
        """
        check_result(instant_time, result)
        check_extra_metadata(extra_metadata)
        if not allow_errors:
            refuse_errors(result, "; commit(..., allow_errors=True) commits the others")
        with self._call("commit") as call, self._alone(instant_time):
            is_committed = self._commit(instant_time, result, dict(extra_metadata or {}))
            self._follow_up(result, is_committed)
            call.summary = f"commit {instant_time}" if is_committed else f"nothing to commit at {instant_time}"
        return is_committed

    def _commit(
        self,
        instant_time: str,
        result: HoodieWriteResult,
        extra_metadata: Mapping[str, str],
        written_to: TableSnapshot | None = None,
    ) -> bool:
        self._metrics.instant_time = instant_time
        with self._metrics.step("commit"):
            try:
                is_committed = self._committer.complete(instant_time, result, extra_metadata, written_to)
            except HoodieWriteConflictException as error:
                if self._session.config.write.has_several_writers and not self._session.config.write.auto_commit:
                    # The instant can never be completed, so its files are of no use.
                    self._try_rollback(instant_time, error)
                else:
                    self._look_for_ended()
                raise
            except HoodieCommitException:
                self._look_for_ended()
                raise
        self._open_instants.pop(instant_time, None)
        self._transactions.drop(instant_time)
        return is_committed

    def _validate(self, snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata) -> None:
        """Ask the validators."""
        with self._metrics.step("validate"):
            self._validators.check(self._pending_commit(snapshot, result, metadata))

    def _pending_commit(
        self, snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata
    ) -> PendingCommit:
        """Build the commit that validators receive."""
        return PendingCommit(snapshot, result, metadata)

    def _forget(self, instant_time: str) -> None:
        super()._forget(instant_time)
        self._committer.forget(instant_time)
