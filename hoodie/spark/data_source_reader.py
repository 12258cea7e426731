"""The batch read of ``format("hoodie")``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hoodie.common.data.nullability import nullable_schema
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.read_config import HoodieReadConfig, QueryType
from hoodie.exception import HoodieConfigException
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_planner import change_schema, plan_changes
from hoodie.query.change_task import ChangeReadTask
from hoodie.query.planner import narrowed, plan_query
from hoodie.query.read_plan import ReadPlan, all_columns, check_columns
from hoodie.query.read_task import ReadTask, tasks_of
from hoodie.query.table_query import EARLIEST, TableQuery
from hoodie.spark.data_source_options import DataSourceOptions
from hoodie.spark.pushed_filters import split_filters
from hoodie.spark.spark_compatibility import pushes_filters
from hoodie.spark.spark_types import arrow_schema, conform, schema_in_jvm, spark_schema
from hoodie.spark.worker_start import prepare_worker


class HoodiePartition(InputPartition):  # type: ignore[misc]
    """The part of a plan that one task reads.

    Args:
        task: The slices to read; None for a task without slices.
    """

    def __init__(self, task: ReadTask | ChangeReadTask | None) -> None:
        super().__init__(task)

    def batches(self, schema: st.StructType) -> Iterator[pa.RecordBatch]:
        """The rows in the types of Spark; called in tasks.

        Args:
            schema: The schema that Spark has of the source.
        """
        prepare_worker()
        wanted = arrow_schema(schema)
        if self.value is not None:
            for batch in self.value.batches():
                yield conform(batch, wanted)


class HoodieDataSourceReader(DataSourceReader):  # type: ignore[misc]
    """Reads a plan.

    It takes no filters of Spark; `HoodiePushdownReader` does.

    Args:
        plan: The plan to read; tasks do not get it.
        schema: The schema that Spark stores for the source.
    """

    def __init__(self, plan: ReadPlan | ChangePlan, schema: st.StructType) -> None:
        self._plan: ReadPlan | ChangePlan | None = plan
        self._schema = schema

    def partitions(self) -> list[HoodiePartition]:
        assert self._plan is not None
        return partitions_of(self._plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # PySpark makes a partition of its own where there is none.
        return partition.batches(self._schema) if isinstance(partition, HoodiePartition) else iter(())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}


class HoodiePushdownReader(HoodieDataSourceReader):
    """A reader that takes filters of Spark, for a frame of ``load()`` that is used once.

    Spark 4.1 to 4.3 keeps what a reader has taken for the frame of ``load()``, and reads later queries of that frame,
    and other branches of the same query, with the filters of that one: rows would be missing. PySpark refuses this
    class where it does not push filters.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        assert isinstance(self._plan, ReadPlan)
        condition, remaining_filters = split_filters(filters, self._plan.schema)
        if condition is not None:
            self._plan = narrowed(self._plan, None, condition)
        return remaining_filters


def partitions_of(plan: ReadPlan | ChangePlan) -> list[HoodiePartition]:
    """The parts of a plan.

    Args:
        plan: The plan.
    """
    tasks = plan.read_tasks() if isinstance(plan, ChangePlan) else tasks_of(plan)
    return [HoodiePartition(task) for task in tasks]


def _plan_of(options: DataSourceOptions) -> ReadPlan | ChangePlan:
    query = options.query()
    plan = plan_query if query.changes is None else plan_changes
    return plan(options.path, query, options.storage_options)


def load(options: Mapping[str, str]) -> tuple[ReadPlan | ChangePlan | None, st.StructType]:
    """The plan of a batch read, and its columns, for ``load()``.

    There is no plan if the options are those of a stream: ``load()`` does not know whether it loads a batch or a
    stream.

    Args:
        options: The user's options.

    Raises:
        HoodieException: The options are wrong, or the table cannot be read.
    """
    given = DataSourceOptions.of(options)
    if _is_of_stream(given):
        return None, columns_of(given)
    plan = _plan_of(given)
    return plan, schema_of(plan.result_schema)


