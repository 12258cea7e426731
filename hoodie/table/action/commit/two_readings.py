"""Read an input twice, once for its keys and once for its rows, and find out whether the rows were the same.

The keys of the first reading decide where rows go: they were looked up, counted and assigned to buckets. A row of the
second reading that the first one did not have was never looked up, and could be stored a second time. So the tasks that
write note which rows came to them, after the shuffle, where retries and lost files can no longer change anything:

    first reading    keys -> locations -> which rows must come to the tasks
    second reading   rows -> locations -> tasks: which rows came
    both equal       the files count
    otherwise        no file counts; the input is read anew, and kept

Hudi keeps the input always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import PARTITION_PATH
from hoodie.common.model.write_status import RowsSeen, TaskFailure, TaskResult, pack
from hoodie.engine.data import PartitionFunction
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieWriteException
from hoodie.table.action.commit.incoming_keys import rows_seen

_NOT_OF_THE_INPUT = ("HoodieEarlyConflictDetectionException",)
"""Failures that keeping the input would not prevent."""


class InputReadOtherwise(HoodieWriteException):
    """The second reading of an input gave other rows than the first: the write is done again with rows kept."""


@attrs.frozen
class CountRows:
    """Task: notes the rows that come to a function.

    Attributes:
        write: The function, which reads all of its rows; yields rows of `STATUS_SCHEMA`.
        seen_in: The number and fingerprint of the rows of a batch.
    """

    write: PartitionFunction
    seen_in: Callable[[pa.RecordBatch], RowsSeen] = rows_seen

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the function, and a `RowsSeen`."""
        seen = RowsSeen()

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal seen
            for batch in batches:
                seen += self.seen_in(batch)
                yield batch

        yield from self.write(task, counted())
        yield pack([seen])


def usable_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Prepared rows without those that could not be prepared: `check_rows_seen` misses them."""
    paths = batch.column(PARTITION_PATH)
    return batch.filter(pc.is_valid(paths)) if paths.null_count else batch


def check_rows_seen(results: Sequence[TaskResult], expected: RowsSeen | None, is_kept: bool = False) -> None:
    """Compare the rows of the second reading with those of the first.

    Args:
        results: The results of the tasks.
        expected: The rows of the first reading; None if they need not be compared.
        is_kept: Whether both readings are of rows that were kept: then failed rows are not those of the second alone.

    Raises:
        InputReadOtherwise: They differ, or rows failed that only the second reading has seen whole.
    """
    if expected is None:
        return
    failures = [result for result in results if isinstance(result, TaskFailure)]
    for failure in failures:
        if failure.error_class not in _NOT_OF_THE_INPUT and not is_kept:
            raise InputReadOtherwise(f"rows cannot be written as they were read for the second time: {failure.message}")
    seen = sum((result for result in results if isinstance(result, RowsSeen)), RowsSeen())
    if seen != expected and not failures:
        raise InputReadOtherwise(
            f"the input had {expected.count} rows to write when its keys were read; when its rows were read it had "
            f"{seen.count}, and not all were the same"
        )
