"""Columns of tables in the words of catalogs; the expected texts are those of HiveSyncTool 1.2.0."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import to_avro
from hoodie.exception import HoodieSyncException
from hoodie.sync.catalog_entry import CatalogColumn
from hoodie.sync.catalog_schema import table_columns

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("Upper", pa.string()),
        pa.field("i", pa.int32()),
        pa.field("l", pa.int64()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("b", pa.bool_()),
        pa.field("bin", pa.binary()),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("loc", pa.timestamp("us")),
        pa.field("arr", pa.list_(pa.string())),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("st", pa.struct([("X", pa.int32()), ("t", pa.timestamp("us", "UTC"))])),
    ]
)
HIVE = {
    "id": "string", "upper": "string", "i": "int", "l": "bigint", "f": "float", "d": "double", "b": "boolean",
    "bin": "binary", "dec": "decimal(10,2)", "day": "date", "at": "bigint", "loc": "bigint", "arr": "array<string>",
    "map": "map<string,bigint>", "st": "struct<x:int,t:bigint>",
}  # fmt: skip
AVRO = to_avro(SCHEMA, "trips_record", "hoodie.trips")


def test_hive_types() -> None:
    found = table_columns(AVRO, (), as_timestamp=False)
    assert {column.name: column.type for column in found.columns} == HIVE
    with_timestamps = {column.name: column.type for column in table_columns(AVRO, ()).columns}
    assert with_timestamps == {
        **HIVE, "at": "timestamp", "loc": "timestamp", "st": "struct<x:int,t:timestamp>",
    }  # fmt: skip


def test_the_schema_of_spark_is_written_as_hudi_writes_it() -> None:
    properties = table_columns(AVRO, ("day",)).spark_properties()
    text = properties["spark.sql.sources.schema.part.0"]
    assert text.startswith(
        '{"type":"struct","fields":[{"name":"id","type":"string","nullable":false,"metadata":{}},'
        '{"name":"Upper","type":"string","nullable":true,"metadata":{}},{"name":"i","type":"integer",'
    )
    assert '{"name":"arr","type":{"type":"array", "elementType":"string","containsNull":true},"nullable":true' in text
    assert '"type":{"type":"map", "keyType":"string","valueType":"long","valueContainsNull":true}' in text
    assert [field["name"] for field in json.loads(text)["fields"]][-1] == "day"
    assert {field["name"]: field["type"] for field in json.loads(text)["fields"]}["loc"] == "timestamp"
    assert properties["spark.sql.sources.schema.numPartCols"] == "1"
    assert properties["spark.sql.sources.schema.partCol.0"] == "day"


def test_the_schema_is_cut_in_pieces() -> None:
    columns = table_columns(AVRO, ())
    whole = columns.spark_properties()["spark.sql.sources.schema.part.0"]
    pieces = columns.spark_properties(piece_length=100)
    count = int(pieces["spark.sql.sources.schema.numParts"])
    assert count == -(-len(whole) // 100)
    assert "".join(pieces[f"spark.sql.sources.schema.part.{number}"] for number in range(count)) == whole


def test_partition_columns_of_derived_values_are_text() -> None:
    found = table_columns(AVRO, ("l", "absent"), text_keys=["l"])
    assert found.partition_keys == (CatalogColumn("l", "string"), CatalogColumn("absent", "string"))
    fields = json.loads(found.spark_properties()["spark.sql.sources.schema.part.0"])["fields"]
    assert {field["name"]: field["type"] for field in fields}["l"] == "string"


def test_comments_follow_on_demand() -> None:
    avro = json.loads(AVRO)
    avro["fields"][0]["doc"] = 'the "key"'
    text = json.dumps(avro)
    assert table_columns(text, ()).columns[0].comment == ""
    assert table_columns(text, (), with_comments=True).columns[0].comment == 'the "key"'
    properties = table_columns(text, ()).spark_properties(with_comments=True)
    assert r'"metadata":{"comment":"the \"key\""}' in properties["spark.sql.sources.schema.part.0"]


def test_named_types_are_found_where_they_are_used_again() -> None:
    money = {"type": "fixed", "name": "money", "size": 16, "logicalType": "decimal", "precision": 20, "scale": 3}
    avro = {
        "type": "record", "name": "r", "namespace": "n",
        "fields": [
            {"name": "a", "type": money}, {"name": "b", "type": ["null", "n.money"]}, {"name": "c", "type": "money"},
        ],
    }  # fmt: skip
    found = table_columns(json.dumps(avro), ())
    assert [column.type for column in found.columns] == ["decimal(20,3)"] * 3


def test_names_that_differ_by_case_only_are_refused() -> None:
    avro = to_avro(pa.schema([("a", pa.string()), ("A", pa.string())]), "r", "n")
    with pytest.raises(HoodieSyncException, match="'a' and 'A' differ by upper and lower case only"):
        table_columns(avro, ())
