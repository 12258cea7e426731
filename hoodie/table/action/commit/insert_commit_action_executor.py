"""Insert records, filling small files first.

Hudi: org.apache.hudi.table.action.commit.{SparkInsertCommitActionExecutor, SparkInsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import DECIDING_COLUMNS, PARTITION_PATH, ROW_NUMBER
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.model.write_status import WithoutEffect, WriteStatus
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.bucket_routing import BucketNumbers, InsertRouting
from hoodie.engine.data import HoodieData, PartitionFunction
from hoodie.engine.engine_context import Shared
from hoodie.index.index import KeyLocations
from hoodie.table.action.commit.base_commit_action_executor import BUCKET_HANDLERS, BaseCommitActionExecutor
from hoodie.table.action.commit.hashed_rows import TagRows
from hoodie.table.action.commit.named_rows import BucketOfNewRow, NamedCounts
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner
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
        is_of_user = self._table.index.names_file_groups and self._write_context.placement.verifies_positions
        if policy is InsertDupPolicy.NONE and not combines and not is_of_user:
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

    def _execute_reading_twice(self, records: HoodieData) -> HoodieWriteMetadata | None:
        """Count the rows of each partition or bucket, then write them; see `two_readings`.

        Returns:
            None if the index needs the keys to name file groups.

        Raises:
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        places: Shared | None = None
        if self._table.index.names_file_groups:
            counted = self._count_by_names(records)
            if counted is None:
                return None
            found, locations, places = counted
            named = NamedCounts.of_inserts(found, locations)
        else:
            nowhere = self._context.share(KeyLocations({}, ()))
            self._shared.append(nowhere)
            with self._metrics.step("read the input and its keys") as step:
                found = self._count_named(records, nowhere, step)
            named = NamedCounts.of_inserts(found, None)
        self._latest_file_slices(pc.unique(found[PARTITION_PATH]).to_pylist())
        with self._metrics.step("build workload profile") as step:
            partitioner = self._plan_buckets(records, named.counts, step)
        self._without_effect += WithoutEffect(unmatched_deletes=named.unmatched_deletes, combined=0)
        statuses: list[WriteStatus] = []
        if partitioner.buckets:
            statuses = self._write_new_rows(records, partitioner, found, named, places)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _write_new_rows(
        self,
        records: HoodieData,
        partitioner: UpsertPartitioner,
        found: pa.Table,
        named: NamedCounts,
        places: Shared | None,
    ) -> list[WriteStatus]:
        """Send rows to the tasks of their buckets.

        Args:
            records: The rows.
            partitioner: The buckets.
            found: The counts of the first reading, as `COUNTS`.
            named: The same by place.
            places: The shared `Locations` where the index names file groups.

        Raises:
            InputReadOtherwise: See `_execute_reading_twice`.
        """
        table_type = self._write_context.table_config.table_type
        buckets = tuple(partitioner.buckets)
        handler: PartitionFunction = BUCKET_HANDLERS[table_type](self._write_context, buckets)
        if places is not None and table_type is HoodieTableType.MERGE_ON_READ:
            # Keys are not looked up in log files, so their rows tell whether they are in a new file group.
            handler = TagRows(handler, places)
        bucket_of = BucketOfNewRow(partitioner.assigner(drops_unknown=True), places)
        # Without duplicates the last row of a key counts, and log files hold no duplicates.
        repeats = self._config.write.merge_allow_duplicate_on_inserts and places is None
        row_numbers = None if repeats else ROW_NUMBER
        dealer: InsertRouting | BucketNumbers | None = None
        if places is not None:
            dealer = self._bucket_numbers(partitioner, found)
        elif self._key_generator is not None:
            dealer = partitioner.insert_routing(self._key_generator)
        return self._write_by_keys(
            records,
            bucket_of,
            buckets,
            self._write_tasks(partitioner),
            handler,
            named.seen,
            row_numbers=row_numbers,
            dealer=dealer,
        )

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
