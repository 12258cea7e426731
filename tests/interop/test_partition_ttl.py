"""Partitions that expire: by hoodie beside real Hudi 1.2.0, which has the same options, and where it does otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.clustering_plans import requested_replacement
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieIndexException
from hoodie.metadata import validate
from hoodie.table.action.ttl.partition_expiry import PartitionExpiry
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE
from tests.interop.table_with_metadata import OFF, WITH, TableWithMetadata
from tests.interop.test_replace_and_restore import both
from tests.support.moved_clock import days_ago
from tests.support.table_builder import local_client, rows

pytestmark = [pytest.mark.interop, pytest.mark.with_merge_on_read]

RETAIN = "hoodie.partition.ttl.strategy.days.retain"
TYPE = "hoodie.partition.ttl.management.strategy.type"
INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.embed.timeline.server": "true",
}
AGES = {"north": 40, "south": 12, "east": 3, "west": 0}


def write(base_path: Path, days: float, *entries: tuple[Any, ...], **properties: Any) -> None:
    with days_ago(days), local_client(base_path, properties) as client:
        client.insert(rows(*entries))


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    """Four partitions of different ages."""
    path = tmp_path / "trips"
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **SIMPLE.init_arguments())
    for region, days in AGES.items():
        write(path, days, (region[0], region, 1, 1.0), (f"{region[0]}2", region, 1, 1.0))
    return path


def ours(base_path: Path, retain: int, *, dry_run: bool = True, **properties: Any) -> PartitionExpiry:
    with local_client(base_path, {RETAIN: retain, **properties}) as client:
        return client.expire_partitions(dry_run)


@contextmanager
def named(hudi: HudiProcess, base_path: Path) -> Iterator[str]:
    """The table in Hudi's catalog."""
    for name, value in hudi.standing_options().items():
        hudi.sql(f"SET {name}={value}")
    hudi.sql(f"CREATE TABLE to_expire USING hudi LOCATION '{base_path}'")
    try:
        yield "to_expire"
    finally:
        hudi.sql("DROP TABLE to_expire")


def regions(hudi: HudiProcess, base_path: Path) -> set[str]:
    return {row["region"] for row in hudi.read(base_path).to_pylist()}


def theirs(hudi: HudiProcess, base_path: Path, retain: int, policy: str = "KEEP_BY_TIME") -> set[str]:
    """The partitions that real Hudi deletes from a copy of the table."""
    copy = base_path.with_name(f"copy_{policy}_{retain}")
    shutil.copytree(base_path, copy)
    found: Sequence[Sequence[str]] = []
    with named(hudi, copy) as name:
        try:
            found = hudi.sql(f"CALL run_ttl(table => '{name}', ttl_policy => '{policy}', retain_days => {retain})")
        except HudiError as error:
            # So the procedure ends where it deletes nothing.
            assert ".replacecommit.inflight does not exist" in str(error)
    gone = regions(hudi, base_path) - regions(hudi, copy)
    assert not gone or gone == {path for row in found for path in str(row[0]).split(",")}
    return gone


@pytest.mark.interop_smoke(9)
def test_real_hudi_reads_and_goes_on_after_our_expiry(hudi: HudiProcess, base_path: Path) -> None:
    done = ours(base_path, 10, dry_run=False)
    assert done.partition_paths == ["north", "south"]
    expected = [("e", "east", 1, 1.0), ("e2", "east", 1, 1.0), ("w", "west", 1, 1.0), ("w2", "west", 1, 1.0)]
    assert both(hudi, base_path) == expected
    options = SIMPLE.hudi_options("trips")
    hudi.write(base_path, rows(("n", "north", 5, 5.0), ("e", "east", 5, 5.0)), options)
    expected = [("e", "east", 5, 5.0), *expected[1:], ("n", "north", 5, 5.0)]
    assert both(hudi, base_path) == sorted(expected)
    local_client(base_path).upsert(rows(("n", "north", 6, 6.0)))
    assert both(hudi, base_path) == sorted([*expected[:-1], ("n", "north", 6, 6.0)])
    assert ours(base_path, 10).partitions == ()


