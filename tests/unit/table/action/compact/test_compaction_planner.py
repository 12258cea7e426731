"""What plans of compactions tell the next plan of Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.avro.service_metadata import HoodieCompactionPlan
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.table.action.compact.compaction_planner import plan_compaction
from tests.support.merge_on_read_table import MergeOnReadTable

IO_OF_ONE = {"hoodie.compaction.strategy": "BoundedIOCompactionStrategy", "hoodie.compaction.target.io": 0}
DAY_OF_ONE = {
    "hoodie.compaction.strategy": "DayBasedCompactionStrategy",
    "hoodie.compaction.daybased.target.partitions": 1,
}


@pytest.fixture
def table(tmp_path: Path) -> MergeOnReadTable:
    table = MergeOnReadTable(tmp_path / "t")
    for _ in range(2):
        table.upsert("a", region="2026/11/28")
        table.upsert("b", region="2026/11/29")
    return table


def planned(table: MergeOnReadTable, **properties: Any) -> HoodieCompactionPlan:
    with table.client(**properties) as client:
        plan = plan_compaction(client.config, TableSnapshot.load(str(table.base_path)))
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, ()), (IO_OF_ONE, ("2026/11/29",)), (DAY_OF_ONE, ("2026/11/28",))],
    ids=["all", "first", "newest"],
)
def test_a_plan_names_the_partitions_whose_log_files_it_leaves_out(
    table: MergeOnReadTable, options: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert planned(table, **options).missing_schedule_partitions == expected


def test_a_plan_names_the_partitions_of_pending_compactions(table: MergeOnReadTable) -> None:
    with table.client(**IO_OF_ONE) as client:
        time = client.schedule_compaction()
    plan = planned(table)
    assert plan.missing_schedule_partitions == ("2026/11/28",)
    assert [operation.partition_path for operation in plan.operations] == ["2026/11/29"]
    timeline = table.load().active_timeline
    assert {group.partition_path for group in pending_compactions(timeline)} == {"2026/11/28"}
    (instant,) = timeline.filter_actions(Action.COMPACTION).filter_pending()
    assert instant.requested_time == time
    stored = timeline.read_as(instant, HoodieCompactionPlan).missing_schedule_partitions
    # Hudi 0.15 skips the field in plans of version 6.
    assert stored == ("2026/11/29",)
