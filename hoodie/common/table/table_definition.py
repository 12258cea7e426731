"""The definition of a new table: checked as a whole, and turned into its properties.

Hudi: org.apache.hudi.common.table.HoodieTableMetaClient.PropertyBuilder.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import record_name, record_namespace, remove_meta_columns, to_arrow, to_avro
from hoodie.common.config.property import all_keys
from hoodie.common.model.field_path import type_at
from hoodie.common.model.key_generator_type import (
    GENERATED_KEYS,
    KEY_GENERATOR_PACKAGE,
    KEY_GENERATORS,
    USER_PROVIDED,
    type_of_class,
)
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.model.supplemental_logging_mode import (
    CDC_ENABLED,
    LOGGING_MODE,
    cdc_properties,
    logging_mode_of,
)
from hoodie.common.model.table_version import TABLE_VERSIONS
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.util.parquet_levels import check_levels
from hoodie.common.util.shown_value import shown_value
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.merge.merge_modes import REPLACED_PAYLOADS, is_by_mode, properties_of_new_table
from hoodie.merge.merge_properties import (
    DELETE_FIELD_KEYS,
    DELETE_MARKER_KEYS,
    MERGER_KEYS,
    MODE_KEYS,
    PAYLOAD_KEYS,
    PAYLOAD_STRATEGY_OF_6,
    STRATEGY_KEYS,
    MergeProperties,
    mode_of_payload,
)
from hoodie.merge.ordering_values import check_ordering_types
from hoodie.merge.payload_rules import (
    MERGER_PREFIX,
    PAYLOADS,
    MergeMode,
    canonical_payload_class,
    instead_of_payload,
    merger_payload_class,
)
from hoodie.merge.record_merger import HoodieRecordMerger, is_merger_class, merger_class_name

logger = logging.getLogger(__name__)

DEFAULT_TABLE_VERSION = 9
"""The version of a new table whose creator names none."""

_PAYLOAD_KEY = "hoodie.compaction.payload.class"
_REFUSED_KEY_GENERATORS = {"GLOBAL_DELETE": "GlobalDeleteKeyGenerator"}
_ARCHIVE_FOLDER_KEY = "hoodie.archivelog.folder"
_ARCHIVE_FOLDERS = {6: ("archived",), 8: ("history", "archived"), 9: ("history", "archived")}
"""The values of ``hoodie.archivelog.folder`` that a new table may have; the first one is stored if none is given."""
_TIMELINE_FOLDER = "timeline"
_HISTORY_FOLDER = "history"
_EXTRACTOR_PACKAGE = "org.apache.hudi.hive."
_PARTITION_TYPES = ("SIMPLE", "TIMESTAMP")
_AGREED_KEYS_VERSION = 9
"""From this version on all releases of Hudi write the same keys for ComplexKeyGenerator with one field."""
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
        _ARCHIVE_FOLDER_KEY,
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.datasource.write.drop.partition.columns",
        DELETE_FIELD_KEYS[0],
        DELETE_MARKER_KEYS[0],
        "hoodie.partition.metafile.use.base.format",
        "hoodie.populate.meta.fields",
        "hoodie.table.base.file.format",
        CDC_ENABLED,
        LOGGING_MODE,
        "hoodie.table.log.file.format",
        "hoodie.table.timeline.timezone",
    }
)
_MERGE_KEYS = frozenset({*PAYLOAD_KEYS, *MODE_KEYS, *STRATEGY_KEYS, *MERGER_KEYS})
"""Properties about merging; a table stores the values that follow from them."""
_DELETE_KEYS = frozenset({DELETE_FIELD_KEYS[0], DELETE_MARKER_KEYS[0]})
_TIMESTAMP_KEYS = frozenset(all_keys([HoodieTimestampKeyGeneratorConfig]))
_TYPED_PARTITIONS = "hoodie.datasource.write.partitionpath.field"
_META_FIELDS = "hoodie.populate.meta.fields"

KEYLESS_TABLES = (
    f"where no column identifies a row, record_key_fields='{GENERATED_KEYS}', or hoodie.write.keyless=true, makes a "
    "table whose keys are generated (docs/keyless-tables.md)"
)
"""The way out for rows without a record key, as a part of a message."""


@attrs.frozen(kw_only=True)
class TableDefinition:
    """The arguments of `HoodieTableMetaClient.init_table`; see there."""

    table_name: str
    table_type: str = HoodieTableType.COPY_ON_WRITE
    record_key_fields: str | Iterable[str] = ()
    partition_fields: str | Iterable[str] = ()
    ordering_fields: str | Iterable[str] = ()
    key_generator: str | type | None = None
    payload_class: str | type[HoodieRecordMerger] | None = None
    hive_style_partitioning: bool = False
    schema: pa.Schema | str | None = None
    table_version: int | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)

    def to_properties(self) -> dict[str, str]:
        """The content of ``hoodie.properties``, without the checksum.

        Raises:
            HoodieConfigException: Arguments are wrong or contradict each other; the message names all of them.
            HoodieNotSupportedException: The arguments are valid, but hoodie cannot write such a table.
        """
        return _PropertiesBuilder(self).build()


class _PropertiesBuilder:
    """Builds the properties of one definition; collects all problems instead of stopping at the first."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._problems: list[str] = []
        self._not_supported: list[str] = []
        self._partition_types: tuple[str, ...] = ()
        version = definition.table_version
        self._version = DEFAULT_TABLE_VERSION if version is None or version not in TABLE_VERSIONS else version

    def build(self) -> dict[str, str]:
        definition = self._definition
        self._check_table_name()
        self._check_table_type()
        self._check_table_version()
        if not isinstance(definition.hive_style_partitioning, bool):
            self._problems.append(
                f"hive_style_partitioning is {shown_value(definition.hive_style_partitioning)}: give True or False"
            )
        is_keyless = definition.record_key_fields == GENERATED_KEYS
        record_keys = () if is_keyless else self._field_names("record_key_fields", definition.record_key_fields)
        partitions = self._partition_names(self._field_names("partition_fields", definition.partition_fields))
        orderings = self._field_names("ordering_fields", definition.ordering_fields)
        if not record_keys and not is_keyless:
            self._problems.append(
                "record_key_fields is empty: name the column or columns that identify a record; " + KEYLESS_TABLES
            )
        if is_keyless and orderings:
            logger.warning(
                "ordering_fields = %s: the table %s generates its keys, so no two records have one key, and has no "
                "ordering fields",
                ",".join(orderings),
                definition.table_name,
            )
            orderings = ()
        if len(orderings) > 1 and not is_by_mode(self._version):
            self._problems.append(
                f"ordering_fields has {len(orderings)} fields ({', '.join(orderings)}), table version 6 stores one: "
                "put the values that order records into one column, or use table_version=9"
            )
        key_generator = self._key_generator(record_keys, partitions)
        self._check_timestamps(key_generator)
        self._check_virtual_keys(key_generator)
        if is_keyless:
            self._check_keyless(key_generator)
        merging, payload = self._merging(orderings)
        orderings = self._orderings_of(payload) or orderings
        extra = self._extra_properties()
        schema = self._avro_schema((*record_keys, *partitions, *orderings), orderings)
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
            "hoodie.table.type": str(definition.table_type),
            "hoodie.table.version": str(self._version),
            "hoodie.timeline.layout.version": "2" if is_by_mode(self._version) else "1",
            "hoodie.table.timeline.timezone": "UTC",
            _ARCHIVE_FOLDER_KEY: _ARCHIVE_FOLDERS[self._version][0],
            **({"hoodie.table.recordkey.fields": ",".join(record_keys)} if record_keys else {}),
            "hoodie.datasource.write.hive_style_partitioning": str(definition.hive_style_partitioning).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": "false",
            "hoodie.datasource.write.drop.partition.columns": "false",
        }
        if is_by_mode(self._version):
            result |= self._properties_of_later(partitions, orderings, key_generator)
            merged = properties_of_new_table(merging, payload, self._version)
        else:
            result |= self._properties_of_6(partitions, orderings, key_generator)
            merged = {_PAYLOAD_KEY: payload}
            if str(definition.table_type) == HoodieTableType.MERGE_ON_READ:
                merged["hoodie.compaction.record.merger.strategy"] = PAYLOAD_STRATEGY_OF_6
        if schema is not None:
            result["hoodie.table.create.schema"] = schema
        return {**result, **extra, **self._timestamp_properties(key_generator), **merged}

    def _properties_of_6(
        self, partitions: tuple[str, ...], orderings: tuple[str, ...], key_generator: str
    ) -> dict[str, str]:
        """Fields and key generator, as version 6 stores them."""
        result = {
            "hoodie.table.keygenerator.class": (
                key_generator if "." in key_generator else f"{KEY_GENERATOR_PACKAGE}{key_generator}"
            )
        }
        if partitions:
            result["hoodie.table.partition.fields"] = ",".join(partitions)
        if partitions and key_generator == KEY_GENERATORS["CUSTOM"]:
            # Version 6 has no other property for the types. Hudi's writers read them from here if they are not given.
            result[_TYPED_PARTITIONS] = self._typed(partitions)
        if orderings:
            result["hoodie.table.precombine.field"] = orderings[0]
        return result

    def _properties_of_later(
        self, partitions: tuple[str, ...], orderings: tuple[str, ...], key_generator: str
    ) -> dict[str, str]:
        """Fields, key generator and the other properties of versions 8 and 9, as Hudi 1.2 stores them."""
        result = {
            "hoodie.table.initial.version": str(self._version),
            "hoodie.timeline.path": _TIMELINE_FOLDER,
            "hoodie.timeline.history.path": _HISTORY_FOLDER,
            "hoodie.table.format": "native",
            "hoodie.table.base.file.format": "PARQUET",
            CDC_ENABLED: "false",
            "hoodie.table.multiple.base.file.formats.enable": "false",
            "hoodie.partition.metafile.use.base.format": "false",
            "hoodie.populate.meta.fields": "true",
            "hoodie.table.keygenerator.type": type_of_class(key_generator),
            "hoodie.table.partition_extractor_class": _EXTRACTOR_PACKAGE + self._extractor(partitions),
        }
        if result["hoodie.table.keygenerator.type"] == USER_PROVIDED:
            result["hoodie.table.keygenerator.class"] = key_generator
        typed = partitions and key_generator == KEY_GENERATORS["CUSTOM"]
        result["hoodie.table.partition.fields"] = self._typed(partitions) if typed else ",".join(partitions)
        if orderings:
            result["hoodie.table.ordering.fields"] = ",".join(orderings)
            if self._version == 8:
                # Hudi 1.0 knows this name only.
                result["hoodie.table.precombine.field"] = ",".join(orderings)
        return result

    def _typed(self, partitions: tuple[str, ...]) -> str:
        """The partition fields with their types: ``region:SIMPLE,ts:TIMESTAMP``."""
        types = self._partition_types or ("SIMPLE",) * len(partitions)
        return ",".join(f"{name}:{kind}" for name, kind in zip(partitions, types, strict=True))

    def _extractor(self, partitions: tuple[str, ...]) -> str:
        """Hudi's class that finds partition values in folder names, for Hive."""
        if len(partitions) > 1:
            return "MultiPartKeysValueExtractor"
        if not partitions:
            return "NonPartitionedExtractor"
        hive_style = self._definition.hive_style_partitioning
        return "HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor"

    def _orderings_of(self, payload: str) -> tuple[str, ...]:
        """The ordering fields that a payload class brings along in version 9, as Debezium's do."""
        replaced = REPLACED_PAYLOADS.get(payload) if self._version >= 9 else None
        return replaced.ordering_fields if replaced is not None else ()

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

    def _check_table_version(self) -> None:
        version = self._definition.table_version
        if version is not None and (isinstance(version, bool) or version not in TABLE_VERSIONS):
            self._not_supported.append(
                f"table_version {version!r} is not supported: use 6, which Hudi 0.14 and later read and write, 8 "
                "(Hudi 1.0 and later) or 9 (Hudi 1.1 and later)"
            )

    def _field_names(self, argument: str, value: str | Iterable[str]) -> tuple[str, ...]:
        if not isinstance(value, str | Iterable):
            # None means no fields, as an empty list does.
            value = () if value is None else [value]
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
                self._problems.append(f"{argument} has {name!r}, a column that Hudi adds: name a column of your own")
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._problems.append(f"{argument} names {name!r} twice")
        return tuple(str(name) for name in names)

    def _partition_names(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        """The fields without the types of CustomKeyGenerator (``region:SIMPLE``), which are kept separately."""
        parts = [field.partition(":") for field in fields]
        if any(separator for _, separator, _ in parts):
            self._partition_types = tuple(kind.strip().upper() for _, _, kind in parts)
            for field, kind in zip(fields, self._partition_types, strict=True):
                if kind not in _PARTITION_TYPES:
                    self._problems.append(
                        f"partition_fields has {field!r}: give each field the type SIMPLE or TIMESTAMP "
                        f"({field.partition(':')[0]}:SIMPLE), or none of them one"
                    )
        return tuple(name.strip() for name, _, _ in parts)

    def _key_generator(self, record_keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
        inferred = self._inferred_key_generator(record_keys, partitions)
        chosen = inferred
        if self._definition.key_generator is not None:
            chosen = self._named_key_generator(self._definition.key_generator) or inferred
        way_out = f"leave key_generator out to get {inferred}"
        counts = f"{len(record_keys)} and {len(partitions)}"
        one_of_each = (KEY_GENERATORS["SIMPLE"], KEY_GENERATORS["TIMESTAMP"])
        if chosen in one_of_each and (len(record_keys) > 1 or len(partitions) != 1):
            if chosen == KEY_GENERATORS["TIMESTAMP"]:
                way_out = "use CustomKeyGenerator, with partition_fields such as region:SIMPLE,ts:TIMESTAMP"
            self._problems.append(
                f"key_generator {chosen} takes one record key field and one partition field, not {counts}: {way_out}"
            )
        elif chosen == KEY_GENERATORS["NON_PARTITION"] and partitions:
            self._problems.append(
                f"key_generator {chosen} takes no partition fields, and partition_fields is {', '.join(partitions)}: "
                + way_out
            )
        elif chosen == KEY_GENERATORS["COMPLEX"] and not partitions:
            self._problems.append(
                f"key_generator {chosen} takes partition fields, and partition_fields is empty: {way_out}"
            )
        elif chosen == KEY_GENERATORS["COMPLEX"] and len(record_keys) == 1 and self._version < _AGREED_KEYS_VERSION:
            self._not_supported.append(
                f"ComplexKeyGenerator with the one record key field {record_keys[0]!r} is not supported, because "
                f"releases of Hudi write its keys in two ways and would not find each other's: {way_out}, or use "
                f"table_version={_AGREED_KEYS_VERSION}"
            )
        if self._partition_types and chosen != KEY_GENERATORS["CUSTOM"]:
            self._problems.append(
                f"partition_fields have types (SIMPLE or TIMESTAMP), which key_generator {chosen} does not take: leave "
                "the types out, or use CustomKeyGenerator"
            )
        return chosen

    def _inferred_key_generator(self, record_keys: tuple[str, ...], partitions: tuple[str, ...]) -> str:
        """Infer the class as Hudi does, except for one record key with several partition fields: see docs/decisions."""
        if self._partition_types:
            return KEY_GENERATORS["CUSTOM"]
        if not partitions:
            return KEY_GENERATORS["NON_PARTITION"]
        if len(record_keys) <= 1 and len(partitions) == 1:
            return KEY_GENERATORS["SIMPLE"]
        if len(record_keys) == 1:
            return KEY_GENERATORS["CUSTOM"]
        return KEY_GENERATORS["COMPLEX"]

    def _named_key_generator(self, given: str | type) -> str | None:
        """The class without its package, from a class name (with or without package and Avro) or the name of a type.

        A user's class keeps its module.
        """
        name = f"{given.__module__}.{given.__qualname__}" if isinstance(given, type) else str(given)
        if isinstance(given, type) and "." in given.__qualname__:
            self._problems.append(
                f"key_generator {given.__qualname__} is defined inside a function or class, where tasks cannot find "
                "it: move it to the top of a module"
            )
            return None
        simple_name = name.removeprefix(KEY_GENERATOR_PACKAGE).replace("AvroKeyGenerator", "KeyGenerator")
        for type_name, class_name in KEY_GENERATORS.items():
            if simple_name in (type_name, class_name):
                return class_name
        for type_name, class_name in _REFUSED_KEY_GENERATORS.items():
            if simple_name in (type_name, class_name):
                self._not_supported.append(
                    f"key_generator {name} is not supported, because Hudi writes its keys in several ways: "
                    f"use one of {', '.join(KEY_GENERATORS.values())}; delete finds keys in any of them"
                )
                return None
        if "." in name and not name.startswith("org.apache.hudi."):
            return name
        nearest = difflib.get_close_matches(simple_name, [*KEY_GENERATORS.values(), *KEY_GENERATORS], n=1)
        hint = f", did you mean {nearest[0]}?" if nearest else f": one of {', '.join(KEY_GENERATORS.values())}"
        self._problems.append(f"key_generator {name!r} is unknown{hint}")
        return None

    def _check_virtual_keys(self, key_generator: str) -> None:
        able = [KEY_GENERATORS[kind] for kind in ("SIMPLE", "COMPLEX", "NON_PARTITION")]
        populate = self._definition.properties.get(_META_FIELDS)
        if str(populate).strip().lower() == "false" and key_generator not in able:
            self._problems.append(
                f"{_META_FIELDS} is false, which Hudi takes with {', '.join(able)} only, and the key generator is "
                f"{key_generator}: leave it out, or give another record key or partition fields"
            )

    def _check_keyless(self, key_generator: str) -> None:
        """Refuse what a table without record key fields cannot have."""
        if key_generator not in KEY_GENERATORS.values():
            self._problems.append(
                f"record_key_fields is '{GENERATED_KEYS}', and key_generator {key_generator} makes keys: leave it out"
            )
        if str(self._definition.properties.get(_META_FIELDS)).strip().lower() == "false":
            self._problems.append(
                f"{_META_FIELDS} is false, and generated keys are stored in these columns only: leave it out"
            )

    def _timestamp_properties(self, key_generator: str) -> dict[str, str]:
        """The properties of timestamp key generators as the table stores them, with the default zones and unit."""
        stored = HoodieTimestampKeyGeneratorConfig.stored_properties(self._definition.properties)
        if not self._makes_times(key_generator):
            return stored
        config, one_timezone = HoodieTimestampKeyGeneratorConfig.of_table(self._definition.table_name, stored, {})
        return stored | config.default_properties(one_timezone)

    def _makes_times(self, key_generator: str) -> bool:
        return key_generator == KEY_GENERATORS["TIMESTAMP"] or "TIMESTAMP" in self._partition_types

    def _check_timestamps(self, key_generator: str) -> None:
        properties = {key: value for key, value in self._definition.properties.items() if isinstance(value, str)}
        given = HoodieTimestampKeyGeneratorConfig.stored_properties(properties)
        try:
            config, _ = HoodieTimestampKeyGeneratorConfig.of_table(self._definition.table_name, given, {})
        except HoodieConfigException as error:
            self._problems.append(str(error))
            return
        if self._makes_times(key_generator):
            self._problems.extend([*config.problems(), *config.zone_problems()])
        elif given and key_generator in KEY_GENERATORS.values():
            way_out = (
                "name in partition_fields which field is a time (ts:TIMESTAMP)"
                if key_generator == KEY_GENERATORS["CUSTOM"]
                else "leave them out, or use TimestampBasedKeyGenerator or CustomKeyGenerator"
            )
            self._problems.append(
                f"{', '.join(sorted(given))} apply to times, and {key_generator} reads none: {way_out}"
            )

    def _merging(self, orderings: tuple[str, ...]) -> tuple[MergeProperties, str]:
        """The properties about merging, and the payload class that they name or mean."""
        given = {key: value for key, value in self._definition.properties.items() if isinstance(value, str)}
        merging = MergeProperties.of(given)
        argument = self._definition.payload_class
        if argument is not None:
            merging = self._with_argument(merging, argument)
        payload = merging.resolve_payload(bool(orderings))
        is_merger = payload.startswith(MERGER_PREFIX)
        orderings = self._orderings_of(payload) or orderings
        if payload not in PAYLOADS and not is_merger:
            self._not_supported.append(f"{_PAYLOAD_KEY} {payload} is not supported: {instead_of_payload(payload)}")
        elif payload in PAYLOADS and PAYLOADS[payload].needs_ordering_field and not orderings:
            what, way_out = f"{_PAYLOAD_KEY} {payload}", "leave the payload out"
            if merging.payload_class is None and merging.mode is not None:
                what, way_out = f"merge mode {merging.mode}", f"use {MergeMode.COMMIT_TIME_ORDERING}"
            self._problems.append(
                f"{what} compares ordering values, and ordering_fields is empty: name the ordering field, or {way_out}"
            )
        if merging.mode == MergeMode.CUSTOM and merging.payload_class is None and not is_merger:
            self._problems.append(
                f"merge mode CUSTOM does not say how records merge: give {_PAYLOAD_KEY} or {MERGER_KEYS[0]}"
            )
        else:
            self._problems += merging.problems(payload, self._mode_of(payload))
        return merging, payload

    def _mode_of(self, payload: str) -> MergeMode | None:
        """The merge mode of a payload class; None in version 6, which merges by the payload class."""
        if not is_by_mode(self._version):
            return None
        replaced = REPLACED_PAYLOADS.get(payload) if self._version >= 9 else None
        return replaced.mode if replaced is not None else mode_of_payload(payload)

    def _with_argument(self, merging: MergeProperties, argument: str | type[HoodieRecordMerger]) -> MergeProperties:
        """Combine the properties with the argument ``payload_class``."""
        if isinstance(argument, str):
            payload = canonical_payload_class(argument)
        elif is_merger_class(argument):
            payload = merger_payload_class(merger_class_name(argument))
        else:
            self._problems.append(
                f"payload_class {argument!r} is not a record merger: give the name of a payload class, or a subclass "
                "of hoodie.HoodieRecordMerger that is defined at the top of its module"
            )
            return merging
        if merging.payload_class not in (None, payload):
            self._problems.append(
                f"payload_class {payload} and {_PAYLOAD_KEY} {merging.payload_class} differ: give one of them"
            )
        return attrs.evolve(merging, payload_class=payload)

    def _extra_properties(self) -> dict[str, str]:
        extra: dict[str, str] = {}
        change_data: dict[str, str] = {}
        stored_elsewhere = _MERGE_KEYS | (_DELETE_KEYS if is_by_mode(self._version) else frozenset())
        for key, value in self._definition.properties.items():
            if not isinstance(key, str):
                self._problems.append(f"{key!r}: a property's name must be text")
                continue
            argument = _PROPERTY_KEYS_OF_ARGUMENTS.get(key)
            if argument is not None:
                self._problems.append(f"the argument {argument} sets property {key}: give only the argument")
            elif key in _TIMESTAMP_KEYS:
                continue
            elif key not in _EXTRA_KEYS and key not in _MERGE_KEYS:
                nearest = difflib.get_close_matches(
                    key, [*_EXTRA_KEYS, *_MERGE_KEYS, *_PROPERTY_KEYS_OF_ARGUMENTS], n=1
                )
                hint = f", did you mean {nearest[0]}?" if nearest else ""
                self._problems.append(f"property {key} is not a property of a table of version {self._version}{hint}")
            elif not isinstance(value, str):
                self._problems.append(f"property {key} has the value {value!r}: give a string")
            elif key == _ARCHIVE_FOLDER_KEY and value not in _ARCHIVE_FOLDERS[self._version]:
                self._problems.append(
                    f"property {key} is {value!r}: a new table keeps its archived timeline in "
                    f"{_ARCHIVE_FOLDERS[self._version][0]!r}; leave it out"
                )
            elif key in (CDC_ENABLED, LOGGING_MODE):
                change_data[key] = value
            elif key not in stored_elsewhere:
                extra[key] = value
        return extra | self._change_data(change_data)

    def _change_data(self, given: Mapping[str, str]) -> dict[str, str]:
        """The properties about change data as Hudi stores them, whatever their case; of a mode alone, nothing."""
        enabled = given.get(CDC_ENABLED)
        if enabled is None:
            return {}
        if enabled.strip().lower() not in ("true", "false"):
            self._problems.append(f"property {CDC_ENABLED} is {enabled!r}: give true or false")
            return {}
        try:
            mode = logging_mode_of(given)
        except HoodieConfigException as error:
            self._problems.append(f"property {error}")
            return {}
        return cdc_properties(mode is not None, mode)

    def _avro_schema(self, named_fields: tuple[str, ...], orderings: tuple[str, ...]) -> str | None:
        schema = self._definition.schema
        if schema is None:
            return None
        if not isinstance(schema, pa.Schema | str):
            self._problems.append(
                f"schema is {shown_value(schema)}: give a pyarrow Schema (table.schema), or Avro JSON as text"
            )
            return None
        try:
            if isinstance(schema, pa.Schema):
                name = str(self._definition.table_name)
                arrow_schema, avro_schema = schema, to_avro(schema, record_name(name), record_namespace(name))
            else:
                arrow_schema, avro_schema = to_arrow(schema), remove_meta_columns(schema)
                check_levels(arrow_schema)
            check_ordering_types(to_arrow(avro_schema), orderings)
        except HoodieSchemaException as error:
            self._problems.append(f"schema cannot be used: {error}")
            return None
        for field_path in dict.fromkeys(named_fields):
            if type_at(arrow_schema, field_path) is None:
                self._problems.append(
                    f"field {field_path!r} is not in the schema, which has {', '.join(arrow_schema.names)}"
                )
        return avro_schema
