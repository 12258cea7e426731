"""Delete blocks: as real Hudi writes them, of all wrappers, damaged, and of old versions."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieSchemaException,
)
from hoodie.io.log.delete_block import decode_delete_block, encode_delete_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.record_positions import decode_positions
from tests.support.log_files import log_files_in

PATH = "/t/p/.f-0_001.log.1_0-1-0"
EXAMPLE = bytes.fromhex("00000003 0000000f 02 02 0e") + b"TXN-005" + bytes.fromhex("02 00 04 00 00")
"""One key of a table without partitions."""


def block(content: bytes) -> HoodieLogBlock:
    return HoodieLogBlock(HoodieLogBlockType.DELETE, {0: "001"}, PATH, 17, content)


def body(array: bytes) -> bytes:
    return struct.pack(">ii", 3, len(array)) + array


def encoded(keys: list[str], ordering: pa.Array | None = None, **options: Any) -> list[HoodieLogBlock]:
    partitions = pa.array(["p"] * len(keys), pa.string())
    blocks = encode_delete_blocks(pa.array(keys, pa.string()), partitions, ordering, "{}", "001", **options)
    return [part for data in blocks for part in read_log_blocks(data, PATH)]


def decoded(blocks: list[HoodieLogBlock]) -> list[tuple[str | None, str | None, Any]]:
    return [
        record
        for part in blocks
        for entries in decode_delete_block(part)
        for record in zip(
            entries.record_keys.to_pylist(),
            entries.partition_paths.to_pylist(),
            entries.ordering.to_pylist(),
            strict=True,
        )
    ]


def text(value: str) -> bytes:
    return bytes([2, 2 * len(value)]) + value.encode()


# --- as real Hudi writes them -----------------------------------------------------------------------------------------


def test_every_block_of_real_tables_is_written_again_with_the_same_bytes(
    shared_tables: Path, later_tables: Path
) -> None:
    found: dict[str, int] = {}
    for folder in (shared_tables, later_tables):
        for path in log_files_in(folder, with_metadata_tables=True):
            for part in read_log_blocks(path.read_bytes(), str(path)):
                if part.block_type is not HoodieLogBlockType.DELETE:
                    continue
                entries = decode_delete_block(part)
                if not entries:
                    assert part.content == body(b"\0")
                    continue
                (deletes,) = entries
                ordering = deletes.ordering if deletes.ordering.type != pa.null() else None
                (again,) = encode_delete_blocks(deletes.record_keys, deletes.partition_paths, ordering, "{}", "001")
                assert next(read_log_blocks(again, PATH)).content == part.content
                kind = str(deletes.ordering.type)
                found[kind] = found.get(kind, 0) + 1
    assert found["null"] > 30 and found["int64"] > 15 and found["struct<0: int64, 1: double>"] == 2


def test_a_delete_without_an_ordering_value() -> None:
    (entries,) = decode_delete_block(block(EXAMPLE))
    assert entries.instant_time == "001"
    assert entries.record_keys.to_pylist() == ["TXN-005"]
    assert entries.partition_paths.to_pylist() == [""]
    assert entries.ordering.type == pa.null()
    (again,) = encode_delete_blocks(entries.record_keys, entries.partition_paths, None, "{}", "001")
    (part,) = read_log_blocks(again, PATH)
    assert part.content == EXAMPLE
    assert part.headers == {HeaderMetadataType.INSTANT_TIME: "001", HeaderMetadataType.SCHEMA: "{}"}


# --- wrappers ---------------------------------------------------------------------------------------------------------

WRAPPED = [
    (1, pa.array([True, False]), None),
    (2, pa.array([1, -5], pa.int32()), None),
    (2, pa.array([1, -5], pa.int8()), pa.int32()),
    (3, pa.array([0, 1 << 60], pa.int64()), None),
    (4, pa.array([0.5, -1.0], pa.float32()), None),
    (5, pa.array([0.5, float("inf")], pa.float64()), None),
    (6, pa.array([b"", b"\xff\x00"], pa.binary()), None),
    (7, pa.array(["", "é" * 100], pa.string()), None),
    (2, pa.array([dt.date(2024, 1, 2), dt.date(1960, 1, 2)], pa.date32()), pa.int32()),
    (9, pa.array([decimal.Decimal("1.50"), decimal.Decimal("-7.25")], pa.decimal128(9, 2)), pa.decimal128(30, 15)),
    (10, pa.array([0, 86_399_999_999], pa.time64("us")), None),
    (3, pa.array([0, 1_700_000_000_000_000], pa.timestamp("us", tz="UTC")), pa.int64()),
    (3, pa.array([0, -1], pa.timestamp("us")), pa.int64()),
]


@pytest.mark.parametrize(("wrapper", "ordering", "stored_type"), WRAPPED, ids=[str(case[1].type) for case in WRAPPED])
def test_ordering_values_of_each_type_come_back(wrapper: int, ordering: pa.Array, stored_type: pa.DataType) -> None:
    (part,) = encoded(["a", "b"], ordering)
    assert part.content[8:].startswith(b"\x04" + text("a") + text("p") + bytes([2 * wrapper]))
    (entries,) = decode_delete_block(part)
    assert entries.ordering.type == (stored_type or ordering.type)
    assert entries.ordering.equals(ordering.cast(entries.ordering.type))


def test_values_of_time_in_the_wrapper_of_hudi_for_them_are_read() -> None:
    for wrapper, kind in ((b"\x16", pa.timestamp("us", tz="UTC")), (b"\x10", pa.date32())):
        content = body(b"\x02" + text("a") + text("p") + wrapper + b"\x80\x01" + b"\0")
        (entries,) = decode_delete_block(block(content))
        assert entries.ordering.cast(pa.int32() if kind == pa.date32() else pa.int64()).to_pylist() == [64]
        assert entries.ordering.type == kind


def test_a_null_ordering_value_is_a_hard_delete() -> None:
    content = body(b"\x02" + text("a") + b"\0" + b"\0" + b"\0")
    assert decoded([block(content)]) == [("a", None, None)]


def test_several_ordering_fields_make_a_struct() -> None:
    ordering = pa.StructArray.from_arrays(
        [pa.array([200, 3, 0], pa.int64()), pa.array([0.0, 1.5, 0.0])],
        names=["0", "1"],
        mask=pa.array([False, False, True]),
    )
    typed, hard = encoded(["a", "b", "c"], ordering)
    first = text("a") + text("p") + bytes.fromhex("18 02 04 06 9003 0a") + struct.pack("<d", 0.0) + b"\0"
    assert typed.content[8:].startswith(b"\x04" + first)
    assert decoded([typed]) == [("a", "p", {"0": 200, "1": 0.0}), ("b", "p", {"0": 3, "1": 1.5})]
    assert decoded([hard]) == [("c", "p", None)]


def test_several_ordering_fields_of_which_one_is_null_or_a_local_date() -> None:
    value = bytes.fromhex("18 02 06 00 18 02 04 00 00")
    (entries,) = decode_delete_block(block(body(b"\x02" + text("a") + text("p") + value + b"\0")))
    assert entries.ordering.to_pylist() == [{"0": None, "1": dt.date(1970, 1, 2), "2": 0}]


def test_each_block_has_values_of_one_type() -> None:
    keys, ordering = ["a", "b", "c", "d"], pa.array([5, None, 7, None], pa.int64())
    typed, hard = encoded(keys, ordering)
    assert decoded([typed]) == [("a", "p", 5), ("c", "p", 7)]
    assert decoded([hard]) == [("b", "p", None), ("d", "p", None)]
    assert hard.content == encoded(["b", "d"])[0].content


def test_values_of_an_int_column_share_a_block_with_hard_deletes() -> None:
    for kind in (pa.int32(), pa.date32()):
        (part,) = encoded(["a", "b", "c"], pa.array([5, None, -1], pa.int32()).view(kind))
        assert decoded([part]) == [("a", "p", 5), ("b", "p", None), ("c", "p", -1)]


def test_hard_deletes_are_read_together_with_values_of_any_type() -> None:
    hard = text("h") + text("p") + b"\x04\x00"
    long = text("l") + text("p") + b"\x06\x0a"
    (entries,) = decode_delete_block(block(body(b"\x08" + hard + long + hard + long + b"\0")))
    assert entries.ordering.equals(pa.array([None, 5, None, 5], pa.int64()))
    assert entries.record_keys.to_pylist() == ["h", "l", "h", "l"]


def test_a_mix_of_types_comes_as_several_entries_in_order() -> None:
    hard = text("h") + text("p") + b"\x04\x00"
    long = text("l") + text("p") + b"\x06\x0a"
    double = text("d") + text("p") + b"\x0a" + struct.pack("<d", 2.5)
    content = body(b"\x0e" + hard + long + long + hard + double + hard + long + b"\0")
    entries = decode_delete_block(block(content))
    assert [part.record_keys.to_pylist() for part in entries] == [["h", "l", "l", "h"], ["d", "h"], ["l"]]
    assert [part.ordering for part in entries] == [
        pa.array([None, 5, 5, None], pa.int64()), pa.array([2.5, None]), pa.array([5], pa.int64())
    ]  # fmt: skip


def test_arrays_in_parts_are_read() -> None:
    one = text("a") + text("p") + b"\x06\x0a"
    two = text("b") + text("p") + b"\x06\x0c"
    content = body(b"\x02" + one + b"\x01" + bytes([2 * len(two)]) + two + b"\0")
    assert decoded([block(content)]) == [("a", "p", 5), ("b", "p", 6)]


def test_long_keys_and_keys_that_are_not_ascii_come_back() -> None:
    keys = ["", "k" * 63, "k" * 64, "ключ" * 5000, "𝄞"]
    assert [key for key, _, _ in decoded(encoded(keys))] == keys


@given(st.lists(st.tuples(st.text(max_size=80), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)), max_size=40))
def test_any_records_come_back(records: list[tuple[str, int | None]]) -> None:
    ordering = pa.array([value for _, value in records], pa.int64())
    found = decoded(encoded([key for key, _ in records], ordering))
    expected = [(key, "p", value) for key, value in records]
    assert found == [r for r in expected if r[2] is not None] + [r for r in expected if r[2] is None]


# --- writing ----------------------------------------------------------------------------------------------------------


def test_no_records_make_no_block() -> None:
    assert encoded([]) == [] and encoded([], pa.array([], pa.int64())) == []


def test_a_block_is_no_larger_than_asked() -> None:
    keys = [f"key-{number:05}" for number in range(1000)]
    blocks = encoded(keys, pa.array(range(1000), pa.int64()), max_block_bytes=500)
    assert len(blocks) > 20
    assert 400 < max(len(part.content) for part in blocks) <= 500
    assert decoded(blocks) == [(key, "p", number) for number, key in enumerate(keys)]
    assert len(encoded(keys[:3], max_block_bytes=1)) == 3


def test_positions_are_written_in_order_with_each_block() -> None:
    keys, ordering = ["a", "b", "c", "d"], pa.array([None, 5, None, 7], pa.int64())
    positions = np.array([9, 4, 2, 1])
    blocks = encoded(keys, ordering, positions=positions, positions_of="000")
    assert decoded(blocks) == [("d", "p", 7), ("b", "p", 5), ("c", "p", None), ("a", "p", None)]
    headers = [part.headers[HeaderMetadataType.RECORD_POSITIONS] for part in blocks]
    assert [decode_positions(header, 2).tolist() for header in headers] == [[1, 4], [2, 9]]
    assert {part.headers[HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] for part in blocks} == {"000"}


def test_positions_that_two_records_share_are_left_out() -> None:
    (part,) = encoded(["a", "b"], positions=np.array([3, 3]), positions_of="000")
    assert HeaderMetadataType.RECORD_POSITIONS not in part.headers
    assert [key for key, _, _ in decoded([part])] == ["a", "b"]


@pytest.mark.parametrize(
    ("ordering", "message"),
    [
        (pa.array([[1]]), "no ordering values of type list"),
        (pa.array([decimal.Decimal("1e20")], pa.decimal128(30, 0)), "30 digits"),
    ],
)
def test_values_that_hudi_cannot_store_are_refused(ordering: pa.Array, message: str) -> None:
    with pytest.raises(HoodieSchemaException, match=message):
        encoded(["a"], ordering)


def test_a_key_that_is_null_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="1 record keys are null"):
        list(encode_delete_blocks(pa.array(["a", None]), pa.array(["p", "p"]), None, "{}", "001"))


# --- damaged ----------------------------------------------------------------------------------------------------------


def damaged(content: bytes) -> str:
    with pytest.raises(HoodieCorruptedDataException) as error:
        decode_delete_block(block(content))
    assert f"the block at byte 17 of {PATH}" in str(error.value)
    return str(error.value)


def test_content_that_ends_anywhere_is_refused() -> None:
    for part in (
        *encoded(["a", "b" * 100], pa.array([None, 1 << 40], pa.int64())),
        *encoded(["a", "b"], pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["x", "y"])], names=["0", "1"])),
    ):
        for length in range(len(part.content)):
            damaged(part.content[:length])
            if length >= 8:
                damaged(body(part.content[8:length]))


@pytest.mark.parametrize(
    "array",
    [
        b"\x02" + b"\x04" + b"a" + text("p") + b"\x04\x00\x00",
        b"\x02" + b"\x02\x01" + text("p") + b"\x04\x00\x00",
        b"\x02" + b"\x02\xff\xff\xff\xff\x0f" + text("p") + b"\x04\x00\x00",
        b"\x02" + b"\x02" + b"\x80" * 20 + text("p") + b"\x04\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x1a\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x05\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x04" + b"\x80" * 11 + b"\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x0e\x01\x00",
        b"\x02" + text("a") + text("p") + b"\x18\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x18\x02\x01\x00",
        b"\x02" + text("a") + text("p") + b"\x18\x02" + b"\xfe\xff\xff\xff\x0f" + b"\0" * 20,
        b"\x02" + b"\x00" + text("p") + b"\x04\x00\x00",
        b"\x02" + b"\x02\x02\xff" + text("p") + b"\x04\x00\x00",
        b"\x04" + text("a") + text("p") + b"\x04\x00\x00",
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + text("a") + text("p") + b"\x04\x00\x00",
        b"\x02" + text("a") + text("p") + b"\x04\x00\x00\x00",
        b"",
    ],
)
def test_hostile_content_is_refused_by_name(array: bytes) -> None:
    damaged(body(array))


def test_a_length_that_does_not_fit_is_refused() -> None:
    for length in (0, 14, 16, -1, 2**31 - 1):
        damaged(struct.pack(">ii", 3, length) + EXAMPLE[8:])


def test_ordering_values_of_many_kinds_are_refused_before_they_cost_time() -> None:
    records = b"".join(
        text("a") + text("p") + b"\x18\x02" + bytes([2 * number]) + bytes([4, 0]) * number + b"\0"
        for number in range(1, 60)
    )
    pairs = b"".join(
        text("a") + text("p") + b"\x18\x02\x04" + bytes([2 * first, 0, 2 * second, 0]) + b"\0"
        for first in (2, 3, 6, 7, 8, 10, 11)
        for second in (2, 3, 6, 7, 8, 10, 11)
    )
    assert "too many kinds" in damaged(body(b"\xd8\x01" + records + pairs + b"\0"))


@settings(max_examples=300)
@given(st.data())
def test_any_changed_byte_is_read_or_refused_and_never_another_error(data: st.DataObject) -> None:
    struct_values = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["x", "y"])], names=["0", "1"])
    ordering = data.draw(st.sampled_from([None, pa.array([1, 1 << 40], pa.int64()), struct_values, pa.array([0.5, 1])]))
    (part,) = encoded(["a", "b" * 70], ordering)
    place = data.draw(st.integers(0, len(part.content) - 1))
    changed = part.content[:place] + bytes([data.draw(st.integers(0, 255))]) + part.content[place + 1 :]
    try:
        for entries in decode_delete_block(block(changed)):
            assert entries.record_keys.null_count == 0
            assert len(entries.record_keys) == len(entries.partition_paths) == len(entries.ordering)
    except HoodieException as error:
        assert PATH in str(error)


def test_other_versions_are_refused_with_a_way_out() -> None:
    with pytest.raises(HoodieNotSupportedException, match="version 4 .* compact the table"):
        decode_delete_block(block(struct.pack(">ii", 4, 1) + b"\0"))


# --- old versions -----------------------------------------------------------------------------------------------------


def test_a_block_of_version_2_of_real_hudi_is_read(shared_vectors: Path) -> None:
    content = (shared_vectors / "hudi-common/format/delete-block-v2-content-10-records.data").read_bytes()
    (entries,) = decode_delete_block(block(content))
    assert entries.record_keys.to_pylist()[0] == "d448e1b8-a0d4-45c0-bf2d-a9e16ff3c8ce"
    assert entries.record_keys.to_pylist()[9] == "d76007d2-9dc8-46ff-bf6f-0789c6ffffc0"
    assert entries.partition_paths.to_pylist() == ["0000/00/00"] * 10
    assert entries.ordering.type == pa.null() and len(entries.ordering) == 10


def test_a_block_of_version_2_that_is_damaged_is_refused(shared_vectors: Path) -> None:
    content = (shared_vectors / "hudi-common/format/delete-block-v2-content-10-records.data").read_bytes()
    for length in range(len(content) - 8):
        damaged(struct.pack(">ii", 2, length) + content[8 : 8 + length])
    rng = np.random.default_rng(3)
    for place in range(8, len(content)):
        changed = content[:place] + bytes([rng.integers(256)]) + content[place + 1 :]
        try:
            decode_delete_block(block(changed))
        except HoodieException as error:
            assert PATH in str(error)


def test_ordering_values_of_version_2_keep_their_type() -> None:
    name = "org.apache.hudi.common.model."

    def ascii_text(value: str) -> bytes:
        return value[:-1].encode() + bytes([ord(value[-1]) | 0x80])

    head = b"\x01\x00" + ascii_text(f"[L{name}DeleteRecord;") + b"\x01\x04"
    first = b"\x01\x01" + ascii_text(f"{name}DeleteRecord") + b"\x01"
    first += b"\x01\x02" + ascii_text(f"{name}HoodieKey") + b"\x01\x01" + b"\x82p" + b"\x01" + b"\x82a"
    later = b"\x01\x01\x01\x01\x02\x01\x05\x01"
    records = first + b"\x09" + b"\x0a" + later + b"\x82b" + b"\x02\x00" + later + b"\x83\xc3\xa9c" + b"\x03\x01\x82x"
    (longs, texts) = decode_delete_block(block(struct.pack(">ii", 2, len(head + records)) + head + records))
    assert longs.record_keys.to_pylist() == ["a", "b"] and longs.ordering.equals(pa.array([5, None], pa.int64()))
    assert texts.record_keys.to_pylist() == ["éc"] and texts.ordering.to_pylist() == ["x"]
    assert texts.partition_paths.to_pylist() == ["p"]


def test_a_block_of_version_1_holds_keys() -> None:
    name = b"org.apache.hudi.common.model.HoodieKe"
    head = b"\x01\x00[L" + name + b"y\xbb\x01\x02"
    record = b"\x01\x01" + name + b"\xf9\x01\x01\x82p\x01\x82a"
    assert decoded([block(struct.pack(">ii", 1, len(head + record)) + head + record)]) == [("a", "p", None)]


def test_other_classes_in_old_blocks_are_refused_by_name() -> None:
    head = b"\x01\x00" + b"java.lang.Runtim\xe5" + b"\x01\x02"
    assert "java.lang.Runtime" in damaged(struct.pack(">ii", 2, len(head)) + head)
