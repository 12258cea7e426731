"""Tables whose columns change: what is read and merged afterwards, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.exception import (
    HoodieException,
    HoodieKeyException,
    HoodieSchemaException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)
from tests.support.table_builder import local_client

Rows = list[dict[str, Any]]


class Table:
    """A table of key ``id`` in partitions ``part``, ordered by ``ts``."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = str(base_path)
        HoodieTableMetaClient.init_table(
            self.base_path, table_name="t", record_key_fields="id", partition_fields="part", ordering_fields="ts"
        )

    def upsert(self, records: Any, **properties: Any) -> None:
        config = HoodieWriteConfig.from_properties(
            self.base_path, {name.replace("__", "."): value for name, value in properties.items()}
        )
        with HoodieLocalWriteClient(config) as client:
            client.upsert(records)

    def rows(self, *columns: str) -> Rows:
        table = hoodie.read_table(self.base_path, columns=["id", *columns])
        return sorted(table.to_pylist(), key=lambda row: row["id"])

    @property
    def schema(self) -> pa.Schema:
        return HoodieTableMetaClient.load(self.base_path).load_schema()

    @property
    def avro_schema(self) -> Any:
        text = HoodieTableMetaClient.load(self.base_path).load_avro_schema()
        return json.loads(text or "")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "t")


def rows(ids: str, part: str, ts: int, values: list[Any], data_type: pa.DataType) -> pa.Table:
    """One row for each letter, with its value in the column ``c``."""
    columns = [list(ids), [part] * len(ids), [ts] * len(ids), pa.array(values, data_type)]
    return pa.table(dict(zip(["id", "part", "ts", "c"], columns, strict=True)))


LOSSY = {"hoodie__write__schema__widen__lossy": "true"}
STEPS: list[tuple[pa.DataType, list[Any], pa.DataType, Any, list[Any]]] = [
    (pa.int32(), [1, None], pa.int64(), 2**40, [1, None]),
    (pa.int32(), [2**24 + 1, -1], pa.float32(), 0.5, [2.0**24, -1.0]),
    (pa.int32(), [2**31 - 1, -1], pa.float64(), 0.5, [2.0**31 - 1, -1.0]),
    (pa.int64(), [2**40 + 1, 3], pa.float32(), 0.5, [2.0**40, 3.0]),
    (pa.int64(), [2**53 + 1, 3], pa.float64(), 0.5, [2.0**53, 3.0]),
    (pa.float32(), [0.1, None], pa.float64(), 0.2, [0.1, None]),
]


@pytest.mark.parametrize(("old", "stored", "new", "value", "expected"), STEPS, ids=lambda value: str(value))
def test_a_wider_input_widens_the_column_in_files_that_are_merged_and_in_those_that_are_not(
    table: Table, old: pa.DataType, stored: list[Any], new: pa.DataType, value: Any, expected: list[Any]
) -> None:
    nested_old, nested_new = (pa.list_(pa.struct([("x", kind)])) for kind in (old, new))
    for part in ("merged", "left"):
        first = rows("ab" if part == "merged" else "yz", part, 1, stored, old)
        table.upsert(first.append_column("l", pa.array([[{"x": one}] for one in stored], nested_old)))
    change = rows("bc", "merged", 2, [value, value], new)
    table.upsert(change.append_column("l", pa.array([[{"x": value}]] * 2, nested_new)), **LOSSY)
    found = {row["id"]: row for row in table.rows("c", "l")}
    model = {"a": expected[0], "b": value, "c": value, "y": expected[0], "z": expected[1]}
    assert {key: row["c"] for key, row in found.items()} == pytest.approx(model)
    assert {key: row["l"] for key, row in found.items()} == {key: [{"x": one}] for key, one in model.items()}
    assert table.schema.field("c").type == new
    # Once more over a file of either schema, by an input that is as narrow as the column was.
    table.upsert(rows("y", "left", 3, [None], old).append_column("l", pa.array([None], nested_old)))
    assert table.rows("c")[3:] == [{"id": "y", "c": None}, {"id": "z", "c": expected[1]}]
    assert table.schema.field("c").type == new


