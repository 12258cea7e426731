"""Insert records, filling small files first.

Hudi: org.apache.hudi.table.action.commit.{SparkInsertCommitActionExecutor, SparkInsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow.compute as pc

from hoodie.common.model.record_columns import (
    DECIDING_COLUMNS,
    PARTITION_PATH,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WithoutEffect, WriteStatus
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.data import HoodieData
from hoodie.index.index import KeyLocations
from hoodie.table.action.commit.base_commit_action_executor import BUCKET_HANDLERS, BaseCommitActionExecutor
from hoodie.table.action.commit.named_rows import BucketOfNewRow, NamedCounts
from hoodie.table.action.write_metadata import HoodieWriteMetadata


class InsertCommitActionExecutor(BaseCommitActionExecutor):
    """Insert records without looking their keys up in the table; small files are filled first.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT

    is_prepped: ClassVar[bool] = False

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        write = self._config.write
        policy = self._duplicates_policy
        combines = (write.combine_before_insert and not self.is_prepped) or policy is InsertDupPolicy.DROP
        records = self._limited(records, write.insert_shuffle_parallelism)
        if policy is InsertDupPolicy.NONE and not combines and not self._table.index.names_file_groups:
            written = self._without_keeping(records, self._execute_reading_twice)
            if written is not None:
                return written
        records = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        try:
            new, counts, given = self._without_stored(records, policy)
            if policy is InsertDupPolicy.NONE:
                self._latest_file_slices(counts[PARTITION_PATH].to_pylist())
            return self._write_inserts(self._placed(self._combine(new, combines), counts), given)
        finally:
            records.unpersist()
            self._release_shared()

    def _execute_reading_twice(self, records: HoodieData) -> HoodieWriteMetadata:
        """Count the rows of each partition, then write them; see `two_readings`.

        Raises:
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        places = self._context.share(KeyLocations({}, ()))
        self._shared.append(places)
        with self._metrics.step("read the input and its keys") as step:
            found = self._count_named(records, places, step)
        named = NamedCounts.of_inserts(found)
        self._latest_file_slices(pc.unique(found[PARTITION_PATH]).to_pylist())
        with self._metrics.step("build workload profile") as step:
            partitioner = self._plan_buckets(records, named.counts, step)
        self._without_effect += WithoutEffect(unmatched_deletes=named.unmatched_deletes, combined=0)
        statuses: list[WriteStatus] = []
        if partitioner.buckets:
            handler_class = BUCKET_HANDLERS[self._write_context.table_config.table_type]
            buckets = tuple(partitioner.buckets)
            handler = handler_class(self._write_context, buckets)
            bucket_of = BucketOfNewRow(partitioner.assigner(drops_unknown=True))
            # Without duplicates the last row of a key counts.
            row_numbers = None if self._config.write.merge_allow_duplicate_on_inserts else ROW_NUMBER
            inserts = None if self._key_generator is None else partitioner.insert_routing(self._key_generator)
            statuses = self._write_by_keys(
                records, bucket_of, buckets, handler, named.seen, row_numbers=row_numbers, inserts=inserts
            )
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    @property
    def _duplicates_policy(self) -> InsertDupPolicy:
        """The policy for keys that are in the table."""
        return InsertDupPolicy.NONE if self.is_prepped else self._config.write.duplicates_of_inserts


class InsertPreppedCommitActionExecutor(InsertCommitActionExecutor):
    """Insert records that need no combining and no look-up.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertPreppedCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT_PREPPED
    is_prepped = True
