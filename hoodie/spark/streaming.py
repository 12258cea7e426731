"""Write the batches of a Structured Streaming query to a table, each exactly once.

Hudi: org.apache.hudi.HoodieStreamingSink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from pyspark.sql import DataFrame

from hoodie.client.stream_writer import StreamWriter, check_stream_config
from hoodie.client.streaming_checkpoint import StreamBatch
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.spark.spark_compatibility import is_frame, streaming_query_id, tells_streaming_query, was_interrupted
from hoodie.spark.writer import config_of_options, write_frame
from hoodie.storage.storage_options import StorageOptions


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
        options: Like those of `hoodie.spark.write`, and these:
            ``hoodie.datasource.write.streaming.checkpoint.identifier`` names the query in the table. Queries that write
            one table need different names. ``hoodie.datasource.write.streaming.retry.count`` (3) and
            ``.retry.interval.ms`` (2000, doubled each time) set how often and when a failed batch is tried again.
            ``.ignore.failed.batch`` (false) gives up a batch that still fails, and loses its rows.
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
    config = config_of_options(base_path, options, storage_options)
    check_callback(on_progress)
    check_validators(validators)
    check_stream_config(config)
    return _ForeachBatchWriter(
        config, on_progress, tuple(validators), StreamWriter(config, was_interrupted)
    ).write_batch


@attrs.frozen(eq=False, repr=False)
class _ForeachBatchWriter:
    """The object whose method `foreach_batch_writer` returns. Picklable: Spark Connect runs it on the server's side.

    Args:
        config: The options.
        on_progress: See `foreach_batch_writer`.
        validators: See `foreach_batch_writer`.
        writer: Writes each batch once.
    """

    _config: HoodieWriteConfig
    _on_progress: ProgressCallback | None
    _validators: Sequence[Validator | HoodiePreCommitValidator]
    _writer: StreamWriter

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
        self._writer.write(batch, partial(self._write, batch_df, batch), repeats_older=repeats_older)

    def _write(self, batch_df: DataFrame, batch: StreamBatch) -> HoodieWriteResult | None:
        config = attrs.evolve(self._config, commit_metadata=batch.extra_metadata)
        return write_frame(batch_df, config, "append", self._on_progress, self._validators)
