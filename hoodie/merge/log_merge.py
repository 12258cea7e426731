"""The merge of log entries: the result of all entries of a record key, and whether it wins against the stored row.

An *entry* is a row of a data block or a record of a delete block in a log file. A row may ask for a delete, too.
Entries have an order, that of the log files of a slice and their blocks; the base file is older than all::

    base     log entries of a key, in order      result     the slice holds
    b10      u20, u15                            u20        u20
    b10      u5                                  u5         b10
    b10      hard delete, u5                     u5         b10: the row comes back
    b10      d20, u15                            d20        nothing

(EVENT_TIME_ORDERING; the numbers are ordering values, u is a row, d a delete.) First the entries of each key are merged
to one, then that one is merged with the stored row. Both steps use the rules of `hoodie.merge.mode_rules`.

Hudi: org.apache.hudi.common.table.read.buffer.KeyBasedFileGroupRecordBuffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import name_in_any_case
from hoodie.common.model.record_columns import OPERATION_META
from hoodie.common.util.arrow_buffers import booleans_of, flags_in, texts_of
from hoodie.exception import HoodieSchemaException
from hoodie.merge.merge_modes import TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import MergeEntries, hard_deletes, later_row_wins, rules_of_mode
from hoodie.merge.ordering_values import one_array, sortable
from hoodie.merge.payload_rules import (
    DEFAULT_PAYLOAD,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    MergeMode,
    PayloadRules,
    StoredRule,
)

_MODES = {
    DEFAULT_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    OVERWRITE_WITH_LATEST_PAYLOAD: MergeMode.COMMIT_TIME_ORDERING,
}
_DELETING_OPERATIONS = ("D", "-U")
"""Values of ``_hoodie_operation`` of rows that delete their key."""


def rules_of_logs(spec: MergeSpec) -> PayloadRules | None:
    """The rules of the merge mode by which entries of log files are merged.

    Tables of version 6 with one of the two payload classes that stand for a mode go by that mode, as Hudi 1.2.0 reads
    them.

    Args:
        spec: The table's rules.

    Returns:
        None if a payload class or a user's merger decides pair by pair, by `MergeSpec.merge`.
    """
    if spec.merger is not None:
        return None
    if spec.rules.by_mode:
        return spec.rules
    mode = _MODES.get(spec.rules.class_name)
    return None if mode is None else rules_of_mode(TableMerging(mode), bool(spec.ordering_fields))


def spec_of_logs(spec: MergeSpec, schema: pa.Schema, default_values: Mapping[str, object]) -> MergeSpec:
    """The rules for reading log files.

    Args:
        spec: The table's rules.
        schema: The user's columns.
        default_values: Columns with a default other than null -> the default.

    Raises:
        MissingSchemaFieldException: A column is missing that the rules need.
    """
    if spec.delete_field is not None and name_in_any_case(schema.names, spec.delete_field) is None:
        # No row can be marked. Only writers need the error.
        spec = attrs.evolve(spec, delete_field=None, delete_marker=None)
    return spec.for_input(schema, frozenset(), default_values)


def requested_deletes(spec: MergeSpec, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """True for rows of data blocks that ask for a delete of their key.

    Args:
        spec: The table's rules.
        rows: Rows with the columns of `delete_columns`.
    """
    deletes = spec.flagged_deletes(rows)
    if OPERATION_META in rows.schema.names and pa.types.is_string(rows.schema.field(OPERATION_META).type):
        is_delete_operation = pc.is_in(one_array(rows.column(OPERATION_META)), value_set=texts_of(_DELETING_OPERATIONS))
        deletes |= flags_in(is_delete_operation)
    return deletes


def delete_columns(spec: MergeSpec, schema: pa.Schema) -> set[str]:
    """The columns of a schema that `requested_deletes` reads.

    Args:
        spec: The table's rules.
        schema: All columns, Hudi's included.
    """
    return spec.delete_columns(schema) | ({OPERATION_META} & set(schema.names))


def ordering_of_rows(
    spec: MergeSpec, rows: pa.RecordBatch, values: pa.Array, deletes: npt.NDArray[np.bool_]
) -> pa.Array:
    """The ordering values of rows of data blocks; null for a hard delete.

    Args:
        spec: The table's rules.
        rows: The rows.
        values: Their ordering values as they are stored.
        deletes: Flags of the rows that ask for a delete.
    """
    if rules_of_logs(spec) is None:
        return values
    hard = deletes & hard_deletes(rows, spec.ordering_fields)
    return pc.if_else(booleans_of(~hard), values, pa.scalar(None, values.type)) if hard.any() else values


def ordering_of_deletes(values: pa.Array, wanted: pa.DataType, in_millis: Sequence[bool] = ()) -> pa.Array:
    """The ordering values of delete blocks in the type of the ordering fields.

    A delete block holds times and dates as plain numbers, too.

    Args:
        values: The values; null for a hard delete.
        wanted: The type.
        in_millis: For each ordering field, whether plain numbers of its times are milliseconds; empty if none are.

    Raises:
        HoodieSchemaException: Values of this type are not values of the ordering fields.
    """
    if values.type == wanted:
        return values
    if pa.types.is_struct(wanted) and pa.types.is_struct(values.type) and wanted.num_fields == values.type.num_fields:
        children = [
            ordering_of_deletes(values.field(index), wanted.field(index).type, in_millis[index : index + 1])
            for index in range(wanted.num_fields)
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    try:
        if pa.types.is_integer(values.type) and pa.types.is_date32(wanted):
            return values.cast(pa.int32()).view(wanted)
        if pa.types.is_integer(values.type) and pa.types.is_timestamp(wanted):
            numbers = values.cast(pa.int64())
            return (pc.multiply_checked(numbers, 1000) if any(in_millis) else numbers).view(wanted)
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise HoodieSchemaException(
            f"ordering values of type {values.type} in a delete block do not compare with those of the table, which "
            f"are {wanted}: {error}"
        ) from error


@attrs.frozen(eq=False)
class LogEntryColumns:
    """Entries of log files, in their order: what decides which of them is left for each key.

    Attributes:
        keys: A number for each distinct key, from 0 (int64).
        ordering: The ordering values; null for hard deletes. None if the rules compare none.
        is_delete: Flags of the entries that delete their key.
        is_in_delete_block: Flags of the entries that are records of delete blocks.
    """

    keys: npt.NDArray[np.int64]
    ordering: pa.Array | None
    is_delete: npt.NDArray[np.bool_]
    is_in_delete_block: npt.NDArray[np.bool_]


def without_order(ordering: pa.Array | None, is_delete: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The numbers of rows whose ordering value is null: they compare neither with other entries nor with a stored row.

    Hudi's readers do not agree which of the two wins, and some fail.

    Args:
        ordering: The ordering values of entries; None if the rules compare none.
        is_delete: Flags of the entries that are deletes.
    """
    if ordering is None or not ordering.null_count:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(flags_in(ordering.is_null()) & ~is_delete)


