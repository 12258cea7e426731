"""Ways to rewrite the groups of a clustering, by the names of Hudi's classes.

Hudi: the classes of org.apache.hudi.client.clustering.run.strategy.
"""

from __future__ import annotations

from enum import StrEnum

from hoodie.avro.timeline_metadata import HoodieClusteringStrategy
from hoodie.config.clustering_config import SORT_AND_SIZE
from hoodie.exception import HoodieClusteringException, HoodieConfigException

_PACKAGE = "org.apache.hudi.client.clustering.run.strategy."
_KEY = "hoodie.clustering.execution.strategy.class"


class Execution(StrEnum):
    """The way in which a group is rewritten."""

    SORT_AND_SIZE = "SORT_AND_SIZE"
    SINGLE_FILE = "SINGLE_FILE"


_KNOWN = {
    SORT_AND_SIZE: Execution.SORT_AND_SIZE,
    "JavaSortAndSizeExecutionStrategy": Execution.SORT_AND_SIZE,
    "SparkBinaryCopyClusteringExecutionStrategy": Execution.SORT_AND_SIZE,
    "SparkStreamCopyClusteringExecutionStrategy": Execution.SORT_AND_SIZE,
    "SparkSingleFileSortExecutionStrategy": Execution.SINGLE_FILE,
}


def execution_class(name: str) -> str:
    """The full name of Hudi's class, which a plan stores.

    Args:
        name: The value of ``hoodie.clustering.execution.strategy.class``.

    Raises:
        HoodieConfigException: hoodie cannot rewrite files in that way.
    """
    simple = name.removeprefix(_PACKAGE)
    if simple not in _KNOWN:
        raise HoodieConfigException(f"{_KEY} = {name} is not supported; supported are {', '.join(_KNOWN)}")
    return _PACKAGE + simple


def execution_of(strategy: HoodieClusteringStrategy | None, source: str) -> Execution:
    """The way in which a plan is carried out; a plan that names none is sorted and sized.

    Args:
        strategy: The strategy of the plan.
        source: The clustering, for the message.

    Raises:
        HoodieClusteringException: hoodie cannot carry it out.
    """
    name = None if strategy is None else strategy.strategy_class_name
    if not name:
        return Execution.SORT_AND_SIZE
    found = _KNOWN.get(name.rpartition(".")[2])
    if found is None:
        raise HoodieClusteringException(
            f"{source} is to be carried out by {name}, which hoodie does not have: carry it out with the writer that "
            "planned it, or roll it back"
        )
    return found
