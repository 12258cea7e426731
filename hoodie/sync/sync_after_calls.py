"""Syncs after the actions of a client, at the end of its call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieSyncException
from hoodie.metrics.metrics import HoodieMetrics

logger = logging.getLogger(__name__)

_waiting = threading.local()


@contextmanager
def catalogs_afterwards() -> Iterator[None]:
    """Syncs that become due in a block run at its end, if it does not raise an error; those of the outermost block.

    For calls that keep other threads waiting: a slow catalog must not.
    """
    if getattr(_waiting, "syncs", None) is not None:
        yield
        return
    syncs: list[Callable[[], None]] = []
    _waiting.syncs = syncs
    try:
        yield
    finally:
        _waiting.syncs = None
    for sync in syncs:
        sync()


def at_the_end(sync: Callable[[], None]) -> None:
    """Run a sync, or keep it for the end of a block of `catalogs_afterwards`.

    Args:
        sync: The sync.
    """
    syncs: list[Callable[[], None]] | None = getattr(_waiting, "syncs", None)
    if syncs is None:
        sync()
    else:
        syncs.append(sync)


class CatalogSync:
    """Syncs a table with its catalogs after the actions of a client. Never fails, unless the user asks for it.

    Args:
        config: The writer's configuration.
        metrics: Times the syncs.
        context: The engine, which knows the metastore and the version of a Spark session.
    """

    def __init__(self, config: HoodieWriteConfig, metrics: HoodieMetrics, context: HoodieEngineContext) -> None:
        self._config = config
        self._metrics = metrics
        self._context = context
        self._is_due = False

    @property
    def is_on(self) -> bool:
        """Whether options ask for it."""
        return self._config.sync.is_on

    def note(self) -> None:
        """Note that an action of the client was completed, so that a sync is due."""
        self._is_due = self.is_on

    def run(self) -> tuple[str, ...]:
        """Sync, if that is due. Called without the table's lock.

        Returns:
            What failed, one line for each catalog.

        Raises:
            HoodieSyncException: It failed, and ``hoodie.datasource.hive_sync.ignore_exceptions = false`` is given.
        """
        if not self._is_due:
            return ()
        self._is_due = False
        # Imported here: most clients tell no catalog, and start in less time.
        from hoodie.sync.catalog_sync import sync_catalogs

        try:
            with self._metrics.step("sync the catalogs"):
                for result in sync_catalogs(self._config, context=self._context):
                    logger.info("%s", result)
        except Exception as error:
            text = (
                f"the catalogs were not told of {self._config.base_path}: {type(error).__name__}: "
                f"{str(error).rstrip('.')}. The table is not affected, and the next sync makes up for it"
            )
            if self._config.hive_sync.ignore_exceptions is False:
                raise HoodieSyncException(text) from error
            logger.warning("%s", text)
            return (f"catalog sync: {text}",)
        return ()
