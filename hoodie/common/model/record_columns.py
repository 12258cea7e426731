"""Names and types of the columns that hoodie adds: Hudi's meta columns on storage, and reserved columns in flight.

A batch in flight carries the user's columns (never a meta column), then the reserved columns that the steps so far have
added, in the order of `RESERVED_COLUMNS`. Rows whose key could not be made have a null record key: the step that counts
rows finds them, and the write fails with `hoodie.exception.HoodieKeyException`.
"""

from __future__ import annotations

import pyarrow as pa

COMMIT_TIME_META = "_hoodie_commit_time"
COMMIT_SEQNO_META = "_hoodie_commit_seqno"
RECORD_KEY_META = "_hoodie_record_key"
PARTITION_PATH_META = "_hoodie_partition_path"
FILE_NAME_META = "_hoodie_file_name"
OPERATION_META = "_hoodie_operation"
META_COLUMNS = (COMMIT_TIME_META, COMMIT_SEQNO_META, RECORD_KEY_META, PARTITION_PATH_META, FILE_NAME_META)
"""The first five columns of every base file, nullable strings, in this order (Hudi: HOODIE_META_COLUMNS)."""
META_COLUMN_SET = frozenset((*META_COLUMNS, OPERATION_META))
"""Incoming columns with these names are dropped when input is converted."""
IS_DELETED_FIELD = "_hoodie_is_deleted"
"""A boolean column of the user's data: true deletes the row's key. It is not a meta column: it is stored."""

RECORD_KEY = "__hoodie_record_key"
PARTITION_PATH = "__hoodie_partition_path"
ORDERING_VALUE = "__hoodie_ordering_value"
OPERATION = "__hoodie_operation"
ROW_NUMBER = "__hoodie_row_number"
ROW_IDENTITY = "__hoodie_row_identity"
CURRENT_INSTANT_TIME = "__hoodie_current_instant_time"
CURRENT_FILE_ID = "__hoodie_current_file_id"
CURRENT_ROW_POSITION = "__hoodie_current_row_position"
BUCKET = "__hoodie_bucket"
MERGE_ERROR = "__hoodie_merge_error"

KEY_PARTS = "__hoodie_key_parts"

DECIDING_COLUMNS = (RECORD_KEY, PARTITION_PATH, ORDERING_VALUE, OPERATION, KEY_PARTS)
"""The columns that decide which rows are written and where they go."""

RESERVED_COLUMNS: dict[str, pa.DataType | None] = {
    RECORD_KEY: pa.string(),
    PARTITION_PATH: pa.string(),
    ORDERING_VALUE: None,
    OPERATION: pa.int8(),
    KEY_PARTS: pa.string(),
    MERGE_ERROR: pa.string(),
    ROW_IDENTITY: pa.string(),
    ROW_NUMBER: pa.int64(),
    CURRENT_INSTANT_TIME: pa.string(),
    CURRENT_FILE_ID: pa.string(),
    CURRENT_ROW_POSITION: pa.int64(),
    BUCKET: pa.int32(),
}
"""Reserved column -> Arrow type, in the order of a batch; the ordering value has the type of its field.

`ROW_NUMBER` grows in the order of the input: of two rows with the same key and equal ordering values the later one
wins. The three CURRENT columns are null for a row whose key is not in the table (an insert). `MERGE_ERROR` exists only
in tables with a user's record merger: it has the reason why a row could not be merged with another row of the input,
and is null for good rows. `ROW_IDENTITY` exists before rows are prepared, where keys are generated: see
`hoodie.keygen.generated_keys`. `KEY_PARTS` exists only where keys join several fields, some of strings: see
`hoodie.common.model.key_parts`.
"""


TAGS = {RECORD_KEY_META: RECORD_KEY, PARTITION_PATH_META: PARTITION_PATH, FILE_NAME_META: CURRENT_FILE_ID}
"""For tagged rows read from a table: meta column -> reserved column. The file name takes the place of the file id."""


def reserved_field(name: str, ordering_type: pa.DataType | None = None) -> pa.Field:
    """The Arrow field of a reserved column.

    Args:
        name: One of `RESERVED_COLUMNS`.
        ordering_type: The type of the ordering field; only needed for `ORDERING_VALUE`.
    """
    data_type = RESERVED_COLUMNS[name]
    return pa.field(name, ordering_type if data_type is None else data_type)


def user_column_names(schema: pa.Schema) -> list[str]:
    """The columns of a schema, in their order, without reserved columns and Hudi's meta columns."""
    return [name for name in schema.names if name not in RESERVED_COLUMNS and name not in META_COLUMN_SET]
