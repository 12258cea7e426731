"""Take a table back to an instant: everything newer is undone, the newest first. Plan first, then execute.

Base files and log files whose names tell a newer instant are deleted. In version 6, a log file of an older slice may
hold blocks of newer instants: command blocks take them back.

Hudi: org.apache.hudi.table.action.restore.{RestorePlanActionExecutor, BaseRestoreActionExecutor,
CopyOnWriteRestoreActionExecutor, MergeOnReadRestoreActionExecutor}.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable

from hoodie.avro.service_metadata import HoodieRestoreMetadata, HoodieRestorePlan
from hoodie.avro.timeline_metadata import HoodieInstantInfo, HoodieRollbackMetadata
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.table.clustering_plans import CLUSTERING_ACTIONS, is_clustering
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.exception import HoodieCorruptedDataException, HoodieRestoreException
from hoodie.table.action.action import TableAction, check_planned_instant
from hoodie.table.action.clean.pending_cleans import files_being_cleaned, way_out_of_clean
from hoodie.table.action.completion import complete_instant
from hoodie.table.action.rollback.command_blocks import SliceKey, take_back
from hoodie.table.action.rollback.instant_files import COMPACTIONS
from hoodie.table.action.rollback.undone_files import UndoneFiles, rollback_metadata
from hoodie.table.slices_of_other_version import slice_of_other_version
from hoodie.table.table_state import files_at, missing_at

logger = logging.getLogger(__name__)

_UNDONE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, *COMPACTIONS, *CLUSTERING_ACTIONS})


def read_restore_plan(timeline: HoodieActiveTimeline, restore_time: str) -> HoodieRestorePlan:
    """The plan of a restore.

    Raises:
        HoodieCorruptedDataException: Its file is damaged, or names what is no instant of the table.
        HoodieRestoreException: It does not name the instant to restore to: an old writer made it.
    """
    requested = HoodieInstant(restore_time, Action.RESTORE, State.REQUESTED)
    path = timeline.path_of(requested)
    plan = timeline.read_as(requested, HoodieRestorePlan)
    restored_to = plan.restored_to
    if restored_to is None:
        raise HoodieRestoreException(
            f"{path} does not say which instant is restored: finish the restore with the writer that planned it"
        )
    for info in plan.instants_to_rollback:
        check_planned_instant(info.commit_time, info.action, path)
    if not timeline.completed_writes().contains(restored_to):
        raise HoodieCorruptedDataException(
            f"the plan {path} restores to {restored_to!r}, which is no completed commit of the table: all files "
            "that are newer would be deleted, and nothing was"
        )
    if any(not is_after(info.commit_time, restored_to) for info in plan.instants_to_rollback):
        raise HoodieCorruptedDataException(
            f"the plan {path} restores to {restored_to}, and undoes what is not newer; nothing was deleted"
        )
    return plan


def pending_restore(timeline: HoodieActiveTimeline) -> HoodieInstant | None:
    """The restore that a process began and did not finish; None where there is none."""
    return timeline.filter_actions(Action.RESTORE).filter_pending().first_instant


class RestoreActionExecutor(TableAction[HoodieRestorePlan, tuple[str, ...]]):
    """Restores a table.

    Every step may be done twice: a restore that died at any step is finished by carrying its plan out again. No write
    starts in between.

    Args:
        snapshot: The table, just loaded.
        restored_to: A completed commit of the active timeline; "" for a plan of another run.
        refuse_living_writers: Takes the table and an instant time, and fails where the writer of an older write is
            alive.

    Hudi: org.apache.hudi.table.action.restore.{CopyOnWriteRestoreActionExecutor, MergeOnReadRestoreActionExecutor}.
    """

    kind = Action.RESTORE

    def __init__(
        self,
        snapshot: TableSnapshot,
        restored_to: str,
        refuse_living_writers: Callable[[TableSnapshot, str], None],
    ) -> None:
        super().__init__(snapshot)
        self._restored_to = restored_to
        self._refuse_living_writers = refuse_living_writers
        self._storage = snapshot.storage

    def plan(self) -> HoodieRestorePlan:
        """The instants to undo.

        Raises:
            HoodieRestoreException: The table cannot be what it was at that instant, a savepoint is newer, or a pending
                clean deletes files of that instant.
        """
        self._check_possible(self._restored_to)
        timeline = self.snapshot.active_timeline
        undone = [i for i in reversed(timeline.after(self._restored_to).instants) if i.action in _UNDONE_ACTIONS]
        undone.sort(key=lambda i: i.is_pending and is_clustering(timeline, i), reverse=True)
        self._warn_of_late_commits()
        instants = tuple(HoodieInstantInfo(i.requested_time, str(i.action)) for i in undone)
        return HoodieRestorePlan(instants, self._restored_to)

    def refuse_rivals(self, plan: HoodieRestorePlan, instant_time: str, before: TableSnapshot | None) -> None:
        """Stop beside cleans and writes that began while the restore was planned.

        From here on no writer begins or completes a write. Until here a writer may have done so without the lock.

        Raises:
            HoodieRestoreException: A clean or a write began, or the plan cannot be carried out any more.
            HoodieHeartbeatException: A writer is alive.
        """
        if before is not None:
            self._refuse_new_cleans(before)
        self._refuse_unplanned(plan, instant_time)
        self._refuse_living_writers(self.snapshot, instant_time)
        self._check_possible(_end_of(plan))

    def read_plan(self, instant_time: str) -> HoodieRestorePlan:
        """See `TableAction.read_plan`."""
        return read_restore_plan(self.snapshot.active_timeline, instant_time)

    def already_ended(self, instant_time: str) -> tuple[str, ...]:
        """Always an error.

        Raises:
            HoodieRestoreException: There is no such pending restore.
        """
        raise HoodieRestoreException(f"there is no pending restore {instant_time} in {self.snapshot.base_path}")

    def do(self, plan: HoodieRestorePlan, instant_time: str, is_left_behind: bool) -> tuple[str, ...]:
        """Undo what is planned, the newest first.

        Returns:
            The instant times that were undone, the newest first.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        restored_to, instants = _end_of(plan), plan.instants_to_rollback
        files, slices = self._files_between(restored_to, instant_time)
        done: dict[str, dict[str, UndoneFiles]] = defaultdict(lambda: defaultdict(UndoneFiles))
        for info in instants:
            deleted = self._undo(info.commit_time, Action(info.action), files.pop(info.commit_time, {}))
            for partition_path, paths in deleted.items():
                done[info.commit_time][partition_path].deleted.extend(paths)
        # These files are of archived instants, or of instants that the timeline does not explain.
        for leftovers in files.values():
            self._delete(leftovers)

        def is_newer(time_: str) -> bool:
            return is_after(time_, restored_to) and is_before(time_, instant_time)

        for file in take_back(self.snapshot, slices, is_newer, instant_time):
            for target in file.targets:
                done[target][file.partition_path].note(file)
        rollbacks: dict[str, tuple[HoodieRollbackMetadata, ...]] = {
            info.commit_time: (rollback_metadata(instant_time, info, done[info.commit_time], 0),) for info in instants
        }
        self._forget_rollbacks(restored_to, instant_time)
        undone = tuple(info.commit_time for info in instants)
        taken_ms = int((time.monotonic() - started) * 1000)
        metadata = HoodieRestoreMetadata(instant_time, taken_ms, undone, rollbacks, instants)
        complete_instant(self.snapshot, instant_time, self.kind, metadata)
        logger.info(
            "restored %s to %s at %s: %d instants undone",
            self.snapshot.base_path, restored_to, instant_time, len(undone),
        )  # fmt: skip
        return undone

    def _check_possible(self, instant_time: str) -> None:
        """Refuse to restore to an instant whose files are gone or are about to go."""
        timeline = self.snapshot.active_timeline
        where = f"{self.snapshot.base_path} cannot be restored to {instant_time}"
        commits = timeline.completed_writes()
        if not commits.contains(instant_time):
            commit_times = [commit.requested_time for commit in commits]
            raise HoodieRestoreException(
                f"{where}: there is no completed commit of that time in the active timeline"
                + (
                    f", whose commits are from {commit_times[0]} to {commit_times[-1]}"
                    if commit_times
                    else ", which has none"
                )
                + "; what was archived cannot be restored"
            )
        savepoints = timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
        newer = [savepoint.requested_time for savepoint in savepoints.after(instant_time)]
        if newer:
            raise HoodieRestoreException(
                f"{where}: savepoint {newer[-1]} is newer, and its files would be deleted. "
                f"delete_savepoint({newer[-1]!r}) first"
            )
        self._refuse_files_being_cleaned(instant_time, where)
        self._refuse_cleaned_files(instant_time, savepoints.contains(instant_time), where)
        problem = slice_of_other_version(self.snapshot, instant_time)
        if problem is not None:
            raise HoodieRestoreException(f"{where}: {problem}")

    def _warn_of_late_commits(self) -> None:
        """Tell of commits that stay, though they were completed after the commit that is restored."""
        timeline = self.snapshot.active_timeline
        writes = timeline.completed_before_or_on(self._restored_to)
        restored_to = writes.find(self._restored_to)
        if restored_to is None or restored_to.completion_time is None:
            return
        late = [i.requested_time for i in writes if is_after(i.newest_time, restored_to.completion_time)]
        if late:
            logger.warning(
                "restoring %s to %s keeps %s: requested before it and completed after it at %s, so readers of that "
                "time did not see their rows. Time travel to %s shows them as well; undo them by other writes if they "
                "must go",
                self.snapshot.base_path, self._restored_to, ", ".join(late), restored_to.completion_time,
                self._restored_to,
            )  # fmt: skip

    def _refuse_new_cleans(self, before: TableSnapshot) -> None:
        """Refuse cleans that were planned meanwhile.

        A clean looks for a pending restore once it is planned. A clean that looked too early is seen here.
        """
        known = before.active_timeline.filter_actions(Action.CLEAN).times
        for clean in self.snapshot.active_timeline.filter_actions(Action.CLEAN):
            if clean.requested_time not in known:
                raise HoodieRestoreException(
                    f"clean {clean.requested_time} of {self.snapshot.base_path} began at the same moment, and may "
                    "delete what the restore goes back to; nothing was restored. Call it again"
                )

    def _refuse_unplanned(self, plan: HoodieRestorePlan, restore_time: str) -> None:
        """Refuse to delete the files of a write that began while the plan was made, and is not in the plan.

        A write that begins later finds the plan, or has a later instant time and keeps its files.
        """
        known = {info.commit_time for info in plan.instants_to_rollback}
        writes = self.snapshot.active_timeline.commits_timeline().after(_end_of(plan)).before(restore_time)
        begun = [instant.requested_time for instant in writes if instant.requested_time not in known]
        if begun:
            raise HoodieRestoreException(
                f"{self.snapshot.base_path} was not restored to {plan.restored_to}: {begun[0]} began while that was "
                "being planned. Nothing was undone; let its writer finish, and restore again"
            )

    def _refuse_files_being_cleaned(self, instant_time: str, where: str) -> None:
        """Refuse to restore to files that a pending clean deletes: it goes on, whatever becomes of the table."""
        timeline = self.snapshot.active_timeline
        going = files_being_cleaned(timeline)
        if not going:
            return
        for partition_path, names in files_at(self.snapshot, instant_time).items():
            clean_time = next((going[partition_path, name] for name in names if (partition_path, name) in going), None)
            if clean_time is not None:
                raise HoodieRestoreException(
                    f"{where}: its files are being cleaned: {way_out_of_clean(timeline, clean_time)}"
                )

    def _refuse_cleaned_files(self, instant_time: str, is_savepointed: bool, where: str) -> None:
        missing = missing_at(self.snapshot, instant_time)
        if missing:
            raise HoodieRestoreException(
                f"{where}: its version of {len(missing)} file groups was cleaned, such as {missing[0]}. Restore to a "
                "later commit; a savepoint keeps files for this"
            )
        archived = self.snapshot.archived_timeline.completed_writes()
        if archived.contains(instant_time):
            raise HoodieRestoreException(
                f"{where}: it is being archived, and without it readers could not know which files are committed. "
                "Restore to a later commit"
            )
        if not is_savepointed and len(archived.after(instant_time)):
            raise HoodieRestoreException(
                f"{where}: commits after it were archived, so nothing tells whether its files were cleaned. Restore to "
                "a commit that is younger than the archived ones, or to a savepoint"
            )

    def _files_between(
        self, instant_time: str, restore_time: str
    ) -> tuple[dict[str, dict[str, list[str]]], set[SliceKey]]:
        """The files of younger instants, and the older slices in which blocks of them may be.

        Files that are younger than the restore itself stay: they came after it, and its completed file was lost.

        Returns:
            Instant time to partition path to full paths: of base files and of log files, by the instants in their
            names. In version 6 a younger slice is younger as a whole. And the slices of version 6 that have log files
            and are not younger.
        """
        metadata = self.snapshot.table_metadata
        has_shared_slices = not self.snapshot.active_timeline.layout.has_completion_times
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        slices: set[SliceKey] = set()
        for partition_path, statuses in metadata.list_files_of(metadata.list_partitions()).items():
            for status in statuses:
                log = parse_log_file_name(status.name)
                name = parse_base_file_name(status.name) or log
                if name is None:
                    continue
                if is_after(name.instant_time, instant_time):
                    if is_before(name.instant_time, restore_time):
                        found[name.instant_time][partition_path].append(status.path)
                elif log is not None and not log.is_cdc and has_shared_slices:
                    slices.add((partition_path, log.file_id, log.instant_time))
        return found, slices

    def _undo(self, instant_time: str, action: Action, files: dict[str, list[str]]) -> dict[str, list[str]]:
        """Undo one instant: hide it from readers, then delete its files, then delete its last trace."""
        timeline = self.snapshot.active_timeline
        timeline.revert_completed_to_inflight(instant_time, action)
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, instant_time)
        markers.close()
        self._delete(files)
        timeline.delete_pending(instant_time, action)
        markers.delete_all()
        self._storage.delete_file(self.snapshot.heartbeat_path(instant_time))
        return files

    def _delete(self, files: dict[str, list[str]]) -> None:
        self._storage.delete_files(path for paths in files.values() for path in paths)

    def _forget_rollbacks(self, restored_to: str, restore_time: str) -> None:
        """Delete the rollbacks of instants that are gone.

        A pending clean stays: the process that carries it out may be alive and going on. The next rollback or restore
        that goes back to the clean's files must find it.
        """
        timeline = self.snapshot.active_timeline
        for instant in timeline.filter_actions(Action.ROLLBACK).after(restored_to).before(restore_time):
            timeline.delete_in_any_state(instant.requested_time, instant.action)


def _end_of(plan: HoodieRestorePlan) -> str:
    """The instant that a plan goes back to; `read_restore_plan` refuses one that names none."""
    assert plan.restored_to is not None
    return plan.restored_to
