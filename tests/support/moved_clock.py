"""Write tables at another time: the clock of timelines is moved, as if the writes had been made days ago."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hoodie.common.table.timeline import active_timeline

__all__ = ["days_ago", "now_is"]


@contextmanager
def now_is(moment: datetime.datetime) -> Iterator[None]:
    """Let the clock of timelines begin at a moment for a block, and go on from there.

    Args:
        moment: An aware datetime.
    """
    ahead = moment - datetime.datetime.now(datetime.UTC)

    class Moved(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.now(tz) + ahead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(active_timeline, "datetime", Moved)
        yield


@contextmanager
def days_ago(days: float) -> Iterator[None]:
    """`now_is`, so many times 24 hours ago."""
    with now_is(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)):
        yield
