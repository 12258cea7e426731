"""The part that all clients share: table services, rollback, savepoints, restore, and the client's own resources.

Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import ClassVar, Self

import attrs

from hoodie.avro.service_metadata import HoodieCleanMetadata, HoodieIndexCommitMetadata
from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.client.call_arguments import check_text, check_time
from hoodie.client.clustering_service import ClusteringService
from hoodie.client.compaction_service import CompactionService
from hoodie.client.index_service import IndexService
from hoodie.client.metrics_publisher import MetricsPublisher
from hoodie.client.savepoint_service import SavepointService
from hoodie.client.shown_client import client_html
from hoodie.client.table_services import TableServices
from hoodie.client.table_version import upgrade_if_due
from hoodie.client.write_result import CommitState, HoodieWriteResult
from hoodie.common.config.property import display_value
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.util.shown_value import shown_value
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig, check_config
from hoodie.config.write_options import FailedWritesPolicy, ProgressMode
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.metrics.metrics import HoodieMetrics, Operation
from hoodie.metrics.progress import ProgressCallback, ProgressListener, SafeCallback
from hoodie.metrics.progress_bar import progress_bar
from hoodie.sync.sync_after_calls import CatalogSync, at_the_end
from hoodie.table.action.cluster.clustering_explanation import ClusteringExplanation
from hoodie.table.action.index.schedule_index_action_executor import index_partitions
from hoodie.table.action.listeners import CompletionListeners
from hoodie.table.action.rollback.rollback_service import RollbackService
from hoodie.table.action.savepoint.savepoint_action_executor import HoodieSavepoint
from hoodie.table.open_table import load_table
from hoodie.table.repair.damaged_log_file import SalvagedLogFile, salvage_log_file
from hoodie.table.table_session import TableSession

logger = logging.getLogger(__name__)


class BaseHoodieTableServiceClient:
    """Cleans, archives, compacts, indexes, rolls back, savepoints and restores one table; a context manager.

    Leaving the ``with`` block by an error rolls back the instants that this client started and did not complete. The
    end of the block closes the client: every call on a closed client raises `HoodieException`. Its properties stay
    readable.

    Args:
        context: The engine.
        config: The writer's configuration.
        on_progress: See `BaseHoodieWriteClient`.

    Raises:
        HoodieConfigException: An argument has the wrong type.

    Hudi: org.apache.hudi.client.BaseHoodieTableServiceClient. Differs: the write client extends this class; Hudi's
    holds an instance.
    """

    supported_indexes: ClassVar[frozenset[str]] = frozenset(map(str, IndexType))

    def __init__(
        self, context: HoodieEngineContext, config: HoodieWriteConfig, on_progress: ProgressCallback | None = None
    ) -> None:
        check_config(config, type(self).__name__)
        if not isinstance(context, HoodieEngineContext):
            raise HoodieConfigException(
                f"the context of {type(self).__name__} is {shown_value(context)}: give an engine context, or leave it "
                "out"
            )
        self._publisher = MetricsPublisher(
            config, lambda: self._metrics.steps, lambda: load_table(config).table_config.table_name
        )
        listeners = _listeners(context, config, on_progress)
        if self._publisher.is_on:
            listeners.append(self._publisher)
        self._metrics = HoodieMetrics(
            context.job,
            listeners,
            context.check_running,
            display_value("hoodie.base.path", config.base_path).strip("'"),
        )
        self._service_listeners = CompletionListeners(self._metrics, (self._publisher,))
        self._catalogs = CatalogSync(config, self._metrics, context)
        self._told_states: list[CommitState] = []
        self._calls = 0
        self._measured_instant: str | None = None
        index_type = str(config.index.index_type)
        if config.index.index_class is None and index_type not in self.supported_indexes:
            raise HoodieConfigException(
                f"hoodie.index.type={index_type} is not for {type(self).__name__}: use one of "
                + ", ".join(sorted(self.supported_indexes))
            )
        self._session = TableSession.open(config, context, self._metrics)
        self._transactions, self._heartbeats = self._session.transactions, self._session.heartbeats
        self._is_closed = False
        self._open_instants: dict[str, Action] = {}
        self._failed_instants: set[str] = set()
        self._rollbacks = RollbackService(self._session)
        self._savepoints = SavepointService(self._session, self._rollbacks)
        self._compactions = CompactionService(self._session, self._rollbacks)
        self._indexes = IndexService(self._session)
        self._clusterings = ClusteringService(self._session, self._rollbacks)
        self._services = TableServices(self._session, self._rollbacks, self._compactions, self._clusterings)

    def __repr__(self) -> str:
        path = display_value("hoodie.base.path", self._session.config.base_path)
        pending = f", {', '.join(self._open_instants)} not completed" if self._open_instants else ""
        closed = ", closed" if self._is_closed else ""
        return f"<{type(self).__name__} of {path}, index {self._session.config.index.index_name}{pending}{closed}>"

    def _repr_html_(self) -> str:
        state = [f"{instant_time} is not completed" for instant_time in self._open_instants]
        return client_html(type(self).__name__, self._session.config, [*state, "closed"] if self._is_closed else state)

    def __enter__(self) -> Self:
        self._check_open("with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                if not isinstance(error, Exception):
                    # Ctrl-C: services in the client's thread must not wait for a lock either.
                    self._transactions.call_off()
                for instant_time in list(self._open_instants):
                    self._try_rollback(instant_time, error)
        finally:
            self.close()

    def close(self) -> None:
        """Release what the client holds, and wait for table services that run in a thread; a second call does nothing.

        Instants that were started by hand and not completed stay pending; a warning names them. Every later call on
        the client raises `HoodieException`. If the wait is interrupted, a second call continues it.
        """
        self._is_closed = True
        with ExitStack() as stack:
            stack.callback(self._publisher.close)
            stack.callback(self._heartbeats.close)
            try:
                self._services.wait()
            except BaseException:
                # Ctrl-C: the client releases what it holds for its instants. A running service keeps the lock until it
                # ends.
                self._transactions.call_off()
                for instant_time in self._open_instants:
                    self._transactions.drop(instant_time, has_ended=False)
                raise
            stack.callback(self._transactions.close)
            self._warn_of_pending_instants()

    def _warn_of_pending_instants(self) -> None:
        """Log a warning for this client's instants that are still pending; other writers may have rolled some back."""
        mine, self._open_instants = self._open_instants, {}
        if not mine:
            return
        where, who = self._session.config.base_path, _who_rolls_back(self._session.config)
        try:
            timeline = self._session.now().active_timeline
        except Exception as error:
            logger.warning(
                "a client of %s is closed, and whether %s is still pending could not be found out (%s). If it is, "
                "readers do not see its rows, and %s",
                where, ", ".join(mine), error, who,
            )  # fmt: skip
            return
        found = [timeline.find(instant_time, action) for instant_time, action in mine.items()]
        pending = [instant for instant in found if instant is not None and instant.is_pending]
        unwritten = [instant.requested_time for instant in pending if instant.state is State.REQUESTED]
        written = [instant.requested_time for instant in pending if instant.state is State.INFLIGHT]
        failed = [time for time in written if self._session.config.write.auto_commit or time in self._failed_instants]
        uncommitted = [time for time in written if time not in failed]
        commit = "With hoodie.auto.commit = false call client.commit(instant_time, result) before the client is closed"
        for times, what in (
            (unwritten, f"was started and never written: it holds no rows; {who}"),
            (failed, f"failed and is not rolled back: readers do not see its rows; {who}"),
            (uncommitted, f"was never committed: readers do not see its rows; {who}. {commit}"),
        ):
            if times:
                logger.warning("a client of %s is closed, and %s %s", where, ", ".join(times), what)

    @property
    def config(self) -> HoodieWriteConfig:
        """The writer's configuration."""
        return self._session.config

    @property
    def metrics(self) -> HoodieMetrics:
        """The steps of the newest instant that this client worked on, including its start and its commit."""
        return self._metrics

    @property
    def engine_context(self) -> HoodieEngineContext:
        """The engine."""
        return self._session.context

    # --- table services -----------------------------------------------------------------------------------------

    def post_commit(self, instant_time: str) -> list[str]:
        """Run the automatic table services after a commit.

        Their errors do not fail the write, which is completed: they are logged, and the next run continues the work.

        Args:
            instant_time: The instant that was completed.

        Returns:
            The errors, one line for each service.
        """
        self._check_open("post_commit")
        return self._services.run_after_commit()

    def clean(self) -> HoodieCleanMetadata | None:
        """Delete file versions that are no longer needed, by the policy in ``hoodie.cleaner.policy``.

        Pending cleans of all writers are finished first. Unless ``hoodie.clean.automatic=false``, a clean runs after
        each commit.

        Returns:
            What was deleted; None if there was nothing to delete.

        Raises:
            HoodieCorruptedDataException: A plan, or an instant that refers to files, is damaged; the message names it.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("clean") as call, self._alone():
            metadata = self._services.clean()
            call.summary = f"clean: {0 if metadata is None else metadata.total_files_deleted} files deleted"
        return metadata

    def archive(self) -> int:
        """Move old instants from the active timeline to the archive, once there are more than
        ``hoodie.keep.max.commits``.

        Unless ``hoodie.archive.automatic=false``, this runs after each commit, after cleaning.

        Returns:
            The number of instants that were moved.

        Raises:
            HoodieCorruptedDataException: The oldest instant that is due is damaged, or a file that decides about it.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("archive") as call, self._alone():
            count = self._services.archive()
            call.summary = f"archive: {count} instants archived"
        return count

    def salvage_log_file(self, path: str, dry_run: bool = True) -> SalvagedLogFile:
        """Save what is whole of a damaged log file; first, by default, tell what can be saved.

        The damaged file is kept in ``.hoodie/.damaged``. In the file the lost bytes become a block that holds nothing,
        so that its size stays the one that its commits tell. The rows and deletes of these bytes are lost: older rows
        are seen again. Write them anew.

        Args:
            path: The file, as the error names it, or relative to the table's folder.
            dry_run: Change nothing, and report what would be saved.

        Returns:
            The parts of the file, and what becomes of them; a file that is not damaged stays as it is.

        Raises:
            HoodieConfigException: It is not the path of a log file of the table.
            HoodieMissingFileException: There is no such file.
            HoodieNotSupportedException: It is a file of the metadata table; or the lost bytes are too few for a block.
            HoodieCorruptedDataException: The metadata of a commit, or the archive, is damaged.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("salvage_log_file") as call:
            result = salvage_log_file(self._session.config, path, dry_run=dry_run)
            call.summary = result.headline
        return result

    def schedule_compaction(self) -> str | None:
        """Plan a compaction of a merge-on-read table, without carrying it out.

        ``hoodie.compaction.strategy`` chooses the file groups. From the plan on, writers append to what the compaction
        is going to make. Carry it out soon with `compact`, here or in another process.

        Returns:
            The compaction's instant time. None if there is nothing to compact; or, in a table of version 6, while a
            write is pending: a warning names it then.

        Raises:
            HoodieCompactionException: Others wrote to the table each time that it was planned.
            HoodieConfigException: The strategy is not known, or lacks a property.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("schedule_compaction") as call, self._alone():
            instant_time = self._services.schedule_compaction()
            call.summary = "nothing to compact" if instant_time is None else f"compaction {instant_time} planned"
        return instant_time

    def compact(self, instant_time: str | None = None) -> HoodieWriteResult | None:
        """Make base files of the log files of a merge-on-read table.

        Rows keep their commit time and sequence number, and queries give the same rows before and after. A compaction
        that failed, also one of Hudi's, is run again under its instant.

        Args:
            instant_time: A compaction that was scheduled. None carries out all pending ones, and if none is pending,
                plans one and carries it out.

        Returns:
            What the compaction wrote, the newest one of several. None if there is nothing to compact, or the compaction
            is completed already.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieCompactionException: There is no such compaction, or a process that is alive is carrying it out.
            HoodieWriteConflictException: Another writer, which ignored the plan, changed what was merged; call again.
            HoodieCommitException: A restore is pending, or the compaction is being rolled back.
            HoodieIOException: Storage failed; call again.
        """
        if instant_time is not None:
            check_time(instant_time)
        with self._call("compact") as call, self._alone():
            result = self._services.compact(instant_time)
            call.summary = "nothing to compact" if result is None else result.summary
            self._tell(result, Action.COMPACTION)
        return result

    def schedule_log_compaction(self) -> str | None:
        """Plan a log compaction of a merge-on-read table, without carrying it out.

        It takes file groups with at least ``hoodie.log.compaction.blocks.threshold`` blocks in log files.

        Returns:
            The log compaction's instant time. None if there is nothing to compact; or while a write is pending: a
            warning names it then.

        Raises:
            HoodieNotSupportedException: The table's rows are not merged as a whole, so log files need their base files.
            HoodieCompactionException: Others wrote to the table each time that it was planned.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.

        Hudi: org.apache.hudi.client.SparkRDDWriteClient (scheduleLogCompaction).
        """
        with self._call("schedule_log_compaction") as call, self._alone():
            instant_time = self._services.schedule_log_compaction()
            call.summary = "nothing to compact" if instant_time is None else f"log compaction {instant_time} planned"
        return instant_time

    def log_compact(self, instant_time: str | None = None) -> HoodieWriteResult | None:
        """Make one log file of the log files of a file group of a merge-on-read table.

        Base files stay as they are, so it is cheaper than a compaction; the log files before it stay until their file
        slice is cleaned. Rows keep their commit time and sequence number, and queries give the same rows before and
        after. A log compaction that failed, also one of Hudi's, is run again under its instant.

        Args:
            instant_time: A log compaction that was scheduled. None carries out all pending ones, and if none is
                pending, plans one and carries it out.

        Returns:
            What the log compaction wrote, the newest one of several. None if there is nothing to compact, or the log
            compaction is completed already.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieNotSupportedException: See `schedule_log_compaction`.
            HoodieCompactionException: There is no such log compaction, a process that is alive is carrying it out, or a
                write is pending.
            HoodieWriteConflictException: Others changed what was merged; call again.
            HoodieCommitException: A restore is pending, or the log compaction is being rolled back.
            HoodieIOException: Storage failed; call again.

        Hudi: org.apache.hudi.client.SparkRDDWriteClient (logCompact).
        """
        if instant_time is not None:
            check_time(instant_time)
        with self._call("log_compact") as call, self._alone():
            result = self._services.log_compact(instant_time)
            call.summary = "nothing to compact" if result is None else result.summary
            self._tell(result, Action.LOG_COMPACTION)
        return result

    def schedule_clustering(self) -> str | None:
        """Plan a clustering, without carrying it out.

        The options ``hoodie.clustering.plan.*`` choose the file groups. Writers may go on: what they change is left out
        when the plan is carried out, with `cluster`, here or in another process.

        Returns:
            The clustering's instant time. None if there is nothing to rewrite.

        Raises:
            HoodieClusteringException: Others planned services for the same file groups each time that it was planned.
            HoodieConfigException: The strategy is not known, or rows cannot be ordered by the sort columns.
            HoodieNotSupportedException: The table has a bucket index.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("schedule_clustering") as call, self._alone():
            instant_time = self._services.schedule_clustering()
            call.summary = "nothing to cluster" if instant_time is None else f"clustering {instant_time} planned"
        return instant_time

    def cluster(self, instant_time: str | None = None) -> HoodieWriteResult | None:
        """Rewrite file groups: small files become large ones, and rows are ordered by the sort columns of the plan.

        Rows keep their commit time and sequence number, and queries give the same rows before and after. A clustering
        that failed, also one of Hudi's, is run again under its instant.

        Args:
            instant_time: A clustering that was scheduled. None carries out all pending ones, and if none is pending,
                plans one and carries it out.

        Returns:
            What the clustering wrote, the newest one of several. None if there is nothing to rewrite, or the clustering
            is completed already, or writers changed everything that it was to rewrite.

        Raises:
            HoodieConfigException: The instant time is not text, or see `schedule_clustering`.
            HoodieClusteringException: There is no such clustering, hoodie cannot carry it out, or a process that is
                alive is carrying it out.
            HoodieNotSupportedException: The table has a bucket index.
            HoodieCommitException: A restore is pending, or the clustering is being rolled back.
            HoodieIOException: Storage failed; call again.
        """
        if instant_time is not None:
            check_time(instant_time)
        with self._call("cluster") as call, self._alone():
            result = self._services.cluster(instant_time)
            call.summary = "nothing to cluster" if result is None else result.summary
            self._tell(result, Action.CLUSTERING)
        return result

    def pending_clusterings(self) -> list[str]:
        """The instant times of clusterings that were planned and are not completed, the oldest first.

        Raises:
            HoodieNotSupportedException: The table has a bucket index.
            HoodieIOException: Storage failed; call again.
        """
        self._check_open("pending_clusterings")
        return self._clusterings.pending()

    def explain_clustering(self) -> ClusteringExplanation:
        """Tell what a clustering would do that is planned now: nothing is written.

        Returns:
            The groups of files that would be rewritten, their sizes, the numbers of files before and after, and for
            each sort column the number of files that cover a value: as it is, and estimated for afterwards.

        Raises:
            HoodieConfigException: The strategy is not known, or an option is wrong.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("explain_clustering") as call:
            explanation = self._clusterings.explain()
            call.summary = explanation.summary
        return explanation

    def _tell(self, result: HoodieWriteResult | None, action: Action) -> None:
        """Tell the listeners of a service that a caller asked for.

        Args:
            result: Its result; None if it did nothing.
            action: Its action as long as it was pending.
        """
        if result is not None:
            self._note_completed(result.commit_state)
        if result is not None and self._service_listeners.is_on:
            name, time = self._session.now().table_config.table_name, result.instant_time
            self._service_listeners.completed(
                HoodieWriteCommitCallbackMessage(
                    time, name, self._session.config.base_path, str(action), result.commit_metadata
                )
            )

    def _upgraded(self, snapshot: TableSnapshot) -> TableSnapshot:
        """The table, of the version that the configuration asks for if that upgrades tables."""

        @contextmanager
        def compactions_of(config: HoodieWriteConfig) -> Iterator[CompactionService]:
            self._services.wait()
            yield CompactionService(attrs.evolve(self._session, config=config), self._rollbacks)

        return upgrade_if_due(self._session.config, snapshot, compactions_of)

    def compact_by_default(self) -> None:
        """Carry out compactions that are due after each commit, unless an option says how they are carried out.

        `write_table` and `hoodie.spark.write` call this; otherwise a client follows ``hoodie.compact.inline``.
        """
        self._check_open("compact_by_default")
        self._services.compacts_by_default = True

    # --- rolling back -------------------------------------------------------------------------------------------

    def create_index(self, name: str, column: str) -> bool:
        """Build a secondary index: the record keys of every value of a column, in the metadata table.

        Every action keeps it up to date. It needs a record index, which is built as well if the table has none. Tables
        of versions 8 and 9 have secondary indexes.

        Args:
            name: A name of letters, digits and underscores.
            column: A column of strings, integers or booleans on the table's top level.

        Returns:
            False if the table has that index already.

        Raises:
            HoodieConfigException: The name is not valid, or ``hoodie.metadata.enable=false`` is given.
            HoodieIndexException: The table has no such column, or an index of that name on another one; or an instant
                is pending.
            HoodieAmbiguousKeyException: A key is in several file groups, so that there can be no record index.
            HoodieKeyException: A key, or a value with its key, is too long for an index. Nothing is left of the index.
            HoodieNotSupportedException: The version of the table, or the type of the column; or the record index is one
                by partitions, with which a key may be in several.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("create_index") as call, self._alone():
            is_new = self._indexes.create(name, column)
            call.summary = f"index {name} on {column} " + ("created" if is_new else "was there already")
        return is_new

    def drop_index(self, name: str) -> bool:
        """Delete a secondary index; the record index stays.

        Args:
            name: See `create_index`.

        Returns:
            False if the table has no such index.

        Raises:
            HoodieConfigException: The name is not valid.
            HoodieIndexException: An indexing that is to build it is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("drop_index") as call, self._alone():
            is_gone = self._indexes.drop(name)
            call.summary = f"index {name} dropped" if is_gone else f"there is no index {name}"
        return is_gone

    def schedule_indexing(
        self, partition_types: Sequence[str] = (), *, secondary_indexes: Mapping[str, str] | None = None
    ) -> str:
        """Plan to build partitions of the metadata table beside writers; `index` builds them, here or elsewhere.

            client.index(client.schedule_indexing(["record_index", "column_stats"]))
            client.index(client.schedule_indexing(secondary_indexes={"idx_rider": "rider"}))

        Until they are built nobody uses them, and the next writes do not build them either.

        Args:
            partition_types: Some of ``column_stats``, ``partition_stats`` (versions 8 and 9), ``bloom_filters`` and
                ``record_index``. The options of the client say the rest, such as which columns have ranges. Also
                secondary indexes that are defined already, as ``secondary_index_idx_rider``.
            secondary_indexes: The columns of new secondary indexes by their names; see `create_index`. They need a
                ``record_index``, which the table has, or which is built together with them.

        Returns:
            The indexing's instant time.

        Raises:
            HoodieConfigException: There is no such kind, or an option of the client drops it.
            HoodieIndexException: One is built, or being built; or the table has no metadata table, or lacks what one
                needs: a record index, or the column.
            HoodieNotSupportedException: Tables of that version, or without record keys, cannot have it; or a secondary
                index cannot be built, see `create_index`.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        partitions = index_partitions(partition_types, secondary_indexes)
        with self._call("schedule_indexing") as call, self._alone():
            instant_time = self._indexes.schedule(partitions)
            call.summary = f"indexing {instant_time} of {', '.join(partitions)} planned"
        return instant_time

    def index(self, instant_time: str) -> HoodieIndexCommitMetadata | None:
        """Build the partitions of an indexing that was scheduled, while others write to the table.

        The lock is held at the beginning, to list the table, and at the end, to add what was written meanwhile. An
        indexing that failed is begun anew by another call. `rollback` takes it back.

        Args:
            instant_time: The time that `schedule_indexing` returned; or an indexing that Hudi scheduled.

        Returns:
            What was built. None if it was completed already.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieIndexException: There is no such indexing, a process that is alive is carrying one out, or the table
                has lost its metadata table, or what a secondary index needs: its definition, and a record index.
            HoodieAmbiguousKeyException: A key is in several file groups, so that there can be no record index. The plan
                stays: delete rows and call again, or take it back.
            HoodieNotSupportedException: The plan, one of Hudi, names a partition or column that hoodie does not index.
            HoodieMissingFileException: Each time files that were read were cleaned meanwhile; call again.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        check_time(instant_time)
        # Other processes write meanwhile.
        with self._call("index") as call:
            done = self._indexes.index(instant_time)
            names = [] if done is None else [info.metadata_partition_path for info in done.index_partition_infos]
            call.summary = f"{', '.join(names)} built" if names else "the indexing was completed already"
        return done

    def rollback(self, instant_time: str) -> bool:
        """Undo an instant: a pending one, a pending indexing included, or the newest completed commit.

        Args:
            instant_time: The instant.

        Returns:
            True if it was rolled back. False, with a warning, if the active timeline has no such instant.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieRollbackException: The instant is completed and cannot be undone: there are later commits, a savepoint
                holds it, or the previous versions of its files were cleaned.
        """
        check_time(instant_time)
        with self._call("rollback") as call, self._alone():
            self._services.wait()
            snapshot = self._session.now()
            done = self._indexes.take_back(snapshot, instant_time) or self._rollbacks.rollback(snapshot, instant_time)
            if done:
                self._note_completed()
            call.summary = f"rollback of {instant_time}" if done else f"nothing to roll back: no instant {instant_time}"
        self._forget(instant_time)
        if done:
            self._session.index.rollback_commit(instant_time)
        else:
            logger.warning(
                "nothing was rolled back: %s has no write %r in its active timeline; history() of its meta client "
                "lists the instants that it has. Archived instants cannot be rolled back",
                self._session.config.base_path, instant_time,
            )  # fmt: skip
        return done

    def rollback_failed_writes(self) -> list[str]:
        """Roll back failed writes, by the policy in ``hoodie.cleaner.policy.failed.writes``.

        EAGER: every pending write; no other writer may be active. LAZY: the writes whose heartbeat has expired. NEVER:
        none.

        Returns:
            The instant times that were rolled back.
        """
        with (
            self._call("rollback_failed_writes"),
            self._alone(),
            self._metrics.step("roll back failed writes"),
        ):
            rolled_back = self._rollbacks.rollback_failed_writes(self._session.now())
            if rolled_back:
                self._note_completed()
        for instant_time in rolled_back:
            self._forget(instant_time)
            self._session.index.rollback_commit(instant_time)
        return rolled_back

    # --- savepoints and restore ---------------------------------------------------------------------------------

    def savepoint(self, instant_time: str | None = None, user: str = "", comment: str = "") -> HoodieSavepoint:
        """Keep the files of a commit from being cleaned, so that the table can be restored to it.

        Args:
            instant_time: A completed commit of the active timeline; None takes the newest one.
            user: The name of the person who asks for it; stored with the savepoint.
            comment: The reason; stored with the savepoint.

        Raises:
            HoodieConfigException: The instant time, the user or the comment is not text.
            HoodieSavepointException: There is no such commit, it already has a savepoint, its files were cleaned or are
                being cleaned, or it is being archived.
        """
        if instant_time is not None:
            check_time(instant_time)
        check_text("user", user)
        check_text("comment", comment)
        with self._call("savepoint") as call, self._alone():
            self._services.wait()
            made = self._savepoints.savepoint(instant_time, user, comment)
            call.summary = f"savepoint {made.instant_time}"
        return made

    def delete_savepoint(self, instant_time: str) -> bool:
        """Delete a savepoint: from then on its files are cleaned like all others.

        Returns:
            False if there is no savepoint of that time.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieSavepointException: The savepoint's commit must be archived with it, and the files that it replaced
                still exist.
        """
        check_time(instant_time)
        with self._call("delete_savepoint"), self._alone():
            self._services.wait()
            return self._savepoints.delete_savepoint(instant_time)

    def restore_to_savepoint(self, instant_time: str) -> tuple[str, ...]:
        """Restore the table to a commit with a savepoint; everything else is as in `restore_to_instant`."""
        return self._restore(instant_time, self._savepoints.restore_to_savepoint)

    def restore_to_instant(self, instant_time: str) -> tuple[str, ...]:
        """Restore the table to a commit: everything that is newer is undone and deleted, the newest first.

        From the plan to the end no writer can start or complete a write. Meanwhile readers see the table as it was at
        one instant after the other, as far as the versions between were not cleaned. A second call finishes a restore
        that died.

        Args:
            instant_time: A completed commit of the active timeline; it will be the newest one.

        Returns:
            The instant times that were undone, the newest first.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieRestoreException: Files of that commit were cleaned or are being cleaned, it is archived or being
                archived, a savepoint is newer, a write or a clean began at the same moment, or a restore to another
                instant is not finished.
            HoodieHeartbeatException: Another writer is active.
        """
        return self._restore(instant_time, self._savepoints.restore_to_instant)

    def _restore(self, instant_time: str, restore: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        check_time(instant_time)
        with self._call("restore") as call, self._alone():
            self._services.wait()
            undone = restore(instant_time)
            self._note_completed()
            call.summary = f"restore to {instant_time}"
        for undone_time in undone:
            self._forget(undone_time)
            self._session.index.rollback_commit(undone_time)
        return undone

    def _try_rollback(self, instant_time: str, error: BaseException | None = None) -> None:
        """Roll back a pending instant after an error; an error of the rollback itself does not replace the first one.

        The rollback does not wait for the lock if the user interrupted the call, or if the call just failed to get it.
        """
        self._failed_instants.add(instant_time)
        is_interrupted = error is not None and not isinstance(error, Exception)
        had_no_lock = self._transactions.gave_up
        if is_interrupted and had_no_lock:
            self._leave(instant_time, "it was interrupted while it waited for the lock", error)
            return
        try:
            snapshot = self._session.now()
            self._rollbacks.give_up(snapshot, instant_time, is_patient=not (is_interrupted or had_no_lock))
            self._forget(instant_time)
            self._session.index.rollback_commit(instant_time)
        except BaseException as second:
            self._leave(instant_time, str(second) or type(second).__name__, error)
            if not isinstance(second, Exception):
                raise

    def _leave(self, instant_time: str, reason: str, error: BaseException | None) -> None:
        """Leave the rollback of an instant to a later call or another writer."""
        text = f"instant {instant_time} could not be rolled back ({reason}); {_who_rolls_back(self._session.config)}"
        logger.warning("%s", text)
        self._heartbeats.abandon(instant_time)
        self._transactions.drop(instant_time, has_ended=False)
        if error is not None:
            error.add_note(text)

    def _forget(self, instant_time: str) -> None:
        """Drop what the client holds for an instant that has ended."""
        self._open_instants.pop(instant_time, None)
        self._failed_instants.discard(instant_time)
        self._transactions.drop(instant_time)

    def _forget_ended(self, timeline: HoodieActiveTimeline) -> None:
        """Forget this client's instants that others have completed or rolled back: they must not keep the lock.

        Args:
            timeline: The timeline, listed after the newest of these instants was created.
        """
        for instant_time, action in list(self._open_instants.items()):
            found = timeline.find(instant_time, action)
            if found is None or not found.is_pending:
                self._forget(instant_time)

    def _look_for_ended(self) -> None:
        """Call `_forget_ended` after an error; an error of this call is only logged."""
        try:
            self._forget_ended(self._session.now().active_timeline)
        except Exception as error:
            logger.debug(
                "whether instants of %s have ended could not be found out: %s", self._session.config.base_path, error
            )

    @contextmanager
    def _call(self, name: str) -> Iterator[Operation]:
        """Measure one call on the client, which must be open; see `HoodieMetrics.operation`.

        Catalogs are told at the end of the outermost call, when its locks are released.
        """
        self._check_open(name)
        with self._metrics.operation(name) as call:
            self._calls += 1
            try:
                yield call
            finally:
                self._calls -= 1
            if self._calls == 0 and self._catalogs.is_on:
                at_the_end(self._tell_catalogs)

    def sync_catalogs(self) -> tuple[str, ...]:
        """Sync the table with its catalogs although no action was completed, if options ask for syncs after actions.

        Returns:
            What failed, one line for each catalog.

        Raises:
            HoodieSyncException: It failed, and ``hoodie.datasource.hive_sync.ignore_exceptions = false`` is given.
        """
        self._check_open("sync_catalogs")
        self._catalogs.note()
        return self._catalogs.run()

    def _note_completed(self, state: CommitState | None = None) -> None:
        """Note that the call completed an action that catalogs may have to know of.

        Args:
            state: The state of the action's result; errors of the sync are noted there.
        """
        self._catalogs.note()
        if state is not None and self._catalogs.is_on:
            self._told_states.append(state)

    def _tell_catalogs(self) -> None:
        """Sync the catalogs, if an action of the call was completed.

        Raises:
            HoodieSyncException: It failed, and the configuration says that this is an error.
        """
        states, self._told_states = self._told_states, []
        failures = self._catalogs.run()
        for state in states:
            state.service_errors = (*state.service_errors, *failures)
        self._catalogs_failed(failures)

    def _catalogs_failed(self, failures: tuple[str, ...]) -> None:
        """Note errors of a sync; those of writes are kept for `service_errors`."""

    def _check_open(self, name: str) -> None:
        if self._is_closed:
            raise HoodieException(
                f"{name}: this client of {self._session.config.base_path} is closed, by close() or by the end of its "
                f"with block; nothing was done. Make a new {type(self).__name__} for further calls"
            )

    @contextmanager
    def _alone(self, instant_time: str | None = None) -> Iterator[None]:
        """Do a piece of work while other processes are kept out, if the table has a single writer."""
        self._measure(instant_time)
        with self._transactions.alone():
            yield

    def _measure(self, instant_time: str | None) -> None:
        """Discard the steps of any other instant."""
        if instant_time is None or instant_time != self._measured_instant:
            self._metrics.restart()
            self._measured_instant = instant_time


def _listeners(
    context: HoodieEngineContext, config: HoodieWriteConfig, on_progress: ProgressCallback | None
) -> list[ProgressListener]:
    """The listeners of the client's calls: the caller's function, and the line on the terminal or in the notebook."""
    listeners: list[ProgressListener] = []
    if on_progress is not None:
        listeners.append(SafeCallback(on_progress))
    mode = config.write.progress_enable
    if mode is not ProgressMode.FALSE:
        bar = progress_bar(force=mode is ProgressMode.TRUE, terminal_is_taken=context.draws_progress)
        if bar is not None:
            listeners.append(bar)
    return listeners


def _who_rolls_back(config: HoodieWriteConfig) -> str:
    match config.write.failed_writes:
        case FailedWritesPolicy.EAGER:
            return "the next start_commit() rolls it back"
        case FailedWritesPolicy.LAZY:
            return "clean() or rollback_failed_writes() rolls it back once its heartbeat has expired"
    return "roll it back with rollback(instant_time) of a client"
