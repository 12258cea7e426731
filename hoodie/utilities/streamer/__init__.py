"""The streamer: rounds that fetch from a source and write to a table, each position together with its rows.

Hudi: the package org.apache.hudi.utilities.streamer, once org.apache.hudi.utilities.deltastreamer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoodie.utilities.streamer.hoodie_streamer import HoodieStreamer
    from hoodie.utilities.streamer.stream_sync import StreamSync
    from hoodie.utilities.streamer.streamer_config import StreamerConfig
    from hoodie.utilities.streamer.sync_result import SyncResult

__all__ = ["HoodieStreamer", "StreamSync", "StreamerConfig", "SyncResult"]

_MODULES = {
    "HoodieStreamer": "hoodie_streamer",
    "StreamSync": "stream_sync",
    "StreamerConfig": "streamer_config",
    "SyncResult": "sync_result",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for: the parts of the streamer import each other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
