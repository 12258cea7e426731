"""One action on the timeline: its kind, its request time, and its state."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import attrs

from hoodie.common.model.write_operation_type import HoodieTableType


class Action(StrEnum):
    """The kind of an action on the timeline; the value is the word in file names.

    Hudi: the ``*_ACTION`` constants of org.apache.hudi.common.table.timeline.HoodieTimeline.
    """

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    RESTORE = "restore"
    INDEXING = "indexing"
    CLUSTERING = "clustering"
    SCHEMA_COMMIT = "schemacommit"

    @property
    def completed_action(self) -> Action:
        """The action that the completed file names: a compaction completes as a commit, and so on.

        Hudi calls two actions comparable when these are equal.
        """
        return _COMPLETED_ACTIONS.get(self, self)


_COMPLETED_ACTIONS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}

COMMIT_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The completed actions that change the content of the table."""
WRITE_ACTIONS = frozenset(action for action in Action if action.completed_action in COMMIT_ACTIONS)
"""The actions that complete as one of them."""


def commit_action(table_type: HoodieTableType) -> Action:
    """The action of a write that adds or changes rows.

    Args:
        table_type: The type of the table.
    """
    return Action.DELTA_COMMIT if table_type is HoodieTableType.MERGE_ON_READ else Action.COMMIT


class State(IntEnum):
    """The state of an instant; it has the highest state of its files."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@attrs.frozen
class HoodieInstant:
    """One action on the timeline in one state.

    Attributes:
        requested_time: The instant time, 17 digits (14 in old tables); compared as a string.
        action: The kind of the action. A pending compaction is COMPACTION, a completed one COMMIT.
        state: REQUESTED, INFLIGHT or COMPLETED.
        completion_time: Its completion time, in the form of an instant time. None while it is pending, and always
            None in timeline layout 1, whose files do not hold it.
        has_legacy_name: Whether the name of its completed file lacks the completion time in timeline layout 2, as in
            tables of early releases; the time is then that of the file's last change.
        key: The identity that all states of one instant share, also a compaction and the commit that completes it.
        newest_time: The later of requested and completion time; the requested time if there is no completion time.

    Hudi: org.apache.hudi.common.table.timeline.HoodieInstant.
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None
    has_legacy_name: bool = False
    # Computed once: the same instants are compared in each listing.
    key: tuple[str, Action] = attrs.field(init=False, eq=False, repr=False)
    newest_time: str = attrs.field(init=False, eq=False, repr=False)

    @key.default
    def _key(self) -> tuple[str, Action]:
        return self.requested_time, self.action.completed_action

    @newest_time.default
    def _newest_time(self) -> str:
        return max(self.requested_time, self.completion_time or "")

    @property
    def is_requested(self) -> bool:
        """Whether only the request exists."""
        return self.state is State.REQUESTED

    @property
    def is_completed(self) -> bool:
        """Whether the action has completed."""
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        """Whether the action is requested or inflight."""
        return self.state is not State.COMPLETED

    def in_state(self, state: State) -> HoodieInstant:
        """This instant in another state, without a completion time, which later layouts need for the completed one."""
        return HoodieInstant(self.requested_time, self.action, state)

    @property
    def sort_key(self) -> tuple[str, Action, State]:
        """The order on a timeline: by time, a commit before the savepoint of the same time."""
        return *self.key, self.state

    def __str__(self) -> str:
        return f"{self.requested_time} {self.action} ({self.state.name})"
