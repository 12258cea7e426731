"""Properties of how often calls of an object store are made again."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field
from hoodie.storage.retry import RetryPolicy

__all__ = ["StorageRetryConfig"]


@attrs.frozen(kw_only=True, repr=False)
class StorageRetryConfig(PropertyGroup):
    """Repetition of calls of an object store that failed for a passing reason.

    Hudi: org.apache.hudi.common.fs.FileSystemRetryConfig. Differs: on from the start, and more often, for no other
    layer below repeats calls; which failures pass is known, so no exceptions are named.
    """

    retry_enable: bool = property_field(
        "hoodie.filesystem.operation.retry.enable",
        boolean(),
        True,
        "Repeat calls of S3, Google Cloud Storage and Azure that fail for a passing reason: no connection, a time-out, "
        "408, 429, 5xx. Hudi's default is false; there the connector repeats calls.",
    )
    max_retry_numbers: int = property_field(
        "hoodie.filesystem.operation.retry.max_numbers",
        integer(minimum=0, maximum=1000),
        10,
        "How often a call is repeated. Hudi's default is 4.",
    )
    initial_retry_interval_ms: int = property_field(
        "hoodie.filesystem.operation.retry.initial_interval_ms",
        integer(minimum=0),
        100,
        "Longest pause before the first repetition; it doubles with each one. A random part of up to half of each "
        "pause is left out.",
    )
    max_retry_interval_ms: int = property_field(
        "hoodie.filesystem.operation.retry.max_interval_ms",
        integer(minimum=0),
        2000,
        "Longest pause before any repetition.",
    )

    @property
    def policy(self) -> RetryPolicy:
        """What a storage is opened with."""
        return RetryPolicy(
            max_retries=self.max_retry_numbers if self.retry_enable else 0,
            initial_interval_ms=self.initial_retry_interval_ms,
            max_interval_ms=self.max_retry_interval_ms,
        )
