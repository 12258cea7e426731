"""One round of the streamer: from the position in the table, through the source, to a commit with the next position.

Hudi: org.apache.hudi.utilities.streamer.StreamSync. Differs: errors are written before the commit and by the names of
their messages, so a round that is repeated does not double them; a round refuses to commit a position that another
process has moved.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import remove_meta_columns, to_arrow
from hoodie.avro.schema_resolution import resolved_columns
from hoodie.client.chosen_operation import DELETES
from hoodie.client.new_table import check_new_table
from hoodie.client.open_or_create import WritableTable, find_writable_table, open_or_create
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.client.write_operations import refuse_errors
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.clustering_plans import pending_clusterings
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieStreamerException,
    TableNotFoundException,
)
from hoodie.utilities.config.error_table_config import ErrorWriteFailureStrategy, HoodieErrorTableConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.ingestion.error_spool import ErrorSpool
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import InputBatch, Source
from hoodie.utilities.streamer.batches_ahead import BatchesAhead, StoppedWaiting
from hoodie.utilities.streamer.check_of_table import check_of_table, key_fields_of_table
from hoodie.utilities.streamer.checkpoint_utils import (
    CheckpointKeys,
    ResumePoint,
    point_to_resume_from,
    refuse_moved_position,
)
from hoodie.utilities.streamer.offset_validator import SparkKafkaOffsetValidator
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.streamer_engine import RowPlan, StreamerEngine, StreamerRows
from hoodie.utilities.streamer.sync_result import SyncResult
from hoodie.utilities.streamer.tombstone_rules import TombstoneRules
from hoodie.utilities.transform.transformer import Transformer

logger = logging.getLogger(__name__)

_NEXT_SYNC_SECONDS = 60.0
"""The pause after a sync of catalogs without a commit that failed."""
_OVERWRITES = ("insert_overwrite", "insert_overwrite_table")


class ErrorWriter(Protocol):
    """Keeps the errors of a round, before its rows are committed."""

    def write(self, errors: Iterable[pa.RecordBatch], instant_time: str) -> int:
        """Write errors.

        Args:
            errors: Batches of `hoodie.utilities.ingestion.error_event.ERROR_SCHEMA`.
            instant_time: The instant of the round.

        Returns:
            The number of errors.
        """

    def close(self) -> None:
        """Give back what the writer has."""


@attrs.frozen(eq=False)
class StreamerRun:
    """The parts of one run.

    Attributes:
        config: The flags.
        properties: The properties.
        options: The properties of the run itself.
        write_config: The configuration of the writer.
        engine: The engine.
        source: The source.
        identity: The source's name.
        schema_provider: The schema provider; None for none.
        transformer: Changes the rows; None for none.
        tombstones: The demands on the rows of the transformer, where messages without a value delete.
        error_writer: Keeps errors; None where one fails the round.
        error_table: The properties of the error table.
        initial: Tells the position of the first round; None without a provider.
        validators: Asked before each commit.
        offsets: The validator of offsets, which is asked too; None for none.
    """

    config: StreamerConfig
    properties: StreamerProperties
    options: HoodieStreamerConfig
    write_config: HoodieWriteConfig
    engine: StreamerEngine
    source: Source
    identity: str
    schema_provider: SchemaProvider | None = None
    transformer: Transformer | None = None
    tombstones: TombstoneRules = attrs.field(factory=TombstoneRules)
    error_writer: ErrorWriter | None = None
    error_table: HoodieErrorTableConfig = attrs.field(factory=HoodieErrorTableConfig)
    initial: Callable[[], str] | None = None
    validators: Sequence[Validator | HoodiePreCommitValidator] = ()
    offsets: SparkKafkaOffsetValidator | None = None


class StreamSync:
    """Makes rounds, one after the other, for one table. Not thread safe.

    In continuous mode, the next batch is fetched and decoded while this one is written.

    Args:
        run: The parts of the run.
    """

    def __init__(self, run: StreamerRun) -> None:
        self.run: Final = run
        self._keys = CheckpointKeys(run.options.source_id)
        self._opened: AbstractContextManager[WritableTable] | None = None
        self._table: WritableTable | None = None
        self._batches: Final = BatchesAhead(
            run.source, run.engine, run.schema_provider, run.config.source_limit, run.options.prefetch_max_bytes
        )
        self._snapshot: TableSnapshot | None = None
        """The table as the round found it."""
        self._is_first = True
        self._waiting: Checkpoint | None = None
        """The position of a source without rows, while there is neither a table nor a schema to make one."""
        self._catalogs_due = 0.0
        """The time from which on a round without a commit tells the catalogs."""
        self._steps: dict[str, float] = {}

    def sync_once(self) -> SyncResult:
        """Make one round.

        Returns:
            The outcome.

        Raises:
            HoodieStreamerException: The table, the source, a schema or a transformer does not give what it should;
                nothing was committed.
            HoodieException: The write failed; nothing was committed.
        """
        self._steps = {}
        begun = time.perf_counter()
        try:
            result = self._sync()
        except StoppedWaiting:
            return SyncResult()
        except BaseException as error:
            self._abandon(error)
            raise
        self.run.engine.end_round()
        return attrs.evolve(result, seconds={**self._steps, "total": time.perf_counter() - begun})

    def stop_waiting(self) -> None:
        """Let a round that waits for a source end without one; a round that has its rows is not touched."""
        self._batches.stop_waiting()

    def make_way(self, max_compactions: int, max_clusterings: int) -> str | None:
        """Carry out pending services of the table, as far as this run may, until fewer than these are pending.

        Args:
            max_compactions: The number of pending compactions that no round begins with.
            max_clusterings: The same of clusterings.

        Returns:
            The reason why a round has to wait still; None if it may begin.

        Raises:
            HoodieIOException: Storage failed.
        """
        is_first, self._is_first = self._is_first, False
        compactions, clusterings = self._pending_services()
        config = self.run.write_config
        if compactions >= (1 if is_first else max_compactions) and config.compaction.run_async:
            self._open().client.compact()
            compactions, clusterings = self._pending_services()
        if clusterings >= (1 if is_first else max_clusterings) and config.clustering.run_async:
            self._open().client.cluster()
            compactions, clusterings = self._pending_services()
        if compactions >= max_compactions:
            return f"{compactions} compactions are pending, and --max-pending-compactions is {max_compactions}"
        if clusterings >= max_clusterings:
            return f"{clusterings} clusterings are pending, and --max-pending-clustering is {max_clusterings}"
        return None

    def _pending_services(self) -> tuple[int, int]:
        """The numbers of pending compactions and clusterings."""
        snapshot = find_writable_table(self.run.write_config)
        if snapshot is None:
            return 0, 0
        timeline = snapshot.active_timeline
        compactions = timeline.filter_actions(Action.COMPACTION).filter_pending()
        return len(compactions), len(pending_clusterings(timeline))

    def peek(self) -> tuple[ResumePoint, InputBatch]:
        """Find what the next round would read, and change nothing.

        Returns:
            The beginning of the round, and its batch.
        """
        run = self.run
        snapshot = find_writable_table(run.write_config)
        point = self._point_of(snapshot)
        return point, run.source.fetch(point.checkpoint, run.config.source_limit)

    def close(self) -> None:
        """Give back the client, the source and their threads; asynchronous services of the table are waited for."""
        self._batches.close()
        opened, self._opened, self._table = self._opened, None, None
        try:
            if opened is not None:
                opened.__exit__(None, None, None)
        finally:
            self._batches.close_source()
            if self.run.error_writer is not None:
                self.run.error_writer.close()
            self.run.engine.close()

    # --- one round ----------------------------------------------------------------------------------------------

    def _sync(self) -> SyncResult:
        run = self.run
        with self._step("resume"):
            snapshot = self._snapshot = find_writable_table(run.write_config)
            point = self._point_of(snapshot)
            if point.committed is None and point.checkpoint is None and self._waiting is not None:
                point = ResumePoint(self._waiting)
            self._retry_pending(snapshot)
        with self._step("fetch"):
            fetched = self._batches.fetch(point.checkpoint)
        batch = fetched.batch
        outcome = SyncResult(
            size_bytes=batch.size_bytes,
            position_before=None if point.checkpoint is None else point.checkpoint.position,
            position_after=None if batch.checkpoint is None else batch.checkpoint.position,
            backlog=batch.backlog,
            details=batch.details,
        )
        if not self._is_to_commit(point.checkpoint, batch):
            return self._tell_catalogs(snapshot, outcome)
        if fetched.begun is None:
            return self._commit_rows(snapshot, point, batch, None, outcome)
        # The schemas of this round, before the next batch asks for newer ones.
        plan = self._plan(outcome.position_before)
        if run.config.continuous and snapshot is not None:
            # A source whose rows tell no types takes those of the table, so the table has to be there.
            self._batches.begin_ahead(fetched)
        rows = run.engine.rows_of(fetched.begun, plan)
        try:
            return self._commit_rows(snapshot, point, batch, rows, outcome)
        finally:
            rows.close()

    def _point_of(self, snapshot: TableSnapshot | None) -> ResumePoint:
        """The beginning of a round. A source without positions leaves those of others in the table alone."""
        run = self.run
        if not run.source.has_positions:
            return ResumePoint(None)
        return point_to_resume_from(snapshot, run.config, self._keys, run.identity, run.initial)

    def _is_to_commit(self, before: Checkpoint | None, batch: InputBatch) -> bool:
        after = batch.checkpoint
        if after is None:
            if not self.run.config.allow_commit_on_no_checkpoint_change:
                raise HoodieConfigException(
                    f"{type(self.run.source).__name__} has no positions, so each run writes all of its rows: give "
                    "--allow-commit-on-no-checkpoint-change if that is what you want"
                )
            return True
        if before is None and not after.position and batch.is_empty:
            # The source has nothing yet that a position could be made of.
            return False
        if before is None or before.is_given or after.position != before.position:
            # A position that a user gave is stored, so that it acts once.
            return True
        is_told_more = not batch.is_empty and after.own != before.own
        return is_told_more or self.run.config.allow_commit_on_no_checkpoint_change

    def _commit_rows(
        self,
        snapshot: TableSnapshot | None,
        point: ResumePoint,
        batch: InputBatch,
        rows: StreamerRows | None,
        outcome: SyncResult,
    ) -> SyncResult:
        run = self.run
        table = self._open()
        operation = run.write_config.write.operation.value.lower()
        schema = self._schema_of(snapshot, rows)
        if schema is None:
            self._refuse_lost_beginning(outcome)
            self._waiting = batch.checkpoint
            logger.warning(
                "the source has no rows yet, and no schema is given, so %s cannot be made yet; the position %r is kept "
                "in memory only", run.write_config.base_path, outcome.position_after,
            )  # fmt: skip
            return outcome
        if snapshot is None:
            is_untold = not set(key_fields_of_table(None, run.write_config)) <= set(schema.names)
            if is_untold and rows is not None and not rows.has_rows():
                # Columns that nobody told are not known without a row; the errors of the messages tell more.
                return self._without_a_row(rows, outcome)
            if operation in DELETES:
                raise TableNotFoundException(f"there is no table at {run.write_config.base_path} to delete from")
            check_new_table(schema, run.write_config)
            table.create(schema if rows is None else None)
        else:
            table.client.go_on_from(snapshot)
        if run.source.has_positions:
            table.client.check_before_completion(
                lambda now, instant_time: refuse_moved_position(now, self._keys, point, instant_time)
            )
        extra = {}
        if batch.checkpoint is not None and not run.options.checkpoint_force_skip:
            extra = self._keys.metadata(batch.checkpoint, run.config, run.identity)
        errors = 0

        def complete(result: HoodieWriteResult) -> None:
            nonlocal errors
            self._steps["write"] = time.perf_counter() - begun
            with self._step("errors"):
                errors = self._keep_errors(None if rows is None else rows.errors(), result, outcome.position_before)
            if run.offsets is not None:
                run.offsets.begin(outcome.position_before, outcome.position_after)
                run.offsets.count_errors(errors)
            with self._step("commit"):
                table.client.commit(
                    result.instant_time, result, extra_metadata=extra, allow_errors=run.config.commit_on_errors
                )

        begun = time.perf_counter()
        # An overwrite without rows would empty the table.
        if rows is None or (operation in _OVERWRITES and not rows.has_rows()):
            result = table.write("upsert", run.engine.no_rows(schema), complete=complete)
        else:
            result = table.write(operation, rows.data, complete=complete)
        self._waiting = None
        self._catalogs_due = 0.0 if result.service_errors else math.inf
        if batch.checkpoint is not None:
            self._batches.tell_source(batch.checkpoint)
        count = None if rows is None else rows.row_count
        return attrs.evolve(
            outcome,
            instant_time=result.instant_time if result.is_committed else None,
            rows=_written(result) if count is None else count,
            error_count=errors,
            service_errors=result.service_errors,
        )

    def _tell_catalogs(self, snapshot: TableSnapshot | None, outcome: SyncResult) -> SyncResult:
        """A round without a commit. It syncs catalogs too, if that is asked for, and they were not told since then."""
        if not self.run.config.force_empty_sync or snapshot is None or time.monotonic() < self._catalogs_due:
            return outcome
        with self._step("sync"):
            failures = self._open().client.sync_catalogs()
        self._catalogs_due = time.monotonic() + _NEXT_SYNC_SECONDS if failures else math.inf
        return attrs.evolve(outcome, service_errors=failures)

    def _without_a_row(self, rows: StreamerRows, outcome: SyncResult) -> SyncResult:
        """A round that would make the table, and has no good row: its errors are kept, and nothing is committed."""
        found = rows.errors()
        count = found.count
        if self.run.error_writer is not None and count:
            count = self.run.error_writer.write(found, "")
        logger.warning(
            "no row of %s messages or lines could be decoded, so the table %s is not made yet; the next round reads "
            "them again", count, self.run.write_config.base_path,
        )  # fmt: skip
        return attrs.evolve(outcome, error_count=count, position_after=outcome.position_before)

    def _refuse_lost_beginning(self, outcome: SyncResult) -> None:
        """Refuse a single round whose position cannot be kept, where the next one would begin at the topic's end."""
        run = self.run
        begins_at_end = run.properties.get("auto.offset.reset", "latest").strip().lower() != "earliest"
        if run.config.continuous or not run.identity.startswith("topic ") or not begins_at_end:
            return
        raise HoodieStreamerException(
            f"{run.identity} has no new rows, and no schema is given, so the table {run.write_config.base_path} cannot "
            f"be made, and the position {outcome.position_after!r} cannot be kept: rows that come before the next run "
            "would be passed over. Give --schema FILE, or --hoodie-conf auto.offset.reset=earliest, or --continuous"
        )

    def _plan(self, round_name: str | None = None) -> RowPlan:
        run = self.run
        target = None
        if run.schema_provider is not None:
            text = run.schema_provider.load_target_schema()
            if text is not None:
                is_own = run.transformer is None and text == run.schema_provider.load_source_schema()
                target = run.source.target_columns(resolved_columns(remove_meta_columns(text)), is_own)
        errors = None if run.error_writer is None else run.error_table
        check = check_of_table(self._stored, run.write_config, errors, round_name or "", run.tombstones.filled_columns)
        return RowPlan(
            check, run.properties, run.transformer, target, run.tombstones, run.options.makes_columns_nullable
        )

    @property
    def _stored(self) -> HoodieTableConfig | None:
        """The properties of the table as the round found it; None if there was none."""
        return None if self._snapshot is None else self._snapshot.table_config

    def _schema_of(self, snapshot: TableSnapshot | None, rows: StreamerRows | None) -> pa.Schema | None:
        """The columns of a round; without rows those of the table, or of the schema provider."""
        if rows is not None:
            return rows.schema
        stored = None if snapshot is None else snapshot.load_avro_schema()
        if stored is not None:
            return to_arrow(stored)
        return None if self.run.schema_provider is None else self._plan().target

    def _keep_errors(self, errors: ErrorSpool | None, result: HoodieWriteResult, begun_at: str | None) -> int:
        """Write the errors of a round before its commit, and refuse rows that failed unless the user takes that."""
        run = self.run
        failed = error_batch(
            [
                ErrorEvent(
                    ErrorReason.HUDI_WRITE_FAILURES,
                    error.reason,
                    key=f"{begun_at or ''}/{error.partition_path}/{error.record_key}",
                )
                for error in result.errors
            ]
        )
        if not run.config.commit_on_errors:
            refuse_errors(result, "; --commit-on-errors commits the others")
        errors = ErrorSpool() if errors is None else errors
        if failed is not None:
            errors.add(failed)
        if not errors.count or run.error_writer is None:
            return errors.count
        try:
            return run.error_writer.write(errors, result.instant_time)
        except HoodieException:
            if run.error_table.failure_strategy is ErrorWriteFailureStrategy.ROLLBACK_COMMIT:
                raise
            logger.exception("the errors of %s could not be kept", result.instant_time)
            return errors.count

    def _retry_pending(self, snapshot: TableSnapshot | None) -> None:
        """Carry out what another run has planned and left, where the flags ask for it."""
        if snapshot is None:
            return
        if self.run.config.retry_pending_compaction:
            self._open().client.compact()
        if self.run.config.retry_pending_clustering:
            self._open().client.cluster()

    # --- the table ----------------------------------------------------------------------------------------------

    def _open(self) -> WritableTable:
        """The table with its client, which serve all rounds until one fails."""
        if self._table is None:
            run = self.run
            validators = [*run.validators, *([] if run.offsets is None else [run.offsets])]
            opened = open_or_create(run.write_config, lambda config: run.engine.open_client(config, validators))
            self._table = opened.__enter__()
            self._opened = opened
        return self._table

    def _abandon(self, error: BaseException) -> None:
        """Close the client after a failed round, so that what it began is rolled back."""
        self._batches.drop()
        opened, self._opened, self._table = self._opened, None, None
        if opened is not None:
            try:
                opened.__exit__(type(error), error, error.__traceback__)
            except BaseException as second:
                if second is not error:
                    error.add_note(f"closing the table failed too: {second}")

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._steps[name] = self._steps.get(name, 0.0) + time.perf_counter() - begun


def _written(result: HoodieWriteResult) -> int:
    return result.written_count + result.deleted_count
