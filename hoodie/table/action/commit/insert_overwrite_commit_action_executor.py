"""Insert records in place of the stored ones: those of the partitions that they go to, or of the whole table.

Hudi: org.apache.hudi.table.action.commit.{SparkInsertOverwriteCommitActionExecutor,
SparkInsertOverwriteTableCommitActionExecutor}.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.clustering_plans import pending_clusterings
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.data import HoodieData
from hoodie.exception import HoodieInsertException
from hoodie.index.index import IndexedTable
from hoodie.table.action.commit.insert_commit_action_executor import InsertCommitActionExecutor
from hoodie.table.action.commit.replaced_file_groups import check_partition_paths, refuse_pending_file_groups
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.workload_profile import WorkloadProfile
from hoodie.transaction.clusterings_beside import clusterings_that_give_way

logger = logging.getLogger(__name__)


class InsertOverwriteCommitActionExecutor(InsertCommitActionExecutor):
    """Insert records into new file groups, and replace all file groups of the partitions that receive records.

    ``hoodie.static.overwrite.partition.paths`` names the partitions to be replaced instead, whatever comes in.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertOverwriteCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT_OVERWRITE
    replaces = True

    @property
    def _duplicates_policy(self) -> InsertDupPolicy:
        # The stored keys are replaced with the rest of their partition.
        return InsertDupPolicy.NONE

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        metadata = super().execute(records)
        return attrs.evolve(metadata, partition_to_replace_file_ids=self._replaced_file_ids(metadata.statuses))

    def _indexed(self, counts: pa.Table, exact: bool = False) -> IndexedTable:
        # Indexes that name file groups name new ones.
        indexed = super()._indexed(counts, exact)
        return attrs.evolve(indexed, file_slices={}, listing=attrs.evolve(indexed.listing, list_more=None))

    def _slices_to_fill(self, profile: WorkloadProfile) -> Mapping[str, Sequence[FileSlice]]:
        return {partition_path: () for partition_path in profile.stats}

    def _replaced_file_ids(self, statuses: Sequence[WriteStatus]) -> Mapping[str, Sequence[str]]:
        with self._metrics.step("find the file groups to replace") as step:
            replaced = self._table.latest_file_ids(self._replaced_partitions(statuses))
            won = clusterings_that_give_way(
                self._config.clustering, pending_clusterings(self._table.snapshot.active_timeline)
            )
            refuse_pending_file_groups(self._table.snapshot, replaced, self.operation.value.lower(), wins=won)
            step.count(files=sum(map(len, replaced.values())))
        emptied = sorted(path for path, file_ids in replaced.items() if file_ids)
        if emptied and not statuses:
            logger.warning(
                "%s: the input has no records, so no rows are left in partitions of %s: %s%s",
                self.operation.value.lower(), self._table.snapshot.base_path,
                ", ".join(repr(path) for path in emptied[:3]),
                f" and {len(emptied) - 3} more" if len(emptied) > 3 else "",
            )  # fmt: skip
        return replaced

    def _replaced_partitions(self, statuses: Sequence[WriteStatus]) -> Sequence[str]:
        static = self._config.write.static_overwrite_partition_paths
        written = {status.partition_path for status in statuses}
        if not static:
            return sorted(written)
        named = check_partition_paths(static)
        others = sorted(written - set(named))
        if others:
            raise HoodieInsertException(
                f"records go to partition '{others[0]}', which hoodie.static.overwrite.partition.paths="
                f"{','.join(static)} does not name: the rows that are there would stay. Name it too, or "
                "leave the property out to replace the partitions that records go to; nothing was committed"
            )
        return named


class InsertOverwriteTableCommitActionExecutor(InsertOverwriteCommitActionExecutor):
    """Insert records in place of everything that is in the table.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertOverwriteTableCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT_OVERWRITE_TABLE

    def _replaced_partitions(self, statuses: Sequence[WriteStatus]) -> Sequence[str]:
        return self._table.view.list_partitions()
