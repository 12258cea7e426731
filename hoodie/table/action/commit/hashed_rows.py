"""The rows of an input whose places `hoodie.index.places_by_hash` has found, on their way to the tasks that write them.

Hudi has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import are_surely_distinct
from hoodie.common.model.record_columns import BUCKET, CURRENT_ROW_POSITION, OPERATION, RECORD_KEY, reserved_field
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import WithoutEffect, pack
from hoodie.engine.data import PartitionFunction, TableFunction, numbered
from hoodie.engine.engine_context import Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.places_by_hash import ROW_IN_BATCH, HashedPlaces
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.action.commit.upsert_partitioner import BucketAssigner

HELD_ROWS = 1 << 20
"""The rows that a task holds at least before it combines them."""


@attrs.frozen
class BucketOfRow:
    """The bucket of each row (int32); null for a row that deletes nothing. Crosses to tasks.

    A row that was not looked up comes to some bucket, so that `CountRows` sees it.

    Attributes:
        places: The shared `HashedPlaces`.
        assigner: The buckets of places.
    """

    places: Shared
    assigner: BucketAssigner

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """The buckets of rows with record key, partition path and operation."""
        return self.numbers(batch, self.placed(batch))

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as `HashedPlaces.placed` gives them."""
        places: HashedPlaces = self.places.value
        return places.placed(batch)

    def numbers(self, batch: pa.RecordBatch, placed: pa.RecordBatch) -> pa.Array:
        """The buckets of rows.

        Args:
            batch: The rows.
            placed: The same by `placed`.
        """
        numbers = np.full(batch.num_rows, -1, dtype=np.int32)
        numbers[placed.column(ROW_IN_BATCH.name).to_numpy()] = self.assigner.numbers(placed)
        return with_strays(batch, numbers)


@attrs.frozen
class PlaceRows:
    """Adds to rows the position of their key by its hash, and their bucket; drops those without a bucket.

    Attributes:
        bucket_of: The bucket of each row.
    """

    bucket_of: BucketOfRow

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the result for rows of a schema."""
        return schema.append(reserved_field(CURRENT_ROW_POSITION)).append(reserved_field(BUCKET))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with a null position if the key is new, and -1 if it is not known."""
        placed = self.bucket_of.placed(batch)
        positions = placed.column(CURRENT_ROW_POSITION)
        if len(positions) < batch.num_rows:
            # Rows that go nowhere, or do not count: any position will do.
            entries = np.full(batch.num_rows, -1, dtype=np.int64)
            entries[placed.column(ROW_IN_BATCH.name).to_numpy()] = np.arange(len(positions))
            positions = positions.take(pa.array(entries, mask=entries < 0))
        rows = batch.append_column(reserved_field(CURRENT_ROW_POSITION), positions)
        return numbered(rows, self.bucket_of.numbers(batch, placed), reserved_field(BUCKET))


def with_strays(batch: pa.RecordBatch, numbers: npt.NDArray[np.int32]) -> pa.Array:
    """The buckets of rows, with some bucket for rows that have none and are no deletes.

    Args:
        batch: The rows, with their operation.
        numbers: Their buckets; negative for none.
    """
    has_none = numbers < 0
    operations = pc.fill_null(batch.column(OPERATION), int(RecordOperation.UPSERT)).to_numpy()
    is_stray = has_none & (operations == RecordOperation.UPSERT)
    return pa.array(np.where(is_stray, np.int32(0), numbers), mask=has_none & ~is_stray)


@attrs.frozen
class CombineRows:
    """Task: combine the rows of one key before they are written; all of them are in one bucket.

    Rows are combined whenever twice as many are held as remained the last time, so that memory grows with the keys of
    the bucket, not with their rows.

    Attributes:
        write: The function that writes the rows; yields rows of `STATUS_SCHEMA`.
        combine: Gives the rows that remain of some keys.
        at_once: Whether it needs all rows of a key at once.
        buckets: The work of each bucket number.
    """

    write: PartitionFunction
    combine: TableFunction
    at_once: bool
    buckets: tuple[BucketInfo, ...]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a `WithoutEffect` for the rows that were left out."""
        held: list[pa.RecordBatch] = []
        came = count = 0
        limit = HELD_ROWS
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            came += batch.num_rows
            count += batch.num_rows
            if count > limit and not self.at_once:
                held = self._combined(held)
                count = sum(part.num_rows for part in held)
                limit = max(HELD_ROWS, 2 * count)
        if not held:
            return
        held = self._combined(held)
        combined = came - sum(part.num_rows for part in held)
        deletes = 0
        if self.buckets[held[0].column(BUCKET)[0].as_py()].bucket_type is BucketType.INSERT:
            kept = [batch.filter(pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))) for batch in held]
            deletes = sum(batch.num_rows for batch in held) - sum(batch.num_rows for batch in kept)
            held = kept
        yield from self.write(task, iter(held))
        yield pack([WithoutEffect(combined=combined, unmatched_deletes=deletes)])

    def _combined(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches)
        if are_surely_distinct(rows[RECORD_KEY]):
            return batches
        combined: list[pa.RecordBatch] = self.combine(rows).combine_chunks().to_batches()
        return combined


@attrs.frozen
class TagRows:
    """Task: give rows their locations before they are written.

    Attributes:
        write: The function that writes the rows.
        locations: The shared `Locations`, which give one location for each row.
    """

    write: PartitionFunction
    locations: Shared

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function."""
        yield from self.write(task, map(self.locations.value.tag, batches))
