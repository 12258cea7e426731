"""Faster starts of tasks in a Python worker.

Before each task PySpark drops the import caches. Then Python reads the directories of ``pyspark.zip`` and of Spark's
other archives on the path again, once for each package imported from them: about 0.1 s.

After each task PySpark collects garbage over all modules: about 0.1 s.

The JVM sends a task in two small packets over TCP, and holds the second one back until the first one is acknowledged.
Linux acknowledges a packet 40 ms late on a connection whose ends answer one another, unless it is told otherwise; this
is forgotten with the next answer.

Hudi has no counterpart: its tasks run in the JVM.
"""

from __future__ import annotations

import gc
import re
import socket
import sys
import zipimport
from types import FrameType
from typing import Any

import attrs

_SPARK_ARCHIVE = re.compile(r"pyspark\.zip|py4j-[^/]*\.zip|spark-core_[^/]*\.jar")
_WORKER = ("pyspark.daemon", "worker")
"""The module and the function of PySpark that serves a task; its local variable ``sock`` is the connection."""
_NEW_MODULES = 50
"""After this many imports the modules are taken out of garbage collection again."""


@attrs.define
class _Worker:
    """The state of this process.

    Attributes:
        modules: The number of modules out of garbage collection.
        connection: The connection to the JVM; None if none was found.
        is_known: Whether the connection was looked for.
    """

    modules: int = 0
    connection: socket.socket | None = None
    is_known: bool = False


_worker = _Worker()


def prepare_worker() -> None:
    """Make the tasks that follow in this Python worker start faster; called in tasks.

    Spark's own archives do not change during the life of a worker, so their importers keep what they have read.
    Archives that users add are read again as before.
    """
    for path, importer in sys.path_importer_cache.items():
        if not isinstance(importer, zipimport.zipimporter) or not _SPARK_ARCHIVE.search(path):
            continue
        if "invalidate_caches" not in vars(importer):
            vars(importer)["invalidate_caches"] = _keep_caches
    if len(sys.modules) >= _worker.modules + _NEW_MODULES:
        _worker.modules = len(sys.modules)
        gc.freeze()
    if not _worker.is_known:
        _worker.is_known = True
        _worker.connection = _connection()
        if _worker.connection is not None:
            _worker.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # PySpark collects garbage between a task's last answer and the next task.
            gc.callbacks.append(_after_collection)
    _acknowledge_at_once()


def _keep_caches() -> None:
    """Do nothing."""


def _connection() -> socket.socket | None:
    """The connection over which the JVM sends tasks, if it is of TCP and Linux serves it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in (_WORKER, ("__main__", _WORKER[1])):
            found = frame.f_locals.get("sock")
            is_tcp = isinstance(found, socket.socket) and found.family in (socket.AF_INET, socket.AF_INET6)
            return found if is_tcp and hasattr(socket, "TCP_QUICKACK") else None
        frame = frame.f_back
    return None


def _after_collection(phase: str, info: dict[str, Any]) -> None:
    """Told by the garbage collector before and after a collection."""
    if phase == "stop" and info["generation"] == 2:
        _acknowledge_at_once()


def _acknowledge_at_once() -> None:
    """Acknowledge the next packet when it comes."""
    if _worker.connection is None:
        return
    try:
        _worker.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:
        # The JVM has closed it.
        _worker.connection = None
