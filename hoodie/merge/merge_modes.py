"""The merge of records in tables of versions 8 and 9, by their properties.

A table of version 6 merges by its payload class. Later tables merge by a mode. Version 9 replaces eight payload classes
of Hudi by a mode, a partial update mode and merge properties (`REPLACED_PAYLOADS`), and keeps the name of the class for
a downgrade only. A mode CUSTOM goes by a payload class again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import attrs

from hoodie.exception import HoodieNotSupportedException
from hoodie.merge.merge_properties import DELETE_FIELD_KEYS, DELETE_MARKER_KEYS, STRATEGIES, MergeProperties
from hoodie.merge.payload_rules import (
    AWS_DMS_PAYLOAD,
    DEBEZIUM_OPERATION,
    DEFAULT_PAYLOAD,
    EVENT_TIME_PAYLOAD,
    LOG_SEQUENCE_NUMBER,
    MERGER_PREFIX,
    MYSQL_DEBEZIUM_PAYLOAD,
    OVERWRITE_NON_DEFAULTS_PAYLOAD,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    PARTIAL_UPDATE_PAYLOAD,
    PAYLOADS,
    POSTGRES_DEBEZIUM_PAYLOAD,
    TOASTED_VALUE,
    MergeMode,
    canonical_payload_class,
)

MODE_KEY = "hoodie.record.merge.mode"
STRATEGY_KEY = "hoodie.record.merge.strategy.id"
PAYLOAD_KEY = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_KEY = "hoodie.table.legacy.payload.class"
PARTIAL_UPDATE_KEY = "hoodie.table.partial.update.mode"
MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."
UNAVAILABLE_VALUE_KEY = f"{MERGE_PROPERTY_PREFIX}hoodie.write.partial.update.unavailable.value"
DELETE_FIELD_KEY = f"{MERGE_PROPERTY_PREFIX}{DELETE_FIELD_KEYS[0]}"
DELETE_MARKER_KEY = f"{MERGE_PROPERTY_PREFIX}{DELETE_MARKER_KEYS[0]}"
MERGE_PROPERTIES = frozenset({UNAVAILABLE_VALUE_KEY, DELETE_FIELD_KEY, DELETE_MARKER_KEY})
"""The merge properties that hoodie knows."""

STRATEGY_OF_MODE: Mapping[str, str] = MappingProxyType({mode: strategy for strategy, mode in STRATEGIES.items()})
"""Merge mode -> Hudi's id of its strategy; CUSTOM: merging by the payload class."""


class PartialUpdateMode(StrEnum):
    """The values of the winning row that are replaced by those of the other row.

    Hudi: org.apache.hudi.common.table.PartialUpdateMode.
    """

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


@attrs.frozen
class ReplacedPayload:
    """The properties that replace a payload class in a table of version 9.

    Attributes:
        mode: The merge mode.
        partial_update_mode: The partial update mode, if there is one.
        properties: The merge properties, with their prefix.
        ordering_fields: The fields that order records, whatever the table's creator names; () for the creator's fields.
    """

    mode: MergeMode
    partial_update_mode: PartialUpdateMode | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    ordering_fields: tuple[str, ...] = ()


def _deletes(field: str, marker: str) -> dict[str, str]:
    return {DELETE_FIELD_KEY: field, DELETE_MARKER_KEY: marker}


REPLACED_PAYLOADS: Mapping[str, ReplacedPayload] = MappingProxyType(
    {
        DEFAULT_PAYLOAD: ReplacedPayload(MergeMode.EVENT_TIME_ORDERING),
        EVENT_TIME_PAYLOAD: ReplacedPayload(MergeMode.EVENT_TIME_ORDERING),
        OVERWRITE_WITH_LATEST_PAYLOAD: ReplacedPayload(MergeMode.COMMIT_TIME_ORDERING),
        PARTIAL_UPDATE_PAYLOAD: ReplacedPayload(MergeMode.EVENT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS),
        OVERWRITE_NON_DEFAULTS_PAYLOAD: ReplacedPayload(
            MergeMode.COMMIT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS
        ),
        AWS_DMS_PAYLOAD: ReplacedPayload(MergeMode.COMMIT_TIME_ORDERING, properties=_deletes("Op", "D")),
        MYSQL_DEBEZIUM_PAYLOAD: ReplacedPayload(
            MergeMode.EVENT_TIME_ORDERING,
            properties=_deletes(DEBEZIUM_OPERATION, "d"),
            ordering_fields=("_event_bin_file", "_event_pos"),
        ),
        POSTGRES_DEBEZIUM_PAYLOAD: ReplacedPayload(
            MergeMode.EVENT_TIME_ORDERING,
            PartialUpdateMode.FILL_UNAVAILABLE,
            {**_deletes(DEBEZIUM_OPERATION, "d"), UNAVAILABLE_VALUE_KEY: TOASTED_VALUE},
            (LOG_SEQUENCE_NUMBER,),
        ),
    }
)
"""Payload classes that version 9 replaces."""

