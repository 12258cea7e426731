"""Update records whose key is in the table, insert the others.

Hudi: org.apache.hudi.table.action.commit.{SparkUpsertCommitActionExecutor, SparkUpsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    DECIDING_COLUMNS,
    OPERATION,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.unprepared_rows import SAMPLED_BAD_ROWS
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.model.write_status import RowsSeen, WithoutEffect
from hoodie.common.util.shown_value import short_repr
from hoodie.config.payload_config import MissingKeyPolicy
from hoodie.engine.bucket_routing import BucketNumbers
from hoodie.engine.data import HoodieData, PartitionFunction, RowNumbers
from hoodie.engine.engine_context import Shared
from hoodie.exception import (
    HoodieKeyException,
    HoodieUpsertException,
)
from hoodie.index.index import IndexedTable, tag_with_locations
from hoodie.keygen.generated_keys import are_new
from hoodie.merge.appended_rows import lacking_order
from hoodie.table.action.commit.base_commit_action_executor import BUCKET_HANDLERS, BaseCommitActionExecutor
from hoodie.table.action.commit.hashed_rows import BucketOfRow, CombineRows, PlaceRows, TagRows
from hoodie.table.action.commit.incoming_keys import (
    DropDeleted,
    IncomingKeys,
    LocatedRows,
    WithoutRows,
    collect_keys,
    without_deletes_of_nothing,
)
from hoodie.table.action.commit.located_in_tasks import LocatesInTasks
from hoodie.table.action.commit.missing_keys import FirstRows, missing_keys
from hoodie.table.action.commit.named_rows import BucketOfNamedRow, NamedCounts
from hoodie.table.action.commit.two_readings import InputReadOtherwise, usable_rows
from hoodie.table.action.commit.upsert_partitioner import BucketAssigner, UpsertPartitioner
from hoodie.table.action.commit.upsert_plan import UpsertPlan, plan_file_groups
from hoodie.table.action.write_metadata import HoodieWriteMetadata

_CARRIED = ("__hoodie_carried_instant_time", "__hoodie_carried_file_id")
"""Columns with the locations that prepped records carry, while the index tags all records."""


@attrs.frozen
class _KeptInput:
    """An input whose rows are kept.

    Attributes:
        records: The rows, numbered.
        keys: Their keys; None if they are too many for the driver.
        counts: The rows by partition path, and by operation if there are no keys.
        num_records: The number of rows.
    """

    records: HoodieData
    keys: IncomingKeys | None
    counts: pa.Table
    num_records: int


@attrs.frozen
class _PlannedWrite:
    """The plan of a write, made before the first file is written.

    Attributes:
        num_records: Rows of the input.
        records: Its rows, combined and tagged.
        indexed: The files that the index looked into.
        partitioner: Assigns the rows to buckets.
        without_effect: Rows that are not written.
    """

    num_records: int
    records: HoodieData
    indexed: IndexedTable
    partitioner: UpsertPartitioner
    without_effect: WithoutEffect


class UpsertCommitActionExecutor(LocatesInTasks):
    """Update records whose key is in the table, insert the others.

    Hudi: org.apache.hudi.table.action.commit.SparkUpsertCommitActionExecutor.
    """

    operation = WriteOperationType.UPSERT

    _needs_rows = False
    """Whether keys alone did not decide where rows go, although tasks looked them up."""

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        records = self._limited(records, self._parallelism)
        written = self._without_keeping(records, self._execute_reading_twice)
        if written is not None:
            return written
        # Rows that are kept are the same in each reading.
        with self._kept(records) as kept:
            if kept.keys is None:
                written = self._execute_in_tasks(kept.records, is_kept=True)
                if written is not None:
                    return written
            with self._planned(kept, begins=True) as planned:
                statuses = self._write_buckets(planned.records, planned.partitioner)
                return HoodieWriteMetadata(self.operation, statuses, without_effect=planned.without_effect)

    def explain(self, records: HoodieData) -> UpsertPlan:
        """Say what `execute` would write; nothing is written.

        Args:
            records: See `execute`.

        Raises:
            HoodieKeyException: See `execute`.
        """
        limited = self._limited(records, self._parallelism)
        with self._kept(limited) as kept, self._planned(kept, begins=False) as planned:
            with self._metrics.step("count records of each file group"):
                columns = [RECORD_KEY, PARTITION_PATH, OPERATION, CURRENT_FILE_ID]
                rows = planned.records.select(columns)
                dealt = rows.map_batches(planned.partitioner.assigner(), rows.schema.append(reserved_field(BUCKET)))
                counts = dealt.count_by([BUCKET, CURRENT_FILE_ID, OPERATION])
            report = planned.indexed.work.report()
            return UpsertPlan(
                base_path=self._table.snapshot.base_path,
                index=self._config.index.index_name,
                records=planned.num_records,
                file_groups=plan_file_groups(planned.partitioner.buckets, counts, report),
                index_report=report,
                record_size=planned.partitioner.record_size,
            )

    def _execute_reading_twice(self, records: HoodieData) -> HoodieWriteMetadata | None:
        """Read the keys, then the rows, without keeping them; see `two_readings`.

        Returns:
            None if the rows must be kept: keys repeat, are too many for the driver, or do not decide alone.

        Raises:
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        index = self._table.index
        try:
            keys, counts, _ = self._read_input(records, [PARTITION_PATH], keys_only=True)
            if keys is None:
                return self._execute_in_tasks(records)
            if keys.has_duplicates(index.is_global):
                return None
            indexed = self._indexed(counts, exact=self._must_know_keys)
            if not index.decides_by_keys(indexed):
                return None
            rows = records.map_batches(usable_rows, records.schema)
            located, places = self._tag(rows, keys, indexed, sees_rows=True)
            tagged = located.map_batches(without_deletes_of_nothing, located.schema)
            self._refuse_missing_keys(tagged, places.counts)
            with self._metrics.step("build workload profile") as step:
                partitioner = self._plan_buckets(tagged, places.counts, step)
            statuses = self._write_buckets(tagged, partitioner, expected=places.seen)
            without_effect = WithoutEffect(unmatched_deletes=places.unmatched_deletes, combined=0)
            return HoodieWriteMetadata(self.operation, statuses, without_effect=without_effect + self._without_effect)
        except InputReadOtherwise:
            self._needs_rows = False
            raise

    def _execute_in_tasks(self, records: HoodieData, is_kept: bool = False) -> HoodieWriteMetadata | None:
        """Write rows whose keys are too many for the driver: tasks find out where they go.

        Args:
            records: The rows, which are read twice.
            is_kept: Whether they are kept, so that the second reading gives the same.

        Returns:
            None if whole rows must be looked up, or new keys are refused; nothing was written.

        Raises:
            InputReadOtherwise: The second reading gave other rows than the first; files were written.
        """
        if self._needs_rows:
            return None
        self._needs_rows = True
        is_of_user = self._write_context.placement.verifies_positions
        if self._table.index.names_file_groups and not (self._must_know_keys or is_of_user):
            return self._execute_by_names(records, is_kept)
        return self._execute_by_hashes(records, is_kept)

    def _execute_by_hashes(self, records: HoodieData, is_kept: bool) -> HoodieWriteMetadata | None:
        """See `_execute_in_tasks` and `LocatesInTasks`.

        Returns:
            None also if `_locate_by_hashes` does not find the rows.
        """
        located = self._locate_by_hashes(records, exact=self._must_know_keys)
        if located is None or (located.keys.inserts and self._refuses_missing_keys):
            return None
        counts = located.keys.counts(located.slices)
        places = located.indexed.notes.share(self._context, located.places)
        self._without_effect += WithoutEffect(unmatched_deletes=located.keys.unmatched_deletes)
        return self._write_in_tasks(
            records,
            counts,
            places,
            partial(BucketOfRow, places),
            located.keys.seen,
            located.keys.repeated > 0,
            is_kept,
            knows_positions=located.places.known_positions is not None,
        )

    def _execute_by_names(self, records: HoodieData, is_kept: bool) -> HoodieWriteMetadata | None:
        """See `_execute_in_tasks`: count rows by the file groups that the index names for their keys, then write."""
        counted = self._count_by_names(records)
        if counted is None:
            return None
        found, locations, places = counted
        named = NamedCounts.of(found, locations)
        if self._lacking_order and named.counts[CURRENT_INSTANT_TIME].null_count:
            return None
        self._without_effect += WithoutEffect(unmatched_deletes=named.unmatched_deletes)
        place_of = partial(BucketOfNamedRow, places)
        dealer_of = partial(self._bucket_numbers, found=found)
        return self._write_in_tasks(
            records, named.counts, places, place_of, named.seen, True, is_kept, dealer_of=dealer_of
        )

    def _write_in_tasks(
        self,
        records: HoodieData,
        counts: pa.Table,
        places: Shared,
        place_of: Callable[[BucketAssigner], RowNumbers],
        seen: RowsSeen,
        repeats: bool,
        is_kept: bool,
        knows_positions: bool = False,
        dealer_of: Callable[[UpsertPartitioner], BucketNumbers | None] = lambda _: None,
    ) -> HoodieWriteMetadata:
        """Send rows to the tasks of their buckets by their keys; see `_write_buckets`.

        The tasks look for the keys in their file group, and combine rows of one key.

        Args:
            records: The rows.
            counts: The rows by place, as `WorkloadProfile.from_counts` takes them.
            places: The shared `Locations`.
            place_of: Makes the function from keys to buckets.
            seen: The rows that must come to the tasks.
            repeats: Whether keys may repeat.
            is_kept: See `_execute_in_tasks`.
            knows_positions: Whether the function from keys to buckets has the positions of keys too.
            dealer_of: Gives the buckets in terms of the engine, if it may bring rows there itself.
        """
        with self._metrics.step("build workload profile") as step:
            partitioner = self._plan_buckets(records, counts, step)
        buckets = tuple(partitioner.buckets)
        if not buckets:
            return HoodieWriteMetadata(self.operation, [], without_effect=self._without_effect)
        has_logs = self._write_context.table_config.table_type is HoodieTableType.MERGE_ON_READ
        # Rows of one key are combined first, and log files need no positions.
        guesses_positions = knows_positions and not repeats and not has_logs
        placement = attrs.evolve(
            self._write_context.placement,
            knows_positions=False,
            guesses_positions=guesses_positions,
            looks_up_for_logs=not self._table.index.names_file_groups,
        )
        context = attrs.evolve(self._write_context, placement=placement)
        handler: PartitionFunction = BUCKET_HANDLERS[context.table_config.table_type](context, buckets)
        if has_logs:
            # Keys are not looked up in log files, so their rows tell new records from changed ones.
            handler = TagRows(handler, places)
        is_global = self._table.index.is_global
        if repeats:
            merge_spec = self._table.merge_spec
            combine = merge_spec.combine_duplicates if self._should_combine else DropDeleted(is_global)
            handler = CombineRows(handler, combine, merge_spec.combines_rows, buckets)
        bucket_of = place_of(partitioner.assigner(drops_unknown=True))
        row_numbers = ROW_NUMBER if repeats else None
        place_rows = PlaceRows(bucket_of) if guesses_positions and isinstance(bucket_of, BucketOfRow) else None
        statuses = self._write_by_keys(
            records,
            bucket_of,
            buckets,
            self._write_tasks(partitioner),
            handler,
            seen,
            is_kept=is_kept,
            row_numbers=row_numbers,
            place_rows=place_rows,
            dealer=dealer_of(partitioner),
        )
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    @contextmanager
    def _kept(self, records: HoodieData) -> Iterator[_KeptInput]:
        """Read the input, and keep its rows until the context is left."""
        records = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        try:
            yield _KeptInput(records, *self._read_input(records, [PARTITION_PATH, OPERATION]))
        finally:
            records.unpersist()
            self._release_shared()

    @contextmanager
    def _planned(self, kept: _KeptInput, begins: bool) -> Iterator[_PlannedWrite]:
        """Plan the write before its first file.

        Args:
            kept: The input.
            begins: Whether the plan is saved, which makes the instant inflight.
        """
        records, keys, counts, num_records = kept.records, kept.keys, kept.counts, kept.num_records
        located: HoodieData | None = None
        combined: HoodieData = records
        try:
            indexed = self._indexed(counts, exact=self._must_know_keys)
            indexed = attrs.evolve(indexed, request=attrs.evolve(indexed.request, reads_only=not begins))
            if self._should_combine and keys is None:
                combined = self._combine(records, True)
            elif self._should_combine and keys is not None and keys.has_duplicates(self._table.index.is_global):
                if self._table.merge_spec.combines_rows:
                    combined = self._combine(records, True).persist()
                    keys = collect_keys(combined)
                else:
                    combined, keys = self._drop_losers(records, keys)
            elif not self._should_combine and _has_deletes(keys, counts):
                combined, keys = self._drop_deleted(records, keys)
            located, places = self._tag(combined, keys, indexed)
            tagged = located.map_batches(without_deletes_of_nothing, located.schema)
            self._refuse_missing_keys(tagged, places.counts)
            combined_count = keys.table.num_rows if keys is not None else combined.known_count
            if combined_count is None and combined is records:
                combined_count = num_records
            without_effect = WithoutEffect(
                unmatched_deletes=places.unmatched_deletes,
                combined=None if combined_count is None else num_records - combined_count,
            )
            with self._metrics.step("build workload profile") as step:
                partitioner = self._plan_buckets(tagged, places.counts, step, begins)
            yield _PlannedWrite(num_records, tagged, indexed, partitioner, without_effect)
        finally:
            if located is not None:
                located.unpersist()
            combined.unpersist()

    @property
    def _must_know_keys(self) -> bool:
        """Whether a key that is not in the table fails the write."""
        if self._is_keyless:
            return self.operation is WriteOperationType.UPSERT
        payload = self._config.payload
        if not payload.partial_update or payload.missing_keys is not MissingKeyPolicy.FAIL:
            return False
        return self.operation is WriteOperationType.UPSERT

    @property
    def _is_keyless(self) -> bool:
        """Whether the keys of the table are generated: the rows bring those of stored rows, or none."""
        return self._write_context.table_config.is_keyless

    @property
    def _refuses_missing_keys(self) -> bool:
        """Whether keys that are not in the table may fail the write."""
        return self._must_know_keys or bool(self._lacking_order)

    @property
    def _lacking_order(self) -> Collection[str]:
        """The columns that order records of a merge-on-read table, if the input lacks them."""
        if self._write_context.table_config.table_type is not HoodieTableType.MERGE_ON_READ:
            return ()
        return lacking_order(self._table.merge_spec, self._write_context.records.schema)

    def _drop_losers(self, records: HoodieData, keys: IncomingKeys) -> tuple[HoodieData, IncomingKeys]:
        """One row for each key, decided by the keys at hand."""
        with self._metrics.step("combine records of one key") as step:
            keys, losers = keys.combine(self._table.merge_spec, self._table.index.is_global)
            step.count(records=keys.table.num_rows)
            return self._without(records, losers), keys

    def _drop_deleted(self, records: HoodieData, keys: IncomingKeys | None) -> tuple[HoodieData, IncomingKeys | None]:
        """The rows, not combined, without those that a later row of their key deletes.

        Hudi: HoodieMergeHandle.init, where the last record of a key counts. Differs: HoodieCreateHandle stores records
        that a later record deletes.
        """
        is_global = self._table.index.is_global
        with self._metrics.step("combine records of one key") as step:
            if keys is None:
                columns = [RECORD_KEY] if is_global else [RECORD_KEY, PARTITION_PATH]
                return records.combine_by_key(columns, DropDeleted(is_global)), None
            keys, deleted = keys.without_deleted(is_global)
            step.count(records=keys.table.num_rows)
            return (self._without(records, deleted) if deleted.num_rows else records), keys

    def _without(self, records: HoodieData, rows: pa.RecordBatch) -> HoodieData:
        shared = self._context.share(rows)
        self._shared.append(shared)
        return records.map_batches(WithoutRows(shared), records.schema)

    def _tag(
        self, records: HoodieData, keys: IncomingKeys | None, indexed: IndexedTable, sees_rows: bool = False
    ) -> tuple[HoodieData, LocatedRows]:
        """The rows with their locations, deletes of nothing among them, and how many go where.

        Args:
            records: The rows.
            keys: Their keys, if they are at hand.
            indexed: The files.
            sees_rows: See `IncomingKeys.count_by_location`.
        """
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            step.count(files=len(indexed.slices))
            if keys is not None and self._table.index.decides_by_keys(indexed):
                locations = self._table.found_locations
                if locations is None:
                    locations = self._table.index.find_locations(keys.table, self._context, indexed)
                tagged = tag_with_locations(records, indexed.notes.share(self._context, locations))
                return tagged, keys.count_by_location(locations, sees_rows)
            tagged = self._table.index.tag_location(records, self._context, indexed).persist()
            return tagged, LocatedRows.of(tagged)

    def _refuse_missing_keys(self, tagged: HoodieData, located: pa.Table) -> None:
        """Fail a partial update that has keys which are not in the table, unless they may be inserted."""
        if not located[CURRENT_FILE_ID].null_count or not self._refuses_missing_keys:
            return
        lacking = self._lacking_order
        missing = missing_keys(tagged, self._table.index.is_global)
        if self._is_keyless:
            missing = missing.map_batches(_brought_keys, missing.schema)
        count = missing.count()
        if not count:
            return
        sample = missing.map_partitions_with_index(FirstRows(SAMPLED_BAD_ROWS), missing.schema).collect()
        shown = sample[RECORD_KEY].to_pylist()[:SAMPLED_BAD_ROWS] if sample is not None else []
        if self._is_keyless:
            raise HoodieKeyException(
                f"{count} of the rows carry keys that are not in the table, among them "
                f"{', '.join(short_repr(key) for key in shown)}: the rows were deleted since they were read, or they "
                "are of another table; nothing was written. Read the rows again. To add rows of another table, drop "
                f"{RECORD_KEY_META} and {PARTITION_PATH_META}, and insert them"
            )
        problem = (
            f"{count} of the keys of this partial update are not in the table, among them "
            f"{', '.join(short_repr(key) for key in shown)}"
        )
        if not self._must_know_keys:
            raise HoodieKeyException(
                f"{problem}; and it lacks the column '{', '.join(sorted(lacking))}', which orders records: readers of "
                "a merge-on-read table do not agree about records without it; nothing was written. Add that column, or "
                "leave these keys out"
            )
        raise HoodieKeyException(
            f"{problem}; nothing was written. Leave them out, or set hoodie.write.partial.update.missing.keys=INSERT "
            "to add them with nulls in the columns that the input lacks"
        )

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_upsert

    @property
    def _parallelism(self) -> int:
        return self._config.write.upsert_shuffle_parallelism


