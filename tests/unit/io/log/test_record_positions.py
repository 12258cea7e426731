"""Positions of records: as real Hudi writes them, and damaged ones."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.record_positions import decode_positions, encode_positions
from tests.support.log_files import log_files_in


def vector(text: str) -> str:
    """The value in a file that begins with a licence."""
    return text.partition("*/")[2].strip()


def test_positions_in_four_buckets_are_those_of_hudi(shared_vectors: Path) -> None:
    folder = shared_vectors / "hudi-common/format"
    header = vector((folder / "record_positions_header_v3.data").read_text())
    expected = sorted(
        int(value) for value in vector((folder / "expected_record_positions.data").read_text()).split(",")
    )
    assert len(expected) == 1000
    assert decode_positions(header, len(expected)).tolist() == expected
    assert encode_positions(np.array(expected)) == header


def test_every_header_of_real_tables_is_written_again_with_the_same_bytes(later_tables: Path) -> None:
    found = 0
    for path in log_files_in(later_tables):
        for block in read_log_blocks(path.read_bytes(), str(path)):
            header = block.headers.get(HeaderMetadataType.RECORD_POSITIONS)
            if header is not None and block.block_type is HoodieLogBlockType.AVRO_DATA:
                count = struct.unpack_from(">i", block.content, 4)[0]
                positions = decode_positions(header, count)
                assert len(positions) == count and encode_positions(positions) == header
                found += 1
    assert found > 30


def test_the_first_rows_of_a_file() -> None:
    header = "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAIAEAAAAAAAAQACAA=="
    assert encode_positions(np.arange(3)) == header
    assert decode_positions(header, 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "positions",
    [
        np.zeros(0, dtype=np.int64),
        np.arange(100_000),
        np.arange(0, 200_000, 2),
        np.array([65535, 65536, 1 << 32, (1 << 62) - 1]),
        np.concatenate([np.arange(5000), np.arange(1 << 17, (1 << 17) + 9000, 2)]),
        np.arange(0, 9 << 16, 3),
    ],
)
def test_all_kinds_of_containers_come_back(positions: np.ndarray) -> None:
    assert decode_positions(encode_positions(positions), len(positions)).tolist() == positions.tolist()


@given(st.sets(st.integers(0, 1 << 34), max_size=50), st.integers(0, 1 << 40))
def test_any_positions_come_back(values: set[int], start: int) -> None:
    positions = np.array(sorted(start + value for value in values), dtype=np.int64)
    assert decode_positions(encode_positions(positions), len(positions)).tolist() == positions.tolist()


def test_another_number_of_positions_than_records_is_refused() -> None:
    header = encode_positions(np.arange(0, 5000, 3))
    for count in (0, 1, 1666, 1668, 10**9):
        with pytest.raises(ValueError, match=r"positions"):
            decode_positions(header, count)


def test_a_few_bytes_that_announce_many_positions_are_not_expanded() -> None:
    runs = struct.pack("<H", 1) + struct.pack("<HH", 0, 0xFFFF)
    bucket = (
        struct.pack("<I", 12347 | 2 << 16) + b"\x07" + b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(3))
    )
    data = struct.pack("<Q", 1) + struct.pack("<I", 0) + bucket + runs * 3
    header = base64.b64encode(data).decode()
    assert decode_positions(header, 3 << 16).tolist() == list(range(3 << 16))
    with pytest.raises(ValueError, match="more positions than records"):
        decode_positions(header, 10)


@pytest.mark.parametrize("positions", [np.arange(0, 300, 7), np.arange(70000), np.arange(0, 1 << 18, 9)])
def test_a_header_that_ends_anywhere_is_refused(positions: np.ndarray) -> None:
    data = base64.b64decode(encode_positions(positions))
    for length in range(0, len(data), max(1, len(data) // 400)):
        with pytest.raises(ValueError, match=r"position|container"):
            decode_positions(base64.b64encode(data[:length]).decode(), len(positions))


@given(st.data())
def test_a_changed_byte_gives_other_ascending_positions_or_is_refused(data: st.DataObject) -> None:
    positions = data.draw(st.sampled_from([np.arange(0, 300, 7), np.arange(5000), np.array([1, 1 << 16, 1 << 33])]))
    original = base64.b64decode(encode_positions(positions))
    place = data.draw(st.integers(0, len(original) - 1))
    changed = original[:place] + bytes([data.draw(st.integers(0, 255))]) + original[place + 1 :]
    try:
        found = decode_positions(base64.b64encode(changed).decode(), len(positions))
    except ValueError:
        return
    assert len(found) == len(positions) and (np.diff(found) > 0).all() and found[0] >= 0


@pytest.mark.parametrize(
    "text", ["", "?", "AAAA", "AQAAAAAAAAA", "é", "AQAAAAAAAAAAAACAOjAAAAEAAAAAAAIAEAAAAAAAAQACAA=="]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_positions(text, 3)