_PAYLOAD_OF_MODE = {
    MergeMode.COMMIT_TIME_ORDERING: OVERWRITE_WITH_LATEST_PAYLOAD,
    MergeMode.EVENT_TIME_ORDERING: DEFAULT_PAYLOAD,
}


@attrs.frozen
class TableMerging:
    """The merge of records in a table of version 8 or 9.

    Attributes:
        mode: The merge mode.
        payload_class: The payload class of mode CUSTOM; None for the other modes, and if none is named.
        legacy_payload_class: The payload class that the mode replaces, if the table names one.
        partial_update_mode: See `PartialUpdateMode`.
        delete_field: The column that marks deletes.
        delete_marker: The value of that column that marks a delete.
        unavailable_value: The text that FILL_UNAVAILABLE replaces.
    """

    mode: MergeMode
    payload_class: str | None = None
    legacy_payload_class: str | None = None
    partial_update_mode: PartialUpdateMode | None = None
    delete_field: str | None = None
    delete_marker: str | None = None
    unavailable_value: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TableMerging:
        """Read the properties of a table of version 8 or 9 without `merging_problems`.

        Args:
            properties: The table's properties.
        """
        named = MergeProperties.of(properties)
        mode = MergeMode(named.mode) if named.mode is not None else _inferred_mode(named, properties)
        partial = _text(properties, PARTIAL_UPDATE_KEY) if mode is not MergeMode.CUSTOM else None
        legacy = _text(properties, LEGACY_PAYLOAD_KEY)
        legacy = canonical_payload_class(legacy) if legacy is not None else None
        if legacy is None and mode is not MergeMode.CUSTOM:
            # Version 8 names a payload class beside its mode.
            legacy = named.payload_class
        return cls(
            mode=mode,
            payload_class=named.payload_class if mode is MergeMode.CUSTOM else None,
            legacy_payload_class=legacy,
            partial_update_mode=PartialUpdateMode(partial.upper()) if partial is not None else None,
            delete_field=named.delete_field,
            delete_marker=named.delete_marker,
            unavailable_value=properties.get(UNAVAILABLE_VALUE_KEY) or None,
        )

    @property
    def known_as(self) -> str:
        """The nearest payload class: that of CUSTOM, the legacy one, or Hudi's for the mode."""
        return self.payload_class or self.legacy_payload_class or _PAYLOAD_OF_MODE[self.mode]


def is_by_mode(version: int) -> bool:
    """Whether tables of a version merge by a merge mode, and not by a payload class.

    Args:
        version: ``hoodie.table.version``.
    """
    return version >= 8


def says_how_it_merges(properties: Mapping[str, str], version: int) -> bool:
    """Whether the rules of merging can be determined from a table's properties.

    Args:
        properties: The table's properties.
        version: Its version.
    """
    return not is_by_mode(version) or not merging_problems(properties, version)


def payload_of_table(properties: Mapping[str, str], version: int) -> str:
    """The payload class by which a table merges, or that of its merge mode.

    Args:
        properties: The table's properties, without `merging_problems`.
        version: Its version.
    """
    if is_by_mode(version):
        return TableMerging.of(properties).known_as
    return MergeProperties.of(properties).payload_class or OVERWRITE_WITH_LATEST_PAYLOAD


def merge_alike(payload_class: str, other: str, version: int) -> bool:
    """Whether two payload classes mean the same rules in tables of a version.

    Args:
        payload_class: A canonical name.
        other: Another one.
        version: The version.
    """
    if payload_class == other:
        return True
    replaced = REPLACED_PAYLOADS.get(payload_class)
    return version >= 9 and replaced is not None and replaced == REPLACED_PAYLOADS.get(other)


def properties_of_new_table(merging: MergeProperties, payload_class: str, version: int) -> dict[str, str]:
    """The merge properties of a new table, as Hudi 1.2 stores them for the same options.

    Args:
        merging: The merge properties of the creator, without contradictions.
        payload_class: The payload class that they name or mean; see `MergeProperties.resolve_payload`.
        version: 8 or 9.
    """
    deletes = {}
    if merging.delete_field is not None and merging.delete_marker is not None:
        deletes = _deletes(merging.delete_field, merging.delete_marker)
    rules = PAYLOADS.get(payload_class)
    mode = rules.mode if rules is not None else MergeMode.CUSTOM
    replaced = REPLACED_PAYLOADS.get(payload_class)
    if version >= 9 and mode is not MergeMode.CUSTOM and merging.payload_class is None:
        return {MODE_KEY: mode.value, **deletes}
    if version >= 9 and replaced is not None:
        partial = replaced.partial_update_mode
        return {
            MODE_KEY: replaced.mode.value,
            LEGACY_PAYLOAD_KEY: payload_class,
            **({PARTIAL_UPDATE_KEY: partial.value} if partial is not None else {}),
            **replaced.properties,
            **deletes,
        }
    return {MODE_KEY: mode.value, STRATEGY_KEY: STRATEGY_OF_MODE[mode], PAYLOAD_KEY: payload_class, **deletes}


