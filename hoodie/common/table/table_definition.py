"""What a new table shall be, checked as a whole and turned into the properties that say so.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient.PropertyBuilder.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import record_name, record_namespace, remove_meta_columns, to_arrow, to_avro
from hoodie.common.model.merge_properties import (
    DELETE_FIELD_KEYS,
    DELETE_MARKER_KEYS,
    MERGER_KEYS,
    MODE_KEYS,
    PAYLOAD_KEYS,
    STRATEGY_KEYS,
    MergeProperties,
)
from hoodie.common.model.payload_rules import (
    DEFAULT_PAYLOAD,
    MERGER_PREFIX,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    PAYLOADS,
    MergeMode,
)
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, HoodieSchemaException

__all__ = ["ORDERING_PAYLOAD", "OVERWRITE_PAYLOAD", "TableDefinition"]

_KEY_GENERATOR_PACKAGE = "org.apache.hudi.keygen."
ORDERING_PAYLOAD = DEFAULT_PAYLOAD
"""Payload class of tables with an ordering field: the row with the larger ordering value stays."""
OVERWRITE_PAYLOAD = OVERWRITE_WITH_LATEST_PAYLOAD
"""Payload class of tables without one: the row that is written later stays."""

_PAYLOAD_KEY = "hoodie.compaction.payload.class"
_SUPPORTED_TABLE_VERSION = 6
_KEY_GENERATORS = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
}
_LATER_KEY_GENERATORS = {
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
    "GLOBAL_DELETE": "GlobalDeleteKeyGenerator",
}
_TABLE_NAME = re.compile(r"\w(?:[\w.\- ]*[\w.\-])?")
_PROPERTY_KEYS_OF_ARGUMENTS = {
    "hoodie.table.name": "table_name",
    "hoodie.table.type": "table_type",
    "hoodie.table.version": "table_version",
    "hoodie.table.recordkey.fields": "record_key_fields",
    "hoodie.table.partition.fields": "partition_fields",
    "hoodie.table.precombine.field": "ordering_fields",
    "hoodie.table.ordering.fields": "ordering_fields",
    "hoodie.table.keygenerator.class": "key_generator",
    "hoodie.table.keygenerator.type": "key_generator",
    "hoodie.datasource.write.hive_style_partitioning": "hive_style_partitioning",
    "hoodie.table.create.schema": "schema",
}
_EXTRA_KEYS = frozenset(
    {
        "hoodie.database.name",
        "hoodie.archivelog.folder",
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.datasource.write.drop.partition.columns",
        DELETE_FIELD_KEYS[0],
        DELETE_MARKER_KEYS[0],
        "hoodie.partition.metafile.use.base.format",
        "hoodie.populate.meta.fields",
        "hoodie.table.base.file.format",
        "hoodie.table.cdc.enabled",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.table.log.file.format",
        "hoodie.table.timeline.timezone",
    }
)
_MERGE_KEYS = frozenset({*PAYLOAD_KEYS, *MODE_KEYS, *STRATEGY_KEYS, *MERGER_KEYS})
"""Properties that say how records merge: a table stores the payload class that they mean."""


@attrs.frozen(kw_only=True)
class TableDefinition:
    """The arguments of `HoodieTableMetaClient.init_table`, see there."""

    table_name: str
    table_type: str = HoodieTableType.COPY_ON_WRITE
    record_key_fields: str | Iterable[str] = ()
    partition_fields: str | Iterable[str] = ()
    ordering_fields: str | Iterable[str] = ()
    key_generator: str | None = None
    hive_style_partitioning: bool = False
    schema: pa.Schema | str | None = None
    table_version: int = _SUPPORTED_TABLE_VERSION
    properties: Mapping[str, str] = attrs.field(factory=dict)

    def to_properties(self) -> dict[str, str]:
        """The content of ``hoodie.properties``, without the checksum.

        Raises:
            HoodieConfigException: Arguments are wrong or contradict each other; the message has all of them.
            HoodieNotSupportedException: They are right, but hoodie cannot write such a table.
        """
        return _PropertiesBuilder(self).build()


class _PropertiesBuilder:
    """One definition on its way to properties; gathers what is wrong instead of stopping at the first."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._problems: list[str] = []
        self._not_supported: list[str] = []

    def build(self) -> dict[str, str]:
        definition = self._definition
        self._check_table_name()
        self._check_table_type()
        self._check_table_version()
        record_keys = self._field_names("record_key_fields", definition.record_key_fields)
        partitions = self._field_names("partition_fields", definition.partition_fields)
        orderings = self._field_names("ordering_fields", definition.ordering_fields)
        if not record_keys:
            self._problems.append("record_key_fields is empty: name the column or columns that identify a record")
        if len(orderings) > 1 and definition.table_version == _SUPPORTED_TABLE_VERSION:
            self._problems.append(
                f"ordering_fields has {len(orderings)} fields ({', '.join(orderings)}), table version 6 stores one: "
                "put what orders records into one column"
            )
        key_generator = self._key_generator(record_keys, partitions)
        payload = self._payload(orderings)
        extra = self._extra_properties()
        schema = self._avro_schema((*record_keys, *partitions, *orderings))
        if self._problems:
            raise HoodieConfigException(
                f"Cannot create the table {definition.table_name!r}: " + "; ".join(self._problems)
            )
        if self._not_supported:
            raise HoodieNotSupportedException(
                f"Cannot create the table {definition.table_name!r}: " + "; ".join(self._not_supported)
            )
        result = {
            "hoodie.table.name": definition.table_name,
            "hoodie.table.type": str(HoodieTableType.COPY_ON_WRITE.value),
            "hoodie.table.version": str(definition.table_version),
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.recordkey.fields": ",".join(record_keys),
            "hoodie.table.keygenerator.class": f"{_KEY_GENERATOR_PACKAGE}{key_generator}",
            "hoodie.datasource.write.hive_style_partitioning": _boolean(definition.hive_style_partitioning),
            "hoodie.datasource.write.partitionpath.urlencode": "false",
            "hoodie.datasource.write.drop.partition.columns": "false",
        }
        if partitions:
            result["hoodie.table.partition.fields"] = ",".join(partitions)
        if orderings:
            result["hoodie.table.precombine.field"] = orderings[0]
        if schema is not None:
            result["hoodie.table.create.schema"] = schema
        return {**result, **extra, _PAYLOAD_KEY: payload}

    def _check_table_name(self) -> None:
        name = self._definition.table_name
        if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
            self._problems.append(
                f"table_name {name!r} must be letters, digits, '_', '-', '.' and inner spaces, and begin with "
                "a letter, a digit or '_'"
            )

    def _check_table_type(self) -> None:
        table_type = self._definition.table_type
        known = [member.value for member in HoodieTableType]
        if str(table_type) not in known:
            self._problems.append(f"table_type {str(table_type)!r} is unknown: {' or '.join(known)}")
        elif str(table_type) != HoodieTableType.COPY_ON_WRITE:
            self._not_supported.append("table_type MERGE_ON_READ is not supported yet: use COPY_ON_WRITE")

    def _check_table_version(self) -> None:
        version = self._definition.table_version
        if version != _SUPPORTED_TABLE_VERSION:
            self._not_supported.append(
                f"table_version {version!r} is not supported: use 6, which Hudi 0.14 and later read and write"
            )

    def _field_names(self, argument: str, value: str | Iterable[str]) -> tuple[str, ...]:
        names = [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)
        if names == [""]:
            return ()
        for name in names:
            if not isinstance(name, str) or not name or name != name.strip() or "," in name or not name.isprintable():
                self._problems.append(
                    f"{argument} has the name {name!r}: names must not be empty, and hold no comma, "
                    "control character or outer space"
                )
            elif name in META_COLUMN_SET:
                self._problems.append(f"{argument} has {name!r}, a column that Hudi adds: name one of your own")
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._problems.append(f"{argument} names {name!r} twice")
        return tuple(str(name) for name in names)

    def _key_generator(self, record_keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
        inferred = self._inferred_key_generator(record_keys, partitions)
        chosen = inferred
        if self._definition.key_generator is not None:
            chosen = self._named_key_generator(self._definition.key_generator) or inferred
        if chosen == _KEY_GENERATORS["SIMPLE"] and (len(record_keys) > 1 or len(partitions) != 1):
            self._problems.append(
                f"key_generator {chosen} takes one record key field and one partition field, not "
                f"{len(record_keys)} and {len(partitions)}: leave key_generator out to get {inferred}"
            )
        elif chosen == _KEY_GENERATORS["NON_PARTITION"] and partitions:
            self._problems.append(
                f"key_generator {chosen} takes no partition fields, and partition_fields is {', '.join(partitions)}: "
                f"leave key_generator out to get {inferred}"
            )
        elif chosen == _KEY_GENERATORS["COMPLEX"] and not partitions:
            self._problems.append(
                f"key_generator {chosen} takes partition fields, and partition_fields is empty: leave key_generator "
                f"out to get {inferred}"
            )
        elif chosen == _KEY_GENERATORS["COMPLEX"] and len(record_keys) == 1:
            way_out = (
                "leave key_generator out to get SimpleKeyGenerator"
                if len(partitions) == 1
                else f"add a partition field to the record key (record_key_fields={[record_keys[0], partitions[0]]}); "
                "keys are unique within a partition, so it changes nothing else"
            )
            self._not_supported.append(
                f"ComplexKeyGenerator with the one record key field {record_keys[0]!r} is not supported, because "
                f"releases of Hudi write its keys in two ways and would not find each other's: {way_out}"
            )
        return chosen

    @staticmethod
    def _inferred_key_generator(record_keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
        if not partitions:
            return _KEY_GENERATORS["NON_PARTITION"]
        if len(partitions) == 1 and len(record_keys) <= 1:
            return _KEY_GENERATORS["SIMPLE"]
        return _KEY_GENERATORS["COMPLEX"]

    def _named_key_generator(self, name: str) -> str | None:
        """The class without its package, of a class name (with or without package and Avro) or a type's name."""
        simple_name = str(name).removeprefix(_KEY_GENERATOR_PACKAGE).replace("AvroKeyGenerator", "KeyGenerator")
        for known, is_supported in ((_KEY_GENERATORS, True), (_LATER_KEY_GENERATORS, False)):
            for type_name, class_name in known.items():
                if simple_name in (type_name, class_name):
                    if not is_supported:
                        self._not_supported.append(
                            f"key_generator {name} is not supported: use one of {', '.join(_KEY_GENERATORS.values())}"
                        )
                        return None
                    return class_name
        nearest = difflib.get_close_matches(simple_name, [*_KEY_GENERATORS.values(), *_KEY_GENERATORS], n=1)
        hint = f", did you mean {nearest[0]}?" if nearest else f": one of {', '.join(_KEY_GENERATORS.values())}"
        self._problems.append(f"key_generator {name!r} is unknown{hint}")
        return None

    def _payload(self, orderings: tuple[str, ...]) -> str:
        given = {key: value for key, value in self._definition.properties.items() if isinstance(value, str)}
        merging = MergeProperties.of(given)
        payload = merging.resolve_payload(bool(orderings))
        is_merger = payload.startswith(MERGER_PREFIX)
        if payload not in PAYLOADS and not is_merger:
            self._not_supported.append(f"{_PAYLOAD_KEY} {payload} is not supported: use one of {', '.join(PAYLOADS)}")
        elif payload in PAYLOADS and PAYLOADS[payload].needs_ordering_field and not orderings:
            self._problems.append(
                f"{_PAYLOAD_KEY} {payload} compares ordering values, and ordering_fields is empty: name the ordering "
                "field, or leave the payload out"
            )
        if merging.mode == MergeMode.CUSTOM and merging.payload_class is None and not is_merger:
            self._problems.append(
                f"merge mode CUSTOM does not say how records merge: give {_PAYLOAD_KEY} or {MERGER_KEYS[0]}"
            )
        else:
            self._problems += merging.problems(payload)
        return payload

    def _extra_properties(self) -> dict[str, str]:
        extra = {}
        for key, value in self._definition.properties.items():
            argument = _PROPERTY_KEYS_OF_ARGUMENTS.get(key)
            if argument is not None:
                self._problems.append(f"property {key} is said by the argument {argument}: give that one only")
            elif key not in _EXTRA_KEYS and key not in _MERGE_KEYS:
                nearest = difflib.get_close_matches(
                    key, [*_EXTRA_KEYS, *_MERGE_KEYS, *_PROPERTY_KEYS_OF_ARGUMENTS], n=1
                )
                hint = f", did you mean {nearest[0]}?" if nearest else ""
                self._problems.append(f"property {key} is not a property of a table of version 6{hint}")
            elif not isinstance(value, str):
                self._problems.append(f"property {key} has the value {value!r}: give a string")
            elif key not in _MERGE_KEYS:
                extra[key] = value
        return extra

    def _avro_schema(self, named_fields: tuple[str, ...]) -> str | None:
        schema = self._definition.schema
        if schema is None:
            return None
        try:
            if isinstance(schema, pa.Schema):
                name = str(self._definition.table_name)
                arrow_schema, avro_schema = schema, to_avro(schema, record_name(name), record_namespace(name))
            else:
                arrow_schema, avro_schema = to_arrow(schema), remove_meta_columns(schema)
        except HoodieSchemaException as error:
            self._problems.append(f"schema cannot be used: {error}")
            return None
        for field_path in dict.fromkeys(named_fields):
            if not _has_field(arrow_schema, field_path):
                self._problems.append(
                    f"field {field_path!r} is not in the schema, which has {', '.join(arrow_schema.names)}"
                )
        return avro_schema


def _has_field(schema: pa.Schema, field_path: str) -> bool:
    """Whether a column, or a field inside of structs named by a dotted path, exists."""
    fields: pa.Schema | pa.StructType = schema
    parts = field_path.split(".")
    for depth, part in enumerate(parts):
        index = fields.get_field_index(part)
        if index < 0:
            return False
        field_type = fields.field(index).type
        if depth + 1 < len(parts):
            if not pa.types.is_struct(field_type):
                return False
            fields = field_type
    return True


def _boolean(value: bool) -> str:
    return "true" if value else "false"
