"""Do a write operation: from records in flight to files on storage and their statuses. Nothing is committed here.

Hudi: org.apache.hudi.table.action.commit.BaseCommitActionExecutor and its subclasses
SparkUpsertCommitActionExecutor, SparkInsertCommitActionExecutor, SparkBulkInsertCommitActionExecutor,
SparkDeleteCommitActionExecutor.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import exception
from hoodie.common.data.data import HoodieData
from hoodie.common.engine.engine_context import Shared
from hoodie.common.engine.task_identity import TaskIdentity
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.merge_spec import MergeSpec
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    DECIDING_COLUMNS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.model.write_status import STATUS_SCHEMA, TaskFailure, WriteStatus, unpack
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.timeline.instant import Action
from hoodie.config.payload_config import MissingKeyPolicy
from hoodie.config.write_options import InsertDupPolicy
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieDuplicateKeyException,
    HoodieInsertException,
    HoodieKeyException,
    HoodieUpsertException,
)
from hoodie.execution.bulkinsert.bulk_insert_partitioner import (
    BulkInsertPartitioner,
    NonSortPartitioner,
    PartitionSortPartitioner,
    create_bulk_insert_partitioner,
)
from hoodie.index.index import IndexedTable, tag_with_locations
from hoodie.io.write_context import WriteContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.metrics.metrics import Step
from hoodie.table.action.commit.bucket_handler import BulkInsertHandler, CopyOnWriteBucketHandler
from hoodie.table.action.commit.incoming_keys import IncomingKeys, WithoutRows, collect_keys, without_deletes_of_nothing
from hoodie.table.action.commit.missing_keys import FirstRows, missing_keys
from hoodie.table.action.commit.record_preparer import failure_of
from hoodie.table.action.commit.record_size_sampler import measure_record_size
from hoodie.table.action.commit.small_file_joiner import join_small_files, plan_chains
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner, needs_record_size, recorded_record_size
from hoodie.table.table import HoodieTable
from hoodie.table.workload_profile import WorkloadProfile

__all__ = [
    "BaseCommitActionExecutor",
    "BulkInsertCommitActionExecutor",
    "BulkInsertPreppedCommitActionExecutor",
    "DeleteCommitActionExecutor",
    "HoodieWriteMetadata",
    "InsertCommitActionExecutor",
    "InsertPreppedCommitActionExecutor",
    "UpsertCommitActionExecutor",
    "UpsertPreppedCommitActionExecutor",
]

logger = logging.getLogger(__name__)

SAMPLED_BAD_ROWS = 5
"""Rows that an error about keys shows."""


@attrs.frozen
class HoodieWriteMetadata:
    """What an executor hands to the client.

    Attributes:
        operation: What was done.
        statuses: One for each written file.
        partition_to_replace_file_ids: File groups that the commit replaces.

    Hudi: org.apache.hudi.table.action.HoodieWriteMetadata.
    """

    operation: WriteOperationType
    statuses: Sequence[WriteStatus]
    partition_to_replace_file_ids: Mapping[str, Sequence[str]] = attrs.field(factory=dict)


class BaseCommitActionExecutor(ABC):
    """One write operation on one instant.

    Args:
        table: The table at the start of the write.
        write_context: What the tasks need.
        key_generator: Explains rows without a key; None when the input brought its keys.

    Hudi: org.apache.hudi.table.action.commit.BaseCommitActionExecutor. Differs: never commits.
    """

    operation: ClassVar[WriteOperationType]

    def __init__(self, table: HoodieTable, write_context: WriteContext, key_generator: KeyGenerator | None) -> None:
        self._table = table
        self._context = table.context
        self._config = table.config
        self._write_context = write_context
        self._key_generator = key_generator
        self._metrics = table.metrics
        self._shared: list[Shared] = []

    @abstractmethod
    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        """Write the records.

        Args:
            records: Batches in flight as `RecordPreparer` makes them.

        Raises:
            HoodieKeyException: Rows have no usable key; no file was written, or the caller rolls back.
        """

    def _save_workload_profile(self, profile: WorkloadProfile, partitioner: UpsertPartitioner | None) -> None:
        """From here on the instant is inflight: files may exist."""
        filling = partitioner.inserts_into if partitioner is not None else {}
        content = profile.to_commit_metadata(filling).to_json()
        instant_time = self._write_context.instant_time
        timeline = self._table.meta_client.active_timeline
        if not timeline.transition_requested_to_inflight(instant_time, Action.COMMIT, content):
            raise HoodieCommitException(
                f"instant {instant_time} is not waiting to be written: it was written, completed or rolled back "
                "before; "
                "start a new one with start_commit()"
            )
        self._table.has_begun = True
        meta_client = self._table.meta_client
        WriteMarkers(meta_client.storage, meta_client.meta_path, instant_time).open()

    def _refuse_rows_without_key(self, records: HoodieData, counts: pa.Table) -> None:
        """Fail when the counted partition paths include nulls: rows whose key or partition cannot be made."""
        missing = counts.filter(pc.is_null(counts[PARTITION_PATH]))
        count = sum(missing["count"].to_pylist())
        if not count:
            return
        sample = records.map_partitions_with_index(_first_bad_rows, records.schema).collect()
        failure = failure_of(sample)
        if failure is not None:
            raise failure
        raise HoodieKeyException(
            f"{count} of the records to {self.operation.value.lower()} have no usable key; nothing was written. "
            + self._explain(sample)
        )

    def _explain(self, rows: pa.Table | None) -> str:
        if rows is None or self._key_generator is None:
            return "Their record key or partition path is null or empty."
        batch = rows.slice(0, SAMPLED_BAD_ROWS).combine_chunks().to_batches()[0]
        return self._key_generator.explain_bad_rows(batch)

    def _combine(self, records: HoodieData, wanted: bool) -> HoodieData:
        """One row for each key and partition path, if wanted; for each key alone where the index is global."""
        if not wanted:
            return records
        with self._metrics.step("combine records of one key"):
            spec = self._table.merge_spec
            if self._table.index.is_global:
                return records.combine_by_key([RECORD_KEY], CombineByRecordKey(spec))
            return records.combine_by_key([RECORD_KEY, PARTITION_PATH], spec.combine_duplicates)

    def _indexed(self, counts: pa.Table) -> IndexedTable:
        """The files that the index looks into: those of the partitions that were counted, of all where it is global."""
        paths = set(counts[PARTITION_PATH].to_pylist())
        if self._table.index.is_global:
            paths.update(self._table.view.list_partitions())
        return IndexedTable(
            self._table.meta_client.storage,
            self._latest_base_files(sorted(paths)),
            self._write_context.merge_spec,
            self._write_context.schema,
        )

    def _without_stored(self, records: HoodieData, policy: InsertDupPolicy) -> HoodieData:
        """Numbered and persisted rows without those whose key is in the table, or a refusal of them."""
        with self._metrics.step("read the input and its keys") as step:
            keys = collect_keys(records)
            counts = keys.count_by_partition() if keys is not None else records.count_by([PARTITION_PATH])
            step.count(records=sum(counts["count"].to_pylist()))
            self._refuse_rows_without_key(records, counts)
        indexed = attrs.evolve(self._indexed(counts), stays=True)
        with self._metrics.step("tag location", str(self._config.index.index_type)) as step:
            step.count(files=len(indexed.files))
            if keys is not None:
                locations = self._table.index.find_locations(keys.table, self._context, indexed)
                shared = self._context.share(locations)
                self._shared.append(shared)
                tagged = tag_with_locations(records, shared)
                found = _found_rows(keys.count_by_location(locations))
            else:
                tagged = self._table.index.tag_location(records, self._context, indexed)
                found = _found_rows(tagged.count_by([CURRENT_FILE_ID])) if policy is InsertDupPolicy.FAIL else 0
        if policy is InsertDupPolicy.FAIL and found:
            raise HoodieDuplicateKeyException(
                f"the keys of {found} of the records to {self.operation.value.lower()} are in the table; nothing was "
                "written. Give hoodie.datasource.insert.dup.policy=drop to pass over them, none to add them again, or "
                "upsert them"
            )
        return tagged.map_batches(_NotFound(tuple(records.schema.names)), records.schema)

    @staticmethod
    def _limited(records: HoodieData, parallelism: int) -> HoodieData:
        """The records in as many tasks as they come in, or as few as ``parallelism``, unless that is 0."""
        return records.coalesce(parallelism) if parallelism else records

    def _partitioner(self, profile: WorkloadProfile, records: HoodieData) -> UpsertPartitioner:
        record_size = recorded_record_size(self._table.completed_commits_newest_first(), self._config)
        if record_size is None and needs_record_size(profile, self._config):
            with self._metrics.step("measure the size of records"):
                record_size = measure_record_size(records, self._write_context)
        if record_size is None:
            record_size = self._config.compaction.copy_on_write_record_size_estimate
        return UpsertPartitioner(profile, self._config, self._table.latest_base_files(profile.stats), record_size)

    def _write_buckets(self, records: HoodieData, partitioner: UpsertPartitioner) -> list[WriteStatus]:
        if not partitioner.num_buckets:
            return []
        with self._metrics.step("write buckets", str(partitioner.num_buckets)) as step:
            dealt = records.map_batches(partitioner.assigner(), records.schema.append(reserved_field(BUCKET)))
            routed = dealt.route(BUCKET, partitioner.num_buckets)
            handler = CopyOnWriteBucketHandler(self._write_context, tuple(partitioner.buckets))
            statuses = self._statuses(routed.map_partitions_with_index(handler, STATUS_SCHEMA), step)
        return self._join_small_files(statuses)

    def _join_small_files(self, statuses: list[WriteStatus]) -> list[WriteStatus]:
        """Leave at most one small file a partition, where the size of records was not what was expected."""
        if not plan_chains(statuses, self._config):
            return statuses
        with self._metrics.step("join small files") as step:
            joined = join_small_files(statuses, self._write_context, self._context)
            step.count(files=len(statuses) - len(joined))
            return joined

    def _statuses(self, written: HoodieData, step: Step) -> list[WriteStatus]:
        """Run the writing tasks, as a step.

        Raises:
            HoodieException: Of the class that a task's failure names.
        """
        results = unpack(written.collect())
        failures = [result for result in results if isinstance(result, TaskFailure)]
        if failures:
            count = sum(failure.count for failure in failures)
            error_class = getattr(exception, failures[0].error_class)
            raise error_class(
                f"{count} of the records to {self.operation.value.lower()} cannot be written. {failures[0].message}"
            )
        statuses = [result for result in results if isinstance(result, WriteStatus)]
        step.count(
            records=sum(status.stat.num_writes for status in statuses),
            files=len(statuses),
            bytes=sum(status.stat.total_write_bytes for status in statuses),
        )
        return statuses

    def _latest_base_files(self, partition_paths: Sequence[str]) -> dict[str, Sequence[HoodieBaseFile]]:
        """The latest base files of partitions."""
        with self._metrics.step("list base files") as step:
            files = self._table.latest_base_files(partition_paths)
            listed = [base_file for group in files.values() for base_file in group]
            step.count(files=len(listed), bytes=sum(base_file.size_bytes for base_file in listed))
        return files


class UpsertCommitActionExecutor(BaseCommitActionExecutor):
    """Update records whose key is in the table, insert the others.

    Hudi: org.apache.hudi.table.action.commit.SparkUpsertCommitActionExecutor.
    """

    operation = WriteOperationType.UPSERT

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        records = self._limited(records, self._parallelism).number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        tagged: HoodieData | None = None
        combined: HoodieData = records
        try:
            with self._metrics.step("read the input and its keys") as step:
                keys = collect_keys(records)
                counts = keys.count_by_partition() if keys is not None else records.count_by([PARTITION_PATH])
                step.count(records=sum(counts["count"].to_pylist()))
                self._refuse_rows_without_key(records, counts)
            indexed = self._indexed(counts)
            if self._should_combine and keys is None:
                combined = self._combine(records, True)
            elif self._should_combine and keys is not None and keys.has_duplicates(self._table.index.is_global):
                if self._table.merge_spec.combines_rows:
                    combined = self._combine(records, True).persist()
                    keys = collect_keys(combined)
                else:
                    combined, keys = self._drop_losers(records, keys)
            tagged, located = self._tag(combined, keys, indexed)
            self._refuse_missing_keys(tagged, located)
            with self._metrics.step("build workload profile") as step:
                profile = WorkloadProfile.from_counts(self.operation, located)
                partitioner = self._partitioner(profile, tagged)
                self._save_workload_profile(profile, partitioner)
                step.count(records=sum(located["count"].to_pylist()))
            statuses = self._write_buckets(tagged, partitioner)
            with self._metrics.step("update index"):
                self._table.index.update_location(statuses, self._context, indexed)
            return HoodieWriteMetadata(self.operation, statuses)
        finally:
            if tagged is not None:
                tagged.unpersist()
            combined.unpersist()
            records.unpersist()
            for shared in self._shared:
                shared.release()

    def _drop_losers(self, records: HoodieData, keys: IncomingKeys) -> tuple[HoodieData, IncomingKeys]:
        """One row for each key, decided by the keys at hand."""
        with self._metrics.step("combine records of one key") as step:
            keys, losers = keys.combine(self._table.merge_spec, self._table.index.is_global)
            step.count(records=keys.table.num_rows)
            shared = self._context.share(losers)
            self._shared.append(shared)
            return records.map_batches(WithoutRows(shared), records.schema), keys

    def _tag(
        self, records: HoodieData, keys: IncomingKeys | None, indexed: IndexedTable
    ) -> tuple[HoodieData, pa.Table]:
        """The rows with their locations, and how many go where."""
        with self._metrics.step("tag location", str(self._config.index.index_type)) as step:
            step.count(files=len(indexed.files))
            if keys is not None and self._table.index.decides_by_keys(indexed):
                locations = self._table.index.find_locations(keys.table, self._context, indexed)
                shared = self._context.share(locations)
                self._shared.append(shared)
                tagged = tag_with_locations(records, shared)
                return tagged.map_batches(without_deletes_of_nothing, tagged.schema), keys.count_by_location(locations)
            tagged = self._table.index.tag_location(records, self._context, indexed)
            tagged = tagged.map_batches(without_deletes_of_nothing, tagged.schema).persist()
            return tagged, tagged.count_by([PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME])

    def _refuse_missing_keys(self, tagged: HoodieData, located: pa.Table) -> None:
        """Fail a partial update that has keys which are not in the table, unless they may be inserted."""
        payload = self._config.payload
        if not payload.partial_update or payload.missing_keys is not MissingKeyPolicy.FAIL:
            return
        if self.operation is not WriteOperationType.UPSERT or not located[CURRENT_FILE_ID].null_count:
            return
        missing = missing_keys(tagged, self._table.index.is_global)
        count = missing.count()
        if count:
            sample = missing.map_partitions_with_index(FirstRows(SAMPLED_BAD_ROWS), missing.schema).collect()
            shown = sample[RECORD_KEY].to_pylist()[:SAMPLED_BAD_ROWS] if sample is not None else []
            raise HoodieKeyException(
                f"{count} of the keys of this partial update are not in the table, among them "
                f"{', '.join(repr(key) for key in shown)}; nothing was written. Leave them out, or set "
                "hoodie.write.partial.update.missing.keys=INSERT to add them with nulls in the columns that the input "
                "lacks"
            )

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_upsert

    @property
    def _parallelism(self) -> int:
        return self._config.write.upsert_shuffle_parallelism


class UpsertPreppedCommitActionExecutor(BaseCommitActionExecutor):
    """Write records that say where they live, without looking their keys up; nothing is combined.

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
            with self._metrics.step("read the input and its keys") as step:
                counts = records.count_by(columns)
                step.count(records=sum(counts["count"].to_pylist()))
                self._refuse_rows_without_key(records, counts)
            self._refuse_unknown_file_groups(counts)
            with self._metrics.step("build workload profile") as step:
                profile = WorkloadProfile.from_counts(self.operation, counts)
                partitioner = self._partitioner(profile, records)
                self._save_workload_profile(profile, partitioner)
                step.count(records=sum(counts["count"].to_pylist()))
            return HoodieWriteMetadata(self.operation, self._write_buckets(records, partitioner))
        finally:
            records.unpersist()

    def _refuse_unknown_file_groups(self, counts: pa.Table) -> None:
        paths = counts[PARTITION_PATH].to_pylist()
        files = self._latest_base_files(sorted(set(paths)))
        known = {(path, base_file.file_id) for path, group in files.items() for base_file in group}
        named = zip(paths, counts[CURRENT_FILE_ID].to_pylist(), strict=True)
        unknown = sorted({(path, file_id) for path, file_id in named if file_id is not None} - known)
        if unknown:
            raise HoodieUpsertException(
                f"records are tagged with {len(unknown)} file groups that the table does not have now, such as "
                f"{unknown[0][1]} of partition '{unknown[0][0]}': it was changed since they were read. Read them "
                "again, or use upsert"
            )


