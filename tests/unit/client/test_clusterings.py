"""Clusterings: what is written, and that rows stay as they are, whatever comes before and after."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieReadClient, HoodieTableMetaClient
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieClusteringException, HoodieConfigException, HoodieException, HoodieIOException
from hoodie.table.action.cluster.cluster_group import ClusterGroup
from tests.support.clustered_table import (
    INDEXED,
    MANY_FILES,
    clusterings,
    commit_of,
    latest_slices,
    pending,
    rows_with_meta,
)
from tests.support.table_builder import SCHEMA, init_table, instants, local_client, read_rows, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import begin_after

PLAN = "hoodie.clustering.plan.strategy."
SORTED = {f"{PLAN}sort.columns": "fare"}
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
VERSIONS = [6, 8, 9]
every_version = pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
every_table = pytest.mark.parametrize(
    ("table_type", "table_version"),
    [(table_type, version) for version in reversed(VERSIONS) for table_type in TYPES],
    indirect=["table_version"],
)


@pytest.fixture
def table_type() -> str:
    return "COPY_ON_WRITE"


@pytest.fixture
def base_path(tmp_path: Path, table_version: int, table_type: str) -> Path:
    return Path(init_table(tmp_path / "t", table_type=table_type))


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**MANY_FILES, **properties})


def fill(base_path: Path, **properties: Any) -> list[str]:
    """Two inserts, an upsert of rows of both and a delete, in two partitions; the times."""
    with new_client(base_path, **properties) as client:
        return [
            client.insert(rows(*((f"a{n}", "xy"[n % 2], 1, float(-n)) for n in range(8)))).instant_time,
            client.insert(rows(*((f"b{n}", "xy"[n % 2], 1, float(n)) for n in range(8)))).instant_time,
            client.upsert(rows(("a2", "x", 2, 50.0), ("b3", "y", 2, -50.0))).instant_time,
            client.delete([HoodieKey("a4", "x"), HoodieKey("b5", "y")]).instant_time,
        ]


def cluster(base_path: Path, **properties: Any) -> str:
    with new_client(base_path, **properties) as client:
        result = client.cluster()
    assert result is not None
    return result.instant_time


def new_files(base_path: Path, instant_time: str) -> list[Path]:
    return sorted(base_path.rglob(f"*_{instant_time}.parquet"))


# --- what is written --------------------------------------------------------------------------------------------------


@every_table
def test_rows_keep_their_columns_and_are_ordered(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path, **INDEXED)
    before = rows_with_meta(base_path)
    old = {(part.partition_path, part.file_id) for part in latest_slices(base_path)}
    with new_client(base_path, **INDEXED, **SORTED) as client:
        result = client.cluster()
        assert result is not None
        assert client.cluster(result.instant_time) is None
    assert (result.operation, result.is_committed) == (WriteOperationType.CLUSTER, True)
    assert rows_with_meta(base_path) == before
    assert len(before) == 14
    files = new_files(base_path, result.instant_time)
    assert [file.parent.name for file in files] == ["x", "y"]
    for file in files:
        stored = pq.read_table(file, partitioning=None)
        assert stored["fare"].to_pylist() == sorted(stored["fare"].to_pylist())
        assert set(stored[FILE_NAME_META].to_pylist()) == {file.name}
        assert len(set(stored["_hoodie_commit_time"].to_pylist())) == 3
        assert len(set(stored["_hoodie_commit_seqno"].to_pylist())) == stored.num_rows
    metadata = commit_of(base_path, result.instant_time)
    assert metadata.operation_type is WriteOperationType.CLUSTER
    assert not metadata.compacted
    assert metadata.schema is not None
    replaced = {(path, file_id) for path, ids in metadata.partition_to_replace_file_ids.items() for file_id in ids}
    assert replaced == old
    for file, stat in zip(files, metadata.write_stats, strict=True):
        count = pq.read_metadata(file).num_rows
        assert (stat.path, stat.partition_path) == (f"{file.parent.name}/{file.name}", file.parent.name)
        assert (stat.prev_commit, stat.num_writes, stat.num_inserts) == ("null", count, count)
        assert (stat.num_update_writes, stat.num_deletes, stat.total_write_errors) == (0, 0, 0)
        assert stat.total_write_bytes == stat.file_size_bytes == file.stat().st_size
        assert stat.file_id == file.name.split("_")[0]
        assert stat.file_id.endswith("-0")
    assert len({stat.file_id for stat in metadata.write_stats}) == 2
    assert pending(base_path) == []
    (name,) = [entry for entry in instants(base_path) if entry[0] == result.instant_time]
    assert name[1:] == ("replacecommit", "COMPLETED")
    assert not list((base_path / ".hoodie/.temp").glob("*"))
    assert not list((base_path / ".hoodie/.heartbeat").glob("*"))
    check_table(base_path)
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    assert sorted(read["id"].to_pylist()) == [row["id"] for row in sorted(before, key=lambda row: row["id"])]


@every_table
@pytest.mark.one_in(4)
def test_indexes_find_the_rows_in_their_new_files(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path, **INDEXED)
    cluster(base_path, **INDEXED)
    (x,) = [part for part in latest_slices(base_path) if part.partition_path == "x"]
    for index in ("SIMPLE", "BLOOM", "RECORD_INDEX", "GLOBAL_BLOOM", "GLOBAL_SIMPLE"):
        with HoodieReadClient(str(base_path), options={**MANY_FILES, "hoodie.index.type": index}) as client:
            assert client.read([HoodieKey("a2", "x")])["fare"].to_pylist() == [50.0], index
        with new_client(base_path, **INDEXED, **{"hoodie.index.type": index}) as writer:
            result = writer.upsert(rows(("a2", "x", 3, 50.0)))
        assert [status.stat.file_id for status in result if status.stat.num_writes] == [x.file_id], index
        check_table(base_path)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_secondary_indexes_and_statistics_are_right(base_path: Path, table_type: str) -> None:
    fill(base_path, **INDEXED)
    with new_client(base_path, **INDEXED) as client:
        assert client.create_index("idx_ts", "ts")
    cluster(base_path, **INDEXED)
    check_table(base_path)
    with new_client(base_path, **INDEXED) as client:
        client.upsert(rows(("a2", "x", 3, 7.5), ("b3", "y", 3, 7.5)))
    check_table(base_path)
    assert [row["id"] for row in rows_with_meta(base_path, filters="ts = 3")] == ["a2", "b3"]


def test_the_index_in_memory_of_another_client_finds_the_rows(base_path: Path) -> None:
    in_memory = {"hoodie.index.type": "INMEMORY"}
    with new_client(base_path, **in_memory) as client:
        client.insert(rows(("a", "x", 1)))
        client.insert(rows(("b", "x", 1)))
        # This client knows where it has put them; the other one clusters with the same index, and with none.
        cluster(base_path, **in_memory)
        client.upsert(rows(("a", "x", 2)))
        assert read_rows(base_path) == [("a", "x", 2), ("b", "x", 1)]
        cluster(base_path)
        client.upsert(rows(("b", "x", 3)))
        assert read_rows(base_path) == [("a", "x", 2), ("b", "x", 3)]
        assert client.cluster() is not None
        client.upsert(rows(("a", "x", 4)))
    assert read_rows(base_path) == [("a", "x", 4), ("b", "x", 3)]
    check_table(base_path)


@every_version
def test_the_target_size_gives_several_files_and_their_order_goes_on(base_path: Path) -> None:
    with new_client(base_path) as client:
        for number in range(2):
            client.insert(rows(*((f"k{n:05}", "x", 1, float((n * 7919) % 3000)) for n in range(number, 3000, 2))))
    before = rows_with_meta(base_path)
    instant_time = cluster(base_path, **SORTED, **{f"{PLAN}target.file.max.bytes": "30000"})
    files = sorted(new_files(base_path, instant_time), key=lambda file: int(file.name.split("_")[0].rsplit("-", 1)[1]))
    assert len(files) > 2
    fares = [pq.read_table(file, partitioning=None)["fare"].to_pylist() for file in files]
    assert [fare for part in fares for fare in part] == sorted(row["fare"] for row in before)
    assert all(len(part) >= 100 for part in fares[:-1])
    assert len({file.name.split("_")[0].rsplit("-", 1)[0] for file in files}) == 1, "one task, one prefix"
    assert rows_with_meta(base_path) == before
    check_table(base_path)
    # The plan says the size: whoever carries it out makes such files.
    with new_client(base_path, **{f"{PLAN}target.file.max.bytes": "30000"}) as client:
        scheduled = client.schedule_clustering()
        assert scheduled is not None
    with new_client(base_path) as client:
        client.cluster(scheduled)
    assert len(new_files(base_path, scheduled)) > 2
    assert rows_with_meta(base_path) == before


@pytest.mark.parametrize("table_type", TYPES)
def test_single_file_sort_makes_one_file_of_each(base_path: Path, table_type: str) -> None:
    fill(base_path)
    before, slices = rows_with_meta(base_path), latest_slices(base_path)
    options = {
        f"{PLAN}class": "SparkSingleFileSortPlanStrategy",
        "hoodie.clustering.execution.strategy.class": "SparkSingleFileSortExecutionStrategy",
        f"{PLAN}target.file.max.bytes": "1",
    }
    instant_time = cluster(base_path, **SORTED, **options)
    files = new_files(base_path, instant_time)
    assert len(files) == len(slices) == 4
    for file in files:
        fares = pq.read_table(file, partitioning=None)["fare"].to_pylist()
        assert fares == sorted(fares)
    assert rows_with_meta(base_path) == before
    assert not {part.file_id for part in slices} & {part.file_id for part in latest_slices(base_path)}


@pytest.mark.parametrize("layout", ["z-order", "HILBERT", "linear"])
@pytest.mark.parametrize("table_type", TYPES)
def test_curves_order_the_rows_and_keep_them(base_path: Path, table_type: str, layout: str) -> None:
    fill(base_path)
    before = rows_with_meta(base_path)
    cluster(base_path, **{f"{PLAN}sort.columns": "fare,id", "hoodie.layout.optimize.strategy": layout})
    assert rows_with_meta(base_path) == before
    check_table(base_path)


# --- tables -----------------------------------------------------------------------------------------------------------


@every_table
def test_a_group_whose_rows_are_all_deleted_leaves_no_file(
    base_path: Path, table_type: str, table_version: int
) -> None:
    with new_client(base_path, **INDEXED) as client:
        client.insert(rows(("a", "x", 1), ("b", "y", 1)))
        client.delete([HoodieKey("a", "x")])
        result = client.cluster()
        assert result is not None
        assert [file.parent.name for file in new_files(base_path, result.instant_time)] == ["y"]
        assert sorted(commit_of(base_path, result.instant_time).partition_to_replace_file_ids) == ["x", "y"]
        assert read_rows(base_path) == [("b", "y", 1)]
        check_table(base_path)
        client.upsert(rows(("a", "x", 2)))
        client.delete([HoodieKey("a", "x"), HoodieKey("b", "y")])
        assert client.cluster() is not None
        assert read_rows(base_path) == []
        check_table(base_path)
        assert client.cluster() is None
        client.insert(rows(("a", "x", 3)))
    assert read_rows(base_path) == [("a", "x", 3)]
    check_table(base_path)


@pytest.mark.parametrize("table_type", TYPES)
@every_version
def test_virtual_keys(tmp_path: Path, table_type: str, table_version: int) -> None:
    virtual = {"hoodie.populate.meta.fields": "false"}
    base_path = Path(init_table(tmp_path / "v", table_type=table_type, properties=virtual))
    with new_client(base_path, **virtual, **{f"{PLAN}sort.columns": "ts"}) as client:
        client.insert(rows(("b", "x", 2), ("c", "y", 1)))
        client.insert(rows(("a", "x", 1)))
        before = read_rows(base_path, [*SCHEMA.names, "_hoodie_commit_time"])
        result = client.cluster()
        assert result is not None
        assert read_rows(base_path, [*SCHEMA.names, "_hoodie_commit_time"]) == before
        (file, _) = new_files(base_path, result.instant_time)
        assert pq.read_table(file, partitioning=None)["id"].to_pylist() == ["a", "b"]
        client.insert(rows(("d", "x", 3)))
        client.delete_partitions(["y"])
        assert client.cluster() is not None
    assert read_rows(base_path) == [("a", "x", 1), ("b", "x", 2), ("d", "x", 3)]
    validation = hoodie.metadata.validate(str(base_path))
    assert validation.is_right, str(validation)


@every_version
def test_a_table_without_partitions(tmp_path: Path, table_version: int) -> None:
    base_path = Path(init_table(tmp_path / "n", partition_fields=[]))
    with new_client(base_path, **INDEXED, **SORTED) as client:
        client.insert(rows(("a", "x", 1, 2.0)))
        client.insert(rows(("b", "x", 1, 1.0)))
        assert client.cluster() is not None
        client.upsert(rows(("a", "x", 2, 2.0)))
    assert [row[0] for row in read_rows(base_path)] == ["a", "b"]
    check_table(base_path)


@every_table
def test_files_of_an_older_schema_get_the_newer_one(base_path: Path, table_type: str, table_version: int) -> None:
    with new_client(base_path, **INDEXED) as client:
        client.insert(rows(("a", "x", 1)))
        client.insert(rows(("b", "x", 1, 2.5)))
        before = rows_with_meta(base_path)
        result = client.cluster()
        assert result is not None
        assert rows_with_meta(base_path) == before
        (file,) = new_files(base_path, result.instant_time)
        assert pq.read_table(file, partitioning=None).select(["id", "fare"]).sort_by("id").to_pydict() == {
            "id": ["a", "b"], "fare": [None, 2.5],
        }  # fmt: skip
        client.upsert(rows(("a", "x", 2, 1.5)))
        # Sorting by a column that some files do not have.
        client.insert(rows(("c", "x", 1, 0.5)))
    with new_client(base_path, **INDEXED, **SORTED) as client:
        assert client.cluster() is not None
    assert [(row["id"], row["fare"]) for row in rows_with_meta(base_path)] == [("a", 1.5), ("b", 2.5), ("c", 0.5)]
    check_table(base_path)


@pytest.mark.parametrize("table_type", TYPES)
def test_rows_of_an_older_schema_are_sorted_first(base_path: Path, table_type: str) -> None:
    with new_client(base_path, **SORTED) as client:
        client.insert(rows(("b", "x", 1, -2.5)))
        client.insert(rows(("a", "x", 1, None)))
        result = client.cluster()
    assert result is not None
    (file,) = new_files(base_path, result.instant_time)
    assert pq.read_table(file, partitioning=None)["id"].to_pylist() == ["a", "b"]


# --- queries ----------------------------------------------------------------------------------------------------------


@every_table
@pytest.mark.one_in(4)
def test_queries_of_changes_and_of_the_past_do_not_see_it(base_path: Path, table_type: str, table_version: int) -> None:
    times = fill(base_path, **INDEXED)
    before = rows_with_meta(base_path)
    past = {time: rows_with_meta(base_path, as_of=time) for time in times}
    begins = {time: begin_after(base_path, time) for time in times}
    changes = {time: incremental(base_path, begin) for time, begin in begins.items()}
    instant_time = cluster(base_path, **INDEXED)
    assert {time: incremental(base_path, begin) for time, begin in begins.items()} == changes
    assert changes[times[-1]] == []
    assert incremental(base_path, "earliest") == sorted((row["id"], row["ts"]) for row in before)
    assert {time: rows_with_meta(base_path, as_of=time) for time in times} == past
    assert rows_with_meta(base_path, as_of=instant_time) == before
    with new_client(base_path, **INDEXED) as client:
        last = client.upsert(rows(("a2", "x", 3, 1.0))).instant_time
    assert incremental(base_path, begins[times[-1]]) == [("a2", 3)]
    assert incremental(base_path, begin_after(base_path, instant_time)) == [("a2", 3)]
    assert rows_with_meta(base_path, as_of=instant_time) == before
    assert [row["fare"] for row in rows_with_meta(base_path, as_of=last) if row["id"] == "a2"] == [1.0]


def incremental(base_path: Path, begin: str) -> list[tuple[Any, ...]]:
    return read_rows(base_path, ["id", "ts"], query_type="incremental", begin=begin)


# --- what comes after it ----------------------------------------------------------------------------------------------


@every_table
@pytest.mark.one_in(4)
def test_writes_go_on(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path, **INDEXED)
    cluster(base_path, **INDEXED)
    with new_client(base_path, **INDEXED) as client:
        client.upsert(rows(("a2", "x", 3, 1.0), ("new", "x", 1, 1.0)))
        client.delete([HoodieKey("a0", "x"), HoodieKey("b1", "y")])
        client.insert(rows(("more", "z", 1, 1.0)))
        check_table(base_path)
        assert len(read_rows(base_path)) == 14
        assert client.cluster() is not None
        check_table(base_path)
        client.insert_overwrite(rows(("only", "x", 1, 1.0)))
        assert client.cluster() is not None
        client.delete_partitions(["y"])
        check_table(base_path)
    assert [row[0] for row in read_rows(base_path)] == ["more", "only"]


@every_table
@pytest.mark.one_in(4)
def test_cleans_and_archives_delete_the_old_files(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path, **INDEXED)
    replaced = {part.file_id for part in latest_slices(base_path)}
    instant_time = cluster(base_path, **INDEXED)
    services = {
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    before = {row["id"] for row in rows_with_meta(base_path)}
    with new_client(base_path, **INDEXED, **services) as client:
        for number in range(5):
            client.upsert(rows((f"c{number}", "x", 1, 1.0)))
            client.clean()
        client.archive()
        check_table(base_path, was_cleaned=True)
        assert not [file for file in base_path.rglob("*.parquet") if file.name.split("_")[0] in replaced]
        assert instant_time not in {time for time, _, _ in instants(base_path)}
        client.upsert(rows(("a2", "x", 9, 9.0)))
        assert client.cluster() is not None
    assert {row["id"] for row in rows_with_meta(base_path)} == before | {f"c{number}" for number in range(5)}
    check_table(base_path, was_cleaned=True)


@every_table
@pytest.mark.one_in(4)
def test_rollback_and_restore_bring_the_old_files_back(base_path: Path, table_type: str, table_version: int) -> None:
    times = fill(base_path, **INDEXED)
    before, slices = rows_with_meta(base_path), latest_slices(base_path)
    with new_client(base_path, **INDEXED) as client:
        first = client.cluster()
        assert first is not None
        assert client.rollback(first.instant_time)
        assert new_files(base_path, first.instant_time) == []
        assert (rows_with_meta(base_path), latest_slices(base_path)) == (before, slices)
        check_table(base_path)
        client.upsert(rows(("a2", "x", 3, 1.0), ("a3", "y", 3, 1.0)))
        second = client.cluster()
        assert second is not None
        client.upsert(rows(("a2", "x", 4, 1.0)))
        client.restore_to_instant(times[-1])
        assert rows_with_meta(base_path) == before
        assert pending(base_path) == []
        check_table(base_path)
        client.upsert(rows(("a2", "x", 5, 5.0)))
        assert client.cluster() is not None
    assert [row["ts"] for row in rows_with_meta(base_path) if row["id"] == "a2"] == [5]
    check_table(base_path)


@every_table
def test_a_restore_to_the_clustering_keeps_it(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path, **INDEXED)
    before = rows_with_meta(base_path)
    with new_client(base_path, **INDEXED) as client:
        result = client.cluster()
        assert result is not None
        client.savepoint(result.instant_time)
        client.upsert(rows(("a2", "x", 4, 1.0), ("new", "z", 1, 1.0)))
        client.restore_to_savepoint(result.instant_time)
    assert rows_with_meta(base_path) == before
    check_table(base_path)
    assert clusterings(base_path) == [result.instant_time]


@every_table
@pytest.mark.one_in(4)
def test_a_savepoint_beside_a_plan_keeps_the_old_files(base_path: Path, table_type: str, table_version: int) -> None:
    times = fill(base_path, **INDEXED)
    before = rows_with_meta(base_path)
    services = {"hoodie.cleaner.commits.retained": "1"}
    with new_client(base_path, **INDEXED, **services) as client:
        scheduled = client.schedule_clustering()
        assert scheduled is not None
        client.savepoint(times[-1])
        assert client.cluster(scheduled) is not None
        for number in range(4):
            client.upsert(rows((f"c{number}", "x", 1, 1.0)))
        client.clean()
        assert rows_with_meta(base_path, as_of=times[-1]) == before
        client.restore_to_savepoint(times[-1])
    assert rows_with_meta(base_path) == before
    check_table(base_path, was_cleaned=True)
    assert clusterings(base_path) == []


@every_table
def test_a_plan_is_given_up(base_path: Path, table_type: str, table_version: int) -> None:
    fill(base_path)
    before = rows_with_meta(base_path)
    with new_client(base_path) as client:
        scheduled = client.schedule_clustering()
        assert scheduled is not None
        assert client.rollback(scheduled)
        assert pending(base_path) == []
        with pytest.raises(HoodieException, match=scheduled):
            client.cluster(scheduled)
        assert client.cluster() is not None
    assert rows_with_meta(base_path) == before
    check_table(base_path)


@every_version
@pytest.mark.one_in(4)
def test_compactions_and_clusterings_take_turns(tmp_path: Path, table_version: int) -> None:
    base_path = Path(init_table(tmp_path / "m", table_type="MERGE_ON_READ"))
    fill(base_path, **INDEXED)
    with new_client(base_path, **INDEXED) as client:
        before = rows_with_meta(base_path)
        compaction = client.schedule_compaction()
        # Its file groups have log files; nothing but those is left for a clustering.
        scheduled = client.schedule_clustering()
        assert compaction is not None
        assert client.compact(compaction) is not None
        if scheduled is not None:
            assert client.cluster(scheduled) is not None
        assert rows_with_meta(base_path) == before
        assert client.cluster() is not None
        client.upsert(rows(("a2", "x", 7, 7.0)))
        assert client.compact() is not None
        check_table(base_path)
        client.upsert(rows(("a2", "x", 8, 8.0)))
        assert client.cluster() is not None
        assert client.compact() is None
    assert [row["ts"] for row in rows_with_meta(base_path) if row["id"] == "a2"] == [8]
    check_table(base_path)


# --- failed attempts, and several processes ---------------------------------------------------------------------------


def test_a_clustering_that_was_never_planned_is_an_error(base_path: Path) -> None:
    fill(base_path)
    with new_client(base_path) as client:
        with pytest.raises(HoodieClusteringException, match="there is no clustering 20200101000000000"):
            client.cluster("20200101000000000")
        with pytest.raises(HoodieConfigException, match="instant time"):
            client.cluster(7)  # type: ignore[arg-type]
        upserted = client.upsert(rows(("a2", "x", 3, 1.0))).instant_time
        with pytest.raises(HoodieException, match=upserted):
            client.cluster(upserted)
    check_table(base_path)


@every_table
def test_a_failed_attempt_is_rolled_back_and_run_again_under_its_instant(
    base_path: Path, table_type: str, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(base_path, **INDEXED)
    before = rows_with_meta(base_path)
    write = ClusterGroup.__call__

    def fail_at_y(self: ClusterGroup, task: Any, found: Any) -> Any:
        if found.partition_path == "y":
            raise OSError("the disk is full")
        return write(self, task, found)

    with new_client(base_path, **INDEXED) as client:
        scheduled = client.schedule_clustering()
        assert scheduled is not None
        with monkeypatch.context() as patched:
            patched.setattr(ClusterGroup, "__call__", fail_at_y)
            with pytest.raises(OSError, match="disk is full"):
                client.cluster(scheduled)
        assert pending(base_path) == [scheduled]
        assert new_files(base_path, scheduled) == []
        assert rows_with_meta(base_path) == before
        check_table(base_path)
        result = client.cluster()
        assert result is not None
        assert result.instant_time == scheduled
    assert rows_with_meta(base_path) == before
    check_table(base_path)


SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}


@every_table
def test_of_two_processes_that_cluster_at_once_one_does_it(
    base_path: Path, table_type: str, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(base_path)
    before = rows_with_meta(base_path)
    write, errors = ClusterGroup.__call__, []

    def meet(self: ClusterGroup, task: Any, found: Any) -> Any:
        if found.partition_path == "x":
            with new_client(base_path, **SEVERAL) as other:
                try:
                    other.cluster(scheduled)
                except HoodieClusteringException as error:
                    errors.append(str(error))
        return write(self, task, found)

    with new_client(base_path, **SEVERAL) as client:
        scheduled = client.schedule_clustering()
        monkeypatch.setattr(ClusterGroup, "__call__", meet)
        result = client.cluster(scheduled)
    assert result is not None
    assert len(errors) == 1
    assert "its heartbeat" in errors[0]
    assert clusterings(base_path) == [scheduled]
    assert rows_with_meta(base_path) == before


@pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
def test_a_plan_that_is_lost_meanwhile_or_damaged_is_told(base_path: Path) -> None:
    fill(base_path)
    with new_client(base_path) as client:
        scheduled = client.schedule_clustering()
        assert scheduled is not None
        (requested,) = base_path.rglob(f"{scheduled}*.requested")
        requested.write_bytes(requested.read_bytes()[:100])
        with pytest.raises(HoodieException, match=scheduled):
            client.cluster()


# --- after commits ----------------------------------------------------------------------------------------------------


def commit_often(base_path: Path, count: int, begin: int = 0, **properties: Any) -> list[Any]:
    with new_client(base_path, **properties) as client:
        return [
            client.upsert(rows((f"k{number}", "x", number))).service_errors for number in range(begin, begin + count)
        ]


def clusterings_after_writes(base_path: Path, count: int, **properties: Any) -> list[int]:
    """How many clusterings are completed after each write."""
    found = []
    for number in range(count):
        assert commit_often(base_path, 1, number, **properties) == [()]
        found.append(len(clusterings(base_path)))
    return found


@every_table
@pytest.mark.one_in(4)
def test_a_client_clusters_inline_if_it_is_told_to(base_path: Path, table_type: str, table_version: int) -> None:
    assert clusterings_after_writes(base_path, 5) == [0] * 5
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}
    assert clusterings_after_writes(base_path, 5, **inline) == [1, 1, 2, 2, 3]
    assert [row[0] for row in read_rows(base_path)] == [f"k{number}" for number in range(5)]
    check_table(base_path)


@every_version
@pytest.mark.one_in(4)
def test_pending_plans_are_carried_out_first(base_path: Path) -> None:
    commit_often(base_path, 2)
    with new_client(base_path) as client:
        scheduled = client.schedule_clustering()
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "4"}
    assert commit_often(base_path, 1, 2, **inline) == [()]
    assert clusterings(base_path) == [scheduled]
    # Only what came after it counts.
    assert commit_often(base_path, 2, 3, **inline) == [(), ()]
    assert clusterings(base_path) == [scheduled]
    assert commit_often(base_path, 1, 5, **inline) == [()]
    assert len(clusterings(base_path)) == 2


@every_version
@pytest.mark.one_in(4)
def test_a_client_only_plans_if_it_is_told_to(base_path: Path) -> None:
    planning = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.async.max.commits": "2"}
    assert commit_often(base_path, 1, 0, **planning) == [()]
    assert pending(base_path) == []
    assert commit_often(base_path, 4, 1, **planning) == [()] * 4
    assert len(pending(base_path)) == 1
    with new_client(base_path) as other:
        assert other.cluster() is not None
    assert clusterings(base_path) != []
    assert pending(base_path) == []
    assert len(read_rows(base_path)) == 5
    check_table(base_path)


@every_version
@pytest.mark.parametrize("key", ["hoodie.clustering.async.enabled", "hoodie.datasource.clustering.async.enable"])
def test_a_client_clusters_in_a_thread_beside_its_next_write(
    base_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    beside = {key: "true", "hoodie.clustering.async.max.commits": "2"}
    write = ClusterGroup.__call__
    may_go_on, threads = threading.Event(), []

    def wait(self: ClusterGroup, task: Any, found: Any) -> Any:
        threads.append(threading.current_thread().name)
        assert may_go_on.wait(60)
        return write(self, task, found)

    monkeypatch.setattr(ClusterGroup, "__call__", wait)
    with new_client(base_path, **beside) as client:
        for number in range(3):
            assert client.upsert(rows((f"n{number}", "x", 1))).service_errors == ()
        assert len(pending(base_path)) == 1
        may_go_on.set()
    assert threads != []
    assert threads != [threading.current_thread().name]
    assert pending(base_path) == []
    assert len(clusterings(base_path)) == 1
    assert [row[0] for row in read_rows(base_path)] == ["n0", "n1", "n2"]
    check_table(base_path)


def test_a_clustering_that_fails_does_not_fail_the_write(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ClusterGroup, task: Any, found: Any) -> Any:
        raise HoodieIOException("it cannot")

    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}
    with monkeypatch.context() as patched:
        patched.setattr(ClusterGroup, "__call__", fail)
        errors = commit_often(base_path, 2, **inline)
    assert errors[0] == ()
    assert "it cannot" in errors[1][0]
    assert len(pending(base_path)) == 1
    assert len(read_rows(base_path)) == 2
    commit_often(base_path, 1, 2, **inline)
    assert pending(base_path) == []
    assert len(clusterings(base_path)) == 1
    check_table(base_path)


@every_version
def test_an_empty_plan_of_a_process_that_died_is_removed(base_path: Path) -> None:
    fill(base_path)
    before = rows_with_meta(base_path)
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    action = Action.CLUSTERING if timeline.layout.has_completion_times else Action.REPLACE_COMMIT
    dead = timeline.create_new_instant_time(action)
    with new_client(base_path) as client:
        result = client.cluster()
        assert result is not None
        assert result.instant_time != dead
        client.upsert(rows(("a2", "x", 3, 1.0)))
    assert not list(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending())
    assert len(rows_with_meta(base_path)) == len(before)
