"""The rules by which a row wins under a merge mode, in tables of versions 8 and 9.

The same rules decide everywhere: between rows of the input, between an incoming row and a stored one, and between
entries of log files and a base file. A delete without an ordering value is a *hard* delete: it wins against every older
row, and every newer row wins against it. Hudi stores the int 0 as its ordering value, so a row that asks for a delete
with this very value (0 in an int column) is a hard delete as well.

Hudi: org.apache.hudi.common.table.read.BufferedRecordMergerFactory.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import flags_in, numbers_of
from hoodie.merge.merge_modes import PartialUpdateMode, TableMerging
from hoodie.merge.ordering_values import one_array, ordering_column, sortable
from hoodie.merge.payload_rules import FieldRule, MergeMode, PayloadRules, StoredRule

_FIELD_RULES = {
    PartialUpdateMode.IGNORE_DEFAULTS: FieldRule.DEFAULTS,
    PartialUpdateMode.FILL_UNAVAILABLE: FieldRule.TOASTED,
}


def rules_of_mode(merging: TableMerging, has_ordering_fields: bool) -> PayloadRules:
    """The rules of a table that does not merge by CUSTOM.

    Args:
        merging: The merge mode and properties of the table.
        has_ordering_fields: Whether it has ordering fields; without them EVENT_TIME_ORDERING goes by commit time.
    """
    compares = merging.mode is MergeMode.EVENT_TIME_ORDERING and has_ordering_fields
    partial = merging.partial_update_mode
    return PayloadRules(
        merging.known_as,
        merging.mode,
        stored_rule=StoredRule.LARGER if compares else StoredRule.NEVER,
        field_rule=_FIELD_RULES[partial] if partial is not None else None,
        combines_fields=partial is not None,
        deletes_compete=True,
        takes_markers=True,
        by_mode=True,
    )


def hard_deletes(rows: pa.RecordBatch | pa.Table, ordering_fields: Sequence[str]) -> npt.NDArray[np.bool_]:
    """True for rows whose delete is a hard one, because the ordering value is 0 of Avro's type int.

    Args:
        rows: Rows with the ordering fields, all of which ask for a delete.
        ordering_fields: The table's ordering fields.
    """
    values = ordering_column(rows, ordering_fields) if len(ordering_fields) == 1 else None
    if values is None or values.type != pa.int32():
        return np.zeros(rows.num_rows, dtype=np.bool_)
    return flags_in(pc.equal(one_array(values), numbers_of(np.zeros(1, np.int32), pa.int32())[0]))


def _zeros(values: pa.Array) -> pa.Array:
    """Ordering values as Hudi compares them: a null counts as 0 in a column of 32-bit integers."""
    return values.fill_null(0) if values.type == pa.int32() else values


@attrs.frozen(eq=False)
class MergeEntries:
    """The facts about records that decide a merge; arrays with one entry for each record.

    Attributes:
        ordering: Numbers with the order of the ordering values, over all entries that are compared with each other.
        is_hard: True for a hard delete.
        is_comparable: True if the ordering value has the type of the others (and is not the int 0 of a hard delete).
    """

    ordering: npt.NDArray[np.int64]
    is_hard: npt.NDArray[np.bool_]
    is_comparable: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, ordering: Sequence[pa.Array], is_delete: Sequence[npt.NDArray[np.bool_]]) -> list[MergeEntries]:
        """Entries that are compared with each other.

        Args:
            ordering: The ordering values of each group of entries, null for entries without one.
            is_delete: True for deletes.
        """
        arrays = [one_array(values) for values in ordering]
        found = []
        for values, numbers, deletes in zip(arrays, sortable(list(map(_zeros, arrays))), is_delete, strict=True):
            known = flags_in(values.is_valid())
            found.append(cls(numbers, deletes & ~known, known))
        return found


def later_log_entry_wins(
    rules: PayloadRules, older: MergeEntries, newer: MergeEntries, is_in_delete_block: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """True where the later of two entries of log files replaces the earlier one of its key.

    Args:
        rules: The rules of a merge mode.
        older: The earlier entries.
        newer: The later entries.
        is_in_delete_block: True where the later entry is a record of a delete block, and not a row of data.
    """
    if rules.stored_rule is StoredRule.NEVER:
        return np.ones(len(newer.ordering), dtype=np.bool_)
    by_row = older.is_hard | newer.is_hard | (newer.ordering >= older.ordering)
    compares = ~newer.is_hard & newer.is_comparable & older.is_comparable
    by_block = ~(older.is_hard | (compares & (older.ordering > newer.ordering)))
    wins: npt.NDArray[np.bool_] = np.where(is_in_delete_block, by_block, by_row)
    return wins


def later_row_wins(rules: PayloadRules, older: MergeEntries, newer: MergeEntries) -> npt.NDArray[np.bool_]:
    """True where a row, or the merged entry of all log files, wins against the stored row of a base file.

    Args:
        rules: The rules of a merge mode.
        older: The stored rows.
        newer: The rows or entries that are merged with them.
    """
    if rules.stored_rule is StoredRule.NEVER:
        return np.ones(len(newer.ordering), dtype=np.bool_)
    wins: npt.NDArray[np.bool_] = older.is_hard | newer.is_hard | (newer.ordering >= older.ordering)
    return wins
