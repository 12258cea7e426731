"""Blocks of log files: whole ones, torn ones, damaged ones."""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
)
from hoodie.io.log.avro_block import avro_datums, avro_records
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_file_reader import MAGIC, HoodieLogFileReader, read_log_blocks

PATH = "/t/.hoodie/archived/.commits_.archive.1_1-0-1"
SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]})


def texts(headers: dict[int, str]) -> bytes:
    encoded = ((key, text.encode()) for key, text in headers.items())
    return struct.pack(">i", len(headers)) + b"".join(struct.pack(">ii", k, len(t)) + t for k, t in encoded)


def block(
    content: bytes,
    block_type: int = HoodieLogBlockType.AVRO_DATA,
    headers: dict[int, str] | None = None,
    version: int = 1,
    content_length: int | None = None,
) -> bytes:
    length = len(content) if content_length is None else content_length
    body = struct.pack(">ii", version, block_type) + texts(
        {HeaderMetadataType.SCHEMA: SCHEMA} if headers is None else headers
    )
    body += struct.pack(">q", length) + content + texts({})
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + len(MAGIC))


def avro_content(*values: str, version: int = 3, count: int | None = None) -> bytes:
    datums = [bytes([2 * len(value)]) + value.encode() for value in values]
    head = struct.pack(">ii", version, len(values) if count is None else count)
    return head + b"".join(struct.pack(">i", len(datum)) + datum for datum in datums)


def read(data: bytes) -> list[HoodieLogBlock]:
    return list(read_log_blocks(data, PATH))


def test_every_block_of_real_log_files_is_whole_and_its_records_are_read(shared_tables: Path) -> None:
    found: Counter[HoodieLogBlockType] = Counter()
    for path in shared_tables.rglob(".*_*-*-*"):
        if path.is_file() and path.suffix != ".crc" and (".log." in path.name or ".archive." in path.name):
            for part in read_log_blocks(path.read_bytes(), str(path)):
                found[part.block_type] += 1
                assert part.instant_time is not None or ".archive." in path.name
                if part.block_type is HoodieLogBlockType.AVRO_DATA:
                    assert avro_records(part)
    assert found[HoodieLogBlockType.CORRUPT] == 0
    assert found[HoodieLogBlockType.AVRO_DATA] > 40
    assert found[HoodieLogBlockType.DELETE] > 40
    assert found[HoodieLogBlockType.HFILE_DATA] > 100
    assert found[HoodieLogBlockType.PARQUET_DATA] > 0


def test_blocks_come_with_type_headers_content_and_place() -> None:
    first, second = (
        block(avro_content("x", "yz")),
        block(b"abc", HoodieLogBlockType.DELETE, {0: "20240102030405678", 99: "é"}),
    )
    blocks = read(first + second)
    assert [part.block_type for part in blocks] == [HoodieLogBlockType.AVRO_DATA, HoodieLogBlockType.DELETE]
    assert [part.offset_bytes for part in blocks] == [0, len(first)]
    assert avro_records(blocks[0]) == [{"a": "x"}, {"a": "yz"}]
    assert blocks[0].schema == SCHEMA and blocks[0].instant_time is None
    assert blocks[1].content == b"abc"
    assert blocks[1].headers == {0: "20240102030405678", 99: "é"}
    assert blocks[1].instant_time == "20240102030405678"


def test_a_command_without_content_is_a_block() -> None:
    command = block(b"", HoodieLogBlockType.COMMAND, {0: "2", 1: "1", 3: "0"})
    (part,) = read(command)
    assert part.block_type is HoodieLogBlockType.COMMAND
    assert part.headers[HeaderMetadataType.TARGET_INSTANT_TIME] == "1"


def test_a_file_that_ends_anywhere_in_its_last_block_keeps_the_blocks_before() -> None:
    first, second = block(avro_content("x")), block(avro_content("y"))
    for length in range(len(second)):
        blocks = read(first + second[:length])
        assert avro_records(blocks[0]) == [{"a": "x"}]
        assert [part.block_type for part in blocks[1:]] == [HoodieLogBlockType.CORRUPT] * (length >= len(MAGIC))


