"""Write a DataFrame in the style of Hudi's data source: options choose the operation, and describe a new table.

Hudi: org.apache.hudi.DefaultSource.createRelation and org.apache.hudi.HoodieSparkSqlWriter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

import attrs
from pyspark.sql import DataFrame

from hoodie.client.call_arguments import check_extra_metadata
from hoodie.client.chosen_operation import DELETES, check_mode, operation_to_do, run_operation
from hoodie.client.new_table import (
    check_new_table,
    create_table,
    no_table_to_delete_from,
    table_exists,
    taken_back_on_failure,
)
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import check_properties
from hoodie.common.model.table_version import TABLE_VERSIONS
from hoodie.common.table.table_config import PROPERTIES_FILE_NAME, HoodieTableConfig
from hoodie.common.table.table_snapshot import is_table
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieSchemaException,
    TableExistsException,
)
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.spark.spark_compatibility import check_running, is_frame
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.spark.spark_types import arrow_schema
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import METAFOLDER_NAME, join, normalise_path
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)


class SaveMode(StrEnum):
    """What to do if there already is a table.

    Spark: org.apache.spark.sql.SaveMode.
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR_IF_EXISTS = "errorifexists"
    IGNORE = "ignore"

    @classmethod
    def of(cls, name: str) -> SaveMode:
        """Parse a mode as Spark does, in any case; ``error`` and ``default`` are ``errorifexists``.

        Raises:
            HoodieConfigException: There is no such mode.
        """
        text = str(name).lower()
        if text in ("error", "default"):
            return cls.ERROR_IF_EXISTS
        if text not in set(cls):
            raise HoodieConfigException(
                f"mode {name!r} is unknown: give append, overwrite, errorifexists (error) or ignore"
            )
        return cls(text)


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
    existing table they are optional, and must not contradict it.

    Args:
        df: The rows; for a delete, the keys.
        base_path: The table's folder.
        options: Hudi's options. ``hoodie.datasource.write.operation`` sets the operation: ``upsert`` (the default),
            ``insert``, ``bulk_insert``, ``delete``, ``insert_overwrite`` (replaces the partitions that the rows go to),
            ``insert_overwrite_table`` or ``delete_partition`` (the partitions that
            ``hoodie.datasource.write.partitions.to.delete`` names, such as ``2026/11/*``; without it, those that the
            rows go to). A table for each option is in ``docs/hudi-options.md``.
        mode: ``append`` writes to the table. If there already is a table, ``overwrite`` first deletes it with its
            history (``insert_overwrite_table`` keeps the history and replaces the rows); ``errorifexists`` refuses;
            ``ignore`` does nothing. ``delete`` and ``delete_partition`` need ``append``. Any case is accepted.
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
        HoodieLockException: A writer in another process held the table all the time (SINGLE_WRITER); with mode
            ``overwrite`` nothing was deleted then.
        HoodieKeyException: A field of a new table is not a column of the DataFrame.
        HoodieSchemaException: The rows are not a Spark DataFrame (`hoodie.write_table` accepts those of pandas) or are
            a stream, or a new table cannot hold a column; no table is created.
        HoodieException: The DataFrame reads the table that it would overwrite, or its session was stopped; or any error
            of the operation itself.
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
    if df.isStreaming:
        raise HoodieSchemaException(
            "df is a streaming DataFrame, and hoodie.spark.write writes a batch: write the batches of the stream with "
            "foreachBatch; nothing was written"
        )
    check_properties(options, "options")
    _check_path(base_path, options or {})
    save_mode = SaveMode.of(mode)
    check_running(df.sparkSession)
    check_callback(on_progress)
    check_validators(validators)
    check_extra_metadata(extra_metadata)
    config = HoodieWriteConfig.from_properties(base_path, options or {}, storage_options)
    config = attrs.evolve(config, commit_metadata=dict(extra_metadata or {}))
    operation = operation_to_do(None, config)
    check_mode(operation, save_mode.value)
    with (
        taken_back_on_failure() as made,
        SparkRDDWriteClient(df.sparkSession, config, on_progress=on_progress, validators=validators) as client,
    ):
        exists = table_exists(config)
        if exists and save_mode is SaveMode.ERROR_IF_EXISTS:
            raise TableExistsException(
                f"there is a table at {base_path}: give mode 'append' to write to it, 'overwrite' to replace it"
            )
        if exists and save_mode is SaveMode.IGNORE:
            logger.info("nothing was written: there is a table at %s, and the mode is ignore", base_path)
            return None
        # insert_overwrite_table replaces all rows itself, and keeps the table's history.
        replaces = exists and save_mode is SaveMode.OVERWRITE and operation != "insert_overwrite_table"
        if replaces or not exists:
            if operation in DELETES:
                raise no_table_to_delete_from(config)
            check_new_table(arrow_schema(df.schema), config)
            described = config
            if replaces:
                # Otherwise a writer in another process could leave files in the new table that count as committed.
                with TransactionManager(config).alone():
                    described = _in_version_of_the_table(config)
                    _delete_table(df, config)
            with _telling_of_the_deleted(base_path, replaces):
                table = create_table(described, was_table=replaces)
                if not replaces:
                    made.append(table)
                return run_operation(client, operation, df, config)
        return run_operation(client, operation, df, config)


def _check_path(base_path: str, options: Mapping[str, Any]) -> None:
    """Refuse the option ``path`` of a pasted ``df.write.format("hudi")`` if it names another folder."""
    other = options.get("path")
    if other is not None and normalise_path(str(other)) != normalise_path(base_path):
        raise HoodieConfigException(
            f"option path = {str(other)!r}, and base_path is {base_path!r}: leave the option out; nothing was written"
        )


@contextmanager
def _telling_of_the_deleted(base_path: str, replaces: bool) -> Iterator[None]:
    """Add a note to errors that the old table was deleted, because "nothing was written" is not the whole truth."""
    try:
        yield
    except Exception as error:
        if replaces:
            error.add_note(
                f"mode 'overwrite' had deleted the table at {base_path} before this error: its rows and its history "
                "are gone. Write again; operation insert_overwrite_table keeps them until new rows are committed"
            )
        raise


def _in_version_of_the_table(config: HoodieWriteConfig) -> HoodieWriteConfig:
    """The configuration with the version of the table that is replaced, for its other readers; unless it names one."""
    storage = open_storage(config.base_path, config.storage_options, config.retry.policy)
    found = HoodieTableConfig.inspect(storage, normalise_path(config.base_path))
    if config.table.table_version is not None or not isinstance(found, HoodieTableConfig):
        return config
    version = found.table_version if found.table_version in TABLE_VERSIONS else None
    return attrs.evolve(config, table=attrs.evolve(config.table, table_version=version))


def _delete_table(df: DataFrame, config: HoodieWriteConfig) -> None:
    """Delete a table: its data first, so that none of its files can ever count as a file of the new table."""
    base_path = normalise_path(config.base_path)
    read = next((url for url in df.inputFiles() if normalise_path(unquote(url)).startswith(base_path + "/")), None)
    if read is not None:
        raise HoodieException(
            f"the DataFrame reads the table at {base_path} ({read}), which mode 'overwrite' would delete before it is "
            "read: write it elsewhere first, call checkpoint() on it, or upsert it in mode 'append'"
        )
    storage = open_storage(base_path, config.storage_options, config.retry.policy)
    if not is_table(storage, base_path):
        raise HoodieConfigException(
            f"{base_path} names a table by globs: give its folder to replace it; nothing was deleted or written"
        )
    logger.warning("mode overwrite: deleting the table at %s with its history", base_path)
    for child in sorted(storage.list_directory(base_path), key=lambda child: child.name == METAFOLDER_NAME):
        path = join(base_path, child.name)
        if child.name == METAFOLDER_NAME:
            # Commits without properties would look like a table that has lost its properties.
            inside = storage.list_directory(path)
            for folder in inside:
                if folder.is_directory:
                    storage.delete_directory(folder.path)
            storage.delete_files(
                file.path for file in inside if not file.is_directory and file.name != PROPERTIES_FILE_NAME
            )
        if child.is_directory:
            storage.delete_directory(path)
        else:
            storage.delete_file(path)
