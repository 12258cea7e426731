"""A schema registry on loopback, for tests: it knows what Confluent's own client and serializer ask for."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs


@attrs.define(eq=False)
class StubRegistry:
    """The state of the registry; tests change it while it runs.

    Attributes:
        port: Its port.
        schemas: All schemas; the id of the first one is 1.
        subjects: Subject -> ids, the first version first.
        requests: The paths of all requests.
        user_info: ``user:password`` that is asked for; None for none.
        status: The status of every answer; None for the right one.
        delay_s: Seconds before an answer.
        body: The body of every answer instead of the right one.
        location: The header Location of every answer.
    """

    port: int = 0
    schemas: list[dict[str, Any]] = attrs.Factory(list)
    subjects: dict[str, list[int]] = attrs.Factory(dict)
    requests: list[str] = attrs.Factory(list)
    user_info: str | None = None
    status: int | None = None
    delay_s: float = 0
    body: bytes | None = None
    location: str | None = None
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The URL without a path."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def register(self, subject: str, schema: str, schema_type: str = "AVRO", references: Any = ()) -> int:
        """Add a version to a subject, and give its id."""
        entry: dict[str, Any] = {"schema": schema, "schemaType": schema_type, "references": list(references)}
        if entry not in self.schemas:
            self.schemas.append(entry)
        schema_id = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """The answer to a GET."""
        path = path.partition("?")[0]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            schema_id = int(found[1])
            if 0 < schema_id <= len(self.schemas):
                return 200, self.schemas[schema_id - 1]
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\w+)", path):
            versions = self.subjects.get(found[1], [])
            version = len(versions) if found[2] == "latest" else int(found[2])
            if 0 < version <= len(versions):
                schema_id = versions[version - 1]
                return 200, self.schemas[schema_id - 1] | {"subject": found[1], "version": version, "id": schema_id}
        return 404, {"error_code": 40401, "message": "Not found"}


@contextmanager
def schema_registry(certificate: Path | None = None, user_info: str | None = None) -> Iterator[StubRegistry]:
    """A registry that runs within the block.

    Args:
        certificate: A PEM file with its certificate and key, for TLS.
        user_info: ``user:password`` that it asks for.
    """
    registry = StubRegistry(user_info=user_info)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def send(self, status: int, answer: dict[str, Any]) -> None:
            time.sleep(registry.delay_s)
            body = json.dumps(answer).encode() if registry.body is None else registry.body
            self.send_response(registry.status or status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            if registry.location is not None:
                self.send_header("Location", registry.location)
            self.end_headers()
            self.wfile.write(body)

        def is_welcome(self) -> bool:
            registry.requests.append(self.path)
            wanted = registry.user_info
            given = self.headers.get("Authorization")
            basic = None if wanted is None else f"Basic {base64.b64encode(wanted.encode()).decode()}"
            if wanted is None or given in (basic, f"Bearer {wanted}"):
                return True
            self.send(401, {"error_code": 401})
            return False

        def do_GET(self) -> None:
            if self.is_welcome():
                self.send(*registry.answer(self.path))

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = re.match(r"/subjects/([^/]+)", self.path)
            if found and self.is_welcome():
                schema_id = registry.register(
                    found[1], content["schema"], content.get("schemaType") or "AVRO", content.get("references") or ()
                )
                self.send(200, {"id": schema_id, "version": 1, "subject": found[1], "schema": content["schema"]})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # type: ignore[method-assign]  # clients that gave up
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        registry.scheme = "https"
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