def test_columns_are_added_anywhere_and_older_rows_are_null_there(table: Table) -> None:
    inner = pa.struct([("x", pa.int32())])
    old = pa.struct([("x", pa.int32()), ("m", pa.map_(pa.string(), inner)), ("l", pa.list_(inner))])
    value = {"x": 1, "m": [("k", {"x": 2})], "l": [{"x": 3}, None]}
    table.upsert(rows("ab", "p", 1, [value, None], old))
    table.upsert(rows("z", "q", 1, [value], old))
    wider_inner = pa.struct([("first", pa.string()), ("x", pa.int64())])
    new = pa.struct(
        [("l", pa.list_(wider_inner)), ("m", pa.map_(pa.string(), wider_inner)), ("n", pa.date32()), ("x", pa.int32())]
    )
    wide = {"l": [{"first": "f", "x": 2**40}], "m": [], "n": None, "x": 9}
    change = rows("bc", "p", 2, [wide, wide], new)
    table.upsert(change.add_column(1, "added", pa.array(["new", None])))
    old_value = {"x": 1, "m": [("k", {"x": 2, "first": None})], "l": [{"x": 3, "first": None}, None], "n": None}
    assert table.rows("added", "c") == [
        {"id": "a", "added": None, "c": old_value},
        {"id": "b", "added": "new", "c": wide},
        {"id": "c", "added": None, "c": wide},
        {"id": "z", "added": None, "c": old_value},
    ]
    assert table.schema.names == ["id", "part", "ts", "c", "added"]
    assert [field.name for field in table.schema.field("c").type] == ["x", "m", "l", "n"]


def test_text_and_bytes_go_into_a_column_of_the_other(table: Table) -> None:
    first = rows("a", "p", 1, ["ä"], pa.string()).append_column("d", pa.array([b"\x00"]))
    table.upsert(first)
    table.upsert(rows("b", "p", 1, ["ö".encode()], pa.binary()).append_column("d", pa.array(["x"])))
    assert table.rows("c", "d") == [{"id": "a", "c": "ä", "d": b"\x00"}, {"id": "b", "c": "ö", "d": b"x"}]
    with pytest.raises(HoodieSchemaException, match=r"column 'c' .*b'\\xff'"):
        table.upsert(rows("b", "p", 2, [b"\xff"], pa.binary()).append_column("d", pa.array(["x"])))


def test_everything_that_does_not_fit_is_named_with_both_types_and_nothing_is_written(table: Table) -> None:
    table.upsert(rows("a", "p", 1, [{"x": 1}], pa.struct([("x", pa.int32())])).append_column("d", pa.array([1])))
    before = table.rows("c", "d")
    bad = rows("a", "p", 2, [{"x": "1"}], pa.struct([("x", pa.string())])).append_column("d", pa.array([True]))
    with pytest.raises(SchemaCompatibilityException) as caught:
        table.upsert(bad)
    assert "c.x: the table has int32, the input string; d: the table has int64, the input bool" in str(caught.value)
    assert table.rows("c", "d") == before


def test_a_key_column_of_integers_does_not_become_one_of_floats(table: Table) -> None:
    base = rows("a", "p", 1, [1], pa.int64())
    table.upsert(base)
    path = str(Path(table.base_path).parent / "numbers")
    HoodieTableMetaClient.init_table(path, table_name="n", record_key_fields="c")
    with local_client(path) as client:
        client.upsert(base)
        client.upsert(rows("b", "p", 1, [1.0], pa.float64()))
        with pytest.raises(
            SchemaCompatibilityException, match=r"column 'c' is int64, and the input has the double 1\.5"
        ):
            client.upsert(rows("a", "p", 1, [1.5], pa.float64()))
    assert hoodie.read_table(path, columns=["id", "c"]).to_pylist() == [{"id": "b", "c": 1}]


def test_names_of_any_case_reach_the_tables_columns_keys_and_deletes_included(table: Table) -> None:
    table.upsert(rows("ab", "p", 1, [{"x": 1}] * 2, pa.struct([("x", pa.int64())])))
    renamed = rows("a", "p", 2, [{"X": 5}], pa.struct([("X", pa.int64())])).rename_columns(["ID", "Part", "TS", "C"])
    table.upsert(renamed)
    table.upsert([{"Id": "c", "part": "p", "Ts": 1, "C": {"x": 7}}])
    assert table.rows("c") == [{"id": key, "c": {"x": x}} for key, x in (("a", 5), ("b", 1), ("c", 7))]
    assert table.schema.names == ["id", "part", "ts", "c"]
    with local_client(table.base_path) as client:
        assert client.delete(pa.table({"ID": ["a"], "PART": ["p"]})).deleted_count == 1
    assert [row["id"] for row in table.rows()] == ["b", "c"]


