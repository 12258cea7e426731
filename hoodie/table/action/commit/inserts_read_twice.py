"""Inserts that read their input twice instead of keeping it.

Hudi has no counterpart: it keeps the input.
"""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import PARTITION_PATH, ROW_NUMBER
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.model.write_status import WithoutEffect, WriteStatus
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.bucket_routing import BucketNumbers, InsertRouting
from hoodie.engine.data import HoodieData, PartitionFunction
from hoodie.engine.engine_context import Shared
from hoodie.execution.insert_handler import upserts_only
from hoodie.index.index import KeyLocations, tag_with_locations
from hoodie.table.action.commit.base_commit_action_executor import (
    BUCKET_HANDLERS,
    BaseCommitActionExecutor,
    NotFound,
)
from hoodie.table.action.commit.hashed_rows import CombineRows, TagRows
from hoodie.table.action.commit.named_rows import BucketOfNewRow, NamedCounts
from hoodie.table.action.commit.two_readings import usable_rows
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner
from hoodie.table.action.write_metadata import HoodieWriteMetadata


class InsertsReadTwice(BaseCommitActionExecutor):
    """Writes new rows of inputs that are read twice."""

    def _insert_new_keys(self, records: HoodieData, policy: InsertDupPolicy) -> HoodieWriteMetadata | None:
        """Write the rows whose key is not in the table, or refuse the others; see `two_readings`.

        Args:
            records: The rows, which are read twice.
            policy: The treatment of rows whose key is in the table: they are dropped or refused.

        Returns:
            None if keys repeat, are too many for the driver, or do not decide alone.

        Raises:
            HoodieDuplicateKeyException: The policy refuses such rows, and there are some.
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        index = self._table.index
        if index.names_file_groups:
            return None
        keys, counts, _ = self._read_input(records, [PARTITION_PATH], keys_only=True)
        if keys is None or keys.has_duplicates(index.is_global):
            return None
        indexed = self._indexed(counts, exact=True)
        indexed = attrs.evolve(indexed, request=attrs.evolve(indexed.request, stays=True))
        if not index.decides_by_keys(indexed):
            return None
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            step.count(files=len(indexed.slices))
            locations = index.find_locations(keys.table, self._context, indexed)
            new, matches = keys.not_found(locations)
            shared = indexed.notes.share(self._context, locations)
        self._refuse_known_keys(policy, matches)
        tagged = tag_with_locations(records.map_batches(usable_rows, records.schema), shared)
        rows = tagged.map_batches(NotFound(tuple(records.schema.names)), records.schema)
        with self._metrics.step("build workload profile") as step:
            rows = rows.map_batches(upserts_only, rows.schema)
            partitioner = self._plan_buckets(rows, new.count_by_partition(), step)
        self._without_effect += WithoutEffect(
            kept=matches, unmatched_deletes=keys.table.num_rows - matches - new.table.num_rows
        )
        statuses = self._write_buckets(rows, partitioner, expected=new.seen())
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _insert_reading_twice(self, records: HoodieData, combines: bool = False) -> HoodieWriteMetadata | None:
        """Count the rows of each partition or bucket, then write them; see `two_readings`.

        Args:
            records: The rows, which are read twice.
            combines: Whether one row of each key stays. The tasks that write see to it: rows of one key and partition
                path come to one bucket.

        Returns:
            None if the index needs the keys to name file groups, or rows with different partition paths or deletes are
            to be combined.

        Raises:
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        places: Shared | None = None
        if combines and self._table.index.is_global:
            return None
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
        if combines and pc.any(found["is_delete"]).as_py():
            return None
        self._latest_file_slices(pc.unique(found[PARTITION_PATH]).to_pylist())
        with self._metrics.step("build workload profile") as step:
            partitioner = self._plan_buckets(records, named.counts, step)
        self._without_effect += WithoutEffect(unmatched_deletes=named.unmatched_deletes, combined=0)
        statuses: list[WriteStatus] = []
        if partitioner.buckets:
            statuses = self._write_new_rows(records, partitioner, found, named, places, combines)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _write_new_rows(
        self,
        records: HoodieData,
        partitioner: UpsertPartitioner,
        found: pa.Table,
        named: NamedCounts,
        places: Shared | None,
        combines: bool,
    ) -> list[WriteStatus]:
        """Send rows to the tasks of their buckets.

        Args:
            records: The rows.
            partitioner: The buckets.
            found: The counts of the first reading, as `COUNTS`.
            named: The same by place.
            places: The shared `Locations` where the index names file groups.
            combines: Whether one row of each key stays.

        Raises:
            InputReadOtherwise: See `_insert_reading_twice`.
        """
        table_type = self._write_context.table_config.table_type
        buckets = tuple(partitioner.buckets)
        handler: PartitionFunction = BUCKET_HANDLERS[table_type](self._write_context, buckets)
        if places is not None and table_type is HoodieTableType.MERGE_ON_READ:
            # Keys are not looked up in log files, so their rows tell whether they are in a new file group.
            handler = TagRows(handler, places)
        bucket_of = BucketOfNewRow(partitioner.assigner(drops_unknown=True), places)
        # Without duplicates the last row of a key counts, and log files hold no duplicates.
        repeats = self._config.write.merge_allow_duplicate_on_inserts and places is None and not combines
        row_numbers = None if repeats else ROW_NUMBER
        if combines:
            merge_spec = self._table.merge_spec
            handler = CombineRows(handler, merge_spec.combine_duplicates, merge_spec.combines_rows, buckets)
        dealer: InsertRouting | BucketNumbers | None = None
        if places is not None:
            dealer = self._bucket_numbers(partitioner, found)
        elif self._key_generator is not None and not combines:
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
