"""Create the callback that a configuration names, and call it; its errors do not fail the write.

Hudi: org.apache.hudi.callback.util.HoodieCommitCallbackFactory.
"""

from __future__ import annotations

import logging

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.util.class_loading import create_object
from hoodie.config.callback_config import HTTP_CALLBACK
from hoodie.config.write_config import HoodieWriteConfig

logger = logging.getLogger(__name__)

_CLASS_KEY = "hoodie.write.commit.callback.class"


def create_callback(config: HoodieWriteConfig) -> HoodieWriteCommitCallback | None:
    """Create the callback of a writer's configuration; None if it is off, or one of Hudi's that hoodie does not have.

    Raises:
        HoodieConfigException: The class cannot be loaded, is not a callback, or lacks a property that it needs.
    """
    if not config.callback.is_on or config.callback.missing_callback is not None:
        return None
    name = config.callback.class_name
    if name in (HTTP_CALLBACK, HTTP_CALLBACK.rpartition(".")[2]):
        # Imported here, so that a start without a callback takes less time.
        from hoodie.callback.http_callback import HoodieWriteCommitHttpCallback

        return HoodieWriteCommitHttpCallback(config)
    return create_object(name, _CLASS_KEY, HoodieWriteCommitCallback, config)


class CommitCallbacks:
    """Calls the callback after each commit; never fails.

    Args:
        config: The writer's configuration.

    Raises:
        HoodieConfigException: See `create_callback`.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        self._callback = create_callback(config)
        self._failures: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether there is a callback."""
        return self._callback is not None

    def tell(
        self, instant_time: str, table_name: str, base_path: str, action: str, metadata: HoodieCommitMetadata
    ) -> None:
        """Call the callback; its errors are logged, and kept for `take_failures`.

        Args:
            instant_time: The commit's instant.
            table_name: The table's name.
            base_path: The table's folder.
            action: The commit's action.
            metadata: What the commit stored.
        """
        if self._callback is None:
            return
        try:
            self._callback.call(
                HoodieWriteCommitCallbackMessage(instant_time, table_name, base_path, str(action), metadata)
            )
        except Exception as error:
            logger.warning(
                "the callback %s failed after commit %s of %s; the commit stands",
                type(self._callback).__name__, instant_time, base_path, exc_info=True,
            )  # fmt: skip
            self._failures.append(f"callback of {instant_time}: {type(error).__name__}: {error}")

    def take_failures(self) -> list[str]:
        """The errors since the last call of this method, one line each."""
        failures, self._failures = self._failures, []
        return failures
