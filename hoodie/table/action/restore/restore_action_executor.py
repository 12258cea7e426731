"""Take a table back to an instant: everything newer is undone, the newest first. Plan first, then execute.

Hudi: org.apache.hudi.table.action.restore.{RestorePlanActionExecutor, BaseRestoreActionExecutor,
CopyOnWriteRestoreActionExecutor}.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from typing import Any

import attrs

from hoodie.avro.timeline_metadata import decode_record, encode_record
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.clustering_plans import is_clustering
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException, HoodieRestoreException
from hoodie.table.action.clean.pending_cleans import files_being_cleaned, way_out_of_clean
from hoodie.table.action.planned_instant import check_planned_instant
from hoodie.table.table_state import files_at, missing_at

__all__ = ["HoodieRestorePlan", "RestoreActionExecutor", "pending_restore"]

logger = logging.getLogger(__name__)

_UNDONE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.COMPACTION})


@attrs.frozen
class HoodieRestorePlan:
    """What a restore undoes.

    Attributes:
        restored_to: The instant that will be the newest one.
        instants_to_rollback: (instant time, action), the newest first.

    Hudi: org.apache.hudi.avro.model.HoodieRestorePlan.
    """

    restored_to: str
    instants_to_rollback: tuple[tuple[str, Action], ...]

    def encode(self) -> bytes:
        """The content of the requested file."""
        return encode_record(
            "HoodieRestorePlan",
            {
                "instantsToRollback": [_info(*instant) for instant in self.instants_to_rollback],
                "version": 2,
                "savepointToRestoreTimestamp": self.restored_to,
            },
        )

    @classmethod
    def read(cls, timeline: HoodieActiveTimeline, restore_time: str) -> HoodieRestorePlan:
        """The plan of a restore.

        Raises:
            HoodieCorruptedDataException: Its file is damaged, or names what is no instant of the table.
            HoodieRestoreException: It does not say to which instant: an old writer's.
        """
        requested = HoodieInstant(restore_time, Action.RESTORE, State.REQUESTED)
        path = timeline.path_of(requested)
        value = decode_record(timeline.read_details(requested), "HoodieRestorePlan", path)
        if value["savepointToRestoreTimestamp"] is None:
            raise HoodieRestoreException(
                f"{path} does not say which instant is restored: finish the restore with the writer that planned it"
            )
        restored_to = value["savepointToRestoreTimestamp"]
        instants = tuple(
            (info["commitTime"], check_planned_instant(info["commitTime"], info["action"], path))
            for info in value["instantsToRollback"]
        )
        if not timeline.commits_timeline().filter_completed_instants().contains(restored_to):
            raise HoodieCorruptedDataException(
                f"the plan {path} restores to {restored_to!r}, which is no completed commit of the table: all files "
                "that are newer would be deleted, and nothing was"
            )
        if any(instant_time <= restored_to for instant_time, _ in instants):
            raise HoodieCorruptedDataException(
                f"the plan {path} restores to {restored_to}, and undoes what is not newer; nothing was deleted"
            )
        return cls(restored_to, instants)


def pending_restore(timeline: HoodieActiveTimeline) -> HoodieInstant | None:
    """The restore that somebody began and did not finish."""
    return timeline.filter_actions(Action.RESTORE).filter_pending().first_instant


class RestoreActionExecutor:
    """Restores a copy-on-write table.

    Whatever step it dies at, `execute` of a new one finishes what is left: every step may be done twice, and no write
    starts in between.

    Args:
        snapshot: The table, its timeline freshly loaded.

    Hudi: org.apache.hudi.table.action.restore.CopyOnWriteRestoreActionExecutor.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._snapshot = snapshot
        self._storage = snapshot.storage

    def schedule(self, instant_time: str) -> str:
        """Write the plan.

        Args:
            instant_time: A completed commit of the active timeline.

        Returns:
            The restore's own instant time.

        Raises:
            HoodieRestoreException: The table cannot be what it was at that instant, a savepoint is newer, or a clean
                that is pending deletes files of that instant.
        """
        self.check_possible(instant_time)
        timeline = self._snapshot.active_timeline
        undone = [i for i in timeline.after(instant_time) if i.action in _UNDONE_ACTIONS]
        undone.sort(key=lambda i: (i.is_pending and is_clustering(timeline, i), i.requested_time), reverse=True)
        plan = HoodieRestorePlan(instant_time, tuple((i.requested_time, i.action) for i in undone))
        return timeline.create_new_instant_time(Action.RESTORE, plan.encode())

    def check_possible(self, instant_time: str) -> None:
        """Refuse to restore to what cannot be had any more, or is about to go.

        Args:
            instant_time: As for `schedule`.

        Raises:
            HoodieRestoreException: As by `schedule`.
        """
        timeline = self._snapshot.active_timeline
        where = f"{self._snapshot.base_path} cannot be restored to {instant_time}"
        commits = timeline.commits_timeline().filter_completed_instants()
        if not commits.contains(instant_time):
            there = [commit.requested_time for commit in commits]
            raise HoodieRestoreException(
                f"{where}: there is no completed commit of that time in the active timeline"
                + (f", whose commits are from {there[0]} to {there[-1]}" if there else ", which has none")
                + "; what was archived cannot be restored"
            )
        savepoints = timeline.filter_actions(Action.SAVEPOINT).filter_completed_instants()
        newer = [savepoint.requested_time for savepoint in savepoints.after(instant_time)]
        if newer:
            raise HoodieRestoreException(
                f"{where}: savepoint {newer[-1]} is newer, and its files would be deleted. "
                f"delete_savepoint({newer[-1]!r}) first"
            )
        self._refuse_what_is_going(instant_time, where)
        self._refuse_what_is_gone(instant_time, savepoints.contains(instant_time), where)

    def execute(self, restore_time: str) -> tuple[str, ...]:
        """Carry out a plan, from wherever an earlier attempt stopped.

        Returns:
            The instant times that were undone, the newest first.

        Raises:
            HoodieRestoreException: There is no such pending restore.
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        timeline = self._snapshot.reload_active_timeline()
        restore = timeline.find(restore_time, Action.RESTORE)
        if restore is None or restore.is_completed:
            raise HoodieRestoreException(f"there is no pending restore {restore_time} in {self._snapshot.base_path}")
        plan = HoodieRestorePlan.read(timeline, restore_time)
        if restore.state is State.REQUESTED:
            timeline.transition_requested_to_inflight(restore_time, Action.RESTORE)
        files = self._files_between(plan.restored_to, restore_time)
        rollbacks: dict[str, list[dict[str, Any]]] = {}
        for instant_time, action in plan.instants_to_rollback:
            deleted = self._undo(instant_time, action, files.pop(instant_time, {}))
            rollbacks[instant_time] = [_rollback_metadata(restore_time, instant_time, action, deleted)]
        # Of instants that were archived, or that nothing of the timeline explains.
        for leftovers in files.values():
            self._delete(leftovers)
        self._forget_rollbacks(plan.restored_to, restore_time)
        content = encode_record(
            "HoodieRestoreMetadata",
            {
                "startRestoreTime": restore_time,
                "timeTakenInMillis": int((time.monotonic() - started) * 1000),
                "instantsToRollback": [instant_time for instant_time, _ in plan.instants_to_rollback],
                "hoodieRestoreMetadata": rollbacks,
                "version": 1,
                "restoreInstantInfo": [_info(*instant) for instant in plan.instants_to_rollback],
            },
        )
        timeline.save_as_complete(restore_time, Action.RESTORE, content)
        self._snapshot.reload_active_timeline()
        logger.info(
            "restored %s to %s at %s: %d instants undone",
            self._snapshot.base_path, plan.restored_to, restore_time, len(plan.instants_to_rollback),
        )  # fmt: skip
        return tuple(instant_time for instant_time, _ in plan.instants_to_rollback)

    def _refuse_what_is_going(self, instant_time: str, where: str) -> None:
        """A clean that is under way goes on deleting what its plan names, whatever becomes of the table meanwhile."""
        timeline = self._snapshot.active_timeline
        going = files_being_cleaned(timeline)
        if not going:
            return
        for partition_path, names in files_at(self._snapshot, instant_time).items():
            clean_time = next((going[partition_path, name] for name in names if (partition_path, name) in going), None)
            if clean_time is not None:
                raise HoodieRestoreException(
                    f"{where}: its files are being cleaned: {way_out_of_clean(timeline, clean_time)}"
                )

    def _refuse_what_is_gone(self, instant_time: str, is_savepointed: bool, where: str) -> None:
        missing = missing_at(self._snapshot, instant_time)
        if missing:
            raise HoodieRestoreException(
                f"{where}: its version of {len(missing)} file groups was cleaned, such as {missing[0]}. Restore to a "
                "later commit; a savepoint keeps files for this"
            )
        archived = self._snapshot.archived_timeline.commits_timeline().filter_completed_instants()
        if archived.contains(instant_time):
            raise HoodieRestoreException(
                f"{where}: it is being archived, and without it nothing would tell readers which files count. Restore "
                "to a later commit"
            )
        if not is_savepointed and len(archived.after(instant_time)):
            raise HoodieRestoreException(
                f"{where}: commits after it were archived, so nothing tells whether its files were cleaned. Restore to "
                "a commit that is younger than the archived ones, or to a savepoint"
            )

    def _files_between(self, instant_time: str, restore_time: str) -> dict[str, dict[str, list[str]]]:
        """Instant time to partition path to full paths, of all base files of younger instants.

        What is younger than the restore itself came after it, if its completed file was lost, and stays.
        """
        metadata = FileSystemBackedTableMetadata(self._storage, self._snapshot.base_path)
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for partition_path, statuses in metadata.list_files_of(metadata.list_partitions()).items():
            for status in statuses:
                name = parse_base_file_name(status.name)
                if name is not None and instant_time < name.instant_time < restore_time:
                    found[name.instant_time][partition_path].append(status.path)
        return found

    def _undo(self, instant_time: str, action: Action, files: dict[str, list[str]]) -> dict[str, list[str]]:
        """Undo one instant: out of readers' sight first, then its files, then its last trace."""
        timeline = self._snapshot.active_timeline
        timeline.revert_completed_to_inflight(instant_time, action)
        markers = WriteMarkers(self._storage, self._snapshot.meta_path, instant_time)
        markers.close()
        self._delete(files)
        timeline.delete_pending(instant_time, action)
        markers.delete_all()
        self._storage.delete_file(self._snapshot.heartbeat_path(instant_time))
        return files

    def _delete(self, files: dict[str, list[str]]) -> None:
        self._storage.delete_files(path for paths in files.values() for path in paths)

    def _forget_rollbacks(self, restored_to: str, restore_time: str) -> None:
        """Rollbacks of what is gone. A pending clean stays, for whoever carries it out may be alive, and going on: the
        next one that goes back to its files must find it.
        """
        timeline = self._snapshot.active_timeline
        for instant in timeline.filter_actions(Action.ROLLBACK).after(restored_to):
            if instant.requested_time < restore_time:
                timeline.revert_completed_to_inflight(instant.requested_time, instant.action)
                timeline.delete_pending(instant.requested_time, instant.action)


def _info(instant_time: str, action: Action) -> dict[str, str]:
    return {"commitTime": instant_time, "action": str(action)}


def _rollback_metadata(
    restore_time: str, instant_time: str, action: Action, deleted: dict[str, list[str]]
) -> dict[str, Any]:
    return {
        "startRollbackTime": restore_time,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(map(len, deleted.values())),
        "commitsRollback": [instant_time],
        "partitionMetadata": {
            partition_path: {
                "partitionPath": partition_path,
                "successDeleteFiles": paths,
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition_path, paths in deleted.items()
        },
        "version": 1,
        "instantsRollback": [_info(instant_time, action)],
    }
