"""HFiles that real Hudi wrote are read, and written again byte for byte."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.exception import HoodieException
from hoodie.io.hfile.block_codec import HEADER_BYTES, HFileCompression, decode_block
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.hfile.hfile_writer import HFileWriter
from hoodie.io.log.hfile_block import open_hfile_block
from hoodie.io.log.hfile_block_writer import encode_hfile_block
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from tests.support.log_files import log_files_in

WRITTEN_BY_HBASE = frozenset({"KEY_VALUE_VERSION", "MAX_MEMSTORE_TS_KEY"})
WRITTEN_WITH_BLOOM_FILTER = frozenset({"minRecordKey", "maxRecordKey", "bloomFilterTypeCode"})
JDK_8, JDK_16 = 0, 255
"""Which operating system Java names in gzip streams."""


def written_again(reader: HFileReader, block_bytes: int = 1 << 20) -> bytes:
    """The same entries, file info and bloom filter, written by hoodie."""
    others = {
        name: value
        for name, value in reader.file_info.items()
        if not name.startswith("hfile.") and name not in WRITTEN_BY_HBASE | WRITTEN_WITH_BLOOM_FILTER
    }
    sink = io.BytesIO()
    compression = reader.trailer.compression
    writer = HFileWriter(sink, "again", None, compression=compression, block_bytes=block_bytes, file_info=others)
    for batch in reader.batches(batch_bytes=1):
        writer.write(batch["key"], batch["value"])
    writer.finish(reader.read_bloom_filter() if "bloomFilterTypeCode" in reader.file_info else None)
    return sink.getvalue()


def contents_of(data: bytes) -> list[bytes]:
    """The contents of all blocks of a file, whatever their compressed bytes are."""
    reader, position, found = HFileReader.of_bytes(data, "x"), 0, []
    while position + HEADER_BYTES <= len(data) and not data[position:].startswith(b"TRABLK"):
        header, content = decode_block(data[position:], reader.trailer.compression, "x")
        found.append(content)
        position += header.stored_bytes
    return found


def check_look_ups(reader: HFileReader, entries: pa.Table) -> None:
    """Look-ups find what a scan finds."""
    assert reader.look_up(entries["key"]).equals(entries)
    assert reader.look_up_prefixes(pa.array([""])).equals(entries)
    keys = entries["key"].to_pylist()
    for key in keys[:: max(1, len(keys) // 7)]:
        expected = [other for other in keys if other.startswith(key[: len(key) // 2])]
        assert reader.look_up_prefixes(pa.array([key[: len(key) // 2]]))["key"].to_pylist() == expected
        assert reader.look_up(pa.array([key + "~", key, "!"]))["key"].to_pylist() == [key]


def hfiles_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All HFiles of metadata tables: base files, and contents of log blocks."""
    for path in sorted(folder.rglob("*.hfile")):
        if not path.name.startswith("."):
            yield str(path), path.read_bytes()
    for path in log_files_in(folder, with_metadata_tables=True):
        for block in read_log_blocks(path.read_bytes(), str(path)):
            if block.block_type is HoodieLogBlockType.HFILE_DATA:
                yield block.source, block.content


@pytest.mark.parametrize("tables", ["shared_tables", "later_tables"])
@pytest.mark.one_in(4)
def test_every_hfile_of_real_metadata_tables_is_read_and_hbase_ones_are_written_alike(
    tables: str, request: pytest.FixtureRequest
) -> None:
    found: Counter[str] = Counter()
    for source, data in hfiles_of(request.getfixturevalue(tables)):
        reader = HFileReader.of_bytes(data, source)
        entries = reader.read_all()
        check_look_ups(reader, entries)
        assert entries["key"].to_pylist() == sorted(entries["key"].to_pylist())
        assert json.loads(str(reader.avro_schema))["name"] == "HoodieMetadataRecord"
        bloom_filter = reader.read_bloom_filter()
        if bloom_filter is not None:
            assert bloom_filter.might_contain(entries["key"]).all()
            assert (reader.min_record_key, reader.max_record_key) == (
                entries["key"][0].as_py(),
                entries["key"][-1].as_py(),
            )
        if reader.trailer.minor_version == 0:
            found["by Hudi"] += 1
            continue
        again = written_again(reader)
        if "minRecordKey" in reader.file_info and bloom_filter is None:
            found["by hand"] += 1
        elif data[HEADER_BYTES + 9] == JDK_8:
            found["by HBase"] += 1
            assert again == data, source
        else:
            assert data[HEADER_BYTES + 9] == JDK_16
            found["by HBase on a newer JDK"] += 1
            assert contents_of(again)[:-1] == contents_of(data)[:-1], source
            assert len(again) == len(data)
    least = {
        "shared_tables": {"by HBase": 180, "by Hudi": 50},
        "later_tables": {"by HBase": 2, "by Hudi": 190, "by HBase on a newer JDK": 16},
    }
    for kind, count in least[tables].items():
        assert found[kind] >= count, found


def test_log_blocks_of_hbase_are_written_again_byte_for_byte(shared_tables: Path) -> None:
    count = 0
    for path in log_files_in(shared_tables, with_metadata_tables=True):
        for block in read_log_blocks(path.read_bytes(), str(path)):
            if block.block_type is not HoodieLogBlockType.HFILE_DATA:
                continue
            reader = open_hfile_block(block)
            if reader.trailer.minor_version != 3 or block.content[HEADER_BYTES + 9] != JDK_8:
                continue
            entries = reader.read_all().combine_chunks()
            key, value = (entries[name].chunk(0) for name in ("key", "value"))
            again = encode_hfile_block(key, value, str(block.schema), str(block.instant_time))
            (mine,) = read_log_blocks(again, "mine")
            assert mine.content == block.content
            assert mine.headers == block.headers
            count += 1
    assert count > 130


