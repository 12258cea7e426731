"""The parts of a read plan that tasks read, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.query.read_plan import PlannedSlice, ReadPlan
from hoodie.storage.storage import HoodieStorage

TASK_BYTES = 32 << 20
"""Small slices share a task up to this size."""
_OPEN_BYTES = 1 << 20
"""The cost of opening a file: the number of bytes that are read in the same time."""


@attrs.frozen(eq=False)
class ReadTask:
    """Slices of a plan, with everything that is needed to read them. Picklable.

    Attributes:
        storage: Where the files are.
        schema: The table's columns, including meta columns.
        columns: The columns of the result.
        row_filter: The condition on rows; None for all rows.
        slices: The slices to read.
        seeks_few: See `ReadPlan.seeks_few`.
        log_merging: The merge of log files; None if no slice has log files.
        instant_range: See `ReadPlan`.
    """

    storage: HoodieStorage
    schema: pa.Schema
    columns: tuple[str, ...]
    row_filter: RowFilter | None
    slices: tuple[PlannedSlice, ...]
    seeks_few: bool = False
    log_merging: LogMerging | None = None
    instant_range: InstantRange | None = None

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
        return [
            HoodieFileGroupReader(
                self.storage,
                planned.file_slice,
                self.schema,
                log_merging=self.log_merging,
                # The filter of an incremental query includes the range. For base files that is enough.
                instant_range=None if planned.file_slice.is_base_file_alone else self.instant_range,
                columns=self.columns,
                row_filter=self.row_filter,
                row_groups=planned.row_groups,
                rows=planned.rows,
                seeks_few=self.seeks_few,
            )
            for planned in self.slices
        ]


def task_of(plan: ReadPlan, slices: Sequence[PlannedSlice]) -> ReadTask:
    """A task for the given slices of a plan.

    Args:
        plan: The plan.
        slices: The slices.
    """
    return ReadTask(
        plan.snapshot.storage,
        plan.schema,
        plan.columns,
        plan.row_filter,
        tuple(slices),
        plan.seeks_few,
        None if all(planned.file_slice.is_base_file_alone for planned in slices) else plan.log_merging,
        plan.instant_range,
    )


def tasks_of(plan: ReadPlan) -> list[ReadTask]:
    """The tasks of a plan, in the order of its slices; none if it reads nothing.

    Args:
        plan: The plan.
    """
    return [task_of(plan, slices) for slices in _packed(plan.slices)]


def _packed(slices: Sequence[PlannedSlice]) -> Iterator[tuple[PlannedSlice, ...]]:
    """Group neighbouring slices up to the size of a task."""
    pack: list[PlannedSlice] = []
    size = 0
    for planned in slices:
        cost = _OPEN_BYTES + planned.file_slice.size_bytes
        if pack and size + cost > TASK_BYTES:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(planned)
        size += cost
    if pack:
        yield tuple(pack)
