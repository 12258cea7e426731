"""Undo an instant: delete its files, then its place in the timeline. Plan first, then execute; both can be resumed.

Base files of the instant are deleted, and log files of its own slices. In a log file of an older slice, which exists in
version 6 alone, its blocks are taken back by a command block. A compaction keeps its plan, so that it can run again.

Hudi: org.apache.hudi.table.action.rollback.{BaseRollbackPlanActionExecutor, CopyOnWriteRollbackActionExecutor,
MergeOnReadRollbackActionExecutor, MarkerBasedRollbackStrategy, ListingBasedRollbackStrategy}.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

import attrs

from hoodie.avro.timeline_metadata import (
    HoodieInstantInfo,
    HoodieRollbackMetadata,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
)
from hoodie.common.fs.file_names import is_data_file_name, make_log_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.model.write_operation_type import HoodieTableType, IOType, WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order, is_after, newest
from hoodie.exception import HoodieCorruptedDataException, HoodieRollbackException
from hoodie.io.log.log_file_owner import is_log_file_of
from hoodie.metadata.metadata_table import MetadataTable
from hoodie.storage.storage_path import (
    as_uri,
    check_inside,
    file_name,
    join,
    normalise_path,
    relative_to,
    resolve_inside,
)
from hoodie.table.action.action import TableAction, check_planned_instant
from hoodie.table.action.clean.pending_cleans import files_being_cleaned, way_out_of_clean
from hoodie.table.action.completion import compact_metadata_table, complete_instant
from hoodie.table.action.rollback.command_blocks import WRITE_TOKEN, take_back
from hoodie.table.action.rollback.instant_files import COMPACTIONS, InstantFile, InstantFiles
from hoodie.table.action.rollback.undone_files import UndoneFiles, rollback_metadata
from hoodie.table.slices_of_other_version import slice_of_other_version
from hoodie.table.table_state import LOG_FILES, last_versions
from hoodie.transaction.concurrent_operation import created_file_groups

logger = logging.getLogger(__name__)


class RollbackActionExecutor(TableAction[HoodieRollbackPlan, HoodieRollbackMetadata]):
    """Rolls back one instant of a table.

    Every step may be done twice: a rollback that died at any step is finished by carrying its plan out again.

    Args:
        snapshot: The table.
        instant: The instant to roll back: a pending one, or the newest completed one. None for a plan of another run.
        using_markers: Whether the files of a pending instant are found by its markers, not by listing the table. A
            merge-on-read table is listed as well.
        is_late: Whether its writer completed the instant though it should not have. Others may have committed since.
        is_empty: Whether an earlier rollback has deleted the files of the instant.
        keeps_plan: Whether the plan of the instant stays, as that of a compaction does: an attempt of a clustering is
            undone. Another process that finishes the rollback deletes the plan.

    Hudi: org.apache.hudi.table.action.rollback.{CopyOnWriteRollbackActionExecutor, MergeOnReadRollbackActionExecutor}.
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
        keeps_plan: bool = False,
    ) -> None:
        super().__init__(snapshot)
        self._instant = instant
        self._using_markers = using_markers
        self._is_late = is_late
        self._is_empty = is_empty
        self._keeps_plan = keeps_plan
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
        requests = tuple(_requests_of(self._files_of(self._instant), self._instant.is_completed))
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
        if not _is_for_completed(plan):
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
        # From here on readers of the metadata table would take what it records of the instant for committed.
        if not self._is_time_of_another(info.commit_time, action):
            MetadataTable(self.snapshot).forget(info.commit_time)
        kind = self._compaction_of(info.commit_time, action)
        # A log compaction that was completed need not be made again.
        is_log_compaction = kind is Action.LOG_COMPACTION and action is kind
        keeps_plan = self._keeps_plan or kind is Action.COMPACTION or is_log_compaction
        timeline.delete_pending(info.commit_time, action, keeps_plan=keeps_plan)
        self._delete_late_files(markers, plan)
        completed = complete_instant(self.snapshot, instant_time, self.kind, metadata)
        if completed is not None:
            compact_metadata_table(completed)
        markers.delete_all()
        self._storage.delete_file(self.snapshot.heartbeat_path(info.commit_time))
        logger.info(
            "rolled back %s %s of %s at %s: %d files deleted",
            info.action, info.commit_time, self.snapshot.base_path, instant_time, metadata.total_files_deleted,
        )  # fmt: skip
        return metadata

    def _is_time_of_another(self, instant_time: str, action: Action) -> bool:
        """Whether an instant of another action was completed at this time, whose records must stay.

        A writer that died while it took its time may have left a requested file with the time of another one.
        """
        return any(
            one.requested_time == instant_time and one.action is not action.completed_action
            for one in self.snapshot.active_timeline.completed_writes()
        )

    def _compaction_of(self, instant_time: str, action: Action) -> Action | None:
        """COMPACTION or LOG_COMPACTION if an instant is one, also if it is completed: its action is another then."""
        if action in COMPACTIONS:
            return action
        if self.snapshot.table_config.table_type is not HoodieTableType.MERGE_ON_READ:
            return None
        timeline = self.snapshot.active_timeline
        kinds = (kind for kind in COMPACTIONS if kind.completed_action is action)
        plans = (HoodieInstant(instant_time, kind, State.REQUESTED) for kind in kinds)
        return next((plan.action for plan in plans if self._storage.exists(timeline.path_of(plan))), None)

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

    def _delete_late_files(self, markers: WriteMarkers, plan: HoodieRollbackPlan) -> None:
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
        planned = {
            (request.partition_path, file_name(path))
            for request in plan.rollback_requests
            for path in (*request.files_to_be_deleted, *(request.log_blocks_to_be_deleted or ()))
        }
        late = []
        for marker in announced:
            path = join(self.snapshot.base_path, marker.partition_path, marker.file_name)
            is_planned = (marker.partition_path, marker.file_name) in planned
            # What is behind a command block that was written already is not taken back by it.
            is_appended = marker.io_type is IOType.APPEND
            if not is_appended or (not is_planned and is_log_file_of(self._storage, path, markers.instant_time)):
                late.append(path)
        self._storage.delete_files(late)

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
        for request in requests:
            self._check_slice(request, source)
        return attrs.evolve(plan, rollback_requests=requests)

    def _check_slice(self, request: HoodieRollbackRequest, source: str) -> None:
        """Refuse a request to write a command block to what is no slice of the table."""
        if not request.log_blocks_to_be_deleted:
            return
        resolve_inside(self.snapshot.base_path, request.partition_path, f"the plan {source}")
        try:
            make_log_file_name(request.file_id or "", request.latest_base_instant or "", 1, WRITE_TOKEN)
        except ValueError as error:
            raise HoodieCorruptedDataException(f"the plan {source} names no file slice: {error}") from error
        if self.snapshot.active_timeline.layout.has_completion_times:
            raise HoodieCorruptedDataException(
                f"the plan {source} undoes blocks of log files, as only tables of version 6 do; nothing was undone. "
                "Delete the rollback's .inflight file and then its .requested file: the next write plans anew"
            )

    def _delete_files(self, rollback_time: str, plan: HoodieRollbackPlan, started: float) -> HoodieRollbackMetadata:
        info, _ = _target_of(plan)
        undone: dict[str, UndoneFiles] = defaultdict(UndoneFiles)
        slices = set()
        for request in plan.rollback_requests:
            if request.files_to_be_deleted:
                undone[request.partition_path].deleted.extend(request.files_to_be_deleted)
            if request.log_blocks_to_be_deleted:
                undone[request.partition_path].taken_back.update(request.log_blocks_to_be_deleted)
                slices.add((request.partition_path, str(request.file_id), str(request.latest_base_instant)))
        self._storage.delete_files(path for files in undone.values() for path in files.deleted)
        for file in take_back(self.snapshot, slices, lambda time_: time_ == info.commit_time, rollback_time):
            undone[file.partition_path].note(file)
        return rollback_metadata(rollback_time, info, undone, int((time.monotonic() - started) * 1000))

    def _inside(self, planned: str, source: str) -> str:
        """A planned path, which must lie below the table's folder."""
        try:
            path = normalise_path(planned)
            inner = check_inside(relative_to(self.snapshot.base_path, path))
        except ValueError:
            path, inner = planned, ""
        if not is_data_file_name(file_name(inner)):
            raise HoodieCorruptedDataException(
                f"the plan {source} asks to delete {planned!r}, which is no data file of "
                f"{self.snapshot.base_path}; nothing was deleted. If the table was moved, or the plan is not to be "
                "trusted, delete the rollback's .inflight file and then its .requested file: the next write plans anew"
            )
        return path

    def files_without_markers(self, instant: HoodieInstant) -> list[str]:
        """Full paths of the files of an inflight instant that has no markers.

        A writer announces each file by a marker before it makes the file, and deletes the markers once its instant is
        completed. Files without markers are therefore those of a commit whose completed file was lost.
        """
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, instant.requested_time)
        if instant.state is not State.INFLIGHT or self._storage.exists(markers.folder):
            return []
        files = [file.path for file in self._finder(instant).listed()]
        # A writer that was taken for dead may have gone on since: it makes markers before files.
        return [] if files and self._storage.exists(markers.folder) else files

    def _finder(self, instant: HoodieInstant) -> InstantFiles:
        # A log compaction writes log files: they have its time in their names, or in their blocks.
        is_compaction = self._compaction_of(instant.requested_time, instant.action) is Action.COMPACTION
        return InstantFiles(self.snapshot, instant.requested_time, is_compaction=is_compaction)

    def _files_of(self, instant: HoodieInstant) -> list[InstantFile]:
        """The files that the instant wrote, sorted by path."""
        markers = WriteMarkers(self._storage, self.snapshot.meta_path, instant.requested_time)
        markers.close()
        has_markers = instant.state is not State.COMPLETED and self._storage.exists(markers.folder)
        # A requested instant with markers has lost its inflight file.
        if instant.state is State.REQUESTED and not has_markers:
            return []
        files = self._finder(instant)
        if not has_markers or not self._using_markers:
            return files.listed()
        announced = markers.list_markers()
        found = {file.path: file for file in files.announced(announced)}
        if files.must_be_listed:
            found |= {file.path: file for file in files.listed(announced)}
        return [file for _, file in sorted(found.items())]

    def _check_completed(self, instant: HoodieInstant) -> None:
        """Refuse the rollbacks that Hudi refuses, and a rollback to files that are gone."""
        timeline = self.snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self.snapshot.base_path} cannot be rolled back"
        later = timeline.commits_timeline().after(time_)
        if later:
            # A compaction keeps its plan when it is rolled back.
            way_out = "roll those back first, newest first"
            if any(self._compaction_of(other.requested_time, other.action) is Action.COMPACTION for other in later):
                way_out = "compactions are among them, so call restore_to_instant() with the commit before it instead"
            raise HoodieRollbackException(
                f"{where}: later ones exist ({', '.join(other.requested_time for other in later)}); {way_out}"
            )
        if time_ in timeline.savepoint_times:
            raise HoodieRollbackException(f"{where}: it is savepointed; delete the savepoint first")
        self._refuse_the_last_one(instant, where)
        before = timeline.completed_writes().before(time_).last_instant
        if before is not None and self._compaction_of(time_, instant.action) is Action.COMPACTION:
            problem = slice_of_other_version(self.snapshot, before.requested_time)
            if problem is not None:
                raise HoodieRollbackException(f"{where}: {problem}")
        metadata = timeline.read_commit_metadata(instant)
        going = files_being_cleaned(timeline)
        wanted = {
            (stat.partition_path, str(stat.file_id)): stat.version_before
            for stat in metadata.write_stats
            if not stat.is_first_of_group
        }
        missing = [group for group, version in wanted.items() if version not in self._versions(*group)]
        replaced = set(metadata.replaced_file_groups)
        last = last_versions(self.snapshot, replaced, instant.requested_time)
        for group in sorted(replaced):
            versions, version = self._versions(*group), last.get(group)
            version = None if version == LOG_FILES else version
            if not versions if version is None else version not in versions:
                missing.append(group)
            elif versions:
                wanted[group] = in_order(versions)[-1] if version is None else version
        if missing:
            raise HoodieRollbackException(
                f"{where}: the previous version of {len(missing)} file groups was cleaned, such as {missing[0][1]}"
            )
        for (partition_path, name), clean_time in going.items():
            file = parse_base_file_name(name) or parse_log_file_name(name)
            if file is not None and wanted.get((partition_path, file.file_id)) == file.instant_time:
                raise HoodieRollbackException(
                    f"{where}: the previous version of file group {file.file_id} is being cleaned: "
                    f"{way_out_of_clean(timeline, clean_time)}"
                )

    def _check_late(self, instant: HoodieInstant) -> None:
        timeline = self.snapshot.active_timeline
        time_ = instant.requested_time
        where = f"{instant.action} {time_} of {self.snapshot.base_path} cannot be taken back"
        going: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for (path, name), clean_time in files_being_cleaned(timeline).items():
            file = parse_base_file_name(name) or parse_log_file_name(name)
            if file is not None:
                going[path, file.file_id][file.instant_time] = clean_time
        visible = timeline.visible_instants
        if time_ in timeline.savepoint_times:
            raise HoodieRollbackException(f"{where}: it is savepointed")
        metadata = timeline.read_commit_metadata(instant)
        appended = {_group_of(stat) for stat in metadata.write_stats if stat.is_log_file}
        # A log file of layout 2 does not say what it is built on; but nobody can name a file group that he did not see.
        created = created_file_groups(metadata)
        for other in timeline.completed_writes():
            if other.requested_time == time_:
                continue
            is_later = is_after(other.requested_time, time_)
            its_metadata = timeline.read_commit_metadata(other)
            is_log_compaction = its_metadata.operation_type is WriteOperationType.LOG_COMPACT
            for stat in its_metadata.write_stats:
                # A base file that was made after a log file may hold its rows, and so may that of a log compaction.
                merged = is_later and (not stat.is_log_file or is_log_compaction) and _group_of(stat) in appended
                if merged or stat.prev_commit == time_ or _group_of(stat) in created:
                    raise HoodieRollbackException(f"{where}: {other.requested_time} is built on it")
        compacted = {(group.partition_path, group.file_id) for group in pending_compactions(timeline)} & appended
        if compacted:
            raise HoodieRollbackException(
                f"{where}: a pending compaction may merge its log file of {compacted.pop()[1]}"
            )
        changed = {
            _group_of(stat) for stat in metadata.write_stats if not stat.is_first_of_group and not stat.is_log_file
        }
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
        remaining = [commit.requested_time for commit in completed if not archived.contains(commit.requested_time)]
        if any(time not in timeline.savepoint_times for time in remaining):
            return
        if len(archived.after(remaining[-1] if remaining else "")):
            raise HoodieRollbackException(
                f"{where}: commits before it are archived, and without it readers could not know that their files are "
                "committed. Write the rows that the table should have instead, such as by insert_overwrite or delete"
            )

    def _versions(self, partition_path: str, file_id: str) -> set[str]:
        """Instant times of the files of a file group, committed or not; each partition is listed once."""
        if partition_path not in self._listed:
            self._listed[partition_path] = self.snapshot.table_metadata.list_versions(
                partition_path, with_log_files=True
            )
        return self._listed[partition_path].get(file_id, set())


