"""A compaction that is planned: what its plan says, the slices as they are now, its start and its commit.

A table and its metadata table compact in the same steps. The writer of a slice differs (Parquet or HFile), and so does
what the two do about other processes: `hoodie.table.action.compact` shares the table with writers, while
`hoodie.metadata.writer.metadata_table_services` has the table's lock from plan to commit.

Hudi: org.apache.hudi.table.action.compact.HoodieCompactor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Self, TypeVar

import attrs

from hoodie.avro.service_metadata import HoodieCompactionOperation, HoodieCompactionPlan
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.planned_instant import begin_planned, delete_markers_after
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieMissingFileException,
)
from hoodie.storage.storage_path import file_name

logger = logging.getLogger(__name__)

_SHOWN = 3
ResultT = TypeVar("ResultT")


@attrs.frozen(eq=False)
class PlannedCompaction:
    """One compaction whose plan is on the timeline. Lives on the driver.

    Attributes:
        snapshot: The table that is compacted: a table, or a metadata table.
        instant_time: The compaction, which is pending.
        plan: Its plan.
        remedy: Advice for a missing file of the plan; it ends the message of the error.
        has_lasting_log_files: Whether log files of the plan stay when their write is rolled back in timeline layout 1.
            Those of a metadata table are deleted.
        kind: COMPACTION or LOG_COMPACTION.
    """

    snapshot: TableSnapshot
    instant_time: str
    plan: HoodieCompactionPlan
    remedy: str
    has_lasting_log_files: bool = True
    kind: Action = Action.COMPACTION

    @classmethod
    def read(
        cls,
        snapshot: TableSnapshot,
        instant_time: str,
        remedy: str,
        *,
        has_lasting_log_files: bool = True,
        kind: Action = Action.COMPACTION,
    ) -> Self:
        """Read the plan, and check that its names belong to its file groups.

        Args:
            snapshot: See the attributes.
            instant_time: See the attributes.
            remedy: See the attributes.
            has_lasting_log_files: See the attributes.
            kind: See the attributes.

        Raises:
            HoodieCorruptedDataException: The plan is damaged, or names something else.
            HoodieIOException: Storage failed.
        """
        requested = HoodieInstant(instant_time, kind, State.REQUESTED)
        timeline = snapshot.active_timeline
        plan, source = timeline.read_as(requested, HoodieCompactionPlan), timeline.path_of(requested)
        for operation in plan.operations:
            _check_operation(operation, source)
        return cls(snapshot, instant_time, plan, remedy, has_lasting_log_files, kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.instant_time} of {self.snapshot.base_path}"

    @property
    def base_instants(self) -> dict[HoodieFileGroupId, str]:
        """The file groups of the plan, each with the base instant of the slice that is compacted."""
        return {_group_of(operation): operation.base_instant_time for operation in self.plan.operations}

    @property
    def partition_paths(self) -> list[str]:
        """The partitions of the plan, sorted."""
        return sorted({operation.partition_path for operation in self.plan.operations})

    @property
    def operation(self) -> WriteOperationType:
        """The operation of its commit."""
        is_log = self.kind is Action.LOG_COMPACTION
        return WriteOperationType.LOG_COMPACT if is_log else WriteOperationType.COMPACT

    @property
    def markers(self) -> WriteMarkers:
        """While they are open, tasks may write."""
        return WriteMarkers(self.snapshot.storage, self.snapshot.meta_path, self.instant_time)

    def slices(self, view: HoodieTableFileSystemView, dropped: Collection[str] = ()) -> list[FileSlice]:
        """The slices of the plan as they are now.

        A log file that belongs to such a slice and is not in the plan, because its writer and the one that planned did
        not see each other, is part of it: otherwise its rows would be lost with the slice. Log files of the plan that
        were rolled back since are left out, and so are file groups that were replaced.

        Args:
            view: The files that count.
            dropped: Partitions of the plan that the table has no more.

        Returns:
            In the order of the plan; without log files of change data, which hold no rows.

        Raises:
            HoodieMissingFileException: A file of the plan is missing.
            HoodieIOException: Storage failed.
        """
        paths = [path for path in self.partition_paths if path not in dropped]
        view.load_partitions(paths)
        groups = {group.file_group_id: group for path in paths for group in view.file_groups(path)}
        replaced = view.replaced_file_groups()
        slices = []
        for operation in self.plan.operations:
            group_id = _group_of(operation)
            if group_id.partition_path in dropped or group_id in replaced:
                logger.info("%s was dropped or replaced since %s was planned", group_id, self)
                continue
            base, group = operation.base_instant_time, groups.get(group_id)
            found = [part for part in (group.slices if group else ()) if part.base_instant_time == base]
            stored = found[0] if found else FileSlice(group_id.partition_path, group_id.file_id, base)
            stored = attrs.evolve(stored, log_files=stored.record_log_files)
            self._check_files(view, operation, stored)
            if stored.record_files:
                slices.append(stored)
        return slices

    def begin(self) -> None:
        """Allow tasks to write, then make the instant inflight.

        Raises:
            HoodieCommitException: Another process began to carry it out.
        """
        begin_planned(self.snapshot, self.instant_time, self.kind)

    def write(
        self,
        slices: Iterable[FileSlice],
        write_slice: Callable[[TaskIdentity, FileSlice], ResultT],
        engine: HoodieEngineContext,
    ) -> list[ResultT]:
        """Write the base files, one task for each slice; the largest first, so that the last tasks are small.

        Args:
            slices: See `slices`.
            write_slice: Writes the base file of one slice.
            engine: Runs the tasks.

        Returns:
            What the tasks returned.
        """
        return engine.run_tasks(sorted(slices, key=lambda part: part.size_bytes, reverse=True), write_slice)

    def commit_metadata(
        self, stats: Iterable[HoodieWriteStat], avro_schema: str, extra_metadata: Mapping[str, str] | None = None
    ) -> HoodieCommitMetadata:
        """The commit metadata of the compaction.

        Args:
            stats: The statistics of the base files.
            avro_schema: The table's schema, as Avro JSON.
            extra_metadata: Further pairs that it stores.
        """
        by_partition: dict[str, list[HoodieWriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path, []).append(stat)
        return HoodieCommitMetadata(
            {path: tuple(found) for path, found in sorted(by_partition.items())},
            {SCHEMA_KEY: avro_schema, **(extra_metadata or {})},
            self.operation,
            compacted=True,
        )

    def delete_markers(self) -> None:
        """Delete what the tasks left beside the table; never fails, as the compaction is completed."""
        delete_markers_after(self.snapshot, self.instant_time, str(self))

    def _check_files(
        self, view: HoodieTableFileSystemView, operation: HoodieCompactionOperation, stored: FileSlice
    ) -> None:
        """Compare a planned slice with the stored one."""
        names = {log_file.file_name for log_file in stored.record_log_files}
        planned = list(map(file_name, operation.delta_file_paths))
        missing = [name for name in planned if name not in names and self._is_to_be_there(name, view.visible_instants)]
        base_name = file_name(operation.data_file_path) if operation.data_file_path else None
        if base_name is not None and (stored.base_file is None or stored.base_file.file_name != base_name):
            missing.append(base_name)
        if missing:
            raise HoodieMissingFileException(
                f"{self} was planned with {', '.join(missing[:_SHOWN])} of partition '{operation.partition_path}', "
                f"which is not there, or no part of the slice any more: nothing was compacted. {self.remedy}"
            )
        others = in_order(names.difference(planned))
        if others and self.kind is Action.COMPACTION:
            logger.warning(
                "%s merges %s of partition '%s' too, which its plan lacks: otherwise its rows would be lost",
                self, ", ".join(others[:_SHOWN]), operation.partition_path,
            )  # fmt: skip

    def _is_to_be_there(self, name: str, instants: VisibleInstants) -> bool:
        """Whether a log file of the plan holds rows of a write that was not rolled back."""
        parsed = parse_log_file_name(name)
        if parsed is None or parsed.is_cdc or not (instants.has_completion_times or self.has_lasting_log_files):
            return False
        # In timeline layout 2 the name tells the write.
        return instants.has_visible_log_files(parsed.instant_time)


def _group_of(operation: HoodieCompactionOperation) -> HoodieFileGroupId:
    return HoodieFileGroupId(operation.partition_path, operation.file_id)


def _check_operation(operation: HoodieCompactionOperation, source: str) -> None:
    """Refuse an operation whose names do not belong to its file group."""
    try:
        check_partition_path(operation.partition_path)
    except (ValueError, HoodieIOException) as error:
        raise HoodieCorruptedDataException(f"the plan {source} names no partition: {error}") from error
    names = [(parse_log_file_name, name) for name in operation.delta_file_paths]
    if operation.data_file_path:
        names.append((parse_base_file_name, operation.data_file_path))  # type: ignore[arg-type]
    for parse, name in names:
        parsed = parse(file_name(name))
        if parsed is None or parsed.file_id != operation.file_id:
            raise HoodieCorruptedDataException(
                f"the plan {source} names {name!r}, which is no data file of file group {operation.file_id}"
            )
