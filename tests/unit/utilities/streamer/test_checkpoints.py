from __future__ import annotations

import logging
from pathlib import Path

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient
from hoodie.client.open_or_create import find_writable_table
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieStreamerException, HoodieWriteConflictException
from hoodie.utilities.sources.checkpoint import Checkpoint, CheckpointVersion
from hoodie.utilities.streamer.checkpoint_utils import (
    CheckpointKeys,
    ResumePoint,
    newest_checkpoint,
    point_to_resume_from,
    refuse_moved_position,
)
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from tests.support.table_builder import init_table, local_client, rows, write_config

V1, V2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
RESET_1, RESET_2 = "deltastreamer.checkpoint.reset_key", "streamer.checkpoint.reset.key.v2"
IGNORE = "deltastreamer.checkpoint.ignore_key"
IDENTITY = "hoodie.streamer.source.identity"


def commit(path: str, client: HoodieLocalWriteClient | None = None, **extra: str) -> str:
    """Commit a row with extra metadata, as a streamer does."""
    with local_client(path, **{"hoodie.auto.commit": False}) as own:
        client = client or own
        result = client.upsert(rows(("a", "x", 1)))
        client.commit(result.instant_time, result, extra_metadata={key: value for key, value in extra.items()})
        return result.instant_time


def snapshot_of(path: str) -> TableSnapshot:
    found = find_writable_table(write_config(path))
    assert found is not None
    return found


def resume(path: str, identity: str = "topic trips", source_id: str = "", **flags: str) -> ResumePoint:
    config = StreamerConfig(target_base_path=path, **flags)
    return point_to_resume_from(snapshot_of(path), config, CheckpointKeys(source_id), identity)


def position(point: ResumePoint) -> str | None:
    return None if point.checkpoint is None else point.checkpoint.position


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t")


def test_the_newest_commit_with_a_position_counts_and_those_of_others_are_stepped_over(path: str) -> None:
    commit(path, **{V1: "trips,0:1"})
    commit(path, **{V1: "trips,0:2"})
    with local_client(path) as client:
        client.upsert(rows(("b", "x", 1)))
    assert position(resume(path)) == "trips,0:2"


def test_a_position_of_version_2_is_read_before_one_of_version_1(path: str) -> None:
    commit(path, **{V1: "20261101000000000", V2: "20261102000000000"})
    point = resume(path)
    assert point.checkpoint == Checkpoint("20261102000000000", CheckpointVersion.V2)
    commit(path, **{V1: "20261103000000000"})
    assert resume(path).checkpoint == Checkpoint("20261103000000000", CheckpointVersion.V1)


def test_keys_of_both_versions_are_written_as_hudi_writes_them() -> None:
    config = StreamerConfig(target_base_path="/t", checkpoint="start", ignore_checkpoint="now")
    keys = CheckpointKeys()
    assert keys.metadata(Checkpoint("7", own={"hoodie.streamer.kafka.topic.id": "x"}), config, "topic trips") == {
        V1: "7", RESET_1: "start", IGNORE: "now", IDENTITY: "topic trips", "hoodie.streamer.kafka.topic.id": "x",
    }  # fmt: skip
    plain = StreamerConfig(target_base_path="/t", checkpoint="start")
    assert keys.metadata(Checkpoint("7", CheckpointVersion.V2), plain, "table t") == {
        V2: "7", RESET_2: "start", IDENTITY: "table t",
    }  # fmt: skip


def test_a_given_position_acts_once(path: str) -> None:
    commit(path, **{V1: "trips,0:5"})
    point = resume(path, checkpoint="trips,0:0")
    assert point.checkpoint == Checkpoint("trips,0:0", is_given=True)
    commit(path, **{V1: "trips,0:3", RESET_1: "trips,0:0"})
    assert resume(path, checkpoint="trips,0:0").checkpoint == Checkpoint("trips,0:3")
    assert position(resume(path, checkpoint="trips,0:1")) == "trips,0:1"


def test_ignoring_positions_acts_once_for_each_value(path: str) -> None:
    commit(path, **{V1: "trips,0:5"})
    assert position(resume(path, ignore_checkpoint="first")) is None
    commit(path, **{V1: "trips,0:9", IGNORE: "first"})
    assert position(resume(path, ignore_checkpoint="first")) == "trips,0:9"
    assert position(resume(path, ignore_checkpoint="second")) is None


def test_a_commit_that_tells_only_what_it_was_begun_with_is_refused(path: str) -> None:
    commit(path, **{RESET_1: "trips,0:0"})
    with pytest.raises(HoodieStreamerException, match="holds no position"):
        resume(path)
    assert position(resume(path, checkpoint="trips,0:4")) == "trips,0:4"


def test_a_table_with_commits_and_without_a_position_is_refused_with_the_ways_out(path: str) -> None:
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1)))
    with pytest.raises(HoodieStreamerException) as caught:
        resume(path)
    for way in ("--checkpoint", "--ignore-checkpoint", "--initial-checkpoint-provider", "nothing was written"):
        assert way in str(caught.value)
    assert position(resume(path, checkpoint="trips,0:0")) == "trips,0:0"
    assert position(resume(path, ignore_checkpoint="now")) is None


def test_a_table_without_commits_begins_without_a_position(path: str) -> None:
    assert resume(path) == ResumePoint(None)


def test_a_provider_is_asked_for_the_first_position_only(path: str) -> None:
    config = StreamerConfig(target_base_path=path)

    def first() -> str | None:
        return position(point_to_resume_from(snapshot_of(path), config, CheckpointKeys(), "t", lambda: "trips,0:3"))

    assert first() == "trips,0:3"
    commit(path, **{V1: "trips,0:5"})
    assert first() == "trips,0:5"


