"""Write a table without a client, in the manner of `pyarrow.parquet`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from hoodie.avro.schema_converters import record_name, record_namespace, to_arrow, to_avro
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.data.record_source import record_batches
from hoodie.common.data.schema_compatibility import check_schema
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.field_path import name_in_any_case
from hoodie.common.model.merge_properties import DELETE_FIELD_KEYS
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.model.record_merger import load_merger_class
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import InsertDupPolicy
from hoodie.exception import (
    HoodieConfigException,
    HoodieKeyException,
    MissingSchemaFieldException,
    NullColumnException,
    TableNotFoundException,
)
from hoodie.keygen.user_key_generator import load_user_key_generator
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.storage.storage_options import StorageOptions

__all__ = ["write_table"]

logger = logging.getLogger(__name__)

_OPERATION_KEY = "hoodie.datasource.write.operation"


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
) -> HoodieWriteResult:
    """Write rows to a table; the first call creates it, once its arguments were checked.

    Args:
        data: What `HoodieLocalWriteClient` takes; for a delete the keys.
        base_path: The table's folder.
        operation: ``upsert``, ``insert``, ``bulk_insert`` or ``delete``; None takes
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

    Returns:
        The outcome; committed.

    Raises:
        HoodieConfigException: A new table without a record key, fields that differ from the table's, or properties that
            are unknown or contradict each other or the arguments.
        HoodieKeyException: A field of a new table is not a column of the data.
        HoodieSchemaException: A new table cannot hold a column of the data; no table is made.
        HoodieException: Whatever the operation raises.
    """
    methods = {"upsert", "insert", "bulk_insert", "delete"}
    if operation is not None and str(operation).lower() not in methods:
        raise HoodieConfigException(f"operation {operation!r} is not one of {', '.join(sorted(methods))}")
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
    config = HoodieWriteConfig.from_properties(base_path, {**(properties or {}), **named}, storage_options)
    if not config.write.auto_commit:
        raise HoodieConfigException(
            "hoodie.auto.commit = false, and write_table always commits: leave it out, or write by the method of a "
            "HoodieLocalWriteClient and then call its commit"
        )
    name = _operation(operation, config)
    if name == "delete" and config.payload.partial_update:
        logger.warning("hoodie.write.partial.update = true is about upserts: the delete removes whole records")
    try:
        HoodieTableMetaClient.load(base_path, storage_options, retry=config.retry.policy)
    except TableNotFoundException:
        if not config.table.record_key_fields:
            raise HoodieConfigException(
                f"there is no table at {base_path}: name record_key_fields, and it is created"
            ) from None
        if name != "delete":
            data = _check_input(data, config, _name_of_table(config, table_name))
        _create_table(config, table_name)
    with HoodieLocalWriteClient(config, on_progress=on_progress) as client:
        result: HoodieWriteResult = getattr(client, name)(data)
        return result


def _operation(operation: WriteOperationType | str | None, config: HoodieWriteConfig) -> str:
    """The client's method: what the argument says, else what the properties do."""
    given = config.write.operation
    if operation is not None and _OPERATION_KEY in config.properties and str(operation).upper() != given.value.upper():
        raise HoodieConfigException(
            f"{_OPERATION_KEY} = {given.value.lower()!r}, and the argument says {str(operation).lower()!r}: give one "
            "of them"
        )
    name = str(operation or given).lower()
    if name != "upsert" or config.write.duplicates_of_inserts is InsertDupPolicy.NONE:
        return name
    option = "hoodie.datasource.insert.dup.policy"
    if config.write.insert_drop_duplicates:
        option = "hoodie.datasource.write.insert.drop.duplicates"
    if operation is not None:
        raise HoodieConfigException(
            f"operation='upsert' updates records whose key is in the table, and {option} = {config.properties[option]} "
            "says what inserts do with them: leave that out, or give operation='insert'"
        )
    logger.warning(
        "%s = %s concerns inserts: an insert is done instead of an upsert, as Hudi does; name it by operation='insert'",
        option,
        config.properties[option],
    )
    return "insert"


