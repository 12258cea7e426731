"""Properties about merging, under all the names that Hudi has for them.

A table of version 6 stores a payload class. Hudi 1.x also has merge modes and strategies, each of which means a payload
class; tables of versions 8 and 9 merge by them (`hoodie.merge.merge_modes`). A Python record merger replaces a payload
class.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.merge.payload_rules import (
    DEFAULT_PAYLOAD,
    MERGER_PREFIX,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    PAYLOADS,
    MergeMode,
    canonical_payload_class,
    merger_payload_class,
)

PAYLOAD_KEYS = (
    "hoodie.compaction.payload.class",
    "hoodie.compaction.payload.type",
    "hoodie.datasource.write.payload.class",
    "hoodie.datasource.write.payload.type",
)
MODE_KEYS = ("hoodie.record.merge.mode", "hoodie.write.record.merge.mode")
STRATEGY_KEYS = (
    "hoodie.record.merge.strategy.id",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.write.record.merge.strategy.id",
    "hoodie.datasource.write.record.merger.strategy",
)
MERGER_KEYS = (
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.datasource.write.record.merger.impls",
)
DELETE_FIELD_KEYS = ("hoodie.payload.delete.field", "hoodie.record.merge.property.hoodie.payload.delete.field")
DELETE_MARKER_KEYS = ("hoodie.payload.delete.marker", "hoodie.record.merge.property.hoodie.payload.delete.marker")

STRATEGIES: Mapping[str, MergeMode] = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME_ORDERING,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME_ORDERING,
    "00000000-0000-0000-0000-000000000000": MergeMode.CUSTOM,
}
"""Hudi's ids of merge strategies -> merge modes; the last one means that the payload class decides."""

PAYLOAD_STRATEGY_OF_6 = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
"""The strategy that Hudi 0.15 stores for merge-on-read tables of any payload class."""


@attrs.frozen
class MergeProperties:
    """The values about merging in a set of properties; None for missing ones.

    Attributes:
        payload_class: The canonical name of the payload class.
        mode: The merge mode, in capitals.
        strategy: The id of the merge strategy.
        merger: ``package.module.Class`` of a Python record merger.
        delete_field: The column that marks deletes.
        delete_marker: The value of that column that marks a delete.
    """

    payload_class: str | None = None
    mode: str | None = None
    strategy: str | None = None
    merger: str | None = None
    delete_field: str | None = None
    delete_marker: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergeProperties:
        """Read the properties of a table or a writer.

        Args:
            properties: Property names, of tables or of writers -> values.
        """
        payload = _first(properties, PAYLOAD_KEYS)
        mode = _first(properties, MODE_KEYS)
        return cls(
            payload_class=canonical_payload_class(payload) if payload is not None else None,
            mode=mode.upper() if mode is not None else None,
            strategy=_first(properties, STRATEGY_KEYS),
            merger=_first(properties, MERGER_KEYS),
            delete_field=_first(properties, DELETE_FIELD_KEYS),
            delete_marker=_first(properties, DELETE_MARKER_KEYS),
        )

    def resolve_payload(self, has_ordering_field: bool) -> str:
        """The payload class of a new table with these properties.

        Args:
            has_ordering_field: Whether the table has an ordering field; this decides if the properties do not.
        """
        if self.payload_class is not None:
            return self.payload_class
        if self.merger is not None:
            return merger_payload_class(self.merger)
        mode = self.mode or STRATEGIES.get(self.strategy or "")
        if mode == MergeMode.COMMIT_TIME_ORDERING:
            return OVERWRITE_WITH_LATEST_PAYLOAD
        if mode == MergeMode.EVENT_TIME_ORDERING or has_ordering_field:
            return DEFAULT_PAYLOAD
        return OVERWRITE_WITH_LATEST_PAYLOAD

    def problems(self, payload_class: str, mode: MergeMode | None = None) -> list[str]:
        """The contradictions between these properties and a payload class, one sentence for each.

        Args:
            payload_class: The canonical name of the table's payload class, or of the one that its mode means.
            mode: The merge mode of a table that merges by one (versions 8 and 9). Version 9 has other modes for some
                payload classes than version 8: both are accepted.
        """
        found = []
        if self.payload_class is not None and self.payload_class != payload_class:
            found.append(f"{PAYLOAD_KEYS[0]} = {self.payload_class}, and the table has {payload_class}")
        wanted = mode_of_payload(payload_class)
        accepted = {wanted, mode or wanted}
        means = mode or wanted
        known = [mode.value for mode in MergeMode]
        if self.mode is not None and self.mode not in known:
            found.append(f"{MODE_KEYS[0]} = {self.mode}: must be {', '.join(known[:-1])} or {known[-1]}")
        elif self.mode is not None and self.mode not in accepted:
            found.append(f"{MODE_KEYS[0]} = {self.mode}: the payload class {payload_class} means {means}")
        if self.strategy is not None:
            meant = STRATEGIES.get(self.strategy.lower())
            if meant is None:
                found.append(f"{STRATEGY_KEYS[0]} = {self.strategy}: hoodie does not know this strategy")
            elif meant not in accepted:
                found.append(
                    f"{STRATEGY_KEYS[0]} = {self.strategy} ({meant}): the payload class {payload_class} means {means}"
                )
        if self.merger is not None and merger_payload_class(self.merger) != payload_class:
            found.append(f"{MERGER_KEYS[0]} = {self.merger}: the table merges records by {payload_class}")
        takes_markers = mode is not None and mode is not MergeMode.CUSTOM
        return found + self._marker_problems(payload_class, takes_markers)

    def _marker_problems(self, payload_class: str, takes_markers: bool) -> list[str]:
        field, marker = self.delete_field, self.delete_marker
        if field is None and marker is None:
            return []
        if field is None or marker is None:
            missing = DELETE_FIELD_KEYS[0] if field is None else DELETE_MARKER_KEYS[0]
            return [f"{missing} is missing: {DELETE_FIELD_KEYS[0]} and {DELETE_MARKER_KEYS[0]} go together"]
        if takes_markers or (payload_class in PAYLOADS and PAYLOADS[payload_class].takes_markers):
            return []
        takers = ", ".join(rules.short_name for rules in PAYLOADS.values() if rules.takes_markers)
        return [f"{DELETE_FIELD_KEYS[0]} = {field}: the payload class {payload_class} ignores it; {takers} use it"]


def mode_of_payload(payload_class: str) -> MergeMode:
    """Hudi 1.x's merge mode for a payload class.

    Args:
        payload_class: The canonical name, also of a Python record merger.
    """
    if payload_class.startswith(MERGER_PREFIX) or payload_class not in PAYLOADS:
        return MergeMode.CUSTOM
    return PAYLOADS[payload_class].mode


def _first(properties: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((properties[key].strip() for key in keys if properties.get(key, "").strip()), None)
