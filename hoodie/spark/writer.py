"""Write a DataFrame in the style of Hudi's data source: options choose the operation, and describe a new table.

Hudi: org.apache.hudi.DefaultSource.createRelation and org.apache.hudi.HoodieSparkSqlWriter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame

from hoodie.client.call_arguments import check_extra_metadata
from hoodie.client.mode_write import FrameOfColumns, ModeWrite
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import check_properties
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieSchemaException
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.spark.spark_compatibility import check_running, is_frame
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.spark.spark_types import arrow_schema
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import normalise_path


def write(
    df: DataFrame,
    base_path: str,
    options: Mapping[str, Any] | None = None,
    mode: str = "append",
    *,
    storage_options: StorageOptions | None = None,
    on_progress: ProgressCallback | None = None,
    validators: Sequence[Validator | HoodiePreCommitValidator] = (),
    extra_metadata: Mapping[str, str] | None = None,
) -> HoodieWriteResult | None:
    """Write a DataFrame to a table, as ``df.write.format("hudi").options(**options).mode(mode).save(base_path)``.

    If there is no table, the options describe a new one: ``hoodie.table.name``,
    ``hoodie.datasource.write.recordkey.field``, ``.partitionpath.field``, ``.precombine.field`` and others. For an
    existing table they are optional, and must not contradict it. A new table without record key fields has generated
    keys, as in Hudi; see ``docs/keyless-tables.md``.

    Args:
        df: The rows; for a delete, the keys.
        base_path: The table's folder.
        options: Hudi's options. ``hoodie.datasource.write.operation`` sets the operation: ``upsert`` (the default),
            ``insert``, ``bulk_insert``, ``delete``, ``insert_overwrite`` (replaces the partitions that the rows go to),
            ``insert_overwrite_table`` or ``delete_partition`` (the partitions that
            ``hoodie.datasource.write.partitions.to.delete`` names, such as ``2026/11/*``; without it, those that the
            rows go to). A table for each option is in ``docs/hudi-options.md``.
        mode: ``append`` writes to the table. If there already is a table, ``overwrite`` replaces all of its rows,
            ``errorifexists`` refuses, and ``ignore`` does nothing. ``overwrite`` is one commit, and keeps the history,
            if ``append`` would take the options and the columns. If not, a new table is written beside the old one, and
            then takes its place; the history goes (``insert_overwrite_table`` never does that). Either way the frame
            may read the table. ``delete`` and ``delete_partition`` need ``append``. Any case is accepted.
        storage_options: Options of the storage, for hoodie and its tasks.
        on_progress: Called with every `ProgressEvent`; see `SparkRDDWriteClient`.
        validators: Asked before the commit; see `SparkRDDWriteClient`.
        extra_metadata: Strings to store in the commit.

    Returns:
        The outcome of the write, which is committed; None if ``ignore`` found a table.

    Raises:
        HoodieConfigException: Options are unknown, contradict each other or the table, or do not describe a table; or
            the folder of a new table holds files of another format or files that no table wrote, whatever the mode.
        TableExistsException: There is a table, and the mode is ``errorifexists``.
        TableNotFoundException: There is no table to delete from.
        HoodieLockException: A writer in another process held the table all the time (SINGLE_WRITER).
        HoodieKeyException: A field of a new table is not a column of the DataFrame.
        HoodieSchemaException: The rows are not a Spark DataFrame (`hoodie.write_table` accepts those of pandas) or are
            a stream, or a new table cannot hold a column; no table is created.
        HoodiePendingOverwriteException: An overwrite died while a new table took the place of this one.
        HoodieException: The session of the DataFrame was stopped; or any error of the operation itself.
        >>> import hoodie.spark
        >>> options = {
        ...     "hoodie.table.name": "trips",
        ...     "hoodie.datasource.write.recordkey.field": "uuid",
        ...     "hoodie.datasource.write.partitionpath.field": "city",
        ...     "hoodie.datasource.write.precombine.field": "ts",
        ... }
        >>> hoodie.spark.write(df, "/data/trips", options)  # doctest: +SKIP
    """
    if not is_frame(df):
        raise HoodieSchemaException(
            f"df is {shown_value(df)}, and hoodie.spark.write takes a Spark DataFrame: create one with "
            "spark.createDataFrame(df), or write it in this process with hoodie.write_table; nothing was written"
        )
    config = config_of_options(base_path, options, storage_options)
    check_callback(on_progress)
    check_validators(validators)
    check_extra_metadata(extra_metadata)
    config = attrs.evolve(config, commit_metadata=dict(extra_metadata or {}))
    return write_frame(df, config, mode, on_progress, validators)


def config_of_options(
    base_path: str, options: Mapping[str, Any] | None, storage_options: StorageOptions | None
) -> HoodieWriteConfig:
    """The configuration of the options of a write.

    Args:
        base_path: The table's folder.
        options: Hudi's options; ``path``, of a pasted ``df.write.format("hudi")``, may be among them.
        storage_options: Options of the storage.

    Raises:
        HoodieConfigException: Options are unknown or contradict each other, or ``path`` names another folder.
    """
    check_properties(options, "options")
    other = (options or {}).get("path")
    if other is not None and normalise_path(str(other)) != normalise_path(base_path):
        raise HoodieConfigException(
            f"option path = {str(other)!r}, and base_path is {base_path!r}: leave the option out; nothing was written"
        )
    return HoodieWriteConfig.from_properties(base_path, options or {}, storage_options)


def write_frame(
    df: DataFrame,
    config: HoodieWriteConfig,
    mode: str,
    on_progress: ProgressCallback | None,
    validators: Sequence[Validator | HoodiePreCommitValidator],
) -> HoodieWriteResult | None:
    """Write a DataFrame by a configuration; see `write`.

    Args:
        df: The rows.
        config: The configuration, with the strings to store in the commit.
        mode: See `write`; likewise the others.
        on_progress: See `write`.
        validators: See `write`.

    Raises:
        HoodieException: See `write`.
    """
    if df.isStreaming:
        raise HoodieSchemaException(
            "df is a streaming DataFrame, and hoodie.spark.write writes a batch: write the batches of the stream with "
            "foreachBatch; nothing was written"
        )
    session = df.sparkSession
    check_running(session)
    writing = ModeWrite.of(
        config,
        lambda given: SparkRDDWriteClient(session, given, on_progress=on_progress, validators=validators),
        mode,
        keyless_by_default=True,
    )
    return writing.run(FrameOfColumns(lambda: arrow_schema(df.schema), df))
