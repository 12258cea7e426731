"""Combine the input to one row per key; the steps of `hoodie.merge.merge_spec.MergeSpec.combine_duplicates`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.model.record_columns import (
    MERGE_ERROR,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
    user_column_names,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.merge.ordering_values import one_array, sortable
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED, HoodieRecordMerger, merge_pairs

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


@attrs.frozen
class Places:
    """The values that decide between rows with the same key: arrays with one entry per row.

    Attributes:
        keys: A number for each distinct key (record key, and partition path if there is one).
        number: Row numbers: the order of the input.
        ordering: Ordering values, as numbers that compare in the same way; zeros if there are none.
        stage: 0 before the last plain delete of the row's key, 1 for that delete, 2 after it.
    """

    keys: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    ordering: npt.NDArray[np.int64]
    stage: npt.NDArray[np.int8]

    @classmethod
    def of(cls, rows: pa.Table) -> Places:
        """Compute the places of rows; see `MergeSpec.combine_duplicates` for the columns.

        Raises:
            HoodieSchemaException: The ordering values have a type without an order.
        """
        names = set(rows.column_names)
        number = rows[ROW_NUMBER].to_numpy()
        keys = _codes(rows[RECORD_KEY])
        if PARTITION_PATH in names:
            paths = _codes(rows[PARTITION_PATH])
            keys = keys * (int(paths.max()) + 1) + paths
        ordering = np.zeros(rows.num_rows, dtype=np.int64)
        if ORDERING_VALUE in names:
            (ordering,) = sortable([rows[ORDERING_VALUE]])
        stage = np.zeros(rows.num_rows, dtype=np.int8)
        if OPERATION in names:
            deletes = rows[OPERATION].to_numpy() == RecordOperation.DELETE
            if deletes.any():
                stage, ordering = _around_last_delete(keys, number, deletes, ordering)
        return cls(keys, number, ordering, stage)


def winners(rows: pa.Table, places: Places, first_of_equals: bool) -> pa.Table:
    """The winning row of each key, in the order of the row numbers.

    Args:
        rows: The rows.
        places: The places of the rows.
        first_of_equals: Whether the first of the rows with equal ordering values wins, instead of the last.
    """
    tie = -places.number if first_of_equals else places.number
    order = np.lexsort((tie, places.ordering, places.stage, places.keys))
    keys = places.keys[order]
    found = order[np.append(keys[1:] != keys[:-1], True)]
    return rows.take(pa.array(found[np.argsort(places.number[found], kind="stable")]))


def rows_since_last_delete(
    rows: pa.Table, places: Places
) -> tuple[pa.Table, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The last plain delete of each key and the rows after it, sorted by key and then by row number.

    Args:
        rows: The rows.
        places: The places of the rows.

    Returns:
        The rows, their keys, and their ordering values.
    """
    keys, stage = places.keys, places.stage
    order = np.lexsort((places.number, keys))
    last_stage = np.zeros(int(keys.max()) + 1, dtype=np.int8) if len(keys) else np.zeros(0, dtype=np.int8)
    np.maximum.at(last_stage, keys, stage)
    order = order[stage[order] == last_stage[keys[order]]]
    return rows.take(pa.array(order)), keys[order], places.ordering[order]


def fold(
    merger: HoodieRecordMerger,
    rows: pa.Table,
    keys: npt.NDArray[np.int64],
    with_operations: Callable[[pa.Table], pa.Table],
) -> pa.Table:
    """Merge the second row of each key into the first, then the third, and so on.

    Args:
        merger: A user's merger.
        rows: All columns, sorted by key, and by row number within a key; ``MERGE_ERROR`` receives the errors.
        keys: The key of each row.
        with_operations: Sets the operation of merged rows by their fields.

    Returns:
        One row per key.
    """
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counts = np.diff(np.append(starts, len(keys)))
    merged = rows.take(pa.array(starts)).combine_chunks()
    for step in range(1, int(counts.max())):
        going_on = np.flatnonzero(counts > step)
        older = merged.take(pa.array(going_on))
        newer = rows.take(pa.array(starts[going_on] + step))
        result = _fold_step(merger, older, newer, with_operations)
        indices = np.arange(merged.num_rows)
        indices[going_on] = merged.num_rows + np.arange(len(going_on))
        merged = pa.concat_tables([merged, result]).take(pa.array(indices))
    return merged


def _fold_step(
    merger: HoodieRecordMerger, older: pa.Table, newer: pa.Table, with_operations: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    """Merge pairs of incoming rows. A row that failed before stays failed; a record after a delete is a new one."""
    failed = older[MERGE_ERROR].is_valid().to_numpy()
    deleted = older[OPERATION].to_numpy() == RecordOperation.DELETE
    mergeable = np.flatnonzero(~failed & ~deleted)
    pairs = pa.array(mergeable)
    old, new = older.take(pairs), newer.take(pairs)
    names = user_column_names(newer.schema)
    outcome = merge_pairs(
        merger, _one_batch(old.select(names)), _one_batch(new.select(names)), one_array(new[RECORD_KEY])
    )
    merged = with_operations(replace_columns(new, outcome.rows))
    operations = merged[OPERATION].to_numpy()
    operations = np.where(outcome.codes == DELETE_STORED, RecordOperation.DELETE, operations).astype(np.int8)
    merged = replace_column(merged, OPERATION, pa.array(operations))
    merged = _choose(old, merged, outcome.codes == KEEP_STORED)
    if outcome.errors:
        texts = [outcome.errors.get(number) for number in range(merged.num_rows)]
        merged = replace_column(merged, MERGE_ERROR, pa.array(texts, pa.string()))
    rest = _choose(older, newer, failed)
    indices = np.arange(newer.num_rows)
    indices[mergeable] = newer.num_rows + np.arange(len(mergeable))
    return pa.concat_tables([rest, merged]).take(pa.array(indices))


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each distinct value; null counts as a value."""
    encoded = one_array(column).dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _around_last_delete(
    keys: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
    deletes: npt.NDArray[np.bool_],
    ordering: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """The stage of each row (see `Places.stage`), and the ordering values to use."""
    _, groups = np.unique(keys, return_inverse=True)
    last = np.full(int(groups.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(last, groups[deletes], number[deletes])
    last_delete = last[groups]
    stage = (1 + np.sign(number - last_delete)).astype(np.int8)
    return stage, np.where(stage == 1, 0, ordering)


def replace_column(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The rows with one column replaced."""
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), column)


def replace_columns(rows: _Rows, new: pa.RecordBatch | None) -> _Rows:
    """The rows with the columns that a merger made; None for a merger that made none."""
    if new is None:
        return rows
    made = set(new.schema.names)
    columns = [new.column(name) if name in made else rows.column(name) for name in rows.schema.names]
    return type(rows).from_arrays(columns, schema=rows.schema)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([one_array(column) for column in rows.columns], schema=rows.schema)


def _choose(first: pa.Table, second: pa.Table, takes_first: npt.NDArray[np.bool_]) -> pa.Table:
    count = first.num_rows
    indices = np.where(takes_first, np.arange(count), count + np.arange(count))
    return pa.concat_tables([first, second]).take(pa.array(indices))
