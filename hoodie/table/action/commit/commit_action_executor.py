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
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.model.write_status import STATUS_SCHEMA, TaskFailure, WriteStatus, unpack
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCommitException, HoodieKeyException
from hoodie.index.index import IndexedTable, tag_with_locations
from hoodie.io.write_context import WriteContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.metrics.metrics import Step
from hoodie.table.action.commit.bucket_handler import BulkInsertHandler, CopyOnWriteBucketHandler
from hoodie.table.action.commit.incoming_keys import IncomingKeys, WithoutRows, collect_keys, without_deletes_of_nothing
from hoodie.table.action.commit.record_preparer import failure_of
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner, average_record_size
from hoodie.table.table import HoodieTable
from hoodie.table.workload_profile import WorkloadProfile

__all__ = [
    "BaseCommitActionExecutor",
    "BulkInsertCommitActionExecutor",
    "DeleteCommitActionExecutor",
    "HoodieWriteMetadata",
    "InsertCommitActionExecutor",
    "UpsertCommitActionExecutor",
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
        """One row for each key and partition path, if wanted."""
        if not wanted:
            return records
        with self._metrics.step("combine records of one key"):
            return records.combine_by_key([RECORD_KEY, PARTITION_PATH], self._table.merge_spec.combine_duplicates)

    def _partitioner(self, profile: WorkloadProfile) -> UpsertPartitioner:
        record_size = average_record_size(self._table.completed_commits_newest_first(), self._config)
        return UpsertPartitioner(profile, self._config, self._table.latest_base_files(profile.stats), record_size)

    def _write_buckets(self, records: HoodieData, partitioner: UpsertPartitioner) -> list[WriteStatus]:
        if not partitioner.num_buckets:
            return []
        with self._metrics.step("write buckets", str(partitioner.num_buckets)) as step:
            dealt = records.map_batches(partitioner.assigner(), records.schema.append(reserved_field(BUCKET)))
            routed = dealt.route(BUCKET, partitioner.num_buckets)
            handler = CopyOnWriteBucketHandler(self._write_context, tuple(partitioner.buckets))
            return self._statuses(routed.map_partitions_with_index(handler, STATUS_SCHEMA), step)

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

    def _latest_base_files(self, counts: pa.Table) -> dict[str, Sequence[HoodieBaseFile]]:
        """The latest base files of the partition paths that were counted."""
        with self._metrics.step("list base files") as step:
            files = self._table.latest_base_files(counts[PARTITION_PATH].to_pylist())
            listed = [base_file for group in files.values() for base_file in group]
            step.count(files=len(listed), bytes=sum(base_file.size_bytes for base_file in listed))
        return files


class UpsertCommitActionExecutor(BaseCommitActionExecutor):
    """Update records whose key is in the table, insert the others.

    Hudi: org.apache.hudi.table.action.commit.SparkUpsertCommitActionExecutor.
    """

    operation = WriteOperationType.UPSERT

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        records = records.number_rows(ROW_NUMBER).persist()
        tagged: HoodieData | None = None
        combined: HoodieData = records
        try:
            with self._metrics.step("read the input and its keys") as step:
                keys = collect_keys(records)
                counts = keys.count_by_partition() if keys is not None else records.count_by([PARTITION_PATH])
                step.count(records=sum(counts["count"].to_pylist()))
                self._refuse_rows_without_key(records, counts)
            indexed = IndexedTable(self._table.meta_client.storage, self._latest_base_files(counts))
            if self._should_combine and keys is None:
                combined = self._combine(records, True)
            elif self._should_combine and keys is not None and keys.has_duplicates:
                if self._table.merge_spec.combines_rows:
                    combined = self._combine(records, True).persist()
                    keys = collect_keys(combined)
                else:
                    combined, keys = self._drop_losers(records, keys)
            tagged, located = self._tag(combined, keys, indexed)
            with self._metrics.step("build workload profile") as step:
                profile = WorkloadProfile.from_counts(self.operation, located)
                partitioner = self._partitioner(profile)
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
            keys, losers = keys.combine(self._table.merge_spec)
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
            if keys is not None:
                locations = self._table.index.find_locations(keys.table, self._context, indexed)
                shared = self._context.share(locations)
                self._shared.append(shared)
                tagged = tag_with_locations(records, shared)
                return tagged.map_batches(without_deletes_of_nothing, tagged.schema), keys.count_by_location(locations)
            tagged = self._table.index.tag_location(records, self._context, indexed)
            tagged = tagged.map_batches(without_deletes_of_nothing, tagged.schema).persist()
            return tagged, tagged.count_by([PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME])

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_upsert


class DeleteCommitActionExecutor(UpsertCommitActionExecutor):
    """Delete the records of given keys; keys that are not in the table are passed over.

    Hudi: org.apache.hudi.table.action.commit.SparkDeleteCommitActionExecutor.
    """

    operation = WriteOperationType.DELETE

    @property
    def _should_combine(self) -> bool:
        return self._config.write.combine_before_delete


class InsertCommitActionExecutor(BaseCommitActionExecutor):
    """Insert records without asking whether their key is in the table; small files are filled first.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        records = records.number_rows(ROW_NUMBER).persist()
        try:
            with self._metrics.step("read the input and its keys") as step:
                counts = records.count_by([PARTITION_PATH])
                step.count(records=sum(counts["count"].to_pylist()))
                self._refuse_rows_without_key(records, counts)
            self._latest_base_files(counts)
            combined = self._combine(records, self._config.write.combine_before_insert)
            combined = combined.map_batches(_without_deletes, combined.schema)
            with self._metrics.step("build workload profile") as step:
                counts = combined.count_by([PARTITION_PATH])
                profile = WorkloadProfile.from_counts(self.operation, counts)
                partitioner = self._partitioner(profile)
                self._save_workload_profile(profile, partitioner)
                step.count(records=sum(counts["count"].to_pylist()))
            statuses = self._write_buckets(combined, partitioner)
            return HoodieWriteMetadata(self.operation, statuses)
        finally:
            records.unpersist()


class BulkInsertCommitActionExecutor(BaseCommitActionExecutor):
    """Insert records into new file groups as the input comes, without counting it first; for first loads.

    The input is read once, as a stream; each task keeps one file open for each partition path that it meets.

    Hudi: org.apache.hudi.table.action.commit.SparkBulkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.BULK_INSERT

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        if self._config.write.combine_before_insert:
            records = self._combine(records.number_rows(ROW_NUMBER), True)
        with self._metrics.step("build workload profile"):
            self._save_workload_profile(WorkloadProfile(self.operation, {}), None)
        with self._metrics.step("write files") as step:
            handler = BulkInsertHandler(self._write_context, self._key_generator)
            return HoodieWriteMetadata(
                self.operation, self._statuses(records.map_partitions_with_index(handler, STATUS_SCHEMA), step)
            )


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
