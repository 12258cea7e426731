"""Base files of a table as a Spark DataFrame, at the speed of Spark's own Parquet scan.

These rows do not pass through `HoodieFileGroupReader`: Spark's scan decodes them in the JVM, splits files between tasks
and pushes ``where`` into row groups. Its rows never cross to Python. hoodie chooses the files and the types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.data.nullability import nullable_schema, nullable_type
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieIOException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.spark.spark_compatibility import spark_context
from hoodie.spark.spark_types import quoted, spark_schema
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join, relative_to
from hoodie.threads import ThreadPool

CONNECTORS = {
    "s3": "org.apache.hadoop:hadoop-aws",
    "s3a": "org.apache.hadoop:hadoop-aws",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
}
"""The package with Hadoop's connector for each scheme."""
REBASE_MODE = "spark.sql.parquet.datetimeRebaseModeInRead"
LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
LISTING_TASKS_OF_CORE = 4
"""Spark looks at the files of a scan in tasks, by default one for each file: 8 ms each, for a look of 0.1 ms."""
FOOTER_THREADS = 16
WIDENS_SINCE = 4
"""The first release of Spark that reads columns of a file as wider types by itself."""

Promotions = frozenset[tuple[pa.DataType, pa.DataType]]
_WIDENED_BY_SPARK_4: Promotions = frozenset({(pa.int32(), pa.int64()), (pa.int32(), pa.float64())})
"""Pairs of a file's type and the table's type that Spark 4 widens as Hudi does."""

STORED_IN = "__hoodie_stored_in"
"""The column with the name of the base file of a row, on demand."""
STORED_AT = "__hoodie_stored_at"
"""The column with the position of a row in its base file, from 0, on demand."""
_PLACES = {STORED_IN: "_metadata.file_name", STORED_AT: "_metadata.row_index"}

NarrowColumns = tuple[tuple[str, pa.DataType], ...]
"""Columns of a file whose type is narrower than the table's, with the file's type."""


def scan_files(
    spark: SparkSession,
    snapshot: TableSnapshot,
    base_path: str,
    files: Sequence[HoodieBaseFile],
    schema: pa.Schema,
    *,
    places: bool = False,
) -> DataFrame:
    """The rows of some base files in the table's types.

    Args:
        spark: The session.
        snapshot: The table.
        base_path: The table's folder as the user wrote it; its scheme decides which connector Spark uses.
        files: The files; there may be none.
        schema: The columns, including meta columns.
        places: Whether the columns `STORED_IN` and `STORED_AT` come after the others.

    Raises:
        HoodieIOException: Spark has no connector for the storage, or cannot read a file.
    """
    if not files:
        # Nulls are allowed in all columns, as in scans.
        return spark.createDataFrame([], spark_schema(nullable_schema(schema)))
    groups = _group_by_narrow_columns(spark, snapshot, files, schema)
    added = _PLACES if places else {}
    frames = [_scan(spark, snapshot, base_path, files, schema, dict(narrow), added) for narrow, files in groups.items()]
    return reduce(DataFrame.union, frames)


def _scan(
    spark: SparkSession,
    snapshot: TableSnapshot,
    base_path: str,
    files: Iterable[HoodieBaseFile],
    schema: pa.Schema,
    narrow: Mapping[str, pa.DataType],
    added: Mapping[str, str],
) -> DataFrame:
    """The rows of base files, with narrow columns widened to the table's types, and columns of Spark's metadata."""
    relative = [relative_to(snapshot.base_path, file.path) for file in files]
    file_schema = pa.schema([field.with_type(narrow.get(field.name, field.type)) for field in schema])
    # No globs in paths, and no columns from folders like day=1: the files hold all columns.
    reader = spark.read.schema(spark_schema(file_schema)).option("__globPaths__", "false")
    reader = reader.option("recursiveFileLookup", "true")
    if spark.conf.get(REBASE_MODE, "EXCEPTION") == "EXCEPTION":
        # Spark 3.5 fails on days before 1582 without this: they are in today's calendar, unless the session has a mode.
        reader = reader.option("datetimeRebaseMode", "CORRECTED")
    root = _spark_path(base_path, snapshot.base_path)
    try:
        with _few_listing_tasks(spark):
            frame = reader.parquet(*(join(root, path) for path in relative))
    except Exception as error:  # Py4J raises errors of connectors as several classes.
        if not root.startswith("s3://") or not _lacks_connector(error):
            raise _cannot_read(root, error) from error
        # Outside of Amazon's own clusters the connector for s3:// has the scheme s3a.
        root = "s3a" + root.removeprefix("s3")
        try:
            with _few_listing_tasks(spark):
                frame = reader.parquet(*(join(root, path) for path in relative))
        except Exception as second_error:
            raise _cannot_read(root, second_error) from second_error
    columns = [
        _widened(field, narrow[field.name]) if field.name in narrow else _kept_from_statistics(field)
        for field in schema
    ]
    return frame.select(columns + [sf.col(source).alias(name) for name, source in added.items()])


