"""Plans of clusterings: their groups, and what is on storage of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.avro.timeline_metadata import HoodieClusteringStrategy
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.table.action.cluster.clustering_planner import plan_clustering
from tests.support.clustered_table import MANY_FILES, latest_slices, pending, plan_of
from tests.support.table_builder import content, init_table, local_client, rows, write_config

PLAN = "hoodie.clustering.plan.strategy."
MODE = "hoodie.clustering.plan.partition.filter.mode"
SPARK = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
PARTITIONS = ["p0", "p1", "p2", "p3"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, table_version_of_module: None) -> Path:
    """Four partitions of two slices, which nobody changes."""
    path = Path(init_table(tmp_path_factory.mktemp("planned") / "t"))
    with local_client(path, MANY_FILES) as client:
        for number in range(2):
            client.insert(rows(*((f"{place}{number}", place, 1, 1.0) for place in PARTITIONS)))
    return path


def groups(base_path: Path, **options: Any) -> list[str]:
    """The partition of each group of the plan, and how many slices it has."""
    plan = plan_clustering(write_config(base_path, **options), TableSnapshot.load(str(base_path)))
    if plan is None:
        return []
    assert plan.clustering_plan is not None
    found = []
    for group in plan.clustering_plan.input_groups:
        (partition,) = {part.partition_path for part in group.slices}
        found.append(f"{partition} {len(group.slices)}")
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["p0 2", "p1 2", "p2 2", "p3 2"]),
        ({f"{PLAN}max.bytes.per.group": 1}, [f"{place} 1" for place in PARTITIONS for _ in range(2)]),
        ({f"{PLAN}max.bytes.per.group": 1, f"{PLAN}max.num.groups": 3}, ["p0 1", "p0 1", "p1 1"]),
        ({f"{PLAN}max.num.groups": 3}, ["p0 2", "p1 2", "p2 2"]),
        ({MODE: "RECENT_DAYS", f"{PLAN}daybased.skipfromlatest.partitions": 1}, ["p1 2", "p2 2"]),
        ({MODE: "RECENT_DAYS", f"{PLAN}daybased.skipfromlatest.partitions": 9}, []),
        (
            {
                MODE: "SELECTED_PARTITIONS",
                f"{PLAN}cluster.begin.partition": "p1",
                f"{PLAN}cluster.end.partition": "p2",
            },
            ["p1 2", "p2 2"],
        ),
        ({f"{PLAN}partition.regex.pattern": "p[03]"}, ["p0 2", "p3 2"]),
        ({f"{PLAN}partition.regex.pattern": "[03]"}, []),
        ({f"{PLAN}class": "SparkRecentDaysClusteringPlanStrategy"}, ["p2 2", "p3 2"]),
        ({f"{PLAN}partition.selected": "p3,p1,none"}, ["p1 2", "p3 2"]),
        ({f"{PLAN}small.file.limit": 1}, []),
        ({f"{PLAN}max.bytes.per.group": 1, f"{PLAN}single.group.clustering.enabled": "false"}, []),
    ],
    ids=range(13),
)
def test_plans_are_those_of_real_hudi(planned: Path, options: dict[str, Any], expected: list[str]) -> None:
    assert groups(planned, **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ()),
        ({f"{PLAN}max.bytes.per.group": 1, f"{PLAN}max.num.groups": 3}, ("p1", "p2", "p3")),
        ({f"{PLAN}max.bytes.per.group": 1, f"{PLAN}max.num.groups": 4}, ("p2", "p3")),
        ({f"{PLAN}max.num.groups": 4}, ()),
        ({MODE: "RECENT_DAYS", f"{PLAN}daybased.skipfromlatest.partitions": 1}, ("p0", "p3")),
        ({f"{PLAN}partition.regex.pattern": "p[03]", f"{PLAN}max.num.groups": 1}, ("p1", "p2", "p3")),
        ({f"{PLAN}partition.selected": "p3"}, ("p0", "p1", "p2")),
    ],
    ids=range(7),
)
def test_plans_name_the_partitions_at_which_the_next_plan_of_hudi_looks(
    planned: Path, options: dict[str, Any], expected: tuple[str, ...]
) -> None:
    plan = plan_clustering(write_config(planned, **options), TableSnapshot.load(str(planned)))
    assert plan is not None
    assert plan.clustering_plan is not None
    assert plan.clustering_plan.missing_schedule_partitions == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({f"{PLAN}sort.columns": "nothing"}, "nothing"),
        ({"hoodie.clustering.execution.strategy.class": "org.example.Mine"}, "supported are SparkSortAndSize"),
        ({f"{PLAN}class": "Mine"}, "is not supported"),
    ],
)
def test_what_cannot_be_carried_out_is_not_planned(planned: Path, options: dict[str, Any], message: str) -> None:
    before = content(planned)
    with local_client(planned, {**MANY_FILES, **options}) as client:
        for call in (client.schedule_clustering, client.cluster):
            with pytest.raises(HoodieConfigException, match=message):
                call()
    assert content(planned) == before


def test_an_explanation_writes_nothing_and_tells_the_groups(planned: Path) -> None:
    before, slices = content(planned), latest_slices(planned)
    with local_client(planned, {**MANY_FILES, f"{PLAN}sort.columns": "fare, ts"}) as client:
        found = client.explain_clustering()
        total = sum(part.size_bytes for part in slices)
        assert (found.files_before, found.files_after, found.bytes_read) == (8, 4, total)
        assert [(one.partition_path, one.files, one.output_files) for one in found.groups] == [
            (place, 2, 1) for place in PARTITIONS
        ]
        assert str(found).startswith(
            f"8 file slices ({total:,} bytes) in 4 groups would become about 4 files, rows ordered by fare, ts (LINEAR)"
        )
    with local_client(planned, {**MANY_FILES, f"{PLAN}small.file.limit": 1}) as client:
        assert str(client.explain_clustering()) == "nothing to cluster"
        assert client.schedule_clustering() is None
        assert client.cluster() is None
    assert content(planned) == before


# --- plans on storage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_plan_on_storage_is_as_hudis(tmp_path: Path, table_version: int, table_type: str) -> None:
    path = Path(init_table(tmp_path / "t", table_type=table_type))
    with local_client(path, MANY_FILES) as client:
        client.insert(rows(("a", "x", 1), ("b", "y", 1)))
        client.insert(rows(("c", "x", 1)))
        client.upsert(rows(("a", "x", 2)))
        client.delete([HoodieKey("c", "x")])
    options = {f"{PLAN}sort.columns": "ts,id", f"{PLAN}target.file.max.bytes": "1000"}
    with local_client(path, {**MANY_FILES, **options}) as client:
        instant_time = client.schedule_clustering()
    assert instant_time is not None
    assert pending(path) == [instant_time]
    action = "replacecommit" if table_version == 6 else "clustering"
    assert [file.name for file in path.rglob(f"{instant_time}*")] == [f"{instant_time}.{action}.requested"]
    requested = plan_of(path, instant_time)
    assert (requested.operation_type, requested.extra_metadata, requested.version) == ("CLUSTER", {}, 1)
    plan = requested.clustering_plan
    assert plan is not None
    assert (plan.version, plan.preserve_hoodie_metadata, plan.extra_metadata) == (1, True, {})
    assert plan.missing_schedule_partitions == ()
    assert plan.strategy == HoodieClusteringStrategy(
        SPARK,
        {
            f"{PLAN}sort.columns": "ts,id",
            "hoodie.layout.optimize.strategy": "LINEAR",
            f"{PLAN}target.file.max.bytes": "1000",
            "hoodie.clustering.gives.way.to.writers": "true",
        },
    )
    slices = {part.file_id: part for part in latest_slices(path)}
    assert sorted(one.file_id or "" for group in plan.input_groups for one in group.slices) == sorted(slices)
    assert [{one.partition_path for one in group.slices} for group in plan.input_groups] == [{"x"}, {"y"}]
    for group in plan.input_groups:
        stored = [slices[one.file_id or ""] for one in group.slices]
        for one, part in zip(group.slices, stored, strict=True):
            assert part.base_file is not None
            assert one.data_file_path == f"file:{part.base_file.path}"
            assert one.delta_file_paths == tuple(f"file:{log.path}" for log in reversed(part.log_files))
            assert (one.bootstrap_file_path, one.version) == ("", 1)
        sizes = [part.base_file.size_bytes for part in stored if part.base_file is not None]
        assert sizes == sorted(sizes, reverse=True)
        logs = [log for part in stored for log in part.log_files]
        assert group.metrics == {
            "TOTAL_LOG_FILES": len(logs),
            "TOTAL_IO_MB": 0.0,
            "TOTAL_IO_READ_MB": 0.0,
            "TOTAL_LOG_FILES_SIZE": sum(log.size_bytes for log in logs),
            "TOTAL_IO_WRITE_MB": 0.0,
        }
        assert (group.num_output_file_groups, group.version) == (math.ceil(sum(sizes) / 1000), 1)
        assert group.extra_metadata is None
    logs_of_x = [log for part in slices.values() for log in part.log_files]
    assert bool(logs_of_x) == (table_type == "MERGE_ON_READ")


@pytest.mark.parametrize("strategy", ["SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy"])
def test_a_plan_gives_way_to_writers_unless_the_options_say_what_they_do(tmp_path: Path, strategy: str) -> None:
    path = Path(init_table(tmp_path / "t"))
    with local_client(path, {**MANY_FILES, "hoodie.clustering.updates.strategy": strategy}) as client:
        client.insert(rows(("a", "x", 1)))
        instant_time = client.schedule_clustering()
        assert instant_time is not None
    plan = plan_of(path, instant_time).clustering_plan
    assert plan is not None
    assert plan.strategy is not None
    assert (plan.strategy.strategy_params or {})["hoodie.clustering.gives.way.to.writers"] == "false"
    assert f"{PLAN}sort.columns" not in (plan.strategy.strategy_params or {})


def test_a_second_plan_takes_what_the_first_left(tmp_path: Path) -> None:
    path = Path(init_table(tmp_path / "t"))
    with local_client(path, {**MANY_FILES, f"{PLAN}max.num.groups": 1}) as client:
        client.insert(rows(("a", "x", 1), ("b", "y", 1)))
        planned = [client.schedule_clustering() for _ in range(3)]
    assert planned[2] is None
    assert pending(path) == planned[:2]
    places = []
    for instant_time in pending(path):
        plan = plan_of(path, instant_time).clustering_plan
        assert plan is not None
        places += [one.partition_path for group in plan.input_groups for one in group.slices]
    assert places == ["x", "y"]


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_services_leave_each_others_file_groups_alone(tmp_path: Path, table_version: int) -> None:
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    with local_client(path, MANY_FILES) as client:
        client.insert(rows(("a", "x", 1), ("b", "y", 1)))
        client.upsert(rows(("a", "x", 2)))
        assert client.schedule_compaction() is not None
        clustering = client.schedule_clustering()
        assert clustering is not None
        plan = plan_of(path, clustering).clustering_plan
        assert plan is not None
        assert [one.partition_path for group in plan.input_groups for one in group.slices] == ["y"]
        assert client.schedule_compaction() is None


def test_a_table_without_partitions_is_planned(tmp_path: Path) -> None:
    path = Path(init_table(tmp_path / "t", partition_fields=[]))
    with local_client(path, MANY_FILES) as client:
        client.insert(rows(("a", "x", 1)))
        client.insert(rows(("b", "x", 1)))
    assert groups(path) == [" 2"]


def test_an_empty_table_has_nothing_to_cluster(base_path: Path) -> None:
    before = content(base_path)
    with local_client(base_path) as client:
        assert client.explain_clustering().groups == ()
        assert client.schedule_clustering() is None
        assert client.cluster() is None
    assert content(base_path) == before


def test_buckets_are_not_put_together(tmp_path: Path) -> None:
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    with local_client(path, {**MANY_FILES, **bucket}) as client:
        client.insert(rows(("a", "x", 1)))
        for call in (client.schedule_clustering, client.cluster):
            with pytest.raises(HoodieNotSupportedException, match="has a bucket index"):
                call()
    # A client that is not told of them does not put them together either.
    with local_client(path, MANY_FILES) as client:
        for call in (client.schedule_clustering, client.cluster, client.explain_clustering):
            with pytest.raises(HoodieNotSupportedException, match="has a bucket index"):
                call()
    assert not list(HoodieTableMetaClient.load(str(path)).active_timeline.filter_pending())
