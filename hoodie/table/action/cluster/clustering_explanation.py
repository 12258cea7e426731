"""The work of a clustering, told before it is planned."""

from __future__ import annotations

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.table.action.cluster.clustering_planner import clustering_inputs, row_order


@attrs.frozen
class ExplainedGroup:
    """File slices that a clustering would rewrite together.

    Attributes:
        partition_path: The partition.
        files: The number of file slices.
        bytes: The size of their base and log files.
        output_files: The expected number of new files.
    """

    partition_path: str
    files: int
    bytes: int
    output_files: int


@attrs.frozen
class ClusteringExplanation:
    """The work that a clustering would do.

    Attributes:
        base_path: The table's folder.
        groups: The slices that would be rewritten together.
        sort_columns: The columns by which rows would be ordered.
        layout: The kind of the order: LINEAR, ZORDER or HILBERT.
    """

    base_path: str
    groups: tuple[ExplainedGroup, ...]
    sort_columns: tuple[str, ...]
    layout: str

    @property
    def files_before(self) -> int:
        """The number of file slices that would be replaced."""
        return sum(group.files for group in self.groups)

    @property
    def files_after(self) -> int:
        """The expected number of new files."""
        return sum(group.output_files for group in self.groups)

    @property
    def bytes_read(self) -> int:
        """The size of all files that would be read; about as much is written."""
        return sum(group.bytes for group in self.groups)

    @property
    def summary(self) -> str:
        """One line about it."""
        if not self.groups:
            return "nothing to cluster"
        order = f", rows ordered by {', '.join(self.sort_columns)} ({self.layout})" if self.sort_columns else ""
        return (
            f"{self.files_before} file slices ({self.bytes_read:,} bytes) in {len(self.groups)} groups would become "
            f"about {self.files_after} files{order}"
        )

    def __str__(self) -> str:
        return self.summary


def explain_clustering(config: HoodieWriteConfig, snapshot: TableSnapshot) -> ClusteringExplanation:
    """The work of a clustering that would be planned now.

    Args:
        config: The strategy and its limits.
        snapshot: The table.

    Raises:
        HoodieException: See `clustering_inputs`; or rows cannot be ordered by the columns of the configuration.
    """
    order = row_order(config.layout, config.clustering.sort_columns)
    if order is not None:
        order.checked(snapshot.load_schema())
    return ClusteringExplanation(
        snapshot.base_path,
        tuple(
            ExplainedGroup(
                found.partition_path,
                len(found.slices),
                sum(part.size_bytes for part in found.slices),
                found.output_files,
            )
            for found in clustering_inputs(config, snapshot).groups
        ),
        config.clustering.sort_columns,
        str(config.layout.strategy),
    )
