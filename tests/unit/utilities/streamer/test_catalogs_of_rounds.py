"""Catalogs after rounds, with a metastore in the process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.exception import HoodieSyncException
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig
from tests.support.fake_metastore import FakeMetastore
from tests.support.streamer_runs import LIST_SOURCE, ListSource, list_source, run_once

SYNC = {"enable_sync": True, "target_table": "trips"}


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


@pytest.fixture
def metastore() -> Iterator[FakeMetastore]:
    with FakeMetastore() as started:
        yield started


def properties_of(metastore: FakeMetastore) -> dict[str, str]:
    """A list of one row, and where its table is told."""
    prefix = "hoodie.datasource.hive_sync."
    return list_source("l", ("a", "x", 1)) | {f"{prefix}mode": "hms", f"{prefix}metastore.uris": metastore.uri}


def test_a_round_without_a_commit_tells_catalogs_only_if_it_is_asked_to(
    tmp_path: Path, metastore: FakeMetastore
) -> None:
    path, properties = tmp_path / "t", properties_of(metastore)
    run_once(path, properties, **SYNC)
    assert list(metastore.entries) == [("default", "trips")]
    metastore.entries.clear()
    metastore.parts.clear()
    assert not run_once(path, properties, **SYNC).is_committed
    assert not metastore.entries
    result = run_once(path, properties, **SYNC, force_empty_sync=True)
    assert (result.is_committed, result.service_errors) == (False, ())
    assert "sync" in result.seconds
    assert list(metastore.entries) == [("default", "trips")]
    assert list(metastore.parts["default", "trips"]) == [("x",)]


def test_a_commit_without_rows_tells_catalogs(tmp_path: Path, metastore: FakeMetastore) -> None:
    path, properties = tmp_path / "t", properties_of(metastore) | {"hoodie.errortable.enable": "true"}
    run_once(path, properties, **SYNC)
    told = metastore.entry("trips").parameters["last_commit_time_sync"]
    ListSource.LISTS["l"] += ["bad"]
    result = run_once(path, properties, **SYNC, force_empty_sync=True)
    assert (result.is_committed, result.rows) == (True, 0)
    assert metastore.entry("trips").parameters["last_commit_time_sync"] > told


def test_of_rounds_without_commits_the_first_one_tells_catalogs(tmp_path: Path, metastore: FakeMetastore) -> None:
    path, properties = tmp_path / "t", properties_of(metastore)
    flags = {"continuous": True, "termination_strategy_class": "NoNewDataTerminationStrategy", "force_empty_sync": True}
    run_once(path, properties, **SYNC, **flags)
    # The commit was told, and nothing is new in the rounds after it.
    told = metastore.connection_count
    assert told >= 1
    run_once(path, properties, **SYNC, **flags)
    assert metastore.connection_count == told + 1


def test_a_catalog_that_is_away_is_told_in_a_round_of_a_minute_later(
    tmp_path: Path, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, properties = tmp_path / "t", properties_of(metastore)
    run_once(path, properties, **SYNC)
    metastore.entries.clear()
    config = StreamerConfig(
        target_base_path=str(path), source_class=LIST_SOURCE, continuous=True, force_empty_sync=True, **SYNC
    )
    streamer = HoodieStreamer(config, properties=properties)
    rounds = streamer._sync
    metastore.on("get_table_req", fails="it is not well")
    (failure,) = rounds.sync_once().service_errors
    assert "catalogs were not told" in failure
    assert "it is not well" in failure
    assert rounds.sync_once().service_errors == ()
    assert not metastore.entries
    monkeypatch.setattr(rounds, "_catalogs_due", rounds._catalogs_due - 60)
    assert rounds.sync_once().service_errors == ()
    assert list(metastore.entries) == [("default", "trips")]
    streamer.close()


def test_a_failure_fails_the_round_where_the_user_says_so(tmp_path: Path, metastore: FakeMetastore) -> None:
    path, properties = tmp_path / "t", properties_of(metastore)
    run_once(path, properties, **SYNC)
    metastore.on("get_table_req", fails="it is not well")
    strict = properties | {"hoodie.datasource.hive_sync.ignore_exceptions": "false"}
    with pytest.raises(HoodieSyncException, match="it is not well"):
        run_once(path, strict, **SYNC, force_empty_sync=True)


def test_the_flag_alone_is_told_to_have_no_effect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run_once(tmp_path / "t", list_source("l", ("a", "x", 1)), force_empty_sync=True)
    assert "--force-empty-sync has no effect: no catalog is synced; give --enable-sync" in caplog.text
