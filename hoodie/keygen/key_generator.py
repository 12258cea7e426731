"""The key generator of a table: makes record keys and partition paths from a row's columns.

Hudi: org.apache.hudi.keygen.KeyGenerator and org.apache.hudi.keygen.factory.HoodieSparkKeyGeneratorFactory.
"""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.common.model.key_generator_type import (
    KEY_GENERATOR_PACKAGE,
    KEY_GENERATORS,
    avro_name,
    infer_key_generator_type,
)
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieNotSupportedException
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.built_in_key_generators import (
    ComplexKeyGenerator,
    CustomKeyGenerator,
    NonpartitionedKeyGenerator,
    PartitionKeyType,
    SimpleKeyGenerator,
    TimestampBasedKeyGenerator,
)
from hoodie.keygen.generated_keys import AutoRecordGenWrapperKeyGenerator
from hoodie.keygen.timestamp_paths import TimestampPaths
from hoodie.keygen.user_key_generator import KeyGeneratorOfUser, load_user_key_generator

USER_KIND = "USER"
"""The kind of a key generator that is a user's class."""
_TYPES = {
    name: kind
    for kind, class_name in KEY_GENERATORS.items()
    for name in (kind, f"{kind}_AVRO", class_name, avro_name(class_name))
}
_PROPERTY = "hoodie.table.keygenerator.class"
_CLASS_KEYS = ("hoodie.datasource.write.keygenerator.class", _PROPERTY)
_PARTITION_KEYS = ("hoodie.datasource.write.partitionpath.field", "hoodie.table.partition.fields")


def create_key_generator(
    table_config: HoodieTableConfig,
    single_field_prefix: bool | None = None,
    write_properties: Mapping[str, str] | None = None,
) -> KeyGenerator:
    """Create the key generator that a table's properties name, or that Hudi infers from its fields.

    For a table without record key fields this is an `AutoRecordGenWrapperKeyGenerator`, whose instant is not set yet.

    Args:
        table_config: The table's properties.
        single_field_prefix: The form of keys if `key_form_depends_on_table` is true: True for ``field:value``, False
            for the value alone. None: ``field:value``, the form of a new table.
        write_properties: The writer's properties, for settings that a table of version 6 does not store: types of the
            partition fields (``region:SIMPLE,ts:TIMESTAMP``), timestamp properties that it was not created with, and a
            user's class.

    Raises:
        HoodieNotSupportedException: hoodie does not have the key generator; or the table has no record key fields, and
            stores no keys or has the key generator of a user.
        HoodieKeyException: The key generator does not fit the number of fields.
        HoodieConfigException: The timestamp properties, the types of partition fields or the user's class are missing
            or wrong.
    """
    key_fields = tuple(table_config.record_key_fields)
    written = dict(write_properties or {})
    kind = key_generator_kind(table_config)
    if not key_fields:
        _refuse_keys_of_nothing(table_config, kind)
    partition_fields = tuple(field.partition(":")[0] for field in table_config.partition_fields)
    if kind == USER_KIND:
        return _user_key_generator(table_config, key_fields, partition_fields, written)
    made = _built_in_key_generator(table_config, kind, partition_fields, single_field_prefix, written)
    return made if key_fields else AutoRecordGenWrapperKeyGenerator.of(made)


def _built_in_key_generator(
    table_config: HoodieTableConfig,
    kind: str,
    partition_fields: tuple[str, ...],
    single_field_prefix: bool | None,
    written: Mapping[str, str],
) -> KeyGenerator:
    key_fields = tuple(table_config.record_key_fields)
    hive_style, url_encode = table_config.hive_style_partitioning, table_config.url_encode_partitioning
    timestamps, one_timezone = HoodieTimestampKeyGeneratorConfig.of_table(
        table_config.table_name, table_config.properties, written
    )
    consistent = bool(timestamps.consistent_logical_timestamp_enabled)
    if kind == "NON_PARTITION":
        return NonpartitionedKeyGenerator(key_fields, consistent_timestamps=consistent)
    if kind == "COMPLEX":
        prefix = True if single_field_prefix is None else single_field_prefix
        return ComplexKeyGenerator(
            key_fields, partition_fields, hive_style, url_encode, prefix, consistent_timestamps=consistent
        )
    if kind == "CUSTOM":
        types = _partition_types(table_config, partition_fields, written)
        times = None
        if PartitionKeyType.TIMESTAMP in types:
            times = TimestampPaths.from_config(timestamps, one_timezone, table_config.table_name)
        return CustomKeyGenerator(
            key_fields,
            partition_fields,
            hive_style,
            url_encode,
            consistent_timestamps=consistent,
            partition_types=types,
            times=times,
        )
    if len(key_fields) > 1 or len(partition_fields) != 1:
        others = "ComplexKeyGenerator, or NonpartitionedKeyGenerator for a table without partitions"
        raise HoodieKeyException(
            f"table '{table_config.table_name}': {KEY_GENERATORS[kind]} ({_PROPERTY}) takes one record key field and "
            f"one partition field, not ({', '.join(key_fields)}) and ({', '.join(partition_fields)}); use "
            f"{KEY_GENERATOR_PACKAGE}{'CustomKeyGenerator' if kind == 'TIMESTAMP' else others}"
        )
    if kind == "TIMESTAMP":
        return TimestampBasedKeyGenerator(
            key_fields,
            partition_fields,
            hive_style,
            url_encode,
            consistent_timestamps=consistent,
            times=TimestampPaths.from_config(timestamps, one_timezone, table_config.table_name),
        )
    return SimpleKeyGenerator(key_fields, partition_fields, hive_style, url_encode, consistent_timestamps=consistent)


