from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.storage.storage_factory import open_storage
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.row_based_schema_provider import RowBasedSchemaProvider
from hoodie.utilities.schema.schema_converter import SchemaConverter
from hoodie.utilities.schema.schema_post_processor import SchemaPostProcessor
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_providers import SchemaProviderWithPostProcessor, make_schema_provider

TRIP = {
    "type": "record",
    "name": "trip",
    "namespace": "t",
    "doc": "a trip",
    "fields": [{"name": "uuid", "type": "string"}, {"name": "Fare", "type": ["null", "double"], "default": None}],
}
SOURCE = "hoodie.streamer.schemaprovider.source.schema.file"
TARGET = "hoodie.streamer.schemaprovider.target.schema.file"
PROCESSOR = "hoodie.streamer.schemaprovider.schema_post_processor"
FILEBASED = "org.apache.hudi.utilities.schema.FilebasedSchemaProvider"


def written(folder: Path, name: str = "trips.avsc", schema: Any = TRIP) -> Path:
    path = folder / name
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema), encoding="utf-8")
    return path


def provider(**properties: Any) -> SchemaProvider:
    found = make_schema_provider(FILEBASED, StreamerProperties.of(properties))
    assert found is not None
    return found


def names(schema: str | None) -> list[str]:
    assert schema is not None
    return [field["name"] for field in json.loads(schema)["fields"]]


class FareInCents(SchemaPostProcessor):
    def process_schema(self, schema: str) -> str:
        return schema.replace("Fare", "cents")


class FromJsonSchema(SchemaConverter):
    def convert(self, schema: str, schema_type: str) -> str:
        fields = [{"name": name, "type": "string"} for name in json.loads(schema)["properties"]]
        return json.dumps({"type": "record", "name": schema_type.lower(), "fields": fields})


class FailingConverter(SchemaConverter):
    def convert(self, schema: str, schema_type: str) -> str:
        raise KeyError("x")


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_the_source_schema_is_read_from_a_file(tmp_path: Path, form: str) -> None:
    found = provider(**{SOURCE: form.format(written(tmp_path))})
    assert json.loads(found.load_source_schema()) == TRIP
    assert found.load_target_schema() == found.load_source_schema()


def test_a_relative_path_is_one_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert json.loads(provider(**{SOURCE: "trips.avsc"}).load_source_schema()) == TRIP


def test_the_old_spelling_of_the_key_is_read(tmp_path: Path) -> None:
    old = "hoodie.deltastreamer.schemaprovider.source.schema.file"
    assert names(provider(**{old: str(written(tmp_path))}).load_source_schema()) == ["uuid", "Fare"]


def test_a_file_of_another_storage_is_read_with_its_options() -> None:
    storage = open_storage("memory://schemas/of_tests")
    storage.create_if_absent("memory://schemas/of_tests/trips.avsc", json.dumps(TRIP).encode())
    found = provider(**{SOURCE: "memory://schemas/of_tests/trips.avsc"})
    assert json.loads(found.load_source_schema()) == TRIP


def test_the_target_has_a_file_of_its_own(tmp_path: Path) -> None:
    target = TRIP | {"fields": TRIP["fields"][:1]}
    found = provider(**{SOURCE: written(tmp_path).as_posix(), TARGET: str(written(tmp_path, "target.avsc", target))})
    assert names(found.load_source_schema()) == ["uuid", "Fare"]
    assert names(found.load_target_schema()) == ["uuid"]


def test_a_changed_file_is_seen_after_a_refresh_and_not_before(tmp_path: Path) -> None:
    found = provider(**{SOURCE: str(written(tmp_path))})
    assert names(found.load_source_schema()) == ["uuid", "Fare"]
    written(tmp_path, schema=TRIP | {"fields": [*TRIP["fields"], {"name": "tip", "type": "long", "default": 0}]})
    assert names(found.load_source_schema()) == ["uuid", "Fare"]
    found.refresh()
    assert names(found.load_source_schema()) == ["uuid", "Fare", "tip"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no Avro record"),
        ("{", "no Avro record"),
        ('"string"', "no Avro record"),
        ('{"type": "record", "name": "x"}', "lacks name or fields"),
        ("[" * 100_000, "no Avro record"),
    ],
)
def test_a_file_without_a_record_is_named(tmp_path: Path, content: str, said: str) -> None:
    path = written(tmp_path, schema=content)
    with pytest.raises(HoodieSchemaProviderException, match=said) as caught:
        provider(**{SOURCE: str(path)}).load_source_schema()
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trips.avsc"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(HoodieSchemaProviderException, match="trips.avsc is not UTF-8"):
        provider(**{SOURCE: str(path)}).load_source_schema()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HoodieSchemaProviderException, match="There is no schema file .*nowhere.avsc"):
        provider(**{SOURCE: f"{tmp_path}/deep/nowhere.avsc"}).load_source_schema()


