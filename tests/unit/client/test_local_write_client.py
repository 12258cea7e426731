"""The in-process client, end to end on local files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieRecord, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieHeartbeatException,
    HoodieKeyException,
    HoodieRollbackException,
    HoodieUpsertException,
    HoodieWriteException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
    TableNotFoundException,
)
from hoodie.table.action.action import announce, carry_out
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from tests.support.table_builder import TRIPS, local_client, read_trips, rows

Rows = list[tuple[str, str, int, float]]
MakeClient = Callable[..., HoodieLocalWriteClient]


def test_upsert_updates_keys_of_the_table_and_inserts_the_others(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
        result = c.upsert(rows(("b", "x", 2, 20.0), ("d", "y", 1, 4.0)))
    assert read_trips(base_path) == [("a", "x", 1, 1.0), ("b", "x", 2, 20.0), ("c", "y", 1, 3.0), ("d", "y", 1, 4.0)]
    assert (result.inserted_count, result.updated_count, result.deleted_count) == (1, 1, 0)
    assert result.is_committed


def test_late_row_loses_and_a_tie_is_won_by_the_incoming_row(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("late", "x", 5, 1.0), ("tie", "x", 5, 1.0)))
        result = c.upsert(rows(("late", "x", 4, 2.0), ("tie", "x", 5, 2.0)))
    assert read_trips(base_path) == [("late", "x", 5, 1.0), ("tie", "x", 5, 2.0)]
    assert result.updated_count == 1


def test_a_row_that_lost_keeps_its_commit_time_but_names_the_new_file(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        first = c.upsert(rows(("late", "x", 5, 1.0), ("new", "x", 5, 1.0)))
        second = c.upsert(rows(("late", "x", 4, 2.0), ("new", "x", 6, 2.0)))
    table = hoodie.read_table(str(base_path)).sort_by("id")
    assert table["_hoodie_commit_time"].to_pylist() == [first.instant_time, second.instant_time]
    assert set(table["_hoodie_file_name"].to_pylist()) == {second.statuses[0].stat.path.rsplit("/", 1)[-1]}
    assert table["_hoodie_record_key"].to_pylist() == ["late", "new"]
    assert table["_hoodie_partition_path"].to_pylist() == ["x", "x"]


def test_duplicates_of_the_input_are_combined_by_ordering_value(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 2, 1.0), ("a", "x", 3, 2.0), ("a", "x", 1, 3.0), ("a", "y", 1, 4.0)))
    assert read_trips(base_path) == [("a", "x", 3, 2.0), ("a", "y", 1, 4.0)]


def test_insert_does_not_look_keys_up_and_an_upsert_then_changes_both(base_path: Path, client: MakeClient) -> None:
    with client(parquet_small_file_limit=0) as c:
        c.insert(rows(("a", "x", 1, 1.0)))
        c.insert(rows(("a", "x", 1, 2.0)))
        assert read_trips(base_path) == [("a", "x", 1, 1.0), ("a", "x", 1, 2.0)]
        result = c.upsert(rows(("a", "x", 2, 9.0)))
    assert read_trips(base_path) == [("a", "x", 2, 9.0), ("a", "x", 2, 9.0)]
    assert result.updated_count == 2


def test_a_key_that_lives_twice_in_one_file_is_changed_at_both_places(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.insert(rows(("a", "x", 1, 1.0), ("a", "x", 1, 2.0), ("b", "x", 1, 3.0)))
        c.upsert(rows(("a", "x", 2, 9.0)))
    assert read_trips(base_path) == [("a", "x", 2, 9.0), ("a", "x", 2, 9.0), ("b", "x", 1, 3.0)]


def test_upsert_finds_keys_without_the_help_of_small_files(base_path: Path, client: MakeClient) -> None:
    with client(parquet_small_file_limit=0) as c:
        for number in range(3):
            c.upsert(rows((f"k{number}", "x", 1, 1.0)))
        result = c.upsert(rows(*((f"k{number}", "x", 2, 2.0) for number in range(4))))
    assert read_trips(base_path) == [(f"k{number}", "x", 2, 2.0) for number in range(4)]
    assert (result.updated_count, result.inserted_count) == (3, 1)


def test_insert_into_a_small_file_grows_that_file(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        first = c.insert(rows(("a", "x", 1, 1.0)))
        second = c.insert(rows(("b", "x", 1, 1.0), ("a", "x", 1, 2.0)))
    assert first.statuses[0].file_id == second.statuses[0].file_id
    assert second.statuses[0].stat.prev_commit == first.instant_time
    assert read_trips(base_path) == [("a", "x", 1, 1.0), ("a", "x", 1, 2.0), ("b", "x", 1, 1.0)]


def test_insert_into_a_small_file_replaces_its_key_when_duplicates_are_not_allowed(
    base_path: Path, client: MakeClient
) -> None:
    with client(merge_allow_duplicate_on_inserts=False) as c:
        c.insert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        c.insert(rows(("a", "x", 2, 2.0), ("c", "x", 1, 1.0)))
    assert read_trips(base_path) == [("a", "x", 2, 2.0), ("b", "x", 1, 1.0), ("c", "x", 1, 1.0)]


def test_bulk_insert_writes_new_files_from_a_stream(base_path: Path, client: MakeClient) -> None:
    batches = (rows((f"k{number}", "xyz"[number % 3], 1, 1.0)).to_batches()[0] for number in range(30))
    with client() as c:
        result = c.bulk_insert(pa.RecordBatchReader.from_batches(TRIPS, batches))
    assert result.inserted_count == 30
    assert len(read_trips(base_path)) == 30


def test_delete_takes_keys_or_columns_and_passes_over_unknown_keys(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
        assert c.delete([HoodieKey("a", "x"), HoodieKey("nobody", "x")]).deleted_count == 1
        assert c.delete(pa.table({"id": ["c"], "region": ["y"]})).deleted_count == 1
        assert c.delete(pa.table({"id": ["b"], "region": ["y"]})).deleted_count == 0
    assert read_trips(base_path) == [("b", "x", 1, 1.0)]


def test_a_file_group_whose_rows_were_all_deleted_can_be_written_again(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
        c.delete([HoodieKey("a", "x")])
        assert read_trips(base_path) == []
        c.upsert(rows(("a", "x", 1, 2.0)))
    assert read_trips(base_path) == [("a", "x", 1, 2.0)]


def test_flagged_rows_are_deleted_unless_they_are_late(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))

    def flagged(*entries: tuple[Any, ...]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, entry, strict=True)) for entry in entries], schema)

    write = dict(record_key_fields="id", partition_fields="region", ordering_fields="ts")
    hoodie.write_table(flagged(("a", "x", 5, 1.0, None), ("b", "x", 5, 1.0, False)), path, **write)
    result = hoodie.write_table(
        flagged(("a", "x", 4, 1.0, True), ("b", "x", 5, 1.0, True), ("c", "x", 1, 1.0, True)), path
    )
    assert hoodie.read_table(path, columns=["id"]).to_pylist() == [{"id": "a"}]
    assert (result.deleted_count, result.inserted_count) == (1, 0)


def test_manual_commit_makes_rows_visible_and_only_then(base_path: Path, client: MakeClient) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        assert not result.is_committed
        assert read_trips(base_path) == []
        assert c.commit(instant_time, result, extra_metadata={"who": "test"}) is True
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]
    assert result.is_committed
    assert "(committed)" in result.summary
    for shown in (repr(result), str(result), result._repr_html_()):
        assert "not committed" not in shown
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    metadata = timeline.read_commit_metadata(timeline.last_instant)
    assert metadata.extra_metadata["who"] == "test"
    assert not (base_path / ".hoodie" / ".temp" / instant_time).exists()


def test_a_write_that_failed_is_rolled_back_by_the_next_start(base_path: Path, client: MakeClient) -> None:
    dead = client(auto_commit=False)
    instant_time = dead.start_commit()
    left = dead.upsert(rows(("a", "x", 1, 1.0)), instant_time)
    file = base_path / left.statuses[0].stat.path
    assert file.exists()
    with client() as c:
        result = c.upsert(rows(("b", "x", 1, 1.0)))
    assert not file.exists()
    assert read_trips(base_path) == [("b", "x", 1, 1.0)]
    assert result.instant_time > instant_time
    with pytest.raises(HoodieCommitException, match="rolled back"):
        dead.commit(instant_time, left)
    assert read_trips(base_path) == [("b", "x", 1, 1.0)]


def test_leaving_by_an_error_rolls_back_what_the_client_started(base_path: Path, client: MakeClient) -> None:
    with pytest.raises(RuntimeError, match="mine"), client(auto_commit=False) as c:
        instant_time = c.start_commit()
        c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        raise RuntimeError("mine")
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert [str(instant.action) for instant in timeline] == ["rollback"]
    assert not list(base_path.rglob("*.parquet"))


@pytest.mark.parametrize("state", ["never started", "completed already"])
def test_commit_says_why_an_instant_cannot_be_completed(base_path: Path, client: MakeClient, state: str) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        c.commit(instant_time, result)
        if state == "never started":
            instant_time = "20200101000000000"
            result = attrs.evolve(result, instant_time=instant_time)
        with pytest.raises(HoodieCommitException, match=state):
            c.commit(instant_time, result)


def test_an_instant_is_written_once(base_path: Path, client: MakeClient) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        with pytest.raises(HoodieCommitException, match="written to already"):
            c.upsert(rows(("b", "x", 1, 1.0)), instant_time)


def test_fresh_heartbeat_keeps_another_writers_instant(base_path: Path, client: MakeClient) -> None:
    other = client(auto_commit=False)
    instant_time = other.start_commit()
    heartbeat = base_path / ".hoodie" / ".heartbeat" / instant_time
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    with client() as c, pytest.raises(HoodieHeartbeatException, match=instant_time):
        c.start_commit()
    heartbeat.unlink()
    with client() as c:
        c.upsert(rows(("b", "x", 1, 1.0)))


@pytest.mark.parametrize("instant_time", ["20200101000000000", "yesterday"])
def test_a_rollback_that_finds_no_such_write_says_so(
    base_path: Path, client: MakeClient, caplog: pytest.LogCaptureFixture, instant_time: str
) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
        assert c.rollback(instant_time) is False
    assert f"nothing was rolled back: {base_path} has no write '{instant_time}' in its active timeline" in caplog.text
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]


def test_rollback_of_the_newest_commit_brings_the_rows_before_it_back(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        first = c.upsert(rows(("a", "x", 1, 1.0)))
        second = c.upsert(rows(("a", "x", 2, 2.0), ("b", "y", 1, 1.0)))
        with pytest.raises(HoodieRollbackException, match=second.instant_time):
            c.rollback(first.instant_time)
        assert c.rollback(second.instant_time) is True
        assert read_trips(base_path) == [("a", "x", 1, 1.0)]
        assert c.rollback(second.instant_time) is False
        c.upsert(rows(("a", "x", 3, 3.0)))
    assert read_trips(base_path) == [("a", "x", 3, 3.0)]


@pytest.mark.parametrize("operation", ["insert", "upsert", "bulk_insert"])
@pytest.mark.parametrize("bad", [None, ""])
def test_null_or_empty_keys_fail_the_write_and_leave_nothing(
    base_path: Path, client: MakeClient, operation: str, bad: str | None
) -> None:
    with client() as c, pytest.raises(HoodieKeyException, match=r"2 .*id") as caught:
        getattr(c, operation)(rows(("a", "x", 1, 1.0), (bad, "x", 1, 1.0), (bad, "y", 1, 1.0)))
    assert "id" in str(caught.value)
    assert not list(base_path.rglob("*.parquet"))
    assert read_trips(base_path) == []
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]


def test_missing_columns_and_other_types_are_refused_by_name(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
        with pytest.raises(MissingSchemaFieldException, match="fare"):
            c.upsert(rows(("a", "x", 1, 1.0)).drop(["fare"]))
        with pytest.raises(HoodieKeyException, match="id"):
            c.upsert(rows(("a", "x", 1, 1.0)).drop(["id"]))
        wrong = rows(("a", "x", 1, 1.0)).set_column(3, "fare", pa.array(["much"]))
        with pytest.raises(SchemaCompatibilityException, match=r"fare.*string|fare.*double"):
            c.upsert(wrong)
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert len(timeline.filter_pending()) == 0


def test_a_new_nullable_column_is_added_and_old_rows_read_null(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        c.upsert(rows(("b", "x", 2, 1.0), ("c", "y", 1, 1.0)).append_column("tip", pa.array([0.5, 0.7])))
    table = hoodie.read_table(str(base_path), columns=["id", "tip"]).sort_by("id")
    assert table.to_pylist() == [{"id": "a", "tip": None}, {"id": "b", "tip": 0.5}, {"id": "c", "tip": 0.7}]


def test_null_in_a_column_that_is_never_null_is_a_record_error(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", schema=schema)
    nullable = pa.table({"id": ["a", "b", "c"], "n": pa.array([1, None, 3], pa.int64())})
    config = HoodieWriteConfig.from_properties(path)
    with (
        HoodieLocalWriteClient(config) as client,
        pytest.raises(HoodieUpsertException, match=r"1 records .*b: column n"),
    ):
        client.upsert(nullable)
    assert hoodie.read_table(path).num_rows == 0
    config = HoodieWriteConfig.from_properties(path, {"hoodie.write.commit.on.errors": True})
    with HoodieLocalWriteClient(config) as client:
        result = client.upsert(nullable)
    assert result.has_errors
    assert result.error_count == 1
    assert result.errors[0].record_key == "b"
    assert sorted(hoodie.read_table(path, columns=["id"])["id"].to_pylist()) == ["a", "c"]


def test_an_empty_write_makes_an_empty_commit(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        result = c.upsert(TRIPS.empty_table())
    assert result.is_committed
    assert len(result) == 0
    assert read_trips(base_path) == []


def test_filters_reach_partitions_and_rows(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 60.0), ("c", "y", 1, 70.0)))
    (base_path / "y").rename(base_path / "gone")
    found = hoodie.read_table(str(base_path), columns=["id"], filters=[("region", "=", "x"), ("fare", ">", 50)])
    assert found.to_pylist() == [{"id": "b"}]


def test_a_base_file_cut_in_half_is_reported_by_path(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
    (file,) = base_path.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(hoodie.exception.HoodieCorruptedDataException, match=file.name):
        hoodie.read_table(str(base_path))
    with client() as c, pytest.raises(hoodie.exception.HoodieCorruptedDataException, match=file.name):
        c.upsert(rows(("a", "x", 2, 1.0)))
    assert len(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending()) == 0


def test_base_files_carry_keys_filter_and_schema_in_their_footer(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("m", "x", 1, 1.0)))
        c.upsert(rows(("z", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    newest = max(base_path.rglob("*.parquet"), key=lambda file: file.name.split("_")[2])
    metadata = pq.read_metadata(newest).metadata
    assert metadata[b"hoodie_min_record_key"] == b"a"
    assert metadata[b"hoodie_max_record_key"] == b"z"
    assert b"org.apache.hudi.bloomfilter" in metadata
    assert b'"_hoodie_commit_time"' in metadata[b"parquet.avro.schema"]


def test_no_table_is_named_with_the_way_to_make_one(tmp_path: Path) -> None:
    config = HoodieWriteConfig.from_properties(str(tmp_path / "nothing"))
    with HoodieLocalWriteClient(config) as client, pytest.raises(TableNotFoundException, match="init_table"):
        client.upsert(rows(("a", "x", 1, 1.0)))


def test_write_table_creates_the_table_and_asks_for_its_key(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(HoodieConfigException, match="record_key_fields"):
        hoodie.write_table(rows(("a", "x", 1, 1.0)), path)
    hoodie.write_table([{"id": "a", "n": 1}], path, record_key_fields="id")
    hoodie.write_table([{"id": "a", "n": 2}], path)
    assert hoodie.read_table(path, columns=["id", "n"]).to_pylist() == [{"id": "a", "n": 2}]


@pytest.mark.parametrize("index_type", ["SIMPLE", "INMEMORY"])
def test_both_indexes_see_what_another_client_wrote(base_path: Path, client: MakeClient, index_type: str) -> None:
    with client(index_type=index_type, parquet_small_file_limit=0) as c, client() as other:
        c.upsert(rows(("a", "x", 1, 1.0)))
        other.upsert(rows(("a", "x", 2, 2.0), ("b", "x", 1, 1.0)))
        c.upsert(rows(("a", "x", 3, 3.0), ("b", "x", 2, 2.0)))
        c.delete([HoodieKey("b", "x")])
        c.upsert(rows(("b", "x", 5, 5.0)))
    assert read_trips(base_path) == [("a", "x", 3, 3.0), ("b", "x", 5, 5.0)]


def test_workload_profile_is_saved_before_files_are_written(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        first = c.upsert(rows(("a", "x", 1, 1.0)))
        second = c.upsert(rows(("a", "x", 2, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    inflight = HoodieInstant(second.instant_time, Action.COMMIT, State.INFLIGHT)
    foreseen = {stat.file_id: stat for stat in timeline.read_commit_metadata(inflight).write_stats}
    assert foreseen[first.statuses[0].file_id].num_update_writes == 1


def test_delete_where_a_filter_finds_rows(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 60.0), ("c", "y", 1, 70.0)))
        assert c.delete(where=[("fare", ">", 50), ("region", "=", "x")]).deleted_count == 1
        assert read_trips(base_path) == [("a", "x", 1, 1.0), ("c", "y", 1, 70.0)]
        assert c.delete(where=[("fare", ">", 500)]).deleted_count == 0
        with pytest.raises(HoodieConfigException, match="either keys or where"):
            c.delete()
        with pytest.raises(hoodie.exception.HoodieSchemaException, match="fair"):
            c.delete(where=[("fair", ">", 500)])
    assert len(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending()) == 0


def test_partitions_do_not_nest(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        c.upsert(rows(("a", "x/y", 1, 1.0)))
        with pytest.raises(HoodieKeyException, match=r"'x/y'.* inside partition 'x'.*urlencode"):
            c.upsert(rows(("b", "x", 1, 1.0)))
        with pytest.raises(HoodieKeyException, match="inside partition 'x/y'"):
            c.bulk_insert(rows(("b", "x/y/z", 1, 1.0)))
        assert read_trips(base_path) == [("a", "x/y", 1, 1.0)]
        c.upsert(rows(("b", "x/z", 1, 1.0)))
    assert read_trips(base_path) == [("a", "x/y", 1, 1.0), ("b", "x/z", 1, 1.0)]


def test_keys_of_a_delete_have_the_types_of_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": [5, 6], "v": [1, 2]}), path, record_key_fields="k")
    result = hoodie.write_table(pa.table({"k": pa.array([5], pa.int32())}), path, operation="delete")
    assert result.deleted_count == 1
    with pytest.raises(SchemaCompatibilityException, match=r"'k'.*int64.*double 6\.5"):
        hoodie.write_table(pa.table({"k": [6.0, 6.5]}), path, operation="delete")
    assert hoodie.read_table(path, columns=["k"])["k"].to_pylist() == [6]
    assert hoodie.write_table(pa.table({"k": [6.0]}), path, operation="delete").deleted_count == 1


def test_a_refused_second_write_leaves_the_first_to_be_committed(base_path: Path, client: MakeClient) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        with pytest.raises(HoodieCommitException, match="written to already"):
            c.upsert(rows(("b", "x", 1, 1.0)), instant_time)
        assert c.commit(instant_time, result)
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]


def test_an_instant_that_another_writer_is_rolling_back_is_not_completed(base_path: Path, client: MakeClient) -> None:
    c = client(auto_commit=False)
    instant_time = c.start_commit()
    result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
    meta_client = HoodieTableMetaClient.load(str(base_path))
    announce(RollbackActionExecutor(meta_client.snapshot, meta_client.active_timeline.find(instant_time)))
    with pytest.raises(HoodieCommitException, match="being rolled back"):
        c.commit(instant_time, result)
    assert read_trips(base_path) == []


def test_a_rollback_is_withdrawn_when_the_instant_was_completed_meanwhile(base_path: Path, client: MakeClient) -> None:
    c = client(auto_commit=False)
    instant_time = c.start_commit()
    result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
    meta_client = HoodieTableMetaClient.load(str(base_path))
    executor = RollbackActionExecutor(meta_client.snapshot, meta_client.active_timeline.find(instant_time))
    rollback = announce(executor)
    assert rollback is not None
    timeline = meta_client.reload_active_timeline()
    timeline.save_as_complete(instant_time, Action.COMMIT, result.commit_metadata.to_json())
    with pytest.raises(HoodieRollbackException, match="completed by its writer"):
        carry_out(executor, rollback.instant_time)
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]
    assert len(meta_client.reload_active_timeline().filter_pending()) == 0


def test_closing_a_client_names_what_was_never_committed(
    base_path: Path, client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        c.commit(instant_time, c.upsert(rows(("a", "x", 1, 1.0)), instant_time))
        assert c.rollback(c.upsert(rows(("a", "x", 2, 2.0))).instant_time)
    assert "never committed" not in caplog.text
    with client(auto_commit=False) as c:
        forgotten = c.upsert(rows(("b", "x", 1, 1.0))).instant_time
    assert f"a client of {base_path} is closed, and {forgotten} was never committed" in caplog.text
    assert read_trips(base_path) == [("a", "x", 1, 1.0)]


def test_extra_metadata_cannot_replace_the_schema(base_path: Path, client: MakeClient) -> None:
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(rows(("a", "x", 1, 1.0)), instant_time)
        for bad in ({"schema": "boom"}, {"latest_schema": "{}"}, {"x": 1}):
            with pytest.raises(HoodieConfigException, match="extra metadata"):
                c.commit(instant_time, result, extra_metadata=bad)
        assert c.commit(instant_time, result)
        with pytest.raises(hoodie.exception.HoodieNotSupportedException, match="nonsense"):
            c.start_commit("nonsense")


def test_keys_to_delete_may_be_none_at_all_or_a_tuple(base_path: Path, client: MakeClient) -> None:
    with client() as c:
        assert not c.delete([]).is_committed
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 2.0)))
        nothing = c.delete([])
        assert (nothing.is_committed, nothing.deleted_count) == (True, 0)
        assert c.delete((HoodieKey("a", "x"),)).deleted_count == 1
    assert read_trips(base_path) == [("b", "x", 1, 2.0)]


@pytest.mark.parametrize("operation", [RecordOperation.DELETE, "D", "delete"])
def test_records_that_are_deletes_only_need_no_columns(base_path: Path, client: MakeClient, operation: Any) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 2.0)))
        result = c.upsert([HoodieRecord(HoodieKey("a", "x"), operation=operation)])
    assert result.deleted_count == 1
    assert read_trips(base_path) == [("b", "x", 1, 2.0)]


def test_an_unknown_operation_of_a_record_is_named() -> None:
    with pytest.raises(HoodieConfigException, match="operation 'X' of a record is not one of insert, update"):
        HoodieRecord(HoodieKey("a"), operation="X")  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "delete"])
def test_a_key_whose_partition_path_leaves_the_table_is_refused_with_the_reason(tmp_path: Path, operation: str) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", partition_fields="p")
    key = HoodieKey("a", "../../e")
    with local_client(path) as c:
        c.upsert([{"id": "a", "p": "x"}])
        records = [key] if operation == "delete" else [HoodieRecord(key, {"id": "a", "p": "x"})]
        with pytest.raises(HoodieKeyException, match=r"partition path contains '\.' or '\.\.'.*'a'.*'\.\./\.\./e'"):
            getattr(c, operation)(records)
    assert not (tmp_path.parent / "e").exists()


@pytest.mark.parametrize("data", [None, {}, dict.fromkeys(TRIPS.names)])
def test_a_record_without_data_that_is_no_delete_is_refused(
    base_path: Path, client: MakeClient, data: dict[str, Any] | None
) -> None:
    with client() as c:
        c.upsert(rows(("a", "x", 1, 1.0)))
        with pytest.raises(HoodieWriteException, match="1 records have a key and no data, the first 'b'.*'delete'"):
            c.insert([HoodieRecord(HoodieKey("b", "x"), data)])  # type: ignore[arg-type]
        c.upsert([HoodieRecord(HoodieKey("a", "x"), data, operation="delete")])  # type: ignore[arg-type]
    assert read_trips(base_path) == []


@pytest.mark.parametrize(("column", "hint"), [("when", ""), ("TS", r" \(did you mean 'TS'\?\)")])
def test_the_ordering_field_is_asked_for_from_the_first_write_on(
    base_path: Path, client: MakeClient, column: str, hint: str
) -> None:
    first = rows(("a", "x", 1, 1.0)).rename_columns(["id", "region", column, "fare"])
    message = f"the ordering field 'ts' of the table .* is not a column of the input{hint}, so"
    with client(combine_before_insert=True) as c, pytest.raises(MissingSchemaFieldException, match=message):
        c.insert(first)
    with client() as c:
        with pytest.raises(MissingSchemaFieldException, match=message):
            c.upsert(first)
        if hint:
            with pytest.raises(MissingSchemaFieldException, match=message):
                c.bulk_insert(first)
        else:
            c.bulk_insert(first.drop_columns(column))
            with pytest.raises(MissingSchemaFieldException, match=message):
                c.upsert(first.drop_columns(column))
            c.upsert(rows(("a", "x", 1, 2.0)))
            assert read_trips(base_path) == [("a", "x", 1, 2.0)]
