"""Properties of a DataFrame by Spark's plan, before a job runs: whether it is cheap to read twice, and its size.

The answers only choose the faster way. They need the JVM of a classic session; on Spark Connect they are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame

from hoodie.engine.data import Rereading
from hoodie.spark.spark_compatibility import spark_context

SMALL_BYTES = 1 << 20
"""Files up to this size are collected without measuring their rows first."""
LARGE_FACTOR = 4
"""If files are this many times larger than the limit, rows are not measured: their rows exceed the limit, too."""

_OPERATORS = frozenset({"Filter", "Project", "ResolvedHint", "SubqueryAlias", "Union", "View"})
"""Operators that cost little, and give the same rows each time if their expressions do."""
_COLUMNAR = ("ParquetFileFormat", "OrcFileFormat")
"""Formats that read single columns."""
_DOUBTFUL = ("CURRENT_LIKE", "INVOKE", "PLAN_EXPRESSION", "PYTHON_UDF", "SCALA_UDF")
"""Kinds of expressions that may give other values the next time, cost much, or run code of the user.

Spark marks every part of a plan with the kinds that it contains: to ask costs one call of the JVM, whatever the number
of columns.
"""
_ADAPTIVE = "AdaptiveSparkPlanExec"
"""The physical plan of a frame that needs a shuffle or a broadcast, with adaptive execution (Spark's default)."""
_STAGES = frozenset({"BroadcastQueryStageExec", "ShuffleQueryStageExec", "TableCacheQueryStageExec"})
"""The results of stages that ran; they stay until nobody refers to the plan any more."""
_LAST_OPERATORS = frozenset(
    {
        "AQEShuffleReadExec",
        "BroadcastHashJoinExec",
        "ColumnarToRowExec",
        "FilterExec",
        "HashAggregateExec",
        "InMemoryTableScanExec",
        "InputAdapter",
        "LocalTableScanExec",
        "ObjectHashAggregateExec",
        "ProjectExec",
        "ShuffledHashJoinExec",
        "SortAggregateExec",
        "SortExec",
        "SortMergeJoinExec",
        "UnionExec",
        "WholeStageCodegenExec",
        "WindowExec",
        "WindowGroupLimitExec",
    }
)
"""Physical operators that cost less than to keep their rows."""
_MOST_OPERATORS = 300
"""Larger plans are not searched: each operator costs some calls of the JVM."""


def rereading_of(frame: DataFrame) -> Rereading:
    """Whether a frame may be read twice.

    It is cheap for scans of Parquet and ORC files with projections and filters, for literal rows, and for rows that the
    caller keeps with ``cache()``. Expressions must be deterministic; functions of the current time, subqueries and
    functions of the user count as not deterministic.

    Args:
        frame: The rows. No job runs.
    """
    context = spark_context(frame.sparkSession)
    if context is None:
        return Rereading.NO
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        return Rereading.CHEAP
    try:
        is_cheap = _is_repeatable(_plan(frame).analyzed(), context) and _is_cheap(_plan(frame).analyzed())
    except (Py4JError, TypeError):
        # The platform guards its JVM, or this version of Spark has no such methods.
        is_cheap = False
    return Rereading.CHEAP if is_cheap else Rereading.POSSIBLE


@attrs.frozen(eq=False)
class ShuffledQuery:
    """A query that needs shuffles or broadcasts, under adaptive execution.

    Attributes:
        frame: The rows, as a frame that nobody else has: a later write of the same rows reads what their sources have
            by then, and what the caller does with them is planned as ever.
    """

    frame: DataFrame

    @classmethod
    def of(cls, frame: DataFrame) -> ShuffledQuery | None:
        """The query of a frame; None if it needs no shuffles, or the JVM is out of reach.

        Rows that the caller observes (`DataFrame.observe`) have none either: what is observed is told when a query has
        read all rows, and these stages do not.

        Args:
            frame: The rows. No job runs; Spark plans the query.
        """
        if spark_context(frame.sparkSession) is None:
            return None
        own = frame.select("*")
        try:
            execution = _plan(own)
            if _class_name(execution.executedPlan()) != _ADAPTIVE or not execution.observedMetrics().isEmpty():
                return None
        except (Py4JError, TypeError):
            return None
        return cls(own)

    def run(self) -> tuple[DataFrame, Rereading]:
        """Run all stages but the last one.

        Shuffles and broadcasts are done once, however often the rows are read, and Spark joins their small partitions;
        it does neither for rows that it keeps.

        Returns:
            The same rows, computed by the last stage; and whether to read them twice. That is cheap if the last stage
            has joins, aggregations, windows, sorts, projections, filters and scans of Parquet or ORC files alone, and
            all expressions are deterministic.
        """
        session, query = self.frame.sparkSession, _plan(self.frame)
        # The iterator is not used. It runs the stages as a query of Spark's: tasks see the session's configuration, and
        # Spark's pages the query. What is asked for the rows after that runs nothing.
        self.frame._jdf.toLocalIterator()
        rows = query.toRdd()
        schema = self.frame._jdf.schema()
        found = DataFrame(session._jsparkSession.internalCreateDataFrame(rows, schema, False), session)
        try:
            is_fixed = _is_repeatable(query.optimizedPlan(), session.sparkContext)
            is_cheap = is_fixed and _ends_cheaply(query.executedPlan())
        except (Py4JError, TypeError):
            is_cheap = False
        return found, Rereading.CHEAP if is_cheap else Rereading.POSSIBLE


def in_few_tasks(frame: DataFrame) -> DataFrame:
    """The same rows, in as few partitions as adaptive execution makes of them: Spark does not do that for rows that it
    keeps. An action if the rows need a shuffle.

    Args:
        frame: The rows, which are to be kept.
    """
    query = ShuffledQuery.of(frame)
    return frame if query is None else query.run()[0]


def _ends_cheaply(plan: Any) -> bool:
    """Whether the operators after the last stages that ran are cheap.

    Args:
        plan: The adaptive plan, all stages of which ran.
    """
    pending = [plan.executedPlan()]
    for _ in range(_MOST_OPERATORS):
        if not pending:
            return True
        plan = pending.pop()
        name = _class_name(plan)
        if name in _STAGES:
            continue
        if name == "ResultQueryStageExec":
            # The last stage of PySpark 4, which holds its operators.
            pending.append(plan.plan())
        elif name == "FileSourceScanExec":
            if _class_name(plan.relation().fileFormat()) not in _COLUMNAR:
                return False
        elif name in _LAST_OPERATORS:
            pending += _items(plan.children())
        else:
            return False
    return False


def known_to_fit(frame: DataFrame, most: int) -> bool | None:
    """Whether the rows of a cheap frame take at most the given number of Arrow bytes.

    The planner does not know the content of columns: one of a thousand columns may be as large as all its files.

    Args:
        frame: The rows. No job runs.
        most: The limit in bytes.

    Returns:
        None if only a measurement can decide.
    """
    stored = _stored_bytes(frame)
    if stored is None:
        return None
    if stored <= min(most, SMALL_BYTES):
        return True
    return False if planned_bytes(frame) > LARGE_FACTOR * most else None


def planned_bytes(frame: DataFrame) -> int:
    """The size that Spark's planner expects: of a scan, that of its files in proportion to the types that it reads.

    Args:
        frame: The rows. No job runs.
    """
    return _size(_plan(frame).optimizedPlan())


def _stored_bytes(frame: DataFrame) -> int | None:
    """The size of the files that a frame reads: the columns and rows that are left out count as well.

    Returns:
        None if Spark may only guess: of rows that the caller keeps, and where the catalog's statistics stand for a list
        of files.
    """
    total = 0
    for leaf in _items(_plan(frame).optimizedPlan().collectLeaves()):
        if _class_name(leaf) == "LogicalRelation":
            location = leaf.relation().location()
            if _class_name(location) != "InMemoryFileIndex":
                return None
            total += int(location.sizeInBytes())
        elif _class_name(leaf) in ("InMemoryRelation", "LogicalRDD"):
            return None
        else:
            total += _size(leaf)
    return total


def _plan(frame: DataFrame) -> Any:
    """The frame's ``QueryExecution`` in the JVM."""
    return frame._jdf.queryExecution()


def _size(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))


def _is_repeatable(plan: Any, context: SparkContext) -> bool:
    """Whether all expressions of a plan give the same values again."""
    kinds = context._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return plan.deterministic() and not any(plan.containsPattern(getattr(kinds, name)()) for name in _DOUBTFUL)


def _is_cheap(plan: Any) -> bool:
    """Whether all operators of a plan are cheap, but for their expressions."""
    pending = [plan]
    for _ in range(_MOST_OPERATORS):
        if not pending:
            return True
        plan = pending.pop()
        name = _class_name(plan)
        if name == "LogicalRelation":
            relation = plan.relation()
            if _class_name(relation) != "HadoopFsRelation" or _class_name(relation.fileFormat()) not in _COLUMNAR:
                return False
        elif name in _OPERATORS:
            pending += _items(plan.children())
        elif name not in ("LocalRelation", "OneRowRelation"):
            return False
    return False


def _class_name(value: Any) -> str:
    return str(value.getClass().getSimpleName()).rstrip("$")


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))