def test_a_file_that_vanished_is_an_error_after_a_refresh(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = provider(**{SOURCE: str(path)})
    found.load_source_schema()
    path.unlink()
    found.refresh()
    with pytest.raises(HoodieSchemaProviderException, match="There is no schema file"):
        found.load_source_schema()


def test_the_file_must_be_named() -> None:
    with pytest.raises(HoodieConfigException, match=SOURCE):
        provider()


def test_a_json_schema_needs_a_converter(tmp_path: Path) -> None:
    path = written(tmp_path, "trips.json", {"type": "object", "properties": {"uuid": {}, "city": {}}})
    with pytest.raises(HoodieSchemaProviderException, match="trips.json is a schema of JSON.*schemaconverter"):
        provider(**{SOURCE: str(path)}).load_source_schema()
    key = "hoodie.streamer.schemaprovider.registry.schemaconverter"
    found = provider(**{SOURCE: str(path), key: f"{__name__}:FromJsonSchema"})
    assert names(found.load_source_schema()) == ["uuid", "city"]
    with pytest.raises(HoodieSchemaProviderException, match="FailingConverter fails .*KeyError"):
        provider(**{SOURCE: str(path), key: f"{__name__}:FailingConverter"}).load_source_schema()
    java = "org.apache.hudi.utilities.schema.converter.JsonToAvroSchemaConverter"
    with pytest.raises(HoodieConfigException, match="is a class of Java"):
        provider(**{SOURCE: str(path), key: java})


def test_a_file_named_json_may_have_an_avro_schema(tmp_path: Path) -> None:
    assert names(provider(**{SOURCE: str(written(tmp_path, "trips.json"))}).load_source_schema()) == ["uuid", "Fare"]


def test_no_name_gives_no_provider() -> None:
    assert make_schema_provider(None, StreamerProperties()) is None
    with pytest.raises(HoodieConfigException, match="has no effect without --schemaprovider-class"):
        make_schema_provider(None, StreamerProperties({PROCESSOR: "DeleteSupportSchemaPostProcessor"}))


def test_an_unknown_provider_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(HoodieConfigException, match="nearest: FilebasedSchemaProvider"):
        make_schema_provider("FileBasedSchemaProvider", StreamerProperties())


def test_columns_are_dropped_in_any_case(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = provider(**{
        SOURCE: str(written(tmp_path)),
        PROCESSOR: "DropColumnSchemaPostProcessor",
        f"{PROCESSOR}.delete.columns": "FARE,nothing",
    })  # fmt: skip
    with caplog.at_level(logging.WARNING):
        assert names(found.load_source_schema()) == ["uuid"]
    assert "columns that the schema lacks: nothing" in caplog.text
    assert names(found.load_target_schema()) == ["uuid"]


def test_not_all_columns_can_be_dropped(tmp_path: Path) -> None:
    found = provider(**{
        SOURCE: str(written(tmp_path)),
        PROCESSOR: "DropColumnSchemaPostProcessor",
        f"{PROCESSOR}.delete.columns": "uuid,fare",
    })  # fmt: skip
    with pytest.raises(HoodieSchemaProviderException, match="drops all columns"):
        found.load_source_schema()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"type": "STRING"}, {"type": ["null", "string"], "default": None}),
        ({"type": "int", "default": "5"}, {"type": ["int", "null"], "default": 5}),
        ({"type": "boolean", "nullable": "false", "default": "True"}, {"type": "boolean", "default": True}),
        ({"type": "double", "default": "1e3", "doc": "d"}, {"type": ["double", "null"], "default": 1e3, "doc": "d"}),
    ],
)
def test_a_column_is_added(tmp_path: Path, options: dict[str, str], field: dict[str, Any]) -> None:
    given = {f"{PROCESSOR}.add.column.{name}": value for name, value in options.items()}
    found = provider(**{
        SOURCE: str(written(tmp_path)),
        PROCESSOR: "org.apache.hudi.utilities.schema.postprocessor.add.AddPrimitiveColumnSchemaPostProcessor",
        f"{PROCESSOR}.add.column.name": "added",
        **given,
    })  # fmt: skip
    schema = json.loads(found.load_source_schema())
    assert schema["fields"][-1] == {"name": "added"} | field
    assert schema["doc"] == "a trip"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "x"}, "needs .*add.column.name and .*add.column.type"),
        ({"name": "x", "type": "int", "nullable": "false"}, "rows that lack it need a value"),
        ({"name": "x", "type": "int", "default": "five"}, "default = 'five' is no int"),
        ({"name": "x", "type": "boolean", "default": "yes"}, "default = 'yes' is no boolean"),
        ({"name": "uuid", "type": "int"}, "the schema has that column already"),
        ({"name": "x", "type": "map"}, "string, bytes, int"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused(tmp_path: Path, options: dict[str, str], said: str) -> None:
    given = {f"{PROCESSOR}.add.column.{name}": value for name, value in options.items()}
    processor = "AddPrimitiveColumnSchemaPostProcessor"
    with pytest.raises((HoodieConfigException, HoodieSchemaProviderException), match=said):
        provider(**{SOURCE: str(written(tmp_path)), PROCESSOR: processor, **given}).load_source_schema()


def test_processors_work_one_after_the_other(tmp_path: Path) -> None:
    found = provider(**{
        SOURCE: str(written(tmp_path)),
        PROCESSOR: f"{__name__}:FareInCents, DropColumnSchemaPostProcessor,DeleteSupportSchemaPostProcessor",
        f"{PROCESSOR}.delete.columns": "cents",
    })  # fmt: skip
    schema = json.loads(found.load_source_schema())
    assert [field["name"] for field in schema["fields"]] == ["uuid", "_hoodie_is_deleted"]
    assert schema["fields"][-1] == {"name": "_hoodie_is_deleted", "type": "boolean", "default": False}
    assert isinstance(found, SchemaProviderWithPostProcessor)
    assert names(found.original.load_source_schema()) == ["uuid", "Fare"]


def test_a_chain_without_processors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="give the processors themselves"):
        provider(**{SOURCE: str(written(tmp_path)), PROCESSOR: "ChainedSchemaPostProcessor"})


