"""Carry out a planned clustering.

Hudi: org.apache.hudi.table.action.cluster.SparkExecuteClusteringCommitActionExecutor.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence

import attrs

from hoodie.avro.schema_converters import add_meta_columns
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.clustering_plans import clustering_action, pending_clusterings, planned_file_groups
from hoodie.common.table.compaction_plans import compacted_file_groups
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_before
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy
from hoodie.exception import HoodieClusteringException, HoodieCommitException
from hoodie.execution.bulkinsert.row_order import SORT_COLUMNS_KEY
from hoodie.index.index import IndexedTable, TagRequest
from hoodie.io.write_context import WriteContext
from hoodie.metadata.metadata_table import MetadataTableUpkeep
from hoodie.storage.storage_path import join
from hoodie.table.action.action import PlannedAction, check_planned_instant, no_check
from hoodie.table.action.attempted_files import reconcile_with_markers
from hoodie.table.action.changes_meanwhile import completed_since, rolled_back_since, undone_since
from hoodie.table.action.cluster.cluster_group import ClusterGroup
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput
from hoodie.table.action.cluster.clustering_planner import LAYOUT_KEY, TARGET_KEY, row_order
from hoodie.table.action.cluster.execution_strategy import Execution, execution_of
from hoodie.table.action.cluster.planned_clustering import FileGroupKey, PlannedClustering
from hoodie.table.action.cluster.schedule_clustering_action_executor import OutdatedClusteringPlanException
from hoodie.table.action.completion import compact_metadata_table, complete_instant
from hoodie.table.action.takeover import Takeover
from hoodie.table.missing_files import check_files
from hoodie.table.table import HoodieTable
from hoodie.table.table_state import being_rolled_back, refuse_pending_restore
from hoodie.transaction.concurrent_operation import ConcurrentOperation
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)


@attrs.frozen
class Clustered:
    """A clustering that was carried out and completed.

    Attributes:
        instant: Its instant, completed.
        metadata: Its commit.
        statuses: The statuses of the new files.
        left_out: File groups of the plan that were left as they are, because writers changed them meanwhile.
        failures: Failures after it was completed, one line each.
    """

    instant: HoodieInstant
    metadata: HoodieCommitMetadata
    statuses: tuple[WriteStatus, ...]
    left_out: frozenset[FileGroupKey] = frozenset()
    failures: tuple[str, ...] = ()


class TakenClusteringException(HoodieClusteringException):
    """Another process, which is alive, is carrying the clustering out."""


class ClusteringTakeover(Takeover):
    """Takes over clusterings: an attempt that failed is rolled back, which leaves the plan."""

    kind = Action.CLUSTERING
    missing_error = HoodieClusteringException
    taken_error = TakenClusteringException

    def another_way(self, instant_time: str) -> str:
        """See `Takeover.another_way`."""
        return f", or give the plan up with rollback({instant_time!r})"


class RunClusteringActionExecutor(PlannedAction[PlannedClustering, Clustered | None]):
    """Carries out one planned clustering, also one of Hudi's; a failed attempt is run again under its instant.

    The latest slices of the planned file groups are rewritten, see `PlannedClustering`. The old files stay until a
    clean deletes them.

    Writes go on meanwhile, and they win: before the instant is completed, under the table's lock, the timeline is
    looked at again. A group with a file group that a write changed since, or that a pending write has announced to
    change, is left as it is; its new files are deleted. A write that completes later than that finds the clustering,
    and fails.

    The caller sees to it that one process at a time carries out an instant, and that nothing is left of an earlier
    attempt: the instant is requested.

    Args:
        table: The table, just loaded.
        transactions: The table's lock.
        check_alive: Raises where others may have taken this process for dead, and the instant over.

    Hudi: org.apache.hudi.table.action.cluster.SparkExecuteClusteringCommitActionExecutor. Differs: looks again, where
    Hudi loses what a writer changed meanwhile.
    """

    kind = Action.CLUSTERING

    def __init__(
        self, table: HoodieTable, transactions: TransactionManager, check_alive: Callable[[], None] = no_check
    ) -> None:
        super().__init__(table.snapshot)
        self._table = table
        self._transactions = transactions
        self._check_alive = check_alive

    def refuse_left_behind(self, plan: PlannedClustering, instant_time: str, check: Callable[[], None]) -> None:
        """Stop where a restore is pending; see `PlannedAction.refuse_left_behind`."""
        check()
        refuse_pending_restore(self.snapshot, "nothing is clustered until it is finished")

    def read_plan(self, instant_time: str) -> PlannedClustering:
        """See `PlannedAction.read_plan`."""
        requested = HoodieInstant(instant_time, clustering_action(self._timeline), State.REQUESTED)
        check_planned_instant(instant_time, self.kind, self._timeline.path_of(requested))
        return PlannedClustering.read(self.snapshot, instant_time)

    def begin(self, plan: PlannedClustering, instant_time: str) -> None:
        """Make the instant inflight; from here on tasks may write.

        Raises:
            HoodieClusteringException: hoodie cannot carry the plan out.
            HoodieCommitException: Another process began to carry it out.
        """
        execution_of(plan.plan.strategy, str(plan))
        plan.begin()

    def do(self, plan: PlannedClustering, instant_time: str, is_left_behind: bool) -> Clustered | None:
        """Write the new files, and complete the instant.

        Raises:
            OutdatedClusteringPlanException: Nothing is left of what was to be rewritten.
            HoodieException: A file is missing or damaged, the instant was taken over, or storage failed.
        """
        table, metrics = self._table, self._table.metrics
        clustering = attrs.evolve(plan, snapshot=self.look())
        with metrics.step("list file slices") as step:
            view = self.snapshot.stored_view(tells_sizes=True)
            self.snapshot.load_avro_schema()
            inputs = clustering.inputs(view, self._held_by_others(instant_time))
            check_files(self.snapshot, view, sorted({one.partition_path for one in inputs}), doing="clustering")
            step.count(files=sum(len(one.slices) for one in inputs))
        before = self.snapshot
        if not inputs:
            raise OutdatedClusteringPlanException(f"nothing is left of what {clustering} was to rewrite")
        context, avro_schema = self._context(clustering, instant_time)
        with metrics.step("write base files", instant_time) as step:
            written = self._write(clustering, inputs, context)
            statuses = [status for group in written for status in group]
            step.count(
                records=sum(status.stat.num_writes for status in statuses),
                files=len(statuses),
                bytes=sum(status.stat.total_write_bytes for status in statuses),
            )
        self._check_alive()
        with metrics.step("reconcile with markers") as step:
            step.count(files=reconcile_with_markers(self.snapshot, instant_time, statuses, self._check_alive))
        what = f"completing clustering {instant_time}"
        with (
            metrics.step("complete the instant"),
            self._transactions.held(self.snapshot, what) as transaction,
        ):
            changed = self._changed(before, inputs, instant_time)
            kept = [index for index, found in enumerate(inputs) if not changed & set(_keys_of(found))]
            if not kept:
                raise OutdatedClusteringPlanException(
                    f"{clustering} is given up: all of its groups were changed while it was being carried out. That is "
                    "no loss; plan again"
                )
            left_out = frozenset(
                key for index, found in enumerate(inputs) if index not in kept for key in _keys_of(found)
            )
            if left_out:
                logger.info("%s leaves %d file groups as they are: writers changed them", clustering, len(left_out))
                self._delete_outputs([status for i, group in enumerate(written) if i not in kept for status in group])
            statuses = [status for index in kept for status in written[index]]
            table.index.update_location(
                statuses,
                table.context,
                IndexedTable(before.storage, {}, before.base_path, request=TagRequest(instant_time)),
            )
            avro_schema = self.snapshot.load_avro_schema() or avro_schema
            metadata = clustering.commit_metadata(statuses, [inputs[index] for index in kept], avro_schema)

            def check() -> None:
                transaction.check_held()
                self._check_alive()

            upkeep = MetadataTableUpkeep.of(table.config, table.context)
            action = clustering_action(self._timeline)
            completed = complete_instant(self.snapshot, instant_time, action, metadata, check, upkeep)
            failed = () if completed is None else compact_metadata_table(completed, check, upkeep)
        if completed is None:
            return self.already_ended(instant_time)
        logger.info(
            "clustered %d file groups of %s into %d at %s: %d rows",
            sum(len(inputs[index].slices) for index in kept), before.base_path, len(statuses), instant_time,
            metadata.total_records_written,
        )  # fmt: skip
        clustering.delete_markers()
        return Clustered(completed.instant, metadata, tuple(statuses), left_out, failed)

    def already_ended(self, instant_time: str) -> Clustered | None:
        """Another process completed it: nothing is left to do.

        Raises:
            HoodieCommitException: There is no such clustering.
        """
        found = self.look().active_timeline.find(instant_time, self.kind)
        if found is None:
            raise HoodieCommitException(
                f"there is no clustering {instant_time} in the active timeline of {self.snapshot.base_path}: it was "
                "never scheduled, or was withdrawn, or is archived"
            )
        logger.info("clustering %s of %s is completed already", instant_time, self.snapshot.base_path)
        return None

    @property
    def _timeline(self) -> HoodieActiveTimeline:
        return self.snapshot.active_timeline

    def _held_by_others(self, instant_time: str) -> set[FileGroupKey]:
        """File groups of pending compactions, and of clusterings that were planned earlier."""
        held = {
            group
            for one in pending_clusterings(self._timeline)
            if is_before(one.instant.requested_time, instant_time)
            for group in planned_file_groups(one.plan)
        }
        for service in self._timeline.filter_actions(Action.COMPACTION, Action.LOG_COMPACTION).filter_pending():
            groups = compacted_file_groups(self._timeline, service)
            held.update((group.partition_path, group.file_id) for group in groups)
        return held

    def _context(self, clustering: PlannedClustering, instant_time: str) -> tuple[WriteContext, str]:
        """The context of the tasks, with the size of files of the plan, and the table's schema as Avro JSON."""
        avro_schema = self.snapshot.load_avro_schema()
        assert avro_schema is not None
        old = self._table
        storage = attrs.evolve(old.config.storage, parquet_max_file_size=self._file_bytes(clustering))
        config = attrs.evolve(old.config, storage=storage)
        table = HoodieTable(old.context, config, self.snapshot, old.index, old.metrics)
        schema = self.snapshot.load_schema()
        return (
            table.write_context(instant_time, WriteOperationType.CLUSTER, schema, add_meta_columns(avro_schema)),
            avro_schema,
        )

    def _file_bytes(self, clustering: PlannedClustering) -> int:
        """The size at which a new file is closed."""
        strategy = clustering.plan.strategy
        if execution_of(strategy, str(clustering)) is Execution.SINGLE_FILE:
            return sys.maxsize
        parameters = {} if strategy is None else strategy.strategy_params or {}
        return int(parameters.get(TARGET_KEY, self._table.config.clustering.target_file_max_bytes))

    def _write(
        self, clustering: PlannedClustering, inputs: Sequence[ClusteringInput], context: WriteContext
    ) -> list[list[WriteStatus]]:
        """The statuses of the new files of each input; the largest inputs are written first."""
        config, strategy = self._table.config, clustering.plan.strategy
        parameters = {} if strategy is None else dict(strategy.strategy_params or {})
        columns = [name.strip() for name in parameters.get(SORT_COLUMNS_KEY, "").split(",") if name.strip()]
        layout = parameters.get(LAYOUT_KEY, config.layout.strategy)
        order = row_order(attrs.evolve(config.layout, strategy=LayoutOptimizationStrategy(layout)), columns)
        order = None if order is None else order.checked(context.records.schema)
        sizes = [sum(part.size_bytes for part in found.slices) for found in inputs]
        turns = sorted(range(len(inputs)), key=sizes.__getitem__, reverse=True)
        done = self._table.context.run_tasks([inputs[index] for index in turns], ClusterGroup(context, order))
        by_index = dict(zip(turns, done, strict=True))
        return [by_index[index] for index in range(len(inputs))]

    def _changed(
        self, before: TableSnapshot, inputs: Iterable[ClusteringInput], instant_time: str
    ) -> frozenset[FileGroupKey]:
        """The file groups that others changed since, or are changing; call this under the lock.

        Raises:
            HoodieCommitException: The attempt was rolled back by another process, or a restore is pending.
        """
        timeline = self.look().active_timeline
        where = f"clustering {instant_time} of {self.snapshot.base_path}"
        refuse_pending_restore(self.snapshot, "nothing is completed until it is finished")
        if instant_time in being_rolled_back(timeline) or rolled_back_since(before, self.snapshot, instant_time):
            raise HoodieCommitException(f"{where} was rolled back by another process; run it again")
        changed: set[FileGroupKey] = set()
        for instant in completed_since(before, self.snapshot):
            changed |= ConcurrentOperation.load(timeline, instant).file_groups
        for instant in timeline.filter_actions(*COMMIT_ACTIONS).filter_pending():
            if instant.requested_time != instant_time and instant.state is State.INFLIGHT:
                changed |= ConcurrentOperation.load(timeline, instant).file_groups
        undone = set(undone_since(before, self.snapshot)) | being_rolled_back(timeline)
        if undone:
            for found in inputs:
                for part in found.slices:
                    times = {part.base_instant_time, *(log_file.instant_time for log_file in part.record_log_files)}
                    # In timeline layout 1 the name of a log file does not tell its writer.
                    if times & undone or (part.record_log_files and not timeline.layout.has_completion_times):
                        changed.add((part.partition_path, part.file_id))
        return frozenset(changed)

    def _delete_outputs(self, statuses: Iterable[WriteStatus]) -> None:
        """Delete new files that do not count any more; their markers go with those of the instant."""
        for status in statuses:
            self._check_alive()
            self.snapshot.storage.delete_file(join(self.snapshot.base_path, str(status.stat.path)))


def _keys_of(found: ClusteringInput) -> Iterable[FileGroupKey]:
    return ((part.partition_path, part.file_id) for part in found.slices)
