"""Write blocks of log files; `hoodie.io.log.log_file_reader` describes their format.

Hudi: org.apache.hudi.common.table.log.HoodieLogFormatWriter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from hoodie.io.log.log_block import AVRO_CONTENT_VERSION, HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_file_reader import MAGIC

_FORMAT_VERSION = 1
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


def encode_log_block(block_type: HoodieLogBlockType, headers: Mapping[int, str], content: bytes) -> bytes:
    """One whole block; a log file is a sequence of them.

    Args:
        block_type: The kind of its content.
        headers: `HeaderMetadataType` -> text.
        content: The bytes between headers and footers.
    """
    parts = [_INT.pack(_FORMAT_VERSION), _INT.pack(block_type), _INT.pack(len(headers))]
    for key, text in headers.items():
        encoded = text.encode("utf-8")
        parts += [_INT.pack(key), _INT.pack(len(encoded)), encoded]
    parts += [_LONG.pack(len(content)), content, _INT.pack(0)]
    size = sum(map(len, parts)) + _LONG.size
    return b"".join([MAGIC, _LONG.pack(size), *parts, _LONG.pack(size + len(MAGIC))])


def encode_avro_data_block(schema: str, datums: Sequence[bytes], headers: Mapping[int, str] | None = None) -> bytes:
    """A block of Avro records.

    Args:
        schema: Their Avro schema, as JSON.
        datums: The encoded records.
        headers: Further headers, such as the instant time.
    """
    parts = [_INT.pack(AVRO_CONTENT_VERSION), _INT.pack(len(datums))]
    for datum in datums:
        parts += [_INT.pack(len(datum)), datum]
    all_headers = {**(headers or {}), HeaderMetadataType.SCHEMA: schema}
    return encode_log_block(HoodieLogBlockType.AVRO_DATA, all_headers, b"".join(parts))
