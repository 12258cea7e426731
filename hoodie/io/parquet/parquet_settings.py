"""How base files are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from hoodie.common.config.storage_config import HoodieStorageConfig

__all__ = ["ParquetSettings"]


@attrs.frozen(kw_only=True)
class ParquetSettings:
    """How base files are encoded.

    Attributes:
        compression: Codec, in pyarrow's spelling: none, snappy, gzip or zstd.
        row_group_bytes: Arrow bytes of a row group, before it is encoded.
        page_bytes: Size of a page, and of a dictionary.
        dictionary_enabled: Whether columns that repeat are stored as dictionaries.
    """

    compression: str = "snappy"
    row_group_bytes: int = 120 * 1024 * 1024
    page_bytes: int = 1024 * 1024
    dictionary_enabled: bool = True

    @classmethod
    def from_config(cls, config: HoodieStorageConfig) -> ParquetSettings:
        """The settings that a write's configuration asks for."""
        return cls(
            compression=str(config.parquet_compression_codec),
            row_group_bytes=config.parquet_block_size,
            page_bytes=config.parquet_page_size,
            dictionary_enabled=config.parquet_dictionary_enabled,
        )

    def writer_options(self, dictionary_columns: Sequence[str]) -> dict[str, Any]:
        """What pyarrow's writer is told.

        Args:
            dictionary_columns: Paths of the leaf columns that are stored as dictionaries, where these are enabled.
        """
        return {
            "version": "1.0",
            "data_page_version": "1.0",
            "compression": self.compression,
            "use_dictionary": list(dictionary_columns) if self.dictionary_enabled else False,
            "data_page_size": self.page_bytes,
            "dictionary_pagesize_limit": self.page_bytes,
            "coerce_timestamps": "us",
            "store_schema": False,
            "store_decimal_as_integer": False,
            "write_statistics": True,
        }
