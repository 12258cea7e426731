"""Somebody is told of each commit, and no error of his reaches the writer."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie import (
    HoodieLocalWriteClient,
    HoodieTableMetaClient,
    HoodieWriteCommitCallback,
    HoodieWriteCommitCallbackMessage,
)
from hoodie.common.table.timeline.instant import Action
from hoodie.config.callback_config import MISSING_CALLBACKS
from hoodie.exception import HoodieConfigException
from tests.support.table_builder import local_client

PREFIX = "hoodie.write.commit.callback."
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})
SECRET = "s3cr3t"


class Remembering(HoodieWriteCommitCallback):
    """Notes what it is told, and whether the commit could be read by then."""

    told: ClassVar[list[tuple[HoodieWriteCommitCallbackMessage, int]]] = []

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        self.told.append((message, hoodie.read_table(message.base_path).num_rows))


class Failing(HoodieWriteCommitCallback):
    """Knows no way."""

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        raise RuntimeError("the queue is full")


class Unfinished(HoodieWriteCommitCallback):
    """Does not say what to call."""


class Receiver(BaseHTTPRequestHandler):
    """Answers as `status` says, and keeps what came."""

    status: ClassVar[int] = 200
    requests: ClassVar[list[tuple[dict[str, str], Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((dict(self.headers), json.loads(body)))
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Be silent."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    Receiver.status = 200
    Receiver.requests.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/commits?from=hoodie"
        server.shutdown()
        thread.join()


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields=["id"], ordering_fields=["ts"])
    return path


def client(base_path: str, **options: Any) -> HoodieLocalWriteClient:
    properties = {PREFIX + key.replace("_", "."): value for key, value in options.items()}
    properties = {PREFIX + "on": True, **properties}
    return local_client(base_path, properties)


def commits(base_path: str) -> int:
    timeline = HoodieTableMetaClient.load(base_path).active_timeline
    return len(timeline.filter_actions(Action.COMMIT).filter_completed_instants())


def test_a_class_is_told_after_the_commit_can_be_read(base_path: str) -> None:
    Remembering.told.clear()
    with client(base_path, **{"class": Remembering}) as writer:
        result = writer.upsert(ROWS)
    [(message, rows)] = Remembering.told
    assert rows == 2
    assert (message.commit_time, message.table_name, message.commit_action_type) == (
        result.instant_time,
        "trips",
        "commit",
    )
    assert [stat.num_inserts for stat in message.hoodie_write_stat] == [2]
    assert result.service_errors == ()


def test_nobody_is_told_where_it_is_off_or_nothing_is_committed(base_path: str) -> None:
    Remembering.told.clear()
    with client(base_path, on=False, **{"class": Remembering}) as writer:
        writer.upsert(ROWS)
    properties = {PREFIX + "on": True, PREFIX + "class": Remembering, "hoodie.auto.commit": False}
    with local_client(base_path, properties) as writer:
        result = writer.upsert(ROWS)
        assert Remembering.told == []
        writer.commit(result.instant_time, result, extra_metadata={"why": "test"})
    [(message, _)] = Remembering.told
    assert message.extra_metadata["why"] == "test"


def test_a_callback_that_fails_changes_nothing_but_is_named(base_path: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), client(base_path, **{"class": Failing}) as writer:
        result = writer.upsert(ROWS)
        again = writer.upsert(ROWS)
    assert result.is_committed
    assert result.service_errors == (f"callback of {result.instant_time}: RuntimeError: the queue is full",)
    assert len(again.service_errors) == 1
    assert "failed after the commit: callback" in result.summary
    assert commits(base_path) == 2
    assert "the commit stands" in caplog.text


def test_http_posts_json_with_the_names_of_hudi(base_path: str, receiver: str) -> None:
    headers = "X-Team: data;Authorization:Bearer a:b"
    with client(base_path, http_url=receiver, http_api_key=SECRET, http_custom_headers=headers) as writer:
        result = writer.upsert(ROWS)
    [(got, body)] = Receiver.requests
    assert got["Content-Type"].startswith("application/json")
    by_name = {name.upper(): value for name, value in got.items()}
    assert (by_name["HUDI-CALLBACK-KEY"], by_name["X-TEAM"]) == (SECRET, "data")
    assert by_name["AUTHORIZATION"] == "Bearer a:b"
    assert list(body) == [
        "commitTime", "tableName", "basePath", "hoodieWriteStat", "commitActionType", "extraMetadata"
    ]  # fmt: skip
    assert (body["commitTime"], body["tableName"]) == (result.instant_time, "trips")
    assert body["basePath"] == base_path
    assert [(stat["numWrites"], stat["fileId"]) for stat in body["hoodieWriteStat"]] == [
        (2, result.statuses[0].stat.file_id)
    ]
    assert json.loads(body["extraMetadata"]["schema"])["type"] == "record"
    assert result.service_errors == ()


@pytest.mark.parametrize("status", [302, 403, 500])
def test_an_answer_other_than_success_is_told_and_redirects_are_not_followed(
    base_path: str, receiver: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    Receiver.status = status
    options = {"http_api_key": SECRET, "http_custom_headers": f"Authorization:{SECRET}"}
    with caplog.at_level(logging.DEBUG), client(base_path, http_url=receiver, **options) as writer:
        result = writer.upsert(ROWS)
    assert result.is_committed
    assert str(status) in result.service_errors[0]
    assert len(Receiver.requests) == 1
    assert SECRET not in caplog.text + repr(writer.config) + str(result.service_errors)
    assert "from=hoodie" not in result.service_errors[0]


def test_a_server_that_is_gone_does_not_fail_the_write(base_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        url = f"http://127.0.0.1:{server.server_port}"
    with client(base_path, http_url=url) as writer:
        result = writer.upsert(ROWS)
    assert result.is_committed
    assert "could not be sent" in result.service_errors[0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "http.url"),
        ({"http_url": "ftp://x/y"}, "http://"),
        ({"http_url": "file:///etc/passwd"}, "http://"),
        ({"http_url": f"https://me:{SECRET}@x/y"}, "custom.headers"),
        ({"http_url": "http://x", "http_custom_headers": SECRET}, "Name:value"),
        ({"http_url": "http://x", "http_custom_headers": f"A:{SECRET}\r\nB:c"}, "Name:value"),
        ({"http_url": "http://x", "http_timeout_seconds": 0}, "timeout"),
        ({"class": "org.apache.hudi.callback.impl.Unknown"}, "class of Java"),
        ({"class": "json.JSONDecoder"}, "not a subclass of hoodie.HoodieWriteCommitCallback"),
        ({"class": Unfinished}, "does not define call"),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_is_written(
    base_path: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(HoodieConfigException, match=problem) as caught:
        client(base_path, **options)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", MISSING_CALLBACKS)
def test_a_callback_of_hudi_that_is_not_there_does_not_refuse_a_write(
    base_path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.class": name}
    with local_client(base_path, options) as client:
        assert client.upsert(ROWS).is_committed
    assert "no message is sent after a commit" in caplog.text
