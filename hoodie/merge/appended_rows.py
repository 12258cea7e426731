"""A check of rows that are appended to log files: they are merged when they are read, and cannot be refused then.

Hudi has no such check.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import MissingSchemaFieldException
from hoodie.merge import field_merge
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.ordering_values import one_array, ordering_column
from hoodie.merge.payload_rules import StoredRule

_POSITION_RULES = {
    StoredRule.BINLOG: field_merge.binlog_wins,
    StoredRule.LOG_SEQUENCE: field_merge.log_sequence_wins,
}
_TIES_LOSE = (StoredRule.LARGER_OR_EQUAL, StoredRule.BINLOG)


def deletes_are_rows(spec: MergeSpec) -> bool:
    """Whether rows that ask for a delete are appended as rows, because readers could not decide whether they win.

    A record of a delete block has an ordering value only, and wins with that of the stored row. Readers, those of Hudi
    too, find the mark in a row.

    Args:
        spec: The rules of the write.
    """
    return spec.merger is not None or spec.rules.stored_rule in (*_TIES_LOSE, *_POSITION_RULES)


def _compared_columns(spec: MergeSpec, schema: pa.Schema) -> set[str]:
    """The top-level columns that rules compare."""
    compared = {top_level_name(schema, field) for field in spec.ordering_fields}
    if spec.merger is None and spec.rules.sequence_column is not None:
        compared.add(spec.rules.sequence_column)
    return compared


def lacking_order(spec: MergeSpec, schema: pa.Schema) -> set[str]:
    """The columns by which rows are ordered that the input of a partial update lacks.

    Args:
        spec: The rules of the write.
        schema: The table's columns.
    """
    return _compared_columns(spec, schema) & spec.absent_columns


def refuse_changes_that_lose(spec: MergeSpec, schema: pa.Schema) -> None:
    """Refuse a partial update that would have no effect where rows are merged when they are read.

    A row that lacks the column by which rows are ordered is appended with the stored value of it. By some rules the
    stored row wins on a tie.

    Args:
        spec: The rules of the write.
        schema: The table's columns.

    Raises:
        MissingSchemaFieldException: It lacks such a column.
    """
    if spec.merger is not None or spec.rules.stored_rule not in _TIES_LOSE:
        return
    sequence = spec.rules.sequence_column
    columns = [sequence] if sequence is not None else [top_level_name(schema, field) for field in spec.ordering_fields]
    lacking = [name for name in columns if name in spec.absent_columns]
    if lacking:
        raise MissingSchemaFieldException(
            f"the input is a partial update without the column '{lacking[0]}', by which {spec.rules.short_name} "
            "decides between rows of a key: with the stored value in it the stored row would win, and a merge-on-read "
            f"table has no other way to store the change; nothing was written. Add '{lacking[0]}', with values larger "
            "than those that are stored"
        )


def keys_without_order(spec: MergeSpec, rows: pa.Table, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """The keys of rows of a partial update that cannot be merged when they are read.

    They lack the column by which rows are ordered, and no stored value of it was found: the key is new, or its stored
    row has a null there.

    Args:
        spec: The rules of the write.
        rows: The table's columns, completed by stored values.
        keys: Their record keys.
    """
    unordered = np.zeros(rows.num_rows, dtype=np.bool_)
    if rows.num_rows and lacking_order(spec, rows.schema):
        if spec.ordering_fields:
            values = ordering_column(rows, spec.ordering_fields)
            assert values is not None
            unordered |= values.is_null().to_numpy(zero_copy_only=False)
        sequence = spec.rules.sequence_column
        if sequence is not None and spec.merger is None:
            unordered |= one_array(rows[sequence]).is_null().to_numpy(zero_copy_only=False)
    return pc.filter(keys, pa.array(unordered))


def needs_stored_values(spec: MergeSpec, schema: pa.Schema) -> bool:
    """Whether rows that lack columns need the stored values to be whole rows.

    Else a null in these columns means the stored value wherever the rows are merged.

    Args:
        spec: The rules of the write.
        schema: The table's columns.
    """
    if not spec.absent_columns:
        return False
    compared = _compared_columns(spec, schema)
    return not spec.keeps_absent_columns or any(
        name in compared or name in spec.default_values or not schema.field(name).nullable
        for name in spec.absent_columns
    )


def position_errors(spec: MergeSpec, rows: pa.RecordBatch, operations: npt.NDArray[np.int8]) -> dict[int, str]:
    """Row number -> why the row can never be merged with another one, by rules that compare positions in a log.

    Rows of a partial update that lack the position get the stored one.

    Args:
        spec: The rules of the write.
        rows: The table's columns.
        operations: `RecordOperation` of each row; plain deletes need no position.
    """
    errors: dict[int, str] = {}
    column, compare = spec.rules.sequence_column, _POSITION_RULES.get(spec.rules.stored_rule)
    if column in spec.absent_columns:
        return errors
    if spec.merger is None and compare is not None and column in rows.schema.names:
        index = rows.schema.get_field_index(column)
        field = rows.schema.field(index).with_nullable(True)
        stored = rows.set_column(index, field, pa.nulls(rows.num_rows, field.type))
        compare(stored, rows, operations != RecordOperation.DELETE, errors)
    return errors