def test_a_torn_block_is_left_out_and_the_next_whole_one_kept() -> None:
    whole = block(avro_content("x"))
    for length in range(len(MAGIC), len(whole)):
        torn = whole[:length]
        blocks = read(torn + whole)
        assert [part.block_type for part in blocks] == [HoodieLogBlockType.CORRUPT, HoodieLogBlockType.AVRO_DATA]
        assert blocks[0].content == torn
        assert blocks[1].offset_bytes == length


def test_a_block_that_no_magic_follows_is_torn() -> None:
    whole = block(avro_content("x"))
    blocks = read(whole + b"rest of something" + whole)
    assert [part.block_type for part in blocks] == [HoodieLogBlockType.CORRUPT, HoodieLogBlockType.AVRO_DATA]
    assert blocks[1].offset_bytes == len(whole) + 17


def test_a_negative_size_makes_a_torn_block() -> None:
    data = MAGIC + struct.pack(">q", -20) + b"\0" * 12 + struct.pack(">q", -14) + b"\0" * 6
    assert [part.block_type for part in read(data)] == [HoodieLogBlockType.CORRUPT]


def test_the_magic_within_a_content_does_not_end_a_whole_block() -> None:
    blocks = read(block(MAGIC + b"rest", HoodieLogBlockType.PARQUET_DATA) + block(avro_content("x")))
    assert [part.content for part in blocks] == [MAGIC + b"rest", avro_content("x")]


def test_an_empty_file_has_no_block() -> None:
    assert read(b"") == []


def test_a_file_that_is_no_log_file_is_refused_by_name() -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"\.commits_\.archive\.1_1-0-1"):
        read(b"PAR1" + b"\0" * 100)


@pytest.mark.parametrize(
    "data",
    [
        block(b"abc", content_length=4),
        block(b"abc", content_length=-1),
        block(b"abc", content_length=2**62),
        MAGIC + struct.pack(">q", 20) + struct.pack(">iii", 1, 3, 2**30) + struct.pack(">q", 26),
        MAGIC + struct.pack(">q", 20) + struct.pack(">iii", 1, 3, -1) + struct.pack(">q", 26),
        MAGIC + struct.pack(">q", 8) + struct.pack(">q", 14),
    ],
)
def test_a_whole_block_that_contradicts_itself_is_refused_by_name_and_place(data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"\.commits_\.archive\.1_1-0-1: the block at byte 0"):
        read(data)


@pytest.mark.parametrize("data", [block(b"", block_type=17), block(b"", version=3)])
def test_blocks_of_an_unknown_type_or_version_are_refused(data: bytes) -> None:
    with pytest.raises(HoodieNotSupportedException, match="the block at byte 0"):
        read(data)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        avro_content("x", count=2),
        avro_content("x", count=-1),
        avro_content("x", count=2**31 - 1),
        avro_content("x")[:-1],
        struct.pack(">iii", 3, 1, -5),
        struct.pack(">iii", 3, 1, 2**31 - 1),
    ],
)
def test_records_whose_lengths_do_not_fit_are_refused_by_name(content: bytes) -> None:
    (part,) = read(block(content))
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 0 of /t/\.hoodie/archived"):
        avro_datums(part)


def test_old_avro_blocks_and_blocks_without_schema_are_refused() -> None:
    (old,) = read(block(avro_content("x", version=1)))
    with pytest.raises(HoodieNotSupportedException, match="version 1"):
        avro_records(old)
    (bare,) = read(block(avro_content("x"), headers={}))
    with pytest.raises(HoodieCorruptedDataException, match="no schema"):
        avro_records(bare)


@given(st.data())
def test_any_changed_byte_is_read_or_refused_and_never_another_error(data: st.DataObject) -> None:
    original = block(avro_content("x", "yz")) + block(b"abc", HoodieLogBlockType.DELETE)
    position = data.draw(st.integers(0, len(original) - 1))
    changed = original[:position] + bytes([data.draw(st.integers(0, 255))]) + original[position + 1 :]
    try:
        for part in read(changed):
            if part.block_type is HoodieLogBlockType.AVRO_DATA:
                avro_records(part)
    except HoodieException as error:
        assert PATH in str(error)


