"""Insert records, filling small files first.

Hudi: org.apache.hudi.table.action.commit.{SparkInsertCommitActionExecutor, SparkInsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.data import HoodieData
from hoodie.common.model.record_columns import (
    DECIDING_COLUMNS,
    OPERATION,
    PARTITION_PATH,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.config.write_options import InsertDupPolicy
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.workload_profile import WorkloadProfile

__all__ = [
    "InsertCommitActionExecutor",
    "InsertPreppedCommitActionExecutor",
]


class InsertCommitActionExecutor(BaseCommitActionExecutor):
    """Insert records without asking whether their key is in the table; small files are filled first.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT

    is_prepped: ClassVar[bool] = False

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        write = self._config.write
        policy = InsertDupPolicy.NONE if self.is_prepped else write.duplicates_of_inserts
        combines = (write.combine_before_insert and not self.is_prepped) or policy is InsertDupPolicy.DROP
        records = (
            self._limited(records, write.insert_shuffle_parallelism).number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        )
        try:
            new = records
            if policy is InsertDupPolicy.NONE:
                with self._metrics.step("read the input and its keys") as step:
                    counts = records.count_by([PARTITION_PATH])
                    step.count(records=sum(counts["count"].to_pylist()))
                    self._refuse_rows_without_key(records, counts)
                self._latest_base_files(counts[PARTITION_PATH].to_pylist())
            else:
                new = self._without_stored(records, policy)
            combined = self._combine(new, combines)
            combined = combined.map_batches(_without_deletes, combined.schema)
            with self._metrics.step("build workload profile") as step:
                counts = combined.count_by([PARTITION_PATH])
                profile = WorkloadProfile.from_counts(self.operation, counts)
                partitioner = self._partitioner(profile, combined)
                self._save_workload_profile(profile, partitioner)
                step.count(records=sum(counts["count"].to_pylist()))
            statuses = self._write_buckets(combined, partitioner)
            return HoodieWriteMetadata(self.operation, statuses)
        finally:
            records.unpersist()
            for shared in self._shared:
                shared.release()


class InsertPreppedCommitActionExecutor(InsertCommitActionExecutor):
    """Insert records that need no combining and no look-up.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertPreppedCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT_PREPPED
    is_prepped = True


def _without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    wanted = pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))
    return batch if pc.all(wanted).as_py() is not False else batch.filter(wanted)