def reader_of(
    options: Mapping[str, str], plan: ReadPlan | ChangePlan | None, schema: st.StructType
) -> HoodieDataSourceReader:
    """The reader of a batch read.

    Args:
        options: The user's options.
        plan: The plan from `load`; None if the user gave a schema, so that `load` was not called.
        schema: The schema that Spark stores for the source.

    Raises:
        HoodieConfigException: The schema is not the table's.
        HoodieException: See `load`.
    """
    given = DataSourceOptions.of(options)
    if plan is None:
        plan = _plan_of(given)
    check_schema(schema, schema_of(plan.result_schema))
    takes_filters = given.is_used_once and pushes_filters() and isinstance(plan, ReadPlan)
    return (HoodiePushdownReader if takes_filters else HoodieDataSourceReader)(plan, schema)


def columns_of(options: DataSourceOptions) -> st.StructType:
    """The columns of a table, without a plan.

    Args:
        options: The user's options.

    Raises:
        HoodieException: There is no such table, nothing was written to it, or it has no such column.
    """
    snapshot = TableSnapshot.load(options.path, options.storage_options)
    query = stream_query(options, EARLIEST, None)
    if query.changes is not None:
        return schema_of(change_schema(snapshot, query))
    schema = all_columns(snapshot.load_schema())
    columns = schema.names if options.columns is None else options.columns
    check_columns(snapshot.base_path, schema, columns)
    return schema_of(pa.schema([schema.field(name) for name in columns]))


def stream_query(options: DataSourceOptions, begin: str, end: str | None) -> TableQuery:
    """The query of a batch of a stream. Its times are those of the offsets, whatever the form of changes.

    Args:
        options: The user's options.
        begin: The begin of its range.
        end: The end; None for none.
    """
    given = {name: value for name, value in options.read_options.items() if name not in _QUERY_TYPES}
    given[_QUERY_TYPES[0]] = QueryType.INCREMENTAL.value
    query = TableQuery.of(
        columns=options.columns, filters=options.filters, begin=begin, end=end, options=given
    ).as_on_spark()
    return (
        query if query.changes is None else attrs.evolve(query, changes=attrs.evolve(query.changes, by_request=False))
    )


def schema_of(schema: pa.Schema) -> st.StructType:
    """Columns in Spark's types, the same as from `hoodie.spark.read`.

    Args:
        schema: Columns of a table; those of a table that was never written have the type null.
    """
    nullable = nullable_schema(schema_in_jvm(schema))
    untyped = {field.name for field in nullable if pa.types.is_null(field.type)}
    typed = spark_schema(pa.schema([field for field in nullable if field.name not in untyped]))
    by_name = {field.name: field for field in typed.fields}
    return st.StructType([by_name.get(field.name, st.StructField(field.name, st.NullType())) for field in nullable])


def check_schema(given: st.StructType, schema: st.StructType) -> None:
    """Refuse a schema from the user that differs from that of the result.

    Args:
        given: The schema that Spark stores.
        schema: The schema of the source.

    Raises:
        HoodieConfigException: They differ.
    """
    if given != schema:
        raise HoodieConfigException(
            f"the schema {given.simpleString()} is not that of the table, {schema.simpleString()}: leave schema() out, "
            "and choose columns with the option columns. If this is a name in the catalog, DROP TABLE it and CREATE it "
            "again: it keeps the columns of its creation"
        )


_QUERY_TYPES = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")


def _is_of_stream(options: DataSourceOptions) -> bool:
    """Whether options make sense for a stream only; a batch read with them fails when it is planned."""
    config = HoodieReadConfig.from_options(options.read_options)
    begins = "hoodie.datasource.streaming.startoffset" in options.read_options
    return begins or (config.query_type is QueryType.INCREMENTAL and config.begin is None)
