"""A handle that writes the next version of a base file.

Hudi: org.apache.hudi.io.{HoodieMergeHandle, HoodieConcatHandle}.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter
from hoodie.common.data.grouped_rows import joined_chunks
from hoodie.common.data.numbered_rows import take_of_table
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.key_parts import key_parts, refuse_ambiguous_rows, refuse_other_parts
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    COMMIT_TIME_META,
    CURRENT_ROW_POSITION,
    FILE_NAME_META,
    KEY_PARTS,
    OPERATION,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import IOType, RecordOperation, WriteOperationType
from hoodie.common.model.write_status import WithoutEffect
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryExecutor
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.base_file_handle import HoodieBaseFileHandle
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merge_source import StoredEdit, StoredRows
from hoodie.io.merged_columns import (
    MOST_BYTES,
    MergedRows,
    PlacedUpdates,
    columns_to_compare,
    count_unchanged,
    last_at_each_position,
    merged_columns,
)
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.splicing import RowChanges, RowGroupEdit
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import RowCounter, constant_column
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED, TAKE_INCOMING


class HoodieMergeHandle(HoodieBaseFileHandle):
    """Write the next version of one base file: its records merged with the incoming ones.

    Every record of the old file is written again unless an incoming record has its position; then the merge spec
    decides. Incoming records without a position are appended.

        old file   incoming   new file
        a1 b1 c1   b2 d1      a1 b2 c1 d1

    The index gives the row position of each key in the old file, which never changes, so no key is looked up again. A
    key with two positions in the file has two incoming rows, and both are merged. If the input was not combined, the
    last of several rows of one key counts, whether the old file has the key or not.

    An updated record keeps its key. If no record is deleted, the column of record keys, and the user's column that the
    keys are made of, are copied as they are stored: decoding and encoding them would be half of the work.

    The old file is never changed. Memory: the bucket's incoming records and one batch of the old file's rows, and the
    row group that is being written.

    Args:
        context: The write.
        file_slice: The version that is merged.
        task: The task that writes.
        row_counter: See `HoodieBaseFileHandle`.

    Hudi: org.apache.hudi.io.HoodieMergeHandle. Differs: works on batches and positions; no spillable map.
    """

    io_type = IOType.MERGE

    def __init__(
        self,
        context: WriteContext,
        file_slice: FileSlice,
        task: TaskIdentity,
        row_counter: RowCounter | None = None,
    ) -> None:
        super().__init__(context, file_slice.partition_path, file_slice.file_id, task, row_counter)
        self.base_file = file_slice.sole_base_file
        self._goes_on = False
        self._rows_seen = 0
        self._compared_columns = columns_to_compare(context.records.schema, context.records.merge_spec.ordering_fields)
        stored = HoodieFileGroupReader(HoodieReaderContext(context.storage, context.schema_with_meta), file_slice)
        self._source = stored.merge_source(context.config.storage, context.records.merge_spec)
        self._log_changes()

    def open(self) -> None:
        self._source.open()
        try:
            super().open()
        except BaseException:
            self._source.close()
            raise

    def __exit__(self, kind, error, traceback) -> None:  # type: ignore[no-untyped-def]
        super().__exit__(kind, error, traceback)
        self._source.close()

    def write(self, incoming: pa.Table) -> pa.Table:
        """Merge all incoming rows of the bucket; called once.

        New records are appended until the file has reached ``hoodie.parquet.max.file.size``. Records of the old file
        stay in this file group, whatever its size.

        Args:
            incoming: User columns and reserved columns, including the row position: null for a row whose key is not in
                the old file. If every row is a delete, the user columns may be missing.

        Returns:
            The new records that did not fit, for another file group; usually none.
        """
        self._records += incoming.num_rows
        incoming = joined_chunks(incoming)
        updates, inserts = self._updates_and_inserts(incoming)
        if self._changes is not None:
            self._changes.expect_repeated(_repeated(updates[RECORD_KEY]))
        placed = PlacedUpdates(updates)
        # Without the old file's bloom filter, the keys must be decoded.
        copied = self._source.columns_to_copy(updates) if self._goes_on and not self._renews_range else []
        edits = self._edits(placed, updates, inserts)
        self.writer.keep_apart(copied)
        BoundedInMemoryExecutor(
            [self._source.parts(edits, copied, self._deciding_columns(updates), placed.bytes_instead)],
            partial(self._merge_all, placed),
            limit_bytes=self.context.config.write.write_buffer_limit_bytes,
            size_of=lambda item: item.nbytes,
            runs_ahead=self._source.is_large,
        ).execute()
        if self._rows_seen <= placed.last_position:
            raise HoodieCorruptedDataException(
                f"{self.base_file.path} has {self._rows_seen} rows, but the index found a key at row "
                f"{placed.last_position}"
            )
        # A column above 2 GiB comes in several chunks, so this is a loop.
        remaining = [self._write_new(rows) for rows in inserts.to_batches()]
        overflow = pa.Table.from_batches(remaining, inserts.schema)
        self._records -= overflow.num_rows
        return overflow

    def _edits(self, placed: PlacedUpdates, updates: pa.Table, inserts: pa.Table) -> dict[int, RowGroupEdit]:
        """The row groups that are copied but for few pages, by their numbers."""
        if not self._goes_on or updates.nbytes > MOST_BYTES:
            return {}
        constants = {FILE_NAME_META: self.file_name, PARTITION_PATH_META: self.partition_path}
        return self._source.edits(placed.positions, constants, appends=inserts.num_rows > 0)

    def _append_new(self, stored: pa.RecordBatch, keys: pa.Array) -> None:
        if self._changes is not None:
            self._changes.insert(keys, stored)
        self.writer.write(stored, keys=keys if self._goes_on else None)

    def _updates_and_inserts(self, incoming: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows with a position, one for each position and sorted by it; and the rows to append."""
        has_place = incoming[CURRENT_ROW_POSITION].is_valid()
        updates = incoming.filter(has_place) if incoming[CURRENT_ROW_POSITION].null_count else incoming
        values = updates[CURRENT_ROW_POSITION].to_numpy()
        refuse_ambiguous_rows(updates, values)
        numbers = updates[ROW_NUMBER].to_numpy() if ROW_NUMBER in updates.column_names else None
        # If the input was not combined, a key may occur twice: the last row counts, as in Hudi's map of records.
        order = last_at_each_position(values, numbers)
        updates = take_of_table(updates, order)
        inserts = new = incoming.filter(pc.invert(has_place))
        if self._may_repeat_keys:
            new = last_of_each_key(inserts)
        added = new.filter(pc.equal(new[OPERATION], int(RecordOperation.UPSERT)))
        self._without_effect += WithoutEffect(
            combined=len(values) - updates.num_rows + inserts.num_rows - new.num_rows,
            unmatched_deletes=new.num_rows - added.num_rows,
        )
        return updates, added

    @property
    def _may_repeat_keys(self) -> bool:
        """Whether several incoming rows may have one key, because the input was not combined."""
        write = self.context.config.write
        if self.context.operation is WriteOperationType.UPSERT:
            return not write.combine_before_upsert
        return self.context.operation is not WriteOperationType.INSERT or not write.combine_before_insert

    def _merge_all(self, updates: PlacedUpdates, batches: Iterator[StoredRows | StoredEdit]) -> None:
        """Write all stored rows, with the updates in place of old rows."""
        for old in batches:
            if isinstance(old, StoredEdit):
                self._write_edit(updates, old)
                continue
            if old.row_group is not None:
                self.writer.start_row_group(old.row_group)
                if self._kept_keys is not None:
                    self._kept_keys.append(range(old.start, old.start + old.row_group.rows))
            for low, count in updates.pieces(old.start, old.rows.num_rows):
                found = updates.of_rows(old.start + low, count)
                if found is not None:
                    columns = self._merge(old, low, count, *found)
                else:
                    columns = self._stored_columns(old.complete.slice(low, count))
                self.writer.write(pa.RecordBatch.from_arrays(columns, names=self.context.schema_with_meta.names))
            self._rows_seen = old.start + old.rows.num_rows

    def _write_edit(self, updates: PlacedUpdates, old: StoredEdit) -> None:
        """Write a row group with few changes."""
        edit, changes = old.edit, RowChanges()
        count = edit.stored.rows
        found = updates.of_rows(old.start, count)
        if found is not None:
            rows, positions = found
            stored = StoredRows(old.start, edit.old_rows(self.context.records.schema.names))
            merged = self._decide(stored, 0, len(positions), rows, np.arange(len(positions)))
            new = None
            if merged.new is not None:
                new = pa.RecordBatch.from_arrays(merged.new, names=self.context.schema_with_meta.names)
            changes = RowChanges(positions[merged.replaced], new, positions[merged.deleted])
            edit.change(changes)
        self.writer.start_edit(edit)
        if self._kept_keys is not None:
            starts = np.append(-1, changes.deleted) + 1 + old.start
            stops = np.append(changes.deleted, count) + old.start
            self._kept_keys += [range(*ends) for ends in zip(starts.tolist(), stops.tolist(), strict=True)]
        self._rows_seen = old.start + count

    def _merge(
        self, old: StoredRows, low: int, count: int, updates: pa.RecordBatch, positions: np.ndarray
    ) -> list[pa.Array]:
        """The columns of some of the stored rows, of which some are replaced or deleted."""
        merged = self._decide(old, low, count, updates, positions)
        batch, unread = old.rows, old.late.names if old.late is not None else frozenset()
        if unread and len(merged.replaced) < count:
            batch, unread = old.complete, frozenset()
        return merged_columns(self._stored_columns(batch.slice(low, count), unread), merged.new, merged.places(count))

    def _decide(
        self, old: StoredRows, low: int, count: int, updates: pa.RecordBatch, positions: np.ndarray
    ) -> MergedRows:
        """The stored rows that are replaced, and those that are deleted.

        Args:
            old: Stored rows.
            low: The number of the first of them that counts.
            count: The number of those that count.
            updates: Incoming rows.
            positions: For each of them, the number of the stored row among those that count, ascending.
        """
        spec = self.context.records.merge_spec
        batch = old.rows.slice(low, count)
        self._refuse_other_keys(batch, updates, positions)
        meeting = batch.select(spec.stored_columns(self.context.records.schema))
        outcome = spec.merge(meeting if len(positions) == count else meeting.take(pa.array(positions)), updates)
        codes = outcome.codes
        for number, reason in outcome.errors.items():
            self._errors.add(updates.column(RECORD_KEY)[number].as_py(), reason)
        losing_count = int(np.count_nonzero(codes == KEEP_STORED)) - len(outcome.errors)
        if losing_count:
            self._without_effect += (
                WithoutEffect(kept=losing_count) if spec.merger is not None else WithoutEffect(ignored=losing_count)
            )
        new = None
        replaced = np.zeros(0, dtype=np.int64)
        taken = np.flatnonzero(codes == TAKE_INCOMING)
        if len(taken):
            rows = outcome.rows
            assert rows is not None
            incoming = rows.take(pa.array(taken)) if len(taken) < rows.num_rows else rows
            good = self._errors.without_bad_records(incoming)
            if good.num_rows < incoming.num_rows:
                # A record that does not fit its column is reported; the stored one stays.
                kept = pc.is_in(incoming.column(CURRENT_ROW_POSITION), good.column(CURRENT_ROW_POSITION))
                taken = taken[kept.to_numpy(zero_copy_only=False)]
            if len(taken):
                replaced = positions[taken]
                unchanged = count_unchanged(batch, good, replaced, self._compared_columns)
                if unchanged and old.late is not None:
                    batch = old.complete.slice(low, count)
                    unchanged = count_unchanged(batch, good, replaced, self._compared_columns)
                self._without_effect += WithoutEffect(unchanged=unchanged)
                self._updates += len(taken)
                new = self._new_rows(good)
                if self._changes is not None:
                    self._changes.update(good.column(RECORD_KEY), self._images(batch, replaced), good)
        deleted = positions[codes == DELETE_STORED]
        if self._changes is not None and len(deleted):
            keys = updates.column(RECORD_KEY).filter(pa.array(codes == DELETE_STORED))
            self._changes.delete(keys, self._images(batch, deleted))
        self._deletes += len(deleted)
        return MergedRows(new, replaced, deleted)

    def _deciding_columns(self, updates: pa.Table) -> Sequence[str]:
        """The columns by which to merge, before others are read; none if whole stored rows are needed."""
        may_delete = updates.num_rows and self.context.records.merge_spec.may_delete(updates)
        if may_delete or self._changes is not None or KEY_PARTS in updates.column_names:
            return ()
        return self._source.deciding_columns(self._compared_columns)

    def _images(self, batch: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch | None:
        """The stored rows at these places, for the change data; None if it does not have them."""
        if self._changes is None or not self._changes.has_before:
            return None
        names = set(self.context.records.schema.names)
        columns = [name for name in batch.schema.names if name in names]
        return batch.select(columns).take(pa.array(places))

    def _refuse_other_keys(self, batch: pa.RecordBatch, updates: pa.RecordBatch, positions: np.ndarray) -> None:
        """Refuse updates whose key equals that of the stored row, but whose values of the key fields differ."""
        fields = self.context.table_config.record_key_fields
        tops = {top_level_name(batch.schema, field) for field in fields}
        if KEY_PARTS in updates.schema.names and tops <= set(batch.schema.names):
            stored = batch.select([name for name in batch.schema.names if name in tops]).take(pa.array(positions))
            parts = key_parts(stored, fields)
            refuse_other_parts(updates.column(RECORD_KEY), updates.column(KEY_PARTS), parts, "a stored one")

    def _older_path(self) -> str | None:
        return self.base_file.path

    def _stored_columns(self, batch: pa.RecordBatch, unread: Collection[str] = frozenset()) -> list[pa.Array | None]:
        """The columns of old rows in the new file: only the file name changes.

        Columns whose chunks are copied were not read; constants take their place. Those that were not read for another
        reason are None.
        """
        count = batch.num_rows
        virtual = self.context.has_virtual_keys
        copied = constant_column("", count)
        read = dict(zip(batch.schema.names, batch.columns, strict=True))

        def column(name: str) -> pa.Array | None:
            return read.get(name, None if name in unread else copied)

        return [
            column(COMMIT_TIME_META),
            column(COMMIT_SEQNO_META),
            column(RECORD_KEY_META),
            pa.nulls(count, pa.string()) if virtual else constant_column(self.partition_path, count),
            constant_column(self.file_name, count),
            *map(column, self.context.records.schema.names),
        ]

    def _start_keys(self) -> tuple[BloomFilter | None, KeyRange | None]:
        """Continue with the old file's filter, so that only new keys are hashed; without a valid one, hash all keys."""
        found = self._keys_of(self._source)
        self._goes_on = found is not None
        return super()._start_keys() if found is None else found

    @property
    def _renews_range(self) -> bool:
        """See `HoodieBaseFileHandle`; a delete renews it, so that the footer does not name a key that is gone."""
        return self.context.operation in (WriteOperationType.DELETE, WriteOperationType.DELETE_PREPPED)

    def _dictionary_columns(self) -> frozenset[str]:
        return self._source.dictionary_columns()

    def _previous_version(self) -> tuple[str, str | None]:
        return self.base_file.instant_time, self.base_file.file_name


class HoodieConcatHandle(HoodieMergeHandle):
    """Append incoming records to those of the old file, whatever their keys: for inserts that fill a small file.

    Hudi: org.apache.hudi.io.HoodieConcatHandle.
    """

    def _updates_and_inserts(self, incoming: pa.Table) -> tuple[pa.Table, pa.Table]:
        return incoming.slice(0, 0), incoming


def _repeated(keys: pa.ChunkedArray) -> pa.Array:
    """The keys that occur several times."""
    if pc.count_distinct(keys, mode="all").as_py() == len(keys):
        return pa.array([], pa.string())
    counts = keys.value_counts()
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def last_of_each_key(rows: pa.Table) -> pa.Table:
    """The last row of each key, as in Hudi's map of incoming records.

    Args:
        rows: The rows, with record keys; the row number decides if there is one.
    """
    keys = rows[RECORD_KEY]
    if pc.count_distinct(keys, mode="all").as_py() == rows.num_rows:
        return rows
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy()
    refuse_ambiguous_rows(rows, codes)
    number = rows[ROW_NUMBER].to_numpy() if ROW_NUMBER in rows.column_names else np.arange(rows.num_rows)
    order = np.lexsort((number, codes))
    codes = codes[order]
    last = order[np.append(codes[1:] != codes[:-1], True)]
    return rows.take(pa.array(np.sort(last)))
