"""hoodie runs east of UTC and writes in turn with real Hudi, whose times are those of its clock: nobody misses rows.

hudi-rs reads by the metadata table too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.reader.misplaced_times import first_misplaced_time
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import read_with_hudi_rs, rows_of
from tests.interop.table_with_metadata import SCHEMA, WITH, TableWithMetadata
from tests.support.zones import in_zone, mending_nothing, times_of_the_process

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(9)]

ON = {"metadata_enable": "true"}
TURNS = 11
"""So many commits of hoodie compact the metadata table."""


@pytest.mark.interop_smoke
@pytest.mark.with_merge_on_read
def test_hoodie_in_another_zone_and_real_hudi_see_each_others_rows(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    table = TableWithMetadata(tmp_path / "t", hudi_1_2)
    for zone in ("Asia/Shanghai", "Europe/Berlin"):
        with in_zone(zone):
            for turn in range(TURNS):
                table.by_hoodie(turn, turn + 1, **ON)
        table.mark()
        table.by_hudi(0, 20)
        table.check()
        with in_zone(zone):
            table.by_hoodie(3, 20, 21, **ON)
        table.by_hudi(1, 21, 22)
        table.check()
        assert table.is_marked()


def old_table(base_path: Path, hudi: HudiProcess) -> TableWithMetadata:
    """A table of hoodie before 0.1.0, made in the east: its metadata table was compacted in the future."""
    table = TableWithMetadata(base_path, hudi)
    with in_zone("Asia/Shanghai"), times_of_the_process(), mending_nothing():
        for turn in range(TURNS):
            table.by_hoodie(turn, turn + 1, **ON)
    return table


@pytest.mark.with_merge_on_read
def test_a_table_whose_metadata_table_has_times_of_another_zone_is_mended(
    tmp_path: Path, hudi_1_2: HudiProcess
) -> None:
    table = old_table(tmp_path / "t", hudi_1_2)
    # Hudi builds nothing on what it just wrote, and does not see.
    table.by_hudi(0, 20, **{"hoodie.compact.inline": "false"})
    assert rows_of(read_with_hudi_rs(table.base_path), SCHEMA) != table.model.expected()
    assert rows_of(hoodie.read_table(str(table.base_path)), SCHEMA) == table.model.expected()
    snapshot = TableSnapshot.load(str(table.base_path))
    assert first_misplaced_time(MetadataTableFiles.load(snapshot)) is not None
    with in_zone("Asia/Shanghai"):
        table.by_hoodie(3, 20, 21, **ON)
    table.check()
    table.mark()
    table.by_hudi(1, 21, 22)
    table.check()
    with in_zone("Asia/Shanghai"):
        table.by_hoodie(2, **ON)
    table.check()
    assert table.is_marked()
    assert rows_of(hudi_1_2.read(table.base_path, WITH), SCHEMA) == table.model.expected()


@pytest.mark.with_merge_on_read
def test_what_hudi_does_not_see_is_missing_from_what_it_writes_next_and_can_be_written_again(
    tmp_path: Path, hudi_1_2: HudiProcess
) -> None:
    table = old_table(tmp_path / "t", hudi_1_2)
    path = str(table.base_path)
    before = TableSnapshot.load(path).active_timeline.commits_timeline().times
    # On a merge-on-read table its compaction comes next, at the end of the same write.
    table.by_hudi(0, 20)
    if hudi_1_2.table_type == HoodieTableType.COPY_ON_WRITE:
        table.by_hudi(3)
    found, whole = rows_of(hoodie.read_table(path), SCHEMA), table.model.expected()
    assert [row for row in whole if row not in found] == ["('north', 'k0', 'k0', 'north', 12, 3.0)"]
    assert [row for row in found if row not in whole] == ["('north', 'k0', 'k0', 'north', 1, 0.25)"]

    commits = [
        one.requested_time
        for one in TableSnapshot.load(path).active_timeline.commits_timeline()
        if one.requested_time not in before
    ]
    with table.client(**ON) as client:
        for time in commits:
            written = hoodie.read_table(path, as_of=time, filters=[("_hoodie_commit_time", "=", time)])
            client.upsert(written.select(SCHEMA.names))
    table.check()
    table.mark()
    table.by_hudi(0, 21)
    table.check()
    assert table.is_marked()
