"""An index that contradicts the layout of a table is refused before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieReadClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import new_file_id_prefix
from hoodie.exception import HoodieConfigException, HoodieIndexException
from tests.support.timeline_files import read_commit, write_commit
from tests.unit.index.bucket.test_simple_bucket_index import (
    BUCKETS,
    assert_in_their_buckets,
    config_of,
    make_table,
    read,
    rows_of,
    write,
)

PAGE = Path(hoodie.__file__).parent.parent / "docs" / "indexes.md"
RECORDS = {(f"k{number}", "north"): number for number in range(50)}
COUNT = "hoodie__bucket__index__num__buckets"
SIMPLE = {"hoodie__index__type": "SIMPLE"}


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def forget_layout(base_path: Path) -> None:
    """Leave what real Hudi would have written: nothing in the extra metadata of commits."""
    commits = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()
    assert len(commits)
    for commit in commits:
        metadata = read_commit(base_path, commit.requested_time)
        kept = {key: value for key, value in metadata.extra_metadata.items() if not key.startswith("hoodie.")}
        write_commit(base_path, commit.requested_time, attrs.evolve(metadata, extra_metadata=kept))


def assert_refused(base_path: Path, message: str, operation: str = "upsert", **options: Any) -> None:
    before = files_below(base_path)
    with pytest.raises(HoodieIndexException, match=message):
        write(str(base_path), operation, {("new", "north"): 1}, **options)
    assert files_below(base_path) == before


@pytest.mark.parametrize("forget", [forget_layout, lambda base_path: None])
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "INMEMORY"])
def test_a_table_of_buckets_is_not_written_with_another_index(
    tmp_path: Path, index: str, operation: str, forget: Callable[[Path], None]
) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    forget(tmp_path)
    assert_refused(tmp_path, "was written with hoodie.index.type=BUCKET", operation, hoodie__index__type=index)


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_a_table_of_another_index_is_not_written_with_buckets(tmp_path: Path, operation: str) -> None:
    write(make_table(tmp_path), "upsert", RECORDS, **SIMPLE)
    assert_refused(tmp_path, "was not written with hoodie.index.type=BUCKET", operation)


@pytest.mark.parametrize("forget", [forget_layout, lambda base_path: None])
@pytest.mark.parametrize("count", [1, BUCKETS - 1, BUCKETS + 1, 2 * BUCKETS, 256])
def test_another_number_of_buckets_is_refused(tmp_path: Path, count: int, forget: Callable[[Path], None]) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    forget(tmp_path)
    assert_refused(tmp_path, "has (other|more) buckets than", **{COUNT: count})
    write(str(tmp_path), "upsert", RECORDS)
    assert len(read(str(tmp_path))) == len(RECORDS)


def test_other_hash_fields_are_refused(tmp_path: Path) -> None:
    make_table(tmp_path, record_key_fields=["id", "v"])
    write(str(tmp_path), "upsert", RECORDS)
    field = {"hoodie__bucket__index__hash__field": "v"}
    assert_refused(tmp_path, r"hash\.field is id,v there and v here", **field)
    forget_layout(tmp_path)
    assert_refused(tmp_path, "has other buckets than this writer: the key 'id:k", **field)
    write(str(tmp_path), "upsert", RECORDS, hoodie__bucket__index__hash__field="v,id")
    assert len(read(str(tmp_path))) == len(RECORDS)


def test_a_rule_for_keys_is_kept_once_it_was_given(tmp_path: Path) -> None:
    rule = "hoodie__bucket__index__key__rule"
    write(make_table(tmp_path), "upsert", RECORDS)
    write(str(tmp_path), "upsert", {("urn:1", "north"): 1}, **{rule: "0.15"})
    assert_refused(tmp_path, r"key\.rule is 0\.15 there and 1\.x here", **{rule: "1.x"})
    assert_refused(tmp_path, r"key\.rule is 0\.15 there and REFUSE here", **{rule: "REFUSE"})
    write(str(tmp_path), "upsert", {("urn:1", "north"): 2})
    assert len(read(str(tmp_path))) == len(RECORDS) + 1


def test_hash_fields_that_are_no_record_key_fields_are_refused(tmp_path: Path) -> None:
    make_table(tmp_path)
    with pytest.raises(HoodieConfigException, match="v is not a record key field; the record key fields are id"):
        write(str(tmp_path), "upsert", RECORDS, hoodie__bucket__index__hash__field="id,v")


def test_consistent_hashing_is_refused() -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "consistent_hashing"}
    with pytest.raises(
        HoodieConfigException,
        match="hoodie does not support it yet: leave the option out for a new table; supported: S",
    ):
        HoodieWriteConfig.from_properties("/t", options)


def test_the_layout_is_stored_in_commits(tmp_path: Path) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    timeline = HoodieTableMetaClient.load(str(tmp_path)).active_timeline
    metadata = timeline.read_commit_metadata(timeline.filter_completed_instants().instants[-1])
    stored = {key: value for key, value in metadata.extra_metadata.items() if key.startswith("hoodie.")}
    assert stored == {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.bucket.index.key.rule": "REFUSE",
    }


def test_an_empty_commit_does_not_hide_the_layout(tmp_path: Path) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    write(str(tmp_path), "delete", {("nobody", "south"): 0})
    assert_refused(tmp_path, "has other buckets than this writer", **{COUNT: 2 * BUCKETS})


@pytest.mark.parametrize("forget", [forget_layout, lambda base_path: None])
def test_empty_commits_that_pushed_the_last_files_into_the_archive_do_not_hide_the_layout(
    tmp_path: Path, forget: Callable[[Path], None]
) -> None:
    written = write(make_table(tmp_path), "upsert", RECORDS)
    write(str(tmp_path), "delete", {("nobody", "south"): 0})
    forget(tmp_path)
    for file in [*(tmp_path / ".hoodie").glob(f"*{written.instant_time}*")]:
        file.unlink()
    assert_refused(tmp_path, "has (other|more) buckets than", **{COUNT: 2 * BUCKETS})
    assert_refused(tmp_path, "was written with hoodie.index.type=BUCKET", **SIMPLE)
    write(str(tmp_path), "upsert", RECORDS)
    assert len(read(str(tmp_path))) == len(RECORDS)


def test_a_table_is_laid_out_in_other_buckets_by_the_lines_of_the_page(tmp_path: Path) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    forget_layout(tmp_path)
    found = re.search(r"<!-- tested: buckets\.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    exec(found[1], {**vars(hoodie), "hoodie": hoodie, "path": str(tmp_path)})
    assert_in_their_buckets(str(tmp_path), 16)
    assert len(read(str(tmp_path))) == len(RECORDS)
    write(str(tmp_path), "upsert", RECORDS, **{COUNT: 16})
    assert_refused(tmp_path, "has more buckets than", **{COUNT: BUCKETS})
    assert_refused(tmp_path, "was written with hoodie.index.type=BUCKET", **SIMPLE)


@pytest.mark.parametrize(("old", "new"), [({}, SIMPLE), (SIMPLE, {})])
def test_all_rows_can_be_written_anew_with_another_index(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any]
) -> None:
    write(make_table(tmp_path), "upsert", RECORDS, **old)
    with HoodieLocalWriteClient(config_of(str(tmp_path), {k.replace("__", "."): v for k, v in new.items()})) as client:
        instant_time = client.start_commit("insert_overwrite_table")
        client.insert_overwrite_table(rows_of(RECORDS), instant_time)
    write(str(tmp_path), "upsert", RECORDS, **new)
    assert len(read(str(tmp_path))) == len(RECORDS)
    assert_refused(tmp_path, "insert_overwrite_table, which takes any index", **old)


def test_partitions_are_not_overwritten_with_another_number_of_buckets(tmp_path: Path) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    assert_refused(tmp_path, "has other buckets than", "insert_overwrite", **{COUNT: 2 * BUCKETS})


def test_ids_of_other_indexes_never_look_like_those_of_buckets() -> None:
    assert not any(new_file_id_prefix()[:8].isdigit() for _ in range(500))


def test_a_plan_of_an_upsert_is_refused_like_the_upsert(tmp_path: Path) -> None:
    write(make_table(tmp_path), "upsert", RECORDS)
    assert_refused(tmp_path, "was written with hoodie.index.type=BUCKET", "explain_upsert", **SIMPLE)


@pytest.mark.parametrize("options", [SIMPLE, {COUNT: 2 * BUCKETS}])
def test_an_instant_that_another_client_started_is_refused_as_well(tmp_path: Path, options: dict[str, Any]) -> None:
    base_path = make_table(tmp_path)
    write(base_path, "upsert", RECORDS)
    names = {key.replace("__", "."): value for key, value in options.items()}
    with (
        HoodieLocalWriteClient(config_of(base_path)) as owner,
        HoodieLocalWriteClient(config_of(base_path, names)) as other,
    ):
        instant_time = owner.start_commit()
        with pytest.raises(HoodieIndexException, match="nothing was committed"):
            other.upsert(rows_of({("new", "north"): 1, **RECORDS}), instant_time)
        owner.upsert(rows_of(RECORDS), instant_time)
    assert len(read(base_path)) == len(RECORDS)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("forget", [forget_layout, lambda base_path: None])
def test_a_writer_that_says_nothing_goes_on_with_the_buckets_of_the_files(
    tmp_path: Path, kind: str, forget: Callable[[Path], None]
) -> None:
    rows = pa.table({"id": [f"k{number}" for number in range(200)], "v": pa.array([1] * 200, pa.int64())})
    options = {
        "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 6, "hoodie.datasource.write.table.type": kind
    }  # fmt: skip
    path = tmp_path / "t"
    hoodie.write_table(rows, str(path), record_key_fields="id", properties=options)
    forget(path)
    changed = rows.slice(0, 50).set_column(1, "v", pa.array([2] * 50, pa.int64()))
    for properties in ({}, {"hoodie.index.type": "BUCKET"}):
        hoodie.write_table(changed, str(path), properties=properties)
        hoodie.write_table(["k199"], str(path), operation="delete", properties=properties)
    found = hoodie.read_table(str(path))
    assert sorted(found["v"].to_pylist()) == [1] * 149 + [2] * 50
    with HoodieReadClient(str(path), options={"hoodie.index.type": "BUCKET"}) as client:
        assert client.read(["k3"])["v"].to_pylist() == [2]
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {})) as client:
        client.upsert(changed)
        assert hoodie.read_table(str(path)).num_rows == 199
        assert "BUCKET" in repr(client)
    assert len(hoodie.plan_read(str(path)).slices) == 6


def test_files_with_too_few_keys_to_tell_the_number_of_buckets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 64}
    hoodie.write_table(pa.table({"id": ["k1"], "v": [1]}), str(path), record_key_fields="id", properties=options)
    forget_layout(path)
    with pytest.raises(HoodieIndexException, match=r"was written with hoodie\.index\.type=BUCKET"):
        hoodie.write_table(pa.table({"id": ["k2"], "v": [1]}), str(path))
    assert hoodie.read_table(str(path)).num_rows == 1


def test_a_client_follows_a_table_that_was_laid_out_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": [f"k{number}" for number in range(20)], "v": [1] * 20})
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 4}
    hoodie.write_table(rows, path, record_key_fields="id", properties=options)
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {})) as client:
        client.upsert(rows)
        other = options | {"hoodie.bucket.index.num.buckets": 2}
        hoodie.write_table(rows, path, operation="insert_overwrite_table", properties=other)
        client.upsert(rows)
    assert hoodie.read_table(path).num_rows == 20
    assert len(hoodie.plan_read(path).slices) == 2
