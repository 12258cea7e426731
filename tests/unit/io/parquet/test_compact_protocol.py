from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.compact_protocol import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    ListValue,
    read_struct,
    read_struct_at,
    write_struct,
)

NUMBERS = st.integers(1, 3000)
SCALARS = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(lambda value: Field(I32, value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Field(I64, value)),
    st.binary(max_size=300).map(lambda value: Field(BINARY, value)),
    st.booleans().map(lambda value: Field(1 if value else 2, value)),
    st.floats(allow_nan=False).map(lambda value: Field(7, value)),
)
LISTS = st.one_of(
    st.lists(st.integers(-5, 5000), max_size=40).map(lambda items: Field(LIST, ListValue(I64, items))),
    st.lists(st.booleans(), max_size=20).map(lambda items: Field(LIST, ListValue(1, items))),
    st.lists(st.binary(max_size=3), max_size=20).map(lambda items: Field(LIST, ListValue(BINARY, items))),
)
FLAT = st.dictionaries(NUMBERS, st.one_of(SCALARS, LISTS), max_size=6)
STRUCTS = st.dictionaries(NUMBERS, st.one_of(SCALARS, LISTS, FLAT.map(lambda value: Field(STRUCT, value))), max_size=6)


@given(STRUCTS, st.binary(max_size=4))
def test_structs_come_back_and_what_follows_is_ignored(value, rest: bytes) -> None:
    assert read_struct(write_struct(value) + rest) == value


@given(st.lists(STRUCTS, min_size=1, max_size=3), st.binary(max_size=4))
def test_structs_behind_each_other_are_read_one_by_one(values, before: bytes) -> None:
    data = before + b"".join(map(write_struct, values))
    at = len(before)
    for value in values:
        found, at = read_struct_at(data, at)
        assert found == value
    assert at == len(data)


@given(STRUCTS.filter(bool), st.data())
def test_a_struct_that_is_cut_short_is_damaged(value, data: st.DataObject) -> None:
    whole = write_struct(value)
    with pytest.raises(HoodieCorruptedDataException):
        read_struct(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_maps_are_kept() -> None:
    data = bytes([0x1B, 1, 0x88, 1, ord("k"), 1, ord("v"), 0])
    value = read_struct(data)
    assert value[1].value == [(0x88, b"k", b"v")]
    assert write_struct(value) == data


def test_an_unknown_type_is_damage() -> None:
    with pytest.raises(HoodieCorruptedDataException, match="unknown type 13"):
        read_struct(bytes([0x1D, 0]))


def test_footers_of_every_file_of_real_hudi_are_written_as_they_were_read(shared_tables: Path) -> None:
    count = 0
    for path in shared_tables.rglob("*.parquet"):
        data = path.read_bytes()
        if data[-4:] != b"PAR1":
            continue
        length = int.from_bytes(data[-8:-4], "little")
        footer = data[-8 - length : -8]
        assert write_struct(read_struct(footer)) == footer, path
        count += 1
    assert count > 50
