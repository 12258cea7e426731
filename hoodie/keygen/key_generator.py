"""The key generator of a table: record keys and partition paths out of a row's columns.

Hudi: org.apache.hudi.keygen.KeyGenerator and org.apache.hudi.keygen.factory.HoodieSparkKeyGeneratorFactory.
"""

from __future__ import annotations

from typing import Protocol

from hoodie.exception import HoodieKeyException, HoodieNotSupportedException
from hoodie.keygen.base_key_generator import BadRows, KeyGenerator
from hoodie.keygen.complex_key_generator import ComplexKeyGenerator
from hoodie.keygen.nonpartitioned_key_generator import NonpartitionedKeyGenerator
from hoodie.keygen.simple_key_generator import SimpleKeyGenerator

__all__ = [
    "BadRows",
    "KeyGenerator",
    "KeyTableConfig",
    "create_key_generator",
    "infer_key_generator_type",
    "key_form_depends_on_table",
]

_TYPES = {
    "SIMPLE": "SIMPLE",
    "SIMPLE_AVRO": "SIMPLE",
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE",
    "COMPLEX": "COMPLEX",
    "COMPLEX_AVRO": "COMPLEX",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX",
    "NON_PARTITION": "NON_PARTITION",
    "NON_PARTITION_AVRO": "NON_PARTITION",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION",
}
_PACKAGE = "org.apache.hudi.keygen."
_PROPERTY = "hoodie.table.keygenerator.class"


class KeyTableConfig(Protocol):
    """The table properties that decide how keys are made."""

    @property
    def table_name(self) -> str:
        """Name of the table, for messages."""

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Fields of the record key, in their order."""

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Fields of the partition path, in their order."""

    @property
    def key_generator_class(self) -> str | None:
        """The class with its package, or the name of a type; None when the table stores none."""

    @property
    def hive_style_partitioning(self) -> bool:
        """Whether a level is ``<field>=<value>``."""

    @property
    def url_encode_partitioning(self) -> bool:
        """Whether values are escaped in paths."""


def create_key_generator(table_config: KeyTableConfig, single_field_prefix: bool | None = None) -> KeyGenerator:
    """The key generator that a table's properties name, or the one that Hudi infers from its fields.

    Args:
        table_config: The table's properties.
        single_field_prefix: The form of keys where `key_form_depends_on_table` says so: True for ``field:value``,
            False for the value alone. None: ``field:value``, the form of a new table.

    Raises:
        HoodieNotSupportedException: The table has no record key fields, or a key generator that hoodie does not have.
        HoodieKeyException: The key generator does not fit the number of fields.
    """
    key_fields, partition_fields = tuple(table_config.record_key_fields), tuple(table_config.partition_fields)
    if not key_fields:
        raise HoodieNotSupportedException(
            f"table '{table_config.table_name}' has no record key fields (hoodie.table.recordkey.fields): keys that "
            "Hudi makes up itself are not supported; write to it with Hudi, or create a table with a record key"
        )
    kind = _key_generator_type(table_config)
    if kind == "NON_PARTITION":
        return NonpartitionedKeyGenerator(key_fields)
    hive_style, url_encode = table_config.hive_style_partitioning, table_config.url_encode_partitioning
    if kind == "COMPLEX":
        prefix = True if single_field_prefix is None else single_field_prefix
        return ComplexKeyGenerator(key_fields, partition_fields, hive_style, url_encode, prefix)
    if len(key_fields) > 1 or len(partition_fields) != 1:
        raise HoodieKeyException(
            f"table '{table_config.table_name}': SimpleKeyGenerator ({_PROPERTY}) takes one record key field and one "
            f"partition field, not ({', '.join(key_fields)}) and ({', '.join(partition_fields)}); use "
            f"{_PACKAGE}ComplexKeyGenerator, or NonpartitionedKeyGenerator for a table without partitions"
        )
    return SimpleKeyGenerator(key_fields, partition_fields, hive_style, url_encode)


def infer_key_generator_type(record_key_fields: tuple[str, ...], partition_fields: tuple[str, ...]) -> str:
    """The type that Hudi takes where none is named: NON_PARTITION, SIMPLE (one field each) or COMPLEX.

    Hudi: org.apache.hudi.keygen.KeyGenUtils.inferKeyGeneratorType.
    """
    if not partition_fields:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key_fields) == 1 and len(partition_fields) == 1 else "COMPLEX"


def key_form_depends_on_table(table_config: KeyTableConfig) -> bool:
    """Whether the table's stored keys must be looked at, because releases of Hudi write one key field in two forms.

    See `hoodie.keygen.complex_key_generator.has_field_prefix`.
    """
    return len(table_config.record_key_fields) == 1 and _key_generator_type(table_config) == "COMPLEX"


def _key_generator_type(table_config: KeyTableConfig) -> str:
    name = table_config.key_generator_class
    if not name:
        return infer_key_generator_type(tuple(table_config.record_key_fields), tuple(table_config.partition_fields))
    kind = _TYPES.get(name.removeprefix(_PACKAGE))
    if kind is None:
        raise HoodieNotSupportedException(
            f"table '{table_config.table_name}' makes keys by {_PROPERTY} = {name}; hoodie knows SimpleKeyGenerator, "
            "ComplexKeyGenerator and NonpartitionedKeyGenerator. Write to this table with Hudi"
        )
    return kind
