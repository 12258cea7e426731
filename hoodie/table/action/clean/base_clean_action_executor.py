"""What planning a clean and carrying it out have in common."""

from __future__ import annotations

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.clean_config import HoodieCleanConfig
from hoodie.engine.engine_context import HoodieEngineContext

__all__ = ["BaseCleanActionExecutor"]


class BaseCleanActionExecutor:
    """A step of a clean.

    Args:
        context: The engine.
        clean: The policy.
        snapshot: The table, its timeline freshly loaded.
        may_delete_partitions: Whether folders of partitions of which nothing is left may go: only where no other writer
            can be about to write there.
    """

    def __init__(
        self,
        context: HoodieEngineContext,
        clean: HoodieCleanConfig,
        snapshot: TableSnapshot,
        may_delete_partitions: bool = True,
    ) -> None:
        self._context = context
        self._clean = clean
        self._snapshot = snapshot
        self._may_delete_partitions = may_delete_partitions
        self._storage = snapshot.storage
