"""Complete the instants of writes and of all other actions, in one order of steps.

| | step | who |
|---|---|---|
| 1 | what the action did is checked: files and markers, validators | the action |
| 2 | the lock, a new snapshot, conflicts with others | the action, as far as it needs them |
| 3 | no metadata table has come, and `check`: the lock is still held | `complete_instant` |
| 4 | the completed file is made: from here on the action counts | `complete_instant` |
| 5 | the lock is released | the action |
| 6 | markers, heartbeats and other leftovers of the action are deleted | the action |
| 7 | metrics, callbacks, services that are due | the client |

A metadata table, which must know of an action before it counts, belongs between 2 and 3. The completion time, which
names the completed file in tables of versions 8 and 9, is taken between 3 and 4. Times are given out under the table's
lock there, so actions that need no lock for anything else take it for these two steps: see `AnnouncedAction.locked`.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.table.action.table_action import no_check
from hoodie.table.metadata_table import refuse_metadata_table


def complete_instant(
    snapshot: TableSnapshot,
    instant_time: str,
    action: Action,
    metadata: attrs.AttrsInstance,
    check: Callable[[], None] = no_check,
) -> HoodieInstant | None:
    """Complete an instant of any action: the only place where one becomes complete.

    Args:
        snapshot: The table.
        instant_time: The instant, inflight.
        action: Its action.
        metadata: What was done.
        check: Called right before the file is made; when it raises, the instant stays as it is.

    Returns:
        The completed instant; None when it was complete already.

    Raises:
        HoodieCommitException: There is no inflight file: it was rolled back. Or the table has a metadata table now.
        HoodieIOException: Storage failed; nothing was completed.
    """
    if action is not Action.SAVEPOINT:
        refuse_metadata_table(snapshot, f"completing {action} {instant_time}")
    return snapshot.active_timeline.save_as_complete(instant_time, action, metadata, check)
