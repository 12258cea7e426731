"""The HTTP endpoint of the streamer."""

from __future__ import annotations

import json
import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.utilities.ingestion.http_endpoint import Address, MetricsEndpoint, prometheus_text
from hoodie.utilities.ingestion.streamer_metrics import Health


class State:
    """Figures and health that tests set."""

    def __init__(self) -> None:
        self.figures: Mapping[str, float] = {"trips.deltastreamer.kafkaDelayCount": 0}
        self.health = Health()


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def endpoint(state: State) -> Iterator[MetricsEndpoint]:
    found = MetricsEndpoint(":0", lambda: state.figures, lambda: state.health)
    found.start()
    yield found
    found.close()
    found.close()


def get(endpoint: MetricsEndpoint, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, type and body of an answer."""
    request = urllib.request.Request(f"http://{endpoint.address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_those_of_this_moment(endpoint: MetricsEndpoint, state: State) -> None:
    status, kind, body = get(endpoint, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == "# TYPE trips_deltastreamer_kafkaDelayCount gauge\ntrips_deltastreamer_kafkaDelayCount 0\n"
    state.figures = {"trips.deltastreamer.kafkaDelayCount": 12}
    assert get(endpoint, "/metrics?x=1")[2].endswith("kafkaDelayCount 12\n")
    assert get(endpoint, "/metrics", "HEAD")[2] == ""


def test_the_client_of_prometheus_reads_the_text() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="no prometheus-client")
    figures = {"a.b-c": 1.5, "1x": 2, "big": 1_785_920_400_000, "nan": float("nan"), "inf": float("-inf")}
    found = {one.name: one.samples[0].value for one in parser.text_string_to_metric_families(prometheus_text(figures))}
    assert found.pop("nan") != 0
    assert found == {"a_b_c": 1.5, "_1x": 2.0, "big": 1_785_920_400_000.0, "inf": float("-inf")}


def test_health_is_503_with_the_problems(endpoint: MetricsEndpoint, state: State) -> None:
    assert get(endpoint, "/health") == (200, "application/json", '{"healthy": true}\n')
    state.health = Health(("trips: 3 rounds in a row failed",))
    status, _, body = get(endpoint, "/health/")
    assert status == 503
    assert json.loads(body) == {"healthy": False, "problems": ["trips: 3 rounds in a row failed"]}


def test_other_paths_and_methods_are_refused(endpoint: MetricsEndpoint) -> None:
    assert get(endpoint, "/")[0] == 404
    assert get(endpoint, "/../etc/passwd")[0] == 404
    assert get(endpoint, "/metrics", "POST")[0] == 501


def test_a_client_that_says_nothing_keeps_nobody_out(endpoint: MetricsEndpoint) -> None:
    with socket.create_connection((endpoint.address.host, endpoint.address.port)) as silent:
        silent.sendall(b"GET /metr")
        assert get(endpoint, "/health")[0] == 200


def test_it_is_on_loopback_unless_the_address_says_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    assert Address.of(":9090") == Address.of("9090") == Address("127.0.0.1", 9090)
    assert Address.of("[::1]:80") == Address("::1", 80)
    assert str(Address.of("[::1]:80")) == "[::1]:80"
    assert all(Address.of(f"{host}:1").is_loopback for host in ("localhost", "127.0.0.2", "[::1]"))
    assert not any(Address.of(f"{host}:1").is_loopback for host in ("0.0.0.0", "[::]", "example.org", "10.0.0.1"))
    with caplog.at_level(logging.INFO):
        for address, is_warned in (("127.0.0.1:0", False), ("0.0.0.0:0", True)):
            caplog.clear()
            found = MetricsEndpoint(address, dict, Health)
            found.start()
            assert found.address.port > 0
            found.close()
            warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
            assert len(warnings) == is_warned
            assert not is_warned or "nobody is asked for a password" in warnings[0]


@pytest.mark.parametrize("text", ["", "host", ":", ":-1", ":65536", ":٣", "host:port"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(HoodieConfigException, match="--metrics-address"):
        MetricsEndpoint(text, dict, Health)


def test_a_port_that_is_taken_is_refused(endpoint: MetricsEndpoint) -> None:
    second = MetricsEndpoint(str(endpoint.address), dict, Health)
    with pytest.raises(HoodieConfigException, match=f"--metrics-address = {endpoint.address}: cannot listen there"):
        second.start()
    second.close()
