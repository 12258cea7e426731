"""The Spark engine: runs tasks on the executors of a session.

Hudi: org.apache.hudi.client.common.HoodieSparkEngineContext.
"""

from __future__ import annotations

import itertools
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import pyarrow as pa
from pyspark import RDD, Broadcast, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from hoodie.common.data.normalise import normalise_batch, normalise_table
from hoodie.common.data.record_source import RecordSource, record_batches
from hoodie.common.data.stored_types import find_field, is_dropped, normalise_schema
from hoodie.common.data.unknown_columns import unknown_columns
from hoodie.common.model.record_columns import RESERVED_COLUMNS, TAGS
from hoodie.common.util.shown_value import shown_value
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieSchemaException,
)
from hoodie.metrics.progress import TaskCounter
from hoodie.spark.released_broadcasts import release
from hoodie.spark.spark_compatibility import (
    STOPPED,
    check_running,
    is_frame,
    is_stopped,
    spark_context,
)
from hoodie.spark.spark_data import SparkData, hoodie_errors
from hoodie.spark.spark_jobs import described_job, draws_progress
from hoodie.spark.spark_plans import rereading_of
from hoodie.spark.spark_steps import task_identity
from hoodie.spark.spark_types import arrow_schema, spark_schema
from hoodie.spark.worker_start import prepare_worker

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
"""The number of tasks per core that lists of items are divided into, so that a slow item delays few others."""
RECORDS_PER_BATCH = 10_000
"""The number of `HoodieRecord`s of an RDD in one batch."""
SAMPLED_RECORDS = 1_000
"""The number of `HoodieRecord`s from which the schema is inferred if none is given."""


