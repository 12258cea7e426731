"""What the write pipeline needs of an execution engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.metrics.progress import TaskCounter

__all__ = ["HoodieEngineContext", "Shared"]

T = TypeVar("T")
R = TypeVar("R")


class Shared(ABC):
    """A read-only value on the driver that tasks read (Spark: a broadcast)."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """The value; in a task it is loaded once per worker process."""

    @abstractmethod
    def release(self) -> None:
        """Free what the tasks hold. The driver calls it when no task will ask again."""


class HoodieEngineContext(ABC):
    """Runs functions over data and over lists of items, on some number of cores.

    Hudi: org.apache.hudi.common.engine.HoodieEngineContext.
    """

    @property
    @abstractmethod
    def default_parallelism(self) -> int:
        """How many tasks run at once."""

    @abstractmethod
    def to_data(self, records: Any, schema: pa.Schema | None = None, is_tagged: bool = False) -> HoodieData:
        """Input in one of the engine's own forms (see the client) as data; types are what `normalise` makes of them.

        Args:
            records: The input.
            schema: Types for input that has none of its own (dicts, records, columns of nulls only).
            is_tagged: Keep the meta columns that say keys and files, under their reserved names
                (`hoodie.common.model.record_columns.TAGS`); else all meta columns are dropped.

        Raises:
            HoodieSchemaException: The input is of a kind that this engine does not take, or a type cannot be stored.
        """

    @abstractmethod
    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        """``[function(task, item) for item in items]``, in the order of ``items``, spread over tasks.

        Items, function and results are picklable and small; items of similar cost are best. The first error is
        raised, the others are dropped.
        """

    @abstractmethod
    def generate(
        self, items: Sequence[T], function: Callable[[TaskIdentity, T], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> HoodieData:
        """Data made by tasks: the batches that ``function(task, item)`` yields for each item, one partition an item.

        Lazy, as all data; empty data of that schema for no items.
        """

    @abstractmethod
    def share(self, value: T) -> Shared:
        """Make a value available to tasks; the `Shared` is picklable and goes where tasks need it."""

    @property
    def draws_progress(self) -> bool:
        """Whether the engine draws a progress bar of its own on the terminal."""
        return False

    @contextmanager
    def job(self, description: str) -> Iterator[TaskCounter | None]:
        """Name what is run inside, where the engine shows it (Spark: the job description).

        Args:
            description: What is shown; what was shown before comes back at the end.

        Returns:
            A context manager; it gives a function that tells, from any thread, how many tasks have been started
            and have ended inside, or None from an engine that cannot tell.
        """
        yield None
