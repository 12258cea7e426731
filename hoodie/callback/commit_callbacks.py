"""Create the callback that a configuration names, and call it; its errors do not fail the write.

Hudi: org.apache.hudi.callback.util.HoodieCommitCallbackFactory.
"""

from __future__ import annotations

import logging

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.common.util.class_loading import create_object
from hoodie.config.callback_config import HTTP_CALLBACK
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.metrics.metrics import HoodieMetrics

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
    """Calls the callback after each commit; never fails. A `hoodie.table.action.listeners.CompletionListener`.

    Args:
        config: The writer's configuration.
        metrics: Times the calls.

    Raises:
        HoodieConfigException: See `create_callback`.
    """

    def __init__(self, config: HoodieWriteConfig, metrics: HoodieMetrics | None = None) -> None:
        self._metrics = metrics or HoodieMetrics()
        self._callback = create_callback(config)
        self._failures: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether there is a callback."""
        return self._callback is not None

    def completed(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """Call the callback; its errors are logged, and kept for `take_failures`.

        Args:
            message: The commit.
        """
        if self._callback is None:
            return
        with self._metrics.step("call the callback"):
            self._call(self._callback, message)

    def _call(self, callback: HoodieWriteCommitCallback, message: HoodieWriteCommitCallbackMessage) -> None:
        try:
            callback.call(message)
        except Exception as error:
            logger.warning(
                "the callback %s failed after commit %s of %s; the commit stands",
                type(callback).__name__, message.commit_time, message.base_path, exc_info=True,
            )  # fmt: skip
            self._failures.append(f"callback of {message.commit_time}: {type(error).__name__}: {error}")

    def take_failures(self) -> list[str]:
        """The errors since the last call of this method, one line each."""
        failures, self._failures = self._failures, []
        return failures
