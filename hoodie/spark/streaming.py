"""Write the batches of a Structured Streaming query to a table, each exactly once.

Hudi: org.apache.hudi.HoodieStreamingSink.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from pyspark.sql import DataFrame

from hoodie.client.chosen_operation import operation_to_do
from hoodie.client.streaming_checkpoint import SINK_CHECKPOINT_KEY, StreamBatch, StreamingCheckpoint
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.common.config.property import check_properties
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.streaming_config import IDENTIFIER_KEY
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieValidationException,
    HoodieWriteConflictException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.spark.spark_compatibility import is_frame, streaming_query_id, tells_streaming_query, was_interrupted
from hoodie.spark.writer import write
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import normalise_path

logger = logging.getLogger(__name__)

_MISTAKES = (HoodieConfigException, HoodieNotSupportedException, InvalidTableException, TableNotFoundException)
"""Errors of the call, not of the batch: they are never repeated, and no batch is given up because of them."""
_OF_THE_ROWS = (HoodieKeyException, HoodieSchemaException, HoodieValidationException)
"""Errors that the same rows would meet again."""

_writing: dict[str, threading.Lock] = {}
"""Table -> the lock of the queries of this process that write it, each as the only writer."""


def foreach_batch_writer(
    base_path: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: StorageOptions | None = None,
    on_progress: ProgressCallback | None = None,
    validators: Sequence[Validator | HoodiePreCommitValidator] = (),
) -> Callable[[DataFrame, int], None]:
    """Make the function that writes the batches of a streaming query to a table, each exactly once.

    Pass it to ``writeStream.foreachBatch``, for any operation. Each batch is one commit, which also stores the number
    of the batch. When Spark repeats a batch after a failure, the function finds that commit and writes nothing. The
    first batch creates the table if there is none.

    The state is Hudi's: a query of ``format("hudi")`` continues one of this function with the same identifier, and the
    reverse.

    Args:
        base_path: The table's folder.
        options: As for `hoodie.spark.write`, and these: ``hoodie.datasource.write.streaming.checkpoint.identifier``
            names the query in the table. Queries that write one table need different names.
            ``hoodie.datasource.write.streaming.retry.count`` (3) and ``.retry.interval.ms`` (2000, doubled each time)
            say how often and when a failed batch is tried again. ``.ignore.failed.batch`` (false) gives up a batch that
            still fails, and loses its rows.
        storage_options: Options of the storage, for hoodie and its tasks.
        on_progress: Called with every `ProgressEvent`; see `SparkRDDWriteClient`.
        validators: Asked before each commit; see `SparkRDDWriteClient`.

    Returns:
        A function of a batch and its number. It raises the errors of `hoodie.spark.write`, which end the query; and
        HoodieConfigException if the table holds a newer batch of the query, or one of another query of the same name.

    Raises:
        HoodieConfigException: Options are unknown or contradict each other; or several writers are announced
            (``hoodie.write.concurrency.mode``) and the query has no name.

        >>> import hoodie.spark
        >>> options = {
        ...     "hoodie.table.name": "trips",
        ...     "hoodie.datasource.write.recordkey.field": "uuid",
        ...     "hoodie.datasource.write.streaming.checkpoint.identifier": "trips_from_files",
        ... }
        >>> stream.writeStream.foreachBatch(hoodie.spark.foreach_batch_writer("/data/trips", options)).option(
        ...     "checkpointLocation", "/data/trips_checkpoint"
        ... ).start()  # doctest: +SKIP

    Hudi: org.apache.hudi.HoodieStreamingSink. Differs: an error ends the query, not the process; a batch is tried again
    before it is given up; batches of another checkpoint folder are refused, where Hudi skips them silently.
    """
    check_properties(options, "options")
    check_callback(on_progress)
    check_validators(validators)
    config = HoodieWriteConfig.from_properties(base_path, options or {}, storage_options)
    operation_to_do(None, config)
    if SINK_CHECKPOINT_KEY in config.properties:
        raise HoodieConfigException(f"{SINK_CHECKPOINT_KEY} is set for each batch: leave it out of the options")
    if not config.write.auto_commit:
        raise HoodieConfigException("hoodie.auto.commit = false: a stream commits each batch, so leave it out")
    if config.write.has_several_writers and IDENTIFIER_KEY not in config.properties:
        raise HoodieConfigException(
            f"hoodie.write.concurrency.mode = {config.write.concurrency_mode} announces several writers, so this query "
            f"needs a name that no other query of the table has: give {IDENTIFIER_KEY}"
        )
    return _ForeachBatchWriter(
        base_path, dict(options or {}), config, storage_options, on_progress, tuple(validators)
    ).write_batch


@attrs.define(eq=False, repr=False, slots=False)
class _ForeachBatchWriter:
    """What `foreach_batch_writer` returns a method of. Picklable: Spark Connect runs it on the server's side.

    Args:
        base_path: See `foreach_batch_writer`; likewise the others.
        options: As given.
        config: The same, parsed.
        storage_options: As given.
        on_progress: As given.
        validators: As given.
    """

    _base_path: str
    _options: Mapping[str, Any]
    _config: HoodieWriteConfig
    _storage_options: StorageOptions | None
    _on_progress: ProgressCallback | None
    _validators: Sequence[Validator | HoodiePreCommitValidator]
    _has_begun: bool = attrs.field(init=False, default=False)
    _written: StreamBatch | None = attrs.field(init=False, default=None)
    """The newest batch that this object has committed."""

    def write_batch(self, batch_df: DataFrame, batch_id: int) -> None:
        """Write a batch, unless the table holds it.

        Args:
            batch_df: The rows of the batch.
            batch_id: The number of the batch.

        Raises:
            HoodieConfigException: The batch is not of this query; see `StreamingCheckpoint.is_committed`.
            HoodieCommitException: The table has lost batches that this query wrote.
            HoodieException: The write failed.
        """
        if not is_frame(batch_df) or isinstance(batch_id, bool) or not isinstance(batch_id, int):
            raise HoodieConfigException(
                f"the function was called with {shown_value(batch_df)} and {shown_value(batch_id)}: pass it to "
                "writeStream.foreachBatch, or call it with a DataFrame and the number of the batch"
            )
        spark = batch_df.sparkSession
        batch = StreamBatch(self._config.streaming.identifier, batch_id, streaming_query_id(spark))
        # Outside of a query the caller numbers the batches.
        repeats_older = batch.query_id is None and tells_streaming_query(spark)
        with self._alone():
            self._write_until_done(batch_df, batch, repeats_older)

    def _write_until_done(self, batch_df: DataFrame, batch: StreamBatch, repeats_older: bool) -> None:
        """Write a batch, several times if it fails; the table is looked at before each time."""
        streaming = self._config.streaming
        attempts = max(1, streaming.retry_count)
        for attempt in range(1, attempts + 1):
            if self._is_committed(batch, repeats_older):
                return
            try:
                self._write(batch_df, batch)
                return
            except Exception as error:
                if _ends_the_query(error):
                    raise
                if attempt == attempts or isinstance(error, _OF_THE_ROWS):
                    if not streaming.ignore_failed_batch:
                        raise
                    failure = error
                    break
                pause_s = streaming.retry_interval_ms * 2 ** (attempt - 1) / 1000
                logger.warning(
                    "batch %d of the stream '%s' to %s failed, attempt %d of %d; it is tried again in %s s: %s",
                    batch.batch_id, batch.identifier, self._base_path, attempt, attempts, pause_s, error,
                )  # fmt: skip
            time.sleep(pause_s)
        logger.error(
            "batch %d of the stream '%s' to %s failed and is given up "
            "(hoodie.datasource.write.streaming.ignore.failed.batch): its rows are lost",
            batch.batch_id, batch.identifier, self._base_path, exc_info=failure,
        )  # fmt: skip

    def _write(self, batch_df: DataFrame, batch: StreamBatch) -> None:
        result = write(
            batch_df,
            self._base_path,
            self._options,
            storage_options=self._storage_options,
            on_progress=self._on_progress,
            validators=self._validators,
            extra_metadata=batch.extra_metadata,
        )
        if result is not None and result.is_committed:
            self._written = batch
        logger.info("batch %d of the stream '%s': %r", batch.batch_id, batch.identifier, result)

    def _is_committed(self, batch: StreamBatch, repeats_older: bool) -> bool:
        """Whether the table holds the batch; looks at the table as it is now."""
        checkpoint = self._load_checkpoint(batch.identifier)
        if IDENTIFIER_KEY not in self._config.properties:
            checkpoint.check_named()
        held = -1 if checkpoint.batch is None else checkpoint.batch.batch_id
        shown = f"batch {held} of it" if checkpoint.batch is not None else "no batch of it"
        if self._written is not None and held < self._written.batch_id:
            raise HoodieCommitException(
                f"batch {batch.batch_id} of the stream '{batch.identifier}' was not written: {self._base_path} holds "
                f"{shown}, and this query has written batch {self._written.batch_id}. The table was restored, or "
                "deleted and made anew, so rows of this stream are gone. To continue without them, start the query "
                "again"
            )
        is_committed = checkpoint.is_committed(batch, repeats_older=repeats_older)
        if is_committed:
            logger.log(
                logging.INFO if held == batch.batch_id else logging.WARNING,
                "batch %d of the stream '%s' is not written again: %s holds %s (commit %s)",
                batch.batch_id, batch.identifier, self._base_path, shown, checkpoint.instant_time,
            )  # fmt: skip
        elif not self._has_begun and batch.batch_id > held + 1:
            logger.warning(
                "the stream '%s' begins to write %s with batch %d, and the table holds %s: the batches between were "
                "empty or given up, or written without this function or under another name, or the table was restored",
                batch.identifier, self._base_path, batch.batch_id, shown,
            )  # fmt: skip
        self._has_begun = True
        return is_committed

    def _load_checkpoint(self, identifier: str) -> StreamingCheckpoint:
        config = self._config
        try:
            snapshot = TableSnapshot.load(config.base_path, config.storage_options, retry=config.retry.policy)
        except TableNotFoundException:
            return StreamingCheckpoint(self._base_path, identifier)
        snapshot.table_config.check_version(to_write=True)
        return StreamingCheckpoint.load(snapshot, identifier)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let queries of this process that are each configured as the only writer write one after the other."""
        if self._config.write.has_several_writers:
            yield
            return
        with _writing.setdefault(normalise_path(self._config.base_path), threading.Lock()):
            yield


def _ends_the_query(error: Exception) -> bool:
    """Whether a batch must neither be tried again nor be given up because of an error.

    A conflict that is not safe to retry may have been found after the commit, and its message must be seen. A query
    that is being stopped interrupts its batch, which its next run repeats.
    """
    if isinstance(error, HoodieWriteConflictException):
        return not error.is_retry_safe
    return isinstance(error, _MISTAKES) or was_interrupted(error)
