"""The entries of data blocks are found in their content, whatever stands in keys and values."""

from __future__ import annotations

import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.data_block import _found_by_key_ends, _found_one_by_one, decode_data_block, encoded_entries

ONES = b"\xff" * 9
TIME = b"\x7f" + b"\xff" * 7


def content_of(keys: list[str], values: list[bytes]) -> bytes:
    return b"".join(bytes(part.data) for part in encoded_entries(pa.array(keys), pa.array(values, pa.binary())))


@pytest.mark.parametrize("seed", range(40))
def test_entries_are_found_by_the_ends_of_keys_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    length = chance.randint(1, 40)
    keys = [f"{number:04d}".zfill(length)[-max(length, 4) :] for number in range(400)]
    # Values of all lengths, so that the ends of keys stand at all places; some look like what they hold.
    values = [
        chance.choice([chance.randbytes(chance.randint(0, 90)), ONES[: chance.randint(0, 9)], TIME[1:], bytes(12)])
        for _ in keys
    ]
    content = content_of(keys, values)
    found = _found_by_key_ends(content)
    assert found is not None
    for one, other in zip(found, _found_one_by_one(content, "a block"), strict=True):
        np.testing.assert_array_equal(one, other)
    entries = decode_data_block(content, "a block").entries()
    assert entries.column("key").to_pylist() == keys
    assert entries.column("value").to_pylist() == values


def test_entries_are_found_where_a_value_holds_the_end_of_a_key() -> None:
    keys = [f"key{number:04d}" for number in range(400)]
    values = [TIME + b"\x04" if number == 77 else b"value" for number in range(400)]
    content = content_of(keys, values)
    assert _found_by_key_ends(content) is None
    assert decode_data_block(content, "a block").entries().column("value").to_pylist() == values


@pytest.mark.parametrize("key_bytes", [0, 1, 9, 10, 0xFFFFFFFF])
@pytest.mark.parametrize("behind", range(9))
def test_ends_of_keys_at_the_end_of_the_content_are_told(key_bytes: int, behind: int) -> None:
    content = struct.pack(">I", key_bytes) + bytes(5000) + TIME + bytes(behind)
    with pytest.raises(HoodieCorruptedDataException, match="a block: (entry|the lengths of entry)"):
        decode_data_block(content, "a block")


@pytest.mark.parametrize("length", [1, 3, 8, 9, 36])
def test_keys_are_found_at_all_places_of_a_block(length: int) -> None:
    count = min(9 ** min(length, 3), 500)
    keys = sorted({f"{number:03d}".zfill(length)[-length:] for number in range(count)})
    block = decode_data_block(content_of(keys, [b"v"] * len(keys)), "a block")
    for wanted in (keys, keys[:1], keys[-1:], keys[::3], ["", *keys[1::2], "~"]):
        numbers = block.find(pa.array(wanted))
        assert block.keys(numbers).to_pylist() == [key for key in wanted if key in set(keys)]
        assert block.entries(numbers).column("key").to_pylist() == block.keys(numbers).to_pylist()
