"""A clustering that is planned: what its plan says, the slices as they are now, its start and its commit."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Self

import attrs

from hoodie.avro.timeline_metadata import HoodieClusteringPlan, HoodieRequestedReplaceMetadata, HoodieSliceInfo
from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.clustering_plans import clustering_action
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.planned_instant import begin_planned, delete_markers_after
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.storage.storage_path import file_name
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput

logger = logging.getLogger(__name__)

FileGroupKey = tuple[str, str]
"""Partition path and file id."""


@attrs.frozen(eq=False)
class PlannedClustering:
    """One clustering whose plan is on the timeline. Lives on the driver.

    The plan says which file groups are rewritten together. What is rewritten is their latest slices, as they are when
    the clustering is carried out: rows that a writer changed since the plan was made are not lost.

    Attributes:
        snapshot: The table.
        instant_time: The clustering, which is pending.
        plan: Its plan.
    """

    snapshot: TableSnapshot
    instant_time: str
    plan: HoodieClusteringPlan

    @classmethod
    def read(cls, snapshot: TableSnapshot, instant_time: str) -> Self:
        """Read the plan, and check that its names belong to its file groups.

        Args:
            snapshot: See the attributes.
            instant_time: See the attributes.

        Raises:
            HoodieCorruptedDataException: The plan is damaged, or names something else, or it is no clustering.
            HoodieIOException: Storage failed.
        """
        timeline = snapshot.active_timeline
        requested = HoodieInstant(instant_time, clustering_action(timeline), State.REQUESTED)
        source = timeline.path_of(requested)
        plan = timeline.read_as(requested, HoodieRequestedReplaceMetadata).clustering_plan
        if plan is None:
            raise HoodieCorruptedDataException(f"the plan {source} is not that of a clustering")
        for group in plan.input_groups:
            for planned in group.slices:
                _check_slice(planned, source)
        return cls(snapshot, instant_time, plan)

    def __str__(self) -> str:
        return f"clustering {self.instant_time} of {self.snapshot.base_path}"

    @property
    def action(self) -> Action:
        """Its action as long as it is pending."""
        return clustering_action(self.snapshot.active_timeline)

    @property
    def partition_paths(self) -> list[str]:
        """The partitions of the plan, sorted."""
        return sorted({str(part.partition_path or "") for group in self.plan.input_groups for part in group.slices})

    def inputs(self, view: HoodieTableFileSystemView, held: Collection[FileGroupKey] = ()) -> list[ClusteringInput]:
        """The latest slices of the file groups of the plan, which are rewritten.

        File groups that were replaced or dropped since are left out, and so is a group of the plan with a file group
        that another service has.

        Args:
            view: The files that count.
            held: The file groups of other pending services.

        Raises:
            HoodieIOException: Storage failed.
        """
        stored = set(view.list_partitions())
        paths = [path for path in self.partition_paths if path in stored or not path]
        view.load_partitions(paths)
        latest = {(path, part.file_id): part for path in paths for part in view.latest_file_slices(path)}
        found = []
        for group in self.plan.input_groups:
            keys = [(str(part.partition_path or ""), str(part.file_id)) for part in group.slices]
            if any(key in held for key in keys):
                logger.info("%s leaves a group out, of which another service has a file group", self)
                continue
            slices = tuple(
                attrs.evolve(latest[key], log_files=latest[key].record_log_files) for key in keys if key in latest
            )
            if slices:
                found.append(ClusteringInput(slices[0].partition_path, slices, group.num_output_file_groups or 1))
        return found

    def begin(self) -> None:
        """Allow tasks to write, then make the instant inflight.

        Raises:
            HoodieCommitException: Another process began to carry it out.
        """
        begin_planned(self.snapshot, self.instant_time, self.action)

    def commit_metadata(
        self, statuses: Iterable[WriteStatus], inputs: Sequence[ClusteringInput], avro_schema: str
    ) -> HoodieReplaceCommitMetadata:
        """The commit metadata of the clustering.

        Args:
            statuses: The statuses of the new files.
            inputs: The slices that they replace.
            avro_schema: The table's schema, as Avro JSON.
        """
        written: dict[str, list[HoodieWriteStat]] = {}
        for status in statuses:
            written.setdefault(status.partition_path, []).append(status.stat)
        replaced: dict[str, list[str]] = {}
        for found in inputs:
            replaced.setdefault(found.partition_path, []).extend(part.file_id for part in found.slices)
        return HoodieReplaceCommitMetadata(
            {path: tuple(stats) for path, stats in sorted(written.items())},
            {SCHEMA_KEY: avro_schema},
            WriteOperationType.CLUSTER,
            partition_to_replace_file_ids={path: tuple(ids) for path, ids in sorted(replaced.items())},
        )

    def delete_markers(self) -> None:
        """Delete what the tasks left beside the table; never fails, as the clustering is completed."""
        delete_markers_after(self.snapshot, self.instant_time, str(self))


def _check_slice(planned: HoodieSliceInfo, source: str) -> None:
    """Refuse a slice whose names do not belong to its file group.

    Only the names count: a table that was moved since has other paths.
    """
    try:
        check_partition_path(str(planned.partition_path or ""))
    except (ValueError, HoodieIOException) as error:
        raise HoodieCorruptedDataException(f"the plan {source} names no partition: {error}") from error
    paths = [path for path in (planned.data_file_path, *planned.delta_file_paths) if path]
    for path in paths:
        name = file_name(path)
        parsed = parse_base_file_name(name) or parse_log_file_name(name)
        if parsed is None or parsed.file_id != planned.file_id:
            raise HoodieCorruptedDataException(
                f"the plan {source} names {name!r}, which is no data file of file group {planned.file_id}"
            )
