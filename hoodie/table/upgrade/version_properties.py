"""The properties of a table as another version has them.

Three things differ: how records merge (a payload class in version 6, a merge mode in 8 and 9), the name of the key
generator (a class, or a type), and the places of the timeline. Everything else is kept.

Hudi: org.apache.hudi.table.upgrade.{SevenToEightUpgradeHandler, EightToNineUpgradeHandler, NineToEightDowngradeHandler,
EightToSevenDowngradeHandler}.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.common.model.key_generator_type import (
    KEY_GENERATOR_PACKAGE,
    KEY_GENERATORS,
    USER_PROVIDED,
    class_of_type,
    type_of_class,
)
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER
from hoodie.merge.merge_modes import (
    LEGACY_PAYLOAD_KEY,
    MERGE_PROPERTY_PREFIX,
    PARTIAL_UPDATE_KEY,
    PAYLOAD_KEY,
    REPLACED_PAYLOADS,
    TableMerging,
    is_by_mode,
    merging_problems,
    properties_of_new_table,
)
from hoodie.merge.merge_properties import (
    DELETE_FIELD_KEYS,
    DELETE_MARKER_KEYS,
    MODE_KEYS,
    PAYLOAD_KEYS,
    STRATEGY_KEYS,
    MergeProperties,
)
from hoodie.merge.payload_rules import (
    BINLOG_POSITION,
    DEFAULT_PAYLOAD,
    MERGER_PREFIX,
    MYSQL_DEBEZIUM_PAYLOAD,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    PAYLOADS,
    MergeMode,
)

LAYOUT_OF_VERSION: Mapping[int, int] = {6: 1, 8: 2, 9: 2}
"""The version of a table -> that of its timeline's layout."""

_VERSION = "hoodie.table.version"
_LAYOUT = "hoodie.timeline.layout.version"
_INITIAL = "hoodie.table.initial.version"
_ARCHIVE = "hoodie.archivelog.folder"
_TIMELINE_PATH = "hoodie.timeline.path"
_HISTORY_PATH = "hoodie.timeline.history.path"
_PRECOMBINE_FIELD = "hoodie.table.precombine.field"
_ORDERING_FIELDS = "hoodie.table.ordering.fields"
_KEY_GENERATOR_CLASS = "hoodie.table.keygenerator.class"
_KEY_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
_TYPED_PARTITIONS = "hoodie.datasource.write.partitionpath.field"
_ONLY_LATER = frozenset(
    {_INITIAL, _TIMELINE_PATH, _HISTORY_PATH, "hoodie.table.format", "hoodie.table.index.defs.path"}
)
"""Properties that version 6 gives no meaning."""
_OF_MERGING = frozenset(
    {*PAYLOAD_KEYS, *MODE_KEYS, *STRATEGY_KEYS, *DELETE_FIELD_KEYS, *DELETE_MARKER_KEYS, LEGACY_PAYLOAD_KEY,
     PARTIAL_UPDATE_KEY}
)  # fmt: skip
_CUSTOM = frozenset({"CUSTOM", "CUSTOM_AVRO"})
_HISTORY_FOLDER = "history"
_VALIDATION = "hoodie.write.complex.keygen.validation.enable"


@attrs.frozen
class VersionProperties:
    """The properties of a table in another version.

    Attributes:
        properties: All of them, without the checksum.
        problems: Properties that the version cannot hold, each with the way out; then nothing must be changed.
        notes: Facts that a user should know of the change.
    """

    properties: Mapping[str, str]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def properties_in_version(config: HoodieTableConfig, version: int) -> VersionProperties:
    """Translate the properties of a table into those of another version.

    Args:
        config: The table's properties, of version 6, 8 or 9.
        version: 6, 8 or 9, another one than the table's.
    """
    return _Change(config, version).make()


def key_generator_problem(config: HoodieTableConfig, writer_properties: Mapping[str, str]) -> str | None:
    """Why the keys of a table stand against a change of its version; None if they do not.

    Releases of Hudi disagree about the keys of ComplexKeyGenerator with one field.

    Args:
        config: The table's properties.
        writer_properties: The properties of its writers.
    """
    name = (config.key_generator_class or "").removeprefix(KEY_GENERATOR_PACKAGE)
    if name.replace("Avro", "") != KEY_GENERATORS["COMPLEX"] or len(config.record_key_fields) != 1:
        return None
    if writer_properties.get(_VALIDATION, "").strip().lower() == "false":
        return None
    return (
        f"{name} with the one record key field {config.record_key_fields[0]!r}: releases of Hudi write its keys in two "
        f"ways; if all writers of the table write the same, set {_VALIDATION}=false"
    )


