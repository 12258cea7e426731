"""The engine that a streamer runs on: in this process, or on Spark.

An engine makes the rows of a batch ready for its write client: decoded, checked, transformed, with the columns of the
target schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.common.data.nullability import nullable_schema
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_spool import ErrorSpool
from hoodie.utilities.sources.source import InputBatch
from hoodie.utilities.streamer.row_check import RowCheck
from hoodie.utilities.streamer.tombstone_rules import TombstoneRules
from hoodie.utilities.transform.transformer import Transformer


@attrs.frozen
class RowPlan:
    """The changes of the rows of a batch before they are written.

    Attributes:
        check: The questions that every row has to pass.
        properties: The properties of the run, for transformers.
        transformer: Changes the rows; None for none.
        target: The columns that the rows get, by name; None leaves them.
        tombstones: The demands on the rows of the transformer.
        makes_nullable: Whether all columns may be null where there are no others to get.
    """

    check: RowCheck
    properties: StreamerProperties
    transformer: Transformer | None = None
    target: pa.Schema | None = None
    tombstones: TombstoneRules = attrs.field(factory=TombstoneRules)
    makes_nullable: bool = False

    def target_of(self, columns: pa.Schema) -> pa.Schema | None:
        """The columns that rows get; None leaves them.

        Args:
            columns: The columns that they have.
        """
        return nullable_schema(columns) if self.target is None and self.makes_nullable else self.target


class StreamerRows(ABC):
    """The rows of one round, ready to be written."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    @abstractmethod
    def data(self) -> Any:
        """The rows, as the engine's client takes them; may be read once."""

    @abstractmethod
    def has_rows(self) -> bool:
        """Whether there is a good row; reads no more than it has to. `data` still has all rows."""

    @abstractmethod
    def errors(self) -> ErrorSpool:
        """The errors, once `data` has been read to its end; see `error_event.ERROR_SCHEMA`."""

    @property
    @abstractmethod
    def row_count(self) -> int | None:
        """The number of good rows, once `data` has been read; None if the engine does not know it."""

    def close(self) -> None:  # noqa: B027
        """Give back what holds the rows; may be called twice."""


class BegunBatch:
    """A batch that an engine has begun to read.

    Args:
        batch: The batch.
    """

    def __init__(self, batch: InputBatch) -> None:
        self.batch = batch

    def wait(self) -> None:
        """Wait until all rows were decoded, or reading was stopped."""

    def close(self) -> None:
        """Stop reading; may be called twice."""


class StreamerEngine(ABC):
    """One engine."""

    name: str
    """``local`` or ``spark``."""

    @abstractmethod
    def open_client(
        self, config: HoodieWriteConfig, validators: Sequence[Validator | HoodiePreCommitValidator] = ()
    ) -> BaseHoodieWriteClient:
        """Make a write client.

        Args:
            config: The writer's configuration.
            validators: Asked before each commit.
        """

    @abstractmethod
    def begin(self, batch: InputBatch, ahead_bytes: int) -> BegunBatch:
        """Begin to read a batch.

        Args:
            batch: The batch, which is not empty.
            ahead_bytes: The most that is decoded before it is written.
        """

    @abstractmethod
    def rows_of(self, begun: BegunBatch, plan: RowPlan) -> StreamerRows:
        """The rows of a batch, as they are written. Errors of the rows appear when these are read.

        Args:
            begun: The batch, of this engine.
            plan: The changes of the rows.
        """

    @abstractmethod
    def no_rows(self, schema: pa.Schema) -> Any:
        """No rows, as the engine's client takes them.

        Args:
            schema: The columns.
        """

    def end_round(self) -> None:  # noqa: B027
        """Hear that a round ended, and that nobody holds its rows any more."""

    def close(self) -> None:  # noqa: B027
        """Give back what the engine has; may be called twice."""
