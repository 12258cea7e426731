"""HFile blocks: the records of metadata tables as keys and encoded values. The content of a block is a whole HFile.

Hudi: org.apache.hudi.common.table.log.block.HoodieHFileDataBlock.
"""

from __future__ import annotations

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType


def open_hfile_block(block: HoodieLogBlock) -> HFileReader:
    """A reader of the records of an HFile block.

    Args:
        block: A block of type HFILE_DATA.

    Raises:
        HoodieCorruptedDataException: It is of another type, or damaged.
        HoodieNotSupportedException: See `HFileReader`.
    """
    if block.block_type is not HoodieLogBlockType.HFILE_DATA:
        raise HoodieCorruptedDataException(f"Cannot read an HFile in {block.source}: it holds {block.block_type.name}")
    return HFileReader.of_bytes(block.content, f"in {block.source}")
