"""Who is told of completed actions, and in which order."""

from __future__ import annotations

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.table.action.listeners import CompletionListeners


class Listener:
    """Notes what it is told, and keeps it as a failure."""

    def __init__(self, name: str, told: list[str], is_on: bool = True) -> None:
        self._name = name
        self._told = told
        self._failures: list[str] = []
        self.is_on = is_on

    def completed(self, message: HoodieWriteCommitCallbackMessage) -> None:
        self._told.append(f"{self._name} {message.commit_time}")
        self._failures.append(f"{self._name} failed")

    def take_failures(self) -> list[str]:
        failures, self._failures = self._failures, []
        return failures


def test_listeners_are_told_in_order_and_services_run_after_them() -> None:
    told: list[str] = []

    def services(instant_time: str) -> list[str]:
        told.append(f"services {instant_time}")
        return ["clean failed"]

    metrics = HoodieMetrics()
    listeners = CompletionListeners(
        metrics,
        (Listener("metrics", told), Listener("nobody", told, is_on=False), Listener("callback", told)),
        services,
    )
    message = HoodieWriteCommitCallbackMessage("001", "t", "/t", "commit", HoodieCommitMetadata())
    assert listeners.is_on
    listeners.completed(message)
    assert told == ["metrics 001", "callback 001"]
    with metrics.operation("upsert"):
        failed = listeners.follow_up("001", ["compaction of the metadata table failed"])
    assert told == ["metrics 001", "callback 001", "services 001"]
    assert failed == (
        "compaction of the metadata table failed", "metrics failed", "callback failed", "clean failed",
    )  # fmt: skip
    assert [step.name for step in metrics.steps] == ["post-commit"]
    assert listeners.follow_up("002") == ("clean failed",)


def test_nobody_is_told_where_nobody_wants_to_be() -> None:
    told: list[str] = []
    assert not CompletionListeners(HoodieMetrics(), (Listener("metrics", told, is_on=False),)).is_on
