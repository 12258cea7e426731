"""Spark's jobs as the user sees them: their descriptions, and the progress of their tasks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hoodie.exception import HoodieException
from hoodie.metrics.progress import TaskCount, TaskCounter
from hoodie.spark.spark_compatibility import STOPPED, is_stopped, spark_context

JOB_DESCRIPTION = "spark.job.description"
JOB_GROUP = "spark.jobGroup.id"
_OUR_GROUP = "hoodie-"


@contextmanager
def described_job(spark: SparkSession, description: str) -> Iterator[TaskCounter | None]:
    """Set a description for the jobs of this thread; restores the earlier one at the end.

    A caller's job group stays as it is, so that the caller can cancel it; without one, the jobs get a group. Spark
    Connect has no descriptions; there the description becomes a tag of the operations.

    Args:
        spark: The session.
        description: The text that Spark's pages show.

    Returns:
        A context manager that gives a counter of the tasks of the jobs inside. It gives None on Spark Connect before
        Spark 4, and for a session that was stopped: work that needs no job continues (a rollback).

    Raises:
        HoodieException: Something failed inside because the session was stopped.
    """
    try:
        with _described_job(spark, description) as task_counter:
            yield task_counter
    except HoodieException:
        raise
    except Exception as error:
        if is_stopped(spark):
            raise HoodieException(STOPPED) from error
        raise


@contextmanager
def _described_job(spark: SparkSession, description: str) -> Iterator[TaskCounter | None]:
    if is_stopped(spark):
        yield None
        return
    context = spark_context(spark)
    if context is None:
        with _tagged(spark, description), _followed(spark) as task_counter:
            yield task_counter
        return
    description_before = context.getLocalProperty(JOB_DESCRIPTION)
    group_before = context.getLocalProperty(JOB_GROUP)
    tracker = context.statusTracker()
    if group_before is None or group_before.startswith(_OUR_GROUP):
        group, earlier = f"{_OUR_GROUP}{uuid.uuid4()}", frozenset[int]()
        context.setLocalProperty(JOB_GROUP, group)
    else:
        group, earlier = group_before, frozenset(tracker.getJobIdsForGroup(group_before))
    context.setLocalProperty(JOB_DESCRIPTION, description)
    try:
        yield _StatusTasks(context, group, earlier)
    finally:
        if not is_stopped(spark):
            context.setLocalProperty(JOB_DESCRIPTION, description_before)
            context.setLocalProperty(JOB_GROUP, group_before)


def draws_progress(spark: SparkSession) -> bool:
    """Whether Spark draws its own progress bar on the driver's terminal, as it does in its shells.

    Args:
        spark: The session.
    """
    context = spark_context(spark)
    return context is not None and context.getConf().get("spark.ui.showConsoleProgress", "false") == "true"


@attrs.frozen
class _StatusTasks:
    """Counts the tasks of the jobs of a group.

    Only stages that have begun are counted: Spark also lists stages that it will skip, without marking them. Jobs and
    stages beyond ``spark.ui.retainedJobs`` and ``spark.ui.retainedStages`` are forgotten.
    """

    context: SparkContext
    group: str
    earlier: frozenset[int]

    def __call__(self) -> TaskCount:
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group) if job not in self.earlier]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        done = total = 0
        for info in map(tracker.getStageInfo, sorted(stages)):
            if info is not None and (info.numActiveTasks or info.numCompletedTasks or info.numFailedTasks):
                done += info.numCompletedTasks
                total += info.numTasks
        return TaskCount(min(done, total), total)


@contextmanager
def _tagged(spark: SparkSession, description: str) -> Iterator[None]:
    """Tag the operations of this thread; a tag of Spark Connect must not contain a comma."""
    tag = description.replace(",", ";")
    if not hasattr(spark, "addTag") or tag in spark.getTags():
        yield
        return
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


@contextmanager
def _followed(spark: SparkSession) -> Iterator[TaskCounter | None]:
    """Count the tasks of a Spark Connect session, which reports them while it waits for results."""
    if not hasattr(spark, "registerProgressHandler"):
        yield None
        return
    tasks = _ConnectTasks()
    spark.registerProgressHandler(tasks.on_progress)
    try:
        yield tasks.count
    finally:
        with suppress(ValueError):  # The caller has cleared all handlers.
            spark.removeProgressHandler(tasks.on_progress)


class _ConnectTasks:
    """Counts the tasks of a session's operations from the server's reports."""

    def __init__(self) -> None:
        self._operations: dict[str | None, TaskCount] = {}
        self._lock = threading.Lock()

    def on_progress(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        """The handler for `SparkSession.registerProgressHandler`."""
        known = list(stages or ())
        if known:
            completed = sum(stage.num_completed_tasks for stage in known)
            with self._lock:
                self._operations[operation_id] = TaskCount(completed, sum(stage.num_tasks for stage in known))

    def count(self) -> TaskCount:
        """The tasks of all operations so far."""
        with self._lock:
            counts = list(self._operations.values())
        return TaskCount(sum(count.done for count in counts), sum(count.total for count in counts))
