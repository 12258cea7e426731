"""Log compactions of hoodie and of real Hudi: each carries out plans of the other, and no reader sees another row."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import Row
from tests.interop.test_delta_commits import INDEXES, Table, made
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

THREE = {"hoodie.log.compaction.blocks.threshold": "3"}
INLINE = {"hoodie.log.compaction.inline": "true", **THREE}
COMPACTION = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"


def pending(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return sorted(timeline.filter_actions(Action.LOG_COMPACTION).filter_pending().times)


def log_compactions(base_path: Path) -> list[str]:
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    operations = {one.requested_time: timeline.read_commit_metadata(one) for one in timeline.completed_writes()}
    return [time for time, one in operations.items() if one.operation_type is WriteOperationType.LOG_COMPACT]


def changes(hudi: HudiProcess, base_path: Path, begin: str) -> list[tuple[str, str, str]]:
    """What an incremental query of Hudi gives: keys, commit times and sequence numbers."""
    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
    rows = hudi.read(base_path, options).to_pylist()
    names = ("_hoodie_record_key", "_hoodie_commit_time", "_hoodie_commit_seqno")
    return sorted(tuple(row[name] for name in names) for row in rows)


def each_change(hudi: HudiProcess, base_path: Path, times: list[str]) -> dict[str, list[tuple[str, str, str]]]:
    return {time: changes(hudi, base_path, time) for time in ["000", *times]}


def some(hudi: HudiProcess, numbers: range, ts: int, generation: int = 0) -> list[Row]:
    """Rows; Hudi 1.0.2 does not read a row behind the delete of its key, see `test_delta_commits`."""
    is_old = hudi.version == "1.0.2"
    return made([number for number in numbers if not (is_old and generation and number % 5 == 0)], ts, generation)


@pytest.mark.parametrize("index", [pytest.param("SIMPLE", marks=pytest.mark.interop_smoke(6)), "BUCKET"])
def test_log_compactions_of_hoodie_change_no_query_of_hudi(tmp_path: Path, hudi: HudiProcess, index: str) -> None:
    table = Table(tmp_path / "t", INDEXES[index], "avro")
    table.by_hoodie("upsert", some(hudi, range(24), 100))
    table.by_hoodie("upsert", [*some(hudi, range(6), 200, 1), *some(hudi, range(6, 9), 50, 1)])
    table.by(hudi, "upsert", some(hudi, range(3, 12), 300, 2))
    table.by_hoodie("delete", some(hudi, range(0, 24, 5), 0))
    table.by_hoodie("upsert", some(hudi, range(7, 15), 400, 3))
    timeline = HoodieTableMetaClient.load(str(table.base_path)).active_timeline
    times = [one.newest_time for one in timeline.completed_writes()]
    before = each_change(hudi, table.base_path, times[:-1])
    with local_client(table.base_path, THREE) as client:
        assert client.log_compact() is not None
    table.check(hudi)
    assert each_change(hudi, table.base_path, times[:-1]) == before
    optimized = {"hoodie.optimized.log.blocks.scan.enable": "true"}
    names = ["id", "ts", "_hoodie_commit_time"]
    plain, other = (hudi.read(table.base_path, options).select(names).to_pylist() for options in ({}, optimized))
    assert sorted(plain, key=str) == sorted(other, key=str)
    table.by(hudi, "upsert", some(hudi, range(9, 18), 500, 4))
    table.by_hoodie("upsert", some(hudi, range(1, 4), 600, 5))
    table.by(hudi, "delete", some(hudi, range(2, 24, 6), 0))
    table.check(hudi)
    with local_client(table.base_path, THREE) as client:
        assert client.log_compact() is not None
    table.check(hudi)
    hudi.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{table.base_path}', options => '{COMPACTION}')")
    table.check(hudi)


def test_plans_of_one_are_carried_out_by_the_other(tmp_path: Path, hudi: HudiProcess) -> None:
    table = Table(tmp_path / "t", {}, "avro")
    table.by_hoodie("upsert", some(hudi, range(24), 100))
    table.by_hoodie("upsert", some(hudi, range(6), 200, 1))
    table.by(hudi, "upsert", some(hudi, range(3, 12), 300, 2))
    table.by_hoodie("delete", some(hudi, range(0, 24, 5), 0))
    with local_client(table.base_path, THREE) as client:
        planned = client.schedule_log_compaction()
    assert pending(table.base_path) == [planned]
    table.by(hudi, "upsert", some(hudi, range(9, 15), 400, 3), INLINE)
    assert planned in log_compactions(table.base_path)
    assert pending(table.base_path) == []
    table.check(hudi)
    for number in range(3):
        table.by_hoodie("upsert", some(hudi, range(number, 20), 500 + number, 4 + number))
    of_hudi = hudi.schedule_log_compaction(table.base_path, THREE)
    assert pending(table.base_path) == [of_hudi]
    with local_client(table.base_path, THREE) as client:
        result = client.log_compact()
    assert result is not None
    assert (result.instant_time, result.statuses != ()) == (of_hudi, True)
    table.check(hudi)
    table.by(hudi, "upsert", some(hudi, range(8, 30), 800, 7))
    table.by_hoodie("delete", some(hudi, range(0, 30, 7), 0))
    with local_client(table.base_path, THREE) as client:
        assert client.compact() is not None
    table.check(hudi)
