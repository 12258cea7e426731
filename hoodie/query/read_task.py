"""The parts of a read plan that tasks read, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import attrs
import pyarrow as pa

from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.query.read_plan import PlannedSlice, ReadPlan

T = TypeVar("T")
TASK_BYTES = 32 << 20
"""Small slices share a task up to this size."""
_OPEN_BYTES = 1 << 20
"""The cost of opening a file: the number of bytes that are read in the same time."""
_SEARCHED_IN = 4
"""A base file whose rows are not in the result is searched for keys: one part in so many of it is read, about."""


@attrs.frozen(eq=False)
class ReadTask:
    """Slices of a plan, with everything that is needed to read them. Picklable.

    Attributes:
        context: The context of the reader.
        slices: The slices to read.
    """

    context: HoodieReaderContext
    slices: tuple[PlannedSlice, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, on this thread.

        Memory: one batch, and the log records of one slice.

        Raises:
            HoodieIOException: A file is missing, or storage failed.
            HoodieCorruptedDataException: A file is damaged.
            HoodieSchemaException: The filter cannot be computed for the rows.
        """
        for reader in self.readers():
            yield from reader.iter_batches()

    def readers(self) -> list[HoodieFileGroupReader]:
        """A reader of each slice."""
        # The filter of an incremental query holds the range, which suffices for base files without log files.
        without_range = attrs.evolve(self.context, instant_range=None)
        return [
            planned.reader(without_range if planned.file_slice.is_base_file_alone else self.context)
            for planned in self.slices
        ]


def task_of(plan: ReadPlan, slices: Sequence[PlannedSlice]) -> ReadTask:
    """A task for the given slices of a plan.

    Args:
        plan: The plan.
        slices: The slices.
    """
    has_logs = not all(planned.file_slice.is_base_file_alone for planned in slices)
    context = plan.context if has_logs else attrs.evolve(plan.context, log_merging=None)
    return ReadTask(context, tuple(slices))


def tasks_of(plan: ReadPlan) -> list[ReadTask]:
    """The tasks of a plan, in the order of its slices; none if it reads nothing.

    Args:
        plan: The plan.
    """
    return [task_of(plan, slices) for slices in packed(plan.slices, partial(_read_bytes, plan.context))]


def _read_bytes(context: HoodieReaderContext, planned: PlannedSlice) -> int:
    """The stored bytes that are read of a slice, about."""
    file_slice = planned.file_slice
    base_file = file_slice.base_file
    if base_file is None or file_slice.is_base_file_alone or not context.skips_base_rows(file_slice):
        return file_slice.size_bytes
    return file_slice.size_bytes - base_file.size_bytes + base_file.size_bytes // _SEARCHED_IN


def packed(parts: Iterable[T], size_of: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
    """Group neighbouring parts up to the size of a task.

    Args:
        parts: The parts of a plan.
        size_of: Gives the stored bytes of a part.
    """
    pack: list[T] = []
    size = 0
    for part in parts:
        cost = _OPEN_BYTES + size_of(part)
        if pack and size + cost > TASK_BYTES:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(part)
        size += cost
    if pack:
        yield tuple(pack)
