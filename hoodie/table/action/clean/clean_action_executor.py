"""Carry out cleans that were planned: delete the files, write ``<t>.clean``.

Hudi: org.apache.hudi.table.action.clean.CleanActionExecutor.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import attrs

from hoodie.avro.clean_metadata import (
    HoodieCleanerPlan,
    HoodieCleanMetadata,
    HoodieCleanPartitionMetadata,
)
from hoodie.avro.timeline_metadata import decode, encode
from hoodie.common.fs.file_names import is_data_file_name
from hoodie.common.model.partition_metadata import PARTITION_METAFILE_PREFIX, check_partition_path
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException, HoodieCorruptedDataException, HoodieIOException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name, join, normalise_path, parent, relative_to, resolve_inside, scheme
from hoodie.table.action.clean.base_clean_action_executor import BaseCleanActionExecutor
from hoodie.table.action.clean.clean_planner import CleanPlanner, files_that_stay

__all__ = ["CleanActionExecutor"]

logger = logging.getLogger(__name__)

REMOTE_THREADS = 16
"""Of one task that deletes from an object store, where a call is mostly waiting."""


class CleanActionExecutor(BaseCleanActionExecutor):
    """Carries out plans, from wherever an earlier attempt stopped: every step may be done twice.

    Where no folder of a partition may be deleted, they stay though the plan says they go.

    Hudi: org.apache.hudi.table.action.clean.CleanActionExecutor. Differs: a plan that was left behind is looked through
        again, so
    that nothing goes that has become the newest version, or was savepointed, since; an emptied partition's folder is
    only deleted when nothing is in it.
    """

    def finish_pending(self) -> list[HoodieCleanMetadata]:
        """Carry out the cleans that other runs left behind, the oldest first.

        Raises:
            HoodieCorruptedDataException: A plan is damaged, or names what is no data file of the table.
            HoodieIOException: Storage failed; call again.
        """
        timeline = self._snapshot.reload_active_timeline()
        finished = []
        for instant in timeline.filter_actions(Action.CLEAN).filter_pending():
            requested = HoodieInstant(instant.requested_time, Action.CLEAN, State.REQUESTED)
            if self._storage.exists(timeline.path_of(requested)) and not timeline.read_details(requested):
                # Its writer died while it made the plan, so nothing of it was done.
                timeline.delete_pending(instant.requested_time, Action.CLEAN)
                continue
            logger.warning("finishing clean %s of %s", instant.requested_time, self._snapshot.base_path)
            metadata = self.execute(instant.requested_time, is_left_behind=True)
            if metadata is not None:
                finished.append(metadata)
        return finished

    def execute(self, instant_time: str, is_left_behind: bool = False) -> HoodieCleanMetadata | None:
        """Carry out one plan.

        Files that are gone count as deleted. A file that cannot be deleted is reported in the metadata, and the clean
        completes: the next one looks at its partition again.

        Args:
            instant_time: Of a requested or inflight clean.
            is_left_behind: Whether the plan was made by an earlier run: the table may have changed since.

        Returns:
            What was done; None when somebody else completed it meanwhile.

        Raises:
            HoodieCorruptedDataException: The plan is damaged, or names what is no data file of the table; nothing was
                deleted.
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        timeline = self._snapshot.reload_active_timeline()
        instant = timeline.find(instant_time, Action.CLEAN)
        if instant is None or instant.state is State.COMPLETED:
            return None
        requested = HoodieInstant(instant_time, Action.CLEAN, State.REQUESTED)
        content = timeline.read_details(requested)
        plan: HoodieCleanerPlan = decode(content, HoodieCleanerPlan, timeline.path_of(requested))
        files = self._files_of(plan, timeline.path_of(requested))
        for partition_path in plan.partitions_to_be_deleted:
            resolve_inside(self._snapshot.base_path, partition_path, f"the plan {timeline.path_of(requested)}")
        if instant.state is State.REQUESTED:
            timeline.transition_requested_to_inflight(instant_time, Action.CLEAN, content)
        if is_left_behind:
            files = self._without_those_that_stay(files, instant_time)
        failed = self._delete(files)
        gone = self._delete_partitions(plan.partitions_to_be_deleted)
        metadata = _metadata_of(instant_time, plan, files, failed, gone, started)
        try:
            is_ours = timeline.save_as_complete(instant_time, Action.CLEAN, encode(metadata))
        except HoodieCommitException:
            # Somebody else completed it, and archived it since.
            is_ours = False
        self._snapshot.reload_active_timeline()
        if not is_ours:
            logger.info("clean %s of %s was completed by somebody else", instant_time, self._snapshot.base_path)
            return None
        logger.info(
            "cleaned %s at %s: %d files deleted, %d could not be",
            self._snapshot.base_path, instant_time, metadata.total_files_deleted, sum(map(len, failed.values())),
        )  # fmt: skip
        return metadata

    def _files_of(self, plan: HoodieCleanerPlan, source: str) -> dict[str, list[str]]:
        """Partition path -> full paths; of plans of all versions. Everything is a data file of its partition."""
        planned = {
            partition_path: [file.file_path for file in files if not file.is_bootstrap_base_file]
            for partition_path, files in plan.file_paths_to_be_deleted_per_partition.items()
        }
        for partition_path, names in (plan.files_to_be_deleted_per_partition or {}).items():
            known = planned.setdefault(partition_path, [])
            known += [join(self._snapshot.base_path, partition_path, file_name(name)) for name in names]
        return {
            partition_path: [self._checked(partition_path, path, source) for path in paths]
            for partition_path, paths in planned.items()
        }

    def _checked(self, partition_path: str, planned: str, source: str) -> str:
        try:
            check_partition_path(partition_path)
            path = normalise_path(planned)
            found = relative_to(self._snapshot.base_path, parent(path))
        except (ValueError, HoodieIOException):
            path, found = planned, None
        if found != partition_path.strip("/") or not is_data_file_name(file_name(path)):
            raise HoodieCorruptedDataException(
                f"the plan {source} asks to delete {planned!r}, which is no data file of partition {partition_path!r} "
                f"of {self._snapshot.base_path}; nothing was deleted. If the table was moved, or the plan is not to "
                "be trusted, delete the clean's .inflight file and then its .requested file: the next clean plans anew"
            )
        return path

    def _without_those_that_stay(self, files: dict[str, list[str]], instant_time: str) -> dict[str, list[str]]:
        retention = CleanPlanner(self._context, self._clean, self._snapshot).retention()
        metadata = FileSystemBackedTableMetadata(self._storage, self._snapshot.base_path)
        listed = metadata.list_files_of(sorted(files))
        result = {}
        for partition_path, paths in files.items():
            staying = files_that_stay(retention, partition_path, listed[partition_path])
            kept = [path for path in paths if path in staying]
            if kept:
                logger.warning(
                    "clean %s of %s was planned when %s was not needed; it is now, and stays",
                    instant_time,
                    self._snapshot.base_path,
                    ", ".join(kept),
                )
            result[partition_path] = [path for path in paths if path not in staying]
        return result

    def _delete(self, files: dict[str, list[str]]) -> dict[str, set[str]]:
        """Delete files; partition path -> paths of those that are still there."""
        work = [(partition_path, path) for partition_path, paths in files.items() for path in paths]
        task_count = min(self._clean.parallelism, len(work), 4 * self._context.default_parallelism)
        failed: dict[str, set[str]] = {}
        results = self._context.run_tasks(
            [work[i::task_count] for i in range(task_count)], _DeleteFiles(self._storage, self._snapshot.base_path)
        )
        for part in results:
            for partition_path, path in part:
                failed.setdefault(partition_path, set()).add(path)
        return failed

    def _delete_partitions(self, partition_paths: Iterable[str]) -> set[str]:
        """Delete the folders of partitions of which nothing is left, unless somebody may be about to write there."""
        wanted = [path for path in partition_paths if path.strip("/")]
        if not wanted or not self._may_delete_partitions:
            return set()
        deleted = set()
        for partition_path in wanted:
            # A write that began since the plan was made, or while files were deleted, may be about to use the folder.
            if len(self._snapshot.reload_active_timeline().commits_timeline().filter_pending()):
                break
            folder = join(self._snapshot.base_path, check_partition_path(partition_path))
            try:
                inside = [
                    status
                    for status in self._storage.list_files(folder)
                    if not file_name(status.path).startswith(PARTITION_METAFILE_PREFIX)
                ]
                if not inside:
                    self._storage.delete_directory(folder)
                    deleted.add(partition_path)
            except HoodieIOException as error:
                logger.warning("the empty partition %s was not deleted: %s", folder, error)
        return deleted