class DeleteCommitActionExecutor(UpsertCommitActionExecutor):
    """Delete the records of given keys; keys that are not in the table are passed over.

    Hudi: org.apache.hudi.table.action.commit.SparkDeleteCommitActionExecutor.
    """

    operation = WriteOperationType.DELETE

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_delete

    @property
    def _parallelism(self) -> int:
        return self._config.write.delete_shuffle_parallelism


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


class BulkInsertCommitActionExecutor(BaseCommitActionExecutor):
    """Insert records into new file groups as the input comes, without counting it first; for first loads.

    The input is read once, as a stream, unless it is to be sorted, combined or looked up; each task keeps one file open
    for each partition path that it meets.

    Args:
        table, write_context, key_generator: As of `BaseCommitActionExecutor`.
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
        kept: HoodieData | None = None
        try:
            if policy is not InsertDupPolicy.NONE:
                kept = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
                records = self._combine(self._without_stored(kept, policy), combines or policy is InsertDupPolicy.DROP)
            elif combines:
                records = self._combine(records.number_rows(ROW_NUMBER), True)
            with self._metrics.step("build workload profile"):
                self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
            stays = isinstance(partitioner, NonSortPartitioner | PartitionSortPartitioner)
            tasks = 0 if stays else records.num_partitions
            # A class of the user's may lose rows; it costs a pass over them to know.
            expected = None if partitioner.is_built_in else _count_upserts(records)
            placed = partitioner.repartition_records(records, tasks)
            if not isinstance(placed, HoodieData):
                raise HoodieConfigException(
                    f"{type(partitioner).__name__}.repartition_records returned {type(placed).__name__}: it must give "
                    "the rows back, as HoodieData"
                )
            missing = [name for name in schema.names if name not in placed.schema.names]
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
            return HoodieWriteMetadata(self.operation, statuses)
        finally:
            if kept is not None:
                kept.unpersist()
            for shared in self._shared:
                shared.release()


class BulkInsertPreppedCommitActionExecutor(BulkInsertCommitActionExecutor):
    """Bulk insert records that need no combining and no look-up.

    Hudi: org.apache.hudi.table.action.commit.SparkBulkInsertPreppedCommitActionExecutor.
    """

    operation = WriteOperationType.BULK_INSERT_PREPPED
    is_prepped = True


@attrs.frozen
class CombineByRecordKey:
    """One row for each record key, whatever its partition path; crosses to tasks.

    Attributes:
        spec: The table's rules.
    """

    spec: MergeSpec

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows that remain, in the columns given."""
        combined = self.spec.combine_duplicates(rows.drop_columns([PARTITION_PATH]))
        places = pc.index_in(combined[ROW_NUMBER], value_set=rows[ROW_NUMBER].combine_chunks())
        paths = rows[PARTITION_PATH].combine_chunks().take(places.combine_chunks())
        return combined.append_column(PARTITION_PATH, paths).select(rows.column_names)


@attrs.frozen
class _NotFound:
    """Tagged rows whose key is not in the table, in the columns that they came with."""

    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(batch.column(CURRENT_FILE_ID).is_null()).select(self.columns)


def _count_upserts(records: HoodieData) -> int:
    """How many rows are to be written."""
    counts = records.count_by([OPERATION])
    return sum(counts.filter(pc.equal(counts[OPERATION], int(RecordOperation.UPSERT)))["count"].to_pylist())


def _found_rows(counts: pa.Table) -> int:
    """How many of counted rows have a location."""
    return sum(counts.filter(counts[CURRENT_FILE_ID].is_valid())["count"].to_pylist())


def _first_bad_rows(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = 0
    for batch in batches:
        bad = batch.filter(batch.column(PARTITION_PATH).is_null()).slice(0, SAMPLED_BAD_ROWS - count)
        count += bad.num_rows
        yield bad
        if count >= SAMPLED_BAD_ROWS:
            return


def _without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    wanted = pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))
    return batch if pc.all(wanted).as_py() is not False else batch.filter(wanted)
