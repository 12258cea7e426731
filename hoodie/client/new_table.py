"""Create tables by the options of a write, for writes without a client.

Hudi: the beginnings of org.apache.hudi.HoodieSparkSqlWriter.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.avro.schema_converters import record_name, record_namespace, to_arrow, to_avro
from hoodie.common.config.property import to_property_value
from hoodie.common.data.schema_compatibility import merge_schemas
from hoodie.common.data.stored_types import normalise_schema, spelled_otherwise
from hoodie.common.model.key_generator_type import GENERATED_KEYS
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_definition import DEFAULT_TABLE_VERSION, KEYLESS_TABLES, TableDefinition
from hoodie.common.table.table_folder import NewTable
from hoodie.common.table.table_meta_client import properties_of_new_table, refuse_taken_folder
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieKeyException
from hoodie.merge.ordering_values import check_ordering_types
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import file_name, normalise_path


def check_new_table(columns: pa.Schema, config: HoodieWriteConfig) -> None:
    """Refuse options and columns that make no valid table, before a table is created or replaced.

    Args:
        columns: The data's columns.
        config: The write's configuration.

    Raises:
        HoodieConfigException: The options do not name the table and its record key, or name a concurrency mode that it
            could not have.
        HoodieKeyException: See `check_fields_of_new_table`.
        HoodieSchemaException: See `check_types_of_new_table`.
    """
    missing = [
        key
        for key, value in (
            ("hoodie.table.name", config.table.table_name),
            ("hoodie.datasource.write.recordkey.field", config.table.record_key_fields or config.table.keyless),
        )
        if not value
    ]
    if missing:
        raise HoodieConfigException(
            f"a new table at {config.base_path} needs {' and '.join(missing)}: give "
            f"{'it' if len(missing) == 1 else 'them'} in the options"
            + (f"; {KEYLESS_TABLES}" if not config.table.record_key_fields else "")
        )
    declared = to_arrow(config.write.avro_schema) if config.write.avro_schema else None
    columns = normalise_schema(columns, declared)
    check_description(config)
    check_fields_of_new_table(columns.names, config)
    check_types_of_new_table(columns, config, name_of_table(config), declared)


def table_to_create(config: HoodieWriteConfig, schema: pa.Schema | None = None) -> NewTable:
    """The table that the properties describe, so that it fits them. It is not created yet, but its folder is free.

    Args:
        config: The write's configuration.
        schema: The columns, which are stored; None leaves them to the first write.

    Raises:
        TableExistsException: There is a table.
        HoodieConfigException: The properties do not describe a valid table; or the folder holds files of another format
            or files that no table wrote.
    """
    check_description(config)
    path = normalise_path(config.base_path)
    storage = open_storage(path, config.storage_options, config.retry.policy)
    definition = _definition_of(config, schema)
    refuse_taken_folder(storage, path, config.write.allow_other_files)
    # An object store has no folders to remove.
    folder_is_new = not storage.is_remote and not storage.exists(path)
    return NewTable(storage, path, properties_of_new_table(definition), folder_is_new=folder_is_new)


def config_of_new_table(config: HoodieWriteConfig) -> HoodieTableConfig:
    """The properties that a new table would have. Nothing is read or created.

    Args:
        config: The write's configuration.

    Raises:
        HoodieConfigException: The properties do not describe a valid table.
    """
    return HoodieTableConfig(properties_of_new_table(_definition_of(config, None)))


def _definition_of(config: HoodieWriteConfig, schema: pa.Schema | None) -> TableDefinition:
    table = config.table
    described = {
        "hoodie.archivelog.folder": table.archive_folder,
        "hoodie.table.timeline.timezone": table.timeline_timezone,
        "hoodie.database.name": table.database_name,
        "hoodie.datasource.write.partitionpath.urlencode": table.url_encode_partitioning,
        "hoodie.compaction.payload.class": table.payload_class,
        "hoodie.populate.meta.fields": table.populate_meta_fields,
        CDC_ENABLED: table.cdc_enabled,
        LOGGING_MODE: table.cdc_logging_mode,
    }
    properties = {key: to_property_value(value) for key, value in described.items() if value is not None}
    properties |= HoodieTimestampKeyGeneratorConfig.stored_properties(config.properties)
    properties |= config.payload.table_properties()
    return TableDefinition(
        table_name=name_of_table(config),
        record_key_fields=GENERATED_KEYS if table.keyless else list(table.record_key_fields or ()),
        partition_fields=table.partition_fields or (),
        table_type=_type_of(config),
        ordering_fields=table.ordering_fields or (),
        key_generator=table.key_generator_class,
        hive_style_partitioning=bool(table.hive_style_partitioning),
        schema=schema,
        table_version=table.table_version,
        properties=properties,
    )


def _type_of(config: HoodieWriteConfig) -> HoodieTableType:
    return config.table.table_type or HoodieTableType.COPY_ON_WRITE


def check_description(config: HoodieWriteConfig) -> None:
    """Refuse options that contradict each other, of a table that is made by them.

    Args:
        config: The write's configuration.

    Raises:
        HoodieConfigException: The concurrency mode does not fit the table's type or version; or a table whose keys are
            generated is asked for, and options are given that it cannot have.
    """
    version = config.table.table_version or DEFAULT_TABLE_VERSION
    problems = config.concurrency_problems(_type_of(config), version)
    if config.table.keyless:
        if config.table.record_key_fields:
            problems.append(
                f"hoodie.write.keyless = true, and hoodie.datasource.write.recordkey.field = "
                f"{','.join(config.table.record_key_fields)!r}: leave one of them out"
            )
        problems += config.keyless_problems()
    if problems:
        raise HoodieConfigException(f"no table was created at {config.base_path}: {'; '.join(problems)}")


def name_of_table(config: HoodieWriteConfig) -> str:
    """The name of a new table: from the properties, else the name of the folder.

    Args:
        config: The write's configuration.
    """
    return config.table.table_name or file_name(normalise_path(config.base_path))


def check_types_of_new_table(
    columns: pa.Schema, config: HoodieWriteConfig, table_name: str, declared: pa.Schema | None = None
) -> None:
    """Refuse columns that a new table cannot hold, before the table is created.

    Args:
        columns: The data's columns.
        config: The write's configuration.
        table_name: The new table's name.
        declared: The columns of ``hoodie.avro.schema``.

    Raises:
        HoodieSchemaException: A column has a type that cannot be stored, or an invalid name; or an ordering field has a
            type without an order.
    """
    key_fields = {*(config.table.record_key_fields or ()), *(config.table.partition_fields or ())}
    merged = merge_schemas(declared, columns, True, key_fields=key_fields, widens_lossy=config.write.schema_widen_lossy)
    stored = merged.columns
    check_ordering_types(stored, () if config.table.keyless else config.table.ordering_fields or ())
    to_avro(stored, record_name(table_name), record_namespace(table_name))


def check_fields_of_new_table(columns: Sequence[str], config: HoodieWriteConfig) -> None:
    """Refuse key, partition and ordering fields that are not columns of the data, before the table is created.

    Args:
        columns: Names of the data's columns.
        config: The write's configuration.

    Raises:
        HoodieKeyException: A key, partition or ordering field is not a column.
    """
    table = config.table
    for role, fields in (
        ("record key", table.record_key_fields),
        ("partition", table.partition_fields),
        ("ordering", () if table.keyless else table.ordering_fields),
    ):
        for field in (name.partition(":")[0] for name in fields or ()):
            if field not in columns and field.partition(".")[0] not in columns:
                raise HoodieKeyException(
                    f"nothing was changed at {config.base_path}: the {role} field '{field}' is not a column of the "
                    f"data{spelled_otherwise(columns, [field])}; its columns are: {', '.join(columns) or 'none'}"
                )
