"""Blocks of HFiles, with ISA-L and without it: compressed, read, and refused."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile import block_codec
from hoodie.io.hfile.block_codec import (
    FAST_LEVEL,
    BlockType,
    HFileCompression,
    compress,
    decode_block,
    decode_blocks,
    encode_block,
)

GZ = HFileCompression.GZ
SOURCE = "the block at byte 7 of the HFile /t/f.hfile"
CONTENTS = [b"", b"a", b"key" * 20_000, random.Random(1).randbytes(100_000), bytes(1 << 20)]


@pytest.fixture(params=sorted({"zlib", "zlib" if block_codec.isal_zlib is None else "ISA-L"}))
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library that is at hand; both where both are."""
    if request.param == "zlib":
        monkeypatch.setattr(block_codec, "isal_zlib", None)
    return block_codec.isal_zlib


def block_of(content: bytes, level: int = FAST_LEVEL) -> bytes:
    return encode_block(BlockType.DATA, compress(content, GZ, level), len(content))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("level", [FAST_LEVEL, -1, 6])
def test_what_is_compressed_is_read_by_each_library(content: bytes, level: int) -> None:
    stream = compress(content, GZ, level)
    assert zlib.decompress(stream, 31) == content
    assert stream[9] == 0, "Java writes no operating system"
    header, found = decode_block(block_of(content, level), GZ, SOURCE)
    assert (found, header.content_bytes) == (content, len(content))


def test_the_default_level_is_that_of_java(library: Any) -> None:
    compressor = zlib.compressobj(-1, zlib.DEFLATED, 31)
    expected = compressor.compress(CONTENTS[2]) + compressor.flush()
    assert compress(CONTENTS[2], GZ) == expected[:9] + b"\0" + expected[10:]


def test_the_fast_level_is_that_of_the_library(library: Any) -> None:
    expected = zlib if library is None else library
    assert zlib.decompress(compress(CONTENTS[2], GZ, FAST_LEVEL), 31) == CONTENTS[2]
    assert compress(CONTENTS[2], GZ, FAST_LEVEL)[10:] == expected.compress(CONTENTS[2], FAST_LEVEL, 31)[10:]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("announced", [0, 1, 59_999, 60_001, 100_000])
def test_a_stream_of_another_length_is_told(announced: int) -> None:
    block = encode_block(BlockType.DATA, compress(CONTENTS[2], GZ), announced)
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 7 of the HFile /t/f\.hfile"):
        decode_block(block, GZ, SOURCE)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    "damage",
    [
        lambda stream: stream[:-1],
        lambda stream: stream[:-8],
        lambda stream: stream + b"\0",
        lambda stream: stream + stream,
        lambda stream: b"",
        lambda stream: stream[:-8] + bytes(4) + stream[-4:],
        lambda stream: stream[:-4] + bytes(4),
        lambda stream: stream[:40] + b"\xff\xff" + stream[42:],
    ],
    ids=["cut", "no end", "a byte more", "twice", "nothing", "checksum", "length", "deflated data"],
)
def test_a_damaged_stream_is_told(damage: Any) -> None:
    content = random.Random(2).randbytes(40_000) * 2
    block = encode_block(BlockType.DATA, damage(compress(content, GZ)), len(content))
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 7 of the HFile /t/f\.hfile"):
        decode_block(block, GZ, SOURCE)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("damaged", range(5))
def test_of_several_blocks_the_one_whose_checksum_does_not_fit_is_named(damaged: int) -> None:
    # The first chunks of three of them are whole, and so they are verified together.
    contents = [random.Random(number).randbytes(size) for number, size in enumerate((40_000, 9, 30_000, 20_000, 100))]
    blocks = [block_of(content) for content in contents]
    sources = [f"the block at byte {number} of the HFile /t/f.hfile" for number in range(5)]
    found = list(decode_blocks(list(zip(blocks, sources, strict=True)), GZ))
    assert [content for _, content in found] == contents
    # The time in the header of the gzip stream, which its own checksum does not cover.
    place = block_codec.HEADER_BYTES + 4
    blocks[damaged] = blocks[damaged][:place] + b"\1" + blocks[damaged][place + 1 :]
    with pytest.raises(HoodieCorruptedDataException, match=rf"byte {damaged} of the HFile .* checksum does not fit"):
        next(decode_blocks(list(zip(blocks, sources, strict=True)), GZ))