ONE_LEVEL = [
    ("hudi_0_11_hbase_2_4_9_simple", 1 << 20),
    ("hudi_0_11_hbase_2_4_9_complex", 1 << 20),
    ("hudi_1_0_hbase_2_4_9_no_entry", 1 << 20),
    ("hudi_1_0_hbase_2_4_9_16KB_GZ_20000", 16 << 10),
    ("hudi_1_0_hbase_2_4_9_512KB_GZ_20000", 512 << 10),
    ("hudi_1_0_hbase_2_4_9_16KB_NONE_5000", 16 << 10),
    ("hudi_1_0_hbase_2_4_9_64KB_NONE_5000", 64 << 10),
    ("hudi_1_0_hbase_2_4_13_16KB_GZ_20000_fake_first_key", 16 << 10),
]


@pytest.mark.parametrize(("name", "block_bytes"), ONE_LEVEL)
def test_vectors_of_hbase_are_written_again_with_all_their_blocks(
    shared_vectors: Path, name: str, block_bytes: int
) -> None:
    data = (shared_vectors / f"hudi-io/hfile/{name}.hfile").read_bytes()
    reader = HFileReader.of_bytes(data, name)
    check_look_ups(reader, reader.read_all())
    again = written_again(reader, block_bytes)
    if "bloomFilterTypeCode" in reader.file_info:
        assert again == data
        return
    # These have a meta block that no table has, and a comparator of HBase's own.
    last = reader.trailer.last_data_block_offset
    assert last is not None
    header, _ = decode_block(data[last:], reader.trailer.compression, name)
    assert again[: last + header.stored_bytes] == data[: last + header.stored_bytes]
    assert len(reader.meta_block_names) == 1
    real = contents_of(data)
    root = reader.trailer.data_index_count + 1
    assert contents_of(again)[root - 1] == real[root]
    assert HFileReader.of_bytes(again, "again").file_info == reader.file_info


@pytest.mark.parametrize("name", ["hudi_0_9_hbase_1_2_3", "hudi_0_10_hbase_1_2_3"])
@pytest.mark.parametrize("schema", ["simple", "complex"])
def test_files_of_hbase_1_are_read(shared_vectors: Path, name: str, schema: str) -> None:
    data = (shared_vectors / f"hudi-io/hfile/{name}_{schema}.hfile").read_bytes()
    reader = HFileReader.of_bytes(data, name)
    entries = reader.read_all()
    check_look_ups(reader, entries)
    assert entries["key"].to_pylist() == [f"key{number:02}" for number in range(50)]
    assert json.loads(str(reader.avro_schema))["name"] == "trip"


@pytest.mark.one_in(4)
def test_an_index_of_three_levels_is_searched(shared_vectors: Path) -> None:
    name = "hudi_1_0_hbase_2_4_13_1KB_GZ_10000_large_keys_deep_index"
    reader = HFileReader.of_bytes((shared_vectors / f"hudi-io/hfile/{name}.hfile").read_bytes(), name)
    assert reader.trailer.data_index_levels == 3
    entries = reader.read_all()
    assert entries.num_rows == 10_000
    check_look_ups(reader, entries)
    every_17th = entries.take(pa.array(range(0, 10_000, 17)))
    assert reader.look_up(every_17th["key"]).equals(every_17th)


def test_all_entries_of_a_key_that_is_not_unique_are_found(shared_vectors: Path) -> None:
    name = "hudi_1_0_hbase_2_4_9_16KB_GZ_200_20_non_unique"
    reader = HFileReader.of_bytes((shared_vectors / f"hudi-io/hfile/{name}.hfile").read_bytes(), name)
    entries = reader.read_all()
    for key in sorted(set(entries["key"].to_pylist())):
        found = reader.look_up(pa.array([key]))
        assert found.num_rows == 21
        assert found.equals(entries.filter(pa.compute.equal(entries["key"], key)))


def test_the_file_of_hudi_s_own_writer_is_read(shared_vectors: Path) -> None:
    data = (shared_vectors / "hudi-io/hfile/hudi-generated.hfile").read_bytes()
    reader = HFileReader.of_bytes(data, "hudi-generated")
    assert reader.trailer.compression is HFileCompression.NONE
    assert reader.read_all().to_pylist() == [
        {"key": f"row{number}", "value": f"value{number}".encode()} for number in range(1, 6)
    ]
    assert reader.meta_block_names == ["bloom_filter"]
    assert reader.read_meta_block("bloom_filter")
    assert reader.read_bloom_filter() is None


def test_no_changed_byte_of_a_real_file_is_read_as_something_else(shared_tables: Path) -> None:
    source, data = next(
        (source, data)
        for source, data in hfiles_of(shared_tables)
        if HFileReader.of_bytes(data, source).trailer.minor_version == 3 and source.endswith(".hfile")
    )
    expected = HFileReader.of_bytes(data, source).read_all()
    blocks_end = len(data) - 4096
    for place in range(0, blocks_end, 37):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        try:
            found = HFileReader.of_bytes(bytes(damaged), "damaged").read_all()
        except HoodieException as error:
            assert "damaged" in str(error) and "byte" in str(error)
            continue
        # The previous block's offset is in no use, nor is a meta block that nobody reads.
        assert found.equals(expected)
