"""HFiles of hoodie in the readers of real Hudi, and those of its writers in hoodie.

Hudi up to 1.0 reads and writes them by HBase's classes, later releases by classes of their own.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.common.bloom.bloom_filter import create_bloom_filter
from hoodie.io.hfile.block_codec import HFileCompression
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.hfile.hfile_writer import encode_hfile
from tests.interop.hudi_process import HudiProcess

pytestmark = pytest.mark.interop

SCHEMA = '{"type":"record","name":"HoodieMetadataRecord","fields":[{"name":"key","type":"string"}]}'
READERS = [("0.15.0", "hbase"), ("0.15.0", "hudi"), ("1.0.2", "hbase"), ("1.0.2", "hudi"), ("1.2.0", "hudi")]
FORMS = [("GZ", 1 << 20), ("GZ", 300), ("NONE", 300)]
Entries = list[tuple[str, bytes]]


def some_entries(count: int, longest: int = 40) -> Entries:
    """Random entries whose keys have common beginnings, and letters of one to four bytes."""
    rng = random.Random(count)
    keys: set[str] = set()
    while len(keys) < count:
        begin = rng.choice(["", "2024/01/0", "\x01", "é", "\U0001f600", *sorted(keys)[:3]])
        keys.add(begin + "".join(rng.choices("abz~é\x7f\U0001f600", k=rng.randrange(1, longest))))
    ordered = sorted(keys, key=str.encode)
    return [(key, rng.randbytes(rng.choice([0, 1, 30, 200]))) for key in ordered]


def columns(entries: Entries) -> tuple[pa.StringArray, pa.BinaryArray]:
    return pa.array([key for key, _ in entries], pa.string()), pa.array([value for _, value in entries], pa.binary())


@pytest.mark.parametrize(("release", "reader"), READERS)
@pytest.mark.parametrize(("codec", "block_bytes"), FORMS)
@pytest.mark.parametrize("longest", [40, 400])
def test_files_of_hoodie_are_read_by_every_reader(
    processes: Callable[[str], HudiProcess],
    tmp_path: Path,
    release: str,
    reader: str,
    codec: str,
    block_bytes: int,
    longest: int,
) -> None:
    entries = some_entries(120, longest)
    keys, values = columns(entries)
    bloom_filter = create_bloom_filter("DYNAMIC_V0", 100, 1e-9, 200)
    bloom_filter.add(keys)
    compression = HFileCompression[codec]
    path = tmp_path / "f.hfile"
    path.write_bytes(
        encode_hfile(keys, values, SCHEMA, compression=compression, block_bytes=block_bytes, bloom_filter=bloom_filter)
    )
    asked = sorted({*(key for key, _ in entries), *(key + "!" for key, _ in entries)}, key=str.encode)
    found = processes(release).read_hfile(path, asked, reader)
    assert [(key, base64.b64decode(value)) for key, value in found["entries"]] == entries
    assert [key for key, is_found in zip(asked, found["found"], strict=True) if is_found] == [k for k, _ in entries]
    assert found["schema"] == SCHEMA
    assert found["bloom_filter"] == bloom_filter.to_base64()


@pytest.mark.parametrize(("release", "reader"), READERS)
def test_a_file_of_hoodie_without_entries_is_read_by_every_reader(
    processes: Callable[[str], HudiProcess], tmp_path: Path, release: str, reader: str
) -> None:
    path = tmp_path / "f.hfile"
    path.write_bytes(encode_hfile(*columns([]), SCHEMA))
    found = processes(release).read_hfile(path, [], reader)
    assert (found["entries"], found["schema"], found["bloom_filter"]) == ([], SCHEMA, None)


@pytest.mark.parametrize("release", ["0.15.0", "1.0.2"])
@pytest.mark.parametrize(("codec", "block_bytes"), [*FORMS, ("NONE", 1)])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_files_of_hbase_are_read_and_written_byte_for_byte(
    processes: Callable[[str], HudiProcess], tmp_path: Path, release: str, codec: str, block_bytes: int, count: int
) -> None:
    entries = some_entries(count)
    path = tmp_path / "f.hfile"
    processes(release).write_hfile(path, entries, SCHEMA, "hbase", codec, block_bytes)
    data = path.read_bytes()
    keys, values = columns(entries)
    found = HFileReader.of_bytes(data, str(path))
    assert found.read_all().combine_chunks().equals(pa.table({"key": keys, "value": values}, found.read_all().schema))
    again = encode_hfile(keys, values, SCHEMA, compression=HFileCompression[codec], block_bytes=block_bytes)
    if codec == "NONE":
        assert again == data
    else:
        # Newer Java names another operating system in gzip streams, and checksums differ by it.
        assert len(again) == len(data)
        differing = sum(mine != real for mine, real in zip(again, data, strict=True))
        assert differing <= 5 * (found.trailer.data_index_count + 3)


@pytest.mark.parametrize(("codec", "block_bytes"), FORMS)
@pytest.mark.parametrize("longest", [40, 400])
def test_files_of_hudi_s_own_writer_are_read(
    processes: Callable[[str], HudiProcess], tmp_path: Path, codec: str, block_bytes: int, longest: int
) -> None:
    entries = some_entries(300, longest)
    path = tmp_path / "f.hfile"
    processes("1.2.0").write_hfile(path, entries, SCHEMA, "hudi", codec, block_bytes)
    reader = HFileReader.of_bytes(path.read_bytes(), str(path))
    keys, values = columns(entries)
    expected = pa.table({"key": keys, "value": values}, reader.read_all().schema)
    assert reader.read_all().combine_chunks().equals(expected)
    assert reader.look_up(keys[::7]).combine_chunks().equals(expected.take(pa.array(range(0, 300, 7))))
    assert reader.avro_schema == SCHEMA
