"""Encoders of log blocks; see `hoodie.io.log.log_file_reader` for the format.

Hudi: org.apache.hudi.common.table.log.HoodieLogFormatWriter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hoodie.avro.columnar_block import BLOCK_VERSION
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_file_reader import MAGIC
from hoodie.io.log.record_positions import encode_positions

_FORMAT_VERSION = 1
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


def encode_log_block(block_type: HoodieLogBlockType, headers: Mapping[int, str], content: bytes) -> bytes:
    """Encode a whole block; a log file is a sequence of blocks.

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


def data_headers(
    instant_time: str,
    avro_schema: str,
    positions: npt.NDArray[np.int64] | None,
    positions_of: str | None,
    compacted_instants: Sequence[str] = (),
) -> dict[int, str]:
    """The headers of a data or delete block.

    Args:
        instant_time: The delta commit that writes the block.
        avro_schema: The schema of the table's rows as JSON, meta columns included.
        positions: The positions of its records in the base file, ascending; None to leave them out.
        positions_of: The instant of that base file.
        compacted_instants: The instants whose blocks this block of a log compaction replaces, ascending.
    """
    headers: dict[int, str] = {HeaderMetadataType.INSTANT_TIME: instant_time, HeaderMetadataType.SCHEMA: avro_schema}
    if positions is not None and positions_of is not None:
        headers[HeaderMetadataType.RECORD_POSITIONS] = encode_positions(positions)
        headers[HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = positions_of
    if compacted_instants:
        headers[HeaderMetadataType.COMPACTED_BLOCK_TIMES] = ",".join(compacted_instants)
    return headers


def encode_rollback_block(instant_time: str, target_instant_time: str) -> bytes:
    """The command block by which a rollback cancels all blocks of an instant before it (timeline layout 1).

    Args:
        instant_time: The rollback.
        target_instant_time: The instant that is rolled back.
    """
    headers: dict[int, str] = {
        HeaderMetadataType.COMMAND_BLOCK_TYPE: "0",
        HeaderMetadataType.INSTANT_TIME: instant_time,
        HeaderMetadataType.TARGET_INSTANT_TIME: target_instant_time,
    }
    return encode_log_block(HoodieLogBlockType.COMMAND, headers, b"")


def encode_avro_data_block(schema: str, datums: Sequence[bytes], headers: Mapping[int, str] | None = None) -> bytes:
    """Encode a block of Avro records.

    Args:
        schema: The Avro schema of the records, as JSON.
        datums: The encoded records.
        headers: Further headers, such as the instant time.
    """
    parts = [_INT.pack(BLOCK_VERSION), _INT.pack(len(datums))]
    for datum in datums:
        parts += [_INT.pack(len(datum)), datum]
    all_headers = {**(headers or {}), HeaderMetadataType.SCHEMA: schema}
    return encode_log_block(HoodieLogBlockType.AVRO_DATA, all_headers, b"".join(parts))
