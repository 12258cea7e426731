"""Spark's jobs as the user sees them: their descriptions, and the progress of their tasks."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hoodie.exception import HoodieException
from hoodie.metrics.progress import TaskCount, TaskCounter
from hoodie.spark.spark_compatibility import STOPPED, forget_broken_connection, is_stopped, spark_context
from hoodie.spark.spark_errors import as_hoodie_error, interrupted_by_user

logger = logging.getLogger(__name__)

JOB_DESCRIPTION = "spark.job.description"
JOB_GROUP = "spark.jobGroup.id"
_OUR_GROUP = "hoodie-"
_CANCEL_SECONDS = 30
"""The longest time that Ctrl-C waits for Spark to cancel the jobs."""


@contextmanager
def described_job(spark: SparkSession, description: str, subject: str = "") -> Iterator[TaskCounter | None]:
    """Set a description for the jobs of this thread; restores the earlier one at the end.

    A caller's job group is kept, so that the caller can cancel it; without one, the jobs get a group. Spark Connect has
    no descriptions; there the description becomes a tag of the operations.

    The jobs inside also have a tag of their own. If an error leaves the block, the jobs that still run are cancelled
    first.

    Args:
        spark: The session.
        description: The text that Spark's pages show.
        subject: The whole to which the work belongs; Spark's pages show it too.

    Returns:
        A context manager that gives a counter of the tasks of the jobs inside. It gives None on Spark Connect before
        Spark 4, and for a session that was stopped: work that needs no job continues (a rollback).

    Raises:
        KeyboardInterrupt: The user interrupted a job, whatever Spark made of it.
        HoodieException: Something failed inside because the session was stopped; a job was cancelled; or Spark or a
            function of the input failed.
    """
    handled = sys.exception()
    try:
        if is_stopped(spark):
            yield None
            return
        with _cancelled_on_error(spark), _described_job(spark, description, subject) as task_counter:
            yield task_counter
    except Exception as error:
        if interrupted_by_user(error, handled):
            raise KeyboardInterrupt from error
        if isinstance(error, HoodieException):
            raise
        if is_stopped(spark):
            raise HoodieException(STOPPED) from error
        translated = as_hoodie_error(error, description.removeprefix("hoodie: "))
        if translated is None:
            raise
        raise translated from error


@contextmanager
def _cancelled_on_error(spark: SparkSession) -> Iterator[None]:
    """Cancel the jobs of this thread that were started inside and still run when an error leaves."""
    jobs = _TaggedJobs(spark, spark_context(spark), f"{_OUR_GROUP}{uuid.uuid4()}")
    if not jobs.begin():
        yield
        return
    try:
        with _interrupts_cancel(jobs):
            yield
    except BaseException:
        jobs.cancel()
        raise
    finally:
        jobs.end()


@attrs.frozen
class _TaggedJobs:
    """The jobs of this thread, by a tag of their own."""

    spark: SparkSession
    context: SparkContext | None
    tag: str

    def begin(self) -> bool:
        """Tag the jobs from now on; False if this Spark has no tags (Spark Connect before 3.5)."""
        holder = self.spark if self.context is None else self.context
        add = getattr(holder, "addTag" if self.context is None else "addJobTag", None)
        if add is None:
            return False
        add(self.tag)
        return True

    def end(self) -> None:
        """Tag jobs no longer. Nothing happens if the session was stopped meanwhile."""
        with suppress(Exception):
            if self.context is None:
                self.spark.removeTag(self.tag)
            else:
                self.context.removeJobTag(self.tag)

    def cancel(self) -> None:
        """Cancel the running jobs. An error here must not hide the one that is being raised."""
        try:
            if self.context is None:
                self.spark.interruptTag(self.tag)
            elif not is_stopped(self.spark):
                self.context.cancelJobsWithTag(self.tag)
        except Exception as error:
            logger.warning("the jobs of a call that failed could not be cancelled: %s", error)


@contextmanager
def _interrupts_cancel(jobs: _TaggedJobs) -> Iterator[None]:
    """Let Ctrl-C cancel the jobs from another thread, and then be a ``KeyboardInterrupt``.

    PySpark's own handler calls the JVM in the middle of another call of the same thread, which fails: the job runs on.
    Its calls wait for the job before they let a ``KeyboardInterrupt`` pass. A handler that the user has set stays.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    is_of_spark = getattr(handler, "__module__", "") == SparkContext.__module__
    if jobs.context is None or not (is_of_spark or handler is signal.default_int_handler):
        yield
        return

    def interrupted(number: int, frame: object) -> None:
        cancelling = threading.Thread(target=jobs.cancel, daemon=True)
        cancelling.start()
        cancelling.join(_CANCEL_SECONDS)
        if jobs.context is not None:
            forget_broken_connection(jobs.context)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _described_job(spark: SparkSession, description: str, subject: str) -> Iterator[TaskCounter | None]:
    context = spark_context(spark)
    if context is None:
        with _tagged(spark, description), _followed(spark) as task_counter:
            yield task_counter
        return
    description_before = context.getLocalProperty(JOB_DESCRIPTION)
    group_before = context.getLocalProperty(JOB_GROUP)
    if group_before is None or group_before.startswith(_OUR_GROUP):
        group, earlier = f"{_OUR_GROUP}{uuid.uuid4()}", frozenset[int]()
        context.setLocalProperty(JOB_GROUP, group)
    else:
        group, earlier = group_before, frozenset(context.statusTracker().getJobIdsForGroup(group_before))
    context.setLocalProperty(JOB_DESCRIPTION, f"{description} [{subject}]" if subject else description)
    try:
        yield _StatusTasks(context, group, earlier)
    finally:
        with suppress(Py4JError, OSError, AttributeError):  # The session was stopped meanwhile.
            context.setLocalProperty(JOB_DESCRIPTION, description_before)
            context.setLocalProperty(JOB_GROUP, group_before)


def draws_progress(spark: SparkSession) -> bool:
    """Whether Spark draws its own progress bar on the driver's terminal, as it does in its shells.

    Args:
        spark: The session.
    """
    # Not by `SparkContext.getConf`, which copies all options, each by a call of the JVM.
    return spark_context(spark) is not None and spark.conf.get("spark.ui.showConsoleProgress", "false") == "true"


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
        done = total = spilled = 0
        for info in map(tracker.getStageInfo, sorted(stages)):
            if info is not None and (info.numActiveTasks or info.numCompletedTasks or info.numFailedTasks):
                done += info.numCompletedTasks
                total += info.numTasks
                spilled += self._spilled_bytes(info.stageId)
        return TaskCount(min(done, total), total, spilled)

    def _spilled_bytes(self, stage: int) -> int:
        """The bytes that a stage's tasks wrote to disk, so far; Python's status tracker does not tell."""
        scala_context = self.context._jsc.sc()
        try:
            return int(scala_context.statusStore().lastStageAttempt(stage).diskBytesSpilled())
        except Py4JError:
            # Spark has forgotten the stage.
            return 0


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
