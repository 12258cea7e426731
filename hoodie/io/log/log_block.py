"""Blocks of log files. Archived timelines are log files, too.

Hudi: org.apache.hudi.common.table.log.block.HoodieLogBlock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import attrs


class HoodieLogBlockType(IntEnum):
    """The type of a block; the value is the one on storage. CORRUPT marks bytes that are not a complete block."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderMetadataType(IntEnum):
    """The key of a header of a block; the value is the one on storage."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@attrs.frozen
class LogBlockHead:
    """A block without its content.

    Attributes:
        block_type: The kind of its content.
        headers: `HeaderMetadataType` -> text; keys that hoodie does not know stay as they are.
        path: The log file.
        offset_bytes: The offset of the block in the file.
    """

    block_type: HoodieLogBlockType
    headers: Mapping[int, str]
    path: str
    offset_bytes: int

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block; None in an archived timeline."""
        return self.headers.get(HeaderMetadataType.INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """The Avro schema of its records."""
        return self.headers.get(HeaderMetadataType.SCHEMA)

    @property
    def source(self) -> str:
        """The block's place and file, for messages."""
        return f"the block at byte {self.offset_bytes} of {self.path}"


@attrs.frozen
class HoodieLogBlock(LogBlockHead):
    """One block of a log file.

    Attributes:
        content: The bytes between headers and footers; all bytes of a CORRUPT block.
    """

    content: bytes = attrs.field(repr=False)


@attrs.frozen
class StoredLogBlock(LogBlockHead):
    """A block whose content may still be on storage.

    Attributes:
        content_offset: The offset of the content in the file.
        content_bytes: The length of the content.
        content: The content of a small block, which was read together with its headers; otherwise None.
    """

    content_offset: int
    content_bytes: int
    content: bytes | None = attrs.field(default=None, repr=False)

    def loaded(self, content: bytes) -> HoodieLogBlock:
        """The block with its content."""
        return HoodieLogBlock(self.block_type, self.headers, self.path, self.offset_bytes, content)
