"""The Python steps of tasks: functions of batches that run one after the other in a Python worker of Spark.

Hudi has no counterpart: its functions run in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from hoodie.engine.data import BatchFunction, PartitionFunction, RowNumbers, TableFunction, numbered
from hoodie.engine.fingerprint import fingerprint
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException
from hoodie.spark.spark_types import conform, schema_in_jvm
from hoodie.spark.worker_start import prepare_worker

BATCH_ROWS = 1 << 16
"""Small batches are combined up to this number of rows before a function sees them: Spark's default is 10,000."""
BATCH_BYTES = 32 << 20
"""Batches are combined up to this size at most, whatever their number of rows."""

FINGERPRINT = "__hoodie_fingerprint"
FINGERPRINT_FIELD = pa.field(FINGERPRINT, pa.int64())
SIZES = "__hoodie_sizes"
SIZES_FIELD = pa.field(SIZES, pa.string())


def task_identity() -> TaskIdentity:
    """The identity of the current task; called in tasks."""
    task = TaskContext.get()
    if task is None:
        raise HoodieException("not inside a Spark task")
    return TaskIdentity(task.partitionId(), task.stageId(), task.taskAttemptId())


@attrs.frozen
class Step:
    """A function of a partition's batches, and the schema of its results."""

    function: PartitionFunction
    schema: pa.Schema


@attrs.frozen
class Steps:
    """The work of a task: runs the steps one after the other, on batches from the JVM and back to it."""

    source_schema: pa.Schema
    steps: tuple[Step, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        prepare_worker()
        task = task_identity()
        flow = gathered(conform(batch, self.source_schema) for batch in batches)
        for step in self.steps:
            flow = conformed(step.function(task, flow), step.schema)
        return conformed(flow, schema_in_jvm(self.steps[-1].schema))


def through_steps(task: TaskIdentity, steps: Sequence[Step], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The results of steps, all of them functions of a batch, for one batch.

    Args:
        task: The task.
        steps: The steps.
        batch: In the schema before the first step.
    """
    for step in steps:
        (batch,) = conformed(step.function(task, iter([batch])), step.schema)
    return batch


@attrs.frozen
class NumberRows:
    """Adds a number to each row as it comes, by what some of its columns are after steps; rows without one are dropped.

    A batch that the steps do not give row by row has no numbers.

    Attributes:
        source: The columns that go through the steps.
        steps: Functions of a batch.
        numbers: The number of each row of their results.
        field: The column of the numbers.
    """

    source: pa.Schema
    steps: tuple[Step, ...]
    numbers: RowNumbers
    field: pa.Field

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = through_steps(task, self.steps, conform(batch.select(self.source.names), self.source))
            if done.num_rows != batch.num_rows:
                continue
            yield numbered(batch, self.numbers(done), self.field)


@attrs.frozen
class BesideSteps:
    """Takes rows through steps, past which some of their columns go.

    If the steps give other rows than they got, these have the columns of the first rows.

    Attributes:
        source: The columns that go through the steps.
        steps: Functions of a batch.
        passing: The other columns.
    """

    source: pa.Schema
    steps: tuple[Step, ...]
    passing: tuple[str, ...]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = through_steps(task, self.steps, conform(batch.select(self.source.names), self.source))
            passing = batch.select(self.passing).slice(0, done.num_rows)
            for field, column in zip(passing.schema, passing.columns, strict=True):
                done = done.append_column(field, column)
            yield done


@attrs.frozen
class EachBatch:
    """Turns a function of one batch into a function of a partition."""

    function: BatchFunction

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self.function, batches)


@attrs.frozen
class SelectColumns:
    """Selects columns of a batch."""

    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(self.columns)

    def narrowed_to(self, columns: Sequence[str], source: pa.Schema) -> tuple[SelectColumns, pa.Schema, Sequence[str]]:
        """See `NarrowableFunction`."""
        return SelectColumns(tuple(columns)), pa.schema([source.field(name) for name in columns]), columns


@attrs.frozen
class AddFingerprints:
    """Adds two columns that are null except in the partition's last row.

    That row holds the fingerprint of all rows, their number, and the bytes of each column.
    """

    columns: tuple[str, ...]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = 0
        sizes: np.ndarray | None = None
        held: pa.RecordBatch | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if held is not None:
                yield _with_notes(held, None, None)
            total += fingerprint(batch, self.columns)
            found = np.array([batch.num_rows, *(column.nbytes for column in batch.columns)], dtype=np.int64)
            sizes = found if sizes is None else sizes + found
            held = batch
        if held is not None and sizes is not None:
            # Converted to a signed number of 64 bits.
            number = (total + (1 << 63)) % (1 << 64) - (1 << 63)
            if held.num_rows > 1:
                yield _with_notes(held.slice(0, held.num_rows - 1), None, None)
            yield _with_notes(held.slice(held.num_rows - 1), number, ",".join(map(str, sizes.tolist())))


def _with_notes(batch: pa.RecordBatch, number: int | None, sizes: str | None) -> pa.RecordBatch:
    """A batch with the columns of `AddFingerprints`; the values are set in its last row only."""
    if number is None:
        notes = [pa.nulls(batch.num_rows, pa.int64()), pa.nulls(batch.num_rows, pa.string())]
    else:
        notes = [pa.array([number], pa.int64()), pa.array([sizes], pa.string())]
    return batch.append_column(FINGERPRINT_FIELD, notes[0]).append_column(SIZES_FIELD, notes[1])


@attrs.frozen
class WholePartition:
    """Turns a function of a table into a function of a partition; not called for a partition without rows."""

    function: TableFunction
    schema: pa.Schema

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, self.schema)
        if table.num_rows:
            yield from self.function(table).combine_chunks().to_batches()


def conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches in the types of a schema."""
    return (conform(batch, schema) for batch in batches)


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine the rows into fewer, larger batches, none of them empty."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
