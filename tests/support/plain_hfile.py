"""HFiles written entry by entry, as the rule of the format says, also in forms that hoodie only reads."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping, Sequence

__all__ = ["crc32c_bit_by_bit", "gzip_of_java", "plain_block", "plain_hfile", "stored_row"]

CODECS = {"GZ": 1, "NONE": 2}
COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
CRC_TABLE = []
for start in range(256):
    value = start
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC_TABLE.append(value)


def crc32c_bit_by_bit(data: bytes) -> int:
    """The CRC-32C of some bytes."""
    register = 0xFFFFFFFF
    for byte in data:
        register = CRC_TABLE[(register ^ byte) & 0xFF] ^ register >> 8
    return register ^ 0xFFFFFFFF


def gzip_of_java(data: bytes) -> bytes:
    """A gzip stream as Java makes it."""
    compressor = zlib.compressobj(-1, zlib.DEFLATED, 31)
    stream = compressor.compress(data) + compressor.flush()
    return stream[:9] + b"\0" + stream[10:]


def plain_block(magic: bytes, content: bytes, previous: int, codec: str = "GZ", checksum: int = 2) -> bytes:
    """A block with checksums of a kind: 0 none, 1 CRC-32, 2 CRC-32C."""
    data = gzip_of_java(content) if codec == "GZ" else content
    end = 33 + len(data)
    chunks = -(-end // 16384)
    header = struct.pack(">8siiqbii", magic, len(data) + 4 * chunks, len(content), previous, checksum, 16384, end)
    whole = header + data
    for first in range(0, end, 16384):
        chunk = whole[first : min(first + 16384, end)]
        data += struct.pack(">I", (0, zlib.crc32(chunk), crc32c_bit_by_bit(chunk))[checksum])
    return header + data


def stored_row(row: bytes, end: bytes = b"\0\x7f" + b"\xff" * 7 + b"\x04") -> bytes:
    """A key as HBase stores it."""
    return struct.pack(">h", len(row)) + row + end


def hadoop_number(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    length = (number.bit_length() + 7) // 8
    return struct.pack("b", -112 - length) + number.to_bytes(length, "big")


def protobuf_number(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number % 128 + 128]), number // 128
    return out + bytes([number])


def field(key: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return protobuf_number(key << 3) + protobuf_number(value)
    return protobuf_number(key << 3 | 2) + protobuf_number(len(value)) + value


def least_key_between(left: bytes, right: bytes) -> bytes:
    """The shortest row above one and at most another, the smallest of these above."""
    for length in range(1, len(right) + 1):
        if right[:length] > left:
            above = left[: length - 1] + bytes([left[length - 1] + 1]) if length <= len(left) else right[:length]
            return min(above, right[:length])
    raise ValueError("the rows are not in order")


def with_zero_checksums(data: bytes, blocks: Sequence[int] | None = None) -> bytes:
    """A file whose blocks hold zeros where they announce checksums, as hudi-rs 0.6 writes all of them.

    Args:
        data: The file, of a magic for each block.
        blocks: The numbers of the blocks to change, in the order of the file; None for all.
    """
    changed = bytearray(data)
    starts = [match.start() for match in re.finditer(rb"DATABLK\*|METABLKc|IDXROOT2|IDXLEAF2|FILEINF2", data)]
    for start in starts if blocks is None else [starts[number] for number in blocks]:
        behind, data_end = struct.unpack_from(">i", data, start + 8)[0], struct.unpack_from(">i", data, start + 29)[0]
        end = start + 33 + behind
        changed[start + data_end : end] = bytes(end - start - data_end)
    return bytes(changed)


def plain_hfile(
    entries: Sequence[tuple[bytes, bytes]],
    *,
    block_bytes: int = 1 << 20,
    codec: str = "GZ",
    checksum: int = 2,
    by_hudi: bool = False,
    ends_with_row: bool = False,
    leaf_entries: int | None = None,
    meta: Sequence[tuple[bytes, bytes]] = (),
    info: Mapping[bytes, bytes] | None = None,
    changed: Mapping[int, int | bytes] | None = None,
    minor: int | None = None,
) -> bytes:
    """A whole file.

    Args:
        entries: Rows and values, in order.
        block_bytes: A block ends with the entry that reaches so many bytes.
        codec: GZ or NONE.
        checksum: Of all blocks, see `plain_block`.
        by_hudi: As Hudi's own writer makes it, else as HBase does.
        ends_with_row: Keys are stored without what HBase needs, as by the first releases of that writer.
        leaf_entries: Put so many entries of the index into a block of the second level each.
        meta: Names and contents of meta blocks.
        info: Further pairs of the file info, or other values.
        changed: Fields of the trailer that differ.
        minor: The minor version, else that of the writer.
    """
    out, index, leaves, total, previous = b"", [], [], 4096, -1
    key_end = b"" if ends_with_row else stored_row(b"")[2:]
    number = protobuf_number if by_hudi else hadoop_number

    def add(magic: bytes, content: bytes, before: int = -1) -> tuple[int, int]:
        nonlocal out, total
        block = plain_block(magic, content, before, codec, checksum)
        out, total = out + block, total + 33 + len(content)
        return len(out) - len(block), len(block)

    blocks: list[list[tuple[bytes, bytes]]] = []
    size = block_bytes
    for row, value in entries:
        if size >= block_bytes:
            blocks.append([])
            size = 0
        blocks[-1].append((row, value))
        size += 8 + len(stored_row(row, key_end)) + len(value) + 1
    for place, block in enumerate(blocks):
        first = stored_row(block[0][0], key_end)
        if by_hudi:
            first = stored_row(block[0][0], b"")
        elif place:
            row = least_key_between(blocks[place - 1][-1][0], block[0][0])
            first = stored_row(row, b"\0\x7f" + b"\xff" * 8)
        content = b""
        for row, value in block:
            key = stored_row(row, key_end)
            content += struct.pack(">ii", len(key), len(value)) + key + value + b"\0"
        previous, length = add(b"DATABLK*", content, previous)
        index.append((previous, length, first))
        if leaf_entries and (len(index) == leaf_entries or place == len(blocks) - 1):
            heads = [struct.pack(">qi", *part[:2]) + part[2] for part in index]
            ends = [sum(map(len, heads[:count])) for count in range(len(heads) + 1)]
            leaf = struct.pack(f">i{len(ends)}i", len(heads), *ends) + b"".join(heads)
            leaves.append((*add(b"IDXLEAF2", leaf), index[0][2]))
            index = []
    data_blocks = len(out)
    meta_index = b""
    for name, content in meta:
        place, length = add(b"METABLKc", content)
        meta_index += struct.pack(">qi", place, length) + number(len(name)) + name
    root_entries = leaves or index
    root = b"".join(struct.pack(">qi", *part[:2]) + number(len(part[2])) + part[2] for part in root_entries)
    load_on_open, _ = add(b"IDXROOT2", root + (b"\0" * 16 if leaves else b""))
    total -= 33 + len(root) + 16 * bool(leaves)
    add(b"IDXROOT2", meta_index, load_on_open)
    count = max(len(entries), 1)
    pairs = {
        b"hfile.AVG_KEY_LEN": struct.pack(">i", sum(len(row) + 12 for row, _ in entries) // count),
        b"hfile.AVG_VALUE_LEN": struct.pack(">i", sum(len(value) for _, value in entries) // count),
        b"hfile.CREATE_TIME_TS": bytes(8),
        b"KEY_VALUE_VERSION": struct.pack(">i", 1),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
    }
    if entries:
        pairs[b"hfile.LASTKEY"] = stored_row(entries[-1][0])
    pairs |= info or {}
    body = b"".join(field(1, field(1, name) + field(2, value)) for name, value in sorted(pairs.items()))
    file_info, _ = add(b"FILEINF2", b"PBUF" + protobuf_number(len(body)) + body)
    first_block, last_block = (0, previous) if data_blocks else ((1 << 64) - 1,) * 2
    fields: dict[int, int | bytes] = {
        1: file_info, 2: load_on_open, 3: len(root), 4: total, 5: len(root_entries), 6: len(meta), 7: len(entries),
        8: 1 + bool(leaves), 9: first_block, 10: last_block, 11: COMPARATOR, 12: CODECS[codec],
    }  # fmt: skip
    message = b"".join(field(key, value) for key, value in (fields | dict(changed or {})).items())
    trailer = (b'TRABLK"$' + protobuf_number(len(message)) + message).ljust(4092, b"\0")
    minor = (0 if by_hudi else 3) if minor is None else minor
    return out + trailer + bytes([minor, 0, 0, 3])
