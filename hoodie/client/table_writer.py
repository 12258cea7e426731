"""Write a table without a client, in the manner of `pyarrow.parquet`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.new_table import (
    OPERATIONS,
    check_fields_of_new_table,
    check_types_of_new_table,
    create_table,
    name_of_table,
    operation_to_do,
)
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.data.record_source import record_batches
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieKeyException,
    NullColumnException,
    TableNotFoundException,
)
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.storage.storage_options import StorageOptions

__all__ = ["write_table"]

logger = logging.getLogger(__name__)


def write_table(
    data: Any,
    base_path: str,
    *,
    operation: WriteOperationType | str | None = None,
    table_name: str | None = None,
    record_key_fields: str | Sequence[str] = (),
    partition_fields: str | Sequence[str] = (),
    ordering_fields: str | Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    on_progress: ProgressCallback | None = None,
    validators: Sequence[Validator | HoodiePreCommitValidator] = (),
) -> HoodieWriteResult:
    """Write rows to a table; the first call creates it, once its arguments were checked.

    Args:
        data: What `HoodieLocalWriteClient` takes; for a delete the keys.
        base_path: The table's folder.
        operation: ``upsert``, ``insert``, ``bulk_insert``, ``delete``, ``insert_overwrite`` (the partitions that the
            data goes to) or ``insert_overwrite_table``; None takes
            ``hoodie.datasource.write.operation`` of the properties, by default ``upsert`` - but ``insert`` where the
            properties say what to do with inserts of keys that are in the table
            (``hoodie.datasource.write.insert.drop.duplicates``, ``hoodie.datasource.insert.dup.policy``).
        table_name: Of a new table; the folder's name when it is None.
        record_key_fields: Columns that identify a row; needed for a new table, checked against an existing one.
        partition_fields: Columns that the folders are made of.
        ordering_fields: The column whose larger value wins.
        properties: Further ``hoodie.*`` properties; those that describe a table go into a new one.
        storage_options: Options of the storage.
        on_progress: Called with every `ProgressEvent`, as of `HoodieLocalWriteClient`.
        validators: Asked before the commit, as of `HoodieLocalWriteClient`.

    Returns:
        The outcome; committed.

    Raises:
        HoodieConfigException: A new table without a record key, fields that differ from the table's, or properties that
            are unknown or contradict each other or the arguments.
        HoodieKeyException: A field of a new table is not a column of the data.
        HoodieSchemaException: A new table cannot hold a column of the data; no table is made.
        HoodieException: Whatever the operation raises.
    """
    if operation is not None and str(operation).lower() not in OPERATIONS:
        raise HoodieConfigException(f"operation {operation!r} is not one of {', '.join(OPERATIONS)}")
    fields = {
        "hoodie.datasource.write.recordkey.field": _joined(record_key_fields),
        "hoodie.datasource.write.partitionpath.field": _joined(partition_fields),
        "hoodie.datasource.write.precombine.field": _joined(ordering_fields),
    }
    named = {key: value for key, value in fields.items() if value}
    for key, value in named.items():
        other = (properties or {}).get(key, value)
        if _names(other if isinstance(other, list | tuple) else str(other)) != _names(value):
            raise HoodieConfigException(f"{key} = {other!r}, and the argument says {value!r}: give one of them")
    check_callback(on_progress)
    check_validators(validators)
    config = HoodieWriteConfig.from_properties(base_path, {**(properties or {}), **named}, storage_options)
    name = operation_to_do(operation, config)
    try:
        TableSnapshot.load(base_path, storage_options, retry=config.retry.policy)
    except TableNotFoundException:
        if not config.table.record_key_fields:
            raise HoodieConfigException(
                f"there is no table at {base_path}: name record_key_fields, and it is created"
            ) from None
        if name != "delete":
            data = _check_input(data, config, name_of_table(config, table_name))
        create_table(config, table_name)
    with HoodieLocalWriteClient(config, on_progress=on_progress, validators=validators) as client:
        result: HoodieWriteResult = getattr(client, name)(data)
        return result


def _check_input(data: Any, config: HoodieWriteConfig, table_name: str) -> Any:
    """Find a new table's fields, names and types in the columns of the data; return the data, which may be a stream."""
    table = config.table
    known = to_arrow(config.write.avro_schema) if config.write.avro_schema else None
    try:
        source = record_batches(data, known)
    except NullColumnException as error:
        if error.column not in (table.record_key_fields or ()):
            raise
        raise HoodieKeyException(
            f"no table is made at {config.base_path}: column '{error.column}', a record key field, is null in all "
            "records"
        ) from error
    if RECORD_KEY not in source.schema.names:
        check_fields_of_new_table(source.schema.names, config)
    check_types_of_new_table(source.schema, config, table_name, known)
    if isinstance(data, list | tuple) and (source.table is None or config.payload.partial_update):
        # Batches are there to be read again; dicts of a partial update say which columns are absent.
        return data
    if source.is_one_shot:
        return chain([pa.RecordBatch.from_pylist([], schema=source.schema)], source.batches)
    return data if source.table is None else source.table


def _names(value: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in _joined(value).split(",")]


def _joined(fields: str | Sequence[str]) -> str:
    return fields if isinstance(fields, str) else ",".join(fields)
