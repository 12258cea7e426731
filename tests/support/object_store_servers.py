"""Object stores on this machine for tests: moto's S3, a proxy that loses answers, and faces of other stores."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import logging
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import attrs
import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.responses import DynamoHandler
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

ACCESS_KEY = "AKIAHOODIETESTS00000"
SECRET_KEY = "s3cr3t-that-nobody-may-see"

_put_lock = threading.Lock()


_CONDITIONAL = ((S3Response, "put_object"), (DynamoHandler, "put_item"), (DynamoHandler, "delete_item"))
"""What moto's servers do under conditions."""


def _one_at_a_time(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Stores decide a conditional call at one moment; moto looks first and acts then, in several threads."""

    def handle(self: Any) -> Any:
        with _put_lock:
            return handler(self)

    return handle


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
    originals = [getattr(kind, name) for kind, name in _CONDITIONAL]
    for (kind, name), original in zip(_CONDITIONAL, originals, strict=True):
        setattr(kind, name, _one_at_a_time(original))
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
        for (kind, name), original in zip(_CONDITIONAL, originals, strict=True):
            setattr(kind, name, original)


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
                path, headers = proxy.forwarded(request)
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
                    connection.request(self.command, path, body, headers)
                    response = connection.getresponse()
                    content = response.read()
                finally:
                    connection.close()
                if fault == "lose":
                    self.close_connection = True
                    return
                self.send_response(response.status)
                skipped = {"content-length", "connection", "transfer-encoding"}
                for name, value in proxy.answered(response.getheaders()):
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
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def forwarded(self, request: Request) -> tuple[str, dict[str, str]]:
        """The path and the headers of a request as the store gets them."""
        return request.path, request.headers

    def answered(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The headers of an answer as the client gets them."""
        return headers

    def count(self, method: str) -> int:
        """Requests of that method."""
        return sum(request.method == method for request in self.requests)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class GoogleFace(FaultyProxy):
    """Google Cloud Storage's XML interface in front of an S3: the same calls, with other names of headers.

    No emulator that can be had speaks that interface. What is Google's own here is what hoodie relies on: a put with
    ``x-goog-if-generation-match: 0`` meets either no object or 412, and ``x-goog-meta-*`` is kept.
    """

    def forwarded(self, request: Request) -> tuple[str, dict[str, str]]:
        scope = "Credential=any/20260101/us-east-1/s3/aws4_request"
        headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=any"}
        for name, value in request.headers.items():
            if name == "authorization":
                continue
            if name == "x-goog-if-generation-match":
                assert value == "0"
                headers["if-none-match"] = "*"
            else:
                headers[name.replace("x-goog-meta-", "x-amz-meta-")] = value
        path, question, query = request.path.partition("?")
        bucket, slash, key = path.removeprefix("/").partition("/")
        return f"/{unquote(bucket)}{slash}{key.replace('%2F', '/')}{question}{query}", headers

    def answered(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(name.replace("x-amz-meta-", "x-goog-meta-"), value) for name, value in headers] + [
            ("x-goog-generation", "1")
        ]


def google_options(endpoint: str) -> dict[str, Any]:
    """Storage options of a Google Cloud Storage at that URL, without credentials."""
    account = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    return {"service_account_key": {**account, "private_key_id": ""}, "allow_http": True}


AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, as Microsoft documents it."""


@attrs.frozen
class AzureServer:
    """Azurite's blob service."""

    port: int

    def new_container(self) -> str:
        """The name of an empty container of its own."""
        name = f"container-{uuid.uuid4().hex}"
        date = formatdate(usegmt=True)
        version = "2021-08-06"
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n"
        signed += f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(AZURE_KEY), signed.encode(), hashlib.sha256).digest()
        authorization = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": authorization, "Content-Length": "0"}
        connection.request("PUT", f"/{AZURE_ACCOUNT}/{name}?restype=container", headers=headers)
        status = connection.getresponse().status
        connection.close()
        assert status == 201
        return name

    def options(self) -> dict[str, Any]:
        """Storage options."""
        return {"account_key": AZURE_KEY, "endpoint": f"http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}"}


@contextmanager
def running_azure(program: str) -> Iterator[AzureServer]:
    """Azurite (npm's ``azurite-blob``) on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
    process = subprocess.Popen(
        [program, *arguments, "--skipApiVersionCheck", "--silent"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield AzureServer(port)
    finally:
        process.terminate()
        process.wait(30)