def _requests_of(files: Iterable[InstantFile], is_completed: bool) -> Iterator[HoodieRollbackRequest]:
    """The requests of a plan: one for each file that goes, and one for each slice in which blocks are taken back.

    As in Hudi's plans, files of a completed instant have no file group, and log files have full paths.
    """
    blocks: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for file in files:
        group = ("", "") if is_completed else (file.file_id, file.base_instant)
        if file.log_bytes is None:
            yield HoodieRollbackRequest(file.partition_path, *group, (file.path,))
        else:
            named = as_uri(file.path) if is_completed else file_name(file.path)
            blocks[file.partition_path, file.file_id, file.base_instant][named] = file.log_bytes
    for (partition_path, file_id, base_instant), named_files in blocks.items():
        yield HoodieRollbackRequest(partition_path, file_id, base_instant, log_blocks_to_be_deleted=dict(named_files))


def _is_for_completed(plan: HoodieRollbackPlan) -> bool:
    """Whether a plan was made for an instant that was completed then: see `_requests_of`."""
    requests = plan.rollback_requests
    return bool(requests) and all(
        all("/" in path for path in request.log_blocks_to_be_deleted)
        if request.log_blocks_to_be_deleted
        else not request.file_id
        for request in requests
    )


def _target_of(plan: HoodieRollbackPlan) -> tuple[HoodieInstantInfo, Action]:
    assert plan.instant_to_rollback is not None
    return plan.instant_to_rollback, Action(plan.instant_to_rollback.action)


def _group_of(stat: HoodieWriteStat) -> tuple[str, str]:
    return stat.partition_path, str(stat.file_id)
