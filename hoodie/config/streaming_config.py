"""Properties of streams that write a table: their identity, and what happens to a batch that fails."""

from __future__ import annotations

from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field, text

IDENTIFIER_KEY: Final = "hoodie.datasource.write.streaming.checkpoint.identifier"


@attrs.frozen(kw_only=True, repr=False)
class HoodieStreamingConfig(PropertyGroup):
    """The stream that writes a table.

    These properties concern `hoodie.spark.foreach_batch_writer` and ``writeStream.format("hoodie")``; other writes
    ignore them.

    Hudi: org.apache.hudi.DataSourceWriteOptions (``STREAMING_*``).
    """

    identifier: str = property_field(IDENTIFIER_KEY, text(), "default_single_writer")
    """The name of the stream in the table. Each commit of the stream stores it with the number of the batch, so that a
    repeated batch is recognised. Queries that write one table need different names. A query keeps its name for life."""
    ignore_failed_batch: bool = property_field(
        "hoodie.datasource.write.streaming.ignore.failed.batch", boolean(), False
    )
    """Give up a batch whose write has failed, and continue with the next one. The rows of that batch are lost; an error
    in the log names it. Hudi does not repeat such a batch; hoodie repeats it first, as without this property."""
    retry_count: int = property_field(
        "hoodie.datasource.write.streaming.retry.count", integer(minimum=0, maximum=1000), 3
    )
    """How many times the write of a batch is tried, the first time included. Errors that would come again, such as a
    missing column, are not repeated."""
    retry_interval_ms: int = property_field(
        "hoodie.datasource.write.streaming.retry.interval.ms", integer(minimum=0), 2000
    )
    """The pause before a batch is tried again, in milliseconds; it doubles each time."""
