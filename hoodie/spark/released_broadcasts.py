"""Broadcasts that no task needs any more.

`Broadcast.unpersist` frees the memory of executors. The pickled value stays in a file of ``spark.local.dir`` until the
session ends: in a stream, one or more for each batch. `Broadcast.destroy` deletes it, but an attempt of a task that is
late, whose result nobody takes, fails then, and Spark logs that. So broadcasts are destroyed some time after.

Hudi has no counterpart.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from pyspark import Broadcast

KEPT_SECONDS = 600
"""The time after which no attempt of a task is late."""

_lock = threading.Lock()
_released: deque[tuple[float, Any, str]] = deque()
"""Since when a broadcast is released, its counterpart in the JVM, and the file of its value."""


def release(broadcast: Broadcast[Any]) -> None:
    """Free what a broadcast holds in memory, and destroy those that were released `KEPT_SECONDS` before.

    Args:
        broadcast: A broadcast that is not used any more.
    """
    broadcast.unpersist()
    with _lock:
        # Not the broadcast itself, which holds the value.
        _released.append((time.monotonic(), broadcast._jbroadcast, broadcast._path))
        old = []
        while _released and _released[0][0] + KEPT_SECONDS <= time.monotonic():
            old.append(_released.popleft())
    for _, in_jvm, path in old:
        with suppress(Exception):
            # Its session may have been stopped.
            in_jvm.destroy(False)
        with suppress(OSError):
            os.unlink(path)