class _Change:
    """The change of one table."""

    def __init__(self, config: HoodieTableConfig, version: int) -> None:
        self._config = config
        self._stored = config.properties
        self._from = config.table_version
        self._version = version
        self._problems: list[str] = []
        self._notes: list[str] = []

    def make(self) -> VersionProperties:
        kept = {
            key: value
            for key, value in self._stored.items()
            if key not in _OF_MERGING and not key.startswith(MERGE_PROPERTY_PREFIX) and key != "hoodie.table.checksum"
        }
        changed = {
            **kept,
            _VERSION: str(self._version),
            _LAYOUT: str(LAYOUT_OF_VERSION[self._version]),
        }
        self._change_merging(changed)
        self._change_key_generator(changed)
        self._change_places(changed)
        return VersionProperties(changed, tuple(self._problems), tuple(self._notes))

    # --- merging ------------------------------------------------------------------------------------------------

    def _change_merging(self, changed: dict[str, str]) -> None:
        if is_by_mode(self._from) and merging_problems(self._stored, self._from):
            self._problems += [
                f"{key}={self._stored.get(key, '(absent)')} ({way_out})"
                for key, way_out in merging_problems(self._stored, self._from).items()
            ]
            return
        payload = self._payload()
        fields = self._ordering_fields(payload)
        changed.pop(_PRECOMBINE_FIELD, None)
        changed.pop(_ORDERING_FIELDS, None)
        if fields:
            changed[_ORDERING_FIELDS if self._version >= 9 else _PRECOMBINE_FIELD] = ",".join(fields)
        merging = MergeProperties.of(self._stored)
        field, marker = merging.delete_field, merging.delete_marker
        if is_by_mode(self._from):
            field, marker = self._own_markers(payload, field, marker)
        if is_by_mode(self._version):
            given = MergeProperties(payload_class=payload, delete_field=field, delete_marker=marker)
            changed |= properties_of_new_table(given, payload, self._version)
            return
        changed[PAYLOAD_KEY] = payload
        if field is not None and marker is not None:
            changed |= {DELETE_FIELD_KEYS[0]: field, DELETE_MARKER_KEYS[0]: marker}

    def _payload(self) -> str:
        """The payload class that says how the table merges, or that stands for its merge mode."""
        has_ordering = bool(self._config.ordering_fields)
        if not is_by_mode(self._from):
            payload = MergeProperties.of(self._stored).payload_class
            if payload is None:
                payload = DEFAULT_PAYLOAD if has_ordering else OVERWRITE_WITH_LATEST_PAYLOAD
                if has_ordering:
                    self._notes.append(
                        f"the table stores no {PAYLOAD_KEY}: from now on the record with the larger value of "
                        f"{self._config.ordering_fields[0]} stays, as Hudi 1.x upgrades it; in version 6, hoodie and "
                        "Hudi 0.15 keep the one that was written later. To keep that rule, first store "
                        f"{PAYLOAD_KEY}={OVERWRITE_WITH_LATEST_PAYLOAD}"
                    )
            return payload
        merging = TableMerging.of(self._stored)
        if merging.partial_update_mode is not None:
            replaced = REPLACED_PAYLOADS.get(merging.legacy_payload_class or "")
            if replaced is None or replaced.partial_update_mode is not merging.partial_update_mode:
                self._problems.append(
                    f"{PARTIAL_UPDATE_KEY}={merging.partial_update_mode} (version {self._version} has no partial "
                    "updates, and no payload class stands for it: stay on version 9)"
                )
        if merging.mode is MergeMode.EVENT_TIME_ORDERING and merging.legacy_payload_class is None and not has_ordering:
            # Without an ordering field this mode takes the later write.
            return OVERWRITE_WITH_LATEST_PAYLOAD
        return merging.known_as

    def _ordering_fields(self, payload: str) -> tuple[str, ...]:
        fields = self._config.ordering_fields
        replaced = REPLACED_PAYLOADS.get(payload)
        if replaced is not None and replaced.ordering_fields:
            if self._version >= 9:
                return replaced.ordering_fields
            if fields == replaced.ordering_fields and payload == MYSQL_DEBEZIUM_PAYLOAD:
                return (BINLOG_POSITION,)
        if len(fields) > 1 and not is_by_mode(self._version):
            self._problems.append(
                f"{_ORDERING_FIELDS}={','.join(fields)} (version 6 orders records by one field: stay on version 8 or "
                "9, or copy the rows into a table with one column that holds their order)"
            )
        return fields

    def _own_markers(self, payload: str, field: str | None, marker: str | None) -> tuple[str | None, str | None]:
        """The delete markers that the table's creator gave, not those that stand for the payload class."""
        replaced = REPLACED_PAYLOADS.get(payload)
        given = {DELETE_FIELD_KEYS[1]: field, DELETE_MARKER_KEYS[1]: marker}
        if replaced is not None and field is not None and given.items() <= replaced.properties.items():
            return None, None
        takes_markers = payload in PAYLOADS and PAYLOADS[payload].takes_markers
        if field is not None and not is_by_mode(self._version) and not takes_markers:
            self._problems.append(
                f"{DELETE_FIELD_KEYS[1]}={field} (version 6 has no delete markers with "
                f"{payload.removeprefix(MERGER_PREFIX)}: stay on version {self._from})"
            )
        return field, marker

    # --- keys and places ----------------------------------------------------------------------------------------

    def _change_key_generator(self, changed: dict[str, str]) -> None:
        class_name, kind = self._stored.get(_KEY_GENERATOR_CLASS, ""), self._stored.get(_KEY_GENERATOR_TYPE, "")
        if is_by_mode(self._version):
            if class_name and not kind:
                changed[_KEY_GENERATOR_TYPE] = kind = _type_of(class_name)
        elif kind and kind.upper() != USER_PROVIDED:
            changed[_KEY_GENERATOR_CLASS] = class_name or class_of_type(kind)
        if not is_by_mode(self._version):
            changed.pop(_KEY_GENERATOR_TYPE, None)
        if (kind or _type_of(class_name)).upper() in _CUSTOM:
            self._change_partition_types(changed)

    def _change_partition_types(self, changed: dict[str, str]) -> None:
        """The types of CustomKeyGenerator's fields: versions 8 and 9 have them in the list of fields."""
        listed, typed = self._stored.get(_PARTITION_FIELDS, ""), self._stored.get(_TYPED_PARTITIONS, "")
        given = next((fields for fields in (listed, typed) if ":" in fields), None)
        if given is None:
            return
        if is_by_mode(self._version):
            changed[_PARTITION_FIELDS] = given
            changed.pop(_TYPED_PARTITIONS, None)
        else:
            changed[_PARTITION_FIELDS] = ",".join(self._config.partition_fields)
            changed[_TYPED_PARTITIONS] = given

    def _change_places(self, changed: dict[str, str]) -> None:
        if is_by_mode(self._version):
            if not is_by_mode(self._from):
                changed |= {
                    _TIMELINE_PATH: TIMELINE_FOLDER,
                    _HISTORY_PATH: _HISTORY_FOLDER,
                    _INITIAL: changed.get(_INITIAL, str(self._from)),
                }
            return
        places = ((_TIMELINE_PATH, TIMELINE_FOLDER), (_HISTORY_PATH, _HISTORY_FOLDER))
        self._problems += [
            f"{key}={self._stored[key]} (a downgrade to version 6 needs {usual!r})"
            for key, usual in places
            if self._stored.get(key, "").strip() not in ("", usual)
        ]
        for key in _ONLY_LATER:
            changed.pop(key, None)
        if not self._config.partition_fields:
            # Later versions store an empty list.
            changed.pop(_PARTITION_FIELDS, None)
        changed.setdefault(_ARCHIVE, "archived")


def _type_of(class_name: str) -> str:
    """The type of a key generator's class, also of one for Avro records."""
    name = class_name.removeprefix(KEY_GENERATOR_PACKAGE)
    if "AvroKeyGenerator" not in name:
        return type_of_class(name)
    kind = type_of_class(name.replace("AvroKeyGenerator", "KeyGenerator"))
    return kind if kind == USER_PROVIDED else f"{kind}_AVRO"
