"""Compactions that hoodie plans and real Hudi carries out, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE
from tests.interop.test_delta_commits import INDEXES, Table, made
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

OPTIONS = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"


def pending(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return sorted(timeline.filter_actions(Action.COMPACTION).filter_pending().times)


def by_hudi(hudi: HudiProcess, table: Table, operation: str) -> None:
    hudi.sql(f"CALL run_compaction(op => '{operation}', path => '{table.base_path}', options => '{OPTIONS}')")


@pytest.mark.parametrize("index", ["SIMPLE", pytest.param("BUCKET", marks=pytest.mark.interop_smoke(6))])
def test_plans_of_one_are_carried_out_by_the_other(tmp_path: Path, hudi: HudiProcess, index: str) -> None:
    table = Table(tmp_path / "t", INDEXES[index], "avro")
    table.by_hoodie("upsert", made(range(24), 100))
    table.by_hoodie("upsert", [*made(range(6), 200, 1), *made(range(6, 9), 50, 1)])
    table.by_hoodie("delete", made(range(0, 24, 5), 0))
    with local_client(table.base_path) as client:
        planned = client.schedule_compaction()
    assert planned is not None
    table.by(hudi, "upsert", made(range(3, 12), 300, 2))
    assert pending(table.base_path) == [planned]
    by_hudi(hudi, table, "run")
    assert pending(table.base_path) == []
    table.check(hudi)
    by_hudi(hudi, table, "schedule")
    (of_hudi,) = pending(table.base_path)
    table.by_hoodie("upsert", made(range(9, 15), 400, 3))
    with local_client(table.base_path) as client:
        result = client.compact()
    assert result is not None
    assert result.instant_time == of_hudi
    table.check(hudi)
    table.by(hudi, "upsert", made(range(0, 30), 500, 4))
    with local_client(table.base_path, {"hoodie.cleaner.commits.retained": "1"}) as client:
        while client.compact() is not None:
            pass
        client.clean()
    table.check(hudi)
    table.by(hudi, "upsert", made(range(20, 34), 600, 5))
    by_hudi(hudi, table, "scheduleandexecute")
    table.by_hoodie("upsert", made(range(4, 20), 700, 6))
    table.check(hudi)


def test_the_next_plan_of_hudi_takes_what_a_plan_of_hoodie_left_out(tmp_path: Path, hudi: HudiProcess) -> None:
    """Hudi 1.2.0 looks at partitions that were written since the last plan, and at those that it names."""
    table = Table(tmp_path / "t", INDEXES["SIMPLE"], "avro")
    table.by_hoodie("upsert", made(range(24), 100))
    table.by_hoodie("upsert", made(range(24), 200, 1))
    bounded = {"hoodie.compaction.strategy": "BoundedIOCompactionStrategy", "hoodie.compaction.target.io": "0"}
    with local_client(table.base_path, bounded) as client:
        assert client.schedule_compaction() is not None
        (group,) = pending_compactions(HoodieTableMetaClient.load(str(table.base_path)).active_timeline)
        assert client.compact() is not None
    rows = [row for row in made(range(24), 300, 2) if SIMPLE.partition_of(row) == group.partition_path]
    table.by_hoodie("upsert", rows)
    by_hudi(hudi, table, "scheduleandexecute")
    view = HoodieTableMetaClient.load(str(table.base_path)).view()
    slices = [part for path in view.list_partitions() for part in view.latest_file_slices(path)]
    assert len(slices) > 1
    assert not any(part.log_files for part in slices)
    table.check(hudi)
