"""Which file slices a clustering takes, and which ones together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.config.clustering_config import HoodieClusteringConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.table.action.cluster import clustering_plan_strategy as module
from hoodie.table.action.cluster.clustering_plan_strategy import (
    ClusteringInput,
    ClusteringPlanStrategy,
    clustering_plan_strategy,
    partitions_to_cluster,
)

PLAN = "hoodie.clustering.plan.strategy."
CLASS = f"{PLAN}class"
MODE = "hoodie.clustering.plan.partition.filter.mode"
MAX_FILE_SIZE = 120
TIMES = {"a": 3, "b": 1, "c": 2, "d": 4}


def file_slice(file_id: str, size: int | None, log_bytes: int = 0) -> FileSlice:
    """A slice; without a base file for the size None."""
    time = f"2026010100000000{TIMES.get(file_id, 0)}"
    base = None if size is None else HoodieBaseFile(f"/t/p/{file_id}.parquet", file_id, "0-1-0", time, size)
    logs = (HoodieLogFile(f"/t/p/.{file_id}.log.1", file_id, time, 1, "0-1-0", log_bytes),) if log_bytes else ()
    return FileSlice("p", file_id, time, base, logs)


SLICES = [file_slice("a", 10), file_slice("b", 40), file_slice("c", 20), file_slice("d", 40)]


def config(**given: Any) -> HoodieClusteringConfig:
    """A configuration; names by the end of Hudi's, with underscores for dots."""
    return parsed({PLAN + name.replace("_", "."): value for name, value in given.items()})


def parsed(properties: dict[str, Any]) -> HoodieClusteringConfig:
    return HoodieWriteConfig.from_properties("/t", properties).clustering


def grouped(slices: Sequence[FileSlice], **given: Any) -> list[tuple[str, int]]:
    """The file ids of each group, and its expected number of files."""
    strategy = clustering_plan_strategy(config(**given), MAX_FILE_SIZE)
    found = strategy.groups("p", [part for part in slices if strategy.is_eligible(part)])
    assert all(one.partition_path == "p" for one in found)
    return [("".join(part.file_id for part in one.slices), one.output_files) for one in found]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("bdca", 1)]),
        # A group is closed before the slice with which it would be too large.
        ({"max_bytes_per_group": 80}, [("bd", 1), ("ca", 1)]),
        ({"max_bytes_per_group": 79}, [("b", 1), ("dca", 1)]),
        ({"max_bytes_per_group": 1}, [("b", 1), ("d", 1), ("c", 1), ("a", 1)]),
        ({"max_bytes_per_group": 1, "max_num_groups": 3}, [("b", 1), ("d", 1), ("c", 1)]),
        ({"max_bytes_per_group": 80, "max_num_groups": 1}, [("bd", 1)]),
        ({"target_file_max_bytes": 110}, [("bdca", 1)]),
        ({"target_file_max_bytes": 109}, [("bdca", 2)]),
        ({"target_file_max_bytes": 25}, [("bdca", 5)]),
        ({"small_file_limit": 40}, [("ca", 1)]),
        ({"small_file_limit": 10}, []),
        ({"file_slices_sort_by": "INSTANT_TIME"}, [("bcad", 1)]),
        ({"file_slices_sort_by": "size, instant_time"}, [("bdca", 1)]),
        # One slice that stays one file.
        (
            {"max_bytes_per_group": 79, "single_group_clustering_enabled": "false"},
            [("dca", 1)],
        ),
        (
            {"max_bytes_per_group": 79, "single_group_clustering_enabled": "false", "target_file_max_bytes": 39},
            [("b", 2), ("dca", 2)],
        ),
        (
            {"max_bytes_per_group": 79, "single_group_clustering_enabled": "false", "sort_columns": "fare"},
            [("b", 1), ("dca", 1)],
        ),
        ({"class": "SparkSingleFileSortPlanStrategy"}, [("b", 1), ("d", 1), ("c", 1), ("a", 1)]),
        ({"class": "SparkSingleFileSortPlanStrategy", "max_num_groups": 2}, [("b", 1), ("d", 1)]),
    ],
    ids=str,
)
def test_slices_are_put_together_by_their_sizes(given: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert grouped(SLICES, **given) == expected


def test_a_slice_without_a_base_file_is_small_and_counts_as_a_full_file() -> None:
    slices = [file_slice("a", 100), file_slice("b", None, log_bytes=7), file_slice("c", 119, log_bytes=1000)]
    assert grouped(slices, small_file_limit=1) == [("b", 1)]
    assert grouped(slices, max_bytes_per_group=219, target_file_max_bytes=100) == [("b", 2), ("ca", 3)]


@pytest.mark.parametrize("text", ["NAME", "SIZE,", "SIZE,NAME", ""])
def test_an_unknown_order_of_slices_is_refused(text: str) -> None:
    with pytest.raises(HoodieConfigException, match=r"file\.slices\.sort\.by"):
        grouped(SLICES, file_slices_sort_by=text)


# --- partitions -------------------------------------------------------------------------------------------------------

PATHS = ["p2", "p0", "p3", "p1"]


def mode_of(name: str, **given: Any) -> HoodieClusteringConfig:
    properties = {PLAN + key.replace("_", "."): value for key, value in given.items()}
    return parsed({MODE: name, **properties})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (mode_of("NONE"), "0123"),
        (mode_of("RECENT_DAYS"), "23"),
        (mode_of("recent_days", daybased_skipfromlatest_partitions=1), "12"),
        (mode_of("RECENT_DAYS", daybased_skipfromlatest_partitions=3), "0"),
        (mode_of("RECENT_DAYS", daybased_skipfromlatest_partitions=9), ""),
        (mode_of("RECENT_DAYS", daybased_lookback_partitions=0), "0123"),
        (mode_of("RECENT_DAYS", daybased_lookback_partitions=-1, daybased_skipfromlatest_partitions=1), "012"),
        (mode_of("SELECTED_PARTITIONS"), "0123"),
        (mode_of("SELECTED_PARTITIONS", cluster_begin_partition="p1", cluster_end_partition="p2"), "12"),
        (mode_of("SELECTED_PARTITIONS", cluster_begin_partition="p2"), "23"),
        (mode_of("SELECTED_PARTITIONS", cluster_end_partition="p1z"), "01"),
        # Without the mode they say nothing.
        (mode_of("NONE", cluster_begin_partition="p2"), "0123"),
        (mode_of("NONE", partition_regex_pattern="p[03]"), "03"),
        (mode_of("NONE", partition_regex_pattern="[03]"), ""),
        (mode_of("RECENT_DAYS", partition_regex_pattern="p[012]"), "12"),
        (mode_of("NONE", partition_selected="p3,p1,p7"), "13"),
        (mode_of("NONE", partition_selected="p3,p1", partition_regex_pattern="p0"), "13"),
        (mode_of("RECENT_DAYS", partition_selected="p0,p1,p3"), "13"),
    ],
    ids=range(18),
)
def test_partitions_are_chosen_as_by_hudi(found: HoodieClusteringConfig, expected: str) -> None:
    assert partitions_to_cluster(found, PATHS) == [f"p{number}" for number in expected]


