"""Mark a write that is computed from stored rows, so that it must know of every write before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.client.write_input import MadeOfTable, Where
from hoodie.common.model.commit_metadata import READS_ROWS_KEY
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.config.payload_config import MissingKeyPolicy
from hoodie.config.write_config import NON_BLOCKING_SINCE_VERSION
from hoodie.config.write_options import InsertDupPolicy
from hoodie.io.write_context import WriteContext
from hoodie.merge.appended_rows import needs_stored_values

_INSERTS = (WriteOperationType.INSERT, WriteOperationType.BULK_INSERT)
_BY_PLACE = (WriteOperationType.UPSERT_PREPPED, WriteOperationType.DELETE_PREPPED)


def reading_mark(operation: WriteOperationType, records: Any, context: WriteContext) -> Mapping[str, str]:
    """Extra metadata of a commit if other writers must not place their rows below its rows.

    It is stored in tables that may have writers with NON_BLOCKING_CONCURRENCY_CONTROL.

    Args:
        operation: The operation.
        records: Its input as the caller gave it.
        context: The write, its input prepared.
    """
    table_config = context.table_config
    if (
        table_config.table_type is not HoodieTableType.MERGE_ON_READ
        or table_config.table_version < NON_BLOCKING_SINCE_VERSION
        or not context.placement.names_file_groups
        or not _reads_rows(operation, records, context)
    ):
        return {}
    return {READS_ROWS_KEY: "true"}


def _reads_rows(operation: WriteOperationType, records: Any, context: WriteContext) -> bool:
    write, payload = context.config.write, context.config.payload
    if isinstance(records, MadeOfTable | Where) or operation in _BY_PLACE:
        return True
    if operation in _INSERTS:
        return write.duplicates_of_inserts is not InsertDupPolicy.NONE
    if operation is not WriteOperationType.UPSERT:
        return False
    looks_up = payload.partial_update and payload.missing_keys is MissingKeyPolicy.FAIL
    return looks_up or needs_stored_values(context.records.merge_spec, context.records.schema)
