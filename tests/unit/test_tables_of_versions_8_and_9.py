"""Copy-on-write tables of versions 8 and 9, as real Hudi wrote them: read right.

Those in ``tests/data`` were made by ``tests.interop.make_later_tables``. The shared ones come with what Hudi 1.2.0
reads of them.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
import hoodie.stats
from hoodie import HoodieKey, HoodieReadClient, HoodieTableMetaClient
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from tests.support.later_version import change_properties
from tests.support.table_builder import content, local_client
from tests.unit.test_tables_of_real_hudi import (
    continue_and_compare,
    folders_of_tables,
    in_order,
    read_by_hudi_rs,
    user_rows,
)

KEPT = ["hudi_trips_v8", "hudi_trips_v9"]
SHARED = [
    "dn_replaced_8", "hand9_cow_bad", "hand_cow", "hmdt_crash", "hup_metadata", "hup_replaced", "trap_stale",
    "up_replaced_8", "up_replaced_9", "v8_cow", "v8_cow_mdt", "v9_commit_mode", "v9_cow", "v9_cow_mdt",
    "v9_cow_rli_part", "v9_cow_rollback_pending", "v9_mdt_off",
]  # fmt: skip
BEHIND_ITS_METADATA_TABLE = "trap_stale"
"""Two commits of this table are not in its metadata table, so readers that trust it miss their ten rows."""
EXPECTED_COLUMNS = ["_hoodie_commit_time", "_hoodie_partition_path", "id", "region", "ts", "fare"]


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one table."""
    if request.param in KEPT:
        with zipfile.ZipFile(Path(__file__).parents[1] / "data" / f"{request.param}.zip") as archive:
            archive.extractall(tmp_path)
        return tmp_path / request.param
    shutil.copytree(request.getfixturevalue("later_tables") / request.param, tmp_path / request.param)
    (folder,) = folders_of_tables(tmp_path / request.param)
    return folder


@pytest.fixture
def unchanged(table: Path) -> Iterator[None]:
    """Nothing of the table changes in the test."""
    before = content(table)
    yield
    assert content(table) == before


def rows_of(found: pa.Table) -> list[str]:
    return in_order(found.to_pylist())