def merging_problems(properties: Mapping[str, str], version: int) -> dict[str, str]:
    """The merge properties of a table of version 8 or 9 that hoodie does not know, or that contradict each other.

    Args:
        properties: The table's properties.
        version: Its version.

    Returns:
        Property -> the advice.
    """
    named = MergeProperties.of(properties)
    found: dict[str, str] = {}
    modes = [mode.value for mode in MergeMode]
    if named.mode is not None and named.mode not in modes:
        return {MODE_KEY: f"use {', '.join(modes)}"}
    partial = _text(properties, PARTIAL_UPDATE_KEY)
    if partial is not None and (version < 9 or partial.upper() not in list(PartialUpdateMode)):
        found[PARTIAL_UPDATE_KEY] = "use a table of version 9, and " + " or ".join(PartialUpdateMode)
    legacy = _text(properties, LEGACY_PAYLOAD_KEY)
    if legacy is not None and canonical_payload_class(legacy) not in REPLACED_PAYLOADS:
        found[LEGACY_PAYLOAD_KEY] = f"use {', '.join(REPLACED_PAYLOADS)}"
    for key in properties:
        if key.startswith(MERGE_PROPERTY_PREFIX) and key not in MERGE_PROPERTIES:
            found[key] = "hoodie does not know this merge property: write to this table with Hudi"
    if (named.delete_field is None) is not (named.delete_marker is None):
        key = DELETE_FIELD_KEY if named.delete_field is not None else DELETE_MARKER_KEY
        found[key] = f"{DELETE_FIELD_KEY} and {DELETE_MARKER_KEY} go together"
    if not found:
        found |= _contradicting(properties, named)
    return found


def checked_merging(table_name: str, properties: Mapping[str, str], version: int) -> TableMerging:
    """The merge of a table of version 8 or 9.

    Args:
        table_name: The table's name, for messages.
        properties: Its properties.
        version: Its version.

    Raises:
        HoodieNotSupportedException: There are `merging_problems`.
    """
    problems = merging_problems(properties, version)
    if problems:
        description = "; ".join(
            f"{key}={properties.get(key, '(absent)')} ({way_out})" for key, way_out in problems.items()
        )
        raise HoodieNotSupportedException(f"how table '{table_name}' merges records is not supported: {description}")
    return TableMerging.of(properties)


def _contradicting(properties: Mapping[str, str], named: MergeProperties) -> dict[str, str]:
    """Problems of a mode, a strategy and a payload class that are well spelled."""
    mode = MergeMode(named.mode) if named.mode is not None else _inferred_mode(named, properties)
    if named.strategy is not None:
        meant = STRATEGIES.get(named.strategy.lower())
        if meant is None:
            return {_key_of_strategy(properties): "hoodie does not know this merge strategy: write to it with Hudi"}
        if meant is not mode:
            return {_key_of_strategy(properties): f"it must say what {MODE_KEY} says, {mode}"}
    payload = named.payload_class
    if mode is MergeMode.CUSTOM:
        if payload is None:
            return {MODE_KEY: f"{PAYLOAD_KEY} must name the payload class: write to this table with Hudi"}
        if payload not in PAYLOADS and not payload.startswith(MERGER_PREFIX):
            return {PAYLOAD_KEY: f"use {', '.join(PAYLOADS)}"}
    elif payload is not None and (payload not in PAYLOADS or PAYLOADS[payload].mode is not mode):
        return {PAYLOAD_KEY: f"it must say what {MODE_KEY} says, {mode}"}
    return {}


def _inferred_mode(named: MergeProperties, properties: Mapping[str, str]) -> MergeMode:
    """The mode of a table that stores none, as Hudi infers it."""
    if named.strategy is not None:
        return STRATEGIES.get(named.strategy.lower(), MergeMode.CUSTOM)
    if named.payload_class is not None:
        rules = PAYLOADS.get(named.payload_class)
        return rules.mode if rules is not None else MergeMode.CUSTOM
    orders = any(_text(properties, key) for key in ("hoodie.table.ordering.fields", "hoodie.table.precombine.field"))
    return MergeMode.EVENT_TIME_ORDERING if orders else MergeMode.COMMIT_TIME_ORDERING


def _key_of_strategy(properties: Mapping[str, str]) -> str:
    keys = (STRATEGY_KEY, "hoodie.compaction.record.merger.strategy")
    return next((key for key in keys if properties.get(key, "").strip()), STRATEGY_KEY)


def _text(properties: Mapping[str, str], key: str) -> str | None:
    return properties.get(key, "").strip() or None
