"""Object stores on this machine for tests: moto's S3, and a proxy that loses answers."""

from __future__ import annotations

import http.client
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

ACCESS_KEY = "AKIAHOODIETESTS00000"
SECRET_KEY = "s3cr3t-that-nobody-may-see"

_put_lock = threading.Lock()


def _one_put_at_a_time(handler: Callable[[S3Response], Any]) -> Callable[[S3Response], Any]:
    """S3 decides a conditional put at one moment; moto looks first and puts then, in several threads."""

    def put_object(self: S3Response) -> Any:
        with _put_lock:
            return handler(self)

    return put_object


@attrs.frozen
class Bucket:
    """An empty bucket.

    Attributes:
        name: Its name.
        client: boto3's client of the server.
        endpoint: URL of the server.
    """

    name: str
    client: Any = attrs.field(repr=False)
    endpoint: str

    def options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Storage options, of the server itself or of a proxy."""
        return {
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": "us-east-1",
            "endpoint": endpoint or self.endpoint,
        }

    def list_keys(self) -> list[str]:
        """All keys."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def put_unasked(self, key: str, content: bytes) -> None:
        """Put an object into the server's memory, without a request."""
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, key, content)

    def unfinished_uploads(self) -> list[str]:
        """Keys of uploads in parts that are neither completed nor given up."""
        return [entry["Key"] for entry in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])]


@attrs.frozen
class S3Server:
    """moto's S3."""

    endpoint: str
    client: Any = attrs.field(repr=False)

    def new_bucket(self) -> Bucket:
        """An empty bucket of its own."""
        name = f"bucket-{uuid.uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        return Bucket(name, self.client, self.endpoint)


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """moto's S3 on a free port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    original = S3Response.put_object
    S3Response.put_object = _one_put_at_a_time(original)  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )
        yield S3Server(endpoint, client)
        client.close()
    finally:
        server.stop()
        S3Response.put_object = original  # type: ignore[method-assign]


@attrs.define
class Request:
    """What a client asked of the proxy."""

    method: str
    path: str
    headers: dict[str, str]


class FaultyProxy:
    """Stands between a client and a store; ``fault`` says what goes wrong with a request.

    ``fault(request)`` returns None (nothing), ``"lose"`` (the store does it, the client never hears of it), ``"drop"``
    (the store never hears of it), a status (the store never hears of it, and the client gets that answer), or a
    function, which is called before the store does it.
    """

    def __init__(self, target: str) -> None:
        self.fault: Callable[[Request], Any] = lambda request: None
        self.requests: list[Request] = []
        host, _, port = target.removeprefix("http://").partition(":")
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
                proxy.requests.append(request)
                fault = proxy.fault(request)
                if fault == "drop":
                    self.close_connection = True
                    return
                if isinstance(fault, int):
                    self.send_response(fault)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if callable(fault):
                    fault()
                connection = http.client.HTTPConnection(host, int(port), timeout=60)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    content = response.read()
                finally:
                    connection.close()
                if fault == "lose":
                    self.close_connection = True
                    return
                self.send_response(response.status)
                skipped = {"content-length", "connection", "transfer-encoding"}
                for name, value in response.getheaders():
                    if name.lower() not in skipped:
                        self.send_header(name, value)
                length = response.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def count(self, method: str) -> int:
        """Requests of that method."""
        return sum(request.method == method for request in self.requests)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
