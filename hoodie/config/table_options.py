"""Properties by which a writer describes its table. The table's own properties decide; these must agree with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, choice, column_names, property_field, text
from hoodie.common.model.key_generator_type import (
    KEY_GENERATOR_PACKAGE,
    KEY_GENERATORS,
    infer_key_generator_type,
)
from hoodie.common.model.supplemental_logging_mode import (
    CDC_ENABLED,
    LOGGING_MODE,
    HoodieCDCSupplementalLoggingMode,
)
from hoodie.common.model.table_version import TABLE_VERSIONS
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.merge.merge_modes import REPLACED_PAYLOADS, is_by_mode, merge_alike, payload_of_table, says_how_it_merges
from hoodie.merge.payload_rules import PAYLOADS, canonical_payload_class, instead_of_payload

logger = logging.getLogger(__name__)

_KEY_GENERATORS = {**KEY_GENERATORS, "GLOBAL_DELETE": "GlobalDeleteKeyGenerator"}


class TimelineTimezone(StrEnum):
    """The time zone of a table's instant times.

    Hudi: org.apache.hudi.common.model.HoodieTimelineTimeZone.
    """

    UTC = "UTC"
    LOCAL = "LOCAL"


class HasProperties(Protocol):
    """Anything that holds a table's properties, such as a HoodieTableConfig."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties as they are stored."""


def _table_version() -> Parser[int]:
    names = {name: version for version, name in TABLE_VERSIONS.items()}

    def parse(value: str) -> int:
        named = {**names, **{str(version): version for version in TABLE_VERSIONS}}.get(value.upper())
        if named is None:
            raise ValueError
        return named

    return Parser(parse, "6, 8 or 9")


def _key_generator_class() -> Parser[str]:
    def parse(value: str) -> str:
        if not value:
            raise ValueError
        name = _class_of_type(value)
        return name if "." in name else f"{KEY_GENERATOR_PACKAGE}{name}"

    return Parser(parse, "the name of a key generator class")


def _class_of_type(name: str) -> str:
    """The class of a type of key generators, such as ``SIMPLE`` or ``SIMPLE_AVRO``; any other name as it is."""
    return _KEY_GENERATORS.get(name.upper().removesuffix("_AVRO"), name)


def _payload_class() -> Parser[str]:
    def parse(value: str) -> str:
        if not value:
            raise ValueError
        name = canonical_payload_class(value)
        if name.endswith(".EmptyHoodieRecordPayload"):
            raise ValueError(instead_of_payload(name))
        return name

    return Parser(parse, "the name of a payload class")


