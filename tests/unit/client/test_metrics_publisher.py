"""Figures of calls reach their reporters under Hudi's names, and never fail a write."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import prometheus_client
import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.exception import HoodieConfigException
from tests.support.table_builder import local_client

ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})


class Gateway(BaseHTTPRequestHandler):
    """A push gateway that keeps what it gets."""

    requests: ClassVar[list[tuple[str, str, str]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.requests.append((self.command, self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Be silent."""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("no_proxy", "*")
    Gateway.requests.clear()
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips.v1", record_key_fields=["id"], ordering_fields=["ts"])
    return path


def client(base_path: str, reporter: str | None, **options: Any) -> HoodieLocalWriteClient:
    properties = {"hoodie.metrics." + key.replace("_", "."): value for key, value in options.items()}
    if reporter is not None:
        properties["hoodie.metrics.reporter.type"] = reporter
    return local_client(base_path, {"hoodie.metrics.on": True, **properties})


def test_a_compaction_that_is_asked_for_has_figures_of_its_own(tmp_path: Path) -> None:
    base_path = str(tmp_path / "mor")
    HoodieTableMetaClient.init_table(base_path, table_name="m", record_key_fields=["id"], table_type="MERGE_ON_READ")
    path = tmp_path / "metrics.jsonl"
    with client(base_path, "json_lines", json_path=str(path)) as writer:
        writer.upsert(ROWS)
        writer.upsert(pa.table({"id": ["a"], "ts": [2]}))
        writer.compact()
        writer.compact()
    *_, third, last = (json.loads(line)["metrics"] for line in path.read_text().splitlines())
    assert third["m.compaction.totalRecordsWritten"] == 2
    assert third["m.compaction.totalUpdateRecordsWritten"] == 1
    assert third["m.step.compact.duration"] > 0
    assert not [name for name in last if name.startswith("m.compaction.total")]


