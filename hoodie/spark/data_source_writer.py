"""The writes of ``format("hoodie")``: tasks stage their rows in files, and one process writes them to the table.

PySpark runs a write in three kinds of processes. Each gets the pickled result of the previous one, and none has a
session::

    process      runs                                    when
    planning     writer() or streamWriter()              each write, each batch of a stream
    tasks        write()                                 each task; attempts may fail, or run twice
    driver side  commit() or abort()                     when all tasks have ended; of a stream, streamWriter() before

The table does not change before ``commit()``. It reads the files that the tasks' messages name, and runs the operation
with the in-process client, so everything after is as in `hoodie.write_table`. The staged files are deleted in any case;
those of a killed application are deleted by a later write.

Hudi: org.apache.hudi.HoodieSparkSqlWriter, org.apache.hudi.HoodieStreamingSink.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hoodie.client.chosen_operation import check_mode, operation_to_do, with_default_operation
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.mode_write import REPLACE_ROWS, FrameOfColumns, ModeWrite, SaveMode
from hoodie.client.staged_rows import (
    StagedFile,
    StagingFolder,
    delete_abandoned,
    delete_staged,
    folder_of,
    read_staged,
)
from hoodie.client.stream_writer import StreamWriter, check_stream_config
from hoodie.client.streaming_checkpoint import StreamBatch
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import display_value
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import STAGED_MAX_BYTES_KEY, BulkInsertSortMode, InsertDupPolicy
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieNotSupportedException,
)
from hoodie.spark.data_source_options import DataSourceWriteOptions
from hoodie.spark.spark_compatibility import streaming_query_id_of_task, was_interrupted
from hoodie.spark.spark_steps import gathered
from hoodie.spark.spark_types import arrow_schema, conform
from hoodie.spark.worker_start import prepare_worker
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import normalise_path

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    # PySpark 4.0 gives batches to the writers of streams too if they are of the class for DataFrames. It would give
    # rows to others: rows have local times, which are ambiguous in the hour that is repeated when summer time ends.
    DataSourceStreamArrowWriter = DataSourceArrowWriter

logger = logging.getLogger(__name__)

_OPERATION_KEY = "hoodie.datasource.write.operation"
_REPLACED = ("upsert", "insert", "bulk_insert", REPLACE_ROWS)
"""Operations whose rows may replace those of the table."""
_LOCK_OF_A_PROCESS = "InProcessLockProvider"
_REPLACING = (REPLACE_ROWS, "insert_overwrite", "delete_partition")
"""Operations that remove rows whatever their keys are."""


class StagedRows(WriterCommitMessage):  # type: ignore[misc]
    """The message of a task at its end.

    Args:
        file: The file with its rows; None for no rows.
        query_id: The streaming query of the task; None outside of one.
    """

    def __init__(self, file: StagedFile | None, query_id: str | None = None) -> None:
        self.file = file
        self.query_id = query_id


@attrs.frozen
class StagedWrite:
    """One write. Made in the planning process; tasks and ``commit()`` get it.

    Attributes:
        options: The user's.
        writing: The write. If it replaces rows and is the only writer, it knows the completed writes of the table.
        is_stream: Whether this is a batch of a stream.
        schema: The columns.
        staging: The place where tasks put their rows.
        folder_is_new: Whether the table's folder did not exist.
    """

    options: DataSourceWriteOptions
    writing: ModeWrite
    is_stream: bool
    schema: pa.Schema
    staging: StagingFolder
    folder_is_new: bool

    @classmethod
    def of(
        cls, options: Mapping[str, str], schema: st.StructType, *, replaces: bool, is_stream: bool = False
    ) -> StagedWrite:
        """Check everything that can be checked before a task runs.

        Args:
            options: The user's options.
            schema: The columns.
            replaces: Whether Spark was asked to replace all rows.
            is_stream: Whether this is a batch of a stream.

        Raises:
            HoodieConfigException: Options are wrong, contradict each other or the table, or do not describe a table.
            TableNotFoundException: There is no table to delete from.
            HoodieKeyException: A field of a new table is not a column.
            HoodieSchemaException: A column cannot be stored.
        """
        given = DataSourceWriteOptions.of(options)
        config = HoodieWriteConfig.from_properties(given.path, given.properties, given.storage_options)
        operation = check_stream_config(config) if is_stream else operation_to_do(None, config)
        if replaces:
            check_mode(operation, "complete" if is_stream else "overwrite")
            if operation not in _REPLACED:
                mode = "outputMode 'complete'" if is_stream else "mode 'overwrite'"
                raise HoodieConfigException(
                    f"{mode} replaces all rows of the table, and {_OPERATION_KEY} = {operation!r} those of some "
                    f"partitions: give mode 'append' with it, or leave the option out; nothing was written"
                )
        if config.write.has_several_writers and str(config.lock.provider).rpartition(".")[2] == _LOCK_OF_A_PROCESS:
            raise HoodieConfigException(
                f"hoodie.write.lock.provider = {config.lock.provider}: it keeps the writers of one process apart, and "
                'each write of format("hoodie") has a process of its own; give a provider that works between '
                "processes, see docs/concurrency.md"
            )
        columns = arrow_schema(schema)
        mode = SaveMode.OVERWRITE if replaces else SaveMode.APPEND
        # A stream goes on with the table that it began with: its progress is in the history.
        writing = ModeWrite(
            with_default_operation(config),
            mode,
            operation,
            HoodieLocalWriteClient,
            may_change_table=not is_stream,
            keyless_by_default=True,
        )
        table = writing.check(FrameOfColumns(lambda: columns, None))
        removes_rows = replaces or operation in _REPLACING
        if removes_rows and not (is_stream or config.write.has_several_writers):
            known = frozenset() if table is None else table.active_timeline.completed_writes().times
            writing = attrs.evolve(writing, completed=known)
        storage = open_storage(given.path, given.storage_options, config.retry.policy)
        base_path = normalise_path(given.path)
        return cls(
            given,
            writing,
            is_stream,
            columns,
            StagingFolder.new(storage, base_path, is_table=table is not None),
            folder_is_new=table is None and not storage.exists(base_path),
        )

    @property
    def config(self) -> HoodieWriteConfig:
        """The options, parsed."""
        return self.writing.config

    @property
    def replaces(self) -> bool:
        """Whether the rows take the place of all rows of the table."""
        return self.writing.mode is SaveMode.OVERWRITE

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedFile | None:
        """Put the rows of a task aside; called in tasks.

        Args:
            batches: The rows, from Spark.

        Raises:
            HoodieNotSupportedException: They are more than a staged write takes.
        """
        prepare_worker()
        conformed = (conform(batch, self.schema) for batch in batches)
        return self.staging.write(self._within_limit(gathered(conformed)), self.schema)

    def run(self, files: Sequence[StagedFile], extra_metadata: Mapping[str, str]) -> HoodieWriteResult | None:
        """Write the staged rows to the table; called once all tasks have ended.

        Args:
            files: The files that the tasks staged.
            extra_metadata: Stored in the commit.

        Returns:
            The outcome.

        Raises:
            HoodieException: Any error of the operation.
        """
        config = attrs.evolve(self.config, commit_metadata=dict(extra_metadata))
        rows = read_staged(self.staging.storage, files, self.schema)
        return attrs.evolve(self.writing, config=config).run(FrameOfColumns(lambda: self.schema, rows))

    def check_size(self, files: Sequence[StagedFile]) -> None:
        """Refuse more rows than a staged write takes.

        Args:
            files: The files that the tasks staged.

        Raises:
            HoodieNotSupportedException: They are too many.
        """
        self._check_bytes(sum(file.num_bytes for file in files))

    def clean_up(self, files: Sequence[StagedFile]) -> None:
        """Delete the staged rows of this write.

        Args:
            files: The files that the tasks staged.
        """
        folders = [self.staging.path, *map(folder_of, files)]
        base_path = normalise_path(self.options.path)
        delete_staged(self.staging.storage, base_path, folders, folder_is_new=self.folder_is_new)

    def delete_abandoned(self) -> None:
        """Delete the staged rows that killed writes left."""
        delete_abandoned(self.staging.storage, normalise_path(self.options.path))

    def _within_limit(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        num_bytes = 0
        for batch in batches:
            num_bytes += batch.nbytes
            self._check_bytes(num_bytes)
            yield batch

    @property
    def limit(self) -> int | None:
        """The most bytes of rows; None if the committing process reads them as a stream, whatever their number."""
        config, write = self.config, self.config.write
        is_streamed = (
            self.writing.operation == "bulk_insert"
            and not self.replaces
            and write.bulk_insert_sort_mode is BulkInsertSortMode.NONE
            and write.bulk_insert_partitioner_class is None
            and not write.combine_before_insert
            and write.duplicates_of_inserts is InsertDupPolicy.NONE
            and config.index.index_type is not IndexType.BUCKET
            and config.index.index_class is None
            and config.lock.write_attempts == 1
        )
        return None if is_streamed and STAGED_MAX_BYTES_KEY not in config.properties else write.staged_max_bytes

    def _check_bytes(self, num_bytes: int) -> None:
        limit = self.limit
        if limit is not None and num_bytes > limit:
            raise HoodieNotSupportedException(
                f'{"a batch of the stream" if self.is_stream else "the DataFrame"} has more rows than format("hoodie") '
                f"writes to {self.options.path}: {num_bytes} bytes in memory and more, and {STAGED_MAX_BYTES_KEY} = "
                f"{limit}. One process on the driver's host writes them. Nothing was written. Let the tasks of Spark "
                f"do all the work: {self._call_at_scale()}"
            )

    def _call_at_scale(self) -> str:
        """The call that does the same with Spark's tasks."""
        given = {name: value for name, value in self.options.properties.items() if name != STAGED_MAX_BYTES_KEY}
        if self.replaces:
            given[_OPERATION_KEY] = REPLACE_ROWS
        shown = ", ".join(f"{name!r}: {display_value(name, value)}" for name, value in given.items())
        arguments = f"{self.options.path!r}, {{{shown}}}"
        if self.options.storage_options:
            arguments += ", storage_options={...}"
        if self.is_stream:
            return f"df.writeStream.foreachBatch(hoodie.spark.foreach_batch_writer({arguments}))"
        call = f"hoodie.spark.write(df, {arguments})"
        return call[:-1] + f", mode={'overwrite' if self.replaces else 'append'!r})"


class HoodieDataSourceWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame.

    Args:
        write: The write.
    """

    def __init__(self, write: StagedWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return StagedRows(self._write.stage(iterator))

    def commit(self, messages: list[StagedRows | None]) -> None:
        _check_complete(messages)
        files = _files(messages)
        try:
            self._write.check_size(files)
            result = self._write.run(files, {})
            logger.info("df.write to %s: %r", self._write.options.path, result)
        finally:
            self._write.clean_up(files)

    def abort(self, messages: list[StagedRows | None]) -> None:
        """Delete the staged rows. A finished commit stays: this does not touch the table."""
        self._write.clean_up(_files(messages))


class HoodieDataSourceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the batches of a stream.

    Args:
        write: The write. Each batch gets one in the planning process, and another one to commit it.
    """

    def __init__(self, write: StagedWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return StagedRows(self._write.stage(iterator), streaming_query_id_of_task())

    def commit(self, messages: list[StagedRows | None], batch_id: int) -> None:
        """Write a batch, unless the table holds it."""
        _check_complete(messages)
        files, config = _files(messages), self._write.config
        query_id = next((message.query_id for message in messages if message is not None), None)
        batch = StreamBatch(config.streaming.identifier, batch_id, query_id)
        try:
            self._write.check_size(files)
            run = partial(self._write.run, files, batch.extra_metadata)
            StreamWriter(config, was_interrupted).write(batch, run)
        finally:
            self._write.clean_up(files)
            self._write.delete_abandoned()

    def abort(self, messages: list[StagedRows | None], batch_id: int) -> None:
        """Delete the staged rows in the tasks' messages; a later write deletes the others."""
        self._write.clean_up(_files(messages))


def writer_of(options: Mapping[str, str], schema: st.StructType, overwrite: bool) -> HoodieDataSourceWriter:
    """The writer of a DataFrame.

    Args:
        options: The user's.
        schema: Its columns.
        overwrite: Whether the mode is ``overwrite``.

    Raises:
        HoodieException: See `StagedWrite.of`.
    """
    write = StagedWrite.of(options, schema, replaces=overwrite)
    write.delete_abandoned()
    return HoodieDataSourceWriter(write)


def stream_writer_of(
    options: Mapping[str, str], schema: st.StructType, overwrite: bool
) -> HoodieDataSourceStreamWriter:
    """The writer of a batch of a stream.

    Args:
        options: The user's.
        schema: The columns.
        overwrite: Whether the output mode is ``complete``.

    Raises:
        HoodieException: See `StagedWrite.of`.
    """
    return HoodieDataSourceStreamWriter(StagedWrite.of(options, schema, replaces=overwrite, is_stream=True))


def _check_complete(messages: Iterable[StagedRows | None]) -> None:
    """Refuse to commit without the rows of a task. Spark has none without a message when it commits."""
    if any(message is None for message in messages):
        raise HoodieException("a task did not say where its rows are; nothing was committed. Write again")


def _files(messages: Iterable[StagedRows | None]) -> list[StagedFile]:
    return [message.file for message in messages if message is not None and message.file is not None]
