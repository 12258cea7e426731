"""Pruning of partitions and file slices without rows of a filter, by statistics of the metadata table.

A slice is judged as a whole. The range of a column is the union over all files of the slice, log files included: each
value of a merged row is in one of them, whichever rule merges it. A merger of the user's may compute new values, so
slices with log files of such a table are always read. A file without statistics of a column may hold any value.

Hudi: org.apache.hudi.{ColumnStatsIndexSupport, PartitionStatsIndexSupport}. Differs: Hudi keeps a slice if one of its
files alone may hold the row; partial updates can make a row that no single file may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.expression_tree import Call, Field, Node, parse_expression
from hoodie.common.data.range_matching import may_match
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.merge.payload_rules import PAYLOADS, canonical_payload_class
from hoodie.metadata.reader.metadata_listing import metadata_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

if TYPE_CHECKING:
    from hoodie.metadata.reader.column_bounds import ColumnBounds

Flags = npt.NDArray[np.bool_]
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS.partition_path


def partitions_by_statistics(
    snapshot: TableSnapshot, partitions: Sequence[str], schema: pa.Schema, row_filter: RowFilter
) -> list[str]:
    """The partitions that may hold rows of a filter, by statistics of the newest state of partitions.

    Args:
        snapshot: The table.
        partitions: Partition paths.
        schema: The table's columns.
        row_filter: The filter.
    """
    listing, tree = metadata_of(snapshot), _tree_of(row_filter)
    table_config = snapshot.table_config
    is_merge_on_read = table_config.table_type is HoodieTableType.MERGE_ON_READ
    if (
        listing is None
        or tree is None
        or not partitions
        or _PARTITION_STATS not in table_config.metadata_partitions
        or (is_merge_on_read and _may_compute_values(snapshot))
    ):
        return list(partitions)
    # Log files have no statistics of meta columns, or have those of rows before they got them.
    columns = [name for name in _columns_of(tree, schema) if not (is_merge_on_read and name in META_COLUMN_SET)]
    if not columns:
        return list(partitions)
    # Statistics of files are mostly read next, so both are listed together.
    listing.ask(lambda metadata: metadata.list_together([_PARTITION_STATS, _COLUMN_STATS]))
    rows = listing.ask(lambda metadata: metadata.read_partition_stats(columns, partitions))
    if rows is None:
        return list(partitions)
    # Imported here: most reads have no such statistics, and start earlier without.
    from hoodie.metadata.reader.column_bounds import ColumnBounds

    bounds = {}
    for name in columns:
        partition_rows = rows.filter(pc.equal(rows.column("column_name"), name))
        places = pc.index_in(pa.array(list(partitions), pa.string()), value_set=partition_rows.column("partition_path"))
        bounds[name] = ColumnBounds.of_statistics(partition_rows, schema.field(name).type).take(places)
    may_hold = may_match(tree, bounds, len(partitions))
    return [path for path, may in zip(partitions, may_hold.tolist(), strict=True) if may]


def slices_by_statistics(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], schema: pa.Schema, row_filter: RowFilter
) -> Flags | None:
    """A flag for each slice that may hold rows of a filter, by statistics of its files.

    Args:
        snapshot: The table.
        slices: The slices, as of any time.
        schema: The table's columns.
        row_filter: The filter.

    Returns:
        A flag for each slice; None if there are no statistics.
    """
    tree = _tree_of(row_filter)
    if tree is None or not slices or not _has_statistics(snapshot):
        return None
    files = _Files.of(slices)
    bounds = _bounds_of(snapshot, files, schema, _columns_of(tree, schema))
    if bounds is None:
        return None
    may_hold = may_match(tree, bounds, len(slices)) | files.is_empty
    if files.has_logs.any() and _may_compute_values(snapshot):
        may_hold |= files.has_logs
    return may_hold


def bounds_of_slices(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], schema: pa.Schema, columns: Sequence[str]
) -> dict[str, ColumnBounds] | None:
    """The ranges of columns in slices, log files included, by statistics of the files.

    Args:
        snapshot: The table.
        slices: The slices, as of any time.
        schema: The table's columns.
        columns: Columns of the schema.

    Returns:
        Column -> a range for each slice; None if there are no statistics.
    """
    if not slices or not _has_statistics(snapshot):
        return None
    return _bounds_of(snapshot, _Files.of(slices), schema, columns)


def _has_statistics(snapshot: TableSnapshot) -> bool:
    return _COLUMN_STATS in snapshot.table_config.metadata_partitions and metadata_of(snapshot) is not None


def _bounds_of(
    snapshot: TableSnapshot, files: _Files, schema: pa.Schema, columns: Sequence[str]
) -> dict[str, ColumnBounds] | None:
    listing = metadata_of(snapshot)
    if listing is None or not columns:
        return None
    partitions = sorted(set(files.partitions))
    rows = listing.ask(lambda metadata: metadata.read_column_stats(columns, partitions))
    if rows is None or not rows.num_rows:
        return None
    keys = _keys(rows.column("partition_path"), rows.column("file_name"))
    # Imported here for the same reason as above.
    from hoodie.metadata.reader.column_bounds import ColumnBounds

    bounds = {}
    for name in columns:
        is_own = pc.equal(rows.column("column_name"), name)
        places = pc.index_in(files.keys, value_set=keys.filter(is_own))
        of_files = ColumnBounds.of_statistics(rows.filter(is_own), schema.field(name).type).take(places)
        of_slices = of_files.united(files.starts)
        if name in META_COLUMN_SET:
            of_slices = of_slices.unknown_at(files.has_logs)
        bounds[name] = of_slices
    return bounds


@attrs.frozen(eq=False)
class _Files:
    """The files of slices, slice by slice.

    Attributes:
        keys: Partition path and name of each file (string).
        partitions: The partition path of each slice.
        starts: The place at which the files of each slice begin.
        has_logs: True for slices that have log files with rows.
        is_empty: True for slices without files; a placeholder key stands in their place.
    """

    keys: pa.Array
    partitions: list[str]
    starts: npt.NDArray[np.int64]
    has_logs: Flags
    is_empty: Flags

    @classmethod
    def of(cls, slices: Sequence[FileSlice]) -> _Files:
        paths: list[str] = []
        names: list[str] = []
        starts, has_logs, is_empty = [], [], []
        for file_slice in slices:
            found = [file.file_name for file in file_slice.record_files]
            starts.append(len(names))
            has_logs.append(not file_slice.is_base_file_alone)
            is_empty.append(not found)
            names += found or [""]
            paths += [file_slice.partition_path] * (len(found) or 1)
        keys = _keys(pa.array(paths, pa.string()), pa.array(names, pa.string()))
        partitions = [file_slice.partition_path for file_slice in slices]
        flags = (np.array(given, np.bool_) for given in (has_logs, is_empty))
        return cls(keys, partitions, np.array(starts, np.int64), *flags)


def _keys(paths: pa.Array, names: pa.Array) -> pa.Array:
    found = pc.binary_join_element_wise(paths, names, "/")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _may_compute_values(snapshot: TableSnapshot) -> bool:
    """Whether a user's class merges rows, called by hoodie or Hudi."""
    payload = snapshot.table_config.payload_class
    return payload is not None and canonical_payload_class(payload) not in PAYLOADS


def _tree_of(row_filter: RowFilter) -> Node | None:
    return None if row_filter.pushed is None else parse_expression(row_filter.pushed)


def _columns_of(node: Node, schema: pa.Schema) -> list[str]:
    """The columns of a pushed condition; it has top-level columns only."""
    if isinstance(node, Field):
        return [node.path[0]] if len(node.path) == 1 and node.path[0] in schema.names else []
    if isinstance(node, Call):
        return list(dict.fromkeys(name for part in node.arguments for name in _columns_of(part, schema)))
    return []
