"""Avro object container files, beside fastavro."""

from __future__ import annotations

import importlib.util
import io
import json
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.avro.container_file import ContainerFile
from hoodie.exception import HoodieCorruptedDataException, HoodieSchemaException
from tests.support.avro_values import number, python_rows, record_of, records

Json = dict[str, Any]
TRIP = record_of(("uuid", "string"), ("fare", ["null", "double"]), ("tags", {"type": "array", "items": "string"}))
CODECS = [
    codec
    for codec, module in [
        ("null", "zlib"), ("deflate", "zlib"), ("bzip2", "bz2"), ("xz", "lzma"),
        ("snappy", "cramjam"), ("zstandard", "backports.zstd"),
    ]
    if importlib.util.find_spec(module.partition(".")[0]) is not None
]  # fmt: skip


def trips(count: int) -> list[Json]:
    return [
        {"uuid": f"u{row}", "fare": None if row % 3 else row / 2, "tags": ["a"] * (row % 4)} for row in range(count)
    ]


def written(schema: Json, rows: list[Json], codec: str = "null", block_bytes: int = 16_000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), rows, codec, block_bytes)
    return out.getvalue()


def read(content: bytes, wanted: Json | None = None) -> list[Json]:
    batches = list(ContainerFile(io.BytesIO(content)).rows(None if wanted is None else json.dumps(wanted)))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in python_rows(batch)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("block_bytes", [1, 500, 16_000])
def test_the_records_of_a_file_are_its_rows(codec: str, block_bytes: int) -> None:
    rows = trips(1000)
    assert read(written(TRIP, rows, codec, block_bytes)) == rows


def test_blocks_of_snappy_and_zstandard_are_read() -> None:
    """Blocks made by Arrow, since the libraries that fastavro needs for them may be missing."""
    rows = trips(10)
    plain = written(TRIP, rows)
    sync = plain[-16:]
    header, _, body = plain.partition(sync)
    # The count takes one byte; the size takes two.
    records = body[3 : -len(sync)]
    for codec, packed in (
        ("snappy", pa.compress(records, "snappy", asbytes=True) + zlib.crc32(records).to_bytes(4, "big")),
        ("zstandard", pa.compress(records, "zstd", asbytes=True)),
    ):
        named = header.replace(number(4) + b"null", number(len(codec)) + codec.encode())
        content = named + sync + number(10) + number(len(packed)) + packed + sync
        assert read(content) == rows
        with pytest.raises(HoodieCorruptedDataException, match="block 1 is damaged"):
            read(named + sync + number(10) + number(len(packed) - 5) + packed[:-5] + sync)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), records(), st.sampled_from([1, 1, 9, 40]), st.sampled_from([1, 100, 16_000]))
@pytest.mark.one_in(4)
def test_rows_are_those_of_fastavro(data: st.DataObject, record: tuple[Json, Any], times: int, block: int) -> None:
    schema, values = record
    content = written(schema, data.draw(st.lists(values, max_size=6)) * times, block_bytes=block)
    assert read(content) == list(fastavro.reader(io.BytesIO(content)))


def test_records_are_read_as_those_of_another_schema() -> None:
    wanted = record_of(("id", "string"), ("city", "string"))
    wanted["fields"][0]["aliases"] = ["uuid"]
    wanted["fields"][1]["default"] = "nowhere"
    assert read(written(TRIP, trips(3)), wanted) == [{"id": f"u{row}", "city": "nowhere"} for row in range(3)]
    with pytest.raises(HoodieSchemaException, match="^Field 'uuid' is written as string"):
        read(written(TRIP, trips(3)), record_of(("uuid", "int")))


def test_a_file_without_records_has_no_rows() -> None:
    assert read(written(TRIP, [])) == []


def test_blocks_without_records_do_not_matter() -> None:
    content = written(TRIP, trips(5))
    empty = number(0) + number(0) + content[-16:]
    assert read(content + empty) == trips(5)
    with pytest.raises(HoodieCorruptedDataException, match="block 2 is damaged: bytes belong to no record"):
        read(content + number(0) + number(1) + b"x" + content[-16:])


