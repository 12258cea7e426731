"""The tasks that write the buckets of a write: small buckets share one, where a task of the engine costs much.

A task of Spark takes 25 to 50 ms of CPU time in Python besides its work, and a small file 10 ms. So an upsert of a few
rows in each of 3,000 partitions would spend most of its time on tasks.

Hudi has no counterpart: each of its buckets is a task.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.record_columns import BUCKET
from hoodie.common.util.arrow_buffers import numbers_in
from hoodie.engine.data import PartitionFunction
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException

TASK_BYTES = 16 << 20
"""The bytes that tasks which share buckets write about: work of half a second."""
BUCKET_BYTES = 512 << 10
"""What a bucket costs besides its bytes, such as opening files and a bloom filter: the bytes written in that time."""


@attrs.frozen
class WriteTasks:
    """The tasks of a write.

    Attributes:
        count: Their number.
        task_of: The task of each bucket number; None if each bucket has its own, of the same number.
    """

    count: int
    task_of: tuple[int, ...] | None = None

    @classmethod
    def of(cls, bucket_bytes: Sequence[int], least: int | None) -> WriteTasks:
        """Deal buckets to tasks of about the same work.

        Args:
            bucket_bytes: The bytes that each bucket is expected to write, the largest first.
            least: The number of tasks below which none share buckets; None if none do.
        """
        number = len(bucket_bytes)
        if least is None or number <= least:
            return cls(number)
        costs = [size + BUCKET_BYTES for size in bucket_bytes]
        count = max(least, math.ceil(sum(costs) / TASK_BYTES))
        if count >= number:
            return cls(number)
        loads = [(0, task) for task in range(count)]
        task_of = []
        for cost in costs:
            load, task = loads[0]
            heapq.heapreplace(loads, (load + cost, task))
            task_of.append(task)
        return cls(count, tuple(task_of))

    def running(self, write: PartitionFunction) -> PartitionFunction:
        """The function that writes the rows of a task.

        Args:
            write: Writes the rows of a bucket.
        """
        return write if self.task_of is None else EachBucket(write)


@attrs.frozen
class EachBucket:
    """Task: writes the rows of several buckets, one bucket after the other. Crosses to tasks.

    For the function each bucket is a task of its own, whose number is that of the bucket. So files and sequence numbers
    are those of buckets that share no task.

    Attributes:
        write: Writes the rows of a bucket; yields rows of `STATUS_SCHEMA`.
    """

    write: PartitionFunction

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function for all buckets.

        Args:
            task: The task.
            batches: Rows that are sorted by their bucket column.

        Raises:
            HoodieException: The rows of a bucket are not next to each other.
        """
        written: set[int] = set()
        for number, pieces in groupby(_pieces(batches), key=itemgetter(0)):
            if number in written:
                raise HoodieException(f"the rows of bucket {number} came apart: the engine did not sort them")
            written.add(number)
            yield from self.write(attrs.evolve(task, partition_index=number), (rows for _, rows in pieces))


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(bucket, rows) of batches that are sorted by bucket."""
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = numbers_in(batch.column(BUCKET), np.int32)
        starts = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in pairwise([0, *starts.tolist(), batch.num_rows]):
            yield int(numbers[start]), batch.slice(start, end - start)
