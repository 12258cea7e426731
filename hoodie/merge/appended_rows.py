"""What rows must have that are appended to log files: they are merged when they are read, and nobody can refuse them.

Hudi has nothing like it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.merge import field_merge
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.payload_rules import StoredRule

_POSITION_RULES = {
    StoredRule.BINLOG: field_merge.binlog_wins,
    StoredRule.LOG_SEQUENCE: field_merge.log_sequence_wins,
}


def needs_stored_values(spec: MergeSpec, schema: pa.Schema) -> bool:
    """Whether rows that lack columns need the stored values to be whole rows.

    Else a null in these columns means the stored value wherever the rows are merged.

    Args:
        spec: The rules of the write.
        schema: The table's columns.
    """
    if not spec.absent_columns:
        return False
    ordering = {top_level_name(schema, field) for field in spec.ordering_fields}
    return not spec.keeps_absent_columns or any(
        name in ordering or name in spec.default_values or not schema.field(name).nullable
        for name in spec.absent_columns
    )


def position_errors(spec: MergeSpec, rows: pa.RecordBatch, operations: npt.NDArray[np.int8]) -> dict[int, str]:
    """Row number -> why the row can never be merged with another one, by rules that compare positions in a log.

    Args:
        spec: The rules of the write.
        rows: The table's columns.
        operations: `RecordOperation` of each row; plain deletes need no position.
    """
    errors: dict[int, str] = {}
    column, compare = spec.rules.sequence_column, _POSITION_RULES.get(spec.rules.stored_rule)
    if spec.merger is None and compare is not None and column in rows.schema.names:
        index = rows.schema.get_field_index(column)
        field = rows.schema.field(index).with_nullable(True)
        stored = rows.set_column(index, field, pa.nulls(rows.num_rows, field.type))
        compare(stored, rows, operations != RecordOperation.DELETE, errors)
    return errors
