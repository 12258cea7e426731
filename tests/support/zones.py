"""Processes in other time zones, and what hoodie did there before 0.1.0.

| to | use |
|---|---|
| be somewhere else | `in_zone` |
| make a metadata table whose times are those of the process's zone | `times_of_the_process` |
| leave such a metadata table as it is | `mending_nothing` |
| write as one who looks at the clock, whatever the newest time of a timeline is, as Hudi does | `trusting_its_clock` |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import attrs
import pytest

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline import active_timeline
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.metadata.reader.metadata_table_files import metadata_table_snapshot
from hoodie.metadata.writer import new_metadata_table

__all__ = ["in_zone", "mending_nothing", "times_of_the_process", "trusting_its_clock"]

_TIMEZONE = "hoodie.table.timeline.timezone"


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


@contextmanager
def times_of_the_process() -> Iterator[None]:
    """The first instant of a new metadata table gets the wall clock of the process, as with hoodie before 0.1.0."""

    def in_the_zone_of_the_process(table: TableSnapshot, stored: HoodieTableConfig, **more: Any) -> TableSnapshot:
        local = HoodieTableConfig({**table.table_config.properties, _TIMEZONE: "LOCAL"})
        own = metadata_table_snapshot(attrs.evolve(table, table_config=local), stored, **more)
        assert own.active_timeline.timezone == "LOCAL"
        return own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_metadata_table, "metadata_table_snapshot", in_the_zone_of_the_process)
        yield


@contextmanager
def mending_nothing() -> Iterator[None]:
    """Writers look at no times of metadata tables, as those of hoodie before 0.1.0, and those of Hudi."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hoodie.metadata.writer.misplaced_metadata_table.first_misplaced_time", lambda files: None)
        yield


@contextmanager
def trusting_its_clock() -> Iterator[None]:
    """Writers take the moment for the next time of a timeline, also where that has later ones."""

    def moment(now: datetime, newest: str | None, timezone: str = "UTC") -> str:
        # Two steps of a test must not share a millisecond.
        time.sleep(0.002)
        return format_instant_time(now, timezone)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(active_timeline, "next_instant_time", moment)
        yield