class HoodieSparkEngineContext(HoodieEngineContext):
    """Runs tasks on the executors of a session; it does not change the session's configuration.

    The Python workers must be able to import hoodie and the modules that the functions use.

    Args:
        spark: The session.

    Raises:
        HoodieConfigException: The argument is not a session.
        HoodieException: The session was stopped.

    Hudi: org.apache.hudi.client.common.HoodieSparkEngineContext.
    """

    def __init__(self, spark: SparkSession) -> None:
        check_running(spark)
        self._spark = spark
        self._parallelism: int | None = None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def least_write_tasks(self) -> int:
        return TASKS_PER_CORE * self.default_parallelism

    @property
    def default_parallelism(self) -> int:
        if self._parallelism is None:
            context = spark_context(self._spark)
            # A range without a number of partitions gets one per core; only Spark Connect needs this detour.
            self._parallelism = (
                context.defaultParallelism if context else SparkData(self._spark.range(1 << 20)).num_partitions
            )
        return self._parallelism

    def metastore_options(self, names: Iterable[str]) -> dict[str, str]:
        """See the contract: of the session's configuration, or of Hadoop's (``hive-site.xml``), which Connect hides."""
        context = spark_context(self._spark)
        hadoop = None if context is None else context._jsc.hadoopConfiguration()
        found = {}
        for name in names:
            keys = (f"spark.hadoop.{name}", f"spark.{name}", name)
            values = (self._spark.conf.get(key, None) for key in keys)
            value = next(filter(None, values), None) or (None if hadoop is None else hadoop.get(name))
            if value:
                found[name] = str(value)
        return found

    @property
    def spark_version(self) -> str | None:
        return str(self._spark.version)

    def to_data(self, records: Any, schema: pa.Schema | None = None, is_tagged: bool = False) -> SparkData:
        """Turn a DataFrame, or an RDD of `HoodieRecord` (not on Spark Connect), into data.

        Args:
            records: The input.
            schema: The user's columns. They give the types of records (inferred from the first records if None), and of
                columns that hold only nulls.
            is_tagged: Keep the meta columns with keys and file names.

        Raises:
            HoodieSchemaException: The input has another type, is a stream, or has a column type that cannot be stored.
        """
        if is_frame(records):
            return self._frame_to_data(records.withColumnsRenamed(TAGS) if is_tagged else records, schema)
        if isinstance(records, RDD):
            if spark_context(self._spark) is None:
                raise HoodieSchemaException(
                    "an RDD of HoodieRecord cannot be written with Spark Connect, which has no RDDs: create a "
                    "DataFrame of its records, or use a classic session (SparkSession.builder.master(...))"
                )
            return self._rdd_to_data(records, schema)
        raise HoodieSchemaException(
            f"records are {shown_value(records)}, and Spark writes its own DataFrames and RDDs of HoodieRecord: "
            "convert them with spark.createDataFrame, or write them with HoodieLocalWriteClient"
        )

    def run_tasks(self, items: Sequence[T], function: Callable[[TaskIdentity, T], R]) -> list[R]:
        """See the contract. Tasks return errors as values, so that Spark does not run them again.

        A failure of storage or of the system (`HoodieIOException`, `OSError`, but not a damaged file) is retried as
        often as Spark's ``spark.task.maxFailures`` allows.
        """
        if not items:
            return []
        task_count = min(len(items), TASKS_PER_CORE * self.default_parallelism)
        run = _RunItems([_pickled(item) for item in items], function)
        with hoodie_errors():
            frame = self._spark.range(0, len(items), 1, task_count).mapInArrow(
                run, "number bigint, failed boolean, result binary"
            )
            answers = sorted((row.number, row.failed, bytes(row.result)) for row in frame.collect())
        results = []
        for _, failed, pickled in answers:
            result = cloudpickle.loads(pickled)
            if failed:
                raise result
            results.append(result)
        return results

    def generate(
        self, items: Sequence[T], function: Callable[[TaskIdentity, T], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> SparkData:
        if not items:
            return SparkData(self._spark.createDataFrame([], spark_schema(schema)), schema)
        numbers = SparkData(self._spark.range(0, len(items), 1, len(items)), num_partitions=len(items))
        pickled = [_pickled(item) for item in items]
        return numbers.map_partitions_with_index(_Generate(pickled, function), schema)

    def share(self, value: T) -> Shared:
        context = spark_context(self._spark)
        if context is None:
            return _EmbeddedValue(_pickled(value), uuid.uuid4().hex)
        return _BroadcastValue(context.broadcast(value))

    @property
    def max_shared_bytes(self) -> int:
        """See the contract; Spark Connect sends the value inside of a message of at most 128 MiB."""
        return super().max_shared_bytes if spark_context(self._spark) is not None else 32 << 20

    def check_running(self) -> None:
        check_running(self._spark)

    @property
    def draws_progress(self) -> bool:
        return draws_progress(self._spark)

    @property
    def ranges_by_default(self) -> bool:
        """True, as with Hudi's Spark engine. Its engines for Java and Flink make no ranges by default."""
        return True

    @contextmanager
    def job(self, description: str, subject: str = "") -> Iterator[TaskCounter | None]:
        with described_job(self._spark, description, subject) as task_counter:
            yield task_counter

    def _frame_to_data(self, frame: DataFrame, schema: pa.Schema | None) -> SparkData:
        if is_stopped(frame.sparkSession):
            raise HoodieException(f"the DataFrame cannot be read: {STOPPED}")
        if frame.isStreaming:
            raise HoodieSchemaException(
                "a streaming DataFrame cannot be written at once: write its batches with foreachBatch"
            )
        source = arrow_schema(frame.schema)
        target = normalise_schema(source, schema)
        data = SparkData(frame, source, rereading=rereading_of(frame))
        kept = [name for name in source.names if not is_dropped(name)]
        if kept != source.names:
            data = data.select(kept)
        # Not with Spark's casts: they would read local timestamps in the session's time zone.
        return data if data.schema == target else data.map_batches(_Normalise(target), target)

    def _rdd_to_data(self, records: RDD[Any], schema: pa.Schema | None) -> SparkData:
        sample = records.take(SAMPLED_RECORDS)
        seen = record_batches(sample, schema).schema
        # Columns that the schema names may appear later; others are refused when they appear.
        later = [field.with_nullable(True) for field in schema or [] if field.name not in seen.names]
        columns = [field for field in seen if field.name not in RESERVED_COLUMNS]
        reserved = [field for field in seen if field.name in RESERVED_COLUMNS]
        target = pa.schema([*columns, *normalise_schema(pa.schema(later)), *reserved])
        encoded = self._spark.createDataFrame(records.mapPartitions(_EncodeRecords(target)), "batches binary")
        return SparkData(encoded).map_partitions_with_index(_decode_records, target)


class _BroadcastValue(Shared):
    """A value that Spark sends once to each executor."""

    def __init__(self, broadcast: Broadcast[Any]) -> None:
        self._broadcast = broadcast

    @property
    def value(self) -> Any:
        return self._broadcast.value

    def release(self) -> None:
        release(self._broadcast)


_EMBEDDED: dict[str, Any] = {}
"""In a worker: the embedded values that it has loaded, the latest one last."""
MAX_EMBEDDED = 8
"""A worker that moves on to other writes drops the values of earlier ones; it does not learn of their release."""


@attrs.frozen
class _EmbeddedValue(Shared):
    """A value that is sent with each function, for Spark Connect, which has no broadcasts."""

    pickled: bytes = attrs.field(repr=False)
    identifier: str

    @property
    def value(self) -> Any:
        if self.identifier not in _EMBEDDED:
            while len(_EMBEDDED) >= MAX_EMBEDDED:
                _EMBEDDED.pop(next(iter(_EMBEDDED)), None)
            _EMBEDDED[self.identifier] = cloudpickle.loads(self.pickled)
        return _EMBEDDED[self.identifier]

    def release(self) -> None:
        _EMBEDDED.pop(self.identifier, None)


@attrs.frozen
class _Normalise:
    """Task: convert a batch to the types in which values are stored."""

    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return normalise_batch(batch, self.schema)

    def narrowed_to(self, columns: Sequence[str], source: pa.Schema) -> tuple[_Normalise, pa.Schema, list[str]]:
        """See `NarrowableFunction`."""
        schema = pa.schema([field for field in self.schema if field.name in columns])
        return _Normalise(schema), schema, [found.name for f in schema if (found := find_field(source, f.name))]


@attrs.frozen
class _RunItems:
    """Task: call a function on the items with the given numbers."""

    pickled_items: list[bytes] = attrs.field(repr=False)
    function: Callable[[TaskIdentity, Any], Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task = task_identity()
        # Read all of the input first: only then does Spark keep the worker for the next task.
        for number in [number for batch in batches for number in batch.column(0).to_pylist()]:
            failed, result = self._run(task, number)
            columns = {"number": [number], "failed": [failed], "result": pa.array([result], pa.binary())}
            yield pa.RecordBatch.from_pydict(columns)
            if failed:
                return

    def _run(self, task: TaskIdentity, number: int) -> tuple[bool, bytes]:
        try:
            return False, _pickled(self.function(task, cloudpickle.loads(self.pickled_items[number])))
        except HoodieCorruptedDataException as error:
            return True, _pickled_error(error)
        except (HoodieIOException, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, HoodieException):
                raise
            return True, _pickled_error(error)


def _pickled(value: Any) -> bytes:
    pickled: bytes = cloudpickle.dumps(value)
    return pickled


def _pickled_error(error: Exception) -> bytes:
    """Pickle an error with the task's traceback as a note; an error that cannot be pickled is replaced by its text."""
    text = "".join(traceback.format_exception(error))
    error.add_note(f"In a Spark task:\n{text}")
    try:
        pickled = _pickled(error)
        cloudpickle.loads(pickled)
        return pickled
    except Exception:
        return _pickled(HoodieException(f"a task failed:\n{text}"))


@attrs.frozen
class _Generate:
    """Task: generate rows from the item whose number the partition holds."""

    pickled_items: list[bytes] = attrs.field(repr=False)
    function: Callable[[TaskIdentity, Any], Iterator[pa.RecordBatch]]

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in [number for batch in batches for number in batch.column(0).to_pylist()]:
            yield from self.function(task, cloudpickle.loads(self.pickled_items[number]))


@attrs.frozen
class _EncodeRecords:
    """Task: encode `HoodieRecord`s as Arrow streams, one row for each `RECORDS_PER_BATCH`."""

    schema: pa.Schema

    def __call__(self, records: Iterable[Any]) -> Iterable[tuple[bytes]]:
        known = pa.schema([field for field in self.schema if field.name not in RESERVED_COLUMNS])
        rest = iter(records)
        while chunk := list(itertools.islice(rest, RECORDS_PER_BATCH)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.schema) as writer:
                writer.write_table(self._completed(record_batches(chunk, known), len(chunk)))
            yield (sink.getvalue().to_pybytes(),)

    def _completed(self, source: RecordSource, count: int) -> pa.Table:
        """Add the columns of the schema that these records lack, as nulls."""
        table = source.table if source.table is not None else pa.Table.from_batches(source.batches, source.schema)
        found = unknown_columns(self.schema, table.schema)
        reserved = [name for name in table.column_names if name in RESERVED_COLUMNS and name not in self.schema.names]
        if found or reserved:
            unknown = [*(column.path for column in found), *reserved]
            raise HoodieSchemaException(
                f"records of the RDD have {', '.join(unknown)}, which none of the first {SAMPLED_RECORDS} has: give "
                "the schema of the records, or give all records the same columns and an ordering value"
            )
        columns = [
            self._cast(table[field.name], field) if field.name in table.column_names else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    @staticmethod
    def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            table = pa.Table.from_arrays([values], schema=pa.schema([field.with_type(values.type)]))
            return normalise_table(table, pa.schema([field]))[field.name]
        except HoodieSchemaException as error:
            raise HoodieSchemaException(
                f"records of the RDD have values of type {values.type} in '{field.name}', but the first "
                f"{SAMPLED_RECORDS} have {field.type}: {error}. Give the schema of the records, or values of one type"
            ) from error


def _decode_records(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: decode the batches of Arrow streams."""
    for batch in batches:
        for stream in batch.column(0):
            with pa.ipc.open_stream(stream.as_buffer()) as reader:
                yield from reader
