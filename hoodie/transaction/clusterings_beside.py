"""The pending clusterings that a write wins against.

Hudi: org.apache.hudi.client.clustering.update.strategy.{SparkRejectUpdateStrategy, SparkAllowUpdateStrategy}.
"""

from __future__ import annotations

from collections.abc import Sequence

from hoodie.common.table.clustering_plans import PendingClustering
from hoodie.config.clustering_config import HoodieClusteringConfig
from hoodie.exception import HoodieConfigException

_KEY = "hoodie.clustering.updates.strategy"
_ROLLBACK_KEY = "hoodie.clustering.rollback.pending.replacecommit.on.conflict"
_STRATEGIES = {"RejectUpdateStrategy": True, "AllowUpdateStrategy": False}
"""Strategies by their names without engine: whether they refuse the write."""


def clusterings_that_give_way(config: HoodieClusteringConfig, pending: Sequence[PendingClustering]) -> list[str]:
    """The instant times of the pending clusterings that a write wins against, whatever it changes.

    Args:
        config: The strategy.
        pending: The pending clusterings of the table.

    Raises:
        HoodieConfigException: The strategy is not known, or would lose what is written.
    """
    refuses = refuses_updates(config) if pending else None
    return [one.instant.requested_time for one in pending if (one.gives_way if refuses is None else not refuses)]


def refuses_updates(config: HoodieClusteringConfig) -> bool | None:
    """Whether the strategy of a writer refuses to change what a clustering rewrites; None decides by the plan.

    Args:
        config: The strategy.

    Raises:
        HoodieConfigException: The strategy is not known, or would lose what is written.
    """
    if config.updates_strategy is None:
        return None
    simple = config.updates_strategy.rpartition(".")[2]
    for engine in ("Spark", "Flink", "Java"):
        simple = simple.removeprefix(engine)
    refuses = _STRATEGIES.get(simple)
    if refuses is None:
        raise HoodieConfigException(
            f"{_KEY} = {config.updates_strategy} is not supported; supported are "
            + ", ".join(f"Spark{name}" for name in _STRATEGIES)
        )
    if not refuses and not config.rollback_pending_on_conflict:
        raise HoodieConfigException(
            f"{_KEY} = {config.updates_strategy} without {_ROLLBACK_KEY}=true: a clustering that Hudi carries out "
            f"later would lose what is written now. Give {_ROLLBACK_KEY}=true too, or leave {_KEY} out; nothing was "
            "written"
        )
    return refuses
