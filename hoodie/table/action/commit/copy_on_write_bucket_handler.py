"""Write the rows of one bucket of a copy-on-write table, in a task.

Hudi: BaseSparkCommitActionExecutor.handleUpsertPartition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import are_surely_distinct
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    RECORD_KEY,
    reserved_field,
)
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import TaskFailure, WriteStatus, pack
from hoodie.common.table.marker.write_markers import find_rival
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieIndexException
from hoodie.execution.insert_handler import CopyOnWriteInsertHandler, upserts_only
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.merge_handle import HoodieConcatHandle, HoodieMergeHandle
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import RowCounter
from hoodie.storage.storage_path import METAFOLDER_NAME, join
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType

_IS_LOCATED = "__hoodie_is_located"
"""Column that marks the rows of a prepped upsert which carry their location."""
_INSERTS = (
    WriteOperationType.INSERT,
    WriteOperationType.INSERT_PREPPED,
    WriteOperationType.BULK_INSERT,
    WriteOperationType.BULK_INSERT_PREPPED,
)


@attrs.frozen
class CopyOnWriteBucketHandler:
    """Writes the rows of one bucket: UPDATE by a merge handle, INSERT by create handles.

    Attributes:
        context: The write.
        buckets: The work of each bucket number.
    """

    context: WriteContext
    buckets: tuple[BucketInfo, ...]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition of routed rows; yields rows of `STATUS_SCHEMA`.

        The bucket is read from the rows' own bucket column.
        """
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        number = first.column(BUCKET)[0].as_py()
        routed = (_of_bucket(batch, number) for batch in chain([first], batches) if batch.num_rows)
        rows = self.context.with_record_keys(number, routed)
        bucket = self.buckets[number]
        if bucket.bucket_type is BucketType.INSERT:
            yield pack(self._handle_insert(task, bucket, rows))
        else:
            yield pack(self._handle_update(task, bucket, rows))

    def _handle_insert(
        self, task: TaskIdentity, bucket: BucketInfo, batches: Iterator[pa.RecordBatch]
    ) -> list[WriteStatus | TaskFailure]:
        with CopyOnWriteInsertHandler(self.context, task, bucket.file_id) as handler:
            return [*handler.consume(upserts_only(batch) for batch in batches)]

    def _handle_update(
        self, task: TaskIdentity, bucket: BucketInfo, batches: Iterator[pa.RecordBatch]
    ) -> list[WriteStatus | TaskFailure]:
        """Write one file for the file group, and further groups for new records that no longer fit into it."""
        file_slice = bucket.file_slice
        assert file_slice is not None
        incoming = pa.Table.from_batches(batches)
        rivalry = self._refuse_rival(bucket, incoming.num_rows)
        if rivalry is not None:
            return [rivalry]
        handle_class = HoodieMergeHandle
        # Files of virtual keys hold no keys to find.
        if self.context.operation in _INSERTS and (
            self.context.config.write.merge_allow_duplicate_on_inserts or self.context.has_virtual_keys
        ):
            handle_class = HoodieConcatHandle
        else:
            try:
                placed = self._placed(file_slice, incoming)
            except HoodieIndexException as error:
                return [TaskFailure("HoodieIndexException", str(error), incoming.num_rows)]
            if isinstance(placed, TaskFailure):
                return [placed]
            incoming = placed
        rows = RowCounter()
        with handle_class(self.context, file_slice, task, rows) as handle:
            overflow = handle.write(incoming)
            statuses: list[WriteStatus | TaskFailure] = [handle.close()]
        if overflow.num_rows:
            with CopyOnWriteInsertHandler(self.context, task, row_counter=rows) as handler:
                statuses += handler.consume(iter(overflow.to_batches()))
        return statuses

    def _placed(self, file_slice: FileSlice, incoming: pa.Table) -> pa.Table | TaskFailure:
        """Rows with the positions of their keys, looked up now where they are not known yet; or a refusal.

        Raises:
            HoodieIndexException: The file has keys of other buckets.
        """
        placement = self.context.placement
        if self.context.operation is WriteOperationType.UPSERT_PREPPED:
            incoming = self._find_positions(file_slice, self._with_located_flag(incoming))
            return missing_keys_failure(file_slice, incoming) or incoming
        if self.context.operation is WriteOperationType.DELETE_PREPPED:
            reason = "the rows to delete are not where they were: the table changed"
            return self._misplaced(file_slice, incoming, "HoodieDeleteException", reason) or incoming
        if placement.guesses_positions and placement.key_check is None:
            return incoming if self._are_right(file_slice, incoming) else self._find_positions(file_slice, incoming)
        knows_positions = placement.knows_positions
        if not knows_positions and placement.key_check is None and not placement.verifies_positions:
            knows_positions = _were_searched_for(incoming)
        if self.context.operation in _INSERTS or not knows_positions:
            return self._find_positions(file_slice, incoming)
        if placement.verifies_positions:
            reason = f"the index {self.context.config.index.index_class} names wrong places"
            return self._misplaced(file_slice, incoming, "HoodieIndexException", reason) or incoming
        return incoming

    def _with_located_flag(self, incoming: pa.Table) -> pa.Table:
        """The rows of a prepped upsert with a column that marks those which carry their location."""
        names_file_groups = self.context.placement.names_file_groups
        is_located = incoming[CURRENT_ROW_POSITION if names_file_groups else CURRENT_FILE_ID].is_valid()
        return incoming.append_column(_IS_LOCATED, is_located)

    def _refuse_rival(self, bucket: BucketInfo, count: int) -> TaskFailure | None:
        """A refusal if another writer is writing the file group; None where that is not checked.

        Args:
            bucket: An UPDATE bucket.
            count: Its rows.
        """
        write = self.context.config.write
        if not write.has_several_writers or not write.early_conflict_detection:
            return None
        rival = find_rival(
            self.context.storage,
            join(self.context.base_path, METAFOLDER_NAME),
            self.context.instant_time,
            bucket.partition_path,
            str(bucket.file_id),
            write.heartbeat_tolerance_ms,
        )
        if rival is None:
            return None
        return TaskFailure(
            "HoodieEarlyConflictDetectionException",
            f"Another writer is rewriting file group {bucket.file_id} of partition '{bucket.partition_path}' "
            f"({rival}). Nothing was committed; write again: that is safe",
            count,
        )

    def _misplaced(
        self, file_slice: FileSlice, incoming: pa.Table, error_class: str, reason: str
    ) -> TaskFailure | None:
        """A refusal of rows whose given positions hold other keys."""
        path = file_slice.sole_base_file.path
        placed = incoming.filter(incoming[CURRENT_ROW_POSITION].is_valid())
        stored = self._stored_keys(path)
        positions = placed[CURRENT_ROW_POSITION].to_numpy()
        is_beyond = (positions < 0) | (positions >= len(stored))
        keys_at_positions = stored.take(pa.array(positions, mask=is_beyond))
        wrong = pc.invert(pc.fill_null(pc.equal(keys_at_positions, placed[RECORD_KEY]), False))
        count = pc.sum(wrong).as_py()
        if not count:
            return None
        first = placed.filter(wrong).slice(0, 1)
        return TaskFailure(
            error_class,
            f"{reason}: the key {short_repr(first[RECORD_KEY][0].as_py())} is not in row "
            f"{first[CURRENT_ROW_POSITION][0].as_py()} of {path}. Positions are rows of the latest "
            "base file, from 0; see docs/indexes.md",
            count,
        )

    def _stored_keys(self, path: str) -> pa.ChunkedArray:
        with HoodieParquetReader(self.context.storage, path) as reader:
            return reader.read_record_keys()

    def _are_right(self, file_slice: FileSlice, incoming: pa.Table) -> bool:
        """Whether rows with a position have the key that the file has there; another key may have the same hash."""
        placed = incoming.select([RECORD_KEY, CURRENT_ROW_POSITION])
        if placed[CURRENT_ROW_POSITION].null_count:
            placed = placed.filter(placed[CURRENT_ROW_POSITION].is_valid())
        if not placed.num_rows:
            return True
        ends = pc.min_max(placed[CURRENT_ROW_POSITION]).as_py()
        if ends["min"] < 0:
            return False
        stored = self._stored_keys(file_slice.sole_base_file.path)
        if ends["max"] >= len(stored):
            return False
        are_equal = pc.equal(stored.take(placed[CURRENT_ROW_POSITION]), placed[RECORD_KEY])
        return are_equal.null_count == 0 and bool(pc.all(are_equal).as_py())

    def _find_positions(self, file_slice: FileSlice, incoming: pa.Table) -> pa.Table:
        """Rows with the positions of their keys in the file; a key that the file holds twice gives two rows."""
        base_file = file_slice.sole_base_file
        incoming = incoming.select([name for name in incoming.column_names if name != CURRENT_ROW_POSITION])
        record_keys = incoming[RECORD_KEY].combine_chunks()
        keys = record_keys if are_surely_distinct(record_keys) else record_keys.unique()
        check = self.context.placement.key_check
        matches = HoodieKeyLookupHandle(self.context.storage, base_file.path).lookup(
            keys, None if check is None else partial(check, path=base_file.path, file_id=base_file.file_id)
        )
        position = reserved_field(CURRENT_ROW_POSITION)
        places = np.full(len(keys), -1, dtype=np.int64)
        places[matches.key_indices] = matches.row_positions
        if np.count_nonzero(places >= 0) == len(matches.row_positions):
            if len(keys) < len(record_keys):
                places = places[pc.index_in(record_keys, value_set=keys).to_numpy()]
            return incoming.append_column(position, pa.array(places, mask=places < 0))
        # Every pair (incoming row, position): a key may stand several times on either side.
        pairs = pa.table({"key": pa.array(matches.key_indices, pa.int32()), "position": matches.row_positions})
        rows = pa.table({"key": pc.index_in(record_keys, value_set=keys), "row": np.arange(len(record_keys))})
        joined = rows.join(pairs, "key", join_type="left outer").sort_by("row")
        incoming = incoming.take(joined["row"].combine_chunks())
        return incoming.append_column(position, joined["position"].cast(pa.int64()))


