"""HFile blocks, written; see `hoodie.io.log.hfile_block`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.io.hfile.block_codec import HFileCompression
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.io.log.log_block import HoodieLogBlockType
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
