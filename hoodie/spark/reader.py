"""A table as a Spark DataFrame.

Hudi: the queries of org.apache.hudi.DefaultSource.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Unpack

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from hoodie.common.data.expression_tree import shown_expression
from hoodie.common.data.nullability import nullable_schema
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.read_config import QueryType
from hoodie.exception import HoodieConfigException, HoodieIOException, HoodieNotSupportedException
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_planner import changes_of
from hoodie.query.planner import plan_of
from hoodie.query.read_plan import PlannedSlice, ReadPlan
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import QueryArguments, QueryTime, TableQuery, shows_arguments
from hoodie.spark.change_scan import scan_changes
from hoodie.spark.driver_rows import driver_changes, driver_rows
from hoodie.spark.log_scan import scan_merged, scannable, without_changed_rows
from hoodie.spark.spark_compatibility import check_running
from hoodie.spark.spark_conditions import spark_condition
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_scan import scan_files
from hoodie.spark.spark_types import quoted
from hoodie.storage.storage_options import StorageOptions


@shows_arguments
def read(
    spark: SparkSession,
    base_path: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: StorageOptions | None = None,
    **arguments: Unpack[QueryArguments],
) -> DataFrame:
    """Read the committed rows of a table, at the speed of Spark's own Parquet scan.

    Spark scans the files with its own connectors (Hadoop's) and credentials; hoodie reads the timeline and plans the
    files, on the driver. The set of files is fixed when the call returns. If the filter names record keys, or if the
    query is incremental, and few rows in small columns fulfil it, the driver reads them at the call, and Spark does not
    scan; ``hoodie.spark.read.driver.max.bytes`` limits what it reads for that.

    The keyword arguments mean the same as in `hoodie.read_table`.

    Args:
        spark: The session.
        base_path: The table's folder, also with globs after it as in old guides (``/data/trips/*/*``).
        options: Hudi's read options (docs/configuration.md lists them): ``hoodie.datasource.query.type``,
            ``as.of.instant``, ``hoodie.datasource.read.begin.instanttime``, ``.end.instanttime``, ``.incr.path.glob``,
            ``.incr.filters`` and others.
        columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first.
        filters: A condition on rows: an expression, or lists of tuples; None or an empty list for all. They choose the
            same rows as in `hoodie.read_table`: partitions without such rows are not read, and Spark's scan skips row
            groups by statistics. Arrow decides about the other rows in the Python of Spark's workers, which needs
            hoodie there. ``where`` of the DataFrame never needs Python; it has Spark's rules for nulls and NaN.
        query_type: See `hoodie.read_table`.
        query_format: See `hoodie.read_table`. Hudi's option ``hoodie.datasource.query.incremental.format=cdc`` gives
            Hudi's form: ``op``, ``ts_ms``, and ``before`` and ``after`` as JSON, of a range of requested times, without
            pending commits before its end. ``hoodie.read.changes.form`` chooses. Rows come in no order: those of one
            commit are changes of different rows, or deletes that come before inserts.
        as_of: See `hoodie.read_table`.
        begin: See `hoodie.read_table`.
        end: See `hoodie.read_table`.
        storage_options: Options and credentials for reading the timeline, or a function that returns them. Spark's scan
            uses those of its connector.

    Returns:
        Hudi's meta columns (strings), then the user's columns; or the columns in ``columns``.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieNotSupportedException: The table or an option needs a feature that hoodie does not have, or a filter
            cannot be sent to executors, such as one that names columns by number.
        HoodieConfigException: An option or its value is unknown; the message names all such options. Or the filters
            have another form, or option and argument contradict each other.
        HoodieSchemaException: A column is not in the table, or a filter does not fit it.
        HoodieIOException: Spark has no connector for the storage, or a base file that the query needs was cleaned or is
            missing; see `hoodie.read_table`.
        HoodieException: The session was stopped; or see `hoodie.read_table`.

        >>> import hoodie.spark
        >>> hoodie.spark.read(spark, "/data/trips").where("fare > 50")  # doctest: +SKIP
        >>> options = {"hoodie.datasource.query.type": "incremental"}
        >>> hoodie.spark.read(spark, "/data/trips", options, begin="20260102101530123")  # doctest: +SKIP
    """
    check_running(spark)
    query = TableQuery.of(options=options, **arguments).as_on_spark()
    _check_can_be_sent(query.filters)
    plan = plan_until_complete(
        lambda: TableSnapshot.load(base_path, storage_options, listing_choice=query.listing_choice),
        lambda snapshot: _plan(snapshot, query),
    )
    if isinstance(plan, ChangePlan):
        few = driver_changes(spark, plan, query.config.driver_bytes)
        return scan_changes(spark, plan) if few is None else few
    frame = frame_of(spark, base_path, plan, query.config.driver_bytes)
    incremental_filters = query.config.incremental_filters
    if incremental_filters and query.query_type is QueryType.INCREMENTAL:
        frame = _with_conditions(frame, incremental_filters)
    return frame


def register(
    spark: SparkSession,
    name: str,
    base_path: str,
    options: Mapping[str, Any] | None = None,
    *,
    query_type: str = "snapshot",
    as_of: QueryTime | None = None,
    begin: QueryTime | None = None,
    end: QueryTime | None = None,
    storage_options: StorageOptions | None = None,
) -> DataFrame:
    """Make a table known to ``spark.sql`` as a temporary view.

    The view shows the commits that there are now. Register it again to show later ones.

    Args:
        spark: The session.
        name: The view's name; a view of that name is replaced.
        base_path: The table's folder.
        options: See `read`.
        query_type: See `read`.
        as_of: See `read`.
        begin: See `read`.
        end: See `read`.
        storage_options: See `read`.

    Returns:
        What the view shows.

    Raises:
        HoodieConfigException: Spark takes no such name of a view; or see `read`.
        HoodieException: See `read`.

        >>> hoodie.spark.register(spark, "trips", "/data/trips")  # doctest: +SKIP
        >>> spark.sql("select rider, sum(fare) from trips group by rider").show()  # doctest: +SKIP
    """
    if not isinstance(name, str) or not name.strip():
        raise HoodieConfigException(f"the name of the view is {shown_value(name)}: give a name such as 'trips'")
    frame = read(
        spark, base_path, options, query_type=query_type, as_of=as_of, begin=begin, end=end,
        storage_options=storage_options,
    )  # fmt: skip
    try:
        frame.createOrReplaceTempView(name)
    except PySparkException as error:
        raise HoodieConfigException(f"the view cannot be named {name!r}: {str(error).strip()}") from error
    return frame


def _with_conditions(frame: DataFrame, conditions: str) -> DataFrame:
    """The rows that fulfil conditions of SQL, which commas separate as in Hudi."""
    for condition in filter(None, map(str.strip, conditions.split(","))):
        try:
            frame = frame.where(condition)
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise HoodieConfigException(
                f"hoodie.datasource.read.incr.filters = {conditions!r}: Spark does not understand {condition!r} "
                f"({reason}). Commas separate conditions, so give those that have commas to where() of the result"
            ) from error
    return frame


def frame_of(spark: SparkSession, base_path: str, plan: ReadPlan, driver_bytes: int | None = 0) -> DataFrame:
    """The rows of a plan as a DataFrame.

    Args:
        spark: The session.
        base_path: The table's folder as the user wrote it.
        plan: The plan of the read.
        driver_bytes: The most stored bytes that the driver reads if few rows are wanted; 0 leaves all to Spark, None
            is the default.
    """
    wanted = plan.query.columns
    if wanted is not None and plan.snapshot.load_avro_schema() is None:
        # The table was never written: it has no rows, and its columns have no types yet.
        fields = [st.StructField(name, st.StringType() if name in META_COLUMNS else st.NullType()) for name in wanted]
        return spark.createDataFrame([], st.StructType(fields))
    few = driver_rows(spark, plan, driver_bytes)
    if few is not None:
        return few
    with_logs = [planned for planned in plan.slices if not planned.file_slice.is_base_file_alone]
    alone = [planned for planned in plan.slices if planned.file_slice.is_base_file_alone]
    scanned = scannable(spark, plan, with_logs)
    frames = []
    if scanned:
        try:
            frames.append(_frame_of_base_files(spark, base_path, plan, scanned))
            frames.append(scan_merged(spark, plan, scanned, log_rows_only=True))
        except HoodieIOException:
            # Spark has no connector for the storage. Tasks need none.
            if alone:
                raise
            scanned = []
    merged = [planned for planned in with_logs if planned not in scanned]
    if merged:
        frames.append(scan_merged(spark, plan, merged))
    if alone or not frames:
        frames.insert(0, _frame_of_base_files(spark, base_path, plan, alone))
    return reduce(DataFrame.union, frames)


def _frame_of_base_files(
    spark: SparkSession, base_path: str, plan: ReadPlan, slices: Sequence[PlannedSlice]
) -> DataFrame:
    """The rows of base files that log files leave as they are, by Spark's own scan.

    Either all slices have log files, or none.
    """
    wanted = plan.query.columns
    files = [planned.file_slice.base_file for planned in slices if planned.file_slice.base_file is not None]
    have_logs = bool(slices) and not slices[0].file_slice.is_base_file_alone
    frame = scan_files(spark, plan.snapshot, base_path, files, plan.schema, places=have_logs)
    if have_logs:
        frame = without_changed_rows(spark, plan, slices, frame)
    if plan.row_filter is not None and files:
        condition, is_exact = spark_condition(plan.row_filter, plan.schema)
        if condition is not None:
            frame = frame.where(condition)
        if not is_exact:
            frame = _filtered(frame, plan.schema, wanted, plan.row_filter)
    return frame if wanted is None else frame.select([quoted(name) for name in wanted])


def _plan(snapshot: TableSnapshot, query: TableQuery) -> ReadPlan | ChangePlan:
    _check_storage(snapshot.base_path)
    if query.changes is not None:
        return changes_of(snapshot, query)
    # Spark's scan reads the footers itself, on its executors.
    return plan_of(snapshot, query, reads_footers=False)


def _filtered(frame: DataFrame, schema: pa.Schema, wanted: Sequence[str] | None, row_filter: RowFilter) -> DataFrame:
    """The rows of a filter, with the wanted columns and the columns of the filter."""
    # A batch without columns would lose its number of rows.
    names = row_filter.read_columns(schema.names if wanted is None else list(wanted), schema) or schema.names[:1]
    # Nulls are allowed in all columns, as in frames that need no Python.
    needed = nullable_schema(pa.schema([schema.field(name) for name in names]))
    scanned = SparkData(frame.select([quoted(name) for name in names]), needed)
    return scanned.map_batches(_RowsOf(row_filter), needed).frame


@attrs.frozen
class _RowsOf:
    """Task: the rows of a batch that match a filter."""

    row_filter: RowFilter

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        taken = self.row_filter.take(batch).combine_chunks().to_batches()
        return taken[0] if taken else batch.slice(0, 0)


def _check_can_be_sent(expression: pc.Expression | None) -> None:
    try:
        pickle.dumps(expression)
    except pa.ArrowException as error:
        raise HoodieNotSupportedException(
            f"the filter {shown_expression(expression)} cannot be sent to Spark's executors ({error}): name each "
            "column by its name, and use functions of pyarrow.compute only"
        ) from error


def _check_storage(base_path: str) -> None:
    if base_path.startswith("memory:"):
        raise HoodieNotSupportedException(
            f"Spark's executors cannot see {base_path}, which is in this process's memory: use hoodie.read_table"
        )