@contextmanager
def _few_listing_tasks(spark: SparkSession) -> Iterator[None]:
    """Within it, Spark looks at the files of a scan in a few tasks for each core.

    Spark Connect looks later, when a query runs.
    """
    context = spark_context(spark)
    if context is None:
        yield
        return
    given = spark.conf.get(LISTING_TASKS)
    spark.conf.set(LISTING_TASKS, min(int(given), LISTING_TASKS_OF_CORE * context.defaultParallelism))
    try:
        yield
    finally:
        spark.conf.set(LISTING_TASKS, given)


def _kept_from_statistics(field: pa.Field) -> Column:
    """A column of a scan; floats get a form whose filters Spark does not push into the files.

    For Spark, NaN is equal to itself and greater than all numbers, but Parquet's statistics leave it out. For a row
    group with 1.0 and NaN they give the maximum 1.0, so Spark would skip it for ``v > 5``.
    """
    column = sf.col(quoted(field.name))
    if pa.types.is_floating(field.type):
        return sf.nanvl(column, column).alias(field.name)
    kept = column
    for path in _float_paths(field.type):
        inner = reduce(lambda parent, name: parent.getField(name), path, column)
        kept = kept.withField(".".join(map(quoted, path)), sf.nanvl(inner, inner))
    return column if kept is column else kept.alias(field.name)


def _float_paths(data_type: pa.DataType) -> Iterator[tuple[str, ...]]:
    """The paths of floats within structs; Spark does not push filters on lists and maps."""
    if not pa.types.is_struct(data_type):
        return
    for child in data_type:
        if pa.types.is_floating(child.type):
            yield (child.name,)
        for path in _float_paths(child.type):
            yield (child.name, *path)


def _widened(field: pa.Field, file_type: pa.DataType) -> Column:
    """A column of a scan in the table's type. Floats are widened by their digits, as in Hudi: 0.1 becomes 0.1."""
    column = sf.col(quoted(field.name))
    for data_type in (_floats_as_strings(file_type, field.type), field.type):
        column = column.cast(spark_schema(pa.schema([field.with_type(nullable_type(data_type))])).fields[0].dataType)
    return column.alias(field.name)


def _spark_path(given_path: str, base_path: str) -> str:
    """The table's folder as Spark takes it: local ones as a URL, others with the scheme that the user wrote."""
    if base_path.startswith("/"):
        return f"file://{base_path}"
    scheme, separator, _ = given_path.partition("://")
    if not separator:
        return base_path
    known = {"s3n": "s3a", "gcs": "gs"}.get(scheme.lower(), scheme.lower())
    return f"{known}://{base_path.partition('://')[2]}"


def _lacks_connector(error: Exception) -> bool:
    """Whether Spark has no Hadoop connector for a scheme, or not its classes."""
    text = str(error)
    return "No FileSystem for scheme" in text or bool(re.search(r"Class(NotFoundException|\s+\S+ not found)", text))


def _cannot_read(root: str, error: Exception) -> HoodieIOException:
    scheme = root.partition("://")[0]
    if _lacks_connector(error):
        package = CONNECTORS.get(scheme)
        way = (
            f"start the session with {package} in spark.jars.packages, in the version that fits its Hadoop"
            if package is not None
            else "start the session with the Hadoop connector of this storage"
        )
        return HoodieIOException(
            f"Spark has no connector for {scheme}://, so it cannot read {root}: {way}, and with the connector's "
            "credentials (storage_options are hoodie's own); or read with hoodie.read_table, which needs neither"
        )
    reason = str(error).strip().partition("\n")[0]
    return HoodieIOException(
        f"Spark cannot read {root}: {reason}. Check the credentials of the session's Hadoop connector; "
        "storage_options are hoodie's own"
    )


