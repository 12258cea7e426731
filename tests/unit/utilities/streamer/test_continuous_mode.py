from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.client.open_or_create import find_writable_table
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieReadFromSourceException
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import InputBatch
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig
from tests.support.streamer_runs import LIST_SOURCE, SCHEMA, ListSource, list_source
from tests.support.table_builder import local_client, rows, write_config


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def streamer(path: Path, properties: dict[str, str], **flags: Any) -> HoodieStreamer:
    strategy = {"termination_strategy_class": "NoNewDataTerminationStrategy"}
    flags = {"continuous": True, "source_class": LIST_SOURCE, "source_limit": 2, **strategy, **flags}
    return HoodieStreamer(StreamerConfig(target_base_path=str(path), **flags), properties=properties)


def read(path: Path) -> list[tuple[Any, ...]]:
    table = hoodie.read_table(str(path), columns=SCHEMA.names)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_rounds_until_there_is_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(9)))
    result = streamer(path, properties).sync()
    assert result is not None
    assert not result.is_committed
    assert read(path) == [(f"k{n}", "x", n) for n in range(9)]
    assert ListSource.told == ["2", "4", "6", "8", "9"]


def test_the_next_batch_is_fetched_while_this_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(6)))
    streamer(path, properties).sync()
    # Each batch was asked for once, though it was fetched before its round; then three rounds find nothing.
    assert [asked for asked, _ in ListSource.fetched[:4]] == [None, "2", "4", "6"]


def test_a_batch_that_was_fetched_ahead_is_dropped_where_its_round_fails(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1), "bad", ("c", "x", 1))
    with pytest.raises(HoodieReadFromSourceException):
        streamer(path, properties).sync()
    assert read(path) == [("a", "x", 1), ("b", "x", 1)]
    ListSource.LISTS["l"][2] = ("d", "x", 1)
    streamer(path, properties).sync()
    assert [row[0] for row in read(path)] == ["a", "b", "c", "d"]


def test_a_round_after_a_position_was_moved_by_hand_does_not_take_the_batch_that_was_fetched_ahead(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(6)))
    made = streamer(path, properties)
    sync = made._sync
    sync.sync_once()
    with local_client(str(path), **{"hoodie.auto.commit": False}) as client:
        result = client.upsert(rows(("q", "x", 1)))
        client.commit(result.instant_time, result, extra_metadata={"deltastreamer.checkpoint.key": "4"})
    assert sync.sync_once().position_before == "4"
    made.close()
    assert [row[0] for row in read(path)] == ["k0", "k1", "k4", "k5", "q"]


def test_a_stop_lets_the_round_end(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(100)))
    made = streamer(path, properties, source_limit=1, termination_strategy_class=None)
    thread = threading.Thread(target=made.sync)
    thread.start()
    while len(ListSource.told) < 3:
        time.sleep(0.01)
    made.shutdown_gracefully()
    thread.join(60)
    assert not thread.is_alive()
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    assert len(snapshot.active_timeline.filter_pending()) == 0
    assert len(read(path)) == int(ListSource.told[-1])


def test_a_merge_on_read_table_is_compacted_beside_the_rounds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n % 3}", "x", n) for n in range(24)))
    streamer(path, properties, table_type="MERGE_ON_READ").sync()
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    timeline = snapshot.active_timeline
    assert [one for one in timeline.completed_writes() if one.action is Action.COMMIT]
    assert len(timeline.filter_actions(Action.COMPACTION).filter_pending()) == 0
    assert read(path) == [("k0", "x", 21), ("k1", "x", 22), ("k2", "x", 23)]


def test_compactions_that_another_run_left_are_carried_out_first(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n % 3}", "x", n) for n in range(6)))
    streamer(path, properties, table_type="MERGE_ON_READ", disable_compaction=True).sync()
    with local_client(str(path), **{"hoodie.compact.inline.max.delta.commits": 1}) as client:
        assert client.schedule_compaction() is not None
    ListSource.LISTS["l"].append(("k9", "x", 9))
    streamer(path, properties, table_type="MERGE_ON_READ").sync()
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    assert len(snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending()) == 0
    assert len(read(path)) == 4


