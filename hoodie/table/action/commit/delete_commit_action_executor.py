"""Delete the records of given keys.

Hudi: org.apache.hudi.table.action.commit.SparkDeleteCommitActionExecutor.
"""

from __future__ import annotations

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.engine.data import HoodieData
from hoodie.table.action.commit.upsert_commit_action_executor import UpsertCommitActionExecutor
from hoodie.table.action.write_metadata import HoodieWriteMetadata


class DeleteCommitActionExecutor(UpsertCommitActionExecutor):
    """Delete the records of given keys; keys that are not in the table are passed over.

    Hudi: org.apache.hudi.table.action.commit.SparkDeleteCommitActionExecutor.
    """

    operation = WriteOperationType.DELETE

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        """See `UpsertCommitActionExecutor`; a table without columns has no records, and no instant is begun."""
        if not self._write_context.records.avro_schema:
            return HoodieWriteMetadata(self.operation, ())
        return super().execute(records)

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_delete

    @property
    def _parallelism(self) -> int:
        return self._config.write.delete_shuffle_parallelism
