"""Write the rows of one bucket of a merge-on-read table, in a task.

Hudi: org.apache.hudi.table.action.deltacommit.BaseSparkDeltaCommitActionExecutor.handleUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.model.write_status import TaskFailure, WithoutEffect, WriteStatus
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.task_identity import TaskIdentity
from hoodie.execution.insert_handler import upserts_only
from hoodie.io.append_handle import HoodieAppendHandle, LogPlace
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merge_handle import last_of_each_key
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.write_handle import RowCounter
from hoodie.merge.appended_rows import deletes_are_rows, keys_without_order, needs_stored_values
from hoodie.table.action.commit.bucket_info import BucketInfo
from hoodie.table.action.commit.copy_on_write_bucket_handler import CopyOnWriteBucketHandler, missing_keys_failure


@attrs.frozen
class MergeOnReadBucketHandler(CopyOnWriteBucketHandler):
    """Writes the rows of one bucket: UPDATE by append handles, INSERT by create handles.

    An UPDATE bucket without a place in the log, because it also takes new records, rewrites its base file as in a
    copy-on-write table; the changes of its stored records are merged in.

    Rows that are appended are not compared with what is stored: that is done when they are read. Of several rows of one
    key the last one is appended, as in a copy-on-write table if the input was not combined. Rows have all columns: a
    partial update reads the stored rows of its keys, unless a null means the stored value by the table's rules.
    """

    def _handle_update(
        self, task: TaskIdentity, bucket: BucketInfo, batches: Iterator[pa.RecordBatch]
    ) -> list[WriteStatus | TaskFailure]:
        """Append the rows to the file group, unless its base file is to be rewritten."""
        place, file_slice = bucket.log_place, bucket.file_slice
        if place is None:
            return super()._handle_update(task, bucket, batches)
        assert file_slice is not None
        incoming = pa.Table.from_batches(batches)
        refusal = self._refuse_rival(bucket, incoming.num_rows) or self._refuse_places(file_slice, incoming)
        if refusal is not None:
            return [refusal]
        if self.context.placement.looks_up_for_logs and file_slice.base_file is not None:
            incoming = self._looked_up(file_slice, incoming)
        return self._append(task, place, file_slice, incoming)

    def _looked_up(self, file_slice: FileSlice, incoming: pa.Table) -> pa.Table:
        """Rows with the positions of their keys in the base file, and with a file id only if the slice has their key.

        Two keys may have one hash, so that the index names the slice of one for the other.

        Args:
            file_slice: A slice with a base file.
            incoming: The rows, with the file id that the index names.
        """
        incoming = self._find_positions(attrs.evolve(file_slice, log_files=()), incoming)
        file_ids = incoming[CURRENT_FILE_ID]
        is_missing = pc.and_(file_ids.is_valid(), incoming[CURRENT_ROW_POSITION].is_null())
        if not pc.any(is_missing, min_count=0).as_py():
            return incoming
        if file_slice.record_log_files:
            keys = incoming[RECORD_KEY].filter(is_missing).combine_chunks()
            in_logs = self._stored_rows(file_slice, keys, ())[RECORD_KEY_META].combine_chunks()
            is_missing = pc.and_(is_missing, pc.invert(pc.is_in(incoming[RECORD_KEY], value_set=in_logs)))
        known = pc.if_else(is_missing, pa.scalar(None, pa.string()), file_ids)
        return incoming.set_column(incoming.schema.get_field_index(CURRENT_FILE_ID), CURRENT_FILE_ID, known)

    def _handle_insert(
        self, task: TaskIdentity, bucket: BucketInfo, batches: Iterator[pa.RecordBatch]
    ) -> list[WriteStatus | TaskFailure]:
        """Write new file groups: base files, or one that begins with a log file."""
        if bucket.log_place is None:
            return super()._handle_insert(task, bucket, batches)
        incoming = pa.Table.from_batches(upserts_only(batch) for batch in batches)
        # Rows without a file group are counted as new ones.
        located = [name for name in (CURRENT_FILE_ID,) if name in incoming.column_names]
        return self._append(task, bucket.log_place, None, incoming.drop_columns(located))

    def _append(
        self, task: TaskIdentity, place: LogPlace, file_slice: FileSlice | None, incoming: pa.Table
    ) -> list[WriteStatus | TaskFailure]:
        """Write log files: one, or more if it gets full. The deletes are in the last one.

        Of several rows of one key the last one is written.

        Args:
            task: The task.
            place: The place of the first log file.
            file_slice: The latest slice; None for a new file group.
            incoming: The rows.
        """
        given = pc.count_distinct(incoming[ROW_NUMBER]).as_py() if ROW_NUMBER in incoming.column_names else None
        tagged, incoming = incoming, last_of_each_key(incoming)
        positions_of = self._positions_of(place, file_slice, tagged, incoming)
        combined = 0 if given is None else given - incoming.num_rows
        operations = [RecordOperation.UPSERT]
        if deletes_are_rows(self.context.records.merge_spec):
            operations.append(RecordOperation.DELETE_FLAGGED)
        is_row = pc.is_in(incoming[OPERATION], value_set=pa.array(operations, pa.int8()))
        rows = self._completed(file_slice, incoming.filter(is_row))
        refusal = self._refuse_without_order(rows)
        if refusal is not None:
            return [refusal]
        statuses = self._write_log_files(task, place, rows, incoming.filter(pc.invert(is_row)), positions_of)
        if statuses:
            first = statuses[0]
            statuses[0] = attrs.evolve(first, without_effect=first.without_effect + WithoutEffect(combined=combined))
        return [*statuses]

    def _write_log_files(
        self, task: TaskIdentity, place: LogPlace, rows: pa.Table, deletes: pa.Table, positions_of: str | None
    ) -> list[WriteStatus]:
        """Write rows and deletes, one for each key; see `_append`."""
        counter = RowCounter()
        statuses: list[WriteStatus] = []
        while rows.num_rows or deletes.num_rows:
            with HoodieAppendHandle(self.context, place, task, counter, positions_of) as handle:
                rows = handle.write(rows)
                if not rows.num_rows and deletes.num_rows:
                    handle.delete(deletes)
                    deletes = deletes.slice(0, 0)
                statuses.append(handle.close())
            place = handle.next_place
        return statuses

    def _positions_of(
        self, place: LogPlace, file_slice: FileSlice | None, tagged: pa.Table, incoming: pa.Table
    ) -> str | None:
        """The instant of the base file whose row positions go into the log file; None if none do.

        The index has looked into this base file, even while a compaction of the slice is pending. A base file may hold
        a key at several positions. By their keys readers change all of these rows, by a position one of them: then no
        positions are stored. Rows that a caller has placed (`upsert_prepped_records`) come without positions.
        Hudi 0.15 fails on headers of positions, so version 6 has none.

        Args:
            place: The place of the rows.
            file_slice: The slice; None for a new file group.
            tagged: All rows: one for each position of a key.
            incoming: The rows that are appended.
        """
        if not self.context.config.write.record_positions or not place.is_of_commit:
            return None
        if file_slice is None or file_slice.base_file is None:
            return None
        if CURRENT_ROW_POSITION not in tagged.column_names:
            return None
        if tagged.num_rows > incoming.num_rows:
            of_keys = pc.count_distinct(tagged[CURRENT_ROW_POSITION]).as_py()
            if of_keys > pc.count_distinct(incoming[CURRENT_ROW_POSITION]).as_py():
                return None
        return file_slice.base_file.instant_time

    def _completed(self, file_slice: FileSlice | None, upserts: pa.Table) -> pa.Table:
        """Rows with the stored values of columns that the input lacks; of new keys these stay null."""
        spec, schema = self.context.records.merge_spec, self.context.records.schema
        if file_slice is None or not upserts.num_rows or not needs_stored_values(spec, schema):
            return upserts
        absent = [name for name in schema.names if name in spec.absent_columns]
        keys = upserts[RECORD_KEY].combine_chunks()
        stored = self._stored_rows(file_slice, keys, absent)
        places = pc.index_in(keys, value_set=stored[RECORD_KEY_META].combine_chunks())
        for name in absent:
            values = stored[name].take(places)
            upserts = upserts.set_column(upserts.schema.get_field_index(name), name, values)
        return upserts

    def _stored_rows(self, file_slice: FileSlice, keys: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows of some keys as a query reads them.

        Args:
            file_slice: The latest slice.
            keys: Record keys.
            columns: User columns that are wanted beside the key.
        """
        schema = self.context.schema_with_meta
        schema = pa.schema([field.with_nullable(True) if field.name in columns else field for field in schema])
        names = [RECORD_KEY_META, *columns]
        reader = HoodieFileGroupReader(
            HoodieReaderContext(self.context.storage, schema, names, self.context.records.log_merging), file_slice
        )
        found = [batch.filter(pc.is_in(batch.column(0), value_set=keys)) for batch in reader.iter_batches()]
        return pa.Table.from_batches(found, pa.schema([schema.field(name) for name in names]))

    def _refuse_without_order(self, upserts: pa.Table) -> TaskFailure | None:
        """A refusal of rows of a partial update that lack the ordering field, and whose stored rows have none."""
        spec = self.context.records.merge_spec
        keys = keys_without_order(spec, upserts, upserts[RECORD_KEY])
        if not len(keys):
            return None
        fields = ", ".join(dict.fromkeys([*spec.ordering_fields, *filter(None, [spec.rules.sequence_column])]))
        return TaskFailure(
            "HoodieUpsertException",
            f"{len(keys)} records of this partial update have no stored value of '{fields}', such as that of key "
            f"{short_repr(keys[0].as_py())}: they are new, or have a null there. Readers of a merge-on-read table "
            f"could not merge them. Add '{fields}' to the input",
            len(keys),
        )

    def _refuse_places(self, file_slice: FileSlice, incoming: pa.Table) -> TaskFailure | None:
        """A refusal of rows that carry their location, or got it from a user's index, and are not there."""
        if self.context.operation is WriteOperationType.UPSERT_PREPPED:
            keys = incoming[RECORD_KEY].combine_chunks()
            is_stored = pc.is_in(
                keys, value_set=self._stored_rows(file_slice, keys, ())[RECORD_KEY_META].combine_chunks()
            )
            positions = pc.if_else(is_stored, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
            marked = self._with_located_flag(incoming)
            if CURRENT_ROW_POSITION in marked.column_names:
                marked = marked.drop_columns([CURRENT_ROW_POSITION])
            return missing_keys_failure(file_slice, marked.append_column(CURRENT_ROW_POSITION, positions))
        if self.context.placement.verifies_positions and file_slice.base_file is not None:
            reason = f"the index {self.context.config.index.index_class} names wrong places"
            in_base = attrs.evolve(file_slice, log_files=())
            return self._misplaced(in_base, incoming, "HoodieIndexException", reason)
        return None
