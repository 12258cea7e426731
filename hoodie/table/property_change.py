"""Change properties of a table that do not say how its stored files are.

Hudi: org.apache.hudi.cli.commands.TableCommand (table update-configs, table delete-configs). Differs: properties that
stored files follow are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from hoodie.common.config.property import check_properties, display_value, is_sensitive, to_property_value
from hoodie.common.data.stored_types import find_field, spelled_otherwise
from hoodie.common.model.supplemental_logging_mode import (
    CDC_ENABLED,
    LOGGING_MODE,
    HoodieCDCSupplementalLoggingMode,
    logging_mode_of,
)
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_features import is_unknown, problems
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant_time import newest
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.merge.merge_modes import MERGE_PROPERTY_PREFIX
from hoodie.merge.merge_properties import DELETE_FIELD_KEYS, DELETE_MARKER_KEYS
from hoodie.merge.merge_spec import MergeSpec
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult
from hoodie.table.upgrade.version_change import ChangedProperty, changed_properties

_ORDERING = ("hoodie.table.precombine.field", "hoodie.table.ordering.fields")
_MERGING = frozenset(
    {
        *_ORDERING,
        *DELETE_FIELD_KEYS,
        *DELETE_MARKER_KEYS,
        "hoodie.compaction.payload.class",
        "hoodie.compaction.payload.type",
        "hoodie.compaction.record.merger.strategy",
        "hoodie.record.merge.mode",
        "hoodie.record.merge.strategy.id",
    }
)
_FREE = frozenset(
    {
        CDC_ENABLED,
        LOGGING_MODE,
        "hoodie.table.partition_extractor_class",
    }
)
_LOGGING_MODES = tuple(HoodieCDCSupplementalLoggingMode)
_BEFORE_ALL = "000"
"""A time before all instants."""
_COPY = "copy the rows into a new table that has it"
_INSTEAD = (
    (("hoodie.table.version", "hoodie.table.initial.version", "hoodie.timeline.layout"), "call upgrade or downgrade"),
    (("hoodie.table.name", "hoodie.database.name"), "locks and writers go by it; a catalog may give another name"),
    (("hoodie.table.create.schema",), "add columns by add_columns, widen types by an upsert of wider values"),
    (
        ("hoodie.table.metadata.", "hoodie.table.secondary.indexes.", "hoodie.table.index."),
        "create_index and drop_index change indexes, and hoodie.metadata.enable of the next write the metadata table",
    ),
)
"""Beginnings of keys that are not changed by hand, and what to do instead; for all others, `_COPY`."""


@attrs.frozen(repr=False)
class PropertiesChange(RepairResult):
    """The properties of a table that were changed; values of secrets are ``***``.

    Attributes:
        base_path: The table.
        properties: The properties that changed.
        is_dry_run: Whether nothing was changed.
        changes_after: The newest instant, if the table begins to store change data or another part of it: a query of
            changes may begin after it, and not earlier. None otherwise.
    """

    base_path: str
    properties: tuple[ChangedProperty, ...]
    is_dry_run: bool = False
    changes_after: str | None = None

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        if not self.properties:
            return f"the properties of {self.base_path} are so already: nothing to do"
        line = f"properties of {self.base_path} {'would be' if self.is_dry_run else 'were'} changed"
        if self.changes_after is None:
            return line
        return f"{line}; queries of changes can begin at {self.changes_after}, not earlier"

    @property
    def table(self) -> SummaryTable[ChangedProperty]:
        """See `RepairResult`."""
        return SummaryTable(ChangedProperty, self.properties)


def change_properties(
    config: HoodieWriteConfig, updates: Mapping[str, Any] | None, removals: Iterable[str], *, dry_run: bool = False
) -> PropertiesChange:
    """Change properties of a table under its lock.

    Args:
        config: The configuration of its writers.
        updates: Properties to set.
        removals: Properties to remove; missing ones are ignored.
        dry_run: Change nothing, and tell what would be changed.

    Raises:
        HoodieConfigException: A property says how stored files are, or how a merge-on-read table merges them; hoodie
            could not write the table then; or it names a column that is not there.
        HoodieException: Other ones are those of `RepairedTable`.
    """
    set_to = _texts(updates)
    removed = _names(removals, set_to)
    repaired = RepairedTable.open(config, changes_rows=False)
    with repaired.lock("a change of properties", dry_run=dry_run) as (table, transaction):
        set_to, removed = _with_logging_mode(table.table_config.properties, set_to, removed)
        planned = _plan(table, set_to, removed)
        if planned.properties and not dry_run:
            transaction.check_held()
            HoodieTableConfig.update(table.storage, table.base_path, set_to, removed)
    return attrs.evolve(planned, is_dry_run=dry_run)


def _plan(table: TableSnapshot, updates: Mapping[str, str], removals: frozenset[str]) -> PropertiesChange:
    before = dict(table.table_config.properties)
    after = {**{key: value for key, value in before.items() if key not in removals}, **updates}
    changes = changed_properties(before, after)
    _check(table, changes, before, after)
    begins = logging_mode_of(after) is not None and any(change.key in (CDC_ENABLED, LOGGING_MODE) for change in changes)
    return PropertiesChange(
        table.base_path,
        tuple(map(_without_secret, changes)),
        is_dry_run=True,
        changes_after=_newest_time(table) if begins else None,
    )


def _newest_time(table: TableSnapshot) -> str:
    """The newest instant; a time before all others if there is none.

    Writes that have begun are among them: those of hoodie are refused once the table stores change data.
    """
    times = [instant.requested_time for instant in table.active_timeline]
    times += [instant.requested_time for instant in table.archived_timeline] if not times else []
    return newest(times) or _BEFORE_ALL


def _with_logging_mode(
    before: Mapping[str, str], updates: dict[str, str], removals: frozenset[str]
) -> tuple[dict[str, str], frozenset[str]]:
    """The changes with what goes with them: a table has a mode as long as it stores change data, in upper case."""
    given = {key: value for key, value in {**before, **updates}.items() if key not in removals}
    if not {CDC_ENABLED, LOGGING_MODE} & (updates.keys() | removals) or CDC_ENABLED not in given:
        return updates, removals | ({LOGGING_MODE} if CDC_ENABLED in removals else set())
    if given[CDC_ENABLED].strip().lower() != "true":
        return updates, removals | ({LOGGING_MODE} - updates.keys())
    mode = given.get(LOGGING_MODE, "").strip().upper() or HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER
    return {**updates, LOGGING_MODE: mode}, removals - {LOGGING_MODE}


def _texts(updates: Mapping[str, Any] | None) -> dict[str, str]:
    check_properties(updates)
    texts = {}
    for key, value in (updates or {}).items():
        if not isinstance(key, str) or not key.strip():
            raise HoodieConfigException(f"a property is named {shown_value(key)}: give text; nothing was changed")
        try:
            texts[key.strip()] = to_property_value(value)
        except ValueError as error:
            shown = display_value(key, str(value))
            raise HoodieConfigException(f"{key} = {shown} must be {error}; nothing was changed") from error
    return texts


def _names(removals: Iterable[str], updates: Mapping[str, str]) -> frozenset[str]:
    given = [removals] if isinstance(removals, str) else list(removals)
    names = [name.strip() if isinstance(name, str) else name for name in given]
    if wrong := [name for name in names if not isinstance(name, str) or name in updates]:
        raise HoodieConfigException(
            f"{shown_value(wrong[0])} is to be unset, but is no name or is set too; nothing was changed"
        )
    return frozenset(names)


def _check(
    table: TableSnapshot, changes: Iterable[ChangedProperty], before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Refuse changes that stored files, or the writers of the table, would not survive."""
    refused = [f"{change.key}: {why}" for change in changes if (why := _refusal(table, change, after))]
    known = problems(before, to_write=True)
    refused += [problem for problem in problems(after, to_write=True) if problem not in known]
    if not refused and not _merging_problems(before):
        refused += _merging_problems(after)
    if refused:
        raise HoodieConfigException(
            f"the properties of {table.base_path} cannot be changed so, and nothing was changed: {'; '.join(refused)}"
        )


