"""Properties of the files that are written."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field

__all__ = ["HoodieStorageConfig", "ParquetCompression"]

_NOT_EVERYWHERE = "not every engine that reads Hudi tables can read it"


class ParquetCompression(StrEnum):
    """A codec of Parquet pages; the value is pyarrow's name of it."""

    NONE = "none"
    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"


@attrs.frozen(kw_only=True, repr=False)
class HoodieStorageConfig(PropertyGroup):
    """Size and encoding of base files.

    Hudi: org.apache.hudi.common.config.HoodieStorageConfig.
    """

    parquet_max_file_size: int = property_field(
        "hoodie.parquet.max.file.size",
        integer(minimum=1),
        120 * 1024 * 1024,
        "Size that base files are planned to grow to, in bytes. An estimate made from the average size of a record: "
        "files come out a little smaller or larger.",
    )
    parquet_block_size: int = property_field(
        "hoodie.parquet.block.size",
        integer(minimum=1),
        120 * 1024 * 1024,
        "Size of a row group, in bytes. Readers skip and hold whole row groups.",
    )
    parquet_page_size: int = property_field(
        "hoodie.parquet.page.size", integer(minimum=1, maximum=2**31 - 1), 1024 * 1024, "Size of a page, in bytes."
    )
    parquet_compression_codec: ParquetCompression = property_field(
        "hoodie.parquet.compression.codec",
        choice(
            ParquetCompression,
            aliases={"UNCOMPRESSED": ParquetCompression.NONE},
            unsupported=dict.fromkeys(("LZO", "BROTLI", "LZ4", "LZ4_RAW"), _NOT_EVERYWHERE),
        ),
        ParquetCompression.SNAPPY,
        "Codec of base files. Hudi's own default is gzip, which costs about twenty times the time of snappy or zstd "
        "for files that are hardly smaller. `uncompressed` is the same as `none`. Every Hudi reader reads all of them.",
    )
    parquet_dictionary_enabled: bool = property_field(
        "hoodie.parquet.dictionary.enabled",
        boolean(),
        True,
        "Store columns of few distinct values as dictionaries.",
    )