def test_missing_columns_are_refused_or_null_as_the_option_says_nested_too(table: Table) -> None:
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    table.upsert(rows("a", "p", 1, [{"x": 1, "y": 2}], kind).append_column("d", pa.array([1])))
    less = rows("a", "p", 2, [{"y": 3}], pa.struct([("y", pa.int64())]))
    with pytest.raises(MissingSchemaFieldException, match=r"c\.x, d"):
        table.upsert(less)
    table.upsert(less, hoodie__write__set__null__for__missing__columns="true")
    assert table.rows("c", "d") == [{"id": "a", "c": {"x": None, "y": 3}, "d": None}]


DECLARED = json.dumps(
    {
        "type": "record",
        "name": "declared",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "part", "type": ["null", "string"], "default": None},
            {"name": "ts", "type": ["long", "null"]},
            {"name": "c", "type": ["null", "float"], "default": None},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        ],
    }
)


def test_a_declared_schema_gives_dicts_their_types_and_a_new_table_its_columns(table: Table) -> None:
    table.upsert([{"id": "a", "part": "p", "ts": 1}], hoodie__avro__schema=DECLARED)
    assert table.schema == pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            ("part", pa.string()),
            ("ts", pa.int64()),
            ("c", pa.float32()),
            ("at", pa.timestamp("us")),
        ]
    )
    assert table.avro_schema["name"] == "t_record"
    wide = DECLARED.replace('"float"', '"double"')
    table.upsert([{"id": "a", "part": "p", "ts": 2, "c": 0.1, "at": None}], hoodie__avro__schema=wide)
    assert table.rows("c") == [{"id": "a", "c": 0.1}]
    assert table.schema.field("c").type == pa.float64()


def test_a_declared_column_of_integers_stays_one_when_the_first_frame_of_pandas_has_a_gap(table: Table) -> None:
    declared = DECLARED.replace('"float"', '"long"')
    half = pd.DataFrame({"id": ["a", "b"], "part": "p", "ts": 1, "c": [1.5, None], "at": None})
    with pytest.raises(SchemaCompatibilityException, match=r"column 'c' is int64.* double 1\.5 there"):
        table.upsert(half, hoodie__avro__schema=declared)
    table.upsert(half.assign(c=[7, None]), hoodie__avro__schema=declared)
    assert table.schema.field("c").type == pa.int64()
    table.upsert(rows("a", "p", 2, [2**53 + 1], pa.int64()), hoodie__write__set__null__for__missing__columns="true")
    assert table.rows("c") == [{"id": "a", "c": 2**53 + 1}, {"id": "b", "c": None}]


@pytest.mark.parametrize("value", ["x", True, [1]], ids=repr)
def test_an_ordering_value_of_another_type_is_named(table: Table, value: Any) -> None:
    table.upsert(rows("a", "p", 1, [1], pa.int64()))
    record = HoodieRecord(HoodieKey("a", "p"), {"id": "a", "part": "p", "ts": 2, "c": 2}, ordering_value=value)
    with pytest.raises(SchemaCompatibilityException, match="'ordering_value': the table has int64"):
        table.upsert([record])


def test_an_ordering_value_of_a_float_is_taken_where_it_is_whole(table: Table) -> None:
    table.upsert(rows("a", "p", 1, [1], pa.int64()))
    data = {"id": "a", "part": "p", "ts": 2, "c": 2}
    with pytest.raises(SchemaCompatibilityException, match=r"column 'ordering_value' is int64.* 1\.5 there"):
        table.upsert([HoodieRecord(HoodieKey("a", "p"), data, ordering_value=1.5)])
    table.upsert([HoodieRecord(HoodieKey("a", "p"), data, ordering_value=2.0)])
    assert table.rows("c") == [{"id": "a", "c": 2}]


def test_a_frame_of_pandas_with_a_gap_leaves_a_column_of_integers_as_it_is(table: Table) -> None:
    largest = 2**53 + 1
    table.upsert(rows("ab", "p", 1, [largest, 1], pa.int64()))
    frame = pd.DataFrame({"id": ["b", "c"], "part": ["p", "p"], "ts": [2, None], "c": [7, None]})
    assert frame["c"].dtype == frame["ts"].dtype == "float64"
    with pytest.raises(HoodieException, match="null"):
        table.upsert(frame)
    table.upsert(frame.assign(ts=2))
    assert table.rows("c") == [{"id": "a", "c": largest}, {"id": "b", "c": 7}, {"id": "c", "c": None}]
    assert table.schema.field("c").type == table.schema.field("ts").type == pa.int64()
    # That is what pandas makes of 2^53 + 1 beside a gap: nobody can tell any more.
    with pytest.raises(SchemaCompatibilityException, match=r"column 'c' is int64.* double 9007199254740992\.0 there"):
        table.upsert(pd.DataFrame({"id": ["b", "c"], "part": "p", "ts": 3, "c": [largest, None]}))
    assert table.rows("c")[0] == {"id": "a", "c": largest}


