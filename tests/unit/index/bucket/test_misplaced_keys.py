"""Partitions, and files, that real Hudi wrote with another number of buckets are refused when they are written."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieIndexException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier
from hoodie.index.bucket.misplaced_keys import SAMPLED_KEYS, CheckSampledKeys, MisplacedKeyCheck
from tests.unit.index.bucket.test_layout_check import COUNT, files_below, forget_layout
from tests.unit.index.bucket.test_simple_bucket_index import config_of, make_table, read, rows_of, write

FOUR = BucketIdentifier(4, ("id",), ("id",))
ONE_OF_FOUR = next(key for key in map(str, range(100)) if FOUR.bucket_ids(pa.array([key]))[0] == 1)
THREE_OF_FOUR = next(key for key in map(str, range(100)) if FOUR.bucket_ids(pa.array([key]))[0] == 3)


def mixed_table(folder: Path) -> Path:
    """A table whose partition south has two buckets, and north, written later, four."""
    old, new = folder / "old", folder / "new"
    write(make_table(old), "upsert", {(f"k{n}", "south"): n for n in range(40)}, **{COUNT: 2})
    write(make_table(new), "upsert", {(f"k{n}", "north"): n for n in range(40)}, **{COUNT: 4})
    shutil.copytree(old / "south", new / "south")
    for file in (old / ".hoodie").glob("*commit*"):
        shutil.copy(file, new / ".hoodie")
    forget_layout(new)
    assert len(read(str(new))) == 80
    return new


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert", "bulk_insert", "explain_upsert"])
@pytest.mark.parametrize("key", ["k1", ONE_OF_FOUR, THREE_OF_FOUR])
@pytest.mark.without_metadata_table("a partition is copied that a metadata table does not list")
def test_a_partition_of_another_number_of_buckets_is_refused_before_anything_is_written(
    tmp_path: Path, operation: str, key: str
) -> None:
    table = mixed_table(tmp_path)
    write(str(table), operation, {("k1", "north"): 100}, **{COUNT: 4})
    before = {name for name in files_below(table) if name.endswith(".parquet")}
    with pytest.raises(HoodieIndexException, match=r"the key 'k\d+' is in .*/south/.*num\.buckets=4.*not of bucket"):
        write(str(table), operation, {(key, "south"): 1}, **{COUNT: 4})
    assert {name for name in files_below(table) if name.endswith(".parquet")} == before


@pytest.mark.without_metadata_table("a partition is copied that a metadata table does not list")
def test_each_partition_is_looked_at_by_tasks_where_there_are_many(tmp_path: Path) -> None:
    table = mixed_table(tmp_path)
    others = [f"p{n}" for n in range(6)]
    write(str(table), "upsert", {("k", path): 1 for path in others}, **{COUNT: 4})
    with pytest.raises(HoodieIndexException, match="/south/"):
        write(str(table), "upsert", {("k", path): 1 for path in [*others, "north", "south"]}, **{COUNT: 4})


def test_a_client_looks_at_a_partition_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", {(f"k{n}", "north"): n for n in range(40)})
    looks = []
    original = CheckSampledKeys.__call__
    monkeypatch.setattr(CheckSampledKeys, "__call__", lambda *args: (looks.append(args[2]), original(*args)))
    with HoodieLocalWriteClient(config_of(base_path)) as client:
        for number in range(3):
            client.upsert(rows_of({("k1", "north"): number}))
    assert len(looks) == 1


@pytest.mark.parametrize("insert_twice", ["true", "false"])
@pytest.mark.without_metadata_table("a partition is copied that a metadata table does not list")
def test_a_file_with_keys_of_other_buckets_is_refused_when_it_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, insert_twice: str
) -> None:
    table = mixed_table(tmp_path)
    monkeypatch.setattr(CheckSampledKeys, "__call__", lambda self, task, files: None)
    before = read(str(table))
    option = {COUNT: 4, "hoodie__merge__allow__duplicate__on__inserts": insert_twice}
    operations = ["upsert", "delete"] if insert_twice == "true" else ["upsert", "delete", "insert"]
    for operation in operations:
        with pytest.raises(HoodieIndexException, match="of the records to .* cannot be written. the table has other"):
            write(str(table), operation, {("k1", "south"): 1, (ONE_OF_FOUR, "south"): 1}, **option)
        assert read(str(table)) == before


def test_a_few_keys_among_many_are_noticed() -> None:
    right = [key for key in map(str, range(30_000)) if FOUR.bucket_ids(pa.array([key]))[0] == 1]
    check = partial(MisplacedKeyCheck(FOUR), path="/t/f.parquet", file_id="00000001-a-0")
    assert check(pa.chunked_array([right[:10], right[10:]])) == SAMPLED_KEYS
    assert check(pa.array([None, *right[:10]])) == 10
    with pytest.raises(HoodieIndexException, match=f"the key '{THREE_OF_FOUR}' is in /t/f.parquet"):
        check(pa.array([*right, *[THREE_OF_FOUR] * 20]))


def test_keys_that_releases_put_in_different_buckets_are_right_in_any_of_these() -> None:
    stored = pa.array(["urn:1"])
    both = {
        int(BucketIdentifier(1000, ("id",), ("id",), rule).bucket_ids(stored)[0])
        for rule in (BucketKeyRule.HUDI_0_15, BucketKeyRule.HUDI_1_X)
    }
    assert len(both) == 2
    check = MisplacedKeyCheck(BucketIdentifier(1000, ("id",), ("id",)))
    for bucket in both:
        assert check(stored, "/t/f.parquet", f"{bucket:08d}-a-0") == 1
    with pytest.raises(HoodieIndexException, match=r"'urn:1' .*key\.rule=REFUSE"):
        check(stored, "/t/f.parquet", f"{(max(both) + 1) % 1000:08d}-a-0")
