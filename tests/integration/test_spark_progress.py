"""Spark's jobs carry the names of the steps, and their tasks are followed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hoodie import HoodieKey, HoodieWriteConfig, ProgressEvent, SparkRDDWriteClient
from hoodie.exception import HoodieKeyException
from hoodie.metrics.progress import ProgressState, TaskCount
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_jobs import described_job
from tests.support.table_builder import init_table, instants

pytestmark = pytest.mark.spark
STEP = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
DESCRIPTION, GROUP = "spark.job.description", "spark.jobGroup.id"


def init(path: Path) -> str:
    init_table(path)
    return str(path)


def rows(spark: SparkSession, count: int, copies: int = 1) -> DataFrame:
    return spark.range(count * copies).selectExpr(
        f"cast(id % {count} as string) as id", "cast(id % 3 as string) as region", "id as ts"
    )


def step_of(description: str | None) -> str:
    """The step that describes a job, without its detail and what it is a part of."""
    return re.split(r" [(\[]", str(description))[0]


def job_descriptions(spark: SparkSession) -> dict[int, tuple[str | None, str | None]]:
    """Job id to description and job group, from Spark's own store."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = {}
    for number in range(jobs.size()):
        job = jobs.apply(number)
        texts = [option.get() if option.isDefined() else None for option in (job.description(), job.jobGroup())]
        found[int(job.jobId())] = (texts[0], texts[1])
    return found


@pytest.fixture
def new_jobs(spark: SparkSession) -> Callable[[], list[tuple[str | None, str | None]]]:
    """What was run since it was asked before."""
    seen = set(job_descriptions(spark))

    def ask() -> list[tuple[str | None, str | None]]:
        # The store hears of jobs a moment after they end.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        jobs = job_descriptions(spark)
        found = [jobs[job] for job in sorted(jobs) if job not in seen]
        seen.update(jobs)
        return found

    return ask


def test_every_job_of_a_write_is_described_by_its_step(spark: SparkSession, tmp_path: Path, new_jobs: Any) -> None:
    page = (Path(__file__).parents[2] / "docs/progress-and-metrics.md").read_text(encoding="utf-8")
    base_path = init(tmp_path / "t")
    # Spark 3.5 describes broadcasts itself.
    allowed = {f"hoodie: {name}" for name in (*STEP.findall(page), "check the Python workers")}
    inputs = {
        "bulk_insert": rows(spark, 30),
        "insert": rows(spark, 10),
        "upsert": rows(spark, 40, 2),
        "delete": rows(spark, 5),
    }
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path)) as client:
        new_jobs()
        for operation, records in inputs.items():
            getattr(client, operation)(records)
            found = [description for description, _ in new_jobs()]
            named = {step_of(d) for d in found if d is None or not d.startswith("broadcast exchange")}
            assert named <= allowed, operation
            writing = "hoodie: write files" if operation == "bulk_insert" else "hoodie: write buckets"
            assert writing in named
            assert any("tag location (SIMPLE)" in str(d) for d in found) == (operation in ("upsert", "delete"))
            (instant_time, _, _) = instants(base_path)[-1]
            assert any(str(d).endswith(f" [{operation} {instant_time} of {base_path}]") for d in found)
        client.delete([HoodieKey("7", "1")])
        client.delete(where=[("id", "=", "8")])
        bad = rows(spark, 5).selectExpr("nullif(id, '3') as id", "region", "ts")
        with pytest.raises(HoodieKeyException):
            client.upsert(bad)
        found = [description for description, _ in new_jobs()]
        assert {step_of(description) for description in found} <= allowed


def test_the_callers_description_and_group_come_back(spark: SparkSession, tmp_path: Path, new_jobs: Any) -> None:
    base_path = init(tmp_path / "t")
    context = spark.sparkContext
    try:
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path)) as client:
            new_jobs()
            client.bulk_insert(rows(spark, 3))
            assert context.getLocalProperty(DESCRIPTION) is None
            assert context.getLocalProperty(GROUP) is None
            assert all(str(group).startswith("hoodie-") for _, group in new_jobs())
            context.setJobGroup("nightly", "the nightly load")
            client.upsert(rows(spark, 3))
            assert context.getLocalProperty(DESCRIPTION) == "the nightly load"
            assert context.getLocalProperty(GROUP) == "nightly"
            assert {group for _, group in new_jobs()} == {"nightly"}
            with pytest.raises(HoodieKeyException):
                client.upsert(rows(spark, 3).selectExpr("cast(null as string) as id", "region", "ts"))
            assert context.getLocalProperty(DESCRIPTION) == "the nightly load"
    finally:
        context.setLocalProperty(DESCRIPTION, None)
        context.setLocalProperty(GROUP, None)


def test_tasks_are_counted_within_a_step_only(spark: SparkSession) -> None:
    context = HoodieSparkEngineContext(spark)
    with context.job("hoodie: outer"):
        assert context.run_tasks([1, 2], lambda task, item: item) == [1, 2]
        with context.job("hoodie: inner") as inner:
            assert context.run_tasks([1, 2, 3], lambda task, item: item) == [1, 2, 3]
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            assert inner is not None
            assert inner() == TaskCount(3, 3)
    spark.sparkContext.setJobGroup("mine", "mine")
    try:
        spark.range(10, numPartitions=2).count()
        with described_job(spark, "hoodie: commit") as counter:
            assert counter is not None
            assert counter() == TaskCount(0, 0)
            spark.range(10, numPartitions=2).collect()
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            assert counter() == TaskCount(2, 2)
    finally:
        spark.sparkContext.setLocalProperty(DESCRIPTION, None)
        spark.sparkContext.setLocalProperty(GROUP, None)


def test_a_callback_hears_of_tasks_while_they_run(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    events: list[ProgressEvent] = []
    slow = rows(spark, 8).repartition(8).selectExpr("id", "region", "ts")
    config = HoodieWriteConfig.from_properties(base_path)
    with SparkRDDWriteClient(spark, config, on_progress=events.append) as client:
        result = client.bulk_insert(slow.mapInArrow(_slowly, slow.schema))
    assert result.inserted_count == 8
    writing = [event for event in events if event.step == "write files"]
    assert writing[0].state is ProgressState.STARTED
    advanced = [event for event in writing if event.state is ProgressState.ADVANCED]
    assert advanced
    assert all(0 <= event.done <= event.total for event in writing)
    assert writing[-1].state is ProgressState.FINISHED
    assert next(step for step in result.steps if step.name == "write files").tasks > 0


def _slowly(batches: Any) -> Any:
    time.sleep(0.5)
    yield from batches