class UpsertPreppedCommitActionExecutor(BaseCommitActionExecutor):
    """Write records that carry their locations, without looking their keys up; records are not combined.

    A record whose key is not in the file group that it names fails the write: the table has changed since.

    Hudi: org.apache.hudi.table.action.commit.SparkUpsertPreppedCommitActionExecutor. Differs: Hudi appends such a
    record.
    """

    operation = WriteOperationType.UPSERT_PREPPED

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        records = self._limited(records, self._config.write.upsert_shuffle_parallelism).number_rows(ROW_NUMBER)
        fixed = (*DECIDING_COLUMNS, CURRENT_FILE_ID, CURRENT_ROW_POSITION)
        records = records.map_batches(without_deletes_of_nothing, records.schema).persist(fixed)
        columns = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
        try:
            _, counts, _ = self._read_input(records, columns, collects=False)
            self._refuse_unknown_file_groups(counts)
            placed = records
            if self._table.index.names_file_groups:
                placed, counts = self._place_new(records, counts)
            with self._metrics.step("build workload profile") as step:
                partitioner = self._plan_buckets(placed, counts, step)
            return HoodieWriteMetadata(self.operation, self._write_buckets(placed, partitioner))
        finally:
            records.unpersist()
            self._release_shared()

    def _place_new(self, records: HoodieData, counts: pa.Table) -> tuple[HoodieData, pa.Table]:
        """Name the file groups of new records; the others are marked by a row position, which is looked up later."""
        set_aside = records.map_batches(_set_aside, _carried_schema(records.schema))
        placed = self._placed(set_aside, counts)
        schema = records.schema.append(reserved_field(CURRENT_ROW_POSITION))
        records = placed.map_batches(_CarriedPlaces(tuple(schema.names)), schema)
        return records, records.count_by([PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME])

    def _refuse_unknown_file_groups(self, counts: pa.Table) -> None:
        paths = counts[PARTITION_PATH].to_pylist()
        slices = self._latest_file_slices(sorted(set(paths)))
        known = {(path, file_slice.file_id) for path, group in slices.items() for file_slice in group}
        named = zip(paths, counts[CURRENT_FILE_ID].to_pylist(), strict=True)
        unknown = sorted({(path, file_id) for path, file_id in named if file_id is not None} - known)
        if unknown:
            raise HoodieUpsertException(
                f"records are tagged with {len(unknown)} file groups that the table does not have now, such as "
                f"{unknown[0][1]} of partition '{unknown[0][0]}': it was changed since they were read. Read them "
                "again, or use upsert"
            )


