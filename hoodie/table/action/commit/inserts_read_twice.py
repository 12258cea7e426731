"""Inserts that read their input twice instead of keeping it.

Hudi has no counterpart: it keeps the input.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import BUCKET, OPERATION, PARTITION_PATH, RECORD_KEY, ROW_NUMBER, reserved_field
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.model.write_status import STATUS_SCHEMA, WithoutEffect, WriteStatus, unpack
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.bucket_routing import BucketNumbers, InsertRouting
from hoodie.engine.data import HoodieData, PartitionFunction
from hoodie.engine.engine_context import Shared
from hoodie.execution.insert_handler import upserts_only
from hoodie.index.index import KeyLocations, tag_with_locations
from hoodie.index.merged_keys import MergedKeys
from hoodie.table.action.commit.base_commit_action_executor import BUCKET_HANDLERS, NotFound
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.action.commit.hashed_rows import BucketOfRow, CombineRows, TagRows
from hoodie.table.action.commit.incoming_keys import IncomingKeys
from hoodie.table.action.commit.known_rows import InsertsOnly, KnownRows, SliceKeys
from hoodie.table.action.commit.located_in_tasks import HashedInput, LocatesInTasks
from hoodie.table.action.commit.named_rows import BucketOfNewRow, NamedCounts
from hoodie.table.action.commit.two_readings import InputReadOtherwise, usable_rows
from hoodie.table.action.commit.upsert_partitioner import BucketAssigner, UpsertPartitioner
from hoodie.table.action.commit.write_tasks import WriteTasks
from hoodie.table.action.write_metadata import HoodieWriteMetadata

logger = logging.getLogger(__name__)

_KEY_SHARE = 8
"""The bytes of a base file that are read for each byte that is written in that time."""
_CHECKED_BYTES = 16
"""What a row costs that is only looked up: the bytes that are written in that time."""


@attrs.frozen
class KnownSlices:
    """The slices that have hashes of incoming keys; the task of each compares the keys.

    Attributes:
        slices: The slices.
        sizes: The cost of looking up their rows, as bytes that are written in that time.
        num_keys: The number of distinct hashes that they have; 0 if that was not counted.
    """

    slices: tuple[FileSlice, ...]
    sizes: tuple[int, ...]
    num_keys: int

    @classmethod
    def of(cls, located: HashedInput) -> KnownSlices:
        """The slices of an input."""
        updates = located.keys.updates
        found = np.flatnonzero(updates).tolist()
        sizes = (updates[found] * _CHECKED_BYTES).tolist()
        return cls(tuple(located.slices[number] for number in found), tuple(sizes), int(updates.sum()))

    @classmethod
    def in_partitions(cls, file_slices: Mapping[str, Sequence[FileSlice]]) -> KnownSlices:
        """All slices of some partitions.

        Args:
            file_slices: Partition path to the slices.
        """
        slices = tuple(part for group in file_slices.values() for part in group)
        return cls(slices, tuple(part.size_bytes // _KEY_SHARE for part in slices), 0)

    @property
    def buckets(self) -> tuple[BucketInfo, ...]:
        """A bucket for each slice."""
        return tuple(BucketInfo(BucketType.UPDATE, s.file_id, s.partition_path, s) for s in self.slices)

    def numbers(self, first: int) -> dict[tuple[str, str], int]:
        """(partition path, file id) to bucket number, beginning with a number."""
        return {(s.partition_path, s.file_id): number for number, s in enumerate(self.slices, first)}


class InsertsReadTwice(LocatesInTasks):
    """Writes new rows of inputs that are read twice."""

    _looked_up_in_tasks = False
    """Whether tasks have looked keys up, which did not decide what becomes of the rows."""

    def _insert_new_keys(self, records: HoodieData, policy: InsertDupPolicy) -> HoodieWriteMetadata | None:
        """Write the rows whose key is not in the table, or refuse the others; see `two_readings`.

        Args:
            records: The rows, which are read twice.
            policy: The treatment of rows whose key is in the table: they are dropped or refused.

        Returns:
            None if rows must be kept: see `_insert_reading_twice` and `_insert_by_hashes`.

        Raises:
            HoodieDuplicateKeyException: The policy refuses such rows, and there are some.
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        index = self._table.index
        if index.names_file_groups:
            return self._insert_reading_twice(records, self._combines(policy), policy)
        keys, counts, _ = self._read_input(records, [PARTITION_PATH], keys_only=True)
        if keys is None or keys.has_duplicates(index.is_global):
            return self._insert_by_hashes(records, policy)
        found = self._find_locations(keys, counts)
        if found is None:
            return None
        locations, new, matches = found
        self._refuse_known_keys(policy, matches)
        tagged = tag_with_locations(records.map_batches(usable_rows, records.schema), locations)
        rows = tagged.map_batches(NotFound(tuple(records.schema.names)), records.schema)
        with self._metrics.step("build workload profile") as step:
            rows = rows.map_batches(upserts_only, rows.schema)
            partitioner = self._plan_buckets(rows, new.count_by_partition(), step)
        self._without_effect += WithoutEffect(
            kept=matches, unmatched_deletes=keys.table.num_rows - matches - new.table.num_rows
        )
        statuses = self._write_buckets(rows, partitioner, expected=new.seen())
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _find_locations(self, keys: IncomingKeys, counts: pa.Table) -> tuple[Shared, IncomingKeys, int] | None:
        """Look up keys that are at hand.

        Args:
            keys: The keys.
            counts: See `_read_input`.

        Returns:
            The shared `Locations` of those in the table; see `IncomingKeys.not_found`. None if keys do not decide.
        """
        indexed = self._indexed(counts, exact=True)
        indexed = attrs.evolve(indexed, request=attrs.evolve(indexed.request, stays=True))
        if not self._table.index.decides_by_keys(indexed):
            return None
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            step.count(files=len(indexed.slices))
            locations = self._table.index.find_locations(keys.table, self._context, indexed)
            return indexed.notes.share(self._context, locations), *keys.not_found(locations)

    def _insert_kept(self, records: HoodieData, policy: InsertDupPolicy) -> HoodieWriteMetadata | None:
        """Write rows that are kept, whose keys are too many for the driver.

        Args:
            records: The rows, kept and numbered.
            policy: See `_insert_new_keys`.

        Returns:
            See `_insert_new_keys`.
        """
        try:
            if self._table.index.names_file_groups:
                return self._insert_reading_twice(records, self._combines(policy), policy)
            return self._insert_by_hashes(records, policy)
        except InputReadOtherwise as error:
            # Two keys have one hash, or an executor was lost: the rows themselves are compared then.
            logger.info("%s: %s. Keys are joined with those of the table", self._table.snapshot.base_path, error)
            self._without_effect = WithoutEffect()
            return None

    def _insert_by_hashes(self, records: HoodieData, policy: InsertDupPolicy) -> HoodieWriteMetadata | None:
        """Write rows whose keys are too many for the driver, or repeat: tasks find out which ones are in the table.

        Rows whose hash no slice has are written. The others come to a task for each slice, which compares their keys
        with those of the slice, and drops them.

        Args:
            records: See `_insert_new_keys`.
            policy: See `_insert_new_keys`.

        Returns:
            None if `_locate_by_hashes` does not find the rows, or if known keys are refused, and new ones have a stored
            hash.

        Raises:
            HoodieDuplicateKeyException: See `_insert_new_keys`.
            InputReadOtherwise: See `_insert_new_keys`; also if two keys have one hash.
        """
        if self._looked_up_in_tasks:
            return None
        located = self._locate_by_hashes(records, exact=True, stays=True)
        if located is None:
            self._looked_up_in_tasks = True
            return None
        found = located.keys
        checks = KnownSlices.of(located)
        places = located.indexed.notes.share(self._context, located.places)
        if checks.slices and policy is InsertDupPolicy.FAIL:
            self._refuse_known_keys(policy, self._count_stored(records, checks, places))
            self._looked_up_in_tasks = True
            return None
        self._without_effect += WithoutEffect(unmatched_deletes=found.unmatched_deletes)
        with self._metrics.step("build workload profile") as step:
            counts = attrs.evolve(found, updates=np.zeros_like(found.updates)).counts(located.slices)
            partitioner = self._plan_buckets(records, counts, step)
        first = len(partitioner.buckets)
        buckets = (*partitioner.buckets, *checks.buckets)
        if not buckets:
            return HoodieWriteMetadata(self.operation, [], without_effect=self._without_effect)
        write = InsertsOnly(BUCKET_HANDLERS[self._write_context.table_config.table_type](self._write_context, buckets))
        handler: PartitionFunction = write
        if found.repeated and self._combines(policy):
            merge_spec = self._table.merge_spec
            handler = CombineRows(write, merge_spec.combine_duplicates, merge_spec.combines_rows, buckets)
        slices = (*[None] * first, *checks.slices)
        assigner = partitioner.assigner(drops_unknown=True)
        statuses = self._write_by_keys(
            records,
            BucketOfRow(places, attrs.evolve(assigner, update_buckets=checks.numbers(first))),
            buckets,
            WriteTasks.of([*partitioner.bucket_bytes, *checks.sizes], self._context.least_write_tasks),
            KnownRows(handler, slices, self._slice_keys, checked_from=first),
            found.seen,
            row_numbers=ROW_NUMBER if found.repeated else None,
        )
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _count_stored(self, records: HoodieData, known: KnownSlices, locations: Shared) -> int:
        """Count the rows whose key is in the slice that their location names.

        Args:
            records: The rows, whose keys are read once more.
            known: The slices.
            locations: The shared `Locations`.
        """
        if not known.slices:
            return 0
        with self._metrics.step("compare known keys") as step:
            keys = records.select([RECORD_KEY, PARTITION_PATH, OPERATION])
            tagged = tag_with_locations(keys.map_batches(usable_rows, keys.schema), locations)
            assigner = BucketAssigner(known.numbers(0), {}, drops_unknown=True)
            dealt = tagged.map_batches(assigner, tagged.schema.append(reserved_field(BUCKET)))
            tasks = WriteTasks.of(known.sizes, self._context.least_write_tasks)
            routed = dealt.route(BUCKET, tasks.count, tasks.task_of)
            check = KnownRows(None, known.slices, self._slice_keys, checked_from=0)
            results = unpack(routed.map_partitions_with_index(tasks.running(check), STATUS_SCHEMA).collect())
            stored = sum(result.kept for result in results if isinstance(result, WithoutEffect))
            step.count(records=stored)
            return stored

    @property
    def _slice_keys(self) -> SliceKeys:
        """The keys of stored slices, for tasks."""
        storage, written = self._write_context.storage, self._write_context.records
        if written.log_merging is None:
            return SliceKeys(storage)
        return SliceKeys(storage, MergedKeys(storage, written.schema, written.log_merging, exact=True))

    def _combines(self, policy: InsertDupPolicy) -> bool:
        """Whether one row of each key stays."""
        return self._config.write.combine_before_insert or policy is InsertDupPolicy.DROP

    def _insert_reading_twice(
        self, records: HoodieData, combines: bool = False, policy: InsertDupPolicy = InsertDupPolicy.NONE
    ) -> HoodieWriteMetadata | None:
        """Count the rows of each partition or bucket, then write them; see `two_readings`.

        Args:
            records: The rows, which are read twice.
            combines: Whether one row of each key stays. The tasks that write see to it: rows of one key and partition
                path come to one bucket.
            policy: The treatment of rows whose key is in the table, where the index names file groups.

        Returns:
            None if the index needs the keys to name file groups, or rows with different partition paths are to be
            combined, or if known keys are dropped in a table without keys.

        Raises:
            HoodieDuplicateKeyException: The policy refuses such rows, and there are some; no file was written.
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        places: Shared | None = None
        if combines and self._table.index.is_global:
            return None
        if policy is not InsertDupPolicy.NONE and self._write_context.has_virtual_keys:
            return None
        if self._table.index.names_file_groups:
            counted = self._count_by_names(records)
            if counted is None:
                return None
            found, locations, places = counted
            if policy is InsertDupPolicy.FAIL:
                known = KnownSlices.in_partitions(
                    self._latest_file_slices(pc.unique(found[PARTITION_PATH]).to_pylist())
                )
                self._refuse_known_keys(policy, self._count_stored(records, known, places))
            named = NamedCounts.of_inserts(found, locations, combines)
        else:
            nowhere = self._context.share(KeyLocations({}, ()))
            self._shared.append(nowhere)
            with self._metrics.step("read the input and its keys") as step:
                found = self._count_named(records, nowhere, step)
            named = NamedCounts.of_inserts(found, None, combines)
        self._latest_file_slices(pc.unique(found[PARTITION_PATH]).to_pylist())
        with self._metrics.step("build workload profile") as step:
            partitioner = self._plan_buckets(records, named.counts, step)
        self._without_effect += WithoutEffect(unmatched_deletes=named.unmatched_deletes, combined=0)
        statuses: list[WriteStatus] = []
        if partitioner.buckets:
            statuses = self._write_new_rows(records, partitioner, found, named, places, combines, policy)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _write_new_rows(
        self,
        records: HoodieData,
        partitioner: UpsertPartitioner,
        found: pa.Table,
        named: NamedCounts,
        places: Shared | None,
        combines: bool,
        policy: InsertDupPolicy,
    ) -> list[WriteStatus]:
        """Send rows to the tasks of their buckets.

        Args:
            records: The rows.
            partitioner: The buckets.
            found: The counts of the first reading, as `COUNTS`.
            named: The same by place.
            places: The shared `Locations` where the index names file groups.
            combines: Whether one row of each key stays.
            policy: See `_insert_reading_twice`; refused rows were looked for before.

        Raises:
            InputReadOtherwise: See `_insert_reading_twice`.
        """
        table_type = self._write_context.table_config.table_type
        buckets = tuple(partitioner.buckets)
        handler: PartitionFunction = BUCKET_HANDLERS[table_type](self._write_context, buckets)
        if places is not None and table_type is HoodieTableType.MERGE_ON_READ:
            # Keys are not looked up in log files, so their rows tell whether they are in a new file group.
            handler = TagRows(handler, places)
        bucket_of = BucketOfNewRow(partitioner.assigner(drops_unknown=True), places, takes_deletes=combines)
        # Without duplicates the last row of a key counts, and log files hold no duplicates.
        repeats = self._config.write.merge_allow_duplicate_on_inserts and places is None and not combines
        row_numbers = None if repeats else ROW_NUMBER
        if combines:
            merge_spec = self._table.merge_spec
            write = InsertsOnly(handler)
            handler = CombineRows(write, merge_spec.combine_duplicates, merge_spec.combines_rows, buckets)
        if policy is InsertDupPolicy.DROP:
            slices = tuple(bucket.file_slice for bucket in buckets)
            handler = KnownRows(handler, slices, self._slice_keys, checked_from=len(buckets))
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
