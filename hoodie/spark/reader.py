"""A table as a Spark DataFrame.

Hudi: the snapshot query of org.apache.hudi.DefaultSource.
"""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.config.property import check_properties
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.spark.spark_compatibility import check_running
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_scan import scan_files
from hoodie.spark.spark_types import quoted
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.table_scan import (
    Filters,
    check_columns,
    check_query,
    checked_columns,
    file_slices,
    plan_read,
    to_expression,
    to_row_filter,
)

QUERY_TYPE = "hoodie.datasource.query.type"
QUERY_TYPES = ("snapshot", "read_optimized")
"""For a copy-on-write table both give the same rows."""
NOT_YET = (
    "as.of.instant",
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.end.instanttime",
    "hoodie.datasource.query.incremental.format",
)


def read(
    spark: SparkSession,
    base_path: str,
    options: Mapping[str, str] | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    filters: Filters = None,
    query_type: str = "snapshot",
    as_of: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    storage_options: StorageOptions | None = None,
) -> DataFrame:
    """Read the newest committed rows of a table, at the speed of Spark's own Parquet scan.

    Spark scans the files with its own connectors (Hadoop's) and credentials; hoodie reads the timeline and lists the
    files, on the driver. The set of files is fixed when the call returns.

    The keyword arguments mean the same as in `hoodie.read_table`.

    Args:
        spark: The session.
        base_path: The table's folder.
        options: Hudi's read options. The only one is ``hoodie.datasource.query.type``: ``snapshot``, the default, or
            ``read_optimized``.
        columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first.
        filters: Which rows: an expression, or lists of tuples; None or an empty list for all. They choose the same
            rows as in `hoodie.read_table`: partitions that cannot hold such rows are not read, and Arrow filters the
            rest in the Python of Spark's workers, which needs hoodie there. ``where`` of the DataFrame is faster,
            because Spark's scan skips row groups by it; it has Spark's rules for nulls and NaN.
        query_type: The same as the option.
        as_of: Not supported yet.
        begin: Not supported yet.
        end: Not supported yet.
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
        HoodieIOException: Spark has no connector for the storage, or a base file that commits name is missing.
        HoodieException: The session was stopped.

        >>> import hoodie.spark
        >>> hoodie.spark.read(spark, "/data/trips").where("fare > 50")  # doctest: +SKIP
    """
    check_running(spark)
    check_properties(options, "options")
    _check_options(options or {})
    check_query(query_type, {"as_of": as_of, "begin": begin, "end": end})
    given = (options or {}).get(QUERY_TYPE, query_type)
    if query_type not in (given, QUERY_TYPES[0]):
        raise HoodieConfigException(f"{QUERY_TYPE} = {given!r}, and the argument says {query_type!r}: give one of them")
    wanted = checked_columns(columns)
    expression = to_expression(filters)
    _check_can_be_sent(expression)
    snapshot, schema, row_filter, files = plan_read(
        lambda: TableSnapshot.load(base_path, storage_options),
        lambda snapshot: _files_to_read(snapshot, expression),
    )
    if wanted is not None and snapshot.load_avro_schema() is None:
        # The table was never written: it has no rows, and its columns have no types yet.
        fields = [st.StructField(name, st.StringType() if name in META_COLUMNS else st.NullType()) for name in wanted]
        return spark.createDataFrame([], st.StructType(fields))
    check_columns(snapshot.base_path, schema, wanted or ())
    frame = scan_files(spark, snapshot, base_path, files, schema)
    if row_filter is not None and files:
        frame = _filtered(frame, schema, wanted, row_filter)
    return frame if wanted is None else frame.select([quoted(name) for name in wanted])


def _filtered(frame: DataFrame, schema: pa.Schema, wanted: Sequence[str] | None, row_filter: RowFilter) -> DataFrame:
    """The rows that match a filter, with the wanted columns and those that the filter reads."""
    # A batch without columns would lose its number of rows.
    names = row_filter.read_columns(schema.names if wanted is None else list(wanted), schema) or schema.names[:1]
    needed = pa.schema([schema.field(name) for name in names])
    scanned = SparkData(frame.select([quoted(name) for name in names]), needed)
    return scanned.map_batches(_RowsOf(row_filter), needed).frame


@attrs.frozen
class _RowsOf:
    """Task: the rows of a batch that match a filter."""

    row_filter: RowFilter

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        taken = self.row_filter.take(batch).combine_chunks().to_batches()
        return taken[0] if taken else batch.slice(0, 0)


def _files_to_read(
    snapshot: TableSnapshot, expression: pc.Expression | None
) -> tuple[TableSnapshot, pa.Schema, RowFilter | None, list[HoodieBaseFile]]:
    snapshot.table_config.check_readable()
    _check_storage(snapshot.base_path)
    schema = _schema(snapshot)
    row_filter = None
    if expression is not None and snapshot.load_avro_schema() is not None:
        row_filter = to_row_filter(expression, schema, snapshot.base_path)
    slices = file_slices(snapshot, schema, row_filter)
    files = [file_slice.base_file for file_slice in slices if file_slice.base_file is not None]
    return snapshot, schema, row_filter, files


def _check_options(options: Mapping[str, str]) -> None:
    later = sorted(set(options) & set(NOT_YET))
    if later:
        raise HoodieNotSupportedException(
            f"read option {', '.join(later)}: hoodie reads the newest rows only; leave it out"
        )
    problems = []
    for key, value in options.items():
        if key != QUERY_TYPE:
            near = difflib.get_close_matches(str(key), [QUERY_TYPE, *NOT_YET], n=1)
            problems.append(f"unknown read option {key}" + (f", did you mean {near[0]}?" if near else ""))
        elif value not in QUERY_TYPES:
            problems.append(f"{key}={value}: hoodie has {', '.join(QUERY_TYPES)}")
    if problems:
        raise HoodieConfigException("; ".join(problems))


def _check_can_be_sent(expression: pc.Expression | None) -> None:
    try:
        pickle.dumps(expression)
    except pa.ArrowException as error:
        raise HoodieNotSupportedException(
            f"the filter {expression} cannot be sent to Spark's executors ({error}): name each column by its name, and "
            "use functions of pyarrow.compute only"
        ) from error


def _check_storage(base_path: str) -> None:
    if base_path.startswith("memory:"):
        raise HoodieNotSupportedException(
            f"Spark's executors cannot see {base_path}, which is in this process's memory: use hoodie.read_table"
        )


def _schema(snapshot: TableSnapshot) -> pa.Schema:
    """The meta columns and the user's; a table that was never written has only meta columns."""
    avro_schema = snapshot.load_avro_schema()
    columns = [] if avro_schema is None else list(to_arrow(avro_schema))
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *columns])
