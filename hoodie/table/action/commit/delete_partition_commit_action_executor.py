"""Delete whole partitions without reading them.

Hudi: org.apache.hudi.table.action.commit.SparkDeletePartitionCommitActionExecutor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.engine.data import HoodieData
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.commit.replaced_file_groups import check_partition_paths, refuse_pending_file_groups
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.workload_profile import WorkloadProfile

logger = logging.getLogger(__name__)


class DeletePartitionCommitActionExecutor(BaseCommitActionExecutor):
    """Replace all file groups of partitions by nothing; a clean deletes their files later.

    Hudi: org.apache.hudi.table.action.commit.SparkDeletePartitionCommitActionExecutor.
    """

    operation = WriteOperationType.DELETE_PARTITION
    replaces = True

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        """There are no records: see `execute_partitions`."""
        raise TypeError("delete_partitions takes partition paths")

    def execute_partitions(self, partition_paths: Iterable[str]) -> HoodieWriteMetadata:
        """Delete partitions.

        Args:
            partition_paths: The partitions; one that the table does not have is passed over, with a warning.

        Raises:
            HoodieConfigException: One of them is no partition path.
            HoodieNotSupportedException: A pending clustering is going to rewrite one of their file groups.
        """
        with self._metrics.step("find the file groups to replace") as step:
            wanted = check_partition_paths(partition_paths)
            replaced = self._table.latest_file_ids(wanted)
            refuse_pending_file_groups(self._table.snapshot, replaced, "delete_partitions")
            step.count(files=sum(map(len, replaced.values())))
        missing = [path for path in wanted if not replaced[path]]
        if missing:
            logger.warning(
                "delete_partitions: %s has no rows in partition %s", self._table.snapshot.base_path,
                ", ".join(repr(path) for path in missing),
            )  # fmt: skip
        if not self._write_context.records.avro_schema:
            # A table without columns has no rows: no instant is begun.
            return HoodieWriteMetadata(self.operation, ())
        self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
        return HoodieWriteMetadata(self.operation, (), replaced)
