"""What ended a job of Spark, told by texts and contexts of errors. No session runs."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hoodie.exception import HoodieException, HoodieWriteException
from hoodie.spark.spark_compatibility import forget_broken_connection
from hoodie.spark.spark_errors import as_hoodie_error, interrupted_by_user

OWN = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3000, in main
    process()
  File "/home/me/job.py", line 12, in clean
    value = 1 / count
            ~~^~~~~~~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""
OURS = OWN.replace("/home/me/job.py", "/venv/site-packages/hoodie/io/create_handle.py")
LOST_FILE = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: java.io.FileNotFoundException: File f.parquet does not exist
""".partition(": ")[2]
GIVEN_UP = (
    LOST_FILE.partition("Caused by: java.io")[0].rstrip()
    + """
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: A shuffle map stage was retried
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
"""
)
BOTH_SIDES = """An error occurred while calling o1.toRdd.
: org.apache.spark.SparkException: [STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple failures (2) in stage materialization:
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.multipleFailures(QueryExecutionErrors.scala:2011)
\tSuppressed: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] no such fare
""".partition(": ")[2]  # noqa: E501
NO_MEMORY = OURS.replace("ZeroDivisionError: division by zero", "MemoryError")


def told(text: str) -> HoodieException:
    found = as_hoodie_error(PySparkException(text), "write buckets (4)")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            OWN,
            HoodieException,
            "function of the input failed, not hoodie: ZeroDivisionError: division by zero (/home",
        ),
        (OWN, HoodieException, "(/home/me/job.py, line 12, in clean); nothing was committed"),
        (OURS, HoodieException, "write buckets (4): Spark failed: An exception was thrown"),
        (OURS, HoodieException, "trace below. ZeroDivisionError: division by zero; nothing was committed"),
        (LOST_FILE, HoodieException, "awaitResult: java.io.FileNotFoundException: File f.parquet does not exist; not"),
        (BOTH_SIDES, HoodieException, "SparkRuntimeException: [USER_RAISED_EXCEPTION] no such fare; nothing was"),
        (GIVEN_UP, HoodieException, "stage failure: A shuffle map stage was retried; nothing was committed"),
        (NO_MEMORY, HoodieException, "had no memory left (MemoryError); nothing was committed. Raise spark.executor."),
        ("[SPARK_JOB_CANCELLED] Job 7 cancelled part of ...", HoodieWriteException, "its Spark jobs were cancelled"),
        ("[OPERATION_CANCELED] Operation has been canceled", HoodieWriteException, "its Spark jobs were cancelled"),
        ("ModuleNotFoundError: No module named 'hoodie'", HoodieException, "workers has no module 'hoodie': install"),
        (
            "[DIVIDE_BY_ZERO] Division by zero. " + "x" * 9999,
            HoodieException,
            "Spark failed: [DIVIDE_BY_ZERO]",
        ),
    ],
)
def test_an_error_of_spark_is_told_in_a_line(text: str, kind: type[HoodieException], message: str) -> None:
    found = told(text)
    assert type(found) is kind
    assert message in str(found)
    assert len(str(found)) < 600
    assert "\n" not in str(found)


def test_other_errors_stay_as_they_are() -> None:
    assert as_hoodie_error(ValueError("mine"), "write buckets") is None


def test_an_interrupt_is_found_behind_the_error_of_its_job_and_not_behind_older_ones() -> None:
    handled: BaseException | None = None
    with pytest.raises(HoodieException) as behind:
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise PySparkException("the job was cancelled")
        except PySparkException as error:
            raise HoodieException("the write failed") from error
    assert interrupted_by_user(behind.value)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as older:
        handled = older
        with pytest.raises(HoodieException) as later:
            raise HoodieException("another write failed")  # noqa: B904
    assert interrupted_by_user(later.value)
    assert not interrupted_by_user(later.value, handled)


@pytest.mark.parametrize("is_called", [True, False])
def test_a_connection_in_the_middle_of_a_call_is_not_used_again(is_called: bool) -> None:
    connection = object()
    client = SimpleNamespace(
        thread_connection=SimpleNamespace(connection=lambda: connection),
        deque=deque([] if is_called else [connection]),
        get_thread_connection=lambda: connection,
    )
    context: Any = SimpleNamespace(_gateway=SimpleNamespace(_gateway_client=client))
    forget_broken_connection(context)
    assert (client.thread_connection.connection is None) == is_called
    # Python without pinned threads has a pool of connections.
    forget_broken_connection(SimpleNamespace(_gateway=SimpleNamespace(_gateway_client=object())))  # type: ignore[arg-type]
