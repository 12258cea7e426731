"""What is written is what the rule of the format says, however it is cut into batches; and is read again."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.bloom.bloom_filter import create_bloom_filter
from hoodie.exception import HoodieKeyException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.io.hfile import data_block
from hoodie.io.hfile.block_codec import HFileCompression
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.hfile.hfile_writer import HFileWriter, encode_hfile
from tests.support.plain_hfile import plain_hfile

SCHEMA = '{"type": "string"}'
INFO = {b"schema": SCHEMA.encode()}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
LIKE_KEYS = st.text("ab\0\x7f\x80é", min_size=1, max_size=5)
ENTRIES = st.dictionaries(TEXTS | LIKE_KEYS, st.binary(max_size=60), max_size=40).map(
    lambda found: sorted((key.encode(), value) for key, value in found.items())
)
Entries = list[tuple[bytes, bytes]]


def columns(entries: Entries) -> tuple[pa.StringArray, pa.BinaryArray]:
    keys = pa.array([key.decode() for key, _ in entries], pa.string())
    return keys, pa.array([value for _, value in entries], pa.binary())


def written(batches: list[Entries], finish: Any = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    writer = HFileWriter(sink, "/t/f.hfile", SCHEMA, **options)
    for batch in batches:
        writer.write(*columns(batch))
    writer.finish(finish)
    assert writer.entry_count == sum(map(len, batches))
    assert writer.size_bytes == len(sink.getvalue())
    return sink.getvalue()


def entries_in(data: bytes) -> Entries:
    table = HFileReader.of_bytes(data, "f").read_all()
    return [(key.encode(), value) for key, value in zip(*(table[n].to_pylist() for n in (0, 1)), strict=True)]


@given(ENTRIES, st.sampled_from([1, 64, 300, 1 << 20]), st.sampled_from(["GZ", "NONE"]), st.data())
def test_the_bytes_are_those_of_the_rule_and_are_read_again(
    entries: Entries, block_bytes: int, codec: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=3)))
    batches = [entries[i:j] for i, j in zip([0, *cuts], [*cuts, len(entries)], strict=True)]
    found = written(batches, compression=HFileCompression[codec], block_bytes=block_bytes)
    assert found == plain_hfile(entries, block_bytes=block_bytes, codec=codec, info=INFO)
    assert entries_in(found) == entries
    if len(batches) == 1:
        keys, values = columns(entries)
        options: dict[str, Any] = {"compression": HFileCompression[codec], "block_bytes": block_bytes}
        assert encode_hfile(keys, values, SCHEMA, **options) == found


def test_entries_that_are_encoded_in_portions_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    entries = [(f"{number:04}".encode(), rng.randbytes(rng.randrange(90))) for number in range(300)]
    whole = written([entries], block_bytes=1000)
    monkeypatch.setattr(data_block, "_MOST_AT_ONCE", 170)
    assert written([entries], block_bytes=1000) == whole
    assert whole == plain_hfile(entries, block_bytes=1000, info=INFO)


def test_a_block_ends_with_the_entry_that_reaches_its_size() -> None:
    entries = [(b"%03d" % number, bytes(26)) for number in range(20)]
    for block_bytes, expected in ((199, 4), (200, 4), (201, 5)):
        found = written([entries], block_bytes=block_bytes)
        assert found == plain_hfile(entries, block_bytes=block_bytes, info=INFO)
        batches = HFileReader.of_bytes(found, "f").batches(batch_bytes=1)
        assert next(batches).num_rows == expected


@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_blocks_of_several_checksums_are_written_as_the_rule_says(codec: str) -> None:
    rng = random.Random(5)
    entries = [(f"{number:04}".encode(), rng.randbytes(400)) for number in range(300)]
    found = written([entries], compression=HFileCompression[codec], block_bytes=50_000)
    assert found == plain_hfile(entries, codec=codec, block_bytes=50_000, info=INFO)
    assert entries_in(found) == entries


def test_slices_of_arrays_are_written_as_their_own_rows() -> None:
    keys, values = pa.array(["z", "a", "b", "c"]), pa.array([b"0", b"1", b"22", b"333"])
    found = encode_hfile(keys[1:3], values[1:3], SCHEMA)
    assert found == plain_hfile([(b"a", b"1"), (b"b", b"22")], info=INFO)


def test_a_bloom_filter_stands_in_a_meta_block_and_first_and_last_key_beside_it() -> None:
    entries = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    bloom_filter = create_bloom_filter("DYNAMIC_V0", 10, 0.01, 20)
    bloom_filter.add(columns(entries)[0])
    found = written([entries], bloom_filter)
    info = INFO | {b"bloomFilterTypeCode": b"DYNAMIC_V0", b"minRecordKey": b"a", b"maxRecordKey": b"c"}
    meta = [(b"bloomFilter", bloom_filter.to_base64().encode())]
    assert found == plain_hfile(entries, meta=meta, info=info)
    reader = HFileReader.of_bytes(found, "f")
    assert (reader.min_record_key, reader.max_record_key, reader.meta_block_names) == ("a", "c", ["bloomFilter"])
    again = reader.read_bloom_filter()
    assert again is not None and again.to_bytes() == bloom_filter.to_bytes()


def test_a_file_without_entries_has_no_block() -> None:
    found = written([])
    assert found == plain_hfile([], info=INFO)
    reader = HFileReader.of_bytes(found, "f")
    assert (reader.entry_count, reader.read_all().num_rows) == (0, 0)
    assert reader.look_up(pa.array(["a"])).num_rows == 0
    assert reader.look_up_prefixes(pa.array([""])).num_rows == 0
    assert reader.read_bloom_filter() is None
    assert written([], create_bloom_filter("DYNAMIC_V0", 10, 0.01, 20)) != found


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([["a", "b", "b", "a"]], "the key of entry 2 'b' appears twice"),
        ([["a", "c", "b"]], "the key of entry 2 'b' comes after 'c'"),
        ([["a", "b"], ["b", "c"]], "the key of entry 2 'b' appears twice"),
        ([["a", "m"], ["c", "d"]], "the key of entry 2 'c' comes after 'm'"),
        ([["\uffff", "\U00010000"], ["é"]], "the key of entry 2 'é' comes after '\U00010000'"),
        ([["a", None, "c"]], "the key of entry 1 is null"),
        ([["a", "b", ""]], "the key of entry 2 is empty"),
        ([["a", "b" * 32768]], "the key of entry 1 has 32768 bytes, and HFiles take 32767"),
    ],
)
def test_keys_that_are_not_in_order_or_cannot_be_stored_are_refused_with_the_first_one(
    batches: list[list[str | None]], message: str
) -> None:
    sink = io.BytesIO()
    writer = HFileWriter(sink, "/t/f.hfile", SCHEMA, block_bytes=1)
    for batch in batches[:-1]:
        writer.write(pa.array(batch, pa.string()), pa.array([b"1"] * len(batch)))
    size = writer.size_bytes
    with pytest.raises(HoodieKeyException, match=f"Cannot write /t/f.hfile: {message}"):
        writer.write(pa.array(batches[-1], pa.string()), pa.array([b"1"] * len(batches[-1])))
    assert writer.size_bytes == size


def test_the_longest_key_is_written_and_found() -> None:
    entries = [(b"a" * 32767, b"1"), (b"b" * 200, b"2"), (b"c", b"3")]
    found = written([entries], block_bytes=1)
    assert found == plain_hfile(entries, block_bytes=1, info=INFO)
    reader = HFileReader.of_bytes(found, "f")
    assert reader.look_up(pa.array(["a" * 32767, "b" * 200]))["value"].to_pylist() == [b"1", b"2"]


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        (pa.array(["a"]), pa.array([b"1", b"2"]), "1 keys of type string and 2 values"),
        (pa.array([b"a"]), pa.array([b"1"]), "keys of type binary"),
        (pa.array(["a"]), pa.array(["1"]), "values of type string"),
        (pa.array(["a"]), pa.array([None], pa.binary()), "1 values are null"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(keys: pa.Array, values: pa.Array, message: str) -> None:
    with pytest.raises(HoodieSchemaException, match=message):
        encode_hfile(keys, values, SCHEMA)


def test_other_codecs_are_refused_by_name() -> None:
    with pytest.raises(HoodieNotSupportedException, match=r"compression is ZSTD.*GZ and NONE"):
        encode_hfile(pa.array(["a"]), pa.array([b"1"]), SCHEMA, compression=HFileCompression.ZSTD)
