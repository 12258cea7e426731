"""Write a table without a client, in the manner of `pyarrow.parquet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, TableNotFoundException

__all__ = ["write_table"]


def write_table(
    data: Any,
    base_path: str,
    *,
    operation: WriteOperationType | str = WriteOperationType.UPSERT,
    table_name: str | None = None,
    record_key_fields: str | Sequence[str] = (),
    partition_fields: str | Sequence[str] = (),
    ordering_fields: str | Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> HoodieWriteResult:
    """Write rows to a table; the first call creates it.

    Args:
        data: What `HoodieLocalWriteClient` takes; for a delete the keys.
        base_path: The table's folder.
        operation: ``upsert``, ``insert``, ``bulk_insert`` or ``delete``.
        table_name: Of a new table; the folder's name when it is None.
        record_key_fields: Columns that identify a row; needed for a new table, checked against an existing one.
        partition_fields: Columns that the folders are made of.
        ordering_fields: The column whose larger value wins.
        properties: Further ``hoodie.*`` properties.
        storage_options: Options of the storage.

    Returns:
        The outcome; committed.

    Raises:
        HoodieConfigException: A new table without a record key, or fields that differ from the table's.
        HoodieException: Whatever the operation raises.
    """
    name = str(operation).lower()
    methods = {"upsert", "insert", "bulk_insert", "delete"}
    if name not in methods:
        raise HoodieConfigException(f"operation {operation!r} is not one of {', '.join(sorted(methods))}")
    fields = {
        "hoodie.datasource.write.recordkey.field": _joined(record_key_fields),
        "hoodie.datasource.write.partitionpath.field": _joined(partition_fields),
        "hoodie.datasource.write.precombine.field": _joined(ordering_fields),
    }
    named = {key: value for key, value in fields.items() if value}
    try:
        HoodieTableMetaClient.load(base_path, storage_options)
    except TableNotFoundException:
        if not record_key_fields:
            raise HoodieConfigException(
                f"there is no table at {base_path}: name record_key_fields, and it is created"
            ) from None
        HoodieTableMetaClient.init_table(
            base_path,
            table_name=table_name or base_path.rstrip("/").rsplit("/", 1)[-1],
            record_key_fields=record_key_fields,
            partition_fields=partition_fields,
            ordering_fields=ordering_fields,
            storage_options=storage_options,
        )
    config = HoodieWriteConfig.from_properties(
        base_path, {**named, **(properties or {}), "hoodie.auto.commit": "true"}, storage_options
    )
    with HoodieLocalWriteClient(config) as client:
        result: HoodieWriteResult = getattr(client, name)(data)
        return result


def _joined(fields: str | Sequence[str]) -> str:
    return fields if isinstance(fields, str) else ",".join(fields)
