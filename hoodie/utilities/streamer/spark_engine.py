"""The streamer on Spark: tasks fetch and decode the parts of a batch; no jar is needed for Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.common.data.nullability import nullable_schema
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieStreamerException, HoodieTransformException
from hoodie.spark.spark_compatibility import check_running, collect_arrow, is_frame
from hoodie.spark.spark_data import hoodie_errors
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.spark.spark_types import arrow_schema, conform, schema_in_jvm, spark_schema
from hoodie.spark.worker_start import prepare_worker
from hoodie.utilities.ingestion.error_event import ERROR_SCHEMA
from hoodie.utilities.ingestion.error_spool import ErrorSpool
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, SourceRead
from hoodie.utilities.streamer.row_check import RowCheck
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.streamer_engine import BegunBatch, RowPlan, StreamerEngine, StreamerRows

_ERROR = "_hoodie_streamer_error"
"""The column of errors in frames that hold rows and errors; null for rows."""


class SparkStreamerEngine(StreamerEngine):
    """Reads, transforms and writes in the tasks of a session.

    Args:
        spark: The session; None starts one, or takes the one that runs.
        config: The flags, which name Spark's master and application.
    """

    name = "spark"

    def __init__(self, spark: SparkSession | None, config: StreamerConfig) -> None:
        if spark is None:
            builder = SparkSession.builder.appName(config.spark_app_name or f"streamer-{config.table_name}")
            spark = (builder.master(config.spark_master) if config.spark_master else builder).getOrCreate()
        check_running(spark)
        self.spark = spark

    def open_client(
        self, config: HoodieWriteConfig, validators: Sequence[Validator | HoodiePreCommitValidator] = ()
    ) -> BaseHoodieWriteClient:
        """See `StreamerEngine.open_client`."""
        return SparkRDDWriteClient(self.spark, config, validators=validators)

    def begin(self, batch: InputBatch, ahead_bytes: int) -> BegunBatch:
        """See `StreamerEngine.begin`; tasks read when the rows are written."""
        return BegunBatch(batch)

    def rows_of(self, begun: BegunBatch, plan: RowPlan) -> StreamerRows:
        """See `StreamerEngine.rows_of`."""
        return _SparkRows(self.spark, begun.batch, plan)

    def no_rows(self, schema: pa.Schema) -> Any:
        """See `StreamerEngine.no_rows`."""
        return self.spark.createDataFrame([], spark_schema(schema_in_jvm(schema)))


class _SparkRows(StreamerRows):
    """Rows that tasks make. With an error table, rows and errors are kept on the executors until both are written."""

    def __init__(self, spark: SparkSession, batch: InputBatch, plan: RowPlan) -> None:
        self._keeps_errors = plan.check.keeps_errors
        self._kept: list[DataFrame] = []
        self._with_errors: list[DataFrame] = []
        self._spools: list[ErrorSpool] = []
        if batch.frame is None:
            if batch.schema is None:
                raise HoodieStreamerException("the source gives rows and not their columns: a bug of the source")
            change = _RowChange(batch.schema, plan.check, plan.target_of(batch.schema))
            if plan.transformer is not None:
                change = _RowChange(batch.schema, RowCheck(keeps_errors=plan.check.keeps_errors), None)
            frame = self._split(_frame_of_reads(spark, batch.reads, change), change)
        else:
            frame = batch.frame
        if plan.transformer is not None:
            frame = plan.transformer.apply_to_frame(frame, plan.properties)
            if not is_frame(frame):
                raise HoodieTransformException(
                    f"{plan.transformer} returned {type(frame).__name__}; on Spark it has to return a DataFrame"
                )
            plan.tombstones.check_columns(frame.columns)
        if plan.transformer is not None or batch.frame is not None:
            columns = arrow_schema(frame.schema)
            change = _RowChange(columns, plan.check, plan.target_of(columns))
            frame = self._split(_checked_frame(frame, change), change)
        self._schema = change.columns
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """See `StreamerRows.schema`."""
        return self._schema

    @property
    def data(self) -> Any:
        """See `StreamerRows.data`."""
        return self._frame

    def has_rows(self) -> bool:
        """See `StreamerRows.has_rows`."""
        with hoodie_errors():
            return bool(self._frame.take(1))

    def errors(self) -> ErrorSpool:
        """See `StreamerRows.errors`."""
        found = ErrorSpool()
        self._spools.append(found)
        for frame in self._with_errors:
            errors = frame.where(f"{_ERROR} is not null").select(f"{_ERROR}.*")
            with hoodie_errors():
                for batch in collect_arrow(errors):
                    if len(batch):
                        found.add(conform(batch, ERROR_SCHEMA))
        return found

    @property
    def row_count(self) -> int | None:
        """See `StreamerRows.row_count`; the writer counts."""
        return None

    def close(self) -> None:
        """See `StreamerRows.close`."""
        kept, self._kept = self._kept, []
        for frame in kept:
            frame.unpersist()
        for spool in self._spools:
            spool.close()

    def _split(self, frame: DataFrame, change: _RowChange) -> DataFrame:
        """The rows of a frame that may hold errors too."""
        if not self._keeps_errors:
            return frame
        frame = frame.persist()
        self._kept.append(frame)
        self._with_errors.append(frame)
        return frame.mapInArrow(_WithoutErrors(change.columns), spark_schema(change.columns))


@attrs.frozen
class _RowChange:
    """The changes of decoded rows in a task. Picklable.

    Attributes:
        source: The columns of the rows.
        check: The questions that every row has to pass.
        target: The columns that the rows get; None for their own.
    """

    source: pa.Schema
    check: RowCheck
    target: pa.Schema | None

    @property
    def columns(self) -> pa.Schema:
        """The columns of the rows afterwards."""
        return self.source if self.target is None else self.target

    @property
    def carried(self) -> pa.Schema:
        """The columns of what leaves the task: with errors beside the rows, if they are kept."""
        if not self.check.keeps_errors:
            return self.columns
        return nullable_schema(self.columns).append(pa.field(_ERROR, pa.struct(list(ERROR_SCHEMA))))

    def batches_of(self, decoded: DecodedBatch) -> Iterator[pa.RecordBatch]:
        """Change a batch.

        Args:
            decoded: The batch.
        """
        checked = self.check.checked(decoded, self.columns)
        rows = checked.rows
        if not self.check.keeps_errors:
            yield _for_jvm(rows, self.columns)
            return
        carried = self.carried
        yield _for_jvm(_with_column(rows, carried, pa.nulls(len(rows), carried.field(_ERROR).type)), carried)
        if checked.errors is not None and len(checked.errors):
            errors = checked.errors
            nothing = pa.RecordBatch.from_arrays(
                [pa.nulls(len(errors), field.type) for field in carried][:-1], schema=carried.remove(len(carried) - 1)
            )
            column = pa.StructArray.from_arrays(errors.columns, fields=list(ERROR_SCHEMA))
            yield _for_jvm(_with_column(nothing, carried, column), carried)


@attrs.frozen
class _WithoutErrors:
    """Takes the rows out of a frame that holds errors too. Picklable."""

    columns: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            rows = batch.filter(batch.column(len(batch.schema) - 1).is_null())
            if len(rows):
                arrays = rows.columns[:-1]
                plain = pa.RecordBatch.from_arrays(arrays, names=rows.schema.names[:-1])
                yield _for_jvm(conform(plain, nullable_schema(self.columns)), self.columns)


def _frame_of_reads(spark: SparkSession, reads: Sequence[SourceRead], change: _RowChange) -> DataFrame:
    """A frame whose tasks each read one part of a batch."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for decoded in reads[number].batches():
                    yield from change.batches_of(decoded)

    return spark.range(0, len(reads), 1, len(reads)).mapInArrow(run, spark_schema(change.carried))


def _checked_frame(frame: DataFrame, change: _RowChange) -> DataFrame:
    """A frame whose rows are checked, and get their columns."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            yield from change.batches_of(DecodedBatch(conform(batch, change.source)))

    return frame.mapInArrow(run, spark_schema(change.carried))


def _with_column(rows: pa.RecordBatch, schema: pa.Schema, column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)


def _for_jvm(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return conform(rows, schema_in_jvm(schema))