def last_entries(entries: LogEntryColumns, refuse: Callable[[int], NoReturn]) -> npt.NDArray[np.int64]:
    """The winning entry of each key, where entries are taken as a whole: the result of a fold by
    `later_log_entry_wins`.

    Entries before a hard delete do not count. The first *row* after the last hard delete wins, whatever its ordering
    value; deletes of delete blocks before that row have no effect. Among the following entries the largest ordering
    value wins, and of equal ones the last.

    Args:
        entries: All entries.
        refuse: Takes the number of a row that competes with other entries but has no ordering value; raises.

    Returns:
        Their numbers, ascending.
    """
    keys = entries.keys
    count = int(keys.max()) + 1 if len(keys) else 0
    if count == len(keys):
        return np.arange(count)
    if entries.ordering is None:
        last = np.zeros(count, dtype=np.int64)
        np.maximum.at(last, keys, np.arange(len(keys)))
        return np.sort(last)
    (ordering,) = sortable([entries.ordering])
    numbers = np.arange(len(keys))
    known = flags_in(entries.ordering.is_valid())
    is_hard = entries.is_delete & ~known
    counts = np.ones(len(keys), dtype=np.bool_)
    last_hard = np.full(count, -1, dtype=np.int64)
    if is_hard.any():
        np.maximum.at(last_hard, keys[is_hard], numbers[is_hard])
        counts = numbers > last_hard[keys]
        first_row = np.full(count, len(keys), dtype=np.int64)
        rows = counts & ~entries.is_in_delete_block
        np.minimum.at(first_row, keys[rows], numbers[rows])
        counts &= (last_hard[keys] < 0) | (numbers >= first_row[keys])
    unordered = without_order(entries.ordering, entries.is_delete)
    if len(unordered):
        competing = np.bincount(keys[counts], minlength=count)
        competing_unordered = unordered[counts[unordered] & (competing[keys[unordered]] > 1)]
        if len(competing_unordered):
            refuse(int(competing_unordered[0]))
    largest = np.full(count, np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(largest, keys[counts], ordering[counts])
    best = counts & (ordering == largest[keys])
    np.maximum.at(last_hard, keys[best], numbers[best])
    return np.sort(last_hard)


def entries_that_win(
    rules: PayloadRules, stored: pa.Array | None, ordering: pa.Array | None, is_delete: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """True where the merged entry wins against the stored row of its key.

    Args:
        rules: The rules of a merge mode.
        stored: The ordering values of the stored rows; None if the rules compare none.
        ordering: The ordering values of the entries; null for hard deletes.
        is_delete: True for entries that delete their key.
    """
    if rules.stored_rule is StoredRule.NEVER or stored is None or ordering is None:
        return np.ones(len(is_delete), dtype=np.bool_)
    older, newer = MergeEntries.of([stored, ordering], [np.zeros(len(is_delete), dtype=np.bool_), is_delete])
    return later_row_wins(rules, older, newer)
