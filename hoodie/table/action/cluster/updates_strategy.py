"""The fate of pending clusterings whose file groups a write changes.

| plan | carried out by | the write |
|---|---|---|
| of hoodie | nobody | wins: the plan is withdrawn as the write completes |
| of hoodie | a living process of hoodie | wins: that process leaves the file groups out |
| of hoodie | another engine | is refused: that engine would lose what is written |
| of Hudi | whoever | is refused |
| of either, with SparkAllowUpdateStrategy and a rollback on conflict | | wins: the plan is rolled back |

Hudi: org.apache.hudi.client.clustering.update.strategy.{SparkRejectUpdateStrategy, SparkAllowUpdateStrategy}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hoodie.common.table.clustering_plans import PendingClustering, pending_clusterings, planned_file_groups
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.planned_instant import delete_markers_after
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import State
from hoodie.config.clustering_config import HoodieClusteringConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieClusteringUpdateException, HoodieWriteConflictException
from hoodie.transaction.clusterings_beside import clusterings_that_give_way, refuses_updates
from hoodie.transaction.heartbeat_client import is_heartbeat_expired

FileGroupKey = tuple[str, str]
"""Partition path and file id."""


def clusterings_met(
    config: HoodieClusteringConfig,
    snapshot: TableSnapshot,
    pending: Sequence[PendingClustering],
    groups: Collection[FileGroupKey],
) -> list[PendingClustering]:
    """The pending clusterings that have some of the file groups that a write changes, and that the write wins against.

    Args:
        config: The strategy.
        snapshot: The table.
        pending: Its pending clusterings.
        groups: The file groups.

    Raises:
        HoodieClusteringUpdateException: The write must not change them.
        HoodieConfigException: The strategy is not known, or would lose what is written.
    """
    changed = set(groups)
    met = [(one, both) for one in pending if (both := sorted(changed & planned_file_groups(one.plan)))]
    if not met:
        return []
    is_refused = refuses_updates(config)
    for one, (shared, *more) in met:
        if is_refused is False or (is_refused is None and one.gives_way):
            continue
        path, file_id = shared
        raise HoodieClusteringUpdateException(
            f"records of {1 + len(more)} file groups of {snapshot.base_path} are to be changed which a pending "
            f"clustering rewrites, such as {file_id} of partition '{path}' (clustering "
            f"{one.instant.requested_time}); nothing was written. Write again when the clustering is completed, carry "
            f"it out with client.cluster({one.instant.requested_time!r}), or give it up with client.rollback("
            f"{one.instant.requested_time!r})"
        )
    return [one for one, _ in met]


def look_again(config: HoodieWriteConfig, snapshot: TableSnapshot, met: Collection[PendingClustering]) -> None:
    """Stop a write if a clustering that it wins against was completed before it could see the write.

    Call it after the write has announced what it changes. A clustering that is completed after this sees that.

    Args:
        config: The age at which a heartbeat counts as that of a dead process.
        snapshot: The table.
        met: See `clusterings_met`.

    Raises:
        HoodieWriteConflictException: It was completed, or is being completed.
    """
    if not met:
        return
    timeline = snapshot.active_timeline.reload()
    for one in met:
        time = one.instant.requested_time
        found = timeline.find(time, one.instant.action)
        if found is None or found.state is State.REQUESTED:
            continue
        if found.is_completed or _may_be_completed(config, snapshot, time):
            raise _completed(snapshot, time)


def make_way(
    config: HoodieWriteConfig,
    snapshot: TableSnapshot,
    groups: Collection[FileGroupKey],
    roll_back: Callable[[TableSnapshot, str], object],
) -> bool:
    """Withdraw the pending clusterings that a write wins against; call this under the lock as the write completes.

    Whoever carried them out later, be it Hudi, would lose what is written.

    Args:
        config: The strategy, and how old the heartbeat of a living process can be.
        snapshot: The table, just loaded.
        groups: The file groups that the write changes.
        roll_back: Rolls an instant back for good.

    Returns:
        Whether the timeline was changed.

    Raises:
        HoodieClusteringUpdateException: The write must not change them.
        HoodieWriteConflictException: A clustering is being carried out by another engine, or was completed.
    """
    timeline, is_changed = snapshot.active_timeline, False
    pending = pending_clusterings(timeline)
    if not config.write.has_several_writers:
        # With several writers, their conflict resolution strategy decides about plans of Hudi.
        clusterings_met(config.clustering, snapshot, pending, groups)
    won = set(clusterings_that_give_way(config.clustering, pending))
    for one in pending:
        time = one.instant.requested_time
        if time not in won or planned_file_groups(one.plan).isdisjoint(groups):
            continue
        if refuses_updates(config.clustering) is None:
            if not is_heartbeat_expired(snapshot, time, config.write):
                # It looks at the table again under the lock, and leaves the file groups out.
                continue
            is_changed = True
            if one.instant.state is State.REQUESTED and timeline.withdraw_requested(time, one.instant.action):
                # A process that died before the instant was inflight has left them.
                delete_markers_after(snapshot, time, f"the withdrawal of clustering {time}")
                snapshot.storage.delete_file(snapshot.heartbeat_path(time))
                continue
            if _may_be_completed(config, snapshot, time):
                raise _completed(snapshot, time)
        is_changed = True
        roll_back(snapshot, time)
    return is_changed


def _may_be_completed(config: HoodieWriteConfig, snapshot: TableSnapshot, instant_time: str) -> bool:
    """Whether a clustering that is inflight may be completed yet by a process that does not see a write.

    A process of hoodie closes its markers before it completes; one that died has left its heartbeat. Other engines have
    neither.
    """
    if WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time).is_open:
        return False
    is_of_hoodie = snapshot.storage.exists(snapshot.heartbeat_path(instant_time))
    return not (is_of_hoodie and is_heartbeat_expired(snapshot, instant_time, config.write))


def _completed(snapshot: TableSnapshot, instant_time: str) -> HoodieWriteConflictException:
    return HoodieWriteConflictException(
        f"clustering {instant_time} of {snapshot.base_path} was completed meanwhile, or is being carried out by "
        "another engine, and rewrites file groups that this write changes; nothing was committed. Write again: that is "
        "safe; hoodie.write.num.retries.on.conflict.failures=3 does so by itself",
        other_instants=[instant_time],
        is_retry_safe=True,
    )
