"""Times of metadata tables are moments of their tables, in whatever zone the writers are.

Before 0.1.0 a new metadata table got the wall clock of its process.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import parse_instant_time
from hoodie.metadata.reader.metadata_listing import MetadataListing, MetadataListingChoice
from tests.support.folders import files_below
from tests.support.pairs import each_pair
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.support.zones import in_zone

pytestmark = pytest.mark.metadata_table

EAST, WEST = "Asia/Shanghai", "America/Los_Angeles"
ON = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.min.filegroup.count": 1}
INDEXED = {**ON, "hoodie.metadata.global.record.level.index.enable": True, "hoodie.index.type": "RECORD_INDEX"}
OFF = {"hoodie.metadata.enable": False}
SKEW = timedelta(seconds=2)


def upsert(base_path: str, number: int, **properties: object) -> None:
    """One row, in one of two partitions."""
    with local_client(base_path, ON | properties) as client:
        client.upsert(rows((f"k{number}", "xy"[number % 2], number)))


def expected(count: int) -> list[tuple[str, str, int]]:
    return sorted((f"k{number}", "xy"[number % 2], number) for number in range(count))


def is_read(base_path: str) -> bool:
    """Whether readers use the metadata table."""
    snapshot = TableSnapshot.load(base_path, listing_choice=MetadataListingChoice())
    return isinstance(snapshot.committed_files, MetadataListing)


def warnings_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.message for record in caplog.records if text in record.message]


# --- right times ------------------------------------------------------------------------------------------------------


@each_pair(zone=(EAST, WEST), table_version=(9, 8, 6), indirect=["table_version"])
def test_times_are_those_of_the_table_in_any_zone(
    tmp_path: Path, zone: str, table_version: int, caplog: pytest.LogCaptureFixture
) -> None:
    base_path = str(tmp_path / "t")
    began = datetime.now(UTC) - SKEW
    with in_zone(zone):
        init_table(base_path)
        for number in range(12):
            upsert(base_path, number)
    ended = datetime.now(UTC) + SKEW
    names = [Path(path).name for path in files_below(tmp_path / "t/.hoodie")]
    times = {time for name in names for time in re.findall(r"(?<!\d)(2\d{16})", name)}
    assert len(times) >= 12
    assert [time for time in times if not began <= parse_instant_time(time) <= ended] == []
    assert warnings_of(caplog, "clock") == []
    assert is_read(base_path)
    assert read_rows(base_path) == expected(12)
