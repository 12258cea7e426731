"""Properties that decide how records are packed into files."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, decimal, integer, property_field


@attrs.frozen(kw_only=True, repr=False)
class HoodieCompactionConfig(PropertyGroup):
    """Small files, and the number of records in a new file.

    Hudi: org.apache.hudi.config.HoodieCompactionConfig.
    """

    parquet_small_file_limit: int = property_field("hoodie.parquet.small.file.limit", integer(), 100 * 1024 * 1024)
    """Inserts first fill base files that are smaller than this, in bytes, up to `hoodie.parquet.max.file.size`. With 0
    or less, inserts always go to new files."""
    copy_on_write_insert_split_size: int = property_field(
        "hoodie.copyonwrite.insert.split.size", integer(minimum=1, maximum=2**31 - 1), 500_000
    )
    """The number of records in a new file, when `hoodie.copyonwrite.insert.auto.split` is false."""
    copy_on_write_insert_auto_split: bool = property_field("hoodie.copyonwrite.insert.auto.split", boolean(), True)
    """Compute the number of records in a new file from the average record size in earlier commits."""
    copy_on_write_record_size_estimate: int = property_field(
        "hoodie.copyonwrite.record.size.estimate", integer(minimum=1, maximum=2**31 - 1), 1024
    )
    """The size of a record in a file, in bytes, until a commit gives the real size."""
    record_size_estimation_threshold: float = property_field(
        "hoodie.record.size.estimation.threshold", decimal(above=0.0), 1.0
    )
    """The record size is computed from the newest commit that wrote more bytes than this share of
    `hoodie.parquet.small.file.limit`."""
