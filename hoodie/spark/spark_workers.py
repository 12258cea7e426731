"""The software in Spark's Python workers, checked before the first job of a session writes anything.

Without this check, a worker without hoodie shows up only in tracebacks of every attempt of every task.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.spark.spark_compatibility import check_running, spark_context
from hoodie.spark.spark_errors import MEMORY_OPTION, MISSING_MODULE
from hoodie.spark.spark_jobs import described_job

LEAST_WORKER_BYTES = 640 << 20
"""Below this limit of its address space a worker cannot write the smallest file: libraries alone take most of it."""
_CHECKED: set[str] = set()
"""The sessions whose workers were asked."""


def check_workers(spark: SparkSession) -> None:
    """Refuse workers that cannot import hoodie, or have too little memory; one small job for each session.

    Args:
        spark: The session.

    Raises:
        HoodieConfigException: ``spark.executor.pyspark.memory`` leaves a worker too little.
        HoodieException: The workers' Python cannot import hoodie; or the session was stopped.
    """
    check_running(spark)
    context = spark_context(spark)
    session = str(getattr(spark, "session_id", id(spark)) if context is None else context.applicationId)
    if session in _CHECKED:
        return
    with described_job(spark, "hoodie: check the Python workers"):
        look = sf.udf(_look(), "string", useArrow=False)
        rows = spark.range(0, 1, 1, 1).select(look(sf.col("id").cast("string")).alias("found")).collect()
    found = json.loads(rows[0].found)
    if found["missing"]:
        raise HoodieException(MISSING_MODULE.format(found["missing"]))
    if found["failed"]:
        raise HoodieException(
            f"the Python of Spark's workers ({found['python']}) cannot import hoodie: {found['failed']}. Nothing was "
            "committed"
        )
    if 0 <= found["limit"] < LEAST_WORKER_BYTES:
        raise HoodieConfigException(
            f"{MEMORY_OPTION} leaves each Python worker {found['limit'] >> 20} MiB (it is shared by the cores of an "
            f"executor), and a worker that writes a table needs at least {LEAST_WORKER_BYTES >> 20} MiB of address "
            "space: raise it, give an executor fewer cores, or leave the option out. Nothing was written"
        )
    _CHECKED.add(session)


def _look() -> Callable[[str], str]:
    """Task: the software of a worker. A nested function is sent as a whole; others are sent by the name of
    their module.
    """

    def look(_: str) -> str:
        import importlib
        import json
        import sys

        found = {"python": sys.executable, "missing": "", "failed": "", "limit": -1}
        try:
            import resource

            found["limit"] = resource.getrlimit(resource.RLIMIT_AS)[0]
        except ImportError:
            pass
        try:
            importlib.import_module("hoodie.spark.spark_steps")
        except ModuleNotFoundError as error:
            found["missing"] = error.name or str(error)
        except Exception as error:
            found["failed"] = f"{type(error).__name__}: {error}"
        return json.dumps(found)

    return look
