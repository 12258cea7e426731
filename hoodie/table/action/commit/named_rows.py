"""The rows of an input whose file groups the index names by their keys alone, on their way to the tasks that write.

Hudi has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen, TaskFailure, pack
from hoodie.common.util.arrow_buffers import booleans_of, numbers_in, scalar_of
from hoodie.engine.bucket_routing import BucketRouting
from hoodie.engine.data import PartitionFunction, RowNumbers
from hoodie.engine.engine_context import Shared
from hoodie.engine.fingerprint import of_hashes
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.index import Locations
from hoodie.index.places_by_hash import hashes_of_rows
from hoodie.table.action.commit.bucket_info import BucketInfo
from hoodie.table.action.commit.hashed_rows import with_strays
from hoodie.table.action.commit.two_readings import usable_rows
from hoodie.table.action.commit.upsert_partitioner import BucketAssigner

COUNTS = pa.schema(
    [
        (PARTITION_PATH, pa.string()),
        (CURRENT_FILE_ID, pa.string()),
        (RECORD_KEY, pa.string()),
        ("is_delete", pa.bool_()),
        ("count", pa.int64()),
        ("fingerprint", pa.int64()),
        ("has_odd_keys", pa.bool_()),
    ]
)
"""For each place: its rows, one of their keys, their fingerprint as a signed number, and whether rows that were counted
together with them have keys whose bucket only tasks compute. Rows without a key have no place."""
HELD_COUNTS = 1 << 16
"""The counts that a task holds at least before it adds them up."""


_Place = tuple[str, str | None, str | None]
"""Partition path, file id and instant time; None for rows whose file group is not decided, and for a new one."""


@attrs.frozen
class CountNamed:
    """Task: count the rows of an input partition by place.

    Attributes:
        locations: The shared `Locations`, which name one place for each key.
        routing: The buckets that an engine may compute; None for no such.
    """

    locations: Shared
    routing: BucketRouting | None = None

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `COUNTS`, one for each place.

        Args:
            task: The task.
            batches: Record key, partition path and operation; the path is null where a row has no key.
        """
        held: list[pa.RecordBatch] = []
        limit = HELD_COUNTS
        for counts in self._counts_of_batches(batches):
            held.append(counts)
            if sum(one.num_rows for one in held) > limit:
                held = added_up(pa.Table.from_batches(held)).to_batches()
                limit = max(HELD_COUNTS, 2 * sum(one.num_rows for one in held))
        if held:
            yield from added_up(pa.Table.from_batches(held)).to_batches()

    def _counts_of_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `COUNTS`, one for each place of a batch."""
        locations: Locations = self.locations.value
        for batch in batches:
            usable = batch.filter(pc.is_valid(batch.column(PARTITION_PATH)))
            if usable.num_rows < batch.num_rows:
                yield pa.RecordBatch.from_pylist([{"count": batch.num_rows - usable.num_rows}], COUNTS)
            if not usable.num_rows:
                continue
            tagged = locations.tag(usable)
            paths = tagged.column(PARTITION_PATH).dictionary_encode()
            files = tagged.column(CURRENT_FILE_ID).dictionary_encode()
            is_delete = usable.column(OPERATION).to_numpy() != RecordOperation.UPSERT
            # Rows without a file group are a place, too.
            file_codes = pc.fill_null(files.indices, len(files.dictionary)).to_numpy()
            codes = paths.indices.to_numpy().astype(np.int64) * (len(files.dictionary) + 1) + file_codes
            codes = 2 * codes + is_delete
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
            hashes = hashes_of_rows(usable.column(RECORD_KEY), usable.column(PARTITION_PATH), is_global=False)
            sums = np.add.reduceat(of_hashes(hashes)[order], starts)
            firsts = pa.array(order[starts])
            has_odd_keys = self.routing is not None and self.routing.has_odd_keys(usable.column(RECORD_KEY))
            columns = [
                *(tagged.column(name).take(firsts) for name in (PARTITION_PATH, CURRENT_FILE_ID, RECORD_KEY)),
                pa.array(is_delete[order[starts]]),
                pa.array(np.diff(np.append(starts, len(order)))),
                pa.array(sums.view(np.int64)),
                pa.array([has_odd_keys] * len(starts)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=COUNTS)


def added_up(counts: pa.Table) -> pa.Table:
    """Counts with one row for each place.

    Args:
        counts: Rows of `COUNTS`.
    """
    places = (PARTITION_PATH, CURRENT_FILE_ID, "is_delete")
    # Sums of fingerprints may overflow, which Arrow allows.
    added = (("count", "sum"), ("fingerprint", "sum"), ("has_odd_keys", "any"), (RECORD_KEY, "one"))
    grouped = counts.group_by(list(places), use_threads=False).aggregate(list(added))
    names = {name: f"{name}_{function}" for name, function in added}
    return grouped.select([names.get(name, name) for name in COUNTS.names]).rename_columns(COUNTS.names).cast(COUNTS)


@attrs.frozen(eq=False)
class NamedCounts:
    """The rows of an input by place.

    Attributes:
        counts: As `WorkloadProfile.from_counts` takes them.
        seen: The rows that go somewhere.
        unmatched_deletes: Rows that delete nothing: their file group does not exist, and no row makes it.
    """

    counts: pa.Table
    seen: RowsSeen
    unmatched_deletes: int

    @classmethod
    def of(cls, found: pa.Table, locations: Locations) -> NamedCounts:
        """Add up what tasks counted.

        Args:
            found: Rows of `COUNTS` with a place.
            locations: The locations by the table's files.
        """
        samples = found.select([RECORD_KEY, PARTITION_PATH]).combine_chunks().to_batches()
        placed = [row for batch in samples for row in locations.tag(batch).to_pylist()]
        rows: dict[_Place, list[tuple[bool, int, int]]] = {}
        for row, place in zip(found.to_pylist(), placed, strict=True):
            key = (place[PARTITION_PATH], place[CURRENT_FILE_ID], place[CURRENT_INSTANT_TIME])
            rows.setdefault(key, []).append((row["is_delete"], row["count"], row["fingerprint"]))
        return cls._of_places(rows)

    @classmethod
    def of_inserts(cls, found: pa.Table, locations: Locations | None, combines: bool) -> NamedCounts:
        """Add up what tasks counted of rows that are inserted.

        Args:
            found: Rows of `COUNTS` with a place.
            locations: The locations by the table's files; None if new rows may go to any file group.
            combines: Whether one row of each key stays, which may be a delete. Else deletes go nowhere.
        """
        deletes = 0
        if not combines:
            deletes = pc.sum(found.filter(found["is_delete"])["count"]).as_py() or 0
            found = found.filter(pc.invert(found["is_delete"]))
        if locations is not None:
            named = cls.of(found, locations)
            return attrs.evolve(named, unmatched_deletes=named.unmatched_deletes + deletes)
        rows: dict[_Place, list[tuple[bool, int, int]]] = {}
        for row in found.to_pylist():
            part = (row["is_delete"], row["count"], row["fingerprint"])
            rows.setdefault((row[PARTITION_PATH], None, None), []).append(part)
        named = cls._of_places(rows)
        return attrs.evolve(named, unmatched_deletes=named.unmatched_deletes + deletes)

    @classmethod
    def _of_places(cls, rows: Mapping[_Place, Sequence[tuple[bool, int, int]]]) -> NamedCounts:
        counted: list[tuple[str, str | None, str | None, int]] = []
        seen, unmatched = RowsSeen(), 0
        for (path, file_id, instant_time), parts in rows.items():
            written = sum(count for is_delete, count, _ in parts if instant_time is not None or not is_delete)
            if not written:
                unmatched += sum(count for _, count, _ in parts)
                continue
            counted.append((path, file_id, instant_time, written))
            seen = sum((RowsSeen(count, number) for _, count, number in parts), seen)
        names = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
        schema = pa.schema([*((name, pa.string()) for name in names), ("count", pa.int64())])
        columns = [[row[place] for row in counted] for place in range(len(schema))]
        return cls(pa.table(columns, schema=schema), seen, unmatched)


@attrs.frozen
class BucketOfNewRow:
    """The bucket of each row (int32) that is inserted; null for a delete that goes nowhere. Crosses to tasks.

    Attributes:
        assigner: The buckets of places.
        locations: The shared `Locations` where the index names file groups; None if rows may go to any.
        takes_deletes: Whether deletes come to the rows of their key.
    """

    assigner: BucketAssigner
    locations: Shared | None = None
    takes_deletes: bool = False

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """The buckets of rows with record key, partition path and operation."""
        numbers = np.full(batch.num_rows, -1, dtype=np.int32)
        is_new = batch.column(PARTITION_PATH).is_valid()
        if not self.takes_deletes:
            is_new = pc.and_(is_new, pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT)))
        rows = np.flatnonzero(pc.fill_null(is_new, False).to_numpy(zero_copy_only=False))
        if len(rows):
            usable = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            if self.locations is None:
                numbers[rows] = self.assigner.numbers(usable.select([RECORD_KEY, PARTITION_PATH]))
            else:
                numbers[rows] = self.assigner.numbers(self.locations.value.tag(usable))
        return with_strays(batch, numbers)


@attrs.frozen
class OwnInserts:
    """Task: writes the rows that an engine dealt to a bucket; crosses to tasks.

    Attributes:
        write: The function that writes the rows of a bucket; yields rows of `STATUS_SCHEMA`.
        buckets: The work of each bucket number.
    """

    write: PartitionFunction
    buckets: tuple[BucketInfo, ...]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a failure if rows of other partition paths came.

        Args:
            task: The task.
            batches: Rows of one bucket. Deletes are left out, and rows without a key.
        """
        strays = 0

        def own_rows() -> Iterator[pa.RecordBatch]:
            nonlocal strays
            for batch in batches:
                if not batch.num_rows:
                    continue
                path = self.buckets[int(numbers_in(batch.column(BUCKET), np.int32)[0])].partition_path
                is_upsert = booleans_of(numbers_in(batch.column(OPERATION), np.int8) == RecordOperation.UPSERT)
                is_own = pc.and_(pc.equal(batch.column(PARTITION_PATH), scalar_of(path)), is_upsert)
                if pc.all(is_own, skip_nulls=False).as_py():
                    yield batch
                    continue
                own = batch.filter(is_own)
                strays += pc.sum(pc.and_(is_upsert, batch.column(PARTITION_PATH).is_valid())).as_py() - own.num_rows
                yield own

        yield from self.write(task, own_rows())
        if strays:
            yield pack([TaskFailure("HoodieIndexException", "they came to a bucket of another partition path", strays)])