@pytest.mark.table_versions(6, 8, 9)
def test_real_hudi_deletes_what_our_dry_run_names(hudi_1_2: HudiProcess, base_path: Path) -> None:
    # A partition that was renewed.
    with local_client(base_path) as client:
        client.insert_overwrite(rows(("n", "north", 7, 7.0)))
    write(base_path, 0, ("w3", "west", 1, 1.0))
    for retain in (2, 10, 20):
        assert set(ours(base_path, retain).partition_paths) == theirs(hudi_1_2, base_path, retain), retain
    by_creation = {TYPE: "KEEP_BY_CREATION_TIME"}
    for retain in (10, 20):
        found = ours(base_path, retain, **by_creation)
        assert set(found.partition_paths) == theirs(hudi_1_2, base_path, retain, "KEEP_BY_CREATION_TIME"), retain
    assert ours(base_path, 20, **by_creation).partition_paths == ["north"]


@pytest.mark.table_versions(8, 9)
def test_our_plan_is_that_of_real_hudi(hudi_1_2: HudiProcess, base_path: Path) -> None:
    copy = base_path.with_name("copy")
    shutil.copytree(base_path, copy)
    ours(base_path, 10, dry_run=False)
    with named(hudi_1_2, copy) as name:
        hudi_1_2.sql(f"CALL run_ttl(table => '{name}', retain_days => 10)")
    plans, commits = [], []
    for path in (base_path, copy):
        timeline = HoodieTableMetaClient.load(str(path)).active_timeline
        (instant,) = timeline.filter_actions(Action.REPLACE_COMMIT)
        metadata = timeline.read_commit_metadata(instant)
        plans.append(requested_replacement(timeline, instant))
        assert metadata.partition_to_write_stats == {}
        commits.append((metadata.operation_type, sorted(metadata.replaced_file_groups)))
    assert commits[0] == commits[1]
    assert plans[0] == plans[1]


@pytest.mark.table_versions(8, 9)
def test_metadata_tables_follow_expiries_of_both(tmp_path: Path, hudi: HudiProcess) -> None:
    """Every partition of the metadata table is right after an expiry of each, and both write on."""
    table = TableWithMetadata(tmp_path / "listed", hudi, **WITH, **INDEXES)
    north, south, west = SIMPLE.regions
    for days, number in ((40, 0), (12, 1), (0, 2)):
        with days_ago(days):
            table.by_hoodie(number, number + 3, number + 6)
    table.check()
    table.mark()
    assert ours(table.base_path, 20, dry_run=False, **OFF, **table.options).partition_paths == [north]
    table.note("delete_partition", [{"region": north}])
    table.check()
    assert regions(hudi, table.base_path) == {south, west}
    # Keys that were deleted come back, and the other partition is changed.
    table.by_hudi(0, 3, 2, 11)
    table.check()
    table.hudi.sql(f"CREATE TABLE to_expire USING hudi LOCATION '{table.base_path}'")
    try:
        table.call("run_ttl(table => 'to_expire', ttl_policy => 'KEEP_BY_TIME', retain_days => 10)")
    finally:
        table.hudi.sql("DROP TABLE to_expire")
    table.note("delete_partition", [{"region": south}])
    assert regions(hudi, table.base_path) == {north, west}
    if hudi.version == "1.2.0":
        # Its procedure leaves the keys in the record index. Its own upserts by the index fail then.
        left = validate(str(table.base_path)).differences
        assert [(one.partition, one.kind.value, one.name) for one in left] == [
            ("record_index", "unexpected", key) for key in ("k1", "k4", "k7")
        ]
        with table.client(index_type="RECORD_INDEX") as client, pytest.raises(HoodieIndexException, match="is wrong"):
            client.upsert(table.model.table(table.rows(1)))
        table.by_hoodie(2, metadata_record_index_enable="false", metadata_global_record_level_index_enable="false")
        table.by_hoodie(2)
    table.check()
    table.by_hoodie(1, 4, 0, operation="upsert")
    table.by_hudi(1, 7, 13)
    table.by_hoodie(3, operation="delete")
    table.check()
    table.validate_by_hudi()
    assert table.is_marked()
    assert ours(table.base_path, 10, **table.options).partitions == ()


# --- what Hudi 1.2.0 does otherwise -----------------------------------------------------------------------------------


@pytest.mark.table_versions(6, 9)
def test_days_overflow_in_real_hudi_only(hudi_1_2: HudiProcess, base_path: Path) -> None:
    write(base_path, 0, ("w3", "west", 1, 1.0))
    # 50 days are seven hours, and 25 keep everything.
    assert theirs(hudi_1_2, base_path, 50) == {"north", "south", "east"}
    assert ours(base_path, 50).partitions == ()
    assert theirs(hudi_1_2, base_path, 25) == set()
    assert ours(base_path, 25).partition_paths == ["north"]


