"""Insert overwrite, insert overwrite table and delete partitions: one replacecommit each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.avro.timeline_metadata import decode_record
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieInsertException,
    HoodieNotSupportedException,
    HoodieRollbackException,
)
from tests.support.pending_clustering import schedule_clustering
from tests.support.table_builder import read_rows, rows
from tests.support.timeline_files import state_file

Rows = list[tuple[str, str, int]]
MakeClient = Callable[..., HoodieLocalWriteClient]
FIRST = [("a", "eu", 1), ("b", "eu", 1), ("c", "us", 1)]


def timeline_of(base_path: Path) -> Any:
    return HoodieTableMetaClient.load(str(base_path)).active_timeline


def file_ids(base_path: Path, partition_path: str) -> list[str]:
    view = HoodieTableMetaClient.load(str(base_path)).view()
    return sorted(base_file.file_id for base_file in view.latest_base_files(partition_path))


def test_insert_overwrite_replaces_the_partitions_that_get_records(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    old = file_ids(base_path, "eu")
    result = client().insert_overwrite(rows(("d", "eu", 2), ("e", "asia", 2)))
    assert read_rows(base_path) == [("c", "us", 1), ("d", "eu", 2), ("e", "asia", 2)]
    assert {path: list(ids) for path, ids in result.partition_to_replace_file_ids.items()} == {"asia": [], "eu": old}
    assert set(file_ids(base_path, "eu")).isdisjoint(old)


def test_the_timeline_says_what_hudi_says(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    old = file_ids(base_path, "eu")
    result = client().insert_overwrite(rows(("d", "eu", 2)))
    timeline = timeline_of(base_path)
    instant = timeline.find(result.instant_time)
    assert instant.action is Action.REPLACE_COMMIT and instant.is_completed
    requested = state_file(base_path, result.instant_time, "replacecommit", State.REQUESTED).read_bytes()
    nothing = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
    assert decode_record(requested, "HoodieRequestedReplaceMetadata") == nothing
    inflight = timeline.read_commit_metadata(HoodieInstant(result.instant_time, Action.REPLACE_COMMIT, State.INFLIGHT))
    assert [(stat.file_id, stat.num_inserts) for stat in inflight.write_stats] == [("", 1)]
    metadata = timeline.read_commit_metadata(instant)
    assert isinstance(metadata, HoodieReplaceCommitMetadata)
    assert metadata.operation_type is WriteOperationType.INSERT_OVERWRITE
    assert metadata.partition_to_replace_file_ids == {"eu": tuple(old)}
    assert [stat.prev_commit for stat in metadata.write_stats] == ["null"]
    assert metadata.schema is not None


def test_no_small_file_of_a_replaced_partition_is_filled(base_path: Path, client: MakeClient) -> None:
    client().insert(rows(("a", "eu", 1)))
    client().insert_overwrite(rows(("b", "eu", 2)))
    assert len(list((base_path / "eu").glob("*.parquet"))) == 2
    client().insert(rows(("c", "eu", 3)))
    assert read_rows(base_path) == [("b", "eu", 2), ("c", "eu", 3)]


def test_keys_are_looked_up_in_what_is_left(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    client().insert_overwrite(rows(("b", "eu", 5)))
    client().upsert(rows(("a", "eu", 6), ("b", "eu", 6)))
    assert read_rows(base_path) == [("a", "eu", 6), ("b", "eu", 6), ("c", "us", 1)]


@pytest.mark.parametrize("combine", [False, True])
def test_records_of_one_key_are_kept_unless_they_shall_be_combined(
    base_path: Path, client: MakeClient, combine: bool
) -> None:
    client(combine_before_insert=combine).insert_overwrite(rows(("a", "eu", 1), ("a", "eu", 2)))
    assert read_rows(base_path) == ([("a", "eu", 2)] if combine else [("a", "eu", 1), ("a", "eu", 2)])


def test_the_stored_keys_do_not_count_as_duplicates(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    client(datasource_write_insert_drop_duplicates=True).insert_overwrite(rows(("a", "eu", 9)))
    assert read_rows(base_path) == [("a", "eu", 9), ("c", "us", 1)]


def test_named_partitions_are_replaced_whatever_comes_in(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    given = HoodieWriteConfig.from_properties(str(base_path), {"hoodie.static.overwrite.partition.paths": "eu,us"})
    with HoodieLocalWriteClient(given) as static:
        static.insert_overwrite(rows(("d", "us", 2)))
        assert read_rows(base_path) == [("d", "us", 2)]
        with pytest.raises(HoodieInsertException, match="partition 'asia'.*static.overwrite"):
            static.insert_overwrite(rows(("e", "asia", 2)))
    assert read_rows(base_path) == [("d", "us", 2)]
    assert not (base_path / "asia").exists() or not list((base_path / "asia").glob("*.parquet"))


def test_a_whole_table_is_replaced(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    client().insert_overwrite_table(rows(("z", "asia", 2)))
    assert read_rows(base_path) == [("z", "asia", 2)]
    client().insert_overwrite_table(rows())
    assert read_rows(base_path) == []
    client().upsert(rows(("z", "asia", 3)))
    assert read_rows(base_path) == [("z", "asia", 3)]


@pytest.mark.parametrize(
    ("operation", "properties", "emptied", "left"),
    [
        ("insert_overwrite_table", {}, "partitions of {}: 'eu', 'us'", []),
        ("insert_overwrite", {"hoodie.static.overwrite.partition.paths": "eu"}, "partitions of {}: 'eu'", FIRST[2:]),
        ("insert_overwrite", {}, None, FIRST),
    ],
)
def test_an_input_without_records_that_empties_partitions_is_told(
    base_path: Path,
    client: MakeClient,
    caplog: pytest.LogCaptureFixture,
    operation: str,
    properties: dict[str, str],
    emptied: str | None,
    left: Rows,
) -> None:
    client().upsert(rows(*FIRST))
    given = HoodieWriteConfig.from_properties(str(base_path), properties)
    with HoodieLocalWriteClient(given) as writer:
        getattr(writer, operation)(rows())
    assert read_rows(base_path) == left
    if emptied is None:
        assert "no records" not in caplog.text
    else:
        assert f"{operation}: the input has no records" in caplog.text
        assert emptied.format(base_path) in caplog.text


def test_partitions_are_deleted(base_path: Path, client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    client().upsert(rows(*FIRST))
    old = file_ids(base_path, "eu")
    result = client().delete_partitions(["eu", "nowhere"])
    assert read_rows(base_path) == [("c", "us", 1)]
    assert "nowhere" in caplog.text
    metadata = timeline_of(base_path).read_commit_metadata(timeline_of(base_path).find(result.instant_time))
    assert metadata.operation_type is WriteOperationType.DELETE_PARTITION
    assert metadata.partition_to_replace_file_ids == {"eu": tuple(old), "nowhere": ()}
    assert metadata.schema is not None and not list(metadata.write_stats)
    client().upsert(rows(("a", "eu", 4)))
    assert read_rows(base_path) == [("a", "eu", 4), ("c", "us", 1)]


@pytest.mark.parametrize("partition", ["../other", "/abs", "a//b", ".hoodie", 7])
def test_what_is_no_partition_path_is_refused(base_path: Path, client: MakeClient, partition: Any) -> None:
    client().upsert(rows(*FIRST))
    with pytest.raises(HoodieConfigException, match="partition path"):
        client().delete_partitions([partition])
    assert read_rows(base_path) == FIRST
    assert not list(timeline_of(base_path).filter_pending())


def test_one_text_is_no_list_of_partitions(client: MakeClient) -> None:
    with pytest.raises(HoodieConfigException, match=r"\['eu'\]"):
        client().delete_partitions("eu")


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
def test_file_groups_of_a_pending_clustering_are_not_replaced(
    base_path: Path, client: MakeClient, operation: str
) -> None:
    client().upsert(rows(*FIRST))
    clustering = schedule_clustering(base_path, "eu")
    given = ["eu"] if operation == "delete_partitions" else rows(("d", "eu", 2))
    with pytest.raises(HoodieNotSupportedException, match=f"clustering {clustering}"):
        getattr(client(), operation)(given)
    assert read_rows(base_path) == FIRST


UNDO = {
    "rollback": lambda client, _, undone: client.rollback(undone),
    "restore": lambda client, kept, _: client.restore_to_instant(kept),
}


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("undo", UNDO)
def test_a_pending_clustering_is_undone_without_a_trace(base_path: Path, client: MakeClient, undo: str) -> None:
    kept = client().upsert(rows(*FIRST)).instant_time
    clustering = schedule_clustering(base_path, "eu")
    UNDO[undo](client(), kept, clustering)
    assert [file.name for file in (base_path / ".hoodie").rglob(f"{clustering}*")] == []
    client().upsert(rows(("a", "eu", 2)))
    assert read_rows(base_path) == [("a", "eu", 2), *FIRST[1:]]


@pytest.mark.parametrize("table_version", [9], indirect=True)
@pytest.mark.parametrize("undo", UNDO)
def test_a_completed_clustering_is_undone_without_a_trace(base_path: Path, client: MakeClient, undo: str) -> None:
    """In layout 2 the files that were there first name another action than the completed one."""
    kept = client().upsert(rows(*FIRST)).instant_time
    clustering = client().insert_overwrite(rows(*FIRST[:2])).instant_time
    for file in (base_path / ".hoodie/timeline").glob(f"{clustering}.replacecommit.*"):
        file.rename(file.with_name(file.name.replace("replacecommit", "clustering")))
    UNDO[undo](client(), kept, clustering)
    assert [file.name for file in (base_path / ".hoodie").rglob(f"{clustering}*")] == []
    assert not list(base_path.rglob(f"*_{clustering}.parquet"))
    client().upsert(rows(("a", "eu", 2)))
    assert read_rows(base_path) == [("a", "eu", 2), *FIRST[1:]]


def test_an_overwrite_can_be_committed_by_hand(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    writer = client(auto_commit=False)
    instant_time = writer.start_commit("insert_overwrite")
    result = writer.insert_overwrite(rows(("d", "eu", 2)), instant_time)
    assert read_rows(base_path) == FIRST
    assert writer.commit(instant_time, result)
    assert read_rows(base_path) == [("c", "us", 1), ("d", "eu", 2)]


def test_an_instant_of_another_action_is_refused_with_the_fix(base_path: Path, client: MakeClient) -> None:
    writer = client()
    instant_time = writer.start_commit()
    with pytest.raises(HoodieCommitException, match=r"started as a commit.*replacecommit.*start_commit\(operation\)"):
        writer.insert_overwrite(rows(*FIRST), instant_time)
    assert timeline_of(base_path).find(instant_time) is not None


def test_an_overwrite_that_failed_is_rolled_back_by_the_next_writer(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    writer = client(auto_commit=False)
    writer.insert_overwrite(rows(("d", "eu", 2)))
    assert len(list((base_path / "eu").glob("*.parquet"))) == 2
    client().upsert(rows(("c", "us", 2)))
    assert read_rows(base_path) == [("a", "eu", 1), ("b", "eu", 1), ("c", "us", 2)]
    assert len(list((base_path / "eu").glob("*.parquet"))) == 1


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
def test_a_completed_replacecommit_is_rolled_back(base_path: Path, client: MakeClient, operation: str) -> None:
    client().upsert(rows(*FIRST))
    given = ["eu"] if operation == "delete_partitions" else rows(("d", "eu", 2))
    result = getattr(client(), operation)(given)
    assert client().rollback(result.instant_time)
    assert read_rows(base_path) == FIRST
    client().upsert(rows(("a", "eu", 3)))
    assert read_rows(base_path) == [("a", "eu", 3), *FIRST[1:]]


def test_a_replacecommit_whose_replaced_files_are_gone_is_not_rolled_back(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    (old,) = (base_path / "eu").glob("*.parquet")
    result = client().insert_overwrite(rows(("d", "eu", 2)))
    old.unlink()
    with pytest.raises(HoodieRollbackException, match="cleaned"):
        client().rollback(result.instant_time)
    assert read_rows(base_path) == [("c", "us", 1), ("d", "eu", 2)]


def test_write_table_overwrites(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(*FIRST))
    hoodie.write_table(rows(("d", "eu", 2)), str(base_path), operation="insert_overwrite")
    assert read_rows(base_path) == [("c", "us", 1), ("d", "eu", 2)]
    options = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
    hoodie.write_table(rows(("e", "eu", 2)), str(base_path), properties=options)
    assert read_rows(base_path) == [("e", "eu", 2)]


def test_hudi_rs_reads_the_replaced_table(base_path: Path, client: MakeClient) -> None:
    hudi = pytest.importorskip("hudi")
    client().upsert(rows(*FIRST))
    client().insert_overwrite(rows(("d", "eu", 2)))
    client().delete_partitions(["us"])
    batches = hudi.HudiTable(str(base_path)).read()
    assert [row["id"] for batch in batches for row in pa.record_batch(batch).to_pylist()] == ["d"]


def test_an_overwrite_with_buckets_makes_a_new_file_group_of_each(base_path: Path, client: MakeClient) -> None:
    buckets = {"index_type": "BUCKET", "bucket_index_num_buckets": 2}
    many = [(f"k{number}", "eu", 1) for number in range(20)]
    client(**buckets).upsert(rows(*many))
    old = file_ids(base_path, "eu")
    client(**buckets).insert_overwrite(rows(*((key, region, 2) for key, region, _ in many[:15])))
    new = file_ids(base_path, "eu")
    assert [name[:8] for name in new] == [name[:8] for name in old] == ["00000000", "00000001"]
    assert set(new).isdisjoint(old)
    client(**buckets).upsert(rows(*((key, region, 3) for key, region, _ in many)))
    assert read_rows(base_path) == sorted((key, region, 3) for key, region, _ in many)