def _were_searched_for(incoming: pa.Table) -> bool:
    """Whether the index has searched the file for all incoming keys, although it need not know positions.

    Then all rows that it found there have a position, and the file has none of the others.
    """
    if not {CURRENT_FILE_ID, CURRENT_ROW_POSITION} <= set(incoming.column_names):
        return False
    positions = incoming[CURRENT_ROW_POSITION].filter(incoming[CURRENT_FILE_ID].is_valid())
    return len(positions) > 0 and not positions.null_count and pc.min(positions).as_py() >= 0


def missing_keys_failure(file_slice: FileSlice, incoming: pa.Table) -> TaskFailure | None:
    """A refusal of rows tagged with a file group that does not hold their keys."""
    is_missing = pc.and_(incoming[_IS_LOCATED], incoming[CURRENT_ROW_POSITION].is_null())
    if not pc.any(is_missing).as_py():
        return None
    keys = incoming.filter(is_missing)[RECORD_KEY]
    return TaskFailure(
        "HoodieUpsertException",
        f"They are tagged with file group {file_slice.file_id} of partition '{file_slice.partition_path}', which does "
        f"not hold their keys now, such as {short_repr(keys[0].as_py())}: the table was changed since they were "
        "read. Read them again, or use upsert",
        len(keys),
    )


def _of_bucket(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    if not (batch.column(BUCKET).to_numpy() == number).all():
        raise HoodieException(f"rows of other buckets than {number} came to one task: the engine routed them wrong")
    return batch
