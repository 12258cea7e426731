"""The interface of an execution engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.metrics.progress import TaskCounter

T = TypeVar("T")
R = TypeVar("R")


class Shared(ABC):
    """A read-only value on the driver that tasks read (Spark: a broadcast)."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """The value; each worker process loads it once."""

    @abstractmethod
    def release(self) -> None:
        """Free what the tasks hold. The driver calls this when no task will use the value any more."""


class HoodieEngineContext(ABC):
    """Runs functions on data and on lists of items, on a number of cores.

    Hudi: org.apache.hudi.common.engine.HoodieEngineContext.
    """

    @property
    @abstractmethod
    def default_parallelism(self) -> int:
        """The number of tasks that run at once."""

    def metastore_options(self, names: Iterable[str]) -> dict[str, str]:
        """Hive's options of the metastore that the engine's session uses, such as ``hive.metastore.uris``.

        Args:
            names: The options that are asked for.

        Returns:
            Those that the session has.
        """
        return {}

    @property
    def spark_version(self) -> str | None:
        """The version of Spark, such as ``3.5.9``; None for an engine without Spark."""
        return None

    @abstractmethod
    def to_data(self, records: Any, schema: pa.Schema | None = None, is_tagged: bool = False) -> HoodieData:
        """Turn input in one of the engine's own forms (see the client) into data; `normalise` decides the types.

        Args:
            records: The input.
            schema: The types for input without types of its own (dicts, records, columns that hold only nulls).
            is_tagged: Keep the meta columns with keys and file names, under their reserved names
                (`hoodie.common.model.record_columns.TAGS`); otherwise all meta columns are dropped.

        Raises:
            HoodieSchemaException: This engine does not accept this kind of input, or a type cannot be stored.
        """

    @abstractmethod
    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        """Compute ``[function(task, item) for item in items]``, in the order of ``items``, spread over tasks.

        Items, function and results must be picklable and small, and items should have similar costs. The first error is
        raised, the others are dropped.
        """

    @abstractmethod
    def generate(
        self, items: Sequence[T], function: Callable[[TaskIdentity, T], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> HoodieData:
        """Data that tasks make: the batches that ``function(task, item)`` yields for each item, one partition per item.

        It is lazy, like all data; without items it is empty data of that schema.
        """

    @abstractmethod
    def share(self, value: T) -> Shared:
        """Make a value available to tasks; the `Shared` is picklable and can be sent to tasks."""

    @property
    def max_shared_bytes(self) -> int:
        """The most bytes that a value to share should have."""
        return 256 << 20

    @property
    def shares_memory(self) -> bool:
        """Whether all tasks and the driver have one memory, so that a shared value is held once and never sent."""
        return False

    def check_running(self) -> None:  # noqa: B027
        """Refuse to begin a call of a client if tasks can no longer run.

        Raises:
            HoodieException: The engine was stopped.
        """

    @property
    def least_write_tasks(self) -> int | None:
        """The number of tasks of a write from which on small file groups share one, because a task costs much.

        None if each file group is written by a task of its own.
        """
        return None

    @property
    def draws_progress(self) -> bool:
        """Whether the engine draws its own progress bar on the terminal."""
        return False

    @property
    def ranges_by_default(self) -> bool:
        """Whether new tables get ranges of columns in their metadata table, if nobody says otherwise."""
        return False

    @contextmanager
    def job(self, description: str, subject: str = "") -> Iterator[TaskCounter | None]:
        """Name the work that runs inside, if the engine shows names (Spark: the job description).

        Args:
            description: The text to show; the earlier text is restored at the end.
            subject: The larger work, such as a call, its instant and its table.

        Returns:
            A context manager. It gives a function that returns, from any thread, the numbers of tasks that were started
            and that have ended inside; or None from an engine that does not count them.
        """
        yield None
