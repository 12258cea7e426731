"""Keys and partition paths: rules on small batches, and real tables computed again."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieNotSupportedException
from hoodie.keygen.base_key_generator import field_column
from hoodie.keygen.built_in_key_generators import (
    ComplexKeyGenerator,
    NonpartitionedKeyGenerator,
    SimpleKeyGenerator,
    has_field_prefix,
)
from hoodie.keygen.key_generator import KeyGenerator, create_key_generator, key_form_depends_on_table
from hoodie.keygen.partition_path_encoding import usable_paths

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


@attrs.frozen
class Config:
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    key_generator_class: str | None = None
    hive_style_partitioning: bool = False
    url_encode_partitioning: bool = False
    table_name: str = "trips"
    properties: Mapping[str, str] = attrs.field(factory=dict)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def keys_of(generator: KeyGenerator, **columns: Any) -> tuple[list[str | None], list[str | None]]:
    rows = batch(**columns)
    return generator.record_keys(rows).to_pylist(), generator.partition_paths(rows).to_pylist()


def paths_of(values: list[Any], **options: Any) -> list[str | None]:
    return keys_of(SimpleKeyGenerator(("id",), ("p",), **options), id=["k"] * len(values), p=values)[1]


# ---------------------------------------------------------------------------------------------------------- choosing


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config(("id",)), NonpartitionedKeyGenerator),
        (Config(("id", "name")), NonpartitionedKeyGenerator),
        (Config(("id",), ("p",)), SimpleKeyGenerator),
        (Config(("id", "name"), ("p",)), ComplexKeyGenerator),
        (Config(("id",), ("p", "q")), ComplexKeyGenerator),
        (Config(("id",), ("p",), "org.apache.hudi.keygen.ComplexKeyGenerator"), ComplexKeyGenerator),
        (Config(("id",), ("p",), "org.apache.hudi.keygen.SimpleAvroKeyGenerator"), SimpleKeyGenerator),
        (Config(("id",), (), "NON_PARTITION"), NonpartitionedKeyGenerator),
    ],
)
def test_the_generator_comes_from_the_properties_or_is_inferred_as_hudi_does(config: Config, expected: type) -> None:
    assert type(create_key_generator(config)) is expected


def test_an_unknown_generator_is_refused_by_property_and_value() -> None:
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.keygenerator\.class = org\.x\.Mine.*name it"):
        create_key_generator(Config(("id",), ("p",), "org.x.Mine"))
    for name in ("GlobalDeleteKeyGenerator", "GLOBAL_DELETE", "org.apache.hudi.keygen.Mine"):
        with pytest.raises(HoodieNotSupportedException, match=f"keygenerator.class = {name}"):
            create_key_generator(Config(("id",), (), name))


def test_a_simple_generator_with_two_partition_fields_is_refused() -> None:
    with pytest.raises(HoodieKeyException, match="ComplexKeyGenerator"):
        create_key_generator(Config(("id",), ("p", "q"), "SIMPLE"))


def test_generators_are_picklable() -> None:
    generator = create_key_generator(Config(("id", "name"), ("p",), None, True, True))
    assert pickle.loads(pickle.dumps(generator)) == generator


# -------------------------------------------------------------------------------------------------------------- keys


def test_a_simple_key_is_the_value_and_null_or_empty_has_none() -> None:
    generator = SimpleKeyGenerator(("id",), ("p",))
    assert keys_of(generator, id=["a", "", None, "ü,:"], p=["x"] * 4)[0] == ["a", None, None, "ü,:"]


def test_a_complex_key_names_its_fields_and_marks_null_and_empty_parts() -> None:
    generator = ComplexKeyGenerator(("id", "name"), ("p",))
    keys, _ = keys_of(generator, id=[1, 2, 3, None], name=["Alice", None, "", ""], p=["x"] * 4)
    assert keys == ["id:1,name:Alice", "id:2,name:__null__", "id:3,name:__empty__", None]


def test_a_complex_key_of_numbers_only_has_no_empty_parts_to_look_for() -> None:
    assert keys_of(ComplexKeyGenerator(("a", "b")), a=[1, None], b=[None, 2])[0] == ["a:1,b:__null__", "a:__null__,b:2"]


@pytest.mark.parametrize(("prefix", "expected"), [(True, ["id:1", None]), (False, ["1", None]), (None, ["id:1", None])])
def test_one_complex_field_has_the_form_that_the_table_uses(prefix: bool | None, expected: list[str | None]) -> None:
    config = Config(("id",), ("p",), "COMPLEX")
    assert key_form_depends_on_table(config)
    assert keys_of(create_key_generator(config, prefix), id=[1, None], p=["x", "x"])[0] == expected


def test_only_a_complex_generator_with_one_field_depends_on_the_table() -> None:
    assert not key_form_depends_on_table(Config(("id",), ("p",)))
    assert not key_form_depends_on_table(Config(("id", "x"), ("p",), "COMPLEX"))
    assert has_field_prefix("id:4", "id")
    assert not has_field_prefix("id4", "id")


def test_values_become_strings_as_hudi_writes_them() -> None:
    columns = {
        "int": pa.array([-5], pa.int32()),
        "bool": pa.array([True]),
        "day": pa.array([datetime.date(2026, 11, 21)]),
        "time": pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us", tz="UTC")),
        "money": pa.array([Decimal("12.30")], pa.decimal128(10, 2)),
        "real": pa.array([1e7]),
        "octets": pa.array(["é".encode()]),
    }
    for name, expected in {
        "int": "-5",
        "bool": "true",
        "day": "2026-11-21",
        "time": "1000000",
        "money": "12.30",
        "real": "1.0E7",
        "octets": "c3a9",
    }.items():
        assert keys_of(NonpartitionedKeyGenerator((name,)), **columns)[0] == [expected]


def test_fields_of_structs_are_reached_by_dots_and_a_null_struct_has_none() -> None:
    rows = batch(a=[{"b": {"c": 7}}, {"b": None}, None])
    assert NonpartitionedKeyGenerator(("a.b.c",)).record_keys(rows).to_pylist() == ["7", None, None]


def test_dictionary_columns_are_keys_like_plain_ones() -> None:
    values = pa.array(["x", "", None, "x"]).dictionary_encode()
    rows = pa.RecordBatch.from_arrays([values, values], names=["id", "p"])
    generator = SimpleKeyGenerator(("id",), ("p",))
    assert generator.record_keys(rows).to_pylist() == ["x", None, None, "x"]
    default = "__HIVE_DEFAULT_PARTITION__"
    assert generator.partition_paths(rows).to_pylist() == ["x", default, default, "x"]


def test_an_empty_batch_has_no_keys() -> None:
    rows = batch(id=pa.array([], pa.string()), p=pa.array([], pa.string()))
    for generator in (SimpleKeyGenerator(("id",), ("p",)), ComplexKeyGenerator(("id", "p"), ("p", "id"), True, True)):
        keys, paths = generator.keys(rows)
        assert (keys.to_pylist(), paths.to_pylist()) == ([], [])
        assert keys.type == paths.type == pa.string()


# --------------------------------------------------------------------------------------------------- partition paths


def test_a_table_without_partitions_has_the_empty_path() -> None:
    assert keys_of(NonpartitionedKeyGenerator(("id",)), id=["a", "b"])[1] == ["", ""]


def test_null_and_empty_partition_values_are_hives_default_partition() -> None:
    assert paths_of(["x", "", None]) == ["x", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"]
    assert paths_of([None, "x"], hive_style=True, url_encode=True)[0] == "p=__HIVE_DEFAULT_PARTITION__"


def test_several_partition_fields_are_levels() -> None:
    generator = ComplexKeyGenerator(("id",), ("p", "q"), hive_style=True)
    assert keys_of(generator, id=[1], p=["x"], q=[datetime.date(2026, 1, 2)])[1] == ["p=x/q=2026-01-02"]


def test_a_slash_makes_another_level_unless_it_is_escaped() -> None:
    assert paths_of(["a/b"]) == ["a/b"]
    assert paths_of(["a/b"], url_encode=True) == ["a%2Fb"]
    assert paths_of(["10:00"], url_encode=True) == ["10%3A00"]


def test_url_encoding_escapes_what_hudi_escapes_and_nothing_else() -> None:
    escaped = "\"#%'*/:=?\\\x7f{[]^\x01\x1f\x00"
    expected = "".join(f"%{ord(character):02X}" for character in escaped)
    assert paths_of([escaped], url_encode=True) == [expected]
    kept = "a b}|<>&+ü~-_.,;!@$()東"
    assert paths_of([kept], url_encode=True) == [kept]


@pytest.mark.parametrize("value", ["a[b]", "a{b", "p*q", "münchen", "東京", "a b", "a%2Fb", "x" * 255])
def test_unusual_names_are_taken_as_they_are(value: str) -> None:
    assert paths_of([value]) == [value]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("..", "'.' or '..'"),
        (".", "'.' or '..'"),
        ("a/../../b", "'.' or '..'"),
        ("/etc", "starts with a slash"),
        ("a/", "ends with a slash"),
        ("a//b", "two slashes"),
        ("a\nb", "control character"),
        ("a\x00", "control character"),
        ("2026-01-01 10:00:00", "colon"),
        ("a/b:c", "colon"),
        (".hoodie", "Hudi uses"),
        (".hoodie/x", "Hudi uses"),
        (".hoodie_partition_metadata", "Hudi uses"),
        ("x" * 300, "300 bytes"),
        ("é" * 128, "256 bytes"),
    ],
)
def test_values_that_cannot_be_a_folder_below_the_table_have_no_path(value: str, reason: str) -> None:
    generator = SimpleKeyGenerator(("id",), ("p",))
    rows = batch(id=["a", "b"], p=["fine", value])
    assert generator.partition_paths(rows).to_pylist() == ["fine", None]
    (bad,) = generator.bad_rows(rows)
    assert bad.columns == ("p",)
    assert bad.count == 1
    assert reason in bad.reason
    keys, paths = generator.keys(rows)
    assert keys.to_pylist() == ["a", None]
    assert paths.to_pylist() == ["fine", None]


def test_dots_are_refused_even_when_escaped_or_behind_a_field_name() -> None:
    assert paths_of([".."], url_encode=True) == [None]
    assert paths_of([".."], hive_style=True) == [None]
    assert paths_of([".hoodie"], hive_style=True) == ["p=.hoodie"]


def test_the_name_of_the_field_counts_for_the_length_of_a_level() -> None:
    assert paths_of(["x" * 254], hive_style=True) == [None]
    assert paths_of(["x" * 253], hive_style=True) == ["p=" + "x" * 253]
    assert paths_of(["*" * 100], url_encode=True) == [None]


def test_paths_that_users_give_themselves_are_held_to_the_same_rules() -> None:
    paths = pa.array(
        ["", None, "a/b", "p=x/q=y", "/".join(["x" * 200] * 3), "..", "a/../..", "/etc", "a//b", "x" * 256]
    )
    expected = ["", None, "a/b", "p=x/q=y", "/".join(["x" * 200] * 3), None, None, None, None, None]
    assert usable_paths(paths).to_pylist() == expected


def test_few_distinct_values_give_the_same_paths_as_many() -> None:
    values = ["a", "..", None, "b/c"]
    assert paths_of(values * 100) == paths_of(values) * 100


# ------------------------------------------------------------------------------------------------------------ errors


def test_bind_names_a_missing_column_and_those_that_exist() -> None:
    schema = pa.schema([("id", pa.int32()), ("region", pa.string())])
    generator = SimpleKeyGenerator(("id",), ("region",))
    assert generator.bind(schema) is generator
    with pytest.raises(HoodieKeyException, match=r"record key field 'uuid' .* its columns are: id, region"):
        SimpleKeyGenerator(("uuid",), ("region",)).bind(schema)
    with pytest.raises(HoodieKeyException, match=r"partition field 'p' .* its columns are: id, region"):
        SimpleKeyGenerator(("id",), ("p",)).bind(schema)
    with pytest.raises(HoodieKeyException, match=r"'id\.x'"):
        NonpartitionedKeyGenerator(("id.x",)).bind(schema)


def test_bind_refuses_a_type_that_has_no_string() -> None:
    with pytest.raises(HoodieKeyException, match="list"):
        NonpartitionedKeyGenerator(("id",)).bind(pa.schema([("id", pa.list_(pa.int32()))]))


def test_a_batch_without_the_column_is_refused() -> None:
    with pytest.raises(HoodieKeyException, match="its columns are: id"):
        field_column(batch(id=[1]), "name")


def test_bad_rows_are_explained_with_column_count_and_first_rows() -> None:
    rows = batch(id=["a", None, "", None, None], p=["x", "x", "y", "..", "z"])
    message = SimpleKeyGenerator(("id",), ("p",)).explain_bad_rows(rows)
    assert (
        "column 'id' is null or empty in 4 records, first: {id: None, p: 'x'}; {id: '', p: 'y'}; {id: None" in message
    )
    assert "column 'p' contains '.' or '..', which would lead to another folder in 1 record" in message
    assert SimpleKeyGenerator(("id",), ("p",)).explain_bad_rows(batch(id=["a"], p=["x"])) == ""


def test_a_complex_key_without_any_value_is_explained_by_all_its_columns() -> None:
    message = ComplexKeyGenerator(("a", "b")).explain_bad_rows(batch(a=["", "x"], b=[None, "y"]))
    assert "columns 'a', 'b' are all null or empty in 1 record" in message


NAN = float("nan")


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_no_record_key(kind: pa.DataType) -> None:
    values = pa.array([1.5, NAN, None, -NAN], kind)
    for given in (values, values.dictionary_encode()):
        assert NonpartitionedKeyGenerator(("x",)).record_keys(batch(x=given)).to_pylist() == ["1.5", None, None, None]


@pytest.mark.parametrize("generator", [ComplexKeyGenerator(("a", "x")), NonpartitionedKeyGenerator(("a", "x"))])
def test_one_nan_field_makes_no_complex_key_though_a_null_one_does(generator: KeyGenerator) -> None:
    rows = batch(a=["k", "k", "k"], x=[1.5, NAN, None])
    assert generator.record_keys(rows).to_pylist() == ["a:k,x:1.5", None, "a:k,x:__null__"]


def test_the_only_field_of_a_complex_key_is_not_nan_either() -> None:
    assert ComplexKeyGenerator(("x",)).record_keys(batch(x=[1.5, NAN])).to_pylist() == ["x:1.5", None]


def test_nan_within_a_struct_is_no_record_key() -> None:
    rows = batch(s=[{"x": 1.5}, {"x": NAN}, None])
    assert NonpartitionedKeyGenerator(("s.x",)).record_keys(rows).to_pylist() == ["1.5", None, None]


def test_bad_rows_with_nan_are_told_from_those_with_null() -> None:
    message = NonpartitionedKeyGenerator(("x",)).explain_bad_rows(batch(x=[1.0, NAN, None, NAN]))
    assert "column 'x' is NaN in 2 records, first: {x: nan}; {x: nan}" in message
    assert "column 'x' is null or empty in 1 record, first: {x: None}" in message
    message = ComplexKeyGenerator(("a", "x")).explain_bad_rows(batch(a=["k", "l", ""], x=[NAN, 1.0, None]))
    assert "column 'x' is NaN in 1 record, first: {a: 'k', x: nan}" in message
    assert "columns 'a', 'x' are all null or empty in 1 record, first: {a: '', x: None}" in message


def test_nan_in_a_partition_field_makes_a_folder() -> None:
    assert paths_of([1.5, NAN]) == ["1.5", "NaN"]


# ------------------------------------------------------------------------------------------------------- real tables

TABLES = {
    "sample_table-cow-v6_complexkeygen_hivestyle",
    "sample_table-cow-v6_nonpartitioned",
    "sample_table-cow-v6_simplekeygen_nonhivestyle",
    "sample_table-mor-parquet-v6_nonpartitioned",
    "sample_table-mor-parquet-v6_simplekeygen_nonhivestyle",
    "hudi-v6-table",
    "hudi-v6-table-complex-keygen",
    "hudi-v6-table-payload-default",
    "hudi-v6-table-payload-eventtime",
    "hudi-v6-table-mor",
    "quickstart_trips_table-mor-avro-v6_trips_8i1u",
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_keys_and_paths_of_a_real_table_are_found_again(shared_tables: Path, name: str) -> None:
    properties_file = min((shared_tables / name).rglob("hoodie.properties"), key=lambda path: len(path.parts))
    config = _config_of(_properties(properties_file))
    checked = 0
    for path in sorted(properties_file.parent.parent.rglob("*.parquet")):
        if ".hoodie" in path.parts or not _has_meta_columns(path):
            continue
        rows = pq.ParquetFile(path).read().combine_chunks()
        if rows.num_rows == 0:
            continue
        stored = rows.select(META)
        data = rows.drop_columns(META).to_batches()[0]
        prefix = None
        if key_form_depends_on_table(config):
            prefix = has_field_prefix(stored["_hoodie_record_key"][0].as_py(), config.record_key_fields[0])
        generator = create_key_generator(config, prefix).bind(data.schema)
        assert generator.record_keys(data).to_pylist() == stored["_hoodie_record_key"].to_pylist()
        assert generator.partition_paths(data).to_pylist() == stored["_hoodie_partition_path"].to_pylist()
        checked += rows.num_rows
    assert checked > 0


def _has_meta_columns(path: Path) -> bool:
    return set(META) <= set(pq.read_schema(path).names)


def _properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {key: value.replace("\\:", ":") for key, _, value in (line.partition("=") for line in lines)}


def _config_of(properties: dict[str, str]) -> Config:
    def fields(key: str) -> tuple[str, ...]:
        return tuple(name for name in properties.get(key, "").split(",") if name)

    return Config(
        fields("hoodie.table.recordkey.fields"),
        fields("hoodie.table.partition.fields"),
        properties.get("hoodie.table.keygenerator.class"),
        json.loads(properties.get("hoodie.datasource.write.hive_style_partitioning", "false")),
        json.loads(properties.get("hoodie.datasource.write.partitionpath.urlencode", "false")),
    )


# ------------------------------------------------------------------------------------------------------ times and types

TIME = "hoodie.keygen.timebased."
CUSTOM = "org.apache.hudi.keygen.CustomKeyGenerator"
PARTITIONS = "hoodie.datasource.write.partitionpath.field"


def times(**given: str) -> dict[str, str]:
    return {f"{TIME}{name.replace('_', '.')}": value for name, value in given.items()}


UNIX = times(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy/MM/dd")


def test_the_tables_own_properties_of_times_go_first() -> None:
    config = Config(("id",), ("ts",), "TIMESTAMP", properties=UNIX)
    generator = create_key_generator(config, write_properties=times(output_dateformat="yyyy"))
    assert keys_of(generator, id=["a"], ts=[86400]) == (["a"], ["1970/01/02"])
    only_by_writer = create_key_generator(Config(("id",), ("ts",), "TIMESTAMP"), write_properties=UNIX)
    assert only_by_writer == generator
    assert pickle.loads(pickle.dumps(generator)) == generator


def test_missing_properties_of_times_are_all_named() -> None:
    with pytest.raises(HoodieConfigException, match=r"timestamp\.type .*add it.*output\.dateformat is missing"):
        create_key_generator(Config(("id",), ("ts",), "TIMESTAMP"))
    texts = times(timestamp_type="DATE_STRING", output_dateformat="yyyy", input_dateformat="yyyy-MM-dd z")
    with pytest.raises(HoodieConfigException, match="'z' in the pattern 'yyyy-MM-dd z'"):
        create_key_generator(Config(("id",), ("ts",), "TIMESTAMP", properties=texts))


def test_columns_that_are_not_what_the_type_says_are_refused_before_anything_runs() -> None:
    numbers = create_key_generator(Config(("id",), ("ts",), "TIMESTAMP", properties=UNIX))
    with pytest.raises(HoodieKeyException, match="'ts' has type string.*or name DATE_STRING"):
        numbers.bind(pa.schema([("id", pa.string()), ("ts", pa.string())]))
    texts = times(timestamp_type="DATE_STRING", output_dateformat="yyyy", input_dateformat="yyyy-MM-dd")
    generator = create_key_generator(Config(("id",), ("ts",), "TIMESTAMP", properties=texts))
    with pytest.raises(HoodieKeyException, match="'ts' has type int64.*reads texts"):
        generator.bind(pa.schema([("id", pa.string()), ("ts", pa.int64())]))


def test_texts_that_are_no_times_are_explained() -> None:
    texts = times(timestamp_type="DATE_STRING", output_dateformat="yyyy", input_dateformat="yyyy-MM-dd")
    generator = create_key_generator(Config(("id",), ("ts",), "TIMESTAMP", properties=texts))
    rows = batch(id=["a", "b", "c", "d"], ts=["2026-11-21", "21.11.2026", "2026-02-30", None])
    assert generator.partition_paths(rows).to_pylist() == ["2026", None, None, "1970"]
    text = generator.explain_bad_rows(rows)
    assert "is not of the form hoodie.keygen.timebased.input.dateformat = yyyy-MM-dd in 1 record" in text
    assert "2026-02 has no day 30" in text


def test_types_of_partition_fields_come_from_the_table_or_the_writer() -> None:
    rows = {"id": [1], "a": ["x"], "ts": [86400]}
    plain = Config(("id",), ("a", "ts"), CUSTOM)
    simple = {PARTITIONS: "a:SIMPLE,ts:SIMPLE"}
    assert keys_of(create_key_generator(plain, write_properties=simple), **rows) == (["1"], ["x/86400"])
    typed = {PARTITIONS: "a:simple, ts:TIMESTAMP"}
    for config, written in (
        (attrs.evolve(plain, properties=UNIX), typed),
        (attrs.evolve(plain, properties=UNIX | typed), {PARTITIONS: "a,ts"}),
        (attrs.evolve(plain, properties=typed), UNIX),
    ):
        assert keys_of(create_key_generator(config, write_properties=written), **rows) == (["1"], ["x/1970/01/02"])
    for written in ({}, {PARTITIONS: "a,ts"}, {PARTITIONS: "a:SIMPLE,ts:TIME"}, {PARTITIONS: "a:SIMPLE,b:SIMPLE"}):
        with pytest.raises(HoodieConfigException, match=r"partitionpath\.field = a:SIMPLE,ts:SIMPLE"):
            create_key_generator(plain, write_properties=written)


def test_a_custom_generator_without_partitions_has_one_folder() -> None:
    generator = create_key_generator(Config(("a", "b"), (), CUSTOM))
    assert keys_of(generator, a=[1], b=pa.array([None], pa.string())) == (["a:1,b:__null__"], [""])
