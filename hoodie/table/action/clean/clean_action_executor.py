"""Clean a table: plan which files to delete, delete them, and report it.

Hudi: org.apache.hudi.table.action.clean.{CleanPlanActionExecutor, CleanActionExecutor}.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import attrs

from hoodie.avro.service_metadata import (
    HoodieCleanerPlan,
    HoodieCleanMetadata,
    HoodieCleanPartitionMetadata,
)
from hoodie.common.fs.file_names import is_data_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.table.partition_metadata import PARTITION_METAFILE_PREFIX, check_partition_path
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.config.clean_config import HoodieCleanConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException, HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.metadata.metadata_table import MetadataTableUpkeep
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name, join, normalise_path, parent, relative_to, resolve_inside, scheme
from hoodie.table.action.action import TableAction
from hoodie.table.action.clean.clean_planner import CleanPlanner, files_that_stay
from hoodie.table.action.completion import compact_metadata_table, complete_instant
from hoodie.table.table_state import refuse_pending_restore
from hoodie.threads import ThreadPool

logger = logging.getLogger(__name__)

REMOTE_THREADS = 16
"""Threads of one task that deletes from an object store, where calls mostly wait."""


@attrs.frozen
class EmptyPlan:
    """A plan that found no file to delete, and so left no instant.

    Later cleans of the same client need not look again at what this plan has looked at.

    Attributes:
        earliest: The earliest instant that was to be retained.
        savepoints: The savepoints at that time.
    """

    earliest: str
    savepoints: tuple[str, ...]


class OutdatedPlanException(HoodieException):
    """Another process went back to older versions, or saved them, while a clean that deletes them was planned."""


class CleanActionExecutor(TableAction[HoodieCleanerPlan, HoodieCleanMetadata | None]):
    """Plans cleans and carries them out from where an earlier attempt stopped: every step may be done twice.

    Files that are gone count as deleted. A file that cannot be deleted is reported in the metadata, and the clean
    completes: the next clean looks at the file's partition again. Where folders of partitions may not be deleted, they
    stay though the plan names them.

    Args:
        context: The engine.
        clean: The policy.
        snapshot: The table, just loaded.
        may_delete_partitions: Whether the folders of empty partitions may be deleted: only where no other writer can be
            about to write there.
        last_empty_plan: The empty plan of an earlier clean of the same client; None without one.
        min_commits: A clean is due once there are this many commits after the last clean.
        metadata_config: The upkeep of the metadata table.
        lock: Takes the table's lock to complete a clean, which deletes its files without one; does nothing if the lock
            is held anyway.

    Attributes:
        empty_plan: Set by `plan` when it looked and found no file to delete.
        failures: Failures after a clean was completed, one line each.

    Hudi: org.apache.hudi.table.action.clean.{CleanPlanActionExecutor, CleanActionExecutor}. Differs: a plan that was
    left behind is checked again, so that files stay which have become the newest version, or were savepointed, since;
    an emptied partition's folder is only deleted when nothing is in it.
    """

    kind = Action.CLEAN

    def __init__(
        self,
        context: HoodieEngineContext,
        clean: HoodieCleanConfig,
        snapshot: TableSnapshot,
        may_delete_partitions: bool = True,
        last_empty_plan: EmptyPlan | None = None,
        min_commits: int = 0,
        metadata_config: HoodieMetadataConfig | None = None,
        lock: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        super().__init__(snapshot)
        self._lock = lock
        self._metadata_config = metadata_config or HoodieMetadataConfig()
        self._context = context
        self._clean = clean
        self._may_delete_partitions = may_delete_partitions
        self._last_empty_plan = last_empty_plan
        self._min_commits = min_commits
        self._storage = snapshot.storage
        self._content = b""
        self.empty_plan: EmptyPlan | None = None
        self.failures: tuple[str, ...] = ()

    def plan(self) -> HoodieCleanerPlan | None:
        """The files that a clean would delete now; None when no clean is due, or it would delete nothing.

        Raises:
            HoodieCorruptedDataException: A plan or savepoint that holds files cannot be read.
            HoodieIOException: Storage failed.
        """
        planner = CleanPlanner(self._context, self._clean, self.snapshot)
        if self._min_commits and planner.commits_since_last_clean < self._min_commits:
            return None
        last = self._last_empty_plan
        known = last.earliest if last is not None and last.savepoints == planner.savepoints else None
        plan = planner.make_plan(known, self._may_delete_partitions) if planner.may_clean else None
        if plan is not None and plan.file_count:
            return plan
        if planner.earliest is not None:
            self.empty_plan = EmptyPlan(planner.earliest.requested_time, planner.savepoints)
        return None

    def publish(self, plan: HoodieCleanerPlan, check: Callable[[], None]) -> str:
        """See `TableAction.publish`."""
        instant_time = super().publish(plan, check)
        logger.info(
            "planned clean %s of %s: %d files of %d partitions, readable from %s on",
            instant_time,
            self.snapshot.base_path,
            plan.file_count,
            len(plan.file_paths_to_be_deleted_per_partition),
            plan.earliest_instant_to_retain.timestamp if plan.earliest_instant_to_retain else "the retained versions",
        )
        return instant_time

    def refuse_rivals(self, plan: HoodieCleanerPlan, instant_time: str, before: TableSnapshot | None) -> None:
        """Stop where others went back to older versions, or saved them. `do` checks a plan of another run.

        Raises:
            OutdatedPlanException: Others did so while the plan was made.
            HoodieCommitException: A restore is pending.
        """
        if before is None:
            return
        news = sorted(_ways_back(self.snapshot) - _ways_back(before))
        if news:
            raise OutdatedPlanException(
                f"the clean of {self.snapshot.base_path} that was just planned is withdrawn: "
                + ", ".join(f"{action} {time}" for time, action in news)
                + " came meanwhile"
            )
        refuse_pending_restore(self.snapshot, "nothing is cleaned until it is finished")

    def read_plan(self, instant_time: str) -> HoodieCleanerPlan:
        """See `TableAction.read_plan`."""
        timeline = self.snapshot.active_timeline
        requested = HoodieInstant(instant_time, self.kind, State.REQUESTED)
        self._content = timeline.read_details(requested)
        source = timeline.path_of(requested)
        plan = timeline.layout.decode(self._content, HoodieCleanerPlan, source)
        self._files_of(plan, source)
        for partition_path in plan.partitions_to_be_deleted:
            resolve_inside(self.snapshot.base_path, partition_path, f"the plan {source}")
        return plan

    def begin(self, plan: HoodieCleanerPlan, instant_time: str) -> None:
        """See `TableAction.begin`; in timeline layout 1 the inflight file holds the plan too."""
        timeline = self.snapshot.active_timeline
        content = b"" if timeline.layout.has_completion_times else self._content
        timeline.transition_requested_to_inflight(instant_time, self.kind, content)

    def already_ended(self, instant_time: str) -> None:
        """Another process completed it: nothing is left to do."""

    def do(self, plan: HoodieCleanerPlan, instant_time: str, is_left_behind: bool) -> HoodieCleanMetadata | None:
        """Delete the files.

        Returns:
            The report of the clean; None when another process completed it meanwhile.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        started = time.monotonic()
        base_path = self.snapshot.base_path
        files = self._files_of(plan, f"of clean {instant_time}")
        if is_left_behind:
            files = self._without_needed(files, instant_time)
        failed = self._delete(files)
        deleted_partitions = self._delete_partitions(plan.partitions_to_be_deleted)
        metadata = _metadata_of(instant_time, plan, files, failed, deleted_partitions, started)
        try:
            with self._lock():
                upkeep = MetadataTableUpkeep(self._metadata_config, self._context)
                completed = complete_instant(self.snapshot, instant_time, self.kind, metadata, upkeep=upkeep)
                if completed is not None:
                    self.failures += compact_metadata_table(completed, upkeep=upkeep)
        except HoodieCommitException:
            # Another process completed it, and it was archived since.
            completed = None
        if completed is None:
            logger.info("another process completed clean %s of %s", instant_time, base_path)
            return None
        logger.info(
            "cleaned %s at %s: %d files deleted, %d could not be",
            base_path, instant_time, metadata.total_files_deleted, sum(map(len, failed.values())),
        )  # fmt: skip
        return metadata

    def _files_of(self, plan: HoodieCleanerPlan, source: str) -> dict[str, list[str]]:
        """Partition path to full paths, for plans of all versions; a path that is no data file there is refused."""
        planned = {
            partition_path: [file.file_path for file in files if not file.is_bootstrap_base_file]
            for partition_path, files in plan.file_paths_to_be_deleted_per_partition.items()
        }
        for partition_path, names in (plan.files_to_be_deleted_per_partition or {}).items():
            known = planned.setdefault(partition_path, [])
            known += [join(self.snapshot.base_path, partition_path, file_name(name)) for name in names]
        return {
            partition_path: [self._checked(partition_path, path, source) for path in paths]
            for partition_path, paths in planned.items()
        }

    def _checked(self, partition_path: str, planned: str, source: str) -> str:
        try:
            check_partition_path(partition_path)
            path = normalise_path(planned)
            found = relative_to(self.snapshot.base_path, parent(path))
        except (ValueError, HoodieIOException):
            path, found = planned, None
        if found != partition_path.strip("/") or not is_data_file_name(file_name(path)):
            raise HoodieCorruptedDataException(
                f"the plan {source} asks to delete {planned!r}, which is no data file of partition {partition_path!r} "
                f"of {self.snapshot.base_path}; nothing was deleted. If the table was moved, or the plan is not to "
                "be trusted, delete the clean's .inflight file and then its .requested file: the next clean plans anew"
            )
        return path

    def _without_needed(self, files: dict[str, list[str]], instant_time: str) -> dict[str, list[str]]:
        retention = CleanPlanner(self._context, self._clean, self.snapshot).retention()
        listed = self.snapshot.table_metadata.list_files_of(sorted(files))
        result = {}
        for partition_path, paths in files.items():
            staying = files_that_stay(retention, partition_path, listed[partition_path])
            kept = [path for path in paths if path in staying]
            if kept:
                logger.warning(
                    "clean %s of %s does not delete %s: the table needs it again since the clean was planned",
                    instant_time,
                    self.snapshot.base_path,
                    ", ".join(kept),
                )
            result[partition_path] = [path for path in paths if path not in staying]
        return result

    def _delete(self, files: dict[str, list[str]]) -> dict[str, set[str]]:
        """Delete files, log files last: where a base file is left, its log files are left too, so it stays as it was.

        Returns:
            Partition path to the paths of the files that could not be deleted.
        """
        work = [(partition_path, path) for partition_path, paths in files.items() for path in paths]
        logs = [file for file in work if parse_log_file_name(file_name(file[1])) is not None]
        later = frozenset(logs)
        failed = self._run_deletion([file for file in work if file not in later])
        failed_groups = {(partition_path, _file_id(path)) for partition_path, path in failed}
        kept = {
            (partition_path, path) for partition_path, path in logs if (partition_path, _file_id(path)) in failed_groups
        }
        failed |= kept | self._run_deletion([file for file in logs if file not in kept])
        result: dict[str, set[str]] = {}
        for partition_path, path in failed:
            result.setdefault(partition_path, set()).add(path)
        return result

    def _run_deletion(self, work: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Delete files by tasks; returns those that could not be deleted."""
        if not work:
            return set()
        task_count = min(self._clean.parallelism, len(work), 4 * self._context.default_parallelism)
        results = self._context.run_tasks(
            [work[i::task_count] for i in range(task_count)], _DeleteFiles(self._storage, self.snapshot.base_path)
        )
        return {file for part in results for file in part}

    def _delete_partitions(self, partition_paths: Iterable[str]) -> set[str]:
        """Delete the folders of empty partitions, unless another writer may be about to write there."""
        wanted = [path for path in partition_paths if path.strip("/")]
        if not wanted or not self._may_delete_partitions:
            return set()
        deleted = set()
        for partition_path in wanted:
            # A write that began since the plan was made, or while files were deleted, may be about to use the folder.
            if len(self.look().active_timeline.commits_timeline().filter_pending()):
                break
            folder = join(self.snapshot.base_path, check_partition_path(partition_path))
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
    """Deletes files in a task; returns those that could not be deleted."""

    storage: HoodieStorage
    base_path: str

    def __call__(self, task: TaskIdentity, files: list[tuple[str, str]]) -> list[tuple[str, str]]:
        if scheme(self.base_path) == "file" or len(files) == 1:
            return [file for file in files if not self._delete(file[1])]
        with ThreadPool(min(REMOTE_THREADS, len(files)), "hoodie-clean") as pool:
            return [
                file
                for file, is_deleted in zip(files, pool.map(lambda file: self._delete(file[1]), files), strict=True)
                if not is_deleted
            ]

    def _delete(self, path: str) -> bool:
        try:
            self.storage.delete_file(path)
        except HoodieIOException as error:
            logger.warning("cleaning could not delete %s: %s", path, error)
            return False
        return True


def _file_id(path: str) -> str | None:
    name = parse_base_file_name(file_name(path)) or parse_log_file_name(file_name(path))
    return None if name is None else name.file_id


def _ways_back(snapshot: TableSnapshot) -> set[tuple[str, Action]]:
    """Instants that need older versions; without pending restores, which stop a clean by an error of their own."""
    found = snapshot.active_timeline.filter_actions(Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT)
    return {(i.requested_time, i.action) for i in found if i.action is not Action.RESTORE or i.is_completed}


def _metadata_of(
    instant_time: str,
    plan: HoodieCleanerPlan,
    files: dict[str, list[str]],
    failed: dict[str, set[str]],
    deleted_partitions: set[str],
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
            is_partition_deleted=partition_path in deleted_partitions,
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
