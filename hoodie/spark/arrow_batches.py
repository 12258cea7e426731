"""The Arrow batches in which Spark gives rows to Python: where their number of rows alone limits them.

Hudi has no counterpart: its functions run in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from hoodie.engine.data import Rereading
from hoodie.spark.spark_compatibility import spark_context
from hoodie.spark.spark_plans import stored_bytes

BYTES_OF_BATCHES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_OF_BATCHES = "spark.sql.execution.arrow.maxRecordsPerBatch"
NO_LIMIT = str((1 << 31) - 1)
"""With this number of bytes Spark does not look at the size of a batch."""

LARGE_BYTES = 32 << 20
"""The rows of smaller inputs are not counted: that would cost as much as it saves."""
BATCH_BYTES = 64 << 20
"""The size that a batch should not exceed, as with Spark's own limit."""
EXPANSION = 10
"""How many times larger rows are expected to be in Arrow than in their files."""


class ShortRows:
    """Whether rows are so short that Spark's number of rows for a batch keeps batches small.

    PySpark 4 also limits the bytes of a batch, and adds them up after each row. For rows of ten columns that takes as
    long as writing them into the batch. PySpark 3.5 has no such limit.

    Long rows keep the limit. An average decides, so that a few long rows among many short ones pass.

    Args:
        frame: The rows; their files are looked at, and their rows are counted, when a job first needs the answer. None:
            only ``known`` counts.
        known: The answer, if it is known.
    """

    def __init__(self, frame: DataFrame | None = None, known: bool = False) -> None:
        self._frame = frame
        self._known = known

    @classmethod
    def of(cls, frame: DataFrame, rereading: Rereading) -> ShortRows:
        """The answer for a frame that was not read yet: False unless its files tell.

        Args:
            frame: The rows of an input.
            rereading: Whether it may be read twice; only rows that are cheap to read are counted.
        """
        return cls(frame if rereading is Rereading.CHEAP and _limits_bytes(frame.sparkSession) else None)

    @classmethod
    def measured(cls, spark: SparkSession, row_count: int, arrow_bytes: int) -> ShortRows:
        """The answer for rows whose size in Arrow is known.

        Args:
            spark: The session.
            row_count: The number of rows.
            arrow_bytes: The Arrow bytes of all of them.
        """
        return cls(known=_limits_bytes(spark) and _fit(spark, row_count, arrow_bytes))

    def are_known(self) -> bool:
        """Whether the rows are known to be short; the first call may run a job that counts them."""
        if self._frame is not None:
            frame, self._frame = self._frame, None
            self._known = _are_short(frame)
        return self._known


@contextmanager
def batches_by_rows(spark: SparkSession, are_short: bool) -> Iterator[None]:
    """Let Spark limit the batches of this thread's jobs by their number of rows alone.

    Tasks take the option from the properties of their job, unless the session's configuration has it. So the session
    stays as it is, other threads are not concerned, and the number of bytes that a user has set is kept.

    Args:
        spark: The session.
        are_short: Whether the rows are short; nothing happens otherwise, and on Spark Connect.
    """
    context = spark_context(spark) if are_short else None
    if context is None:
        yield
        return
    before = context.getLocalProperty(BYTES_OF_BATCHES)
    context.setLocalProperty(BYTES_OF_BATCHES, NO_LIMIT)
    try:
        yield
    finally:
        with suppress(Py4JError, OSError, AttributeError):  # The session was stopped meanwhile.
            context.setLocalProperty(BYTES_OF_BATCHES, before)


def _limits_bytes(spark: SparkSession) -> bool:
    """Whether this Spark may limit the bytes of batches."""
    return spark_context(spark) is not None and int(spark.version.partition(".")[0]) >= 4


def _are_short(frame: DataFrame) -> bool:
    try:
        stored = stored_bytes(frame)
    except (Py4JError, TypeError):
        # The platform guards its JVM, or this version of Spark has no such methods.
        return False
    if stored is None or stored < LARGE_BYTES:
        return False
    return _fit(frame.sparkSession, frame.count(), stored * EXPANSION)


def _fit(spark: SparkSession, row_count: int, arrow_bytes: int) -> bool:
    """Whether a batch with Spark's number of rows takes at most `BATCH_BYTES`, by the average row."""
    rows_of_batch = int(str(spark.conf.get(ROWS_OF_BATCHES)))
    # Zero means all rows.
    return rows_of_batch > 0 and arrow_bytes * rows_of_batch <= BATCH_BYTES * row_count
