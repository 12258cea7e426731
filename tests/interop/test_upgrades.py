"""Upgrades and downgrades by hoodie and by real Hudi, in turn: 1.2.0 and 0.15.0 read the tables and write to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.timeline_listing import UPGRADE_FILE_NAME
from hoodie.exception import HoodieIOException
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.make_later_tables import CLUSTERING, OPTIONS, plain_rows, rows
from tests.support.table_builder import local_client
from tests.unit.test_tables_of_real_hudi import in_order, read_by_hudi_rs, user_rows

pytestmark = pytest.mark.interop

OF_6 = {key: value for key, value in OPTIONS.items() if key != "hoodie.table.timeline.timezone"}
"""Without a time zone: tables of 0.15.0 have another one than those of hoodie, on a machine whose zone is UTC."""


COMPLETED = (".commit", ".replacecommit", ".clean")


def of_version(version: int) -> dict[str, str]:
    """Options of a write by 1.2.0 to a table that has this version."""
    return {**OF_6, "hoodie.write.table.version": str(version)}


def write(
    hudi: HudiProcess, base_path: Path, table: pa.Table, options: Mapping[str, str], operation: str = "upsert"
) -> None:
    mode = "append" if base_path.exists() else "overwrite"
    standing = hudi.version == "0.15.0"
    hudi.write(base_path, table, options, operation=operation, mode=mode, standing_options=standing)


def fill(put: Callable[[pa.Table, str], None]) -> None:
    """As many commits as it takes for an archive, a replacement of a partition among them."""
    put(rows(range(20), 1), "insert")
    put(rows(range(5, 25), 2), "upsert")
    put(rows(range(1, 9, 2), 3), "insert_overwrite")
    for number in range(6):
        put(rows([number * 2 + 6, 40 + number], 4 + number), "upsert")


def made_by_hudi(hudi: HudiProcess, base_path: Path, options: Mapping[str, str]) -> None:
    fill(lambda table, operation: write(hudi, base_path, table, options, operation))


def made_by_hoodie(base_path: Path, version: int) -> None:
    HoodieTableMetaClient.init_table(
        str(base_path), table_name="trips", record_key_fields="id", partition_fields="region", ordering_fields="ts",
        table_version=version,
    )  # fmt: skip
    options = {key: value for key, value in OPTIONS.items() if key.startswith(("hoodie.keep", "hoodie.cleaner"))}
    with local_client(base_path, options) as client:
        fill(lambda table, operation: getattr(client, operation)(table))


def version_of(base_path: Path) -> int:
    return HoodieTableMetaClient.load(str(base_path)).table_config.table_version


def history_of(base_path: Path) -> list[tuple[str, str]]:
    """The completed instants, archived and active ones."""
    client = HoodieTableMetaClient.load(str(base_path))
    both = (*client.archived_timeline, *client.active_timeline)
    return sorted({(instant.requested_time, str(instant.action)) for instant in both if instant.is_completed})


def ours(base_path: Path) -> list[object]:
    return list(plain_rows(hoodie.read_table(str(base_path))))


def assert_all_read(base_path: Path, expected: list[object], *readers: HudiProcess) -> None:
    assert ours(base_path) == expected
    assert in_order(read_by_hudi_rs(base_path)) == in_order(user_rows(hoodie.read_table(str(base_path))))
    for hudi in readers:
        assert list(plain_rows(hudi.read(base_path))) == expected, hudi.version


def assert_goes_on(hudi: HudiProcess, base_path: Path, options: Mapping[str, str], ts: int = 100) -> None:
    """Real Hudi changes and adds rows, and then hoodie; both are read by all."""
    version = version_of(base_path)
    write(hudi, base_path, rows([7, 90], ts), options)
    assert version_of(base_path) == version
    found = {row["id"]: row["ts"] for row in hoodie.read_table(str(base_path)).to_pylist()}
    assert found["k07"] == found["k90"] == ts
    with local_client(base_path) as client:
        client.upsert(rows([7, 91], ts + 1))
    expected = ours(base_path)
    assert sum(row[4] == ts + 1 for row in expected) == 2  # type: ignore[index]
    assert_all_read(base_path, expected, hudi)


def assert_history_in_hudi(hudi: HudiProcess, base_path: Path) -> None:
    """Real Hudi sees the same archived and active instants."""
    found = hudi.instants(base_path)
    client = HoodieTableMetaClient.load(str(base_path))
    for timeline, instants in (("active", client.active_timeline), ("archived", client.archived_timeline)):
        completed = {(i.requested_time, str(i.action)) for i in instants if i.is_completed}
        assert set(found[timeline]) >= completed, timeline
        assert completed


@pytest.mark.interop_smoke
@pytest.mark.parametrize("maker", ["hoodie", "0.15.0"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_table_that_hoodie_upgraded_is_read_and_written_by_1_2(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, maker: str, version: int
) -> None:
    base_path = tmp_path / "t"
    if maker == "hoodie":
        made_by_hoodie(base_path, 6)
    else:
        made_by_hudi(hudi_0_15, base_path, OF_6)
    expected, history = ours(base_path), history_of(base_path)
    change = HoodieTableMetaClient.upgrade(str(base_path), version)
    assert change.archived_instants > 2
    assert_all_read(base_path, expected, hudi_1_2)
    assert history_of(base_path) == history
    assert_history_in_hudi(hudi_1_2, base_path)
    assert_goes_on(hudi_1_2, base_path, of_version(version))
    for number in range(5):
        write(hudi_1_2, base_path, rows([number], 200 + number), of_version(version))
    assert_all_read(base_path, ours(base_path), hudi_1_2)


@pytest.mark.interop_smoke
@pytest.mark.parametrize("maker", ["hoodie", "1.2.0"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_table_that_hoodie_downgraded_is_read_and_written_by_0_15(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, maker: str, version: int
) -> None:
    base_path = tmp_path / "t"
    if maker == "hoodie":
        made_by_hoodie(base_path, version)
    else:
        made_by_hudi(hudi_1_2, base_path, {**of_version(version), "hoodie.metadata.enable": "true"})
        write(hudi_1_2, base_path, rows([30], 20), {**of_version(version), **CLUSTERING})
    expected, history = ours(base_path), history_of(base_path)
    change = HoodieTableMetaClient.downgrade(str(base_path))
    assert change.archived_instants > 2 or maker == "hoodie"
    assert_all_read(base_path, expected, hudi_0_15, hudi_1_2)
    assert history_of(base_path) == history
    assert_goes_on(hudi_0_15, base_path, OF_6)
    for number in range(5):
        write(hudi_0_15, base_path, rows([number], 200 + number), OF_6)
    assert_all_read(base_path, ours(base_path), hudi_0_15, hudi_1_2)


def test_a_table_that_1_2_upgraded_is_downgraded_by_hoodie(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess
) -> None:
    base_path = tmp_path / "t"
    made_by_hudi(hudi_0_15, base_path, OF_6)
    write(hudi_1_2, base_path, rows([60], 30), {**OF_6, "hoodie.write.auto.upgrade": "true"})
    assert version_of(base_path) == 9
    expected, history = ours(base_path), history_of(base_path)
    HoodieTableMetaClient.downgrade(str(base_path))
    assert history_of(base_path) == history
    assert_all_read(base_path, expected, hudi_0_15, hudi_1_2)
    assert_goes_on(hudi_0_15, base_path, OF_6)


def test_a_table_that_1_2_downgraded_is_upgraded_by_hoodie(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    base_path = tmp_path / "t"
    made_by_hudi(hudi_1_2, base_path, of_version(9))
    expected = ours(base_path)
    hudi_1_2.sql(f"CREATE TABLE to_go_down USING hudi LOCATION '{base_path}'")
    try:
        hudi_1_2.sql("CALL downgrade_table(table => 'to_go_down', to_version => 'SIX')")
        assert version_of(base_path) == 6
        history = history_of(base_path)
        HoodieTableMetaClient.upgrade(str(base_path))
        assert version_of(base_path) == 9
        assert history_of(base_path) == history
        assert_all_read(base_path, expected, hudi_1_2)
        assert_goes_on(hudi_1_2, base_path, of_version(9))
    finally:
        hudi_1_2.sql("DROP TABLE to_go_down")


def test_a_table_whose_upgrade_died_is_read_and_written_by_all(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess
) -> None:
    """Before the switch: the files of the new timeline are there, and nobody minds them."""
    base_path, upgraded = tmp_path / "t", tmp_path / "upgraded"
    made_by_hoodie(base_path, 6)
    shutil.copytree(base_path, upgraded)
    HoodieTableMetaClient.upgrade(str(upgraded))
    shutil.copytree(upgraded / ".hoodie/timeline", base_path / ".hoodie/timeline")
    (base_path / ".hoodie/timeline" / UPGRADE_FILE_NAME).write_bytes(b"{}")
    assert_all_read(base_path, ours(base_path), hudi_0_15, hudi_1_2)
    assert_goes_on(hudi_0_15, base_path, OF_6)
    expected = ours(base_path)
    assert HoodieTableMetaClient.upgrade(str(base_path)).finished_earlier_run
    assert_all_read(base_path, expected, hudi_1_2)
    assert_goes_on(hudi_1_2, base_path, of_version(9), ts=200)


def test_a_table_whose_upgrade_died_after_the_switch_is_read_and_written_by_all(
    tmp_path: Path, hudi_1_2: HudiProcess
) -> None:
    """The files of the old timeline are still there, and the announcement."""
    base_path, old = tmp_path / "t", tmp_path / "old"
    made_by_hoodie(base_path, 6)
    shutil.copytree(base_path, old)
    HoodieTableMetaClient.upgrade(str(base_path))
    for path in (old / ".hoodie").glob("2*"):
        shutil.copy(path, base_path / ".hoodie")
    (base_path / ".hoodie/timeline" / UPGRADE_FILE_NAME).write_bytes(b"{}")
    assert_all_read(base_path, ours(base_path), hudi_1_2)
    assert_goes_on(hudi_1_2, base_path, of_version(9))
    expected = ours(base_path)
    assert HoodieTableMetaClient.upgrade(str(base_path)).finished_earlier_run
    assert_all_read(base_path, expected, hudi_1_2)


def test_an_upgrade_by_1_2_over_one_of_hoodie_that_died_loses_no_commit(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    """Hudi moves some commits, and stops at a file that is there; docs/upgrading.md says what to do then."""
    base_path, upgraded = tmp_path / "t", tmp_path / "upgraded"
    made_by_hoodie(base_path, 6)
    expected = ours(base_path)
    shutil.copytree(base_path, upgraded)
    HoodieTableMetaClient.upgrade(str(upgraded))
    folder = base_path / ".hoodie/timeline"
    shutil.copytree(upgraded / ".hoodie/timeline", folder)
    (folder / UPGRADE_FILE_NAME).write_bytes(b"{}")
    upgrading = {**OF_6, "hoodie.write.auto.upgrade": "true"}
    with pytest.raises(HudiError):
        write(hudi_1_2, base_path, rows([7, 90], 100), upgrading)
    for act in (lambda: ours(base_path), lambda: HoodieTableMetaClient.upgrade(str(base_path))):
        with pytest.raises(HoodieIOException, match="let it finish"):
            act()
    done = {path.name[:17] for path in (base_path / ".hoodie").glob("2*") if path.suffix in COMPLETED}
    for path in folder.glob("2*"):
        if path.name[:17] in done:
            path.unlink()
    shutil.rmtree(folder / "history")
    (folder / UPGRADE_FILE_NAME).unlink()
    write(hudi_1_2, base_path, rows([7, 90], 100), upgrading)
    assert version_of(base_path) == 9
    found = ours(base_path)
    assert len(found) == len(expected) + 1
    assert_all_read(base_path, found, hudi_1_2)
