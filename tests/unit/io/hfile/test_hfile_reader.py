"""All entries, those of keys, those of prefixes; from files of all forms, with few requests."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieKeyException, HoodieMissingFileException
from hoodie.io.hfile.hfile_reader import HFileReader, TooManyEntriesError, open_hfile
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.storage.local_storage import LocalStorage
from tests.support.log_files import counted_storage
from tests.support.plain_hfile import plain_hfile, with_zero_checksums

Entries = list[tuple[bytes, bytes]]
KEYS = st.text("abc\0é", max_size=4)
FORMS: list[dict[str, Any]] = [
    {},
    {"codec": "NONE"},
    {"checksum": 1},
    {"checksum": 0},
    {"by_hudi": True, "checksum": 0},
    {"by_hudi": True, "checksum": 0, "ends_with_row": True},
    {"minor": 0},
    {"leaf_entries": 1},
    {"leaf_entries": 3},
    {"by_hudi": True, "leaf_entries": 2},
]


def entries_of(table: pa.Table) -> Entries:
    return [(row["key"].encode(), row["value"]) for row in table.to_pylist()]


@given(
    st.sets(st.text("abc\0é", min_size=1, max_size=4), max_size=30),
    st.lists(KEYS, max_size=8),
    st.sampled_from(FORMS),
    st.sampled_from([1, 90, 1 << 20]),
)
def test_look_ups_find_what_a_dict_finds(
    keys: set[str], asked: list[str], form: dict[str, Any], block_bytes: int
) -> None:
    entries = [(key, str(number).encode()) for number, key in enumerate(sorted(key.encode() for key in keys))]
    reader = HFileReader.of_bytes(plain_hfile(entries, block_bytes=block_bytes, **form), "f")
    assert entries_of(reader.read_all()) == entries
    wanted = {key.encode() for key in asked}
    assert entries_of(reader.look_up(pa.array(asked, pa.string()))) == [pair for pair in entries if pair[0] in wanted]
    expected = [pair for pair in entries if pair[0].startswith(tuple(wanted))]
    prefixes = pa.array(asked, pa.string())
    assert entries_of(reader.look_up_prefixes(prefixes)) == expected
    assert entries_of(reader.look_up_prefixes(prefixes, most=len(entries))) == expected
    if expected:
        with pytest.raises(TooManyEntriesError):
            reader.look_up_prefixes(prefixes, most=len(expected) - 1)


def test_the_index_tells_that_a_prefix_has_too_many_entries_before_a_block_is_read(tmp_path: Path) -> None:
    keys = [f"{'often' if number % 10 else 'rare'}${number:06d}" for number in range(20_000)]
    entries = [(key.encode(), b"") for key in sorted(keys)]
    (tmp_path / "f").write_bytes(plain_hfile(entries, block_bytes=4096, codec="NONE"))
    storage, calls = counted_storage(tmp_path)
    with open_hfile(storage, str(tmp_path / "f")) as reader:
        opened = len(calls)
        with pytest.raises(TooManyEntriesError):
            reader.look_up_prefixes(pa.array(["often$"]), most=17_000)
        assert len(calls) == opened
        assert reader.look_up_prefixes(pa.array(["often$"]), most=18_000).num_rows == 18_000
        assert reader.look_up_prefixes(pa.array(["rare$"]), most=2_000).num_rows == 2_000


@pytest.mark.parametrize("form", FORMS)
def test_long_keys_are_found_in_files_of_every_form(form: dict[str, Any]) -> None:
    # From 116 bytes on, lengths in the index take two bytes, and there are two ways to store them.
    entries = [(b"k" * length + bytes([number]), b"%d" % length) for length in range(100, 300) for number in (65, 66)]
    entries.sort()
    reader = HFileReader.of_bytes(plain_hfile(entries, block_bytes=1, **form), "f")
    assert entries_of(reader.look_up(pa.array([key.decode() for key, _ in entries]))) == entries


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.sampled_from([1, 70, 1 << 20]))
def test_all_entries_of_a_key_are_found_where_keys_are_not_unique(keys: list[str], block_bytes: int) -> None:
    entries = [(key.encode(), str(number).encode()) for number, key in enumerate(sorted(keys))]
    # HBase would keep equal keys in one block; the index of Hudi's writer allows them on both sides of a border.
    reader = HFileReader.of_bytes(plain_hfile(entries, block_bytes=block_bytes, by_hudi=True), "f")
    for key in "abcd":
        expected = [pair for pair in entries if pair[0] == key.encode()]
        assert entries_of(reader.look_up(pa.array([key]))) == expected
        assert entries_of(reader.look_up_prefixes(pa.array([key]))) == expected


def test_batches_end_where_they_are_told() -> None:
    entries = [(b"%03d" % number, bytes(20)) for number in range(100)]
    reader = HFileReader.of_bytes(plain_hfile(entries, block_bytes=200), "f")
    sizes = [batch.num_rows for batch in reader.batches(batch_bytes=1)]
    assert sizes == [5] * 20
    assert [batch.num_rows for batch in reader.batches(batch_bytes=600)] == [15] * 6 + [10]
    assert [batch.num_rows for batch in reader.batches()] == [100]
    assert pa.Table.from_batches(reader.batches(batch_bytes=1)).equals(reader.read_all())


def file_of(folder: Path, count: int, **form: Any) -> tuple[Path, Entries]:
    rng = random.Random(1)
    entries = [(b"%06d" % number, rng.randbytes(500)) for number in range(count)]
    path = folder / "f.hfile"
    path.write_bytes(plain_hfile(entries, block_bytes=50_000, codec="NONE", checksum=0, **form))
    return path, entries


@pytest.mark.parametrize("leaf_entries", [None, 2])
def test_a_file_is_read_with_few_requests(tmp_path: Path, leaf_entries: int | None) -> None:
    path, entries = file_of(tmp_path, 2000, leaf_entries=leaf_entries)
    size = path.stat().st_size
    storage, reads = counted_storage(tmp_path)
    levels = 1 if leaf_entries is None else 2

    def requests() -> list[tuple[int, int]]:
        found = [(offset, count) for _, offset, count in reads]
        reads.clear()
        return found

    with open_hfile(storage, str(path)) as reader:
        assert requests() == [(size - (128 << 10), 128 << 10)]
        key = pa.array(["000003"])
        assert entries_of(reader.look_up(key)) == entries[3:4]
        found = requests()
        assert len(found) == levels
        assert sum(count for _, count in found) < 60_000
        # Blocks next to each other come together, others by requests of their own.
        assert entries_of(reader.look_up(pa.array(["000003", "000250", "000251", "001200"]))) == [
            entries[n] for n in (3, 250, 251, 1200)
        ]
        assert len(requests()) <= 2 * levels + (levels - 1)
        assert entries_of(reader.look_up_prefixes(pa.array(["0000", "00001", "0019"]))) == [
            *entries[:100],
            *entries[1900:2000],
        ]
        assert len(requests()) <= 2 * levels
        # The end of the file is in memory.
        assert entries_of(reader.look_up(pa.array(["001999", "x", "!"]))) == entries[1999:]
        assert len(requests()) <= levels - 1 + 1
        assert entries_of(reader.read_all()) == entries
        assert len(requests()) == 1


def test_keys_outside_of_the_file_cost_at_most_a_block(tmp_path: Path) -> None:
    path, _ = file_of(tmp_path, 2000)
    storage, reads = counted_storage(tmp_path)
    with open_hfile(storage, str(path)) as reader:
        reads.clear()
        assert reader.look_up(pa.array(["zzz"])).num_rows == 0
        assert reader.look_up(pa.array([], pa.string())).num_rows == 0
        assert reads == []
        assert reader.look_up(pa.array(["!"])).num_rows == 0
        assert len(reads) == 1


def test_keys_come_in_any_order_and_chunks_and_once() -> None:
    entries = [(b"%03d" % number, b"v%d" % number) for number in range(100)]
    reader = HFileReader.of_bytes(plain_hfile(entries, block_bytes=200), "f")
    asked = pa.chunked_array([["070", "005"], ["005", "nothing", "069"]])
    assert entries_of(reader.look_up(asked)) == [entries[n] for n in (5, 69, 70)]
    assert entries_of(reader.look_up_prefixes(asked)) == [entries[n] for n in (5, 69, 70)]
    assert reader.look_up(asked).schema == reader.read_all().schema
    with pytest.raises(HoodieKeyException, match="1 of 2 are null"):
        reader.look_up(pa.array(["a", None]))


def test_what_the_file_tells_of_itself() -> None:
    info = {b"schema": b'"string"', b"minRecordKey": b"a", b"maxRecordKey": b"b"}
    data = plain_hfile([(b"a", b""), (b"b", b"x")], info=info, meta=[(b"one", b"1"), (b"two", b"22")])
    reader = HFileReader.of_bytes(data, "f")
    assert (reader.entry_count, reader.avro_schema) == (2, '"string"')
    assert (reader.min_record_key, reader.max_record_key) == ("a", "b")
    assert reader.meta_block_names == ["one", "two"]
    assert [reader.read_meta_block(name) for name in ("one", "two", "three")] == [b"1", b"22", None]
    assert reader.file_info["hfile.LASTKEY"].startswith(b"\0\1b")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    missing = open_hfile(LocalStorage("/"), f"{tmp_path}/f.hfile")
    with pytest.raises(HoodieMissingFileException, match=r"f\.hfile is missing"), missing:
        pass


@pytest.mark.one_in(4)
def test_many_threads_read_blocks_at_the_same_time(tmp_path: Path) -> None:
    keys = pa.array([f"key-{number:08d}" for number in range(40_000)])
    values = pa.array([f"{number:x}".encode() * 9 for number in range(40_000)], pa.binary())
    content = encode_hfile(keys, values, None, block_bytes=100_000)

    def found(start: int) -> pa.Table:
        return HFileReader.of_bytes(content, "/t/f.hfile").look_up(keys[start::7])

    with ThreadPoolExecutor(8) as pool:
        for start, table in enumerate(pool.map(found, [0, 1, 2, 3, 4, 5, 6] * 6)):
            assert table.column("key").combine_chunks() == keys[start % 7 :: 7]
            assert table.column("value").combine_chunks() == values[start % 7 :: 7]


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        [f"id:{number}" for number in range(300)],
        [f"{'x' * 40}{number % 7}{number}" for number in range(3000)],
        [*("p" * length for length in range(1, 60)), "p\0", "p\0\0", "p\0a"],
        ["é", "ê", "z", "日本", "日本語", "\U0001f600"],
        [f"{'same-long-start' * (number % 3)}{number}" for number in range(500)],
    ],
)
def test_keys_of_all_forms_are_found_and_others_are_not(texts: list[str]) -> None:
    stored = sorted(set(texts), key=lambda text: text.encode())
    kept = stored[::2]
    values = pa.array([text.encode() for text in kept], pa.binary())
    content = encode_hfile(pa.array(kept), values, None, block_bytes=3000)
    reader = HFileReader.of_bytes(content, "/t/f.hfile")
    asked = [*stored, *stored[1::3], *(f"{text}\0" for text in stored if f"{text}\0" not in kept), "zzzz", "0"]
    expected = [text for text in kept if text in set(asked)]
    assert reader.look_up(pa.array(asked)).column("key").to_pylist() == expected
    for text in stored[:20]:
        found = reader.look_up(pa.array([text]))
        assert found.column("value").to_pylist() == ([text.encode()] if text in kept else [])


def test_zeros_in_place_of_all_checksums_of_a_file_count_as_none(caplog: pytest.LogCaptureFixture) -> None:
    entries = [(b"key%02d" % number, b"value") for number in range(12)]
    caplog.set_level("DEBUG", logger="hoodie.io.hfile")
    for form in ({}, {"codec": "NONE"}, {"checksum": 1}, {"leaf_entries": 2}):
        data = with_zero_checksums(plain_hfile(entries, block_bytes=90, **form))
        reader = HFileReader.of_bytes(data, "/t/f.hfile")
        assert entries_of(reader.read_all()) == entries
        assert entries_of(reader.look_up(pa.array(["key03"]))) == [entries[3]]
    assert caplog.messages == ["/t/f.hfile has zeros in place of checksums: its blocks are not verified"] * 4


def test_an_entry_of_the_index_of_an_empty_file_that_its_trailer_does_not_count_is_passed_over() -> None:
    unannounced: dict[int, int | bytes] = {5: 0, 7: 0}
    reader = HFileReader.of_bytes(plain_hfile([(b"", b"")], changed=unannounced), "f")
    assert reader.look_up(pa.array(["", "a"])).num_rows == reader.look_up_prefixes(pa.array([""])).num_rows == 0
