from __future__ import annotations

import base64
import struct
import uuid
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pybloom_live
import pytest

from hoodie.common.bloom import bloom_filter
from hoodie.common.bloom.bloom_filter import (
    BloomFilter,
    DynamicBloomFilter,
    SimpleBloomFilter,
    create_bloom_filter,
    decode_bloom_filter,
)
from hoodie.common.bloom.key_blocks import iter_key_blocks
from hoodie.exception import HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException

GOLDEN = Path("hudi-common/format/bloom-filter/hadoop")


def content(path: Path) -> list[str]:
    """Lines of a golden file without its licence."""
    text = path.read_text()
    return text[text.index("*/") + 2 :].split() if "*/" in text else text.split()


@pytest.fixture(scope="module")
def golden(shared_vectors: Path) -> Path:
    return shared_vectors / GOLDEN


@pytest.fixture(scope="module")
def golden_keys(golden: Path) -> pa.Array:
    keys = pa.array(content(golden / "all_10000.keys.data")[0].split(","))
    assert len(keys) == 10_000
    return keys


def random_keys(count: int, seed: int) -> pa.Array:
    random = Random(seed)
    return pa.array([str(uuid.UUID(int=random.getrandbits(128))) for _ in range(count)])


@pytest.mark.parametrize("entries", [200, 1000, 5000, 10000])
def test_a_simple_filter_is_bit_identical_to_hudis(golden: Path, golden_keys: pa.Array, entries: int) -> None:
    bloom_filter = SimpleBloomFilter.create(entries, 0.000001)
    bloom_filter.add(golden_keys)
    assert bloom_filter.to_base64() == content(golden / f"simple_{entries}_000001_murmur.bf.data")[0]


@pytest.mark.parametrize(
    ("entries", "maximum", "batch"),
    [(1000, 5000, 10_000), (1000, 5000, 333), (200, 1000, 10_000), (200, 1000, 333), (200, 1000, 7)],
)
def test_a_dynamic_filter_grows_and_wraps_around_as_hudis(
    golden: Path, golden_keys: pa.Array, entries: int, maximum: int, batch: int
) -> None:
    bloom_filter = DynamicBloomFilter.create(entries, 0.000001, maximum)
    for start in range(0, len(golden_keys), batch):
        bloom_filter.add(golden_keys.slice(start, batch))
    assert bloom_filter.to_base64() == content(golden / f"dynamic_{entries}_000001_murmur_{maximum}.bf.data")[0]


@pytest.mark.parametrize(
    ("name", "filter_type"),
    [("simple_5000_000001_jenkins", "SIMPLE"), ("dynamic_1000_000001_jenkins_5000", "DYNAMIC_V0")],
)
def test_a_jenkins_filter_of_hudi_knows_its_keys_and_adding_them_again_sets_no_bit(
    golden: Path, golden_keys: pa.Array, name: str, filter_type: str
) -> None:
    text = content(golden / f"{name}.bf.data")[0]
    bloom_filter = decode_bloom_filter(filter_type, text)
    assert bloom_filter.might_contain(golden_keys).all()
    # The fixtures hold twice the keys they were made for, so a lookup alone proves little: every bit has to agree.
    if filter_type == "SIMPLE":
        bloom_filter.add(golden_keys)
        assert bloom_filter.to_base64() == text


def test_a_jenkins_filter_is_rebuilt_bit_by_bit_from_an_empty_one(golden: Path, golden_keys: pa.Array) -> None:
    text = content(golden / "simple_5000_000001_jenkins.bf.data")[0]
    stored = base64.b64decode(text)
    bloom_filter = SimpleBloomFilter.from_bytes(stored[:13] + bytes(len(stored) - 13))
    bloom_filter.add(golden_keys)
    assert bloom_filter.to_base64() == text


def test_a_header_without_version_means_jenkins(golden: Path, golden_keys: pa.Array) -> None:
    stored = base64.b64decode(content(golden / "simple_5000_000001_jenkins.bf.data")[0])
    old_form = stored[4:8] + stored[9:]
    assert SimpleBloomFilter.from_bytes(old_form).might_contain(golden_keys).all()


def test_the_default_filter_has_hudis_size() -> None:
    stored = DynamicBloomFilter.create(60_000, 1e-9).to_bytes()
    assert len(stored) == 323_534
    assert struct.unpack(">iibi", stored[:13]) == (-1, 30, 1, 2_587_966)


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
def test_a_stored_filter_takes_new_keys_as_if_it_had_never_been_stored(filter_type: str) -> None:
    keys = pa.array([f"{'k' * (number % 9)}{number}" for number in range(450)])
    whole = create_bloom_filter(filter_type, 100, 1e-4, 1000)
    whole.add(keys)
    first = create_bloom_filter(filter_type, 100, 1e-4, 1000)
    first.add(keys.slice(0, 250))
    second = decode_bloom_filter(filter_type, first.to_base64())
    second.add(keys.slice(250))
    assert second.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
