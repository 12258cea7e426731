"""The work of a clustering, told before it is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.range_overlap import ColumnRanges, Overlap, RangeDepths, overlap_of
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.execution.bulkinsert.row_order import RowOrder
from hoodie.table.action.cluster.clustering_plan_strategy import ClusteringInput
from hoodie.table.action.cluster.clustering_planner import clustering_inputs, row_order

RangesOf = Callable[[TableSnapshot, Sequence[FileSlice], Sequence[str]], Mapping[str, ColumnRanges]]
"""`hoodie.query.slice_ranges.ranges_of_slices`."""
_Numbers = npt.NDArray[np.int64]
_STEP = 1e-9
"""Ends that differ, of unknown values, are so far from each other; known values are counted by whole numbers."""


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
        overlap_before: For each sort column the overlap of the ranges of all files of the table, as
            `hoodie.stats.overlap` tells it: the fewer files cover a value, the fewer are read for it.
        overlap_after: The estimated overlap afterwards; see `estimated_overlap`.
    """

    base_path: str
    groups: tuple[ExplainedGroup, ...]
    sort_columns: tuple[str, ...]
    layout: str
    overlap_before: tuple[Overlap, ...] = ()
    overlap_after: tuple[Overlap, ...] = ()

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
            + told_overlaps(self.overlap_before, self.overlap_after, "then in about")
        )

    def __str__(self) -> str:
        return self.summary


def told_overlaps(before: Sequence[Overlap], after: Sequence[Overlap], verb: str) -> str:
    """The numbers of files that a value of each column lies in, to be appended to a line.

    Args:
        before: The overlaps before.
        after: The overlaps afterwards; may be empty.
        verb: The words before the number of files afterwards.
    """
    then = {found.column: found.mean_depth for found in after}
    text = ""
    for found in before:
        if found.mean_depth is not None:
            text += f"; a value of {found.column} lies in {found.mean_depth:.1f} files"
            later = then.get(found.column)
            text += "" if later is None else f", {verb} {later:.1f}"
    return text


def explain_clustering(
    config: HoodieWriteConfig, snapshot: TableSnapshot, ranges_of: RangesOf
) -> ClusteringExplanation:
    """The work of a clustering that would be planned now.

    Args:
        config: The strategy and its limits.
        snapshot: The table.
        ranges_of: Gives the ranges of columns in slices.

    Raises:
        HoodieException: See `clustering_inputs`; or rows cannot be ordered by the columns of the configuration.
    """
    columns = config.clustering.sort_columns
    order = row_order(config.layout, columns)
    if order is not None:
        order = order.checked(snapshot.load_schema())
    inputs = clustering_inputs(config, snapshot).groups
    before, after = [], []
    if order is not None:
        view = snapshot.view()
        slices = [part for path in view.load_all_partitions() for part in view.latest_file_slices(path)]
        ranges = ranges_of(snapshot, slices, columns)
        before = [ranges[column].overlap(column) for column in columns]
        after = [estimated_overlap(column, ranges[column], inputs, order) for column in columns]
    return ClusteringExplanation(
        snapshot.base_path,
        tuple(
            ExplainedGroup(
                found.partition_path,
                len(found.slices),
                sum(part.size_bytes for part in found.slices),
                found.output_files,
            )
            for found in inputs
        ),
        columns,
        str(config.layout.strategy),
        tuple(before),
        tuple(after),
    )


def estimated_overlap(column: str, known: ColumnRanges, groups: Sequence[ClusteringInput], order: RowOrder) -> Overlap:
    """The overlap of a sort column that a clustering would leave, estimated from the ranges of the files before it.

    The files of a group together cover what the files before them cover. By a linear order its new files follow each
    other in the first column, so none covers a value of another one, while each may cover all values of a further
    column. Along a curve of d columns, n files share the range of each column as its d-th root of n parts. Groups
    overlap as their ranges do, and files that are not rewritten stay as they are::

        group 1, two files   |-----||------|
        group 2, one file            |---------|
        depth                1      2      1

    Rows count as spread evenly between the ends of the ranges before, and rows of one value as lying in one file: where
    many rows have one value, more files cover it. Slices whose range is not known do not count, nor do the rows of log
    files where ranges are those of footers.

    Args:
        column: The column, one of the order.
        known: Its ranges in all slices of the table.
        groups: The groups of the clustering.
        order: The order of the rows.
    """
    group_of = {(one.partition_path, part.file_id): group for group, one in enumerate(groups) for part in one.slices}
    found = []
    for path, ranges in known.by_partition().items():
        places = RangeDepths.of([(one.low, one.high) for one in ranges])
        after: list[tuple[float, float]] = []
        of_groups: dict[int, list[tuple[int, int]]] = {}
        for one, start, end in zip(ranges, places.starts.tolist(), places.ends.tolist(), strict=True):
            group = group_of.get((path, one.file_id))
            if group is None:
                after.append((float(start), float(end)))
            else:
                of_groups.setdefault(group, []).append((start, end))
        for group, old in of_groups.items():
            files = groups[group].output_files
            starts, ends = np.array(old, np.int64).T
            after += _new_files(starts, ends, files, _parts(column, files, order))
        found.append(RangeDepths.of(after))
    return overlap_of(column, found, source=f"estimated from {known.source}", left_out=known.left_out)


def _parts(column: str, files: int, order: RowOrder) -> int:
    """The number of parts into which the files of a group divide the range of a column."""
    if order.is_curve:
        return max(1, int(files ** (1 / len(order.columns)) + 0.5))
    return files if column == order.columns[0] else 1


def _new_files(starts: _Numbers, ends: _Numbers, files: int, parts: int) -> list[tuple[float, float]]:
    """The ranges of the new files of a group.

    Args:
        starts: The places of the smallest values of its old files.
        ends: The places of their largest values.
        files: The number of new files.
        parts: The number of parts of the range that they share.
    """
    known = np.unique(np.concatenate([starts, ends]))
    bounds = np.interp(np.linspace(0, len(known) - 1, parts + 1), np.arange(len(known)), known).tolist()
    # Files that cover the same part end at the same value only if the old ones do.
    low_step, high_step = (_STEP if len(np.unique(side)) == len(side) else 0.0 for side in (starts, ends))
    found, in_part = [], Counter[int]()
    for number in range(files):
        part = number * parts // files
        low, high = bounds[part], bounds[part + 1]
        turn = in_part[part]
        in_part[part] += 1
        first = low + low_step * turn + (_STEP if part else 0.0)
        last = high - high_step * turn
        found.append((first, last) if first < last else (low, high))
    return found