@attrs.frozen(kw_only=True, repr=False)
class HoodieTableOptions(PropertyGroup):
    """The table as the writer's properties describe it; None for what they do not mention.

    Hudi configurations repeat the table's keys and columns for every write. They describe a new table (`init_table`);
    for an existing table they must not contradict it: `contradictions` lists where they do.

    Hudi: org.apache.hudi.DataSourceWriteOptions and org.apache.hudi.common.table.HoodieTableConfig.
    """

    table_name: str | None = property_field(
        "hoodie.table.name", text(), None, alternatives=("hoodie.datasource.write.table.name",)
    )
    """Name of the table."""
    database_name: str | None = property_field("hoodie.database.name", text(), None)
    """Name of the table's database."""
    table_type: HoodieTableType | None = property_field(
        "hoodie.datasource.write.table.type",
        choice(HoodieTableType),
        None,
        alternatives=("hoodie.table.type", "hoodie.datasource.write.storage.type"),
    )
    """The type of the table."""
    table_version: int | None = property_field(
        "hoodie.write.table.version",
        _table_version(),
        None,
        alternatives=("hoodie.table.version",),
        since="1.0.0",
    )
    """The version of a new table: 6 (for Hudi 0.14 and later), 8 (Hudi 1.0 and later) or 9 (Hudi 1.1 and later). A new
    table is of version 9 if none is given. An existing table keeps its version: an earlier one is refused, and a later
    one too, unless `hoodie.write.auto.upgrade` is set."""
    auto_upgrade: bool = property_field("hoodie.write.auto.upgrade", boolean(), False, since="1.0.0")
    """Upgrade an existing table that is of an earlier version than `hoodie.write.table.version`, before a write begins.
    A merge-on-read table is compacted first. With false such a write is refused; call `HoodieTableMetaClient.upgrade`.
    Hudi 0.15 cannot read an upgraded table, so hoodie's default is false. (Hudi 1.x upgrades by default, also if no
    version is given.)"""
    record_key_fields: tuple[str, ...] | None = property_field(
        "hoodie.datasource.write.recordkey.field", column_names(), None, alternatives=("hoodie.table.recordkey.fields",)
    )
    """The columns of the record key."""
    keyless: bool | None = property_field("hoodie.write.keyless", boolean(), None, is_ours=True)
    """Whether a new table has no record key: its keys are generated, and `hoodie.datasource.write.recordkey.field` is
    left out. In `format("hoodie")` and `hoodie.spark.write` a new table without that option is one, as in Hudi's data
    source. An existing table must be one, or not. See `docs/keyless-tables.md`."""
    partition_fields: tuple[str, ...] | None = property_field(
        "hoodie.datasource.write.partitionpath.field",
        column_names(),
        None,
        alternatives=("hoodie.table.partition.fields",),
    )
    """The columns of the partition path; empty for a table without partitions."""
    ordering_fields: tuple[str, ...] | None = property_field(
        "hoodie.datasource.write.precombine.field",
        column_names(),
        None,
        alternatives=("hoodie.table.precombine.field", "hoodie.table.ordering.fields", "hoodie.payload.ordering.field"),
    )
    """The column whose larger value wins among records with the same key; several, in tables of versions 8 and 9, are
    compared from left to right."""
    key_generator_class: str | None = property_field(
        "hoodie.datasource.write.keygenerator.class",
        _key_generator_class(),
        None,
        alternatives=(
            "hoodie.table.keygenerator.class",
            "hoodie.datasource.write.keygenerator.type",
            "hoodie.table.keygenerator.type",
        ),
    )
    """The class that makes record key and partition path from the columns."""
    payload_class: str | None = property_field(
        "hoodie.datasource.write.payload.class",
        _payload_class(),
        None,
        alternatives=(
            "hoodie.compaction.payload.class",
            "hoodie.datasource.write.payload.type",
            "hoodie.compaction.payload.type",
        ),
    )
    """How a stored record and an incoming record with the same key merge: a payload class of Hudi, with or without its
    package, or its short name. A new table of version 9 stores what stands for it instead."""
    hive_style_partitioning: bool | None = property_field(
        "hoodie.datasource.write.hive_style_partitioning", boolean(), None
    )
    """Name partition folders `column=value`."""
    url_encode_partitioning: bool | None = property_field(
        "hoodie.datasource.write.partitionpath.urlencode", boolean(), None
    )
    """URL-encode partition values in folder names."""
    complex_keygen_new_encoding: bool | None = property_field(
        "hoodie.write.complex.keygen.new.encoding", boolean(), None, since="1.1.0"
    )
    """The form of the keys of ComplexKeyGenerator with one field, for tables without records: true for the value alone,
    as Hudi 0.15.0 writes it; false, or not given, for `field:value`. A table with records keeps its form."""
    populate_meta_fields: bool | None = property_field("hoodie.populate.meta.fields", boolean(), None)
    """With false the table stores no record keys, partition paths and commit times (virtual keys): it is smaller, and
    only supports insert and bulk_insert."""
    cdc_enabled: bool | None = property_field(CDC_ENABLED, boolean(), None)
    """Store change data: beside each new version of a base file, a file with its changes. A table that exists begins to
    store it by `hoodie.Table.set_properties`."""
    cdc_logging_mode: HoodieCDCSupplementalLoggingMode | None = property_field(
        LOGGING_MODE, choice(HoodieCDCSupplementalLoggingMode), None
    )
    """The part of each change that is stored: `DATA_BEFORE_AFTER` (the default of a new table) makes queries of changes
    fastest, `OP_KEY_ONLY` takes the least room."""
    timeline_timezone: TimelineTimezone | None = property_field(
        "hoodie.table.timeline.timezone", choice(TimelineTimezone), None
    )
    """The time zone of the table's instant times: UTC (the default of a new table) or LOCAL, the zone of the writing
    machine."""
    archive_folder: str | None = property_field("hoodie.archivelog.folder", text(), None)
    """The folder of the archived timeline, in `.hoodie`. New tables of version 6 use `archived`, and no other is
    supported; versions 8 and 9 do not use the property."""

    def contradictions(self, table: HasProperties) -> list[str]:
        """Compare these properties with those of the table.

        Args:
            table: The table's configuration.

        Returns:
            One sentence for each difference: the writer's property and value, the table's, and what to do.
        """
        stored = table.properties
        found: list[str] = []

        def compare(key: str, given: object, actual: object, table_key: str = "") -> None:
            if given is not None and given != actual:
                has = f"the table has {_show(actual)} ({table_key or key})"
                found.append(f"{key} = {_show(given)}: {has}; leave it out, or write to a table made with it")

        def compare_flag(key: str, given: bool | None, default: str) -> None:
            compare(key, given, stored.get(key, default).strip().lower() == "true")

        compare("hoodie.table.name", self.table_name, stored.get("hoodie.table.name"))
        # A table without the property belongs to any database.
        database_name = stored.get("hoodie.database.name", self.database_name)
        compare("hoodie.database.name", self.database_name, database_name)
        table_type = stored.get("hoodie.table.type", "COPY_ON_WRITE")
        compare("hoodie.datasource.write.table.type", self.table_type, table_type, "hoodie.table.type")
        version = version_of(stored)
        wanted = self.table_version if self.table_version is not None else version
        if wanted > version and not self.auto_upgrade:
            found.append(
                f"hoodie.write.table.version = {wanted}: the table is of version {version} (hoodie.table.version); "
                "leave it out, or upgrade the table: by HoodieTableMetaClient.upgrade, or by this write with "
                "hoodie.write.auto.upgrade=true"
            )
        elif wanted < version:
            found.append(
                f"hoodie.write.table.version = {wanted}: the table is of version {version} (hoodie.table.version); "
                "leave it out, or downgrade the table by HoodieTableMetaClient.downgrade"
            )
        ordering = "hoodie.table.precombine.field"
        if ordering not in stored and "hoodie.table.ordering.fields" in stored:
            ordering = "hoodie.table.ordering.fields"
        orderings = None if _brings_ordering_fields(stored, version) else self.ordering_fields
        is_keyless = not stored.get("hoodie.table.recordkey.fields", "").strip()
        if is_keyless and self.record_key_fields:
            found.append(
                f"hoodie.datasource.write.recordkey.field = {_show(self.record_key_fields)}: the table has no record "
                "key fields, its keys are generated; leave it out, or write to a table made with it"
            )
        elif self.keyless is not None and self.keyless != is_keyless:
            has = "no record key fields, its keys are generated" if is_keyless else "record key fields"
            found.append(f"hoodie.write.keyless = {_show(self.keyless)}: the table has {has}; leave it out")
        if is_keyless and orderings:
            logger.info(
                "hoodie.datasource.write.precombine.field = %s is ignored: the table generates its keys, so no two "
                "records have one key",
                ",".join(orderings),
            )
            orderings = None
        keys = None if is_keyless else self.record_key_fields
        for key, given, table_key in (
            ("hoodie.datasource.write.recordkey.field", keys, "hoodie.table.recordkey.fields"),
            ("hoodie.datasource.write.partitionpath.field", self.partition_fields, "hoodie.table.partition.fields"),
            ("hoodie.datasource.write.precombine.field", orderings, ordering),
        ):
            compare(key, given and _without_types(given), _without_types(_split(stored.get(table_key, ""))), table_key)
        self._compare_partition_types(stored, found)
        self._compare_classes(stored, found)
        compare_flag("hoodie.datasource.write.hive_style_partitioning", self.hive_style_partitioning, "false")
        compare_flag("hoodie.datasource.write.partitionpath.urlencode", self.url_encode_partitioning, "false")
        compare_flag("hoodie.populate.meta.fields", self.populate_meta_fields, "true")
        self._compare_change_data(stored, found)
        key = "hoodie.table.timeline.timezone"
        compare(key, self.timeline_timezone, stored.get(key, "").strip().upper() or TimelineTimezone.LOCAL)
        key = "hoodie.archivelog.folder"
        if not is_by_mode(version):
            # Later versions have the property, and do not use it.
            compare(key, self.archive_folder, stored.get(key, "").strip() or "archived")
        return found

    def _compare_change_data(self, stored: Mapping[str, str], found: list[str]) -> None:
        """Compare whether, and how, change data is stored; a mode is of no account where none is."""
        enabled = stored.get(CDC_ENABLED, "").strip().lower() == "true"
        mode = stored.get(LOGGING_MODE, "").strip().upper() or HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER
        key, given, actual = CDC_ENABLED, _show(self.cdc_enabled), _show(enabled)
        if enabled and self.cdc_enabled is not False and self.cdc_logging_mode is not None:
            key, given, actual = LOGGING_MODE, _show(self.cdc_logging_mode), _show(mode)
        elif self.cdc_enabled is None:
            return
        if given != actual:
            found.append(
                f"{key} = {given}: the table has {actual}; leave it out, or change the table by "
                "hoodie.Table.set_properties"
            )

    def _compare_partition_types(self, stored: Mapping[str, str], found: list[str]) -> None:
        """Compare the types of CustomKeyGenerator's partition fields, if both sides give them."""
        key = "hoodie.datasource.write.partitionpath.field"
        table_key = key if key in stored else "hoodie.table.partition.fields"
        given = [name.upper().partition(":")[2].strip() for name in self.partition_fields or ()]
        actual = [name.upper().partition(":")[2].strip() for name in _split(stored.get(table_key, ""))]
        if any(given) and any(actual) and given != actual and len(given) == len(actual):
            found.append(
                f"{key} = {_show(self.partition_fields)}: the table has {stored[table_key]!r}; leave it out, or write "
                "to a table made with it"
            )

    def _compare_classes(self, stored: Mapping[str, str], found: list[str]) -> None:
        if self.key_generator_class is not None:
            table_class = stored.get("hoodie.table.keygenerator.class") or stored.get("hoodie.table.keygenerator.type")
            actual = _short_key_generator(table_class or _inferred_key_generator(stored))
            if _short_key_generator(self.key_generator_class) != actual:
                found.append(
                    f"hoodie.datasource.write.keygenerator.class = '{self.key_generator_class}': the table's keys are "
                    f"made by {actual} (hoodie.table.keygenerator.class); leave it out, or write to a table made "
                    "with it"
                )
        version = version_of(stored)
        if self.payload_class is not None and says_how_it_merges(stored, version):
            payload = payload_of_table(stored, version)
            if not merge_alike(self.payload_class, payload, version):
                advice = "leave it out, or write to a table made with it"
                if self.payload_class not in PAYLOADS:
                    advice = instead_of_payload(self.payload_class)
                key = "hoodie.record.merge.mode" if is_by_mode(version) else "hoodie.compaction.payload.class"
                found.append(
                    f"hoodie.datasource.write.payload.class = '{self.payload_class}': the table merges records by "
                    f"{payload.rpartition('.')[2]} ({key}); {advice}"
                )


