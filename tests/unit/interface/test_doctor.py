"""The findings of `hoodie.Table.doctor`."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.cli.main import SECTIONS
from hoodie.common.table.table_meta_client import HoodieTableMetaClient

ROWS = pa.table({"id": ["a", "b"], "city": ["oslo", "rome"], "ts": [1, 1]})
MakeTable = Callable[..., Table]


@pytest.fixture(params=list(HoodieTableType))
def table(request: pytest.FixtureRequest, tmp_path: Path, table_version: int) -> Table:
    """A table of two rows, of both types."""
    return Table.create(
        tmp_path / "trips", ROWS, record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=request.param, table_version=table_version,
        properties={"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"},
    )  # fmt: skip


def kinds(table: Table, deep: bool = False) -> list[str]:
    """The kinds of the findings."""
    return [finding.kind for finding in table.doctor(deep=deep).findings]


def leave_a_write(table: Table, **properties: str) -> str:
    """The instant of a write that is never completed."""
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.auto.commit": "false", **properties})
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert(ROWS, left)
    return left


def test_a_table_in_good_health_has_no_finding(table: Table) -> None:
    table.upsert(ROWS)
    found = table.doctor(deep=True)
    assert found.is_healthy
    assert repr(found) == f"0 findings about {table.path}"
    assert "deep=True" in repr(table.doctor())


def test_a_write_that_died_is_named_and_its_remedy_repairs_it(table: Table) -> None:
    left = leave_a_write(table)
    (finding,) = table.doctor().findings
    assert (finding.kind, left in finding.problem) == ("pending", True)
    assert f"rollback('{left}')" in finding.remedy
    table.rollback(left)
    assert table.doctor(deep=True).is_healthy


def test_a_write_with_a_living_heartbeat_is_no_finding(table: Table) -> None:
    lazy = {"hoodie.auto.commit": "false", "hoodie.cleaner.policy.failed.writes": "LAZY"}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table.path, lazy)) as client:
        started = client.start_commit()
        assert table.doctor().is_healthy
        heartbeat = Path(HoodieTableMetaClient.load(table.path).heartbeat_path(started))
        then = time.time() - 3600
        os.utime(heartbeat, (then, then))
        assert kinds(Table(table.path)) == ["pending"]
        client.rollback(started)
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(b"")
    os.utime(heartbeat, (then, then))
    assert kinds(table) == ["heartbeat"]
    table.rollback()
    assert table.doctor().is_healthy


def test_lagging_services_are_named_and_their_remedies_repair_them(table: Table) -> None:
    lag = Table(table.path, properties={
        "hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
        "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.compact.inline": "false",
    })  # fmt: skip
    for number in range(11):
        lag.update(set={"ts": number + 2})
    is_merge_on_read = lag.describe().table_type == "MERGE_ON_READ"
    assert kinds(lag) == (["log files"] if is_merge_on_read else []) + ["cleaning", "archiving"]
    problems = " ".join(finding.problem for finding in lag.doctor().findings)
    assert ("of more than 10 log files each" in problems) == is_merge_on_read
    assert "12 commits since the last clean" in problems
    lag.compact()
    lag.upsert(ROWS.set_column(2, "ts", pa.array([50, 50])))
    lag.clean()
    assert kinds(lag) == ["archiving"]
    lag.archive()
    assert lag.doctor(deep=True).is_healthy


def test_partitions_of_many_small_files_are_named(table: Table) -> None:
    for number in range(4):
        table.bulk_insert(pa.table({"id": [f"n{number}"], "city": ["oslo"], "ts": [1]}))
    (finding,) = table.doctor().findings
    assert finding.kind == "small files"
    assert "the most 5 in 'oslo'" in finding.problem
    assert Table(table.path, properties={"hoodie.parquet.small.file.limit": "0"}).doctor().is_healthy


def test_a_file_that_no_commit_explains_is_named_when_all_files_are_listed(table: Table) -> None:
    oslo = Path(table.path, "oslo")
    written = next(oslo.glob("*.parquet"))
    orphan = oslo / written.name.replace(table.history()[-1].instant_time, "20260101000000000")
    orphan.write_bytes(written.read_bytes())
    assert kinds(table) == []
    assert "orphans" in kinds(table, deep=True)


def test_a_bad_metadata_file_of_a_partition_is_named(table: Table) -> None:
    Path(table.path, "oslo", ".hoodie_partition_metadata").unlink()
    assert "partition metadata" in kinds(table, deep=True)


@pytest.mark.table_version(9)
def test_a_metadata_table_that_lies_is_named(table: Table) -> None:
    oslo = Path(table.path, "oslo")
    next(oslo.glob("*.parquet")).rename(oslo / "gone")
    found = {finding.kind: finding for finding in table.doctor(deep=True).findings}
    assert "its partition files" in found["metadata table"].problem


def test_properties_that_cannot_be_read_are_named(table: Table) -> None:
    stored = Path(table.path, ".hoodie", "hoodie.properties")
    backup = stored.with_name("hoodie.properties.backup")
    backup.write_bytes(stored.read_bytes())
    stored.write_bytes(b"hoodie.table.name")
    assert kinds(table)[0] == "properties"
    backup.unlink(missing_ok=True)
    stored.write_bytes(b"hoodie.table.name")
    (finding,) = table.doctor().findings
    assert (finding.kind, "repair('properties')" in finding.remedy) == ("properties", True)


def test_a_backup_of_properties_that_differs_is_named(table: Table) -> None:
    stored = Path(table.path, ".hoodie", "hoodie.properties")
    backup = stored.with_name("hoodie.properties.backup")
    backup.write_bytes(stored.read_bytes())
    assert table.doctor().is_healthy
    backup.write_bytes(b"my.owner=ann\n" + stored.read_bytes())
    (finding,) = table.doctor().findings
    assert (finding.kind, "changed my.owner" in finding.problem) == ("properties", True)
    table.set_properties({"my.owner": "bob"})
    assert table.doctor().is_healthy and not backup.exists()


def test_a_lock_of_a_dead_holder_and_an_old_one_are_named(table: Table) -> None:
    path = Path(table.path, ".hoodie", "lock")
    path.write_text("of Java")
    assert table.doctor().is_healthy
    then = time.time() - 7200
    os.utime(path, (then, then))
    (finding,) = table.doctor().findings
    assert finding.kind == "lock" and "s old, held by a writer that is not hoodie" in finding.problem
    assert finding.command == f"hoodie locks {table.path} --break"
    path.unlink()
    lease = Path(table.path, ".hoodie", ".locks", "table_lock.json")
    lease.parent.mkdir(exist_ok=True)
    lease.write_text('{"expired":false,"validUntil":1000,"owner":"of Java"}')
    (finding,) = table.doctor().findings
    assert "is dead: of Java" in finding.problem
    assert table.break_lock(next(lock for lock in table.locks() if lock.version))
    assert table.doctor().is_healthy


@pytest.mark.parametrize("damage", [b"", b"Obj\x01 no more", b"[1]"], ids=["empty", "Avro", "JSON"])
def test_an_instant_that_cannot_be_read_is_named(table: Table, damage: bytes) -> None:
    first = table.history()[0].instant_time
    table.upsert(ROWS.set_column(2, "ts", pa.array([2, 2])))
    newest = table.history()[0].instant_time
    folder = Path(table.path, ".hoodie")
    (path,) = (path for path in [*folder.glob(f"{newest}*commit"), *folder.glob(f"timeline/{newest}*commit")])
    kept = path.read_bytes()
    path.write_bytes(damage)
    findings = table.doctor().findings
    assert findings[0].kind == "timeline" and newest in findings[0].problem
    assert findings[0].command == f"hoodie restore {table.path} {first}"
    path.write_bytes(kept)
    assert table.doctor().is_healthy


def test_what_a_pending_compaction_holds_up_is_told(table: Table) -> None:
    if table.describe().table_type == "COPY_ON_WRITE":
        return
    table.upsert(ROWS.set_column(2, "ts", pa.array([2, 2])))
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.compact.inline.max.delta.commits": "1"})
    with HoodieLocalWriteClient(config) as client:
        planned = client.schedule_compaction()
    (finding,) = table.doctor().findings
    assert str(planned) in finding.problem and "nothing newer is archived" in finding.problem
    assert finding.command == f"hoodie compact {table.path}"
    table.compact()
    assert table.doctor().is_healthy


def test_each_finding_names_a_command_that_exists(tmp_path: Path, table_version: int) -> None:
    table = Table.create(tmp_path / "my trips", ROWS, record_key_fields="id", table_version=table_version)
    for number in range(4):
        table.bulk_insert(ROWS.slice(0, 1).set_column(0, "id", pa.array([f"n{number}"])))
    left = leave_a_write(table)
    properties = Path(table.path, ".hoodie", "hoodie.properties")
    properties.rename(properties.with_name("hoodie.properties.backup"))
    findings = table.doctor().findings
    assert [finding.kind for finding in findings] == ["properties", "pending", "small files"]
    commands = {entry.name for made in SECTIONS.values() for entry in made}
    for finding in findings:
        program, name, path, *_ = shlex.split(finding.command)
        assert (program, path) == ("hoodie", table.path) and name in commands
    assert findings[1].command.endswith(left)
