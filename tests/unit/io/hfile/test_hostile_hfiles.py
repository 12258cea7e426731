"""Damaged and hostile HFiles end in an error that names file and byte, and take no memory for what they announce."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieNotSupportedException
from hoodie.io.hfile.block_codec import parse_header
from hoodie.io.hfile.hfile_reader import HFileReader, open_hfile
from hoodie.storage.local_storage import LocalStorage
from tests.support.plain_hfile import plain_block, plain_hfile, with_zero_checksums

ENTRIES = [(b"key%02d" % number, b"value%d" % number) for number in range(12)]
OPTIONS: dict[str, Any] = {"block_bytes": 120, "info": {b"schema": b'"string"'}, "meta": [(b"bloomFilter", b"1234")]}
WHOLE = plain_hfile(ENTRIES, **OPTIONS)
UNCHECKED = plain_hfile(ENTRIES, codec="NONE", checksum=0, leaf_entries=2, **OPTIONS)
NAMED = r"(byte \d+ of the HFile|the HFile|Cannot read|no HFile).*/t/f\.hfile|/t/f\.hfile"


def everything(data: bytes) -> tuple[Any, ...]:
    """All that can be read of a file."""
    reader = HFileReader.of_bytes(data, "/t/f.hfile")
    return (
        reader.read_all().to_pylist(),
        reader.look_up(pa.array(["key03", "key11", "none"])).to_pylist(),
        reader.look_up_prefixes(pa.array(["key0"])).to_pylist(),
        reader.read_meta_block("bloomFilter"),
        reader.avro_schema,
    )


def test_a_file_cut_short_anywhere_is_told() -> None:
    for length in range(0, len(WHOLE), 13):
        with pytest.raises(HoodieCorruptedDataException, match=NAMED):
            everything(WHOLE[:length])


def test_a_changed_byte_before_the_trailer_is_told_or_changes_nothing() -> None:
    expected = everything(WHOLE)
    harmless = 0
    for place in range(len(WHOLE) - 4096):
        damaged = bytearray(WHOLE)
        damaged[place] ^= 1 << place % 8
        try:
            found = everything(bytes(damaged))
        except (HoodieCorruptedDataException, HoodieNotSupportedException) as error:
            assert "/t/f.hfile" in str(error)
            continue
        assert found == expected
        harmless += 1
    assert harmless == 0


@given(st.data())
def test_changed_bytes_without_checksums_end_in_errors_of_ours(data: st.DataObject) -> None:
    damaged = bytearray(UNCHECKED)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(UNCHECKED) - 4096 + 160))
        damaged[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    try:
        everything(bytes(damaged))
    except HoodieException as error:
        assert "/t/f.hfile" in str(error)


@given(st.binary(max_size=6000))
def test_bytes_that_are_no_hfile_are_told(data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=NAMED):
        everything(data)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({1: 1 << 62}, "contradicts itself"),
        ({2: 1 << 62}, "contradicts itself"),
        ({5: 1 << 40}, "of 1099511627776 entries"),
        ({5: 1}, "stand behind its 1 entries"),
        ({6: 0}, "stand behind its 0 entries"),
        ({7: 13}, "hold 12 entries, and its trailer announces 13"),
        ({7: 0}, "hold 12 entries, and its trailer announces 0"),
        ({8: 0}, "contradicts itself"),
        ({8: 1000}, "contradicts itself"),
        ({8: 3}, "stand behind its"),
        ({9: 7}, "begins with"),
        ({9: 1 << 50}, "contradicts itself"),
        ({10: (1 << 64) - 1}, "contradicts itself"),
    ],
)
def test_a_trailer_that_lies_is_told(changed: dict[int, int], message: str) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=message):
        everything(plain_hfile(ENTRIES, changed=changed, **OPTIONS))


@pytest.mark.parametrize(
    ("codec", "name"), [(0, "LZO"), (3, "SNAPPY"), (4, "LZ4"), (5, "BZIP2"), (6, "ZSTD"), (9, "codec 9 is unknown")]
)
def test_other_codecs_are_refused_by_name(codec: int, name: str) -> None:
    with pytest.raises(HoodieNotSupportedException, match=name):
        everything(plain_hfile(ENTRIES, changed={12: codec}, **OPTIONS))


def test_what_hudi_never_writes_is_refused_by_name() -> None:
    for magic, name in ((b"DATABLKE", "an encoding of HBase"), (b"BLMFBLK2", "a bloom filter of HBase")):
        data = UNCHECKED.replace(b"DATABLK*", magic)
        with pytest.raises(HoodieNotSupportedException, match=name):
            everything(data)
    with pytest.raises(HoodieNotSupportedException, match="version 2 of HFiles"):
        everything(WHOLE[:-1] + b"\2")
    with pytest.raises(HoodieNotSupportedException, match="encrypted"):
        everything(plain_hfile(ENTRIES, changed={13: b"k"}, **OPTIONS))
    for name, value in (
        (b"KEY_VALUE_VERSION", b"\0\0\0\2"),
        (b"MAX_MEMSTORE_TS_KEY", b"\7"),
        (b"hfile.MAX_TAGS_LEN", b""),
    ):
        with pytest.raises(HoodieNotSupportedException, match=f"{name.decode()} is|have tags"):
            everything(plain_hfile(ENTRIES, info={name: value}))


def with_number(data: bytes, offset: int, number: int) -> bytes:
    """A file with another int32 somewhere."""
    return data[:offset] + struct.pack(">i", number) + data[offset + 4 :]


KEY, VALUE, ROW = 33, 37, 41
"""Where the lengths of the first entry stand in `UNCHECKED`."""


@pytest.mark.parametrize("offset", [KEY, VALUE])
@pytest.mark.parametrize("number", [0x7FFFFFFF, -1, -9, -1000, 1, 100, 200])
def test_lengths_of_entries_that_lie_are_told(offset: int, number: int) -> None:
    with pytest.raises(
        HoodieCorruptedDataException, match=r"the block at byte 0 of the HFile /t/f\.hfile: (entry|the)"
    ):
        everything(with_number(UNCHECKED, offset, number))


@pytest.mark.parametrize("row", [b"\x7f\xff", b"\xff\xff", b"\0\x11"])
def test_lengths_of_rows_that_lie_are_told(row: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 0 of the HFile .* lengths of entry 0"):
        everything(UNCHECKED[:ROW] + row + UNCHECKED[ROW + 2 :])


def test_keys_that_are_no_text_or_not_in_order_are_told() -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 0 of the HFile .* a key is not UTF-8"):
        everything(UNCHECKED[: ROW + 2] + b"\xff" + UNCHECKED[ROW + 3 :])
    reader = HFileReader.of_bytes(UNCHECKED[: ROW + 2] + b"z" + UNCHECKED[ROW + 3 :], "/t/f.hfile")
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 0 of the HFile .* keys are not in order"):
        reader.look_up_prefixes(pa.array([""]))


STORED, CONTENT, DATA = 8, 12, 29
"""Where the lengths of the first block stand."""


@pytest.mark.parametrize("whole", [WHOLE, UNCHECKED])
@pytest.mark.parametrize("offset", [STORED, CONTENT, DATA])
@pytest.mark.parametrize("number", [0x7FFFFFFF, 900_000_000, 10_000_000, -1, -33, 0, 5])
def test_lengths_of_blocks_that_lie_are_told_and_take_no_memory(whole: bytes, offset: int, number: int) -> None:
    data = with_number(whole, offset, number)
    for read in (HFileReader.read_all, lambda reader: reader.look_up(pa.array(["key00"]))):
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        try:
            with pytest.raises(HoodieCorruptedDataException, match=r"the block at byte 0 of the HFile /t/f\.hfile"):
                read(HFileReader.of_bytes(data, "/t/f.hfile"))
            peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
        finally:
            tracemalloc.stop()
        # Other threads of the process may take some meanwhile.
        assert peak < 8 << 20


@pytest.mark.parametrize("announced", [5, 10_000_000 - 1, 10_000_000 + 1, 500_000_000, 1 << 30])
def test_streams_that_hold_more_or_less_than_announced_are_told(announced: int) -> None:
    stream = zlib.compress(bytes(10_000_000), wbits=31)
    header = struct.pack(">8siiqbii", b"DATABLK*", len(stream), announced, -1, 0, 16384, 33 + len(stream))
    data = header + stream
    end = 33 + len(stream)
    rest = plain_hfile([], checksum=2)[:-4096]
    index = struct.pack(">qi", 0, end) + b"\3\0\1a"
    root = plain_block(b"IDXROOT2", index, -1)
    meta, info = rest[: len(plain_block(b"IDXROOT2", b"", -1))], rest[2 * len(plain_block(b"IDXROOT2", b"", -1)) :]
    place = end + len(root) + len(meta)
    trailer = plain_hfile([(b"a", b"1")], changed={1: place, 2: end, 9: 0, 10: 0})[-4096:]
    file = data + root + meta + info + trailer
    tracemalloc.start()
    try:
        with pytest.raises(HoodieCorruptedDataException, match=r"the block at byte 0 of the HFile /t/f\.hfile"):
            HFileReader.of_bytes(file, "/t/f.hfile").read_all()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20 or announced in (10_000_000 - 1, 10_000_000 + 1)


def test_an_index_that_names_a_block_twice_or_out_of_the_file_is_told() -> None:
    two = plain_hfile(ENTRIES, codec="NONE", checksum=0, block_bytes=200)
    root = two.index(b"IDXROOT2") + 33
    first = struct.unpack_from(">qi", two, root)
    second = two.index(struct.pack(">q", first[1]), root + 12)
    for offset, size in (
        (0, first[1]),
        (first[1] - 1, 50),
        (first[1], 1 << 30),
        (1 << 62, 100),
        (-5, 100),
        (first[1], 5),
    ):
        damaged = two[:second] + struct.pack(">qi", offset, size) + two[second + 12 :]
        with pytest.raises(HoodieCorruptedDataException, match=rf"the index at byte {root - 33} .* which cannot be"):
            everything(damaged)
    row = second + 12 + 1 + 2
    assert two[row : row + 3] == b"key"
    with pytest.raises(HoodieCorruptedDataException, match=rf"the index at byte {root - 33} .* keys are not in order"):
        everything(two[:row] + b"a" + two[row + 1 :])


def test_blocks_of_an_index_that_name_one_block_twice_are_told() -> None:
    data = plain_hfile(ENTRIES, codec="NONE", checksum=0, block_bytes=100, leaf_entries=1)
    second = data.index(b"IDXLEAF2", data.index(b"IDXLEAF2") + 1) + 33 + 12
    first_size = 33 + struct.unpack_from(">i", data, STORED)[0]
    changed = data[:second] + struct.pack(">qi", 0, first_size) + data[second + 12 :]
    reader = HFileReader.of_bytes(changed, "/t/f.hfile")
    assert reader.look_up(pa.array(["key00"])).num_rows == 1
    with pytest.raises(HoodieCorruptedDataException, match=r"the index at byte \d+ of the HFile .* which cannot be"):
        reader.look_up_prefixes(pa.array(["key"]))


def test_a_large_file_that_lies_takes_no_memory(tmp_path: Path) -> None:
    size = 3 << 30
    path = tmp_path / "f.hfile"
    with path.open("wb") as file:
        file.seek(size - 4096)
        file.write(plain_hfile(ENTRIES, changed={1: size - 5000, 2: 100, 9: 0, 10: 0})[-4096:])
    tracemalloc.start()
    try:
        opened = open_hfile(LocalStorage("/"), str(path))
        with pytest.raises(HoodieCorruptedDataException, match=r"byte 100 of the HFile .* 537395200 are read"), opened:
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    # A block of that length, in a file that is as long.
    header = struct.pack(">8siiqbii", b"DATABLK*", 1 << 30, 1 << 30, -1, 0, 16384, 33 + (1 << 30))
    with pytest.raises(HoodieCorruptedDataException, match="exceed 536870912 bytes"):
        parse_header(header, "/t/f.hfile")


@pytest.mark.parametrize("change", [-1, 1])
def test_a_block_that_is_not_as_long_as_its_index_says_is_told(change: int) -> None:
    data = plain_hfile(ENTRIES, codec="NONE", checksum=0, meta=[(b"m", bytes(50))])
    root = data.index(b"IDXROOT2") + 33
    size = struct.unpack_from(">i", data, root + 8)[0]
    changed = with_number(data, root + 8, size + change)
    with pytest.raises(HoodieCorruptedDataException, match=r"byte 0 of the HFile .* announces"):
        HFileReader.of_bytes(changed, "/t/f.hfile").look_up(pa.array(["key00"]))


def test_a_meta_block_where_a_data_block_should_be_is_told() -> None:
    damaged = UNCHECKED.replace(b"DATABLK*", b"METABLKc", 1)
    for read in (HFileReader.read_all, lambda reader: reader.look_up(pa.array(["key00"]))):
        with pytest.raises(HoodieCorruptedDataException, match="it is a block of type META where"):
            read(HFileReader.of_bytes(damaged, "/t/f.hfile"))


def test_random_files_of_every_length_are_told() -> None:
    rng = random.Random(3)
    for length in (0, 1, 4095, 4096, 4097, 9000):
        data = rng.randbytes(length)
        for some in (data, WHOLE[:50] + data, data + WHOLE[-4096:]):
            with pytest.raises(HoodieException, match=r"/t/f\.hfile"):
                everything(some)


def test_zeros_in_place_of_checksums_of_some_blocks_are_damage() -> None:
    count = sum(WHOLE.count(magic) for magic in (b"DATABLK*", b"METABLKc", b"IDXROOT2", b"FILEINF2"))
    for number in range(count):
        with pytest.raises(HoodieCorruptedDataException, match=r"checksum does not fit.*file is damaged"):
            everything(with_zero_checksums(WHOLE, [number]))


def test_a_wrong_checksum_of_a_file_with_zeros_in_place_of_all_others_is_damage() -> None:
    data = bytearray(with_zero_checksums(WHOLE))
    header = parse_header(bytes(data), "/t/f.hfile")
    data[header.data_end] = 1
    with pytest.raises(HoodieCorruptedDataException, match=r"checksum does not fit.*file is damaged"):
        everything(bytes(data))