@pytest.mark.table_versions(6, 9)
def test_log_files_renew_partitions_in_hoodie_only(hudi_1_2: HudiProcess, base_path: Path, table_type: str) -> None:
    with local_client(base_path) as client:
        client.upsert(rows(("s", "south", 2, 2.0), ("w", "west", 2, 2.0)))
    assert ours(base_path, 10).partition_paths == ["north"]
    expected = {"north", "south"} if table_type == "MERGE_ON_READ" else {"north"}
    assert theirs(hudi_1_2, base_path, 10) == expected


@pytest.mark.table_versions(6, 9)
def test_an_inline_run_of_real_hudi_leaves_an_instant_and_we_go_on(hudi_1_2: HudiProcess, base_path: Path) -> None:
    options = SIMPLE.hudi_options("trips")
    inline = {"hoodie.partition.ttl.inline": "true", RETAIN: "20"}
    hudi_1_2.write(base_path, rows(("w", "west", 3, 3.0)), {**options, **inline})
    expected = [
        ("e", "east", 1, 1.0), ("e2", "east", 1, 1.0), ("s", "south", 1, 1.0), ("s2", "south", 1, 1.0),
        ("w", "west", 3, 3.0), ("w2", "west", 1, 1.0),
    ]  # fmt: skip
    assert both(hudi_1_2, base_path) == expected
    hudi_1_2.write(base_path, rows(("w", "west", 4, 4.0)), {**options, **inline})
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    (left,) = timeline.filter_pending()
    assert (left.action, left.state.name) == (Action.REPLACE_COMMIT, "REQUESTED")
    # Ours takes that one back, and leaves none.
    with local_client(base_path, inline) as client:
        client.upsert(rows(("w", "west", 5, 5.0)))
    assert len(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending()) == 0
    assert both(hudi_1_2, base_path) == sorted([*expected[:4], ("w", "west", 5, 5.0), expected[5]])


@pytest.mark.table_versions(6, 9)
def test_one_pending_compaction_stops_the_run_of_real_hudi_only(
    hudi_1_2: HudiProcess, base_path: Path, table_type: str
) -> None:
    if table_type != "MERGE_ON_READ":
        pytest.skip("copy-on-write tables have no compactions")
    path = base_path.with_name("planned")
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **SIMPLE.init_arguments())
    write(path, 40, ("n", "north", 1, 1.0), ("s", "south", 1, 1.0), ("e", "east", 1, 1.0))
    with days_ago(39), local_client(path) as client:
        client.upsert(rows(("s", "south", 2, 2.0)))
    with days_ago(38), local_client(path) as client:
        assert client.schedule_compaction() is not None
    write(path, 0, ("w", "west", 1, 1.0))
    assert theirs(hudi_1_2, path, 10) == set()
    done = ours(path, 10, dry_run=False)
    assert (done.partition_paths, [one.partition_path for one in done.kept]) == (["east", "north"], ["south"])
    with local_client(path) as client:
        client.compact()
    assert theirs(hudi_1_2, path, 11) == {"south"}


@pytest.mark.table_versions(6, 9)
def test_compactions_renew_partitions_in_real_hudi_only(
    hudi_1_2: HudiProcess, base_path: Path, table_type: str
) -> None:
    if table_type != "MERGE_ON_READ":
        pytest.skip("copy-on-write tables have no compactions")
    path = base_path.with_name("compacted")
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **SIMPLE.init_arguments())
    write(path, 40, ("n", "north", 1, 1.0), ("s", "south", 1, 1.0))
    with days_ago(39), local_client(path) as client:
        client.upsert(rows(("s", "south", 2, 2.0)))
    write(path, 0, ("w", "west", 1, 1.0))
    with local_client(path) as client:
        assert client.compact() is not None
    assert theirs(hudi_1_2, path, 10) == {"north"}
    assert ours(path, 10).partition_paths == ["north", "south"]


@pytest.mark.table_versions(9)
def test_real_hudi_deletes_all_partitions_of_a_table(hudi_1_2: HudiProcess, base_path: Path) -> None:
    with local_client(base_path) as client:
        client.delete_partitions(["west"])
    by_creation = {TYPE: "KEEP_BY_CREATION_TIME"}
    write(base_path, 0, ("n3", "north", 1, 1.0), ("s3", "south", 1, 1.0))
    assert theirs(hudi_1_2, base_path, 2, "KEEP_BY_CREATION_TIME") == {"north", "south", "east"}
    assert ours(base_path, 2, **by_creation).refusal is not None
