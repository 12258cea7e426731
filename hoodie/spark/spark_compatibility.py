"""The differences between PySpark 3.5, PySpark 4 and Spark Connect; no other module deals with them.

Hudi: org.apache.spark.sql.adapter.BaseSpark3Adapter, for the versions of Spark that Hudi supports.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.spark.spark_hash import numbers_to_hash_inputs

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
_INTERRUPTED = re.compile(
    r"InterruptedException|JOB_CANCELLED|Job \d+ cancelled|SparkContext was shut down|OPERATION_CANCELED|"
    r"OPERATION_ABANDONED"
)
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def spark_context(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None on Spark Connect, which has no context."""
    try:
        return spark.sparkContext
    except (PySparkException, NotImplementedError, AttributeError):
        return None


def streaming_query_id(spark: SparkSession) -> str | None:
    """The id of the streaming query that calls a function with a batch; Spark keeps it in the checkpoint folder.

    Returns:
        The id; None outside of a query, and where `tells_streaming_query` is False.
    """
    context = spark_context(spark)
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def streaming_query_id_of_task() -> str | None:
    """The id of the streaming query that a task works for; None outside of one. Called in tasks."""
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(_QUERY_ID)


def tells_streaming_query(spark: SparkSession) -> bool:
    """Whether a session knows which query calls: Spark Connect does not, nor does Python without pinned threads."""
    is_pinned = os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
    return is_pinned and spark_context(spark) is not None


def was_interrupted(error: BaseException) -> bool:
    """Whether an error comes from a query, job or session that was stopped on purpose, not from the work itself."""
    seen: BaseException | None = error
    while seen is not None:
        if _INTERRUPTED.search(str(seen)):
            return True
        seen = seen.__cause__
    return False


STOPPED = (
    "the Spark session was stopped, so nothing can be read or written with it; create a new one "
    "(SparkSession.builder.getOrCreate()), its DataFrames again, and a new client"
)
_SCALA_CONTEXTS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""The JVM's context of each context: to ask for it costs a call of the JVM, and another one to forget it."""
_METHODS_OF_SESSIONS = ("createDataFrame", "range", "sql", "version")


def is_stopped(spark: Any) -> bool:
    """Whether a session has ended: by its ``stop()``, or with its JVM or server."""
    context = spark_context(spark)
    if context is None:
        return bool(getattr(spark, "is_stopped", False))
    if context._jsc is None:
        return True
    try:
        scala_context = _SCALA_CONTEXTS.get(context)
        if scala_context is None:
            scala_context = _SCALA_CONTEXTS[context] = context._jsc.sc()
        return bool(scala_context.isStopped())
    except (Py4JError, OSError):
        return True


def forget_broken_connection(context: SparkContext) -> None:
    """Let this thread talk to the JVM by a new connection, if it is interrupted in the middle of a call.

    Py4J keeps one connection for each thread. The next call would take the answer of the interrupted one for its own.

    Args:
        context: The context of a classic session.
    """
    client = getattr(context._gateway, "_gateway_client", None)
    found = getattr(client, "get_thread_connection", lambda: None)()
    if client is not None and found is not None and found not in client.deque:
        client.thread_connection.connection = None


def check_running(spark: object, argument: str = "spark") -> None:
    """Refuse anything but a running session.

    Args:
        spark: The caller's argument.
        argument: The argument's name.

    Raises:
        HoodieConfigException: It is not a session.
        HoodieException: The session was stopped.
    """
    if not all(hasattr(type(spark), name) for name in _METHODS_OF_SESSIONS):
        raise HoodieConfigException(
            f"{argument} is {shown_value(spark)}: give a SparkSession (SparkSession.builder.getOrCreate())"
        )
    if is_stopped(spark):
        raise HoodieException(STOPPED)


def is_frame(records: object) -> bool:
    """Whether this is a Spark DataFrame; in PySpark 3.5 that of Spark Connect is not a subclass of `DataFrame`."""
    is_of_connect = type(records).__module__.startswith("pyspark.sql.connect") and hasattr(records, "mapInArrow")
    return isinstance(records, DataFrame) or is_of_connect


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """All rows of a frame on the driver; timestamps may have the session's time zone.

    PySpark 3.5 has no public method for this that stays in Arrow.
    """
    if hasattr(frame, "toArrow"):
        batches: list[pa.RecordBatch] = frame.toArrow().to_batches()
        return batches
    return list(frame._collect_as_arrow())


