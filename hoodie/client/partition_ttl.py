"""Find the partitions that expire, for a write that deletes them.

Hudi: org.apache.hudi.table.action.commit.SparkPartitionTTLActionExecutor.
"""

from __future__ import annotations

import logging

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieDeleteException, HoodieException
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.query.arrow_reader import count
from hoodie.query.planner import plan_of
from hoodie.query.table_query import TableQuery
from hoodie.table.action.ttl.partition_expiry import ExpiredPartition, PartitionExpiry, plan_expiry
from hoodie.table.action.ttl.partition_times import KnownLastWrites
from hoodie.table.table import HoodieTable

logger = logging.getLogger(__name__)


class NothingExpiredException(HoodieException):
    """Another writer renewed or deleted every partition that had expired, before the run announced itself."""


@attrs.frozen(eq=False)
class PartitionTTL:
    """Finds the partitions of one table that expire.

    Attributes:
        config: The writer's configuration.
        metrics: Times the steps.
    """

    config: HoodieWriteConfig
    metrics: HoodieMetrics
    _known: KnownLastWrites = attrs.field(init=False, factory=dict, repr=False)

    def plan(self, snapshot: TableSnapshot, own_instant: str | None = None) -> PartitionExpiry:
        """The partitions that expire, and their rows.

        Args:
            snapshot: The table.
            own_instant: The pending instant that is to delete them; None if there is none yet.

        Raises:
            HoodieException: See `plan_expiry`.
        """
        beside = self.config.write.has_several_writers
        with self.metrics.step("find expired partitions") as step:
            plan = plan_expiry(snapshot, self.config.ttl, self._known, own_instant=own_instant, beside=beside)
            rows = self._rows_of(snapshot, [one.partition_path for one in (*plan.partitions, *plan.kept)])
            step.count(files=sum(one.file_groups for one in plan.partitions))

        def counted(partitions: tuple[ExpiredPartition, ...]) -> tuple[ExpiredPartition, ...]:
            return tuple(attrs.evolve(one, rows=rows.get(one.partition_path)) for one in partitions)

        return attrs.evolve(plan, partitions=counted(plan.partitions), kept=counted(plan.kept))

    def _rows_of(self, snapshot: TableSnapshot, partition_paths: list[str]) -> dict[str, int]:
        """The number of rows of each partition; none where a file is missing or damaged."""
        if not partition_paths:
            return {}
        query = TableQuery((), log_merge=self.config.log_merge, merger_class=self.config.payload.merger_class)
        try:
            plan = plan_of(snapshot, query)
            return {
                path: count(
                    attrs.evolve(
                        plan, slices=tuple(one for one in plan.slices if one.file_slice.partition_path == path)
                    )
                )
                for path in partition_paths
            }
        except HoodieException as error:
            logger.warning("the rows of expired partitions of %s are not counted: %s", snapshot.base_path, error)
            return {}


@attrs.define(eq=False)
class ExpiredPartitions:
    """The partitions that a delete_partition deletes because they expired: looked for again once it has an instant.

    Rows that others commit to one of them meanwhile are a conflict.

    Attributes:
        ttl: Finds them.
        plan: The last plan.
    """

    ttl: PartitionTTL
    plan: PartitionExpiry

    def __call__(self, table: HoodieTable, instant_time: str) -> list[str]:
        """The partitions of the table that the write begins from.

        Args:
            table: The table, its timeline listed after the instant was announced.
            instant_time: The instant of the write.

        Raises:
            NothingExpiredException: There are none any more.
            HoodieDeleteException: The run would delete what it must not; see `refuse`.
        """
        self.plan = self.ttl.plan(table.snapshot, instant_time)
        refuse(self.plan)
        if not self.plan.partitions:
            raise NothingExpiredException(f"no partition of {self.plan.base_path} is too old any more")
        return self.plan.partition_paths


def refuse(plan: PartitionExpiry) -> None:
    """Refuse a run that would delete all partitions of the table, or one that was written last.

    Args:
        plan: The plan of the run.

    Raises:
        HoodieDeleteException: It would.
    """
    if plan.refusal is not None:
        raise HoodieDeleteException(f"expire_partitions: {plan.refusal}")
