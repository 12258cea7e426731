"""The clustering that `Table.optimize` asks for: its options, and its run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.interface.results import OptimizeResult
from hoodie.table.action.commit.replaced_file_groups import check_partition_paths

logger = logging.getLogger(__name__)

_PLAN = "hoodie.clustering.plan.strategy."
_ALL_GROUPS, _ANY_SIZE = 2**31 - 1, 2**63 - 1
"""Limits of a plan: it takes everything that it finds."""


@attrs.frozen
class Optimization:
    """A clustering of everything that a table has to put together, or to order.

    Attributes:
        columns: The columns by which rows are ordered.
        config: The configuration of the client that does it.
        is_void: Whether no partition was named, so that there is nothing to do.
    """

    columns: tuple[str, ...]
    config: HoodieWriteConfig
    is_void: bool = False

    @classmethod
    def of(
        cls,
        sort_by: str | Sequence[str],
        layout: str,
        config_of: Callable[[Mapping[str, Any]], HoodieWriteConfig],
        properties: Mapping[str, Any] | None,
    ) -> Self:
        """The optimization of a whole table; see `Table.optimize`.

        Args:
            sort_by: One column, or several.
            layout: The kind of the order.
            config_of: Makes the configuration of options.
            properties: Options of the caller; they go before those that the other arguments give.

        Raises:
            HoodieConfigException: An argument or an option is wrong.
        """
        names: Iterable[Any] = sort_by if isinstance(sort_by, Iterable) else (sort_by,)
        columns = (sort_by,) if isinstance(sort_by, str) else tuple(names)
        if not all(isinstance(name, str) for name in columns):
            raise HoodieConfigException(
                f"sort_by is {shown_value(sort_by)}: give the names of columns, such as ['city']"
            )
        options: dict[str, Any] = {
            f"{_PLAN}max.num.groups": _ALL_GROUPS,
            "hoodie.layout.optimize.strategy": layout,
            f"{_PLAN}single.group.clustering.enabled": False,
        }
        if columns:
            options |= {f"{_PLAN}sort.columns": ",".join(columns), f"{_PLAN}small.file.limit": _ANY_SIZE}
        return cls(columns, config_of(options | dict(properties or {})))

    def in_partitions(self, partitions: Sequence[str] | None, load: Callable[[], TableSnapshot]) -> Self:
        """The same of some partitions; a warning names those that the table does not have.

        Args:
            partitions: The partition paths; None for all.
            load: Loads the table.

        Raises:
            HoodieConfigException: One of them is no partition path.
        """
        if partitions is None:
            return self
        chosen = tuple(check_partition_paths(partitions))
        unknown = sorted(set(chosen) - set(load().view().list_partitions())) if chosen else []
        if unknown:
            logger.warning("optimize: %s has no partition %s", self.config.base_path, ", ".join(map(repr, unknown)))
        # As a property they would be one text, and a name may hold a comma.
        clustering = attrs.evolve(self.config.clustering, partition_selected=chosen)
        config = attrs.evolve(self.config, clustering=clustering)
        return attrs.evolve(self, config=config, is_void=not chosen)

    def run(self, client: HoodieLocalWriteClient, *, dry_run: bool) -> OptimizeResult:
        """Plan it and carry it out, or tell what would be done.

        Args:
            client: A client of the configuration.
            dry_run: Whether nothing is written.
        """
        layout, pending = str(self.config.layout.strategy), tuple(client.pending_clusterings())
        nothing = OptimizeResult(None, (), self.columns, layout, dry_run, pending=pending)
        if self.is_void:
            return nothing
        if dry_run:
            return OptimizeResult.planned(client.explain_clustering(), pending)
        instant_time = client.schedule_clustering()
        return nothing if instant_time is None else nothing.done(client.cluster(instant_time))
