"""An HTTP endpoint for monitors: ``/metrics`` for Prometheus, ``/health`` for Kubernetes and load balancers.

It is off unless an address is given, and on loopback unless the address says otherwise. Nobody is asked for a password.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import re
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import attrs

from hoodie.exception import HoodieConfigException
from hoodie.threads import start_thread
from hoodie.utilities.ingestion.streamer_metrics import Health

logger = logging.getLogger(__name__)

_FLAG: Final = "--metrics-address"
_LOOPBACK: Final = "127.0.0.1"
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_:]")
_REQUEST_SECONDS: Final = 10
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


@attrs.frozen
class Address:
    """An address to listen on.

    Attributes:
        host: The host; an address of IPv6 without its brackets.
        port: The port; 0 for any that is free.
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse ``HOST:PORT``; ``:PORT`` and ``PORT`` are on loopback.

        Args:
            text: The address.

        Raises:
            HoodieConfigException: It is no address.

            >>> Address.of(":9090")
            Address(host='127.0.0.1', port=9090)
        """
        host, _, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536):
            raise HoodieConfigException(f"{_FLAG} = {text}: must be HOST:PORT, or :PORT for {_LOOPBACK}")
        return cls(host or _LOOPBACK, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def prometheus_text(figures: Mapping[str, float]) -> str:
    r"""Figures in the text format of Prometheus.

    Args:
        figures: Name -> value. Characters that Prometheus does not take become ``_``.

        >>> prometheus_text({"trips.deltastreamer.duration": 12})
        '# TYPE trips_deltastreamer_duration gauge\ntrips_deltastreamer_duration 12\n'
    """
    lines: dict[str, str] = {}
    for name, value in figures.items():
        key = _FORBIDDEN.sub("_", name)
        key = f"_{key}" if key[:1].isdigit() else key
        lines[key] = f"# TYPE {key} gauge\n{key} {_number(value)}\n"
    return "".join(lines[key] for key in sorted(lines))


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class MetricsEndpoint:
    """Serves ``/metrics`` and ``/health`` from a daemon thread.

    ``/health`` answers 200 and ``{"healthy": true}``, or 503 and the problems.

    Args:
        address: The address, as `Address.of` takes it.
        figures: Returns the figures; called from any thread.
        health: Returns the state; likewise.

    Raises:
        HoodieConfigException: It is no address.
    """

    def __init__(self, address: str, figures: Callable[[], Mapping[str, float]], health: Callable[[], Health]) -> None:
        self._wanted = Address.of(address)
        self._figures = figures
        self._health = health
        self._server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> Address:
        """The address that is listened on, with its port."""
        if self._server is None:
            return self._wanted
        return Address(self._wanted.host, self._server.server_address[1])

    def start(self) -> Address:
        """Begin to listen.

        Returns:
            The address, with its port.

        Raises:
            HoodieConfigException: The address cannot be listened on, as the port is taken or the host is not this one.
            HoodieException: The operating system starts no more threads.
        """
        kind = _Server6 if ":" in self._wanted.host else _Server
        try:
            server = kind((self._wanted.host, self._wanted.port), _handler(self._figures, self._health))
        except (OSError, OverflowError) as error:
            raise HoodieConfigException(
                f"{_FLAG} = {self._wanted}: cannot listen there: {error}. Give another port, or :0 for any that is free"
            ) from error
        self._server = server
        if not self._wanted.is_loopback:
            logger.warning(
                "http://%s/metrics and /health can be reached from other machines, and nobody is asked for a password; "
                "give :%d to listen on this machine only",
                self.address,
                self.address.port,
            )
        try:
            start_thread(threading.Thread(target=server.serve_forever, args=(0.1,), name="hoodie-http", daemon=True))
        except BaseException:
            self._server = None
            server.server_close()
            raise
        logger.info("http://%s/metrics and /health are served", self.address)
        return self.address

    def close(self) -> None:
        """Stop listening; may be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without a look-up of the host's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away costs a line for people who look for bugs."""
        logger.debug("a request of %s failed", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(figures: Callable[[], Mapping[str, float]], health: Callable[[], Health]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS
        server_version = "hoodie"
        sys_version = ""

        def do_GET(self) -> None:
            status, kind, body = self._answer()
            content = body.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815

        def _answer(self) -> tuple[HTTPStatus, str, str]:
            match self.path.partition("?")[0].rstrip("/"):
                case "/metrics":
                    return HTTPStatus.OK, _PROMETHEUS, prometheus_text(figures())
                case "/health":
                    found = health()
                    status = HTTPStatus.OK if found.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
                    told: dict[str, Any] = {"healthy": found.is_healthy}
                    if found.problems:
                        told["problems"] = list(found.problems)
                    return status, _JSON, json.dumps(told) + "\n"
            return HTTPStatus.NOT_FOUND, _TEXT, "there are /metrics and /health\n"

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug("%s %s", self.address_string(), format % args)

    return Handler
