from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.exception import HoodieConfigException, HoodieTransformException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.transform.chained_transformer import properties_of_id
from hoodie.utilities.transform.transformers import make_transformer, split_id
from tests.support import streamer_user_code

USER = streamer_user_code.__name__
QUERY = "hoodie.streamer.transformer.sql"
FILE = "hoodie.streamer.transformer.sql.file"
TRIPS = pa.table({"uuid": ["a", "b", "c"], "fare": [1.0, 2.0, 3.0]})


def apply(names: list[str], table: pa.Table = TRIPS, **properties: str) -> pa.Table:
    transformer = make_transformer(names)
    assert transformer is not None
    return transformer.apply(table, StreamerProperties(properties))


@pytest.mark.parametrize(
    ("name", "identifier", "rest"),
    [
        ("FlatteningTransformer", None, "FlatteningTransformer"),
        ("t1:FlatteningTransformer", "t1", "FlatteningTransformer"),
        (
            "t1:org.apache.hudi.utilities.transform.SqlQueryBasedTransformer",
            "t1",
            "org.apache.hudi.utilities.transform.SqlQueryBasedTransformer",
        ),
        ("t1:my.module.Class", "t1", "my.module.Class"),
        ("json:FlatteningTransformer", "json", "FlatteningTransformer"),
        ("my_module:clean", None, "my_module:clean"),
        ("my.module:Clean", None, "my.module:Clean"),
        ("t1:my.module:Clean", "t1", "my.module:Clean"),
        ("my.module.Clean", None, "my.module.Clean"),
    ],
)
def test_the_part_after_the_last_colon_tells_ids_from_modules(name: str, identifier: str | None, rest: str) -> None:
    assert split_id(name) == (identifier, rest)


@pytest.mark.parametrize("name", ["a:b:c:d", ":FlatteningTransformer", "a b:FlatteningTransformer", "t1::f", "t1:m:"])
def test_names_with_too_many_colons_or_wrong_ids_are_refused(name: str) -> None:
    with pytest.raises(HoodieConfigException, match="--transformer-class"):
        split_id(name)


def test_no_names_make_no_transformer() -> None:
    assert make_transformer([]) is None


def test_a_query_reads_the_rows_as_src() -> None:
    changed = apply(["SqlQueryBasedTransformer"], **{QUERY: "SELECT uuid, fare + 1 AS fare FROM <SRC> WHERE fare > 1;"})

    assert changed.to_pylist() == [{"uuid": "b", "fare": 3.0}, {"uuid": "c", "fare": 4.0}]


def test_java_names_and_old_spellings_work() -> None:
    name = "org.apache.hudi.utilities.transform.SqlQueryBasedTransformer"

    changed = apply(
        [name],
        **{"hoodie.deltastreamer.transformer.sql": "SELECT count(*) AS n FROM <SRC> a JOIN <SRC> b USING (uuid)"},
    )

    assert changed.to_pylist() == [{"n": 3}]


def test_an_empty_batch_keeps_the_columns_of_the_query() -> None:
    changed = apply(["SqlQueryBasedTransformer"], TRIPS.slice(0, 0), **{QUERY: "SELECT fare AS f, 'x' AS s FROM <SRC>"})

    assert changed.schema == pa.schema([("f", pa.float64()), ("s", pa.string())])
    assert len(changed) == 0


def test_the_last_statement_of_a_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "change.sql"
    path.write_text("CACHE TABLE dear AS\nSELECT * FROM <SRC> WHERE fare > 1;\n-- those;\nSELECT uuid FROM dear;\n")

    assert apply(["SqlFileBasedTransformer"], **{FILE: str(path)}).to_pylist() == [{"uuid": "b"}, {"uuid": "c"}]


@pytest.mark.parametrize(
    ("name", "properties", "expected"),
    [
        ("SqlQueryBasedTransformer", {}, "needs hoodie.streamer.transformer.sql"),
        ("SqlFileBasedTransformer", {}, "needs hoodie.streamer.transformer.sql.file"),
        ("SqlFileBasedTransformer", {FILE: "/nowhere/a.sql"}, "/nowhere/a.sql cannot be read"),
        ("SqlQueryBasedTransformer", {QUERY: "SELECT missing FROM <SRC>"}, "missing"),
    ],
)
def test_missing_sql_and_wrong_sql_name_the_transformer(name: str, properties: dict[str, str], expected: str) -> None:
    with pytest.raises((HoodieTransformException, HoodieConfigException)) as raised:
        apply([name], **properties)

    assert str(raised.value).startswith(f"transformer {name}: ")
    assert expected in str(raised.value)


def test_a_file_without_statements_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.sql").write_text("-- to do;\n")

    with pytest.raises(HoodieTransformException, match="has no statement"):
        apply(["SqlFileBasedTransformer"], **{FILE: str(tmp_path / "empty.sql")})