@pytest.mark.parametrize("value", [1.5, 2.0**53, np.float32(2**24), float("nan"), float("inf")], ids=repr)
def test_a_float_of_a_dict_that_is_no_integer_of_the_column_is_refused(table: Table, value: Any) -> None:
    table.upsert(rows("a", "p", 1, [1], pa.int64()))
    for properties in ({}, LOSSY):
        with pytest.raises(HoodieSchemaException, match="column 'c'"):
            table.upsert([{"id": "a", "part": "p", "ts": 2, "c": value}], **properties)
    table.upsert([{"id": "a", "part": "p", "ts": 2, "c": np.float32(3)}, {"id": "b", "part": "p", "ts": 1, "c": -4.0}])
    assert table.rows("c") == [{"id": "a", "c": 3}, {"id": "b", "c": -4}]


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite_table"])
def test_a_bad_value_in_a_late_batch_of_a_stream_fails_the_write_and_leaves_no_file(
    table: Table, operation: str
) -> None:
    table.upsert(rows("ab", "p", 1, [2**53 + 1, 1], pa.int64()))
    before = table.rows("c"), sorted(Path(table.base_path).rglob("*.parquet"))

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            yield from rows("z", f"p{number}", 1, [0.5 if number == 39 else number], pa.float64()).to_batches()

    with (
        local_client(table.base_path) as client,
        pytest.raises(SchemaCompatibilityException, match=r"column 'c' is int64.* double 0\.5 there"),
    ):
        getattr(client, operation)(batches())
    assert (table.rows("c"), sorted(Path(table.base_path).rglob("*.parquet"))) == before


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_reach_the_tables_or_are_refused_by_value(table: Table, unit: str) -> None:
    table.upsert(rows("ab", "p", 1, [1_000_001, None], pa.timestamp("us", "UTC")))
    one = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    table.upsert(rows("b", "p", 2, [-5 * one], pa.timestamp(unit, "Asia/Tokyo")))
    stored = pc.cast(hoodie.read_table(table.base_path).sort_by("id")["c"], pa.int64()).to_pylist()
    assert stored == [1_000_001, -5_000_000]
    if unit in ("s", "ms", "ns"):
        bad, text = (2**60, str(2**60)) if unit != "ns" else (1_001, "1001 ns")
        with pytest.raises(HoodieSchemaException, match=f"column 'c' .*first value: {text}"):
            table.upsert(rows("ab", "p", 3, [0, bad], pa.timestamp(unit, "UTC")))
    assert table.schema.field("c").type == pa.timestamp("us", "UTC")


def test_a_key_column_of_nulls_only_is_a_key_error(table: Table) -> None:
    nothing = {"id": pa.nulls(2), "part": ["p", "p"], "ts": [1, 1]}
    with pytest.raises(HoodieKeyException, match="'id', a record key field of the table, is null in all records"):
        table.upsert(pa.table(nothing))
    table.upsert(rows("a", "p", 1, [1], pa.int64()))
    with pytest.raises(HoodieKeyException, match="column 'id' is null or empty in 2 records"):
        table.upsert(pa.table({**nothing, "c": [1, 1]}))
    with (
        local_client(table.base_path) as client,
        pytest.raises(HoodieKeyException, match="2 of the records to delete have no usable key"),
    ):
        client.delete(pa.table(nothing))


FOREIGN = {
    "type": "record",
    "name": "t_record",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "part", "type": ["string", "null"]},
        {"name": "ts", "type": ["long", "null"]},
        {"name": "colour", "type": ["null", {"type": "enum", "name": "colour", "symbols": ["RED"]}]},
        {"name": "code", "type": {"type": "fixed", "name": "code", "size": 3}},
        {"name": "small", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}]},
    ],
}


