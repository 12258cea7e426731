"""What Spark's plan says of a DataFrame before a job runs: whether it is cheap to read twice, and how large it is.

The answers only choose the faster way. They need the JVM of a classic session; on Spark Connect nothing is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from hoodie.engine.data import Rereading
from hoodie.spark.spark_compatibility import spark_context

__all__ = ["planned_bytes", "rereading_of"]

_OPERATORS = frozenset({"Filter", "Project", "ResolvedHint", "SubqueryAlias", "Union", "View"})
"""Operators that cost little, and give the same rows each time if their expressions do."""
_COLUMNAR = ("ParquetFileFormat", "OrcFileFormat")
"""Formats that read single columns."""
_DOUBTFUL = re.compile(
    r"UDF|Udf|UserDefined|Subquery|Exists|PythonFunction|Current|^Now|LocalTimestamp|InputFile|Invoke|Reflection"
)
"""Names of expressions that may give other values the next time, cost much, or run code of the user."""
_MOST_EXPRESSIONS = 1_000
"""Larger plans are not looked through: each expression costs a call of the JVM."""


def rereading_of(frame: DataFrame) -> Rereading:
    """Whether a frame may be read twice.

    It is cheap for scans of Parquet and ORC files with projections and filters, for literal rows, and for rows that the
    caller keeps with ``cache()``. Expressions must be deterministic; functions of the current time, subqueries and
    functions of the user count as not deterministic.

    Args:
        frame: The rows. No job runs.
    """
    if spark_context(frame.sparkSession) is None:
        return Rereading.NO
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        return Rereading.CHEAP
    plan = _plan(frame).analyzed()
    is_cheap = plan.deterministic() and _is_cheap(plan, [_MOST_EXPRESSIONS])
    return Rereading.CHEAP if is_cheap else Rereading.POSSIBLE


def planned_bytes(frame: DataFrame) -> int:
    """The size that Spark's planner expects: of a scan, that of its files in proportion to the columns that it reads.

    Args:
        frame: The rows. No job runs.
    """
    if spark_context(frame.sparkSession) is None:
        return sys.maxsize
    return int(str(_plan(frame).optimizedPlan().stats().sizeInBytes()))


def _plan(frame: DataFrame) -> Any:
    """The frame's ``QueryExecution`` in the JVM."""
    return frame._jdf.queryExecution()


def _is_cheap(plan: Any, budget: list[int]) -> bool:
    name = _class_name(plan)
    if name in ("LocalRelation", "OneRowRelation"):
        return True
    if name == "LogicalRelation":
        relation = plan.relation()
        return _class_name(relation) == "HadoopFsRelation" and _class_name(relation.fileFormat()) in _COLUMNAR
    if name not in _OPERATORS:
        return False
    expressions = _items(plan.expressions())
    return all(_is_repeatable(one, budget) for one in expressions) and all(
        _is_cheap(child, budget) for child in _items(plan.children())
    )


def _is_repeatable(expression: Any, budget: list[int]) -> bool:
    budget[0] -= 1
    if budget[0] < 0 or _DOUBTFUL.search(_class_name(expression)):
        return False
    return all(_is_repeatable(child, budget) for child in _items(expression.children()))


def _class_name(value: Any) -> str:
    return str(value.getClass().getSimpleName()).rstrip("$")


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))