def test_structs_become_columns_at_any_depth_and_arrays_stay() -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "a": [{"b": {"c": 1}, "d": [{"e": 1}]}, None, {"b": None, "d": None}],
            "x.y": ["p", "q", "r"],
        }
    )

    changed = apply(["FlatteningTransformer"], rows)

    assert changed.to_pylist() == [
        {"id": 1, "a_b_c": 1, "a_d": [{"e": 1}], "x_y": "p"},
        {"id": 2, "a_b_c": None, "a_d": None, "x_y": "q"},
        {"id": 3, "a_b_c": None, "a_d": None, "x_y": "r"},
    ]


def test_a_field_below_a_struct_that_may_be_null_may_be_null() -> None:
    inner = pa.struct([pa.field("b", pa.int64(), nullable=False)])
    rows = pa.table([pa.array([{"b": 1}, None], inner)], schema=pa.schema([pa.field("a", inner)]))

    changed = apply(["FlatteningTransformer"], rows)

    assert changed.schema == pa.schema([pa.field("a_b", pa.int64(), nullable=True)])
    assert changed["a_b"].to_pylist() == [1, None]


def test_two_flat_columns_of_one_name_are_refused() -> None:
    rows = pa.table({"a": [{"b": 1}], "a_b": [2]})

    with pytest.raises(HoodieTransformException, match="several columns of the name a_b"):
        apply(["FlatteningTransformer"], rows)


def test_rows_of_a_full_load_get_an_empty_op() -> None:
    assert apply(["AWSDmsTransformer"])["Op"].to_pylist() == ["", "", ""]
    assert apply(["AWSDmsTransformer"], pa.table({"Op": ["D"]})).to_pylist() == [{"Op": "D"}]


def test_functions_and_classes_of_users_get_the_table_and_the_properties() -> None:
    names = [f"{USER}:double_fares", f"{USER}:FirstRow", f"{USER}.AddsColumn"]

    changed = apply(names, **{"my.factor": "10"})

    assert changed.to_pylist() == [{"uuid": "a", "fare": 10.0, "added": 1}]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "divide_by_zero",
            r"divide_by_zero failed \(ZeroDivisionError: of the user's, streamer_user_code\.py line \d+\)",
        ),
        ("return_nothing", "it returned nothing: return an Arrow table"),
    ],
)
def test_an_error_of_a_user_names_the_transformer(name: str, message: str) -> None:
    with pytest.raises(HoodieTransformException, match=message) as raised:
        apply(["AWSDmsTransformer", f"{USER}:{name}"])

    assert str(raised.value).startswith(f"transformer {USER}:{name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("FlattenTransformer", "nearest: FlatteningTransformer"),
        ("EmbeddingTransformer", "write a function"),
        ("org.apache.hudi.utilities.transform.ChainedTransformer", "separated by commas"),
        ("no_such_module_here:f", "cannot be imported .*if no_such_module_here is meant as an id.*:module:f"),
        (f"{USER}:missing", "cannot be imported"),
        (f"{USER}:NOT_A_FUNCTION", "is int: name a function"),
        (f"{USER}:NeedsArguments", "cannot be made with no argument"),
    ],
)
def test_names_of_nothing_that_transforms_are_refused(name: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        make_transformer([name])


def test_each_id_has_properties_of_its_own() -> None:
    names = ["first:SqlQueryBasedTransformer", "second:SqlQueryBasedTransformer", f"third:{USER}:double_fares"]
    properties = {
        f"{QUERY}.first": "SELECT *, 1 AS a FROM <SRC>",
        "hoodie.deltastreamer.transformer.sql.second": "SELECT *, a + 1 AS b FROM <SRC> WHERE uuid = 'b'",
        QUERY: "SELECT wrong FROM <SRC>",
        "my.factor.third": "5",
        "my.factor": "7",
    }

    assert apply(names, **properties).to_pylist() == [{"uuid": "b", "fare": 10.0, "a": 1, "b": 2}]


def test_a_transformer_sees_its_own_properties_and_those_without_an_id() -> None:
    given = StreamerProperties({"sql.a": "1", "sql.b": "2", "hoodie.streamer.k.a": "3", "x": "4"})

    seen = properties_of_id(given.with_({"hoodie.deltastreamer.k": "0"}), "a", ["a", "b"])

    assert dict(seen) == {"sql": "1", "hoodie.streamer.k": "3", "x": "4"}


def test_properties_of_other_ids_vanish() -> None:
    names = ["one:SqlQueryBasedTransformer", "two:SqlQueryBasedTransformer"]

    with pytest.raises(HoodieConfigException, match="transformer two:SqlQueryBasedTransformer: .*needs"):
        apply(names, **{f"{QUERY}.one": "SELECT * FROM <SRC>"})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a:AWSDmsTransformer", "FlatteningTransformer"], "without one: FlatteningTransformer"),
        (["a:AWSDmsTransformer", f"{USER}:double_fares"], f"without one: {USER}:double_fares"),
        (["a:AWSDmsTransformer", "a:FlatteningTransformer"], "the id a is there twice"),
    ],
)
def test_ids_are_all_or_none_and_each_once(names: list[str], message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        make_transformer(names)