def test_keys_set_the_same_bits_and_are_found_whether_they_come_alone_or_with_many(filter_type: str) -> None:
    present, absent = random_keys(3000, 3), random_keys(3000, 4)
    whole, slowly = (create_bloom_filter(filter_type, 60_000, 1e-9) for _ in range(2))
    whole.add(present)
    for start in range(0, 3000, 100):
        slowly.add(present.slice(start, 100))
        if start == 1500:
            slowly = decode_bloom_filter(filter_type, slowly.to_base64())
    assert slowly.to_bytes() == whole.to_bytes()
    stored = decode_bloom_filter(filter_type, whole.to_base64())
    for start in range(0, 3000, 100):
        assert stored.might_contain(present.slice(start, 100)).all()
    asked = pa.concat_arrays([present.slice(0, 5), absent.slice(0, 45)])
    assert stored.might_contain(asked).tolist() == [True] * 5 + [False] * 45
    assert not create_bloom_filter(filter_type, 60_000, 1e-9).might_contain(asked).any()
    stored.add(absent)
    assert stored.might_contain(absent).all()


@pytest.mark.parametrize("keys", [0, 1, 40, 4000])
def test_a_text_is_decoded_as_pythons_own_decoder_does(keys: int) -> None:
    bloom_filter = create_bloom_filter("DYNAMIC_V0", 1000, 1e-3)
    if keys:
        bloom_filter.add(random_keys(keys, 5))
    data = bloom_filter.to_bytes()
    for length in range(40, 44):
        stored = SimpleBloomFilter.create(length, 0.01).to_bytes()
        assert SimpleBloomFilter.from_base64(base64.b64encode(stored)).to_bytes() == stored
    text = base64.b64encode(data).decode()
    assert bloom_filter.to_base64() == text
    assert DynamicBloomFilter.from_base64(text).to_bytes() == data
    random = Random(keys)
    for wrong in "?=\n -é":
        place = random.randrange(len(text) - 4)
        for damaged in (text[:place] + wrong + text[place + 1 :], text[:place] + wrong + text[place:]):
            with pytest.raises(HoodieCorruptedDataException, match="not Base64"):
                DynamicBloomFilter.from_base64(damaged)


def test_a_filter_without_new_keys_is_stored_as_it_was_but_with_a_version(golden: Path, golden_keys: pa.Array) -> None:
    text = content(golden / "simple_5000_000001_jenkins.bf.data")[0]
    stored = base64.b64decode(text)
    for old in (text, base64.b64encode(stored[4:8] + stored[9:]).decode()):
        assert SimpleBloomFilter.from_base64(old).to_base64() == text
    changed = SimpleBloomFilter.from_base64(text)
    changed.add(pa.array(["new"]))
    assert changed.to_base64() == base64.b64encode(changed.to_bytes()).decode() != text


def test_a_stored_filter_that_gets_no_keys_keeps_its_bytes() -> None:
    bloom_filter = SimpleBloomFilter.create(10, 0.01)
    bloom_filter.add(pa.array(["a", "bb"]))
    assert SimpleBloomFilter.from_bytes(bloom_filter.to_bytes()).to_bytes() == bloom_filter.to_bytes()