def _create_table(config: HoodieWriteConfig, table_name: str | None) -> None:
    """Make the table that the properties describe, so that they do not contradict it."""
    config.write.check_single_writer()
    if config.payload.merger_class is not None:
        load_merger_class(config.payload.merger_class)
    table = config.table
    if table_name and table.table_name and table_name != table.table_name:
        raise HoodieConfigException(
            f"hoodie.table.name = {table.table_name!r}, and the argument says {table_name!r}: give one of them"
        )
    properties = {}
    if table.archive_folder is not None:
        properties["hoodie.archivelog.folder"] = table.archive_folder
    if table.timeline_timezone is not None:
        properties["hoodie.table.timeline.timezone"] = table.timeline_timezone.value
    if table.database_name is not None:
        properties["hoodie.database.name"] = table.database_name
    if table.url_encode_partitioning is not None:
        properties["hoodie.datasource.write.partitionpath.urlencode"] = str(table.url_encode_partitioning).lower()
    if table.payload_class is not None:
        properties["hoodie.compaction.payload.class"] = table.payload_class
    if table.populate_meta_fields is not None:
        properties["hoodie.populate.meta.fields"] = str(table.populate_meta_fields).lower()
    key_generator = table.key_generator_class
    if key_generator is not None and not key_generator.startswith("org.apache.hudi."):
        load_user_key_generator(key_generator, config.properties)
    properties |= HoodieTimestampKeyGeneratorConfig.stored_properties(config.properties)
    properties |= config.payload.table_properties()
    HoodieTableMetaClient.init_table(
        config.base_path,
        table_name=_name_of_table(config, table_name),
        record_key_fields=table.record_key_fields or (),
        partition_fields=table.partition_fields or (),
        ordering_fields=table.ordering_fields or (),
        key_generator=key_generator,
        hive_style_partitioning=bool(table.hive_style_partitioning),
        properties=properties,
        storage_options=config.storage_options,
    )


def _name_of_table(config: HoodieWriteConfig, table_name: str | None) -> str:
    return table_name or config.table.table_name or config.base_path.rstrip("/").rsplit("/", 1)[-1]


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
        _check_fields(source.schema.names, config)
    columns = check_schema(
        known, source.schema, True, key_fields={*(table.record_key_fields or ()), *(table.partition_fields or ())}
    )
    to_avro(columns, record_name(table_name), record_namespace(table_name))
    if isinstance(data, list | tuple) and (source.table is None or config.payload.partial_update):
        # Batches are there to be read again; dicts of a partial update say which columns are absent.
        return data
    if source.is_one_shot:
        return chain([pa.RecordBatch.from_pylist([], schema=source.schema)], source.batches)
    return data if source.table is None else source.table


def _check_fields(columns: Sequence[str], config: HoodieWriteConfig) -> None:
    table = config.table
    for role, fields in (
        ("record key", table.record_key_fields),
        ("partition", table.partition_fields),
        ("ordering", table.ordering_fields),
    ):
        for field in (name.partition(":")[0] for name in fields or ()):
            if field not in columns and field.partition(".")[0] not in columns:
                raise HoodieKeyException(
                    f"no table is made at {config.base_path}: the {role} field '{field}' is not a column of the data"
                    f"{spelled_otherwise(columns, [field])}; its columns are: {', '.join(columns) or 'none'}"
                )
    marks = config.payload.delete_field
    if marks is not None and not config.write.avro_schema and name_in_any_case(columns, marks) is None:
        raise MissingSchemaFieldException(
            f"no table is made at {config.base_path}: {DELETE_FIELD_KEYS[0]} = {marks} is not a column of the data; "
            f"its columns are: {', '.join(columns) or 'none'}"
        )


def _names(value: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in _joined(value).split(",")]


def _joined(fields: str | Sequence[str]) -> str:
    return fields if isinstance(fields, str) else ",".join(fields)