def expected_of(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((table.parent / "expected.json").read_text())
    return found


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", KEPT, indirect=True)
def test_each_query_gives_what_real_hudi_reads(table: Path, unchanged: None) -> None:
    queries = expected_of(table)
    assert len(queries) >= 10
    for expected in queries:
        found = hoodie.read_table(str(table), options=expected["query"])
        rows = sorted([row[name] for name in EXPECTED_COLUMNS] for row in found.to_pylist())
        assert rows == expected["rows"], expected["query"]


@pytest.mark.parametrize("table", [name for name in SHARED if name != BEHIND_ITS_METADATA_TABLE], indirect=True)
def test_a_snapshot_is_what_real_hudi_reads(table: Path, later_tables: Path, unchanged: None) -> None:
    expected = pq.read_table(later_tables / "rows" / f"{table.name}.parquet")
    found = hoodie.read_table(str(table))
    assert set(found.schema.names) == set(expected.schema.names)
    assert rows_of(found) == rows_of(expected)
    dataset = hoodie.dataset(str(table))
    assert dataset.count_rows() == expected.num_rows and rows_of(dataset.to_table()) == rows_of(expected)


@pytest.mark.parametrize("table", [BEHIND_ITS_METADATA_TABLE], indirect=True)
def test_committed_rows_are_read_though_the_metadata_table_misses_them(table: Path, later_tables: Path) -> None:
    of_metadata_table = pq.read_table(later_tables / "rows" / f"{BEHIND_ITS_METADATA_TABLE}.parquet")
    found = hoodie.read_table(str(table))
    assert (of_metadata_table.num_rows, found.num_rows) == (75, 85)
    assert set(of_metadata_table["id"].to_pylist()) < set(found["id"].to_pylist())


@pytest.mark.parametrize(
    "table", [*KEPT, *(name for name in SHARED if name != BEHIND_ITS_METADATA_TABLE)], indirect=True
)
def test_hudi_rs_reads_the_same_rows(table: Path) -> None:
    assert in_order(user_rows(hoodie.read_table(str(table)))) == in_order(read_by_hudi_rs(table))


@pytest.mark.parametrize("table", [*KEPT, *SHARED], indirect=True)
def test_what_commits_wrote_since_a_completion_is_what_is_left_of_it(table: Path, unchanged: None) -> None:
    """The newest rows of later commits, whether these are archived or not."""
    client = HoodieTableMetaClient.load(str(table))
    active = client.active_timeline.completed_writes()
    archived = [i for i in client.archived_timeline.completed_writes() if not active.contains(i.requested_time)]
    assert bool(archived) == (table.name in (*KEPT, "hand9_cow_bad"))
    snapshot = hoodie.read_table(str(table))
    ends = {instant.requested_time: instant.completion_time or "" for instant in (*archived, *active)}
    assert len(set(ends.values())) == len(ends) and "" not in ends.values()
    for begin in ends.values():
        later = pa.array([time for time, end in ends.items() if end > begin], pa.string())
        expected = snapshot.filter(pc.is_in(snapshot["_hoodie_commit_time"], later))
        try:
            found = hoodie.read_table(str(table), query_type="incremental", begin=begin)
        except HoodieIOException as error:
            assert "cleaned" in str(error)
            continue
        if table.name == "hand9_cow_bad":
            # A range leaves out rows of groups that one of its commits replaced; a snapshot has forgotten that.
            assert set(rows_of(found)) <= set(rows_of(expected))
        else:
            assert rows_of(found) == rows_of(expected), begin
    assert rows_of(hoodie.read_table(str(table), query_type="incremental", begin="earliest")) == rows_of(snapshot)


@pytest.mark.parametrize(
    "table", ["v8_cow", "v9_cow", "v9_commit_mode", "up_replaced_8", "up_replaced_9"], indirect=True
)
def test_the_table_as_of_a_commit_has_the_rows_that_commits_had_written(table: Path, unchanged: None) -> None:
    commits = HoodieTableMetaClient.load(str(table)).active_timeline.completed_writes()
    counts = []
    for instant in commits:
        found = hoodie.read_table(str(table), as_of=instant.requested_time)
        assert max(found["_hoodie_commit_time"].to_pylist()) <= instant.requested_time
        counts.append(found.num_rows)
    if table.name.endswith("_cow"):
        # 0-59 inserted, 20-79 updated, 0-4 deleted.
        assert counts == [60, 80, 75]
    assert rows_of(hoodie.read_table(str(table), as_of=commits.instants[-1].requested_time)) == rows_of(
        hoodie.read_table(str(table))
    )


@pytest.mark.parametrize("table", KEPT, indirect=True)
def test_a_time_whose_files_were_cleaned_is_refused(table: Path) -> None:
    first = HoodieTableMetaClient.load(str(table)).archived_timeline.completed_writes().instants[0]
    with pytest.raises(HoodieIOException, match="were cleaned"):
        hoodie.read_table(str(table), as_of=first.requested_time)


@pytest.mark.parametrize("table", [*KEPT, "v8_cow", "v9_cow_mdt", "up_replaced_9"], indirect=True)
def test_keys_are_found(table: Path, unchanged: None) -> None:
    everything = hoodie.read_table(str(table))
    with HoodieReadClient(str(table)) as client:
        assert rows_of(client.read(everything)) == rows_of(everything)
        found = client.check_exists([HoodieKey("nobody", "nowhere")])
        assert found["exists"].to_pylist() == [False]


@pytest.mark.parametrize("table", KEPT, indirect=True)
def test_filters_prune_by_partitions_and_keys(table: Path) -> None:
    everything = hoodie.read_table(str(table))
    plan = hoodie.plan_read(str(table), filters=[("region", "=", "east")])
    assert plan.pruned_partitions == ("west",)
    key = everything["id"][0].as_py()
    searched = hoodie.plan_read(str(table), filters=[("id", "=", key)]).searched
    assert (searched.column, searched.values.to_pylist()) == ("id", [key])
    found = hoodie.read_table(str(table), filters=[("region", "=", "east"), ("ts", ">", 5)])
    assert rows_of(found) == rows_of(everything.filter((pc.field("region") == "east") & (pc.field("ts") > 5)))


@pytest.mark.parametrize("table", KEPT, indirect=True)
def test_the_history_has_both_times_and_files_are_listed(table: Path, unchanged: None) -> None:
    client = HoodieTableMetaClient.load(str(table))
    for row in client.history():
        assert row.completion_time is not None and row.completion_time > row.instant_time
    assert sum(row.rows_inserted or 0 for row in client.history()) == 5
    assert {file.partition_path for file in client.files()} == {"east", "west"}
    assert hoodie.stats.commits(str(table)).num_rows == 5


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [*KEPT, *SHARED], indirect=True)
def test_a_table_is_continued_and_hudi_rs_agrees(table: Path) -> None:
    client = HoodieTableMetaClient.load(str(table))
    version, pending = client.table_config.table_version, client.active_timeline.filter_pending()
    continue_and_compare(table, user_rows(hoodie.read_table(str(table))), metadata_enable="false")
    client = HoodieTableMetaClient.load(str(table))
    assert client.table_config.table_version == version
    assert client.table_config.metadata_partitions == () and not (table / ".hoodie/metadata").exists()
    assert len(client.active_timeline.filter_pending()) == 0
    undone = {instant.requested_time for instant in pending}
    assert not undone & {instant.requested_time for instant in client.active_timeline.commits_timeline()}
    assert not [file.name for file in table.rglob("*.parquet") if any(f"_{time}." in file.name for time in undone)]


