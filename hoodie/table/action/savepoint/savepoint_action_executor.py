"""Keep the files of a commit from being cleaned, so that the table can be restored to it.

Hudi: org.apache.hudi.table.action.savepoint.{SavepointActionExecutor, SavepointHelpers}.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import attrs

from hoodie.avro.service_metadata import HoodieSavepointMetadata, HoodieSavepointPartitionMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieException, HoodieSavepointException
from hoodie.table.action.action import AnnouncedAction
from hoodie.table.action.clean.pending_cleans import files_being_cleaned
from hoodie.table.action.completion import complete_instant
from hoodie.table.slices_of_other_version import slice_of_other_version
from hoodie.table.table_state import files_at, missing_at

logger = logging.getLogger(__name__)


@attrs.frozen
class HoodieSavepoint:
    """A savepoint.

    Attributes:
        instant_time: The commit that it keeps.
        user: The name of its maker; "" if none is stored.
        comment: Why it was made; "" without a comment.
        created_ms: The time of its creation, in milliseconds since 1970.
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
        """The number of files that it keeps."""
        return sum(map(len, self.files.values()))

    @property
    def metadata(self) -> HoodieSavepointMetadata:
        """The content of its completed file."""
        partitions = {path: HoodieSavepointPartitionMetadata(path, names) for path, names in self.files.items()}
        return HoodieSavepointMetadata(self.user, self.created_ms, self.comment, partitions)

    @classmethod
    def read(cls, timeline: HoodieActiveTimeline, instant: HoodieInstant) -> HoodieSavepoint:
        """Read a completed savepoint.

        Raises:
            HoodieCorruptedDataException: Its file is damaged.
        """
        read = timeline.read_as(instant, HoodieSavepointMetadata)
        files = {path: kept.savepoint_data_file for path, kept in read.partition_metadata.items()}
        return cls(instant.requested_time, read.savepointed_by, read.comments, read.savepointed_at, files)


def savepoints(timeline: HoodieActiveTimeline) -> list[HoodieSavepoint]:
    """The completed savepoints, the oldest first."""
    completed = timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
    return [HoodieSavepoint.read(timeline, instant) for instant in completed]


class SavepointActionExecutor(AnnouncedAction[HoodieSavepoint]):
    """Makes a savepoint: keeps the files that readers of a commit read.

    A savepoint that another process left half done when it died is finished.

    Args:
        snapshot: The table, just loaded.
        instant_time: A completed commit or replacecommit of the active timeline.
        user: The name of its maker.
        comment: Why it is made.

    Hudi: org.apache.hudi.table.action.savepoint.SavepointActionExecutor.
    """

    kind = Action.SAVEPOINT

    def __init__(self, snapshot: TableSnapshot, instant_time: str, user: str = "", comment: str = "") -> None:
        super().__init__(snapshot)
        self._instant_time = instant_time
        self._user = user
        self._comment = comment
        self._where = f"{instant_time} of {snapshot.base_path} cannot be savepointed"

    def plan(self) -> HoodieSavepoint:
        """The files of the commit.

        Raises:
            HoodieSavepointException: There is no such commit, it is savepointed already, files of it were cleaned, or a
                clean is pending.
        """
        instant_time, timeline = self._instant_time, self.snapshot.active_timeline
        commits = timeline.completed_writes()
        if not commits.contains(instant_time):
            newest = commits.last_instant
            raise self._refusal(
                "there is no completed commit of that time in the active timeline"
                + (f"; the newest is {newest.requested_time}" if newest is not None else "")
            )
        existing = timeline.find(instant_time, self.kind)
        if existing is not None and existing.is_completed:
            raise self._refusal(f"it is already; delete_savepoint({instant_time!r}) takes that savepoint away")
        cleaning = timeline.filter_actions(Action.CLEAN).filter_pending().first_instant
        if cleaning is not None:
            raise self._refusal(
                f"clean {cleaning.requested_time} is pending, and may be deleting files. Let it end, or finish it by "
                "clean()"
            )
        missing = missing_at(self.snapshot, instant_time)
        if missing:
            raise self._refusal(
                f"its version of {len(missing)} file groups was cleaned, such as {missing[0]}. Savepoint a later "
                "commit, or raise hoodie.cleaner.commits.retained for the future"
            )
        problem = slice_of_other_version(self.snapshot, instant_time)
        if problem is not None:
            raise self._refusal(f"the table could not be restored to it: {problem}")
        files = files_at(self.snapshot, instant_time)
        return HoodieSavepoint(instant_time, self._user, self._comment, int(time.time() * 1000), files)

    def publish(self, plan: HoodieSavepoint, check: Callable[[], None]) -> str:
        """Complete the savepoint, which counts from then on; it has no requested state."""
        instant_time, timeline = self._instant_time, self.snapshot.active_timeline
        timeline.transition_requested_to_inflight(instant_time, self.kind)
        try:
            check()
        except HoodieException:
            timeline.delete_pending(instant_time, self.kind)
            raise
        if not complete_instant(self.snapshot, instant_time, self.kind, plan.metadata):
            raise self._refusal("another process savepointed it at the same moment")
        return instant_time

    def refuse_rivals(self, plan: HoodieSavepoint, instant_time: str, before: TableSnapshot) -> None:
        """Stop beside a clean that was planned before the savepoint was seen, and beside archiving.

        Raises:
            HoodieSavepointException: The files are being cleaned, or the commit is being archived.
        """
        snapshot = self.snapshot
        # Read before files are listed: the listing then lacks the files of a clean that was completed since.
        going = files_being_cleaned(snapshot.active_timeline)
        if snapshot.archived_timeline.commits_timeline().contains(instant_time):
            raise self._refusal("it is being archived. Savepoint a later commit")
        for partition_path, names in plan.files.items():
            listed = {status.name for status in snapshot.table_metadata.list_files(partition_path)}
            cleaned = [name for name in names if name not in listed or (partition_path, name) in going]
            if cleaned:
                raise self._refusal(
                    f"a clean deletes {cleaned[0]} of partition '{partition_path}' at the same moment; the savepoint "
                    "was taken back. Savepoint a later commit"
                )

    def withdraw(self, instant_time: str) -> None:
        """Take the savepoint away again."""
        delete_savepoint(self.snapshot, instant_time)

    def _refusal(self, reason: str) -> HoodieSavepointException:
        return HoodieSavepointException(f"{self._where}: {reason}")


def delete_savepoint(snapshot: TableSnapshot, instant_time: str) -> bool:
    """Delete a savepoint: from then on its files are cleaned like all others.

    Args:
        snapshot: The table, its timeline freshly loaded.
        instant_time: The commit that the savepoint keeps.

    Returns:
        False when there is no such savepoint.

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