def local_frame(spark: SparkSession, rows: pa.Table, schema: st.StructType) -> DataFrame | None:
    """A DataFrame whose rows are part of its plan, so that collecting them needs no job; None if Spark cannot make one.

    PySpark 3.5 has no public method for Arrow tables; its own method for data frames of pandas ends in the same calls.

    Args:
        spark: The session.
        rows: At least one column, in the types that Spark has in Arrow.
        schema: The same columns for Spark.
    """
    if not rows.num_rows:
        # PySpark fails on columns without chunks.
        rows = rows.schema.empty_table()
    if int(spark.version.partition(".")[0]) >= 4:
        return spark.createDataFrame(rows, schema)
    context = spark_context(spark)
    if context is None:
        return None
    jvm: Any = spark._jvm
    try:
        stream = context._serialize_to_jvm(
            rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)],
            ArrowStreamSerializer(),
            lambda path: jvm.PythonSQLUtils.readArrowStreamFromFile(path),
            lambda: jvm.ArrowIteratorServer(),
        )
        frame = jvm.PythonSQLUtils.toDataFrame(stream, schema.json(), spark._jsparkSession)
    except (Py4JError, AttributeError, TypeError) as error:
        logger.debug("this Spark does not make a DataFrame of Arrow batches: %s", error)
        return None
    return DataFrame(frame, spark)


def repartition_by_number(frame: DataFrame, number: Column, num_partitions: int) -> DataFrame:
    """Move each row to the partition with the row's number.

    PySpark 4.1 can place rows by number. Older versions place rows by hash only: each number is replaced by an integer
    whose hash falls into that partition. Adaptive execution keeps the number of partitions in both cases.

    Args:
        frame: The rows.
        number: An int expression in [0, num_partitions) for every row.
        num_partitions: The resulting number of partitions.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(num_partitions, number)
    inputs = ints_literal(numbers_to_hash_inputs(num_partitions).tolist())
    return frame.repartition(num_partitions, sf.get(inputs, number))


def ints_literal(numbers: Sequence[int]) -> Column:
    """An array of ints, as one literal that Spark folds: thousands of literals would slow down planning."""
    return sf.split(sf.lit(",".join(map(str, numbers))), ",").cast("array<int>")


def java_hash_codes(frame: DataFrame, strings: Sequence[Column]) -> list[Column] | None:
    """Java's ``String.hashCode`` of string expressions, as int expressions; None if this session cannot compute it.

    No SQL function gives it, so these are expressions that call Java's own methods, made through the gateway to the
    JVM. Spark Connect has no gateway.

    Args:
        frame: The rows.
        strings: Expressions of type string over them; a null has the hash null.
    """
    if spark_context(frame.sparkSession) is None:
        return None
    try:
        return [_java_hash_code(frame.sparkSession, string) for string in strings]
    except (Py4JError, AttributeError, TypeError) as error:
        logger.debug("this Spark does not let Python make an expression of Java's hash codes: %s", error)
        return None


def _java_hash_code(spark: SparkSession, string: Column) -> Column:
    """``string.toString().hashCode()``, where ``string`` is Spark's UTF8String and ``toString`` makes Java's String."""
    jvm: Any = spark._jvm
    types = jvm.org.apache.spark.sql.types
    invoke = jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    java_string = types.ObjectType(jvm.java.lang.Class.forName("java.lang.String"))
    java_int = getattr(getattr(types, "IntegerType$"), "MODULE$")
    # Null gives null; the result may be null, and is deterministic.
    flags = (True, True, True)
    if int(spark.version.partition(".")[0]) < 4:
        value, to_column = string._jc.expr(), jvm.org.apache.spark.sql.Column
    else:
        columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
        value, to_column = columns.expression(string._jc), columns.column
    as_java = invoke(value, "toString", java_string, nothing, nothing, *flags)
    return Column(to_column(invoke(as_java, "hashCode", java_int, nothing, nothing, *flags)))


def partition_count(frame: DataFrame) -> int | None:
    """The number of partitions of a frame; None on Spark Connect. Adaptive execution may run shuffles for it."""
    return None if spark_context(frame.sparkSession) is None else int(frame.rdd.getNumPartitions())


def pushes_filters() -> bool:
    """Whether this process is the one in which PySpark (4.1 on) pushes filters into data sources of Python.

    It has a process of its own for that, which it starts only if ``spark.sql.python.filterPushdown.enabled`` is on. No
    method of a data source gets to see the session's configuration.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", None) == _PUSHDOWN_WORKER