@pytest.mark.parametrize("table", ["v8_cow_mdt", "v9_cow_mdt", "v9_cow_rli_part", "hand_cow"], indirect=True)
def test_a_metadata_table_is_kept_and_hudi_rs_which_trusts_it_agrees(table: Path) -> None:
    listed = HoodieTableMetaClient.load(str(table)).table_config.metadata_partitions
    assert "files" in listed and hoodie.metadata.validate(str(table)).is_right
    continue_and_compare(table, user_rows(hoodie.read_table(str(table))))
    assert HoodieTableMetaClient.load(str(table)).table_config.metadata_partitions == listed
    found = hoodie.metadata.validate(str(table))
    assert found.is_right, str(found)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["v9_cow_mdt"], indirect=True)
def test_a_metadata_table_of_another_kind_is_given_up_only_when_the_writer_says_so(table: Path) -> None:
    change_properties(table, {"hoodie.table.metadata.partitions": "files,vector_index_x"})
    before = content(table)
    with local_client(table) as client, pytest.raises(HoodieNotSupportedException, match="vector_index_x"):
        client.upsert(hoodie.read_table(str(table)))
    assert content(table) == before
    with local_client(table, hoodie__metadata__enable="false") as client:
        client.upsert(hoodie.read_table(str(table)))
    assert HoodieTableMetaClient.load(str(table)).table_config.metadata_partitions == ()


@pytest.mark.parametrize("table", KEPT, indirect=True)
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hoodie.table.version=10", "hoodie.table.version=10"),
        ("hoodie.table.version=7", "hoodie.table.version=7"),
        ("hoodie.timeline.layout.version=1", "hoodie.timeline.layout.version=1"),
        ("hoodie.table.format=iceberg", "hoodie.table.format=iceberg"),
        ("hoodie.table.base.file.format=ORC", "hoodie.table.base.file.format=ORC"),
        ("hoodie.table.multiple.base.file.formats.enable=true", "multiple.base.file.formats.enable=true"),
        ("hoodie.datasource.write.drop.partition.columns=true", "drop.partition.columns=true"),
        ("hoodie.datasource.write.slash.separated.date.partitioning=true", "slash.separated.date.partitioning=true"),
        ("hoodie.bootstrap.base.path=/x", "hoodie.bootstrap.base.path=/x"),
    ],
)
def test_features_that_are_not_read_are_refused_by_name(table: Path, line: str, reason: str) -> None:
    path = table / ".hoodie/hoodie.properties"
    key = line.partition("=")[0]
    lines = [other for other in path.read_text().splitlines() if other.partition("=")[0] != key]
    path.write_text("\n".join([*lines, line]) + "\n")
    with pytest.raises(HoodieNotSupportedException, match=reason.replace(".", r"\.")):
        hoodie.read_table(str(table))
