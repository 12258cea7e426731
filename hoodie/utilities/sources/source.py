"""The contract of every source of the streamer.

A round asks a `Source` for its next `InputBatch`. The batch tells the position after it, and has the rows as
`SourceRead`s: parts that are read apart from each other, in this process or in tasks of Spark. Reading is lazy: nothing
is read before the write asks for it, unless a source can know its next position by reading only.

    source.fetch(checkpoint, limit)   ->  InputBatch(checkpoint, reads, schema)
    for read in batch.reads:
        for decoded in read.batches():    DecodedBatch(rows, errors)

Hudi: org.apache.hudi.utilities.sources.Source, InputBatch. Differs: rows are Arrow batches, and what could not be
decoded comes beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen(eq=False)
class RowOrigin:
    """The places that the rows of a batch come from, by which an error of a row names its message.

    Attributes:
        numbers: int64, one of each row: the offset in the partition, or the line of the file from 1 on.
        topic: The topic of Kafka.
        partition: The partition of the topic.
        file: The path of the file.
    """

    numbers: npt.NDArray[np.int64]
    topic: str | None = None
    partition: int | None = None
    file: str | None = None

    def event(self, row: int, reason: ErrorReason, message: str, payload: bytes | str | None) -> ErrorEvent:
        """The error of a row.

        Args:
            row: The number of the row in its batch, from 0 on.
            reason: Hudi's reason.
            message: The details.
            payload: The text of the row.
        """
        number = int(self.numbers[row])
        if self.topic is not None:
            return ErrorEvent(reason, message, payload, self.topic, self.partition, number)
        return ErrorEvent(reason, message, payload, file=self.file, line=number)

    def filter(self, mask: npt.NDArray[np.bool_]) -> RowOrigin:
        """The places of some of the rows.

        Args:
            mask: True for the rows that stay.
        """
        return attrs.evolve(self, numbers=self.numbers[mask])


@attrs.frozen(eq=False)
class DecodedBatch:
    """Rows of a part of a source, and what could not be made a row.

    Attributes:
        rows: The good rows, of the schema of the input batch.
        errors: The others, one row each, of `hoodie.utilities.ingestion.error_event.ERROR_SCHEMA`; None for none.
        origin: The places of the rows; None if they are not known.
    """

    rows: pa.RecordBatch
    errors: pa.RecordBatch | None = None
    origin: RowOrigin | None = None


class SourceRead(ABC):
    """A part of an input batch that one task reads. Picklable: connections are opened by `batches`."""

    @abstractmethod
    def batches(self) -> Iterator[DecodedBatch]:
        """Read the part, from its beginning; may be called again, for the same rows.

        Batches have about 20,000 rows, so that they fit into the caches of a processor. Order matters: of rows with the
        same key and ordering value, the last one counts. So rows whose order is known stay within one read, in order.

        Raises:
            HoodieReadFromSourceException: The source does not give what was promised: say what, where and what to do.
        """


@attrs.frozen(eq=False)
class InputBatch:
    """The rows of one round, and the position after them.

    Attributes:
        checkpoint: The position after these rows; None for a source that has no positions.
        reads: The parts; none if there are no rows.
        schema: The columns of all rows; None if it is not known, which is allowed only without reads.
        frame: A DataFrame instead of the reads, from a source that needs Spark.
        size_bytes: The size of the rows at the source; None if it is not known.
        rows: The number of rows, transaction markers and gaps included; None if it is not known before they are read.
        backlog: The rows, or files, or instants, that are there now and not in this batch; None if not known.
        details: Further numbers for metrics and the line of a round: name of a gauge of Hudi -> value.
    """

    checkpoint: Checkpoint | None
    reads: Sequence[SourceRead] = ()
    schema: pa.Schema | None = None
    frame: DataFrame | None = None
    size_bytes: int | None = None
    rows: int | None = None
    backlog: int | None = None
    details: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.reads and self.frame is None


@attrs.frozen(eq=False)
class SourceContext:
    """All that a source is given when it is made.

    Attributes:
        properties: The properties of the run.
        schema_provider: The provider of ``--schemaprovider-class``; None without one. Ask it in every `Source.fetch`:
            it is refreshed after each round.
        storage_options: Options of the storage, for sources that read files or tables.
        load_table_schema: The columns of the table that is filled, without meta columns; None if there is no table, or
            no commit yet. For sources whose rows tell no types, where no provider tells them.
        table_version: The version of the table that is filled, or will be.
        spark: The session of Spark; None in this process.
        report: Takes a line for the log that a user should see, such as a position that was moved.
    """

    properties: StreamerProperties
    schema_provider: SchemaProvider | None = None
    storage_options: StorageOptions | None = None
    load_table_schema: Callable[[], pa.Schema | None] = lambda: None
    table_version: int = 9
    spark: SparkSession | None = None
    report: Callable[[str], None] = lambda line: None

    def require_schema_provider(self, source: str) -> SchemaProvider:
        """The schema provider of a source that cannot do without one.

        Args:
            source: The name of the source, for the message.

        Raises:
            HoodieConfigException: There is none.
        """
        if self.schema_provider is None:
            raise HoodieConfigException(
                f"{source} needs a schema: give --schemaprovider-class FilebasedSchemaProvider with "
                "hoodie.streamer.schemaprovider.source.schema.file, or --schema FILE"
            )
        return self.schema_provider


class Source(ABC):
    """A place that rows come from. One object serves all rounds of a run, from one thread at a time.

    Args:
        context: The properties, schemas and storage of the run.
    """

    needs_spark = False
    """Whether the source works with Spark only."""
    has_positions = True
    """Whether commits hold positions of the source. Without, each round reads all rows, and no position is sought."""

    def __init__(self, context: SourceContext) -> None:
        self.context = context

    @abstractmethod
    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """Find the next rows.

        Nothing changes at the source. The same call gives the same rows again, or later ones too, as long as the source
        keeps them.

        Args:
            checkpoint: The position to read from; None for a table without one.
            limit: The most to take (``--source-limit``); its unit is the source's own. None for the source's default.

        Returns:
            The batch. Its position equals that of ``checkpoint`` if there is nothing new.

        Raises:
            HoodieConfigException: The position is not one of this source; or options are wrong.
            HoodieReadFromSourceException: Rows that should be there are gone: say which, and the option that decides.
            HoodieSourceTimeoutException: The source does not answer; the round may be tried again.
        """

    def target_columns(self, target: pa.Schema, is_own: bool) -> pa.Schema:
        """The columns of a target schema, with those that the source adds to its rows.

        Args:
            target: The columns.
            is_own: Whether they are those of the schema of the source, and the rows come as the source gives them.
        """
        return target

    def on_commit(self, checkpoint: Checkpoint) -> None:  # noqa: B027
        """Hear that a commit holds the rows up to a position. Errors are logged, and do not fail the round.

        Args:
            checkpoint: The position.
        """

    def close(self) -> None:  # noqa: B027
        """Give back connections; may be called twice."""


def read_all(batch: InputBatch) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """All rows and errors of a batch, for tests and small batches.

    Args:
        batch: The batch.

    Returns:
        The rows, and the batches of errors.
    """
    decoded: list[Any] = [one for read in batch.reads for one in read.batches()]
    rows = pa.Table.from_batches([one.rows for one in decoded], batch.schema)
    return rows, [one.errors for one in decoded if one.errors is not None and len(one.errors)]
