"""Tables with the bucket index, written by the local client and held against a dict."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.config.index_config import BucketKeyRule
from hoodie.engine.local_data import LocalData
from hoodie.exception import (
    HoodieConfigException,
    HoodieDuplicateKeyException,
    HoodieException,
    HoodieIndexException,
    HoodieKeyException,
)
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, bucket_of_file_id, new_bucket_file_ids
from hoodie.index.bucket.simple_bucket_index import BucketLocations
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.parquet.parquet_reader import HoodieParquetReader

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("v", pa.int64())])
BUCKETS = 3
Key = tuple[str, str]
_numbers = itertools.count()


def make_table(base_path: Path, **arguments: Any) -> str:
    given = {"record_key_fields": ["id"], "partition_fields": ["region"], **arguments}
    HoodieTableMetaClient.init_table(str(base_path), table_name="trips", **given)
    return str(base_path)


def config_of(base_path: str, options: Mapping[str, Any] | None = None) -> HoodieWriteConfig:
    given = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": BUCKETS}
    return HoodieWriteConfig.from_properties(base_path, {**given, **(options or {})})


def rows_of(records: Mapping[Key, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": k, "region": r, "v": v} for (k, r), v in records.items()], SCHEMA)


def write(
    base_path: str, operation: str, records: Mapping[Key, int] | pa.Table | pa.RecordBatchReader, **options: Any
) -> Any:
    names = {key.replace("__", "."): value for key, value in options.items()}
    table = rows_of(records) if isinstance(records, Mapping) else records
    with HoodieLocalWriteClient(config_of(base_path, names)) as client:
        return getattr(client, operation)(table)


def read(base_path: str) -> list[tuple[Key, int]]:
    return sorted(((row["id"], row["region"]), row["v"]) for row in hoodie.read_table(base_path).to_pylist())


def files_by_bucket(base_path: str) -> Iterator[tuple[str, int, list[str]]]:
    """(partition path, bucket, its keys) of the latest base files; no bucket has two."""
    meta_client = HoodieTableMetaClient.load(base_path)
    view = meta_client.view()
    for partition_path in view.list_partitions():
        seen = set()
        for base_file in view.latest_base_files(partition_path):
            bucket = bucket_of_file_id(base_file.file_id)
            assert bucket is not None
            assert bucket not in seen
            seen.add(bucket)
            with HoodieParquetReader(meta_client.storage, base_file.path) as reader:
                yield partition_path, bucket, reader.read_record_keys().to_pylist()


def assert_in_their_buckets(base_path: str, buckets: int = BUCKETS) -> None:
    identifier = BucketIdentifier(buckets, ("id",), ("id",))
    for _, bucket, keys in files_by_bucket(base_path):
        assert identifier.bucket_ids(pa.array(keys, pa.string())).tolist() == [bucket] * len(keys)


KEYS = st.tuples(
    st.sampled_from(["a", "b", "", "key 7", "ü", "日本", "😀", "1", "01", "x" * 10_000, "-", "k2", "k3", "k4"]).filter(
        bool
    ),
    st.sampled_from(["north", "süd"]),
)
WRITES = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "bulk_insert", "insert"]),
        st.dictionaries(KEYS, st.integers(0, 1000), min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITES)
def test_any_writes_leave_the_rows_of_a_dict_with_each_key_in_its_bucket(
    tmp_path: Path, writes: list[tuple[str, dict[Key, int]]]
) -> None:
    base_path = make_table(tmp_path / f"t{next(_numbers)}")
    model: dict[Key, int] = {}
    for operation, asked in writes:
        records = asked if "insert" not in operation else {key: v for key, v in asked.items() if key not in model}
        if not records:
            continue
        write(base_path, operation, records)
        if operation == "delete":
            for key in records:
                model.pop(key, None)
        else:
            model.update(records)
        assert read(base_path) == sorted(model.items())
    assert_in_their_buckets(base_path)


def test_a_bucket_grows_beyond_the_maximum_file_size_and_stays_one_file(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    small = {"hoodie__parquet__max__file__size": 30_000, "hoodie__parquet__small__file__limit": 20_000}
    first = {(f"k{number}", "north"): number for number in range(3000)}
    write(base_path, "bulk_insert", first, **small)
    write(base_path, "upsert", {(f"n{number}", "north"): number for number in range(3000)}, **small)
    assert len(list(files_by_bucket(base_path))) == BUCKETS
    assert len(read(base_path)) == 6000


def test_a_key_that_was_inserted_twice_is_updated_and_deleted_in_both_places(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    key = ("a", "north")
    write(base_path, "insert", {key: 1, ("b", "north"): 5})
    write(base_path, "insert", {key: 2})
    assert read(base_path) == [(key, 1), (key, 2), (("b", "north"), 5)]
    write(base_path, "upsert", {key: 3})
    assert read(base_path) == [(key, 3), (key, 3), (("b", "north"), 5)]
    write(base_path, "delete", {key: 0})
    assert read(base_path) == [(("b", "north"), 5)]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserts_replace_drop_or_refuse_known_keys_as_they_are_told(tmp_path: Path, operation: str) -> None:
    base_path = make_table(tmp_path)
    known, new = ("a", "north"), ("c", "north")
    write(base_path, "upsert", {known: 1})
    write(base_path, operation, {known: 2}, hoodie__merge__allow__duplicate__on__inserts="false")
    assert read(base_path) == [(known, 2)]
    write(base_path, operation, {known: 3, new: 3}, hoodie__datasource__insert__dup__policy="drop")
    assert read(base_path) == [(known, 2), (new, 3)]
    with pytest.raises(HoodieDuplicateKeyException, match="1 of the records"):
        write(base_path, operation, {known: 4, ("d", "north"): 4}, hoodie__datasource__insert__dup__policy="fail")
    assert_in_their_buckets(base_path)


def test_deleting_keys_that_are_not_there_makes_no_file_groups(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", {("a", "north"): 1})
    write(base_path, "delete", {(f"x{number}", "north"): 0 for number in range(20)})
    assert read(base_path) == [(("a", "north"), 1)]
    assert len(list(files_by_bucket(base_path))) == 1


def test_rows_that_were_read_go_back_and_new_ones_go_to_their_bucket(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", {(f"k{number}", "north"): number for number in range(10)})
    stored = hoodie.read_table(base_path).to_pylist()
    changed = [{**row, "v": row["v"] + 100} for row in stored if row["id"] in ("k1", "k2", "k3")]
    added = [
        {**dict.fromkeys(stored[0]), "id": f"n{n}", "region": region, "v": n, "_hoodie_record_key": f"n{n}"}
        | {"_hoodie_partition_path": region}
        for n in range(8)
        for region in ("north", "new")
    ]
    write(base_path, "upsert_prepped_records", pa.Table.from_pylist([*changed, *added]))
    found = dict(read(base_path))
    assert len(found) == 10 + 16
    assert [found[f"k{n}", "north"] for n in range(4)] == [0, 101, 102, 103]
    assert_in_their_buckets(base_path)


def test_a_partial_update_of_a_missing_key_is_refused_though_its_bucket_has_a_file(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", {(f"k{number}", "north"): number for number in range(20)})
    partial = {"hoodie__write__partial__update": "true"}
    with pytest.raises(HoodieKeyException, match="1 of the keys of this partial update are not in the table"):
        write(base_path, "upsert", {("k1", "north"): 7, ("new", "north"): 7}, **partial)
    write(base_path, "upsert", {("k1", "north"): 7}, **partial)
    assert dict(read(base_path))["k1", "north"] == 7


def test_files_of_bulk_insert_are_sorted_by_key_when_they_are_to_be(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    records = {(f"k{number * 7919 % 1000:03}", "north"): number for number in range(1000)}
    write(base_path, "bulk_insert", records, hoodie__bulkinsert__sort__mode="PARTITION_SORT")
    for _, _, keys in files_by_bucket(base_path):
        assert keys == sorted(keys)


@pytest.mark.parametrize("sort_mode", ["NONE", "PARTITION_SORT"])
@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_a_first_bulk_insert_makes_one_file_for_each_bucket(tmp_path: Path, sort_mode: str, tasks: int) -> None:
    base_path = make_table(tmp_path)
    records = {(f"k{number}", f"p{number % 7}"): number for number in range(600)}
    write(
        base_path,
        "bulk_insert",
        records,
        hoodie__bulkinsert__sort__mode=sort_mode,
        hoodie__bulkinsert__shuffle__parallelism=tasks,
    )
    assert read(base_path) == sorted(records.items())
    assert_in_their_buckets(base_path)
    assert len(list(tmp_path.glob("p*/*.parquet"))) == 7 * BUCKETS


def test_rows_of_a_first_bulk_insert_that_come_in_another_order_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_path = make_table(tmp_path)
    monkeypatch.setattr(LocalData, "sort_within", lambda data, columns: data)
    records = {(f"k{number}", "north"): number for number in range(100)}
    with pytest.raises(HoodieException, match="are not adjacent"):
        write(base_path, "bulk_insert", records, hoodie__bulkinsert__shuffle__parallelism=1)
    assert read(base_path) == []


def test_rows_of_a_first_bulk_insert_that_a_file_does_not_take_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_path = make_table(tmp_path)
    monkeypatch.setattr(HoodieCreateHandle, "write", lambda handle, rows: rows)
    with pytest.raises(HoodieException, match="did not take all of its rows"):
        write(base_path, "bulk_insert", {("a", "north"): 1})
    assert read(base_path) == []


def test_a_first_bulk_insert_combines_where_it_is_asked_to(tmp_path: Path) -> None:
    base_path = make_table(tmp_path, ordering_fields=["v"])
    rows = pa.concat_tables([rows_of({("a", "north"): 2, ("b", "north"): 1}), rows_of({("a", "north"): 1})])
    write(base_path, "bulk_insert", rows, hoodie__combine__before__insert="true")
    assert read(base_path) == [(("a", "north"), 2), (("b", "north"), 1)]


@pytest.mark.parametrize("good", [0, 20])
def test_records_without_a_key_fail_a_first_bulk_insert(tmp_path: Path, good: int) -> None:
    base_path = make_table(tmp_path)
    rows = [{"id": f"k{number}", "region": "north", "v": number} for number in range(good)]
    bad = [{"id": None, "region": "north", "v": 1}, {"id": "", "region": "north", "v": 2}]
    with pytest.raises(HoodieKeyException, match="2 of the records to bulk_insert cannot be written"):
        # As a stream: a table that is in memory is looked at before the write begins.
        write(base_path, "bulk_insert", pa.Table.from_pylist([*rows, *bad], SCHEMA).to_reader())
    assert read(base_path) == []
    assert not list(tmp_path.glob("north/*.parquet"))


def test_a_first_bulk_insert_passes_over_records_that_ask_for_a_delete(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    rows = rows_of({("a", "north"): 1, ("b", "north"): 2})
    asks = pa.array([False, True])
    write(base_path, "bulk_insert", rows.append_column("_hoodie_is_deleted", asks))
    assert read(base_path) == [(("a", "north"), 1)]


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"])
def test_bulk_insert_refuses_sort_modes_that_cannot_hold_buckets(tmp_path: Path, mode: str) -> None:
    base_path = make_table(tmp_path)
    with pytest.raises(HoodieConfigException, match=r"hoodie\.bulkinsert\.sort\.mode at NONE"):
        write(base_path, "bulk_insert", {("a", "north"): 1}, hoodie__bulkinsert__sort__mode=mode)
    assert read(base_path) == []


def test_keys_that_releases_of_hudi_put_in_different_buckets_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    base_path = make_table(tmp_path)
    with pytest.raises(HoodieKeyException, match="1 record keys, such as 'urn:1'"):
        write(base_path, "upsert", {("urn:1", "north"): 1, ("a", "north"): 1})
    write(base_path, "upsert", {("urn:1", "north"): 1}, hoodie__bucket__index__key__rule="1.x")
    write(base_path, "upsert", {("urn:1", "north"): 2}, hoodie__bucket__index__key__rule="1.x")
    assert read(base_path) == [(("urn:1", "north"), 2)]


@pytest.mark.without_metadata_table("a file is copied that a metadata table does not list")
def test_two_file_groups_of_one_bucket_are_refused_by_name(tmp_path: Path) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", {("a", "north"): 1})
    (file,) = (tmp_path / "north").glob("*.parquet")
    (tmp_path / "north" / f"{file.name[:8]}-aaaa{file.name[13:]}").write_bytes(file.read_bytes())
    with pytest.raises(HoodieIndexException, match="partition 'north' has two file groups of bucket"):
        write(base_path, "upsert", {("a", "north"): 2})


def test_composite_keys_are_found_by_the_fields_that_are_hashed(tmp_path: Path) -> None:
    base_path = make_table(tmp_path, record_key_fields=["id", "v"])
    option = {"hoodie__bucket__index__hash__field": "id"}
    rows = pa.Table.from_pylist([{"id": k, "region": "north", "v": v} for k in "abc" for v in range(4)], SCHEMA)
    write(base_path, "upsert", rows, **option)
    write(base_path, "upsert", rows, **option)
    assert len(read(base_path)) == 12
    for _, _, keys in files_by_bucket(base_path):
        assert len(keys) % 4 == 0


def test_virtual_keys_can_be_inserted_into_buckets(tmp_path: Path) -> None:
    base_path = make_table(tmp_path, properties={"hoodie.populate.meta.fields": "false"})
    for number in range(2):
        records = {(f"k{number}{n}", "north"): n for n in range(10)}
        write(base_path, "bulk_insert", records, hoodie__populate__meta__fields="false")
    assert len(read(base_path)) == 20
    view = HoodieTableMetaClient.load(base_path).view()
    assert len(view.latest_base_files("north")) <= BUCKETS


@given(
    rows=st.lists(st.tuples(st.text(min_size=1, max_size=6), st.sampled_from(["", "a", "b/c", "\u00e4"])), min_size=1),
    num_buckets=st.sampled_from([1, 2, 3, 1000]),
)
def test_keys_of_several_partitions_get_the_file_groups_that_each_has_alone(
    rows: list[tuple[str, str]], num_buckets: int
) -> None:
    known = {"a": {bucket: HoodieRecordLocation("001", f"{bucket:08d}-of-a-0") for bucket in range(0, num_buckets, 2)}}
    identifier = BucketIdentifier(num_buckets, ("id",), ("id",), BucketKeyRule.HUDI_0_15)
    locations = BucketLocations(identifier, known, "seed")

    def tagged(some: list[tuple[str, str]]) -> list[tuple[str | None, ...]]:
        columns = [pa.array(["-", *column], pa.string()).slice(1) for column in zip(*some, strict=True)]
        batch = locations.tag(pa.RecordBatch.from_arrays(columns, names=[RECORD_KEY, PARTITION_PATH]))
        return list(zip(*(batch.column(number).to_pylist() for number in (2, 3, 4)), strict=True))

    assert tagged(rows) == [one for row in rows for one in tagged([row])]
    for (key, path), (instant, file_id, position) in zip(rows, tagged(rows), strict=True):
        bucket = int(identifier.bucket_ids(pa.array([key]))[0])
        expected = known.get(path, {}).get(bucket)
        if expected is None:
            (new,) = new_bucket_file_ids(np.array([bucket]), "seed", path)
            assert (instant, file_id, position) == (None, new, None)
        else:
            assert (instant, file_id, position) == (expected.instant_time, expected.file_id, None)
