"""Properties of base files."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field

_NOT_EVERYWHERE = "not every engine that reads Hudi tables can read it"


class ParquetCompression(StrEnum):
    """A codec of Parquet pages; the value is pyarrow's name for it."""

    NONE = "none"
    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"


class LogDataBlockFormat(StrEnum):
    """The storage format of rows in a log block."""

    AVRO = "avro"
    PARQUET = "parquet"


@attrs.frozen(kw_only=True, repr=False)
class HoodieStorageConfig(PropertyGroup):
    """Size and encoding of base files and log files.

    Hudi: org.apache.hudi.common.config.HoodieStorageConfig.
    """

    parquet_max_file_size: int = property_field("hoodie.parquet.max.file.size", integer(minimum=1), 120 * 1024 * 1024)
    """The size up to which base files are planned to grow, in bytes. It is an estimate from the average record size:
    files come out a little smaller or larger."""
    parquet_block_size: int = property_field("hoodie.parquet.block.size", integer(minimum=1), 120 * 1024 * 1024)
    """The size of a row group, in bytes. Readers skip and hold whole row groups."""
    parquet_page_size: int = property_field(
        "hoodie.parquet.page.size", integer(minimum=1, maximum=2**31 - 1), 1024 * 1024
    )
    """The size of a page, in bytes."""
    parquet_compression_codec: ParquetCompression = property_field(
        "hoodie.parquet.compression.codec",
        choice(
            ParquetCompression,
            aliases={"UNCOMPRESSED": ParquetCompression.NONE},
            unsupported=dict.fromkeys(("LZO", "BROTLI", "LZ4", "LZ4_RAW"), _NOT_EVERYWHERE),
        ),
        ParquetCompression.SNAPPY,
    )
    """The codec of base files. Hudi's own default is gzip, which takes about twenty times as long as snappy or zstd for
    files that are hardly smaller. `uncompressed` is the same as `none`. Every Hudi reader reads all of them."""
    parquet_dictionary_enabled: bool = property_field("hoodie.parquet.dictionary.enabled", boolean(), True)
    """Store columns with few distinct values as dictionaries."""
    logfile_data_block_format: LogDataBlockFormat = property_field(
        "hoodie.logfile.data.block.format",
        choice(LogDataBlockFormat, unsupported={"HFILE": "it is for metadata tables"}),
        LogDataBlockFormat.AVRO,
    )
    """How rows are stored in the log files of merge-on-read tables. Parquet blocks are smaller, and faster to write and
    to read; Trino cannot read them, and Hudi 0.15 fails if a column was widened since they were written."""
    logfile_max_size: int = property_field("hoodie.logfile.max.size", integer(minimum=1), 1024 * 1024 * 1024)
    """When a log file has reached this size, in bytes, further records of the same write go to another one."""
    logfile_data_block_max_size: int = property_field(
        "hoodie.logfile.data.block.max.size", integer(minimum=1, maximum=2**31 - 1), 256 * 1024 * 1024
    )
    """The size of a block in a log file, in bytes. Readers hold one block in memory."""
