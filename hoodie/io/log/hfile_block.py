"""HFile blocks: the records of metadata tables as keys and encoded values. The content of a block is a whole HFile.

Hudi: org.apache.hudi.common.table.log.block.HoodieHFileDataBlock.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.block_codec import HFileCompression
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import data_headers, encode_log_block


def encode_hfile_block(
    keys: pa.StringArray,
    values: pa.BinaryArray,
    avro_schema: str,
    instant_time: str,
    *,
    compression: HFileCompression = HFileCompression.GZ,
    level: int = -1,
    compacted_instants: Sequence[str] = (),
) -> bytes:
    """Encode records as a whole HFile block; a log file is a sequence of blocks.

    Args:
        keys: The record keys, see `hoodie.io.hfile.hfile_writer.HFileWriter.write`.
        values: The Avro binary of the record of each key, with the meta fields.
        avro_schema: The schema of the records as JSON, meta fields included.
        instant_time: The delta commit that writes them.
        compression: GZ or NONE.
        level: See `hoodie.io.hfile.block_codec.compress`; -1 is the default, like Java's.
        compacted_instants: See `hoodie.io.log.log_block_writer.data_headers`.

    Raises:
        HoodieKeyException: The keys are not distinct, not in order, or cannot be stored.
        HoodieSchemaException: The arrays have different lengths or wrong types.
    """
    source = f"an HFile block of the instant {instant_time}"
    content = encode_hfile(keys, values, avro_schema, source, compression=compression, level=level)
    headers = data_headers(instant_time, avro_schema, None, None, compacted_instants)
    return encode_log_block(HoodieLogBlockType.HFILE_DATA, headers, content)


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
