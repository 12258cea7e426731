"""The properties of tables that hoodie can work with, and those of tables that it must not touch.

Tables of versions 6, 8 and 9 are read and written. Version 6 merges records by a payload class (`_RULES_OF_6`),
versions 8 and 9 by a merge mode (`_RULES_OF_LATER` and `hoodie.merge.merge_modes`).

If hoodie does not implement a property about the layout or merging of the table's data, its writes would break the
table. `problems` names each such property, its value and the advice. Properties that this module does not know are
treated the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import attrs

from hoodie.common.model.key_generator_type import (
    KEY_GENERATOR_PACKAGE,
    KEY_GENERATORS,
    USER_PROVIDED,
    avro_name,
)
from hoodie.common.model.supplemental_logging_mode import (
    CDC_ENABLED,
    LOGGING_MODE,
    HoodieCDCSupplementalLoggingMode,
)
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.merge.merge_modes import (
    LEGACY_PAYLOAD_KEY,
    MERGE_PROPERTY_PREFIX,
    PARTIAL_UPDATE_KEY,
    merging_problems,
)
from hoodie.merge.merge_properties import (
    DELETE_FIELD_KEYS,
    DELETE_MARKER_KEYS,
    PAYLOAD_STRATEGY_OF_6,
    STRATEGIES,
    MergeProperties,
    mode_of_payload,
)
from hoodie.merge.payload_rules import (
    MERGER_PREFIX,
    PAYLOAD_TYPES,
    PAYLOADS,
    MergeMode,
    canonical_payload_class,
)

KEY_GENERATOR_CLASSES = frozenset(
    f"{KEY_GENERATOR_PACKAGE}{name}" for kind in KEY_GENERATORS.values() for name in (kind, avro_name(kind))
)
"""The key generators that hoodie has. A class of another package is a user's class; it is checked when it is loaded."""

HARMLESS_PROPERTIES = frozenset(
    {
        # read and implemented by hoodie
        "hoodie.table.name",
        "hoodie.database.name",
        "hoodie.table.checksum",
        "hoodie.table.create.schema",
        "hoodie.table.recordkey.fields",
        "hoodie.table.partition.fields",
        "hoodie.datasource.write.partitionpath.field",
        "hoodie.archivelog.folder",
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.datasource.write.partitionpath.urlencode",
        *DELETE_FIELD_KEYS,
        *DELETE_MARKER_KEYS,
        # the write client switches the metadata table off, or refuses
        "hoodie.table.metadata.partitions",
        "hoodie.table.metadata.partitions.inflight",
        "hoodie.table.secondary.indexes.metadata",
        "hoodie.table.index.defs.path",
        # an older name of the format of log files, which has one value
        "hoodie.table.rt.file.format",
        # have no effect as long as their main property is refused
        "hoodie.bootstrap.index.enable",
        "hoodie.bootstrap.index.class",
        "hoodie.bootstrap.index.type",
        # places of versions 8 and 9; version 6 has fixed places, and gives them no meaning
        "hoodie.table.initial.version",
        "hoodie.timeline.path",
        "hoodie.timeline.history.path",
        # for Hive synchronisation
        "hoodie.table.partition_extractor_class",
    }
)
"""Properties that may have any value as far as this module is concerned."""

HARMLESS_PREFIXES = (
    # the timestamp key generators read these
    "hoodie.keygen.timebased.",
    "hoodie.deltastreamer.keygen.timebased.",
    "hoodie.keygen.datetime.parser.",
    "hoodie.deltastreamer.keygen.datetime.parser.",
)


@attrs.frozen
class _Rule:
    """The values of one property that hoodie can work with.

    Attributes:
        key: The property.
        accepts: Whether hoodie supports a value, given all properties of the table.
        way_out: Advice, for the message.
        default: The value if the property is absent; None: absence is accepted.
        needed_to_read: Whether an unsupported value prevents reading too.
    """

    key: str
    accepts: Callable[[str, Mapping[str, str]], bool]
    way_out: str
    default: str | None = None
    needed_to_read: bool = False


def _is(*values: str) -> Callable[[str, Mapping[str, str]], bool]:
    wanted = {value.lower() for value in values}
    return lambda value, _: value.strip().lower() in wanted


def _is_known_log_format(value: str, properties: Mapping[str, str]) -> bool:
    has_log_files = properties.get("hoodie.table.type", "").strip().upper() == HoodieTableType.MERGE_ON_READ
    return not has_log_files or value.strip().upper() in ("HOODIE_LOG", "")


def _is_known_key_generator(value: str, _: Mapping[str, str]) -> bool:
    name = value if "." in value else f"{KEY_GENERATOR_PACKAGE}{value}"
    return name in KEY_GENERATOR_CLASSES or not name.startswith("org.apache.hudi.")