def test_the_marker_of_deletes_is_added_once(tmp_path: Path) -> None:
    twice = "DeleteSupportSchemaPostProcessor"
    schema = TRIP | {"fields": [*TRIP["fields"], {"name": "_hoodie_is_deleted", "type": "boolean"}]}
    found = provider(**{SOURCE: str(written(tmp_path, schema=schema)), PROCESSOR: twice})
    assert json.loads(found.load_source_schema()) == schema


def test_the_columns_of_kafka_are_added(tmp_path: Path) -> None:
    found = provider(**{SOURCE: str(written(tmp_path)), PROCESSOR: "KafkaOffsetPostProcessor"})
    schema = json.loads(found.load_source_schema())
    assert schema["name"] == "trip_processed"
    assert [(field["name"], field["type"], field["default"]) for field in schema["fields"][2:]] == [
        ("_hoodie_kafka_source_offset", "long", 0),
        ("_hoodie_kafka_source_partition", "int", 0),
        ("_hoodie_kafka_source_timestamp", "long", 0),
        ("_hoodie_kafka_source_key", ["null", "string"], None),
    ]


def test_rows_give_their_own_schema() -> None:
    columns = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    found = RowBasedSchemaProvider(StreamerProperties(), columns=columns)
    assert json.loads(found.load_source_schema()) == {
        "type": "record",
        "name": "hoodie_source",
        "namespace": "hoodie.source",
        "fields": [{"name": "a", "type": "long"}],
    }
    named = make_schema_provider("RowBasedSchemaProvider", StreamerProperties())
    assert named is not None
    with pytest.raises(HoodieSchemaProviderException, match="leave out --schemaprovider-class"):
        named.load_source_schema()