def test_a_full_filter_keeps_its_rows_and_still_knows_every_key() -> None:
    bloom_filter = DynamicBloomFilter.create(10, 0.001, 20)
    keys = pa.array([f"key-{number}" for number in range(200)])
    bloom_filter.add(keys)
    assert bloom_filter.row_count == 2
    assert bloom_filter.might_contain(keys).all()


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
def test_keys_are_no_longer_hashed_when_nearly_all_are_found(filter_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many, absent = create_bloom_filter(filter_type, 500, 1e-9, 1000), pa.array([f"no {n}" for n in range(2000)])
    hashed: list[int] = []
    monkeypatch.setattr(bloom_filter, "iter_key_blocks", lambda keys: hashed.append(len(keys)) or iter_key_blocks(keys))
    shares = []
    for turn in range(30):
        hashed.clear()
        many.add(pa.array([f"{turn}-{n}" for n in range(1000)]))
        was_hashed = bool(hashed)
        found = many.might_contain(absent)
        shares.append((was_hashed, found.mean()))
        assert many.might_contain(pa.array([f"{turn}-{n}" for n in range(1000)])).all()
    useless = shares.index((False, 1.0))
    assert 3 < useless < 20
    assert all(was_hashed for was_hashed, _ in shares[:useless])
    assert shares[useless - 1][1] > 0.9
    assert shares[useless:] == [(False, 1.0)] * (30 - useless)
    assert decode_bloom_filter(filter_type, many.to_base64()).might_contain(absent).all()


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
def test_lookups_find_all_keys_and_hardly_any_other(filter_type: str) -> None:
    bloom_filter = create_bloom_filter(filter_type, 2000, 0.001, 10_000)
    present, absent = random_keys(2000, 1), random_keys(20_000, 2)
    bloom_filter.add(present)
    found = bloom_filter.might_contain(pa.concat_arrays([absent, present]))
    assert found[20_000:].all()
    assert found[:20_000].sum() < 60  # 20 are expected


def test_no_more_false_positives_than_pybloom_at_the_same_size() -> None:
    present, absent = random_keys(5000, 3), random_keys(40_000, 4)
    ours = SimpleBloomFilter.create(5000, 0.01)
    ours.add(present)
    peer = pybloom_live.BloomFilter(capacity=5000, error_rate=0.01)
    for key in present.to_pylist():
        peer.add(key)
    bits = struct.unpack(">i", ours.to_bytes()[9:13])[0]
    assert bits <= peer.num_bits * 1.01
    false_of_peer = sum(key in peer for key in absent.to_pylist())
    # Both are random with about 400 expected; three standard deviations.
    assert ours.might_contain(absent).sum() <= false_of_peer + 3 * np.sqrt(2 * 400)


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
def test_null_and_empty_keys_are_refused_and_nothing_is_added(filter_type: str) -> None:
    bloom_filter = create_bloom_filter(filter_type, 100, 0.01)
    before = bloom_filter.to_bytes()
    for keys in (pa.array(["a", None]), pa.array(["a", ""])):
        with pytest.raises(HoodieKeyException):
            bloom_filter.add(keys)
        with pytest.raises(HoodieKeyException):
            bloom_filter.might_contain(keys)
    assert bloom_filter.to_bytes() == before


def test_unknown_types_are_refused() -> None:
    with pytest.raises(HoodieNotSupportedException, match="RIBBON"):
        create_bloom_filter("RIBBON", 1, 0.1)
    with pytest.raises(HoodieNotSupportedException, match="RIBBON"):
        decode_bloom_filter("RIBBON", "")


def header(hash_count: int = 3, hash_type: int = 1, bits: int = 8, version: int = -1) -> bytes:
    return struct.pack(">iibi", version, hash_count, hash_type, bits)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (SimpleBloomFilter, b""),
        (SimpleBloomFilter, header() + b"\0\0"),
        (SimpleBloomFilter, header(bits=9) + b"\0"),
        (SimpleBloomFilter, header(bits=0)),
        (SimpleBloomFilter, header(bits=-8) + b"\0"),
        (SimpleBloomFilter, header(hash_count=2**30) + b"\0"),
        (SimpleBloomFilter, header(hash_type=2) + b"\0"),
        (SimpleBloomFilter, header(version=-2) + b"\0"),
        (SimpleBloomFilter, header(bits=2**31 - 1) + b"\0"),
        (DynamicBloomFilter, header() + struct.pack(">iii", 5, 0, 2**30)),
        (DynamicBloomFilter, header() + struct.pack(">iii", 5, 0, 0)),
        (DynamicBloomFilter, header() + struct.pack(">iii", 0, 0, 1) + header() + b"\0"),
        (DynamicBloomFilter, header() + struct.pack(">iii", 5, -1, 1) + header() + b"\0"),
    ],
)
def test_damaged_filters_are_refused(kind: type[BloomFilter], data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match="damaged"):
        kind.from_bytes(data)


def test_text_that_is_not_base64_is_refused() -> None:
    with pytest.raises(HoodieCorruptedDataException, match="not Base64"):
        SimpleBloomFilter.from_base64("?!")


@pytest.mark.parametrize("filter_type", ["SIMPLE", "DYNAMIC_V0"])
@pytest.mark.parametrize("first", [0, 7, 10, 45])
def test_the_length_with_more_keys_is_known_before(filter_type: str, first: int) -> None:
    for more in (0, 3, 4, 20, 30, 60):
        bloom_filter = create_bloom_filter(filter_type, 10, 0.01, max_entries=42)
        bloom_filter.add(pa.array([f"k{number}" for number in range(first)], pa.string()))
        expected = bloom_filter.stored_bytes_with(more)
        bloom_filter.add(pa.array([f"m{number}" for number in range(more)], pa.string()))
        assert bloom_filter.stored_bytes == len(bloom_filter.to_bytes()) == expected