def test_pending_compactions_hold_back_a_run_that_may_not_compact(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1), ("a", "x", 2))
    streamer(path, properties, table_type="MERGE_ON_READ", disable_compaction=True).sync()
    with local_client(str(path), **{"hoodie.compact.inline.max.delta.commits": 1}) as client:
        assert client.schedule_compaction() is not None
    ListSource.LISTS["l"].append(("d", "x", 1))
    made = streamer(path, properties, disable_compaction=True, max_pending_compactions=1)
    thread = threading.Thread(target=made.sync)
    thread.start()
    time.sleep(0.5)
    assert len(read(path)) == 2
    with local_client(str(path)) as client:
        client.compact()
    thread.join(60)
    assert not thread.is_alive()
    assert len(read(path)) == 3


def test_pending_plans_are_carried_out_before_a_round_where_the_flags_ask_for_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1), ("a", "x", 2))
    streamer(path, properties, table_type="MERGE_ON_READ", disable_compaction=True).sync()
    with local_client(str(path), **{"hoodie.compact.inline.max.delta.commits": 1}) as client:
        assert client.schedule_compaction() is not None
    once = {"continuous": False, "termination_strategy_class": None, "disable_compaction": True}
    streamer(path, properties, **once).sync()
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    assert len(snapshot.active_timeline.filter_actions(Action.COMPACTION).filter_pending()) == 1
    streamer(path, properties, retry_pending_compaction=True, **once).sync()
    with local_client(str(path), **{"hoodie.clustering.plan.strategy.small.file.limit": 1 << 30}) as client:
        assert client.schedule_clustering() is not None
    streamer(path, properties, retry_pending_clustering=True, **once).sync()
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    assert len(snapshot.active_timeline.filter_pending()) == 0
    assert len(read(path)) == 2


class Update:
    """Changes the list that is read, after some rounds."""

    asked = 0

    def update(self, properties: dict[str, str]) -> dict[str, str] | None:
        """See `HotUpdate.update`."""
        Update.asked += 1
        return {"hoodie.parquet.max.file.size": "1000000"} if Update.asked == 2 else None


def test_properties_can_change_between_rounds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(6)))
    Update.asked = 0
    name = "tests.unit.utilities.streamer.test_continuous_mode:Update"
    made = streamer(path, properties, config_hot_update_strategy_class=name)
    made.sync()
    assert made.properties["hoodie.parquet.max.file.size"] == "1000000"
    assert len(read(path)) == 6


class Slow(ListSource):
    """A source whose second batch takes long."""

    release = threading.Event()

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`."""
        if checkpoint is not None and checkpoint.position == "4":
            Slow.release.wait(30)
        return super().fetch(checkpoint, limit)


def test_a_commit_and_the_end_of_a_run_do_not_wait_for_the_batch_that_is_fetched_ahead(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", *((f"k{n}", "x", n) for n in range(6)))
    Slow.release.clear()
    name = "tests.unit.utilities.streamer.test_continuous_mode:Slow"
    made = streamer(path, properties, source_class=name, termination_strategy_class=None)
    heard: list[str | None] = []
    told = made._metrics.round_ends
    made._metrics.round_ends = lambda result: (heard.append(result.position_after), told(result))[0]  # type: ignore[method-assign]
    thread = threading.Thread(target=made.sync)
    thread.start()
    for _ in range(1000):
        if "4" in heard:
            break
        time.sleep(0.01)
    assert heard == ["2", "4"]
    made.shutdown_gracefully()
    thread.join(15)
    is_ended = not thread.is_alive()
    Slow.release.set()
    thread.join(60)
    assert is_ended
    assert len(read(path)) == 4


class Endless(ListSource):
    """A source that always has a row more."""

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`."""
        rows = self.LISTS[self.name]
        rows.append((f"k{len(rows) % 7}", "x", len(rows)))
        return super().fetch(checkpoint, limit)


def test_rounds_do_not_hold_more_and_more(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l")
    made = streamer(
        path,
        properties,
        source_class="tests.unit.utilities.streamer.test_continuous_mode:Endless",
        termination_strategy_class=None,
    )
    before = threading.active_count()
    thread = threading.Thread(target=made.sync)
    thread.start()
    while len(ListSource.told) < 12:
        time.sleep(0.01)
    # The run, its decoder, what fetches ahead with its decoder, and the clean.
    assert threading.active_count() <= before + 6
    made.shutdown_gracefully()
    thread.join(60)
    assert threading.active_count() == before
