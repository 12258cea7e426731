"""The types of tables, write operations and row operations.

Hudi: org.apache.hudi.common.model.{WriteOperationType, HoodieTableType, IOType}.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class HoodieTableType(StrEnum):
    """The type of a table: updates rewrite base files, or are stored in log files beside them."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class WriteOperationType(StrEnum):
    """A write operation; the value is the name that Hudi stores in commit metadata (``operationType``)."""

    INSERT = "INSERT"
    INSERT_PREPPED = "INSERT_PREPPED"
    UPSERT = "UPSERT"
    UPSERT_PREPPED = "UPSERT_PREPPED"
    BULK_INSERT = "BULK_INSERT"
    BULK_INSERT_PREPPED = "BULK_INSERT_PREPPED"
    DELETE = "DELETE"
    DELETE_PREPPED = "DELETE_PREPPED"
    BOOTSTRAP = "BOOTSTRAP"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    CLUSTER = "CLUSTER"
    DELETE_PARTITION = "DELETE_PARTITION"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    COMPACT = "COMPACT"
    INDEX = "INDEX"
    ALTER_SCHEMA = "ALTER_SCHEMA"
    LOG_COMPACT = "LOG_COMPACT"
    BUCKET_RESCALE = "BUCKET_RESCALE"
    UNKNOWN = "UNKNOWN"


REWRITES = frozenset(
    {
        WriteOperationType.CLUSTER,
        WriteOperationType.COMPACT,
        WriteOperationType.INDEX,
        WriteOperationType.LOG_COMPACT,
    }
)
"""Operations that only rewrite rows. The schema in their commit may be an older one: it is not the table's."""

ADDS_WITHOUT_BLOCKING = frozenset(
    {
        WriteOperationType.UPSERT,
        WriteOperationType.INSERT,
        WriteOperationType.INSERT_PREPPED,
        WriteOperationType.DELETE,
    }
)
"""Operations that write only log files with NON_BLOCKING_CONCURRENCY_CONTROL, beside other writers."""


class IOType(StrEnum):
    """The kind of write that a marker announces."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class RecordOperation(IntEnum):
    """The operation of a row in flight, as stored in the operation column (int8).

    UPSERT writes the row. DELETE_FLAGGED is a data row with ``_hoodie_is_deleted`` set; its ordering value competes
    with others. DELETE is a key without data; it deletes whatever is stored.
    """

    UPSERT = 0
    DELETE_FLAGGED = 1
    DELETE = 2