def _is_known_key_generator_type(value: str, properties: Mapping[str, str]) -> bool:
    kind = value.strip().upper()
    if kind == USER_PROVIDED:
        return bool(properties.get("hoodie.table.keygenerator.class", "").strip())
    return kind.removesuffix("_AVRO") in KEY_GENERATORS


def _is_known_payload(value: str, _: Mapping[str, str]) -> bool:
    name = canonical_payload_class(value)
    return name in PAYLOADS or name.startswith(MERGER_PREFIX)


def _agrees_with_payload(value: str, properties: Mapping[str, str]) -> bool:
    """Whether a merge mode or strategy is that of the payload class, or of any class if none is stored."""
    meant = STRATEGIES.get(value.strip().lower(), value.strip().upper())
    payload = MergeProperties.of(properties).payload_class
    if payload is None:
        return meant in (MergeMode.COMMIT_TIME_ORDERING, MergeMode.EVENT_TIME_ORDERING)
    return meant == mode_of_payload(payload)


def _is_known_merger_strategy(value: str, properties: Mapping[str, str]) -> bool:
    """Whether a merger's strategy is that of the payload class, or of Hudi 0.15's merger that asks the payload class.

    Hudi 0.15 stores the latter for each merge-on-read table.
    """
    is_merge_on_read = properties.get("hoodie.table.type", "").strip().upper() == HoodieTableType.MERGE_ON_READ
    if is_merge_on_read and value.strip().lower() == PAYLOAD_STRATEGY_OF_6:
        return True
    return _agrees_with_payload(value, properties)


_LOGGING_MODES = ", ".join(HoodieCDCSupplementalLoggingMode)
_WRITE_WITH_HUDI = "write to this table with Hudi, or create another one without it"
_WHAT_THE_PAYLOAD_SAYS = "it must say what hoodie.compaction.payload.class says"
_NEW_TABLE = "copy the rows into a table made by HoodieTableMetaClient.init_table"

_VERSION = "hoodie.table.version"
_PRECOMBINE_FIELD = "hoodie.table.precombine.field"
_ORDERING_FIELDS = "hoodie.table.ordering.fields"
_LAYOUT_OF_VERSION = {"6": "1", "8": "2", "9": "2"}
"""The versions of tables that are read and written, and the layout of their timelines."""


def _is_layout_of_version(value: str, properties: Mapping[str, str]) -> bool:
    return value.strip() == _LAYOUT_OF_VERSION.get(properties.get(_VERSION, "").strip())


