"""New tables of versions 8 and 9 have the properties that Hudi 1.2 stores for the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.client.new_table import table_to_create
from hoodie.common.config.java_properties import parse_properties
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_definition import TableDefinition
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.merge.merge_modes import PartialUpdateMode
from hoodie.merge.payload_rules import MergeMode
from hoodie.merge.record_merger import HoodieRecordMerger, MergeOutcome

MODEL = "org.apache.hudi.common.model."
MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
PAYLOAD = "hoodie.compaction.payload.class"
LEGACY = "hoodie.table.legacy.payload.class"
PARTIAL = "hoodie.table.partial.update.mode"
ORDERING = "hoodie.table.ordering.fields"
PROPERTY = "hoodie.record.merge.property.hoodie."
EVENT_ID, COMMIT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
BY_PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
MERGING = (MODE, STRATEGY, PAYLOAD, LEGACY, PARTIAL, ORDERING)


def properties_of(version: int = 9, **arguments: Any) -> dict[str, str]:
    given = {"table_name": "t", "record_key_fields": "id", "table_version": version} | arguments
    return TableDefinition(**given).to_properties()


def merging_of(properties: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key in MERGING or key.startswith(PROPERTY)}


class Larger(HoodieRecordMerger):
    """Merges by nothing in particular."""

    def merge(self, older: Any, newer: Any, record_keys: Any) -> MergeOutcome:
        return MergeOutcome.choose([True] * newer.num_rows)


# --- the whole file ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "version", "arguments"),
    [
        ("v9_cow", 9, {}),
        ("v8_cow", 8, {}),
        ("v9_commit_mode", 9, {"properties": {MODE: "COMMIT_TIME_ORDERING"}}),
        ("v9_two_ordering", 9, {"ordering_fields": ["ts", "fare"]}),
        *[
            (f"v9_pay_{name}", 9, {"payload_class": name})
            for name in (
                "AWSDmsAvroPayload", "DefaultHoodieRecordPayload", "FirstValueAvroPayload",
                "OverwriteNonDefaultsWithLatestAvroPayload", "OverwriteWithLatestAvroPayload",
                "PartialUpdateAvroPayload",
            )
        ],
    ],
)  # fmt: skip
def test_the_properties_are_those_of_real_hudi(
    later_tables: Path, table: str, version: int, arguments: dict[str, Any]
) -> None:
    (file,) = [
        path for path in (later_tables / table).rglob(".hoodie/hoodie.properties") if "metadata" not in path.parts
    ]
    expected = parse_properties(file.read_bytes())
    del expected["hoodie.table.checksum"]
    assert expected.pop("hoodie.table.type") in list(HoodieTableType)
    made = properties_of(version, **({"partition_fields": "p", "ordering_fields": "ts"} | arguments))
    assert made.pop("hoodie.table.type") == "COPY_ON_WRITE"
    if version == 8:
        # Beside it, as Hudi 1.0 knows no other name.
        assert made.pop("hoodie.table.precombine.field") == made[ORDERING]
    assert made == expected


@pytest.mark.parametrize("version", [8, 9])
def test_the_folders_are_those_that_hudi_makes(tmp_path: Path, version: int) -> None:
    client = HoodieTableMetaClient.init_table(
        str(tmp_path / "t"), table_name="t", record_key_fields="id", table_version=version
    )
    folders = sorted(str(path.relative_to(tmp_path / "t/.hoodie")) for path in (tmp_path / "t/.hoodie").rglob("*/"))
    assert [name for name in folders if not name.startswith(".")] == ["timeline", "timeline/history"]
    assert {".aux/.bootstrap/.fileids", ".aux/.bootstrap/.partitions", ".schema", ".temp"} < set(folders)
    assert (client.table_config.table_version, client.table_config.timeline_layout_version) == (version, 2)
    assert client.table_config.archive_folder == "timeline/history" and len(client.active_timeline) == 0
    client.table_config.check_writable()


def test_the_version_is_that_of_the_constant_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = "hoodie.common.table.table_definition.DEFAULT_TABLE_VERSION"
    for version in (6, 8, 9):
        monkeypatch.setattr(definition, version)
        for named in (None, 6, 8, 9):
            made = TableDefinition(table_name="t", record_key_fields="id", table_version=named).to_properties()
            assert made["hoodie.table.version"] == str(named or version)


@pytest.mark.parametrize("version", [0, 5, 7, 10, "nine", True, 9.5])
def test_other_versions_are_refused_by_name(version: Any) -> None:
    with pytest.raises(HoodieNotSupportedException, match=f"table_version {version!r} is not supported: use 6"):
        properties_of(version)


# --- fields and keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "fields", "extractor"),
    [
        ({}, "NON_PARTITION", "", "NonPartitionedExtractor"),
        ({"partition_fields": "p"}, "SIMPLE", "p", "SinglePartPartitionValueExtractor"),
        (
            {"partition_fields": "p", "hive_style_partitioning": True},
            "SIMPLE",
            "p",
            "HiveStylePartitionValueExtractor",
        ),
        (
            {"record_key_fields": "a,b", "partition_fields": "p,q"},
            "COMPLEX",
            "p,q",
            "MultiPartKeysValueExtractor",
        ),
        ({"partition_fields": "p,q"}, "CUSTOM", "p:SIMPLE,q:SIMPLE", "MultiPartKeysValueExtractor"),
        (
            {
                "partition_fields": "p:SIMPLE,ts:TIMESTAMP",
                "properties": {
                    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
                    "hoodie.keygen.timebased.output.dateformat": "yyyy",
                },
            },
            "CUSTOM",
            "p:SIMPLE,ts:TIMESTAMP",
            "MultiPartKeysValueExtractor",
        ),
    ],
)
def test_the_key_generator_is_a_type(arguments: dict[str, Any], kind: str, fields: str, extractor: str) -> None:
    properties = properties_of(**arguments)
    assert properties["hoodie.table.keygenerator.type"] == kind
    assert properties["hoodie.table.partition.fields"] == fields
    assert properties["hoodie.table.partition_extractor_class"] == f"org.apache.hudi.hive.{extractor}"
    assert "hoodie.table.keygenerator.class" not in properties
    assert "hoodie.datasource.write.partitionpath.field" not in properties
    names = (name.partition(":")[0] for name in fields.split(",") if name)
    assert HoodieTableConfig(properties).partition_fields == tuple(names)


def test_a_users_key_generator_keeps_its_class() -> None:
    properties = properties_of(partition_fields="p", key_generator="shop.keys.ByInitial")
    assert properties["hoodie.table.keygenerator.type"] == "USER_PROVIDED"
    config = HoodieTableConfig(properties)
    assert config.key_generator_class == "shop.keys.ByInitial"
    config.check_writable()
    del properties["hoodie.table.keygenerator.class"]
    with pytest.raises(HoodieNotSupportedException, match=r"keygenerator\.type=USER_PROVIDED"):
        HoodieTableConfig(properties).check_writable()


def test_several_ordering_fields_are_kept_in_their_order() -> None:
    for version in (8, 9):
        config = HoodieTableConfig(properties_of(version, ordering_fields=["ts", "id"]))
        assert config.ordering_fields == ("ts", "id")
        config.check_writable()
    with pytest.raises(HoodieConfigException, match="or use table_version=9"):
        properties_of(6, ordering_fields=["ts", "id"])


@pytest.mark.parametrize("folder", ["history", "archived"])
def test_the_unused_archive_folder_may_be_named_as_hudi_names_it(folder: str) -> None:
    key = "hoodie.archivelog.folder"
    assert properties_of(properties={key: folder})[key] == folder
    with pytest.raises(HoodieConfigException, match=key):
        properties_of(properties={key: "elsewhere"})


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {MODE: "COMMIT_TIME_ORDERING"}),
        ({"ordering_fields": "ts"}, {MODE: "EVENT_TIME_ORDERING", ORDERING: "ts"}),
        (
            {"ordering_fields": "ts", "payload_class": "EventTimeAvroPayload"},
            {MODE: "EVENT_TIME_ORDERING", LEGACY: f"{MODEL}EventTimeAvroPayload", ORDERING: "ts"},
        ),
        (
            {"payload_class": "MySqlDebeziumAvroPayload", "ordering_fields": "_event_seq"},
            {
                MODE: "EVENT_TIME_ORDERING",
                LEGACY: f"{MODEL}debezium.MySqlDebeziumAvroPayload",
                ORDERING: "_event_bin_file,_event_pos",
                f"{PROPERTY}payload.delete.field": "_change_operation_type",
                f"{PROPERTY}payload.delete.marker": "d",
            },
        ),
        (
            {"payload_class": "PostgresDebeziumAvroPayload"},
            {
                MODE: "EVENT_TIME_ORDERING",
                LEGACY: f"{MODEL}debezium.PostgresDebeziumAvroPayload",
                PARTIAL: "FILL_UNAVAILABLE",
                ORDERING: "_event_lsn",
                f"{PROPERTY}payload.delete.field": "_change_operation_type",
                f"{PROPERTY}payload.delete.marker": "d",
                f"{PROPERTY}write.partial.update.unavailable.value": "__debezium_unavailable_value",
            },
        ),
        (
            {
                "ordering_fields": "ts",
                "properties": {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "X"},
            },
            {
                MODE: "EVENT_TIME_ORDERING",
                ORDERING: "ts",
                f"{PROPERTY}payload.delete.field": "op",
                f"{PROPERTY}payload.delete.marker": "X",
            },
        ),
        (
            {"payload_class": Larger},
            {
                MODE: "CUSTOM",
                STRATEGY: BY_PAYLOAD_ID,
                PAYLOAD: f"python:{__name__}.Larger",
            },
        ),
    ],
)
def test_version_9_stores_a_merge_mode_and_what_belongs_to_it(
    arguments: dict[str, Any], expected: dict[str, str]
) -> None:
    properties = properties_of(**arguments)
    assert merging_of(properties) == expected
    HoodieTableConfig(properties).check_writable()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ("COMMIT_TIME_ORDERING", COMMIT_ID, "OverwriteWithLatestAvroPayload")),
        ({"ordering_fields": "ts"}, ("EVENT_TIME_ORDERING", EVENT_ID, "DefaultHoodieRecordPayload")),
        (
            {"ordering_fields": "ts", "payload_class": "EventTimeAvroPayload"},
            ("EVENT_TIME_ORDERING", EVENT_ID, "EventTimeAvroPayload"),
        ),
        ({"payload_class": "PartialUpdateAvroPayload"}, ("CUSTOM", BY_PAYLOAD_ID, "PartialUpdateAvroPayload")),
        (
            {"payload_class": "debezium.PostgresDebeziumAvroPayload".rpartition(".")[2]},
            ("CUSTOM", BY_PAYLOAD_ID, "debezium.PostgresDebeziumAvroPayload"),
        ),
    ],
)
def test_version_8_stores_mode_strategy_and_payload_class(
    arguments: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    properties = properties_of(8, **arguments)
    mode, strategy, payload = expected
    assert {key: properties[key] for key in (MODE, STRATEGY, PAYLOAD)} == {
        MODE: mode, STRATEGY: strategy, PAYLOAD: MODEL + payload,
    }  # fmt: skip
    assert LEGACY not in properties and PARTIAL not in properties
    HoodieTableConfig(properties).check_writable()


def test_the_typed_properties_say_how_records_merge() -> None:
    config = HoodieTableConfig(properties_of(payload_class="PostgresDebeziumAvroPayload"))
    assert config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert config.partial_update_mode is PartialUpdateMode.FILL_UNAVAILABLE
    assert config.legacy_payload_class == f"{MODEL}debezium.PostgresDebeziumAvroPayload"
    assert (config.initial_version, config.merge_strategy_id, config.payload_class) == (9, None, None)
    old = HoodieTableConfig(properties_of(6))
    assert (old.merge_mode, old.partial_update_mode, old.initial_version) == (None, None, None)


def test_modes_that_contradict_the_payload_class_are_refused() -> None:
    for mode in ("EVENT_TIME_ORDERING", "CUSTOM"):
        # The mode of version 9, and that of version 8.
        properties_of(payload_class="PartialUpdateAvroPayload", ordering_fields="ts", properties={MODE: mode})
    for version, mode in ((9, "COMMIT_TIME_ORDERING"), (8, "EVENT_TIME_ORDERING")):
        with pytest.raises(HoodieConfigException, match=rf"merge\.mode = {mode}"):
            properties_of(
                version, payload_class="PartialUpdateAvroPayload", ordering_fields="ts", properties={MODE: mode}
            )
    with pytest.raises(HoodieConfigException, match="RecordPayload compares ordering values.* leave the payload out"):
        properties_of(payload_class="DefaultHoodieRecordPayload")
    with pytest.raises(HoodieConfigException, match="EVENT_TIME_ORDERING compares .* or use COMMIT_TIME_ORDERING"):
        properties_of(properties={MODE: "EVENT_TIME_ORDERING"})
    with pytest.raises(HoodieNotSupportedException, match="HoodieAvroPayload is not supported"):
        properties_of(payload_class="HoodieAvroPayload")


# --- what is not known is not written ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({MODE: "NEWEST"}, MODE),
        ({MODE: "CUSTOM"}, MODE),
        ({MODE: "CUSTOM", STRATEGY: "1897ef5f-18bc-4557-939c-9d6a8afd1519"}, STRATEGY),
        ({STRATEGY: COMMIT_ID}, STRATEGY),
        ({MODE: "CUSTOM", PAYLOAD: "com.example.Payload"}, PAYLOAD),
        ({PAYLOAD: f"{MODEL}OverwriteWithLatestAvroPayload"}, PAYLOAD),
        ({LEGACY: "com.example.Payload"}, LEGACY),
        ({PARTIAL: "KEEP_VALUES"}, PARTIAL),
        ({f"{PROPERTY}something.else": "x"}, f"{PROPERTY}something.else"),
        ({f"{PROPERTY}payload.delete.field": "op"}, f"{PROPERTY}payload.delete.field"),
        ({"hoodie.table.precombine.field": "other"}, ORDERING),
        ({"hoodie.table.version": "10"}, "hoodie.table.version"),
        ({"hoodie.table.version": "8", PARTIAL: "IGNORE_DEFAULTS"}, PARTIAL),
        ({"hoodie.some.future.feature": "on"}, "hoodie.some.future.feature"),
    ],
)
def test_a_table_that_says_something_unknown_is_not_written(changed: dict[str, str], named: str) -> None:
    properties = properties_of(ordering_fields="ts") | changed
    with pytest.raises(HoodieNotSupportedException) as raised:
        HoodieTableConfig(properties).check_writable()
    assert f"{named}=" in str(raised.value)


def test_tables_without_a_mode_are_read_as_hudi_infers_it() -> None:
    for changed, mode in (
        ({}, MergeMode.EVENT_TIME_ORDERING),
        ({ORDERING: ""}, MergeMode.COMMIT_TIME_ORDERING),
        ({STRATEGY: COMMIT_ID}, MergeMode.COMMIT_TIME_ORDERING),
        ({PAYLOAD: f"{MODEL}PartialUpdateAvroPayload"}, MergeMode.CUSTOM),
    ):
        properties = properties_of(ordering_fields="ts") | changed
        del properties[MODE]
        config = HoodieTableConfig(properties)
        config.check_writable()
        assert config.merge_mode is mode


# --- the options of a write -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "version"), [("6", 6), (8, 8), ("NINE", 9)])
def test_the_option_makes_tables_of_that_version_and_refuses_others(tmp_path: Path, given: Any, version: int) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload",
        "hoodie.write.table.version": given,
    }
    path = str(tmp_path / "t")
    config = HoodieWriteConfig.from_properties(path, options)
    table_to_create(config).create()
    table_config = HoodieTableMetaClient.load(path).table_config
    assert table_config.table_version == version
    config.check_against_table(table_config)
    for other in {6, 8, 9} - {version}:
        config = HoodieWriteConfig.from_properties(path, options | {"hoodie.write.table.version": other})
        with pytest.raises(HoodieConfigException, match=rf"write\.table\.version = {other}: the table is of version"):
            config.check_against_table(table_config)


def test_versions_that_do_not_exist_are_refused_by_the_option() -> None:
    for value in ("7", "10", "nine!", "9.0", "-9"):
        with pytest.raises(HoodieConfigException, match="must be 6, 8 or 9"):
            HoodieWriteConfig.from_properties("/t", {"hoodie.write.table.version": value})


@pytest.mark.parametrize("version", [8, 9])
def test_what_a_writer_says_about_merging_must_be_what_the_table_says(version: int) -> None:
    def check(table: dict[str, str], **options: str) -> None:
        named = {f"hoodie.{key.replace('_', '.')}": value for key, value in options.items()}
        HoodieWriteConfig.from_properties("/t", named).check_against_table(HoodieTableConfig(table))

    by_time = properties_of(version, ordering_fields="ts")
    check(by_time, datasource_write_payload_class="DefaultHoodieRecordPayload")
    check(by_time, write_record_merge_mode="EVENT_TIME_ORDERING", write_record_merge_strategy_id=EVENT_ID)
    check(by_time, payload_delete_field="op", payload_delete_marker="D")
    for options in (
        {"datasource_write_payload_class": "OverwriteWithLatestAvroPayload"},
        {"datasource_write_payload_class": "PartialUpdateAvroPayload"},
        {"write_record_merge_mode": "COMMIT_TIME_ORDERING"},
        {"write_record_merge_strategy_id": COMMIT_ID},
    ):
        with pytest.raises(HoodieConfigException, match="contradict"):
            check(by_time, **options)
    partial = properties_of(version, ordering_fields="ts", payload_class="PartialUpdateAvroPayload")
    check(partial, datasource_write_payload_class="PartialUpdateAvroPayload")
    check(partial, write_record_merge_mode="CUSTOM" if version == 8 else "EVENT_TIME_ORDERING")
    with pytest.raises(HoodieConfigException, match="contradict"):
        check(partial, datasource_write_payload_class="DefaultHoodieRecordPayload")


def test_the_ordering_fields_that_debezium_brings_are_not_the_writers_to_name() -> None:
    table = HoodieTableConfig(properties_of(payload_class="MySqlDebeziumAvroPayload"))
    options = {"hoodie.datasource.write.precombine.field": "_event_seq"}
    HoodieWriteConfig.from_properties("/t", options).check_against_table(table)
    other = HoodieTableConfig(properties_of(ordering_fields="ts"))
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.ordering\.fields"):
        HoodieWriteConfig.from_properties("/t", options).check_against_table(other)
