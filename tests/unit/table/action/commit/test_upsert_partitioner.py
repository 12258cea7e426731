"""Dealing records out to buckets."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.bucket_routing import KeyColumns
from hoodie.exception import HoodieIndexException
from hoodie.keygen.built_in_key_generators import (
    ComplexKeyGenerator,
    CustomKeyGenerator,
    PartitionKeyType,
    SimpleKeyGenerator,
)
from hoodie.table.action.commit.bucket_info import BucketType
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner, recorded_record_size
from hoodie.table.workload_profile import WorkloadProfile, WorkloadStat

INSTANT = "20260101000000000"


def config(**properties: object) -> HoodieWriteConfig:
    given = {
        "hoodie.parquet.max.file.size": 1000,
        "hoodie.parquet.small.file.limit": 800,
        **{"hoodie." + key.replace("_", "."): value for key, value in properties.items()},
    }
    return HoodieWriteConfig.from_properties("/t", given)


def file_slice(file_id: str, size_bytes: int) -> FileSlice:
    base_file = HoodieBaseFile(f"/t/p/{file_id}_0-0-0_{INSTANT}.parquet", file_id, "0-0-0", INSTANT, size_bytes)
    return FileSlice("p", file_id, INSTANT, base_file)


def partitioner(inserts: int, *files: FileSlice, updates: dict[str, int] | None = None, **properties: object):
    located = {HoodieRecordLocation(INSTANT, file_id): count for file_id, count in (updates or {}).items()}
    profile = WorkloadProfile(WriteOperationType.UPSERT, {"p": WorkloadStat(inserts, located)})
    return UpsertPartitioner(profile, config(**properties), {"p": files}, record_size=10)


def batch(count: int, file_ids: list[str | None] | None = None, path: str = "p") -> pa.RecordBatch:
    columns = {RECORD_KEY: [f"k{i}" for i in range(count)], PARTITION_PATH: [path] * count}
    if file_ids is not None:
        columns[CURRENT_FILE_ID] = pa.array(file_ids, pa.string())
    return pa.record_batch(columns)


def test_updates_go_to_one_bucket_for_each_file_group() -> None:
    dealt = partitioner(0, file_slice("f", 900), file_slice("g", 900), updates={"f": 2, "g": 1})
    assert [(bucket.bucket_type, bucket.file_id) for bucket in dealt.buckets] == [
        (BucketType.UPDATE, "f"),
        (BucketType.UPDATE, "g"),
    ]
    assert dealt.assigner()(batch(3, ["g", "f", "g"])).column(BUCKET).to_pylist() == [1, 0, 1]


def test_inserts_fill_small_files_up_to_the_maximum_then_open_full_groups() -> None:
    dealt = partitioner(250, file_slice("small", 400), file_slice("full", 900), file_slice("smaller", 200))
    kinds = {bucket.file_id for bucket in dealt.buckets if bucket.bucket_type is BucketType.UPDATE}
    assert kinds == {"smaller", "small"}
    assert [bucket.bucket_type for bucket in dealt.buckets].count(BucketType.INSERT) == 1
    # 97 records make a full group; the remainder of 13 goes to the task that fills the last small file.
    assert {location.file_id: count for location, count in dealt.inserts_into["p"].items()} == {
        "smaller": 80,
        "small": 60 + 13,
    }


def test_without_small_files_the_remainder_has_a_bucket_of_its_own() -> None:
    dealt = partitioner(200)
    counted = collections.Counter(dealt.assigner()(batch(20_000)).column(BUCKET).to_pylist())
    shares = [counted[number] / 20_000 for number in range(3)]
    assert shares == pytest.approx([0.485, 0.485, 0.03], abs=0.01)


def test_a_remainder_of_a_few_records_is_spread_over_full_groups() -> None:
    dealt = partitioner(197)
    assert [bucket.bucket_type for bucket in dealt.buckets] == [BucketType.INSERT, BucketType.INSERT]


def test_the_largest_bucket_is_the_first() -> None:
    dealt = partitioner(150, file_slice("full", 990), file_slice("smaller", 900), updates={"full": 1, "smaller": 1})
    assert dealt.buckets[0].file_id == "full"
    dealt = partitioner(97, file_slice("a", 850), updates={"a": 1})
    assert [bucket.bucket_type for bucket in dealt.buckets] == [BucketType.INSERT, BucketType.UPDATE]
    assert dealt.assigner()(batch(1, ["a"])).column(BUCKET).to_pylist() == [1]


def test_a_bucket_counts_the_bytes_of_its_file_and_of_its_rows() -> None:
    """Where an index names file groups, new rows are in buckets of updates."""
    dealt = partitioner(0, file_slice("f", 900), file_slice("g", 500), updates={"f": 2, "g": 100})
    assert [bucket.file_id for bucket in dealt.buckets] == ["g", "f"]
    assert dealt.bucket_bytes == [500 + 1000, 900 + 20]


def test_a_bucket_that_has_updates_takes_inserts_too() -> None:
    dealt = partitioner(5, file_slice("small", 400), updates={"small": 3})
    assert len(dealt.buckets) == 1
    assert dealt.assigner()(batch(3, ["small", None, None])).column(BUCKET).to_pylist() == [0, 0, 0]


def test_no_small_files_with_a_limit_of_zero() -> None:
    dealt = partitioner(5, file_slice("small", 400), parquet_small_file_limit=0)
    assert [bucket.bucket_type for bucket in dealt.buckets] == [BucketType.INSERT]


def test_split_size_counts_rows_when_it_is_not_derived() -> None:
    dealt = partitioner(25, copyonwrite_insert_auto_split=False, copyonwrite_insert_split_size=10)
    assert len(dealt.buckets) == 3


def test_inserts_are_dealt_by_weight() -> None:
    dealt = partitioner(1000, file_slice("small", 500))
    counted = collections.Counter(dealt.assigner()(batch(20_000)).column(BUCKET).to_pylist())
    shares = {number: count / 20_000 for number, count in counted.items()}
    assert sum(shares.values()) == 1
    assert len(shares) == 1 + 950 // 97
    small = [bucket.bucket_type for bucket in dealt.buckets].index(BucketType.UPDATE)
    assert shares[small] == pytest.approx(0.05 + (950 % 97) / 1000, abs=0.01)


@pytest.mark.parametrize("url_encode", [False, True])
def test_an_engine_knows_the_buckets_of_inserts_by_paths_that_are_not_escaped(url_encode: bool) -> None:
    values = ["plain", "a b", "ü", "50%", "1:2/3", "%2F", "x=y"]
    generator = SimpleKeyGenerator(("id",), ("p",), True, url_encode)
    paths = generator.partition_paths(pa.record_batch({"p": values})).to_pylist()
    usable = {path: value for path, value in zip(paths, values, strict=True) if path is not None}
    assert (len(usable) == len(values)) == url_encode
    stats = {path: WorkloadStat(100 + number) for number, path in enumerate(usable)}
    dealt = UpsertPartitioner(WorkloadProfile(WriteOperationType.INSERT, stats), config(), {}, record_size=10)
    routing = dealt.insert_routing(generator)
    assert routing is not None
    assert routing.columns == KeyColumns(("id",), False, ("p",), True)
    assert list(routing.dealt) == [f"p={value}" for value in usable.values()]
    for path, one in zip(usable, routing.dealt.values(), strict=True):
        assert {dealt.buckets[number].partition_path for number in one.buckets.tolist()} == {path}


def test_an_engine_does_not_deal_keys_that_it_cannot_make_or_whose_paths_look_alike() -> None:
    stats = {"a%2Fb/c": WorkloadStat(1), "a/b%2Fc": WorkloadStat(1)}
    dealt = UpsertPartitioner(WorkloadProfile(WriteOperationType.INSERT, stats), config(), {}, record_size=10)
    assert dealt.insert_routing(ComplexKeyGenerator(("id",), ("p", "q"), False, True)) is None
    assert dealt.insert_routing(ComplexKeyGenerator(("id",), ("p", "q"), False, False)) is not None
    custom = CustomKeyGenerator(("id",), ("p", "q"), partition_types=(PartitionKeyType.SIMPLE,) * 2)
    assert dealt.insert_routing(custom) is None


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_a_key_gets_the_same_bucket_in_any_batch(keys: list[int]) -> None:
    assign = partitioner(1000).assigner()
    whole = dict(zip((f"k{i}" for i in range(501)), assign(batch(501)).column(BUCKET).to_pylist(), strict=True))
    some = pa.record_batch({RECORD_KEY: [f"k{i}" for i in keys], PARTITION_PATH: ["p"] * len(keys)})
    assert assign(some).column(BUCKET).to_pylist() == [whole[f"k{i}"] for i in keys]


def test_rows_that_the_profile_did_not_count_are_refused() -> None:
    with pytest.raises(HoodieIndexException, match="other"):
        partitioner(5).assigner()(batch(1, path="other"))
    with pytest.raises(HoodieIndexException, match="unknown"):
        partitioner(5).assigner()(batch(1, ["unknown"]))


def test_a_file_group_without_base_file_is_refused() -> None:
    with pytest.raises(HoodieIndexException, match="gone"):
        partitioner(0, updates={"gone": 1})


def commit(bytes_written: int, records: int) -> HoodieCommitMetadata:
    stat = HoodieWriteStat("f", "p", num_writes=records, total_write_bytes=bytes_written)
    return HoodieCommitMetadata({"p": (stat,)}, {}, WriteOperationType.UPSERT)


def test_the_recorded_record_size_is_that_of_the_newest_commit_that_is_large_enough() -> None:
    settings = config()
    assert recorded_record_size([], settings) is None
    assert recorded_record_size([commit(700, 7), commit(900, 4), commit(9000, 9)], settings) == 225
    assert recorded_record_size([commit(900, 0)], settings) is None


def test_only_the_newest_commits_are_read_for_the_size_of_a_record() -> None:
    read = []

    def commits() -> Iterator[HoodieCommitMetadata]:
        for number in range(10):
            read.append(number)
            yield commit(900 if number == 5 else 700, 4)

    assert recorded_record_size(commits(), config()) is None
    assert read == [0, 1, 2, 3, 4]
    six = HoodieWriteConfig.from_properties(
        "/t", {**config().properties, "_hoodie.record.size.estimator.max.commits": 6}
    )
    assert recorded_record_size(commits(), six) == 225
