"""Write a table without a client, in the style of `pyarrow.parquet`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.call_arguments import check_text
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.mode_write import ModeWrite, SaveMode
from hoodie.client.new_table import check_fields_of_new_table, check_types_of_new_table, name_of_table
from hoodie.client.open_or_create import open_or_create
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import check_properties
from hoodie.common.data.record_source import record_batches
from hoodie.common.model.key_generator_type import GENERATED_KEYS
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.table.table_definition import KEYLESS_TABLES
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieKeyException, NullColumnException, TableExistsException
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from hoodie.sync.catalog_tables import CatalogTables


def write_table(
    data: Any,
    base_path: str,
    *,
    operation: WriteOperationType | str | None = None,
    table_name: str | None = None,
    record_key_fields: str | Sequence[str] = (),
    partition_fields: str | Sequence[str] = (),
    ordering_fields: str | Sequence[str] = (),
    table_type: HoodieTableType | str | None = None,
    table_version: int | None = None,
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    on_progress: ProgressCallback | None = None,
    validators: Sequence[Validator | HoodiePreCommitValidator] = (),
    mode: str = "append",
    catalog: CatalogTables | str | None = None,
    location: str | os.PathLike[str] | None = None,
) -> HoodieWriteResult | None:
    """Write rows to a table; the first call creates it, after checking the arguments. A delete creates no table.

    Args:
        data: Rows as `HoodieLocalWriteClient` accepts them; for a delete the keys.
        base_path: The table's folder; with ``catalog`` its name, ``database.table``.
        operation: ``upsert``, ``insert``, ``bulk_insert``, ``delete``, ``insert_overwrite`` (the partitions that the
            data goes to), ``insert_overwrite_table`` or ``delete_partition`` (the partitions that
            ``hoodie.datasource.write.partitions.to.delete`` names; without it, those that the data goes to). None takes
            ``hoodie.datasource.write.operation`` from the properties; its default is ``upsert``, or ``insert`` if the
            properties say what to do with inserts of keys that are in the table
            (``hoodie.datasource.write.insert.drop.duplicates``, ``hoodie.datasource.insert.dup.policy``).
        table_name: The name of a new table, by default the folder's name; checked against an existing table.
        record_key_fields: Columns that identify a row; needed for a new table, checked against an existing one. The
            text ``generated`` makes a table without them, whose keys are generated; see ``docs/keyless-tables.md``.
        partition_fields: Columns that the partition folders are named by.
        ordering_fields: The column whose larger value wins; several in tables of versions 8 and 9.
        table_type: ``COPY_ON_WRITE``, the default of a new table, or ``MERGE_ON_READ``; an existing table must have it.
        table_version: 6, 8 or 9 of a new table, by default 9; checked against an existing one.
        properties: Further ``hoodie.*`` properties; those that describe a table are stored in a new table.
        storage_options: Options of the storage.
        on_progress: Called with every `ProgressEvent`; see `HoodieLocalWriteClient`.
        validators: Asked before the commit; see `HoodieLocalWriteClient`.
        mode: The treatment of a table that exists: ``append`` writes to it, ``overwrite`` replaces all of its rows,
            ``errorifexists`` refuses, ``ignore`` does nothing; in any case. ``overwrite`` is one commit, and keeps the
            history, if ``append`` would take the arguments and the columns. If not, a new table is written beside the
            old one, and then takes its place; the history goes (``insert_overwrite_table`` never does that). Either way
            the data may come from the table itself, also lazily. ``delete`` and ``delete_partition`` need ``append``.
        catalog: The catalog that has the name: what `hoodie.catalog` returns or takes. The rows go to the folder of its
            entry, and the entry is brought up to date after the write, as `hoodie.sync_table` does; an error of that is
            a warning, and in ``service_errors`` of the result. ``hoodie.datasource.hive_sync.enable = false`` leaves
            the entry as it is.
        location: The folder of a table that is to be made, with its entry. A name that is taken, or a table that is
            there, is refused before anything is written. The table comes first: if its entry cannot be made, the table
            stays.

    Returns:
        The outcome of the write, which is committed; None if ``ignore`` found a table.

    Raises:
        HoodieConfigException: A new table has no record key; fields differ from the table's; properties are unknown or
            contradict each other or the arguments; or the folder of a new table holds files of another format or files
            that no table wrote.
        TableExistsException: There is a table, and the mode is ``errorifexists`` or ``location`` is given; or the name
            is taken.
        TableNotFoundException: There is no table to delete from, or the catalog has no such name.
        HoodieSyncException: The catalog refuses, or cannot be reached.
        HoodiePendingOverwriteException: An overwrite died while a new table took the place of this one.
        HoodieKeyException: A field of a new table is not a column of the data.
        HoodieSchemaException: A new table cannot hold a column of the data; no table is created.
        HoodieException: Any error of the operation itself.
    """
    check_callback(on_progress)
    check_validators(validators)
    described: dict[str, Any] = {
        "table_name": table_name,
        "record_key_fields": record_key_fields,
        "partition_fields": partition_fields,
        "ordering_fields": ordering_fields,
        "table_type": table_type,
        "table_version": table_version,
    }

    def write(config: HoodieWriteConfig, mode: str) -> HoodieWriteResult | None:
        writing = ModeWrite.of(
            config,
            lambda given: HoodieLocalWriteClient(given, on_progress=on_progress, validators=validators),
            mode,
            operation,
        )
        return writing.run(_LocalFrame(data))

    if catalog is None:
        if location is not None:
            raise HoodieConfigException(
                "location is the folder of a new table that is made by name: give catalog, or the folder alone"
            )
        config = config_of_arguments(base_path, properties=properties, storage_options=storage_options, **described)
        return write(config, mode)
    # Imported here: a write by path needs no catalog.
    from hoodie.sync.catalog_tables import CatalogTables

    tables = CatalogTables.of(catalog, properties, storage_options)
    if location is None:
        named = tables.resolve(base_path)
        config = config_of_arguments(
            named.path, properties=named.properties, storage_options=tables.storage_options, **described
        )
        return write(config, mode)
    if SaveMode.of(mode) not in (SaveMode.APPEND, SaveMode.ERROR_IF_EXISTS):
        raise HoodieConfigException(
            f"mode = {mode!r} with location, which makes a new table: leave one of them out; nothing was written"
        )
    new = tables.new(base_path, location, table_name)
    config = config_of_arguments(
        new.path, properties=new.properties, storage_options=tables.storage_options, **described
    )
    return tables.make(new, config, lambda silent: write(silent, SaveMode.ERROR_IF_EXISTS))


def config_of_arguments(
    base_path: str,
    *,
    table_name: str | None = None,
    record_key_fields: str | Sequence[str] = (),
    partition_fields: str | Sequence[str] = (),
    ordering_fields: str | Sequence[str] = (),
    table_type: HoodieTableType | str | None = None,
    table_version: int | None = None,
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
) -> HoodieWriteConfig:
    """The configuration of a writer that the arguments of `write_table` describe.

    Args:
        base_path: See `write_table`; so are the others.
        table_name: The name.
        record_key_fields: The fields of the key.
        partition_fields: The fields of the partition path.
        ordering_fields: The ordering fields.
        table_type: The type.
        table_version: The version.
        properties: The properties.
        storage_options: The options of the storage.

    Raises:
        HoodieConfigException: Arguments and properties contradict each other, or have values that are not allowed.
    """
    check_properties(properties)
    if table_name is not None:
        check_text("table_name", table_name)
    is_keyless = record_key_fields == GENERATED_KEYS
    fields = {
        "hoodie.table.name": table_name or "",
        "hoodie.write.keyless": "true" if is_keyless else "",
        "hoodie.datasource.write.recordkey.field": (
            "" if is_keyless else _joined(record_key_fields, "record_key_fields")
        ),
        "hoodie.datasource.write.partitionpath.field": _joined(partition_fields, "partition_fields"),
        "hoodie.datasource.write.precombine.field": _joined(ordering_fields, "ordering_fields"),
        "hoodie.datasource.write.table.type": "" if table_type is None else str(table_type),
        "hoodie.write.table.version": "" if table_version is None else str(table_version),
    }
    named = {key: value for key, value in fields.items() if value}
    for key, value in named.items():
        other = (properties or {}).get(key, value)
        if _names(_joined(other if isinstance(other, list | tuple) else str(other), key)) != _names(value):
            raise HoodieConfigException(f"{key} = {other!r}, and the argument says {value!r}: give one of them")
    return HoodieWriteConfig.from_properties(base_path, {**(properties or {}), **named}, storage_options)


def create_table(schema: pa.Schema, config: HoodieWriteConfig) -> None:
    """Create a table with the columns of a schema and without rows.

    Args:
        schema: The columns.
        config: The configuration that describes the table.

    Raises:
        TableExistsException: There is a table.
        HoodieException: The configuration or the columns make no table; the folder is as it was.
    """
    with open_or_create(config, HoodieLocalWriteClient) as table:
        if table.found is None:
            _LocalFrame(schema.empty_table()).check_new(config)
            table.create(schema)
        if table.found is not None:
            raise TableExistsException(f"there is a table at {config.base_path}: open it with hoodie.Table")


class _LocalFrame:
    """Rows as `HoodieLocalWriteClient` accepts them; input that can be read only once is opened once."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def columns(self, known: pa.Schema | None) -> pa.Schema:
        """See `WrittenFrame.columns`."""
        source = record_batches(self.data, known)
        if source.is_one_shot:
            self.data = chain([pa.RecordBatch.from_pylist([], schema=source.schema)], source.batches)
        return source.schema

    def check_new(self, config: HoodieWriteConfig) -> None:
        """Check a new table's fields, names and types against the data's columns."""
        table = config.table
        if not table.record_key_fields and not table.keyless:
            raise HoodieConfigException(
                f"there is no table at {config.base_path}: pass record_key_fields to create it; {KEYLESS_TABLES}"
            )
        known = to_arrow(config.write.avro_schema) if config.write.avro_schema else None
        try:
            source = record_batches(self.data, known)
        except NullColumnException as error:
            if error.column not in (table.record_key_fields or ()):
                raise
            raise HoodieKeyException(
                f"nothing was changed at {config.base_path}: column '{error.column}', a record key field, is null in "
                "all records"
            ) from error
        if RECORD_KEY not in source.schema.names:
            check_fields_of_new_table(source.schema.names, config)
        check_types_of_new_table(source.schema, config, name_of_table(config), known)
        if source.is_one_shot:
            self.data = chain([pa.RecordBatch.from_pylist([], schema=source.schema)], source.batches)
        elif source.table is not None and not (isinstance(self.data, list | tuple) and config.payload.partial_update):
            # Batches can be read again; the dicts of a partial update show which columns are absent.
            self.data = source.table


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",")]


def _joined(fields: str | Sequence[str] | None, argument: str) -> str:
    names = [fields] if isinstance(fields, str) else [] if fields is None else fields
    if not isinstance(names, Iterable) or isinstance(names, bytes):
        raise HoodieConfigException(f"{argument} is {shown_value(fields)}: give a column's name, or a list of names")
    names = list(names)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise HoodieConfigException(f"{argument} has a name that is {shown_value(wrong[0])}: give names of columns")
    return ",".join(names)