def test_day_rolling_takes_each_24th_partition_by_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"p{number:02}" for number in range(50)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2026, 1, 1, 2, 30, tzinfo=UTC)

    monkeypatch.setattr(module, "datetime", Clock)
    hour = Clock.now().astimezone().hour
    assert hour != 2, "the zone of tests is not that of times"
    found = partitions_to_cluster(mode_of("DAY_ROLLING"), list(reversed(paths)))
    assert found == [path for number, path in enumerate(paths) if number % 24 == hour]
    assert len(found) == 2


def test_a_wrong_regular_expression_is_refused() -> None:
    with pytest.raises(HoodieConfigException, match="is not a regular expression of Python"):
        partitions_to_cluster(mode_of("NONE", partition_regex_pattern="p("), PATHS)


# --- classes ----------------------------------------------------------------------------------------------------------

HUDI = "org.apache.hudi.client.clustering.plan.strategy."


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SparkSizeBasedClusteringPlanStrategy", "0123"),
        (f"{HUDI}SparkSizeBasedClusteringPlanStrategy", "0123"),
        (f"{HUDI}JavaSizeBasedClusteringPlanStrategy", "0123"),
        (f"{HUDI}FlinkSizeBasedClusteringPlanStrategy", "0123"),
        ("FlinkSizeBasedClusteringPlanStrategy", "0123"),
        (f"{HUDI}SparkRecentDaysClusteringPlanStrategy", "23"),
        (f"{HUDI}JavaRecentDaysClusteringPlanStrategy", "23"),
        (f"{HUDI}FlinkRecentDaysClusteringPlanStrategy", "23"),
        (f"{HUDI}SparkSelectedPartitionsClusteringPlanStrategy", "12"),
        (f"{HUDI}SparkStreamCopyClusteringPlanStrategy", "0123"),
        (f"{HUDI}SparkSingleFileSortPlanStrategy", "0123"),
    ],
)
def test_names_of_hudis_classes_stand_for_strategies(name: str, expected: str) -> None:
    found = config(**{"class": name, "cluster_begin_partition": "p1", "cluster_end_partition": "p2"})
    strategy = clustering_plan_strategy(found, MAX_FILE_SIZE)
    assert strategy.filter_partition_paths(PATHS) == [f"p{number}" for number in expected]
    assert len(strategy.groups("p", SLICES)) == (4 if "SingleFile" in name else 1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (f"{HUDI}SparkConsistentBucketClusteringPlanStrategy", "split and merged by Hudi alone"),
        (
            "org.apache.hudi.table.action.cluster.strategy.CommitBasedClusteringPlanStrategy",
            "take the files of each commit",
        ),
        ("SizeBasedPlanStrategy", "supported are SparkSizeBasedClusteringPlanStrategy"),
        ("os.path", "hoodie.clustering.plan.strategy.class"),
        ("no.such.module.Strategy", "hoodie.clustering.plan.strategy.class"),
        (f"{__name__}.NoStrategy", "hoodie.clustering.plan.strategy.class"),
    ],
)
def test_other_names_are_refused(name: str, advice: str) -> None:
    with pytest.raises(HoodieConfigException, match=advice) as caught:
        clustering_plan_strategy(config(**{"class": name}), MAX_FILE_SIZE)
    assert name in str(caught.value)


class NoStrategy:
    """Is none."""


class EachSecond(ClusteringPlanStrategy):
    """Takes each second slice alone, of the last partition."""

    def filter_partition_paths(self, partition_paths: Sequence[str]) -> Sequence[str]:
        return sorted(partition_paths)[-1:]

    def groups(self, partition_path: str, slices: Sequence[FileSlice]) -> list[ClusteringInput]:
        return [ClusteringInput(partition_path, (part,)) for part in slices[::2]]


def test_a_strategy_of_the_users_is_created_with_the_configuration() -> None:
    found = clustering_plan_strategy(config(**{"class": f"{__name__}.EachSecond", "small_file_limit": 7}), 99)
    assert isinstance(found, EachSecond)
    assert (found.config.small_file_limit, found.max_file_size) == (7, 99)
    assert [one.slices[0].file_id for one in found.groups("p", SLICES)] == ["a", "c"]
