"""Undo an instant: delete its files, then its place in the timeline. Plan first, then execute; both can be resumed.

Hudi: org.apache.hudi.table.action.rollback.{BaseRollbackPlanActionExecutor, CopyOnWriteRollbackActionExecutor,
MarkerBasedRollbackStrategy, ListingBasedRollbackStrategy}.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    HoodieRollbackPartitionMetadata,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
)
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, newest
from hoodie.exception import HoodieCorruptedDataException, HoodieRollbackException
from hoodie.storage.storage_path import check_inside, file_name, join, normalise_path, relative_to
from hoodie.table.action.clean.pending_cleans import files_being_cleaned, way_out_of_clean
from hoodie.table.action.completion import complete_instant
from hoodie.table.action.table_action import TableAction, check_planned_instant
from hoodie.table.table_state import last_versions

logger = logging.getLogger(__name__)


class RollbackActionExecutor(TableAction[HoodieRollbackPlan, HoodieRollbackMetadata]):
    """Rolls back one instant of a copy-on-write table.

    Every step may be done twice: a rollback that died at any step is finished by carrying its plan out again.

    Args:
        snapshot: The table.
        instant: The instant to roll back: a pending one, or the newest completed one. None for a plan of another run.
        using_markers: Whether the files of a pending instant are found by its markers, not by listing the table.
        is_late: Whether its writer completed the instant though it should not have. Others may have committed since.
        is_empty: Whether an earlier rollback has deleted the files of the instant.

    Hudi: org.apache.hudi.table.action.rollback.CopyOnWriteRollbackActionExecutor.
    """

    kind = Action.ROLLBACK

    def __init__(
        self,
        snapshot: TableSnapshot,
        instant: HoodieInstant | None = None,
        *,
        using_markers: bool = True,
        is_late: bool = False,
        is_empty: bool = False,
    ) -> None:
        super().__init__(snapshot)
        self._instant = instant
        self._using_markers = using_markers
        self._is_late = is_late
        self._is_empty = is_empty
        self._storage = snapshot.storage
        self._listed: dict[str, dict[str, set[str]]] = {}

    def plan(self) -> HoodieRollbackPlan:
        """The files of the instant.

        Raises:
            HoodieRollbackException: The instant is completed and cannot be undone any more: there are later ones. An
                instant that was completed too late cannot be undone when another commit is built on it, or when
                nothing is left of what it replaced.
        """
        assert self._instant is not None
        self._judge(self._instant)
        requests = tuple(
            HoodieRollbackRequest(partition_path, file_id, base_instant, (path,))
            for partition_path, file_id, base_instant, path in self._files_of(self._instant)
        )
        return HoodieRollbackPlan(HoodieInstantInfo(self._instant.requested_time, str(self._instant.action)), requests)

    def refuse_rivals(self, plan: HoodieRollbackPlan, instant_time: str, before: TableSnapshot | None) -> None:
        """Stop where a clean deletes what the table would go back to, or the instant was completed meanwhile."""
        if self._instant is not None:
            # A clean may have been planned meanwhile. A clean that is planned from now on sees the rollback.
            self._judge(self._instant)
            return
        target = self._completed_target(plan)
        if target is None:
            return
        # The plan for a completed commit names no file groups in its requests.
        if not plan.rollback_requests or any(request.file_id for request in plan.rollback_requests):
            raise self._completed_meanwhile(target)
        # The process that planned the rollback may have died before it checked again what the table goes back to.
        self._refuse_the_last_one(target, f"rollback {instant_time} of {self.snapshot.base_path}")
        self._check_late(target)

    def begin(self, plan: HoodieRollbackPlan, instant_time: str) -> None:
        """Make the rollback inflight, unless its instant was completed before others could see the rollback.

        An inflight rollback shows that the instant was pending when the rollback became visible. The instant's writer
        looks for rollbacks before it completes the instant, and finds this one.

        Raises:
            HoodieRollbackException: The instant was completed; the rollback is withdrawn.
        """
        target = self._completed_target(plan)
        if target is not None and self._instant is not None and self._instant.is_pending:
            self.withdraw(instant_time)
            raise self._completed_meanwhile(target)
        super().begin(plan, instant_time)

    def already_ended(self, instant_time: str) -> HoodieRollbackMetadata:
        """Always an error.

        Raises:
            HoodieRollbackException: There is no such pending rollback.
        """
        raise HoodieRollbackException(f"there is no pending rollback {instant_time} in {self.snapshot.base_path}")

    def do(self, plan: HoodieRollbackPlan, instant_time: str, is_left_behind: bool) -> HoodieRollbackMetadata:
        """Delete the files, then the instant.

        Raises:
            HoodieRollbackException: The plan undoes log blocks, which hoodie does not do yet.
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        timeline = self.snapshot.active_timeline
        info, action = _target_of(plan)
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, info.commit_time)
        if self._completed_target(plan) is not None:
            timeline.revert_completed_to_inflight(info.commit_time, action)
        markers.close()
        metadata = self._delete_files(instant_time, plan, started)
        timeline.delete_pending(info.commit_time, action)
        self._delete_late_files(markers)
        complete_instant(self.snapshot, instant_time, self.kind, metadata)
        markers.delete_all()
        self._storage.delete_file(self.snapshot.heartbeat_path(info.commit_time))
        logger.info(
            "rolled back %s %s of %s at %s: %d files deleted",
            info.action, info.commit_time, self.snapshot.base_path, instant_time, metadata.total_files_deleted,
        )  # fmt: skip
        return metadata

    def _completed_target(self, plan: HoodieRollbackPlan) -> HoodieInstant | None:
        """The instant that the plan undoes, if it is completed now."""
        info, action = _target_of(plan)
        found = self.snapshot.active_timeline.find(info.commit_time, action)
        return found if found is not None and found.is_completed else None

    def _completed_meanwhile(self, target: HoodieInstant) -> HoodieRollbackException:
        return HoodieRollbackException(
            f"{target.action} {target.requested_time} of {self.snapshot.base_path} was completed by its writer while "
            "its rollback was being prepared; it stays. Another writer is at work: write with one at a time"
        )

    def _judge(self, instant: HoodieInstant) -> None:
        """Refuse to undo a completed instant that cannot be undone."""
        self._listed.clear()
        if not instant.is_completed or self._is_empty:
            return
        if self._is_late:
            self._check_late(instant)
        else:
            self._check_completed(instant)

    def _delete_late_files(self, markers: WriteMarkers) -> None:
        """Delete files that a writer announced after the plan was made: it was taken for dead, and is alive.

        The writer's instant is gone by now, so the writer starts no more tasks. Tasks that are writing find out.
        """
        markers.close()
        if not self._using_markers:
            return
        try:
            announced = markers.list_markers()
        except HoodieCorruptedDataException as error:
            logger.warning("whether more files are left below %s could not be found out: %s", markers.folder, error)
            return
        self._storage.delete_files(
            join(self.snapshot.base_path, marker.partition_path, marker.file_name)
            for marker in announced
            if marker.io_type is not IOType.APPEND
        )

    def read_plan(self, instant_time: str) -> HoodieRollbackPlan:
        """The plan, with its paths as storage takes them; a plan that names files outside of the table is refused."""
        requested = HoodieInstant(instant_time, Action.ROLLBACK, State.REQUESTED)
        timeline = self.snapshot.active_timeline
        plan, source = timeline.read_as(requested, HoodieRollbackPlan), timeline.path_of(requested)
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
        base_path = self.snapshot.base_path
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
        info, _ = _target_of(plan)
        return rollback_metadata(rollback_time, info, deleted, int((time.monotonic() - started) * 1000))

    def _inside(self, planned: str, source: str) -> str:
        """A planned path, which must lie below the table's folder."""
        try:
            path = normalise_path(planned)
            inner = check_inside(relative_to(self.snapshot.base_path, path))
        except ValueError:
            path, inner = planned, ""
        if parse_base_file_name(file_name(inner)) is None:
            raise HoodieCorruptedDataException(
                f"the plan {source} asks to delete {planned!r}, which is no data file of "
                f"{self.snapshot.base_path}; nothing was deleted. If the table was moved, or the plan is not to be "
                "trusted, delete the rollback's .inflight file and then its .requested file: the next write plans anew"
            )
        return path

    def files_without_markers(self, instant: HoodieInstant) -> list[str]:
        """Full paths of the base files of an inflight instant that has no markers.

        A writer announces each file by a marker before it makes the file, and deletes the markers once its instant is
        completed. Files without markers are therefore those of a commit whose completed file was lost.
        """
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, instant.requested_time)
        if instant.state is not State.INFLIGHT or self._storage.exists(markers.folder):
            return []
        files = [path for _, _, _, path in self._listed_files_of(instant.requested_time)]
        # A writer that was taken for dead may have gone on since: it makes markers before files.
        return [] if files and self._storage.exists(markers.folder) else files

    def _files_of(self, instant: HoodieInstant) -> list[tuple[str, str, str, str]]:
        """(partition path, file id, base instant, full path) of every base file that the instant wrote."""
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, instant.requested_time)
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
                        f"{instant.requested_time} of {self.snapshot.base_path} appended to log files, which "
                        "hoodie does not roll back yet: do it with the writer that began it"
                    )
                name = parse_base_file_name(marker.file_name)
                file_id = name.file_id if name is not None else ""
                path = join(self.snapshot.base_path, marker.partition_path, marker.file_name)
                found.append((marker.partition_path, file_id, instant.requested_time, path))
            return sorted(found, key=lambda entry: entry[3])
        found = self._listed_files_of(instant.requested_time)
        if instant.state is State.COMPLETED:
            # Hudi leaves these fields empty in plans that it makes by listing.
            return [(partition_path, "", "", path) for partition_path, _, _, path in found]
        return found

    def _listed_files_of(self, instant_time: str) -> list[tuple[str, str, str, str]]:
        metadata = self.snapshot.table_metadata
        found = []
        for partition_path in metadata.list_partitions():
            for status in metadata.list_files(partition_path):
                name = parse_base_file_name(status.name)
                if name is not None and name.instant_time == instant_time:
                    found.append((partition_path, name.file_id, instant_time, status.path))
        return found

    def _check_completed(self, instant: HoodieInstant) -> None:
        """Refuse the rollbacks that Hudi refuses, and a rollback to files that are gone."""
        timeline = self.snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self.snapshot.base_path} cannot be rolled back"
        later = [i.requested_time for i in timeline.commits_timeline().after(time_)]
        if later:
            raise HoodieRollbackException(
                f"{where}: later ones exist ({', '.join(later)}); roll those back first, newest first"
            )
        if time_ in timeline.savepoint_times:
            raise HoodieRollbackException(f"{where}: it is savepointed; delete the savepoint first")
        if instant.action not in (Action.COMMIT, Action.REPLACE_COMMIT):
            raise HoodieRollbackException(f"{where}: of completed instants only commits and replacecommits can be")
        self._refuse_the_last_one(instant, where)
        metadata = timeline.read_commit_metadata(instant)
        going = files_being_cleaned(timeline)
        wanted = {
            (stat.partition_path, str(stat.file_id)): stat.prev_commit
            for stat in metadata.write_stats
            if not _is_new(stat)
        }
        missing = [group for group, version in wanted.items() if version not in self._versions(*group)]
        replaced = set(metadata.replaced_file_groups)
        last = last_versions(self.snapshot, replaced, instant.requested_time)
        for group in sorted(replaced):
            versions, version = self._versions(*group), last.get(group)
            if not versions if version is None else version not in versions:
                missing.append(group)
            elif versions:
                wanted[group] = in_order(versions)[-1] if version is None else version
        if missing:
            raise HoodieRollbackException(
                f"{where}: the previous version of {len(missing)} file groups was cleaned, such as {missing[0][1]}"
            )
        for (partition_path, name), clean_time in going.items():
            base = parse_base_file_name(name)
            if base is not None and wanted.get((partition_path, base.file_id)) == base.instant_time:
                raise HoodieRollbackException(
                    f"{where}: the previous version of file group {base.file_id} is being cleaned: "
                    f"{way_out_of_clean(timeline, clean_time)}"
                )

    def _check_late(self, instant: HoodieInstant) -> None:
        timeline = self.snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self.snapshot.base_path} cannot be taken back"
        going: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for (path, name), clean_time in files_being_cleaned(timeline).items():
            base = parse_base_file_name(name)
            if base is not None:
                going[path, base.file_id][base.instant_time] = clean_time
        visible = timeline.visible_instants
        if time_ in timeline.savepoint_times:
            raise HoodieRollbackException(f"{where}: it is savepointed")
        for other in timeline.completed_writes():
            stats = timeline.read_commit_metadata(other).write_stats
            if any(stat.prev_commit == time_ for stat in stats):
                raise HoodieRollbackException(f"{where}: {other.requested_time} is built on it")
        metadata = timeline.read_commit_metadata(instant)
        changed = {(stat.partition_path, stat.file_id) for stat in metadata.write_stats if not _is_new(stat)}
        for path, file_id in sorted(changed.union(metadata.replaced_file_groups)):
            others = self._versions(path, file_id) - {time_}
            if not others:
                raise HoodieRollbackException(
                    f"{where}: {file_id} of partition '{path}', which it changed, was cleaned"
                )
            last = newest(time for time in others if visible.is_committed(time))
            if last in going[path, file_id]:
                raise HoodieRollbackException(
                    f"{where}: the previous version of {file_id} of partition '{path}' is being cleaned: "
                    f"{way_out_of_clean(timeline, going[path, file_id][last])}"
                )

    def _refuse_the_last_one(self, instant: HoodieInstant, where: str) -> None:
        """Refuse to undo the last active commit: readers know files of archived commits by an active, younger one."""
        timeline = self.snapshot.active_timeline
        completed = timeline.completed_writes().before(instant.requested_time)
        archived = self.snapshot.archived_timeline.completed_writes()
        # An archived commit that is still active goes as soon as its archiver continues.
        left = [commit.requested_time for commit in completed if not archived.contains(commit.requested_time)]
        if any(time not in timeline.savepoint_times for time in left):
            return
        if len(archived.after(left[-1] if left else "")):
            raise HoodieRollbackException(
                f"{where}: commits before it are archived, and without it readers could not know that their files are "
                "committed. Write the rows that the table should have instead, such as by insert_overwrite or delete"
            )

    def _versions(self, partition_path: str, file_id: str) -> set[str]:
        """Instant times of the base files of a file group, committed or not; each partition is listed once."""
        if partition_path not in self._listed:
            self._listed[partition_path] = self.snapshot.table_metadata.list_versions(partition_path)
        return self._listed[partition_path].get(file_id, set())


