"""A ZooKeeper server on this machine, of the jars that PySpark brings."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

__all__ = ["running_zookeeper"]

_JARS = ("zookeeper", "slf4j", "log4j", "netty", "snappy", "metrics-core", "logback", "commons-io")


@contextmanager
def running_zookeeper() -> Iterator[str]:
    """The server's ``host:port``; skips where there is no Java or no PySpark."""
    found = importlib.util.find_spec("pyspark")
    java = shutil.which("java")
    if found is None or found.origin is None or java is None:
        pytest.skip("no Java, or no PySpark whose jars hold ZooKeeper")
    folder = Path(found.origin).parent / "jars"
    jars = [str(jar) for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(_JARS)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as data:
        options = ["-Xmx128m", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=ruok"]
        process = subprocess.Popen(
            [java, *options, "-cp", ":".join(jars), "org.apache.zookeeper.server.ZooKeeperServerMain", str(port), data],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 120
            while not _answers(port):
                assert process.poll() is None, "ZooKeeper ended"
                assert time.monotonic() < deadline, "ZooKeeper does not answer"
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"ruok")
        return connection.recv(4) == b"imok"
    return False