_RULES = (
    _Rule(
        _VERSION,
        _is(*_LAYOUT_OF_VERSION),
        "use a table of version 6, 8 or 9; Hudi 1.x makes it so with hoodie.write.table.version",
        default="(absent)",
        needed_to_read=True,
    ),
    _Rule(
        "hoodie.timeline.layout.version",
        _is_layout_of_version,
        "tables of version 6 have layout 1, those of 8 and 9 have layout 2",
        default="(absent)",
        needed_to_read=True,
    ),
    _Rule(
        "hoodie.table.type",
        _is("COPY_ON_WRITE", "MERGE_ON_READ"),
        "use a table of type COPY_ON_WRITE",
        needed_to_read=True,
    ),
    _Rule("hoodie.table.log.file.format", _is_known_log_format, "use log files of the format HOODIE_LOG"),
    _Rule("hoodie.table.base.file.format", _is("PARQUET"), "use PARQUET base files", needed_to_read=True),
    _Rule("hoodie.table.ro.file.format", _is("PARQUET"), "use PARQUET base files", needed_to_read=True),
    _Rule("hoodie.table.multiple.base.file.formats.enable", _is("false", ""), _NEW_TABLE, needed_to_read=True),
    _Rule("hoodie.table.storage.layout", _is("default", ""), _NEW_TABLE, needed_to_read=True),
    _Rule("hoodie.table.format", _is("native", ""), _NEW_TABLE, needed_to_read=True),
    _Rule(
        "hoodie.datasource.write.slash.separated.date.partitioning", _is("false", ""), _NEW_TABLE, needed_to_read=True
    ),
    _Rule("hoodie.bootstrap.base.path", _is(""), f"read it with Hudi and {_NEW_TABLE}", needed_to_read=True),
    _Rule(
        "hoodie.datasource.write.drop.partition.columns",
        _is("false", ""),
        f"partition columns must be in the files: {_NEW_TABLE}",
        needed_to_read=True,
    ),
    _Rule("hoodie.table.timeline.timezone", _is("UTC", "LOCAL"), "UTC and LOCAL are supported", needed_to_read=True),
    _Rule("hoodie.populate.meta.fields", _is("true", "false"), "true and false are supported"),
    _Rule(CDC_ENABLED, _is("false", "true", ""), "true and false are supported"),
    _Rule(LOGGING_MODE, _is("", *HoodieCDCSupplementalLoggingMode), f"use one of {_LOGGING_MODES}"),
    _Rule("hoodie.partition.metafile.use.base.format", _is("false", ""), _WRITE_WITH_HUDI),
    _Rule(
        "hoodie.table.keygenerator.class",
        _is_known_key_generator,
        f"use one of {', '.join(sorted(KEY_GENERATOR_CLASSES))}",
    ),
    _Rule(
        "hoodie.table.keygenerator.type",
        _is_known_key_generator_type,
        f"use one of {', '.join(KEY_GENERATORS)}, or {USER_PROVIDED} with hoodie.table.keygenerator.class",
    ),
)
_RULES_OF_6 = (
    _Rule("hoodie.compaction.payload.class", _is_known_payload, f"use {', '.join(PAYLOADS)}"),
    _Rule("hoodie.compaction.payload.type", _is(*PAYLOAD_TYPES), f"use {', '.join(PAYLOAD_TYPES)}"),
    _Rule("hoodie.compaction.record.merger.strategy", _is_known_merger_strategy, _WHAT_THE_PAYLOAD_SAYS),
    _Rule("hoodie.record.merge.mode", _agrees_with_payload, _WHAT_THE_PAYLOAD_SAYS),
    _Rule("hoodie.record.merge.strategy.id", _agrees_with_payload, _WHAT_THE_PAYLOAD_SAYS),
    _Rule(
        _PRECOMBINE_FIELD,
        lambda value, _: "," not in value,
        "records of a table of version 6 are ordered by one field",
    ),
    _Rule(
        _ORDERING_FIELDS,
        lambda value, properties: value == properties.get(_PRECOMBINE_FIELD, value) and "," not in value,
        f"name one field, the same as {_PRECOMBINE_FIELD}",
    ),
)
_RULES_OF_LATER = (
    _Rule(
        _ORDERING_FIELDS,
        lambda value, properties: not properties.get(_PRECOMBINE_FIELD) or value == properties[_PRECOMBINE_FIELD],
        f"name the same fields as {_PRECOMBINE_FIELD}, or leave that one out",
    ),
)
_RULED = frozenset(rule.key for rule in (*_RULES, *_RULES_OF_6, *_RULES_OF_LATER))
_RULED_IN_LATER = frozenset({LEGACY_PAYLOAD_KEY, PARTIAL_UPDATE_KEY})
"""Properties of versions 8 and 9 that `merging_problems` checks."""


def problems(properties: Mapping[str, str], to_write: bool) -> list[str]:
    """The reasons not to read or write a table, one text for each property; empty if there are none.

    Args:
        properties: All properties of the table.
        to_write: Whether the table is written, and not only read.

    Returns:
        Texts such as ``hoodie.table.base.file.format=ORC (write to this table with Hudi ...)``.
    """
    return list(_problems(tuple(properties.items()), to_write))


@lru_cache(maxsize=64)
def _problems(items: tuple[tuple[str, str], ...], to_write: bool) -> tuple[str, ...]:
    """`problems`; a write checks the same properties several times."""
    properties = dict(items)
    found: list[str] = []
    version = properties.get(_VERSION, "").strip()
    is_later = version in _LAYOUT_OF_VERSION and version != "6"
    for rule in (*_RULES, *(_RULES_OF_LATER if is_later else _RULES_OF_6)):
        value = properties.get(rule.key, rule.default)
        if value is None or (not to_write and not rule.needed_to_read):
            continue
        if not rule.accepts(value, properties):
            found.append(f"{rule.key}={value} ({rule.way_out})")
            if rule.key == _VERSION:
                # In another version any other property may have another meaning.
                return tuple(found)
    if to_write and is_later:
        merging = merging_problems(properties, int(version))
        found += [f"{key}={properties.get(key, '(absent)')} ({way_out})" for key, way_out in merging.items()]
    if to_write:
        found += [
            f"{key}={value} (hoodie does not know this property, and a write could break the feature behind it: "
            "write to this table with Hudi, or remove the property if nothing needs it)"
            for key, value in properties.items()
            if is_unknown(key, is_later)
        ]
    return tuple(found)


def is_unknown(key: str, is_later: bool) -> bool:
    """Whether hoodie does not know a property of a table.

    Args:
        key: The property.
        is_later: Whether the table is of version 8 or 9.
    """
    if is_later and (key in _RULED_IN_LATER or key.startswith(MERGE_PROPERTY_PREFIX)):
        return False
    return (
        key.startswith("hoodie.")
        and key not in _RULED
        and key not in HARMLESS_PROPERTIES
        and not key.startswith(HARMLESS_PREFIXES)
    )
