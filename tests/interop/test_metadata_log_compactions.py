"""Log compactions of metadata tables, of hoodie and of real Hudi: each reads those of the other, and writes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from hoodie.common.table.compaction_plans import completed_log_compactions
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.metadata import validate
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_with_metadata import TableWithMetadata
from tests.support.metadata_table_records import opened

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 8, 9)]

ENABLE = "hoodie.metadata.log.compaction.enable"
COMPACTIONS = "hoodie.metadata.compact.max.delta.commits"
INDEX = "hoodie.metadata.record.index"
GLOBAL_INDEX = "hoodie.metadata.global.record.level.index"
OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    **{f"{name}.enable": "true" for name in (INDEX, GLOBAL_INDEX)},
    **{f"{name}.{part}.filegroup.count": "1" for name in (INDEX, GLOBAL_INDEX) for part in ("min", "max")},
    COMPACTIONS: "30",
    ENABLE: "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
}
WITHOUT, COMPACTING = {ENABLE: "false"}, {ENABLE: "false", COMPACTIONS: "1"}


def log_compactions(table: TableWithMetadata) -> list[HoodieInstant]:
    return list(completed_log_compactions(opened(table.base_path).files.snapshot.active_timeline))


def test_hudi_goes_on_with_those_of_hoodie(tmp_path: Path, hudi: HudiProcess) -> None:
    """It merges their log files with those that they replaced, and gets the same records."""
    table = TableWithMetadata(tmp_path / "t", hudi, **OPTIONS)
    table.by_hudi(*range(12), **WITHOUT)
    table.by_hoodie(*range(12, 18))
    table.by_hoodie(1, 14, operation="delete")
    if not log_compactions(table):
        table.by_hoodie(*range(3, 20))
    (first,) = log_compactions(table)
    table.check()
    table.by_hudi(4, 15, operation="delete", **WITHOUT)
    table.by_hoodie(2, 16, 17, operation="delete")
    table.check()
    table.by_hudi(*range(16, 22), **COMPACTING)
    assert first in log_compactions(table)
    table.check()
    table.by_hoodie(1, 30)
    table.check(by_hudi=False)


def made_by_hudi(table: TableWithMetadata) -> None:
    """A table with a log compaction of Hudi, which was made while a delete was pending."""
    table.by_hudi(*range(5))
    table.by_hudi(*range(5, 10))
    if table.hudi.version == "0.15.0":
        table.by_hudi(*range(10, 15))
    table.by_hudi(6, 7, 8, operation="delete")
    table.by_hudi(20)
    assert log_compactions(table)


def test_hoodie_goes_on_with_those_of_hudi(tmp_path: Path, hudi: HudiProcess) -> None:
    table = TableWithMetadata(tmp_path / "t", hudi, **OPTIONS)
    made_by_hudi(table)
    table.check(by_hudi=False)
    table.by_hoodie(7, 21)
    table.by_hoodie(*range(22, 26))
    table.check(by_hudi=False)
    with table.client(metadata_log_compaction_enable="false", metadata_compact_max_delta_commits="1") as client:
        table.write_with(client, table.rows(8, 26))
    table.check()


@pytest.mark.table_versions(8)
def test_those_of_hudi_1_0_2_revive_keys_of_its_index(tmp_path: Path, hudis: Sequence[HudiProcess]) -> None:
    """It makes them before the delta commit of an instant that is older, and merges that below them."""
    table = TableWithMetadata(tmp_path / "t", hudis[0], **OPTIONS)
    made_by_hudi(table)
    assert validate(str(table.base_path)).is_right
    table.by_hudi(40, 41, **COMPACTING)
    found = Counter(difference.partition for difference in validate(str(table.base_path)).differences)
    assert found["record_index"] == 3
    # It counts the values twice, in the log files and in the log compaction of them.
    assert found["column_stats"] > 0
