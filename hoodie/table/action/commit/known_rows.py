"""Rows of an insert whose keys the table may have, on their way to the tasks that write.

Hudi has no counterpart: it joins the rows with stored keys before it writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import are_surely_distinct
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, RECORD_KEY
from hoodie.common.model.write_status import TaskFailure, WithoutEffect, pack
from hoodie.common.util.arrow_buffers import numbers_in
from hoodie.engine.data import PartitionFunction
from hoodie.engine.engine_context import Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.execution.insert_handler import upserts_only
from hoodie.index.index import Locations
from hoodie.index.merged_keys import MergedKeys
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.storage.storage import HoodieStorage

CHECKED_ROWS = 1 << 18
"""The rows whose keys are looked up at once, at least."""


@attrs.frozen
class SliceKeys:
    """The keys of file slices; crosses to tasks.

    Attributes:
        storage: The storage of the files.
        merged: Reads the keys of slices with log files; None in a table without them.
    """

    storage: HoodieStorage
    merged: MergedKeys | None = None

    def has(self, file_slice: FileSlice, keys: pa.Array) -> pa.Array:
        """Whether a slice has each key (bool).

        Args:
            file_slice: The slice.
            keys: Record keys (string); they may repeat.
        """
        if not file_slice.is_base_file_alone:
            assert self.merged is not None
            return pc.is_in(keys, value_set=self.merged.read(file_slice)[RECORD_KEY].combine_chunks())
        distinct = keys if are_surely_distinct(keys) else keys.unique()
        base_file = file_slice.key_file
        handle = HoodieKeyLookupHandle(self.storage, base_file.path, base_file.size_bytes)
        is_stored = np.zeros(len(distinct), dtype=np.bool_)
        is_stored[handle.lookup(distinct).key_indices] = True
        if len(distinct) < len(keys):
            is_stored = is_stored[pc.index_in(keys, value_set=distinct).to_numpy()]
        return pa.array(is_stored)


@attrs.frozen
class KnownRows:
    """Task: drops the rows of a bucket whose key is stored, before the others are written.

    Attributes:
        write: The function that writes the rows of a bucket; yields rows of `STATUS_SCHEMA`. None if all buckets are
            only checked.
        slices: For each bucket, the slice that may have keys of its rows; None for no slice.
        keys: The keys of slices.
        checked_from: Rows of buckets from this number on came because their slice has the hash of their key. They are
            never written: a key that is not stored has the hash of another one, and its task fails.
    """

    write: PartitionFunction | None
    slices: tuple[FileSlice | None, ...]
    keys: SliceKeys
    checked_from: int

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function; and a `WithoutEffect`, or a failure.

        Args:
            task: The task.
            batches: Rows of one bucket.
        """
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return
        rows = _resumed(first, batches)
        number = int(numbers_in(first.column(BUCKET), np.int32)[0])
        file_slice = self.slices[number]
        if file_slice is None:
            assert self.write is not None
            yield from self.write(task, rows)
            return
        known = 0

        def new_rows(names: list[str]) -> Iterator[pa.RecordBatch]:
            nonlocal known
            for some in _in_parts(rows, names):
                is_known = self.keys.has(file_slice, some[RECORD_KEY].combine_chunks())
                count = pc.sum(is_known).as_py()
                known += count
                if count < some.num_rows:
                    yield from (some if not count else some.filter(pc.invert(is_known))).to_batches()

        if number < self.checked_from:
            assert self.write is not None
            yield from self.write(task, new_rows(first.schema.names))
        else:
            others = sum(batch.num_rows for batch in new_rows([RECORD_KEY]))
            if others:
                yield pack([TaskFailure("HoodieIndexException", "they have the hashes of other keys", others)])
        yield pack([WithoutEffect(kept=known)])


@attrs.frozen
class NewRows:
    """Task: drops the rows whose key has a location.

    Attributes:
        write: The function that writes the other rows; yields rows of `STATUS_SCHEMA`.
        locations: The shared `Locations`.
    """

    write: PartitionFunction
    locations: Shared

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a `WithoutEffect` for the dropped rows."""
        known = 0

        def new_rows() -> Iterator[pa.RecordBatch]:
            nonlocal known
            locations: Locations = self.locations.value
            for batch in batches:
                # A key that is stored several times gives several rows, a new one gives one.
                tagged = locations.tag(batch)
                kept = tagged.filter(tagged.column(CURRENT_FILE_ID).is_null()).select(batch.schema.names)
                known += batch.num_rows - kept.num_rows
                if kept.num_rows:
                    yield kept

        yield from self.write(task, new_rows())
        yield pack([WithoutEffect(kept=known)])


@attrs.frozen
class InsertsOnly:
    """Task: leaves deletes out, which have nothing to delete among new rows.

    Attributes:
        write: The function that writes the other rows; yields rows of `STATUS_SCHEMA`.
    """

    write: PartitionFunction

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a `WithoutEffect` for the deletes."""
        deletes = 0

        def inserts() -> Iterator[pa.RecordBatch]:
            nonlocal deletes
            for batch in batches:
                kept = upserts_only(batch)
                deletes += batch.num_rows - kept.num_rows
                if kept.num_rows:
                    yield kept

        yield from self.write(task, inserts())
        yield pack([WithoutEffect(unmatched_deletes=deletes)])


def _resumed(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _in_parts(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.Table]:
    """Columns of batches, in parts of about `CHECKED_ROWS` rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch.select(names))
        count += batch.num_rows
        if count >= CHECKED_ROWS:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)
