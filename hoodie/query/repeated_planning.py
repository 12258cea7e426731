"""Repeated planning of a read whose files were deleted while they were listed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, oldest
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_listing import TimelineMovedException
from hoodie.exception import HoodieException, HoodieIOException, HoodiePendingOverwriteException
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

T = TypeVar("T")
logger = logging.getLogger(__name__)
_DELETING_ACTIONS = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_OF_NEWEST_STATE = (
    MetadataPartitionType.RECORD_INDEX,
    MetadataPartitionType.SECONDARY_INDEX,
    MetadataPartitionType.PARTITION_STATS,
)
_MAX_PLANS = 10


def plan_until_complete(load: Callable[[], TableSnapshot], plan: Callable[[TableSnapshot], T]) -> T:
    """Plan a read, and plan it again if files that it needs were deleted meanwhile.

    Partitions are listed some time after the timeline. If a clean deletes slices of that timeline in between, their
    file groups look as if they did not exist yet, and their rows would silently be missing. So the timeline is listed
    once more after each read. A clean that retains the files of readers of older commits is no reason to plan again.

    Indexes and statistics of partitions describe the newest state, and are read as of the snapshot. A partition of the
    metadata table that was dropped and built again meanwhile describes a later state. So the properties, which list the
    partitions, must be unchanged, too.

    Hudi has no such checks.

    Args:
        load: Opens the table.
        plan: Plans the read. It is called again with a newly opened table if files may have been deleted, or partitions
            of the metadata table built, meanwhile.

    Raises:
        HoodieIOException: Every try may have lacked files or read a later index.
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
    """Raise the error of a pending overwrite, if there is one, in place of the error that it caused."""
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
    """Whether partitions of the metadata table that describe the newest state may have been built since a snapshot."""
    listed = snapshot.table_config.metadata_partitions
    if snapshot.listing_choice is None or not any(map(_tells_of_newest_state, listed)):
        return False
    return HoodieTableConfig.load(snapshot.storage, snapshot.base_path).digest != snapshot.table_config.digest


def _tells_of_newest_state(partition: str) -> bool:
    """Whether a partition of the metadata table is valid only for the newest state of the table.

    Listings and statistics of files are valid for older states, too: files never change, and listings name old files
    until they are deleted.
    """
    return MetadataPartitionType.of_path(partition) in _OF_NEWEST_STATE


def _may_lack_files(before: HoodieActiveTimeline) -> bool:
    """Whether a listing made after a timeline was loaded may lack files that readers of the timeline need.

    The answer must rarely be yes even with a clean after each commit, or a table that takes long to list could never be
    read. The files that a clean retains are enough for readers that know all commits before the first retained one.
    """
    try:
        after = before.reload()
    except TimelineMovedException:
        # The table was upgraded.
        return True
    known = before.completed_writes().times
    if after.undone_since(known):
        # An instant leaves the timeline before its first file is deleted.
        return True
    if known.isdisjoint(after.completed_writes().times) and not _is_archived(after, before.completed_writes()):
        # A new table took the place of this one: its timeline is replaced before its files.
        return True
    # A clean that was planned before the timeline was listed keeps all files that the timeline needs.
    begun = _deletions(after) - _deletions(before)
    cleans = [time for time, action in begun if action is Action.CLEAN]
    if len(cleans) < len(begun):
        return bool(cleans) or any(action is Action.RESTORE for _, action in begun)
    new = oldest(after.completed_writes().times - known)
    return new is not None and not all(_retains(after, time, new) for time in cleans)


def _is_archived(after: HoodieActiveTimeline, known: HoodieTimeline) -> bool:
    """Whether writes that are no longer active are in the archive. The newest one decides for all."""
    newest = known.last_instant
    try:
        return newest is None or after.read_archived(newest) is not None
    except HoodieException as error:
        logger.info("whether %s was archived is not known: %s", newest, error)
        return False


def _has_changed(before: HoodieActiveTimeline) -> bool:
    """Whether instants that delete files appeared, changed state or were archived."""
    try:
        after = before.reload()
    except TimelineMovedException:
        return True
    actions = (before.filter_actions(*_DELETING_ACTIONS), after.filter_actions(*_DELETING_ACTIONS))
    return actions[0].instants != actions[1].instants or before.first_instant != after.first_instant


def _deletions(timeline: HoodieActiveTimeline) -> set[tuple[str, Action]]:
    """Times and actions of instants that delete files. A clean that is only requested has deleted nothing yet."""
    found = timeline.filter_actions(*_DELETING_ACTIONS)
    return {
        (i.requested_time, i.action) for i in found if i.action is not Action.CLEAN or i.state is not State.REQUESTED
    }


def _retains(timeline: HoodieActiveTimeline, clean_time: str, instant_time: str) -> bool:
    """Whether a clean keeps all files for readers that know no write from an instant on."""
    # Imported here: few reads meet a clean, and the others start earlier without.
    from hoodie.avro.service_metadata import HoodieCleanerPlan
    from hoodie.config.clean_config import CleaningPolicy

    requested = HoodieInstant(clean_time, Action.CLEAN, State.REQUESTED)
    try:
        plan = timeline.read_as(requested, HoodieCleanerPlan)
    except HoodieException as error:
        logger.info("what a clean retains is not known: %s", error)
        return False
    earliest = plan.earliest_instant_to_retain
    return (
        plan.policy in (CleaningPolicy.KEEP_LATEST_COMMITS, CleaningPolicy.KEEP_LATEST_BY_HOURS)
        and earliest is not None
        and earliest.timestamp != ""
        and not is_after(earliest.timestamp, instant_time)
    )
