"""Files of hostile size or depth are refused by name: nothing recurses, loops or allocates without end."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoodie
from hoodie.avro.schema_converters import to_arrow
from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
    decode,
    decode_datums,
    encode,
    schema_of,
)
from hoodie.common.bloom.bloom_filter import DynamicBloomFilter, SimpleBloomFilter
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.timeline.archived_entry import entry_schema
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieSchemaException
from hoodie.io.log.avro_block import avro_records
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_avro_data_block
from hoodie.io.log.log_file_reader import MAGIC, read_log_blocks
from hoodie.io.parquet.compact_protocol import read_struct
from hoodie.transaction.lock.storage_based_lock_provider import StorageLockData
from tests.support.services_table import ServicesTable
from tests.support.timeline_files import read_commit, state_file, write_commit

DEEP = 100_000
HUGE = (1 << 62) - 1
DEEP_JSON = b'{"a":' * DEEP + b"1" + b"}" * DEEP
DEEP_LIST = b"[" * DEEP + b"]" * DEEP


def varint(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def container(schema: object, block: bytes, count: int = 1, codec: str = "null") -> bytes:
    """An Avro file with one block, whatever that holds."""
    pairs = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
    header = varint(len(pairs))
    for key, value in pairs.items():
        header += varint(len(key)) + key.encode() + varint(len(value)) + value
    sync = b"s" * 16
    return b"Obj\x01" + header + varint(0) + sync + varint(count) + varint(len(block)) + block + sync


@pytest.mark.parametrize("data", [DEEP_JSON, DEEP_LIST, b'{"partitionToWriteStats":' + DEEP_LIST + b"}"])
def test_json_of_hostile_depth_is_refused(data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="1.commit"):
        HoodieCommitMetadata.from_json(data, "1.commit")
    with pytest.raises(HoodieCorruptedDataException, match="table_lock.json"):
        StorageLockData.from_json(data, "table_lock.json")


def test_a_number_of_a_million_digits_is_refused() -> None:
    with pytest.raises(HoodieCorruptedDataException, match="1.commit"):
        HoodieCommitMetadata.from_json(b'{"compacted": ' + b"9" * 1_000_000 + b"}", "1.commit")


@pytest.mark.parametrize("data", [DEEP_JSON, DEEP_LIST])
def test_a_commit_of_hostile_depth_stops_a_reader_by_its_name(tmp_path: Path, data: bytes) -> None:
    table = ServicesTable(tmp_path / "t")
    time = table.upsert("a")
    state_file(table.base_path, time).write_bytes(data)
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}(_\d+)?\.commit"):
        hoodie.read_table(str(table.base_path))


@pytest.mark.parametrize("wrap", ["type", "array", "union"])
def test_an_avro_schema_of_hostile_depth_is_refused(wrap: str) -> None:
    for depth in (500, 5000, DEEP):
        inner = {
            "type": '{"type":' * depth + '"int"' + "}" * depth,
            "array": '{"type":"array","items":' * depth + '"int"' + "}" * depth,
            "union": "[" * depth + '"int"' + "]" * depth,
        }[wrap]
        schema = '{"type":"record","name":"r","fields":[{"name":"a","type":' + inner + "}]}"
        with pytest.raises(HoodieSchemaException):
            to_arrow(schema)


@pytest.mark.one_in(4)
def test_an_avro_schema_that_multiplies_itself_is_refused() -> None:
    named = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}]}
    fields = [{"name": "f0", "type": named}]
    for number in range(1, 64):
        inner = [{"name": name, "type": f"r{number - 1}"} for name in "ab"]
        fields.append({"name": f"f{number}", "type": {"type": "record", "name": f"r{number}", "fields": inner}})
    with pytest.raises(HoodieSchemaException, match="more than 100000 columns"):
        to_arrow(json.dumps({"type": "record", "name": "top", "fields": fields}))


def test_a_schema_of_ten_thousand_columns_is_read() -> None:
    fields = [{"name": f"c{number}", "type": ["null", "long"]} for number in range(10_000)]
    assert len(to_arrow(json.dumps({"type": "record", "name": "top", "fields": fields}))) == 10_000


def test_a_nested_commit_schema_stops_a_reader_by_a_named_error(tmp_path: Path) -> None:
    table = ServicesTable(tmp_path / "t")
    time = table.upsert("a")
    inner = '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":' + inner + "}]}"
    metadata = read_commit(table.base_path, time)
    write_commit(table.base_path, time, attrs.evolve(metadata, extra_metadata={"schema": schema}))
    with pytest.raises(HoodieException):
        hoodie.read_table(str(table.base_path))


def test_a_plan_with_a_schema_of_hostile_depth_is_refused() -> None:
    nested = b'{"type":"array","items":' * DEEP + b'"int"' + b"}" * DEEP
    data = container("placeholder", b"").replace(b'"placeholder"', nested)
    with pytest.raises(HoodieCorruptedDataException, match=r"1\.rollback\.requested"):
        decode(data, HoodieRollbackPlan, "1.rollback.requested")


@pytest.mark.parametrize(
    ("items", "block"),
    [
        ("string", varint(HUGE)),
        ("string", varint(1) + varint(HUGE)),
        ("null", varint(HUGE)),
        ({"type": "fixed", "name": "nothing", "size": 0}, varint(HUGE)),
        ({"type": "record", "name": "empty", "fields": []}, varint(HUGE) + varint(0)),
        ("string", varint(-HUGE) + varint(-HUGE)),
        ("string", varint(-1) + varint(-20)),
    ],
)
def test_avro_that_announces_more_than_it_has_is_refused(items: object, block: bytes) -> None:
    """In a field that is read, and in one that is passed over."""
    for name in ("RollbackRequests", "unknown"):
        fields = [{"name": name, "type": {"type": "array", "items": items}}]
        schema = {"type": "record", "name": "HoodieRollbackPlan", "namespace": "org.apache.hudi.avro.model"}
        with pytest.raises(HoodieCorruptedDataException, match=r"1\.rollback\.requested"):
            decode(container(schema | {"fields": fields}, block), HoodieRollbackPlan, "1.rollback.requested")


def test_a_record_that_holds_itself_is_refused() -> None:
    fields = [{"name": "unknown", "type": {"type": "record", "name": "me", "fields": [{"name": "a", "type": "me"}]}}]
    schema = {"type": "record", "name": "HoodieRollbackPlan", "namespace": "org.apache.hudi.avro.model"}
    with pytest.raises(HoodieCorruptedDataException, match=r"1\.rollback\.requested"):
        decode(container(schema | {"fields": fields}, b""), HoodieRollbackPlan, "1.rollback.requested")


@pytest.mark.one_in(4)
def test_a_plan_that_unpacks_to_gigabytes_is_refused() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 24)
    bomb = b"".join(packer.compress(zeros) for _ in range(64)) + packer.flush()
    data = container(schema_of("HoodieRollbackPlan"), bomb, codec="deflate")
    assert len(data) < 1 << 21
    with pytest.raises(HoodieCorruptedDataException, match="it is compressed"):
        decode(data, HoodieRollbackPlan, "1.rollback.requested")


@pytest.mark.parametrize("datum", [b"", varint(HUGE), varint(2) + varint(HUGE), b"\xff" * 64])
def test_a_damaged_entry_of_the_archive_is_refused(datum: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="the archive"):
        decode_datums(entry_schema(), [datum], "the archive")


@pytest.mark.parametrize("size", [-1, 0, 1 << 62, -(1 << 62)])
@pytest.mark.parametrize("count", [1 << 30, -1, (1 << 31) - 1])
def test_a_log_block_that_announces_more_than_it_has_is_refused_or_torn(size: int, count: int) -> None:
    body = struct.pack(">iii", 1, 3, count) + struct.pack(">q", size) + bytes(16)
    block = MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)
    with pytest.raises(HoodieCorruptedDataException, match="the.log"):
        list(read_log_blocks(block, "the.log"))
    torn = MAGIC + struct.pack(">q", size) + body
    assert [block.block_type.name for block in read_log_blocks(torn, "the.log")] == ["CORRUPT"]


@pytest.mark.parametrize("numbers", [(1 << 30, 1 << 30), (1, (1 << 31) - 1), (-1, 1 << 31, 5), (10, 0)])
def test_a_bloom_filter_that_announces_more_than_it_has_is_refused(numbers: tuple[int, ...]) -> None:
    data = b"".join(struct.pack(">I", number & 0xFFFFFFFF) for number in numbers)
    for text in (base64.b64encode(data), base64.b64encode(data + bytes(64)), b"A" * 1001, b"\xff\xfe"):
        for kind in (SimpleBloomFilter, DynamicBloomFilter):
            with pytest.raises(HoodieCorruptedDataException):
                kind.from_base64(text)


@pytest.mark.parametrize(
    "data",
    [
        b"\x19" + b"\x19" * DEEP,
        b"\x1c" * DEEP,
        b"\x1b\x01\xbb" + b"\x01\xbb" * DEEP,
        b"\x15" + b"\xff" * DEEP,
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x19\xf3\xff\xff\xff\xff\xff\xff\xff\x7f",
    ],
    ids=["lists", "structs", "maps", "number", "text", "count"],
)
def test_a_footer_of_hostile_size_or_depth_is_refused(data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException):
        read_struct(data)


def test_a_clean_of_hostile_size_stops_the_next_clean_by_its_name(tmp_path: Path) -> None:
    table = ServicesTable(tmp_path / "t")
    table.upsert("a")
    schema = schema_of("HoodieCleanerPlan")
    data = container(schema, varint(0) + varint(HUGE))
    time = table.load().active_timeline.create_new_instant_time(Action.CLEAN, data)
    with pytest.raises(HoodieCorruptedDataException, match=rf"{time}\.clean\.requested"):
        table.client().clean()


PLAN = HoodieRollbackPlan(
    HoodieInstantInfo("20250101000000000", "commit"),
    (HoodieRollbackRequest("x", "f-0", "20250101000000000", ("/t/x/f-0_1-1-1_20250101000000000.parquet",)),),
)
BLOCK = encode_avro_data_block(entry_schema(), [b"\x00" * 16] * 3)
FILTER = DynamicBloomFilter.create(10, 0.01)
JSON = HoodieCommitMetadata({"x": (HoodieWriteStat("f-0", "x", "x/f-0.parquet", num_writes=3),)}, {"a": "b"}).to_json()


def read_block(data: bytes) -> None:
    for block in read_log_blocks(data, "the.log"):
        if block.schema is not None and block.block_type is HoodieLogBlockType.AVRO_DATA:
            avro_records(block)


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "plan": (encode(PLAN), lambda data: decode(data, HoodieRollbackPlan, "a plan")),
    "log block": (BLOCK, read_block),
    "bloom filter": (FILTER.to_bytes(), DynamicBloomFilter.from_bytes),
    "commit": (JSON, lambda data: HoodieReplaceCommitMetadata.from_json(data, "a commit")),
    "thrift": (bytes.fromhex("19ac15021580c2d72f18046e616d65000c151618026162000000"), read_struct),
}


@pytest.mark.parametrize("name", READERS)
@given(
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6), end=st.floats(0, 1)
)
def test_damage_of_any_kind_is_read_or_refused_by_a_named_error(
    name: str, changes: list[tuple[float, int]], end: float
) -> None:
    good, read = READERS[name]
    damaged = bytearray(good)
    for place, value in changes:
        damaged[int(place * len(damaged))] = value
    with suppress(HoodieException):
        read(bytes(damaged[: len(damaged) if changes else int(end * len(damaged))]))
