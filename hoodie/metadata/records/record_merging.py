"""Merge of the records of each key in a metadata table, for all keys at once.

Rows come from the oldest to the newest: those of the base file, then those of log blocks in their order. The result:

====================  ==================================================================================================
payload               of an older and a newer record of a key
====================  ==================================================================================================
``FILES``             the files of both; of a file in both the larger size; a deleted file removes the older entry
``COLUMN_STATS``      the range and the counts of both; the newer one, if either is deleted or it has tight bounds
others                the newer one
====================  ==================================================================================================

A delete of a key, from a delete block, removes all older records of the key.

Hudi: HoodieMetadataPayload.preCombine, MetadataPartitionType.combineMetadataPayloads,
HoodieTableMetadataUtil.{combineFileSystemMetadata, mergeColumnStatsRecords}. Differs: a file that was listed, deleted
and listed once more in log blocks is folded in that order, while Hudi folds log blocks before the base file.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import booleans_of, flags_in, numbers_in, numbers_of, texts_of
from hoodie.common.util.text_order import sorted_places
from hoodie.metadata.records.metadata_records import FILE_INFO, MetadataPayload, flat_files

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@attrs.frozen(eq=False)
class MergedRecords:
    """The records after a merge, in the order of the keys' bytes.

    Attributes:
        keys: Distinct keys, string or binary as given.
        rows: One for each key; of the payload's schema.
        deleted_keys: Keys whose newest record is a delete; none if tombstones were dropped.
    """

    keys: pa.Array
    rows: pa.RecordBatch
    deleted_keys: pa.Array


def merge_records(
    payload: MetadataPayload,
    keys: pa.Array,
    rows: pa.RecordBatch,
    is_deleted: Flags | None = None,
    *,
    drop_tombstones: bool,
) -> MergedRecords:
    """Merge the records of each key.

    Args:
        payload: The payload of all rows.
        keys: The key of each row (string or binary), from the oldest row of a key to its newest; keys may come in any
            order, and sorted ones take less time.
        rows: The columns of the payload's schema; the content of deleted rows does not matter.
        is_deleted: True for rows that are deletes of their key; None for none.
        drop_tombstones: Whether the rows are all rows of their keys, those of the base file included. Then records are
            dropped that only mark a delete: of files, of statistics and of index entries.

    Returns:
        The records after the merge.
    """
    order = sorted_places(keys)
    if order is not None:
        keys, rows = keys.take(order), rows.take(order)
        is_deleted = None if is_deleted is None else is_deleted[numbers_in(order, np.uint64)]
    starts = run_starts(keys)
    ends = np.append(starts[1:], len(keys)) if len(starts) else starts
    deleted = np.zeros(len(keys), np.bool_) if is_deleted is None else is_deleted
    is_gone = deleted[ends - 1]
    if payload is MetadataPayload.FILES:
        merged = _merge_files(rows, deleted, starts, drop_tombstones)
    elif payload is MetadataPayload.COLUMN_STATS:
        merged = _merge_column_stats(rows, deleted, starts, ends)
    else:
        merged = rows.take(numbers_of(ends - 1, pa.int64()))
    distinct = keys.take(numbers_of(starts, pa.int64()))
    is_kept = ~is_gone
    if drop_tombstones:
        if "is_deleted" in payload.schema.names:
            is_kept &= ~_flags(merged.column("is_deleted"))
        deleted_keys = distinct.slice(0, 0)
    else:
        deleted_keys = distinct.filter(booleans_of(is_gone))
    if is_kept.all():
        return MergedRecords(distinct, merged, deleted_keys)
    return MergedRecords(distinct.filter(booleans_of(is_kept)), merged.filter(booleans_of(is_kept)), deleted_keys)


def run_starts(keys: pa.Array) -> Longs:
    """The place in sorted keys at which each key begins."""
    if not len(keys):
        return np.empty(0, np.int64)
    changes = flags_in(pc.not_equal(keys[1:], keys[:-1]))
    return np.flatnonzero(np.append(True, changes))


def _flags(values: pa.Array) -> Flags:
    return flags_in(values)


def _last_true(flags: Flags, starts: Longs) -> Longs:
    """The place of the last flag of each run; -1 for a run without one."""
    places = np.where(flags, np.arange(len(flags)), -1)
    return np.maximum.reduceat(places, starts) if len(starts) else starts


# --- files ------------------------------------------------------------------------------------------------------------


def _merge_files(rows: pa.RecordBatch, deleted: Flags, starts: Longs, drop_tombstones: bool) -> pa.RecordBatch:
    run_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(deleted))))
    first_counted = np.maximum(_last_true(deleted, starts) + 1, starts)
    is_counted = np.arange(len(deleted)) >= first_counted[run_of] if len(starts) else deleted
    owners, names, infos = flat_files(rows.column("files"))
    table = pa.table(
        {
            "run": numbers_of(run_of[owners], pa.int64()),
            "name": names,
            "size": infos.field("size_bytes"),
            "is_deleted": infos.field("is_deleted"),
        }
    ).filter(booleans_of(is_counted[owners]))
    run, names, sizes, is_live = _merge_entries(table, drop_tombstones)
    offsets = np.searchsorted(run, np.arange(len(starts) + 1)).astype(np.int32)
    infos = pa.StructArray.from_arrays([numbers_of(sizes, pa.int64()), booleans_of(~is_live)], fields=list(FILE_INFO))
    merged = pa.MapArray.from_arrays(numbers_of(offsets, pa.int32()), names, infos)
    ends = np.append(starts[1:], len(deleted)) - 1 if len(starts) else starts
    types = rows.column("type").take(numbers_of(ends, pa.int64()))
    schema = MetadataPayload.FILES.schema
    return pa.RecordBatch.from_arrays([types, merged], schema=schema)


def _merge_entries(table: pa.Table, drop_tombstones: bool) -> tuple[Longs, pa.Array, Longs, Flags]:
    """The entries of each file folded into one, or none: run, name, size, whether the file is live."""
    if not table.num_rows:
        return np.empty(0, np.int64), texts_of([]), np.empty(0, np.int64), np.empty(0, np.bool_)
    # Sorting is stable: equal names keep their order of time.
    table = table.take(pc.sort_indices(table, sort_keys=[("run", "ascending"), ("name", "ascending")]))
    run = numbers_in(table.column("run").combine_chunks(), np.int64)
    names = table.column("name").combine_chunks()
    is_new = np.append(True, (run[1:] != run[:-1]) | flags_in(pc.not_equal(names[1:], names[:-1])))
    starts = np.flatnonzero(is_new)
    ends = np.append(starts[1:], len(run))
    sizes = numbers_in(table.column("size").combine_chunks(), np.int64)
    deleted = flags_in(table.column("is_deleted").combine_chunks())
    last_deleted = _last_true(deleted, starts)
    is_live = last_deleted < ends - 1
    # After the last delete there are only live entries.
    counted = np.where(np.arange(len(run)) > np.repeat(last_deleted, ends - starts), sizes, 0)
    merged_sizes = np.where(is_live, np.maximum.reduceat(counted, starts), 0)
    # A delete of a live entry removes both. A delete without one stays, for entries in older files.
    before = np.maximum(ends - 2, starts)
    had_entry = (ends - starts > 1) & ~deleted[before]
    is_kept = is_live | (False if drop_tombstones else ~had_entry)
    return (
        run[starts][is_kept],
        names.take(numbers_of(starts[is_kept], pa.int64())),
        merged_sizes[is_kept],
        is_live[is_kept],
    )


# --- column statistics ------------------------------------------------------------------------------------------------


def _merge_column_stats(rows: pa.RecordBatch, deleted: Flags, starts: Longs, ends: Longs) -> pa.RecordBatch:
    tombstones = _flags(rows.column("is_deleted")) | deleted
    tight = _flags(rows.column("is_tight_bound")) & ~tombstones
    after = np.append(False, tombstones[:-1]) if len(tombstones) else tombstones
    resets = tight | tombstones | after
    resets[starts] = True
    first = _last_true(resets, starts)
    if (first == ends - 1).all():
        return rows.take(pa.array(ends - 1))
    # Imported here: only statistics whose ranges were added to are united, and other reads start earlier without.
    from hoodie.metadata.records.range_union import union_of_ranges

    # Rows before the last reset of their key do not count.
    run_of = np.repeat(np.arange(len(starts)), ends - starts)
    counted = np.flatnonzero(np.arange(len(deleted)) >= first[run_of])
    run_of_counted = run_of[counted]
    new_starts = np.flatnonzero(np.append(True, run_of_counted[1:] != run_of_counted[:-1]))
    return union_of_ranges(rows.take(pa.array(counted)), new_starts)
