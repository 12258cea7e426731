"""Processes in other time zones.

| to | use |
|---|---|
| be somewhere else | `in_zone` |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["in_zone"]


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Let this process, and those that it starts, be in a time zone for a block."""
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = name
        time.tzset()
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