def _group_by_narrow_columns(
    spark: SparkSession, snapshot: TableSnapshot, files: Sequence[HoodieBaseFile], schema: pa.Schema
) -> dict[NarrowColumns, list[HoodieBaseFile]]:
    """Group files by the columns that Spark cannot read as the table's types, or would widen differently than Hudi.

    Spark 3.5 fails if it must read an int32 file as bigint, and for other such pairs; Spark 4 can read some of them.
    All files of an instant have one schema: the one in the commit's metadata, or, if the commit is archived, the one of
    any of its files.
    """
    widens = _WIDENED_BY_SPARK_4 if int(spark.version.split(".")[0]) >= WIDENS_SINCE else frozenset()
    first = {file.instant_time: file for file in reversed(files)}
    narrow = {instant_time: _narrow_columns_of_commit(snapshot, instant_time, schema, widens) for instant_time in first}
    unknown = [first[instant_time] for instant_time, columns in narrow.items() if columns is None]
    with ThreadPool(FOOTER_THREADS, "hoodie-footer") as pool:
        footers = pool.map(partial(_narrow_columns_of_file, snapshot.storage, schema, widens), unknown)
        narrow |= dict(zip((file.instant_time for file in unknown), footers, strict=True))
    groups: dict[NarrowColumns, list[HoodieBaseFile]] = {}
    for file in files:
        groups.setdefault(narrow[file.instant_time] or (), []).append(file)
    return groups


def _narrow_columns_of_commit(
    snapshot: TableSnapshot, instant_time: str, schema: pa.Schema, widens: Promotions
) -> NarrowColumns | None:
    """The narrow columns of the files of an instant; None if its metadata has no schema."""
    instant = snapshot.active_timeline.filter_completed_instants().find(instant_time)
    avro_schema = snapshot.active_timeline.read_commit_metadata(instant).schema if instant is not None else None
    return _narrow_columns(to_arrow(avro_schema), schema, widens) if avro_schema else None


def _narrow_columns_of_file(
    storage: HoodieStorage, schema: pa.Schema, widens: Promotions, file: HoodieBaseFile
) -> NarrowColumns:
    with HoodieParquetReader(storage, file.path) as reader:
        return _narrow_columns(reader.file_schema, schema, widens)


def _narrow_columns(file_schema: pa.Schema, schema: pa.Schema, widens: Promotions) -> NarrowColumns:
    found = []
    for field in schema:
        index = file_schema.get_field_index(field.name)
        if index >= 0:
            file_type = _replaced(file_schema.field(index).type, field.type, partial(_file_type, widens))
            if file_type != field.type:
                found.append((field.name, file_type))
    return tuple(found)


def _file_type(widens: Promotions, file_type: pa.DataType, table_type: pa.DataType) -> pa.DataType:
    """The file's type of a number that Spark does not widen as Hudi does; otherwise the table's type."""
    is_number = pa.types.is_integer(file_type) or pa.types.is_floating(file_type) or pa.types.is_decimal(file_type)
    return file_type if is_number and (file_type, table_type) not in widens else table_type


def _floats_as_strings(file_type: pa.DataType, table_type: pa.DataType) -> pa.DataType:
    """The file's type, with strings in place of floats that are doubles in the table."""
    return _replaced(
        file_type,
        table_type,
        lambda one, other: pa.string() if pa.types.is_float32(one) and pa.types.is_float64(other) else one,
    )


def _replaced(
    file_type: pa.DataType,
    table_type: pa.DataType,
    choose: Callable[[pa.DataType, pa.DataType], pa.DataType],
) -> pa.DataType:
    """The table's type, with each type that is not nested replaced by ``choose(file type, table type)``."""
    if pa.types.is_struct(table_type) and pa.types.is_struct(file_type):
        fields = []
        for field in table_type:
            index = file_type.get_field_index(field.name)
            chosen = field.type if index < 0 else _replaced(file_type.field(index).type, field.type, choose)
            fields.append(field.with_type(chosen))
        return pa.struct(fields)
    if pa.types.is_list(table_type) and pa.types.is_list(file_type):
        element = table_type.value_field
        return pa.list_(element.with_type(_replaced(file_type.value_type, element.type, choose)))
    if pa.types.is_map(table_type) and pa.types.is_map(file_type):
        item = table_type.item_field
        return pa.map_(table_type.key_type, item.with_type(_replaced(file_type.item_type, item.type, choose)))
    return table_type if pa.types.is_nested(table_type) else choose(file_type, table_type)