def test_types_that_only_other_writers_make_are_written_on(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="part", schema=json.dumps(FOREIGN)
    )
    row = {"id": "a", "part": "p", "ts": None, "colour": "RED", "code": b"abc", "small": Decimal("1.25")}
    with local_client(path) as client:
        client.upsert([row])
        client.upsert([row | {"id": "b", "colour": "GREEN"}])
        with pytest.raises(HoodieSchemaException, match="column 'code'"):
            client.upsert([row | {"code": b"abcd"}])
        with pytest.raises(HoodieSchemaException, match="column 'code'"):
            client.upsert(pa.Table.from_pylist([row | {"code": b"ab"}]))
    columns = list(row)
    found = sorted(hoodie.read_table(path, columns=columns).to_pylist(), key=lambda item: item["id"])
    assert found == [row, row | {"id": "b", "colour": "GREEN"}]
    stored = json.loads(HoodieTableMetaClient.load(path).load_avro_schema() or "")
    types = {field["name"]: field["type"] for field in stored["fields"]}
    wanted = {field["name"]: field["type"] for field in FOREIGN["fields"]}
    assert types == wanted | {"colour": ["null", "string"]}


def test_files_that_lack_a_column_are_filtered_by_it_and_read_without_the_others(table: Table) -> None:
    table.upsert(rows("ab", "old", 1, [1, 2], pa.int64()))
    table.upsert(rows("cd", "new", 1, [3, 4], pa.int64()).append_column("more", pa.array([None, "x"])))
    read = partial(hoodie.read_table, table.base_path)
    assert sorted(read(columns=["id"], filters=[("c", ">", 1)])["id"].to_pylist()) == ["b", "c", "d"]
    assert read(columns=["id", "more"], filters=[("more", "=", "x")]).to_pylist() == [{"id": "d", "more": "x"}]
    assert sorted(read(columns=["id"], filters=pc.field("more").is_null())["id"].to_pylist()) == ["a", "b", "c"]
    # Now with files whose types are the narrower ones.
    table.upsert(rows("e", "newest", 1, [0.5], pa.float64()).append_column("more", pa.array(["y"])), **LOSSY)
    assert sorted(read(columns=["id"], filters=[("c", ">=", 2.0)])["id"].to_pylist()) == ["b", "c", "d"]
    assert sorted(read(columns=["c"])["c"].to_pylist()) == [0.5, 1.0, 2.0, 3.0, 4.0]
    assert sorted(read(columns=["id"])["id"].to_pylist()) == list("abcde")


def test_a_column_that_allows_no_nulls_is_widened_by_one_that_allows_none_either(table: Table) -> None:
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])
    required = schema.append(pa.field("c", pa.struct([pa.field("x", pa.int32(), nullable=False)]), nullable=False))
    table.upsert(pa.Table.from_pylist([{"id": "a", "part": "p", "ts": 1, "c": {"x": 1}}], required))
    wide = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    wider = schema.append(pa.field("c", wide, nullable=False))
    table.upsert(pa.Table.from_pylist([{"id": "b", "part": "p", "ts": 2, "c": {"x": 2**40}}], wider))
    assert table.schema.field("c").equals(pa.field("c", wide, nullable=False))
    assert table.rows("c") == [{"id": "a", "c": {"x": 1}}, {"id": "b", "c": {"x": 2**40}}]
    # Both at once: a wider type, and nulls.
    table.upsert(rows("a", "p", 2, [None], pa.struct([("x", pa.float64())])))
    table.upsert(rows("c", "p", 2, [{"x": None}], pa.struct([("x", pa.int64())])))
    assert table.rows("c")[0] == {"id": "a", "c": None}
    assert table.schema.field("c").equals(pa.field("c", pa.struct([("x", pa.int64())])))


def test_an_integer_that_became_a_float_and_then_a_double_has_the_digits_of_what_its_file_holds(table: Table) -> None:
    largest, ts = 2**31 - 1, pa.array([1, 1], pa.int64())
    integers = pa.array([largest] * 2, pa.int32())
    table.upsert(pa.table({"id": ["a", "b"], "part": ["x", "y"], "ts": ts, "n": integers}))
    table.upsert(pa.table({"id": ["c"], "part": ["x"], "ts": ts[:1], "n": pa.array([1.5], pa.float32())}), **LOSSY)
    assert [row["n"] for row in table.rows("n")] == [2147483648.0, 2147483648.0, 1.5]
    table.upsert(pa.table({"id": ["d"], "part": ["z"], "ts": ts[:1], "n": pa.array([1.5], pa.float64())}))
    assert [row["n"] for row in table.rows("n")] == [2147483600.0, 2147483647.0, 1.5, 1.5]
