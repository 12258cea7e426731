"""Merge-on-read tables with log files that hoodie or real Hudi upgrades and downgrades: the other reads, appends to and
compacts them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import rows_of
from tests.interop.test_delta_commits import INDEXES, SCHEMA, Table, made
from tests.support.table_builder import local_client

pytestmark = pytest.mark.interop

COMPACT = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"


def with_log_files(base_path: Path, index: str, hudi: HudiProcess) -> Table:
    """A table whose log files are of hoodie and of real Hudi, with deletes, a compaction and a failed write."""
    table = Table(base_path, INDEXES[index], "avro")
    table.by_hoodie("upsert", made(range(24), 100))
    table.by_hoodie("upsert", [*made(range(6), 200, 1), *made(range(6, 9), 50, 1)])
    table.by(hudi, "upsert", made(range(3, 12), 300, 2))
    with local_client(base_path, table.options) as client:
        client.compact()
    table.by_hoodie("delete", made(range(0, 24, 5), 0))
    with local_client(base_path, {**table.options, "hoodie.auto.commit": "false"}) as client:
        client.rollback(client.upsert(table.model.table(made(range(5), 900, 9))).instant_time)
    table.by(hudi, "upsert", made(range(8, 14), 400, 3))
    table.by_hoodie("upsert", [*made(range(10, 16), 500, 4), *made(range(24, 30), 500, 4)])
    table.check(hudi)
    return table


def goes_on(table: Table, hudi: HudiProcess) -> None:
    """hoodie and real Hudi append, compact, clean and read."""
    table.by(hudi, "upsert", made(range(2, 10), 600, 5))
    table.by_hoodie("upsert", [*made(range(5, 12), 700, 6), *made(range(30, 33), 700, 6)])
    table.by(hudi, "delete", made(range(1, 30, 10), 0))
    table.check(hudi)
    hudi.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{table.base_path}', options => '{COMPACT}')")
    table.check(hudi)
    table.by_hoodie("upsert", made(range(4, 20), 800, 7))
    with local_client(table.base_path, {**table.options, "hoodie.cleaner.commits.retained": "1"}) as client:
        client.compact()
        client.clean()
    table.check(hudi)
    table.by(hudi, "upsert", made(range(6, 36), 900, 8))
    table.check(hudi)


def past_of(base_path: Path, hudi: HudiProcess) -> dict[str, tuple[object, object]]:
    """The rows as of each commit, by hoodie and by real Hudi."""
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    times = [instant.requested_time for instant in timeline.completed_writes()]
    by_hudi = hudi.read_each(base_path, [{"as.of.instant": time} for time in times])
    return {
        time: (
            rows_of(hoodie.read_table(str(base_path), as_of=time), SCHEMA),
            str(told) if isinstance(told, Exception) else rows_of(told, SCHEMA),
        )
        for time, told in zip(times, by_hudi, strict=True)
    }


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("version", [8, 9])
def test_a_table_that_hoodie_upgraded_is_read_appended_to_and_compacted_by_1_2(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, index: str, version: int
) -> None:
    table = with_log_files(tmp_path / "t", index, hudi_0_15)
    before = past_of(table.base_path, hudi_0_15)
    assert HoodieTableMetaClient.upgrade(str(table.base_path), version).compacted_file_groups
    hudi = hudi_1_2.for_tables_of(version)
    table.check(hudi)
    after = past_of(table.base_path, hudi)
    assert {time: rows[0] for time, rows in before.items()}.items() <= {t: rows[0] for t, rows in after.items()}.items()
    assert {time: after[time][1] for time in before} == {time: rows[0] for time, rows in before.items()}
    goes_on(table, hudi)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_a_table_that_hoodie_downgraded_is_read_appended_to_and_compacted_by_0_15(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, index: str, table_version: int
) -> None:
    hudi = hudi_1_2.for_tables_of(table_version)
    table = with_log_files(tmp_path / "t", index, hudi)
    before = past_of(table.base_path, hudi)
    assert HoodieTableMetaClient.downgrade(str(table.base_path)).compacted_file_groups
    table.check(hudi_0_15)
    after = past_of(table.base_path, hudi_0_15)
    assert {time: rows[0] for time, rows in before.items()}.items() <= {t: rows[0] for t, rows in after.items()}.items()
    # docs/upgrading.md: 0.15.0 takes each log file for a slice of its own.
    assert any(after[time][1] != rows[0] for time, rows in before.items())
    goes_on(table, hudi_0_15)


def test_a_table_that_1_2_upgraded_and_downgraded_is_read_and_appended_to_by_hoodie(
    tmp_path: Path, hudi_1_2: HudiProcess
) -> None:
    table = Table(tmp_path / "t", {}, "avro")
    table.by_hoodie("upsert", made(range(12), 100))
    table.by_hoodie("upsert", made(range(6), 200, 1))
    hudi = hudi_1_2.for_tables_of(9)
    table.options["hoodie.write.auto.upgrade"] = "true"
    table.by(hudi, "upsert", made(range(3, 8), 300, 2))
    del table.options["hoodie.write.auto.upgrade"]
    assert HoodieTableMetaClient.load(str(table.base_path)).table_config.table_version == 9
    table.check(hudi)
    table.by_hoodie("upsert", made(range(5, 14), 400, 3))
    table.check(hudi)
    hudi.sql(f"CREATE TABLE to_go_down_mor USING hudi LOCATION '{table.base_path}'")
    try:
        hudi.sql("CALL downgrade_table(table => 'to_go_down_mor', to_version => 'SIX')")
    finally:
        hudi.sql("DROP TABLE to_go_down_mor")
    assert HoodieTableMetaClient.load(str(table.base_path)).table_config.table_version == 6
    table.check()
    table.by_hoodie("upsert", made(range(7, 16), 500, 4))
    table.check(hudi.for_tables_of(6))
    assert HoodieTableMetaClient.upgrade(str(table.base_path)).compacted_file_groups
    table.check(hudi.for_tables_of(9))
