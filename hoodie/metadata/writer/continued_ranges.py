"""The records of ``partition_stats`` after an action, from the stored records and the files that changed.

The cost does not depend on the number of files of the partition::

    stored record of the partition    5 .. 90    100 rows
    files that the action removes     7 .. 40     30 rows    neither 5 nor 90: other files have them
    files that it adds                6 .. 95     35 rows
    record after the action           5 .. 95    105 rows

An end of the new range is known if an added file has it, or no removed file has it. Otherwise other files may have it
or not, and all files of the partition must be looked at. They must be, too, if

- the stored record has no tight bounds, or a column has no record: it was united with others, or is older than the
  column;
- an added or removed file lacks statistics of a column;
- the type of a column has changed.

Hudi: HoodieTableMetadataUtil.convertMetadataToPartitionStatsRecords. Differs: Hudi always reads the statistics of all
latest files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_reader import VARIANT_COLUMNS
from hoodie.common.model.column_range import ValueType
from hoodie.common.util.arrow_buffers import booleans_of
from hoodie.metadata.reader.backed_table_metadata import COLUMN_STATS
from hoodie.metadata.records.column_stats_records import partition_stats_entries
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.range_union import COUNTS
from hoodie.metadata.writer.file_statistics import DataFile, statistics_of_change
from hoodie.metadata.writer.indexed_columns import IndexedColumns
from hoodie.metadata.writer.latest_files import FileChanges
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext

Flags = npt.NDArray[np.bool_]
_ENDS = ("min_value", "max_value")
_NEEDED = (MetadataPartitionType.COLUMN_STATS.partition_path, MetadataPartitionType.PARTITION_STATS.partition_path)


def continued_entries(
    context: IndexingContext, columns: IndexedColumns, change: CommittedChange, changes: Mapping[str, FileChanges]
) -> MetadataEntries:
    """The records of those partitions whose ranges follow from the stored ones; they have tight bounds.

    A partition most of whose file groups are replaced is left out: its other files are read as fast.

    Args:
        context: The table without the action.
        columns: The indexed columns.
        change: The action.
        changes: The changes to the latest slices of partitions.

    Raises:
        HoodieException: The metadata table is damaged, or storage failed.
    """
    metadata, wanted = context.metadata, columns.written
    found = MetadataEntries.none(_NEEDED[1], MetadataPayload.COLUMN_STATS)
    chosen = {path: files for path, files in changes.items() if files.other_groups > len(files.removed)}
    if metadata is None or not wanted or not chosen or not set(_NEEDED) <= set(metadata.partitions):
        return found
    stored = metadata.read_partition_stats(wanted, list(chosen))
    added = _of_files(_written(context, change, columns), [file for files in chosen.values() for file in files.added])
    removed_files = [file for files in chosen.values() for file in files.removed]
    removed = metadata.read_column_stats_of(removed_files, wanted)
    counts = Counter(path for part in (added, removed) for path in part.column("partition_path").to_pylist())
    tight = stored.filter(pc.fill_null(stored.column("is_tight_bound"), False))
    stored_counts = Counter(tight.column("partition_path").to_pylist())
    whole = [
        path
        for path, files in chosen.items()
        if stored_counts[path] == len(wanted) and counts[path] == len(wanted) * (len(files.added) + len(files.removed))
    ]
    if not whole:
        return found
    return _continued(*(_in_partitions(part, whole) for part in (tight, added, removed)))


def _written(context: IndexingContext, change: CommittedChange, columns: IndexedColumns) -> pa.Table:
    """The statistics of the files that an action wrote, as `COLUMN_STATS`."""
    written = statistics_of_change(context, change, columns)
    return pa.Table.from_arrays([written.partition_paths, *written.entries.rows.columns], schema=COLUMN_STATS)


def _of_files(ranges: pa.Table, files: Collection[DataFile]) -> pa.Table:
    places = pc.binary_join_element_wise(ranges.column("partition_path"), ranges.column("file_name"), "/")
    return ranges.filter(pc.is_in(places, value_set=pa.array(["/".join(file) for file in files], pa.string())))


def _in_partitions(ranges: pa.Table, partition_paths: Collection[str]) -> pa.Table:
    return ranges.filter(pc.is_in(ranges.column("partition_path"), value_set=pa.array(partition_paths, pa.string())))


def _united(ranges: pa.Table) -> MetadataEntries:
    """One record for each column of each partition."""
    batches = ranges.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=COLUMN_STATS)
    stats = pa.RecordBatch.from_arrays(batch.columns[1:], schema=MetadataPayload.COLUMN_STATS.schema)
    return partition_stats_entries(batch.column(0), stats, is_tight=True)


def _continued(stored: pa.Table, added: pa.Table, removed: pa.Table) -> MetadataEntries:
    """The records of the partitions of which all ends are known.

    Args:
        stored: The stored ranges of partitions, as `COLUMN_STATS`: each column of each partition has one.
        added: The ranges of added files.
        removed: The ranges of removed files.
    """
    united = _united(pa.concat_tables([stored, added]))
    before, new, old = (_as_in(united.keys, _united(part)) for part in (stored, added, removed))
    is_known = np.ones(len(united.keys), np.bool_)
    for end in _ENDS:
        # A range of nulls has no ends. If all removed files are such, they took no end away.
        took_end = _equal(before.column(end), old.column(end))
        is_known &= ~took_end | _equal(new.column(end), united.rows.column(end))
    rows = dict(zip(united.rows.schema.names, united.rows.columns, strict=True))
    for part in (before, new, old):
        is_known &= _has_types_of(part, united.rows)
    for name in COUNTS:
        left = pc.subtract(pc.fill_null(rows[name], 0), pc.fill_null(old.column(name), 0))
        is_known &= pc.greater_equal(left, 0).to_numpy(zero_copy_only=False)
        rows[name] = left
    unknown = rows["file_name"].filter(booleans_of(~is_known))
    kept = pc.invert(pc.is_in(rows["file_name"], value_set=unknown))
    batch = pa.RecordBatch.from_arrays(list(rows.values()), schema=united.rows.schema)
    return attrs.evolve(united, keys=united.keys.filter(kept), rows=batch.filter(kept))


def _as_in(keys: pa.Array, entries: MetadataEntries) -> pa.RecordBatch:
    """The rows of some keys; nulls where there are none."""
    return entries.rows.take(pc.index_in(keys, value_set=entries.keys))


def _equal(one: pa.Array, other: pa.Array) -> Flags:
    """Whether two columns of ends have the same value, which is not null."""
    equal: Flags = pc.and_(one.is_valid(), other.is_valid()).to_numpy(zero_copy_only=False)
    for name, left, right in zip(VARIANT_COLUMNS, one.flatten(), other.flatten(), strict=True):
        if name == "floating":
            numbers, others = (pc.fill_null(part, 0.0).to_numpy(zero_copy_only=False) for part in (left, right))
            equal &= (numbers == others) | (np.isnan(numbers) & np.isnan(others))
        else:
            equal &= _same(left, right).to_numpy(zero_copy_only=False)
    return equal


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Whether values are equal, two nulls included."""
    return pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(left.is_null(), right.is_null()))


def _has_types_of(part: pa.RecordBatch, united: pa.RecordBatch) -> Flags:
    """Whether the values of rows have the types of the united rows. Nulls have no type."""
    types, infos = (part.column(name) for name in ("value_type", "value_type_info"))
    no_type = pc.fill_null(pc.equal(types, int(ValueType.NULL)), True)
    agrees = pc.and_(
        pc.or_(no_type, _same(types, united.column("value_type"))),
        pc.or_(infos.is_null(), _same(infos, united.column("value_type_info"))),
    )
    for end in _ENDS:
        branch, wanted = (pc.struct_field(rows.column(end), "branch") for rows in (part, united))
        agrees = pc.and_(agrees, pc.or_(part.column(end).is_null(), _same(branch, wanted)))
    flags: Flags = agrees.to_numpy(zero_copy_only=False)
    return flags
