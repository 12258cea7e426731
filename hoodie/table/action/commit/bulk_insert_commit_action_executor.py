"""Insert records into new files as the input comes.

Hudi: org.apache.hudi.table.action.commit.{SparkBulkInsertCommitActionExecutor,
SparkBulkInsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    DECIDING_COLUMNS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.model.write_status import STATUS_SCHEMA, RowsSeen, TaskResult, WithoutEffect, unpack
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import Shared
from hoodie.exception import (
    HoodieConfigException,
    HoodieInsertException,
)
from hoodie.execution.bulkinsert.bulk_insert_handler import (
    BucketFillHandler,
    BulkInsertHandler,
    DealToBuckets,
    came_together,
)
from hoodie.execution.bulkinsert.bulk_insert_partitioner import (
    BulkInsertPartitioner,
    NonSortPartitioner,
    PartitionSortPartitioner,
    create_bulk_insert_partitioner,
)
from hoodie.index.index import Locations
from hoodie.index.places_by_hash import rows_seen_by_hash
from hoodie.io.write_context import WriteContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.table.action.commit.inserts_read_twice import InsertsReadTwice, KnownSlices
from hoodie.table.action.commit.known_rows import NewRows
from hoodie.table.action.commit.two_readings import CountRows, usable_rows
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.table import HoodieTable
from hoodie.table.workload_profile import WorkloadProfile

logger = logging.getLogger(__name__)

MOST_TASKS_FOR_BUCKETS = 256
"""Where the input has few partitions: that many tasks write the buckets of a first bulk insert, or one for each."""


class BulkInsertCommitActionExecutor(InsertsReadTwice):
    """Insert records into new file groups as the input comes, without counting it first; for first loads.

    The input is read once, as a stream, unless it is to be sorted, combined or looked up; each task keeps one file open
    for each partition path that it meets.

    Args:
        table, write_context, key_generator: See `BaseCommitActionExecutor`.
        partitioner: Spreads and sorts the rows; None takes what the configuration names.

    Hudi: org.apache.hudi.table.action.commit.SparkBulkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.BULK_INSERT
    is_prepped: ClassVar[bool] = False

    def __init__(
        self,
        table: HoodieTable,
        write_context: WriteContext,
        key_generator: KeyGenerator | None,
        partitioner: BulkInsertPartitioner | None = None,
    ) -> None:
        super().__init__(table, write_context, key_generator)
        self._partitioner_given = partitioner

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        write = self._config.write
        partitioner = self._partitioner_given or create_bulk_insert_partitioner(self._config)
        schema = records.schema
        records = self._limited(records, write.bulk_insert_shuffle_parallelism)
        policy = InsertDupPolicy.NONE if self.is_prepped else write.duplicates_of_inserts
        combines = write.combine_before_insert and not self.is_prepped
        if self._table.index.names_file_groups:
            return self._insert_into_buckets(records, partitioner, policy, combines)
        if policy is not InsertDupPolicy.NONE and partitioner.is_built_in:
            execute = partial(self._stream_new_rows, partitioner=partitioner, policy=policy)
            written = self._without_keeping(records, execute)
            if written is not None:
                return written
        kept: HoodieData | None = None
        try:
            if policy is not InsertDupPolicy.NONE:
                kept = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
                new, _ = self._without_stored(kept, policy, *self._read_input(kept, [PARTITION_PATH]))
                records = self._combine(new, combines or policy is InsertDupPolicy.DROP)
            elif combines:
                records = self._combine(records.number_rows(ROW_NUMBER), True)
            with self._metrics.step("build workload profile"):
                self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
            expected = None
            if not partitioner.is_built_in:
                # A class of the user's may lose rows; it costs a pass over them to know, and a stream has only one.
                if kept is None:
                    kept = records = records.persist()
                expected = _count_upserts(records)
            placed = _spread(records, partitioner)
            if not isinstance(placed, HoodieData):
                raise HoodieConfigException(
                    f"{type(partitioner).__name__}.repartition_records returned {type(placed).__name__}: it must give "
                    "the rows back, as HoodieData"
                )
            returned_names = set(placed.schema.names)
            missing = [name for name in schema.names if name not in returned_names]
            if missing:
                raise HoodieConfigException(
                    f"{type(partitioner).__name__} lost the columns {', '.join(missing)}: it must give the rows back "
                    "as they are"
                )
            with self._metrics.step("write files") as step:
                handler = BulkInsertHandler(self._write_context, self._key_generator, partitioner.is_sorted)
                statuses = self._statuses(placed.map_partitions_with_index(handler, STATUS_SCHEMA), step)
            found = sum(status.total_record_count for status in statuses)
            if expected is not None and found != expected:
                raise HoodieInsertException(
                    f"{type(partitioner).__name__} gave {found} records back of {expected}: a partitioner must give "
                    "every record back, once; nothing was committed"
                )
            # The input is a stream, and nobody has counted it.
            is_combined = combines or policy is InsertDupPolicy.DROP
            without_effect = self._without_effect + WithoutEffect(combined=None if is_combined else 0)
            return HoodieWriteMetadata(self.operation, statuses, without_effect=without_effect)
        finally:
            if kept is not None:
                kept.unpersist()
            self._release_shared()

    def _stream_new_rows(
        self, records: HoodieData, partitioner: BulkInsertPartitioner, policy: InsertDupPolicy
    ) -> HoodieWriteMetadata | None:
        """Look the keys of the rows up, then stream the rows; the tasks that write leave known ones out.

        Args:
            records: The rows, which are read twice.
            partitioner: Spreads and sorts the rows.
            policy: The treatment of rows whose key is in the table: they are dropped or refused.

        Returns:
            None if the rows must be kept: keys repeat and are to be combined, or do not decide alone.

        Raises:
            HoodieDuplicateKeyException: The policy refuses such rows, and there are some.
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        found = self._located_keys(records, policy)
        if found is None:
            return None
        locations, seen = found
        with self._metrics.step("build workload profile"):
            self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
        placed = _spread(records.map_batches(usable_rows, records.schema), partitioner)
        handler = NewRows(BulkInsertHandler(self._write_context, self._key_generator, partitioner.is_sorted), locations)
        with self._metrics.step("write files") as step:
            written = placed.map_partitions_with_index(CountRows(handler, rows_seen_by_hash), STATUS_SCHEMA)
            statuses = self._statuses(written, step, seen)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _located_keys(self, records: HoodieData, policy: InsertDupPolicy) -> tuple[Shared, RowsSeen] | None:
        """Read the keys of the rows, and look them up.

        Args:
            records: See `_stream_new_rows`.
            policy: See `_stream_new_rows`.

        Returns:
            The shared `Locations` of rows whose key is in the table, and all rows; None as `_stream_new_rows`.
        """
        index = self._table.index
        keys, counts, _ = self._read_input(records, [PARTITION_PATH], keys_only=True)
        if keys is not None:
            if self._combines(policy) and keys.has_duplicates(index.is_global):
                return None
            found = self._find_locations(keys, counts)
            if found is None:
                return None
            locations, _, matches = found
            self._refuse_known_keys(policy, matches)
            batches = keys.table.combine_chunks().to_batches()
            return locations, sum(map(rows_seen_by_hash, batches), RowsSeen())
        located = self._locate_by_hashes(records, exact=True, stays=True)
        if located is None or (located.keys.repeated and self._combines(policy)):
            return None
        locations = located.indexed.notes.share(self._context, located.places)
        known = KnownSlices.of(located)
        if known.slices:
            stored = self._count_stored(records, known, locations)
            self._refuse_known_keys(policy, stored)
            if stored != known.num_keys:
                return None
        return locations, located.keys.looked_up

    def _insert_into_buckets(
        self, records: HoodieData, partitioner: BulkInsertPartitioner, policy: InsertDupPolicy, combines: bool
    ) -> HoodieWriteMetadata:
        """Bring the records of each file group together: an index names these."""
        if not isinstance(partitioner, NonSortPartitioner | PartitionSortPartitioner):
            raise HoodieConfigException(
                f"bulk_insert with hoodie.index.type={self._config.index.index_name} cannot spread records by "
                f"{type(partitioner).__name__}: the index says which file group each record belongs to. Leave "
                "hoodie.bulkinsert.sort.mode at NONE, or take PARTITION_SORT to sort each file by record key, and name "
                "no hoodie.bulkinsert.user.defined.partitioner.class"
            )
        by_key = isinstance(partitioner, PartitionSortPartitioner)
        if policy is InsertDupPolicy.NONE and not self._table.view.list_partitions():
            nothing = pa.table({PARTITION_PATH: pa.array([], pa.string())})
            locations = self._table.index.locations_without_keys(self._context, self._indexed(nothing))
            if locations is not None:
                return self._fill_buckets(records, locations, combines, by_key)
        is_of_user = self._write_context.placement.verifies_positions
        combines = combines or policy is InsertDupPolicy.DROP
        if not by_key and not is_of_user:
            execute = partial(self._insert_reading_twice, combines=combines, policy=policy)
            written = self._without_keeping(records, execute)
            if written is not None:
                return written
        kept = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        try:
            looks_up = policy is not InsertDupPolicy.NONE
            keys, counts, number = self._read_input(kept, [PARTITION_PATH], collects=looks_up)
            new, given = self._without_stored(kept, policy, keys, counts, number)
            new = self._combine(new, combines)
            return self._write_inserts(self._placed(new, counts), given, by_key)
        finally:
            kept.unpersist()
            self._release_shared()

    def _fill_buckets(
        self, records: HoodieData, locations: Locations, combines: bool, by_key: bool
    ) -> HoodieWriteMetadata:
        """Write the first records of a table: no bucket has a file group yet, so none needs to be known before.

        The input is read once, as a stream, and moved once; each task writes one file group after the other. An engine
        that routes rows wrongly makes this happen a second time.
        """
        if combines:
            records = self._combine(records.number_rows(ROW_NUMBER), True)
        with self._metrics.step("build workload profile"):
            self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
        tasks = max(records.num_partitions, min(self._config.index.bucket_num_buckets, MOST_TASKS_FOR_BUCKETS))
        tasks = min(tasks, self._config.write.bulk_insert_shuffle_parallelism or tasks)
        with self._metrics.step("write files") as step:
            results = self._route_in_engine(records, locations, tasks, by_key)
            if results is None:
                results = self._route_in_tasks(records, locations, tasks, by_key)
            statuses = self._written(results, step)
        without_effect = self._without_effect + WithoutEffect(combined=None if combines else 0)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=without_effect)

    def _route_in_engine(
        self, records: HoodieData, locations: Locations, tasks: int, by_key: bool
    ) -> list[TaskResult] | None:
        """Write rows that the engine routes by their columns; None if it cannot, or if it routed any row wrongly.

        Tasks compute the file group of each row once more, exactly. Every file of a wrong attempt has a marker and no
        status in the commit, so the commit deletes it like the file of a task that ran twice.
        """
        routing = self._table.index.bucket_routing(self._key_generator) if self._key_generator is not None else None
        placed = records.route_by_bucket(routing, tasks, by_key) if routing is not None else None
        if placed is None:
            return None
        handler = BucketFillHandler(self._write_context, self._key_generator, locations=locations)
        results = unpack(placed.map_partitions_with_index(handler, STATUS_SCHEMA).collect())
        if came_together(results):
            return results
        logger.info(
            "%s: the buckets of some record keys are computed by Python only, usually because the keys hold a colon "
            "and a comma; the records are written once more, and routed by Python",
            self._table.snapshot.base_path,
        )
        return None

    def _route_in_tasks(self, records: HoodieData, locations: Locations, tasks: int, by_key: bool) -> list[TaskResult]:
        """Write rows that tasks route by their keys."""
        dealer = DealToBuckets(locations, tasks)
        routed = records.map_batches(dealer, dealer.schema(records.schema)).route(BUCKET, tasks)
        placed = routed.sort_within([CURRENT_FILE_ID, RECORD_KEY] if by_key else [CURRENT_FILE_ID])
        handler = BucketFillHandler(self._write_context, self._key_generator)
        return unpack(placed.map_partitions_with_index(handler, STATUS_SCHEMA).collect())


class BulkInsertPreppedCommitActionExecutor(BulkInsertCommitActionExecutor):
    """Bulk insert records that need no combining and no look-up.

    Hudi: org.apache.hudi.table.action.commit.SparkBulkInsertPreppedCommitActionExecutor.
    """

    operation = WriteOperationType.BULK_INSERT_PREPPED
    is_prepped = True


def _spread(records: HoodieData, partitioner: BulkInsertPartitioner) -> HoodieData:
    """The rows as a partitioner spreads and sorts them."""
    stays = isinstance(partitioner, NonSortPartitioner | PartitionSortPartitioner)
    return partitioner.repartition_records(records, 0 if stays else records.num_partitions)


def _count_upserts(records: HoodieData) -> int:
    """The number of rows that are to be written."""
    counts = records.count_by([OPERATION])
    return sum(counts.filter(pc.equal(counts[OPERATION], int(RecordOperation.UPSERT)))["count"].to_pylist())
