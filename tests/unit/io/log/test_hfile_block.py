"""HFile blocks in the log files of metadata tables."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.exception import HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException
from hoodie.io.hfile.block_codec import HFileCompression
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.hfile_block import open_hfile_block
from hoodie.io.log.hfile_block_writer import encode_hfile_block
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_avro_data_block, encode_rollback_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.log_records import LogDeletes
from hoodie.io.log.metadata_log_scanner import LogEncodedRecords, MetadataLogScanner
from hoodie.storage.local_storage import LocalStorage
from tests.support.log_files import log_file, log_files_in, write_log_file
from tests.support.plain_hfile import plain_hfile

SCHEMA = '{"type": "record", "name": "HoodieMetadataRecord", "fields": []}'
Found = tuple[str, list[str]]


def records(instant_time: str, *keys: str) -> bytes:
    values = pa.array([f"{instant_time} {key}".encode() for key in keys], pa.binary())
    return encode_hfile_block(pa.array(keys, pa.string()), values, SCHEMA, instant_time)


def deletes(instant_time: str, *keys: str) -> bytes:
    column = pa.array(keys, pa.string())
    (block,) = encode_delete_blocks(column, pa.repeat("record_index", len(keys)), None, SCHEMA, instant_time)
    return block


def scanned(files: list[HoodieLogFile], **wanted: pa.Array) -> list[Found]:
    found: list[Found] = []
    for entry in MetadataLogScanner(LocalStorage("/"), files).scan(**wanted):
        if isinstance(entry, LogEncodedRecords):
            keys = entry.entries["key"].to_pylist()
            assert entry.avro_schema == SCHEMA
            assert entry.entries["value"].to_pylist() == [f"{entry.instant_time} {key}".encode() for key in keys]
            found.append((entry.instant_time, keys))
        else:
            assert isinstance(entry, LogDeletes)
            found.append((f"-{entry.instant_time}", entry.record_keys.to_pylist()))
    return found


def test_a_block_holds_a_whole_hfile_between_the_headers_of_a_data_block() -> None:
    (block,) = read_log_blocks(records("12", "a", "b"), "/t/.f.log.1_0-0-0")
    assert block.block_type is HoodieLogBlockType.HFILE_DATA
    assert block.headers == {HeaderMetadataType.INSTANT_TIME: "12", HeaderMetadataType.SCHEMA: SCHEMA}
    assert block.content == plain_hfile([(b"a", b"12 a"), (b"b", b"12 b")], info={b"schema": SCHEMA.encode()})
    reader = open_hfile_block(block)
    assert reader.look_up(pa.array(["b"])).to_pylist() == [{"key": "b", "value": b"12 b"}]
    assert reader.meta_block_names == []


def test_blocks_are_stored_without_compression_if_asked() -> None:
    whole = encode_hfile_block(pa.array(["a"]), pa.array([b"1"]), SCHEMA, "12", compression=HFileCompression.NONE)
    (block,) = read_log_blocks(whole, "/t/.f.log.1_0-0-0")
    assert open_hfile_block(block).trailer.compression is HFileCompression.NONE


def test_keys_of_a_block_that_are_not_in_order_are_refused_with_the_instant() -> None:
    with pytest.raises(
        HoodieKeyException, match="an HFile block of the instant 12: the key of entry 1 'a' comes after"
    ):
        records("12", "b", "a")


def test_damage_is_told_with_the_log_file_and_both_places() -> None:
    (block,) = read_log_blocks(records("12", "a"), "/t/.f.log.1_0-0-0")
    damaged = attrs.evolve(block, content=block.content[:40] + b"x" + block.content[41:])
    with pytest.raises(HoodieCorruptedDataException) as told:
        open_hfile_block(damaged).read_all()
    assert "the block at byte 0 of the HFile in the block at byte 0 of /t/.f.log.1_0-0-0" in str(told.value)
    with pytest.raises(HoodieCorruptedDataException, match="it holds AVRO_DATA"):
        open_hfile_block(attrs.evolve(block, block_type=HoodieLogBlockType.AVRO_DATA))


def test_records_and_deletes_come_in_the_order_in_which_they_are_merged(tmp_path: Path) -> None:
    files = [
        write_log_file(tmp_path, records("13", "b", "d"), deletes("13", "c"), version=2),
        write_log_file(tmp_path, records("11", "a", "b", "c"), version=1),
        write_log_file(tmp_path, records("14", "a"), encode_rollback_block("15", "14"), version=3),
        write_log_file(tmp_path, records("16", "a", "z"), version=4),
    ]
    expected = [("11", ["a", "b", "c"]), ("13", ["b", "d"]), ("-13", ["c"]), ("16", ["a", "z"])]
    assert scanned(files) == expected
    keys, prefixes = pa.array(["z", "b"]), pa.array(["a"])
    assert scanned(files, keys=keys) == [("11", ["b"]), ("13", ["b"]), ("-13", ["c"]), ("16", ["z"])]
    assert scanned(files, prefixes=prefixes) == [("11", ["a"]), ("-13", ["c"]), ("16", ["a"])]
    found = scanned(files, keys=keys, prefixes=prefixes)
    assert found == [("11", ["b"]), ("11", ["a"]), ("13", ["b"]), ("-13", ["c"]), ("16", ["z"]), ("16", ["a"])]


def test_other_data_blocks_are_refused_by_name(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, encode_avro_data_block('"string"', [b"\2a"], {0: "11"}))
    with pytest.raises(
        HoodieNotSupportedException, match="is of type AVRO_DATA, and data blocks of metadata tables are"
    ):
        scanned([file])


@pytest.mark.parametrize("tables", ["shared_tables", "later_tables"])
def test_log_files_of_real_metadata_tables_are_scanned(tables: str, request: pytest.FixtureRequest) -> None:
    blocks = some = 0
    for path in log_files_in(request.getfixturevalue(tables), with_metadata_tables=True):
        if ".hoodie/metadata" not in str(path) or ".hoodie/metadata/.hoodie" in str(path):
            continue
        scanner = MetadataLogScanner(LocalStorage("/"), [log_file(path)])
        for entry in scanner.scan():
            if isinstance(entry, LogEncodedRecords):
                blocks += 1
                assert "HoodieMetadataRecord" in str(entry.avro_schema)
                keys = entry.entries["key"].combine_chunks()
                found = [part for part in scanner.scan(keys=keys[:1]) if isinstance(part, LogEncodedRecords)]
                some += sum(part.entries.num_rows for part in found)
    assert some >= blocks > 90
