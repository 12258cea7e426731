"""Run metrics, callbacks and services that are due after an action is complete, in this order.

The action is completed by then, so an error cannot fail it: errors are logged and kept, for
`HoodieWriteResult.service_errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.metrics.metrics import HoodieMetrics


class CompletionListener(Protocol):
    """Is told of completed actions that have a commit."""

    @property
    def is_on(self) -> bool:
        """Whether it wants to be told; looked at before each action."""

    def completed(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """An action was completed. Never raises.

        Args:
            message: The completed instant and its metadata.
        """

    def take_failures(self) -> list[str]:
        """Return the failures since the last call of this method, one line each."""


@attrs.frozen(eq=False)
class CompletionListeners:
    """The listeners of the completed actions of one client, and the services that run after them.

    Services of a client have listeners of their own: as in Hudi, callbacks are called for writes only.

    Attributes:
        metrics: Times the services.
        listeners: Are told in this order.
        services: Runs the services that are due after an instant, and returns what failed; None runs none.
    """

    metrics: HoodieMetrics
    listeners: tuple[CompletionListener, ...]
    services: Callable[[str], Iterable[str]] | None = None

    @property
    def is_on(self) -> bool:
        """Whether somebody wants to be told."""
        return any(listener.is_on for listener in self.listeners)

    def completed(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """Tell the listeners of a completed action.

        Args:
            message: The completed instant and its metadata.
        """
        for listener in self.listeners:
            if listener.is_on:
                listener.completed(message)

    def follow_up(self, instant_time: str, failures: Iterable[str] = ()) -> tuple[str, ...]:
        """Run the services that are due.

        Args:
            instant_time: The instant that was completed; the listeners were told of it.
            failures: Failures meanwhile, one line each.

        Returns:
            What failed: that, then of the listeners, then of the services.
        """
        with self.metrics.step("post-commit"):
            failed = () if self.services is None else tuple(self.services(instant_time))
            reported = [line for listener in self.listeners for line in listener.take_failures()]
            return (*failures, *reported, *failed)
