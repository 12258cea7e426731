"""The figures of a run of the streamer, and its log lines."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.metrics.reporters import JsonLinesReporter
from hoodie.utilities.ingestion.streamer_metrics import HoodieStreamerMetrics, describe_round
from hoodie.utilities.streamer.sync_result import SyncResult

COMMITTED = SyncResult(
    instant_time="20260705120000000", rows=50_000, size_bytes=12_345_678, position_before="trips,0:7",
    position_after="trips,0:50007", error_count=3, backlog=0,
    details={"kafkaDelayCount": 0, "kafkaMessageInCount": 50_000},
    seconds={"resume": 0.01, "fetch": 0.1, "write": 1.2, "errors": 0.25, "commit": 0.1, "total": 1.66},
)  # fmt: skip
EMPTY = SyncResult(position_before="trips,0:7", position_after="trips,0:7", seconds={"total": 0.02}, backlog=0)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def ms(self) -> int:
        return int(self.seconds * 1000)

    def __call__(self) -> float:
        return self.seconds


def metrics_of(base_path: Path | str = "/data/trips", clock: Clock | None = None, **more: str) -> HoodieStreamerMetrics:
    """Metrics of a table ``db.trips``; underscores stand for dots of ``hoodie.metrics.``."""
    given = {f"hoodie.metrics.{name.replace('_', '.')}": value for name, value in more.items()}
    config = HoodieWriteConfig.from_properties(base_path, {"hoodie.table.name": "db.trips", **given})
    clock = clock or Clock()
    return HoodieStreamerMetrics(config, clock.ms, clock)


def values_of(metrics: HoodieStreamerMetrics) -> dict[str, float]:
    """The figures without their prefix."""
    return {name.removeprefix("db_trips.deltastreamer."): value for name, value in metrics.snapshot().items()}


def test_figures_have_hudis_names_and_the_prefix_of_the_table() -> None:
    clock = Clock()
    metrics = metrics_of(clock=clock)
    metrics.round_begins()
    clock.seconds += 2
    metrics.round_ends(COMMITTED)
    assert all(name.startswith("db_trips.deltastreamer.") for name in metrics.snapshot())
    assert values_of(metrics) == {
        "duration": 2000, "success": 1, "failure": 0, "lastSync": 1_002_000, "heartbeatTimestampMs": 1_000_000,
        "numSuccessfulSyncs": 1, "numFailedSyncs": 0, "numConsecutiveFailures": 0, "totalSyncDurationMs": 2000,
        "actualSyncDurationMs": 2000, "errorTableCommitDuration": 250, "kafkaDelayCount": 0,
        "kafkaMessageInCount": 50_000, "rowsWritten": 50_000, "errorCount": 3, "backlog": 0,
    }  # fmt: skip


def test_failures_are_counted_and_forgotten_after_a_good_round() -> None:
    clock = Clock()
    metrics = metrics_of(clock=clock)
    for _ in range(2):
        metrics.round_begins()
        clock.seconds += 1
        metrics.round_failed(ValueError("secret"))
    found = values_of(metrics)
    assert [found[name] for name in ("success", "failure", "numFailedSyncs", "numConsecutiveFailures")] == [0, 1, 2, 2]
    assert "lastSync" not in found
    metrics.round_begins()
    metrics.round_ends(EMPTY)
    found = values_of(metrics)
    assert [found[name] for name in ("success", "failure", "numFailedSyncs", "numConsecutiveFailures")] == [1, 0, 2, 0]
    assert (found["totalSyncDurationMs"], found["actualSyncDurationMs"]) == (2000, 0)


def test_a_prefix_of_the_user_counts() -> None:
    metrics = metrics_of(reporter_metricsname_prefix="my.lake")
    assert next(iter(metrics.snapshot())).startswith("my_lake.deltastreamer.")
    metrics.catalogs_synced("HiveSyncTool", 0.5)
    assert metrics.snapshot()["my_lake.deltastreamer.HiveSyncTool"] == 500


def test_figures_go_to_the_reporter_that_properties_name(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    metrics = metrics_of(tmp_path, on="true", reporter_type="JSON_LINES", json_path=str(path))
    metrics.round_begins()
    metrics.round_ends(COMMITTED)
    metrics.round_begins()
    metrics.round_failed(ValueError())
    lines = [json.loads(line)["metrics"] for line in path.read_text().splitlines()]
    assert [line["db_trips.deltastreamer.failure"] for line in lines] == [0, 1]
    metrics.close()
    metrics.close()
    metrics.round_failed(ValueError())
    assert len(path.read_text().splitlines()) == 2
    with pytest.raises(HoodieConfigException, match="no such reporter"):
        metrics_of(tmp_path, on="true", reporter_type="SMOKE")


def test_a_reporter_that_fails_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(JsonLinesReporter, "report", fail)
    metrics = metrics_of(tmp_path, on="true", reporter_type="JSON_LINES", json_path=str(tmp_path / "x"))
    metrics.round_begins()
    metrics.round_ends(COMMITTED)
    assert "could not be reported" in caplog.text


def test_a_run_is_healthy_until_rounds_fail_or_stop() -> None:
    clock = Clock()
    metrics = metrics_of(clock=clock)
    assert metrics.health(2, 60).is_healthy
    for expected in (True, False):
        metrics.round_begins()
        metrics.round_failed(ValueError("password=hush"))
        assert metrics.health(2, 60).is_healthy is expected
    (problem,) = metrics.health(2, 60).problems
    assert problem == "db.trips: 2 rounds in a row failed, the last one by ValueError; see the log"
    metrics.round_begins()
    metrics.round_ends(EMPTY)
    assert metrics.health(2, 60).is_healthy
    clock.seconds += 61
    assert metrics.health(2, 60).problems == ("db.trips: no round has ended for 61 s; none has begun since",)
    metrics.round_begins()
    assert metrics.health(2, 60).problems == ("db.trips: no round has ended for 61 s; the present one still runs",)
    assert metrics.health(2, 61).is_healthy


def test_each_round_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    metrics = metrics_of()
    with caplog.at_level(logging.INFO):
        for result in (COMMITTED, EMPTY):
            metrics.round_begins()
            metrics.round_ends(result)
    lines = [record.message for record in caplog.records]
    assert lines == [
        "round 1 of db.trips: 50,000 rows (12.3 MB) in commit 20260705120000000, 1.66 s (resume 0.01, fetch 0.10, "
        "write 1.20, errors 0.25, commit 0.10); 3 errors; position trips,0:7 -> trips,0:50007; backlog 0",
        "round 2 of db.trips: nothing new in 0.02 s; position trips,0:7; backlog 0",
    ]


def test_long_positions_are_cut_and_services_are_told() -> None:
    result = SyncResult(instant_time="1", position_after="t," + "0:1," * 1000, service_errors=("clean failed",))
    line = describe_round(result, "t", 1)
    assert len(line) < 500
    assert "position none -> t,0:1" in line
    assert line.endswith("after the commit: clean failed")
    no_position = describe_round(SyncResult(size_bytes=17, instant_time="1", rows=1), "t", 1)
    assert no_position == "round 1 of t: 1 row (17 bytes) in commit 1, 0.00 s"


def test_figures_are_read_while_rounds_go_on() -> None:
    metrics = metrics_of()
    seen: list[dict[str, float]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(values_of(metrics))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(500):
        metrics.round_begins()
        metrics.round_ends(EMPTY)
    stop.set()
    thread.join()
    assert values_of(metrics)["numSuccessfulSyncs"] == 500
    counts = [values["numSuccessfulSyncs"] for values in seen]
    assert counts == sorted(counts)
