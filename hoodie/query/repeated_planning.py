"""Plan a read again where files that it needs were deleted while they were listed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from hoodie.avro.service_metadata import HoodieCleanerPlan
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, oldest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_listing import TimelineMovedException
from hoodie.config.clean_config import CleaningPolicy
from hoodie.exception import HoodieException, HoodieIOException, HoodiePendingOverwriteException
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

T = TypeVar("T")
logger = logging.getLogger(__name__)
_DELETING_ACTIONS = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_POLICIES_OF_COMMITS = (CleaningPolicy.KEEP_LATEST_COMMITS, CleaningPolicy.KEEP_LATEST_BY_HOURS)
_OF_NEWEST_STATE = (
    MetadataPartitionType.RECORD_INDEX,
    MetadataPartitionType.SECONDARY_INDEX,
    MetadataPartitionType.PARTITION_STATS,
)
_MAX_PLANS = 10


def plan_until_complete(load: Callable[[], TableSnapshot], plan: Callable[[TableSnapshot], T]) -> T:
    """Plan a read, and plan it again where files that it needs were deleted meanwhile.

    Partitions are listed some time after the timeline. When a clean has deleted the slices of that timeline in between,
    those file groups look as if they were not there yet, and their rows would silently be missing. So the timeline is
    listed once more, once for each read. A clean that retains what readers of older commits need is no reason to plan
    again.

    Indexes and ranges of partitions tell of the newest state, so they are read as they were at that moment. A partition
    of the metadata table that was dropped and built anew meanwhile tells of a later one. So the properties, which list
    the partitions, must not have been written since either.

    Hudi has no such checks.

    Args:
        load: Opens the table.
        plan: Lists what is to be read; called again with the table opened anew when files that it needs may have been
            deleted meanwhile, or partitions of the metadata table built.

    Raises:
        HoodieIOException: That may have been so each time.
        HoodiePendingOverwriteException: A new table is taking the place of this one.
        HoodieException: Opening or planning failed.
    """
    for _ in range(_MAX_PLANS):
        snapshot = load()
        before = snapshot.active_timeline
        try:
            result = plan(snapshot)
        except HoodieException as error:
            is_of_files = isinstance(error, HoodieIOException) and (_has_changed(before) or _may_lack_files(before))
            if not is_of_files and not _may_be_indexed_later(snapshot):
                _refuse_overwrite(snapshot, error)
                raise
        else:
            if not _may_lack_files(before) and not _may_be_indexed_later(snapshot):
                return result
        logger.info("%s was changed while it was listed; listing it again", snapshot.base_path)
    if not _may_lack_files(before):
        raise HoodieIOException(
            f"reading {snapshot.base_path}: its properties were changed each of the {_MAX_PLANS} times it was listed, "
            "so indexes may have been built anew, and rows would be missing. Read it again, or without the metadata "
            "table (hoodie.metadata.enable=false)"
        )
    raise HoodieIOException(
        f"reading {snapshot.base_path}: files were cleaned or rolled back each of the {_MAX_PLANS} times it was "
        "listed, so rows would be missing. Read it again, and let cleans retain more (hoodie.cleaner.commits.retained)"
    )


def _refuse_overwrite(snapshot: TableSnapshot, error: HoodieException) -> None:
    """Tell of a new table that is taking the place of the one that was read, instead of what it lacks meanwhile."""
    pending: HoodiePendingOverwriteException | None = None
    try:
        HoodieTableConfig.load(snapshot.storage, snapshot.base_path)
    except HoodiePendingOverwriteException as found:
        pending = found
    except HoodieException as second:
        logger.info("whether an overwrite of %s is pending is not known: %s", snapshot.base_path, second)
    if pending is not None:
        raise pending from error


def _may_be_indexed_later(snapshot: TableSnapshot) -> bool:
    """Whether partitions of the metadata table that tell of the newest state may have been built since a snapshot."""
    listed = snapshot.table_config.metadata_partitions
    if snapshot.listing_choice is None or not any(map(_tells_of_newest_state, listed)):
        return False
    return HoodieTableConfig.load(snapshot.storage, snapshot.base_path).digest != snapshot.table_config.digest


def _tells_of_newest_state(partition: str) -> bool:
    """Whether what a partition of the metadata table tells of a moment cannot be told of a later one.

    Listings and statistics of files can: files are never changed, and listings name old files until they are deleted.
    """
    return MetadataPartitionType.of_path(partition) in _OF_NEWEST_STATE


def _may_lack_files(before: HoodieActiveTimeline) -> bool:
    """Whether what was listed since may lack files that readers of a timeline need.

    With cleans after each commit this must be rare, or a table that takes long to list could never be read. The files
    that a clean retains are enough for readers that know all commits older than the first one it retains.
    """
    try:
        after = before.reload()
    except TimelineMovedException:
        # The table was upgraded.
        return True
    known = before.completed_writes().times
    if after.undone_since(known):
        # This is so before the first file of such a commit is deleted.
        return True
    if known.isdisjoint(after.completed_writes().times) and not _is_archived(after, before.completed_writes()):
        # A new table took the place of this one, whose timeline went before its files.
        return True
    # A clean that was planned before the timeline was listed leaves all that the timeline needs.
    begun = _deletions(after) - _deletions(before)
    cleans = [time for time, action in begun if action is Action.CLEAN]
    if len(cleans) < len(begun):
        return bool(cleans) or any(action is Action.RESTORE for _, action in begun)
    new = oldest(after.completed_writes().times - known)
    return new is not None and not all(_retains(after, time, new) for time in cleans)


def _is_archived(after: HoodieActiveTimeline, known: HoodieTimeline) -> bool:
    """Whether writes that are no longer active are in the archive; the newest one tells of all."""
    newest = known.last_instant
    try:
        return newest is None or after.read_archived(newest) is not None
    except HoodieException as error:
        logger.info("whether %s was archived is not known: %s", newest, error)
        return False


def _has_changed(before: HoodieActiveTimeline) -> bool:
    """Whether instants that delete files came, went on or were archived."""
    try:
        after = before.reload()
    except TimelineMovedException:
        return True
    actions = (before.filter_actions(*_DELETING_ACTIONS), after.filter_actions(*_DELETING_ACTIONS))
    return actions[0].instants != actions[1].instants or before.first_instant != after.first_instant


def _deletions(timeline: HoodieActiveTimeline) -> set[tuple[str, Action]]:
    """Times and actions of instants that delete files; a clean that is requested only has not begun to."""
    found = timeline.filter_actions(*_DELETING_ACTIONS)
    return {
        (i.requested_time, i.action) for i in found if i.action is not Action.CLEAN or i.state is not State.REQUESTED
    }


def _retains(timeline: HoodieActiveTimeline, clean_time: str, instant_time: str) -> bool:
    """Whether a clean keeps what readers need who know of no write from an instant on."""
    requested = HoodieInstant(clean_time, Action.CLEAN, State.REQUESTED)
    try:
        plan = timeline.read_as(requested, HoodieCleanerPlan)
    except HoodieException as error:
        logger.info("what a clean retains is not known: %s", error)
        return False
    earliest = plan.earliest_instant_to_retain
    return (
        plan.policy in _POLICIES_OF_COMMITS
        and earliest is not None
        and earliest.timestamp != ""
        and not is_after(earliest.timestamp, instant_time)
    )
