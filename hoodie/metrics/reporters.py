"""Send figures to a console, a file, or Prometheus.

Hudi: org.apache.hudi.metrics.MetricsReporter.
"""

from __future__ import annotations

import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hoodie.exception import HoodieConfigException, HoodieIOException

PUSH_SECONDS = 10
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_:]")


class MetricsReporter(ABC):
    """Sends figures somewhere; may raise any error.

    Hudi: org.apache.hudi.metrics.MetricsReporter.
    """

    @abstractmethod
    def report(self, gauges: Mapping[str, float]) -> None:
        """Send the figures of one call.

        Args:
            gauges: Name -> value, such as ``trips.commit.totalBytesWritten``.
        """

    def close(self) -> None:  # noqa: B027
        """The client is closed; by default there is nothing to do."""


class ConsoleReporter(MetricsReporter):
    """Prints figures, a line for each.

    Hudi: org.apache.hudi.metrics.ConsoleMetricsReporter.
    """

    def report(self, gauges: Mapping[str, float]) -> None:
        """Print to the standard output."""
        print(
            "\n".join(f"{name} = {value:g}" if value % 1 else f"{name} = {value:.0f}" for name, value in gauges.items())
        )


class JsonLinesReporter(MetricsReporter):
    """Appends a line of JSON for each call: ``{"time": "2026-01-01T00:00:00.000+00:00", "metrics": {...}}``.

    Args:
        path: The file; it is made when it is missing.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def report(self, gauges: Mapping[str, float]) -> None:
        """Append the line."""
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "metrics": dict(gauges)}) + "\n"
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line)


class _Gauges:
    """Figures in a registry of Prometheus."""

    def __init__(self) -> None:
        self.registry = _prometheus().CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._lock = threading.Lock()

    def set(self, gauges: Mapping[str, float]) -> None:
        for name, value in gauges.items():
            key = _FORBIDDEN.sub("_", name)
            key = f"_{key}" if key[:1].isdigit() else key
            with self._lock:
                if key not in self._gauges:
                    self._gauges[key] = _prometheus().Gauge(key, f"hoodie's {name}", registry=self.registry)
                self._gauges[key].set(value)


_servers: dict[int, _Gauges] = {}
_servers_lock = threading.Lock()


class PrometheusReporter(MetricsReporter):
    """Serves figures to Prometheus over HTTP; all clients of a process share a port.

    The server runs until the process ends, so that Prometheus fetches the last figures of a closed client too.

    Args:
        port: The port, of all addresses of the machine.

    Raises:
        HoodieConfigException: prometheus-client is not installed.
        OSError: The port is taken by another process.

    Hudi: org.apache.hudi.metrics.prometheus.PrometheusReporter.
    """

    def __init__(self, port: int) -> None:
        with _servers_lock:
            if port not in _servers:
                gauges = _Gauges()
                _prometheus().start_http_server(port, registry=gauges.registry)
                _servers[port] = gauges
            self._gauges = _servers[port]

    def report(self, gauges: Mapping[str, float]) -> None:
        """Serve these figures from now on."""
        self._gauges.set(gauges)


class PushGatewayReporter(MetricsReporter):
    """Pushes figures to a push gateway of Prometheus after each call.

    Args:
        address: ``host:port``.
        job: The job's name there.
        labels: Labels of all figures.
        delete_on_close: Delete the job's figures when the client is closed.

    Raises:
        HoodieConfigException: prometheus-client is not installed.
        HoodieIOException: From its methods: the gateway cannot be reached, or refuses.

    Hudi: org.apache.hudi.metrics.prometheus.PushGatewayMetricsReporter.
    """

    def __init__(self, address: str, job: str, labels: Mapping[str, str], delete_on_close: bool) -> None:
        self._gauges = _Gauges()
        self._address = address
        self._job = job
        self._labels = dict(labels)
        self._delete_on_close = delete_on_close

    def report(self, gauges: Mapping[str, float]) -> None:
        """Push the figures."""
        self._gauges.set(gauges)
        with self._naming_the_gateway():
            _prometheus().pushadd_to_gateway(
                self._address, self._job, self._gauges.registry, self._labels, timeout=PUSH_SECONDS
            )

    def close(self) -> None:
        """Delete the figures, if that was asked for."""
        if self._delete_on_close:
            with self._naming_the_gateway():
                _prometheus().delete_from_gateway(self._address, self._job, self._labels, timeout=PUSH_SECONDS)

    @contextmanager
    def _naming_the_gateway(self) -> Iterator[None]:
        """Name the gateway in errors, because errors of a connection do not."""
        try:
            yield
        except OSError as error:
            raise HoodieIOException(
                f"the push gateway {self._address} (hoodie.metrics.pushgateway.host and .port) does not take the "
                f"figures: {error}"
            ) from error


def _prometheus() -> Any:
    try:
        # Here, so that a start without metrics does not take as long.
        import prometheus_client
    except ImportError as error:
        raise HoodieConfigException(
            "metrics for Prometheus need prometheus-client: pip install 'hoodie[prometheus]'"
        ) from error
    return prometheus_client