def _refusal(table: TableSnapshot, change: ChangedProperty, after: Mapping[str, str]) -> str | None:
    key = change.key
    if key in _MERGING or key.startswith(MERGE_PROPERTY_PREFIX):
        if table.table_config.table_type is HoodieTableType.MERGE_ON_READ:
            return f"log files that are there would merge otherwise: {_COPY}"
        is_named = key.removeprefix(MERGE_PROPERTY_PREFIX) in (*_ORDERING, *DELETE_FIELD_KEYS)
        return _missing_columns(table, after[key]) if is_named and key in after else None
    if key.lower().startswith("hoodie.") and not key.startswith("hoodie."):
        return "the names of Hudi's properties begin with hoodie. in lower case"
    if key == LOGGING_MODE and after.get(key, _LOGGING_MODES[0]).strip().upper() not in _LOGGING_MODES:
        return f"it is {', '.join(_LOGGING_MODES[:-1])} or {_LOGGING_MODES[-1]}"
    if key == LOGGING_MODE and key in after and logging_mode_of(after) is None:
        return f"it has no meaning without {CDC_ENABLED}=true: set both"
    advice = next((advice for prefixes, advice in _INSTEAD if key.startswith(prefixes)), None)
    if advice is not None:
        return advice
    is_later = table.table_config.timeline_layout_version >= 2
    if key in _FREE or not key.startswith("hoodie.") or is_unknown(key, is_later):
        # A key that hoodie does not know may be removed; a new one is among the problems.
        return None
    return f"files follow it: {_COPY}"


def _merging_problems(properties: Mapping[str, str]) -> list[str]:
    """The reason for which a write of hoodie could not merge records, if there is one."""
    try:
        MergeSpec.from_table_config(HoodieTableConfig(properties))
    except HoodieException as error:
        return [str(error)]
    return []


def _missing_columns(table: TableSnapshot, names: str) -> str | None:
    if table.load_avro_schema() is None:
        return None
    schema = table.load_schema()
    columns = schema.names
    missing = [name for part in names.split(",") if (name := part.strip()) and not _has_path(schema, name.split("."))]
    return f"there is no column {', '.join(missing)}{spelled_otherwise(columns, missing)}" if missing else None


def _has_path(fields: Iterable[pa.Field], path: Sequence[str]) -> bool:
    field = find_field(fields, path[0])
    if field is None or len(path) == 1:
        return field is not None
    return pa.types.is_struct(field.type) and _has_path(field.type.fields, path[1:])


def _without_secret(change: ChangedProperty) -> ChangedProperty:
    if not is_sensitive(change.key):
        return change
    return ChangedProperty(change.key, change.before and "***", change.after and "***")
