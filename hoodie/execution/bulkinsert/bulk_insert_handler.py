"""Write the rows of a bulk insert in tasks: functions that cross to tasks.

Hudi: org.apache.hudi.execution.bulkinsert.BulkInsertMapFunction.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.common.model.unprepared_rows import failure_of
from hoodie.common.model.write_status import (
    ScatteredRows,
    TaskFailure,
    TaskResult,
    WithoutEffect,
    WriteStatus,
    pack,
)
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException
from hoodie.execution.insert_handler import CopyOnWriteInsertHandler, columns_of_handles, upserts_only
from hoodie.index.bucket.bucket_identifier import DIGITS, bucket_of_file_id
from hoodie.index.index import Locations
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import RowCounter
from hoodie.keygen.base_key_generator import KeyGenerator


@attrs.frozen
class BulkInsertHandler:
    """Writes the rows of one partition of the input to new file groups, one open file for each partition path.

    Attributes:
        context: The write.
        key_generator: Explains rows without a key; None if the keys came with the input.
        is_sorted: Whether all rows of a partition path are adjacent.
    """

    context: WriteContext
    key_generator: KeyGenerator | None
    is_sorted: bool = False

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition of rows; yields rows of `STATUS_SCHEMA`: statuses and a count of deletes, or failures."""
        results: list[TaskFailure | WithoutEffect] = []
        with CopyOnWriteInsertHandler(self.context, task, is_sorted=self.is_sorted) as handler:
            rows = self.context.with_record_keys(task.partition_index, self._checked(batches, results))
            statuses = handler.consume(rows)
        yield pack([*results, *statuses])

    def _checked(
        self, batches: Iterator[pa.RecordBatch], results: list[TaskFailure | WithoutEffect]
    ) -> Iterator[pa.RecordBatch]:
        """Batches without deletes, up to the first one that has a row without a key; later rows are only checked."""
        deletes, has_failed = 0, False
        for batch in batches:
            if batch.column(PARTITION_PATH).null_count:
                results.append(self._failure(batch.filter(batch.column(PARTITION_PATH).is_null())))
                has_failed = True
            if not has_failed:
                upserts = upserts_only(batch)
                deletes += batch.num_rows - upserts.num_rows
                yield upserts
        if deletes:
            results.append(WithoutEffect(unmatched_deletes=deletes))

    def _failure(self, bad: pa.RecordBatch) -> TaskFailure:
        failure = failure_of(bad)
        if failure is not None:
            return TaskFailure(type(failure).__name__, str(failure), bad.num_rows)
        message = self.key_generator.explain_bad_rows(bad) if self.key_generator else "Keys are null, empty or NaN."
        return TaskFailure("HoodieKeyException", message, bad.num_rows)


@attrs.frozen
class DealToBuckets:
    """Adds the file group of each row, which does not exist yet, and the number of the task that writes it.

    Consecutive buckets of a partition path go to different tasks. Rows without a key have no file group.

    Attributes:
        locations: Names the file groups.
        num_tasks: The number of tasks that write.
    """

    locations: Locations
    num_tasks: int

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the result for rows of a schema."""
        return schema.append(reserved_field(CURRENT_FILE_ID)).append(reserved_field(BUCKET))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        is_bad = batch.column(PARTITION_PATH).is_null()
        keys = batch.select([RECORD_KEY, PARTITION_PATH])
        if batch.column(PARTITION_PATH).null_count:
            keys = keys.filter(pc.invert(is_bad))
        file_ids = self.locations.tag(keys).column(CURRENT_FILE_ID)
        encoded = file_ids.dictionary_encode()
        tasks = np.array([self._task_of(file_id) for file_id in encoded.dictionary.to_pylist()], dtype=np.int32)
        numbers = pa.array(tasks[encoded.indices.to_numpy()])
        if len(keys) < len(batch):
            file_ids = pc.replace_with_mask(pa.nulls(len(batch), pa.string()), pc.invert(is_bad), file_ids)
            numbers = pc.replace_with_mask(pa.array(np.zeros(len(batch), np.int32)), pc.invert(is_bad), numbers)
        return pa.RecordBatch.from_arrays(
            [*batch.columns, file_ids, numbers], schema=self.schema(batch.schema.with_metadata(None))
        )

    def _task_of(self, file_id: str) -> int:
        bucket = bucket_of_file_id(file_id) or 0
        return (bucket + zlib.crc32(file_id[DIGITS:].encode())) % self.num_tasks


@attrs.frozen
class BucketFillHandler(BulkInsertHandler):
    """Writes rows that are sorted by their new file groups: one file after the other, each with all of its rows.

    Attributes:
        locations: Names the file groups of rows that were brought here by an engine's own computation; None for rows of
            `DealToBuckets`. An engine may be wrong: a task that meets a file group again gives up, and only the driver
            sees whether two tasks have met one (`came_together`).
    """

    locations: Locations | None = None

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition of rows; yields rows of `STATUS_SCHEMA`: statuses and a count of deletes, or failures."""
        results: list[TaskFailure | WithoutEffect] = []
        statuses: list[WriteStatus] = []
        counter = RowCounter()
        written: set[str] = set()
        rows = self.context.with_record_keys(task.partition_index, self._named(self._checked(batches, results)))
        pieces = chain.from_iterable(map(_split_by_file, rows))
        for (file_id, partition_path), group in groupby(pieces, key=itemgetter(0)):
            if file_id in written:
                if self.locations is None:
                    raise HoodieException(f"the rows of file group {file_id} are not adjacent, so it would lose some")
                for _ in batches:
                    # The engine uses the worker again only if it has read all rows.
                    pass
                yield pack([ScatteredRows(file_id)])
                return
            written.add(file_id)
            with HoodieCreateHandle(self.context, partition_path, file_id, task, counter) as handle:
                for _, rows in group:
                    if handle.write(rows).num_rows:
                        raise HoodieException(f"file group {file_id} of a bucket did not take all of its rows")
                statuses.append(handle.close())
        yield pack([*results, *statuses])

    def _named(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with the file group of each row, as Python computes it from the key."""
        for batch in batches:
            if self.locations is None or not batch.num_rows:
                yield batch
            else:
                file_ids = self.locations.tag(batch.select([RECORD_KEY, PARTITION_PATH])).column(CURRENT_FILE_ID)
                yield batch.append_column(reserved_field(CURRENT_FILE_ID), file_ids)


def came_together(results: Sequence[TaskResult]) -> bool:
    """Whether every file group was written once, by one task.

    Args:
        results: The results of all tasks of `BucketFillHandler`.
    """
    written = [(result.partition_path, result.file_id) for result in results if isinstance(result, WriteStatus)]
    return len(written) == len(set(written)) and not any(isinstance(result, ScatteredRows) for result in results)


def _split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """((file id, partition path), rows) of a batch that is sorted by file id, with the columns that handles need."""
    if not batch.num_rows:
        return
    file_ids = batch.column(CURRENT_FILE_ID)
    differs = pc.not_equal(file_ids.slice(1), file_ids.slice(0, batch.num_rows - 1))
    starts = [0, *(np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1).tolist()]
    rows = batch.select(columns_of_handles(batch.schema))
    for start, end in pairwise([*starts, batch.num_rows]):
        place = (file_ids[start].as_py(), batch.column(PARTITION_PATH)[start].as_py())
        yield place, rows.slice(start, end - start)
