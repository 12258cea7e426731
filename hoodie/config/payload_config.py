"""Properties that say how records with the same key merge. The table's own properties decide; these must agree."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, choice, property_field, text
from hoodie.config.table_options import HasProperties, version_of
from hoodie.merge.merge_modes import TableMerging, is_by_mode, payload_of_table, says_how_it_merges
from hoodie.merge.merge_properties import (
    DELETE_FIELD_KEYS,
    DELETE_MARKER_KEYS,
    MERGER_KEYS,
    MODE_KEYS,
    STRATEGY_KEYS,
    MergeProperties,
)
from hoodie.merge.payload_rules import MergeMode

_HUDI_MERGER = "org.apache.hudi.common.model.HoodieAvroRecordMerger"


class MissingKeyPolicy(StrEnum):
    """The treatment of a key that the table does not have, by a partial update."""

    FAIL = "FAIL"
    INSERT = "INSERT"


class NewColumnPolicy(StrEnum):
    """The treatment of a column that the table does not have, by a partial update."""

    FAIL = "FAIL"
    ADD = "ADD"


def _merger_class() -> Parser[str | None]:
    def parse(value: str) -> str | None:
        names = [name.strip() for name in value.split(",") if name.strip() and name.strip() != _HUDI_MERGER]
        java = next((name for name in names if name.startswith("org.apache.hudi.")), None)
        if java is not None:
            raise ValueError(
                f"{java} is a Java class, and hoodie cannot call it: leave it out, or give package.module.Class of a "
                "hoodie.HoodieRecordMerger"
            )
        if len(names) > 1:
            raise ValueError(f"one class, not {len(names)}")
        if names and not all(part.isidentifier() for part in names[0].split(".")):
            raise ValueError
        return names[0] if names else None

    return Parser(parse, "package.module.Class of a subclass of hoodie.HoodieRecordMerger")


@attrs.frozen(kw_only=True, repr=False)
class HoodiePayloadConfig(PropertyGroup):
    """Merging of records, as the writer's properties say.

    Hudi: org.apache.hudi.config.HoodiePayloadConfig (and a few of org.apache.hudi.config.HoodieWriteConfig).
    """

    delete_field: str | None = property_field(
        "hoodie.payload.delete.field",
        text(),
        None,
        alternatives=("hoodie.record.merge.property.hoodie.payload.delete.field",),
    )
    """The column that marks deletes, for the payload classes DefaultHoodieRecordPayload, EventTimeAvroPayload and
    FirstValueAvroPayload, and for the merge modes COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING."""
    delete_marker: str | None = property_field(
        "hoodie.payload.delete.marker",
        text(),
        None,
        alternatives=("hoodie.record.merge.property.hoodie.payload.delete.marker",),
    )
    """The value of the column `hoodie.payload.delete.field` that marks a delete."""
    merge_mode: MergeMode | None = property_field(
        "hoodie.write.record.merge.mode",
        choice(MergeMode),
        None,
        alternatives=("hoodie.record.merge.mode",),
        since="1.0.0",
    )
    """How records merge, by the names of Hudi 1.x. In tables of version 6, COMMIT_TIME_ORDERING is
    OverwriteWithLatestAvroPayload, EVENT_TIME_ORDERING is DefaultHoodieRecordPayload (or EventTimeAvroPayload), CUSTOM
    is any other payload class or a record merger. Tables of versions 8 and 9 store the mode."""
    merge_strategy: str | None = property_field(
        "hoodie.write.record.merge.strategy.id",
        text(),
        None,
        alternatives=(
            "hoodie.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
            "hoodie.compaction.record.merger.strategy",
        ),
    )
    """The id of the merge strategy; it must be that of the table's payload class."""
    merger_class: str | None = property_field(
        "hoodie.write.record.merge.custom.implementation.classes",
        _merger_class(),
        None,
        alternatives=("hoodie.datasource.write.record.merger.impls",),
    )
    """Your own class that merges records, as `package.module.Class` or as a class: a subclass of
    `hoodie.HoodieRecordMerger`. A table created with it can only be written with it."""
    partial_update: bool = property_field("hoodie.write.partial.update", boolean(), False, is_ours=True)
    """Upsert changes only the columns that the input has; the table's other columns keep their values. A null in a
    column that the input has is written. This does not affect the other operations: insert and bulk_insert need all
    columns, and delete removes whole records and ignores keys that are not in the table."""
    missing_keys: MissingKeyPolicy = property_field(
        "hoodie.write.partial.update.missing.keys", choice(MissingKeyPolicy), MissingKeyPolicy.FAIL, is_ours=True
    )
    """What a partial update does with a key that the table does not have: FAIL refuses the write before anything is
    written, INSERT adds a record with nulls in the columns that the input lacks."""
    new_columns: NewColumnPolicy = property_field(
        "hoodie.write.partial.update.new.columns", choice(NewColumnPolicy), NewColumnPolicy.FAIL, is_ours=True
    )
    """What a partial update does with a column, or a field of a struct, that the table does not have: FAIL refuses the
    write before anything is written and names the nearest column, ADD adds it to the table. This also applies if the
    table's payload class accepts input with fewer columns, and the input lacks some."""

    def table_properties(self) -> dict[str, str]:
        """The properties that a new table stores, in the form that `HoodieTableMetaClient.init_table` takes."""
        given = {
            DELETE_FIELD_KEYS[0]: self.delete_field,
            DELETE_MARKER_KEYS[0]: self.delete_marker,
            MODE_KEYS[0]: self.merge_mode.value if self.merge_mode is not None else None,
            STRATEGY_KEYS[0]: self.merge_strategy,
            MERGER_KEYS[0]: self.merger_class,
        }
        return {key: value for key, value in given.items() if value is not None}

    def contradictions(self, table: HasProperties) -> list[str]:
        """Compare these properties with those of the table.

        Args:
            table: The table's configuration.

        Returns:
            One sentence for each difference, with both values; none for a table whose own properties are not supported.
        """
        stored = MergeProperties.of(table.properties)
        version = version_of(table.properties)
        if not says_how_it_merges(table.properties, version):
            return []
        payload = payload_of_table(table.properties, version)
        mode = TableMerging.of(table.properties).mode if is_by_mode(version) else None
        given = MergeProperties(
            mode=self.merge_mode.value if self.merge_mode is not None else None,
            strategy=self.merge_strategy,
            merger=self.merger_class,
            delete_field=self.delete_field,
            delete_marker=self.delete_marker,
        )
        found = given.problems(payload, mode)
        for key, mine, other in (
            ("hoodie.payload.delete.field", self.delete_field, stored.delete_field),
            ("hoodie.payload.delete.marker", self.delete_marker, stored.delete_marker),
        ):
            if mine is not None and other is not None and mine != other:
                found.append(f"{key} = {mine!r}: the table has {other!r}")
        return [f"{problem}; leave it out, or write to a table made with it" for problem in found]
