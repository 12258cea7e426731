"""The write client of every engine, and the one commit path.

Hudi: org.apache.hudi.client.BaseHoodieWriteClient.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from hoodie import exception
from hoodie.callback.commit_callbacks import CommitCallbacks
from hoodie.client.base_table_service_client import BaseHoodieTableServiceClient
from hoodie.client.call_arguments import check_extra_metadata, check_result, check_time
from hoodie.client.committer import Committer
from hoodie.client.held_input import hold_input
from hoodie.client.named_classes import check_named_classes
from hoodie.client.open_table import load_table, switch_off_metadata_table
from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, PreCommitValidators, Validator
from hoodie.client.write_input import Where, WriteInput
from hoodie.client.write_operations import (
    EXECUTORS,
    action_of,
    make_result,
    refuse_errors,
    replaces_all,
    requested_content,
)
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import (
    HoodieCommitException,
    HoodieLockException,
    HoodieWriteConflictException,
)
from hoodie.execution.bulkinsert.bulk_insert_partitioner import BulkInsertPartitioner, check_partitioner
from hoodie.index.bucket.layout_check import check_layout
from hoodie.metrics.progress import ProgressCallback
from hoodie.table.action.commit.delete_partition_commit_action_executor import DeletePartitionCommitActionExecutor
from hoodie.table.action.commit.delete_prepped_commit_action_executor import (
    StoredRows,
)
from hoodie.table.action.commit.upsert_commit_action_executor import (
    UpsertCommitActionExecutor,
)
from hoodie.table.action.commit.upsert_plan import UpsertPlan
from hoodie.table.table import HoodieTable
from hoodie.table.table_scan import Filters

__all__ = ["BaseHoodieWriteClient"]

logger = logging.getLogger(__name__)

_COMMIT_ON_ERRORS = "hoodie.write.commit.on.errors=true commits the others"
_NO_INSTANT = "0" * 17
"""Stands for the instant of a write that is only thought of."""


class BaseHoodieWriteClient(BaseHoodieTableServiceClient):
    """Writes one table; a context manager.

    Leaving by an error rolls back the instants that this client started and did not complete. A closed client refuses
    every call. A client is for one thread.

    Args:
        context: The engine.
        config: The writer's configuration.
        on_progress: Called with every `ProgressEvent` of this client's calls, from the caller's thread and from one
            that follows the tasks, one at a time; it should be quick. Its errors are logged and do not fail the write.
        validators: Functions that are given a `PendingCommit` before an instant is completed, and prevent that by an
            error or by False; those of ``hoodie.precommit.validators`` are asked as well.

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
        check_named_classes(config)
        self._callbacks = CommitCallbacks(config)
        self._service_errors: tuple[str, ...] = ()
        self._validators = PreCommitValidators(config, validators, self.sql_validators)
        self._committer = Committer(
            config,
            self._metrics,
            self._index,
            context,
            self._transactions,
            self._heartbeats,
            self._callbacks,
            self._validate,
            self._publisher,
            self._rollbacks,
        )

    @property
    def service_errors(self) -> tuple[str, ...]:
        """What went wrong after the newest commit of this client, which stands: table services and the callback.

        The same as in the result of the write.
        """
        return self._service_errors

    # --- starting -----------------------------------------------------------------------------------------------

    def start_commit(self, operation: WriteOperationType | str | None = None) -> str:
        """Start an instant: roll back what failed writers left, then take a time that nothing in the table has.

        Args:
            operation: What will be written; it decides the action of the instant, None is one that takes a ``commit``.

        Returns:
            The instant time, for `upsert` and the others, and for `commit`.

        Raises:
            TableNotFoundException: There is no table at the base path.
            HoodieNotSupportedException: The table needs a feature that hoodie does not have.
            HoodieHeartbeatException: Another writer is alive (with hoodie.cleaner.policy.failed.writes=EAGER).
            HoodieCommitException: A restore is pending.
            HoodieLockException: A writer in another process had the table all the time (SINGLE_WRITER).
        """
        with self._call("start_commit"):
            self._measure(None)
            with self._metrics.step("start commit"), self._transactions.alone():
                snapshot = self._prepare_table(operation)
                with self._metrics.step("create the instant"):
                    instant_time = self._create_instant(snapshot, action_of(operation))
                self._transactions.keep(instant_time)
        self._open_instants[instant_time] = action_of(operation)
        self._measured_instant = instant_time
        return instant_time

    def start_commit_with_time(self, instant_time: str, operation: WriteOperationType | str | None = None) -> None:
        """Start an instant of a given time; as `start_commit` otherwise.

        Args:
            instant_time: ``yyyyMMddHHmmssSSS``, later than every instant of the table.
            operation: As of `start_commit`.

        Raises:
            HoodieCommitException: The time is not later than every instant of the table, active or archived.
            HoodieConfigException: The time is no text.
        """
        check_time(instant_time)
        action = action_of(operation)
        with self._call("start_commit"):
            self._measure(None)
            with self._metrics.step("start commit"), self._transactions.alone():
                snapshot = self._prepare_table(operation)
                with self._metrics.step("create the instant"):
                    created = False
                    try:
                        created = self._announce(
                            snapshot, instant_time
                        ) and snapshot.active_timeline.create_requested_at(
                            instant_time, action, requested_content(action)
                        )
                    finally:
                        if not created:
                            self._heartbeats.stop(instant_time)
                            self._transactions.drop(instant_time)
                if created:
                    self._transactions.keep(instant_time)
        if not created:
            raise HoodieCommitException(f"instant {instant_time} of {snapshot.base_path} is taken; use start_commit()")
        self._open_instants[instant_time] = action
        self._measured_instant = instant_time

    def _create_instant(self, snapshot: TableSnapshot, action: Action) -> str:
        """Take an instant time; its heartbeat begins before others can see it, so that nobody rolls it back."""
        tried: list[str] = []

        def announce(instant_time: str) -> bool:
            tried.append(instant_time)
            return self._announce(snapshot, instant_time)

        created: str | None = None
        try:
            created = snapshot.active_timeline.create_new_instant_time(action, requested_content(action), announce)
            return created
        finally:
            for instant_time in tried:
                if instant_time != created:
                    self._heartbeats.stop(instant_time)
                    self._transactions.drop(instant_time)

    def _announce(self, snapshot: TableSnapshot, instant_time: str) -> bool:
        """Start the heartbeat of an instant time, if it is to have one; False when another writer's is there."""
        self._transactions.announce(instant_time)
        if self._config.write.failed_writes is not FailedWritesPolicy.LAZY:
            return True
        return self._heartbeats.start(snapshot, instant_time)

    def _prepare_table(self, operation: WriteOperationType | str | None = None) -> TableSnapshot:
        """The table, checked and cleared of failed writes."""
        snapshot = load_table(self._config)
        keys = snapshot.table_config.record_key_fields or tuple(self._config.table.record_key_fields or ())
        check_layout(self._index, snapshot, keys, replaces_all(operation))
        self._transactions.check(snapshot)
        with self._metrics.step("roll back failed writes"):
            rolled_back, snapshot = self._rollbacks.prepare_write(snapshot)
            for instant_time in rolled_back:
                self._forget(instant_time)
                self._index.rollback_commit(instant_time)
            self._forget_ended(snapshot.active_timeline)
        return switch_off_metadata_table(self._config, snapshot)

    # --- writing ------------------------------------------------------------------------------------------------

    def upsert(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Update the records whose key is in the table, insert the others.

        The input is held for the length of the call (Spark: persisted). Of several records of one key the one with
        the larger ordering value is kept, of equal ones the later; see ``hoodie.combine.before.upsert``.

        Args:
            records: What the engine takes; see the class.
            instant_time: Of `start_commit`; None starts one.

        Returns:
            The outcome; committed with ``hoodie.auto.commit`` (the default).

        Raises:
            HoodieKeyException: Records without a usable key; nothing was written.
            SchemaCompatibilityException, MissingSchemaFieldException: The columns do not fit the table's.
            HoodieUpsertException: Records failed; rolled back (auto-commit).
        """
        return self._write(WriteOperationType.UPSERT, records, instant_time)

    def insert(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records without looking their keys up; small files are filled first.

        A key that is in the table already lives twice afterwards. As `upsert` otherwise (`HoodieInsertException`).
        """
        return self._write(WriteOperationType.INSERT, records, instant_time)

    def bulk_insert(
        self, records: Any, instant_time: str | None = None, *, partitioner: BulkInsertPartitioner | None = None
    ) -> HoodieWriteResult:
        """Insert records into new files, reading the input once as a stream: for first loads.

        Args:
            records: As of `upsert`.
            instant_time: As of `upsert`.
            partitioner: Spreads and sorts the rows, instead of ``hoodie.bulkinsert.sort.mode`` (default: rows are
                written as they come) or ``hoodie.bulkinsert.user.defined.partitioner.class``. For a class of your
                own, and for sorting, the rows are held.

        As `insert` otherwise.
        """
        given = {} if partitioner is None else {"partitioner": check_partitioner(partitioner)}
        return self._write(WriteOperationType.BULK_INSERT, records, instant_time, **given)

    def upsert_prepped_records(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Write records that say where they live: no look-up, no combining.

        Rows as `hoodie.read_table` or `hoodie.spark.read` gave them, some columns changed, go back to where they came
        from; their meta columns say where (``_hoodie_record_key``, ``_hoodie_partition_path``, ``_hoodie_file_name``;
        without a file name a record is new). So do `HoodieRecord`s with a ``current_location``.

        Args:
            records: The rows; of several rows of one stored record the last counts. New ones are not looked up and not
                combined: what has no file name is added; of several of one key that go into one existing file the last
                counts, as in Hudi.
            instant_time: As of `upsert`.

        Raises:
            HoodieKeyException: The rows do not say where they live, or a key was changed.
            HoodieUpsertException: A record is not where its row says: the table was changed since it was read.
        """
        return self._write(WriteOperationType.UPSERT_PREPPED, records, instant_time)

    def insert_prepped_records(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records as they are, whatever the configuration says of combining and known keys.

        Keys are taken from ``_hoodie_record_key`` and ``_hoodie_partition_path`` where the rows have them. As `insert`
        otherwise.
        """
        return self._write(WriteOperationType.INSERT_PREPPED, records, instant_time)

    def bulk_insert_prepped_records(
        self, records: Any, instant_time: str | None = None, *, partitioner: BulkInsertPartitioner | None = None
    ) -> HoodieWriteResult:
        """Insert records as they are into new files; see `insert_prepped_records` and `bulk_insert`."""
        given = {} if partitioner is None else {"partitioner": check_partitioner(partitioner)}
        return self._write(WriteOperationType.BULK_INSERT_PREPPED, records, instant_time, **given)

    def delete(self, keys: Any = None, instant_time: str | None = None, *, where: Filters = None) -> HoodieWriteResult:
        """Delete the records of keys, or those that a filter finds; keys that are not in the table are passed over.

        What is deleted is keys: of a key that lives twice (two inserts made it) both records go, though the filter
        finds one.

        Args:
            keys: `HoodieKey`s, or rows with the record key and partition columns; other columns are not looked at.
            instant_time: As of `upsert`.
            where: Instead of keys: which rows, as the filters of `hoodie.read_table`.

        Raises:
            HoodieKeyException: Keys that are null or empty, or columns that are missing.
            HoodieConfigException: Neither keys nor a filter is given, or both.
        """
        if (keys is None) == (where is None):
            raise exception.HoodieConfigException("delete takes either keys or where=filters")
        if where is not None:
            keys = Where(where)
        return self._write(WriteOperationType.DELETE, keys, instant_time)

    def delete_prepped_records(self, rows: pa.Table | StoredRows, instant_time: str | None = None) -> HoodieWriteResult:
        """Delete rows by their places, without a look-up; other rows of their keys stay.

        Args:
            rows: Where they stand; see `StoredRows`.
            instant_time: As of `upsert`.

        Raises:
            HoodieSchemaException: The rows are no table.
            HoodieKeyException: The rows do not say where they stand.
            HoodieDeleteException: They do not stand there: the table was changed since they were read.
        """
        if not isinstance(rows, StoredRows | pa.Table):
            raise exception.HoodieSchemaException(f"rows to delete are {shown_value(rows)}: give a pyarrow Table")
        stored = rows if isinstance(rows, StoredRows) else StoredRows(rows)
        return self._write(WriteOperationType.DELETE_PREPPED, stored, instant_time, unchanged=stored.unchanged)

    def insert_overwrite(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records in place of all that is in the partitions that they go to; other partitions stay.

        One ``replacecommit``: readers see the old rows or the new ones. The old files stay until a clean deletes them,
        so that readers of older instants go on. Keys are not looked up; of several records of one key all are kept,
        unless ``hoodie.combine.before.insert`` is set. Records that are marked as deleted go nowhere: a partition that
        gets no others stays.

        Args:
            records: As of `upsert`.
            instant_time: Of ``start_commit("insert_overwrite")``; None starts one.

        Raises:
            HoodieNotSupportedException: A pending clustering is going to rewrite files that would be replaced.
            HoodieInsertException: Records failed, or go to a partition that
                ``hoodie.static.overwrite.partition.paths`` does not name.
        """
        return self._write(WriteOperationType.INSERT_OVERWRITE, records, instant_time)

    def insert_overwrite_table(self, records: Any, instant_time: str | None = None) -> HoodieWriteResult:
        """Insert records in place of everything that is in the table; as `insert_overwrite` otherwise.

        No records at all leave an empty table.
        """
        return self._write(WriteOperationType.INSERT_OVERWRITE_TABLE, records, instant_time)

    def delete_partitions(self, partitions: Iterable[str], instant_time: str | None = None) -> HoodieWriteResult:
        """Take whole partitions away, without reading them.

        Args:
            partitions: Partition paths, as `HoodieTableMetaClient.partitions` gives them; those that the table does not
                have are passed over, with a warning.
            instant_time: Of ``start_commit("delete_partition")``; None starts one.

        Raises:
            HoodieConfigException: One is no partition path, or they are no list of them.
            HoodieNotSupportedException: A pending clustering is going to rewrite files that would be taken away.
        """
        return self._write(WriteOperationType.DELETE_PARTITION, partitions, instant_time)

    def explain_upsert(self, records: Any) -> UpsertPlan:
        """Say what an upsert of these records would touch; nothing is written, and no instant is started.

        The planner of `upsert` does it, on the table as it is now: the input is read, keys are combined and looked up
        by the index, records are dealt to file groups. That costs what these steps cost; failed writes of others are
        passed over, not rolled back.

        Args:
            records: As of `upsert`; an iterator is used up.

        Returns:
            File groups with their reasons, bytes to rewrite, new files and the index work; prints as a table.

        Raises:
            HoodieKeyException: As of `upsert`.
            SchemaCompatibilityException, MissingSchemaFieldException: As of `upsert`.
            HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        """
        with self._call("explain_upsert") as call:
            self._measure(None)
            with self._metrics.step("load the table"):
                snapshot = load_table(self._config)
                table = HoodieTable(self._context, self._config, snapshot, self._index, self._metrics)
                check_layout(self._index, snapshot, table.record_key_fields)
            operation = WriteOperationType.UPSERT
            with self._metrics.step("prepare the input"):
                given = WriteInput(table).prepare(operation, records)
            schemas = given.schemas
            write_context = table.write_context(_NO_INSTANT, operation, schemas.columns, schemas.avro_with_meta)
            executor = UpsertCommitActionExecutor(table, write_context, given.key_generator)
            plan = attrs.evolve(
                executor.explain(given.records), steps=self._metrics.steps, column_changes=schemas.changes
            )
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
        """Write again, under a new instant, what lost against another writer, as often as the configuration allows."""
        lock = self._config.lock
        attempts = lock.write_attempts if self._config.write.auto_commit else 1
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
                logger.info("writing %s again, attempt %d: %s", self._config.base_path, attempt + 1, error)
                instant_time = None
            # Who lost against each other would meet again.
            time.sleep(random.uniform(0, min(0.1 * 2 ** (attempt - 1), 5)))
        raise AssertionError("unreachable")

    def _write_and_commit(
        self, operation: WriteOperationType, records: Any, instant_time: str | None, **options: Any
    ) -> HoodieWriteResult:
        started_here = instant_time is None
        if instant_time is None:
            instant_time = self.start_commit(operation)
        # Until the services that follow are done.
        with self._alone(instant_time):
            return self._write_alone(operation, records, instant_time, started_here, **options)

    def _write_alone(
        self, operation: WriteOperationType, records: Any, instant_time: str, started_here: bool, **options: Any
    ) -> HoodieWriteResult:
        table: HoodieTable | None = None
        try:
            with self._metrics.step("load the table"):
                snapshot = load_table(self._config)
                self._committer.begin_write(snapshot, instant_time, EXECUTORS[operation].action)
                table = HoodieTable(self._context, self._config, snapshot, self._index, self._metrics)
                if not started_here:
                    # A client with another index may have started it, or another writer committed since.
                    check_layout(self._index, snapshot, table.record_key_fields, replaces_all(operation))
            if operation is WriteOperationType.DELETE_PARTITION:
                schemas = WriteInput(table).table_schemas()
                write_context = table.write_context(instant_time, operation, schemas.columns, schemas.avro_with_meta)
                deleting = DeletePartitionCommitActionExecutor(table, write_context, None)
                metadata = deleting.execute_partitions(records)
            else:
                with self._metrics.step("prepare the input"):
                    given = WriteInput(table).prepare(operation, records)
                schemas = given.schemas
                write_context = table.write_context(instant_time, operation, schemas.columns, schemas.avro_with_meta)
                executor = EXECUTORS[operation](table, write_context, given.key_generator, **options)
                metadata = executor.execute(given.records)
        except BaseException as error:
            conflict = self._committer.conflict_of_missing_file(instant_time, error)
            # Only what this call began: the instant may hold what an earlier call wrote and nobody has committed yet.
            if started_here or (table is not None and table.has_begun):
                self._try_rollback(instant_time, error)
            else:
                self._look_for_ended()
            if conflict is not None:
                raise conflict from error
            raise
        index_metadata = self._index.commit_metadata(table.record_key_fields)
        stored = {"schema": schemas.avro, **index_metadata, **self._config.extra_metadata}
        result = make_result(instant_time, metadata, stored, self._metrics.steps)
        if not self._config.write.auto_commit:
            # Another client may have started it.
            self._transactions.keep(instant_time)
            return result
        try:
            if not self._config.write.commit_on_errors:
                refuse_errors(result, f"; the instant is rolled back. {_COMMIT_ON_ERRORS}")
            is_committed = self._commit(instant_time, result, {})
        except BaseException as error:
            self._try_rollback(instant_time, error)
            raise
        self._follow_up(result, is_committed)
        return attrs.evolve(result, steps=self._metrics.steps)

    def _follow_up(self, result: HoodieWriteResult, is_committed: bool) -> None:
        """What comes after a commit, and does not fail it."""
        self._service_errors = ()
        if is_committed:
            with self._metrics.step("post-commit"):
                failed = ["no table service ran: the client was closed while it wrote"]
                if not self._is_closed:
                    failed = self.post_commit(result.instant_time) or []
                self._service_errors = (*self._callbacks.take_failures(), *failed)
        result.commit_state.service_errors = self._service_errors

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
            result: What the write returned; it says afterwards that it is committed.
            extra_metadata: Strings to store in the commit.
            allow_errors: Commit the good records though others failed.

        Returns:
            True: the records can be read now. False: nothing was written, and ``hoodie.allow.empty.commit=false`` says
            to leave no trace of that, or a delete met a table that was never written; the instant is gone.

        Raises:
            HoodieCommitException: The instant was rolled back, completed, or never started, or the table changed so
                that it must not be completed; or the result is none, or is of another instant.
            HoodieWriteConflictException: Another writer committed meanwhile.
            HoodieValidationException: A validator does not agree; the instant stays as it is, to be rolled back.
            HoodieUpsertException: (or its sister) records failed and ``allow_errors`` is not set.
            HoodieConfigException: Extra metadata that is no text, or named ``schema`` or ``latest_schema``.
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

    def _commit(self, instant_time: str, result: HoodieWriteResult, extra_metadata: Mapping[str, str]) -> bool:
        with self._metrics.step("commit"):
            try:
                is_committed = self._committer.complete(
                    instant_time, EXECUTORS[result.operation].action, result, extra_metadata
                )
            except HoodieWriteConflictException as error:
                if self._config.write.has_several_writers and not self._config.write.auto_commit:
                    # It can never be completed: nobody is helped by leaving its files.
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
        """Ask the validators, if there are any."""
        if self._validators:
            with self._metrics.step("validate"):
                self._validators.check(self._pending_commit(snapshot, result, metadata))

    def _pending_commit(
        self, snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata
    ) -> PendingCommit:
        """What validators are given."""
        return PendingCommit(snapshot, result, metadata)

    def _forget(self, instant_time: str) -> None:
        super()._forget(instant_time)
        self._committer.forget(instant_time)