# --- reading by ranges ------------------------------------------------------------------------------------------------


class Counted(io.BytesIO):
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.bytes_read = 0
        self.reads = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.bytes_read += len(found)
        self.reads += 1
        return found


def stored(data: bytes) -> tuple[list[StoredLogBlock], Counted]:
    file = Counted(data)
    return list(HoodieLogFileReader(pa.PythonFile(file, mode="r"), PATH).stored_blocks()), file


def test_contents_are_passed_over_until_they_are_asked_for() -> None:
    large = block(b"x" * 3_000_000, HoodieLogBlockType.PARQUET_DATA)
    data = large * 4
    file = Counted(data)
    reader = HoodieLogFileReader(pa.PythonFile(file, mode="r"), PATH)
    blocks = list(reader.stored_blocks())
    assert [part.offset_bytes for part in blocks] == [number * len(large) for number in range(4)]
    assert all(part.content is None and part.content_bytes == 3_000_000 for part in blocks)
    assert file.bytes_read < 1_500_000 and file.reads == 5
    assert reader.read(blocks[2]).content == b"x" * 3_000_000
    assert file.reads == 6


def test_small_blocks_are_read_many_at_a_time() -> None:
    data = block(b"abc", HoodieLogBlockType.DELETE) * 1000
    blocks, file = stored(data)
    assert len(blocks) == 1000 and {part.content for part in blocks} == {b"abc"}
    assert file.bytes_read < 1.1 * len(data) and file.reads <= 3


@pytest.mark.parametrize("length", range((1 << 17) - 120, (1 << 17) + 20))
def test_blocks_around_the_end_of_what_is_read_at_a_time_are_whole(length: int) -> None:
    first, second = block(b"x" * length, HoodieLogBlockType.DELETE), block(b"abc", HoodieLogBlockType.DELETE)
    for data, kinds in ((first + second, ["DELETE", "DELETE"]), (first[:-3] + second, ["CORRUPT", "DELETE"])):
        blocks, _ = stored(data)
        assert [part.block_type.name for part in blocks] == kinds
        assert [part.content for part in read(data)][1] == b"abc"


def test_headers_longer_than_what_is_read_at_a_time_are_whole() -> None:
    text = "é" * 500_000
    blocks, _ = stored(block(b"abc", HoodieLogBlockType.DELETE, {2: text, 0: "001"}) * 2)
    assert [part.headers for part in blocks] == [{2: text, 0: "001"}] * 2


def test_a_file_full_of_beginnings_of_blocks_is_read_in_time_that_grows_with_it() -> None:
    for pretended in (14, 500_000, 2**40, -1):
        data = (MAGIC + struct.pack(">q", pretended)) * 50_000 + block(b"abc", HoodieLogBlockType.DELETE)
        blocks, file = stored(data)
        assert {part.block_type for part in blocks[:-1]} == {HoodieLogBlockType.CORRUPT}
        assert blocks[-1].content == b"abc"
        assert file.bytes_read < 4 * len(data)


def test_a_torn_block_of_any_size_is_left_out_by_ranges() -> None:
    large = block(b"x" * 2_000_000, HoodieLogBlockType.PARQUET_DATA)
    data = large + large[:-5] + block(b"abc", HoodieLogBlockType.DELETE)
    blocks, file = stored(data)
    assert [part.block_type.name for part in blocks] == ["PARQUET_DATA", "CORRUPT", "DELETE"]
    assert (blocks[1].offset_bytes, blocks[1].content_bytes) == (len(large), len(large) - 5)
    assert file.bytes_read < 3_500_000


def test_a_stream_that_fails_is_told_with_the_file() -> None:
    class Failing(Counted):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("no answer")

    with pytest.raises(HoodieIOException, match=r"commits_\.archive\.1_1-0-1 failed: no answer"):
        list(HoodieLogFileReader(pa.PythonFile(Failing(b"#HUDI#"), mode="r"), PATH).stored_blocks())
