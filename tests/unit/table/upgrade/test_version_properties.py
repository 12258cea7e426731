"""The properties of a table in another version, held against those that real Hudi 1.2 stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.common.model.key_generator_type import KEY_GENERATOR_PACKAGE
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_definition import TableDefinition
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.merge.payload_rules import PAYLOADS
from hoodie.table.upgrade.version_properties import VersionProperties, properties_in_version
from tests.unit.test_tables_of_real_hudi import folders_of_tables

MODEL = "org.apache.hudi.common.model."
CUSTOM_ID = "00000000-0000-0000-0000-000000000000"
MODE, STRATEGY = "hoodie.record.merge.mode", "hoodie.record.merge.strategy.id"
PAYLOAD, LEGACY = "hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"
ORDERING, PRECOMBINE = "hoodie.table.ordering.fields", "hoodie.table.precombine.field"
PARTIAL = "hoodie.table.partial.update.mode"
DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.record.merge.property.hoodie.payload.delete.marker"
UNAVAILABLE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
MERGING = (MODE, STRATEGY, PAYLOAD, LEGACY, ORDERING, PRECOMBINE, PARTIAL, DELETE_FIELD, DELETE_MARKER, UNAVAILABLE)


def definition(version: int, **arguments: Any) -> dict[str, str]:
    """The properties of a new table."""
    given = {"record_key_fields": "id", "partition_fields": "region", "ordering_fields": "ts", **arguments}
    return TableDefinition(table_name="t", table_version=version, **given).to_properties()


def change(properties: dict[str, str], version: int) -> VersionProperties:
    return properties_in_version(HoodieTableConfig(properties), version)


def changed(properties: dict[str, str], version: int) -> dict[str, str]:
    """The properties in another version, which hoodie can write."""
    found = change(properties, version)
    assert found.problems == ()
    HoodieTableConfig(found.properties).check_writable()
    return dict(found.properties)


def merging_of(properties: dict[str, str]) -> dict[str, str]:
    return {key: properties[key] for key in MERGING if key in properties}


# --- beside real Hudi -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "of_hudi_alone"),
    [
        # Hudi also stores older names of two properties, and leaves out the folder that is the default.
        ("replaced_6", "up_replaced_8", {"hoodie.compaction.record.merger.strategy"}),
        ("replaced_6", "up_replaced_9", {"hoodie.compaction.record.merger.strategy"}),
        ("up_replaced_8", "up_replaced_9", {"hoodie.compaction.record.merger.strategy"}),
        ("up_replaced_9", "dn_replaced_8", {"hoodie.compaction.record.merger.strategy"}),
        # What version 6 does not know stays where Hudi downgrades.
        (
            "dn_replaced_8",
            "dn_replaced_6",
            {
                "hoodie.compaction.record.merger.strategy",
                "hoodie.table.initial.version",
                "hoodie.table.keygenerator.type",
                "hoodie.timeline.path",
            },
        ),
    ],
)
def test_what_hudi_makes_of_a_table(later_tables: Path, before: str, after: str, of_hudi_alone: set[str]) -> None:
    def stored(name: str) -> dict[str, str]:
        (table,) = folders_of_tables(later_tables / name)
        return dict(TableSnapshot.load(str(table)).table_config.properties)

    expected = {key: value for key, value in stored(after).items() if key not in of_hudi_alone}
    found = changed(stored(before), int(expected["hoodie.table.version"]))
    assert found.pop("hoodie.timeline.history.path", "history") == "history"
    expected.pop("hoodie.table.checksum")
    assert found == expected


ON_9 = {
    "DefaultHoodieRecordPayload": {MODE: "EVENT_TIME_ORDERING", ORDERING: "ts"},
    "EventTimeAvroPayload": {MODE: "EVENT_TIME_ORDERING", ORDERING: "ts"},
    "OverwriteWithLatestAvroPayload": {MODE: "COMMIT_TIME_ORDERING", ORDERING: "ts"},
    "PartialUpdateAvroPayload": {MODE: "EVENT_TIME_ORDERING", PARTIAL: "IGNORE_DEFAULTS", ORDERING: "ts"},
    "OverwriteNonDefaultsWithLatestAvroPayload": {
        MODE: "COMMIT_TIME_ORDERING", PARTIAL: "IGNORE_DEFAULTS", ORDERING: "ts",
    },
    "AWSDmsAvroPayload": {MODE: "COMMIT_TIME_ORDERING", DELETE_FIELD: "Op", DELETE_MARKER: "D", ORDERING: "ts"},
    "debezium.MySqlDebeziumAvroPayload": {
        MODE: "EVENT_TIME_ORDERING", DELETE_FIELD: "_change_operation_type", DELETE_MARKER: "d",
        ORDERING: "_event_bin_file,_event_pos",
    },
    "debezium.PostgresDebeziumAvroPayload": {
        MODE: "EVENT_TIME_ORDERING", PARTIAL: "FILL_UNAVAILABLE", DELETE_FIELD: "_change_operation_type",
        DELETE_MARKER: "d", UNAVAILABLE: "__debezium_unavailable_value", ORDERING: "_event_lsn",
    },
}  # fmt: skip
"""Payload class -> what a table of version 9 stores, beside the legacy class."""


@pytest.mark.parametrize("payload", ON_9)
def test_each_payload_class_of_version_6_on_9_and_back(payload: str) -> None:
    ordering = {"MySql": "_event_seq", "Postgres": "_event_lsn"}.get(
        payload.removeprefix("debezium.").removesuffix("DebeziumAvroPayload"), "ts"
    )
    before = definition(6, payload_class=MODEL + payload, ordering_fields=ordering)
    on_9 = changed(before, 9)
    assert merging_of(on_9) == {**ON_9[payload], LEGACY: MODEL + payload}
    assert changed(on_9, 6) == before
    on_8 = changed(on_9, 8)
    assert on_8[PAYLOAD] == MODEL + payload and on_8[PRECOMBINE] == ordering and PARTIAL not in on_8
    assert on_8[MODE] == PAYLOADS[MODEL + payload].mode and STRATEGY in on_8
    assert changed(before, 8) == on_8
    assert merging_of(changed(on_8, 9)) == merging_of(on_9)
    assert changed(on_8, 6) == before


def test_other_payload_classes_are_custom() -> None:
    before = definition(6, payload_class="FirstValueAvroPayload")
    for version in (8, 9):
        on_later = changed(before, version)
        assert on_later[MODE] == "CUSTOM" and on_later[STRATEGY] == CUSTOM_ID
        assert on_later[PAYLOAD] == f"{MODEL}FirstValueAvroPayload" and LEGACY not in on_later
        assert changed(on_later, 6) == before


def test_a_record_merger_in_python_stays() -> None:
    before = {**definition(6), PAYLOAD: "python:shop.mergers.Largest"}
    on_9 = changed(before, 9)
    assert (on_9[MODE], on_9[PAYLOAD]) == ("CUSTOM", "python:shop.mergers.Largest")
    assert changed(on_9, 6) == before


def test_a_table_without_a_payload_class_is_merged_as_hudi_upgrades_it_and_the_result_says_so() -> None:
    before = {key: value for key, value in definition(6).items() if key != PAYLOAD}
    found = change(before, 9)
    assert found.properties[MODE] == "EVENT_TIME_ORDERING"
    assert len(found.notes) == 1 and "larger value of ts" in found.notes[0]
    without = {key: value for key, value in before.items() if key != PRECOMBINE}
    found = change(without, 9)
    assert found.properties[MODE] == "COMMIT_TIME_ORDERING" and not found.notes


@pytest.mark.parametrize("version", [8, 9])
def test_delete_markers_of_a_table(version: int) -> None:
    markers = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "gone"}
    before = definition(6, properties=markers)
    on_later = changed(before, version)
    assert (on_later[DELETE_FIELD], on_later[DELETE_MARKER]) == ("op", "gone")
    assert not on_later.keys() & markers.keys()
    assert changed(on_later, 6) == before


def test_a_table_that_hudi_1_x_made_in_version_6() -> None:
    before = definition(6)
    before[ORDERING] = before.pop(PRECOMBINE)
    before |= {STRATEGY: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "hoodie.table.format": "native",
               "hoodie.archivelog.folder": "history", "hoodie.table.keygenerator.type": "SIMPLE",
               "hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history"}  # fmt: skip
    del before["hoodie.table.keygenerator.class"]
    on_9 = changed(before, 9)
    assert on_9[MODE] == "EVENT_TIME_ORDERING" and STRATEGY not in on_9
    on_6 = changed(on_9, 6)
    assert on_6["hoodie.table.keygenerator.class"] == f"{KEY_GENERATOR_PACKAGE}SimpleKeyGenerator"
    assert on_6["hoodie.archivelog.folder"] == "history" and on_6[PRECOMBINE] == "ts"


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, "SIMPLE"),
        ({"partition_fields": ""}, "NON_PARTITION"),
        ({"record_key_fields": "id,ts"}, "COMPLEX"),
        ({"partition_fields": "region:SIMPLE,city:SIMPLE"}, "CUSTOM"),
        ({"key_generator": "shop.keys.Mine"}, "USER_PROVIDED"),
    ],
)
def test_key_generators(arguments: dict[str, Any], kind: str) -> None:
    before = definition(6, **arguments)
    for version in (8, 9):
        on_later = changed(before, version)
        assert on_later["hoodie.table.keygenerator.type"] == kind
        of_new = definition(version, **arguments)
        assert on_later.get("hoodie.table.partition.fields", "") == of_new.get("hoodie.table.partition.fields", "")
        back = changed(on_later, 6)
        assert back == before
        made_later = changed(of_new, 6)
        names = ("hoodie.table.keygenerator.class", "hoodie.table.partition.fields",
                 "hoodie.datasource.write.partitionpath.field")  # fmt: skip
        assert [made_later.get(name) for name in names] == [before.get(name) for name in names]


def test_key_generators_for_avro_records() -> None:
    before = {**definition(6), "hoodie.table.keygenerator.class": f"{KEY_GENERATOR_PACKAGE}SimpleAvroKeyGenerator"}
    assert changed(before, 9)["hoodie.table.keygenerator.type"] == "SIMPLE_AVRO"


# --- what a version cannot hold ---------------------------------------------------------------------------------------


def problems(properties: dict[str, str], version: int) -> str:
    return "; ".join(change(properties, version).problems)


def test_several_ordering_fields_go_to_8_and_not_to_6() -> None:
    of_9 = definition(9, ordering_fields="ts,fare")
    assert changed(of_9, 8)[PRECOMBINE] == "ts,fare"
    assert f"{ORDERING}=ts,fare (version 6 orders records by one field" in problems(of_9, 6)


@pytest.mark.parametrize("version", [6, 8])
def test_partial_updates_without_a_payload_class_that_stands_for_them(version: int) -> None:
    of_9 = {**definition(9), PARTIAL: "IGNORE_DEFAULTS"}
    assert f"{PARTIAL}=IGNORE_DEFAULTS (version {version} has no partial updates" in problems(of_9, version)
    other = {**of_9, LEGACY: f"{MODEL}DefaultHoodieRecordPayload"}
    assert PARTIAL in problems(other, version)


def test_a_custom_merge_strategy_without_a_payload_class() -> None:
    of_9 = {**definition(9), MODE: "CUSTOM", STRATEGY: "1897ef5f-18bc-4557-939c-9d6a8afd1519"}
    assert STRATEGY in problems(of_9, 6) or MODE in problems(of_9, 6)


def test_delete_markers_that_the_payload_class_of_version_6_does_not_take() -> None:
    of_9 = {**definition(9, ordering_fields=""), DELETE_FIELD: "op", DELETE_MARKER: "gone"}
    assert f"{DELETE_FIELD}=op (version 6 has no delete markers" in problems(of_9, 6)


def test_folders_of_the_timeline_that_version_6_readers_would_not_expect() -> None:
    of_9 = {**definition(9), "hoodie.timeline.path": "elsewhere"}
    assert "hoodie.timeline.path=elsewhere" in problems(of_9, 6)
    assert changed(of_9, 8)["hoodie.timeline.path"] == "elsewhere"


def test_merging_by_time_of_the_event_without_an_ordering_field() -> None:
    """It takes the later write, as version 6 says by another payload class."""
    of_9 = {**definition(9, ordering_fields=""), MODE: "EVENT_TIME_ORDERING"}
    assert changed(of_9, 6)[PAYLOAD] == f"{MODEL}OverwriteWithLatestAvroPayload"
