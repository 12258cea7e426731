"""Properties of retries: how often failed calls of an object store are repeated."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field
from hoodie.storage.retry import RetryPolicy


@attrs.frozen(kw_only=True, repr=False)
class StorageRetryConfig(PropertyGroup):
    """Retries of object store calls that failed for a temporary reason.

    Hudi: org.apache.hudi.common.fs.FileSystemRetryConfig. Differs: on by default, and with more retries, because no
    layer below repeats calls; exceptions cannot be named, because hoodie knows which failures are temporary.
    """

    retry_enable: bool = property_field("hoodie.filesystem.operation.retry.enable", boolean(), True)
    """Repeat calls of S3, Google Cloud Storage and Azure that fail for a temporary reason: no connection, a time-out,
    408, 429, 5xx. Hudi's default is false, because its connector repeats calls."""
    max_retry_numbers: int = property_field(
        "hoodie.filesystem.operation.retry.max_numbers", integer(minimum=0, maximum=1000), 10
    )
    """The number of retries of a call. Hudi's default is 4."""
    initial_retry_interval_ms: int = property_field(
        "hoodie.filesystem.operation.retry.initial_interval_ms", integer(minimum=0), 100
    )
    """The longest pause before the first retry, in milliseconds; it doubles with each retry. Each pause is shortened by
    a random part of up to half of it."""
    max_retry_interval_ms: int = property_field(
        "hoodie.filesystem.operation.retry.max_interval_ms", integer(minimum=0), 2000
    )
    """The longest pause before any retry, in milliseconds."""

    @property
    def policy(self) -> RetryPolicy:
        """The policy that a storage is opened with."""
        return RetryPolicy(
            max_retries=self.max_retry_numbers if self.retry_enable else 0,
            initial_interval_ms=self.initial_retry_interval_ms,
            max_interval_ms=self.max_retry_interval_ms,
        )
