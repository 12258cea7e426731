"""Write the batches of a stream to a table, each exactly once: what all writers of streams share.

Hudi: org.apache.hudi.HoodieStreamingSink.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from hoodie.client.chosen_operation import operation_to_do
from hoodie.client.open_or_create import find_writable_table
from hoodie.client.streaming_checkpoint import SINK_CHECKPOINT_KEY, StreamBatch, StreamingCheckpoint
from hoodie.client.write_result import HoodieWriteResult
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
from hoodie.storage.storage_path import normalise_path

logger = logging.getLogger(__name__)

_MISTAKES = (HoodieConfigException, HoodieNotSupportedException, InvalidTableException, TableNotFoundException)
"""Errors of the call, not of the batch: they are never repeated, and no batch is given up because of them."""
_OF_THE_ROWS = (HoodieKeyException, HoodieSchemaException, HoodieValidationException)
"""Errors that the same rows would meet again."""

_writing: dict[str, threading.Lock] = {}
"""Table -> the lock of the queries of this process that write it, each as the only writer."""


def check_stream_config(config: HoodieWriteConfig) -> str:
    """Refuse options that make no sense for a stream.

    Args:
        config: The write's configuration.

    Returns:
        The operation, as `operation_to_do`.

    Raises:
        HoodieConfigException: Options contradict each other; or several writers are announced
            (``hoodie.write.concurrency.mode``) and the query has no name.
    """
    operation = operation_to_do(None, config)
    if SINK_CHECKPOINT_KEY in config.properties:
        raise HoodieConfigException(f"{SINK_CHECKPOINT_KEY} is set for each batch: leave it out of the options")
    if not config.write.auto_commit:
        raise HoodieConfigException("hoodie.auto.commit = false: a stream commits each batch, so leave it out")
    if config.write.has_several_writers and IDENTIFIER_KEY not in config.properties:
        raise HoodieConfigException(
            f"hoodie.write.concurrency.mode = {config.write.concurrency_mode} announces several writers, so this query "
            f"needs a name that no other query of the table has: give {IDENTIFIER_KEY}"
        )
    return operation


@attrs.define(eq=False, repr=False, slots=False)
class StreamWriter:
    """Writes batches unless the table holds them, and tries batches that fail again. Picklable.

    Args:
        config: The write's configuration, checked by `check_stream_config`.
        was_interrupted: Whether an error comes from a query that somebody stops.
    """

    _config: HoodieWriteConfig
    _was_interrupted: Callable[[BaseException], bool]
    _has_begun: bool = attrs.field(init=False, default=False)
    _written: StreamBatch | None = attrs.field(init=False, default=None)
    """The newest batch that this object has committed."""

    def write(
        self, batch: StreamBatch, write: Callable[[], HoodieWriteResult | None], *, repeats_older: bool = False
    ) -> None:
        """Write a batch, unless the table holds it; several times if it fails. The table is looked at before each time.

        Args:
            batch: The batch.
            write: Writes its rows with its extra metadata; can be called again after an error.
            repeats_older: See `StreamingCheckpoint.is_committed`.

        Raises:
            HoodieConfigException: The batch is not of this query; see `StreamingCheckpoint.is_committed`.
            HoodieCommitException: The table has lost batches that this query wrote.
            HoodieException: The write failed.
        """
        with self._alone():
            self._write_until_done(batch, write, repeats_older)

    def _write_until_done(
        self, batch: StreamBatch, write: Callable[[], HoodieWriteResult | None], repeats_older: bool
    ) -> None:
        streaming = self._config.streaming
        attempts = max(1, streaming.retry_count)
        for attempt in range(1, attempts + 1):
            if self._is_committed(batch, repeats_older):
                return
            try:
                self._write(batch, write)
                return
            except Exception as error:
                if self._ends_the_query(error):
                    raise
                if attempt == attempts or isinstance(error, _OF_THE_ROWS):
                    if not streaming.ignore_failed_batch:
                        raise
                    failure = error
                    break
                pause_s = streaming.retry_interval_ms * 2 ** (attempt - 1) / 1000
                logger.warning(
                    "batch %d of the stream '%s' to %s failed, attempt %d of %d; it is tried again in %s s: %s",
                    batch.batch_id, batch.identifier, self._config.base_path, attempt, attempts, pause_s, error,
                )  # fmt: skip
            time.sleep(pause_s)
        logger.error(
            "batch %d of the stream '%s' to %s failed and is given up "
            "(hoodie.datasource.write.streaming.ignore.failed.batch): its rows are lost",
            batch.batch_id, batch.identifier, self._config.base_path, exc_info=failure,
        )  # fmt: skip

    def _write(self, batch: StreamBatch, write: Callable[[], HoodieWriteResult | None]) -> None:
        result = write()
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
                f"batch {batch.batch_id} of the stream '{batch.identifier}' was not written: {self._config.base_path} "
                f"holds {shown}, and this query has written batch {self._written.batch_id}. The table was restored, or "
                "deleted and made anew, so rows of this stream are gone. To continue without them, start the query "
                "again"
            )
        is_committed = checkpoint.is_committed(batch, repeats_older=repeats_older)
        if is_committed:
            logger.log(
                logging.INFO if held == batch.batch_id else logging.WARNING,
                "batch %d of the stream '%s' is not written again: %s holds %s (commit %s)",
                batch.batch_id, batch.identifier, self._config.base_path, shown, checkpoint.instant_time,
            )  # fmt: skip
        elif not self._has_begun and batch.batch_id > held + 1:
            logger.warning(
                "the stream '%s' begins to write %s with batch %d, and the table holds %s: the batches between were "
                "empty or given up, or written without this function or under another name, or the table was restored",
                batch.identifier, self._config.base_path, batch.batch_id, shown,
            )  # fmt: skip
        self._has_begun = True
        return is_committed

    def _load_checkpoint(self, identifier: str) -> StreamingCheckpoint:
        table = find_writable_table(self._config)
        if table is None:
            return StreamingCheckpoint(self._config.base_path, identifier)
        return StreamingCheckpoint.load(table, identifier)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let queries of this process that are each configured as the only writer write one after the other."""
        if self._config.write.has_several_writers:
            yield
            return
        with _writing.setdefault(normalise_path(self._config.base_path), threading.Lock()):
            yield

    def _ends_the_query(self, error: Exception) -> bool:
        """Whether a batch must neither be tried again nor be given up because of an error.

        A conflict that is not safe to retry may have been found after the commit, and its message must be seen. A query
        that is being stopped interrupts its batch, which its next run repeats.
        """
        if isinstance(error, HoodieWriteConflictException):
            return not error.is_retry_safe
        return isinstance(error, _MISTAKES) or self._was_interrupted(error)
