"""One instant, the difference of two, and their export: `hoodie.Table.instant`, `diff`, `export`, `history`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["oslo", "rome", "rome"], "ts": [1, 1, 1]})
QUIET = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}
MakeTable = Callable[..., Table]


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> str:
    """Both types of tables."""
    return str(request.param)


@pytest.fixture
def table(tmp_path: Path, table_type: str, table_version: int) -> Table:
    """A table of three rows by one commit."""
    return Table.create(
        tmp_path / "trips", ROWS, record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=table_type, table_version=table_version, properties=QUIET,
    )  # fmt: skip


def one(key: str, city: str, ts: int) -> pa.Table:
    """One row."""
    return pa.table({"id": [key], "city": [city], "ts": [ts]})


def test_a_commit_is_shown_by_partition_and_by_file(table: Table) -> None:
    done = table.upsert(pa.concat_tables([one("b", "rome", 2), one("d", "rome", 2)]))
    (time,) = {entry.instant_time for entry in table.history(1)}
    assert time == done.instant_time
    found = table.instant(time)
    assert (found.state, found.operation, found.is_archived) == ("COMPLETED", "UPSERT", False)
    (rome,) = found.partitions
    assert (rome.partition_path, rome.rows_inserted, rome.rows_updated) == ("rome", 1, 1)
    assert rome.bytes_written == sum(file.size_bytes for file in found.files) > 0
    assert {file.previous_instant for file in found.files} <= {table.history()[1].instant_time, None}
    assert [column.name for column in found.columns] == ["id", "city", "ts"]
    assert "schema" not in found.extra_metadata
    assert set(found.contents) == {"REQUESTED", "INFLIGHT", "COMPLETED"}
    assert found.contents["COMPLETED"]["operationType"] == "UPSERT"
    by_partition, by_file = found.text(), found.text(by_file=True)
    assert "rome" in by_partition and "columns: id string, city string, ts int64" in by_partition
    assert str(found.files[0].file_name) in by_file and str(found.files[0].file_name) not in by_partition


def test_a_savepoint_is_told_from_its_commit(table: Table) -> None:
    saved = table.savepoint(user="ann", comment="before")
    assert table.instant(saved.instant_time).operation == "UPSERT"
    found = table.instant(saved.instant_time, "savepoint")
    assert found.contents["COMPLETED"]["savepointedBy"] == "ann"
    assert '"savepointedBy": "ann"' in found.text()


def test_an_instant_that_is_not_there_is_named(table: Table) -> None:
    with pytest.raises(HoodieConfigException, match=r"no instant '20200101000000000'.*history\(archived=True\)"):
        table.instant("20200101000000000")
    with pytest.raises(HoodieConfigException, match="give one of commit"):
        table.instant("20200101000000000", "wonder")


def test_a_pending_write_and_its_plan_are_shown(table: Table) -> None:
    config = HoodieWriteConfig.from_properties(table.path, {"hoodie.auto.commit": "false", **QUIET})
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert(one("a", "oslo", 5), left)
        (pending,) = table.history(pending=True)
        assert (pending.instant_time, pending.state) == (left, "INFLIGHT")
        found = table.instant(left)
        assert (found.state, found.operation, found.completion_time) == ("INFLIGHT", None, None)
        assert "INFLIGHT" in found.contents and "COMPLETED" not in found.contents
        assert '"operationType"' in found.text()


def test_a_clean_has_a_plan_and_what_it_did(table: Table) -> None:
    for ts in range(2, 5):
        table.upsert(one("b", "rome", ts))
        table.compact()
    cleaned = Table(table.path, properties={"hoodie.clean.commits.retained": "1"}).clean()
    assert cleaned.instant_time is not None
    found = table.instant(cleaned.instant_time)
    assert found.contents["REQUESTED"]["policy"] == "KEEP_LATEST_COMMITS"
    assert found.contents["COMPLETED"]["totalFilesDeleted"] == cleaned.files > 0
    assert "REQUESTED: {" in found.text() and "COMPLETED: {" in found.text()


def test_archived_instants_are_shown_too(table: Table, tmp_path: Path) -> None:
    for ts in range(2, 9):
        table.upsert(one("b", "rome", ts))
    before = [entry.instant_time for entry in table.history()]
    narrow = {
        "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1", **QUIET
    }  # fmt: skip
    archiving = Table(table.path, properties=narrow)
    archiving.compact()
    archiving.clean()
    assert archiving.archive().count > 0
    kept = {entry.instant_time for entry in table.history()}
    gone = [time for time in before if time not in kept]
    assert gone
    every = table.history(archived=True)
    times = [entry.instant_time for entry in every]
    assert times == sorted(times, reverse=True)
    assert set(before) <= set(times) and len({(entry.instant_time, entry.action) for entry in every}) == len(every)
    assert next(entry for entry in every if entry.instant_time == gone[0]).rows_updated == 1
    assert [entry.instant_time for entry in table.history(3, archived=True)] == times[:3]
    found = table.instant(gone[0])
    assert found.is_archived and found.operation == "UPSERT" and found.files
    assert found.text().endswith("int64") and ", archived" in found.text()
    active, all_of_them = table.export(tmp_path / "active"), table.export(tmp_path / "all", archived=True)
    assert active.count == len(list((tmp_path / "active").iterdir())) == len(table.history())
    assert all_of_them.count == len(list((tmp_path / "all").iterdir())) == len(every)
    stored = json.loads((tmp_path / "all" / f"{gone[0]}.{found.action}.json").read_text())
    assert (stored["is_archived"], stored["state"]) == (True, "COMPLETED")
    difference = table.diff(before[-1], times[0])
    assert set(gone) - {before[-1]} <= set(difference.commits)


def test_the_difference_of_two_instants_is_by_file_group(table: Table) -> None:
    first = table.history()[0].instant_time
    table.upsert(one("b", "rome", 2))
    second = table.upsert(one("b", "rome", 3)).instant_time
    third = table.upsert(one("e", "bern", 3)).instant_time
    fourth = table.delete_partitions(["oslo", "bern"]).instant_time
    (rome,) = table.diff(first, second).file_groups
    assert (rome.partition_path, rome.change, rome.commits, rome.rows_updated) == ("rome", "changed", 2, 2)
    assert (rome.after, rome.rows_inserted) == (second, 0)
    assert rome.before is not None and rome.before <= second
    assert [(group.partition_path, group.change) for group in table.diff(second, third).file_groups] == [
        ("bern", "added")
    ]
    found = table.diff(first, fourth)
    assert [(group.partition_path, group.change) for group in found.file_groups] == [
        ("bern", "passed"), ("oslo", "removed"), ("rome", "changed"),
    ]  # fmt: skip
    assert found.commits == tuple(entry.instant_time for entry in table.history())[-2::-1]
    assert "4 commits, 3 file groups" in repr(found)
    assert table.diff(fourth, fourth).file_groups == ()
    for since, until in ((second, first), ("monday", second)):
        with pytest.raises(HoodieConfigException, match="the older one first"):
            table.diff(since, until)


def test_a_damaged_file_is_named(table: Table) -> None:
    table.upsert(one("b", "rome", 2))
    time = table.history()[0].instant_time
    (path,) = (found for found in Path(table.path, ".hoodie").rglob(f"{time}*commit") if "metadata" not in found.parts)
    path.write_bytes(b"Obj\x01 no more")
    with pytest.raises(HoodieCorruptedDataException, match=time):
        table.instant(time)
    path.write_bytes(b"[1]")
    with pytest.raises(HoodieCorruptedDataException, match="no object"):
        table.instant(time)
