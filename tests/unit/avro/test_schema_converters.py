"""Schemas: Arrow to Avro as Hudi names it, and back."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.schema_converters import (
    add_meta_columns,
    check_writable,
    evolve,
    fields_in_millis,
    record_name,
    record_namespace,
    remove_meta_columns,
    sanitize_name,
    to_arrow,
    to_avro,
    without_enums,
)
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.exception import HoodieSchemaException


def avro_of(schema: pa.Schema) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(to_avro(schema, "t_record", "hoodie.t"))["fields"]
    return fields


def record_of(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": list(fields)})


def schemas_of_real_commits(shared_tables: Path) -> set[str]:
    found = set()
    for path in shared_tables.rglob(".hoodie/*commit"):
        data = path.read_bytes()
        if data.startswith(b"{") and "/metadata/" not in str(path):
            found.add(HoodieCommitMetadata.from_json(data).schema)
    return {schema for schema in found if schema is not None}


def test_schemas_of_real_commits_come_back_letter_for_letter(shared_tables: Path) -> None:
    schemas = schemas_of_real_commits(shared_tables)
    exact = 0
    for schema in schemas:
        record = json.loads(schema)
        if '["null",' in schema and ',"null"]' not in schema and '"doc"' not in schema:
            assert to_avro(to_arrow(schema), record["name"], record.get("namespace", "")) == schema
            exact += 1
        assert evolve(schema, to_arrow(schema)) == schema
    assert exact >= 5


def test_schemas_of_real_footers_come_back_letter_for_letter(shared_tables: Path) -> None:
    checked = 0
    for path in shared_tables.rglob("*cow-v6*/**/*.parquet"):
        schema = (pq.read_metadata(path).metadata or {}).get(b"parquet.avro.schema", b"").decode()
        record = json.loads(schema)
        assert to_avro(to_arrow(schema), record["name"], record["namespace"], with_meta_columns=True) == schema
        assert add_meta_columns(remove_meta_columns(schema)) == schema
        assert to_arrow(schema).names == pq.read_schema(path).names[len(META_COLUMNS) :]
        checked += 1
    assert checked > 3


def test_a_created_table_with_every_type_keeps_hudis_names(shared_tables: Path) -> None:
    (path,) = shared_tables.rglob("hudi_comprehensive_types_v6_mor/.hoodie/hoodie.properties")
    (line,) = (line for line in path.read_text().splitlines() if line.startswith("hoodie.table.create.schema="))
    schema = line.partition("=")[2].replace("\\:", ":")
    record = json.loads(schema)
    written = json.loads(to_avro(to_arrow(schema), record["name"], record["namespace"]))
    assert without_order_of_unions(written) == without_order_of_unions(record)
    assert evolve(schema, to_arrow(schema)) == schema


def without_order_of_unions(value: Any) -> Any:
    if isinstance(value, list):
        items = [without_order_of_unions(item) for item in value]
        return [item for item in items if item != "null"] if "null" in items else items
    if isinstance(value, dict):
        return {key: without_order_of_unions(item) for key, item in value.items() if key != "default"}
    return value


@pytest.mark.parametrize(
    ("data_type", "avro_type"),
    [
        (pa.string(), "string"),
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.int32(), "int"),
        (pa.int64(), "long"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.bool_(), "boolean"),
        (pa.binary(), "bytes"),
        (pa.date32(), {"type": "int", "logicalType": "date"}),
        (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
        (pa.list_(pa.field("element", pa.int32(), nullable=False)), {"type": "array", "items": "int"}),
        (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
        (pa.binary(16), {"type": "fixed", "name": "fixed", "namespace": "hoodie.t.t_record.c", "size": 16}),
    ],
)
def test_each_type_has_its_avro_type(data_type: pa.DataType, avro_type: Any) -> None:
    assert avro_of(pa.schema([pa.field("c", data_type)])) == [
        {"name": "c", "type": ["null", avro_type], "default": None}
    ]
    assert avro_of(pa.schema([pa.field("c", data_type, nullable=False)])) == [{"name": "c", "type": avro_type}]


@pytest.mark.parametrize(
    ("precision", "size"),
    [(1, 1), (2, 1), (3, 2), (4, 2), (6, 3), (9, 4), (10, 5), (14, 6), (16, 7), (18, 8), (19, 9), (31, 13), (38, 16)],
)
def test_a_decimal_takes_the_fewest_bytes(precision: int, size: int) -> None:
    (field,) = avro_of(pa.schema([pa.field("c", pa.decimal128(precision, 1), nullable=False)]))
    assert field["type"] == {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.t_record.c",
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": 1,
    }


def test_structs_in_lists_and_maps_are_named_after_their_column() -> None:
    inner = pa.struct([pa.field("d", pa.decimal128(3, 0)), pa.field("deep", pa.struct([pa.field("x", pa.int32())]))])
    fields = avro_of(pa.schema([pa.field("l", pa.list_(inner)), pa.field("m", pa.map_(pa.string(), inner))]))
    for name, kind, items in (("l", "array", "items"), ("m", "map", "values")):
        outer = next(field["type"][1] for field in fields if field["name"] == name)
        record = outer[items][1]
        assert outer["type"] == kind
        assert (record["name"], record["namespace"]) == (name, "hoodie.t.t_record")
        decimal, deep = (field["type"][1] for field in record["fields"])
        assert decimal["namespace"] == f"hoodie.t.t_record.{name}.d"
        assert (deep["name"], deep["namespace"]) == ("deep", f"hoodie.t.t_record.{name}")


@pytest.mark.parametrize(
    "data_type",
    [
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.null(),
        pa.time32("ms"),
        pa.time64("us"),
        pa.duration("us"),
        pa.timestamp("ns"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "Asia/Tokyo"),
        pa.date64(),
        pa.large_string(),
        pa.string_view(),
        pa.large_binary(),
        pa.large_list(pa.int32()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.decimal256(40, 2),
        pa.decimal128(5, -2),
        pa.map_(pa.int32(), pa.int32()),
        pa.month_day_nano_interval(),
    ],
)
def test_types_that_cannot_be_stored_are_refused_by_column_and_type(data_type: pa.DataType) -> None:
    with pytest.raises(HoodieSchemaException) as caught:
        avro_of(pa.schema([pa.field("c", data_type)]))
    assert "'c'" in str(caught.value) and str(data_type) in str(caught.value)
    with pytest.raises(HoodieSchemaException, match=r"'outer\.element\.inner'"):
        avro_of(pa.schema([pa.field("outer", pa.list_(pa.struct([pa.field("inner", data_type)])))]))


@pytest.mark.parametrize(
    "name", ["", "a-b", "a b", "1a", "a.b", "a²", "\u0660x", "𠀀", "नाम", unicodedata.normalize("NFD", "größe")]
)
def test_column_names_that_avro_forbids_are_refused(name: str) -> None:
    with pytest.raises(HoodieSchemaException, match="cannot be stored.* Rename"):
        avro_of(pa.schema([pa.field(name, pa.int32())]))


@pytest.mark.parametrize("name", ["größe", "名字", "번호2", "имя", "_", "x\u0660", "naïve"])
def test_names_of_every_alphabet_come_back(name: str) -> None:
    schema = pa.schema([pa.field(name, pa.struct([pa.field(name, pa.int32())]))])
    assert to_arrow(to_avro(schema, "t_record", "hoodie.t")) == schema


def test_the_names_that_a_message_suggests_are_no_other_columns() -> None:
    names = ["a b", "a-b", "A_B", "", "_", "日 本", "日-本"]
    with pytest.raises(HoodieSchemaException, match=r"example to 'a_b_2', 'a_b_3', '__2', '日_本', '日_本_2'\."):
        avro_of(pa.schema([pa.field(name, pa.int32()) for name in names]))


PRIMITIVES = ["int", "long", "float", "double", "bytes", "string", "boolean", "null"]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_record_that_is_called_like_a_primitive_type_does_not_stand_for_it(name: str) -> None:
    schema = pa.schema(
        [
            pa.field(name, pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field(name, pa.int64())])),
            *(to_arrow(record_of({"name": f"{other}_", "type": other})).field(0) for other in PRIMITIVES[:-1]),
        ]
    )
    text = to_avro(schema, "t_record", "hoodie.t")
    assert to_arrow(text) == schema
    assert type_tree(text).arrow_type == pa.struct(list(schema))
    assert to_arrow(evolve(text, schema.append(pa.field("more", pa.string())))).names[-1] == "more"


def test_an_enum_that_is_called_like_a_primitive_type_takes_no_other_columns_with_it() -> None:
    enum = {"type": "enum", "name": "int", "namespace": "r", "symbols": ["A"]}
    fields = [{"name": "kind", "type": enum}, {"name": "n", "type": "int"}, {"name": "twin", "type": "r.int"}]
    changed = without_enums(json.dumps({"type": "record", "name": "r", "namespace": "r", "fields": fields}))
    assert [field["type"] for field in json.loads(changed)["fields"]] == ["string", "int", "string"]


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="'a' is there twice"):
        avro_of(pa.schema([pa.field("a", pa.int32()), pa.field("a", pa.int64())]))


def test_names_of_records_are_sanitised_as_hudi_does() -> None:
    assert sanitize_name("2024-trips é") == "__024__trips____"
    assert record_name("my-table") == "my__table_record"
    assert record_namespace("my-table") == "hoodie.my__table"


def test_meta_columns_come_first_and_never_twice() -> None:
    schema = pa.schema([pa.field("_hoodie_record_key", pa.string()), pa.field("a", pa.int32(), nullable=False)])
    with_meta = to_avro(schema, "r", "n", with_meta_columns=True)
    assert [field["name"] for field in json.loads(with_meta)["fields"]] == [*META_COLUMNS, "a"]
    assert json.loads(with_meta)["fields"][0] == {
        "name": "_hoodie_commit_time",
        "type": ["null", "string"],
        "doc": "",
        "default": None,
    }
    assert to_arrow(with_meta).names == ["a"]
    assert to_arrow(with_meta, with_meta_columns=True).names == [*META_COLUMNS, "a"]
    assert remove_meta_columns(with_meta) == to_avro(schema, "r", "n")
    assert add_meta_columns(with_meta) == with_meta
    assert add_meta_columns(remove_meta_columns(with_meta)) == with_meta


@pytest.mark.parametrize(
    ("avro_type", "expected"),
    [
        (["string", "null"], pa.field("c", pa.string())),
        (["null", "string"], pa.field("c", pa.string())),
        (["string"], pa.field("c", pa.string(), nullable=False)),
        ({"type": "string", "avro.java.string": "String"}, pa.field("c", pa.string(), nullable=False)),
        ({"type": {"type": "long"}}, pa.field("c", pa.int64(), nullable=False)),
        (["int", "long", "null"], pa.field("c", pa.int64())),
        (["float", "double"], pa.field("c", pa.float64(), nullable=False)),
        ({"type": "string", "logicalType": "uuid"}, pa.field("c", pa.string(), nullable=False)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.field("c", pa.string(), nullable=False)),
        (["null", {"type": "fixed", "name": "f", "size": 4}], pa.field("c", pa.binary(4))),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.field("c", pa.timestamp("us", "UTC"), nullable=False)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.field("c", pa.timestamp("us"), nullable=False)),
        ({"type": "int", "logicalType": "time-millis"}, pa.field("c", pa.time32("ms"), nullable=False)),
        ({"type": "long", "logicalType": "time-micros"}, pa.field("c", pa.time64("us"), nullable=False)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            pa.field("c", pa.decimal128(5, 2), nullable=False),
        ),
    ],
)
def test_types_of_other_writers_are_read(avro_type: Any, expected: pa.Field) -> None:
    assert to_arrow(record_of({"name": "c", "type": avro_type})).field("c") == expected


def test_a_type_may_refer_to_one_that_was_named_before() -> None:
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    schema = to_arrow(
        record_of({"name": "a", "type": point}, {"name": "b", "type": "point"}, {"name": "c", "type": "hoodie.t.point"})
    )
    assert schema.field("a").type == schema.field("b").type == schema.field("c").type
    assert schema.field("a").type == pa.struct([pa.field("x", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("avro_type", "path"),
    [
        ("null", "c"),
        (["int", "string"], "c"),
        (["null", "int", "string"], "c"),
        ("nosuchtype", "c"),
        ({"type": "array", "items": "nosuchtype"}, r"c\.element"),
        ({"type": "map"}, r"c\.value"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "c"),
        ({"type": "bytes", "logicalType": "decimal"}, "c"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "c"),
        ({"type": "fixed", "name": "f", "size": -1}, "c"),
        ({"type": "record", "name": "r", "fields": [{"name": "inner", "type": "r"}]}, r"c\.inner"),
        ({"type": "record", "name": "r", "fields": [{"name": "x"}]}, r"c\.x"),
        ({"type": "record", "name": "r"}, "c"),
        (17, "c"),
    ],
)
def test_avro_that_has_no_arrow_type_is_refused_by_the_path_of_its_field(avro_type: Any, path: str) -> None:
    with pytest.raises(HoodieSchemaException, match=rf"{path}\b"):
        to_arrow(record_of({"name": "c", "type": avro_type}))


@pytest.mark.parametrize(
    "schema",
    ["", "{", "[]", '"string"', '{"type":"record"}', '{"type":"record","name":"r","fields":[1]}', "[" * 100_000],
)
def test_what_is_no_record_is_refused(schema: str) -> None:
    with pytest.raises(HoodieSchemaException):
        to_arrow(schema)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    avro_type: Any = "int"
    for _ in range(300):
        avro_type = {"type": "array", "items": avro_type}
    with pytest.raises(HoodieSchemaException, match="nested"):
        to_arrow(record_of({"name": "c", "type": avro_type}))


OLD = record_of(
    {"name": "id", "type": "string", "doc": "the key"},
    {"name": "n", "type": ["int", "null"]},
    {
        "name": "s",
        "type": [{"type": "record", "name": "S", "namespace": "x", "fields": [{"name": "a", "type": "int"}]}, "null"],
    },
    {"name": "l", "type": {"type": "array", "items": ["int", "null"]}},
)


def test_evolving_appends_nullable_columns_and_leaves_the_rest() -> None:
    new = pa.schema(
        [
            pa.field("extra", pa.int64(), nullable=False),
            pa.field("n", pa.int16(), nullable=False),
            pa.field("_hoodie_commit_time", pa.string()),
            pa.field("id", pa.string(), nullable=False),
            pa.field("price", pa.decimal128(4, 2)),
        ]
    )
    evolved = json.loads(evolve(OLD, new))
    assert evolved["fields"][:4] == json.loads(OLD)["fields"]
    assert evolved["fields"][4] == {"name": "extra", "type": ["null", "long"], "default": None}
    assert evolved["fields"][5]["type"][1]["namespace"] == "hoodie.t.t_record.price"
    assert len(evolved["fields"]) == 6


def test_evolving_reaches_into_structs_and_keeps_their_names_and_order_of_unions() -> None:
    new = pa.schema([pa.field("s", pa.struct([pa.field("b", pa.string()), pa.field("a", pa.int32(), nullable=False)]))])
    (struct,) = (field for field in json.loads(evolve(OLD, new))["fields"] if field["name"] == "s")
    assert struct["type"] == [
        {
            "type": "record",
            "name": "S",
            "namespace": "x",
            "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": None}],
        },
        "null",
    ]


def test_evolving_writes_a_wider_type_in_the_place_of_the_old_one() -> None:
    new = pa.schema([pa.field("n", pa.int64()), pa.field("l", pa.list_(pa.int64()), nullable=False)])
    fields = {field["name"]: field["type"] for field in json.loads(evolve(OLD, new))["fields"]}
    assert fields["n"] == ["long", "null"]
    assert fields["l"] == {"type": "array", "items": ["long", "null"]}


def test_evolving_keeps_the_text_of_types_that_only_other_writers_make() -> None:
    old = record_of(
        {"name": "a", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "c", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}]},
        {"name": "d", "type": {"type": "enum", "name": "e", "symbols": ["X"]}},
    )
    evolved = json.loads(evolve(old, pa.schema([*to_arrow(old), pa.field("z", pa.string())])))
    assert evolved["fields"][:-1] == json.loads(old)["fields"]


@pytest.mark.parametrize(
    "avro_type",
    [
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "fixed", "name": "fixed", "size": 16, "logicalType": "decimal", "precision": 10, "scale": 2},
    ],
)
def test_types_that_would_be_stored_in_another_form_are_refused_by_name(avro_type: Any) -> None:
    inner = {"type": "record", "name": "s", "fields": [{"name": "b", "type": ["null", avro_type]}]}
    schema = record_of({"name": "a", "type": {"type": "array", "items": {"type": "map", "values": inner}}})
    with pytest.raises(HoodieSchemaException, match=r"'a\.element\.value\.b'"):
        check_writable(schema)


def test_schemas_of_real_commits_are_writable(shared_tables: Path) -> None:
    for schema in schemas_of_real_commits(shared_tables):
        check_writable(schema)


def test_evolving_by_nothing_new_gives_the_very_same_text() -> None:
    spaced = json.dumps(json.loads(OLD), indent=3)
    assert evolve(spaced, to_arrow(spaced)) == spaced
    assert evolve(spaced, pa.schema([])) == spaced


leaf_types = st.sampled_from(
    [
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.binary(),
        pa.binary(7),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    ]
) | st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))


def fields_of(types: st.SearchStrategy[pa.DataType], name: str) -> st.SearchStrategy[pa.Field]:
    return st.builds(lambda data_type, nullable: pa.field(name, data_type, nullable), types, st.booleans())


def schemas_of(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    names = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=4)
    return names.flatmap(lambda chosen: st.tuples(*(fields_of(types, name) for name in chosen)).map(list))


all_types = st.recursive(
    leaf_types,
    lambda types: (
        fields_of(types, "element").map(pa.list_)
        | fields_of(types, "value").map(lambda field: pa.map_(pa.string(), field))
        | schemas_of(types).map(pa.struct)
    ),
    max_leaves=6,
)


@given(schemas_of(all_types).map(pa.schema), st.booleans())
def test_every_storable_schema_comes_back(schema: pa.Schema, with_meta_columns: bool) -> None:
    avro = to_avro(schema, "t_record", "hoodie.t", with_meta_columns)
    assert to_arrow(avro) == schema
    assert evolve(avro, schema) == avro


@given(schemas_of(all_types), schemas_of(all_types))
@pytest.mark.one_in(4)
def test_an_evolved_schema_holds_the_old_columns_first_and_all_new_ones(
    old: list[pa.Field], new: list[pa.Field]
) -> None:
    names = {field.name for field in old}
    added = [field for field in new if field.name not in names]
    evolved = evolve(to_avro(pa.schema(old), "t_record", "hoodie.t"), pa.schema(added))
    assert to_arrow(evolved) == pa.schema([*old, *(field.with_nullable(True) for field in added)])


def test_enums_become_strings_where_they_are_named_again_too() -> None:
    colour = {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}
    fields = [
        {"name": "a", "type": ["null", colour], "default": None},
        {"name": "b", "type": {"type": "array", "items": "colour"}},
        {
            "name": "c",
            "type": {"type": "record", "name": "c", "fields": [{"name": "x", "type": ["null", "ns.colour"]}]},
        },
        {"name": "d", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}}},
    ]
    record = {"type": "record", "name": "r", "namespace": "ns", "fields": fields}
    changed = json.loads(without_enums(json.dumps(record)))
    assert [field["type"] for field in changed["fields"]] == [
        ["null", "string"],
        {"type": "array", "items": "string"},
        {"type": "record", "name": "c", "fields": [{"name": "x", "type": ["null", "string"]}]},
        fields[3]["type"],
    ]
    assert to_arrow(json.dumps(changed)) == to_arrow(json.dumps(record))
    plain = json.dumps(record | {"fields": fields[3:]})
    assert without_enums(plain) == plain


def test_fields_in_milliseconds() -> None:
    def nullable(logical: str) -> list[Any]:
        return ["null", {"type": "long", "logicalType": logical}]

    inner = {"type": "record", "name": "i", "fields": [{"name": "at", "type": nullable("local-timestamp-millis")}]}
    fields = [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": nullable("timestamp-micros")},
        {"name": "s", "type": ["null", inner]},
    ]
    assert fields_in_millis(json.dumps({"type": "record", "name": "r", "fields": fields})) == {"ts", "s.at"}
    assert fields_in_millis(json.dumps({"type": "record", "name": "r", "fields": fields[1:2]})) == frozenset()
