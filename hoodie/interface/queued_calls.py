"""Let the threads of a process write to a table one after the other, as processes do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieLockException
from hoodie.storage.storage_path import normalise_path
from hoodie.sync.sync_after_calls import catalogs_afterwards

_queues: dict[str, threading.RLock] = {}
_guard = threading.Lock()


@contextmanager
def one_after_another(config: HoodieWriteConfig) -> Iterator[None]:
    """Wait for the calls of other threads to the same table, and keep later ones waiting, for a block.

    For a call that is a whole write, by a single writer. Writers by several clients conflict instead.

    Args:
        config: The writer's configuration.

    Raises:
        HoodieLockException: Other threads were at work for ``hoodie.write.lock.wait_time_ms``.
    """
    if config.write.has_several_writers:
        yield
        return
    # A slow catalog must not keep other threads waiting.
    with catalogs_afterwards():
        yield from _in_turn(config)


def _in_turn(config: HoodieWriteConfig) -> Iterator[None]:
    path = normalise_path(config.base_path)
    with _guard:
        queue = _queues.setdefault(path, threading.RLock())
    if not queue.acquire(timeout=config.lock.wait_time_ms / 1000):
        raise HoodieLockException(
            f"{path} was being written by other threads of this process for {config.lock.wait_time_ms / 1000:.0f} s "
            "(hoodie.write.lock.wait_time_ms); nothing was changed. Call again, or raise that option"
        )
    try:
        yield
    finally:
        queue.release()