def _has_deletes(keys: IncomingKeys | None, counts: pa.Table) -> bool:
    """Whether some rows are deletes and others are not.

    Args:
        keys: The keys, where they are at hand.
        counts: Else rows by operation.
    """
    operations = set(keys.table[OPERATION].unique().to_pylist() if keys is not None else counts[OPERATION].to_pylist())
    return len(operations - {None}) > 1


def _brought_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The keys that rows brought, without those of new rows."""
    return batch.filter(pc.invert(are_new(batch.column(RECORD_KEY))))


def _carried_schema(schema: pa.Schema) -> pa.Schema:
    names = dict(zip((CURRENT_INSTANT_TIME, CURRENT_FILE_ID), _CARRIED, strict=True))
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema])


def _set_aside(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=_carried_schema(batch.schema))


@attrs.frozen
class _CarriedPlaces:
    """Rows with their locations: those that they carry, with position -1; of new rows, those that the index names."""

    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_located = batch.column(_CARRIED[1]).is_valid()
        columns = {
            CURRENT_INSTANT_TIME: pc.if_else(is_located, batch.column(_CARRIED[0]), batch.column(CURRENT_INSTANT_TIME)),
            CURRENT_FILE_ID: pc.if_else(is_located, batch.column(_CARRIED[1]), batch.column(CURRENT_FILE_ID)),
            CURRENT_ROW_POSITION: pc.if_else(is_located, pa.scalar(-1, pa.int64()), pa.scalar(None, pa.int64())),
        }
        arrays = [columns[name] if name in columns else batch.column(name) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=self.columns)