@attrs.frozen
class OwnRows:
    """Task: writes the rows that an engine brought by their buckets; crosses to tasks.

    Attributes:
        write: The function that writes the rows of a bucket; yields rows of `STATUS_SCHEMA`.
        bucket_of: The bucket of each row, which is computed again; null for rows that go nowhere.
    """

    write: PartitionFunction
    bucket_of: RowNumbers

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a failure if rows of other buckets came.

        Args:
            task: The task.
            batches: Rows of one bucket. Those without a key are left out, and those that go nowhere.
        """
        strays = 0

        def own_rows() -> Iterator[pa.RecordBatch]:
            nonlocal strays
            for batch in map(usable_rows, batches):
                numbers = self.bucket_of(batch.select([RECORD_KEY, PARTITION_PATH, OPERATION]))
                is_own = pc.equal(numbers, batch.column(BUCKET))
                count = pc.sum(is_own, min_count=0).as_py()
                if count == batch.num_rows:
                    yield batch
                    continue
                strays += batch.num_rows - is_own.null_count - count
                yield batch.filter(is_own)

        yield from self.write(task, own_rows())
        if strays:
            yield pack([TaskFailure("HoodieIndexException", "they came to another bucket than theirs", strays)])


@attrs.frozen
class BucketOfNamedRow:
    """The bucket of each row (int32), as that of `BucketOfRow`; crosses to tasks.

    Attributes:
        locations: The shared `Locations`.
        assigner: The buckets of places.
    """

    locations: Shared
    assigner: BucketAssigner

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """The buckets of rows with record key, partition path and operation."""
        numbers = np.full(batch.num_rows, -1, dtype=np.int32)
        rows = np.flatnonzero(batch.column(PARTITION_PATH).is_valid().to_numpy(zero_copy_only=False))
        if len(rows):
            usable = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            numbers[rows] = self.assigner.numbers(self.locations.value.tag(usable))
        return with_strays(batch, numbers)
