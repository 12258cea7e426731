"""The connection of a worker with the JVM, without a JVM."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import pytest

from hoodie.spark import worker_start
from hoodie.spark.worker_start import prepare_worker

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux alone has the option")

NAMES = {"__name__": "pyspark.daemon", "prepare_worker": prepare_worker}


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of which nothing is known yet."""
    callbacks = list(gc.callbacks)
    monkeypatch.setattr(worker_start, "_worker", worker_start._Worker())
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        with near, far:
            yield near, far


def serve(sock: socket.socket) -> None:
    """What PySpark's daemon does with a connection."""
    names = dict(NAMES)
    exec("def worker(sock, authenticated):\n    prepare_worker()", names)
    names["worker"](sock, True)  # type: ignore[operator]


def answer(near: socket.socket, far: socket.socket) -> None:
    """Let the near end answer, as a task does; the kernel then waits with what it acknowledges."""
    far.sendall(b"task")
    near.recv(4)
    near.sendall(b"rows")
    far.recv(4)


def at_once(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_the_next_task_is_acknowledged_at_once_after_pyspark_has_collected_garbage(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    near, far = connection
    serve(near)
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    for _ in range(3):
        answer(near, far)
        assert not at_once(near)
        gc.collect()
        assert at_once(near)


def test_a_connection_that_the_jvm_has_closed_is_left_alone(connection: tuple[socket.socket, socket.socket]) -> None:
    near, _ = connection
    serve(near)
    near.close()
    gc.collect()
    assert worker_start._worker.connection is None
    prepare_worker()


def test_a_worker_without_a_connection_over_tcp_is_served_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks = len(gc.callbacks)
    prepare_worker()
    monkeypatch.setattr(worker_start, "_worker", worker_start._Worker())
    near, far = socket.socketpair()
    with near, far:
        serve(near)
        assert worker_start._worker.is_known
    assert worker_start._worker.connection is None
    assert len(gc.callbacks) == callbacks