def test_json_lines_have_the_names_of_hudi(base_path: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with client(base_path, "json_lines", json_path=str(path)) as writer:
        result = writer.upsert(ROWS)
        writer.upsert(pa.table({"id": ["a"], "ts": [2]}))
        writer.clean()
    first, second, third = (json.loads(line)["metrics"] for line in path.read_text().splitlines())
    assert {name: value for name, value in first.items() if name.startswith("trips_v1.commit.total")} == {
        "trips_v1.commit.totalPartitionsWritten": 1,
        "trips_v1.commit.totalFilesInsert": 1,
        "trips_v1.commit.totalFilesUpdate": 0,
        "trips_v1.commit.totalRecordsWritten": 2,
        "trips_v1.commit.totalUpdateRecordsWritten": 0,
        "trips_v1.commit.totalInsertRecordsWritten": 2,
        "trips_v1.commit.totalRecordsDeleted": 0,
        "trips_v1.commit.totalBytesWritten": result.written_bytes,
        "trips_v1.commit.totalScanTime": first["trips_v1.commit.totalScanTime"],
        "trips_v1.commit.totalCreateTime": first["trips_v1.commit.totalCreateTime"],
        "trips_v1.commit.totalUpsertTime": first["trips_v1.commit.totalUpsertTime"],
    }
    seconds = sum(step.seconds for step in result.steps if step.depth == 0 and step.name != "post-commit")
    assert first["trips_v1.commit.duration"] == pytest.approx(seconds * 1000, abs=0.01)
    assert second["trips_v1.commit.totalUpdateRecordsWritten"] == 1
    assert second["trips_v1.finalize.numFilesFinalized"] == 1
    assert {"trips_v1.index.lookup.duration", "trips_v1.finalize.duration", "trips_v1.clean.duration"} <= second.keys()
    assert third["trips_v1.clean.numFilesDeleted"] == 0
    assert not any(".commit." in name for name in third)


def test_services_of_a_client_that_commits_nothing_have_the_name_of_the_table(base_path: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with client(base_path, "json_lines", json_path=str(path)) as cleaner:
        cleaner.clean()
        cleaner.archive()
    clean, archive = (json.loads(line)["metrics"] for line in path.read_text().splitlines())
    assert "trips_v1.clean.numFilesDeleted" in clean
    assert "trips_v1.archive.numInstantsArchived" in archive


def test_a_commit_by_hand_is_reported_once_and_with_its_whole_time(base_path: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    properties = {"hoodie.auto.commit": False, "hoodie.metrics.on": True, "hoodie.metrics.reporter.type": "JSON_LINES"}
    properties |= {"hoodie.metrics.json.path": str(path), "hoodie.metrics.reporter.metricsname.prefix": "own"}
    with local_client(base_path, properties) as writer:
        result = writer.upsert(ROWS)
        writer.commit(result.instant_time, result)
        steps = writer.metrics.steps
    write, commit = (json.loads(line)["metrics"] for line in path.read_text().splitlines())
    assert "own.commit.duration" not in write
    seconds = sum(step.seconds for step in steps if step.depth == 0 and step.name != "post-commit")
    assert commit["own.commit.duration"] == pytest.approx(seconds * 1000, abs=0.01)
    assert "own.step.write_buckets.duration" in write
    assert "own.step.write_buckets.duration" not in commit


def test_the_console_gets_a_line_for_each(base_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with client(base_path, "CONSOLE") as writer:
        writer.upsert(ROWS)
    assert "trips_v1.commit.totalRecordsWritten = 2\n" in capsys.readouterr().out


def test_the_push_gateway_gets_figures_and_forgets_them_at_the_end(base_path: str, gateway: int) -> None:
    options = {"pushgateway_host": "127.0.0.1", "pushgateway_port": gateway, "pushgateway_job_name": "nightly"}
    options |= {"pushgateway_report_labels": "team:data"}
    with client(base_path, "PROMETHEUS_PUSHGATEWAY", pushgateway_random_job_name_suffix=False, **options) as writer:
        writer.upsert(ROWS)
    (pushed, path, body), (deleted, deleted_path, _) = Gateway.requests
    assert (pushed, deleted) == ("POST", "DELETE")
    assert path == deleted_path == "/metrics/job/nightly/team/data"
    assert "trips_v1_commit_totalRecordsWritten 2.0" in body
    with client(base_path, "PROMETHEUS_PUSHGATEWAY", pushgateway_delete_on_shutdown=False, **options) as writer:
        writer.upsert(ROWS)
    assert [command for command, _, _ in Gateway.requests[2:]] == ["POST"]
    assert Gateway.requests[2][1].startswith("/metrics/job/nightly-")


def test_a_push_gateway_that_does_not_answer_is_named_in_one_line(
    base_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        options = {"pushgateway_host": "127.0.0.1", "pushgateway_port": port}
        with client(base_path, "PROMETHEUS_PUSHGATEWAY", **options) as writer:
            writer.upsert(ROWS)
    told = f"the push gateway 127.0.0.1:{port} (hoodie.metrics.pushgateway.host and .port) does not take the figures: "
    pushed, closed = (record for record in caplog.records if record.name == "hoodie.client.metrics_publisher")
    assert f"the table is not affected: {told}" in pushed.getMessage()
    assert f"could not be closed: {told}" in closed.getMessage()
    assert pushed.exc_info is closed.exc_info is None


def test_prometheus_fetches_the_last_figures(
    base_path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    started = []
    start = prometheus_client.start_http_server
    monkeypatch.setattr(
        prometheus_client,
        "start_http_server",
        lambda *a, **k: started.append(start(*a, addr="127.0.0.1", **k)),
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with client(base_path, "PROMETHEUS", prometheus_port=port) as writer:
            assert writer.upsert(ROWS).is_committed
    assert f"port {port}" in caplog.text
    for _ in range(2):
        with client(base_path, "PROMETHEUS", prometheus_port=port) as writer:
            writer.upsert(ROWS)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert "trips_v1_commit_totalUpdateRecordsWritten 2.0" in answer.read().decode()
    [(server, thread)] = started
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_reporter_that_fails_does_not_fail_the_write(
    base_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), client(base_path, "JSON_LINES", json_path=str(tmp_path)) as writer:
        assert writer.upsert(ROWS).is_committed
    assert "could not be reported" in caplog.text


@pytest.mark.parametrize(
    ("reporter", "problem"),
    [("GRAPHITTE", "GRAPHITTE: there is no such reporter"), ("JSON_LINES", "hoodie.metrics.json.path")],
)
def test_a_reporter_that_is_not_there_is_refused_where_metrics_are_on(
    base_path: str, reporter: str, problem: str
) -> None:
    with pytest.raises(HoodieConfigException, match=problem):
        client(base_path, reporter)
    with local_client(base_path, {"hoodie.metrics.reporter.type": "GRAPHITE"}) as writer:
        assert writer.upsert(ROWS).is_committed
    with client(base_path, "INMEMORY") as writer:
        assert writer.upsert(ROWS).is_committed


@pytest.mark.parametrize("reporter", [None, "GRAPHITE", "DATADOG"])
def test_a_reporter_of_hudi_that_is_not_there_does_not_refuse_a_write(
    base_path: str, reporter: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with client(base_path, reporter) as writer:
        assert writer.upsert(ROWS).is_committed
    assert f"no metrics are reported, because hoodie.metrics.reporter.type = {reporter or 'GRAPHITE'}" in caplog.text


def test_prometheus_without_its_library_says_what_to_install(base_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(HoodieConfigException, match=r"hoodie\[prometheus\]"):
        client(base_path, "PROMETHEUS_PUSHGATEWAY")