@attrs.frozen
class _DeleteFiles:
    """Deletes files in a task; gives back those that could not be deleted."""

    storage: HoodieStorage
    base_path: str

    def __call__(self, task: TaskIdentity, files: list[tuple[str, str]]) -> list[tuple[str, str]]:
        if scheme(self.base_path) == "file" or len(files) == 1:
            return [file for file in files if not self._delete(file[1])]
        with ThreadPoolExecutor(min(REMOTE_THREADS, len(files)), thread_name_prefix="hoodie-clean") as pool:
            return [
                file
                for file, gone in zip(files, pool.map(lambda file: self._delete(file[1]), files), strict=True)
                if not gone
            ]

    def _delete(self, path: str) -> bool:
        try:
            self.storage.delete_file(path)
        except HoodieIOException as error:
            logger.warning("cleaning could not delete %s: %s", path, error)
            return False
        return True


def _metadata_of(
    instant_time: str,
    plan: HoodieCleanerPlan,
    files: dict[str, list[str]],
    failed: dict[str, set[str]],
    gone: set[str],
    started: float,
) -> HoodieCleanMetadata:
    stats = {}
    for partition_path, paths in files.items():
        bad = failed.get(partition_path, set())
        stats[partition_path] = HoodieCleanPartitionMetadata(
            partition_path=partition_path,
            policy=plan.policy,
            delete_path_patterns=tuple(map(file_name, paths)),
            success_delete_files=tuple(file_name(path) for path in paths if path not in bad),
            failed_delete_files=tuple(file_name(path) for path in paths if path in bad),
            is_partition_deleted=partition_path in gone,
        )
    return HoodieCleanMetadata(
        start_clean_time=instant_time,
        time_taken_ms=int((time.monotonic() - started) * 1000),
        total_files_deleted=sum(len(stat.success_delete_files) for stat in stats.values()),
        earliest_commit_to_retain=plan.earliest_instant_to_retain.timestamp if plan.earliest_instant_to_retain else "",
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata=stats,
        extra_metadata=plan.extra_metadata or {},
    )
