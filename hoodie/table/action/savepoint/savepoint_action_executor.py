"""Keep the files of a commit from being cleaned, so that the table can be restored to it.

Hudi: org.apache.hudi.table.action.savepoint.{SavepointActionExecutor, SavepointHelpers}.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import attrs

from hoodie.avro.timeline_metadata import decode_record, encode_record
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieException, HoodieSavepointException
from hoodie.storage.storage_path import join
from hoodie.table.action.clean.pending_cleans import files_being_cleaned
from hoodie.table.table_state import files_at, missing_at

__all__ = ["HoodieSavepoint", "SavepointActionExecutor", "delete_savepoint", "savepoints"]

logger = logging.getLogger(__name__)

_RECORD = "HoodieSavepointMetadata"


def _no_check() -> None:
    pass


@attrs.frozen
class HoodieSavepoint:
    """A savepoint.

    Attributes:
        instant_time: The commit that it keeps.
        user: Who made it, "" when not said.
        comment: Why, "" when not said.
        created_ms: When, in milliseconds since 1970.
        files: Partition path to the names of the files that it keeps.

    Hudi: org.apache.hudi.avro.model.HoodieSavepointMetadata.
    """

    instant_time: str
    user: str = ""
    comment: str = ""
    created_ms: int = 0
    files: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, repr=False)

    @property
    def num_files(self) -> int:
        """How many files it keeps."""
        return sum(map(len, self.files.values()))

    def encode(self) -> bytes:
        """The content of its completed file."""
        partitions = {
            path: {"partitionPath": path, "savepointDataFile": list(names)} for path, names in self.files.items()
        }
        return encode_record(
            _RECORD,
            {
                "savepointedBy": self.user,
                "savepointedAt": self.created_ms,
                "comments": self.comment,
                "partitionMetadata": partitions,
                "version": 1,
            },
        )

    @classmethod
    def read(cls, timeline: HoodieActiveTimeline, instant: HoodieInstant) -> HoodieSavepoint:
        """Read a completed one.

        Raises:
            HoodieCorruptedDataException: Its file is damaged.
        """
        value = decode_record(timeline.read_details(instant), _RECORD, timeline.path_of(instant))
        files = {path: tuple(kept["savepointDataFile"]) for path, kept in value["partitionMetadata"].items()}
        return cls(instant.requested_time, value["savepointedBy"], value["comments"], value["savepointedAt"], files)


def savepoints(timeline: HoodieActiveTimeline) -> list[HoodieSavepoint]:
    """The completed savepoints, the oldest first."""
    completed = timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
    return [HoodieSavepoint.read(timeline, instant) for instant in completed]


class SavepointActionExecutor:
    """Makes a savepoint.

    Args:
        snapshot: The table, its timeline freshly loaded.
        check: Called right before the savepoint is there; what it raises leaves none.

    Hudi: org.apache.hudi.table.action.savepoint.SavepointActionExecutor.
    """

    def __init__(self, snapshot: TableSnapshot, check: Callable[[], None] = _no_check) -> None:
        self._snapshot = snapshot
        self._check = check

    def execute(self, instant_time: str, user: str = "", comment: str = "") -> HoodieSavepoint:
        """Keep the files that readers of a commit read.

        What a maker that died left half done is finished.

        Args:
            instant_time: A completed commit or replacecommit of the active timeline.
            user: Who asks.
            comment: Why.

        Raises:
            HoodieSavepointException: There is no such commit, it is savepointed already, files of it were cleaned, or a
                clean is pending.
        """
        timeline = self._snapshot.active_timeline
        where = f"{instant_time} of {self._snapshot.base_path} cannot be savepointed"
        commits = timeline.commits_timeline().filter_completed_instants()
        if not commits.contains(instant_time):
            newest = commits.last_instant
            raise HoodieSavepointException(
                f"{where}: there is no completed commit of that time in the active timeline"
                + (f"; the newest is {newest.requested_time}" if newest is not None else "")
            )
        existing = timeline.find(instant_time, Action.SAVEPOINT)
        if existing is not None and existing.is_completed:
            raise HoodieSavepointException(
                f"{where}: it is already; delete_savepoint({instant_time!r}) takes that savepoint away"
            )
        cleaning = timeline.filter_actions(Action.CLEAN).filter_pending().first_instant
        if cleaning is not None:
            raise HoodieSavepointException(
                f"{where}: clean {cleaning.requested_time} is pending, and may be deleting files. Let it end, or "
                "finish it by clean()"
            )
        self._refuse_cleaned(instant_time, where)
        savepoint = HoodieSavepoint(
            instant_time, user, comment, int(time.time() * 1000), files_at(self._snapshot, instant_time)
        )
        timeline.transition_requested_to_inflight(instant_time, Action.SAVEPOINT)
        try:
            self._check()
        except HoodieException:
            timeline.delete_pending(instant_time, Action.SAVEPOINT)
            raise
        if not timeline.save_as_complete(instant_time, Action.SAVEPOINT, savepoint.encode()):
            raise HoodieSavepointException(f"{where}: somebody else has done so just now")
        self._withdraw_if_cleaned(savepoint, where)
        logger.info("savepointed %s of %s: %d files", instant_time, self._snapshot.base_path, savepoint.num_files)
        return savepoint

    def _refuse_cleaned(self, instant_time: str, where: str) -> None:
        missing = missing_at(self._snapshot, instant_time)
        if missing:
            raise HoodieSavepointException(
                f"{where}: its version of {len(missing)} file groups was cleaned, such as {missing[0]}. Savepoint a "
                "later commit, or raise hoodie.cleaner.commits.retained for the future"
            )

    def _withdraw_if_cleaned(self, savepoint: HoodieSavepoint, where: str) -> None:
        """A clean that was planned before the savepoint was seen may have deleted its files since, or be about to."""
        base_path = self._snapshot.base_path
        # Before files are listed: what a clean deleted that was completed since is not there any more.
        going = files_being_cleaned(self._snapshot.reload_active_timeline())
        if self._snapshot.archived_timeline.commits_timeline().contains(savepoint.instant_time):
            delete_savepoint(self._snapshot, savepoint.instant_time)
            raise HoodieSavepointException(f"{where}: it is being archived. Savepoint a later commit")
        for partition_path, names in savepoint.files.items():
            listed = {status.name for status in self._snapshot.storage.list_directory(join(base_path, partition_path))}
            gone = [name for name in names if name not in listed or (partition_path, name) in going]
            if gone:
                self._snapshot.reload_active_timeline()
                delete_savepoint(self._snapshot, savepoint.instant_time)
                raise HoodieSavepointException(
                    f"{where}: a clean deletes {gone[0]} of partition '{partition_path}' at the same moment; the "
                    "savepoint was taken back. Savepoint a later commit"
                )


def delete_savepoint(snapshot: TableSnapshot, instant_time: str) -> bool:
    """Take a savepoint away: its files are cleaned as all others from then on.

    Args:
        snapshot: The table, its timeline freshly loaded.
        instant_time: Of the savepoint.

    Returns:
        False when there is none.

    Hudi: org.apache.hudi.table.action.savepoint.SavepointHelpers.deleteSavepoint.
    """
    timeline = snapshot.active_timeline
    savepoint = timeline.find(instant_time, Action.SAVEPOINT)
    if savepoint is None:
        return False
    if savepoint.state is State.COMPLETED:
        timeline.revert_completed_to_inflight(instant_time, Action.SAVEPOINT)
    timeline.delete_pending(instant_time, Action.SAVEPOINT)
    logger.info("deleted savepoint %s of %s", instant_time, snapshot.base_path)
    return True
