"""What a new table of version 6 shall be, turned into properties or refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from hoodie.common.table.table_definition import TableDefinition
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.merge.payload_rules import OVERWRITE_WITH_LATEST_PAYLOAD as OVERWRITE_PAYLOAD
from hoodie.merge.record_merger import HoodieRecordMerger, MergeOutcome

PAYLOAD = "hoodie.compaction.payload.class"
TIME = "hoodie.keygen.timebased."
TIMES = {f"{TIME}timestamp.type": "UNIX_TIMESTAMP", f"{TIME}output.dateformat": "yyyy/MM/dd"}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("ts", pa.int64()), ("trip", pa.struct([("city", pa.string())]))]
)


def properties_of(**arguments: Any) -> dict[str, str]:
    given = {"table_name": "trips", "record_key_fields": ["id"], "table_version": 6} | arguments
    return TableDefinition(**given).to_properties()


def test_the_properties_are_those_that_all_hudi_releases_of_version_6_take() -> None:
    assert properties_of(partition_fields=["region"], ordering_fields=["ts"]) == {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "region",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    }


def test_a_table_without_partitions_and_ordering_has_no_such_properties() -> None:
    properties = properties_of()
    assert "hoodie.table.partition.fields" not in properties
    assert "hoodie.table.precombine.field" not in properties
    assert "hoodie.table.create.schema" not in properties
    assert properties[PAYLOAD] == "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@pytest.mark.parametrize(
    ("record_keys", "partitions", "expected"),
    [
        (["id"], [], "NonpartitionedKeyGenerator"),
        (["id", "ts"], [], "NonpartitionedKeyGenerator"),
        (["id"], ["region"], "SimpleKeyGenerator"),
        (["id", "ts"], ["region"], "ComplexKeyGenerator"),
        (["id", "ts"], ["region", "city"], "ComplexKeyGenerator"),
        (["id"], ["region", "city"], "CustomKeyGenerator"),
        (["id"], ["region:SIMPLE"], "CustomKeyGenerator"),
    ],
)
def test_the_key_generator_is_inferred_as_hudi_does_but_for_one_key_and_several_partition_fields(
    record_keys: list[str], partitions: list[str], expected: str
) -> None:
    properties = properties_of(record_key_fields=record_keys, partition_fields=partitions)
    assert properties["hoodie.table.keygenerator.class"] == f"org.apache.hudi.keygen.{expected}"


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.hudi.keygen.SimpleKeyGenerator",
        "org.apache.hudi.keygen.SimpleAvroKeyGenerator",
        "SimpleKeyGenerator",
        "SimpleAvroKeyGenerator",
        "SIMPLE",
    ],
)
def test_every_spelling_of_a_key_generator_is_stored_as_hudi_writes_it(name: str) -> None:
    properties = properties_of(partition_fields="region", key_generator=name)
    assert properties["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"


def test_names_come_as_one_name_a_list_or_with_commas() -> None:
    for value in ("id,ts", "id, ts", ["id", "ts"], ("id", "ts"), iter(["id", "ts"])):
        assert properties_of(record_key_fields=value)["hoodie.table.recordkey.fields"] == "id,ts"
    assert "hoodie.table.partition.fields" not in properties_of(partition_fields="")


def test_more_properties_are_stored_as_they_are() -> None:
    properties = properties_of(
        properties={"hoodie.database.name": "db", "hoodie.datasource.write.partitionpath.urlencode": "true"},
        hive_style_partitioning=True,
    )
    assert properties["hoodie.database.name"] == "db"
    assert properties["hoodie.datasource.write.partitionpath.urlencode"] == "true"
    assert properties["hoodie.datasource.write.hive_style_partitioning"] == "true"


@pytest.mark.parametrize(
    "name", ["OverwriteWithLatestAvroPayload", "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"]
)
def test_a_payload_may_be_chosen(name: str) -> None:
    properties = properties_of(ordering_fields="ts", properties={PAYLOAD: name})
    assert properties[PAYLOAD] == "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


def test_an_arrow_schema_is_stored_as_avro_named_after_the_table() -> None:
    avro = json.loads(properties_of(table_name="my-trips", schema=SCHEMA)["hoodie.table.create.schema"])
    assert (avro["namespace"], avro["name"]) == ("hoodie.my__trips", "my__trips_record")
    assert [field["name"] for field in avro["fields"]] == SCHEMA.names


def test_an_avro_schema_is_stored_without_meta_columns() -> None:
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in ("_hoodie_commit_time", "id")]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    stored = json.loads(properties_of(schema=schema)["hoodie.table.create.schema"])
    assert [field["name"] for field in stored["fields"]] == ["id"]


def test_key_fields_inside_of_structs_are_found_in_the_schema() -> None:
    assert properties_of(schema=SCHEMA, partition_fields="trip.city")["hoodie.table.partition.fields"] == "trip.city"
    for missing in ("trip.town", "city", "id.x", "nothing"):
        with pytest.raises(
            HoodieConfigException, match=f"'{missing}' is not in the schema, which has id, region, ts, trip"
        ):
            properties_of(schema=SCHEMA, partition_fields=missing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table_name": ""}, "table_name ''"),
        ({"table_name": "a/b"}, "table_name 'a/b'"),
        ({"table_name": "a\nb"}, "table_name"),
        ({"table_name": "a#b"}, "table_name"),
        ({"table_name": " a"}, "table_name"),
        ({"table_name": None}, "table_name None"),
        ({"table_type": "COPY_ON_READ"}, "table_type 'COPY_ON_READ' is unknown: COPY_ON_WRITE or MERGE_ON_READ"),
        (
            {"record_key_fields": ()},
            "record_key_fields is empty.*record_key_fields='generated', or hoodie.write.keyless=true",
        ),
        ({"record_key_fields": ["id", "id"]}, "record_key_fields names 'id' twice"),
        ({"record_key_fields": ["a,b"]}, "record_key_fields has the name 'a,b'"),
        ({"record_key_fields": ["a", ""]}, "record_key_fields has the name ''"),
        ({"record_key_fields": "a,,b"}, "record_key_fields has the name ''"),
        ({"partition_fields": ["a\n"]}, "partition_fields has the name"),
        ({"partition_fields": [7]}, "partition_fields has the name 7"),
        ({"ordering_fields": ["_hoodie_commit_time"]}, "a column that Hudi adds"),
        ({"ordering_fields": ["ts", "id"]}, r"ordering_fields has 2 fields \(ts, id\), table version 6 stores one"),
        ({"key_generator": "SimpelKeyGenerator"}, "unknown, did you mean SimpleKeyGenerator"),
        ({"key_generator": "org.apache.hudi.keygen.Mine"}, "'org.apache.hudi.keygen.Mine' is unknown"),
        ({"partition_fields": "a:SIMPLE,b:TIME"}, "'b:TIME': give each field the type SIMPLE or TIMESTAMP"),
        ({"partition_fields": "a:SIMPLE,b"}, "'b': give each field the type SIMPLE or TIMESTAMP"),
        ({"partition_fields": "a:SIMPLE", "key_generator": "SIMPLE"}, "SimpleKeyGenerator does not take"),
        ({"partition_fields": "a:TIMESTAMP"}, "timestamp.type is given neither.*output.dateformat is missing"),
        ({"partition_fields": "a", "properties": TIMES}, "apply to times, and SimpleKeyGenerator reads none"),
        (
            {"partition_fields": "a", "key_generator": "CUSTOM", "properties": TIMES},
            "name in partition_fields which field is a time",
        ),
        (
            {"key_generator": "TIMESTAMP", "partition_fields": "a,b", "properties": TIMES},
            "one record key field and one partition field, not 1 and 2: use CustomKeyGenerator",
        ),
        (
            {"key_generator": "TIMESTAMP", "partition_fields": "a", "properties": {**TIMES, f"{TIME}timezone": "Mars"}},
            "'Mars' is not a known time zone",
        ),
        (
            {
                "key_generator": "TIMESTAMP",
                "partition_fields": "a",
                "properties": {**TIMES, f"{TIME}output.dateformat": "yyyy-QQ"},
            },
            "the letter 'Q'",
        ),
        ({"key_generator": "SIMPLE"}, "one record key field and one partition field, not 1 and 0.*NonpartitionedKey"),
        ({"key_generator": "COMPLEX"}, "partition_fields is empty: .*NonpartitionedKeyGenerator"),
        ({"key_generator": "NON_PARTITION", "partition_fields": "a"}, "takes no partition fields"),
        ({"properties": {"hoodie.table.name": "x"}}, "the argument table_name sets property hoodie.table.name"),
        ({"properties": {"hoodie.databse.name": "x"}}, "did you mean hoodie.database.name"),
        ({"properties": {"hoodie.record.merge.mod": "x"}}, "did you mean hoodie.record.merge.mode"),
        ({"properties": {"hoodie.record.merge.mode": "LATEST"}}, "LATEST: must be COMMIT_TIME_ORDERING, EVENT_TIME_O"),
        ({"properties": {"hoodie.record.merge.mode": "CUSTOM"}}, "CUSTOM does not say how records merge"),
        (
            {"properties": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", PAYLOAD: "AWSDmsAvroPayload"}},
            "hoodie.record.merge.mode = EVENT_TIME_ORDERING: the payload class .*AWSDmsAvroPayload means CUSTOM",
        ),
        ({"properties": {"hoodie.payload.delete.field": "op"}}, "hoodie.payload.delete.marker is missing"),
        (
            {"properties": {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}},
            "OverwriteWithLatestAvroPayload ignores it",
        ),
        ({"properties": {"hoodie.database.name": 7}}, "value 7: give a string"),
        ({"properties": {PAYLOAD: "DefaultHoodieRecordPayload"}}, "ordering_fields is empty"),
        ({"schema": "{"}, "schema cannot be used"),
        ({"schema": '{"type": "string"}'}, "schema cannot be used"),
        ({"schema": SCHEMA, "ordering_fields": "trip"}, "field 'trip' is of type struct.*have no order"),
        (
            {"schema": pa.schema([("id", pa.string()), ("region", pa.binary())]), "ordering_fields": "region"},
            "field 'region' is of type binary, whose values have no order",
        ),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        properties_of(**arguments)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(HoodieConfigException) as raised:
        properties_of(
            table_name="a/b", table_type="x", record_key_fields=[], key_generator="y", properties={"z": "1"}, schema="{"
        )
    for part in ("'a/b'", "table_type 'x'", "record_key_fields is empty", "key_generator 'y'", "property z", "schema"):
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table_version": 7}, "table_version 7 is not supported: use 6"),
        ({"key_generator": "GLOBAL_DELETE"}, "GLOBAL_DELETE is not supported"),
        ({"properties": {PAYLOAD: "HoodieAvroPayload"}}, "HoodieAvroPayload is not supported"),
        (
            {"partition_fields": ["a", "b"], "key_generator": "COMPLEX", "table_version": 8},
            "key_generator out to get CustomKeyGenerator, or use table_version=9",
        ),
        (
            {"partition_fields": ["a"], "key_generator": "COMPLEX", "table_version": 6},
            "leave key_generator out to get SimpleKeyGenerator",
        ),
    ],
)
def test_what_hoodie_cannot_write_is_refused_with_a_way_out(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieNotSupportedException, match=message):
        properties_of(**arguments)


def times_of(**arguments: Any) -> dict[str, str]:
    stored = properties_of(**arguments)
    return {key.removeprefix(TIME): value for key, value in stored.items() if key.startswith(TIME)}


def test_a_table_of_times_stores_how_they_are_made_and_in_which_zone() -> None:
    old = {key.replace("hoodie.", "hoodie.deltastreamer."): value for key, value in TIMES.items()}
    for given in (TIMES, old):
        stored = times_of(key_generator="TIMESTAMP", partition_fields="ts", properties=given)
        assert stored == {
            "timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd", "output.timezone": "UTC"
        }  # fmt: skip
    zone = {f"{TIME}timezone": "Asia/Tokyo"}
    assert "output.timezone" not in times_of(key_generator="TIMESTAMP", partition_fields="ts", properties=TIMES | zone)


def test_a_table_of_times_stores_the_unit_and_the_zone_that_count_by_default() -> None:
    def added(**given: str) -> dict[str, str]:
        properties = {f"{TIME}{name.replace('_', '.')}": value for name, value in given.items()}
        stored = times_of(
            key_generator="TIMESTAMP", partition_fields="ts",
            properties={f"{TIME}output.dateformat": "yyyy/MM/dd", **properties},
        )  # fmt: skip
        return {key: value for key, value in stored.items() if f"{TIME}{key}" not in properties and "date" not in key}

    assert added(timestamp_type="SCALAR") == {"timestamp.scalar.time.unit": "SECONDS", "output.timezone": "UTC"}
    assert added(timestamp_type="SCALAR", timestamp_scalar_time_unit="DAYS", timezone="Asia/Tokyo") == {}
    assert added(timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd") == {"input.timezone": "UTC"}
    # The zone that a text says counts as long as no property does.
    assert added(timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-ddZ") == {}


def test_zones_that_differ_are_no_table() -> None:
    zones = {f"{TIME}timezone": "Asia/Tokyo", f"{TIME}output.timezone": "UTC"}
    with pytest.raises(HoodieConfigException, match=r"output\.timezone = 'UTC' and .*timezone = 'Asia/Tokyo' differ"):
        properties_of(key_generator="TIMESTAMP", partition_fields="ts", properties=TIMES | zones)


def test_the_types_of_partition_fields_are_stored_as_a_writer_of_hudi_gives_them() -> None:
    stored = properties_of(partition_fields=["region:simple", "ts:TIMESTAMP"], properties=TIMES)
    assert stored["hoodie.table.partition.fields"] == "region,ts"
    assert stored["hoodie.datasource.write.partitionpath.field"] == "region:SIMPLE,ts:TIMESTAMP"
    stored_of_plain = properties_of(partition_fields=["region", "city"])
    assert stored_of_plain["hoodie.datasource.write.partitionpath.field"] == "region:SIMPLE,city:SIMPLE"
    assert stored["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.CustomKeyGenerator"


def test_a_class_of_the_user_is_stored_by_its_name() -> None:
    assert properties_of(key_generator="my.keys.Mine")["hoodie.table.keygenerator.class"] == "my.keys.Mine"
    stored = properties_of(key_generator=TableDefinition)["hoodie.table.keygenerator.class"]
    assert stored == "hoodie.common.table.table_definition.TableDefinition"

    class Inner: ...

    with pytest.raises(HoodieConfigException, match="move it to the top of a module"):
        properties_of(key_generator=Inner)


class NewestFare(HoodieRecordMerger):
    """Takes the newer row."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.write(newer)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("PartialUpdateAvroPayload", "org.apache.hudi.common.model.PartialUpdateAvroPayload"),
        ("postgres_debezium_avro", "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload"),
        ("com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload", OVERWRITE_PAYLOAD),
        ("org.apache.hudi.payload.AWSDmsAvroPayload", "org.apache.hudi.common.model.AWSDmsAvroPayload"),
        (NewestFare, f"python:{__name__}.NewestFare"),
    ],
)
def test_a_payload_class_is_given_by_any_of_its_names_or_is_a_merger(given: str | type, stored: str) -> None:
    assert properties_of(payload_class=given)[PAYLOAD] == stored


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"payload_class": HoodieRecordMerger}, "is not a record merger"),
        ({"payload_class": int}, "is not a record merger"),
        (
            {"payload_class": "AWSDmsAvroPayload", "properties": {PAYLOAD: "PartialUpdateAvroPayload"}},
            "AWSDmsAvroPayload and hoodie.compaction.payload.class .*PartialUpdateAvroPayload differ",
        ),
    ],
)
def test_a_payload_class_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        properties_of(**arguments)
