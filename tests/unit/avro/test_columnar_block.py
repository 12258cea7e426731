"""The content of Avro blocks is made from rows and becomes the same rows; damage is told."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.avro.columnar_block import decode_avro_block, decode_records_with, encode_avro_block, encode_avro_blocks
from hoodie.avro.schema_converters import to_avro
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException, HoodieSchemaException
from tests.support.avro_values import encoded

ROWS = pa.RecordBatch.from_pydict({"k": ["a", "b", "c" * 70], "v": [1, None, 1 << 40]})
SCHEMA = to_avro(ROWS.schema, "r", "n")
HEADER = struct.Struct(">ii")


def content_of(datums: list[bytes], version: int = 3, count: int | None = None) -> bytes:
    parts = [struct.pack(">i", len(datum)) + datum for datum in datums]
    return HEADER.pack(version, len(datums) if count is None else count) + b"".join(parts)


def test_a_block_has_version_count_and_records_with_their_lengths() -> None:
    datums = encoded(json.loads(SCHEMA), ROWS.to_pylist())
    content = encode_avro_block(ROWS, SCHEMA)
    assert content == content_of(datums)
    assert decode_avro_block(content, SCHEMA).equals(ROWS)
    assert decode_avro_block(pa.py_buffer(content), SCHEMA).equals(ROWS)
    assert decode_avro_block(memoryview(content), SCHEMA).equals(ROWS)


def test_a_block_without_rows() -> None:
    content = encode_avro_block(ROWS.slice(0, 0), SCHEMA)
    assert content == content_of([])
    assert decode_avro_block(content, SCHEMA).equals(ROWS.slice(0, 0))


def test_a_block_of_many_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"k": [str(row) * (row % 9) for row in range(20_000)], "v": range(20_000)})
    assert decode_avro_block(encode_avro_block(rows, SCHEMA), SCHEMA).equals(rows)


def test_wanted_columns() -> None:
    wanted = pa.schema([pa.field("w", pa.string()), pa.field("v", pa.float64())])
    found = decode_avro_block(encode_avro_block(ROWS, SCHEMA), SCHEMA, wanted)
    assert found.to_pydict() == {"w": [None] * 3, "v": [1.0, None, float(1 << 40)]}


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), max_size=40), st.integers(0, 400))
def test_blocks_are_as_large_as_they_may_be(sizes: list[int], max_bytes: int) -> None:
    rows = pa.RecordBatch.from_pydict({"k": pa.array(["x" * size for size in sizes], pa.string())})
    schema = to_avro(rows.schema, "r", "n")
    blocks = list(encode_avro_blocks(rows, schema, max_bytes))
    parts = [decode_avro_block(block, schema) for block in blocks]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([rows]))
    records = [len(encode_avro_block(rows.slice(row, 1), schema)) - HEADER.size for row in range(len(sizes))]
    end = 0
    for block, part in zip(blocks, parts, strict=True):
        end += part.num_rows
        assert part.num_rows or not sizes
        assert len(block) <= max_bytes or part.num_rows <= 1
        assert end == len(sizes) or len(block) + records[end] > max_bytes


def test_blocks_of_more_rows_than_are_encoded_at_once() -> None:
    rows = pa.RecordBatch.from_pydict({"k": ["x" * 20] * 30_000})
    schema = to_avro(rows.schema, "r", "n")
    for max_bytes, counts in ((250_000, [9615, 9615, 9615, 1155]), (8 + 26 * 8192 + 25, [8192, 8192, 8192, 5424])):
        blocks = list(encode_avro_blocks(rows, schema, max_bytes))
        assert [decode_avro_block(block, schema).num_rows for block in blocks] == counts


@pytest.mark.parametrize("version", [0, 1, 2, 4, -1])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(HoodieNotSupportedException, match=f"a file: version {version} "):
        decode_avro_block(content_of([], version), SCHEMA, source="a file")


GOOD = encode_avro_block(ROWS, SCHEMA)
BROKEN: dict[str, bytes] = {
    "fewer records": content_of([b"\0\0"], count=2),
    "more records": content_of([b"\0\0"], count=0),
    "endless records": content_of([b"\0\0"], count=(1 << 31) - 1),
    "a negative number of records": content_of([], count=-1),
    "a negative length": HEADER.pack(3, 1) + struct.pack(">i", -1),
    "the smallest length": HEADER.pack(3, 1) + struct.pack(">i", -(1 << 31)) + b"abc",
    "the greatest length": HEADER.pack(3, 1) + struct.pack(">i", (1 << 31) - 1) + b"abc",
    "bytes behind the records": GOOD + b"\0",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_lengths_that_contradict_each_other_are_told(content: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="a file: it announces"):
        decode_avro_block(content, SCHEMA, source="a file")


def test_a_content_that_is_cut_anywhere_is_told() -> None:
    for place in range(len(GOOD)):
        with pytest.raises(HoodieCorruptedDataException, match="a file"):
            decode_avro_block(GOOD[:place], SCHEMA, source="a file")


def test_a_byte_that_changes_anywhere_is_told_or_changes_one_record() -> None:
    for place in range(HEADER.size, len(GOOD)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(GOOD)
            changed[place] = value
            try:
                found = decode_avro_block(bytes(changed), SCHEMA)
            except HoodieCorruptedDataException:
                continue
            assert sum(not found.slice(row, 1).equals(ROWS.slice(row, 1)) for row in range(3)) <= 1


def test_a_damaged_record_is_told_with_its_number() -> None:
    with pytest.raises(HoodieCorruptedDataException, match="record 1 .* of a file: field 'v'"):
        decode_avro_block(content_of([b"\2\2a\0", b"\2\2b\6", b"\2\2c\0"]), SCHEMA, source="a file")


def test_few_records_are_searched_for_and_of_many_all_are_decoded() -> None:
    count = 400
    rows = pa.RecordBatch.from_pydict({"k": [f"k{row:03}" for row in range(count)], "v": range(count)})
    content = encode_avro_block(rows, SCHEMA)
    found, numbers, total = decode_records_with(content, [b"k017", b"k399"], SCHEMA, rows.schema, "a file")
    assert (found.column("k").to_pylist(), numbers.tolist(), total) == (["k017", "k399"], [17, 399], count)
    # One text in all records, and each record once, however often it has the text.
    found, numbers, total = decode_records_with(content, [b"k"], SCHEMA, rows.schema, "a file")
    assert (found.num_rows, numbers.tolist(), total) == (count, list(range(count)), count)
    repeated = rows.set_column(0, "k", pa.array(["!" * 100 if row == 7 else f"k{row}" for row in range(count)]))
    found, numbers, _ = decode_records_with(
        encode_avro_block(repeated, SCHEMA), [b"!"], SCHEMA, repeated.schema, "a file"
    )
    assert numbers.tolist() == [7]
    assert found.column("k").to_pylist() == ["!" * 100]


@pytest.mark.parametrize("schema", ["", "[]", '{"type": "string"}', '{"type": "record", "name": "r"}'])
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(HoodieSchemaException):
        decode_avro_block(GOOD, schema)