def test_a_rollback_and_a_restore_take_positions_back(path: str) -> None:
    commit(path, **{V1: "trips,0:1"})
    second = commit(path, **{V1: "trips,0:2"})
    with local_client(path) as client:
        client.rollback(second)
    assert position(resume(path)) == "trips,0:1"


@pytest.mark.without_metadata_table("archiving would wait for its compaction, of ten commits")
def test_an_archived_position_is_found(path: str) -> None:
    commit(path, **{V1: "trips,0:7", IDENTITY: "topic trips", "hoodie.streamer.kafka.topic.id": "x"})
    many = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(path, **many) as client:
        for number in range(34):
            client.upsert(rows(("b", "x", number)))
    assert position(resume(path)) == "trips,0:7"
    newest = next(iter(snapshot_of(path).active_timeline.completed_writes()))
    point = resume(path)
    assert point.committed is not None
    assert point.committed.commit.instant.requested_time < newest.requested_time
    assert point.checkpoint is not None
    assert point.checkpoint.own == {"hoodie.streamer.kafka.topic.id": "x"}


@pytest.mark.without_metadata_table("archiving would wait for its compaction, of ten commits")
def test_the_archiver_keeps_the_newest_position_in_the_active_timeline_but_not_for_ever(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    commit(path, **{V1: "trips,0:6"})
    kept = commit(path, **{V1: "trips,0:7"})
    many = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(path, **many) as client:
        for number in range(20):
            client.upsert(rows(("b", "x", number)))
        times = [one.requested_time for one in snapshot_of(path).active_timeline.completed_writes()]
        assert times[0] == kept
        assert len(times) == 21
        with caplog.at_level(logging.WARNING):
            for number in range(14):
                client.upsert(rows(("b", "x", number)))
    times = [one.requested_time for one in snapshot_of(path).active_timeline.completed_writes()]
    assert kept not in times
    assert "the position of a streamer" in caplog.text


@pytest.mark.without_metadata_table("archiving would wait for its compaction, of ten commits")
def test_positions_do_not_keep_the_archiver_from_older_commits(path: str) -> None:
    many = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    with local_client(path, **many, **{"hoodie.auto.commit": False}) as client:
        for number in range(9):
            commit(path, client, **{V1: f"trips,0:{number}"})
    assert len(snapshot_of(path).active_timeline.completed_writes()) <= 4
    assert position(resume(path)) == "trips,0:8"


def test_commits_of_a_merge_on_read_table_are_compactions_and_tell_nothing(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    commit(path, **{V1: "trips,0:1"})
    with local_client(path, **{"hoodie.compact.inline.max.delta.commits": 1}) as client:
        client.upsert(rows(("a", "x", 2)))
        client.schedule_compaction()
        client.compact()
    assert position(resume(path)) == "trips,0:1"


def test_another_source_is_refused_with_the_position_to_go_on_at(path: str) -> None:
    commit(path, **{V1: "trips,0:1", IDENTITY: "topic trips"})
    with pytest.raises(HoodieStreamerException) as caught:
        resume(path, "topic rides")
    assert "--checkpoint 'trips,0:1'" in str(caught.value)
    assert "hoodie.streamer.source.id=NAME" in str(caught.value)
    assert position(resume(path, "topic rides", checkpoint="rides,0:0")) == "rides,0:0"
    # Hudi does not tell the source's name.
    commit(path, **{V1: "trips,0:2"})
    assert position(resume(path, "topic rides")) == "trips,0:2"


def test_two_sources_with_ids_each_find_their_own_position(path: str) -> None:
    first, second = CheckpointKeys("a"), CheckpointKeys("b")
    config = StreamerConfig(target_base_path=path)
    commit(path, **first.metadata(Checkpoint("trips,0:1", own={"hoodie.streamer.x": "1"}), config, "topic trips"))
    assert position(resume(path, "topic rides", "b")) is None
    commit(path, **second.metadata(Checkpoint("rides,0:9", own={"hoodie.streamer.x": "2"}), config, "topic rides"))
    point = resume(path, "topic trips", "a")
    assert point.checkpoint == Checkpoint("trips,0:1", own={"hoodie.streamer.x": "1"})
    assert position(resume(path, "topic rides", "b")) == "rides,0:9"
    with pytest.raises(HoodieStreamerException, match=r"deltastreamer\.checkpoint\.key\.a='trips,0:1'"):
        resume(path)


def test_a_source_with_an_id_is_refused_where_the_table_has_one_without(path: str) -> None:
    commit(path, **{V1: "trips,0:1"})
    with pytest.raises(HoodieStreamerException, match=r"deltastreamer\.checkpoint\.key='trips,0:1'"):
        resume(path, source_id="a")


def test_a_position_that_moved_meanwhile_refuses_the_commit(path: str) -> None:
    commit(path, **{V1: "trips,0:1"})
    begun = resume(path)
    refuse_moved_position(snapshot_of(path), CheckpointKeys(), begun, "t")
    with local_client(path) as client:
        client.upsert(rows(("b", "x", 1)))
    refuse_moved_position(snapshot_of(path), CheckpointKeys(), begun, "t")
    commit(path, **{V1: "trips,0:2"})
    with pytest.raises(HoodieWriteConflictException, match="another process fills"):
        refuse_moved_position(snapshot_of(path), CheckpointKeys(), begun, "t")
    refuse_moved_position(snapshot_of(path), CheckpointKeys("other"), begun, "t")


def test_the_newest_position_of_a_table(path: str) -> None:
    assert newest_checkpoint(snapshot_of(path)) is None
    commit(path, **{V1: "trips,0:1"})
    assert newest_checkpoint(snapshot_of(path)) == Checkpoint("trips,0:1")
    assert hoodie.read_table(path).num_rows == 1
