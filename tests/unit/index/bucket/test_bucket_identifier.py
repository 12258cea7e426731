"""Buckets of record keys, beside what real Hudi computes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieKeyException
from hoodie.index.bucket.bucket_identifier import (
    BucketIdentifier,
    are_bucket_ids,
    bucket_of_file_id,
    new_bucket_file_ids,
    shared_bucket_file_id,
    values_of_hudi_0,
    values_of_hudi_1,
)
from tests.unit.common.util.test_java_hash import hash_one

GOLDEN = Path(__file__).parents[3] / "data" / "bucket_hashes.csv"
ALL = 2**31 - 1
SAFE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":,"), min_size=1, max_size=12)


@attrs.frozen
class Asked:
    """One line of the golden file."""

    hash_fields: tuple[str, ...]
    record_key: str
    hash_0_15: int
    hash_1_2: int

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields that the key spells out, as they follow each other in it."""
        for fields in (("a", "b", "c"), ("a.b", "c"), ("id", "name")):
            if all(f"{field}:" in self.record_key for field in fields) and self.record_key.startswith(f"{fields[0]}:"):
                return fields
        return ("id",)


def golden() -> Iterator[Asked]:
    with GOLDEN.open(newline="") as file:
        for row in csv.DictReader(file):
            fields = tuple(json.loads(row["hash_fields"]).split(","))
            yield Asked(fields, json.loads(row["record_key"]), int(row["hash_0_15"]), int(row["hash_1_2"]))


def hash_of_list(values: list[str | None]) -> int:
    outcome = 1
    for value in values:
        outcome = (31 * outcome + (0 if value is None else hash_one(value))) & 0xFFFFFFFF
    return outcome & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("rule", "column"), [(BucketKeyRule.HUDI_0_15, "hash_0_15"), (BucketKeyRule.HUDI_1_X, "hash_1_2")]
)
def test_keys_of_all_shapes_have_the_hashes_that_real_hudi_makes(rule: BucketKeyRule, column: str) -> None:
    asked = list(golden())
    assert len(asked) > 300
    for one in asked:
        identifier = BucketIdentifier(ALL, one.key_fields, one.hash_fields, rule)
        assert identifier.bucket_ids(pa.array([one.record_key])).tolist() == [getattr(one, column)], one


def test_keys_are_refused_for_which_releases_of_hudi_have_different_buckets() -> None:
    for one in golden():
        identifier = BucketIdentifier(ALL, one.key_fields, one.hash_fields)
        if one.hash_0_15 == one.hash_1_2:
            assert identifier.bucket_ids(pa.array([one.record_key])).tolist() == [one.hash_0_15]
        else:
            with pytest.raises(HoodieKeyException, match=r"hoodie\.bucket\.index\.key\.rule=0\.15 or 1\.x"):
                identifier.bucket_ids(pa.array([one.record_key]))


def test_many_keys_at_once_have_the_hashes_that_each_has_alone() -> None:
    by_fields: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Asked]] = {}
    for one in golden():
        by_fields.setdefault((one.key_fields, one.hash_fields), []).append(one)
    for (key_fields, hash_fields), asked in by_fields.items():
        identifier = BucketIdentifier(ALL, key_fields, hash_fields, BucketKeyRule.HUDI_0_15)
        keys = pa.array([one.record_key for one in asked])
        assert identifier.bucket_ids(keys).tolist() == [one.hash_0_15 for one in asked]


def test_a_key_that_hudi_1_cannot_take_apart_is_refused_by_its_rule_too() -> None:
    key = "id:1,t:10:20"
    assert values_of_hudi_1(key, ["id"]) is None
    with pytest.raises(HoodieKeyException, match="such as 'id:1,t:10:20,x'"):
        BucketIdentifier(8, ("id", "t"), ("id",), BucketKeyRule.HUDI_1_X).bucket_ids(pa.array([f"{key},x"]))


def test_the_error_names_a_key_and_counts_them() -> None:
    keys = pa.array(["plain", "urn:a:1", "urn:a:2", "x" * 80 + ":"])
    with pytest.raises(HoodieKeyException, match="^3 record keys, such as 'urn:a:1', go to one bucket"):
        BucketIdentifier(4, ("id",), ("id",)).bucket_ids(keys)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SAFE, SAFE), min_size=1, max_size=20), st.integers(1, 1000))
def test_composite_keys_are_hashed_by_the_values_of_their_hash_fields(pairs: list[tuple[str, str]], count: int) -> None:
    keys = pa.array([f"x:{first},y.z:{second}" for first, second in pairs])
    for fields in (("x",), ("y.z",), ("x", "y.z"), ("y.z", "x")):
        identifier = BucketIdentifier(count, ("x", "y.z"), fields)
        expected = []
        for key in keys.to_pylist():
            assert values_of_hudi_0(key, fields) == values_of_hudi_1(key, fields)
            expected.append(hash_of_list(values_of_hudi_0(key, fields)) % count)
        assert identifier.bucket_ids(keys).tolist() == expected


def test_file_ids_name_their_bucket_and_are_the_same_when_they_are_made_again() -> None:
    buckets = np.array([0, 7, 12345678], dtype=np.int32)
    ids = new_bucket_file_ids(buckets, "seed", "2024/01/02")
    assert [bucket_of_file_id(file_id) for file_id in ids] == buckets.tolist()
    assert all(len(file_id) == 38 and file_id.endswith("-0") and file_id[14] == "4" for file_id in ids)
    assert ids == new_bucket_file_ids(buckets, "seed", "2024/01/02")
    others = [*new_bucket_file_ids(buckets, "other", "2024/01/02"), *new_bucket_file_ids(buckets, "seed", "2024/01/03")]
    assert not set(ids) & set(others)


@pytest.mark.parametrize(
    ("file_ids", "expected"),
    [
        ([], False),
        (["00000007-ab12-4c3d-8e9f-0123456789ab-0"], True),
        (["00000007-ab12-4c3d-8e9f-0123456789ab"], True),
        (["00000007-0000-0000-0000-000000000000-0", "00000003-ab12-4c3d-8e9f-0123456789ab-12"], True),
        (["12345678-ab12-4c3d-8e9f-0123456789ab-0"], False),
        (["00012345-ab12-4c3d-8e9f-0123456789ab-0"], False),
        (["00012345-ab12-4c3d-8e9f-0123456789ab-0", "00012346-ab12-4c3d-8e9f-0123456789ab-0"], True),
        (["00000007-ab12-4c3d-8e9f-0123456789ab-0", "7fa0c3d2-ab12-4c3d-8e9f-0123456789ab-0"], False),
        (["0000000\u0667-ab12-4c3d-8e9f-0123456789ab-0"], False),
        (["7"], False),
    ],
)
def test_ids_of_buckets_are_told_from_random_ones(file_ids: list[str], expected: bool) -> None:
    assert are_bucket_ids(file_ids) is expected


def test_writers_that_do_not_block_each_other_give_a_bucket_the_id_of_hudi() -> None:
    first = shared_bucket_file_id(7)
    assert first == "00000007-0000-0000-0000-000000000000-0"
    second = shared_bucket_file_id(7, {first, shared_bucket_file_id(8)})
    assert second == "00000007-0000-0000-0000-000000000001-0"
    assert shared_bucket_file_id(7, {second}) == first
    assert bucket_of_file_id(second) == 7
