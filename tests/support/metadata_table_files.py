"""The HFiles of metadata tables that real Hudi wrote, read with as little code as that takes.

It is not the codec that hoodie reads HFiles with, so that tests of records do not lean on it: it reads data blocks in
their order, and believes what they say.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks

_BLOCK = struct.Struct(">iiqbii")
_ENTRY = struct.Struct(">iih")
_GZIP = 1
_FILE_ID = re.compile(r"\.?(?P<file_id>.*?)_(?:[^_]*_)?[0-9]+\.(?:hfile|log)")
_VERSION = re.compile(r"^hoodie\.table\.version=(\d+)", re.MULTILINE)


@attrs.frozen(eq=False)
class StoredRecords:
    """The records of one HFile: a base file, or a block of a log file.

    Attributes:
        table: The folder of the table that the metadata table belongs to.
        partition: The partition of the metadata table.
        path: The file.
        instant_time: The instant of the log block; None of a base file.
        schema: The schema of the values.
        keys: Keys, as text.
        values: Values.
    """

    table: Path
    partition: str
    path: Path
    instant_time: str | None
    schema: str
    keys: pa.Array
    values: pa.Array

    @property
    def file_id(self) -> str:
        """The file group."""
        match = _FILE_ID.match(self.path.name)
        assert match is not None
        return match["file_id"]

    @property
    def table_version(self) -> int:
        """The version of the table."""
        match = _VERSION.search((self.table / ".hoodie/hoodie.properties").read_text())
        assert match is not None
        return int(match[1])


def stored_records(*roots: Path) -> Iterator[StoredRecords]:
    """The records of all metadata tables below some folders, file by file; HFiles without records are left out."""
    for root in roots:
        for folder in sorted(root.rglob(".hoodie/metadata")):
            for path in sorted(folder.glob("*/*")):
                if path.suffix != ".crc" and path.parent.name != ".hoodie":
                    yield from _records_of(folder, path)


def _records_of(folder: Path, path: Path) -> Iterator[StoredRecords]:
    if path.suffix == ".hfile":
        keys, values, info = read_hfile(path.read_bytes())
        found = [(None, info[b"schema"].decode(), keys, values)]
    elif ".log." in path.name:
        try:
            blocks = list(read_log_blocks(path.read_bytes(), str(path)))
        except HoodieCorruptedDataException:
            return
        hfiles = [block for block in blocks if block.block_type is HoodieLogBlockType.HFILE_DATA]
        found = [(block.instant_time, str(block.schema), *read_hfile(block.content)[:2]) for block in hfiles]
    else:
        return
    for instant_time, schema, keys, values in found:
        if keys:
            yield StoredRecords(
                folder.parents[1], path.parent.name, path, instant_time, schema,
                pa.array([key.decode() for key in keys], pa.string()), pa.array(values, pa.binary()),
            )  # fmt: skip


def read_hfile(data: bytes) -> tuple[list[bytes], list[bytes], dict[bytes, bytes]]:
    """Keys, values and file info of an HFile."""
    trailer = read_hfile_trailer(data)
    is_gzip = trailer.get(12) == _GZIP
    keys: list[bytes] = []
    values: list[bytes] = []
    position = 0
    while position < trailer[2]:
        magic, content, position = _block(data, position, is_gzip=is_gzip)
        place = 0
        while magic == b"DATABLK*" and place < len(content):
            key_size, value_size, row_size = _ENTRY.unpack_from(content, place)
            start = place + _ENTRY.size
            keys.append(content[start : start + row_size])
            place += 8 + key_size
            values.append(content[place : place + value_size])
            place += value_size + 1
    content = _block(data, trailer[1], is_gzip=is_gzip)[1][4:]
    size, start = _varint(content, 0)
    pairs = [dict(_protobuf(pair)) for _, pair in _protobuf(content[start : start + size])]
    return keys, values, {pair[1]: pair[2] for pair in pairs}


def read_hfile_trailer(data: bytes) -> dict[int, int | bytes]:
    """The fields of the trailer of an HFile by their numbers."""
    size, start = _varint(data, len(data) - 4096 + 8)
    return dict(_protobuf(data[start : start + size]))


def _block(data: bytes, position: int, *, is_gzip: bool) -> tuple[bytes, bytes, int]:
    stored, _, _, _, _, with_header = _BLOCK.unpack_from(data, position + 8)
    content = data[position + 33 : position + with_header]
    return data[position : position + 8], zlib.decompress(content, 31) if is_gzip else content, position + 33 + stored


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _protobuf(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        value, position = _varint(data, position)
        if tag & 7:
            yield tag >> 3, data[position : position + value]
            position += value
        else:
            yield tag >> 3, value
