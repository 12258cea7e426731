"""Which file groups a compaction takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hoodie.avro.service_metadata import HoodieCompactionOperation
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.table.compaction_plans import operation_metrics
from hoodie.config.compaction_config import HoodieCompactionConfig
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.table.action.compact.compaction_strategy import compaction_strategy

PACKAGE = "org.apache.hudi.table.action.compact.strategy."
MB = 1024 * 1024


def operation(file_id: str, log_bytes: int, log_files: int = 1, io_mb: float = 100.0) -> HoodieCompactionOperation:
    metrics = {"TOTAL_LOG_FILES": float(log_files), "TOTAL_LOG_FILES_SIZE": float(log_bytes), "TOTAL_IO_MB": io_mb}
    return HoodieCompactionOperation("p", file_id, "20260101000000000", metrics=metrics)


def chosen(operations: list[HoodieCompactionOperation], name: str, **options: Any) -> str:
    strategy = compaction_strategy(HoodieCompactionConfig(strategy=name, **options))
    return "".join(taken.file_id for taken in strategy.order_and_filter(operations))


GROUPS = [operation("a", 10, 3), operation("b", 30, 1), operation("c", 20, 2)]


def test_the_largest_log_files_come_first_by_default() -> None:
    strategy = compaction_strategy(HoodieCompactionConfig())
    assert "".join(taken.file_id for taken in strategy.order_and_filter(GROUPS)) == "bca"


@pytest.mark.parametrize(
    "name, options, expected",
    [
        ("LogFileSizeBasedCompactionStrategy", {"log_file_size_threshold": 20}, "bc"),
        (PACKAGE + "LogFileSizeBasedCompactionStrategy", {"target_io_mb": 150}, "bc"),
        ("LogFileNumBasedCompactionStrategy", {}, "acb"),
        ("LogFileNumBasedCompactionStrategy", {"log_file_num_threshold": 2}, "ac"),
        ("BoundedIOCompactionStrategy", {}, "abc"),
        ("BoundedIOCompactionStrategy", {"target_io_mb": 200}, "ab"),
        ("BoundedIOCompactionStrategy", {"target_io_mb": 0}, "a"),
        ("UnBoundedCompactionStrategy", {"target_io_mb": 0}, "abc"),
        (PACKAGE + "UnBoundedCompactionStrategy", {}, "abc"),
    ],
)
def test_strategies_order_and_limit(name: str, options: dict[str, int], expected: str) -> None:
    assert chosen(GROUPS, name, **options) == expected


def partitions(name: str, paths: list[str], **options: Any) -> list[str]:
    return list(compaction_strategy(HoodieCompactionConfig(strategy=name, **options)).filter_partition_paths(paths))


def test_the_newest_days_are_taken() -> None:
    days = ["2026/01/02", "2025/12/31", "day=2026-01-03", "year=2026/month=02/day=01"]
    assert partitions("DayBasedCompactionStrategy", days, day_based_target_partitions=3) == [
        "year=2026/month=02/day=01", "day=2026-01-03", "2026/01/02"
    ]  # fmt: skip


def test_days_up_to_today_and_those_before_them_make_all() -> None:
    today = datetime.now(UTC)
    days = [(today - timedelta(days=count)).strftime("%Y/%m/%d") for count in (0, 1, 5, 30)]
    recent = partitions("BoundedPartitionAwareCompactionStrategy", days, day_based_target_partitions=3)
    others = partitions("UnBoundedPartitionAwareCompactionStrategy", days, day_based_target_partitions=3)
    assert (recent, others) == (days[:2], days[2:])


@pytest.mark.parametrize("path", ["", "x", "2026/13/01", "2026/1/1", "eu/2026/01/01"])
def test_a_partition_that_is_no_day_is_named(path: str) -> None:
    with pytest.raises(HoodieException, match=f"partition '{path}' is not a day such as 2026/11/23"):
        partitions("DayBasedCompactionStrategy", [path])


def test_partitions_whose_whole_path_matches_are_taken() -> None:
    name = "PartitionRegexBasedCompactionStrategy"
    assert partitions(name, ["eu/1", "us/1", "eu"], partition_path_regex="eu/.*") == ["eu/1"]
    with pytest.raises(HoodieConfigException, match="needs hoodie.compaction.partition.path.regex"):
        partitions(name, [])
    with pytest.raises(HoodieConfigException, match="is not a regular expression"):
        partitions(name, [], partition_path_regex="(")


@pytest.mark.parametrize("name", ["Fastest", PACKAGE + "CompositeCompactionStrategy", "os.path", "no.such.Thing"])
def test_a_name_that_is_no_strategy_is_refused(name: str) -> None:
    with pytest.raises(HoodieConfigException, match=f"hoodie.compaction.strategy = {name}"):
        compaction_strategy(HoodieCompactionConfig(strategy=name))


def test_metrics_count_megabytes_as_hudi_does() -> None:
    base = FileSlice.of_base_file("p", "/t/p/f_1-0-1_20260101000000000.parquet", 3 * MB + 5)
    logs = tuple(
        HoodieLogFile(f"/t/p/.f_1.log.{n}_1-0-1", "f", "20260101000000000", n, "1-0-1", MB // 2) for n in (1, 2)
    )
    part = FileSlice("p", "f", "20260101000000000", base.base_file, logs)
    assert operation_metrics(part, 120 * MB) == {
        "TOTAL_LOG_FILES": 2.0, "TOTAL_IO_MB": 7.0, "TOTAL_IO_READ_MB": 4.0, "TOTAL_LOG_FILES_SIZE": float(MB),
        "TOTAL_IO_WRITE_MB": 3.0,
    }  # fmt: skip
    without_base = FileSlice("p", "f", "20260101000000000", None, logs)
    assert operation_metrics(without_base, 120 * MB)["TOTAL_IO_WRITE_MB"] == 120.0