def rollback_metadata(
    rollback_time: str, undone: HoodieInstantInfo, deleted: Mapping[str, Sequence[str]], time_taken_ms: int
) -> HoodieRollbackMetadata:
    """What a rollback reports, or a restore for each instant that it undoes.

    Args:
        rollback_time: The instant time of the rollback or restore.
        undone: The instant that was undone.
        deleted: Partition path to the full paths of the deleted files.
        time_taken_ms: How long it took, in milliseconds.
    """
    return HoodieRollbackMetadata(
        start_rollback_time=rollback_time,
        time_taken_ms=time_taken_ms,
        total_files_deleted=sum(map(len, deleted.values())),
        commits_rollback=(undone.commit_time,),
        partition_metadata={
            path: HoodieRollbackPartitionMetadata(path, tuple(paths)) for path, paths in deleted.items()
        },
        instants_rollback=(undone,),
    )


def _target_of(plan: HoodieRollbackPlan) -> tuple[HoodieInstantInfo, Action]:
    assert plan.instant_to_rollback is not None
    return plan.instant_to_rollback, Action(plan.instant_to_rollback.action)


def _is_new(stat: HoodieWriteStat) -> bool:
    """Whether a file is the first of its file group."""
    return stat.prev_commit in (NULL_COMMIT, "", None)