def version_of(stored: Mapping[str, str]) -> int:
    """The version of a table, 0 if its properties name none.

    Args:
        stored: The table's properties.
    """
    version = stored.get("hoodie.table.version", "").strip()
    return int(version) if version.isdecimal() else 0


def _brings_ordering_fields(stored: Mapping[str, str], version: int) -> bool:
    """Whether the payload class that the table was made with decides its ordering fields, whatever writers name."""
    if not is_by_mode(version) or not says_how_it_merges(stored, version):
        return False
    replaced = REPLACED_PAYLOADS.get(payload_of_table(stored, version))
    brought = replaced.ordering_fields if replaced is not None else ()
    return bool(brought) and _split(stored.get("hoodie.table.ordering.fields", "")) == brought


def _split(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _without_types(names: tuple[str, ...]) -> tuple[str, ...]:
    # CustomKeyGenerator's partition fields carry a type: "ts:TIMESTAMP".
    return tuple(name.partition(":")[0] for name in names)


def _short_key_generator(name: str) -> str:
    return _class_of_type(name).rpartition(".")[2].replace("Avro", "")


def _inferred_key_generator(stored: Mapping[str, str]) -> str:
    keys, partitions = "hoodie.table.recordkey.fields", "hoodie.table.partition.fields"
    return infer_key_generator_type(_split(stored.get(keys, "")), _split(stored.get(partitions, "")))


def _show(value: object) -> str:
    match value:
        case None | ():
            return "none"
        case tuple():
            return repr(",".join(value))
        case bool():
            return str(value).lower()
    return repr(str(value))
