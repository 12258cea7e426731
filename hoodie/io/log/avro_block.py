"""The records in Avro blocks of log files.

Hudi: org.apache.hudi.common.table.log.block.HoodieAvroDataBlock.
"""

from __future__ import annotations

from typing import Any

from hoodie.avro.columnar_block import record_places
from hoodie.avro.timeline_metadata import decode_datums
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType


def avro_datums(block: HoodieLogBlock) -> list[bytes]:
    """The encoded records of an Avro block.

    Raises:
        HoodieCorruptedDataException: The block's inner lengths contradict each other.
        HoodieNotSupportedException: The block has an old format of Hudi.
    """
    content = block.content
    if block.block_type is not HoodieLogBlockType.AVRO_DATA:
        raise HoodieCorruptedDataException(f"Cannot read Avro records of {block.source}: it holds none")
    starts, ends = record_places(content, block.source)
    return [content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def avro_records(block: HoodieLogBlock) -> list[dict[str, Any]]:
    """The records of an Avro block, each as field -> value.

    Args:
        block: A block of type AVRO_DATA.

    Raises:
        HoodieCorruptedDataException: The block or its schema is damaged.
        HoodieNotSupportedException: The block has an old format of Hudi.
    """
    if block.schema is None:
        raise HoodieCorruptedDataException(f"Cannot read Avro records of {block.source}: it has no schema")
    return decode_datums(block.schema, avro_datums(block), block.source)
