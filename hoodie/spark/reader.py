"""A table as a Spark DataFrame.

Hudi: the snapshot query of org.apache.hudi.DefaultSource.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.spark.spark_scan import scan_files
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.table_scan import plan_read

__all__ = ["read"]

QUERY_TYPE = "hoodie.datasource.query.type"
QUERY_TYPES = ("snapshot", "read_optimized")
"""Of a copy-on-write table both give the same rows."""
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
    storage_options: StorageOptions | None = None,
) -> DataFrame:
    """The newest committed rows of a table, at the speed of Spark's own Parquet scan.

    Spark scans the files with its own connectors (Hadoop's) and credentials; hoodie reads the timeline and lists the
    files, on the driver. The set of files is fixed when the call returns.

    Args:
        spark: The session.
        base_path: The table's folder.
        options: Hudi's read options, of which there is ``hoodie.datasource.query.type``: ``snapshot``, the default.
        storage_options: Options and credentials with which hoodie reads the timeline, or a function that returns them.
            Spark's scan has those of its connector.

    Returns:
        Hudi's meta columns (strings), then the user's columns.

    Raises:
        TableNotFoundException: There is no table at that path.
        HoodieNotSupportedException: The table or an option needs what hoodie does not have.
        HoodieConfigException: An option is unknown, or its value is; all such options are named.
        HoodieIOException: Spark has no connector for the storage.

        >>> import hoodie.spark
        >>> hoodie.spark.read(spark, "/data/trips").where("fare > 50")  # doctest: +SKIP
    """
    _check_options(options or {})
    snapshot, schema, files = plan_read(lambda: TableSnapshot.load(base_path, storage_options), _files_to_read)
    return scan_files(spark, snapshot, base_path, files, schema)


def _files_to_read(
    snapshot: TableSnapshot,
) -> tuple[TableSnapshot, pa.Schema, list[HoodieBaseFile]]:
    snapshot.table_config.check_readable()
    _check_storage(snapshot.base_path)
    schema = _schema(snapshot)
    view = snapshot.view()
    partitions = view.list_partitions()
    view.load_partitions(partitions)
    return snapshot, schema, [file for partition in partitions for file in view.latest_base_files(partition)]


def _check_options(options: Mapping[str, str]) -> None:
    later = sorted(set(options) & set(NOT_YET))
    if later:
        raise HoodieNotSupportedException(
            f"read option {', '.join(later)}: hoodie reads the newest rows only; leave it out"
        )
    problems = []
    for key, value in options.items():
        if key != QUERY_TYPE:
            near = difflib.get_close_matches(key, [QUERY_TYPE, *NOT_YET], n=1)
            problems.append(f"unknown read option {key}" + (f", did you mean {near[0]}?" if near else ""))
        elif value not in QUERY_TYPES:
            problems.append(f"{key}={value}: hoodie has {', '.join(QUERY_TYPES)}")
    if problems:
        raise HoodieConfigException("; ".join(problems))


def _check_storage(base_path: str) -> None:
    if base_path.startswith("memory:"):
        raise HoodieNotSupportedException(
            f"Spark's executors cannot see {base_path}, which is in this process's memory: use hoodie.read_table"
        )


def _schema(snapshot: TableSnapshot) -> pa.Schema:
    """Meta columns and the user's; the former only when nothing tells the latter yet."""
    avro_schema = snapshot.load_avro_schema()
    columns = [] if avro_schema is None else list(to_arrow(avro_schema))
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *columns])
