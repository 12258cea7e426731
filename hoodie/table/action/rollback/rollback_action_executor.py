"""Undo an instant: delete its files, then its place in the timeline. Plan first, then execute; both can be resumed.

Hudi: org.apache.hudi.table.action.rollback.{BaseRollbackPlanActionExecutor, CopyOnWriteRollbackActionExecutor,
MarkerBasedRollbackStrategy, ListingBasedRollbackStrategy}.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    HoodieRollbackPartitionMetadata,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
    decode,
    encode,
)
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.view.file_system_view import VisibleInstants
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieRollbackException
from hoodie.storage.storage_path import check_inside, file_name, join, normalise_path, relative_to
from hoodie.table.action.clean.pending_cleans import files_being_cleaned, way_out_of_clean
from hoodie.table.action.planned_instant import check_planned_instant
from hoodie.table.table_state import last_versions

__all__ = ["RollbackActionExecutor"]

logger = logging.getLogger(__name__)


def _no_check() -> None:
    pass


class RollbackActionExecutor:
    """Rolls back one instant of a copy-on-write table.

    Whatever step it dies at, `execute` of a new one finishes what is left: every step may be done twice.

    Args:
        snapshot: The table, its timeline freshly loaded.
        using_markers: Find the files of a pending instant by its markers; otherwise by listing the table.

    Hudi: org.apache.hudi.table.action.rollback.CopyOnWriteRollbackActionExecutor.
    """

    def __init__(self, snapshot: TableSnapshot, using_markers: bool = True) -> None:
        self._snapshot = snapshot
        self._using_markers = using_markers
        self._storage = snapshot.storage
        self._listed: dict[str, dict[str, set[str]]] = {}

    def schedule(self, instant: HoodieInstant, check: Callable[[], None] = _no_check) -> str:
        """Write the plan.

        Args:
            instant: A pending instant, or the newest completed one.
            check: Called once others can see the plan; what it raises withdraws it.

        Returns:
            The rollback's own instant time.

        Raises:
            HoodieRollbackException: The instant is completed and cannot be undone any more.
        """
        is_completed = instant.state is State.COMPLETED
        if is_completed:
            self._check_completed(instant)
        rollback_time = self._plan(instant)
        timeline = self._snapshot.reload_active_timeline()
        try:
            check()
            if is_completed:
                # A clean may have been planned meanwhile. One that is planned from now on sees the rollback.
                self._listed.clear()
                self._check_completed(instant)
        except HoodieException:
            timeline.withdraw_requested(rollback_time, Action.ROLLBACK)
            raise
        return rollback_time

    def schedule_late(self, instant: HoodieInstant, is_empty: bool) -> str:
        """Write the plan for a commit that its writer completed too late, beside others that are newer perhaps.

        Args:
            instant: The completed instant.
            is_empty: Whether an earlier rollback has deleted its files.

        Returns:
            The rollback's own instant time.

        Raises:
            HoodieRollbackException: Another commit is built on it, or nothing is left of what it replaced.
        """
        if is_empty:
            return self._plan(instant)
        self._check_late(instant)
        rollback_time = self._plan(instant)
        timeline = self._snapshot.reload_active_timeline()
        try:
            # As in `schedule`.
            self._listed.clear()
            self._check_late(instant)
        except HoodieException:
            timeline.withdraw_requested(rollback_time, Action.ROLLBACK)
            raise
        return rollback_time

    def _plan(self, instant: HoodieInstant) -> str:
        files = self._files_of(instant)
        requests = tuple(
            HoodieRollbackRequest(partition_path, file_id, base_instant, (path,))
            for partition_path, file_id, base_instant, path in files
        )
        plan = HoodieRollbackPlan(HoodieInstantInfo(instant.requested_time, str(instant.action)), requests)
        return self._snapshot.active_timeline.create_new_instant_time(Action.ROLLBACK, encode(plan))

    def execute(
        self, rollback_time: str, was_pending: bool = False, is_left_behind: bool = False
    ) -> HoodieRollbackMetadata:
        """Carry out a plan, from wherever an earlier attempt stopped.

        Args:
            rollback_time: Instant time of the requested or inflight rollback.
            was_pending: The instant was pending when the rollback was planned: if its writer has completed it since, it
                stays, and the rollback is withdrawn, if nobody began to carry it out.
            is_left_behind: Somebody else planned the rollback; whether the instant was pending is told by the plan.

        Raises:
            HoodieRollbackException: There is no such pending rollback, or it undoes what hoodie cannot.
            HoodieCorruptedDataException: The plan is damaged, or names what is no data file of the table; nothing was
                deleted.
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        timeline = self._snapshot.reload_active_timeline()
        rollback = timeline.find(rollback_time, Action.ROLLBACK)
        if rollback is None or rollback.state is State.COMPLETED:
            raise HoodieRollbackException(f"there is no pending rollback {rollback_time} in {self._snapshot.base_path}")
        plan = self._read_plan(rollback)
        info = plan.instant_to_rollback
        assert info is not None
        action = Action(info.action)
        completed = timeline.find(info.commit_time, action)
        is_completed = completed is not None and completed.state is State.COMPLETED
        if is_left_behind:
            # Requests of a commit that was completed name no file groups.
            was_pending = not plan.rollback_requests or any(request.file_id for request in plan.rollback_requests)
        if rollback.state is State.REQUESTED:
            # Its writer may have been told that it is completed before anybody saw the rollback. Once that is inflight
            # the instant was pending when the rollback could be seen, and its writer, who looks, finds the rollback: it
            # must not be withdrawn any more.
            if is_completed and was_pending:
                timeline.withdraw_requested(rollback_time, Action.ROLLBACK)
                raise HoodieRollbackException(
                    f"{info.action} {info.commit_time} of {self._snapshot.base_path} was completed by its writer "
                    "while its rollback was being prepared; it stays. "
                    "Another writer is at work: write with one at a time"
                )
            if completed is not None and is_completed and is_left_behind:
                # Whoever planned it may have died before it looked again, at what the table goes back to.
                try:
                    self._refuse_the_last_one(completed, f"rollback {rollback_time} of {self._snapshot.base_path}")
                    self._check_late(completed)
                except HoodieRollbackException:
                    timeline.withdraw_requested(rollback_time, Action.ROLLBACK)
                    raise
            timeline.transition_requested_to_inflight(rollback_time, Action.ROLLBACK, b"")
        if is_completed:
            timeline.revert_completed_to_inflight(info.commit_time, action)
        WriteMarkers(self._storage, self._snapshot.meta_path, info.commit_time).close()
        metadata = self._delete_files(rollback_time, plan, started)
        timeline = self._snapshot.reload_active_timeline()
        timeline.delete_pending(info.commit_time, action)
        self._delete_late_files(info.commit_time)
        timeline.save_as_complete(rollback_time, Action.ROLLBACK, encode(metadata))
        WriteMarkers(self._storage, self._snapshot.meta_path, info.commit_time).delete_all()
        self._storage.delete_file(self._snapshot.heartbeat_path(info.commit_time))
        self._snapshot.reload_active_timeline()
        logger.info(
            "rolled back %s %s of %s at %s: %d files deleted",
            info.action, info.commit_time, self._snapshot.base_path, rollback_time, metadata.total_files_deleted,
        )  # fmt: skip
        return metadata

    def _delete_late_files(self, instant_time: str) -> None:
        """Delete what was announced after the plan was made, by a writer that was taken for dead and lives.

        Its instant is gone by now, so that it cannot let tasks write again; those that are writing find out.
        """
        markers = WriteMarkers(self._storage, self._snapshot.meta_path, instant_time)
        markers.close()
        if not self._using_markers:
            return
        try:
            announced = markers.list_markers()
        except HoodieCorruptedDataException as error:
            logger.warning("whether %s left more files could not be found out: %s", instant_time, error)
            return
        self._storage.delete_files(
            join(self._snapshot.base_path, marker.partition_path, marker.file_name)
            for marker in announced
            if marker.io_type is not IOType.APPEND
        )

    def _read_plan(self, rollback: HoodieInstant) -> HoodieRollbackPlan:
        """The plan, with paths as storage takes them; all that it names is the table's."""
        requested = HoodieInstant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
        timeline = self._snapshot.active_timeline
        content, source = timeline.read_details(requested), timeline.path_of(requested)
        plan: HoodieRollbackPlan = decode(content, HoodieRollbackPlan, source)
        if plan.instant_to_rollback is None:
            raise HoodieCorruptedDataException(f"the plan {source} names no instant")
        check_planned_instant(plan.instant_to_rollback.commit_time, plan.instant_to_rollback.action, source)
        requests = tuple(
            attrs.evolve(
                request, files_to_be_deleted=tuple(self._inside(path, source) for path in request.files_to_be_deleted)
            )
            for request in plan.rollback_requests
        )
        return attrs.evolve(plan, rollback_requests=requests)

    def _delete_files(self, rollback_time: str, plan: HoodieRollbackPlan, started: float) -> HoodieRollbackMetadata:
        base_path = self._snapshot.base_path
        deleted: dict[str, list[str]] = {}
        for request in plan.rollback_requests:
            if request.log_blocks_to_be_deleted:
                raise HoodieRollbackException(
                    f"rollback {rollback_time} of {base_path} undoes log blocks, which hoodie does not do yet: "
                    "finish it with the writer that planned it"
                )
            if request.files_to_be_deleted:
                deleted.setdefault(request.partition_path, []).extend(request.files_to_be_deleted)
        self._storage.delete_files(path for paths in deleted.values() for path in paths)
        assert plan.instant_to_rollback is not None
        return HoodieRollbackMetadata(
            start_rollback_time=rollback_time,
            time_taken_ms=int((time.monotonic() - started) * 1000),
            total_files_deleted=sum(len(paths) for paths in deleted.values()),
            commits_rollback=(plan.instant_to_rollback.commit_time,),
            partition_metadata={
                partition_path: HoodieRollbackPartitionMetadata(partition_path, tuple(paths))
                for partition_path, paths in deleted.items()
            },
            instants_rollback=(plan.instant_to_rollback,),
        )

    def _inside(self, planned: str, source: str) -> str:
        """A planned path, which must lie below the table's folder."""
        try:
            path = normalise_path(planned)
            inner = check_inside(relative_to(self._snapshot.base_path, path))
        except ValueError:
            path, inner = planned, ""
        if parse_base_file_name(file_name(inner)) is None:
            raise HoodieCorruptedDataException(
                f"the plan {source} asks to delete {planned!r}, which is no data file of "
                f"{self._snapshot.base_path}; nothing was deleted. If the table was moved, or the plan is not to be "
                "trusted, delete the rollback's .inflight file and then its .requested file: the next write plans anew"
            )
        return path

    def files_without_markers(self, instant: HoodieInstant) -> list[str]:
        """Full paths of the base files of an inflight instant that has no markers.

        A writer announces each file before it makes it, and takes the markers away when its instant is completed: such
        files are those of a commit whose completed file was lost.
        """
        markers = WriteMarkers(self._storage, self._snapshot.meta_path, instant.requested_time)
        if instant.state is not State.INFLIGHT or self._storage.exists(markers.folder):
            return []
        files = [path for _, _, _, path in self._listed_files_of(instant.requested_time)]
        # A writer that was taken for dead may have gone on since: its markers come before its files.
        return [] if files and self._storage.exists(markers.folder) else files

    def _files_of(self, instant: HoodieInstant) -> list[tuple[str, str, str, str]]:
        """(partition path, file id, base instant, full path) of every base file that the instant wrote."""
        markers = WriteMarkers(self._storage, self._snapshot.meta_path, instant.requested_time)
        markers.close()
        has_markers = instant.state is not State.COMPLETED and self._storage.exists(markers.folder)
        # A requested instant with markers has lost its inflight file.
        if instant.state is State.REQUESTED and not has_markers:
            return []
        if has_markers and self._using_markers:
            found = []
            for marker in markers.list_markers():
                if marker.io_type is IOType.APPEND:
                    raise HoodieRollbackException(
                        f"{instant.requested_time} of {self._snapshot.base_path} appended to log files, which "
                        "hoodie does not roll back yet: do it with the writer that began it"
                    )
                name = parse_base_file_name(marker.file_name)
                file_id = name.file_id if name is not None else ""
                path = join(self._snapshot.base_path, marker.partition_path, marker.file_name)
                found.append((marker.partition_path, file_id, instant.requested_time, path))
            return sorted(found, key=lambda entry: entry[3])
        found = self._listed_files_of(instant.requested_time)
        if instant.state is State.COMPLETED:
            # As Hudi has it in plans that were made by listing.
            return [(partition_path, "", "", path) for partition_path, _, _, path in found]
        return found

    def _listed_files_of(self, instant_time: str) -> list[tuple[str, str, str, str]]:
        metadata = FileSystemBackedTableMetadata(self._storage, self._snapshot.base_path)
        found = []
        for partition_path in metadata.list_partitions():
            for status in metadata.list_files(partition_path):
                name = parse_base_file_name(status.name)
                if name is not None and name.instant_time == instant_time:
                    found.append((partition_path, name.file_id, instant_time, status.path))
        return found

    def _check_completed(self, instant: HoodieInstant) -> None:
        """Refuse what Hudi refuses, and a rollback to files that are gone."""
        timeline = self._snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self._snapshot.base_path} cannot be rolled back"
        later = [i.requested_time for i in timeline.commits_timeline() if i.requested_time > time_]
        if later:
            raise HoodieRollbackException(
                f"{where}: later ones exist ({', '.join(later)}); roll those back first, newest first"
            )
        if timeline.filter(lambda i: i.action is Action.SAVEPOINT and i.requested_time == time_):
            raise HoodieRollbackException(f"{where}: it is savepointed; delete the savepoint first")
        if instant.action not in (Action.COMMIT, Action.REPLACE_COMMIT):
            raise HoodieRollbackException(f"{where}: only commits and replacecommits can be, after they completed")
        self._refuse_the_last_one(instant, where)
        metadata = timeline.read_commit_metadata(instant)
        going = files_being_cleaned(timeline)
        wanted = {
            (stat.partition_path, str(stat.file_id)): stat.prev_commit
            for stat in metadata.write_stats
            if not _is_new(stat)
        }
        missing = [group for group, version in wanted.items() if version not in self._versions(*group)]
        if isinstance(metadata, HoodieReplaceCommitMetadata):
            replaced = {
                (path, file_id) for path, ids in metadata.partition_to_replace_file_ids.items() for file_id in ids
            }
            last = last_versions(self._snapshot, replaced, instant.requested_time)
            for group in sorted(replaced):
                versions, version = self._versions(*group), last.get(group)
                if not versions if version is None else version not in versions:
                    missing.append(group)
                elif versions:
                    wanted[group] = max(versions) if version is None else version
        if missing:
            raise HoodieRollbackException(
                f"{where}: the version before it of {len(missing)} file groups was cleaned, such as {missing[0][1]}"
            )
        for (partition_path, name), clean_time in going.items():
            base = parse_base_file_name(name)
            if base is not None and wanted.get((partition_path, base.file_id)) == base.instant_time:
                raise HoodieRollbackException(
                    f"{where}: the version before it of file group {base.file_id} is being cleaned: "
                    f"{way_out_of_clean(timeline, clean_time)}"
                )

    def _check_late(self, instant: HoodieInstant) -> None:
        timeline = self._snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self._snapshot.base_path} cannot be taken back"
        going: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for (path, name), clean_time in files_being_cleaned(timeline).items():
            base = parse_base_file_name(name)
            if base is not None:
                going[path, base.file_id][base.instant_time] = clean_time
        visible = VisibleInstants.of(timeline)
        if timeline.filter(lambda i: i.action is Action.SAVEPOINT and i.requested_time == time_):
            raise HoodieRollbackException(f"{where}: it is savepointed")
        for other in timeline.commits_timeline().filter_completed_instants():
            stats = timeline.read_commit_metadata(other).write_stats
            if any(stat.prev_commit == time_ for stat in stats):
                raise HoodieRollbackException(f"{where}: {other.requested_time} is built on it")
        metadata = timeline.read_commit_metadata(instant)
        changed = {(stat.partition_path, stat.file_id) for stat in metadata.write_stats if not _is_new(stat)}
        if isinstance(metadata, HoodieReplaceCommitMetadata):
            changed |= {
                (path, file_id) for path, ids in metadata.partition_to_replace_file_ids.items() for file_id in ids
            }
        for path, file_id in sorted(changed):
            others = self._versions(path, file_id) - {time_}
            if not others:
                raise HoodieRollbackException(
                    f"{where}: {file_id} of partition '{path}', which it changed, was cleaned"
                )
            newest = max(filter(visible.is_committed, others), default="")
            if newest in going[path, file_id]:
                raise HoodieRollbackException(
                    f"{where}: what was there before of {file_id} of partition '{path}' is being cleaned: "
                    f"{way_out_of_clean(timeline, going[path, file_id][newest])}"
                )

    def _refuse_the_last_one(self, instant: HoodieInstant, where: str) -> None:
        """Files of archived commits are told by an active commit that is younger: one must be left."""
        timeline = self._snapshot.active_timeline
        completed = timeline.commits_timeline().filter_completed_instants().before(instant.requested_time)
        archived = self._snapshot.archived_timeline.commits_timeline().filter_completed_instants()
        # What is in the archive is active only until its archiver goes on.
        left = [commit.requested_time for commit in completed if not archived.contains(commit.requested_time)]
        if any(time not in timeline.savepoint_times for time in left):
            return
        if len(archived.after(left[-1] if left else "")):
            raise HoodieRollbackException(
                f"{where}: commits before it are archived, and without it nothing would tell readers that their files "
                "count. Write what shall be there instead, such as by insert_overwrite or delete"
            )

    def _versions(self, partition_path: str, file_id: str) -> set[str]:
        """Instant times of the base files of a file group, committed or not; each partition is listed once."""
        if partition_path not in self._listed:
            versions: dict[str, set[str]] = defaultdict(set)
            for status in self._storage.list_directory(join(self._snapshot.base_path, partition_path)):
                name = parse_base_file_name(status.name)
                if name is not None:
                    versions[name.file_id].add(name.instant_time)
            self._listed[partition_path] = versions
        return self._listed[partition_path].get(file_id, set())


def _is_new(stat: HoodieWriteStat) -> bool:
    """Whether a file is the first of its file group."""
    return stat.prev_commit in (NULL_COMMIT, "", None)