def test_a_file_that_ends_anywhere_within_is_damaged() -> None:
    content = written(TRIP, trips(40), block_bytes=200)
    bounds = {len(written(TRIP, []))} | {
        place + 16 for place in range(len(content)) if content[place : place + 16] == content[-16:]
    }
    for size in range(len(content)):
        if size in bounds:
            assert read(content[:size]) == trips(40)[: len(read(content[:size]))]
            continue
        with pytest.raises(HoodieCorruptedDataException):
            read(content[:size])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no Avro object container file"),
        (b"Obj\x02" + b"\0" * 50, "it does not begin as one"),
        (b"PAR1" + b"\0" * 50, "it does not begin as one"),
        (b"Obj\x01\0" + b"\0" * 16, "it has no schema"),
        (b"Obj\x01" + number(1) + number(1 << 40), "wrong length"),
        (b"Obj\x01" + number(1 << 60) + b"\0" * 100, "the file ends within it"),
        (b"Obj\x01" + b"\xff" * 50, "more than 64 bits"),
        (b"Obj\x01" + number(1) + number(11) + b"avro.schema" + number(2) + b"{}" + b"\0" * 17, "it is not a record"),
    ],
)
def test_bytes_that_are_no_file_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=said):
        read(content)


def test_a_codec_that_is_not_known_is_named() -> None:
    content = written(TRIP, trips(3), "deflate").replace(b"deflate", b"brotlis")
    with pytest.raises(HoodieCorruptedDataException, match="compressed with brotlis"):
        read(content)


@pytest.mark.parametrize("codec", ["null", "deflate"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_byte_never_gives_other_errors(codec: str, data: st.DataObject) -> None:
    content = bytearray(written(TRIP, trips(20), codec, 100))
    begin = len(written(TRIP, [], codec))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(begin, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(read(bytes(content))) < 10_000
    except HoodieCorruptedDataException as error:
        assert "block" in str(error)


def test_a_damaged_block_is_named_by_its_number_and_field() -> None:
    schema = record_of(("flag", "boolean"))
    content = bytearray(written(schema, [{"flag": True}] * 100, block_bytes=10))
    blocks = [place for place in range(len(content)) if bytes(content[place : place + 16]) == bytes(content[-16:])]
    content[blocks[3] - 1] = 7
    with pytest.raises(HoodieCorruptedDataException, match="block 3 is damaged: field 'flag': a boolean is neither"):
        read(bytes(content))


def test_the_bytes_after_a_block_are_checked() -> None:
    content = bytearray(written(TRIP, trips(3)))
    content[-1] ^= 1
    with pytest.raises(HoodieCorruptedDataException, match="block 1 is damaged: the bytes after it"):
        read(bytes(content))


def test_the_compressed_bytes_of_a_block_are_checked() -> None:
    rows = trips(10)
    plain = written(TRIP, rows)
    sync = plain[-16:]
    header, _, body = plain.partition(sync)
    # The count takes one byte; the size takes two.
    records = body[3 : -len(sync)]
    endless = zlib.compressobj(wbits=-15)
    deflated = endless.compress(records) + endless.flush(zlib.Z_SYNC_FLUSH)
    wrong_sum = pa.compress(records, "snappy", asbytes=True) + b"\0\0\0\0"
    for codec, packed, said in (
        ("deflate", deflated, "compressed bytes are cut short"),
        ("snappy", wrong_sum, "checksum"),
    ):
        named = header.replace(number(4) + b"null", number(len(codec)) + codec.encode())
        with pytest.raises(HoodieCorruptedDataException, match=f"block 1 is damaged: .*{said}"):
            read(named + sync + number(10) + number(len(packed)) + packed + sync)


def test_a_block_that_announces_more_than_there_is_takes_no_memory() -> None:
    header = written(TRIP, [])
    for count, size in ((1, 1 << 40), (1 << 60, 5), (-1, 5), (1, -5)):
        with pytest.raises(HoodieCorruptedDataException, match="block 1 is damaged"):
            read(header + number(count) + number(size) + b"\0" * 5 + header[-16:])