def key_form_depends_on_table(table_config: HoodieTableConfig) -> bool:
    """Whether a stored key of the table must be read to know the form of its keys.

    Releases of Hudi write keys of one field in two forms; see `hoodie.keygen.built_in_key_generators.has_field_prefix`.
    """
    return len(table_config.record_key_fields) == 1 and key_generator_kind(table_config) == "COMPLEX"


def key_generator_kind(table_config: HoodieTableConfig) -> str:
    """The name of the key generator type of a table: SIMPLE, COMPLEX and so on, or `USER_KIND` for a user's class.

    Args:
        table_config: The table's properties.

    Raises:
        HoodieNotSupportedException: hoodie does not have the key generator.
    """
    name = table_config.key_generator_class
    if not name:
        return infer_key_generator_type(table_config.record_key_fields, table_config.partition_fields)
    kind = _TYPES.get(name.removeprefix(KEY_GENERATOR_PACKAGE))
    if kind is None and ("." not in name or name.startswith("org.apache.hudi.")):
        known = ", ".join(KEY_GENERATORS.values())
        raise HoodieNotSupportedException(
            f"table '{table_config.table_name}' makes keys by {_PROPERTY} = {name}; hoodie knows {known}, and your own "
            "classes. Write to this table with Hudi"
        )
    return kind or USER_KIND


def time_partition_fields(table_config: HoodieTableConfig) -> tuple[str, ...]:
    """The partition fields whose values a key generator makes a text of times of, as far as the table stores it.

    Args:
        table_config: The table's properties.

    Raises:
        HoodieNotSupportedException: hoodie does not have the key generator.
    """
    kind = key_generator_kind(table_config)
    if kind == "TIMESTAMP":
        return table_config.partition_fields
    if kind != "CUSTOM":
        return ()
    texts = (table_config.properties.get(key, "") for key in _PARTITION_KEYS)
    parts = (part.strip().partition(":") for text in texts for part in text.split(","))
    times = {name.strip() for name, _, kind in parts if kind.strip().upper() == PartitionKeyType.TIMESTAMP}
    return tuple(field for field in table_config.partition_fields if field in times)


def _refuse_keys_of_nothing(table_config: HoodieTableConfig, kind: str) -> None:
    """Refuse to generate keys that nobody could use."""
    subject = f"table '{table_config.table_name}' has no record key fields (hoodie.table.recordkey.fields)"
    if not table_config.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"{subject}, and stores no generated keys (hoodie.populate.meta.fields=false): its rows cannot be told "
            "apart. Copy them into a new table"
        )
    if kind == USER_KIND:
        raise HoodieNotSupportedException(
            f"{subject}, and makes its keys by the class {table_config.key_generator_class}, which hoodie does not "
            "have: write to it with Hudi"
        )


def _partition_types(
    table_config: HoodieTableConfig, fields: tuple[str, ...], written: Mapping[str, str]
) -> tuple[PartitionKeyType, ...]:
    """The type of each partition field of a table with CustomKeyGenerator: from the table, else from the writer.

    In tables of version 6, Hudi stores only the names; hoodie also stores the writer's property with the types.
    """
    sources = [properties[key] for properties in (table_config.properties, written) for key in _PARTITION_KEYS
               if ":" in properties.get(key, "")]  # fmt: skip
    parts = [part.strip().partition(":") for part in sources[0].split(",")] if sources else []
    if not fields:
        return ()
    try:
        if [name.strip() for name, _, _ in parts] == list(fields):
            return tuple(PartitionKeyType(kind.strip().upper()) for _, _, kind in parts)
        problem = f"'{sources[0]}' names other fields" if sources else ""
    except ValueError:
        problem = f"'{sources[0]}' has a type that is neither SIMPLE nor TIMESTAMP"
    example = ",".join(f"{field}:SIMPLE" for field in fields)
    raise HoodieConfigException(
        f"table '{table_config.table_name}' has CustomKeyGenerator, and does not store the types of its partition "
        f"fields: add {_PARTITION_KEYS[0]} = {example} to the writer's properties, with TIMESTAMP instead of SIMPLE "
        f"for each field that is a time{f' ({problem})' if problem else ''}"
    )


def _user_key_generator(
    table_config: HoodieTableConfig,
    key_fields: tuple[str, ...],
    partition_fields: tuple[str, ...],
    written: Mapping[str, str],
) -> KeyGenerator:
    name = table_config.key_generator_class
    named = next((written[key].strip() for key in _CLASS_KEYS if key in written), None)
    if named is None:
        raise HoodieConfigException(
            f"table '{table_config.table_name}' makes keys by a class of its own ({_PROPERTY} = {name}): name it in "
            f"the writer's properties too, {_CLASS_KEYS[0]} = {name}, so that it is not imported only because a table "
            "names it. Tables with a Java key generator are written with Hudi"
        )
    user = load_user_key_generator(named, {**written, **table_config.properties})
    return KeyGeneratorOfUser(key_fields, partition_fields, user=user)
